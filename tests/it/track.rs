//! `hpsearch track`, end to end: runs without a search, several at a time, killed, resumed, and
//! seen by the verbs.

use std::time::Duration;

use hpsearch::runner::processes;
use hpsearch::storage::StorageReader as _;
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::harness::{
    PROGRAM, Running, STORE, Site, assert_code, assert_done, assert_names, assert_refused,
    wait_at_most, wait_until,
};

/// Reports two steps, saying something in its own words before, between and behind them.
const TRAIN: &str = "echo begins\necho '@hpsearch {\"step\":1,\"loss\":0.5}'\n\
    echo '@hpsearch {\"step\":2,\"loss\":0.25,\"accuracy\":0.9}'\necho warns >&2\nprintf ends\n";

/// Says that it runs, and runs until it is asked to leave.
const LASTS: &str = "echo '@hpsearch {\"step\":1,\"loss\":0.5}'\necho $$ >> started\n\
    while :; do sleep 0.05; done\n";

fn site(script: &str) -> Site {
    let site = Site::empty();
    site.write("train.sh", script);
    site
}

/// The words that track `train.sh` with these options and arguments.
fn words<'a>(options: &[&'a str], arguments: &[&'a str]) -> Vec<&'a str> {
    [&["track"], options, &["--", "sh", "train.sh"], arguments].concat()
}

fn runs(site: &Site, study: &str) -> Vec<Json> {
    let listed = site.json(&["trials", study, "--sort", "number", "--json"]);
    listed["trials"].as_array().unwrap().clone()
}

/// The journal of a study folds to what its tables hold.
fn assert_verified(site: &Site, study: &str) {
    let verified = site.run(&["verify", study]);
    assert_done(&verified);
    assert_names(&verified.out, &["tables repeat exactly from its journal"]);
}

fn wait_for_report(site: &Site, study: &str, run: usize) {
    wait_until("the run has reported", || {
        let runs = runs(site, study);
        runs.get(run).is_some_and(|run| run["last_step"] != Json::Null)
    });
}

#[test]
fn a_program_is_run_as_if_nobody_looked_on_and_all_of_it_is_kept() {
    let site = site(TRAIN);
    let options = ["--name", "first", "--param", "data=v2", "--tag", "x", "--note", "why"];
    let ended = site.run(&words(&options, &["--lr", "0.1", "--fp16", "--api-key", "s3cr3t"]));
    assert_done(&ended);
    assert_eq!(ended.out, "begins\nends");
    assert_names(&ended.err, &["warns", "tracking run 0 (`first`) of `runs`", "loss 0.25"]);
    let [run] = runs(&site, "runs").try_into().unwrap();
    assert_eq!(run["state"], "complete");
    assert_eq!(
        (&run["name"], &run["value"], &run["attempts"]),
        (&json!("first"), &json!(0.25), &json!(1))
    );
    assert_eq!((&run["tags"][0], &run["notes"][0]["text"]), (&json!("x"), &json!("why")));
    let params = json!({ "lr": 0.1, "fp16": true, "data": "v2", "api-key": "***" });
    assert_eq!(run["params"], params);
    assert_names(&site.run(&["show", "runs", "0"]).out, &["tags        x\n", "note        why\n"]);
    let log = site.run(&["logs", "runs", "0"]);
    assert_names(&log.out, &["begins", "warns", "ends"]);
    let database = std::fs::read(site.path("runs/hpsearch.db")).unwrap();
    let wal = std::fs::read(site.path("runs/hpsearch.db-wal")).unwrap_or_default();
    for bytes in [database, wal] {
        assert!(!String::from_utf8_lossy(&bytes).contains("s3cr3t"), "the secret is stored");
    }
    assert_verified(&site, "runs");
}

#[test]
fn a_run_in_a_directory_whose_name_is_not_text_is_refused_before_it_begins() {
    use std::os::unix::ffi::OsStrExt as _;

    let site = Site::empty();
    let directory = site.path("").join(std::ffi::OsStr::from_bytes(b"nu\xff"));
    std::fs::create_dir(&directory).unwrap();
    let store = site.path("h.db");
    let words = ["track", "--store", store.to_str().unwrap(), "--", "echo", "hello"];
    let mut command = site.command(&words);
    command.current_dir(directory);
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert_names(&said, &["the working directory", "is not UTF-8", "rename it"]);
    let listed = site.json(&["--store", "h.db", "ls", "--json"]);
    assert_eq!(listed["studies"], json!([]));
}

#[test]
fn a_refused_run_leaves_no_study_behind() {
    let site = site(TRAIN);
    let options: [&[&str]; 3] = [&["--name", "12"], &["--tag", "two words"], &["--parent", "none"]];
    for options in options {
        assert_refused(&site.run(&words(options, &[])), &[options[1]]);
        assert_eq!(site.json(&["ls", "--json"])["studies"], json!([]));
    }
}

#[test]
fn a_program_that_prints_its_metrics_in_its_own_words_is_tracked_by_a_pattern() {
    let script = "for step in 1 2; do echo \"step $step loss: 0.$step\"; done\n";
    let site = site(script);
    let ended = site.run(&words(&["--pattern", r"step (?<step>\d+) loss: (?<loss>\S+)"], &[]));
    assert_done(&ended);
    assert_names(&ended.err, &["run 0 is complete: loss 0.1"]);
    let run = &runs(&site, "runs")[0];
    assert_eq!((&run["value"], &run["last_step"]), (&json!(0.1), &json!(2)), "{run}");
    let refused = site.run(&words(&["--pattern", r"(?<=loss: )(?<loss>\S+)"], &[]));
    assert_code(&refused, 2);
    assert_names(&refused.err, &["look-around is not supported", "name only the number"]);
    let refused = site.run(&words(&["--pattern", r"(?<loss>\S+"], &[]));
    assert_code(&refused, 2);
    assert_names(&refused.err, &["is not a regular expression", "so that the shell leaves it"]);
    assert_eq!(runs(&site, "runs").len(), 1, "nothing was begun");
    assert_verified(&site, "runs");
}

#[test]
fn a_rejected_line_is_said_once_and_the_run_continues() {
    let script = "for x in 1 2 3; do echo '@hpsearch {\"step\":'; done\n\
        echo '@hpsearch {\"step\":1,\"loss\":0.5}'\n";
    let site = site(script);
    let ended = site.run(&words(&[], &[]));
    assert_done(&ended);
    let said = ended.err.lines().filter(|line| line.contains("run 0: ")).count();
    assert_eq!(said, 1, "{}", ended.err);
    assert_eq!(runs(&site, "runs")[0]["value"], 0.5);
}

#[test]
fn the_exit_code_is_the_programs_own() {
    let site = site("exit $1");
    for code in ["0", "7", "42"] {
        assert_code(&site.run(&words(&[], &[code])), code.parse().unwrap());
    }
    let missing = site.run(&["track", "--", "no-such-program"]);
    assert_code(&missing, 127);
    assert_names(
        &missing.err,
        &["run 3 failed: cannot start `no-such-program`: there is no such program on PATH\n"],
    );
    site.write("train.sh", "kill -SEGV $$");
    assert_code(&site.run(&words(&[], &[])), 139);
    let runs = runs(&site, "runs");
    let states: Vec<&str> = runs.iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["complete", "failed", "failed", "failed", "failed"]);
    assert_names(runs[1]["reason"].as_str().unwrap(), &["exit status 7"]);
    assert_verified(&site, "runs");
}

#[test]
fn several_values_of_an_option_are_one_parameter() {
    let site = site(TRAIN);
    assert_done(&site.run(&words(&[], &["--sizes", "64", "32", "--lr", "0.1"])));
    assert_eq!(runs(&site, "runs")[0]["params"], json!({ "lr": 0.1, "sizes": "64 32" }));
}

#[test]
fn a_metric_without_a_direction_is_said_to_be_minimised_once() {
    let site = site(TRAIN);
    let options = ["--study", "s", "--metric", "accuracy"];
    let first = site.run(&words(&options, &[]));
    assert_done(&first);
    assert_names(&first.err, &["smaller values of `accuracy` are better", "--direction maximize"]);
    assert!(!site.run(&words(&options, &[])).err.contains("no direction"));
    assert!(!site.run(&words(&["--study", "t"], &[])).err.contains("no direction"));
    let options = [&options[2..], &["--direction", "minimize", "--study", "u"]].concat();
    assert!(!site.run(&words(&options, &[])).err.contains("no direction"));
}

#[test]
fn a_command_without_dashes_before_it_is_told_where_they_go() {
    let site = Site::empty();
    assert_refused(
        &site.run(&["track", "--name", "a", "python", "train.py", "--lr", "0.1"]),
        &["`python`", "put `--` before the command: hpsearch track [OPTIONS] -- python .."],
    );
}

#[test]
fn runs_are_tracked_at_the_same_time_in_one_study() {
    let site = site(
        "for step in 1 2 3 4 5 6 7 8; do\n\
        echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"; sleep 0.02\ndone\n",
    );
    let losses = ["0.4", "0.1", "0.3", "0.2"];
    let started: Vec<Running> =
        losses.iter().map(|loss| site.start(&words(&["--name", "same"], &[loss]))).collect();
    started.into_iter().for_each(|running| assert_done(&running.end()));
    let runs = runs(&site, "runs");
    let mut names: Vec<&str> = runs.iter().map(|run| run["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["same", "same-2", "same-3", "same-4"]);
    let mut values: Vec<f64> = runs.iter().map(|run| run["value"].as_f64().unwrap()).collect();
    values.sort_by(f64::total_cmp);
    assert_eq!(values, [0.1, 0.2, 0.3, 0.4]);
    assert!(runs.iter().all(|run| run["last_step"] == 8), "{runs:?}");
    let best = site.json(&["best", "runs", "--json"]);
    assert_eq!(best["trial"]["value"], 0.1);
    assert_verified(&site, "runs");
}

#[test]
fn a_tracker_that_is_killed_takes_its_program_along_and_the_run_is_resumed() {
    let site = site(
        "echo $HPSEARCH_RESUME >> resumed\n\
        echo 1 > $HPSEARCH_CHECKPOINT_DIR/one\n\
        echo '@hpsearch {\"step\":1,\"loss\":0.5}'\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"one\\\",\\\"step\\\":1}\"\n\
        [ -n \"$HPSEARCH_RESUME\" ] && exit 0\n\
        echo $$ >> started; while :; do sleep 0.05; done\n",
    );
    let mut tracker = site.start(&words(&["--name", "long"], &[]));
    site.wait_for("started");
    wait_until("its checkpoint is known", || {
        site.run(&["events", "runs"]).out.contains("checkpoint")
    });
    let program: u32 = site.lines("started")[0].parse().unwrap();
    tracker.kill();
    wait_at_most(Duration::from_secs(5), "the program is gone", || !processes::exists(program));
    // Nobody has written its end yet, and everybody sees it.
    assert_eq!(site.json(&["ls", "--json"])["studies"][0]["state"], "interrupted");
    let shown = site.run(&["show", "runs", "0"]).out;
    assert_names(&shown, &["interrupted", "its process was killed", "on cpu, lost, "]);
    let is_running = shown.contains("running") || shown.contains(" 0 s in 1 attempt");
    assert!(!is_running && shown.contains("s in 1 attempt"), "{shown}");
    let lost = shown.lines().find(|line| line.contains("lost, ")).unwrap().to_owned();
    assert_names(&site.run(&["trials", "runs"]).out, &["interrupted"]);
    let other = site.run(&["track", "--", "true"]);
    assert_names(&other.err, &["run 0 is interrupted: its process was killed"]);
    let [dead, _] = runs(&site, "runs").try_into().unwrap();
    assert_eq!(dead["state"], "paused");
    assert_eq!(dead["reason"], "interrupted: its process was killed");
    let settled = site.run(&["show", "runs", "0"]).out;
    assert_names(&settled, &[&format!("{lost}: its process was killed")]);
    let resumed = site.run(&words(&["--resume", "long"], &[]));
    assert_done(&resumed);
    assert_names(&resumed.err, &["run 0 (`long`)", "attempt 1", "checkpoint of step 1"]);
    assert_names(&site.run(&["show", "runs", "0"]).out, &["attempt 0 ", "attempt 1 "]);
    let [run, _] = runs(&site, "runs").try_into().unwrap();
    assert_eq!((&run["state"], &run["attempts"]), (&json!("complete"), &json!(2)));
    let paths = site.lines("resumed");
    assert_eq!(paths[0], "");
    assert!(paths[1].ends_with("checkpoints/one"), "{paths:?}");
    assert_verified(&site, "runs");
}

#[test]
fn a_run_that_is_resumed_with_other_parameters_says_so() {
    let site = site("echo '@hpsearch {\"step\":1,\"loss\":0.5}'\nexit 3\n");
    assert_code(&site.run(&words(&["--name", "a"], &["--lr", "0.1"])), 3);
    let resumed = site.run(&words(&["--resume", "a"], &["--lr", "0.9"]));
    assert_names(&resumed.err, &["from attempt 1 on: `lr` is 0.9, and was 0.1"]);
    assert_names(&site.run(&["show", "runs", "a"]).out, &["lr=0.9", "attempt 0: lr=0.1"]);
}

#[test]
fn runs_are_compared_by_their_summaries_and_not_by_seeds_that_they_do_not_have() {
    let site = site(
        "echo '@hpsearch {\"step\":1,\"loss\":0.5}'\n\
         echo \"@hpsearch {\\\"summary\\\":{\\\"test\\\":$HPSEARCH_TRIAL}}\"\n",
    );
    (0..2).for_each(|_| assert_done(&site.run(&words(&[], &[]))));
    let compared = site.run(&["diff", "runs", "0", "1"]).out;
    assert_names(&compared, &["summary.test", "program and data are the same\n"]);
    assert!(!compared.contains("seed"), "{compared}");
    let different = site.json(&["diff", "runs", "0", "1", "--json"])["different"].clone();
    assert_eq!(different, json!([{ "kind": "summary", "name": "test", "values": [0, 1] }]));
}

#[test]
fn a_run_that_is_being_tracked_is_not_resumed() {
    let site = site(LASTS);
    let tracker = site.start(&words(&["--name", "a"], &[]));
    site.wait_for("started");
    let refused = site.run(&words(&["--resume", "a"], &[]));
    assert_refused(&refused, &["run 0 is being tracked by process", "wait until it has ended"]);
    // Nor is it taken for what a dead run left.
    let doctor = site.run(&["doctor"]).out;
    assert!(!doctor.contains("nobody runs it"), "{doctor}");
    tracker.signal(Signal::TERM);
    assert_code(&tracker.end(), 143);
}

#[test]
fn a_signal_reaches_the_program_which_may_save_and_leave() {
    let site = site(
        "trap 'echo saved >> saved; exit 3' INT\n\
        echo '@hpsearch {\"step\":1,\"loss\":0.5}'\necho >> started\nwhile :; do sleep 0.05; \
        done\n",
    );
    let tracker = site.start(&words(&[], &[]));
    site.wait_for("started");
    wait_for_report(&site, "runs", 0);
    tracker.signal(Signal::INT);
    let ended = tracker.end();
    assert_code(&ended, 3);
    assert_names(&ended.err, &["was interrupted by SIGINT", "--resume 0"]);
    assert!(site.exists("saved"));
    let [run] = runs(&site, "runs").try_into().unwrap();
    assert_eq!((&run["state"], &run["last_value"]), (&json!("paused"), &json!(0.5)));
    assert_eq!(run["reason"], "interrupted by SIGINT");
    assert_names(&site.run(&["trials", "runs"]).out, &["interrupted"]);
    assert_names(&site.run(&["show", "runs"]).out, &["1 interrupted", "idle"]);
    assert_verified(&site, "runs");
}

#[test]
fn the_third_signal_kills_a_program_that_ignores_them() {
    let site = site("trap '' INT TERM\necho >> started\nwhile :; do sleep 0.05; done\n");
    let mut tracker = site.start(&words(&[], &[]));
    site.wait_for("started");
    // Signals of a kind that come before the first of them was noticed are one.
    wait_until("three were noticed", || {
        tracker.has_ended() || {
            tracker.signal(Signal::TERM);
            false
        }
    });
    assert_code(&tracker.end(), 137);
}

#[test]
fn a_requeued_job_goes_on_in_the_run_that_it_began() {
    let site = site(
        "[ -n \"$1\" ] && exit 0\ntrap 'exit 1' TERM\necho >> started\n\
        echo attempt $HPSEARCH_ATTEMPT\n[ $HPSEARCH_ATTEMPT = 1 ] && exit 0\n\
        while :; do sleep 0.05; done\n",
    );
    let start = |restarts: &str| {
        let mut command = site.command(&words(&[], &[]));
        command.env("SLURM_JOB_ID", "4711").env("SLURM_RESTART_COUNT", restarts);
        Running::start(command)
    };
    let first = start("0");
    site.wait_for("started");
    first.signal(Signal::TERM);
    assert_code(&first.end(), 1);
    let again = start("1").end();
    assert_done(&again);
    assert_names(&again.out, &["attempt 1"]);
    let [run] = runs(&site, "runs").try_into().unwrap();
    assert_eq!((&run["state"], &run["attempts"]), (&json!("complete"), &json!(2)));
}

#[test]
fn hostile_names_are_shown_harmlessly_and_are_no_paths() {
    let site = site(TRAIN);
    let name = "../../\u{1b}]0;owned\u{7}";
    assert_done(
        &site.run(&words(&["--name", name, "--group", name], &["--a\u{1b}[31m", "x\u{1b}[2J"])),
    );
    for verb in [&["trials", "runs"][..], &["show", "runs", "0"], &["events", "runs"]] {
        let shown = site.run(verb);
        assert_done(&shown);
        assert!(!shown.out.contains('\u{1b}'), "{verb:?}: {:?}", shown.out);
    }
    let outside = site.path("").parent().unwrap().join("runs");
    assert!(!outside.exists());
    assert_eq!(runs(&site, "runs")[0]["name"], name);
    let resumed = site.run(&words(&["--resume", name], &[]));
    assert_done(&resumed);
    for (options, why) in [
        (["--study", "../evil"], "cannot be a study's name"),
        (["--name", "12"], "cannot be a run's name"),
        (["--name", ""], "cannot be a run's name"),
        (["--tag", "a b"], "cannot be a tag"),
        (["--param", "lr"], "gives no parameter"),
        (["--resume", "none"], "has no run `none`"),
        (["--metric", "accuracy"], "are compared by `loss` (minimize), not by `accuracy`"),
    ] {
        assert_refused(&site.run(&words(&options, &[])), &[why]);
    }
}

#[test]
fn nothing_is_searched_among_tracked_runs_and_none_is_tracked_in_a_search() {
    let site = Site::finished("trials = 2");
    site.write("train.sh", TRAIN);
    assert_refused(&site.run(&words(&["--study", "s"], &[])), &["`s` is a search"]);
    assert_done(&site.run(&words(&["--study", "tracked"], &[])));
    for verb in ["pause", "resume", "extend"] {
        let more: &[&str] = if verb == "extend" { &["--trials", "1"] } else { &[] };
        let refused = site.run(&[&[verb, "tracked"], more].concat());
        assert_refused(&refused, &["tracked runs"]);
    }
    site.write("study.toml", site.read("study.toml").replace("name = \"s\"", "name = \"tracked\""));
    assert_refused(&site.run_study(), &["`tracked` holds tracked runs: nothing is searched there"]);
}

#[test]
fn the_metrics_of_a_run_are_what_it_reported_or_logged_last() {
    let script = "echo '@hpsearch {\"step\":1,\"loss\":0.5,\"acc\":0.5}'\n\
        echo '@hpsearch {\"step\":3,\"acc\":0.75}'\necho '@hpsearch {\"step\":2,\"acc\":0.25}'\n\
        echo '@hpsearch {\"step\":3,\"lr\":0.125}'\n";
    let site = site(script);
    assert_done(&site.run(&words(&[], &[])));
    let written = site.run(&["export-data", "runs", "--format", "jsonl"]);
    let run: Json = serde_json::from_str(&written.out).unwrap();
    assert_eq!(run["metrics"], json!({ "acc": 0.75, "loss": 0.5, "lr": 0.125 }));
    let table = site.run(&["export-data", "runs", "--where", "state:complete"]).out;
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (titles, row) = (rows.next().unwrap(), rows.next().unwrap());
    let cell = |name: &str| row[titles.iter().position(|title| *title == name).unwrap()];
    assert_eq!(["metrics.acc", "metrics.loss", "metrics.lr"].map(cell), ["0.75", "0.5", "0.125"]);
    assert!(!table.contains("system/"), "{table}");
    let found = |filter: &str| {
        let trials = site.json(&["trials", "runs", "--where", filter, "--json"]);
        trials["trials"].as_array().unwrap().len()
    };
    assert_eq!(["acc=0.75", "metrics.acc>0.6 lr<1", "acc<=0.5"].map(found), [1, 1, 0]);
    assert_done(&site.run(&["trials", "runs", "--sort", "acc"]));
    assert_verified(&site, "runs");
}

#[test]
fn the_verbs_show_a_study_of_runs_without_a_word_of_a_search() {
    let site = site(TRAIN);
    assert_done(&site.run(&words(&["--name", "one", "--metric", "loss"], &["--lr", "0.1"])));
    assert_done(&site.run(&words(&["--name", "two", "--group", "g"], &["--lr", "0.2"])));
    for (verb, wanted) in [
        (&["ls"][..], &["runs", "idle", "minimize"][..]),
        (&["show", "runs"], &["2 complete", "none: it holds tracked runs"]),
        (
            &["show", "runs", "1"],
            &["run 1 of runs: complete with loss 0.25", "two", "sh train.sh --lr 0.2", "lr=0.2"],
        ),
        (&["trials", "runs"], &["name", "one", "two", "lr", "0.1"]),
        (&["best", "runs"], &["lr = 0.1"]),
        (&["curves", "runs"], &["loss"]),
        (&["diff", "runs", "0", "1"], &["lr", "0.1", "0.2"]),
        (
            &["explain", "runs", "0"],
            &["by no sampler: a tracked run", "nothing judges a tracked run"],
        ),
        (&["logs", "runs", "1"], &["begins"]),
        (&["export-data", "runs"], &["params.lr", "one", "two"]),
        (&["du"], &["runs"]),
        (&["gc", "--dry-run"], &[]),
        (&["doctor"], &[]),
        (&["events", "runs"], &["lr=0.1"]),
        (&["importance", "runs"], &[]),
    ] {
        let shown = site.run(verb);
        let is_broken = shown.code == 1 && verb[0] != "doctor" || shown.code > 3;
        assert!(!is_broken, "{verb:?}: {} {}{}", shown.code, shown.out, shown.err);
        assert_names(&shown.out, wanted);
        for word in ["budget", "forecast", "panicked"] {
            let said = format!("{}{}", shown.out, shown.err);
            assert!(verb[0] == "doctor" || !said.contains(word), "{verb:?}: {said}");
        }
    }
    assert_done(&site.run(&["note", "runs", "0", "-m", "good"]));
    assert_done(&site.run(&["tag", "runs", "0", "+keep"]));
    assert_eq!(runs(&site, "runs")[0]["tags"], json!(["keep"]));
    assert_verified(&site, "runs");
}

#[test]
fn a_python_program_is_tracked_from_its_first_parameter_to_its_summary() {
    let site = Site::empty();
    site.write(
        "train.py",
        "import argparse, json, os, sys\n\
         parser = argparse.ArgumentParser()\n\
         parser.add_argument('--lr', type=float)\n\
         lr = parser.parse_args().lr\n\
         def say(**what): print('@hpsearch ' + json.dumps(what))\n\
         assert json.load(open(os.environ['HPSEARCH_PARAMS'])) == {'lr': 0.5}\n\
         assert 'HPSEARCH_DEVICE' not in os.environ\n\
         say(params={'seed': 7, 'layers': 2})\n\
         for step in range(1, 4):\n\
         \x20   say(step=step, loss=lr / step)\n\
         \x20   assert json.loads(sys.stdin.readline())['verdict'] == 'continue'\n\
         say(summary={'status': 'converged', 'params_total': 12})\n",
    );
    let Some(ended) =
        site.run_program("env", &[PROGRAM, "track", "--", "python3", "train.py", "--lr", "0.5"])
    else {
        return;
    };
    if ended.code == 127 {
        return;
    }
    assert_done(&ended);
    let [run] = runs(&site, "runs").try_into().unwrap();
    assert_eq!(run["params"], json!({ "lr": 0.5, "seed": 7, "layers": 2 }));
    assert!((run["value"].as_f64().unwrap() - 0.5 / 3.0).abs() < 1e-12, "{run}");
    let shown = site.run(&["show", "runs", "0"]).out;
    assert_names(&shown, &["status=\"converged\"", "params_total=12"]);
    assert_verified(&site, "runs");
}

#[test]
fn runs_of_a_repository_go_to_a_study_of_its_name() {
    let site = site(TRAIN);
    std::fs::create_dir_all(site.path("speech/.git")).unwrap();
    site.write("speech/train.sh", TRAIN);
    let mut command = site.command(&words(&["--store", "../runs.db"], &[]));
    command.current_dir(site.path("speech"));
    assert_done(&Running::start(command).end());
    let store = hpsearch::storage::any::AnyReader::open(&site.path("runs.db")).unwrap();
    assert_eq!(store.studies().unwrap()[0].spec.name, "speech");
}

#[test]
fn runs_killed_at_any_moment_are_whole_or_interrupted_and_the_journal_holds() {
    let site = site(
        "for step in 1 2 3 4 5 6 7 8 9; do\n\
        echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":0.$step}\"\n\
        echo >> \"said.$1\"; sleep 0.01\ndone\n",
    );
    // Killed at once, when there is a store, after each step, and at its end.
    for round in 0..12 {
        let mut tracker = site.start(&words(&["--name", "crash"], &[&round.to_string()]));
        let said = format!("said.{round}");
        match round {
            0 => {}
            1 => site.wait_for(STORE),
            2..11 => site.wait_for_lines(&said, round - 1),
            _ => wait_until("it has ended", || tracker.has_ended()),
        }
        tracker.kill();
    }
    assert_done(&site.run(&words(&["--name", "last"], &[])));
    let runs = runs(&site, "runs");
    for run in &runs {
        let state = run["state"].as_str().unwrap();
        assert!(["paused", "complete"].contains(&state), "{run}");
        assert!(state != "complete" || run["last_step"] == 9, "{run}");
    }
    assert_eq!(runs.last().unwrap()["name"], "last");
    assert_verified(&site, "runs");
}

#[test]
fn a_study_of_runs_is_renamed_and_removed_while_none_of_them_is_tracked() {
    let site = site(
        "echo '@hpsearch {\"step\":1,\"loss\":0.5}'; echo >> started; while [ ! -e go ]; do sleep \
         0.02; done",
    );
    let tracker = site.start(&words(&["--study", "demo"], &[]));
    site.wait_for("started");
    wait_for_report(&site, "demo", 0);
    for refused in [&["mv", "demo", "kept"][..], &["rm", "demo", "--yes"]] {
        let refused = site.run(refused);
        assert_eq!(refused.code, 5, "{}", refused.err);
        assert!(refused.err.contains("run 0 of `demo` is being tracked"), "{}", refused.err);
    }
    std::fs::write(site.path("go"), "").unwrap();
    assert_code(&tracker.end(), 0);
    assert_done(&site.run(&["mv", "demo", "kept"]));
    let again = site.run(&words(&["--study", "kept"], &[]));
    assert_eq!(again.code, 0, "{}", again.err);
    assert_eq!(runs(&site, "kept").len(), 2);
    assert_verified(&site, "kept");
    assert_done(&site.run(&["mv", "--archive", "kept"]));
    assert_done(&site.run(&["rm", "kept", "--yes"]));
    assert_eq!(site.json(&["ls", "--all", "--json"])["studies"], json!([]));
    assert!(!site.exists("runs/files/demo"));
}

#[test]
fn the_name_of_a_run_stands_wherever_its_number_may() {
    let site = site(TRAIN);
    for name in ["first", "second", "0-4"] {
        let options = ["--study", "demo", "--name", name];
        assert_done(&site.run(&words(&options, &["--lr", "0.1"])));
    }
    assert_names(&site.run(&["show", "demo", "second"]).out, &["second"]);
    assert_names(&site.run(&["explain", "demo", "first"]).out, &["run 0 of demo"]);
    assert_names(&site.run(&["logs", "demo", "second"]).out, &["begins"]);
    assert_done(&site.run(&["diff", "demo", "first", "second"]));
    assert_done(&site.run(&["diff", "demo/first", "demo/1"]));
    let curves = site.json(&["curves", "demo", "second", "0-4", "--json"]);
    let trials: Vec<&Json> =
        curves["series"].as_array().unwrap().iter().map(|series| &series["trial"]).collect();
    assert_eq!(trials, [1, 2]);
    assert_done(&site.run(&["tag", "demo", "second", "+keep"]));
    assert_eq!(site.run(&["tag", "demo", "1"]).out.trim(), "trial 1: keep");
    assert_done(&site.run(&["note", "demo", "first", "-m", "the slow one"]));
    assert_names(&site.run(&["note", "demo", "0"]).out, &["trial 0: the slow one"]);
    assert_refused(
        &site.run(&["show", "demo", "secnd"]),
        &["`demo` has no run `secnd`", "did you mean `second`?"],
    );
    assert_refused(
        &site.run(&["kill", "demo", "other"]),
        &["`demo` has no run `other`", "`hpsearch trials demo` lists its runs"],
    );
    assert_refused(&site.run(&["kill", "demo", "first"]), &["trial 0 is already complete"]);
}

#[test]
fn runs_are_filtered_by_what_they_are_called_have_and_came_to() {
    let script = "echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$2}\"\n\
        echo \"@hpsearch {\\\"summary\\\":{\\\"test\\\":$2,\\\"verdict\\\":\\\"Good\\\"}}\"\n";
    let site = site(script);
    for (name, group, rate) in [("base", "a", "0.1"), ("wide", "b", "0.2"), ("other", "b", "0.3")] {
        let options = ["--study", "demo", "--name", name, "--group", group];
        assert_done(&site.run(&words(&options, &["--lr", rate])));
    }
    let numbers = |filter: &str| {
        let told = site.json(&["trials", "demo", "--sort", "number", "--where", filter, "--json"]);
        let trials = told["trials"].as_array().unwrap().iter();
        trials.map(|trial| trial["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for (filter, expected) in [
        ("name:base", &[0][..]),
        ("wide", &[1]),
        ("group=b", &[1, 2]),
        ("group = b lr>0.2", &[2]),
        ("lr<=0.2", &[0, 1]),
        ("summary.test>0.15", &[1, 2]),
        ("summary.verdict=good -summary.test>0.15", &[0]),
        ("summary.nothing>0", &[]),
    ] {
        assert_eq!(numbers(filter), expected, "{filter}");
    }
    let by_param = site.json(&["trials", "demo", "--sort", "-lr", "--json"]);
    assert_eq!(by_param["trials"][0]["name"], "other");
    assert_refused(&site.run(&["trials", "demo", "--where", "lrr>0"]), &["did you mean `lr`?"]);
}

#[test]
fn runs_that_never_report_the_metric_have_no_best_and_best_names_it() {
    let site = site("echo '@hpsearch {\"step\":1,\"acc\":0.5}'\n");
    assert_done(&site.run(&words(&[], &[])));
    let said = ["the only complete trial of `runs` did not report `loss`", "`--metric`"];
    assert_names(&site.run(&["best", "runs"]).err, &said);
}

/// Logs the loss of two epochs and saves, and continues from there with a third.
const EPOCHS: &str = "log() { echo \"@hpsearch {\\\"epoch\\\":$1,\\\"loss\\\":$2}\"; }\n\
    [ -n \"$HPSEARCH_RESUME\" ] && { log 3 0.75; exit 0; }\n\
    log 1 0.9; log 2 0.5; echo 2 > $HPSEARCH_CHECKPOINT_DIR/two\n\
    echo '@hpsearch {\"checkpoint\":\"two\",\"step\":2}'\n\
    [ -n \"$1\" ] && exit 0\nwhile :; do sleep 0.05; done\n";

#[test]
fn a_run_that_logs_the_metric_by_epoch_has_its_best_value() {
    let site = site(EPOCHS);
    let ended = site.run(&words(&[], &["ends"]));
    assert_done(&ended);
    assert_names(&ended.err, &["run 0 is complete: loss 0.5"]);
    assert_eq!(runs(&site, "runs")[0]["value"], 0.5);
    assert_eq!(site.json(&["best", "runs", "--json"])["trial"]["value"], 0.5);
    // Reports on the study's axis come first.
    let by_both = format!("{TRAIN}\necho '@hpsearch {{\"epoch\":1,\"loss\":0.1}}'\n");
    site.write("train.sh", by_both);
    assert_done(&site.run(&words(&[], &[])));
    assert_eq!(runs(&site, "runs")[1]["value"], 0.25);
    assert_verified(&site, "runs");
}

#[test]
fn what_was_logged_before_a_checkpoint_is_stored_with_it() {
    let site = site(EPOCHS);
    let mut tracker = site.start(&words(&["--name", "slow"], &[]));
    wait_until("its checkpoint is known", || {
        site.run(&["events", "runs"]).out.contains("checkpoint")
    });
    tracker.kill();
    wait_until("its process is gone", || {
        site.run(&["show", "runs", "slow"]).out.contains("interrupted")
    });
    assert_done(&site.run(&words(&["--resume", "slow"], &[])));
    let shown = site.json(&["show", "runs", "slow", "--json"]);
    let series: Vec<&Json> = shown["series"].as_array().unwrap().iter().collect();
    let loss = series.iter().find(|series| series["metric"] == "loss").unwrap();
    assert_eq!(loss["count"], 3, "{loss}");
    assert_eq!(runs(&site, "runs")[0]["value"], 0.5);
    assert_verified(&site, "runs");
}

/// Reports step after step until `enough` is there, and writes the last one to `last`.
const REPORTS: &str = "i=0\nwhile [ ! -e enough ]; do i=$((i+1))\n\
    echo \"@hpsearch {\\\"step\\\":$i,\\\"loss\\\":$i}\"\necho $i > last.new; mv last.new last\n\
    sleep 0.02; done\n";

fn last(site: &Site) -> u64 {
    site.read("last").trim().parse().unwrap()
}

fn wait_for_more(site: &Site, steps: u64) {
    let until = last(site) + steps;
    wait_until("more steps are reported", || last(site) >= until);
}

/// A tracker of a program that reports, and whose store was moved away.
fn tracker_without_a_store() -> (Site, Running) {
    let site = site(REPORTS);
    let tracker = site.start(&words(&["--study", "s", "--system", "off"], &[]));
    site.wait_for("last");
    wait_for_report(&site, "s", 0);
    std::fs::rename(site.path("runs/hpsearch.db"), site.path("runs/away.db")).unwrap();
    wait_until("that is said", || tracker.complained_so_far().contains("was moved or deleted"));
    wait_for_more(&site, 10);
    (site, tracker)
}

fn put_back(site: &Site) {
    assert!(!site.exists("runs/hpsearch.db"), "nothing is made in its place");
    std::fs::rename(site.path("runs/away.db"), site.path("runs/hpsearch.db")).unwrap();
}

#[test]
fn a_store_that_was_away_for_a_moment_gets_everything() {
    let (site, tracker) = tracker_without_a_store();
    put_back(&site);
    wait_until("that is said", || tracker.complained_so_far().contains("can be written again"));
    wait_for_more(&site, 10);
    site.write("enough", "");
    assert_done(&tracker.end());
    let run = &runs(&site, "s")[0];
    assert_eq!((&run["state"], &run["last_step"]), (&"complete".into(), &last(&site).into()));
    let reports: i64 = site.query("SELECT count(*) FROM report");
    assert_eq!(reports, last(&site).cast_signed());
    assert_verified(&site, "s");
}

#[test]
fn what_a_store_never_took_is_in_the_log_and_the_exit_code_says_so() {
    let (site, tracker) = tracker_without_a_store();
    site.write("enough", "");
    let ended = tracker.end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["before it is not in the store", "attempt-0.log"]);
    put_back(&site);
    let stored: i64 = site.query("SELECT count(*) FROM report");
    let log = site.log(0, 0);
    for step in stored + 1..=last(&site).cast_signed() {
        let line = format!("@hpsearch {{\"loss\":{step}.0,\"step\":{step}}}");
        let other = format!("@hpsearch {{\"step\":{step},\"loss\":{step}.0}}");
        assert!(log.contains(&line) || log.contains(&other), "{step}: {log}");
    }
    assert_verified(&site, "s");
}

#[test]
fn a_run_without_metrics_says_how_they_are_recorded() {
    let site = site("echo trains\n");
    let ended = site.run(&words(&[], &[]));
    assert_done(&ended);
    let ways = ["it reported no metric", "--pattern", "@hpsearch {\"loss\":0.5}", "hpsearch.init"];
    assert_names(&ended.err, &ways);
    site.write("train.sh", "echo '@hpsearch {\"step\":1,\"acc\":0.5}'\n");
    let ended = site.run(&words(&[], &[]));
    assert_names(&ended.err, &["it reported no `loss`", "but `acc`", "--metric NAME"]);
    site.write("train.sh", TRAIN);
    let ended = site.run(&words(&[], &[]));
    assert!(!ended.err.contains("it reported no"), "{}", ended.err);
}

#[test]
fn metrics_are_read_from_a_file_of_json_lines_in_the_working_directory() {
    let site = site("echo '{\"step\":1,\"loss\":0.5}' >> m.jsonl\n");
    site.write("m.jsonl", "{\"step\":9,\"loss\":0.1}\n");
    let ended = site.run(&words(&["--json", "m.jsonl"], &[]));
    assert_done(&ended);
    assert_names(&ended.err, &["run 0 is complete: loss 0.5"]);
    assert_refused(&site.run(&words(&["--json", "{a}.jsonl"], &[])), &["has braces"]);
    let ended = site.run(&words(&["--tensorboard", "logs"], &[]));
    assert_names(&ended.err, &["there is no event file", "logs"]);
}
