//! An attempt on several agents: it ends with the last of them, and the first that fails ends the
//! others.

use std::time::{Duration, Instant};

use crate::cluster::message::Act;
use crate::study::decision::Decision;
use crate::study::event::AttemptEnd;

/// Time for the other nodes to exit after the first did, as all were asked to.
const LAST_NODES: Duration = Duration::from_secs(8);

/// How a node ended, and a message.
pub(super) type NodeEnd = (AttemptEnd, Option<String>);

/// An attempt on several agents.
#[derive(Debug)]
pub(super) struct Group {
    /// Its agents by node, and how they have ended.
    pub nodes: Vec<(String, Option<NodeEnd>)>,
    /// The node whose end is the attempt's: the first, or the one that failed first.
    decisive: usize,
    /// Whether it was asked to exit: then the end of the first node counts.
    pub is_asked: bool,
    pub is_killed: bool,
    /// When those that are left are killed.
    pub deadline: Option<Instant>,
    /// The sum of the nodes' peak memory.
    pub peak: u64,
}

/// What follows from the end of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Consequence {
    Nothing,
    /// The others are told.
    Tell(Act),
    /// It was the last one.
    Over(NodeEnd),
}

impl Group {
    /// On these agents, running.
    pub fn of(agents: impl IntoIterator<Item = String>) -> Self {
        let nodes = agents.into_iter().map(|agent| (agent, None)).collect();
        let (is_asked, is_killed) = (false, false);
        Group { nodes, decisive: 0, is_asked, is_killed, deadline: None, peak: 0 }
    }

    pub fn leads(&self, agent: &str) -> bool {
        self.nodes.first().is_some_and(|(name, _)| name == agent)
    }

    /// The agents that run it still.
    pub fn running(&self) -> Vec<String> {
        let left = self.nodes.iter().filter(|(_, end)| end.is_none());
        left.map(|(agent, _)| agent.clone()).collect()
    }

    /// A node has ended.
    pub fn note(&mut self, agent: &str, end: NodeEnd, now: Instant) -> Consequence {
        let place = self.nodes.iter().position(|(name, own)| name == agent && own.is_none());
        let Some(node) = place else { return Consequence::Nothing };
        let mut consequence = Consequence::Nothing;
        match &end.0 {
            AttemptEnd::Completed | AttemptEnd::Paused => {}
            AttemptEnd::Interrupted if !self.is_killed && !self.is_asked => {
                self.is_asked = true;
                consequence = Consequence::Tell(Act::Leave);
            }
            AttemptEnd::Interrupted => {}
            end @ (AttemptEnd::Stopped
            | AttemptEnd::Lost
            | AttemptEnd::Refused
            | AttemptEnd::Diverged
            | AttemptEnd::Failed(_)) => {
                // Those that were asked may end in any way, but one that is lost asks nobody.
                if !self.is_killed && (!self.is_asked || *end == AttemptEnd::Lost) {
                    if !self.is_asked {
                        self.decisive = node;
                    }
                    self.is_killed = true;
                    consequence = Consequence::Tell(Act::Kill);
                }
            }
        }
        self.nodes[node].1 = Some(end);
        if self.is_asked && self.nodes[0].1.is_some() {
            self.deadline.get_or_insert(now + LAST_NODES);
        }
        let is_over = self.nodes.iter().all(|(_, end)| end.is_some());
        match self.nodes[self.decisive].1.clone().filter(|_| is_over) {
            Some(end) => Consequence::Over(end),
            None => consequence,
        }
    }

    /// Notes what it is told; whether all nodes are, and not only the first.
    pub fn is_for_all(&mut self, act: &Act) -> bool {
        match act {
            Act::Answer(decision) => {
                let ends = !matches!(decision, Decision::Continue(_));
                self.is_asked |= ends;
                ends
            }
            Act::Leave => {
                self.is_asked = true;
                true
            }
            Act::Kill => {
                self.is_killed = true;
                true
            }
            Act::Examine | Act::GiveUp => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::spec::FailureCause;

    fn group() -> Group {
        Group::of(["a", "b", "c"].map(str::to_owned))
    }

    fn failed(code: i32) -> NodeEnd {
        (AttemptEnd::Failed(FailureCause::Exit(code)), Some(format!("exit status {code}")))
    }

    fn done(end: AttemptEnd) -> NodeEnd {
        (end, None)
    }

    #[test]
    fn a_group_ends_with_its_last_node() {
        let (mut group, now) = (group(), Instant::now());
        let end = || done(AttemptEnd::Completed);
        assert_eq!(group.note("a", end(), now), Consequence::Nothing);
        assert_eq!(group.note("a", failed(1), now), Consequence::Nothing, "it has ended already");
        assert_eq!(group.note("x", failed(1), now), Consequence::Nothing, "another agent");
        assert_eq!((group.note("c", end(), now), group.deadline), (Consequence::Nothing, None));
        assert_eq!(group.note("b", end(), now), Consequence::Over(end()));
    }

    #[test]
    fn the_first_node_that_fails_ends_the_others_and_is_the_cause() {
        let (mut group, now) = (group(), Instant::now());
        assert_eq!(group.note("b", failed(3), now), Consequence::Tell(Act::Kill));
        assert_eq!(group.running(), ["a", "c"]);
        assert_eq!(group.note("a", failed(137), now), Consequence::Nothing);
        assert_eq!(group.note("c", done(AttemptEnd::Lost), now), Consequence::Over(failed(3)));
    }

    #[test]
    fn after_it_was_asked_to_exit_the_first_node_decides() {
        let (mut group, now) = (group(), Instant::now());
        assert!(!group.is_for_all(&Act::Answer(Decision::CONTINUE)) && !group.is_asked);
        assert!(group.is_for_all(&Act::Leave));
        assert_eq!(group.note("b", failed(143), now), Consequence::Nothing);
        let interrupted = || done(AttemptEnd::Interrupted);
        assert_eq!(group.note("a", interrupted(), now), Consequence::Nothing);
        assert_eq!(group.deadline, Some(now + LAST_NODES), "one that hangs is not waited for");
        assert_eq!(group.note("c", failed(137), now), Consequence::Over(interrupted()));
    }

    #[test]
    fn a_node_that_leaves_takes_the_others_with_it() {
        let (mut group, now) = (group(), Instant::now());
        let interrupted = || done(AttemptEnd::Interrupted);
        assert_eq!(group.note("c", interrupted(), now), Consequence::Tell(Act::Leave));
        let lost = || done(AttemptEnd::Lost);
        assert_eq!(group.note("b", lost(), now), Consequence::Tell(Act::Kill));
        assert_eq!(group.note("a", interrupted(), now), Consequence::Over(interrupted()));
    }
}
