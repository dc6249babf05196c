//! Ask and tell: the program asks for trials, runs them itself, and tells their results, on any
//! thread and in any order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Finished, StudyError};
use crate::app::held_study::{Growth, HeldError, HeldStudy, LOOK};
use crate::engine::{Assignment, Input, RunOutcome, TellError, TellOutcome};
use crate::runner::inline::{Continue, TrialError};
use crate::storage::{Storage, StoredStudy};
use crate::study::decision::Decision;
use crate::study::event::AttemptEnd;
use crate::study::params::{Params, Value};
use crate::study::trial::{AttemptNumber, LARGEST_STEP, Trial, TrialNumber};

/// A study whose trials the program runs itself, made by [`Study::open`](super::Study::open).
///
/// Clones refer to the same study: pass one to each thread. The study is held exclusively until the
/// last clone and the last trial are dropped. Every call is durable before it returns, so that a
/// program that dies can continue: outstanding trials are handed out again.
///
/// ```
/// use hpsearch::{Continue, Study};
/// use hpsearch::study::spec::AlgorithmSpec;
///
/// let study = Study::minimize("decay", "loss")
///     .float("x", -5.0, 5.0)
///     .trials(20)
///     .pruner(AlgorithmSpec::named("asha").with("max_resource", 9))
///     .open()?;
/// 'trials: while let Some(mut trial) = study.ask()? {
///     let x = trial.number_of("x")?;
///     let mut loss = f64::INFINITY;
///     for step in 1..=9 {
///         loss = (x - 1.0).powi(2) + 1.0 / step as f64;
///         if trial.report(step, loss)? == Continue::No {
///             // Dropping the trial leaves it paused or pruned, as the answer was.
///             continue 'trials;
///         }
///     }
///     study.tell(trial, loss)?;
/// }
/// let finished = study.finish()?;
/// assert!(finished.best().is_some() && finished.state.counts.pruned > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OpenStudy {
    // Not a channel: every call is answered synchronously, on the caller's thread.
    session: Arc<Mutex<HeldStudy>>,
}

/// An outstanding trial: it belongs to the caller until it is told or dropped.
///
/// Dropped without a result, it ends as its last report was answered: paused or pruned. If it was
/// not asked to stop, it runs again from its start.
pub struct AskedTrial {
    session: Arc<Mutex<HeldStudy>>,
    assignment: Assignment,
    verdict: Option<Decision>,
    told: bool,
}

impl OpenStudy {
    pub(super) fn new(store: Box<dyn Storage>, study: StoredStudy) -> Result<Self, StudyError> {
        Ok(OpenStudy {
            session: Arc::new(Mutex::new(HeldStudy::new(store, study, Growth::Never)?)),
        })
    }

    /// Asks for a trial: a new configuration, or a paused trial that continues. `None`: there is
    /// nothing to run now, and if no trial is outstanding, nothing more at all. While the study is
    /// paused (`hpsearch pause`), the call waits until it is resumed or stopped.
    ///
    /// # Errors
    /// The store failed, or the sampler cannot propose a configuration.
    pub fn ask(&self) -> Result<Option<AskedTrial>, StudyError> {
        loop {
            let mut session = locked(&self.session);
            if let Some(assignment) = session.ask(&[])? {
                let session = Arc::clone(&self.session);
                return Ok(Some(AskedTrial { session, assignment, verdict: None, told: false }));
            }
            if !session.is_paused() {
                return Ok(None);
            }
            drop(session);
            std::thread::sleep(LOOK);
        }
    }

    /// Tells the result of a trial: its value (a number), [`TellOutcome::Values`] of several
    /// objectives, [`TellOutcome::Pruned`] or [`TellOutcome::Failed`].
    ///
    /// # Errors
    /// The store failed, the trial was ended from elsewhere, or a value is missing; that trial
    /// runs again.
    pub fn tell(
        &self,
        mut trial: AskedTrial,
        told: impl Into<TellOutcome>,
    ) -> Result<(), StudyError> {
        let result = locked(&self.session).tell(trial.number(), told.into());
        trial.told = !matches!(result, Err(HeldError::Tell(TellError::Values { .. })));
        Ok(result?)
    }

    /// The best complete trial so far.
    pub fn best(&self) -> Option<Trial> {
        locked(&self.session).study_state().best().cloned()
    }

    /// Leaves the study, and returns its state. Outstanding trials run again when it is opened
    /// next.
    ///
    /// # Errors
    /// The store failed.
    pub fn finish(self) -> Result<Finished, StudyError> {
        let mut session = locked(&self.session);
        session.check()?;
        session.leave()?;
        let interrupted = || {
            RunOutcome::Interrupted("left by the program while trials were outstanding".to_owned())
        };
        Ok(Finished {
            outcome: session.outcome().cloned().unwrap_or_else(interrupted),
            state: session.study_state().clone(),
        })
    }
}

impl AskedTrial {
    /// Its number.
    pub fn number(&self) -> TrialNumber {
        self.assignment.trial
    }

    /// Its parameters.
    pub fn params(&self) -> &Params {
        &self.assignment.params
    }

    /// The numeric parameter `name`; the error names a missing one.
    pub fn number_of(&self, name: &str) -> Result<f64, TrialError> {
        let missing =
            || TrialError(format!("there is no numeric parameter `{name}` in this trial"));
        self.params().get(name).and_then(Value::as_number).ok_or_else(missing)
    }

    /// The trial's seed.
    pub fn seed(&self) -> u64 {
        self.assignment.seed
    }

    /// The last step that it reported before this attempt: it was paused there, or its program
    /// died.
    pub fn reported(&self) -> Option<u64> {
        self.assignment.reported
    }

    /// The step at which it will pause, if known.
    pub fn until(&self) -> Option<u64> {
        self.assignment.until
    }

    /// Reports the study's metric at a step. On [`Continue::No`], drop the trial.
    ///
    /// # Errors
    /// The store failed.
    pub fn report(&mut self, step: u64, value: f64) -> Result<Continue, StudyError> {
        let metric = locked(&self.session).spec().objective().metric.clone();
        self.report_metrics(step, BTreeMap::from([(metric, value)]))
    }

    /// Reports several metrics; the study's own, if included, is judged.
    ///
    /// # Errors
    /// The store failed.
    pub fn report_metrics(
        &mut self,
        step: u64,
        metrics: BTreeMap<String, f64>,
    ) -> Result<Continue, StudyError> {
        if step > LARGEST_STEP {
            return Err(StudyError::Step { step });
        }
        let (trial, attempt) = self.key();
        let mut session = locked(&self.session);
        session.look()?;
        let metrics = metrics.into_iter().collect();
        let (_, verdict) = session.step(Input::Report { trial, attempt, step, metrics })?;
        if let Some(verdict) = verdict.filter(|verdict| !matches!(verdict, Decision::Continue(_))) {
            self.verdict.get_or_insert(verdict);
        }
        let leaves = self.verdict.is_some() || session.is_leaving(trial, attempt);
        Ok(if leaves { Continue::No } else { Continue::Yes })
    }

    /// Why it has to stop, once a report was answered so.
    pub fn verdict(&self) -> Option<&Decision> {
        self.verdict.as_ref()
    }

    fn key(&self) -> (TrialNumber, AttemptNumber) {
        (self.assignment.trial, self.assignment.attempt)
    }
}

impl Drop for AskedTrial {
    fn drop(&mut self) {
        if self.told {
            return;
        }
        let (trial, attempt) = self.key();
        let end = match &self.verdict {
            Some(Decision::Pause(_)) => AttemptEnd::Paused,
            Some(Decision::Stop(_)) => AttemptEnd::Stopped,
            Some(Decision::Continue(_)) | None => AttemptEnd::Interrupted,
        };
        let mut session = locked(&self.session);
        // A store that fails here fails again at the next call, which reports it; and the trial is
        // handed out again.
        let _said_next = session.step(Input::Ended { trial, attempt, end, message: None });
    }
}

/// A panic elsewhere leaves the session consistent: a call changes the engine first, then the
/// store.
fn locked(session: &Mutex<HeldStudy>) -> MutexGuard<'_, HeldStudy> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
