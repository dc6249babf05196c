//! Checkpoint recovery after a runner died: complete unlisted checkpoints are adopted, dropped ones
//! removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::checkpoint_digest::checkpoint_digest;
use super::disk::{entries, numbered, size};
use super::garbage_collection::clear_trial_drafts;
use super::ownership::{trials_in, unfinished};
use super::removal::Remover;
use super::{killed_runner, listed_in};
use crate::pruners;
use crate::storage::paths::StudyFiles;
use crate::storage::sqlite;
use crate::storage::{Lease, Storage, StorageError, StoredStudy, StudyId};
use crate::study::event::{CheckpointEvent, Event, Seq, TrialEvent};
use crate::study::program::Program;
use crate::study::query::Filter;
use crate::study::state::StudyState;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};

/// Number of last events searched for checkpoints that a dead runner still had to remove: those of
/// its last turn, or of several runners that died in a row. `hpsearch gc` finds older ones.
const LOOKED_AT: u64 = 5_000;

/// Removes the files of checkpoints that were dropped when the runner was killed: dropping is
/// recorded before the files are removed. `state` is the state of the study after [`settle`].
///
/// # Errors
/// Those of the store.
pub fn remove_dropped(
    storage: &dyn Storage,
    study: StudyId,
    state: &StudyState,
    remover: &mut Remover,
) -> Result<(), StorageError> {
    if state.killed_at.is_none() {
        return Ok(());
    }
    for (_, _, event) in storage.events_before(study, Seq(i64::MAX), LOOKED_AT)? {
        if let Event::Trial(trial, TrialEvent::Checkpoint(CheckpointEvent::Dropped { path })) =
            &event
            && path.exists()
            && !listed_in(state).any(|listed| listed == path)
        {
            remover.remove(*trial, path, listed_in(state));
        }
    }
    Ok(())
}

/// Settles unlisted checkpoints of unfinished trials. A complete one that is not ahead of its
/// trial's reports is adopted, so that the trial continues from it; others, and incomplete ones,
/// are removed, since the trial will write them again.
///
/// The study is not running: the caller holds the lease and has cleaned up after the dead runner. A
/// command's files are its own, since only the command knows their content and step; only unlisted
/// copies of them are removed.
///
/// # Errors
/// Those of the store. Files that cannot be read or removed stay, and the trial overwrites them.
pub fn settle(
    storage: &mut dyn Storage,
    lease: &Lease,
    study: &StoredStudy,
    files: &StudyFiles,
    now: Timestamp,
) -> Result<(), StorageError> {
    match study.spec.program {
        Program::Trainer { .. } => {}
        Program::Command { .. } => return clear_copies(storage, study, files),
        Program::Inline => return Ok(()),
    }
    let mut adopted = Vec::new();
    let elsewhere = running_elsewhere(storage, study)?;
    let unfinished = unfinished(storage, study)?;
    for trial in unfinished.into_iter().filter(|trial| !elsewhere.contains(&trial.number)) {
        clear_trial_drafts(&files.trial(trial.number));
        let directory = files.trial(trial.number);
        let digests = pruners::is_population(&study.spec.pruner);
        adopted.extend(settle_trial(&trial, study.spec.step, &directory, digests));
    }
    if !adopted.is_empty() {
        storage.append(lease, now, &adopted)?;
    }
    Ok(())
}

/// The trials that agents may still run, and whose files are in use.
fn running_elsewhere(
    storage: &dyn Storage,
    study: &StoredStudy,
) -> Result<BTreeSet<TrialNumber>, StorageError> {
    Ok(killed_runner::surviving(storage, study)?.iter().map(|attempt| attempt.trial).collect())
}

/// Removes copies, partial or complete, that were not recorded when their runner died; their trials
/// will announce those steps again.
fn clear_copies(
    storage: &dyn Storage,
    study: &StoredStudy,
    files: &StudyFiles,
) -> Result<(), StorageError> {
    let listed: Vec<PathBuf> =
        storage.checkpoints(study.id)?.into_iter().map(|(_, checkpoint)| checkpoint.path).collect();
    // Trials with files that the store does not know: a power loss lost its last events, or its log
    // was deleted. Their numbers will be reused.
    let known = storage.count(study.id, &Filter::all())?;
    let mut trials: Vec<TrialNumber> =
        trials_in(&files.directory()).filter(|number| *number >= known).map(TrialNumber).collect();
    let elsewhere = running_elsewhere(storage, study)?;
    trials.extend(unfinished(storage, study)?.iter().map(|trial| trial.number));
    trials.retain(|trial| !elsewhere.contains(trial));
    let is_listed = |copy: &PathBuf| listed.iter().any(|path| path.starts_with(copy));
    for trial in trials {
        for copy in entries(&files.copies(trial)).filter(|copy| !is_listed(copy)) {
            // `gc` finds what cannot be removed now.
            let _found_later = fs::remove_dir_all(copy);
        }
    }
    Ok(())
}

/// `digests`: whether checkpoints have digests, for their pruner.
fn settle_trial(trial: &Trial, step_unit: StepUnit, directory: &Path, digests: bool) -> Vec<Event> {
    let reported = trial.last().map_or(0, |(step, _)| step);
    let is_known =
        |path: &PathBuf| trial.checkpoints.iter().any(|checkpoint| checkpoint.path == *path);
    let mut found: Vec<PathBuf> = entries(directory)
        .filter(|path| numbered(path, "checkpoint-").is_some() && !is_known(path))
        .collect();
    found.sort();
    let mut adopted = Vec::new();
    for path in found {
        match step_of(&path, step_unit, reported).filter(|step| *step <= reported) {
            Some(step) => adopted.push(Event::of(
                trial.number,
                CheckpointEvent::Saved {
                    step,
                    bytes: Some(size(&path)),
                    digest: digests.then(|| checkpoint_digest(&path)).flatten(),
                    path,
                    system: None,
                },
            )),
            // What cannot be removed will be overwritten.
            None => drop(fs::remove_dir_all(&path)),
        }
    }
    adopted
}

/// The fields read from `trainer_state.json`.
#[derive(Deserialize)]
struct TrainerStateFile {
    global_step: u64,
    epoch: f64,
    evaluated_step: u64,
    last_report: Option<Report>,
}

#[derive(Deserialize)]
struct Report {
    #[serde(rename = "clock")]
    step: u64,
}

/// The step of a complete checkpoint; `None` if it is incomplete or has no step.
fn step_of(directory: &Path, step_unit: StepUnit, reported: u64) -> Option<u64> {
    let read = |name: &str| sqlite::read_file(&directory.join(name)).ok();
    let digests: BTreeMap<String, String> = serde_json::from_slice(&read("digests.json")?).ok()?;
    for (name, digest) in &digests {
        if blake3::hash(&read(name)?).to_hex().as_str() != digest {
            return None;
        }
    }
    digests.contains_key("trainer_state.json").then_some(())?;
    let state: TrainerStateFile = serde_json::from_slice(&read("trainer_state.json")?).ok()?;
    let passed = match step_unit {
        StepUnit::Step => Some(state.global_step),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "passes over the data, a small positive number"
        )]
        StepUnit::Epoch => Some(state.epoch as u64),
        // The number of rows per step is not recorded.
        StepUnit::Samples => None,
    };
    // As the trainer registers it.
    let is_between = state.evaluated_step != state.global_step;
    let last = state.last_report.map(|report| report.step).or(is_between.then_some(reported));
    last.into_iter().chain(passed).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::disk::name_of;
    use crate::runner::fixtures::{self, ATTEMPT, TRIAL};
    use crate::runner::garbage_collection::clear_drafts;
    use crate::runner::this_process;
    use crate::storage::memory::MemoryStore;
    use crate::storage::{StorageReader, Takeover};
    use crate::study::checkpoint::Checkpoint;
    use crate::study::event::{AttemptEnd, AttemptEvent, RunnerEvent, StateEvent};
    use crate::study::metric::Metrics;
    use crate::study::params::Params;
    use crate::study::trial::{Origin, TrialState};

    /// A checkpoint as the trainer writes it after `step` optimiser steps, with two steps per
    /// epoch, at the end of an epoch.
    fn write(directory: &Path, step: u64) -> PathBuf {
        let path = directory.join(format!("checkpoint-{step}"));
        fs::create_dir_all(&path).unwrap();
        let state = serde_json::json!({
            "version": 1, "global_step": step, "epoch": step as f64 / 2.0,
            "evaluated_step": step - step % 2, "best_metric": null,
            "last_report": { "clock": step / 2, "metrics": {} },
        });
        let mut digests = BTreeMap::new();
        for (name, text) in [
            ("trainer_state.json", state.to_string()),
            ("model.safetensors", format!("weights {step}")),
        ] {
            fs::write(path.join(name), &text).unwrap();
            digests.insert(name, blake3::hash(text.as_bytes()).to_hex().to_string());
        }
        fs::write(path.join("digests.json"), serde_json::to_vec(&digests).unwrap()).unwrap();
        path
    }

    fn saved(step: u64, path: PathBuf) -> Event {
        Event::of(
            TRIAL,
            CheckpointEvent::Saved { step, path, bytes: None, system: None, digest: None },
        )
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            entries(directory).filter_map(|path| Some(name_of(&path)?.to_owned())).collect();
        names.sort();
        names
    }

    /// A study whose runner died.
    struct Died {
        directory: tempfile::TempDir,
        storage: MemoryStore,
        study: StoredStudy,
        lease: Lease,
        /// The directory of its trial.
        own: PathBuf,
    }

    impl Died {
        /// Its trial reported the epochs up to `reported`, saved the first, and is in `state`.
        fn new(reported: u64, state: &[Event]) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let program = Program::Trainer { arguments: BTreeMap::new(), data: BTreeMap::new() };
            let mut storage = MemoryStore::new();
            storage.create_study(Timestamp(0), &fixtures::spec(program)).unwrap();
            let study = storage.study("s").unwrap().unwrap();
            let (me, now) = (this_process(), Timestamp(0));
            let lease = storage.acquire(study.id, &me, now, Takeover::IfFree).unwrap();
            let own = study.files(&directory.path().join("hpsearch.db")).trial(TRIAL);
            let (params, origin) = (Params::new(), Origin::Asked);
            let mut events =
                vec![Event::Trial(TRIAL, TrialEvent::created(params, origin)), fixtures::started()];
            events.extend((1..=reported).map(|step| {
                let metrics: Metrics = [("loss".to_owned(), 1.0)].into_iter().collect();
                Event::of(TRIAL, AttemptEvent::reported(ATTEMPT, step, metrics))
            }));
            events.push(saved(1, write(&own, 2)));
            events.extend_from_slice(state);
            storage.append(&lease, Timestamp(1), &events).unwrap();
            Died { directory, storage, study, lease, own }
        }

        fn files(&self) -> StudyFiles {
            self.study.files(&self.directory.path().join("hpsearch.db"))
        }

        fn settled(&mut self) -> Vec<Checkpoint> {
            let files = self.files();
            settle(&mut self.storage, &self.lease, &self.study, &files, Timestamp(2)).unwrap();
            self.storage.trial(self.study.id, TRIAL).unwrap().unwrap().checkpoints
        }
    }

    #[test]
    fn what_a_dead_trainer_was_writing_is_removed_and_what_a_living_process_writes_stays() {
        let mut died = Died::new(3, &[]);
        let data = died.directory.path().join("files/data");
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let (dead, living) = (dead.id(), format!(".4567.{}-1.tmp", std::process::id()));
        for path in [
            data.join(format!(".0123.{dead}-0.tmp")),
            data.join(&living),
            data.join("89ab"),
            data.join(format!("89ab/.features-01.{dead}-0.tmp")),
            died.own.join(".checkpoint-4.77-0.tmp"),
        ] {
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("tokens"), "half").unwrap();
        }
        died.settled();
        clear_drafts(&data);
        assert_eq!(names(&data), [living, "89ab".to_owned()]);
        assert_eq!(names(&data.join("89ab")), ["tokens"]);
        assert_eq!(names(&died.own), ["checkpoint-2"]);
    }

    #[test]
    fn a_whole_checkpoint_that_is_not_ahead_is_adopted_and_others_are_removed() {
        let mut died = Died::new(2, &[]);
        let own = died.own.clone();
        let [whole, within_an_epoch, ahead, damaged] = [4, 5, 6, 3].map(|step| write(&own, step));
        fs::write(damaged.join("model.safetensors"), "other weights").unwrap();
        let [torn, mine] = ["checkpoint-7", "checkpoint-notes"].map(|name| own.join(name));
        [&torn, &mine].iter().for_each(|path| fs::create_dir_all(path).unwrap());
        let checkpoints = died.settled();
        let found = checkpoints.iter().map(|checkpoint| (checkpoint.step, &checkpoint.path));
        assert_eq!(
            found.collect::<Vec<_>>(),
            [(1, &own.join("checkpoint-2")), (2, &whole), (2, &within_an_epoch)]
        );
        assert!(checkpoints[1].bytes.is_some_and(|bytes| bytes > 0));
        assert!(!ahead.exists() && !damaged.exists() && !torn.exists() && mine.exists());
        // Repeating it changes nothing: adopted checkpoints are listed.
        assert_eq!(died.settled(), checkpoints);
    }

    #[test]
    fn what_was_dropped_and_not_removed_when_the_runner_was_killed_is_removed_by_the_next() {
        let mut died = Died::new(3, &[]);
        let [dropped, again] = [4, 6].map(|step| write(&died.own, step));
        let elsewhere = write(died.directory.path(), 8);
        let drop_of =
            |path: &PathBuf| Event::of(TRIAL, CheckpointEvent::Dropped { path: path.clone() });
        let events =
            [drop_of(&dropped), drop_of(&again), saved(3, again.clone()), drop_of(&elsewhere)];
        died.storage.append(&died.lease, Timestamp(2), &events).unwrap();
        let mut remover = Remover::new(vec![died.files()]);
        let mut remove = |died: &Died| {
            let state = died.storage.study_state(died.study.id).unwrap();
            remove_dropped(&died.storage, died.study.id, &state, &mut remover).unwrap();
        };
        remove(&died);
        assert!(dropped.exists(), "a runner that left has removed what it dropped itself");
        let killed = Event::Runner(RunnerEvent::Stopped {
            reason: "it was killed".to_owned(),
            ran_micros: 1,
            device_micros: 0,
            heard: Some(Timestamp(3)),
            runner: None,
        });
        died.storage.append(&died.lease, Timestamp(4), &[killed]).unwrap();
        remove(&died);
        assert_eq!([&dropped, &again, &elsewhere].map(|path| path.exists()), [false, true, true]);
    }

    #[test]
    fn what_is_over_and_what_is_paused_keeps_what_it_has() {
        let (state, value) = (TrialState::Complete, Some(1.0));
        let finished = Event::Trial(TRIAL, TrialEvent::finished(state, value, None));
        let mut over = Died::new(3, &[fixtures::ended(AttemptEnd::Completed), finished]);
        let newer = write(&over.own, 6);
        assert_eq!(over.settled().len(), 1, "a trial that is over needs no more");
        assert!(newer.exists(), "`hpsearch gc` removes it");
        let reason = "rank 3 of 3".to_owned();
        let mut paused =
            Died::new(3, &[Event::of(TRIAL, StateEvent::Paused { reason, hold: None })]);
        write(&paused.own, 6);
        let steps = paused.settled().into_iter().map(|checkpoint| checkpoint.step);
        assert_eq!(steps.collect::<Vec<_>>(), [1, 3], "it continues from its last report");
    }

    #[test]
    fn copies_of_trials_that_the_store_forgot_are_removed() {
        let mut died = Died::new(1, &[]);
        died.study.spec.program = fixtures::command();
        let files = died.files();
        let draft = files.copies(TrialNumber(1)).join(".step-4.77-0.tmp");
        let foreign = files.directory().join("trial-x/copies/mine");
        [&draft, &foreign].iter().for_each(|path| fs::create_dir_all(path).unwrap());
        died.settled();
        assert_eq!((draft.exists(), foreign.exists()), (false, true));
    }
}
