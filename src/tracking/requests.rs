//! Requests to a run, served by its tracker.

use super::{Run, RunEnd, TrackingError};
use crate::storage::{Storage, StoredRequest};
use crate::study::event::{Event, StudyEvent};
use crate::study::request::{Request, RequestAnswer};
use crate::study::spec::FailureCause;

/// A request to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// To save and exit.
    Leave,
    /// To be killed.
    Kill,
}

impl Asked {
    /// Why its program is stopped.
    pub fn reason(self) -> &'static str {
        match self {
            Asked::Leave => "stopped by its user",
            Asked::Kill => "killed by its user",
        }
    }

    /// How the run ends.
    pub fn end(self) -> RunEnd {
        match self {
            Asked::Leave => RunEnd::Interrupted { by: "by its user".to_owned() },
            Asked::Kill => {
                let reason = self.reason().to_owned();
                RunEnd::Failed { cause: FailureCause::Program, reason }
            }
        }
    }
}

/// The strongest pending request to a run; `answer` gives the answers.
///
/// # Errors
/// The store failed, or another process resumed the run.
pub fn take(
    storage: &mut dyn Storage,
    run: &Run,
    answer: &dyn Fn(Asked) -> String,
) -> Result<Option<Asked>, TrackingError> {
    let waiting = waiting(storage, run)?;
    let served = |&(id, asked): &(i64, Asked)| served(id, RequestAnswer::Done(answer(asked)));
    append(storage, run, waiting.iter().map(served).collect())?;
    Ok(waiting.into_iter().map(|(_, asked)| asked).max())
}

/// Refuses requests to an attempt that ended before they were read.
///
/// # Errors
/// The store failed, or another process resumed the run.
pub fn refuse_old(storage: &mut dyn Storage, run: &Run) -> Result<(), TrackingError> {
    let why = "the run had ended: ask again if it still holds";
    let old = waiting(storage, run)?.into_iter();
    append(
        storage,
        run,
        old.map(|(id, _)| served(id, RequestAnswer::Refused(why.to_owned()))).collect(),
    )
}

fn waiting(storage: &dyn Storage, run: &Run) -> Result<Vec<(i64, Asked)>, TrackingError> {
    let of_run = |StoredRequest { id, request }| match request {
        Request::PauseTrial { trial } if trial == run.number() => Some((id, Asked::Leave)),
        Request::Kill { trial } if trial == run.number() => Some((id, Asked::Kill)),
        _ => None,
    };
    let pending = storage.pending_requests(run.study().id)?;
    Ok(pending.into_iter().filter_map(of_run).collect())
}

fn served(id: i64, answer: RequestAnswer) -> Event {
    Event::Study(StudyEvent::RequestServed { id, answer })
}

fn append(storage: &mut dyn Storage, run: &Run, events: Vec<Event>) -> Result<(), TrackingError> {
    if events.is_empty() { Ok(()) } else { run.append(storage, &events) }
}
