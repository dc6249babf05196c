//! Metric values: NaN and infinities included, ordered so that NaN is always worst.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};

/// Whether smaller or larger is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Smaller is better.
    Minimize,
    /// Larger is better.
    Maximize,
}

impl Direction {
    /// The word of the study file.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::Minimize => "minimize",
            Direction::Maximize => "maximize",
        }
    }

    /// The directions of a study with this one objective.
    pub fn alone(self) -> &'static [Direction] {
        match self {
            Direction::Minimize => &[Direction::Minimize],
            Direction::Maximize => &[Direction::Maximize],
        }
    }

    /// `value` as a loss, so that smaller is better.
    pub fn loss(self, value: f64) -> f64 {
        match self {
            Direction::Minimize => value,
            Direction::Maximize => -value,
        }
    }

    /// Whether `value` is strictly better than `than`; NaN is worse than everything.
    pub fn better(self, value: f64, than: f64) -> bool {
        Score::new(self, value) < Score::new(self, than)
    }
}

/// A value as a loss with a total order: the smallest is best, NaN is worst, `-0.0` equals `0.0`.
#[derive(Clone, Copy, Debug)]
pub struct Score(f64);

impl Score {
    /// The score of `value` under `direction`.
    pub fn new(direction: Direction, value: f64) -> Self {
        let loss = direction.loss(value);
        Score(if loss.is_nan() { f64::NAN.abs() } else { loss + 0.0 })
    }

    /// The loss; NaN stays NaN.
    pub fn loss(self) -> f64 {
        self.0
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        // All NaN are the same positive one, and all zeros positive: the total order of floats puts
        // NaN last.
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

/// A JSON number that may be NaN or infinite: those are the strings `"NaN"`, `"Infinity"` and
/// `"-Infinity"`. Reading also takes null and other spellings of the three.
///
/// Displayed and compared at six significant digits: a replay on another machine may differ in the
/// last digits.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&significant(self.0, 6))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits() || self.to_string() == other.to_string()
    }
}

impl Eq for Number {}

impl Number {
    /// Parses a printed number in any accepted spelling; `None` for other texts.
    pub fn from_json(json: &serde_json::Value) -> Option<Number> {
        match json {
            serde_json::Value::Number(number) => number.as_f64().map(Number),
            serde_json::Value::Null => Some(Number(f64::NAN)),
            serde_json::Value::String(text) => Number::from_text(text),
            _ => None,
        }
    }

    fn from_text(text: &str) -> Option<Number> {
        // Texts without digits can only spell `NaN`, `inf` or `Infinity`.
        let has_digits = text.contains(|char: char| char.is_ascii_digit());
        text.trim().parse().ok().filter(|_| !has_digits).map(Number)
    }

    /// The JSON form.
    pub fn to_json(self) -> serde_json::Value {
        match self.0 {
            number if number.is_finite() => number.into(),
            number if number.is_nan() => "NaN".into(),
            number => if number > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

#[expect(clippy::cast_precision_loss, reason = "as JSON numbers are converted")]
impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
    }

    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        Ok(Number(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(Number(number as f64))
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number(f64::NAN))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        Number::from_text(text)
            .ok_or_else(|| de::Error::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Named metric values of one report, in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Metrics(pub BTreeMap<String, f64>);

impl Metrics {
    /// The value of the metric called `name`.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Those of an object of JSON that have these names; the others are not looked at.
    ///
    /// # Errors
    /// It is no such object.
    pub fn named(json: &str, names: &BTreeSet<String>) -> serde_json::Result<Metrics> {
        let mut json = serde_json::Deserializer::from_str(json);
        let metrics = json.deserialize_map(MetricsVisitor { only: Some(names) })?;
        json.end().map(|()| metrics)
    }

    /// Names and values in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl PartialEq for Metrics {
    /// NaN equals NaN: this compares records, not quantities.
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|((name, value), (theirs, other))| {
                name == theirs && (value == other || (value.is_nan() && other.is_nan()))
            })
    }
}

/// Which values stand for a trial's metrics in limits, tables and filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastMetrics {
    /// Those of its last report alone: in studies that began before the other rule existed.
    #[default]
    OfLastReport,
    /// The last value of each metric by its step, from whichever report of the newest attempt that
    /// has one.
    OfEach,
}

impl LastMetrics {
    /// Replaces what is known of a trial's metrics by what a report says, except for those that
    /// are `late`: they have been reported at a later step.
    pub fn report(self, known: &mut Metrics, reported: &Metrics, late: &BTreeSet<String>) {
        match self {
            LastMetrics::OfLastReport => known.clone_from(reported),
            LastMetrics::OfEach => {
                let newer = reported.iter().filter(|(name, _)| !late.contains(*name));
                known.0.extend(newer.map(|(name, value)| (name.to_owned(), value)));
            }
        }
    }
}

impl FromIterator<(String, f64)> for Metrics {
    fn from_iter<I: IntoIterator<Item = (String, f64)>>(pairs: I) -> Self {
        Metrics(pairs.into_iter().collect())
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, &Number(*value))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MetricsVisitor { only: None })
    }
}

/// Reads metrics: all of them, or only those of some names, which takes half the time.
struct MetricsVisitor<'a> {
    only: Option<&'a BTreeSet<String>>,
}

impl<'de> Visitor<'de> for MetricsVisitor<'_> {
    type Value = Metrics;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Metrics, A::Error> {
        let mut metrics = BTreeMap::new();
        while let Some(Name(name)) = map.next_key()? {
            if self.only.is_none_or(|only| only.contains(&*name)) {
                metrics.insert(name.into_owned(), map.next_value::<Number>()?.0);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Metrics(metrics))
    }
}

/// A name, copied only if it has escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Serde for a field of type `f64` that may be NaN or infinite
/// (`#[serde(with = "crate::study::metric::lossless")]`).
pub mod lossless {
    use super::{Deserialize, Deserializer, Number, Serialize, Serializer};

    /// Writes as [`Number`].
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Number(*value).serialize(serializer)
    }

    /// Reads as [`Number`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Number::deserialize(deserializer).map(|number| number.0)
    }
}

/// A number with this many significant digits, without trailing zeros; `NaN`, `inf` and `-inf` by
/// these names.
pub fn significant(value: f64, digits: usize) -> String {
    if !value.is_finite() || value == 0.0 {
        return (value + 0.0).to_string();
    }
    // Rounding can carry into the next power of ten: the exponent is read after it.
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    if !(-3..7).contains(&exponent) {
        return format!("{}e{exponent}", without_trailing_zeros(mantissa));
    }
    let decimals = usize::try_from(i64::try_from(digits).unwrap_or(5) - 1 - exponent).unwrap_or(0);
    without_trailing_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_trailing_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The definition of the median of an even number of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Middle {
    /// The median.
    #[default]
    Median,
    /// The upper of the middle two: the rule of older versions.
    Upper,
}

impl Middle {
    /// The rule of `version`, given the version `since` which it is the median.
    pub fn of_version(version: u32, since: u32) -> Self {
        if version < since { Middle::Upper } else { Middle::Median }
    }

    /// The median of ascending values; `None` if empty.
    pub fn of(self, sorted: &[f64]) -> Option<f64> {
        match self {
            Middle::Median => median(sorted),
            Middle::Upper => sorted.get(sorted.len() / 2).copied(),
        }
    }
}

/// The median of sorted values, NaN last: of an even number the mean of the middle two, or the
/// first of them if the other is NaN; `None` if empty.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    // Half of each: their sum may overflow.
    Some(if lower == upper || upper.is_nan() { lower } else { lower / 2.0 + upper / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_and_compared_by_six_digits() {
        let numbers = [1.0 / 3.0, 1e-9, f64::NEG_INFINITY, f64::NAN, 1_234_567_890.0];
        let said = ["0.333333", "1e-9", "-inf", "NaN", "1.23457e9"];
        assert_eq!(numbers.map(|value| Number(value).to_string()), said);
        assert!(Number(f64::NAN) == Number(f64::NAN) && Number(0.1 + 0.2) == Number(0.3));
        assert!(Number(0.333_33) != Number(1.0 / 3.0));
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_two_in_the_middle() {
        assert_eq!(
            (median(&[]), median(&[3.0]), median(&[1.0, 4.0]), median(&[4.0, 2.0, 1.0])),
            (None, Some(3.0), Some(2.5), Some(2.0))
        );
        assert_eq!(
            (median(&[f64::MAX, f64::MAX]), median(&[1.0, f64::INFINITY])),
            (Some(f64::MAX), Some(f64::INFINITY))
        );
        assert_eq!(median(&[1.0, 2.0, f64::NAN, f64::NAN]), Some(2.0));
        // The older rule, for the replay of older journals.
        assert_eq!(
            (Middle::Upper.of(&[1.0, 4.0]), Middle::Median.of(&[1.0, 4.0])),
            (Some(4.0), Some(2.5))
        );
        assert_eq!(
            (Middle::of_version(2, 3), Middle::of_version(3, 3)),
            (Middle::Upper, Middle::Median)
        );
    }

    #[test]
    fn nan_ranks_worst_in_both_directions() {
        for direction in [Direction::Minimize, Direction::Maximize] {
            assert!(direction.better(f64::INFINITY, f64::NAN));
            assert!(direction.better(f64::NEG_INFINITY, f64::NAN));
            assert!(!direction.better(f64::NAN, f64::NAN));
        }
        assert!(Direction::Maximize.better(2.0, 1.0));
        assert_eq!(Score::new(Direction::Minimize, -0.0), Score::new(Direction::Minimize, 0.0));
    }

    #[test]
    fn metrics_with_nan_and_infinity_round_trip() {
        let metrics: Metrics =
            [("a".into(), f64::NAN), ("b".into(), f64::NEG_INFINITY), ("c".into(), 0.1)]
                .into_iter()
                .collect();
        let text = serde_json::to_string(&metrics).unwrap();
        assert_eq!(text, r#"{"a":"NaN","b":"-Infinity","c":0.1}"#);
        assert_eq!(serde_json::from_str::<Metrics>(&text).unwrap(), metrics);
    }

    #[test]
    fn only_the_named_metrics_are_read() {
        let names = BTreeSet::from(["a".to_owned(), "\u{fc} \"".to_owned(), "none".to_owned()]);
        let json = r#"{"a":null,"b":[1],"\u00fc \"":18446744073709551615,"c":"Infinity"}"#;
        let expected =
            [("a".to_owned(), f64::NAN), ("\u{fc} \"".to_owned(), 18446744073709551615.0)];
        assert_eq!(Metrics::named(json, &names).unwrap(), expected.into_iter().collect());
        for wrong in [r#"{"a":true}"#, r#"{"a":"1"}"#, r#"{"a":1}}"#, r#"{"b":}"#, "[1]"] {
            assert!(Metrics::named(wrong, &names).is_err(), "{wrong}");
        }
    }
}
