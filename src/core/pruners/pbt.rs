//! Population-based training: the worst members of a population continue from the checkpoints of
//! the best, with other parameters.

mod arrival;
mod bandit;
mod explore;
mod meeting;

use bandit::Bandit;
use meeting::{Meeting, Member, Move};

use super::asha::{MAX_RESOURCE, problem};
use super::{Case, Gathered, Generation, MemberDecision, Pruner, PrunerEntry};
use crate::study::decision::{Decision, Reason};
use crate::study::field::{COUNT, Field, FieldDefault, FieldKind, field};
use crate::study::params::Params;
use crate::study::registry::RegistryError;
use crate::study::seed::StreamRng;
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
    "share of the members that are replaced, and of the members that replace them",
);

const RESAMPLE: Field = field(
    "resample_probability",
    FieldKind::Float { low: std::ops::Bound::Included(0.0), high: std::ops::Bound::Included(1.0) },
    FieldDefault::Float(0.25),
    "probability that a parameter is resampled instead of perturbed",
);

const FREQUENCIES: Field = field(
    "frequencies",
    FieldKind::Integers { min: 1, max: 1_000_000 },
    FieldDefault::Of(|| serde_json::json!([1])),
    "equal sub-populations, each with the number of intervals between its decisions: they begin \
     with 1 and ascend, as in [1, 5, 20]",
);

/// Whether a model chooses parameters.
pub const MODEL: Field = field(
    "model",
    FieldKind::Flag,
    FieldDefault::Flag(false),
    "whether a Gaussian process of the improvements so far chooses the numbers of replaced \
     members (PB2)",
);

/// Whether members are decided about as they arrive.
pub const ASYNCHRONOUS: Field = field(
    "asynchronous",
    FieldKind::Flag,
    FieldDefault::Flag(false),
    "whether to rank a member as soon as it reaches its interval, among the latest results of \
     the others, without waiting for them; decisions then depend on which member is faster",
);

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "pbt",
    aliases: &[],
    summary: "population-based training: at each interval the worst members continue from the \
        checkpoints of the best, with perturbed parameters",
    // 2: nothing is decided about a member at its end.
    version: NONE_AT_END_SINCE,
    oldest: 1,
    options: &[
        POPULATION,
        INTERVAL,
        QUANTILE,
        RESAMPLE,
        FREQUENCIES,
        MODEL,
        ASYNCHRONOUS,
        MAX_RESOURCE,
    ],
    several: false,
    build: |spec, budget| Pbt::new(spec, budget).map(|pbt| Box::new(pbt) as Box<dyn Pruner>),
};

/// The first version that decides nothing about a member whose report is at its end or beyond.
const NONE_AT_END_SINCE: u32 = 2;

/// Most milestones that are listed one by one.
const MOST_LISTED: u64 = 4_096;

/// Population-based training (Jaderberg et al., *Population Based Training of Neural Networks*,
/// 2017) with truncation selection.
///
/// - Trials are members of populations by number: the first `population` of them form the first
///   one, and so on. A population is created at once, so that its first parameters do not depend on
///   timing.
/// - Every member pauses at each multiple of `interval` below its end, at its **first report at or
///   after it**, unless that is at its end or beyond. Decisions are made when all members that have
///   not ended are there, in the order of their numbers, so that they depend on nothing but the
///   reports. Members that failed or were stopped have left the population; one that diverged waits
///   to be replaced. Where reports are rarer than `interval`, the next meeting is the first after
///   the last report of any of them.
/// - *Exploit*: members are ranked by their values at this step. Each of the last
///   `ceil(quantile n)`, at most half, continues from the checkpoint of one of as many first
///   members, drawn uniformly (Ray Tune's rule, also for fewer than `1 / quantile` members). The
///   donor must have a checkpoint of the step that it reported.
/// - *Explore*: each parameter of the donor is drawn anew with `resample_probability`, or else
///   multiplied by 0.8 or 1.2; choices move to a neighbour in their list.
/// - Members that are not replaced keep state and parameters. A member that violates limits ranks
///   behind all that do not. NaN ranks last, and has to be replaced, if need be by a member that is
///   not among the first; if there is nobody to copy, the member stops.
/// - *Sub-populations* (`frequencies`): MF-PBT, see `pbt/meeting.rs`. *Model*: PB2, see
///   `pbt/bandit.rs`. *Asynchronous* decisions: see `pbt/arrival.rs`.
#[derive(Clone, Debug)]
pub struct Pbt {
    population: u64,
    interval: u64,
    quantile: f64,
    resample: f64,
    frequencies: Vec<u64>,
    model: bool,
    asynchronous: bool,
    /// Whether a member waits for decisions at its end, too.
    waits_at_end: bool,
    end: Option<u64>,
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
        let population = POPULATION.of::<u64>(spec).max(2);
        let frequencies = FREQUENCIES.of::<Vec<u64>>(spec);
        if let Err(why) = check_frequencies(&frequencies, population, interval, end) {
            return Err(problem(spec, FREQUENCIES.name, why));
        }
        let (model, asynchronous) = (MODEL.of(spec), ASYNCHRONOUS.of(spec));
        let several = frequencies.len() > 1;
        let meetings = [(model, MODEL.name), (several, FREQUENCIES.name)];
        if let Some((_, other)) = meetings.iter().find(|(is_set, _)| asynchronous && *is_set) {
            let why = format!("`{other}` compares members at the same step, where none waits");
            return Err(problem(spec, ASYNCHRONOUS.name, why));
        }
        Ok(Pbt {
            population,
            interval: interval.max(1),
            quantile: QUANTILE.of(spec),
            resample: RESAMPLE.of(spec),
            frequencies,
            model,
            asynchronous,
            waits_at_end: !asynchronous && spec.version < NONE_AT_END_SINCE,
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

    /// The decisions about those members of a population, of which `all` are the trials.
    fn decide(
        &self,
        generation: &Generation<'_>,
        all: &[Trial],
        rung: u64,
        trials: &[&Trial],
    ) -> Vec<MemberDecision> {
        let members: Vec<Member<'_>> =
            trials.iter().map(|trial| Member::at(generation, trial, rung)).collect();
        let steps = members.iter().filter_map(|member| Some(member.arrived?.0));
        let until = self.rung_after(steps.fold(rung, u64::max));
        let meeting = Meeting::new(members, self.frequencies.len(), |trial| self.group_of(trial));
        let is_due = |group: usize| {
            let every =
                self.frequencies.get(group).and_then(|many| many.checked_mul(self.interval));
            every.is_some_and(|every| rung.is_multiple_of(every))
        };
        let replaced = |count| self.replaced(count);
        let seeds = generation.seeds;
        let moves =
            meeting.moves(is_due, replaced, |number| seeds.stream(&format!("pbt/{number}/{rung}")));
        let mut bandit = self.model.then(|| Bandit::new(generation, all, self.interval, rung));
        if let Some(bandit) = &mut bandit {
            moves.iter().for_each(|(member, next)| match next {
                Move::Stay { .. } => bandit.expect(member, &member.trial.params),
                Move::Migrate { params_of, .. } => bandit.expect(member, &params_of.params),
                Move::Copy { .. } | Move::Stop => {}
            });
        }
        let mut decisions: Vec<MemberDecision> = Vec::new();
        for (member, next) in moves {
            let trial = member.trial.number;
            let (rank, of) = meeting.rank(&member);
            decisions.push(match next {
                Move::Stop => {
                    let at = generation.history.step_unit().at(rung);
                    MemberDecision::Stop { trial, reason: Reason::Nan { at } }
                }
                Move::Stay { no_donor } => {
                    let reason = Reason::Survived { rung, rank, of, no_donor, at_once: false };
                    MemberDecision::Continue { trial, until, reason }
                }
                Move::Migrate { from, step, params_of } => {
                    let (from, params) = (from.trial.number, params_of.params.clone());
                    let (other, params_of) = (from.0, params_of.number.0);
                    let reason = Reason::Migrated { rung, rank, of, from: other, params_of };
                    MemberDecision::Clone { trial, from, step, params, until, reason }
                }
                Move::Copy { from, step, mut rng } => {
                    let params = self.explored(generation, bandit.as_mut(), &from, &mut rng);
                    let (from_rank, _) = meeting.rank(&from);
                    let from = from.trial.number;
                    let (other, from_step) = (from.0, None);
                    let reason =
                        Reason::Exploited { rung, rank, of, from: other, from_rank, from_step };
                    MemberDecision::Clone { trial, from, step, params, until, reason }
                }
            });
        }
        decisions.sort_by_key(MemberDecision::trial);
        decisions
    }

    /// The parameters with which a member continues from a donor's checkpoint.
    fn explored(
        &self,
        generation: &Generation<'_>,
        bandit: Option<&mut Bandit<'_>>,
        donor: &Member<'_>,
        rng: &mut StreamRng,
    ) -> Params {
        let (space, constraints) = (generation.space, generation.constraints);
        let params = &donor.trial.params;
        let perturbed = explore::perturbed(space, constraints, params, self.resample, rng);
        let Some(bandit) = bandit else { return perturbed };
        let chosen = bandit.choose(donor, &perturbed, rng).unwrap_or(perturbed);
        bandit.expect(donor, &chosen);
        chosen
    }

    /// The sub-population of a trial.
    fn group_of(&self, trial: TrialNumber) -> usize {
        let groups = self.frequencies.len() as u64;
        let size = (self.population / groups).max(1);
        usize::try_from((trial.0 % self.population / size).min(groups - 1)).unwrap_or(0)
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
}

/// Whether a trial is a member that has not ended.
fn is_open(trial: &&Trial) -> bool {
    !trial.state.is_finished() && trial.origin.is_judged()
}

/// Checks that sub-populations are equal, that each has quarters, and that each evolves.
fn check_frequencies(
    frequencies: &[u64],
    population: u64,
    interval: u64,
    end: Option<u64>,
) -> Result<(), String> {
    let count = frequencies.len() as u64;
    let is_ascending = frequencies.windows(2).all(|pair| pair[0] < pair[1]);
    if frequencies.first() != Some(&1) || !is_ascending {
        return Err("it begins with 1 and ascends, as in `[1, 5, 20]`".into());
    }
    if count > 1 && !population.is_multiple_of(4 * count) {
        let whole = 4 * count;
        return Err(format!(
            "with {count} sub-populations, `population` must be a multiple of {whole}"
        ));
    }
    let slowest = frequencies.last().and_then(|last| last.checked_mul(interval));
    if let Some(end) = end.filter(|end| count > 1 && slowest.is_none_or(|steps| steps >= *end)) {
        let last = frequencies.last().unwrap_or(&1);
        return Err(format!("{last} intervals of {interval} are not below a full trial's {end}"));
    }
    Ok(())
}

impl Pruner for Pbt {
    fn judge(&self, case: &Case<'_>) -> Decision {
        let Case { trial, step, .. } = *case;
        // What is left of it needs no decision.
        if !self.waits_at_end && self.end.is_some_and(|end| step >= end) {
            return Decision::CONTINUE;
        }
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
            true => Decision::Pause(Reason::Ready { rung, at_once: self.asynchronous }),
            false => Decision::CONTINUE,
        }
    }

    fn population(&self) -> Option<u64> {
        Some(self.population)
    }

    fn is_asynchronous(&self) -> bool {
        self.asynchronous
    }

    fn exploit(&self, generation: &Generation<'_>) -> Vec<MemberDecision> {
        let size = usize::try_from(self.population).unwrap_or(usize::MAX);
        let populations = generation.history.trials().chunks(size);
        if self.asynchronous {
            return populations.flat_map(|all| self.decide_arrivals(generation, all)).collect();
        }
        let decided = populations.filter_map(|all| {
            let (rung, trials) = self.gathered(all, generation.gathered)?;
            Some(self.decide(generation, all, rung, &trials))
        });
        decided.flatten().collect()
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
