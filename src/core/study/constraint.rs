//! Constraints: on parameters before a run, and on metrics after it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

// Imported one by one: braces would count as a use of the whole module, which depends on
// specifications.
use crate::study::condition::Expression;
use crate::study::condition::Violation;
use crate::study::metric::{LastMetrics, Metrics};
use crate::study::params::{Params, Value};
use crate::study::suggestion::{nearest, quoted};

/// One `[[constraint]]` of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Constraint {
    /// Over parameters: a configuration that violates it is never proposed. A condition on an
    /// inactive parameter holds, unless it is false for every value of that parameter.
    Require(Expression),
    /// Over the last values of a trial's metrics: infeasible trials rank below all feasible ones. A
    /// metric that was not reported violates it.
    Limit(Expression),
    /// The same, and the first report that violates it ends the trial as pruned. A metric that was
    /// not reported yet violates it at the end only.
    #[serde(rename = "pruning_limit")]
    PruningLimit(Expression),
}

impl Constraint {
    /// The key of the study file: `require` or `limit`.
    pub fn key(&self) -> &'static str {
        match self {
            Constraint::Require(_) => "require",
            Constraint::Limit(_) | Constraint::PruningLimit(_) => "limit",
        }
    }

    /// Its condition.
    pub fn expression(&self) -> &Expression {
        match self {
            Constraint::Require(expression)
            | Constraint::Limit(expression)
            | Constraint::PruningLimit(expression) => expression,
        }
    }

    /// The condition of a limit.
    pub fn limit(&self) -> Option<&Expression> {
        match self {
            Constraint::Require(_) => None,
            Constraint::Limit(limit) | Constraint::PruningLimit(limit) => Some(limit),
        }
    }
}

impl fmt::Display for Constraint {
    /// As in the study file: `require = "width <= 4 * depth"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.key(), self.expression().text())?;
        match self {
            Constraint::PruningLimit(_) => f.write_str(", prune = true"),
            Constraint::Require(_) | Constraint::Limit(_) => Ok(()),
        }
    }
}

/// The first requirement that a configuration certainly violates, even if only some values are
/// known.
pub fn broken<'a>(constraints: &'a [Constraint], params: &Params) -> Option<&'a Constraint> {
    constraints.iter().find(|constraint| match constraint {
        Constraint::Require(expression) => matches!(
            expression.violation(|name| params.get(name).cloned()),
            Violation::By(over) if over > 0.0
        ),
        Constraint::Limit(_) | Constraint::PruningLimit(_) => false,
    })
}

/// The total violation of the limits by `metrics`: 0 if all hold, `None` without limits. Missing
/// and NaN metrics violate their limit by more than any number.
pub fn violation(constraints: &[Constraint], metrics: &Metrics) -> Option<f64> {
    let mut total = None;
    for constraint in constraints {
        if let Some(expression) = constraint.limit() {
            let over = match expression.violation(|name| metrics.get(name).map(Value::Float)) {
                Violation::By(over) => over,
                Violation::Unknown => f64::MAX,
            };
            total = Some(f64::min(total.unwrap_or(0.0) + over, f64::MAX));
        }
    }
    total
}

/// The first limit that ends a trial with these metrics, and by how much it is violated.
pub fn ends<'a>(constraints: &'a [Constraint], metrics: &Metrics) -> Option<(&'a Expression, f64)> {
    constraints.iter().find_map(|constraint| {
        let Constraint::PruningLimit(limit) = constraint else { return None };
        match limit.violation(|name| metrics.get(name).map(Value::Float)) {
            Violation::By(over) if over > 0.0 => Some((limit, over)),
            Violation::By(_) | Violation::Unknown => None,
        }
    })
}

/// One sentence on the limits that `metrics`, which are known by `rule`, violate: `latency_ms <= 20
/// is violated by 3.5`.
pub fn exceeded(constraints: &[Constraint], metrics: &Metrics, rule: LastMetrics) -> String {
    let missing_from = match rule {
        LastMetrics::OfLastReport => "is not in the trial's last report",
        LastMetrics::OfEach => "was never reported",
    };
    let mut said = Vec::new();
    for constraint in constraints {
        let Some(expression) = constraint.limit() else { continue };
        match expression.violation(|name| metrics.get(name).map(Value::Float)) {
            Violation::By(0.0) => {}
            Violation::By(over) if over < f64::MAX => said.push(format!(
                "`{}` is violated by {}",
                expression.text(),
                Value::Float(rounded(over))
            )),
            _ => {
                let missing = expression.names().filter_map(|name| match metrics.get(name) {
                    None => Some(format!("`{name}` {missing_from}")),
                    Some(value) => value.is_nan().then(|| format!("`{name}` is NaN")),
                });
                let missing: Vec<String> = missing.collect();
                let why = if missing.is_empty() { "" } else { ": " };
                said.push(format!(
                    "`{}` has no value{why}{}",
                    expression.text(),
                    missing.join(" and ")
                ));
            }
        }
    }
    said.join("; ")
}

/// A sentence on metrics that limits name and none of the trials with these `metrics` has reported:
/// probably misspelt. `None` if there are no such metrics.
pub fn never_reported<'a>(
    constraints: &[Constraint],
    metrics: impl Iterator<Item = &'a Metrics>,
) -> Option<String> {
    let reported: BTreeSet<&str> =
        metrics.flat_map(|metrics| metrics.iter().map(|(name, _)| name)).collect();
    let limits = constraints.iter().filter_map(Constraint::limit);
    let missing: BTreeSet<&str> =
        limits.flat_map(Expression::names).filter(|name| !reported.contains(name)).collect();
    let [name, others @ ..] = &missing.iter().copied().collect::<Vec<_>>()[..] else { return None };
    Some(match (others, nearest(name, reported)) {
        ([], Some(near)) => {
            format!("`{name}`, which a limit names, was never reported; did you mean `{near}`?")
        }
        ([], None) => format!("`{name}`, which a limit names, was never reported"),
        _ => format!("{}, which limits name, were never reported", quoted(missing)),
    })
}

/// By how much `metrics`, which are known by `rule`, violate the limits, if they do, with the
/// sentence on it.
pub fn broken_limits(
    constraints: &[Constraint],
    metrics: &Metrics,
    rule: LastMetrics,
) -> Option<(f64, String)> {
    let violation = violation(constraints, metrics).filter(|violation| *violation > 0.0)?;
    Some((violation, exceeded(constraints, metrics, rule)))
}

/// Rounded to four digits for messages.
fn rounded(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
