//! A pruner's decision about a running trial, with its reason.

mod reason;
mod wording;

use serde::{Deserialize, Serialize};

pub use reason::{Bound, Comparison, CutOff, Means, PauseCost, RankedForecast, Reason};

/// The answer to a report, without its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Continue.
    Continue,
    /// Save a checkpoint and exit for now.
    Pause,
    /// Exit permanently.
    Stop,
}

/// The answer to a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Continue; with a reason only if there was a decision (a rung was passed).
    Continue(Option<Reason>),
    /// Save a checkpoint and exit; the trial may be resumed later.
    Pause(Reason),
    /// Exit permanently: the trial is pruned, or complete if it no longer improves.
    Stop(Reason),
}

impl Decision {
    /// Nothing to decide at this report.
    pub const CONTINUE: Decision = Decision::Continue(None);

    /// Continue after a decision.
    pub fn continues(reason: Reason) -> Self {
        Decision::Continue(Some(reason))
    }

    /// The word in the protocol and the store: `continue`, `pause` or `stop`.
    pub fn word(&self) -> &'static str {
        match self {
            Decision::Continue(_) => "continue",
            Decision::Pause(_) => "pause",
            Decision::Stop(_) => "stop",
        }
    }

    /// Whether the trial is complete with this: its reports no longer improve.
    pub fn completes(&self) -> bool {
        matches!(self, Decision::Stop(Reason::Plateau { .. }))
    }

    /// The reason, if any.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Decision::Continue(reason) => reason.as_ref(),
            Decision::Pause(reason) | Decision::Stop(reason) => Some(reason),
        }
    }

    /// Where the trial pauses from now on, if the decision moves that: `Some(None)` is nowhere.
    pub fn moved_pause(&self) -> Option<Option<u64>> {
        match self {
            Decision::Continue(Some(Reason::NotPaused { until, .. })) => {
                Some(until.map(|until| until.step))
            }
            Decision::Continue(_) | Decision::Pause(_) | Decision::Stop(_) => None,
        }
    }

    /// The word and its reason: `stop: rank 9 of 12 at step 300; 4 continue`.
    pub fn in_words(&self) -> String {
        self.reason()
            .map_or_else(|| self.word().to_owned(), |reason| format!("{}: {reason}", self.word()))
    }

    /// Whether it equals a stored decision. Sentences of older versions have no numbers to compare.
    pub fn repeats(&self, stored: &Decision) -> bool {
        self.word() == stored.word()
            && match (self.reason(), stored.reason()) {
                (Some(_), Some(Reason::Recorded(_))) => true,
                (now, then) => now == then,
            }
    }
}

#[cfg(test)]
mod tests;
