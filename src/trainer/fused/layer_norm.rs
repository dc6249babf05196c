//! Layer normalisation, forward and backward, each row while it is at hand.

use super::lanes::{append, sum, vectorised};
use super::{Operation, Purpose, Slope};

/// Rows normalised to mean 0 and variance 1, times `scale [1, width]`, plus `shift [1, width]`: inputs in this order.
#[derive(Debug, Clone, Copy)]
pub(in crate::trainer) struct LayerNorm {
    /// Added to the variance.
    pub(in crate::trainer) epsilon: f32,
}

impl Operation<3> for LayerNorm {
    const NEEDS: [bool; 3] = [true, true, false];
    /// Mean and inverse deviation of each row.
    type Kept = Vec<[f32; 2]>;

    fn forward(&self, [x, scale, shift]: [&[f32]; 3], _: Purpose) -> (Vec<f32>, Self::Kept) {
        let mut statistics = Vec::with_capacity(x.len() / scale.len());
        let output = forward(x, scale, shift, self.epsilon, &mut statistics);
        (output, statistics)
    }

    fn backward(&self, [x, scale, _]: [&[f32]; 3], statistics: Self::Kept, gradient: &[f32], _: [bool; 3]) -> [Slope; 3] {
        let (mut dscale, mut dshift) = (vec![0.0; scale.len()], vec![0.0; scale.len()]);
        let dx = backward(x, scale, &statistics, gradient, &mut dscale, &mut dshift);
        [dx, dscale, dshift].map(Slope::New)
    }
}

/// Rows that are looked at together: the sums of one do not wait for those of another.
const ROWS: usize = 4;

vectorised! {
    fn forward(x: &[f32], scale: &[f32], shift: &[f32], epsilon: f32, statistics: &mut Vec<[f32; 2]>) -> Vec<f32> {
        let width = scale.len();
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let share = 1.0 / width as f32;
        let (mut output, shift) = (Vec::with_capacity(x.len()), &shift[..width]);
        for rows in x.chunks(ROWS * width) {
            let mut found = [[0.0; 2]; ROWS];
            for (x, [mean, _]) in rows.chunks_exact(width).zip(&mut found) {
                *mean = sum(x, x, |x, _| x) * share;
            }
            for (x, [mean, inverse]) in rows.chunks_exact(width).zip(&mut found) {
                let mean = *mean;
                let variance = sum(x, x, |x, _| (x - mean) * (x - mean)) * share;
                *inverse = 1.0 / (variance + epsilon).sqrt();
            }
            for (x, [mean, inverse]) in rows.chunks_exact(width).zip(found) {
                append(&mut output, x, scale, |place, x, scale| (x - mean) * inverse * scale + shift[place]);
                statistics.push([mean, inverse]);
            }
        }
        output
    }
}

vectorised! {
    fn backward(x: &[f32], scale: &[f32], statistics: &[[f32; 2]], gradient: &[f32], dscale: &mut [f32], dshift: &mut [f32]) -> Vec<f32> {
        let width = scale.len();
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let share = 1.0 / width as f32;
        let (mut scaled, mut normal) = (vec![0.0; width], vec![0.0; width]);
        let mut dx = Vec::with_capacity(x.len());
        for ((x, gradient), [mean, inverse]) in x.chunks_exact(width).zip(gradient.chunks_exact(width)).zip(statistics) {
            let (mean, inverse) = (*mean, *inverse);
            let numbers = scaled.iter_mut().zip(&mut normal).zip(dscale.iter_mut().zip(dshift.iter_mut())).zip(x.iter().zip(gradient).zip(scale));
            for (((scaled, normal), (dscale, dshift)), ((x, gradient), scale)) in numbers {
                *scaled = gradient * scale;
                *normal = (x - mean) * inverse;
                *dscale += gradient * *normal;
                *dshift += gradient;
            }
            let along = sum(&scaled, &normal, |scaled, normal| scaled * normal) * share;
            let middle = sum(&scaled, &scaled, |scaled, _| scaled) * share;
            append(&mut dx, &scaled, &normal, |_, scaled, normal| (scaled - middle - normal * along) * inverse);
        }
        dx
    }
}
