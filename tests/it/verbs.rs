//! The reading verbs on a small scripted store: what they print, their JSON shapes, their errors
//! and exit codes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use hpsearch::storage::{Storage, StorageReader};
use hpsearch::study::event::{AttemptEnd, Event, TrialEvent};
use hpsearch::study::params::{Params, Value};
use hpsearch::study::request::Request;
use hpsearch::study::trial::{Origin, TrialNumber, TrialState};
use serde_json::{Value as Json, json};

use crate::harness::{Ended, Scene, Site, assert_done, assert_names, assert_refused, command, run};

#[test]
fn ls_lists_studies_and_their_best() {
    let mut scene = Scene::digits();
    scene.leave();
    let out = scene.run(&["ls"]).out;
    let (listed, updated): (Vec<&str>, Vec<&str>) =
        out.lines().filter_map(|line| line.rsplit_once("  ")).unzip();
    let listed: Vec<&str> = listed.into_iter().map(str::trim_end).collect();
    insta::assert_snapshot!(listed.join("\n"), @r"
    study   state    trials     best  trial  metric     goal      time
    digits  stopped    3/24  0.18421      0  eval_loss  minimize  31 s
    ");
    // As long ago as the day of the scene.
    assert!(updated[0] == "updated" && updated[1].ends_with(" d ago"), "{out}");
}

#[test]
fn ls_as_json_has_the_contracts_shape() {
    let expected = json!({"version": 1, "studies": [{
        "name": "digits", "state": "running", "created": "2025-11-24T16:00:00Z",
        "updated": "2025-11-24T16:00:15Z",
        "trials": {"queued": 0, "running": 1, "paused": 0, "complete": 2, "pruned": 1, "failed": 0},
        "best": {"number": 0, "value": 0.184_213}, "metric": "eval_loss", "direction": "minimize",
    }]});
    assert_eq!(Scene::digits().json(&["ls", "--json"]), expected);
}

#[test]
fn trials_are_listed_best_first() {
    let scene = Scene::digits();
    // The time of the running trial goes on.
    insta::assert_snapshot!(scene.run(&["trials", "--where", "-state:running"]).out);
    let all = scene.run(&["trials"]).out;
    assert!(all.lines().nth(3).unwrap().starts_with("    3  running    (0.7)"), "{all}");
}

/// One that runs has been running since the day of the scene.
#[test]
fn the_time_of_an_open_attempt_counts_in_filters_and_orders() {
    let scene = Scene::digits();
    let numbers = |arguments: &[&str]| -> Vec<u64> {
        let answer = scene.json(&[&["trials", "--json"], arguments].concat());
        let trials = answer["trials"].as_array().unwrap().iter();
        trials.map(|trial| trial["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&["--sort", "-seconds"])[..2], [3, 0]);
    assert_eq!(numbers(&["--all", "--sort", "seconds"]).last(), Some(&3));
    assert_eq!(numbers(&["--where", "seconds>3600"]), [3]);
    assert_eq!(numbers(&["--where", "seconds<4", "--sort", "number"]), [1, 2]);
}

#[test]
fn trials_as_json_have_the_contracts_shape_and_tell_nan_from_nothing() {
    let scene = Scene::digits();
    let mut answer = scene.json(&["trials", "digits", "--sort", "number", "--json"]);
    let running = answer["trials"][3]["seconds"].take();
    assert!(running.as_f64().unwrap() > 0.0, "the time of its open attempt");
    assert_eq!((&answer["version"], &answer["study"]), (&json!(1), &json!("digits")));
    let expected = [
        json!({
            "number": 0, "state": "complete", "value": 0.184_213, "violation": null,
            "last_value": 0.2, "last_step": 3,
            "metrics": {"eval_accuracy": 0.8, "eval_loss": 0.2},
            "params": {"learning_rate": 3.162_277e-4, "model.num_layers": 2, "optim": "adamw"},
            "device": "cpu", "seconds": 5.0, "attempts": 1, "reason": null, "tags": [],
            "notes": [],
        }),
        json!({
            "number": 1, "state": "pruned", "value": null, "violation": null,
            "last_value": 1.5, "last_step": 1,
            "metrics": {"eval_accuracy": -0.5, "eval_loss": 1.5},
            "params": {
                "learning_rate": 0.1, "model.num_layers": 8, "momentum": 0.9, "optim": "sgd",
            },
            "device": "cpu", "seconds": 2.0, "attempts": 1,
            "reason": "rank 2 of 2 at step 1; 1 continues", "tags": [], "notes": [],
        }),
        json!({
            "number": 2, "state": "complete", "value": "NaN", "violation": null,
            "last_value": "NaN", "last_step": 1,
            "metrics": {"eval_accuracy": "NaN", "eval_loss": "NaN"},
            "params": {
                "learning_rate": 0.05, "model.num_layers": 1, "momentum": 0.9, "optim": "sgd",
            },
            "device": "cpu", "seconds": 2.0, "attempts": 1, "reason": null, "tags": [],
            "notes": [],
        }),
        json!({
            "number": 3, "state": "running", "value": null, "violation": null,
            "last_value": 0.7, "last_step": 1,
            "metrics": {"eval_accuracy": 1.0 - 0.7, "eval_loss": 0.7},
            "params": {"learning_rate": 1e-3, "model.num_layers": 4, "optim": "adamw"},
            "device": "cpu", "seconds": null, "attempts": 1, "reason": null, "tags": [],
            "notes": [],
        }),
    ];
    assert_eq!(answer["trials"], json!(expected));
    assert_eq!(
        scene.json(&["trials", "--limit", "2", "--json"])["trials"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_filter_with_a_value_or_a_name_that_no_trial_has_is_said() {
    let scene = Scene::digits();
    for (filter, warning) in [
        ("optim=sdg", Some("no trial has `optim=sdg`; did you mean `sgd`?")),
        ("-optim=adamww", Some("no trial has `optim=adamww`; did you mean `adamw`?")),
        ("optim=adamw,zzz", Some("no trial has `optim=zzz`")),
        ("number < 9 and optim == 'sdg'", Some("no trial has `optim=sdg`; did you mean `sgd`?")),
        ("optim:xyz", Some("no trial has `optim:xyz`")),
        ("num_layers=3", Some("no trial has `model.num_layers=3`")),
        ("tag:baseline", Some("no trial has `tag=baseline`")),
        ("device:cuda", Some("no trial has `device:cuda`")),
        (
            "metrics.eval_acuracy>0.5",
            Some("no trial has `metrics.eval_acuracy`; did you mean `eval_accuracy`?"),
        ),
        ("summary.accuracy>0.9", Some("no trial has `summary.accuracy`")),
        ("optim=SGD", None),
        ("optim:ada", None),
        ("num_layers=2", None),
        ("num_layers=2.0", None),
        ("device:cpu", None),
        ("metrics.eval_accuracy>0.999", None),
        ("learning_rate>5", None),
    ] {
        let ran = scene.run(&["trials", "digits", "--where", filter]);
        assert_done(&ran);
        let said: Vec<&str> =
            ran.err.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
        assert_eq!(said, warning.into_iter().collect::<Vec<_>>(), "{filter}: {}", ran.err);
    }
    let events = scene.run(&["events", "digits", "--where", "optim=sdg"]);
    assert_names(&events.err, &["no trial has `optim=sdg`"]);
    // Of several studies, what none of them has.
    let mut scene = scene;
    scene.leave();
    scene.begin("others");
    scene.start(0, 0.02, 3, "adamw");
    for (filter, is_said) in [("optim=sgd", false), ("optim=sdg", true)] {
        for words in [&["trials", "--all"][..], &["export-data", "--study", "*"]] {
            let ran = scene.run(&[words, &["--where", filter]].concat());
            assert_done(&ran);
            assert_eq!(ran.err.contains("warning: no trial has"), is_said, "{filter}: {}", ran.err);
        }
    }
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
        "number": 0, "state": "complete", "value": 0.184_213, "violation": null, "last_value": 0.2,
        "last_step": 3,
        "params": {"learning_rate": 3.162_277e-4, "model.num_layers": 2, "optim": "adamw"},
        "device": "cpu", "seconds": 5.0, "attempts": 1, "reason": null,
        "metrics": {"eval_accuracy": 1.0 - 0.184_213, "eval_loss": 0.184_213},
        "checkpoint": "/data/trial-0/step-2", "checkpoint_gone": true,
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
            "error: no trial of `fresh` is complete yet\nhelp: `hpsearch trials fresh` shows \
             where they stand\n"
        )
    );
    scene.start(0, 0.1, 2, "adamw");
    scene.report(0, &[0.5, 0.7]);
    scene.start(1, 0.2, 2, "adamw");
    scene.report(1, &[0.6]);
    let help = scene.run(&["best"]).err;
    let ahead = "help: trial 0 is ahead, with eval_loss 0.5 at epoch 1; `hpsearch show fresh 0` \
                 shows it";
    assert_names(&help, &[ahead]);
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
    let directory = scene.path("runs/files/digits/trial-0");
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
        "error: trial 0 is already complete\nhelp: `hpsearch explain digits 0` says how it ended\n"
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
            "error: `digits` is not running (it is stopped)\nhelp: `hpsearch ls` shows which \
             studies run\n"
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
            "error: there is no study `digit`\nhelp: did you mean `digits`? There are `digits`, \
             `letters`\n"
        )
    );
    let unnamed = scene.run(&["trials"]);
    assert_eq!(
        (unnamed.code, unnamed.err.as_str()),
        (
            2,
            "error: the store holds several studies: name one\nhelp: there are `digits`, \
             `letters`: name one after the verb\n"
        )
    );
}

#[test]
fn a_study_file_stands_for_its_study() {
    let scene = Scene::digits();
    let text = "[study]\nname = \"digits\"\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n\
                [budget]\ntrials = 24\n[space]\nx = { float = [0.0, 1.0] }\n[command]\n\
                run = [\"true\"]\n";
    scene.write("mine.toml", text);
    assert_eq!(scene.json(&["trials", "mine.toml", "--json"])["study"], "digits");
    assert_eq!(scene.run(&["trials", "other.toml"]).code, 2);
}

#[test]
fn a_program_may_have_errors_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let told = |arguments: &[&str]| {
        let mut command = command(directory.path(), arguments);
        let ended = Ended::of(command.env("HPSEARCH_ERRORS", "json").output().unwrap());
        (ended.code, serde_json::from_str::<Json>(&ended.err).unwrap())
    };
    let (code, absent) = told(&["ls", "--store", "s.db"]);
    assert_eq!((code, &absent["kind"]), (5, &Json::from("no_store")));
    assert_eq!(absent["error"], "there is no store at `s.db`");
    let text = absent["text"].as_str().unwrap();
    assert!(text.starts_with("there is no store at `s.db`\nhelp: "), "{text}");
    let (code, other) = told(&["check", "nowhere.toml"]);
    assert_eq!((code, &other["kind"]), (2, &Json::Null), "{other}");
}

#[test]
fn a_missing_store_is_answered_with_what_makes_one() {
    let directory = tempfile::tempdir().unwrap();
    let ran = run(directory.path(), &["ls"]);
    assert_eq!(ran.code, 5);
    insta::assert_snapshot!(ran.err, @r"
    error: there is no store at `runs/hpsearch.db`
    help: `hpsearch run study.toml` creates one, `--store PATH` names another
    ");
}

#[test]
fn the_store_is_named_by_option_or_environment() {
    let scene = Scene::digits();
    let store = scene.path("runs/hpsearch.db");
    let elsewhere = tempfile::tempdir().unwrap();
    let by_option =
        command(elsewhere.path(), &["ls", "--store", store.to_str().unwrap()]).output().unwrap();
    let by_environment =
        command(elsewhere.path(), &["ls"]).env("HPSEARCH_STORE", &store).output().unwrap();
    assert!(by_option.status.success());
    assert_eq!(by_option.stdout, by_environment.stdout);
}

#[test]
fn unknown_verbs_are_refused_with_a_suggestion() {
    let directory = tempfile::tempdir().unwrap();
    let unknown = run(directory.path(), &["watsh"]);
    assert_eq!(unknown.code, 2);
    assert_names(&unknown.err, &["help: did you mean `watch`?"]);
}

#[test]
fn an_output_that_cannot_be_written_is_named_with_its_reason() {
    let scene = Scene::digits();
    for verb in [
        &["trials"][..],
        &["trials", "--json"],
        &["best"],
        &["plot", "history"],
        &["events"],
        &["export-data"],
        &["export-data", "-o", "-"],
        &["report", "-o", "-"],
        &["schema"],
        &["list", "samplers"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = Ended::of(scene.command(verb).stdout(full).output().unwrap());
        assert_eq!(ended.code, 5, "{verb:?}: {}", ended.err);
        assert_eq!(
            ended.err.lines().next().unwrap(),
            "error: standard output cannot be written: No space left on device (os error 28)",
            "{verb:?}"
        );
        assert_names(&ended.err, &["help: ", "free some space"]);
    }
}

#[test]
fn a_store_may_be_named_by_the_url_of_its_file() {
    let scene = Scene::digits();
    let listed = scene.run(&["ls", "--json"]).out;
    let store = scene.path("runs/hpsearch.db");
    for url in ["sqlite:///runs/hpsearch.db".to_owned(), format!("sqlite:///{}", store.display())] {
        assert_eq!(scene.run(&["ls", "--json", "--store", &url]).out, listed, "{url}");
        let by_environment = scene.command(&["ls", "--json"]).env("HPSEARCH_STORE", &url).output();
        assert_eq!(Ended::of(by_environment.unwrap()).out, listed, "{url}");
    }
    assert_done(&scene.run(&["track", "--store", "sqlite:///other.db", "--", "true"]));
    assert!(scene.path("other.db").is_file());
    for url in ["sqlite://other.db", "mysql://me:secret@db/lab"] {
        for verb in [&["ls"][..], &["run", "no.toml"], &["track", "--", "true"]] {
            let refused = scene.run(&[&["--store", url][..], verb].concat());
            assert_refused(&refused, &["`sqlite:///relative.db` or `sqlite:////absolute.db`"]);
            assert!(!refused.err.contains("secret"), "{}", refused.err);
        }
        let scheme = url.split('/').next().unwrap();
        assert!(!scene.path(scheme).exists(), "a directory is called {scheme}");
    }
}

#[test]
fn a_closed_pipe_is_success() {
    let mut scene = Scene::new();
    scene.begin("large");
    let params: Params = [("optim".to_owned(), Value::from("adamw"))].into_iter().collect();
    let created = |number| {
        Event::Trial(
            TrialNumber(number),
            TrialEvent::created(params.clone(), Origin::Sampled("random".into())),
        )
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
fn a_verb_that_changes_something_does_it_although_nobody_reads() {
    let site = Site::new("", "");
    let rows: String = (0..6).map(|row| format!("{row},0.{row}\n")).collect();
    site.write("t.csv", format!("lr,loss\n{rows}"));
    let unread = |words: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Ended::of(site.command(words).stdout(writer).output().unwrap());
        assert_done(&ended);
    };
    let numbers = |study: &str| {
        let listed: Json = site.json(&["trials", study, "--sort", "number", "--json"]);
        let trials = listed["trials"].as_array().unwrap().iter();
        trials.map(|trial| trial["number"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    unread(&["import", "t.csv", "--study", "t", "--json"]);
    assert_eq!(numbers("t"), [0, 1, 2, 3, 4, 5]);
    unread(&["rm", "t", "0-1", "--yes"]);
    unread(&["rm", "t", "2", "--yes", "--json"]);
    assert_eq!(numbers("t"), [3, 4, 5]);
    unread(&["mv", "t", "3", "--to", "other", "--yes"]);
    assert_eq!((numbers("t"), numbers("other")), (vec![4, 5], vec![0]));
    unread(&["tag", "other", "0", "+kept", "--json"]);
    let tagged: Json = site.json(&["trials", "other", "--json"]);
    assert_eq!(tagged["trials"][0]["tags"], json!(["kept"]));
    unread(&["rm", "t", "--yes"]);
    let listed: Json = site.json(&["ls", "--json"]);
    assert_eq!(listed["studies"].as_array().unwrap().len(), 1);
}

#[test]
fn of_many_studies_the_most_similar_ones_are_named_and_the_others_counted() {
    let mut scene = Scene::digits();
    for number in 0..30 {
        scene.begin(&format!("other-{number}"));
    }
    scene.begin("digits-deep");
    for (words, begin) in [
        (&["trials", "digitz"][..], "did you mean `digits`? There are `digits`, `digits-deep`, "),
        (&["trials", "--study", "digitz*"], "there are `digits`, `digits-deep`, "),
        (&["trials"], "there are "),
    ] {
        let ran = scene.run(words);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert_names(&ran.err, &[begin, " and 22 more, which `hpsearch ls --all` lists"]);
        assert_eq!(ran.err.matches("`, `").count(), 9, "{}", ran.err);
    }
}

#[test]
fn following_a_log_ends_with_the_attempt() {
    let mut scene = Scene::digits();
    let directory = scene.path("runs/files/digits/trial-3");
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
    let run = |arguments: &[&str]| run(directory.path(), arguments);
    let devices: Json = run(&["devices", "--json"]).json();
    assert_eq!((&devices["version"], &devices["devices"][0]["name"]), (&json!(1), &json!("cpu")));
    for (what, entry) in
        [("samplers", "random\n"), ("pruners", "asha"), ("tasks", "text-classification\n")]
    {
        let listed = run(&["list", what]);
        assert!(listed.code == 0 && listed.out.contains(entry), "{}", listed.out);
        assert!(serde_json::from_str::<Json>(&run(&["list", what, "--json"]).out).is_ok());
    }
    let schema: Json = run(&["schema"]).json();
    assert_eq!(schema["title"], "hpsearch study file");
}

#[test]
fn watching_without_a_terminal_is_refused_with_the_verb_to_use() {
    let ran = Scene::digits().run(&["watch"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "error: `hpsearch watch` needs a terminal\nhelp: `hpsearch trials digits` prints the \
             same table\n"
        )
    );
}

#[test]
fn the_version_is_said_without_touching_anything() {
    let directory = tempfile::tempdir().unwrap();
    let ran = run(directory.path(), &["--version"]);
    assert_eq!((ran.code, ran.out), (0, format!("hpsearch {}\n", env!("CARGO_PKG_VERSION"))));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
