//! Values in the store's columns: NaN is NULL, unsigned integers are signed, the rest is JSON.

use std::ops::ControlFlow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connection::{Cell, Connection, FromCell, Params, Row};
use super::fault::Fault;
use crate::storage::StudyId;
use crate::study::trial::{TrialNumber, TrialState};

/// Distance between the first trial ids of neighbouring studies: more trials than fit in memory.
pub(in crate::storage) const TRIALS_PER_STUDY: i64 = 1_000_000_000;

/// JSON for a column.
pub(in crate::storage) fn to_json<T: Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(Fault::unstorable)
}

/// A number for a REAL column. NaN becomes NULL here and nowhere else; infinities stay; SQLite
/// drops the sign of `-0.0`.
pub(in crate::storage) fn to_real(value: f64) -> Option<f64> {
    if value.is_nan() { None } else { Some(value) }
}

/// The number of a REAL column: NULL means NaN.
pub(in crate::storage) fn from_real(column: Option<f64>) -> f64 {
    column.unwrap_or(f64::NAN)
}

/// An unsigned integer for an INTEGER column; an error beyond 2^63 - 1.
pub(in crate::storage) fn to_integer(value: u64) -> Result<i64, Fault> {
    i64::try_from(value).map_err(|_| {
        Fault::unstorable(format!("{value} is larger than the store's integers (2^63 - 1)"))
    })
}

/// A LIMIT or OFFSET.
pub(in crate::storage) fn to_limit(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A JSON column's content.
pub(in crate::storage) fn json<T: DeserializeOwned>(
    text: &str,
    place: impl FnOnce() -> String,
) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::corrupt(place(), error))
}

/// The result of `read` for each row of a query.
pub(in crate::storage) fn rows<T>(
    connection: &dyn Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&dyn Row) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut all = Vec::new();
    connection.for_each(sql, params, |row| {
        all.push(read(row)?);
        Ok(())
    })?;
    Ok(all)
}

/// The result of `read` for the first row of a query, if there is one.
pub(in crate::storage) fn first<T>(
    connection: &dyn Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&dyn Row) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let mut found = None;
    connection.query(sql, &params.cells(), &mut |row| {
        found = Some(read(row)?);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// The first column of each row of a query.
pub(in crate::storage) fn values<T: FromCell>(
    connection: &dyn Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<T>, Fault> {
    rows(connection, sql, params, |row| row.get(0))
}

/// The first column of the one row of a query.
pub(in crate::storage) fn value<T: FromCell>(
    connection: &dyn Connection,
    sql: &str,
    params: impl Params,
) -> Result<T, Fault> {
    let found = first(connection, sql, params, |row| row.get(0))?;
    found.ok_or_else(|| Fault::corrupt(format!("the answer to `{sql}`"), "it has no rows"))
}

/// The columns of a row, with the row's name (table and key) for errors.
pub(in crate::storage) struct Cells<'a, N> {
    row: &'a dyn Row,
    name: N,
}

impl<'a, N: Fn() -> String> Cells<'a, N> {
    pub(in crate::storage) fn of(row: &'a dyn Row, name: N) -> Self {
        Cells { row, name }
    }

    pub(in crate::storage) fn corrupt(&self, column: usize, why: impl ToString) -> Fault {
        let column = self.row.column_name(column);
        Fault::corrupt(format!("{}, column `{column}`", (self.name)()), why)
    }

    /// A column of a type that cells can have.
    pub(in crate::storage) fn get<T: FromCell>(&self, column: usize) -> Result<T, Fault> {
        self.row.get(column)
    }

    /// Text or NULL, not copied.
    pub(in crate::storage) fn text(&self, column: usize) -> Result<Option<&'a str>, Fault> {
        self.row.text(column)
    }

    /// A REAL column of a table that is joined by the column before it: `None` without a row there.
    pub(in crate::storage) fn value(&self, joined: usize) -> Result<Option<f64>, Fault> {
        let is_there = self.get::<Option<i64>>(joined)?.is_some();
        Ok(if is_there { Some(from_real(self.get(joined + 1)?)) } else { None })
    }

    /// An INTEGER column converted to another range, or NULL.
    pub(in crate::storage) fn optional_integer<T: TryFrom<i64>>(
        &self,
        column: usize,
    ) -> Result<Option<T>, Fault> {
        let Some(stored) = self.get::<Option<i64>>(column)? else { return Ok(None) };
        let outside = |_| self.corrupt(column, format!("{stored} is outside its range"));
        T::try_from(stored).map(Some).map_err(outside)
    }

    /// The value of a column that is never NULL.
    pub(in crate::storage) fn given<T>(&self, column: usize, found: Option<T>) -> Result<T, Fault> {
        found.ok_or_else(|| self.corrupt(column, "it is NULL"))
    }

    /// An INTEGER column converted to another range.
    pub(in crate::storage) fn integer<T: TryFrom<i64>>(&self, column: usize) -> Result<T, Fault> {
        self.given(column, self.optional_integer(column)?)
    }

    /// Text that `parse` understands, or NULL.
    pub(in crate::storage) fn optional<T, E: ToString>(
        &self,
        column: usize,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Fault> {
        let parsed = self.text(column)?.map(parse).transpose();
        parsed.map_err(|why| self.corrupt(column, why))
    }

    /// JSON or NULL.
    pub(in crate::storage) fn optional_json<T: DeserializeOwned>(
        &self,
        column: usize,
    ) -> Result<Option<T>, Fault> {
        self.optional(column, |text| serde_json::from_str(text))
    }

    /// The value of a column that holds JSON and is never NULL.
    pub(in crate::storage) fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, Fault> {
        self.given(column, self.optional_json(column)?)
    }

    /// One of a fixed set of words, or NULL.
    pub(in crate::storage) fn word<T>(
        &self,
        column: usize,
        known: fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        self.optional(column, |word| {
            known(word).ok_or_else(|| format!("`{word}` means nothing here"))
        })
    }

    /// A trial's state.
    pub(in crate::storage) fn state(&self, column: usize) -> Result<TrialState, Fault> {
        self.given(column, self.word(column, TrialState::from_word)?)
    }
}

/// The step and value in two columns of table `report`.
pub(in crate::storage) fn point(
    row: &dyn Row,
    column: usize,
    study: StudyId,
    trial: TrialNumber,
) -> Result<(u64, f64), Fault> {
    let cells = Cells::of(row, || format!("table `report`, study {}, trial {trial}", study.0));
    Ok((cells.integer(column)?, from_real(cells.get(column + 1)?)))
}

impl FromCell for StudyId {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        i64::from_cell(cell).map(StudyId)
    }
}

/// The first id that a trial of `study` can have, and the last.
pub(in crate::storage) fn trial_ids(study: StudyId) -> (i64, i64) {
    let first = study.0.saturating_mul(TRIALS_PER_STUDY);
    (first, first.saturating_add(TRIALS_PER_STUDY - 1))
}

/// A trial's id; an error for a number beyond the range of a study.
pub(in crate::storage) fn trial_id(study: StudyId, number: TrialNumber) -> Result<i64, Fault> {
    let (first, last) = trial_ids(study);
    let id = first.saturating_add(to_integer(number.0)?);
    if id > last {
        Err(Fault::unstorable(format!("a study cannot have a trial {number}")))
    } else {
        Ok(id)
    }
}

/// The number of the trial with this id.
pub(in crate::storage) fn number_of(id: i64) -> TrialNumber {
    TrialNumber(id.rem_euclid(TRIALS_PER_STUDY).unsigned_abs())
}

/// The study of a trial's id.
pub(in crate::storage) fn study_of(id: i64) -> StudyId {
    StudyId(id.div_euclid(TRIALS_PER_STUDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_null_and_infinities_are_themselves() {
        assert_eq!(to_real(f64::NAN), None);
        assert!(from_real(None).is_nan());
        for value in [f64::INFINITY, f64::NEG_INFINITY, 0.0, 1e308, f64::MIN_POSITIVE] {
            assert_eq!(
                to_real(value).map(|value| from_real(Some(value)).to_bits()),
                Some(value.to_bits())
            );
        }
    }

    #[test]
    fn a_trial_id_tells_its_number() {
        let id = trial_id(StudyId(3), TrialNumber(17)).ok().unwrap();
        assert_eq!(id, 3_000_000_017);
        assert_eq!(number_of(id), TrialNumber(17));
        assert!(trial_id(StudyId(3), TrialNumber(1_000_000_000)).is_err());
        assert!(to_integer(u64::MAX).is_err());
    }
}
