//! The role of an argument: the value of the option before it, a named one, or a positional one.

use crate::config::placeholder::{ArgumentPiece, names, pieces};

/// The role of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The value of the option before it: `--lr`, `{lr}`.
    OfOption,
    /// A named one: `--lr={lr}`, `model.lr={lr}`.
    Named,
    /// Identified by its position, so that leaving it out would shift the next ones.
    Positional,
}

/// The role of the argument at `index`.
pub(super) fn role(run: &[String], index: usize, knows: impl Fn(&str) -> bool + Copy) -> Role {
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
pub(super) fn flag(word: &str, role: Role, knows: impl Fn(&str) -> bool + Copy) -> Option<&str> {
    match (role, pieces(word, knows).as_slice()) {
        (Role::OfOption, [ArgumentPiece::Placeholder(name, _)]) => Some(name),
        (Role::Named, [ArgumentPiece::Text(text), ArgumentPiece::Placeholder(name, _)]) => {
            text.strip_suffix('=').filter(|option| is_option(option, knows)).map(|_| *name)
        }
        _ => None,
    }
}

/// Arguments that cannot be left out although they name a parameter that may be inactive: the index
/// of each, and the parameter.
pub fn positional(
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
