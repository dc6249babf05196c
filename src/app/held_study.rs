//! A study whose trials a program runs itself by ask and tell; every call is durable before it
//! returns, unless the study is temporary.

use std::collections::BTreeSet;
use std::time::Duration;

use super::reconcile::{self, Consent};
use super::{AppError, warm_start};
use crate::config::ChangeClass;
use crate::engine::{
    Assignment, DefineError, Effect, Engine, Input, RunOutcome, TellError, TellOutcome,
};
use crate::runner::clock::Clock;
use crate::runner::commit::commit;
use crate::runner::lease::OwnLease;
use crate::runner::suspension::Suspension;
use crate::runner::{self, RunnerError};
use crate::storage::{Storage, StorageError, StoredStudy};
use crate::study::decision::Decision;
use crate::study::event::{AttemptEnd, Event, StudyEvent};
use crate::study::params::{Params, Value};
use crate::study::request::{Request, RequestAnswer};
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Trial, TrialNumber, TrialState};

/// Shortest interval between reads of requests from other terminals.
pub const LOOK: Duration = Duration::from_millis(100);

/// Why a study cannot be held, or a call failed.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// The store failed.
    #[error("{}", .0.with_remedy())]
    Storage(#[from] StorageError),
    /// The study cannot be run, or another process runs it.
    #[error("{}", in_words(.0))]
    Runner(#[from] RunnerError),
    /// The warm start failed.
    #[error("{}", .0.with_remedy())]
    App(#[from] AppError),
    /// The store has a study with this name and another specification.
    #[error("the store holds a study called `{name}` that differs: {difference}; {}",
        way_out(*class))]
    Changed {
        /// The name.
        name: String,
        /// The most important difference.
        difference: String,
        /// The consent it requires.
        class: ChangeClass,
    },
    /// The sampler cannot propose a configuration.
    #[error("{0}")]
    Sampler(String),
    /// The trial has ended already.
    #[error(transparent)]
    Tell(#[from] TellError),
    /// A parameter cannot be added to the trial.
    #[error(transparent)]
    Define(#[from] DefineError),
    /// Another program that wants to share the study describes a different one.
    #[error(
        "process {pid} runs study `{study}` as another search: {difference}; begin it with the \
         same arguments, or once that run has ended"
    )]
    RunOtherwise {
        /// Its name.
        study: String,
        /// The process that runs it.
        pid: u32,
        /// The most important difference.
        difference: String,
    },
    /// Another process held the study meanwhile, and changed it.
    #[error("study `{study}` was changed by another process meanwhile: begin it again")]
    ChangedMeanwhile {
        /// Its name.
        study: String,
    },
    /// The run is over: requested trials would never start.
    #[error("the study is over ({reason}): begin it again to run more")]
    Over {
        /// How it ended.
        reason: String,
    },
    /// An earlier call could not write to the store.
    #[error("the store failed earlier: open the study again to continue from its last state")]
    Broken,
}

impl HeldError {
    /// The process on this machine that holds the study, if that is why.
    pub fn holder(&self) -> Option<u32> {
        match self {
            HeldError::RunOtherwise { pid, .. } => Some(*pid),
            HeldError::Storage(error) | HeldError::Runner(RunnerError::Storage(error)) => {
                match error {
                    StorageError::Busy { holder, .. }
                    | StorageError::HolderStopped { holder, .. } => Some(holder.pid),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The error with, if the store failed, what to do.
fn in_words(error: &RunnerError) -> String {
    match error {
        RunnerError::Storage(error) => error.with_remedy(),
        other => other.to_string(),
    }
}

fn way_out(class: ChangeClass) -> &'static str {
    match class {
        ChangeClass::NeedsFork => "choose another name",
        _ => "accept the change, or choose another name",
    }
}

/// The stored study of `spec`, created or continued, with changes as far as there is consent.
///
/// # Errors
/// The store failed, or contains another study with this name.
pub fn settle(
    store: &mut dyn Storage,
    spec: &mut StudySpec,
    consent: Consent,
) -> Result<StoredStudy, HeldError> {
    let known = store.study(&spec.name)?;
    if let Some(known) = &known {
        reconcile::continue_stored(known, spec);
        // It has no command, and so no variables with salted digests.
        let changes = reconcile::changes(store, (known.id, &known.spec), spec, "", &[])?;
        if let Some(class) = reconcile::refusal(&changes, consent)
            && let Some(change) = changes.iter().find(|change| change.class == class)
        {
            let (name, difference) = (spec.name.clone(), change.to_string());
            return Err(HeldError::Changed { name, difference, class });
        }
    }
    warm_start::take(spec, known.as_ref().map(|known| &known.spec), store)?;
    let (study, _) = reconcile::settle(store, known, spec)?;
    Ok(study)
}

/// Whether the space may grow during the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// All parameters are known from the start.
    Never,
    /// It grows by parameters that trials define or that are enqueued.
    OnDemand,
}

/// Engine, store and lease of a study, which no other process can run until this is dropped.
pub struct HeldStudy {
    store: Box<dyn Storage>,
    study: StoredStudy,
    lease: OwnLease,
    engine: Engine,
    clock: Clock,
    /// Attempts that must stop: killed, timed out, or the study stops.
    leaving: BTreeSet<(TrialNumber, AttemptNumber)>,
    outcome: Option<RunOutcome>,
    looked: Timestamp,
    /// Without it, a suspension counts towards the limits of trials.
    suspension: Option<Suspension>,
    growth: Growth,
    /// It ends with this process, and no other one sees it: nothing is written.
    is_temporary: bool,
    /// A write failed: the state is ahead of the store and must not be used.
    is_broken: bool,
}

/// What became of an input.
#[derive(Default)]
struct Outcomes {
    launched: Option<Assignment>,
    verdict: Option<Decision>,
    answer: Option<RequestAnswer>,
}

impl HeldStudy {
    /// Takes the study; trials that were outstanding when its last holder died are handed out
    /// again.
    ///
    /// # Errors
    /// The store failed, or another process runs the study.
    pub fn new(
        mut store: Box<dyn Storage>,
        study: StoredStudy,
        growth: Growth,
    ) -> Result<Self, HeldError> {
        let lease = runner::take_lease(store.as_mut(), &study)?;
        // It was read before the lease was acquired.
        if store.study(&study.spec.name)?.is_none_or(|known| known.spec != study.spec) {
            store.release(&lease)?;
            return Err(HeldError::ChangedMeanwhile { study: study.spec.name });
        }
        let waiting = runner::waiting_requests(store.as_mut(), &study, &lease)?;
        let state = store.study_state(study.id)?;
        let engine = Engine::on_demand(study.spec.clone(), state).map_err(RunnerError::Engine)?;
        let engine = engine.with_open_attempts(store.as_ref(), study.id)?;
        let clock = runner::clock_of(store.as_ref(), study.id)?;
        let (leaving, outcome) = (BTreeSet::new(), None);
        let looked = clock.now();
        let mut held = HeldStudy {
            store,
            study,
            lease,
            engine,
            clock,
            leaving,
            outcome,
            looked,
            suspension: Suspension::start().ok(),
            growth,
            is_temporary: false,
            is_broken: false,
        };
        let holder = runner::this_process();
        for stored in &waiting {
            held.make_room_for(&stored.request)?;
        }
        let requests = waiting.into_iter().map(|stored| (stored.id, stored.request)).collect();
        held.step(Input::Begin { pid: holder.pid, host: holder.host, requests })?;
        Ok(held)
    }

    /// Makes it a study that ends with this process and that no other one sees: from now on nothing
    /// is written.
    pub fn make_temporary(&mut self) {
        self.is_temporary = true;
    }

    /// The present state.
    pub fn study_state(&self) -> &StudyState {
        self.engine.study_state()
    }

    /// Its specification.
    pub fn spec(&self) -> &StudySpec {
        self.engine.spec()
    }

    /// The outcome, once it has ended.
    pub fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_ref()
    }

    /// Whether an attempt must stop.
    pub fn is_leaving(&self, trial: TrialNumber, attempt: AttemptNumber) -> bool {
        self.leaving.contains(&(trial, attempt))
    }

    /// Whether the last report of a running trial was answered with stop, and its end is missing.
    pub fn is_stopped(&self, number: TrialNumber) -> bool {
        let trial =
            self.study_state().trial(number).filter(|trial| trial.state == TrialState::Running);
        let last = trial.and_then(|trial| trial.decision_at(trial.last()?.0));
        last.is_some_and(|decision| matches!(decision.verdict, Decision::Stop(_)))
    }

    /// A trial to run: a new point, one of these candidates if there are any, or one that
    /// continues. `None`: there is nothing to run now.
    ///
    /// # Errors
    /// The store failed, or the sampler cannot propose a configuration.
    pub fn ask(&mut self, candidates: &[Params]) -> Result<Option<Assignment>, HeldError> {
        self.look()?;
        self.check()?;
        let now = self.clock.now();
        let effects = self.engine.ask(now, candidates).map_err(HeldError::Sampler)?;
        Ok(self.carry_out(now, effects)?.launched)
    }

    /// Whether the user paused it: there may be trials once it is resumed or stopped.
    pub fn is_paused(&self) -> bool {
        self.outcome.is_none() && self.study_state().paused.is_some()
    }

    /// Ends a trial.
    ///
    /// # Errors
    /// The store failed, or the trial was ended from elsewhere.
    pub fn tell(&mut self, trial: TrialNumber, told: TellOutcome) -> Result<(), HeldError> {
        self.check()?;
        self.leaving.retain(|(leaving, _)| *leaving != trial);
        let now = self.clock.now();
        let effects = self.engine.tell(now, trial, told)?;
        self.carry_out(now, effects).map(drop)
    }

    /// Defines a parameter of an outstanding trial, in the space too if it is new; returns the
    /// trial's value. `given` is that value, if the program chooses it.
    ///
    /// # Errors
    /// The store failed, the trial is not outstanding, or the space has an incompatible parameter
    /// with this name.
    pub fn define(
        &mut self,
        trial: TrialNumber,
        name: &str,
        asked: &Distribution,
        given: Option<&Value>,
    ) -> Result<Value, HeldError> {
        self.check()?;
        let defined = self.engine.defined(trial, name, asked, given)?;
        if let Some(spec) = defined.widened {
            self.widen(*spec)?;
        }
        if defined.is_new {
            let params: Params = [(name.to_owned(), defined.value.clone())].into_iter().collect();
            let now = self.clock.now();
            let effects = self.engine.record_params(now, trial, params);
            self.carry_out(now, effects)?;
        }
        Ok(defined.value)
    }

    fn widen(&mut self, spec: StudySpec) -> Result<(), HeldError> {
        if !self.is_temporary {
            let written = self.store.update_spec(&self.lease, self.clock.now(), &spec, &[]);
            self.is_broken |= written.is_err();
            written?;
        }
        self.study.spec = spec.clone();
        Ok(self.engine.widen(spec).map_err(RunnerError::Engine)?)
    }

    /// Adds new parameters of an enqueued configuration, if the space may grow.
    fn make_room_for(&mut self, request: &Request) -> Result<(), HeldError> {
        if let (Growth::OnDemand, Request::Enqueue { params }) = (self.growth, request)
            // Invalid parameters are refused with the request.
            && let Ok(Some(spec)) = self.engine.with_parameters_of(params)
        {
            self.widen(*spec)?;
        }
        Ok(())
    }

    /// Requests that a configuration runs before any other; an error if it cannot.
    ///
    /// # Errors
    /// The store failed, or the run is over.
    pub fn enqueue(&mut self, params: Params) -> Result<RequestAnswer, HeldError> {
        self.check()?;
        if let Some(outcome) = &self.outcome {
            return Err(HeldError::Over { reason: outcome.reason().to_owned() });
        }
        let request = Request::Enqueue { params };
        let id = match self.is_temporary {
            true => 0,
            false => self.store.request(self.study.id, self.clock.now(), &request)?,
        };
        let answer = self.serve(id, request)?;
        Ok(answer.expect("a run that is not over serves a request at once"))
    }

    fn serve(&mut self, id: i64, request: Request) -> Result<Option<RequestAnswer>, HeldError> {
        self.make_room_for(&request)?;
        self.check()?;
        let now = self.clock.now();
        let effects = self.engine.step(now, Input::Request { id, request });
        Ok(self.carry_out(now, effects)?.answer)
    }

    /// Checks that another program's specification describes the same study.
    ///
    /// # Errors
    /// It describes a different study, or the store failed.
    pub fn admit(&self, mut spec: StudySpec) -> Result<(), HeldError> {
        let Some(known) = self.store.study(&self.study.spec.name)? else { return Ok(()) };
        reconcile::continue_stored(&known, &mut spec);
        let changes =
            reconcile::changes(self.store.as_ref(), (known.id, &known.spec), &spec, "", &[])?;
        // The first of the most important: a sampler before its options.
        match changes.iter().rev().max_by_key(|change| change.class) {
            None => Ok(()),
            Some(change) => Err(self.runs_otherwise(change.to_string())),
        }
    }

    /// The error about another program's different specification.
    pub fn runs_otherwise(&self, difference: String) -> HeldError {
        let (study, pid) = (self.study.spec.name.clone(), runner::this_process().pid);
        HeldError::RunOtherwise { study, pid, difference }
    }

    /// Starts a queued trial again for the program that still runs it; returns whether it did.
    ///
    /// # Errors
    /// The store failed.
    pub fn start_again(&mut self, trial: TrialNumber) -> Result<bool, HeldError> {
        self.check()?;
        let now = self.clock.now();
        let effects = self.engine.start_again(now, trial);
        Ok(self.carry_out(now, effects)?.launched.is_some())
    }

    /// Requeues an outstanding trial whose program no longer runs it, unless its last report was
    /// answered with a decision that ends its turn.
    ///
    /// # Errors
    /// The store failed.
    pub fn take_back(&mut self, trial: TrialNumber, why: &str) -> Result<(), HeldError> {
        let running =
            self.study_state().trial(trial).filter(|trial| trial.state == TrialState::Running);
        let Some(attempt) = running.and_then(Trial::last_attempt) else { return Ok(()) };
        let (end, message) = (AttemptEnd::Interrupted, Some(why.to_owned()));
        self.step(Input::Ended { trial, attempt, end, message }).map(drop)
    }

    /// Removes from an outstanding trial the parameters that its program did not use: all but
    /// `asked`.
    ///
    /// # Errors
    /// The store failed.
    pub fn keep_params(
        &mut self,
        trial: TrialNumber,
        asked: &BTreeSet<String>,
    ) -> Result<(), HeldError> {
        self.check()?;
        let Some(known) = self.study_state().trial(trial) else { return Ok(()) };
        let names = known.params.iter().map(|(name, _)| name.to_owned());
        let dropped: Vec<String> = names.filter(|name| !asked.contains(name)).collect();
        if known.state != TrialState::Running || dropped.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let effects = self.engine.drop_params(now, trial, dropped);
        self.carry_out(now, effects).map(drop)
    }

    /// Handles an input; returns a launch and a decision, if there are any.
    ///
    /// # Errors
    /// The store failed.
    pub fn step(
        &mut self,
        input: Input,
    ) -> Result<(Option<Assignment>, Option<Decision>), HeldError> {
        self.check()?;
        if let Input::Ended { trial, attempt, .. } = &input {
            self.leaving.remove(&(*trial, *attempt));
        }
        let mut now = self.clock.now();
        if let Some(suspended) = self.suspension.as_ref().and_then(Suspension::take) {
            now = self.clock.now();
            self.engine.excuse(now, suspended);
        }
        let effects = self.engine.step(now, input);
        let outcomes = self.carry_out(now, effects)?;
        Ok((outcomes.launched, outcomes.verdict))
    }

    /// Whether it is still usable.
    ///
    /// # Errors
    /// A write failed earlier.
    pub fn check(&self) -> Result<(), HeldError> {
        if self.is_broken { Err(HeldError::Broken) } else { Ok(()) }
    }

    /// Writes the events with the time at which the engine applied them, then carries out the other
    /// effects.
    fn carry_out(&mut self, now: Timestamp, effects: Vec<Effect>) -> Result<Outcomes, HeldError> {
        let mut outcomes = Outcomes::default();
        for effect in &effects {
            if let Effect::Append(Event::Study(StudyEvent::RequestServed { answer, .. })) = effect {
                outcomes.answer = Some(answer.clone());
            }
        }
        let acts = if self.is_temporary {
            effects
        } else {
            let committed = commit(self.store.as_mut(), &self.lease, now, effects, &[]);
            self.is_broken |= committed.is_err();
            committed?.acts
        };
        for effect in acts {
            match effect {
                Effect::Launch(assignment) => outcomes.launched = Some(assignment),
                Effect::Answer { verdict, .. } => outcomes.verdict = Some(verdict),
                Effect::Leave { trial, attempt } | Effect::Kill { trial, attempt } => {
                    self.leaving.insert((trial, attempt));
                }
                Effect::Finish(outcome) => self.outcome = Some(outcome),
                // The program's checkpoints are its own: none are registered here.
                Effect::Append(_)
                | Effect::Examine { .. }
                | Effect::Remove { .. }
                | Effect::Vacate { .. } => {}
            }
        }
        Ok(outcomes)
    }

    /// Handles requests by others (`hpsearch stop`, `kill`), and deadlines.
    ///
    /// # Errors
    /// The store failed.
    pub fn look(&mut self) -> Result<(), HeldError> {
        let now = self.clock.now();
        if self.engine.deadline().is_some_and(|deadline| deadline <= now) {
            self.step(Input::Tick)?;
        }
        if now.since(self.looked) < LOOK {
            return Ok(());
        }
        self.look_for_requests()
    }

    /// Handles requests by others, however recently that was done.
    ///
    /// # Errors
    /// The store failed.
    pub fn look_for_requests(&mut self) -> Result<(), HeldError> {
        self.looked = self.clock.now();
        if self.is_temporary {
            return Ok(());
        }
        let changed = self.store.changed();
        // Nothing more can be written to what it has open, also once the file is back.
        self.is_broken |= changed.as_ref().is_err_and(StorageError::is_of_lost_file);
        if changed? {
            for stored in self.store.pending_requests(self.study.id)? {
                self.serve(stored.id, stored.request)?;
            }
        }
        Ok(())
    }

    /// Ends the run: the study is finished if possible, and interrupted otherwise.
    ///
    /// # Errors
    /// The store failed.
    pub fn leave(&mut self) -> Result<(), HeldError> {
        let now = self.clock.now();
        let effects = self.engine.close_if_done(now);
        self.carry_out(now, effects)?;
        if !self.engine.is_over() {
            self.step(Input::Interrupt)?;
        }
        Ok(())
    }
}

impl Drop for HeldStudy {
    fn drop(&mut self) {
        // The next process to open the study records what could not be written here, and takes over
        // the lease of a dead holder: one without its lock.
        if self.is_broken {
            if !self.lease.has_lock() {
                let _ends_by_itself = self.store.release(&self.lease);
            }
            return;
        }
        let _closed_next_time = self.leave();
        let _taken_over_later = self.store.release(&self.lease);
    }
}
