//! The Python client, where there is a Python: its own tests, and its runs in the store.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value as Json;

use crate::harness::{PROGRAM, Running, Site, assert_done, paths_below, wait_until};

/// A run of ten steps that then does what the test says.
const LOGS: &str = r#"
import hpsearch, os, signal, sys, time
run = hpsearch.init(study="digits", name="a", config={"lr": 0.1, "layers": [1, 2]}, tags=["x"])
for step in range(1, 11):
    run.log({"loss": 1 / step, "acc": step / 10}, step=step)
run.summary({"test": 0.5})
"#;

fn client() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// Starts a program of a site with the client; `None` where there is no Python.
fn start(site: &Site, program: &str) -> Option<Running> {
    site.run_program("python3", &["--version"])?;
    let mut command = std::process::Command::new("python3");
    command
        .args(["-c", program])
        .current_dir(site.path(""))
        .env("PYTHONPATH", client())
        .env("HPSEARCH_BINARY", PROGRAM)
        .env_remove("HPSEARCH_STORE")
        .env_remove("HPSEARCH_TRIAL")
        .stdin(std::process::Stdio::null());
    Some(Running::start(command))
}

fn runs(site: &Site) -> Vec<Json> {
    let listed = site.run(&["trials", "digits", "--sort", "number", "--json"]);
    if listed.code != 0 {
        return Vec::new();
    }
    listed.json::<Json>()["trials"].as_array().unwrap().clone()
}

fn spools(site: &Site) -> Vec<PathBuf> {
    paths_below(&site.path("runs/spool"))
}

#[test]
fn the_tests_of_the_python_client_pass() {
    let site = Site::empty();
    let Some(version) = site.run_program("python3", &["--version"]) else { return };
    assert_done(&version);
    let mut command = std::process::Command::new("python3");
    command
        .args(["-m", "unittest", "discover", "-t", ".", "-s", "tests"])
        .current_dir(client())
        .env("HPSEARCH_BINARY", PROGRAM)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("HPSEARCH_STORE");
    let ended = Running::start(command).end();
    assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
    assert!(ended.err.contains("\nOK"), "{}", ended.err);
}

#[test]
fn what_a_program_logs_is_in_the_store_when_it_has_ended() {
    let site = Site::empty();
    let Some(program) = start(&site, LOGS) else { return };
    let ended = program.end();
    assert_done(&ended);
    assert!(ended.err.contains("run 0 (`a`) of study `digits`"), "{}", ended.err);
    let runs = runs(&site);
    assert_eq!(runs.len(), 1);
    assert_eq!((&runs[0]["state"], &runs[0]["last_step"]), (&"complete".into(), &10.into()));
    assert_eq!((&runs[0]["attempts"], &runs[0]["params"]["lr"]), (&1.into(), &0.1.into()));
    assert_eq!(runs[0]["tags"][0], "x");
    assert_eq!(spools(&site), Vec::<PathBuf>::new());
    site.assert_sound();
}

#[test]
fn a_program_that_is_killed_leaves_an_interrupted_run_that_can_go_on() {
    let site = Site::empty();
    let Some(program) = start(&site, &format!("{LOGS}time.sleep(600)")) else { return };
    wait_until("ten steps are stored", || {
        runs(&site).first().is_some_and(|run| run["last_step"] == 10)
    });
    program.signal(Signal::KILL);
    wait_until("the run is interrupted", || runs(&site)[0]["state"] == "paused");
    wait_until("the spool is gone", || spools(&site).is_empty());
    let goes_on = "
import hpsearch
with hpsearch.init(study='digits', name='a', resume=True) as run:
    run.log({'loss': 0.01})
";
    assert_done(&start(&site, goes_on).unwrap().end());
    let runs = runs(&site);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!((&runs[0]["state"], &runs[0]["attempts"]), (&"complete".into(), &2.into()));
    assert_eq!((&runs[0]["last_step"], &runs[0]["last_value"]), (&11.into(), &0.01.into()));
}

#[test]
fn nothing_is_lost_or_written_twice_when_writers_are_killed() {
    let site = Site::empty();
    let program = r#"
import hpsearch, os, signal, time
import hpsearch._writer
hpsearch._writer.PAUSES = (0.01,)
run = hpsearch.init(study="digits")
for step in range(1, 201):
    run.log({"loss": 1 / step}, step=step)
    time.sleep(0.02)
    process = run._writer._process
    if step % 37 == 0 and process is not None and process.poll() is None:
        process.kill()
run.finish()
"#;
    let Some(program) = start(&site, program) else { return };
    assert_done(&program.end());
    // What the last writer had no time for, the next run takes over.
    assert_done(&start(&site, "import hpsearch\nhpsearch.init('digits').finish()").unwrap().end());
    wait_until("all spools are in the store", || spools(&site).is_empty());
    let runs = runs(&site);
    assert_eq!((&runs[0]["state"], &runs[0]["last_step"]), (&"complete".into(), &200.into()));
    let reports: i64 = site.query("SELECT count(*) FROM event WHERE body LIKE '%\"reported\"%'");
    assert_eq!(reports, 200, "each is in the journal once");
    site.assert_sound();
}

#[test]
fn a_spool_without_a_writer_is_taken_over_by_the_next_run() {
    let site = Site::empty();
    let alone = LOGS.replace(
        "import \
        hpsearch,",
        "import os; os.environ['HPSEARCH_BINARY'] = '/none'\nimport hpsearch,",
    );
    let Some(program) = start(&site, &alone) else { return };
    let ended = program.end();
    assert_done(&ended);
    assert!(ended.err.contains("HPSEARCH_BINARY names `/none`"), "{}", ended.err);
    assert_eq!(spools(&site).len(), 1);
    assert_done(&start(&site, "import hpsearch\nhpsearch.init('other').finish()").unwrap().end());
    wait_until("the spool is in the store", || spools(&site).is_empty());
    assert_eq!((&runs(&site)[0]["state"], runs(&site).len()), (&"complete".into(), 1));
}

#[test]
fn names_that_cannot_be_are_said_and_nothing_is_lost() {
    let site = Site::empty();
    let hostile = r#"
import hpsearch
with hpsearch.init(study="../a b", name="12", tags=["a b"], id="../../x") as run:
    run.log({"loss": 1.0}, step=1)
"#;
    let Some(program) = start(&site, hostile) else { return };
    let ended = program.end();
    assert_done(&ended);
    for said in [
        "`../a b` cannot be a study's \
        name",
        "`12` cannot be a run's name",
        "`a b` cannot be a tag",
    ] {
        assert!(ended.err.contains(said), "{said}: {}", ended.err);
    }
    let listed = site.json(&["trials", "runs", "--json"]);
    assert_eq!(listed["trials"][0]["last_value"], 1.0);
}
