//! Verbs that hand out what a study holds: filtered lists, the journal, tables for other programs,
//! sizes on the disk.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use hpsearch::storage::StorageReader;
use hpsearch::study::event::{AttemptEnd, CheckpointEvent, EntryEvent, Event, StudyEvent};
use hpsearch::study::trial::{TrialNumber, TrialState};
use serde_json::{Value as Json, json};

use crate::harness::{Scene, assert_names};

fn numbers(scene: &Scene, arguments: &[&str]) -> Vec<u64> {
    let answer = scene.json(&[&["trials", "digits", "--json"], arguments].concat());
    answer["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| trial["number"].as_u64().unwrap())
        .collect()
}

#[test]
fn trials_are_filtered_and_sorted_by_what_is_written() {
    let scene = Scene::digits();
    assert_eq!(numbers(&scene, &["--where", "optim=sgd"]), [2, 1]);
    assert_eq!(numbers(&scene, &["--where", "learning_rate<0.01 -state:running"]), [0]);
    assert_eq!(numbers(&scene, &["--where", "value=nan"]), [2]);
    assert_eq!(numbers(&scene, &["--where", "optim=sgd AND NOT value=nan"]), [1]);
    assert_eq!(numbers(&scene, &["--where", "value=nan || eval_accuracy>0.5"]), [0, 2]);
    assert_eq!(numbers(&scene, &["--where", "eval_accuracy>0.5"]), [0]);
    assert_eq!(numbers(&scene, &["--where", "-optim=sgd", "--sort", "-num_layers"]), [3, 0]);
    assert_eq!(numbers(&scene, &["--sort", "learning_rate"]), [0, 3, 2, 1]);
    assert_eq!(numbers(&scene, &["--sort", "learning_rate", "--reverse", "--limit", "2"]), [1, 2]);
    assert_eq!(numbers(&scene, &["--sort", "momentum"]), [1, 2, 0, 3], "what has none comes last");
    assert_eq!(numbers(&scene, &["--sort", "eval_accuracy", "-r"])[..2], [0, 3]);
}

#[test]
fn the_conditions_that_the_documentation_types_select_trials() {
    let scene = Scene::digits();
    let page = include_str!("../../docs/command-line.md");
    let typed = page.lines().filter_map(|line| {
        line.strip_prefix("    hpsearch trials digits --where '")?.strip_suffix('\'')
    });
    let selected: Vec<_> =
        typed.map(|condition| numbers(&scene, &["--where", condition])).collect();
    assert_eq!(selected, [vec![0], vec![0], vec![0, 2, 1], vec![0]]);
}

#[test]
fn the_last_events_are_the_end_of_the_whole_journal_whatever_their_number() {
    let scene = Scene::digits();
    for form in [&["events", "digits"][..], &["events", "digits", "--json"]] {
        let whole = scene.run(form).out;
        let lines: Vec<&str> = whole.lines().collect();
        for limit in 1..=lines.len() + 1 {
            let last = scene.run(&[form, &["--limit", &limit.to_string()]].concat()).out;
            let wanted: Vec<&str> = lines[lines.len().saturating_sub(limit)..].to_vec();
            assert_eq!(last.lines().collect::<Vec<_>>(), wanted, "the last {limit}");
        }
    }
}

#[test]
fn listed_trials_carry_their_tags_and_notes_behind_what_they_always_had() {
    let mut scene = Scene::digits();
    let trial = Some(TrialNumber(0));
    scene.append(&[
        Event::tagged(trial, "keep".into(), true),
        Event::noted(trial, "best so far".into()),
    ]);
    let answer = scene.json(&["trials", "digits", "--json", "--sort", "number", "--limit", "1"]);
    assert_eq!(answer["trials"][0]["tags"], json!(["keep"]));
    assert_eq!(answer["trials"][0]["notes"][0]["text"], "best so far");
    assert!(answer["trials"][0]["notes"][0]["at"].as_str().unwrap().ends_with('Z'), "{answer}");
}

#[test]
fn every_refusal_names_a_next_step() {
    let scene = Scene::digits();
    let wrong: &[&[&str]] = &[
        &["trials", "digit"],
        &["trials", "--where", "zzz=1"],
        &["trials", "--where", "learning_rate>high"],
        &["trials", "--where", "reason:\"open"],
        &["trials", "--sort", "zzz"],
        &["show", "nothing"],
        &["best", "nothing"],
        &["explain", "99"],
        &["events", "--trial", "99"],
        &["logs", "99"],
        &["kill", "0"],
        &["kill", "99"],
        &["retry"],
        &["continue", "99", "--until", "20"],
        &["tag", "digits", "0", "+e é"],
        &["tag", "digits", "0", "keep"],
        &["note", "digits", "99", "-m", "text"],
        &["enqueue", "learning_rate=high"],
        &["enqueue", "learning_rat=1e-3"],
        &["diff", "0", "99"],
        &["plot", "nothing", "history"],
        &["curves", "--metric", "nothing"],
        &["export-data", "nothing"],
        &["export", "digits", "-o", "model", "--trial", "99"],
        &["predict", "nothing-here", "a text"],
        &["man", "nothing"],
        &["run", "nothing.toml"],
        &["check", "nothing.toml"],
        &["train", "nothing.toml"],
        &["--store", "nothing.db", "ls"],
        &["init", "nothing.csv"],
        &["importance", "nothing"],
        &["extend", "digits"],
        &["du", "nothing"],
    ];
    for arguments in wrong {
        let ran = scene.run(arguments);
        assert_ne!(ran.code, 0, "{arguments:?} is refused");
        let tells = [
            "help:",
            "did you mean",
            ": write ",
            "`hpsearch ",
            "For more information, try '--help'",
            "lists ",
        ];
        assert!(
            tells.iter().any(|tell| ran.err.contains(tell)),
            "{arguments:?} says no next step:\n{}",
            ran.err
        );
    }
}

#[test]
fn a_filter_that_is_wrong_says_what_to_write() {
    let scene = Scene::digits();
    let ran = scene.run(&["trials", "--where", "lr>1e-3"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (
            2,
            "error: `lr` is not a parameter or metric; did you mean `learning_rate`?\n  lr>1e-3\n  \
             ^^\n"
        )
    );
    let ran = scene.run(&["trials", "--where", "zzz=1"]);
    insta::assert_snapshot!(ran.err, @r"
    error: `zzz` is not a parameter or metric
      zzz=1
      ^^^
    help: the study's parameters are `learning_rate`, `model.num_layers`, `optim`, `momentum`; its metric is `eval_loss`
    ");
    let long = format!("{}zzz<1{}", "optim=adamw ".repeat(500), " optim=adamw".repeat(500));
    let ran = scene.run(&["trials", "--where", &long]);
    assert!(ran.err.lines().all(|line| line.chars().count() < 150), "{}", ran.err);
    assert!(ran.err.contains("\n  ..") && ran.err.contains(" zzz<1 optim"), "{}", ran.err);
    let ran = scene.run(&["trials", "--sort", "los"]);
    assert_eq!(ran.code, 2);
    let ran = scene.run(&["trials", "--where", "state:failed"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "none of 4 trials passes\n")
    );
}

#[test]
fn the_journal_is_told_in_lines_with_their_moments() {
    let scene = Scene::digits();
    let hpsearch::storage::Holder { pid, host, .. } = hpsearch::runner::this_process();
    let told = scene.run(&["events", "digits"]).out;
    insta::assert_snapshot!(told.replace(&format!("process {pid} on {host}"), "process 7 on here"));
    let pruned = scene.run(&["events", "--where", "state:pruned", "--limit", "3"]).out;
    insta::assert_snapshot!(pruned, @r"
    2025-11-24 16:00:09  trial 1 epoch 1: eval_accuracy -0.5, eval_loss 1.5
    2025-11-24 16:00:10  trial 1 attempt 0 ended: pruned: rank 2 of 2 at step 1; 1 continues
    2025-11-24 16:00:10  trial 1 pruned at epoch 1 with 1.5 in 2.0 s: rank 2 of 2 at step 1; 1 continues
    ");
    let missing = scene.run(&["events", "--trial", "9"]);
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (2, "error: there is no trial 9 in `digits`\nhelp: it has 4 trials, the last is 3\n")
    );
}

#[test]
fn the_journal_as_json_lines_is_what_is_stored() {
    let scene = Scene::digits();
    let study = scene.store.study("digits").unwrap().unwrap().id;
    let stored = scene.store.events_after(study, hpsearch::study::event::Seq(0), u64::MAX).unwrap();
    let lines = scene.run(&["events", "--json"]).json_lines();
    let expected: Vec<Json> = stored
        .iter()
        .map(|(seq, at, event)| json!({"seq": seq, "at": at, "event": event}))
        .collect();
    assert_eq!(lines, expected);
    let of_trial = scene.run(&["events", "--json", "--trial", "2"]).out;
    assert!(
        of_trial.lines().all(|line| line.contains("\"trial\":2")) && of_trial.lines().count() == 5
    );
}

#[test]
fn the_journal_is_followed_until_the_study_is_over() {
    let mut scene = Scene::digits();
    let mut following =
        scene.command(&["events", "-f", "--trial", "3"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(
        lines
            .by_ref()
            .any(|line| line.ends_with("trial 3 epoch 1: eval_accuracy 0.3, eval_loss 0.7"))
    );
    scene.end(3, AttemptEnd::Completed, TrialState::Complete, Some(0.1), None);
    assert!(
        lines.by_ref().any(|line| line.contains("trial 3 complete with 0.1 in 2.0 s, new best"))
    );
    scene.append(&[Event::Study(StudyEvent::finished("24 trials are done"))]);
    scene.leave();
    assert_eq!(lines.next(), None);
    assert!(following.wait().unwrap().success());
}

fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

#[test]
fn trials_are_exported_as_csv_with_nan_and_nothing_told_apart() {
    let mut scene = Scene::digits();
    scene.append(&[
        Event::of(TrialNumber(1), EntryEvent::Noted { text: "odd, \"very\"\nodd".into() }),
        Event::of(TrialNumber(1), EntryEvent::Tagged { tag: "baseline".into(), present: true }),
    ]);
    let rows = csv_rows(&scene.run(&["export-data", "digits"]).out);
    let column = |name: &str| {
        let index = rows[0]
            .iter()
            .position(|title| title == name)
            .unwrap_or_else(|| panic!("no column {name} in {:?}", rows[0]));
        rows[1..].iter().map(|row| row[index].as_str()).collect::<Vec<_>>()
    };
    assert_eq!(column("number"), ["0", "1", "2", "3"]);
    assert_eq!(column("state"), ["complete", "pruned", "complete", "running"]);
    assert_eq!(column("value"), ["0.184213", "", "NaN", ""]);
    assert_eq!(column("last_value"), ["0.2", "1.5", "NaN", "0.7"]);
    assert_eq!(column("params.momentum"), ["", "0.9", "0.9", ""]);
    assert_eq!(column("params.learning_rate"), ["3.162277e-4", "0.1", "0.05", "0.001"]);
    assert_eq!(column("metrics.eval_accuracy")[1..], ["-0.5", "NaN", "0.30000000000000004"]);
    assert_eq!(column("tags"), ["", "baseline", "", ""]);
    assert_eq!(column("notes")[1], "odd, \"very\"\nodd");
    assert_eq!(column("created")[0], "2025-11-24T16:00:02Z");
}

#[test]
fn json_lines_are_exact_and_filters_apply() {
    let scene = Scene::digits();
    let lines =
        scene.run(&["export-data", "--format", "jsonl", "--where", "state:complete"]).json_lines();
    assert_eq!(lines.iter().map(|line| &line["number"]).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(
        lines[0]["params"],
        json!({"learning_rate": 3.162_277e-4, "model.num_layers": 2, "optim": "adamw"})
    );
    assert_eq!(
        (&lines[1]["value"], &lines[1]["metrics"]["eval_loss"]),
        (&json!("NaN"), &json!("NaN"))
    );
    assert_eq!(lines[0]["origin"], json!({"sampled": "random"}));
}

#[test]
fn reports_are_exported_one_a_row() {
    let scene = Scene::digits();
    let rows =
        csv_rows(&scene.run(&["export-data", "--reports", "--where", "number<=2 optim=sgd"]).out);
    assert_eq!(rows[0], ["trial", "metric", "step", "value"]);
    assert_eq!(
        rows[1..],
        [
            ["1", "eval_accuracy", "1", "-0.5"],
            ["1", "eval_loss", "1", "1.5"],
            ["2", "eval_accuracy", "1", "NaN"],
            ["2", "eval_loss", "1", "NaN"]
        ]
    );
}

#[test]
fn an_exported_file_appears_whole_or_not_at_all() {
    let scene = Scene::digits();
    let path = scene.path("out/trials.jsonl");
    let ran = scene.run(&["export-data", "-o", "out/trials.jsonl"]);
    assert_eq!((ran.code, path.exists()), (2, false), "{}", ran.err);
    assert_names(&ran.err, &["`out/trials.jsonl` cannot be written", "help: "]);
    fs::create_dir(scene.path("out")).unwrap();
    let ran = scene.run(&["export-data", "-o", "out/trials.jsonl"]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "", "4 rows written to out/trials.jsonl\n")
    );
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 4);
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "nothing is left beside it"
    );
}

fn fill(path: &Path, size: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![7; size]).unwrap();
}

#[test]
fn sizes_on_the_disk_are_told_by_study_state_and_kind() {
    let mut scene = Scene::digits();
    let files = scene.path("runs/files/digits");
    fill(&files.join("trial-0/attempt-0.log"), 10_000);
    fill(&files.join("trial-1/step-1/weights"), 50_000);
    fill(&files.join("trial-1/attempt-0.log"), 100);
    fill(&files.join("trial-77/attempt-0.log"), 20_000);
    scene.append(&[Event::of(
        TrialNumber(1),
        CheckpointEvent::Saved {
            step: 1,
            path: files.join("trial-1/step-1"),
            bytes: None,
            system: None,
            digest: None,
        },
    )]);
    let usage = scene.json(&["du", "--json"]);
    let study = &usage["studies"][0];
    let of = |state: &str, part: &str| {
        let states = study["states"].as_array().unwrap();
        states.iter().find(|usage| usage["state"] == state).unwrap()[part].as_u64().unwrap()
    };
    assert!(of("complete", "logs") >= 10_000 && of("complete", "checkpoints") == 0);
    assert!(of("pruned", "checkpoints") >= 50_000 && of("pruned", "trials") == 1);
    assert!(of("pruned", "other") < 50_000, "a checkpoint is counted once: {study}");
    assert!(study["unknown"].as_u64().unwrap() >= 20_000, "trial 77 is not in the store");
    assert_eq!(
        study["freeable"].as_u64().unwrap(),
        of("pruned", "checkpoints"),
        "a pruned trial's checkpoint need not stay"
    );
    assert!(
        usage["total"].as_u64().unwrap()
            > study["total"].as_u64().unwrap() + usage["store"]["file"].as_u64().unwrap() - 1
    );
    let told = scene.run(&["du", "digits"]).out;
    assert_names(&told, &["complete", "files of unknown trials"]);
    // On a disk, the directory has 4 KiB besides the 52 of its file.
    let freeable = |size| format!("`[checkpoints] keep` does not keep: {size} KiB");
    assert!(["52.0", "56.0"].map(freeable).iter().any(|words| told.contains(words)), "{told}");
}
