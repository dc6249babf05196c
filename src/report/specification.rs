//! A study's specification in words: budget, algorithms and search space.

use super::wording::{duration, number, one_line, param};
use crate::study::budget::Count;
use crate::study::counted::count;
use crate::study::params::Value;
use crate::study::space::{Dimension, Distribution, Scale};
use crate::study::spec::{AlgorithmSpec, Duplicates, StudySpec};

/// How configurations are compared, if not by one run each.
pub fn comparison(spec: &StudySpec) -> Option<String> {
    let parts: Vec<String> = [
        (spec.replicates > 1)
            .then(|| format!("{} runs of each configuration that completes", spec.replicates)),
        (spec.race > 0)
            .then(|| format!("a race at the end: the best {} run again on fresh seeds", spec.race)),
        (spec.duplicates == Duplicates::Replicate)
            .then(|| "a configuration that is proposed again runs on another seed".to_owned()),
        spec.deterministic
            .then(|| "deterministic: decisions do not depend on which trial is faster".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The limits of a study, or that it has none.
pub fn budget(spec: &StudySpec) -> String {
    let budget = &spec.budget;
    let which = match budget.count {
        Count::Finished => "complete or pruned",
        Count::Completed => "complete",
        Count::All => "ended in any way",
    };
    let parts: Vec<String> = [
        budget.trials.map(|trials| format!("{} ({which})", count(trials, "trial"))),
        budget.time.map(duration),
        budget.target.map(|target| match spec.has_several_objectives() {
            true => format!("a hypervolume of {}", number(target)),
            false => format!("a value of {}", number(target)),
        }),
        budget.failures.map(|failures| format!("{} at most", count(failures, "failed trial"))),
        budget.trial_time.map(|time| format!("{} for each attempt", duration(time))),
        budget.stall_time.map(|time| format!("{} without a report", duration(time))),
        budget.trial_patience.map(|patience| {
            let reports = count(patience, "report");
            match budget.trial_min_delta {
                Some(delta) => format!(
                    "{reports} of a trial without an improvement by more than {}",
                    number(delta)
                ),
                None => format!("{reports} of a trial without an improvement"),
            }
        }),
        budget
            .patience
            .map(|patience| format!("{} without a better one", count(patience, "trial"))),
        budget.device_hours.map(|hours| format!("{} device-hours", number(hours))),
        budget.cost.map(|cost| format!("a cost of {}", number(cost))),
        budget.price_per_hour.map(|price| format!("{} for a device-hour", number(price))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { "no limit".to_owned() } else { parts.join(", ") }
}

/// A sampler or pruner with its options.
pub fn algorithm(algorithm: &AlgorithmSpec) -> String {
    let options: Vec<String> =
        algorithm.options.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let options =
        if options.is_empty() { String::new() } else { format!(" with {}", options.join(", ")) };
    one_line(&format!("{}{options}", algorithm.name))
}

/// The kind of a parameter.
pub fn kind(distribution: &Distribution) -> &'static str {
    match distribution {
        Distribution::Float { scale: Scale::Linear, .. } => "float",
        Distribution::Float { scale: Scale::Log, .. } => "float, log",
        Distribution::Int { scale: Scale::Linear, .. } => "int",
        Distribution::Int { scale: Scale::Log, .. } => "int, log",
        Distribution::Choice { .. } => "choice",
    }
}

/// The values that a parameter may have.
pub fn values(distribution: &Distribution) -> String {
    match distribution {
        Distribution::Float { low, high, step, .. } => {
            let exact = |bound: f64| Value::Float(bound).to_string();
            let step = step.map(|step| format!(" in steps of {}", exact(step)));
            format!("{} to {}{}", exact(*low), exact(*high), step.unwrap_or_default())
        }
        Distribution::Int { low, high, step: 1, .. } => format!("{low} to {high}"),
        Distribution::Int { low, high, step, .. } => format!("{low} to {high} in steps of {step}"),
        Distribution::Choice { choices } => {
            choices.iter().map(param).collect::<Vec<_>>().join(", ")
        }
    }
}

/// When a parameter is active; empty: always.
pub fn condition(dimension: &Dimension) -> String {
    let Some(condition) = &dimension.when else {
        return String::new();
    };
    let clauses: Vec<String> = condition
        .0
        .iter()
        .map(|(parent, values)| {
            format!("{parent} is {}", values.iter().map(param).collect::<Vec<_>>().join(" or "))
        })
        .collect();
    one_line(&clauses.join(" and "))
}
