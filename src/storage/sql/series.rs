//! Writes series: sorts points into chunks, each call inside the transaction it is given.

use super::connection::{Connection, params};

use super::chunk::{CAPACITY, decode, encode};
use super::column::{first, from_real, rows, to_real, value, values};
use super::fault::Fault;
use crate::study::series::{LoggedPoint, Pixel, Point, SeriesAxis};
use crate::study::time::Timestamp;
use crate::study::trial::AttemptNumber;

/// A series by its trial's id, its metric's and its axis.
#[derive(Clone, Copy, Debug)]
pub(in crate::storage) struct SeriesKey {
    pub trial: i64,
    pub metric: i64,
    pub axis: SeriesAxis,
}

/// A report as a point, and the attempt that reported it.
pub(in crate::storage) struct Report {
    pub point: Point,
    attempt: i64,
}

/// The row of a series.
struct SeriesRow {
    id: i64,
    attempt: i64,
    last_step: Option<f64>,
}

/// The id of a series; `None` if nothing was logged to it.
pub(in crate::storage) fn find(
    connection: &dyn Connection,
    key: SeriesKey,
) -> Result<Option<i64>, Fault> {
    Ok(row(connection, key)?.map(|row| row.id))
}

fn row(connection: &dyn Connection, key: SeriesKey) -> Result<Option<SeriesRow>, Fault> {
    let sql = "SELECT id, attempt, last_step FROM series WHERE trial_id = ?1 AND metric_id = ?2 \
        AND clock = ?3";
    first(connection, sql, params![key.trial, key.metric, key.axis.as_str()], |row| {
        Ok(SeriesRow { id: row.get(0)?, attempt: row.get(1)?, last_step: row.get(2)? })
    })
}

/// Appends an attempt's logged points. Points of an attempt that is not the latest are dropped;
/// points of a later attempt supersede earlier ones from their first step on. `reported` returns
/// the reports with which a new series starts.
pub(in crate::storage) fn write(
    connection: &dyn Connection,
    key: SeriesKey,
    attempt: AttemptNumber,
    points: &[LoggedPoint],
    reported: impl FnOnce() -> Result<Vec<Report>, Fault>,
) -> Result<(), Fault> {
    let (attempt, found) = (i64::from(attempt.0), row(connection, key)?);
    if found.as_ref().is_some_and(|row| row.attempt > attempt) {
        return Ok(());
    }
    let continues = match &found {
        Some(row) if row.attempt == attempt => true,
        _ => is_resumed(connection, key.trial, attempt)?,
    };
    let reports = if found.is_none() { reported()? } else { Vec::new() };
    let counted_from = match &found {
        Some(row) => row.last_step.filter(|_| continues),
        None => {
            let own = |report: &&Report| continues || report.attempt == attempt;
            reports.iter().rfind(own).map(|report| report.point.step)
        }
    };
    let points = in_order(points, counted_from.unwrap_or(0.0));
    let Some(first) = points.first() else { return Ok(()) };
    let (id, before) = match &found {
        Some(row) => (row.id, row.attempt),
        None => (create(connection, key, attempt)?, attempt),
    };
    let reports: Vec<Point> = reports.into_iter().map(|report| report.point).collect();
    merge(connection, id, &reports)?;
    if before < attempt {
        truncate(connection, id, first.step)?;
    }
    merge(connection, id, &points)?;
    summarise(connection, id, attempt)
}

/// Whether an attempt continues from a checkpoint.
fn is_resumed(connection: &dyn Connection, trial: i64, attempt: i64) -> Result<bool, Fault> {
    let sql = "SELECT 1 FROM attempt WHERE trial_id = ?1 AND attempt = ?2 AND resume_step IS NOT \
        NULL";
    connection.exists(sql, [trial, attempt])
}

fn create(connection: &dyn Connection, key: SeriesKey, attempt: i64) -> Result<i64, Fault> {
    let sql = "INSERT INTO series (trial_id, metric_id, clock, attempt, count) VALUES (?1, ?2, \
        ?3, ?4, 0)";
    connection.insert(sql, "id", params![key.trial, key.metric, key.axis.as_str(), attempt])
}

/// Logged points by step; the last of one step counts.
fn in_order(logged: &[LoggedPoint], mut counted: f64) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::with_capacity(logged.len());
    for LoggedPoint { step, value, at } in logged {
        // Normalises -0 to 0.
        let step = step.unwrap_or(counted + 1.0) + 0.0;
        if step.is_finite() {
            counted = counted.max(step);
            points.push(Point { step, value: *value, at: *at });
        }
    }
    if !points.is_sorted_by(|one, next| one.step < next.step) {
        points.sort_by(|one, next| one.step.total_cmp(&next.step));
        points.dedup_by(|later, earlier| {
            let is_same = later.step == earlier.step;
            if is_same {
                *earlier = *later;
            }
            is_same
        });
    }
    points
}

/// Removes all series of a trial.
pub(in crate::storage) fn remove_all(connection: &dyn Connection, trial: i64) -> Result<(), Fault> {
    let series = "(SELECT id FROM series WHERE trial_id = ?1)";
    for sql in [
        format!(
            "DELETE FROM series_block WHERE id IN (SELECT block FROM series_chunk WHERE series_id \
             IN {series})"
        ),
        format!("DELETE FROM series_chunk WHERE series_id IN {series}"),
        "DELETE FROM series WHERE trial_id = ?1".to_owned(),
    ] {
        connection.execute(&sql, [trial])?;
    }
    Ok(())
}

/// Removes the points from a step on.
fn truncate(connection: &dyn Connection, id: i64, from: f64) -> Result<(), Fault> {
    let sql = "DELETE FROM series_block WHERE id IN (SELECT block FROM series_chunk WHERE \
        series_id = ?1 AND first_step >= ?2)";
    connection.execute(sql, params![id, from])?;
    let sql = "DELETE FROM series_chunk WHERE series_id = ?1 AND first_step >= ?2";
    connection.execute(sql, params![id, from])?;
    if let Some(chunk) = chunk_at(connection, id, from)?
        && chunk.last_step >= from
    {
        let mut points = read_chunk(connection, id, chunk.first_step)?;
        points.retain(|point| point.step < from);
        put(connection, id, &points)?;
    }
    let sql = "UPDATE series SET count = \
        (SELECT coalesce(CAST(sum(count) AS BIGINT), 0) FROM series_chunk WHERE series_id = ?1) \
        WHERE id = ?1";
    connection.execute(sql, [id])?;
    Ok(())
}

struct Chunk {
    first_step: f64,
    last_step: f64,
    count: i64,
}

/// The last chunk that begins at a step or before it.
fn chunk_at(connection: &dyn Connection, id: i64, step: f64) -> Result<Option<Chunk>, Fault> {
    let sql = "SELECT first_step, last_step, count FROM series_chunk WHERE series_id = ?1 AND \
        first_step <= ?2 ORDER BY first_step DESC LIMIT 1";
    first(connection, sql, params![id, step], |row| {
        Ok(Chunk { first_step: row.get(0)?, last_step: row.get(1)?, count: row.get(2)? })
    })
}

/// Merges points into their chunks, replacing those of the same steps.
fn merge(connection: &dyn Connection, id: i64, points: &[Point]) -> Result<(), Fault> {
    let (mut rest, mut added) = (points, 0);
    while let Some(next) = rest.first() {
        let chunk = chunk_at(connection, id, next.step)?;
        let following = "SELECT min(first_step) FROM series_chunk WHERE series_id = ?1 AND \
            first_step > ?2";
        let following: Option<f64> = value(connection, following, params![id, next.step])?;
        let end =
            following.map_or(rest.len(), |end| rest.partition_point(|point| point.step < end));
        let (group, later) = rest.split_at(end);
        added += match chunk {
            // A chunk that has room, or spans the first of them.
            Some(chunk) if chunk.last_step >= next.step || !is_full(&chunk) => {
                let held = read_chunk(connection, id, chunk.first_step)?;
                let merged = merged(held, group);
                put_all(connection, id, &merged)?;
                length(&merged) - chunk.count
            }
            _ => {
                put_all(connection, id, group)?;
                length(group)
            }
        };
        rest = later;
    }
    let sql = "UPDATE series SET count = count + ?2 WHERE id = ?1";
    connection.execute(sql, params![id, added])?;
    Ok(())
}

fn length(points: &[Point]) -> i64 {
    i64::try_from(points.len()).unwrap_or(i64::MAX)
}

fn is_full(chunk: &Chunk) -> bool {
    usize::try_from(chunk.count).is_ok_and(|count| count >= CAPACITY)
}

/// Both merged by step; the newer point of one step counts.
fn merged(held: Vec<Point>, newer: &[Point]) -> Vec<Point> {
    let Some(begin) = newer.first() else { return held };
    let mut held = held;
    // The common case: they follow.
    let mut overlap = held.split_off(held.partition_point(|point| point.step < begin.step));
    if overlap.is_empty() {
        held.extend_from_slice(newer);
        return held;
    }
    let is_replaced =
        |point: &Point| newer.binary_search_by(|other| other.step.total_cmp(&point.step)).is_ok();
    overlap.retain(|point| !is_replaced(point));
    overlap.extend_from_slice(newer);
    overlap.sort_by(|one, next| one.step.total_cmp(&next.step));
    held.append(&mut overlap);
    held
}

fn put_all(connection: &dyn Connection, id: i64, points: &[Point]) -> Result<(), Fault> {
    points.chunks(CAPACITY).try_for_each(|chunk| put(connection, id, chunk))
}

/// Writes a chunk, replacing the one that begins at the same step.
fn put(connection: &dyn Connection, id: i64, points: &[Point]) -> Result<(), Fault> {
    let Some(all) = Pixel::of(points) else { return Ok(()) };
    let sql = "SELECT block FROM series_chunk WHERE series_id = ?1 AND first_step = ?2";
    let block: Option<i64> = first(connection, sql, params![id, all.first], |row| row.get(0))?;
    let block: i64 = match block {
        Some(block) => {
            let sql = "UPDATE series_block SET points = ?2 WHERE id = ?1";
            connection.execute(sql, params![block, encode(points)])?;
            block
        }
        None => {
            let sql = "INSERT INTO series_block (points) VALUES (?1)";
            connection.insert(sql, "id", params![encode(points)])?
        }
    };
    let sql = "INSERT INTO series_chunk (series_id, first_step, last_step, count, min, max, \
        last_value, last_at, block) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (series_id, first_step) DO UPDATE SET last_step = excluded.last_step, count = \
        excluded.count, min = excluded.min, max = excluded.max, last_value = excluded.last_value, \
        last_at = excluded.last_at, block = excluded.block";
    connection.execute(
        sql,
        params![
            id,
            all.first,
            all.last,
            length(points),
            to_real(all.min),
            to_real(all.max),
            to_real(all.value),
            all.at.0,
            block
        ],
    )?;
    Ok(())
}

/// The points of the chunk that begins at a step.
pub(in crate::storage) fn read_chunk(
    connection: &dyn Connection,
    id: i64,
    first_step: f64,
) -> Result<Vec<Point>, Fault> {
    let sql = "SELECT b.points FROM series_chunk c JOIN series_block b ON b.id = c.block WHERE \
        c.series_id = ?1 AND c.first_step = ?2";
    let place = || format!("table `series_chunk`, series {id}, step {first_step}");
    let points = first(connection, sql, params![id, first_step], |row| {
        decode(row.bytes(0)?).map_err(|why| Fault::corrupt(place(), why))
    })?;
    points.ok_or_else(|| Fault::corrupt(place(), "there is no such chunk"))
}

/// Updates the summary in the row of a series.
fn summarise(connection: &dyn Connection, id: i64, attempt: i64) -> Result<(), Fault> {
    let sql = "UPDATE series SET attempt = ?2,
          first_step = (SELECT min(first_step) FROM series_chunk WHERE series_id = ?1),
          (last_step, last_value) = (SELECT last_step, last_value FROM series_chunk
            WHERE series_id = ?1 ORDER BY first_step DESC LIMIT 1)
        WHERE id = ?1";
    connection.execute(sql, [id, attempt])?;
    Ok(())
}

/// The reports of a metric by a trial, by step.
pub(in crate::storage) fn reported(
    connection: &dyn Connection,
    trial: i64,
    metric: i64,
) -> Result<Vec<Report>, Fault> {
    let sql = "SELECT step, value, at, attempt FROM report WHERE trial_id = ?1 AND metric_id = ?2 \
        ORDER BY step";
    rows(connection, sql, [trial, metric], |row| {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let step = row.get::<i64>(0)? as f64;
        let point = Point { step, value: from_real(row.get(1)?), at: Timestamp(row.get(2)?) };
        Ok(Report { point, attempt: row.get(3)? })
    })
}

/// The id of a metric; `None` if it was never reported or logged.
pub(in crate::storage) fn metric_id(
    connection: &dyn Connection,
    name: &str,
) -> Result<Option<i64>, Fault> {
    Ok(values(connection, "SELECT id FROM metric WHERE name = ?1", [name])?.pop())
}
