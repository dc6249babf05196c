//! Tests of the process over curves.

use super::*;
use crate::samplers::conformance::trial_of;
use crate::samplers::fixtures::{ask, number, params, unit_cube};
use crate::samplers::gp::Gp;
use crate::samplers::gp::rules::Rules;
use crate::samplers::{Ask, Sampler as _};
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::seed::SeedTree;
use crate::study::space::Space;
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// Trials whose losses level off at `(x0 - 0.7)^2 + 0.2 x1`, paused at one of three rungs.
fn paused(count: u64) -> Vec<Trial> {
    let trial = |number: u64| {
        let unit = |by: f64| (number as f64 * by).fract();
        let params = params([("x0", unit(0.618).into()), ("x1", unit(0.755).into())]);
        let last = [3, 9, 27][(number % 3) as usize];
        let loss = |step: u64| end(unit(0.618), unit(0.755)) + 2.0 / (1.0 + step as f64);
        let curve = (1..=last).map(|step| (step, loss(step))).collect();
        let state = if last == 27 { TrialState::Complete } else { TrialState::Paused };
        let value = (last == 27).then(|| loss(27));
        Trial { curve, ..trial_of(number, params, state, value) }
    };
    (0..count).map(trial).collect()
}

fn end(x: f64, y: f64) -> f64 {
    (x - 0.7).powi(2) + 0.2 * y
}

fn asked<'a>(space: &'a Space, trials: &'a [Trial]) -> Ask<'a> {
    Ask { max_resource: Some(27), ..ask(space, trials, 0) }
}

fn fitted(space: &Space, trials: &[Trial]) -> (Cube, CurveData, CurveHyperparameters) {
    let cube = Cube::new(space);
    let data = CurveData::new(&cube, &asked(space, trials), Rules::Before10);
    let hyperparameters =
        hyperparameters(&RefCell::default(), &cube, &data, Lengths::Own, Exponential::System);
    (cube, data, hyperparameters)
}

#[test]
fn gradients_of_the_posterior_match_finite_differences() {
    let (space, trials) = (unit_cube(2), paused(7));
    let cube = Cube::new(&space);
    let data = CurveData::new(&cube, &asked(&space, &trials), Rules::Before10);
    let ToFit { points, observations, .. } = data.to_fit();
    assert!(observations.len() > 10, "{observations:?}");
    for (lengths, at) in [
        (Lengths::Own, vec![-0.4, 0.3, 0.5, -0.2, 0.2, -0.7, -1.5, -0.6, 1.4, -4.0]),
        (Lengths::Shared, vec![-0.4, 0.3, 0.2, -0.7, -1.5, -0.6, 1.4, -4.0]),
    ] {
        let posterior = Posterior::new(&cube, &points, &observations, lengths, Exponential::Own);
        let (_, gradient) = posterior.value_and_gradient(&at).unwrap();
        for index in 0..at.len() {
            let value = |by: f64| {
                let mut moved = at.clone();
                moved[index] += by;
                posterior.value_and_gradient(&moved).unwrap().0
            };
            let numeric = (value(1e-5) - value(-1e-5)) / 2e-5;
            let off = (gradient[index] - numeric).abs();
            let bound = 1e-4 * numeric.abs().max(1.0);
            assert!(off < bound, "{lengths:?} {index}: {} {numeric}", gradient[index]);
        }
    }
}

#[test]
fn ends_of_paused_trials_are_foretold_and_their_variance_falls_with_their_steps() {
    let (space, trials) = (unit_cube(2), paused(40));
    let (cube, data, hyperparameters) = fitted(&space, &trials);
    let process = CurveProcess::new(&cube, &hyperparameters, &data).unwrap();
    let mut variances = [0.0; 3];
    for (index, trial) in data.trials.iter().enumerate() {
        let number = trial.unwrap();
        let point = &data.points[index];
        let (mean, variance) = process.moments_of_trial(index, FULL);
        let loss = data.scale.loss(mean);
        let truth = end(point[0], point[1]) + 2.0 / 28.0;
        let off = (loss - truth).abs();
        assert!(off < 0.05, "trial {number} of {:?}: {loss} {truth}", trials[number].state);
        variances[number % 3] += variance;
    }
    assert!(variances[0] > variances[1] && variances[1] > variances[2], "{variances:?}");
}

#[test]
fn values_and_gradients_of_the_acquisition_agree() {
    let (space, trials) = (unit_cube(2), paused(20));
    let (cube, data, own) = fitted(&space, &trials);
    let shared =
        hyperparameters(&RefCell::default(), &cube, &data, Lengths::Shared, Exponential::System);
    let fits = [own, shared];
    let processes = fits.iter().map(|fitted| CurveProcess::new(&cube, fitted, &data).unwrap());
    for process in processes {
        for point in [[0.3, 0.6], [0.72, 0.1]] {
            let incumbent = -0.8;
            let (value, gradient) =
                process.values_and_gradients(&[&point], incumbent).swap_remove(0);
            assert!((value - process.values(&[&point], incumbent)[0]).abs() < 1e-9);
            assert!(
                process.most_improvement(&process.covariances_of(&point), incumbent)
                    >= value - 1e-9
            );
            let (mean, _) = process.moments_of_new(&point, FULL);
            assert!((mean - process.mean_of_new(&point)).abs() < 1e-9);
            for axis in 0..2 {
                let value = |by: f64| {
                    let mut moved = point;
                    moved[axis] += by;
                    process.values(&[&moved], incumbent)[0]
                };
                let numeric = (value(1e-6) - value(-1e-6)) / 2e-6;
                let off = (gradient[axis] - numeric).abs();
                assert!(
                    off < 1e-3 * numeric.abs().max(1.0),
                    "{axis}: {} {numeric}",
                    gradient[axis]
                );
            }
        }
    }
}

#[test]
fn a_few_reports_of_each_trial_are_kept_and_of_many_trials_the_long_and_the_new() {
    let space = unit_cube(2);
    let cube = Cube::new(&space);
    let few = paused(6);
    let data = CurveData::new(&cube, &asked(&space, &few), Rules::Before10);
    let steps = |trial: usize| -> Vec<f64> {
        let own = data.observations.iter().filter(|one| one.trial == trial);
        own.map(|one| (one.step * 27.0 / FULL).round()).collect()
    };
    assert_eq!((steps(0), steps(2)), (vec![2.0, 3.0], vec![2.0, 8.0, 26.0, 27.0]));
    let many = paused(900);
    let data = CurveData::new(&cube, &asked(&space, &many), Rules::Before10);
    assert!(data.observations.len() <= 250, "{}", data.observations.len());
    assert!((880..900).all(|trial| data.trials.contains(&Some(trial))));
    let to_fit = data.to_fit().observations;
    assert!((50..=72).contains(&to_fit.len()), "{}", to_fit.len());
}

#[test]
fn fits_wait_for_more_trials_of_those_that_rest() {
    let (space, cube) = (unit_cube(2), Cube::new(&unit_cube(2)));
    let to_fit = |trials: &[Trial], rules| {
        let ToFit { points, observations, .. } =
            CurveData::new(&cube, &asked(&space, trials), rules).to_fit();
        (points.iter().map(|point| key(point)).collect::<Vec<_>>(), observations)
    };
    let trials = paused(400);
    let fitted = to_fit(&trials, Rules::Since10);
    assert!((50..=90).contains(&fitted.1.len()), "{}", fitted.1.len());
    assert!(fitted.0.len() < 60 && fitted.1.iter().all(|one| one.trial < fitted.0.len()));
    // One more trial, and one that is begun.
    let more = paused(402);
    let mut running = more[401].clone();
    running.state = TrialState::Running;
    let more = [&more[..401], &[running]].concat();
    assert!(to_fit(&more, Rules::Since10) == fitted);
    assert!(to_fit(&more, Rules::Before10) != to_fit(&trials, Rules::Before10));
    // An eighth more.
    assert!(to_fit(&paused(460), Rules::Since10) != fitted);
    // No difference where the process has all observations.
    assert!(to_fit(&paused(60), Rules::Since10) == to_fit(&paused(60), Rules::Before10));
    // Nor while hardly any trial rests, or those that do are alike.
    let running = |trial: Trial| Trial { state: TrialState::Running, ..trial };
    let mut few: Vec<Trial> = paused(400).into_iter().map(running).collect();
    let mut failed = trial_of(400, few[0].params.clone(), TrialState::Failed, None);
    few.push(failed.clone());
    assert!(to_fit(&few, Rules::Since10) == to_fit(&few, Rules::Before10));
    for number in 401..460 {
        failed.number = TrialNumber(number);
        few.push(failed.clone());
    }
    assert!(to_fit(&few, Rules::Since10) == to_fit(&few, Rules::Before10));
}

#[test]
fn a_fit_to_targets_of_another_scale_is_turned_into_that_of_the_process() {
    let (space, cube) = (unit_cube(2), Cube::new(&unit_cube(2)));
    let data = CurveData::new(&cube, &asked(&space, &paused(400)), Rules::Since10);
    let memo = RefCell::default();
    let fit = || hyperparameters(&memo, &cube, &data, Lengths::Own, Exponential::Own);
    let (first, again) = (fit(), fit());
    assert_eq!(first, again);
    let memo = memo.borrow();
    let fitted = &memo.as_ref().unwrap().hyperparameters;
    let factor = data.to_fit().scale.width_in(&data.scale);
    assert!(factor > 0.5 && factor < 2.0 && factor != 1.0, "{factor}");
    assert!((first.level - fitted.level * factor * factor).abs() < 1e-12 * fitted.level);
    assert_eq!(first.half_life, fitted.half_life);
}

#[test]
fn losses_that_are_no_numbers_and_failed_trials_count_as_bad() {
    let space = unit_cube(2);
    let mut trials = paused(12);
    trials[0].curve = vec![(1, f64::NAN)];
    trials[1].curve = vec![(1, f64::INFINITY), (2, 1e300)];
    trials[2] = trial_of(2, trials[2].params.clone(), TrialState::Failed, None);
    trials[3].curve.clear();
    let (cube, data, hyperparameters) = fitted(&space, &trials);
    assert_eq!((data.reported(), data.pending.len()), (11, 1));
    let worst = data.observations.iter().map(|one| one.target).fold(f64::MIN, f64::max);
    let target = |trial: usize| {
        let own = data.observations.iter().filter(|one| data.trials[one.trial] == Some(trial));
        own.map(|one| one.target).fold(f64::MIN, f64::max)
    };
    assert_eq!([target(0), target(1), target(2)], [worst; 3]);
    assert!(CurveProcess::new(&cube, &hyperparameters, &data).is_some());
}

/// Early losses depend on the second parameter, final ones on the first.
#[test]
fn what_ends_depend_on_is_not_what_early_losses_depend_on() {
    let (space, cube) = (unit_cube(2), Cube::new(&unit_cube(2)));
    let trials: Vec<Trial> = (0..40u64)
        .map(|number| {
            let unit = |by: f64| (number as f64 * by).fract();
            let (x, y) = (unit(0.618), unit(0.755));
            let params = params([("x0", x.into()), ("x1", y.into())]);
            let loss = |step: u64| {
                let way = 1.0 / step as f64;
                (1.0 - way) * (9.0 * x).sin() + way * 3.0 * (1.0 - y)
            };
            let last = if number % 3 == 0 { 27 } else { 1 };
            let state = if last == 27 { TrialState::Complete } else { TrialState::Paused };
            let curve = (1..=last).map(|step| (step, loss(step))).collect();
            let value = (last == 27).then(|| loss(27));
            Trial { curve, ..trial_of(number, params, state, value) }
        })
        .collect();
    let data = CurveData::new(&cube, &asked(&space, &trials), Rules::Before10);
    let missed = |lengths: Lengths| {
        let fitted =
            hyperparameters(&RefCell::default(), &cube, &data, lengths, Exponential::System);
        let process = CurveProcess::new(&cube, &fitted, &data).unwrap();
        let off = |step: usize| {
            let x = step as f64 / 10.0;
            let mean = data.scale.loss(process.mean_of_new(&[x, 0.37]));
            (mean - (9.0 * x).sin()).powi(2)
        };
        (0..=10).map(off).sum::<f64>() / 11.0
    };
    let (shared, own) = (missed(Lengths::Shared), missed(Lengths::Own));
    assert!(own < 0.7 * shared, "{own} {shared}");
}

/// A study that began with shared length scales continues with them.
#[test]
fn version_6_has_shared_length_scales() {
    let (space, trials) = (unit_cube(2), paused(20));
    let draw = |version: u32| {
        let spec = AlgorithmSpec { version, ..AlgorithmSpec::named("gp") };
        let mut rng = SeedTree::new(3).stream("draw");
        let proposal = Gp::new(&spec).suggest(&asked(&space, &trials), &mut rng).unwrap();
        let found = proposal.unwrap().params;
        [number(&found, "x0"), number(&found, "x1")]
    };
    assert_ne!(draw(6), draw(7));
    assert_eq!(draw(7), draw(8), "with one objective");
    let [x, y] = draw(6);
    assert!((x - 0.682_700_217_516_561_2).abs() < 1e-9 && y.abs() < 1e-9, "{x} {y}");
}

/// A value in `[-1, 1]` for a trial and a step.
fn noise(number: u64, step: u64) -> f64 {
    ((number * 31 + step * 17) as f64 * 12.9898).sin()
}

/// [`paused`] trials with noisy reports, complete ones without.
fn noisy(count: u64, sign: f64) -> Vec<Trial> {
    let of = |mut trial: Trial| {
        for (step, value) in &mut trial.curve {
            *value = sign * (*value + 0.04 * noise(trial.number.0, *step));
        }
        trial.value = trial.value.and_then(|_| trial.curve.last().map(|(_, value)| *value));
        trial
    };
    paused(count).into_iter().map(of).collect()
}

#[test]
fn nine_in_ten_reports_of_new_trials_lie_in_their_intervals() {
    let space = unit_cube(2);
    for (direction, sign) in [(Direction::Minimize, 1.0), (Direction::Maximize, -1.0)] {
        let trials = noisy(90, sign);
        let (known, new) = trials.split_at(30);
        let history = History::of(known, direction);
        let predictor = CurvePredictor::default();
        let (mut inside, mut all) = (0, 0);
        for trial in new {
            let this = PredictedTrial::New(&trial.params);
            let predicted =
                predictor.predict(&space, history, Some(27), 0, this, &[1, 3, 9]).unwrap();
            assert_eq!(predicted.iter().map(|row| row.step).collect::<Vec<_>>(), [1, 3, 9, 27]);
            for Predicted { step, mean, low, high } in predicted {
                assert!(low < mean && mean < high);
                let reported = trial.curve.iter().find(|(at, _)| *at == step);
                if let Some((_, value)) = reported {
                    all += 1;
                    inside += i32::from(low < *value && *value < high);
                }
            }
        }
        let share = f64::from(inside) / f64::from(all);
        assert!((0.8..1.0).contains(&share), "{direction:?}: {inside} of {all}");
    }
}

#[test]
fn reports_narrow_what_is_predicted_and_few_trials_predict_nothing() {
    let space = unit_cube(2);
    let trials = paused(40);
    let predictor = CurvePredictor::default();
    let end = |known: &[Trial], this: PredictedTrial<'_>| {
        let history = History::of(known, Direction::Minimize);
        let predicted = predictor.predict(&space, history, Some(27), 0, this, &[])?;
        predicted.last().map(|end| end.high - end.low)
    };
    let new = end(&trials[..37], PredictedTrial::New(&trials[37].params)).unwrap();
    let reported = end(&trials[..38], PredictedTrial::Reported(TrialNumber(37))).unwrap();
    assert!(reported < new, "{reported} {new}");
    assert_eq!(end(&trials[..4], PredictedTrial::New(&trials[37].params)), None);
    assert_eq!(end(&trials[..37], PredictedTrial::Reported(TrialNumber(38))), None);
}

/// The predictions of a trial's first objective are about those of a study with it alone, where bad
/// losses are capped earlier, and the second, its negative to be maximised, is predicted likewise;
/// their intervals are of the same size.
#[test]
fn each_of_several_objectives_is_predicted() {
    let space = unit_cube(2);
    let trials: Vec<Trial> = noisy(40, 1.0)
        .into_iter()
        .map(|trial| {
            let both = |value: f64| vec![value, -value];
            let vectors = trial
                .curve
                .iter()
                .map(|(step, value)| (*step, both(*value).into_iter().map(Some).collect()));
            let values = trial.value.map_or_else(Vec::new, both);
            Trial { vectors: vectors.collect(), values, value: None, ..trial }
        })
        .collect();
    let directions = [Direction::Minimize, Direction::Maximize];
    let history = History::of_several(&trials, &directions);
    let predictor = CurvePredictor::default();
    let of = |history, objective| {
        let this = PredictedTrial::Reported(TrialNumber(7));
        predictor.predict(&space, history, Some(27), objective, this, &[])
    };
    let [first, second] = [0, 1].map(|objective| of(history, objective).unwrap().pop().unwrap());
    let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(
        same(first.mean, -second.mean) && same(first.low, -second.high),
        "{first:?} {second:?}"
    );
    assert!(first.low < first.mean && first.mean < first.high);
    let alone = noisy(40, 1.0);
    let alone = of(History::of(&alone, Direction::Minimize), 0).unwrap().pop().unwrap();
    assert!((first.mean - alone.mean).abs() < 0.02, "{first:?} {alone:?}");
    assert_eq!(of(history, 2), None);
}

/// A size that is reported once, at step 0, beside a loss that is reported at each step: bad trials
/// are far beyond the median.
fn sized() -> Vec<Trial> {
    let of = |trial: Trial| {
        let size = size_of(&trial);
        let reports = trial.curve.iter().map(|(step, loss)| (*step, vec![Some(*loss), None]));
        let vectors = [(0, vec![None, Some(size)])].into_iter().chain(reports).collect();
        let values = trial.value.map_or_else(Vec::new, |loss| vec![loss, size]);
        Trial { vectors, values, value: None, ..trial }
    };
    noisy(40, 1.0).into_iter().map(of).collect()
}

fn size_of(trial: &Trial) -> f64 {
    (4.0 * number(&trial.params, "x0")).exp()
}

#[test]
fn what_is_reported_once_holds_and_is_predicted_at_all_steps_alike() {
    let (space, trials) = (unit_cube(2), sized());
    let directions = [Direction::Minimize, Direction::Minimize];
    let predictor = CurvePredictor::default();
    let of = |known: &[Trial], this| {
        let history = History::of_several(known, &directions);
        predictor.predict(&space, history, Some(27), 1, this, &[0, 3]).unwrap()
    };
    for trial in &trials {
        let size = size_of(trial);
        let rows = of(&trials, PredictedTrial::Reported(trial.number));
        assert_eq!(rows.iter().map(|row| row.step).collect::<Vec<_>>(), [0, 3, 27]);
        assert!(rows.iter().all(|row| [row.mean, row.low, row.high] == [size; 3]), "{rows:?}");
    }
    let (known, new) = trials.split_at(30);
    for trial in new {
        let rows = of(known, PredictedTrial::New(&trial.params));
        let size = size_of(trial);
        assert!(rows.iter().all(|row| row.mean == rows[0].mean), "{rows:?}");
        assert!((rows[0].mean / size - 1.0).abs() < 0.2, "{size} {rows:?}");
    }
}

/// Beyond the number of observations that are kept, every trial that has reported is predicted.
#[test]
fn all_trials_of_a_large_study_are_predicted() {
    let space = unit_cube(2);
    let trials = noisy(300, 1.0);
    let history = History::of(&trials, Direction::Minimize);
    let predictor = CurvePredictor::default();
    for number in (0..300).step_by(23) {
        let this = PredictedTrial::Reported(TrialNumber(number));
        assert!(predictor.predict(&space, history, Some(27), 0, this, &[]).is_some(), "{number}");
    }
}

#[test]
fn residuals_are_those_of_a_process_without_what_is_left_out() {
    let (space, trials) = (unit_cube(2), noisy(20, 1.0));
    let (cube, data, hyperparameters) = fitted(&space, &trials);
    let process = CurveProcess::new(&cube, &hyperparameters, &data).unwrap();
    for (trial, known) in [(2, 0.0), (2, 10.0), (5, 20.0), (7, 0.0)] {
        let is_out = |row: &Observation| row.trial == trial && row.step > known;
        let rows = 0..data.observations.len();
        let left_out: Vec<usize> = rows.filter(|at| is_out(&data.observations[*at])).collect();
        let last = data.observations[*left_out.last().unwrap()];
        let mut without = data.clone();
        without.observations.retain(|row| !is_out(row));
        let others = CurveProcess::new(&cube, &hyperparameters, &without).unwrap();
        let (mean, variance) = others.moments_of_trial(trial, last.step);
        let expected = (last.target - mean) / (variance + hyperparameters.noise).sqrt();
        let found = process.standard_residual(&left_out).unwrap();
        assert!((found - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{found} {expected}");
    }
}
