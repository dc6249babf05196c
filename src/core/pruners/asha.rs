//! Asynchronous successive halving: at each rung of a geometric ladder of steps the best 1/eta of
//! the trials continue.

mod forecast_rank;
mod rungs;

use std::cell::RefCell;

use self::forecast_rank::RankAtRung;
use self::rungs::{Rung, Rungs};
use super::several::SeveralRule;
use super::{Case, Promotion, Pruner, PrunerEntry, Restart};
use crate::study::decision::{Decision, PauseCost, RankedForecast, Reason};
use crate::study::field::{COUNT, Field, FieldDefault, FieldKind, field};
use crate::study::history::History;
use crate::study::metric::{Middle, Number, Score};
use crate::study::registry::{Consequence, RegistryError};
use crate::study::spec::{AlgorithmSpec, Milestones};
use crate::study::step::UnitStep;
use crate::study::trial::{Trial, TrialNumber};

/// The first rung of a ladder.
pub const MIN_RESOURCE: Field =
    field("min_resource", COUNT, FieldDefault::Int(1), "step of the first rung");

/// The length of a full trial.
pub const MAX_RESOURCE: Field = field(
    "max_resource",
    COUNT,
    FieldDefault::Derived("the trial's budget"),
    "step of a full trial; rungs lie below it",
);

/// How many trials reach a rung for each one that continues.
pub const REDUCTION_FACTOR: Field = field(
    "reduction_factor",
    FieldKind::Integer { min: 2, max: 1_000 },
    FieldDefault::Int(3),
    "one in this many trials continues at a rung",
);

/// The ratio of consecutive rungs.
pub const RUNG_FACTOR: Field = field(
    "rung_factor",
    FieldKind::Integer { min: 2, max: 1_000 },
    FieldDefault::Derived("the reduction factor"),
    "ratio of consecutive rungs; a smaller one stops unpromising trials sooner",
);

/// Number of ladders.
pub const BRACKETS: Field = field(
    "brackets",
    FieldKind::Integer { min: 1, max: 64 },
    FieldDefault::Int(1),
    "parallel ladders, each without the lowest rung of the one before; most trials go to the first",
);

pub(super) const MODE: Field = field(
    "mode",
    FieldKind::Choice(&["stop", "promote"]),
    FieldDefault::Text("stop"),
    "stop the others at a rung for good, or pause every trial there and resume the best",
);

/// What trials are ranked by.
pub const RANK_BY: Field = field(
    "rank_by",
    FieldKind::Choice(&["value", "forecast", "end"]),
    FieldDefault::Text("value"),
    "rank trials by their values at a rung, or by final values forecast from the learning curves \
     and parameters of those that continued; `end` is an alias of `forecast`",
);

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "asha",
    aliases: &[],
    summary: "successive halving without waiting: at each rung the best third \
        (`reduction_factor`) continues",
    // 2: forecasts average several models by their likelihood; 3: the median of an even number of
    // values is the mean of the middle two; 4: the rank in the reason of a pause is the one that is
    // promoted by; 5: the reason has the forecast; 6: of several objectives, trials are ranked once
    // all are known, and ties do not go to the oldest; 7: pauses are priced.
    version: PRICED_SINCE,
    oldest: 2,
    options: &[MIN_RESOURCE, MAX_RESOURCE, REDUCTION_FACTOR, RUNG_FACTOR, RANK_BY, BRACKETS, MODE],
    several: true,
    build: |spec, budget| Asha::new(spec, budget).map(|asha| Box::new(asha) as Box<dyn Pruner>),
};

/// The first version whose median is that mean.
const MEDIAN_SINCE: u32 = 3;
/// The first version whose reasons of pauses break ties by number.
const TIES_BY_NUMBER_SINCE: u32 = 4;

/// The first version, also of [`super::hyperband`], whose reasons have the forecast.
const FORECAST_IN_REASON_SINCE: u32 = 5;

/// The first version, also of [`super::hyperband`], that ranks trials of several objectives once
/// all are known, and breaks their ties by the front's sparsest part.
const ALL_KNOWN_SINCE: u32 = 6;

/// The first version, also of [`super::hyperband`], that prices pauses.
pub(super) const PRICED_SINCE: u32 = 7;

/// A trial that would be resumed at once is not paused if that takes at least one in this many of
/// the training to the next rung. Below, its measurement is not worth a difference to other runs.
const WORTH_AT_ONCE: i64 = 10;

/// No trial is paused where starting again takes at least this many times as long as the training
/// to the next rung. The cost of a pause is the restart times the probability p of a promotion; it
/// saves that training with 1 - p. So this is (1 - p) / p for p = 1/6, and not 1/eta: those among
/// the best at once do not pause (benches/search/README.md has the figures).
const WORTH_ANYWAY: i64 = 5;

/// When a trial is judged at a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// At once, against the trials that reached it before; stopped for good if not among the best.
    Stop,
    /// It pauses, and resumes when it is among the best.
    Promote,
}

/// ASHA (Li et al., *A System for Massively Parallel Hyperparameter Tuning*, MLSys 2020), with the
/// paper's eta, r, R and s as `reduction_factor`, `min_resource`, `max_resource` and the index of
/// the bracket.
///
/// - The rungs of bracket s lie at `r eta^(s+k)`, k = 0, 1, ..., below R. `rung_factor` replaces
///   eta in the ladder only: as a sampler improves its proposals, most new trials are among the
///   best 1/eta of all trials, and closer rungs restore the reduction (benches/search/README.md has
///   the figures).
/// - A trial's value at a rung is its **first report at or after it**: reports may skip rungs. A
///   report that passes several rungs is judged at the highest.
/// - A rung's population is every trial of the bracket with such a report, **in any state**: pruned
///   and failed ones too keep their rank, since their values were measured; they are just not
///   resumed. Syne Tune's rungs do the same.
/// - `mode = "stop"` (Ray Tune's and Syne Tune's stopping type): with n trials at the rung, a trial
///   continues if fewer than `floor(n / eta)` are better, and always while n < eta. Equals share a
///   rank, so a tie with the last one to continue continues too.
/// - `rank_by = "forecast"`: where curves and parameters of continued trials predict final losses
///   better than values at the rung do ([`forecast_curves`](crate::analysis::learning_curve)), the
///   newest 400 trials of the rung are ranked by their forecasts.
/// - `mode = "promote"` (the paper's Algorithm 2): every trial pauses at its next rung. Whenever a
///   slot is free, rungs are searched from the top for one of the best `floor(n / eta)` that is
///   still paused there. Ties rank by number, so that at any time exactly `floor(n / eta)` qualify
///   (over time more are promoted, as better trials arrive after worse ones). A ladder of K rungs
///   needs `eta^K` trials before one is promoted to the end; a smaller study concludes with the
///   best paused trial at the highest rung.
/// - Pauses are priced: with the time to start a trial again, as the study measures it, and the
///   training to the next rung, a trial that would be resumed at once continues, and where starting
///   again is much dearer than that training every trial does ([`Reason::NotPaused`]). Trials of a
///   program that saves no checkpoints would start over: they are judged as with `mode = "stop"`.
/// - NaN at a rung stops the trial in both modes.
/// - With several objectives, the rank at a rung is that of
///   [`pareto::order_with`](crate::study::pareto::order_with) over its trials: by non-domination,
///   then by what a trial adds to the front; ties go to the sparsest part of the front. Equal
///   values share a rank, NaN is infinitely bad, and a trial without any finite loss stops. A trial
///   is ranked once all of its objectives are known; where trials pause, an unknown one is
///   infinitely bad. A paused trial resumes when the front moves so that it is among the best.
///
/// With one objective, ranks are updated incrementally: a decision costs O(log n).
///
/// Trials are assigned to brackets by number, in proportion to the sizes of Hyperband's brackets,
/// as Syne Tune draws them (`DefaultHyperbandBracketDistribution`): bracket s with the weight `K /
/// ((K - s) r_s)` for K rungs, R included.
#[derive(Clone, Debug)]
pub struct Asha {
    /// Rungs of the first bracket, ascending; the others' are its tails.
    rungs: Vec<u64>,
    /// The step of a full trial, if known.
    full: Option<u64>,
    reduction_factor: u64,
    mode: Mode,
    prices_pauses: bool,
    by_end: bool,
    middle: Middle,
    /// Whether reasons of pauses break ties by number, as promotions do.
    breaks_ties: bool,
    /// Whether reasons have the forecast that was ranked.
    tells_forecast: bool,
    several: SeveralRule,
    /// Upper ends of the brackets' shares of `[0, 1)`.
    shares: Vec<f64>,
    /// The ranks at the rungs, cached.
    standing: RefCell<Rungs>,
}

impl Asha {
    /// From checked options and the steps of a full trial. An error if explicit options leave no
    /// rung, or fewer rungs than brackets.
    pub fn new(spec: &AlgorithmSpec, budget: Option<u64>) -> Result<Self, RegistryError> {
        let (asha, max_resource) = Asha::with_one_bracket(spec, budget)?;
        let (rungs, brackets) = (&asha.rungs, BRACKETS.of::<u64>(spec).max(1));
        if brackets > (rungs.len() as u64).max(1) {
            let why = format!(
                "`{brackets}` brackets need as many rungs, and there are {} ({rungs:?})",
                rungs.len()
            );
            return Err(problem(spec, "brackets", why));
        }
        let shares = shares(&weights_of_entry(rungs, brackets, max_resource));
        Ok(Asha { shares, ..asha })
    }

    /// The same with Hyperband's brackets: one per rung, plus one without rungs if a full trial is
    /// as long as the ladder's next rung.
    pub fn with_every_bracket(
        spec: &AlgorithmSpec,
        budget: Option<u64>,
    ) -> Result<Self, RegistryError> {
        let (asha, max_resource) = Asha::with_one_bracket(spec, budget)?;
        let Some(max_resource) = max_resource else {
            let why = "brackets are counted from the step of a full trial: write `max_resource`";
            return Err(problem(spec, "max_resource", why));
        };
        let next = asha.rungs.last().map(|rung| rung.saturating_mul(asha.reduction_factor));
        let brackets = asha.rungs.len() + usize::from(next == Some(max_resource));
        let shares = shares(&weights_of_hyperband(brackets, asha.reduction_factor));
        Ok(Asha { shares, ..asha })
    }

    /// The ladder, and the steps of a full trial.
    fn with_one_bracket(
        spec: &AlgorithmSpec,
        budget: Option<u64>,
    ) -> Result<(Self, Option<u64>), RegistryError> {
        let min_resource = MIN_RESOURCE.of::<u64>(spec).max(1);
        let max_resource = MAX_RESOURCE.of::<Option<u64>>(spec).into_iter().chain(budget).min();
        let reduction_factor = REDUCTION_FACTOR.of::<u64>(spec).max(2);
        let rung_factor = RUNG_FACTOR.of::<Option<u64>>(spec).unwrap_or(reduction_factor).max(2);
        let rungs = rungs_below(max_resource, min_resource, rung_factor);
        // A study of very short trials with the default ladder is accepted: there is nothing to
        // stop early.
        let own_numbers =
            spec.options.contains_key("min_resource") || spec.options.contains_key("max_resource");
        if let (true, true, Some(max)) = (rungs.is_empty(), own_numbers, max_resource) {
            return Err(RegistryError::Option {
                algorithm: spec.name.clone(),
                option: "min_resource".to_owned(),
                why: format!("the first rung `{min_resource}` is not below a full trial's `{max}`"),
                consequence: Some(Consequence::NothingStops),
            });
        }
        let mode = if MODE.of::<String>(spec) == "promote" { Mode::Promote } else { Mode::Stop };
        let by_end = RANK_BY.of::<String>(spec) != "value";
        if by_end && mode == Mode::Promote {
            let why = "final values are forecast from trials that continued, and with \
                       `mode = \"promote\"` every trial pauses: remove one of the two";
            return Err(problem(spec, "rank_by", why));
        }
        let middle = Middle::of_version(spec.version, MEDIAN_SINCE);
        let breaks_ties = spec.version >= TIES_BY_NUMBER_SINCE;
        let tells_forecast = spec.version >= FORECAST_IN_REASON_SINCE;
        let several = match SeveralRule::of_version(spec.version, ALL_KNOWN_SINCE) {
            SeveralRule::AllKnown if mode == Mode::Promote => SeveralRule::UnknownIsWorst,
            rule => rule,
        };
        let (shares, standing) = (vec![1.0], RefCell::default());
        let asha = Asha {
            rungs,
            full: max_resource,
            reduction_factor,
            mode,
            prices_pauses: prices_pauses(spec),
            by_end,
            middle,
            breaks_ties,
            tells_forecast,
            several,
            shares,
            standing,
        };
        Ok((asha, max_resource))
    }

    /// The bracket of `trial`. Multiples of the golden ratio, modulo 1, are evenly spread at every
    /// length, so that the brackets fill in proportion from the start.
    #[expect(clippy::cast_precision_loss, reason = "the number of a trial")]
    fn bracket(&self, trial: TrialNumber) -> usize {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let spot = ((trial.0 as f64 + 0.5) * GOLDEN).fract();
        self.shares.iter().position(|end| spot < *end).unwrap_or(0)
    }

    fn rungs_of(&self, trial: TrialNumber) -> &[u64] {
        self.rungs.get(self.bracket(trial)..).unwrap_or(&[])
    }

    /// Queries a rung of the ladder on behalf of a bracket.
    fn at_rung<T>(
        &self,
        history: History<'_>,
        bracket: usize,
        index: usize,
        ask: impl FnOnce(&Rung) -> T,
    ) -> Option<T> {
        if history.has_several_objectives() {
            let of_bracket = |trial: &&Trial| self.bracket(trial.number) == bracket;
            let trials = history.compared().filter(of_bracket);
            let next = self.rungs.get(index + 1).copied();
            let steps = (*self.rungs.get(index)?, next);
            let rung = Rung::of_several(history, trials, steps, self.several);
            return (index >= bracket && rung.population() > 0).then(|| ask(&rung));
        }
        let mut standing = self.standing.borrow_mut();
        standing.follow(history, |trial| (self.bracket(trial), self.rungs_of(trial)));
        standing.rung(bracket, index.checked_sub(bracket)?).map(ask)
    }

    /// The index of the highest rung that the report at `step` is the first to reach.
    fn reached(&self, history: History<'_>, trial: &Trial, step: u64) -> Option<usize> {
        let index = self.rungs.partition_point(|rung| *rung <= step).checked_sub(1)?;
        let rung = self.rungs[index];
        let is_first_report = match self.several {
            SeveralRule::AllKnown if history.has_several_objectives() => {
                history.losses_known_from(trial, rung).is_some_and(|(at, _)| at == step)
            }
            _ => trial.last_step_before(step).is_none_or(|before| before < rung),
        };
        // A rerun that reports at other steps must not reach a rung twice.
        let judged =
            trial.decisions.iter().any(|decision| decision.step >= rung && decision.step != step);
        let is_first = index >= self.bracket(trial.number) && is_first_report && !judged;
        is_first.then_some(index)
    }

    /// The rank by forecast, where forecasts predict final losses better than values do.
    fn forecast_rank(
        &self,
        case: &Case<'_>,
        own: Score,
        index: usize,
        population: usize,
    ) -> Option<RankAtRung> {
        if !self.by_end || self.survivors(population) == 0 || !own.loss().is_finite() {
            return None;
        }
        let bracket = self.bracket(case.trial.number);
        forecast_rank::place(case, &self.rungs, index, self.middle, |trial| {
            self.bracket(trial) == bracket
        })
    }

    fn survivors(&self, population: usize) -> u64 {
        population as u64 / self.reduction_factor
    }

    fn judge_for_good(&self, place: RankAtRung, history: History<'_>, at: UnitStep) -> Decision {
        let RankAtRung { population, rank, forecast_from, end, ends } = place;
        // Fewer trials than the reduction factor: no selection yet.
        let first = match self.survivors(population) {
            0 => self.reduction_factor - 1,
            survivors => survivors,
        };
        let forecast = end.filter(|_| self.tells_forecast).and_then(|end| {
            let last = usize::try_from(first).unwrap_or(usize::MAX).min(ends.len());
            let value = |loss: f64| Number(history.direction().loss(loss));
            Some(RankedForecast {
                mean: value(end.loss),
                deviation: Number(end.variance.sqrt()),
                cut_off: value(*ends.get(last.checked_sub(1)?)?),
            })
        });
        let of = population as u64;
        let reason = Reason::Rank { rank, of, first, at, forecast_from, forecast };
        if rank <= first { Decision::continues(reason) } else { Decision::Stop(reason) }
    }

    /// The decision where trials pause.
    fn judge_for_now(&self, case: &Case<'_>, place: RankAtRung, index: usize) -> Decision {
        let (history, unit) = (case.history, case.history.step_unit());
        let (rung, rank, of) = (self.rungs[index], place.rank, place.population as u64);
        let first = self.survivors(place.population);
        let goes_on = |first: u64, until: Option<u64>, cost: PauseCost| {
            let until = until.map(|until| unit.at(until));
            Decision::continues(Reason::NotPaused { rung, rank, of, first, until, cost })
        };
        match case.restart {
            Restart::StartsOver if self.prices_pauses => {
                // The message that completes the objectives of the step is judged.
                let is_known = !history.has_several_objectives()
                    || history.losses_known_at(case.trial, case.step).is_some();
                if !is_known {
                    return Decision::CONTINUE;
                }
                match self.judge_for_good(place, history, unit.at(case.step)) {
                    Decision::Continue(Some(Reason::Rank { first, .. })) => {
                        goes_on(first, None, PauseCost::StartsOver)
                    }
                    stop => stop,
                }
            }
            Restart::Takes { restart, step } if self.prices_pauses => {
                let next = self.rungs.get(index + 1).copied();
                let steps = next.or(self.full).map(|end| end.saturating_sub(case.step));
                let training = |steps: u64| step.checked_mul(i64::try_from(steps).ok()?);
                let is_dear = |training: &i64| {
                    let would_resume = rank <= first && restart >= training / WORTH_AT_ONCE;
                    restart > 0 && (would_resume || restart / WORTH_ANYWAY >= *training)
                };
                match steps.and_then(training).filter(is_dear) {
                    Some(training) => {
                        goes_on(first, next, PauseCost::Restart { restart, training })
                    }
                    None => Decision::Pause(Reason::Rung { rung, rank, of, first }),
                }
            }
            Restart::Unknown | Restart::Takes { .. } | Restart::StartsOver => {
                Decision::Pause(Reason::Rung { rung, rank, of, first })
            }
        }
    }

    /// The best paused trial at a rung, if it may continue.
    fn promotable(&self, history: History<'_>, bracket: usize, index: usize) -> Option<Promotion> {
        let waiting = |rung: &Rung| {
            rung.best_waiting().map(|best| (best.1, rung.rank(best), rung.population()))
        };
        let (trial, rank, population) = self.at_rung(history, bracket, index, waiting)??;
        let survivors = self.survivors(population);
        if rank > survivors {
            return None;
        }
        let (rung, next) = (self.rungs[index], self.rungs.get(index + 1).copied());
        let reason = Reason::Promoted {
            rung,
            rank,
            of: population as u64,
            first: survivors,
            until: next.map(|next| history.step_unit().at(next)),
        };
        Some(Promotion { trial, until: next, reason })
    }
}

impl Pruner for Asha {
    fn waits_for_all_objectives(&self) -> bool {
        self.several == SeveralRule::AllKnown || self.prices_pauses
    }

    fn judge(&self, case: &Case<'_>) -> Decision {
        let Case { history, trial, step, .. } = *case;
        let Some(index) = self.reached(history, trial, step) else { return Decision::CONTINUE };
        let at = history.step_unit().at(step);
        let own = if history.has_several_objectives() {
            let score = |rung: &Rung| rung.score_of(trial.number);
            self.at_rung(history, self.bracket(trial.number), index, score).flatten()
        } else {
            history.score_at(trial, step)
        };
        let Some(own) = own else { return Decision::CONTINUE };
        if own.loss().is_nan() {
            return Decision::Stop(Reason::Nan { at });
        }
        // Where all of the best continue, ties share a rank: no number is smaller than 0.
        let number = match self.mode {
            Mode::Promote if self.breaks_ties => trial.number,
            _ => TrialNumber(0),
        };
        let standing = |rung: &Rung| (rung.population(), rung.rank((own, number)));
        let (population, rank) =
            self.at_rung(history, self.bracket(trial.number), index, standing).unwrap_or((1, 1));
        match self.mode {
            Mode::Stop => {
                let by_value = RankAtRung::by_value(population, rank);
                let place = self.forecast_rank(case, own, index, population).unwrap_or(by_value);
                self.judge_for_good(place, history, at)
            }
            Mode::Promote => {
                self.judge_for_now(case, RankAtRung::by_value(population, rank), index)
            }
        }
    }

    fn promote(&self, history: History<'_>) -> Option<Promotion> {
        if self.mode == Mode::Stop {
            return None;
        }
        (0..self.rungs.len()).rev().find_map(|index| {
            // A rung belongs to the brackets that begin at or below it.
            (0..self.shares.len().min(index + 1))
                .find_map(|bracket| self.promotable(history, bracket, index))
        })
    }

    fn conclude(&self, history: History<'_>) -> Option<Promotion> {
        if self.mode == Mode::Stop || history.has_complete_trial() {
            return None;
        }
        let waiting = |index: usize| {
            let best =
                |bracket| self.at_rung(history, bracket, index, Rung::best_waiting).flatten();
            (0..self.shares.len().min(index + 1)).filter_map(best).min()
        };
        let (rung, (_, trial)) = (0..self.rungs.len())
            .rev()
            .find_map(|index| waiting(index).map(|best| (self.rungs[index], best)))?;
        Some(Promotion { trial, until: None, reason: Reason::Concluded { rung } })
    }

    fn milestones(&self, budget: Option<u64>) -> Milestones {
        let is_before_end = |rung: &u64| budget.is_none_or(|budget| *rung < budget);
        Milestones { every: None, at: self.rungs.iter().copied().filter(is_before_end).collect() }
    }

    fn first_rung(&self, trial: TrialNumber) -> Option<u64> {
        (self.mode == Mode::Promote).then(|| self.rungs_of(trial).first().copied()).flatten()
    }
}

/// Whether trials pause, and pauses are priced: for the options of `asha` and [`super::hyperband`].
pub(super) fn prices_pauses(spec: &AlgorithmSpec) -> bool {
    spec.version >= PRICED_SINCE && MODE.of::<String>(spec) == "promote"
}

/// An option that contradicts others or the study.
pub(super) fn problem(spec: &AlgorithmSpec, option: &str, why: impl Into<String>) -> RegistryError {
    let (algorithm, option) = (spec.name.clone(), option.to_owned());
    RegistryError::Option { algorithm, option, why: why.into(), consequence: None }
}

fn rungs_below(max_resource: Option<u64>, min_resource: u64, factor: u64) -> Vec<u64> {
    let ladder = std::iter::successors(Some(min_resource), |rung| rung.checked_mul(factor));
    ladder.take_while(|rung| max_resource.is_none_or(|max| *rung < max)).collect()
}

/// The weights of brackets as Syne Tune draws them.
#[expect(clippy::cast_precision_loss, reason = "rungs and their number, for shares")]
fn weights_of_entry(rungs: &[u64], brackets: u64, max_resource: Option<u64>) -> Vec<f64> {
    // If the end is unknown, the ladder is unbounded, and K / (K - s) is 1.
    let count = rungs.len() + 1;
    let levels = |skipped: usize| match max_resource {
        Some(_) => count as f64 / (count - skipped) as f64,
        None => 1.0,
    };
    let rungs = rungs.iter().take(usize::try_from(brackets).unwrap_or(1));
    rungs.enumerate().map(|(s, rung)| levels(s) / *rung as f64).collect()
}

/// How many trials Hyperband starts in each bracket, most first: `ceil(n / (s + 1) eta^s)` for s
/// from n - 1 down to 0.
#[expect(clippy::cast_precision_loss, reason = "numbers of trials, for shares")]
fn weights_of_hyperband(brackets: usize, reduction_factor: u64) -> Vec<f64> {
    let power = |s: usize| (reduction_factor as f64).powi(i32::try_from(s).unwrap_or(i32::MAX));
    (0..brackets).rev().map(|s| (brackets as f64 / (s + 1) as f64 * power(s)).ceil()).collect()
}

/// Upper ends of the shares of `[0, 1)`; one share without weights.
fn shares(weights: &[f64]) -> Vec<f64> {
    if weights.is_empty() {
        return vec![1.0];
    }
    let total: f64 = weights.iter().sum();
    let mut end = 0.0;
    let upper_end = |weight: &f64| {
        end += weight / total;
        end
    };
    weights.iter().map(upper_end).collect()
}

#[cfg(test)]
mod reference_implementation;
#[cfg(test)]
mod tests;
