//! The load of a device and its trials, measured about once a second.

use serde::{Deserialize, Serialize};

use crate::study::device::Device;
use crate::study::trial::TrialNumber;

/// The load of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The device.
    pub device: Device,
    /// Its memory, in bytes.
    pub total: u64,
    /// Memory in use by any program.
    pub used: u64,
    /// Number of cores, if it is a CPU.
    pub cores: Option<u32>,
    /// Whether it takes one process at a time (a GPU in exclusive mode).
    pub exclusive: bool,
    /// The trials there.
    pub trials: Vec<TrialLoad>,
}

/// The load of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialLoad {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Its memory in bytes; 0 if the device does not report it per process.
    pub memory: u64,
    /// CPU cores in use.
    pub cores: Option<f64>,
}

#[expect(clippy::cast_precision_loss, reason = "bytes, steps and counts, compared as shares")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}
