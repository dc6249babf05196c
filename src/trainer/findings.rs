//! Findings about the data and the model, for `hpsearch check` and the log.

use serde::{Deserialize, Serialize};

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// For information.
    Note,
    /// Likely to spoil results.
    Warning,
}

/// A finding about the data or the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// A machine-readable code: `rows`, `overlap`, `dropped_empty`, ...
    pub code: String,
    /// One sentence, with numbers.
    pub message: String,
    /// The part of the data whose rows are not all read, or not to their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
}

/// The counts of all splits: "96 training, 24 validation and 0 test".
pub(super) fn in_splits([train, validation, test]: [usize; 3]) -> String {
    format!("{train} training, {validation} validation and {test} test")
}

impl Finding {
    pub(super) fn note(code: &str, message: String) -> Self {
        Self { severity: Severity::Note, code: code.to_owned(), message, split: None }
    }

    pub(super) fn warning(code: &str, message: String) -> Self {
        Self { severity: Severity::Warning, code: code.to_owned(), message, split: None }
    }

    pub(super) fn of(self, split: &str) -> Self {
        Self { split: Some(split.to_owned()), ..self }
    }
}
