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
use crate::study::decision::Decision;
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
    /// `float`, `int, log`, `choice`; empty: the runs of a study of them do not differ in it.
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

/// The parameters of these names of tracked runs: those in which the runs differ, as the space of
/// `compared` has them; of the others only the name, and no kind.
pub fn params_of_runs(compared: &StudySummary, names: Vec<String>) -> Vec<ParamPart> {
    let mut known: BTreeMap<String, ParamPart> =
        space(compared).into_iter().map(|param| (param.name.clone(), param)).collect();
    let param = |name: String| {
        known.remove(&name).unwrap_or_else(|| ParamPart {
            name,
            kind: "",
            range: String::new(),
            values: None,
            is_ordered: true,
            prior: None,
            condition: String::new(),
        })
    };
    names.into_iter().map(param).collect()
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
    pub why: &'static str,
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
        let why = why_stopped(&trial, ends.get(&trial.number));
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

/// Why a trial ended early, without the numbers of each: by the rule of its pruner, or else as its
/// last attempt ended.
fn why_stopped(trial: &Trial, end: Option<&AttemptEnd>) -> &'static str {
    let decided = trial.decisions.iter().rev().find_map(|decision| match &decision.verdict {
        Decision::Stop(reason) | Decision::Pause(reason) => Some(reason),
        Decision::Continue(_) => None,
    });
    match (trial.state, decided, end) {
        (TrialState::Pruned, Some(reason), _) => reason.rule(),
        (_, _, Some(end)) => attempt_end(Some(end)),
        (state, _, None) => state.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::decision::Reason;
    use crate::study::params::Params;
    use crate::study::step::{StepUnit, UnitStep};
    use crate::study::time::Timestamp;
    use crate::study::trial::{DecisionAtStep, Origin};

    #[test]
    fn trials_that_ended_by_one_cause_have_one_reason_whatever_their_sentences_say() {
        let created = Timestamp(0);
        let trial = |state, reason: &str, verdict: Option<Decision>| Trial {
            state,
            reason: Some(reason.to_owned()),
            decisions: verdict
                .map(|verdict| DecisionAtStep { step: 3, verdict })
                .into_iter()
                .collect(),
            ..Trial::new(TrialNumber(0), Params::new(), Origin::Asked, created)
        };
        let nan = |step| {
            let at = UnitStep { unit: StepUnit::Step, step };
            Some(Decision::Stop(Reason::Nan { at }))
        };
        for (state, reason, verdict, end, expected) in [
            (TrialState::Pruned, "one", nan(1), AttemptEnd::Stopped, "NaN"),
            (TrialState::Pruned, "another", nan(7), AttemptEnd::Stopped, "NaN"),
            (TrialState::Pruned, "diverged: nan", None, AttemptEnd::Diverged, "diverged"),
            (TrialState::Pruned, "diverged: loss inf", None, AttemptEnd::Diverged, "diverged"),
            (TrialState::Failed, "killed on request", None, AttemptEnd::Interrupted, "interrupted"),
        ] {
            assert_eq!(
                why_stopped(&trial(state, reason, verdict), Some(&end)),
                expected,
                "{reason}"
            );
        }
        assert_eq!(why_stopped(&trial(TrialState::Failed, "told", None), None), "failed");
    }
}
