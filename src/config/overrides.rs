//! `--set table.key=value`: overrides of the study file from the command line.

use super::diagnostic::{Diagnostic, Source, SourceSpan};
use super::sampler_pruner::{default_type, options_of};
use super::space::KINDS;
use super::syntax::{self, Form, Item, Node, TomlEntry, TomlTable, dotted};
use super::tables::{self, Contents, TABLES};
use crate::study::field;
use crate::study::suggestion::nearest;

/// How the overrides of a verb are written, for its messages.
#[derive(Clone, Copy)]
pub(super) struct Spelling {
    /// Their form.
    pub form: &'static str,
    /// One of them.
    pub example: &'static str,
}

const SPELLING: Spelling = Spelling { form: "table.key=value", example: "budget.trials=48" };

/// Applies one override, with source number `source`, to `tree`.
pub(super) fn apply(
    tree: &mut TomlTable,
    text: &str,
    source: usize,
    problems: &mut Vec<Diagnostic>,
) -> Source {
    let (text, overlay) = read(text, source, SPELLING, problems);
    for entry in overlay.into_iter().flat_map(|overlay| overlay.entries) {
        if let Some(problem) = misplaced(&entry).or_else(|| whole_table(&entry)) {
            problems.push(problem);
        } else {
            let entry = of_objective(tree, entry);
            drop_what_it_replaces(tree, &entry);
            let path = entry.key.clone();
            put(tree, entry, &path, problems);
        }
    }
    Source { name: "--set".to_owned(), text }
}

/// Parses an override; a bare word becomes a string.
pub(super) fn read(
    text: &str,
    source: usize,
    Spelling { form, example }: Spelling,
    problems: &mut Vec<Diagnostic>,
) -> (String, Option<TomlTable>) {
    let everything = SourceSpan { source, start: 0, end: text.len() };
    let Some((key, value)) = text.split_once('=') else {
        let problem = Diagnostic::error(everything, format!("the override `{text}` has no `=`"));
        problems.push(problem.help(format!("write `--set {form}`, for example `--set {example}`")));
        return (text.to_owned(), None);
    };
    let mut own = Vec::new();
    let tree = syntax::parse(text, source, &mut own);
    if own.is_empty() {
        return (text.to_owned(), Some(tree));
    }
    let bare = value.trim();
    if is_beyond_numbers(bare) {
        problems.extend(own);
        return (text.to_owned(), None);
    }
    // `.1`, as other languages have it.
    if let Some(number) = syntax::toml_number(bare).filter(|_| bare.contains('.')) {
        let text = format!("{key}={number}");
        let tree = syntax::parse(&text, source, problems);
        return (text, Some(tree));
    }
    let is_word = !bare.is_empty()
        && !bare.starts_with(['[', '{', '"', '\''])
        && !bare.contains(['\n', '\r']);
    if is_word {
        let quoted = format!("{key}={}", toml::Value::String(bare.to_owned()));
        let mut again = Vec::new();
        let tree = syntax::parse(&quoted, source, &mut again);
        if again.is_empty() {
            return (quoted, Some(tree));
        }
    }
    own.truncate(1);
    problems.extend(own.into_iter().map(|problem| {
        problem.help(format!("an override is `--set {form}`, with the value as TOML"))
    }));
    (text.to_owned(), None)
}

/// Whether a value is a number that is too large, and so no word.
fn is_beyond_numbers(bare: &str) -> bool {
    let digits = bare.trim_start_matches(['+', '-']).replace('_', "");
    let is_number = digits.starts_with(|char: char| ('1'..='9').contains(&char));
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        && match is_integer {
            true => digits.parse::<i64>().is_err(),
            false => digits.parse::<f64>().is_ok_and(f64::is_infinite),
        }
}

/// An override without a table.
fn misplaced(entry: &TomlEntry) -> Option<Diagnostic> {
    if tables::find(&entry.key).is_some() {
        return None;
    }
    let problem =
        Diagnostic::error(entry.place, format!("the study file has no table `{}`", entry.key))
            .label("an override begins with a table");
    if let Some(owner) = tables::owners(&entry.key).next() {
        return Some(
            problem.help(format!("did you mean `--set {}.{}=...`?", owner.name, entry.key)),
        );
    }
    Some(match nearest(&entry.key, TABLES.iter().map(|table| table.name)) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("write for example `--set budget.trials=48`"),
    })
}

/// An override of a table by a value that is not one.
fn whole_table(entry: &TomlEntry) -> Option<Diagnostic> {
    let table = tables::find(&entry.key)?;
    if matches!(entry.value.item, Item::Table(_)) || table.contents == Contents::Configurations {
        return None;
    }
    let problem = Diagnostic::error(entry.place, format!("`{}` is a table", table.name))
        .label("which of its keys?");
    let first = field::find(table.fields, "type").or(table.fields.first().copied());
    let key = first.map_or("key", |field| field.name);
    Some(problem.help(format!("write for example `--set {}.{key}=...`", table.name)))
}

/// Removes what an override makes meaningless in the file: options of another sampler or pruner, a
/// parameter's other kind of range, the other source of the rows of a split. Other overrides, and
/// misspelt keys of the file, which are reported, stay.
fn drop_what_it_replaces(tree: &mut TomlTable, entry: &TomlEntry) {
    let Item::Table(overlay) = &entry.value.item else { return };
    let Some(table) = tree
        .entries
        .iter_mut()
        .find(|own| own.key == entry.key)
        .and_then(|own| own.value.table_mut())
    else {
        return;
    };
    let is_of_file = |entry: &TomlEntry| entry.place.source == 0;
    match entry.key.as_str() {
        "sampler" | "pruner" => {
            let chosen = |table: &TomlTable| {
                table.get("type").and_then(|own| own.value.text()).map(str::to_owned)
            };
            let after = chosen(overlay).map(|name| options_of(&entry.key, &name));
            let Some(Ok(after)) = after else { return };
            let name = chosen(table).unwrap_or_else(|| default_type(&entry.key).to_owned());
            let before = options_of(&entry.key, &name).unwrap_or_default();
            table.entries.retain(|own| {
                !is_of_file(own)
                    || field::find(before, &own.key).is_none()
                    || field::find(after, &own.key).is_some()
            });
        }
        "space" => {
            let Some((name, kind)) =
                leaf(overlay).filter(|(_, kind)| KINDS.contains(&kind.as_str()))
            else {
                return;
            };
            let Some(parameter) =
                parameter(table, &name).filter(|parameter| parameter.get(&kind).is_none())
            else {
                return;
            };
            parameter.entries.retain(|own| {
                !is_of_file(own)
                    || ![&KINDS[..], &["log", "step"]].concat().contains(&own.key.as_str())
            });
        }
        "data" => {
            let keys = overlay.entries.iter().filter_map(|own| other_source(&own.key));
            let others: Vec<&str> = keys.collect();
            table.entries.retain(|own| !is_of_file(own) || !others.contains(&own.key.as_str()));
        }
        "study" if overlay.get("objective").is_some() => table
            .entries
            .retain(|own| !is_of_file(own) || !["metric", "direction"].contains(&own.key.as_str())),
        _ => {}
    }
}

/// The key of `[data]` that names other rows for the same split.
pub(super) fn other_source(key: &str) -> Option<&'static str> {
    let pairs = [("validation", "validation_split"), ("test", "test_split")];
    pairs.into_iter().find_map(|(file, share)| match key {
        _ if key == file => Some(share),
        _ if key == share => Some(file),
        _ => None,
    })
}

/// The path of a dotted override's single value: all but its last key, and that key.
fn leaf(overlay: &TomlTable) -> Option<(String, String)> {
    let mut path = String::new();
    let mut table = overlay;
    loop {
        let [entry] = table.entries.as_slice() else { return None };
        match &entry.value.item {
            Item::Table(nested) if nested.form == Form::Dotted => {
                path = dotted(&path, &entry.key);
                table = nested;
            }
            _ => return Some((path, entry.key.clone())),
        }
    }
}

/// The table of the parameter `name`, whether dotted, quoted or nested.
fn parameter<'a>(table: &'a mut TomlTable, name: &str) -> Option<&'a mut TomlTable> {
    let rest = |key: &str| {
        name.strip_prefix(key).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned)
    };
    let own = table.entries.iter_mut().find(|own| own.key == name || rest(&own.key).is_some())?;
    match rest(&own.key) {
        None => own.value.table_mut(),
        Some(rest) => parameter(own.value.table_mut()?, &rest),
    }
}

/// Applies `study.metric` and `study.direction` to the file's single [[study.objective]], if it has
/// one.
fn of_objective(tree: &mut TomlTable, mut entry: TomlEntry) -> TomlEntry {
    let objectives = tree
        .entries
        .iter_mut()
        .find(|own| own.key == "study")
        .and_then(|own| own.value.table_mut());
    let objectives =
        objectives.and_then(|table| table.entries.iter_mut().find(|own| own.key == "objective"));
    let Some(Item::List(list)) = objectives.map(|own| &mut own.value.item) else { return entry };
    if let ("study", [objective], Item::Table(overlay)) =
        (entry.key.as_str(), list.as_mut_slice(), &mut entry.value.item)
        && let Some(objective) = objective.table_mut()
    {
        let (moved, rest) = std::mem::take(&mut overlay.entries)
            .into_iter()
            .partition(|own| ["metric", "direction"].contains(&own.key.as_str()));
        overlay.entries = rest;
        for own in moved {
            objective.entries.retain(|before| before.key != own.key);
            objective.entries.push(own);
        }
    }
    entry
}

/// Inserts `entry` at `path`, whether the file writes that path dotted, quoted or nested.
pub(super) fn put(
    table: &mut TomlTable,
    mut entry: TomlEntry,
    path: &str,
    problems: &mut Vec<Diagnostic>,
) {
    let found = table.entries.iter_mut().find(|own| {
        path == own.key
            || path.strip_prefix(own.key.as_str()).is_some_and(|rest| rest.starts_with('.'))
    });
    let dotted = matches!(&entry.value.item, Item::Table(nested) if nested.form == Form::Dotted);
    let Some(own) = found else {
        // `a.b` of the override may be the quoted key "a.b" of the file.
        if dotted
            && path == entry.key
            && table.entries.iter().any(|own| own.key.starts_with(&format!("{path}.")))
        {
            let Item::Table(nested) = entry.value.item else { return };
            for inner in nested.entries {
                let path = format!("{path}.{}", inner.key);
                put(table, TomlEntry { key: path.clone(), ..inner }, &path, problems);
            }
            return;
        }
        entry.key = path.to_owned();
        table.entries.push(entry);
        return;
    };
    let rest =
        path.strip_prefix(own.key.as_str()).unwrap_or_default().trim_start_matches('.').to_owned();
    match (&mut own.value.item, rest.is_empty(), entry.value.item) {
        (Item::Table(into), true, Item::Table(from)) if dotted => {
            for inner in from.entries {
                let path = inner.key.clone();
                put(into, inner, &path, problems);
            }
        }
        (_, true, item) if !dotted => {
            *own = TomlEntry {
                key: own.key.clone(),
                place: entry.place,
                value: Node { item, ..entry.value },
            }
        }
        (Item::Table(into), false, item) => {
            let inner = TomlEntry {
                key: rest.clone(),
                place: entry.place,
                value: Node { item, ..entry.value },
            };
            put(into, inner, &rest, problems);
        }
        _ => {
            let problem = Diagnostic::error(
                entry.place,
                format!("`{}` is {} in the study file, not a table", own.key, own.value.describe()),
            );
            problems.push(
                problem
                    .related(own.value.place, "written here")
                    .help(format!("leave out what follows `{}`", own.key)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn overridden(file: &str, text: &str) -> serde_json::Value {
        let mut problems = Vec::new();
        let mut tree = syntax::parse(file, 0, &mut problems);
        apply(&mut tree, text, 1, &mut problems);
        assert_eq!(problems, Vec::new());
        let place = SourceSpan { source: 0, start: 0, end: 0 };
        Node { place, item: Item::Table(tree) }.to_json()
    }

    #[test]
    fn an_override_replaces_adds_and_makes_tables() {
        assert_eq!(overridden("[budget]\ntrials = 3", "budget.trials=48")["budget"]["trials"], 48);
        assert_eq!(overridden("[budget]\ntrials = 3", "budget.time=90m")["budget"]["time"], "90m");
        assert_eq!(overridden("", "study.direction=maximize")["study"]["direction"], "maximize");
        let file = "[space]\nx = { float = [0, 1], log = true }";
        let range = overridden(file, "space.x={ int = [1, 2] }")["space"]["x"].clone();
        assert_eq!(range, json!({"int": [1, 2]}));
    }

    #[test]
    fn a_number_that_is_too_large_is_no_word() {
        for text in [
            "study.seed=18446744073709551616",
            "study.seed=-9_223_372_036_854_775_809",
            "budget.target=1e999",
        ] {
            let (mut problems, mut tree) = (Vec::new(), syntax::parse("", 0, &mut Vec::new()));
            apply(&mut tree, text, 1, &mut problems);
            let said = format!("{problems:?}");
            assert!(said.contains("integers reach to 9223372036854775807"), "{said}");
            assert!(said.contains("this number is too large"), "{said}");
        }
        assert_eq!(overridden("", "study.name=1e5x")["study"]["name"], "1e5x");
        assert_eq!(overridden("", "study.name=007")["study"]["name"], "007");
    }

    #[test]
    fn an_override_finds_dotted_quoted_and_nested_keys() {
        for file in [
            "[space]\n\"model.layers\" = [1]",
            "[space]\nmodel.layers = [1]",
            "[space.model]\nlayers = [1]",
        ] {
            let space = overridden(file, "space.model.layers=[2, 4]")["space"].to_string();
            assert!(space.contains("[2,4]") && !space.contains("[1]"), "{file}: {space}");
            let space = overridden(file, "space.\"model.layers\"=[2, 4]")["space"].to_string();
            assert!(space.contains("[2,4]") && !space.contains("[1]"), "{file}: {space}");
        }
    }

    #[test]
    fn another_type_leaves_the_options_of_the_one_before() {
        let file = "[pruner]\ntype = \"asha\"\nmin_resource = 1\nreduction_factor = 3\nslip = 1";
        assert_eq!(
            overridden(file, "pruner.type=none")["pruner"],
            json!({"type": "none", "slip": 1})
        );
        // Options that both have stay, as when the type does not change.
        let hyperband = overridden(file, "pruner.type=hyperband")["pruner"].clone();
        assert_eq!([&hyperband["min_resource"], &hyperband["reduction_factor"]], [1, 3]);
        assert_eq!(overridden(file, "pruner.type=asha")["pruner"]["min_resource"], 1);
        assert_eq!(overridden(file, "pruner.type=nonsense")["pruner"]["min_resource"], 1);
        let file = "[sampler]\ntype = \"tpe\"\nn_ei_candidates = 7\nwarm_start = [\"old\"]";
        assert_eq!(
            overridden(file, "sampler.type=random")["sampler"],
            json!({"type": "random", "warm_start": ["old"]})
        );
    }

    #[test]
    fn another_kind_of_range_replaces_the_one_before() {
        for file in [
            "[space]\nx.y = { float = [0, 1], log = true, prior = 1 }",
            "[space.x.y]\nfloat = [0, 1]\nlog = true\nprior = 1",
            "[space]\n\"x.y\" = { float = [0, 1], log = true, prior = 1 }",
        ] {
            let space = overridden(file, "space.x.y.int=[1, 4]")["space"].clone();
            let parameter = space.get("x.y").unwrap_or_else(|| &space["x"]["y"]).clone();
            assert_eq!(parameter, json!({"int": [1, 4], "prior": 1}), "{file}");
            let same_kind = overridden(file, "space.x.y.float=[2, 4]").to_string();
            assert!(same_kind.contains("log"), "{file}");
        }
        // Parameters may have the names of kinds.
        let file = "[space]\nfloat = [1, 2]\nz.log = { int = [1, 2] }";
        let space = overridden(file, "space.int=[3, 4]")["space"].to_string();
        assert!(space.contains("\"float\":[1,2]") && space.contains("log"), "{space}");
    }

    #[test]
    fn an_objective_is_overridden_in_the_form_it_has() {
        let file = "[[study.objective]]\nmetric = \"loss\"\ndirection = \"minimize\"";
        let expected = json!({"objective": [{"direction": "minimize", "metric": "accuracy"}]});
        assert_eq!(overridden(file, "study.metric=accuracy")["study"], expected);
        let file = "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"";
        let objective = "study.objective=[{ metric = \"a\", direction = \"maximize\" }]";
        let expected =
            json!({"name": "s", "objective": [{"direction": "maximize", "metric": "a"}]});
        assert_eq!(overridden(file, objective)["study"], expected);
    }

    #[test]
    fn words_are_strings_and_toml_values_keep_their_kinds() {
        assert_eq!(overridden("", "study.name=my-run_2")["study"]["name"], "my-run_2");
        assert_eq!(overridden("", "study.seed = 7")["study"]["seed"], 7);
        for (written, number) in [(".1", 0.1), ("5.", 5.0), ("-.5", -0.5), ("+1.e-4", 1e-4)] {
            let text = format!("budget.target={written}");
            assert_eq!(overridden("", &text)["budget"]["target"], number, "{written}");
        }
        assert_eq!(overridden("", "study.name=\"a b\"")["study"]["name"], "a b");
        assert_eq!(overridden("", "checkpoints.dir=/tmp/a b")["checkpoints"]["dir"], "/tmp/a b");
    }
}
