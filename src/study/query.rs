//! Which trials are listed, and in what order: the filter and sort language of `trials`, of the leaderboard and of the journal.
//!
//! A filter is a list of terms that must all hold:
//!
//! | term | holds for trials |
//! |---|---|
//! | `adamw`, `"out of memory"` | that hold the text in a parameter, the state, the device, a tag, a note or the reason |
//! | `state:running,queued` | in one of these states; `state:finished` means complete, pruned or failed |
//! | `device:cuda`, `reason:rank`, `note:odd`, `tag:baseline` | whose device, reason or a note holds the text; that have the tag |
//! | `optim=adamw`, `layers=2,4`, `optim:ada` | whose parameter is one of these; whose parameter holds the text |
//! | `learning_rate>1e-3`, `layers!=4` | whose parameter compares so; `model.layers` may be written `layers` where that is clear |
//! | `value<=0.5`, `last_value<1` | whose value (complete trials have one), or whose last report of the study's metric, compares so |
//! | `eval_accuracy>0.8` | whose metric compares so: the study's own as the tables show it, others as last reported |
//! | `number>=100`, `step>3`, `seconds<60`, `attempts>1`, `failures>0` | with such a number, clock value, time spent, or count |
//! | `-term`, `!term` | for which the term does not hold |
//!
//! Comparisons with what a trial does not have, and with NaN, do not hold; `value=nan` finds NaN itself. `params.` and
//! `metrics.` before a name say which is meant, and reach metrics that the study has not reported yet.

mod filter;
mod parse;
mod sort;
#[cfg(test)]
mod tests;

pub use filter::Filter;
pub(crate) use filter::Needs;
pub use parse::FilterError;
pub use sort::{Place, SortKey};

/// A page of a study's trials: which ones, in what order, from where, how many.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialQuery {
    /// Which trials.
    pub filter: Filter,
    /// Their order.
    pub sort: SortKey,
    /// The other way round; what a trial lacks stays last.
    pub reverse: bool,
    /// How many are left out at the beginning.
    pub offset: u64,
    /// At most so many.
    pub limit: u64,
}

impl TrialQuery {
    /// All trials in an order.
    pub fn all(sort: SortKey) -> Self {
        TrialQuery { filter: Filter::all(), sort, reverse: false, offset: 0, limit: u64::MAX }
    }

    /// The same with a part of the list only.
    pub fn page(self, offset: u64, limit: u64) -> Self {
        TrialQuery { offset, limit, ..self }
    }

    /// The same for the trials that `filter` lets through.
    pub fn filtered(self, filter: Filter) -> Self {
        TrialQuery { filter, ..self }
    }

    /// The same the other way round.
    pub fn reversed(self, reverse: bool) -> Self {
        TrialQuery { reverse, ..self }
    }
}
