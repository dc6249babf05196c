//! Forecasts the end of a learning curve from those of the study's other trials.

use crate::study::history::History;
use crate::study::metric::Middle;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// Maximum number of trials to learn from, newest first: bounds the cost of a forecast.
const MOST: usize = 1000;
/// Values are clipped at this multiple of the distance from the best to the median at a step:
/// diverged trials would dominate means and variances.
const FAR: f64 = 2.0;
/// Prior ratio of a gain to the gain before.
const HALF: f64 = 0.5;
/// Weights of the prior, in trials: for the mean gain, its dependence on the value, and on the last
/// gain.
const PRIOR_WEIGHTS: [f64; 3] = [0.3, 1.0, 4.0];
/// Prior deviation of gains, relative to that of values; weighs three trials.
const PRIOR_DEVIATION: f64 = 0.3;

/// The forecast end of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    /// The loss.
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

/// How the study's curves continue from each step of a ladder to the next.
///
/// A power law sampled at steps in a constant ratio gains at each a constant fraction of the gain
/// before. Real curves follow that roughly, with a fraction that depends on the problem and on the
/// step. So the gain from one step to the next is regressed on the gain before and on the value,
/// over all trials that reached the step, by ridge regression towards half of the gain before. The
/// selection of promising trials does not bias it: they were selected by the regressors.
#[derive(Clone, Debug)]
pub(super) struct Forecast<'a> {
    ladder: &'a [u64],
    rungs: Vec<Rung>,
}

/// Statistics of the values at one step of the ladder, and of the gains to the next.
#[derive(Clone, Copy, Debug)]
struct Rung {
    worst: f64,
    centre: f64,
    spread: f64,
    /// Components of a gain: its mean, the effect of the value in spreads from the centre, and that
    /// of the last gain.
    effects: [f64; 3],
    variance: f64,
}

impl<'a> Forecast<'a> {
    /// Learns from all trials but `except`. The last step of `ladder` is the end of a full trial.
    pub fn new(
        history: History<'_>,
        except: TrialNumber,
        ladder: &'a [u64],
        middle: Middle,
    ) -> Self {
        let others = history.compared().rev().filter(|trial| trial.number != except).take(MOST);
        let mut curves: Vec<Vec<f64>> =
            others.map(|trial| losses(history, trial, ladder)).collect();
        let at = |index: usize| curves.iter().filter_map(move |curve| curve.get(index).copied());
        let mut rungs: Vec<Rung> =
            (0..ladder.len()).map(|index| Rung::of(at(index).collect(), middle)).collect();
        curves.iter_mut().for_each(|curve| clip(curve, &rungs));
        for (index, rung) in rungs.iter_mut().enumerate() {
            let gains = curves
                .iter()
                .filter_map(|curve| Some((curve.get(..=index)?, *curve.get(index + 1)?)));
            rung.learn(gains);
        }
        Forecast { ladder, rungs }
    }

    /// The forecast from the trial's reports up to `step`; `None` before the ladder's first step.
    pub fn expected(&self, history: History<'_>, trial: &Trial, step: u64) -> Option<Expected> {
        let reached = self.ladder.partition_point(|rung| *rung <= step);
        let mut curve = losses(history, trial, &self.ladder[..reached]);
        clip(&mut curve, &self.rungs);
        let (mut loss, mut gain) = (*curve.last()?, self.rungs[curve.len() - 1].gain_to(&curve));
        // The covariance of loss and gain.
        let mut spread = [[0.0; 2]; 2];
        for rung in &self.rungs[curve.len() - 1..self.rungs.len() - 1] {
            let [all, by_value, by_gain] = rung.effects;
            let slope = by_value / rung.spread;
            gain = all + slope * (loss - rung.centre) + by_gain * gain;
            loss += gain;
            let map = [[1.0 + slope, by_gain], [slope, by_gain]];
            let half = [0, 1].map(|row| {
                [0, 1].map(|column: usize| {
                    map[row][0] * spread[0][column] + map[row][1] * spread[1][column]
                })
            });
            spread = [0, 1].map(|row: usize| {
                [0, 1].map(|column: usize| {
                    half[row][0] * map[column][0] + half[row][1] * map[column][1] + rung.variance
                })
            });
        }
        Some(Expected { mean: loss, deviation: spread[0][0].max(0.0).sqrt() })
    }
}

impl Rung {
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    fn of(mut losses: Vec<f64>, middle: Middle) -> Self {
        losses.retain(|loss| loss.is_finite());
        losses.sort_unstable_by(f64::total_cmp);
        let nothing =
            Rung { worst: f64::MAX, centre: 0.0, spread: 1.0, effects: [0.0; 3], variance: 0.0 };
        let (Some(best), Some(median)) = (losses.first(), middle.of(&losses)) else {
            return nothing;
        };
        let worst = median + FAR * (median - best);
        let count = losses.len() as f64;
        let mean = losses.iter().map(|loss| loss.min(worst)).sum::<f64>() / count;
        let variance =
            losses.iter().map(|loss| (loss.min(worst) - mean).powi(2)).sum::<f64>() / count;
        Rung { worst, centre: median, spread: variance.sqrt().max(1e-9), ..nothing }
    }

    /// The last gain of a curve; 0 where it is clipped.
    fn gain_to(&self, curve: &[f64]) -> f64 {
        match curve {
            [.., before, last] if *last < self.worst => last - before,
            _ => 0.0,
        }
    }

    /// Fits the gains, each given with the curve before it.
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    fn learn<'b>(&mut self, gains: impl Iterator<Item = (&'b [f64], f64)>) {
        let features = |curve: &[f64], loss: f64| {
            [1.0, (loss - self.centre) / self.spread, self.gain_to(curve)]
        };
        let rows: Vec<([f64; 3], f64)> = gains
            .filter_map(|(curve, next)| {
                let loss = *curve.last()?;
                Some((features(curve, loss), next - loss))
            })
            .collect();
        let count = rows.len() as f64;
        let square_gain = rows.iter().map(|(row, _)| row[2] * row[2]).sum::<f64>() / count.max(1.0);
        let ridge = [PRIOR_WEIGHTS[0], PRIOR_WEIGHTS[1], PRIOR_WEIGHTS[2] * square_gain.max(1e-12)];
        let mut left = [[ridge[0], 0.0, 0.0], [0.0, ridge[1], 0.0], [0.0, 0.0, ridge[2]]];
        let mut right = [0.0, 0.0, ridge[2] * HALF];
        for (row, gain) in &rows {
            for index in 0..3 {
                right[index] += row[index] * gain;
                (0..3).for_each(|column| left[index][column] += row[index] * row[column]);
            }
        }
        let [all, by_value, by_gain] = solved(left, right);
        // A better value must never forecast a worse end.
        self.effects =
            [all, by_value.clamp(-0.2 * self.spread, 0.5 * self.spread), by_gain.clamp(0.0, 0.8)];
        let missed = |(row, gain): &([f64; 3], f64)| {
            (gain - (0..3).map(|index| row[index] * self.effects[index]).sum::<f64>()).powi(2)
        };
        let prior_variance = (PRIOR_DEVIATION * self.spread).powi(2);
        self.variance = (rows.iter().map(missed).sum::<f64>() + 3.0 * prior_variance)
            / ((count - 2.0).max(0.0) + 3.0);
    }
}

/// The solution of a symmetric positive system, by elimination.
fn solved(mut left: [[f64; 3]; 3], mut right: [f64; 3]) -> [f64; 3] {
    for pivot in 0..3 {
        for row in pivot + 1..3 {
            let factor = left[row][pivot] / left[pivot][pivot];
            (pivot..3).for_each(|column| left[row][column] -= factor * left[pivot][column]);
            right[row] -= factor * right[pivot];
        }
    }
    for row in (0..3).rev() {
        (row + 1..3).for_each(|column| right[row] -= left[row][column] * right[column]);
        right[row] /= left[row][row];
    }
    right
}

/// The trial's losses at the ladder's steps that it reached: its first reports at or after them.
fn losses(history: History<'_>, trial: &Trial, ladder: &[u64]) -> Vec<f64> {
    let at = |step: &u64| {
        let report = trial
            .curve
            .get(trial.curve.partition_point(|(at, _)| at < step))
            .map(|(_, value)| history.score(*value));
        // A trial may be complete before the end.
        report
            .or_else(|| history.final_score(trial).filter(|_| trial.state == TrialState::Complete))
            .map(|score| score.loss())
    };
    ladder.iter().map_while(at).collect()
}

/// Clips values worse than the clipping bound, NaN included.
fn clip(curve: &mut [f64], rungs: &[Rung]) {
    for (loss, rung) in curve.iter_mut().zip(rungs) {
        *loss = if *loss < rung.worst { loss.max(-f64::MAX) } else { rung.worst };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::conformance::trial;
    use crate::study::metric::Direction;

    const LADDER: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

    fn power_law(number: u64, end: f64, height: f64, rate: f64, upto: u64) -> Trial {
        let steps = LADDER.into_iter().filter(|step| *step <= upto);
        let curve: Vec<(u64, f64)> =
            steps.map(|step| (step, end + height * (step as f64).powf(-rate))).collect();
        let state = if upto == 128 { TrialState::Complete } else { TrialState::Pruned };
        Trial { value: None, ..trial(number, state, &curve) }
    }

    /// The others' curves cross: what ends best does not begin best. The last one runs.
    fn study(rate: f64) -> Vec<Trial> {
        let part = |index: u64, by: f64| (index as f64 * by).fract();
        let other = |index| {
            let upto = if index % 3 == 0 { 128 } else { 16 };
            power_law(index, part(index, 0.618), 1.0 + part(index, 0.755), rate, upto)
        };
        (0..30).map(other).chain([power_law(30, 0.4, 1.5, rate, 16)]).collect()
    }

    /// The forecast for a trial from its reports up to a step.
    fn expected(trials: &[Trial], index: usize, step: u64) -> Option<Expected> {
        let (history, trial) = (History::of(trials, Direction::Minimize), &trials[index]);
        let forecast = Forecast::new(history, trial.number, &LADDER, Middle::Median);
        forecast.expected(history, trial, step)
    }

    #[test]
    fn the_end_of_a_power_law_is_forecast_whatever_its_rate() {
        for rate in [0.3, 0.7, 1.2] {
            let trials = study(rate);
            let (late, early) =
                (expected(&trials, 30, 16).unwrap(), expected(&trials, 30, 2).unwrap());
            let error = (late.mean - 0.4 - 1.5 * 128f64.powf(-rate)).abs();
            assert!(error < 0.05 && error < 3.0 * late.deviation, "{rate}: {late:?}, {error}");
            assert!(early.deviation > late.deviation, "{early:?}, {late:?}");
        }
    }

    #[test]
    fn diverged_trials_and_infinities_leave_the_others_as_they_are() {
        let mut trials = study(0.7);
        let clean = expected(&trials, 30, 16).unwrap();
        let diverged = [(1, 1e30), (2, f64::INFINITY), (4, f64::NAN)];
        trials.extend((31..36).map(|number| trial(number, TrialState::Pruned, &diverged)));
        let expected = expected(&trials, 30, 16).unwrap();
        assert!((clean.mean - expected.mean).abs() < 0.01, "{clean:?}, {expected:?}");
    }

    #[test]
    fn without_other_trials_nothing_is_known() {
        let trials = [power_law(0, 0.4, 1.5, 0.7, 16)];
        let only = expected(&trials, 0, 16).unwrap();
        assert!(only.mean.is_finite() && only.deviation > 0.3, "{only:?}");
        assert_eq!(expected(&trials, 0, 0), None);
    }
}
