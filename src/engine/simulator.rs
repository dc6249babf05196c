//! Runs an engine against scripted workers under a virtual clock: searches in microseconds, faults on demand.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::time::Duration;

use super::packing::{Load, TrialLoad};
use super::{Assignment, Effect, Engine, EngineError, Input, Outcome, end_of_killed_runner};
use crate::arguments::RowsAtOnce;
use crate::study::decision::Verdict;
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, Event, Request};
use crate::study::metric::Metrics;
use crate::study::params::Params;
use crate::study::spec::{FailureCause, Program, StudySpec};
use crate::study::state::StudyView;
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

/// How often the loads of devices are told.
const LOOK: Duration = Duration::from_secs(1);

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
    /// How many rows have room, where trials are the built-in trainer's: with more, a worker runs out of memory.
    pub room: Box<Room>,
    /// How wrong the clock is: it may jump, forward and back.
    pub clock_error: Box<ClockError>,
    /// What is asked, and once the curves of all trials have how many points; in that order. A study that waits hears the
    /// next at once.
    pub requests: Vec<(u64, Request)>,
}

/// The events of one turn: what one transaction writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// When.
    pub at: Timestamp,
    /// What.
    pub events: Vec<Event>,
}

/// What a simulation did.
#[derive(Debug)]
pub struct Run {
    /// All turns, those it went on from included.
    pub turns: Vec<Turn>,
    /// The state at the end.
    pub view: StudyView,
    /// How it ended.
    pub outcome: Outcome,
    /// Steps that workers carried out in this run.
    pub steps: u64,
    /// The most memory that was in use at a moment, of any device that trials shared.
    pub most_memory: u64,
}

/// A scripted worker on its trial.
struct Worker {
    trial: TrialNumber,
    attempt: AttemptNumber,
    params: Params,
    device: Device,
    luck: f64,
    step: u64,
    last: u64,
    /// Training rows that it handles at once; 0 where it is not the built-in trainer.
    rows: usize,
}

/// Something due at a moment; ties are broken by the order of scheduling.
struct Due {
    at: Timestamp,
    order: u64,
    what: What,
}

enum What {
    Report(usize),
    Ended(Input),
    Look,
}

impl Ord for Due {
    /// Reversed: a heap gives the largest first, and the earliest is wanted.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

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

    /// Runs to the end, going on from a journal (empty: from the start).
    pub fn run(&self, journal: &[Turn]) -> Result<Run, EngineError> {
        let mut view = StudyView::new(&self.spec);
        for turn in journal {
            turn.events.iter().for_each(|event| view.apply(turn.at, event));
        }
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
        let ends = turns.iter().flat_map(|turn| turn.events.iter().filter_map(Event::attempt_end));
        let events = turns.iter().flat_map(|turn| turn.events.iter().map(|event| (turn.at, event)));
        let engine = Engine::new(spec, view, slots)?.with_journal(events).with_ends(ends);
        let mut world = World {
            simulation: self,
            engine,
            now,
            due: BinaryHeap::new(),
            scheduled: 0,
            workers: Vec::new(),
            turns,
            places: HashMap::new(),
            steps: 0,
            most_memory: 0,
            looks: false,
            asked: BTreeSet::new(),
        };
        journal.iter().for_each(|turn| world.note_served(&turn.events));
        let outcome = world.run();
        Ok(Run {
            turns: world.turns,
            view: world.engine.view().clone(),
            outcome,
            steps: world.steps,
            most_memory: world.most_memory,
        })
    }
}

/// A moment on a clock that is off by `micros`.
fn moved(at: Timestamp, micros: i64) -> Timestamp {
    Timestamp(at.0.saturating_add(micros))
}

/// The end of the last runner, if it was killed.
fn end_of_last_runner(view: &StudyView, journal: &[Turn]) -> Option<Event> {
    let events: Vec<(Timestamp, &Event)> =
        journal.iter().flat_map(|turn| turn.events.iter().map(|event| (turn.at, event))).collect();
    let begun = events.iter().rposition(|(_, event)| {
        matches!(event, Event::RunnerStarted { .. } | Event::RunnerStopped { .. })
    })?;
    end_of_killed_runner(view.paused.is_some(), events[begun..].iter().copied())
}

struct World<'a> {
    simulation: &'a Simulation,
    engine: Engine,
    /// The true time, which passes evenly.
    now: Timestamp,
    due: BinaryHeap<Due>,
    scheduled: u64,
    workers: Vec<Worker>,
    places: HashMap<(TrialNumber, AttemptNumber), usize>,
    turns: Vec<Turn>,
    steps: u64,
    most_memory: u64,
    /// Whether loads are being told.
    looks: bool,
    /// Requests that were served, or handed to the engine in this run.
    asked: BTreeSet<i64>,
}

impl World<'_> {
    fn run(&mut self) -> Outcome {
        let mut inputs = vec![Input::Begin {
            pid: 1,
            host: "simulated".to_owned(),
            requests: self.requests_due(),
        }];
        loop {
            for input in std::mem::take(&mut inputs) {
                if let Some(outcome) = self.turn(input) {
                    return outcome;
                }
                for (id, request) in self.requests_due() {
                    if let Some(outcome) = self.turn(Input::Request { id, request }) {
                        return outcome;
                    }
                }
            }
            let next = self.due.peek().map(|due| due.at);
            let deadline =
                self.engine.deadline().map(|deadline| moved(deadline, -self.clock_error()));
            match (next, deadline) {
                (None, None) => match self.next_request() {
                    Some((id, request)) => inputs = vec![Input::Request { id, request }],
                    None => {
                        return Outcome::Broken(
                            "nothing is due, and the study is not over".to_owned(),
                        );
                    }
                },
                (Some(at), deadline) if deadline.is_none_or(|deadline| at <= deadline) => {
                    self.now = self.now.max(at);
                    if let Some(due) = self.due.pop() {
                        inputs = self.inputs_of(due.what);
                    }
                }
                (_, deadline) => {
                    self.now = self.now.max(deadline.unwrap_or(self.now));
                    inputs = vec![Input::Tick];
                }
            }
        }
    }

    /// The requests whose moment has come, and that nobody has heard.
    fn requests_due(&mut self) -> Vec<(i64, Request)> {
        let simulation = self.simulation;
        let points: u64 =
            self.engine.view().trials.iter().map(|trial| trial.curve.len() as u64).sum();
        let mut due = Vec::new();
        for (id, (after, request)) in (0..).zip(&simulation.requests) {
            if *after <= points && self.asked.insert(id) {
                due.push((id, request.clone()));
            }
        }
        due
    }

    fn next_request(&mut self) -> Option<(i64, Request)> {
        let waiting = (0..).zip(&self.simulation.requests).find(|(id, _)| !self.asked.contains(id));
        let (id, request) = waiting.map(|(id, (_, request))| (id, request.clone()))?;
        self.asked.insert(id);
        Some((id, request))
    }

    fn note_served(&mut self, events: &[Event]) {
        let served = events.iter().filter_map(|event| {
            if let Event::RequestServed { id, .. } = event { Some(*id) } else { None }
        });
        self.asked.extend(served);
    }

    fn turn(&mut self, input: Input) -> Option<Outcome> {
        let now = moved(self.now, self.clock_error());
        let effects = self.engine.step(now, input);
        let events: Vec<Event> = effects.iter().filter_map(Effect::event).cloned().collect();
        self.note_served(&events);
        if !events.is_empty() {
            self.turns.push(Turn { at: now, events });
        }
        effects.into_iter().find_map(|effect| self.carry_out(effect))
    }

    fn clock_error(&self) -> i64 {
        (self.simulation.clock_error)(self.turns.len())
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Outcome> {
        match effect {
            Effect::Launch(assignment) => self.launch(assignment),
            Effect::Answer { trial, attempt, verdict } => self.answer(trial, attempt, &verdict),
            Effect::Leave { trial, attempt } => {
                self.end(self.simulation.leave_time, trial, attempt, AttemptEnd::Interrupted)
            }
            Effect::Kill { trial, attempt } => self.end(
                Duration::ZERO,
                trial,
                attempt,
                AttemptEnd::Failed(FailureCause::WorkerLost),
            ),
            Effect::Finish(outcome) => return Some(outcome),
            Effect::Append(_)
            | Effect::Examine { .. }
            | Effect::Remove { .. }
            | Effect::Vacate { .. } => {}
        }
        None
    }

    fn launch(&mut self, assignment: Assignment) {
        let step = assignment.resume.map_or(0, |checkpoint| checkpoint.step);
        self.places.insert((assignment.trial, assignment.attempt), self.workers.len());
        let further = assignment.until.filter(|_| assignment.past_its_end);
        let last = further.map_or(self.simulation.steps, |until| until.max(self.simulation.steps));
        // 53 bits of seed, to a number from -1 to 1.
        #[expect(clippy::cast_precision_loss, reason = "seeds have 53 bits")]
        let luck = (assignment.seed as f64 / (1u64 << 52) as f64 - 1.0) * self.simulation.luck;
        let rows = assignment
            .rows_at_once
            .or_else(|| self.usual_rows(&assignment.params))
            .map_or(0, |rows| rows.train);
        let device = assignment.slot.device;
        self.workers.push(Worker {
            trial: assignment.trial,
            attempt: assignment.attempt,
            params: assignment.params,
            device,
            luck,
            step,
            last,
            rows,
        });
        self.next_step(self.workers.len() - 1);
        if self.simulation.shared.is_some() && !std::mem::replace(&mut self.looks, true) {
            self.schedule(LOOK, What::Look);
        }
    }

    /// The workers on a device.
    fn crowd(&self, device: &Device) -> impl Iterator<Item = &Worker> {
        self.places
            .values()
            .filter_map(|index| self.workers.get(*index))
            .filter(move |worker| worker.device == *device)
    }

    fn memory(&self, worker: &Worker) -> u64 {
        self.simulation
            .shared
            .as_ref()
            .map_or(0, |shared| (shared.takes)(&worker.params, worker.step))
    }

    fn note_memory(&mut self, device: &Device) {
        let used = self.crowd(device).map(|worker| self.memory(worker)).sum();
        self.most_memory = self.most_memory.max(used);
    }

    /// Whether more memory is wanted than a device has.
    fn is_short(&self, device: &Device) -> bool {
        let used: u64 = self.crowd(device).map(|worker| self.memory(worker)).sum();
        self.simulation
            .shared
            .as_ref()
            .is_some_and(|shared| shared.is_strict && used > shared.memory)
    }

    /// What devices take now, and the next look while somebody works.
    fn look(&mut self) -> Vec<Input> {
        let Some(shared) = &self.simulation.shared else { return Vec::new() };
        let devices: BTreeSet<Device> =
            self.places.values().map(|index| self.workers[*index].device.clone()).collect();
        let load = |device: &Device| {
            let mut trials: Vec<TrialLoad> = self
                .crowd(device)
                .map(|worker| TrialLoad {
                    trial: worker.trial,
                    memory: self.memory(worker),
                    cores: None,
                })
                .collect();
            trials.sort_by_key(|load| load.trial);
            Load {
                device: device.clone(),
                total: shared.memory,
                used: trials.iter().map(|load| load.memory).sum(),
                cores: None,
                exclusive: false,
                trials,
            }
        };
        let loads: Vec<Load> = devices.iter().map(load).collect();
        self.looks = !loads.is_empty();
        if self.looks {
            self.schedule(LOOK, What::Look);
        }
        vec![Input::Load(loads)]
    }

    fn usual_rows(&self, params: &Params) -> Option<RowsAtOnce> {
        let Program::Trainer { arguments, .. } = &self.simulation.spec.program else { return None };
        let searched = params.iter().map(|(name, value)| (name.to_owned(), value.to_json()));
        RowsAtOnce::that_may_be_halved(&arguments.clone().into_iter().chain(searched).collect())
    }

    fn next_step(&mut self, index: usize) {
        self.workers[index].step += 1;
        let device = self.workers[index].device.clone();
        self.note_memory(&device);
        // As fast as so many at a time let it be when the step begins.
        #[expect(clippy::cast_precision_loss, reason = "trials on a device are few")]
        let crowded = self.simulation.shared.as_ref().map_or(1.0, |shared| {
            let crowd = self.crowd(&device).count().max(1);
            crowd as f64 / (shared.throughput)(crowd)
        });
        let worker = &self.workers[index];
        let (trial, attempt, step, last) = (worker.trial, worker.attempt, worker.step, worker.last);
        let is_starved =
            worker.rows > (self.simulation.room)(trial, step) || self.is_short(&device);
        let fault = if is_starved {
            Some(Fault::OutOfMemory)
        } else {
            (self.simulation.faults)(trial, attempt, step)
        };
        let pace = (self.simulation.pace)(&worker.params) * crowded;
        let time = self.simulation.step_time.mul_f64(pace)
            * if fault == Some(Fault::Slow) { 100 } else { 1 };
        if step > last {
            self.end(Duration::ZERO, trial, attempt, AttemptEnd::Completed);
            return;
        }
        match fault.map(|fault| (fault, fault.cause())) {
            Some((_, Some(cause))) => self.end(time, trial, attempt, AttemptEnd::Failed(cause)),
            Some((Fault::Hang, None)) => {}
            Some((Fault::Refuse, None)) => {
                self.end(Duration::ZERO, trial, attempt, AttemptEnd::Refused)
            }
            _ => self.schedule(time, What::Report(index)),
        }
    }

    fn schedule(&mut self, delay: Duration, what: What) {
        self.scheduled += 1;
        self.due.push(Due { at: self.now.after(delay), order: self.scheduled, what });
    }

    /// Ends an attempt after a delay: its end is an input in a turn of its own, like any other.
    fn end(
        &mut self,
        delay: Duration,
        trial: TrialNumber,
        attempt: AttemptNumber,
        end: AttemptEnd,
    ) {
        if self.places.remove(&(trial, attempt)).is_some() {
            self.schedule(delay, What::Ended(Input::Ended { trial, attempt, end, message: None }));
        }
    }

    fn inputs_of(&mut self, what: What) -> Vec<Input> {
        let index = match what {
            What::Ended(input) => return vec![input],
            What::Look => return self.look(),
            What::Report(index) => index,
        };
        let worker = &self.workers[index];
        let (trial, attempt, step) = (worker.trial, worker.attempt, worker.step);
        if !self.places.contains_key(&(trial, attempt)) {
            return Vec::new();
        }
        self.steps += 1;
        let is_nan = (self.simulation.faults)(trial, attempt, step) == Some(Fault::NotANumber);
        let value = if is_nan {
            f64::NAN
        } else {
            (self.simulation.curve)(&worker.params, step) + worker.luck
        };
        let metrics: Metrics =
            [(self.simulation.spec.objective().metric.clone(), value)].into_iter().collect();
        let mut inputs = Vec::new();
        if self.simulation.checkpoints {
            let path = format!("/simulated/trial-{trial}/checkpoint-{step}").into();
            inputs.push(Input::Checkpoint {
                trial,
                attempt,
                step,
                path,
                bytes: Some(self.simulation.checkpoint_bytes),
                system: None,
            });
        }
        inputs.push(Input::Report { trial, attempt, step, metrics });
        inputs
    }

    fn answer(&mut self, trial: TrialNumber, attempt: AttemptNumber, verdict: &Verdict) {
        let Some(index) = self.places.get(&(trial, attempt)).copied() else { return };
        match verdict {
            Verdict::Continue(_) => self.next_step(index),
            Verdict::Pause(_) => self.end(Duration::ZERO, trial, attempt, AttemptEnd::Paused),
            Verdict::Stop(_) => self.end(Duration::ZERO, trial, attempt, AttemptEnd::Stopped),
        }
    }
}
