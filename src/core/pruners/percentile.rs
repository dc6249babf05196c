//! The percentile rule: a trial whose best report is worse than a percentile of the completed
//! trials at that step stops.

use super::interval::{INTERVAL_STEPS, Interval, N_WARMUP_STEPS};
use super::several::SeveralRule;
use super::{Case, Pruner, PrunerEntry};
use crate::study::decision::{Comparison, Decision, Reason};
use crate::study::field::{COUNT, Field, FieldDefault, NATURAL, between, field};
use crate::study::history::History;
use crate::study::metric::{Number, Score};
use crate::study::pareto;
use crate::study::spec::{AlgorithmSpec, Milestones};
use crate::study::trial::{Trial, TrialState};

pub(super) const N_STARTUP_TRIALS: Field = field(
    "n_startup_trials",
    NATURAL,
    FieldDefault::Int(5),
    "completed trials before any trial is stopped",
);

pub(super) const N_MIN_TRIALS: Field = field(
    "n_min_trials",
    COUNT,
    FieldDefault::Int(1),
    "minimum number of completed trials with a report at the step",
);

/// The first version, also of [`super::median`], that ranks trials of several objectives once all
/// are known, and breaks their ties by the front's sparsest part.
pub(super) const ALL_KNOWN_SINCE: u32 = 2;

const PERCENTILE: Field = field(
    "percentile",
    between(0.0, 100.0),
    FieldDefault::Float(25.0),
    "percentage of trials that are good enough to continue: 50 is the pruner `median`",
);

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "percentile",
    aliases: &[],
    summary: "stops a trial whose best report is not in the best quarter (`percentile`) of the \
        completed trials at that step",
    // 2: of several objectives, trials are ranked once all are known, and ties do not go to the
    // oldest.
    version: ALL_KNOWN_SINCE,
    oldest: 1,
    options: &[PERCENTILE, N_STARTUP_TRIALS, N_WARMUP_STEPS, INTERVAL_STEPS, N_MIN_TRIALS],
    several: true,
    build: |spec, _| Ok(Box::new(PercentileRule::new(spec))),
};

/// Optuna's `PercentilePruner`: the trial's *best* report so far against a percentile of what
/// *completed* trials reported at exactly this step. Stopped trials are ignored.
///
/// Unlike in Optuna, a NaN among the others' reports counts as worst instead of being ignored: a
/// trial should not be stopped for being worse than the few that did not diverge. And a percentile
/// between `inf` and `-inf` is the worse of the two instead of NaN.
#[derive(Clone, Copy, Debug)]
pub struct PercentileRule {
    /// Of losses: 25 is the border of the best quarter.
    percentile: f64,
    startup_trials: u64,
    interval: Interval,
    min_trials: u64,
    several: SeveralRule,
}

impl PercentileRule {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        PercentileRule {
            percentile: PERCENTILE.of::<f64>(spec).clamp(0.0, 100.0),
            startup_trials: N_STARTUP_TRIALS.of(spec),
            interval: Interval::new(spec),
            min_trials: N_MIN_TRIALS.of(spec),
            several: SeveralRule::of_version(spec.version, ALL_KNOWN_SINCE),
        }
    }

    /// The rule at 50, from the other checked options.
    pub fn median(spec: &AlgorithmSpec) -> Self {
        PercentileRule { percentile: 50.0, ..PercentileRule::new(spec) }
    }

    /// The rule for several objectives: the trial's values at this step are ranked among those of
    /// completed trials at it, by [`pareto::order_with`]; equal values share the better rank. With
    /// several objectives there is no best report so far.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a number of trials"
    )]
    fn judge_several<'a>(
        &self,
        case: &Case<'a>,
        completed: impl Iterator<Item = &'a Trial>,
    ) -> Decision {
        let Case { history, trial, step, .. } = *case;
        let at = history.step_unit().at(step);
        let known_at = |trial: &Trial| match self.several {
            SeveralRule::OldestFirst | SeveralRule::UnknownIsWorst => {
                history.losses_at(trial, step)
            }
            SeveralRule::AllKnown => history.losses_known_at(trial, step),
        };
        let Some(own) = known_at(trial) else { return Decision::CONTINUE };
        if own.iter().all(|loss| *loss == f64::INFINITY) {
            return Decision::Stop(Reason::Nan { at });
        }
        let mut losses: Vec<Vec<f64>> = completed.filter_map(known_at).collect();
        if (losses.len() as u64) < self.min_trials.max(1) {
            return Decision::CONTINUE;
        }
        losses.push(own);
        let own = losses.last();
        let order = pareto::order_with(&losses, self.several.ties());
        let rank = order.iter().position(|index| losses.get(*index) == own).unwrap_or(0) as u64 + 1;
        let of = losses.len() as u64;
        let first = ((self.percentile / 100.0 * of as f64).ceil() as u64).max(1);
        let reason = Reason::Rank { rank, of, first, at, forecast_from: None, forecast: None };
        if rank <= first { Decision::continues(reason) } else { Decision::Stop(reason) }
    }
}

impl Pruner for PercentileRule {
    fn waits_for_all_objectives(&self) -> bool {
        self.several == SeveralRule::AllKnown
    }

    fn judge(&self, case: &Case<'_>) -> Decision {
        let Case { history, trial, step, .. } = *case;
        let completed = || {
            history
                .compared()
                .filter(|other| other.state == TrialState::Complete && other.number != trial.number)
        };
        // Optuna judges nothing before the first completed trial, even with `n_startup_trials` at
        // 0.
        if (completed().count() as u64) < self.startup_trials.max(1)
            || !self.interval.is_due(trial, step)
        {
            return Decision::CONTINUE;
        }
        let at = history.step_unit().at(step);
        if history.has_several_objectives() {
            return self.judge_several(case, completed());
        }
        let Some(best) = history.best_until(trial, step) else { return Decision::CONTINUE };
        let mut others: Vec<Score> =
            completed().filter_map(|other| history.score_at(other, step)).collect();
        if best.loss().is_nan() {
            return Decision::Stop(Reason::OnlyNan { at });
        }
        if (others.len() as u64) < self.min_trials.max(1) {
            return Decision::CONTINUE;
        }
        let border = percentile(&mut others, self.percentile, &history);
        let comparison = Comparison::of(best, border);
        let reason = Reason::Percentile {
            best: history.value(best),
            border: history.value(border),
            percentile: Number(self.percentile),
            of: others.len() as u64,
            at,
            comparison,
        };
        match comparison {
            Comparison::Worse => Decision::Stop(reason),
            Comparison::NotWorse => Decision::continues(reason),
        }
    }

    fn milestones(&self, _budget: Option<u64>) -> Milestones {
        self.interval.milestones()
    }
}

/// The percentile of scores by linear interpolation, as `numpy.percentile`; the worse neighbour
/// where interpolation has no finite result.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place among the scores"
)]
fn percentile(scores: &mut [Score], percentile: f64, history: &History<'_>) -> Score {
    scores.sort_unstable();
    let place = percentile / 100.0 * (scores.len() - 1) as f64;
    let lower = scores[place.floor() as usize];
    let upper = scores[(place.ceil() as usize).min(scores.len() - 1)];
    let mean = lower.loss() * (1.0 - place.fract()) + upper.loss() * place.fract();
    if place.fract() == 0.0 || lower == upper {
        lower
    } else if mean.is_nan() {
        upper
    } else {
        history.score(history.direction().loss(mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruners::conformance::{self, trial};
    use crate::study::metric::Direction::{self, Maximize, Minimize};
    use crate::study::trial::Trial;

    fn judge(percentile: f64, values: &[f64], own: f64, direction: Direction) -> Decision {
        let complete =
            |(number, value): (u64, &f64)| trial(number, TrialState::Complete, &[(1, *value)]);
        let others: Vec<Trial> = (0..).zip(values).map(complete).collect();
        let spec = ENTRY.defaults().with("percentile", percentile).with("n_startup_trials", 1);
        conformance::judge(&PercentileRule::new(&spec), &others, &[(1, own)], 1, direction)
    }

    #[test]
    fn the_border_is_interpolated_in_both_directions_and_nan_and_infinities_are_worst() {
        let (four, two) = ([4.0, 1.0, 3.0, 2.0].as_slice(), [2.0, 1.0].as_slice());
        for (percentile, values, own, direction, word) in [
            (25.0, four, 1.75, Minimize, "continue"),
            (25.0, four, 3.25, Maximize, "continue"),
            (25.0, four, 3.24, Maximize, "stop"),
            // At 0 only the best continues, and at 100 all but the worst.
            (0.0, two, 1.0, Minimize, "continue"),
            (0.0, two, 1.1, Minimize, "stop"),
            (100.0, two, 2.0, Minimize, "continue"),
            (100.0, two, 2.1, Minimize, "stop"),
            // A percentile next to NaN or infinity stops no trial wrongly.
            (75.0, &[1.0, f64::NAN], 9.0, Minimize, "continue"),
            (50.0, &[f64::NEG_INFINITY, f64::INFINITY], 9.0, Minimize, "continue"),
            (25.0, &[1.0, f64::NAN], f64::NAN, Maximize, "stop"),
        ] {
            let decision = judge(percentile, values, own, direction);
            assert_eq!(decision.word(), word, "{own} at {percentile} of {values:?}, {direction:?}");
        }
        assert_eq!(
            judge(25.0, four, 1.76, Minimize).in_words(),
            "stop: best value 1.76 is worse than 1.75, percentile 25 of 4 completed trials at \
             step 1"
        );
    }
}
