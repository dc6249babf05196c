//! Explore: the parameters with which a member continues from another's checkpoint.

use rand::RngExt as _;

use crate::study::constraint::{self, Constraint};
use crate::study::params::{Params, Value};
use crate::study::seed::StreamRng;
use crate::study::space::{Distribution, Space};

/// The factors of a perturbation (Jaderberg et al., section 4.1).
const FACTORS: [f64; 2] = [0.8, 1.2];

/// Draws before the donor's parameters are taken as they are, if constraints reject the others.
const DRAWS: usize = 25;

/// The donor's parameters, each drawn anew with probability `resample` and perturbed otherwise.
/// Parameters that become active are drawn.
pub(super) fn perturbed(
    space: &Space,
    constraints: &[Constraint],
    donor: &Params,
    resample: f64,
    rng: &mut StreamRng,
) -> Params {
    for _ in 0..DRAWS {
        let Ok(drawn) = space.assemble(&Params::new(), |dimension, _| {
            let (whether, unit): (f64, f64) = (rng.random(), rng.random());
            let distribution = &dimension.distribution;
            Ok::<_, std::convert::Infallible>(match donor.get(&dimension.name) {
                Some(value) if whether >= resample => neighbour(distribution, value, unit >= 0.5)
                    .unwrap_or_else(|| distribution.from_unit(unit)),
                _ => distribution.from_unit(unit),
            })
        });
        if constraint::broken(constraints, &drawn).is_none() {
            return drawn;
        }
    }
    donor.clone()
}

/// A value times 1.2 (`up`) or 0.8, inside the range: at least one step away on a grid. A choice
/// becomes its neighbour in the list. `None`: the space has changed, and no longer has the value.
pub(super) fn neighbour(distribution: &Distribution, value: &Value, up: bool) -> Option<Value> {
    let moved = match distribution {
        Distribution::Choice { choices } => {
            let at = choices.iter().position(|choice| choice.same(value))?;
            let next = if up { at.checked_add(1) } else { at.checked_sub(1) };
            next.and_then(|next| choices.get(next)).cloned()
        }
        Distribution::Float { low, high, step: None, .. } => {
            let product = value.as_number().map(|number| number * FACTORS[usize::from(up)]);
            product.map(|number| Value::Float(number.clamp(*low, *high)))
        }
        Distribution::Float { low, high, step: Some(step), .. } => {
            on_grid(value, *low, *high, *step, up).map(Value::Float)
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "integers of a space have at most 53 bits"
        )]
        Distribution::Int { low, high, step, .. } => {
            on_grid(value, *low as f64, *high as f64, *step as f64, up)
                .map(|number| Value::Int(number.round() as i64))
        }
    };
    moved.and_then(|moved| distribution.normalize(&moved)).or_else(|| distribution.normalize(value))
}

/// The point of a grid closest to the product, but another one than the present.
fn on_grid(value: &Value, low: f64, high: f64, step: f64, up: bool) -> Option<f64> {
    let number = value.as_number()?;
    let product = number * FACTORS[usize::from(up)];
    let present = ((number - low) / step).round();
    let nearest = ((product - low) / step).round();
    // The product of a negative number with 1.2 is smaller.
    let index = if nearest == present { present + (product - number).signum() } else { nearest };
    let last = ((high - low) / step + 1e-9).floor();
    Some((low + index.clamp(0.0, last) * step).min(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::seed::SeedTree;
    use crate::study::space::{Dimension, Scale};

    fn both(distribution: &Distribution, value: impl Into<Value>) -> [Value; 2] {
        let value = value.into();
        [false, true].map(|up| neighbour(distribution, &value, up).unwrap())
    }

    #[test]
    fn numbers_are_multiplied_within_their_range_and_choices_move_to_a_neighbour() {
        let float = Distribution::float(1e-4, 1.0, Scale::Log, None).unwrap();
        assert_eq!(both(&float, 0.1), [Value::Float(0.1 * 0.8), Value::Float(0.1 * 1.2)]);
        assert_eq!(both(&float, 0.9)[1], Value::Float(1.0));
        assert_eq!(both(&float, 1e-4)[0], Value::Float(1e-4));
        let int = Distribution::int(1, 64, Scale::Linear, 1).unwrap();
        assert_eq!(both(&int, 10), [Value::Int(8), Value::Int(12)]);
        assert_eq!(both(&int, 2), [Value::Int(1), Value::Int(3)], "at least one step");
        assert_eq!(both(&int, 1)[0], Value::Int(1));
        let grid = Distribution::float(0.0, 0.5, Scale::Linear, Some(0.1)).unwrap();
        assert_eq!(both(&grid, 0.2).map(|value| grid.to_unit(&value).is_some()), [true; 2]);
        assert_ne!(both(&grid, 0.2)[0], both(&grid, 0.2)[1]);
        let choices = ["a", "b", "c"].map(|text| Value::Text(text.to_owned()));
        let list = Distribution::choice(choices.to_vec()).unwrap();
        assert_eq!(both(&list, choices[1].clone()), [choices[0].clone(), choices[2].clone()]);
        assert_eq!(both(&list, choices[2].clone())[1], choices[2], "the end stays");
        let gone = Value::Text("d".to_owned());
        assert_eq!(neighbour(&list, &gone, true), None, "the space has changed");
        let negative = Distribution::int(-64, -1, Scale::Linear, 1).unwrap();
        assert_eq!(both(&negative, -2), [Value::Int(-1), Value::Int(-3)]);
    }

    #[test]
    fn every_perturbation_is_a_point_of_the_space_that_keeps_the_constraints() {
        let space = Space::new(vec![
            Dimension::new("a", Distribution::float(0.1, 1.0, Scale::Linear, None).unwrap()),
            Dimension::new("n", Distribution::int(1, 9, Scale::Log, 1).unwrap()),
        ])
        .unwrap();
        let donor: Params =
            [("a", Value::Float(0.5)), ("n", Value::Int(4))].into_iter().map(own).collect();
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..200 {
            let mut rng = SeedTree::new(1).stream(&format!("{number}"));
            let point = perturbed(&space, &[], &donor, 0.25, &mut rng);
            assert_eq!(space.check(&point), Ok(()));
            seen.insert(point.get("n").unwrap().to_string());
        }
        assert!(seen.len() > 4, "some are drawn anew: {seen:?}");
        let mut rng = SeedTree::new(1).stream("no resampling");
        let point = perturbed(&space, &[], &donor, 0.0, &mut rng);
        assert!([0.4, 0.6].contains(&point.get("a").unwrap().as_number().unwrap()));
    }

    fn own((name, value): (&str, Value)) -> (String, Value) {
        (name.to_owned(), value)
    }
}
