//! Parameters as YAML that readers of YAML 1.1 and 1.2 take for the same.

use serde_json::Value as Json;

use crate::config::shown;
use crate::study::params::Value;

/// Words that are not texts without quotes, in lower case.
const RESERVED: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"];

/// A key of a mapping.
pub fn key(name: &str) -> String {
    let is_plain = name.starts_with(|char: char| char.is_ascii_alphabetic())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || "_-.".contains(char))
        && !RESERVED.contains(&name.to_ascii_lowercase().as_str());
    if is_plain { name.to_owned() } else { quoted(name) }
}

/// A value, on one line.
pub fn value(value: &Value) -> String {
    match value {
        Value::Bool(flag) => flag.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Float(float) => number(*float),
        Value::Text(text) => quoted(text),
        Value::List(list) => {
            let elements: Vec<String> = list.iter().map(self::value).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Null => "null".to_owned(),
    }
}

/// In the quotes of JSON, which are some of YAML's.
fn quoted(text: &str) -> String {
    shown::json(&Json::from(text).to_string())
}

/// With a point and a sign of the exponent, without which YAML 1.1 (PyYAML) reads `1e-5` as text.
fn number(float: f64) -> String {
    if float.is_nan() {
        return ".nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let text = format!("{float:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_and_texts_are_texts_in_every_version() {
        for (given, written) in [
            (Value::Float(1e-5), "1.0e-5"),
            (Value::Float(2.5e20), "2.5e+20"),
            (Value::Float(-3.0), "-3.0"),
            (Value::Float(f64::NEG_INFINITY), "-.inf"),
            (Value::Int(7), "7"),
            (Value::Bool(true), "true"),
            (Value::Null, "null"),
            (Value::Text("no".to_owned()), "\"no\""),
            (Value::Text("1e-5".to_owned()), "\"1e-5\""),
            (Value::Text("a\u{1b}[2J \"b\"\n".to_owned()), "\"a\\u001b[2J \\\"b\\\"\\n\""),
            (Value::List(vec![Value::Int(1), Value::Float(0.5)]), "[1, 0.5]"),
        ] {
            assert_eq!(value(&given), written);
        }
        for (name, written) in [
            ("learning_rate", "learning_rate"),
            ("model.num_layers", "model.num_layers"),
            ("n", "\"n\""),
            ("a: b", "\"a: b\""),
            ("1e5", "\"1e5\""),
        ] {
            assert_eq!(key(name), written);
        }
    }
}
