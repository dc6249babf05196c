//! Where stopped trials would have ended, told by those that went on.

use crate::history::History;
use crate::trial::{Trial, TrialState};

/// Steps at which trials were stopped are told apart if they are at least in this ratio (3 to 2): rules that may stop at any
/// report leave about as many levels as a ladder has rungs.
const RATIO: (u64, u64) = (3, 2);
/// Beyond so many times the way from the best to the median, what is bad is not told apart.
const FAR: f64 = 3.0;
/// How many trials it is worth, before any went on, that differences stay as they are to the end.
const WORTH: f64 = 4.0;
/// The deviation of what is left to gain, of that of the values, while no trial has shown it; worth three trials.
const DOUBT: f64 = 0.5;

/// What is expected of a trial's end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct End {
    /// The loss.
    pub loss: f64,
    /// Its variance: 0 where it was measured.
    pub variance: f64,
}

/// The ends of a study's trials, by index.
///
/// From the last step at which trials were stopped down to the first, ends are regressed on the values there, over all trials
/// that went on; those that were stopped higher up count with the ends that are already foretold for them. So every trial is
/// compared at the highest step that it shares with others, and what came first says less the less it agrees with what
/// came after: a foretold end carries its variance.
pub(super) fn ends(history: &History<'_>) -> Vec<Option<End>> {
    let trials = history.trials();
    let mut ends: Vec<Option<End>> = trials.iter().map(|trial| measured(history, trial)).collect();
    let levels = levels(history);
    let level_of = |trial: &Trial| {
        let (step, _) = stopped_at(history, trial)?;
        levels.partition_point(|level| *level <= step).checked_sub(1)
    };
    let stopped: Vec<Option<usize>> = trials.iter().map(level_of).collect();
    for (index, step) in levels.iter().enumerate().rev() {
        let value = |trial: &Trial| loss_at(history, trial, *step);
        let rows = trials.iter().zip(&ends).filter_map(|(trial, end)| Some((value(trial)?, (*end)?)));
        let level = Level::learned(rows.collect());
        for (place, trial) in trials.iter().enumerate() {
            if stopped[place] == Some(index) {
                ends[place] = value(trial).map(|loss| level.end(loss)).filter(|end| end.loss.is_finite() && end.variance.is_finite());
            }
        }
    }
    ends
}

/// The loss of a complete trial; one that breaks limits says as much about it as others.
fn measured(history: &History<'_>, trial: &Trial) -> Option<End> {
    let value = trial.value.filter(|_| trial.state == TrialState::Complete)?;
    let loss = history.score(value).loss();
    loss.is_finite().then_some(End { loss, variance: 0.0 })
}

/// Where a pruned trial was stopped, and its loss there.
pub(super) fn stopped_at(history: &History<'_>, trial: &Trial) -> Option<(u64, f64)> {
    let (step, value) = trial.last().filter(|_| trial.rests())?;
    let loss = history.score(value).loss();
    loss.is_finite().then_some((step, loss))
}

/// The first report at or after `step`.
fn loss_at(history: &History<'_>, trial: &Trial, step: u64) -> Option<f64> {
    let (_, value) = trial.curve.get(trial.curve.partition_point(|(at, _)| *at < step))?;
    Some(history.score(*value).loss()).filter(|loss| loss.is_finite())
}

fn levels(history: &History<'_>) -> Vec<u64> {
    let mut steps: Vec<u64> = history.trials().iter().filter_map(|trial| Some(stopped_at(history, trial)?.0)).collect();
    steps.sort_unstable();
    let mut levels: Vec<u64> = Vec::new();
    for step in steps {
        if levels.last().is_none_or(|last| step.saturating_mul(RATIO.1) >= last.saturating_mul(RATIO.0)) {
            levels.push(step);
        }
    }
    levels
}

/// How ends depend on the value at one step.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Values are around here, and ends so far from them.
    centre: f64,
    gain: f64,
    /// What a difference of values leaves of itself to the end.
    slope: f64,
    /// The worst value of a trial that went on: beyond it differences stay as they are.
    edge: f64,
    variance: f64,
}

impl Level {
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    fn learned(rows: Vec<(f64, End)>) -> Self {
        let clip = |losses: Vec<f64>| {
            let mut sorted = losses.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let (best, median) = (sorted.first().copied().unwrap_or(0.0), sorted.get(sorted.len() / 2).copied().unwrap_or(0.0));
            let worst = median + FAR * (median - best);
            losses.into_iter().map(|loss| loss.min(worst)).collect::<Vec<f64>>()
        };
        let values = clip(rows.iter().map(|(value, _)| *value).collect());
        let ends = clip(rows.iter().map(|(_, end)| end.loss).collect());
        let count = values.len() as f64;
        let mean = |of: &[f64]| of.iter().sum::<f64>() / count.max(1.0);
        let (centre, middle) = (mean(&values), mean(&ends));
        let spread = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        let product = values.iter().zip(&ends).map(|(value, end)| (value - centre) * (end - middle - (value - centre))).sum::<f64>();
        // Ridge towards a slope of 1, worth `WORTH` trials of mean spread.
        let left = if spread > 0.0 { product / (spread * (1.0 + WORTH / count)) } else { 0.0 };
        let slope = (1.0 + left).clamp(0.0, 1.5);
        let missed = values.iter().zip(&ends).map(|(value, end)| (end - middle - slope * (value - centre)).powi(2)).sum::<f64>();
        let doubt = DOUBT * DOUBT * spread / count.max(1.0);
        let foretold = mean(&rows.iter().map(|(_, end)| end.variance).collect::<Vec<f64>>());
        let variance = (missed + 3.0 * doubt) / ((count - 2.0).max(0.0) + 3.0) + foretold;
        Level { centre, gain: middle - centre, slope, edge: values.iter().copied().fold(f64::NEG_INFINITY, f64::max), variance }
    }

    fn end(&self, value: f64) -> End {
        // Nobody went on: what there is stays.
        if self.edge == f64::NEG_INFINITY {
            return End { loss: value, variance: 0.0 };
        }
        let within = value.min(self.edge);
        End { loss: self.centre + self.gain + self.slope * (within - self.centre) + (value - within), variance: self.variance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::Direction;
    use crate::params::Params;
    use crate::samplers::conformance::trial_of;

    fn complete(number: u64, curve: &[(u64, f64)]) -> Trial {
        Trial { curve: curve.to_vec(), ..trial_of(number, Params::new(), TrialState::Complete, curve.last().map(|(_, value)| *value)) }
    }

    fn pruned(number: u64, curve: &[(u64, f64)]) -> Trial {
        Trial { curve: curve.to_vec(), ..trial_of(number, Params::new(), TrialState::Pruned, None) }
    }

    fn end(trials: &[Trial], index: usize) -> End {
        ends(&History::of(trials, Direction::Minimize))[index].unwrap()
    }

    #[test]
    fn an_end_is_foretold_by_those_that_went_on() {
        // What is better at step 2 ends better, by half of the difference and 1 lower.
        let mut trials: Vec<Trial> = (0..60)
            .map(|number| (number, f64::from(u32::try_from(number).unwrap()) / 60.0))
            .map(|(number, value)| complete(number, &[(2, 3.0 + value), (8, 2.0 + value / 2.0)]))
            .collect();
        trials.push(pruned(60, &[(2, 3.5)]));
        let near = end(&trials, 60);
        assert!((near.loss - 2.25).abs() < 0.03 && near.variance < 0.01, "{near:?}");
        // Where nobody went on, a difference stays what it is.
        trials[60] = pruned(60, &[(2, 14.0)]);
        let far = end(&trials, 60);
        assert!((far.loss - 12.5).abs() < 0.1, "{far:?}");
    }

    #[test]
    fn a_step_that_says_nothing_leaves_the_mean_and_a_large_variance() {
        let number = |index: u64, by: f64| (f64::from(u32::try_from(index).unwrap()) * by).fract();
        let mut trials: Vec<Trial> = (0..60).map(|index| complete(index, &[(2, number(index, 0.618)), (8, number(index, 0.755))])).collect();
        trials.push(pruned(60, &[(2, 0.1)]));
        let end = end(&trials, 60);
        assert!((end.loss - 0.5).abs() < 0.15, "{end:?}");
        assert!((0.06..0.13).contains(&end.variance), "{end:?}");
    }

    #[test]
    fn trials_stopped_later_tell_of_those_stopped_before_and_know_their_own_end_better() {
        let mut trials: Vec<Trial> = (0..4).map(|number| complete(number, &[(2, 3.0), (6, 2.0), (18, 1.0)])).collect();
        trials.extend((4..12).map(|number| pruned(number, &[(2, 3.2), (6, 2.6 + 0.01 * f64::from(u32::try_from(number).unwrap()))])));
        trials.push(pruned(12, &[(2, 3.3)]));
        let (late, early) = (end(&trials, 11), end(&trials, 12));
        assert!(late.loss > 1.5 && early.loss > 1.5, "{late:?} {early:?}");
        assert!(early.variance > late.variance);
    }

    #[test]
    fn nothing_that_went_on_and_nonsense_leave_a_finite_end_or_none() {
        let trials = [pruned(0, &[(1, 4.0)]), pruned(1, &[(1, f64::NAN)]), pruned(2, &[]), pruned(3, &[(1, 1e308), (2, -1e308)])];
        let ends = ends(&History::of(&trials, Direction::Minimize));
        assert_eq!((ends[1], ends[2]), (None, None));
        assert!(ends.iter().flatten().all(|end| end.loss.is_finite() && end.variance.is_finite()));
        assert_eq!(super::ends(&History::of(&trials[..1], Direction::Minimize))[0], Some(End { loss: 4.0, variance: 0.0 }));
    }

    #[test]
    fn rules_that_stop_anywhere_leave_few_levels() {
        let trials: Vec<Trial> = (1..500).map(|step| pruned(step, &[(step, 1.0)])).collect();
        let levels = levels(&History::of(&trials, Direction::Minimize));
        assert!((10..20).contains(&levels.len()), "{levels:?}");
    }
}
