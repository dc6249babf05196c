//! Labels as numbers, in the formats of Hugging Face's trainer: a list of 0 and 1 for each row
//! (multi-hot), and -100 for a label that is not learned.

use std::path::Path;

use super::{DataProblem, DataRow, ELEMENT, LIST, list_of};

/// Whether a label is -100, which the losses of PyTorch and transformers ignore.
#[must_use]
pub fn is_ignored(label: &str) -> bool {
    label.trim().parse::<f64>().is_ok_and(|number| number == -100.0)
}

/// What the lists of labels in a file have in common, as far as it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MultiHot {
    length: Option<usize>,
    repeats: bool,
    is_refuted: bool,
}

impl MultiHot {
    /// Adds the list of a row.
    pub fn add<'a>(&mut self, list: impl IntoIterator<Item = &'a str>) {
        let values: Option<Vec<bool>> = list.into_iter().map(value_of).collect();
        let Some(values) = values else {
            self.is_refuted = true;
            return;
        };
        let length = *self.length.get_or_insert(values.len());
        self.is_refuted |= length != values.len();
        let ones = values.iter().filter(|value| **value).count();
        self.repeats |= ones > 1 || values.len() - ones > 1;
    }

    /// Adds the lists of another part of the data.
    pub fn extend(&mut self, other: Self) {
        self.is_refuted |= other.is_refuted
            || self.length.zip(other.length).is_some_and(|(own, other)| own != other);
        self.length = self.length.or(other.length);
        self.repeats |= other.repeats;
    }

    /// The number of labels, if the lists are multi-hot beyond doubt: of 0 and 1, all of one
    /// length, some with a value twice, which no list of names has.
    #[must_use]
    pub fn labels(self) -> Option<usize> {
        self.length.filter(|length| *length > 1 && self.repeats && !self.is_refuted)
    }
}

/// Whether the labels of rows are multi-hot beyond doubt.
#[must_use]
pub fn are_multi_hot(rows: &[DataRow]) -> bool {
    let mut common = MultiHot::default();
    rows.iter().all(|row| list_of(&row.label).map(|list| common.add(list)).is_some())
        && common.labels().is_some()
}

/// The labels of multi-hot rows: `known`, those of a pretrained model, if there are as many, else
/// `LABEL_0`, `LABEL_1` and so on, as transformers names them.
///
/// # Errors
/// The labels of the first row are not multi-hot.
pub fn multi_hot_labels(
    path: &Path,
    rows: &[DataRow],
    known: &[String],
) -> Result<Vec<String>, DataProblem> {
    let Some(first) = rows.first() else { return Ok(known.to_vec()) };
    let labels = values_of(&first.label).ok_or_else(|| not_multi_hot(path, first))?.len();
    if labels < 2 {
        return Err(DataProblem::new(path, Some(first.line), "the list of labels has one number")
            .with_help("multi-hot labels have a 0 or 1 for each of at least two labels"));
    }
    if known.len() == labels {
        return Ok(known.to_vec());
    }
    Ok((0..labels).map(|id| format!("LABEL_{id}")).collect())
}

/// Replaces the multi-hot labels of rows by lists of names.
///
/// # Errors
/// The first row whose labels are not multi-hot, or not as many as there are names.
pub fn name_multi_hot(
    path: &Path,
    rows: &mut [DataRow],
    labels: &[String],
) -> Result<(), DataProblem> {
    for row in rows {
        let values = values_of(&row.label).ok_or_else(|| not_multi_hot(path, row))?;
        if values.len() != labels.len() {
            let message = format!(
                "the list of labels has {} numbers, and there are {} labels",
                values.len(),
                labels.len()
            );
            return Err(DataProblem::new(path, Some(row.line), message).with_help(
                "correct or remove the row: multi-hot lists have a 0 or 1 for each label, \
                 in every file",
            ));
        }
        let names = labels.iter().zip(values).filter(|(_, value)| *value);
        let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
        row.label =
            if names.is_empty() { String::new() } else { format!("{LIST}{}", names.join(ELEMENT)) };
    }
    Ok(())
}

fn not_multi_hot(path: &Path, row: &DataRow) -> DataProblem {
    let message = "the labels are no list of 0 and 1, as those of the training rows are";
    DataProblem::new(path, Some(row.line), message).with_help(
        "correct it, as in `[1.0, 0.0, 1.0]`; or `[data] label_format = \"names\"` reads lists of \
         names",
    )
}

/// The values of a cell that is a list of 0 and 1; `None`: it is none.
fn values_of(cell: &str) -> Option<Vec<bool>> {
    list_of(cell)?.into_iter().map(value_of).collect()
}

fn value_of(element: &str) -> Option<bool> {
    match element.parse::<f64>() {
        Ok(0.0) => Some(false),
        Ok(1.0) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{COLUMNS, assert_begins};
    use super::super::{Layout, rows};
    use super::*;

    fn read(labels: &[&str]) -> Vec<DataRow> {
        let lines = labels.iter().map(|label| format!("{{\"text\": \"x\", \"label\": {label}}}\n"));
        let lines: String = lines.collect();
        rows(Path::new("a.jsonl"), &lines, COLUMNS, Layout::default()).unwrap()
    }

    #[test]
    fn lists_of_0_and_1_are_multi_hot_where_no_list_of_names_looks_like_that() {
        for (labels, is_it) in [
            (&["[1.0, 0.0, 1.0]", "[0, 0, 0]"][..], true),
            (&["[1, 0]", "[0, 0]"], true),
            (&["[1, 0]", "[0, 1]"], false),
            (&["[1, 0, 1]", "[1, 0]"], false),
            (&["[1, 0, 1]", "[]"], false),
            (&["[1, 0, 2]", "[1, 0, 0]"], false),
            (&["[1]", "[0]"], false),
            (&["\"1,0,1\"", "\"0,0,1\""], false),
            (&["[1, 0, 1]", "\"a\""], false),
        ] {
            assert_eq!(are_multi_hot(&read(labels)), is_it, "{labels:?}");
        }
    }

    #[test]
    fn multi_hot_labels_become_names_and_what_does_not_fit_is_located() {
        let mut three = read(&["[1.0, 0.0, 1.0]", "[0, 0, 0]"]);
        let path = Path::new("a.jsonl");
        let labels = multi_hot_labels(path, &three, &["a".to_owned()]).unwrap();
        assert_eq!(labels, ["LABEL_0", "LABEL_1", "LABEL_2"]);
        let named = ["x", "y", "z"].map(str::to_owned);
        assert_eq!(multi_hot_labels(path, &three, &named).unwrap(), named);
        name_multi_hot(path, &mut three, &labels).unwrap();
        assert_eq!(list_of(&three[0].label).unwrap(), ["LABEL_0", "LABEL_2"]);
        assert_eq!(three[1].label, "");
        let said = |labels_of: &[&str]| {
            name_multi_hot(path, &mut read(labels_of), &labels).unwrap_err().to_string()
        };
        let short = said(&["[1, 0, 1]", "[1, 0]"]);
        assert_begins(
            &short,
            "a.jsonl:2: the list of labels has 2 numbers, and there are 3 labels",
        );
        let other = said(&["[1, 0, 1]", "[\"x\"]"]);
        assert_begins(&other, "a.jsonl:2: the labels are no list of 0 and 1");
    }

    #[test]
    fn the_ignored_label_is_minus_100_as_number_or_text() {
        assert!(["-100", "-100.0", " -100 "].into_iter().all(is_ignored));
        assert!(!["100", "-10", "O", ""].into_iter().any(is_ignored));
    }
}
