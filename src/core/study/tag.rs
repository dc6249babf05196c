//! The rule for tags of studies and trials.

/// The tag of archived studies: lists omit them.
pub const ARCHIVED: &str = "archived";

/// The rule for tags, for error messages.
pub const TAG_RULE: &str = "letters, digits and any of `._/-`, up to 64";

/// Whether `text` can be a tag, by [`TAG_RULE`]; a longer one is a note.
pub fn is_tag(text: &str) -> bool {
    let fits = |char: char| char.is_alphanumeric() || matches!(char, '.' | '_' | '/' | '-');
    !text.is_empty() && text.chars().count() <= 64 && text.chars().all(fits)
}
