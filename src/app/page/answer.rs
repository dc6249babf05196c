//! What a study found: its best configuration, how sure that is, and what it beat.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{BestOf, FrontPart};
use crate::app::AppError;
use crate::app::best::{self, Best};
use crate::app::best_runs::{self, RunsJson};
use crate::app::populations::family;
use crate::config::shell;
use crate::report::document::privacy::{Privacy, PrivatePart};
use crate::report::wording::{no_best, one_line, run_name, toml_key, toml_value};
use crate::storage::{OutcomeCursor, StorageReader, StudySummary};
use crate::study::counted::count;
use crate::study::metric::{Metrics, Number, Score, median};
use crate::study::params::{Params, Value};
use crate::study::state::{StudyState, shown_params};
use crate::study::trial::{TrialNumber, TrialState};

/// The question of a study, and its answer so far.
#[derive(Debug, Serialize)]
pub struct AnswerPart {
    /// What is searched, in a sentence.
    pub question: String,
    /// The answer, once there is one.
    pub best: Option<BestPart>,
    /// Why there is none.
    pub none: Option<String>,
}

/// The best configuration.
#[derive(Debug, Serialize)]
pub struct BestPart {
    /// Its trial.
    pub trial: TrialNumber,
    /// The study's metric, or what it is among several.
    pub metric: String,
    /// The name of a tracked run.
    pub name: Option<String>,
    /// Its value; of several runs the mean.
    pub value: Option<Number>,
    /// The step of its value.
    pub step: Option<u64>,
    /// Metrics at that step.
    pub metrics: Metrics,
    /// Statistics of its runs, if there are several.
    pub runs: Option<RunsJson>,
    /// The same in a sentence.
    pub interval: Option<String>,
    /// The race of the finalists, if there was one.
    pub race: Option<String>,
    /// Its parameters as TOML.
    pub toml: String,
    /// Of a population: the stages of parameters that led to its state, in words; the parameters
    /// above are those of the last one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schedule: Vec<String>,
    /// A command line that runs it again.
    pub command: Option<String>,
    /// What it is compared with.
    pub beat: Beaten,
    /// The front of several objectives, of which this trial is the compromise.
    pub front: Option<FrontAnswer>,
}

/// The answer of several objectives.
#[derive(Debug, Serialize)]
pub struct FrontAnswer {
    /// The front.
    #[serde(flatten)]
    pub front: FrontPart,
    /// Its trials: the compromise, then the others from the best by the first objective on.
    pub rows: Vec<FrontRow>,
}

/// A trial on the front.
#[derive(Debug, Serialize)]
pub struct FrontRow {
    /// Its number.
    pub trial: TrialNumber,
    /// Its values, in the order of the objectives.
    pub values: Vec<Number>,
    /// Its parameters.
    pub params: Params,
}

/// What the best trial is compared with: other trials, or other configurations by the means of
/// their runs in the search.
#[derive(Debug, Serialize)]
pub struct Beaten {
    /// Whether configurations are compared that ran several times.
    pub by_means: bool,
    /// Complete trials, or configurations, itself included.
    pub complete: usize,
    /// The median of their values.
    pub median: Option<Number>,
    /// The second best.
    pub second: Option<BestOf>,
    /// The first complete one: what was known before the search.
    pub first: Option<BestOf>,
}

/// The question and the answer of a study.
///
/// # Errors
/// The store failed.
pub fn answer(
    reader: &dyn StorageReader,
    study: &StudySummary,
    privacy: &Privacy,
) -> Result<AnswerPart, AppError> {
    let question = question(study);
    if study.best_trial().is_none() {
        let none = Some(no_best(study.counts, [&study.spec]));
        return Ok(AnswerPart { question, best: None, none });
    }
    let best = best::best(reader, study)?;
    let state = best::state_of_runs(reader, study)?;
    let race = state.as_ref().and_then(best_runs::race);
    let schedule = family(reader, study, &best.trial)?.map(|family| family.stage_lines);
    let best = BestPart {
        schedule: schedule.filter(|stages| stages.len() > 1).unwrap_or_default(),
        trial: best.trial.number,
        metric: match study.spec.has_several_objectives() {
            true => "compromise".to_owned(),
            false => one_line(&study.spec.objective().metric),
        },
        name: run_name(&best.trial).map(str::to_owned),
        value: study.best.map(|(_, value)| value).or(best.value).map(Number),
        step: best.step,
        runs: best.runs.as_ref().map(RunsJson::from),
        interval: best.runs.as_ref().map(best_runs::in_words),
        race,
        toml: params_as_toml(shown_params(&study.spec, &best.trial)),
        command: command(study, &best, privacy),
        beat: beaten(reader, study, state.as_ref(), best.trial.number)?,
        front: front(reader, study)?,
        metrics: best.metrics,
    };
    Ok(AnswerPart { question, best: Some(best), none: None })
}

fn front(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Option<FrontAnswer>, AppError> {
    let Some(front) = study.front.clone() else { return Ok(None) };
    let mut rows = Vec::new();
    for number in front.trials.iter().copied() {
        let Some(trial) = reader.trial(study.id, number)? else { continue };
        let values = trial.values.iter().copied().map(Number).collect();
        rows.push(FrontRow {
            trial: number,
            values,
            params: shown_params(&study.spec, &trial).clone(),
        });
    }
    let direction = study.spec.direction();
    rows.sort_by_key(|row| {
        let first = row.values.first().map_or(f64::NAN, |value| value.0);
        (Some(row.trial) != front.knee, Score::new(direction, first))
    });
    Ok(Some(FrontAnswer { front: front.into(), rows }))
}

/// `a`, `a and b`, `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// What a study asks, in a sentence.
fn question(study: &StudySummary) -> String {
    let spec = &study.spec;
    let metrics: Vec<String> =
        spec.objectives.iter().map(|objective| one_line(&objective.metric)).collect();
    let metric = listed(&metrics);
    if spec.is_tracked() {
        let runs = count(study.counts.total(), "tracked run");
        let which = match spec.direction().loss(1.0) < 0.0 {
            true => "largest",
            false => "smallest",
        };
        return format!("Which of {runs} has the {which} {metric}?");
    }
    let names: Vec<String> =
        spec.space.dimensions().iter().map(|dimension| one_line(&dimension.name)).collect();
    let goals: Vec<String> = spec
        .objectives
        .iter()
        .map(|one| format!("{} {}", one.direction.as_str(), one_line(&one.metric)))
        .collect();
    let goal = listed(&goals);
    match names.as_slice() {
        [] => format!("Which {metric} do repeated runs reach?"),
        [one] => format!("Which value of {one} should {goal}?"),
        some if some.len() < 7 => format!("Which values of {} {goal}?", listed(some)),
        many => {
            let (shown, others) = (many[..5].join(", "), many.len() - 5);
            format!("Which values of {shown} and {others} more parameters {goal}?")
        }
    }
}

/// Parameters as lines of TOML.
pub fn params_as_toml(params: &Params) -> String {
    params
        .iter()
        .map(|(name, value)| format!("{} = {}\n", toml_key(name), toml_value(value)))
        .collect()
}

/// The program's own command line where it may be told; else the one that enqueues the
/// configuration, which tells nothing of the machine.
fn command(study: &StudySummary, best: &Best, privacy: &Privacy) -> Option<String> {
    let own = best::command(&study.spec, &best.trial);
    if own.is_some() && privacy.includes(PrivatePart::Host) {
        return own;
    }
    if study.spec.is_tracked() {
        return None;
    }
    let typed = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        value => toml_value(value),
    };
    let words = ["hpsearch", "enqueue", study.spec.name.as_str()].map(str::to_owned);
    let params = shown_params(&study.spec, &best.trial)
        .iter()
        .map(|(name, value)| format!("{name}={}", typed(value)));
    let words: Vec<String> =
        words.into_iter().chain(params).chain(["--again".to_owned()]).collect();
    Some(shell::quoted(&words))
}

fn beaten(
    reader: &dyn StorageReader,
    study: &StudySummary,
    state: Option<&StudyState>,
    best: TrialNumber,
) -> Result<Beaten, AppError> {
    // What violates a limit is not second best, whatever its value.
    let mut infeasible: BTreeSet<TrialNumber> = BTreeSet::new();
    let mut values: Vec<(TrialNumber, f64)> = match state {
        // One run of a configuration, its own ones included, is not what its mean is compared with.
        Some(state) => {
            let ranked = state.ranked_configurations().into_iter();
            ranked.map(|(number, sample)| (number, sample.mean)).collect()
        }
        None => {
            let (outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
            let complete = outcomes
                .iter()
                .filter(|outcome| outcome.state == TrialState::Complete && !outcome.hidden);
            let violating = complete.clone().filter(|outcome| outcome.violation.is_some());
            infeasible.extend(violating.map(|outcome| outcome.number));
            complete.filter_map(|outcome| Some((outcome.number, outcome.value?))).collect()
        }
    };
    values.sort_by_key(|(number, _)| *number);
    let of = |(number, value): (TrialNumber, f64)| BestOf { number, value: Number(value) };
    let first = values.first().copied().filter(|(number, _)| *number != best).map(of);
    let direction = study.spec.direction();
    values.sort_by_key(|(_, value)| Score::new(direction, *value));
    let sorted: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let mut others = values.iter().copied().filter(|(number, _)| *number != best);
    let second = others.find(|(number, _)| !infeasible.contains(number)).map(of);
    let median = median(&sorted).map(Number);
    Ok(Beaten { by_means: state.is_some(), complete: values.len(), median, second, first })
}
