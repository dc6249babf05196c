//! Writers that are stopped and continued at any moment, while connections are cut and the server
//! is restarted: nothing stale is written, nothing acknowledged is lost, nothing is written twice.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::storage::{Holder, Lease, Takeover};
use crate::study::event::{Event, Seq, StudyEvent};

/// Studies at a time, with two writers each.
const STUDIES: usize = 8;

/// What a writer is told: the address, the study and its log.
const WRITER: &str = "HPSEARCH_TEST_WRITER";

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A process that writes to a study whenever it gets the lease. Not a test by itself.
#[test]
#[ignore = "a process of the test below"]
fn writer() {
    let Ok(told) = std::env::var(WRITER) else { return };
    let mut told = told.split('\n');
    let (url, study, log) = (told.next().unwrap(), told.next().unwrap(), told.next().unwrap());
    let study = StudyId(study.parse().unwrap());
    let mut log = OpenOptions::new().create(true).append(true).open(log).unwrap();
    let holder =
        Holder { pid: std::process::id(), pid_started: 1, host: "test".to_owned(), boot_id: None };
    loop {
        let Ok(mut store) = PostgresStore::open(url) else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        while let Ok(lease) = acquired(&mut store, study, &holder) {
            hold(&mut store, &lease, &holder, &mut log);
        }
    }
}

fn acquired(
    store: &mut PostgresStore,
    study: StudyId,
    holder: &Holder,
) -> Result<Lease, StorageError> {
    loop {
        match store.acquire(study, holder, Timestamp(1), Takeover::IfFree) {
            Err(StorageError::Busy { .. }) => std::thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
}

/// Writes numbered notes until it is fenced; logs what was acknowledged.
fn hold(store: &mut PostgresStore, lease: &Lease, holder: &Holder, log: &mut File) {
    let mut renewed = Instant::now();
    for count in 0_u64.. {
        if renewed.elapsed() > Duration::from_millis(250) {
            renewed = Instant::now();
            if store.renew(lease, holder).is_err() {
                return;
            }
        }
        let text = format!("{} {count} {}", lease.epoch, holder.pid);
        let event = Event::Study(StudyEvent::Noted { text: text.clone() });
        match store.append(lease, Timestamp(2), &[event]) {
            Ok(_) => log.write_all(format!("{text}\n").as_bytes()).unwrap(),
            Err(_) => return,
        }
    }
}

struct Writers(Vec<Child>);

impl Drop for Writers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _gone_already = child.kill();
            let _gone_already = child.wait();
        }
    }
}

fn signal(name: &str, pid: u32) {
    Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server: tests/peers/postgres.sh"]
fn writers_that_are_stopped_past_the_end_of_their_lease_write_nothing_stale() {
    let directory = tempfile::tempdir().unwrap();
    let url = fresh();
    let rounds = number("HPSEARCH_TEST_ROUNDS", 40);
    let restart = std::env::var("HPSEARCH_TEST_RESTART").ok();
    let mut store = PostgresStore::open(&url).unwrap();
    let mut studies = Vec::new();
    let mut writers = Writers(Vec::new());
    for index in 0..STUDIES {
        let spec = small_study(&format!("s{index}"), Direction::Minimize);
        let study = store.create_study(Timestamp(1), &spec).unwrap();
        let log = directory.path().join(format!("{index}"));
        for _ in 0..2 {
            let told = format!("{url}\n{}\n{}", study.0, log.display());
            writers.0.push(
                Command::new(std::env::current_exe().unwrap())
                    .args(["storage::postgres::tests::chaos::writer", "--exact", "--ignored"])
                    .env(WRITER, told)
                    .env("HPSEARCH_LEASE", "1")
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap(),
            );
        }
        studies.push((study, log));
    }
    let taken: usize = std::thread::scope(|scope| {
        let storms: Vec<_> = (0..STUDIES)
            .map(|index| {
                let (url, study, restart) = (&url, studies[index].0, restart.as_deref());
                let own = rounds / STUDIES as u64;
                scope.spawn(move || storm(url, study, index as u64, own, restart))
            })
            .collect();
        storms.into_iter().map(|storm| storm.join().unwrap()).sum()
    });
    drop(writers);
    let mut written = 0;
    for (study, log) in &studies {
        written += assert_nothing_stale(&url, *study, log);
    }
    println!("{rounds} rounds, {taken} takeovers, {written} writes, none of them stale");
    assert!(taken as u64 >= rounds / 4, "most stops are longer than the lease");
}

/// Stops and continues the holder of a study, and cuts connections; returns the number of
/// takeovers.
fn storm(url: &str, study: StudyId, seed: u64, rounds: u64, restart: Option<&str>) -> usize {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |below: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let holder = || loop {
        let held = PostgresReader::open(url).and_then(|reader| reader.summary(study));
        if let Ok(Some(held)) = held.map(|summary| summary.held) {
            return held.holder.pid;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut taken = 0;
    for round in 0..rounds {
        let before = holder();
        std::thread::sleep(Duration::from_millis(draw(60)));
        signal("-STOP", before);
        let until = Instant::now() + Duration::from_millis(600 + draw(1400));
        if seed == 0 && round % 3 == 2 {
            if let Some(restart) = restart {
                assert!(Command::new("sh").args(["-c", restart]).status().unwrap().success());
            }
        } else if draw(4) == 0 {
            let login = Login::of(url).unwrap();
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> \
                pg_backend_pid() AND application_name = 'hpsearch' AND random() < 0.3";
            let _refused_while_it_restarts =
                Session::connect(login, Duration::ZERO).and_then(|session| session.batch(cut));
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        let now = holder();
        taken += usize::from(now != before);
        signal("-CONT", before);
    }
    taken
}

/// The journal has the epochs in order, each of one process, with consecutive counts; and all that
/// was acknowledged. Returns the number of entries.
fn assert_nothing_stale(url: &str, study: StudyId, log: &PathBuf) -> usize {
    let reader = PostgresReader::open(url).unwrap();
    let journal = reader.events_after(study, Seq(0), u64::MAX).unwrap();
    let mut written: BTreeMap<(i64, u64), u32> = BTreeMap::new();
    let mut last: Option<(i64, u64, u32)> = None;
    for (_, _, event) in &journal {
        let Event::Study(StudyEvent::Noted { text }) = event else { continue };
        let words: Vec<&str> = text.split(' ').collect();
        let now: (i64, u64, u32) =
            (words[0].parse().unwrap(), words[1].parse().unwrap(), words[2].parse().unwrap());
        match last {
            Some((epoch, count, pid)) if epoch == now.0 => {
                assert_eq!((now.1, now.2), (count + 1, pid), "twice, lost, or of two processes");
            }
            Some((epoch, ..)) => assert!(now.0 > epoch, "stale: {now:?} after {last:?}"),
            None => {}
        }
        written.insert((now.0, now.1), now.2);
        last = Some(now);
    }
    for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let key = (words[0].parse().unwrap(), words[1].parse().unwrap());
        assert!(written.contains_key(&key), "`{line}` was acknowledged and is lost");
    }
    assert_eq!(reader.summary(study).unwrap().notes.len(), written.len());
    written.len()
}
