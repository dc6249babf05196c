//! Tests of stores in files: files of other programs, damage, full disks, several connections.

mod migrations;
mod write_ahead_log;

use std::error::Error as _;
use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::ErrorCode;

use super::opening::{enable_wal, open_alone};
use super::*;
use crate::storage::SqliteFailure;
use crate::storage::StorageReader as _;
use crate::storage::conformance::{self, random_journal, small_study};
use crate::storage::sql::column::values;
use crate::storage::{Holder, Lease, Storage as _, Takeover};
use crate::study::event::{
    AttemptEvent, CheckpointEvent, DecisionEvent, Event, RunnerEvent, Seq, StateEvent, TrialEvent,
};
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::request::Request;
use crate::study::seed::SeedTree;
use crate::study::spec::{Objective, StudySpec};
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

fn assert_sound(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let verdict: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    assert!(
        !connection.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap(),
        "a row refers to nothing"
    );
}

/// A store with a study in its own directory, and the lease on it.
fn fresh() -> (tempfile::TempDir, PathBuf, SqliteStore, Lease) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs/hpsearch.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let lease = begin(&mut store, "s");
    (directory, path, store, lease)
}

fn begin(store: &mut SqliteStore, name: &str) -> Lease {
    let study = store.create_study(NOW, &small_study(name, Direction::Minimize)).unwrap();
    let holder = Holder { pid: 1, pid_started: 2, host: "here".to_owned(), boot_id: None };
    store.acquire(study, &holder, NOW, Takeover::IfFree).unwrap()
}

fn journal(length: usize) -> Vec<Event> {
    random_journal(
        &small_study("s", Direction::Minimize),
        length,
        &mut SeedTree::new(3).stream("journal"),
    )
}

/// The number of events of a study in a store.
fn stored(path: &Path, lease: &Lease) -> usize {
    let reader = SqliteReader::open(path).unwrap();
    reader.events_after(lease.study, Seq(0), u64::MAX).unwrap().len()
}

/// Cuts a file to a length.
fn cut(path: impl AsRef<Path>, length: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn created(trial: u64) -> Event {
    let (params, origin) = (Params::new(), Origin::Enqueued(0));
    Event::Trial(TrialNumber(trial), TrialEvent::created(params, origin))
}

fn assert_says(error: &StorageError, words: &[&str]) {
    let said = with_causes(error);
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

fn is(error: &StorageError, expected: SqliteFailure) -> bool {
    matches!(error, StorageError::Sqlite { failure, .. } if *failure == expected)
}

/// The error and its causes, as the command line prints them.
fn with_causes(error: &StorageError) -> String {
    let mut text = error.with_remedy();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[test]
fn the_sqlite_store_passes_the_suite() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    conformance::run(&mut || {
        let path = directory.path().join(format!("{}.db", paths.len()));
        paths.push(path.clone());
        Box::new(move || Box::new(SqliteStore::open(&path).unwrap()))
    });
    for path in paths {
        assert_sound(&path);
    }
}

#[test]
fn opening_again_changes_nothing_and_a_reader_sees_the_same() {
    let (_directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(200)).unwrap();
    let before = format!("{:?}", store.study_state(lease.study).unwrap());
    drop(store);
    let reader = SqliteReader::open(&path).unwrap();
    assert_eq!(format!("{:?}", reader.study_state(lease.study).unwrap()), before);
    drop(reader);
    assert_eq!(
        format!("{:?}", SqliteStore::open(&path).unwrap().study_state(lease.study).unwrap()),
        before
    );
    assert_sound(&path);
}

#[test]
fn a_reader_cannot_write() {
    let (_directory, path, _store, _lease) = fresh();
    let reader = SqliteReader::open(&path).unwrap();
    let refused = reader.connection.execute("DELETE FROM event", []).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly));
}

#[test]
fn a_missing_store_is_told_with_the_way_to_make_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("no.db");
    let error = SqliteReader::open(&path).unwrap_err();
    assert_says(&error, &["no.db", "hpsearch run study.toml", "--store PATH"]);
    assert!(!path.exists(), "a reader makes no file");
    // An empty file that a runner is about to initialise is not a store yet.
    fs::write(&path, "").unwrap();
    assert!(matches!(SqliteReader::open(&path), Err(StorageError::Missing { .. })));
}

#[test]
fn files_of_other_programs_are_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("notes.txt");
    fs::write(&text, "Dear diary, ".repeat(100)).unwrap();
    let optuna = directory.path().join("optuna.db");
    Connection::open(&optuna)
        .unwrap()
        .execute_batch("CREATE TABLE alembic_version (version_num TEXT)")
        .unwrap();
    let other = directory.path().join("other.db");
    Connection::open(&other)
        .unwrap()
        .execute_batch("PRAGMA application_id = 1234; CREATE TABLE x (y)")
        .unwrap();
    for (path, words) in [
        (text, ["not an SQLite database", "--store PATH"]),
        (optuna, ["a database of Optuna", "hpsearch import "]),
        (other, ["another program", "--store PATH"]),
    ] {
        let before = fs::read(&path).unwrap();
        for error in [SqliteStore::open(&path).unwrap_err(), SqliteReader::open(&path).unwrap_err()]
        {
            let is_refused =
                matches!(error, StorageError::NotAStore { .. } | StorageError::Optuna { .. });
            assert!(is_refused, "{error:?}");
            assert_says(&error, &words);
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }
    assert!(
        matches!(SqliteStore::open(directory.path()), Err(StorageError::NotAFile { .. })),
        "a directory is no store"
    );
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let (_directory, path, store, _lease) = fresh();
    store.reader.connection.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    assert!(matches!(
        SqliteStore::open(&path),
        Err(StorageError::Newer { found: 99, known, .. }) if known == migrate::newest(MIGRATIONS)
    ));
    assert!(matches!(SqliteReader::open(&path), Err(StorageError::Newer { .. })));
}

#[test]
fn a_directory_that_is_a_file_is_told() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("runs"), "x").unwrap();
    let error = SqliteStore::open(&directory.path().join("runs/hpsearch.db")).unwrap_err();
    assert_says(&error, &["--store PATH"]);
}

#[test]
fn a_full_disk_writes_nothing_and_the_study_goes_on_when_there_is_space() {
    let (_directory, path, mut store, lease) = fresh();
    let events = journal(3000);
    let (first, rest) = events.split_at(300);
    store.append(&lease, NOW, first).unwrap();
    let pages: i64 =
        store.reader.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    let limit = |store: &SqliteStore, pages: i64| {
        let set = format!("PRAGMA max_page_count = {pages}");
        store.reader.connection.query_row(&set, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    limit(&store, pages + 3);
    let before = format!("{:?}", store.study_state(lease.study).unwrap());
    let error = store.append(&lease, NOW, rest).unwrap_err();
    assert!(is(&error, SqliteFailure::DiskFull), "{error:?}");
    assert_says(&error, &["hpsearch.db", "free some space", "database or disk is full"]);
    assert_eq!(format!("{:?}", store.study_state(lease.study).unwrap()), before);
    assert_eq!(store.events_after(lease.study, Seq(0), u64::MAX).unwrap().len(), first.len());
    limit(&store, i64::from(u32::MAX) - 1);
    store.append(&lease, NOW, rest).unwrap();
    let mut folded = StudyState::new(&small_study("s", Direction::Minimize));
    for event in &events {
        folded.apply(NOW, event);
    }
    assert_eq!(store.study_state(lease.study).unwrap().counts, folded.counts);
    drop(store);
    assert_sound(&path);
}

#[test]
fn a_store_that_cannot_be_written_is_told() {
    let (_directory, path, mut store, lease) = fresh();
    store.reader.connection.pragma_update(None, "query_only", true).unwrap();
    let error = store.append(&lease, NOW, &journal(5)).unwrap_err();
    assert!(is(&error, SqliteFailure::NotUsable), "{error:?}");
    assert_says(&error, &["permissions", "readonly database"]);
    drop(store);
    assert_sound(&path);
}

#[test]
fn an_archived_store_is_read_without_its_directory_being_touched() {
    let (directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(100)).unwrap();
    let trials = store.study_state(lease.study).unwrap().trials.len();
    drop(store);
    let archived = directory.path().join("50 % of #1?.db");
    fs::rename(&path, &archived).unwrap();
    let (connection, version) = open_alone(&archived, &archived).ok().unwrap();
    assert_eq!(version, migrate::newest(MIGRATIONS));
    assert_eq!(
        SqliteReader::new(connection, &archived)
            .unwrap()
            .study_state(lease.study)
            .unwrap()
            .trials
            .len(),
        trials
    );
    assert!(!directory.path().join("50 % of #1?.db-wal").exists());
}

#[test]
fn a_store_that_is_read_without_its_index_notices_a_writer() {
    let (_directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(100)).unwrap();
    let alone = || {
        let (connection, _) = open_alone(&path, &path).ok().unwrap();
        SqliteReader::opened(connection, &path, Some(ReadAlone::of(&path)?)).ok()
    };
    assert!(alone().is_none(), "the log is not empty");
    drop(store);
    let mut reader = alone().unwrap();
    let before = reader.study_state(lease.study).unwrap().trials.len();
    assert!(reader.look_for_changes().unwrap());
    assert!(!reader.look_for_changes().unwrap());
    let mut writer = SqliteStore::open(&path).unwrap();
    assert_eq!(reader.study_state(lease.study).unwrap().trials.len(), before);
    writer.append(&lease, NOW, &[created(before as u64)]).unwrap();
    let error = reader.study_state(lease.study).unwrap_err();
    assert!(matches!(error, StorageError::ReadAlone { .. }), "{error:?}");
    assert_says(&error, &["hpsearch.db", "run the same command again"]);
    assert!(reader.look_for_changes().unwrap());
    assert_eq!(reader.study_state(lease.study).unwrap().trials.len(), before + 1);
    drop((reader, writer));
    // Also after it has written everything to the file, and removed its log.
    let mut reader = alone().unwrap();
    SqliteStore::open(&path).unwrap().append(&lease, NOW, &[created(before as u64 + 1)]).unwrap();
    assert!(matches!(reader.study_state(lease.study), Err(StorageError::ReadAlone { .. })));
    assert!(reader.look_for_changes().unwrap());
    assert_eq!(reader.study_state(lease.study).unwrap().trials.len(), before + 2);
}

#[test]
fn a_store_that_another_process_does_not_let_go_of_is_told() {
    let (_directory, path, mut store, lease) = fresh();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.reader.connection.busy_timeout(Duration::ZERO).unwrap();
    let error = store.append(&lease, NOW, &journal(5)).unwrap_err();
    assert!(is(&error, SqliteFailure::Locked), "{error:?}");
    assert_says(&error, &["fuser", "database is locked"]);
    assert!(store.study_state(lease.study).is_ok(), "readers do not wait for writers");
}

#[test]
fn a_damaged_file_is_told_with_the_way_to_save_it() {
    let (_directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(2000)).unwrap();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    // Everything but the header page, so that it is still a store of ours.
    bytes[4096..].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    let error =
        SqliteStore::open(&path).and_then(|store| store.study_state(lease.study)).unwrap_err();
    assert!(is(&error, SqliteFailure::Damaged), "{error:?}");
    assert_says(&error, &[".recover", "malformed"]);
}

#[test]
fn unreadable_json_is_told_with_its_table_and_row() {
    let (_directory, _path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(50)).unwrap();
    store
        .reader
        .connection
        .execute("UPDATE event SET body = '{\"type\":\"from the future\"}' WHERE seq = 7", [])
        .unwrap();
    let error = store.events_after(lease.study, Seq(0), 100).unwrap_err();
    assert!(
        matches!(&error, StorageError::Corrupt { place, .. } if place == "table `event`, seq 7, \
            column `body`"),
        "{error:?}"
    );
    store.reader.connection.execute("UPDATE trial SET origin = '{}' WHERE number = 0", []).unwrap();
    let error = store.study_state(lease.study).unwrap_err();
    assert!(
        matches!(&error, StorageError::Corrupt { place, .. } if place == "table `trial`, id \
            1000000000, column `origin`"),
        "{error:?}"
    );
}

#[test]
fn what_has_no_form_in_the_store_is_refused_whole() {
    let (_directory, _path, mut store, lease) = fresh();
    let save = Event::of(
        TrialNumber(0),
        CheckpointEvent::Saved {
            step: u64::MAX,
            path: PathBuf::from("/a"),
            bytes: None,
            system: None,
            digest: None,
        },
    );
    let error = store.append(&lease, NOW, &[created(0), save]).unwrap_err();
    assert_says(&error, &["18446744073709551615 is larger"]);
    assert!(store.study_state(lease.study).unwrap().trials.is_empty());
    store.append(&lease, NOW, &[created(0)]).unwrap();
}

#[test]
fn ids_learned_in_a_failed_transaction_are_forgotten() {
    let (_directory, path, mut store, lease) = fresh();
    let report = |step| {
        let metrics = [("a new metric".to_owned(), 1.0)].into_iter().collect();
        Event::of(TrialNumber(0), AttemptEvent::reported(AttemptNumber(0), step, metrics))
    };
    store.append(&lease, NOW, &[created(0), report(1), report(u64::MAX)]).unwrap_err();
    store.append(&lease, NOW, &[created(0), report(1)]).unwrap();
    assert_eq!(
        store.reports(lease.study, TrialNumber(0)).unwrap(),
        [("a new metric".to_owned(), 1, 1.0)]
    );
    drop(store);
    assert_sound(&path);
}

#[test]
fn several_processes_may_make_the_store_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs/hpsearch.db");
    std::thread::scope(|scope| {
        for index in 0..8 {
            let path = &path;
            scope.spawn(move || {
                begin(&mut SqliteStore::open(path).unwrap(), &format!("study {index}"))
            });
        }
    });
    assert_eq!(SqliteReader::open(&path).unwrap().studies().unwrap().len(), 8);
    assert_sound(&path);
}

#[test]
fn readers_see_whole_batches_while_one_writes() {
    let (_directory, path, mut store, lease) = fresh();
    let done = AtomicBool::new(false);
    // A trial is created, reported and finished in one batch: no reader may see less.
    let batch = |number| {
        let (trial, attempt) = (TrialNumber(number), AttemptNumber(0));
        let metrics = [("eval_loss".to_owned(), 0.5)].into_iter().collect();
        [
            created(number),
            Event::of(trial, AttemptEvent::reported(attempt, 1, metrics)),
            Event::Trial(trial, TrialEvent::finished(TrialState::Complete, Some(0.5), None)),
        ]
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut reader = SqliteReader::open(&path).unwrap();
                let mut cursor = Seq(0);
                let mut last_round = false;
                while !last_round {
                    last_round = done.load(Ordering::Acquire);
                    let _ = reader.changed().unwrap();
                    let state = reader.study_state(lease.study).unwrap();
                    assert!(
                        state
                            .trials
                            .iter()
                            .all(|trial| trial.state == TrialState::Complete
                                && trial.curve.len() == 1)
                    );
                    assert!(
                        reader
                            .trials(lease.study, &TrialQuery::all(SortKey::Value).page(0, 20))
                            .unwrap()
                            .iter()
                            .all(|trial| trial.value == Some(0.5))
                    );
                    let events = reader.events_after(lease.study, cursor, u64::MAX).unwrap();
                    assert_eq!(events.len() % 3, 0);
                    cursor = events.last().map_or(cursor, |(seq, _, _)| *seq);
                    assert!(
                        cursor == Seq(0) || reader.summary(lease.study).unwrap().best.is_some()
                    );
                }
                assert_eq!(cursor, Seq(900));
            });
        }
        for number in 0..300 {
            store.append(&lease, NOW, &batch(number)).unwrap();
        }
        done.store(true, Ordering::Release);
    });
    drop(store);
    assert_sound(&path);
}

#[test]
fn two_studies_of_one_file_are_written_at_once() {
    let (_directory, path, store, _lease) = fresh();
    drop(store);
    std::thread::scope(|scope| {
        for name in ["left", "right"] {
            let path = &path;
            scope.spawn(move || {
                let mut store = SqliteStore::open(path).unwrap();
                let lease = begin(&mut store, name);
                for events in journal(1500).chunks(5) {
                    store.append(&lease, NOW, events).unwrap();
                }
                assert_eq!(store.events_after(lease.study, Seq(0), u64::MAX).unwrap().len(), 1500);
            });
        }
    });
    assert_sound(&path);
}

#[test]
fn optunas_views_show_the_study() {
    let (_directory, _path, mut store, lease) = fresh();
    let finish = |number, state, value| {
        let trial = TrialNumber(number);
        let params =
            [("optim".to_owned(), "sgd".into()), ("learning_rate".to_owned(), 0.01.into())]
                .into_iter()
                .collect();
        [
            Event::Trial(trial, TrialEvent::created(params, Origin::Enqueued(0))),
            Event::Trial(trial, TrialEvent::finished(state, value, Some("so".to_owned()))),
        ]
    };
    for (number, value) in (0..).zip([0.5, f64::NAN, f64::INFINITY]) {
        store.append(&lease, NOW, &finish(number, TrialState::Complete, Some(value))).unwrap();
    }
    store.append(&lease, NOW, &finish(3, TrialState::Pruned, None)).unwrap();
    let rows =
        |sql: &str| -> Vec<String> { values(&store.reader.connection, sql, ()).ok().unwrap() };
    assert_eq!(
        rows("SELECT state FROM trials ORDER BY number"),
        ["COMPLETE", "FAIL", "COMPLETE", "PRUNED"]
    );
    assert_eq!(
        rows("SELECT value_type FROM trial_values ORDER BY trial_id"),
        ["FINITE", "INF_POS"]
    );
    assert_eq!(
        rows("SELECT DISTINCT param_name || ' ' || param_value FROM trial_params ORDER BY 1"),
        ["learning_rate 0.01", "optim 0.0"]
    );
    assert_eq!(
        rows("SELECT datetime_complete FROM trials LIMIT 1"),
        ["2023-11-14 22:13:20.000000"]
    );
}

#[test]
fn optunas_views_have_no_hidden_trial_no_part_of_a_nan_and_violations_as_constraints() {
    let (_directory, _path, mut store, _lease) = fresh();
    let spec = small_study("two", Direction::Minimize);
    let metric = |name| Objective::new(name, Direction::Minimize);
    let objectives = vec![metric("value_0"), metric("value_1")];
    let study = store.create_study(NOW, &StudySpec { objectives, ..spec }).unwrap();
    let holder = Holder { pid: 1, pid_started: 2, host: "here".to_owned(), boot_id: None };
    let lease = store.acquire(study, &holder, NOW, Takeover::IfFree).unwrap();
    for (number, values) in (0..).zip([[f64::NAN, 0.7], [0.1, 0.2], [0.0, 0.0], [0.3, 0.1]]) {
        let trial = TrialNumber(number);
        let (state, values) = (TrialState::Complete, values.to_vec());
        let end = StateEvent::Finished { state, value: None, values, reason: None };
        let created = TrialEvent::created(Params::new(), Origin::Enqueued(0));
        store.append(&lease, NOW, &[Event::Trial(trial, created), Event::of(trial, end)]).unwrap();
    }
    let rows = |store: &SqliteStore, sql: &str| -> Vec<String> {
        values(&store.reader.connection, sql, ()).ok().unwrap()
    };
    let of_study = format!("FROM trials WHERE study_id = {} ORDER BY number", study.0);
    let states = format!("SELECT number || ' ' || state {of_study}");
    assert_eq!(rows(&store, &states), ["0 FAIL", "1 COMPLETE", "2 COMPLETE", "3 COMPLETE"]);
    let constraints = "SELECT (trial_id % 1000000000) || ' ' || key || ' ' || value_json \
        FROM trial_system_attributes ORDER BY trial_id";
    assert!(rows(&store, constraints).is_empty(), "the study has no limit");
    let violation = DecisionEvent::LimitsBroken { violation: 0.5, reason: "so".to_owned() };
    store
        .append(
            &lease,
            NOW,
            &[Event::of(TrialNumber(1), violation), Event::of(TrialNumber(2), StateEvent::Hidden)],
        )
        .unwrap();
    assert_eq!(rows(&store, &states), ["0 FAIL", "1 COMPLETE", "3 COMPLETE"]);
    assert_eq!(
        rows(&store, "SELECT (trial_id % 1000000000) || ' ' || value FROM trial_values ORDER BY 1"),
        ["1 0.1", "1 0.2", "3 0.1", "3 0.3"]
    );
    assert_eq!(
        rows(&store, constraints),
        ["0 constraints [0.0]", "1 constraints [0.5]", "3 constraints [0.0]"]
    );
    let names = "SELECT value_json FROM study_system_attributes";
    assert_eq!(
        rows(&store, names),
        [r#"["eval_loss"]"#],
        "the defaults of two objectives are none"
    );
}

#[test]
fn a_path_that_names_no_file_is_refused_with_the_reason() {
    for (path, why) in [("", "names no file"), ("a\0b.db", "NUL")] {
        for error in [
            SqliteStore::open(Path::new(path)).unwrap_err(),
            SqliteReader::open(Path::new(path)).unwrap_err(),
        ] {
            assert_says(&error, &[why, "--store PATH"]);
        }
    }
}

#[test]
fn a_large_file_is_written_anew_once_nothing_runs() {
    let (_directory, path, mut store, lease) = fresh();
    let body = "removed".repeat(1000);
    store.keep_document("digest", &body).unwrap();
    let connection = &store.reader.connection;
    connection.execute_batch("DELETE FROM document; UPDATE store SET values_left = 1").unwrap();
    let holds = || {
        let files = [path.clone(), path.with_extension("db-wal")].map(fs::read);
        files.iter().flatten().any(|bytes| bytes.windows(14).any(|at| at == b"removedremoved"))
    };
    secrets::finish_unless(connection, 0).ok().unwrap();
    assert!(secrets::are_left(connection) && holds(), "a study is held");
    store.release(&lease).unwrap();
    let connection = &store.reader.connection;
    secrets::finish_unless(connection, 0).ok().unwrap();
    assert!(!secrets::are_left(connection) && !holds());
    assert!(store.erase_removed().unwrap());
    assert_sound(&path);
}

/// A store with 20 events in its log, open, whose file was moved to the second path.
fn moved_away() -> (tempfile::TempDir, [PathBuf; 3], SqliteStore, Lease) {
    let (directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(20)).unwrap();
    let (away, log) = (path.with_file_name("away.db"), files::with_ending(&path, "-wal"));
    fs::rename(&path, &away).unwrap();
    (directory, [path, away, log], store, lease)
}

#[test]
fn no_store_is_created_over_the_log_of_another() {
    let (directory, [path, away, log], _store, lease) = moved_away();
    let before = fs::read(&log).unwrap();
    assert!(!before.is_empty());
    let link = directory.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let refuse = |at: &Path| {
        let error = SqliteStore::open(at).unwrap_err();
        assert!(matches!(error, StorageError::OrphanedLog { .. }), "{error:?}");
        assert_says(&error, &["hpsearch.db-wal` is the log", "put that file back", "--store"]);
        assert_eq!(fs::read(&log).unwrap(), before);
    };
    for at in [&path, &link] {
        refuse(at);
        assert!(!path.exists(), "nothing is created");
    }
    // As it is after it was emptied in place.
    fs::write(&path, "").unwrap();
    refuse(&path);
    fs::rename(&away, &path).unwrap();
    drop(SqliteStore::open(&path).unwrap());
    assert_eq!(stored(&path, &lease), 20);
}

#[test]
fn a_rollback_journal_without_its_store_is_kept_and_an_empty_log_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hpsearch.db");
    let journal = files::with_ending(&path, "-journal");
    fs::write(files::with_ending(&path, "-wal"), "").unwrap();
    fs::write(&journal, "pages").unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert_says(&error, &["hpsearch.db-journal` is the log"]);
    assert_eq!(fs::read(&journal).unwrap(), b"pages");
    fs::remove_file(&journal).unwrap();
    SqliteStore::open(&path).unwrap();
}

#[test]
fn a_store_that_must_be_there_is_not_created() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs/hpsearch.db");
    assert!(matches!(SqliteStore::open_existing(&path), Err(StorageError::Missing { .. })));
    assert!(!path.parent().unwrap().exists());
    drop(SqliteStore::open(&path).unwrap());
    SqliteStore::open_existing(&path).unwrap();
}

#[test]
fn a_store_that_is_back_as_it_was_is_written_again_once_that_is_asked_for() {
    let (_directory, [path, away, _], mut store, lease) = moved_away();
    let events = journal(40);
    let rest = &events[20..];
    let is_moved =
        |result: Result<(), StorageError>| matches!(result, Err(StorageError::Moved { .. }));
    assert!(is_moved(store.append(&lease, NOW, rest).map(drop)));
    assert!(is_moved(Writes::look_for_return(&mut store)));
    fs::rename(&away, &path).unwrap();
    assert!(is_moved(store.append(&lease, NOW, rest).map(drop)), "its writer may be ahead of it");
    Writes::look_for_return(&mut store).unwrap();
    store.append(&lease, NOW, rest).unwrap();
    drop(store);
    assert_eq!(stored(&path, &lease), 40);
    assert_sound(&path);
}

#[test]
fn a_store_that_another_one_replaced_for_a_while_has_its_log_when_it_is_back() {
    let (_directory, [path, away, log], mut store, lease) = moved_away();
    let aside = files::with_ending(&path, "-wal.replaced");
    fs::write(&aside, "of an earlier one").unwrap();
    fs::write(&path, "another").unwrap();
    let error = store.append(&lease, NOW, &[]).unwrap_err();
    assert_says(&error, &["another file", "hpsearch.db-wal.replaced-2`", "--store"]);
    assert!(!log.exists() && files::with_ending(&path, "-wal.replaced-2").exists());
    assert_eq!(fs::read(&aside).unwrap(), b"of an earlier one");
    fs::rename(&away, &path).unwrap();
    Writes::look_for_return(&mut store).unwrap();
    store.append(&lease, NOW, &journal(40)[20..]).unwrap();
    drop(store);
    assert_eq!(stored(&path, &lease), 40);
    assert_sound(&path);
}

#[test]
fn a_store_that_is_opened_again_when_it_is_back_has_its_log() {
    let (_directory, [path, away, log], mut store, lease) = moved_away();
    drop(SqliteStore::open(&path.with_file_name("other.db")).unwrap());
    fs::rename(path.with_file_name("other.db"), &path).unwrap();
    assert_says(&store.append(&lease, NOW, &[]).unwrap_err(), &["hpsearch.db-wal.replaced`"]);
    drop(store);
    drop(SqliteStore::open(&path).unwrap());
    assert_sound(&path);
    assert!(!log.exists());
    fs::rename(&away, &path).unwrap();
    drop(SqliteStore::open_existing(&path).unwrap());
    assert_eq!(stored(&path, &lease), 20);
    assert_sound(&path);
}

#[test]
fn a_store_that_is_vacuumed_by_another_process_is_shorter_and_the_same() {
    let (_directory, path, mut store, lease) = fresh();
    let other = Connection::open(&path).unwrap();
    let length = || fs::metadata(&path).unwrap().len();
    let fill = "CREATE TABLE of_mine AS SELECT randomblob(100000) AS x";
    let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    other.execute_batch(&format!("{fill}; {truncate}")).unwrap();
    store.append(&lease, NOW, &journal(20)).unwrap();
    let before = length();
    other.execute_batch(&format!("DROP TABLE of_mine; VACUUM; {truncate}")).unwrap();
    assert!(length() < before);
    store.append(&lease, NOW, &journal(40)[20..]).unwrap();
    // It grows again before this process looks.
    let grown = format!("DROP TABLE IF EXISTS of_mine; VACUUM; {truncate}; {fill}");
    other.execute_batch(&grown).unwrap();
    store.changed().unwrap();
    drop(other);
    drop(store);
    assert_eq!(stored(&path, &lease), 40);
}

#[test]
fn a_store_that_was_changed_while_it_was_away_is_not_written_again() {
    let (_directory, [path, away, _], mut store, lease) = moved_away();
    assert!(store.append(&lease, NOW, &[]).is_err());
    let mut other = fs::File::options().append(true).open(&away).unwrap();
    other.write_all(&[0; 4096]).unwrap();
    fs::rename(&away, &path).unwrap();
    assert!(Writes::look_for_return(&mut store).is_err() && store.changed().is_err());
}
