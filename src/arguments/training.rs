//! The resolved arguments of a training run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lines::ARGUMENTS;
use super::model::{ModelArguments, TokenizerArguments, TokenizerSource};
use super::schedule::{Schedule, ScheduleArguments, schedule_problems};
use super::shape;
use super::table::{ArgumentProblem, merge, of_other_tasks};
use super::tasks::TaskKind;
use super::tuning::{self, ClassWeights};

/// Everything a training run is told, complete: defaults are filled in, so that it can be stored and compared.
///
/// Defaults are those of `transformers.TrainingArguments` except where [`ARGUMENTS`] says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerArguments {
    /// What is learnt.
    pub task: TaskKind,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Rows per micro-batch in training.
    pub per_device_train_batch_size: usize,
    /// Rows per batch in evaluation; does not change what is learnt.
    pub per_device_eval_batch_size: usize,
    /// Passes over the training rows; may be fractional.
    pub num_train_epochs: f64,
    /// Optimiser steps in all, overriding `num_train_epochs`; -1: not set.
    pub max_steps: i64,
    /// Decoupled weight decay (AdamW) or L2 penalty (SGD); biases and norms are spared.
    pub weight_decay: f64,
    /// AdamW's β₁.
    pub adam_beta1: f64,
    /// AdamW's β₂.
    pub adam_beta2: f64,
    /// AdamW's ε.
    pub adam_epsilon: f64,
    /// Greatest global gradient norm; 0: no clipping.
    pub max_grad_norm: f64,
    /// The optimiser.
    pub optim: Optim,
    /// SGD's momentum.
    pub momentum: f64,
    /// The course of the learning rate after warm-up.
    pub lr_scheduler_type: Schedule,
    /// Settings of some courses.
    #[serde(default)]
    pub lr_scheduler_kwargs: ScheduleArguments,
    /// Steps of linear warm-up, or their share of all steps when below 1.
    pub warmup_steps: f64,
    /// Share of all steps that is warm-up, used when `warmup_steps` is 0.
    pub warmup_ratio: f64,
    /// Share of the target probability spread over all labels, in [0, 1).
    pub label_smoothing_factor: f64,
    /// Micro-batches per optimiser step.
    pub gradient_accumulation_steps: usize,
    /// When to evaluate, besides where the pruner asks for it.
    pub eval_strategy: EvalStrategy,
    /// Optimiser steps between evaluations with `eval_strategy = "steps"`; `None`: `logging_steps`.
    pub eval_steps: Option<u64>,
    /// Epochs, or optimiser steps with `eval_strategy = "steps"`, before the first evaluation that `eval_strategy` asks for.
    #[serde(default)]
    pub eval_delay: f64,
    /// Whether to evaluate before the first step; logged, not reported.
    #[serde(default)]
    pub eval_on_start: bool,
    /// Whether a trial that runs out of memory goes on with half the rows at once ([`RowsAtOnce`](super::RowsAtOnce)).
    #[serde(default = "yes")]
    pub auto_find_batch_size: bool,
    /// Evaluations in a row without a better study metric after which training ends; `None`: it does not.
    #[serde(default)]
    pub early_stopping_patience: Option<u64>,
    /// How much better the study's metric must be to count.
    #[serde(default)]
    pub early_stopping_threshold: f64,
    /// Most examples that an evaluation looks at, spread evenly; `None`: all.
    #[serde(default)]
    pub max_eval_samples: Option<usize>,
    /// When to write log lines.
    #[serde(default)]
    pub logging_strategy: LoggingStrategy,
    /// Optimiser steps between log lines with `logging_strategy = "steps"`.
    pub logging_steps: u64,
    /// Whether the first step gets a log line, too.
    #[serde(default)]
    pub logging_first_step: bool,
    /// Whether an incomplete last micro-batch of an epoch is left out.
    pub dataloader_drop_last: bool,
    /// In which order rows are seen.
    #[serde(default)]
    pub train_sampling_strategy: SamplingStrategy,
    /// Most tokens per micro-batch, rows times the longest of them.
    #[serde(default)]
    pub max_tokens_per_batch: Option<usize>,
    /// What each label's rows weigh in the training loss.
    #[serde(default)]
    pub class_weights: Option<ClassWeights>,
    /// Parts that are not trained, by their names.
    #[serde(default)]
    pub freeze: Vec<String>,
    /// How many of the first layers are not trained, the embeddings with them; 0: all are.
    #[serde(default)]
    pub freeze_layers: usize,
    /// Whether what frozen first layers make of rows is computed once.
    #[serde(default = "yes")]
    pub cache_frozen_features: bool,
    /// What the learning rate is multiplied with from each layer to the one below it.
    #[serde(default = "one")]
    pub layerwise_lr_decay: f64,
    /// The rank of low-rank adapters; 0: there are none.
    #[serde(default)]
    pub lora_r: usize,
    /// What adapters' parts are multiplied with, times their rank.
    #[serde(default = "lora_alpha")]
    pub lora_alpha: f64,
    /// Share of adapters' inputs dropped, in [0, 1).
    #[serde(default)]
    pub lora_dropout: f64,
    /// Which linear maps have adapters, by the ends of their names; none: those of queries and values.
    #[serde(default)]
    pub lora_target_modules: Vec<String>,
    /// Whether adapters' parts are divided by the root of their rank instead of the rank.
    #[serde(default)]
    pub use_rslora: bool,
    /// Whether activations within layers are computed again for the gradient instead of being kept.
    #[serde(default)]
    pub gradient_checkpointing: bool,
    /// Whether products are made of bfloat16 numbers; values, norms, softmax and losses are single floats.
    #[serde(default)]
    pub bf16: bool,
    /// The same with half floats, whose gradients are kept from vanishing by scaling the loss.
    #[serde(default)]
    pub fp16: bool,
    /// The model's shape.
    pub model: ModelArguments,
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

/// peft's.
fn lora_alpha() -> f64 {
    8.0
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
}

/// When to evaluate, besides where the pruner asks for it and at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvalStrategy {
    /// Nowhere else.
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

/// In which order a training run sees rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingStrategy {
    /// At random, anew in every epoch.
    #[default]
    Random,
    /// Rows of like lengths together, and otherwise at random.
    GroupByLength,
    /// As they stand in the data.
    Sequential,
}

impl TrainerArguments {
    /// Complete arguments from what was given, keys dotted (`model.hidden_size`) or nested.
    ///
    /// # Errors
    /// All problems at once, sorted by key: unknown keys, wrong types, values out of range, contradictions.
    pub fn resolve(values: &BTreeMap<String, Value>) -> Result<Self, Vec<ArgumentProblem>> {
        let (mut merged, mut problems) = merge(ARGUMENTS, values);
        let task = TaskKind::of(&merged.iter().map(|(name, value)| (name.clone(), value.clone())).collect());
        problems.extend(of_other_tasks(ARGUMENTS, values, task));
        if merged["model"]["pretrained"].is_null() {
            shape::fill_in(&mut merged["model"], task);
        } else {
            problems.extend(shape::start_from_pretrained(&mut merged, values));
        }
        tuning::fill_in(&mut merged, values);
        // Values that were refused are null or at their default here, so what follows looks at sound ones only.
        match serde_json::from_value::<Self>(Value::Object(merged)) {
            Ok(arguments) => {
                problems.extend(arguments.contradictions(&problems));
                problems.extend(tuning::contradictions(&arguments, values));
                if problems.is_empty() {
                    return Ok(arguments);
                }
            }
            Err(error) => problems.push(ArgumentProblem::new("task", format!("the argument table and the arguments disagree: {error}"))),
        }
        Err(problems)
    }

    /// Whether another run's arguments train the same parameters.
    #[must_use]
    pub fn trains_what(&self, other: &Self) -> bool {
        let about = |one: &Self| (one.freeze.clone(), one.freeze_layers, one.lora_r, one.lora_target_modules.clone());
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
                vocab_size: model.vocab_size.unwrap_or(8_000),
                lowercase: model.lowercase.unwrap_or(task.lowercase),
            }),
        }
    }

    /// What single values cannot show.
    fn contradictions(&self, known: &[ArgumentProblem]) -> Vec<ArgumentProblem> {
        let mut problems = Vec::new();
        let sound = |key: &str| known.iter().all(|problem| problem.key != key);
        if self.model.pretrained.is_none() {
            problems.extend(shape::contradictions(self.task, &self.model).into_iter().filter(|problem| sound(&problem.key)));
        }
        if self.label_smoothing_factor > 0.0 && !matches!(self.task, TaskKind::TextClassification | TaskKind::LanguageModeling) {
            let message = format!("`label_smoothing_factor` means nothing to `{}`", self.task.line().name);
            problems.push(ArgumentProblem::new("label_smoothing_factor", message).with_help("leave it out"));
        }
        problems.extend(schedule_problems(self));
        if self.early_stopping_patience.is_some() && self.eval_strategy == EvalStrategy::No {
            problems.push(
                ArgumentProblem::new("early_stopping_patience", "`early_stopping_patience` counts evaluations, and `eval_strategy` asks for none")
                    .with_help("set `eval_strategy = \"epoch\"`, or \"steps\" with `eval_steps`"),
            );
        }
        if self.bf16 && self.fp16 {
            problems.push(
                ArgumentProblem::new("fp16", "`bf16` and `fp16` are both on: products are made of one kind of numbers")
                    .with_help("leave `fp16` out: bf16 needs no scaling of the loss"),
            );
        }
        if self.max_steps == 0 {
            problems.push(
                ArgumentProblem::new("max_steps", "`max_steps` = 0 trains nothing")
                    .with_help("leave it out, or give -1, to train for num_train_epochs"),
            );
        }
        if self.warmup_ratio > 0.0 && self.warmup_steps > 0.0 {
            problems.push(ArgumentProblem::new("warmup_ratio", "`warmup_ratio` and `warmup_steps` both say how long warm-up is: give one of them"));
        }
        problems
    }
}
