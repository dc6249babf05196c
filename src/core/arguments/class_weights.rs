//! `class_weights`: the weight of each label in the loss.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Weights of the labels in the training loss; stored as the word `balanced` or as a list.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassWeights {
    /// Inversely proportional to the labels' frequencies: scikit-learn's
    /// `compute_class_weight("balanced")`.
    Balanced,
    /// These, in the order of the labels' ids.
    Given(Vec<f64>),
}

impl Serialize for ClassWeights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Balanced => serializer.serialize_str("balanced"),
            Self::Given(weights) => weights.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ClassWeights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.as_str() == Some("balanced") {
            return Ok(Self::Balanced);
        }
        let weights = value.as_array().and_then(|list| list.iter().map(Value::as_f64).collect());
        weights
            .map(Self::Given)
            .ok_or_else(|| D::Error::custom(format!("class weights cannot be `{value}`")))
    }
}
