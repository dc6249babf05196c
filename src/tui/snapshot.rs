//! What the screen shows, read from the store at one moment: the summary, the visible rows and the opened trial.

use std::time::Duration;

use super::state::{Pane, State};
use crate::query::TrialQuery;
use crate::reporters::wording::{HolderLife, StudyState, micros};
use crate::storage::{Attempt, Holder, StorageError, StorageReader, StudyId, StudySummary};
use crate::time::Timestamp;
use crate::trial::Trial;

/// The trial whose details are open.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// It.
    pub trial: Trial,
    /// Its attempts, in order.
    pub attempts: Vec<Attempt>,
    /// All its reports: metric, step and value, in that order.
    pub reports: Vec<(String, u64, f64)>,
}

/// What is known of a study at one moment, as far as the screen shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Its line of `ls`.
    pub summary: StudySummary,
    /// Its state.
    pub state: StudyState,
    /// The visible trials.
    pub trials: Vec<Trial>,
    /// The row of the first of them.
    pub offset: u64,
    /// The opened trial.
    pub detail: Option<Detail>,
    ran: Duration,
    running_since: Option<Timestamp>,
}

impl Snapshot {
    /// Reads what `state` makes visible; `state` learns how many trials there are and which are on the page.
    pub fn load(
        reader: &dyn StorageReader,
        study: StudyId,
        state: &mut State,
        life: &dyn Fn(&Holder) -> HolderLife,
    ) -> Result<Snapshot, StorageError> {
        let summary = reader.summary(study)?;
        let life = summary.held.as_ref().map_or(HolderLife::Dead, |held| life(&held.holder));
        let study_state = StudyState::new(&summary, life);
        let (ran_micros, running_since) = reader.running_since(study)?;
        state.total_is(summary.counts.total());
        let trials = reader.trials(study, &TrialQuery::all(state.order.into()).page(state.offset, state.page()))?;
        state.loaded(trials.iter().map(|trial| (trial.number, trial.state)).collect());
        let detail = match state.pane {
            Pane::Leaderboard => None,
            Pane::Detail { trial, .. } => match reader.trial(study, trial)? {
                Some(found) => Some(Detail { trial: found, attempts: reader.attempts(study, Some(trial))?, reports: reader.reports(study, trial)? }),
                None => None,
            },
        };
        Ok(Snapshot {
            summary,
            state: study_state,
            trials,
            offset: state.offset,
            detail,
            ran: micros(ran_micros),
            // A runner that died left its beginning behind; the clock stopped when it did.
            running_since: running_since.filter(|_| study_state == StudyState::Running),
        })
    }

    /// The time that runners spent on the study, up to `now`.
    pub fn elapsed(&self, now: Timestamp) -> Duration {
        self.ran + self.running_since.map_or(Duration::ZERO, |since| now.since(since))
    }
}
