//! How agents are taken on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;

use super::agent::{Agent, Connection};
use super::{Hub, HubState, Phase};
use crate::cluster::message::{AttemptOf, Hello, PROTOCOL, ToAgent, Welcome, bytes};
use crate::cluster::outbox::Outbox;
use crate::study::event::AttemptEnd;

impl Hub {
    /// Registers a connection; returns what its agent needs to know, or why it has to end.
    pub(super) fn take_on(
        &self,
        hello: Hello,
        frames: Sender<Vec<u8>>,
    ) -> Result<(Welcome, u64), String> {
        let own = env!("CARGO_PKG_VERSION");
        if (hello.protocol, hello.version.as_str()) != (PROTOCOL, own) {
            return Err(format!(
                "the agent is hpsearch {} and the runner is {own}: install the same version",
                hello.version
            ));
        }
        if hello.study.as_ref().is_some_and(|study| *study != self.run.welcome.study) {
            let name = &self.run.welcome.spec.name;
            return Err(format!("it has worked for another study than this `{name}`"));
        }
        let mut state = self.lock();
        let has_ended = state.phase == Phase::Ended;
        let has_worked = hello.study.is_some() || state.agents.contains_key(&hello.session);
        if has_ended && !has_worked {
            return Err("the run is over".to_owned());
        }
        if state.given_up.contains(&hello.session) {
            return Err("the runner has given this agent up: its trials run elsewhere".to_owned());
        }
        let now = Instant::now();
        if !state.agents.contains_key(&hello.session) {
            let agent = self.new_agent(&mut state, &hello, now);
            state.agents.insert(hello.session.clone(), agent);
        }
        let agent = state.agents.get_mut(&hello.session).expect("it was put there if missing");
        // Earlier ones were acknowledged.
        agent.received = agent.received.max(hello.first.saturating_sub(1));
        let had =
            if hello.runner.as_deref() == Some(&self.run.runner) { hello.received } else { 0 };
        agent.outbox.acknowledge(had);
        agent.outbox.resume(had);
        agent.can_return = hello.can_return;
        agent.address = hello.address;
        agent.carries |= hello.carries;
        agent.generation += 1;
        let generation = agent.generation;
        let lease = self.lease.clone();
        agent.connection = Some(Connection { frames, lease, generation });
        agent.heard = now;
        agent.gone_at = None;
        agent.send_next();
        let welcome = Welcome {
            name: agent.name.clone(),
            received: agent.received,
            attempts: agent.running.iter().copied().collect(),
            now: self.run.clock.now(),
            ..self.run.welcome.clone()
        };
        Ok((welcome, generation))
    }

    /// An agent that connects for the first time: it keeps the attempts that it was awaited with.
    fn new_agent(&self, state: &mut HubState, hello: &Hello, now: Instant) -> Agent {
        let name = state.name_for(hello);
        let found = hello
            .attempts
            .iter()
            .filter(|attempt| state.awaited.remove(&(**attempt, name.clone())).is_some());
        let running: BTreeSet<AttemptOf> = found.copied().collect();
        // The launch did not reach it, or its process is another one; it ends what it is not
        // told to keep.
        let is_missing = |(_, host): &(AttemptOf, String), _: &mut Instant| *host == name;
        let missing: Vec<_> = state.awaited.extract_if(.., is_missing).collect();
        for ((attempt, _), _) in missing {
            let message = Some(format!("agent `{name}` does not run it"));
            self.ended(state, &name, attempt, (AttemptEnd::Lost, message));
        }
        state.senders += 1;
        let mut agent = Agent {
            host: hello.host.clone(),
            address: hello.address,
            sender: state.senders,
            outbox: Outbox::default(),
            received: hello.first.saturating_sub(1),
            stored: hello.first.saturating_sub(1),
            epoch: self.run.welcome.epoch,
            connection: None,
            heard: now,
            gone_at: None,
            is_leaving: false,
            dismissed: None,
            idle_since: None,
            can_return: hello.can_return,
            generation: 0,
            outgoing: VecDeque::new(),
            is_reading: false,
            writing: Arc::default(),
            carries: false,
            trials: running.iter().map(|(trial, _)| *trial).collect(),
            damaged: BTreeMap::new(),
            is_silent: false,
            running,
            name,
        };
        for attempt in agent.running.clone() {
            let of = (attempt, agent.name.clone());
            for message in state.early.remove(&of).unwrap_or_default() {
                agent.outbox.put(&bytes(&message));
            }
        }
        if state.phase == Phase::Ended {
            agent.put(&ToAgent::End);
        }
        agent
    }
}

impl HubState {
    /// The name of a new agent: the one that it had, else its host, numbered if it is taken.
    fn name_for(&self, hello: &Hello) -> String {
        let is_taken = |name: &str| {
            self.agents.values().any(|agent| agent.name == name)
                || self.awaited.keys().any(|(_, host)| host == name)
        };
        if let Some(name) = &hello.name
            && !self.agents.values().any(|agent| agent.name == *name)
        {
            return name.clone();
        }
        let fits = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        let host: String = hello.host.chars().filter(|char| fits(*char)).take(100).collect();
        let host = if host.is_empty() { "host".to_owned() } else { host };
        let numbered = (2..).map(|number| format!("{host}.{number}"));
        let mut names = std::iter::once(host.clone()).chain(numbered);
        names.find(|name| !is_taken(name)).unwrap_or(host)
    }
}
