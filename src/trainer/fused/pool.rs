//! One row for each text.

use std::sync::Arc;

use super::lanes::vectorised;
use super::{Operation, Purpose, Slope};
use crate::arguments::Pooling;

/// Of texts whose rows lie one after another, `[tokens, width]`, each text's mean or first row: `[texts, width]`.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct Pool {
    /// Rows of each text, at least one.
    pub(in crate::trainer) lengths: Arc<[usize]>,
    /// Columns.
    pub(in crate::trainer) width: usize,
    /// Which of the two.
    pub(in crate::trainer) pooling: Pooling,
}

impl Operation<1> for Pool {
    const NEEDS: [bool; 1] = [false];
    type Kept = ();

    fn forward(&self, [rows]: [&[f32]; 1], _: Purpose) -> (Vec<f32>, ()) {
        let (width, mut rest) = (self.width, rows);
        let mut output = Vec::with_capacity(self.lengths.len() * width);
        for length in self.lengths.iter() {
            let text;
            (text, rest) = rest.split_at(length * width);
            output.extend_from_slice(&text[..width]);
            if self.pooling == Pooling::Mean {
                let first = output.len() - width;
                average(&mut output[first..], &text[width..], share(*length));
            }
        }
        (output, ())
    }

    fn backward(&self, _: [&[f32]; 1], (): (), gradient: &[f32], [wanted]: [bool; 1]) -> [Slope; 1] {
        [Slope::when(wanted, || {
            let width = self.width;
            let mut slopes = Vec::with_capacity(self.lengths.iter().sum::<usize>() * width);
            for (text, length) in gradient.chunks_exact(width).zip(self.lengths.iter()) {
                match self.pooling {
                    Pooling::Mean => {
                        let first = slopes.len();
                        slopes.extend(text.iter().map(|number| number * share(*length)));
                        (1..*length).for_each(|_| slopes.extend_from_within(first..first + width));
                    }
                    Pooling::Cls => {
                        slopes.extend_from_slice(text);
                        slopes.resize(slopes.len() + (length - 1) * width, 0.0);
                    }
                }
            }
            slopes
        })]
    }
}

#[expect(clippy::cast_precision_loss, reason = "a text's length")]
fn share(length: usize) -> f32 {
    1.0 / length as f32
}

vectorised! {
    /// `sum` and the other rows of its text, added up and multiplied with their share.
    fn average(sum: &mut [f32], others: &[f32], share: f32) {
        for row in others.chunks_exact(sum.len()) {
            sum.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
        }
        sum.iter_mut().for_each(|sum| *sum *= share);
    }
}
