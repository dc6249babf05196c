//! `--set key=value` of verbs that take arguments of `[data]` without a study file.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::diagnostic::{Diagnostics, Source};
use super::overrides::{self, Spelling};
use super::syntax::{Form, Item, TomlTable};
use super::trainer;

const SPELLING: Spelling = Spelling { form: "key=value", example: "label=intent" };

/// Arguments of `[data]` from overrides (`label=intent` or `data.label=intent`), whose values are
/// read as those of a study file are; the last of several stands. `others`: those that they replace
/// or join.
///
/// # Errors
/// An override has no value, no such key, or a value that the key does not take.
pub fn data_overrides(
    overrides: &[String],
    others: &BTreeMap<String, Json>,
) -> Result<BTreeMap<String, Json>, Diagnostics> {
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    let mut table = TomlTable { form: Form::Header, entries: Vec::new() };
    for set in overrides {
        let (text, overlay) = overrides::read(set, sources.len(), SPELLING, &mut problems);
        sources.push(Source { name: "--set".to_owned(), text });
        for entry in overlay.into_iter().flat_map(|overlay| overlay.entries) {
            let entries = match entry.value.item {
                Item::Table(inner) if entry.key == "data" => inner.entries,
                _ => vec![entry],
            };
            for entry in entries {
                let path = entry.key.clone();
                overrides::put(&mut table, entry, &path, &mut problems);
            }
        }
    }
    let values = trainer::read_some_data(&table, others, &mut problems);
    if problems.is_empty() { Ok(values) } else { Err(Diagnostics::new(sources, problems)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Look;
    use serde_json::json;

    fn read(sets: &[&str]) -> Result<BTreeMap<String, Json>, String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let others = BTreeMap::from([("text_pair".to_owned(), json!("review"))]);
        data_overrides(&sets, &others).map_err(|problems| problems.render(Look::Plain))
    }

    #[test]
    fn values_are_read_as_those_of_a_study_file() {
        let read = read(&[
            "text=body",
            "data.label = \"the stars\"",
            "max_length=64",
            "max_length=32",
            "clean.drop_empty=true",
        ])
        .unwrap();
        let expected = json!({
            "text": "body", "label": "the stars", "max_length": 32, "clean.drop_empty": true
        });
        assert_eq!(json!(read), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_the_override() {
        for (set, said) in [
            ("label", "write `--set key=value`, for example `--set label=intent`"),
            ("labl=intent", "did you mean `label`?"),
            ("max_length=long", "max_length"),
            ("seed=18446744073709551616", "this number is too large"),
            ("label=[", "an override is `--set key=value`, with the value as TOML"),
        ] {
            let refused = read(&[set]).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
