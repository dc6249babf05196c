//! Studies of shell scripts, end to end: what a script sees, what it says, how it ends, and how a
//! study is left and gone on with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self};
use std::process::Stdio;
use std::time::{Duration, Instant};

use hpsearch::runner::processes;
use hpsearch::study::event::{Event, RunnerEvent};
use rustix::process::Signal;
use serde_json::{Value as Json, json};

use crate::harness::{
    Ended, ONE_SLOT, PROGRAM, REPORT_X, Running, Site, TWO_SLOTS, assert_code, assert_done,
    assert_names, assert_refused, held, study, wait_at_most, wait_until,
};

#[test]
fn a_scripts_values_are_its_trials_values() {
    let site = Site::new(&study("trials = 6", TWO_SLOTS), REPORT_X);
    assert_done(&site.run_study());
    let trials = site.trials();
    assert_eq!(trials.len(), 6);
    for (number, trial) in trials.iter().enumerate() {
        assert_eq!(
            (&trial["number"], &trial["state"], &trial["reason"]),
            (&json!(number), &json!("complete"), &Json::Null)
        );
        assert_eq!(trial["value"], trial["params"]["x"]);
        assert_eq!((&trial["last_step"], &trial["attempts"]), (&json!(1), &json!(1)));
    }
}

#[test]
fn events_are_json_lines_in_the_journals_order() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), REPORT_X);
    let ended = site.run(&["run", "study.toml", "--events"]);
    assert_done(&ended);
    let events = ended.json_lines();
    let numbers: Vec<i64> = events.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one + 1 == *next), "{numbers:?}");
    let of_trial_1: Vec<&str> = events
        .iter()
        .map(|line| &line["event"])
        .filter(|event| event["trial"] == 1)
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        of_trial_1,
        [
            "trial_created",
            "attempt_started",
            "attempt_launched",
            "reported",
            "attempt_ended",
            "trial_finished"
        ]
    );
    assert_eq!(events.first().unwrap()["event"]["type"], "runner_started");
    assert_eq!(events.last().unwrap()["event"]["type"], "runner_stopped");
}

#[test]
fn a_script_finds_everything_the_contract_names() {
    let text = "[study]\nname = \"s\"\nmetric = \"loss\"\ndirection = \"minimize\"\nseed = 7\n\
        [budget]\ntrials = 1\n\
        [space]\nx = { float = [0.0, 1.0] }\n\"model.num_layers\" = { int = [1, 8] }\n\
        kind = [\"one two\", \"a'b\"]\n\
        [command]\nrun = [\"sh\", \"trial.sh\", \"--x={x}\", \"{model.num_layers}{kind}\", \
        \"{\\\"json\\\": 1}\"]\nenv = { MINE = \"yes\", PLACE = \
        \"{trial_dir}/{trial}-{seed}-{x}{nothing}\" }\n\
        [devices]\nuse = [\"sim:3\"]\ncpu_threads = 2\n[pruner]\ntype = \"none\"\n";
    let script = "env > seen.env; for word in \"$@\"; do echo \"$word\"; done > seen.words; cp \
        \"$HPSEARCH_PARAMS\" seen.params\n\
        test -d \"$HPSEARCH_CHECKPOINT_DIR\" && echo '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let site = Site::new(text, script);
    assert_done(&site.run_study());
    let params = site.trials()[0]["params"].clone();
    assert_eq!(site.read_json("seen.params"), params);
    let (x, layers, kind) =
        (&params["x"], &params["model.num_layers"], params["kind"].as_str().unwrap());
    assert_eq!(
        site.lines("seen.words"),
        [format!("--x={x}"), format!("{layers}{kind}"), "{\"json\": 1}".to_owned()]
    );
    let text = site.read("seen.env");
    let seen: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let trial = site.path("runs/files/s/trial-0");
    let expected = [
        ("HPSEARCH_PARAM_X", x.to_string()),
        ("HPSEARCH_PARAM_MODEL_NUM_LAYERS", layers.to_string()),
        ("HPSEARCH_PARAM_KIND", kind.to_owned()),
        ("HPSEARCH_STUDY", "s".to_owned()),
        ("HPSEARCH_STORE", site.path("runs/hpsearch.db").display().to_string()),
        ("HPSEARCH_TRIAL", "0".to_owned()),
        ("HPSEARCH_ATTEMPT", "0".to_owned()),
        ("HPSEARCH_DEVICE", "sim:3".to_owned()),
        ("HPSEARCH_PARAMS", trial.join("params.json").display().to_string()),
        ("HPSEARCH_CHECKPOINT_DIR", trial.join("checkpoints").display().to_string()),
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("OMP_NUM_THREADS", "2".to_owned()),
        ("MINE", "yes".to_owned()),
    ];
    for (name, value) in expected {
        assert_eq!(seen.get(name), Some(&value.as_str()), "{name}");
    }
    assert!(seen["HPSEARCH_SEED"].parse::<u64>().is_ok_and(|seed| seed > 0));
    assert!(!seen.contains_key("HPSEARCH_RESUME") && !seen.contains_key("HPSEARCH_JUDGED"));
    let place = format!("{}/0-{}-{x}{{nothing}}", trial.display(), seen["HPSEARCH_SEED"]);
    assert_eq!(seen["PLACE"], place);
}

/// Trials whose values get worse: under asha with a rung at 1 the first two continue, the third is
/// stopped.
const WORSENING: &str = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"asha\"\nmin_resource = \
    1\nmax_resource = 9\n\
    [[enqueue]]\nx = 0.125\n[[enqueue]]\nx = 0.25\n[[enqueue]]\nx = 0.5\n";

#[test]
fn trials_are_not_compared_with_hidden_ones() {
    let script = "for step in 1 2 3 4 5; do\n\
        echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"\n\
        read -r answer || exit 1; done\n";
    for pruner in [
        "\"median\"\nn_startup_trials = 1",
        "\"wilcoxon\"",
        "\"asha\"\nmin_resource = 1\nmax_resource = 9\nreduction_factor = 2",
    ] {
        for is_earlier in [false, true] {
            let rest = format!(
                "[devices]\nuse = [\"sim:0\"]\n[[enqueue]]\nx = 0.125\n[[enqueue]]\nx = 0.5\n\
                [[enqueue]]\nx = 0.25\n[pruner]\ntype = {pruner}\n"
            );
            let site = Site::new(&study("trials = 2", &rest), script);
            assert_done(&site.run_study());
            assert_eq!(site.states(), ["complete", "pruned"], "{pruner}");
            if is_earlier {
                // As studies were stored before.
                for table in ["study", "study_revision"] {
                    let field = "'\"hidden_rule\":\"unseen\",'";
                    let sql = format!("UPDATE {table} SET spec = replace(spec, {field}, '')");
                    assert_eq!(site.database().execute(&sql, []).unwrap(), 1, "{table}");
                }
            }
            assert_done(&site.run(&["rm", "s", "0", "--yes"]));
            site.write("study.toml", study("trials = 3", &rest));
            site.run_study();
            let last = if is_earlier { "pruned" } else { "complete" };
            let trial = site.json(&["show", "s", "2", "--json"]);
            assert_eq!(trial["trial"]["state"], last, "{pruner}: {trial}");
            assert_done(&site.run(&["verify", "s"]));
        }
    }
}

#[test]
fn verdicts_arrive_on_stdin() {
    let script = "for step in 1 2; do echo \"@hpsearch {\\\"step\\\":$step,\\\"other\\\":0}\"\n\
        echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"; read -r answer || exit 1; echo \
        \"$answer\" >> answers.$HPSEARCH_TRIAL; done\n";
    let script = format!("trap 'exit 0' TERM\necho \"$HPSEARCH_JUDGED\" > judged\n{script}");
    let site = Site::new(&study("trials = 3", WORSENING), &script);
    assert_done(&site.run_study());
    assert_eq!(site.read("judged"), "[\"loss\"]\n");
    assert_eq!(site.states(), ["complete", "complete", "pruned"]);
    for line in site.lines("answers.0") {
        assert_eq!(serde_json::from_str::<Json>(&line).unwrap()["verdict"], "continue");
    }
    assert_eq!(site.lines("answers.0").len(), 2);
    let reason = site.trials()[2]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains('3'), "{reason}");
    // SIGTERM may come before the script has written what it read.
    if let Some(line) = site.lines("answers.2").first() {
        assert_eq!(
            serde_json::from_str::<Json>(line).unwrap(),
            json!({ "verdict": "stop", "reason": reason })
        );
    }
}

#[test]
fn a_pruned_trial_that_does_not_listen_gets_sigterm() {
    let script = "trap 'echo $HPSEARCH_TRIAL >> told; exit 1' TERM\n\
        echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"; [ $HPSEARCH_TRIAL -lt 2 ] || while \
        :; do sleep 0.05; done\n";
    let site = Site::new(&study("trials = 3", WORSENING), script);
    assert_done(&site.run_study());
    assert_eq!(
        (site.states(), site.lines("told")),
        (
            vec!["complete".to_owned(), "complete".to_owned(), "pruned".to_owned()],
            vec!["2".to_owned()]
        )
    );
    let trial = &site.trials()[2];
    assert_eq!((&trial["value"], &trial["last_value"]), (&Json::Null, &json!(0.5)));
    assert!(trial["seconds"].as_f64().unwrap() < 10.0, "{trial}");
}

#[test]
fn a_second_interrupt_kills_what_ignores_the_first() {
    let script =
        "trap 'echo told >> told' TERM\necho started > started\nwhile :; do sleep 1; done\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    let running = site.start_study();
    site.wait_for("started");
    running.signal(Signal::INT);
    site.wait_for("told");
    running.signal(Signal::INT);
    let ended = running.end();
    assert_eq!((ended.code, site.states()), (130, vec!["queued".to_owned()]), "{}", ended.err);
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn values_that_are_no_numbers_are_values() {
    let words = [
        "NaN",
        "Infinity",
        "-Infinity",
        "\\\"NaN\\\"",
        "\\\"Infinity\\\"",
        "\\\"-inf\\\"",
        "null",
        "0.5",
    ];
    let mut script = "case $HPSEARCH_TRIAL in\n".to_owned();
    for (number, word) in words.iter().enumerate() {
        script.push_str(&format!("{number}) value=\"{word}\" ;;\n"));
    }
    script.push_str("esac\necho \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$value}\"\n");
    let site = Site::new(&study("trials = 8", ONE_SLOT), &script);
    assert_done(&site.run_study());
    let values: Vec<Json> = site.trials().iter().map(|trial| trial["value"].clone()).collect();
    assert_eq!(
        json!(values),
        json!(["NaN", "Infinity", "-Infinity", "NaN", "Infinity", "-Infinity", "NaN", 0.5])
    );
    assert_eq!(site.states(), vec!["complete"; 8]);
}

#[test]
fn lines_that_are_no_messages_are_the_log() {
    let script = "echo '@hpsearch'\necho '@hpsearch nonsense'\necho '@hpsearch \
        {\"step\":-1,\"loss\":1}'\necho '@hpsearch {\"step\":1'\n\
        echo 'at  @hpsearch {\"step\":9,\"loss\":-9}'\nprintf 'half a line'\nprintf '\\n'\n\
        printf '\\377\\376\\000\\001 binary\\n'\nhead -c 1000000 /dev/zero | tr '\\0' Q; echo\n\
        printf '@hpsearch {\"step\":8,\"loss\":-8,\"'; head -c 1100000 /dev/zero | tr '\\0' y; \
        echo '\":1}'\n\
        echo on stderr >&2\necho '@hpsearch {\"step\":1,\"loss\":0.75}'\nprintf '@hpsearch \
        {\"step\":2,\"loss\":0.25}'\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    let trial = &site.trials()[0];
    assert_eq!((&trial["value"], &trial["last_step"]), (&json!(0.25), &json!(2)));
    let log = fs::read(site.path("runs/files/s/trial-0/attempt-0.log")).unwrap();
    let text = String::from_utf8_lossy(&log);
    assert_eq!(
        text.matches("[hpsearch] the line above was not understood: ").count(),
        3,
        "{}",
        &text[..text.len().min(2_000)]
    );
    assert_names(
        &text,
        &[
            "@hpsearch\n",
            "@hpsearch nonsense\n",
            "half a line\n",
            "at  @hpsearch {\"step\":9",
            "on stderr\n",
        ],
    );
    assert!(log.windows(11).any(|bytes| bytes == b"\xff\xfe\x00\x01 binary"));
    assert_eq!(
        (text.matches('Q').count(), text.matches('y').count() >= 1_100_000),
        (1_000_000, true)
    );
}

#[test]
fn a_script_without_a_value_fails_and_says_so() {
    let site =
        Site::new(&study("trials = 2\ncount = \"all\"", ONE_SLOT), "echo nothing to report\n");
    let ended = site.run_study();
    assert_eq!(
        (ended.code, site.states()),
        (3, vec!["failed".to_owned(), "failed".to_owned()]),
        "{}",
        ended.err
    );
    let trial = &site.trials()[0];
    assert!(trial["reason"].as_str().unwrap().starts_with("reported no value"), "{trial}");
    assert_eq!(site.log(0, 0), "nothing to report\n");
}

#[test]
fn a_script_that_reports_under_another_name_is_told_which() {
    let site = Site::new(
        &study("trials = 1\ncount = \"all\"", ONE_SLOT),
        "echo '@hpsearch {\"step\":1,\"val_loss\":0.5,\"acc\":1}'\n",
    );
    assert_eq!(site.run_study().code, 3);
    let reason = site.trials()[0]["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.starts_with(
            "reported no value: it reported `acc`, `val_loss` but never \
        `loss`, the study's metric; "
        ),
        "{reason}"
    );
}

#[test]
fn a_study_whose_metric_was_never_reported_takes_another_one() {
    let text = study("trials = 3", ONE_SLOT);
    let site = Site::new(&text, "echo '@hpsearch {\"step\":1,\"val_loss\":0.5}'\n");
    assert_eq!(site.run_study().code, 4);
    site.write("study.toml", text.replace("\"loss\"", "\"val_loss\""));
    let checked = site.run(&["check", "study.toml"]);
    assert_done(&checked);
    assert_done(&site.run(&["retry", "s", "--failed"]));
    let again = site.run_study();
    assert_done(&again);
    assert_names(&again.err, &["study.metric: loss -> val_loss"]);
    assert!(site.trials().iter().all(|trial| trial["state"] == "complete"), "{}", again.out);
    assert_eq!(site.json(&["best", "s", "--json"])["trial"]["value"], 0.5);
    assert_done(&site.run(&["verify", "s"]));
    // Now that there are values, they would not be compared any more.
    site.write("study.toml", &text);
    assert_eq!(site.run_study().code, 6);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let text = study("trials = 2\nfailures = 1", ONE_SLOT)
        .replace("\"sh\", \"trial.sh\"", "\"no-such-program\"");
    let ended = Site::new(&text, "").run_study();
    assert_eq!(ended.code, 4);
    assert_names(&ended.out, &["cannot start `no-such-program`: there is no such program"]);
}

#[test]
fn a_failure_is_told_with_its_last_word() {
    let script = "echo first >&2; echo 'ValueError: bad shape' >&2; echo bye\nexit 3\n";
    let site = Site::new(&study("trials = 1\ncount = \"all\"", ONE_SLOT), script);
    assert_eq!(site.run_study().code, 3);
    assert_eq!(site.trials()[0]["reason"], "exit status 3: ValueError: bad shape");
}

#[test]
fn nothing_a_trial_started_outlives_it() {
    let script = "if [ $HPSEARCH_TRIAL = 0 ]; then\n  sleep 300 &\n  setsid sleep 301 &\n  \
        (setsid sh -c 'sleep 302 & exec sleep 303' &)\n\
        nohup setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 304; done' > /dev/null 2>&1 \
        &\n\
        else\n  while [ ! -e go ]; do sleep 0.02; done\nfi\n\
        echo '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let site = Site::new(&study("trials = 2", ONE_SLOT), script);
    let running = site.start_study();
    wait_until("the first trial ends", || {
        site.states().first().is_some_and(|state| state == "complete")
    });
    wait_at_most(Duration::from_secs(2), "its children are gone", || {
        site.marked_processes("HPSEARCH_TRIAL=0").is_empty()
    });
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn what_a_killed_supervisor_left_is_cleared_and_the_trial_goes_on() {
    // The children hold the streams: nobody would ever hear of the supervisor's end.
    let script = "if [ $HPSEARCH_ATTEMPT = 0 ]; then setsid sleep 300 & echo $! > child; sleep \
        305; fi\necho '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    let running = site.start_study();
    wait_until("the child runs", || site.read("child").ends_with('\n'));
    processes::children(running.child.id()).into_iter().for_each(processes::kill);
    wait_at_most(Duration::from_secs(2), "the children are gone", || {
        site.marked_processes("HPSEARCH_ATTEMPT=0").is_empty()
    });
    let ended = running.end();
    assert_done(&ended);
    assert_names(&ended.out, &["killed by signal 9"]);
    assert_eq!(site.trials()[0]["attempts"], 2);
}

#[test]
fn a_trial_that_takes_too_long_is_killed() {
    let site = Site::new(
        &study("trials = 1\ncount = \"all\"\ntrial_time = \"1s\"", ONE_SLOT),
        "setsid sleep 306\n",
    );
    let began = Instant::now();
    // A grace that nothing here has the patience for: none of it is needed.
    assert_eq!(site.start_study_with(&[("HPSEARCH_GRACE", "600")]).end().code, 3);
    let most = began.elapsed().as_secs_f64();
    let trial = &site.trials()[0];
    assert_eq!(
        (&trial["state"], &trial["reason"]),
        (&json!("failed"), &json!("ran longer than trial_time (1 s)"))
    );
    assert!((1.0..most).contains(&trial["seconds"].as_f64().unwrap()), "{trial}");
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn a_lost_trial_goes_on_from_its_checkpoint_and_each_attempt_has_its_log() {
    let script = "echo \"attempt $HPSEARCH_ATTEMPT from ${HPSEARCH_RESUME:-the start}\"\n\
        if [ -z \"$HPSEARCH_RESUME\" ]; then\n  echo one > \"$HPSEARCH_CHECKPOINT_DIR/one\"\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/one\\\",\
        \\\"step\\\":1}\"\n  echo '@hpsearch {\"step\":1,\"loss\":2}'\n\
        read -r answer\n  kill -9 $$\nfi\ncat \"$HPSEARCH_RESUME\"\n\
        echo '@hpsearch {\"step\":2,\"loss\":1}'\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    let trial = &site.trials()[0];
    assert_eq!(
        (&trial["state"], &trial["value"], &trial["attempts"], &trial["last_step"]),
        (&json!("complete"), &json!(1.0), &json!(2), &json!(2))
    );
    let checkpoint = site.path("runs/files/s/trial-0/copies/step-1/checkpoints/one");
    assert_eq!(site.log(0, 0), "attempt 0 from the start\n");
    assert_eq!(site.log(0, 1), format!("attempt 1 from {}\none\n", checkpoint.display()));
}

#[test]
fn each_device_has_one_trial_at_a_time_and_all_are_used() {
    let script = format!(
        "echo \"begin $HPSEARCH_DEVICE\" >> turns\nsleep 0.05\n{REPORT_X}echo \"end \
         $HPSEARCH_DEVICE\" >> turns\n"
    );
    let site = Site::new(
        &study("trials = 24", "[devices]\nuse = [\"sim:0..3\"]\n[pruner]\ntype = \"none\""),
        &script,
    );
    assert_done(&site.run_study());
    let (mut busy, mut used, mut most) = (BTreeSet::new(), BTreeSet::new(), 0);
    for line in site.lines("turns") {
        let (turn, device) = line.split_once(' ').unwrap();
        match turn {
            "begin" => assert!(busy.insert(device.to_owned()), "{device} has two trials"),
            _ => assert!(busy.remove(device)),
        }
        used.insert(device.to_owned());
        most = most.max(busy.len());
    }
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["sim:0", "sim:1", "sim:2", "sim:3"]);
    assert!(most > 1, "never two at a time");
}

#[test]
fn a_second_runner_is_refused_and_told_who_runs() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &held(REPORT_X));
    let first = site.start_study();
    site.wait_for("started");
    let second = site.run_study();
    assert_code(&second, 5);
    assert_names(
        &second.err,
        &[&format!("study `s` is being run by process {}", first.child.id())],
    );
    site.write("go", "");
    assert_done(&first.end());
    assert_eq!((site.states(), site.lines("started").len()), (vec!["complete".to_owned()], 1));
}

#[test]
fn a_changed_study_needs_a_word() {
    let site = Site::finished("trials = 2");
    site.write("study.toml", study("trials = 4", ONE_SLOT).replace("[0.0, 1.0]", "[0.5, 1.0]"));
    let refused = site.run_study();
    assert_eq!((refused.code, site.states().len()), (6, 2));
    assert_names(&refused.err, &["space.x", "0.5", "--accept"]);
    assert_done(&site.run_study_with(&["--accept"]));
    let trials = site.trials();
    assert_eq!(trials.len(), 4);
    assert!(trials[2..].iter().all(|trial| trial["params"]["x"].as_f64().unwrap() >= 0.5));
    // Another metric makes the trials incomparable: only a new study will do.
    site.write("study.toml", study("trials = 4", ONE_SLOT).replace("\"loss\"", "\"error\""));
    site.write("trial.sh", REPORT_X.replace("loss", "error"));
    let refused = site.run_study_with(&["--accept"]);
    assert_eq!(refused.code, 6);
    assert_names(&refused.err, &["--fork"]);
    assert_done(&site.run_study_with(&["--fork", "t"]));
    let listed: Json = site.json(&["ls", "--json"]);
    let counts: Vec<(&str, &Json)> = listed["studies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|study| (study["name"].as_str().unwrap(), &study["trials"]["complete"]))
        .collect();
    assert_eq!(counts, [("s", &json!(4)), ("t", &json!(4))]);
}

/// Four steps with a checkpoint each; heeds SIGTERM after the step it is at, with exit status 0.
const FOUR_STEPS: &str = "leave=; trap 'leave=yes' TERM\n\
    step=0; [ -z \"$HPSEARCH_RESUME\" ] || step=$(cat \"$HPSEARCH_RESUME\")\n\
    while [ $step -lt 4 ]; do\n  step=$((step + 1)); echo \"$HPSEARCH_TRIAL $step\" >> steps\n  \
    sleep 0.15\n\
    echo $step > \"$HPSEARCH_CHECKPOINT_DIR/$step\"; echo \"@hpsearch \
    {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/$step\\\",\\\"step\\\":$step}\"\n\
    echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"\n  [ -z \"$leave\" ] || exit 0\ndone\n";

fn interrupted_study_goes_on(signal: Signal, code: i32) {
    let site = Site::new(&study("trials = 4", TWO_SLOTS), FOUR_STEPS);
    let running = site.start_study();
    site.wait_for_lines("steps", 3);
    running.signal(signal);
    let left = running.end();
    assert_eq!(left.code, code, "{}\n{}", left.out, left.err);
    assert_names(&left.err, &["nothing is lost; continue with: hpsearch run study.toml\n"]);
    assert_eq!(site.processes(), [0; 0]);
    assert_eq!(site.states(), ["queued", "queued"]);
    assert_done(&site.run_study());
    let trials = site.trials();
    assert_eq!(site.states(), vec!["complete"; 4]);
    assert!(
        trials
            .iter()
            .all(|trial| trial["last_step"] == 4 && trial["value"] == trial["params"]["x"]),
        "{trials:?}"
    );
    // They left with a checkpoint, so that no step is done twice.
    let mut steps = site.lines("steps");
    steps.sort();
    assert_eq!(
        steps,
        (0..4)
            .flat_map(|trial| (1..=4).map(move |step| format!("{trial} {step}")))
            .collect::<Vec<_>>()
    );
}

#[test]
fn an_interrupted_study_goes_on() {
    interrupted_study_goes_on(Signal::INT, 130);
}

#[test]
fn a_terminated_study_goes_on() {
    interrupted_study_goes_on(Signal::TERM, 143);
}

#[test]
fn stop_ends_a_run_that_can_go_on() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held(REPORT_X));
    let running = site.start_study();
    site.wait_for("started");
    assert_done(&site.run(&["stop", "s"]));
    let left = running.end();
    assert_eq!((left.code, site.states()), (130, vec!["queued".to_owned()]), "{}", left.err);
    assert_names(&left.err, &["continue with: hpsearch run study.toml"]);
    site.write("go", "");
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
}

#[test]
fn kill_fails_one_trial() {
    let script = format!(
        "echo >> started.$HPSEARCH_TRIAL\n[ $HPSEARCH_TRIAL != 0 ] || sleep 307\n{REPORT_X}"
    );
    let site = Site::new(&study("trials = 2\ncount = \"all\"", ONE_SLOT), &script);
    let running = site.start_study();
    site.wait_for("started.0");
    assert_done(&site.run(&["kill", "s", "0"]));
    assert_done(&running.end());
    assert_eq!(site.states(), ["failed", "complete"]);
    assert_eq!(site.trials()[0]["reason"], "killed on request");
}

#[test]
fn a_finished_study_stays_as_it_is_until_its_budget_grows() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &format!("echo >> started\n{REPORT_X}"));
    assert_done(&site.run_study());
    let before = site.trials();
    assert_done(&site.run_study());
    assert_eq!((site.trials(), site.lines("started").len()), (before.clone(), 2));
    let grown = site.run_study_with(&["--set", "budget.trials=5"]);
    assert_done(&grown);
    let after = site.trials();
    assert_eq!((&after[..2], after.len(), site.lines("started").len()), (&before[..], 5, 5));
}

#[test]
fn a_script_that_reads_no_verdicts_is_not_held_up() {
    let script = "step=0; while [ $step -lt 2000 ]; do step=$((step + 1)); echo \"@hpsearch \
        {\\\"step\\\":$step,\\\"loss\\\":$step}\"; done\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    let trial = &site.trials()[0];
    assert_eq!((&trial["value"], &trial["last_step"]), (&json!(1.0), &json!(2000)));
}

#[test]
fn a_runner_that_is_killed_before_its_trials_have_paused_leaves_them_interrupted() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &held(REPORT_X));
    let mut running = site.start_study();
    site.wait_for_lines("started", 1);
    assert_done(&site.run(&["pause", "s"]));
    running.kill();
    for words in [&["trials", "s"][..], &["show", "s", "0"]] {
        assert_names(&site.run(words).out, &["interrupted"]);
    }
    let shown = site.run(&["show", "s"]).out;
    let says = "interrupted: its runner died; it is paused by you, too: `hpsearch resume s` and";
    assert_names(&shown, &[says, "1 interrupted"]);
    assert_done(&site.run(&["resume", "s"]));
    site.write("go", "");
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete"]);
}

#[test]
fn a_killed_runner_leaves_nothing_and_its_trials_run_again() {
    let script = format!(
        "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 308; done' &\n{}",
        held(REPORT_X)
    );
    let site = Site::new(&study("trials = 2", TWO_SLOTS), &script);
    let mut running = site.start_study();
    site.wait_for_lines("started", 2);
    running.kill();
    for words in [&["trials", "s"][..], &["show", "s"], &["show", "s", "0"]] {
        assert_names(&site.run(words).out, &["interrupted"]);
    }
    wait_at_most(Duration::from_secs(2), "its processes are gone", || site.processes().is_empty());
    assert_eq!(site.states(), ["running", "running"]);
    site.write("go", "");
    assert_done(&site.run_study());
    let attempts: Vec<Json> = site.trials().iter().map(|trial| trial["attempts"].clone()).collect();
    assert_eq!((site.states(), attempts), (vec!["complete".to_owned(); 2], vec![json!(2); 2]));
    assert!(site.exists("runs/files/s/trial-1/attempt-1.log"));
}

#[test]
fn what_a_killed_runner_used_counts_against_the_time_budget() {
    let script = "step=0; while [ $step -lt 500 ]; do step=$((step + 1)); echo \"@hpsearch \
        {\\\"step\\\":$step,\\\"loss\\\":1}\"; sleep 0.02; done\n";
    let site = Site::new(&study("time = \"1h\"", ONE_SLOT), script);
    let began = Instant::now();
    let mut running = site.start_study();
    // For three seconds at least, by the pauses between its steps.
    wait_until("it has run for a while", || {
        site.trials().first().is_some_and(|trial| trial["last_step"].as_u64() >= Some(150))
    });
    running.kill();
    let most = began.elapsed();
    // A note of the time in which nobody ran it does not count.
    assert_done(&site.run(&["note", "s", "-m", "killed"]));
    let run_for = |seconds| site.run_study_with(&["--set", &format!("budget.time={seconds}s")]);
    // Nothing is left of three seconds, and something of more than it can have used.
    run_for(3);
    assert_eq!((site.trials().len(), &site.trials()[0]["attempts"]), (1, &json!(1)));
    let limit = most.as_secs() + 2;
    run_for(limit);
    let ran: Vec<i64> = site
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Runner(RunnerEvent::Stopped { ran_micros, .. }) => Some(ran_micros),
            _ => None,
        })
        .collect();
    assert_eq!(ran.len(), 3);
    let most = i64::try_from(most.as_micros()).unwrap();
    assert!((3_000_000..most).contains(&ran[0]), "{ran:?} of {most}");
    let limit = i64::try_from(limit).unwrap() * 1_000_000;
    assert!(ran.iter().sum::<i64>() > limit - 100_000, "{ran:?} of {limit}");
}

#[test]
fn a_study_goes_on_when_the_program_is_replaced() {
    let site = Site::new(&study("trials = 3", ONE_SLOT), &held(REPORT_X));
    let program = site.path("hpsearch");
    fs::copy(PROGRAM, &program).unwrap();
    let running = site.start_program(program.to_str().unwrap(), &["run", "study.toml", "--plain"]);
    site.wait_for("started");
    fs::remove_file(&program).unwrap();
    fs::write(&program, "something else").unwrap();
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.states(), vec!["complete"; 3]);
}

#[test]
fn a_script_may_print_to_both_streams_as_fast_as_it_can() {
    let script = "(i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); echo \"error $i\" >&2; done) &\n\
        i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); echo \"line $i\"; done; wait\necho \
        '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    let log = site.log(0, 0);
    let of = |word: &str| {
        log.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        of("line "),
        (1..=20_000).map(|number| format!("line {number}")).collect::<Vec<_>>()
    );
    assert_eq!(
        of("error "),
        (1..=20_000).map(|number| format!("error {number}")).collect::<Vec<_>>()
    );
}

#[test]
fn a_trial_cannot_reach_the_runners_streams() {
    // What a trial reads is its own pipe, and what it prints is its own log, prefix or not.
    let script = format!(
        "echo visible; echo hidden >&2; readlink /proc/self/fd/0 | cut -d: -f1 >> stdin\n{REPORT_X}"
    );
    let site = Site::new(&study("trials = 2", ONE_SLOT), &script);
    let ended = site.run_study();
    assert_done(&ended);
    assert!(
        !ended.out.contains("visible") && !ended.err.contains("hidden"),
        "{}\n{}",
        ended.out,
        ended.err
    );
    assert_eq!(
        (site.log(1, 0).contains("hidden\n"), site.lines("stdin")),
        (true, vec!["pipe".to_owned(); 2])
    );
}

#[test]
fn a_directory_with_odd_characters_is_a_directory() {
    let site = Site::new(
        &study("trials = 1", ONE_SLOT),
        &format!("cat \"$HPSEARCH_PARAMS\" > params.json\n{REPORT_X}"),
    );
    let odd = site.path("a b'\"$(c)");
    fs::create_dir(&odd).unwrap();
    for name in ["study.toml", "trial.sh"] {
        fs::rename(site.path(name), odd.join(name)).unwrap();
    }
    let file = odd.join("study.toml");
    let ended = site.run(&[
        "run",
        file.to_str().unwrap(),
        "--plain",
        "--store",
        odd.join("s.db").to_str().unwrap(),
    ]);
    assert_done(&ended);
    assert!(fs::read_to_string(odd.join("params.json")).unwrap().contains("\"x\""));
}

#[test]
fn a_closed_pipe_does_not_stop_a_study() {
    let site = Site::new(&study("trials = 3", ONE_SLOT), REPORT_X);
    let mut command = site.command(&["run", "study.toml", "--plain"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(child.stdout.take());
    assert_done(&Running::of(child, "run, into a closed pipe").end());
    assert_eq!(site.states(), vec!["complete"; 3]);
}

#[test]
fn a_full_output_is_told_and_does_not_stop_a_study() {
    let site = Site::new(&study("trials = 3", ONE_SLOT), REPORT_X);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = site.command(&["run", "study.toml", "--plain"]).stdout(full).output().unwrap();
    let ended = Ended::of(ended);
    assert_done(&ended);
    let told = "standard output cannot be written: No space left on device (os error 28)";
    assert_eq!(ended.err.matches(told).count(), 1, "{}", ended.err);
    assert_names(&ended.err, &["the run continues", "`hpsearch trials`"]);
    assert_eq!(site.states(), vec!["complete"; 3]);
}

#[test]
fn studies_of_one_store_run_side_by_side() {
    let site = Site::new(&study("trials = 30", TWO_SLOTS), REPORT_X);
    site.write("other.toml", site.read("study.toml").replace("name = \"s\"", "name = \"t\""));
    let both = ["study.toml", "other.toml"].map(|file| site.start(&["run", file, "--plain"]));
    both.into_iter().for_each(|running| assert_done(&running.end()));
    let listed: Json = site.json(&["ls", "--json"]);
    let complete: Vec<&Json> = listed["studies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|study| &study["trials"]["complete"])
        .collect();
    assert_eq!(complete, [30, 30]);
}

#[test]
fn a_checkpoint_may_be_named_relative_to_the_script_and_is_then_its_own() {
    let script = "echo mine > own.checkpoint\necho '@hpsearch \
        {\"checkpoint\":\"own.checkpoint\",\"step\":1}'\n\
        echo '@hpsearch {\"step\":1,\"loss\":1}'\n[ -n \"$HPSEARCH_RESUME\" ] || { read -r \
        answer; kill -9 $$; }\necho \"$HPSEARCH_RESUME\"\nexit 1\n";
    let site = Site::new(&study("trials = 1\ncount = \"all\"", ONE_SLOT), script);
    assert_eq!(site.run_study().code, 3);
    let copy = site.path("runs/files/s/trial-0/copies/step-1-outside/own.checkpoint");
    assert_eq!(site.log(0, 1), format!("{}\n", copy.display()));
    assert!(!copy.exists());
    // A failed trial keeps no checkpoint, but this file lies where hpsearch removes nothing.
    assert_eq!(site.read("own.checkpoint"), "mine\n");
}

#[test]
fn the_checkpoints_of_a_trial_are_shown_with_their_steps() {
    let script = "echo mine > own\necho '@hpsearch {\"checkpoint\":\"own\",\"step\":1}'\n\
        echo '@hpsearch {\"step\":1,\"loss\":1}'\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    assert_done(&site.run_study());
    let shown = site.json(&["show", "s", "0", "--json"]);
    let checkpoint = &shown["checkpoints"][0];
    let path = checkpoint["path"].as_str().unwrap();
    assert_eq!((&checkpoint["step"], std::fs::read(path).unwrap()), (&json!(1), b"mine\n".into()));
    let lines = site.run(&["show", "s", "0"]).out;
    let line = lines.lines().find(|line| line.starts_with("checkpoints ")).unwrap();
    assert!(line.contains("step 1: runs/files/s/trial-0/") && path.ends_with("/own"), "{line}");
}

#[test]
fn closing_its_streams_is_not_a_trials_end() {
    let script = format!(
        "{REPORT_X}exec < /dev/null > /dev/null 2>&1\nsleep 0.3\necho done > done.$HPSEARCH_TRIAL\n"
    );
    let site = Site::new(&study("trials = 2", ONE_SLOT), &script);
    assert_done(&site.run_study());
    assert!(site.exists("done.0") && site.exists("done.1"));
    assert_eq!(site.states(), ["complete", "complete"]);
}

#[test]
fn a_script_can_ask_hpsearch_about_its_own_study() {
    let script =
        format!("\"$PROGRAM\" trials \"$HPSEARCH_STUDY\" --json > seen.json || exit 1\n{REPORT_X}");
    let program = format!("[command.env]\nPROGRAM = \"{}\"\n{ONE_SLOT}", PROGRAM);
    let site = Site::new(&study("trials = 1", &program), &script);
    assert_done(&site.run_study());
    let seen: Json = site.read_json("seen.json");
    assert_eq!((&seen["study"], &seen["trials"][0]["state"]), (&json!("s"), &json!("running")));
}

#[test]
fn many_trials_run_at_once() {
    let rest = "[devices]\nuse = [\"sim:0..3\"]\ntrials_per_device = 10\n[pruner]\ntype = \"none\"";
    let script = format!(
        "echo begin >> turns; while [ \"$(grep -c begin turns)\" -lt 40 ]; do sleep 0.05; \
         done\n{REPORT_X}"
    );
    let site = Site::new(&study("trials = 40", rest), &script);
    assert_done(&site.run_study());
    assert_eq!(site.states(), vec!["complete"; 40]);
}

#[test]
fn a_study_ends_with_its_time() {
    // More than a machine takes to start and to run a trial, also if it stands still for a while.
    let text = study("time = \"12s\"", ONE_SLOT);
    let site = Site::new(&text, &format!("{REPORT_X}sleep 2.4\n"));
    let ended = site.run_study();
    assert_done(&ended);
    let first = site.trials();
    let complete = first.iter().filter(|trial| trial["state"] == "complete").count();
    assert!((1..=5).contains(&complete), "{first:?}");
    assert_done(&site.run_study());
    assert_eq!(site.trials().len(), first.len());
    let trials = format!("budget.trials={}", first.len() + 1);
    assert_done(&site.run_study_with(&["--set", "budget.time=1h", "--set", &trials]));
    assert!(site.trials().len() > first.len());
}

#[test]
fn a_lost_trial_is_tried_again_as_often_as_the_study_says() {
    let site = Site::new(&study("trials = 1\ncount = \"all\"", ONE_SLOT), "kill -9 $$\n");
    assert_eq!(site.run_study().code, 3);
    let trial = &site.trials()[0];
    assert_eq!(
        (&trial["attempts"], &trial["reason"]),
        (&json!(3), &json!("killed by signal 9: by a user, or for lack of memory (see `dmesg`)"))
    );
    let never = Site::new(
        &study("trials = 1\ncount = \"all\"", &format!("{ONE_SLOT}[retry]\nmax = 0\n")),
        "kill -9 $$\n",
    );
    assert_eq!(never.run_study().code, 3);
    assert_eq!(never.trials()[0]["attempts"], 1);
}

#[test]
fn a_crash_is_a_failure_and_named() {
    let site = Site::new(
        &study("trials = 1\ncount = \"all\"", ONE_SLOT),
        "ulimit -c 0; echo about to crash >&2; kill -SEGV $$\n",
    );
    assert_eq!(site.run_study().code, 3);
    let trial = &site.trials()[0];
    assert_eq!(
        (&trial["attempts"], &trial["reason"]),
        (&json!(1), &json!("crashed with signal 11: about to crash"))
    );
}

#[test]
fn a_paused_trial_that_does_not_listen_is_told_to_leave_and_goes_on_later() {
    // The first attempt does not come to its end, however late it is told to leave.
    let script = "step=0; [ -z \"$HPSEARCH_RESUME\" ] || step=$(cat \"$HPSEARCH_RESUME\")\n\
        while [ $step -lt 60 ]; do while [ $HPSEARCH_ATTEMPT$step = 059 ]; do sleep 0.1; done\n\
        step=$((step + 1)); echo $step >> steps; sleep 0.1; echo $step \
        > \"$HPSEARCH_CHECKPOINT_DIR/$step\"\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/$step\\\",\
        \\\"step\\\":$step}\"\n\
        echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"; done\n";
    let rest = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"asha\"\nmode = \"promote\"\n\
                min_resource = 1\nmax_resource = 60\n";
    let site = Site::new(&study("trials = 1", rest), script);
    let ended = site.run_study();
    assert_done(&ended);
    assert_names(&ended.out, &["trial 0 paused at step "]);
    let trial = &site.trials()[0];
    let state = (&trial["state"], &trial["last_step"]);
    assert_eq!(state, (&json!("complete"), &json!(60)), "{}", ended.out);
    // If it is told early, it is to pause again at a later rung: there are 1, 3, 9 and 27.
    let attempts = usize::try_from(trial["attempts"].as_u64().unwrap()).unwrap();
    assert!((2..=5).contains(&attempts), "{}", ended.out);
    assert!(site.lines("steps").len() <= 60 + attempts);
}

#[test]
fn a_command_that_hears_of_its_pause_a_step_later_is_told_nothing() {
    let script = "at=0; [ -z \"$HPSEARCH_RESUME\" ] || at=$(cat \"$HPSEARCH_RESUME\")\n\
        while [ $at -lt 9 ]; do at=$((at + 1)); echo $at > \"$HPSEARCH_CHECKPOINT_DIR/$at\"\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"$at\\\",\\\"step\\\":$at}\"\n\
        echo \"@hpsearch {\\\"step\\\":$at,\\\"loss\\\":$1}\"\n\
        case $late in *pause*) exit;; esac; read -r late; done\n";
    let rest = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"asha\"\nmode = \"promote\"\n\
                min_resource = 3\nmax_resource = 9\n";
    let site = Site::new(&study("trials = 3", rest), script);
    let ended = site.run_study();
    assert_done(&ended);
    assert!(!ended.out.contains("was asked to pause"), "{}", ended.out);
    assert_names(&ended.out, &["continues from step 4"]);
}

#[test]
fn a_command_that_runs_past_its_pauses_is_told_so_and_completes() {
    let script = "for step in 1 2 3 4; do echo $1 > \"$HPSEARCH_CHECKPOINT_DIR/$step\"\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/$step\\\",\
        \\\"step\\\":$step}\"\n\
        echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"; done\n";
    let rest = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"asha\"\nmode = \"promote\"\n\
                min_resource = 1\nmax_resource = 4\n";
    let site = Site::new(&study("trials = 3", rest), script);
    let ended = site.run_study();
    assert_done(&ended);
    let told = "it was asked to pause at step 1 and continued to ";
    assert_eq!(ended.out.matches(told).count(), 1, "{}", ended.out);
    assert_names(&ended.out, &["HPSEARCH_UNTIL", "docs/commands.md", "mode = \"stop\""]);
    for trial in site.trials() {
        assert_eq!((&trial["state"], &trial["last_step"]), (&json!("complete"), &json!(4)));
    }
    assert_done(&site.run(&["verify", "s"]));
    // One that stops short of its end cannot be told from one that paused.
    let site = Site::new(
        &study("trials = 3", &rest.replace("max_resource = 4", "max_resource = 9")),
        script,
    );
    let ended = site.run_study();
    assert_names(&ended.out, &[told]);
}

#[test]
fn a_script_that_asks_for_quiet_is_told_why_a_study_ended_badly() {
    let fails = Site::new(&study("trials = 2\nfailures = 1", ONE_SLOT), "exit 3\n");
    let quiet = fails.run(&["run", "study.toml", "-q"]);
    assert_eq!((quiet.code, quiet.out.as_str()), (4, ""));
    assert!(quiet.err.starts_with("error: study `s`: "), "{}", quiet.err);
    let nan = "echo '@hpsearch {\"step\":1,\"loss\":NaN}'\n";
    let none = Site::new(&study("trials = 1", ONE_SLOT), nan);
    let quiet = none.run(&["run", "study.toml", "-q"]);
    assert_eq!(quiet.code, 3);
    assert_names(&quiet.err, &["error: study `s`: the budget of 1 trial is used up"]);
    assert_eq!(Site::finished("trials = 1").run(&["run", "study.toml", "-q"]).err, "");
}

#[test]
fn a_study_called_by_a_number_is_that_study() {
    let named = |name: &str| study("trials = 2", ONE_SLOT).replace("\"s\"", &format!("{name:?}"));
    let site = Site::new(&named("1"), REPORT_X);
    assert_done(&site.run_study());
    for name in ["20261130", "2026-11"] {
        site.write("other.toml", named(name));
        assert_done(&site.run(&["run", "other.toml", "--plain"]));
        assert_eq!(site.json(&["show", name, "--json"])["specification"]["name"], name);
        assert_eq!(site.json(&["show", name, "1", "--json"])["trial"]["number"], 1);
    }
    assert_done(&site.run(&["tag", "1", "+keep"]));
    let tagged = site.json(&["trials", "1", "--json"]);
    assert!(tagged["trials"][1]["tags"].as_array().is_none_or(Vec::is_empty), "{tagged}");
    // Beside a study that has such a trial, it is not clear what is meant.
    assert_refused(&site.run(&["rm", "20261130", "1", "--yes"]), &["`1` is a study, and a trial"]);
    assert_done(&site.run(&["rm", "20261130", "2026-11", "--yes"]));
    assert_eq!(site.json(&["ls", "--json"])["studies"].as_array().map(Vec::len), Some(1));
}
