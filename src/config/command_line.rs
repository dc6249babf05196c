//! The command line of one configuration: values, flags, and what is left out with an inactive
//! parameter.
//!
//! An argument that names an inactive parameter is dropped. If the argument is nothing but the
//! placeholder, and the argument before it is an option (it begins with `-`, and has no `=` and no
//! placeholder), the option is dropped with it. If the study's `args_style` has flags, a boolean
//! after an option becomes that option alone, or nothing; so does one in the option's own argument,
//! `--flag={flag}`. Null is left out like an inactive parameter, except for `name={name}` in
//! Hydra's style. The argument `{args}` expands to all parameters that no other argument names.

mod advice;
mod argument;
mod role;
mod rules;

use std::collections::HashSet;

use super::placeholder::{ArgumentPiece, fill_in, names, pieces};
use crate::study::params::{Params, Value};
use crate::study::program::{ArgsRules, ArgsStyle, Inactive};
use crate::study::space::Space;
pub use advice::{unnamed_parameters, unstyled_flags};
use argument::{argument, text};
pub(super) use role::positional;
use role::{Role, flag, role};
pub(super) use rules::names_inactive;
pub use rules::{has_earlier_rules, keep_rules};

/// The placeholder for all parameters that no other argument names, unless a parameter has that
/// name.
pub const ARGS: &str = "args";

/// The command line of a trial of `params`; without `trial`, placeholders of its values stay
/// literal. So do unknown names: studies of earlier versions and of programs may contain them.
pub fn words(
    run: &[String],
    rules: ArgsRules,
    space: &Space,
    params: &Params,
    trial: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let knows = |name: &str| space.dimension(name).is_some() || params.get(name).is_some();
    let style = style(run, rules, knows);
    let mut words: Vec<String> = Vec::with_capacity(run.len());
    for (index, word) in run.iter().enumerate() {
        if is_args(word, knows) {
            let unnamed = all_unnamed(run, space, params);
            let style = style.unwrap_or(ArgsStyle::Dashes);
            words.extend(unnamed.flat_map(|(name, value)| argument(name, value, style)));
            continue;
        }
        let role = role(run, index, knows);
        // In Hydra's style null is a value.
        let has_null = style == Some(ArgsStyle::Hydra) && role == Role::Named;
        let is_absent = |name: &str| match params.get(name) {
            None => knows(name) && rules.inactive == Inactive::Dropped,
            Some(value) => *value == Value::Null && !has_null,
        };
        let of_flag = |name| params.get(name).filter(|_| style.is_some_and(ArgsStyle::has_flags));
        let flag = match (names(word, knows).any(is_absent), flag(word, role, knows)) {
            (true, _) => Some(false),
            (false, Some(name)) => match of_flag(name) {
                Some(Value::Bool(flag)) => Some(*flag),
                _ => None,
            },
            _ => None,
        };
        match (flag, role) {
            (None, _) => match (style, several(word, params, knows)) {
                (Some(ArgsStyle::Dashes), Some(list)) => {
                    words.extend(list.iter().map(Value::to_string))
                }
                _ => words.push(fill_in(word, knows, |name| match params.get(name) {
                    Some(value) => text(value, style),
                    None if knows(name) => String::new(),
                    None => trial(name).unwrap_or_else(|| format!("{{{name}}}")),
                })),
            },
            (Some(true), Role::OfOption) => {}
            (Some(true), _) => {
                words.extend(word.split_once('=').map(|(option, _)| option.to_owned()))
            }
            // The option is still there: it names no parameter, so that nothing drops it.
            (Some(false), Role::OfOption) => drop(words.pop()),
            (Some(false), _) => {}
        }
    }
    words
}

/// The style of the arguments: with `{args}`, `dashes` is the default.
fn style(
    run: &[String],
    rules: ArgsRules,
    knows: impl Fn(&str) -> bool + Copy,
) -> Option<ArgsStyle> {
    let has_args = run.iter().any(|word| is_args(word, knows));
    rules.style.or_else(|| has_args.then_some(ArgsStyle::Dashes))
}

/// Whether an argument stands for all parameters that no other one names.
fn is_args(word: &str, knows: impl Fn(&str) -> bool + Copy) -> bool {
    !knows(ARGS) && matches!(pieces(word, knows).as_slice(), [ArgumentPiece::Placeholder(ARGS, _)])
}

/// The parameters of a trial that no argument of its command names, `{args}` included: they are
/// only in the environment.
pub fn unnamed<'a>(
    run: &'a [String],
    space: &'a Space,
    params: &'a Params,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let knows = |name: &str| space.dimension(name).is_some() || params.get(name).is_some();
    let has_args = run.iter().any(|word| is_args(word, knows));
    all_unnamed(run, space, params).filter(move |_| !has_args)
}

/// The active parameters that no argument but `{args}` names, in the order of the space.
fn all_unnamed<'a>(
    run: &'a [String],
    space: &'a Space,
    params: &'a Params,
) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let knows = |name: &str| space.dimension(name).is_some() || params.get(name).is_some();
    let searched = space.dimensions().iter().map(|dimension| dimension.name.as_str());
    // A trial of an earlier space may have others.
    let others = params.iter().map(|(name, _)| name);
    let all = searched.chain(others.filter(|name| space.dimension(name).is_none()));
    let named: HashSet<&str> = run.iter().flat_map(|word| names(word, knows)).collect();
    all.filter(move |name| !named.contains(name))
        .filter_map(|name| params.get(name).map(|value| (name, value)))
}

/// The elements of a list, if the argument is nothing but its placeholder.
fn several<'a>(
    word: &str,
    params: &'a Params,
    knows: impl Fn(&str) -> bool,
) -> Option<&'a [Value]> {
    match pieces(word, knows).as_slice() {
        [ArgumentPiece::Placeholder(name, _)] => match params.get(name) {
            Some(Value::List(list)) => Some(list),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests;
