//! Layer normalisation, forward and backward.

use super::simd::{extend_zip_map, simd_level, sum, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias` by rows: inputs `x`, `scale [1, width]`,
/// `bias [1, width]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerNorm {
    pub(crate) epsilon: f32,
}

impl Operation<3> for LayerNorm {
    const SAVES_INPUT: [bool; 3] = [true, true, false];
    /// Mean and inverse standard deviation of each row.
    type Saved = Vec<[f32; 2]>;

    fn forward(&self, [x, scale, bias]: [&[f32]; 3], _: GradMode) -> (Vec<f32>, Self::Saved) {
        let mut statistics = Vec::with_capacity(x.len() / scale.len());
        let output = forward(x, scale, bias, self.epsilon, &mut statistics);
        (output, statistics)
    }

    fn backward(&self, pass: BackwardInput<3, Self::Saved>) -> [InputGradient; 3] {
        let BackwardInput { inputs: [x, scale, _], saved: statistics, gradient, .. } = pass;
        let (mut dscale, mut dbias) = (vec![0.0; scale.len()], vec![0.0; scale.len()]);
        let dx = backward(x, scale, &statistics, gradient, &mut dscale, &mut dbias);
        [dx, dscale, dbias].map(InputGradient::Values)
    }
}

/// Rows that are processed together, so that the reductions of one do not wait for those of
/// another.
const ROWS: usize = 4;

vectorised! {
    fn forward(
        x: &[f32],
        scale: &[f32],
        bias: &[f32],
        epsilon: f32,
        statistics: &mut Vec<[f32; 2]>,
    ) -> Vec<f32> {
        let width = scale.len();
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let inverse_width = 1.0 / width as f32;
        let (mut output, bias) = (Vec::with_capacity(x.len()), &bias[..width]);
        for rows in x.chunks(ROWS * width) {
            let mut statistics_of_rows = [[0.0; 2]; ROWS];
            for (x, [mean, _]) in rows.chunks_exact(width).zip(&mut statistics_of_rows) {
                *mean = sum(x, x, |x, _| x) * inverse_width;
            }
            for (x, [mean, inverse]) in rows.chunks_exact(width).zip(&mut statistics_of_rows) {
                let mean = *mean;
                let variance = sum(x, x, |x, _| (x - mean) * (x - mean)) * inverse_width;
                *inverse = 1.0 / (variance + epsilon).sqrt();
            }
            for (x, [mean, inverse]) in rows.chunks_exact(width).zip(statistics_of_rows) {
                extend_zip_map(&mut output, x, scale, |index, x, scale| {
                    (x - mean) * inverse * scale + bias[index]
                });
                statistics.push([mean, inverse]);
            }
        }
        output
    }
}

vectorised! {
    fn backward(
        x: &[f32],
        scale: &[f32],
        statistics: &[[f32; 2]],
        gradient: &[f32],
        dscale: &mut [f32],
        dbias: &mut [f32],
    ) -> Vec<f32> {
        let width = scale.len();
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let inverse_width = 1.0 / width as f32;
        let (mut scaled, mut normalised) = (vec![0.0; width], vec![0.0; width]);
        let mut dx = Vec::with_capacity(x.len());
        for ((x, gradient), [mean, inverse]) in
            x.chunks_exact(width).zip(gradient.chunks_exact(width)).zip(statistics)
        {
            let (mean, inverse) = (*mean, *inverse);
            let numbers = scaled
                .iter_mut()
                .zip(&mut normalised)
                .zip(dscale.iter_mut().zip(dbias.iter_mut()))
                .zip(x.iter().zip(gradient).zip(scale));
            for (((scaled, normalised), (dscale, dbias)), ((x, gradient), scale)) in numbers {
                *scaled = gradient * scale;
                *normalised = (x - mean) * inverse;
                *dscale += gradient * *normalised;
                *dbias += gradient;
            }
            let mean_projection =
                sum(&scaled, &normalised, |scaled, normalised| scaled * normalised) * inverse_width;
            let mean_gradient = sum(&scaled, &scaled, |scaled, _| scaled) * inverse_width;
            extend_zip_map(&mut dx, &scaled, &normalised, |_, scaled, normalised| {
                (scaled - mean_gradient - normalised * mean_projection) * inverse
            });
        }
        dx
    }
}
