//! The Python client, where there is a Python: its own tests, and its runs in the store.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value as Json;

use crate::harness::{
    ONE_SLOT, PROGRAM, Running, Site, assert_code, assert_done, assert_names, paths_below, study,
    wait_at_most, wait_until,
};

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
    // One process per file: most tests wait.
    let files = paths_below(&client().join("tests"));
    let files: Vec<&str> = files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let files = files.into_iter().filter(|name| name.starts_with("test_") && name.ends_with(".py"));
    let running: Vec<Running> = files
        .map(|file| {
            let mut command = std::process::Command::new("python3");
            command
                .args(["-m", "unittest", "discover", "-t", ".", "-s", "tests", "-p", file])
                .current_dir(client())
                .env("HPSEARCH_BINARY", PROGRAM)
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env_remove("HPSEARCH_STORE");
            Running::start(command)
        })
        .collect();
    assert!(running.len() > 3, "{} files of tests", running.len());
    for running in running {
        let ended = running.end();
        assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
        assert!(ended.err.contains("\nOK"), "{}", ended.err);
    }
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
fn that_the_output_of_a_program_that_logs_itself_is_not_kept_is_told() {
    let site = Site::empty();
    let Some(program) = start(&site, LOGS) else { return };
    assert_done(&program.end());
    let told = site.run(&["logs", "digits", "0"]);
    assert_code(&told, 2);
    assert_names(
        &told.err,
        &["starts its run itself (`hpsearch.init`)", "`hpsearch track -- COMMAND`"],
    );
}

#[test]
fn what_is_set_in_a_configuration_later_is_a_parameter_of_the_run() {
    let site = Site::empty();
    let program = "
import hpsearch
run = hpsearch.init('digits', config={'a': 1})
run.config['b'] = 2
run.config.update(c=3)
run.config.d = 4
run.log({'loss': 1.0})
";
    let Some(program) = start(&site, program) else { return };
    assert_done(&program.end());
    let params = serde_json::json!({ "a": 1, "b": 2, "c": 3, "d": 4 });
    assert_eq!(runs(&site)[0]["params"], params);
}

#[test]
fn checkpoints_and_artifacts_have_the_steps_of_what_was_logged_without_one() {
    let site = Site::empty();
    let program = "
import hpsearch
open('model.pt', 'w').close()
open('first.pt', 'w').close()
run = hpsearch.init('digits')
for loss in (3.0, 2.0):
    run.log({'loss': loss})
run.checkpoint('first.pt')
run.log({'loss': 1.0}, step=10)
run.log({'loss': 0.5})
run.checkpoint('model.pt')
run.artifact('model.pt')
run.finish()
with hpsearch.init('digits') as run:
    run.log({'acc': 0.5})
    run.log({'acc': 0.75})
    run.checkpoint('model.pt')
";
    let Some(program) = start(&site, program) else { return };
    let ended = program.end();
    assert_done(&ended);
    assert!(!ended.err.contains("step"), "{}", ended.err);
    let steps = "SELECT group_concat(step, ' ') FROM (SELECT step FROM checkpoint ORDER BY \
         trial_id, seq)";
    assert_eq!(site.query::<String>(steps), "2 11 2");
    let kept = site.json(&["artifacts", "digits", "0", "--json"]);
    assert_eq!(kept["artifacts"][0]["step"], 11);
}

/// A program that logs by itself and in a search, and says what it is in a word and in values.
const LOGS_ANYWHERE: &str = "
import hpsearch
with hpsearch.init('digits', config={'x': 9.0}, tags=['v2', 'a b']) as run:
    run.config['x'] = 8.0
    run.log({'loss': run.params['x']}, step=1)
    run.summary({'test': 0.5})
    run.summary({'test': 0.75, 'verdict': 'good'})
";

#[test]
fn the_summary_and_the_tags_of_a_program_are_its_trials_in_a_search() {
    let site = Site::new(
        &study("trials = 2", ONE_SLOT),
        &format!("PYTHONPATH={} exec python3 train.py\n", client().display()),
    );
    site.write("train.py", LOGS_ANYWHERE);
    if site.run_program("python3", &["--version"]).is_none() {
        return;
    }
    let ended = site.run_study();
    assert_done(&ended);
    assert!(ended.out.contains("`\"a b\"` cannot be a tag"), "{}", ended.out);
    let shown = site.json(&["show", "s", "1", "--json"]);
    assert_eq!(shown["summary"], serde_json::json!({ "test": 0.75, "verdict": "good" }));
    assert_eq!(shown["trial"]["tags"], serde_json::json!(["v2"]));
    let page = site.run(&["show", "s", "1"]).out;
    assert!(page.contains("test=0.75") && page.contains("v2"), "{page}");
    // A search's parameters stay.
    assert_eq!(shown["trial"]["params"]["x"], shown["trial"]["last_value"]);
    let found = site.json(&["trials", "s", "--where", "summary.test>0.7 tag:v2", "--json"]);
    assert_eq!(found["trials"].as_array().unwrap().len(), 2);
    let log = site.log(1, 0);
    assert!(log.contains("`x` stays `"), "{log}");
    assert_done(&site.run(&["verify", "s"]));
    site.assert_sound();
}

#[test]
fn what_is_logged_without_a_step_is_one_past_the_last_of_its_metrics() {
    let program = "
import hpsearch
with hpsearch.init('digits', name='a') as run:
    run.log({'acc': 0.1})
    run.log({'loss': 1.0, 'acc': 0.5})
    run.log({'acc': 0.6})
    run.log({'loss': 0.4})
    run.log({'acc': 0.7, 'loss': 0.3}, step=10)
    run.log({'acc': 0.8})
run = hpsearch.init('digits', name='a', resume=True)
run.log({'acc': 0.9})
run.summary({'best': {'acc': 0.9}})
run.finish()
try:
    hpsearch.init(project='digits')
except TypeError as error:
    print(error)
";
    let site = Site::empty();
    let Some(started) = start(&site, program) else { return };
    let ended = started.end();
    assert_done(&ended);
    assert_names(&ended.out, &["has no argument `project`", "its `study`"]);
    wait_until("both attempts are stored", || {
        let runs = runs(&site);
        runs.len() == 1 && runs[0]["attempts"] == 2 && runs[0]["state"] == "complete"
    });
    let points = site.run(&["export-data", "digits", "--series", "--format", "tsv"]).out;
    let points = points.lines().filter(|line| line.contains("\tstep\t"));
    let point = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        format!("{} {} {}", cells[1], cells[3], cells[4])
    };
    let points: Vec<String> = points.skip(1).map(point).collect();
    let acc = ["acc 1 0.1", "acc 2 0.5", "acc 3 0.6", "acc 10 0.7", "acc 11 0.8", "acc 12 0.9"];
    let loss = ["loss 2 1.0", "loss 3 0.4", "loss 10 0.3"];
    assert_eq!(points, [&acc[..], &loss].concat());
    let reads = "
import hpsearch
[row] = hpsearch.trials('digits')
print(row['summary_best.acc'], row['origin'], row['failures'], row['created'] < row['started'])
";
    let Some(read) = start(&site, reads) else { return };
    assert_eq!(read.end().out.trim(), "0.9 tracked 0 True");
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
fn the_first_run_names_the_metric_of_its_study_and_another_is_said() {
    let site = Site::empty();
    let run = |metric: &str, value: &str| {
        let program = format!(
            "import hpsearch\n\
             with hpsearch.init(study='digits', metric='{metric}', direction='maximize') as \
             run:\n    run.log({{'{metric}': {value}, 'acc': {value}}}, step=1)\n"
        );
        Some(start(&site, &program)?.end())
    };
    let Some(first) = run("acc", "0.25") else { return };
    assert_done(&first);
    assert_done(&run("acc", "0.75").unwrap());
    let best = site.json(&["best", "digits", "--json"]);
    assert_eq!((&best["trial"]["number"], &best["trial"]["value"]), (&1.into(), &0.75.into()));
    let other = run("f1", "0.5").unwrap();
    assert_done(&other);
    assert!(other.err.contains("`acc`") && other.err.contains("goes there"), "{}", other.err);
    assert_eq!(site.json(&["trials", "digits", "--json"])["trials"].as_array().unwrap().len(), 3);
    let refused = start(&site, "import hpsearch\nhpsearch.init(direction='up')").unwrap().end();
    assert!(refused.err.contains("\"minimize\" or \"maximize\""), "{}", refused.err);
}

#[test]
fn a_new_study_says_which_direction_a_metric_without_one_has() {
    let site = Site::empty();
    let program = "
import hpsearch
for study, way in (('digits', None), ('digits', None), ('other', 'maximize')):
    with hpsearch.init(study, metric='acc', direction=way) as run:
        run.log({'acc': 0.5})
";
    let Some(program) = start(&site, program) else { return };
    let ended = program.end();
    assert_done(&ended);
    let said: Vec<&str> = ended.err.lines().filter(|line| line.contains("no direction")).collect();
    assert_eq!(said.len(), 1, "{}", ended.err);
    assert!(said[0].contains("smaller values of `acc` are better"), "{said:?}");
    assert!(said[0].contains("`direction=\"maximize\"`"), "{said:?}");
}

/// Logs a value into the run of an id, or says why not.
fn resumed(site: &Site, arguments: &str, value: &str) -> Option<String> {
    let program = format!(
        "import hpsearch\n\
         try:\n    run = hpsearch.init('digits', {arguments})\n\
         except hpsearch.HpsearchError as error:\n    print(error)\n\
         else:\n    run.log({{'loss': {value}}})\n    run.finish()\n    print(run.number)\n"
    );
    let ended = start(site, &program)?.end();
    assert_done(&ended);
    assert_eq!(spools(site), Vec::<PathBuf>::new(), "{}", ended.err);
    Some(ended.out)
}

#[test]
fn a_run_is_resumed_only_where_it_is_meant_to_be_there() {
    let site = Site::empty();
    let Some(refused) = resumed(&site, "id='x', resume='must'", "1.0") else { return };
    assert!(refused.contains("there is no study `digits`"), "{refused}");
    assert!(refused.contains("hpsearch ls"), "{refused}");
    assert_eq!(runs(&site).len(), 0);
    for (arguments, answer) in [
        ("id='x', name='a', resume='allow'", "0"),
        ("id='x', resume='allow'", "0"),
        ("id='x', resume='must'", "0"),
        ("name='a', resume='must'", "0"),
        ("resume='a'", "0"),
        ("resume=0", "0"),
        ("id='x', resume='never'", "`digits` already has a run `x`"),
        ("name='a', resume='never'", "`digits` already has a run `a`"),
        ("id='y', resume='must'", "`digits` has no run `y`"),
        ("resume='must be'", "`digits` has no run `must be`"),
        ("resume=7", "`digits` has no run `7`"),
        ("resume='never'", "1"),
        ("id='z', resume='never'", "2"),
        // A number that is an id is no run's number.
        ("id='1', resume='never'", "3"),
        ("id='1', resume='allow'", "3"),
    ] {
        let said = resumed(&site, arguments, "0.5").unwrap();
        assert!(said.starts_with(answer), "{arguments}: {said}");
    }
    let attempts: Vec<u64> =
        runs(&site).iter().map(|run| run["attempts"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [6, 1, 1, 2]);
    site.assert_sound();
}

#[test]
fn a_run_whose_spool_is_still_to_be_written_is_there() {
    let site = Site::empty();
    let alone = "import os; os.environ['HPSEARCH_BINARY'] = '/none'\nimport hpsearch\n\
        hpsearch.init('digits', id='x').log({'loss': 1.0})";
    let Some(program) = start(&site, alone) else { return };
    assert_done(&program.end());
    assert_eq!((spools(&site).len(), runs(&site).len()), (1, 0));
    assert_eq!(resumed(&site, "id='x', resume='must'", "0.5").unwrap(), "0\n");
    assert_eq!((runs(&site).len(), &runs(&site)[0]["last_step"]), (1, &2.into()));
}

#[test]
fn what_a_run_logged_that_was_refused_too_late_is_not_lost() {
    let site = Site::empty();
    assert!(resumed(&site, "id='x'", "1.0").is_none_or(|number| number == "0\n"));
    let alone = "import os; os.environ['HPSEARCH_BINARY'] = '/none'\nimport hpsearch\n\
        for more in ({'id': 'x', 'resume': 'never'}, {'id': 'y', 'resume': 'must'}):\n    \
        with hpsearch.init('digits', **more) as run: run.log({'loss': 0.5})";
    let Some(program) = start(&site, alone) else { return };
    assert_done(&program.end());
    assert!(resumed(&site, "id='last'", "1.0").is_some());
    let runs = runs(&site);
    let attempts: Vec<_> = runs.iter().map(|run| (&run["attempts"], &run["state"])).collect();
    assert_eq!(attempts, vec![(&1.into(), &"complete".into()); 4]);
}

/// Logs files that are changed or removed at once: five versions of each.
const CHANGES_FILES: &str = r#"
import hpsearch, os, tempfile
PNG = b"\x89PNG\r\n\x1a\n"
with hpsearch.init("digits", "changes") as run:
    for step in range(5):
        open("same.csv", "w").write(f"step {step}")
        open("same.png", "wb").write(PNG + b"step %d" % step)
        with tempfile.TemporaryDirectory() as directory:
            for name in ("a", "b"):
                open(os.path.join(directory, name), "w").write(f"step {step}")
            run.log({"loss": 1 / (step + 1)}, step=step)
            run.artifact("same.csv")
            run.artifact(os.path.join(directory, "a"), name="gone.csv")
            run.artifact(directory, name="all")
            run.image("picture", "same.png")
"#;

/// Checks that each version of what [`CHANGES_FILES`] logs is as it was at its step, and where its
/// program had it.
fn assert_versions(site: &Site, run: &str) {
    let kept = site.json(&["artifacts", "digits", run, "--json"]);
    let kept = kept["artifacts"].as_array().unwrap();
    assert_eq!(kept.len(), 20, "{kept:?}");
    for one in kept {
        let (name, version) = (one["name"].as_str().unwrap(), one["version"].as_u64().unwrap());
        let (label, to) = (format!("{name}:v{version}"), format!("{run}-{version}"));
        assert_done(&site.run(&["artifacts", "digits", run, "--get", &label, "-o", &to]));
        let file = match name {
            "all" => "all/b",
            "picture" => "picture.png",
            name => name,
        };
        let content = std::fs::read(site.path(&format!("{to}/{file}"))).unwrap();
        let content = String::from_utf8_lossy(&content);
        assert!(content.ends_with(&format!("step {}", one["step"])), "{label}: {content}");
        assert_eq!(one["step"].as_u64(), Some(version - 1), "{label}");
        let original = one["path"].as_str().unwrap();
        assert!(original.starts_with('/') && !original.contains(".artifact-"), "{original}");
    }
    assert_done(&site.run(&["verify", "digits"]));
    let left: Vec<PathBuf> = paths_below(&site.path("runs"))
        .into_iter()
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".artifact-"))
        })
        .collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

/// Keeps others from writing the store until it is dropped.
fn locked(site: &Site) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(site.path("runs/hpsearch.db")).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[test]
fn an_artifact_is_what_its_file_was_at_the_call_however_late_the_store_is_written() {
    let site = Site::empty();
    let Some(program) = start(&site, LOGS) else { return };
    assert_done(&program.end());
    let lock = locked(&site);
    let ended = start(&site, CHANGES_FILES).unwrap().end();
    assert_done(&ended);
    assert!(ended.err.contains("is not lost: the writer continues"), "{}", ended.err);
    drop(lock);
    wait_until("the spool is in the store", || spools(&site).is_empty());
    assert_versions(&site, "1");
}

#[test]
fn an_artifact_of_a_trial_is_what_its_file_was_at_the_call() {
    let site = Site::empty();
    if site.run_program("python3", &["--version"]).is_none() {
        return;
    }
    site.write("logs.py", CHANGES_FILES);
    let mut command = site.command(&["track", "--study", "digits", "--", "python3", "logs.py"]);
    command.env("PYTHONPATH", client());
    assert_done(&Running::start(command).end());
    // A copy of a program that was killed before it announced it goes with the next attempt.
    let files = paths_below(&site.path("runs/files"));
    let directory = files.iter().find(|path| path.ends_with("checkpoints")).unwrap();
    std::fs::write(directory.join(".artifact-000000000001"), "").unwrap();
    assert_done(&site.run(&["track", "--study", "digits", "--resume", "0", "--", "true"]));
    assert_versions(&site, "0");
}

#[test]
fn a_store_that_is_locked_for_longer_is_waited_for_without_a_program() {
    let site = Site::empty();
    let Some(program) = start(&site, LOGS) else { return };
    assert_done(&program.end());
    assert_done(&start(&site, &without_writer(LOGS)).unwrap().end());
    let spool = spools(&site).remove(0);
    let lock = locked(&site);
    let writer = Running::start(site.command(&["writer", "--spool", spool.to_str().unwrap()]));
    // Longer than any other process waits for a lock.
    wait_at_most(Duration::from_secs(90), "the writer says that it waits", || {
        writer.said_so_far().contains("locked for more than")
    });
    drop(lock);
    assert_done(&writer.end());
    assert_eq!((spools(&site).len(), &runs(&site)[1]["state"]), (0, &"complete".into()));
}

#[test]
fn a_spool_without_a_writer_is_a_finding_and_taken_over_by_track() {
    let site = Site::empty();
    let Some(program) = start(&site, &without_writer(LOGS)) else { return };
    assert_done(&program.end());
    let spool = spools(&site).remove(0);
    let of_spools = |site: &Site| {
        let found = site.json(&["doctor", "--json"]);
        let found = found["findings"].as_array().unwrap().clone();
        found.into_iter().find(|finding| finding["check"] == "spool")
    };
    let found = of_spools(&site).unwrap();
    assert_eq!(found["state"], "warning");
    assert_names(found["message"].as_str().unwrap(), &["1 run of a Python program is not in"]);
    let next = found["next"].as_str().unwrap();
    assert_names(next, &["hpsearch writer --spool ", spool.file_name().unwrap().to_str().unwrap()]);
    assert_done(&site.run(&["track", "--study", "other", "--", "true"]));
    assert_eq!((spools(&site).len(), of_spools(&site)), (0, None));
    assert_eq!((&runs(&site)[0]["state"], runs(&site).len()), (&"complete".into(), 1));
}

/// The program where no `hpsearch` is found.
fn without_writer(program: &str) -> String {
    format!("import os; os.environ['HPSEARCH_BINARY'] = '/none'\n{program}")
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
    open("step.txt", "w").write(str(step))
    run.artifact("step.txt")
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
    let in_order = "SELECT count(DISTINCT digest) FROM artifact WHERE version = body ->> 'step'";
    assert_eq!(site.query::<i64>(in_order), 200, "each file is there once");
    let digest: String = site.query("SELECT digest FROM artifact WHERE version = 137");
    assert_eq!(digest, hpsearch::runner::artifacts::digest_of(b"137"));
    assert_done(&site.run(&["verify", "digits"]));
    site.assert_sound();
}

#[test]
fn a_spool_without_a_writer_is_taken_over_by_the_next_run() {
    let site = Site::empty();
    let Some(program) = start(&site, &without_writer(LOGS)) else { return };
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

/// So many programs are killed, or their writers, or both.
fn chaos_rounds() -> u64 {
    std::env::var("HPSEARCH_CHAOS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Logs one value after the other, and says when: which step, at which second.
const LOGS_ON: &str = r#"
import hpsearch, hpsearch._writer, os, sys, time
hpsearch._writer.PAUSES = (0.05, 0.1)
run = hpsearch.init(study="digits", name=os.environ["ROUND"])
print("begun", flush=True)
for step in range(1, 100_000):
    run.log({"loss": 1 / step, "x": step}, step=step)
    with open(os.environ["ROUND"] + ".log", "a") as file:
        file.write(f"{step} {time.time()}\n")
    if step % 10 == 0:
        run.artifact(os.environ["ROUND"] + ".log", name="log")
    time.sleep(0.01)
"#;

fn seconds() -> f64 {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64()
}

#[test]
fn nothing_logged_a_second_before_is_lost_whoever_is_killed() {
    let site = Site::empty();
    let mut rng = 0x9e37_79b9_7f4a_7c15_u64;
    let mut throw = |sides: u64| {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        rng % sides
    };
    let mut kills = Vec::new();
    for round in 0..chaos_rounds() {
        let name = format!("round-{round}");
        let program = LOGS_ON.replace("os.environ[\"ROUND\"]", &format!("{name:?}"));
        let Some(program) = start(&site, &program) else { return };
        site.wait_for(&format!("{name}.log"));
        std::thread::sleep(std::time::Duration::from_millis(throw(2500)));
        let writers = || hpsearch::runner::processes::children(program.id());
        let who = throw(3);
        let kill_writers = || {
            writers().into_iter().for_each(hpsearch::runner::processes::kill);
        };
        if who != 0 {
            kill_writers();
        }
        if who == 1 {
            // The program goes on with another writer, and is killed later.
            std::thread::sleep(std::time::Duration::from_millis(throw(1500)));
        }
        let at = seconds();
        program.signal(Signal::KILL);
        drop(program.end());
        kills.push((name, at));
    }
    let last = "import hpsearch\nhpsearch.init('digits', 'last').finish()";
    assert_done(&start(&site, last).unwrap().end());
    wait_until("all spools are in the store", || spools(&site).is_empty());
    wait_until("no run is left running", || {
        runs(&site).iter().all(|run| run["state"] != "running")
    });
    site.assert_sound();
    let (mut logged, mut lost) = (0, 0);
    for (name, at) in kills {
        let runs = runs(&site);
        let run = runs.iter().find(|run| run["name"] == *name).expect("the run is there");
        assert_eq!(run["state"], "paused", "{run:?}");
        let number = run["number"].to_string();
        // One that was killed at once may have lost all that it logged, and has no `x`.
        let curves = site.run(&["curves", "digits", &number, "--metric", "x", "--json"]);
        let values: Json = serde_json::from_str(&curves.out).unwrap_or_default();
        let points = values["series"][0]["points"].as_array().cloned().unwrap_or_default();
        let steps: Vec<u64> =
            points.iter().map(|point| point[0].as_f64().unwrap() as u64).collect();
        assert!(steps.iter().zip(1..).all(|(step, want)| *step == want), "{steps:?}");
        for line in site.lines(&format!("{name}.log")) {
            // The last line may be cut.
            let Some((step, when)) = line.split_once(' ').filter(|(_, when)| when.len() > 12)
            else {
                continue;
            };
            let is_there = step.parse::<u64>().unwrap() <= steps.len() as u64;
            logged += 1;
            lost += u64::from(!is_there);
            let is_old = when.parse::<f64>().is_ok_and(|when| when < at - 1.0);
            assert!(is_there || !is_old, "{name}: step {step} of {} is lost", steps.len());
        }
        let sql = format!(
            "SELECT count(*) FROM event WHERE body LIKE '%\"reported\",\"trial\":{number},%'"
        );
        let reports: i64 = site.query(&sql);
        assert_eq!(reports, i64::try_from(steps.len()).unwrap(), "each is there once: {name}");
    }
    assert_done(&site.run(&["verify", "digits"]));
    println!("{logged} values logged; {lost}, all of the last second, were lost");
}

#[test]
fn a_writer_that_is_killed_costs_no_attempt_and_a_run_is_stopped_by_its_user() {
    let site = Site::empty();
    let program = r#"
import hpsearch, hpsearch._writer, time
hpsearch._writer.PAUSES = (0.01,)
run = hpsearch.init(study="digits")
run.log({"loss": 1.0}, step=1)
while run.number is None:
    time.sleep(0.01)
run._writer._process.kill()
step = 1
while not run.should_stop:
    step += 1
    run.log({"loss": 1 / step}, step=step)
    time.sleep(0.02)
print(run.stop_reason)
"#;
    let Some(program) = start(&site, program) else { return };
    wait_until("the second writer writes", || {
        runs(&site).first().is_some_and(|run| run["last_step"].as_u64() > Some(20))
    });
    let stopped = site.run(&["stop", "digits", "0"]);
    assert_done(&stopped);
    assert!(stopped.err.contains("its `should_stop` is true"), "{}", stopped.err);
    let ended = program.end();
    assert_done(&ended);
    assert_eq!(ended.out, "stopped by its user\n");
    let run = &runs(&site)[0];
    assert_eq!((&run["state"], &run["attempts"]), (&"paused".into(), &1.into()));
    assert_eq!(run["reason"], "interrupted by its user");
    let again = site.run(&["stop", "digits", "0"]);
    assert!(again.err.contains("run 0 is not running"), "{}", again.err);
    let peak = site.json(&["curves", "digits", "0", "--metric", "system/peak_memory", "--json"]);
    let peak = peak["series"][0]["points"][0][1].as_f64().unwrap();
    assert!(peak > 1e6, "{peak}");
    site.assert_sound();
}

#[test]
fn the_older_of_two_programs_logs_on_into_a_run_of_its_own() {
    let site = Site::empty();
    let older = r#"
import hpsearch, sys, time
run = hpsearch.init(study="digits", name="a", id="a")
step = 0
while run.number in (None, 0) and step < 3000:
    step += 1
    run.log({"loss": 1 / step}, step=step)
    time.sleep(0.02)
run.log({"loss": 0.0}, step=5000)
"#;
    let Some(program) = start(&site, older) else { return };
    wait_until("the older one is stored", || {
        runs(&site).first().is_some_and(|run| run["last_step"].as_u64() > Some(5))
    });
    let newer = "import hpsearch, time\nwith hpsearch.init('digits', id='a', resume=True) as \
        run:\n    run.log({'loss': 7.0}, step=9000)\n    time.sleep(6)";
    assert_done(&start(&site, newer).unwrap().end());
    let ended = program.end();
    assert_done(&ended);
    assert_eq!(ended.err.matches("was continued by another process").count(), 1, "{}", ended.err);
    let runs = runs(&site);
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!((&runs[0]["state"], &runs[0]["last_step"]), (&"complete".into(), &9000.into()));
    assert_eq!((&runs[1]["name"], &runs[1]["last_step"]), (&"a-2".into(), &5000.into()));
    assert_eq!(spools(&site), Vec::<PathBuf>::new());
    site.assert_sound();
}

#[test]
fn the_wheel_and_the_client_alone_have_the_version_of_the_program() {
    let read = |name: &str| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(path).unwrap()
    };
    // Maturin takes it from Cargo.toml: no second one may stand beside it.
    let wheel = read("pyproject.toml");
    assert!(wheel.contains("dynamic = [\"version\"]"), "{wheel}");
    assert!(!wheel.lines().any(|line| line.starts_with("version")), "{wheel}");
    let version = format!("version = {:?}", env!("CARGO_PKG_VERSION"));
    for name in ["Cargo.toml", "python/pyproject.toml"] {
        assert!(read(name).contains(&version), "{name}");
    }
}

#[test]
fn a_store_that_was_moved_away_is_waited_for_and_none_is_made_in_its_place() {
    let site = Site::empty();
    let program = r#"
import os, sys, time
import hpsearch

def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)

run = hpsearch.init(study="digits", system="off")
for step in range(20):
    run.log({"loss": 1.0}, step=step)
wait("away")
for step in range(20, 40):
    run.log({"loss": 1.0}, step=step)
    time.sleep(0.02)
wait("back")
for step in range(40, 60):
    run.log({"loss": 1.0}, step=step)
run.finish()
"#;
    let Some(program) = start(&site, program) else { return };
    wait_until("the first lines are stored", || {
        runs(&site).first().is_some_and(|run| run["last_step"] == 19)
    });
    // Its log, too: a new store could be made there.
    std::fs::rename(site.path("runs/hpsearch.db"), site.path("away.db")).unwrap();
    site.write("away", "");
    wait_until("that is said", || program.complained_so_far().contains("was moved or deleted"));
    for ending in ["-wal", "-shm"] {
        let _not_there = std::fs::rename(
            site.path(&format!("runs/hpsearch.db{ending}")),
            site.path(&format!("away.db{ending}")),
        );
    }
    // That nothing is made is seen only by waiting: longer than the second after which a writer
    // tries again.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!site.exists("runs/hpsearch.db"));
    for ending in ["-wal", "-shm", ""] {
        let _not_there = std::fs::rename(
            site.path(&format!("away.db{ending}")),
            site.path(&format!("runs/hpsearch.db{ending}")),
        );
    }
    site.write("back", "");
    assert_done(&program.end());
    wait_until("everything is stored", || {
        runs(&site).first().is_some_and(|run| run["state"] == "complete")
    });
    let runs = runs(&site);
    assert_eq!((runs.len(), &runs[0]["last_step"]), (1, &59.into()));
    assert_eq!(runs[0]["attempts"], 1);
    site.assert_sound();
}
