//! A saved state of a trial, from which it can continue or be exported.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A directory (or file) that a trial registered, and its step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Step of the state.
    pub step: u64,
    /// Its absolute path.
    pub path: PathBuf,
    /// Its size on disk, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The digest of its content, if it was computed: of small files, and for pruners that copy
    /// checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}
