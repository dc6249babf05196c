//! Checks of a model before training: against the task, the data and the fine-tuning options.

use std::path::Path;

use serde_json::Value;

use super::fine_tuning::{FineTuning, summary};
use super::label_names;
use super::learning_rate_schedule::LearningRateSchedule;
use super::prepared::Extra;
use super::pretrained_weights::{check_finite, findings};
use super::task::Model;
use super::tasks::{new_model, task};
use super::training_plan::TrainingPlan;
use super::weights::Weights;
use super::{
    Finding, Milestones, PreparedData, Split, StepUnit, TrainerError, model_directory,
    tokenizer_file,
};
use hpsearch_core::arguments::{ModelArguments, TaskKind, TrainerArguments};

/// Checks that a directory has a model for the task, and readable weights.
pub(super) fn check_directory(directory: &Path, kind: TaskKind) -> Result<(), TrainerError> {
    let described = model_directory::config(directory)?;
    task(kind)
        .read_model(described)
        .map_err(|problem| TrainerError::config(directory, &problem))?;
    Weights::open(directory).map(|_| ())
}

/// Checks a pretrained model against the data: what would fail every trial is an error, other
/// problems are findings.
pub(super) fn check(
    directory: &Path,
    kind: TaskKind,
    data: &PreparedData,
) -> Result<Vec<Finding>, TrainerError> {
    let arguments = ModelArguments {
        pretrained: Some(directory.to_string_lossy().into_owned()),
        ..ModelArguments::default()
    };
    let model = new_model(kind, &arguments, data)?;
    check_tokenizer(directory, &*model, data)?;
    findings(directory, &*model)
}

/// Checks that every token has an embedding, and that every text fits.
fn check_tokenizer(
    directory: &Path,
    model: &dyn Model,
    data: &PreparedData,
) -> Result<(), TrainerError> {
    let (vocabulary, longest) = model.limits();
    model_directory::check_tokens(
        directory,
        &tokenizer_file::read(&data.tokenizer_file()?).map_err(TrainerError::tokenizer)?,
        vocabulary,
    )?;
    if data.max_length() > longest {
        let message = format!(
            "reads at most {longest} tokens, and `[data] max_length` is {}: set it to {longest} \
             or less",
            data.max_length()
        );
        return Err(TrainerError::model(directory, message));
    }
    if data.max_target_length() > longest {
        let message = format!(
            "writes at most {longest} tokens, and `[data] max_target_length` is {}: set it to \
             {longest} or less",
            data.max_target_length()
        );
        return Err(TrainerError::model(directory, message));
    }
    Ok(())
}

/// Checks that a model can be trained with these arguments on the data; findings about what is
/// frozen and about the learning rate.
///
/// # Errors
/// Names that match nothing in the model, class weights for other labels than those of the data, no
/// batch to train on, weights that are no numbers.
pub fn check_training(
    arguments: &TrainerArguments,
    data: &PreparedData,
) -> Result<Vec<Finding>, TrainerError> {
    let mut model = new_model(arguments.task, &arguments.model, data)?;
    if let Some(source) = &arguments.model.pretrained {
        let directory = model_directory::locate(Path::new(source), &|_, _, _| {})?;
        check_finite(&directory, &*model)?;
        let described = model_directory::config(&directory)?;
        let (pad, vocabulary) = (described.get("pad_token_id"), described.get("vocab_size"));
        if let Some((pad, vocabulary)) =
            pad.and_then(Value::as_u64).zip(vocabulary.and_then(Value::as_u64))
            && pad >= vocabulary
        {
            let message =
                format!("has `pad_token_id` = {pad} beyond its `vocab_size` = {vocabulary}");
            return Err(TrainerError::model(&directory, message));
        }
    }
    let all = model.parameters().count();
    FineTuning::new(model.parameters_mut(), arguments, data)?;
    let parameters = model.parameters();
    let mut findings = Vec::new();
    if parameters.trainable().count() < all {
        findings.push(Finding::note("trained", summary(parameters)));
    }
    findings.extend(frozen_from_scratch(arguments));
    findings.extend(label_names::findings(data.labels()));
    let examples = model.examples(data, Split::Train);
    let never = Milestones::default();
    let plan = TrainingPlan::new(arguments, examples, StepUnit::Step, never, None, 0, None)?;
    let plan = plan.with_lengths(arguments, None, || {
        (0..examples).map(|example| model.length(data, example)).collect()
    });
    let is_alone = arguments.per_device_train_batch_size == 1 || plan.has_single_rows();
    if arguments.task == TaskKind::SentenceSimilarity && is_alone && !data.has_scores() {
        return Err(TrainerError::arguments(
            "each text is compared with those of the other rows in its batch, but every batch has \
             one row: increase `per_device_train_batch_size` or `max_tokens_per_batch`",
        ));
    }
    findings.extend(plan.findings(arguments));
    findings.extend(LearningRateSchedule::new(arguments, plan.total_steps).findings());
    Ok(findings)
}

/// The finding that random weights of a model from scratch are frozen. peft has no such case: it
/// takes a model.
fn frozen_from_scratch(arguments: &TrainerArguments) -> Option<Finding> {
    if arguments.model.pretrained.is_some() {
        return None;
    }
    let (option, what) = match arguments.lora_r {
        0 if arguments.freeze_layers > 0 => ("freeze_layers", "what lies in the frozen layers"),
        0 if !arguments.freeze.is_empty() => ("freeze", "what is frozen"),
        0 => return None,
        _ => ("lora_r", "all but the adapters and the head"),
    };
    let message = format!(
        "`{option}` without `model`: {what} of a model from scratch stays at random weights; name \
         a pretrained model under `model`, or leave `{option}` out"
    );
    Some(Finding::warning("frozen_from_scratch", message))
}

/// Metrics that tell nothing about a model on the validation rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndefinedMetrics {
    /// Their names.
    pub names: &'static [&'static str],
    /// The reason, for users.
    pub why: String,
}

/// The metrics that are undefined, or the same for every model, on the validation rows that are
/// measured.
#[must_use]
pub fn undefined_metrics(
    arguments: &TrainerArguments,
    data: &PreparedData,
) -> Option<UndefinedMetrics> {
    let rows = data.split(Split::Validation);
    if rows.len() == 0 {
        return None;
    }
    let measured = rows.len().min(arguments.max_eval_samples.unwrap_or(usize::MAX));
    let undefined = |names: &'static [&'static str], why: String| UndefinedMetrics { names, why };
    let are_numbers = match arguments.task {
        TaskKind::TextRegression => true,
        TaskKind::SentenceSimilarity => data.has_scores(),
        TaskKind::TextClassification => {
            let counts = data.label_counts(Split::Validation);
            let only = counts.iter().position(|count| *count == rows.len() && *count > 0)?;
            let names: &[&str] = match (counts.len(), only) {
                (2, 0) => &["eval_matthews_correlation", "eval_f1"],
                _ => &["eval_matthews_correlation"],
            };
            let why = format!("all validation rows have the label `{}`", data.labels()[only]);
            return Some(undefined(names, why));
        }
        TaskKind::TokenClassification => {
            let tokens = data.extras(Extra::Labels, Split::Validation)?;
            let name = |id: u32| data.labels().get(usize::try_from(id).ok()?);
            let mut names = (0..tokens.len()).flat_map(|row| tokens.ids(row)).filter_map(name);
            let why = "no word of the validation rows has a label but `O`".to_owned();
            return names
                .all(|label| label == "O")
                .then(|| undefined(&["eval_f1", "eval_precision", "eval_recall"], why));
        }
        _ => return None,
    };
    if !are_numbers {
        let why = "the only validation row has no other texts to be ranked against".to_owned();
        return (measured == 1)
            .then(|| undefined(&["eval_loss", "eval_accuracy", "eval_mrr"], why));
    }
    let first = rows.number_of(0);
    let is_constant = (0..rows.len()).all(|row| rows.number_of(row).to_bits() == first.to_bits());
    (measured == 1 || is_constant).then(|| {
        let why = match measured {
            1 => "one validation row is measured".to_owned(),
            _ => format!("all {} validation rows have the number {first}", rows.len()),
        };
        undefined(&["eval_r2", "eval_pearson", "eval_spearmanr"], why)
    })
}
