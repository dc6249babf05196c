//! Layer normalisation and RMS normalisation of rows.

use burn::tensor::{Tensor, module};

use super::super::device_kernels;
use super::super::floats::as_f32;
use super::super::fused;
use super::super::parameters::{ParameterId, Parameters, Role};
use super::{ForwardContext, HiddenStates, to_1d};

/// A normalisation of each row, with a learnt scale.
pub(in super::super) struct Norm {
    kind: NormKind,
    scale: ParameterId,
    bias: Option<ParameterId>,
    /// Added to the variance or the mean square.
    epsilon: f64,
    /// Whether the scale is stored as its difference from 1.
    from_one: bool,
}

enum NormKind {
    /// To mean 0 and variance 1 (Ba, Kiros, Hinton 2016).
    Layer,
    /// To a mean square of 1 (Zhang and Sennrich 2019).
    Rms,
}

impl Norm {
    pub(in super::super) fn layer(
        parameters: &mut Parameters,
        name: &str,
        width: usize,
        epsilon: f64,
        has_bias: bool,
    ) -> Self {
        Self {
            kind: NormKind::Layer,
            scale: parameters.add(format!("{name}.weight"), [1, width], Role::NormScale),
            bias: has_bias.then(|| parameters.add(format!("{name}.bias"), [1, width], Role::Bias)),
            epsilon,
            from_one: false,
        }
    }

    pub(in super::super) fn rms(
        parameters: &mut Parameters,
        name: &str,
        width: usize,
        epsilon: f64,
    ) -> Self {
        let scale = parameters.add(format!("{name}.weight"), [1, width], Role::NormScale);
        Self { kind: NormKind::Rms, scale, bias: None, epsilon, from_one: false }
    }

    /// The same with a scale that is stored as its difference from 1, initially 0.
    pub(in super::super) fn rms_from_one(
        parameters: &mut Parameters,
        name: &str,
        width: usize,
        epsilon: f64,
    ) -> Self {
        let scale = parameters.add(format!("{name}.weight"), [1, width], Role::Bias);
        Self { kind: NormKind::Rms, scale, bias: None, epsilon, from_one: true }
    }

    /// `[rows, width]` to the same shape.
    pub(in super::super) fn forward(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
    ) -> HiddenStates {
        let (scale, shape) = (context.values.get(self.scale), x.dims());
        let scale = if self.from_one { scale + 1.0 } else { scale };
        let epsilon = as_f32(self.epsilon);
        match self.kind {
            NormKind::Layer => {
                let bias: Tensor<2> = context.bias(self.bias, shape[1]);
                fused::apply(fused::LayerNorm { epsilon }, [&x, &scale, &bias], shape)
                    .or_else(|| device_kernels::norm(&x, &scale, Some(&bias), epsilon))
                    .unwrap_or_else(|| {
                        module::layer_norm(x, to_1d(scale), Some(to_1d(bias)), self.epsilon)
                    })
            }
            NormKind::Rms => fused::apply(fused::RmsNorm { epsilon }, [&x, &scale], shape)
                .or_else(|| device_kernels::norm(&x, &scale, None, epsilon))
                .unwrap_or_else(|| {
                    let root = (x.clone().square().mean_dim(1) + self.epsilon).sqrt();
                    x / root * scale
                }),
        }
    }
}
