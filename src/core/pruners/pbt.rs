//! Population-based training: the worst members of a population continue from the checkpoints of
//! the best, with other parameters.

mod explore;

use rand::RngExt as _;

use super::asha::{MAX_RESOURCE, problem};
use super::{Case, Gathered, Generation, MemberDecision, Pruner, PrunerEntry};
use crate::study::constraint;
use crate::study::decision::{Decision, Reason};
use crate::study::field::{COUNT, Field, FieldDefault, FieldKind, field};
use crate::study::metric::{Direction, Score};
use crate::study::registry::RegistryError;
use crate::study::spec::{AlgorithmSpec, Milestones};
use crate::study::trial::{Trial, TrialNumber};

/// Trials of a population.
pub const POPULATION: Field = field(
    "population",
    FieldKind::Integer { min: 2, max: 1_000 },
    FieldDefault::Int(8),
    "number of trials that train side by side and learn from each other",
);

/// Steps between decisions.
pub const INTERVAL: Field = field(
    "interval",
    COUNT,
    FieldDefault::Derived("a tenth of the trial's budget"),
    "steps between two decisions about the members of a population",
);

const QUANTILE: Field = field(
    "quantile",
    FieldKind::Float { low: std::ops::Bound::Excluded(0.0), high: std::ops::Bound::Included(0.5) },
    FieldDefault::Float(0.25),
    "share of the members that are replaced, and of those that they are replaced by",
);

const RESAMPLE: Field = field(
    "resample_probability",
    FieldKind::Float { low: std::ops::Bound::Included(0.0), high: std::ops::Bound::Included(1.0) },
    FieldDefault::Float(0.25),
    "probability that a parameter is drawn anew instead of being perturbed",
);

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "pbt",
    aliases: &[],
    summary: "population-based training: at each interval the worst members continue from the \
        checkpoints of the best, with perturbed parameters",
    version: 1,
    options: &[POPULATION, INTERVAL, QUANTILE, RESAMPLE, MAX_RESOURCE],
    several: false,
    build: |spec, budget| Pbt::new(spec, budget).map(|pbt| Box::new(pbt) as Box<dyn Pruner>),
};

/// Most milestones that are listed one by one.
const MOST_LISTED: u64 = 4_096;

/// Population-based training (Jaderberg et al., *Population Based Training of Neural Networks*,
/// 2017) with truncation selection.
///
/// - Trials are members of populations by number: the first `population` of them form the first
///   one, and so on. A population is created at once, so that its first parameters do not depend on
///   timing.
/// - Every member pauses at each multiple of `interval` below its end, at its **first report at or
///   after it**. Decisions are made when all members that have not ended are there, in the order
///   of their numbers, so that they depend on nothing but the reports. Members that failed or were
///   stopped have left the population; one that diverged waits to be replaced. Where reports are
///   rarer than `interval`, the next meeting is the first after the last report of any of them.
/// - *Exploit*: members are ranked by their values at this step. Each of the last
///   `ceil(quantile n)`, at most half, continues from the checkpoint of one of as many first
///   members, drawn uniformly (Ray Tune's rule, also for fewer than `1 / quantile` members). The
///   donor must have a checkpoint of the step that it reported.
/// - *Explore*: each parameter of the donor is drawn anew with `resample_probability`, or else
///   multiplied by 0.8 or 1.2; choices move to a neighbour in their list.
/// - Members that are not replaced keep state and parameters. A member that violates limits ranks
///   behind all that do not. NaN ranks last, and has to be replaced, if need be by a member that is
///   not among the first; if there is nobody to copy, the member stops.
#[derive(Clone, Debug)]
pub struct Pbt {
    population: u64,
    interval: u64,
    quantile: f64,
    resample: f64,
    end: Option<u64>,
}

/// A member that has arrived, and its value there.
struct Member<'a> {
    trial: &'a Trial,
    /// The step of its report at the rung, with its standing; `None`: it did not get there.
    arrived: Option<(u64, Standing)>,
}

/// How members compare: by their violation of the study's limits, then by their scores.
type Standing = (Score, Score);

impl Member<'_> {
    /// Its order: those without a number last.
    fn key(&self) -> (bool, Option<Standing>, TrialNumber) {
        let standing = self.sound();
        (standing.is_none(), standing, self.trial.number)
    }

    /// Its standing, if its value is a number.
    fn sound(&self) -> Option<Standing> {
        let standing = self.arrived.map(|(_, standing)| standing);
        standing.filter(|(_, score)| !score.loss().is_nan())
    }
}

impl Pbt {
    /// From checked options and the steps of a full trial.
    pub fn new(spec: &AlgorithmSpec, budget: Option<u64>) -> Result<Self, RegistryError> {
        let end = MAX_RESOURCE.of::<Option<u64>>(spec).into_iter().chain(budget).min();
        let given = INTERVAL.of::<Option<u64>>(spec);
        let Some(interval) = given.or_else(|| end.map(|end| end.div_ceil(10))) else {
            let why = "the steps of a full trial are not known: write `interval`";
            return Err(problem(spec, INTERVAL.name, why));
        };
        if let Some(end) = end.filter(|end| given.is_some() && interval >= *end) {
            let why = format!(
                "no member is ever replaced: `{interval}` is not below a full \
                trial's `{end}`"
            );
            return Err(problem(spec, INTERVAL.name, why));
        }
        Ok(Pbt {
            population: POPULATION.of::<u64>(spec).max(2),
            interval: interval.max(1),
            quantile: QUANTILE.of(spec),
            resample: RESAMPLE.of(spec),
            end,
        })
    }

    /// The rung after `step`, if it is below the end.
    fn rung_after(&self, step: u64) -> Option<u64> {
        let next = (step / self.interval).checked_add(1)?.checked_mul(self.interval)?;
        self.end.is_none_or(|end| next < end).then_some(next)
    }

    /// The highest rung up to `step`.
    fn rung_at(&self, step: u64) -> Option<u64> {
        let last = self.end.map_or(step, |end| step.min(end.saturating_sub(1)));
        Some(last / self.interval * self.interval).filter(|rung| *rung > 0)
    }

    /// The rung at which a paused trial waits.
    fn waits_at(&self, trial: &Trial) -> Option<u64> {
        let reached = || trial.last_step().and_then(|step| self.rung_at(step));
        trial.until.or_else(reached).filter(|_| trial.waits_for_its_pruner())
    }

    /// The members of one population that are to be decided about now, and their rung.
    fn gathered<'a>(
        &self,
        members: &'a [Trial],
        gathered: Gathered,
    ) -> Option<(u64, Vec<&'a Trial>)> {
        let is_open = |trial: &&Trial| !trial.state.is_finished() && trial.origin.is_judged();
        let open: Vec<&Trial> = members.iter().filter(is_open).collect();
        let waiting: Vec<(u64, &Trial)> =
            open.iter().filter_map(|trial| Some((self.waits_at(trial)?, *trial))).collect();
        let is_whole = members.len() as u64 == self.population && waiting.len() == open.len();
        if gathered == Gathered::All && !is_whole {
            return None;
        }
        // Those that are ahead, such as resumed by the user, wait for the others.
        let rung = waiting.iter().map(|(rung, _)| *rung).min()?;
        let here = waiting.into_iter().filter(|(at, _)| *at == rung);
        Some((rung, here.map(|(_, trial)| trial).collect()))
    }

    fn decide(
        &self,
        generation: &Generation<'_>,
        rung: u64,
        trials: &[&Trial],
    ) -> Vec<MemberDecision> {
        let mut members: Vec<Member<'_>> = trials
            .iter()
            .map(|trial| Member { trial, arrived: standing_at(generation, trial, rung) })
            .collect();
        members.sort_by_key(Member::key);
        let steps = members.iter().filter_map(|member| Some(member.arrived?.0));
        let until = self.rung_after(steps.fold(rung, u64::max));
        let replaced = self.replaced(members.len());
        let meeting = Meeting { generation, rung, until, members: &members, replaced };
        let mut decisions: Vec<MemberDecision> =
            (0..members.len()).map(|place| self.decide_member(&meeting, place)).collect();
        decisions.sort_by_key(MemberDecision::trial);
        decisions
    }

    /// How many of `count` members are replaced.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a population"
    )]
    fn replaced(&self, count: usize) -> usize {
        ((count as f64 * self.quantile).ceil() as usize).min(count / 2)
    }

    /// The decision on the member at `place` of the ranking.
    fn decide_member(&self, meeting: &Meeting<'_>, place: usize) -> MemberDecision {
        let Meeting { generation, rung, until, members, .. } = *meeting;
        let (member, of) = (&members[place], members.len() as u64);
        let number = member.trial.number;
        let own = member.sound();
        let is_replaced = place >= members.len() - meeting.replaced || own.is_none();
        let donors = if is_replaced { meeting.donors(place) } else { Vec::new() };
        let mut rng = generation.seeds.stream(&format!("pbt/{number}/{rung}"));
        let rank = meeting.rank_of(own);
        if let Some(donor) = donors.get(rng.random_range(0..donors.len().max(1)))
            && let Some((step, standing)) = donor.arrived
        {
            let (space, constraints) = (generation.space, generation.constraints);
            let from = donor.trial;
            let params =
                explore::perturbed(space, constraints, &from.params, self.resample, &mut rng);
            let from_rank = meeting.rank_of(Some(standing));
            let reason = Reason::Exploited { rung, rank, of, from: from.number.0, from_rank };
            return MemberDecision::Clone {
                trial: number,
                from: from.number,
                step,
                params,
                until,
                reason,
            };
        }
        if own.is_none() {
            let at = generation.history.clock().at(rung);
            return MemberDecision::Stop { trial: number, reason: Reason::Nan { at } };
        }
        let no_donor = is_replaced;
        let reason = Reason::Survived { rung, rank, of, no_donor };
        MemberDecision::Continue { trial: number, until, reason }
    }
}

/// Members that are decided about, ranked.
struct Meeting<'a> {
    generation: &'a Generation<'a>,
    rung: u64,
    /// The next rung.
    until: Option<u64>,
    members: &'a [Member<'a>],
    /// How many of the last are replaced.
    replaced: usize,
}

impl<'a> Meeting<'a> {
    /// How many are better, and one; equals share a rank.
    fn rank_of(&self, standing: Option<Standing>) -> u64 {
        let is_better = |other: &&Member<'_>| {
            other.sound().is_some_and(|other| standing.is_none_or(|standing| other < standing))
        };
        self.members.iter().filter(is_better).count() as u64 + 1
    }

    /// The members whose checkpoints the one at `place` may take over: of the first, as many as
    /// are replaced. One without a number takes over any.
    fn donors(&self, place: usize) -> Vec<&'a Member<'a>> {
        let member = &self.members[place];
        let own = member.sound();
        let is_donor = |donor: &&Member<'_>| {
            // Equal members differ once one of them has explored.
            let is_as_good = donor.sound().is_some_and(|other| own.is_none_or(|own| other <= own));
            let step = donor.arrived.map(|(step, _)| step);
            let is_behind = step >= member.trial.last_step();
            is_as_good
                && is_behind
                && donor.trial.checkpoints.iter().any(|at| Some(at.step) == step)
        };
        let first = self.replaced.max(1).min(place);
        let donors = |among: &'a [Member<'a>]| among.iter().filter(is_donor).collect::<Vec<_>>();
        let of_the_first = donors(&self.members[..first]);
        match own.is_none() && of_the_first.is_empty() {
            true => donors(self.members),
            false => of_the_first,
        }
    }
}

/// A trial's first report at or after a rung, and how it compares. It waits there: its last metrics
/// are those of this report.
fn standing_at(generation: &Generation<'_>, trial: &Trial, rung: u64) -> Option<(u64, Standing)> {
    let index = trial.curve.partition_point(|(step, _)| *step < rung);
    let (step, value) = trial.curve.get(index)?;
    let violation = constraint::violation(generation.constraints, &trial.last_metrics);
    let violation = Score::new(Direction::Minimize, violation.unwrap_or(0.0));
    Some((*step, (violation, generation.history.score(*value))))
}

impl Pruner for Pbt {
    fn judge(&self, case: &Case<'_>) -> Decision {
        let Case { trial, step, .. } = *case;
        // It was sent on to a rung, or has not been decided about yet.
        let rung = trial.until.filter(|until| *until <= step);
        let Some(rung) = rung.or_else(|| self.rung_at(step).filter(|_| trial.until.is_none()))
        else {
            return Decision::CONTINUE;
        };
        let is_first = trial.last_step_before(step).is_none_or(|before| before < rung);
        // A rerun that reports at other steps must not wait twice.
        let judged =
            trial.decisions.iter().any(|decision| decision.step >= rung && decision.step != step);
        match is_first && !judged {
            true => Decision::Pause(Reason::Ready { rung }),
            false => Decision::CONTINUE,
        }
    }

    fn population(&self) -> Option<u64> {
        Some(self.population)
    }

    fn exploit(&self, generation: &Generation<'_>) -> Vec<MemberDecision> {
        let size = usize::try_from(self.population).unwrap_or(usize::MAX);
        let populations = generation.history.trials().chunks(size);
        let gathered =
            populations.filter_map(|members| self.gathered(members, generation.gathered));
        gathered.flat_map(|(rung, trials)| self.decide(generation, rung, &trials)).collect()
    }

    fn milestones(&self, budget: Option<u64>) -> Milestones {
        let end = budget.into_iter().chain(self.end).min();
        match end.filter(|end| end / self.interval <= MOST_LISTED) {
            Some(end) => {
                let rungs = (1..=end / self.interval).map(|index| index * self.interval);
                Milestones { every: None, at: rungs.filter(|rung| *rung < end).collect() }
            }
            None => Milestones { every: Some(self.interval), at: Vec::new() },
        }
    }

    fn first_rung(&self, _trial: TrialNumber) -> Option<u64> {
        self.rung_after(0)
    }
}

#[cfg(test)]
mod tests;
