//! Forecasts for trials whose final losses are known.

use super::*;
use crate::samplers::conformance::{float, space, trial_of};
use crate::study::metric::Direction;
use crate::study::params::{Params, Value};

fn trial(number: u64, params: Params, state: TrialState, curve: &[(u64, f64)]) -> Trial {
    let value = curve.last().filter(|_| state == TrialState::Complete).map(|(_, value)| *value);
    Trial { curve: curve.to_vec(), ..trial_of(number, params, state, value) }
}

fn complete(number: u64, curve: &[(u64, f64)]) -> Trial {
    trial(number, Params::new(), TrialState::Complete, curve)
}

fn pruned(number: u64, curve: &[(u64, f64)]) -> Trial {
    trial(number, Params::new(), TrialState::Pruned, curve)
}

/// Every third trial runs the whole curve; the others stop before their last report.
fn every_third(number: u64, params: Params, curve: &[(u64, f64)]) -> Trial {
    match number % 3 {
        0 => trial(number, params, TrialState::Complete, curve),
        _ => trial(number, params, TrialState::Pruned, &curve[..curve.len() - 1]),
    }
}

fn forecast_at(trials: &[Trial], space: &Space, steps: &[u64]) -> LearningCurveForecast {
    let history = History::of(trials, Direction::Minimize);
    forecast_curves(&history, |_| true, space, steps, Middle::Median)
}

fn ends(trials: &[Trial]) -> Vec<Option<End>> {
    let stopped = trials.iter().filter(|trial| trial.state == TrialState::Pruned);
    let mut steps: Vec<u64> = stopped.filter_map(|trial| Some(trial.last()?.0)).collect();
    steps.sort_unstable();
    steps.dedup();
    forecast_at(trials, &Space::default(), &steps).ends
}

fn end(trials: &[Trial], index: usize) -> End {
    ends(trials)[index].unwrap()
}

/// A pseudo-random number from 0 to 1, another sequence for each factor.
fn part(number: u64, by: f64) -> f64 {
    (number as f64 * by).fract()
}

#[test]
fn an_end_is_forecast_by_those_that_continued() {
    // A trial that is better at step 2 ends better, by half of the difference, and 1 lower.
    let mut trials: Vec<Trial> = (0..60)
        .map(|number| (number, number as f64 / 60.0))
        .map(|(number, value)| complete(number, &[(2, 3.0 + value), (8, 2.0 + value / 2.0)]))
        .collect();
    trials.push(pruned(60, &[(2, 3.5)]));
    let near = end(&trials, 60);
    assert!((near.loss - 2.25).abs() < 0.03 && near.variance < 0.01, "{near:?}");
    // Where no trial continued, differences persist.
    trials[60] = pruned(60, &[(2, 14.0)]);
    let far = end(&trials, 60);
    assert!((far.loss - 12.5).abs() < 0.6, "{far:?}");
}

#[test]
fn a_step_that_says_nothing_leaves_the_mean_and_a_large_variance() {
    let mut trials: Vec<Trial> = (0..60)
        .map(|index| complete(index, &[(2, part(index, 0.618)), (8, part(index, 0.755))]))
        .collect();
    trials.push(pruned(60, &[(2, 0.1)]));
    let end = end(&trials, 60);
    assert!((end.loss - 0.5).abs() < 0.15, "{end:?}");
    assert!((0.06..0.13).contains(&end.variance), "{end:?}");
}

#[test]
fn trials_stopped_later_tell_of_those_stopped_before_and_know_their_own_end_better() {
    let mut trials: Vec<Trial> =
        (0..4).map(|number| complete(number, &[(2, 3.0), (6, 2.0), (18, 1.0)])).collect();
    let late = |number| pruned(number, &[(2, 3.2), (6, 2.6 + 0.01 * number as f64)]);
    trials.extend((4..12).map(late));
    trials.push(pruned(12, &[(2, 3.3)]));
    let (late, early) = (end(&trials, 11), end(&trials, 12));
    assert!(late.loss > 1.5 && early.loss > 1.5, "{late:?} {early:?}");
    assert!(early.variance > late.variance);
}

#[test]
fn nothing_that_continued_and_nonsense_leave_a_finite_end_or_none() {
    let trials = [
        pruned(0, &[(1, 4.0)]),
        pruned(1, &[(1, f64::NAN)]),
        pruned(2, &[]),
        pruned(3, &[(1, 1e308), (2, -1e308)]),
    ];
    let ends = ends(&trials);
    assert_eq!((ends[1], ends[2]), (None, None));
    assert!(ends.iter().flatten().all(|end| end.loss.is_finite() && end.variance.is_finite()));
    assert_eq!(self::ends(&trials[..1])[0], Some(End { loss: 4.0, variance: 0.0 }));
}

/// Trials of a parameter `x`: their curves begin as noise and end at its value.
fn parted(count: u64) -> Vec<Trial> {
    let trial = |number| {
        let x = part(number + 1, 0.618);
        let params = [("x".to_owned(), Value::from(x))].into_iter().collect();
        let curve = [(2, 1.0 + part(number + 1, 0.755)), (8, (x - 0.3).powi(2))];
        every_third(number, params, &curve)
    };
    (0..count).map(trial).collect()
}

#[test]
fn parameters_tell_where_values_do_not() {
    let trials = parted(60);
    let forecast = forecast_at(&trials, &space([float("x", 0.0, 1.0)]), &[2]);
    assert!(forecast.at[0].is_learned);
    assert_eq!((forecast.at[0].trials.len(), forecast.at[0].continued), (60, 20));
    let stopped = || (0..60).filter(|number| number % 3 != 0);
    let error = |number: usize| {
        let truth = (part(number as u64 + 1, 0.618) - 0.3).powi(2);
        (forecast.ends[number].unwrap().loss - truth).abs()
    };
    let missed = stopped().map(error).sum::<f64>() / stopped().count() as f64;
    // Final losses lie between 0 and 0.49.
    assert!(missed < 0.05, "{missed}");
    assert!(stopped().all(|number| forecast.ends[number].unwrap().variance < 0.01));
    // Without the parameter only the mean is known.
    let blind = forecast_at(&trials, &Space::default(), &[2]);
    assert!(blind.ends[1].unwrap().variance > 0.01, "{:?}", blind.ends[1]);
}

#[test]
fn where_values_tell_everything_nothing_else_counts_and_slopes_are_seen() {
    // The largest forecast error for trials with these curves.
    let most_missed = |space: &Space, curve: &dyn Fn(u64) -> Vec<(u64, f64)>| {
        let trials: Vec<Trial> = (0..60)
            .zip(parted(60))
            .map(|(number, trial)| every_third(number, trial.params, &curve(number)))
            .collect();
        let forecast = forecast_at(&trials, space, &[2]);
        let missed = |(number, end): (u64, &Option<End>)| {
            (end.unwrap().loss - curve(number).last().unwrap().1).abs()
        };
        (0..).zip(&forecast.ends).map(missed).fold(0.0, f64::max)
    };
    let orderly = |number: u64| vec![(2, 1.0 + part(number, 0.755)), (8, part(number, 0.755))];
    assert!(most_missed(&space([float("x", 0.0, 1.0)]), &orderly) < 1e-3);
    // Steep curves end better, whatever their values are.
    let steep = |number: u64| {
        let (fall, value) = (part(number, 0.618), 2.0 + 0.1 * part(number, 0.755));
        vec![(1, value + fall), (2, value), (8, 1.0 - fall)]
    };
    assert!(most_missed(&Space::default(), &steep) < 0.05);
}

#[test]
fn of_many_trials_the_newest_are_forecast() {
    let forecast = forecast_at(&parted(900), &Space::default(), &[2]);
    assert_eq!((forecast.at[0].trials.len(), forecast.at[0].trials[0]), (NEWEST, 500));
    assert!(forecast.ends[499].is_none() && forecast.ends[500].is_some());
}

#[test]
fn models_are_weighted_by_their_likelihood() {
    let blend = |models: [(f64, f64); 2], count| {
        let model = |(loss, missed)| Model { ends: vec![End { loss, variance: 0.5 }], missed };
        averaged(&models.map(model), count)[0]
    };
    // Twice the squared error after two rows: half as likely.
    let end = blend([(1.0, 2.0), (4.0, 1.0)], 2);
    assert!((end.loss - 3.0).abs() < 1e-12 && (end.variance - 2.5).abs() < 1e-12, "{end:?}");
    // With many rows only the better model remains, and one with an infinite error never counts.
    let only = |loss| End { loss, variance: 0.5 };
    assert_eq!(blend([(1.0, 2.0), (4.0, 1.0)], 4000), only(4.0));
    assert_eq!(blend([(f64::NAN, f64::INFINITY), (4.0, 0.0)], 6), only(4.0));
    // If all errors are infinite, the simplest model.
    assert_eq!(blend([(1.0, f64::INFINITY), (4.0, f64::NAN)], 6), only(1.0));
}
