//! Values as Python prints them and as JSON: W&B passes `str(value)` to a program.

use super::yaml::{Item, Node};

/// `str(value)`.
pub fn text(node: &Node) -> String {
    match &node.item {
        Item::Text(text) => text.clone(),
        _ => literal(node),
    }
}

/// `repr(value)`.
pub fn literal(node: &Node) -> String {
    match &node.item {
        Item::Null => "None".to_owned(),
        Item::Bool(true) => "True".to_owned(),
        Item::Bool(false) => "False".to_owned(),
        Item::Int(int) => int.to_string(),
        Item::Float(float) if float.is_nan() => "nan".to_owned(),
        Item::Float(float) if float.is_infinite() => {
            if *float > 0.0 { "inf" } else { "-inf" }.to_owned()
        }
        Item::Float(float) => number(*float),
        Item::Text(text) => string(text),
        Item::List(list) => {
            format!("[{}]", list.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Item::Map(entries) => {
            let entry = |entry: &super::yaml::Entry| {
                format!("{}: {}", string(&entry.key), literal(&entry.value))
            };
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A number with the digits that Python prints: an exponent below 1e-4 and from 1e16.
fn number(float: f64) -> String {
    if float == 0.0 || (1e-4..1e16).contains(&float.abs()) {
        return format!("{float:?}");
    }
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(rest) => ('-', rest),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// A string in quotes.
pub fn string(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut written = String::from(quote);
    for char in text.chars() {
        match char {
            '\\' => written.push_str("\\\\"),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            _ if char == quote => written.extend(['\\', char]),
            _ if char.is_control() => written.push_str(&format!("\\x{:02x}", u32::from(char))),
            _ => written.push(char),
        }
    }
    written.push(quote);
    written
}

/// The value as JSON, with numbers that JSON lacks as strings.
pub fn json(node: &Node) -> serde_json::Value {
    match &node.item {
        Item::Null => serde_json::Value::Null,
        Item::Bool(flag) => (*flag).into(),
        Item::Int(int) => (*int).into(),
        Item::Float(float) if float.is_finite() => (*float).into(),
        Item::Float(_) => literal(node).into(),
        Item::Text(text) => text.as_str().into(),
        Item::List(list) => list.iter().map(json).collect(),
        Item::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    #[test]
    fn values_are_printed_as_python_does() {
        let text = "[0.1, 1e-5, 1e22, 1e5, 123456789.5, 1.5e-7, 3, true, ~, it's, 'a\"b', \
                    [a, 2], {k: {l: no}}, .inf, -0.0001, 1e15]";
        assert_eq!(
            literal(&yaml::read(text).unwrap()),
            "[0.1, 1e-05, 1e+22, 100000.0, 123456789.5, 1.5e-07, 3, True, None, \"it's\", \
             'a\"b', ['a', 2], {'k': {'l': False}}, inf, -0.0001, 1000000000000000.0]"
        );
        assert_eq!(text_of("plain text"), "plain text");
        assert_eq!(string("it's \"x\"\n\u{1b}"), "'it\\'s \"x\"\\n\\x1b'");
    }

    fn text_of(yaml: &str) -> String {
        text(&yaml::read(yaml).unwrap())
    }
}
