//! Values as arguments in the styles of command lines.

use crate::study::params::Value;
use crate::study::program::ArgsStyle;

/// The arguments for one parameter in `{args}`.
pub(super) fn argument(name: &str, value: &Value, style: ArgsStyle) -> Vec<String> {
    match (style, value) {
        (ArgsStyle::Hydra, value) => vec![format!("{name}={}", of_hydra(value))],
        (_, Value::Bool(true)) => vec![format!("--{name}")],
        (_, Value::Bool(false) | Value::Null) => Vec::new(),
        (ArgsStyle::Dashes, Value::List(list)) => {
            std::iter::once(format!("--{name}")).chain(list.iter().map(Value::to_string)).collect()
        }
        // A value that begins with `-` would be taken for an option: argparse does so even with
        // `-1e-05`.
        (ArgsStyle::Dashes, value) if !value.to_string().starts_with('-') => {
            vec![format!("--{name}"), value.to_string()]
        }
        (_, value) => vec![format!("--{name}={}", text(value, Some(style)))],
    }
}

/// A value inside an argument.
pub(super) fn text(value: &Value, style: Option<ArgsStyle>) -> String {
    match (value, style) {
        (Value::List(list), Some(ArgsStyle::Dashes | ArgsStyle::Equals)) => {
            list.iter().map(Value::to_string).collect::<Vec<_>>().join(",")
        }
        (Value::List(_), Some(ArgsStyle::Hydra)) => of_hydra(value),
        _ => value.to_string(),
    }
}

/// A value in Hydra's override grammar (<https://hydra.cc/docs/advanced/override_grammar/basic/>):
/// strings that would be parsed as something else are quoted.
fn of_hydra(value: &Value) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "_-/.+%@?|".contains(char);
    match value {
        Value::Text(text) => {
            let is_word =
                ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
            let is_other = is_word || text.parse::<f64>().is_ok() || text.is_empty();
            if !is_other && text.chars().all(is_plain) {
                return text.clone();
            }
            // Only backslashes before a quote are escapes.
            let mut quoted = String::from("'");
            let mut backslashes = 0;
            for char in text.chars().chain(std::iter::once('\'')) {
                if char == '\'' {
                    quoted.extend(std::iter::repeat_n('\\', backslashes + 1));
                }
                backslashes = if char == '\\' { backslashes + 1 } else { 0 };
                quoted.push(char);
            }
            let end = quoted.len() - 2;
            quoted.remove(end);
            quoted
        }
        Value::List(list) => {
            format!("[{}]", list.iter().map(of_hydra).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}
