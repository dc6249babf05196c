//! The search as a pure state machine: inputs in, effects out, no clock, no files, no dice of its own.
//!
//! [`Engine::step`] takes one input and returns effects in order. Whoever drives it makes every [`Effect::Append`] of a
//! turn durable in one transaction *before* carrying out any other effect of that turn.

mod ask;
mod control;
mod demand;
mod first_failures;
mod killed;
pub mod memory;
mod meter;
mod needs;
mod paces;
mod packed;
pub mod packing;
mod places;
pub mod race;
mod refusals;
pub mod retention;
pub mod simulator;
mod stop;
mod tell;
pub mod verify;
mod window;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

pub use ask::seed_of;
use demand::Filling;
pub use demand::{TellError, Told};
use first_failures::FirstFailures;
pub use killed::end_of_killed_runner;
use memory::Starved;
use meter::Meter;
use needs::Needs;
use packed::Packed;
use packing::Load;
use places::Place;
pub use refusals::FIRST_WAIT;
use refusals::Refusals;
use window::Window;

use crate::arguments::RowsAtOnce;
use crate::pruners::{self, Pruner};
use crate::samplers::{self, Sampler};
use crate::study::checkpoint::Checkpoint;
use crate::study::decision::Verdict;
use crate::study::device::Slot;
use crate::study::event::{AttemptEnd, Event, Request};
use crate::study::metric::Metrics;
use crate::study::params::Params;
use crate::study::provenance::Lineage;
use crate::study::registry::{PolicyError, UnknownPolicy};
use crate::study::remark::{Remark, RemarkKind, Reports};
use crate::study::seed::SeedTree;
use crate::study::spec::{DeviceLimit, Milestones, StudySpec};
use crate::study::state::StudyView;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

/// How long a trial that was asked to leave may take before it is killed.
pub const GRACE: Duration = Duration::from_secs(30);

/// Something the world tells the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The runner is ready; the first input.
    Begin {
        /// Its process id.
        pid: u32,
        /// Its host.
        host: String,
        /// What was asked while nobody ran the study: served before anything starts.
        requests: Vec<(i64, Request)>,
    },
    /// An attempt's process exists.
    Launched {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        attempt: AttemptNumber,
        /// Process id.
        pid: u32,
        /// Start time of that process.
        pid_started: u64,
    },
    /// A trial reported.
    Report {
        /// Whose.
        trial: TrialNumber,
        /// Of which attempt.
        attempt: AttemptNumber,
        /// Clock value.
        step: u64,
        /// What was measured.
        metrics: Metrics,
    },
    /// A trial said something that was not taken.
    Remark {
        /// Whose.
        trial: TrialNumber,
        /// Of which attempt.
        attempt: AttemptNumber,
        /// What.
        remark: Remark,
    },
    /// A trial saved a checkpoint.
    Checkpoint {
        /// Whose.
        trial: TrialNumber,
        /// Of which attempt.
        attempt: AttemptNumber,
        /// Clock value of the state.
        step: u64,
        /// Where; absolute.
        path: PathBuf,
        /// What it takes on the disk, in bytes, where that was measured.
        bytes: Option<u64>,
        /// The system's clock when a command registered it.
        system: Option<Timestamp>,
    },
    /// An attempt's process is gone, or its job done.
    Ended {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        attempt: AttemptNumber,
        /// How.
        end: AttemptEnd,
        /// One sentence from the process or about its exit.
        message: Option<String>,
    },
    /// Someone asks something through the store.
    Request {
        /// The request's key.
        id: i64,
        /// What.
        request: Request,
    },
    /// A trial's process says how much memory it took at most.
    Peak {
        /// Whose.
        trial: TrialNumber,
        /// Of which attempt.
        attempt: AttemptNumber,
        /// Bytes.
        bytes: u64,
    },
    /// What devices and the trials on them take now; told about once a second where devices share themselves out.
    Load(Vec<Load>),
    /// The first signal: checkpoint and leave.
    Interrupt,
    /// The second signal: kill.
    KillAll,
    /// Time passed.
    Tick,
}

/// A trial for a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The trial.
    pub trial: TrialNumber,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// Where.
    pub slot: Slot,
    /// Its parameters.
    pub params: Params,
    /// The trial's seed.
    pub seed: u64,
    /// The checkpoint to go on from.
    pub resume: Option<Checkpoint>,
    /// Clock value where it shall pause, or end if it goes on past its end.
    pub until: Option<u64>,
    /// Whether it has ended before, and goes on past that end up to `until`.
    pub past_its_end: bool,
    /// Where it must report.
    pub milestones: Milestones,
    /// The last clock value it reported.
    pub reported: Option<u64>,
    /// Rows in memory at once, where they were halved because the trial ran out of it.
    pub rows_at_once: Option<RowsAtOnce>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The study is over, and has a best trial.
    Finished(String),
    /// The budget ended without a trial that can be the best.
    NoValue(String),
    /// Too many trials failed.
    TooManyFailures(String),
    /// The run was left; the study can go on.
    Interrupted(String),
    /// The machine refused what trials need, again and again; the study can go on.
    Refused(String),
    /// The search cannot go on.
    Broken(String),
}

impl Outcome {
    /// Why, one sentence.
    pub fn reason(&self) -> &str {
        match self {
            Outcome::Finished(reason)
            | Outcome::NoValue(reason)
            | Outcome::TooManyFailures(reason)
            | Outcome::Interrupted(reason)
            | Outcome::Refused(reason)
            | Outcome::Broken(reason) => reason,
        }
    }
}

/// Something for the world to do, after the turn's events are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write this to the journal.
    Append(Event),
    /// Start an attempt.
    Launch(Assignment),
    /// Answer a report.
    Answer {
        /// Whose.
        trial: TrialNumber,
        /// Of which attempt.
        attempt: AttemptNumber,
        /// The answer.
        verdict: Verdict,
    },
    /// Ask an attempt to checkpoint and leave.
    Leave {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        attempt: AttemptNumber,
    },
    /// Look at what an attempt's processes are doing and write it into its log: it takes too long, or says nothing, and is asked
    /// to leave.
    Examine {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        attempt: AttemptNumber,
    },
    /// Kill an attempt's processes.
    Kill {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        attempt: AttemptNumber,
    },
    /// Remove a dropped checkpoint's files.
    Remove {
        /// Whose.
        trial: TrialNumber,
        /// The checkpoint.
        path: PathBuf,
    },
    /// End the worker of a slot that nothing is started on any more: it holds memory for nobody.
    Vacate {
        /// The slot's position.
        slot: usize,
    },
    /// The run is over: nothing follows.
    Finish(Outcome),
}

impl Effect {
    /// The event to write, if it is one.
    pub fn event(&self) -> Option<&Event> {
        match self {
            Effect::Append(event) => Some(event),
            _ => None,
        }
    }
}

/// Why a study cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A sampler or pruner that this hpsearch does not know.
    #[error(transparent)]
    Unknown(#[from] UnknownPolicy),
    /// A sampler or pruner that does not fit the study.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// There is nowhere to run.
    #[error("there is no slot to run trials on: check `[devices]`")]
    NoSlot,
}

/// Why a running attempt was asked to go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Leaving {
    Pausing(String),
    Stopping(String),
    /// Its user paused it; whether it was told as the answer to a report.
    Holding {
        told: bool,
    },
    /// It continued past its end and is where it was to go.
    Arrived,
    Draining,
    Killed,
    TimedOut(String),
}

/// A trial on a slot.
#[derive(Clone, Debug)]
struct Busy {
    trial: TrialNumber,
    attempt: AttemptNumber,
    since: Timestamp,
    /// When it last reported or saved.
    heard: Timestamp,
    leaving: Option<(Leaving, Timestamp)>,
    /// When its user paused it: told at its next report, asked to leave at this moment.
    pause_by: Option<Timestamp>,
    kill_sent: bool,
    /// The most memory that it was seen to take, in bytes.
    peak: u64,
    /// What it was expected to take at most when it began.
    expected: Option<u64>,
    /// What it reported.
    reports: Reports,
    /// What was odd about it: how many times, and what was said last.
    remarks: BTreeMap<RemarkKind, (u64, String)>,
}

/// What the run is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Searching,
    /// The search is over, and the study ends like this after its race.
    Racing(Outcome),
    Draining(Outcome),
    Over,
}

/// The state machine of one run of one study.
pub struct Engine {
    spec: StudySpec,
    sampler: Box<dyn Sampler>,
    pruner: Box<dyn Pruner>,
    milestones: Milestones,
    seeds: SeedTree,
    view: StudyView,
    /// What decisions may know, where that is not all there is.
    window: Option<Window>,
    lineage: Option<Box<Lineage>>,
    slots: Vec<Slot>,
    busy: Vec<Option<Busy>>,
    /// Of each slot, what else is known.
    places: Vec<Place>,
    queue: BTreeSet<TrialNumber>,
    /// Of the queue, those that ran when the runner died: they go on before anything else, as if nothing had happened.
    recovered: BTreeSet<TrialNumber>,
    /// The first trial of each point.
    seen: HashMap<String, TrialNumber>,
    /// Trials that have checkpoints.
    holding: BTreeSet<TrialNumber>,
    /// Whether checkpoints take more than `max_disk` although none can be dropped; said when it begins.
    disk_exceeded: bool,
    enqueued: u64,
    exhausted: bool,
    /// Whether the target is reached or the patience used up: only what its user asked for is run then.
    goal_reached: bool,
    failed_before: u64,
    /// Trials that failed since the last one that did not.
    failed_in_a_row: u64,
    first_failures: FirstFailures,
    refusals: Refusals,
    /// The attempts that ran out of memory.
    starved: Starved,
    /// The remarks that were made of trials, so that another attempt does not begin anew.
    remarked: BTreeSet<(TrialNumber, RemarkKind)>,
    /// Requests to kill a trial whose process is not gone yet.
    killing: Vec<(i64, TrialNumber)>,
    /// Since when the study is paused with nothing running, and how long it was so before: time that does not count.
    idle_since: Option<Timestamp>,
    idle: Duration,
    /// The limit on the time of devices that is used up, if that ends the run.
    spent: Option<DeviceLimit>,
    meter: Meter,
    packed: Packed,
    needs: Needs,
    filling: Filling,
    phase: Phase,
    grace: Duration,
    begun: Timestamp,
    now: Timestamp,
    effects: Vec<Effect>,
}

impl Engine {
    /// An engine for `spec` whose journal folds to `view`, over `slots`.
    pub fn new(spec: StudySpec, view: StudyView, slots: Vec<Slot>) -> Result<Self, EngineError> {
        if slots.is_empty() {
            return Err(EngineError::NoSlot);
        }
        let budget = crate::config::full_trial(&spec);
        let sampler = (samplers::find(&spec.sampler.name)?.build)(&spec.sampler, &spec.space)?;
        let pruner = (pruners::find(&spec.pruner.name)?.build)(&spec.pruner, budget)?;
        let milestones = pruner.milestones(budget);
        let window = spec.deterministic.then(|| Window::new(&spec));
        let seen = view
            .trials
            .iter()
            .rev()
            .map(|trial| (trial.params.fingerprint(), trial.number))
            .collect();
        let queue = view
            .trials
            .iter()
            .filter(|trial| trial.state == TrialState::Queued)
            .map(|trial| trial.number)
            .collect();
        let enqueued =
            view.trials.iter().filter(|trial| matches!(trial.origin, Origin::Enqueued(_))).count()
                as u64;
        Ok(Engine {
            seeds: SeedTree::new(spec.seed),
            busy: slots.iter().map(|_| None).collect(),
            window,
            lineage: None,
            places: slots.iter().map(|_| Place::default()).collect(),
            packed: Packed::new(&spec, &slots),
            spec,
            sampler,
            pruner,
            milestones,
            slots,
            queue,
            recovered: BTreeSet::new(),
            seen,
            holding: view
                .trials
                .iter()
                .filter(|trial| !trial.checkpoints.is_empty())
                .map(|trial| trial.number)
                .collect(),
            disk_exceeded: false,
            enqueued,
            exhausted: false,
            goal_reached: false,
            failed_before: view.counts.failed - view.race_counts.failed,
            failed_in_a_row: 0,
            first_failures: FirstFailures::default(),
            refusals: Refusals::default(),
            starved: Starved::default(),
            remarked: BTreeSet::new(),
            killing: Vec::new(),
            idle_since: None,
            idle: Duration::ZERO,
            spent: None,
            meter: Meter::default(),
            needs: Needs::default(),
            filling: Filling::Always,
            phase: Phase::Waiting,
            view,
            grace: GRACE,
            begun: Timestamp::default(),
            now: Timestamp::default(),
            effects: Vec::new(),
        })
    }

    /// The same with another grace than [`GRACE`], so that tests need not wait for it.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Engine { grace, ..self }
    }

    /// The same with another wait after a first refusal of the machine than [`FIRST_WAIT`].
    #[must_use]
    pub fn with_first_wait(self, first_wait: Duration) -> Self {
        Engine { refusals: Refusals::with_first_wait(first_wait), ..self }
    }

    /// The same, with what its results depend on: written when it begins.
    #[must_use]
    pub fn with_lineage(self, lineage: Lineage) -> Self {
        Engine { lineage: Some(Box::new(lineage)), ..self }
    }

    /// The same with the journal that its state is the fold of. A study with `deterministic = true` needs it: what its
    /// decisions may know is not what has happened. So does one with `trials_per_device = "auto"`, which goes on with as many as were good,
    /// and one of which trials failed and none came to anything ([`Engine::needs_journal`]).
    #[must_use]
    pub fn with_journal<'a>(
        mut self,
        journal: impl IntoIterator<Item = (Timestamp, &'a Event)>,
    ) -> Self {
        let is_shared = self.window.is_some() || self.spec.devices.packed;
        for (at, event) in journal {
            self.first_failures.note(&self.spec.program, event);
            if is_shared {
                self.packed.recall(at, event);
                self.needs.apply(&self.spec, &self.view, event);
                if let Some(window) = &mut self.window {
                    window.apply(at, event);
                }
            }
        }
        self
    }

    /// Whether a study needs its journal to go on, besides the state that it folds to.
    pub fn needs_journal(spec: &StudySpec, view: &StudyView) -> bool {
        let only_fails = view.counts.failed > 0 && view.counts.complete + view.counts.pruned == 0;
        spec.deterministic || spec.devices.packed || only_fails
    }

    /// Takes one input; the effects are to be carried out in order, once their events are durable.
    pub fn step(&mut self, now: Timestamp, input: Input) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::Begin { pid, host, requests } => self.begin(pid, host, requests),
            _ if self.phase == Phase::Over => {}
            Input::Launched { trial, attempt, pid, pid_started } => {
                if self.slot_of(trial, attempt).is_some() {
                    self.emit(Event::AttemptLaunched { trial, attempt, pid, pid_started });
                }
            }
            Input::Report { trial, attempt, step, metrics } => {
                self.report(trial, attempt, step, metrics)
            }
            Input::Remark { trial, attempt, remark } => self.remark(trial, attempt, &remark),
            Input::Checkpoint { trial, attempt, step, path, bytes, system } => {
                self.checkpoint(trial, attempt, Checkpoint { step, path, bytes }, system)
            }
            Input::Ended { trial, attempt, end, message } => {
                self.ended(trial, attempt, end, message)
            }
            Input::Request { id, request } => self.serve(id, &request),
            Input::Peak { trial, attempt, bytes } => self.note_peak(trial, attempt, bytes),
            Input::Load(loads) => self.note_load(&loads),
            Input::Interrupt => self.drain(Outcome::Interrupted("interrupted".to_owned())),
            Input::KillAll => self.kill_all(),
            Input::Tick => {}
        }
        self.mind_deadlines();
        self.mind_refusals();
        match self.filling {
            Filling::Always => {
                self.pack();
                self.fill_slots();
            }
            Filling::OnDemand => self.end_if_drained(),
        }
        self.mind_idleness();
        self.vacate_places();
        std::mem::take(&mut self.effects)
    }

    /// The next moment at which something happens by itself: send a [`Input::Tick`] then.
    pub fn deadline(&self) -> Option<Timestamp> {
        let leaves = self
            .busy
            .iter()
            .flatten()
            .filter(|busy| !busy.kill_sent)
            .filter_map(|busy| self.attempt_deadline(busy));
        leaves
            .chain(self.time_deadline())
            .chain(self.device_deadline())
            .chain(self.refusal_deadline())
            .min()
    }

    /// The state so far.
    pub fn view(&self) -> &StudyView {
        &self.view
    }

    /// The study as resolved.
    pub fn spec(&self) -> &StudySpec {
        &self.spec
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    fn begin(&mut self, pid: u32, host: String, requests: Vec<(i64, Request)>) {
        self.begun = self.now;
        self.phase = Phase::Searching;
        self.emit(Event::RunnerStarted { pid, host, slots: self.slots.clone() });
        if let Some(lineage) = self.lineage.take() {
            self.emit(Event::RunnerDescribed { lineage });
        }
        self.begin_packing();
        self.recover();
        // The rule may be another one than in the last run.
        self.tidy();
        for (id, request) in requests {
            self.serve(id, &request);
        }
        self.mind_limits();
    }

    /// Closes the attempts that a dead runner left open.
    fn recover(&mut self) {
        let open: Vec<TrialNumber> = self
            .view
            .trials
            .iter()
            .filter(|trial| trial.state == TrialState::Running)
            .map(|trial| trial.number)
            .collect();
        for number in open {
            let Some(trial) = self.view.trial(number) else { continue };
            let Some(attempt) = trial.last_attempt() else { continue };
            let (until, last, continued) = (trial.until, trial.last(), trial.continued);
            let verdict = last
                .and_then(|(step, _)| trial.decision_at(step))
                .map(|decision| decision.verdict.clone());
            // What its device was used for is told with the end of that runner.
            let reason = Some("the runner died".to_owned());
            self.emit(Event::AttemptEnded {
                trial: number,
                attempt,
                end: AttemptEnd::Lost,
                reason,
                device_micros: Some(0),
                memory: None,
            });
            // A pause counts if the attempt was to reach it; otherwise it is the one that this attempt was resumed from.
            let arrived = until.zip(last).is_some_and(|(until, (step, _))| until <= step);
            match (verdict, self.hold_of(number)) {
                _ if continued.is_some() && arrived => self.complete(number),
                (Some(Verdict::Stop(reason)), _) if continued.is_none() => {
                    self.finish_trial(number, TrialState::Pruned, None, Some(reason.to_string()))
                }
                (Some(Verdict::Pause(reason)), hold) if arrived && continued.is_none() => {
                    let reason = reason.to_string();
                    self.emit(Event::TrialPaused { trial: number, reason, hold });
                }
                (_, Some(hold)) => self.hold(number, hold),
                _ => {
                    let reason = format!("its runner died; goes on {}", self.place_of(number));
                    self.emit(Event::TrialQueued { trial: number, until, reason });
                    self.recovered.insert(number);
                }
            }
        }
    }

    /// Takes an event into the state and puts it out to be written.
    fn emit(&mut self, event: Event) {
        self.absorb(&event);
        self.effects.push(Effect::Append(event));
    }

    /// Takes an event into the state.
    fn absorb(&mut self, event: &Event) {
        self.view.apply(self.now, event);
        if let Some(window) = &mut self.window {
            window.apply(self.now, event);
        }
        if self.spec.devices.packed {
            self.needs.apply(&self.spec, &self.view, event);
        }
        self.first_failures.note(&self.spec.program, event);
        if let Event::TrialCreated { trial, params, origin } = event {
            self.seen.entry(params.fingerprint()).or_insert(*trial);
            self.enqueued += u64::from(matches!(origin, Origin::Enqueued(_)));
        }
        match event {
            Event::TrialQueued { trial, .. }
            | Event::TrialContinued { trial, .. }
            | Event::TrialCreated { trial, .. } => {
                self.queue.insert(*trial);
            }
            Event::AttemptStarted { trial, .. }
            | Event::TrialFinished { trial, .. }
            | Event::TrialPaused { trial, .. } => {
                self.queue.remove(trial);
                self.recovered.remove(trial);
            }
            Event::AttemptEnded { trial, end, .. } => self.starved.note(*trial, end),
            Event::CheckpointSaved { trial, .. } => drop(self.holding.insert(*trial)),
            Event::CheckpointDropped { trial, .. }
                if self.view.trial(*trial).is_none_or(|trial| trial.checkpoints.is_empty()) =>
            {
                self.holding.remove(trial);
            }
            _ => {}
        }
    }

    /// What decisions may know.
    fn known_view(&self) -> &StudyView {
        self.window.as_ref().map_or(&self.view, Window::known)
    }

    fn slot_of(&self, trial: TrialNumber, attempt: AttemptNumber) -> Option<usize> {
        self.busy.iter().position(|busy| {
            busy.as_ref().is_some_and(|busy| busy.trial == trial && busy.attempt == attempt)
        })
    }
}
