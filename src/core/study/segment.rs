//! The segments of a trial of a population: where it continued from another trial's checkpoint.

use crate::study::decision::Reason;
use crate::study::number::TrialNumber;
use crate::study::params::Params;

/// The beginning of a segment: at `start` the trial took over another's checkpoint, and continued
/// with other parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Step of the checkpoint.
    pub start: u64,
    /// The trial that saved it.
    pub from: TrialNumber,
    /// The checkpoint's digest, if known.
    pub digest: Option<String>,
    /// The trial's parameters before.
    pub replaced: Params,
    /// The reason for the copy.
    pub reason: Reason,
}
