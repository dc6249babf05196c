//! `hpsearch evaluate`: measures an exported model on a file of labelled rows.

use std::cmp::Reverse;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::exported;
use super::waiting::listener;
use super::{Console, Exit, Failure};
use crate::app::evaluate::{Evaluated, Seen, WHERE_FROM, evaluate as measure, seen};
use crate::config::{self, ConfigError};
use crate::export::Recipe;
use crate::report::table::{Align, AvailableWidth, Column, Columns};
use crate::report::wording::{number, one_line};
use crate::study::class_report::{ClassReport, ClassScores};
use crate::study::metric::Metrics;

/// Arguments of `hpsearch evaluate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch evaluate model test.csv\n  hpsearch evaluate model \
        new.jsonl --set text=review --set label=stars")]
pub struct EvaluateArguments {
    /// The directory that `export` wrote
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// A file of rows with their labels, in a format of training data
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// An argument of [data] for this file, such as label=intent; by default those that the model
    /// was trained with
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The device to use
    #[arg(long, default_value = exported::DEVICE)]
    pub device: String,
}

/// The metrics of a file.
#[derive(Serialize)]
struct EvaluationJson {
    metrics: Metrics,
    /// How many rows were measured.
    rows: u64,
    /// The results by class, of classifiers of texts or words.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_class: Option<ClassReport>,
    /// The split of its training that the file is.
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<&'static str>,
}

/// Measures it.
pub fn evaluate(arguments: &EvaluateArguments, console: &mut Console) -> Result<Exit, Failure> {
    let device = exported::device(&arguments.device)?;
    let directory = exported::model(&arguments.directory)?;
    let Some(recipe) = Recipe::of_export(&directory) else {
        return Err(Failure::usage(format!(
            "`{}` does not say how its model was trained: it has no best.toml",
            arguments.directory.display()
        ))
        .help("`hpsearch export STUDY -o DIR` writes one beside the model"));
    };
    let data = config::data_overrides(&arguments.set, &recipe.data_arguments())
        .map_err(ConfigError::Invalid)?;
    if let Some(key) = WHERE_FROM.into_iter().find(|key| data.contains_key(*key)) {
        return Err(Failure::usage(format!("`{key}` is not read: the rows are those of the file")));
    }
    let file = std::path::absolute(&arguments.file)?;
    if !file.exists() {
        let failure = Failure::usage(format!("there is no `{}`", arguments.file.display()));
        return Err(match config::file::similar(&arguments.file) {
            Some(near) => failure.help(format!("did you mean `{}`?", near.display())),
            None => failure,
        });
    }
    let seen = seen(&recipe, &file);
    let (directory, file) = (in_unicode(&directory)?, in_unicode(&file)?);
    if let Some(seen) = &seen {
        console.say(&format!("warning: {}", in_words(seen, &recipe)));
    }
    let mut hear = listener(console);
    let found = measure(directory, &recipe, file, data, &device, &mut hear);
    drop(hear);
    let Evaluated { metrics, by_class, rows, findings } = found?;
    findings.iter().for_each(|finding| console.say(&format!("warning: {finding}")));
    if arguments.json {
        let seen = seen.map(|seen| seen.split);
        console.json(None, &EvaluationJson { metrics, rows, by_class, seen })?;
        return Ok(Exit::Done);
    }
    for (name, value) in metrics.iter() {
        writeln!(console.out, "{name} {}", number(value))?;
    }
    if let Some(report) = &by_class {
        print_classes(report, console)?;
    }
    Ok(Exit::Done)
}

/// Confusions that are listed where the matrix is too wide.
const MOST_CONFUSIONS: usize = 10;

/// The scores of each class and what is taken for what.
fn print_classes(report: &ClassReport, console: &mut Console) -> Result<(), Failure> {
    let rows: Vec<&ClassScores> = report.classes.iter().chain(&report.averages).collect();
    let mut columns = Columns::of(&rows)
        .left("class", |row| one_line(&row.label))
        .point("precision", |row| number(row.precision))
        .point("recall", |row| number(row.recall))
        .point("f1", |row| number(row.f1))
        .right("support", |row| row.support.to_string())
        .end();
    if let Some(matrices) = &report.confusion_matrices {
        for (title, [row, column]) in
            [("TP", [1, 1]), ("FP", [0, 1]), ("FN", [1, 0]), ("TN", [0, 0])]
        {
            let cells = matrices.iter().map(|matrix| matrix[row][column].to_string()).collect();
            columns.push(Column::new(title, Align::Right, cells));
        }
    }
    writeln!(console.out)?;
    console.table(&columns)?;
    let Some(matrix) = &report.confusion_matrix else { return Ok(()) };
    let labels: Vec<String> = report.classes.iter().map(|class| one_line(&class.label)).collect();
    let mut columns = vec![Column::new("true", Align::Left, labels.clone())];
    columns.extend(labels.iter().enumerate().map(|(predicted, label)| {
        let cells = matrix.iter().map(|row| row[predicted].to_string()).collect();
        Column::new(label, Align::Right, cells)
    }));
    let width: usize = columns.iter().map(|column| column.width() + 2).sum();
    if !matches!(console.room, AvailableWidth::Columns(room) if width > room + 2) {
        writeln!(console.out, "\ncounts by true and predicted class:")?;
        return console.table(&columns);
    }
    let mut confusions: Vec<(usize, &str, &str)> = Vec::new();
    for (row, truth) in matrix.iter().zip(&labels) {
        for (rows, predicted) in row.iter().zip(&labels) {
            if *rows > 0 && truth != predicted {
                confusions.push((*rows, truth, predicted));
            }
        }
    }
    confusions.sort_by_key(|(rows, ..)| Reverse(*rows));
    confusions.truncate(MOST_CONFUSIONS);
    writeln!(console.out, "\nmost frequent confusions (`--wide` prints the whole matrix):")?;
    let columns = Columns::of(&confusions)
        .left("true", |confusion| confusion.1)
        .left("predicted", |confusion| confusion.2)
        .right("count", |confusion| confusion.0.to_string())
        .end();
    console.table(&columns)
}

/// Why the metrics are not those of new rows.
fn in_words(Seen { split, is_changed }: &Seen, recipe: &Recipe) -> String {
    let study = one_line(&recipe.study);
    let these = match is_changed {
        true => {
            format!("this file, which has changed since, was `data.{split}` of study `{study}`")
        }
        false => format!("these rows are `data.{split}` of study `{study}`"),
    };
    let used = match *split {
        "train" => "the model was trained on",
        _ => "the trial was chosen by",
    };
    format!("{these}, which {used}: new rows may give worse metrics")
}

/// A path as arguments can name it.
fn in_unicode(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::usage(format!("`{}` is not UTF-8", path.display())).help("rename it")
    })
}
