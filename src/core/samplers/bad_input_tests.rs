//! Every sampler handles extreme inputs: a valid configuration or an error, within seconds.

use super::conformance::{choice, float, int, log_float, space, trial_of, under};
use super::fixtures::{ask, complete, params};
use super::*;
use crate::study::space::{Distribution, Scale, SpaceError};
use crate::study::trial::Trial;

/// The result is a valid configuration, `None`, or an error about the space.
fn every_sampler_is_sound(space: &Space, trials: &[Trial]) {
    for entry in SAMPLERS {
        let ask = ask(space, trials, 1);
        let answer = (entry.build)(&entry.defaults(), space)
            .map_err(|error| error.to_string())
            .and_then(|sampler| {
                let mut rng = ask.seeds.stream("bad input");
                propose(sampler.as_ref(), &ask, &mut rng).map_err(|error| error.to_string())
            });
        match answer {
            Ok(Some(point)) => assert_eq!(space.check(&point.params), Ok(()), "{}", entry.name),
            Ok(None) => assert_eq!(entry.name, "grid"),
            Err(error) => assert!(
                error.contains("cannot serve this study") && error.contains("; "),
                "{}: {error}",
                entry.name
            ),
        }
    }
}

/// A pseudo-random number from 0 to 1.
fn part(number: u64) -> f64 {
    (number as f64 * 0.618_034).fract()
}

#[test]
fn a_hundred_thousand_trials_are_no_reason_to_wait() {
    let trial = |number: u64| {
        let x = part(number);
        let point = params([("x", x.into()), ("rate", 10f64.powf(-6.0 * x).into())]);
        complete(number, point, (x - 0.3).abs())
    };
    let trials: Vec<Trial> = (0..100_000).map(trial).collect();
    every_sampler_is_sound(&space([float("x", 0.0, 1.0), log_float("rate", 1e-6, 1.0)]), &trials);
}

#[test]
fn ranges_of_six_hundred_orders_of_magnitude_and_thousands_of_choices_are_searched() {
    let space = space([
        log_float("log", 1e-300, 1e300),
        float("wide", -8e307, 8e307),
        choice("many", 0..5000i64),
    ]);
    let trial = |number: u64| {
        let point = params([
            ("log", 10f64.powf(600.0 * part(number) - 300.0).into()),
            ("wide", (8e307 * (2.0 * part(number) - 1.0)).into()),
            ("many", (number.cast_signed() * 7 % 5000).into()),
        ]);
        let loss = if number.is_multiple_of(3) { 1e300 } else { -1e300 * part(number) };
        complete(number, point, loss)
    };
    every_sampler_is_sound(&space, &(0..40).map(trial).collect::<Vec<_>>());
}

#[test]
fn a_history_that_says_nothing_gives_points_all_the_same() {
    let space = space([float("x", 0.0, 1.0), int("n", 1, 90)]);
    for (state, value) in [
        (TrialState::Failed, None),
        (TrialState::Complete, Some(f64::NAN)),
        (TrialState::Complete, Some(1.0)),
        (TrialState::Complete, Some(f64::INFINITY)),
        (TrialState::Pruned, None),
    ] {
        // All at the same point.
        let point = params([("x", 0.5.into()), ("n", 3i64.into())]);
        let trial = |number| trial_of(number, point.clone(), state, value);
        every_sampler_is_sound(&space, &(0..30).map(trial).collect::<Vec<_>>());
    }
}

#[test]
fn trials_of_a_space_that_was_changed_do_no_harm() {
    let unit = |name| float(name, 0.0, 1.0);
    let space = space([unit("x"), choice("kind", ["a", "b"]), under("kind", "a", unit("y"))]);
    let old = [
        params([("x", 7.0.into()), ("kind", "z".into()), ("y", (-3.0).into())]),
        params([("w", true.into())]),
        params([("x", "wide".into()), ("kind", 3i64.into())]),
        params([("y", 0.5.into())]),
        params([]),
    ];
    let trial = |number: u64| complete(number, old[number as usize % 5].clone(), number as f64);
    every_sampler_is_sound(&space, &(0..30).map(trial).collect::<Vec<_>>());
}

#[test]
fn an_empty_space_and_one_of_a_single_point_have_that_point() {
    let trials: Vec<Trial> = (0..12).map(|number| complete(number, params([]), 0.5)).collect();
    for space in [Space::default(), space([float("x", 0.5, 0.5), choice("k", ["only"])])] {
        every_sampler_is_sound(&space, &[]);
        every_sampler_is_sound(&space, &trials);
    }
}

#[test]
fn contradictory_spaces_are_refused() {
    let unit = |name| float(name, 0.0, 1.0);
    let on_itself = Space::new(vec![under("a", 0.5, unit("a"))]);
    assert!(matches!(on_itself, Err(SpaceError::Circle { .. })));
    let impossible = Space::new(vec![unit("a"), under("a", 2.0, unit("b"))]);
    assert!(matches!(impossible, Err(SpaceError::ImpossibleParentValue { .. })));
    assert!(Distribution::float(1.0, 0.0, Scale::Linear, None).is_err());
}

#[test]
fn thirty_flags_whose_children_come_last_are_not_counted_for_ever() {
    let flag = |name: String| choice(&name, [true, false]);
    let flags = (0..30).map(|index| flag(format!("flag{index}")));
    // One condition on all of them: only the combination of all thirty decides.
    let children = (0..30)
        .map(|index| under(&format!("flag{}", 29 - index), true, flag(format!("child{index}"))));
    every_sampler_is_sound(&space(flags.chain(children)), &[]);
}
