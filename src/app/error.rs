//! Errors of use cases, with remedies.

mod remedy;

use std::io;
use std::path::PathBuf;

pub use remedy::Remedy;
use remedy::held;

use super::conversion_error::ConversionError;
use crate::config::ConfigError;
use crate::export::ExportError;
use crate::report::wording::{StudyStatus, one_line};
use crate::runner::RunnerError;
use crate::runner::slots::SlotsError;
use crate::runner::worker_job::JobError;
use crate::storage::StorageError;
use crate::storage::optuna_database::OptunaError;
use crate::study::counted::count;
use crate::study::suggestion::quoted;
use crate::study::tracked::MovedRun;
use crate::study::trial::{TrialNumber, TrialState};
use crate::tracking::import::ImportError;
use crate::tracking::{SyncError, TrackingError};

/// Where a trial that has not ended stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The trial.
    pub trial: TrialNumber,
    /// Its value and step, in words.
    pub stands: String,
}

/// The study in another store that has the name of one to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namesake {
    /// It is no copy.
    Other,
    /// It is a copy that has gone on.
    ContinuedCopy,
}

/// Why a use case failed.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The study file is invalid.
    #[error(transparent)]
    StudyFile(#[from] ConfigError),
    /// The study cannot be run.
    #[error(transparent)]
    Runner(#[from] RunnerError),
    /// The study is not running, and its requests cannot be served here.
    #[error(transparent)]
    NotServed(RunnerError),
    /// The export cannot be written.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The export at the end of a run cannot be written to the configured directory.
    #[error(transparent)]
    ExportAtTheEnd(ExportError),
    /// A worker's job failed.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A run cannot be tracked.
    #[error(transparent)]
    Tracking(#[from] TrackingError),
    /// Another tool's files cannot be written.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// Another tool's runs cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A database of Optuna cannot be read.
    #[error(transparent)]
    OptunaDatabase(#[from] OptunaError),
    /// A study of Optuna cannot be converted.
    #[error(transparent)]
    Conversion(#[from] ConversionError),
    /// A database does not have exactly one matching study.
    #[error("expected one study of that name in `{}`, found {count}", path.display())]
    OptunaStudies {
        /// The database.
        path: PathBuf,
        /// How many there are.
        count: usize,
    },
    /// There is no device to use.
    #[error(transparent)]
    Slots(#[from] SlotsError),
    /// The system refused an operation.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A worker's answer cannot be parsed.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// There is no study with this name.
    #[error("there is no study `{}`", one_line(name))]
    UnknownStudy {
        /// As written.
        name: String,
        /// The most similar name.
        near: Option<String>,
        /// All studies.
        names: Vec<String>,
    },
    /// The study of a file was never run.
    #[error("the study `{}` of `{}` is not in the store", one_line(name), file.display())]
    NeverRun {
        /// Its name.
        name: String,
        /// The file.
        file: PathBuf,
        /// All studies.
        names: Vec<String>,
    },
    /// A note cannot be written.
    #[error("the note {}", match most {
        None => "is empty".to_owned(),
        Some(most) => format!("is longer than {most} bytes"),
    })]
    UnfitNote {
        /// The longest there may be, if it is too long.
        most: Option<usize>,
    },
    /// A word cannot be a tag.
    #[error("`{}` is not a valid tag", one_line(word))]
    NoTag {
        /// As written.
        word: String,
    },
    /// A trial was to be killed that has ended.
    #[error("trial {trial} is already {}", state.as_str())]
    EndedAlready {
        /// The study's name.
        study: String,
        /// The trial.
        trial: TrialNumber,
        /// How it ended.
        state: TrialState,
    },
    /// Tracked runs were to be stopped, and none runs.
    #[error("no run of `{}` is running", one_line(study))]
    NoRunRuns {
        /// The study's name.
        study: String,
    },
    /// The store has no study.
    #[error("the store holds no study yet")]
    EmptyStore,
    /// The store has several studies, and none was named.
    #[error("the store holds several studies: name one")]
    SeveralStudies {
        /// All studies.
        names: Vec<String>,
    },
    /// The store was named instead of a study file.
    #[error("`{path}` is the store, not a study file")]
    StoreAsFile {
        /// As written.
        path: String,
    },
    /// The study has no such trial.
    #[error("there is no trial {trial} in `{study}`")]
    UnknownTrial {
        /// The study's name.
        study: String,
        /// The trial.
        trial: TrialNumber,
        /// How many trials it has.
        trials: u64,
        /// The last of them.
        last: Option<TrialNumber>,
        /// Whether it was a run that was removed.
        is_removed: bool,
        /// Where it was moved to, if it was.
        moved: Option<MovedRun>,
    },
    /// A word is the name of a study, and a trial or run of another study that was named.
    #[error("`{}` is a study, and a trial or run of `{}`", one_line(word), one_line(study))]
    StudyOrRun {
        /// The study of the trial or run.
        study: String,
        /// As it was written.
        word: String,
    },
    /// A trial needs a file of a run that was to be removed or moved.
    #[error(
        "trial {trial} of `{}` needs a checkpoint in the directory of run {run} of `{}`",
        one_line(by),
        one_line(study)
    )]
    RunNeeded {
        /// The study of the run.
        study: String,
        /// The run.
        run: TrialNumber,
        /// The study of the trial.
        by: String,
        /// The trial.
        trial: TrialNumber,
    },
    /// Trials of a search were to be moved.
    #[error("`{}` is a search: its trials are not moved", one_line(study))]
    SearchNotMoved {
        /// The study's name.
        study: String,
    },
    /// Runs were to be moved to the study that they are in.
    #[error("these runs are already in `{}`", one_line(study))]
    MovedToItself {
        /// The study's name.
        study: String,
    },
    /// Runs were to be moved to a study whose runs are compared by something else.
    #[error("the runs of `{}` are compared by {theirs}, and these by {own}", one_line(to))]
    OtherGoal {
        /// The other study's name.
        to: String,
        /// Its metric and direction, in words.
        theirs: String,
        /// Those of the study that the runs are in.
        own: String,
    },
    /// A run has files that this store may not move.
    #[error(
        "run {run} is not moved: its files in `{}` are not marked as this store's",
        one_line(&directory.display().to_string())
    )]
    ForeignFiles {
        /// The run.
        run: TrialNumber,
        /// Where its files lie.
        directory: PathBuf,
    },
    /// The directory of a moved run stays where it was.
    #[error(
        "the run was moved, but its directory `{}` not yet (to `{}`)",
        from.display(),
        to.display()
    )]
    NotMoved {
        /// The directory.
        from: PathBuf,
        /// Where it belongs.
        to: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A word is neither a trial's number nor a run's name.
    #[error("{}", no_trial_word(study, word, *has_names))]
    NoTrialWord {
        /// The study's name.
        study: String,
        /// As written.
        word: String,
        /// The most similar name.
        near: Option<String>,
        /// Whether runs of the study have names.
        has_names: bool,
    },
    /// Too many trials are named.
    #[error("more than {most} trials are named")]
    TooManyTrials {
        /// The limit.
        most: usize,
    },
    /// No process runs the study.
    #[error("`{}` is not running (it is {})", one_line(study), state.as_str())]
    NotRunning {
        /// Its name.
        study: String,
        /// Its state.
        state: StudyStatus,
    },
    /// No trial has a value.
    #[error("{}", no_value(study, [*complete, *hidden], nearest.is_some(), unreported.as_deref()))]
    NoBestTrial {
        /// The study's name.
        study: String,
        /// How many trials are complete and not hidden.
        complete: u64,
        /// How many complete trials are hidden.
        hidden: u64,
        /// The one that violates the limits least, and how.
        nearest: Option<(TrialNumber, String)>,
        /// The study's metric, if no complete trial reported it: tracked runs need not.
        unreported: Option<String>,
        /// The one that is ahead of those that have not ended, and where it stands.
        standing: Option<Box<Standing>>,
    },
    /// The trial's checkpoint was removed.
    #[error(
        "the checkpoint of trial {trial} was removed (`[checkpoints] keep` decides which are kept)"
    )]
    NoCheckpoint {
        /// The trial.
        trial: TrialNumber,
        /// Those of the best trials that have one.
        others: Vec<TrialNumber>,
    },
    /// Only the built-in trainer's weights can be quantised.
    #[error(
        "study `{study}` runs a command, and only the built-in trainer's weights can be quantised"
    )]
    NotQuantizable {
        /// The study's name.
        study: String,
    },
    /// A single model is trained by the built-in trainer only.
    #[error("this study runs a command, not the built-in trainer")]
    NotOfTheTrainer,
    /// A training never evaluated.
    #[error("{}", no_report(*between_epochs))]
    NoReport {
        /// Whether evaluations between whole epochs were only logged.
        between_epochs: bool,
    },
    /// Parameters that are not a configuration of the study.
    #[error("this is not a configuration of `{}`:\n  {}", one_line(study), problems.join("\n  "))]
    NoConfiguration {
        /// The study's name.
        study: String,
        /// What is wrong.
        problems: Vec<String>,
    },
    /// A configuration that was tried before.
    #[error("trial {trial} already has these parameters")]
    Tried {
        /// The trial that has the configuration.
        trial: TrialNumber,
    },
    /// The store of an earlier study cannot be read.
    #[error("`warm_start` \"{}\" cannot be read", one_line(entry))]
    WarmStartUnreadable {
        /// As written.
        entry: String,
        /// The error.
        #[source]
        source: Box<StorageError>,
    },
    /// A store does not have an earlier study.
    #[error(
        "`warm_start` \"{}\" names no study of its store, which {}",
        one_line(entry),
        held(entry, names)
    )]
    WarmStartUnknown {
        /// As written.
        entry: String,
        /// The studies of that store.
        names: Vec<String>,
    },
    /// An invalid name of a study.
    #[error("`{}` cannot be a study's name", one_line(name))]
    NoStudyName {
        /// As written.
        name: String,
    },
    /// The study already has this name.
    #[error("the study is already called `{}`", one_line(name))]
    SameName {
        /// Its name.
        name: String,
    },
    /// A study from which runs were removed cannot be copied: the journal lacks them.
    #[error(
        "runs of `{}` were removed or moved, so its journal cannot be written again",
        one_line(study)
    )]
    CopyOfRemoved {
        /// Its name.
        study: String,
    },
    /// A study cannot be copied to a store with another of its name.
    #[error(
        "`{}` has {} `{}`",
        one_line(&store.display().to_string()),
        match namesake {
            Namesake::Other => "another study called",
            Namesake::ContinuedCopy => "a copy that has continued by itself of",
        },
        one_line(study)
    )]
    CopyExists {
        /// Its name.
        study: String,
        /// The other store, as it was named.
        store: PathBuf,
        /// The study that is there.
        namesake: Namesake,
    },
    /// A copy differs from its original.
    #[error(
        "the copy of `{}` differs from the original in {what}, and was removed again",
        one_line(study)
    )]
    CopyDiffers {
        /// Its name.
        study: String,
        /// What differs.
        what: String,
    },
    /// No study matches any of some patterns.
    #[error("no study matches {}", one_line(&quoted(patterns.iter().map(String::as_str))))]
    NoMatch {
        /// The patterns.
        patterns: Vec<String>,
        /// All studies.
        names: Vec<String>,
    },
    /// No trial of an earlier study has a parameter of the new one.
    #[error("`warm_start` \"{}\" holds no trial that fits the space", one_line(entry))]
    WarmStartEmpty {
        /// As written.
        entry: String,
    },
}

fn no_trial_word(study: &str, word: &str, has_names: bool) -> String {
    let word = one_line(word);
    match has_names {
        true => format!("`{}` has no run `{word}`", one_line(study)),
        false => format!("`{word}` is not a trial number"),
    }
}

fn no_report(between_epochs: bool) -> &'static str {
    if between_epochs {
        "the training reported no value: it ended before a whole epoch was evaluated, and since \
         steps are epochs, other evaluations are only logged"
    } else {
        "the training reported no value"
    }
}

fn no_value(
    study: &str,
    [complete, hidden]: [u64; 2],
    breaks_limits: bool,
    unreported: Option<&str>,
) -> String {
    let study = one_line(study);
    let none = match complete {
        0 if hidden > 0 => {
            let hidden = count(hidden, "hidden one");
            return format!("no trial of `{study}` is complete yet, apart from {hidden}");
        }
        0 => return format!("no trial of `{study}` is complete yet"),
        1 => format!("the only complete trial of `{study}`"),
        complete => format!("none of the {complete} complete trials of `{study}`"),
    };
    match (breaks_limits, unreported, complete) {
        (true, _, 1) => format!("{none} violates a limit"),
        (true, ..) => format!("{none} satisfies all limits"),
        (false, Some(metric), 1) => format!("{none} did not report `{}`", one_line(metric)),
        (false, Some(metric), _) => format!("{none} reported `{}`", one_line(metric)),
        (false, None, 1) => format!("{none} has no value: it reported only NaN"),
        (false, None, _) => format!("{none} has a value: what they reported is NaN"),
    }
}
