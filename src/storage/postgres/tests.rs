//! Tests against a server, whose address is in `HPSEARCH_TEST_POSTGRES`; `tests/peers/postgres.sh`
//! starts one.

mod chaos;

use std::sync::atomic::{AtomicU64, Ordering};

use super::login::Login;
use super::session::Session;
use super::*;
use crate::storage::conformance::{self, small_study};
use crate::storage::sql::column::value;
use crate::storage::{Storage as _, StorageReader as _};
use crate::study::metric::Direction;
use crate::study::request::Request;
use crate::study::time::Timestamp;

/// The address of the server.
fn server() -> String {
    std::env::var("HPSEARCH_TEST_POSTGRES").expect("the address of a server")
}

/// Runs SQL on the server, outside of any store.
fn on_server(sql: &str) {
    Session::connect(Login::of(&server()).unwrap(), BUSY_TIMEOUT).unwrap().batch(sql).unwrap();
}

/// The address of a new, empty store: a schema of its own in the database of the tests.
fn fresh() -> String {
    static STORES: AtomicU64 = AtomicU64::new(0);
    let number = STORES.fetch_add(1, Ordering::Relaxed);
    let schema = format!("test_{}_{number}", std::process::id());
    on_server(&format!("CREATE SCHEMA {schema}"));
    let url = server();
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}options=-csearch_path%3D{schema}")
}

#[test]
#[ignore = "needs a PostgreSQL server: tests/peers/postgres.sh"]
fn a_store_in_postgresql_passes_the_suite() {
    conformance::run(&mut || {
        let url = fresh();
        Box::new(move || Box::new(PostgresStore::open(&url).unwrap()))
    });
}

#[test]
#[ignore = "needs a PostgreSQL server: tests/peers/postgres.sh"]
fn tables_of_other_programs_are_refused_and_left_alone() {
    let url = fresh();
    let session = Session::connect(Login::of(&url).unwrap(), BUSY_TIMEOUT).unwrap();
    session.batch("CREATE TABLE study (a INTEGER)").unwrap();
    for refused in [PostgresStore::open(&url).map(drop), PostgresReader::open(&url).map(drop)] {
        assert!(matches!(refused, Err(StorageError::NotAStore { .. })), "{refused:?}");
    }
    session.batch("INSERT INTO study VALUES (1); DROP TABLE study").unwrap();
    session.batch("CREATE TABLE metric (a INTEGER)").unwrap();
    let refused = PostgresStore::open(&url).map(drop);
    assert!(matches!(refused, Err(StorageError::NotAStore { .. })), "{refused:?}");
    session.batch("DROP TABLE metric").unwrap();
    assert!(matches!(PostgresReader::open(&url), Err(StorageError::Missing { .. })));
    PostgresStore::open(&url).unwrap();
    PostgresReader::open(&url).unwrap();
    session.batch("UPDATE hpsearch_version SET version = 1000").unwrap();
    assert!(matches!(PostgresStore::open(&url), Err(StorageError::Newer { found: 1000, .. })));
}

#[test]
#[ignore = "needs a PostgreSQL server: tests/peers/postgres.sh"]
fn processes_that_create_one_store_at_once_create_one() {
    let url = fresh();
    let identities: Vec<Option<String>> = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| PostgresStore::open(&url).unwrap().identity().unwrap()))
            .collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    assert!(identities[0].is_some() && identities.iter().all(|one| *one == identities[0]));
}

#[test]
#[ignore = "needs a PostgreSQL server: tests/peers/postgres.sh"]
fn a_character_that_postgresql_lacks_is_replaced_and_breaks_nothing() {
    let url = fresh();
    let mut store = PostgresStore::open(&url).unwrap();
    let study = store.create_study(Timestamp(1), &small_study("s", Direction::Minimize)).unwrap();
    let note = Request::Note { trial: None, text: "a\0b".to_owned() };
    store.request(study, Timestamp(2), &note).unwrap();
    assert_eq!(store.summary(study).unwrap().notes[0].text, "a\u{2400}b");
    assert_eq!(store.outcomes(study, Default::default()).unwrap().0.len(), 0);
}

#[test]
#[ignore = "needs a PostgreSQL server: tests/peers/postgres.sh"]
fn a_connection_that_is_cut_is_made_again() {
    let url = fresh();
    let mut store = PostgresStore::open(&url).unwrap();
    let study = store.create_study(Timestamp(1), &small_study("s", Direction::Minimize)).unwrap();
    for moment in 2..6 {
        let process = |connection: &dyn Connection| {
            value::<i64>(connection, "SELECT CAST(pg_backend_pid() AS BIGINT)", ())
        };
        let process = store.read("looking at itself", process).unwrap();
        on_server(&format!("SELECT pg_terminate_backend({process})"));
        store.request(study, Timestamp(moment), &Request::Stop).unwrap();
        assert_eq!(store.pending_requests(study).unwrap().len() as i64, moment - 1);
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tests/peers/postgres.sh"]
fn readers_hear_of_changes_at_once_and_ask_seldom() {
    let url = fresh();
    let mut store = PostgresStore::open(&url).unwrap();
    let study = store.create_study(Timestamp(1), &small_study("s", Direction::Minimize)).unwrap();
    // Only a notification makes it ask again.
    let ask_interval = Duration::from_secs(24 * 3600);
    let mut reader = PostgresReader { ask_interval, ..PostgresReader::open(&url).unwrap() };
    assert!(reader.changed().unwrap());
    for moment in 2..8 {
        let asked = reader.asked;
        assert!(!reader.changed().unwrap() && reader.asked == asked, "nothing is asked");
        store.request(study, Timestamp(moment), &Request::Stop).unwrap();
        let since = Instant::now();
        while !reader.changed().unwrap() {
            assert!(since.elapsed() < Duration::from_secs(60), "the reader does not hear of it");
        }
    }
}
