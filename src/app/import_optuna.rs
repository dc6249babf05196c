//! Imports Optuna studies as searches that can continue here: the space is the union of their
//! trials' distributions, and each trial keeps its parameters, reports, value, state and times.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::AppError;
use super::conversion_error::{ConversionError, by_another_name};
use crate::config::is_study_name;
use crate::config::shown::one_line;
use crate::engine::hull;
use crate::report::wording::number;
use crate::runner::protocol::quote_non_finite;
use crate::runner::{self, this_process};
use crate::storage::any::AnyStore;
use crate::storage::memory::MemoryStore;
use crate::storage::optuna_database::{self, OptunaError, OptunaStudy, OptunaTrial};
use crate::storage::sqlite::is_database;
use crate::storage::{Lease, Storage, StorageError, StorageReader, StoredStudy};
use crate::study::counted::count;
use crate::study::device::{Device, Slot};
use crate::study::event::{
    AttemptEnd, AttemptEvent, DecisionEvent, Event, RecordEvent, RunnerEvent, StateEvent,
    TrialEvent,
};
use crate::study::field::MOST_OBJECTIVES;
use crate::study::metric::{Direction, Metrics};
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::space::{Dimension, Distribution, Scale, Space};
use crate::study::spec::{
    AlgorithmSpec, Duplicates, FailureCause, Objective, StudySpec, ValueRule,
};
use crate::study::step::StepUnit;
use crate::study::suggestion::quoted;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, LARGEST_STEP, Origin, TrialNumber, TrialState};

/// The default name of the metric.
pub const METRIC: &str = "value";

/// The default sampler with which a study continues: Optuna's.
const SAMPLER: &str = "tpe-independent";

/// A converted study.
#[derive(Debug)]
pub struct Converted {
    /// Its specification.
    pub spec: StudySpec,
    /// Finished trials in their order, with source and outcome.
    trials: Vec<Finished>,
    /// Its user attributes, as notes.
    notes: Vec<String>,
    /// What was skipped, in sentences.
    pub remarks: Vec<String>,
}

#[derive(Debug)]
struct Finished {
    source: String,
    params: Params,
    state: TrialState,
    value: Option<f64>,
    values: Vec<f64>,
    reports: Vec<(u64, f64)>,
    summary: BTreeMap<String, serde_json::Value>,
    /// By how much a complete trial violates its constraints, and which, in a sentence.
    violation: Option<(f64, String)>,
    began: Timestamp,
    ended: Timestamp,
}

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

/// The part of a study that is new to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Trials that are new.
    pub new: u64,
    /// Trials that the store has already.
    pub known: u64,
    /// Reports of new trials.
    pub reports: u64,
}

impl Converted {
    /// The part that the store lacks.
    ///
    /// # Errors
    /// The store failed, or has a study of this name from another source.
    pub fn lacking(&self, reader: Option<&dyn StorageReader>) -> Result<Came, AppError> {
        let known = match reader {
            None => BTreeSet::new(),
            Some(reader) => match reader.study(&self.spec.name)? {
                None => BTreeSet::new(),
                Some(study) => sources(reader, &study)?,
            },
        };
        let is_new = |trial: &&Finished| !known.contains(&trial.source);
        let mut came = Came::default();
        for trial in self.trials.iter().filter(is_new) {
            came.new += 1;
            came.reports += trial.reports.len() as u64;
        }
        came.known = self.trials.len() as u64 - came.new;
        Ok(came)
    }

    /// Writes the missing part in one transaction.
    ///
    /// # Errors
    /// The store failed, another process runs the study, or it has another source.
    pub fn write(&self, store: &mut dyn Storage) -> Result<Came, AppError> {
        let came = self.lacking(Some(&*store))?;
        let study = match store.study(&self.spec.name)? {
            Some(study) => study,
            None => {
                store.create_study(runner::now(), &self.spec)?;
                let name = &self.spec.name;
                store.study(name)?.ok_or_else(|| StorageError::Exists { name: name.clone() })?
            }
        };
        if came.new == 0 {
            return Ok(came);
        }
        let lease = runner::take_lease(store, &study)?;
        let written = self.write_held(store, &lease, &study);
        store.release(&lease)?;
        written.map(|()| came)
    }

    fn write_held(
        &self,
        store: &mut dyn Storage,
        lease: &Lease,
        study: &StoredStudy,
    ) -> Result<(), AppError> {
        let known = sources(&*store, study)?;
        let wide = self.widened(study)?;
        if wide.space != study.spec.space {
            store.update_spec(lease, runner::now(), &wide)?;
        }
        let first = store.summary(study.id)?.counts.total();
        let is_new = |trial: &&Finished| !known.contains(&trial.source);
        let mut history: Vec<(Timestamp, Vec<Event>)> = Vec::new();
        let (mut slots, mut latest) = (Vec::<Timestamp>::new(), Timestamp(0));
        for (number, trial) in (first..).map(TrialNumber).zip(self.trials.iter().filter(is_new)) {
            // Trials are created in the order of their numbers.
            latest = latest.max(trial.began);
            let ended = trial.ended.max(latest);
            let free = slots.iter().position(|until| *until <= latest);
            let index = free.unwrap_or(slots.len());
            match slots.get_mut(index) {
                Some(until) => *until = ended,
                None => slots.push(ended),
            }
            history.push((latest, trial.beginning(number, index)));
            history.push((ended, trial.ending(number, &wide, latest)));
        }
        history.sort_by_key(|(at, _)| *at);
        if first == 0 {
            let note = |text: &String| Event::noted(None, text.clone());
            let at = history.first().map_or_else(runner::now, |(at, _)| *at);
            history.insert(0, (at, self.notes.iter().map(note).collect()));
        }
        let holder = this_process();
        let slots = (0..slots.len()).map(slot).collect();
        let began = history.first().map_or_else(runner::now, |(at, _)| *at);
        let started =
            RunnerEvent::Started { pid: holder.pid, host: holder.host, slots, tracker: None };
        history.insert(0, (began, vec![Event::Runner(started)]));
        let ended = history.last().map_or(began, |(at, _)| *at);
        let stopped = RunnerEvent::Stopped {
            reason: "its trials were imported from Optuna".to_owned(),
            ran_micros: ended.0.saturating_sub(began.0).max(0),
            heard: None,
            device_micros: 0,
            runner: None,
        };
        history.push((ended, vec![Event::Runner(stopped)]));
        store.append_history(lease, &history)?;
        Ok(())
    }

    /// The study's specification with a space that includes these trials.
    fn widened(&self, study: &StoredStudy) -> Result<StudySpec, AppError> {
        let mut dimensions = study.spec.space.dimensions().to_vec();
        for new in self.spec.space.dimensions() {
            match dimensions.iter_mut().find(|known| known.name == new.name) {
                None => dimensions.push(new.clone()),
                Some(known) => {
                    let wide = hull(&known.distribution, &new.distribution);
                    known.distribution = wide.ok_or_else(|| ConversionError::Parameter {
                        study: study.spec.name.clone(),
                        name: new.name.clone(),
                        why: format!("it is {} in the store", known.distribution),
                    })?;
                }
            }
        }
        let space = Space::new(dimensions).map_err(|error| ConversionError::Parameter {
            study: study.spec.name.clone(),
            name: String::new(),
            why: error.to_string(),
        })?;
        Ok(StudySpec { space, ..study.spec.clone() })
    }
}

/// The imported trials of a study, by source.
fn sources(reader: &dyn StorageReader, study: &StoredStudy) -> Result<BTreeSet<String>, AppError> {
    let trials = reader.trials(study.id, &TrialQuery::all(SortKey::Number))?;
    let source = |origin: &Origin| match origin {
        Origin::Imported(source) => Some(source.clone()),
        _ => None,
    };
    let known: BTreeSet<String> = trials.iter().filter_map(|trial| source(&trial.origin)).collect();
    if known.is_empty() && !trials.is_empty() {
        return Err(ConversionError::OtherStudy { study: study.spec.name.clone() }.into());
    }
    Ok(known)
}

fn slot(index: usize) -> Slot {
    Slot::on(index, Device::Cpu)
}

impl Finished {
    fn beginning(&self, number: TrialNumber, index: usize) -> Vec<Event> {
        let (params, origin) = (self.params.clone(), Origin::Imported(self.source.clone()));
        let started = TrialEvent::Attempt(AttemptEvent::Started {
            attempt: AttemptNumber(0),
            slot: slot(index),
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        });
        let created = TrialEvent::created(params, origin);
        vec![Event::Trial(number, created), Event::Trial(number, started)]
    }

    fn ending(&self, number: TrialNumber, spec: &StudySpec, began: Timestamp) -> Vec<Event> {
        let attempt = AttemptNumber(0);
        let metric = &spec.objective().metric;
        let mut events: Vec<TrialEvent> = Vec::new();
        for (step, value) in &self.reports {
            let metrics: Metrics = [(metric.clone(), *value)].into_iter().collect();
            events.push(TrialEvent::Attempt(AttemptEvent::Reported {
                attempt,
                step: *step,
                metrics,
            }));
        }
        if !self.summary.is_empty() {
            events.push(TrialEvent::Record(RecordEvent::SummaryRecorded {
                summary: self.summary.clone(),
            }));
        }
        let (end, reason) = match self.state {
            TrialState::Pruned => (AttemptEnd::Stopped, Some("pruned in Optuna".to_owned())),
            TrialState::Failed => {
                (AttemptEnd::Failed(FailureCause::Program), Some("failed in Optuna".to_owned()))
            }
            TrialState::Queued
            | TrialState::Running
            | TrialState::Paused
            | TrialState::Complete => (AttemptEnd::Completed, None),
        };
        events.push(TrialEvent::Attempt(AttemptEvent::Ended {
            attempt,
            end,
            reason: reason.clone(),
            device_micros: Some(self.ended.0.saturating_sub(began.0).max(0)),
            memory: None,
        }));
        // In the order and with the reason of a search's own trials.
        let broken = self.violation.clone();
        if let Some((violation, reason)) = broken.clone() {
            events.push(TrialEvent::Decision(DecisionEvent::LimitsBroken { violation, reason }));
        }
        let reason = broken.map(|(_, which)| which).or(reason);
        let (state, value, values) = (self.state, self.value, self.values.clone());
        events.push(TrialEvent::State(StateEvent::Finished { state, value, values, reason }));
        events.into_iter().map(|event| Event::Trial(number, event)).collect()
    }
}

/// The studies of a database in a store in memory, each under its own name; `None` if it is not a
/// database of Optuna. Unsupported studies are skipped.
///
/// # Errors
/// The database cannot be read.
pub fn in_memory(path: &Path) -> Result<Option<MemoryStore>, AppError> {
    if !is_database(path).is_ok_and(|is_one| is_one) {
        // The store's own reader handles it.
        return Ok(None);
    }
    let studies = match optuna_database::read(path) {
        Ok(studies) => studies,
        Err(OptunaError::NotOptuna { .. } | OptunaError::OwnStore { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut store = MemoryStore::new();
    for study in &studies {
        if let Ok(converted) = convert(study, &study.name, None) {
            converted.write(&mut store)?;
        }
    }
    Ok(Some(store))
}

/// The result of importing a database.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Each study's name, and what came of it.
    pub studies: Vec<(String, Came)>,
    /// What was skipped, and why: the study and sentences.
    pub remarks: Vec<(String, String)>,
    /// Number of studies that were not imported, each with a remark.
    pub refused: u64,
}

impl Outcome {
    fn refuse(&mut self, path: &Path, study: &OptunaStudy, error: &AppError) {
        let help = match error {
            AppError::Conversion(ConversionError::OtherStudy { .. }) => {
                Some(by_another_name(path, &study.name))
            }
            error => error.remedy().map(|help| help.in_words("")),
        };
        let help = help.map(|help| format!(": {help}")).unwrap_or_default();
        self.remarks.push((study.name.clone(), format!("{error}{help}")));
        self.refused += 1;
    }
}

/// Imports the studies of a database, or the one called `only`; `name`: its name here. Without a
/// store this is a dry run against `reader`.
///
/// # Errors
/// The database cannot be read, none of its studies is supported, or the store failed.
pub fn import_database(
    (store, reader): (Option<&mut AnyStore>, Option<&dyn StorageReader>),
    path: &Path,
    (only, name): (Option<&str>, Option<&str>),
    metric: Option<&str>,
) -> Result<Outcome, AppError> {
    if let Some(name) = name.filter(|name| !is_study_name(name)) {
        return Err(AppError::NoStudyName { name: name.to_owned() });
    }
    let mut studies = optuna_database::read(path)?;
    studies.retain(|study| only.is_none_or(|only| study.name == only));
    if studies.is_empty() || (name.is_some() && studies.len() > 1) {
        let count = studies.len();
        return Err(AppError::OptunaStudies { path: path.to_owned(), count });
    }
    let single = studies.len() == 1;
    let (mut outcome, mut store) = (Outcome::default(), store);
    for study in &studies {
        let converted = match named(path, study, name).and_then(|name| convert(study, name, metric))
        {
            Ok(converted) => converted,
            Err(error) if single => return Err(error.into()),
            Err(error) => {
                outcome.refuse(path, study, &error.into());
                continue;
            }
        };
        let came = match store.as_deref_mut() {
            Some(store) => converted.write(store),
            None => converted.lacking(reader),
        };
        match came {
            Ok(came) => {
                let remarks = converted.remarks.into_iter();
                outcome.remarks.extend(remarks.map(|remark| (study.name.clone(), remark)));
                outcome.studies.push((converted.spec.name, came));
            }
            Err(error) if single => return Err(error),
            Err(error) => outcome.refuse(path, study, &error),
        }
    }
    Ok(outcome)
}

/// The name of a study here: the given one, or its own if that is valid.
fn named<'a>(
    path: &Path,
    study: &'a OptunaStudy,
    name: Option<&'a str>,
) -> Result<&'a str, ConversionError> {
    match name {
        Some(name) => Ok(name),
        None if is_study_name(&study.name) => Ok(&study.name),
        None => Err(ConversionError::Name { study: study.name.clone(), path: path.to_owned() }),
    }
}
