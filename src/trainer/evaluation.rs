//! Measures a model on a split, without autodiff.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Device;

use super::batch::Batch;
use super::checkpoint::ModelFiles;
use super::encoder::Encoder;
use super::layers::Pass;
use super::metrics::{Metrics, Tally};
use super::parameters::{Values, host};
use super::prepared::TokenRows;
use super::{PreparedData, Split, TrainerError, device};

/// Rows per batch where no argument says it.
pub(super) const BATCH: usize = 64;

/// Measures the model in `checkpoint` on a split: `eval_loss`, `eval_accuracy`, `eval_macro_f1` on validation rows, `test_...` on test rows,
/// `train_...` on training rows.
///
/// # Errors
/// A damaged checkpoint, labels or tokenizer other than the data's, a split without rows, an unusable device.
pub fn evaluate(checkpoint: &Path, data: &PreparedData, split: Split, device: &str) -> Result<BTreeMap<String, f64>, TrainerError> {
    let device = device::open(device)?;
    let model = ModelFiles::load(checkpoint, &device)?;
    if model.architecture.labels() != data.labels() || model.tokenizer != data.tokenizer_file()? {
        return Err(TrainerError::checkpoint(checkpoint, "it was trained with other labels or another tokenizer than this data has"));
    }
    if data.rows(split) == 0 {
        return Err(TrainerError::Arguments { message: format!("the data has no {} rows", split.name()) });
    }
    let metrics =
        measure(&model.encoder, &model.values, &device, data.split(split), data.labels().len(), BATCH, model.architecture.max_position_embeddings)?;
    let prefix = if split == Split::Validation { "eval" } else { split.name() };
    Ok(named(prefix, &metrics))
}

/// Measures `values` on all of `rows`.
pub(super) fn measure(
    encoder: &Encoder,
    values: &Values,
    device: &Device,
    rows: &TokenRows,
    labels: usize,
    batch: usize,
    max_length: usize,
) -> Result<Metrics, TrainerError> {
    // Rows of one length share a batch, so that little is padding.
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row| rows.length(*row));
    let mut tally = Tally::new(labels);
    for chosen in order.chunks(batch) {
        let batch = Batch::of(rows, chosen, max_length);
        let logits = host(encoder.forward(&Pass::inference(values, device), &batch))?;
        for (row, logits) in chosen.iter().zip(logits.chunks(labels)) {
            tally.add(logits, rows.label(*row));
        }
    }
    Ok(tally.metrics())
}

/// The metrics under the names that reports use.
pub(super) fn named(prefix: &str, metrics: &Metrics) -> BTreeMap<String, f64> {
    let Metrics { loss, accuracy, macro_f1 } = *metrics;
    [("loss", loss), ("accuracy", accuracy), ("macro_f1", macro_f1)].into_iter().map(|(name, value)| (format!("{prefix}_{name}"), value)).collect()
}
