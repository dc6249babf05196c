//! Finds a checkpoint of a trial by its path, however many the trial has.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::study::checkpoint::Checkpoint;
use crate::study::trial::{Trial, TrialNumber};

/// Trials with fewer checkpoints are searched linearly.
const MANY_CHECKPOINTS: usize = 32;

/// For trials with many checkpoints, the step of each by path. An index only: states that differ in
/// it are equal.
#[derive(Clone, Default)]
pub(super) struct CheckpointPaths(HashMap<TrialNumber, HashMap<PathBuf, u64>>);

impl PartialEq for CheckpointPaths {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl fmt::Debug for CheckpointPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckpointPaths")
    }
}

impl CheckpointPaths {
    /// Forgets the paths of a trial.
    pub(super) fn forget(&mut self, trial: TrialNumber) {
        self.0.remove(&trial);
    }

    /// Removes the checkpoint at `path` from a trial, if present.
    pub(super) fn take_out(&mut self, trial: &mut Trial, path: &Path) {
        if trial.checkpoints.len() < MANY_CHECKPOINTS {
            self.0.remove(&trial.number);
            return trial.checkpoints.retain(|checkpoint| checkpoint.path != path);
        }
        let Some(step) = self.of(trial).remove(path) else { return };
        let first = trial.checkpoints.partition_point(|checkpoint| checkpoint.step < step);
        if let Some(index) =
            trial.checkpoints[first..].iter().position(|checkpoint| checkpoint.path == path)
        {
            trial.checkpoints.remove(first + index);
        }
    }

    /// Adds a checkpoint with a new path to a trial.
    pub(super) fn put_in(&mut self, trial: &mut Trial, checkpoint: Checkpoint) {
        if trial.checkpoints.len() >= MANY_CHECKPOINTS {
            self.of(trial).insert(checkpoint.path.clone(), checkpoint.step);
        }
        let position = trial.checkpoints.partition_point(|earlier| earlier.step <= checkpoint.step);
        trial.checkpoints.insert(position, checkpoint);
    }

    fn of(&mut self, trial: &Trial) -> &mut HashMap<PathBuf, u64> {
        let steps = self.0.entry(trial.number).or_default();
        if steps.len() != trial.checkpoints.len() {
            *steps = trial
                .checkpoints
                .iter()
                .map(|checkpoint| (checkpoint.path.clone(), checkpoint.step))
                .collect();
        }
        steps
    }
}
