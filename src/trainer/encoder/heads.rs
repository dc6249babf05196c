//! The heads of encoders: from hidden states to the logits of texts.

use burn::tensor::Tensor;

use super::super::families::HeadDense;
use super::super::fused::ActivationFn;
use super::super::layers::{ForwardContext, HiddenStates, Linear, Norm, activate};
use super::super::parameters::{ModelPart, Parameters, Role};
use super::{EncoderConfig, norm, normalised};

/// From a text's vector to its logits.
pub(crate) struct SequenceHead {
    hidden: Option<Hidden>,
    out: Linear,
    dropout: f64,
}

/// A hidden layer of a head.
struct Hidden {
    linear: Linear,
    activation: ActivationFn,
    norm: Option<Norm>,
    /// Of its input.
    dropout: f64,
}

impl SequenceHead {
    pub(crate) fn new(list: &mut Parameters, config: &EncoderConfig) -> Self {
        let head = &config.family.names.head;
        list.set_part(ModelPart::Head);
        let hidden = head.dense.map(|dense| Hidden::new(list, config, dense));
        let dropout = config.shape.head_dropout;
        Self { hidden, out: labels(list, config), dropout }
    }

    /// `[texts, width]` to `[texts, labels]`.
    pub(crate) fn forward(&self, context: &ForwardContext, x: HiddenStates) -> Tensor<2> {
        let x = match &self.hidden {
            Some(hidden) => hidden.forward(context, x),
            None => x,
        };
        self.out.forward(context, context.dropout(x, self.dropout))
    }
}

impl Hidden {
    fn new(list: &mut Parameters, config: &EncoderConfig, dense: HeadDense) -> Self {
        let shape = &config.shape;
        let has_bias = shape.modern.as_ref().is_none_or(|modern| modern.biases.head);
        Self {
            linear: Linear::new(list, dense.name, [shape.width; 2], Role::Linear, has_bias),
            activation: dense.activation,
            norm: dense.norm.map(|name| norm(list, name, config)),
            dropout: if dense.has_dropout { shape.head_dropout } else { 0.0 },
        }
    }

    fn forward(&self, context: &ForwardContext, x: HiddenStates) -> HiddenStates {
        let x = self.linear.forward(context, context.dropout(x, self.dropout));
        normalised(self.norm.as_ref(), context, activate(self.activation, x))
    }
}

/// The layer with an output for each label.
fn labels(list: &mut Parameters, config: &EncoderConfig) -> Linear {
    list.set_part(ModelPart::Labels);
    let sizes = [config.shape.width, config.shape.labels.len()];
    Linear::new(list, config.family.names.head.out, sizes, Role::Linear, true)
}
