//! What a process predicts of a new configuration's value, in the study's metric.

use super::front::ObjectiveProcess;
use super::loss_scale::LossScale;
use crate::samplers::normal::NINETY;
use crate::study::metric::Direction;
use crate::study::prediction::Prediction;

/// Predicts the values of one objective: from what is known, without what is only believed of
/// pending trials, since that would count as measured.
#[derive(Debug)]
pub(super) struct ValuePredictor<'a> {
    /// The process, conditioned on the known losses.
    pub process: ObjectiveProcess<'a>,
    /// How its targets become losses.
    pub scale: LossScale,
    /// The objective's direction.
    pub direction: Direction,
    /// By how much intervals are widened.
    pub widening: f64,
}

impl ValuePredictor<'_> {
    /// The value at `point`, noise included; `None` if a number overflows, or if all known losses
    /// are equal, which says nothing of others.
    pub fn predict(&self, point: &[f64]) -> Option<Prediction> {
        if self.scale.is_flat() {
            return None;
        }
        let (mean, variance) = self.process.moments(point);
        let deviation = (variance + self.process.noise()).sqrt();
        let width = NINETY * self.widening * deviation;
        let numbers = [mean, mean - width, mean + width];
        let numbers = numbers.map(|target| self.direction.loss(self.scale.loss(target)));
        let [median, one, other] = numbers;
        let predicted = Prediction { median, low: one.min(other), high: one.max(other) };
        numbers.iter().all(|number| number.is_finite()).then_some(predicted)
    }
}

#[cfg(test)]
mod tests {
    use super::super::curves::{self, CurveData, CurveProcess, Lengths};
    use super::super::data::Data;
    use super::super::kernel::Exponential;
    use super::super::process::GaussianProcess;
    use super::super::rules::Rules;
    use super::super::warp::Warp;
    use super::super::{Gp, hyperparameters, noise_variances};
    use super::*;
    use crate::samplers::conformance::trial_of;
    use crate::samplers::cube::{Cube, slices};
    use crate::samplers::fixtures::{ask, complete, params, stream, unit_cube};
    use crate::samplers::normal::draw;
    use crate::samplers::{Ask, Proposal, Sampler as _};
    use crate::study::history::History;
    use crate::study::metric::Middle;
    use crate::study::seed::SeedTree;
    use crate::study::spec::AlgorithmSpec;
    use crate::study::trial::{Trial, TrialState};
    use std::cell::RefCell;

    /// Trials of `(x0 - .3)^2 + x1 / 2`, of which the last two run.
    fn trials(count: u64) -> Vec<Trial> {
        let trial = |number: u64| {
            let unit = |by: f64| (number as f64 * by).fract();
            let (x, y) = (unit(0.618), unit(0.755));
            let params = params([("x0", x.into()), ("x1", y.into())]);
            let value = (x - 0.3).powi(2) + 0.5 * y;
            match number + 2 < count {
                true => trial_of(number, params, TrialState::Complete, Some(value)),
                false => trial_of(number, params, TrialState::Running, None),
            }
        };
        (0..count).map(trial).collect()
    }

    /// The same, of which most are paused.
    fn paused(count: u64) -> Vec<Trial> {
        let paused = |trial: Trial| {
            let end = trial.value.unwrap_or(0.0);
            let last = if trial.number.0 % 5 == 4 { 27 } else { 9 };
            let curve = (1..=last).map(|step| (step, end + 1.0 / (1.0 + step as f64))).collect();
            let (state, value) = match last {
                27 => (TrialState::Complete, Some(end + 1.0 / 28.0)),
                _ => (TrialState::Paused, None),
            };
            Trial { curve, state, value, ..trial }
        };
        trials(count + 2).into_iter().take(count as usize).map(paused).collect()
    }

    fn proposed(version: u32, ask: &Ask<'_>) -> Proposal {
        let gp = Gp::new(&AlgorithmSpec { version, ..AlgorithmSpec::named("gp") });
        let mut rng = SeedTree::new(7).stream("draw");
        gp.suggest(ask, &mut rng).unwrap().unwrap()
    }

    #[test]
    fn a_proposal_has_the_posterior_at_its_point_noise_included() {
        let (space, trials) = (unit_cube(2), trials(20));
        let ask = ask(&space, &trials, 0);
        let Proposal { params, predicted } = proposed(9, &ask);
        let cube = Cube::new(&space);
        let data = Data::new(&cube, &ask, Middle::Median, Rules::Before10);
        let fit = hyperparameters(&RefCell::default(), &cube, &data.to_fit, Exponential::System);
        let warp = Warp::fit(&data.losses);
        let targets: Vec<f64> = data.losses.iter().map(|loss| warp.of(*loss)).collect();
        let noise = noise_variances(&warp, &data.losses, &data.variances);
        let known =
            GaussianProcess::new(&cube, &fit, &slices(&data.points), &targets, &noise).unwrap();
        let (mean, variance) = known.moments(&cube.encode(&params));
        let deviation = (variance + fit.noise).sqrt();
        let [own] = predicted[..] else { panic!("{predicted:?}") };
        let width = NINETY * known.widening(&data.is_measured) * deviation;
        assert!((warp.of(own.median) - mean).abs() < 1e-6, "{own:?}");
        assert!((warp.of(own.low) - (mean - width)).abs() < 1e-6, "{own:?}");
        assert!((warp.of(own.high) - (mean + width)).abs() < 1e-6, "{own:?}");
    }

    #[test]
    fn where_trials_are_paused_it_is_the_posterior_at_the_end() {
        let (space, trials) = (unit_cube(2), paused(20));
        let ask = Ask { max_resource: Some(27), ..ask(&space, &trials, 0) };
        let Proposal { params, predicted } = proposed(9, &ask);
        let cube = Cube::new(&space);
        let data = CurveData::new(&cube, &ask, Rules::Before10);
        let (memo, exponential) = (RefCell::default(), Exponential::System);
        let fit = curves::hyperparameters(&memo, &cube, &data, Lengths::Own, exponential);
        let process = CurveProcess::new(&cube, &fit, &data).unwrap();
        let (mean, variance) = process.moments_at_end(&cube.encode(&params));
        let deviation = (variance + process.noise()).sqrt();
        let width = NINETY * curves::widening(&process, &data, 0.0) * deviation;
        let [own] = predicted[..] else { panic!("{predicted:?}") };
        assert!((own.median - data.scale.loss(mean)).abs() < 1e-9, "{own:?}");
        assert!((own.high - data.scale.loss(mean + width)).abs() < 1e-9, "{own:?}");
    }

    #[test]
    fn the_prediction_changes_no_proposal_and_older_versions_have_none() {
        let space = unit_cube(2);
        for trials in [trials(20), paused(20)] {
            let ask = Ask { max_resource: Some(27), ..ask(&space, &trials, 0) };
            let (now, before) = (proposed(9, &ask), proposed(8, &ask));
            assert_eq!(now.params, before.params);
            assert_eq!((now.predicted.len(), before.predicted.len()), (1, 0));
        }
        // Nor does the start-up.
        let few = trials(4);
        assert!(proposed(9, &ask(&space, &few, 0)).predicted.is_empty());
    }

    #[test]
    fn a_maximized_value_is_predicted_in_its_own_direction() {
        let (space, minimized) = (unit_cube(2), trials(20));
        let negated = |trial: &Trial| Trial { value: trial.value.map(|v| -v), ..trial.clone() };
        let maximized: Vec<Trial> = minimized.iter().map(negated).collect();
        let of = |trials, direction| {
            let history = History::of(trials, direction);
            proposed(9, &Ask { history, ..ask(&space, trials, 0) }).predicted[0]
        };
        let (one, other) =
            (of(&minimized, Direction::Minimize), of(&maximized, Direction::Maximize));
        assert_eq!(one.median, -other.median);
        assert_eq!((one.low, one.high), (-other.high, -other.low));
    }

    #[test]
    fn each_of_several_objectives_is_predicted_up_to_three() {
        let space = unit_cube(2);
        let of = |objectives: usize| {
            let several = |trial: Trial| {
                let values = |value: f64| (0..objectives).map(|k| value + k as f64).collect();
                Trial { values: trial.value.map_or_else(Vec::new, values), value: None, ..trial }
            };
            let trials: Vec<Trial> = trials(20).into_iter().map(several).collect();
            let directions = vec![Direction::Minimize; objectives];
            let history = History::of_several(&trials, &directions);
            proposed(9, &Ask { history, ..ask(&space, &trials, 0) }).predicted
        };
        let [one, other] = of(2)[..] else { panic!() };
        assert!((other.median - one.median - 1.0).abs() < 1e-6, "{one:?} {other:?}");
        assert_eq!(of(4), []);
    }

    #[test]
    fn nine_in_ten_values_lie_in_their_intervals() {
        let functions = [
            |x: &[f64]| 100.0 * ((x[0] - 0.3).powi(2) + 0.5 * (x[1] - 0.6).powi(2)),
            |x: &[f64]| (x[0] - 0.3).powi(2) + 0.1 * (12.0 * x[1]).sin(),
            |x: &[f64]| -(-8.0 * ((x[0] - 0.7).powi(2) + 0.3 * (x[2] - 0.5).powi(2))).exp(),
        ];
        let (space, names) = (unit_cube(3), ["x0", "x1", "x2"]);
        let (mut inside, mut all) = (0, 0);
        for (index, function) in functions.into_iter().enumerate() {
            for noise in [0.0, 0.1] {
                let version = super::super::PREDICTED_SINCE;
                let gp = Gp::new(&AlgorithmSpec { version, ..AlgorithmSpec::named("gp") });
                let mut trials = Vec::new();
                for number in 0..45 {
                    let ask = ask(&space, &trials, 1_000 * index as u64 + number);
                    let mut rng = stream(&ask);
                    let Proposal { params, predicted } =
                        gp.suggest(&ask, &mut rng).unwrap().unwrap();
                    let at = names.map(|name| crate::samplers::fixtures::number(&params, name));
                    let value = function(&at) + noise * draw(&mut rng);
                    for predicted in predicted {
                        all += 1;
                        inside += u32::from((predicted.low..=predicted.high).contains(&value));
                    }
                    trials.push(complete(number, params, value));
                }
            }
        }
        assert_eq!(all, 210);
        let share = f64::from(inside) / f64::from(all);
        assert!((0.85..0.96).contains(&share), "{share}");
    }

    /// The share of values in their intervals, of proposals after 10 to 29 trials of a noisy
    /// quadratic of six parameters and of its logarithm (four seeds each).
    fn share_of_early_values(version: u32) -> f64 {
        let (space, names) = (unit_cube(6), ["x0", "x1", "x2", "x3", "x4", "x5"]);
        let functions = [|distance: f64| distance, |distance: f64| (1.0 + 20.0 * distance).ln()];
        let (mut inside, mut all) = (0, 0);
        for (index, function) in functions.into_iter().enumerate() {
            for seed in 0..4 {
                let gp = Gp::new(&AlgorithmSpec { version, ..AlgorithmSpec::named("gp") });
                let mut trials = Vec::new();
                for number in 0..30 {
                    let run = 100_000 * index as u64 + 1_000 * seed + number;
                    let ask = ask(&space, &trials, run);
                    let mut rng = stream(&ask);
                    let Proposal { params, predicted } =
                        gp.suggest(&ask, &mut rng).unwrap().unwrap();
                    let at = names.map(|name| crate::samplers::fixtures::number(&params, name));
                    let distance = |(axis, x): (usize, f64)| (x - 0.2 - 0.1 * axis as f64).powi(2);
                    let distance = at.into_iter().enumerate().map(distance).sum::<f64>();
                    let value = function(distance) + 0.05 * draw(&mut rng);
                    for predicted in predicted {
                        all += 1;
                        inside += u32::from((predicted.low..=predicted.high).contains(&value));
                    }
                    trials.push(complete(number, params, value));
                }
            }
        }
        assert_eq!(all, 160);
        f64::from(inside) / f64::from(all)
    }

    #[test]
    fn a_few_values_widen_intervals() {
        let (before, now) = (share_of_early_values(11), share_of_early_values(12));
        assert!(before < 0.75, "{before}");
        assert!((0.85..0.97).contains(&now), "{now}");
    }
}
