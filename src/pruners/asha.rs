//! Asynchronous successive halving: at each rung of a geometric ladder of steps the best 1/eta of the trials go on.

use super::{Case, Promotion, PromotionAsk, Pruner, PrunerEntry};
use crate::history::History;
use crate::metric::Score;
use crate::policy::{OptionKind, OptionSpec, PolicyError};
use crate::seed::StreamRng;
use crate::study::{Milestones, PolicySpec};
use crate::trial::{Trial, TrialNumber, TrialState};
use crate::verdict::{Reason, Verdict};

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "asha",
    aliases: &[],
    summary: "successive halving without waiting: at each rung the best third (`reduction_factor`) goes on",
    version: 1,
    options: &[
        OptionSpec { name: "min_resource", kind: OptionKind::Int { min: 1, max: i64::MAX }, default: "1", summary: "clock value of the first rung" },
        OptionSpec {
            name: "max_resource",
            kind: OptionKind::Int { min: 1, max: i64::MAX },
            default: "the trial's budget",
            summary: "clock value of a full trial; rungs lie below it",
        },
        OptionSpec {
            name: "reduction_factor",
            kind: OptionKind::Int { min: 2, max: 1_000 },
            default: "3",
            summary: "one of so many trials passes a rung, and the next rung is so many times as far",
        },
        OptionSpec {
            name: "brackets",
            kind: OptionKind::Int { min: 1, max: 64 },
            default: "1",
            summary: "ladders side by side, each without the lowest rung of the one before; most trials go to the first",
        },
        OptionSpec {
            name: "mode",
            kind: OptionKind::Word(&["stop", "promote"]),
            default: "\"stop\"",
            summary: "stop the others at a rung for good, or pause every trial there and resume the best",
        },
    ],
    build: |spec, budget| Asha::new(spec, budget).map(|asha| Box::new(asha) as Box<dyn Pruner>),
};

/// What becomes of a trial at a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Judged at once, against those that were there before; stopped for good if not among the best.
    Stop,
    /// Paused; resumed when it is among the best.
    Promote,
}

/// ASHA (Li et al., *A System for Massively Parallel Hyperparameter Tuning*, MLSys 2020), with the paper's eta, r, R
/// and s as `reduction_factor`, `min_resource`, `max_resource` and the index of the bracket.
///
/// - The rungs of bracket s lie at `r eta^(s+k)`, k = 0, 1, ..., below R.
/// - A trial's value at a rung is its **first report at or after it**: reports may skip rungs. A report that passes
///   several rungs is judged at the highest.
/// - A rung's population is every trial of the bracket with such a report, **in whatever state it is now**: pruned ones,
///   and also failed ones. Their values were measured, so they keep their rank; they are just not resumed. Syne Tune's
///   rungs do the same (entries stay when a trial ends or fails).
/// - `mode = "stop"` (Ray Tune's and Syne Tune's stopping type): with n trials at the rung, a trial goes on if fewer than
///   `floor(n / eta)` are better, and always while n < eta. Equals share a rank, so a tie with the last one to go on
///   goes on too.
/// - `mode = "promote"` (the paper's Algorithm 2): every trial pauses at its next rung. Whenever there is room, rungs are
///   searched from the top for one of the best `floor(n / eta)` that still waits there. Equals rank by number, so that
///   at any time exactly `floor(n / eta)` qualify (over time more are promoted, as better trials arrive after worse ones).
///   A ladder of K rungs needs `eta^K` trials before one is promoted to the end; a study of fewer concludes with the best
///   trial at the highest rung where one waits.
/// - NaN at a rung stops the trial in both modes.
///
/// Trials are dealt to brackets by their numbers in proportion to the sizes of Hyperband's brackets, as Syne Tune draws
/// them (`DefaultHyperbandBracketDistribution`): bracket s with the weight `K / ((K - s) r_s)` for K rungs, R included.
#[derive(Clone, Debug)]
pub struct Asha {
    /// Rungs of the first bracket, ascending; the others' are its tails.
    rungs: Vec<u64>,
    reduction_factor: u64,
    mode: Mode,
    /// Upper ends of the brackets' shares of `[0, 1)`.
    shares: Vec<f64>,
}

impl Asha {
    /// From checked options and the clock values of a full trial. An error where the user's own numbers leave no rung, or
    /// fewer than there are brackets.
    pub fn new(spec: &PolicySpec, budget: Option<u64>) -> Result<Self, PolicyError> {
        let problem = |option: &str, why: String| PolicyError::Option { policy: ENTRY.name.to_owned(), option: option.to_owned(), why };
        let min_resource = spec.count("min_resource", 1).max(1);
        let max_resource = spec.options.get("max_resource").and_then(serde_json::Value::as_u64).into_iter().chain(budget).min();
        let reduction_factor = spec.count("reduction_factor", 3).max(2);
        let rungs = rungs_below(max_resource, min_resource, reduction_factor);
        // A study of very short trials with the default ladder is let through: there is nothing to stop early.
        let own_numbers = spec.options.contains_key("min_resource") || spec.options.contains_key("max_resource");
        if let (true, true, Some(max)) = (rungs.is_empty(), own_numbers, max_resource) {
            return Err(problem(
                "min_resource",
                format!("the first rung `{min_resource}` is not below a full trial's `{max}`, so nothing is ever stopped"),
            ));
        }
        let brackets = spec.count("brackets", 1).max(1);
        if brackets > (rungs.len() as u64).max(1) {
            return Err(problem("brackets", format!("`{brackets}` brackets need as many rungs, and there are {} ({rungs:?})", rungs.len())));
        }
        let mode = if spec.word("mode", "stop") == "promote" { Mode::Promote } else { Mode::Stop };
        let shares = bracket_shares(&rungs, brackets, max_resource);
        Ok(Asha { rungs, reduction_factor, mode, shares })
    }

    /// The rungs of the bracket of `trial`. Multiples of the golden ratio, modulo 1, spread evenly at every length, so that
    /// the brackets fill in proportion from the first trials on.
    #[expect(clippy::cast_precision_loss, reason = "the number of a trial")]
    fn bracket(&self, trial: TrialNumber) -> usize {
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let spot = ((trial.0 as f64 + 0.5) * GOLDEN).fract();
        self.shares.iter().position(|end| spot < *end).unwrap_or(0)
    }

    fn rungs_of(&self, trial: TrialNumber) -> &[u64] {
        self.rungs.get(self.bracket(trial)..).unwrap_or(&[])
    }

    /// The highest rung that the report at `step` is the first to reach.
    fn reached(&self, trial: &Trial, step: u64) -> Option<u64> {
        let before = trial.curve.iter().rev().map(|(at, _)| *at).find(|at| *at < step);
        let rung = self.rungs_of(trial.number).iter().copied().rev().find(|rung| *rung <= step)?;
        // A rerun that reports at other steps than the first run does not reach a rung twice.
        let judged = trial.decisions.iter().any(|decision| decision.step >= rung && decision.step != step);
        (before.is_none_or(|before| before < rung) && !judged).then_some(rung)
    }

    /// The trials of `bracket` that reached `rung`, by number. Not sorted: a rank is counted in one pass.
    fn population<'a>(&'a self, history: History<'a>, bracket: usize, rung: u64) -> impl Iterator<Item = (Score, &'a Trial)> {
        let of_bracket = history.trials().iter().filter(move |trial| self.shares.len() == 1 || self.bracket(trial.number) == bracket);
        of_bracket.filter_map(move |trial| value_at(trial, rung).map(|value| (history.score(value), trial)))
    }

    fn survivors(&self, population: usize) -> u64 {
        population as u64 / self.reduction_factor
    }

    fn judge_for_good(&self, population: usize, rank: u64, step: u64) -> Verdict {
        let survivors = self.survivors(population);
        let place = format!("rank {rank} of {population} at step {step}");
        if survivors == 0 {
            let first = self.reduction_factor - 1;
            return Verdict::Continue(Some(Reason(format!("{place}; the first {first} go on"))));
        }
        let reason = Reason(format!("{place}; {survivors} {}", if survivors == 1 { "goes on" } else { "go on" }));
        if rank <= survivors { Verdict::Continue(Some(reason)) } else { Verdict::Stop(reason) }
    }

    /// The best trial that waits at `rung`, if it may go on.
    fn promotable(&self, history: History<'_>, bracket: usize, rung: u64) -> Option<Promotion> {
        let next = self.rungs.iter().copied().find(|higher| *higher > rung);
        // Equals rank by number.
        let place = |(score, trial): (Score, &Trial)| (score, trial.number);
        let waiting = self.population(history, bracket, rung).filter(|(score, trial)| !score.loss().is_nan() && waits_at(trial, next));
        let best = waiting.map(place).min()?;
        let (mut population, mut rank) = (0, 1);
        for other in self.population(history, bracket, rung) {
            population += 1;
            rank += u64::from(place(other) < best);
        }
        let survivors = self.survivors(population);
        if rank > survivors {
            return None;
        }
        let place = format!("rank {rank} of {population} at rung {rung}; {survivors} {}", if survivors == 1 { "goes on" } else { "go on" });
        let reason = Reason(match next {
            Some(next) => format!("{place} to step {next}"),
            None => format!("{place} to the end"),
        });
        Some(Promotion::Resume { trial: best.1, until: next, reason })
    }
}

impl Pruner for Asha {
    fn judge(&self, case: &Case<'_>) -> Verdict {
        let Case { history, trial, step } = *case;
        let Some(rung) = self.reached(trial, step) else { return Verdict::GO_ON };
        let Some(own) = history.score_at(trial, step) else { return Verdict::GO_ON };
        if own.loss().is_nan() {
            return Verdict::Stop(Reason(format!("the value at step {step} is NaN")));
        }
        let (mut population, mut rank) = (0, 1);
        for (score, _) in self.population(history, self.bracket(trial.number), rung) {
            population += 1;
            rank += u64::from(score < own);
        }
        match self.mode {
            Mode::Stop => self.judge_for_good(population, rank, step),
            Mode::Promote => {
                let survivors = self.survivors(population);
                Verdict::Pause(Reason(format!("rung {rung} reached with rank {rank} of {population}; the best {survivors} go on")))
            }
        }
    }

    fn promote(&self, ask: &PromotionAsk<'_>, _rng: &mut StreamRng) -> Option<Promotion> {
        if self.mode == Mode::Stop {
            return None;
        }
        self.rungs.iter().enumerate().rev().find_map(|(index, rung)| {
            // A rung belongs to the brackets that begin at it or below.
            (0..self.shares.len().min(index + 1)).find_map(|bracket| self.promotable(ask.history, bracket, *rung))
        })
    }

    fn conclude(&self, ask: &PromotionAsk<'_>) -> Option<Promotion> {
        let trials = ask.history.trials();
        if self.mode == Mode::Stop || trials.iter().any(|trial| trial.state == TrialState::Complete) {
            return None;
        }
        let waiting = |rung: u64| {
            let next = self.rungs.iter().copied().find(|higher| *higher > rung);
            let scored = trials.iter().filter(move |trial| waits_at(trial, next)).filter_map(move |trial| {
                let score = ask.history.score(value_at(trial, rung)?);
                (!score.loss().is_nan()).then_some((score, trial.number))
            });
            scored.min()
        };
        let (rung, (_, trial)) = self.rungs.iter().rev().find_map(|rung| waiting(*rung).map(|best| (*rung, best)))?;
        let reason = Reason(format!("the best trial at rung {rung}, the highest that was reached, runs to its end: no other did"));
        Some(Promotion::Resume { trial, until: None, reason })
    }

    fn milestones(&self, budget: Option<u64>) -> Milestones {
        Milestones { every: None, at: self.rungs.iter().copied().filter(|rung| budget.is_none_or(|budget| *rung < budget)).collect() }
    }

    fn first_rung(&self, trial: TrialNumber) -> Option<u64> {
        (self.mode == Mode::Promote).then(|| self.rungs_of(trial).first().copied()).flatten()
    }
}

/// Whether a trial that reached a rung is paused there, neither past the next one nor on its way to it. One that was
/// paused on its way was paused by the user, whose decision it stays.
fn waits_at(trial: &Trial, next: Option<u64>) -> bool {
    let passed_next = trial.last().is_some_and(|(last, _)| next.is_some_and(|next| last >= next));
    let on_its_way = trial.until.zip(trial.last()).is_some_and(|(until, (last, _))| until > last);
    trial.waits_for_its_pruner() && !passed_next && !on_its_way
}

/// The trial's first report at or after `rung`.
fn value_at(trial: &Trial, rung: u64) -> Option<f64> {
    trial.curve.get(trial.curve.partition_point(|(step, _)| *step < rung)).map(|(_, value)| *value)
}

fn rungs_below(max_resource: Option<u64>, min_resource: u64, reduction_factor: u64) -> Vec<u64> {
    let ladder = std::iter::successors(Some(min_resource), |rung| rung.checked_mul(reduction_factor));
    ladder.take_while(|rung| max_resource.is_none_or(|max| *rung < max)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "rungs and their number, for shares")]
fn bracket_shares(rungs: &[u64], brackets: u64, max_resource: Option<u64>) -> Vec<f64> {
    // Without a known end the ladder is as good as endless, and K / (K - s) is 1.
    let levels = |skipped: usize| if max_resource.is_some() { (rungs.len() + 1) as f64 / (rungs.len() + 1 - skipped) as f64 } else { 1.0 };
    let weights: Vec<f64> = rungs.iter().take(usize::try_from(brackets).unwrap_or(1)).enumerate().map(|(s, rung)| levels(s) / *rung as f64).collect();
    if weights.is_empty() {
        return vec![1.0];
    }
    let total: f64 = weights.iter().sum();
    weights
        .iter()
        .scan(0.0, |end, weight| {
            *end += weight / total;
            Some(*end)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::params::Params;
    use crate::pruners::conformance;
    use crate::samplers::conformance::trial_of;
    use crate::seed::SeedTree;
    use rand::RngExt as _;

    fn asha(options: &[(&str, serde_json::Value)], budget: u64) -> Asha {
        let spec = options.iter().fold(ENTRY.defaults(), |spec, (key, value)| spec.with(key, value.clone()));
        Asha::new(&spec, Some(budget)).unwrap()
    }

    fn promoting(budget: u64) -> Asha {
        asha(&[("mode", "promote".into())], budget)
    }

    /// Runs trials on one slot as the engine would, until `count` are begun and nothing waits for promotion.
    /// `loss(trial, step)` is what they report, at every step from 1 to `budget`.
    fn run(asha: &Asha, count: u64, budget: u64, loss: impl Fn(u64, u64) -> f64) -> (Vec<Trial>, u64) {
        let mut trials: Vec<Trial> = Vec::new();
        let mut steps = 0;
        loop {
            let history = History::of(&trials, Direction::Minimize);
            let promotion = asha.promote(&PromotionAsk { history }, &mut SeedTree::new(0).stream("pruner"));
            let full = trials.len() as u64 == count;
            let index = match promotion.or_else(|| full.then(|| asha.conclude(&PromotionAsk { history })).flatten()) {
                Some(Promotion::Resume { trial, until, .. }) => {
                    trials[trial.index()].until = until;
                    trial.index()
                }
                Some(Promotion::Clone { .. }) => panic!("asha clones nothing"),
                None if (trials.len() as u64) < count => {
                    let number = trials.len() as u64;
                    let trial = trial_of(number, Params::new(), TrialState::Running, None);
                    trials.push(Trial { until: asha.first_rung(TrialNumber(number)), ..trial });
                    trials.len() - 1
                }
                None => return (trials, steps),
            };
            trials[index].state = TrialState::Running;
            steps += run_one(asha, &mut trials, index, budget, &loss);
        }
    }

    fn run_one(asha: &Asha, trials: &mut [Trial], index: usize, budget: u64, loss: &impl Fn(u64, u64) -> f64) -> u64 {
        let begin = trials[index].last().map_or(1, |(step, _)| step + 1);
        for step in begin..=budget {
            let value = loss(index as u64, step);
            trials[index].curve.push((step, value));
            let verdict = asha.judge(&Case { history: History::of(trials, Direction::Minimize), trial: &trials[index], step });
            let state = match verdict {
                Verdict::Continue(_) if step < budget => continue,
                Verdict::Continue(_) => TrialState::Complete,
                Verdict::Pause(_) => TrialState::Paused,
                Verdict::Stop(_) => TrialState::Pruned,
            };
            trials[index].state = state;
            trials[index].value = (state == TrialState::Complete).then_some(value);
            return step + 1 - begin;
        }
        0
    }

    fn that_reached(trials: &[Trial], step: u64) -> usize {
        trials.iter().filter(|trial| trial.last().is_some_and(|(last, _)| last >= step)).count()
    }

    #[test]
    fn every_mode_holds_the_contract() {
        for spec in [
            ENTRY.defaults().with("mode", "promote"),
            ENTRY.defaults().with("brackets", 3),
            ENTRY.defaults().with("brackets", 2).with("mode", "promote").with("reduction_factor", 2),
        ] {
            assert_eq!(conformance::check(&ENTRY, &spec), Ok(()));
        }
    }

    /// Rung 1 of the ladder eta 3, r 1, R 9, by hand: the first two always go on; then one of three may.
    #[test]
    fn stopping_follows_the_ranks_of_arrival() {
        let losses = [5.0, 6.0, 4.0, 7.0, 3.0, 8.0, 2.0, 9.0, 1.0, 2.5];
        let asha = asha(&[], 9);
        let mut trials: Vec<Trial> = Vec::new();
        let mut words = Vec::new();
        for (number, loss) in (0..).zip(losses) {
            trials.push(Trial { curve: vec![(1, loss)], ..trial_of(number, Params::new(), TrialState::Running, None) });
            let case = Case { history: History::of(&trials, Direction::Minimize), trial: trials.last().unwrap(), step: 1 };
            words.push(asha.judge(&case).to_owned());
        }
        let expected = ["continue", "continue", "continue", "stop", "continue", "stop", "continue", "stop", "continue", "continue"];
        assert_eq!(words.iter().map(Verdict::word).collect::<Vec<_>>(), expected);
        assert_eq!(words[5], Verdict::Stop(Reason("rank 6 of 6 at step 1; 2 go on".to_owned())));
        assert_eq!(words[0], Verdict::Continue(Some(Reason("rank 1 of 1 at step 1; the first 2 go on".to_owned()))));
    }

    #[test]
    fn reports_between_rungs_and_past_the_last_decide_nothing() {
        let asha = asha(&[], 9);
        let trial = Trial { curve: (1..=9).map(|step| (step, 1.0)).collect(), ..trial_of(0, Params::new(), TrialState::Running, None) };
        let trials = [trial];
        let judged: Vec<u64> = (1..=9)
            .filter(|step| asha.judge(&Case { history: History::of(&trials, Direction::Minimize), trial: &trials[0], step: *step }) != Verdict::GO_ON)
            .collect();
        assert_eq!(judged, [1, 3]);
    }

    #[test]
    fn a_report_that_skips_rungs_counts_at_each_and_is_judged_at_the_highest() {
        let asha = asha(&[], 81);
        let mut trials: Vec<Trial> =
            (0..6).map(|number| Trial { curve: vec![(1, 0.0), (3, 0.5)], ..trial_of(number, Params::new(), TrialState::Failed, None) }).collect();
        trials.push(Trial { curve: vec![(4, 0.4)], ..trial_of(6, Params::new(), TrialState::Running, None) });
        let judge = |trials: &[Trial]| asha.judge(&Case { history: History::of(trials, Direction::Minimize), trial: &trials[6], step: 4 });
        assert_eq!(judge(&trials), Verdict::Continue(Some(Reason("rank 1 of 7 at step 4; 2 go on".to_owned()))));
        trials[6].curve = vec![(4, 0.6)];
        assert_eq!(judge(&trials).word(), "stop");
    }

    #[test]
    fn a_rung_that_was_judged_is_not_judged_again_at_another_step() {
        let asha = promoting(9);
        let decision = crate::trial::Decision { step: 5, verdict: Verdict::Pause(Reason("rung 3".to_owned())) };
        let trial = Trial { curve: vec![(4, 0.1), (5, 0.1)], decisions: vec![decision], ..trial_of(0, Params::new(), TrialState::Running, None) };
        let trials = [trial];
        assert_eq!(asha.judge(&Case { history: History::of(&trials, Direction::Minimize), trial: &trials[0], step: 4 }), Verdict::GO_ON);
    }

    /// The paper's bracket s = 0 of eta 3, r 1, R 9: 9 trials for 1 step, 3 for 3, 1 for 9.
    #[test]
    fn promotion_from_full_rungs_gives_the_counts_of_successive_halving() {
        let asha = promoting(9);
        let quality = [4.0, 7.0, 1.0, 8.0, 2.0, 9.0, 3.0, 5.0, 6.0];
        let mut trials: Vec<Trial> = (0..)
            .zip(quality)
            .map(|(number, loss)| Trial { curve: vec![(1, loss)], ..trial_of(number, Params::new(), TrialState::Paused, None) })
            .collect();
        let mut promoted = Vec::new();
        loop {
            let ask = PromotionAsk { history: History::of(&trials, Direction::Minimize) };
            let Some(Promotion::Resume { trial, until, .. }) = asha.promote(&ask, &mut SeedTree::new(0).stream("pruner")) else { break };
            promoted.push((trial.0, until));
            let trial = &mut trials[trial.index()];
            trial.state = TrialState::Paused;
            trial.until = until;
            trial.curve.push((until.unwrap_or(9), quality[trial.number.index()]));
            if until.is_none() {
                trial.state = TrialState::Complete;
            }
        }
        assert_eq!(promoted, [(2, Some(3)), (4, Some(3)), (6, Some(3)), (2, None)]);
        assert_eq!([that_reached(&trials, 1), that_reached(&trials, 3), that_reached(&trials, 9)], [9, 3, 1]);
    }

    #[test]
    fn one_slot_with_the_best_trials_first_promotes_a_third_of_each_rung() {
        let (trials, _) = run(&promoting(81), 81, 81, |trial, _| trial as f64);
        let reached = [1, 3, 9, 27, 81].map(|rung| that_reached(&trials, rung));
        assert_eq!(reached, [81, 27, 9, 3, 1]);
    }

    #[test]
    fn nan_is_stopped_and_never_promoted() {
        let (trials, _) = run(&promoting(9), 30, 9, |_, _| f64::NAN);
        assert!(trials.iter().all(|trial| trial.state == TrialState::Pruned && trial.curve.len() == 1));
        let (trials, _) = run(&asha(&[], 9), 1, 9, |_, _| f64::NAN);
        assert_eq!(trials[0].state, TrialState::Pruned);
    }

    #[test]
    fn too_few_trials_for_the_ladder_conclude_with_the_best_at_the_highest_rung() {
        let (trials, _) = run(&promoting(81), 12, 81, |trial, _| trial as f64);
        assert_eq!([1, 3, 9].map(|rung| that_reached(&trials, rung)), [12, 4, 1]);
        let complete: Vec<u64> = trials.iter().filter(|trial| trial.state == TrialState::Complete).map(|trial| trial.number.0).collect();
        assert_eq!(complete, [0]);
    }

    #[test]
    fn a_trial_paused_on_its_way_to_a_rung_is_left_to_the_user() {
        let asha = promoting(9);
        let paused =
            |number, curve: &[(u64, f64)], until| Trial { curve: curve.to_vec(), until, ..trial_of(number, Params::new(), TrialState::Paused, None) };
        let mut trials = vec![paused(0, &[(1, 0.1), (2, 0.1)], Some(3)), paused(1, &[(1, 0.2)], Some(1)), paused(2, &[(1, 0.3)], Some(1))];
        let ask = |trials: &[Trial]| {
            asha.promote(&PromotionAsk { history: History::of(trials, Direction::Minimize) }, &mut SeedTree::new(0).stream("pruner"))
        };
        assert_eq!(ask(&trials), None);
        trials[0].until = Some(1);
        assert!(matches!(ask(&trials), Some(Promotion::Resume { trial: TrialNumber(0), until: Some(3), .. })));
    }

    /// Learning curves that start alike, end differently and cross now and then.
    fn curve(seed: u64) -> impl Fn(u64, u64) -> f64 {
        move |trial, step| {
            let mut rng = SeedTree::new(seed).stream(&format!("curve/{trial}"));
            let (end, speed): (f64, f64) = (rng.random(), rng.random());
            let noise: f64 = SeedTree::new(seed).stream(&format!("noise/{trial}/{step}")).random();
            end + (2.0 - end) * (-(step as f64) * (0.1 + 0.4 * speed)).exp() + 0.02 * (noise - 0.5)
        }
    }

    fn best(trials: &[Trial]) -> f64 {
        trials.iter().filter_map(|trial| trial.value).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn less_than_half_of_the_steps_find_nearly_the_same_winner() {
        for seed in 0..5 {
            let everything = best(&run(&asha(&[("min_resource", 100.into()), ("max_resource", 101.into())], 1000), 60, 81, curve(seed)).0);
            for mode in ["stop", "promote"] {
                let (trials, steps) = run(&asha(&[("mode", mode.into())], 81), 60, 81, curve(seed));
                assert!(steps * 2 < 60 * 81, "{mode}, seed {seed}: {steps} steps");
                assert!(best(&trials) <= everything + 0.05, "{mode}, seed {seed}: {} instead of {everything}", best(&trials));
            }
        }
    }

    #[test]
    fn brackets_share_trials_as_hyperband_does_and_begin_at_later_rungs() {
        let asha = asha(&[("brackets", 3.into()), ("mode", "promote".into())], 27);
        let mut counts = [0u64; 3];
        for number in 0..1000 {
            let bracket = asha.bracket(TrialNumber(number));
            counts[bracket] += 1;
            assert_eq!(asha.first_rung(TrialNumber(number)), Some([1, 3, 9][bracket]));
        }
        // Weights 4/4, 4/(3 * 3), 4/(2 * 9).
        assert_eq!(counts, [600, 266, 134]);
        assert_eq!(asha.milestones(Some(27)).at, [1, 3, 9]);
        assert_eq!(asha.milestones(Some(9)).at, [1, 3]);
    }

    #[test]
    fn numbers_that_leave_no_rung_are_refused_if_they_are_the_users_own() {
        assert!(Asha::new(&ENTRY.defaults(), Some(1)).is_ok());
        let problem = Asha::new(&ENTRY.defaults().with("min_resource", 10), Some(10)).unwrap_err();
        assert!(problem.to_string().contains("not below a full trial's `10`"), "{problem}");
        assert!(Asha::new(&ENTRY.defaults().with("brackets", 4), Some(27)).is_err());
        assert!(Asha::new(&ENTRY.defaults(), None).unwrap().milestones(None).at.len() == 41);
    }
}
