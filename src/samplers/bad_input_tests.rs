//! What every sampler makes of inputs that nobody means: a sound point or an error, in no more than
//! seconds.

use super::conformance::{dimension, trial_of};
use super::*;
use crate::study::metric::Direction;
use crate::study::params::Value;
use crate::study::space::{Distribution, Scale, SpaceError};
use crate::study::trial::{Trial, TrialState};

fn float(low: f64, high: f64, scale: Scale) -> Distribution {
    Distribution::float(low, high, scale, None).unwrap()
}

fn suggestion(
    entry: &SamplerEntry,
    space: &Space,
    trials: &[Trial],
) -> Result<Option<Params>, String> {
    let sampler = (entry.build)(&entry.defaults(), space).map_err(|error| error.to_string())?;
    let (seeds, fixed) = (SeedTree::new(1), Params::new());
    let number = TrialNumber(trials.len() as u64);
    let history = History::of(trials, Direction::Minimize);
    let ask = Ask {
        room: None,
        space,
        history,
        number,
        fixed: &fixed,
        budget: None,
        constraints: &[],
        earlier: &[],
        seeds,
    };
    propose(sampler.as_ref(), &ask, &mut seeds.stream("bad input"))
        .map_err(|error| error.to_string())
}

/// A point of the space, or nothing left, or that the sampler does not fit the space.
fn is_sound(entry: &SamplerEntry, space: &Space, trials: &[Trial]) {
    match suggestion(entry, space, trials) {
        Ok(Some(point)) => assert_eq!(space.check(&point), Ok(()), "{}", entry.name),
        Ok(None) => assert_eq!(entry.name, "grid"),
        Err(error) => assert!(
            error.contains("cannot serve this study") && error.contains("; "),
            "{}: {error}",
            entry.name
        ),
    }
}

fn params(pairs: &[(&str, Value)]) -> Params {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

#[test]
fn a_hundred_thousand_trials_are_no_reason_to_wait() {
    let space = Space::new(vec![
        dimension("x", float(0.0, 1.0, Scale::Linear), &[]),
        dimension("rate", float(1e-6, 1.0, Scale::Log), &[]),
    ])
    .unwrap();
    let trial = |number: u64| {
        let x = (number as f64 * 0.618_034).fract();
        trial_of(
            number,
            params(&[("x", x.into()), ("rate", (10f64.powf(-6.0 * x)).into())]),
            TrialState::Complete,
            Some((x - 0.3).abs()),
        )
    };
    let trials: Vec<Trial> = (0..100_000).map(trial).collect();
    for entry in SAMPLERS {
        is_sound(entry, &space, &trials);
    }
}

#[test]
fn ranges_of_six_hundred_orders_of_magnitude_and_thousands_of_choices_are_searched() {
    let many = Distribution::choice((0..5000i64).map(Value::Int).collect()).unwrap();
    let space = Space::new(vec![
        dimension("log", float(1e-300, 1e300, Scale::Log), &[]),
        dimension("wide", float(-8e307, 8e307, Scale::Linear), &[]),
        dimension("many", many, &[]),
    ])
    .unwrap();
    let trial = |number: u64| {
        let part = (number as f64 * 0.618_034).fract();
        let point = params(&[
            ("log", 10f64.powf(600.0 * part - 300.0).into()),
            ("wide", (8e307 * (2.0 * part - 1.0)).into()),
            ("many", (number.cast_signed() * 7 % 5000).into()),
        ]);
        trial_of(
            number,
            point,
            TrialState::Complete,
            Some(if number.is_multiple_of(3) { 1e300 } else { -1e300 * part }),
        )
    };
    let trials: Vec<Trial> = (0..40).map(trial).collect();
    for entry in SAMPLERS {
        is_sound(entry, &space, &trials);
    }
}

#[test]
fn a_history_that_says_nothing_gives_points_all_the_same() {
    let space = Space::new(vec![
        dimension("x", float(0.0, 1.0, Scale::Linear), &[]),
        dimension("n", Distribution::int(1, 90, Scale::Linear, 1).unwrap(), &[]),
    ])
    .unwrap();
    let outcomes: [(TrialState, Option<f64>); 5] = [
        (TrialState::Failed, None),
        (TrialState::Complete, Some(f64::NAN)),
        (TrialState::Complete, Some(1.0)),
        (TrialState::Complete, Some(f64::INFINITY)),
        (TrialState::Pruned, None),
    ];
    for (state, value) in outcomes {
        // All at one place, too.
        let trials: Vec<Trial> = (0..30)
            .map(|number| {
                trial_of(number, params(&[("x", 0.5.into()), ("n", 3i64.into())]), state, value)
            })
            .collect();
        for entry in SAMPLERS {
            is_sound(entry, &space, &trials);
        }
    }
}

#[test]
fn trials_of_a_space_that_was_changed_do_no_harm() {
    let space = Space::new(vec![
        dimension("x", float(0.0, 1.0, Scale::Linear), &[]),
        dimension("kind", Distribution::choice(vec!["a".into(), "b".into()]).unwrap(), &[]),
        dimension("y", float(0.0, 1.0, Scale::Linear), &[("kind", vec!["a".into()])]),
    ])
    .unwrap();
    let old: [&[(&str, Value)]; 5] = [
        &[("x", Value::Float(7.0)), ("kind", Value::Text("z".into())), ("y", Value::Float(-3.0))],
        &[("w", Value::Bool(true))],
        &[("x", Value::Text("wide".into())), ("kind", Value::Int(3))],
        &[("y", Value::Float(0.5))],
        &[],
    ];
    let trials: Vec<Trial> = (0..30u64)
        .map(|number| {
            trial_of(
                number,
                params(old[number as usize % 5]),
                TrialState::Complete,
                Some(number as f64),
            )
        })
        .collect();
    for entry in SAMPLERS {
        is_sound(entry, &space, &trials);
    }
}

#[test]
fn an_empty_space_and_one_of_a_single_point_have_that_point() {
    let single = Space::new(vec![
        dimension("x", float(0.5, 0.5, Scale::Linear), &[]),
        dimension("k", Distribution::choice(vec!["only".into()]).unwrap(), &[]),
    ])
    .unwrap();
    for space in [Space::default(), single] {
        let trials: Vec<Trial> = (0..12)
            .map(|number| trial_of(number, params(&[]), TrialState::Complete, Some(0.5)))
            .collect();
        for entry in SAMPLERS {
            is_sound(entry, &space, &[]);
            is_sound(entry, &space, &trials);
        }
    }
}

#[test]
fn contradictory_spaces_are_refused() {
    let on_itself =
        vec![dimension("a", float(0.0, 1.0, Scale::Linear), &[("a", vec![0.5.into()])])];
    assert!(matches!(Space::new(on_itself), Err(SpaceError::Circle { .. })));
    let impossible = vec![
        dimension("a", float(0.0, 1.0, Scale::Linear), &[]),
        dimension("b", float(0.0, 1.0, Scale::Linear), &[("a", vec![2.0.into()])]),
    ];
    assert!(matches!(Space::new(impossible), Err(SpaceError::ImpossibleParentValue { .. })));
    assert!(Distribution::float(1.0, 0.0, Scale::Linear, None).is_err());
}

#[test]
fn thirty_flags_whose_children_come_last_are_not_counted_for_ever() {
    let flag = || Distribution::choice(vec![true.into(), false.into()]).unwrap();
    let mut dimensions: Vec<crate::study::space::Dimension> =
        (0..30).map(|index| dimension(&format!("flag{index}"), flag(), &[])).collect();
    // One condition on all of them: only combinations of all thirty say whether it holds.
    let names: Vec<String> = (0..30).map(|index| format!("flag{index}")).collect();
    for index in 0..30 {
        dimensions.push(dimension(
            &format!("child{index}"),
            flag(),
            &[(names[29 - index].as_str(), vec![true.into()])],
        ));
    }
    let space = Space::new(dimensions).unwrap();
    for entry in SAMPLERS {
        is_sound(entry, &space, &[]);
    }
}
