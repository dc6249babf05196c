//! SQLite as the shared queries see it.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

use crate::storage::sql::connection::{Cell, Connection, Dialect, Row, Take};
use crate::storage::sql::fault::Fault;

static SQLITE: Dialect = Dialect {
    random_hex: "lower(hex(randomblob(16)))",
    tables_with: "SELECT t.name FROM sqlite_schema t, pragma_table_info(t.name) c \
        WHERE t.type = 'table' AND c.name = ?1 ORDER BY t.name",
    lock_study: None,
    lock_studies: None,
    lease: None,
};

impl Connection for rusqlite::Connection {
    fn dialect(&self) -> &Dialect {
        &SQLITE
    }

    fn query(&self, sql: &str, params: &[Cell<'_>], take: &mut Take<'_>) -> Result<(), Fault> {
        let mut statement = self.prepare_cached(sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(params))?;
        while let Some(row) = rows.next()? {
            if take(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn run(&self, sql: &str, params: &[Cell<'_>]) -> Result<u64, Fault> {
        let changed = self.prepare_cached(sql)?.execute(rusqlite::params_from_iter(params))?;
        Ok(changed as u64)
    }

    fn insert_row(&self, sql: &str, _key: &str, params: &[Cell<'_>]) -> Result<i64, Fault> {
        self.run(sql, params)?;
        Ok(self.last_insert_rowid())
    }

    fn version_of_others(&self) -> Result<i64, Fault> {
        Ok(self.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
    }

    fn next_seq(&self) -> Result<Option<i64>, Fault> {
        Ok(None)
    }
}

impl Row for rusqlite::Row<'_> {
    fn cell(&self, column: usize) -> Result<Cell<'_>, Fault> {
        Ok(match self.get_ref(column)? {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(integer) => Cell::Integer(integer),
            ValueRef::Real(real) => Cell::Real(real),
            ValueRef::Text(bytes) => Cell::Text(std::str::from_utf8(bytes).map_err(|why| {
                Fault::corrupt(format!("column `{}`", self.column_name(column)), why)
            })?),
            ValueRef::Blob(bytes) => Cell::Blob(bytes),
        })
    }

    fn column_name(&self, column: usize) -> String {
        self.as_ref().column_name(column).unwrap_or_default().to_owned()
    }
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Cell::Null => ValueRef::Null,
            Cell::Integer(integer) => ValueRef::Integer(*integer),
            Cell::Real(real) => ValueRef::Real(*real),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
