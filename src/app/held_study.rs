//! A study whose trials a program runs itself: it asks for them and tells how they ended, and every
//! call is in the store before it returns.

use std::collections::BTreeSet;
use std::time::Duration;

use super::reconcile::{self, Consent};
use super::{AppError, warm_start};
use crate::config::ChangeClass;
use crate::engine::{
    Assignment, DefineError, Effect, Engine, Input, Outcome, TellError, TellOutcome,
};
use crate::runner::clock::Clock;
use crate::runner::commit::commit;
use crate::runner::lease::OwnLease;
use crate::runner::{self, RunnerError};
use crate::storage::{Storage, StorageError, StoredStudy};
use crate::study::decision::Decision;
use crate::study::event::{Answer, AttemptEnd, Request};
use crate::study::params::{Params, Value};
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Trial, TrialNumber, TrialState};

/// How often the store is asked for requests from other terminals, at most.
pub const LOOK: Duration = Duration::from_millis(100);

/// Why a study cannot be held, or a call was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// The store failed.
    #[error("{}", .0.with_remedy())]
    Storage(#[from] StorageError),
    /// The study cannot be run, or somebody else runs it.
    #[error("{}", in_words(.0))]
    Runner(#[from] RunnerError),
    /// An earlier study cannot be learnt from.
    #[error("{}", .0.with_remedy())]
    App(#[from] AppError),
    /// The store has a study of this name with another specification.
    #[error("the store holds a study called `{name}` that differs: {difference}; {}",
        way_out(*class))]
    Changed {
        /// The name.
        name: String,
        /// The first difference that counts most.
        difference: String,
        /// What it asks for.
        class: ChangeClass,
    },
    /// The sampler cannot propose a point.
    #[error("{0}")]
    Sampler(String),
    /// The trial has ended before.
    #[error(transparent)]
    Tell(#[from] TellError),
    /// A parameter cannot be added to the trial.
    #[error(transparent)]
    Define(#[from] DefineError),
    /// Another program, which is to share the study, describes another one.
    #[error(
        "process {pid} runs study `{study}` as another search: {difference}; begin it with the same \
         arguments, or once that run has ended"
    )]
    RunOtherwise {
        /// Its name.
        study: String,
        /// The process that runs it.
        pid: u32,
        /// The first difference that counts most.
        difference: String,
    },
    /// Another process had the study for a moment, and changed it.
    #[error("study `{study}` was changed by another process at this moment: begin it again")]
    ChangedMeanwhile {
        /// Its name.
        study: String,
    },
    /// The run is over: nothing that is asked for would begin in it.
    #[error("the study is over ({reason}): begin it again to run more")]
    Over {
        /// How it ended.
        reason: String,
    },
    /// An earlier call could not write to the store.
    #[error("the store failed before: open the study again to continue from what it holds")]
    Broken,
}

/// What happened in a run and, where the store failed, what to do.
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

/// The study of `spec` in its store, made or continued; a changed one as far as there is consent.
///
/// # Errors
/// The store failed, or holds another study of this name.
pub fn settle(
    store: &mut dyn Storage,
    spec: &mut StudySpec,
    consent: Consent,
) -> Result<StoredStudy, HeldError> {
    let known = store.study(&spec.name)?;
    if let Some(known) = &known {
        // The program does not know of `hpsearch extend`.
        spec.budget.extend(known.extension);
        // It has no command, and so no variables that a salt hides.
        let changes = reconcile::changes(store, (known.id, &known.spec), spec, "")?;
        if let Some(class) = reconcile::refusal(&changes, consent)
            && let Some(change) = changes.iter().find(|change| change.class == class)
        {
            let (name, difference) = (spec.name.clone(), change.to_string());
            return Err(HeldError::Changed { name, difference, class });
        }
    }
    warm_start::take(spec, known.as_ref().map(|known| &known.spec), store)?;
    Ok(reconcile::settle(store, known, spec)?)
}

/// Whether the space of a study may grow while it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// All parameters are known from the beginning.
    Never,
    /// By the parameters that trials ask for, and those that are enqueued.
    OnDemand,
}

/// Engine, store and lease of a study: nobody else runs it until this is dropped.
pub struct HeldStudy {
    store: Box<dyn Storage>,
    study: StoredStudy,
    lease: OwnLease,
    engine: Engine,
    clock: Clock,
    /// Attempts that are to leave: killed, out of time, or the study stops.
    leaving: BTreeSet<(TrialNumber, AttemptNumber)>,
    outcome: Option<Outcome>,
    looked: Timestamp,
    growth: Growth,
    /// A write failed: the state is ahead of the store, and nothing more may be built on it.
    is_broken: bool,
}

impl HeldStudy {
    /// Takes the study; trials that were out when its last holder died wait to be given again.
    ///
    /// # Errors
    /// The store failed, or another process runs the study.
    pub fn new(
        mut store: Box<dyn Storage>,
        study: StoredStudy,
        growth: Growth,
    ) -> Result<Self, HeldError> {
        let lease = runner::take_lease(store.as_mut(), &study)?;
        // It was read before it was held.
        if store.study(&study.spec.name)?.is_none_or(|known| known.spec != study.spec) {
            store.release(&lease)?;
            return Err(HeldError::ChangedMeanwhile { study: study.spec.name });
        }
        let waiting = runner::waiting_requests(store.as_mut(), &study, &lease)?;
        let view = store.view(study.id)?;
        let engine = Engine::on_demand(study.spec.clone(), view).map_err(RunnerError::Engine)?;
        let clock = runner::clock_of(store.as_ref(), study.id)?;
        let (leaving, outcome) = (BTreeSet::new(), None);
        let (looked, is_broken) = (clock.now(), false);
        let mut held = HeldStudy {
            store,
            study,
            lease,
            engine,
            clock,
            leaving,
            outcome,
            looked,
            growth,
            is_broken,
        };
        let holder = runner::this_process();
        for stored in &waiting {
            held.make_room_for(&stored.request)?;
        }
        let requests = waiting.into_iter().map(|stored| (stored.id, stored.request)).collect();
        held.step(Input::Begin { pid: holder.pid, host: holder.host, requests })?;
        Ok(held)
    }

    /// The study as it is.
    pub fn view(&self) -> &StudyState {
        self.engine.view()
    }

    /// Its specification.
    pub fn spec(&self) -> &StudySpec {
        self.engine.spec()
    }

    /// How it ended, once it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Whether an attempt is to leave.
    pub fn is_leaving(&self, trial: TrialNumber, attempt: AttemptNumber) -> bool {
        self.leaving.contains(&(trial, attempt))
    }

    /// Whether a trial that is out was told to stop by its last report, and has not been told.
    pub fn is_stopped(&self, number: TrialNumber) -> bool {
        let trial = self.view().trial(number).filter(|trial| trial.state == TrialState::Running);
        let last = trial.and_then(|trial| trial.decision_at(trial.last()?.0));
        last.is_some_and(|decision| matches!(decision.verdict, Decision::Stop(_)))
    }

    /// A trial to run: a new point, or one that continues. `None`: there is nothing to run now.
    ///
    /// # Errors
    /// The store failed, or the sampler cannot propose a point.
    pub fn ask(&mut self) -> Result<Option<Assignment>, HeldError> {
        self.look()?;
        self.check()?;
        let now = self.clock.now();
        let effects = self.engine.ask(now).map_err(HeldError::Sampler)?;
        Ok(self.carry_out(effects)?.0)
    }

    /// Whether its user paused it: there is something to run once it is resumed or stopped.
    pub fn is_paused(&self) -> bool {
        self.outcome.is_none() && self.view().paused.is_some()
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
        self.carry_out(effects).map(drop)
    }

    /// Adds a parameter to a trial that is out, and to the space if it is new there; the trial's
    /// value of it. `given` is that value, where the program chooses it.
    ///
    /// # Errors
    /// The store failed, the trial is not out, or the space has another parameter of this name.
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
            let effects = self.engine.record_params(self.clock.now(), trial, params);
            self.carry_out(effects)?;
        }
        Ok(defined.value)
    }

    fn widen(&mut self, spec: StudySpec) -> Result<(), HeldError> {
        let written = self.store.update_spec(&self.lease, self.clock.now(), &spec);
        self.is_broken |= written.is_err();
        written?;
        self.study.spec = spec.clone();
        Ok(self.engine.widen(spec).map_err(RunnerError::Engine)?)
    }

    /// Adds the parameters that an enqueued configuration names first, where the space may grow.
    fn make_room_for(&mut self, request: &Request) -> Result<(), HeldError> {
        if let (Growth::OnDemand, Request::Enqueue { params }) = (self.growth, request)
            // What cannot be a parameter is refused with the request.
            && let Ok(Some(spec)) = self.engine.with_parameters_of(params)
        {
            self.widen(*spec)?;
        }
        Ok(())
    }

    /// Asks for a configuration to be run before any other; why not, if that cannot be.
    ///
    /// # Errors
    /// The store failed, or the run is over.
    pub fn enqueue(&mut self, params: Params) -> Result<Answer, HeldError> {
        self.check()?;
        if let Some(outcome) = &self.outcome {
            return Err(HeldError::Over { reason: outcome.reason().to_owned() });
        }
        let request = Request::Enqueue { params };
        let id = self.store.request(self.study.id, self.clock.now(), &request)?;
        self.serve(id, request)?;
        let answer = self.store.answer(self.study.id, id)?;
        Ok(answer.expect("a run that is not over serves a request at once"))
    }

    fn serve(&mut self, id: i64, request: Request) -> Result<(), HeldError> {
        self.make_room_for(&request)?;
        self.step(Input::Request { id, request }).map(drop)
    }

    /// Whether another program that describes the study like this means the same one.
    ///
    /// # Errors
    /// It describes another one, or the store failed.
    pub fn admit(&self, mut spec: StudySpec) -> Result<(), HeldError> {
        let Some(known) = self.store.study(&self.study.spec.name)? else { return Ok(()) };
        spec.budget.extend(known.extension);
        let changes = reconcile::changes(self.store.as_ref(), (known.id, &known.spec), &spec, "")?;
        match changes.iter().max_by_key(|change| change.class) {
            None => Ok(()),
            Some(change) => Err(self.runs_otherwise(change.to_string())),
        }
    }

    /// That another program describes it otherwise.
    pub fn runs_otherwise(&self, difference: String) -> HeldError {
        let (study, pid) = (self.study.spec.name.clone(), runner::this_process().pid);
        HeldError::RunOtherwise { study, pid, difference }
    }

    /// Gives a trial that waits to a program that has it out still; whether it has it now.
    ///
    /// # Errors
    /// The store failed.
    pub fn start_again(&mut self, trial: TrialNumber) -> Result<bool, HeldError> {
        self.check()?;
        let effects = self.engine.start_again(self.clock.now(), trial);
        Ok(self.carry_out(effects)?.0.is_some())
    }

    /// Takes a trial that is out from a program that does not run it any more: it waits to be given
    /// again, unless its last report was answered with a decision that ends its turn.
    ///
    /// # Errors
    /// The store failed.
    pub fn take_back(&mut self, trial: TrialNumber, why: &str) -> Result<(), HeldError> {
        let running = self.view().trial(trial).filter(|trial| trial.state == TrialState::Running);
        let Some(attempt) = running.and_then(Trial::last_attempt) else { return Ok(()) };
        let (end, message) = (AttemptEnd::Interrupted, Some(why.to_owned()));
        self.step(Input::Ended { trial, attempt, end, message }).map(drop)
    }

    /// Takes from a trial that is out the parameters that its program did not ask for: all but
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
        let Some(known) = self.view().trial(trial) else { return Ok(()) };
        let names = known.params.iter().map(|(name, _)| name.to_owned());
        let dropped: Vec<String> = names.filter(|name| !asked.contains(name)).collect();
        if known.state != TrialState::Running || dropped.is_empty() {
            return Ok(());
        }
        let effects = self.engine.drop_params(self.clock.now(), trial, dropped);
        self.carry_out(effects).map(drop)
    }

    /// Takes an input; a launch and a verdict, if there are.
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
        let effects = self.engine.step(self.clock.now(), input);
        self.carry_out(effects)
    }

    /// Whether it may be used: after a write that failed it may not.
    ///
    /// # Errors
    /// A write failed.
    pub fn check(&self) -> Result<(), HeldError> {
        if self.is_broken { Err(HeldError::Broken) } else { Ok(()) }
    }

    /// Writes the events, and only then does the rest.
    fn carry_out(
        &mut self,
        effects: Vec<Effect>,
    ) -> Result<(Option<Assignment>, Option<Decision>), HeldError> {
        let now = self.clock.now();
        let committed = commit(self.store.as_mut(), &self.lease, now, effects, &[]);
        self.is_broken |= committed.is_err();
        let (mut launched, mut answered) = (None, None);
        for effect in committed?.acts {
            match effect {
                Effect::Launch(assignment) => launched = Some(assignment),
                Effect::Answer { verdict, .. } => answered = Some(verdict),
                Effect::Leave { trial, attempt } | Effect::Kill { trial, attempt } => {
                    self.leaving.insert((trial, attempt));
                }
                Effect::Finish(outcome) => self.outcome = Some(outcome),
                // What a program saves is its own: it registers no checkpoints here.
                Effect::Append(_)
                | Effect::Examine { .. }
                | Effect::Remove { .. }
                | Effect::Vacate { .. } => {}
            }
        }
        Ok((launched, answered))
    }

    /// Takes what others ask for (`hpsearch stop`, `kill`), and what is due by the clock.
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
        self.looked = now;
        if self.store.changed()? {
            for stored in self.store.pending_requests(self.study.id)? {
                self.serve(stored.id, stored.request)?;
            }
        }
        Ok(())
    }

    /// Ends the run: the study is over if it can be, and interrupted otherwise.
    ///
    /// # Errors
    /// The store failed.
    pub fn leave(&mut self) -> Result<(), HeldError> {
        let effects = self.engine.close_if_done(self.clock.now());
        self.carry_out(effects)?;
        if !self.engine.is_over() {
            self.step(Input::Interrupt)?;
        }
        Ok(())
    }
}

impl Drop for HeldStudy {
    fn drop(&mut self) {
        // Whoever opens the study next closes what could not be written here, and takes the lease
        // of a dead holder.
        let _closed_next_time = self.leave();
        let _taken_over_later = self.store.release(&self.lease);
    }
}
