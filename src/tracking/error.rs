//! Why a run cannot be tracked.

use std::path::PathBuf;

use super::spool::SpoolError;
use crate::report::wording::one_line;
use crate::runner::RunnerError;
use crate::storage::StorageError;
use crate::study::trial::TrialNumber;

/// Why a run cannot be tracked.
#[derive(Debug, thiserror::Error)]
pub enum TrackingError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The directory of its files cannot be taken.
    #[error(transparent)]
    Files(#[from] RunnerError),
    /// A spool cannot be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The working directory's name is not text.
    #[error(
        "the working directory `{}` is not UTF-8, and programs are given it as text",
        one_line(&directory.display().to_string())
    )]
    Directory {
        /// The directory.
        directory: PathBuf,
    },
    /// An invalid study name.
    #[error("`{}` cannot be a study's name", one_line(name))]
    StudyName {
        /// The name.
        name: String,
    },
    /// An invalid run name.
    #[error("`{}` cannot be a run's name", one_line(name))]
    RunName {
        /// The name.
        name: String,
    },
    /// An invalid tag.
    #[error("`{}` cannot be a tag", one_line(tag))]
    Tag {
        /// The word.
        tag: String,
    },
    /// The study has another metric.
    #[error("the runs of `{study}` are compared by `{metric}` ({direction}), not by `{asked}`")]
    OtherMetric {
        /// The study's name.
        study: String,
        /// Its metric.
        metric: String,
        /// Its direction.
        direction: &'static str,
        /// The requested metric and direction.
        asked: String,
    },
    /// There is no such run.
    #[error("`{study}` has no run `{}`", one_line(run))]
    NoRun {
        /// The study's name.
        study: String,
        /// The run's name or number.
        run: String,
    },
    /// There is such a run, and there must be none.
    #[error("`{study}` already has a run `{}`", one_line(run))]
    Exists {
        /// The study's name.
        study: String,
        /// The run's id or name.
        run: String,
    },
    /// There is no such study.
    #[error("there is no study `{study}` to resume a run of")]
    NoStudy {
        /// The name.
        study: String,
    },
    /// The run's process is alive.
    #[error("run {run} is being tracked by process {pid} on {}", one_line(host))]
    Running {
        /// The run.
        run: TrialNumber,
        /// The process.
        pid: u32,
        /// Its host.
        host: String,
    },
}

impl TrackingError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            TrackingError::Storage(error) | TrackingError::Files(RunnerError::Storage(error)) => {
                error.remedy()
            }
            TrackingError::Files(_) => {
                "check the permissions of that directory and the space left".to_owned()
            }
            TrackingError::Spool(_) => {
                "a spool is the file that the Python client writes in `spool` beside the store"
                    .to_owned()
            }
            TrackingError::Directory { .. } => {
                "rename it, or start the program from another directory".to_owned()
            }
            TrackingError::StudyName { .. } => crate::config::STUDY_NAME_RULE.to_owned(),
            TrackingError::RunName { .. } => crate::study::tracked::RUN_NAME_RULE.to_owned(),
            TrackingError::Tag { .. } => {
                format!("a tag is one word: {}", crate::study::tag::TAG_RULE)
            }
            TrackingError::OtherMetric { .. } => {
                "leave `--metric` and `--direction` out, or name another study with `--study NAME`"
                    .to_owned()
            }
            TrackingError::NoRun { study, .. } => {
                format!("`hpsearch trials {study}` lists those that it has")
            }
            TrackingError::Exists { .. } => {
                "choose another `id` or `name`, or continue that run: `resume=\"allow\"`".to_owned()
            }
            TrackingError::NoStudy { .. } => {
                "`hpsearch ls` lists those that are there: name one of them as the study".to_owned()
            }
            TrackingError::Running { pid, .. } => {
                format!("wait until it has ended, or end it with `kill {pid}`")
            }
        }
    }
}
