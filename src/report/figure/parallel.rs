//! Every trial as a line over all parameters.

use super::axis::Cut;
use super::of_study::{EMPTY, complete, is_feasible, series, whole};
use super::{Axis, Figure, Mark, SeriesRole};
use crate::report::table::{Column, Columns};
use crate::report::wording::{one_line, param};
use crate::study::metric::Score;
use crate::study::outcome::TrialSummary;
use crate::study::params::Value;
use crate::study::space::{Dimension, Distribution, Scale};
use crate::study::spec::StudySpec;

/// Every trial as a line over all parameters, its value at the right, better ones higher.
pub fn parallel(spec: &StudySpec, outcomes: &[TrialSummary], most: usize) -> Figure<'static> {
    let score = |value: f64| Score::new(spec.direction(), value);
    // The best of all may have no place on an axis.
    let rated = complete(outcomes).filter(|(_, value)| !value.is_nan()).filter(is_feasible);
    let best_of_all = rated.min_by_key(|(outcome, value)| (score(*value), outcome.number));
    let best_of_all = best_of_all.map(|(outcome, _)| outcome.number);
    let mut trials: Vec<(&TrialSummary, f64)> =
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
    // Its parts between parameters that it does not have.
    let line = |outcome: &TrialSummary, value: f64| -> Vec<Vec<(f64, f64)>> {
        let at = |dimension: &Dimension| {
            let value = outcome.params.get(&dimension.name)?;
            dimension.distribution.to_unit(value)
        };
        let heights = dimensions.iter().map(at).chain([Some(height(value))]);
        let places: Vec<(f64, Option<f64>)> = (0_u64..).map(whole).zip(heights).collect();
        let parts = places.split(|(_, height)| height.is_none());
        let part = |part: &[(f64, Option<f64>)]| -> Vec<(f64, f64)> {
            part.iter().filter_map(|(at, height)| Some((*at, (*height)?))).collect()
        };
        parts.map(part).filter(|part| !part.is_empty()).collect()
    };
    let is_best = |outcome: &TrialSummary| best_of_all == Some(outcome.number);
    let tenth = trials.len().div_ceil(10);
    let tone = |index: usize, outcome: &TrialSummary| match index {
        _ if is_best(outcome) => SeriesRole::Best,
        _ if index < tenth => SeriesRole::Compared(0),
        _ => SeriesRole::Behind,
    };
    let first_of_tenth = trials.iter().take(tenth).position(|(outcome, _)| !is_best(outcome));
    let name = |index: usize, outcome: &TrialSummary| match index {
        _ if is_best(outcome) => format!("trial {}, the best", outcome.number),
        _ if first_of_tenth == Some(index) => "the best tenth of those shown".to_owned(),
        _ => String::new(),
    };
    // The best are drawn last, above the others.
    let lines = trials.iter().enumerate().rev().flat_map(|(index, (outcome, value))| {
        let parts = line(outcome, *value).into_iter().rev().enumerate();
        let name = |part| if part == 0 { name(index, outcome) } else { String::new() };
        parts
            .map(|(part, points)| series(&name(part), points, Mark::Line, tone(index, outcome)))
            .collect::<Vec<_>>()
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
                (Value::Float(*low).to_string(), Value::Float(*high).to_string(), Some(*scale))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figure::of_study::tests::{outcomes, spec};

    #[test]
    fn in_parallel_the_best_is_highest_and_drawn_last() {
        let chart = parallel(&spec(), &outcomes(), 10);
        let best = chart.series.last().unwrap();
        assert_eq!((best.name.as_str(), best.tone), ("trial 4, the best", SeriesRole::Best));
        assert_eq!(best.points.last(), Some(&(1.0, 1.0)));
        assert_eq!(chart.series[0].points.last(), Some(&(1.0, 0.0)));
        assert_eq!(chart.series.len(), 3);
    }

    #[test]
    fn a_trial_is_the_best_only_if_no_other_is_better_that_cannot_be_drawn() {
        let mut outcomes = outcomes();
        let best = outcomes.iter_mut().find(|outcome| outcome.number.0 == 4).unwrap();
        let mut infinite = best.clone();
        infinite.number.0 = 99;
        infinite.value = Some(f64::NEG_INFINITY);
        // The best value, and a limit that is violated.
        best.violation = Some(1.0);
        let names = |outcomes: &[TrialSummary]| -> Vec<String> {
            let chart = parallel(&spec(), outcomes, 10);
            chart.series.into_iter().map(|one| one.name).filter(|name| !name.is_empty()).collect()
        };
        let of_others = names(&outcomes);
        assert!(of_others.iter().any(|name| name.ends_with(", the best")), "{of_others:?}");
        assert!(!of_others.contains(&"trial 4, the best".to_owned()), "{of_others:?}");
        outcomes.push(infinite);
        assert_eq!(names(&outcomes), ["the best tenth of those shown"]);
        let nan = outcomes.last_mut().unwrap();
        nan.value = Some(f64::NAN);
        assert_eq!(names(&outcomes), of_others);
    }

    #[test]
    fn a_study_without_values_has_no_lines() {
        assert!(parallel(&spec(), &[], 10).series.is_empty());
    }
}
