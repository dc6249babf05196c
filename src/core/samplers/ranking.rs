//! The order of trials from best to worst by which samplers split them.

use std::collections::BTreeMap;

use crate::study::history::History;
use crate::study::metric::{Direction, Score};
use crate::study::pareto;
use crate::study::trial::{Trial, TrialState};

/// Trials from best to worst.
pub(super) struct Ranking<'a> {
    /// Best first.
    pub trials: Vec<&'a Trial>,
    /// How many of them, from the front, are complete, pruned or paused, including infeasible ones:
    /// those that may count as good.
    pub informed: u64,
    /// The same and the failed ones.
    pub answered: u64,
}

impl<'a> Ranking<'a> {
    /// Complete trials by value (NaN last); then pruned and paused ones, by last step and then by
    /// last report; then infeasible ones by their violation (Optuna's order); then failed ones;
    /// then unfinished ones. Ties are broken by number. With several objectives, complete trials
    /// and those stopped at the same step are in the order of [`pareto::order`].
    pub fn new(history: History<'a>) -> Self {
        let mut keyed: Vec<(RankKey, &Trial)> =
            rank_keys(&history).into_iter().zip(history.trials()).collect();
        keyed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
        let informed = keyed.iter().take_while(|(key, _)| key.is_informed()).count() as u64;
        let answered =
            keyed.iter().take_while(|(key, _)| key.class <= Class::Failed).count() as u64;
        Ranking { trials: keyed.into_iter().map(|(_, trial)| trial).collect(), informed, answered }
    }
}

/// Trials of one class and step, whose losses are compared.
#[derive(Default)]
struct Compared {
    indices: Vec<usize>,
    losses: Vec<Vec<f64>>,
}

/// The keys of all trials, by index.
pub(super) fn rank_keys(history: &History<'_>) -> Vec<RankKey> {
    if !history.has_several_objectives() {
        return history.trials().iter().map(|trial| RankKey::of(history, trial)).collect();
    }
    let mut compared: BTreeMap<(Class, u64), Compared> = BTreeMap::new();
    let mut rank_keys: Vec<RankKey> = Vec::with_capacity(history.trials().len());
    for (index, trial) in history.trials().iter().enumerate() {
        let (key, losses) = RankKey::among_several(history, trial);
        rank_keys.push(key);
        if let Some(losses) = losses {
            let group = compared.entry((key.class, key.short_by)).or_default();
            group.indices.push(index);
            group.losses.push(losses);
        }
    }
    for Compared { indices, losses } in compared.into_values() {
        for (rank, place) in pareto::order(&losses).into_iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a rank of a trial")]
            let score = Score::new(Direction::Minimize, rank as f64);
            rank_keys[indices[place]].score = score;
        }
    }
    rank_keys
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Complete,
    Pruned,
    Infeasible,
    Failed,
    Unanswered,
}

/// A trial's rank key: smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankKey {
    class: Class,
    /// Pruned: steps short of the longest possible. Infeasible: the bits of the violation, which
    /// sort as its values do.
    short_by: u64,
    score: Score,
}

impl RankKey {
    /// The key of `trial` in a study of one objective, a function of the trial and the direction of
    /// its history.
    pub fn of(history: &History<'_>, trial: &Trial) -> Self {
        let worst = history.score(f64::NAN);
        match trial.state {
            TrialState::Complete if trial.violation.is_some() => {
                let violation = trial.violation.unwrap_or(0.0).max(0.0);
                RankKey {
                    class: Class::Infeasible,
                    short_by: violation.to_bits(),
                    score: history.score(trial.value.unwrap_or(f64::NAN)),
                }
            }
            TrialState::Complete => RankKey {
                class: Class::Complete,
                short_by: 0,
                score: history.final_score(trial).unwrap_or(worst),
            },
            TrialState::Pruned | TrialState::Paused if trial.rests() => match trial.last() {
                Some((step, value)) => RankKey {
                    class: Class::Pruned,
                    short_by: u64::MAX - step,
                    score: history.score(value),
                },
                None => RankKey { class: Class::Pruned, short_by: u64::MAX, score: worst },
            },
            TrialState::Failed => RankKey { class: Class::Failed, short_by: 0, score: worst },
            TrialState::Queued | TrialState::Running | TrialState::Paused | TrialState::Pruned => {
                RankKey { class: Class::Unanswered, short_by: 0, score: worst }
            }
        }
    }

    /// The key of a trial of several objectives, except for its score, and the losses by which it
    /// is compared with trials of the same class and step.
    fn among_several(history: &History<'_>, trial: &Trial) -> (Self, Option<Vec<f64>>) {
        let worst = history.score(f64::NAN);
        let key = |class, short_by| RankKey { class, short_by, score: worst };
        match trial.state {
            TrialState::Complete if trial.violation.is_some() => {
                let violation = trial.violation.unwrap_or(0.0).max(0.0);
                (key(Class::Infeasible, violation.to_bits()), None)
            }
            TrialState::Complete => (key(Class::Complete, 0), history.final_losses(trial)),
            TrialState::Pruned | TrialState::Paused if trial.rests() => {
                match trial.vectors.last() {
                    Some((step, _)) => {
                        (key(Class::Pruned, u64::MAX - step), history.losses_at(trial, *step))
                    }
                    None => (key(Class::Pruned, u64::MAX), None),
                }
            }
            TrialState::Failed => (key(Class::Failed, 0), None),
            TrialState::Queued | TrialState::Running | TrialState::Paused | TrialState::Pruned => {
                (key(Class::Unanswered, 0), None)
            }
        }
    }

    /// Whether the trial is complete, pruned or paused: it may count as good.
    pub fn is_informed(self) -> bool {
        self.class <= Class::Infeasible
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::trial_of;
    use crate::study::metric::Direction;
    use crate::study::params::Params;

    /// State, value and reports.
    type Outcome<'a> = (TrialState, Option<f64>, &'a [(u64, f64)]);

    /// The order of trials, and how many are informed and answered.
    fn ranked(trials: &[Outcome<'_>]) -> (Vec<u64>, u64, u64) {
        let trial = |(number, (state, value, curve)): (u64, &Outcome<'_>)| Trial {
            curve: curve.to_vec(),
            ..trial_of(number, Params::new(), *state, *value)
        };
        let trials: Vec<Trial> = (0..).zip(trials).map(trial).collect();
        let ranking = Ranking::new(History::of(&trials, Direction::Minimize));
        let order = ranking.trials.iter().map(|trial| trial.number.0).collect();
        (order, ranking.informed, ranking.answered)
    }

    #[test]
    fn ranking_puts_complete_before_pruned_before_failed_before_unanswered() {
        let trials: [Outcome<'_>; 9] = [
            (TrialState::Running, None, &[]),
            (TrialState::Complete, Some(f64::NAN), &[]),
            (TrialState::Pruned, None, &[(1, 0.1)]),
            (TrialState::Complete, Some(0.5), &[]),
            (TrialState::Failed, None, &[]),
            (TrialState::Pruned, None, &[(3, 0.9)]),
            (TrialState::Complete, Some(f64::INFINITY), &[]),
            (TrialState::Pruned, None, &[(3, 0.2)]),
            (TrialState::Pruned, None, &[]),
        ];
        assert_eq!(ranked(&trials), (vec![3, 6, 1, 7, 5, 2, 8, 4, 0], 7, 8));
    }

    #[test]
    fn a_trial_that_was_paused_at_a_rung_ranks_as_a_pruned_one() {
        let trials: [Outcome<'_>; 5] = [
            (TrialState::Paused, None, &[]),
            (TrialState::Pruned, None, &[(1, 0.4)]),
            (TrialState::Paused, None, &[(1, 0.2)]),
            (TrialState::Paused, None, &[(1, 0.9), (3, 0.5)]),
            (TrialState::Running, None, &[(1, 0.1)]),
        ];
        assert_eq!(ranked(&trials), (vec![3, 2, 1, 0, 4], 3, 3));
    }

    #[test]
    fn trials_of_several_objectives_rank_by_front_and_spread_and_the_rest_as_ever() {
        let minimize = [Direction::Minimize, Direction::Maximize];
        let trial =
            |number: u64, state: TrialState, values: &[f64], violation: Option<f64>| Trial {
                values: values.to_vec(),
                violation,
                ..trial_of(number, Params::new(), state, None)
            };
        let stopped = |number: u64, step: u64, values: [f64; 2]| Trial {
            vectors: vec![(1, vec![None, None]), (step, values.map(Some).to_vec())],
            ..trial_of(number, Params::new(), TrialState::Pruned, None)
        };
        let trials = [
            trial(0, TrialState::Running, &[], None),
            trial(1, TrialState::Complete, &[f64::NAN, f64::NAN], None),
            stopped(2, 5, [0.3, 1.0]),
            trial(3, TrialState::Complete, &[0.0, -9.0], None),
            trial(4, TrialState::Failed, &[], None),
            trial(5, TrialState::Complete, &[0.2, 3.0], Some(2.0)),
            trial(6, TrialState::Complete, &[0.1, 2.0], None),
            stopped(7, 9, [0.9, 1.0]),
            trial(8, TrialState::Complete, &[9.0, 3.0], None),
            stopped(9, 5, [0.2, 2.0]),
            trial(10, TrialState::Complete, &[9.0, 9.0], Some(1.0)),
            trial(11, TrialState::Complete, &[9.0, 1.0], None),
        ];
        let ranking = Ranking::new(History::of_several(&trials, &minimize));
        let order: Vec<u64> = ranking.trials.iter().map(|trial| trial.number.0).collect();
        assert_eq!(order, [6, 8, 3, 11, 1, 7, 9, 2, 10, 5, 4, 0]);
        assert_eq!((ranking.informed, ranking.answered), (10, 11));
    }
}
