//! Encoders: the keys of their `config.json` and the names of their tensors, one
//! entry of [`ENCODERS`] each.

use super::super::fused::ActivationFn;
use super::{Family, HeadDense, HeadNames, MaskedNames, TensorNames};
use hpsearch_core::arguments::TaskKind;

/// A family of encoders.
pub(crate) type EncoderFamily = Family<EncoderStyle, EncoderKeys>;

/// The structure of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncoderStyle {
    /// Pre-norm layers (Xiong et al. 2020) and a final norm; learnt positions.
    PreNorm,
    /// Post-norm layers and an embedding norm (Vaswani et al. 2017); learnt positions.
    PostNorm,
    /// Pre-norm layers between an embedding norm and a final norm; rotary positions, packed query,
    /// key and value, a gated feed-forward network, sliding windows in some layers (Warner et al.
    /// 2024).
    ModernBert,
}

/// Keys of `config.json`.
#[derive(Debug, PartialEq)]
pub(crate) struct EncoderKeys {
    pub(crate) width: &'static str,
    /// The width of embeddings, where it may be another one: a projection follows them.
    pub(crate) embedding_width: Option<EmbeddingWidth>,
    /// The number of groups of layers, where the layers of a group share their weights.
    pub(crate) groups: Option<&'static str>,
    pub(crate) layers: &'static str,
    pub(crate) heads: &'static str,
    pub(crate) inner: &'static str,
    pub(crate) activation: &'static str,
    pub(crate) dropout: &'static str,
    pub(crate) attention_dropout: &'static str,
    /// Dropout where the key is absent.
    pub(crate) dropout_default: f64,
    /// The epsilon of norms and its default; `None`: BERT's.
    pub(crate) epsilon: Option<(&'static str, f64)>,
    pub(crate) head_dropout: &'static str,
    /// Head dropout where the key is absent; `None`: as in the layers.
    pub(crate) head_dropout_default: Option<f64>,
    /// Whether it is also that of heads over tokens; if not, theirs is as in the layers.
    pub(crate) head_dropout_of_tokens: bool,
    /// The key of the dropout before the head that finds answers and its default; `None`: there is
    /// none.
    pub(crate) answer_dropout: Option<(&'static str, f64)>,
    /// Whether there is dropout of the feed-forward network's output.
    pub(crate) feed_forward_dropout: bool,
    /// Whether there is dropout of the attention's output.
    pub(crate) attention_output_dropout: bool,
    /// Whether position ids start after the padding token's id (a habit of fairseq).
    pub(crate) positions_after_padding: bool,
    /// Whether tokens see each other's relative positions and have no others.
    pub(crate) has_relative_positions: bool,
    /// The number of segments, where there are any, and its default.
    pub(crate) segments: Option<(&'static str, usize)>,
    /// The padding token where `pad_token_id` is absent.
    pub(crate) pad_token_id: u32,
}

/// The width of embeddings of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EmbeddingWidth {
    pub(crate) key: &'static str,
    /// Where the key is absent.
    pub(crate) default: usize,
    /// Whether a projection follows also where the width is that of the layers.
    pub(crate) is_always_projected: bool,
}

/// The trainer's own family, for training from scratch: pre-norm with mean pooling. transformers
/// does not have it.
pub(crate) const OWN_MODEL_TYPE: &str = "hpsearch-encoder";

/// The table of relative positions and its norm, where there are any.
pub(crate) const RELATIVE_POSITIONS: [&str; 2] = ["encoder.rel_embeddings", "encoder.LayerNorm"];

/// The end of the names of transformers' classes for a task.
pub(crate) fn class_ending(task: TaskKind) -> &'static str {
    match task {
        TaskKind::TokenClassification => "ForTokenClassification",
        TaskKind::MaskedLanguageModeling => "ForMaskedLM",
        TaskKind::QuestionAnswering => "ForQuestionAnswering",
        TaskKind::SentenceSimilarity => "Model",
        _ => "ForSequenceClassification",
    }
}

/// All families; names as in transformers' `modeling_modernbert.py`, `modeling_bert.py`,
/// `modeling_roberta.py`, `modeling_xlm_roberta.py`, `modeling_distilbert.py`,
/// `modeling_electra.py`, `modeling_albert.py` and `modeling_deberta_v2.py`.
pub(crate) static ENCODERS: &[EncoderFamily] = &[
    EncoderFamily {
        model_type: OWN_MODEL_TYPE,
        class: "HpsearchEncoder",
        prefix: "",
        style: EncoderStyle::PreNorm,
        keys: EncoderKeys { segments: None, ..BERT_KEYS },
        names: TensorNames {
            token_embedding: "embeddings.word_embeddings",
            position_embedding: "embeddings.position_embeddings",
            layer: "encoder.layer",
            qkv: &["attention.query", "attention.key", "attention.value"],
            attention_output: "attention.output",
            attention_norm: "attention_norm",
            up: &["feed_forward.inner"],
            down: "feed_forward.outer",
            feed_forward_norm: "feed_forward_norm",
            final_norm: "encoder.norm",
            head: HeadNames { dense: None, out: "classifier" },
            masked: MODERN_MASKED,
            ..TensorNames::NONE
        },
    },
    EncoderFamily {
        model_type: "modernbert",
        class: "ModernBert",
        prefix: "model.",
        style: EncoderStyle::ModernBert,
        keys: EncoderKeys {
            activation: "hidden_activation",
            dropout: "mlp_dropout",
            attention_dropout: "attention_dropout",
            dropout_default: 0.0,
            epsilon: Some(("norm_eps", 1e-5)),
            head_dropout_default: Some(0.0),
            answer_dropout: Some(("classifier_dropout", 0.0)),
            segments: None,
            ..BERT_KEYS
        },
        names: TensorNames {
            token_embedding: "embeddings.tok_embeddings",
            embedding_norm: "embeddings.norm",
            layer: "layers",
            qkv: &["attn.Wqkv"],
            attention_output: "attn.Wo",
            attention_norm: "attn_norm",
            up: &["mlp.Wi"],
            down: "mlp.Wo",
            feed_forward_norm: "mlp_norm",
            final_norm: "final_norm",
            head: HeadNames {
                dense: Some(HeadDense {
                    name: "head.dense",
                    activation: ActivationFn::Gelu,
                    norm: Some("head.norm"),
                    has_dropout: false,
                    of_tokens: true,
                }),
                out: "classifier",
            },
            masked: MODERN_MASKED,
            ..TensorNames::NONE
        },
    },
    EncoderFamily {
        model_type: "bert",
        class: "Bert",
        prefix: "bert.",
        style: EncoderStyle::PostNorm,
        keys: BERT_KEYS,
        names: TensorNames {
            head: HeadNames {
                dense: Some(HeadDense {
                    name: "bert.pooler.dense",
                    activation: ActivationFn::Tanh,
                    norm: None,
                    has_dropout: false,
                    of_tokens: false,
                }),
                out: "classifier",
            },
            ..BERT_NAMES
        },
    },
    EncoderFamily {
        model_type: "roberta",
        class: "Roberta",
        prefix: "roberta.",
        style: EncoderStyle::PostNorm,
        keys: ROBERTA_KEYS,
        names: ROBERTA_NAMES,
    },
    EncoderFamily {
        model_type: "xlm-roberta",
        class: "XLMRoberta",
        prefix: "roberta.",
        style: EncoderStyle::PostNorm,
        keys: ROBERTA_KEYS,
        names: ROBERTA_NAMES,
    },
    EncoderFamily {
        model_type: "distilbert",
        class: "DistilBert",
        prefix: "distilbert.",
        style: EncoderStyle::PostNorm,
        keys: EncoderKeys {
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
            head_dropout_of_tokens: false,
            answer_dropout: Some(("qa_dropout", 0.1)),
            attention_output_dropout: false,
            segments: None,
            ..BERT_KEYS
        },
        names: TensorNames {
            layer: "transformer.layer",
            qkv: &["attention.q_lin", "attention.k_lin", "attention.v_lin"],
            attention_output: "attention.out_lin",
            attention_norm: "sa_layer_norm",
            up: &["ffn.lin1"],
            down: "ffn.lin2",
            feed_forward_norm: "output_layer_norm",
            head: HeadNames {
                dense: Some(HeadDense {
                    name: "pre_classifier",
                    activation: ActivationFn::Relu,
                    norm: None,
                    has_dropout: false,
                    of_tokens: false,
                }),
                out: "classifier",
            },
            masked: MaskedNames {
                dense: "vocab_transform",
                norm: "vocab_layer_norm",
                bias: "vocab_projector.bias",
                activation: None,
            },
            ..BERT_NAMES
        },
    },
    EncoderFamily {
        model_type: "electra",
        class: "Electra",
        prefix: "electra.",
        style: EncoderStyle::PostNorm,
        keys: EncoderKeys {
            embedding_width: Some(EmbeddingWidth {
                key: "embedding_size",
                default: 128,
                is_always_projected: false,
            }),
            ..BERT_KEYS
        },
        names: TensorNames {
            embedding_projection: "embeddings_project",
            head: HeadNames {
                dense: Some(HeadDense {
                    name: "classifier.dense",
                    activation: ActivationFn::Gelu,
                    norm: None,
                    has_dropout: true,
                    of_tokens: false,
                }),
                out: "classifier.out_proj",
            },
            masked: MaskedNames {
                dense: "generator_predictions.dense",
                norm: "generator_predictions.LayerNorm",
                bias: "generator_lm_head.bias",
                activation: Some(ActivationFn::Gelu),
            },
            ..BERT_NAMES
        },
    },
    EncoderFamily {
        model_type: "albert",
        class: "Albert",
        prefix: "albert.",
        style: EncoderStyle::PostNorm,
        keys: EncoderKeys {
            embedding_width: Some(EmbeddingWidth {
                key: "embedding_size",
                default: 128,
                is_always_projected: true,
            }),
            groups: Some("num_hidden_groups"),
            dropout_default: 0.0,
            head_dropout: "classifier_dropout_prob",
            head_dropout_default: Some(0.1),
            feed_forward_dropout: false,
            ..BERT_KEYS
        },
        names: TensorNames {
            embedding_projection: "encoder.embedding_hidden_mapping_in",
            layer: "encoder.albert_layer_groups",
            qkv: &[
                "albert_layers.0.attention.query",
                "albert_layers.0.attention.key",
                "albert_layers.0.attention.value",
            ],
            attention_output: "albert_layers.0.attention.dense",
            attention_norm: "albert_layers.0.attention.LayerNorm",
            up: &["albert_layers.0.ffn"],
            down: "albert_layers.0.ffn_output",
            feed_forward_norm: "albert_layers.0.full_layer_layer_norm",
            head: HeadNames {
                dense: Some(HeadDense {
                    name: "albert.pooler",
                    activation: ActivationFn::Tanh,
                    norm: None,
                    has_dropout: false,
                    of_tokens: false,
                }),
                out: "classifier",
            },
            masked: MaskedNames {
                dense: "predictions.dense",
                norm: "predictions.LayerNorm",
                bias: "predictions.bias",
                activation: None,
            },
            ..BERT_NAMES
        },
    },
    EncoderFamily {
        model_type: "deberta-v2",
        class: "DebertaV2",
        prefix: "deberta.",
        style: EncoderStyle::PostNorm,
        keys: EncoderKeys {
            epsilon: Some(("layer_norm_eps", 1e-7)),
            head_dropout: "cls_dropout",
            head_dropout_of_tokens: false,
            has_relative_positions: true,
            segments: None,
            ..BERT_KEYS
        },
        names: TensorNames {
            qkv: &[
                "attention.self.query_proj",
                "attention.self.key_proj",
                "attention.self.value_proj",
            ],
            head: HeadNames {
                dense: Some(HeadDense {
                    name: "pooler.dense",
                    activation: ActivationFn::Gelu,
                    norm: None,
                    has_dropout: false,
                    of_tokens: false,
                }),
                out: "classifier",
            },
            ..BERT_NAMES
        },
    },
];

const BERT_KEYS: EncoderKeys = EncoderKeys {
    width: "hidden_size",
    embedding_width: None,
    groups: None,
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
    head_dropout_of_tokens: true,
    answer_dropout: None,
    feed_forward_dropout: true,
    attention_output_dropout: true,
    positions_after_padding: false,
    has_relative_positions: false,
    segments: Some(("type_vocab_size", 2)),
    pad_token_id: 0,
};

const BERT_NAMES: TensorNames = TensorNames {
    token_embedding: "embeddings.word_embeddings",
    position_embedding: "embeddings.position_embeddings",
    segment_embedding: "embeddings.token_type_embeddings",
    embedding_norm: "embeddings.LayerNorm",
    layer: "encoder.layer",
    qkv: &["attention.self.query", "attention.self.key", "attention.self.value"],
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: &["intermediate.dense"],
    down: "output.dense",
    feed_forward_norm: "output.LayerNorm",
    masked: MaskedNames {
        dense: "cls.predictions.transform.dense",
        norm: "cls.predictions.transform.LayerNorm",
        bias: "cls.predictions.bias",
        activation: None,
    },
    ..TensorNames::NONE
};

const ROBERTA_KEYS: EncoderKeys =
    EncoderKeys { positions_after_padding: true, pad_token_id: 1, ..BERT_KEYS };

const ROBERTA_NAMES: TensorNames = TensorNames {
    head: HeadNames {
        dense: Some(HeadDense {
            name: "classifier.dense",
            activation: ActivationFn::Tanh,
            norm: None,
            has_dropout: true,
            of_tokens: false,
        }),
        out: "classifier.out_proj",
    },
    masked: MaskedNames {
        dense: "lm_head.dense",
        norm: "lm_head.layer_norm",
        bias: "lm_head.bias",
        activation: Some(ActivationFn::Gelu),
    },
    ..BERT_NAMES
};

/// ModernBERT's, and those of the trainer's own family.
const MODERN_MASKED: MaskedNames = MaskedNames {
    dense: "head.dense",
    norm: "head.norm",
    bias: "decoder.bias",
    activation: Some(ActivationFn::Gelu),
};
