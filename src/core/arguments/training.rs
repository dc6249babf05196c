//! The resolved arguments of a training run.

use serde::{Deserialize, Serialize};

use super::class_weights::ClassWeights;
use super::model::{ModelArguments, TokenizerArguments, TokenizerSource};
use super::scheduler::{SchedulerSettings, SchedulerType};
use super::step_interval::StepInterval;
use super::table::default_of;
use super::tasks::{TaskKind, is_smaller_better};

/// The complete arguments of a training run, defaults filled in, so that they can be stored and
/// compared.
///
/// Defaults are those of `transformers.TrainingArguments` except where
/// [`ARGUMENTS`](super::ARGUMENTS) says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerArguments {
    /// The task.
    pub task: TaskKind,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Rows per micro-batch in training.
    pub per_device_train_batch_size: usize,
    /// Rows per batch in evaluation; does not change the trained model.
    pub per_device_eval_batch_size: usize,
    /// Passes over the training rows; may be fractional.
    pub num_train_epochs: f64,
    /// Optimiser steps in all, overriding `num_train_epochs`; -1: not set.
    pub max_steps: i64,
    /// Decoupled weight decay, or an L2 penalty (SGD, RMSprop); biases and norms are exempt.
    pub weight_decay: f64,
    /// β₁ of AdamW and Lion.
    pub adam_beta1: f64,
    /// β₂ of AdamW and Lion.
    pub adam_beta2: f64,
    /// AdamW's ε.
    pub adam_epsilon: f64,
    /// Maximum global gradient norm; 0: no clipping.
    pub max_grad_norm: f64,
    /// The optimiser.
    pub optim: Optim,
    /// Decay of an exponential moving average of the weights, which is the model that is evaluated
    /// and exported; `None`: the weights themselves.
    #[serde(default)]
    pub ema_decay: Option<f64>,
    /// SGD's momentum.
    pub momentum: f64,
    /// The learning-rate schedule.
    pub lr_scheduler_type: SchedulerType,
    /// Settings of the schedule.
    #[serde(default)]
    pub lr_scheduler_kwargs: SchedulerSettings,
    /// Steps of linear warm-up, or their share of all steps when below 1.
    pub warmup_steps: f64,
    /// Share of all steps that is warm-up, used when `warmup_steps` is 0.
    pub warmup_ratio: f64,
    /// Share of the target probability spread over all labels, in [0, 1).
    pub label_smoothing_factor: f64,
    /// Share of tokens that a masked language model has to tell, in training; `None` for other
    /// tasks.
    #[serde(default)]
    pub mlm_probability: Option<f64>,
    /// Whether all tokens of a word are masked together; `None` for other tasks.
    #[serde(default)]
    pub whole_word_mask: Option<bool>,
    /// Whether evaluations write texts; `None` for tasks without.
    #[serde(default)]
    pub predict_with_generate: Option<bool>,
    /// Most tokens of such a text; `None`: the data's longest target.
    #[serde(default)]
    pub generation_max_length: Option<usize>,
    /// Beams of such a text; `None`: those of the model's configuration.
    #[serde(default)]
    pub generation_num_beams: Option<usize>,
    /// Micro-batches per optimiser step.
    pub gradient_accumulation_steps: usize,
    /// When to evaluate, besides where the pruner asks for it.
    pub eval_strategy: EvalStrategy,
    /// Optimiser steps between evaluations with `eval_strategy = "steps"`; `None`: `logging_steps`.
    pub eval_steps: Option<StepInterval>,
    /// Epochs, or optimiser steps with `eval_strategy = "steps"`, before the first evaluation that
    /// `eval_strategy` asks for.
    #[serde(default)]
    pub eval_delay: f64,
    /// Whether to evaluate before the first step; logged, not reported.
    #[serde(default)]
    pub eval_on_start: bool,
    /// Whether a trial that runs out of memory continues with half the rows at once
    /// ([`RowsAtOnce`](super::RowsAtOnce)).
    #[serde(default = "yes")]
    pub auto_find_batch_size: bool,
    /// Consecutive evaluations without improvement of the watched metric after which training ends;
    /// `None`: never.
    #[serde(default)]
    pub early_stopping_patience: Option<u64>,
    /// How much the watched metric must improve to count.
    #[serde(default)]
    pub early_stopping_threshold: f64,
    /// The metric that early stopping watches, with or without `eval_`; `None`: the study's.
    #[serde(default)]
    pub metric_for_best_model: Option<String>,
    /// Whether greater values of it are better; `None`: as its name says.
    #[serde(default)]
    pub greater_is_better: Option<bool>,
    /// Maximum number of examples per evaluation, spread evenly; `None`: all.
    #[serde(default)]
    pub max_eval_samples: Option<usize>,
    /// When to write log lines.
    #[serde(default)]
    pub logging_strategy: LoggingStrategy,
    /// Optimiser steps between log lines with `logging_strategy = "steps"`.
    pub logging_steps: StepInterval,
    /// Whether the first step is logged, too.
    #[serde(default)]
    pub logging_first_step: bool,
    /// Whether an incomplete last micro-batch of an epoch is left out.
    pub dataloader_drop_last: bool,
    /// The order of training rows.
    #[serde(default)]
    pub train_sampling_strategy: SamplingStrategy,
    /// Maximum number of tokens per micro-batch: rows times the longest row.
    #[serde(default)]
    pub max_tokens_per_batch: Option<usize>,
    /// Weights of the labels in the training loss.
    #[serde(default)]
    pub class_weights: Option<ClassWeights>,
    /// Frozen parameters, by name or pattern.
    #[serde(default)]
    pub freeze: Vec<String>,
    /// Number of first layers that are frozen, together with the embeddings; 0: none.
    #[serde(default)]
    pub freeze_layers: usize,
    /// Whether the outputs of frozen first layers are cached.
    #[serde(default = "yes")]
    pub cache_frozen_features: bool,
    /// Factor on the learning rate from each layer to the one below it.
    #[serde(default = "layerwise_lr_decay")]
    pub layerwise_lr_decay: f64,
    /// Rank of LoRA adapters; 0: none.
    #[serde(default)]
    pub lora_r: usize,
    /// Scale of LoRA adapters, times their rank.
    #[serde(default = "lora_alpha")]
    pub lora_alpha: f64,
    /// Dropout of the inputs of LoRA adapters, in [0, 1).
    #[serde(default)]
    pub lora_dropout: f64,
    /// Linear layers with LoRA adapters, by the ends of their names; empty: those of queries and
    /// values.
    #[serde(default)]
    pub lora_target_modules: Vec<String>,
    /// Whether adapters are scaled by the square root of their rank instead of the rank.
    #[serde(default)]
    pub use_rslora: bool,
    /// Whether activations are recomputed in the backward pass instead of being kept.
    #[serde(default)]
    pub gradient_checkpointing: bool,
    /// Whether matrix products are computed in bf16; parameters, norms, softmax and losses stay
    /// f32.
    #[serde(default)]
    pub bf16: bool,
    /// The same in fp16, with dynamic loss scaling.
    #[serde(default)]
    pub fp16: bool,
    /// The model.
    pub model: ModelArguments,
}

fn yes() -> bool {
    true
}

fn layerwise_lr_decay() -> f64 {
    default_of("layerwise_lr_decay")
}

fn lora_alpha() -> f64 {
    default_of("lora_alpha")
}

/// An optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optim {
    /// Adam with decoupled weight decay, PyTorch's.
    #[serde(alias = "adamw_torch", alias = "adamw_torch_fused", alias = "adamw_hf")]
    AdamW,
    /// Stochastic gradient descent with momentum, PyTorch's.
    Sgd,
    /// Adafactor at the run's learning rate, without a first moment (Shazeer and Stern 2018), as
    /// transformers' Trainer uses it.
    Adafactor,
    /// Lion: the sign of an interpolated momentum (Chen et al. 2023).
    #[serde(rename = "lion_32bit", alias = "lion")]
    Lion,
    /// RMSprop without momentum, PyTorch's.
    RmsProp,
    /// AdamW with moments in 8 bits (Dettmers et al. 2022), bitsandbytes'.
    #[serde(rename = "adamw_8bit", alias = "adamw_bnb_8bit")]
    AdamW8Bit,
    /// AdamW without a learning-rate schedule (Defazio et al. 2024).
    #[serde(rename = "schedule_free_adamw")]
    ScheduleFreeAdamW,
}

/// When to evaluate, besides where the pruner asks for it and at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvalStrategy {
    /// Only there.
    No,
    /// After every epoch.
    Epoch,
    /// Every `eval_steps` optimiser steps.
    Steps,
}

/// When to write log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoggingStrategy {
    /// Never.
    No,
    /// After every epoch.
    Epoch,
    /// Every `logging_steps` optimiser steps.
    #[default]
    Steps,
}

/// The order in which a training run sees rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingStrategy {
    /// Shuffled in every epoch.
    #[default]
    Random,
    /// Shuffled, with rows of similar lengths together.
    GroupByLength,
    /// In the order of the data.
    Sequential,
}

impl TrainerArguments {
    /// Whether the model that is evaluated and exported is an average of the weights in training.
    #[must_use]
    pub fn averages_weights(&self) -> bool {
        self.ema_decay.is_some() || self.optim == Optim::ScheduleFreeAdamW
    }

    /// The metric that early stopping watches instead of the study's, and `reduce_lr_on_plateau`
    /// instead of `eval_loss`, and whether greater values of it are better.
    #[must_use]
    pub fn watched_metric(&self) -> Option<(String, bool)> {
        let name = self.metric_for_best_model.as_deref()?;
        let metric = format!("eval_{}", name.strip_prefix("eval_").unwrap_or(name));
        let is_greater = self.greater_is_better.unwrap_or_else(|| !is_smaller_better(&metric));
        Some((metric, is_greater))
    }

    /// Whether another run's arguments train the same parameters.
    #[must_use]
    pub fn same_trainable_parameters(&self, other: &Self) -> bool {
        let about = |one: &Self| {
            (one.freeze.clone(), one.freeze_layers, one.lora_r, one.lora_target_modules.clone())
        };
        about(self) == about(other)
    }

    /// Where the tokenizer comes from; the prepared data depends on it.
    #[must_use]
    pub fn tokenizer(&self) -> TokenizerSource {
        let (model, task) = (&self.model, self.task.line());
        match &model.pretrained {
            Some(directory) => TokenizerSource::Pretrained(directory.into()),
            None => TokenizerSource::Trained(TokenizerArguments {
                kind: model.tokenizer.unwrap_or(task.tokenizers[0]),
                vocab_size: model.vocab_size.unwrap_or_else(|| default_of("model.vocab_size")),
                lowercase: model.lowercase.unwrap_or(task.lowercase),
            }),
        }
    }
}
