//! Converts an Optuna study: its distributions, objectives, constraints and finished trials.

use std::collections::{BTreeMap, BTreeSet};

use crate::app::conversion_error::ConversionError;
use crate::config::shown::one_line;
use crate::engine::hull;
use crate::report::wording::number;
use crate::runner;
use crate::runner::protocol::quote_non_finite;
use crate::storage::optuna_database::{OptunaStudy, OptunaTrial};
use crate::study::counted::count;
use crate::study::field::MOST_OBJECTIVES;
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::space::{Dimension, Distribution, Scale, Space};
use crate::study::spec::{AlgorithmSpec, Duplicates, Objective, StudySpec, ValueRule};
use crate::study::step::StepUnit;
use crate::study::suggestion::quoted;
use crate::study::time::Timestamp;
use crate::study::trial::{LARGEST_STEP, TrialState};

/// The default name of the metric.
pub const METRIC: &str = "value";

/// A converted study.
#[derive(Debug)]
pub struct Converted {
    /// Its specification.
    pub spec: StudySpec,
    /// Finished trials in their order, with source and outcome.
    pub(super) trials: Vec<Finished>,
    /// Its user attributes, as notes.
    pub(super) notes: Vec<String>,
    /// What was skipped, in sentences.
    pub remarks: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Finished {
    pub source: String,
    pub params: Params,
    pub state: TrialState,
    pub value: Option<f64>,
    pub values: Vec<f64>,
    pub reports: Vec<(u64, f64)>,
    pub summary: BTreeMap<String, serde_json::Value>,
    /// By how much a complete trial violates its constraints, and which, in a sentence.
    pub violation: Option<(f64, String)>,
    pub began: Timestamp,
    pub ended: Timestamp,
}

/// The default sampler with which a study continues: Optuna's.
const SAMPLER: &str = "tpe-independent";

/// Converts an Optuna study to one called `name`, whose objective is called `metric`; several are
/// called `metric_0`, `metric_1` and so on. Without `metric` they have their names in Optuna, or
/// else those of [`METRIC`].
///
/// # Errors
/// It has too many objectives, or an unsupported parameter.
pub fn convert(
    study: &OptunaStudy,
    name: &str,
    metric: Option<&str>,
) -> Result<Converted, ConversionError> {
    if study.directions.len() > MOST_OBJECTIVES {
        let (study, count) = (study.name.clone(), study.directions.len());
        return Err(ConversionError::TooManyObjectives { study, count });
    }
    let mut dimensions: Vec<Dimension> = Vec::new();
    let (mut trials, mut remarks, mut open) = (Vec::new(), Vec::new(), 0u64);
    let objectives = objectives(study, metric, &mut remarks);
    for trial in &study.trials {
        let mut params = Params::new();
        for (param, value, json) in &trial.params {
            let parameter = |why: String| ConversionError::Parameter {
                study: study.name.clone(),
                name: param.clone(),
                why,
            };
            let drawn = distribution(json).map_err(parameter)?;
            match dimensions.iter_mut().find(|dimension| dimension.name == *param) {
                None => dimensions.push(Dimension::new(param, drawn.clone())),
                Some(known) => {
                    known.distribution = hull(&known.distribution, &drawn).ok_or_else(|| {
                        let known = &known.distribution;
                        parameter(format!("it is {known} in some trials and {drawn} in others"))
                    })?;
                }
            }
            let value = value_of(&drawn, *value)
                .ok_or_else(|| parameter(format!("{value} is outside of {drawn}")))?;
            params.insert(param.clone(), value);
        }
        match finished(study, trial, params, &mut remarks) {
            Some(trial) => trials.push(trial),
            None => open += 1,
        }
    }
    if open > 0 {
        let (have, they) =
            if open == 1 { ("has", "it has, it comes") } else { ("have", "they have, they come") };
        remarks.push(format!(
            "{} of it {have} not ended and {} left out; imported again once {they}",
            count(open, "trial"),
            if open == 1 { "is" } else { "are" },
        ));
    }
    let space = Space::new(dimensions).map_err(|error| ConversionError::Parameter {
        study: study.name.clone(),
        name: String::new(),
        why: error.to_string(),
    })?;
    let spec = StudySpec::new(name, METRIC, Direction::Minimize, space, Program::Inline);
    let mut spec = StudySpec { objectives, ..spec };
    if spec.has_several_objectives() {
        spec.value = ValueRule::Last;
    }
    // As for a define-by-run program (`ask-tell` with `define`).
    spec.step = StepUnit::Step;
    spec.duplicates = Duplicates::Allow;
    spec.sampler = AlgorithmSpec {
        version: crate::samplers::find(SAMPLER).map_or(1, |entry| entry.version),
        ..AlgorithmSpec::named(SAMPLER)
    };
    let notes = study.attributes.iter().map(|(name, json)| format!("{name}: {json}")).collect();
    Ok(Converted { spec, trials, notes, remarks })
}

/// The objectives: with the given name, their names in Optuna if they can be metrics here, or else
/// the default one.
fn objectives(
    study: &OptunaStudy,
    metric: Option<&str>,
    remarks: &mut Vec<String>,
) -> Vec<Objective> {
    let directions = match study.directions.as_slice() {
        [] => &[Direction::Minimize],
        directions => directions,
    };
    let base = metric.unwrap_or(METRIC);
    let numbered = |index: usize| match directions.len() {
        1 => base.to_owned(),
        _ => format!("{base}_{index}"),
    };
    let mut names: Vec<String> = (0..directions.len()).map(numbered).collect();
    if let Some(json) = study.metric_names.as_ref().filter(|_| metric.is_none()) {
        let own: Option<Vec<String>> = serde_json::from_str(json).ok();
        match own.filter(|own| own.len() == names.len() && are_metrics(own)) {
            Some(own) => names = own,
            None => remarks.push(format!(
                "its metric names {json} cannot be metrics here, which have different names other \
                 than `step`: they are called {}, or as `--metric` says",
                quoted(names.iter().map(String::as_str))
            )),
        }
    }
    names.iter().zip(directions).map(|(name, way)| Objective::new(name, *way)).collect()
}

/// Whether reports can have metrics of these names: beside them `step` is the step.
fn are_metrics(names: &[String]) -> bool {
    let fits = |name: &str| !name.trim().is_empty() && name != "step" && one_line(name) == name;
    names.iter().all(|name| fits(name))
        && names.iter().collect::<BTreeSet<_>>().len() == names.len()
}

/// By how much a trial violates its constraints (Optuna's are violated by values above 0), and
/// which ones, in a sentence.
fn violation(trial: &OptunaTrial, remarks: &mut Vec<String>) -> Option<(f64, String)> {
    let (mut total, mut said) = (0.0, Vec::new());
    for (key, json) in &trial.constraints {
        let Some(values) = constraint_values(json) else {
            remarks.push(format!(
                "trial {}: its `{key}` {json} are not numbers, and are left out",
                trial.number
            ));
            continue;
        };
        for (index, value) in values.into_iter().enumerate() {
            // NaN satisfies nothing.
            if value <= 0.0 {
                continue;
            }
            let name = key.strip_prefix("constraints:");
            let name = name.map_or_else(|| index.to_string(), |name| format!("`{name}`"));
            let over = if value.is_nan() { f64::MAX } else { value };
            total = f64::min(total + over, f64::MAX);
            said.push(format!("constraint {name} of Optuna is violated by {}", number(value)));
        }
    }
    (total > 0.0).then(|| (total, said.join("; ")))
}

/// The values of a constraint: a number, a list of them, or `null` where `constraints_func` failed.
fn constraint_values(json: &str) -> Option<Vec<f64>> {
    let value = |json: &serde_json::Value| match json {
        serde_json::Value::Bool(bool) => Some(f64::from(u8::from(*bool))),
        serde_json::Value::String(word) => word.parse().ok(),
        json => json.as_f64(),
    };
    // Python writes `NaN` and `Infinity` as bare words.
    match serde_json::from_str(&quote_non_finite(json)).ok()? {
        serde_json::Value::Null => Some(Vec::new()),
        serde_json::Value::Array(list) => list.iter().map(value).collect(),
        one => Some(vec![value(&one)?]),
    }
}

/// A finished trial; `None` for others.
fn finished(
    study: &OptunaStudy,
    trial: &OptunaTrial,
    params: Params,
    remarks: &mut Vec<String>,
) -> Option<Finished> {
    let state = match trial.state.as_str() {
        "COMPLETE" => TrialState::Complete,
        "PRUNED" => TrialState::Pruned,
        "FAIL" => TrialState::Failed,
        _ => return None,
    };
    let now = runner::now();
    let possible = |at: Timestamp| Timestamp(at.0.clamp(0, now.0));
    let ended = trial.ended.or(trial.started).map_or(now, possible);
    let began = trial.started.map_or(ended, possible).min(ended);
    let whole = |(step, value): &(i64, f64)| {
        let step = u64::try_from(*step).ok().filter(|step| *step <= LARGEST_STEP)?;
        Some((step, *value))
    };
    let reports: Vec<_> = trial.reports.iter().filter_map(whole).collect();
    if reports.len() < trial.reports.len() {
        let left = trial.reports.len() - reports.len();
        remarks.push(format!(
            "trial {}: {left} of its reports are left out, since steps begin at 0",
            trial.number
        ));
    }
    // Non-scalars, and values that only Python parses, such as NaN, are kept as text.
    let json = |(name, json): (&String, &String)| {
        let value: Option<serde_json::Value> = serde_json::from_str(json).ok();
        let scalar = value.filter(|it| !it.is_object() && !it.is_array() && !it.is_null());
        (name.clone(), scalar.unwrap_or_else(|| json.as_str().into()))
    };
    // A user attribute of the same name is the one that stays.
    let summary = trial.constraints.iter().chain(&trial.attributes).map(json).collect();
    let is_complete = state == TrialState::Complete;
    // As of a search's own trials: those without a value have no place among the others.
    let violation = if is_complete { violation(trial, remarks) } else { None };
    let values = if is_complete { trial.values.clone() } else { Vec::new() };
    let (value, values) = match study.directions.len() > 1 {
        true => (None, values),
        false => (values.first().copied(), Vec::new()),
    };
    let source = format!("optuna:{}/{}", study.name, trial.number);
    Some(Finished {
        source,
        params,
        state,
        value,
        values,
        reports,
        summary,
        violation,
        began,
        ended,
    })
}

/// A distribution of Optuna (`optuna.distributions.distribution_to_json`), with those of versions
/// before 3.
fn distribution(json: &str) -> Result<Distribution, String> {
    let json: serde_json::Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let attributes = &json["attributes"];
    let kind = json["name"].as_str().unwrap_or_default();
    let bound = |name: &str| {
        attributes[name].as_f64().ok_or_else(|| format!("its distribution has no `{name}`"))
    };
    let integer = |name: &str| {
        attributes[name].as_i64().ok_or_else(|| format!("its distribution has no `{name}`"))
    };
    let is_log = attributes["log"].as_bool().unwrap_or(kind.contains("LogUniform"));
    let scale = if is_log { Scale::Log } else { Scale::Linear };
    let made = match kind {
        "FloatDistribution" | "UniformDistribution" | "LogUniformDistribution" => {
            Distribution::float(bound("low")?, bound("high")?, scale, attributes["step"].as_f64())
        }
        "DiscreteUniformDistribution" => {
            Distribution::float(bound("low")?, bound("high")?, scale, attributes["q"].as_f64())
        }
        "IntDistribution" | "IntUniformDistribution" | "IntLogUniformDistribution" => {
            let step = attributes["step"].as_i64().filter(|_| !is_log).unwrap_or(1);
            Distribution::int(integer("low")?, integer("high")?, scale, step)
        }
        "CategoricalDistribution" => {
            let choices = attributes["choices"].as_array().ok_or("it has no choices")?;
            let value = |json: &serde_json::Value| {
                Value::from_json(json).unwrap_or_else(|| Value::Text(json.to_string()))
            };
            Distribution::choice(choices.iter().map(value).collect())
        }
        other => return Err(format!("`{other}` is not a known distribution")),
    };
    made.map_err(|error| error.to_string())
}

/// The value behind Optuna's internal representation, which is the index of a choice.
fn value_of(distribution: &Distribution, stored: f64) -> Option<Value> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    match distribution {
        Distribution::Float { .. } => stored.is_finite().then_some(Value::Float(stored)),
        Distribution::Int { .. } => {
            (stored.fract() == 0.0 && stored.abs() < 9e15).then_some(Value::Int(stored as i64))
        }
        Distribution::Choice { choices } => {
            let is_index = stored >= 0.0 && stored.fract() == 0.0 && stored < 1e9;
            choices.get(is_index.then_some(stored as usize)?).cloned()
        }
    }
}
