//! What version 10 does otherwise than those before it.

use super::kernel::Exponential;

/// The rules of versions before 10, or of those since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Hyperparameters are fitted again when what the process keeps of the history changes, which
    /// with more than it keeps is for each proposal; and local ascents follow each other.
    Before10,
    /// With more than the process keeps, hyperparameters are fitted again when the number of trials
    /// has grown by a share; and local ascents are made together.
    Since10,
}

impl Rules {
    /// What computes exponentials.
    pub fn exponential(self) -> Exponential {
        match self {
            Rules::Before10 => Exponential::System,
            Rules::Since10 => Exponential::Own,
        }
    }
}
