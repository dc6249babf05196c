//! Metric values: NaN and infinities included, ordered so that NaN is always worst.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

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
    if let Some(decimals) = decimals(value, digits) {
        return without_trailing_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    format!("{}e{exponent}", without_trailing_zeros(mantissa))
}

/// How the values of a column are written: with five significant digits, or as many more, up to
/// eight, as tell neighbours in their order apart. What is not 1 is never written as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnDigits {
    significant: usize,
    /// The decimals of all values, if five digits do not tell some apart.
    decimals: Option<usize>,
}

impl ColumnDigits {
    /// The usual number of significant digits.
    const USUAL: usize = 5;
    /// Neighbours that differ later look the same: they do by rounding errors.
    const MOST: usize = 8;
    /// Values much larger than those that need the decimals have fewer of them.
    const WIDEST: usize = 10;

    /// Those of a column with these values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let pairs = || values.iter().copied().zip(values.iter().copied().skip(1));
        let differ = |(lower, upper): &(f64, f64), count: usize| {
            significant(*lower, count) != significant(*upper, count)
        };
        let tells_all_apart = |digits: &ColumnDigits| {
            let mut meant = pairs().filter(|pair| differ(pair, Self::MOST));
            meant.all(|(lower, upper)| digits.text(lower) != digits.text(upper))
        };
        let with = |count: usize| {
            let alike = pairs().filter(|(lower, upper)| one(*lower) == one(*upper));
            let decimals = alike.filter(|pair| differ(pair, count)).map(|(lower, upper)| {
                decimals(lower, count).max(decimals(upper, count)).unwrap_or(0)
            });
            ColumnDigits { significant: count, decimals: Some(decimals.max().unwrap_or(0)) }
        };
        let usual = ColumnDigits::default();
        if tells_all_apart(&usual) {
            return usual;
        }
        // Rounding does not nest: what five digits tell apart, six may not.
        let more = (Self::USUAL + 1..=Self::MOST).map(with);
        more.clone().find(tells_all_apart).unwrap_or_else(|| with(Self::MOST))
    }

    /// A value of the column.
    pub fn text(self, value: f64) -> String {
        let usual = one(value);
        let exponent = exponent(value, self.significant);
        match self.decimals {
            Some(_) if !value.is_finite() => usual,
            Some(decimals) if value == 0.0 => format!("{:.decimals$}", 0.0),
            Some(decimals) if FIXED_POINT.contains(&exponent) => {
                let room = i64::try_from(Self::WIDEST).unwrap_or(10) - 1 - exponent;
                let room = usize::try_from(room).unwrap_or(0);
                let own = usual.split_once('.').map_or(0, |(_, decimals)| decimals.len());
                let text = format!("{value:.*}", decimals.min(room).max(own));
                if is_said_to_be_one(value, &text) { usual } else { text }
            }
            Some(_) => significant(value, self.significant),
            None => usual,
        }
    }
}

impl Default for ColumnDigits {
    /// Those of one value alone.
    fn default() -> Self {
        ColumnDigits { significant: Self::USUAL, decimals: None }
    }
}

/// A value alone.
fn one(value: f64) -> String {
    // An `f64` is exact with 17 digits.
    let texts = (ColumnDigits::USUAL..=17).map(|digits| significant(value, digits));
    let mut texts = texts.skip_while(|text| is_said_to_be_one(value, text));
    texts.next().unwrap_or_else(|| value.to_string())
}

fn is_said_to_be_one(value: f64, text: &str) -> bool {
    value.abs() != 1.0 && text.parse().is_ok_and(|said: f64| said.abs() == 1.0)
}

/// The decimals of a number with this many significant digits; `None` if it has an exponent.
fn decimals(value: f64, digits: usize) -> Option<usize> {
    let exponent = exponent(value, digits);
    let decimals = i64::try_from(digits).unwrap_or(5) - 1 - exponent;
    FIXED_POINT.contains(&exponent).then(|| usize::try_from(decimals).unwrap_or(0))
}

/// The power of ten of a number that is rounded to this many digits.
fn exponent(value: f64, digits: usize) -> i64 {
    // Rounding can carry into the next power of ten: the exponent is read after it.
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Numbers of these powers of ten are written without an exponent.
const FIXED_POINT: Range<i64> = -3..7;

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
    fn values_of_a_column_that_differ_look_different() {
        let texts = |values: &[f64]| {
            let digits = ColumnDigits::of(values.iter().copied());
            values.iter().map(|value| digits.text(*value)).collect::<Vec<_>>()
        };
        // As alone, where that tells them apart.
        assert_eq!(texts(&[0.184_213_7, 12.0, 0.5, 0.0]), ["0.18421", "12", "0.5", "0"]);
        assert_eq!(texts(&[0.25, 0.25, f64::NAN, 1.0]), ["0.25", "0.25", "NaN", "1"]);
        // With equal decimals otherwise.
        assert_eq!(texts(&[0.912_341, 0.912_342, 0.5]), ["0.912341", "0.912342", "0.500000"]);
        assert_eq!(texts(&[0.912_341, 0.912_342, 0.0]), ["0.912341", "0.912342", "0.000000"]);
        assert_eq!(texts(&[-0.912_341, -0.912_342]), ["-0.912341", "-0.912342"]);
        assert_eq!(texts(&[123_456.7, 123_456.8]), ["123456.7", "123456.8"]);
        assert_eq!(texts(&[9_999_999.6, 9_999_999.7]), ["9999999.6", "9999999.7"]);
        assert_eq!(texts(&[1.234_567e-9, 1.234_568e-9]), ["1.234567e-9", "1.234568e-9"]);
        // What five digits tell apart stays so.
        assert_eq!(
            texts(&[0.912_344_9, 0.912_345_1, 0.500_000_1, 0.500_001_2]),
            ["0.9123449", "0.9123451", "0.5000001", "0.5000012"]
        );
        assert_eq!(
            texts(&[100_004_910.0, 100_005_370.0, 100_007_210.0]),
            ["1.000049e8", "1.000054e8", "1.000072e8"]
        );
        // Rounding errors are none of their differences.
        assert_eq!(texts(&[0.1 + 0.2, 0.3]), ["0.3", "0.3"]);
        // Large numbers beside small ones, and small ones beside large ones.
        assert_eq!(
            texts(&[0.912_341_11, 0.912_341_12, 123_456.0, 0.001_234_56]),
            ["0.91234111", "0.91234112", "123456.0000", "0.00123456"]
        );
        assert_eq!(texts(&[20.000_1, 20.000_2, 0.012_345_6]), ["20.0001", "20.0002", "0.012346"]);
    }

    #[test]
    fn what_is_not_one_is_not_written_as_one() {
        let alone = |value: f64| ColumnDigits::of([value]).text(value);
        assert_eq!(alone(0.999_999_96), "0.99999996");
        assert_eq!(alone(-1.000_000_01), "-1.00000001");
        assert_eq!(alone(1.0 - f64::EPSILON), "0.9999999999999998");
        assert_eq!([1.0, 0.999_96, 1e-300].map(alone), ["1", "0.99996", "1e-300"]);
        let digits = ColumnDigits::of([0.999_999_96, 0.912_341, 0.912_342]);
        let said = [0.999_999_96, 1.0, 0.912_341].map(|value| digits.text(value));
        assert_eq!(said, ["0.99999996", "1.000000", "0.912341"]);
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
