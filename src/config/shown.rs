//! Sanitises text for a terminal: the contents of files, programs and stores may contain control
//! characters.

/// Whether a character controls the terminal: control characters, and bidirectional formatting
/// marks.
pub fn drives_a_terminal(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The visible escape of such a character, as JSON and TOML write it: `\u202e`.
pub fn escape(char: char) -> String {
    format!("\\u{:04x}", u32::from(char))
}

/// Text on one line, without control characters.
pub fn one_line(text: &str) -> String {
    text.chars().map(|char| if drives_a_terminal(char) { ' ' } else { char }).collect()
}

/// Text of several lines, without other control characters.
pub fn lines(text: &str) -> String {
    text.split('\n').map(one_line).collect::<Vec<_>>().join("\n")
}

/// A file's text with control characters replaced by harmless ones of the same length, so that
/// spans remain valid.
pub(super) fn same_length(text: &str) -> String {
    let harmless = |char: char| match char {
        '\n' | '\t' | '\r' => char,
        _ if !drives_a_terminal(char) => char,
        _ => ['?', '\u{b7}', '\u{fffd}'][char.len_utf8().clamp(1, 3) - 1],
    };
    text.chars().map(harmless).collect()
}

/// A line of JSON with such characters escaped: the meaning is the same.
pub fn json(text: &str) -> String {
    let escaped =
        |char: char| if drives_a_terminal(char) { escape(char) } else { char.to_string() };
    if text.chars().any(drives_a_terminal) {
        text.chars().map(escaped).collect()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_drives_a_terminal_is_not_shown() {
        assert_eq!(one_line("a\u{1b}[31mb\nc\u{9b}\u{202e}"), "a [31mb c  ");
        assert_eq!(lines("a\u{7}\nb\u{7f}\n"), "a \nb \n");
    }

    proptest! {
        #[test]
        fn places_stay_true_and_json_means_the_same(
            text in "[\\x00-\\x1f\\x7f-\\u{9f}\\u{2028}\\u{202e}a-cé🙂\n]{0,20}",
        ) {
            let harmless = same_length(&text);
            let starts = |text: &str| text.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
            prop_assert_eq!(starts(&harmless), starts(&text));
            prop_assert!(
                !harmless.chars().any(|char| drives_a_terminal(char) && !"\n\r\t".contains(char))
            );
            let line = json(&serde_json::to_string(&text).unwrap());
            prop_assert!(!line.chars().any(drives_a_terminal));
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }
    }
}
