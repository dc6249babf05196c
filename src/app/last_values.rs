//! The last values of a tracked run's metrics, reported or logged.

use std::collections::BTreeMap;

use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::series::{SYSTEM, SeriesAxis, SeriesSummary};
use crate::study::trial::{Trial, TrialNumber};

/// Gives tracked runs the last value of each metric, whether it was reported or logged; of several
/// axes, that on the study's, else on the first. Trials of a search keep what they reported last,
/// which their limits are about.
///
/// # Errors
/// The store failed.
pub fn take_logged(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trials: &mut [Trial],
) -> Result<(), StorageError> {
    if !study.spec.is_tracked() {
        return Ok(());
    }
    let numbers: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
    let mut last: BTreeMap<TrialNumber, Vec<SeriesSummary>> = BTreeMap::new();
    for series in reader.series(study.id, &numbers)? {
        if !series.metric.starts_with(SYSTEM) {
            last.entry(series.trial).or_default().push(series);
        }
    }
    let own = SeriesAxis::from(study.spec.step);
    for trial in trials {
        let mut series = last.remove(&trial.number).unwrap_or_default();
        // The preferred one is taken last.
        series.sort_by_key(|series| std::cmp::Reverse((series.axis != own, series.axis)));
        let values = series.into_iter().map(|series| (series.metric, series.last_value));
        trial.last_metrics.0.extend(values);
    }
    Ok(())
}
