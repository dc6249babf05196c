//! How a study was run: budget, algorithms, what was stopped and why, and what repeating it needs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::app::AppError;
use crate::app::study_state::{elapsed, state_in, unmeasured};
use crate::report::ahead;
use crate::report::document::privacy::{Privacy, PrivatePart};
use crate::report::specification::{algorithm, budget, comparison, condition, kind, values};
use crate::report::wording::{
    StudyStatus, attempt_end, bytes, duration, one_line, param, states_of,
};
use crate::runner;
use crate::storage::{StorageReader, StudySummary};
use crate::study::decision::{Decision, Reason};
use crate::study::event::AttemptEnd;
use crate::study::params::Value;
use crate::study::program::Program;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::space::Distribution;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// A fact with its title.
pub type Fact = (String, String);

/// A parameter of the search space, in words.
#[derive(Debug, Serialize)]
pub struct ParamPart {
    /// Its name.
    pub name: String,
    /// `float`, `int, log`, `choice`.
    pub kind: &'static str,
    /// The values that it may have.
    pub range: String,
    /// What its values are in filters: `number`, `flag`, `text` or `mixed`; `None`: unknown.
    pub values: Option<&'static str>,
    /// Whether some of its values are numbers, which have an order.
    pub is_ordered: bool,
    /// What is believed to be good.
    pub prior: Option<String>,
    /// When it is active; empty: always.
    pub condition: String,
}

/// What the values of a parameter are in filters.
fn values_are(distribution: &Distribution) -> Option<&'static str> {
    let Distribution::Choice { choices } = distribution else { return Some("number") };
    let mut kinds = choices.iter().map(|choice| match choice {
        Value::Bool(_) => "flag",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Text(_) | Value::List(_) | Value::Null => "text",
    });
    let first = kinds.next()?;
    Some(if kinds.all(|kind| kind == first) { first } else { "mixed" })
}

fn is_ordered(distribution: &Distribution) -> bool {
    match distribution {
        Distribution::Float { .. } | Distribution::Int { .. } => true,
        Distribution::Choice { choices } => {
            choices.iter().any(|choice| choice.as_number().is_some())
        }
    }
}

impl ParamPart {
    /// A parameter of tracked runs, of which only the name is known.
    pub fn of_runs(name: String) -> Self {
        let (range, condition) = (String::new(), String::new());
        ParamPart { name, kind: "", range, values: None, is_ordered: true, prior: None, condition }
    }
}

/// The search space of a study.
pub fn space(study: &StudySummary) -> Vec<ParamPart> {
    let dimensions = study.spec.space.dimensions().iter();
    dimensions
        .map(|dimension| ParamPart {
            name: dimension.name.clone(),
            kind: kind(&dimension.distribution),
            range: values(&dimension.distribution),
            values: values_are(&dimension.distribution),
            is_ordered: is_ordered(&dimension.distribution),
            prior: dimension.prior.as_ref().map(param),
            condition: condition(dimension),
        })
        .collect()
}

/// How far the study is, and what it used.
///
/// # Errors
/// The store failed.
pub fn used(reader: &dyn StorageReader, study: &StudySummary) -> Result<Vec<Fact>, AppError> {
    let (spec, state) = (&study.spec, state_in(reader, study)?);
    let running = if state == StudyStatus::Interrupted { "interrupted" } else { "running" };
    let trials = states_of(spec, study.counts, running).unwrap_or_else(|| "none".to_owned());
    let used = reader.used(study.id)?;
    let device_time = match state {
        StudyStatus::Running => used.device_time(runner::now()),
        _ => used.busy,
    };
    let mut facts = vec![("trials", trials), ("time", duration(elapsed(reader, study)?))];
    if !spec.is_tracked() {
        facts.push(("device time", ahead::device_hours(device_time.as_secs_f64() / 3600.0)));
        facts.extend(spec.budget.price_of(device_time).map(|cost| ("cost", format!("{cost:.2}"))));
        facts.push(("budget", budget(spec)));
        let unmeasured = unmeasured(reader, study)?;
        facts.extend(unmeasured.map(|why| ("goal", one_line(&why.to_string()))));
    }
    if used.measured.0 > 0 {
        facts.push(("checkpoints", bytes(used.measured.1)));
    }
    Ok(facts.into_iter().map(|(title, text)| (title.to_owned(), text)).collect())
}

/// The rules of the search.
pub fn rules(study: &StudySummary, privacy: &Privacy) -> Vec<Fact> {
    let spec = &study.spec;
    let value = spec.value_in_words();
    let mut facts =
        vec![("value", format!("{value}; reports are counted in {}", spec.step.plural()))];
    if !spec.is_tracked() {
        facts.push(("sampler", algorithm(&spec.sampler)));
        facts.push(("pruner", algorithm(&spec.pruner)));
        let objective = match &spec.program {
            Program::Trainer { .. } => "the built-in trainer".to_owned(),
            Program::Command { run, .. } if privacy.includes(PrivatePart::Host) => {
                format!("`{}`", one_line(&run.join(" ")))
            }
            Program::Command { .. } => "a command".to_owned(),
            Program::Inline => "a function of the program that made the study".to_owned(),
        };
        facts.push(("objective", objective));
        facts.extend(comparison(spec).map(|text| ("comparison", text)));
        facts.extend(
            spec.constraints.iter().map(|constraint| ("constraint", constraint.to_string())),
        );
        facts.push(("seed", spec.seed.to_string()));
        let version = |version: u32| format!("rules of version {version}");
        facts.push(("sampler version", version(spec.sampler.version)));
        facts.push(("pruner version", version(spec.pruner.version)));
    }
    facts.into_iter().map(|(title, text)| (title.to_owned(), text)).collect()
}

/// Trials that ended early for the same kind of reason.
#[derive(Debug, Serialize)]
pub struct StoppedGroup {
    /// `pruned` or `failed`.
    pub state: TrialState,
    /// Why, in a few words.
    pub why: String,
    /// Number of trials in the group.
    pub trials: u64,
    /// The newest of them, with its reason.
    pub example: (TrialNumber, Option<String>),
}

/// What ended early.
#[derive(Debug, Serialize)]
pub struct StoppedPart {
    /// Why the study itself ended, or is paused.
    pub study: Option<String>,
    /// Trials, the most frequent kind first.
    pub groups: Vec<StoppedGroup>,
}

/// What was stopped in a study and why.
///
/// # Errors
/// The store failed.
pub fn stopped(reader: &dyn StorageReader, study: &StudySummary) -> Result<StoppedPart, AppError> {
    let mut ends: BTreeMap<TrialNumber, AttemptEnd> = BTreeMap::new();
    for attempt in reader.attempts(study.id, None)? {
        ends.extend(attempt.end.map(|end| (attempt.trial, end)));
    }
    let filter =
        Filter::parse("state:pruned,failed", &study.spec).unwrap_or_else(|_| Filter::all());
    let query = TrialQuery::all(SortKey::Number).filtered(study.visible(filter));
    let mut groups: Vec<StoppedGroup> = Vec::new();
    for trial in reader.trials(study.id, &query)? {
        let why = match (trial.state, ends.get(&trial.number)) {
            (TrialState::Pruned, _) => why_stopped(&trial)
                .unwrap_or_else(|| format!("stopped by {}", study.spec.pruner.name)),
            (_, end) => end.map_or("failed", |end| attempt_end(Some(end))).to_owned(),
        };
        let example = (trial.number, trial.reason.as_deref().map(one_line));
        let is_same = |group: &&mut StoppedGroup| group.state == trial.state && group.why == why;
        match groups.iter_mut().find(is_same) {
            Some(group) => {
                group.trials += 1;
                group.example = example;
            }
            None => groups.push(StoppedGroup { state: trial.state, why, trials: 1, example }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.trials));
    let study = study.finished.clone().or_else(|| study.paused.clone());
    Ok(StoppedPart { study, groups })
}

/// Why a pruner stopped a trial, without the numbers of each.
fn why_stopped(trial: &Trial) -> Option<String> {
    let decided = trial.decisions.iter().rev().find_map(|decision| match &decision.verdict {
        Decision::Stop(reason) | Decision::Pause(reason) => Some(reason),
        Decision::Continue(_) => None,
    });
    let rule = match decided {
        Some(Reason::Rank { .. }) => "its rank at a rung",
        Some(Reason::Rung { .. }) => "waits at a rung, and was not promoted",
        Some(Reason::Ready { .. }) => "waited for its population",
        Some(Reason::Percentile { percentile, .. }) if percentile.0 == 50.0 => {
            "worse than the median at the same step"
        }
        Some(Reason::Percentile { .. }) => "worse than a percentile at the same step",
        Some(Reason::Patience { .. }) => "no better for several reports",
        Some(Reason::Plateau { .. }) => "no longer improved",
        Some(Reason::Threshold { .. }) => "outside of a fixed bound",
        Some(Reason::Limit { .. }) => "beyond a limit",
        Some(Reason::Wilcoxon { .. }) => "worse than the best trial by a signed-rank test",
        Some(Reason::Forecast { .. }) => "forecast to end worse than the best",
        Some(Reason::Nan { .. } | Reason::OnlyNan { .. }) => "NaN",
        None
        | Some(
            Reason::Promoted { .. }
            | Reason::NotPaused { .. }
            | Reason::Concluded { .. }
            | Reason::Survived { .. }
            | Reason::Exploited { .. }
            | Reason::Migrated { .. }
            | Reason::Reached(_)
            | Reason::Held(_)
            | Reason::Recorded(_),
        ) => return trial.reason.as_deref().map(|reason| without_numbers(&one_line(reason))),
    };
    Some(rule.to_owned())
}

/// A sentence with `N` for each number, so that those that differ in numbers alone are one.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_in_number = false;
    for char in text.chars() {
        let is_digit = char.is_ascii_digit() || (is_in_number && char == '.');
        if is_digit && !is_in_number {
            out.push('N');
        }
        if !is_digit {
            out.push(char);
        }
        is_in_number = is_digit;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_that_differ_in_numbers_are_one() {
        let one = without_numbers("rank 9 of 12 at step 300; 4 continue");
        assert_eq!(one, without_numbers("rank 10 of 3 at step 1.5; 44 continue"));
        assert_eq!(one, "rank N of N at step N; N continue");
    }
}
