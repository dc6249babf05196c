//! What is foretold of trials whose ends are known.

use super::*;
use crate::samplers::conformance::{dimension, trial_of};
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::space::{Distribution, Scale};

fn complete(number: u64, curve: &[(u64, f64)]) -> Trial {
    Trial {
        curve: curve.to_vec(),
        ..trial_of(
            number,
            Params::new(),
            TrialState::Complete,
            curve.last().map(|(_, value)| *value),
        )
    }
}

fn pruned(number: u64, curve: &[(u64, f64)]) -> Trial {
    Trial { curve: curve.to_vec(), ..trial_of(number, Params::new(), TrialState::Pruned, None) }
}

fn ends(trials: &[Trial]) -> Vec<Option<End>> {
    let mut steps: Vec<u64> = trials
        .iter()
        .filter(|trial| trial.state == TrialState::Pruned)
        .filter_map(|trial| Some(trial.last()?.0))
        .collect();
    steps.sort_unstable();
    steps.dedup();
    forecast_curves(
        &History::of(trials, Direction::Minimize),
        &Space::default(),
        &steps,
        Middle::Median,
    )
    .ends
}

fn end(trials: &[Trial], index: usize) -> End {
    ends(trials)[index].unwrap()
}

#[test]
fn an_end_is_foretold_by_those_that_went_on() {
    // What is better at step 2 ends better, by half of the difference and 1 lower.
    let mut trials: Vec<Trial> = (0..60)
        .map(|number| (number, f64::from(u32::try_from(number).unwrap()) / 60.0))
        .map(|(number, value)| complete(number, &[(2, 3.0 + value), (8, 2.0 + value / 2.0)]))
        .collect();
    trials.push(pruned(60, &[(2, 3.5)]));
    let near = end(&trials, 60);
    assert!((near.loss - 2.25).abs() < 0.03 && near.variance < 0.01, "{near:?}");
    // Where nobody continued, a difference stays what it is.
    trials[60] = pruned(60, &[(2, 14.0)]);
    let far = end(&trials, 60);
    assert!((far.loss - 12.5).abs() < 0.6, "{far:?}");
}

#[test]
fn a_step_that_says_nothing_leaves_the_mean_and_a_large_variance() {
    let number = |index: u64, by: f64| (f64::from(u32::try_from(index).unwrap()) * by).fract();
    let mut trials: Vec<Trial> = (0..60)
        .map(|index| complete(index, &[(2, number(index, 0.618)), (8, number(index, 0.755))]))
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
    trials.extend((4..12).map(|number| {
        pruned(number, &[(2, 3.2), (6, 2.6 + 0.01 * f64::from(u32::try_from(number).unwrap()))])
    }));
    trials.push(pruned(12, &[(2, 3.3)]));
    let (late, early) = (end(&trials, 11), end(&trials, 12));
    assert!(late.loss > 1.5 && early.loss > 1.5, "{late:?} {early:?}");
    assert!(early.variance > late.variance);
}

#[test]
fn nothing_that_went_on_and_nonsense_leave_a_finite_end_or_none() {
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

/// Curves that begin with noise and end where the parameter says.
fn parted(number: u64, went_on: bool) -> Trial {
    let part = |by: f64| (((number + 1) as f64) * by).fract();
    let mut params = Params::new();
    params.insert("x", part(0.618));
    let end = (part(0.618) - 0.3).powi(2);
    let first = (2, 1.0 + part(0.755));
    let state = if went_on { TrialState::Complete } else { TrialState::Pruned };
    let curve = if went_on { vec![first, (8, end)] } else { vec![first] };
    Trial { curve, ..trial_of(number, params, state, went_on.then_some(end)) }
}

#[test]
fn parameters_tell_where_values_do_not() {
    let space = Space::new(vec![dimension(
        "x",
        Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
        &[],
    )])
    .unwrap();
    let trials: Vec<Trial> =
        (0..60).map(|number| parted(number, number.is_multiple_of(3))).collect();
    let foretold =
        forecast_curves(&History::of(&trials, Direction::Minimize), &space, &[2], Middle::Median);
    assert!(foretold.at[0].is_learned);
    assert_eq!((foretold.at[0].trials.len(), foretold.at[0].went_on), (60, 20));
    let error = |(number, trial): (usize, &Trial)| {
        let truth =
            (trial.params.get("x").and_then(crate::study::params::Value::as_number).unwrap() - 0.3)
                .powi(2);
        (foretold.ends[number].unwrap().loss - truth).abs()
    };
    let stopped = || trials.iter().enumerate().filter(|(number, _)| number % 3 != 0);
    let missed = stopped().map(error).sum::<f64>() / stopped().count() as f64;
    // Ends are between 0 and 0.49.
    assert!(missed < 0.05, "{missed}");
    assert!(stopped().all(|(number, _)| foretold.ends[number].unwrap().variance < 0.01));
    // Without the parameter nothing is known but the mean.
    let blind = forecast_curves(
        &History::of(&trials, Direction::Minimize),
        &Space::default(),
        &[2],
        Middle::Median,
    );
    assert!(blind.ends[1].unwrap().variance > 0.01, "{:?}", blind.ends[1]);
}

#[test]
fn where_values_tell_everything_nothing_else_counts_and_slopes_are_seen() {
    let space = Space::new(vec![dimension(
        "x",
        Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
        &[],
    )])
    .unwrap();
    let orderly = |number: u64| {
        let Trial { params, state, .. } = parted(number, number.is_multiple_of(3));
        let value = ((number as f64) * 0.755).fract();
        let curve = [(2, 1.0 + value), (8, value)]
            .into_iter()
            .take(if state == TrialState::Complete { 2 } else { 1 })
            .collect();
        Trial {
            curve,
            ..trial_of(number, params, state, (state == TrialState::Complete).then_some(value))
        }
    };
    let trials: Vec<Trial> = (0..60).map(orderly).collect();
    let foretold =
        forecast_curves(&History::of(&trials, Direction::Minimize), &space, &[2], Middle::Median);
    let missed = |number: usize| {
        (foretold.ends[number].unwrap().loss - ((number as f64) * 0.755).fract()).abs()
    };
    assert!((0..60).all(|number| missed(number) < 1e-3));
    // Those that fall steeply end better, whatever their values are.
    let steep = |number: u64| {
        let fall = ((number as f64) * 0.618).fract();
        let value = 2.0 + 0.1 * ((number as f64) * 0.755).fract();
        let went_on = number.is_multiple_of(3);
        let curve: Vec<(u64, f64)> = [(1, value + fall), (2, value), (8, 1.0 - fall)]
            .into_iter()
            .take(if went_on { 3 } else { 2 })
            .collect();
        let state = if went_on { TrialState::Complete } else { TrialState::Pruned };
        Trial { curve, ..trial_of(number, Params::new(), state, went_on.then_some(1.0 - fall)) }
    };
    let trials: Vec<Trial> = (0..60).map(steep).collect();
    let foretold = forecast_curves(
        &History::of(&trials, Direction::Minimize),
        &Space::default(),
        &[2],
        Middle::Median,
    );
    let missed = |number: usize| {
        (foretold.ends[number].unwrap().loss - (1.0 - ((number as f64) * 0.618).fract())).abs()
    };
    assert!((0..60).all(|number| missed(number) < 0.05));
}

#[test]
fn of_many_trials_the_newest_are_foretold() {
    let trials: Vec<Trial> =
        (0..900).map(|number| parted(number, number.is_multiple_of(3))).collect();
    let foretold = forecast_curves(
        &History::of(&trials, Direction::Minimize),
        &Space::default(),
        &[2],
        Middle::Median,
    );
    assert_eq!((foretold.at[0].trials.len(), foretold.at[0].trials[0]), (NEWEST, 500));
    assert!(foretold.ends[499].is_none() && foretold.ends[500].is_some());
}

#[test]
fn accounts_count_as_they_are_likely() {
    let account =
        |loss: f64, missed: f64| Account { ends: vec![End { loss, variance: 0.5 }], missed };
    // Twice the squared error after two rows: half as likely.
    let end = blended(&[account(1.0, 2.0), account(4.0, 1.0)], 2)[0];
    assert!((end.loss - 3.0).abs() < 1e-12 && (end.variance - 2.5).abs() < 1e-12, "{end:?}");
    // After many only the better one is left, and what errs beyond measure never counts.
    assert_eq!(
        blended(&[account(1.0, 2.0), account(4.0, 1.0)], 4000)[0],
        End { loss: 4.0, variance: 0.5 }
    );
    assert_eq!(
        blended(&[account(f64::NAN, f64::INFINITY), account(4.0, 0.0)], 6)[0],
        End { loss: 4.0, variance: 0.5 }
    );
    // Of accounts that all do, the simplest.
    assert_eq!(
        blended(&[account(1.0, f64::INFINITY), account(4.0, f64::NAN)], 6)[0],
        End { loss: 1.0, variance: 0.5 }
    );
}
