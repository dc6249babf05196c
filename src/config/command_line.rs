//! The command line of one configuration: values, flags, and what is left out with an inactive
//! parameter.
//!
//! An argument that names an inactive parameter is dropped. If the argument is nothing but the
//! placeholder, and the argument before it is an option (it begins with `-`, and has no `=` and no
//! placeholder), the option is dropped with it. If the study's `args_style` has flags, a boolean
//! after an option becomes that option alone, or nothing; so does one in the option's own argument,
//! `--flag={flag}`. Null is left out like an inactive parameter, except for `name={name}` in
//! Hydra's style. The argument `{args}` expands to all parameters that no other argument names.

use std::collections::HashSet;
use std::path::Path;

use super::placeholder::{ArgumentPiece, fill_in, pieces};
use crate::study::params::{Params, VARIABLE, Value, variable};
use crate::study::program::{ArgsRules, ArgsStyle, Inactive, Program};
use crate::study::space::{Distribution, Space};
use crate::study::spec::StudySpec;
use crate::study::suggestion::quoted as quoted_names;
use crate::study::trial::TrialNumber;

/// The placeholder for all parameters that no other argument names, unless a parameter has that
/// name.
pub const ARGS: &str = "args";

/// Values of a trial that a command can name, unless a parameter has that name.
#[derive(Clone, Copy, Debug)]
pub struct TrialValues<'a> {
    /// `{trial}`: its number.
    pub number: TrialNumber,
    /// `{trial_dir}` and `{checkpoint_dir}`: its own directory.
    pub directory: &'a Path,
    /// `{seed}`: its seed.
    pub seed: u64,
    /// Values of its group of devices, if it has one.
    pub group: Option<GroupValues<'a>>,
}

/// Values of a group of devices that a launcher of its processes takes.
#[derive(Clone, Copy, Debug)]
pub struct GroupValues<'a> {
    /// `{world_size}`: number of devices, and so of processes.
    pub world_size: usize,
    /// `{master_addr}`: the address at which they meet.
    pub master_addr: &'a str,
    /// `{master_port}`: the port at which they meet.
    pub master_port: u16,
    /// `{nodes}`: number of machines.
    pub nodes: usize,
    /// `{node_rank}`: the rank of this machine, from 0.
    pub node_rank: usize,
}

impl GroupValues<'_> {
    /// The names.
    pub const NAMES: [&'static str; 5] =
        ["world_size", "master_addr", "master_port", "nodes", "node_rank"];
}

impl TrialValues<'_> {
    /// The names, without those of groups.
    pub const NAMES: [&'static str; 4] = ["trial", "trial_dir", "checkpoint_dir", "seed"];

    fn get(&self, name: &str) -> Option<String> {
        match name {
            "trial" => Some(self.number.to_string()),
            "trial_dir" | "checkpoint_dir" => Some(self.directory.display().to_string()),
            "seed" => Some(self.seed.to_string()),
            "world_size" => Some(self.group?.world_size.to_string()),
            "master_addr" => Some(self.group?.master_addr.to_owned()),
            "master_port" => Some(self.group?.master_port.to_string()),
            "nodes" => Some(self.group?.nodes.to_string()),
            "node_rank" => Some(self.group?.node_rank.to_string()),
            _ => None,
        }
    }
}

/// The command line of a trial of `params`; without `trial`, placeholders of its values stay
/// literal. So do unknown names: studies of earlier versions and of programs may contain them.
pub fn words(
    run: &[String],
    rules: ArgsRules,
    space: &Space,
    params: &Params,
    trial: Option<TrialValues<'_>>,
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
                    None => trial
                        .and_then(|trial| trial.get(name))
                        .unwrap_or_else(|| format!("{{{name}}}")),
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

/// A path with placeholders for parameters and values of the trial.
pub fn path(text: &str, space: &Space, params: &Params, trial: TrialValues<'_>) -> String {
    let knows = |name: &str| space.dimension(name).is_some();
    fill_in(text, knows, |name| match params.get(name) {
        Some(value) => value.to_string(),
        None => trial.get(name).unwrap_or_default(),
    })
}

/// Whether a path contains a placeholder, so that each trial has its own.
pub fn names_something(text: &str, space: &Space) -> bool {
    names(text, |name| space.dimension(name).is_some()).next().is_some()
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

/// The arguments for one parameter in `{args}`.
fn argument(name: &str, value: &Value, style: ArgsStyle) -> Vec<String> {
    match (style, value) {
        (ArgsStyle::Hydra, value) => vec![format!("{name}={}", of_hydra(value))],
        (_, Value::Bool(true)) => vec![format!("--{name}")],
        (_, Value::Bool(false) | Value::Null) => Vec::new(),
        (ArgsStyle::Dashes, Value::List(list)) => {
            std::iter::once(format!("--{name}")).chain(list.iter().map(Value::to_string)).collect()
        }
        // A value that begins with `-` would be taken for an option: argparse does so even with
        // `-1e-05`.
        (ArgsStyle::Dashes, value) if !value.to_string().starts_with('-') => {
            vec![format!("--{name}"), value.to_string()]
        }
        (_, value) => vec![format!("--{name}={}", text(value, Some(style)))],
    }
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

/// A value inside an argument.
fn text(value: &Value, style: Option<ArgsStyle>) -> String {
    match (value, style) {
        (Value::List(list), Some(ArgsStyle::Dashes | ArgsStyle::Equals)) => {
            list.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
        }
        (Value::List(_), Some(ArgsStyle::Hydra)) => of_hydra(value),
        _ => value.to_string(),
    }
}

/// A value in Hydra's override grammar (<https://hydra.cc/docs/advanced/override_grammar/basic/>):
/// strings that would be parsed as something else are quoted.
fn of_hydra(value: &Value) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "_-/.+%@?|".contains(char);
    match value {
        Value::Text(text) => {
            let is_word =
                ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
            let is_other = is_word || text.parse::<f64>().is_ok() || text.is_empty();
            if !is_other && text.chars().all(is_plain) {
                return text.clone();
            }
            // Only backslashes before a quote are escapes.
            let mut quoted = String::from("'");
            let mut backslashes = 0;
            for char in text.chars().chain(std::iter::once('\'')) {
                if char == '\'' {
                    quoted.extend(std::iter::repeat_n('\\', backslashes + 1));
                }
                backslashes = if char == '\\' { backslashes + 1 } else { 0 };
                quoted.push(char);
            }
            let end = quoted.len() - 2;
            quoted.remove(end);
            quoted
        }
        Value::List(list) => {
            format!("[{}]", list.iter().map(of_hydra).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// The role of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The value of the option before it: `--lr`, `{lr}`.
    OfOption,
    /// A named one: `--lr={lr}`, `model.lr={lr}`.
    Named,
    /// Identified by its position, so that leaving it out would shift the next ones.
    Positional,
}

fn role(run: &[String], index: usize, knows: impl Fn(&str) -> bool + Copy) -> Role {
    let word = &run[index];
    let pieces = pieces(word, knows);
    let before = index.checked_sub(1).map(|before| run[before].as_str());
    match pieces.as_slice() {
        [ArgumentPiece::Placeholder(..)]
            if before.is_some_and(|before| is_option(before, knows)) =>
        {
            Role::OfOption
        }
        // A shell script contains spaces, and is not `name=value`.
        [ArgumentPiece::Text(text), ..]
            if index > 0
                && !word.contains(char::is_whitespace)
                && (text.starts_with('-') || text.find('=').is_some_and(|at| at > 0)) =>
        {
            Role::Named
        }
        _ => Role::Positional,
    }
}

/// Whether an argument announces a value: `--lr`, `-x`; not `--`, after which there are no options,
/// and not `-`, which is standard input.
fn is_option(word: &str, knows: impl Fn(&str) -> bool + Copy) -> bool {
    word.starts_with('-')
        && !["-", "--"].contains(&word)
        && !word.contains('=')
        && names(word, knows).next().is_none()
}

/// The parameter that decides a flag, if the argument is nothing else: `{flag}` after its option,
/// or `--flag={flag}`.
fn flag(word: &str, role: Role, knows: impl Fn(&str) -> bool + Copy) -> Option<&str> {
    match (role, pieces(word, knows).as_slice()) {
        (Role::OfOption, [ArgumentPiece::Placeholder(name, _)]) => Some(name),
        (Role::Named, [ArgumentPiece::Text(text), ArgumentPiece::Placeholder(name, _)]) => {
            text.strip_suffix('=').filter(|option| is_option(option, knows)).map(|_| *name)
        }
        _ => None,
    }
}

pub(super) fn names(word: &str, knows: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    pieces(word, knows).into_iter().filter_map(|piece| match piece {
        ArgumentPiece::Placeholder(name, _) => Some(name),
        ArgumentPiece::Text(_) => None,
    })
}

/// Arguments that cannot be left out although they name a parameter that may be inactive: the index
/// of each, and the parameter.
pub(super) fn positional(
    run: &[String],
    is_conditional: impl Fn(&str) -> bool + Copy,
    knows: impl Fn(&str) -> bool + Copy,
) -> Vec<(usize, &str)> {
    let words = (0..run.len()).filter(|index| role(run, *index, knows) == Role::Positional);
    words
        .flat_map(|index| {
            names(&run[index], knows)
                .filter(move |name| is_conditional(name))
                .map(move |name| (index, name))
        })
        .collect()
}

/// Whether a command names parameters that may be inactive.
pub(super) fn names_inactive(
    run: &[String],
    is_conditional: impl Fn(&str) -> bool,
    knows: impl Fn(&str) -> bool + Copy,
) -> bool {
    run.iter().any(|word| names(word, knows).any(&is_conditional))
}

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
        quoted_names(unnamed)
    ))
}

/// Whether a stored study began under the older rule for inactive parameters, which become empty,
/// and `spec` still has its command: its trials keep their arguments.
pub fn has_earlier_rules(known: &StudySpec, spec: &StudySpec) -> bool {
    let (Program::Command { run: before, args, .. }, Program::Command { run, .. }) =
        (&known.program, &spec.program)
    else {
        return false;
    };
    let knows = |name: &str| known.space.dimension(name).is_some();
    let is_conditional =
        |name: &str| known.space.dimension(name).is_some_and(|dimension| dimension.when.is_some());
    args.inactive == Inactive::Empty
        && before == run
        && names_inactive(before, is_conditional, knows)
}

/// Gives `spec`, read from a file, the rules of the stored study.
pub fn keep_rules(known: &StudySpec, spec: &mut StudySpec) {
    let is_earlier = has_earlier_rules(known, spec);
    let (Program::Command { args: before, .. }, Program::Command { args, .. }) =
        (&known.program, &mut spec.program)
    else {
        return;
    };
    if is_earlier {
        args.inactive = Inactive::Empty;
    } else if before.inactive == Inactive::Dropped {
        // Trials of a conditional space may still be queued.
        args.inactive = Inactive::Dropped;
    }
}

/// A command line quoted for a shell.
pub fn quoted(words: &[String]) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,+@%".contains(char);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::space::{Condition, Dimension};

    /// `lr` is always active, `momentum` and `fast` are conditional.
    fn space() -> Space {
        let dimension = |name: &str, choices: Vec<Value>, when: Option<Condition>| Dimension {
            when,
            ..Dimension::new(name, Distribution::choice(choices).unwrap())
        };
        let when = || Some(Condition(vec![("optimizer".to_owned(), vec!["sgd".into()])]));
        Space::new(vec![
            dimension("optimizer", vec!["sgd".into(), "adam".into()], None),
            dimension("lr", vec![0.5.into()], None),
            dimension("momentum", vec![0.9.into()], when()),
            dimension("fast", vec![true.into(), false.into()], when()),
        ])
        .unwrap()
    }

    fn params(text: &str) -> Params {
        serde_json::from_str(text).unwrap()
    }

    const ADAM: &str = r#"{"optimizer":"adam","lr":0.5}"#;
    const SGD: &str = r#"{"optimizer":"sgd","lr":0.5,"momentum":0.9,"fast":true}"#;

    fn written(run: &[&str], style: Option<ArgsStyle>, of: &str) -> Vec<String> {
        let run: Vec<String> = run.iter().map(|word| (*word).to_owned()).collect();
        words(&run, ArgsRules { style, inactive: Inactive::Dropped }, &space(), &params(of), None)
    }

    #[test]
    fn an_inactive_parameter_drops_its_word_and_the_option_before_it() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["p", "--momentum", "{momentum}", "--lr", "{lr}"], &["p", "--lr", "0.5"]),
            (&["p", "-m", "{momentum}", "x"], &["p", "x"]),
            (&["p", "--momentum={momentum}", "x"], &["p", "x"]),
            (&["p", "model.momentum={momentum}"], &["p"]),
            // The argument before is dropped only if it is an option that waits for this value
            // alone.
            (&["p", "--lr={lr}", "{momentum}"], &["p", "--lr=0.5"]),
            (&["p", "--{lr}", "{momentum}"], &["p", "--0.5"]),
            (&["p", "--", "{momentum}"], &["p", "--"]),
            (&["p", "-", "{momentum}"], &["p", "-"]),
            (&["p", "--verbose", "m{momentum}"], &["p", "--verbose"]),
            (&["p", "--both", "{lr}:{momentum}"], &["p", "--both"]),
            // An option after an inactive pair, and two consecutive pairs.
            (
                &["p", "--momentum", "{momentum}", "--fast", "{fast}", "--lr", "{lr}"],
                &["p", "--lr", "0.5"],
            ),
            (&["p", "{{momentum}}"], &["p", "{momentum}"]),
        ];
        for (run, expected) in cases {
            assert_eq!(written(run, None, ADAM), *expected, "{run:?}");
        }
        assert_eq!(
            written(&["p", "--momentum", "{momentum}"], None, SGD),
            ["p", "--momentum", "0.9"]
        );
    }

    #[test]
    fn a_boolean_is_a_flag_or_nothing_where_the_style_has_flags() {
        let off = SGD.replace("true", "false");
        for style in [ArgsStyle::Dashes, ArgsStyle::Equals] {
            for run in [&["p", "--fast", "{fast}", "x"][..], &["p", "--fast={fast}", "x"]] {
                assert_eq!(written(run, Some(style), SGD), ["p", "--fast", "x"], "{run:?}");
                assert_eq!(written(run, Some(style), &off), ["p", "x"], "{run:?}");
                assert_eq!(written(run, Some(style), ADAM), ["p", "x"], "{run:?}");
            }
            // What does not have its own option stays a value.
            assert_eq!(
                written(&["p", "x={fast}", "{fast}"], Some(style), SGD),
                ["p", "x=true", "true"]
            );
        }
        for style in [None, Some(ArgsStyle::Hydra)] {
            assert_eq!(
                written(&["p", "--fast", "{fast}", "fast={fast}"], style, &off),
                ["p", "--fast", "false", "fast=false"]
            );
        }
    }

    #[test]
    fn args_is_every_parameter_that_no_other_word_names() {
        let dimension = |name: &str, choices: Vec<Value>| {
            Dimension::new(name, Distribution::choice(choices).unwrap())
        };
        let text = |text: &str| Value::from(text);
        let space = Space::new(vec![
            dimension("lr", vec![0.5.into()]),
            dimension("shift", vec![(-1e-5).into()]),
            dimension("fast", vec![true.into(), false.into()]),
            dimension("sizes", vec![vec![64i64, 32].into(), Value::List(Vec::new())]),
            dimension("schedule", vec![Value::Null, text("none"), text("null"), text("a b'c")]),
            dimension("depth", vec![3i64.into()]),
        ])
        .unwrap();
        let written = |run: &[&str], style, of: &str| {
            let run: Vec<String> = run.iter().map(|word| (*word).to_owned()).collect();
            words(&run, ArgsRules { style, ..ArgsRules::default() }, &space, &params(of), None)
                .join(" ")
        };
        let all = r#"{"lr":0.5,"shift":-1e-5,"fast":true,"sizes":[64,32],"schedule":null}"#;
        let off = r#"{"lr":0.5,"fast":false,"sizes":[],"schedule":"none"}"#;
        let args = &["p", "{args}", "x"][..];
        let (equals, hydra) = (Some(ArgsStyle::Equals), Some(ArgsStyle::Hydra));
        assert_eq!(written(args, None, all), "p --lr 0.5 --shift=-1e-5 --fast --sizes 64 32 x");
        assert_eq!(written(args, None, off), "p --lr 0.5 --sizes --schedule none x");
        assert_eq!(written(args, equals, all), "p --lr=0.5 --shift=-1e-5 --fast --sizes=64,32 x");
        assert_eq!(written(args, equals, off), "p --lr=0.5 --sizes= --schedule=none x");
        assert_eq!(
            written(args, hydra, all),
            "p lr=0.5 shift=-1e-5 fast=true sizes=[64,32] schedule=null x"
        );
        assert_eq!(written(args, hydra, off), "p lr=0.5 fast=false sizes=[] schedule=none x");
        let strings = |value: &str| written(args, hydra, &format!(r#"{{"schedule":"{value}"}}"#));
        assert_eq!(strings("null"), "p schedule='null' x");
        assert_eq!(strings("a b'c"), r"p schedule='a b\'c' x");
        assert_eq!(strings(r"a \\"), r"p schedule='a \\' x");
        // Parameters with their own argument are not repeated; doubled braces name nothing.
        assert_eq!(
            written(
                &["p", "--rate", "{lr}", "{{shift}}", "{args}"],
                None,
                r#"{"lr":0.5,"depth":3}"#
            ),
            "p --rate 0.5 {shift} --depth 3"
        );
        let named = |style| {
            written(&["p", "--sizes", "{sizes}", "--s={sizes}", "--d={schedule}"], style, all)
        };
        assert_eq!(named(None), "p --sizes [64,32] --s=[64,32]");
        assert_eq!(named(Some(ArgsStyle::Dashes)), "p --sizes 64 32 --s=64,32");
        assert_eq!(named(equals), "p --sizes 64,32 --s=64,32");
        assert_eq!(
            named(hydra),
            "p --sizes 64 32 --s=[64,32] --d=null".replace("64 32", "[64,32]")
        );
        // A parameter with that name takes precedence.
        let own = Space::new(vec![dimension("args", vec![1i64.into()])]).unwrap();
        let run = ["p".to_owned(), "{args}".to_owned()];
        let of = params(r#"{"args":1}"#);
        assert_eq!(words(&run, ArgsRules::default(), &own, &of, None), ["p", "1"]);
        let rest: Vec<_> = unnamed(&run, &own, &of).collect();
        assert_eq!(rest, []);
    }

    #[test]
    fn the_environment_has_what_no_word_names() {
        let names = |run: &[&str]| {
            let run: Vec<String> = run.iter().map(|word| (*word).to_owned()).collect();
            let of = params(ADAM);
            let space = space();
            let names: Vec<_> =
                unnamed(&run, &space, &of).map(|(name, _)| name.to_owned()).collect();
            names
        };
        assert_eq!(names(&["p", "{lr}"]), ["optimizer"]);
        assert_eq!(names(&["p", "{{lr}}"]), ["optimizer", "lr"]);
        assert_eq!(names(&["p", "{args}"]), [""; 0]);
    }

    #[test]
    fn studies_of_earlier_rules_have_the_words_they_had() {
        let run = vec!["p".to_owned(), "--momentum".to_owned(), "{momentum}".to_owned()];
        let program = Program::Command {
            run: run.clone(),
            cwd: "/".into(),
            env: Default::default(),
            args: ArgsRules::default(),
            metrics: Default::default(),
        };
        let known = StudySpec::new("s", "loss", Direction::Minimize, space(), program);
        // As stored before the rules existed.
        let stored = serde_json::to_string(&known.program).unwrap();
        assert!(!stored.contains("args"), "{stored}");
        let mut spec = known.clone();
        let Program::Command { args, .. } = &mut spec.program else { panic!() };
        args.inactive = Inactive::Dropped;
        let fresh = spec.clone();
        keep_rules(&known, &mut spec);
        assert_eq!(spec, known);
        assert_eq!(
            words(&run, ArgsRules::default(), &space(), &params(ADAM), None),
            ["p", "--momentum", ""]
        );
        // Another command, and a newer study, have it.
        let mut other = fresh.clone();
        let Program::Command { run, .. } = &mut other.program else { panic!() };
        run.push("x".to_owned());
        keep_rules(&known, &mut other);
        let inactive = |spec: &StudySpec| match &spec.program {
            Program::Command { args, .. } => args.inactive,
            _ => panic!(),
        };
        assert_eq!(inactive(&other), Inactive::Dropped);
        let mut again = known.clone();
        keep_rules(&fresh, &mut again);
        assert_eq!(inactive(&again), Inactive::Dropped);
    }

    #[test]
    fn placeholders_take_values_and_other_braces_stay() {
        let written = |word: &str| {
            words(
                &[word.to_owned()],
                ArgsRules::default(),
                &space(),
                &params(r#"{"lr":0.5,"model.layers":3}"#),
                Some(TrialValues {
                    number: TrialNumber(7),
                    directory: Path::new("/t-7"),
                    seed: 5,
                    group: Some(GroupValues {
                        world_size: 4,
                        master_addr: "node7",
                        master_port: 2_900,
                        nodes: 2,
                        node_rank: 1,
                    }),
                }),
            )
            .concat()
        };
        assert_eq!(written("{trial_dir}/{trial}.{seed} {checkpoint_dir}"), "/t-7/7.5 /t-7");
        assert_eq!(written("{world_size}@{master_port}"), "4@2900");
        assert_eq!(written("{node_rank}/{nodes}@{master_addr}"), "1/2@node7");
        assert_eq!(written("--lr={lr}:{model.layers}"), "--lr=0.5:3");
        assert_eq!(written("{momentum}|{ not a name }|{"), "|{ not a name }|{");
        // In an unchecked study nothing disappears.
        assert_eq!(written("{1..3} {unknown} {{lr}}"), "{1..3} {unknown} {lr}");
    }

    #[test]
    fn command_lines_can_be_typed_into_a_shell() {
        let words: Vec<String> =
            ["python3", "my train.py", "", "it's", "--lr=1e-5", "$x"].map(str::to_owned).into();
        assert_eq!(quoted(&words), r"python3 'my train.py' '' 'it'\''s' --lr=1e-5 '$x'");
    }
}
