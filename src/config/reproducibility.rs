//! `deterministic`, `replicates` and `race` against the budget: contradictions, and limits that
//! weaken them.

use super::diagnostic::Diagnostic;
use super::section::Section;
use crate::study::spec::StudySpec;

/// Limits that depend on the clock.
const CLOCKS: &[&str] = &["time", "device_hours", "cost", "trial_time", "stall_time"];

/// Checks `[study]` against the keys of `[budget]`.
pub(super) fn check(
    spec: &StudySpec,
    budget: &Section<'_>,
    devices: &Section<'_>,
    problems: &mut Vec<Diagnostic>,
) {
    if let Some(trials) = spec.budget.trials.filter(|trials| *trials < u64::from(spec.replicates)) {
        let message = format!(
            "`budget.trials = {trials}` leaves no room for the {} runs of one configuration",
            spec.replicates
        );
        let problem = Diagnostic::error(budget.place_of("trials"), message).label("it counts runs");
        problems.push(problem.help(format!(
            "for 50 configurations write trials = {}",
            50 * u64::from(spec.replicates)
        )));
    }
    if !spec.deterministic {
        return;
    }
    if spec.devices.automatic_concurrency {
        let message = "how many trials share a device is measured, so `deterministic = true` \
            cannot hold";
        let place = devices.place_of("trials_per_device");
        problems.push(
            Diagnostic::error(place, message)
                .help("give a number of trials, as trials_per_device = 2"),
        );
    }
    for node in CLOCKS.iter().filter_map(|key| budget.node(key)) {
        let problem = Diagnostic::warning(
            node.place,
            "this ends trials or the study by the clock, so `deterministic = true` cannot hold",
        );
        problems.push(problem.help(
            "as long as it is not reached, decisions do not depend on timing; `budget.trials` ends \
                a study at the same trial",
        ));
    }
}
