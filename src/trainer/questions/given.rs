//! Answers as data has them: texts, lists of texts, and SQuAD's lists with where they begin.

use serde_json::{Map, Value};

/// An answer as the data has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GivenAnswer {
    pub(super) text: String,
    pub(super) start: Start,
}

/// The character of a context at which an answer begins, as the data says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// It does not say.
    Unsaid,
    At(usize),
    /// It says something that is no character's number.
    Nowhere,
}

impl Start {
    fn of(value: Option<&Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Unsaid,
            Some(value) => {
                // Tables with empty cells make 14.0 of 14, and columns of texts "14".
                let text = match value {
                    Value::String(text) => text.trim().to_owned(),
                    value => value.to_string(),
                };
                let number = text.strip_suffix(".0").unwrap_or(&text).parse();
                number.map_or(Self::Nowhere, Self::At)
            }
        }
    }
}

/// The answers of a cell: a text, a list of texts, or SQuAD's
/// `{"text": [..], "answer_start": [..]}` and lists of `{"text": .., "answer_start": ..}`; none of
/// an empty cell or list. What only looks like JSON is a text.
pub(super) fn answers(cell: &str) -> Result<Vec<GivenAnswer>, String> {
    let text = |text: &str| GivenAnswer { text: text.to_owned(), start: Start::Unsaid };
    if cell.trim().is_empty() {
        return Ok(Vec::new());
    }
    let parsed = serde_json::from_str::<Value>(cell).ok();
    let parsed = parsed.filter(|parsed| parsed.is_array() || parsed.is_object());
    if parsed.is_none() && cell.starts_with("{'") {
        return Err(format!("the answers `{cell}` are written as Python shows them, not as JSON"));
    }
    let of_object = |object: &Map<String, Value>| {
        let start = Start::of(object.get("answer_start"));
        Some(GivenAnswer { text: object.get("text")?.as_str()?.to_owned(), start })
    };
    let one = |answer: &Value| match answer {
        Value::String(answer) => Some(text(answer)),
        Value::Object(answer) => of_object(answer),
        _ => None,
    };
    let found: Option<Vec<GivenAnswer>> = match &parsed {
        Some(Value::Array(all)) => all.iter().map(one).collect(),
        Some(Value::Object(object)) => match object.get("text") {
            Some(Value::Array(texts)) => {
                let starts = object.get("answer_start").and_then(Value::as_array);
                if let Some(starts) = starts.filter(|starts| starts.len() != texts.len()) {
                    let (texts, starts) = (texts.len(), starts.len());
                    return Err(format!("{texts} answers and {starts} places in `{cell}`"));
                }
                let start = |index: usize| Start::of(starts.and_then(|starts| starts.get(index)));
                let pairs = texts.iter().enumerate();
                let answer = |(index, text): (usize, &Value)| {
                    Some(GivenAnswer { text: text.as_str()?.to_owned(), start: start(index) })
                };
                pairs.map(answer).collect()
            }
            _ => of_object(object).map(|one| vec![one]),
        },
        _ => Some(vec![text(cell)]),
    };
    let mut found = found.ok_or_else(|| format!("the answers `{cell}` have no texts"))?;
    found.retain(|answer| !answer.text.trim().is_empty());
    Ok(found)
}

/// The characters of an answer within its context: where the data says it begins, else the nearest
/// to there, else the first.
pub(super) fn place(context: &str, answer: &str, start: Option<usize>) -> Option<[usize; 2]> {
    let length = answer.chars().count();
    let said = start.and_then(|start| context.char_indices().map(|(byte, _)| byte).nth(start));
    if let Some(start) = start
        && said.is_some_and(|byte| context[byte..].starts_with(answer))
    {
        return Some([start, start + length]);
    }
    let begins = context.match_indices(answer).map(|(byte, _)| context[..byte].chars().count());
    let begin = begins.min_by_key(|begin| begin.abs_diff(start.unwrap_or(0)))?;
    Some([begin, begin + length])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str, start: Option<usize>) -> GivenAnswer {
        GivenAnswer { text: text.to_owned(), start: start.map_or(Start::Unsaid, Start::At) }
    }

    #[test]
    fn answers_are_texts_or_squads_lists() {
        let read = |cell: &str| answers(cell).unwrap();
        assert_eq!(read("in 1815"), [answer("in 1815", None)]);
        assert_eq!(read("[sic] and {more"), [answer("[sic] and {more", None)]);
        assert_eq!(read(r#"["Ada", "Lovelace"]"#), [answer("Ada", None), answer("Lovelace", None)]);
        let squad = r#"{"text": ["Ada", "Ada L."], "answer_start": [3, 3]}"#;
        assert_eq!(read(squad), [answer("Ada", Some(3)), answer("Ada L.", Some(3))]);
        let listed = r#"[{"text": "Ada", "answer_start": 3}]"#;
        assert_eq!(read(listed), [answer("Ada", Some(3))]);
        for none in ["", " ", "[]", r#"{"text": [], "answer_start": []}"#, r#"[""]"#] {
            assert!(read(none).is_empty(), "{none}");
        }
        assert_eq!(answers("[1]").unwrap_err(), "the answers `[1]` have no texts");
        assert!(answers(r#"{"answer": "Ada"}"#).is_err());
        let uneven = r#"{"text": ["Ada"], "answer_start": []}"#;
        assert_eq!(answers(uneven).unwrap_err(), format!("1 answers and 0 places in `{uneven}`"));
        let python = "{'text': ['Ada'], 'answer_start': [3]}";
        assert!(answers(python).unwrap_err().ends_with("as Python shows them, not as JSON"));
        for start in ["3.0", "\"3\"", "\" 3.0\""] {
            let said = read(&format!(r#"{{"text": "Ada", "answer_start": {start}}}"#));
            assert_eq!(said[0].start, Start::At(3), "{start}");
        }
        for start in ["-1", "1e30", "3.5", "\"three\"", "true", "[3]"] {
            let said = read(&format!(r#"{{"text": "Ada", "answer_start": {start}}}"#));
            assert_eq!(said[0].start, Start::Nowhere, "{start}");
        }
    }

    #[test]
    fn an_answer_is_where_the_data_says_or_nearest_to_there() {
        let context = "Zoë and Zoë met Zoë.";
        assert_eq!(place(context, "Zoë", Some(8)), Some([8, 11]));
        assert_eq!(place(context, "Zoë", None), Some([0, 3]));
        assert_eq!(place(context, "Zoë", Some(15)), Some([16, 19]));
        assert_eq!(place(context, "Zoë", Some(999)), Some([16, 19]));
        assert_eq!(place(context, "Bär", Some(0)), None);
    }
}
