//! Softmax and cross-entropy of rows of logits as one operation, also with the product that
//! computes the logits: only gradients are saved.

use std::sync::Arc;

use super::matmul::{Beta, Strides, gemm, matmul};
use super::simd::{exp, maximum, simd_level, sum, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// The sum over rows of the cross-entropy of `logits [rows, classes]` with the target classes,
/// times `scale`: `[1, 1]`.
#[derive(Debug, Clone)]
pub(crate) struct CrossEntropy {
    pub(crate) targets: Arc<[u32]>,
    /// The share of the target probability that is spread over all classes.
    pub(crate) smoothing: f32,
    /// The factor of each row's loss.
    pub(crate) scale: f32,
}

impl Operation<1> for CrossEntropy {
    const SAVES_INPUT: [bool; 1] = [false];
    /// The gradient of the logits.
    type Saved = Vec<f32>;

    fn forward(&self, [logits]: [&[f32]; 1], grad_mode: GradMode) -> (Vec<f32>, Vec<f32>) {
        let mut gradients = logits.to_vec();
        let loss = losses(&mut gradients, &self.targets, self.smoothing, self.scale, grad_mode);
        (vec![scaled(loss, self.scale)], gradients)
    }

    fn backward(&self, pass: BackwardInput<1, Vec<f32>>) -> [InputGradient; 1] {
        let BackwardInput { saved, gradient, .. } = pass;
        [multiply_by(saved, gradient[0])]
    }
}

/// The same for the logits `x tableᵀ` of `x [rows, width]` and `table [classes, width]`, inputs in
/// this order. Logits are computed in chunks of rows and never materialised all at once.
#[derive(Debug, Clone)]
pub(crate) struct LinearCrossEntropy {
    pub(crate) loss: CrossEntropy,
    /// Columns of both inputs.
    pub(crate) width: usize,
}

/// Most logits of a chunk, unless its rows are fewer than [`MIN_CHUNK_ROWS`].
const LOGITS_PER_CHUNK: usize = 1 << 22;

const MIN_CHUNK_ROWS: usize = 64;

impl Operation<2> for LinearCrossEntropy {
    const SAVES_INPUT: [bool; 2] = [false; 2];
    /// The gradients of both inputs.
    type Saved = [Vec<f32>; 2];

    fn forward(&self, [x, table]: [&[f32]; 2], grad_mode: GradMode) -> (Vec<f32>, Self::Saved) {
        let (width, classes) = (self.width, table.len() / self.width);
        let CrossEntropy { targets, smoothing, scale } = &self.loss;
        let chunk_rows = (LOGITS_PER_CHUNK / classes.max(1)).max(MIN_CHUNK_ROWS);
        let buffer = |values: &[f32]| {
            vec![0.0; if grad_mode == GradMode::Enabled { values.len() } else { 0 }]
        };
        let (mut dx, mut dtable, mut loss) = (buffer(x), buffer(table), 0.0);
        let strides = Strides::dense(width);
        for (chunk, (x, targets)) in
            x.chunks(chunk_rows * width).zip(targets.chunks(chunk_rows)).enumerate()
        {
            let rows = targets.len();
            let mut logits =
                matmul([rows, width, classes], (x, strides), (table, strides.transposed()));
            loss += losses(&mut logits, targets, *smoothing, *scale, grad_mode);
            if grad_mode == GradMode::Enabled {
                let (gradients, class_strides) = (logits, Strides::dense(classes));
                let (left, right) = ((&gradients[..], class_strides), (table, strides));
                let dx = (&mut dx[..], strides.skip_rows(chunk * chunk_rows));
                gemm([rows, classes, width], dx, left, right, 1.0, Beta::Zero);
                let (left, right) = ((&gradients[..], class_strides.transposed()), (x, strides));
                let dtable = (&mut dtable[..], strides);
                gemm([classes, rows, width], dtable, left, right, 1.0, Beta::One);
            }
        }
        (vec![scaled(loss, *scale)], [dx, dtable])
    }

    fn backward(&self, pass: BackwardInput<2, Self::Saved>) -> [InputGradient; 2] {
        let BackwardInput { saved, gradient, .. } = pass;
        saved.map(|saved| multiply_by(saved, gradient[0]))
    }
}

fn scaled(loss: f64, scale: f32) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let loss = (loss * f64::from(scale)) as f32;
    loss
}

fn multiply_by(mut values: Vec<f32>, factor: f32) -> InputGradient {
    // 1 unless the loss is scaled further.
    if factor.to_bits() != 1.0_f32.to_bits() {
        values.iter_mut().for_each(|value| *value *= factor);
    }
    InputGradient::Values(values)
}

/// The sum over rows of the cross-entropy, without smoothing.
pub(crate) fn cross_entropy_sum(logits: &[f32], targets: &[u32]) -> f64 {
    losses(&mut logits.to_vec(), targets, 0.0, 1.0, GradMode::Disabled)
}

vectorised! {
    /// The sum of the rows' losses; replaces the logits by their gradients times `scale` if
    /// `grad_mode` is enabled.
    fn losses(
        logits: &mut [f32],
        targets: &[u32],
        smoothing: f32,
        scale: f32,
        grad_mode: GradMode,
    ) -> f64 {
        let classes = logits.len() / targets.len().max(1);
        #[expect(clippy::cast_precision_loss, reason = "a number of classes")]
        let (count, spread) = (classes as f32, smoothing / classes as f32);
        let mut loss = 0.0;
        let mut exponentials = vec![0.0; classes];
        for (logits, target) in logits.chunks_exact_mut(classes.max(1)).zip(targets) {
            let target = *target as usize;
            let max = maximum(logits);
            for (exponential, logit) in exponentials.iter_mut().zip(&*logits) {
                *exponential = exp(logit - max);
            }
            let total = sum(&exponentials, &exponentials, |value, _| value);
            let normaliser = total.ln() + max;
            let mut row_loss = (1.0 - smoothing) * (normaliser - logits[target]);
            if smoothing > 0.0 {
                row_loss += spread * (count * normaliser - sum(logits, logits, |logit, _| logit));
            }
            loss += f64::from(row_loss);
            if grad_mode == GradMode::Enabled {
                let inverse = 1.0 / total;
                for (gradient, exponential) in logits.iter_mut().zip(&exponentials) {
                    *gradient = (exponential * inverse - spread) * scale;
                }
                logits[target] -= (1.0 - smoothing) * scale;
            }
        }
        loss
    }
}
