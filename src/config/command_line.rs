//! The words of a command for one configuration: values, flags, and what is left out with an
//! inactive parameter.
//!
//! A word that names an inactive parameter is dropped. Where the whole word is the placeholder, and
//! the word before it is an option (it begins with `-`, and has no `=` and no placeholder), the
//! option is dropped with it. Where the study's `args_style` has flags, a boolean after an option
//! becomes that option alone, or nothing; so does one in the option's own word, `--flag={flag}`.

use std::path::Path;

use super::placeholder::{Piece, fill_in, pieces};
use crate::study::params::{Params, Value, variable};
use crate::study::space::{Distribution, Space};
use crate::study::spec::{ArgsRules, Inactive, Program, StudySpec};
use crate::study::suggestion::quoted as quoted_names;
use crate::study::trial::TrialNumber;

/// What a command may name of its trial, where no parameter has that name.
#[derive(Clone, Copy, Debug)]
pub struct TrialValues<'a> {
    /// `{trial}`: its number.
    pub number: TrialNumber,
    /// `{trial_dir}` and `{checkpoint_dir}`: the directory of its own.
    pub directory: &'a Path,
    /// `{seed}`: its seed.
    pub seed: u64,
}

impl TrialValues<'_> {
    /// The names.
    pub const NAMES: [&'static str; 4] = ["trial", "trial_dir", "checkpoint_dir", "seed"];

    fn get(&self, name: &str) -> Option<String> {
        match name {
            "trial" => Some(self.number.to_string()),
            "trial_dir" | "checkpoint_dir" => Some(self.directory.display().to_string()),
            "seed" => Some(self.seed.to_string()),
            _ => None,
        }
    }
}

/// The words that a trial of `params` is started with; without `trial`, what they name of it stays
/// as it is written. So does what is no parameter of the study: a study of an earlier version or of
/// a program may have it.
pub fn words(
    run: &[String],
    rules: ArgsRules,
    space: &Space,
    params: &Params,
    trial: Option<TrialValues<'_>>,
) -> Vec<String> {
    let knows = |name: &str| space.dimension(name).is_some() || params.get(name).is_some();
    let has_flags = rules.style.is_some_and(crate::study::spec::ArgsStyle::has_flags);
    let mut words: Vec<String> = Vec::with_capacity(run.len());
    for (index, word) in run.iter().enumerate() {
        let role = role(run, index, knows);
        let is_dropped = rules.inactive == Inactive::Dropped
            && names(word, knows).any(|name| knows(name) && params.get(name).is_none());
        let flag = match (is_dropped, flag(word, role, knows)) {
            (true, _) => Some(false),
            (false, Some(name)) if has_flags => match params.get(name) {
                Some(Value::Bool(flag)) => Some(*flag),
                _ => None,
            },
            _ => None,
        };
        match (flag, role) {
            (None, _) => words.push(fill_in(word, knows, |name| match params.get(name) {
                Some(value) => value.to_string(),
                None if knows(name) => String::new(),
                None => {
                    trial.and_then(|trial| trial.get(name)).unwrap_or_else(|| format!("{{{name}}}"))
                }
            })),
            (Some(true), Role::OfOption) => {}
            (Some(true), _) => {
                words.extend(word.split_once('=').map(|(option, _)| option.to_owned()))
            }
            // The option is in its place: it names no parameter, so that nothing drops it.
            (Some(false), Role::OfOption) => drop(words.pop()),
            (Some(false), _) => {}
        }
    }
    words
}

/// What a word of a command is to the program that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The value of the option before it: `--lr`, `{lr}`.
    OfOption,
    /// A word that says itself what it is about: `--lr={lr}`, `model.lr={lr}`.
    Named,
    /// One whose place says what it is about, and which cannot be left out without the next one
    /// taking its place.
    Positional,
}

fn role(run: &[String], index: usize, knows: impl Fn(&str) -> bool + Copy) -> Role {
    let word = &run[index];
    let pieces = pieces(word, knows);
    let before = index.checked_sub(1).map(|before| run[before].as_str());
    match pieces.as_slice() {
        [Piece::Placeholder(..)] if before.is_some_and(|before| is_option(before, knows)) => {
            Role::OfOption
        }
        // A script for a shell has spaces, and is no `name=value`.
        [Piece::Text(text), ..]
            if index > 0
                && !word.contains(char::is_whitespace)
                && (text.starts_with('-') || text.find('=').is_some_and(|at| at > 0)) =>
        {
            Role::Named
        }
        _ => Role::Positional,
    }
}

/// Whether a word announces a value: `--lr`, `-x`; not `--`, after which there are no options, and
/// not `-`, which is standard input.
fn is_option(word: &str, knows: impl Fn(&str) -> bool + Copy) -> bool {
    word.starts_with('-')
        && !["-", "--"].contains(&word)
        && !word.contains('=')
        && names(word, knows).next().is_none()
}

/// The parameter that decides over a flag, if the word is nothing else: `{flag}` after its option,
/// or `--flag={flag}`.
fn flag(word: &str, role: Role, knows: impl Fn(&str) -> bool + Copy) -> Option<&str> {
    match (role, pieces(word, knows).as_slice()) {
        (Role::OfOption, [Piece::Placeholder(name, _)]) => Some(name),
        (Role::Named, [Piece::Text(text), Piece::Placeholder(name, _)]) => {
            text.strip_suffix('=').filter(|option| is_option(option, knows)).map(|_| *name)
        }
        _ => None,
    }
}

fn names(word: &str, knows: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    pieces(word, knows).into_iter().filter_map(|piece| match piece {
        Piece::Placeholder(name, _) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Words that cannot be left out where a parameter they name is inactive: the index of each, and
/// the parameter.
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

/// Whether a command names parameters that are inactive in some configurations.
pub(super) fn names_inactive(
    run: &[String],
    is_conditional: impl Fn(&str) -> bool,
    knows: impl Fn(&str) -> bool + Copy,
) -> bool {
    run.iter().any(|word| names(word, knows).any(&is_conditional))
}

/// The booleans that are written as `true` and `false` where the program may want a flag: no style
/// is given, and an option announces them.
pub fn unstyled_flags(spec: &StudySpec) -> Vec<&str> {
    let Program::Command { run, args, .. } = &spec.program else { return Vec::new() };
    if args.style.is_some() {
        return Vec::new();
    }
    let knows = |name: &str| spec.space.dimension(name).is_some();
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

/// What to know of searched parameters that no word of a command names, by placeholder or variable.
pub fn unnamed_parameters(spec: &StudySpec) -> Option<String> {
    let Program::Command { run, .. } = &spec.program else { return None };
    let knows = |name: &str| spec.space.dimension(name).is_some();
    let is_unnamed = |name: &&str| {
        let variable = variable(name);
        !run.iter().any(|word| {
            names(word, knows).any(|named| named == *name)
                || word.contains(&variable)
                || word.contains("HPSEARCH_PARAMS")
        })
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

/// Whether a stored study began when the words of inactive parameters became empty instead of being
/// dropped, and `spec` still has its command: its trials continue with the words they had.
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

/// Gives `spec`, which was read from a file, the rules that the stored study of it began with.
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
        // Trials of a space with conditions may be queued still.
        args.inactive = Inactive::Dropped;
    }
}

/// A command line as it may be typed into a shell.
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
    use crate::study::spec::ArgsStyle;

    /// `lr` is always active, `momentum` and `fast` under a condition.
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
            // The word before is dropped only if it is an option that waits for this value, and for
            // nothing else.
            (&["p", "--lr={lr}", "{momentum}"], &["p", "--lr=0.5"]),
            (&["p", "--{lr}", "{momentum}"], &["p", "--0.5"]),
            (&["p", "--", "{momentum}"], &["p", "--"]),
            (&["p", "-", "{momentum}"], &["p", "-"]),
            (&["p", "--verbose", "m{momentum}"], &["p", "--verbose"]),
            (&["p", "--both", "{lr}:{momentum}"], &["p", "--both"]),
            // An option after an inactive pair, and two pairs behind each other.
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
            // What is not an option of its own stays a value.
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
        // As it was stored before there were rules.
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
        // Another command, and a study that began with the rule, have it.
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
                Some(TrialValues { number: TrialNumber(7), directory: Path::new("/t-7"), seed: 5 }),
            )
            .concat()
        };
        assert_eq!(written("{trial_dir}/{trial}.{seed} {checkpoint_dir}"), "/t-7/7.5 /t-7");
        assert_eq!(written("--lr={lr}:{model.layers}"), "--lr=0.5:3");
        assert_eq!(written("{momentum}|{ not a name }|{"), "|{ not a name }|{");
        // Of a study that nobody checked: nothing vanishes.
        assert_eq!(written("{1..3} {unknown} {{lr}}"), "{1..3} {unknown} {lr}");
    }

    #[test]
    fn command_lines_can_be_typed_into_a_shell() {
        let words: Vec<String> =
            ["python3", "my train.py", "", "it's", "--lr=1e-5", "$x"].map(str::to_owned).into();
        assert_eq!(quoted(&words), r"python3 'my train.py' '' 'it'\''s' --lr=1e-5 '$x'");
    }
}
