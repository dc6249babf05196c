//! Encoders for classification: what their `config.json` and their tensors are called, one entry of [`ENCODERS`] each.

/// An architecture of encoders.
#[derive(Debug, PartialEq)]
pub(in crate::trainer) struct EncoderFamily {
    /// What `config.json` calls it.
    pub(in crate::trainer) model_type: &'static str,
    /// The class that transformers makes of it for classification.
    pub(in crate::trainer) class: &'static str,
    /// What names of tensors below the head begin with; files of models without a head leave it out.
    pub(in crate::trainer) prefix: &'static str,
    pub(in crate::trainer) build: Build,
    pub(in crate::trainer) keys: ConfigKeys,
    pub(in crate::trainer) names: Names,
    pub(in crate::trainer) head: HeadNames,
}

/// How layers are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trainer) enum Build {
    /// Norms before each part, which adds to what it reads (Xiong et al. 2020); a last norm follows the layers. Learnt positions.
    Pre,
    /// Norms after each part and what it read (Vaswani et al. 2017); embeddings are normalised too. Learnt positions.
    Post,
    /// As `Pre`, and embeddings are normalised, which the first layer reads as they are. Rotated positions, one map for query, key and value,
    /// a gated feed-forward part; some layers see only what is near (Warner et al. 2024).
    Modern,
}

/// Keys of `config.json`.
#[derive(Debug, PartialEq)]
pub(in crate::trainer) struct ConfigKeys {
    pub(in crate::trainer) width: &'static str,
    pub(in crate::trainer) layers: &'static str,
    pub(in crate::trainer) heads: &'static str,
    pub(in crate::trainer) inner: &'static str,
    pub(in crate::trainer) activation: &'static str,
    pub(in crate::trainer) dropout: &'static str,
    pub(in crate::trainer) attention_dropout: &'static str,
    /// Shares dropped where no key says it.
    pub(in crate::trainer) dropout_default: f64,
    /// What is added to variances, and its default; where there is no key, it is BERT's.
    pub(in crate::trainer) epsilon: Option<(&'static str, f64)>,
    /// Dropout before the head; absent or null, it is that of the layers.
    pub(in crate::trainer) head_dropout: &'static str,
    /// Share of the head's inputs dropped where no key says it; `None`: as the layers.
    pub(in crate::trainer) head_dropout_default: Option<f64>,
    /// Whether the attention's output is dropped out before it is added.
    pub(in crate::trainer) attended_dropout: bool,
    /// Positions count from the one after the padding token's number (fairseq's habit).
    pub(in crate::trainer) positions_after_padding: bool,
    /// Number of segments, where there are any, and their default.
    pub(in crate::trainer) types: Option<(&'static str, usize)>,
    /// What ends in `config.json` beside the others when such a model is made from nothing.
    pub(in crate::trainer) padding: u32,
}

/// Names of tensors, `.weight` and `.bias` left out; those of a layer follow `layer`, its number and a point.
#[derive(Debug, PartialEq)]
pub(in crate::trainer) struct Names {
    pub(in crate::trainer) words: &'static str,
    pub(in crate::trainer) positions: &'static str,
    pub(in crate::trainer) types: &'static str,
    pub(in crate::trainer) embedding_norm: &'static str,
    pub(in crate::trainer) layer: &'static str,
    /// Query, key and value; one name where one map makes all three.
    pub(in crate::trainer) inputs: &'static [&'static str],
    pub(in crate::trainer) output: &'static str,
    pub(in crate::trainer) attention_norm: &'static str,
    pub(in crate::trainer) inner: &'static str,
    pub(in crate::trainer) outer: &'static str,
    pub(in crate::trainer) outer_norm: &'static str,
    pub(in crate::trainer) last_norm: &'static str,
}

/// The way from a text's vector to its logits; names are whole.
#[derive(Debug, PartialEq)]
pub(in crate::trainer) struct HeadNames {
    /// A layer before the last.
    pub(in crate::trainer) dense: Option<Dense>,
    /// The last.
    pub(in crate::trainer) out: &'static str,
}

/// A layer between a text's vector and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trainer) struct Dense {
    pub(in crate::trainer) name: &'static str,
    pub(in crate::trainer) bend: Bend,
    /// A norm after it.
    pub(in crate::trainer) norm: Option<&'static str>,
    /// Whether there is dropout before it, besides that before the last.
    pub(in crate::trainer) dropped: bool,
}

/// The nonlinearity after a head's first layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trainer) enum Bend {
    Tanh,
    Relu,
    Gelu,
}

/// The trainer's own, for training from nothing: pre-norm, and the mean of a text's tokens. transformers does not have it.
pub(in crate::trainer) const OWN: &str = "hpsearch-encoder";

/// All of them; names as in transformers' `modeling_modernbert.py`, `modeling_bert.py`, `modeling_roberta.py` and
/// `modeling_distilbert.py`.
pub(in crate::trainer) static ENCODERS: &[EncoderFamily] = &[
    EncoderFamily {
        model_type: OWN,
        class: "HpsearchEncoderForSequenceClassification",
        prefix: "",
        build: Build::Pre,
        keys: ConfigKeys { types: None, ..BERT_KEYS },
        names: Names {
            words: "embeddings.word_embeddings",
            positions: "embeddings.position_embeddings",
            types: "",
            embedding_norm: "",
            layer: "encoder.layer",
            inputs: &["attention.query", "attention.key", "attention.value"],
            output: "attention.output",
            attention_norm: "attention_norm",
            inner: "feed_forward.inner",
            outer: "feed_forward.outer",
            outer_norm: "feed_forward_norm",
            last_norm: "encoder.norm",
        },
        head: HeadNames { dense: None, out: "classifier" },
    },
    EncoderFamily {
        model_type: "modernbert",
        class: "ModernBertForSequenceClassification",
        prefix: "model.",
        build: Build::Modern,
        keys: ConfigKeys {
            activation: "hidden_activation",
            dropout: "mlp_dropout",
            attention_dropout: "attention_dropout",
            dropout_default: 0.0,
            epsilon: Some(("norm_eps", 1e-5)),
            head_dropout_default: Some(0.0),
            types: None,
            ..BERT_KEYS
        },
        names: Names {
            words: "embeddings.tok_embeddings",
            positions: "",
            types: "",
            embedding_norm: "embeddings.norm",
            layer: "layers",
            inputs: &["attn.Wqkv"],
            output: "attn.Wo",
            attention_norm: "attn_norm",
            inner: "mlp.Wi",
            outer: "mlp.Wo",
            outer_norm: "mlp_norm",
            last_norm: "final_norm",
        },
        head: HeadNames { dense: Some(Dense { name: "head.dense", bend: Bend::Gelu, norm: Some("head.norm"), dropped: false }), out: "classifier" },
    },
    EncoderFamily {
        model_type: "bert",
        class: "BertForSequenceClassification",
        prefix: "bert.",
        build: Build::Post,
        keys: BERT_KEYS,
        names: BERT_NAMES,
        head: HeadNames { dense: Some(Dense { name: "bert.pooler.dense", bend: Bend::Tanh, norm: None, dropped: false }), out: "classifier" },
    },
    EncoderFamily {
        model_type: "roberta",
        class: "RobertaForSequenceClassification",
        prefix: "roberta.",
        build: Build::Post,
        keys: ConfigKeys { positions_after_padding: true, padding: 1, ..BERT_KEYS },
        names: BERT_NAMES,
        head: HeadNames { dense: Some(Dense { name: "classifier.dense", bend: Bend::Tanh, norm: None, dropped: true }), out: "classifier.out_proj" },
    },
    EncoderFamily {
        model_type: "distilbert",
        class: "DistilBertForSequenceClassification",
        prefix: "distilbert.",
        build: Build::Post,
        keys: ConfigKeys {
            width: "dim",
            layers: "n_layers",
            heads: "n_heads",
            inner: "hidden_dim",
            activation: "activation",
            dropout: "dropout",
            attention_dropout: "attention_dropout",
            epsilon: None,
            head_dropout: "seq_classif_dropout",
            head_dropout_default: Some(0.2),
            attended_dropout: false,
            types: None,
            ..BERT_KEYS
        },
        names: Names {
            layer: "transformer.layer",
            inputs: &["attention.q_lin", "attention.k_lin", "attention.v_lin"],
            output: "attention.out_lin",
            attention_norm: "sa_layer_norm",
            inner: "ffn.lin1",
            outer: "ffn.lin2",
            outer_norm: "output_layer_norm",
            ..BERT_NAMES
        },
        head: HeadNames { dense: Some(Dense { name: "pre_classifier", bend: Bend::Relu, norm: None, dropped: false }), out: "classifier" },
    },
];

const BERT_KEYS: ConfigKeys = ConfigKeys {
    width: "hidden_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    inner: "intermediate_size",
    activation: "hidden_act",
    dropout: "hidden_dropout_prob",
    attention_dropout: "attention_probs_dropout_prob",
    dropout_default: 0.1,
    epsilon: Some(("layer_norm_eps", 1e-12)),
    head_dropout: "classifier_dropout",
    head_dropout_default: None,
    attended_dropout: true,
    positions_after_padding: false,
    types: Some(("type_vocab_size", 2)),
    padding: 0,
};

const BERT_NAMES: Names = Names {
    words: "embeddings.word_embeddings",
    positions: "embeddings.position_embeddings",
    types: "embeddings.token_type_embeddings",
    embedding_norm: "embeddings.LayerNorm",
    layer: "encoder.layer",
    inputs: &["attention.self.query", "attention.self.key", "attention.self.value"],
    output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    inner: "intermediate.dense",
    outer: "output.dense",
    outer_norm: "output.LayerNorm",
    last_norm: "",
};

/// The entry of a `model_type`.
pub(in crate::trainer) fn find(model_type: &str) -> Option<&'static EncoderFamily> {
    ENCODERS.iter().find(|family| family.model_type == model_type)
}
