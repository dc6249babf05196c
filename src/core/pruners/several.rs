//! How pruners rank trials of several objectives.

use crate::study::pareto::Ties;

/// How trials of several objectives are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeveralRule {
    /// Objectives that were not reported yet are infinitely bad; ties go to the oldest trial.
    OldestFirst,
    /// Trials are ranked once all objectives are known; ties go to the sparsest part of the front.
    AllKnown,
    /// Where trials pause: all that arrive are ranked, since a program may end at the rung by
    /// itself. Objectives that are unknown are infinitely bad until they are reported; ties go to
    /// the sparsest part of the front.
    UnknownIsWorst,
}

impl SeveralRule {
    /// The rule of a pruner's version.
    pub fn of_version(version: u32, all_known_since: u32) -> Self {
        match version >= all_known_since {
            true => SeveralRule::AllKnown,
            false => SeveralRule::OldestFirst,
        }
    }

    /// What happens to ties.
    pub fn ties(self) -> Ties {
        match self {
            SeveralRule::OldestFirst => Ties::First,
            SeveralRule::AllKnown | SeveralRule::UnknownIsWorst => Ties::Sparse,
        }
    }
}
