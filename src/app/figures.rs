//! The figures of studies, for the terminal, files, reports and pages.

mod axes;
mod curves;
mod error;
mod kind;
mod objectives;
mod outcomes;
mod system;
mod thinning;

use std::collections::BTreeMap;

use crate::app::compared;
use crate::app::groups::of_study;
use crate::report::fate::{Fate, fates};
use crate::report::figure::Figure;
use crate::report::figure::rungs::rungs;
use crate::report::figure::timeline::timeline;
use crate::runner;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::event::{CheckpointEvent, Event, Seq, TrialEvent};
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;
pub use curves::{GroupedSeries, group_figures, grouped_series, series_of};
use curves::{best_trials, curves_figure, figures_of_groups, shared_curves};
pub use error::FigureError;
pub use kind::{FigureKind, FigureOptions};
use objectives::of_objectives;
use outcomes::{dimensions, of_outcomes, outcomes, pair, shared};
use system::system;
pub use thinning::thin;

/// A figure of one study, or of several.
#[derive(Clone, Debug)]
pub struct StudyFigure {
    /// The study; `None`: several.
    pub study: Option<String>,
    /// The figure.
    pub figure: Figure<'static>,
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
    if let (FigureKind::Curves, Some(by), false) = (kind, &options.group_by, is_several) {
        return figures_of_groups(reader, studies, by, options);
    }
    if studies.len() > 1 && kind.is_shared() && options.overlay && !is_several {
        return match kind {
            FigureKind::Curves => shared_curves(reader, studies, options),
            _ => shared(reader, studies, kind, options),
        };
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
        FigureKind::Curves if options.group_by.is_some() => {
            let groups = options.group_by.as_ref().map(|by| of_study(reader, study, by));
            let series = groups.transpose()?.map(|one| grouped_series(reader, study, one, options));
            series.transpose()?;
            Ok(())
        }
        FigureKind::Curves if options.names_series() => {
            let numbers = best_trials(reader, study, options.lines)?;
            let metric = options.metric.as_ref().unwrap_or(&study.spec.objective().metric);
            series_of(&reader.series(study.id, &numbers)?, metric, options.axis).map(|_| ())
        }
        FigureKind::Pareto | FigureKind::Hypervolume if !study.spec.has_several_objectives() => {
            Err(FigureError::OneObjective { study: study.spec.name.clone() })
        }
        FigureKind::Slice => {
            dimensions(&compared::read(reader, study)?.spec, &options.params).map(|_| ())
        }
        FigureKind::Contour => {
            let outcomes = outcomes(reader, study)?;
            let compared = compared::compared(study, &outcomes);
            pair(&compared.spec, &options.params, &outcomes).map(|_| ())
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
