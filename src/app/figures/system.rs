//! The system metrics of a trial.

use super::{FigureError, FigureOptions};
use crate::app::curves::{By, points};
use crate::report::figure::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::SYSTEM;
use crate::study::trial::TrialNumber;

/// The system metrics of a trial, a figure per metric.
pub(super) fn system(
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
