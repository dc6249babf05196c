//! Conditions on configurations before they run, and on what trials measured afterwards.

use std::fmt;

use serde::{Deserialize, Serialize};

// One by one: in braces they would be uses of the whole room, which knows specifications.
use crate::study::condition::Expression;
use crate::study::condition::Violation;
use crate::study::metric::Metrics;
use crate::study::params::{Params, Value};

/// One `[[constraint]]` of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Constraint {
    /// Over parameters: a configuration that breaks it is never proposed. One whose condition names
    /// a parameter that is inactive keeps it, unless the rest of the condition is false whatever
    /// that parameter were.
    Require(Expression),
    /// Over metrics of a trial's last report: a trial that breaks it ranks below all that keep it.
    /// A metric that was not reported breaks it.
    Limit(Expression),
}

impl Constraint {
    /// The key of the study file: `require` or `limit`.
    pub fn key(&self) -> &'static str {
        match self {
            Constraint::Require(_) => "require",
            Constraint::Limit(_) => "limit",
        }
    }

    /// Its condition.
    pub fn expression(&self) -> &Expression {
        match self {
            Constraint::Require(expression) | Constraint::Limit(expression) => expression,
        }
    }
}

impl fmt::Display for Constraint {
    /// As the study file has it: `require = "width <= 4 * depth"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.key(), self.expression().text())
    }
}

/// What is certainly wrong with a configuration, also with one of which only some values are known:
/// the first requirement that it breaks.
pub fn broken<'a>(constraints: &'a [Constraint], params: &Params) -> Option<&'a Constraint> {
    constraints.iter().find(|constraint| match constraint {
        Constraint::Require(expression) => matches!(expression.violation(|name| params.get(name).cloned()), Violation::By(over) if over > 0.0),
        Constraint::Limit(_) => false,
    })
}

/// By how much `metrics` break the limits, all together: 0 where they keep them, `None` where there
/// are none. What was not reported, or is NaN, breaks its limit by more than any number.
pub fn violation(constraints: &[Constraint], metrics: &Metrics) -> Option<f64> {
    let mut total = None;
    for constraint in constraints {
        if let Constraint::Limit(expression) = constraint {
            let over = match expression.violation(|name| metrics.get(name).map(Value::Float)) {
                Violation::By(over) => over,
                Violation::Unknown => f64::MAX,
            };
            total = Some(f64::min(total.unwrap_or(0.0) + over, f64::MAX));
        }
    }
    total
}

/// One sentence on the limits that `metrics` break: `latency_ms <= 20 is violated by 3.5`.
pub fn exceeded(constraints: &[Constraint], metrics: &Metrics) -> String {
    let mut said = Vec::new();
    for constraint in constraints {
        let Constraint::Limit(expression) = constraint else { continue };
        match expression.violation(|name| metrics.get(name).map(Value::Float)) {
            Violation::By(0.0) => {}
            Violation::By(over) if over < f64::MAX => said.push(format!(
                "`{}` is violated by {}",
                expression.text(),
                Value::Float(rounded(over))
            )),
            _ => {
                let missing: Vec<String> = expression
                    .names()
                    .filter(|name| metrics.get(name).is_none_or(f64::is_nan))
                    .map(|name| format!("`{name}`"))
                    .collect();
                let what = if missing.is_empty() {
                    "has no value".to_owned()
                } else {
                    format!("has no value: {} was not reported", missing.join(", "))
                };
                said.push(format!("`{}` {what}", expression.text()));
            }
        }
    }
    said.join("; ")
}

/// Four digits, for people.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
