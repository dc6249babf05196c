//! What versions 10 and 11 do otherwise than those before them.

use super::kernel::Exponential;

/// The rules of versions before 10, of that one, or of those since, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rules {
    /// Hyperparameters are fitted again when what the process keeps of the history changes, which
    /// with more than it keeps is for each proposal; and local ascents follow each other.
    Before10,
    /// With more than the process keeps, hyperparameters are fitted again when the number of trials
    /// has grown by a share; and local ascents are made together.
    Since10,
    /// Ascents are quasi-Newton's, from fewer draws.
    Since11,
}

impl Rules {
    /// Those of a version of `gp`.
    pub fn of_version(version: u32) -> Self {
        match version {
            ..10 => Rules::Before10,
            10 => Rules::Since10,
            11.. => Rules::Since11,
        }
    }

    /// How many points are drawn anywhere, and around the best data points. Most ascents reach the
    /// same optimum from other draws.
    pub fn draws(self) -> (usize, usize) {
        match self {
            Rules::Before10 | Rules::Since10 => (400, 300),
            Rules::Since11 => (300, 200),
        }
    }

    /// What computes exponentials.
    pub fn exponential(self) -> Exponential {
        match self {
            Rules::Before10 => Exponential::System,
            Rules::Since10 | Rules::Since11 => Exponential::Own,
        }
    }
}
