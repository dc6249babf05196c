//! Files with a word and its labels on each line, as those of the `CoNLL` tasks, as lines of JSON.

use std::path::Path;

use serde_json::{Map, Value};

use super::{DataProblem, text};

/// The first word of the line between documents.
const DOCUMENT: &str = "-DOCSTART-";

/// Maximum number of columns: a line of more is one of another format.
const MOST_COLUMNS: usize = 32;

/// Its sentences, one JSON object each, on the line on which the sentence begins: the first column
/// is `tokens`, the last one `tags`, and those between are `column2`, `column3` and so on.
///
/// # Errors
/// Text that is not UTF-8, and the first line with another number of columns.
pub(super) fn lines(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, DataProblem> {
    let content = text(path, bytes)?;
    let mut written = String::new();
    let (mut columns, mut sentence): (usize, Vec<Vec<Value>>) = (0, Vec::new());
    let mut end = |sentence: &mut Vec<Vec<Value>>, words: usize| {
        if !sentence.is_empty() {
            let width = sentence.len();
            let named = std::mem::take(sentence).into_iter().enumerate();
            let row: Map<String, Value> =
                named.map(|(index, cells)| (name(index, width), Value::Array(cells))).collect();
            written += &Value::Object(row).to_string();
            // A row has one line, so that those after it stay where they are.
            written += &"\n".repeat(words);
        }
        written.push('\n');
    };
    let mut words = 0;
    for (number, line) in (1..).zip(content.lines()) {
        let line = line.trim_ascii_end();
        let first = line.split_ascii_whitespace().next();
        if first.is_none_or(|word| word == DOCUMENT) {
            end(&mut sentence, words);
            words = 0;
            continue;
        }
        // Comments of a sentence: `# sent_id = 1`, `# newdoc`.
        let is_comment = line.contains(" = ") || line.contains("# new");
        if words == 0 && first == Some("#") && is_comment {
            end(&mut sentence, words);
            continue;
        }
        let cells: Vec<&str> = match line.contains('\t') {
            true => line.split('\t').map(str::trim_ascii).take(MOST_COLUMNS + 1).collect(),
            false => line.split_ascii_whitespace().take(MOST_COLUMNS + 1).collect(),
        };
        let problem = |message: String| {
            DataProblem::new(path, Some(number), message).with_help(
                "a line has a word and its labels, between tabs or spaces, and sentences are \
                 separated by empty lines",
            )
        };
        if cells.len() > MOST_COLUMNS {
            return Err(problem(format!("more than {MOST_COLUMNS} columns")));
        }
        if let Some(label) = cells[1..].iter().find(|label| label.contains([' ', '\t'])) {
            return Err(problem(format!("the label `{label}` has a space in it")));
        }
        if columns == 0 {
            columns = cells.len();
        }
        if cells.len() != columns || cells.iter().any(|cell| cell.is_empty()) {
            let filled = cells.iter().filter(|cell| !cell.is_empty()).count();
            return Err(problem(format!("{filled} columns where the first word has {columns}")));
        }
        sentence.resize(columns, Vec::new());
        sentence.iter_mut().zip(cells).for_each(|(column, cell)| column.push(cell.into()));
        words += 1;
    }
    end(&mut sentence, words);
    Ok(written.into_bytes())
}

/// The name of one of `width` columns.
fn name(index: usize, width: usize) -> String {
    match index {
        0 => "tokens".to_owned(),
        _ if index + 1 == width => "tags".to_owned(),
        _ => super::numbered(index + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> Result<String, String> {
        lines(Path::new("a.conll"), content.as_bytes())
            .map(|bytes| String::from_utf8(bytes).unwrap())
            .map_err(|problem| problem.to_string())
    }

    #[test]
    fn sentences_are_rows_on_the_lines_on_which_they_begin() {
        let content = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\nPeter \
                       NNP B-NP B-PER\r\n";
        let rows = read(content).unwrap();
        let rows: Vec<(usize, Value)> = (1..)
            .zip(rows.lines())
            .filter(|(_, line)| !line.is_empty())
            .map(|(number, line)| (number, serde_json::from_str(line).unwrap()))
            .collect();
        let first = serde_json::json!({
            "tokens": ["EU", "rejects"], "column2": ["NNP", "VBZ"], "column3": ["B-NP", "B-VP"],
            "tags": ["B-ORG", "O"],
        });
        let second = serde_json::json!({
            "tokens": ["Peter"], "column2": ["NNP"], "column3": ["B-NP"], "tags": ["B-PER"],
        });
        assert_eq!(rows, [(3, first), (7, second)]);
    }

    #[test]
    fn words_may_hold_spaces_between_tabs_and_lines_have_the_same_columns() {
        let rows = read("New York\tB-LOC\n# \tO\n").unwrap();
        assert_eq!(rows.trim_end(), r##"{"tags":["B-LOC","O"],"tokens":["New York","#"]}"##);
        let torn = read("EU B-ORG\n\nrejects\n").unwrap_err();
        assert!(torn.starts_with("a.conll:3: 1 columns where the first word has 2 ("), "{torn}");
        let mixed = read("EU\tNNP B-ORG\n").unwrap_err();
        assert!(mixed.starts_with("a.conll:1: the label `NNP B-ORG` has a space in it"), "{mixed}");
        let wide = read(&"word ".repeat(100_000)).unwrap_err();
        assert!(wide.starts_with("a.conll:1: more than 32 columns"), "{wide}");
        let commented = read("# newdoc\n# text = a b\na X\n-DOCSTART-b O\n").unwrap();
        assert_eq!(
            commented.trim_start().trim_end(),
            r#"{"tags":["X","O"],"tokens":["a","-DOCSTART-b"]}"#
        );
        assert!(commented.starts_with("\n\n{"), "on its line");
        let latin = lines(Path::new("a.conll"), b"a O\ncaf\xe9 O\n").unwrap_err().to_string();
        assert!(latin.starts_with("a.conll:2: not UTF-8"), "{latin}");
    }
}
