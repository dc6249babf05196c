//! Trials on demand: a program that runs them itself asks for one and tells how it ended; no slot
//! is filled unasked.

use super::attempt::Leaving;
use super::{Effect, Engine, EngineError, Phase};
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, Event, TrialEvent};
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};

/// When free slots get something to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// After every input.
    Always,
    /// When [`Engine::ask`] is called; each trial that is out has a slot of its own.
    OnDemand,
}

/// How a trial ended, in the words of the program that ran it.
#[derive(Clone, Debug, PartialEq)]
pub enum TellOutcome {
    /// Complete, with this value. NaN is a value, and the worst.
    Value(f64),
    /// Stopped before its end.
    Pruned,
    /// Ended without a value, and why.
    Failed(String),
}

impl From<f64> for TellOutcome {
    fn from(value: f64) -> Self {
        TellOutcome::Value(value)
    }
}

/// Why a trial cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TellError {
    /// It was never asked for.
    #[error("there is no trial {number}: ids are those that `ask` gave")]
    Unknown {
        /// Its number.
        number: TrialNumber,
    },
    /// It was told before.
    #[error("trial {number} is {} already: `ask` gives another one", state.as_str())]
    Finished {
        /// Its number.
        number: TrialNumber,
        /// Its state.
        state: TrialState,
    },
}

impl Engine {
    /// An engine that starts trials only when it is asked to.
    ///
    /// # Errors
    /// Those of [`Engine::new`].
    pub fn on_demand(spec: StudySpec, view: StudyState) -> Result<Self, EngineError> {
        let engine = Engine::new(spec, view, vec![Slot { index: 0, device: Device::Cpu }])?;
        // Whoever asks decides how many trials are out, when each is told, and where it runs: the
        // slots say no more than that they are not ours.
        Ok(Engine { filling: Filling::OnDemand, decision_window: None, ..engine })
    }

    /// Something to run for whoever asks: the effects hold one launch. Without one, there is
    /// nothing as long as the trials that are out are not told, or the study is paused; with
    /// [`Effect::Finish`], there is nothing at all.
    ///
    /// # Errors
    /// The sampler cannot propose a point. Nothing has changed then.
    pub fn ask(&mut self, now: Timestamp) -> Result<Vec<Effect>, String> {
        self.now = now;
        self.enforce_deadlines();
        if self.phase == Phase::Searching && self.view.paused.is_none() {
            match self.next_trial()? {
                Some(trial) => self.start_on_demand(trial),
                None => self.end_if_idle(),
            }
        }
        Ok(std::mem::take(&mut self.effects))
    }

    /// Starts a trial that waits for a program that has it out still, and was given it by an
    /// earlier holder of the study. Nothing happens if it does not wait, or the run ends.
    pub fn start_again(&mut self, now: Timestamp, number: TrialNumber) -> Vec<Effect> {
        self.now = now;
        let waits = self.view.trial(number).is_some_and(|trial| trial.state == TrialState::Queued);
        if waits && self.phase == Phase::Searching {
            self.start_on_demand(number);
        }
        std::mem::take(&mut self.effects)
    }

    fn start_on_demand(&mut self, trial: TrialNumber) {
        let free = self.slots.iter().position(|slot| slot.running.is_none());
        let index = free.unwrap_or_else(|| self.slots.add(&Device::Cpu));
        self.start(index, trial);
    }

    /// Takes the end of a trial that is out, or of one that waits: a program may know the value of
    /// a paused trial.
    ///
    /// # Errors
    /// There is no such trial, or it has ended.
    pub fn tell(
        &mut self,
        now: Timestamp,
        number: TrialNumber,
        told: TellOutcome,
    ) -> Result<Vec<Effect>, TellError> {
        let state = self.view.trial(number).ok_or(TellError::Unknown { number })?.state;
        if state.is_finished() {
            return Err(TellError::Finished { number, state });
        }
        self.now = now;
        let said = self.close_attempt(number, &told);
        match told {
            TellOutcome::Value(value) => {
                self.finish_trial(number, TrialState::Complete, Some(value), None)
            }
            TellOutcome::Pruned => self.finish_trial(number, TrialState::Pruned, None, said),
            TellOutcome::Failed(why) => self.retry_or_fail(number, FailureCause::Program, why),
        }
        self.end_if_drained();
        Ok(std::mem::take(&mut self.effects))
    }

    /// Ends the study if there is nothing left of it: no trial is out or waits, and the budget
    /// leaves no room.
    pub fn close_if_done(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        let counts = self.view.counts;
        if self.phase == Phase::Searching
            && counts.running + counts.queued + counts.paused == 0
            && (self.proposals.exhausted || !self.may_create())
        {
            self.end_if_idle();
        }
        std::mem::take(&mut self.effects)
    }

    /// Whether nothing is started unasked.
    pub(super) fn runs_on_demand(&self) -> bool {
        self.filling == Filling::OnDemand
    }

    /// Ends the run once it drains and nothing is out any more.
    pub(super) fn end_if_drained(&mut self) {
        if matches!(self.phase, Phase::Draining(_)) {
            self.end_if_idle();
        }
    }

    /// Closes the attempt that is out, if one is; the reason of the verdict that it had.
    fn close_attempt(&mut self, number: TrialNumber, told: &TellOutcome) -> Option<String> {
        let Some(index) = self.slots.of_trial(number) else {
            return self.view.trial(number).and_then(|trial| trial.reason.clone());
        };
        let running = self.slots[index].running.take()?;
        let (end, reason) = match told {
            TellOutcome::Value(_) => (AttemptEnd::Completed, None),
            TellOutcome::Pruned => (AttemptEnd::Stopped, None),
            TellOutcome::Failed(why) => {
                (AttemptEnd::Failed(FailureCause::Program), Some(why.clone()))
            }
        };
        let device_micros = self.budgets.meter.end(self.slots[index].device(), self.now);
        self.emit(Event::Trial(
            number,
            TrialEvent::AttemptEnded {
                attempt: running.attempt,
                end,
                reason,
                device_micros: Some(device_micros),
                memory: None,
            },
        ));
        match running.leaving?.0 {
            Leaving::Stopping(why) | Leaving::Pausing(why) | Leaving::TimedOut(why) => Some(why),
            _ => None,
        }
    }
}
