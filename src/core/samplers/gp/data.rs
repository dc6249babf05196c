//! The training data of a process: finished trials with measured or forecast losses.

use super::ends::{ends, stopped_at};
use super::limit::Limit;
use super::rules::Rules;
use super::selection::{Selection, fitted_of};
use crate::analysis::learning_curve::End;
use crate::samplers::Ask;
use crate::samplers::cube::{Cube, Point};
use crate::study::metric::Middle;
use crate::study::trial::{Trial, TrialState};

/// Maximum number of trials in a process: a suggestion costs O(n^2), a fit O(n^3).
const MOST: usize = 250;

/// Maximum number of trials of earlier studies in a process.
const MOST_EARLIER: usize = 100;

/// Maps a rank in (0, 1) to the scale of standard normal losses (the logistic quantile, scaled).
fn on_normal_scale(rank: f64) -> f64 {
    let share = rank.clamp(0.01, 0.99);
    (share / (1.0 - share)).ln() / 1.702
}

/// Points and losses, oldest first.
#[derive(Debug, Default)]
pub(super) struct Data {
    /// Points in the unit cube.
    pub points: Vec<Point>,
    /// Losses: finite, smaller is better.
    pub losses: Vec<f64>,
    /// The variance of each loss; 0 if measured.
    pub variances: Vec<f64>,
    /// Which losses were measured.
    pub is_measured: Vec<bool>,
    /// Which trials are feasible.
    pub is_feasible: Vec<bool>,
    /// Points of unfinished trials.
    pub pending: Vec<Point>,
    /// Points of earlier studies' trials.
    pub earlier: Vec<Point>,
    /// Their losses on a standard normal scale.
    pub earlier_targets: Vec<f64>,
    /// The study's limits.
    pub limits: Vec<Limit>,
    /// What the hyperparameters are fitted to.
    pub to_fit: Selection,
}

/// A trial and its final loss, measured or forecast.
#[derive(Clone, Copy)]
struct TrialWithEnd<'a> {
    end: End,
    trial: &'a Trial,
}

impl Data {
    /// The data of a history, reduced to `MOST` trials.
    pub fn new(cube: &Cube, ask: &Ask<'_>, middle: Middle, rules: Rules) -> Data {
        let history = &ask.history;
        let ends = ends(history, ask.space, middle);
        let complete = || {
            history
                .trials()
                .iter()
                .zip(&ends)
                .filter(|(trial, _)| trial.state == TrialState::Complete)
                .filter_map(|(_, end)| *end)
        };
        let worst = complete().map(|end| end.loss).fold(f64::NEG_INFINITY, f64::max);
        let best = complete().map(|end| end.loss).fold(f64::INFINITY, f64::min);
        // While no trial is complete, stopped trials are compared with each other.
        let worst = if worst.is_finite() {
            worst
        } else {
            ends.iter().flatten().map(|end| end.loss).fold(worst, f64::max)
        };
        let mut rows: Vec<TrialWithEnd<'_>> = Vec::new();
        for (trial, end) in history.trials().iter().zip(&ends) {
            let at_worst = End { loss: worst, variance: 0.0 };
            let end = match trial.state {
                TrialState::Complete => end.unwrap_or(at_worst),
                // A failed trial takes the worst loss, so that the search avoids its region.
                TrialState::Failed => at_worst,
                // Only the newest are forecast.
                TrialState::Pruned | TrialState::Paused
                    if end.is_none() && stopped_at(history, trial).is_some() =>
                {
                    continue;
                }
                // No stopped trial is assumed to beat the measured ones.
                TrialState::Pruned | TrialState::Paused if trial.rests() => {
                    end.map_or(at_worst, |end| End {
                        loss: if best.is_finite() { end.loss.max(best) } else { end.loss },
                        ..end
                    })
                }
                TrialState::Queued
                | TrialState::Running
                | TrialState::Paused
                | TrialState::Pruned => continue,
            };
            rows.push(TrialWithEnd { end, trial });
        }
        rows.retain(|row| row.end.loss.is_finite());
        let older = (rules >= Rules::Since10 && rows.len() > MOST)
            .then(|| selected(rows[..fitted_of(rows.len())].to_vec()));
        let rows = selected(rows);
        let to_fit = match &older {
            Some(older) => Selection::of(older.len(), |at| older[at].data(cube)),
            None => Selection::of(fitted_of(rows.len()), |at| rows[at].data(cube)),
        };
        let unfinished =
            history.trials().iter().filter(|trial| !trial.state.is_finished() && !trial.rests());
        Data {
            points: rows.iter().map(|row| cube.encode(&row.trial.params)).collect(),
            losses: rows.iter().map(|row| row.end.loss).collect(),
            variances: rows.iter().map(|row| row.end.variance).collect(),
            is_measured: rows
                .iter()
                .map(|row| row.trial.state == TrialState::Complete && row.end.variance == 0.0)
                .collect(),
            is_feasible: rows.iter().map(|row| row.trial.violation.is_none()).collect(),
            pending: unfinished.take(MOST).map(|trial| cube.encode(&trial.params)).collect(),
            earlier: ask
                .earlier
                .iter()
                .take(MOST_EARLIER)
                .map(|earlier| cube.encode(&earlier.params))
                .collect(),
            earlier_targets: ask
                .earlier
                .iter()
                .take(MOST_EARLIER)
                .map(|earlier| on_normal_scale(earlier.rank))
                .collect(),
            limits: Limit::all(cube, ask, middle, rules),
            to_fit,
        }
    }
}

impl TrialWithEnd<'_> {
    /// The point, and the loss with its variance.
    fn data(&self, cube: &Cube) -> (Point, f64, f64) {
        (cube.encode(&self.trial.params), self.end.loss, self.end.variance)
    }
}

/// At most `MOST` trials, half of them the newest and half the best of the others, by number.
fn selected(mut rows: Vec<TrialWithEnd<'_>>) -> Vec<TrialWithEnd<'_>> {
    if rows.len() <= MOST {
        return rows;
    }
    let newest = rows.split_off(rows.len() - MOST / 2);
    rows.sort_by(|a, b| {
        a.end.loss.total_cmp(&b.end.loss).then(a.trial.number.cmp(&b.trial.number))
    });
    rows.truncate(MOST - MOST / 2);
    rows.sort_by_key(|row| row.trial.number);
    rows.into_iter().chain(newest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::conformance::{float, space, trial_of};
    use crate::samplers::fixtures::{ask, params};

    fn trial(number: u64, state: TrialState, value: Option<f64>, curve: &[(u64, f64)]) -> Trial {
        let params = params([("x", (number as f64 / 1000.0).into())]);
        Trial { curve: curve.to_vec(), ..trial_of(number, params, state, value) }
    }

    fn data(trials: &[Trial]) -> Data {
        let space = space([float("x", 0.0, 1.0)]);
        Data::new(&Cube::new(&space), &ask(&space, trials, 0), Middle::Median, Rules::Before10)
    }

    #[test]
    fn trials_without_a_value_get_one() {
        let trials = [
            trial(0, TrialState::Complete, Some(1.0), &[(1, 3.0), (2, 1.0)]),
            trial(1, TrialState::Complete, Some(5.0), &[(1, 7.0), (2, 5.0)]),
            trial(2, TrialState::Failed, None, &[]),
            trial(3, TrialState::Complete, Some(f64::NAN), &[]),
            trial(4, TrialState::Pruned, None, &[(1, 6.0)]),
            trial(5, TrialState::Pruned, None, &[(1, 0.5)]),
            trial(6, TrialState::Pruned, None, &[]),
            trial(7, TrialState::Running, None, &[]),
        ];
        let data = data(&trials);
        assert_eq!(data.losses, [1.0, 5.0, 5.0, 5.0, 4.0, 1.0, 5.0]);
        assert_eq!((data.points.len(), data.pending.len()), (7, 1));
        let failed = [trial(0, TrialState::Failed, None, &[])];
        assert!(super::tests::data(&failed).losses.is_empty());
    }

    /// With as many as the process keeps, each trial displaces another one.
    #[test]
    fn fits_wait_for_more_trials_however_many_there_are() {
        let trials: Vec<Trial> = (0..950)
            .map(|number| {
                trial(number, TrialState::Complete, Some(((number * 7) % 900) as f64), &[])
            })
            .collect();
        let space = space([float("x", 0.0, 1.0)]);
        let to_fit = |count: usize, rules| {
            let ask = ask(&space, &trials[..count], 0);
            Data::new(&Cube::new(&space), &ask, Middle::Median, rules).to_fit
        };
        let changes =
            |rules| (900..949).filter(|at| !to_fit(*at, rules).is(&to_fit(at + 1, rules))).count();
        assert!((1..=2).contains(&changes(Rules::Since10)), "{}", changes(Rules::Since10));
        assert!(changes(Rules::Before10) > 40, "{}", changes(Rules::Before10));
        // No difference up to as many as it keeps.
        assert!(to_fit(250, Rules::Since10).is(&to_fit(250, Rules::Before10)));
        assert_eq!(to_fit(249, Rules::Before10).losses.len(), 120);
    }

    #[test]
    fn of_many_trials_the_best_and_the_newest_stay() {
        let trials: Vec<Trial> = (0..900)
            .map(|number| {
                trial(number, TrialState::Complete, Some(((number * 7) % 900) as f64), &[])
            })
            .collect();
        let losses = data(&trials).losses;
        assert_eq!(losses.len(), MOST);
        assert_eq!(losses[MOST - 1], f64::from((899 * 7) % 900));
        assert!(losses[..MOST / 2].iter().all(|loss| *loss < 150.0));
    }
}
