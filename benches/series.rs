//! How fast points of series are written, and curves of them read: `cargo bench --bench series`.
//!
//! A million points of one series, then ten million points in all of many series, are appended
//! through [`Storage`] in transactions of 10,000; then curves of 1,000 pixels, lists and pages are
//! read several times, and the median is printed.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use hpsearch::storage::any::{AnyReader, AnyStore};
use hpsearch::storage::{Holder, Lease, Storage, StorageReader, StudyId, Takeover};
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{AttemptEvent, Event, TrialEvent};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::query::{SortKey, TrialQuery};
use hpsearch::study::series::{LoggedPoint, LoggedSeries, SeriesAxis};
use hpsearch::study::space::Space;
use hpsearch::study::spec::StudySpec;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, Origin, TrialNumber};

const LONG: u32 = 1_000_000;
const TRIALS: u64 = 90;
const SERIES: u32 = 10;
const POINTS: u32 = 10_000;
const BATCH: u32 = 10_000;
const PIXELS: usize = 1_000;
const ROUNDS: usize = 9;
const CLOCK: SeriesAxis = SeriesAxis::Step;

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hpsearch.db");
    let mut store = AnyStore::open(&path).unwrap();
    let program = Program::Inline;
    let spec = StudySpec::new("s", "loss", Direction::Minimize, Space::default(), program);
    let study = store.create_study(Timestamp(0), &spec).unwrap();
    let holder = Holder { pid: 1, pid_started: 1, host: "bench".to_owned(), boot_id: None };
    let lease = store.acquire(study, &holder, Timestamp(0), Takeover::IfFree).unwrap();
    for trial in 0..=TRIALS {
        begin(&mut store, &lease, TrialNumber(trial));
    }
    let began = Instant::now();
    for from in (0..LONG).step_by(BATCH as usize) {
        let points = batch(TrialNumber(0), "loss", from, BATCH);
        store.append_logged(&lease, Timestamp(1), &[], &[points]).unwrap();
    }
    written("one series", LONG, began.elapsed());
    ask(&path, study, "1 million points in the store");
    let began = Instant::now();
    for trial in 1..=TRIALS {
        // A second of a trial that logs ten metrics at 1,000 steps.
        for from in (0..POINTS).step_by(1_000) {
            let logged: Vec<LoggedSeries> = (0..SERIES)
                .map(|metric| batch(TrialNumber(trial), &format!("metric {metric}"), from, 1_000))
                .collect();
            store.append_logged(&lease, Timestamp(1), &[], &logged).unwrap();
        }
    }
    let many = u32::try_from(TRIALS).unwrap() * SERIES * POINTS;
    written(&format!("{} series", TRIALS * u64::from(SERIES)), many, began.elapsed());
    println!("{:.0} MB", path.metadata().unwrap().len() as f64 / 1e6);
    ask(&path, study, "10 million points in the store");
}

fn begin(store: &mut AnyStore, lease: &Lease, trial: TrialNumber) {
    let origin = Origin::Sampled("random".to_owned());
    let slot = Slot::on(0, Device::Cpu);
    let started = TrialEvent::Attempt(AttemptEvent::Started {
        attempt: AttemptNumber(0),
        slot,
        resume: None,
        until: None,
        rows_at_once: None,
        device_micros: 0,
    });
    let created = TrialEvent::created(Params::new(), origin);
    let events = [Event::Trial(trial, created), Event::Trial(trial, started)];
    store.append(lease, Timestamp(0), &events).unwrap();
}

fn batch(trial: TrialNumber, metric: &str, from: u32, count: u32) -> LoggedSeries {
    let point = |step: u32| LoggedPoint {
        step: Some(f64::from(step)),
        value: (f64::from(step) * 0.01).sin() / (1.0 + f64::from(step)),
        at: Timestamp(1_700_000_000_000_000 + i64::from(step) * 9_137),
    };
    let points = (from..from + count).map(point).collect();
    LoggedSeries {
        trial,
        attempt: AttemptNumber(0),
        metric: metric.to_owned(),
        axis: CLOCK,
        points,
    }
}

fn written(what: &str, points: u32, took: Duration) {
    let rate = f64::from(points) / took.as_secs_f64();
    println!("{points} points of {what} in {:.2} s: {rate:.0} points/s", took.as_secs_f64());
}

fn ask(path: &std::path::Path, study: StudyId, when: &str) {
    let reader = AnyReader::open(path).unwrap();
    let all = f64::NEG_INFINITY..=f64::INFINITY;
    println!("{when}:");
    median("a curve of 1,000 pixels of 1,000,000 points", || {
        let trial = TrialNumber(0);
        let pixels =
            reader.series_pixels(study, trial, "loss", CLOCK, all.clone(), PIXELS).unwrap();
        assert_eq!(pixels.len(), PIXELS);
        black_box(pixels);
    });
    median("the series of 60 trials", || {
        let trials: Vec<_> = (0..60).map(TrialNumber).collect();
        black_box(reader.series(study, &trials).unwrap());
    });
    median("a page of 60 trials", || {
        let query = TrialQuery::all(SortKey::Number).page(0, 60);
        black_box(reader.trials(study, &query).unwrap());
    });
    median("a line of `ls`", || drop(black_box(reader.summary(study).unwrap())));
}

fn median(what: &str, mut ask: impl FnMut()) {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            ask();
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("  {what}: {:.2} ms", times[ROUNDS / 2].as_secs_f64() * 1e3);
}
