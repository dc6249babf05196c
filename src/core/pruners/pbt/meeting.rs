//! A meeting of members at a rung: their ranking, and whose checkpoints they take over.
//!
//! With several sub-populations this is MF-PBT (Doulazmi et al., *Multiple-Frequencies
//! Population-Based Training*, 2025): of a sub-population that evolves, the last quarter is
//! replaced by its first one. Each of the quarter above, in their order, takes over the state of
//! the best member of other sub-populations that none before it took, if that is better. From a
//! sub-population that evolves less often it also takes the parameters; from one that evolves more
//! often only the state, which it continues with the parameters of the best member of its own
//! sub-population, so that greedy parameters do not spread. Migrants do not explore.

use rand::RngExt as _;

use crate::pruners::Generation;
use crate::study::constraint;
use crate::study::metric::{Direction, Score};
use crate::study::seed::StreamRng;
use crate::study::trial::{Trial, TrialNumber};

/// How members compare: by their violation of the study's limits, then by their scores.
pub(super) type Standing = (Score, Score);

/// A member that has arrived, and its value there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub trial: &'a Trial,
    /// The step of its report at the rung, with its standing; `None`: it did not get there.
    pub arrived: Option<(u64, Standing)>,
}

impl<'a> Member<'a> {
    /// A trial with its first report at or after a rung. Limits are those of its last metrics: of
    /// this report, if it waits there.
    pub fn at(generation: &Generation<'_>, trial: &'a Trial, rung: u64) -> Self {
        let index = trial.curve.partition_point(|(step, _)| *step < rung);
        let arrived = trial.curve.get(index).map(|(step, value)| {
            let violation = constraint::violation(generation.constraints, &trial.last_metrics);
            let violation = Score::new(Direction::Minimize, violation.unwrap_or(0.0));
            (*step, (violation, generation.history.score(*value)))
        });
        Member { trial, arrived }
    }

    /// A trial with its latest result: its report when it last was ready, if it has not left that
    /// path since.
    pub fn latest(generation: &Generation<'_>, trial: &'a Trial) -> Option<Self> {
        let member = Member::at(generation, trial, trial.last_ready()?);
        member.arrived.is_some().then_some(member)
    }

    /// Its standing, if its value is a number.
    pub fn sound(&self) -> Option<Standing> {
        let standing = self.arrived.map(|(_, standing)| standing);
        standing.filter(|(_, score)| !score.loss().is_nan())
    }

    /// Its order: those without a number last.
    fn key(&self) -> (bool, Option<Standing>, TrialNumber) {
        let standing = self.sound();
        (standing.is_none(), standing, self.trial.number)
    }

    /// Its step and standing, if it has a checkpoint that a member of that standing may take over.
    fn gives(&self, to: &Member<'_>) -> Option<u64> {
        let (step, _) = self.arrived?;
        let (standing, own) = (self.sound()?, to.sound());
        // Equal members differ once one of them has explored.
        let is_as_good = own.is_none_or(|own| standing <= own);
        // Of several segments each starts after the one before.
        let left = to.trial.segments.last().map_or(0, |segment| segment.start);
        let is_ahead = Some(step) >= to.trial.last_step() && step > left;
        let is_saved = || self.trial.checkpoints.iter().any(|saved| saved.step == step);
        (is_as_good && is_ahead && is_saved()).then_some(step)
    }
}

/// What a member does next.
pub(super) enum Move<'a> {
    /// It continues as it is.
    Stay {
        /// Whether it was to be replaced.
        no_donor: bool,
    },
    /// It continues from a checkpoint of its sub-population, and explores.
    Copy {
        /// The donor.
        from: Member<'a>,
        /// The step of its checkpoint.
        step: u64,
        /// For parameters.
        rng: Box<StreamRng>,
    },
    /// It continues from a checkpoint of another sub-population.
    Migrate {
        /// The donor.
        from: Member<'a>,
        /// The step of its checkpoint.
        step: u64,
        /// Whose parameters it takes.
        params_of: &'a Trial,
    },
    /// There is nothing that it could continue from.
    Stop,
}

/// Members that are decided about.
pub(super) struct Meeting<'a> {
    /// All, ranked.
    ranked: Vec<Member<'a>>,
    /// The same by sub-population.
    groups: Vec<Vec<Member<'a>>>,
}

impl<'a> Meeting<'a> {
    /// A meeting of members of `count` sub-populations.
    pub fn new(
        mut members: Vec<Member<'a>>,
        count: usize,
        group_of: impl Fn(TrialNumber) -> usize,
    ) -> Self {
        members.sort_by_key(Member::key);
        let of_group = |group: usize| {
            let is_of_it = |member: &&Member<'_>| group_of(member.trial.number) == group;
            members.iter().filter(is_of_it).copied().collect()
        };
        let groups = (0..count).map(of_group).collect();
        Meeting { ranked: members, groups }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ranked.len()
    }

    /// The first `share` of all that are as good as a member.
    pub fn first(&self, share: usize, member: &Member<'_>) -> &[Member<'a>] {
        let standing = member.sound();
        let is_as_good = |other: &Member<'_>| {
            other.trial.number != member.trial.number
                && other.sound().is_some_and(|other| standing.is_none_or(|own| other <= own))
        };
        let better = self.ranked.iter().take(share).take_while(|other| is_as_good(other));
        &self.ranked[..better.count()]
    }

    /// A member's rank in its sub-population, and how many there are. Equals share a rank.
    pub fn rank(&self, member: &Member<'_>) -> (u64, u64) {
        let is_it = |other: &Member<'_>| other.trial.number == member.trial.number;
        let own = self.groups.iter().find(|group| group.iter().any(is_it));
        let group = own.map_or(&[][..], Vec::as_slice);
        let standing = member.sound();
        let is_better = |other: &&Member<'_>| {
            other.sound().is_some_and(|other| standing.is_none_or(|standing| other < standing))
        };
        (group.iter().filter(is_better).count() as u64 + 1, group.len() as u64)
    }

    /// What each member does next, by sub-population and rank.
    ///
    /// `is_due`: whether a sub-population evolves; `replaced`: how many of so many are replaced.
    pub fn moves(
        &self,
        is_due: impl Fn(usize) -> bool,
        replaced: impl Fn(usize) -> usize,
        rng_of: impl Fn(TrialNumber) -> StreamRng,
    ) -> Vec<(Member<'a>, Move<'a>)> {
        let mut moves = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            let share = replaced(group.len());
            let last = group.len() - share;
            let mut migrants = Migrants::outside(self, index);
            for (place, member) in group.iter().enumerate() {
                let is_unsound = member.sound().is_none();
                let is_replaced = is_due(index) && place >= last || is_unsound;
                let may_migrate = is_due(index) && place >= share.max(last.saturating_sub(share));
                let next = if is_replaced {
                    self.replacement(group, place, share, rng_of(member.trial.number))
                } else {
                    may_migrate.then(|| migrants.next(index, group, member)).flatten()
                };
                let next = next.unwrap_or(match is_unsound {
                    true => Move::Stop,
                    false => Move::Stay { no_donor: is_replaced },
                });
                moves.push((*member, next));
            }
        }
        moves
    }

    /// The copy of one of the first members of its sub-population, as many as are replaced. One
    /// without a number takes over what there is.
    fn replacement(
        &self,
        group: &[Member<'a>],
        place: usize,
        share: usize,
        mut rng: StreamRng,
    ) -> Option<Move<'a>> {
        let member = group.get(place)?;
        let gives = |donor: &Member<'a>| Some((*donor, donor.gives(member)?));
        let donors = |among: &[Member<'a>]| among.iter().filter_map(gives).collect::<Vec<_>>();
        let mut found = donors(&group[..share.max(1).min(place)]);
        if member.sound().is_none() {
            for others in [group, &self.ranked] {
                if found.is_empty() {
                    found = donors(others);
                }
            }
        }
        let (from, step) = *found.get(rng.random_range(0..found.len().max(1)))?;
        Some(Move::Copy { from, step, rng: Box::new(rng) })
    }
}

/// The members of other sub-populations, best first: each is taken over once.
struct Migrants<'a> {
    left: std::collections::VecDeque<(usize, Member<'a>)>,
}

impl<'a> Migrants<'a> {
    fn outside(meeting: &Meeting<'a>, group: usize) -> Self {
        let others = meeting.groups.iter().enumerate().filter(|(index, _)| *index != group);
        let mut left: Vec<(usize, Member<'a>)> = others
            .flat_map(|(index, members)| members.iter().map(move |member| (index, *member)))
            .collect();
        left.sort_by_key(|(_, member)| member.key());
        Migrants { left: left.into() }
    }

    /// The move of a member of sub-population `own`, if the best migrant left is better.
    fn next(&mut self, own: usize, group: &[Member<'a>], member: &Member<'a>) -> Option<Move<'a>> {
        while let Some((index, migrant)) = self.left.front().copied() {
            if migrant.sound()? >= member.sound()? {
                return None;
            }
            self.left.pop_front();
            if let Some(step) = migrant.gives(member) {
                // Sub-populations are in the order of their frequencies.
                let params_of = if own < index { migrant.trial } else { group.first()?.trial };
                return Some(Move::Migrate { from: migrant, step, params_of });
            }
        }
        None
    }
}
