//! A study file that is YAML, such as a sweep of Weights & Biases.

use super::diagnostic::{Diagnostic, SourceSpan};

/// The problem of a file that cannot be read as TOML, if it is YAML.
pub(super) fn problem(text: &str, name: &str) -> Option<Diagnostic> {
    let is_named = [".yaml", ".yml"].iter().any(|ending| name.ends_with(ending));
    let mut start = 0;
    let mut first = None;
    for line in text.split_inclusive('\n') {
        let is_empty = line.trim().is_empty() || line.starts_with(['#', '-']);
        if !is_empty && first.is_none() {
            first = Some((start, line.trim_end()));
        }
        start += line.len();
    }
    let (start, line) = first?;
    if !is_named && key(line).is_none() {
        return None;
    }
    let place = SourceSpan { source: 0, start, end: start + line.len() };
    let problem = Diagnostic::error(place, "this is YAML, and a study file is TOML");
    let has = |wanted: &str| text.lines().any(|line| key(line) == Some(wanted));
    Some(if has("method") && has("parameters") {
        problem.help(format!(
            "it is a sweep of Weights & Biases: `hpsearch init --sweep {name}` writes a study file \
             from it"
        ))
    } else {
        problem.help("`hpsearch init` writes a study file, and docs/study-file.md describes it")
    })
}

/// The key at the beginning of a line of YAML.
fn key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let is_key = !key.is_empty()
        && key.chars().all(|char| char.is_alphanumeric() || "_-".contains(char))
        && (rest.is_empty() || rest.starts_with([' ', '\r']));
    is_key.then_some(key)
}
