//! Whether a hub may still speak for its runner: a runner whose lease is over may have been
//! replaced without knowing it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The end of the runner's lease, as far as it is known; shared by all connections.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaseEnd(Arc<Mutex<Option<Instant>>>);

impl LeaseEnd {
    /// It was renewed.
    pub fn hold_until(&self, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    }

    /// Whether it is not over; leases without an end are over when their holder is dead.
    pub fn is_held(&self) -> bool {
        let end = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        end.is_none_or(|end| Instant::now() < end)
    }
}
