//! The rule for tags of studies and trials.

use unicode_normalization::char::is_combining_mark;

use super::word::{is_composed, is_of_word};

/// The tag of archived studies: lists omit them.
pub const ARCHIVED: &str = "archived";

/// The rule for tags, for error messages.
pub const TAG_RULE: &str = "letters, digits and any of `._/-`, up to 64";

/// Whether `text` can be a tag, by [`TAG_RULE`]; a longer one is a note.
pub fn is_tag(text: &str) -> bool {
    let fits = |char: char| is_of_word(char) || matches!(char, '.' | '_' | '/' | '-');
    !text.is_empty()
        && text.chars().count() <= 64
        && text.chars().all(fits)
        && !text.starts_with(is_combining_mark)
        && is_composed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_one_word_in_any_script() {
        for good in ["best", "a/b-c_d.2", "परीक्षण", "การทดลอง", "naïve", "日本語"]
        {
            assert!(is_tag(good), "{good}");
        }
        let long = "a".repeat(65);
        for bad in [
            "",
            "a b",
            "\u{301}a",
            "nai\u{308}ve",
            "a\u{202e}b",
            "a\u{200d}b",
            "best\u{fe0f}",
            &long,
        ] {
            assert!(!is_tag(bad), "{bad}");
        }
    }
}
