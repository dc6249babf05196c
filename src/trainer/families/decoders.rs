//! Decoders for language modelling: the keys of their `config.json` and the names of their tensors,
//! one entry of [`DECODERS`] each.

use super::{Family, TensorNames};

/// A family of decoders.
pub(crate) type DecoderFamily = Family<DecoderStyle, DecoderKeys>;

/// The structure of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecoderStyle {
    /// Learnt positions, layer norms, packed query, key and value, weights stored `[in, out]`
    /// (Radford et al. 2019).
    Gpt,
    /// Rotary positions, RMS norms, grouped-query attention, a gated feed-forward network (Touvron
    /// et al. 2023).
    Llama {
        /// Whether query, key and value always have biases.
        qkv_bias: bool,
    },
    /// Rotary positions of a part of each head, layer norms, one norm for both sublayers, which run
    /// side by side, and biases everywhere, the output's included (Li et al. 2023).
    Phi,
}

impl DecoderStyle {
    /// Whether the feed-forward network has a gate.
    pub(crate) fn is_gated(self) -> bool {
        matches!(self, Self::Llama { .. })
    }

    /// Whether positions are rotations of queries and keys.
    pub(crate) fn is_rotary(self) -> bool {
        self != Self::Gpt
    }
}

/// Keys of `config.json`.
#[derive(Debug, PartialEq)]
pub(crate) struct DecoderKeys {
    pub(crate) width: &'static str,
    pub(crate) layers: &'static str,
    pub(crate) heads: &'static str,
    pub(crate) inner: &'static str,
    pub(crate) positions: &'static str,
    pub(crate) activation: &'static str,
    pub(crate) epsilon: &'static str,
    pub(crate) attention_dropout: &'static str,
    /// Dropout of embeddings and of sublayer outputs, where the family has them.
    pub(crate) residual_dropouts: Option<[&'static str; 2]>,
    /// Whether embeddings are tied where `tie_word_embeddings` is absent.
    pub(crate) tied: bool,
    /// The sliding window, if the family has one: texts are limited to its length, so that it has
    /// no effect.
    pub(crate) sliding_window: Option<&'static str>,
    /// The default of `head_dim`; `None`: the width divided by the number of heads.
    pub(crate) head_dim: Option<usize>,
    /// The default share of a head that is rotated, where the family lets a model choose it.
    pub(crate) partial_rotary_factor: Option<f64>,
    /// Gemma's ways (Mesnard et al. 2024): embeddings are multiplied by the root of the width, the
    /// scales of norms are stored as their differences from 1, and `gelu` is its approximation.
    pub(crate) is_gemma: bool,
}

/// The output embedding, where it is not tied.
pub(crate) const LM_HEAD: &str = "lm_head.weight";

/// Its bias, where it has one, tied or not.
pub(crate) const LM_HEAD_BIAS: &str = "lm_head.bias";

/// All families; names as in transformers' `modeling_gpt2.py`, `modeling_llama.py`,
/// `modeling_qwen2.py`, `modeling_mistral.py`, `modeling_qwen3.py`, `modeling_gemma.py`,
/// `modeling_phi.py` and `modeling_phi3.py`.
pub(crate) static DECODERS: &[DecoderFamily] = &[
    DecoderFamily {
        model_type: "gpt2",
        class: "GPT2LMHeadModel",
        prefix: "transformer.",
        style: DecoderStyle::Gpt,
        keys: DecoderKeys {
            width: "n_embd",
            layers: "n_layer",
            heads: "n_head",
            inner: "n_inner",
            positions: "n_positions",
            activation: "activation_function",
            epsilon: "layer_norm_epsilon",
            attention_dropout: "attn_pdrop",
            residual_dropouts: Some(["embd_pdrop", "resid_pdrop"]),
            tied: true,
            sliding_window: None,
            head_dim: None,
            partial_rotary_factor: None,
            is_gemma: false,
        },
        names: TensorNames {
            token_embedding: "wte",
            position_embedding: "wpe",
            layer: "h",
            qkv: &["attn.c_attn"],
            attention_output: "attn.c_proj",
            attention_norm: "ln_1",
            up: &["mlp.c_fc"],
            down: "mlp.c_proj",
            feed_forward_norm: "ln_2",
            final_norm: "ln_f",
            ..TensorNames::NONE
        },
    },
    DecoderFamily {
        model_type: "llama",
        class: "LlamaForCausalLM",
        prefix: "model.",
        style: DecoderStyle::Llama { qkv_bias: false },
        keys: LLAMA_KEYS,
        names: LLAMA_NAMES,
    },
    DecoderFamily {
        model_type: "qwen2",
        class: "Qwen2ForCausalLM",
        prefix: "model.",
        style: DecoderStyle::Llama { qkv_bias: true },
        keys: LLAMA_KEYS,
        names: LLAMA_NAMES,
    },
    DecoderFamily {
        model_type: "mistral",
        class: "MistralForCausalLM",
        prefix: "model.",
        style: DecoderStyle::Llama { qkv_bias: false },
        keys: DecoderKeys { sliding_window: Some("sliding_window"), ..LLAMA_KEYS },
        names: LLAMA_NAMES,
    },
    DecoderFamily {
        model_type: "qwen3",
        class: "Qwen3ForCausalLM",
        prefix: "model.",
        style: DecoderStyle::Llama { qkv_bias: false },
        keys: DecoderKeys { head_dim: Some(128), ..LLAMA_KEYS },
        names: TensorNames {
            qk_norms: Some(["self_attn.q_norm", "self_attn.k_norm"]),
            ..LLAMA_NAMES
        },
    },
    DecoderFamily {
        model_type: "gemma",
        class: "GemmaForCausalLM",
        prefix: "model.",
        style: DecoderStyle::Llama { qkv_bias: false },
        keys: DecoderKeys { tied: true, head_dim: Some(256), is_gemma: true, ..LLAMA_KEYS },
        names: LLAMA_NAMES,
    },
    DecoderFamily {
        model_type: "phi",
        class: "PhiForCausalLM",
        prefix: "model.",
        style: DecoderStyle::Phi,
        keys: DecoderKeys {
            epsilon: "layer_norm_eps",
            residual_dropouts: Some(["embd_pdrop", "resid_pdrop"]),
            partial_rotary_factor: Some(0.5),
            ..LLAMA_KEYS
        },
        names: TensorNames {
            attention_output: "self_attn.dense",
            up: &["mlp.fc1"],
            down: "mlp.fc2",
            feed_forward_norm: "",
            final_norm: "final_layernorm",
            ..LLAMA_NAMES
        },
    },
    DecoderFamily {
        model_type: "phi3",
        class: "Phi3ForCausalLM",
        prefix: "model.",
        style: DecoderStyle::Llama { qkv_bias: false },
        keys: DecoderKeys {
            sliding_window: Some("sliding_window"),
            partial_rotary_factor: Some(1.0),
            ..LLAMA_KEYS
        },
        names: TensorNames {
            qkv: &["self_attn.qkv_proj"],
            up: &["mlp.gate_up_proj"],
            ..LLAMA_NAMES
        },
    },
];

const LLAMA_KEYS: DecoderKeys = DecoderKeys {
    width: "hidden_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    inner: "intermediate_size",
    positions: "max_position_embeddings",
    activation: "hidden_act",
    epsilon: "rms_norm_eps",
    attention_dropout: "attention_dropout",
    residual_dropouts: None,
    tied: false,
    sliding_window: None,
    head_dim: None,
    partial_rotary_factor: None,
    is_gemma: false,
};

const LLAMA_NAMES: TensorNames = TensorNames {
    token_embedding: "embed_tokens",
    layer: "layers",
    qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    attention_output: "self_attn.o_proj",
    attention_norm: "input_layernorm",
    up: &["mlp.gate_proj", "mlp.up_proj"],
    down: "mlp.down_proj",
    feed_forward_norm: "post_attention_layernorm",
    final_norm: "norm",
    ..TensorNames::NONE
};
