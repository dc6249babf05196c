//! Reads series: their list, their points, their pixels in a chart, and their consistency.

use std::ops::{ControlFlow, RangeInclusive};

use super::connection::{Connection, Params as _, Row, params};

use super::chunk::decode;
use super::column::{Cells, from_real, number_of, rows, trial_id, trial_ids, value, values};
use super::fault::Fault;
use super::series::{SeriesKey, find, metric_id, read_chunk, reported};
use crate::storage::{SeriesFault, StudyId};
use crate::study::series::{Pixel, Pixels, Point, SeriesAxis, SeriesSummary};
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// The axis of a study's reports.
pub(in crate::storage) fn study_axis(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<SeriesAxis, Fault> {
    let word: String = value(
        connection,
        "SELECT json_extract(spec, '$.step') FROM study WHERE id = ?1",
        [study.0],
    )?;
    let unit = [StepUnit::Epoch, StepUnit::Step, StepUnit::Samples];
    let unit = unit.into_iter().find(|unit| unit.as_str() == word);
    unit.map(SeriesAxis::from).ok_or_else(|| {
        Fault::corrupt(format!("table `study`, study {}", study.0), "its axis is unknown")
    })
}

/// The series of some trials, in the order of the trials, then by metric and axis. A metric that
/// was only reported is a series on the study's axis.
pub(in crate::storage) fn list(
    connection: &dyn Connection,
    study: StudyId,
    trials: &[TrialNumber],
) -> Result<Vec<SeriesSummary>, Fault> {
    let reports = study_axis(connection, study)?;
    let sql = "SELECT m.name, s.clock, s.count, s.first_step, s.last_step, s.last_value FROM \
        series s JOIN metric m ON m.id = s.metric_id WHERE s.trial_id = ?1 AND s.count > 0
      UNION ALL
      SELECT m.name, ?2, r.count, r.first, r.last, (SELECT value FROM report WHERE trial_id = ?1 \
        AND metric_id = r.metric_id AND step = r.last) FROM
        (SELECT metric_id, count(*) AS count, min(step) AS first, max(step) AS last FROM report
         WHERE trial_id = ?1 GROUP BY metric_id) r
        JOIN metric m ON m.id = r.metric_id
        WHERE NOT EXISTS (SELECT 1 FROM series WHERE trial_id = ?1 AND metric_id = r.metric_id \
        AND clock = ?2)";
    let mut listed = Vec::new();
    for trial in trials {
        let Ok(id) = trial_id(study, *trial) else { continue };
        let mut of_trial = rows(connection, sql, params![id, reports.as_str()], |row| {
            let cells = Cells::of(row, || format!("table `series`, trial {trial}"));
            Ok(SeriesSummary {
                trial: *trial,
                metric: cells.get(0)?,
                axis: cells.given(1, cells.word(1, SeriesAxis::from_word)?)?,
                count: cells.integer(2)?,
                first: row.get(3)?,
                last: row.get(4)?,
                last_value: from_real(row.get(5)?),
            })
        })?;
        of_trial.sort_by(|one, other| (&one.metric, one.axis).cmp(&(&other.metric, other.axis)));
        listed.append(&mut of_trial);
    }
    Ok(listed)
}

/// Where the points of a series are.
enum PointSource {
    /// In the chunks of the series with this id.
    Chunks(i64),
    /// In the table of reports.
    Reports(Vec<Point>),
    /// Nowhere: there is no such series.
    Nowhere,
}

fn point_source(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
    metric: &str,
    axis: SeriesAxis,
) -> Result<PointSource, Fault> {
    let (Ok(trial), Some(metric)) = (trial_id(study, trial), metric_id(connection, metric)?) else {
        return Ok(PointSource::Nowhere);
    };
    Ok(match find(connection, SeriesKey { trial, metric, axis })? {
        Some(id) => PointSource::Chunks(id),
        None if axis == study_axis(connection, study)? => {
            let reports = reported(connection, trial, metric)?.into_iter();
            PointSource::Reports(reports.map(|report| report.point).collect())
        }
        None => PointSource::Nowhere,
    })
}

/// The chunks that overlap a range: from the last one that begins at or before its start.
const CHUNKS_OF_RANGE: &str = "FROM series_chunk WHERE series_id = ?1 AND first_step <= ?3 \
    AND first_step >= coalesce((SELECT max(first_step) FROM series_chunk WHERE series_id = ?1 \
    AND first_step <= ?2), ?2) ORDER BY first_step";

/// The points of a series whose steps are in a range, in their order.
pub(in crate::storage) fn points(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
    metric: &str,
    axis: SeriesAxis,
    range: RangeInclusive<f64>,
) -> Result<Vec<Point>, Fault> {
    let id = match point_source(connection, study, trial, metric, axis)? {
        PointSource::Nowhere => return Ok(Vec::new()),
        PointSource::Reports(mut points) => {
            points.retain(|point| range.contains(&point.step));
            return Ok(points);
        }
        PointSource::Chunks(id) => id,
    };
    let points = "(SELECT points FROM series_block WHERE id = block)";
    let sql = format!("SELECT first_step, {points} {CHUNKS_OF_RANGE}");
    let mut points = Vec::new();
    connection.for_each(&sql, params![id, range.start(), range.end()], |row| {
        let decoded = decode(row.bytes(1)?).map_err(|why| {
            let step = row.get::<f64>(0).unwrap_or(f64::NAN);
            Fault::corrupt(format!("table `series_chunk`, series {id}, step {step}"), why)
        })?;
        points.extend(decoded.into_iter().filter(|point| range.contains(&point.step)));
        Ok(())
    })?;
    Ok(points)
}

/// The pixels of a series in a range, from its first to its last step there. Only chunks that span
/// several pixels are decoded.
pub(in crate::storage) fn pixels(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
    metric: &str,
    axis: SeriesAxis,
    range: RangeInclusive<f64>,
    count: usize,
) -> Result<Vec<Pixel>, Fault> {
    let id = match point_source(connection, study, trial, metric, axis)? {
        PointSource::Nowhere => return Ok(Vec::new()),
        PointSource::Reports(mut points) => {
            points.retain(|point| range.contains(&point.step));
            let (Some(first), Some(last)) = (points.first(), points.last()) else {
                return Ok(Vec::new());
            };
            let mut pixels = Pixels::new(first.step, last.step, count);
            points.iter().for_each(|point| pixels.add(&Pixel::from(point)));
            return Ok(pixels.filled());
        }
        PointSource::Chunks(id) => id,
    };
    let sql = format!(
        "SELECT first_step, last_step, count, min, max, last_value, last_at {CHUNKS_OF_RANGE}"
    );
    let chunks = rows(connection, &sql, params![id, range.start(), range.end()], |row| {
        let cells = Cells::of(row, || format!("table `series_chunk`, series {id}"));
        Ok(Pixel {
            first: row.get(0)?,
            last: row.get(1)?,
            count: cells.integer(2)?,
            min: from_real(row.get(3)?),
            max: from_real(row.get(4)?),
            value: from_real(row.get(5)?),
            at: Timestamp(row.get(6)?),
        })
    })?;
    let (Some(begin), Some(end)) = (chunks.first(), chunks.last()) else { return Ok(Vec::new()) };
    let (first, last) = (begin.first.max(*range.start()), end.last.min(*range.end()));
    let mut pixels = Pixels::new(first, last, count);
    for chunk in &chunks {
        let is_inside = range.contains(&chunk.first) && range.contains(&chunk.last);
        if is_inside && pixels.index(chunk.first) == pixels.index(chunk.last) {
            pixels.add(chunk);
            continue;
        }
        let points = read_chunk(connection, id, chunk.first)?;
        let inside = points.iter().filter(|point| range.contains(&point.step));
        inside.for_each(|point| pixels.add(&Pixel::from(point)));
    }
    Ok(pixels.filled())
}

/// The first disagreement between a study's series and their rows.
pub(in crate::storage) fn check(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Option<SeriesFault>, Fault> {
    let (low, high) = trial_ids(study);
    let sql = "SELECT s.id, s.trial_id, m.name, s.clock, s.count, s.first_step, s.last_step, \
        s.last_value FROM series s JOIN metric m ON m.id = s.metric_id WHERE s.trial_id BETWEEN \
        ?1 AND ?2 ORDER BY s.trial_id, m.name, s.clock";
    type Stored = (i64, i64, String, String, [String; 4]);
    let all: Vec<Stored> = rows(connection, sql, [low, high], |row| {
        let count: i64 = row.get(4)?;
        let facts =
            [count.to_string(), optional(row.get(5)?), optional(row.get(6)?), real(row.get(7)?)];
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, facts))
    })?;
    for (id, trial, metric, axis, stored) in all {
        let fault = |table, field: &str, stored: &str, now: String| SeriesFault {
            trial: number_of(trial),
            table,
            row: format!("{metric} by {axis}"),
            field: field.to_owned(),
            stored: stored.to_owned(),
            now,
        };
        let (count, ends) = match check_chunks(connection, id)? {
            Ok(found) => found,
            Err((step, field, stored, now)) => {
                let row = format!("{metric} by {axis}, chunk from {step}");
                return Ok(Some(SeriesFault { row, ..fault("series_chunk", field, &stored, now) }));
            }
        };
        let now = [
            count.to_string(),
            optional(ends.map(|[first, _]| first.step)),
            optional(ends.map(|[_, last]| last.step)),
            real(ends.map(|[_, last]| last.value).filter(|value| !value.is_nan())),
        ];
        let fields = ["count", "first_step", "last_step", "last_value"];
        for ((field, stored), now) in fields.into_iter().zip(&stored).zip(now) {
            if *stored != now {
                return Ok(Some(fault("series", field, stored, now)));
            }
        }
    }
    Ok(None)
}

/// A chunk's step, the wrong column, its stored value, and the value computed from the points.
type ChunkFault = (f64, &'static str, String, String);

/// The number of points in a series, and the first and last; or the first fault.
#[expect(clippy::type_complexity, reason = "read once, above")]
fn check_chunks(
    connection: &dyn Connection,
    id: i64,
) -> Result<Result<(usize, Option<[Point; 2]>), ChunkFault>, Fault> {
    let sql = "SELECT first_step, last_step, count, min, max, last_value, last_at, \
        (SELECT points FROM series_block WHERE id = block) FROM series_chunk WHERE series_id = ?1 \
        ORDER BY first_step";
    let (mut count, mut ends): (usize, Option<[Point; 2]>) = (0, None);
    let mut fault: Option<ChunkFault> = None;
    connection.query(sql, &[id].cells(), &mut |row| match check_chunk(
        row,
        ends.map(|[_, last]| last),
    )? {
        Ok(points) => {
            count += points.len();
            let (Some(begin), Some(end)) = (points.first(), points.last()) else {
                return Ok(ControlFlow::Continue(()));
            };
            ends = Some([ends.map_or(*begin, |[first, _]| first), *end]);
            Ok(ControlFlow::Continue(()))
        }
        Err(found) => {
            fault = Some(found);
            Ok(ControlFlow::Break(()))
        }
    })?;
    Ok(fault.map_or(Ok((count, ends)), Err))
}

/// The points of a chunk that begins after the point before; or its fault.
fn check_chunk(
    row: &dyn Row,
    before: Option<Point>,
) -> Result<Result<Vec<Point>, ChunkFault>, Fault> {
    let step: f64 = row.get(0)?;
    let points = match decode(row.bytes(7)?) {
        Ok(points) => points,
        Err(why) => return Ok(Err((step, "points", "damaged".to_owned(), why.to_owned()))),
    };
    let (Some(all), Some(begin)) = (Pixel::of(&points), points.first()) else {
        return Ok(Err((step, "points", "none".to_owned(), "at least one".to_owned())));
    };
    let stored_count: i64 = row.get(2)?;
    let at = Timestamp(row.get(6)?);
    let facts = [
        ("first_step", step.to_string(), all.first.to_string()),
        ("last_step", row.get::<f64>(1)?.to_string(), all.last.to_string()),
        ("count", stored_count.to_string(), all.count.to_string()),
        ("min", real(row.get(3)?), number(all.min)),
        ("max", real(row.get(4)?), number(all.max)),
        ("last_value", real(row.get(5)?), number(all.value)),
        ("last_at", at.0.to_string(), all.at.0.to_string()),
    ];
    if let Some((field, stored, now)) = facts.into_iter().find(|(_, stored, now)| stored != now) {
        return Ok(Err((step, field, stored, now)));
    }
    let follows = before.is_none_or(|last| last.step < begin.step)
        && points.is_sorted_by(|one, next| one.step < next.step);
    if !follows {
        let stored = "out of order".to_owned();
        return Ok(Err((step, "points", stored, "steps that ascend".to_owned())));
    }
    Ok(Ok(points))
}

/// A column that is NULL for NaN.
fn real(column: Option<f64>) -> String {
    number(from_real(column))
}

/// SQLite's columns drop the sign of a zero.
fn number(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { value.to_string() }
}

fn optional(column: Option<f64>) -> String {
    column.map_or_else(|| "nothing".to_owned(), |step| step.to_string())
}

/// The origin of a trial's seconds: the start of its first attempt.
pub(in crate::storage) fn began(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Option<Timestamp>, Fault> {
    let Ok(id) = trial_id(study, trial) else { return Ok(None) };
    let sql = "SELECT min(started_at) FROM attempt WHERE trial_id = ?1";
    let began: Option<i64> = value(connection, sql, [id])?;
    Ok(began.map(Timestamp))
}

/// The names of the metrics that a study's trials logged.
pub(in crate::storage) fn series_names(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<String>, Fault> {
    let sql = "SELECT name FROM metric WHERE id IN (SELECT DISTINCT metric_id FROM series WHERE \
        trial_id BETWEEN ?1 AND ?2) ORDER BY name";
    values(connection, sql, trial_ids(study))
}
