//! Layer normalisation in one pass over each row, forward and backward.

use super::lanes::{sum, vectorised};
use super::{Operation, Purpose};

/// Rows normalised to mean 0 and variance 1, times `scale [1, width]`, plus `shift [1, width]`: inputs in this order.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct LayerNorm {
    /// Added to the variance.
    pub(in crate::trainer) epsilon: f32,
}

impl Operation<3> for LayerNorm {
    /// Mean and inverse deviation of each row.
    type Kept = Vec<[f32; 2]>;

    fn forward(&self, [x, scale, shift]: [&[f32]; 3], _: Purpose) -> (Vec<f32>, Self::Kept) {
        let mut output = vec![0.0; x.len()];
        let mut statistics = vec![[0.0; 2]; x.len() / scale.len()];
        forward(x, scale, shift, self.epsilon, &mut output, &mut statistics);
        (output, statistics)
    }

    fn backward(&self, [x, scale, _]: [&[f32]; 3], statistics: Self::Kept, gradient: &[f32], _: [bool; 3]) -> [Option<Vec<f32>>; 3] {
        let (mut dx, mut dscale, mut dshift) = (vec![0.0; x.len()], vec![0.0; scale.len()], vec![0.0; scale.len()]);
        backward(x, scale, &statistics, gradient, &mut dx, &mut dscale, &mut dshift);
        [Some(dx), Some(dscale), Some(dshift)]
    }
}

vectorised! {
    fn forward(x: &[f32], scale: &[f32], shift: &[f32], epsilon: f32, output: &mut [f32], statistics: &mut [[f32; 2]]) {
        let width = scale.len();
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let share = 1.0 / width as f32;
        for ((x, output), statistics) in x.chunks_exact(width).zip(output.chunks_exact_mut(width)).zip(statistics) {
            let mean = sum(x, x, |x, _| x) * share;
            let variance = sum(x, x, |x, _| (x - mean) * (x - mean)) * share;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            for (((output, x), scale), shift) in output.iter_mut().zip(x).zip(scale).zip(shift) {
                *output = (x - mean) * inverse * scale + shift;
            }
            *statistics = [mean, inverse];
        }
    }
}

vectorised! {
    fn backward(x: &[f32], scale: &[f32], statistics: &[[f32; 2]], gradient: &[f32], dx: &mut [f32], dscale: &mut [f32], dshift: &mut [f32]) {
        let width = scale.len();
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let share = 1.0 / width as f32;
        let mut scaled = vec![0.0; width];
        let rows = x.chunks_exact(width).zip(gradient.chunks_exact(width)).zip(dx.chunks_exact_mut(width)).zip(statistics);
        for (((x, gradient), dx), [mean, inverse]) in rows {
            let (mean, inverse) = (*mean, *inverse);
            for ((scaled, gradient), scale) in scaled.iter_mut().zip(gradient).zip(scale) {
                *scaled = gradient * scale;
            }
            let along = sum(&scaled, x, |scaled, x| scaled * ((x - mean) * inverse)) * share;
            let middle = sum(&scaled, &scaled, |scaled, _| scaled) * share;
            for ((dx, x), scaled) in dx.iter_mut().zip(x).zip(&scaled) {
                *dx = (scaled - middle - (x - mean) * inverse * along) * inverse;
            }
            for ((dscale, x), gradient) in dscale.iter_mut().zip(x).zip(gradient) {
                *dscale += gradient * ((x - mean) * inverse);
            }
            for (dshift, gradient) in dshift.iter_mut().zip(gradient) {
                *dshift += gradient;
            }
        }
    }
}
