//! The labels, numbers or similarities of texts and of pairs of texts.

use std::collections::BTreeMap;

use super::{Choice, Read, Shape, classes, written_lists};
use crate::arguments::TaskKind;
use crate::arguments::data_file::is_ignored;
use crate::cli::exit::Failure;
use crate::cli::init::columns::Column;
use crate::cli::init::guesses::{self, Guess, Why};
use crate::cli::init::study_file::TrainerStudy;
use crate::report::wording::one_line;
use crate::study::counted::count;

impl Choice<'_> {
    /// Labels or numbers of texts or of pairs, or pairs alone.
    pub(super) fn take_labelled(
        &self,
        study: &mut TrainerStudy,
        shape: Shape,
    ) -> Result<(), Failure> {
        let (guessed, label) = guesses::texts_and_labels(self.table);
        let pair = self.pair();
        let of_pair = pair.map(|[first, _]| Guess { column: first, why: Why::Name });
        let text = self.chosen_text(of_pair.or(guessed))?;
        let label = label.filter(|label| label.column != text.0 && shape == Shape::Labelled);
        let question = "Which column holds the labels?";
        let label = self.chosen(("by --label", self.label), question, label)?;
        if shape == Shape::Labelled && label.is_none() {
            return Err(self.missing("labels", "--label"));
        }
        let second = pair.filter(|[first, second]| {
            *first == text.0 && label.is_none_or(|label| label.0 != *second)
        });
        let second = second.map(|[_, second]| {
            let is_given = self.text_pair.is_some();
            (second, if is_given { "by --text-pair" } else { Why::Name.as_str() })
        });
        let texts = [Some(("texts", text)), second.map(|second| ("second texts", second))];
        let texts: Vec<_> = texts.into_iter().flatten().collect();
        self.report_texts(study, &texts, Read::Together);
        if let Some((second, _)) = second {
            study.columns.push(("text_pair", second.name.clone()));
        }
        let Some((label, why)) = label else {
            if second.is_none() {
                return Err(self.missing("second texts", "--text-pair"));
            }
            self.take(
                study,
                TaskKind::SentenceSimilarity,
                "the texts of each pair mean the same; labels would make it a classification of \
                 pairs (`--label COLUMN`)",
            );
            return Ok(());
        };
        self.take_labels(study, (label, why), second.is_some())
    }

    /// Takes the column of labels, and the task that it makes, if none was named.
    fn take_labels(
        &self,
        study: &mut TrainerStudy,
        (label, why): (&Column, &str),
        is_pair: bool,
    ) -> Result<(), Failure> {
        if label.is_of_written_lists() {
            return Err(written_lists(label));
        }
        let name = one_line(&label.name);
        let separator = label.separator_of_labels();
        let is_of_several = guesses::is_of_several(label) || separator.is_some();
        let is_of_numbers =
            label.is_of_fractions() || label.is_of_numbers() && !self.table.is_label(label);
        let task = self.task.unwrap_or(match () {
            () if is_of_numbers && is_pair && label.is_of_similarities() => {
                TaskKind::SentenceSimilarity
            }
            () if is_of_numbers => TaskKind::TextRegression,
            () if is_of_several => TaskKind::MultiLabelClassification,
            () => TaskKind::TextClassification,
        });
        let key = if task == TaskKind::SentenceSimilarity { "score" } else { "label" };
        study.columns.push((key, label.name.clone()));
        let needs_numbers = matches!(task, TaskKind::TextRegression | TaskKind::SentenceSimilarity);
        if needs_numbers {
            return self.take_numbers(study, (label, why), task, is_pair);
        }
        let is_multiple = task == TaskKind::MultiLabelClassification;
        if let Some(labels) =
            label.multi_hot.labels().filter(|_| is_multiple && label.is_of_lists())
        {
            study.findings.push(format!(
                "labels: `{name}`, {why}; multi-hot, a 0 or 1 for each of {}",
                count(labels as u64, "label")
            ));
            self.take(study, task, "several labels per text");
            return Ok(());
        }
        let values = counted_labels(label, separator, is_multiple)?;
        study.findings.push(format!("labels: `{name}`, {why}; {}", classes(&values)));
        if is_multiple {
            let separated = separator.filter(|mark| *mark != ',');
            study.label_separator = separated;
            let between = match separator {
                Some(mark) => format!(", separated by `{mark}`"),
                None => String::new(),
            };
            self.take(study, task, &format!("several labels per text{between}"));
            return Ok(());
        }
        self.take_classes(study, task, &values, is_pair);
        Ok(())
    }

    /// A number or a similarity in each row.
    fn take_numbers(
        &self,
        study: &mut TrainerStudy,
        (label, why): (&Column, &str),
        task: TaskKind,
        is_pair: bool,
    ) -> Result<(), Failure> {
        let name = one_line(&label.name);
        if !label.is_of_numbers() {
            let other = label.first_that_is_no_number();
            let other = other.map(|other| format!(": not `{}`", one_line(other)));
            let other = other.unwrap_or_default();
            return Err(Failure::usage(format!(
                "`{name}` does not hold a number in each row{other}"
            ))
            .help("correct the file, or `--label COLUMN` names another column"));
        }
        let [low, high] = label.range;
        if task == TaskKind::SentenceSimilarity && !label.is_of_similarities() {
            let message = format!("`{name}` holds numbers from {low} to {high}, not similarities");
            return Err(Failure::usage(message).help(
                "divide them, so that they are from -1 to 1; or `--task text-regression` \
                 learns them as they are",
            ));
        }
        study.findings.push(format!("numbers: `{name}`, {why}; from {low} to {high}"));
        let note = match task {
            TaskKind::SentenceSimilarity => "a vector per text, by the similarity of pairs",
            _ if is_pair => {
                "a number per pair; `sentence-similarity` has vectors of texts instead, by \
                 similarities from -1 to 1"
            }
            _ => "a number per text",
        };
        self.take(study, task, note);
        Ok(())
    }

    /// One label in each row: notes those that are rare or too frequent.
    fn take_classes(
        &self,
        study: &mut TrainerStudy,
        task: TaskKind,
        values: &BTreeMap<String, u64>,
        is_pair: bool,
    ) {
        let single = values.iter().filter(|(_, rows)| **rows == 1);
        let single: Vec<String> = single.map(|(name, _)| format!("`{}`", one_line(name))).collect();
        if let [first, ..] = single.as_slice() {
            let others = match single.len() - 1 {
                0 => String::new(),
                others => format!(" and {}", count(others as u64, "other")),
            };
            study.findings.push(format!(
                "labels with a single row, in training or in validation but never in both: \
                 {first}{others}; give them more rows, or leave them out"
            ));
        }
        let (rows, largest) = (values.values().sum::<u64>(), values.iter().max_by_key(|one| one.1));
        let what = if is_pair { "one label per pair" } else { "one label per text" };
        let metric = match largest {
            Some((name, most)) if most * 5 > rows * 3 => {
                study.is_unbalanced = true;
                format!(
                    "{what}; metric eval_macro_f1, since {most} of {rows} rows have the label \
                     `{}`: a model that always predicts it has a high accuracy",
                    one_line(name)
                )
            }
            _ => what.to_owned(),
        };
        self.take(study, task, &metric);
    }
}

/// The rows of each label, if the column can be learned from.
fn counted_labels(
    label: &Column,
    separator: Option<char>,
    is_multiple: bool,
) -> Result<BTreeMap<String, u64>, Failure> {
    let name = one_line(&label.name);
    let counted = if is_multiple { label.by_label(separator) } else { label.labels().cloned() };
    let empty = counted.as_ref().and_then(|values| values.get("")).filter(|_| !is_multiple);
    if let Some(rows) = empty {
        let message = format!("`{name}` is empty in {}", count(*rows, "row"));
        return Err(Failure::usage(message).help("remove these rows from the file, or label them"));
    }
    let Some(values) = counted else {
        if label.values.as_ref().is_some_and(|values| values.len() < 2) {
            return Err(Failure::usage(format!(
                "`{name}` has only one value, so it does not hold labels"
            ))
            .help("`--label COLUMN` names another column"));
        }
        return Err(Failure::usage(format!(
            "`{name}` holds no labels: it has more than a thousand values"
        ))
        .help("`--label COLUMN` names another column"));
    };
    if let Some(marked) = values.keys().find(|label| is_ignored(label)) {
        let message = format!(
            "`{name}` has the label {}, which marks labels that are not learned",
            one_line(marked)
        );
        return Err(Failure::usage(message).help("take its rows out, or label them"));
    }
    Ok(values)
}
