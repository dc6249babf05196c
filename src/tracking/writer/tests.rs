//! Tests of writing spools.

use super::*;
use crate::storage::StorageReader as _;
use crate::storage::memory::MemoryStore;
use crate::study::series::SeriesAxis;
use crate::study::time::Timestamp;

/// Noon of a day long past, in microseconds.
const NOON: i64 = 1_600_000_000_000_000;

fn header(more: &str) -> String {
    format!(
        "{{\"spool\":1,\"time\":{NOON},\"study\":\"digits\",\"name\":\"a\",\"id\":\"x\",\
         \"cwd\":\"/\",\"system\":\"off\"{more}}}\n"
    )
}

fn line(second: i64, record: &str) -> String {
    format!("{{\"time\":{},\"line\":{record}}}\n", NOON + second * 1_000_000)
}

/// Takes over a spool whose program has ended.
fn take_over(store: &mut MemoryStore, name: &str, text: &str) {
    let site = tempfile::tempdir().unwrap();
    let spool = site.path().join(name);
    std::fs::write(&spool, text).unwrap();
    let (path, mut notices) = (site.path().join("s.db"), Vec::new());
    let none = Path::new("");
    adopt_spools(site.path(), none, store, &path, &mut |notice| notices.push(notice)).unwrap();
    assert!(!spool.exists(), "{notices:?}");
}

/// The seconds of the points of a metric by step, of the first run of a store.
fn seconds(store: &MemoryStore, metric: &str) -> Vec<i64> {
    let study = store.study("digits").unwrap().unwrap().id;
    let all = f64::MIN..=f64::MAX;
    let points = store.series_points(study, TrialNumber(0), metric, SeriesAxis::Step, all).unwrap();
    points.into_iter().map(|point| (point.at.0 - NOON) / 1_000_000).collect()
}

fn lasted(store: &MemoryStore) -> Vec<(i64, i64)> {
    let study = store.study("digits").unwrap().unwrap().id;
    let since = |at: Timestamp| (at.0 - NOON) / 1_000_000;
    let attempts = store.attempts(study, Some(TrialNumber(0))).unwrap().into_iter();
    attempts.map(|one| (since(one.started), since(one.ended.unwrap()))).collect()
}

#[test]
fn what_is_taken_over_later_has_the_times_of_its_lines() {
    let mut store = MemoryStore::new();
    let lines = [
        line(10, "{\"loss\":0.5,\"step\":1}"),
        line(20, "{\"loss\":0.4,\"step\":2}"),
        line(25, "{\"acc\":0.7,\"step\":2}"),
        // The clock is set back.
        line(-60, "{\"loss\":0.3,\"step\":3}"),
        line(40, "{\"loss\":0.2,\"step\":4}"),
    ];
    take_over(&mut store, "x.1.jsonl", &format!("{}{}", header(""), lines.concat()));
    assert_eq!(seconds(&store, "loss"), [10, 20, 25, 40]);
    assert_eq!(seconds(&store, "acc"), [25]);
    assert_eq!(lasted(&store), [(0, 40)]);
    let study = store.study("digits").unwrap().unwrap();
    let trial = store.trial(study.id, TrialNumber(0)).unwrap().unwrap();
    assert_eq!(trial.busy_micros, 40_000_000);
    // A later attempt, with its end.
    let end = format!("{{\"finish\":\"complete\",\"time\":{}}}\n", NOON + 90_000_000);
    let again = header(",\"resume\":\"x\"");
    let again = again.replace(&NOON.to_string(), &(NOON + 50_000_000).to_string());
    let lines = line(60, "{\"loss\":0.1,\"step\":1}");
    take_over(&mut store, "x.2.jsonl", &format!("{again}{lines}{end}"));
    assert_eq!(lasted(&store), [(0, 40), (50, 90)]);
    assert_eq!(seconds(&store, "loss"), [60]);
}
