//! A transformer layer: self-attention and a feed-forward network, each added to the residual
//! stream.

use super::super::batch::SequenceLayout;
use super::super::rotary::RotaryAngles;
use super::{Attention, FeedForward, ForwardContext, HiddenStates, KvCache, Norm};

/// One layer of an encoder or a decoder.
pub(in super::super) struct TransformerBlock {
    pub(in super::super) norm_order: NormOrder,
    /// Absent in a first layer that reads normalised embeddings (ModernBERT).
    pub(in super::super) attention_norm: Option<Norm>,
    pub(in super::super) attention: Attention,
    /// Dropout of the attention's output.
    pub(in super::super) attention_output_dropout: f64,
    /// Absent where one norm serves both sublayers, which then read the same (Phi).
    pub(in super::super) feed_forward_norm: Option<Norm>,
    pub(in super::super) feed_forward: FeedForward,
}

/// Where a layer normalises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum NormOrder {
    /// The input of each sublayer (Xiong et al. 2020): training from scratch needs no long warm-up.
    Pre,
    /// The sum of each sublayer's input and output (Vaswani et al. 2017).
    Post,
}

impl TransformerBlock {
    /// The layer's output for `x [tokens, width]`.
    pub(in super::super) fn forward(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        layout: &SequenceLayout,
        angles: Option<&RotaryAngles>,
    ) -> HiddenStates {
        let rate = self.attention_output_dropout;
        self.run(context, x, |x, input| {
            self.attention.residual(context, x, input, layout, angles, rate)
        })
    }

    /// The layer's output for further tokens of one text, `x [new, width]`; `cache` holds the keys
    /// and values of those before, under `layer`.
    pub(in super::super) fn extend(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        angles: Option<&RotaryAngles>,
        cache: &mut KvCache,
        layer: usize,
    ) -> HiddenStates {
        self.run(context, x, |x, input| {
            self.attention.extend(context, x, input, angles, cache, layer)
        })
    }

    /// `attend` adds what attention makes of its second argument to the first.
    fn run(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        attend: impl FnOnce(HiddenStates, &HiddenStates) -> HiddenStates,
    ) -> HiddenStates {
        let normalise = |norm: &Option<Norm>, x: HiddenStates| match norm {
            Some(norm) => norm.forward(context, x),
            None => x,
        };
        match self.norm_order {
            NormOrder::Pre => {
                let input = normalise(&self.attention_norm, x.clone());
                let x = attend(x, &input);
                let input = match &self.feed_forward_norm {
                    Some(norm) => norm.forward(context, x.clone()),
                    None => input,
                };
                self.feed_forward.residual(context, x, input)
            }
            NormOrder::Post => {
                let x = normalise(&self.attention_norm, attend(x.clone(), &x));
                let x = self.feed_forward.residual(context, x.clone(), x);
                normalise(&self.feed_forward_norm, x)
            }
        }
    }
}
