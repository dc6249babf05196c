//! Distributions as Optuna 5 writes them, for the views that let Optuna open a store.

use serde_json::{Value as Json, json};

use crate::study::params::Value;
use crate::study::space::{Distribution, Scale};

/// Optuna's `distribution_json`.
pub(in crate::storage) fn distribution_json(distribution: &Distribution) -> Json {
    match distribution {
        Distribution::Float { low, high, scale, step } => json!({
            "name": "FloatDistribution",
            "attributes": { "step": step, "low": low, "high": high, "log": *scale == Scale::Log },
        }),
        Distribution::Int { low, high, scale, step } => json!({
            "name": "IntDistribution",
            "attributes": { "log": *scale == Scale::Log, "step": step, "low": low, "high": high },
        }),
        Distribution::Choice { choices } => json!({
            "name": "CategoricalDistribution",
            "attributes": { "choices": choices.iter().map(Value::to_json).collect::<Vec<_>>() },
        }),
    }
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
