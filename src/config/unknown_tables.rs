//! Tables that a study file cannot have, and what was probably meant by them.

use super::diagnostic::Diagnostic;
use super::syntax::{Item, TomlEntry, TomlTable};
use super::tables::{self, Contents, TABLES};
use crate::study::field;
use crate::study::suggestion::{nearest, quoted};

/// Reports unknown tables, unsupported ones, and values that should be tables.
pub(super) fn check_tables(tree: &TomlTable, problems: &mut Vec<Diagnostic>) {
    for entry in &tree.entries {
        let Some(table) = tables::find(&entry.key) else {
            problems.push(unknown_table(entry));
            continue;
        };
        match (table.contents, &entry.value.item) {
            (Contents::Configurations | Contents::Constraints, _) | (_, Item::Table(_)) => {}
            (_, Item::List(_)) => {
                let problem =
                    Diagnostic::error(entry.place, format!("[{}] is a single table", table.name))
                        .label("double brackets make a list");
                problems.push(problem.help(format!("write [{}] with single brackets", table.name)));
            }
            _ => {
                let problem =
                    Diagnostic::error(entry.place, format!("`{}` is a table", table.name));
                let problem = problem.label(format!("this is {}", entry.value.describe()));
                let first = field::find(table.fields, "type").map_or("...", |field| field.name);
                problems.push(problem.help(format!(
                    "write [{}] on a separate line, and `{first} = {}` under it",
                    table.name,
                    entry.value.to_json()
                )));
            }
        }
    }
}

fn unknown_table(entry: &TomlEntry) -> Diagnostic {
    let names = TABLES.iter().map(|table| table.name);
    if matches!(entry.value.item, Item::Table(_) | Item::List(_))
        || tables::owners(&entry.key).next().is_none()
    {
        let problem =
            Diagnostic::error(entry.place, format!("a study file has no table `{}`", entry.key))
                .label("unknown table");
        return match nearest(&entry.key, names.clone()) {
            Some(near) => problem.help(format!("did you mean [{near}]?")),
            None => problem.help(format!("its tables are {}", quoted(names))),
        };
    }
    let owner = tables::owners(&entry.key).next().map_or("study", |table| table.name);
    Diagnostic::error(entry.place, format!("`{}` is in no table", entry.key))
        .help(format!("write it under [{owner}]"))
}

/// The probable meanings of unknown tables, which are then not reported as missing.
pub(super) fn meant(tree: &TomlTable) -> Vec<&'static str> {
    let names = TABLES.iter().map(|table| table.name);
    let unknown = tree.entries.iter().filter(|entry| tables::find(&entry.key).is_none());
    unknown
        .filter_map(|entry| nearest(&entry.key, names.clone()))
        .filter_map(tables::find)
        .map(|table| table.name)
        .collect()
}
