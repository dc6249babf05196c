//! The columns of a table of studies.

use std::time::Duration;

use crate::report::progress::Progress;
use crate::report::table::{Column, Columns};
use crate::report::wording::{StudyStatus, metric_names, one_line};
use crate::storage::StudySummary;

/// The columns of a table of studies.
pub fn columns(
    studies: &[StudySummary],
    state: &dyn Fn(&StudySummary) -> StudyStatus,
) -> Vec<Column> {
    let trials = |study: &StudySummary| {
        let progress =
            Progress::new(&study.spec, study.search_counts(), Duration::ZERO, Duration::ZERO);
        match progress.of {
            Some(of) if progress.done > of => format!("{} of {of}", progress.done),
            Some(of) => format!("{}/{of}", progress.done),
            None => progress.done.to_string(),
        }
    };
    Columns::of(studies)
        .left("study", |study| one_line(&study.spec.name))
        .left("state", |study| state(study).as_str())
        .right("trials", trials)
        .metric("best", |study| study.best.map(|(_, value)| value))
        .right("trial", |study| {
            study.best_trial().map_or_else(String::new, |best| best.to_string())
        })
        .left("metric", |study| metric_names(&study.spec))
        .left("goal", |study| {
            let words = study.spec.objectives.iter().map(|one| one.direction.as_str());
            words.collect::<Vec<_>>().join(", ")
        })
        .end()
}
