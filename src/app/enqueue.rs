//! Validation of a user's configuration: it must be in the space, and not tried yet.

use super::AppError;
use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::constraint;
use crate::study::params::{Params, Value};
use crate::study::space::{Condition, Distribution, PointError, Scale, Space};
use crate::study::suggestion::nearest;
use crate::study::trial::TrialNumber;

/// Whether a configuration may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// A configuration that was tried is refused.
    Refused,
    /// The user asked to run it again.
    Wanted,
}

/// Checks whether a configuration may be enqueued.
///
/// # Errors
/// It is not in the space, violates a constraint, or was tried.
pub fn check(
    reader: &dyn StorageReader,
    study: &StudySummary,
    params: &Params,
    repeat: Repeat,
) -> Result<(), AppError> {
    let space = &study.spec.space;
    let mut problems: Vec<String> =
        space.problems(params).iter().map(|problem| in_words(problem, space)).collect();
    if let (true, Some(broken)) =
        (problems.is_empty(), constraint::broken(&study.spec.constraints, params))
    {
        problems.push(format!("it violates the constraint `{}`", broken.expression().text()));
    }
    if !problems.is_empty() {
        return Err(AppError::NoConfiguration { study: study.spec.name.clone(), problems });
    }
    match tried(reader, study, params)? {
        Some(trial) if repeat == Repeat::Refused => Err(AppError::Tried { trial }),
        _ => Ok(()),
    }
}

/// Removes from `params`, which started as another configuration, the parameters that the `given`
/// values make inactive.
pub fn drop_inactive(space: &Space, params: &mut Params, given: &Params) {
    let inactive: Vec<String> = space
        .problems(params)
        .into_iter()
        .filter_map(|problem| match problem {
            PointError::Inactive { name } if given.get(&name).is_none() => Some(name),
            _ => None,
        })
        .collect();
    for name in inactive {
        let _was_there = params.remove(&name);
    }
}

/// The value that a text is for a parameter.
///
/// # Errors
/// It is none of the parameter's; the sentence continues one that names the parameter.
pub fn typed(distribution: &Distribution, text: &str) -> Result<Value, String> {
    let text = text.trim();
    let (typed, kind) = match distribution {
        Distribution::Float { .. } => (text.parse().map(Value::Float).ok(), "not a number"),
        Distribution::Int { .. } => (text.parse().map(Value::Int).ok(), "not an integer"),
        Distribution::Choice { choices } => {
            let choice = choices.iter().find(|choice| choice.to_string() == text);
            // A list may be written with other spaces.
            let list = || Value::from_json(&serde_json::from_str(text).ok()?);
            let is_list = text.starts_with('[');
            let list = is_list.then(list).flatten().filter(|list| choices.contains(list));
            (choice.cloned().or(list), "none of its values")
        }
    };
    match typed {
        None if text.is_empty() => Err("has no value yet".to_owned()),
        None => Err(format!("`{}` is {kind}", one_line(text))),
        Some(value) => distribution
            .normalize(&value)
            .ok_or_else(|| format!("is not in {}", range(distribution))),
    }
}

/// The values of a distribution in a few words.
pub fn range(distribution: &Distribution) -> String {
    let log = |scale: &Scale| if *scale == Scale::Log { ", log" } else { "" };
    match distribution {
        Distribution::Float { low, high, scale, step, .. } => {
            let number = |number: f64| Value::Float(number).to_string();
            let step = step.map_or_else(String::new, |step| format!(", step {}", number(step)));
            format!("{} .. {}{}{step}", number(*low), number(*high), log(scale))
        }
        Distribution::Int { low, high, scale, step } => {
            let step = if *step == 1 { String::new() } else { format!(", step {step}") };
            format!("{low} .. {high}{}{step}", log(scale))
        }
        Distribution::Choice { choices } => {
            let words: Vec<String> =
                choices.iter().map(|choice| one_line(&choice.to_string())).collect();
            words.join(" | ")
        }
    }
}

fn in_words(problem: &PointError, space: &Space) -> String {
    let names = || space.dimensions().iter().map(|dimension| dimension.name.as_str());
    match problem {
        PointError::Unknown { name } => match nearest(name, names()) {
            Some(near) => format!("{problem}: did you mean `{near}`?"),
            None => problem.to_string(),
        },
        PointError::Outside { name, .. } => match space.dimension(name) {
            Some(dimension) => {
                format!("{problem}: it is {}", dimension.distribution)
            }
            None => problem.to_string(),
        },
        PointError::Inactive { name } => {
            match space.dimension(name).and_then(|dimension| dimension.when.as_ref()) {
                Some(when) => format!("`{name}` is not active here: it needs {}", conditions(when)),
                None => format!("`{name}` is not active here"),
            }
        }
        PointError::Missing { .. } => problem.to_string(),
    }
}

fn conditions(when: &Condition) -> String {
    let one = |(parent, values): &(String, Vec<Value>)| {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        format!("`{parent}` to be {}", values.join(" or "))
    };
    when.0.iter().map(one).collect::<Vec<_>>().join(" and ")
}

/// A trial with exactly these values, if all of them are given.
fn tried(
    reader: &dyn StorageReader,
    study: &StudySummary,
    params: &Params,
) -> Result<Option<TrialNumber>, StorageError> {
    let Ok(whole) = study.spec.space.assemble(params, |_, _| Err(())) else { return Ok(None) };
    let fingerprint = whole.fingerprint();
    let mut trials = reader.study_state(study.id)?.trials.into_iter();
    Ok(trials.find(|trial| trial.params.fingerprint() == fingerprint).map(|trial| trial.number))
}
