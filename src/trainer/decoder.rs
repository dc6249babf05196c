//! The language model: a causal pre-norm transformer with the layout, names and files of GPT-2.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::batch::Layout;
use super::layers::{Cache, CausalAttention, Embedding, LayerNorm, Linear, Pass, Rows, embed, table_cross_entropy};
use super::parameters::{Parameters, Role, Slot};
use crate::arguments::{Activation, ModelArguments};

/// The shape of a decoder as `config.json` says it: GPT-2's keys, so that `transformers.GPT2LMHeadModel` reads the same directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Architecture {
    architectures: Vec<String>,
    model_type: String,
    pub(super) vocab_size: usize,
    /// Tokens of a window.
    pub(super) n_positions: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_inner: usize,
    activation_function: Activation,
    resid_pdrop: f64,
    embd_pdrop: f64,
    attn_pdrop: f64,
    layer_norm_epsilon: f64,
    tie_word_embeddings: bool,
    /// What stands before a text's first token.
    pub(super) bos_token_id: u32,
    /// What ends a text.
    pub(super) eos_token_id: u32,
}

/// What `config.json` calls it.
pub(super) const MODEL_TYPE: &str = "gpt2";

impl Architecture {
    /// The shape that the arguments ask for, for a tokenizer, the data's length of windows and the tokens around texts.
    pub(super) fn new(arguments: &ModelArguments, vocab_size: usize, max_length: usize, start: u32, end: u32) -> Self {
        Self {
            architectures: vec!["GPT2LMHeadModel".to_owned()],
            model_type: MODEL_TYPE.to_owned(),
            vocab_size,
            n_positions: arguments.max_length.unwrap_or(max_length),
            n_embd: arguments.hidden_size,
            n_layer: arguments.num_layers,
            n_head: arguments.num_heads,
            n_inner: arguments.intermediate_size(),
            activation_function: arguments.activation,
            resid_pdrop: arguments.dropout,
            embd_pdrop: arguments.dropout,
            attn_pdrop: arguments.attention_dropout,
            layer_norm_epsilon: 1e-5,
            tie_word_embeddings: arguments.tie_word_embeddings.unwrap_or(true),
            bos_token_id: start,
            eos_token_id: end,
        }
    }

    /// Why this is not a model this trainer can run, if it is not.
    pub(super) fn problem(&self) -> Option<String> {
        let sizes = [self.vocab_size, self.n_positions, self.n_embd, self.n_head];
        let sound = !sizes.contains(&0) && self.n_embd.is_multiple_of(self.n_head) && self.bos_token_id < u32::try_from(self.vocab_size).ok()?;
        (!sound).then(|| "it does not describe a model".to_owned())
    }
}

/// The decoder laid out over a parameter list.
pub(super) struct Decoder {
    words: Embedding,
    positions: Embedding,
    layers: Vec<Layer>,
    norm: LayerNorm,
    /// The output's own table, where it does not share the words'.
    head: Option<Slot>,
    dropout: f64,
}

struct Layer {
    attention_norm: LayerNorm,
    attention: CausalAttention,
    feed_forward_norm: LayerNorm,
    inner: Linear,
    outer: Linear,
    activation: Activation,
    dropout: f64,
}

impl Decoder {
    /// The model and the list of its parameters.
    pub(super) fn new(architecture: &Architecture) -> (Self, Parameters) {
        let (width, vocabulary) = (architecture.n_embd, architecture.vocab_size);
        let mut parameters = Parameters::default();
        let list = &mut parameters;
        let decoder = Self {
            words: Embedding::new(list, "transformer.wte", vocabulary, width),
            positions: Embedding::new(list, "transformer.wpe", architecture.n_positions, width),
            layers: (0..architecture.n_layer).map(|number| Layer::new(list, &format!("transformer.h.{number}"), architecture)).collect(),
            norm: LayerNorm::new(list, "transformer.ln_f", width, architecture.layer_norm_epsilon),
            head: (!architecture.tie_word_embeddings).then(|| list.add("lm_head.weight".to_owned(), [vocabulary, width], Role::Table)),
            dropout: architecture.embd_pdrop,
        };
        (decoder, parameters)
    }

    /// The logits of the token after each of `tokens`, which are texts of `length` tokens one after another: `[tokens, vocabulary]`.
    pub(super) fn forward(&self, pass: &Pass, tokens: &[u32], length: usize) -> Tensor<2> {
        self.read(pass, tokens, length).matmul(self.table(pass).transpose())
    }

    /// The cross-entropy of the tokens `told` after each of `tokens`, summed and times `share`: `[1]`.
    pub(super) fn loss(&self, pass: &Pass, tokens: &[u32], told: Vec<u32>, length: usize, smoothing: f64, share: f64) -> Tensor<1> {
        table_cross_entropy(self.read(pass, tokens, length), self.table(pass), told.into(), smoothing, share)
    }

    /// What the tokens say of those after them, `[tokens, width]`.
    fn read(&self, pass: &Pass, tokens: &[u32], length: usize) -> Rows {
        let places = (0..tokens.len()).filter_map(|token| u32::try_from(token % length).ok()).collect();
        let layout = Layout::even(tokens.len() / length, length);
        let mut x = pass.dropout(self.embed(pass, tokens, places), self.dropout);
        for layer in &self.layers {
            let read = layer.attention_norm.forward(pass, x.clone());
            let attended = layer.attention.residual(pass, x, read, &layout, layer.dropout);
            x = layer.finish(pass, attended);
        }
        self.norm.forward(pass, x)
    }

    /// The logits of the token after the last of `tokens`, which follow those that `cache` remembers in one text: `[1, vocabulary]`.
    pub(super) fn extend(&self, pass: &Pass, tokens: &[u32], cache: &mut Cache) -> Tensor<2> {
        let seen = cache.seen();
        let places = (seen..seen + tokens.len()).filter_map(|place| u32::try_from(place).ok()).collect();
        let mut x = self.embed(pass, tokens, places);
        for (number, layer) in self.layers.iter().enumerate() {
            let read = layer.attention_norm.forward(pass, x.clone());
            x = layer.finish(pass, layer.attention.extend(pass, x, read, cache, number));
        }
        let last = x.dims()[0] - 1;
        self.norm.forward(pass, x.narrow(0, last, 1)).matmul(self.table(pass).transpose())
    }

    /// Token and position vectors summed, `[tokens, width]`.
    fn embed(&self, pass: &Pass, tokens: &[u32], places: Vec<u32>) -> Rows {
        embed(pass, [(&self.words, tokens.into()), (&self.positions, places.into())])
    }

    /// The vectors that tokens are told by, `[vocabulary, width]`.
    fn table(&self, pass: &Pass) -> Tensor<2> {
        self.head.map_or_else(|| self.words.table(pass), |head| pass.values.get(head))
    }
}

impl Layer {
    fn new(list: &mut Parameters, name: &str, architecture: &Architecture) -> Self {
        let (width, inner, epsilon) = (architecture.n_embd, architecture.n_inner, architecture.layer_norm_epsilon);
        // GPT-2: what is added to the residual stream starts smaller by the root of how often that happens.
        let (inward, outward) = (Role::Kernel { additions: 1 }, Role::Kernel { additions: 2 * architecture.n_layer });
        Self {
            attention_norm: LayerNorm::new(list, &format!("{name}.ln_1"), width, epsilon),
            attention: CausalAttention::new(list, &format!("{name}.attn"), width, architecture.n_head, architecture.attn_pdrop, inward, outward),
            feed_forward_norm: LayerNorm::new(list, &format!("{name}.ln_2"), width, epsilon),
            inner: Linear::with_role(list, &format!("{name}.mlp.c_fc"), width, inner, inward),
            outer: Linear::with_role(list, &format!("{name}.mlp.c_proj"), inner, width, outward),
            activation: architecture.activation_function,
            dropout: architecture.resid_pdrop,
        }
    }

    /// The second part of a layer; each part adds to what it reads after a norm.
    fn finish(&self, pass: &Pass, x: Rows) -> Rows {
        let inner = self.inner.activated(pass, self.feed_forward_norm.forward(pass, x.clone()), self.activation);
        self.outer.residual(pass, x, inner, self.dropout)
    }
}
