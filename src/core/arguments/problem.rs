//! Something wrong with one argument, and the remedy.

/// Something wrong with one argument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", help.as_deref().map(|help| format!(" ({help})")).unwrap_or_default())]
pub struct ArgumentProblem {
    /// The key as the user wrote it.
    pub key: String,
    /// What is wrong, in lower case, with values in backticks.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
    /// The numbers that do not divide, if that is what is wrong.
    pub multiple: Option<Multiple>,
}

/// Two arguments with their values, of which the first must be a multiple of the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiple(pub [(&'static str, usize); 2]);

impl ArgumentProblem {
    /// A problem of `key`, with no advice yet.
    pub fn new(key: &str, message: impl Into<String>) -> Self {
        Self { key: key.to_owned(), message: message.into(), help: None, multiple: None }
    }

    /// The same problem, which is that the first of two arguments is no multiple of the second.
    #[must_use]
    pub(super) fn with_multiple(
        mut self,
        of: (&'static str, usize),
        by: (&'static str, usize),
    ) -> Self {
        self.multiple = Some(Multiple([of, by]));
        self
    }

    /// The same problem with advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
