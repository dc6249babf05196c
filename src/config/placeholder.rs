//! `{name}` in the arguments of a command: recognising, replacing and escaping placeholders.
//!
//! A name in single braces is a placeholder; in double braces it stands for itself in single ones:
//! `{{name}}` is `{name}`. Each further doubled pair is one more pair of braces around that:
//! `{{{name}}}` is the value in braces. A name is that of a parameter, or begins with a letter or
//! `_` and continues with letters, digits, `_`, `-` and `.`. Braces around anything else are
//! literal (`{1..3}`, `[a-z]{2}`, `{"a": {"b": 1}}`, `{print $1}`), doubled or not.

use std::ops::Range;

/// A piece of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentPiece<'a> {
    /// Literal text.
    Text(&'a str),
    /// A placeholder: the name, and its byte range with braces.
    Placeholder(&'a str, Range<usize>),
}

/// Splits an argument; `knows` tells which names are parameters.
pub fn pieces<'a>(word: &'a str, knows: impl Fn(&str) -> bool) -> Vec<ArgumentPiece<'a>> {
    let mut pieces = Vec::new();
    let mut from = 0;
    for braced in braced(word, knows) {
        // Half of the doubled braces remain, on both sides.
        let kept = braced.pairs / 2;
        let (outer, inner) =
            (braced.name.start - braced.pairs, braced.name.start - braced.pairs % 2);
        pieces.push(ArgumentPiece::Text(&word[from..outer + kept]));
        if braced.pairs % 2 == 1 {
            pieces.push(ArgumentPiece::Placeholder(
                &word[braced.name.clone()],
                inner..braced.name.end + 1,
            ));
        } else {
            pieces.push(ArgumentPiece::Text(&word[braced.name.clone()]));
        }
        from = braced.name.end + braced.pairs - kept;
    }
    pieces.push(ArgumentPiece::Text(&word[from..]));
    pieces.retain(|piece| *piece != ArgumentPiece::Text(""));
    pieces
}

/// The names of the placeholders.
pub fn names(word: &str, knows: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    pieces(word, knows).into_iter().filter_map(|piece| match piece {
        ArgumentPiece::Placeholder(name, _) => Some(name),
        ArgumentPiece::Text(_) => None,
    })
}

/// Replaces each placeholder by `value` of its name.
pub fn fill_in(word: &str, knows: impl Fn(&str) -> bool, value: impl Fn(&str) -> String) -> String {
    let piece = |piece| match piece {
        ArgumentPiece::Text(text) => text.to_owned(),
        ArgumentPiece::Placeholder(name, _) => value(name),
    };
    pieces(word, knows).into_iter().map(piece).collect()
}

/// Escapes an argument so that [`pieces`] returns it unchanged, but for the placeholders that it
/// `keeps`.
pub fn escaped(word: &str, knows: impl Fn(&str) -> bool, keeps: impl Fn(&str) -> bool) -> String {
    let mut escaped = String::with_capacity(word.len());
    let mut from = 0;
    let is_kept = |braced: &Braced| braced.pairs == 1 && keeps(&word[braced.name.clone()]);
    for braced in braced(word, knows).into_iter().filter(|braced| !is_kept(braced)) {
        escaped.push_str(&word[from..braced.name.start]);
        escaped.push_str(&"{".repeat(braced.pairs));
        escaped.push_str(&word[braced.name.clone()]);
        escaped.push_str(&"}".repeat(braced.pairs));
        from = braced.name.end;
    }
    escaped.push_str(&word[from..]);
    escaped
}

/// Whether a text in braces may be a parameter's name.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|char: char| char.is_alphabetic() || char == '_')
        && text.chars().all(|char| char.is_alphanumeric() || "_-.".contains(char))
}

/// A name in braces.
struct Braced {
    name: Range<usize>,
    /// Number of braces on each side.
    pairs: usize,
}

fn braced(word: &str, knows: impl Fn(&str) -> bool) -> Vec<Braced> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = word[from..].find('{').map(|open| from + open) {
        let start = open + (word[open..].len() - word[open..].trim_start_matches('{').len());
        let Some(end) = word[start..].find(['}', '{']).map(|end| start + end) else { break };
        let name = &word[start..end];
        if word[end..].starts_with('}') && (is_name(name) || knows(name)) {
            let closing = word[end..].len() - word[end..].trim_start_matches('}').len();
            found.push(Braced { name: start..end, pairs: closing.min(start - open) });
            from = end + closing;
        } else {
            from = end;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn knows(name: &str) -> bool {
        ["lr", "2nd", "model.depth"].contains(&name)
    }

    fn filled(word: &str) -> String {
        fill_in(word, knows, |name| format!("<{name}>"))
    }

    #[test]
    fn names_in_braces_are_placeholders_and_whatever_else_stays() {
        for (word, expected) in [
            ("--lr={lr}", "--lr=<lr>"),
            ("{lr}{model.depth}", "<lr><model.depth>"),
            ("{2nd}", "<2nd>"),
            ("{unknown}", "<unknown>"),
            ("{1..3}", "{1..3}"),
            ("[a-z]{2}", "[a-z]{2}"),
            ("{2,}", "{2,}"),
            ("{}", "{}"),
            ("{print $1}", "{print $1}"),
            ("{unclosed", "{unclosed"),
            ("closed}", "closed}"),
            (r#"{"a": {"b": 1}}"#, r#"{"a": {"b": 1}}"#),
            (r#"{"a": {"b": {lr}}}"#, r#"{"a": {"b": <lr>}}"#),
            ("{{ lr }}", "{{ lr }}"),
            ("${HOME:-x}", "${HOME:-x}"),
            ("{lr", "{lr"),
            ("{{lr}", "{<lr>"),
            ("{lr}}", "<lr>}"),
            ("{a{lr}b}", "{a<lr>b}"),
        ] {
            assert_eq!(filled(word), expected, "{word}");
        }
    }

    #[test]
    fn doubled_braces_around_a_name_are_single_ones() {
        for (word, expected) in [
            ("{{lr}}", "{lr}"),
            ("{{print}}", "{print}"),
            ("{{{lr}}}", "{<lr>}"),
            ("{{{{lr}}}}", "{{lr}}"),
            ("x{{a}}y{lr}", "x{a}y<lr>"),
            ("{{{lr}}", "{{lr}"),
            ("{{1..3}}", "{{1..3}}"),
        ] {
            assert_eq!(filled(word), expected, "{word}");
        }
    }

    #[test]
    fn a_placeholder_knows_its_place() {
        assert_eq!(
            pieces("x{lr}y", knows),
            [
                ArgumentPiece::Text("x"),
                ArgumentPiece::Placeholder("lr", 1..5),
                ArgumentPiece::Text("y")
            ]
        );
        assert_eq!(pieces("{{{lr}}}", knows)[1], ArgumentPiece::Placeholder("lr", 2..6));
        assert_eq!(pieces("", knows), []);
    }

    proptest! {
        #[test]
        fn what_is_escaped_is_itself(word in r#"([{}]|lr|2nd|a|\.|1|"| |é){0,24}"#) {
            prop_assert_eq!(filled(&escaped(&word, knows, |_| false)), word);
        }

        #[test]
        fn nothing_outside_of_names_is_lost(word in r#"([{}]|lr|[a-z]|\.|1|"| |\PC){0,24}"#) {
            let kept: String = word.chars().filter(|char| !"{}".contains(*char)).collect();
            let filled: String = fill_in(&word, knows, str::to_owned)
                .chars()
                .filter(|char| !"{}".contains(*char))
                .collect();
            prop_assert_eq!(filled, kept);
        }
    }
}
