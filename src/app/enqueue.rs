//! Validation of a user's configuration: it must be in the space, and not tried yet.

use super::AppError;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::constraint;
use crate::study::params::{Params, Value};
use crate::study::space::{Condition, PointError, Space};
use crate::study::suggestion::nearest;
use crate::study::trial::TrialNumber;

/// Whether a configuration may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// No.
    Refused,
    /// Yes, explicitly.
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
        space.problems(params).iter().map(|problem| told(problem, space)).collect();
    if let (true, Some(broken)) =
        (problems.is_empty(), constraint::broken(&study.spec.constraints, params))
    {
        problems.push(format!("it breaks the constraint `{}`", broken.expression().text()));
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

fn told(problem: &PointError, space: &Space) -> String {
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
    let mut trials = reader.view(study.id)?.trials.into_iter();
    Ok(trials.find(|trial| trial.params.fingerprint() == fingerprint).map(|trial| trial.number))
}
