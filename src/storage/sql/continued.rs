//! Reads what trials were before they continued past their end from their journals.

use std::path::PathBuf;

use super::column::{trial_id, values};
use super::connection::Connection;
use super::fault::Fault;
use super::journal;
use crate::storage::StudyId;
use crate::study::event::{Event, StateEvent, TrialEvent};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::trial::{EndedTrial, TrialNumber};

/// What a trial was when it continued; `None` if it does not.
pub(super) fn before(
    connection: &dyn Connection,
    study: StudyId,
    spec: &StudySpec,
    number: TrialNumber,
) -> Result<Option<Box<EndedTrial>>, Fault> {
    let journal = journal::events_of(connection, study, number)?;
    let mut state = StudyState::new(spec);
    journal.iter().for_each(|(_, at, event)| state.apply(*at, event));
    let continued = journal.iter().rfind(|(_, _, event)| {
        matches!(event, Event::Trial(_, TrialEvent::State(StateEvent::Continued { .. })))
    });
    let mut before = state.trials.pop().and_then(|trial| trial.before);
    if let (Some(before), Some((seq, ..))) = (&mut before, continued) {
        let sql = "SELECT path FROM checkpoint WHERE trial_id = ?1 AND seq < ?2 ORDER BY step, seq";
        let paths: Vec<String> = values(connection, sql, [trial_id(study, number)?, seq.0])?;
        before.checkpoints = paths.into_iter().map(PathBuf::from).collect();
    }
    Ok(before)
}
