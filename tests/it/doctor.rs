//! What `doctor` finds: nothing on a sound store, and every kind of damage with the step that
//! repairs it.

use std::fs;
use std::process::Command;

use hpsearch::storage::sqlite::SqliteStore;
use hpsearch::storage::{Holder, Storage, StorageReader, Takeover};
use hpsearch::study::event::{AttemptEvent, Event};
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, TrialNumber};
use serde_json::Value as Json;

use crate::harness::{Scene, Site, assert_done, assert_names};

fn findings(scene: &Scene) -> (i32, Vec<Json>) {
    let ran = scene.run(&["doctor", "--json"]);
    let answer: Json = ran.json();
    assert_eq!(answer["version"], 1);
    (ran.code, answer["findings"].as_array().unwrap().clone())
}

fn of<'a>(findings: &'a [Json], check: &str) -> &'a Json {
    findings
        .iter()
        .find(|finding| finding["check"] == check)
        .unwrap_or_else(|| panic!("no `{check}` in {findings:?}"))
}

#[test]
fn a_sound_store_has_nothing_broken() {
    let mut scene = Scene::digits();
    scene.leave();
    let (code, found) = findings(&scene);
    assert_eq!(code, 0, "{found:?}");
    assert_eq!(
        (
            &of(&found, "soundness")["state"],
            &of(&found, "store")["state"],
            &of(&found, "directory")["state"]
        ),
        (&"ok".into(), &"ok".into(), &"ok".into())
    );
    assert!(found.iter().all(|finding| finding["state"] == "ok" || finding["next"].is_string()));
    let said = scene.run(&["doctor"]);
    assert_names(&said.out, &["ok      soundness every table, index and reference is in order\n"]);
    assert!(said.out.ends_with(" 0 broken\n"), "{}", said.out);
}

#[test]
fn a_damaged_store_is_broken_and_the_exit_code_says_so() {
    let mut scene = Scene::digits();
    scene.leave();
    let path = scene.path("runs/hpsearch.db");
    // The write-ahead log goes into the file when the last connection closes.
    let site = scene.close();
    let mut bytes = fs::read(&path).unwrap();
    let page = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let middle = bytes.len() / page / 2 * page;
    bytes[middle..middle + page].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    let ran = site.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert_names(&ran.out, &["broken  ", ".recover"]);
}

#[test]
fn a_runner_that_died_and_the_process_it_left_are_found() {
    let mut scene = Scene::digits();
    scene.leave();
    let mut left = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = left.id();
    let started = hpsearch::runner::processes::start_time(pid).unwrap();
    let study =
        hpsearch::storage::StorageReader::study(&scene.store, "digits").unwrap().unwrap().id;
    let dead = Holder {
        pid: u32::MAX,
        pid_started: 1,
        host: hpsearch::runner::processes::host(),
        boot_id: None,
    };
    let lease = scene.store.acquire(study, &dead, Timestamp(0), Takeover::IfFree).unwrap();
    let launched = Event::of(
        TrialNumber(3),
        AttemptEvent::Launched { attempt: AttemptNumber(0), pid, pid_started: started },
    );
    scene.store.append(&lease, Timestamp(1), &[launched]).unwrap();
    let (code, found) = findings(&scene);
    left.kill().unwrap();
    left.wait().unwrap();
    assert_eq!(code, 0, "{found:?}");
    assert!(
        of(&found, "runner")["message"].as_str().unwrap().contains("was left by process"),
        "{found:?}"
    );
    assert!(
        of(&found, "processes")["next"].as_str().unwrap().contains(&format!("`kill {pid}`")),
        "{found:?}"
    );
}

#[test]
fn a_study_of_tracked_runs_whose_removal_was_killed_is_freed_by_the_next_import() {
    let site = Site::new("", "");
    site.write("t.csv", "lr,loss\n0.1,0.5\n");
    assert_done(&site.run(&["import", "t.csv"]));
    let mut store = SqliteStore::open(&site.path("runs/hpsearch.db")).unwrap();
    let study = StorageReader::study(&store, "t").unwrap().unwrap().id;
    let host = hpsearch::runner::processes::host();
    let dead = Holder { pid: u32::MAX, pid_started: 1, host, boot_id: None };
    store.acquire(study, &dead, Timestamp(0), Takeover::IfFree).unwrap();
    drop(store);
    let finding = || {
        let answer: Json = site.json(&["doctor", "--json"]);
        let found = answer["findings"].as_array().unwrap().clone();
        found.into_iter().find(|finding| finding["check"] == "runner")
    };
    let found = finding().unwrap();
    assert_names(
        &found.to_string(),
        &["was killed while it renamed, copied or removed `t`", "`hpsearch import`"],
    );
    assert!(!found.to_string().contains("hpsearch run"), "{found}");
    let again = site.run(&["import", "t.csv"]);
    assert_done(&again);
    assert_names(&again.err, &["1 was there"]);
    assert_eq!(finding(), None);
}

#[test]
fn without_a_store_the_doctor_says_what_makes_one() {
    let site = Site::empty();
    let ran = site.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert_names(
        &ran.out,
        &["there is none at `runs/hpsearch.db` yet: `hpsearch run` creates one"],
    );
    assert!(fs::read_dir(site.path("")).unwrap().next().is_none());
}

#[test]
fn an_entry_of_the_journal_that_cannot_be_read_is_found() {
    let mut scene = Scene::digits();
    scene.leave();
    let store = rusqlite::Connection::open(scene.path("runs/hpsearch.db")).unwrap();
    let changed = "UPDATE event SET body = '{\"type\":\"zzz\"}' WHERE seq = 5";
    assert_eq!(store.execute(changed, []).unwrap(), 1);
    let (code, found) = findings(&scene);
    assert_ne!(code, 0);
    let journal = of(&found, "journal");
    assert_eq!(journal["state"], "broken");
    assert_names(journal["message"].as_str().unwrap(), &["study `digits`", "seq 5", "zzz"]);
}
