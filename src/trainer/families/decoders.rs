//! Decoders for language modelling: what their `config.json` and their tensors are called, one entry of [`DECODERS`] each.

/// An architecture of decoders.
#[derive(Debug, PartialEq)]
pub(in crate::trainer) struct DecoderFamily {
    /// What `config.json` calls it.
    pub(in crate::trainer) model_type: &'static str,
    /// The class that transformers makes of it.
    pub(in crate::trainer) class: &'static str,
    /// What names of tensors below the output begin with; files of models without one leave it out.
    pub(in crate::trainer) prefix: &'static str,
    pub(in crate::trainer) build: Build,
    pub(in crate::trainer) keys: ConfigKeys,
    pub(in crate::trainer) names: Names,
}

/// How layers are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trainer) enum Build {
    /// Learnt positions, layer norms, one map for query, key and value, maps stored `[in, out]` (Radford et al. 2019).
    Gpt,
    /// Rotated positions, root-mean-square norms, shared heads of keys and values, a gated feed-forward part (Touvron et al. 2023).
    Llama {
        /// Whether query, key and value have biases where no key says it.
        biased: bool,
    },
}

/// Keys of `config.json`.
#[derive(Debug, PartialEq)]
pub(in crate::trainer) struct ConfigKeys {
    pub(in crate::trainer) width: &'static str,
    pub(in crate::trainer) layers: &'static str,
    pub(in crate::trainer) heads: &'static str,
    pub(in crate::trainer) inner: &'static str,
    pub(in crate::trainer) positions: &'static str,
    pub(in crate::trainer) activation: &'static str,
    pub(in crate::trainer) epsilon: &'static str,
    pub(in crate::trainer) attention_dropout: &'static str,
    /// Shares dropped of embeddings and of what layers add, where the architecture has them.
    pub(in crate::trainer) dropouts: Option<[&'static str; 2]>,
    /// Whether the output shares the table of words where no key says it.
    pub(in crate::trainer) tied: bool,
    /// How many tokens back a token sees, where there is a limit: no longer text is read, so that it never shows.
    pub(in crate::trainer) sliding: Option<&'static str>,
    /// Width of a head where no key says it; `None`: an equal share of the model's.
    pub(in crate::trainer) head: Option<usize>,
}

/// Names of tensors, `.weight` and `.bias` left out; those of a layer follow `layer`, its number and a point.
#[derive(Debug, PartialEq)]
pub(in crate::trainer) struct Names {
    pub(in crate::trainer) words: &'static str,
    pub(in crate::trainer) positions: &'static str,
    pub(in crate::trainer) layer: &'static str,
    /// Query, key and value; one name where one map makes all three.
    pub(in crate::trainer) inputs: &'static [&'static str],
    pub(in crate::trainer) output: &'static str,
    pub(in crate::trainer) attention_norm: &'static str,
    /// Norms of each head of queries and of keys, where there are any.
    pub(in crate::trainer) head_norms: Option<[&'static str; 2]>,
    /// The gate, where there is one, and the map beside it.
    pub(in crate::trainer) inner: &'static [&'static str],
    pub(in crate::trainer) outer: &'static str,
    pub(in crate::trainer) feed_forward_norm: &'static str,
    pub(in crate::trainer) last_norm: &'static str,
}

/// The table of the output, where it is not that of the words.
pub(in crate::trainer) const HEAD: &str = "lm_head.weight";

/// All of them; names as in transformers' `modeling_gpt2.py`, `modeling_llama.py`, `modeling_qwen2.py`,
/// `modeling_mistral.py` and `modeling_qwen3.py`.
pub(in crate::trainer) static DECODERS: &[DecoderFamily] = &[
    DecoderFamily {
        model_type: "gpt2",
        class: "GPT2LMHeadModel",
        prefix: "transformer.",
        build: Build::Gpt,
        keys: ConfigKeys {
            width: "n_embd",
            layers: "n_layer",
            heads: "n_head",
            inner: "n_inner",
            positions: "n_positions",
            activation: "activation_function",
            epsilon: "layer_norm_epsilon",
            attention_dropout: "attn_pdrop",
            dropouts: Some(["embd_pdrop", "resid_pdrop"]),
            tied: true,
            sliding: None,
            head: None,
        },
        names: Names {
            words: "wte",
            positions: "wpe",
            layer: "h",
            inputs: &["attn.c_attn"],
            output: "attn.c_proj",
            attention_norm: "ln_1",
            head_norms: None,
            inner: &["mlp.c_fc"],
            outer: "mlp.c_proj",
            feed_forward_norm: "ln_2",
            last_norm: "ln_f",
        },
    },
    DecoderFamily {
        model_type: "llama",
        class: "LlamaForCausalLM",
        prefix: "model.",
        build: Build::Llama { biased: false },
        keys: LLAMA_KEYS,
        names: LLAMA_NAMES,
    },
    DecoderFamily {
        model_type: "qwen2",
        class: "Qwen2ForCausalLM",
        prefix: "model.",
        build: Build::Llama { biased: true },
        keys: LLAMA_KEYS,
        names: LLAMA_NAMES,
    },
    DecoderFamily {
        model_type: "mistral",
        class: "MistralForCausalLM",
        prefix: "model.",
        build: Build::Llama { biased: false },
        keys: ConfigKeys { sliding: Some("sliding_window"), ..LLAMA_KEYS },
        names: LLAMA_NAMES,
    },
    DecoderFamily {
        model_type: "qwen3",
        class: "Qwen3ForCausalLM",
        prefix: "model.",
        build: Build::Llama { biased: false },
        keys: ConfigKeys { head: Some(128), ..LLAMA_KEYS },
        names: Names { head_norms: Some(["self_attn.q_norm", "self_attn.k_norm"]), ..LLAMA_NAMES },
    },
];

const LLAMA_KEYS: ConfigKeys = ConfigKeys {
    width: "hidden_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    inner: "intermediate_size",
    positions: "max_position_embeddings",
    activation: "hidden_act",
    epsilon: "rms_norm_eps",
    attention_dropout: "attention_dropout",
    dropouts: None,
    tied: false,
    sliding: None,
    head: None,
};

const LLAMA_NAMES: Names = Names {
    words: "embed_tokens",
    positions: "",
    layer: "layers",
    inputs: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    output: "self_attn.o_proj",
    attention_norm: "input_layernorm",
    head_norms: None,
    inner: &["mlp.gate_proj", "mlp.up_proj"],
    outer: "mlp.down_proj",
    feed_forward_norm: "post_attention_layernorm",
    last_norm: "norm",
};

/// The entry of a `model_type`.
pub(in crate::trainer) fn find(model_type: &str) -> Option<&'static DecoderFamily> {
    DECODERS.iter().find(|family| family.model_type == model_type)
}
