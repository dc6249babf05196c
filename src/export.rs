//! Exporting: the best trial as a directory that is complete in itself, written all or nothing.

mod bundle;
mod card;
mod custom_code;
pub mod recipe;

use std::path::{Path, PathBuf};

pub use bundle::write;
pub use recipe::Recipe;

use crate::metric::Metrics;
use crate::study::{Quantize, StudySpec};
use crate::trial::Trial;

/// What is exported.
#[derive(Debug)]
pub struct Exported<'a> {
    /// The study.
    pub spec: &'a StudySpec,
    /// The trial.
    pub trial: &'a Trial,
    /// Its checkpoint; a trial without one is exported as its configuration.
    pub checkpoint: Option<&'a Path>,
    /// Clock value of the trial's value.
    pub step: Option<u64>,
    /// Metrics at that clock value, and on the test split if there is one.
    pub metrics: Metrics,
    /// How to train the same again.
    pub recipe: Recipe,
    /// The study's best trials, the best first; none where there is no study.
    pub leaders: Vec<Trial>,
    /// What was lost where the weights are of fewer bits than they were trained in; then the checkpoint is the smaller one.
    pub quantized: Option<Quantized>,
}

/// A model before its weights were written in fewer bits; [`Exported::metrics`] has what it came to afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// The format.
    pub format: Quantize,
    /// What was measured before.
    pub before: Metrics,
    /// Bytes of the weights before and after.
    pub bytes: [u64; 2],
}

/// Why an export was not written. Nothing half-written is left.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The checkpoint's files are not those that were saved.
    #[error("the checkpoint `{}` is damaged: {why}; export another trial with `--trial N`", path.display())]
    Damaged {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The target is there and is not an earlier export.
    #[error("`{}` exists and is not an export of hpsearch: choose another directory", path.display())]
    Occupied {
        /// The target.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} `{}`: check its permissions and the space left, or export to another directory", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Something could not be put into words (TOML or JSON).
    #[error("cannot write `{file}`: {why}; please report it, and `hpsearch export-data STUDY` takes the tables meanwhile")]
    Format {
        /// The file's name.
        file: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl ExportError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| ExportError::Io { doing, path, source }
    }
}
