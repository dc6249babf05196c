//! Imports Optuna studies as searches that can continue here: the space is the union of their
//! trials' distributions, and each trial keeps its parameters, reports, value, state and times.

mod conversion;

use std::collections::BTreeSet;
use std::path::Path;

use self::conversion::Finished;
pub use self::conversion::{Converted, METRIC, convert};
use super::AppError;
use super::conversion_error::{ConversionError, by_another_name};
use super::named_after::{in_words, named_after};
use crate::config::is_study_name;
use crate::engine::hull;
use crate::runner::{self, this_process};
use crate::storage::any::AnyStore;
use crate::storage::memory::MemoryStore;
use crate::storage::optuna_database::{self, OptunaError, OptunaStudy};
use crate::storage::sqlite::is_database;
use crate::storage::{Lease, Storage, StorageError, StorageReader, StoredStudy};
use crate::study::device::{Device, Slot};
use crate::study::event::{
    AttemptEnd, AttemptEvent, DecisionEvent, Event, RecordEvent, RunnerEvent, StateEvent,
    TrialEvent,
};
use crate::study::metric::Metrics;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::space::Space;
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

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
            store.update_spec(lease, runner::now(), &wide, &[])?;
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
            events.push(TrialEvent::Attempt(AttemptEvent::reported(attempt, *step, metrics)));
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
            superseded: Default::default(),
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
pub struct OptunaImportResult {
    /// Each study's name, and what came of it.
    pub studies: Vec<(String, Came)>,
    /// What was skipped, and why: the study and sentences.
    pub remarks: Vec<(String, String)>,
    /// Number of studies that were not imported, each with a remark.
    pub refused: u64,
}

impl OptunaImportResult {
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
) -> Result<OptunaImportResult, AppError> {
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
    let (mut outcome, mut store) = (OptunaImportResult::default(), store);
    for study in &studies {
        let reads = match &store {
            Some(store) => Some(&**store as &dyn StorageReader),
            None => reader,
        };
        let taken = |name: &str| outcome.studies.iter().any(|(taken, _)| taken == name);
        let named = named(reads, path, study, name, taken);
        let own = name.is_none();
        let convert = |name: String| {
            let mut converted = convert(study, &name, metric)?;
            if own && name != study.name {
                converted.remarks.insert(0, in_words(&study.name, &name));
                converted.spec.description = Some(study.name.clone());
            }
            Ok(converted)
        };
        let converted = match named.and_then(convert) {
            Ok(converted) => converted,
            Err(error) if single => return Err(error),
            Err(error) => {
                outcome.refuse(path, study, &error);
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

/// The name of a study here: the given one, or the one named after it.
fn named(
    reader: Option<&dyn StorageReader>,
    path: &Path,
    study: &OptunaStudy,
    name: Option<&str>,
    taken: impl Fn(&str) -> bool,
) -> Result<String, AppError> {
    if let Some(name) = name {
        return Ok(name.to_owned());
    }
    let own = format!("optuna:{}/", study.name);
    let named = named_after(reader, &study.name, taken, |known| {
        let sources = reader.map(|reader| sources(reader, known)).transpose();
        match sources {
            Ok(known) => Ok(known.iter().flatten().any(|source| source.starts_with(&own))),
            Err(AppError::Conversion(_)) => Ok(false),
            Err(error) => Err(error),
        }
    })?;
    let none = || ConversionError::Name { study: study.name.clone(), path: path.to_owned() };
    Ok(named.ok_or_else(none)?)
}
