//! Evaluates a checkpoint on a split.

use std::collections::BTreeMap;
use std::path::Path;

use super::checkpoint::SavedModel;
use super::progress::{Progress, ProgressCallback};
use super::task::EvaluationSet;
use super::{PreparedData, Split, TrainerError, device};
use hpsearch_core::study::class_report::ClassReport;

/// The results of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// The results by class, of classifiers of texts or words.
    pub by_class: Option<ClassReport>,
}

/// Evaluates the model in `checkpoint` on a split: the task's metrics as `eval_loss` and so on for
/// validation, `test_...` for test, `train_...` for training rows. The batch size `batch` affects
/// memory and time only.
///
/// # Errors
/// A damaged checkpoint, labels or tokenizer other than the data's, a split without rows, an
/// unusable device.
pub fn evaluate(
    checkpoint: &Path,
    data: &PreparedData,
    split: Split,
    batch: usize,
    device: &str,
    on_progress: ProgressCallback<'_>,
) -> Result<Evaluation, TrainerError> {
    let device = device::open(device)?;
    let files = SavedModel::load(checkpoint, &device)?;
    if !files.model.is_compatible(data) || files.tokenizer != data.tokenizer_file()? {
        return Err(TrainerError::checkpoint(
            checkpoint,
            "it was trained with other labels or another tokenizer than this data has",
        ));
    }
    if data.rows(split) == 0 {
        return Err(TrainerError::arguments(format!("the data has no {} rows", split.name())));
    }
    let rows = files.model.examples(data, split) as u64;
    let progress = Progress::new(on_progress, rows);
    progress.begin_stage(split.evaluating(), rows);
    let set = EvaluationSet { split, batch, limit: None, writing: files.model.writing() };
    let on_progress = |done, of| progress.update(done, of);
    let (metrics, by_class) =
        files.model.measure_by_class(&files.values, &device, data, &set, &on_progress)?;
    let prefix = if split == Split::Validation { "eval" } else { split.name() };
    Ok(Evaluation { metrics: named(prefix, metrics), by_class })
}

/// The metrics with the prefix of their split.
pub(super) fn named(prefix: &str, metrics: BTreeMap<&'static str, f64>) -> BTreeMap<String, f64> {
    metrics.into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value)).collect()
}
