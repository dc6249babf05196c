//! Measures a model on a split, without autodiff.

use std::collections::BTreeMap;
use std::path::Path;

use super::checkpoint::ModelFiles;
use super::pace::{Pace, Ticker};
use super::task::Extent;
use super::{PreparedData, Split, TrainerError, device};

/// Measures the model in `checkpoint` on a split: the task's metrics as `eval_loss` and so on for validation, `test_...` for test, `train_...` for
/// training rows. `batch` examples are looked at together, which changes nothing but memory and time. `ticker` is told how far it is.
///
/// # Errors
/// A damaged checkpoint, labels or tokenizer other than the data's, a split without rows, an unusable device.
pub fn evaluate(
    checkpoint: &Path,
    data: &PreparedData,
    split: Split,
    batch: usize,
    device: &str,
    ticker: Ticker<'_>,
) -> Result<BTreeMap<String, f64>, TrainerError> {
    let device = device::open(device)?;
    let files = ModelFiles::load(checkpoint, &device)?;
    if !files.model.suits(data) || files.tokenizer != data.tokenizer_file()? {
        return Err(TrainerError::checkpoint(checkpoint, "it was trained with other labels or another tokenizer than this data has"));
    }
    if data.rows(split) == 0 {
        return Err(TrainerError::Arguments { message: format!("the data has no {} rows", split.name()) });
    }
    let rows = files.model.examples(data, split) as u64;
    let pace = Pace::new(ticker, rows);
    pace.stage(split.measuring(), rows);
    let extent = Extent { split, batch, limit: None };
    let metrics = files.model.measure(&files.values, &device, data, &extent, &|done, of| pace.at(done, of))?;
    Ok(named(if split == Split::Validation { "eval" } else { split.name() }, metrics))
}

/// The metrics under the names that reports use.
pub(super) fn named(prefix: &str, metrics: BTreeMap<&'static str, f64>) -> BTreeMap<String, f64> {
    metrics.into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value)).collect()
}
