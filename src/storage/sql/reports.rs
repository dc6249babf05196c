//! Reads the reports of trials.

use super::column::{Cells, first, point, rows, trial_id, trial_ids, values};
use super::connection::Connection;
use super::fault::Fault;
use crate::storage::{StudyId, TrialCurve};
use crate::study::trial::{AttemptNumber, TrialNumber};

/// All reports of one trial: metric, step and value, in that order.
pub(in crate::storage) fn reports(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<(String, u64, f64)>, Fault> {
    let Ok(id) = trial_id(study, trial) else { return Ok(Vec::new()) };
    let sql = "SELECT m.name, r.step, r.value FROM report r JOIN metric m ON m.id = r.metric_id \
        WHERE r.trial_id = ?1 ORDER BY m.name, r.step";
    rows(connection, sql, [id], |row| {
        let (step, value) = point(row, 1, study, trial)?;
        Ok((row.get(0)?, step, value))
    })
}

/// Which attempt reported each metric of one trial last: metric, step and attempt, in that order.
pub(in crate::storage) fn reporters(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<(String, u64, AttemptNumber)>, Fault> {
    let Ok(id) = trial_id(study, trial) else { return Ok(Vec::new()) };
    let sql = "SELECT m.name, r.step, r.attempt FROM report r JOIN metric m ON m.id = r.metric_id \
        WHERE r.trial_id = ?1 ORDER BY m.name, r.step";
    rows(connection, sql, [id], |row| {
        let cells = Cells::of(row, || format!("table `report`, study {}, trial {trial}", study.0));
        Ok((cells.get(0)?, cells.integer(1)?, AttemptNumber(cells.integer(2)?)))
    })
}

/// A metric's reports by some trials.
pub(in crate::storage) fn curves(
    connection: &dyn Connection,
    study: StudyId,
    metric: &str,
    trials: &[TrialNumber],
) -> Result<Vec<TrialCurve>, Fault> {
    let ids = "SELECT id FROM metric WHERE name = ?1";
    let metric: Option<i64> = values(connection, ids, [metric])?.pop();
    let sql = "SELECT step, value FROM report WHERE trial_id = ?1 AND metric_id = ?2 ORDER BY step";
    let curve = |number: &TrialNumber| {
        let points = match (metric, trial_id(study, *number)) {
            (Some(metric), Ok(id)) => {
                rows(connection, sql, [id, metric], |row| point(row, 0, study, *number))?
            }
            _ => Vec::new(),
        };
        Ok((*number, points))
    };
    trials.iter().map(curve).collect()
}

/// The pairs of trial and metric with reports, of the first trials of a study, and NULL once after
/// those of each trial.
const METRICS_OF_TRIALS: &str = "WITH RECURSIVE pair(trial_id, metric_id) AS (
      SELECT id, (SELECT min(metric_id) FROM report WHERE trial_id = of.id) FROM
        (SELECT id FROM trial WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3) AS of
      UNION ALL
      SELECT trial_id, (SELECT min(metric_id) FROM report WHERE trial_id = pair.trial_id AND \
        metric_id > pair.metric_id) FROM pair WHERE metric_id IS NOT NULL)";

/// The names of the metrics that a study's trials reported.
///
/// Reports are ordered by trial, and the metrics of a store are those of all its studies. Few that
/// are not among the metrics of the first trials are looked for in all trials; instead of many,
/// mostly of other studies, each trial is asked for its own.
pub(in crate::storage) fn metrics(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<String>, Fault> {
    let (begin, end) = trial_ids(study);
    let sample = format!(
        "{METRICS_OF_TRIALS} SELECT count(DISTINCT metric_id), count(metric_id), count(DISTINCT \
         trial_id), (SELECT count(*) FROM metric) FROM pair"
    );
    let counted = first(connection, &sample, (begin, end, 20_i64), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get::<i64>(2)?, row.get::<i64>(3)?))
    })?;
    let (found, pairs, trials, all): (i64, i64, i64, i64) = counted.unwrap_or_default();
    if all - found <= pairs / trials.max(1) {
        let sql = "SELECT name FROM metric m WHERE EXISTS (SELECT 1 FROM trial t CROSS JOIN report \
            r ON r.trial_id = t.id WHERE t.id BETWEEN ?1 AND ?2 AND r.metric_id = m.id) ORDER BY \
            name";
        return values(connection, sql, (begin, end));
    }
    let sql = format!(
        "{METRICS_OF_TRIALS} SELECT name FROM metric WHERE id IN (SELECT metric_id FROM pair) \
         ORDER BY name"
    );
    values(connection, &sql, (begin, end, i64::MAX))
}
