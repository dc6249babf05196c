//! Why a run ended without an outcome.

use std::path::PathBuf;

use crate::engine::EngineError;
use crate::storage::StorageError;

/// Why a run ended without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The store failed, another process holds the study, or the lease was taken over.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The study cannot be run.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The store's checkpoints are missing, and so are the directories that held them.
    #[error(
        "{} of study `{study}` cannot be reached, the first at `{}`: mount the disk, or move the \
         directory there, and run again; \
         nothing was changed. If the files are gone for good, `hpsearch run` with \
         `--forget-checkpoints` continues without them, \
         and trials that need one begin again",
        crate::study::counted::count(*count as u64, "checkpoint"),
        path.display()
    )]
    Unreachable {
        /// The study's name.
        study: String,
        /// Number of missing checkpoints.
        count: usize,
        /// The first.
        path: PathBuf,
    },
    /// The directory of the study's files cannot be used.
    #[error(
        "the directory `{}` cannot be used for the files of trials: check its permissions and the \
         space left, or name another with `[checkpoints] dir`",
        directory.display()
    )]
    Files {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The system refused an operation.
    #[error("cannot {doing}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}
