//! Which checkpoints stay: a running trial's newest and best, and the best trials' best.

use super::{Effect, Engine};
use crate::checkpoint::Checkpoint;
use crate::event::Event;
use crate::metric::Score;
use crate::trial::{Trial, TrialNumber, TrialState};

impl Engine {
    /// Keeps a running trial's checkpoint to go on from, its best one (to export), and those not yet reported.
    pub(super) fn drop_superseded(&mut self, number: TrialNumber) {
        if self.spec.checkpoints.keep_best.is_none() {
            return;
        }
        let Some(trial) = self.view.trial(number) else { return };
        let Some(resumable) = trial.resumable_checkpoint() else { return };
        let best = self.best_checkpoint(trial).and_then(|index| trial.checkpoints.get(index));
        let superseded = |checkpoint: &&Checkpoint| checkpoint.step <= resumable.step && *checkpoint != resumable && Some(*checkpoint) != best;
        let paths: Vec<_> = trial.checkpoints.iter().filter(superseded).map(|checkpoint| checkpoint.path.clone()).collect();
        for path in paths {
            self.drop_checkpoint(number, path);
        }
    }

    /// A pruned or failed trial keeps nothing; a complete one its best, while it is among the study's best.
    pub(super) fn drop_after_finish(&mut self, number: TrialNumber) {
        let Some(keep) = self.spec.checkpoints.keep_best else { return };
        let Some(trial) = self.view.trial(number) else { return };
        if trial.checkpoints.is_empty() {
            return;
        }
        let kept = if trial.state == TrialState::Complete { self.best_checkpoint(trial) } else { None };
        let dropped = trial.checkpoints.iter().enumerate().filter(|(index, _)| Some(*index) != kept);
        let paths: Vec<_> = dropped.map(|(_, checkpoint)| checkpoint.path.clone()).collect();
        for path in paths {
            self.drop_checkpoint(number, path);
        }
        self.keep_study_best(usize::try_from(keep).unwrap_or(usize::MAX));
    }

    fn keep_study_best(&mut self, keep: usize) {
        let direction = self.view.direction();
        let holds = |trial: &&Trial| trial.state == TrialState::Complete && !trial.checkpoints.is_empty();
        let mut ranked: Vec<&Trial> = self.view.trials.iter().filter(holds).collect();
        ranked.sort_by_key(|trial| Score::new(direction, trial.value.unwrap_or(f64::NAN)));
        let dropped: Vec<_> = ranked
            .iter()
            .skip(keep)
            .flat_map(|trial| trial.checkpoints.iter().map(|checkpoint| (trial.number, checkpoint.path.clone())))
            .collect();
        for (number, path) in dropped {
            self.drop_checkpoint(number, path);
        }
    }

    /// The index of the checkpoint that holds the trial's value, or else the newest one.
    fn best_checkpoint(&self, trial: &Trial) -> Option<usize> {
        let step = self.view.value_step(trial);
        let exact = trial.checkpoints.iter().rposition(|checkpoint| Some(checkpoint.step) == step);
        exact.or_else(|| trial.checkpoints.len().checked_sub(1))
    }

    fn drop_checkpoint(&mut self, trial: TrialNumber, path: std::path::PathBuf) {
        self.emit(Event::CheckpointDropped { trial, path: path.clone() });
        self.effects.push(Effect::Remove { trial, path });
    }
}
