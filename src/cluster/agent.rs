//! The agent: runs trials for a runner on another machine, and relays their messages.

mod connector;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select, unbounded};

pub use self::connector::Way;
use self::connector::{Connected, LinkEvent};
use super::message::{
    Act, AttemptOf, Hello, PROTOCOL, SentSeries, ToAgent, ToRunner, Welcome, bytes, envelope,
};
use super::outbox::Outbox;
use crate::engine::{Assignment, Input};
use crate::runner::clock::Clock;
use crate::runner::launcher::{Job, Launcher};
use crate::runner::point_queue::PointQueue;
use crate::runner::process::ProcessLauncher;
use crate::runner::slots::{Machine, slots};
use crate::runner::system_metrics::SystemMetrics;
use crate::runner::{now, processes, threads};
use crate::storage::paths::StudyFiles;
use crate::study::device::Slot;
use crate::study::event::AttemptEnd;
use crate::study::program::{EnvironmentValue, Program};
use crate::study::spec::StudySpec;

/// Longest interval between looks at deadlines and points.
const LOOK: Duration = Duration::from_millis(100);

/// Time for the last messages to be stored at the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEnd {
    /// The runner needs it no more.
    Dismissed,
    /// A signal asked it to leave.
    Interrupted,
    /// It could not be used, or lost its runner.
    Unusable(String),
}

/// An agent of one study.
pub struct Agent {
    program: PathBuf,
    devices: Vec<String>,
    /// What connections begin with, except for `received`, `first` and `attempts`.
    hello: Hello,
    outbox: Outbox,
    /// The last message that was received.
    received: u64,
    link: Option<Connected>,
    /// Set at the first greeting.
    work: Option<Work>,
    /// Attempts whose end is not acknowledged: the number of that message, once it has ended.
    attempts: BTreeMap<AttemptOf, Option<u64>>,
    /// Their last reports without an answer, with the numbers of those messages.
    unanswered: BTreeMap<AttemptOf, (u64, Input)>,
    pings: VecDeque<(u64, Instant)>,
    ping: u64,
    pinged: Option<Instant>,
    lost_after: Duration,
    grace: Duration,
    /// Until when trials may run without an answer.
    lease: Instant,
    /// When the trials that are asked to leave are killed, and why they are.
    leaving: Option<(Instant, AgentEnd)>,
    inputs: Sender<Input>,
    heard: Receiver<Input>,
}

/// What is needed to run trials of a study.
struct Work {
    launcher: ProcessLauncher,
    jobs: BTreeMap<AttemptOf, Box<dyn Job>>,
    /// Attempts that wait for the end of another one of their trial.
    deferred: Vec<Assignment>,
    points: Arc<PointQueue>,
    clock: Clock,
    /// Microseconds by which the runner's clock is ahead. Never less than before: series are in the
    /// order of their times.
    ahead: i64,
    system_metrics: Option<SystemMetrics>,
}

impl Agent {
    /// An agent whose trials are started by `program`, the hpsearch executable, on `devices`; none:
    /// those of `[devices] use`. The sender is for signals.
    pub fn new(program: PathBuf, devices: Vec<String>) -> (Self, Sender<Input>) {
        let (inputs, heard) = unbounded();
        let pid = std::process::id();
        let started = processes::start_time(pid).unwrap_or(0);
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session: format!("{}.{pid}.{started}.{}", processes::host(), now().0),
            name: None,
            host: processes::host(),
            pid,
            runner: None,
            received: 0,
            first: 1,
            attempts: Vec::new(),
            can_return: false,
        };
        let signals = inputs.clone();
        let agent = Agent {
            program,
            devices,
            hello,
            outbox: Outbox::default(),
            received: 0,
            link: None,
            work: None,
            attempts: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            pings: VecDeque::new(),
            ping: 0,
            pinged: None,
            lost_after: Duration::from_secs(120),
            grace: Duration::ZERO,
            lease: Instant::now() + Duration::from_secs(120),
            leaving: None,
            inputs,
            heard,
        };
        (agent, signals)
    }

    /// Works until the runner needs it no more, or is lost.
    pub fn run(mut self, way: Way) -> AgentEnd {
        self.hello.can_return = !matches!(way, Way::StandardStreams);
        let events = match connector::start(way) {
            Ok(events) => events,
            Err(error) => return AgentEnd::Unusable(format!("cannot start a thread: {error}")),
        };
        let heard = self.heard.clone();
        let end = loop {
            select! {
                recv(heard) -> input => input.into_iter().for_each(|input| self.hear(input)),
                recv(events) -> event => match event {
                    Ok(event) => {
                        if let Some(end) = self.follow(event) {
                            break end;
                        }
                    }
                    // A pipe that is closed comes back never.
                    Err(_) if self.attempts.is_empty() => {
                        break AgentEnd::Unusable("its runner is gone".to_owned());
                    }
                    Err(_) => {
                        self.leave(AgentEnd::Unusable("its runner is gone".to_owned()));
                        threads::sleep(LOOK);
                    }
                },
                default(LOOK) => {}
            }
            if let Some(end) = self.look() {
                break end;
            }
        };
        if let Some(work) = &mut self.work {
            work.points.close();
            work.jobs.values_mut().for_each(|job| job.kill());
            work.launcher.shut_down();
            work.launcher.sweep();
        }
        if self.link.is_some() {
            self.put(&ToRunner::Left);
            self.wait_until_stored(&events);
        }
        end
    }

    /// Waits until the runner has all messages, or does not answer.
    fn wait_until_stored(&mut self, events: &Receiver<LinkEvent>) {
        let until = Instant::now() + FAREWELL;
        // The runner closes the connection once it has read the last message.
        while let Ok(event) = events.recv_deadline(until) {
            match event {
                LinkEvent::Frame(frame) => self.outbox.acknowledge(frame.received),
                LinkEvent::Closed | LinkEvent::Refused(_) | LinkEvent::NoRunner => return,
                LinkEvent::Open(..) | LinkEvent::Greet(_) => {}
            }
        }
    }

    fn follow(&mut self, event: LinkEvent) -> Option<AgentEnd> {
        match event {
            LinkEvent::Greet(told) => {
                let attempts = self.attempts.keys().copied().collect();
                let (received, first) = (self.received, self.outbox.first());
                let hello = Hello { received, first, attempts, ..self.hello.clone() };
                // The connection is gone again.
                let _ended = told.send(hello);
            }
            LinkEvent::Open(connected, welcome) => {
                if let Err(why) = self.greet(connected, *welcome) {
                    self.put(&ToRunner::Unfit { why: why.clone() });
                    return Some(AgentEnd::Unusable(why));
                }
            }
            LinkEvent::Refused(why) => return Some(AgentEnd::Unusable(why)),
            LinkEvent::Closed => self.link = None,
            LinkEvent::NoRunner => {
                let is_idle = self.work.as_ref().is_some_and(|work| work.jobs.is_empty());
                return is_idle.then_some(AgentEnd::Dismissed);
            }
            LinkEvent::Frame(frame) => {
                self.outbox.acknowledge(frame.received);
                let stored = frame.received;
                self.attempts.retain(|_, end| end.is_none_or(|number| number > stored));
                match frame.number {
                    Some(number) if number == self.received + 1 => self.received = number,
                    // It came before, or a connection that is replaced was read to its end.
                    Some(number) if number <= self.received => return None,
                    Some(_) => {
                        let why = "messages of its runner were lost".to_owned();
                        self.leave(AgentEnd::Unusable(why));
                        return None;
                    }
                    None => {}
                }
                if self.carry_out(frame.message) {
                    return Some(AgentEnd::Dismissed);
                }
            }
        }
        None
    }

    /// Takes up the connection to a runner.
    fn greet(&mut self, connected: Connected, welcome: Welcome) -> Result<(), String> {
        let is_new = self.hello.runner.as_ref() != Some(&welcome.runner);
        self.lost_after = Duration::from_micros(welcome.lost_after_micros);
        self.grace = Duration::from_micros(welcome.grace_micros);
        self.lease = Instant::now() + self.lost_after;
        self.pings.clear();
        if is_new {
            self.received = 0;
        }
        self.hello.name = Some(welcome.name.clone());
        self.hello.runner = Some(welcome.runner.clone());
        self.link = Some(connected);
        let kept: BTreeSet<AttemptOf> = welcome.attempts.iter().copied().collect();
        let received = welcome.received;
        let places = match &mut self.work {
            Some(work) => {
                work.ahead = work.ahead.max(welcome.now.0 - work.clock.now().0);
                Vec::new()
            }
            None => {
                let mut welcome = welcome;
                if !self.devices.is_empty() {
                    welcome.spec.devices.select.clone_from(&self.devices);
                }
                let (work, places) = Work::begin(self.program.clone(), welcome)?;
                self.work = Some(work);
                places
            }
        };
        let work = self.work.as_mut().expect("it was begun above");
        for (attempt, job) in &mut work.jobs {
            if !kept.contains(attempt) {
                job.kill();
            }
        }
        work.deferred.retain(|waits| kept.contains(&(waits.trial, waits.attempt)));
        for number in self.outbox.first().max(received + 1)..=self.outbox.last() {
            let Ok(Some(message)) = self.outbox.get(number) else {
                return Err("its spool cannot be read".to_owned());
            };
            self.send_raw(Some(number), &message);
        }
        if is_new {
            self.report_again();
        }
        if let Some((_, end)) = &self.leaving {
            if is_new {
                let why = match end {
                    AgentEnd::Unusable(why) => why.clone(),
                    _ => "its machine asks it to leave".to_owned(),
                };
                self.put(&ToRunner::Leaving { why });
            }
            return Ok(());
        }
        let slots = match places.is_empty() {
            // A new runner does not know them.
            true if is_new => work_slots(&self.work)?,
            true => return Ok(()),
            false => places,
        };
        let devices = slots.into_iter().map(|slot| slot.devices).collect();
        self.put(&ToRunner::Slots(devices));
        Ok(())
    }

    /// Sends a new runner the reports that an earlier one has stored and not answered.
    fn report_again(&mut self) {
        let first = self.outbox.first();
        let stored = self.unanswered.iter().filter(|(_, (number, _))| *number < first);
        let stored: Vec<(AttemptOf, Input)> =
            stored.map(|(key, (_, report))| (*key, report.clone())).collect();
        for (key, report) in stored {
            let number = self.put(&ToRunner::Input(report.clone()));
            self.unanswered.insert(key, (number, report));
        }
    }

    /// Carries out a message; `true`: the runner needs this agent no more.
    fn carry_out(&mut self, message: ToAgent) -> bool {
        match message {
            ToAgent::Pong { ping } => {
                while let Some((number, at)) = self.pings.pop_front() {
                    if number == ping {
                        self.lease = self.lease.max(at + self.lost_after);
                        break;
                    }
                }
            }
            ToAgent::Stored => {}
            ToAgent::Launch { assignment } => self.launch(*assignment),
            ToAgent::Attempt { trial, attempt, act } => {
                if matches!(act, Act::Answer(_)) {
                    self.unanswered.remove(&(trial, attempt));
                }
                if matches!(act, Act::Kill | Act::Leave) {
                    self.drop_deferred((trial, attempt));
                }
                let job = self.work.as_mut().and_then(|work| work.jobs.get_mut(&(trial, attempt)));
                match (job, act) {
                    (None, _) => {}
                    (Some(job), Act::Answer(verdict)) => job.answer(&verdict),
                    (Some(job), Act::Leave) => job.leave(),
                    (Some(job), Act::Examine) => job.examine(),
                    (Some(job), Act::Kill) => job.kill(),
                    (Some(job), Act::GiveUp) => job.give_up(),
                }
            }
            ToAgent::Vacate { slot } => {
                self.work.iter_mut().for_each(|work| work.launcher.vacate(slot));
            }
            ToAgent::Rest => self.work.iter_mut().for_each(|work| work.launcher.rest()),
            ToAgent::End => return true,
        }
        false
    }

    /// Ends an attempt that has not begun.
    fn drop_deferred(&mut self, key: AttemptOf) {
        let Some(work) = &mut self.work else { return };
        let before = work.deferred.len();
        work.deferred.retain(|waits| (waits.trial, waits.attempt) != key);
        if work.deferred.len() < before {
            self.end_unbegun(key, AttemptEnd::Interrupted, None);
        }
    }

    fn launch(&mut self, assignment: Assignment) {
        let key = (assignment.trial, assignment.attempt);
        let Some(work) = &mut self.work else { return };
        self.attempts.insert(key, None);
        if self.leaving.is_some() {
            return self.end_unbegun(key, AttemptEnd::Interrupted, None);
        }
        if work.jobs.keys().any(|(trial, _)| *trial == key.0) {
            // An attempt that an earlier runner gave up is being killed.
            work.deferred.push(assignment);
            return;
        }
        let slot = Slot::on(assignment.slot.index, assignment.slot.devices.local());
        let assignment = Assignment { slot, ..assignment };
        if let Some(metrics) = &work.system_metrics {
            metrics.started(key.0, key.1, &assignment.slot.devices);
        }
        match work.launcher.launch(&assignment, &self.inputs) {
            Ok(job) => drop(work.jobs.insert(key, job)),
            Err(error) => self.end_unbegun(key, error.end(), Some(error.to_string())),
        }
    }

    fn end_unbegun(
        &mut self,
        (trial, attempt): AttemptOf,
        end: AttemptEnd,
        message: Option<String>,
    ) {
        self.hear(Input::Ended { trial, attempt, end, message });
    }

    /// Relays a message of a trial; signals are for the agent itself.
    fn hear(&mut self, input: Input) {
        match &input {
            Input::Interrupt => {
                self.put(&ToRunner::Leaving { why: "its machine asks it to leave".to_owned() });
                return self.leave(AgentEnd::Interrupted);
            }
            Input::KillAll => {
                self.leaving = Some((Instant::now(), AgentEnd::Interrupted));
                return;
            }
            _ => {}
        }
        self.send_points(true);
        let Some(work) = &mut self.work else { return };
        let ended = match &input {
            Input::Launched { trial, pid, .. } => {
                if let Some(metrics) = &work.system_metrics {
                    metrics.launched(*trial, *pid);
                }
                None
            }
            Input::Ended { trial, attempt, end, .. } => {
                work.jobs.remove(&(*trial, *attempt));
                if let Some(metrics) = &work.system_metrics {
                    metrics.ended(*trial);
                }
                if matches!(
                    end,
                    AttemptEnd::Failed(_) | AttemptEnd::Interrupted | AttemptEnd::Refused
                ) {
                    work.launcher.sweep();
                }
                Some((*trial, *attempt))
            }
            _ => None,
        };
        let report = match &input {
            Input::Report { trial, attempt, .. } => Some(((*trial, *attempt), input.clone())),
            _ => None,
        };
        let number = self.put(&ToRunner::Input(input));
        if let Some((key, report)) = report {
            self.unanswered.insert(key, (number, report));
        }
        if let Some(key) = ended {
            self.unanswered.remove(&key);
            if let Some(end) = self.attempts.get_mut(&key) {
                *end = Some(number);
            }
            let deferred = self.work.as_mut().map(|work| {
                work.deferred.extract_if(.., |waits| waits.trial == key.0).collect::<Vec<_>>()
            });
            deferred.into_iter().flatten().for_each(|assignment| self.launch(assignment));
        }
    }

    /// Sends the points that wait; only if they are due, unless `all`.
    fn send_points(&mut self, all: bool) {
        let Some(work) = &self.work else { return };
        // The runner counts what it receives as signs of life.
        let _here_too = work.points.heard();
        if !all && !work.points.is_due() {
            return;
        }
        // The runner knows when a trial's clock of seconds began.
        let taken = work.points.take(work.clock, |_| Ok::<_, std::convert::Infallible>(None));
        let Ok(logged) = taken;
        if !logged.is_empty() {
            let ahead = work.ahead;
            let sent = logged.into_iter().map(|series| SentSeries::of(series, ahead)).collect();
            self.put(&ToRunner::Points(sent));
        }
    }

    /// Deadlines: pings, points, the lease, the grace of trials that leave.
    fn look(&mut self) -> Option<AgentEnd> {
        let now = Instant::now();
        self.send_points(false);
        if let Some(work) = &mut self.work {
            work.launcher.look_after();
        }
        let every =
            (self.lost_after / 20).clamp(Duration::from_millis(100), Duration::from_secs(5));
        if self.link.is_some() && self.pinged.is_none_or(|at| at + every <= now) {
            self.pinged = Some(now);
            self.ping += 1;
            self.pings.push_back((self.ping, now));
            self.send_raw(None, &bytes(&ToRunner::Ping { ping: self.ping }));
        }
        if self.lease <= now && self.leaving.is_none() {
            let seconds = self.lost_after.as_secs_f64();
            let why = format!("its runner has not answered for {seconds} s");
            self.leave(AgentEnd::Unusable(why));
        }
        let is_idle = self.work.as_ref().is_none_or(|work| work.jobs.is_empty());
        match &self.leaving {
            Some((_, end)) if is_idle => return Some(end.clone()),
            Some((until, end)) if *until <= now => {
                // Those that are left then are killed again.
                self.leaving = Some((now + Duration::from_secs(2), end.clone()));
                self.work
                    .iter_mut()
                    .flat_map(|work| work.jobs.values_mut())
                    .for_each(|job| job.kill());
            }
            _ => {}
        }
        None
    }

    /// Asks all trials to save and exit, and then ends.
    fn leave(&mut self, end: AgentEnd) {
        if self.leaving.is_some() {
            return;
        }
        let is_lost = matches!(end, AgentEnd::Unusable(_));
        self.leaving = Some((Instant::now() + self.grace, end));
        for job in self.work.iter_mut().flat_map(|work| work.jobs.values_mut()) {
            job.leave();
            if is_lost {
                // Nobody will answer its report.
                job.give_up();
            }
        }
    }

    fn put(&mut self, message: &ToRunner) -> u64 {
        let message = bytes(message);
        let number = self.outbox.put(&message);
        self.send_raw(Some(number), &message);
        number
    }

    fn send_raw(&self, number: Option<u64>, message: &[u8]) {
        if let Some(link) = &self.link {
            link.send(envelope(number, self.received, message));
        }
    }
}

fn work_slots(work: &Option<Work>) -> Result<Vec<Slot>, String> {
    let work = work.as_ref().ok_or("it has no study")?;
    places(work.launcher.spec())
}

/// The slots of the study on this machine.
fn places(spec: &StudySpec) -> Result<Vec<Slot>, String> {
    let machine = Machine::detect(&spec.devices.select);
    slots(&spec.devices, &spec.program, &machine).map_err(|error| error.to_string())
}

impl Work {
    fn begin(program: PathBuf, welcome: Welcome) -> Result<(Self, Vec<Slot>), String> {
        let Welcome { mut spec, env, store, directory, protected, now: runners, .. } = welcome;
        if let Program::Command { env: named, .. } = &mut spec.program {
            for (name, value) in env {
                named.insert(name, EnvironmentValue::new(value));
            }
        }
        let files = StudyFiles::of(&spec, Some(&directory), &store);
        if !files.directory().is_dir() {
            return Err(format!(
                "the study's files at `{}` are not on this machine: mount them at the same path, \
                 or name a shared directory by `shared_dir` under [cluster]",
                files.directory().display()
            ));
        }
        let places = places(&spec)?;
        let points = Arc::new(PointQueue::default());
        let system_metrics = match spec.track.system {
            // Series without it are better than no trial.
            Some(period) => SystemMetrics::start(period, Arc::clone(&points)).ok(),
            None => None,
        };
        let mut launcher = ProcessLauncher::new(program, Arc::new(spec), store, files, protected);
        launcher.log_to(Arc::clone(&points));
        let clock = Clock::start(now(), None);
        let ahead = runners.0 - clock.now().0;
        let (jobs, deferred) = (BTreeMap::new(), Vec::new());
        Ok((Work { launcher, jobs, deferred, points, clock, ahead, system_metrics }, places))
    }
}
