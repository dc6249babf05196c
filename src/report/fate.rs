//! What the decisions of a pruner meant for a trial.

use crate::study::decision::Decision;
use crate::study::trial::{Trial, TrialState};

/// What a decision meant for a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It continued at once.
    Continued,
    /// It was paused, and continued later.
    Resumed,
    /// It is paused.
    Waits,
    /// It was stopped.
    Stopped,
}

impl Fate {
    /// Whether the trial continued.
    pub fn went_on(self) -> bool {
        matches!(self, Fate::Continued | Fate::Resumed)
    }
}

/// The decisions about a trial, by step. A program may report once more before it has heard that it
/// is stopped: the trial was stopped at the first of these steps.
pub fn fates(trial: &Trial) -> Vec<(u64, Fate)> {
    let last = trial.last_step().unwrap_or(0);
    let stop = |verdict: &Decision| matches!(verdict, Decision::Stop(_));
    let went_on = trial.decisions.iter().rposition(|decision| !stop(&decision.verdict));
    let first_stop = went_on.map_or(0, |index| index + 1);
    let decisions = trial.decisions.iter().take(first_stop + 1).enumerate();
    let fate = |index: usize, step: u64, verdict: &Decision| match verdict {
        // It was continued by hand.
        Decision::Stop(_) if index < first_stop => Fate::Resumed,
        Decision::Stop(_) => Fate::Stopped,
        Decision::Continue(_) => Fate::Continued,
        Decision::Pause(_)
            if last > step || matches!(trial.state, TrialState::Running | TrialState::Complete) =>
        {
            Fate::Resumed
        }
        Decision::Pause(_) => Fate::Waits,
    };
    decisions
        .map(|(index, decision)| (decision.step, fate(index, decision.step, &decision.verdict)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::decision::Reason;
    use crate::study::params::Params;
    use crate::study::time::Timestamp;
    use crate::study::trial::{DecisionAtStep, Origin, TrialNumber};

    fn trial(verdicts: &[(u64, Decision)], state: TrialState) -> Trial {
        let origin = Origin::Sampled("random".to_owned());
        let mut trial = Trial::new(TrialNumber(0), Params::new(), origin, Timestamp(0));
        trial.state = state;
        for (step, verdict) in verdicts {
            trial.curve.push((*step, 1.0));
            trial.decisions.push(DecisionAtStep { step: *step, verdict: verdict.clone() });
        }
        trial
    }

    fn reason() -> Reason {
        Reason::Recorded("rank 3 of 3".to_owned())
    }

    #[test]
    fn a_trial_that_reports_after_its_stop_was_stopped_once() {
        let stop = || Decision::Stop(reason());
        let late = trial(&[(0, Decision::Continue(None)), (1, stop()), (2, stop())], PRUNED);
        assert_eq!(fates(&late), [(0, Fate::Continued), (1, Fate::Stopped)]);
        let once = trial(&[(0, stop()), (1, stop())], PRUNED);
        assert_eq!(fates(&once), [(0, Fate::Stopped)]);
        let by_hand = trial(&[(1, stop()), (3, Decision::Continue(None))], TrialState::Running);
        assert_eq!(fates(&by_hand), [(1, Fate::Resumed), (3, Fate::Continued)]);
    }

    #[test]
    fn a_pause_is_over_once_the_trial_reports_again() {
        let pause = || Decision::Pause(reason());
        let paused = trial(&[(1, pause()), (3, pause())], TrialState::Paused);
        assert_eq!(fates(&paused), [(1, Fate::Resumed), (3, Fate::Waits)]);
        let ended = trial(&[(1, pause()), (3, pause())], TrialState::Complete);
        assert!(fates(&ended).iter().all(|(_, fate)| fate.went_on()));
    }

    const PRUNED: TrialState = TrialState::Pruned;
}
