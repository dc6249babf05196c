//! `--set table.key=value`: values of the command line put over those of the file.

use super::diagnostic::{Diagnostic, Place, Source};
use super::keys::{self, TABLES};
use super::suggestion::nearest;
use super::syntax::{self, Entry, Form, Item, Node, Table};

/// Puts one override, which becomes source number `source`, over `tree`.
pub(super) fn apply(tree: &mut Table, text: &str, source: usize, problems: &mut Vec<Diagnostic>) -> Source {
    let (text, overlay) = read(text, source, problems);
    for entry in overlay.into_iter().flat_map(|overlay| overlay.entries) {
        if let Some(problem) = misplaced(&entry).or_else(|| whole_table(&entry)) {
            problems.push(problem);
        } else {
            let path = entry.key.clone();
            put(tree, entry, &path, problems);
        }
    }
    Source { name: "--set".to_owned(), text }
}

/// The override as a tree; a bare word becomes a string.
fn read(text: &str, source: usize, problems: &mut Vec<Diagnostic>) -> (String, Option<Table>) {
    let everything = Place { source, start: 0, end: text.len() };
    let Some((key, value)) = text.split_once('=') else {
        let problem = Diagnostic::error(everything, format!("the override `{text}` has no `=`"));
        problems.push(problem.help("write `--set table.key=value`, for example `--set budget.trials=48`"));
        return (text.to_owned(), None);
    };
    let mut own = Vec::new();
    let tree = syntax::parse(text, source, &mut own);
    if own.is_empty() {
        return (text.to_owned(), Some(tree));
    }
    let bare = value.trim();
    let is_word = !bare.is_empty() && !bare.starts_with(['[', '{', '"', '\'']) && !bare.contains(['\n', '\r']);
    if is_word {
        let quoted = format!("{key}={}", toml::Value::String(bare.to_owned()));
        let mut again = Vec::new();
        let tree = syntax::parse(&quoted, source, &mut again);
        if again.is_empty() {
            return (quoted, Some(tree));
        }
    }
    own.truncate(1);
    problems.extend(own.into_iter().map(|problem| problem.help("an override is `--set table.key=value`, with the value as TOML")));
    (text.to_owned(), None)
}

/// An override that names no table.
fn misplaced(entry: &Entry) -> Option<Diagnostic> {
    if keys::find(&entry.key).is_some() {
        return None;
    }
    let problem = Diagnostic::error(entry.place, format!("the study file has no table `{}`", entry.key)).label("an override begins with a table");
    if let Some(owner) = keys::owners(&entry.key).next() {
        return Some(problem.help(format!("did you mean `--set {}.{}=...`?", owner.name, entry.key)));
    }
    Some(match nearest(&entry.key, TABLES.iter().map(|table| table.name)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("write for example `--set budget.trials=48`"),
    })
}

/// An override of a table by something that is none.
fn whole_table(entry: &Entry) -> Option<Diagnostic> {
    let table = keys::find(&entry.key)?;
    if matches!(entry.value.item, Item::Table(_)) || table.contents == keys::Contents::Configurations {
        return None;
    }
    let problem = Diagnostic::error(entry.place, format!("`{}` is a table", table.name)).label("which of its keys?");
    let key = table.keys.iter().find(|key| key.name == "type").or(table.keys.first()).map_or("key", |key| key.name);
    Some(problem.help(format!("write for example `--set {}.{key}=...`", table.name)))
}

/// Puts `entry` where `path` leads, whichever way the file writes that path: dotted, quoted or nested.
fn put(table: &mut Table, mut entry: Entry, path: &str, problems: &mut Vec<Diagnostic>) {
    let found = table.entries.iter_mut().find(|own| path == own.key || path.strip_prefix(own.key.as_str()).is_some_and(|rest| rest.starts_with('.')));
    let dotted = matches!(&entry.value.item, Item::Table(nested) if nested.form == Form::Dotted);
    let Some(own) = found else {
        // `a.b` of the override may be the quoted key "a.b" of the file.
        if dotted && path == entry.key && table.entries.iter().any(|own| own.key.starts_with(&format!("{path}."))) {
            let Item::Table(nested) = entry.value.item else { return };
            for inner in nested.entries {
                let path = format!("{path}.{}", inner.key);
                put(table, Entry { key: path.clone(), ..inner }, &path, problems);
            }
            return;
        }
        entry.key = path.to_owned();
        table.entries.push(entry);
        return;
    };
    let rest = path.strip_prefix(own.key.as_str()).unwrap_or_default().trim_start_matches('.').to_owned();
    match (&mut own.value.item, rest.is_empty(), entry.value.item) {
        (Item::Table(into), true, Item::Table(from)) if dotted => {
            for inner in from.entries {
                let path = inner.key.clone();
                put(into, inner, &path, problems);
            }
        }
        (_, true, item) if !dotted => *own = Entry { key: own.key.clone(), place: entry.place, value: Node { item, ..entry.value } },
        (Item::Table(into), false, item) => {
            let inner = Entry { key: rest.clone(), place: entry.place, value: Node { item, ..entry.value } };
            put(into, inner, &rest, problems);
        }
        _ => {
            let problem = Diagnostic::error(entry.place, format!("`{}` is {} in the study file, not a table", own.key, own.value.describe()));
            problems.push(problem.related(own.value.place, "written here").help(format!("leave out what follows `{}`", own.key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overridden(file: &str, text: &str) -> serde_json::Value {
        let mut problems = Vec::new();
        let mut tree = syntax::parse(file, 0, &mut problems);
        apply(&mut tree, text, 1, &mut problems);
        assert_eq!(problems, Vec::new());
        let place = Place { source: 0, start: 0, end: 0 };
        Node { place, item: Item::Table(tree) }.to_json()
    }

    #[test]
    fn an_override_replaces_adds_and_makes_tables() {
        assert_eq!(overridden("[budget]\ntrials = 3", "budget.trials=48")["budget"]["trials"], 48);
        assert_eq!(overridden("[budget]\ntrials = 3", "budget.time=90m")["budget"]["time"], "90m");
        assert_eq!(overridden("", "study.direction=maximize")["study"]["direction"], "maximize");
        assert_eq!(
            overridden("[space]\nx = { float = [0, 1], log = true }", "space.x={ int = [1, 2] }")["space"]["x"],
            serde_json::json!({"int": [1, 2]})
        );
    }

    #[test]
    fn an_override_finds_dotted_quoted_and_nested_keys() {
        for file in ["[space]\n\"model.layers\" = [1]", "[space]\nmodel.layers = [1]", "[space.model]\nlayers = [1]"] {
            let space = overridden(file, "space.model.layers=[2, 4]")["space"].to_string();
            assert!(space.contains("[2,4]") && !space.contains("[1]"), "{file}: {space}");
            let space = overridden(file, "space.\"model.layers\"=[2, 4]")["space"].to_string();
            assert!(space.contains("[2,4]") && !space.contains("[1]"), "{file}: {space}");
        }
    }

    #[test]
    fn words_are_strings_and_toml_values_keep_their_kinds() {
        assert_eq!(overridden("", "study.name=my-run_2")["study"]["name"], "my-run_2");
        assert_eq!(overridden("", "study.seed = 7")["study"]["seed"], 7);
        assert_eq!(overridden("", "study.name=\"a b\"")["study"]["name"], "a b");
        assert_eq!(overridden("", "checkpoints.dir=/tmp/a b")["checkpoints"]["dir"], "/tmp/a b");
    }
}
