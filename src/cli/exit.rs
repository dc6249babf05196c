//! Exit codes, and the errors of verbs.

use std::error::Error;
use std::fmt;
use std::io;

use super::output::StdoutError;
use crate::app::{AppError, Remedy};
use crate::arguments::data_file::DataProblem;
use crate::config::shown::{lines, one_line};
use crate::config::{self, ConfigError};
use crate::export::ExportError;
use crate::runner::RunnerError;
use crate::runner::processes::process_limits;
use crate::runner::slots::SlotsError;
use crate::runner::worker_job::JobError;
use crate::storage::StorageError;
use crate::storage::disk::is_of_space;
use crate::study::suggestion::{nearest, quoted};
use crate::tracking::import::ImportError;
use crate::tracking::{SyncError, TrackingError};
use crate::tui::TuiError;

/// The exit codes, which are part of the public interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// A bug in hpsearch.
    Internal,
    /// `doctor` found something broken.
    Broken,
    /// The command line or the study file is wrong.
    Usage,
    /// There is no complete trial: the budget is exhausted without one (`run`), or the best one was
    /// asked for (`best`, `export`, `importance`). Verbs that list or draw show an empty result
    /// instead, which is success.
    NoCompletedTrial,
    /// The failure limit was reached.
    FailureLimit,
    /// The store is busy or cannot be reached, or the machine refuses what trials need.
    Store,
    /// The study file changed in a way that requires consent.
    StudyChanged,
    /// A replay differs from what is stored.
    Differs,
    /// SIGHUP; can be resumed.
    HungUp,
    /// SIGINT; can be resumed.
    Interrupted,
    /// SIGTERM; can be resumed.
    Terminated,
    /// The exit code of a tracked program.
    Program(u8),
}

impl Exit {
    /// Its number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Internal | Exit::Broken => 1,
            Exit::Usage => 2,
            Exit::NoCompletedTrial => 3,
            Exit::FailureLimit => 4,
            Exit::Store => 5,
            Exit::StudyChanged => 6,
            Exit::Differs => 7,
            Exit::HungUp => 129,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
            Exit::Program(code) => code,
        }
    }
}

/// The remedy after an internal error.
pub const AGAIN: &str = "what was written is safe: the same command continues; `hpsearch doctor` \
    checks the machine and the store if it fails again";

/// Said where relative paths lead nowhere.
pub const DIRECTORY_REMOVED: &str = "the working directory was removed";

/// Why a verb failed.
#[derive(Debug)]
pub enum Failure {
    /// The reader of the output has closed it (`| head`): that is success.
    ReaderGone,
    /// An error with its causes and a remedy.
    Error {
        /// The exit code.
        exit: Exit,
        /// What went wrong.
        error: Box<dyn Error + Send + Sync>,
        /// The remedy, if the message does not include it.
        help: Option<Remedy>,
    },
    /// A study file's problems, with their snippets.
    StudyFile(ConfigError),
    /// Several failures, none of which follows from another.
    Several(Vec<Failure>),
    /// The working directory was removed, and a relative path is needed.
    DirectoryRemoved,
}

impl Failure {
    /// An invalid request.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, message.into())
    }

    /// An error with the exit code `exit`.
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure::Error { exit, error: error.into(), help: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(self, text: impl Into<String>) -> Self {
        self.remedy(Some(Remedy::Text(text.into())))
    }

    /// Adds the available names, if there are any, and the one similar to `word`. `there`: `they
    /// report`.
    #[must_use]
    pub fn known<'a>(
        self,
        word: &str,
        there: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        if names.is_empty() {
            return self;
        }
        let near = nearest(word, names.iter().copied());
        let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        self.help(one_line(&format!("{near}{there} {}", quoted(names))))
    }

    /// All of them as one; `None` of none.
    pub fn several(mut failures: Vec<Failure>) -> Option<Self> {
        match failures.len() {
            0 | 1 => failures.pop(),
            _ => Some(Failure::Several(failures)),
        }
    }

    fn remedy(self, remedy: Option<Remedy>) -> Self {
        match self {
            Failure::Error { exit, error, help } => {
                Failure::Error { exit, error, help: remedy.or(help) }
            }
            other => other,
        }
    }

    /// Adds the store's option to suggested commands.
    #[must_use]
    pub fn in_store(self, option: &str) -> Self {
        match self {
            Failure::Error { exit, error, help: Some(help) } => {
                let help = Some(Remedy::Text(help.in_words(option)));
                Failure::Error { exit, error, help }
            }
            Failure::Several(failures) => {
                let in_store = |failure: Failure| failure.in_store(option);
                Failure::Several(failures.into_iter().map(in_store).collect())
            }
            other => other,
        }
    }

    /// What went wrong, without causes and remedy.
    pub fn what(&self) -> String {
        match self {
            Failure::ReaderGone => String::new(),
            Failure::Error { error, .. } => error.to_string(),
            Failure::StudyFile(error) => error.to_string(),
            Failure::Several(failures) => {
                let each: Vec<String> = failures.iter().map(Failure::what).collect();
                each.join("; ")
            }
            Failure::DirectoryRemoved => DIRECTORY_REMOVED.to_owned(),
        }
    }

    /// Its kind, for programs; `None`: programs do not distinguish it.
    pub fn kind(&self) -> Option<&'static str> {
        let Failure::Error { error, .. } = self else { return None };
        match error.downcast_ref() {
            Some(StorageError::Missing { .. }) => Some("no_store"),
            _ => None,
        }
    }

    /// What went wrong, with causes and remedy, in lines.
    pub fn text(&self) -> String {
        let (mut source, help) = match self {
            Failure::ReaderGone => return String::new(),
            Failure::StudyFile(error) => return error.render(config::Look::of_stderr()),
            Failure::Several(failures) => return failures.iter().map(Failure::text).collect(),
            Failure::DirectoryRemoved => {
                (None, Some("`cd` to one that exists, then run the command again".to_owned()))
            }
            Failure::Error { error, help, .. } => {
                (error.source(), help.as_ref().map(|help| help.in_words("")))
            }
        };
        let mut text = format!("{}\n", lines(&self.what()));
        while let Some(cause) = source {
            text.push_str(&format!("  caused by: {}\n", lines(&cause.to_string())));
            source = cause.source();
        }
        let help = help.map(|help| format!("help: {}\n", lines(&help)));
        text + &help.unwrap_or_default()
    }

    /// Its exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::ReaderGone => Exit::Done,
            Failure::Error { exit, .. } => *exit,
            Failure::StudyFile(_) | Failure::DirectoryRemoved => Exit::Usage,
            Failure::Several(failures) => failures.first().map_or(Exit::Usage, Failure::exit),
        }
    }
}

impl fmt::Display for Failure {
    /// The text for standard error, including line ends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Several(failures) => {
                return failures.iter().try_for_each(|failure| failure.fmt(f));
            }
            Failure::Error { .. } | Failure::DirectoryRemoved => f.write_str("error: ")?,
            Failure::ReaderGone | Failure::StudyFile(_) => {}
        }
        f.write_str(&self.text())
    }
}

/// A pipe or connection was closed that is not the output.
pub fn pipe_closed() -> Failure {
    Failure::new(Exit::Internal, "a program or server closed its connection to this one")
        .help(AGAIN)
}

/// Whether the working directory of this process is gone: no relative path leads anywhere.
pub fn is_directory_removed() -> bool {
    std::env::current_dir().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::ReaderGone;
        }
        let is_of_stdout = error.get_ref().is_some_and(|inner| inner.is::<StdoutError>());
        if is_of_space(&error) {
            let elsewhere = if is_of_stdout { ", or write to another disk" } else { "" };
            return Failure::new(Exit::Store, error).help(format!(
                "free some space (`hpsearch gc --yes` removes files that no study \
                 needs){elsewhere}, then run the same command again",
            ));
        }
        if is_of_stdout {
            return Failure::new(Exit::Usage, error)
                .help("write to a file or a program that takes it, then run the command again");
        }
        if let Some(limits) = process_limits(&error) {
            return Failure::new(Exit::Store, error).help(limits);
        }
        if error.kind() == io::ErrorKind::NotFound && is_directory_removed() {
            return Failure::DirectoryRemoved;
        }
        Failure::new(Exit::Internal, error).help(
            "make sure that the disk has space and that the files named are readable and writable, \
                then run the command again",
        )
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::new(Exit::Internal, error).help(
            "run the command again with the hpsearch that wrote the data; please report it if this \
            persists",
        )
    }
}

impl From<DataProblem> for Failure {
    fn from(problem: DataProblem) -> Self {
        Failure::usage(format!("{}: {}", problem.place(), problem.message)).help(problem.help)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::StudyFile(error)
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        let exit = match error {
            StorageError::Exists { .. }
            | StorageError::NoStudy { .. }
            | StorageError::Tracked { .. }
            | StorageError::NotSearched { .. }
            | StorageError::Searched { .. }
            | StorageError::Address { .. }
            | StorageError::WithoutPostgres { .. } => Exit::Usage,
            StorageError::OutOfOrder { .. } => Exit::Internal,
            _ => Exit::Store,
        };
        let remedy = error.remedy();
        Failure::new(exit, error).help(remedy)
    }
}

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Storage(error) => Failure::from(error),
            RunnerError::Engine(error) => Failure::new(Exit::Usage, error)
                .help("`hpsearch check FILE` validates the study file without running it"),
            RunnerError::Unreachable { .. } | RunnerError::Files { .. } => {
                Failure::new(Exit::Store, error)
            }
            RunnerError::System { ref source, .. } => match process_limits(source) {
                Some(limits) => Failure::new(Exit::Store, error).help(limits),
                None => Failure::new(Exit::Internal, error).help(AGAIN),
            },
        }
    }
}

impl From<TrackingError> for Failure {
    fn from(error: TrackingError) -> Self {
        match error {
            TrackingError::Storage(error) => Failure::from(error),
            TrackingError::Files(error) => Failure::from(error),
            error => {
                let remedy = error.remedy();
                Failure::new(Exit::Usage, error).help(remedy)
            }
        }
    }
}

impl From<SyncError> for Failure {
    fn from(error: SyncError) -> Self {
        match error {
            SyncError::Storage(error) => Failure::from(error),
            error => {
                let remedy = error.remedy();
                let is_full = matches!(&error, SyncError::Io { source, .. } if is_of_space(source));
                let exit = if is_full { Exit::Store } else { Exit::Usage };
                Failure::new(exit, error).help(remedy)
            }
        }
    }
}

impl From<SlotsError> for Failure {
    fn from(error: SlotsError) -> Self {
        Failure::new(Exit::Usage, error)
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Start { ref source, .. } => match process_limits(source) {
                Some(limits) => Failure::new(Exit::Store, error).help(limits),
                None => Failure::new(Exit::Internal, error),
            },
            JobError::Killed { .. } => {
                Failure::new(Exit::Internal, error).help("run the command again")
            }
            JobError::OutOfMemory { .. } => Failure::new(Exit::Internal, error).help(
                "free some memory, use a smaller model (`model.*`), shorter texts (`[data] \
                 max_length`) or less data, and run the command again",
            ),
            // The worker's message includes the remedy, if it has one.
            JobError::Failed(_) => Failure::new(Exit::Usage, error)
                .help("correct what it names and run the command again"),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let exit = match error {
            ExportError::Format { .. } => Exit::Internal,
            ExportError::Full { .. } => Exit::Store,
            _ => Exit::Usage,
        };
        Failure::new(exit, error)
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let remedy = error.remedy();
        Failure::new(Exit::Usage, error).help(remedy)
    }
}

impl From<AppError> for Failure {
    fn from(error: AppError) -> Self {
        let remedy = error.remedy();
        let failure = match error {
            AppError::Storage(error) => error.into(),
            AppError::StudyFile(error) => error.into(),
            AppError::Runner(error) | AppError::NotServed(error) => error.into(),
            AppError::Export(error) | AppError::ExportAtTheEnd(error) => error.into(),
            AppError::Job(error) => error.into(),
            AppError::Slots(error) => error.into(),
            AppError::Tracking(error) => error.into(),
            AppError::Sync(error) => error.into(),
            AppError::Import(error) => error.into(),
            error @ (AppError::OptunaDatabase(_)
            | AppError::Conversion(_)
            | AppError::OptunaStudies { .. }) => Failure::new(Exit::Usage, error),
            AppError::Io(error) => error.into(),
            AppError::Json(error) => error.into(),
            AppError::NoBestTrial { .. } | AppError::NoReport { .. } => {
                Failure::new(Exit::NoCompletedTrial, error)
            }
            AppError::WarmStartUnreadable { .. } => Failure::new(Exit::Store, error),
            error => Failure::new(Exit::Usage, error),
        };
        failure.remedy(remedy)
    }
}

impl From<TuiError> for Failure {
    fn from(error: TuiError) -> Self {
        match error {
            TuiError::Storage(error) => Failure::from(error),
            TuiError::Terminal(_) => Failure::new(Exit::Internal, error),
            TuiError::Loader => Failure::new(Exit::Internal, error)
                .help("`hpsearch trials` prints the same table without a screen"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn an_error_is_printed_with_its_causes_and_what_to_do() {
        let source = io::Error::other("input/output error");
        let failure = Failure::from(StorageError::Io { path: "runs/hpsearch.db".into(), source })
            .help("try again");
        assert_eq!(failure.exit(), Exit::Store);
        assert_eq!(
            failure.to_string(),
            "error: `runs/hpsearch.db` cannot be used for a store\n  caused by: input/output \
             error\nhelp: try again\n"
        );
    }

    #[test]
    fn an_error_of_a_limit_on_processes_names_it_and_has_the_code_of_the_machine() {
        let system = |errno: Errno| RunnerError::System {
            doing: "start the thread of a reporter",
            source: io::Error::from_raw_os_error(errno.raw_os_error()),
        };
        let failure = Failure::from(system(Errno::AGAIN));
        assert_eq!(failure.exit(), Exit::Store);
        assert!(failure.to_string().contains("help: processes and threads are limited"));
        assert_eq!(Failure::from(system(Errno::IO)).exit(), Exit::Internal);
    }

    /// The names of the variants of some errors.
    fn kinds_of<E: fmt::Debug>(errors: &[E]) -> std::collections::BTreeSet<String> {
        let name = |error: &E| {
            format!("{error:?}").chars().take_while(|char| char.is_alphanumeric()).collect()
        };
        errors.iter().map(name).collect()
    }

    /// The names of the variants of an enumeration, from its source.
    fn kinds_in(source: &str, name: &str) -> std::collections::BTreeSet<String> {
        let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).unwrap();
        let (body, _) = body.split_once("\n}\n").unwrap();
        let variants = body
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(|char: char| char.is_uppercase()));
        variants
            .map(|line| line.chars().take_while(|char| char.is_alphanumeric()).collect())
            .collect()
    }

    #[test]
    fn every_error_of_a_store_an_export_or_a_runner_names_a_next_step() {
        use crate::engine::EngineError;
        use crate::storage::sqlite::Rescue;
        use crate::storage::{Holder, PostgresFailure, SqliteFailure, StudyId};
        use crate::study::time::Timestamp;
        use crate::study::trial::TrialNumber;

        let (path, why) = (|| "runs/hpsearch.db".to_owned(), || "a byte is wrong".to_owned());
        let system = || io::Error::other("input/output error");
        let address = || "postgres://h/d".to_owned();
        let sqlite = || rusqlite::Error::InvalidQuery;
        let holder = Holder { pid: 7, pid_started: 1, host: "here".into(), boot_id: None };
        let holder_elsewhere = Holder { host: "there".into(), ..holder.clone() };
        let doing = "read";
        let text = |name: &str| name.to_owned();
        let stored = [
            StorageError::Busy { study: text("s"), holder: holder.clone(), since: Timestamp(0) },
            StorageError::HeldElsewhere {
                study: text("s"),
                holder: Box::new(holder_elsewhere),
                held: text("2 h"),
                wrote: text("1 h"),
            },
            StorageError::Fenced { study: StudyId(1), name: text("s") },
            StorageError::Exists { name: text("s") },
            StorageError::OutOfOrder { trial: TrialNumber(3), expected: TrialNumber(2) },
            StorageError::NoStudy { study: StudyId(1), name: None },
            StorageError::NoStudy { study: StudyId(1), name: Some(text("s")) },
            StorageError::NoTrial { trial: TrialNumber(3) },
            StorageError::NoBackup {
                path: path(),
                copy: path(),
                found: 3,
                source: Box::new(StorageError::Missing { path: path() }),
            },
            StorageError::NotAStore { path: path(), why: why() },
            StorageError::Optuna { path: path() },
            StorageError::NotText { path: path() },
            StorageError::Newer { path: path(), found: 9, known: 2 },
            StorageError::NetworkFileSystem { path: path(), kind: text("nfs") },
            StorageError::Corrupt { place: text("table `event`"), why: why() },
            StorageError::Missing { path: path() },
            StorageError::OrphanedLog { path: path(), log: path() },
            StorageError::NotAFile { path: path(), what: "a directory" },
            StorageError::Moved { path: path(), what: "was removed", log: None },
            StorageError::Moved { path: path(), what: "was truncated", log: Some(path()) },
            StorageError::Exchanged { path: path(), what: "was removed", rescue: Rescue::Saved },
            StorageError::HolderStopped { study: text("s"), holder },
            StorageError::Sqlite {
                path: path(),
                doing,
                failure: SqliteFailure::Locked,
                source: sqlite(),
            },
            StorageError::Forbidden { path: path(), file: path(), doing, source: sqlite().into() },
            StorageError::ReadAlone { path: path() },
            StorageError::Io { path: path(), source: system() },
            StorageError::Tracked { study: text("s") },
            StorageError::NotSearched { study: text("s") },
            StorageError::Searched { study: text("s") },
            StorageError::RunTracked { study: text("s"), run: TrialNumber(3) },
            StorageError::RunFenced { trial: TrialNumber(3) },
            StorageError::Postgres {
                address: address(),
                doing,
                failure: PostgresFailure::Other,
                source: system().into(),
            },
            StorageError::Address { address: address(), why: why() },
            StorageError::WithoutPostgres { address: address() },
        ];
        let exported = [
            ExportError::Damaged { path: "c".into(), why: why() },
            ExportError::Occupied { path: "c".into(), why: crate::export::Obstacle::Marker },
            ExportError::Missing {
                trial: TrialNumber(3),
                step: crate::study::step::StepUnit::Epoch.at(7),
                path: "c".into(),
                saved_by: crate::export::SavedBy::Program,
                others: vec![],
            },
            ExportError::Io { doing, path: "c".into(), source: system() },
            ExportError::Io { doing: "write", path: "c".into(), source: system() },
            ExportError::Full { path: "c".into(), source: system() },
            ExportError::Format { file: "best.toml", why: why() },
        ];
        let run = [
            RunnerError::Storage(StorageError::Missing { path: path() }),
            RunnerError::Engine(EngineError::NoSlot),
            RunnerError::Unreachable { study: text("s"), count: 2, path: "c".into() },
            RunnerError::Files { directory: "c".into(), source: system() },
            RunnerError::System { doing: "listen for signals", source: system() },
        ];
        let shown = [
            TuiError::Terminal(system()),
            TuiError::Storage(StorageError::Missing { path: path() }),
            TuiError::Loader,
        ];
        // One of each: a new variant cannot be forgotten.
        assert_eq!(
            kinds_of(&stored),
            kinds_in(include_str!("../storage/error.rs"), "StorageError")
        );
        assert_eq!(kinds_of(&exported), kinds_in(include_str!("../export.rs"), "ExportError"));
        assert_eq!(kinds_of(&run), kinds_in(include_str!("../runner/error.rs"), "RunnerError"));
        assert_eq!(kinds_of(&shown), kinds_in(include_str!("../tui.rs"), "TuiError"));
        let failures = (stored.into_iter().map(Failure::from))
            .chain(exported.into_iter().map(Failure::from))
            .chain(run.into_iter().map(Failure::from))
            .chain(shown.into_iter().map(Failure::from))
            .chain([system().into()]);
        let steps = "help: |`hpsearch |`--|choose another|to another directory|use a newer|run the \
            same command again|keep a copy|run the command again|name one with|mount the disk|lets \
            it continue|or name another";
        for failure in failures {
            let said = failure.to_string();
            assert!(steps.split('|').any(|step| said.contains(step)), "no next step in: {said}");
            assert!(!said.contains("Timestamp("), "{said}");
        }
    }

    #[test]
    fn a_closed_pipe_is_success() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit(), failure.to_string()), (Exit::Done, String::new()));
    }
}
