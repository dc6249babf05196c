//! How long lists of a large study take: `cargo bench --bench listing`.
//!
//! A store of 100,000 trials with 5 parameters and 10 reports of two metrics each is written
//! through [`Storage`]; then each question is asked several times of one open reader, and the
//! median answer is told: how long it took, and how much of that the processor worked for it (the
//! same where nobody else wants the processor). `cargo bench --bench listing -- PATH [TRIALS]`
//! keeps the store at PATH, and asks the one that is there already.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::RngExt as _;

use hpsearch::samplers::conformance::dimension;
use hpsearch::storage::any::{AnyReader, AnyStore};
use hpsearch::storage::{Holder, OutcomeCursor, Storage, StorageReader, StudyId, Takeover};
use hpsearch::study::decision::{Decision, Reason};
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{AttemptEnd, AttemptEvent, DecisionEvent, Event, TrialEvent};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::{Params, Value};
use hpsearch::study::program::Program;
use hpsearch::study::query::{Filter, SortKey, TrialQuery};
use hpsearch::study::seed::{SeedTree, StreamRng};
use hpsearch::study::space::{Distribution, Scale, Space};
use hpsearch::study::spec::StudySpec;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};

const TRIALS: u64 = 100_000;
const STEPS: u64 = 10;
const NAME: &str = "listing";
const ROUNDS: usize = 9;
/// As many as a tall terminal shows.
const PAGE: u64 = 60;

fn main() {
    // cargo adds `--bench`.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let trials = arguments.get(1).map_or(TRIALS, |trials| {
        trials.parse().expect("the second argument is a number of trials")
    });
    let directory = tempfile::tempdir().unwrap();
    let path =
        arguments.first().map_or_else(|| directory.path().join("hpsearch.db"), PathBuf::from);
    if !path.exists() {
        let began = Instant::now();
        write(&path, trials);
        println!(
            "{trials} trials written in {:.1} s: {:.0} MB",
            began.elapsed().as_secs_f64(),
            path.metadata().unwrap().len() as f64 / 1e6
        );
    }
    ask(&path);
}

fn spec() -> StudySpec {
    let axes = [
        ("learning_rate", Distribution::float(1e-5, 1e-1, Scale::Log, None)),
        ("weight_decay", Distribution::float(0.0, 0.5, Scale::Linear, None)),
        ("model.num_layers", Distribution::int(1, 12, Scale::Linear, 1)),
        (
            "per_device_train_batch_size",
            Distribution::choice([8i64, 16, 32, 64].map(Value::from).to_vec()),
        ),
        ("optim", Distribution::choice(["adamw", "sgd", "lion"].map(Value::from).to_vec())),
    ];
    let space = Space::new(
        axes.into_iter().map(|(name, axis)| dimension(name, axis.unwrap(), &[])).collect(),
    )
    .unwrap();
    StudySpec::new(NAME, "eval_loss", Direction::Minimize, space, Program::Inline)
}

/// A study whose trials end as those of a search do.
fn write(path: &Path, trials: u64) {
    let mut store = AnyStore::open(path).unwrap();
    let spec = spec();
    let study = store.create_study(Timestamp(0), &spec).unwrap();
    let holder = Holder { pid: 1, pid_started: 1, host: "bench".to_owned(), boot_id: None };
    let lease = store.acquire(study, &holder, Timestamp(0), Takeover::IfFree).unwrap();
    let mut rng = SeedTree::new(1).stream("listing");
    let mut events = Vec::new();
    for number in 0..trials {
        trial(&spec, TrialNumber(number), &mut rng, &mut events);
        if events.len() > 20_000 {
            store.append(&lease, Timestamp(number.cast_signed() * 1_000_000), &events).unwrap();
            events.clear();
        }
    }
    store.append(&lease, Timestamp(trials.cast_signed() * 1_000_000), &events).unwrap();
    store.release(&lease).unwrap();
}

fn trial(spec: &StudySpec, trial: TrialNumber, rng: &mut StreamRng, events: &mut Vec<Event>) {
    let mut params = Params::new();
    for dimension in spec.space.dimensions() {
        params.insert(dimension.name.as_str(), dimension.distribution.from_unit(rng.random()));
    }
    let attempt = AttemptNumber(0);
    let (floor, fate): (f64, f64) = (rng.random(), rng.random());
    let steps = if fate < 0.6 { STEPS } else { rng.random_range(1..=STEPS) };
    events.push(Event::Trial(
        trial,
        TrialEvent::created(params, Origin::Sampled("tpe-independent".to_owned())),
    ));
    let slot = Slot::on(0, Device::Cpu);
    events.push(Event::of(
        trial,
        AttemptEvent::Started {
            attempt,
            slot,
            resume: None,
            until: None,
            rows_at_once: None,
            device_micros: 0,
        },
    ));
    for step in 1..=steps {
        let value = floor + 1.0 / step as f64;
        let metrics =
            [("eval_loss".to_owned(), value), ("eval_accuracy".to_owned(), 1.0 / (1.0 + value))]
                .into_iter()
                .collect();
        events.push(Event::of(trial, AttemptEvent::reported(attempt, step, metrics)));
    }
    let reason = format!("rank 9 of 12 at step {steps}; 4 go on");
    let (end, state, value, reason) = match fate {
        ..0.6 => {
            (AttemptEnd::Completed, TrialState::Complete, Some(floor + 1.0 / steps as f64), None)
        }
        ..0.95 => {
            events.push(Event::of(
                trial,
                DecisionEvent::Decided {
                    step: steps,
                    verdict: Decision::Stop(Reason::Recorded(reason.clone())),
                },
            ));
            (AttemptEnd::Stopped, TrialState::Pruned, None, Some(reason))
        }
        _ => (AttemptEnd::Diverged, TrialState::Failed, None, Some("exit code 1".to_owned())),
    };
    events.push(Event::of(
        trial,
        AttemptEvent::Ended {
            attempt,
            end,
            reason: None,
            device_micros: None,
            memory: None,
            superseded: Default::default(),
        },
    ));
    events.push(Event::Trial(trial, TrialEvent::finished(state, value, reason)));
}

fn ask(path: &Path) {
    let reader = AnyReader::open(path).unwrap();
    let stored = reader.study(NAME).unwrap().expect("the study of an earlier run");
    let (study, spec) = (stored.id, stored.spec);
    let names = reader.trial_names(study).unwrap();
    println!("{:<52} {:>12} {:>12}", "question", "ms", "processor ms");
    for (sort, filter) in [
        ("value", ""),
        ("-value", ""),
        ("number", ""),
        ("-number", ""),
        ("step", ""),
        ("learning_rate", ""),
        ("-optim", ""),
        ("eval_accuracy", ""),
        ("value", "learning_rate>1e-3 optim=adamw"),
        ("value", "value<0.5"),
        ("value", "eval_accuracy>0.8"),
        ("value", "state:pruned"),
        ("value", "state:running"),
        ("value", "reason:rank"),
        ("value", "adamw"),
        ("learning_rate", "num_layers=4 state:complete"),
    ] {
        let (key, reverse) = SortKey::parse_with(sort, &spec, &names).unwrap();
        let filter_of = Filter::parse_with(filter, &spec, &names).unwrap();
        let query =
            TrialQuery::all(key).reversed(reverse).filtered(filter_of.clone()).page(0, PAGE);
        told(
            &format!("page by {sort}, {}", if filter.is_empty() { "all" } else { filter }),
            || reader.trials(study, &query).unwrap(),
        );
        if !filter.is_empty() {
            told(&format!("count {filter}"), || reader.count(study, &filter_of).unwrap());
        }
    }
    let deep = TrialQuery::all(SortKey::Value).page(50_000, PAGE);
    told("page by value from 50,000", || reader.trials(study, &deep).unwrap());
    told("summary (counts and the best)", || reader.summary(study).unwrap());
    told("count, all", || reader.count(study, &Filter::all()).unwrap());
    told("outcomes, first", || reader.outcomes(study, OutcomeCursor::default()).unwrap());
    let (_, cursor) = reader.outcomes(study, OutcomeCursor::default()).unwrap();
    told("outcomes, nothing changed", || reader.outcomes(study, cursor).unwrap());
    increments(path, study, cursor);
    let best: Vec<TrialNumber> = reader
        .trials(study, &TrialQuery::all(SortKey::Value).page(0, 1000))
        .unwrap()
        .iter()
        .map(|trial| trial.number)
        .collect();
    told("curves of 1,000 trials", || reader.curves(study, "eval_accuracy", &best).unwrap());
    told("names of metrics", || reader.metrics(study).unwrap());
}

/// Outcomes after a turn of the runner, which another connection writes.
fn increments(path: &Path, study: StudyId, cursor: OutcomeCursor) {
    let copy = tempfile::tempdir().unwrap();
    let path = {
        let to = copy.path().join("hpsearch.db");
        std::fs::copy(path, &to).unwrap();
        to
    };
    let mut store = AnyStore::open(&path).unwrap();
    let holder = Holder { pid: 1, pid_started: 1, host: "bench".to_owned(), boot_id: None };
    let lease = store.acquire(study, &holder, Timestamp(0), Takeover::IfFree).unwrap();
    let report = |trial| {
        Event::of(
            TrialNumber(trial),
            AttemptEvent::reported(
                AttemptNumber(0),
                11,
                std::iter::once(("eval_loss".to_owned(), 0.5)).collect(),
            ),
        )
    };
    store
        .append(&lease, Timestamp(0), &(0..20).map(|index| report(index * 997)).collect::<Vec<_>>())
        .unwrap();
    told("outcomes after 20 reports", || store.outcomes(study, cursor).unwrap());
}

fn told<T>(question: &str, mut answer: impl FnMut() -> T) {
    let mut times: Vec<(Duration, Duration)> = (0..ROUNDS)
        .map(|_| {
            let (began, worked) = (Instant::now(), processor_time());
            black_box(answer());
            (began.elapsed(), processor_time() - worked)
        })
        .collect();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    times.sort_unstable();
    let elapsed = milliseconds(times[ROUNDS / 2].0);
    times.sort_unstable_by_key(|(_, worked)| *worked);
    println!("{question:<52} {elapsed:>12.2} {:>12.2}", milliseconds(times[ROUNDS / 2].1));
}

/// What this thread had of a processor so far.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(
        text.split_whitespace()
            .next()
            .and_then(|nanoseconds| nanoseconds.parse().ok())
            .unwrap_or(0),
    )
}
