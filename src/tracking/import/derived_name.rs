//! Names of studies, and tags, for what other tools call in ways that are not allowed here.

use crate::config::is_study_name;
use crate::report::wording::width;
use crate::study::tag::is_tag;
use crate::study::word::{self, is_of_word};

/// The longest name of a study, in characters.
pub const LONGEST: usize = 100;

/// The name of a study for what another tool calls `original`: the same if it is allowed, else its
/// letters, digits, `-`, `_` and `.`, with a `-` for what stands between them. `None` if nothing is
/// left of it.
pub fn study_name(original: &str) -> Option<String> {
    if is_study_name(original) {
        return Some(original.to_owned());
    }
    let joined = joined(original, |char| is_of_word(char) || "-_.".contains(char));
    let name: String = joined
        .trim_start_matches(|char: char| !char.is_alphanumeric())
        .chars()
        .take(LONGEST)
        .collect();
    Some(name.trim_end_matches('-').to_owned()).filter(|name| is_study_name(name))
}

/// The same for a tag; `None` also for a text that is too long for one.
pub fn tag(original: &str) -> Option<String> {
    if is_tag(original) {
        return Some(original.to_owned());
    }
    let tag = joined(original, |char| is_of_word(char) || "._/-".contains(char));
    Some(tag).filter(|tag| is_tag(tag))
}

/// The parts of which all characters fit, joined by `-`.
fn joined(original: &str, fits: impl Fn(char) -> bool) -> String {
    let composed = composed(original);
    let parts = composed.split(|char| !fits(char)).map(|part| part.trim_matches('-'));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// The text with accents in their letters; other characters without a width of their own, which
/// names cannot have, are left out.
fn composed(text: &str) -> String {
    let is_kept = |char: &char| is_of_word(*char) || width(char.encode_utf8(&mut [0; 4])) > 0;
    word::composed(text).chars().filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_allowed_keeps_its_letters_and_digits() {
        for (original, derived) in [
            ("digits", "digits"),
            ("a--b.", "a--b."),
            ("Image Classification", "Image-Classification"),
            ("my results (v2)", "my-results-v2"),
            ("a - b", "a-b"),
            ("exp/1", "exp-1"),
            (".hidden dir", "hidden-dir"),
            ("nai\u{308}ve", "naïve"),
            ("A\u{30a}rhus\u{2068}", "Århus"),
            ("x\u{301}", "x\u{301}"),
            ("हिन्दी परीक्षण", "हिन्दी-परीक्षण"),
            ("ภาษาไทย", "ภาษาไทย"),
            ("Tie\u{302}\u{301}ng", "Tiếng"),
            ("run \u{2764}\u{fe0f} test", "run-test"),
            ("日本語 テスト", "日本語-テスト"),
        ] {
            assert_eq!(study_name(original).as_deref(), Some(derived), "{original}");
        }
        assert_eq!(study_name(&format!("{} b", "a".repeat(99))), Some("a".repeat(99)));
        for nothing in ["", " ", "!?", "-_.", "\u{301}"] {
            assert_eq!(study_name(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_tag_follows_the_same_rule_and_is_not_cut() {
        for (original, derived) in
            [("best-so-far!", "best-so-far"), ("needs review", "needs-review"), ("a/b", "a/b")]
        {
            assert_eq!(tag(original).as_deref(), Some(derived), "{original}");
        }
        assert_eq!((tag("!"), tag(&"long ".repeat(20))), (None, None));
    }
}
