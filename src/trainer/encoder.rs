//! The text classifier: a pre-norm transformer encoder, pooled, with one linear head.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::batch::{Batch, Layout};
use super::layers::{Attention, Embedding, LayerNorm, Linear, Pass, Rows, embed};
use super::parameters::Parameters;
use super::vocabulary::PADDING;
use crate::arguments::{Activation, ModelArguments, Pooling};

/// The shape of a classifier as `config.json` says it, under Hugging Face's keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Architecture {
    architectures: Vec<String>,
    model_type: String,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_dropout_prob: f64,
    attention_probs_dropout_prob: f64,
    hidden_act: Activation,
    pooling: Pooling,
    pub(super) max_position_embeddings: usize,
    vocab_size: usize,
    layer_norm_eps: f64,
    pad_token_id: u32,
    id2label: BTreeMap<usize, String>,
    label2id: BTreeMap<String, usize>,
}

/// Added to variances, as in BERT.
const LAYER_NORM_EPSILON: f64 = 1e-12;

/// What `config.json` calls it.
pub(super) const MODEL_TYPE: &str = "hpsearch-encoder";

impl Architecture {
    /// The shape that the arguments ask for, for a tokenizer, labels and longest row.
    pub(super) fn new(arguments: &ModelArguments, labels: &[String], vocab_size: usize, max_length: usize) -> Self {
        Self {
            architectures: vec!["HpsearchEncoderForSequenceClassification".to_owned()],
            model_type: MODEL_TYPE.to_owned(),
            hidden_size: arguments.hidden_size,
            num_hidden_layers: arguments.num_layers,
            num_attention_heads: arguments.num_heads,
            intermediate_size: arguments.intermediate_size(),
            hidden_dropout_prob: arguments.dropout,
            attention_probs_dropout_prob: arguments.attention_dropout,
            hidden_act: arguments.activation,
            pooling: arguments.pooling.unwrap_or(Pooling::Mean),
            max_position_embeddings: arguments.max_length.unwrap_or(max_length),
            vocab_size,
            layer_norm_eps: LAYER_NORM_EPSILON,
            pad_token_id: PADDING,
            id2label: labels.iter().cloned().enumerate().collect(),
            label2id: labels.iter().cloned().enumerate().map(|(id, label)| (label, id)).collect(),
        }
    }

    /// Why this is not a model this trainer can run, if it is not.
    pub(super) fn problem(&self) -> Option<String> {
        if self.num_attention_heads == 0 || !self.hidden_size.is_multiple_of(self.num_attention_heads) || self.id2label.is_empty() {
            return Some("config.json does not describe a model".to_owned());
        }
        None
    }

    /// The labels in the order of their ids.
    pub(super) fn labels(&self) -> Vec<String> {
        self.id2label.values().cloned().collect()
    }
}

/// The classifier laid out over a parameter list.
pub(super) struct Encoder {
    words: Embedding,
    positions: Embedding,
    layers: Vec<Layer>,
    norm: LayerNorm,
    classifier: Linear,
    dropout: f64,
    pooling: Pooling,
}

struct Layer {
    attention_norm: LayerNorm,
    attention: Attention,
    feed_forward_norm: LayerNorm,
    inner: Linear,
    outer: Linear,
    activation: Activation,
    dropout: f64,
}

impl Encoder {
    /// The model and the list of its parameters.
    pub(super) fn new(architecture: &Architecture) -> (Self, Parameters) {
        let (width, dropout) = (architecture.hidden_size, architecture.hidden_dropout_prob);
        let mut parameters = Parameters::default();
        let list = &mut parameters;
        let encoder = Self {
            words: Embedding::new(list, "embeddings.word_embeddings", architecture.vocab_size, width),
            positions: Embedding::new(list, "embeddings.position_embeddings", architecture.max_position_embeddings, width),
            layers: (0..architecture.num_hidden_layers).map(|number| Layer::new(list, &format!("encoder.layer.{number}"), architecture)).collect(),
            norm: LayerNorm::new(list, "encoder.norm", width, LAYER_NORM_EPSILON),
            classifier: Linear::new(list, "classifier", width, architecture.id2label.len()),
            dropout,
            pooling: architecture.pooling,
        };
        (encoder, parameters)
    }

    /// The logits of a batch, `[batch, labels]`.
    pub(super) fn forward(&self, pass: &Pass, batch: &Batch) -> Tensor<2> {
        let layout = batch.layout();
        let mut x = pass.dropout(self.embed(pass, batch), self.dropout);
        for layer in &self.layers {
            x = layer.forward(pass, x, &layout);
        }
        let pooled = self.pool(pass, batch, self.norm.forward(pass, x));
        self.classifier.forward(pass, pass.dropout(pooled, self.dropout))
    }

    /// Token and position vectors summed, `[tokens, width]`.
    fn embed(&self, pass: &Pass, batch: &Batch) -> Rows {
        embed(pass, [(&self.words, batch.ids()), (&self.positions, batch.places())])
    }

    /// One vector per text, `[texts, width]`.
    fn pool(&self, pass: &Pass, batch: &Batch, x: Rows) -> Rows {
        match self.pooling {
            Pooling::Cls => x.select(0, batch.firsts(pass.device)),
            Pooling::Mean => batch.shares(pass.device).matmul(x),
        }
    }
}

impl Layer {
    fn new(list: &mut Parameters, name: &str, architecture: &Architecture) -> Self {
        let width = architecture.hidden_size;
        Self {
            attention_norm: LayerNorm::new(list, &format!("{name}.attention_norm"), width, LAYER_NORM_EPSILON),
            attention: Attention::new(
                list,
                &format!("{name}.attention"),
                width,
                architecture.num_attention_heads,
                architecture.attention_probs_dropout_prob,
            ),
            feed_forward_norm: LayerNorm::new(list, &format!("{name}.feed_forward_norm"), width, LAYER_NORM_EPSILON),
            inner: Linear::new(list, &format!("{name}.feed_forward.inner"), width, architecture.intermediate_size),
            outer: Linear::new(list, &format!("{name}.feed_forward.outer"), architecture.intermediate_size, width),
            activation: architecture.hidden_act,
            dropout: architecture.hidden_dropout_prob,
        }
    }

    /// Pre-norm: each part adds to what it reads (Xiong et al. 2020), which trains from scratch without a long warm-up.
    fn forward(&self, pass: &Pass, x: Rows, layout: &Layout) -> Rows {
        let read = self.attention_norm.forward(pass, x.clone());
        let x = self.attention.residual(pass, x, &read, layout, self.dropout);
        let inner = self.inner.activated(pass, self.feed_forward_norm.forward(pass, x.clone()), self.activation);
        self.outer.residual(pass, x, inner, self.dropout)
    }
}
