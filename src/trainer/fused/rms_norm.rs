//! RMS normalisation, forward and backward.

use super::simd::{extend_zip_map, simd_level, sum, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// `x / sqrt(mean(x²) + epsilon) * scale` by rows (Zhang and Sennrich 2019): inputs `x`,
/// `scale [1, width]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RmsNorm {
    pub(crate) epsilon: f32,
}

impl Operation<2> for RmsNorm {
    /// The inverse root mean square of each row.
    type Saved = Vec<f32>;

    fn forward(&self, [x, scale]: [&[f32]; 2], _: GradMode) -> (Vec<f32>, Self::Saved) {
        let mut inverses = Vec::with_capacity(x.len() / scale.len());
        let output = rms_forward(x, scale, self.epsilon, &mut inverses);
        (output, inverses)
    }

    fn backward(&self, pass: BackwardInput<2, Self::Saved>) -> [InputGradient; 2] {
        let BackwardInput { inputs: [x, scale], saved: inverses, gradient, .. } = pass;
        let mut dscale = vec![0.0; scale.len()];
        let dx = rms_backward(x, scale, &inverses, gradient, &mut dscale);
        [dx, dscale].map(InputGradient::Values)
    }
}

vectorised! {
    fn rms_forward(x: &[f32], scale: &[f32], epsilon: f32, inverses: &mut Vec<f32>) -> Vec<f32> {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let inverse_width = 1.0 / scale.len() as f32;
        let mut output = Vec::with_capacity(x.len());
        for x in x.chunks_exact(scale.len()) {
            let inverse = 1.0 / (sum(x, x, |x, _| x * x) * inverse_width + epsilon).sqrt();
            extend_zip_map(&mut output, x, scale, |_, x, scale| x * inverse * scale);
            inverses.push(inverse);
        }
        output
    }
}

vectorised! {
    fn rms_backward(
        x: &[f32],
        scale: &[f32],
        inverses: &[f32],
        gradient: &[f32],
        dscale: &mut [f32],
    ) -> Vec<f32> {
        let width = scale.len();
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let inverse_width = 1.0 / width as f32;
        let mut scaled = vec![0.0; width];
        let mut dx = Vec::with_capacity(x.len());
        for ((x, gradient), inverse) in
            x.chunks_exact(width).zip(gradient.chunks_exact(width)).zip(inverses)
        {
            for (((scaled, dscale), (gradient, scale)), x) in
                scaled.iter_mut().zip(dscale.iter_mut()).zip(gradient.iter().zip(scale)).zip(x)
            {
                *scaled = gradient * scale;
                *dscale += gradient * (x * inverse);
            }
            let mean_projection =
                sum(&scaled, x, |scaled, x| scaled * x) * inverse_width * inverse * inverse;
            extend_zip_map(&mut dx, &scaled, x, |_, scaled, x| {
                (scaled - x * mean_projection) * inverse
            });
        }
        dx
    }
}
