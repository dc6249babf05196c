//! The columns of rows in JSON, in their order.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::{BYTES, Column, DataTable, LOOKED_AT};
use crate::arguments::data_file::{self, DataProblem};

/// The objects of lines.
pub(super) fn lines(path: &Path, input: impl BufRead) -> Result<DataTable, DataProblem> {
    let mut table = DataTable::new(Vec::new());
    let mut bytes = 0;
    for (line, text) in (1..).zip(input.lines()) {
        let problem = |what: String| DataProblem::new(path, Some(line), what);
        let text = text.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                problem("not UTF-8".to_owned()).with_help(data_file::encoding_help(&[]))
            }
            _ => problem(format!("cannot be read: {error}")).with_help("make the file readable"),
        })?;
        if text.trim().is_empty() {
            continue;
        }
        bytes += text.len() as u64 + 1;
        if table.rows == LOOKED_AT || bytes >= BYTES && table.rows > 0 {
            table.is_cut = true;
            break;
        }
        if bytes >= BYTES {
            return Err(problem(format!("a line of more than {} MiB", BYTES >> 20))
                .with_help("is it a file of rows? It must have one row per line"));
        }
        let row: Ordered = serde_json::from_str(&text).map_err(|error| {
            problem(format!("not a JSON object: {error}"))
                .with_help("a .jsonl file has one JSON object on each line")
        })?;
        table.add(row);
    }
    Ok(table)
}

/// A list of objects; as a whole, since lists are small.
pub(super) fn list(path: &Path, input: impl Read) -> Result<DataTable, DataProblem> {
    let rows: Vec<Ordered> = serde_json::from_reader(input).map_err(|error| {
        let line = u64::try_from(error.line()).ok().filter(|line| *line > 0);
        DataProblem::new(path, line, format!("not a list of JSON objects: {error}"))
            .with_help("a .json file has a list of objects, or one object on each line")
    })?;
    let mut table = DataTable::new(Vec::new());
    table.is_cut = rows.len() > LOOKED_AT;
    rows.into_iter().take(LOOKED_AT).for_each(|row| table.add(row));
    Ok(table)
}

/// An object with its keys in their order.
struct Ordered(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Ordered;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut from: M) -> Result<Ordered, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = from.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Ordered(pairs))
            }
        }
        from.deserialize_map(Pairs)
    }
}

impl DataTable {
    /// Adds a row, whose names may be new.
    fn add(&mut self, Ordered(row): Ordered) {
        for (name, value) in row {
            self.add_value(name, &value);
        }
        self.rows += 1;
    }

    fn add_value(&mut self, name: String, value: &RawValue) {
        let text = value.get();
        // Each value of an object of texts is a column; SQuAD's answers are objects of lists.
        if let Ok(Ordered(inside)) = serde_json::from_str(text)
            && !inside.is_empty()
            && inside.iter().all(|(_, one)| !one.get().starts_with('['))
        {
            for (key, value) in inside {
                self.add_value(format!("{name}.{key}"), &value);
            }
            return;
        }
        let value: Json = serde_json::from_str(text).unwrap_or_default();
        let list = value.as_array().and_then(|all| {
            let scalar = |one: &Json| match one {
                Json::String(text) => Some(text.clone()),
                Json::Number(number) => Some(number.to_string()),
                _ => None,
            };
            all.iter().map(scalar).collect::<Option<Vec<String>>>()
        });
        let text = match value {
            Json::String(text) => text,
            Json::Null => String::new(),
            other => other.to_string(),
        };
        let at = *self.places.entry(name).or_insert_with_key(|name| {
            self.columns.push(Column::new(name));
            self.columns.len() - 1
        });
        match list {
            Some(list) => self.columns[at].add_list(&list),
            None => self.columns[at].add(&text),
        }
    }
}
