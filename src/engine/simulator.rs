//! Simulates an engine with scripted workers under a virtual clock: searches in microseconds, fault
//! injection.

mod world;

use std::time::Duration;

use world::{World, moved};

use super::{Engine, EngineError, RunOutcome, end_of_killed_runner};
use crate::study::device::{Device, DeviceGroup, Slot};
use crate::study::event::{Event, RunnerEvent};
use crate::study::params::Params;
use crate::study::provenance::AgentProvenance;
use crate::study::request::Request;
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// A fault of a scripted worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process dies instead of reporting.
    Crash,
    /// It becomes silent.
    Hang,
    /// It reports NaN.
    NotANumber,
    /// It takes a hundred times as long for the step.
    Slow,
    /// Its program ends with an error.
    Fail,
    /// It runs out of memory.
    OutOfMemory,
    /// Its device is lost.
    LoseDevice,
    /// The machine refuses resources.
    Refuse,
}

impl Fault {
    /// The failure cause of an attempt that ends with this fault.
    fn cause(self) -> Option<FailureCause> {
        match self {
            Fault::Crash => Some(FailureCause::WorkerLost),
            Fault::Fail => Some(FailureCause::Program),
            Fault::OutOfMemory => Some(FailureCause::Oom),
            Fault::LoseDevice => Some(FailureCause::DeviceLost),
            Fault::Hang | Fault::NotANumber | Fault::Slow | Fault::Refuse => None,
        }
    }
}

/// The value of a configuration at a step.
pub type Curve = dyn Fn(&Params, u64) -> f64 + Send + Sync;

/// Relative duration of a configuration's steps.
pub type StepCost = dyn Fn(&Params) -> f64 + Send + Sync;

/// The state of a trial after a step, from the one before.
pub type Learning = dyn Fn(f64, &Params) -> f64 + Send + Sync;

/// The fault of an attempt at a step, if any.
pub type Faults = dyn Fn(TrialNumber, AttemptNumber, u64) -> Option<Fault> + Send + Sync;

/// Whether an attempt saves a checkpoint at a step.
pub type Saves = dyn Fn(AttemptNumber, u64) -> bool + Send + Sync;

/// Rows that fit in memory at a step of a trial.
pub type Room = dyn Fn(TrialNumber, u64) -> usize + Send + Sync;

/// The error of the engine's clock in microseconds, by number of turns.
pub type ClockError = dyn Fn(usize) -> i64 + Send + Sync;

/// The memory of a configuration's trial at a step, in bytes.
pub type Takes = dyn Fn(&Params, u64) -> u64 + Send + Sync;

/// Throughput of this many trials, relative to one.
pub type Throughput = dyn Fn(usize) -> f64 + Send + Sync;

/// A shared device.
pub struct Shared {
    /// Its memory, in bytes; of agents: see [`Agent::memory`].
    pub memory: u64,
    /// Memory of a trial at a step.
    pub takes: Box<Takes>,
    /// Throughput of this many trials, relative to one.
    pub throughput: Box<Throughput>,
    /// Whether exceeding the memory ends a trial.
    pub is_strict: bool,
}

/// An agent, here from the start of each run, with one device `sim:0`: `name/sim:0`.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// The memory of its device, in bytes, where devices are shared.
    pub memory: u64,
    /// Its machine.
    pub provenance: AgentProvenance,
    /// It leaves after so many steps of a run, for so long.
    pub absences: Vec<(u64, Duration)>,
}

/// A study with scripted workers.
pub struct Simulation {
    /// The study.
    pub spec: StudySpec,
    /// Number of slots.
    pub slots: usize,
    /// Agents.
    pub agents: Vec<Agent>,
    /// The shared devices, with automatic concurrency.
    pub shared: Option<Shared>,
    /// Slots per device.
    pub per_device: usize,
    /// Devices of each slot; with several, each slot has its own.
    pub per_trial: u32,
    /// Steps of a full trial.
    pub steps: u64,
    /// Virtual time of a step.
    pub step_time: Duration,
    /// Relative duration of a configuration's steps.
    pub pace: Box<StepCost>,
    /// Virtual time that a worker takes before its first step.
    pub start_time: Duration,
    /// Virtual time that a worker takes to exit when asked to.
    pub leave_time: Duration,
    /// Whether workers save checkpoints.
    pub checkpoints: bool,
    /// Before which reports they do: all by default.
    pub saves: Box<Saves>,
    /// Whether workers continue from the checkpoints that they are given.
    pub resumes: bool,
    /// Whether workers leave at the step up to which they were started, however it is answered.
    pub leaves: bool,
    /// Size of a checkpoint on disk.
    pub checkpoint_bytes: u64,
    /// The objective.
    pub curve: Box<Curve>,
    /// Each further one of several objectives.
    pub others: Box<Curve>,
    /// Trials that learn: their values are states, which checkpoints carry from trial to trial,
    /// instead of `curve`'s. They begin with 1.
    pub learning: Option<Box<Learning>>,
    /// Amplitude of the effect of a trial's seed on its values.
    pub luck: f64,
    /// Fault injection.
    pub faults: Box<Faults>,
    /// Rows that fit in memory, for trials of the built-in trainer: with more, a worker runs out of
    /// memory.
    pub room: Box<Room>,
    /// Clock errors: it may jump in both directions.
    pub clock_error: Box<ClockError>,
    /// Requests in order, each with the total number of reports at which it is made. An idle study
    /// gets the next at once.
    pub requests: Vec<(u64, Request)>,
}

/// The events of one turn: one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its time.
    pub at: Timestamp,
    /// Its events.
    pub events: Vec<Event>,
}

/// The result of a simulation.
#[derive(Debug)]
pub struct SimulationResult {
    /// All turns, including those it continued from.
    pub turns: Vec<Turn>,
    /// The final state.
    pub state: StudyState,
    /// The outcome.
    pub outcome: RunOutcome,
    /// Steps that workers carried out in this run.
    pub steps: u64,
    /// Peak memory of any shared device.
    pub most_memory: u64,
}

impl Simulation {
    /// A simulation without faults.
    pub fn new(
        spec: StudySpec,
        slots: usize,
        steps: u64,
        curve: impl Fn(&Params, u64) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Simulation {
            spec,
            slots,
            agents: Vec::new(),
            shared: None,
            per_device: 1,
            per_trial: 1,
            steps,
            step_time: Duration::from_millis(100),
            pace: Box::new(|_| 1.0),
            start_time: Duration::ZERO,
            leave_time: Duration::ZERO,
            checkpoints: true,
            saves: Box::new(|_, _| true),
            resumes: true,
            leaves: false,
            checkpoint_bytes: 1000,
            curve: Box::new(curve),
            others: Box::new(|params, _| {
                params.iter().filter_map(|(_, value)| value.as_number()).sum()
            }),
            learning: None,
            luck: 0.0,
            faults: Box::new(|_, _, _| None),
            room: Box::new(|_, _| usize::MAX),
            clock_error: Box::new(|_| 0),
            requests: Vec::new(),
        }
    }

    /// The devices of a slot.
    fn devices(&self, slot: usize) -> DeviceGroup {
        let position = u32::try_from(slot / self.per_device.max(1)).unwrap_or(0);
        let members = (0..self.per_trial).map(|member| position * self.per_trial + member);
        DeviceGroup::of(members.map(Device::Sim)).unwrap_or_else(|| Device::Sim(position).into())
    }

    /// Runs to the end, continuing from a journal (empty: from the start).
    pub fn run(&self, journal: &[Turn]) -> Result<SimulationResult, EngineError> {
        let mut state = StudyState::new(&self.spec);
        events_of(journal).for_each(|(at, event)| state.apply(at, event));
        let slots = (0..self.slots).map(|index| Slot::on(index, self.devices(index))).collect();
        // As a store keeps it: with extensions of the budget.
        let mut spec = self.spec.clone();
        spec.budget.extend(state.extension);
        let error = |turns: usize| (self.clock_error)(turns);
        let now = journal.last().map_or(Timestamp(0), |turn| {
            moved(turn.at, -error(journal.len() - 1)).after(Duration::from_secs(1))
        });
        // As the next runner does after a kill.
        let mut turns = journal.to_vec();
        if let Some(end) = end_of_last_runner(&state, journal) {
            let at = moved(now, error(turns.len()));
            state.apply(at, &end);
            turns.push(Turn { at, events: vec![end] });
        }
        let ends = events_of(&turns).filter_map(|(_, event)| event.attempt_end());
        let engine = Engine::new(spec, state, slots)?
            .with_journal(events_of(&turns))
            .with_events_of_open_attempts(events_of(&turns))
            .with_ends(ends);
        Ok(World::new(self, engine, now, turns).run())
    }
}

/// The end of the last runner, if it was killed.
fn end_of_last_runner(state: &StudyState, journal: &[Turn]) -> Option<Event> {
    let events: Vec<(Timestamp, &Event)> = events_of(journal).collect();
    let begun = events.iter().rposition(|(_, event)| {
        matches!(event, Event::Runner(RunnerEvent::Started { .. } | RunnerEvent::Stopped { .. }))
    })?;
    end_of_killed_runner(state.paused.is_some(), events[begun..].iter().copied())
}

fn events_of(turns: &[Turn]) -> impl Iterator<Item = (Timestamp, &Event)> {
    turns.iter().flat_map(|turn| turn.events.iter().map(|event| (turn.at, event)))
}
