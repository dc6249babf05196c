//! The reading verbs on a small scripted store: what they print, their JSON shapes, their errors and exit codes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hpsearch::storage::sqlite::SqliteStore;
use hpsearch::storage::{Holder, Lease, Storage, StorageReader, Takeover};
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{AttemptEnd, Event, Request};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::{Params, Value};
use hpsearch::study::space::{Condition, Dimension, Distribution, Scale, Space};
use hpsearch::study::spec::{Program, StudySpec};
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};
use serde_json::{Value as Json, json};

/// A directory with a store and the files of its trials.
pub struct Scene {
    pub directory: tempfile::TempDir,
    pub store: SqliteStore,
    lease: Option<Lease>,
    clock: i64,
}

fn at(second: i64) -> Timestamp {
    Timestamp(1_764_000_000_000_000 + second * 1_000_000)
}

fn slot() -> Slot {
    Slot { index: 0, device: Device::Cpu }
}

fn spec(name: &str) -> StudySpec {
    let dimension = |name: &str, distribution| Dimension {
        name: name.into(),
        distribution,
        prior: None,
        when: None,
    };
    let mut momentum =
        dimension("momentum", Distribution::float(0.0, 0.99, Scale::Linear, None).unwrap());
    momentum.when = Some(Condition(vec![("optim".into(), vec!["sgd".into()])]));
    let space = Space::new(vec![
        dimension("learning_rate", Distribution::float(1e-5, 1e-1, Scale::Log, None).unwrap()),
        dimension("model.num_layers", Distribution::int(1, 8, Scale::Linear, 1).unwrap()),
        dimension("optim", Distribution::choice(vec!["adamw".into(), "sgd".into()]).unwrap()),
        momentum,
    ])
    .unwrap();
    let mut spec = StudySpec::new(name, "eval_loss", Direction::Minimize, space, Program::Inline);
    spec.budget.trials = Some(24);
    spec
}

impl Scene {
    /// A store without studies.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("runs/hpsearch.db")).unwrap();
        Scene { directory, store, lease: None, clock: 0 }
    }

    /// The study `digits`: a complete trial, a pruned one, one whose value is NaN, and one that runs.
    pub fn digits() -> Self {
        let mut scene = Scene::new();
        scene.begin("digits");
        scene.start(0, 3.162_277e-4, 2, "adamw");
        scene.report(0, &[0.9, 0.184_213, 0.2]);
        scene.append(&[Event::CheckpointSaved {
            trial: TrialNumber(0),
            step: 2,
            path: PathBuf::from("/data/trial-0/step-2"),
            bytes: None,
            system: None,
        }]);
        scene.end(0, AttemptEnd::Completed, TrialState::Complete, Some(0.184_213), None);
        scene.start(1, 0.1, 8, "sgd");
        scene.report(1, &[1.5]);
        scene.end(
            1,
            AttemptEnd::Stopped,
            TrialState::Pruned,
            None,
            Some("rank 2 of 2 at step 1; 1 goes on"),
        );
        scene.start(2, 0.05, 1, "sgd");
        scene.report(2, &[f64::NAN]);
        scene.end(2, AttemptEnd::Diverged, TrialState::Complete, Some(f64::NAN), None);
        scene.start(3, 1e-3, 4, "adamw");
        scene.report(3, &[0.7]);
        scene
    }

    /// A new study, which this process seems to run.
    pub fn begin(&mut self, name: &str) {
        let study = self.store.create_study(at(0), &spec(name)).unwrap();
        let holder = hpsearch::runner::this_process();
        self.lease = Some(self.store.acquire(study, &holder, at(0), Takeover::IfFree).unwrap());
        let Holder { pid, host, .. } = holder;
        self.append(&[Event::RunnerStarted { pid, host, slots: vec![slot()] }]);
    }

    pub fn append(&mut self, events: &[Event]) {
        self.clock += 1;
        self.store.append(self.lease.as_ref().unwrap(), at(self.clock), events).unwrap();
    }

    pub fn leave(&mut self) {
        self.append(&[Event::RunnerStopped {
            reason: "stopped".into(),
            ran_micros: 31_000_000,
            heard: None,
            device_micros: 0,
        }]);
        self.store.release(&self.lease.take().unwrap()).unwrap();
    }

    pub fn start(&mut self, number: u64, rate: f64, layers: i64, optim: &str) {
        let trial = TrialNumber(number);
        let mut params: Params = [
            ("learning_rate", Value::from(rate)),
            ("model.num_layers", layers.into()),
            ("optim", optim.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
        if optim == "sgd" {
            params.insert("momentum", 0.9);
        }
        self.append(&[
            Event::TrialCreated { trial, params, origin: Origin::Sampled("random".into()) },
            Event::AttemptStarted {
                trial,
                attempt: AttemptNumber(0),
                slot: slot(),
                resume: None,
                until: None,
                rows_at_once: None,
                device_micros: 0,
            },
        ]);
    }

    pub fn report(&mut self, number: u64, values: &[f64]) {
        for (step, value) in (1..).zip(values) {
            let metrics =
                [("eval_loss".to_owned(), *value), ("eval_accuracy".to_owned(), 1.0 - *value)]
                    .into_iter()
                    .collect();
            self.append(&[Event::Reported {
                trial: TrialNumber(number),
                attempt: AttemptNumber(0),
                step,
                metrics,
            }]);
        }
    }

    pub fn end(
        &mut self,
        number: u64,
        end: AttemptEnd,
        state: TrialState,
        value: Option<f64>,
        reason: Option<&str>,
    ) {
        let (trial, reason) = (TrialNumber(number), reason.map(str::to_owned));
        self.append(&[
            Event::AttemptEnded {
                trial,
                attempt: AttemptNumber(0),
                end,
                reason: reason.clone(),
                device_micros: None,
                memory: None,
            },
            Event::TrialFinished { trial, state, value, reason },
        ]);
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        command(self.directory.path(), arguments)
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    pub fn json(&self, arguments: &[&str]) -> Json {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).unwrap()
    }
}

pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hpsearch"));
    command
        .args(arguments)
        .current_dir(directory)
        .env_remove("HPSEARCH_STORE")
        .env_remove("COLUMNS")
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC");
    command
}

pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Ran {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap(),
        }
    }
}

#[test]
fn ls_lists_studies_and_their_best() {
    let mut scene = Scene::digits();
    scene.leave();
    insta::assert_snapshot!(scene.run(&["ls"]).out, @r"
    study   state    trials     best  trial  metric     goal      time
    digits  stopped    3/24  0.18421      0  eval_loss  minimize  31 s
    ");
}

#[test]
fn ls_as_json_has_the_contracts_shape() {
    let expected = json!({"version": 1, "studies": [{
        "name": "digits", "state": "running",
        "trials": {"queued": 0, "running": 1, "paused": 0, "complete": 2, "pruned": 1, "failed": 0},
        "best": {"number": 0, "value": 0.184_213}, "metric": "eval_loss", "direction": "minimize",
    }]});
    assert_eq!(Scene::digits().json(&["ls", "--json"]), expected);
}

#[test]
fn trials_are_listed_best_first() {
    insta::assert_snapshot!(Scene::digits().run(&["trials"]).out);
}

#[test]
fn trials_as_json_have_the_contracts_shape_and_tell_nan_from_nothing() {
    let scene = Scene::digits();
    let answer = scene.json(&["trials", "digits", "--sort", "number", "--json"]);
    assert_eq!((&answer["version"], &answer["study"]), (&json!(1), &json!("digits")));
    let expected = [
        json!({"number": 0, "state": "complete", "value": 0.184_213, "violation": null, "last_value": 0.2, "last_step": 3,
            "params": {"learning_rate": 3.162_277e-4, "model.num_layers": 2, "optim": "adamw"},
            "device": "cpu", "seconds": 5.0, "attempts": 1, "reason": null, "tags": [], "notes": []}),
        json!({"number": 1, "state": "pruned", "value": null, "violation": null, "last_value": 1.5, "last_step": 1,
            "params": {"learning_rate": 0.1, "model.num_layers": 8, "momentum": 0.9, "optim": "sgd"},
            "device": "cpu", "seconds": 2.0, "attempts": 1, "reason": "rank 2 of 2 at step 1; 1 goes on", "tags": [], "notes": []}),
        json!({"number": 2, "state": "complete", "value": "NaN", "violation": null, "last_value": "NaN", "last_step": 1,
            "params": {"learning_rate": 0.05, "model.num_layers": 1, "momentum": 0.9, "optim": "sgd"},
            "device": "cpu", "seconds": 2.0, "attempts": 1, "reason": null, "tags": [], "notes": []}),
        json!({"number": 3, "state": "running", "value": null, "violation": null, "last_value": 0.7, "last_step": 1,
            "params": {"learning_rate": 1e-3, "model.num_layers": 4, "optim": "adamw"},
            "device": "cpu", "seconds": 0.0, "attempts": 1, "reason": null, "tags": [], "notes": []}),
    ];
    assert_eq!(answer["trials"], json!(expected));
    assert_eq!(
        scene.json(&["trials", "--limit", "2", "--json"])["trials"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn best_prints_a_toml_file() {
    let ran = Scene::digits().run(&["best"]);
    insta::assert_snapshot!(ran.out);
    let table: toml::Table = ran.out.parse().unwrap();
    assert_eq!(table["model"]["num_layers"].as_integer(), Some(2));
}

#[test]
fn best_as_json_has_the_metrics_of_the_best_report_and_its_checkpoint() {
    let expected = json!({"version": 1, "study": "digits", "trial": {
        "number": 0, "state": "complete", "value": 0.184_213, "last_value": 0.2, "last_step": 3,
        "params": {"learning_rate": 3.162_277e-4, "model.num_layers": 2, "optim": "adamw"},
        "device": "cpu", "seconds": 5.0, "attempts": 1, "reason": null,
        "metrics": {"eval_accuracy": 1.0 - 0.184_213, "eval_loss": 0.184_213}, "checkpoint": "/data/trial-0/step-2",
        "tags": [], "notes": [],
    }});
    assert_eq!(Scene::digits().json(&["best", "digits", "--json"]), expected);
}

#[test]
fn without_a_complete_trial_there_is_no_best_and_the_exit_code_says_so() {
    let mut scene = Scene::new();
    scene.begin("fresh");
    let ran = scene.run(&["best"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            3,
            "error: no trial of `fresh` is complete yet\nhelp: `hpsearch trials fresh` shows where they stand\n"
        )
    );
}

#[test]
fn show_says_what_is_searched_and_how_far_it_is() {
    let mut scene = Scene::digits();
    scene.leave();
    insta::assert_snapshot!(scene.run(&["show"]).out);
    assert_eq!(scene.json(&["show", "--json"])["specification"]["name"], "digits");
}

#[test]
fn logs_print_the_last_attempt() {
    let scene = Scene::digits();
    let directory = scene.directory.path().join("runs/files/digits/trial-0");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("attempt-0.log"), "epoch 1\nepoch 2\n").unwrap();
    assert_eq!(scene.run(&["logs", "digits", "0"]).out, "epoch 1\nepoch 2\n");
    assert_eq!(scene.run(&["logs", "0", "--attempt", "0", "-f"]).out, "epoch 1\nepoch 2\n");
    let missing = scene.run(&["logs", "1"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.err.starts_with("error: trial 1 has no log of attempt 0: `"),
        "{}",
        missing.err
    );
    assert!(scene.run(&["logs", "9"]).err.starts_with(
        "error: there is no trial 9 in `digits`\nhelp: it has 4 trials, the last is 3\n"
    ));
}

#[test]
fn stop_and_kill_are_requests_to_the_runner() {
    let scene = Scene::digits();
    assert_eq!(scene.run(&["kill", "3"]).code, 0);
    assert_eq!(scene.run(&["stop", "digits", "-q"]).err, "");
    let study = scene.store.study("digits").unwrap().unwrap().id;
    let asked: Vec<Request> = scene
        .store
        .pending_requests(study)
        .unwrap()
        .into_iter()
        .map(|stored| stored.request)
        .collect();
    assert_eq!(asked, [Request::Kill { trial: TrialNumber(3) }, Request::Stop]);
    assert_eq!(
        scene.run(&["kill", "0"]).err,
        "error: trial 0 is complete already\nhelp: `hpsearch explain digits 0` says how it ended\n"
    );
}

#[test]
fn a_study_that_does_not_run_cannot_be_stopped() {
    let mut scene = Scene::digits();
    scene.leave();
    let ran = scene.run(&["stop"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "error: `digits` is not running (it is stopped)\nhelp: `hpsearch ls` shows which studies run\n"
        )
    );
}

#[test]
fn an_unknown_study_is_answered_with_the_names_there_are() {
    let mut scene = Scene::digits();
    scene.begin("letters");
    let ran = scene.run(&["trials", "digit"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "error: there is no study `digit`\nhelp: did you mean `digits`? There are `digits`, `letters`\n"
        )
    );
    let unnamed = scene.run(&["trials"]);
    assert_eq!(
        (unnamed.code, unnamed.err.as_str()),
        (
            2,
            "error: the store holds several studies: say which\nhelp: there are `digits`, `letters`: name one behind the verb\n"
        )
    );
}

#[test]
fn a_study_file_stands_for_its_study() {
    let scene = Scene::digits();
    let text = "[study]\nname = \"digits\"\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n[budget]\ntrials = 24\n[space]\nx = { float = [0.0, 1.0] }\n[command]\nrun = [\"true\"]\n";
    std::fs::write(scene.directory.path().join("mine.toml"), text).unwrap();
    assert_eq!(scene.json(&["trials", "mine.toml", "--json"])["study"], "digits");
    assert_eq!(scene.run(&["trials", "other.toml"]).code, 2);
}

#[test]
fn a_missing_store_is_answered_with_what_makes_one() {
    let directory = tempfile::tempdir().unwrap();
    let ran = Ran::of(command(directory.path(), &["ls"]).output().unwrap());
    assert_eq!(ran.code, 5);
    insta::assert_snapshot!(ran.err, @"error: there is no store at `runs/hpsearch.db`: `hpsearch run study.toml` makes one, `--store PATH` names another");
}

#[test]
fn the_store_is_named_by_option_or_environment() {
    let scene = Scene::digits();
    let store = scene.directory.path().join("runs/hpsearch.db");
    let elsewhere = tempfile::tempdir().unwrap();
    let by_option =
        command(elsewhere.path(), &["ls", "--store", store.to_str().unwrap()]).output().unwrap();
    let by_environment =
        command(elsewhere.path(), &["ls"]).env("HPSEARCH_STORE", &store).output().unwrap();
    assert!(by_option.status.success());
    assert_eq!(by_option.stdout, by_environment.stdout);
}

#[test]
fn verbs_of_later_steps_are_refused_by_name_and_unknown_ones_with_a_suggestion() {
    let directory = tempfile::tempdir().unwrap();
    let later =
        Ran::of(command(directory.path(), &["report", "digits", "--html"]).output().unwrap());
    assert_eq!(
        (later.code, later.err.as_str()),
        (2, "error: `hpsearch report` is not built yet\nhelp: `hpsearch --help` lists what is\n")
    );
    let unknown = Ran::of(command(directory.path(), &["watsh"]).output().unwrap());
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("tip: a similar subcommand exists: 'watch'"), "{}", unknown.err);
}

#[test]
fn a_closed_pipe_is_success() {
    let mut scene = Scene::new();
    scene.begin("large");
    let params: Params = [("optim".to_owned(), Value::from("adamw"))].into_iter().collect();
    let created = |number| Event::TrialCreated {
        trial: TrialNumber(number),
        params: params.clone(),
        origin: Origin::Sampled("random".into()),
    };
    scene.append(&(0..3_000).map(created).collect::<Vec<_>>());
    let mut child = scene
        .command(&["trials", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()),
        (Some(0), "")
    );
}

#[test]
fn following_a_log_ends_with_the_attempt() {
    let mut scene = Scene::digits();
    let directory = scene.directory.path().join("runs/files/digits/trial-3");
    std::fs::create_dir_all(&directory).unwrap();
    let log = directory.join("attempt-0.log");
    std::fs::write(&log, "first\n").unwrap();
    let mut child = scene.command(&["logs", "3", "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    std::fs::write(&log, "first\nsecond\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "second");
    scene.end(3, AttemptEnd::Completed, TrialState::Complete, Some(0.7), None);
    assert!(lines.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn devices_and_lists_are_read_from_the_machine_and_the_tables() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| Ran::of(command(directory.path(), arguments).output().unwrap());
    let devices: Json = serde_json::from_str(&run(&["devices", "--json"]).out).unwrap();
    assert_eq!((&devices["version"], &devices["devices"][0]["name"]), (&json!(1), &json!("cpu")));
    for (what, entry) in
        [("samplers", "random\n"), ("pruners", "asha"), ("tasks", "text-classification\n")]
    {
        let listed = run(&["list", what]);
        assert!(listed.code == 0 && listed.out.contains(entry), "{}", listed.out);
        assert!(serde_json::from_str::<Json>(&run(&["list", what, "--json"]).out).is_ok());
    }
    let schema: Json = serde_json::from_str(&run(&["schema"]).out).unwrap();
    assert_eq!(schema["title"], "hpsearch study file");
}

#[test]
fn watching_without_a_terminal_is_refused_with_the_verb_to_use() {
    let ran = Scene::digits().run(&["watch"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "error: `hpsearch watch` needs a terminal\nhelp: `hpsearch trials digits` prints the same table\n"
        )
    );
}

#[test]
fn the_version_is_said_without_touching_anything() {
    let directory = tempfile::tempdir().unwrap();
    let ran = Ran::of(command(directory.path(), &["--version"]).output().unwrap());
    assert_eq!((ran.code, ran.out), (0, format!("hpsearch {}\n", env!("CARGO_PKG_VERSION"))));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(30);
