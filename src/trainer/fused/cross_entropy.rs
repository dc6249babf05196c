//! Softmax and cross-entropy of rows of logits as one operation: nothing but the gradient is written down.

use std::sync::Arc;

use super::lanes::{exp, greatest, sum, vectorised};
use super::{Operation, Purpose};

/// The sum over rows of the cross-entropy of `logits [rows, classes]` with the rows' true classes, times `share`: `[1, 1]`.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct CrossEntropy {
    /// The true class of each row.
    pub(in crate::trainer) targets: Arc<[u32]>,
    /// Share of the target probability that is spread over all classes.
    pub(in crate::trainer) smoothing: f32,
    /// What each row weighs.
    pub(in crate::trainer) share: f32,
}

impl Operation<1> for CrossEntropy {
    /// The gradient of the logits.
    type Kept = Vec<f32>;

    fn forward(&self, [logits]: [&[f32]; 1], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let mut gradient = if purpose == Purpose::Gradient { vec![0.0; logits.len()] } else { Vec::new() };
        let loss = forward(logits, &self.targets, self.smoothing, self.share, &mut gradient);
        #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
        let loss = (loss * f64::from(self.share)) as f32;
        (vec![loss], gradient)
    }

    fn backward(&self, _: [&[f32]; 1], kept: Vec<f32>, gradient: &[f32], _: [bool; 1]) -> [Option<Vec<f32>>; 1] {
        let mut kept = kept;
        let outer = gradient[0];
        // Exactly 1 where this is the loss itself.
        if outer.to_bits() != 1.0_f32.to_bits() {
            kept.iter_mut().for_each(|number| *number *= outer);
        }
        [Some(kept)]
    }
}

/// The sum of the cross-entropies of rows of logits with their true classes.
pub(in crate::trainer) fn row_losses(logits: &[f32], targets: &[u32]) -> f64 {
    forward(logits, targets, 0.0, 1.0, &mut [])
}

vectorised! {
    /// The sum of the rows' losses; their gradients times `share` go to `gradient`, if it has room.
    fn forward(logits: &[f32], targets: &[u32], smoothing: f32, share: f32, gradient: &mut [f32]) -> f64 {
        let classes = logits.len() / targets.len().max(1);
        #[expect(clippy::cast_precision_loss, reason = "a number of classes")]
        let (count, spread) = (classes as f32, smoothing / classes as f32);
        let mut loss = 0.0;
        let mut exponentials = vec![0.0; classes];
        for (row, (logits, target)) in logits.chunks_exact(classes.max(1)).zip(targets).enumerate() {
            let target = *target as usize;
            let top = greatest(logits);
            for (exponential, logit) in exponentials.iter_mut().zip(logits) {
                *exponential = exp(logit - top);
            }
            let total = sum(&exponentials, &exponentials, |number, _| number);
            let normaliser = total.ln() + top;
            let mut row_loss = (1.0 - smoothing) * (normaliser - logits[target]);
            if smoothing > 0.0 {
                row_loss += spread * (count * normaliser - sum(logits, logits, |logit, _| logit));
            }
            loss += f64::from(row_loss);
            if let Some(gradient) = gradient.get_mut(row * classes..(row + 1) * classes) {
                let inverse = 1.0 / total;
                for (gradient, exponential) in gradient.iter_mut().zip(&exponentials) {
                    *gradient = (exponential * inverse - spread) * share;
                }
                gradient[target] -= (1.0 - smoothing) * share;
            }
        }
        loss
    }
}
