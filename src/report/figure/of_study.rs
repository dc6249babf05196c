//! The figures of a study, as functions of the outcomes of its trials.

use super::axis::Cut;
use super::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::table::{Column, Columns};
use crate::report::wording::{one_line, param};
use crate::study::metric::Score;
use crate::study::outcome::Outcome;
use crate::study::params::Value;
use crate::study::space::{Dimension, Distribution, Scale};
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

pub(super) fn complete(outcomes: &[Outcome]) -> impl Iterator<Item = (&Outcome, f64)> {
    outcomes
        .iter()
        .filter(|outcome| outcome.state == TrialState::Complete)
        .filter_map(|outcome| Some((outcome, outcome.value?)))
}

/// An axis of values: outliers may be outside, the best never is.
fn values(best: Option<f64>) -> Axis {
    Axis::without_outliers(best.into_iter().collect())
}

/// The best value so far, at each place.
fn best_so_far(spec: &StudySpec, points: impl IntoIterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
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
fn is_feasible((outcome, _): &(&Outcome, f64)) -> bool {
    outcome.violation.is_none()
}

/// The best value so far, by the numbers of the trials.
fn best_by_number(spec: &StudySpec, outcomes: &[Outcome]) -> Vec<(f64, f64)> {
    let feasible = complete(outcomes).filter(is_feasible);
    best_so_far(spec, feasible.map(|(outcome, value)| (whole(outcome.number.0), value)))
}

fn complete_by_number(outcomes: &[Outcome]) -> Vec<(f64, f64)> {
    complete(outcomes).map(|(outcome, value)| (whole(outcome.number.0), value)).collect()
}

/// Values by trial, and the best so far.
pub fn history(spec: &StudySpec, outcomes: &[Outcome]) -> Figure<'static> {
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
    studies: impl Iterator<Item = (&'a StudySpec, &'a [Outcome])>,
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

/// A trial's curve: steps, or seconds, and values.
pub type StudyCurve = (TrialNumber, Vec<(f64, f64)>);

/// The curves of trials, the best in front.
pub fn curves(
    title: &str,
    curves: Vec<StudyCurve>,
    best: Option<TrialNumber>,
    value: Option<f64>,
) -> Figure<'static> {
    let x = axis_of(curves.iter().flat_map(|(_, points)| points));
    let (front, behind): (Vec<StudyCurve>, Vec<StudyCurve>) =
        curves.into_iter().partition(|(number, _)| best == Some(*number));
    let behind = behind.into_iter().map(|(number, points)| {
        series("", points, Mark::Line, SeriesRole::Behind).of_trial(number)
    });
    let front = front.into_iter().map(|(number, points)| {
        let name = format!("trial {number}, the best");
        series(&name, points, Mark::Line, SeriesRole::Best).of_trial(number)
    });
    Figure {
        title: one_line(title),
        x,
        y: values(value),
        series: present(behind.chain(front).collect()),
        cells: None,
        empty: "no reports yet",
    }
}

/// The curves of trials of several studies, of each in one colour: the best of each is in front.
pub fn curves_of_several<'a>(
    title: &str,
    studies: impl Iterator<Item = (&'a str, Option<f64>, &'a [StudyCurve])>,
) -> Figure<'static> {
    let studies: Vec<_> = studies.collect();
    let points = studies.iter().flat_map(|(.., curves)| curves.iter());
    let x = axis_of(points.flat_map(|(_, points)| points));
    let (mut behind, mut front) = (Vec::new(), Vec::new());
    for (index, (name, _, curves)) in studies.iter().enumerate() {
        // The best comes first.
        for (nth, (_, points)) in curves.iter().enumerate() {
            let name = if nth == 0 { one_line(name) } else { String::new() };
            let line = series(&name, points.clone(), Mark::Line, SeriesRole::Compared(index));
            if nth == 0 { &mut front } else { &mut behind }.push(line);
        }
    }
    Figure {
        title: one_line(title),
        x,
        y: Axis::without_outliers(studies.iter().filter_map(|(_, best, _)| *best).collect()),
        series: present(behind.into_iter().chain(front).collect()),
        cells: None,
        empty: "no reports yet",
    }
}

/// An axis of steps, or of seconds.
fn axis_of<'a>(points: impl IntoIterator<Item = &'a (f64, f64)>) -> Axis {
    let is_whole = points.into_iter().all(|(step, _)| step.fract() == 0.0);
    if is_whole { Axis::whole() } else { Axis::default() }
}

/// Values by one parameter.
pub fn slice(
    spec: &StudySpec,
    dimension: &Dimension,
    outcomes: &[Outcome],
    best: Option<(TrialNumber, f64)>,
) -> Figure<'static> {
    let point = |outcome: &Outcome, value: f64| {
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

/// Every trial as a line over all parameters, its value at the right, better ones higher.
pub fn parallel(spec: &StudySpec, outcomes: &[Outcome], most: usize) -> Figure<'static> {
    let score = |value: f64| Score::new(spec.direction(), value);
    let mut trials: Vec<(&Outcome, f64)> =
        complete(outcomes).filter(|(_, value)| value.is_finite()).collect();
    trials.sort_by_key(|(outcome, value)| (score(*value), outcome.number));
    trials.truncate(most);
    let dimensions = spec.space.dimensions();
    let last = whole(dimensions.len() as u64);
    let (best, worst) = (
        trials.first().map_or(0.0, |(_, value)| *value),
        trials.last().map_or(0.0, |(_, value)| *value),
    );
    let height = |value: f64| if best == worst { 0.5 } else { (value - worst) / (best - worst) };
    let line = |outcome: &Outcome, value: f64| -> Vec<(f64, f64)> {
        let at = |dimension: &Dimension| {
            outcome
                .params
                .get(&dimension.name)
                .and_then(|value| dimension.distribution.to_unit(value))
                .unwrap_or(f64::NAN)
        };
        (0_u64..).map(whole).zip(dimensions.iter().map(at)).chain([(last, height(value))]).collect()
    };
    let tone = |index: usize| match index {
        0 => SeriesRole::Best,
        _ if index < trials.len().div_ceil(10) => SeriesRole::Compared(0),
        _ => SeriesRole::Behind,
    };
    let name = |index: usize, outcome: &Outcome| match index {
        0 => format!("trial {}, the best", outcome.number),
        1 if tone(1) == SeriesRole::Compared(0) => "the best tenth".to_owned(),
        _ => String::new(),
    };
    // The best are drawn last, above the others.
    let lines = trials.iter().enumerate().rev().map(|(index, (outcome, value))| {
        series(&name(index, outcome), line(outcome, *value), Mark::Line, tone(index))
    });
    let names = (0_u64..)
        .map(whole)
        .zip(dimensions.iter().map(|dimension| one_line(&dimension.name)))
        .chain([(last, one_line(&spec.objective().metric))]);
    Figure {
        title: one_line(&format!(
            "{}: parameters and {} of {} trials",
            spec.name,
            spec.objective().metric,
            trials.len()
        )),
        x: Axis { ends: Some((0.0, last)), names: names.collect(), ..Axis::linear() },
        y: Axis {
            ends: Some((0.0, 1.0)),
            names: vec![(0.0, "low".to_owned()), (1.0, "high".to_owned())],
            cut: Cut::Nothing,
            ..Axis::linear()
        },
        series: lines.collect(),
        cells: None,
        empty: EMPTY,
    }
}

/// The ends of the axes of [`parallel`], as a table.
pub fn parallel_axes(spec: &StudySpec) -> Vec<Column> {
    let choice = |value: Option<&Value>| value.map_or_else(String::new, param);
    let axis = |dimension: &Dimension| {
        let (low, high, scale) = match &dimension.distribution {
            Distribution::Float { low, high, scale, .. } => {
                (param(&(*low).into()), param(&(*high).into()), Some(*scale))
            }
            Distribution::Int { low, high, scale, .. } => {
                (low.to_string(), high.to_string(), Some(*scale))
            }
            Distribution::Choice { choices } => {
                (choice(choices.first()), choice(choices.last()), None)
            }
        };
        let scale = match (scale, &dimension.distribution) {
            (Some(Scale::Log), _) => "log".to_owned(),
            (None, Distribution::Choice { choices }) => {
                choices.iter().map(param).collect::<Vec<_>>().join(", ")
            }
            _ => "linear".to_owned(),
        };
        [dimension.name.clone(), low, high, scale]
    };
    let value = [&spec.objective().metric, "worst shown", "best", "linear"].map(str::to_owned);
    let rows: Vec<[String; 4]> = spec.space.dimensions().iter().map(axis).chain([value]).collect();
    Columns::of(&rows)
        .left("axis", |row| one_line(&row[0]))
        .left("low", |row| one_line(&row[1]))
        .left("high", |row| one_line(&row[2]))
        .left("scale", |row| one_line(&row[3]))
        .end()
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
        empty: "importances need at least 10 completed trials with different values",
    }
}

/// The empirical distribution of each study's values: the share of its completed trials that are
/// at most as large, as Optuna's `plot_edf` has it.
pub fn distribution<'a>(
    title: &str,
    metric: &str,
    studies: impl Iterator<Item = (&'a StudySpec, &'a [Outcome])>,
) -> Figure<'static> {
    let steps = |outcomes: &[Outcome]| {
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

/// A study, and the points of its line.
type StudyLine<'a> = (&'a StudySpec, Vec<(f64, f64)>);

/// One line of steps per study, in its colour.
fn steps_of_studies<'a>(studies: impl Iterator<Item = StudyLine<'a>>) -> Vec<Series<'static>> {
    let line = |(index, (spec, points)): (usize, StudyLine<'a>)| {
        series(&one_line(&spec.name), points, Mark::Steps, SeriesRole::Compared(index))
    };
    present(studies.enumerate().map(line).collect())
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

/// The best value so far of each study by the number of trials with a value, whatever their
/// numbers: of studies with pruned trials, too, the same amount of completed work is compared.
pub fn best_by_count<'a>(
    title: &str,
    metric: &str,
    studies: impl Iterator<Item = (&'a StudySpec, &'a [Outcome])>,
) -> Figure<'static> {
    let best = |(spec, outcomes): (&'a StudySpec, &[Outcome])| {
        let mut trials: Vec<(&Outcome, f64)> = complete(outcomes).collect();
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
    studies: impl Iterator<Item = (&'a StudySpec, &'a [Outcome])>,
) -> Figure<'static> {
    let best = |(spec, outcomes): (&'a StudySpec, &[Outcome])| {
        let began = outcomes.iter().map(|outcome| outcome.created).min();
        let at = |outcome: &Outcome| Some(outcome.finished?.since(began?).as_secs_f64());
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::time::Timestamp;

    fn outcome(number: u64, state: TrialState, value: Option<f64>, optimiser: &str) -> Outcome {
        let mut params = Params::new();
        params.insert("optim", optimiser);
        Outcome {
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

    fn outcomes() -> Vec<Outcome> {
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
    fn in_parallel_the_best_is_highest_and_drawn_last() {
        let chart = parallel(&spec(), &outcomes(), 10);
        let best = chart.series.last().unwrap();
        assert_eq!((best.name.as_str(), best.tone), ("trial 4, the best", SeriesRole::Best));
        assert_eq!(best.points.last(), Some(&(1.0, 1.0)));
        assert_eq!(chart.series[0].points.last(), Some(&(1.0, 0.0)));
        assert_eq!(chart.series.len(), 3);
    }

    fn named<'a>(figure: &'a Figure<'_>, name: &str) -> &'a [(f64, f64)] {
        &figure.series.iter().find(|series| series.name == name).unwrap().points
    }

    #[test]
    fn the_distribution_is_the_share_of_trials_up_to_each_value() {
        // Optuna's plot_edf: np.sum(values <= x) / len(values), of finite values.
        let values = [0.5, f64::NAN, 0.7, 0.2, 0.5, f64::INFINITY];
        let outcomes: Vec<Outcome> = (0_u64..)
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
        let ended = |number, value, at| Outcome {
            finished: second(at),
            ..outcome(number, TrialState::Complete, Some(value), "sgd")
        };
        let pruned = Outcome { finished: second(2), ..outcome(1, TrialState::Pruned, None, "sgd") };
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

    #[test]
    fn importances_are_bars_with_the_most_important_at_the_top() {
        let figure = importance(&spec(), &[("lr".into(), 0.75), ("optim".into(), 0.25)]);
        assert_eq!(&*figure.series[0].points, [(0.0, 1.0), (0.75, 1.0), (0.0, 0.0), (0.25, 0.0)]);
        assert_eq!(figure.y.names, [(1.0, "lr".to_owned()), (0.0, "optim".to_owned())]);
        assert!(importance(&spec(), &[]).ranges().is_none());
    }

    #[test]
    fn a_study_without_values_has_empty_pictures() {
        assert!(
            history(&spec(), &[]).series.is_empty() && parallel(&spec(), &[], 10).series.is_empty()
        );
    }
}
