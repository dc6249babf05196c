//! The event loop that drives a study: wait for inputs, step the engine, write, then act.

#![expect(
    clippy::disallowed_methods,
    reason = "the clock, threads and processes of a run are here"
)]

pub mod artifacts;
pub mod checkpoint_digest;
pub mod checkpoint_recovery;
pub mod clock;
pub mod commit;
mod copies;
pub mod disk;
pub mod drafts;
mod echo;
mod error;
pub mod failure_cause;
pub mod file_lock;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod garbage_collection;
pub mod inline;
pub mod inputs;
mod killed_runner;
pub mod launcher;
pub mod lease;
pub mod lines;
mod listener;
pub mod loads;
pub mod metric_files;
pub mod monitor;
pub mod moving;
pub mod notifier;
pub mod offline_requests;
mod outlet;
pub mod own_files;
pub mod ownership;
pub mod peak_memory;
pub mod point_queue;
pub mod process;
pub mod processes;
pub mod protocol;
pub mod provenance;
mod python_packages;
mod registration;
pub mod removal;
pub mod signals;
pub mod slot_environment;
pub mod slots;
pub mod suspension;
pub mod system_metrics;
pub mod threads;
pub mod untracked_sources;
mod watchdog;
pub mod worker_job;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::engine::{Effect, Engine, FIRST_WAIT, GRACE, Input, RunOutcome, SlottedAttempt};
use crate::report::{Happening, Reporter};
use crate::storage::{Lease, Storage, StorageError, StoredRequest, StoredStudy, StudyId};
use crate::study::device::Slot;
use crate::study::event::{Event, Seq, StudyEvent};
use crate::study::program::Program;
use crate::study::request::{Request, RequestAnswer};
use crate::study::series::LoggedSeries;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};
use clock::Clock;
pub use clock::system_time as now;
use commit::{Committed, commit};
pub use error::RunnerError;
use launcher::{BegunRun, Job, Launcher};
pub use lease::OwnLease;
pub use lease::{
    Liveness, identified_process, liveness, process_liveness, release_of_dead, take_lease,
    take_lease_of_any, take_over, this_process,
};
use loads::Loads;
use outlet::Outlet;
use point_queue::PointQueue;
use removal::{Remover, look_for_removed};
use suspension::Suspension;
use system_metrics::SystemMetrics;

/// Longest interval between reads of the store's requests.
const LOOK: Duration = Duration::from_millis(100);

/// Maximum number of inputs per turn: bounds the size of a transaction.
const INPUTS_A_TURN: usize = 1024;

/// When a runner last wrote to a study. Notes and tags do not count: they can be written at any
/// time by any process.
fn last_moment(storage: &dyn Storage, study: StudyId) -> Result<Option<Timestamp>, StorageError> {
    let mut before = Seq(i64::MAX);
    loop {
        let events = storage.events_before(study, before, 100)?;
        let Some((first, ..)) = events.first() else { return Ok(None) };
        before = *first;
        let own = events.iter().rev().find(|(_, _, event)| !event.is_entry());
        if let Some((_, at, _)) = own {
            return Ok(Some(*at));
        }
    }
}

/// The study's clock, continued from its last event.
pub fn clock_of(storage: &dyn Storage, study: StudyId) -> Result<Clock, StorageError> {
    Ok(Clock::start(now(), last_moment(storage, study)?))
}

/// Requests made while the study was not running. A request to stop that a dead runner did not
/// serve was meant for that run: it is refused here.
pub fn waiting_requests(
    storage: &mut dyn Storage,
    study: &StoredStudy,
    lease: &Lease,
) -> Result<Vec<StoredRequest>, StorageError> {
    let (stale, requests): (Vec<StoredRequest>, Vec<StoredRequest>) = storage
        .pending_requests(study.id)?
        .into_iter()
        .partition(|stored| stored.request == Request::Stop);
    let why = "the run it was meant for had ended: ask again if it still holds";
    let answer = RequestAnswer::Refused(why.to_owned());
    let stale: Vec<Event> = stale
        .into_iter()
        .map(|stored| {
            Event::Study(StudyEvent::RequestServed { id: stored.id, answer: answer.clone() })
        })
        .collect();
    if !stale.is_empty() {
        let at = clock_of(storage, study.id)?.now();
        storage.append(lease, at, &stale)?;
    }
    Ok(requests)
}

/// A run of a study; it holds the lease from [`Runner::start`] to the end of [`Runner::run`].
pub struct Runner<'a> {
    storage: &'a mut dyn Storage,
    lease: OwnLease,
    engine: Engine,
    clock: Clock,
    grace: Duration,
    launcher: Box<dyn Launcher + 'a>,
    jobs: HashMap<(TrialNumber, AttemptNumber), Box<dyn Job>>,
    /// Attempts whose reports were received but are not written yet.
    unanswered: BTreeSet<(TrialNumber, AttemptNumber)>,
    reporters: Vec<Outlet>,
    remover: Remover,
    /// The store's path.
    store: PathBuf,
    waiting: Vec<StoredRequest>,
    looked: Instant,
    suspension: Suspension,
    /// Set with automatic concurrency.
    loads: Option<Loads>,
    /// Logged points that are not written yet.
    points: Arc<PointQueue>,
    /// Starts of the first attempts of trials that log on the axis of seconds.
    began: BTreeMap<TrialNumber, Timestamp>,
    /// Samples the trials' processes, if configured.
    system_metrics: Option<SystemMetrics>,
    tx: Sender<Input>,
    rx: Receiver<Input>,
}

impl<'a> Runner<'a> {
    /// Takes the lease, reads the state, and cleans up after a dead runner.
    pub fn start(
        storage: &'a mut dyn Storage,
        study: &StoredStudy,
        slots: Vec<Slot>,
        launcher: Box<dyn Launcher + 'a>,
        store: &Path,
    ) -> Result<Self, RunnerError> {
        let lease = take_lease(storage, study)?;
        killed_runner::kill_orphans(storage, study, store)?;
        let requests = waiting_requests(storage, study, &lease)?;
        let files = study.files(store);
        let ours = ownership::is_ours(storage, &files, store)?;
        killed_runner::forget_lost_checkpoints(storage, &lease)?;
        let at = clock_of(storage, study.id)?.now();
        if ours {
            checkpoint_recovery::settle(storage, &lease, study, &files, at)?;
        }
        let mut remover = Remover::new(ownership::own_homes(storage, study, store)?);
        garbage_collection::clear_drafts(&crate::storage::paths::data_cache(&study.spec, store));
        let state = storage.study_state(study.id)?;
        checkpoint_recovery::remove_dropped(storage, study.id, &state, &mut remover)?;
        let journal = if Engine::needs_journal(&study.spec, &state) {
            storage.events_after(study.id, Seq(0), u64::MAX)?
        } else {
            Vec::new()
        };
        let clock = clock_of(storage, study.id)?;
        let grace = seconds_of("HPSEARCH_GRACE").unwrap_or(GRACE);
        let first_wait = seconds_of("HPSEARCH_FIRST_WAIT").unwrap_or(FIRST_WAIT);
        let engine = Engine::new(study.spec.clone(), state, slots)?
            .with_grace(grace)
            .with_first_wait(first_wait)
            .with_look_at_disk(look_for_removed(&study.spec, files));
        let surviving = killed_runner::surviving(storage, study)?;
        let engine =
            engine.with_surviving(surviving.clone()).with_open_attempts(&*storage, study.id)?;
        let engine = engine.with_journal(journal.iter().map(|(_, at, event)| (*at, event)));
        let attempts = match study.spec.program {
            Program::Trainer { .. } => storage.attempts(study.id, None)?,
            Program::Command { .. } | Program::Inline => Vec::new(),
        };
        let engine = engine.with_ends(
            attempts.iter().filter_map(|attempt| Some((attempt.trial, attempt.end.as_ref()?))),
        );
        let (tx, rx) = unbounded();
        let points = Arc::new(PointQueue::default());
        killed_runner::note_stored_points(storage, study.id, &surviving, &points)?;
        let mut launcher = launcher;
        launcher.log_to(Arc::clone(&points));
        let begun =
            BegunRun { epoch: lease.epoch, inputs: &tx, clock, grace, surviving: &surviving };
        launcher
            .begin(&begun)
            .map_err(|source| RunnerError::System { doing: "listen for agents", source })?;
        if let Some(end) = lease.end(&*storage) {
            launcher.hold_until(end);
        }
        let adopted = surviving.iter().filter_map(|SlottedAttempt { trial, attempt, .. }| {
            Some(((*trial, *attempt), launcher.adopt(*trial, *attempt)?))
        });
        let jobs = adopted.collect();
        let no_thread = |source| RunnerError::System { doing: "start a thread", source };
        let system_metrics = match study.spec.track.system {
            Some(period) => {
                Some(SystemMetrics::start(period, Arc::clone(&points)).map_err(no_thread)?)
            }
            None => None,
        };
        let suspension = Suspension::start().map_err(no_thread)?;
        Ok(Runner {
            storage,
            lease,
            engine,
            clock,
            grace,
            launcher,
            jobs,
            unanswered: BTreeSet::new(),
            reporters: Vec::new(),
            remover,
            store: store.to_owned(),
            waiting: requests,
            looked: Instant::now(),
            suspension,
            loads: study.spec.devices.automatic_concurrency.then(Loads::default),
            points,
            began: BTreeMap::new(),
            system_metrics,
            tx,
            rx,
        })
    }

    /// Records the run's provenance, when it begins.
    ///
    /// # Errors
    /// The store failed.
    pub fn describe(self, found: provenance::CollectedProvenance) -> Result<Self, RunnerError> {
        for (digest, text) in &found.documents {
            self.storage.keep_document(digest, text)?;
        }
        Ok(Runner { engine: self.engine.with_provenance(found.provenance), ..self })
    }

    /// Adds a reporter, which receives every event once it is durable, and its stream. A separate
    /// thread writes the stream: a stalled reader misses lines but does not block the run.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn report_to(
        &mut self,
        reporter: Box<dyn Reporter>,
        out: Box<dyn Write + Send>,
    ) -> Result<(), RunnerError> {
        let doing = "start the thread of a reporter";
        let outlet =
            Outlet::new(reporter, out).map_err(|source| RunnerError::System { doing, source })?;
        self.reporters.push(outlet);
        Ok(())
    }

    /// The channel for inputs from outside (signals).
    pub fn inputs(&self) -> Sender<Input> {
        self.tx.clone()
    }

    /// Runs to the end. In every case all trial processes are ended, and the lease is released.
    pub fn run(mut self) -> Result<RunOutcome, RunnerError> {
        let result = self.run_loop();
        if let Err(RunnerError::Storage(error)) = &result {
            self.drain_without_store(error);
        }
        // Unblocks threads that wait for room in the channel.
        self.rx = crossbeam_channel::never();
        self.points.close();
        let is_fenced = matches!(&result, Err(RunnerError::Storage(StorageError::Fenced { .. })));
        if !(is_fenced && self.launcher.hand_over()) {
            self.jobs.values_mut().for_each(|job| job.kill());
        }
        self.jobs.clear();
        self.launcher.shut_down();
        self.launcher.sweep();
        if let Ok(outcome) = &result {
            let state = self.engine.study_state();
            let at = self.clock.now();
            let until = Instant::now() + outlet::PATIENCE;
            for outlet in std::mem::take(&mut self.reporters) {
                outlet.end(until, |reporter, out| {
                    reporter.study_ended(out, at, outcome.reason(), state)
                });
            }
        }
        // The lease of an exited process is taken over anyway: a failed release loses nothing.
        let _taken_over_later = self.storage.release(&self.lease);
        result
    }

    fn run_loop(&mut self) -> Result<RunOutcome, RunnerError> {
        let (at, spec, state) = (self.clock.now(), self.engine.spec(), self.engine.study_state());
        self.reporters.retain_mut(|outlet| {
            outlet.tell(None, |reporter, out| reporter.study_started(out, at, spec, state))
        });
        let requests = std::mem::take(&mut self.waiting).into_iter();
        let requests = requests.map(|stored| (stored.id, stored.request)).collect();
        let begin = Input::Begin { pid: std::process::id(), host: processes::host(), requests };
        let mut inputs = vec![begin];
        loop {
            if let Some(outcome) = self.turn(std::mem::take(&mut inputs))? {
                return Ok(outcome);
            }
            inputs = self.wait()?;
        }
    }

    /// The next inputs: those that have arrived, else a tick at the engine's deadline. Requests are
    /// read from time to time, however busy the trials are.
    fn wait(&mut self) -> Result<Vec<Input>, RunnerError> {
        loop {
            if self.looked.elapsed() >= LOOK {
                self.looked = Instant::now();
                // Without inputs there are no turns.
                self.launcher.look_after();
                self.lease.keep(self.storage)?;
                if let Some(end) = self.lease.end(&*self.storage) {
                    self.launcher.hold_until(end);
                }
                if self.storage.changed()? {
                    let requests = self.storage.pending_requests(self.lease.study)?.into_iter();
                    let inputs: Vec<Input> = requests
                        .map(|stored| Input::Request { id: stored.id, request: stored.request })
                        .collect();
                    if !inputs.is_empty() {
                        return Ok(inputs);
                    }
                }
            }
            if let Some(loads) = self.loads.as_mut().and_then(Loads::look) {
                return Ok(vec![Input::Load(loads)]);
            }
            if self.points.is_due() {
                return Ok(self.rx.try_iter().take(INPUTS_A_TURN).collect());
            }
            let until_deadline =
                self.engine.deadline().map_or(LOOK, |deadline| deadline.since(self.clock.now()));
            if let Ok(first) = self.rx.recv_timeout(until_deadline.min(LOOK)) {
                let mut inputs = vec![first];
                inputs.extend(self.rx.try_iter().take(INPUTS_A_TURN));
                return Ok(inputs);
            }
            if self.engine.deadline().is_some_and(|deadline| deadline <= self.clock.now()) {
                return Ok(vec![Input::Tick]);
            }
        }
    }

    /// One turn: step the engine, write everything in one transaction, then act.
    fn turn(&mut self, inputs: Vec<Input>) -> Result<Option<RunOutcome>, RunnerError> {
        let mut at = self.clock.now();
        if let Some(suspended) = self.suspension.take() {
            at = self.clock.now();
            self.engine.excuse(at, suspended);
        }
        self.launcher.look_after();
        let may_leave =
            |input: &Input| matches!(input, Input::Ended { end, .. } if end.may_leave_processes());
        if inputs.iter().any(may_leave) {
            self.launcher.sweep();
        }
        let mut effects = Vec::new();
        let mut marks: BTreeMap<u64, u64> = BTreeMap::new();
        // What has arrived counts before the first input has the engine judge deadlines.
        let reported =
            inputs.iter().filter(|input| input.is_heartbeat()).filter_map(Input::attempt);
        self.engine.note_heartbeats(at, self.points.heard().into_iter().chain(reported));
        for input in inputs {
            match &input {
                Input::Ended { trial, attempt, .. } => drop(self.jobs.remove(&(*trial, *attempt))),
                Input::Report { trial, attempt, .. } => {
                    self.unanswered.insert((*trial, *attempt));
                }
                Input::Mark { sender, number } => {
                    marks.insert(*sender, *number);
                    continue;
                }
                _ => {}
            }
            effects.extend(self.engine.step(at, input));
        }
        // Points logged before an event are written with it.
        let has_events = effects.iter().any(|effect| effect.event().is_some());
        let is_due = has_events || !marks.is_empty() || self.points.is_due();
        let logged = if is_due { self.take_logged()? } else { Vec::new() };
        let Committed { events, acts } = commit(self.storage, &self.lease, at, effects, &logged)?;
        marks.into_iter().for_each(|(sender, number)| self.launcher.stored(sender, number));
        if let Some(system_metrics) = &self.system_metrics {
            events.iter().for_each(|(_, event)| system_metrics.hear(event));
        }
        if let Some(loads) = &mut self.loads {
            events.iter().for_each(|(_, event)| loads.hear(event));
        }
        let state = self.engine.study_state();
        // A reporter whose stream is closed (`| head`) is dropped; the study continues.
        self.reporters.retain_mut(|outlet| {
            let mut happenings =
                events.iter().map(|(seq, event)| Happening { seq: *seq, at, event, state });
            happenings.all(|happening| {
                outlet.tell(Some(happening.seq), |reporter, out| reporter.event(out, &happening))
            })
        });
        self.unanswered.clear();
        if self.engine.spec().cluster.is_some() {
            self.launcher.set_demand(self.engine.demand());
        }
        for effect in acts {
            if let Some(outcome) = self.carry_out(effect)? {
                return Ok(Some(outcome));
            }
        }
        if self.jobs.is_empty() && self.engine.study_state().paused.is_some() {
            self.launcher.rest();
        }
        Ok(None)
    }

    /// Points logged since the last call.
    fn take_logged(&mut self) -> Result<Vec<LoggedSeries>, StorageError> {
        let Runner { points, storage, lease, began, clock, .. } = self;
        points.take(*clock, |trial| {
            if let Some(began) = began.get(&trial) {
                return Ok(Some(*began));
            }
            let found = storage.began(lease.study, trial)?;
            if let Some(found) = found {
                began.insert(trial, found);
            }
            Ok(found)
        })
    }

    fn carry_out(&mut self, effect: Effect) -> Result<Option<RunOutcome>, RunnerError> {
        match effect {
            Effect::Append(_) => {}
            Effect::Launch(assignment) => {
                let (trial, attempt) = (assignment.trial, assignment.attempt);
                match self.launcher.launch(&assignment, &self.tx) {
                    Ok(job) => drop(self.jobs.insert((trial, attempt), job)),
                    Err(error) => {
                        let (end, message) = (error.end(), Some(error.to_string()));
                        let ended = Input::Ended { trial, attempt, end, message };
                        let _own_channel = self.tx.send(ended);
                    }
                }
            }
            Effect::Answer { trial, attempt, verdict } => {
                self.with_job(trial, attempt, |job| job.answer(&verdict))
            }
            Effect::Leave { trial, attempt } => self.with_job(trial, attempt, Job::leave),
            Effect::Examine { trial, attempt } => self.with_job(trial, attempt, Job::examine),
            Effect::Kill { trial, attempt } => self.with_job(trial, attempt, Job::kill),
            Effect::Vacate { slot } => self.launcher.vacate(slot),
            Effect::Remove { trial, path } => {
                if self.is_needed_by_copy(trial)? {
                    return Ok(None);
                }
                if self.remover.remove(trial, &path, listed_in(self.engine.study_state())) {
                    self.launcher.removed(trial, &path);
                }
            }
            Effect::Finish(outcome) => return Ok(Some(outcome)),
        }
        Ok(None)
    }

    /// Whether a copy of the store may still list the checkpoints of a trial, which was hidden.
    fn is_needed_by_copy(&self, trial: TrialNumber) -> Result<bool, RunnerError> {
        let trial = self.engine.study_state().trial(trial);
        let is_hidden = trial.is_some_and(|trial| trial.hidden);
        Ok(is_hidden && garbage_collection::has_copy(&*self.storage, &self.store)?)
    }

    /// Without a store no report can be answered: running trials save and exit, and continue from
    /// there in the next run.
    fn drain_without_store(&mut self, error: &StorageError) {
        // The process that took the study over already runs its trials.
        if self.jobs.is_empty() || matches!(error, StorageError::Fenced { .. }) {
            return;
        }
        let count = self.jobs.len();
        self.reporters.retain_mut(|outlet| {
            outlet.tell(None, |reporter, out| reporter.store_failed(out, &error.to_string(), count))
        });
        self.jobs.values_mut().for_each(|job| job.leave());
        for (trial, attempt) in std::mem::take(&mut self.unanswered) {
            self.with_job(trial, attempt, Job::give_up);
        }
        let until = Instant::now() + self.grace;
        while !self.jobs.is_empty() {
            self.launcher.look_after();
            let patience = until.saturating_duration_since(Instant::now());
            match self.rx.recv_timeout(patience.min(LOOK)) {
                Ok(Input::Ended { trial, attempt, .. }) => {
                    drop(self.jobs.remove(&(trial, attempt)))
                }
                Ok(Input::Report { trial, attempt, .. }) => {
                    self.with_job(trial, attempt, Job::give_up)
                }
                Ok(Input::Interrupt | Input::KillAll) => return,
                Ok(_) => {}
                Err(_) if Instant::now() >= until => return,
                Err(_) => {}
            }
        }
    }

    fn with_job(
        &mut self,
        trial: TrialNumber,
        attempt: AttemptNumber,
        act: impl FnOnce(&mut (dyn Job + 'static)),
    ) {
        if let Some(job) = self.jobs.get_mut(&(trial, attempt)) {
            act(job.as_mut());
        }
    }
}

/// The checkpoints in the state.
fn listed_in(state: &StudyState) -> impl Iterator<Item = &Path> {
    state
        .trials
        .iter()
        .flat_map(|trial| trial.checkpoints.iter().map(|checkpoint| checkpoint.path.as_path()))
}

/// A duration from a variable for tests, in place of [`GRACE`] or [`FIRST_WAIT`].
fn seconds_of(variable: &str) -> Option<Duration> {
    let seconds = std::env::var(variable).ok()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
