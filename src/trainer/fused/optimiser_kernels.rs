//! Optimiser steps on slices, in one pass over memory.

use super::simd::{simd_level, vectorised};

/// The scalars of one AdamW step of one parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdamWScalars {
    /// The factor of gradients: below 1 where their norm is clipped.
    pub(crate) clip: f32,
    /// β₁ and 1 - β₁.
    pub(crate) mean: [f32; 2],
    /// β₂ and 1 - β₂.
    pub(crate) square: [f32; 2],
    /// The bias correction of the root of the second moment.
    pub(crate) scale: f32,
    pub(crate) epsilon: f32,
    /// 1 - learning rate * weight decay.
    pub(crate) shrink: f32,
    /// The learning rate with the bias correction of the first moment.
    pub(crate) rate: f32,
}

vectorised! {
    /// As `_single_tensor_adamw` in `torch/optim/adamw.py`.
    pub(crate) fn adamw(
        values: &mut [f32],
        gradients: &[f32],
        means: &mut [f32],
        squares: &mut [f32],
        scalars: AdamWScalars,
    ) {
        let AdamWScalars {
            clip,
            mean: [keep1, take1],
            square: [keep2, take2],
            scale,
            epsilon,
            shrink,
            rate,
        } = scalars;
        for (((value, gradient), mean), square) in
            values.iter_mut().zip(gradients).zip(means).zip(squares)
        {
            let gradient = gradient * clip;
            *mean = *mean * keep1 + gradient * take1;
            *square = *square * keep2 + gradient * gradient * take2;
            *value = *value * shrink - rate * *mean / (square.sqrt() * scale + epsilon);
        }
    }
}

vectorised! {
    /// As `_single_tensor_sgd` in `torch/optim/sgd.py`.
    pub(crate) fn sgd(
        values: &mut [f32],
        gradients: &[f32],
        buffers: &mut [f32],
        clip: f32,
        momentum: f32,
        decay: f32,
        rate: f32,
    ) {
        for ((value, gradient), buffer) in values.iter_mut().zip(gradients).zip(buffers) {
            *buffer = *buffer * momentum + (gradient * clip + decay * *value);
            *value -= rate * *buffer;
        }
    }
}

vectorised! {
    /// In f64, so that only a value that is infinite in f32 makes it infinite.
    pub(crate) fn sum_of_squares(numbers: &[f32]) -> f64 {
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
