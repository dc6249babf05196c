//! Prepares data from files, or takes it from the cache, keyed by the digest of everything it
//! depends on.

use std::path::Path;

use super::atomic_directory::{AtomicDirectory, IfExists};
use super::prepared::PreparedData;
use super::progress::ProgressCallback;
use super::sources::Sources;
use super::tasks::task;
use super::vocabulary_files::extras_in;
use super::{Severity, TrainerError, model_checks, model_directory};
use hpsearch_core::arguments::{DataArguments, TaskKind, TokenizerSource};

/// Prepared data for these arguments, from `cache` if present. Several processes may prepare the
/// same at once. `log` receives lines.
///
/// # Errors
/// [`TrainerError::Data`] with file and line for any problem that makes the data unusable.
pub fn prepare(
    kind: TaskKind,
    data: &DataArguments,
    tokenizer: &TokenizerSource,
    cache: &Path,
    log: &mut dyn FnMut(&str),
    on_progress: ProgressCallback<'_>,
) -> Result<PreparedData, TrainerError> {
    let data = &data.of_task(kind);
    let sources = Sources::read(data, tokenizer, on_progress)?;
    let digest = sources.digest(kind)?;
    let directory = cache.join(&digest);
    if !directory.join("data.json").exists() {
        if let TokenizerSource::Pretrained(directory) = tokenizer {
            // Before tokenising texts, which may be slow.
            model_checks::check_directory(directory, kind)?;
        }
        log(&format!("preparing data from {}", data.train.display()));
        let staged = AtomicDirectory::new(&directory)?;
        let mut description = task(kind).prepare(&sources, &staged)?;
        description.digest = digest;
        if let TokenizerSource::Pretrained(directory) = tokenizer {
            // With these, trials and exports need only the weights of the model's directory.
            staged.write("config.json", &model_directory::config_bytes(directory)?)?;
            for name in extras_in(directory) {
                staged.write(name, &model_directory::file(directory, name)?)?;
            }
        }
        let text = serde_json::to_string_pretty(&description).expect("a description is plain data");
        staged.write("data.json", text.as_bytes())?;
        staged.publish(IfExists::Keep)?;
    }
    let mut prepared = PreparedData::open(&directory)?;
    if let TokenizerSource::Pretrained(directory) = tokenizer {
        prepared.add_findings(model_checks::check(directory, kind, &prepared)?);
    }
    for finding in prepared.findings() {
        let mark = if finding.severity == Severity::Warning { "warning: " } else { "" };
        log(&format!("{mark}{}", finding.message));
    }
    Ok(prepared)
}
