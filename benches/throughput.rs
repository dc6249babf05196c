//! How many trials a second the runner and the store get through when trials cost nothing:
//! `cargo bench --bench throughput`.
//!
//! 10,000 trials of 10 parameters and 10 reports each, on 8 slots, through the real [`Runner`] and
//! a [`AnyStore`] in a temporary file. Each case runs in a process of its own, so that its peak
//! memory is its own. `cargo bench --bench throughput -- CASE [TRIALS]` runs one case in this
//! process.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(
    clippy::unwrap_used,
    reason = "axes and histories are constants here, and a benchmark may fail loudly"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;

use hpsearch::engine::{Assignment, Input, RunOutcome};
use hpsearch::pruners;
use hpsearch::runner::inline::{Continue, InlineLauncher, TrialEnd};
use hpsearch::runner::launcher::{Job, LaunchError, Launcher};
use hpsearch::runner::{self, Runner};
use hpsearch::samplers::{self, conformance::dimension};
use hpsearch::storage::any::AnyStore;
use hpsearch::storage::{Storage, StorageReader, StoredStudy};
use hpsearch::study::decision::Decision;
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::AttemptEnd;
use hpsearch::study::metric::{Direction, Metrics};
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::space::{Distribution, Scale, Space};
use hpsearch::study::spec::{AlgorithmSpec, StudySpec};
use hpsearch::study::trial::{AttemptNumber, TrialNumber};

const TRIALS: u64 = 10_000;
const REPORTS: u64 = 10;
const SLOTS: usize = 8;
const METRIC: &str = "loss";

/// What carries out the trials.
#[derive(Clone, Copy)]
enum Workers {
    /// A state machine that answers at once: the runner's and the store's own cost.
    Scripted,
    /// A thread for each trial that waits for every verdict, as the library's closures do.
    Threads,
}

struct Case {
    name: &'static str,
    sampler: &'static str,
    pruner: fn() -> AlgorithmSpec,
    workers: Workers,
}

fn none() -> AlgorithmSpec {
    AlgorithmSpec::named("none")
}

fn asha() -> AlgorithmSpec {
    AlgorithmSpec::named("asha")
        .with("min_resource", 1)
        .with("max_resource", REPORTS)
        .with("reduction_factor", 3)
}

const CASES: &[Case] = &[
    Case { name: "random,none", sampler: "random", pruner: none, workers: Workers::Scripted },
    Case { name: "random,asha", sampler: "random", pruner: asha, workers: Workers::Scripted },
    Case {
        name: "random,none,threads",
        sampler: "random",
        pruner: none,
        workers: Workers::Threads,
    },
];

/// Run when named, not by default: they take minutes where a suggestion takes milliseconds.
const MORE_CASES: &[Case] = &[
    Case {
        name: "random,asha-promote",
        sampler: "random",
        pruner: || asha().with("mode", "promote"),
        workers: Workers::Scripted,
    },
    Case {
        name: "random,median",
        sampler: "random",
        pruner: || AlgorithmSpec::named("median"),
        workers: Workers::Scripted,
    },
    Case {
        name: "tpe-independent,none",
        sampler: "tpe-independent",
        pruner: none,
        workers: Workers::Scripted,
    },
];

fn main() -> ExitCode {
    // cargo adds `--bench`.
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let trials = arguments
        .get(1)
        .map_or(Ok(TRIALS), |trials| trials.parse())
        .expect("the second argument is a number of trials");
    if let Some(name) = arguments.first() {
        let Some(case) = CASES.iter().chain(MORE_CASES).find(|case| case.name == name) else {
            let names: Vec<&str> = CASES.iter().chain(MORE_CASES).map(|case| case.name).collect();
            eprintln!("there is no case `{name}`; there are {}", names.join(" "));
            return ExitCode::from(2);
        };
        run(case, trials);
        return ExitCode::SUCCESS;
    }
    println!("{trials} trials, 10 parameters, {REPORTS} reports each, {SLOTS} slots");
    println!(
        "{:<22} {:>9} {:>9} {:>9} {:>9} {:>15} {:>9} {:>9}",
        "sampler,pruner",
        "seconds",
        "trials/s",
        "user s",
        "system s",
        "trials/CPU s",
        "peak MB",
        "store MB"
    );
    let own = std::env::current_exe().expect("this program has a path");
    let failed = CASES.iter().any(|case| {
        !Command::new(&own).arg(case.name).status().is_ok_and(|status| status.success())
    });
    ExitCode::from(u8::from(failed))
}

fn run(case: &Case, trials: u64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("hpsearch.db");
    let mut spec =
        StudySpec::new("throughput", METRIC, Direction::Minimize, space(), Program::Inline);
    spec.budget.trials = Some(trials);
    spec.sampler = samplers::resolve(case.sampler, BTreeMap::new()).expect("a sampler");
    let pruner = (case.pruner)();
    spec.pruner = pruners::resolve(&pruner.name, pruner.options).expect("a pruner");
    let launcher: Box<dyn Launcher> = match case.workers {
        Workers::Scripted => Box::new(Scripted),
        Workers::Threads => Box::new(InlineLauncher::new(
            Arc::new(|trial| {
                let floor = floor_of(trial.params());
                for step in 1..=REPORTS {
                    if trial.report(step, value_at(floor, step)) == Continue::No {
                        return Ok(TrialEnd::Left);
                    }
                }
                Ok(TrialEnd::Finished)
            }),
            vec![METRIC.to_owned()],
        )),
    };
    let began = Instant::now();
    let peak = {
        let mut store = AnyStore::open(&path).expect("a new store");
        let id = store.create_study(runner::now(), &spec).expect("a new study");
        let study = StoredStudy {
            id,
            spec: spec.clone(),
            extension: Default::default(),
            created: runner::now(),
            directory: None,
        };
        let slots = (0..SLOTS).map(|index| Slot::on(index, Device::Cpu)).collect();
        let runner =
            Runner::start(&mut store, &study, slots, launcher, &path).expect("nobody else runs it");
        let outcome = runner.run().expect("the run ends");
        assert!(matches!(outcome, RunOutcome::Finished(_)), "{outcome:?}");
        // Before the store is read back for the count.
        let peak = peak_memory();
        assert_eq!(store.summary(id).expect("the store is readable").counts.total(), trials);
        peak
    };
    let seconds = began.elapsed().as_secs_f64();
    let (user, system) = processor_time();
    println!(
        "{:<22} {seconds:>9.2} {:>9.0} {user:>9.2} {system:>9.2} {:>15.0} {peak:>9.1} {:>9.1}",
        case.name,
        trials as f64 / seconds,
        trials as f64 / (user + system),
        size(&path)
    );
}

fn space() -> Space {
    let axis = |index: usize| match index {
        0..4 => Distribution::float(1e-6, 1.0, Scale::Log, None).unwrap(),
        4..7 => Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
        7 | 8 => Distribution::int(1, 64, Scale::Log, 1).unwrap(),
        _ => Distribution::choice(vec![
            "sgd".into(),
            "adamw".into(),
            "lion".into(),
            "adagrad".into(),
        ])
        .unwrap(),
    };
    Space::new(
        (0..10).map(|index| dimension(&format!("parameter_{index}"), axis(index), &[])).collect(),
    )
    .unwrap()
}

/// What a point comes to in the end.
fn floor_of(params: &Params) -> f64 {
    let number =
        |name| params.get(name).and_then(|value| value.as_number()).expect("a numeric parameter");
    (number("parameter_4") - 0.3).powi(2) + (number("parameter_0").log10() + 3.0).powi(2) * 0.05
}

fn value_at(floor: f64, step: u64) -> f64 {
    floor + 1.0 / step as f64
}

/// The most memory that this process ever held, in MB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0 / 1e6)
}

/// Processor seconds of all threads of this process: in user code and in the system. On a machine
/// that others use too, these tell more than the seconds on the wall.
fn processor_time() -> (f64, f64) {
    // The fields after the program's name, which may hold anything; in ticks, which Linux shows as
    // 1/100 s.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| {
        fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(f64::NAN)
    };
    (ticks(11) / 100.0, ticks(12) / 100.0)
}

fn size(path: &Path) -> f64 {
    std::fs::metadata(path).map_or(f64::NAN, |metadata| metadata.len() as f64 / 1e6)
}

/// Starts trials that report as soon as they are answered.
struct Scripted;

impl Launcher for Scripted {
    fn launch(
        &mut self,
        assignment: &Assignment,
        inputs: &Sender<Input>,
    ) -> Result<Box<dyn Job>, LaunchError> {
        let mut trial = ScriptedTrial {
            trial: assignment.trial,
            attempt: assignment.attempt,
            floor: floor_of(&assignment.params),
            step: assignment.reported.unwrap_or(0),
            inputs: inputs.clone(),
        };
        trial.go_on();
        Ok(Box::new(trial))
    }
}

struct ScriptedTrial {
    trial: TrialNumber,
    attempt: AttemptNumber,
    floor: f64,
    step: u64,
    inputs: Sender<Input>,
}

impl ScriptedTrial {
    fn go_on(&mut self) {
        if self.step == REPORTS {
            return self.end(AttemptEnd::Completed);
        }
        self.step += 1;
        let metrics: Metrics =
            [(METRIC.to_owned(), value_at(self.floor, self.step))].into_iter().collect();
        let report =
            Input::Report { trial: self.trial, attempt: self.attempt, step: self.step, metrics };
        self.inputs.send(report).expect("the runner waits for it");
    }

    fn end(&self, end: AttemptEnd) {
        let ended = Input::Ended { trial: self.trial, attempt: self.attempt, end, message: None };
        self.inputs.send(ended).expect("the runner waits for it");
    }
}

impl Job for ScriptedTrial {
    fn answer(&mut self, verdict: &Decision) {
        match verdict {
            Decision::Continue(_) => self.go_on(),
            Decision::Pause(_) => self.end(AttemptEnd::Paused),
            Decision::Stop(_) => self.end(AttemptEnd::Stopped),
        }
    }

    fn leave(&mut self) {}

    fn kill(&mut self) {}
}
