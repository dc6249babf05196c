//! A trial's configuration as TOML, and the escape sequence (OSC 52) that puts a text into the
//! clipboard, over ssh too.

use crate::report::wording::{toml_key, toml_value};
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::trial::Trial;

/// The trial's parameters as an `[[enqueue]]` table of a study file.
pub fn configuration(spec: &StudySpec, trial: &Trial) -> String {
    let lines = shown_params(spec, trial)
        .iter()
        .map(|(name, value)| format!("{} = {}\n", toml_key(name), toml_value(value)));
    format!("[[enqueue]]  # trial {}\n", trial.number) + &lines.collect::<String>()
}

/// What the terminal has to be sent. tmux hands it on where its `set-clipboard` allows programs to
/// write.
pub fn sequence(text: &str) -> String {
    format!("\u{1b}]52;c;{}\u{7}", base64(text.as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_usize, |group, byte| group << 8 | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let shown = digit <= chunk.len();
            encoded.push(if shown {
                char::from(DIGITS[group >> (18 - 6 * digit) & 63])
            } else {
                '='
            });
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (text, encoded) in cases {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
    }

    #[test]
    fn the_sequence_is_the_terminals_own() {
        assert_eq!(sequence("lr = 1"), "\u{1b}]52;c;bHIgPSAx\u{7}");
    }
}
