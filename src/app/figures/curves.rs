//! The curves of the best trials, of one study or of several.

use std::collections::BTreeSet;

use super::{FigureError, FigureOptions, StudyFigure};
use crate::app::curves::{Detail, points, shown_axis};
use crate::app::groups::{self, GroupBy, Groups};
use crate::report::figure::Figure;
use crate::report::figure::curves::{self, MeanCurve, StudyCurve};
use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::counted::count;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::{SYSTEM, SeriesAxis, SeriesSummary};
use crate::study::trial::TrialNumber;

pub(super) fn curves_figure(
    reader: &dyn StorageReader,
    study: &StudySummary,
    options: &FigureOptions,
) -> Result<Vec<Figure<'static>>, FigureError> {
    if let Some(by) = &options.group_by {
        let groups = groups::of_study(reader, study, by)?;
        let grouped = [grouped_series(reader, study, groups, options)?];
        let figures = group_figures(reader, &grouped, options)?;
        return Ok(figures.into_iter().map(|figure| figure.figure).collect());
    }
    let (metric, axis, curves) = curves_of(reader, study, options.lines, options)?;
    let unit = options.by.unit(axis);
    // The values of trials are those of the study's metric.
    let is_own = metric == study.spec.objective().metric;
    let value = study.best.map(|(_, value)| value).filter(|_| is_own);
    let best = study.best_trial();
    let title = format!("{}: {metric} by {unit}", study.spec.name);
    Ok(vec![curves::curves(&title, curves, best, value).on(unit, &metric, options)])
}

/// Most groups of a figure: as many as lines with colours and dashes of their own.
const MOST_GROUPS: usize = 18;

/// Groups of trials of a study, and the series that their curves are of.
#[derive(Clone, Debug)]
pub struct GroupedSeries {
    /// The study.
    pub study: StudySummary,
    /// The groups.
    pub groups: Groups,
    /// The metric.
    pub metric: String,
    /// Its axis.
    pub axis: SeriesAxis,
}

/// The mean curves of groups of trials of several studies.
///
/// # Errors
/// The store failed, the trials do not have the metric, or there are too many groups.
pub(super) fn figures_of_groups(
    reader: &dyn StorageReader,
    studies: &[StudySummary],
    by: &GroupBy,
    options: &FigureOptions,
) -> Result<Vec<StudyFigure>, FigureError> {
    let mut grouped = Vec::new();
    for study in studies {
        let groups = groups::of_study(reader, study, by)?;
        grouped.push(grouped_series(reader, study, groups, options)?);
    }
    if options.overlay {
        return group_figures(reader, &grouped, options);
    }
    let mut figures = Vec::new();
    for one in &grouped {
        figures.extend(group_figures(reader, std::slice::from_ref(one), options)?);
    }
    Ok(figures)
}

/// The mean curves of groups of trials with their standard deviations: one figure for each metric
/// and axis.
///
/// # Errors
/// The store failed, or there are too many groups.
pub fn group_figures(
    reader: &dyn StorageReader,
    grouped: &[GroupedSeries],
    options: &FigureOptions,
) -> Result<Vec<StudyFigure>, FigureError> {
    let mut figures = Vec::new();
    let mut rest: Vec<&GroupedSeries> = grouped.iter().collect();
    while let Some(first) = rest.first() {
        let (metric, axis) = (&first.metric, first.axis);
        let (together, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|one| one.metric == *metric && one.axis == axis);
        rest = others;
        let study = match together.as_slice() {
            [only] => Some(only.study.spec.name.clone()),
            _ => None,
        };
        figures.push(StudyFigure { study, figure: group_figure(reader, &together, options)? });
    }
    Ok(figures)
}

/// One figure of groups that have a metric and an axis in common.
fn group_figure(
    reader: &dyn StorageReader,
    together: &[&GroupedSeries],
    options: &FigureOptions,
) -> Result<Figure<'static>, FigureError> {
    let count_of_groups = together.iter().map(|one| one.groups.groups.len()).sum();
    let Some(GroupedSeries { study, groups: Groups { by, .. }, metric, axis }) =
        together.first().copied()
    else {
        return Ok(curves::means("", Vec::new()));
    };
    if count_of_groups > MOST_GROUPS {
        let (by, count) = (by.clone(), count_of_groups);
        return Err(FigureError::TooManyGroups { by, count, most: MOST_GROUPS });
    }
    let mut means = Vec::new();
    for one in together {
        let what = if one.study.spec.is_tracked() { "run" } else { "trial" };
        for (label, group) in one.groups.labels().into_iter().zip(&one.groups.groups) {
            let curve = group.curve(reader, &one.study, metric, *axis)?;
            let label = match together.len() {
                1 => label,
                _ => format!("{}: {label}", one_line(&one.study.spec.name)),
            };
            let name = format!("{label} ({})", count(curve.trials.len() as u64, what));
            let points = curve.points.iter();
            let points = points.map(|(step, one)| (step.real(), one.mean, one.deviation));
            means.push(MeanCurve { name, points: thinned(points.collect(), options.detail) });
        }
    }
    let title = format!("{metric} by {axis}, mean and standard deviation {by}");
    let title = match together.len() {
        1 => format!("{}: {title}", study.spec.name),
        _ => title,
    };
    Ok(curves::means(&title, means).on(axis.as_str(), metric, options))
}

/// The metric of grouped trials and its axis.
///
/// # Errors
/// The store failed, or the trials do not have the metric.
pub fn grouped_series(
    reader: &dyn StorageReader,
    study: &StudySummary,
    groups: Groups,
    options: &FigureOptions,
) -> Result<GroupedSeries, FigureError> {
    let trials = groups.groups.iter().flat_map(|group| &group.trials);
    let numbers: Vec<TrialNumber> = trials.map(|trial| trial.number).collect();
    let metric = options.metric.as_ref().unwrap_or(&study.spec.objective().metric).clone();
    let all = reader.series(study.id, &numbers)?;
    let own = series_of(&all, &metric, options.axis)?;
    let axis = options.axis.unwrap_or_else(|| shown_axis(study, own));
    Ok(GroupedSeries { study: study.clone(), groups, metric, axis })
}

/// Points at equal distances, and the last one: no more than can be seen.
fn thinned<T: Copy>(points: Vec<T>, detail: Detail) -> Vec<T> {
    let Detail::Columns(columns) = detail else { return points };
    let (length, most) = (points.len(), usize::from(columns) * 2);
    let every = length.div_ceil(most.max(1)).max(1);
    let kept = points.into_iter().enumerate();
    let kept = kept.filter(|(index, _)| index % every == 0 || index + 1 == length);
    kept.map(|(_, point)| point).collect()
}

pub(super) fn shared_curves(
    reader: &dyn StorageReader,
    studies: &[StudySummary],
    options: &FigureOptions,
) -> Result<Vec<StudyFigure>, FigureError> {
    let lines = options.lines.div_ceil(studies.len().max(1));
    let mut layers = Vec::new();
    for study in studies {
        let (metric, axis, curves) = curves_of(reader, study, lines, options)?;
        let is_own = metric == study.spec.objective().metric;
        let best = study.best.map(|(_, value)| value).filter(|_| is_own);
        layers.push(((metric, options.by.unit(axis)), (study.spec.name.as_str(), best, curves)));
    }
    let mut figures = Vec::new();
    while let Some((axes, _)) = layers.first() {
        let axes = axes.clone();
        let (together, others): (Vec<_>, Vec<_>) =
            layers.into_iter().partition(|(other, _)| *other == axes);
        layers = others;
        let (metric, unit) = axes;
        let each =
            together.iter().map(|(_, (name, best, curves))| (*name, *best, curves.as_slice()));
        let figure = curves::curves_of_several(&format!("{metric} by {unit}"), each);
        let figure = figure.on(unit, &metric, options);
        figures.push(StudyFigure { study: None, figure });
    }
    Ok(figures)
}

/// The curves of the best trials of a study, which metric they are of, and on which axis.
fn curves_of(
    reader: &dyn StorageReader,
    study: &StudySummary,
    most: usize,
    options: &FigureOptions,
) -> Result<(String, SeriesAxis, Vec<StudyCurve>), FigureError> {
    let numbers = best_trials(reader, study, most)?;
    let metric = options.metric.as_ref().unwrap_or(&study.spec.objective().metric).clone();
    let all = reader.series(study.id, &numbers)?;
    let own = match options.names_series() {
        true => series_of(&all, &metric, options.axis)?,
        // Trials that have not reported the study's metric yet are no error.
        false => all.iter().filter(|series| series.metric == metric).collect(),
    };
    let axis = options.axis.unwrap_or_else(|| shown_axis(study, own));
    let mut curves = Vec::new();
    for number in numbers {
        let points = points(reader, study, number, (&metric, axis), options.by, options.detail)?;
        curves.push((number, smoothed(points, options.smooth)));
    }
    Ok((metric, axis, curves))
}

pub(super) fn best_trials(
    reader: &dyn StorageReader,
    study: &StudySummary,
    most: usize,
) -> Result<Vec<TrialNumber>, StorageError> {
    let query = TrialQuery::all(SortKey::Value).filtered(study.visible(Filter::all()));
    let trials = reader.trials(study.id, &query.page(0, most as u64))?;
    Ok(trials.iter().map(|trial| trial.number).collect())
}

/// The series of `metric` among those of some trials, on `axis` if one is given. There may be none
/// where the trials have reported and logged nothing, whether or not they were measured.
///
/// # Errors
/// They have other metrics, or this one on other axes.
pub fn series_of<'a>(
    all: &'a [SeriesSummary],
    metric: &str,
    axis: Option<SeriesAxis>,
) -> Result<Vec<&'a SeriesSummary>, FigureError> {
    let own: Vec<&SeriesSummary> = all.iter().filter(|series| series.metric == metric).collect();
    let known: BTreeSet<&str> = all.iter().map(|series| series.metric.as_str()).collect();
    let is_system = |metric: &str| metric.starts_with(SYSTEM);
    if own.is_empty() && known.iter().any(|known| !is_system(known) || is_system(metric)) {
        let known = known.into_iter().map(str::to_owned).collect();
        return Err(FigureError::UnknownMetric { metric: metric.to_owned(), known });
    }
    let axes: BTreeSet<SeriesAxis> = own.iter().map(|series| series.axis).collect();
    if let Some(axis) = axis
        && !axes.is_empty()
        && !axes.contains(&axis)
    {
        let known = axes.into_iter().map(SeriesAxis::as_str).collect();
        return Err(FigureError::NotOnAxis { metric: metric.to_owned(), axis, known });
    }
    Ok(own)
}

/// The exponential moving average with debiasing, as TensorBoard's `--smoothing` has it:
/// `m_t = w m_(t-1) + (1 - w) x_t`, divided by `1 - w^t`. Values that are not finite are left as
/// they are.
fn smoothed(mut points: Vec<(f64, f64)>, weight: f64) -> Vec<(f64, f64)> {
    if weight <= 0.0 {
        return points;
    }
    let (mut average, mut debias) = (0.0, 1.0);
    for (_, value) in points.iter_mut().filter(|(_, value)| value.is_finite()) {
        average = weight * average + (1.0 - weight) * *value;
        debias *= weight;
        *value = average / (1.0 - debias);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_is_the_debiased_average_of_tensorboard() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 2.0)];
        let smoothed = smoothed(points, 0.5);
        let values: Vec<f64> = smoothed.iter().map(|(_, value)| *value).collect();
        assert_eq!(values[0], 1.0);
        assert!(values[1].is_nan());
        // (0.5 * 0.5 * 1 + 0.5 * 3) / (1 - 0.25) and so on.
        assert!((values[2] - 1.75 / 0.75).abs() < 1e-12);
        assert!((values[3] - 1.875 / 0.875).abs() < 1e-12);
    }
}
