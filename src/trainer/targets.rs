//! The targets of rows: a label, a set of labels, or a number; as text in the data, as 32 bits in
//! prepared data.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::in_splits;
use super::prepared::Split;
use super::{DataProblem, Finding};
use hpsearch_core::arguments::data_file::{DataRow, list_of};
use hpsearch_core::arguments::{DataArguments, TaskKind};
use hpsearch_core::study::counted::count;

/// The labels of a dataset, and how rows encode theirs.
pub(super) struct Targets<'a> {
    kind: TaskKind,
    separator: &'a str,
    /// The labels in the order of their ids; none where rows are numbers.
    pub(super) labels: Vec<String>,
    /// The label sets that occur, if rows may have several labels.
    pub(super) sets: Vec<Vec<usize>>,
}

impl<'a> Targets<'a> {
    /// The targets of the training rows; other splits must not have other labels. Labels are `all`,
    /// else in the order of `known`, those of a pretrained model, if it has the same.
    pub(super) fn of(
        kind: TaskKind,
        splits: &[Vec<DataRow>; 3],
        data: &'a DataArguments,
        known: &[String],
        all: Option<Vec<String>>,
    ) -> Result<Self, DataProblem> {
        let mut targets =
            Self { kind, separator: &data.label_separator, labels: Vec::new(), sets: Vec::new() };
        let files = [
            &data.train,
            data.validation.as_ref().unwrap_or(&data.train),
            data.test.as_ref().unwrap_or(&data.train),
        ];
        if kind == TaskKind::TextRegression {
            for (rows, file) in splits.iter().zip(files) {
                if let Some(row) = rows.iter().find(|row| number(&row.label).is_none()) {
                    let message = format!("label `{}` is not a number", row.label);
                    return Err(DataProblem::new(file, Some(row.line), message).with_help(
                        "`text-regression` learns numbers; `text-classification` learns labels",
                    ));
                }
            }
            return Ok(targets);
        }
        let names: BTreeSet<&str> = splits[0].iter().flat_map(|row| targets.names(row)).collect();
        targets.labels = all.unwrap_or_else(|| in_order(names, known));
        for ((rows, file), split) in splits.iter().zip(files).zip(Split::ALL).skip(1) {
            for row in rows {
                if let Some(unknown) = targets
                    .names(row)
                    .into_iter()
                    .find(|name| !targets.labels.iter().any(|label| label == name))
                {
                    let message = format!(
                        "label `{unknown}` occurs in the {} rows but not in the training rows",
                        split.name()
                    );
                    return Err(DataProblem::new(file, Some(row.line), message)
                        .with_help("a label that is never trained cannot be predicted"));
                }
            }
        }
        if kind == TaskKind::MultiLabelClassification {
            if targets.labels.is_empty() {
                return Err(DataProblem::new(&data.train, None, "no training row has a label")
                    .with_help(format!("is `{}` the right column?", data.label)));
            }
            targets.sets = splits
                .iter()
                .flatten()
                .map(|row| targets.ids(row))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
        }
        Ok(targets)
    }

    /// A row's target in prepared data: the id of its label or of its set of labels, or the bits of
    /// its number.
    pub(super) fn encode(&self, row: &DataRow) -> Option<u32> {
        let id = match self.kind {
            TaskKind::TextRegression => return number(&row.label).map(f32::to_bits),
            TaskKind::MultiLabelClassification => self.sets.binary_search(&self.ids(row)).ok(),
            _ => self.labels.iter().position(|label| *label == row.label),
        };
        id.and_then(|id| u32::try_from(id).ok())
    }

    /// A row's labels by name.
    fn names<'r>(&self, row: &'r DataRow) -> Vec<&'r str> {
        if self.kind != TaskKind::MultiLabelClassification {
            return vec![&row.label];
        }
        let names = match list_of(&row.label) {
            Some(elements) => elements,
            None if self.separator.is_empty() => vec![row.label.as_str()],
            None => row.label.split(self.separator).collect(),
        };
        names.into_iter().map(str::trim).filter(|name| !name.is_empty()).collect()
    }

    /// A row's labels by id, sorted.
    fn ids(&self, row: &DataRow) -> Vec<usize> {
        let ids: BTreeSet<usize> = self
            .names(row)
            .into_iter()
            .filter_map(|name| self.labels.iter().position(|label| label == name))
            .collect();
        ids.into_iter().collect()
    }

    /// Adds findings about the labels of the rows.
    pub(super) fn note(
        &self,
        splits: &[Vec<DataRow>; 3],
        data: &DataArguments,
        findings: &mut Vec<Finding>,
    ) {
        let train = &splits[0];
        let counted = format!("{} rows", in_splits(splits.each_ref().map(Vec::len)));
        if self.kind == TaskKind::TextRegression {
            let numbers: Vec<f32> = train.iter().filter_map(|row| number(&row.label)).collect();
            let (least, most) =
                numbers.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), number| {
                    (least.min(*number), most.max(*number))
                });
            let range = format!("{counted} with numbers from {least} to {most}");
            findings.push(Finding::note("rows", range));
            let largest = least.abs().max(most.abs());
            if largest >= LARGE {
                findings.push(Finding::warning(
                    "scale",
                    format!(
                        "numbers up to {largest} are far from what a new model predicts, so that \
                         training is slow or diverges: divide them, or take their logarithms"
                    ),
                ));
            }
            if least.to_bits() == most.to_bits() {
                findings.push(Finding::warning(
                    "constant",
                    format!("all training rows have the number {least}: there is nothing to learn"),
                ));
            }
            return;
        }
        findings
            .push(Finding::note("rows", format!("{counted} with {} labels", self.labels.len())));
        let counts = self.counts(train);
        let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) else { return };
        if most.0 >= 10 * least.0 {
            let weights = match self.kind {
                TaskKind::TextClassification => {
                    "; `[trainer] class_weights = \"balanced\"` weighs labels alike"
                }
                _ => "",
            };
            findings.push(Finding::warning(
                "imbalance",
                format!(
                    "labels are uneven: {} training rows of `{}`, {} of `{}`{weights}",
                    most.0, most.1, least.0, least.1
                ),
            ));
        }
        if !splits[1].is_empty() {
            self.note_unmeasured(&splits[1], data, findings);
        }
    }

    /// The numbers of rows with each label, and the labels, in their alphabetical order.
    fn counts<'t>(&'t self, rows: &'t [DataRow]) -> Vec<(usize, &'t str)> {
        let mut counts: BTreeMap<&str, usize> =
            self.labels.iter().map(|label| (label.as_str(), 0)).collect();
        for name in rows.iter().flat_map(|row| self.names(row)) {
            *counts.entry(name).or_default() += 1;
        }
        counts.into_iter().map(|(label, count)| (count, label)).collect()
    }

    /// Warns of labels that the validation rows measure by one row, or not at all.
    fn note_unmeasured(
        &self,
        validation: &[DataRow],
        data: &DataArguments,
        findings: &mut Vec<Finding>,
    ) {
        let few: Vec<_> =
            self.counts(validation).into_iter().filter(|(count, _)| *count < 2).collect();
        if few.is_empty() {
            return;
        }
        let shown: Vec<String> = few
            .iter()
            .take(MOST_LABELS)
            .map(|(count, label)| format!("`{label}` ({count})"))
            .collect();
        let more = match few.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {}", count(more as u64, "other")),
        };
        let remedy = match (&data.validation, data.validation_split) {
            (None, Some(_)) if !data.stratify && self.kind == TaskKind::TextClassification => {
                "`stratify = true` under [data] holds out rows of each label".to_owned()
            }
            (None, Some(share)) => {
                format!("use a larger `validation_split` than {share}, or add rows of them")
            }
            _ => "add rows of them to `[data] validation`".to_owned(),
        };
        findings.push(Finding::warning(
            "unmeasured_labels",
            format!(
                "labels with at most one validation row, for which metrics are unreliable: \
                 {}{more}; {remedy}",
                shown.join(", ")
            ),
        ));
    }
}

/// Labels that a finding names at most.
const MOST_LABELS: usize = 5;

/// Labels in the order of their ids: that of `known` if it has the same ones, so that a pretrained
/// model keeps its head (as transformers' examples do); else sorted, as numbers if all are.
pub(super) fn in_order(labels: BTreeSet<&str>, known: &[String]) -> Vec<String> {
    let same: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    if same == labels && known.len() == labels.len() {
        return known.to_vec();
    }
    let mut labels: Vec<String> = labels.into_iter().map(str::to_owned).collect();
    if labels.iter().all(|label| label.parse::<i64>().is_ok()) {
        labels.sort_by_key(|label| label.parse::<i64>().unwrap_or_default());
    }
    labels
}

/// Numbers from which on those to learn are called large: squared errors are a million times those
/// of numbers near 1.
const LARGE: f32 = 1_000.0;

/// A finite number within the range of f32.
pub(super) fn number(label: &str) -> Option<f32> {
    label.trim().parse::<f32>().ok().filter(|number| number.is_finite())
}
