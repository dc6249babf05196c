//! Checkpoints that a dead runner left between the disk and the store: whole ones are adopted,
//! dropped ones removed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::disk::{entries, size};
use super::garbage_collection::clear_trial_drafts;
use super::listed_in;
use super::removal::Remover;
use crate::storage::paths::StudyFiles;
use crate::storage::sqlite;
use crate::storage::{Lease, Storage, StorageError, StoredStudy, StudyId};
use crate::study::event::{Event, Seq, TrialEvent};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::spec::Program;
use crate::study::state::StudyState;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// So many events before a runner's death are looked at for checkpoints that it had still to
/// remove: those of its last turn, or of a few that died in a row. What is older is found by
/// `hpsearch gc`.
const LOOKED_AT: u64 = 5_000;

/// Removes the files of checkpoints that a runner had dropped when it was killed, and that are
/// there still: it is written first that they are not needed, and then they are removed. `view` is
/// the state of the study after [`settle`].
///
/// # Errors
/// Those of the store.
pub fn remove_dropped(
    storage: &dyn Storage,
    study: StudyId,
    view: &StudyState,
    remover: &mut Remover,
) -> Result<(), StorageError> {
    if view.killed_at.is_none() {
        return Ok(());
    }
    let listed = |path: &Path| {
        view.trials
            .iter()
            .any(|trial| trial.checkpoints.iter().any(|checkpoint| checkpoint.path == path))
    };
    for (_, _, event) in storage.events_before(study, Seq(i64::MAX), LOOKED_AT)? {
        if let Event::Trial(trial, TrialEvent::CheckpointDropped { path }) = &event
            && path.exists()
            && !listed(path)
        {
            remover.remove(*trial, path, listed_in(view));
        }
    }
    Ok(())
}

/// Settles the checkpoints of trials that are not over and that the store does not list. A whole
/// one that is not ahead of what its trial reported is taken into the store, so that the trial goes
/// on from there; another is removed, for the trial will write it again, and so is what was being
/// written.
///
/// Nobody runs the study meanwhile: the caller holds the lease and has cleared away what a dead
/// runner left. A command's files are its own: what they hold, and of which step, only the command
/// knows. Of them only copies that the store does not list are removed.
///
/// # Errors
/// Those of the store. Files that cannot be read or removed stay: the trial writes over them.
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
    for state in UNFINISHED {
        for trial in in_state(storage, study, state)? {
            clear_trial_drafts(&files.trial(trial.number));
            adopted.extend(settle_trial(&trial, study.spec.step, &files.trial(trial.number)));
        }
    }
    if !adopted.is_empty() {
        storage.append(lease, now, &adopted)?;
    }
    Ok(())
}

/// Removes copies that were not yet in the store when their runner died, half or whole; their
/// trials announce those steps again.
fn clear_copies(
    storage: &dyn Storage,
    study: &StoredStudy,
    files: &StudyFiles,
) -> Result<(), StorageError> {
    let listed: Vec<PathBuf> =
        storage.checkpoints(study.id)?.into_iter().map(|(_, checkpoint)| checkpoint.path).collect();
    let mut trials = forgotten(storage, study, files)?;
    for state in UNFINISHED {
        trials.extend(in_state(storage, study, state)?.iter().map(|trial| trial.number));
    }
    let is_listed = |copy: &PathBuf| listed.iter().any(|path| path.starts_with(copy));
    for trial in trials {
        for copy in entries(&files.copies(trial)).filter(|copy| !is_listed(copy)) {
            // What cannot be removed now is found by `gc`.
            let _found_later = fs::remove_dir_all(copy);
        }
    }
    Ok(())
}

/// Trials that have files and that the store does not know: its last moments went with the
/// machine's power, or its log was deleted. Their numbers are given again.
fn forgotten(
    storage: &dyn Storage,
    study: &StoredStudy,
    files: &StudyFiles,
) -> Result<Vec<TrialNumber>, StorageError> {
    let known = storage.count(study.id, &Filter::all())?;
    let number = |path: PathBuf| path.file_name()?.to_str()?.strip_prefix("trial-")?.parse().ok();
    let directory = files.directory();
    let numbers = entries(&directory).filter_map(number);
    Ok(numbers.filter(|number| *number >= known).map(TrialNumber).collect())
}

/// The states of trials that are not over.
const UNFINISHED: [TrialState; 3] = [TrialState::Running, TrialState::Queued, TrialState::Paused];

fn in_state(
    storage: &dyn Storage,
    study: &StoredStudy,
    state: TrialState,
) -> Result<Vec<Trial>, StorageError> {
    let of_state = Filter::parse(&format!("state:{}", state.as_str()), &study.spec)
        .unwrap_or_else(|_| Filter::all());
    storage.trials(study.id, &TrialQuery::all(SortKey::Number).filtered(of_state))
}

fn settle_trial(trial: &Trial, clock: StepUnit, directory: &Path) -> Vec<Event> {
    let reported = trial.last().map_or(0, |(step, _)| step);
    let is_known =
        |path: &PathBuf| trial.checkpoints.iter().any(|checkpoint| checkpoint.path == *path);
    let mut found: Vec<PathBuf> =
        entries(directory).filter(|path| is_checkpoint(path) && !is_known(path)).collect();
    found.sort();
    let mut adopted = Vec::new();
    for path in found {
        match step_of(&path, clock).filter(|step| *step <= reported) {
            Some(step) => adopted.push(Event::Trial(
                trial.number,
                TrialEvent::CheckpointSaved { step, bytes: Some(size(&path)), path, system: None },
            )),
            // What cannot be removed is written over.
            None => drop(fs::remove_dir_all(&path)),
        }
    }
    adopted
}

fn is_checkpoint(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix("checkpoint-"))
        .is_some_and(|step| step.parse::<u64>().is_ok())
}

/// What is read of `trainer_state.json`; the trainer knows the rest.
#[derive(Deserialize)]
struct State {
    global_step: u64,
    epoch: f64,
    evaluated_step: u64,
    last_report: Option<Report>,
}

#[derive(Deserialize)]
struct Report {
    clock: u64,
}

/// The step that a whole checkpoint holds; `None` for one that is not whole, or does not
/// say.
fn step_of(directory: &Path, clock: StepUnit) -> Option<u64> {
    let digests: BTreeMap<String, String> =
        serde_json::from_slice(&sqlite::read_file(&directory.join("digests.json")).ok()?).ok()?;
    for (name, digest) in &digests {
        let bytes = sqlite::read_file(&directory.join(name)).ok()?;
        if blake3::hash(&bytes).to_hex().as_str() != digest {
            return None;
        }
    }
    digests.contains_key("trainer_state.json").then_some(())?;
    let state: State =
        serde_json::from_slice(&sqlite::read_file(&directory.join("trainer_state.json")).ok()?)
            .ok()?;
    let passed = match clock {
        StepUnit::Step => Some(state.global_step),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "passes over the data, a small positive number"
        )]
        StepUnit::Epoch => Some(state.epoch as u64),
        // How many rows a step had is not in it.
        StepUnit::Samples => None,
    };
    let reported = state
        .last_report
        .filter(|_| state.evaluated_step == state.global_step)
        .map(|report| report.clock);
    match (reported, passed) {
        (Some(reported), Some(passed)) => Some(reported.min(passed)),
        (reported, passed) => reported.or(passed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::this_process;
    use crate::storage::memory::MemoryStore;
    use crate::storage::{StorageReader, Takeover};
    use crate::study::checkpoint::Checkpoint;
    use crate::study::device::{Device, Slot};
    use crate::study::event::{AttemptEnd, RunnerEvent};
    use crate::study::metric::{Direction, Metrics};
    use crate::study::params::Params;
    use crate::study::space::Space;
    use crate::study::spec::StudySpec;
    use crate::study::trial::{AttemptNumber, Origin};

    /// A checkpoint as the trainer writes it, after `step` optimiser steps, two in an epoch,
    /// reported at its end.
    fn write(directory: &Path, step: u64) -> PathBuf {
        let path = directory.join(format!("checkpoint-{step}"));
        fs::create_dir_all(&path).unwrap();
        let epoch = step as f64 / 2.0;
        let state = serde_json::json!({ "version": 1, "global_step": step, "epoch": epoch, "evaluated_step": step - step % 2,
            "last_report": { "clock": step / 2, "metrics": {} }, "best_metric": null });
        let files = [
            ("trainer_state.json", state.to_string()),
            ("model.safetensors", format!("weights {step}")),
        ];
        let digests: BTreeMap<&str, String> = files
            .iter()
            .map(|(name, text)| (*name, blake3::hash(text.as_bytes()).to_hex().to_string()))
            .collect();
        for (name, text) in &files {
            fs::write(path.join(name), text).unwrap();
        }
        fs::write(path.join("digests.json"), serde_json::to_vec(&digests).unwrap()).unwrap();
        path
    }

    /// A study whose runner died; its trial reported the epochs up to `reported`, and saved the
    /// first.
    fn died(
        directory: &Path,
        reported: u64,
        state: &[Event],
    ) -> (MemoryStore, StoredStudy, Lease, PathBuf) {
        let store = directory.join("hpsearch.db");
        let program = Program::Trainer { arguments: BTreeMap::new(), data: BTreeMap::new() };
        let spec = StudySpec::new("s", "loss", Direction::Minimize, Space::default(), program);
        let mut storage = MemoryStore::new();
        storage.create_study(Timestamp(0), &spec).unwrap();
        let study = storage.study("s").unwrap().unwrap();
        let lease =
            storage.acquire(study.id, &this_process(), Timestamp(0), Takeover::IfFree).unwrap();
        let (trial, attempt) = (TrialNumber(0), AttemptNumber(0));
        let files = StudyFiles::of(&spec, None, &store).trial(trial);
        let first = write(&files, 2);
        let slot = Slot { index: 0, device: Device::Cpu };
        let mut events = vec![
            Event::Trial(
                trial,
                TrialEvent::Created { params: Params::new(), origin: Origin::Asked },
            ),
            Event::Trial(
                trial,
                TrialEvent::AttemptStarted {
                    attempt,
                    slot,
                    resume: None,
                    until: None,
                    rows_at_once: None,
                    device_micros: 0,
                },
            ),
        ];
        events.extend((1..=reported).map(|step| {
            let metrics: Metrics = [("loss".to_owned(), 1.0)].into_iter().collect();
            Event::Trial(trial, TrialEvent::Reported { attempt, step, metrics })
        }));
        events.push(Event::Trial(
            trial,
            TrialEvent::CheckpointSaved { step: 1, path: first, bytes: None, system: None },
        ));
        events.extend_from_slice(state);
        storage.append(&lease, Timestamp(1), &events).unwrap();
        (storage, study, lease, files)
    }

    fn settled(
        storage: &mut MemoryStore,
        study: &StoredStudy,
        lease: &Lease,
        directory: &Path,
    ) -> Vec<Checkpoint> {
        settle(storage, lease, study, &study.files(&directory.join("hpsearch.db")), Timestamp(2))
            .unwrap();
        storage.trial(study.id, TrialNumber(0)).unwrap().unwrap().checkpoints
    }

    #[test]
    fn what_a_dead_trainer_was_writing_is_removed_and_what_a_living_process_writes_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (mut storage, study, lease, files) = died(directory.path(), 3, &[]);
        let data = directory.path().join("files").join("data");
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let names = [(".0123.77-0.tmp", dead.id()), (".4567.77-1.tmp", std::process::id())]
            .map(|(name, pid)| name.replace("77", &pid.to_string()));
        let beside = data.join("89ab").join(format!(".features-01.{}-0.tmp", dead.id()));
        for path in [
            &data.join(&names[0]),
            &data.join(&names[1]),
            &data.join("89ab"),
            &beside,
            &files.join(".checkpoint-4.77-0.tmp"),
        ] {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join("tokens"), "half").unwrap();
        }
        settled(&mut storage, &study, &lease, directory.path());
        crate::runner::garbage_collection::clear_drafts(&data);
        let there = |directory: &Path| {
            entries(directory)
                .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
                .collect::<Vec<_>>()
        };
        let mut kept = there(&data);
        kept.sort();
        assert_eq!(kept, [names[1].clone(), "89ab".to_owned()]);
        assert_eq!(there(&data.join("89ab")), ["tokens"]);
        assert!(!there(&files).iter().any(|name| name.ends_with(".tmp")), "{:?}", there(&files));
    }

    #[test]
    fn a_whole_checkpoint_that_is_not_ahead_is_adopted_and_others_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (mut storage, study, lease, files) = died(directory.path(), 2, &[]);
        let whole = write(&files, 4);
        let within_an_epoch = write(&files, 5);
        let ahead = write(&files, 6);
        let damaged = write(&files, 3);
        fs::write(damaged.join("model.safetensors"), "other weights").unwrap();
        let torn = files.join("checkpoint-7");
        fs::create_dir_all(&torn).unwrap();
        let own = files.join("checkpoint-notes");
        fs::create_dir_all(&own).unwrap();
        let checkpoints = settled(&mut storage, &study, &lease, directory.path());
        let of: Vec<(u64, &Path)> = checkpoints
            .iter()
            .map(|checkpoint| (checkpoint.step, checkpoint.path.as_path()))
            .collect();
        assert_eq!(
            of,
            [
                (1, files.join("checkpoint-2").as_path()),
                (2, whole.as_path()),
                (2, within_an_epoch.as_path())
            ]
        );
        assert!(checkpoints[1].bytes.is_some_and(|bytes| bytes > 0));
        assert!(!ahead.exists() && !damaged.exists() && !torn.exists() && own.exists());
        // Once more changes nothing: what is adopted is known.
        assert_eq!(settled(&mut storage, &study, &lease, directory.path()), checkpoints);
    }

    #[test]
    fn what_was_dropped_and_not_removed_when_the_runner_was_killed_is_removed_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let trial = TrialNumber(0);
        let (mut storage, study, lease, files) = died(directory.path(), 3, &[]);
        let (dropped, again) = (write(&files, 4), write(&files, 6));
        let elsewhere = write(directory.path(), 8);
        let drop_of = |path: &PathBuf| {
            Event::Trial(trial, TrialEvent::CheckpointDropped { path: path.clone() })
        };
        let saved = Event::Trial(
            trial,
            TrialEvent::CheckpointSaved { step: 3, path: again.clone(), bytes: None, system: None },
        );
        let events = [drop_of(&dropped), drop_of(&again), saved, drop_of(&elsewhere)];
        storage.append(&lease, Timestamp(2), &events).unwrap();
        let mut remover = Remover::new(vec![study.files(&directory.path().join("hpsearch.db"))]);
        let mut remove = |storage: &mut MemoryStore| {
            remove_dropped(storage, study.id, &storage.view(study.id).unwrap(), &mut remover)
                .unwrap()
        };
        remove(&mut storage);
        assert!(
            dropped.exists(),
            "a runner that left has removed what it dropped; nobody else need look"
        );
        let killed = Event::Runner(RunnerEvent::Stopped {
            reason: "it was killed".to_owned(),
            ran_micros: 1,
            device_micros: 0,
            heard: Some(Timestamp(3)),
        });
        storage.append(&lease, Timestamp(4), &[killed]).unwrap();
        remove(&mut storage);
        assert_eq!([&dropped, &again, &elsewhere].map(|path| path.exists()), [false, true, true]);
    }

    #[test]
    fn what_is_over_and_what_is_paused_keeps_what_it_has() {
        let over = [
            Event::Trial(
                TrialNumber(0),
                TrialEvent::AttemptEnded {
                    attempt: AttemptNumber(0),
                    end: AttemptEnd::Completed,
                    reason: None,
                    device_micros: None,
                    memory: None,
                },
            ),
            Event::Trial(
                TrialNumber(0),
                TrialEvent::Finished {
                    state: TrialState::Complete,
                    value: Some(1.0),
                    reason: None,
                },
            ),
        ];
        let directory = tempfile::tempdir().unwrap();
        let (mut storage, study, lease, files) = died(directory.path(), 3, &over);
        let newer = write(&files, 6);
        assert_eq!(
            settled(&mut storage, &study, &lease, directory.path()).len(),
            1,
            "a trial that is over needs no more"
        );
        assert!(newer.exists(), "`hpsearch gc` removes it");
        let paused = [Event::Trial(
            TrialNumber(0),
            TrialEvent::Paused { reason: "rank 3 of 3".to_owned(), hold: None },
        )];
        let directory = tempfile::tempdir().unwrap();
        let (mut storage, study, lease, files) = died(directory.path(), 3, &paused);
        write(&files, 6);
        let steps: Vec<u64> = settled(&mut storage, &study, &lease, directory.path())
            .iter()
            .map(|checkpoint| checkpoint.step)
            .collect();
        assert_eq!(steps, [1, 3], "it continues from its last report");
    }

    #[test]
    fn copies_of_trials_that_the_store_forgot_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (mut storage, mut study, lease, _) = died(directory.path(), 1, &[]);
        study.spec.program = Program::Command {
            run: Vec::new(),
            cwd: PathBuf::new(),
            env: BTreeMap::new(),
            args: Default::default(),
            metrics: Default::default(),
        };
        let files = study.files(&directory.path().join("hpsearch.db"));
        let draft = files.copies(TrialNumber(1)).join(".step-4.77-0.tmp");
        let foreign = files.directory().join("trial-x").join("copies").join("mine");
        for path in [&draft, &foreign] {
            fs::create_dir_all(path).unwrap();
        }
        settle(&mut storage, &lease, &study, &files, Timestamp(2)).unwrap();
        assert_eq!((draft.exists(), foreign.exists()), (false, true));
    }
}
