//! Why runs cannot be imported, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::arguments::data_file::{CLOSE_IT, NEVER_CLOSED};

/// Why runs cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file or directory cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error; part of the message, since a remark has no causes.
        error: io::Error,
    },
    /// A malformed file.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A quote of a table is never closed, so that the rows after it are one cell.
    #[error("{}:{line}: {NEVER_CLOSED}", path.display())]
    OpenQuote {
        /// The table.
        path: PathBuf,
        /// The line of the quote.
        line: u64,
    },
    /// There is nothing to import.
    #[error(
        "{} holds no runs of W&B, no event files of TensorBoard and no CSV table",
        path.display()
    )]
    Nothing {
        /// The path.
        path: PathBuf,
    },
    /// A server cannot be queried.
    #[error("{address}: {what}")]
    Server {
        /// Its address.
        address: String,
        /// What is wrong.
        what: String,
    },
    /// This program was built without MLflow.
    #[error("this hpsearch was built without MLflow")]
    NotBuilt,
    /// A table lacks a column that was named.
    #[error("{} has no column `{column}`; it has {known}", path.display())]
    NoColumn {
        /// The table.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its columns.
        known: String,
    },
    /// A table of runs lacks the metric's column, and none was named.
    #[error(
        "{} has no column `{column}`, and no other was named as the metric; it has {known}",
        path.display()
    )]
    NoMetric {
        /// The table.
        path: PathBuf,
        /// The metric of its study.
        column: String,
        /// Its columns.
        known: String,
    },
}

impl ImportError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> ImportError + use<> {
        let path = path.to_owned();
        move |error| ImportError::Io { path, error }
    }

    pub(super) fn malformed(path: &Path, what: impl Into<String>) -> ImportError {
        ImportError::Malformed { path: path.to_owned(), what: what.into() }
    }

    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            ImportError::Io { .. } => "name a file or directory that can be read",
            ImportError::Malformed { .. } => {
                "say what it is, as in `wandb:PATH`, `tensorboard:PATH` or `csv:PATH`, or name \
                 another one"
            }
            ImportError::OpenQuote { .. } => CLOSE_IT,
            ImportError::Nothing { .. } => {
                "name the directory that holds `run-*.wandb` or `events.out.tfevents.*` files, or \
                 a `.csv` file"
            }
            ImportError::NoColumn { .. } => "name one of its columns",
            ImportError::NoMetric { .. } => {
                "name the column of the metric with `--metric`, or of the step with `--step`"
            }
            ImportError::Server { .. } => {
                "check that the server is running, that it is an MLflow server, and that \
                 MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD or MLFLOW_TRACKING_TOKEN \
                 are set if it requires them; what was imported stays, and the next import adds \
                 the rest"
            }
            ImportError::NotBuilt => "build it with `cargo build --release --features mlflow`",
        }
    }
}
