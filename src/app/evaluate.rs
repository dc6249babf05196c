//! Evaluates an exported model on a file of labelled rows.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::AppError;
use super::worker_job::{self, OnProgress, Progress, halving};
use crate::arguments::{DataArguments, LabelFormat, PRETRAINED, RowsAtOnce, TaskKind};
use crate::export::{Draft, Purpose, Recipe};
use crate::runner::inputs::{data_digest, data_files};
use crate::runner::protocol::WorkerJob;
use crate::study::class_report::ClassReport;
use crate::study::device::Device;
use crate::study::metric::Metrics;
use crate::study::provenance::SourceFile;

/// Arguments of `[data]` that say where rows come from.
pub const WHERE_FROM: [&str; 5] = ["train", "validation", "test", "validation_split", "test_split"];

/// Data of its training that a model is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `train`, of which rows may have been held out, or `validation`.
    pub split: &'static str,
    /// Whether the file has other contents than then.
    pub is_changed: bool,
}

/// Whether `file` is what the model of `recipe` was trained on, or its trial was chosen by: a file
/// with the same contents, wherever it is, or the same file.
pub fn seen(recipe: &Recipe, file: &Path) -> Option<Seen> {
    let digest = data_digest(file).ok();
    let file = file.canonicalize().ok()?;
    let splits = SourceFile::DATA.into_iter().filter(|split| *split != SourceFile::TEST);
    let mut data = splits.filter_map(|split| Some((split, recipe.data.get(split)?.as_str()?)));
    data.find_map(|(split, path)| {
        let recorded = recipe.digests.get(path);
        if digest.is_some() && digest.as_ref() == recorded {
            return Some(Seen { split, is_changed: false });
        }
        let path = Path::new(path);
        let files = data_files(path).ok()?.paths;
        let is_it = files.iter().any(|path| path.canonicalize().is_ok_and(|path| path == file));
        let is_changed = recorded.is_some() && data_digest(path).ok().as_ref() != recorded;
        is_it.then_some(Seen { split, is_changed })
    })
}

/// What an evaluation found.
#[derive(Debug, Deserialize)]
pub struct Evaluated {
    /// The metrics.
    pub metrics: Metrics,
    /// The results by class, of classifiers of texts or words.
    #[serde(default)]
    pub by_class: Option<ClassReport>,
    /// How many rows were measured.
    #[serde(default)]
    pub rows: u64,
    /// Which rows were left out, or not read to their end.
    #[serde(default)]
    pub findings: Vec<String>,
}

/// The metrics of the model in `directory`, an export with its `recipe`, on the rows of `file`, as
/// `test_loss` and so on. Both paths are absolute. `data`: arguments of `[data]` in place of those
/// that it was trained with, such as the column of labels.
///
/// # Errors
/// A row or a label is not like those of its training, or the worker failed.
pub fn evaluate(
    directory: &str,
    recipe: &Recipe,
    file: &str,
    data: BTreeMap<String, Json>,
    device: &Device,
    on_progress: &mut OnProgress<'_>,
) -> Result<Evaluated, AppError> {
    // Its tokenizer and its labels are those of the directory.
    let mut arguments = recipe.trainer_arguments();
    arguments.retain(|name, _| !name.starts_with("model."));
    arguments.insert(PRETRAINED.to_owned(), directory.into());
    let mut values = recipe.data_arguments();
    values.extend(data);
    values.retain(|name, _| !WHERE_FROM.contains(&name.as_str()));
    let temporary = std::env::temp_dir().join("hpsearch-evaluation");
    let cache = Draft::beside(&temporary, Purpose::Training)?;
    // Nothing is trained. Training rows say which labels there are: all that the model has, since
    // the file may lack some.
    let known = match rows_of_labels(Path::new(directory), TaskKind::of(&arguments), &values) {
        None => file.to_owned(),
        Some(rows) => {
            let path = cache.path().join("labels.jsonl");
            fs::write(&path, rows)?;
            path.to_string_lossy().into_owned()
        }
    };
    for (split, path) in [("train", &*known), ("validation", &*known), ("test", file)] {
        values.insert(split.to_owned(), path.into());
    }
    on_progress(Progress::Began("reading the rows"));
    let usual =
        RowsAtOnce::that_may_be_halved(&arguments).map(|rows| RowsAtOnce { train: 1, ..rows });
    let answer = halving(usual, on_progress, |rows, on_progress| {
        let job = WorkerJob::Evaluate {
            checkpoint: Path::new(directory).to_owned(),
            arguments: arguments.clone(),
            data: values.clone(),
            cache: cache.path().to_owned(),
            device: device.clone(),
            or_validation: false,
            rows: rows.map(|rows| rows.eval),
        };
        worker_job::again(job, on_progress)
    });
    Ok(serde_json::from_value(answer?)?)
}

/// Rows with each label of the model in `directory`, as JSON lines; none of a task without labels.
fn rows_of_labels(
    directory: &Path,
    task: TaskKind,
    data: &BTreeMap<String, Json>,
) -> Option<String> {
    let mut data = data.clone();
    data.insert("train".to_owned(), "labels.jsonl".into());
    // What cannot be read, the worker says.
    let data = DataArguments::resolve(&data).ok()?;
    let config: Json =
        serde_json::from_slice(&fs::read(directory.join("config.json")).ok()?).ok()?;
    let labels = config["id2label"].as_object()?;
    let labels: Vec<&str> = labels.values().filter_map(Json::as_str).collect();
    let row = |text: Json, label: Json| {
        let mut row = json!({});
        row[&data.text] = text;
        row[&data.label] = label;
        if let Some(pair) = &data.text_pair {
            row[pair] = "a".into();
        }
        format!("{row}\n")
    };
    match task {
        TaskKind::TextClassification => {
            Some(labels.iter().map(|label| row("a".into(), (*label).into())).collect())
        }
        TaskKind::MultiLabelClassification if are_numbered(&labels, &data) => {
            Some(row("a".into(), json!(vec![1; labels.len()])))
        }
        TaskKind::MultiLabelClassification => Some(row("a".into(), json!(labels))),
        TaskKind::TokenClassification => Some(row(json!(vec!["a"; labels.len()]), json!(labels))),
        _ => None,
    }
}

/// Whether the labels are those of multi-hot data, which has no names for them.
fn are_numbered(labels: &[&str], data: &DataArguments) -> bool {
    let is_numbered = |label: &&str| {
        let number = label.strip_prefix("LABEL_");
        number.is_some_and(|number| number.parse::<usize>().is_ok())
    };
    match data.label_format {
        None | Some(LabelFormat::Names) => false,
        Some(LabelFormat::Auto) => labels.len() > 1 && labels.iter().all(is_numbered),
        Some(LabelFormat::MultiHot) => true,
    }
}
