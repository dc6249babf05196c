//! What optimisers do to numbers in this process's memory, in one pass over them.

use super::lanes::vectorised;

/// The scalars of one step of AdamW, for one parameter.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct AdamW {
    /// What gradients are multiplied with: less than 1 where their norm is clipped.
    pub(in crate::trainer) clip: f32,
    /// β₁ and what is left of 1.
    pub(in crate::trainer) mean: [f32; 2],
    /// β₂ and what is left of 1.
    pub(in crate::trainer) square: [f32; 2],
    /// What roots of mean squares are multiplied with, since these began at 0.
    pub(in crate::trainer) scale: f32,
    /// Added to those roots.
    pub(in crate::trainer) epsilon: f32,
    /// What values are multiplied with: 1 less learning rate times decay.
    pub(in crate::trainer) shrink: f32,
    /// The learning rate, made up for means that began at 0.
    pub(in crate::trainer) rate: f32,
}

vectorised! {
    /// A step of AdamW, as `torch/optim/adamw.py`, `_single_tensor_adamw`.
    pub(in crate::trainer) fn adamw(values: &mut [f32], gradients: &[f32], means: &mut [f32], squares: &mut [f32], scalars: AdamW) {
        let AdamW { clip, mean: [keep1, take1], square: [keep2, take2], scale, epsilon, shrink, rate } = scalars;
        for (((value, gradient), mean), square) in values.iter_mut().zip(gradients).zip(means).zip(squares) {
            let gradient = gradient * clip;
            *mean = *mean * keep1 + gradient * take1;
            *square = *square * keep2 + gradient * gradient * take2;
            *value = *value * shrink - rate * *mean / (square.sqrt() * scale + epsilon);
        }
    }
}

vectorised! {
    /// A step of SGD with momentum, as `torch/optim/sgd.py`, `_single_tensor_sgd`.
    pub(in crate::trainer) fn sgd(values: &mut [f32], gradients: &[f32], buffers: &mut [f32], clip: f32, momentum: f32, decay: f32, rate: f32) {
        for ((value, gradient), buffer) in values.iter_mut().zip(gradients).zip(buffers) {
            *buffer = *buffer * momentum + (gradient * clip + decay * *value);
            *value -= rate * *buffer;
        }
    }
}

vectorised! {
    /// The sum of squares, added up in f64, so that only a number beyond f32 itself makes it infinite.
    pub(in crate::trainer) fn squares(numbers: &[f32]) -> f64 {
        let mut lanes = [0.0; 16];
        let (chunks, rest) = numbers.as_chunks::<16>();
        for chunk in chunks {
            for (lane, number) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(*number) * f64::from(*number);
            }
        }
        for (lane, number) in lanes.iter_mut().zip(rest) {
            *lane += f64::from(*number) * f64::from(*number);
        }
        lanes.iter().sum()
    }
}
