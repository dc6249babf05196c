//! The figures of the outcomes of trials, and what other figures of them are made of.

use super::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::wording::{one_line, param};
use crate::study::metric::Score;
use crate::study::outcome::TrialSummary;
use crate::study::params::Value;
use crate::study::space::{Dimension, Distribution};
use crate::study::spec::StudySpec;
use crate::study::trial::{TrialNumber, TrialState};

/// The unit of time for an axis that ends at this many seconds, and its length in seconds.
pub(super) fn unit_of(seconds: f64) -> (&'static str, f64) {
    match seconds {
        ..180.0 => ("seconds", 1.0),
        ..10_800.0 => ("minutes", 60.0),
        ..259_200.0 => ("hours", 3_600.0),
        _ => ("days", 86_400.0),
    }
}

pub(super) const EMPTY: &str = "no trial has a value yet";

pub(super) fn series(
    name: &str,
    points: Vec<(f64, f64)>,
    mark: Mark,
    tone: SeriesRole,
) -> Series<'static> {
    Series::new(name, mark, tone, points)
}

/// Without series that have no points, so that the legend names what is there.
pub(super) fn present(series: Vec<Series<'static>>) -> Vec<Series<'static>> {
    series.into_iter().filter(|series| !series.points.is_empty()).collect()
}

/// An integer on an axis.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub(super) fn whole(number: u64) -> f64 {
    number as f64
}

pub(super) fn complete(outcomes: &[TrialSummary]) -> impl Iterator<Item = (&TrialSummary, f64)> {
    outcomes
        .iter()
        .filter(|outcome| outcome.state == TrialState::Complete)
        .filter_map(|outcome| Some((outcome, outcome.value?)))
}

/// An axis of values: outliers may be outside, the best never is.
pub(super) fn values(best: Option<f64>) -> Axis {
    Axis::without_outliers(best.into_iter().collect())
}

/// The best value so far, at each place.
pub(super) fn best_so_far(
    spec: &StudySpec,
    points: impl IntoIterator<Item = (f64, f64)>,
) -> Vec<(f64, f64)> {
    let score = |value: f64| Score::new(spec.direction(), value);
    let mut best: Vec<(f64, f64)> = Vec::new();
    for (place, value) in points.into_iter().filter(|(_, value)| !value.is_nan()) {
        let before = best.last().map(|(_, before)| *before);
        let so_far = before.filter(|before| score(*before) <= score(value)).unwrap_or(value);
        best.push((place, so_far));
    }
    best
}

/// Whether a trial can be the best: it violates no limit.
pub(super) fn is_feasible((outcome, _): &(&TrialSummary, f64)) -> bool {
    outcome.violation.is_none()
}

/// The best value so far, by the numbers of the trials.
fn best_by_number(spec: &StudySpec, outcomes: &[TrialSummary]) -> Vec<(f64, f64)> {
    let feasible = complete(outcomes).filter(is_feasible);
    best_so_far(spec, feasible.map(|(outcome, value)| (whole(outcome.number.0), value)))
}

fn complete_by_number(outcomes: &[TrialSummary]) -> Vec<(f64, f64)> {
    complete(outcomes).map(|(outcome, value)| (whole(outcome.number.0), value)).collect()
}

/// Values by trial, and the best so far.
pub fn history(spec: &StudySpec, outcomes: &[TrialSummary]) -> Figure<'static> {
    let points = complete_by_number(outcomes);
    let pruned = outcomes.iter().filter(|outcome| outcome.state == TrialState::Pruned);
    let pruned: Vec<(f64, f64)> =
        pruned.filter_map(|outcome| Some((whole(outcome.number.0), outcome.last_value?))).collect();
    let best = best_by_number(spec, outcomes);
    let lowest = best.last().map(|(_, value)| *value);
    let metric = &spec.objective().metric;
    Figure {
        title: one_line(&format!(
            "{}: {metric} by trial, {}d",
            spec.name,
            spec.direction().as_str()
        )),
        x: Axis::whole().labelled("trial"),
        y: values(lowest).labelled(one_line(metric)),
        series: present(vec![
            series("pruned, last report", pruned, Mark::Dots, SeriesRole::Behind),
            series("complete", points, Mark::Dots, SeriesRole::Compared(0)),
            series("best so far", best, Mark::Steps, SeriesRole::Best),
        ]),
        cells: None,
        empty: EMPTY,
    }
}

/// The values of several studies by trial, and the best so far of each, in one colour each.
pub fn histories<'a>(
    title: &str,
    metric: &str,
    studies: impl Iterator<Item = (&'a StudySpec, &'a [TrialSummary])>,
) -> Figure<'static> {
    let (mut dots, mut steps, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (spec, outcomes)) in studies.enumerate() {
        let points = complete_by_number(outcomes);
        let best = best_by_number(spec, outcomes);
        ends.extend(best.last().map(|(_, value)| *value));
        let role = SeriesRole::Compared(index);
        dots.push(series("", points, Mark::Dots, role));
        steps.push(series(&one_line(&spec.name), best, Mark::Steps, role));
    }
    Figure {
        title: one_line(title),
        x: Axis::whole().labelled("trial"),
        y: Axis::without_outliers(ends).labelled(one_line(metric)),
        series: present(dots.into_iter().chain(steps).collect()),
        cells: None,
        empty: EMPTY,
    }
}

/// Values by one parameter.
pub fn slice(
    spec: &StudySpec,
    dimension: &Dimension,
    outcomes: &[TrialSummary],
    best: Option<(TrialNumber, f64)>,
) -> Figure<'static> {
    let point = |outcome: &TrialSummary, value: f64| {
        Some((place(&dimension.distribution, outcome.params.get(&dimension.name)?)?, value))
    };
    let (mut points, mut front) = (Vec::new(), Vec::new());
    for (outcome, value) in complete(outcomes) {
        let group = if best.is_some_and(|(best, _)| best == outcome.number) {
            &mut front
        } else {
            &mut points
        };
        group.extend(point(outcome, value));
    }
    Figure {
        title: one_line(&format!("{} by {}", spec.objective().metric, dimension.name)),
        x: axis_of_parameter(dimension),
        y: Axis::of_trials(best.iter().map(|(_, value)| *value).collect())
            .labelled(one_line(&spec.objective().metric)),
        series: present(vec![
            series("complete", points, Mark::Dots, SeriesRole::Compared(0)),
            series("the best", front, Mark::Star, SeriesRole::Best),
        ]),
        cells: None,
        empty: EMPTY,
    }
}

/// Where a parameter's value stands on its axis: choices by their places in the list.
pub(super) fn place(distribution: &Distribution, value: &Value) -> Option<f64> {
    match distribution {
        Distribution::Choice { choices } => choices
            .iter()
            .zip(0_u32..)
            .find(|(choice, _)| choice.same(value))
            .map(|(_, index)| f64::from(index)),
        _ => value.as_number(),
    }
}

/// The axis of a parameter.
pub fn axis_of_parameter(dimension: &Dimension) -> Axis {
    axis(&dimension.distribution).labelled(one_line(&dimension.name))
}

fn axis(distribution: &Distribution) -> Axis {
    match distribution {
        Distribution::Float { low, high, scale, .. } => {
            Axis { scale: *scale, ends: Some((*low, *high)), ..Axis::linear() }
        }
        Distribution::Int { low, high, scale, .. } => {
            let end = |end: i64| Value::Int(end).as_number().unwrap_or(0.0);
            Axis { scale: *scale, ends: Some((end(*low), end(*high))), ..Axis::whole() }
        }
        Distribution::Choice { choices } => {
            let names: Vec<(f64, String)> = (0_u32..)
                .zip(choices)
                .map(|(index, choice)| (f64::from(index), param(choice)))
                .collect();
            let last = names.last().map_or(0.0, |(index, _)| *index);
            // Room at both ends, so that the first and the last choice do not stand on the frame.
            Axis { ends: Some((-0.5, last + 0.5)), names, ..Axis::linear() }
        }
    }
}

/// The importance of each parameter as a bar, the most important at the top.
pub fn importance(spec: &StudySpec, shares: &[(String, f64)]) -> Figure<'static> {
    let count = whole(shares.len() as u64);
    let rows = || (0_u64..).map(|row| count - 1.0 - whole(row));
    let bars = rows().zip(shares).flat_map(|(row, (_, share))| [(0.0, row), (*share, row)]);
    let names = rows().zip(shares).map(|(row, (name, _))| (row, one_line(name)));
    let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let title = format!("{}: importance of parameters for {}", spec.name, spec.objective().metric);
    Figure {
        title: one_line(&title),
        x: Axis { ends: Some((0.0, most.max(0.01))), ..Axis::linear().labelled("importance") },
        y: Axis {
            ends: Some((-0.6, (count - 0.4).max(0.6))),
            names: names.collect(),
            ..Axis::linear()
        },
        cells: None,
        series: present(vec![series("", bars.collect(), Mark::Bars, SeriesRole::Compared(0))]),
        empty: "importances need at least 10 trials that count, with different values",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::time::Timestamp;

    pub(in crate::report::figure) fn outcome(
        number: u64,
        state: TrialState,
        value: Option<f64>,
        optimiser: &str,
    ) -> TrialSummary {
        let mut params = Params::new();
        params.insert("optim", optimiser);
        TrialSummary {
            values: Vec::new(),
            violation: None,
            hidden: false,
            number: TrialNumber(number),
            state,
            value,
            last_step: Some(1),
            last_value: Some(9.0),
            params,
            seconds: 1.0,
            created: Timestamp(0),
            finished: None,
        }
    }

    pub(in crate::report::figure) fn spec() -> StudySpec {
        let choices = Distribution::choice(vec!["adamw".into(), "sgd".into()]).unwrap();
        let space = Space::new(vec![Dimension {
            name: "optim".into(),
            distribution: choices,
            prior: None,
            when: None,
        }])
        .unwrap();
        StudySpec::new("digits", "loss", Direction::Minimize, space, Program::Inline)
    }

    pub(in crate::report::figure) fn outcomes() -> Vec<TrialSummary> {
        vec![
            outcome(0, TrialState::Complete, Some(0.5), "adamw"),
            outcome(1, TrialState::Complete, Some(f64::NAN), "sgd"),
            outcome(2, TrialState::Pruned, None, "sgd"),
            outcome(3, TrialState::Complete, Some(0.7), "sgd"),
            outcome(4, TrialState::Complete, Some(0.2), "sgd"),
        ]
    }

    #[test]
    fn the_best_so_far_only_gets_better_and_knows_no_nan() {
        let chart = history(&spec(), &outcomes());
        let best = chart.series.iter().find(|series| series.name == "best so far").unwrap();
        assert_eq!(&*best.points, [(0.0, 0.5), (3.0, 0.5), (4.0, 0.2)]);
        assert_eq!(&*chart.series[0].points, [(2.0, 9.0)]);
        let mut with_limit = outcomes();
        with_limit[4].violation = Some(1.0);
        let chart = history(&spec(), &with_limit);
        let best = chart.series.iter().find(|series| series.name == "best so far").unwrap();
        assert_eq!(
            &*best.points,
            [(0.0, 0.5), (3.0, 0.5)],
            "what violates a limit is not the best"
        );
    }

    #[test]
    fn choices_have_places_and_the_best_is_marked() {
        let spec = spec();
        let chart =
            slice(&spec, &spec.space.dimensions()[0], &outcomes(), Some((TrialNumber(4), 0.2)));
        assert_eq!(&*chart.series[1].points, [(1.0, 0.2)]);
        assert_eq!(chart.x.names, [(0.0, "adamw".to_owned()), (1.0, "sgd".to_owned())]);
    }

    #[test]
    fn importances_are_bars_with_the_most_important_at_the_top() {
        let figure = importance(&spec(), &[("lr".into(), 0.75), ("optim".into(), 0.25)]);
        assert_eq!(&*figure.series[0].points, [(0.0, 1.0), (0.75, 1.0), (0.0, 0.0), (0.25, 0.0)]);
        assert_eq!(figure.y.names, [(1.0, "lr".to_owned()), (0.0, "optim".to_owned())]);
        assert!(importance(&spec(), &[]).ranges().is_none());
    }

    #[test]
    fn a_study_without_values_has_an_empty_history() {
        assert!(history(&spec(), &[]).series.is_empty());
    }
}
