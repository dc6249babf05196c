//! What people type, write and leave lying about, however odd: refused at its door with a reason,
//! and never the end of a study.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hpsearch::engine::{Engine, Input};
use hpsearch::runner::offline_requests;
use hpsearch::storage::any::AnyStore;
use hpsearch::storage::{Holder, Storage, StorageReader, Takeover};
use hpsearch::study::budget::Extension;
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{AttemptEnd, CheckpointEvent, Event, TrialEvent};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::{Params, Value};
use hpsearch::study::program::Program;
use hpsearch::study::request::{Request, RequestAnswer, Retried};
use hpsearch::study::space::{Dimension, Distribution, Scale, Space};
use hpsearch::study::spec::{AlgorithmSpec, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, LARGEST_STEP, TrialNumber};
use proptest::prelude::*;

use crate::harness::{
    Ended, ONE_SLOT, PROGRAM, REPORT_X, Site, assert_code, assert_done, assert_names,
    assert_refused, processor_time, study, wait_until,
};

/// A study of one trial that has ended.
fn ended_study() -> Site {
    Site::finished("trials = 1\ntime = \"1h\"\ndevice_hours = 5")
}

/// Puts requests into the store as an older hpsearch did, which did not look at them.
fn ask_unseen(site: &Site, bodies: &[&str]) {
    let connection = site.database();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
    for body in bodies {
        connection
            .execute("INSERT INTO request (study_id, body, at) VALUES (1, ?1, 1)", [body])
            .unwrap();
    }
}

/// What came of all requests so far.
fn answers(site: &Site) -> Vec<Option<String>> {
    let connection = site.database();
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
    let refused = |words: &[&str], word: &str| assert_refused(&site.run(words), &[word]);
    refused(&["extend", "s", "--trials", "+18446744073709551615"], "at most 9223372036854775807");
    refused(
        &["extend", "s", "--trials", "+99999999999999999999999"],
        "at most 9223372036854775807",
    );
    refused(
        &["continue", "s", "0", "--until", "9223372036854775808"],
        "at most 9223372036854775807",
    );
    refused(&["resume", "s", "--device", "sim:0", "--slots", "4294967295"], "1024");
    assert!(answers(&site).is_empty(), "nothing of it was stored");
}

#[test]
fn a_budget_is_never_raised_beyond_what_a_store_can_hold() {
    let site = ended_study();
    assert_done(&site.run(&["extend", "s", "--trials", "+9000000000000000000"]));
    assert_refused(
        &site.run(&["extend", "s", "--trials", "+9000000000000000000"]),
        &["`budget.trials` would be larger"],
    );
    assert_done(&site.run(&["extend", "s", "--device-hours", "+1e308"]));
    assert_refused(
        &site.run(&["extend", "s", "--device-hours", "+1e308"]),
        &["`budget.device_hours` would be larger"],
    );
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
        assert!(
            answer.as_ref().is_some_and(|answer| answer.contains("refused")),
            "{asked}: {answer:?}"
        );
    }
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
}

#[test]
fn requests_that_cannot_be_done_are_refused_by_whoever_runs_the_study_and_it_goes_on() {
    let script = "echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\nwhile [ ! -e go ]; do \
        sleep 0.01; done\n";
    let site = Site::new(&study("trials = 2\ntime = \"1h\"", ONE_SLOT), script);
    let running = site.start_study();
    wait_until("a trial runs", || site.states().first().is_some_and(|state| state == "running"));
    ask_unseen(&site, &UNDOABLE);
    wait_until("all are answered", || {
        answers(&site).len() == UNDOABLE.len() && answers(&site).iter().all(Option::is_some)
    });
    assert!(
        answers(&site).iter().flatten().all(|answer| answer.contains("refused")),
        "{:?}",
        answers(&site)
    );
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.states(), ["complete", "complete"]);
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..4_u64,
        Just(i64::MAX.unsigned_abs()),
        Just(u64::MAX),
        Just(LARGEST_STEP),
        Just(LARGEST_STEP + 1),
        any::<u64>()
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let trial = || number().prop_map(TrialNumber);
    let amount = || {
        prop_oneof![
            Just(0.0),
            Just(f64::MAX),
            Just(f64::INFINITY),
            Just(f64::NAN),
            Just(-1.0),
            0.0..9.0
        ]
    };
    let extension = (number(), number(), amount(), amount()).prop_map(
        |(trials, seconds, device_hours, cost)| {
            let time = Duration::new(seconds, 999_999_999);
            Request::Extend { by: Extension { trials, time, device_hours, cost } }
        },
    );
    let value = prop_oneof![
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::Text)
    ];
    let params = prop::collection::btree_map("[xy\0]", value, 0..3).prop_map(
        |values: BTreeMap<String, Value>| {
            let mut params = Params::new();
            values.into_iter().for_each(|(name, value)| params.insert(name, value));
            Request::Enqueue { params }
        },
    );
    let device = || {
        prop_oneof![
            Just(Device::Cpu),
            any::<u32>().prop_map(Device::Cuda),
            any::<u32>().prop_map(Device::Sim)
        ]
    };
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
        1 => (device(), prop::option::of(any::<u32>()))
            .prop_map(|(device, slots)| Request::ResumeDevice { device, slots }),
        1 => Just(Request::Stop),
        1 => Just(Request::PauseStudy),
        1 => Just(Request::ResumeStudy),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_is_asked_is_answered_and_the_study_can_be_read_afterwards(
        requests in prop::collection::vec(request(), 1..12),
    ) {
        let site = Site::empty();
        let path = site.path("s.db");
        let mut store = AnyStore::open(&path).unwrap();
        let dimension = Dimension {
            name: "x".to_owned(),
            distribution: Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
            prior: None,
            when: None,
        };
        let space = Space::new(vec![dimension]).unwrap();
        let mut spec = StudySpec::new("s", "loss", Direction::Minimize, space, Program::Inline);
        spec.sampler = AlgorithmSpec::named("random");
        spec.budget.trials = Some(10);
        spec.budget.time = Some(Duration::from_secs(60));
        spec.budget.device_hours = Some(2.0);
        let id = store.create_study(Timestamp(1), &spec).unwrap();
        let stored = store.study("s").unwrap().unwrap();
        let ids: Vec<i64> = requests
            .iter()
            .map(|request| store.request(id, Timestamp(2), request).unwrap())
            .collect();
        offline_requests::serve_at_rest(&mut store, &stored, Path::new(&path)).unwrap();
        for (request, asked) in requests.iter().zip(ids) {
            let answer: Option<RequestAnswer> = store.answer(id, asked).unwrap();
            prop_assert!(answer.is_some(), "{:?} was not answered", request);
        }
        let after = store.study("s").unwrap().unwrap();
        prop_assert!(after.spec.budget.beyond_a_store().is_empty());
        store.study_state(id).unwrap();
    }
}

/// A study file of a command with these words.
fn command_file(run: &str, space: &str) -> String {
    format!(
        "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nstep = \"step\"\n\
         [space]\n{space}\n[sampler]\ntype = \"random\"\n\
         [budget]\ntrials = 1\n{ONE_SLOT}[command]\nrun = {run}\n"
    )
}

#[test]
fn braces_that_are_no_parameters_reach_the_program_as_they_are() {
    let run = concat!(
        r#"["sh", "trial.sh", "{x}", "{1..3}", "[a-z]{2}", "{print $1}", '{"a": {"b": 1}}', "#,
        r#""{{x}}", "{{print}}", "{{{x}}}", "{}"]"#
    );
    let script =
        "printf '%s\\n' \"$@\" > words\necho \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";
    let site = Site::new(&command_file(run, "x = [7]"), script);
    assert_done(&site.run(&["check", "study.toml"]));
    assert_done(&site.run_study());
    assert_eq!(
        site.lines("words"),
        [
            "7",
            "{1..3}",
            "[a-z]{2}",
            "{print $1}",
            r#"{"a": {"b": 1}}"#,
            "{x}",
            "{print}",
            "{7}",
            "{}"
        ]
    );
}

#[test]
fn a_name_in_braces_that_is_no_parameter_is_an_error_with_the_way_out() {
    let said = |word: &str| {
        let site =
            Site::new(&command_file(&format!(r#"["awk", "{word}"]"#), "learning_rate = [7]"), "");
        let ended = site.run(&["check", "study.toml"]);
        assert_code(&ended, 2);
        ended.err
    };
    assert!(said("{learning_rat}").contains("did you mean `{learning_rate}`?"));
    let print = said("{print}");
    assert_names(&print, &["`{print}` is not a parameter", "write `{{print}}`"]);
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
            assert!(
                told && ended.err.contains("both become HPSEARCH_PARAM_"),
                "{one} {other}: {}",
                ended.err
            );
        }
    }
}

#[test]
fn a_nul_is_told_with_its_place() {
    let said = |text: &str, key: &str| {
        let site = Site::new(text, "");
        let ended = site.run(&["check", "study.toml"]);
        assert!(
            ended.code == 2 && ended.err.contains("NUL") && ended.err.contains(key),
            "{key}: {}",
            ended.err
        );
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
        let site = Site::new(
            &format!("{}\n[checkpoints]\ndir = \"{dir}\"\n", command_file(r#"["sh"]"#, "x = [1]")),
            "",
        );
        site.write("taken", "");
        let ended = site.run(&["check", "study.toml"]);
        assert!(
            ended.code == 2 && ended.err.contains(what) && ended.err.contains("study.toml:"),
            "{}",
            ended.err
        );
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
    let site =
        Site::new(&command_file(r#"["sh"]"#, "x = { float = [0.0, 1.0], step = 1e-300 }"), "");
    let ended = site.run(&["check", "study.toml"]);
    assert!(ended.code == 2 && ended.err.contains("a step is at least"), "{}", ended.err);
    let line = "{\"cmd\":\"init\",\"space\":[{\"name\":\"x\",\"type\":\"float\",\"low\":0,\
                \"high\":1,\"step\":1e-300}]}\n";
    let mut answer = Vec::new();
    hpsearch::ask_tell::serve(line.as_bytes(), &mut answer).unwrap();
    assert!(
        String::from_utf8_lossy(&answer).contains("a step is at least"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[test]
fn a_fork_is_named_by_the_rule_for_names() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    for name in ["../up", "a b", "", "\u{1b}[31m", "-x", "a/b"] {
        let ended = site.run_study_with(&[&format!("--fork={name}")]);
        assert!(
            ended.code == 2 && ended.err.contains("a name has up to 100 letters"),
            "{name:?}: {}",
            ended.err
        );
    }
    assert_done(&site.run_study_with(&["--fork", "other"]));
}

#[test]
fn a_line_with_a_step_beyond_the_largest_is_refused_and_the_study_goes_on() {
    let script = "echo '@hpsearch {\"step\":9223372036854775807,\"loss\":1}'\necho '@hpsearch \
        {\"step\":9223372036854775808,\"checkpoint\":\"c\"}'\n\
        echo '@hpsearch {\"step\":1e300,\"loss\":1}'\necho \"@hpsearch \
        {\\\"step\\\":1,\\\"loss\\\":$1}\"\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete"]);
    assert!(site.log(0, 0).contains("`step` must be an integer from 0 to 9223372036854775807"));
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
    let site = Site::empty();
    let finished =
        Study::minimize("s", "loss").float("x", 0.0, 1.0).trials(2).store(site.path("s.db")).run(
            |trial| {
                trial.report(if trial.number() == TrialNumber(0) { u64::MAX } else { 1 }, 1.0);
                Ok(TrialEnd::Finished)
            },
        );
    let finished = finished.unwrap();
    assert_eq!((finished.state.counts.failed, finished.state.counts.complete), (1, 2));
}

/// Runs hpsearch with words and a directory of any bytes.
fn run_raw(
    directory: &Path,
    words: &[&OsStr],
    variables: &[(&str, &OsStr)],
) -> (i32, String, String) {
    let mut command = Command::new(PROGRAM);
    command
        .args(words)
        .current_dir(directory)
        .env_remove("HPSEARCH_STORE")
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn words_and_places_that_are_not_utf8_work_or_are_named() {
    let site = Site::finished("trials = 1");
    let odd = site.path("").join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    fs::copy(site.path("study.toml"), odd.join("study.toml")).unwrap();
    fs::copy(site.path("study.toml"), site.path("").join(OsStr::from_bytes(b"st\xff.toml")))
        .unwrap();
    let word = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    let here = site.path("");
    let run = |directory: &Path, words: &[&'static [u8]], variables: &[(&str, &OsStr)]| {
        let words: Vec<&OsStr> = words.iter().map(|bytes| word(bytes)).collect();
        let ended = run_raw(directory, &words, variables);
        assert!(!ended.2.contains("panicked") && ended.0 != 101, "{words:?}: {}", ended.2);
        ended
    };
    // What works.
    for words in [
        &[&b"run"[..], b"st\xff.toml", b"--plain"][..],
        &[b"check", b"st\xff.toml"],
        &[b"export", b"s", b"-o", b"out\xff"],
        &[b"export-data", b"s", b"-o", b"rows\xff.csv"],
        &[b"init", b"--yes", b"--command", b"sh x --lr 0.1", b"-o", b"made\xff.toml"],
        &[b"man", b"--dir", b"man\xff"],
    ] {
        let (code, _, err) = run(&here, words, &[]);
        assert_eq!(code, 0, "{words:?}: {err}");
    }
    for made in
        [&b"out\xff/best.toml"[..], b"rows\xff.csv", b"made\xff.toml", b"man\xff/hpsearch.1"]
    {
        assert!(here.join(OsStr::from_bytes(made)).exists(), "{made:?}");
    }
    for words in [
        &[&b"ls"[..]][..],
        &[b"show", b"s"],
        &[b"best", b"s"],
        &[b"extend", b"s", b"--trials", b"+1"],
        &[b"gc"],
        &[b"doctor"],
        &[b"verify", b"s"],
    ] {
        let (code, _, err) =
            run(&odd, words, &[("HPSEARCH_STORE", OsStr::new("../runs/hpsearch.db"))]);
        assert_eq!(code, 0, "{words:?}: {err}");
    }
    // What says what is not UTF-8.
    for (directory, words, said) in [
        (&odd, &[&b"check"[..], b"study.toml"][..], "not UTF-8"),
        (&odd, &[b"run", b"study.toml", b"--plain"], "not UTF-8"),
        (&odd, &[b"init", b"--yes", b"--command", b"sh x", b"-o", b"made.toml"], "not UTF-8"),
        (&here, &[b"run", b"study.toml", b"--plain", b"--store", b"st\xff.db"], "not UTF-8"),
        (&here, &[b"run", b"study.toml", b"--plain", b"--store", b"odd\xff/new.db"], "not UTF-8"),
        (&here, &[b"show", b"s\xff"], r#"not UTF-8: "s\xFF""#),
        (
            &here,
            &[b"run", b"study.toml", b"--set", b"study.seed=\xff"],
            r#"not UTF-8: "study.seed=\xFF""#,
        ),
        (&here, &[b"note", b"s", b"-m", b"\xfe"], r#"not UTF-8: "\xFE""#),
    ] {
        let (code, _, err) = run(directory, words, &[]);
        assert!(code != 0 && err.contains(said), "{words:?}: {code} {err}");
    }
    assert!(!odd.join("made.toml").exists() && !odd.join("new.db").exists());
    let (code, _, err) = run(
        &here,
        &[b"run", b"study.toml", b"--plain"],
        &[("HPSEARCH_STORE", word(b"runs/x\xff.db"))],
    );
    assert!(code != 0 && err.contains("not UTF-8"), "{code} {err}");
}

/// What does something to a terminal.
const DRIVING: &str = "\u{1b}[31mred\u{7f}\u{9b}32m\u{202e}\u{7}";

fn assert_tame(ended: &Ended, what: &str) {
    let drives = |char: char| {
        (char.is_control() && char != '\n') || ('\u{202a}'..='\u{202e}').contains(&char)
    };
    let found = ended.out.chars().chain(ended.err.chars()).find(|char| drives(*char));
    assert_eq!(found, None, "{what}: {:?} {:?}", ended.out, ended.err);
}

#[test]
fn what_files_and_programs_hold_does_not_drive_the_terminal() {
    let escaped: String =
        DRIVING.chars().map(|char| format!("\\u{:04X}", u32::from(char))).collect();
    let text =
        command_file(r#"["sh", "trial.sh", "1"]"#, &format!("\"kind\" = [\"{escaped}\", \"b\"]"));
    let text = text
        .replace(
            "metric = \"loss\"",
            &format!("description = \"{escaped}\"\nmetric = \"loss {escaped}\""),
        )
        .replace("trials = 1", "trials = 2");
    let script = format!(
        "printf '%b\\n' '@hpsearch {{\"step\":1,\"loss {}\":0.5}}'\nprintf \
         '\\033[31mred\\007\\n'\nprintf '\\033[31mgone\\033[0m' >&2\n",
        DRIVING.chars().map(|char| format!("\\\\u{:04x}", u32::from(char))).collect::<String>()
    );
    let site = Site::new(&text, &script);
    assert_tame(&site.run(&["check", "study.toml"]), "check");
    let events = site.run(&["run", "study.toml", "--events"]);
    assert_done(&events);
    assert_tame(&events, "run --events");
    assert_tame(&site.run_study_with(&["--set", "budget.trials=3"]), "run --plain");
    for words in [
        &["best", "s"][..],
        &["best", "s", "--json"],
        &["show", "s"],
        &["show", "s", "0"],
        &["trials", "s"],
        &["trials", "s", "--json"],
        &["explain", "s", "0"],
        &["events", "s"],
        &["events", "s", "--json"],
        &["diff", "s", "0", "1"],
        &["export", "s", "-o", "out"],
        &["importance", "s"],
        &["curves", "s"],
        &["ls"],
        &["verify", "s"],
        &["export-data", "s", "--format", "jsonl"],
        &["enqueue", "s", &format!("kind={DRIVING}x")],
        &["show", DRIVING],
    ] {
        assert_tame(&site.run(words), &words.join(" "));
    }
    // What is wrong is shown with its line.
    site.write(
        "wrong.toml",
        format!(
            "[study]\nname = \"s\" # {DRIVING}\nmetric = \
        3\n\"{escaped}\" = 1 # {DRIVING}\n[{DRIVING}]\n"
        ),
    );
    assert_tame(&site.run(&["check", "wrong.toml"]), "check of a wrong file");
    site.write(
        "wrong.toml",
        format!("[study]\nname = \"s\"\nmetric = 3 # {DRIVING}\n\"{escaped}\" = 1\n"),
    );
    assert_tame(&site.run(&["check", "wrong.toml"]), "check of a wrong file");
    assert_tame(
        &site.run(&["run", "study.toml", "--set", &format!("study.{DRIVING}=1")]),
        "a wrong override",
    );
    // best.toml is TOML, and best prints TOML.
    let made: toml::Table = site
        .read("out/best.toml")
        .parse()
        .unwrap_or_else(|error| panic!("{error}: {:?}", site.read("out/best.toml")));
    let kind = made["params"]["kind"].as_str().unwrap().to_owned();
    assert!([DRIVING, "b"].contains(&kind.as_str()), "{kind:?}");
    let printed: toml::Table = site.run(&["best", "s"]).out.parse().unwrap();
    assert_eq!(printed["kind"].as_str(), Some(kind.as_str()));
    // A log in a pipe is what the program printed.
    assert!(site.log(0, 0).contains("\u{1b}[31mred\u{7}\n"));
}

/// How long an engine and its store take for so many checkpoints of one trial, and for dropping all
/// but few at its end.
fn time_for_checkpoints(
    count: u64,
    reports_every: u64,
    max_disk: Option<u64>,
    keep_best: Option<u32>,
) -> Duration {
    let site = Site::empty();
    let mut store = AnyStore::open(&site.path("s.db")).unwrap();
    let dimension = Dimension {
        name: "x".to_owned(),
        distribution: Distribution::float(0.0, 1.0, Scale::Linear, None).unwrap(),
        prior: None,
        when: None,
    };
    let program = Program::Command {
        run: vec!["train".to_owned()],
        cwd: "/".into(),
        env: BTreeMap::new(),
        args: Default::default(),
        metrics: Default::default(),
    };
    let mut spec = StudySpec::new(
        "s",
        "loss",
        Direction::Minimize,
        Space::new(vec![dimension]).unwrap(),
        program,
    );
    spec.sampler = AlgorithmSpec::named("random");
    spec.budget.trials = Some(1);
    (spec.checkpoints.max_disk, spec.checkpoints.keep_best) = (max_disk, keep_best);
    let id = store.create_study(Timestamp(1), &spec).unwrap();
    let holder = Holder { pid: 1, pid_started: 1, host: "h".to_owned(), boot_id: None };
    let lease = store.acquire(id, &holder, Timestamp(1), Takeover::IfFree).unwrap();
    let mut engine =
        Engine::new(spec.clone(), StudyState::new(&spec), vec![Slot::on(0, Device::Cpu)]).unwrap();
    let (trial, attempt) = (TrialNumber(0), AttemptNumber(0));
    let mut events: Vec<Event> = Vec::new();
    let begun = processor_time();
    let begin = Input::Begin { pid: 1, host: "h".to_owned(), requests: Vec::new() };
    let saved = (1..=count).flat_map(|step| {
        let path = site.path(&format!("files/s/trial-0/checkpoints/checkpoint-{step}"));
        let metrics = [("loss".to_owned(), 1.0 / step as f64)].into_iter().collect();
        let report = step.is_multiple_of(reports_every).then_some(Input::Report {
            trial,
            attempt,
            step,
            metrics,
        });
        std::iter::once(Input::Checkpoint {
            trial,
            attempt,
            step,
            path,
            bytes: Some(10),
            system: None,
            digest: None,
        })
        .chain(report)
    });
    let end = Input::Ended { trial, attempt, end: AttemptEnd::Completed, message: None };
    for (turn, input) in std::iter::once(begin).chain(saved).chain([end]).enumerate() {
        events.extend(
            engine
                .step(Timestamp(turn as i64), input)
                .iter()
                .filter_map(|effect| effect.event().cloned()),
        );
        if turn % 64 == 0 {
            store.append(&lease, Timestamp(turn as i64), &std::mem::take(&mut events)).unwrap();
        }
    }
    store.append(&lease, Timestamp(count as i64 + 9), &events).unwrap();
    let took = processor_time() - begun;
    assert_eq!(
        store.study_state(id).unwrap().trials[0].checkpoints,
        engine.study_state().trials[0].checkpoints
    );
    took
}

#[test]
fn thousands_of_checkpoints_of_a_trial_cost_little_more_than_their_number() {
    const MANY: u64 = 2_000;
    for (reports_every, max_disk, keep_best) in [
        (MANY * 2, None, Some(3)),
        (MANY, None, Some(3)),
        (50, None, None),
        (1, Some(20_000), None),
        (50, Some(1 << 40), Some(3)),
    ] {
        let took = time_for_checkpoints(MANY, reports_every, max_disk, keep_best);
        // Half a minute, where each looks at all others: what is measured takes less than one.
        assert!(
            took < Duration::from_secs(6),
            "{reports_every} {max_disk:?} {keep_best:?}: {took:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_store_and_its_journal_agree_about_many_checkpoints(
        doings in prop::collection::vec(
            (0..60_u64, 0..40_u64, 0..4_u8, prop::bool::weighted(0.8)),
            60..200,
        ),
        turn in 1..20_usize,
    ) {
        let site = Site::empty();
        let path = site.path("s.db");
        let mut store = AnyStore::open(&path).unwrap();
        let mut spec =
            StudySpec::new("s", "loss", Direction::Minimize, Space::default(), Program::Inline);
        spec.budget.trials = Some(1);
        let id = store.create_study(Timestamp(1), &spec).unwrap();
        let lease = store
            .acquire(
                id,
                &Holder { pid: 1, pid_started: 1, host: "h".to_owned(), boot_id: None },
                Timestamp(1),
                Takeover::IfFree,
            )
            .unwrap();
        let created = Event::Trial(
            TrialNumber(0),
            TrialEvent::created(Params::new(), hpsearch::study::trial::Origin::Asked),
        );
        let doing = |(file, step, spelling, saves): (u64, u64, u8, bool)| {
            let path = match spelling {
                0 => format!("/files//{file}"),
                1 => format!("/files/./{file}/"),
                _ => format!("/files/{file}"),
            };
            let (trial, path) = (TrialNumber(0), path.into());
            if saves {
                Event::of(trial, CheckpointEvent::Saved {
                        step,
                        path,
                        bytes: None,
                        system: None,
                        digest: None,
                    })
            } else {
                Event::of(trial, CheckpointEvent::Dropped { path })
            }
        };
        let events: Vec<Event> =
            std::iter::once(created).chain(doings.into_iter().map(doing)).collect();
        let (mut state, mut naive) =
            (StudyState::new(&spec), Vec::<(u64, std::path::PathBuf)>::new());
        for event in &events {
            state.apply(Timestamp(2), event);
            let Event::Trial(_, TrialEvent::Checkpoint(event)) = event else { continue };
            match event {
                CheckpointEvent::Saved { step, path, .. } => {
                    naive.retain(|(_, known)| known != path);
                    let at = naive.partition_point(|(known, _)| known <= step);
                    naive.insert(at, (*step, path.clone()));
                }
                CheckpointEvent::Dropped { path } => naive.retain(|(_, known)| known != path),
            }
        }
        for (index, some) in events.chunks(turn).enumerate() {
            store.append(&lease, Timestamp(2), some).unwrap();
            if index % 3 == 0 {
                // Another process writes, and what was remembered is looked up again.
                let note = Request::Note { trial: None, text: "x".to_owned() };
                AnyStore::open(&path).unwrap().request(id, Timestamp(2), &note).unwrap();
            }
        }
        let folded: Vec<(u64, std::path::PathBuf)> =
            state.trials[0].checkpoints.iter().map(|one| (one.step, one.path.clone())).collect();
        prop_assert_eq!(&folded, &naive);
        prop_assert_eq!(
            &store.study_state(id).unwrap().trials[0].checkpoints,
            &state.trials[0].checkpoints
        );
    }
}
