//! The set of values of a parameter, and its maps to numbers and to the unit interval.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::study::params::Value;
use crate::study::suggestion::quoted;

/// A linear or logarithmic axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Equal differences matter equally.
    #[default]
    Linear,
    /// Equal ratios matter equally.
    Log,
}

/// The set of values of a parameter. Bounds are inclusive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution {
    /// A real number; with `step`, only `low + k * step`.
    Float {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
        /// Axis.
        scale: Scale,
        /// Distance between adjacent values.
        step: Option<f64>,
        /// With `step`, the decimal places that values are rounded to: 3 * 0.3 is 0.9, not
        /// 0.8999999999999999. `None`: they are not rounded, as in studies that began before this
        /// rule, or need not be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decimals: Option<u8>,
    },
    /// An integer `low + k * step`.
    Int {
        /// Smallest value.
        low: i64,
        /// Largest value.
        high: i64,
        /// Axis.
        scale: Scale,
        /// Distance between adjacent values, at least 1.
        step: i64,
    },
    /// One of a list.
    Choice {
        /// The list; no two are equal.
        choices: Vec<Value>,
    },
}

/// The largest bound of integers.
const LARGEST_INTEGER: i64 = 1 << 52;

/// Why a distribution is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistributionError {
    /// A bound is NaN or infinite.
    #[error("the bounds must be finite numbers")]
    NotFinite,
    /// `low > high`.
    #[error("the lower bound `{low}` is above the upper bound `{high}`")]
    Reversed {
        /// Lower bound as given.
        low: f64,
        /// Upper bound as given.
        high: f64,
    },
    /// A logarithmic axis that reaches zero or below.
    #[error("a logarithmic axis needs a lower bound above 0, not `{low}`")]
    LogNeedsPositive {
        /// Lower bound as given.
        low: f64,
    },
    /// Both `log` and `step`.
    #[error("`log` and `step` cannot be given together")]
    LogAndStep,
    /// A step that is zero, negative or not finite.
    #[error("`step` must be above 0, not `{step}`")]
    Step {
        /// Step as given.
        step: f64,
    },
    /// A step too small to distinguish its values or to count them exactly.
    #[error(
        "`step` is `{step:e}`: in this range a step is at least `{least:e}`, or its values could \
         not be told apart"
    )]
    TooFine {
        /// Step as given.
        step: f64,
        /// The smallest valid step.
        least: f64,
    },
    /// A range of integers beyond those that are exact in any unit.
    #[error(
        "the range from `{low}` to `{high}` is too wide: integers lie between -{LARGEST_INTEGER} \
         and {LARGEST_INTEGER} (2^52)"
    )]
    IntegersTooWide {
        /// Lower bound as given.
        low: i64,
        /// Upper bound as given.
        high: i64,
    },
    /// A range too wide for its type.
    #[error("the range from `{low}` to `{high}` is too wide")]
    TooWide {
        /// Lower bound as given.
        low: f64,
        /// Upper bound as given.
        high: f64,
    },
    /// An empty list.
    #[error("the list of choices is empty")]
    NoChoices,
    /// Two equal entries.
    #[error("the choice `{choice}` appears twice")]
    Twice {
        /// The entry.
        choice: Value,
    },
}

/// The smallest step for values from `low` to `high`: a multiple of the distance between adjacent
/// floating-point numbers at the larger bound, so that values remain distinct after rounding, and
/// there are fewer than 2^48 of them.
fn least_step(low: f64, high: f64) -> f64 {
    let largest = low.abs().max(high.abs());
    64.0 * (largest - largest.next_down())
}

/// Number of steps between the bounds, with the rounding tolerance of [`Distribution::normalize`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "floor of a non-negative quotient, saturating"
)]
fn whole_steps(low: f64, high: f64, step: f64) -> u64 {
    let quotient = (high - low) / step;
    let mut steps = (quotient + (quotient * 1e-12 + 1e-9).min(FORGIVEN)).floor();
    // The quotient is rounded, too.
    if low + steps * step > high + step * FORGIVEN {
        steps -= 1.0;
    }
    steps as u64
}

/// The decimal places of the values of a grid; `None` if there are none, or so many that rounding
/// would take values off their step.
fn decimals(low: f64, high: f64, step: f64) -> Option<u8> {
    const MOST: u8 = 15;
    const FINEST: f64 = 1e-9;
    if step < low.abs().max(high.abs()) * FINEST {
        return None;
    }
    let is_exact = |decimals: &u8| [low, step].iter().all(|of| rounded(*of, *decimals) == *of);
    (0..=MOST).find(is_exact).filter(|decimals| *decimals > 0)
}

/// The number nearest to `value` with this many decimal places, if that is exact.
fn rounded(value: f64, decimals: u8) -> f64 {
    const EXACT_INTEGERS: f64 = 9e15;
    let power = 10_f64.powi(i32::from(decimals));
    let scaled = (value * power).round();
    if scaled.abs() < EXACT_INTEGERS { scaled / power } else { value }
}

/// Tolerance for values off a step, as a fraction of the step.
const FORGIVEN: f64 = 1e-6;

impl Distribution {
    /// A real number between `low` and `high`.
    pub fn float(
        low: f64,
        high: f64,
        scale: Scale,
        step: Option<f64>,
    ) -> Result<Self, DistributionError> {
        if !low.is_finite() || !high.is_finite() {
            return Err(DistributionError::NotFinite);
        }
        if low > high {
            return Err(DistributionError::Reversed { low, high });
        }
        if !(high - low).is_finite() {
            return Err(DistributionError::TooWide { low, high });
        }
        if scale == Scale::Log && low <= 0.0 {
            return Err(DistributionError::LogNeedsPositive { low });
        }
        match step {
            Some(_) if scale == Scale::Log => return Err(DistributionError::LogAndStep),
            Some(step) if !step.is_finite() || step <= 0.0 => {
                return Err(DistributionError::Step { step });
            }
            Some(step) if low < high && step < least_step(low, high) => {
                return Err(DistributionError::TooFine { step, least: least_step(low, high) });
            }
            _ => {}
        }
        let decimals = step.and_then(|step| decimals(low, high, step));
        Ok(Distribution::Float { low, high, scale, step, decimals })
    }

    /// Gives a grid the rounding of `known`, a stored distribution of the same values.
    pub fn keep_rounding(&mut self, known: &Distribution) {
        if let (
            Distribution::Float { low, high, step, decimals, .. },
            Distribution::Float {
                low: known_low,
                high: known_high,
                step: known_step,
                decimals: known_decimals,
                ..
            },
        ) = (self, known)
            && (*low, *high, *step) == (*known_low, *known_high, *known_step)
        {
            *decimals = *known_decimals;
        }
    }

    /// An integer between `low` and `high`.
    #[expect(clippy::cast_precision_loss, reason = "only for the message")]
    pub fn int(low: i64, high: i64, scale: Scale, step: i64) -> Result<Self, DistributionError> {
        if low > high {
            return Err(DistributionError::Reversed { low: low as f64, high: high as f64 });
        }
        if low < -LARGEST_INTEGER || high > LARGEST_INTEGER {
            return Err(DistributionError::IntegersTooWide { low, high });
        }
        if step < 1 {
            return Err(DistributionError::Step { step: step as f64 });
        }
        if scale == Scale::Log && low <= 0 {
            return Err(DistributionError::LogNeedsPositive { low: low as f64 });
        }
        if scale == Scale::Log && step != 1 {
            return Err(DistributionError::LogAndStep);
        }
        Ok(Distribution::Int { low, high, scale, step })
    }

    /// One of `choices`.
    pub fn choice(choices: Vec<Value>) -> Result<Self, DistributionError> {
        if choices.is_empty() {
            return Err(DistributionError::NoChoices);
        }
        let mut seen = BTreeSet::new();
        if let Some(choice) = choices.iter().find(|choice| !seen.insert(Meaning::of(choice))) {
            return Err(DistributionError::Twice { choice: choice.clone() });
        }
        Ok(Distribution::Choice { choices })
    }

    /// Whether `value` is valid (numbers on a step within rounding).
    pub fn contains(&self, value: &Value) -> bool {
        self.normalize(value).is_some()
    }

    /// `value` in this distribution's own type (`3` becomes `3.0` in a float range); `None` if it
    /// is outside.
    pub fn normalize(&self, value: &Value) -> Option<Value> {
        match self {
            Distribution::Float { low, high, step, .. } => {
                let number = value.as_number()?;
                if !(*low..=*high).contains(&number) {
                    return None;
                }
                let Some(step) = step else { return Some(Value::Float(number)) };
                let nearest = low + ((number - low) / step).round() * step;
                ((nearest - number).abs() <= step * FORGIVEN).then_some(Value::Float(number))
            }
            Distribution::Int { low, high, step, .. } => {
                let int = match value {
                    Value::Int(int) => *int,
                    #[expect(
                        clippy::cast_possible_truncation,
                        reason = "whole and inside the range of exact integers"
                    )]
                    Value::Float(float) if float.fract() == 0.0 && float.abs() < 4.5e15 => {
                        *float as i64
                    }
                    _ => return None,
                };
                ((*low..=*high).contains(&int) && (int - low) % step == 0)
                    .then_some(Value::Int(int))
            }
            Distribution::Choice { choices } => {
                choices.iter().find(|choice| choice.same(value)).cloned()
            }
        }
    }

    /// Number of values; `None` for a continuum.
    pub fn cardinality(&self) -> Option<u64> {
        match self {
            Distribution::Float { low, high, .. } if low == high => Some(1),
            Distribution::Float { low, high, step: Some(step), .. } => {
                Some(whole_steps(*low, *high, *step).saturating_add(1))
            }
            Distribution::Float { .. } => None,
            Distribution::Int { low, high, step, .. } => {
                Some((high - low).unsigned_abs() / step.unsigned_abs() + 1)
            }
            Distribution::Choice { choices } => Some(choices.len() as u64),
        }
    }

    /// The value with this index, from 0 to `cardinality - 1`; `None` outside and for a continuum.
    pub fn nth(&self, index: u64) -> Option<Value> {
        if index >= self.cardinality()? {
            return None;
        }
        match self {
            #[expect(clippy::cast_precision_loss, reason = "an index of a step")]
            Distribution::Float { low, high, step, decimals, .. } => {
                let value = low + step.unwrap_or(0.0) * index as f64;
                let value = decimals.map_or(value, |decimals| rounded(value, decimals));
                Some(Value::Float(value.min(*high)))
            }
            Distribution::Int { low, step, .. } => {
                Some(Value::Int(low + i64::try_from(index).ok()? * step))
            }
            Distribution::Choice { choices } => choices.get(usize::try_from(index).ok()?).cloned(),
        }
    }

    /// Optuna's internal representation: the number itself, or the choice's index.
    pub fn to_internal(&self, value: &Value) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "an index of a list")]
            Distribution::Choice { choices } => {
                choices.iter().position(|choice| choice.same(value)).map(|index| index as f64)
            }
            _ => value.as_number(),
        }
    }

    /// The value at `unit` of `[0, 1)`: the inverse distribution function, uniform on the (log or
    /// linear) axis; each value of a finite set has its own interval (of equal width on a linear
    /// axis).
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the range"
    )]
    pub fn from_unit(&self, unit: f64) -> Value {
        let unit = if unit.is_nan() { 0.5 } else { unit.clamp(0.0, 1.0) };
        match self {
            Distribution::Float { low, high, scale: Scale::Log, .. } => {
                Value::Float((low.ln() + (high.ln() - low.ln()) * unit).exp().clamp(*low, *high))
            }
            Distribution::Float { low, high, step: None, .. } => {
                Value::Float((low + (high - low) * unit).clamp(*low, *high))
            }
            Distribution::Int { low, high, scale: Scale::Log, .. } => {
                let (bottom, top) = ((*low as f64 - 0.5).ln(), (*high as f64 + 0.5).ln());
                Value::Int(
                    ((bottom + (top - bottom) * unit).exp().round() as i64).clamp(*low, *high),
                )
            }
            _ => {
                let count = self.cardinality().unwrap_or(1);
                let index = ((unit * count as f64) as u64).min(count - 1);
                self.nth(index).unwrap_or(Value::Int(0))
            }
        }
    }

    /// The position of `value` in `[0, 1]`: the middle of its interval for finite sets; `None` if
    /// it is invalid.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "indices of finite sets"
    )]
    pub fn to_unit(&self, value: &Value) -> Option<f64> {
        let value = self.normalize(value)?;
        match self {
            Distribution::Float { low, high, .. } if low == high => Some(0.5),
            Distribution::Float { low, high, scale: Scale::Log, .. } => Some(
                ((value.as_number()?.ln() - low.ln()) / (high.ln() - low.ln())).clamp(0.0, 1.0),
            ),
            Distribution::Float { low, high, step: None, .. } => {
                Some(((value.as_number()? - low) / (high - low)).clamp(0.0, 1.0))
            }
            Distribution::Float { low, step: Some(step), .. } => {
                let index = ((value.as_number()? - low) / step).round() as u64;
                Some((index as f64 + 0.5) / self.cardinality()? as f64)
            }
            Distribution::Int { low, high, scale: Scale::Log, .. } => {
                let (bottom, top) = ((*low as f64 - 0.5).ln(), (*high as f64 + 0.5).ln());
                Some((value.as_number()?.ln() - bottom) / (top - bottom))
            }
            Distribution::Int { low, step, .. } => {
                let index = (value.as_number()? - *low as f64) / *step as f64;
                Some((index + 0.5) / self.cardinality()? as f64)
            }
            Distribution::Choice { choices } => {
                Some((self.to_internal(&value)? + 0.5) / choices.len() as f64)
            }
        }
    }
}

impl fmt::Display for Distribution {
    /// A short description: "a number from 0 to 1".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Float { low, high, step, .. } => {
                write!(f, "a number from {} to {}", Value::Float(*low), Value::Float(*high))?;
                step.map_or(Ok(()), |step| write!(f, " in steps of {}", Value::Float(step)))
            }
            Distribution::Int { low, high, step, .. } => {
                write!(f, "an integer from {low} to {high}")?;
                if *step == 1 { Ok(()) } else { write!(f, " in steps of {step}") }
            }
            Distribution::Choice { choices } => {
                let words: Vec<String> = choices.iter().take(6).map(Value::shown).collect();
                let more = if choices.len() > 6 { ", ..." } else { "" };
                write!(f, "one of {}{more}", quoted(words.iter().map(String::as_str)))
            }
        }
    }
}

/// A value by its meaning, ordered: equal for values that are the [same](Value::same).
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Meaning<'a> {
    Flag(bool),
    /// The bits of a number; both zeros have those of `0.0`.
    Number(u64),
    Text(&'a str),
    List(Vec<Meaning<'a>>),
    Null,
}

impl<'a> Meaning<'a> {
    fn of(value: &'a Value) -> Self {
        match value {
            Value::Bool(flag) => Meaning::Flag(*flag),
            Value::Text(text) => Meaning::Text(text),
            Value::List(list) => Meaning::List(list.iter().map(Meaning::of).collect()),
            Value::Null => Meaning::Null,
            Value::Int(_) | Value::Float(_) => {
                Meaning::Number((value.as_number().unwrap_or_default() + 0.0).to_bits())
            }
        }
    }
}

#[cfg(test)]
mod tests;
