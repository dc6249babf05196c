//! Why a study of another tool cannot be converted.

use std::path::{Path, PathBuf};

use crate::config::shell::quoted;
use crate::config::shown::one_line;
use crate::study::field::MOST_OBJECTIVES;

/// Why a study of Optuna cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// It has too many objectives.
    #[error("study `{study}` of Optuna has {count} objectives: {MOST_OBJECTIVES} are the limit")]
    TooManyObjectives {
        /// Its name.
        study: String,
        /// Number of objectives of the study.
        count: usize,
    },
    /// A parameter cannot be converted.
    #[error("parameter `{name}` of study `{study}` of Optuna: {why}")]
    Parameter {
        /// The study.
        study: String,
        /// The parameter.
        name: String,
        /// What of the parameter cannot be expressed, in words.
        why: String,
    },
    /// Its name is invalid here.
    #[error("`{}` of Optuna cannot be a study's name here", one_line(study))]
    Name {
        /// Its name.
        study: String,
        /// The database.
        path: PathBuf,
    },
    /// The store has a study with this name from another source.
    #[error("the store has another study `{study}`, with nothing of Optuna's in it")]
    OtherStudy {
        /// Its name.
        study: String,
    },
}

impl ConversionError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        let text = match self {
            ConversionError::TooManyObjectives { .. } | ConversionError::Parameter { .. } => {
                "the study cannot be imported; others of the database can"
            }
            ConversionError::Name { study, path } => return by_another_name(path, study),
            ConversionError::OtherStudy { .. } => "name another one with --study",
        };
        text.to_owned()
    }
}

/// How a study is imported that cannot have its own name here.
pub(super) fn by_another_name(path: &Path, study: &str) -> String {
    let source = quoted(&[format!("optuna:{}#{study}", path.display())]);
    format!("`hpsearch import {} --study NAME` imports it under another one", one_line(&source))
}
