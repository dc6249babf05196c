//! Runs an engine against scripted workers under a virtual clock: searches in microseconds, faults
//! on demand.

mod world;

use std::time::Duration;

use world::{World, moved};

use super::{Engine, EngineError, Outcome, end_of_killed_runner};
use crate::study::device::{Device, Slot};
use crate::study::event::{Event, Request, RunnerEvent};
use crate::study::params::Params;
use crate::study::spec::{FailureCause, StudySpec};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// What goes wrong with a scripted worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process dies instead of reporting.
    Crash,
    /// It never says anything again.
    Hang,
    /// It reports NaN.
    NotANumber,
    /// It takes a hundred times as long for the step.
    Slow,
    /// Its program ends with an error.
    Fail,
    /// It runs out of memory.
    OutOfMemory,
    /// Its device goes away.
    LoseDevice,
    /// The machine refuses what it needs.
    Refuse,
}

impl Fault {
    /// What an attempt that ends with it is told to have ended of.
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

/// The value of a point at a step.
pub type Curve = dyn Fn(&Params, u64) -> f64 + Send + Sync;

/// How much longer a step of a point takes than others.
pub type Pace = dyn Fn(&Params) -> f64 + Send + Sync;

/// The fault of an attempt at a step, if any.
pub type Faults = dyn Fn(TrialNumber, AttemptNumber, u64) -> Option<Fault> + Send + Sync;

/// How many training rows have room in memory at once at a step of a trial.
pub type Room = dyn Fn(TrialNumber, u64) -> usize + Send + Sync;

/// How many microseconds the clock that the engine is told is off, after so many turns.
pub type ClockError = dyn Fn(usize) -> i64 + Send + Sync;

/// The bytes that a point's trial takes at a step.
pub type Takes = dyn Fn(&Params, u64) -> u64 + Send + Sync;

/// How many times as much as with one trial is done with so many.
pub type Throughput = dyn Fn(usize) -> f64 + Send + Sync;

/// A device that trials share: its memory, and how much it does.
pub struct Shared {
    /// Its memory, in bytes.
    pub memory: u64,
    /// What a trial takes at a step.
    pub takes: Box<Takes>,
    /// How many times as much as with one trial is done with so many.
    pub throughput: Box<Throughput>,
    /// Whether who wants more memory than there is ends for want of it.
    pub is_strict: bool,
}

/// A study with scripted workers.
pub struct Simulation {
    /// The study.
    pub spec: StudySpec,
    /// How many slots.
    pub slots: usize,
    /// What devices are like that trials share, where they share themselves out.
    pub shared: Option<Shared>,
    /// Slots of each device.
    pub per_device: usize,
    /// Steps of a full trial.
    pub steps: u64,
    /// Virtual time of a step.
    pub step_time: Duration,
    /// How much longer than `step_time` a step of a point takes.
    pub pace: Box<Pace>,
    /// Virtual time that a worker takes to leave when it is asked to.
    pub leave_time: Duration,
    /// Whether workers save a checkpoint before each report.
    pub checkpoints: bool,
    /// What a checkpoint takes on the disk.
    pub checkpoint_bytes: u64,
    /// The objective.
    pub curve: Box<Curve>,
    /// How much a trial's seed moves its values: up to so much down or up.
    pub luck: f64,
    /// What goes wrong.
    pub faults: Box<Faults>,
    /// How many rows have room, where trials are the built-in trainer's: with more, a worker runs
    /// out of memory.
    pub room: Box<Room>,
    /// How wrong the clock is: it may jump, forward and back.
    pub clock_error: Box<ClockError>,
    /// What is asked, and once the curves of all trials have how many points; in that order. A
    /// study that waits hears the next at once.
    pub requests: Vec<(u64, Request)>,
}

/// The events of one turn: what one transaction writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Time of it.
    pub at: Timestamp,
    /// What the turn wrote.
    pub events: Vec<Event>,
}

/// What a simulation did.
#[derive(Debug)]
pub struct Run {
    /// All turns, those it continued from included.
    pub turns: Vec<Turn>,
    /// The state at the end.
    pub view: StudyState,
    /// How it ended.
    pub outcome: Outcome,
    /// Steps that workers carried out in this run.
    pub steps: u64,
    /// The most memory that was in use at a moment, of any device that trials shared.
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
            shared: None,
            per_device: 1,
            steps,
            step_time: Duration::from_millis(100),
            pace: Box::new(|_| 1.0),
            leave_time: Duration::ZERO,
            checkpoints: true,
            checkpoint_bytes: 1000,
            curve: Box::new(curve),
            luck: 0.0,
            faults: Box::new(|_, _, _| None),
            room: Box::new(|_, _| usize::MAX),
            clock_error: Box::new(|_| 0),
            requests: Vec::new(),
        }
    }

    /// Runs to the end, continuing from a journal (empty: from the start).
    pub fn run(&self, journal: &[Turn]) -> Result<Run, EngineError> {
        let mut view = StudyState::new(&self.spec);
        events_of(journal).for_each(|(at, event)| view.apply(at, event));
        let device =
            |index: usize| Device::Sim(u32::try_from(index / self.per_device.max(1)).unwrap_or(0));
        let slots = (0..self.slots).map(|index| Slot { index, device: device(index) }).collect();
        // As a store keeps it: with what was added to its budget.
        let mut spec = self.spec.clone();
        spec.budget.extend(view.extension);
        let error = |turns: usize| (self.clock_error)(turns);
        let now = journal.last().map_or(Timestamp(0), |turn| {
            moved(turn.at, -error(journal.len() - 1)).after(Duration::from_secs(1))
        });
        // As the next runner does for one that was killed.
        let mut turns = journal.to_vec();
        if let Some(end) = end_of_last_runner(&view, journal) {
            let at = moved(now, error(turns.len()));
            view.apply(at, &end);
            turns.push(Turn { at, events: vec![end] });
        }
        let ends = events_of(&turns).filter_map(|(_, event)| event.attempt_end());
        let engine =
            Engine::new(spec, view, slots)?.with_journal(events_of(&turns)).with_ends(ends);
        Ok(World::new(self, engine, now, turns).run())
    }
}

/// The end of the last runner, if it was killed.
fn end_of_last_runner(view: &StudyState, journal: &[Turn]) -> Option<Event> {
    let events: Vec<(Timestamp, &Event)> = events_of(journal).collect();
    let begun = events.iter().rposition(|(_, event)| {
        matches!(event, Event::Runner(RunnerEvent::Started { .. } | RunnerEvent::Stopped { .. }))
    })?;
    end_of_killed_runner(view.paused.is_some(), events[begun..].iter().copied())
}

fn events_of(turns: &[Turn]) -> impl Iterator<Item = (Timestamp, &Event)> {
    turns.iter().flat_map(|turn| turn.events.iter().map(|event| (turn.at, event)))
}
