//! Notes on commands that may not pass their parameters as their programs expect them.

use std::collections::HashSet;

use super::role::{flag, role};
use super::{is_args, style};
use crate::config::placeholder::names;
use crate::study::params::{VARIABLE, Value, variable};
use crate::study::program::Program;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;
use crate::study::suggestion::quoted;

/// Booleans passed as `true` and `false` where the program may expect a flag: no style is given,
/// and an option announces them.
pub fn unstyled_flags(spec: &StudySpec) -> Vec<&str> {
    let Program::Command { run, args, .. } = &spec.program else { return Vec::new() };
    let knows = |name: &str| spec.space.dimension(name).is_some();
    if style(run, *args, knows).is_some() {
        return Vec::new();
    }
    let is_boolean =
        |name: &&str| match spec.space.dimension(name).map(|dimension| &dimension.distribution) {
            Some(Distribution::Choice { choices }) => {
                choices.iter().all(|choice| matches!(choice, Value::Bool(_)))
            }
            _ => false,
        };
    (0..run.len())
        .filter_map(|index| flag(&run[index], role(run, index, knows), knows))
        .filter(is_boolean)
        .collect()
}

/// A note on searched parameters that the command does not name, by placeholder or variable.
pub fn unnamed_parameters(spec: &StudySpec) -> Option<String> {
    let Program::Command { run, .. } = &spec.program else { return None };
    let knows = |name: &str| spec.space.dimension(name).is_some();
    if run.iter().any(|word| is_args(word, knows)) {
        return None;
    }
    if run.iter().any(|word| word.contains("HPSEARCH_PARAMS")) {
        return None;
    }
    let named: HashSet<&str> = run.iter().flat_map(|word| names(word, knows)).collect();
    let has_variables = run.iter().any(|word| word.contains(VARIABLE));
    let is_unnamed = |name: &&str| {
        let variable = variable(name);
        !(named.contains(name) || has_variables && run.iter().any(|word| word.contains(&variable)))
    };
    let names = spec.space.dimensions().iter().map(|dimension| dimension.name.as_str());
    let unnamed: Vec<&str> = names.filter(is_unnamed).collect();
    let (finds, variables) = match unnamed.as_slice() {
        [] => return None,
        [name] => ("it", variable(name)),
        _ => ("them", "variables such as ".to_owned() + &variable(unnamed[0])),
    };
    Some(format!(
        "no argument of `run` names {}: the program finds {finds} in the file HPSEARCH_PARAMS, \
         and in {variables}",
        quoted(unnamed)
    ))
}
