//! Where trials were stopped, and how many continued.

use std::collections::BTreeSet;

use super::of_study::{present, series, whole};
use super::{Axis, Figure, Mark, SeriesRole};
use crate::report::wording::one_line;
use crate::study::outcome::Outcome;
use crate::study::spec::StudySpec;
use crate::study::trial::TrialState;

/// For each step at which a trial was stopped, and the last: how many trials reached it, and how
/// many went further or completed there.
pub fn rungs(spec: &StudySpec, outcomes: &[Outcome]) -> Figure<'static> {
    let ended = |outcome: &&Outcome| {
        matches!(outcome.state, TrialState::Pruned | TrialState::Complete | TrialState::Paused)
    };
    let reached: Vec<(u64, TrialState)> = outcomes
        .iter()
        .filter(ended)
        .filter_map(|outcome| Some((outcome.last_step?, outcome.state)))
        .collect();
    let stops = reached.iter().filter(|(_, state)| *state != TrialState::Complete);
    let mut steps: BTreeSet<u64> = stops.map(|(step, _)| *step).collect();
    steps.extend(reached.iter().map(|(step, _)| *step).max());
    let count = |holds: &dyn Fn(u64, TrialState) -> bool| {
        whole(reached.iter().filter(|(step, state)| holds(*step, *state)).count() as u64)
    };
    let (mut all, mut continued, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (index, rung) in (0_u64..).map(whole).zip(&steps) {
        let here = count(&|step, _| step >= *rung);
        let further =
            count(&|step, state| step > *rung || step == *rung && state == TrialState::Complete);
        all.extend([(index, 0.0), (index, here)]);
        continued.extend([(index, 0.0), (index, further)]);
        names.push((index, rung.to_string()));
    }
    let last = whole(steps.len() as u64);
    let most = whole(reached.len() as u64).max(1.0);
    Figure {
        title: one_line(&format!("{}: trials by rung", spec.name)),
        x: Axis {
            ends: Some((-0.6, (last - 0.4).max(0.6))),
            names,
            ..Axis::linear().labelled(spec.step.as_str())
        },
        y: Axis { ends: Some((0.0, most)), ..Axis::whole().labelled("trials") },
        cells: None,
        series: present(vec![
            series("stopped or paused there", all, Mark::Bars, SeriesRole::Behind),
            series("continued or completed", continued, Mark::Bars, SeriesRole::Compared(0)),
        ]),
        empty: "no trial was stopped or has completed",
    }
}
