//! Which requests a trial's state allows.

use serde::Serialize;

use crate::study::trial::TrialState;

/// Something that one trial can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialControl {
    /// To save, and leave its slot.
    Pause,
    /// To continue after a pause.
    Resume,
    /// To end at once, as failed.
    Kill,
    /// To start again after a failure.
    Retry,
    /// To train beyond its end.
    Continue,
}

impl TrialControl {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 5] = [Self::Pause, Self::Resume, Self::Kill, Self::Retry, Self::Continue];

    /// Whether a trial in this state can be asked for it; otherwise the request is refused.
    pub fn applies_to(self, state: TrialState) -> bool {
        match self {
            Self::Pause | Self::Resume | Self::Kill => !state.is_finished(),
            Self::Retry => state == TrialState::Failed,
            Self::Continue => matches!(state, TrialState::Complete | TrialState::Pruned),
        }
    }
}
