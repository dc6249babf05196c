//! A page of a study's trials: which ones, in what order.

mod filter;
mod sort;
#[cfg(test)]
mod tests;

pub use filter::Filter;
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
