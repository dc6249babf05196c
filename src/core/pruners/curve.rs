//! Successive halving that also stops trials whose learning curves are unlikely to beat the best.

mod forecast;

use self::forecast::{Expected, Forecast};
use super::asha::{Asha, MAX_RESOURCE, MIN_RESOURCE, REDUCTION_FACTOR, RUNG_FACTOR, problem};
use super::{Case, Pruner, PrunerEntry};
use crate::study::decision::{Decision, Reason};
use crate::study::field::{COUNT, Field, FieldDefault, UNIT, field};
use crate::study::metric::{Middle, Number};
use crate::study::registry::RegistryError;
use crate::study::spec::{AlgorithmSpec, Milestones};

const PROBABILITY: Field = field(
    "probability",
    UNIT,
    FieldDefault::Float(0.02),
    "a trial continues if it ends better than the best with at least this probability",
);

const N_STARTUP_TRIALS: Field = field(
    "n_startup_trials",
    COUNT,
    FieldDefault::Int(3),
    "completed trials before any trial is stopped by its forecast",
);

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "curve",
    aliases: &[],
    summary: "like asha, and also stops trials that are unlikely to end better than the best, \
        judged by the learning curves of others",
    // 2: the median of an even number of values is the mean of the middle two.
    version: MEDIAN_SINCE,
    oldest: 1,
    options: &[
        MIN_RESOURCE,
        MAX_RESOURCE,
        REDUCTION_FACTOR,
        RUNG_FACTOR,
        PROBABILITY,
        N_STARTUP_TRIALS,
    ],
    several: false,
    build: |spec, budget| Ok(Box::new(CurvePruner::new(spec, budget)?)),
};

/// The first version whose median is that mean.
const MEDIAN_SINCE: u32 = 2;

/// Two rules, either of which stops a trial:
///
/// - [`Asha`]'s, in the mode that stops. With a good sampler it is too mild: late proposals are all
///   among the best third, and most of the budget would go into full trainings of runners-up.
/// - From the second rung on, at steps in a ratio of 3 to 2, the end of the curve is forecast from
///   other trials' curves ([`Forecast`]: the gains of a power law, with its rate learned from the
///   study, in place of the parametric ensemble of Domhan et al., *Speeding Up Automatic
///   Hyperparameter Optimization of Deep Neural Networks by Extrapolation of Learning Curves*,
///   IJCAI 2015, whose rule this is: stop if `P(end better than the best)` is below a threshold).
///
/// A trial with the best value at its step, or that was better than the best final value at any
/// step, is never stopped.
#[derive(Debug)]
pub struct CurvePruner {
    halving: Asha,
    /// Steps at which curves are compared; the last is the end.
    ladder: Vec<u64>,
    first_forecast: u64,
    probability: f64,
    startup_trials: u64,
    middle: Middle,
}

impl CurvePruner {
    /// From checked options and the steps of a full trial, one of which must give the length of a
    /// trial.
    pub fn new(spec: &AlgorithmSpec, budget: Option<u64>) -> Result<Self, RegistryError> {
        let written = spec.options.get("max_resource").and_then(serde_json::Value::as_u64);
        let Some(end) = written.into_iter().chain(budget).min() else {
            let why = "curves are forecast up to the step of a full trial: write `max_resource`";
            return Err(problem(spec, "max_resource", why));
        };
        let first = MIN_RESOURCE.of::<u64>(spec).max(1);
        Ok(CurvePruner {
            halving: Asha::new(spec, budget)?,
            ladder: ladder(first, end),
            first_forecast: first.saturating_mul(REDUCTION_FACTOR.of::<u64>(spec).max(2)),
            probability: PROBABILITY.of(spec),
            startup_trials: N_STARTUP_TRIALS.of(spec),
            middle: Middle::of_version(spec.version, MEDIAN_SINCE),
        })
    }

    /// Whether the report is the trial's first at or after one of the ladder's steps.
    fn is_due(&self, case: &Case<'_>) -> bool {
        let before = case.trial.curve.iter().rev().map(|(at, _)| *at).find(|at| *at < case.step);
        let reached = self.ladder.iter().rev().find(|rung| **rung <= case.step);
        let end = self.ladder.last().copied().unwrap_or(0);
        case.step >= self.first_forecast
            && case.step < end
            && reached.is_some_and(|rung| before.is_none_or(|before| before < *rung))
    }

    /// The decision of the forecast rule, if it applies.
    fn judge_forecast(&self, case: &Case<'_>) -> Decision {
        let Case { history, trial, step, .. } = *case;
        let finals = || {
            let finals = history.compared().filter_map(|other| history.final_score(other));
            finals.filter(|score| !score.loss().is_nan())
        };
        let (Some(best), Some(own), true) =
            (finals().min(), history.score_at(trial, step), self.is_due(case))
        else {
            return Decision::CONTINUE;
        };
        let mut others = history.compared().filter(|other| other.number != trial.number);
        let mut leads =
            || others.all(|other| history.best_until(other, step).is_none_or(|score| score >= own));
        if (finals().count() as u64) < self.startup_trials
            || history.best_until(trial, step).is_some_and(|score| score <= best)
            || leads()
        {
            return Decision::CONTINUE;
        }
        let Some(expected) = Forecast::new(history, trial.number, &self.ladder, self.middle)
            .expected(history, trial, step)
        else {
            return Decision::CONTINUE;
        };
        let probability = probability_below(best.loss(), expected);
        let reason = |threshold| Reason::Forecast {
            mean: Number(history.direction().loss(expected.mean)),
            deviation: Number(expected.deviation),
            best: history.value(best),
            probability: Number(probability),
            threshold,
            at: history.step_unit().at(step),
            rank: None,
        };
        if probability < self.probability {
            Decision::Stop(reason(Some(Number(self.probability))))
        } else {
            Decision::continues(reason(None))
        }
    }
}

impl Pruner for CurvePruner {
    fn judge(&self, case: &Case<'_>) -> Decision {
        match (self.halving.judge(case), self.judge_forecast(case)) {
            (Decision::Continue(by_rank), Decision::Continue(Some(mut forecast))) => {
                if let Reason::Forecast { rank, .. } = &mut forecast {
                    *rank = by_rank.map(Box::new);
                }
                Decision::continues(forecast)
            }
            (Decision::Continue(None), forecast)
            | (Decision::Continue(_), forecast @ Decision::Stop(_)) => forecast,
            (halving, _) => halving,
        }
    }

    fn milestones(&self, budget: Option<u64>) -> Milestones {
        let mut at = self.halving.milestones(budget).at;
        let end = self.ladder.last().copied().unwrap_or(0).min(budget.unwrap_or(u64::MAX));
        at.extend(
            self.ladder.iter().copied().filter(|step| *step >= self.first_forecast && *step < end),
        );
        at.sort_unstable();
        at.dedup();
        Milestones { every: None, at }
    }
}

/// Steps in a ratio of about 3 to 2 from the first to the end.
fn ladder(first: u64, end: u64) -> Vec<u64> {
    let steps = std::iter::successors(Some(first), |step| step.checked_add(step.div_ceil(2)));
    // The last step before the end is not close to it: stopping there would save little.
    steps.take_while(|step| *step < end - end / 6).chain([end]).collect()
}

fn probability_below(loss: f64, expected: Expected) -> f64 {
    let deviations = (expected.mean - loss) / expected.deviation.max(f64::MIN_POSITIVE);
    0.5 * libm::erfc(deviations / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::Restart;
    use crate::pruners::conformance::{self, trial};
    use crate::study::history::History;
    use crate::study::metric::Direction::{self, Maximize, Minimize};
    use crate::study::space::Space;
    use crate::study::trial::{Trial, TrialState};

    fn curve(spec: &AlgorithmSpec, budget: u64) -> CurvePruner {
        CurvePruner::new(spec, Some(budget)).unwrap()
    }

    /// Complete trials that end at 0.5 and more; trial 12 runs, at step 8 of 30.
    fn study(own: impl Fn(f64) -> f64, direction: Direction) -> Vec<Trial> {
        let reports = |loss: &dyn Fn(f64) -> f64, upto| {
            (1..=upto).map(|step| (step, direction.loss(loss(step as f64)))).collect::<Vec<_>>()
        };
        let other = |number: u64| {
            let curve = reports(&|step| 0.5 + 0.02 * number as f64 + 1.0 / step, 30);
            trial(number, TrialState::Complete, &curve)
        };
        (0..12).map(other).chain([trial(12, TrialState::Running, &reports(&own, 8))]).collect()
    }

    /// Worse than the others at every step.
    fn slow(step: f64) -> f64 {
        1.1 + 0.5 / step
    }

    fn judge(curve: &CurvePruner, trials: &[Trial], direction: Direction) -> Decision {
        let history = History::of(trials, direction);
        curve.judge_forecast(&Case {
            space: &Space::default(),
            history,
            trial: &trials[12],
            step: 8,
            restart: Restart::Unknown,
        })
    }

    #[test]
    fn a_trial_that_falls_behind_stops_and_one_that_falls_faster_continues() {
        let rule = curve(&ENTRY.defaults(), 30);
        for direction in [Minimize, Maximize] {
            let behind = judge(&rule, &study(slow, direction), direction);
            assert_eq!(behind.word(), "stop", "{behind:?}");
            // Worse than the best at this step, but on its way to a better end.
            let steep = judge(&rule, &study(|step| 0.2 + 4.0 / step, direction), direction);
            assert!(matches!(steep, Decision::Continue(Some(_))), "{steep:?}");
        }
        // The median of twelve trials is the mean of two; version 1 took the upper one.
        let first = curve(&AlgorithmSpec { version: 1, ..ENTRY.defaults() }, 30);
        for (rule, end) in [(&rule, "0.93"), (&first, "0.96")] {
            let words = judge(rule, &study(slow, Minimize), Minimize).in_words();
            for part in [
                "stop: ",
                &format!("at step 8 expected to end at {end}"),
                ": better than the best, 0.53",
                ", with probability 0.000, less than 0.02",
            ] {
                assert!(words.contains(part), "{words}");
            }
        }
    }

    #[test]
    fn forecasts_wait_for_complete_trials_and_the_second_rung() {
        let trials = study(slow, Minimize);
        let judge = |key: &str, value: serde_json::Value| {
            judge(&curve(&ENTRY.defaults().with(key, value), 30), &trials, Minimize)
        };
        assert_eq!(judge("n_startup_trials", 13.into()), Decision::CONTINUE);
        assert_eq!(judge("min_resource", 5.into()), Decision::CONTINUE);
        assert_eq!(judge("probability", 0.0.into()).word(), "continue");
    }

    #[test]
    fn curves_are_compared_at_steps_that_grow_by_half_up_to_the_end() {
        assert_eq!(ladder(1, 30), [1, 2, 3, 5, 8, 12, 18, 30]);
        assert_eq!(ladder(2, 52), [2, 3, 5, 8, 12, 18, 27, 41, 52]);
        assert_eq!((ladder(1, 1), ladder(9, 4)), (vec![1], vec![4]));
        let milestones = curve(&ENTRY.defaults().with("min_resource", 2), 52).milestones(Some(52));
        assert_eq!(milestones.at, [2, 6, 8, 12, 18, 27, 41]);
        assert!(ladder(1, u64::MAX).len() < 120);
    }

    #[test]
    fn other_options_hold_the_contract_and_the_end_must_be_known() {
        let probability = |probability: f64| ENTRY.defaults().with("probability", probability);
        for spec in [
            probability(0.4).with("n_startup_trials", 1),
            probability(0.9).with("reduction_factor", 2).with("min_resource", 2),
        ] {
            assert_eq!(conformance::check(&ENTRY, &spec), Ok(()));
        }
        assert!(CurvePruner::new(&ENTRY.defaults(), None).is_err());
    }
}
