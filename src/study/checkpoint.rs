//! A saved state of a trial, from which it can go on or be exported.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A directory (or file) a trial registered, with the clock value it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Clock value of the state.
    pub step: u64,
    /// Where it is; absolute.
    pub path: PathBuf,
    /// What it takes on the disk, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}
