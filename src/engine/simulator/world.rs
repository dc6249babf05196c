//! The world of a simulation: workers, clock, and scheduled events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use super::{Agent, Fault, Simulation, SimulationResult, Turn};
use crate::arguments::RowsAtOnce;
use crate::engine::concurrency::{Load, TrialLoad};
use crate::engine::{Assignment, Effect, Engine, Input, RunOutcome};
use crate::study::decision::Decision;
use crate::study::device::{Device, DeviceGroup};
use crate::study::event::{AttemptEnd, Event, StudyEvent};
use crate::study::metric::Metrics;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::request::Request;
use crate::study::spec::FailureCause;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Interval of load measurements.
const LOOK: Duration = Duration::from_secs(1);

/// An attempt by its trial and number.
type Key = (TrialNumber, AttemptNumber);

/// A scripted worker on its trial.
struct Worker {
    key: Key,
    params: Params,
    devices: DeviceGroup,
    luck: f64,
    step: u64,
    last: u64,
    /// What it learned, if trials learn.
    state: f64,
    /// Its training batch size; 0 if it is not the built-in trainer.
    rows: usize,
    /// The step at which it leaves, if it reads no answers.
    until: Option<u64>,
    /// Whether it has not made a step yet.
    starts: bool,
}

impl Worker {
    /// Its only device where devices are shared.
    fn device(&self) -> &Device {
        self.devices.first()
    }
}

enum What {
    Report(usize),
    Ended(Input),
    Look,
    /// An agent, by its index, comes back.
    Join(usize),
}

/// A time on a clock that is off by `micros`.
pub(super) fn moved(at: Timestamp, micros: i64) -> Timestamp {
    Timestamp(at.0.saturating_add(micros))
}

pub(super) struct World<'a> {
    simulation: &'a Simulation,
    engine: Engine,
    /// The true time, which is monotonic.
    now: Timestamp,
    /// Ties are broken by the order of scheduling.
    due: BTreeMap<(Timestamp, u64), What>,
    scheduled: u64,
    workers: Vec<Worker>,
    /// Running workers, by attempt.
    running: HashMap<Key, usize>,
    turns: Vec<Turn>,
    steps: u64,
    most_memory: u64,
    /// Absences of agents that have begun, by agent and index.
    absences: BTreeSet<(usize, usize)>,
    /// Whether loads are measured.
    looks: bool,
    /// Requests that were served, or passed to the engine in this run.
    asked: BTreeSet<i64>,
}

impl<'a> World<'a> {
    /// A world whose engine continues from `turns`.
    pub fn new(
        simulation: &'a Simulation,
        engine: Engine,
        now: Timestamp,
        turns: Vec<Turn>,
    ) -> Self {
        let mut world = World {
            simulation,
            engine,
            now,
            due: BTreeMap::new(),
            scheduled: 0,
            workers: Vec::new(),
            running: HashMap::new(),
            turns: Vec::new(),
            steps: 0,
            most_memory: 0,
            absences: BTreeSet::new(),
            looks: false,
            asked: BTreeSet::new(),
        };
        turns.iter().for_each(|turn| world.note_served(&turn.events));
        World { turns, ..world }
    }

    pub fn run(mut self) -> SimulationResult {
        let outcome = self.outcome();
        let World { turns, engine, steps, most_memory, .. } = self;
        SimulationResult { turns, state: engine.study_state().clone(), outcome, steps, most_memory }
    }

    fn outcome(&mut self) -> RunOutcome {
        let (pid, host) = (1, "simulated".to_owned());
        let mut inputs = vec![Input::Begin { pid, host, requests: self.requests_due() }];
        inputs.extend((0..self.simulation.agents.len()).map(|agent| self.joined(agent)));
        loop {
            for input in std::mem::take(&mut inputs) {
                if let Some(outcome) = self.turn(input) {
                    return outcome;
                }
                for input in self.departures() {
                    if let Some(outcome) = self.turn(input) {
                        return outcome;
                    }
                }
                for (id, request) in self.requests_due() {
                    if let Some(outcome) = self.turn(Input::Request { id, request }) {
                        return outcome;
                    }
                }
            }
            let next = self.due.first_key_value().map(|((at, _), _)| *at);
            let deadline =
                self.engine.deadline().map(|deadline| moved(deadline, -self.clock_error()));
            match (next, deadline) {
                (None, None) => match self.requests_after(u64::MAX).next() {
                    Some((id, request)) => inputs = vec![Input::Request { id, request }],
                    None => {
                        return RunOutcome::Broken("nothing is due, and it is not over".to_owned());
                    }
                },
                (Some(at), deadline) if deadline.is_none_or(|deadline| at <= deadline) => {
                    self.now = self.now.max(at);
                    if let Some((_, what)) = self.due.pop_first() {
                        inputs = self.inputs_of(what);
                    }
                }
                (_, deadline) => {
                    self.now = self.now.max(deadline.unwrap_or(self.now));
                    inputs = vec![Input::Tick];
                }
            }
        }
    }

    fn joined(&self, agent: usize) -> Input {
        let agent = &self.simulation.agents[agent];
        Input::AgentJoined {
            agent: agent.name.clone(),
            devices: vec![Device::Sim(0).on(&agent.name).into()],
            provenance: Box::new(agent.provenance.clone()),
        }
    }

    /// Agents that leave now: their trials save and exit, and they come back later.
    fn departures(&mut self) -> Vec<Input> {
        let simulation = self.simulation;
        let mut inputs = Vec::new();
        for (index, agent) in simulation.agents.iter().enumerate() {
            for (absence, (after, time)) in agent.absences.iter().enumerate() {
                if self.steps < *after || !self.absences.insert((index, absence)) {
                    continue;
                }
                let device = Device::Sim(0).on(&agent.name);
                let mut there: Vec<Key> = self.crowd(&device).map(|worker| worker.key).collect();
                there.sort_unstable();
                for key in there {
                    self.end(simulation.leave_time, key, AttemptEnd::Interrupted);
                }
                let reason = "its machine asks it to leave".to_owned();
                inputs.push(Input::AgentLeft { agent: agent.name.clone(), reason });
                self.schedule(*time, What::Join(index));
            }
        }
        inputs
    }

    /// The memory of a shared device.
    fn memory_of(&self, device: &Device) -> Option<u64> {
        let shared = self.simulation.shared.as_ref()?;
        let of_device = |agent: &&Agent| device.agent() == Some(&agent.name);
        let agent = self.simulation.agents.iter().find(of_device);
        Some(agent.map_or(shared.memory, |agent| agent.memory))
    }

    /// Requests that are due and were not made yet.
    fn requests_due(&mut self) -> Vec<(i64, Request)> {
        let trials = &self.engine.study_state().trials;
        let points: u64 = trials.iter().map(|trial| trial.curve.len() as u64).sum();
        self.requests_after(points).collect()
    }

    /// Requests that were not made yet and are due after this many reports.
    fn requests_after(&mut self, points: u64) -> impl Iterator<Item = (i64, Request)> {
        let simulation = self.simulation;
        let all = (0..).zip(&simulation.requests);
        let due = all.filter(move |(id, (after, _))| *after <= points && self.asked.insert(*id));
        due.map(|(id, (_, request))| (id, request.clone()))
    }

    fn note_served(&mut self, events: &[Event]) {
        self.asked.extend(events.iter().filter_map(|event| match event {
            Event::Study(StudyEvent::RequestServed { id, .. }) => Some(*id),
            _ => None,
        }));
    }

    fn turn(&mut self, input: Input) -> Option<RunOutcome> {
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

    fn carry_out(&mut self, effect: Effect) -> Option<RunOutcome> {
        match effect {
            Effect::Launch(assignment) => self.launch(assignment),
            Effect::Answer { trial, attempt, verdict } => {
                if let Some(index) = self.running.get(&(trial, attempt)).copied() {
                    match verdict {
                        Decision::Continue(_) if self.leaves(index) => {
                            self.end_now((trial, attempt), AttemptEnd::Completed)
                        }
                        Decision::Continue(_) => self.next_step(index),
                        Decision::Pause(_) => self.end_now((trial, attempt), AttemptEnd::Paused),
                        Decision::Stop(_) => self.end_now((trial, attempt), AttemptEnd::Stopped),
                    }
                }
            }
            Effect::Leave { trial, attempt } => {
                self.end(self.simulation.leave_time, (trial, attempt), AttemptEnd::Interrupted)
            }
            Effect::Kill { trial, attempt } => {
                self.end_now((trial, attempt), AttemptEnd::Failed(FailureCause::WorkerLost))
            }
            Effect::Finish(outcome) => return Some(outcome),
            Effect::Append(_)
            | Effect::Examine { .. }
            | Effect::Remove { .. }
            | Effect::Vacate { .. } => {}
        }
        None
    }

    fn launch(&mut self, assignment: Assignment) {
        let resume = assignment.resume.as_ref().filter(|_| self.simulation.resumes);
        let state = resume.and_then(|saved| state_of(&saved.path)).unwrap_or(1.0);
        let step = resume.map_or(0, |checkpoint| checkpoint.step);
        let key = (assignment.trial, assignment.attempt);
        self.running.insert(key, self.workers.len());
        let further = assignment.until.filter(|_| assignment.past_its_end);
        let last = further.map_or(self.simulation.steps, |until| until.max(self.simulation.steps));
        // 53 bits of seed, to a number from -1 to 1.
        #[expect(clippy::cast_precision_loss, reason = "seeds have 53 bits")]
        let luck = (assignment.seed as f64 / (1u64 << 52) as f64 - 1.0) * self.simulation.luck;
        let rows = assignment
            .rows_at_once
            .or_else(|| self.usual_rows(&assignment.params))
            .map_or(0, |rows| rows.train);
        let (params, devices) = (assignment.params, assignment.slot.devices);
        let until = assignment.until.filter(|_| self.simulation.leaves);
        let starts = true;
        let worker = Worker { key, params, devices, luck, step, last, state, rows, until, starts };
        self.workers.push(worker);
        self.next_step(self.workers.len() - 1);
        if self.simulation.shared.is_some() && !std::mem::replace(&mut self.looks, true) {
            self.schedule(LOOK, What::Look);
        }
    }

    /// The workers on a device.
    fn crowd(&self, device: &Device) -> impl Iterator<Item = &Worker> {
        self.running
            .values()
            .filter_map(|index| self.workers.get(*index))
            .filter(move |worker| worker.devices.contains(device))
    }

    fn memory(&self, worker: &Worker) -> u64 {
        let shared = self.simulation.shared.as_ref();
        shared.map_or(0, |shared| (shared.takes)(&worker.params, worker.step))
    }

    /// The memory in use on a device.
    fn used(&self, device: &Device) -> u64 {
        self.crowd(device).map(|worker| self.memory(worker)).sum()
    }

    /// Measures the loads of devices, and schedules the next measurement while a worker runs.
    fn look(&mut self) -> Vec<Input> {
        let devices: BTreeSet<Device> =
            self.running.values().map(|index| self.workers[*index].device().clone()).collect();
        let load = |device: &Device| {
            let load = |worker: &Worker| {
                let (trial, memory) = (worker.key.0, self.memory(worker));
                TrialLoad { trial, memory, cores: None }
            };
            let mut trials: Vec<TrialLoad> = self.crowd(device).map(load).collect();
            trials.sort_by_key(|load| load.trial);
            let (total, used) = (self.memory_of(device)?, self.used(device));
            Some(Load {
                device: device.clone(),
                total,
                used,
                cores: None,
                exclusive: false,
                trials,
            })
        };
        let loads: Vec<Load> = devices.iter().filter_map(load).collect();
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
        let device = self.workers[index].device().clone();
        let used = self.used(&device);
        self.most_memory = self.most_memory.max(used);
        let shared = self.simulation.shared.as_ref();
        let is_strict = shared.is_some_and(|shared| shared.is_strict);
        let is_short = is_strict && self.memory_of(&device).is_some_and(|memory| used > memory);
        // The speed is that of the concurrency at the beginning of the step.
        #[expect(clippy::cast_precision_loss, reason = "trials on a device are few")]
        let crowded = shared.map_or(1.0, |shared| {
            let crowd = self.crowd(&device).count().max(1);
            crowd as f64 / (shared.throughput)(crowd)
        });
        let worker = &self.workers[index];
        let (key, step, last) = (worker.key, worker.step, worker.last);
        let fault = if is_short || worker.rows > (self.simulation.room)(key.0, step) {
            Some(Fault::OutOfMemory)
        } else {
            (self.simulation.faults)(key.0, key.1, step)
        };
        let pace = (self.simulation.pace)(&worker.params) * crowded;
        let time = self.simulation.step_time.mul_f64(pace)
            * if fault == Some(Fault::Slow) { 100 } else { 1 };
        let starts = std::mem::replace(&mut self.workers[index].starts, false);
        let time = time + if starts { self.simulation.start_time } else { Duration::ZERO };
        match fault.map(|fault| (fault, fault.cause())) {
            _ if step > last => self.end_now(key, AttemptEnd::Completed),
            Some((_, Some(cause))) => self.end(time, key, AttemptEnd::Failed(cause)),
            Some((Fault::Hang, None)) => {}
            Some((Fault::Refuse, None)) => self.end_now(key, AttemptEnd::Refused),
            _ => self.schedule(time, What::Report(index)),
        }
    }

    /// Whether a worker leaves at the step that it reported.
    fn leaves(&self, index: usize) -> bool {
        let worker = &self.workers[index];
        worker.until.is_some_and(|until| worker.step >= until)
    }

    fn schedule(&mut self, delay: Duration, what: What) {
        self.scheduled += 1;
        self.due.insert((self.now.after(delay), self.scheduled), what);
    }

    /// Ends an attempt after a delay, as an input in a turn of its own.
    fn end(&mut self, delay: Duration, key: Key, end: AttemptEnd) {
        if self.running.remove(&key).is_some() {
            let (trial, attempt) = key;
            self.schedule(delay, What::Ended(Input::Ended { trial, attempt, end, message: None }));
        }
    }

    fn end_now(&mut self, key: Key, end: AttemptEnd) {
        self.end(Duration::ZERO, key, end);
    }

    fn inputs_of(&mut self, what: What) -> Vec<Input> {
        let index = match what {
            What::Ended(input) => return vec![input],
            What::Look => return self.look(),
            What::Join(agent) => return vec![self.joined(agent)],
            What::Report(index) => index,
        };
        let worker = &mut self.workers[index];
        let ((trial, attempt), step) = (worker.key, worker.step);
        if !self.running.contains_key(&worker.key) {
            return Vec::new();
        }
        if let Some(learning) = &self.simulation.learning {
            worker.state = learning(worker.state, &worker.params);
        }
        self.steps += 1;
        let is_nan = (self.simulation.faults)(trial, attempt, step) == Some(Fault::NotANumber);
        let value = if is_nan {
            f64::NAN
        } else {
            match &self.simulation.learning {
                Some(_) => worker.state,
                None => (self.simulation.curve)(&worker.params, step) + worker.luck,
            }
        };
        let objectives = self.simulation.spec.objective_names().into_iter();
        let others =
            std::iter::repeat_with(|| (self.simulation.others)(&self.workers[index].params, step));
        let values = std::iter::once(value).chain(others);
        let metrics: Metrics = objectives.zip(values).collect();
        let worker = &self.workers[index];
        let learns = self.simulation.learning.is_some();
        let digest = learns.then(|| format!("{:016x}", worker.state.to_bits()));
        let path = format!("/simulated/trial-{trial}/checkpoint-{step}");
        let path = digest.as_ref().map_or(path.clone(), |state| format!("{path}/{state}")).into();
        let bytes = Some(self.simulation.checkpoint_bytes);
        let checkpoint =
            Input::Checkpoint { trial, attempt, step, path, bytes, system: None, digest };
        let saves = self.simulation.checkpoints && (self.simulation.saves)(attempt, step);
        let saved = Some(checkpoint).filter(|_| saves);
        saved.into_iter().chain([Input::Report { trial, attempt, step, metrics }]).collect()
    }
}

/// The state in the path of a checkpoint of a trial that learns.
fn state_of(path: &Path) -> Option<f64> {
    let bits = u64::from_str_radix(path.file_name()?.to_str()?, 16).ok()?;
    Some(f64::from_bits(bits))
}
