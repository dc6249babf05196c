//! How fields of stored data are written: defaults are omitted, absent numbers differ from NaN.

/// Whether a field that older versions lack is at its default, and therefore not written.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Whether a duration is zero, and therefore not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
pub(super) fn is_zero(micros: &i64) -> bool {
    *micros == 0
}

/// An optional number, any of its values NaN included.
pub(super) mod optional_number {
    use crate::study::metric::lossless;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Wrapped(#[serde(with = "lossless")] f64);

    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(Wrapped).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|wrapped| wrapped.0))
    }
}

/// A list of numbers, any of their values NaN included.
pub(super) mod numbers {
    use crate::study::metric::lossless;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Wrapped(#[serde(with = "lossless")] f64);

    pub fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|value| Wrapped(*value)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<Wrapped>::deserialize(deserializer)?.into_iter().map(|one| one.0).collect())
    }
}
