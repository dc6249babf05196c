//! The databases as the queries see them: SQL with numbered parameters in, rows of cells out.

use std::ops::ControlFlow;
use std::time::Duration;

use super::fault::Fault;

/// What is done with each row of a query; it may break off.
pub(in crate::storage) type Take<'a> = dyn FnMut(&dyn Row) -> Result<ControlFlow<()>, Fault> + 'a;

/// A connection to a database.
pub(in crate::storage) trait Connection {
    /// How the database's SQL differs from that of others.
    fn dialect(&self) -> &Dialect;

    /// Calls `take` with the rows of a query, until it breaks off.
    fn query(&self, sql: &str, params: &[Cell<'_>], take: &mut Take<'_>) -> Result<(), Fault>;

    /// Runs a statement; returns the number of rows that it changed.
    fn run(&self, sql: &str, params: &[Cell<'_>]) -> Result<u64, Fault>;

    /// Runs an `INSERT` of one row without `RETURNING`; returns its integer primary key, the column
    /// `key`. SQLite has the key at hand, and keeps a journal of each statement with `RETURNING`.
    fn insert_row(&self, sql: &str, key: &str, params: &[Cell<'_>]) -> Result<i64, Fault>;

    /// A number that changes when other connections may have written.
    fn version_of_others(&self) -> Result<i64, Fault>;

    /// The position of the next event, if the database does not number events itself. Events of
    /// one transaction have consecutive positions.
    fn next_seq(&self) -> Result<Option<i64>, Fault>;
}

/// What differs between the databases. Elsewhere the queries keep to what both understand.
#[derive(Debug)]
pub(in crate::storage) struct Dialect {
    /// An expression: 32 random hexadecimal digits.
    pub random_hex: &'static str,
    /// A query: the tables that have a column called `?1`, including those of later schema
    /// versions.
    pub tables_with: &'static str,
    /// A query that keeps other writers of the study `?1` out until the transaction ends, and
    /// counts the write. `None`: the database has one writer at a time, and counts by itself.
    pub lock_study: Option<&'static str>,
    /// The same for other creators of studies.
    pub lock_studies: Option<&'static str>,
    /// The time after which a lease that is not renewed ends, by the database's clock. `None`:
    /// leases are held until they are released, and processes tell whether a holder lives.
    pub lease: Option<Duration>,
}

impl Dialect {
    /// A condition on table `lease`: it has not ended.
    pub fn is_live(&self) -> &'static str {
        if self.lease.is_some() { "expires_at > clock_timestamp()" } else { "TRUE" }
    }

    /// An assignment, with its comma, that begins the time of a lease anew.
    pub fn renewed(&self) -> String {
        let milliseconds = |lease: Duration| {
            let milliseconds = lease.as_millis();
            format!(", expires_at = clock_timestamp() + interval '{milliseconds} milliseconds'")
        };
        self.lease.map(milliseconds).unwrap_or_default()
    }
}

impl<'a> dyn Connection + 'a {
    /// Runs a statement; returns the number of rows that it changed.
    pub(in crate::storage) fn execute(&self, sql: &str, params: impl Params) -> Result<u64, Fault> {
        self.run(sql, &params.cells())
    }

    /// Inserts a row; returns its integer primary key, the column `key`.
    pub(in crate::storage) fn insert(
        &self,
        sql: &str,
        key: &str,
        params: impl Params,
    ) -> Result<i64, Fault> {
        self.insert_row(sql, key, &params.cells())
    }

    /// Whether a query has rows.
    pub(in crate::storage) fn exists(&self, sql: &str, params: impl Params) -> Result<bool, Fault> {
        let mut found = false;
        self.query(sql, &params.cells(), &mut |_| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Calls `take` with each row of a query.
    pub(in crate::storage) fn for_each(
        &self,
        sql: &str,
        params: impl Params,
        mut take: impl FnMut(&dyn Row) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.query(sql, &params.cells(), &mut |row| take(row).map(ControlFlow::Continue))
    }
}

/// A row of a query's result.
pub(in crate::storage) trait Row {
    /// The cell of a column.
    fn cell(&self, column: usize) -> Result<Cell<'_>, Fault>;

    /// The name of a column.
    fn column_name(&self, column: usize) -> String;
}

impl<'a> dyn Row + 'a {
    /// A column of a type that cells can have.
    pub(in crate::storage) fn get<T: FromCell>(&self, column: usize) -> Result<T, Fault> {
        let cell = self.cell(column)?;
        T::from_cell(cell).ok_or_else(|| {
            let place = format!("column `{}`", self.column_name(column));
            Fault::corrupt(place, format!("it is {}", cell.kind()))
        })
    }

    /// Text or NULL, not copied.
    pub(in crate::storage) fn text(&self, column: usize) -> Result<Option<&str>, Fault> {
        match self.cell(column)? {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text)),
            other => {
                let place = format!("column `{}`", self.column_name(column));
                Err(Fault::corrupt(place, format!("it is {}", other.kind())))
            }
        }
    }

    /// Bytes; NULL is none.
    pub(in crate::storage) fn bytes(&self, column: usize) -> Result<&[u8], Fault> {
        match self.cell(column)? {
            Cell::Null => Ok(&[]),
            Cell::Blob(bytes) => Ok(bytes),
            other => {
                let place = format!("column `{}`", self.column_name(column));
                Err(Fault::corrupt(place, format!("it is {}", other.kind())))
            }
        }
    }
}

/// A value of a column or a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::storage) enum Cell<'a> {
    /// NULL.
    Null,
    /// An integer; 0 and 1 of truth values.
    Integer(i64),
    /// A floating-point number, not NaN.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

impl Cell<'_> {
    /// Its kind, in words.
    fn kind(&self) -> &'static str {
        match self {
            Cell::Null => "NULL",
            Cell::Integer(_) => "an integer outside the range, or where none is expected",
            Cell::Real(_) => "a real number",
            Cell::Text(_) => "text",
            Cell::Blob(_) => "a blob",
        }
    }
}

/// A type that a cell is converted to.
pub(in crate::storage) trait FromCell: Sized {
    /// The value; `None` if the cell is of another type or outside the range.
    fn from_cell(cell: Cell<'_>) -> Option<Self>;
}

impl FromCell for i64 {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Integer(integer) = cell { Some(integer) } else { None }
    }
}

impl FromCell for u32 {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        i64::from_cell(cell).and_then(|integer| u32::try_from(integer).ok())
    }
}

impl FromCell for bool {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        i64::from_cell(cell).map(|integer| integer != 0)
    }
}

impl FromCell for f64 {
    #[expect(clippy::cast_precision_loss, reason = "as the databases convert integers")]
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Real(real) => Some(real),
            Cell::Integer(integer) => Some(integer as f64),
            _ => None,
        }
    }
}

impl FromCell for String {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if let Cell::Text(text) = cell { Some(text.to_owned()) } else { None }
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: Cell<'_>) -> Option<Self> {
        if cell == Cell::Null { Some(None) } else { T::from_cell(cell).map(Some) }
    }
}

/// A type that a parameter can have.
pub(in crate::storage) trait ToCell {
    /// Its cell.
    fn to_cell(&self) -> Cell<'_>;
}

impl ToCell for i64 {
    fn to_cell(&self) -> Cell<'_> {
        Cell::Integer(*self)
    }
}

impl ToCell for u32 {
    fn to_cell(&self) -> Cell<'_> {
        Cell::Integer(i64::from(*self))
    }
}

impl ToCell for f64 {
    fn to_cell(&self) -> Cell<'_> {
        if self.is_nan() { Cell::Null } else { Cell::Real(*self) }
    }
}

impl ToCell for str {
    fn to_cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }
}

impl ToCell for String {
    fn to_cell(&self) -> Cell<'_> {
        Cell::Text(self)
    }
}

impl ToCell for Vec<u8> {
    fn to_cell(&self) -> Cell<'_> {
        Cell::Blob(self)
    }
}

impl<T: ToCell + ?Sized> ToCell for &T {
    fn to_cell(&self) -> Cell<'_> {
        (**self).to_cell()
    }
}

impl<T: ToCell> ToCell for Option<T> {
    fn to_cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, T::to_cell)
    }
}

/// The parameters of a statement.
pub(in crate::storage) trait Params {
    /// Their cells, `?1` first.
    fn cells(&self) -> Vec<Cell<'_>>;
}

impl Params for () {
    fn cells(&self) -> Vec<Cell<'_>> {
        Vec::new()
    }
}

impl Params for &[&dyn ToCell] {
    fn cells(&self) -> Vec<Cell<'_>> {
        self.iter().map(|value| value.to_cell()).collect()
    }
}

impl<T: ToCell, const N: usize> Params for [T; N] {
    fn cells(&self) -> Vec<Cell<'_>> {
        self.iter().map(T::to_cell).collect()
    }
}

macro_rules! params_of_tuples {
    ($($name:ident)+) => {
        impl<$($name: ToCell),+> Params for ($($name,)+) {
            #[expect(non_snake_case, reason = "the fields are called as their types")]
            fn cells(&self) -> Vec<Cell<'_>> {
                let ($($name,)+) = self;
                vec![$($name.to_cell()),+]
            }
        }
    };
}

params_of_tuples!(A B);
params_of_tuples!(A B C);
params_of_tuples!(A B C D);
params_of_tuples!(A B C D E);

/// Parameters of different types: `params![1_i64, "a"]`.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn $crate::storage::sql::connection::ToCell),*][..]
    };
}

pub(in crate::storage) use params;
