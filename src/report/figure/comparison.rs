//! How the results of studies compare: each is a line of steps.

use super::of_study::{EMPTY, best_so_far, complete, is_feasible, present, series, unit_of, whole};
use super::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::wording::one_line;
use crate::study::outcome::TrialSummary;
use crate::study::spec::StudySpec;

/// A study, and the points of its line.
type StudyLine<'a> = (&'a StudySpec, Vec<(f64, f64)>);

/// The empirical distribution of each study's values: the share of its completed trials that are
/// at most as large, as Optuna's `plot_edf` has it.
pub fn distribution<'a>(
    title: &str,
    metric: &str,
    studies: impl Iterator<Item = (&'a StudySpec, &'a [TrialSummary])>,
) -> Figure<'static> {
    let steps = |outcomes: &[TrialSummary]| {
        let mut values: Vec<f64> = complete(outcomes).map(|(_, value)| value).collect();
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let count = whole(values.len() as u64);
        let start = values.first().map(|first| (*first, 0.0));
        let steps = values.iter().zip(1_u64..).map(|(value, rank)| (*value, whole(rank) / count));
        start.into_iter().chain(steps).collect()
    };
    Figure {
        title: one_line(title),
        x: Axis::without_outliers(Vec::new()).labelled(one_line(metric)),
        y: Axis { ends: Some((0.0, 1.0)), ..Axis::linear().labelled("share of trials") },
        cells: None,
        series: steps_of_studies(studies.map(|(spec, outcomes)| (spec, steps(outcomes)))),
        empty: EMPTY,
    }
}

/// The best value so far of each study by the number of trials with a value, whatever their
/// numbers: of studies with pruned trials, too, the same amount of completed work is compared.
pub fn best_by_count<'a>(
    title: &str,
    metric: &str,
    studies: impl Iterator<Item = (&'a StudySpec, &'a [TrialSummary])>,
) -> Figure<'static> {
    let best = |(spec, outcomes): (&'a StudySpec, &[TrialSummary])| {
        let mut trials: Vec<(&TrialSummary, f64)> = complete(outcomes).collect();
        // As they ended; those without a time by their numbers.
        trials.sort_by_key(|(outcome, _)| (outcome.finished, outcome.number));
        let counted = (1_u64..).map(whole).zip(trials).filter(|(_, trial)| is_feasible(trial));
        (spec, best_so_far(spec, counted.map(|(count, (_, value))| (count, value))))
    };
    let x = Axis::whole().labelled("completed trials");
    best_of_studies(title, metric, x, studies.map(best).collect())
}

/// The best value so far of each study, over the time since its first trial was created.
pub fn best_by_time<'a>(
    title: &str,
    metric: &str,
    studies: impl Iterator<Item = (&'a StudySpec, &'a [TrialSummary])>,
) -> Figure<'static> {
    let best = |(spec, outcomes): (&'a StudySpec, &[TrialSummary])| {
        let began = outcomes.iter().map(|outcome| outcome.created).min();
        let at = |outcome: &TrialSummary| Some(outcome.finished?.since(began?).as_secs_f64());
        let feasible = complete(outcomes).filter(is_feasible);
        let mut points: Vec<(f64, f64)> =
            feasible.filter_map(|(outcome, value)| Some((at(outcome)?, value))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut best = best_so_far(spec, points);
        // A study that ended early stays at its best until its last trial.
        let last = outcomes.iter().filter_map(at).reduce(f64::max);
        best.extend(last.zip(best.last()).map(|(last, best)| (last, best.1)));
        (spec, best)
    };
    let mut studies: Vec<_> = studies.map(best).collect();
    let ends = studies.iter().filter_map(|(_, best)| Some(best.last()?.0));
    let (unit, length) = unit_of(ends.fold(0.0, f64::max));
    for (seconds, _) in studies.iter_mut().flat_map(|(_, best)| best) {
        *seconds /= length;
    }
    best_of_studies(title, metric, Axis::linear().labelled(unit), studies)
}

/// The best values so far of studies over `x`; their last ones are never outside.
fn best_of_studies(
    title: &str,
    metric: &str,
    x: Axis,
    studies: Vec<StudyLine<'_>>,
) -> Figure<'static> {
    let ends = studies.iter().filter_map(|(_, best)| Some(best.last()?.1)).collect();
    Figure {
        title: one_line(title),
        x,
        y: Axis::without_outliers(ends).labelled(one_line(metric)),
        cells: None,
        series: steps_of_studies(studies.into_iter()),
        empty: EMPTY,
    }
}

/// One line of steps per study, in its colour.
fn steps_of_studies<'a>(studies: impl Iterator<Item = StudyLine<'a>>) -> Vec<Series<'static>> {
    let line = |(index, (spec, points)): (usize, StudyLine<'a>)| {
        series(&one_line(&spec.name), points, Mark::Steps, SeriesRole::Compared(index))
    };
    present(studies.enumerate().map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figure::of_study::tests::{outcome, spec};
    use crate::study::time::Timestamp;
    use crate::study::trial::TrialState;

    fn named<'a>(figure: &'a Figure<'_>, name: &str) -> &'a [(f64, f64)] {
        &figure.series.iter().find(|series| series.name == name).unwrap().points
    }

    #[test]
    fn the_distribution_is_the_share_of_trials_up_to_each_value() {
        // Optuna's plot_edf: np.sum(values <= x) / len(values), of finite values.
        let values = [0.5, f64::NAN, 0.7, 0.2, 0.5, f64::INFINITY];
        let outcomes: Vec<TrialSummary> = (0_u64..)
            .zip(values)
            .map(|(number, value)| outcome(number, TrialState::Complete, Some(value), "sgd"))
            .collect();
        let spec = spec();
        let figure = distribution("t", "loss", std::iter::once((&spec, outcomes.as_slice())));
        let points = named(&figure, "digits");
        for x in [0.1, 0.2, 0.4, 0.5, 0.6, 0.7, 2.0] {
            let drawn =
                points.iter().rfind(|(value, _)| *value <= x).map_or(0.0, |(_, share)| *share);
            let finite: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
            let wanted = finite.iter().filter(|value| **value <= x).count() as f64 / 4.0;
            assert_eq!(drawn, wanted, "{x}: {points:?}");
        }
    }

    #[test]
    fn the_best_is_compared_by_completed_trials_and_by_time() {
        let spec = spec();
        let second = |second: i64| Some(Timestamp(second * 1_000_000));
        let ended = |number, value, at| TrialSummary {
            finished: second(at),
            ..outcome(number, TrialState::Complete, Some(value), "sgd")
        };
        let pruned =
            TrialSummary { finished: second(2), ..outcome(1, TrialState::Pruned, None, "sgd") };
        // Trial 3 ended before trial 2.
        let all = [ended(0, 0.5, 1), pruned, ended(2, 0.1, 9), ended(3, 0.4, 5)];
        let one = || std::iter::once((&spec, all.as_slice()));
        assert_eq!(
            named(&best_by_count("t", "loss", one()), "digits"),
            [(1.0, 0.5), (2.0, 0.4), (3.0, 0.1)]
        );
        let by_time = best_by_time("t", "loss", one());
        assert_eq!(named(&by_time, "digits"), [(1.0, 0.5), (5.0, 0.4), (9.0, 0.1), (9.0, 0.1)]);
    }
}
