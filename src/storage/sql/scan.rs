//! Scans the trials of a study for filters and orders: only the columns that they need are read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;

use super::column::{Cells, from_real, number_of, rows, trial_ids};
use super::fault::Fault;
use super::trials::{self, Dimensions, dimensions, param, param_value};
use super::{series, series_read, shown_params};
use crate::storage::{StudyId, Summaries};
use crate::study::condition::{Measured, Needs, Statistic, TrialField};
use crate::study::event::{Event, RecordEvent, Seq, TrialEvent};
use crate::study::metric::Metrics;
use crate::study::params::{Params, Value};
use crate::study::series::SeriesAxis;
use crate::study::spec::Objective;
use crate::study::time::Timestamp;
use crate::study::trial::{Note, Origin, Trial, TrialNumber, TrialState};

/// A scan of a study's trials that reads only the needed columns.
pub(super) struct Scan<'a> {
    pub connection: &'a dyn Connection,
    pub study: StudyId,
    /// What is read of each trial.
    pub needs: Needs,
    /// Trials in other states are left out.
    pub states: Option<Vec<TrialState>>,
    /// The time spent on trials with an open attempt, instead of that in ended ones.
    pub spent: &'a BTreeMap<TrialNumber, Duration>,
}

/// Notes and tags.
type Marks = BTreeMap<TrialNumber, (Vec<Note>, Vec<String>)>;

/// A parameter of a trial.
type NamedValue<'a> = (TrialNumber, &'a Arc<str>, Value);

/// What one column of a scan, or two, are read into.
enum Column<'a> {
    Field(TrialField),
    /// The last values of metrics.
    Metrics,
    /// A parameter, and all its versions.
    Param(&'a str, Vec<i64>),
    Series(&'a (String, Statistic)),
}

impl Scan<'_> {
    /// Calls `take` with each trial by number, filled as far as needed.
    pub fn run(self, mut take: impl FnMut(&Trial, &Measured)) -> Result<(), Fault> {
        let (first, last) = trial_ids(self.study);
        let names = dimensions(self.connection, self.study)?;
        let columns = self.columns(&names);
        let sql = self.sql(&columns)?;
        let mut all_params = match self.needs.all_params {
            true => self.all_params(&names)?,
            false => Vec::new(),
        }
        .into_iter()
        .peekable();
        let mut marks = if self.needs.marks { self.marks()? } else { Marks::new() };
        let mut summaries = match self.needs.summary {
            true => summaries(self.connection, self.study, Seq::default())?,
            false => BTreeMap::new(),
        };
        let mut objectives = match self.needs.metrics.is_empty() {
            true => BTreeMap::new(),
            false => values_by_name(self.connection, self.study)?,
        };
        let replaced = match self.needs.all_params || !self.needs.params.is_empty() {
            true => shown_params::replaced(self.connection, self.study, [first, last])?,
            false => BTreeMap::new(),
        };
        // Used again for each row, so that most rows allocate nothing.
        let mut trial =
            Trial::new(TrialNumber(0), Params::new(), Origin::Enqueued(0), Timestamp(0));
        let mut measured = Measured::default();
        self.connection.for_each(&sql, [first, last], |row| {
            let id: i64 = row.get(0)?;
            trial.number = number_of(id);
            let cells = Cells::of(row, || format!("table `trial`, id {id}"));
            let mut place = 1;
            for column in &columns {
                place += self.read(column, &cells, place, &mut trial, &mut measured)?;
            }
            if let Some(spent) = self.spent.get(&trial.number) {
                trial.busy_micros = i64::try_from(spent.as_micros()).unwrap_or(i64::MAX);
            }
            if let Some(own) = objectives.remove(&trial.number) {
                trial.last_metrics.0.extend(own);
            }
            if self.needs.all_params {
                trial.params.clear();
                while let Some((number, name, value)) =
                    all_params.next_if(|(number, ..)| *number <= trial.number)
                {
                    if number == trial.number {
                        trial.params.insert(Arc::clone(name), value);
                    }
                }
            }
            if let Some(params) = replaced.get(&trial.number) {
                self.replace_params(&mut trial, params);
            }
            if self.needs.marks {
                (trial.notes, trial.tags) = marks.remove(&trial.number).unwrap_or_default();
            }
            if self.needs.summary {
                measured.summary = summaries.remove(&trial.number).unwrap_or_default();
            }
            take(&trial, &measured);
            Ok(())
        })
    }

    /// Gives a trial the parameters that its value was measured with, as far as they are needed.
    fn replace_params(&self, trial: &mut Trial, params: &Params) {
        if self.needs.all_params {
            trial.params = params.clone();
            return;
        }
        for name in &self.needs.params {
            match params.get(name) {
                Some(value) => trial.params.insert(name.as_str(), value.clone()),
                None => drop(trial.params.remove(name)),
            }
        }
    }

    fn columns(&self, names: &Dimensions) -> Vec<Column<'_>> {
        let Needs { fields, all_params, params, metrics, series, .. } = &self.needs;
        let fields = fields.iter().map(|field| Column::Field(*field));
        let metrics = (!metrics.is_empty()).then_some(Column::Metrics);
        let params = params
            .iter()
            .filter(|_| !all_params)
            .map(|name| Column::Param(name.as_str(), indices(names, name)));
        fields.chain(metrics).chain(params).chain(series.iter().map(Column::Series)).collect()
    }

    /// Reads a column at its place into the trial; returns how many columns of the row it has.
    fn read<N: Fn() -> String>(
        &self,
        column: &Column<'_>,
        cells: &Cells<'_, N>,
        place: usize,
        trial: &mut Trial,
        measured: &mut Measured,
    ) -> Result<usize, Fault> {
        match column {
            Column::Field(field) => return read_field(*field, cells, place, trial),
            Column::Metrics => {
                let read = |json: &str| Metrics::named(json, &self.needs.metrics);
                trial.last_metrics = cells.given(place, cells.optional(place, read)?)?;
            }
            Column::Param(name, _) => match cells.optional(place, param_value)? {
                Some(value) => trial.params.insert(*name, value),
                None => drop(trial.params.remove(name)),
            },
            Column::Series(key) => {
                let is_there = cells.get::<i64>(place + 1)? != 0;
                match cells.get::<Option<f64>>(place)?.or(is_there.then_some(f64::NAN)) {
                    Some(value) => drop(measured.series.insert((*key).clone(), value)),
                    None => drop(measured.series.remove(key)),
                }
                return Ok(2);
            }
        }
        Ok(1)
    }

    /// All parameters of each trial, by number.
    fn all_params<'n>(&self, names: &'n Dimensions) -> Result<Vec<NamedValue<'n>>, Fault> {
        let sql = "SELECT trial_id, dimension, value FROM param WHERE trial_id BETWEEN ?1 AND ?2 \
            ORDER BY trial_id";
        rows(self.connection, sql, trial_ids(self.study), |row| param(row, names))
    }

    /// Notes and tags of the trials that have any.
    fn marks(&self) -> Result<Marks, Fault> {
        let mut marks = Marks::new();
        let notes = "SELECT trial_id, at, text FROM trial_note WHERE trial_id BETWEEN ?1 AND ?2 \
            ORDER BY trial_id, seq";
        for (id, note) in rows(self.connection, notes, trial_ids(self.study), |row| {
            Ok((row.get(0)?, Note { at: Timestamp(row.get(1)?), text: row.get(2)? }))
        })? {
            marks.entry(number_of(id)).or_default().0.push(note);
        }
        let tags = "SELECT trial_id, tag FROM trial_tag WHERE trial_id BETWEEN ?1 AND ?2 \
            ORDER BY trial_id, tag";
        for (id, tag) in rows(self.connection, tags, trial_ids(self.study), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })? {
            marks.entry(number_of(id)).or_default().1.push(tag);
        }
        Ok(marks)
    }

    fn sql(&self, columns: &[Column<'_>]) -> Result<String, Fault> {
        let mut sql = "SELECT t.id".to_owned();
        for column in columns {
            match column {
                Column::Field(field) => _ = write!(sql, ", {}", columns_of(*field)),
                Column::Metrics => sql.push_str(", t.last_metrics"),
                Column::Param(_, indices) => {
                    let indices: Vec<String> = indices.iter().map(i64::to_string).collect();
                    let _ = write!(
                        sql,
                        ", (SELECT p.value FROM param p WHERE p.trial_id = t.id AND p.dimension \
                         IN ({}))",
                        indices.join(", ")
                    );
                }
                Column::Series((metric, statistic)) => {
                    let value = match series::metric_id(self.connection, metric)? {
                        Some(id) => series_value(self.connection, self.study, id, *statistic)?,
                        None => "NULL, 0".to_owned(),
                    };
                    let _ = write!(sql, ", {value}");
                }
            }
        }
        let join = if self.needs.fields.contains(&TrialField::Value) {
            "LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0"
        } else {
            ""
        };
        let states = state_condition(self.states.as_deref());
        // Uses the index if few trials are in these states; otherwise it costs more than it saves.
        let few = self
            .states
            .iter()
            .flatten()
            .all(|state| !matches!(state, TrialState::Complete | TrialState::Pruned));
        let study = if self.states.is_some() && few {
            format!(" AND t.study_id = {}", self.study.0)
        } else {
            String::new()
        };
        let _ = write!(
            sql,
            " FROM trial t {join} WHERE t.id BETWEEN ?1 AND ?2{study}{states} ORDER BY t.id"
        );
        Ok(sql)
    }
}

/// SQL for being in one of these states; the words are literals of the store, not input.
pub(super) fn state_condition(states: Option<&[TrialState]>) -> String {
    let Some(states) = states else { return String::new() };
    let words: Vec<String> = states.iter().map(|state| format!("'{}'", state.as_str())).collect();
    format!(" AND state IN ({})", words.join(", "))
}

/// With several objectives, their values of each trial: those of a complete one, else the last
/// reports, which need not be the last report of the trial.
fn values_by_name(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<BTreeMap<TrialNumber, BTreeMap<String, f64>>, Fault> {
    let mut found: BTreeMap<TrialNumber, BTreeMap<String, f64>> = BTreeMap::new();
    let objectives = trials::objectives(connection, study)?;
    if objectives.len() < 2 {
        return Ok(found);
    }
    let (first, last) = trial_ids(study);
    for (index, Objective { metric, .. }) in objectives.iter().enumerate() {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        let id = series::metric_id(connection, metric)?;
        let reported = "SELECT r.trial_id, r.value FROM report r \
            JOIN (SELECT trial_id, max(step) AS step FROM report \
            WHERE trial_id BETWEEN ?1 AND ?2 AND metric_id = ?3 GROUP BY trial_id) AS newest \
            ON r.trial_id = newest.trial_id AND r.step = newest.step WHERE r.metric_id = ?3";
        let ended =
            "SELECT trial_id, value FROM trial_value WHERE trial_id BETWEEN ?1 AND ?2 AND idx = ?3";
        for (sql, key) in id.map(|id| (reported, id)).into_iter().chain([(ended, index)]) {
            for (trial, value) in rows(connection, sql, [first, last, key], |row| {
                Ok((row.get::<i64>(0)?, from_real(row.get(1)?)))
            })? {
                found.entry(number_of(trial)).or_default().insert(metric.clone(), value);
            }
        }
    }
    Ok(found)
}

/// SQL for a value of a series of the trial `t`, NULL if there is none and for NaN, and for whether
/// its last value is NaN if that is NULL. Metrics that were only reported are in the table of
/// reports.
fn series_value(
    connection: &dyn Connection,
    study: StudyId,
    metric: i64,
    statistic: Statistic,
) -> Result<String, Fault> {
    let of_trial = format!("trial_id = t.id AND metric_id = {metric}");
    let extreme = |function: &str| {
        format!(
            "(SELECT {function}(v) FROM (SELECT c.{function} AS v FROM series s JOIN series_chunk \
             c ON c.series_id = s.id WHERE s.{of_trial} UNION ALL SELECT value FROM report WHERE \
             {of_trial}) AS every), 0"
        )
    };
    Ok(match statistic {
        Statistic::Min => extreme("min"),
        Statistic::Max => extreme("max"),
        // Of several axes the study's, else the first in order of preference.
        Statistic::Last => {
            let own = series_read::study_axis(connection, study)?;
            let order = SeriesAxis::ALL.map(SeriesAxis::as_str).join(" ");
            let in_series = format!("EXISTS (SELECT 1 FROM series WHERE {of_trial} AND count > 0)");
            format!(
                "CASE WHEN {in_series} THEN \
                 (SELECT last_value FROM series WHERE {of_trial} AND count > 0 \
                 ORDER BY clock = '{own}' DESC, instr('{order}', clock) LIMIT 1) ELSE \
                 (SELECT value FROM report WHERE {of_trial} ORDER BY step DESC LIMIT 1) END, \
                 CAST(CASE WHEN {in_series} OR EXISTS (SELECT 1 FROM report WHERE {of_trial}) \
                 THEN 1 ELSE 0 END AS BIGINT)"
            )
        }
    })
}

/// The summaries of trials; the last value of each name. They are found by the prefix of
/// their JSON, so that a long journal is not parsed.
pub(in crate::storage) fn summaries(
    connection: &dyn Connection,
    study: StudyId,
    after: Seq,
) -> Result<Summaries, Fault> {
    let mut summaries = Summaries::new();
    let begin = "{\"type\":\"summary_recorded\",";
    let sql = "SELECT seq, body FROM event WHERE study_id = ?1 AND seq > ?2 AND \
        substr(body, 1, length(?3)) = ?3 ORDER BY seq";
    let events = rows(connection, sql, (study.0, after.0, begin), |row| {
        let seq: i64 = row.get(0)?;
        Cells::of(row, || format!("table `event`, seq {seq}")).json::<Event>(1)
    })?;
    for event in events {
        if let Event::Trial(number, TrialEvent::Record(RecordEvent::SummaryRecorded { summary })) =
            event
        {
            summaries.entry(number).or_default().extend(summary);
        }
    }
    Ok(summaries)
}

/// All versions of a parameter.
fn indices(names: &Dimensions, name: &str) -> Vec<i64> {
    names.iter().filter(|(_, known)| ***known == *name).map(|(index, _)| *index).collect()
}

/// The columns of a field.
fn columns_of(field: TrialField) -> &'static str {
    match field {
        TrialField::State => "t.state",
        TrialField::Value => "v.trial_id, v.value",
        TrialField::Violation => "t.violation",
        TrialField::Hidden => "t.hidden",
        TrialField::LastReport => "t.last_step, t.last_value",
        TrialField::Created => "t.created_at",
        TrialField::Started => "t.started_at",
        TrialField::Seconds => "t.busy_micros",
        TrialField::Attempts => "t.attempts",
        TrialField::Failures => "t.failures",
        TrialField::Device => "t.device",
        TrialField::Reason => "t.reason",
        TrialField::Tracked => "CASE WHEN t.origin LIKE '{\"tracked\"%' THEN t.origin END",
    }
}

/// Reads a field from its columns, which begin at `place`; returns their number. Of the curve, the
/// last point is read.
fn read_field<N: Fn() -> String>(
    field: TrialField,
    cells: &Cells<'_, N>,
    place: usize,
    trial: &mut Trial,
) -> Result<usize, Fault> {
    match field {
        TrialField::State => trial.state = cells.state(place)?,
        TrialField::Value => {
            trial.value = cells.value(place)?;
            return Ok(2);
        }
        TrialField::Violation => trial.violation = cells.get(place)?,
        TrialField::Hidden => trial.hidden = cells.get(place)?,
        TrialField::LastReport => {
            trial.curve.clear();
            if let Some(step) = cells.optional_integer(place)? {
                trial.curve.push((step, from_real(cells.get(place + 1)?)));
            }
            return Ok(2);
        }
        TrialField::Created => trial.created = Timestamp(cells.get(place)?),
        TrialField::Started => trial.started = cells.get::<Option<i64>>(place)?.map(Timestamp),
        TrialField::Seconds => trial.busy_micros = cells.get(place)?,
        TrialField::Attempts => trial.attempts = cells.integer(place)?,
        TrialField::Failures => trial.failures = cells.integer(place)?,
        TrialField::Device => trial.devices = cells.optional(place, str::parse)?,
        TrialField::Reason => {
            let reason = cells.text(place)?;
            match (&mut trial.reason, reason) {
                (Some(own), Some(reason)) => reason.clone_into(own),
                (own, reason) => *own = reason.map(str::to_owned),
            }
        }
        TrialField::Tracked => {
            trial.origin = cells.optional_json(place)?.unwrap_or(Origin::Enqueued(0));
        }
    }
    Ok(1)
}
