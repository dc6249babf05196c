//! Cross-entropy losses.

use std::sync::Arc;

use burn::tensor::{Tensor, activation};

use super::super::device_kernels;
use super::super::floats::{as_f32, real};
use super::super::fused;
use super::super::parameters::tensor;
use super::{ForwardContext, HiddenStates, ids, to_f32};

/// The sum over rows of the cross-entropy of `logits [rows, classes]` with the target classes,
/// times `scale`: `[1]` in f32. The logits may be of any dtype.
pub(in super::super) fn cross_entropy(
    logits: Tensor<2>,
    targets: Arc<[u32]>,
    smoothing: f64,
    scale: f64,
) -> Tensor<1> {
    if let Some(loss) = fused::apply(fused_loss(&targets, smoothing, scale), [&logits], [1, 1]) {
        return loss.reshape([1]);
    }
    let (share, factor) = (as_f32(smoothing), as_f32(scale));
    if let Some(loss) = device_kernels::cross_entropy(&logits, &targets, share, factor) {
        return loss.reshape([1]);
    }
    let logits = to_f32(logits);
    let [log_probabilities, of_targets] = log_probabilities(logits, &targets);
    smoothed(log_probabilities, of_targets, smoothing, scale)
}

/// The same with class weights, where `scale` is the inverse of the weight of all rows together:
/// PyTorch's `CrossEntropyLoss(weight)`.
pub(in super::super) fn weighted_cross_entropy(
    logits: Tensor<2>,
    targets: &[u32],
    weights: &[f32],
    smoothing: f64,
    scale: f64,
) -> Tensor<1> {
    let (device, [rows, classes]) = (logits.device(), logits.dims());
    let [log_probabilities, of_targets] = log_probabilities(logits, targets);
    let row_weights: Vec<f32> = targets.iter().map(|target| weights[*target as usize]).collect();
    let weighted = log_probabilities * tensor(weights.to_vec(), [1, classes], &device);
    smoothed(weighted, of_targets * tensor(row_weights, [rows, 1], &device), smoothing, scale)
}

/// The cross-entropy of the logits `x table^T` of `x [rows, width]` and `table [classes, width]`,
/// which are computed some rows at a time.
pub(in super::super) fn linear_cross_entropy(
    context: &ForwardContext,
    x: HiddenStates,
    table: Tensor<2>,
    targets: Arc<[u32]>,
    smoothing: f64,
    scale: f64,
) -> Tensor<1> {
    let (loss, width) = (fused_loss(&targets, smoothing, scale), x.dims()[1]);
    match context.fused(fused::LinearCrossEntropy { loss, width }, [&x, &table], [1, 1]) {
        Some(loss) => loss.reshape([1]),
        None => cross_entropy(logits(context, x, table), targets, smoothing, scale),
    }
}

/// The logits `x table^T` of `x [rows, width]`, `table [classes, width]`, in the dtype of products.
pub(in super::super) fn logits(
    context: &ForwardContext,
    x: HiddenStates,
    table: Tensor<2>,
) -> Tensor<2> {
    device_kernels::product_transposed(&x, &table, context.compute_dtype()).unwrap_or_else(|| {
        context.to_compute_dtype(x).matmul(context.to_compute_dtype(table).transpose())
    })
}

/// The same plus a `bias [1, classes]`.
pub(in super::super) fn biased_logits(
    context: &ForwardContext,
    x: HiddenStates,
    table: Tensor<2>,
    bias: Tensor<2>,
) -> Tensor<2> {
    logits(context, x, table) + context.to_compute_dtype(bias)
}

fn fused_loss(targets: &Arc<[u32]>, smoothing: f64, scale: f64) -> fused::CrossEntropy {
    let [smoothing, scale] = [smoothing, scale].map(as_f32);
    fused::CrossEntropy { targets: Arc::clone(targets), smoothing, scale }
}

/// The log probabilities of all classes `[rows, classes]`, and of the targets `[rows, 1]`.
fn log_probabilities(logits: Tensor<2>, targets: &[u32]) -> [Tensor<2>; 2] {
    let (device, rows) = (logits.device(), logits.dims()[0]);
    let log_probabilities = activation::log_softmax(logits, 1);
    let of_targets = log_probabilities.clone().gather(1, ids(targets, &device).reshape([rows, 1]));
    [log_probabilities, of_targets]
}

/// The negative sum of the targets' log probabilities, of which `smoothing` is spread over all
/// classes, times `scale`.
fn smoothed(
    log_probabilities: Tensor<2>,
    of_targets: Tensor<2>,
    smoothing: f64,
    scale: f64,
) -> Tensor<1> {
    let spread = smoothing / real(log_probabilities.dims()[1]);
    (of_targets.sum() * (1.0 - smoothing) + log_probabilities.sum() * spread) * -scale
}
