//! The runner's side of all links: which agents there are, what was sent to each, and what they
//! send.

mod agent;
mod attempts;
mod files;
mod greeting;
mod group;
mod lease;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, unbounded};

use self::agent::Agent;
use self::group::Group;
use self::lease::LeaseEnd;
use super::frames::{FrameReader, FrameWriter};
use super::message::{
    AttemptOf, Envelope, Greeting, Hello, SentSeries, ToAgent, ToRunner, TrainerInput, Welcome,
    bytes,
};
use super::transfer::{Carried, ENOUGH, Location, append};
use crate::engine::Input;
use crate::runner::clock::Clock;
use crate::runner::point_queue::PointQueue;
use crate::runner::threads;
use crate::storage::paths::StudyFiles;
use crate::study::event::{AttemptEnd, RecordEvent, TrialEvent};
use crate::study::series::LoggedSeries;

/// How much longer than an agent the runner waits before it gives an agent up: the agent's trials
/// have ended then.
const MARGIN: Duration = Duration::from_secs(5);

/// How long a link may be down before nothing new is started at its end.
const CUT: Duration = Duration::from_secs(1);

/// Interval between looks at a lease that is over.
const UNHELD_LOOK: Duration = Duration::from_millis(50);

/// Inputs that may wait for the runner.
const WAITING: usize = 10_000;

/// What the hub needs to know of the run.
pub struct HubContext {
    /// Identifies this runner's process.
    pub runner: String,
    /// For agents; without what belongs to one of them.
    pub welcome: Welcome,
    /// The runner's clock.
    pub clock: Clock,
    /// Time without an answer after which agents stop their trials.
    pub lost_after: Duration,
    /// Time that trials have to save and exit.
    pub grace: Duration,
    /// The study's files.
    pub files: StudyFiles,
    /// What the trainer reads.
    pub trainer_inputs: Vec<Location>,
    /// The same with digests, once an agent has asked for them.
    pub listed_inputs: OnceLock<Vec<TrainerInput>>,
    /// The runner's channel.
    pub inputs: Sender<Input>,
    /// The runner's queue of points.
    pub points: Arc<PointQueue>,
}

/// All links of a runner.
#[derive(Clone)]
pub struct Hub {
    run: Arc<HubContext>,
    lease: LeaseEnd,
    state: Arc<Mutex<HubState>>,
}

#[derive(Default)]
struct HubState {
    agents: BTreeMap<String, Agent>,
    /// Open attempts of an earlier runner, with the name of their agent, and until when they are
    /// waited for.
    awaited: BTreeMap<(AttemptOf, String), Instant>,
    /// Messages for awaited attempts.
    early: HashMap<(AttemptOf, String), Vec<ToAgent>>,
    /// Attempts that run on several agents.
    groups: BTreeMap<AttemptOf, Group>,
    /// The last port that was given to such an attempt.
    port: u16,
    /// Sessions that are given up: their trials may run elsewhere by now.
    given_up: HashSet<String>,
    /// Why agents could not be used, as said already.
    unfit: BTreeSet<String>,
    senders: u64,
    phase: Phase,
}

/// How far a run is, for its agents.
#[derive(Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Running,
    /// Its agents are asked to end, also those that reconnect; new ones are refused.
    Ended,
    /// Another runner continues; its file tells agents where.
    HandedOver,
}

impl Hub {
    /// A hub that waits for the agents of open attempts; `since`: for how long their runner is dead
    /// for sure.
    pub fn new(
        run: HubContext,
        open: impl IntoIterator<Item = (AttemptOf, Vec<String>)>,
        since: Duration,
    ) -> Self {
        let patience = run.lost_after + run.grace + MARGIN;
        let until = Instant::now() + patience.saturating_sub(since);
        let mut state = HubState::default();
        for (attempt, agents) in open {
            let awaited = agents.iter().map(|agent| ((attempt, agent.clone()), until));
            state.awaited.extend(awaited);
            if agents.len() > 1 {
                state.groups.insert(attempt, Group::of(agents));
            }
        }
        let (run, state) = (Arc::new(run), Arc::new(Mutex::new(state)));
        Hub { run, lease: LeaseEnd::default(), state }
    }

    /// The runner's lease was renewed. Once it is over, another runner may have taken the study
    /// over: until it is renewed again, nothing is sent to agents, their pings are not answered,
    /// and nothing that they send is accepted. The other runner waits for as long as agents run
    /// trials without an answer.
    pub fn hold_until(&self, end: Instant) {
        let was_held = self.lease.is_held();
        self.lease.hold_until(end);
        if !was_held {
            self.lock().agents.values_mut().for_each(Agent::send_next);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one connection to its end.
    ///
    /// # Errors
    /// The stream fails or holds something else.
    pub fn serve(&self, mut reader: FrameReader, mut writer: FrameWriter) -> io::Result<()> {
        let Some(frame) = reader.read()? else { return Ok(()) };
        if !self.lease.is_held() || self.lock().phase == Phase::HandedOver {
            // It tries again, and finds the runner that has the study then.
            return Ok(());
        }
        let hello: Hello = serde_json::from_slice(&frame)?;
        let session = hello.session.clone();
        let (frames, to_write) = unbounded::<Vec<u8>>();
        let taken = self.take_on(hello, frames);
        let greeting = match &taken {
            Ok((welcome, _)) => Greeting::Welcome(Box::new(welcome.clone())),
            Err(why) => Greeting::Refused { why: why.clone() },
        };
        writer.write(&bytes(&greeting))?;
        let Ok((_, generation)) = taken else { return Ok(()) };
        threads::spawn("to an agent", move || {
            // The reader notices a broken connection, too.
            let _broken = writer.write_all_of(&to_write);
        })?;
        let result = self.read(&mut reader, &session, generation);
        let mut state = self.lock();
        if let Some(agent) = state.agents.get_mut(&session)
            && agent.connection.as_ref().is_some_and(|now| now.generation == generation)
        {
            agent.connection = None;
            agent.gone_at = (!agent.can_return).then(Instant::now);
        }
        result
    }

    /// Takes messages in until the connection ends. From the first one about files on, messages are
    /// taken in on a thread: pings are answered while that writes. What waits for it is bounded by
    /// what agents have on their way.
    fn read(&self, reader: &mut FrameReader, session: &str, generation: u64) -> io::Result<()> {
        let mut worker: Option<(Sender<Envelope<ToRunner>>, JoinHandle<()>)> = None;
        while let Some(frame) = reader.read()? {
            if !self.may_speak(session) {
                return Ok(());
            }
            self.wait_for_room();
            let envelope: Envelope<ToRunner> = serde_json::from_slice(&frame)?;
            if envelope.epoch != self.run.welcome.epoch {
                let why = "a message is for a runner with another epoch";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            if worker.is_none() && envelope.message.is_about_files() {
                let (tx, rx) = unbounded::<Envelope<ToRunner>>();
                let (hub, session) = (self.clone(), session.to_owned());
                let taking = threads::spawn("agent files", move || {
                    let take = |envelope| hub.receive(&session, generation, envelope);
                    // The reader notices that nobody takes messages.
                    let _over = rx.into_iter().map(take).find(|taken| !matches!(taken, Ok(true)));
                })?;
                worker = Some((tx, taking));
            }
            if matches!(envelope.message, ToRunner::Left)
                && let Some((tx, taking)) = worker.take()
            {
                // The last message: the connection is closed when it is taken in.
                drop(tx);
                let _taken = taking.join();
            }
            let is_at_once = envelope.number.is_none();
            match worker.as_ref().filter(|_| !is_at_once) {
                Some((worker, _)) => {
                    if worker.send(envelope).is_err() {
                        return Ok(());
                    }
                }
                None => {
                    if !self.receive(session, generation, envelope)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the runner's lease is held. If not, agents that can connect again do so, and find
    /// the runner that has the study then; others wait here.
    fn may_speak(&self, session: &str) -> bool {
        while !self.lease.is_held() {
            let state = self.lock();
            let can_return = state.agents.get(session).is_none_or(|agent| agent.can_return);
            if state.phase != Phase::Running || can_return {
                return false;
            }
            drop(state);
            threads::sleep(UNHELD_LOOK);
        }
        true
    }

    /// Waits until the runner has taken in most of what waits for it: agents keep the rest.
    fn wait_for_room(&self) {
        while self.run.inputs.len() > WAITING && !self.is_over() {
            threads::sleep(Duration::from_millis(5));
        }
    }

    /// Takes a message in; `false`: the connection is over.
    fn receive(
        &self,
        session: &str,
        generation: u64,
        envelope: Envelope<ToRunner>,
    ) -> io::Result<bool> {
        let mut state = self.lock();
        let Some(agent) = state.agents.get_mut(session) else { return Ok(false) };
        if agent.connection.as_ref().is_none_or(|now| now.generation != generation) {
            // Replaced by a newer connection of the same agent.
            return Ok(false);
        }
        agent.heard = Instant::now();
        agent.outbox.acknowledge(envelope.received);
        agent.send_next();
        let writing = Arc::clone(&agent.writing);
        if !agent.outgoing.is_empty() {
            drop(state);
            self.fill(session);
            state = self.lock();
        }
        let Some(agent) = state.agents.get_mut(session) else { return Ok(false) };
        match envelope.message {
            ToRunner::Ping { ping } => {
                agent.send(None, &ToAgent::Pong { ping });
                return Ok(true);
            }
            ToRunner::Loads(mut loads) => {
                loads.iter_mut().for_each(|load| load.device = load.device.on(&agent.name));
                let _runner_gone = self.run.inputs.send(Input::Load(loads));
                return Ok(true);
            }
            ToRunner::Received => return Ok(true),
            _ => {}
        }
        let mut found = None;
        let mut damaged = None;
        if envelope.message.is_about_files() {
            // Others need not wait for the disk. One at a time: a connection that was replaced may
            // still be read.
            drop(state);
            let _one_at_a_time = writing.lock().unwrap_or_else(PoisonError::into_inner);
            state = self.lock();
            let Some(agent) = state.agents.get_mut(session) else { return Ok(false) };
            if !agent.is_next(envelope.number)? {
                return Ok(true);
            }
            agent.carries = true;
            drop(state);
            match &envelope.message {
                ToRunner::Fetch(location) => found = Some(self.find(location)),
                message => damaged = self.store_file(message),
            }
            state = self.lock();
            let Some(agent) = state.agents.get_mut(session) else { return Ok(false) };
            agent.received += 1;
        } else if !agent.is_next(envelope.number)? {
            return Ok(true);
        } else {
            agent.received += 1;
        }
        let Some(agent) = state.agents.get_mut(session) else { return Ok(false) };
        if let Some((path, why)) = damaged {
            agent.damaged.entry(path).or_insert(why);
        }
        let mark = Input::Mark { sender: agent.sender, number: agent.received };
        let name = agent.name.clone();
        let inputs = &self.run.inputs;
        // The runner is gone only when this process ends.
        let left = |reason: &str| {
            let agent = name.clone();
            let _runner_gone = inputs.send(Input::AgentLeft { agent, reason: reason.to_owned() });
        };
        match envelope.message {
            ToRunner::Slots { devices, provenance } if !agent.is_leaving => {
                let devices = devices.iter().map(|device| device.on(&name)).collect();
                let joined = Input::AgentJoined { agent: name.clone(), devices, provenance };
                let _runner_gone = inputs.send(joined);
            }
            ToRunner::Artifact { mut input, content } => {
                if let Input::Recorded {
                    event: TrialEvent::Record(RecordEvent::ArtifactSaved { content: absent, .. }),
                    ..
                } = &mut input
                {
                    *absent = Some(content);
                }
                let _runner_gone = inputs.send(self.absolute(input, agent));
            }
            ToRunner::Input(input) => {
                let input = self.absolute(input, agent);
                self.hear(&mut state, &name, input);
            }
            ToRunner::Points(series) => {
                // Those of an attempt that has ended are stored: its agent sends them again.
                let series = series.into_iter().map(SentSeries::received);
                let is_open =
                    |series: &LoggedSeries| agent.running.contains(&(series.trial, series.attempt));
                self.run.points.add(series.filter(is_open));
            }
            ToRunner::Leaving { why } => {
                agent.is_leaving = true;
                state.leave_with(&name);
                left(&why);
            }
            ToRunner::Unfit { why } => {
                let agent = state.agents.remove(session);
                // It is started again and again.
                if state.unfit.insert(why.clone()) {
                    left(&why);
                }
                agent.into_iter().for_each(|agent| self.lose(&mut state, agent, &why));
                return Ok(false);
            }
            ToRunner::Left => {
                let is_known = agent.is_leaving || state.phase != Phase::Running;
                let agent = state.agents.remove(session);
                if !is_known {
                    left("it has ended");
                }
                agent.into_iter().for_each(|agent| self.lose(&mut state, agent, "it has ended"));
                return Ok(false);
            }
            ToRunner::NodeLog { trial, attempt, lines } => {
                if let Some(lines) = state.pass_to_log(&name, (trial, attempt), lines) {
                    // Others need not wait for the disk.
                    drop(state);
                    append(&self.run.files.log(trial, attempt), &lines.0);
                    state = self.lock();
                }
            }
            ToRunner::Fetch(location) => match found {
                Some(Ok(sending)) => agent.outgoing.push_back(sending),
                Some(Err(why)) => agent.put(&missing(location, &why)),
                None => {}
            },
            ToRunner::ListInputs => {
                agent.carries = true;
                self.list_inputs(session.to_owned());
            }
            ToRunner::Slots { .. }
            | ToRunner::Loads(_)
            | ToRunner::Log { .. }
            | ToRunner::Carried(_)
            | ToRunner::Received
            | ToRunner::Ping { .. } => {}
        }
        let _runner_gone = inputs.send(mark);
        drop(state);
        self.fill(session);
        Ok(true)
    }

    /// Sends the next pieces of the files that an agent asked for, as long as few are on their way.
    /// They are read without the lock.
    fn fill(&self, session: &str) {
        loop {
            let mut state = self.lock();
            let Some(agent) = state.agents.get_mut(session) else { return };
            agent.send_next();
            if agent.is_reading || agent.outbox.bytes() >= ENOUGH {
                return;
            }
            let Some(mut sending) = agent.outgoing.pop_front() else { return };
            agent.is_reading = true;
            drop(state);
            let message = sending.next_message();
            let mut state = self.lock();
            let Some(agent) = state.agents.get_mut(session) else { return };
            agent.is_reading = false;
            match message {
                Ok(Some(message)) => {
                    agent.outbox.put(&bytes(&ToAgent::Carried(message)));
                    agent.outgoing.push_front(sending);
                }
                Ok(None) => {}
                Err(error) => agent.put(&missing(sending.location().clone(), &error)),
            }
        }
    }

    /// Gives up agents that have not been heard of for too long, and awaited attempts. To be called
    /// now and then.
    pub fn look_after(&self) {
        let mut state = self.lock();
        let (now, patience) = (Instant::now(), self.run.lost_after + self.run.grace + MARGIN);
        let is_lost = |agent: &Agent| {
            let closed = agent.gone_at.map(|at| at + self.run.grace + MARGIN);
            closed.unwrap_or(agent.heard + patience) <= now
        };
        let lost: Vec<String> = state
            .agents
            .iter()
            .filter(|(_, agent)| is_lost(agent))
            .map(|(session, _)| session.clone())
            .collect();
        for session in lost {
            let Some(agent) = state.agents.remove(&session) else { continue };
            state.given_up.insert(session);
            let reason = match agent.gone_at {
                Some(_) => "its process has ended".to_owned(),
                None => format!("it has not answered for {} s", agent.heard.elapsed().as_secs()),
            };
            let left = Input::AgentLeft { agent: agent.name.clone(), reason: reason.clone() };
            let _runner_gone = self.run.inputs.send(left);
            self.lose(&mut state, agent, &reason);
        }
        for agent in state.agents.values_mut().filter(|agent| !agent.is_leaving) {
            let quiet = agent.heard.elapsed();
            let is_cut = agent.connection.is_none() && quiet > CUT;
            let is_silent = is_cut || quiet > self.run.lost_after / 4 + CUT;
            if std::mem::replace(&mut agent.is_silent, is_silent) != is_silent {
                let agent = agent.name.clone();
                let _runner_gone = self.run.inputs.send(Input::AgentSilent { agent, is_silent });
            }
        }
        let is_told = |agent: &&mut Agent| {
            agent.running.is_empty() && agent.dismissed.is_some_and(|at| at.elapsed() > MARGIN)
        };
        for agent in state.agents.values_mut().filter(is_told) {
            agent.dismissed = None;
            agent.put(&ToAgent::End);
        }
        let overdue: Vec<_> = state.awaited.extract_if(.., |_, until| *until <= now).collect();
        for ((attempt, name), _) in overdue {
            let message = Some(format!("agent `{name}` did not come back"));
            self.ended(&mut state, &name, attempt, (AttemptEnd::Lost, message));
        }
        state.end_overdue_groups(now);
    }

    /// Sends a message to an agent by its name.
    pub fn send_to_agent(&self, name: &str, message: &ToAgent) {
        let mut state = self.lock();
        let mut agents = state.agents.values_mut();
        agents.find(|agent| agent.name == name).into_iter().for_each(|agent| agent.put(message));
    }

    /// Sends a message to all agents.
    pub fn send_to_all(&self, message: &ToAgent) {
        self.lock().agents.values_mut().for_each(|agent| agent.put(message));
    }

    /// Says once why no agent comes from somewhere.
    pub fn tell_trouble(&self, from: &str, why: &str) {
        self.tell_once(from, why, why);
    }

    /// The same; `key`: what is said once only.
    pub fn tell_once(&self, from: &str, key: &str, why: &str) {
        if self.lock().unfit.insert(format!("{from}: {key}")) {
            let absent = Input::AgentAbsent { agent: from.to_owned(), reason: why.to_owned() };
            let _runner_gone = self.run.inputs.send(absent);
        }
    }

    /// Dismisses agents that have had nothing to do for some time: they take no more trials, and
    /// are told when the runner knows that.
    pub fn dismiss_idle(&self, after: Duration) {
        let mut state = self.lock();
        for agent in state.agents.values_mut().filter(|agent| agent.running.is_empty()) {
            let idle = agent.idle_since.get_or_insert_with(Instant::now).elapsed();
            if idle > after && !agent.is_leaving {
                agent.is_leaving = true;
                agent.dismissed = Some(Instant::now());
                let reason = "nothing waits for it".to_owned();
                let left = Input::AgentLeft { agent: agent.name.clone(), reason };
                let _runner_gone = self.run.inputs.send(left);
            }
        }
    }

    /// Acknowledges what was stored.
    pub fn stored(&self, sender: u64, number: u64) {
        let mut state = self.lock();
        let mut agents = state.agents.values_mut();
        if let Some(agent) = agents.find(|agent| agent.sender == sender) {
            agent.stored = agent.stored.max(number);
            agent.send(None, &ToAgent::Stored);
        }
    }

    /// Asks all agents to end, those whose connection is broken once they are back, and takes no
    /// new ones.
    pub fn end(&self) {
        self.lock().phase = Phase::Ended;
        self.send_to_all(&ToAgent::End);
    }

    /// Closes all connections, and takes no new ones: another runner continues.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.phase = Phase::HandedOver;
        state.agents.clear();
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.lock().phase != Phase::Running
    }

    /// How long a connection may be silent: agents send pings.
    pub fn silence(&self) -> Duration {
        self.run.lost_after.max(Duration::from_secs(1))
    }

    /// How many agents have come so far.
    pub fn agents_so_far(&self) -> u64 {
        self.lock().senders
    }

    /// Whether agents are left that can hear.
    pub fn has_agents(&self) -> bool {
        self.lock().agents.values().any(|agent| agent.connection.is_some())
    }
}

fn missing(of: Location, error: &io::Error) -> ToAgent {
    ToAgent::Carried(Carried::Missing { of, why: error.to_string() })
}
