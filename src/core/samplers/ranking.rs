//! The order of trials from best to worst by which samplers split them.

use crate::study::history::History;
use crate::study::metric::Score;
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
    /// then unfinished ones. Ties are broken by number.
    pub fn new(history: History<'a>) -> Self {
        let mut keyed: Vec<(Place, &Trial)> =
            history.trials().iter().map(|trial| (Place::of(&history, trial), trial)).collect();
        keyed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
        let informed = keyed.iter().take_while(|(place, _)| place.is_informed()).count() as u64;
        let answered =
            keyed.iter().take_while(|(place, _)| place.class <= Class::Failed).count() as u64;
        Ranking { trials: keyed.into_iter().map(|(_, trial)| trial).collect(), informed, answered }
    }
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
pub(super) struct Place {
    class: Class,
    /// Pruned: steps short of the longest possible. Infeasible: the bits of the violation, which
    /// sort as its values do.
    short_by: u64,
    score: Score,
}

impl Place {
    /// The key of `trial`, a function of the trial and the direction of its history.
    pub fn of(history: &History<'_>, trial: &Trial) -> Self {
        let worst = history.score(f64::NAN);
        match trial.state {
            TrialState::Complete if trial.violation.is_some() => {
                let violation = trial.violation.unwrap_or(0.0).max(0.0);
                Place {
                    class: Class::Infeasible,
                    short_by: violation.to_bits(),
                    score: history.score(trial.value.unwrap_or(f64::NAN)),
                }
            }
            TrialState::Complete => Place {
                class: Class::Complete,
                short_by: 0,
                score: history.final_score(trial).unwrap_or(worst),
            },
            _ if trial.rests() => match trial.last() {
                Some((step, value)) => Place {
                    class: Class::Pruned,
                    short_by: u64::MAX - step,
                    score: history.score(value),
                },
                None => Place { class: Class::Pruned, short_by: u64::MAX, score: worst },
            },
            TrialState::Failed => Place { class: Class::Failed, short_by: 0, score: worst },
            _ => Place { class: Class::Unanswered, short_by: 0, score: worst },
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
}
