//! Exit codes and the errors that lead to them: what is printed when a verb cannot do its work.

use std::error::Error;
use std::fmt;
use std::io;

use crate::config::shown::lines;
use crate::config::{self, ConfigError};
use crate::storage::StorageError;
use crate::tui::TuiError;

/// The exit codes of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// A mistake of hpsearch's own.
    Internal,
    /// Something that `doctor` looked at is broken.
    Broken,
    /// The command line or the study file is wrong.
    Usage,
    /// No trial is complete: the budget ended without one (`run`), or what was asked for is of the best trial and there is none
    /// (`best`, `export`, `importance`). Verbs that show what there is show an empty table or picture instead, which is success.
    NoCompletedTrial,
    /// The failure limit was reached.
    FailureLimit,
    /// The store is busy or cannot be reached, or the machine refuses what trials need.
    Store,
    /// The study file changed in a way that must be agreed to.
    StudyChanged,
    /// What is stored is not what is decided now.
    Differs,
    /// SIGHUP; can be resumed.
    HungUp,
    /// SIGINT; can be resumed.
    Interrupted,
    /// SIGTERM; can be resumed.
    Terminated,
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
        }
    }
}

/// Why a verb could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// Whoever read the output has gone (`| head`): that is success.
    ReaderGone,
    /// An error of one sentence, its causes, and what to do.
    Error {
        /// The exit code.
        exit: Exit,
        /// What went wrong.
        error: Box<dyn Error + Send + Sync>,
        /// What to do next, if that is not in the sentence.
        help: Option<String>,
    },
    /// A study file's problems, with their snippets.
    StudyFile(ConfigError),
}

impl Failure {
    /// Something is wrong with what was asked for.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, message.into())
    }

    /// An error that ends with `exit`.
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Failure::Error { exit, error: error.into(), help: None }
    }

    /// With what to do next.
    #[must_use]
    pub fn help(self, text: impl Into<String>) -> Self {
        match self {
            Failure::Error { exit, error, .. } => Failure::Error { exit, error, help: Some(text.into()) },
            other => other,
        }
    }

    /// Its exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::ReaderGone => Exit::Done,
            Failure::Error { exit, .. } => *exit,
            Failure::StudyFile(_) => Exit::Usage,
        }
    }
}

impl fmt::Display for Failure {
    /// What goes to standard error, line ends included.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::ReaderGone => Ok(()),
            Failure::StudyFile(error) => f.write_str(&error.render(config::Look::of_stderr())),
            Failure::Error { error, help, .. } => {
                writeln!(f, "error: {}", lines(&error.to_string()))?;
                let mut source = error.source();
                while let Some(cause) = source {
                    writeln!(f, "  caused by: {}", lines(&cause.to_string()))?;
                    source = cause.source();
                }
                help.as_ref().map_or(Ok(()), |help| writeln!(f, "help: {}", lines(help)))
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::ReaderGone;
        }
        Failure::new(Exit::Internal, error)
            .help("see that the disk has space and that the files named may be read and written, then run the command again")
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::new(Exit::Internal, error).help("run the command again with the hpsearch that wrote the data; please report it if this stays")
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
            StorageError::Exists { .. } | StorageError::NoStudy { .. } => Exit::Usage,
            StorageError::OutOfOrder { .. } => Exit::Internal,
            _ => Exit::Store,
        };
        Failure::new(exit, error)
    }
}

impl From<TuiError> for Failure {
    fn from(error: TuiError) -> Self {
        match error {
            TuiError::Storage(error) => Failure::from(error),
            TuiError::Terminal(_) => Failure::new(Exit::Internal, error),
            TuiError::Loader => Failure::new(Exit::Internal, error).help("`hpsearch trials` prints the same table without a screen"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_printed_with_its_causes_and_what_to_do() {
        let source = io::Error::other("input/output error");
        let failure = Failure::from(StorageError::Io { path: "runs/hpsearch.db".into(), source }).help("try again");
        assert_eq!(failure.exit(), Exit::Store);
        assert_eq!(
            failure.to_string(),
            "error: `runs/hpsearch.db` cannot be used for a store: choose another place with `--store PATH`\n  caused by: input/output error\nhelp: try again\n"
        );
    }

    #[test]
    fn every_error_of_a_store_an_export_or_a_runner_names_a_next_step() {
        use crate::export::ExportError;
        use crate::runner::RunnerError;
        use crate::storage::{Holder, StudyId};
        use crate::time::Timestamp;
        use crate::trial::TrialNumber;

        let (path, why) = (|| "runs/hpsearch.db".to_owned(), || "a byte is wrong".to_owned());
        let system = || io::Error::other("input/output error");
        let sqlite = || rusqlite::Error::InvalidQuery;
        let holder = Holder { pid: 7, pid_started: 1, host: "here".into(), boot_id: None };
        let holder_elsewhere = Holder { host: "there".into(), ..holder.clone() };
        let doing = "read";
        let failures: Vec<Failure> = vec![
            StorageError::Busy { study: "s".into(), holder, since: Timestamp(0) }.into(),
            StorageError::HeldElsewhere { study: "s".into(), holder: Box::new(holder_elsewhere), held: "2 h".into(), wrote: "1 h".into() }.into(),
            StorageError::Fenced { study: StudyId(1) }.into(),
            StorageError::Exists { name: "s".into() }.into(),
            StorageError::OutOfOrder { trial: TrialNumber(3), expected: TrialNumber(2) }.into(),
            StorageError::NoStudy { study: StudyId(1) }.into(),
            StorageError::NoTrial { trial: TrialNumber(3) }.into(),
            StorageError::NotAStore { path: path(), why: why() }.into(),
            StorageError::Newer { path: path(), found: 9, known: 2 }.into(),
            StorageError::NetworkFileSystem { path: path(), kind: "nfs".into() }.into(),
            StorageError::Corrupt { place: "table `event`".into(), why: why() }.into(),
            StorageError::Missing { path: path() }.into(),
            StorageError::DiskFull { path: path(), doing, source: sqlite() }.into(),
            StorageError::NotUsable { path: path(), doing, source: sqlite() }.into(),
            StorageError::Damaged { path: path(), doing, source: sqlite() }.into(),
            StorageError::Locked { path: path(), doing, seconds: 5, source: sqlite() }.into(),
            StorageError::Sqlite { path: path(), doing, source: sqlite() }.into(),
            StorageError::Io { path: path(), source: system() }.into(),
            ExportError::Damaged { path: "c".into(), why: why() }.into(),
            ExportError::Occupied { path: "c".into(), why: crate::export::Obstacle::Marker }.into(),
            ExportError::Io { doing, path: "c".into(), source: system() }.into(),
            ExportError::Format { file: "best.toml", why: why() }.into(),
            RunnerError::System { doing: "listen for signals", source: system() }.into(),
            TuiError::Terminal(system()).into(),
            TuiError::Loader.into(),
            system().into(),
        ];
        for failure in failures {
            let said = failure.to_string();
            let steps = [
                "help: ",
                "`hpsearch ",
                "`--",
                "choose another",
                "to another directory",
                "use a newer",
                "run the same command again",
                "keep a copy",
                "run the command again",
            ];
            assert!(steps.iter().any(|step| said.contains(step)), "no next step in: {said}");
            assert!(!said.contains("Timestamp("), "{said}");
        }
    }

    #[test]
    fn a_closed_pipe_is_success() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit(), failure.to_string()), (Exit::Done, String::new()));
    }
}
