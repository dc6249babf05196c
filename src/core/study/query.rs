//! Queries for a page of a study's trials: filter, order, offset and limit.

mod filter;
mod sort;
#[cfg(test)]
mod tests;

pub use filter::Filter;
pub use sort::{SortKey, SortPosition};

use crate::study::condition::{Needs, TrialField};

/// A page of a study's trials.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialQuery {
    /// The filter.
    pub filter: Filter,
    /// Their order.
    pub sort: SortKey,
    /// Reverses the order; absent values stay last.
    pub reverse: bool,
    /// Number of trials to skip.
    pub offset: u64,
    /// Maximum number of trials.
    pub limit: u64,
}

impl TrialQuery {
    /// All trials in this order.
    pub fn all(sort: SortKey) -> Self {
        TrialQuery { filter: Filter::all(), sort, reverse: false, offset: 0, limit: u64::MAX }
    }

    /// Limits it to a page.
    pub fn page(self, offset: u64, limit: u64) -> Self {
        TrialQuery { offset, limit, ..self }
    }

    /// Adds a filter.
    pub fn filtered(self, filter: Filter) -> Self {
        TrialQuery { filter, ..self }
    }

    /// What it needs to know of each trial.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        self.filter.add_needs(&mut needs);
        self.sort.add_needs(&mut needs);
        needs
    }

    /// Whether the time spent on trials decides which are listed, or in which order.
    pub fn is_about_time(&self) -> bool {
        self.needs().fields.contains(&TrialField::Seconds)
    }

    /// Sets whether the order is reversed.
    pub fn reversed(self, reverse: bool) -> Self {
        TrialQuery { reverse, ..self }
    }
}
