//! A problem that makes a data file unusable, with its location and remedy.

use std::fmt;
use std::path::{Path, PathBuf};

/// A problem in a data file, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataProblem {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1, if the problem has one.
    pub line: Option<u64>,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub help: String,
}

/// A problem without its remedy: [`with_help`](DataProblemBuilder::with_help) makes it a
/// [`DataProblem`].
#[must_use]
pub struct DataProblemBuilder(DataProblem);

impl DataProblem {
    /// A problem of a file, optionally at a line.
    #[expect(clippy::new_ret_no_self, reason = "a problem is complete only with its remedy")]
    pub fn new(file: &Path, line: Option<u64>, message: impl Into<String>) -> DataProblemBuilder {
        DataProblemBuilder(Self {
            file: file.to_owned(),
            line,
            message: message.into(),
            help: String::new(),
        })
    }

    /// The location: `file:line`.
    #[must_use]
    pub fn place(&self) -> String {
        let file = self.file.display();
        self.line.map_or_else(|| file.to_string(), |line| format!("{file}:{line}"))
    }
}

impl DataProblemBuilder {
    /// The problem with its remedy.
    pub fn with_help(self, help: impl Into<String>) -> DataProblem {
        DataProblem { help: help.into(), ..self.0 }
    }
}

impl std::error::Error for DataProblem {}

impl fmt::Display for DataProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.place(), self.message, self.help)
    }
}
