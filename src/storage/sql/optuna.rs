//! Distributions as Optuna 5 writes them, for the views that let Optuna open a store.

use serde_json::{Value as Json, json};

use crate::study::params::Value;
use crate::study::space::{Distribution, Scale};

/// Optuna's `distribution_json`.
pub(in crate::storage) fn distribution_json(distribution: &Distribution) -> Json {
    match distribution {
        Distribution::Float { low, scale, step, .. } => json!({
            "name": "FloatDistribution",
            "attributes": {
                "step": step,
                "low": low,
                "high": highest(distribution),
                "log": *scale == Scale::Log,
            },
        }),
        Distribution::Int { low, scale, step, .. } => json!({
            "name": "IntDistribution",
            "attributes": {
                "log": *scale == Scale::Log,
                "step": step,
                "low": low,
                "high": highest(distribution),
            },
        }),
        Distribution::Choice { choices } => json!({
            "name": "CategoricalDistribution",
            "attributes": { "choices": choices.iter().map(Value::to_json).collect::<Vec<_>>() },
        }),
    }
}

/// The highest value: Optuna warns of an upper bound that no step reaches, and lowers it
/// (`optuna.distributions._adjust_discrete_uniform_high`). It computes in decimals, so that the
/// last of the values by 0.3 is 0.9 and not 0.8999999999999999.
fn highest(distribution: &Distribution) -> Json {
    let last = || distribution.nth(distribution.cardinality()?.checked_sub(1)?);
    match (distribution, last()) {
        (Distribution::Float { low, high, step: Some(step), .. }, Some(Value::Float(last)))
            if low < high =>
        {
            let digits = decimals(*low).max(decimals(*step));
            let decimal = format!("{last:.digits$}").parse().unwrap_or(last);
            if decimal > *high { json!(high) } else { json!(decimal) }
        }
        (Distribution::Int { .. }, Some(Value::Int(last))) => json!(last),
        (Distribution::Float { high, .. }, _) => json!(high),
        (Distribution::Int { high, .. }, _) => json!(high),
        (Distribution::Choice { .. }, _) => Json::Null,
    }
}

/// Number of decimals of a number as it is written.
fn decimals(number: f64) -> usize {
    number.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_name_and_its_attributes() {
        let float = distribution_json(&Distribution::float(1e-5, 0.1, Scale::Log, None).unwrap());
        assert_eq!(
            float,
            json!({
                "name": "FloatDistribution",
                "attributes": { "step": null, "low": 1e-5, "high": 0.1, "log": true },
            })
        );
        let int = distribution_json(&Distribution::int(2, 8, Scale::Linear, 2).unwrap());
        assert_eq!(
            int,
            json!({
                "name": "IntDistribution",
                "attributes": { "log": false, "step": 2, "low": 2, "high": 8 },
            })
        );
        let highest = |distribution: Distribution| {
            distribution_json(&distribution)["attributes"]["high"].clone()
        };
        let by = |low, high, step| {
            highest(Distribution::float(low, high, Scale::Linear, Some(step)).unwrap())
        };
        assert_eq!(highest(Distribution::int(1, 100, Scale::Linear, 7).unwrap()), 99);
        assert_eq!(highest(Distribution::int(1, 64, Scale::Log, 1).unwrap()), 64);
        assert_eq!((by(0.0, 1.0, 0.3), by(0.1, 1.0, 0.3)), (json!(0.9), json!(1.0)));
        assert_eq!((by(0.0, 0.35, 0.1), by(-1.0, 0.0, 0.3)), (json!(0.3), json!(-0.1)));
        assert_eq!((by(1e-7, 3e-7, 1e-7), by(0.5, 0.5, 0.1)), (json!(3e-7), json!(0.5)));
        assert_eq!(by(0.0, 1e20, 3e19), json!(9e19));
        let choice = distribution_json(
            &Distribution::choice(vec!["a".into(), 1i64.into(), true.into()]).unwrap(),
        );
        assert_eq!(
            choice,
            json!({
                "name": "CategoricalDistribution", "attributes": { "choices": ["a", 1, true] },
            })
        );
    }
}
