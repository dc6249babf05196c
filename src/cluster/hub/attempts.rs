//! The attempts that agents run: how they are started, told something, and end.

use std::time::Instant;

use super::agent::Agent;
use super::group::{Consequence, Group, NodeEnd};
use super::{Hub, HubState};
use crate::cluster::message::{Act, AttemptOf, ToAgent};
use crate::cluster::transfer::Blob;
use crate::engine::{Assignment, GroupNode, Input};
use crate::runner::slot_environment::PORTS;
use crate::study::event::AttemptEnd;

impl HubState {
    fn agent_named(&mut self, name: &str) -> Option<&mut Agent> {
        self.agents.values_mut().find(|agent| agent.name == name)
    }

    /// Sends an agent a message about an attempt of its own, or keeps it until the agent is back.
    fn put_to(&mut self, name: &str, attempt: AttemptOf, message: ToAgent) {
        let of = (attempt, name.to_owned());
        if self.awaited.contains_key(&of) {
            self.early.entry(of).or_default().push(message);
        } else if let Some(agent) = self.agent_named(name) {
            agent.put(&message);
        }
    }

    fn tell_nodes(&mut self, nodes: Vec<String>, (trial, attempt): AttemptOf, act: &Act) {
        for node in nodes {
            let act = act.clone();
            self.put_to(&node, (trial, attempt), ToAgent::Attempt { trial, attempt, act });
        }
    }

    /// An agent leaves, and asks its own processes to: those of other agents leave with them.
    pub(super) fn leave_with(&mut self, name: &str) {
        let Some(agent) = self.agent_named(name) else { return };
        for attempt in agent.running.clone() {
            let Some(group) = self.groups.get_mut(&attempt).filter(|group| !group.is_asked) else {
                continue;
            };
            group.is_asked = true;
            let others = group.running().into_iter().filter(|node| node != name).collect();
            self.tell_nodes(others, attempt, &Act::Leave);
        }
    }

    /// Kills what is left of groups whose first node has exited as it was asked to.
    pub(super) fn end_overdue_groups(&mut self, now: Instant) {
        let is_due = |group: &&mut Group| group.deadline.is_some_and(|deadline| deadline <= now);
        let due = self.groups.iter_mut().filter_map(|(attempt, group)| {
            let group = Some(group).filter(is_due)?;
            (group.deadline, group.is_killed) = (None, true);
            Some((*attempt, group.running()))
        });
        for (attempt, left) in due.collect::<Vec<_>>() {
            self.tell_nodes(left, attempt, &Act::Kill);
        }
    }

    /// Passes what a node printed on to the agent that writes the attempt's log. Once that has
    /// ended, the log is here: the lines are returned.
    pub(super) fn pass_to_log(
        &mut self,
        from: &str,
        (trial, attempt): AttemptOf,
        lines: Blob,
    ) -> Option<Blob> {
        let group = self.groups.get(&(trial, attempt));
        let running = group.and_then(|group| group.nodes.first().filter(|(_, end)| end.is_none()));
        match running.map(|(leader, _)| leader.clone()).filter(|leader| leader != from) {
            Some(leader) => {
                let message = ToAgent::NodeLog { trial, attempt, lines };
                self.put_to(&leader, (trial, attempt), message);
                None
            }
            None => Some(lines),
        }
    }

    /// An address of an agent that these others reach.
    fn address_of(&self, first: &Agent, all: &[&Agent]) -> String {
        let known = first.address.filter(|address| !address.is_loopback());
        match known {
            Some(address) => address.to_string(),
            None if all.iter().all(|agent| agent.host == first.host) => "127.0.0.1".to_owned(),
            None => first.host.clone(),
        }
    }

    /// The next port for the processes of a group; its first node looks whether it is free.
    fn next_port(&mut self) -> u16 {
        let run = u16::try_from(std::process::id() % 797).unwrap_or(0);
        self.port = match self.port {
            0 => PORTS.start + run * 16,
            last if PORTS.contains(&(last + 1)) => last + 1,
            _ => PORTS.start,
        };
        self.port
    }

    /// The parts of an assignment, each with the key of its agent; `None`: one of them is not here.
    fn parts(&mut self, assignment: &Assignment) -> Option<Vec<(String, Assignment)>> {
        let devices = &assignment.slot.devices;
        let names = devices.agents();
        let find = |name: &&str| {
            let mut agents = self.agents.iter();
            agents.find(|(_, agent)| agent.name == **name && !agent.is_leaving)
        };
        let found: Vec<(&String, &Agent)> = names.iter().map(find).collect::<Option<_>>()?;
        let (key, first) = *found.first()?;
        if found.len() == 1 {
            return Some(vec![(key.clone(), assignment.clone())]);
        }
        let agents: Vec<&Agent> = found.iter().map(|(_, agent)| *agent).collect();
        let address = self.address_of(first, &agents);
        let (nodes, world_size) = (found.len(), devices.size());
        let mut first_rank = 0;
        let mut parts = Vec::new();
        for (rank, (key, agent)) in found.into_iter().enumerate() {
            let own = devices.part_of(&agent.name)?;
            let address = address.clone();
            let node = GroupNode { rank, nodes, world_size, first_rank, address, port: 0 };
            first_rank += own.size();
            let mut part = Assignment { node: Some(node), ..assignment.clone() };
            part.slot.devices = own;
            parts.push((key.clone(), part));
        }
        let port = self.next_port();
        for node in parts.iter_mut().filter_map(|(_, part)| part.node.as_mut()) {
            node.port = port;
        }
        Some(parts)
    }
}

impl Hub {
    /// Starts an attempt on the agents of its devices; `false`: one of them is not here.
    pub fn launch(&self, assignment: &Assignment) -> bool {
        let mut state = self.lock();
        let Some(parts) = state.parts(assignment) else { return false };
        let attempt = (assignment.trial, assignment.attempt);
        if parts.len() > 1 {
            let agents = assignment.slot.devices.agents().into_iter().map(str::to_owned);
            state.groups.insert(attempt, Group::of(agents));
        }
        for (key, part) in parts {
            let Some(agent) = state.agents.get_mut(&key) else { continue };
            agent.running.insert(attempt);
            agent.trials.insert(assignment.trial);
            agent.idle_since = None;
            let assignment = Box::new(self.relative(part));
            agent.put(&ToAgent::Launch { assignment });
        }
        true
    }

    /// Sends a message about a running attempt.
    pub fn tell(&self, (trial, attempt): AttemptOf, act: Act) {
        let mut state = self.lock();
        let of = (trial, attempt);
        let nodes = match state.groups.get_mut(&of) {
            Some(group) => {
                let is_for_all = group.is_for_all(&act);
                let mut nodes = group.running();
                nodes.retain(|node| is_for_all || group.leads(node));
                nodes
            }
            None => {
                let here = state.agents.values().find(|agent| agent.running.contains(&of));
                let awaited = || state.awaited.keys().find(|(attempt, _)| *attempt == of);
                let name = here.map(|agent| agent.name.clone());
                // Else it has ended.
                name.or_else(|| awaited().map(|(_, name)| name.clone())).into_iter().collect()
            }
        };
        state.tell_nodes(nodes, of, &act);
    }

    /// Takes in what an agent says of an attempt.
    pub(super) fn hear(&self, state: &mut HubState, agent: &str, input: Input) {
        let passed_on = match input {
            Input::Ended { trial, attempt, end, message } => {
                return self.ended(state, agent, (trial, attempt), (end, message));
            }
            Input::Peak { trial, attempt, bytes } => {
                if let Some(group) = state.groups.get_mut(&(trial, attempt)) {
                    group.peak = group.peak.saturating_add(bytes);
                    return;
                }
                Input::Peak { trial, attempt, bytes }
            }
            other => other,
        };
        // The runner is gone only when this process ends.
        let _runner_gone = self.run.inputs.send(passed_on);
    }

    /// An attempt, or a node of it, has ended.
    pub(super) fn ended(
        &self,
        state: &mut HubState,
        agent: &str,
        (trial, attempt): AttemptOf,
        end: NodeEnd,
    ) {
        let of = (trial, attempt);
        if let Some(agent) = state.agent_named(agent) {
            agent.running.remove(&of);
        }
        let (end, message) = match state.groups.get_mut(&of) {
            None => end,
            Some(group) => match group.note(agent, end, Instant::now()) {
                Consequence::Nothing => return,
                Consequence::Tell(act) => {
                    let left = group.running();
                    return state.tell_nodes(left, of, &act);
                }
                Consequence::Over(end) => {
                    let bytes = group.peak;
                    state.groups.remove(&of);
                    if bytes > 0 {
                        let peak = Input::Peak { trial, attempt, bytes };
                        let _runner_gone = self.run.inputs.send(peak);
                    }
                    end
                }
            },
        };
        let _runner_gone = self.run.inputs.send(Input::Ended { trial, attempt, end, message });
    }

    /// Ends the attempts of an agent that will not come back.
    pub(super) fn lose(&self, state: &mut HubState, agent: Agent, why: &str) {
        for attempt in agent.running {
            let message = Some(format!("agent `{}` was lost: {why}", agent.name));
            self.ended(state, &agent.name, attempt, (AttemptEnd::Lost, message));
        }
    }
}
