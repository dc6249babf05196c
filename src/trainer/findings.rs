//! What preparing the data noticed, for `hpsearch check` and the log.

use serde::{Deserialize, Serialize};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Likely to spoil results.
    Warning,
}

/// One thing noticed while preparing the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// A word for programs: `rows`, `overlap`, `dropped_empty`, ...
    pub code: String,
    /// One sentence with its numbers.
    pub message: String,
}

impl Finding {
    pub(super) fn note(code: &str, message: String) -> Self {
        Self { severity: Severity::Note, code: code.to_owned(), message }
    }

    pub(super) fn warning(code: &str, message: String) -> Self {
        Self { severity: Severity::Warning, code: code.to_owned(), message }
    }
}
