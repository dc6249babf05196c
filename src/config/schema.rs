//! The JSON Schema of study files, for editors, generated from the tables that parse them.

use serde_json::{Map, Value as Json, json};

use super::tables::{Contents, TABLES, TableSchema};
use crate::arguments::{ARGUMENTS, DATA_ARGUMENTS, table_schema};
use crate::pruners::PRUNERS;
use crate::samplers::SAMPLERS;
use crate::study::field::{Field, FieldKind, object_schema};
use crate::study::registry::RegistryEntry;

/// The schema. It leaves out unsupported keys and tables, so that editors mark them.
pub fn schema() -> Json {
    let properties: Map<String, Json> =
        TABLES.iter().map(|table| (table.name.to_owned(), table_of(table))).collect();
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

fn table_of(table: &TableSchema) -> Json {
    let mut schema = match table.contents {
        Contents::Keys => object_schema(table.fields),
        Contents::Space => space(),
        Contents::Constraints => {
            let mut one = object_schema(table.fields);
            one["oneOf"] =
                table.fields.iter().map(|field| json!({ "required": [field.name] })).collect();
            json!({ "type": "array", "items": one })
        }
        Contents::Configurations => json!({ "type": "array", "items": { "type": "object" } }),
        Contents::Sampler => {
            registered(table.fields, SAMPLERS.iter().map(RegistryEntry::described))
        }
        Contents::Pruner => registered(table.fields, PRUNERS.iter().map(RegistryEntry::described)),
        Contents::Trainer => table_schema(ARGUMENTS),
        Contents::Data => table_schema(DATA_ARGUMENTS),
    };
    if table.name == "command" {
        schema["required"] = json!(["run"]);
    }
    schema["description"] = table.doc.into();
    schema
}

/// Parameters by name, nested as deep as dotted names go.
fn space() -> Json {
    let scalar = FieldKind::Scalar.schema();
    let choices = json!({ "type": "array", "items": scalar, "minItems": 1 });
    let bounds = |number: &str| {
        json!({
            "type": "array", "items": { "type": number }, "minItems": 2, "maxItems": 2,
        })
    };
    let when = json!({
        "type": "object",
        "additionalProperties": { "anyOf": [scalar, choices, { "type": "object" }] },
        "minProperties": 1,
    });
    let axis = json!({ "type": "boolean", "description": "equal ratios matter \
        equally", "default": false });
    let one = |kind: &str, range: Json, step: Option<Json>| {
        let mut properties = Map::new();
        properties.insert(kind.to_owned(), range);
        properties.insert(
            "prior".to_owned(),
            json!({ "anyOf": [scalar], "description": "where the best value is expected" }),
        );
        properties.insert("when".to_owned(), when.clone());
        if let Some(step) = step {
            properties.insert("step".to_owned(), step);
            properties.insert("log".to_owned(), axis.clone());
        }
        let mut schema =
            json!({ "type": "object", "properties": properties, "additionalProperties": false });
        schema["required"] = json!([kind]);
        schema
    };
    let parameter = json!({ "anyOf": [
        choices,
        one("choice", choices.clone(), None),
        one("float", bounds("number"), Some(json!({ "type": "number", "exclusiveMinimum": 0 }))),
        one("int", bounds("integer"), Some(json!({ "type": "integer", "minimum": 1 }))),
        {
            "type": "object",
            "additionalProperties": { "$ref": "#/properties/space/additionalProperties" },
            "not": { "anyOf": [
                { "required": ["float"] }, { "required": ["int"] }, { "required": ["choice"] }
            ] },
        },
    ] });
    let file = json!({ "type": "string", "description": "a CSV or TSV file whose rows are the only \
        configurations" });
    let file = json!({ "anyOf": [file, parameter] });
    json!({
        "type": "object", "properties": { "file": file }, "additionalProperties": parameter,
        "minProperties": 1,
    })
}

/// One alternative per sampler or pruner, with its own options; the first also matches a table
/// without `type`.
fn registered(fields: &[Field], entries: impl Iterator<Item = RegistryEntry<()>>) -> Json {
    let alternative = |entry: RegistryEntry<()>| {
        let mut schema = object_schema(fields.iter().chain(entry.options));
        let names: Vec<&str> =
            std::iter::once(entry.name).chain(entry.aliases.iter().copied()).collect();
        schema["properties"]["type"] = json!({ "enum": names, "description": entry.summary });
        schema
    };
    json!({ "type": "object", "anyOf": entries.map(alternative).collect::<Json>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_every_key_that_is_taken_and_no_other() {
        let schema = schema();
        for table in TABLES {
            let properties = &schema["properties"][table.name];
            assert!(!properties.is_null(), "{}", table.name);
            for field in table.fields.iter().filter(|_| table.contents == Contents::Keys) {
                assert!(
                    !properties["properties"][field.name].is_null(),
                    "{}.{}",
                    table.name,
                    field.name
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
