//! Eight workers write trials as fast as they can while another process reads as fast as it can:
//! nobody waits, nothing fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hpsearch::storage::StorageReader;
use hpsearch::storage::any::AnyReader;
use hpsearch::study::event::Seq;
use hpsearch::study::query::{SortKey, TrialQuery};
use hpsearch::study::spec::AlgorithmSpec;
use hpsearch::{Study, TrialEnd};

const TRIALS: u64 = 2000;

/// Where the reader's store is; it reads until the file `stop` beside it is there.
const STORE: &str = "HPSEARCH_TEST_READS";

#[test]
#[ignore = "a measurement: cargo test --release --test it -- --ignored readers::trials"]
fn trials_of_eight_workers_keep_no_reader_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hpsearch.db");
    let mut reader = Command::new(std::env::current_exe().unwrap());
    reader
        .args(["--ignored", "--exact", "readers::read_as_fast_as_possible", "--nocapture"])
        .env(STORE, &path);
    let reader =
        reader.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let finished = Study::minimize("many", "loss")
        .float("x", 0.0, 1.0)
        .trials(TRIALS)
        .sampler(AlgorithmSpec::named("random"))
        .threads(8)
        .store(&path)
        .run(|trial| {
            let x = trial.number_of("x")?;
            trial.report(1, x);
            Ok(TrialEnd::Finished)
        });
    let took = began.elapsed();
    fs::write(directory.path().join("stop"), "").unwrap();
    let read = reader.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&read.stdout).into_owned();
    assert_eq!(finished.unwrap().state.counts.complete, TRIALS);
    assert!(read.status.success(), "{said}\n{}", String::from_utf8_lossy(&read.stderr));
    let figures: Vec<f64> = said
        .lines()
        .find_map(|line| line.strip_prefix("reads: "))
        .unwrap()
        .split(' ')
        .map(|word| word.parse().unwrap())
        .collect();
    let [reads, longest_wait, longest] = figures[..] else { panic!("{said}") };
    println!(
        "{TRIALS} trials in {:.1} s; {reads} reads, longest wait {longest_wait:.1} ms, longest \
         read {longest:.1} ms",
        took.as_secs_f64()
    );
    assert!(reads >= 20.0, "{said}");
    assert!(longest_wait < 100.0, "a reader waited for {longest_wait} ms");
    let outsider = rusqlite::Connection::open(&path).unwrap();
    let verdict: String =
        outsider.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// How long this thread has computed, and how long it has waited for a processor: what remains, it
/// waited for something else.
fn busy() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(
        text.split_whitespace().take(2).filter_map(|word| word.parse::<u64>().ok()).sum(),
    )
}

#[test]
#[ignore = "the reading process of the test above"]
fn read_as_fast_as_possible() {
    let Some(path) = std::env::var_os(STORE).map(PathBuf::from) else { return };
    let stop = path.with_file_name("stop");
    let mut reader = opened(&path, &stop).expect("there is a store to read");
    let study = loop {
        if let Some(study) = reader.study("many").unwrap() {
            break study.id;
        }
    };
    let (mut reads, mut longest_wait, mut longest) = (0_u64, Duration::ZERO, Duration::ZERO);
    while !stop.exists() {
        for what in 0..4 {
            let (began, was_busy) = (Instant::now(), busy());
            match what {
                0 => drop(reader.changed().unwrap()),
                1 => drop(reader.summary(study).unwrap()),
                2 => drop(
                    reader.trials(study, &TrialQuery::all(SortKey::Value).page(0, 60)).unwrap(),
                ),
                _ => drop(reader.events_before(study, Seq(i64::MAX), 100).unwrap()),
            }
            let took = began.elapsed();
            longest = longest.max(took);
            longest_wait = longest_wait.max(took.saturating_sub(busy().saturating_sub(was_busy)));
            reads += 1;
        }
    }
    println!(
        "reads: {reads} {:.3} {:.3}",
        longest_wait.as_secs_f64() * 1e3,
        longest.as_secs_f64() * 1e3
    );
}

fn opened(path: &Path, stop: &Path) -> Option<AnyReader> {
    while !stop.exists() {
        match AnyReader::open(path) {
            Ok(reader) => return Some(reader),
            // It is just being made.
            Err(hpsearch::storage::StorageError::Missing { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    None
}
