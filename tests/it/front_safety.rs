//! What people type, write and leave lying about, however odd: refused at its door with a reason, and never the end of a study.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hpsearch::device::Device;
use hpsearch::event::{Answer, Request, Retried};
use hpsearch::metric::Direction;
use hpsearch::params::{Params, Value};
use hpsearch::runner::desk;
use hpsearch::space::{Dimension, Distribution, Scale, Space};
use hpsearch::storage::sqlite::SqliteStore;
use hpsearch::storage::{Storage, StorageReader};
use hpsearch::study::{Extension, Program, StudySpec};
use hpsearch::time::Timestamp;
use hpsearch::trial::{LARGEST_STEP, TrialNumber};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::commands::{Ended, ONE_SLOT, REPORT_X, Site, assert_done, study, wait_until};

/// A study of one trial that has ended.
fn ended_study() -> Site {
    let site = Site::new(&study("trials = 1\ntime = \"1h\"\ndevice_hours = 5", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    site
}

fn assert_refused(ended: &Ended, word: &str) {
    assert!(ended.code == 2 && ended.err.contains(word), "{} {}\n{}", ended.code, ended.out, ended.err);
}

/// Puts requests into the store as an older hpsearch did, which did not look at them.
fn ask_unseen(site: &Site, bodies: &[&str]) {
    let connection = Connection::open(site.path("runs/hpsearch.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
    for body in bodies {
        connection.execute("INSERT INTO request (study_id, body, at) VALUES (1, ?1, 1)", [body]).unwrap();
    }
}

/// What came of all requests so far.
fn answers(site: &Site) -> Vec<Option<String>> {
    let connection = Connection::open(site.path("runs/hpsearch.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    let mut statement = connection.prepare("SELECT answer FROM request ORDER BY id").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Requests that no hpsearch can carry out, as they stood in stores.
const UNDOABLE: [&str; 7] = [
    r#"{"type":"extend","by":{"trials":18446744073709551615,"time":{"secs":0,"nanos":0}}}"#,
    r#"{"type":"extend","by":{"trials":0,"time":{"secs":18446744073709551615,"nanos":0}}}"#,
    r#"{"type":"extend","by":{"trials":1e300,"time":{"secs":0,"nanos":0}}}"#,
    r#"{"type":"continue","trial":0,"until":9223372036854775808}"#,
    r#"{"type":"continue","trial":18446744073709551615,"until":3}"#,
    r#"{"type":"fly","to":"the moon"}"#,
    r#"{"type":"pau"#,
];

#[test]
fn a_number_that_no_store_can_hold_is_refused_where_it_is_typed() {
    let site = ended_study();
    let refused = |words: &[&str], word: &str| assert_refused(&site.run(words), word);
    refused(&["extend", "s", "--trials", "+18446744073709551615"], "at most 9223372036854775807");
    refused(&["extend", "s", "--trials", "+99999999999999999999999"], "at most 9223372036854775807");
    refused(&["continue", "s", "0", "--until", "9223372036854775808"], "at most 4611686018427387903");
    refused(&["continue", "s", "0", "--until", "4611686018427387904"], "at most 4611686018427387903");
    refused(&["resume", "s", "--device", "sim:0", "--slots", "4294967295"], "1024");
    assert!(answers(&site).is_empty(), "nothing of it was stored");
}

#[test]
fn a_budget_is_never_raised_beyond_what_a_store_can_hold() {
    let site = ended_study();
    assert_done(&site.run(&["extend", "s", "--trials", "+9000000000000000000"]));
    assert_refused(&site.run(&["extend", "s", "--trials", "+9000000000000000000"]), "`budget.trials` would be larger");
    assert_done(&site.run(&["extend", "s", "--device-hours", "+1e308"]));
    assert_refused(&site.run(&["extend", "s", "--device-hours", "+1e308"]), "`budget.device_hours` would be larger");
    assert_done(&site.run(&["extend", "s", "--trials", "+1"]));
    assert_done(&site.run(&["show", "s"]));
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn requests_of_an_older_store_that_cannot_be_done_are_refused_while_nobody_runs_the_study() {
    let site = ended_study();
    ask_unseen(&site, &UNDOABLE);
    assert_done(&site.run(&["extend", "s", "--trials", "+1"]));
    let answers = answers(&site);
    assert_eq!(answers.len(), UNDOABLE.len() + 1);
    for (asked, answer) in UNDOABLE.iter().zip(&answers) {
        assert!(answer.as_ref().is_some_and(|answer| answer.contains("refused")), "{asked}: {answer:?}");
    }
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
}

#[test]
fn requests_that_cannot_be_done_are_refused_by_whoever_runs_the_study_and_it_goes_on() {
    let script = "echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\nwhile [ ! -e go ]; do sleep 0.01; done\n";
    let site = Site::new(&study("trials = 2\ntime = \"1h\"", ONE_SLOT), script);
    let running = site.start(&["run", "study.toml", "--plain"]);
    wait_until("a trial runs", || site.states().first().is_some_and(|state| state == "running"));
    ask_unseen(&site, &UNDOABLE);
    wait_until("all are answered", || answers(&site).len() == UNDOABLE.len() && answers(&site).iter().all(Option::is_some));
    assert!(answers(&site).iter().flatten().all(|answer| answer.contains("refused")), "{:?}", answers(&site));
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.states(), ["complete", "complete"]);
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..4_u64, Just(i64::MAX.unsigned_abs()), Just(u64::MAX), Just(LARGEST_STEP), Just(LARGEST_STEP + 1), any::<u64>()]
}

fn request() -> impl Strategy<Value = Request> {
    let trial = || number().prop_map(TrialNumber);
    let amount = || prop_oneof![Just(0.0), Just(f64::MAX), Just(f64::INFINITY), Just(f64::NAN), Just(-1.0), 0.0..9.0];
    let extension = (number(), number(), amount(), amount()).prop_map(|(trials, seconds, device_hours, cost)| {
        let time = Duration::new(seconds, 999_999_999);
        Request::Extend { by: Extension { trials, time, device_hours, cost } }
    });
    let value = prop_oneof![any::<f64>().prop_map(Value::from), any::<i64>().prop_map(Value::from), any::<String>().prop_map(Value::Text)];
    let params = prop::collection::btree_map("[xy\0]", value, 0..3).prop_map(|values: BTreeMap<String, Value>| {
        let mut params = Params::new();
        values.into_iter().for_each(|(name, value)| params.insert(name, value));
        Request::Enqueue { params }
    });
    let device = || prop_oneof![Just(Device::Cpu), any::<u32>().prop_map(Device::Cuda), any::<u32>().prop_map(Device::Sim)];
    prop_oneof![
        3 => extension,
        3 => (trial(), number()).prop_map(|(trial, until)| Request::Continue { trial, until }),
        2 => params,
        1 => trial().prop_map(|trial| Request::Kill { trial }),
        1 => trial().prop_map(|trial| Request::PauseTrial { trial }),
        1 => trial().prop_map(|trial| Request::ResumeTrial { trial }),
        1 => trial().prop_map(|trial| Request::Retry { trials: Retried::One(trial) }),
        1 => Just(Request::Retry { trials: Retried::AllFailed }),
        1 => device().prop_map(|device| Request::PauseDevice { device }),
        1 => (device(), prop::option::of(any::<u32>())).prop_map(|(device, slots)| Request::ResumeDevice { device, slots }),
        1 => Just(Request::Stop),
        1 => Just(Request::PauseStudy),
        1 => Just(Request::ResumeStudy),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_is_asked_is_answered_and_the_study_can_be_read_afterwards(requests in prop::collection::vec(request(), 1..12)) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.db");
        let mut store = SqliteStore::open(&path).unwrap();
        let dimension = Dimension { name: "x".to_owned(), distribution: Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(), prior: None, when: None };
        let space = Space::new(vec![dimension]).unwrap();
        let mut spec = StudySpec::new("s", "loss", Direction::Minimize, space, Program::Inline);
        spec.sampler = hpsearch::study::PolicySpec::named("random");
        spec.budget.trials = Some(10);
        spec.budget.time = Some(Duration::from_secs(60));
        spec.budget.device_hours = Some(2.0);
        let id = store.create_study(Timestamp(1), &spec).unwrap();
        let stored = store.study("s").unwrap().unwrap();
        let ids: Vec<i64> = requests.iter().map(|request| store.request(id, Timestamp(2), request).unwrap()).collect();
        desk::serve_at_rest(&mut store, &stored, Path::new(&path)).unwrap();
        for (request, asked) in requests.iter().zip(ids) {
            let answer: Option<Answer> = store.answer(id, asked).unwrap();
            prop_assert!(answer.is_some(), "{:?} was not answered", request);
        }
        let after = store.study("s").unwrap().unwrap();
        prop_assert!(after.spec.budget.beyond_a_store().is_empty());
        store.view(id).unwrap();
    }
}

/// A study file of a command with these words.
fn command_file(run: &str, space: &str) -> String {
    format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n[space]\n{space}\n[sampler]\ntype = \"random\"\n\
         [budget]\ntrials = 1\n{ONE_SLOT}[command]\nrun = {run}\n"
    )
}

#[test]
fn braces_that_are_no_parameters_reach_the_program_as_they_are() {
    let run = r#"["sh", "trial.sh", "{x}", "{1..3}", "[a-z]{2}", "{print $1}", '{"a": {"b": 1}}', "{{x}}", "{{print}}", "{{{x}}}", "{}"]"#;
    let script = "printf '%s\\n' \"$@\" > words\necho \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";
    let site = Site::new(&command_file(run, "x = [7]"), script);
    assert_done(&site.run(&["check", "study.toml"]));
    assert_done(&site.run_study());
    assert_eq!(site.lines("words"), ["7", "{1..3}", "[a-z]{2}", "{print $1}", r#"{"a": {"b": 1}}"#, "{x}", "{print}", "{7}", "{}"]);
}

#[test]
fn a_name_in_braces_that_is_no_parameter_is_an_error_with_the_way_out() {
    let said = |word: &str| {
        let site = Site::new(&command_file(&format!(r#"["awk", "{word}"]"#), "learning_rate = [7]"), "");
        let ended = site.run(&["check", "study.toml"]);
        assert_eq!(ended.code, 2, "{}", ended.err);
        ended.err
    };
    assert!(said("{learning_rat}").contains("did you mean `{learning_rate}`?"));
    let print = said("{print}");
    assert!(print.contains("`{print}` is not a parameter") && print.contains("write `{{print}}`"), "{print}");
}

#[test]
fn parameters_that_share_a_variable_are_told_by_check_and_run_with_the_way_out() {
    for (one, other) in [("größe", "grüße"), ("a.b", "a_b"), ("lr", "LR"), ("x-y", "x_y")] {
        let space = format!("\"{one}\" = [1]\n\"{other}\" = [2]");
        let site = Site::new(&command_file(r#"["sh", "trial.sh", "1"]"#, &space), REPORT_X);
        for words in [&["check", "study.toml"][..], &["run", "study.toml", "--plain"]] {
            let ended = site.run(words);
            assert_done(&ended);
            let told = [one, other, "HPSEARCH_PARAMS"].iter().all(|word| ended.err.contains(word));
            assert!(told && ended.err.contains("both become HPSEARCH_PARAM_"), "{one} {other}: {}", ended.err);
        }
    }
}

#[test]
fn a_nul_is_told_with_its_place() {
    let said = |text: &str, key: &str| {
        let site = Site::new(text, "");
        let ended = site.run(&["check", "study.toml"]);
        assert!(ended.code == 2 && ended.err.contains("NUL") && ended.err.contains(key), "{key}: {}", ended.err);
    };
    let nul = r"a\u0000b";
    said(&command_file(&format!(r#"["sh", "{nul}"]"#), "x = [1]"), "command.run");
    said(&command_file(r#"["sh"]"#, &format!(r#"x = ["{nul}", "c"]"#)), "space.x");
    let more = |line: &str| command_file(&format!("[\"sh\"]\n{line}"), "x = [1]");
    said(&more(&format!(r#"env = {{ NAME = "{nul}" }}"#)), "command.env.NAME");
    said(&more(&format!(r#"cwd = "{nul}""#)), "command.cwd");
    said(&format!("{}\n[checkpoints]\ndir = \"{nul}\"\n", more("")), "checkpoints.dir");
}

#[test]
fn a_directory_of_checkpoints_that_is_a_file_or_below_one_is_told_with_its_place() {
    for (dir, what) in [("taken", "this is a file"), ("taken/deep/er", "below a file")] {
        let site = Site::new(&format!("{}\n[checkpoints]\ndir = \"{dir}\"\n", command_file(r#"["sh"]"#, "x = [1]")), "");
        site.write("taken", "");
        let ended = site.run(&["check", "study.toml"]);
        assert!(ended.code == 2 && ended.err.contains(what) && ended.err.contains("study.toml:"), "{}", ended.err);
    }
}

#[test]
fn what_init_writes_for_a_command_is_what_check_accepts() {
    for command in [
        "sh trial.sh --layer 32 --layer 64 --layer_2 3",
        "awk '{print}' --lr 0.1 '{lr}' {1..3}",
        "sh trial.sh --x{y} 3 --big 1e308 --small 1e-308 --2nd 5",
        "sh trial.sh --a-b 1 --a_b=2",
    ] {
        let site = Site::new("", REPORT_X);
        assert_done(&site.run(&["init", "--yes", "--command", command, "-o", "made.toml"]));
        let checked = site.run(&["check", "made.toml"]);
        assert_eq!(checked.code, 0, "{command}: {}\n{}", checked.err, site.read("made.toml"));
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for() {
    let site = Site::new("", "");
    for name in ["pipe.py", "pipe.csv", "pipe.toml", "pipe.txt"] {
        rustix::fs::mkfifoat(rustix::fs::CWD, site.path(name), rustix::fs::Mode::RWXU).unwrap();
    }
    for words in [
        &["check", "pipe.toml"][..],
        &["run", "pipe.toml", "--plain"],
        &["init", "pipe.csv", "--yes", "-o", "made.toml"],
        &["init", "pipe.txt", "--yes", "-o", "made.toml"],
    ] {
        let ended = site.run(words);
        assert_eq!(ended.code, 2, "{words:?}: {}{}", ended.out, ended.err);
    }
    assert_done(&site.run(&["init", "--yes", "--command", "sh pipe.py", "-o", "made.toml"]));
    assert_done(&site.run(&["check", "made.toml"]));
}

#[test]
fn a_step_that_no_number_can_follow_is_refused_at_every_door() {
    let site = Site::new(&command_file(r#"["sh"]"#, "x = { float = [0.0, 1.0], step = 1e-300 }"), "");
    let ended = site.run(&["check", "study.toml"]);
    assert!(ended.code == 2 && ended.err.contains("a step is at least"), "{}", ended.err);
    let line = "{\"cmd\":\"init\",\"space\":[{\"name\":\"x\",\"type\":\"float\",\"low\":0,\"high\":1,\"step\":1e-300}]}\n";
    let mut answer = Vec::new();
    hpsearch::ask_tell::serve(line.as_bytes(), &mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("a step is at least"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn a_fork_is_named_by_the_rule_for_names() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    for name in ["../up", "a b", "", "\u{1b}[31m", "-x", "a/b"] {
        let ended = site.run(&["run", "study.toml", "--plain", &format!("--fork={name}")]);
        assert!(ended.code == 2 && ended.err.contains("a name has up to 100 letters"), "{name:?}: {}", ended.err);
    }
    assert_done(&site.run(&["run", "study.toml", "--plain", "--fork", "other"]));
}

#[test]
fn a_line_with_a_step_beyond_the_largest_is_refused_and_the_study_goes_on() {
    let script = "echo '@hpsearch {\"step\":9223372036854775807,\"loss\":1}'\necho '@hpsearch {\"step\":9223372036854775808,\"checkpoint\":\"c\"}'\n\
        echo '@hpsearch {\"step\":1e300,\"loss\":1}'\necho \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete"]);
    assert!(site.log(0, 0).contains("`step` must be a whole number from 0 to 4611686018427387903"));
}

#[test]
fn a_program_of_the_library_is_told_of_numbers_that_no_store_can_hold() {
    use hpsearch::{Study, StudyError, TrialEnd};
    let refused = Study::minimize("s", "loss").float("x", 0.0, 1.0).trials(u64::MAX).open();
    assert!(matches!(refused, Err(StudyError::Budget { key: "trials" })));
    let study = Study::minimize("s", "loss").float("x", 0.0, 1.0).trials(1).open().unwrap();
    let mut trial = study.ask().unwrap().unwrap();
    assert!(matches!(trial.report(u64::MAX, 1.0), Err(StudyError::Step { step: u64::MAX })));
    study.tell(trial, 1.0).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let finished = Study::minimize("s", "loss").float("x", 0.0, 1.0).trials(2).store(directory.path().join("s.db")).run(|trial| {
        trial.report(if trial.number() == TrialNumber(0) { u64::MAX } else { 1 }, 1.0);
        Ok(TrialEnd::Finished)
    });
    let finished = finished.unwrap();
    assert_eq!((finished.view.counts.failed, finished.view.counts.complete), (1, 2));
}
