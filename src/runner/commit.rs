//! Append, then act: the engine's events are written in one transaction before any action is
//! carried out.

use super::lease::identified_process;
use crate::engine::Effect;
use crate::storage::{Lease, Storage, StorageError};
use crate::study::event::{Event, Seq};
use crate::study::series::LoggedSeries;
use crate::study::time::Timestamp;

/// The durable result of a turn.
pub struct Committed {
    /// The events written, with their positions in the journal.
    pub events: Vec<(Seq, Event)>,
    /// The actions to carry out now.
    pub acts: Vec<Effect>,
}

/// Writes the events among `effects` and the `logged` points in one transaction.
///
/// # Errors
/// Nothing was written, and no action may be carried out.
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
        let last = match storage.append_logged(lease, at, &events, logged) {
            // It ended, and nobody took it since: this process was stopped, or the server was away.
            Err(StorageError::Fenced { .. })
                if storage.lease_time().is_some()
                    && storage.renew(lease, &identified_process()).is_ok() =>
            {
                storage.append_logged(lease, at, &events, logged)?
            }
            other => other?,
        };
        first = last.0 + 1 - i64::try_from(events.len()).unwrap_or(0);
    }
    Ok(Committed { events: (first..).map(Seq).zip(events).collect(), acts })
}
