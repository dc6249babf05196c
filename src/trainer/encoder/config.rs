//! An encoder's configuration: its `config.json`, and the sizes that it gives under its family's
//! keys.

use serde_json::{Map, Value, json};

use super::super::families::encoders::{
    ENCODERS, EncoderFamily, EncoderStyle, OWN_MODEL_TYPE, class_ending,
};
use super::super::families::{self, ConfigReader, OtherFamilies};
use super::super::floats::real;
use super::super::layers::RelativeShape;
use super::super::quantization;
use super::super::rotary::Rope;
use hpsearch_core::arguments::{Activation, DECODER_TYPES, ModelArguments, Pooling, TaskKind};

/// An encoder's `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncoderConfig {
    pub(crate) family: &'static EncoderFamily,
    /// All keys, including those without a meaning here.
    pub(crate) config: Map<String, Value>,
    pub(crate) shape: EncoderShape,
}

/// What the head of a pretrained model was trained for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrainedHead {
    /// `None`: a task with another kind of head.
    pub(crate) task: Option<TaskKind>,
    pub(crate) labels: Vec<String>,
}

/// The sizes and dropout rates of an encoder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EncoderShape {
    pub(crate) width: usize,
    pub(crate) embedding_width: usize,
    pub(crate) layers: usize,
    /// Groups of layers that share their weights; as many as layers where none do.
    pub(crate) groups: usize,
    pub(crate) heads: usize,
    pub(crate) inner: usize,
    pub(crate) activation: Activation,
    pub(crate) embedding_dropout: f64,
    pub(crate) dropout: f64,
    pub(crate) attention_dropout: f64,
    pub(crate) head_dropout: f64,
    pub(crate) vocabulary: usize,
    /// Rows of the position embedding.
    pub(crate) positions: usize,
    /// The position id of a text's first token.
    pub(crate) first_position: usize,
    /// Rows of the segment embedding, of which only the first is used; 0: there is none.
    pub(crate) segments: usize,
    /// What norms add to a variance before its root is taken.
    pub(crate) epsilon: f64,
    pub(crate) pooling: Pooling,
    /// Standard deviation of initial weights; `None`: Xavier's.
    pub(crate) initializer_range: Option<f64>,
    pub(crate) task: TaskKind,
    /// The labels by id; a placeholder for regression.
    pub(crate) labels: Vec<String>,
    pub(crate) modern: Option<ModernBertShape>,
    /// With relative positions.
    pub(crate) relative: Option<RelativeShape>,
}

/// What is particular to ModernBERT.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModernBertShape {
    /// `rope_theta` of layers with full attention, and of those with a sliding window.
    pub(crate) thetas: [f64; 2],
    /// How far a sliding window reaches to either side.
    pub(crate) window: usize,
    /// Whether each layer has a sliding window.
    pub(crate) sliding: Vec<bool>,
    pub(crate) biases: ModernBertBiases,
}

/// Which parts of a ModernBERT have biases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ModernBertBiases {
    pub(crate) norm: bool,
    pub(crate) attention: bool,
    pub(crate) feed_forward: bool,
    /// The hidden layer of the head.
    pub(crate) head: bool,
}

/// The padding token of tokenizers that are trained here.
const PAD: u32 = 0;

/// The default epsilon of norms, BERT's.
const EPSILON: f64 = 1e-12;

/// `rope_theta` of a model trained from scratch, whose texts are short.
const SCRATCH_THETA: f64 = 10_000.0;

/// Maximum number of labels of a `config.json` that only counts them.
const MAX_LABELS: usize = 1_000_000;

impl EncoderConfig {
    /// The configuration of a model trained from scratch, for a vocabulary, labels and the longest
    /// row.
    pub(crate) fn new(
        arguments: &ModelArguments,
        task: TaskKind,
        labels: &[String],
        vocab_size: usize,
        max_length: usize,
    ) -> Result<Self, String> {
        let name = arguments.model_type.as_deref().unwrap_or(OWN_MODEL_TYPE);
        let family = family(name)?;
        let (keys, from_scratch) = (&family.keys, arguments.from_scratch());
        let first_position = if keys.positions_after_padding { PAD as usize + 1 } else { 0 };
        let mut config = Map::new();
        let mut put = |key: &str, value: Value| config.insert(key.to_owned(), value);
        put("architectures", json!([class(family, task)]));
        put("model_type", family.model_type.into());
        put(keys.width, from_scratch.hidden_size.into());
        if let Some(embedding) = keys.embedding_width {
            put(embedding.key, from_scratch.hidden_size.min(embedding.default).into());
        }
        put(keys.layers, from_scratch.num_layers.into());
        put(keys.heads, from_scratch.num_heads.into());
        put(keys.inner, from_scratch.intermediate_size.into());
        put(keys.dropout, arguments.dropout().into());
        put(keys.attention_dropout, arguments.attention_dropout().into());
        put(keys.activation, json!(from_scratch.activation));
        put(
            "max_position_embeddings",
            (arguments.max_length.unwrap_or(max_length) + first_position).into(),
        );
        put("vocab_size", vocab_size.into());
        put("pad_token_id", PAD.into());
        if family.model_type != OWN_MODEL_TYPE {
            put("initializer_range", 0.02.into());
            put(keys.head_dropout, arguments.dropout().into());
        }
        match family.style {
            EncoderStyle::PreNorm => put("pooling", json!(from_scratch.pooling)),
            EncoderStyle::PostNorm => None,
            EncoderStyle::ModernBert => {
                put("classifier_pooling", json!(from_scratch.pooling));
                put("embedding_dropout", arguments.dropout().into());
                // transformers 4 reads the first key, 5 the second.
                put("global_attn_every_n_layers", 1.into());
                put("layer_types", json!(vec!["full_attention"; from_scratch.num_layers]));
                put("global_rope_theta", SCRATCH_THETA.into());
                // The defaults are ids of a vocabulary of 50,368.
                for (key, token) in [
                    ("bos_token_id", 2),
                    ("cls_token_id", 2),
                    ("eos_token_id", 3),
                    ("sep_token_id", 3),
                ] {
                    put(key, token.into());
                }
                put("local_rope_theta", SCRATCH_THETA.into())
            }
        };
        if let Some((key, epsilon)) = keys.epsilon {
            put(key, epsilon.into());
        }
        if let Some((key, count)) = keys.segments {
            put(key, count.into());
        }
        if keys.positions_after_padding {
            put("type_vocab_size", 1.into());
        }
        if keys.has_relative_positions {
            for (key, value) in [
                ("relative_attention", true.into()),
                ("position_biased_input", false.into()),
                ("pos_att_type", json!(["p2c", "c2p"])),
                ("share_att_key", true.into()),
                ("norm_rel_ebd", "layer_norm".into()),
                ("max_relative_positions", (-1).into()),
                ("position_buckets", (-1).into()),
                ("type_vocab_size", 0.into()),
                ("pooler_hidden_size", from_scratch.hidden_size.into()),
                ("pooler_hidden_act", "gelu".into()),
                ("pooler_dropout", 0.into()),
            ] {
                put(key, value);
            }
        }
        let mut config = Self::read(task, config)?;
        config.set_labels(task, labels);
        Ok(config)
    }

    /// Reads a `config.json` for `task`; of the tasks of whole texts it is the one that the file
    /// says. An error is the end of a sentence about it.
    pub(crate) fn read(task: TaskKind, config: Map<String, Value>) -> Result<Self, String> {
        let config = quantization::without_quantization(config)?;
        let keys = ConfigReader(&config);
        let family = family(keys.model_type())?;
        keys.only("position_embedding_type", &["absolute".into()])?;
        for key in ["is_decoder", "add_cross_attention", "sinusoidal_pos_embds"] {
            keys.only(key, &[false.into()])?;
        }
        if task == TaskKind::MaskedLanguageModeling {
            keys.only("tie_word_embeddings", &[true.into()])?;
            keys.only("decoder_bias", &[true.into()])?;
            keys.only("legacy", &[true.into()])?;
        }
        let shape = EncoderShape::read(family, task, keys)?;
        Ok(Self { family, shape, config })
    }

    /// Replaces the labels.
    pub(crate) fn set_labels(&mut self, task: TaskKind, labels: &[String]) {
        if matches!(task, TaskKind::MaskedLanguageModeling | TaskKind::SentenceSimilarity) {
            (self.shape.task, self.shape.labels) = (task, Vec::new());
            return;
        }
        if task == TaskKind::QuestionAnswering {
            for key in ["id2label", "label2id", "num_labels", "problem_type"] {
                self.config.remove(key);
            }
            (self.shape.task, self.shape.labels) = (task, starts_and_ends());
            return;
        }
        let labels = if task == TaskKind::TextRegression {
            vec!["LABEL_0".to_owned()]
        } else {
            labels.to_vec()
        };
        let pairs = || labels.iter().enumerate();
        let ids: Map<String, Value> =
            pairs().map(|(id, label)| (id.to_string(), label.as_str().into())).collect();
        let names: Map<String, Value> =
            pairs().map(|(id, label)| (label.clone(), id.into())).collect();
        self.config.insert("id2label".to_owned(), ids.into());
        self.config.insert("label2id".to_owned(), names.into());
        self.config.remove("num_labels");
        if !task.is_of_texts() {
            self.config.remove("problem_type");
        } else if self.family.model_type != OWN_MODEL_TYPE || task != TaskKind::TextClassification {
            self.config.insert("problem_type".to_owned(), problem_type(task).into());
        }
        (self.shape.task, self.shape.labels) = (task, labels);
    }

    /// Adapts a pretrained model's configuration to these labels and to the dropout rates that the
    /// arguments give.
    pub(crate) fn adapt(&mut self, arguments: &ModelArguments, task: TaskKind, labels: &[String]) {
        self.set_labels(task, labels);
        let keys = &self.family.keys;
        let config = &mut self.config;
        config.insert("architectures".to_owned(), json!([class(self.family, task)]));
        families::declare_f32(config);
        let EncoderShape { dropout, attention_dropout, head_dropout, .. } = &mut self.shape;
        for (given, key, rate) in [
            (arguments.dropout, keys.dropout, dropout),
            (arguments.attention_dropout, keys.attention_dropout, attention_dropout),
            (arguments.classifier_dropout, keys.head_dropout, head_dropout),
        ] {
            if let Some(given) = given {
                config.insert(key.to_owned(), given.into());
                *rate = given;
            }
        }
        if let Some(given) = arguments.dropout {
            self.shape.embedding_dropout = given;
            if self.family.style == EncoderStyle::ModernBert {
                config.insert("embedding_dropout".to_owned(), given.into());
            }
        }
        if arguments.dropout.is_some()
            && task != TaskKind::QuestionAnswering
            && arguments.classifier_dropout.is_none()
            && keys.head_dropout_default.is_none()
        {
            // A head without a rate of its own takes that of the layers.
            if config.get(keys.head_dropout).is_none_or(Value::is_null) {
                self.shape.head_dropout = self.shape.dropout;
            }
        }
    }

    /// What the model's head was trained for, if it has one.
    pub(crate) fn trained_head(&self) -> Option<TrainedHead> {
        let classes = self.config.get("architectures").and_then(Value::as_array);
        let classes = || classes.into_iter().flatten().filter_map(Value::as_str);
        let (task, labels) = (self.shape.task, self.shape.labels.clone());
        let has = |ending: &str| classes().any(|class| class.contains(ending));
        if has(class_ending(task)) {
            return Some(TrainedHead { task: Some(task), labels });
        }
        let is_named = self.config.contains_key("id2label");
        (has("For") || is_named).then(|| TrainedHead {
            task: (!has("For")).then_some(task),
            labels: if is_named { labels } else { Vec::new() },
        })
    }

    /// Maximum number of tokens of a text.
    pub(crate) fn max_tokens(&self) -> usize {
        self.shape.positions - self.shape.first_position
    }
}

impl EncoderShape {
    fn read(family: &EncoderFamily, task: TaskKind, config: ConfigReader) -> Result<Self, String> {
        let keys = &family.keys;
        let (width, heads) = (config.size(keys.width)?, config.size(keys.heads)?);
        let head_dim = config.head_dim(keys.width, keys.heads)?;
        let dropout = config.fraction_or(keys.dropout, keys.dropout_default)?;
        let pad_token_id = config.token_id("pad_token_id")?.unwrap_or(keys.pad_token_id);
        let first_position =
            if keys.positions_after_padding { pad_token_id as usize + 1 } else { 0 };
        let positions = config.size("max_position_embeddings")?;
        if positions < first_position + 3 {
            return Err(format!(
                "has `max_position_embeddings` = {positions}, too few positions for a text"
            ));
        }
        let labels =
            if task == TaskKind::QuestionAnswering { starts_and_ends() } else { labels(config)? };
        let problem_type = config.get("problem_type").and_then(Value::as_str);
        let task = match problem_type {
            _ if !task.is_of_texts() => task,
            Some("multi_label_classification") => TaskKind::MultiLabelClassification,
            Some("regression") => TaskKind::TextRegression,
            None if labels.len() == 1 => TaskKind::TextRegression,
            Some("single_label_classification") | None => TaskKind::TextClassification,
            Some(other) => {
                return Err(format!("has `problem_type` = \"{other}\", which is not supported"));
            }
        };
        let pooling = match family.style {
            EncoderStyle::PreNorm => config.get("pooling"),
            EncoderStyle::ModernBert => config.get("classifier_pooling"),
            EncoderStyle::PostNorm => None,
        };
        let pooling = if pooling.is_some_and(|pooling| pooling == "mean") {
            Pooling::Mean
        } else {
            Pooling::Cls
        };
        let layers = config.layers(keys.layers)?;
        let groups = keys.groups.map_or(Ok(layers), |key| config.size_or(key, 1))?;
        if keys.groups.is_some() {
            config.only("inner_group_num", &[1.into()])?;
        }
        if groups > layers {
            return Err(format!("has {groups} groups of layers, and {layers} layers"));
        }
        let embedding = keys.embedding_width;
        let is_modern = family.style == EncoderStyle::ModernBert;
        let modern = is_modern.then(|| ModernBertShape::read(config, layers)).transpose()?;
        if let Some(modern) = &modern {
            Rope::of(modern.thetas[0]).check(head_dim)?;
        }
        let relative =
            keys.has_relative_positions.then(|| relative(config, head_dim)).transpose()?;
        Ok(Self {
            embedding_dropout: if modern.is_some() {
                config.fraction_or("embedding_dropout", 0.0)?
            } else {
                dropout
            },
            inner: config.size(keys.inner)?,
            activation: config.activation_or(keys.activation, Activation::Gelu)?,
            attention_dropout: config.fraction_or(keys.attention_dropout, keys.dropout_default)?,
            head_dropout: match (task, keys.answer_dropout) {
                (TaskKind::QuestionAnswering, None) => 0.0,
                (TaskKind::QuestionAnswering, Some((key, default))) => {
                    config.fraction_or(key, default)?
                }
                _ => config
                    .fraction_or(keys.head_dropout, keys.head_dropout_default.unwrap_or(dropout))?,
            },
            vocabulary: config.size("vocab_size")?,
            segments: keys.segments.map_or(Ok(0), |(key, default)| config.size_or(key, default))?,
            epsilon: keys
                .epsilon
                .map_or(Ok(EPSILON), |(key, default)| config.fraction_or(key, default))?,
            initializer_range: (family.style == EncoderStyle::PostNorm)
                .then(|| config.number_or("initializer_range", 0.02))
                .transpose()?,
            embedding_width: embedding
                .map_or(Ok(width), |embedding| config.size_or(embedding.key, embedding.default))?,
            layers,
            groups,
            width,
            heads,
            dropout,
            positions,
            first_position,
            pooling,
            task,
            labels,
            modern,
            relative,
        })
    }
}

impl ModernBertShape {
    /// From `layer_types` and `rope_parameters` (transformers 5), or from
    /// `global_attn_every_n_layers` and the two `.._rope_theta`.
    fn read(config: ConfigReader, layers: usize) -> Result<Self, String> {
        config.only("classifier_activation", &["gelu".into()])?;
        config.only("rope_scaling", &[])?;
        let sliding = match config.get("layer_types").and_then(Value::as_array) {
            Some(kinds) if kinds.len() == layers => kinds
                .iter()
                .map(|kind| match kind.as_str() {
                    Some("full_attention") => Ok(false),
                    Some("sliding_attention") => Ok(true),
                    _ => Err(format!("has layers of the type {kind}, which is not supported")),
                })
                .collect::<Result<_, _>>()?,
            Some(kinds) => {
                let count = kinds.len();
                return Err(format!("has `layer_types` of {count} layers, and {layers} layers"));
            }
            None => {
                let every = config.size_or("global_attn_every_n_layers", 3)?;
                (0..layers).map(|layer| !layer.is_multiple_of(every)).collect()
            }
        };
        let nested = config.get("rope_parameters").and_then(Value::as_object);
        let theta = |kind: &str, key: &str, default: f64| {
            let empty = Map::new();
            let own = nested.and_then(|nested| nested.get(kind)).and_then(Value::as_object);
            let own = ConfigReader(own.unwrap_or(&empty));
            own.only("rope_type", &["default".into()])?;
            own.positive_or("rope_theta", config.positive_or(key, default)?)
        };
        let flag = |key: &str| config.bool_or(key, false);
        Ok(Self {
            thetas: [
                theta("full_attention", "global_rope_theta", 160_000.0)?,
                theta("sliding_attention", "local_rope_theta", 10_000.0)?,
            ],
            window: config.size_or("local_attention", 128)? / 2,
            sliding,
            biases: ModernBertBiases {
                norm: flag("norm_bias")?,
                attention: flag("attention_bias")?,
                feed_forward: flag("mlp_bias")?,
                head: flag("classifier_bias")?,
            },
        })
    }
}

/// The labels that a `config.json` names, by id; none if it names none that can be understood.
pub(crate) fn named_labels(config: &Map<String, Value>) -> Vec<String> {
    if config.contains_key("id2label") {
        labels(ConfigReader(config)).unwrap_or_default()
    } else {
        Vec::new()
    }
}

/// The labels by id; as in transformers, two unnamed ones by default.
fn labels(config: ConfigReader) -> Result<Vec<String>, String> {
    let Some(ids) = config.get("id2label") else {
        let count = config.size_or("num_labels", 2)?;
        if count > MAX_LABELS {
            return Err(format!("has `num_labels` = {count}, more than {MAX_LABELS}"));
        }
        return Ok((0..count).map(|id| format!("LABEL_{id}")).collect());
    };
    let wrong = || "has an `id2label` that does not name the labels 0, 1, 2 and so on".to_owned();
    let ids = ids.as_object().filter(|ids| !ids.is_empty()).ok_or_else(wrong)?;
    (0..ids.len())
        .map(|id| {
            ids.get(&id.to_string()).and_then(Value::as_str).map(str::to_owned).ok_or_else(wrong)
        })
        .collect()
}

/// The relative positions of a DeBERTa; those whose layers do without are not supported.
fn relative(config: ConfigReader, head_dim: usize) -> Result<RelativeShape, String> {
    for (key, default, meant) in [
        ("relative_attention", false, true),
        ("share_att_key", false, true),
        ("position_biased_input", true, false),
    ] {
        if config.bool_or(key, default)? != meant {
            return Err(format!("has no `{key}` = {meant}: without it a model is not supported"));
        }
    }
    let width = config.size("hidden_size")?;
    for (key, meant) in [
        ("conv_kernel_size", 0),
        ("type_vocab_size", 0),
        ("pooler_dropout", 0),
        ("embedding_size", width),
        ("pooler_hidden_size", width),
        ("attention_head_size", head_dim),
    ] {
        config.only(key, &[meant.into(), real(meant).into()])?;
    }
    config.only("pooler_hidden_act", &["gelu".into()])?;
    config.only("norm_rel_ebd", &["layer_norm".into(), "none".into()])?;
    let longest = match config.number_or("max_relative_positions", -1.0)? {
        longest if longest < 1.0 => config.size("max_position_embeddings")?,
        _ => config.size("max_relative_positions")?,
    };
    let buckets = match config.number_or("position_buckets", -1.0)? {
        buckets if buckets < 1.0 => None,
        _ => Some(config.size("position_buckets")?),
    };
    let kinds: Vec<&str> = match config.get("pos_att_type") {
        Some(Value::String(kinds)) => kinds.split('|').map(str::trim).collect(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if let Some(other) = kinds.iter().find(|kind| !["c2p", "p2c"].contains(*kind)) {
        return Err(format!("has `pos_att_type` = \"{other}\", which is not supported"));
    }
    Ok(RelativeShape {
        span: buckets.unwrap_or(longest),
        bucketed_to: buckets.map(|_| longest),
        content_to_position: kinds.contains(&"c2p"),
        position_to_content: kinds.contains(&"p2c"),
        is_normalised: config.get("norm_rel_ebd").is_some_and(|norm| norm == "layer_norm"),
    })
}

/// The outputs of a head that finds answers, by transformers' default names.
fn starts_and_ends() -> Vec<String> {
    (0..2).map(|id| format!("LABEL_{id}")).collect()
}

/// What transformers calls a task.
fn problem_type(task: TaskKind) -> &'static str {
    match task {
        TaskKind::MultiLabelClassification => "multi_label_classification",
        TaskKind::TextRegression => "regression",
        _ => "single_label_classification",
    }
}

/// The class of transformers for a task.
fn class(family: &EncoderFamily, task: TaskKind) -> String {
    format!("{}{}", family.class, class_ending(task))
}

fn family(name: &str) -> Result<&'static EncoderFamily, String> {
    families::find(ENCODERS, "an encoder", &DECODER_FAMILIES, name)
}

const DECODER_FAMILIES: OtherFamilies =
    OtherFamilies { model_types: &DECODER_TYPES, kind: "a decoder", task: "\"language-modeling\"" };
