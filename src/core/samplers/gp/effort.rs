//! How much is computed for a proposal.

use super::kernel::Exponential;

/// How much is computed for a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As in older versions: hyperparameters are fitted again when what the process keeps of the
    /// history changes, which with more than it keeps is for each proposal; and local ascents
    /// follow each other.
    Full,
    /// With more than the process keeps, hyperparameters are fitted again when the number of trials
    /// has grown by a share; and local ascents are made together.
    Reduced,
}

impl Effort {
    /// The exponential that those versions have.
    pub fn exponential(self) -> Exponential {
        match self {
            Effort::Full => Exponential::System,
            Effort::Reduced => Exponential::Own,
        }
    }
}
