//! Append, then act: what the engine decided is written in one transaction before anything of it is
//! done.

use crate::engine::Effect;
use crate::storage::{Lease, Storage, StorageError};
use crate::study::event::{Event, Seq};
use crate::study::series::LoggedSeries;
use crate::study::time::Timestamp;

/// Decisions that are durable.
pub struct Committed {
    /// What was written, each with its place in the journal.
    pub events: Vec<(Seq, Event)>,
    /// What is to be done now.
    pub acts: Vec<Effect>,
}

/// Writes the events among `effects`, and what trials `logged`, in one transaction.
///
/// # Errors
/// Nothing was written, and nothing may be done.
pub fn commit(
    storage: &mut dyn Storage,
    lease: &Lease,
    at: Timestamp,
    effects: Vec<Effect>,
    logged: &[LoggedSeries],
) -> Result<Committed, StorageError> {
    let (mut events, mut acts) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Append(event) => events.push(event),
            act => acts.push(act),
        }
    }
    let mut first = 0;
    if !events.is_empty() || !logged.is_empty() {
        let last = storage.append_logged(lease, at, &events, logged)?;
        first = last.0 + 1 - i64::try_from(events.len()).unwrap_or(0);
    }
    Ok(Committed { events: (first..).map(Seq).zip(events).collect(), acts })
}
