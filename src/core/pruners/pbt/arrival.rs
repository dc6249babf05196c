//! Decisions about members as they arrive, by the latest results of the others (`asynchronous`).
//!
//! As in the paper and in Ray Tune with `synch=False`: a member that reaches its interval is ranked
//! among the latest results of all members that have not ended, each at its own last interval, and
//! is replaced or continues at once. What differs:
//!
//! - A trial's steps never go back: a donor is not behind the member that it replaces. A member
//!   that is slower is usually behind, ranks last, and goes on from a faster one's step. One that
//!   is ahead of all that might replace it waits for those on the way to its step: of members as
//!   fast as each other, the first to arrive would never be replaced. If none is on the way, it
//!   goes on.
//! - A member that took over another's state has no result until its next interval.
//! - One without a number waits for a donor while other members can still bring one.

use super::meeting::{Meeting, Member, Move};
use super::{Pbt, is_open};
use crate::pruners::{Gathered, Generation, MemberDecision};
use crate::study::decision::Reason;
use crate::study::trial::{Trial, TrialNumber, TrialState};

impl Pbt {
    /// The decisions about those of one population, of which `all` are the trials, that wait.
    pub(super) fn decide_arrivals(
        &self,
        generation: &Generation<'_>,
        all: &[Trial],
    ) -> Vec<MemberDecision> {
        let open = || all.iter().filter(is_open);
        if !open().any(|trial| self.waits_at(trial).is_some()) {
            return Vec::new();
        }
        let member = |trial| match self.waits_at(trial) {
            Some(rung) => Some(Member::at(generation, trial, rung)),
            None => Member::latest(generation, trial),
        };
        let meeting = Meeting::new(open().filter_map(member).collect(), 1, |_| 0);
        let rng_of = |number: TrialNumber| {
            let trial = all.iter().find(|trial| trial.number == number);
            let rung = trial.and_then(|trial| self.waits_at(trial)).unwrap_or(0);
            // One that diverges may be replaced twice on its way to a rung.
            let copies = trial.map_or(0, |trial| trial.segments.len());
            generation.seeds.stream(&format!("pbt/{number}/{rung}/{copies}"))
        };
        let moves = meeting.moves(|_| true, |count| self.replaced(count), rng_of);
        let decisions = moves.into_iter().filter_map(|(member, next)| {
            let rung = self.waits_at(member.trial)?;
            self.decision_of(generation, &meeting, (&member, rung), next)
        });
        let mut decisions: Vec<MemberDecision> = decisions.collect();
        decisions.sort_by_key(MemberDecision::trial);
        decisions
    }

    /// The decision about a member that waits at a rung; `None`: it waits on.
    fn decision_of(
        &self,
        generation: &Generation<'_>,
        meeting: &Meeting<'_>,
        (member, rung): (&Member<'_>, u64),
        next: Move<'_>,
    ) -> Option<MemberDecision> {
        let trial = member.trial.number;
        let (rank, of) = meeting.rank(member);
        let may_wait = generation.gathered == Gathered::All;
        Some(match next {
            Move::Copy { from, step, mut rng } => {
                let params = self.explored(generation, None, &from, &mut rng);
                let (from_rank, _) = meeting.rank(&from);
                let (from, from_step) = (from.trial.number, Some(step));
                let (other, until) = (from.0, self.rung_after(step));
                let reason =
                    Reason::Exploited { rung, rank, of, from: other, from_rank, from_step };
                MemberDecision::Clone { trial, from, step, params, until, reason }
            }
            Move::Stop if may_wait => return None,
            Move::Stay { no_donor: true } if may_wait && self.is_awaited(meeting, member) => {
                return None;
            }
            Move::Stop => {
                let at = generation.history.step_unit().at(rung);
                MemberDecision::Stop { trial, reason: Reason::Nan { at } }
            }
            // One sub-population has no migrants.
            Move::Stay { .. } | Move::Migrate { .. } => {
                let no_donor = matches!(next, Move::Stay { no_donor: true });
                let arrived = member.arrived.map_or(rung, |(step, _)| step);
                let until = self.rung_after(arrived.max(rung));
                let reason = Reason::Survived { rung, rank, of, no_donor, at_once: true };
                MemberDecision::Continue { trial, until, reason }
            }
        })
    }

    /// Whether a member that might replace this one is on the way to its step.
    fn is_awaited(&self, meeting: &Meeting<'_>, member: &Member<'_>) -> bool {
        let share = self.replaced(meeting.len());
        let here = member.arrived.map(|(step, _)| step);
        let is_coming = |donor: &Member<'_>| {
            let is_behind = donor.arrived.map(|(step, _)| step) < here;
            let next = donor.arrived.and_then(|(step, _)| self.rung_after(step));
            let may_run = matches!(donor.trial.state, TrialState::Running | TrialState::Queued);
            may_run && is_behind && next >= here
        };
        meeting.first(share, member).iter().any(is_coming)
    }
}
