//! The log and its index: written back, begun anew, damaged.

use super::*;

#[test]
fn the_log_is_written_back_so_that_a_copy_of_the_file_is_a_store() {
    let (directory, path, mut store, lease) = fresh();
    let events = journal(50);
    let copied = |name: &str| {
        let copy = directory.path().join(name);
        fs::copy(&path, &copy).unwrap();
        SqliteReader::open(&copy)
            .and_then(|reader| reader.events_after(lease.study, Seq(0), u64::MAX))
            .map_or(0, |events| events.len())
    };
    store.append(&lease, NOW, &events[..20]).unwrap();
    assert_eq!(copied("before.db"), 0);
    store.checkpoints.at_once();
    // Also where nothing more is written.
    store.changed().unwrap();
    assert_eq!(copied("idle.db"), 20);
    store.append(&lease, NOW, &events[20..]).unwrap();
    assert_eq!(copied("after.db"), 50);
    drop(store);
    assert_sound(&path);
}

#[test]
fn a_log_that_a_screen_of_this_process_has_open_is_saved_when_that_is_closed() {
    let (_directory, path, mut store, lease) = fresh();
    let screen = SqliteReader::open(&path).unwrap();
    store.append(&lease, NOW, &journal(20)).unwrap();
    fs::remove_file(format!("{}-wal", path.display())).unwrap();
    let error = store.append(&lease, NOW, &[]).unwrap_err();
    assert!(matches!(error, StorageError::Exchanged { rescue: Rescue::Later, .. }), "{error:?}");
    assert!(store.release(&lease).is_err() && store.changed().is_err(), "nothing more is written");
    std::thread::scope(|scope| {
        let closing = scope.spawn(move || drop(store));
        drop(screen);
        closing.join().unwrap();
    });
    assert_eq!(stored(&path, &lease), 20);
    assert_sound(&path);
}

#[test]
fn writers_that_begin_the_log_anew_again_and_again_are_not_taken_for_damage() {
    let (_directory, path, mut store, lease) = fresh();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mode in ["PASSIVE", "RESTART", "TRUNCATE"] {
            let (path, stop) = (&path, &stop);
            scope.spawn(move || {
                let other = Connection::open(path).unwrap();
                other.busy_timeout(BUSY_TIMEOUT).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    other.execute("UPDATE store SET salt = salt", []).unwrap();
                    let _busy =
                        other.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
                }
            });
        }
        for (turn, event) in journal(300).iter().enumerate() {
            let appended = store
                .append(&lease, NOW, std::slice::from_ref(event))
                .and_then(|_| store.changed());
            if appended.is_err() || turn == 299 {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            appended.unwrap();
        }
    });
    drop(store);
    assert_eq!(stored(&path, &lease), 300);
    assert_sound(&path);
}

#[test]
fn a_log_that_is_changed_in_place_is_missed_by_the_next_look_wherever_it_was_changed() {
    use std::os::unix::fs::FileExt as _;
    type Strike = fn(&fs::File, &[u8]);
    let strikes: [(&str, Strike); 5] = [
        ("emptied", |log, _| log.set_len(0).unwrap()),
        // Bytes after its last frame belong to an earlier log and do not matter.
        ("cut in its second frame", |log, _| log.set_len(5000).unwrap()),
        ("an older copy", |log, older| {
            log.set_len(0).unwrap();
            log.write_all_at(older, 0).unwrap();
        }),
        ("another header", |log, _| log.write_all_at(&[7; 8], 16).unwrap()),
        // Only a full check finds this one.
        ("a byte in the middle", |log, _| log.write_all_at(&[201], 32 + 24 + 1000).unwrap()),
    ];
    for (name, strike) in strikes {
        for is_closed in [false, true] {
            let (_directory, path, mut store, lease) = fresh();
            let (log, events) = (format!("{}-wal", path.display()), journal(60));
            store.append(&lease, NOW, &events[..20]).unwrap();
            let older = fs::read(&log).unwrap();
            store.checkpoints.at_once();
            // Written back, and begun anew.
            store.changed().unwrap();
            store.checkpoints = Checkpoints::default();
            store.append(&lease, NOW, &events[20..40]).unwrap();
            strike(&fs::OpenOptions::new().write(true).open(&log).unwrap(), &older);
            if !is_closed {
                store.checkpoints.at_once();
                let error = store.append(&lease, NOW, &events[40..]).expect_err(name);
                assert!(
                    matches!(error, StorageError::Exchanged { rescue: Rescue::Damaged, .. }),
                    "{name}: {error:?}"
                );
                assert_says(&error, &["was truncated or overwritten"]);
                assert!(
                    store.release(&lease).is_err() && store.changed().is_err(),
                    "nothing more is written"
                );
            }
            drop(store);
            assert_eq!(stored(&path, &lease), 20, "{name}");
            assert_sound(&path);
        }
    }
}

#[test]
fn new_frames_that_are_changed_before_they_are_seen_are_not_written_back() {
    use std::os::unix::fs::FileExt as _;
    // The salts of a header are seen by the next look, a page by the check of the whole log.
    for (within, is_seen_at_once) in [(8, true), (24 + 1000, false)] {
        let (_directory, path, mut store, lease) = fresh();
        store.append(&lease, NOW, &journal(20)).unwrap();
        store.checkpoints.at_once();
        store.changed().unwrap();
        store.checkpoints = Checkpoints::default();
        store.append(&lease, NOW, &journal(40)[20..]).unwrap();
        let other = Connection::open(&path).unwrap();
        let frames = "PRAGMA wal_checkpoint(NOOP)";
        let frames: u32 = other.query_row(frames, [], |row| row.get(1)).unwrap();
        for _ in 0..3 {
            other.execute("UPDATE store SET salt = hex(randomblob(16))", []).unwrap();
        }
        drop(other);
        let log = fs::OpenOptions::new().write(true).open(format!("{}-wal", path.display()));
        log.unwrap()
            .write_all_at(&[201; 8], 32 + u64::from(frames) * (24 + 4096) + within)
            .unwrap();
        assert_eq!(store.changed().is_err(), is_seen_at_once);
        store.checkpoints.at_once();
        let error = store.append(&lease, NOW, &[]).unwrap_err();
        assert_says(&error, &["was truncated or overwritten"]);
        drop(store);
        assert_eq!(stored(&path, &lease), 20);
        assert_sound(&path);
    }
}

#[test]
fn another_writer_that_comes_to_a_damaged_log_does_not_write_it_back_either() {
    let (_directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(20)).unwrap();
    let log = format!("{}-wal", path.display());
    store.checkpoints.at_once();
    store.changed().unwrap();
    store.checkpoints = Checkpoints::default();
    store.append(&lease, NOW, &journal(40)[20..]).unwrap();
    cut(&log, 0);
    let other = SqliteStore::open(&path);
    assert!(
        other.is_err()
            || other
                .is_ok_and(|mut other| other.changed().is_err() || other.renew_identity().is_err())
    );
    assert!(store.changed().is_err());
    drop(store);
    assert_eq!(stored(&path, &lease), 20);
    assert_sound(&path);
}

#[test]
fn an_index_that_is_cut_is_seen_before_it_is_touched() {
    let (_directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(20)).unwrap();
    cut(format!("{}-shm", path.display()), 0);
    let error = store.append(&lease, NOW, &[]).unwrap_err();
    assert_says(&error, &["-shm` was truncated"]);
    drop(store);
    assert_eq!(stored(&path, &lease), 20);
    assert_sound(&path);
}

/// Damage that only a query finds, of each page that a killed writer's log does not have.
#[test]
fn the_log_of_a_store_that_reading_finds_damaged_is_left() {
    let (directory, path, mut store, lease) = fresh();
    store.append(&lease, NOW, &journal(200)).unwrap();
    drop(store);
    let mut store = SqliteStore::open(&path).unwrap();
    store.create_study(NOW, &small_study("another", Direction::Minimize)).unwrap();
    let log = fs::read(format!("{}-wal", path.display())).unwrap();
    let file = fs::read(&path).unwrap();
    assert!(!log.is_empty());
    let page = 4096;
    let frames = log[32..].chunks_exact(24 + page);
    let logged: Vec<usize> =
        frames.map(|frame| u32::from_be_bytes(*frame.first_chunk().unwrap()) as usize).collect();
    let (copy, copied_log) =
        (directory.path().join("copy.db"), directory.path().join("copy.db-wal"));
    let mut found = std::collections::BTreeSet::new();
    for number in 1..=file.len() / page {
        if logged.contains(&number) {
            continue;
        }
        let mut damaged = file.clone();
        damaged[(number - 1) * page..number * page].fill(0xA5);
        fs::write(&copy, &damaged).unwrap();
        fs::write(&copied_log, &log).unwrap();
        let _not_there = fs::remove_file(directory.path().join("copy.db-shm"));
        let Ok(mut store) = SqliteStore::open(&copy) else { continue };
        store.checkpoints.at_once();
        let failed = [
            store.study_state(lease.study).map(drop),
            store.events_after(lease.study, Seq(0), u64::MAX).map(drop),
            store.studies().map(drop),
            store.salt().map(drop),
        ];
        let failed: Vec<StorageError> = failed.into_iter().filter_map(Result::err).collect();
        if failed.is_empty() {
            continue;
        }
        store.checkpoints.note();
        let _may_fail = store.changed();
        drop(store);
        assert!(fs::read(&copy).unwrap() == damaged, "page {number}: {failed:?}");
        assert!(fs::read(&copied_log).unwrap() == log, "page {number}: {failed:?}");
        found.extend(failed.iter().filter_map(|error| match error {
            StorageError::Sqlite { doing, .. } => Some(*doing),
            _ => None,
        }));
    }
    assert!(found.len() > 1, "{found:?}");
}
