//! Reads Optuna's SQLite databases (`optuna.storages.RDBStorage`; its tables are those of
//! `optuna/storages/_rdb/models.py`, schema version 12 and those before it that have them).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::sqlite::is_open_here;
use crate::study::metric::Direction;
use crate::study::time::Timestamp;

/// Timeout of waiting for another program's transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a database cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OptunaError {
    /// An error of SQLite.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// The error that SQLite reported.
        source: rusqlite::Error,
    },
    /// It is not a database of Optuna.
    #[error("{} is not a database of Optuna: it has no table `{table}`", path.display())]
    NotOptuna {
        /// The database.
        path: PathBuf,
        /// The table.
        table: &'static str,
    },
    /// It is a store of hpsearch.
    #[error("{} is a store of hpsearch", path.display())]
    OwnStore {
        /// The database.
        path: PathBuf,
    },
}

/// A study of Optuna.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptunaStudy {
    /// Its name.
    pub name: String,
    /// Its directions, one for each objective.
    pub directions: Vec<Direction>,
    /// The names of its metrics (`set_metric_names`), as JSON.
    pub metric_names: Option<String>,
    /// User attributes: names and JSON.
    pub attributes: BTreeMap<String, String>,
    /// Its trials in their order.
    pub trials: Vec<OptunaTrial>,
}

/// A trial of Optuna.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OptunaTrial {
    /// Its number.
    pub number: u64,
    /// Its state as Optuna names it: `COMPLETE`, `PRUNED`, `FAIL`, `RUNNING` or `WAITING`.
    pub state: String,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Names, internal values (the index of a choice), and distributions as JSON.
    pub params: Vec<(String, f64, String)>,
    /// Its values, one for each objective.
    pub values: Vec<f64>,
    /// Steps and intermediate values.
    pub reports: Vec<(i64, f64)>,
    /// Constraints: `constraints`, the list of a sampler's `constraints_func`, and
    /// `constraints:NAME` of each `set_constraint`, with their JSON.
    pub constraints: BTreeMap<String, String>,
    /// User attributes: names and JSON.
    pub attributes: BTreeMap<String, String>,
}

/// All studies of a database, by name.
///
/// # Errors
/// It cannot be read, or is not a database of Optuna.
pub fn read(path: &Path) -> Result<Vec<OptunaStudy>, OptunaError> {
    if is_open_here(path) {
        return Err(OptunaError::OwnStore { path: path.to_owned() });
    }
    read_database(path).map_err(|source| OptunaError::Sqlite { path: path.to_owned(), source })?
}

fn read_database(path: &Path) -> rusqlite::Result<Result<Vec<OptunaStudy>, OptunaError>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    // A consistent snapshot, whatever Optuna writes meanwhile.
    let connection = connection.transaction()?;
    for table in ["studies", "study_directions", "trials", "trial_params", "trial_values"] {
        let sql = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
        let count: i64 = connection.query_row(sql, [table], |row| row.get(0))?;
        if count == 0 {
            return Ok(Err(OptunaError::NotOptuna { path: path.to_owned(), table }));
        }
    }
    let mut studies = Vec::new();
    let sql = "SELECT study_id, study_name FROM studies ORDER BY study_name";
    let mut named = connection.prepare(sql)?;
    let rows = named.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
    for row in rows {
        let (id, name) = row?;
        studies.push(study(&connection, id, name)?);
    }
    Ok(Ok(studies))
}

fn study(connection: &Connection, id: i64, name: String) -> rusqlite::Result<OptunaStudy> {
    let sql = "SELECT direction FROM study_directions WHERE study_id = ?1 ORDER BY objective";
    let directions = all(connection, sql, id, |row| {
        Ok(match row.get::<_, String>(0)?.as_str() {
            "MAXIMIZE" => Direction::Maximize,
            _ => Direction::Minimize,
        })
    })?;
    let sql = "SELECT key, value_json FROM study_user_attributes WHERE study_id = ?1";
    let attributes = all(connection, sql, id, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let sql = "SELECT value_json FROM study_system_attributes WHERE study_id = ?1 AND key = \
        'study:metric_names'";
    let metric_names = all(connection, sql, id, |row| row.get(0))?.pop();
    // Its times are in the machine's time zone, without an offset.
    let moment = |column: &str| {
        format!(
            "CAST(strftime('%s', {column}, 'utc') AS INTEGER) * 1000000 + \
             CAST(substr(substr({column}, 21) || '000000', 1, 6) AS INTEGER)"
        )
    };
    let sql = format!(
        "SELECT trial_id, coalesce(number, trial_id), state, {}, {} FROM trials \
         WHERE study_id = ?1 ORDER BY 2, 1",
        moment("datetime_start"),
        moment("datetime_complete"),
    );
    let mut trials: BTreeMap<i64, OptunaTrial> = BTreeMap::new();
    let mut order = Vec::new();
    for (key, trial) in all(connection, &sql, id, |row| {
        let moment = |index| row.get::<_, Option<i64>>(index);
        let trial = OptunaTrial {
            number: row.get::<_, i64>(1)?.unsigned_abs(),
            state: row.get(2)?,
            started: moment(3)?.map(Timestamp),
            ended: moment(4)?.map(Timestamp),
            ..OptunaTrial::default()
        };
        Ok((row.get::<_, i64>(0)?, trial))
    })? {
        order.push(key);
        trials.insert(key, trial);
    }
    let of = "IN (SELECT trial_id FROM trials WHERE study_id = ?1)";
    let sql = format!(
        "SELECT trial_id, param_name, param_value, distribution_json FROM trial_params \
         WHERE trial_id {of} ORDER BY trial_id, param_id"
    );
    for (key, param) in all(connection, &sql, id, |row| {
        Ok((row.get::<_, i64>(0)?, (row.get(1)?, row.get(2)?, row.get(3)?)))
    })? {
        trials.entry(key).and_modify(|trial| trial.params.push(param));
    }
    let sql = format!(
        "SELECT trial_id, {} FROM trial_values WHERE trial_id {of} ORDER BY trial_id, objective",
        number(connection, "trial_values", "value", "value_type")?
    );
    for (key, value) in all(connection, &sql, id, |row| Ok((row.get(0)?, real(row, 1)?)))? {
        trials.entry(key).and_modify(|trial| trial.values.push(value));
    }
    let table = "trial_intermediate_values";
    let sql = format!(
        "SELECT trial_id, {}, step FROM {table} WHERE trial_id {of} ORDER BY trial_id, step",
        number(connection, table, "intermediate_value", "intermediate_value_type")?
    );
    for (key, report) in
        all(connection, &sql, id, |row| Ok((row.get(0)?, (row.get(2)?, real(row, 1)?))))?
    {
        trials.entry(key).and_modify(|trial| trial.reports.push(report));
    }
    let sql =
        format!("SELECT trial_id, key, value_json FROM trial_user_attributes WHERE trial_id {of}");
    for (key, (name, json)) in
        all(connection, &sql, id, |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?
    {
        trials.entry(key).and_modify(|trial| drop(trial.attributes.insert(name, json)));
    }
    let sql = format!(
        "SELECT trial_id, key, value_json FROM trial_system_attributes WHERE trial_id {of} \
         AND (key = 'constraints' OR key LIKE 'constraints:%')"
    );
    for (key, (name, json)) in
        all(connection, &sql, id, |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?
    {
        trials.entry(key).and_modify(|trial| drop(trial.constraints.insert(name, json)));
    }
    let trials = order.into_iter().filter_map(|key| trials.remove(&key)).collect();
    let attributes = attributes.into_iter().collect();
    Ok(OptunaStudy { name, directions, metric_names, attributes, trials })
}

fn all<T>(
    connection: &Connection,
    sql: &str,
    study: i64,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(sql)?.query_map([study], read)?.collect()
}

/// A number with its kind: infinities and NaN are marked in another column, which older databases
/// lack.
fn number(
    connection: &Connection,
    table: &str,
    column: &str,
    kind: &str,
) -> rusqlite::Result<String> {
    let sql = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
    let has_kind: i64 = connection.query_row(sql, [table, kind], |row| row.get(0))?;
    Ok(match has_kind {
        0 => column.to_owned(),
        _ => format!(
            "CASE {kind} WHEN 'INF_POS' THEN 9e999 WHEN 'INF_NEG' THEN -9e999 \
             WHEN 'NAN' THEN NULL ELSE {column} END"
        ),
    })
}

/// NaN is NULL.
fn real(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<f64> {
    Ok(row.get::<_, Option<f64>>(index)?.unwrap_or(f64::NAN))
}
