//! Encoders with decoders, which write a text for each text: the keys of their `config.json` and
//! the names of their tensors, one entry of [`SEQ2SEQ`] each.

/// A family of encoders with decoders.
#[derive(Debug, PartialEq)]
pub(crate) struct Seq2SeqFamily {
    /// `model_type` in `config.json`.
    pub(crate) model_type: &'static str,
    /// The class of transformers.
    pub(crate) class: &'static str,
    /// The prefix of tensor names, which files of headless models leave out.
    pub(crate) prefix: &'static str,
    pub(crate) style: Seq2SeqStyle,
    pub(crate) names: Seq2SeqNames,
}

/// The structure of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seq2SeqStyle {
    /// RMS norms before sublayers, biases of attention scores by relative positions, no scale of
    /// scores, no biases elsewhere (Raffel et al. 2020).
    T5,
    /// Layer norms after sublayers and after the embeddings, learnt positions from 2 on (Lewis et
    /// al. 2020).
    Bart,
    /// Layer norms after sublayers, sinusoidal positions (Junczys-Dowmunt et al. 2018).
    Marian,
}

/// Tensor names without `.weight` and `.bias`; those of a layer follow `encoder` or `decoder`,
/// `layer` and its number.
#[derive(Debug, PartialEq)]
pub(crate) struct Seq2SeqNames {
    pub(crate) layer: &'static str,
    /// Query, key, value and output of self-attention, and its norm.
    pub(crate) self_attention: [&'static str; 5],
    /// Those of the decoder's attention to the encoder's output.
    pub(crate) cross_attention: [&'static str; 5],
    /// The first linear layer of the feed-forward network, a gate and the layer beside it, the last
    /// layer, and the norm: of the encoder.
    pub(crate) encoder_feed_forward: [&'static str; 5],
    /// Those of the decoder.
    pub(crate) decoder_feed_forward: [&'static str; 5],
}

/// The biases of scores by relative positions, of T5, after `encoder` or `decoder`.
pub(crate) const RELATIVE_BIAS: &str = "block.0.layer.0.SelfAttention.relative_attention_bias";

/// The biases of the logits, which are not trained.
pub(crate) const LOGITS_BIAS: &str = "final_logits_bias";

const T5_NAMES: Seq2SeqNames = Seq2SeqNames {
    layer: "block",
    self_attention: [
        "layer.0.SelfAttention.q",
        "layer.0.SelfAttention.k",
        "layer.0.SelfAttention.v",
        "layer.0.SelfAttention.o",
        "layer.0.layer_norm",
    ],
    cross_attention: [
        "layer.1.EncDecAttention.q",
        "layer.1.EncDecAttention.k",
        "layer.1.EncDecAttention.v",
        "layer.1.EncDecAttention.o",
        "layer.1.layer_norm",
    ],
    encoder_feed_forward: [
        "layer.1.DenseReluDense.wi",
        "layer.1.DenseReluDense.wi_0",
        "layer.1.DenseReluDense.wi_1",
        "layer.1.DenseReluDense.wo",
        "layer.1.layer_norm",
    ],
    decoder_feed_forward: [
        "layer.2.DenseReluDense.wi",
        "layer.2.DenseReluDense.wi_0",
        "layer.2.DenseReluDense.wi_1",
        "layer.2.DenseReluDense.wo",
        "layer.2.layer_norm",
    ],
};

const BART_NAMES: Seq2SeqNames = Seq2SeqNames {
    layer: "layers",
    self_attention: [
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.out_proj",
        "self_attn_layer_norm",
    ],
    cross_attention: [
        "encoder_attn.q_proj",
        "encoder_attn.k_proj",
        "encoder_attn.v_proj",
        "encoder_attn.out_proj",
        "encoder_attn_layer_norm",
    ],
    encoder_feed_forward: ["fc1", "", "", "fc2", "final_layer_norm"],
    decoder_feed_forward: ["fc1", "", "", "fc2", "final_layer_norm"],
};

/// All families; names as in transformers' `modeling_t5.py`, `modeling_mt5.py`, `modeling_bart.py`
/// and `modeling_marian.py`.
pub(crate) static SEQ2SEQ: &[Seq2SeqFamily] = &[
    Seq2SeqFamily {
        model_type: "t5",
        class: "T5ForConditionalGeneration",
        prefix: "",
        style: Seq2SeqStyle::T5,
        names: T5_NAMES,
    },
    Seq2SeqFamily {
        model_type: "mt5",
        class: "MT5ForConditionalGeneration",
        prefix: "",
        style: Seq2SeqStyle::T5,
        names: T5_NAMES,
    },
    Seq2SeqFamily {
        model_type: "bart",
        class: "BartForConditionalGeneration",
        prefix: "model.",
        style: Seq2SeqStyle::Bart,
        names: BART_NAMES,
    },
    Seq2SeqFamily {
        model_type: "marian",
        class: "MarianMTModel",
        prefix: "model.",
        style: Seq2SeqStyle::Marian,
        names: BART_NAMES,
    },
];
