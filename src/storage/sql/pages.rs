//! Finds or counts the trials of a page; of the others, only the columns of the filter and the
//! order are read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::connection::Connection;

use super::column::{
    Cells, TRIALS_PER_STUDY, first, from_real, number_of, rows, to_limit, trial_id, trial_ids,
    value, values,
};
use super::fault::Fault;
use super::trials::{self, dimensions, param, param_value};
use super::{series, series_read};
use crate::storage::StudyId;
use crate::study::condition::{Measured, Needs, Statistic};
use crate::study::event::{Event, TrialEvent};
use crate::study::front;
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::query::{Filter, SortKey, SortPosition, TrialQuery};
use crate::study::series::SeriesClock;
use crate::study::spec::Objective;
use crate::study::time::Timestamp;
use crate::study::trial::{Note, Origin, Trial, TrialNumber, TrialState};

/// A page of trials.
pub(in crate::storage) fn page(
    connection: &dyn Connection,
    study: StudyId,
    query: &TrialQuery,
) -> Result<Vec<Trial>, Fault> {
    if let Some((first, last)) = range(connection, study, query)? {
        let mut page = trials::range(connection, study, first, last)?;
        if query.reverse {
            page.reverse();
        }
        return Ok(page);
    }
    trials::listed(connection, study, &ids(connection, study, query)?)
}

/// The numbers of the trials of a page.
pub(in crate::storage) fn numbers(
    connection: &dyn Connection,
    study: StudyId,
    query: &TrialQuery,
) -> Result<Vec<TrialNumber>, Fault> {
    let mut numbers: Vec<TrialNumber> = match range(connection, study, query)? {
        Some((first, last)) => (first..=last).map(number_of).collect(),
        None => return Ok(ids(connection, study, query)?.into_iter().map(number_of).collect()),
    };
    if query.reverse {
        numbers.reverse();
    }
    Ok(numbers)
}

fn ids(connection: &dyn Connection, study: StudyId, query: &TrialQuery) -> Result<Vec<i64>, Fault> {
    if query.limit == 0 {
        return Ok(Vec::new());
    }
    let is_by_value = query.sort == SortKey::Value;
    if query.filter.is_unconditional()
        && is_by_value
        && trials::objectives(connection, study)?.len() == 1
    {
        let direction = trials::direction(connection, study)?;
        let ids = best_ids(connection, study, direction, query)?;
        if u64::try_from(ids.len()).is_ok_and(|found| found == query.limit) {
            return Ok(ids);
        }
        // The page extends beyond the complete trials that keep all limits.
    }
    positions(connection, study, query)?
        .iter()
        .map(|position| trial_id(study, position.number()))
        .collect()
}

/// The sort positions of a page's trials, to merge them with those of other studies.
pub(in crate::storage) fn positions(
    connection: &dyn Connection,
    study: StudyId,
    query: &TrialQuery,
) -> Result<Vec<SortPosition>, Fault> {
    if query.limit == 0 {
        return Ok(Vec::new());
    }
    let objectives = trials::objectives(connection, study)?;
    let direction = objectives.first().map_or(Direction::Minimize, |first| first.direction);
    let ranks = match objectives.len() > 1 && query.sort == SortKey::Value {
        true => Some(ranks(connection, study, &objectives)?),
        false => None,
    };
    let mut needs = Needs::default();
    query.filter.add_needs(&mut needs);
    query.sort.add_needs(&mut needs);
    let mut positions: Vec<SortPosition> = Vec::new();
    Scan { connection, study, needs, states: query.filter.states() }.run(|trial, measured| {
        if query.filter.matches(trial, measured) {
            positions.push(match &ranks {
                Some(ranks) => {
                    let rank = ranks.get(&trial.number).copied().unwrap_or(f64::INFINITY);
                    let value = trial.value.map(|_| direction.loss(rank));
                    query.sort.position(direction, &Trial { value, ..trial.clone() })
                }
                None => query.sort.position(direction, trial),
            });
        }
    })?;
    Ok(cut(positions, query))
}

/// With several objectives, the ranks of complete trials that can be on the front: 0 is best.
fn ranks(
    connection: &dyn Connection,
    study: StudyId,
    objectives: &[Objective],
) -> Result<BTreeMap<TrialNumber, f64>, Fault> {
    let ranked = front::ranked(objectives, &trials::points(connection, study)?);
    Ok(ranked.into_iter().zip((0_u32..).map(f64::from)).collect())
}

/// The positions of the page; those before and after it are not sorted.
fn cut(mut positions: Vec<SortPosition>, query: &TrialQuery) -> Vec<SortPosition> {
    let begin = usize::try_from(query.offset).unwrap_or(usize::MAX);
    let end = begin.saturating_add(usize::try_from(query.limit).unwrap_or(usize::MAX));
    if begin >= positions.len() {
        return Vec::new();
    }
    let compare = |mine: &SortPosition, theirs: &SortPosition| mine.compare(theirs, query.reverse);
    if end < positions.len() {
        positions.select_nth_unstable_by(end, compare);
        positions.truncate(end);
    }
    if begin > 0 {
        positions.select_nth_unstable_by(begin, compare);
        positions.drain(..begin);
    }
    positions.sort_unstable_by(compare);
    positions
}

/// The first and the last id of a page of all trials by number, where numbers have no gaps. The
/// last is before the first where there are none. `None`: the page is not one range.
fn range(
    connection: &dyn Connection,
    study: StudyId,
    query: &TrialQuery,
) -> Result<Option<(i64, i64)>, Fault> {
    if !query.filter.is_all() || query.sort != SortKey::Number {
        return Ok(None);
    }
    let (least, most) = trial_ids(study);
    let removed = "SELECT 1 FROM removed_run WHERE trial_id BETWEEN ?1 AND ?2";
    if connection.exists(removed, [least, most])? {
        return Ok(None);
    }
    let newest = "SELECT max(id) FROM trial WHERE id BETWEEN ?1 AND ?2";
    let newest: Option<i64> = value(connection, newest, [least, most])?;
    let newest = newest.unwrap_or(least - 1);
    let (offset, length) = (to_limit(query.offset), to_limit(query.limit));
    Ok(Some(if query.reverse {
        let last = newest.saturating_sub(offset);
        (last.saturating_sub(length).saturating_add(1).max(least), last)
    } else {
        let first = least.saturating_add(offset);
        (first, first.saturating_add(length).saturating_sub(1).min(newest))
    }))
}

/// Whether an order is reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) enum Reverse {
    No,
    Yes,
}

/// Which complete trials that violate no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) enum Which {
    All,
    /// Those that are not hidden.
    Visible,
}

/// SQL for the complete trials of the study `?1` that violate no limit and whose value is not NaN,
/// the best first: as `v`, in the order of an index.
pub(in crate::storage) fn ranked(direction: Direction, reverse: Reverse, which: Which) -> String {
    let order =
        if (direction == Direction::Maximize) == (reverse == Reverse::No) { "DESC" } else { "ASC" };
    let condition = match which {
        Which::All => "",
        Which::Visible => " AND t.hidden = 0",
    };
    format!(
        "FROM trial_value v CROSS JOIN trial t ON t.id = v.trial_id
         WHERE v.idx = 0 AND v.trial_id / {TRIALS_PER_STUDY} = ?1 AND v.value IS NOT NULL AND \
         t.state = 'complete' AND t.violation IS NULL{condition} \
         ORDER BY v.value {order}, v.trial_id"
    )
}

/// The ids of a page of complete trials that violate no limit, by their values: NaN is worst. It
/// has fewer where it goes beyond them.
fn best_ids(
    connection: &dyn Connection,
    study: StudyId,
    direction: Direction,
    query: &TrialQuery,
) -> Result<Vec<i64>, Fault> {
    let which = if query.filter.is_all() { Which::All } else { Which::Visible };
    let worst = format!(
        "SELECT v.trial_id FROM trial_value v CROSS JOIN trial t ON t.id = v.trial_id
         WHERE v.idx = 0 AND v.trial_id / {TRIALS_PER_STUDY} = ?1 AND v.value IS NULL AND t.state \
         = 'complete' AND t.violation IS NULL{} ORDER BY v.trial_id LIMIT ?2 OFFSET ?3",
        if which == Which::Visible { " AND t.hidden = 0" } else { "" }
    );
    let reverse = if query.reverse { Reverse::Yes } else { Reverse::No };
    let others =
        format!("SELECT v.trial_id {} LIMIT ?2 OFFSET ?3", ranked(direction, reverse, which));
    let ids = |sql: &str, limit: u64, offset: u64| -> Result<Vec<i64>, Fault> {
        values(connection, sql, [study.0, to_limit(limit), to_limit(offset)])
    };
    if !query.reverse {
        return ids(&others, query.limit, query.offset);
    }
    let end = query.offset.saturating_add(query.limit);
    let nan = ids(&worst, end, 0)?;
    let known = nan.len() as u64;
    let mut page: Vec<i64> =
        nan.into_iter().skip(usize::try_from(query.offset).unwrap_or(usize::MAX)).collect();
    let missing = query.limit - (page.len() as u64).min(query.limit);
    page.extend(ids(&others, missing, query.offset.saturating_sub(known))?);
    Ok(page)
}

/// The number of trials that pass a filter.
pub(in crate::storage) fn count(
    connection: &dyn Connection,
    study: StudyId,
    filter: &Filter,
) -> Result<u64, Fault> {
    if filter.is_about_states_only() {
        let sql = format!(
            "SELECT count(*) FROM trial WHERE study_id = ?1{}",
            state_condition(filter.states().as_deref())
        );
        let count = first(connection, &sql, [study.0], |row| {
            Cells::of(row, || format!("table `trial`, study {}", study.0)).integer(0)
        })?;
        return Ok(count.unwrap_or(0));
    }
    let mut needs = Needs::default();
    filter.add_needs(&mut needs);
    let mut count = 0;
    Scan { connection, study, needs, states: filter.states() }
        .run(|trial, measured| count += u64::from(filter.matches(trial, measured)))?;
    Ok(count)
}

/// SQL for being in one of these states; the words are literals of the store, not input.
fn state_condition(states: Option<&[TrialState]>) -> String {
    let Some(states) = states else { return String::new() };
    let words: Vec<String> = states.iter().map(|state| format!("'{}'", state.as_str())).collect();
    format!(" AND state IN ({})", words.join(", "))
}

/// Notes and tags.
type Marks = BTreeMap<TrialNumber, (Vec<Note>, Vec<String>)>;

/// A scan of a study's trials that reads only the needed columns.
struct Scan<'a> {
    connection: &'a dyn Connection,
    study: StudyId,
    needs: Needs,
    states: Option<Vec<TrialState>>,
}

impl Scan<'_> {
    /// Calls `take` with each trial by number, filled as far as needed.
    fn run(self, mut take: impl FnMut(&Trial, &Measured)) -> Result<(), Fault> {
        let (first, last) = trial_ids(self.study);
        let names = dimensions(self.connection, self.study)?;
        let wanted: Vec<(&str, Vec<i64>)> = match self.needs.all_params {
            true => Vec::new(),
            false => self
                .needs
                .params
                .iter()
                .map(|name| (name.as_str(), indices(&names, name)))
                .collect(),
        };
        let statistics: Vec<&(String, Statistic)> = self.needs.series.iter().collect();
        let sql = self.sql(&wanted)?;
        let mut all_params = match self.needs.all_params {
            true => self.all_params(&names)?,
            false => BTreeMap::new(),
        };
        let mut marks = if self.needs.marks { self.marks()? } else { Marks::new() };
        let mut summaries = match self.needs.summary {
            true => summaries(self.connection, self.study)?,
            false => BTreeMap::new(),
        };
        let mut objectives = match self.needs.metrics {
            true => values_by_name(self.connection, self.study)?,
            false => BTreeMap::new(),
        };
        self.connection.for_each(&sql, [first, last], |row| {
            let id: i64 = row.get(0)?;
            let cells = Cells::of(row, || format!("table `trial`, id {id}"));
            let mut trial = sparse(&cells, &self.needs)?;
            if let Some(own) = objectives.remove(&trial.number) {
                let last = trial.last_metrics.iter().map(|(name, value)| (name.to_owned(), value));
                trial.last_metrics = last.chain(own).collect();
            }
            for (column, (name, _)) in (FIXED_COLUMNS..).zip(&wanted) {
                if let Some(value) = cells.optional(column, param_value)? {
                    trial.params.insert(*name, value);
                }
            }
            if let Some(params) = all_params.remove(&trial.number) {
                trial.params = params;
            }
            if let Some(marks) = marks.get_mut(&trial.number) {
                (trial.notes, trial.tags) = std::mem::take(marks);
            }
            let mut measured = Measured::default();
            for (column, statistic) in (FIXED_COLUMNS + wanted.len()..).zip(&statistics) {
                if let Some(value) = cells.get::<Option<f64>>(column)? {
                    measured.series.insert((*statistic).clone(), value);
                }
            }
            measured.summary = summaries.remove(&trial.number).unwrap_or_default();
            take(&trial, &measured);
            Ok(())
        })
    }

    /// All parameters of each trial.
    fn all_params(
        &self,
        names: &BTreeMap<i64, String>,
    ) -> Result<BTreeMap<TrialNumber, Params>, Fault> {
        let sql = "SELECT trial_id, dimension, value FROM param WHERE trial_id BETWEEN ?1 AND ?2";
        let mut found: BTreeMap<TrialNumber, Params> = BTreeMap::new();
        self.connection.for_each(sql, trial_ids(self.study), |row| {
            let (name, value) = param(row, names)?;
            found.entry(number_of(row.get(0)?)).or_default().insert(name, value);
            Ok(())
        })?;
        Ok(found)
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

    fn sql(&self, params: &[(&str, Vec<i64>)]) -> Result<String, Fault> {
        let column = |wanted: bool, name: &'static str| if wanted { name } else { "NULL" };
        let Needs { value, metrics, words, origin, .. } = self.needs;
        let mut sql = format!(
            "SELECT t.id, t.state, t.last_step, t.last_value, t.attempts, t.failures, \
             t.started_at, t.busy_micros, {}, {}, {}, {}, {}, t.violation, t.hidden, {}",
            column(value, "v.trial_id"),
            column(value, "v.value"),
            column(words, "t.device"),
            column(words, "t.reason"),
            column(metrics, "t.last_metrics"),
            column(origin, "CASE WHEN t.origin LIKE '{\"tracked\"%' THEN t.origin END"),
        );
        for (_, indices) in params {
            let indices: Vec<String> = indices.iter().map(i64::to_string).collect();
            let _ = write!(
                sql,
                ", (SELECT p.value FROM param p WHERE p.trial_id = t.id AND p.dimension IN ({}))",
                indices.join(", ")
            );
        }
        for (metric, statistic) in &self.needs.series {
            let value = match series::metric_id(self.connection, metric)? {
                Some(metric) => series_value(self.connection, self.study, metric, *statistic)?,
                None => "NULL".to_owned(),
            };
            let _ = write!(sql, ", {value}");
        }
        let join =
            if value { "LEFT JOIN trial_value v ON v.trial_id = t.id AND v.idx = 0" } else { "" };
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

/// SQL for a value of a series of the trial `t`; NULL if there is none, and for NaN. Metrics that
/// were only reported are in the table of reports.
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
             {of_trial}) AS every)"
        )
    };
    Ok(match statistic {
        Statistic::Min => extreme("min"),
        Statistic::Max => extreme("max"),
        // Of several clocks the study's, else the first in order of preference.
        Statistic::Last => {
            let own = series_read::study_clock(connection, study)?;
            let order = SeriesClock::ALL.map(SeriesClock::as_str).join(" ");
            format!(
                "CASE WHEN EXISTS (SELECT 1 FROM series WHERE {of_trial} AND count > 0) THEN \
                 (SELECT last_value FROM series WHERE {of_trial} AND count > 0 \
                 ORDER BY clock = '{own}' DESC, instr('{order}', clock) LIMIT 1) ELSE \
                 (SELECT value FROM report WHERE {of_trial} ORDER BY step DESC LIMIT 1) END"
            )
        }
    })
}

/// The summaries of tracked runs; the last value of each name. They are found by the prefix of
/// their JSON, so that a long journal is not parsed.
fn summaries(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<BTreeMap<TrialNumber, BTreeMap<String, serde_json::Value>>, Fault> {
    let mut summaries: BTreeMap<TrialNumber, BTreeMap<_, _>> = BTreeMap::new();
    let begin = "{\"type\":\"summary_recorded\",";
    let sql = "SELECT seq, body FROM event WHERE study_id = ?1 AND substr(body, 1, length(?2)) = \
        ?2 ORDER BY seq";
    let events = rows(connection, sql, (study.0, begin), |row| {
        let seq: i64 = row.get(0)?;
        Cells::of(row, || format!("table `event`, seq {seq}")).json::<Event>(1)
    })?;
    for event in events {
        if let Event::Trial(number, TrialEvent::SummaryRecorded { summary }) = event {
            summaries.entry(number).or_default().extend(summary);
        }
    }
    Ok(summaries)
}

/// Number of columns before those of parameters.
const FIXED_COLUMNS: usize = 16;

/// All versions of a parameter.
fn indices(names: &BTreeMap<i64, String>, name: &str) -> Vec<i64> {
    names.iter().filter(|(_, known)| *known == name).map(|(index, _)| *index).collect()
}

/// A trial with the columns of the row; its curve has the last point only.
fn sparse<N: Fn() -> String>(cells: &Cells<'_, N>, needs: &Needs) -> Result<Trial, Fault> {
    let number = number_of(cells.get(0)?);
    let last_step = cells.optional_integer(2)?;
    let last_value = from_real(cells.get(3)?);
    let is_tracked = cells.get::<Option<String>>(15)?.is_some();
    let origin = if is_tracked { cells.json(15)? } else { Origin::Enqueued(0) };
    Ok(Trial {
        state: cells.state(1)?,
        value: cells.value(8)?,
        violation: cells.get(13)?,
        hidden: cells.get(14)?,
        curve: last_step.map(|step| (step, last_value)).into_iter().collect(),
        last_metrics: if needs.metrics { cells.json(12)? } else { Default::default() },
        attempts: cells.integer(4)?,
        failures: cells.integer(5)?,
        devices: cells.optional(10, str::parse)?,
        reason: cells.get(11)?,
        started: cells.get::<Option<i64>>(6)?.map(Timestamp),
        busy_micros: cells.get(7)?,
        ..Trial::new(number, Params::new(), origin, Timestamp(0))
    })
}
