//! Command lines as they are typed into a shell.

/// A command line quoted for a shell.
pub fn quoted(words: &[String]) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,+@%".contains(char);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) { word.clone() } else { in_quotes(word) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A text in single quotes.
pub fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
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
}
