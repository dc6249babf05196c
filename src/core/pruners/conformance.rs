//! Conformance suite of pruners: each implementation runs it (each line of `PRUNERS` does).

use std::collections::BTreeSet;

use super::{Case, Gathered, Generation, MemberDecision, Promotion, Pruner, PrunerEntry, Restart};
use crate::samplers::conformance::trial_of;
use crate::study::checkpoint::Checkpoint;
use crate::study::decision::Decision;
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::seed::SeedTree;
use crate::study::space::{Dimension, Distribution, Scale, Space};
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// Runs the suite with the options of `spec` (`entry.defaults()` for none). The error describes the
/// first violation.
///
/// - A decision is a function of the case; a stop and a pause have a reason.
/// - NaN, infinities, equal values, no reports, skipped and enormous steps do no harm.
/// - A trial as good as the best at every step is never stopped; a worse value never gets a milder
///   decision, and NaN is the worst.
/// - Only paused trials are promoted, to a step after their last, and never with NaN.
/// - With several objectives, if the pruner serves them: the same of odd histories and promotions,
///   a trial that dominates all others is never stopped, and one that a second dominates never gets
///   a milder decision than it.
/// - In a population only waiting trials get decisions, at most one each, the same when asked
///   again; a copy has the checkpoint of a step behind which the member is not, and a valid
///   configuration.
/// - Milestones ascend and lie within the budget.
pub fn check(entry: &PrunerEntry, spec: &AlgorithmSpec) -> Result<(), String> {
    let pruner = (entry.build)(spec, Some(BUDGET)).map_err(|error| error.to_string())?;
    for direction in [Direction::Minimize, Direction::Maximize] {
        let suite = Suite { name: entry.name, pruner: pruner.as_ref(), direction };
        suite.any_history_is_survived()?;
        suite.the_best_is_never_stopped()?;
        suite.worse_is_never_treated_better()?;
        suite.promotions_go_ahead()?;
        suite.populations_copy_what_is_there()?;
        if entry.several {
            suite.several_objectives_are_ranked_by_domination()?;
        }
    }
    Suite { name: entry.name, pruner: pruner.as_ref(), direction: Direction::Minimize }
        .milestones_ascend_within_the_budget()
}

/// Steps of a full trial in the suite.
const BUDGET: u64 = 27;

struct Suite<'a> {
    name: &'static str,
    pruner: &'a dyn Pruner,
    direction: Direction,
}

impl Suite<'_> {
    fn any_history_is_survived(&self) -> Result<(), String> {
        let mut histories: Vec<Vec<Trial>> = vec![Vec::new()];
        let curves = odd_curves();
        for curve in &curves {
            for state in TrialState::ALL {
                histories.push((0..12).map(|number| trial(number, state, curve)).collect());
            }
        }
        let any = |number| {
            let curve = &curves[pick(number * 7, curves.len())];
            trial(number, TrialState::ALL[pick(number, 6)], curve)
        };
        histories.push((0..60).map(any).collect());
        for history in histories {
            for curve in &curves {
                for (step, _) in curve.iter().chain(&[(0, 0.0), (2, 0.0)]) {
                    self.verdict(&history, curve, *step)?;
                }
            }
            self.promotion(&history)?;
        }
        Ok(())
    }

    fn the_best_is_never_stopped(&self) -> Result<(), String> {
        let others = self.finished(30);
        for number in 0..others.len() {
            // As good as the best at every step: equal.
            let best: Vec<(u64, f64)> =
                (1..=BUDGET).map(|step| (step, self.best_at(&others, step))).collect();
            for upto in 1..=best.len() {
                let (step, value) = best[upto - 1];
                if let Decision::Stop(reason) =
                    self.verdict(&others[..number], &best[..upto], step)?
                {
                    return self.fails(format!(
                        "the best trial ({value} at step {step}, after \
                        {number} others) was stopped: {reason}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn worse_is_never_treated_better(&self) -> Result<(), String> {
        let losses = [f64::NEG_INFINITY, -1.0, 0.2, 0.5, 0.8, 9.0, f64::INFINITY, f64::NAN];
        for count in [0, 1, 2, 5, 30] {
            let others = self.finished(count);
            for step in 1..=BUDGET {
                let mut mildest = 0;
                for loss in losses {
                    let curve: Vec<(u64, f64)> =
                        (1..=step).map(|at| (at, self.direction.loss(loss))).collect();
                    let severity = severity(&self.verdict(&others, &curve, step)?);
                    if severity < mildest {
                        return self.fails(format!(
                            "at step {step} after {count} others a loss of \
                            {loss} fares better than a smaller one"
                        ));
                    }
                    mildest = severity;
                }
            }
        }
        Ok(())
    }

    /// A history of mostly complete and some pruned trials.
    fn finished(&self, count: u64) -> Vec<Trial> {
        let finished = |number| {
            let state = if number % 4 == 3 { TrialState::Pruned } else { TrialState::Complete };
            trial(number, state, &wavy_curve(number, self.direction))
        };
        (0..count).map(finished).collect()
    }

    /// Promotes until nothing is left, with every kind of trial at the rungs.
    fn promotions_go_ahead(&self) -> Result<(), String> {
        let mut trials: Vec<Trial> = (0..60)
            .map(|number| {
                let steps = [1, 3, 9, 27][pick(number, 4)];
                let state = if pick(number * 5, 7) == 0 {
                    TrialState::ALL[pick(number, 6)]
                } else {
                    TrialState::Paused
                };
                let curve: Vec<(u64, f64)> =
                    wavy_curve(number, self.direction).into_iter().take(steps).collect();
                let nan = vec![(1, f64::NAN)];
                trial(number, state, if pick(number, 11) == 0 { &nan } else { &curve })
            })
            .collect();
        for _ in 0..1000 {
            let Some(number) = self.promotion(&trials)? else { return Ok(()) };
            trials[number.index()].state = TrialState::Running;
        }
        self.fails("60 trials were promoted 1000 times although none came back".to_owned())
    }

    fn populations_copy_what_is_there(&self) -> Result<(), String> {
        let Some(size) = self.pruner.population() else { return Ok(()) };
        let axis = Distribution::float(0.0, 1.0, Scale::Linear, None).map_err(|e| e.to_string())?;
        let space = Space::new(vec![Dimension::new("x", axis)]).map_err(|e| e.to_string())?;
        let curves = odd_curves();
        let mut copies = 0;
        for round in 0..400 {
            let member = |number: u64| {
                let wavy = wavy_curve(number + round, self.direction);
                let upto = [3, 6, 9, 12, 27][pick(round, 5)].min(wavy.len());
                let is_odd = (number + round).is_multiple_of(7);
                let curve = if is_odd { &curves[pick(round, 7)][..] } else { &wavy[..upto] };
                let state = match (number * 3 + round * 5) % 40 {
                    place @ 0..6 => TrialState::ALL[pick(place, 6)],
                    _ => TrialState::Paused,
                };
                let mut trial = trial(number, state, curve);
                trial.params.insert("x", 0.5);
                let saved = trial.last_step().filter(|_| !number.is_multiple_of(5));
                let checkpoint = |step| Checkpoint {
                    step,
                    path: format!("/{number}/{step}").into(),
                    bytes: None,
                    digest: None,
                };
                trial.checkpoints = saved.map(checkpoint).into_iter().collect();
                trial
            };
            let trials: Vec<Trial> = (0..size + round % 3).map(member).collect();
            for gathered in [Gathered::All, Gathered::Waiting] {
                copies += self.check_generation(&space, &trials, gathered, round)?;
            }
        }
        if copies == 0 { self.fails("nothing was copied".to_owned()) } else { Ok(()) }
    }

    /// Checks the decisions about a population; returns the number of copies.
    fn check_generation(
        &self,
        space: &Space,
        trials: &[Trial],
        gathered: Gathered,
        seed: u64,
    ) -> Result<u64, String> {
        let history = History::of(trials, self.direction);
        let seeds = SeedTree::new(seed);
        let generation = Generation { space, constraints: &[], history, seeds, gathered };
        let decisions = self.pruner.exploit(&generation);
        if decisions != self.pruner.exploit(&generation) {
            return self.fails("the same population had two decisions".to_owned());
        }
        let mut copies = 0;
        let mut decided = BTreeSet::new();
        for decision in &decisions {
            let number = decision.trial();
            let member = &trials[number.index()];
            if !member.waits_for_its_pruner() || !decided.insert(number) {
                return self.fails(format!("trial {number} does not wait: {decision:?}"));
            }
            let MemberDecision::Clone { from, step, params, until, .. } = decision else {
                continue;
            };
            copies += 1;
            let is_saved = trials[from.index()].checkpoints.iter().any(|at| at.step == *step);
            let goes_ahead =
                member.last_step() <= Some(*step) && until.is_none_or(|end| end > *step);
            if *from == number || !is_saved || !goes_ahead || space.check(params).is_err() {
                return self.fails(format!("trial {number} cannot do this: {decision:?}"));
            }
        }
        Ok(copies)
    }

    fn several_objectives_are_ranked_by_domination(&self) -> Result<(), String> {
        let directions = [self.direction, Direction::Maximize];
        let second = |loss: f64| Direction::Maximize.loss(loss);
        let with_second = |mut trial: Trial, by: f64| {
            let shifted = |value: &f64| second(self.direction.loss(*value) * by);
            let vector =
                |(step, value): &(u64, f64)| (*step, vec![Some(*value), Some(shifted(value))]);
            trial.vectors = trial.curve.iter().map(vector).collect();
            trial.values =
                trial.value.take().map_or(Vec::new(), |value| vec![value, shifted(&value)]);
            trial
        };
        let decide = |trials: &[Trial], step| -> Result<Decision, String> {
            let (space, history) = (&Space::default(), History::of_several(trials, &directions));
            let Some(trial) = trials.last() else { return Ok(Decision::CONTINUE) };
            let judge = || {
                self.pruner.judge(&Case { space, history, trial, step, restart: Restart::Unknown })
            };
            let (decision, again) = (judge(), judge());
            if decision != again {
                return self.fails(format!("the same case at step {step} had two verdicts"));
            }
            Ok(decision)
        };
        let others: Vec<Trial> = self
            .finished(30)
            .into_iter()
            .map(|trial| {
                let by = if trial.number.0.is_multiple_of(2) { 1.0 } else { -1.0 };
                with_second(trial, by)
            })
            .collect();
        for count in [1, 5, 30] {
            for step in 1..=BUDGET {
                let mut mildest = 0;
                for loss in [-9.0, 0.2, 0.5, 9.0, f64::INFINITY, f64::NAN] {
                    let curve: Vec<(u64, f64)> =
                        (1..=step).map(|at| (at, self.direction.loss(loss))).collect();
                    let mut own = trial(count, TrialState::Running, &curve);
                    let vector =
                        |(at, value): &(u64, f64)| (*at, vec![Some(*value), Some(second(loss))]);
                    own.vectors = curve.iter().map(vector).collect();
                    let trials = [&others[..pick(count, 31)], &[own]].concat();
                    let severity = severity(&decide(&trials, step)?);
                    if loss == -9.0 && severity == 2 {
                        return self.fails(format!("the best of {count} was stopped at {step}"));
                    }
                    if severity < mildest {
                        return self.fails(format!(
                            "at step {step} after {count} others losses of {loss} fare better \
                            than smaller ones"
                        ));
                    }
                    mildest = severity;
                }
            }
        }
        for curve in odd_curves() {
            for state in TrialState::ALL {
                let mut trials: Vec<Trial> = (0..12)
                    .map(|number| with_second(trial(number, state, &curve), -1.0))
                    .chain([with_second(trial(12, TrialState::Running, &curve), 1.0)])
                    .collect();
                // One that has not reported its first objective.
                trials[3].curve.clear();
                trials[3].vectors.iter_mut().for_each(|(_, values)| values[0] = None);
                for (step, _) in curve.iter().chain(&[(2, 0.0)]) {
                    decide(&trials, *step)?;
                }
                let history = History::of_several(&trials, &directions);
                for promotion in [self.pruner.promote(history), self.pruner.conclude(history)] {
                    let Some(Promotion { trial, until, .. }) = promotion else { continue };
                    let promoted = &trials[trial.index()];
                    if promoted.state != TrialState::Paused
                        || until.is_some_and(|until| Some(until) <= promoted.last_step())
                    {
                        return self.fails(format!("trial {trial} is promoted to {until:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn milestones_ascend_within_the_budget(&self) -> Result<(), String> {
        for budget in [Some(1), Some(2), Some(10), Some(BUDGET), Some(u64::MAX), None] {
            let milestones = self.pruner.milestones(budget);
            let ascend = milestones.at.windows(2).all(|pair| pair[0] < pair[1]);
            let within =
                milestones.at.iter().all(|step| budget.is_none_or(|budget| *step <= budget));
            if !ascend || !within || milestones.every == Some(0) {
                return self.fails(format!(
                    "the milestones of a trial of {budget:?} steps are {milestones:?}"
                ));
            }
        }
        for number in 0..30 {
            let first = self.pruner.first_rung(TrialNumber(number));
            let milestones = self.pruner.milestones(Some(BUDGET)).at;
            if first.is_some_and(|rung| rung == 0 || !milestones.contains(&rung)) {
                return self.fails(format!(
                    "trial {number} pauses first at {first:?}, which is no milestone"
                ));
            }
        }
        Ok(())
    }

    /// The decision on a running trial with `curve`, asked for twice.
    fn verdict(
        &self,
        others: &[Trial],
        curve: &[(u64, f64)],
        step: u64,
    ) -> Result<Decision, String> {
        let judge = || judge(self.pruner, others, curve, step, self.direction);
        let verdict = judge();
        if verdict != judge() {
            return self.fails(format!("the same case at step {step} had two verdicts"));
        }
        if verdict.reason().is_some_and(|reason| reason.to_string().is_empty()) {
            return self.fails(format!(
                "the verdict `{}` at step {step} has an empty reason",
                verdict.word()
            ));
        }
        Ok(verdict)
    }

    /// Checks and returns the promoted trial, if any.
    fn promotion(&self, trials: &[Trial]) -> Result<Option<TrialNumber>, String> {
        let history = History::of(trials, self.direction);
        let promotion = self.pruner.promote(history);
        if promotion != self.pruner.promote(history) {
            return self.fails("the same question had two promotions".to_owned());
        }
        self.check_promotion(trials, self.pruner.conclude(history))?;
        self.check_promotion(trials, promotion)
    }

    fn check_promotion(
        &self,
        trials: &[Trial],
        promotion: Option<Promotion>,
    ) -> Result<Option<TrialNumber>, String> {
        let Some(Promotion { trial: number, until, .. }) = promotion else { return Ok(None) };
        let Some(trial) = trials.get(number.index()) else {
            return self.fails(format!("trial {number} is promoted, and there is none"));
        };
        let (last, value) = trial.last().unwrap_or((0, f64::NAN));
        if trial.state != TrialState::Paused
            || value.is_nan()
            || until.is_some_and(|until| until <= last)
        {
            let state = trial.state.as_str();
            return self.fails(format!(
                "trial {number}, {state} with {value} at step {last}, is promoted to {until:?}"
            ));
        }
        Ok(Some(number))
    }

    fn best_at(&self, trials: &[Trial], step: u64) -> f64 {
        let history = History::of(trials, self.direction);
        let best = trials.iter().filter_map(|trial| history.best_until(trial, step)).min();
        best.map_or(f64::NAN, |score| self.direction.loss(score.loss()))
    }

    fn fails<T>(&self, what: String) -> Result<T, String> {
        Err(format!("pruner `{}` ({}): {what}", self.name, self.direction.as_str()))
    }
}

fn severity(verdict: &Decision) -> u8 {
    match verdict {
        Decision::Continue(_) => 0,
        Decision::Pause(_) => 1,
        Decision::Stop(_) => 2,
    }
}

/// The decision on a running trial with `curve` after `others`.
pub(super) fn judge(
    pruner: &dyn Pruner,
    others: &[Trial],
    curve: &[(u64, f64)],
    step: u64,
    direction: Direction,
) -> Decision {
    let mut trials = others.to_vec();
    trials.push(trial(others.len() as u64, TrialState::Running, curve));
    judge_at(pruner, &trials, others.len(), step, direction)
}

/// The decision on one of `trials`.
pub(super) fn judge_at(
    pruner: &dyn Pruner,
    trials: &[Trial],
    index: usize,
    step: u64,
    direction: Direction,
) -> Decision {
    let (space, history) = (&Space::default(), History::of(trials, direction));
    pruner.judge(&Case { space, history, trial: &trials[index], step, restart: Restart::Unknown })
}

/// A trial with these reports; where it is complete the last one is its value.
pub(super) fn trial(number: u64, state: TrialState, curve: &[(u64, f64)]) -> Trial {
    let value = curve.last().filter(|_| state == TrialState::Complete).map(|(_, value)| *value);
    Trial { curve: curve.to_vec(), ..trial_of(number, Params::new(), state, value) }
}

fn pick(number: u64, of: usize) -> usize {
    usize::try_from(number % of as u64).unwrap_or(0)
}

/// A falling curve of losses between 0 and 1 with its own oscillation.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn wavy_curve(number: u64, direction: Direction) -> Vec<(u64, f64)> {
    let end = ((number * 37) % 50) as f64 / 100.0;
    let loss = |step: u64| end + 0.4 / step as f64 + 0.1 * ((step + number) as f64).sin().abs();
    (1..=BUDGET).map(|step| (step, direction.loss(loss(step)))).collect()
}

fn odd_curves() -> Vec<Vec<(u64, f64)>> {
    vec![
        vec![],
        vec![(0, 1.0)],
        vec![(1, f64::NAN)],
        vec![(1, f64::INFINITY), (3, f64::NEG_INFINITY), (9, f64::NAN)],
        vec![(1, 0.5), (2, 0.5), (3, 0.5), (4, 0.5)],
        vec![(2, 0.3), (7, 0.2), (26, f64::MIN_POSITIVE), (27, -0.0)],
        vec![(u64::MAX - 1, f64::MAX), (u64::MAX, f64::MIN)],
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_pruner_of_the_table_holds_the_contract() {
        for entry in super::super::PRUNERS {
            assert_eq!(super::check(entry, &entry.defaults()), Ok(()));
        }
    }
}
