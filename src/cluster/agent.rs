//! The agent: runs trials for a runner on another machine, and relays their messages.

mod carrying;
mod connector;
mod files;
mod node_log;
mod trials;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select, unbounded};

pub use self::connector::RunnerAddress;
use self::connector::{Connected, LinkEvent};
use self::work::Work;
use super::message::{
    Act, AttemptOf, Hello, SentSeries, ToAgent, ToRunner, Welcome, bytes, envelope,
};
use super::outbox::Outbox;
use crate::engine::{Assignment, Input};
use crate::runner::launcher::Launcher as _;
use crate::runner::{now, processes, provenance, threads};
use crate::study::event::AttemptEnd;
use crate::study::step::StepUnit;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Longest interval between looks at deadlines and points.
const LOOK: Duration = Duration::from_millis(100);

/// Messages of trials that are relayed between two looks.
const INPUTS_A_TURN: usize = 256;

/// Time for the last files to be sent, besides that which trials have to save.
const SENDING: Duration = Duration::from_secs(60);

/// Time for the last messages to be stored at the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Bytes of messages that are sent and stored in that time.
const FAREWELL_BYTES: usize = 256 << 10;

/// Looks without a turn of the agent's loop after which it hangs.
const HANGING_LOOKS: u32 = 15;

/// How an agent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEnd {
    /// The runner needs it no more.
    Dismissed,
    /// A signal asked it to leave.
    Interrupted,
    /// Its runner is gone, or does not answer.
    Lost(String),
    /// It cannot run trials of the study.
    Unusable(String),
}

/// What an agent reports to its user.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentNews {
    /// It cannot reach its runner, and tries again.
    Unreachable {
        /// The error of the connection.
        why: String,
        /// How long it tries before it ends.
        left: Duration,
    },
    /// It works for a runner, which it has found or found again elsewhere.
    TakenOn {
        /// The study.
        study: String,
        /// The agent's name there.
        name: String,
    },
    /// An attempt started.
    Started {
        /// What it runs.
        assignment: Box<Assignment>,
        /// The unit of the study's steps.
        step_unit: StepUnit,
    },
    /// An attempt ended, or could not be started.
    Ended {
        /// Number of the trial.
        trial: TrialNumber,
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// How the attempt ended.
        end: AttemptEnd,
        /// Why, for users.
        message: Option<String>,
    },
}

/// An agent of one study.
pub struct Agent {
    program: PathBuf,
    devices: Vec<String>,
    always_carries: bool,
    /// What connections begin with, except for `received`, `first` and `attempts`.
    hello: Hello,
    outbox: Outbox,
    /// The last message that was received.
    received: u64,
    /// The epoch of its runner's lease.
    epoch: i64,
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
    /// Attempts in a row that could not start.
    refusals: u32,
    /// Ends of attempts that are reported to the runner a moment later, and when.
    ends: VecDeque<(Instant, Input)>,
    /// News that is not reported yet.
    news: Vec<AgentNews>,
    /// When the trials that are asked to leave are killed, and why they are.
    leaving: Option<(Instant, AgentEnd)>,
    inputs: Sender<Input>,
    heard: Receiver<Input>,
}

impl Agent {
    /// An agent whose trials are started by `program`, the hpsearch executable, on `devices`; none:
    /// those of `[devices] use`. The sender is for signals.
    pub fn new(program: PathBuf, devices: Vec<String>) -> (Self, Sender<Input>) {
        let (inputs, heard) = unbounded();
        let pid = std::process::id();
        let started = processes::start_time(pid).unwrap_or(0);
        let session = format!("{}.{pid}.{started}.{}", processes::host(), now().0);
        let hello = Hello::of_session(session);
        let signals = inputs.clone();
        let agent = Agent {
            program,
            devices,
            always_carries: false,
            hello,
            outbox: Outbox::default(),
            received: 0,
            epoch: 0,
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
            refusals: 0,
            ends: VecDeque::new(),
            news: Vec::new(),
            leaving: None,
            inputs,
            heard,
        };
        (agent, signals)
    }

    /// The same, with files that travel over the link even if it sees the runner's directory.
    #[must_use]
    pub fn carrying(self) -> Self {
        Agent { always_carries: true, ..self }
    }

    /// Works until the runner needs it no more, or is lost; `tell` is called with news.
    pub fn run(mut self, address: RunnerAddress, tell: &mut dyn FnMut(AgentNews)) -> AgentEnd {
        self.hello.can_return = !matches!(address, RunnerAddress::StandardStreams);
        let events = match connector::start(address) {
            Ok(events) => events,
            Err(error) => return AgentEnd::Unusable(format!("cannot start a thread: {error}")),
        };
        let heard = self.heard.clone();
        let lease = Arc::new(Mutex::new((self.lease, Instant::now())));
        if let Err(error) = watch(&lease) {
            return AgentEnd::Unusable(format!("cannot start a thread: {error}"));
        }
        let end = loop {
            let until = self.lease + self.grace;
            *lease.lock().unwrap_or_else(PoisonError::into_inner) = (until, Instant::now());
            select! {
                recv(heard) -> input => {
                    let waiting = heard.try_iter().take(INPUTS_A_TURN);
                    input.into_iter().chain(waiting).for_each(|input| self.hear(input));
                }
                recv(events) -> event => match event {
                    Ok(event) => {
                        if let Some(end) = self.follow(event) {
                            break end;
                        }
                    }
                    // A pipe that is closed comes back never.
                    Err(_) if self.attempts.is_empty() => {
                        break AgentEnd::Lost("its runner disconnected".to_owned());
                    }
                    Err(_) => {
                        self.leave(AgentEnd::Lost("its runner disconnected".to_owned()));
                        threads::sleep(LOOK);
                    }
                },
                default(LOOK) => {}
            }
            let end = self.look();
            self.news.drain(..).for_each(&mut *tell);
            if let Some(end) = end {
                break end;
            }
        };
        self.news.drain(..).for_each(tell);
        drop(lease);
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
        if let Some(carrying) = self.work.and_then(|work| work.carrying) {
            carrying.end();
        }
        end
    }

    /// Waits until the runner has all messages, or does not answer.
    fn wait_until_stored(&mut self, events: &Receiver<LinkEvent>) {
        let until = Instant::now() + FAREWELL;
        // The runner closes the connection once it has read the last message.
        while let Ok(event) = events.recv_deadline(until) {
            match event {
                LinkEvent::Frame(frame) => {
                    self.outbox.acknowledge(frame.received);
                    self.send();
                }
                LinkEvent::Closed | LinkEvent::Refused(_) | LinkEvent::NoRunner => return,
                LinkEvent::Open(..) | LinkEvent::Greet(_) | LinkEvent::Unreachable(_) => {}
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
            LinkEvent::Unreachable(why) => {
                let left = self.lease.saturating_duration_since(Instant::now());
                self.news.push(AgentNews::Unreachable { why, left });
            }
            LinkEvent::NoRunner => {
                let is_idle = self.work.as_ref().is_some_and(|work| work.jobs.is_empty());
                return is_idle.then_some(AgentEnd::Dismissed);
            }
            // Of a runner that was replaced.
            LinkEvent::Frame(frame) if frame.epoch != self.epoch => {}
            LinkEvent::Frame(frame) => {
                self.outbox.acknowledge(frame.received);
                let stored = frame.received;
                self.attempts.retain(|_, end| end.is_none_or(|number| number > stored));
                self.send();
                match frame.number {
                    Some(number) if number == self.received + 1 => self.received = number,
                    // It came before, or a connection that is replaced was read to its end.
                    Some(number) if number <= self.received => return None,
                    Some(_) => {
                        let why = "messages of its runner were lost".to_owned();
                        self.leave(AgentEnd::Lost(why));
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
        self.epoch = welcome.epoch;
        self.pings.clear();
        if is_new {
            self.received = 0;
            let (study, name) = (welcome.spec.name.clone(), welcome.name.clone());
            self.news.push(AgentNews::TakenOn { study, name });
        }
        self.hello.name = Some(welcome.name.clone());
        self.hello.runner = Some(welcome.runner.clone());
        self.link = Some(connected);
        let kept: BTreeSet<AttemptOf> = welcome.attempts.iter().copied().collect();
        self.outbox.resume(welcome.received);
        let study = welcome.study.clone();
        let mut changed = false;
        match &mut self.work {
            Some(work) => {
                work.ahead = work.ahead.max(welcome.now.0 - work.clock.now().0);
                changed = !work.is_for(&welcome, &self.devices);
            }
            None => {
                let mut welcome = welcome;
                if !self.devices.is_empty() {
                    welcome.spec.devices.select.clone_from(&self.devices);
                }
                let (program, session) = (self.program.clone(), &self.hello.session);
                self.work = Some(Work::begin(program, welcome, session, self.always_carries)?);
            }
        }
        if changed {
            let why = "the study was changed: start the agent again".to_owned();
            self.leave(AgentEnd::Unusable(why));
        }
        let work = self.work.as_mut().expect("it was begun above");
        self.hello.study = Some(study);
        self.hello.carries = work.carrying.is_some();
        for (attempt, job) in &mut work.jobs {
            if !kept.contains(attempt) {
                job.kill();
            }
        }
        work.deferred.retain(|waits| kept.contains(&(waits.trial, waits.attempt)));
        let reads_files = work.reads_files();
        let requests = work.carrying.as_mut().map_or_else(Vec::new, |carrying| {
            if is_new && reads_files {
                carrying.ask_for_inputs();
            }
            carrying.drop_waiting(|attempt| kept.contains(&attempt));
            carrying.requests()
        });
        let is_ready = requests.iter().all(|request| !matches!(request, ToRunner::ListInputs));
        self.send();
        if is_new {
            self.report_again();
            for request in &requests {
                self.put(request);
            }
        }
        if let Some((_, end)) = &self.leaving {
            if is_new {
                let why = match end {
                    AgentEnd::Lost(why) | AgentEnd::Unusable(why) => why.clone(),
                    _ => "its machine asks it to leave".to_owned(),
                };
                self.put(&ToRunner::Leaving { why });
            }
            return Ok(());
        }
        // A new runner does not know them.
        if is_new && is_ready { self.put_slots() } else { Ok(()) }
    }

    fn put_slots(&mut self) -> Result<(), String> {
        let slots = self.work.as_ref().ok_or("it has no study")?.slots()?;
        let devices = slots.into_iter().map(|slot| slot.devices).collect();
        let provenance = Box::new(provenance::of_agent());
        self.put(&ToRunner::Slots { devices, provenance });
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
            ToAgent::Carried(message) => self.arrive(message),
            ToAgent::Inputs(inputs) => {
                let carrying = self.work.as_mut().and_then(|work| work.carrying.as_mut());
                if let Some(Err(error)) = carrying.map(|carrying| carrying.list(inputs)) {
                    self.leave(AgentEnd::Unusable(format!("it cannot take its inputs: {error}")));
                }
            }
            ToAgent::Remove { trial, path } => {
                let carrying = self.work.iter().filter_map(|work| work.carrying.as_ref());
                carrying.for_each(|carrying| carrying.remove(trial, &path));
            }
            ToAgent::Attempt { trial, attempt, act } => {
                if matches!(act, Act::Answer(_)) {
                    self.unanswered.remove(&(trial, attempt));
                }
                if matches!(act, Act::Kill | Act::Leave) {
                    self.drop_deferred((trial, attempt));
                }
                let carrying = self.work.as_mut().and_then(|work| work.carrying.as_mut());
                if let (Act::Kill, Some(carrying)) = (&act, carrying) {
                    carrying.kill((trial, attempt));
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
            ToAgent::NodeLog { trial, attempt, lines } => {
                self.take_node_log((trial, attempt), lines);
            }
            ToAgent::Vacate { slot } => {
                self.work.iter_mut().for_each(|work| work.launcher.vacate(slot));
            }
            ToAgent::Rest => self.work.iter_mut().for_each(|work| work.launcher.rest()),
            ToAgent::End => return true,
        }
        false
    }

    /// Sends the points that wait; only if they are due, unless `all`.
    fn send_points(&mut self, all: bool) {
        let Some(work) = &self.work else { return };
        // The runner counts what it receives as signs of life.
        let _here_too = work.points.heard();
        if !all && !work.points.is_due() {
            return;
        }
        // The runner knows when a trial's axis of seconds began.
        let taken = work.points.take(work.clock, |_| Ok::<_, std::convert::Infallible>(None));
        let Ok(logged) = taken;
        if !logged.is_empty() {
            let ahead = work.ahead;
            let sent = logged.into_iter().map(|series| SentSeries::of(series, ahead)).collect();
            self.put(&ToRunner::Points(sent));
        }
    }

    /// Sends the loads of its devices, if they are measured and it is time.
    fn send_loads(&mut self) {
        let loads = self.work.as_mut().and_then(|work| work.loads.as_mut()?.look());
        if let Some(loads) = loads {
            self.send_raw(None, &bytes(&ToRunner::Loads(loads)));
        }
    }

    /// Deadlines: pings, points, the lease, the grace of trials that leave.
    fn look(&mut self) -> Option<AgentEnd> {
        let now = Instant::now();
        while let Some((due, _)) = self.ends.front()
            && (*due <= now || self.leaving.is_some())
            && let Some((_, end)) = self.ends.pop_front()
        {
            self.tell(end);
        }
        self.send_points(false);
        self.send_loads();
        self.send_node_logs();
        self.carry();
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
            let why = match self.work {
                Some(_) => format!("its runner has not answered for {seconds} s"),
                None => format!("no runner was found within {seconds} s"),
            };
            self.leave(AgentEnd::Lost(why));
        }
        let is_idle = self.work.as_ref().is_none_or(|work| work.jobs.is_empty());
        let carries = self.work.as_ref().and_then(|work| work.carrying.as_ref());
        // Nobody takes the files of an agent that has lost its runner.
        let is_lost = matches!(&self.leaving, Some((_, AgentEnd::Lost(_))));
        let has_sent = is_lost
            || carries
                .is_none_or(|carrying| carrying.is_done() && self.outbox.bytes() < FAREWELL_BYTES);
        match &self.leaving {
            Some((until, end)) if is_idle && (has_sent || *until + SENDING <= now) => {
                return Some(end.clone());
            }
            Some((until, end)) if *until <= now && !is_idle => {
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
        let is_lost = matches!(end, AgentEnd::Lost(_));
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
        let number = self.outbox.put(&bytes(message));
        self.send();
        number
    }

    /// Sends the next messages, as far as the connection takes them.
    fn send(&mut self) {
        if self.link.is_none() {
            return;
        }
        loop {
            match self.outbox.next_to_send() {
                Ok(Some((number, message))) => self.send_raw(Some(number), &message),
                Ok(None) => return,
                Err(error) => {
                    let why = format!("its spool cannot be read: {error}");
                    return self.leave(AgentEnd::Lost(why));
                }
            }
        }
    }

    fn send_raw(&self, number: Option<u64>, message: &[u8]) {
        if let Some(link) = &self.link {
            link.send(envelope(self.epoch, number, self.received, message));
        }
    }
}

/// Ends the process if its lease is over and its loop hangs, as on a file system that does not
/// answer: its trials end with it, and run elsewhere.
fn watch(lease: &Arc<Mutex<(Instant, Instant)>>) -> std::io::Result<()> {
    let lease = Arc::downgrade(lease);
    threads::spawn("lease", move || {
        // Counted, since a process that was stopped finds that much time has passed.
        let (mut looks, mut before) = (0, Instant::now());
        while let Some(lease) = lease.upgrade() {
            let (until, turned) = *lease.lock().unwrap_or_else(PoisonError::into_inner);
            drop(lease);
            let hangs = turned == before && until < Instant::now();
            (looks, before) = (if hangs { looks + 1 } else { 0 }, turned);
            if looks >= HANGING_LOOKS {
                std::process::abort();
            }
            threads::sleep(LOOK);
        }
    })
    .map(drop)
}
