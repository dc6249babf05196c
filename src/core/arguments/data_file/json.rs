//! Rows in JSON: an object on each line, or a list of objects.

use std::path::Path;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Columns, DataProblem, DataRow, ELEMENT, LIST, Words, missing_columns, shortened};

/// The objects of lines.
pub(super) fn lines(
    path: &Path,
    content: &str,
    columns: Columns,
) -> Result<Vec<DataRow>, DataProblem> {
    let mut rows = Vec::new();
    for (line, content) in (1..).zip(content.lines()) {
        if content.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(content).map_err(|error| {
            DataProblem::new(path, Some(line), format!("not JSON: {error}"))
                .with_help("a .jsonl file has one JSON object on each line")
        })?;
        rows.push(row_of(path, line, &value, columns)?);
    }
    Ok(rows)
}

/// The objects of a list, each with the line on which it begins.
pub(super) fn list(
    path: &Path,
    content: &str,
    columns: Columns,
) -> Result<Vec<DataRow>, DataProblem> {
    let invalid = |error: serde_json::Error| {
        let line = u64::try_from(error.line()).ok().filter(|line| *line > 0);
        DataProblem::new(path, line, format!("not JSON: {error}"))
            .with_help("a .json file has a list of objects, or one object on each line")
    };
    let elements: Vec<&RawValue> = serde_json::from_str(content).map_err(invalid)?;
    let (mut rows, mut line, mut counted) = (Vec::new(), 1, 0);
    for element in elements {
        let begin = element.get().as_ptr().addr() - content.as_ptr().addr();
        line +=
            content.as_bytes()[counted..begin].iter().filter(|byte| **byte == b'\n').count() as u64;
        counted = begin;
        let value: Value = serde_json::from_str(element.get()).map_err(invalid)?;
        rows.push(row_of(path, line, &value, columns)?);
    }
    Ok(rows)
}

/// The problem of a .json file whose rows are a list inside of one object, as `{"data": [..]}`.
#[must_use]
pub fn rows_inside(path: &Path, content: &str) -> Option<DataProblem> {
    // One object on each line is what else begins so.
    let first: Result<Value, _> = serde_json::from_str(content.lines().next()?);
    let whole = match first {
        Ok(_) if content.lines().skip(1).any(|line| !line.trim().is_empty()) => return None,
        Ok(only) => only,
        Err(_) => serde_json::from_str(content).ok()?,
    };
    let object = whole.as_object()?;
    let rows_of = |value: &Value| value.as_array().map(Vec::len);
    // The lists of one row are its words and their labels.
    if let Some(rows) = object.values().next().and_then(rows_of)
        && rows > 1
        && object.len() > 1
        && !["tokens", "words"].iter().any(|name| object.contains_key(*name))
        && object.values().all(|column| rows_of(column) == Some(rows))
    {
        let message = format!("it has a list of {rows} values for each column, not rows");
        return Some(DataProblem::new(path, None, message).with_help(
            "write an object for each row: pandas' `read_json(..).to_json(.., orient='records', \
             lines=True)`",
        ));
    }
    // pandas' `to_json()`: an object of rows by number for each column.
    let numbered = |column: &Value| {
        column.as_object().is_some_and(|rows| rows.len() > 1 && rows.contains_key("0"))
    };
    if object.len() > 1 && object.values().all(numbered) {
        let message = "it has an object of values for each column, not rows";
        return Some(DataProblem::new(path, None, message).with_help(
            "write an object for each row: pandas' `to_json(.., orient='records', lines=True)`",
        ));
    }
    let objects = |value: &Value| match value {
        Value::Array(all) if all.iter().all(Value::is_object) => Some(all.len()),
        _ => None,
    };
    let lists = object.iter().filter_map(|(key, value)| Some((key, objects(value)?)));
    let (key, rows) = lists.max_by_key(|(_, rows)| *rows).filter(|(_, rows)| *rows > 0)?;
    if whole[key][0].get("paragraphs").is_some() {
        let message = "it has its rows inside of lists, as SQuAD's own files";
        return Some(DataProblem::new(path, None, message).with_help(
            "write a row for each question: \
             `load_dataset(\"squad\")[\"train\"].to_json(\"train.jsonl\")` of Python's datasets, \
             or `[{\"question\": .., \"context\": .., \"answers\": ..}, ..]`",
        ));
    }
    let problem = DataProblem::new(path, None, format!("its {rows} rows are inside of `{key}`"));
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let (from, to) = (path.display().to_string(), format!("{stem}-rows.json"));
    let to = path.with_file_name(to).display().to_string();
    // `x` creates the file, and never replaces one.
    Some(problem.with_help(match [key, &from, &to].into_iter().all(|word| is_plain(word)) {
        true => format!(
            "write them as a list: `python -c \"import json; json.dump(json.load(open('{from}'))\
             ['{key}'], open('{to}', 'x'))\"`"
        ),
        false => "write that list alone into a separate file".to_owned(),
    }))
}

/// Whether a word stands for itself in shells and in Python's strings.
fn is_plain(word: &str) -> bool {
    word.chars().all(|char| char.is_alphanumeric() || "_-./ ".contains(char))
}

/// The value of a column of a row of JSON; `translation.en` is the `en` in an object `translation`.
fn value_of<'a>(object: &'a serde_json::Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        let inside = |(at, _): (usize, &str)| match object.get(&name[..at])? {
            Value::Null => Some(&Value::Null),
            outer => value_of(outer.as_object()?, &name[at + 1..]),
        };
        name.match_indices('.').find_map(inside)
    })
}

/// The names of the columns of a row of JSON, with those of the objects in it.
fn names_in(object: &serde_json::Map<String, Value>) -> Vec<String> {
    let name = |(name, value): (&String, &Value)| match value {
        Value::Object(inside) if !inside.is_empty() => {
            names_in(inside).into_iter().map(|inside| format!("{name}.{inside}")).collect()
        }
        _ => vec![name.clone()],
    };
    object.iter().flat_map(name).collect()
}

/// A row of JSON.
fn row_of(path: &Path, line: u64, value: &Value, columns: Columns) -> Result<DataRow, DataProblem> {
    let Value::Object(object) = value else {
        return Err(DataProblem::new(path, Some(line), "not a JSON object")
            .with_help("write it as `{\"text\": \"..\", \"label\": \"..\"}`"));
    };
    let column = |name: &str| match value_of(object, name) {
        Some(Value::String(text)) => Ok(text.clone()),
        // An empty cell.
        Some(Value::Null) => Ok(String::new()),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        Some(value @ (Value::Array(_) | Value::Object(_)))
            if columns.words == Words::Answers && columns.label == Some(name) =>
        {
            Ok(value.to_string())
        }
        // Several labels of a text, or words.
        Some(Value::Array(all))
            if (columns.label == Some(name) || columns.words.may_be_lists())
                && all.iter().all(|one| one.is_string() || one.is_number()) =>
        {
            let elements: Vec<String> = all
                .iter()
                .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
                .collect();
            Ok(match columns.words {
                Words::Joined => elements.join(" "),
                _ if elements.is_empty() => String::new(),
                _ => format!("{LIST}{}", elements.join(ELEMENT)),
            })
        }
        Some(value) => {
            let shown = shortened(&value.to_string());
            Err(DataProblem::new(path, Some(line), format!("`{name}` is `{shown}`, not text"))
                .with_help("write it as a string, or remove the row"))
        }
        // Found to be missing before.
        None => Ok(String::new()),
    };
    let missing = columns.without(|name| value_of(object, name).is_some());
    if !missing.is_empty() {
        let names = names_in(object);
        let there: Vec<&str> = names.iter().map(String::as_str).collect();
        let help = match line {
            1 => columns.help,
            _ => "each row needs it; `null` is an empty text",
        };
        return Err(missing_columns(path, Some(line), &missing, &there, help));
    }
    let cell = |name: Option<&str>| name.map_or_else(|| Ok(String::new()), column);
    Ok(DataRow {
        text: column(columns.text)?,
        text_pair: cell(columns.text_pair)?,
        label: cell(columns.label)?,
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{COLUMNS, assert_begins, read, row};
    use super::super::{Layout, rows};
    use super::*;

    #[test]
    fn a_list_of_objects_is_read_with_its_lines() {
        let content =
            "[\n  {\"text\": \"x\",\n   \"label\": 1},\n  {\"text\": \"y\", \"label\": \"b\"}\n]\n";
        assert_eq!(
            read("a.json", content, Layout::default()).unwrap(),
            [row("x", "1", 2), row("y", "b", 4)]
        );
        // As `datasets` writes it.
        let lines = "{\"text\": \"x\", \"label\": 1}\n";
        assert_eq!(read("a.json", lines, Layout::default()).unwrap(), [row("x", "1", 1)]);
        let said = |content: &str| read("a.json", content, Layout::default()).unwrap_err();
        assert_begins(&said("[\n{\"text\": \"x\"}]"), "a.json:2: there is no column `label`");
        assert_begins(&said("[\n{\"text\": \"x\",}]"), "a.json:2: not JSON: ");
        assert_begins(&said("[\n\n3]"), "a.json:3: not a JSON object");
        assert_begins(&said("[]"), "a.json: the file has a header but no rows");
    }

    #[test]
    fn the_values_of_objects_are_columns_with_both_names() {
        let columns = Columns { text: "a.en", text_pair: Some("a.b.c"), ..COLUMNS };
        let read = |line: &str| rows(Path::new("a.jsonl"), line, columns, Layout::default());
        let line = r#"{"a": {"en": "x", "b.c": "y"}, "label": 1}"#;
        let found = read(line).unwrap();
        assert_eq!((&*found[0].text, &*found[0].text_pair, &*found[0].label), ("x", "y", "1"));
        let found = read(r#"{"a.en": "z", "a": {"b": {"c": 2}, "en": "x"}, "label": 1}"#).unwrap();
        assert_eq!((&*found[0].text, &*found[0].text_pair), ("z", "2"));
        let empty = read("{\"a\": null, \"label\": 1}").unwrap();
        assert_eq!((&*empty[0].text, &*empty[0].text_pair), ("", ""));
        let missing = read(r#"{"a": {"fr": "x"}, "label": 1}"#).unwrap_err().to_string();
        assert_begins(
            &missing,
            "a.jsonl:1: there are no columns `a.en`, `a.b.c`; columns are `a.fr`, `label`",
        );
    }

    #[test]
    fn a_list_of_rows_inside_of_an_object_is_refused_with_the_way_out() {
        for content in [
            r#"{"version": 1, "data": [{"text": "x", "label": "a"}]}"#,
            "{\n \"data\": [\n  {\"text\": \"x\"},\n  {\"text\": \"y\"}]\n}\n",
        ] {
            let refused = read("d/a.json", content, Layout::default()).unwrap_err();
            assert!(refused.contains(" rows are inside of `data` (write them as"), "{refused}");
            assert!(refused.contains("open('d/a-rows.json', 'x')"), "{refused}");
        }
        let odd = r#"{"da'ta$(x)": [{"text": "x"}]}"#;
        let refused = read("d/a.json", odd, Layout::default()).unwrap_err();
        assert!(refused.contains("(write that list alone into a separate file)"), "{refused}");
        let by_column = r#"{"text": {"0": "a", "1": "b"}, "label": {"0": "x", "1": "y"}}"#;
        let refused = read("a.json", by_column, Layout::default()).unwrap_err();
        assert_begins(&refused, "a.json: it has an object of values for each column, not rows");
        let nested = r#"{"version": "1.1", "data": [{"title": "x", "paragraphs": []}]}"#;
        let refused = read("a.json", nested, Layout::default()).unwrap_err();
        assert_begins(&refused, "a.json: it has its rows inside of lists, as SQuAD's own files");
        let lines = "{\"text\": \"x\", \"label\": [{}]}\n{\"text\": \"y\", \"label\": 1}\n";
        assert!(rows_inside(Path::new("a.json"), lines).is_none());
        assert!(rows_inside(Path::new("a.json"), r#"{"text": "x", "label": ["a"]}"#).is_none());
    }
}
