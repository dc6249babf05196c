//! What a process learns from: finished trials with a loss each, those without one of their own included.

use std::collections::BTreeMap;

use super::limit::Limit;
use crate::history::History;
use crate::samplers::Ask;
use crate::samplers::cube::{Cube, Point};
use crate::trial::{Trial, TrialState};

/// Most trials that a process is given: the cost of one suggestion grows with the square, of a fit with the cube.
const MOST: usize = 250;

/// Most trials of earlier studies that it is given.
const MOST_EARLIER: usize = 100;

/// Where a share of better trials lies among normal losses (the logistic distribution's quantile, scaled).
fn on_normal_scale(rank: f64) -> f64 {
    let share = rank.clamp(0.01, 0.99);
    (share / (1.0 - share)).ln() / 1.702
}

/// Points and losses, oldest first.
#[derive(Debug, Default)]
pub(super) struct Data {
    /// Where.
    pub points: Vec<Point>,
    /// How good: finite, smaller is better.
    pub losses: Vec<f64>,
    /// Which of them break no limit.
    pub is_feasible: Vec<bool>,
    /// Where unfinished trials are.
    pub pending: Vec<Point>,
    /// Where trials of earlier studies were, and how good on a normal scale.
    pub earlier: Vec<Point>,
    /// Those.
    pub earlier_targets: Vec<f64>,
    /// The study's limits.
    pub limits: Vec<Limit>,
}

impl Data {
    /// The data of a history; of more than `MOST` trials the best and the newest.
    pub fn new(cube: &Cube, ask: &Ask<'_>) -> Data {
        let history = &ask.history;
        // Trials that break limits say as much about the loss as others.
        let own = |trial: &Trial| {
            let value = trial.value.filter(|_| trial.state == TrialState::Complete)?;
            Some(history.score(value).loss()).filter(|loss| loss.is_finite())
        };
        let complete: Vec<f64> = history.trials().iter().filter_map(own).collect();
        let worst = complete.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let best = complete.iter().copied().fold(f64::INFINITY, f64::min);
        let mut gains = BTreeMap::new();
        let mut rows: Vec<(f64, &Trial)> = Vec::new();
        for trial in history.trials() {
            let loss = match trial.state {
                TrialState::Complete => own(trial).unwrap_or(worst),
                // A failed trial is as bad as the worst: the search leaves where trials fail.
                TrialState::Failed => worst,
                TrialState::Pruned => expected_end(history, trial, &mut gains).map_or(worst, |loss| loss.max(best)),
                TrialState::Queued | TrialState::Running | TrialState::Paused => continue,
            };
            rows.push((loss, trial));
        }
        rows.retain(|(loss, _)| loss.is_finite());
        let rows = selected(rows);
        let unfinished = history.trials().iter().filter(|trial| !trial.state.is_finished());
        Data {
            points: rows.iter().map(|(_, trial)| cube.encode(&trial.params)).collect(),
            losses: rows.iter().map(|(loss, _)| *loss).collect(),
            is_feasible: rows.iter().map(|(_, trial)| trial.violation.is_none()).collect(),
            pending: unfinished.take(MOST).map(|trial| cube.encode(&trial.params)).collect(),
            earlier: ask.earlier.iter().take(MOST_EARLIER).map(|earlier| cube.encode(&earlier.params)).collect(),
            earlier_targets: ask.earlier.iter().take(MOST_EARLIER).map(|earlier| on_normal_scale(earlier.rank)).collect(),
            limits: Limit::all(cube, ask),
        }
    }
}

/// Where a pruned trial would have ended: its last report, moved by what complete trials still gained from that step on
/// (their median, kept in `gains` by step). Nothing if no complete trial reported at that step.
fn expected_end(history: &History<'_>, pruned: &Trial, gains: &mut BTreeMap<u64, Option<f64>>) -> Option<f64> {
    let (step, value) = pruned.last()?;
    let gain = *gains.entry(step).or_insert_with(|| median_gain(history, step));
    let end = history.score(value).loss() + gain?;
    end.is_finite().then_some(end)
}

fn median_gain(history: &History<'_>, step: u64) -> Option<f64> {
    let gain = |trial: &Trial| Some(history.final_score(trial)?.loss() - history.score_at(trial, step)?.loss());
    let mut gains: Vec<f64> = history.trials().iter().filter_map(gain).filter(|gain| gain.is_finite()).collect();
    gains.sort_by(f64::total_cmp);
    gains.get(gains.len() / 2).copied()
}

/// The best half and the newest half of the most that are taken, in order of numbers.
fn selected(mut rows: Vec<(f64, &Trial)>) -> Vec<(f64, &Trial)> {
    if rows.len() <= MOST {
        return rows;
    }
    let newest = rows.split_off(rows.len() - MOST / 2);
    rows.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
    rows.truncate(MOST - MOST / 2);
    rows.sort_by_key(|(_, trial)| trial.number);
    rows.into_iter().chain(newest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::params::Params;
    use crate::samplers::conformance::{dimension, trial_of};
    use crate::seed::SeedTree;
    use crate::space::{Distribution, Scale, Space};
    use crate::trial::TrialNumber;

    fn trial(number: u64, state: TrialState, value: Option<f64>, curve: &[(u64, f64)]) -> Trial {
        let mut params = Params::new();
        params.insert("x", number as f64 / 1000.0);
        Trial { curve: curve.to_vec(), ..trial_of(number, params, state, value) }
    }

    fn data(trials: &[Trial]) -> Data {
        let space = Space::new(vec![dimension("x", Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(), &[])]).unwrap();
        let history = History::of(trials, Direction::Minimize);
        let (fixed, seeds) = (Params::new(), SeedTree::new(0));
        let ask = Ask {
            room: None,
            constraints: &[],
            earlier: &[],
            space: &space,
            history,
            number: TrialNumber(trials.len() as u64),
            fixed: &fixed,
            budget: None,
            seeds,
        };
        Data::new(&Cube::new(&space), &ask)
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
        assert!(super::tests::data(&[trial(0, TrialState::Failed, None, &[])]).losses.is_empty());
    }

    #[test]
    fn of_many_trials_the_best_and_the_newest_stay() {
        let trials: Vec<Trial> = (0..900).map(|number| trial(number, TrialState::Complete, Some(((number * 7) % 900) as f64), &[])).collect();
        let losses = data(&trials).losses;
        assert_eq!(losses.len(), MOST);
        assert_eq!(losses[MOST - 1], f64::from((899 * 7) % 900));
        assert!(losses[..MOST / 2].iter().all(|loss| *loss < 150.0));
    }
}
