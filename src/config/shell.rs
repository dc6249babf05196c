//! Command lines as they are typed into a shell.

use super::shown::drives_a_terminal;

/// A command line quoted for a shell and for a terminal.
pub fn quoted(words: &[String]) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,+@%".contains(char);
    let quoted = |word: &String| {
        if word.chars().any(|char| drives_a_terminal(char) && char != '\n') {
            return escaped(word);
        }
        if !word.is_empty() && word.chars().all(plain) { word.clone() } else { in_quotes(word) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A text in single quotes.
pub fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A text as `$'..'`, which POSIX has since 2024 and bash, zsh and ksh have long had: characters
/// that drive a terminal are escaped, so that a line is safe to look at and means the same.
fn escaped(text: &str) -> String {
    let escaped = |char: char| match char {
        '\'' | '\\' => format!("\\{char}"),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        char if drives_a_terminal(char) => {
            // Three octal digits, which no digit after them changes.
            char.to_string().bytes().map(|byte| format!("\\{byte:03o}")).collect()
        }
        char => char.to_string(),
    };
    format!("$'{}'", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_typed_into_a_shell() {
        let words: Vec<String> =
            ["python3", "my train.py", "", "it's", "--lr=1e-5", "$x"].map(str::to_owned).into();
        assert_eq!(quoted(&words), r"python3 'my train.py' '' 'it'\''s' --lr=1e-5 '$x'");
    }

    #[test]
    fn what_drives_a_terminal_is_escaped_and_means_the_same_to_a_shell() {
        let hostile = "a\u{1b}[2J\u{7}1\n\u{9b}31m\u{202e}it's \\n\t$x";
        let word = quoted(&[hostile.to_owned()]);
        assert_eq!(word, r"$'a\033[2J\0071\n\302\23331m\342\200\256it\'s \\n\t$x'");
        assert_eq!(quoted(&["two\nlines".to_owned()]), "'two\nlines'");
        let Ok(typed) =
            std::process::Command::new("bash").args(["-c", &format!("printf %s {word}")]).output()
        else {
            return;
        };
        assert_eq!(String::from_utf8_lossy(&typed.stdout), hostile);
    }
}
