//! The characters of names and tags.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Whether a character is a letter, a digit or a mark on a letter, such as the vowel signs of
/// Devanagari and Thai.
pub fn is_of_word(char: char) -> bool {
    // Joiners and variation selectors are invisible marks.
    let is_seen = !matches!(char, '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{e0100}'..='\u{e01ef}');
    char.is_alphanumeric() || is_combining_mark(char) && is_seen
}

/// Whether letters and their marks are one character wherever there is one (Unicode's NFC), so that
/// words that look alike are equal.
pub fn is_composed(text: &str) -> bool {
    unicode_normalization::is_nfc(text)
}

/// The text with letters and their marks in one character: file systems may store names with two.
pub fn composed(text: &str) -> String {
    text.nfc().collect()
}
