//! How a study stands: whether its runner lives, its state, and the time that was spent on it.

use std::time::Duration;

use crate::report::wording::{HolderLife, StudyStatus, micros};
use crate::runner::{self, Liveness, liveness};
use crate::samplers::Situation;
use crate::storage::{HeldLease, StorageError, StorageReader, StudySummary};
use crate::study::event::Seq;
use crate::study::spec::StudySpec;
use crate::study::state::Counts;
use crate::study::trial::TrialNumber;

/// Whether a study's runner lives; on another machine nobody can tell, and it is taken to.
pub fn life(held: &HeldLease) -> HolderLife {
    match liveness(held) {
        Liveness::Alive | Liveness::Unknown => HolderLife::Alive,
        Liveness::Dead => HolderLife::Dead,
    }
}

/// Whether a living process runs a study, or waits for it to be resumed.
pub fn has_runner(study: &StudySummary) -> bool {
    study.held.as_ref().is_some_and(|held| life(held) == HolderLife::Alive)
}

/// A study's state.
pub fn state(study: &StudySummary) -> StudyStatus {
    StudyStatus::new(study, study.held.as_ref().map_or(HolderLife::Dead, life))
}

/// What a study's sampler decides by when it proposes trial `number`, where `counts` trials are
/// known.
pub fn situation(spec: &StudySpec, counts: Counts, number: TrialNumber) -> Situation<'_> {
    Situation {
        space: &spec.space,
        number,
        finished: counts.complete + counts.pruned + counts.failed + counts.paused,
        stopped: counts.pruned + counts.paused,
        unfinished: counts.queued + counts.running,
        budget: spec.budget.trials,
    }
}

/// The time that runners spent on a study up to now.
///
/// # Errors
/// The store failed.
pub fn elapsed(reader: &dyn StorageReader, study: &StudySummary) -> Result<Duration, StorageError> {
    let (ran, since) = reader.running_since(study.id)?;
    let Some(since) = since else { return Ok(micros(ran)) };
    // A runner that died left its beginning behind; the clock stopped with what it wrote last.
    let until = match state(study) {
        StudyStatus::Running => runner::now(),
        _ => reader.events_before(study.id, Seq(i64::MAX), 1)?.last().map_or(since, |last| last.1),
    };
    Ok(micros(ran) + until.since(since))
}
