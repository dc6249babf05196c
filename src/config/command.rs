//! `[command]`: a program with `{name}` where a parameter's value goes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use super::diagnostic::{Diagnostic, Place};
use super::keys;
use super::section::Section;
use super::space::Searched;
use super::suggestion::{nearest, quoted};
use super::syntax::{Node, Table};
use crate::study::{EnvironmentValue, Program};

/// What a placeholder may have been meant for that is in the environment instead.
const VARIABLES: &[(&str, &str)] = &[
    ("seed", "HPSEARCH_SEED"),
    ("trial", "HPSEARCH_TRIAL"),
    ("number", "HPSEARCH_TRIAL"),
    ("study", "HPSEARCH_STUDY"),
    ("attempt", "HPSEARCH_ATTEMPT"),
    ("device", "HPSEARCH_DEVICE"),
    ("params", "HPSEARCH_PARAMS"),
    ("checkpoint_dir", "HPSEARCH_CHECKPOINT_DIR"),
    ("output_dir", "HPSEARCH_CHECKPOINT_DIR"),
    ("resume", "HPSEARCH_RESUME"),
];

/// Reads `[command]`.
pub(super) fn read(table: &Table, place: Place, searched: Option<&Searched>, base: &Path, problems: &mut Vec<Diagnostic>) -> Option<Program> {
    let keys = keys::find("command").map_or(&[][..], |table| table.keys);
    let section = Section::read("command", place, table, keys, problems);
    if section.lacks("run") {
        problems.push(
            Diagnostic::error(place, "[command] has no `run`").help("write `run = [\"python3\", \"train.py\", \"--lr\", \"{learning_rate}\"]`"),
        );
    }
    let cwd = match section.node("cwd") {
        Some(node) => directory(node, base, problems),
        None => base.to_owned(),
    };
    let env = environment(&section, problems);
    let run = section.texts("run")?;
    if run.is_empty() || run[0].trim().is_empty() {
        let place = section.node("run").map(|node| node.place);
        problems.push(Diagnostic::error(place, "`command.run` names no program").help("write `run = [\"python3\", \"train.py\"]`"));
        return None;
    }
    if let (Some(searched), Some(list)) = (searched, section.node("run").and_then(Node::list)) {
        list.iter().for_each(|argument| check_placeholders(argument, searched, problems));
        check_variables(searched, problems);
    }
    Some(Program::Command { run, cwd, env })
}

fn directory(node: &Node, base: &Path, problems: &mut Vec<Diagnostic>) -> std::path::PathBuf {
    let path = super::absolute(base, node.text().unwrap_or_default());
    if !path.is_dir() {
        let problem = Diagnostic::error(node.place, "`command.cwd`: no such directory").label("no such directory");
        problems.push(problem.help(format!("looked for {}", path.display())).help("paths are relative to the study file"));
    }
    path
}

fn environment(section: &Section<'_>, problems: &mut Vec<Diagnostic>) -> BTreeMap<String, EnvironmentValue> {
    let mut env = BTreeMap::new();
    for entry in section.node("env").and_then(Node::table).into_iter().flat_map(|table| &table.entries) {
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            problems.push(
                Diagnostic::error(entry.place, format!("`{}` cannot be the name of a variable", entry.key.escape_debug()))
                    .help("a name is not empty and has no `=`"),
            );
        } else if entry.key.starts_with("HPSEARCH_") {
            problems.push(Diagnostic::error(entry.place, format!("`{}` is set by hpsearch for each trial", entry.key)).help("choose another name"));
        }
        env.insert(entry.key.clone(), EnvironmentValue::new(entry.value.text().unwrap_or_default()));
    }
    env
}

/// The `{name}`s of an argument, with their braces' bytes. Braces around anything that is no name stay as they are
/// (`{"a": 1}`, `{}`, `{print $1}`).
pub fn placeholders(argument: &str) -> Vec<(&str, Range<usize>)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = argument[from..].find('{').map(|open| from + open) {
        from = open + 1;
        let Some(close) = argument[from..].find(['}', '{']).map(|close| from + close) else { break };
        let name = &argument[from..close];
        let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        if argument[close..].starts_with('}') && is_name {
            found.push((name, open..close + 1));
            from = close + 1;
        }
    }
    found
}

fn check_placeholders(argument: &Node, searched: &Searched, problems: &mut Vec<Diagnostic>) {
    for (name, _) in placeholders(argument.text().unwrap_or_default()) {
        if searched.mentions(name) {
            continue;
        }
        let problem = Diagnostic::error(argument.place, format!("`{{{name}}}` is not a parameter of [space]"));
        let near = nearest(name, searched.names());
        problems.push(match (VARIABLES.iter().find(|(word, _)| *word == name), near) {
            (_, Some(near)) => problem.help(format!("did you mean `{{{near}}}`?")),
            (Some((_, variable)), _) => problem.help(format!("the program finds it in the environment variable {variable}")),
            _ => problem.help(format!("the parameters are {}", quoted(searched.names()))),
        });
    }
}

/// Two names that become one environment variable: the program would see only one of them there.
fn check_variables(searched: &Searched, problems: &mut Vec<Diagnostic>) {
    let variable = |name: &str| name.to_uppercase().replace(|c: char| !c.is_alphanumeric(), "_");
    for (index, parameter) in searched.parameters.iter().enumerate() {
        let name = &parameter.dimension.name;
        let earlier = searched.parameters[..index].iter().find(|earlier| variable(&earlier.dimension.name) == variable(name));
        if let Some(earlier) = earlier {
            let message = format!("`{}` and `{name}` both become HPSEARCH_PARAM_{}", earlier.dimension.name, variable(name));
            let problem = Diagnostic::warning(parameter.place, message).related(earlier.place, "the other one");
            problems.push(problem.help("read them from `{name}` or HPSEARCH_PARAMS, or rename one"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_in_braces_are_placeholders() {
        let names = |text: &'static str| placeholders(text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("--lr={learning_rate}"), ["learning_rate"]);
        assert_eq!(names("{a}{model.num_layers}"), ["a", "model.num_layers"]);
        assert_eq!(names("{\"a\": 1}"), Vec::<&str>::new());
        assert_eq!(names("{} {print $1} {unclosed"), Vec::<&str>::new());
        assert_eq!(names("{{a}}"), ["a"]);
        assert_eq!(placeholders("x{a}y"), [("a", 1..4)]);
    }
}
