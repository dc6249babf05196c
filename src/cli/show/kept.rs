//! The artifacts of a trial in `show`: names of files, and the beginnings of texts and tables.

use serde_json::Value as Json;

use crate::cli::{Console, Failure};
use crate::report::wording::{bytes, one_line, shorten};
use crate::storage::StorageReader;
use crate::study::artifact::{ArtifactKind, StoredArtifact};
use crate::study::counted::count;
use crate::study::step::StepUnit;

/// Most names printed, the newest version of each.
const NAMES: usize = 20;

/// Most lines of a text, and rows of a table.
const LINES: usize = 8;

/// The widest line of a text or table.
const WIDTH: usize = 100;

/// Prints the newest version of each artifact.
pub fn print(
    reader: &dyn StorageReader,
    artifacts: &[StoredArtifact],
    step_unit: StepUnit,
    console: &mut Console,
) -> Result<(), Failure> {
    let newest: Vec<&StoredArtifact> = artifacts
        .iter()
        .enumerate()
        .filter(|(index, stored)| {
            let later = &artifacts[index + 1..];
            later.iter().all(|other| other.artifact.name != stored.artifact.name)
        })
        .map(|(_, stored)| stored)
        .collect();
    for (index, stored) in newest.iter().take(NAMES).enumerate() {
        let artifact = &stored.artifact;
        let step = artifact.step.map(|step| format!(", {}", step_unit.at(step)));
        let step = step.unwrap_or_default();
        let copied = match (&artifact.path, artifact.copied) {
            (Some(path), false) => format!(", not copied, at {}", path.display()),
            _ => String::new(),
        };
        let (kind, size) = (artifact.kind.as_str(), bytes(artifact.bytes));
        let text = format!("{}: {kind}, {size}{step}{copied}", stored.label());
        console.fact(if index == 0 { "artifacts" } else { "" }, &one_line(&text))?;
        for line in content(reader, stored)? {
            console.fact("", &format!("  {line}"))?;
        }
    }
    if newest.len() > NAMES {
        let more = count((newest.len() - NAMES) as u64, "more artifact");
        console.fact("", &format!("and {more}; `hpsearch artifacts` lists all"))?;
    }
    Ok(())
}

/// The first lines of a text or table.
fn content(reader: &dyn StorageReader, stored: &StoredArtifact) -> Result<Vec<String>, Failure> {
    if !stored.artifact.kind.is_in_store() {
        return Ok(Vec::new());
    }
    let text = reader.document(&stored.artifact.digest)?.unwrap_or_default();
    let all: Vec<String> = match stored.artifact.kind {
        ArtifactKind::Table => table_lines(&text),
        _ => text.lines().map(str::to_owned).collect(),
    };
    let mut lines: Vec<String> =
        all.iter().take(LINES).map(|line| shorten(&one_line(line), WIDTH, "..")).collect();
    if all.len() > LINES {
        lines.push(format!(".. {} more", count((all.len() - LINES) as u64, "line")));
    }
    Ok(lines)
}

/// A table's columns and rows, one per line.
fn table_lines(text: &str) -> Vec<String> {
    let table: Json = serde_json::from_str(text).unwrap_or_default();
    let list = |json: &Json| json.as_array().cloned().unwrap_or_default();
    let line = |cells: &Json| {
        let cell = |cell: &Json| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
        list(cells).iter().map(cell).collect::<Vec<_>>().join(" | ")
    };
    let rows = list(&table["rows"]);
    std::iter::once(line(&table["columns"])).chain(rows.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_its_columns_and_rows() {
        let text = r#"{"columns":["a","b"],"rows":[[1,"x y"],[null,2.5]]}"#;
        assert_eq!(table_lines(text), ["a | b", "1 | x y", "null | 2.5"]);
    }
}
