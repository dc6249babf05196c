//! Trials as threads of this process, with a Rust closure as objective.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::launcher::{Job, LaunchError, Launcher};
use super::threads;
use crate::engine::{Assignment, Input};
use crate::study::decision::Decision;
use crate::study::event::AttemptEnd;
use crate::study::params::{Params, Value};
use crate::study::spec::FailureCause;
use crate::study::trial::{AttemptNumber, LARGEST_STEP, TrialNumber};

/// The result of a trial's closure if it did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialEnd {
    /// It completed.
    Finished,
    /// It returned early because [`TrialContext::report`] returned [`Continue::No`].
    Left,
}

/// Why a trial's closure failed; any error converts into it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TrialError(pub String);

/// The argument of the objective.
pub struct TrialContext {
    number: TrialNumber,
    attempt: AttemptNumber,
    params: Params,
    seed: u64,
    objectives: Vec<String>,
    inputs: Sender<Input>,
    verdicts: Receiver<Decision>,
    leave: Arc<AtomicBool>,
    decision: Option<Decision>,
    /// A reported step beyond the range of a store, which fails the trial.
    beyond: Option<u64>,
}

/// The answer to a report: whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continue {
    /// Continue.
    Yes,
    /// Return [`TrialEnd::Left`].
    No,
}

impl TrialContext {
    /// The trial's number.
    pub fn number(&self) -> TrialNumber {
        self.number
    }

    /// Its parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The trial's seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The numeric parameter `name`; the error names a missing one.
    pub fn number_of(&self, name: &str) -> Result<f64, TrialError> {
        self.params.get(name).and_then(Value::as_number).ok_or_else(|| {
            TrialError(format!("there is no numeric parameter `{name}` in this trial"))
        })
    }

    /// Reports the study's metric at a step, and waits for the decision.
    pub fn report(&mut self, step: u64, value: f64) -> Continue {
        let metric = self.objectives.first().cloned().unwrap_or_default();
        self.report_metrics(step, BTreeMap::from([(metric, value)]))
    }

    /// Reports several metrics; waits for the decision if an objective is among them. A trial
    /// that reports a step beyond [`LARGEST_STEP`] fails.
    pub fn report_metrics(&mut self, step: u64, metrics: BTreeMap<String, f64>) -> Continue {
        if step > LARGEST_STEP {
            self.beyond = Some(step);
        }
        if self.beyond.is_some() {
            return Continue::No;
        }
        let waits = self.objectives.iter().any(|metric| metrics.contains_key(metric));
        let metrics = metrics.into_iter().collect();
        let sent = self.inputs.send(Input::Report {
            trial: self.number,
            attempt: self.attempt,
            step,
            metrics,
        });
        if sent.is_ok() && waits {
            match self.verdicts.recv() {
                Ok(Decision::Continue(_)) => {}
                Ok(verdict) => self.decision = Some(verdict),
                Err(_) => self.leave.store(true, Ordering::Relaxed),
            }
        }
        if self.decision.is_some() || self.leave.load(Ordering::Relaxed) {
            Continue::No
        } else {
            Continue::Yes
        }
    }
}

/// The objective of a study as a closure.
pub type ObjectiveFn = dyn Fn(&mut TrialContext) -> Result<TrialEnd, TrialError> + Send + Sync;

/// Starts a thread for each attempt.
pub struct InlineLauncher {
    objective: Arc<ObjectiveFn>,
    objectives: Vec<String>,
}

impl InlineLauncher {
    /// A launcher of `objective`, which reports the metrics `objectives`.
    pub fn new(objective: Arc<ObjectiveFn>, objectives: Vec<String>) -> Self {
        InlineLauncher { objective, objectives }
    }
}

impl Launcher for InlineLauncher {
    fn launch(
        &mut self,
        assignment: &Assignment,
        inputs: &Sender<Input>,
    ) -> Result<Box<dyn Job>, LaunchError> {
        let (verdict_tx, verdicts) = unbounded();
        let leave = Arc::new(AtomicBool::new(false));
        let mut context = TrialContext {
            number: assignment.trial,
            attempt: assignment.attempt,
            params: assignment.params.clone(),
            seed: assignment.seed,
            objectives: self.objectives.clone(),
            inputs: inputs.clone(),
            verdicts,
            leave: Arc::clone(&leave),
            decision: None,
            beyond: None,
        };
        let objective = Arc::clone(&self.objective);
        let spawned = threads::spawn(&format!("trial {}", assignment.trial), move || {
            let result =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| objective(&mut context)));
            let (end, message) = end_of(result, &context);
            let _runner_gone = context.inputs.send(Input::Ended {
                trial: context.number,
                attempt: context.attempt,
                end,
                message,
            });
        });
        spawned.map_err(LaunchError::refused("start a thread"))?;
        Ok(Box::new(InlineJob { verdicts: verdict_tx, leave }))
    }
}

fn end_of(
    result: std::thread::Result<Result<TrialEnd, TrialError>>,
    context: &TrialContext,
) -> (AttemptEnd, Option<String>) {
    if let Some(step) = context.beyond {
        let message =
            format!("reported step {step}, which is beyond the largest one, {LARGEST_STEP}");
        return (AttemptEnd::Failed(FailureCause::Program), Some(message));
    }
    match (result, &context.decision) {
        (Ok(Ok(TrialEnd::Finished)), _) => (AttemptEnd::Completed, None),
        (Ok(Ok(TrialEnd::Left)), Some(Decision::Pause(_))) => (AttemptEnd::Paused, None),
        (Ok(Ok(TrialEnd::Left)), Some(Decision::Stop(_))) => (AttemptEnd::Stopped, None),
        (Ok(Ok(TrialEnd::Left)), _) => (AttemptEnd::Interrupted, None),
        (Ok(Err(error)), _) => (AttemptEnd::Failed(FailureCause::Program), Some(error.to_string())),
        (Err(panic), _) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            (AttemptEnd::Failed(FailureCause::Program), Some(format!("panicked: {text}")))
        }
    }
}

struct InlineJob {
    verdicts: Sender<Decision>,
    leave: Arc<AtomicBool>,
}

impl Job for InlineJob {
    fn answer(&mut self, verdict: &Decision) {
        let _trial_gone = self.verdicts.send(verdict.clone());
    }

    fn leave(&mut self) {
        self.leave.store(true, Ordering::Relaxed);
    }

    /// A thread cannot be killed: it is asked to leave, and its next report says so.
    fn kill(&mut self) {
        self.leave();
    }

    /// Answers its report: since the thread was asked to leave, the answer is to stop.
    fn give_up(&mut self) {
        let _trial_gone = self.verdicts.send(Decision::CONTINUE);
    }
}
