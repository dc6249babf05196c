//! The JSON Schema of a study file, for editors, from the same tables that parse it.

use serde_json::{Map, Value as Json, json};

use super::keys::{self, COMMAND_METRICS, Contents, Key, KeyKind, OBJECTIVE, TABLES, TableKeys};
use crate::arguments::{ARGUMENTS, DATA_ARGUMENTS, table_schema};
use crate::pruners::PRUNERS;
use crate::samplers::SAMPLERS;
use crate::study::registry::{OptionKind, OptionSpec};

/// The schema. Keys and tables that are not supported yet are left out, so that an editor marks them.
pub fn schema() -> Json {
    let tables = TABLES.iter().filter(|table| table.contents != Contents::NotYet);
    let properties: Map<String, Json> =
        tables.map(|table| (table.name.to_owned(), table_of(table))).collect();
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "hpsearch study file",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "required": ["study", "space"],
        "oneOf": [{ "required": ["trainer", "data"] }, { "required": ["command"] }],
    })
}

fn table_of(table: &TableKeys) -> Json {
    let mut schema = match table.contents {
        Contents::Keys | Contents::NotYet => object(keys_of(table.keys)),
        Contents::Space => space(),
        Contents::Constraints => {
            let mut one = object(keys_of(table.keys));
            one["oneOf"] = table.keys.iter().map(|key| json!({ "required": [key.name] })).collect();
            json!({ "type": "array", "items": one })
        }
        Contents::Configurations => json!({ "type": "array", "items": { "type": "object" } }),
        Contents::Sampler => policy(
            table.keys,
            SAMPLERS
                .iter()
                .map(|entry| (names(entry.name, entry.aliases), entry.summary, entry.options))
                .collect(),
        ),
        Contents::Pruner => policy(
            table.keys,
            PRUNERS
                .iter()
                .map(|entry| (names(entry.name, entry.aliases), entry.summary, entry.options))
                .collect(),
        ),
        Contents::Trainer => arguments(ARGUMENTS),
        Contents::Data => arguments(DATA_ARGUMENTS),
    };
    if table.name == "command" {
        schema["required"] = json!(["run"]);
    }
    schema["description"] = table.summary.into();
    schema
}

fn object(properties: Map<String, Json>) -> Json {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn keys_of(keys: &[Key]) -> Map<String, Json> {
    keys.iter().map(|key| (key.name.to_owned(), key_of(key))).collect()
}

fn key_of(key: &Key) -> Json {
    let default = serde_json::from_str::<Json>(key.default).ok();
    let mut schema = kind(key.kind);
    schema["description"] = key.summary.into();
    if let Some(default) = default {
        schema["default"] = default;
    }
    schema
}

fn kind(kind: KeyKind) -> Json {
    let whole = |min: i64, max: i64| {
        if max == i64::MAX {
            json!({ "type": "integer", "minimum": min })
        } else {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
    };
    match kind {
        KeyKind::Text | KeyKind::Path => json!({ "type": "string", "minLength": 1 }),
        KeyKind::Word { accepted, .. } => json!({ "enum": accepted }),
        KeyKind::Direction => json!({ "enum": keys::DIRECTIONS }),
        KeyKind::Whole { min, max } => whole(min, max),
        KeyKind::WholeOrAuto { min, max } => {
            json!({ "anyOf": [whole(min, max), { "const": "auto" }] })
        }
        KeyKind::Number => json!({ "type": "number" }),
        KeyKind::Amount => json!({ "type": "number", "exclusiveMinimum": 0 }),
        KeyKind::Flag => json!({ "type": "boolean" }),
        KeyKind::Duration => {
            json!({ "type": "string", "pattern": r"^\s*([0-9.]+d)?\s*([0-9.]+h)?\s*([0-9.]+m)?\s*([0-9.]+s)?\s*$", "examples": ["90m", "2h30m", "1d"] })
        }
        KeyKind::Size => {
            json!({ "type": "string", "pattern": r"^\s*[0-9.]+\s*([KMGT]i|[kMGT])?B\s*$", "examples": ["50GiB", "800MiB"] })
        }
        KeyKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        KeyKind::Words(words) => json!({ "type": "array", "items": { "enum": words } }),
        KeyKind::Devices => {
            let device = json!({ "type": "string", "pattern": r"^(cpu|ndarray|cuda:(\*|\d+)|wgpu:\d+|sim:\d+(\.\.\d+)?)$" });
            json!({ "anyOf": [{ "const": "auto" }, device, { "type": "array", "items": device, "minItems": 1, "uniqueItems": true }] })
        }
        KeyKind::Keep => json!({ "type": "string", "pattern": "^(best-[1-9][0-9]*|all|none)$" }),
        KeyKind::Environment => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        KeyKind::CommandMetrics => object(keys_of(COMMAND_METRICS)),
        KeyKind::TextOrTexts => json!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        }),
        KeyKind::Objectives => {
            json!({ "type": "array", "items": object(keys_of(OBJECTIVE)), "minItems": 1, "maxItems": 1 })
        }
    }
}

/// Parameters by their names, nested as deep as dotted names go.
fn space() -> Json {
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    let choices = json!({ "type": "array", "items": scalar, "minItems": 1 });
    let bounds = |number: &str| json!({ "type": "array", "items": { "type": number }, "minItems": 2, "maxItems": 2 });
    let when = json!({ "type": "object", "additionalProperties": { "anyOf": [scalar, choices, { "type": "object" }] }, "minProperties": 1 });
    let axis = json!({ "type": "boolean", "description": "equal ratios matter equally", "default": false });
    let one = |kind: &str, range: Json, step: Option<Json>| {
        let mut properties = Map::new();
        properties.insert(kind.to_owned(), range);
        properties.insert("prior".to_owned(), json!({ "type": ["string", "number", "boolean"], "description": "where the best value is expected" }));
        properties.insert("when".to_owned(), when.clone());
        if let Some(step) = step {
            properties.insert("step".to_owned(), step);
            properties.insert("log".to_owned(), axis.clone());
        }
        let mut schema = object(properties);
        schema["required"] = json!([kind]);
        schema
    };
    let parameter = json!({ "anyOf": [
        choices,
        one("choice", choices.clone(), None),
        one("float", bounds("number"), Some(json!({ "type": "number", "exclusiveMinimum": 0 }))),
        one("int", bounds("integer"), Some(json!({ "type": "integer", "minimum": 1 }))),
        { "type": "object", "additionalProperties": { "$ref": "#/properties/space/additionalProperties" }, "not": { "anyOf": [
            { "required": ["float"] }, { "required": ["int"] }, { "required": ["choice"] }
        ] } },
    ] });
    json!({ "type": "object", "additionalProperties": parameter, "minProperties": 1 })
}

/// One alternative for each policy, with its own options; the first also serves a table without `type`.
fn policy(keys: &[Key], entries: Vec<(Vec<&str>, &str, &[OptionSpec])>) -> Json {
    let fixed = keys_of(keys);
    let alternatives: Vec<Json> = entries
        .into_iter()
        .map(|(names, summary, options)| {
            let mut properties = fixed.clone();
            properties.insert("type".to_owned(), json!({ "enum": names, "description": summary }));
            properties
                .extend(options.iter().map(|option| (option.name.to_owned(), option_of(option))));
            object(properties)
        })
        .collect();
    json!({ "type": "object", "anyOf": alternatives })
}

fn names<'a>(name: &'a str, aliases: &[&'a str]) -> Vec<&'a str> {
    std::iter::once(name).chain(aliases.iter().copied()).collect()
}

fn option_of(option: &OptionSpec) -> Json {
    let mut schema = match option.kind {
        OptionKind::Int { min, max: i64::MAX } => json!({ "type": "integer", "minimum": min }),
        OptionKind::Int { min, max } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        OptionKind::Float { min, max } => {
            json!({ "type": "number", "minimum": min, "maximum": max })
        }
        OptionKind::Bool => json!({ "type": "boolean" }),
        OptionKind::Word(words) => json!({ "enum": words }),
    };
    schema["description"] = format!("{} (default: {})", option.summary, option.default).into();
    schema
}

/// Arguments nested, and quoted dotted names and aliases beside them.
fn arguments(table: &[crate::arguments::Argument]) -> Json {
    let mut schema = table_schema(table);
    for argument in table {
        let mut own = argument.kind.schema();
        own["description"] = argument.doc.into();
        for name in
            argument.aliases.iter().chain(argument.name.contains('.').then_some(&argument.name))
        {
            schema["properties"][*name] = own.clone();
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_every_key_that_is_taken_and_no_other() {
        let schema = schema();
        for table in TABLES {
            let properties = &schema["properties"][table.name];
            assert_eq!(properties.is_null(), table.contents == Contents::NotYet, "{}", table.name);
            for key in table.keys.iter().filter(|_| table.contents == Contents::Keys) {
                assert!(
                    !properties["properties"][key.name].is_null(),
                    "{}.{}",
                    table.name,
                    key.name
                );
            }
        }
    }

    #[test]
    fn the_schema_has_every_sampler_and_pruner_with_its_options() {
        let text = schema().to_string();
        let names =
            SAMPLERS.iter().map(|entry| entry.name).chain(PRUNERS.iter().map(|entry| entry.name));
        let options = SAMPLERS
            .iter()
            .flat_map(|entry| entry.options)
            .chain(PRUNERS.iter().flat_map(|entry| entry.options));
        for name in names.chain(options.map(|option| option.name)) {
            assert!(text.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
