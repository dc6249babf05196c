//! `[pruner] type = "pbt"` against the other tables: whole populations, parameters that may change
//! while a model trains, and runs that a schedule cannot be compared by.

use super::diagnostic::Diagnostic;
use super::sampler_pruner::Chosen;
use super::section::Section;
use super::space::{Parameter, Searched};
use super::trainer::canonical;
use crate::arguments::{ARGUMENTS, CHANGEABLE};
use crate::pruners::{MODEL, POPULATION, is_asynchronous, is_population};
use crate::study::program::Program;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;

/// Checks a study whose trials are members of populations.
pub(super) fn check(
    spec: &StudySpec,
    pruner: &Chosen<'_>,
    study: &Section<'_>,
    budget: &Section<'_>,
    searched: &Searched,
    problems: &mut Vec<Diagnostic>,
) {
    if !is_population(&spec.pruner) {
        return;
    }
    let size = POPULATION.of::<u64>(&spec.pruner);
    if let Some(trials) = spec.budget.trials.filter(|trials| !trials.is_multiple_of(size)) {
        let place = budget.place_of("trials").or(pruner.place);
        let message = format!("{trials} trials do not form populations of {size}");
        let whole = trials.next_multiple_of(size);
        problems.push(Diagnostic::error(place, message).help(format!(
            "write `trials = {whole}` under [budget], or another `population` under [pruner]"
        )));
    }
    for key in ["replicates", "race"] {
        let runs = if key == "race" { spec.race } else { spec.replicates - 1 };
        if runs > 0 {
            let message = "final parameters of a population are the last of a schedule: runs of \
                them measure nothing";
            let problem = Diagnostic::error(study.place_of(key), message);
            problems.push(problem.help(format!("leave `{key}` out")));
        }
    }
    if spec.budget.trial_patience.is_some() {
        let message = "the best members of a population are copied to others: one that no longer \
            improves is not complete";
        let problem = Diagnostic::error(budget.place_of("trial_patience"), message);
        problems.push(problem.help("leave `trial_patience` out"));
    }
    if spec.deterministic && is_asynchronous(&spec.pruner) {
        let message = "with `asynchronous`, decisions depend on which member is faster: \
            `deterministic` cannot hold";
        let problem = Diagnostic::error(study.place_of("deterministic"), message);
        problems.push(problem.help("leave one of the two out"));
    }
    if !spec.candidates.is_empty() {
        let message = "members of a population get values that are not in the file of [space]";
        let problem = Diagnostic::error(pruner.place, message);
        problems.push(problem.help("search the file with `asha`, or leave `file` out"));
    }
    let is_number = |parameter: &Parameter| {
        !matches!(parameter.dimension.distribution, Distribution::Choice { .. })
    };
    if MODEL.of(&spec.pruner) && !searched.parameters.iter().any(is_number) {
        let place = pruner.section.place_of(MODEL.name).or(pruner.place);
        let message = "`model` chooses numbers, and all parameters of [space] are choices";
        problems.push(Diagnostic::error(place, message).help("leave `model` out"));
    }
    if !matches!(spec.program, Program::Trainer { .. }) {
        return;
    }
    for parameter in &searched.parameters {
        let name = canonical(ARGUMENTS, &parameter.dimension.name);
        if !CHANGEABLE.contains(&name) {
            let message = format!("`{name}` cannot change while a model trains, as `pbt` requires");
            problems.push(Diagnostic::error(parameter.place, message).help(format!(
                "fix it under [trainer], or search with `asha`; these may change: {}",
                CHANGEABLE.join(", ")
            )));
        }
    }
}
