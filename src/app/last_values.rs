//! The last values of a tracked run's metrics, reported or logged.

use std::collections::{BTreeMap, BTreeSet};

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
    let logged = logged(reader, study, trials)?;
    for (trial, logged) in trials.iter_mut().zip(logged) {
        trial.last_metrics.0.extend(logged);
    }
    Ok(())
}

/// Gives all trials the last value of each of these metrics: tracked runs as above, trials of a
/// search what they logged of those that they did not report.
///
/// # Errors
/// The store failed.
pub fn take_named(
    reader: &dyn StorageReader,
    study: &StudySummary,
    metrics: &BTreeSet<String>,
    trials: &mut [Trial],
) -> Result<(), StorageError> {
    if metrics.is_empty() {
        return Ok(());
    }
    if study.spec.is_tracked() {
        return take_logged(reader, study, trials);
    }
    let has = |trial: &Trial| metrics.iter().all(|name| trial.last_metrics.get(name).is_some());
    if trials.iter().all(has) {
        return Ok(());
    }
    let logged = logged(reader, study, trials)?;
    for (trial, logged) in trials.iter_mut().zip(logged) {
        for (name, value) in logged.into_iter().filter(|(name, _)| metrics.contains(name)) {
            trial.last_metrics.0.entry(name).or_insert(value);
        }
    }
    Ok(())
}

/// The last values that each of these trials logged, by metric.
fn logged(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trials: &[Trial],
) -> Result<Vec<BTreeMap<String, f64>>, StorageError> {
    let numbers: Vec<TrialNumber> = trials.iter().map(|trial| trial.number).collect();
    let mut last: BTreeMap<TrialNumber, Vec<SeriesSummary>> = BTreeMap::new();
    for series in reader.series(study.id, &numbers)? {
        if !series.metric.starts_with(SYSTEM) {
            last.entry(series.trial).or_default().push(series);
        }
    }
    let own = SeriesAxis::from(study.spec.step);
    let mut of_trial = |trial: &Trial| {
        let mut series = last.remove(&trial.number).unwrap_or_default();
        // The preferred one is taken last.
        series.sort_by_key(|series| std::cmp::Reverse((series.axis != own, series.axis)));
        series.into_iter().map(|series| (series.metric, series.last_value)).collect()
    };
    Ok(trials.iter().map(&mut of_trial).collect())
}
