//! A saved state of a trial, from which it can continue or be exported.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A directory (or file) a trial registered, with the step it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Step of the state.
    pub step: u64,
    /// Where it is; absolute.
    pub path: PathBuf,
    /// What it takes on the disk, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}
