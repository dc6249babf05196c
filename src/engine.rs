//! The search as a pure state machine: inputs in, effects out; no clock, files or randomness of its
//! own.
//!
//! [`Engine::step`] takes one input and returns effects in order. The driver makes every
//! [`Effect::Append`] of a turn durable in one transaction *before* it carries out any other effect
//! of that turn.

mod agents;
mod attempt;
mod attempt_end;
pub mod batch_halving;
mod budgets;
pub mod concurrency;
mod crash_recovery;
mod decision_window;
mod defining;
mod device_sharing;
mod device_time;
mod effect;
mod ending;
mod extending;
mod failures;
pub mod finalists;
mod first_failures;
mod goal;
mod input;
mod load;
mod memory_estimate;
mod on_demand;
mod pausing;
mod populations;
mod proposals;
mod pruning;
mod queue;
mod refusals;
mod reports;
mod requests;
mod restarts;
pub mod retention;
mod scheduling;
pub mod simulator;
mod slots;
mod superseding;
mod throughput;
pub mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agents::AgentSlots;
pub use agents::SlottedAttempt;
use batch_halving::OutOfMemory;
use budgets::Budgets;
pub use crash_recovery::end_of_killed_runner;
use decision_window::DecisionWindow;
pub use defining::{DefineError, Defined, hull};
use device_sharing::DeviceSharing;
pub use effect::{Assignment, Effect, GroupNode, RunOutcome};
use failures::Failures;
pub use input::Input;
use memory_estimate::MemoryEstimates;
use on_demand::Filling;
pub use on_demand::{TellError, TellOutcome};
use proposals::Proposals;
use queue::Queue;
pub use refusals::FIRST_WAIT;
use refusals::Refusals;
use restarts::Restarts;
use retention::Retention;
pub use scheduling::{seed_of, seed_of_number};
use slots::Slots;
use superseding::Superseding;

use crate::pruners::{self, Pruner};
use crate::samplers::{self, Sampler};
use crate::study::checkpoint::Checkpoint;
use crate::study::device::Slot;
use crate::study::event::{AttemptEvent, EntryEvent, Event, RecordEvent, RunnerEvent, TrialEvent};
use crate::study::followed_front::FollowedFront;
use crate::study::params::Params;
use crate::study::provenance::Provenance;
use crate::study::registry::{RegistryError, UnknownName};
use crate::study::remark::RemarkKind;
use crate::study::request::Request;
use crate::study::seed::SeedTree;
use crate::study::spec::{Milestones, StudySpec};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};

/// Time in which an attempt that was asked to leave must exit before it is killed.
pub const GRACE: Duration = Duration::from_secs(30);

/// Why a study cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A sampler or pruner unknown to this version.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// A sampler or pruner that does not support the study.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// There are no slots.
    #[error("there is no slot to run trials on: check `[devices]`")]
    NoSlot,
}

/// The phase of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Searching,
    /// The search is over; the study ends with this outcome after its race.
    Racing(RunOutcome),
    Draining(RunOutcome),
    Over,
}

impl Phase {
    fn starts_trials(&self) -> bool {
        matches!(self, Phase::Searching | Phase::Racing(_))
    }
}

/// The state machine of one run of one study.
pub struct Engine {
    spec: StudySpec,
    state: StudyState,
    sampler: Box<dyn Sampler>,
    pruner: Box<dyn Pruner>,
    milestones: Milestones,
    seeds: SeedTree,
    provenance: Option<Box<Provenance>>,
    slots: Slots,
    queue: Queue,
    proposals: Proposals,
    /// The candidates of the present ask, if its program offers some.
    offered: Vec<Params>,
    /// The state that decisions may use, if it lags behind the full one.
    decision_window: Option<DecisionWindow>,
    budgets: Budgets,
    /// Of the state that decisions may use.
    front: FollowedFront,
    failures: Failures,
    refusals: Refusals,
    out_of_memory: OutOfMemory,
    memory_estimates: MemoryEstimates,
    /// How long trials take to start again, where that is measured.
    restarts: Option<Restarts>,
    sharing: DeviceSharing,
    retention: Retention,
    is_gone: Option<retention::IsGone>,
    /// The kinds of remarks made about each trial, so that another attempt does not repeat them.
    remarked: BTreeSet<(TrialNumber, RemarkKind)>,
    /// Open attempts of an earlier runner that may still run, with their slots.
    surviving: Vec<SlottedAttempt>,
    /// What the open attempts of an earlier runner supersede so far.
    open_attempts: BTreeMap<TrialNumber, Superseding>,
    agent_slots: AgentSlots,
    /// Agents that do not answer at the moment.
    silent_agents: BTreeSet<String>,
    /// Requests to kill a trial whose process has not exited yet.
    killing: Vec<(i64, TrialNumber)>,
    filling: Filling,
    phase: Phase,
    grace: Duration,
    now: Timestamp,
    effects: Vec<Effect>,
}

impl Engine {
    /// An engine for `spec`, the folded state `state`, and `slots`.
    pub fn new(spec: StudySpec, state: StudyState, slots: Vec<Slot>) -> Result<Self, EngineError> {
        // Those of agents come later.
        if slots.is_empty() && spec.cluster.is_none() {
            return Err(EngineError::NoSlot);
        }
        let budget = crate::config::full_trial(&spec);
        samplers::check_objectives(&spec.sampler, spec.objectives.len())?;
        pruners::check_objectives(&spec.pruner, spec.objectives.len())?;
        pruners::check_program(&spec.pruner, &spec.program)?;
        let sampler = (samplers::find(&spec.sampler.name)?.build)(&spec.sampler, &spec.space)?;
        let pruner = (pruners::find(&spec.pruner.name)?.build)(&spec.pruner, budget)?;
        Ok(Engine {
            milestones: pruner.milestones(budget),
            sampler,
            pruner,
            seeds: SeedTree::new(spec.seed),
            provenance: None,
            sharing: DeviceSharing::new(&spec, &slots),
            slots: Slots::new(slots),
            queue: Queue::of(&state),
            proposals: Proposals::of(&state),
            offered: Vec::new(),
            decision_window: spec.deterministic.then(|| DecisionWindow::new(&spec)),
            budgets: Budgets::default(),
            front: FollowedFront::default(),
            failures: Failures::of(&state),
            refusals: Refusals::new(FIRST_WAIT),
            out_of_memory: OutOfMemory::default(),
            memory_estimates: MemoryEstimates::default(),
            restarts: Restarts::of_study(&spec),
            retention: Retention::new(&spec, &state),
            is_gone: None,
            remarked: BTreeSet::new(),
            surviving: Vec::new(),
            open_attempts: BTreeMap::new(),
            agent_slots: AgentSlots::default(),
            silent_agents: BTreeSet::new(),
            killing: Vec::new(),
            filling: Filling::Always,
            phase: Phase::Waiting,
            grace: GRACE,
            now: Timestamp::default(),
            effects: Vec::new(),
            spec,
            state,
        })
    }

    /// Replaces [`GRACE`], for tests.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Self {
        Engine { grace, ..self }
    }

    /// Replaces [`FIRST_WAIT`], the wait after the machine's first refusal.
    #[must_use]
    pub fn with_first_wait(self, first_wait: Duration) -> Self {
        Engine { refusals: Refusals::new(first_wait), ..self }
    }

    /// Adds the open attempts of an earlier runner that may still run, as their agents do: they are
    /// not closed as lost.
    #[must_use]
    pub fn with_surviving(self, attempts: Vec<SlottedAttempt>) -> Self {
        Engine { surviving: attempts, ..self }
    }

    /// Adds the provenance, which is recorded when the run begins.
    #[must_use]
    pub fn with_provenance(self, provenance: Provenance) -> Self {
        Engine { provenance: Some(Box::new(provenance)), ..self }
    }

    /// Adds the journal behind the state, if [`Engine::needs_journal`].
    #[must_use]
    pub fn with_journal<'a>(
        mut self,
        journal: impl IntoIterator<Item = (Timestamp, &'a Event)>,
    ) -> Self {
        for (at, event) in journal {
            self.failures.first.apply(event);
            self.sharing.apply(at, event);
            self.learn_from(at, event);
        }
        self
    }

    /// Whether continuing a study needs its journal in addition to its state: for the decision
    /// window of `deterministic = true`, for the concurrency found by `trials_per_device = "auto"`,
    /// where pauses are priced, and, where trials failed and none succeeded, to compare failures.
    pub fn needs_journal(spec: &StudySpec, state: &StudyState) -> bool {
        let only_fails =
            state.counts.failed > 0 && state.counts.complete + state.counts.pruned == 0;
        spec.deterministic
            || spec.devices.automatic_concurrency
            || Restarts::of_study(spec).is_some()
            || only_fails
    }

    /// Handles one input; the effects are to be carried out in order, once their events are
    /// durable.
    pub fn step(&mut self, now: Timestamp, input: Input) -> Vec<Effect> {
        self.now = now;
        self.take_in(input);
        self.enforce_deadlines();
        self.check_refusals();
        match self.filling {
            Filling::Always => {
                self.adjust_concurrency();
                self.fill_slots();
            }
            Filling::OnDemand => self.end_if_drained(),
        }
        self.track_idleness();
        self.vacate_slots();
        self.record_slots_of_agents();
        std::mem::take(&mut self.effects)
    }

    fn take_in(&mut self, input: Input) {
        match input {
            Input::Begin { pid, host, requests } => self.begin(pid, host, requests),
            _ if self.phase == Phase::Over => {}
            Input::Launched { trial, attempt, pid, pid_started } => {
                if self.slots.of_attempt(trial, attempt).is_some() {
                    self.emit(Event::of(
                        trial,
                        AttemptEvent::Launched { attempt, pid, pid_started },
                    ));
                }
            }
            Input::Report { trial, attempt, step, metrics } => {
                self.report(trial, attempt, step, metrics)
            }
            Input::Heard { trial, attempt } => self.note_heard(trial, attempt),
            Input::Remark { trial, attempt, remark } => self.remark(trial, attempt, &remark),
            Input::Checkpoint { trial, attempt, step, path, bytes, system, digest } => {
                let checkpoint = Checkpoint { step, path, bytes, digest };
                self.checkpoint(trial, attempt, checkpoint, system)
            }
            Input::Ended { trial, attempt, end, message } => {
                self.ended(trial, attempt, end, message)
            }
            Input::Request { id, request } => self.serve(id, &request),
            Input::Recorded { trial, attempt, event } => {
                if self.keeps(trial, &event) && self.slots.of_attempt(trial, attempt).is_some() {
                    self.emit(Event::Trial(trial, event));
                }
            }
            Input::Unheard { trial, attempt } => self.forget_telling(trial, attempt),
            Input::Peak { trial, attempt, bytes } => self.note_peak(trial, attempt, bytes),
            Input::Load(loads) => self.note_load(&loads),
            Input::AgentJoined { agent, devices, provenance } => {
                self.agent_joined(agent, &devices, provenance)
            }
            Input::AgentLeft { agent, reason } => self.agent_left(agent, reason),
            Input::AgentSilent { agent, is_silent } => self.agent_silent(agent, is_silent),
            Input::AgentAbsent { agent, reason } => self.agent_absent(agent, reason),
            Input::Mark { .. } => {}
            Input::Interrupt => self.drain(RunOutcome::Interrupted("interrupted".to_owned())),
            Input::KillAll => self.kill_all(),
            Input::Tick => {}
        }
    }

    /// The next time at which the engine acts by itself: send an [`Input::Tick`] then.
    pub fn deadline(&self) -> Option<Timestamp> {
        let (budget, state) = (&self.spec.budget, &self.state);
        let attempts = self.slots.running().filter_map(|running| running.deadline(budget));
        let of_study = (self.phase == Phase::Searching).then(|| {
            let time = self.budgets.time_deadline(budget, state.ran_micros);
            time.into_iter().chain(self.budgets.device_deadline(budget, state, self.now))
        });
        let slots = self.agent_slots.deadline();
        let refusals = self.refusals.deadline().filter(|_| self.phase.starts_trials());
        attempts.chain(of_study.into_iter().flatten()).chain(refusals).chain(slots).min()
    }

    /// The current state.
    pub fn study_state(&self) -> &StudyState {
        &self.state
    }

    /// The study's specification.
    pub fn spec(&self) -> &StudySpec {
        &self.spec
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether the journal takes what a trial's program records: no parameters, which the search
    /// chose, and a tag only once, however many attempts give it.
    fn keeps(&self, trial: TrialNumber, event: &TrialEvent) -> bool {
        match event {
            TrialEvent::Record(
                RecordEvent::ArtifactSaved { .. } | RecordEvent::SummaryRecorded { .. },
            ) => true,
            TrialEvent::Entry(EntryEvent::Tagged { tag, .. }) => {
                let known = self.state.trial(trial);
                known.is_some_and(|trial| !trial.tags.contains(tag))
            }
            TrialEvent::Record(
                RecordEvent::ParamsRecorded { .. }
                | RecordEvent::ParamsDropped { .. }
                | RecordEvent::SpoolRead { .. },
            )
            | TrialEvent::Entry(EntryEvent::Noted { .. })
            | TrialEvent::Proposal(_)
            | TrialEvent::Attempt(_)
            | TrialEvent::Checkpoint(_)
            | TrialEvent::Decision(_)
            | TrialEvent::State(_) => false,
        }
    }

    fn begin(&mut self, pid: u32, host: String, requests: Vec<(i64, Request)>) {
        self.budgets.begin(self.now);
        self.phase = Phase::Searching;
        let slots = self.slots.iter().map(|slot| slot.slot.clone()).collect();
        self.emit(Event::Runner(RunnerEvent::Started { pid, host, slots, tracker: None }));
        if let Some(provenance) = self.provenance.take() {
            self.emit(Event::Runner(RunnerEvent::Described { provenance }));
        }
        self.begin_sharing();
        self.recover();
        // The rule may have changed since the last run.
        self.tidy();
        for (id, request) in requests {
            self.serve(id, &request);
        }
        self.check_limits();
    }

    /// Applies an event, and emits it to be written.
    fn emit(&mut self, event: Event) {
        self.apply(&event);
        self.effects.push(Effect::Append(event));
    }

    /// Applies an event to the state.
    fn apply(&mut self, event: &Event) {
        self.state.apply(self.now, event);
        self.learn_from(self.now, event);
        self.failures.first.apply(event);
        self.proposals.apply(event);
        if let Some(trial) = event.trial() {
            self.queue.follow(&self.state, trial);
        }
        self.retention.apply(&self.state, event);
        if let Some((trial, end)) = event.attempt_end() {
            self.out_of_memory.note(trial, end);
        }
    }

    /// Updates what is derived from events besides the state: the decision window, memory estimates
    /// and the times of starts.
    fn learn_from(&mut self, at: Timestamp, event: &Event) {
        if let Some(window) = &mut self.decision_window {
            window.apply(at, event);
        }
        if let Some(restarts) = &mut self.restarts {
            restarts.apply(at, event);
        }
        if self.spec.devices.automatic_concurrency {
            self.memory_estimates.apply(&self.spec, &self.state, event);
        }
    }

    /// The state that decisions may use.
    fn known_state(&self) -> &StudyState {
        self.decision_window.as_ref().map_or(&self.state, DecisionWindow::known)
    }

    fn trials_that(&self, is_wanted: impl Fn(&Trial) -> bool) -> Vec<TrialNumber> {
        let wanted = self.state.trials.iter().filter(|trial| is_wanted(trial));
        wanted.map(|trial| trial.number).collect()
    }
}
