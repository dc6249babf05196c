//! Trials on demand: a program that runs them itself asks for one and tells how it ended; no slot is filled unasked.

use super::places::Place;
use super::{Effect, Engine, EngineError, Leaving, Phase};
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, Event};
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::state::StudyView;
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
pub enum Told {
    /// Complete, with this value. NaN is a value, and the worst.
    Value(f64),
    /// Stopped before its end.
    Pruned,
    /// Ended without a value, and why.
    Failed(String),
}

impl From<f64> for Told {
    fn from(value: f64) -> Self {
        Told::Value(value)
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
    pub fn on_demand(spec: StudySpec, view: StudyView) -> Result<Self, EngineError> {
        let engine = Engine::new(spec, view, vec![own_slot(0)])?;
        // Whoever asks decides how many trials are out, and when each is told.
        Ok(Engine { filling: Filling::OnDemand, window: None, ..engine })
    }

    /// Something to run for whoever asks: the effects hold one launch. Without one, there is nothing as long as the trials
    /// that are out are not told, or the study is paused; with [`Effect::Finish`], there is nothing at all.
    ///
    /// # Errors
    /// The sampler cannot propose a point. Nothing has changed then.
    pub fn ask(&mut self, now: Timestamp) -> Result<Vec<Effect>, String> {
        self.now = now;
        self.mind_deadlines();
        if self.phase == Phase::Searching && self.view.paused.is_none() {
            match self.next_trial()? {
                Some(trial) => {
                    let index = self.own_slot_index();
                    self.start(index, trial);
                }
                None => self.end_if_idle(),
            }
        }
        Ok(std::mem::take(&mut self.effects))
    }

    /// Takes the end of a trial that is out, or of one that waits: a program may know the value of a paused trial.
    ///
    /// # Errors
    /// There is no such trial, or it has ended.
    pub fn tell(
        &mut self,
        now: Timestamp,
        number: TrialNumber,
        told: Told,
    ) -> Result<Vec<Effect>, TellError> {
        let state = self
            .view
            .trial(number)
            .map(|trial| trial.state)
            .ok_or(TellError::Unknown { number })?;
        if state.is_finished() {
            return Err(TellError::Finished { number, state });
        }
        self.now = now;
        let said = self.close_attempt(number, &told);
        match told {
            Told::Value(value) => {
                self.finish_trial(number, TrialState::Complete, Some(value), None)
            }
            Told::Pruned => self.finish_trial(number, TrialState::Pruned, None, said),
            Told::Failed(why) => self.retry_or_fail(number, FailureCause::Program, why),
        }
        self.end_if_drained();
        Ok(std::mem::take(&mut self.effects))
    }

    /// Ends the study if there is nothing left of it: no trial is out or waits, and the budget leaves no room.
    pub fn close_if_done(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        let counts = self.view.counts;
        if self.phase == Phase::Searching
            && counts.running + counts.queued + counts.paused == 0
            && (self.exhausted || !self.may_create())
        {
            self.end_if_idle();
        }
        std::mem::take(&mut self.effects)
    }

    /// Whether nothing is started unasked.
    pub(super) fn fills_on_demand(&self) -> bool {
        self.filling == Filling::OnDemand
    }

    /// Ends the run once it drains and nothing is out any more.
    pub(super) fn end_if_drained(&mut self) {
        if matches!(self.phase, Phase::Draining(_)) {
            self.end_if_idle();
        }
    }

    /// Closes the attempt that is out, if one is; the reason of the verdict that it had.
    fn close_attempt(&mut self, number: TrialNumber, told: &Told) -> Option<String> {
        let waits_because = self.view.trial(number).and_then(|trial| trial.reason.clone());
        let Some(index) = self
            .busy
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|busy| busy.trial == number))
        else {
            return waits_because;
        };
        let busy = self.busy[index].take()?;
        let (end, reason) = match told {
            Told::Value(_) => (AttemptEnd::Completed, None),
            Told::Pruned => (AttemptEnd::Stopped, None),
            Told::Failed(why) => (AttemptEnd::Failed(FailureCause::Program), Some(why.clone())),
        };
        let device_micros = Some(self.meter.end(&self.slots[index].device, self.now));
        self.emit(Event::AttemptEnded {
            trial: number,
            attempt: busy.attempt,
            end,
            reason,
            device_micros,
            memory: None,
        });
        match busy.leaving {
            Some((
                Leaving::Stopping(reason) | Leaving::Pausing(reason) | Leaving::TimedOut(reason),
                _,
            )) => Some(reason),
            _ => None,
        }
    }

    /// A slot that nothing is on; a new one if there is none.
    fn own_slot_index(&mut self) -> usize {
        self.busy.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(own_slot(self.slots.len()));
            self.busy.push(None);
            self.places.push(Place::default());
            self.busy.len() - 1
        })
    }
}

/// The asking program runs its trials wherever it likes: the slot says no more than that it is not ours.
fn own_slot(index: usize) -> Slot {
    Slot { index, device: Device::Cpu }
}
