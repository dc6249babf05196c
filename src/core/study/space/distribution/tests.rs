//! Tests of distributions.

use super::*;
use proptest::prelude::*;

fn float(low: f64, high: f64, scale: Scale, step: Option<f64>) -> Distribution {
    Distribution::float(low, high, scale, step).unwrap()
}

fn any_distribution() -> impl Strategy<Value = Distribution> {
    let int = |low, high, scale, step| Distribution::int(low, high, scale, step).unwrap();
    prop_oneof![
        (-1e6..1e6f64, 0.0..1e6f64).prop_map(|(low, width)| float(
            low,
            low + width,
            Scale::Linear,
            None
        )),
        (1e-12..1.0f64, 1.0..1e12f64).prop_map(|(low, factor)| float(
            low,
            low * factor,
            Scale::Log,
            None
        )),
        (-100.0..100.0f64, 0.0..50.0f64, 0.01..10.0f64).prop_map(|(low, width, step)| float(
            low,
            low + width,
            Scale::Linear,
            Some(step)
        )),
        (-1000i64..1000, 0i64..1000, 1i64..10).prop_map(move |(low, width, step)| int(
            low,
            low + width,
            Scale::Linear,
            step
        )),
        (-1e300..1e300f64, 0.0..1.0f64, 0.0..1.0f64).prop_map(|(low, width, share)| {
            let high = low + width * low.abs() * 1e-3;
            let step = least_step(low, high) * (1.0 + share * 1e6);
            float(low, high, Scale::Linear, Some(step))
        }),
        (1i64..1000, 0i64..100_000).prop_map(move |(low, width)| int(
            low,
            low + width,
            Scale::Log,
            1
        )),
        (1usize..9).prop_map(|count| {
            let choices = (0..count).map(|index| Value::Text(format!("c{index}")));
            Distribution::choice(choices.collect()).unwrap()
        }),
    ]
}

proptest! {
    #[test]
    fn every_point_of_the_unit_interval_gives_a_value_that_round_trips(
        distribution in any_distribution(),
        unit in 0.0..=1.0f64,
    ) {
        let value = distribution.from_unit(unit);
        prop_assert!(distribution.contains(&value), "{value} not in {distribution:?}");
        let again = distribution.from_unit(distribution.to_unit(&value).unwrap());
        match (&value, &again) {
            (Value::Float(a), Value::Float(b)) => {
                prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{a} {b}")
            }
            _ => prop_assert_eq!(value, again),
        }
    }

    #[test]
    fn a_finite_set_reaches_each_of_its_values(
        distribution in any_distribution(),
        pick in 0.0..1.0f64,
    ) {
        if let Some(count) = distribution.cardinality() {
            let index = ((count as f64) * pick) as u64;
            let value = distribution.nth(index).unwrap();
            prop_assert!(distribution.contains(&value));
            prop_assert!(
                distribution.from_unit(distribution.to_unit(&value).unwrap()).same(&value)
            );
            prop_assert!(distribution.nth(count).is_none());
        }
    }
}

#[test]
fn steps_that_do_not_divide_the_range_end_below_the_upper_bound() {
    for (high, step) in [(1.0, 0.3), (0.3, 0.1)] {
        let distribution = float(0.0, high, Scale::Linear, Some(step));
        assert_eq!(distribution.cardinality(), Some(4), "{high} {step}");
    }
}

#[test]
fn values_of_a_grid_have_the_decimal_places_of_its_bounds_and_step() {
    let values = |low: f64, high: f64, step: f64| {
        let grid = float(low, high, Scale::Linear, Some(step));
        let values = (0..grid.cardinality().unwrap()).filter_map(|index| grid.nth(index));
        values.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(values(0.0, 1.0, 0.3), "0 0.3 0.6 0.9");
    assert_eq!(values(-0.05, 0.3, 0.1), "-0.05 0.05 0.15 0.25");
    assert_eq!(values(1e-4, 4e-4, 1e-4), "1e-4 2e-4 3e-4 4e-4");
    assert_eq!(values(0.0, 0.7, 0.1), "0 0.1 0.2 0.3 0.4 0.5 0.6 0.7");
    // A step without a short decimal form is left as it is.
    let third = 1.0 / 3.0;
    let grid = float(0.0, 1.0, Scale::Linear, Some(third));
    assert_eq!(grid.nth(2), Some(Value::Float(2.0 * third)));
}

#[test]
fn a_grid_that_was_stored_without_rounding_keeps_its_values() {
    let stored = r#"{"float":{"low":0.0,"high":1.0,"scale":"linear","step":0.3}}"#;
    let stored: Distribution = serde_json::from_str(stored).unwrap();
    assert_eq!(stored.nth(3), Some(Value::Float(0.8999999999999999)));
    let mut grid = float(0.0, 1.0, Scale::Linear, Some(0.3));
    assert_eq!(grid.nth(3), Some(Value::Float(0.9)));
    grid.keep_rounding(&stored);
    assert_eq!(grid, stored);
    // Another grid has the present rule.
    let mut wider = float(0.0, 2.0, Scale::Linear, Some(0.3));
    wider.keep_rounding(&stored);
    assert_eq!(wider.nth(3), Some(Value::Float(0.9)));
}

#[test]
fn a_step_that_floating_point_numbers_cannot_follow_is_refused() {
    for (low, high, step) in [
        (0.0, 1.0, 1e-300),
        (0.0, 1.0, 1e-15),
        (1e300, 1.1e300, 1e280),
        (-1e15, 0.0, 0.5),
        (0.0, 1.0, f64::MIN_POSITIVE),
    ] {
        let made = Distribution::float(low, high, Scale::Linear, Some(step));
        assert!(matches!(made, Err(DistributionError::TooFine { .. })), "{low} {high} {step}");
    }
    for (low, high, step) in [
        (0.0, 1.0, 1e-12),
        (-1.0, 1.0, 1e-13),
        (0.0, 1e300, 1e290),
        (5.0, 5.0, 1e-300),
        (0.0, 1e-300, 1e-310),
    ] {
        let distribution = float(low, high, Scale::Linear, Some(step));
        let last = distribution.cardinality().unwrap() - 1;
        for index in [0, 1, last / 3, last / 2, last - 1_u64.min(last), last] {
            let value = distribution.nth(index.min(last)).unwrap();
            assert!(distribution.contains(&value), "{value} of {distribution:?}");
        }
        assert_eq!(distribution.nth(last + 1), None);
    }
}

#[test]
fn contradictions_are_refused() {
    assert!(Distribution::float(1.0, 0.0, Scale::Linear, None).is_err());
    assert!(Distribution::float(0.0, 1.0, Scale::Log, None).is_err());
    assert!(Distribution::float(0.1, 1.0, Scale::Log, Some(0.1)).is_err());
    assert!(Distribution::float(f64::NAN, 1.0, Scale::Linear, None).is_err());
    assert!(Distribution::float(-1e308, 1e308, Scale::Linear, None).is_err());
    assert!(Distribution::int(1, 8, Scale::Linear, 0).is_err());
    assert!(Distribution::choice(vec![]).is_err());
    assert!(Distribution::choice(vec![Value::Int(1), Value::Float(1.0)]).is_err());
    assert!(Distribution::choice(vec![Value::Int(0), Value::Float(-0.0)]).is_err());
    assert!(Distribution::choice(vec![Value::Int(1), Value::Bool(true), "1".into()]).is_ok());
    assert!(Distribution::choice(vec![Value::Null, Value::Null]).is_err());
    assert!(Distribution::choice(vec![vec![1i64, 2].into(), vec![1.0, 2.0].into()]).is_err());
    assert!(Distribution::choice(vec![Value::Null, "null".into(), vec!["null"].into()]).is_ok());
}
