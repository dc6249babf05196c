//! Checks of a model before training: against the task, the data and the fine-tuning options.

use std::path::Path;

use super::fine_tuning::{FineTuning, summary};
use super::pretrained_weights::findings;
use super::task::Model;
use super::tasks::{new_model, task};
use super::weights::Weights;
use super::{Finding, PreparedData, TrainerError, model_directory, tokenizer_file};
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

/// Checks that the options of arguments fit the model and the data; a finding if some parameters
/// are frozen.
///
/// # Errors
/// Names that match nothing in the model, class weights for other labels than those of the data.
pub fn check_fine_tuning(
    arguments: &TrainerArguments,
    data: &PreparedData,
) -> Result<Option<Finding>, TrainerError> {
    let mut model = new_model(arguments.task, &arguments.model, data)?;
    let all = model.parameters().count();
    FineTuning::new(model.parameters_mut(), arguments, data)?;
    let parameters = model.parameters();
    Ok((parameters.trainable().count() < all)
        .then(|| Finding::note("trained", summary(parameters))))
}
