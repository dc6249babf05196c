//! Pooling of token vectors to one vector per text.

use std::sync::Arc;

use super::simd::{simd_level, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};
use hpsearch_core::arguments::Pooling;

/// Of texts one after another, `[tokens, width]`, each text's mean or first row: `[texts, width]`.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    /// Rows of each text, at least one.
    pub(crate) lengths: Arc<[usize]>,
    pub(crate) width: usize,
    pub(crate) pooling: Pooling,
}

impl Operation<1> for Pool {
    const SAVES_INPUT: [bool; 1] = [false];
    type Saved = ();

    fn forward(&self, [rows]: [&[f32]; 1], _: GradMode) -> (Vec<f32>, ()) {
        let (width, mut rest) = (self.width, rows);
        let mut output = Vec::with_capacity(self.lengths.len() * width);
        for length in self.lengths.iter() {
            let text;
            (text, rest) = rest.split_at(length * width);
            output.extend_from_slice(&text[..width]);
            if self.pooling == Pooling::Mean {
                let first = output.len() - width;
                average(&mut output[first..], &text[width..], inverse(*length));
            }
        }
        (output, ())
    }

    fn backward(&self, pass: BackwardInput<1, ()>) -> [InputGradient; 1] {
        let BackwardInput { gradient, needs_grad: [needs_grad], .. } = pass;
        [InputGradient::if_needed(needs_grad, || {
            let width = self.width;
            let mut gradients = Vec::with_capacity(self.lengths.iter().sum::<usize>() * width);
            for (text, length) in gradient.chunks_exact(width).zip(self.lengths.iter()) {
                match self.pooling {
                    Pooling::Mean => {
                        let first = gradients.len();
                        gradients.extend(text.iter().map(|value| value * inverse(*length)));
                        (1..*length)
                            .for_each(|_| gradients.extend_from_within(first..first + width));
                    }
                    Pooling::Cls => {
                        gradients.extend_from_slice(text);
                        gradients.resize(gradients.len() + (length - 1) * width, 0.0);
                    }
                }
            }
            gradients
        })]
    }
}

#[expect(clippy::cast_precision_loss, reason = "a text's length")]
fn inverse(length: usize) -> f32 {
    1.0 / length as f32
}

vectorised! {
    /// Replaces `sum`, a text's first row, by the mean with the other rows.
    fn average(sum: &mut [f32], others: &[f32], inverse: f32) {
        for row in others.chunks_exact(sum.len()) {
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        sum.iter_mut().for_each(|sum| *sum *= inverse);
    }
}
