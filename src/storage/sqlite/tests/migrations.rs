//! Stores of older versions.

use super::*;

/// Stores written by earlier versions. Versions 6 and 7 were the newest for minutes and hours, and
/// no store of theirs is known; stores of version 5 passed through them.
const OLD: [(i64, &str); 8] = [
    (1, include_str!("../../../../tests/it/stores/v1.sql")),
    (2, include_str!("../../../../tests/it/stores/v2.sql")),
    (3, include_str!("../../../../tests/it/stores/v3.sql")),
    (4, include_str!("../../../../tests/it/stores/v4.sql")),
    (5, include_str!("../../../../tests/it/stores/v5.sql")),
    (8, include_str!("../../../../tests/it/stores/v8.sql")),
    (9, include_str!("../../../../tests/it/stores/v9.sql")),
    (10, include_str!("../../../../tests/it/stores/v10.sql")),
];

fn old_store(directory: &tempfile::TempDir, dump: &str) -> PathBuf {
    let path = directory.path().join("hpsearch.db");
    Connection::open(&path).unwrap().execute_batch(dump).unwrap();
    path
}

fn version_of(path: &Path) -> i64 {
    Connection::open(path).unwrap().query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

type Named<T> = Vec<(String, T)>;

/// The statements of a store's schema and the rows of its tables, but the random ones of `store`.
fn contents(connection: &Connection) -> (Named<String>, Named<i64>) {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE \
        'sqlite_%' ORDER BY rowid";
    let mut query = connection.prepare(sql).unwrap();
    let statements: Vec<(String, String)> = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let tables = statements.iter().filter(|(_, sql)| sql.starts_with("CREATE TABLE"));
    let count = |name: &String| {
        let sql = format!("SELECT count(*) FROM {name}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let rows = tables.map(|(name, _)| (name.clone(), count(name))).filter(|(_, rows)| *rows > 0);
    let rows = rows.collect();
    (statements, rows)
}

#[test]
fn a_new_store_has_the_schema_that_the_migrations_lead_to() {
    let migrated = Connection::open_in_memory().unwrap();
    MIGRATIONS.iter().for_each(|step| migrated.execute_batch(step).unwrap());
    let (statements, rows) = contents(&migrated);
    assert_eq!(rows, [("store".to_owned(), 1)], "schema.sql has no other rows");
    let statements: String = statements.iter().map(|(_, sql)| format!("{sql};\n\n")).collect();
    let expected = format!(
        "-- What the migrations v1.sql to v{}.sql make of an empty file. Written by\n\
         --     HPSEARCH_WRITE_DOCS=1 cargo test -p hpsearch --lib a_new_store_has\n\n\
         {statements}-- What v4.sql inserts.\n\
         INSERT INTO store (one, id, salt) VALUES (1, lower(hex(randomblob(16))), \
         lower(hex(randomblob(16))));\n",
        migrate::newest(MIGRATIONS)
    );
    if std::env::var_os("HPSEARCH_WRITE_DOCS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/storage/sqlite/schema.sql");
        fs::write(path, &expected).unwrap();
        return;
    }
    assert_eq!(SCHEMA, expected);
    let new = Connection::open_in_memory().unwrap();
    new.execute_batch(SCHEMA).unwrap();
    assert_eq!(contents(&new), contents(&migrated));
}

#[test]
fn an_older_store_is_brought_up_to_date_and_kept_as_it_was() {
    for (version, dump) in OLD {
        let directory = tempfile::tempdir().unwrap();
        let path = old_store(&directory, dump);
        let reader = SqliteReader::open(&path).unwrap();
        let study = reader.study("old").unwrap().unwrap();
        let mut folded = StudyState::new(&study.spec);
        for (_, at, event) in reader.events_after(study.id, Seq(0), u64::MAX).unwrap() {
            folded.apply(at, &event);
        }
        let state = reader.study_state(study.id).unwrap();
        assert_eq!(
            format!("{state:?}"),
            format!("{folded:?}"),
            "its journal folds to what is read now"
        );
        let expected = match version {
            1 => (3, 3, 1),
            2 => (4, 1, 1),
            3 => (6, 0, 1),
            4 => (1, 8, 0),
            8 => (3, 0, 0),
            10 => (6, 0, 0),
            _ => (2, 4, 0),
        };
        assert_eq!((state.counts.complete, state.counts.pruned, state.counts.failed), expected);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.pending_requests(study.id).unwrap().len(), usize::from(version == 1));
        drop((reader, store));
        assert_sound(&path);
        assert_eq!(version_of(&path), migrate::newest(MIGRATIONS));
        let copy = backup::place(&path, version);
        assert_sound(&copy);
        assert_eq!(version_of(&copy), version);
        let left = fs::read_dir(directory.path()).unwrap().count();
        assert!(left <= 4, "the store, its copy, perhaps its log and index: {left}");
    }
}

/// The study of an old store, with what its tables and its journal say of it.
fn told(path: &Path) -> (String, String) {
    let store = SqliteStore::open(path).unwrap();
    let study = store.study("old").unwrap().unwrap();
    let mut folded = StudyState::new(&study.spec);
    for (_, at, event) in store.events_after(study.id, Seq(0), u64::MAX).unwrap() {
        folded.apply(at, &event);
    }
    let series: Vec<String> = folded
        .trials
        .iter()
        .map(|trial| format!("{:?}", store.series(study.id, &[trial.number]).unwrap()))
        .collect();
    let state = format!("{:?}", store.study_state(study.id).unwrap());
    assert_eq!(state, format!("{folded:?}"), "its journal folds to what is read now");
    // Its files' directory, which paths of checkpoints are in, is another one each time.
    let directory = path.parent().unwrap().display().to_string();
    (state.replace(&directory, ""), format!("{series:?}"))
}

#[test]
fn a_store_that_was_brought_to_any_version_on_the_way_becomes_the_same() {
    let newest = migrate::newest(MIGRATIONS);
    for (version, dump) in OLD {
        let directory = tempfile::tempdir().unwrap();
        let at_once = told(&old_store(&directory, dump));
        for between in version + 1..newest {
            let directory = tempfile::tempdir().unwrap();
            let path = old_store(&directory, dump);
            let mut connection = Connection::open(&path).unwrap();
            let steps = &MIGRATIONS[..usize::try_from(between).unwrap()];
            migrate::migrate(&mut connection, &path, steps, "", |_| Ok(()), |_| Ok(()))
                .ok()
                .unwrap();
            drop(connection);
            assert_eq!(version_of(&path), between);
            assert_eq!(told(&path), at_once, "from version {version} by {between}");
            assert_sound(&path);
            assert_eq!(version_of(&backup::place(&path, between)), between, "it was copied");
        }
    }
}

#[test]
fn a_store_of_version_2_keeps_what_its_user_wrote_and_learns_who_ran_what() {
    let directory = tempfile::tempdir().unwrap();
    let path = old_store(&directory, OLD[1].1);
    let store = SqliteStore::open(&path).unwrap();
    let study = store.study("old").unwrap().unwrap();
    assert_eq!((study.extension.trials, study.spec.budget.trials), (2, Some(7)));
    let state = store.study_state(study.id).unwrap();
    assert_eq!(
        (state.tags.as_slice(), state.trials[1].tags.as_slice()),
        (["early".to_owned()].as_slice(), ["odd".to_owned()].as_slice())
    );
    assert_eq!((state.notes.len(), state.trials[1].notes.len()), (1, 1));
    let count =
        |sql: &str| store.reader.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM attempt WHERE runner IS NULL"), 0);
    assert_eq!(
        count(
            "SELECT count(*) FROM study_revision r JOIN study s ON s.id = r.study_id WHERE r.spec \
             = s.spec"
        ),
        1
    );
}

#[test]
fn optunas_views_of_a_store_of_version_10_tell_limits_and_leave_out_what_it_cannot_read() {
    let directory = tempfile::tempdir().unwrap();
    let (_, dump) = OLD.into_iter().find(|(version, _)| *version == 10).unwrap();
    let path = old_store(&directory, dump);
    let values_of = "SELECT number || ' ' || count(value) FROM trials t \
        LEFT JOIN trial_values v ON v.trial_id = t.trial_id GROUP BY number ORDER BY number";
    let read = |connection: &Connection, sql: &str| -> Vec<String> {
        values(connection, sql, ()).ok().unwrap()
    };
    let before = read(&Connection::open(&path).unwrap(), values_of);
    assert_eq!(before, ["0 2", "1 1", "2 2", "3 2", "4 2", "5 2"], "the second has a NaN");
    let store = SqliteStore::open(&path).unwrap();
    let connection = &store.reader.connection;
    assert_eq!(read(connection, values_of), ["0 2", "1 0", "3 2", "4 2", "5 2"]);
    let constraints = "SELECT value_json FROM trial_system_attributes ORDER BY trial_id";
    assert_eq!(read(connection, constraints), ["[0.0]", "[0.0]", "[0.5]", "[1.5]", "[2.5]"]);
}

#[test]
fn a_store_that_cannot_be_copied_is_left_as_it_was() {
    for (version, dump) in OLD {
        let directory = tempfile::tempdir().unwrap();
        let path = old_store(&directory, dump);
        // A directory in the place of the copy: it cannot be renamed there.
        fs::create_dir_all(backup::place(&path, version).join("taken")).unwrap();
        let error = SqliteStore::open(&path).unwrap_err();
        assert!(
            matches!(error, StorageError::NoBackup { found, .. } if found == version),
            "{error:?}"
        );
        let place = format!("hpsearch.db.v{version}");
        assert_says(&error, &[&place, "nothing was changed"]);
        assert_eq!(version_of(&path), version);
    }
}

#[test]
fn released_versions_are_what_they_were() {
    for (version, dump) in OLD {
        let written = Connection::open_in_memory().unwrap();
        for step in &MIGRATIONS[..usize::try_from(version).unwrap()] {
            written.execute_batch(step).unwrap();
        }
        let released = Connection::open_in_memory().unwrap();
        released.execute_batch(dump).unwrap();
        assert_eq!(schema(&written), schema(&released), "version {version}");
    }
}

/// The schema's text, in an order of its own.
fn schema(connection: &Connection) -> Vec<String> {
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    values(connection, sql, ()).ok().unwrap()
}

#[test]
fn new_stores_and_those_of_older_versions_have_one_schema() {
    let (_directory, _path, new, _lease) = fresh();
    for (version, dump) in OLD {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&old_store(&directory, dump)).unwrap();
        assert_eq!(
            schema(&store.reader.connection),
            schema(&new.reader.connection),
            "version {version}"
        );
    }
}

/// Has the constraints evaluated as SQLite before 3.45 does, where `json_valid(NULL)` is 0 and not
/// NULL.
fn with_old_json_valid(connection: &Connection) {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE \
        '%json_valid(%'";
    let tables: Vec<(String, String)> =
        crate::storage::sql::column::rows(connection, sql, (), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .ok()
        .unwrap();
    assert!(tables.len() > 5);
    connection.execute_batch("PRAGMA writable_schema = ON").unwrap();
    for (name, sql) in tables {
        let mut parts = sql.split("json_valid(");
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            let (column, rest) = part.split_once(')').unwrap();
            text.push_str(&format!("coalesce(json_valid({column}), 0){rest}"));
        }
        connection
            .execute("UPDATE sqlite_schema SET sql = ?2 WHERE name = ?1", [&name, &text])
            .unwrap();
    }
    connection.execute_batch("PRAGMA writable_schema = RESET").unwrap();
}

#[test]
fn nulls_break_no_constraint_of_an_sqlite_whose_json_valid_of_null_is_0() {
    let (directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(300)).unwrap();
    store.request(lease.study, NOW, &Request::Stop).unwrap();
    let runner = Event::Runner(RunnerEvent::Started {
        pid: 1,
        host: "here".to_owned(),
        slots: Vec::new(),
        tracker: None,
    });
    let attempt = Event::of(
        TrialNumber(0),
        AttemptEvent::Started {
            attempt: AttemptNumber(9),
            slot: crate::study::device::Slot::on(0, crate::study::device::Device::Cpu),
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        },
    );
    store.append(&lease, NOW, &[runner, attempt]).unwrap();
    begin(&mut store, "without a race");
    crate::storage::sql::append::add_dimension(
        &store.reader.connection,
        lease.study,
        "of no space",
        None,
    )
    .ok()
    .unwrap();
    drop(store);
    let mut stores = vec![(0, directory, path)];
    for (version, dump) in OLD {
        let directory = tempfile::tempdir().unwrap();
        let path = old_store(&directory, dump);
        drop(SqliteStore::open(&path).unwrap());
        stores.push((version, directory, path));
    }
    for (version, _directory, path) in stores {
        let connection = Connection::open(&path).unwrap();
        for (table, column) in [
            ("dimension", "optuna_json"),
            ("attempt", "outcome"),
            ("request", "answer"),
            ("runner", "lineage"),
            ("study", "race"),
        ] {
            let nulls = format!("SELECT count(*) FROM {table} WHERE {column} IS NULL");
            let nulls: i64 = connection.query_row(&nulls, [], |row| row.get(0)).unwrap();
            assert!(version > 0 || nulls > 0, "{table}.{column}");
        }
        with_old_json_valid(&connection);
        let said: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(said, "ok", "version {version}");
        assert!(
            connection.execute("UPDATE study SET race = 'no json'", []).is_err(),
            "the constraints hold"
        );
    }
}

/// Secrets in a store of version 3, which no later store may contain.
const VALUES: [&str; 3] = ["sk-secret-0123456789", "tok-secret-9876543210", "first-key-aaaaaaaa"];

fn holds(path: &Path, text: &str) -> bool {
    fs::read(path).unwrap_or_default().windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn values_of_the_environment_are_erased_from_an_older_store_and_its_copy_is_said_to_hold_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = old_store(&directory, OLD[2].1);
    assert!(VALUES.iter().all(|value| holds(&path, value)));
    let reader = SqliteReader::open(&path).unwrap();
    let copy = backup::place(&path, 3);
    assert_eq!(
        reader.migrated(),
        Some(&Migrated { from: 3, copy: copy.clone(), held_values: true })
    );
    for value in VALUES {
        for ending in ["", "-wal", "-shm"] {
            let file = PathBuf::from(format!("{}{ending}", path.display()));
            assert!(!holds(&file, value), "{value} in {}", file.display());
        }
        assert!(holds(&copy, value));
    }
    let study = reader.study("old").unwrap().unwrap();
    let crate::study::program::Program::Command { env, .. } = &study.spec.program else { panic!() };
    assert_eq!(env.keys().collect::<Vec<_>>(), ["API_KEY", "MODE", "TOKEN"]);
    assert!(env.values().all(|value| value.get().is_none()));
    let provenance = reader.runners(study.id).unwrap()[0].provenance.clone().unwrap();
    assert!(
        provenance.command.contains(&"command.env.TOKEN=...".to_owned()),
        "{:?}",
        provenance.command
    );
    let changes = reader.document(&provenance.diff().unwrap().digest).unwrap().unwrap();
    assert!(
        changes.contains("+env = { API_KEY =...")
            && changes.contains("-env = { API_KEY =...")
            && changes.contains("trials = 5"),
        "{changes}"
    );
    assert!(!secrets::are_left(&reader.connection));
    assert_eq!(SqliteReader::open(&path).unwrap().migrated(), None);
    drop(reader);
    assert_sound(&path);
}

#[test]
fn a_migration_that_was_killed_before_the_file_was_written_anew_is_finished_by_the_next_open() {
    for by_reader in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = old_store(&directory, OLD[2].1);
        let mut connection = Connection::open(&path).unwrap();
        enable_wal(&connection).ok().unwrap();
        migrate::migrate(&mut connection, &path, MIGRATIONS, SCHEMA, |_| Ok(()), secrets::erase)
            .ok()
            .unwrap();
        assert!(secrets::are_left(&connection));
        drop(connection);
        assert!(VALUES.iter().any(|value| holds(&path, value)), "what was erased is in free pages");
        if by_reader {
            drop(SqliteReader::open(&path).unwrap());
        } else {
            drop(SqliteStore::open(&path).unwrap());
        }
        assert!(!VALUES.iter().any(|value| holds(&path, value)));
        assert!(!secrets::are_left(&Connection::open(&path).unwrap()));
        assert_sound(&path);
    }
}
