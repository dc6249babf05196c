//! The figures of studies, for the terminal, files, reports and pages.

mod kind;

use std::collections::{BTreeMap, BTreeSet};

use super::curves::{By, points, shown_axis};
use crate::analysis::importance::{self, Evaluator};
use crate::report::fate::{Fate, fates};
use crate::report::figure::contour::contour;
use crate::report::figure::front;
use crate::report::figure::of_study::{self, StudyCurve};
use crate::report::figure::rungs::rungs;
use crate::report::figure::timeline::timeline;
use crate::report::figure::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::wording::one_line;
use crate::runner;
use crate::storage::{OutcomeCursor, StorageError, StorageReader, StudySummary};
use crate::study::event::{CheckpointEvent, Event, Seq, TrialEvent};
use crate::study::metric::Score;
use crate::study::outcome::Outcome;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::{SeriesAxis, SeriesSummary};
use crate::study::space::{Dimension, Scale};
use crate::study::spec::{Objective, StudySpec};
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;
pub use kind::{FigureKind, FigureOptions};

/// A figure of one study, or of several.
#[derive(Clone, Debug)]
pub struct StudyFigure {
    /// The study; `None`: several.
    pub study: Option<String>,
    /// The figure.
    pub figure: Figure<'static>,
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A parameter that the study does not search.
    #[error("`{}` searches no parameter `{}`", one_line(study), one_line(name))]
    UnknownParameter {
        /// The study.
        study: String,
        /// The name.
        name: String,
        /// Those that it searches.
        known: Vec<String>,
    },
    /// A contour needs two parameters.
    #[error("a contour is over two parameters, and {given}")]
    NotTwoParameters {
        /// What is given, or how many the study searches.
        given: String,
    },
    /// A metric that none of the trials has.
    #[error("these trials report no `{}`", one_line(metric))]
    UnknownMetric {
        /// The name.
        metric: String,
        /// Those that they have.
        known: Vec<String>,
    },
    /// A metric that is not on this axis.
    #[error("these trials have no `{}` by {axis}", one_line(metric))]
    NotOnAxis {
        /// The metric.
        metric: String,
        /// The axis.
        axis: SeriesAxis,
        /// The axes that it is on.
        known: Vec<&'static str>,
    },
    /// A metric that the study does not optimise.
    #[error("`{}` is no objective of `{}`", one_line(metric), one_line(study))]
    NotAnObjective {
        /// The study.
        study: String,
        /// The name.
        metric: String,
        /// Its objectives.
        known: Vec<String>,
    },
    /// The study has one objective, and a front needs several.
    #[error("`{}` has one objective, and a front is of several", one_line(study))]
    OneObjective {
        /// The study.
        study: String,
    },
    /// The study has no such trial, or no best one.
    #[error("`{}` has no trial to show system metrics of", one_line(study))]
    NoTrial {
        /// The study.
        study: String,
    },
}

/// The series of `metric` among those of some trials, on `axis` if one is given.
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
    if own.is_empty() && !known.is_empty() {
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

/// The figures of one kind: one per pair of axes where studies share them, else those of each
/// study in turn.
///
/// # Errors
/// The store failed, or the options name what the studies do not have.
pub fn figures(
    reader: &dyn StorageReader,
    studies: &[StudySummary],
    kind: FigureKind,
    options: &FigureOptions,
) -> Result<Vec<StudyFigure>, FigureError> {
    let is_several = studies.iter().any(|study| study.spec.has_several_objectives());
    if studies.len() > 1 && kind.is_shared() && options.overlay && !is_several {
        return shared(reader, studies, kind, options);
    }
    let mut all = Vec::new();
    for study in studies {
        let figures = match study.spec.has_several_objectives() {
            true => of_objectives(reader, study, kind, options)?,
            false => of_one(reader, study, kind, options)?,
        };
        let name = Some(study.spec.name.clone());
        all.extend(figures.into_iter().map(|figure| StudyFigure { study: name.clone(), figure }));
    }
    Ok(all)
}

/// The figures of a study of several objectives: of the front, or of each objective in turn, or of
/// the one that `metric` names.
fn of_objectives(
    reader: &dyn StorageReader,
    study: &StudySummary,
    kind: FigureKind,
    options: &FigureOptions,
) -> Result<Vec<Figure<'static>>, FigureError> {
    match kind {
        FigureKind::Timeline | FigureKind::System | FigureKind::Rungs => {
            return of_one(reader, study, kind, options);
        }
        FigureKind::Curves if options.names_series() => {
            return of_one(reader, study, kind, options);
        }
        FigureKind::Pareto => {
            let figures = front::fronts(&study.spec, &outcomes(reader, study)?);
            return Ok(figures.into_iter().map(|figure| figure.scaled(options)).collect());
        }
        FigureKind::Hypervolume => {
            return Ok(vec![front::hypervolume(&study.spec, &outcomes(reader, study)?)]);
        }
        _ => {}
    }
    let is_wanted = |metric: &str| options.metric.as_deref().is_none_or(|wanted| wanted == metric);
    if !study.spec.objectives.iter().any(|objective| is_wanted(&objective.metric)) {
        let known = study.spec.objectives.iter().map(|objective| objective.metric.clone());
        return Err(FigureError::NotAnObjective {
            study: study.spec.name.clone(),
            metric: options.metric.clone().unwrap_or_default(),
            known: known.collect(),
        });
    }
    let all = outcomes(reader, study)?;
    let mut figures = Vec::new();
    for (index, objective) in study.spec.objectives.iter().enumerate() {
        if !is_wanted(&objective.metric) {
            continue;
        }
        let (alone, mut outcomes) = by_objective(study, &all, index, objective);
        if matches!(kind, FigureKind::Importance | FigureKind::Contour) {
            outcomes = importance::of_objective(&all, study.spec.objectives.len(), index).into();
        }
        figures.extend(match kind {
            FigureKind::Curves => {
                let metric = Some(objective.metric.clone());
                curves_figure(reader, &alone, &FigureOptions { metric, ..options.clone() })?
            }
            _ => of_outcomes(&alone, &outcomes, kind, options)?,
        });
    }
    Ok(figures)
}

/// A study of several objectives as one of this objective alone, with its outcomes.
fn by_objective(
    study: &StudySummary,
    outcomes: &[Outcome],
    index: usize,
    objective: &Objective,
) -> (StudySummary, Vec<Outcome>) {
    let outcomes: Vec<Outcome> =
        outcomes.iter().map(|outcome| outcome.by_objective(index)).collect();
    let score = |value: f64| Score::new(objective.direction, value);
    let feasible = outcomes.iter().filter(|outcome| outcome.violation.is_none());
    let valued = feasible.filter_map(|outcome| Some((outcome.number, outcome.value?)));
    let best = valued.filter(|(_, value)| !value.is_nan()).min_by_key(|(_, value)| score(*value));
    let spec = StudySpec { objectives: vec![objective.clone()], ..study.spec.clone() };
    (StudySummary { spec, best, front: None, ..study.clone() }, outcomes)
}

/// Leaves out points at equal distances, so that about `most` stay: more are larger, and show no
/// more.
pub fn thin(figure: &mut Figure<'static>, most: usize) {
    let points: usize = figure.series.iter().map(|series| series.points.len()).sum();
    let every = points.div_ceil(most).max(1);
    for one in &mut figure.series {
        let length = one.points.len();
        // Bars are pairs of points, and short series tell something by each.
        if every == 1 || one.mark == Mark::Bars || length < every * 20 {
            continue;
        }
        let kept = one.points.iter().enumerate();
        let kept = kept.filter(|(index, _)| index % every == 0 || index + 1 == length);
        one.points = kept.map(|(_, point)| *point).collect::<Vec<_>>().into();
    }
}

fn of_one(
    reader: &dyn StorageReader,
    study: &StudySummary,
    kind: FigureKind,
    options: &FigureOptions,
) -> Result<Vec<Figure<'static>>, FigureError> {
    match kind {
        FigureKind::Curves => curves_figure(reader, study, options),
        FigureKind::Timeline => {
            let attempts = reader.attempts(study.id, None)?;
            Ok(vec![timeline(&study.spec, &attempts, &saved(reader, study)?, runner::now())])
        }
        FigureKind::System => system(reader, study, options),
        FigureKind::Rungs => {
            let outcomes = outcomes(reader, study)?;
            Ok(vec![rungs(&study.spec, &outcomes, &fates_of(reader, study)?)])
        }
        FigureKind::Pareto | FigureKind::Hypervolume => {
            Err(FigureError::OneObjective { study: study.spec.name.clone() })
        }
        _ => match options.metric.as_ref().filter(|name| **name != study.spec.objective().metric) {
            Some(metric) => Err(FigureError::NotAnObjective {
                study: study.spec.name.clone(),
                metric: metric.clone(),
                known: vec![study.spec.objective().metric.clone()],
            }),
            None => of_outcomes(study, &outcomes(reader, study)?, kind, options),
        },
    }
}

fn curves_figure(
    reader: &dyn StorageReader,
    study: &StudySummary,
    options: &FigureOptions,
) -> Result<Vec<Figure<'static>>, FigureError> {
    let (metric, axis, curves) = curves_of(reader, study, options.lines, options)?;
    let unit = options.by.unit(axis);
    // The values of trials are those of the study's metric.
    let is_own = metric == study.spec.objective().metric;
    let value = study.best.map(|(_, value)| value).filter(|_| is_own);
    let best = study.best_trial();
    let title = format!("{}: {metric} by {unit}", study.spec.name);
    Ok(vec![of_study::curves(&title, curves, best, value).on(unit, &metric, options)])
}

/// The figures that outcomes are enough for.
fn of_outcomes(
    study: &StudySummary,
    outcomes: &[Outcome],
    kind: FigureKind,
    options: &FigureOptions,
) -> Result<Vec<Figure<'static>>, FigureError> {
    let spec = &study.spec;
    let title = |what: &str| format!("{}: {what}", spec.name);
    Ok(match kind {
        FigureKind::History => vec![of_study::history(spec, outcomes).scaled(options)],
        FigureKind::Parallel => vec![of_study::parallel(spec, outcomes, options.lines)],
        FigureKind::Distribution | FigureKind::Comparison => {
            let one = || std::iter::once((spec, outcomes));
            let figures = overlaid(kind, &title, &spec.objective().metric, one);
            figures.into_iter().map(|figure| figure.scaled(options)).collect()
        }
        FigureKind::Importance => {
            vec![of_study::importance(spec, &importances(spec, outcomes))]
        }
        FigureKind::Slice => {
            let dimensions = dimensions(spec, &options.params)?;
            let slice = |dimension| of_study::slice(spec, dimension, outcomes, study.best);
            dimensions.into_iter().map(|dimension| slice(dimension).scaled_up(options)).collect()
        }
        FigureKind::Contour => {
            let pair = pair(spec, &options.params, outcomes)?;
            vec![contour(spec, pair, outcomes, study.best_trial())]
        }
        FigureKind::Curves
        | FigureKind::Rungs
        | FigureKind::Timeline
        | FigureKind::System
        | FigureKind::Pareto
        | FigureKind::Hypervolume => Vec::new(),
    })
}

/// One figure per pair of axes, with one colour per study.
fn shared(
    reader: &dyn StorageReader,
    studies: &[StudySummary],
    kind: FigureKind,
    options: &FigureOptions,
) -> Result<Vec<StudyFigure>, FigureError> {
    if kind == FigureKind::Curves {
        return shared_curves(reader, studies, options);
    }
    let mut layers: Vec<(&StudySpec, Vec<Outcome>)> = Vec::new();
    for study in studies {
        layers.push((&study.spec, outcomes(reader, study)?));
    }
    let axes = |spec: &StudySpec| (spec.objective().metric.clone(), spec.direction());
    let mut figures = Vec::new();
    while let Some(first) = layers.first().map(|(spec, _)| axes(spec)) {
        let (together, others): (Vec<_>, Vec<_>) =
            layers.into_iter().partition(|(spec, _)| axes(spec) == first);
        layers = others;
        let (metric, direction) = first;
        let each = || together.iter().map(|(spec, outcomes)| (*spec, outcomes.as_slice()));
        let drawn = match kind {
            FigureKind::History => {
                let title = format!("{metric} by trial, {}d", direction.as_str());
                vec![of_study::histories(&title, &metric, each())]
            }
            _ => overlaid(kind, &str::to_owned, &metric, each),
        };
        figures.extend(
            drawn
                .into_iter()
                .map(|figure| StudyFigure { study: None, figure: figure.scaled(options) }),
        );
    }
    Ok(figures)
}

fn shared_curves(
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
        let figure = of_study::curves_of_several(&format!("{metric} by {unit}"), each);
        let figure = figure.on(unit, &metric, options);
        figures.push(StudyFigure { study: None, figure });
    }
    Ok(figures)
}

/// Distributions or comparisons of some studies with one metric.
fn overlaid<'a, I: Iterator<Item = (&'a StudySpec, &'a [Outcome])>>(
    kind: FigureKind,
    title: &dyn Fn(&str) -> String,
    metric: &str,
    studies: impl Fn() -> I,
) -> Vec<Figure<'static>> {
    let title = |what: String| title(&what);
    if kind == FigureKind::Distribution {
        let title = title(format!("trials up to each {metric}"));
        return vec![of_study::distribution(&title, metric, studies())];
    }
    vec![
        of_study::best_by_count(
            &title(format!("best {metric} by completed trials")),
            metric,
            studies(),
        ),
        of_study::best_by_time(&title(format!("best {metric} over time")), metric, studies()),
    ]
}

/// Whether a study has what figures of this kind need; of `figures` this is the part that differs
/// from study to study.
///
/// # Errors
/// The store failed, or the options name what the study does not have.
pub fn check(
    reader: &dyn StorageReader,
    study: &StudySummary,
    kind: FigureKind,
    options: &FigureOptions,
) -> Result<(), FigureError> {
    match kind {
        FigureKind::Curves if options.names_series() => {
            let numbers = best_trials(reader, study, options.lines)?;
            let metric = options.metric.as_ref().unwrap_or(&study.spec.objective().metric);
            series_of(&reader.series(study.id, &numbers)?, metric, options.axis).map(|_| ())
        }
        FigureKind::Pareto | FigureKind::Hypervolume if !study.spec.has_several_objectives() => {
            Err(FigureError::OneObjective { study: study.spec.name.clone() })
        }
        FigureKind::Slice => dimensions(&study.spec, &options.params).map(|_| ()),
        FigureKind::Contour => {
            pair(&study.spec, &options.params, &outcomes(reader, study)?).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// The trials that saved checkpoints, and when, in the order of the journal.
fn saved(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Vec<(TrialNumber, Timestamp)>, StorageError> {
    const PAGE: u64 = 10_000;
    let (mut saved, mut after) = (Vec::new(), Seq::default());
    loop {
        let events = reader.events_after(study.id, after, PAGE)?;
        let Some((last, ..)) = events.last() else { return Ok(saved) };
        after = *last;
        saved.extend(events.iter().filter_map(|(_, at, event)| match event {
            Event::Trial(trial, TrialEvent::Checkpoint(CheckpointEvent::Saved { .. })) => {
                Some((*trial, *at))
            }
            _ => None,
        }));
    }
}

/// What the pruner's decisions meant for the trials that are not hidden.
fn fates_of(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<BTreeMap<TrialNumber, Vec<(u64, Fate)>>, StorageError> {
    const PAGE: u16 = 2_000;
    let mut all = BTreeMap::new();
    if study.spec.pruner.name == "none" || study.spec.is_tracked() {
        return Ok(all);
    }
    let query = TrialQuery::all(SortKey::Number).filtered(study.visible(Filter::all()));
    for first in (0..).step_by(usize::from(PAGE)) {
        let page = reader.trials(study.id, &query.clone().page(first, PAGE.into()))?;
        all.extend(page.iter().map(|trial| (trial.number, fates(trial))));
        if page.is_empty() {
            break;
        }
    }
    Ok(all)
}

/// The outcomes of the trials that are not hidden.
fn outcomes(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Vec<Outcome>, StorageError> {
    let (mut outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    outcomes.retain(|outcome| !outcome.hidden);
    Ok(outcomes)
}

fn importances(spec: &StudySpec, outcomes: &[Outcome]) -> Vec<(String, f64)> {
    let evaluator = Evaluator::default();
    let (rows, _) = importance::rows(outcomes, evaluator, spec.direction());
    importance::importances(evaluator, &spec.space, &rows, spec.direction(), spec.seed)
        .unwrap_or_default()
}

/// The named dimensions of the space; all without a name.
fn dimensions<'a>(
    spec: &'a StudySpec,
    names: &[String],
) -> Result<Vec<&'a Dimension>, FigureError> {
    let all = spec.space.dimensions();
    if let Some(unknown) = names.iter().find(|name| spec.space.dimension(name).is_none()) {
        return Err(FigureError::UnknownParameter {
            study: spec.name.clone(),
            name: unknown.clone(),
            known: all.iter().map(|dimension| dimension.name.clone()).collect(),
        });
    }
    let is_named = |dimension: &&Dimension| names.is_empty() || names.contains(&dimension.name);
    Ok(all.iter().filter(is_named).collect())
}

/// The two parameters of a contour: the named ones, else the most important, else the first.
fn pair<'a>(
    spec: &'a StudySpec,
    names: &[String],
    outcomes: &[Outcome],
) -> Result<(&'a Dimension, &'a Dimension), FigureError> {
    let found: Vec<String>;
    let names = if names.is_empty() {
        let important = importances(spec, outcomes).into_iter().map(|(name, _)| name);
        let all = spec.space.dimensions().iter().map(|one| one.name.clone());
        let mut named: Vec<String> = Vec::new();
        // A parameter without an importance may be the second.
        for name in important.chain(all) {
            if named.len() < 2 && !named.contains(&name) {
                named.push(name);
            }
        }
        found = named;
        found.as_slice()
    } else {
        names
    };
    dimensions(spec, names)?;
    let found: Vec<&Dimension> =
        names.iter().filter_map(|name| spec.space.dimension(name)).collect();
    match found.as_slice() {
        [x, y] if x.name != y.name => Ok((x, y)),
        _ => Err(FigureError::NotTwoParameters {
            given: match found.len() {
                0 => "the study searches none".to_owned(),
                1 => format!("there is only `{}`", one_line(&found[0].name)),
                2 => "both are the same".to_owned(),
                more => format!("{more} are named"),
            },
        }),
    }
}

fn best_trials(
    reader: &dyn StorageReader,
    study: &StudySummary,
    most: usize,
) -> Result<Vec<TrialNumber>, StorageError> {
    let query = TrialQuery::all(SortKey::Value).filtered(study.visible(Filter::all()));
    let trials = reader.trials(study.id, &query.page(0, most as u64))?;
    Ok(trials.iter().map(|trial| trial.number).collect())
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

/// The exponential moving average with debiasing, as TensorBoard's `--smoothing` has it:
/// `m_t = w m_(t-1) + (1 - w) x_t`, divided by `1 - w^t`. Values that are not finite are left as
/// they are.
pub fn smoothed(mut points: Vec<(f64, f64)>, weight: f64) -> Vec<(f64, f64)> {
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

/// The system metrics of a trial, a figure per metric.
fn system(
    reader: &dyn StorageReader,
    study: &StudySummary,
    options: &FigureOptions,
) -> Result<Vec<Figure<'static>>, FigureError> {
    let best = study.best_trial();
    let newest = || -> Result<Option<TrialNumber>, StorageError> {
        let query = TrialQuery::all(SortKey::Number).filtered(study.visible(Filter::all()));
        let query = TrialQuery { reverse: true, ..query.page(0, 1) };
        Ok(reader.trials(study.id, &query)?.first().map(|trial| trial.number))
    };
    let Some(trial) = options.trial.or(best).map_or_else(newest, |trial| Ok(Some(trial)))? else {
        return Err(FigureError::NoTrial { study: study.spec.name.clone() });
    };
    let mut figures = Vec::new();
    for series in reader.series(study.id, &[trial])? {
        if !series.metric.starts_with(SYSTEM) {
            continue;
        }
        let points =
            points(reader, study, trial, (&series.metric, series.axis), By::Wall, options.detail)?;
        let name = one_line(&series.metric);
        figures.push(Figure {
            title: one_line(&format!("{}: {name} of trial {trial}", study.spec.name)),
            x: Axis::linear().labelled("seconds"),
            y: Axis::linear().labelled(name),
            cells: None,
            series: vec![Series::new("", Mark::Line, SeriesRole::Compared(0), points)],
            empty: "nothing was measured",
        });
    }
    if figures.is_empty() {
        figures.push(Figure {
            title: one_line(&format!("{}: system metrics of trial {trial}", study.spec.name)),
            x: Axis::linear(),
            y: Axis::linear(),
            cells: None,
            series: Vec::new(),
            empty: "nothing was measured: the trial was too short, or `[track] system` is off",
        });
    }
    Ok(figures)
}

/// How the names of system metrics begin.
const SYSTEM: &str = "system/";

impl Figure<'static> {
    /// With the axes that the options ask for.
    fn scaled(mut self, options: &FigureOptions) -> Self {
        for (axis, is_log) in [(&mut self.x, options.log_x), (&mut self.y, options.log_y)] {
            if is_log && axis.names.is_empty() {
                axis.scale = Scale::Log;
                axis.ends = None;
            }
        }
        self
    }

    /// The same for the vertical axis alone: the horizontal one is the parameter's.
    fn scaled_up(self, options: &FigureOptions) -> Self {
        let x = self.x.clone();
        Figure { x, ..self.scaled(options) }
    }

    /// With these labels of its axes.
    fn on(mut self, x: &str, y: &str, options: &FigureOptions) -> Self {
        self.x.label = x.to_owned();
        self.y.label = one_line(y);
        if options.smooth > 0.0 {
            self.title = format!("{} (smoothed by {})", self.title, options.smooth);
        }
        self.scaled(options)
    }
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

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = FigureKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), FigureKind::ALL.len());
    }
}
