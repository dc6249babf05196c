//! What a device and the trials on it take, as a run sees it about once a second.

use crate::study::device::Device;
use crate::study::trial::TrialNumber;

/// What a device and the trials on it take at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The device.
    pub device: Device,
    /// Its memory, in bytes.
    pub total: u64,
    /// What of it is used, by whomever.
    pub used: u64,
    /// Processor cores that there are, where trials compute on those.
    pub cores: Option<u32>,
    /// Whether it takes one process at a time (a GPU in exclusive mode).
    pub exclusive: bool,
    /// The trials there.
    pub trials: Vec<TrialLoad>,
}

/// What a trial takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialLoad {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Its memory in bytes; 0 where the device does not tell whose it is.
    pub memory: u64,
    /// Processor cores that it uses.
    pub cores: Option<f64>,
}

#[expect(clippy::cast_precision_loss, reason = "bytes, steps and counts, compared as shares")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}
