//! Arguments that are valid individually and contradict each other.

use super::model::{
    BYTE_ENTRIES, GATED_TYPES, MEAN_POOLING_TYPES, MODERN_BERT, PHI, Pooling, TokenizerKind, is_t5,
};
use super::problem::ArgumentProblem;
use super::scheduler::{LR_END, SchedulerType};
use super::tasks::TaskKind;
use super::training::{EvalStrategy, Optim, SamplingStrategy, TrainerArguments};
use crate::study::suggestion::{nearest, quoted};

/// Collects problems, each with its remedy.
#[derive(Default)]
struct Problems(Vec<ArgumentProblem>);

impl Problems {
    fn add(&mut self, key: &str, message: impl Into<String>, help: impl Into<String>) {
        self.0.push(ArgumentProblem::new(key, message).with_help(help));
    }
}

/// All contradictions. `given` has the arguments that were not left at their default: their names
/// and the keys used for them; keys with `known` problems get no further one about the model's
/// shape.
pub(super) fn contradictions(
    arguments: &TrainerArguments,
    given: &[(&str, String)],
    known: &[ArgumentProblem],
) -> Vec<ArgumentProblem> {
    let mut problems = Problems::default();
    if arguments.model.pretrained.is_none() {
        model_shape(arguments, &mut problems);
        problems.0.retain(|problem| known.iter().all(|known| known.key != problem.key));
    }
    if arguments.label_smoothing_factor > 0.0
        && matches!(
            arguments.task,
            TaskKind::MultiLabelClassification
                | TaskKind::TextRegression
                | TaskKind::QuestionAnswering
        )
    {
        let message =
            format!("`label_smoothing_factor` does not apply to `{}`", arguments.task.line().name);
        problems.add("label_smoothing_factor", message, "leave it out");
    }
    learning_rate_schedule(arguments, &mut problems);
    schedule_free(arguments, &mut problems);
    if arguments.early_stopping_patience.is_some() && arguments.eval_strategy == EvalStrategy::No {
        let message =
            "`early_stopping_patience` counts evaluations, and `eval_strategy` asks for none";
        problems.add(
            "early_stopping_patience",
            message,
            "set `eval_strategy = \"epoch\"`, or \"steps\" with `eval_steps`",
        );
    }
    watched_metric(arguments, &mut problems);
    if arguments.bf16 && arguments.fp16 {
        let message = "`bf16` and `fp16` are both on: matrix products have one compute dtype";
        problems.add("fp16", message, "leave `fp16` out: bf16 needs no loss scaling");
    }
    if arguments.max_steps == 0 {
        problems.add(
            "max_steps",
            "`max_steps` = 0 trains nothing",
            "leave it out, or give -1, to train for num_train_epochs",
        );
    }
    if arguments.warmup_ratio > 0.0 && arguments.warmup_steps > 0.0 {
        let message =
            "`warmup_ratio` and `warmup_steps` both say how long warm-up is: give one of them";
        problems.0.push(ArgumentProblem::new("warmup_ratio", message));
    }
    fine_tuning_and_batches(arguments, given, &mut problems);
    problems.0
}

/// What early stopping and `reduce_lr_on_plateau` watch.
fn watched_metric(arguments: &TrainerArguments, problems: &mut Problems) {
    let Some((metric, _)) = arguments.watched_metric() else {
        if arguments.greater_is_better.is_some() {
            problems.add(
                "greater_is_better",
                "`greater_is_better` says nothing without `metric_for_best_model`",
                "set `[study] direction`, or give `metric_for_best_model`, too",
            );
        }
        return;
    };
    let key = "metric_for_best_model";
    let task = arguments.task;
    if arguments.early_stopping_patience.is_none()
        && arguments.lr_scheduler_type != SchedulerType::ReduceLrOnPlateau
    {
        problems.add(
            key,
            format!(
                "`{key}` is what early stopping and reduce_lr_on_plateau watch, and \
                 `early_stopping_patience` is absent"
            ),
            "set `early_stopping_patience`, or leave it out: the best checkpoint is that of \
             `[study] metric`",
        );
    } else if !task.line().metrics.contains(&&*metric) {
        let message = format!("evaluations of `{}` have no `{metric}`", task.line().name);
        let help = match nearest(&metric, task.line().metrics.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("they have {}", quoted(task.line().metrics.iter().copied())),
        };
        problems.add(key, message, help);
    } else if arguments.predict_with_generate == Some(false)
        && task.metrics_of_texts().contains(&&*metric)
    {
        let message = format!(
            "`{metric}` measures generated texts, which `predict_with_generate = false` does not \
             write"
        );
        problems.add(key, message, "leave `predict_with_generate` out, or watch `eval_loss`");
    }
}

/// The shape of a model trained from scratch.
fn model_shape(arguments: &TrainerArguments, problems: &mut Problems) {
    let (kind, model) = (arguments.task, &arguments.model);
    let (shape, task) = (model.from_scratch(), kind.line());
    if !shape.hidden_size.is_multiple_of(shape.num_heads) {
        let message = format!(
            "`model.hidden_size` = {} is not divisible by `model.num_heads` = {}",
            shape.hidden_size, shape.num_heads
        );
        let problem = ArgumentProblem::new("model.hidden_size", message)
            .with_help("each head takes an equal share of the width");
        problems.0.push(problem.with_multiple(
            ("model.hidden_size", shape.hidden_size),
            ("model.num_heads", shape.num_heads),
        ));
    }
    let model_type = model.model_type.as_deref().unwrap_or_default();
    let types = kind.model_types();
    if !types.contains(&model_type) {
        let accepted: Vec<String> = types.iter().map(|name| format!("\"{name}\"")).collect();
        let message = format!("`{}` is not supported by models of type `{model_type}`", task.name);
        problems.add("model.model_type", message, format!("it takes {}", accepted.join(", ")));
    }
    let gated = GATED_TYPES.contains(&model_type);
    if !shape.num_heads.is_multiple_of(shape.num_kv_heads) {
        let message = format!(
            "`model.num_heads` = {} is not divisible by `model.num_kv_heads` = {}",
            shape.num_heads, shape.num_kv_heads
        );
        let problem = ArgumentProblem::new("model.num_kv_heads", message)
            .with_help("each serves as many heads of queries");
        problems.0.push(problem.with_multiple(
            ("model.num_heads", shape.num_heads),
            ("model.num_kv_heads", shape.num_kv_heads),
        ));
    }
    if shape.num_kv_heads != shape.num_heads && !gated && model_type != PHI {
        let message =
            format!("models of type `{model_type}` have as many key-value heads as query heads");
        problems.add(
            "model.num_kv_heads",
            message,
            "leave it out, or set `model.model_type = \"llama\"`",
        );
    }
    let head_dim = shape.hidden_size / shape.num_heads;
    if model_type == PHI && !head_dim.is_multiple_of(4) {
        problems.add(
            "model.num_heads",
            format!(
                "rotary embeddings of half of each head need heads of 4, 8, .., not {head_dim}"
            ),
            "let `model.hidden_size` / `model.num_heads` be a multiple of 4",
        );
    } else if (gated || model_type == MODERN_BERT) && !head_dim.is_multiple_of(2) {
        problems.add(
            "model.num_heads",
            format!("rotary embeddings need an even head size, not {head_dim}"),
            "let `model.hidden_size` / `model.num_heads` be even",
        );
    }
    if gated && model.dropout.is_some_and(|dropout| dropout > 0.0) {
        let message = format!("models of type `{model_type}` have dropout in attention only");
        problems.add(
            "model.dropout",
            message,
            "give `model.attention_dropout`, or leave `model.model_type` out",
        );
    }
    if is_t5(model_type) && model.attention_dropout != model.dropout {
        let message = format!("models of type `{model_type}` have one dropout, `model.dropout`");
        problems.add("model.attention_dropout", message, "leave it out");
    }
    if model.pooling == Some(Pooling::Mean)
        && kind.is_of_encoders()
        && !MEAN_POOLING_TYPES.contains(&model_type)
    {
        let message = format!("models of type `{model_type}` classify by their first token");
        problems.add("model.pooling", message, "leave it out, or leave `model.model_type` out");
    }
    if let Some(tokenizer) =
        model.tokenizer.filter(|tokenizer| !task.tokenizers.contains(tokenizer))
    {
        let accepted: Vec<String> =
            task.tokenizers.iter().map(|tokenizer| format!("\"{}\"", tokenizer.word())).collect();
        let message =
            format!("`{}` does not support the tokenizer `{}`", task.name, tokenizer.word());
        problems.add("model.tokenizer", message, format!("it takes {}", accepted.join(", ")));
    }
    if let Some(vocab_size) = model.vocab_size.filter(|size| *size < BYTE_ENTRIES)
        && (kind == TaskKind::LanguageModeling || kind.is_sequence_to_sequence())
        && matches!(model.tokenizer, Some(TokenizerKind::Bytes | TokenizerKind::Bpe))
    {
        let message = format!("`model.vocab_size` = {vocab_size} is too small for all bytes");
        problems.add(
            "model.vocab_size",
            message,
            format!("give at least {BYTE_ENTRIES}, or `model.tokenizer = \"chars\"`"),
        );
    }
}

/// What a schedule-free optimiser does without.
fn schedule_free(arguments: &TrainerArguments, problems: &mut Problems) {
    if arguments.optim != Optim::ScheduleFreeAdamW {
        return;
    }
    let scheduler = arguments.lr_scheduler_type;
    if scheduler != SchedulerType::Constant {
        problems.add(
            "lr_scheduler_type",
            format!("`schedule_free_adamw` has no schedule, such as `{}`", scheduler.word()),
            "leave it out; `warmup_steps` is the optimiser's own warm-up",
        );
    }
    if arguments.ema_decay.is_some() {
        problems.add(
            "ema_decay",
            "`schedule_free_adamw` averages the weights itself: `ema_decay` does not apply to it",
            "leave `ema_decay` out",
        );
    }
    if arguments.adam_beta1 == 0.0 {
        problems.add(
            "adam_beta1",
            "`adam_beta1` = 0 leaves `schedule_free_adamw` no average",
            "give a number above 0, such as 0.9",
        );
    }
}

/// The learning-rate schedule and its settings.
fn learning_rate_schedule(arguments: &TrainerArguments, problems: &mut Problems) {
    let (scheduler, settings) = (arguments.lr_scheduler_type, arguments.lr_scheduler_kwargs);
    let name = scheduler.word();
    let given = serde_json::to_value(settings).unwrap_or_default();
    for key in given
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, _)| key.as_str())
    {
        if !scheduler.settings().contains(&key) {
            let help = match scheduler.settings() {
                [] => format!("leave it out; `{name}` takes no settings"),
                settings => format!("leave it out; `{name}` takes {}", settings.join(", ")),
            };
            problems.add(
                &format!("lr_scheduler_kwargs.{key}"),
                format!("`lr_scheduler_kwargs.{key}` does not apply to `{name}`"),
                help,
            );
        }
    }
    match scheduler {
        SchedulerType::CosineWithMinLr
            if settings.min_lr.is_none() && settings.min_lr_rate.is_none() =>
        {
            problems.add(
                "lr_scheduler_type",
                format!("`{name}` needs to know where it ends"),
                "give `lr_scheduler_kwargs.min_lr` or `lr_scheduler_kwargs.min_lr_rate`",
            )
        }
        SchedulerType::CosineWithMinLr
            if settings.min_lr.is_some() && settings.min_lr_rate.is_some() =>
        {
            problems.add(
                "lr_scheduler_kwargs.min_lr_rate",
                "`lr_scheduler_kwargs.min_lr` and `lr_scheduler_kwargs.min_lr_rate` both say where \
             the learning rate ends",
                "give one of them",
            )
        }
        SchedulerType::Polynomial
            if settings.lr_end.unwrap_or(LR_END) >= arguments.learning_rate =>
        {
            problems.add(
                "lr_scheduler_kwargs.lr_end",
                format!(
                    "`{name}` ends at {}, which is not below `learning_rate` = \
                {}",
                    settings.lr_end.unwrap_or(LR_END),
                    arguments.learning_rate
                ),
                "give a smaller `lr_scheduler_kwargs.lr_end`",
            )
        }
        SchedulerType::WarmupStableDecay
            if settings.num_decay_steps.is_none_or(|steps| steps == 0.0) =>
        {
            problems.add(
                "lr_scheduler_type",
                format!("`{name}` needs to know when it falls"),
                "give `lr_scheduler_kwargs.num_decay_steps`, for example 0.2 for the last fifth",
            )
        }
        SchedulerType::ReduceLrOnPlateau if arguments.eval_strategy == EvalStrategy::No => problems
            .add(
                "eval_strategy",
                format!("`{name}` depends on evaluations, and `eval_strategy` asks for none"),
                "set `eval_strategy = \"epoch\"`, or \"steps\" with `eval_steps`",
            ),
        _ => {}
    }
}

/// Class weights, adapters, and how batches are made.
fn fine_tuning_and_batches(
    arguments: &TrainerArguments,
    given: &[(&str, String)],
    problems: &mut Problems,
) {
    let key_of =
        |name: &str| given.iter().find(|(known, _)| *known == name).map(|(_, key)| key.as_str());
    if arguments.class_weights.is_some()
        && arguments.task != TaskKind::TextClassification
        && arguments.task.is_of_encoders()
    {
        let message = format!("`class_weights` does not apply to `{}`", arguments.task.line().name);
        problems.add(
            "class_weights",
            message,
            "leave it out; it weighs the rows of tasks with one label each",
        );
    }
    if key_of("lora_r").is_none() {
        for key in ["lora_alpha", "lora_dropout", "lora_target_modules", "use_rslora"]
            .into_iter()
            .filter_map(key_of)
        {
            problems.add(
                key,
                format!("`{key}` configures LoRA adapters, and `lora_r` asks for none"),
                "give `lora_r`, for example 8",
            );
        }
    }
    if arguments.max_tokens_per_batch.is_some() && arguments.dataloader_drop_last {
        let message = "`max_tokens_per_batch` leaves no incomplete micro-batch to drop";
        problems.add("dataloader_drop_last", message, "leave one of them out");
    }
    if arguments.max_tokens_per_batch.is_some()
        && arguments.train_sampling_strategy == SamplingStrategy::Sequential
    {
        let message =
            "`max_tokens_per_batch` groups rows by length, and \"sequential\" keeps their order";
        problems.add("train_sampling_strategy", message, "leave one of them out");
    }
}
