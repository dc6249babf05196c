//! The figures of a study of several objectives.

use super::curves::curves_figure;
use super::outcomes::{of_outcomes, outcomes};
use super::{FigureError, FigureKind, FigureOptions, of_one};
use crate::analysis::importance;
use crate::report::figure::{Figure, front};
use crate::storage::{StorageReader, StudySummary};
use crate::study::metric::Score;
use crate::study::outcome::TrialSummary;
use crate::study::spec::{Objective, StudySpec};

/// The figures of a study of several objectives: of the front, or of each objective in turn, or of
/// the one that `metric` names.
pub(super) fn of_objectives(
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
    outcomes: &[TrialSummary],
    index: usize,
    objective: &Objective,
) -> (StudySummary, Vec<TrialSummary>) {
    let outcomes: Vec<TrialSummary> =
        outcomes.iter().map(|outcome| outcome.by_objective(index)).collect();
    let score = |value: f64| Score::new(objective.direction, value);
    let feasible = outcomes.iter().filter(|outcome| outcome.violation.is_none());
    let valued = feasible.filter_map(|outcome| Some((outcome.number, outcome.value?)));
    let best = valued.filter(|(_, value)| !value.is_nan()).min_by_key(|(_, value)| score(*value));
    let spec = StudySpec { objectives: vec![objective.clone()], ..study.spec.clone() };
    (StudySummary { spec, best, front: None, ..study.clone() }, outcomes)
}
