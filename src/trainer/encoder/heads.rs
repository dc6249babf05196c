//! The heads of encoders: from hidden states to the logits of texts or of tokens.

use burn::tensor::Tensor;

use super::super::families::HeadDense;
use super::super::fused::ActivationFn;
use super::super::layers::{ForwardContext, HiddenStates, Linear, Norm, activate, biased_logits};
use super::super::parameters::{ModelPart, ParameterId, Parameters, Role};
use super::{Encoder, EncoderConfig, norm, normalised};

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
    /// Share of the layer's inputs that are dropped in training.
    dropout: f64,
}

impl SequenceHead {
    pub(crate) fn new(list: &mut Parameters, config: &EncoderConfig) -> Self {
        let head = &config.family.names.head;
        list.set_part(ModelPart::Head);
        let hidden = head.dense.map(|dense| Hidden::new(list, config, dense));
        let dropout = config.shape.head_dropout;
        Self { hidden, out: labels(list, config, head.out), dropout }
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

/// From a token's vector to its logits.
pub(crate) struct TokenHead {
    hidden: Option<Hidden>,
    out: Linear,
    dropout: f64,
}

/// The layer with an output for each label, in all families.
const TOKEN_CLASSIFIER: &str = "classifier";
/// The layer with an output for starts of answers and one for ends, in the families whose heads
/// over tokens have no hidden layer.
const ANSWERS: &str = "qa_outputs";

impl TokenHead {
    pub(crate) fn new(list: &mut Parameters, config: &EncoderConfig) -> Self {
        let (family, shape) = (config.family, &config.shape);
        let hidden = Self::hidden(list, config);
        let dropout =
            if family.keys.head_dropout_of_tokens { shape.head_dropout } else { shape.dropout };
        Self { hidden, out: labels(list, config, TOKEN_CLASSIFIER), dropout }
    }

    /// The logits of an answer's start and end are its labels.
    pub(crate) fn of_answers(list: &mut Parameters, config: &EncoderConfig) -> Self {
        let hidden = Self::hidden(list, config);
        let out = if hidden.is_some() { TOKEN_CLASSIFIER } else { ANSWERS };
        Self { hidden, out: labels(list, config, out), dropout: config.shape.head_dropout }
    }

    fn hidden(list: &mut Parameters, config: &EncoderConfig) -> Option<Hidden> {
        list.set_part(ModelPart::Head);
        let dense = config.family.names.head.dense.filter(|dense| dense.of_tokens);
        dense.map(|dense| Hidden::new(list, config, dense))
    }

    /// `[tokens, width]` to `[tokens, labels]`.
    pub(crate) fn forward(&self, context: &ForwardContext, x: HiddenStates) -> Tensor<2> {
        let x = match &self.hidden {
            Some(hidden) => hidden.forward(context, x),
            None => x,
        };
        self.out.forward(context, context.dropout(x, self.dropout))
    }
}

/// From a hidden token's vector to the logits of the vocabulary.
pub(crate) struct MaskedHead {
    hidden: Hidden,
    /// Of the output, whose weights are those of the token embedding.
    bias: ParameterId,
}

impl MaskedHead {
    pub(crate) fn new(list: &mut Parameters, config: &EncoderConfig) -> Self {
        let (names, shape) = (&config.family.names.masked, &config.shape);
        list.set_part(ModelPart::Head);
        let dense = HeadDense {
            name: names.dense,
            activation: names.activation.unwrap_or_else(|| shape.activation.into()),
            norm: Some(names.norm),
            has_dropout: false,
            of_tokens: true,
        };
        let hidden = Hidden::of_width(list, config, dense, shape.embedding_width);
        let bias = list.add(names.bias.to_owned(), [1, shape.vocabulary], Role::Bias);
        Self { hidden, bias }
    }

    /// `[tokens, width]` to `[tokens, vocabulary]`, in the dtype of products.
    pub(crate) fn forward(
        &self,
        context: &ForwardContext,
        encoder: &Encoder,
        x: HiddenStates,
    ) -> Tensor<2> {
        let x = self.hidden.forward(context, x);
        let (table, bias) = (encoder.token_embedding.table(context), context.values.get(self.bias));
        biased_logits(context, x, table, bias)
    }
}

impl Hidden {
    fn new(list: &mut Parameters, config: &EncoderConfig, dense: HeadDense) -> Self {
        Self::of_width(list, config, dense, config.shape.width)
    }

    /// With this many outputs.
    fn of_width(
        list: &mut Parameters,
        config: &EncoderConfig,
        dense: HeadDense,
        width: usize,
    ) -> Self {
        let shape = &config.shape;
        let has_bias = shape.modern.as_ref().is_none_or(|modern| modern.biases.head);
        Self {
            linear: Linear::new(list, dense.name, [shape.width, width], Role::Linear, has_bias),
            activation: dense.activation,
            norm: dense.norm.map(|name| norm(list, name, width, config)),
            dropout: if dense.has_dropout { shape.head_dropout } else { 0.0 },
        }
    }

    fn forward(&self, context: &ForwardContext, x: HiddenStates) -> HiddenStates {
        let x = self.linear.forward(context, context.dropout(x, self.dropout));
        normalised(self.norm.as_ref(), context, activate(self.activation, x))
    }
}

/// The layer with an output for each label.
fn labels(list: &mut Parameters, config: &EncoderConfig, name: &str) -> Linear {
    list.set_part(ModelPart::Labels);
    let sizes = [config.shape.width, config.shape.labels.len()];
    Linear::new(list, name, sizes, Role::Linear, true)
}
