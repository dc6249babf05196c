//! Softmax and cross-entropy of rows of logits as one operation, and the product that makes logits with it: nothing but gradients is kept.

use std::sync::Arc;

use super::lanes::{exp, greatest, sum, vectorised};
use super::products::{Landing, Place, new_product, product};
use super::{Operation, Purpose, Slope};

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
    const NEEDS: [bool; 1] = [false];
    /// The gradient of the logits.
    type Kept = Vec<f32>;

    fn forward(&self, [logits]: [&[f32]; 1], purpose: Purpose) -> (Vec<f32>, Vec<f32>) {
        let mut slopes = logits.to_vec();
        let loss = losses(&mut slopes, &self.targets, self.smoothing, self.share, purpose);
        (vec![shared(loss, self.share)], slopes)
    }

    fn backward(&self, _: [&[f32]; 1], kept: Vec<f32>, gradient: &[f32], _: [bool; 1]) -> [Slope; 1] {
        [times(kept, gradient[0])]
    }
}

/// The same of logits that are products of `x [rows, width]` with a table's entries `[classes, width]`, inputs in this order: some rows at a
/// time, so that the logits of all rows never lie in memory together.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct TableCrossEntropy {
    /// What is done with the logits.
    pub(in crate::trainer) loss: CrossEntropy,
    /// Columns of both inputs.
    pub(in crate::trainer) width: usize,
}

/// Logits that lie in memory together, and the least rows.
const LOGITS: (usize, usize) = (1 << 22, 64);

impl Operation<2> for TableCrossEntropy {
    const NEEDS: [bool; 2] = [false; 2];
    /// The gradients of rows and table.
    type Kept = [Vec<f32>; 2];

    fn forward(&self, [x, table]: [&[f32]; 2], purpose: Purpose) -> (Vec<f32>, Self::Kept) {
        let (width, classes) = (self.width, table.len() / self.width);
        let CrossEntropy { targets, smoothing, share } = &self.loss;
        let most = (LOGITS.0 / classes.max(1)).max(LOGITS.1);
        let room = |numbers: &[f32]| vec![0.0; if purpose == Purpose::Gradient { numbers.len() } else { 0 }];
        let (mut dx, mut dtable, mut loss) = (room(x), room(table), 0.0);
        let place = Place::dense(width);
        for (number, (x, targets)) in x.chunks(most * width).zip(targets.chunks(most)).enumerate() {
            let rows = targets.len();
            let mut logits = new_product([rows, width, classes], (x, place), (table, place.transposed()));
            loss += losses(&mut logits, targets, *smoothing, *share, purpose);
            if purpose == Purpose::Gradient {
                let (slopes, of) = (logits, Place::dense(classes));
                product([rows, classes, width], (&mut dx, place.below(number * most)), (&slopes, of), (table, place), 1.0, Landing::Replace);
                product([classes, rows, width], (&mut dtable, place), (&slopes, of.transposed()), (x, place), 1.0, Landing::Add);
            }
        }
        (vec![shared(loss, *share)], [dx, dtable])
    }

    fn backward(&self, _: [&[f32]; 2], kept: Self::Kept, gradient: &[f32], _: [bool; 2]) -> [Slope; 2] {
        kept.map(|kept| times(kept, gradient[0]))
    }
}

fn shared(loss: f64, share: f32) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let loss = (loss * f64::from(share)) as f32;
    loss
}

fn times(mut numbers: Vec<f32>, factor: f32) -> Slope {
    // Exactly 1 where this is the loss itself.
    if factor.to_bits() != 1.0_f32.to_bits() {
        numbers.iter_mut().for_each(|number| *number *= factor);
    }
    Slope::New(numbers)
}

/// The sum of the cross-entropies of rows of logits with their true classes.
pub(in crate::trainer) fn row_losses(logits: &[f32], targets: &[u32]) -> f64 {
    losses(&mut logits.to_vec(), targets, 0.0, 1.0, Purpose::Output)
}

vectorised! {
    /// The sum of the rows' losses; in place of the logits are then their gradients times `share`, if these are wanted.
    fn losses(logits: &mut [f32], targets: &[u32], smoothing: f32, share: f32, purpose: Purpose) -> f64 {
        let classes = logits.len() / targets.len().max(1);
        #[expect(clippy::cast_precision_loss, reason = "a number of classes")]
        let (count, spread) = (classes as f32, smoothing / classes as f32);
        let mut loss = 0.0;
        let mut exponentials = vec![0.0; classes];
        for (logits, target) in logits.chunks_exact_mut(classes.max(1)).zip(targets) {
            let target = *target as usize;
            let top = greatest(logits);
            for (exponential, logit) in exponentials.iter_mut().zip(&*logits) {
                *exponential = exp(logit - top);
            }
            let total = sum(&exponentials, &exponentials, |number, _| number);
            let normaliser = total.ln() + top;
            let mut row_loss = (1.0 - smoothing) * (normaliser - logits[target]);
            if smoothing > 0.0 {
                row_loss += spread * (count * normaliser - sum(logits, logits, |logit, _| logit));
            }
            loss += f64::from(row_loss);
            if purpose == Purpose::Gradient {
                let inverse = 1.0 / total;
                for (slope, exponential) in logits.iter_mut().zip(&exponentials) {
                    *slope = (exponential * inverse - spread) * share;
                }
                logits[target] -= (1.0 - smoothing) * share;
            }
        }
        loss
    }
}
