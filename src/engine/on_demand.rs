//! On-demand trials: a program that runs trials itself asks for one and tells its result; slots are
//! not filled automatically.

use super::attempt::Leaving;
use super::{Effect, Engine, EngineError, Phase};
use crate::study::counted::count;
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, AttemptEvent, Event};
use crate::study::params::Params;
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::state::{StudyState, TrialResult};
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};

/// When free slots are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    /// After every input.
    Always,
    /// When [`Engine::ask`] is called; each outstanding trial has its own slot.
    OnDemand,
}

/// How a trial ended, as reported by the program that ran it.
#[derive(Clone, Debug, PartialEq)]
pub enum TellOutcome {
    /// Complete, with this value. NaN is a value, and the worst.
    Value(f64),
    /// Complete, with these values of several objectives, in their order.
    Values(Vec<f64>),
    /// Stopped before its end.
    Pruned,
    /// Failed, and why.
    Failed(String),
}

impl From<f64> for TellOutcome {
    fn from(value: f64) -> Self {
        TellOutcome::Value(value)
    }
}

/// Why a result cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TellError {
    /// The trial was never asked for.
    #[error("there is no trial {number}: ids are those that `ask` gave")]
    Unknown {
        /// Its number.
        number: TrialNumber,
    },
    /// The trial has ended already.
    #[error("trial {number} is {} already: `ask` gives another one", state.as_str())]
    Finished {
        /// Its number.
        number: TrialNumber,
        /// Its state.
        state: TrialState,
    },
    /// The study has another number of objectives.
    #[error(
        "trial {number} has {} of the study's {}: tell one for each, in their order",
        count(*values, "value"),
        count(*objectives, "objective")
    )]
    Values {
        /// Its number.
        number: TrialNumber,
        /// How many values were told.
        values: u64,
        /// How many objectives the study has.
        objectives: u64,
    },
}

impl Engine {
    /// An engine that starts trials only on request.
    ///
    /// # Errors
    /// Those of [`Engine::new`].
    pub fn on_demand(spec: StudySpec, state: StudyState) -> Result<Self, EngineError> {
        let engine = Engine::new(spec, state, vec![Slot::on(0, Device::Cpu)])?;
        // The program decides how many trials are outstanding, when it tells each, and where it
        // runs them: these slots have no device.
        Ok(Engine { filling: Filling::OnDemand, decision_window: None, ..engine })
    }

    /// Asks for a trial, a new one of these candidates, if there are any: the effects contain one
    /// launch. Without a launch, there is no trial until outstanding ones are told or the study is
    /// resumed; with [`Effect::Finish`], the study is over.
    ///
    /// # Errors
    /// The sampler cannot propose a configuration. Nothing has changed then.
    pub fn ask(&mut self, now: Timestamp, candidates: &[Params]) -> Result<Vec<Effect>, String> {
        self.now = now;
        self.enforce_deadlines();
        if self.phase == Phase::Searching && self.state.paused.is_none() {
            self.offered = candidates.to_vec();
            let next = self.next_trial();
            self.offered.clear();
            match next? {
                Some(trial) => self.start_on_demand(trial),
                None => self.end_if_idle(),
            }
        }
        Ok(std::mem::take(&mut self.effects))
    }

    /// Starts a queued trial for a program that received it from an earlier holder of the study and
    /// still runs it. No effect if it is not queued, or the run ends.
    pub fn start_again(&mut self, now: Timestamp, number: TrialNumber) -> Vec<Effect> {
        self.now = now;
        let waits = self.state.trial(number).is_some_and(|trial| trial.state == TrialState::Queued);
        if waits && self.phase == Phase::Searching {
            self.start_on_demand(number);
        }
        std::mem::take(&mut self.effects)
    }

    fn start_on_demand(&mut self, trial: TrialNumber) {
        let free = self.slots.iter().position(|slot| slot.running.is_none());
        let index = free.unwrap_or_else(|| self.slots.add(Device::Cpu));
        self.start(index, trial);
    }

    /// Records the end of an outstanding trial, or of a paused one, whose value a program may know.
    ///
    /// # Errors
    /// There is no such trial, it has ended, or a value is missing.
    pub fn tell(
        &mut self,
        now: Timestamp,
        number: TrialNumber,
        told: TellOutcome,
    ) -> Result<Vec<Effect>, TellError> {
        let state = self.state.trial(number).ok_or(TellError::Unknown { number })?.state;
        if state.is_finished() {
            return Err(TellError::Finished { number, state });
        }
        let told = match told {
            TellOutcome::Values(values) if values.len() == 1 => TellOutcome::Value(values[0]),
            other => other,
        };
        let objectives = self.spec.objectives.len();
        let values = match &told {
            TellOutcome::Value(_) => 1,
            TellOutcome::Values(values) => values.len(),
            TellOutcome::Pruned | TellOutcome::Failed(_) => objectives,
        };
        if values != objectives {
            let (values, objectives) = (values as u64, objectives as u64);
            return Err(TellError::Values { number, values, objectives });
        }
        self.now = now;
        let leaving = self.slots.attempt_mut(number).and_then(|running| running.leaving.as_ref());
        let is_killed = matches!(leaving, Some((Leaving::Killed, _)));
        let killed = "killed on request";
        let told = if is_killed { TellOutcome::Failed(killed.to_owned()) } else { told };
        let said = self.close_attempt(number, &told);
        match told {
            // Whatever its program says: the user was told that it is killed.
            _ if is_killed => self.fail(number, killed.to_owned()),
            TellOutcome::Value(value) => {
                let result = (Some(value), Vec::new());
                self.finish_trial(number, TrialState::Complete, result, None)
            }
            TellOutcome::Values(values) => {
                self.finish_trial(number, TrialState::Complete, (None, values), None)
            }
            TellOutcome::Pruned => {
                self.finish_trial(number, TrialState::Pruned, TrialResult::default(), said)
            }
            TellOutcome::Failed(why) => self.retry_or_fail(number, FailureCause::Program, why),
        }
        self.answer_kill_requests(number);
        self.end_if_drained();
        Ok(std::mem::take(&mut self.effects))
    }

    /// Finishes the study if no trial is outstanding or queued, and the budget is exhausted.
    pub fn close_if_done(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        let counts = self.state.counts;
        if self.phase == Phase::Searching
            && counts.running + counts.queued + counts.paused == 0
            && (self.proposals.exhausted || !self.may_create())
        {
            self.end_if_idle();
        }
        std::mem::take(&mut self.effects)
    }

    /// Whether trials start only on request.
    pub(super) fn runs_on_demand(&self) -> bool {
        self.filling == Filling::OnDemand
    }

    /// Ends the run once it is draining and nothing is outstanding.
    pub(super) fn end_if_drained(&mut self) {
        if matches!(self.phase, Phase::Draining(_)) {
            self.end_if_idle();
        }
    }

    /// Ends the outstanding attempt, if any; returns the reason of its last decision.
    fn close_attempt(&mut self, number: TrialNumber, told: &TellOutcome) -> Option<String> {
        let Some(index) = self.slots.of_trial(number) else {
            return self.state.trial(number).and_then(|trial| trial.reason.clone());
        };
        let running = self.slots[index].running.take()?;
        let (end, reason) = match told {
            TellOutcome::Value(_) | TellOutcome::Values(_) => (AttemptEnd::Completed, None),
            TellOutcome::Pruned => (AttemptEnd::Stopped, None),
            TellOutcome::Failed(why) => {
                (AttemptEnd::Failed(FailureCause::Program), Some(why.clone()))
            }
        };
        let device_micros = self.budgets.meter.end(self.slots[index].devices(), self.now);
        let superseded = self.superseded_by(&running.superseding, number, Some(&end));
        self.emit(Event::of(
            number,
            AttemptEvent::Ended {
                attempt: running.attempt,
                end,
                reason,
                device_micros: Some(device_micros),
                memory: None,
                superseded: superseded.reports,
            },
        ));
        self.drop_all(superseded.checkpoints);
        match running.leaving?.0 {
            Leaving::Stopping(why) | Leaving::Pausing(why) | Leaving::TimedOut(why) => Some(why),
            _ => None,
        }
    }
}
