//! Running a study again: compares it with the stored one, and accepts the changes if permitted.

use std::io;
use std::path::Path;

use super::inputs;
use crate::config::{self, Change, ChangeClass, Checked, ConfigError, Measured, Moved};
use crate::config::{command_line, step_unit};
use crate::runner::ownership::{self, Owner};
use crate::runner::provenance::environment;
use crate::runner::{self, RunnerError};
use crate::storage::address::{RUNS, is_on_server};
use crate::storage::paths::StudyFiles;
use crate::storage::{Storage, StorageError, StorageReader, StoredStudy, StudyId};
use crate::study::budget::Extension;
use crate::study::event::{DecisionEvent, Event, TrialEvent};
use crate::study::provenance::SourceFile;
use crate::study::spec::StudySpec;

/// The user's consent to a changed search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// The user has not agreed.
    Missing,
    /// The user agreed with `--accept`.
    Given,
}

/// Places the files of a study whose store is on a server, and which names no directory, in
/// `runs/files` beside its file: recorded with the study, so that every process finds them,
/// wherever it runs.
///
/// # Errors
/// The directory of the file cannot be determined.
pub fn place_files(spec: &mut StudySpec, file: &Path, store: &Path) -> io::Result<()> {
    if is_on_server(store) && spec.checkpoints.dir.is_none() {
        let beside = std::path::absolute(file)?.parent().map(|beside| beside.join(RUNS));
        spec.checkpoints.dir = beside.map(|beside| beside.join("files"));
    }
    Ok(())
}

/// Gives `spec`, read from a file, what the stored study has beyond it: what `hpsearch extend`
/// added to the budget, and the rules with which the study began.
pub fn continue_stored(known: &StoredStudy, spec: &mut StudySpec) {
    spec.budget.extend(known.extension);
    command_line::keep_rules(&known.spec, spec);
}

/// The same for a file with what was found about it: where the file does not set the unit of steps,
/// the stored one stays.
pub fn continue_file(known: &StoredStudy, checked: &Checked, spec: &mut StudySpec) {
    continue_stored(known, spec);
    if checked.step_is_derived {
        spec.step = known.spec.step;
    }
}

/// Refuses what a new study may not have, unless the file continues a stored study that began
/// before that was an error.
///
/// # Errors
/// The problems that prevent a new study.
pub fn check_new(
    known: Option<&StoredStudy>,
    checked: &Checked,
    spec: &StudySpec,
) -> Result<(), ConfigError> {
    let continues = known.is_some_and(|known| {
        checked.step_is_derived || command_line::has_earlier_rules(&known.spec, spec)
    });
    if continues { Ok(()) } else { checked.begins() }
}

/// A note on the unit of steps, if the file does not set it.
pub fn note_on_steps(known: Option<&StoredStudy>, checked: &Checked) -> Option<&'static str> {
    let stored = known.map(|known| known.spec.step);
    checked.step_is_derived.then(|| step_unit::note(stored))?
}

/// The consent that the most important of `changes` requires, if it is missing.
pub fn refusal(changes: &[Change], consent: Consent) -> Option<ChangeClass> {
    let class = changes.iter().map(|change| change.class).max()?;
    let is_accepted = class == ChangeClass::NeedsAccept && consent == Consent::Given;
    (class != ChangeClass::Free && !is_accepted).then_some(class)
}

/// What a study file changes of its stored study, and the move of its project, which is no change.
/// `path`: the store's; `now`: what the study's trials would read.
///
/// # Errors
/// The store failed.
pub fn changes_by_file(
    reader: &dyn StorageReader,
    known: &StoredStudy,
    spec: &StudySpec,
    path: &Path,
    now: &[SourceFile],
) -> Result<(Option<Moved>, Vec<Change>), StorageError> {
    let moved = moved(known, spec, path, reader.identity()?.as_deref());
    let before = moved.as_ref().map_or(&known.spec, |(_, spec)| spec);
    let changes = changes(reader, (known.id, before), spec, &reader.salt()?, now)?;
    Ok((moved.map(|(moved, _)| moved), changes))
}

/// What changed limits changed for the complete trials of a study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JudgedAgain {
    /// How many keep the limits, and violated them before.
    pub keep: u64,
    /// How many violate them, and kept them before.
    pub violate: u64,
}

/// What changed limits change for the complete trials of a study, as events and as numbers.
fn judged_again(
    reader: &dyn StorageReader,
    known: &StoredStudy,
    spec: &StudySpec,
) -> Result<(Vec<Event>, Option<JudgedAgain>), StorageError> {
    if known.spec.constraints == spec.constraints {
        return Ok((Vec::new(), None));
    }
    let state = reader.study_state(known.id)?;
    let events = state.judged_again(spec);
    let mut changed = JudgedAgain::default();
    for event in &events {
        let Event::Trial(trial, TrialEvent::Decision(event)) = event else { continue };
        let DecisionEvent::LimitsJudged { violation, .. } = event else { continue };
        let violated = state.trial(*trial).is_some_and(|before| before.violation.is_some());
        match (violated, violation.is_some()) {
            (true, false) => changed.keep += 1,
            (false, true) => changed.violate += 1,
            (true, true) | (false, false) => {}
        }
    }
    let changed = (!events.is_empty()).then_some(changed);
    Ok((events, changed))
}

/// The changes of a stored study. `salt`: the store's, for the variables of a command; `now`: what
/// its trials would read.
///
/// # Errors
/// The store failed.
pub fn changes(
    reader: &dyn StorageReader,
    (study, known): (StudyId, &StudySpec),
    spec: &StudySpec,
    salt: &str,
    now: &[SourceFile],
) -> Result<Vec<Change>, StorageError> {
    let mut changes = config::difference_to_stored(known, spec, Measured::Nothing);
    if !changes.is_empty() {
        changes = config::difference_to_stored(known, spec, measured(reader, study)?);
    }
    changes.extend(inputs::changes(reader, study, now)?);
    changes.extend(changed_variables(reader, study, spec, salt)?);
    Ok(changes)
}

/// What a study has measured.
fn measured(reader: &dyn StorageReader, study: StudyId) -> Result<Measured, StorageError> {
    if reader.summary(study)?.counts.complete > 0 {
        return Ok(Measured::Results);
    }
    let trials = reader.study_state(study)?.trials;
    let has_reported = trials.iter().any(|trial| trial.last_step().is_some());
    Ok(if has_reported { Measured::Reports } else { Measured::Nothing })
}

/// The variables of `[command] env` whose values changed since the last run, which need no consent:
/// values are not stored. Added and removed ones are changes of the specification.
fn changed_variables(
    reader: &dyn StorageReader,
    study: StudyId,
    spec: &StudySpec,
    salt: &str,
) -> Result<Vec<Change>, StorageError> {
    let now = environment(spec, salt);
    if now.is_empty() {
        return Ok(Vec::new());
    }
    let runners = reader.runners(study)?;
    let before = runners
        .iter()
        .rev()
        .find_map(|runner| runner.provenance.as_ref())
        .map_or(&[][..], |provenance| &provenance.environment);
    let is_other = |name: &str, digest: &str| {
        before.iter().any(|variable| variable.name == name && variable.digest != digest)
    };
    let changed = now.iter().filter(|variable| is_other(&variable.name, &variable.digest));
    Ok(changed.map(|variable| Change::of_value(&variable.name)).collect())
}

/// The stored study with relocated paths, if its project was moved or copied with its store at
/// `path`. `identity`: that of the store.
fn moved(
    known: &StoredStudy,
    spec: &StudySpec,
    path: &Path,
    identity: Option<&str>,
) -> Option<(Moved, StudySpec)> {
    let marked =
        ownership::owner(&StudyFiles::of(spec, known.directory.as_deref(), path).directory());
    // In a project copied as a whole, the store has the same relative path as in the original. The
    // mark that was copied with it knows the store also if its file was renamed.
    let is_copied = |moved: &Moved| match &marked {
        Owner::Store { id, path: before } => before.strip_prefix(&moved.from).is_ok_and(|below| {
            let now = moved.to.join(below);
            path == now || path.parent() == now.parent() && identity == Some(id)
        }),
        _ => false,
    };
    config::moved(&known.spec, spec, &|moved| {
        moved.to.exists() && (!moved.from.exists() || is_copied(moved) || is_same_directory(moved))
    })
}

/// Whether both names lead to the same directory: one is a symbolic link, or leads through one.
pub fn is_same_directory(moved: &Moved) -> bool {
    match (moved.from.canonicalize(), moved.to.canonicalize()) {
        (Ok(from), Ok(to)) => from == to,
        _ => false,
    }
}

/// Updates the stored study to `spec`; with what that changed for complete trials, if its limits
/// are others.
///
/// # Errors
/// The store failed, or another process holds the study.
pub fn settle(
    store: &mut dyn Storage,
    known: Option<StoredStudy>,
    spec: &StudySpec,
) -> Result<(StoredStudy, Option<JudgedAgain>), RunnerError> {
    let Some(known) = known else {
        let now = runner::now();
        let created = match store.create_study(now, spec) {
            Ok(id) => Ok(StoredStudy {
                id,
                spec: spec.clone(),
                extension: Extension::default(),
                created: now,
                directory: None,
            }),
            // Another process created it a moment ago: the lease decides which one runs the study.
            Err(error @ StorageError::Exists { .. }) => store
                .study(&spec.name)?
                .filter(|known| known.spec == *spec)
                .ok_or_else(|| error.into()),
            Err(error) => Err(error.into()),
        };
        return created.map(|study| (study, None));
    };
    let mut changed = None;
    if known.spec != *spec {
        let lease = runner::take_lease(store, &known)?;
        let judged = judged_again(store, &known, spec);
        let updated = judged.and_then(|(judged, changed)| {
            store.update_spec(&lease, runner::now(), spec, &judged).map(|()| changed)
        });
        store.release(&lease)?;
        changed = updated?;
    }
    // Only the file's specification has the values of `[command] env`.
    Ok((StoredStudy { spec: spec.clone(), ..known }, changed))
}
