//! What a pruner decides about a running trial, always with its reason and numbers.

use serde::{Deserialize, Serialize};

/// One sentence with its numbers, such as `rank 9 of 12 at step 300; 4 go on`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reason(pub String);

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The answer to a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Go on; a reason only where something was decided (a rung was passed).
    Continue(Option<Reason>),
    /// Save a checkpoint and leave; the trial may be resumed later.
    Pause(Reason),
    /// Leave for good: the trial is pruned.
    Stop(Reason),
}

impl Verdict {
    /// Nothing to decide at this report.
    pub const GO_ON: Verdict = Verdict::Continue(None);

    /// The word of the wire and the store: `continue`, `pause` or `stop`.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Continue(_) => "continue",
            Verdict::Pause(_) => "pause",
            Verdict::Stop(_) => "stop",
        }
    }

    /// The reason, where there is one.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Verdict::Continue(reason) => reason.as_ref(),
            Verdict::Pause(reason) | Verdict::Stop(reason) => Some(reason),
        }
    }
}
