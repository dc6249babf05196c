//! A connection to a server: statements, transactions, and what happens when it is lost.

use std::cell::{Cell as Slot, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut};
use postgres::{Client, NoTls, Row as ServerRow, SimpleQueryMessage, Statement};

use super::login::Login;
use crate::storage::BUSY_TIMEOUT;
use crate::storage::sql::connection::{Cell, Connection, Dialect, Row, Take};
use crate::storage::sql::fault::{Fault, is_of_connection};

/// The time of a lease, unless `HPSEARCH_LEASE` has another number of seconds.
const LEASE: Duration = Duration::from_secs(10);

/// Number of positions that a transaction takes at a time.
const BLOCK: i64 = 1 << 12;

/// Time for a notification to be read from the connection.
const HINT_PATIENCE: Duration = Duration::from_millis(1);

/// Pause before connecting again.
const PAUSE: Duration = Duration::from_millis(100);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A connection, made again when it is lost.
#[derive(Debug)]
pub(super) struct Session {
    login: Login,
    patience: Duration,
    dialect: Dialect,
    link: RefCell<Option<Link>>,
    /// The next position of an event, and the first of the next block.
    positions: Slot<(i64, i64)>,
    /// Number of transactions so far.
    transactions: Slot<i64>,
}

/// A connection, with its prepared statements.
struct Link {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({} statements)", self.statements.len())
    }
}

impl Session {
    /// Connects to the server. `patience`: how long a lost connection is made again.
    pub(super) fn connect(login: Login, patience: Duration) -> Result<Self, Fault> {
        let seconds = std::env::var("HPSEARCH_LEASE").ok().and_then(|text| text.parse().ok());
        let lease = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let session = Session {
            login,
            patience,
            dialect: Dialect {
                random_hex: "replace(CAST(gen_random_uuid() AS TEXT), '-', '')",
                tables_with: "SELECT c.table_name FROM information_schema.columns c JOIN \
                    information_schema.tables t USING (table_schema, table_name) WHERE \
                    c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND \
                    c.column_name = ?1 ORDER BY c.table_name",
                // Readers hear of it when it is committed, once for each transaction.
                lock_study: Some(
                    "UPDATE lease SET writes = writes + 1 WHERE study_id = ?1 RETURNING writes, \
                     pg_notify('hpsearch', '')",
                ),
                lock_studies: Some("SELECT 1 FROM pg_advisory_xact_lock(1752199027)"),
                lease: Some(lease.unwrap_or(LEASE)),
            },
            link: RefCell::new(None),
            positions: Slot::new((0, 0)),
            transactions: Slot::new(0),
        };
        session.ready()?;
        Ok(session)
    }

    /// Connects again if the connection is lost.
    pub(super) fn ready(&self) -> Result<(), Fault> {
        let mut link = self.link.borrow_mut();
        if link.as_ref().is_some_and(|link| !link.client.is_closed()) {
            return Ok(());
        }
        *link = None;
        let mut client = self.login.config().connect(NoTls)?;
        client.batch_execute(&format!(
            "SET lock_timeout = {}; SET client_min_messages = warning; SET \
             standard_conforming_strings = on",
            BUSY_TIMEOUT.as_millis()
        ))?;
        // A standby refuses it.
        let _asked_instead = client.batch_execute("LISTEN hpsearch");
        *link = Some(Link { client, statements: HashMap::new() });
        Ok(())
    }

    /// Whether another transaction was committed since the last call, as far as the server said so:
    /// it may say nothing, for example through a proxy that shares connections.
    pub(super) fn is_notified(&self) -> bool {
        let mut link = self.link.borrow_mut();
        let Some(link) = link.as_mut() else { return true };
        // A lost connection is one to look at, too.
        let mut notifications = link.client.notifications();
        let first = notifications.timeout_iter(HINT_PATIENCE).next();
        // Others of the same time say the same.
        let rest = notifications.iter().count();
        drop(notifications);
        !matches!((first, rest), (Ok(None), Ok(0))) || link.client.is_closed()
    }

    /// Runs statements without parameters.
    pub(super) fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.with(|link| Ok(link.client.batch_execute(sql)?))
    }

    /// Runs `work` with a connection, and again with another one while it is lost.
    pub(super) fn patiently<T>(
        &self,
        mut work: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let until = Instant::now() + self.patience;
        let mut is_first = true;
        loop {
            match self.ready().and_then(|()| work()) {
                // The server may have been restarted since the last call.
                Err(fault)
                    if fault.is_lost_connection() && (is_first || Instant::now() < until) =>
                {
                    if !is_first {
                        std::thread::sleep(PAUSE);
                    }
                    is_first = false;
                }
                other => return other,
            }
        }
    }

    /// Runs `work` in a transaction that reads one committed state.
    pub(super) fn read<T>(
        &self,
        mut work: impl FnMut(&Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.patiently(|| {
            self.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
            let done = work(self);
            self.end();
            done
        })
    }

    /// Ends a transaction without effect.
    fn end(&self) {
        // A failed one is ended by the server.
        let _nothing_was_written = self.batch("ROLLBACK");
    }

    /// Runs `work` in a transaction. It is repeated if the connection is lost or the server asks
    /// for it, and nothing was committed.
    pub(super) fn write<T>(
        &self,
        mut work: impl FnMut(&Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let until = Instant::now() + self.patience;
        loop {
            match self.try_to_write(&mut work) {
                Err(fault) if fault.is_repeatable() && Instant::now() < until => {
                    if fault.is_lost_connection() {
                        std::thread::sleep(PAUSE);
                    }
                }
                other => return other,
            }
        }
    }

    fn try_to_write<T>(
        &self,
        work: &mut impl FnMut(&Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.ready()?;
        self.positions.set((0, 0));
        self.transactions.set(self.transactions.get() + 1);
        let transaction = self.begin_to_write()?;
        match work(self) {
            Ok(done) => match self.batch("COMMIT") {
                Ok(()) => Ok(done),
                Err(fault) if fault.is_lost_connection() => {
                    match self.is_committed(&transaction)? {
                        true => Ok(done),
                        false => Err(fault),
                    }
                }
                Err(fault) => Err(fault),
            },
            Err(fault) => {
                self.end();
                Err(fault)
            }
        }
    }

    /// Begins a transaction; returns its number.
    fn begin_to_write(&self) -> Result<String, Fault> {
        // A process that is stopped in the middle of a transaction must not keep others waiting.
        let idle = self.dialect.lease.unwrap_or(LEASE).as_millis();
        let sql = format!(
            "BEGIN; SET LOCAL idle_in_transaction_session_timeout = {idle}; SELECT \
             pg_current_xact_id()"
        );
        let messages = self.with(|link| Ok(link.client.simple_query(&sql)?))?;
        let number = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        number.ok_or_else(|| Fault::corrupt(sql, "it has no row"))
    }

    /// What became of a transaction whose connection was lost while it was committed.
    fn is_committed(&self, transaction: &str) -> Result<bool, Fault> {
        let until = Instant::now() + BUSY_TIMEOUT;
        let sql = format!("SELECT pg_xact_status('{transaction}')");
        loop {
            let asked =
                self.ready().and_then(|()| self.with(|link| Ok(link.client.simple_query(&sql)?)));
            let is_late = Instant::now() >= until;
            match asked {
                Ok(messages) => {
                    let status = messages.iter().find_map(|message| match message {
                        SimpleQueryMessage::Row(row) => row.get(0),
                        _ => None,
                    });
                    match status {
                        Some("committed") => return Ok(true),
                        Some("in progress") if !is_late => {}
                        _ => return Ok(false),
                    }
                }
                Err(fault) if is_late || !fault.is_repeatable() => return Err(fault),
                Err(_) => {}
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Link) -> Result<T, Fault>) -> Result<T, Fault> {
        let mut link = self.link.borrow_mut();
        let link = link.as_mut().ok_or_else(|| Fault::unstorable("there is no connection"))?;
        work(link)
    }

    fn rows(&self, sql: &str, params: &[Cell<'_>]) -> Result<Vec<ServerRow>, Fault> {
        self.with(|link| {
            let statement = link.statement(sql)?;
            Ok(link.client.query(&statement, &referred(params))?)
        })
    }
}

impl Link {
    /// A prepared statement.
    fn statement(&mut self, sql: &str) -> Result<Statement, Fault> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(&as_postgres(sql))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn referred<'a>(params: &'a [Cell<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|cell| cell as &(dyn ToSql + Sync)).collect()
}

/// SQL with PostgreSQL's parameters, and without SQLite's word that fixes the order of a join.
fn as_postgres(sql: &str) -> String {
    sql.replace('?', "$").replace("CROSS JOIN", "JOIN")
}

impl Connection for Session {
    fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    fn query(&self, sql: &str, params: &[Cell<'_>], take: &mut Take<'_>) -> Result<(), Fault> {
        // All of them first: `take` may query, too.
        for row in &self.rows(sql, params)? {
            if take(row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn run(&self, sql: &str, params: &[Cell<'_>]) -> Result<u64, Fault> {
        self.with(|link| {
            let statement = link.statement(sql)?;
            Ok(link.client.execute(&statement, &referred(params))?)
        })
    }

    fn version_of_others(&self) -> Result<i64, Fault> {
        Ok(self.transactions.get())
    }

    fn insert_row(&self, sql: &str, key: &str, params: &[Cell<'_>]) -> Result<i64, Fault> {
        let inserted = self.rows(&format!("{sql} RETURNING {key}"), params)?;
        let inserted = inserted.first().map(|row| row.try_get::<_, i64>(0)).transpose()?;
        inserted.ok_or_else(|| Fault::corrupt(format!("column `{key}`"), "no row was inserted"))
    }

    fn next_seq(&self) -> Result<Option<i64>, Fault> {
        let (mut next, mut end) = self.positions.get();
        if next == end {
            let block = self.rows("SELECT nextval('event_block')", &[])?;
            let block = block.first().map(|row| row.try_get::<_, i64>(0)).transpose()?;
            next = block.unwrap_or(0) * BLOCK;
            end = next + BLOCK;
        }
        self.positions.set((next + 1, end));
        Ok(Some(next))
    }
}

impl Row for ServerRow {
    fn cell(&self, column: usize) -> Result<Cell<'_>, Fault> {
        Ok(self.try_get(column)?)
    }

    fn column_name(&self, column: usize) -> String {
        self.columns().get(column).map_or_else(String::new, |column| column.name().to_owned())
    }
}

impl<'a> FromSql<'a> for Cell<'a> {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(match *kind {
            Type::BOOL => Cell::Integer(i64::from(bool::from_sql(kind, raw)?)),
            Type::INT2 => Cell::Integer(i64::from(i16::from_sql(kind, raw)?)),
            Type::INT4 => Cell::Integer(i64::from(i32::from_sql(kind, raw)?)),
            Type::INT8 => Cell::Integer(i64::from_sql(kind, raw)?),
            Type::FLOAT8 => Cell::Real(f64::from_sql(kind, raw)?),
            Type::BYTEA => Cell::Blob(raw),
            _ => Cell::Text(<&str>::from_sql(kind, raw)?),
        })
    }

    fn from_sql_null(_kind: &Type) -> Result<Self, Failure> {
        Ok(Cell::Null)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(
            *kind,
            Type::BOOL
                | Type::INT2
                | Type::INT4
                | Type::INT8
                | Type::FLOAT8
                | Type::BYTEA
                | Type::TEXT
                | Type::VARCHAR
                | Type::NAME
        )
    }
}

impl ToSql for Cell<'_> {
    #[expect(clippy::cast_precision_loss, reason = "as SQLite stores integers in real columns")]
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match (self, kind) {
            (Cell::Null, _) => Ok(IsNull::Yes),
            (Cell::Integer(integer), &Type::FLOAT8) => (*integer as f64).to_sql(kind, out),
            (Cell::Integer(integer), &Type::INT4) => i32::try_from(*integer)?.to_sql(kind, out),
            (Cell::Integer(integer), &Type::INT8) => integer.to_sql(kind, out),
            // SQLite drops the sign of a zero, too.
            (Cell::Real(real), &Type::FLOAT8) => (real + 0.0).to_sql(kind, out),
            // PostgreSQL's text cannot contain this character.
            (Cell::Text(text), &Type::TEXT | &Type::VARCHAR) if text.contains('\0') => {
                text.replace('\0', "\u{2400}").to_sql(kind, out)
            }
            (Cell::Text(text), &Type::TEXT | &Type::VARCHAR | &Type::NAME) => {
                text.to_sql(kind, out)
            }
            (Cell::Blob(bytes), &Type::BYTEA) => bytes.to_sql(kind, out),
            _ => Err(format!("{self:?} cannot be a parameter of type {kind}").into()),
        }
    }

    fn accepts(_kind: &Type) -> bool {
        true
    }

    postgres::types::to_sql_checked!();
}

impl Fault {
    /// Whether the connection to the server was lost, or could not be made.
    pub(super) fn is_lost_connection(&self) -> bool {
        let Fault::Postgres(error) = self else { return false };
        match error.code() {
            Some(code) => [
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                SqlState::TOO_MANY_CONNECTIONS,
            ]
            .contains(code),
            None => is_of_connection(error),
        }
    }

    /// Whether the same transaction may succeed when it is repeated.
    pub(super) fn is_repeatable(&self) -> bool {
        let Fault::Postgres(error) = self else { return false };
        let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        self.is_lost_connection() || error.code().is_some_and(|code| conflicts.contains(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_joins_are_written_as_postgresql_does() {
        assert_eq!(
            as_postgres("SELECT a FROM b CROSS JOIN c ON d = ?1 AND e = ?12"),
            "SELECT a FROM b JOIN c ON d = $1 AND e = $12"
        );
    }
}
