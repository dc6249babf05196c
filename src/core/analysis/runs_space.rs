//! The space that the parameters of tracked runs span: no study file says it, and figures and
//! importances compare runs in it.

use std::collections::BTreeMap;

use crate::study::outcome::TrialSummary;
use crate::study::params::Value;
use crate::study::space::{Dimension, Distribution, Scale, Space};

/// Fewest runs with a parameter: with fewer there is nothing to compare.
const FEWEST: usize = 2;
/// A parameter that all but one in this many runs lack is left out.
const RARE: usize = 10;
/// A range of positive numbers is logarithmic from this ratio of its ends on: two decades.
const WIDE: f64 = 100.0;
/// Up to this many choices are compared, however few runs have each.
const FEW_CHOICES: usize = 10;

/// The parameters in which the runs differ, by name. Numbers span a range, from the least to the
/// greatest; all other values are choices, and so are numbers beside them. Parameters that nearly
/// every run lacks are left out, and so are texts that identify runs, such as paths.
pub fn runs_space(outcomes: &[TrialSummary]) -> Space {
    let mut columns: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (name, value) in outcomes.iter().flat_map(|outcome| outcome.params.iter()) {
        columns.entry(name).or_default().push(value);
    }
    let dimensions = columns.into_iter().filter_map(|(name, values)| {
        let is_rare = values.len() < FEWEST || values.len() * RARE < outcomes.len();
        let distribution = distribution(&values).filter(|_| !is_rare)?;
        Some(Dimension::new(name, distribution))
    });
    Space::new(dimensions.collect()).expect("names are unique, and there are no conditions")
}

/// What these values are from; `None` if they are all the same, or identify their runs.
fn distribution(values: &[&Value]) -> Option<Distribution> {
    if values.iter().all(|value| value.same(values[0])) {
        return None;
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_number()).collect();
    match numbers {
        Some(numbers) => range(values, &numbers),
        None => choices(values),
    }
}

fn range(values: &[&Value], numbers: &[f64]) -> Option<Distribution> {
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let scale = if low > 0.0 && high / low >= WIDE { Scale::Log } else { Scale::Linear };
    let int = |value: &&Value| if let Value::Int(int) = value { Some(*int) } else { None };
    let integers: Option<Vec<i64>> = values.iter().map(int).collect();
    let ends = integers.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
    ends.and_then(|(low, high)| Distribution::int(low, high, scale, 1).ok())
        .or_else(|| Distribution::float(low, high, scale, None).ok())
}

/// Different values in the order of their kinds, numbers by size.
fn choices(values: &[&Value]) -> Option<Distribution> {
    let place = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(_) | Value::Float(_) => 2,
        Value::Text(_) => 3,
        Value::List(_) => 4,
    };
    let mut sorted: Vec<(i32, f64, String, &Value)> = values
        .iter()
        .map(|value| (place(value), value.as_number().unwrap_or(0.0), value.to_string(), *value))
        .collect();
    sorted.sort_by(|one, other| {
        let kinds = one.0.cmp(&other.0).then(one.1.total_cmp(&other.1));
        kinds.then_with(|| one.2.cmp(&other.2))
    });
    sorted.dedup_by(|one, other| one.3.same(other.3));
    let is_identity = sorted.len() > FEW_CHOICES && sorted.len() * 2 > values.len();
    let choices = sorted.into_iter().map(|(.., value)| value.clone()).collect();
    Distribution::choice(choices).ok().filter(|_| !is_identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::params::Params;
    use crate::study::time::Timestamp;
    use crate::study::trial::{TrialNumber, TrialState};

    fn run(number: u64, params: Params) -> TrialSummary {
        TrialSummary {
            number: TrialNumber(number),
            state: TrialState::Complete,
            value: Some(0.5),
            values: Vec::new(),
            violation: None,
            last_step: None,
            last_value: None,
            params,
            seconds: 1.0,
            created: Timestamp(0),
            finished: None,
            hidden: false,
        }
    }

    /// The space of runs that have these values of one parameter, as JSON.
    fn of(values: &str) -> Option<String> {
        let values: Vec<serde_json::Value> = serde_json::from_str(values).unwrap();
        let runs: Vec<TrialSummary> = (0..)
            .zip(&values)
            .map(|(number, value)| {
                let value = Value::from_json(value).unwrap();
                run(number, [("x".to_owned(), value)].into_iter().collect())
            })
            .collect();
        let space = runs_space(&runs);
        let dimension = space.dimension("x")?;
        Some(match &dimension.distribution {
            Distribution::Float { low, high, scale, .. } => format!("float {low} {high} {scale:?}"),
            Distribution::Int { low, high, scale, .. } => format!("int {low} {high} {scale:?}"),
            Distribution::Choice { choices } => {
                let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
                choices.join(",")
            }
        })
    }

    #[test]
    fn numbers_are_ranges_that_are_logarithmic_over_two_decades() {
        for (values, expected) in [
            ("[0.1, 0.5, 0.2]", "float 0.1 0.5 Linear"),
            ("[1e-4, 1e-2]", "float 0.0001 0.01 Log"),
            ("[0.0, 1e-2, 1.0]", "float 0 1 Linear"),
            ("[1, 0.5]", "float 0.5 1 Linear"),
            ("[16, 64, 32]", "int 16 64 Linear"),
            ("[1, 100]", "int 1 100 Log"),
            ("[-100, 100]", "int -100 100 Linear"),
            ("[1, 9007199254740993]", "float 1 9007199254740992 Log"),
        ] {
            assert_eq!(of(values).as_deref(), Some(expected), "{values}");
        }
        assert_eq!(of("[1e308, -1e308]"), None);
    }

    #[test]
    fn all_other_values_are_choices_with_null_among_them() {
        for (values, expected) in [
            (r#"["sgd", "adam", "sgd"]"#, "adam,sgd"),
            ("[true, false]", "false,true"),
            (r#"[10, null, 9, "auto", 9.0]"#, "null,9,10,auto"),
            ("[[64, 64], [32]]", "[32],[64,64]"),
        ] {
            assert_eq!(of(values).as_deref(), Some(expected), "{values}");
        }
    }

    #[test]
    fn what_is_constant_or_identifies_its_run_is_left_out() {
        assert_eq!(of("[0.1, 0.1]"), None);
        assert_eq!(of("[1, 1.0]"), None);
        assert_eq!(of("[null, null]"), None);
        assert_eq!(of("[0.1]"), None);
        assert_eq!(of("[]"), None);
        let paths = |runs: u32| {
            let paths: Vec<String> = (0..runs).map(|run| format!("\"out/{run}\"")).collect();
            of(&format!("[{}]", paths.join(",")))
        };
        assert_eq!((paths(10).is_some(), paths(11)), (true, None));
    }

    #[test]
    fn what_nearly_every_run_lacks_is_left_out() {
        let runs = |having: u64| -> Vec<TrialSummary> {
            let params = |number: u64| {
                let mut params = Params::new();
                if number < having {
                    params.insert("rare", i64::try_from(number).unwrap());
                }
                params
            };
            (0..40).map(|number| run(number, params(number))).collect()
        };
        assert!(runs_space(&runs(3)).dimensions().is_empty());
        assert_eq!(runs_space(&runs(4)).dimensions().len(), 1);
    }
}
