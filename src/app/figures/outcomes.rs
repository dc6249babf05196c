//! The figures that the outcomes of trials are enough for, of one study or of several.

use std::borrow::Cow;

use super::{FigureError, FigureKind, FigureOptions, StudyFigure};
use crate::analysis::importance::{self, Evaluator};
use crate::app::compared::compared;
use crate::report::figure::contour::contour;
use crate::report::figure::{Figure, comparison, of_study, parallel};
use crate::report::wording::one_line;
use crate::storage::{OutcomeCursor, StorageError, StorageReader, StudySummary};
use crate::study::outcome::TrialSummary;
use crate::study::space::Dimension;
use crate::study::spec::StudySpec;

/// The figures that outcomes are enough for.
pub(super) fn of_outcomes(
    study: &StudySummary,
    outcomes: &[TrialSummary],
    kind: FigureKind,
    options: &FigureOptions,
) -> Result<Vec<Figure<'static>>, FigureError> {
    let compared = match kind.is_of_params() {
        true => compared(study, outcomes),
        false => Cow::Borrowed(study),
    };
    let spec = &compared.spec;
    let title = |what: &str| format!("{}: {what}", spec.name);
    Ok(match kind {
        FigureKind::History => vec![of_study::history(spec, outcomes).scaled(options)],
        FigureKind::Parallel => vec![parallel::parallel(spec, outcomes, options.lines)],
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
pub(super) fn shared(
    reader: &dyn StorageReader,
    studies: &[StudySummary],
    kind: FigureKind,
    options: &FigureOptions,
) -> Result<Vec<StudyFigure>, FigureError> {
    let mut layers: Vec<(&StudySpec, Vec<TrialSummary>)> = Vec::new();
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

/// Distributions or comparisons of some studies with one metric.
fn overlaid<'a, I: Iterator<Item = (&'a StudySpec, &'a [TrialSummary])>>(
    kind: FigureKind,
    title: &dyn Fn(&str) -> String,
    metric: &str,
    studies: impl Fn() -> I,
) -> Vec<Figure<'static>> {
    let title = |what: String| title(&what);
    if kind == FigureKind::Distribution {
        let title = title(format!("trials up to each {metric}"));
        return vec![comparison::distribution(&title, metric, studies())];
    }
    vec![
        comparison::best_by_count(
            &title(format!("best {metric} by completed trials")),
            metric,
            studies(),
        ),
        comparison::best_by_time(&title(format!("best {metric} over time")), metric, studies()),
    ]
}

/// The outcomes of the trials that are not hidden.
pub(super) fn outcomes(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Vec<TrialSummary>, StorageError> {
    let (mut outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    outcomes.retain(|outcome| !outcome.hidden);
    Ok(outcomes)
}

fn importances(spec: &StudySpec, outcomes: &[TrialSummary]) -> Vec<(String, f64)> {
    let evaluator = Evaluator::default();
    let (rows, _) = importance::rows(outcomes, evaluator, spec.direction());
    importance::importances(evaluator, &spec.space, &rows, spec.direction(), spec.seed)
        .unwrap_or_default()
}

/// The named dimensions of the space, at least one; all without a name.
pub(super) fn dimensions<'a>(
    spec: &'a StudySpec,
    names: &[String],
) -> Result<Vec<&'a Dimension>, FigureError> {
    let all = spec.space.dimensions();
    if names.is_empty() && all.is_empty() {
        return Err(FigureError::NoParameter {
            study: spec.name.clone(),
            of_runs: spec.is_tracked(),
        });
    }
    if let Some(unknown) = names.iter().find(|name| spec.space.dimension(name).is_none()) {
        return Err(FigureError::UnknownParameter {
            study: spec.name.clone(),
            name: unknown.clone(),
            of_runs: spec.is_tracked(),
            known: all.iter().map(|dimension| dimension.name.clone()).collect(),
        });
    }
    let is_named = |dimension: &&Dimension| names.is_empty() || names.contains(&dimension.name);
    Ok(all.iter().filter(is_named).collect())
}

/// The two parameters of a contour: the named ones, else the most important, else the first.
pub(super) fn pair<'a>(
    spec: &'a StudySpec,
    names: &[String],
    outcomes: &[TrialSummary],
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
                1 => format!("there is only `{}`", one_line(&found[0].name)),
                2 => "both are the same".to_owned(),
                more => format!("{more} are named"),
            },
        }),
    }
}
