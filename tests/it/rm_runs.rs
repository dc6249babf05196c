//! Tracked runs are removed and moved to other studies, one by one: all of a run goes or comes,
//! nothing of others does, and whatever is killed meanwhile, a run is there whole or gone.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::harness::{
    ONE_SLOT, OnTerminal, PROGRAM, REPORT_X, Site, assert_code, assert_done, assert_names,
    assert_refused, cases, paths_below, study, wait_until,
};

/// Leaves something in every table and file that a run can have; its first argument is its value,
/// its second a word that is in all it leaves.
const TRAIN: &str = "\
echo \"log $2\"
echo \"weights $2\" > $HPSEARCH_CHECKPOINT_DIR/step-1
echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/step-1\\\",\\\"step\\\":1}\"
echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1,\\\"accuracy\\\":0.5}\"
echo \"@hpsearch {\\\"step\\\":1,\\\"train/loss\\\":$1}\"
echo \"@hpsearch {\\\"step\\\":2,\\\"train/loss\\\":$1}\"
echo \"@hpsearch {\\\"params\\\":{\\\"told\\\":\\\"$2\\\"}}\"
echo \"@hpsearch {\\\"summary\\\":{\\\"came to\\\":\\\"$2\\\"}}\"
echo \"@hpsearch {\\\"text\\\":{\\\"words\\\":\\\"text $2\\\"}}\"
echo \"@hpsearch {\\\"odd\\\":\\\"$2\\\"}\"
echo \"file $2\" > $HPSEARCH_CHECKPOINT_DIR/note.txt
echo \"@hpsearch {\\\"artifact\\\":\\\"note.txt\\\",\\\"name\\\":\\\"a $2\\\"}\"
";

/// Runs `a`, `b` and `c` of the study `runs`, with the values 0.1, 0.2 and 0.3 and the words
/// `word-a`, `word-b` and `word-c`.
fn site() -> Site {
    let site = Site::empty();
    site.write("train.sh", TRAIN);
    for (name, value) in [("a", "0.1"), ("b", "0.2"), ("c", "0.3")] {
        track(&site, "runs", name, value);
    }
    site
}

fn track(site: &Site, study: &str, name: &str, value: &str) {
    let word = format!("word-{name}");
    let option = format!("--key={word}");
    let ended = site.run(&[
        "track", "--study", study, "--name", name, "--note", &word, "--tag", &word, "--", "sh",
        "train.sh", value, &word, &option,
    ]);
    assert_done(&ended);
}

/// The numbers and names of a study's runs.
fn runs(site: &Site, study: &str) -> Vec<(u64, String)> {
    let listed = site.json(&["trials", study, "--sort", "number", "--json"]);
    let runs = listed["trials"].as_array().unwrap().iter();
    let name = |run: &Json| run["name"].as_str().unwrap_or_default().to_owned();
    runs.map(|run| (run["number"].as_u64().unwrap(), name(run))).collect()
}

fn numbers(site: &Site, study: &str) -> Vec<u64> {
    runs(site, study).into_iter().map(|(number, _)| number).collect()
}

fn assert_verified(site: &Site, studies: &[&str]) {
    for study in studies {
        let verified = site.run(&["verify", study]);
        assert_done(&verified);
        assert_names(&verified.out, &["repeat exactly"]);
    }
    site.assert_sound();
}

/// Files of the store and below it that hold a word.
fn holding(site: &Site, word: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        fs::read(path).is_ok_and(|bytes| bytes.windows(word.len()).any(|at| at == word.as_bytes()))
    };
    paths_below(&site.path("runs")).into_iter().filter(holds).collect()
}

/// What the verbs say of a run, without what its place in a study decides.
fn said(site: &Site, study: &str, run: &str) -> Vec<Json> {
    let mut trial = site.json(&["show", study, run, "--json"]);
    for key in ["study", "seed", "configuration"] {
        trial.as_object_mut().unwrap().remove(key);
    }
    trial["trial"]["number"].take();
    trial["artifacts"].as_array_mut().unwrap().iter_mut().for_each(|it| drop(it["trial"].take()));
    let series = ["loss", "accuracy", "train/loss"].map(|metric| {
        let curves = site.json(&["curves", study, run, "--metric", metric, "--json"]);
        curves["series"][0]["points"].clone()
    });
    let log = site.run(&["logs", study, run]);
    assert_done(&log);
    let to = format!("got-{study}-{run}");
    let artifacts = site.run(&["artifacts", study, run, "--get", "words:v1", "-o", &to]);
    assert_done(&artifacts);
    let words = site.read(&format!("{to}/words.txt"));
    vec![trial, json!(series), json!(log.out), json!(words)]
}

#[test]
fn a_removed_run_leaves_nothing_but_its_number() {
    let site = site();
    assert_done(&site.run(&["note", "runs", "b", "-m", "later word-b"]));
    assert!(!holding(&site, "word-b").is_empty());
    let others = ["word-a", "word-c"].map(|word| holding(&site, word).len());
    let listed = site.run(&["rm", "runs", "b", "--dry-run"]);
    assert_done(&listed);
    assert_names(&listed.out, &["run 1 (`b`): complete, 1 checkpoint, "]);
    assert_refused(&site.run(&["rm", "runs", "b"]), &["cannot be confirmed", "--yes"]);
    assert_eq!(numbers(&site, "runs"), [0, 1, 2]);
    let ended = site.run(&["rm", "runs", "b", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.out, &["removed 1 run of study runs, with "]);
    assert!(ended.err.starts_with("note: `hpsearch copy` refuses"), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1);
    assert_eq!(holding(&site, "word-b"), Vec::<PathBuf>::new());
    assert_eq!(["word-a", "word-c"].map(|word| holding(&site, word).len()), others);
    assert!(!site.exists("runs/files/runs/trial-1") && site.exists("runs/files/runs/trial-2"));
    assert_verified(&site, &["runs"]);
    assert!(site.run(&["gc", "--dry-run"]).out.contains("nothing to remove"));
    assert_done(&site.run(&["doctor"]));
    // Every list agrees.
    let of = |arguments: &[&str], list: &str, key: &str| -> Vec<u64> {
        let told = site.json(arguments);
        let list = told[list].as_array().unwrap().iter();
        list.map(|item| item[key].as_u64().unwrap()).collect()
    };
    assert_eq!(of(&["trials", "--all", "--sort", "number", "--json"], "trials", "number"), [0, 2]);
    assert_eq!(of(&["curves", "runs", "--json"], "series", "trial"), [0, 2]);
    assert_eq!(site.json(&["ls", "--json"])["studies"][0]["trials"]["complete"], 2);
    assert_eq!(site.json(&["best", "runs", "--json"])["trial"]["number"], 0);
    assert_eq!(site.run(&["export-data", "runs"]).out.lines().count(), 3);
    assert_names(&site.run(&["diff", "runs", "a", "c"]).out, &["word-a", "word-c"]);
    let (optuna, events): (i64, i64) = (
        site.query("SELECT count(*) FROM trials"),
        site.query("SELECT count(*) FROM event WHERE body ->> '$.trial' = 1"),
    );
    assert_eq!((optuna, events), (2, 1));
    let last = site.run(&["events", "runs", "--limit", "1"]);
    assert_names(&last.out, &["trial 1 is removed"]);
    assert_eq!(last.out.lines().count(), 1);
    // Who asks for it is told.
    for verb in
        [&["show", "runs", "1"][..], &["logs", "runs", "1"], &["note", "runs", "1", "-m", "x"]]
    {
        assert_refused(&site.run(verb), &["no trial 1", "was removed"]);
    }
    assert_refused(
        &site.run(&["show", "runs", "7"]),
        &["no trial 7", "has 2 trials, the last is 2"],
    );
    assert_refused(&site.run(&["show", "runs", "b"]), &["no run `b`"]);
}

#[test]
fn runs_that_match_a_filter_are_removed_and_tagged() {
    let site = site();
    for misused in [
        ["rm", "runs", "a", "--where", "value>0.15", "--yes"],
        ["tag", "runs", "a", "--where", "value>0.15", "+x"],
        ["rm", "runs", "--where", "value>", "--yes", "-q"],
    ] {
        assert_code(&site.run(&misused), 2);
    }
    for nothing in
        [["rm", "runs", "--where", "value>5", "--yes"], ["tag", "runs", "--where", "value>5", "+x"]]
    {
        let ended = site.run(&nothing);
        assert_done(&ended);
        assert_names(&ended.err, &["none of 3 runs passes"]);
    }
    let tagged = site.json(&["tag", "runs", "--where", "-value>0.15", "+small", "--json"]);
    assert!(tagged["tags"].as_array().unwrap().iter().all(|tag| tag["trial"] == 0), "{tagged}");
    let none = site.json(&["tag", "runs", "--where", "value>5", "+x", "--json"]);
    assert_eq!(none["tags"], serde_json::json!([]));
    assert_eq!(site.json(&["tag", "runs", "--json"])["tags"], serde_json::json!([]));
    let listed = site.run(&["rm", "runs", "--where", "value>0.15", "--dry-run"]);
    assert_names(&listed.out, &["run 1 (`b`)", "run 2 (`c`)"]);
    assert_eq!(numbers(&site, "runs"), [0, 1, 2]);
    assert_done(&site.run(&["rm", "runs", "--where", "value>0.15", "--yes"]));
    assert_eq!(numbers(&site, "runs"), [0]);
    assert_verified(&site, &["runs"]);
}

#[test]
fn numbers_are_never_given_again_and_names_are() {
    let site = site();
    assert_done(&site.run(&["rm", "runs/c", "--yes"]));
    track(&site, "runs", "c", "0.05");
    assert_eq!(runs(&site, "runs")[2], (3, "c".to_owned()));
    // Of a range what there is; of a list, and of a range without any, the first that is missing.
    for words in [&["rm", "runs", "2-2", "--yes"][..], &["note", "runs", "2-2", "-m", "x"]] {
        assert_refused(&site.run(words), &["no trial 2", "was removed"]);
    }
    assert_refused(&site.run(&["rm", "runs", "1,2", "--yes"]), &["no trial 2", "was removed"]);
    assert_done(&site.run(&["diff", "runs", "1-3"]));
    assert_names(
        &site.run(&["rm", "runs", "1-3", "--dry-run"]).out,
        &["run 1 (`b`)", "run 3 (`c`)"],
    );
    assert_done(&site.run(&["rm", "runs", "0-3", "--yes"]));
    assert_eq!(numbers(&site, "runs"), Vec::<u64>::new());
    let listed = site.run(&["ls"]);
    assert_names(&listed.out, &["runs", "idle"]);
    assert_names(&site.run(&["show", "runs"]).out, &["trials      none\n", "no complete trial"]);
    assert_names(&site.run(&["trials", "runs"]).err, &["the study has no runs"]);
    assert_verified(&site, &["runs"]);
    track(&site, "runs", "a", "0.5");
    assert_eq!(runs(&site, "runs"), [(4, "a".to_owned())]);
    assert_verified(&site, &["runs"]);
    // A study that is removed as a whole takes along that numbers were given.
    assert_done(&site.run(&["rm", "runs", "--yes"]));
    assert_eq!(site.query::<i64>("SELECT count(*) FROM removed_run"), 0);
    assert_eq!(holding(&site, "word-a"), Vec::<PathBuf>::new());
    track(&site, "runs", "a", "0.5");
    assert_eq!(numbers(&site, "runs"), [0]);
}

#[test]
fn a_person_is_asked_and_may_say_no() {
    let site = site();
    for (words, question) in [
        (&["rm", "runs", "b"][..], "Remove 1 run of study runs, with"),
        (&["mv", "runs", "b", "--to", "old"], "Move 1 run to study old?"),
    ] {
        let mut terminal = OnTerminal::start(&site, words);
        terminal.wait_for_text(question);
        terminal.press("n\r");
        assert_eq!(terminal.leave(), 0);
        assert_eq!(numbers(&site, "runs"), [0, 1, 2]);
    }
    assert_refused(&site.run(&["mv", "runs", "b", "--to", "old"]), &["cannot be confirmed"]);
    assert_eq!(site.json(&["ls", "--json"])["studies"].as_array().unwrap().len(), 1);
    let mut terminal = OnTerminal::start(&site, &["rm", "runs", "b"]);
    terminal.wait_for_text("Remove 1 run");
    terminal.press("y\r");
    assert_eq!(terminal.leave(), 0);
    assert_eq!(numbers(&site, "runs"), [0, 2]);
}

#[test]
fn a_moved_run_is_whole_in_the_other_study() {
    let site = site();
    track(&site, "old", "b", "0.9");
    let before = ["a", "b"].map(|run| said(&site, "runs", run));
    // Files lie in another directory by now.
    let text = |said: &[Json], study: &str| {
        let text = serde_json::to_string(said).unwrap();
        (0..3).fold(text, |text, run| text.replace(&format!("files/{study}/trial-{run}"), "DIR"))
    };
    let moved = site.run(&["mv", "runs", "a", "1", "--to", "old", "--yes"]);
    assert_done(&moved);
    assert_names(
        &moved.out,
        &["run 0 of runs is run 1 (`a`) of old now", "run 1 of runs is run 2 (`b-2`) of old now"],
    );
    assert_eq!(numbers(&site, "runs"), [2]);
    let named = [(0, "b".to_owned()), (1, "a".to_owned()), (2, "b-2".to_owned())];
    assert_eq!(runs(&site, "old"), named);
    let after = ["a", "b-2"].map(|run| said(&site, "old", run));
    for (before, after) in before.iter().zip(&after) {
        let before = text(before, "runs").replace("\"name\":\"b\"", "\"name\":\"b-2\"");
        assert_eq!(before, text(after, "old"));
    }
    assert_verified(&site, &["runs", "old"]);
    let checkpoint = site.json(&["best", "old", "--json"])["trial"]["checkpoint"].clone();
    assert!(checkpoint.as_str().unwrap().ends_with("files/old/trial-1/checkpoints/step-1"));
    assert!(!site.exists("runs/files/runs/trial-0") && !site.exists("runs/files/runs/trial-1"));
    assert!(site.run(&["gc", "--dry-run"]).out.contains("nothing to remove"));
    assert_names(&site.run(&["events", "runs"]).out, &["trial 0 is moved: it is trial 1 of `old`"]);
    // It continues there, and its old number names nothing.
    let resumed = site.run(&[
        "track", "--study", "old", "--resume", "a", "--", "sh", "train.sh", "0.01", "again",
    ]);
    assert_done(&resumed);
    assert_names(&resumed.err, &["continues from the checkpoint of step 1"]);
    assert_names(&site.run(&["logs", "old", "a", "--attempt", "0"]).out, &["log word-a"]);
    assert_refused(&site.run(&["show", "runs", "0"]), &["it was moved to `old`", "`old/1`"]);
    assert_verified(&site, &["runs", "old"]);
    // And back.
    assert_done(&site.run(&["mv", "old/a", "--to", "runs", "--yes"]));
    assert_eq!(runs(&site, "runs"), [(2, "c".to_owned()), (3, "a".to_owned())]);
    assert_verified(&site, &["runs", "old"]);
}

#[test]
fn runs_move_only_where_they_belong() {
    let site = site();
    let worse = ["track", "--study", "scores", "--direction", "maximize", "--", "true"];
    assert_done(&site.run(&worse));
    site.write("s.toml", study("trials = 1", ONE_SLOT).replace("\"trial.sh\"", "\"x.sh\""));
    site.write("x.sh", REPORT_X);
    assert_done(&site.run(&["run", "s.toml", "--plain", "-q"]));
    let refused = |words: &[&str], why: &[&str]| {
        assert_refused(&site.run(&[words, &["--yes"]].concat()), why);
    };
    refused(
        &["mv", "runs", "a", "--to", "scores"],
        &["loss (maximize)", "loss (minimize)", "--to"],
    );
    refused(&["mv", "runs", "a", "--to", "s"], &["`s` is a search"]);
    refused(&["mv", "runs", "a", "--to", "runs"], &["are already in `runs`"]);
    refused(&["mv", "s", "0", "--to", "runs"], &["`s` is a search: its trials are not moved"]);
    refused(&["mv", "runs", "--to", "old"], &["none is named", "RUN --to OTHER"]);
    refused(&["mv", "runs", "d", "--to", "old"], &["no run `d`"]);
    refused(&["mv", "runs", "7", "--to", "old"], &["no trial 7"]);
    for name in ["../up", "", "a/b", "\u{1b}[2J"] {
        refused(&["mv", "runs", "a", "--to", name], &["cannot be a study's name"]);
    }
    refused(&["mv", "runs", "a", "--archive", "--to", "old"], &["--to"]);
    refused(&["rm", "runs", "a", "nothing"], &["no run `nothing`"]);
    // A word that is both is neither.
    track(&site, "runs", "scores", "0.4");
    refused(
        &["rm", "runs", "scores"],
        &["`scores` is a study, and a trial or run of `runs`", "runs/scores"],
    );
    assert_done(&site.run(&["rm", "runs/scores", "--yes"]));
    fs::copy(site.path("runs/hpsearch.db"), site.path("runs/copy.db")).unwrap();
    let listed = site.run(&["mv", "runs", "a", "--to", "old", "--dry-run"]);
    assert_names(&listed.err, &["a copy of this store lies beside it"]);
    fs::remove_file(site.path("runs/copy.db")).unwrap();
    assert_eq!(numbers(&site, "runs"), [0, 1, 2]);
    assert!(site.run(&["gc", "--dry-run"]).out.contains("nothing to remove"));
    assert_verified(&site, &["runs", "scores"]);
}

#[test]
fn parts_of_a_run_keep_its_number_and_move_along_with_it() {
    let site = site();
    for name in ["child", "other"] {
        let words = [
            "track", "--study", "runs", "--name", name, "--parent", "a", "--", "sh", "train.sh",
            "1", name,
        ];
        assert_done(&site.run(&words));
    }
    let parent = |study: &str, run: &str| -> Option<String> {
        let shown = site.run(&["show", study, run]).out;
        let line = shown.lines().find(|line| line.starts_with("parent"))?;
        Some(line.split_whitespace().nth(1)?.to_owned())
    };
    let moved = site.run(&["mv", "runs", "child", "a", "--to", "old", "--yes"]);
    assert_done(&moved);
    assert_names(&moved.out, &["run 4 is part of it, and stays"]);
    assert_eq!(runs(&site, "old"), [(0, "a".to_owned()), (1, "child".to_owned())]);
    assert_eq!(
        (parent("old", "child"), parent("runs", "other")),
        (Some("0".into()), Some("0".into()))
    );
    let removed = site.run(&["rm", "old", "a", "--yes"]);
    assert_names(&removed.out, &["run 1 was part of run 0, and keeps its number"]);
    assert_done(&site.run(&["mv", "old/child", "--to", "new", "--yes"]));
    assert_eq!(parent("new", "child"), None);
    assert_verified(&site, &["runs", "old", "new"]);
}

#[test]
fn a_run_that_is_tracked_or_whose_files_are_needed_stays() {
    let site = site();
    site.write(
        "lasts.sh",
        "echo '@hpsearch {\"step\":1,\"loss\":0.5}'\necho > started\n\
         while :; do sleep 0.05; done\n",
    );
    let tracked =
        site.start(&["track", "--study", "runs", "--name", "live", "--", "sh", "lasts.sh"]);
    site.wait_for("started");
    for words in
        [&["rm", "runs", "live", "--yes"][..], &["mv", "runs", "live", "--to", "old", "--yes"]]
    {
        let refused = site.run(words);
        assert_code(&refused, 5);
        assert_names(&refused.err, &["run 3 of `runs` is being tracked", "hpsearch stop runs 3"]);
    }
    // Others go meanwhile, and it is none the worse.
    assert_done(&site.run(&["rm", "runs", "a", "--yes"]));
    assert_done(&site.run(&["mv", "runs", "c", "--to", "old", "--yes"]));
    assert_done(&site.run(&["stop", "runs", "live"]));
    let ended = tracked.end();
    assert_names(&ended.err, &["was interrupted"]);
    assert_eq!(runs(&site, "runs"), [(1, "b".to_owned()), (3, "live".to_owned())]);
    assert_verified(&site, &["runs", "old"]);
    // Another run has a checkpoint of `b`.
    let path = site.path("runs/files/runs/trial-1/checkpoints/step-1");
    site.write(
        "borrows.sh",
        format!(
            "echo '@hpsearch {{\"checkpoint\":\"{}\",\"step\":1}}'\n{}",
            path.display(),
            "echo '@hpsearch {\"step\":1,\"loss\":0.5}'\n"
        ),
    );
    assert_done(&site.run(&["track", "--study", "heirs", "--", "sh", "borrows.sh"]));
    for words in [&["rm", "runs", "b", "--yes"][..], &["mv", "runs", "b", "--to", "old", "--yes"]] {
        let why = "trial 0 of `heirs` needs a checkpoint in the directory of run 1 of `runs`";
        assert_refused(&site.run(words), &[why]);
    }
    assert_done(&site.run(&["rm", "heirs", "0", "--yes"]));
    assert_done(&site.run(&["rm", "runs", "b", "live", "--yes"]));
    assert!(!path.exists());
    assert_verified(&site, &["runs", "old", "heirs"]);
}

#[test]
fn a_run_whose_tracker_was_killed_is_removed_and_moved() {
    let site = site();
    site.write(
        "lasts.sh",
        "echo '@hpsearch {\"step\":1,\"loss\":0.5}'\necho >> started\n\
         while :; do sleep 0.05; done\n",
    );
    for (count, name) in [(1, "dead"), (2, "gone")] {
        let mut tracked =
            site.start(&["track", "--study", "runs", "--name", name, "--", "sh", "lasts.sh"]);
        site.wait_for_lines("started", count);
        wait_until("it has reported", || {
            site.json(&["show", "runs", name, "--json"])["trial"]["last_step"] == 1
        });
        tracked.kill();
    }
    let listed = site.run(&["rm", "runs", "dead", "--dry-run"]);
    assert_names(&listed.out, &["run 3 (`dead`): interrupted, "]);
    assert_done(&site.run(&["rm", "runs", "dead", "--yes"]));
    assert_done(&site.run(&["mv", "runs", "gone", "--to", "old", "--yes"]));
    let moved = site.json(&["trials", "old", "--json"])["trials"][0].clone();
    assert_eq!((&moved["state"], &moved["last_value"]), (&json!("paused"), &json!(0.5)));
    assert_verified(&site, &["runs", "old"]);
}

/// A verb is killed at moments all over it. `is_done` says whether the store has changed; `check`
/// looks at what is there.
fn killed_at_many_moments(
    verb: &[&str],
    prepare: impl Fn(&Site, &str),
    is_done: impl Fn(&Site, &str) -> bool,
    check: impl Fn(&Site, &str, bool),
) {
    let site = site();
    let words = |name: &str| -> Vec<String> {
        [verb[0], "runs", name].iter().chain(&verb[1..]).map(|word| (*word).to_owned()).collect()
    };
    let start = |name: &str| {
        let words = words(name);
        site.start(&words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let began = Instant::now();
    track(&site, "runs", "whole", "0.5");
    prepare(&site, "whole");
    assert_done(&start("whole").end());
    let rounds = cases(6, 16);
    let step = began.elapsed() / rounds;
    let (mut undone, mut done, mut pause) = (0, 0, Duration::ZERO);
    for round in 0.. {
        if round >= rounds && undone > 0 && done > 0 {
            break;
        }
        assert!(round < 100, "{undone} undone, {done} done");
        let name = format!("r{round}");
        track(&site, "runs", &name, "0.5");
        prepare(&site, &name);
        let began = Instant::now();
        let mut running = start(&name);
        while began.elapsed() < pause && running.child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let is_over = running.child.try_wait().unwrap().is_some();
        running.kill();
        let has_changed = is_done(&site, &name);
        *(if has_changed { &mut done } else { &mut undone }) += 1;
        check(&site, &name, has_changed);
        pause = if is_over { pause / 3 } else { pause + step };
    }
    assert_eq!(numbers(&site, "runs")[..3], [0, 1, 2]);
    assert_verified(&site, &["runs"]);
}

/// Files enough for a removal to take a while.
fn more_files(site: &Site, name: &str) {
    let number = number_of(site, name);
    for count in 0..300 {
        let path = site.path(&format!("runs/files/runs/trial-{number}/more/{count}"));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("x"), format!("word-{name}")).unwrap();
    }
}

fn number_of(site: &Site, name: &str) -> u64 {
    runs(site, "runs").into_iter().find(|(_, own)| own == name).unwrap().0
}

#[test]
fn a_removal_that_is_killed_leaves_the_run_whole_or_gone() {
    let is_gone = |site: &Site, name: &str| !runs(site, "runs").iter().any(|(_, own)| own == name);
    killed_at_many_moments(&["rm", "--yes"], more_files, is_gone, |site, name, is_gone| {
        assert_verified(site, &["runs"]);
        if is_gone {
            assert_done(&site.run(&["gc", "--yes"]));
        } else {
            assert_names(&site.run(&["logs", "runs", name]).out, &["log word-"]);
            assert_eq!(
                site.json(&["artifacts", "runs", name, "--json"])["artifacts"]
                    .as_array()
                    .unwrap()
                    .len(),
                2
            );
            assert_done(&site.run(&["rm", "runs", name, "--yes"]));
        }
        assert_eq!(holding(site, &format!("word-{name}\"")), Vec::<PathBuf>::new());
        assert_eq!(fs::read_dir(site.path("runs/files/runs")).unwrap().count(), 4, "{name}");
    });
}

#[test]
fn a_move_that_is_killed_leaves_the_run_in_one_of_the_studies() {
    let verb = ["mv", "--to", "old", "--yes"];
    let of_old = |site: &Site| {
        let has_old = site.json(&["ls", "--json"])["studies"].as_array().unwrap().len() > 1;
        if has_old { runs(site, "old") } else { Vec::new() }
    };
    let is_moved = |site: &Site, name: &str| of_old(site).iter().any(|(_, own)| own == name);
    killed_at_many_moments(
        &verb,
        |_, _| (),
        is_moved,
        |site, name, is_moved| {
            let of_runs = runs(site, "runs").iter().any(|(_, own)| own == name);
            assert_ne!(is_moved, of_runs, "{name}");
            assert_done(&site.run(&["gc", "--yes"]));
            let study = if is_moved { "old" } else { "runs" };
            assert_names(&site.run(&["logs", study, name]).out, &["log word-"]);
            let checkpoint = site.json(&["show", study, name, "--json"]).to_string();
            assert!(checkpoint.contains("word-"), "{checkpoint}");
            assert_verified(site, &[study]);
            assert_done(&site.run(&["rm", study, name, "--yes"]));
        },
    );
}

/// The rows of run `a` have moved to `old` and its files have not, as after a crash in between;
/// where they are.
fn half_moved(site: &Site) -> PathBuf {
    let (from, aside) = (site.path("runs/files/runs/trial-0"), site.path("aside"));
    fs::rename(&from, &aside).unwrap();
    assert_done(&site.run(&["mv", "runs", "a", "--to", "old", "--yes"]));
    fs::rename(&aside, &from).unwrap();
    site.database()
        .execute("UPDATE removed_run SET moved_to = (SELECT max(id) FROM trial)", [])
        .unwrap();
    from
}

#[test]
fn files_of_a_move_that_was_broken_off_are_nobodys_to_remove() {
    let site = site();
    let from = half_moved(&site);
    let dry = site.run(&["gc", "--dry-run"]);
    assert!(dry.out.contains("nothing to remove"));
    assert_names(&dry.err, &["the files of 1 run wait to be moved", "`gc --yes`"]);
    assert_names(&site.run(&["doctor"]).out, &["the files of 1 run wait", "hpsearch gc --yes"]);
    assert!(from.exists());
    // Whoever comes next brings them.
    assert_done(&site.run(&["rm", "runs", "--yes"]));
    assert_names(&site.run(&["logs", "old", "a"]).out, &["log word-a"]);
    assert!(!site.exists("runs/files/runs"));
    assert_verified(&site, &["old"]);
}

#[test]
fn a_moved_run_that_is_removed_before_its_files_have_moved_takes_them_along() {
    let site = site();
    let from = half_moved(&site);
    assert_done(&site.run(&["rm", "old", "a", "--yes"]));
    assert!(!from.exists());
    let gc = site.run(&["gc", "--dry-run"]);
    assert!(gc.out.contains("nothing to remove") && !gc.err.contains("wait"), "{}", gc.err);
}

#[test]
fn two_that_remove_and_move_at_once_do_it_once() {
    for words in [&["rm", "runs", "b", "--yes"][..], &["mv", "runs", "b", "--to", "old", "--yes"]] {
        let site = site();
        let started: Vec<_> = (0..4).map(|_| site.start(words)).collect();
        let ended: Vec<_> = started.into_iter().map(|running| running.end()).collect();
        let done = ended.iter().filter(|ended| ended.code == 0).count();
        assert!(done >= 1, "{ended:?}");
        for ended in ended.iter().filter(|ended| ended.code != 0) {
            assert!(
                ended.err.contains("no trial 1") || ended.err.contains("no run `b`"),
                "{}",
                ended.err
            );
        }
        assert_eq!(numbers(&site, "runs"), [0, 2]);
        if words[0] == "mv" {
            assert_eq!(runs(&site, "old"), [(0, "b".to_owned())]);
            assert_names(&site.run(&["logs", "old", "b"]).out, &["log word-b"]);
        }
        assert_verified(&site, &["runs"]);
    }
}

#[test]
fn a_run_of_an_older_store_is_removed() {
    let site = Site::empty();
    fs::create_dir(site.path("runs")).unwrap();
    site.database().execute_batch(include_str!("stores/v8.sql")).unwrap();
    assert_done(&site.run(&["rm", "old", "run-2", "--yes"]));
    assert_eq!(numbers(&site, "old"), [0, 2]);
    assert_done(&site.run(&["mv", "old/run-3", "--to", "new", "--yes"]));
    assert_eq!(runs(&site, "new"), [(0, "run-3".to_owned())]);
    assert_verified(&site, &["old", "new"]);
}

#[test]
fn a_screen_that_is_open_follows() {
    let site = site();
    let mut terminal = OnTerminal::start(&site, &["watch", "runs"]);
    terminal.wait_for_text("word-b");
    assert_done(&site.run(&["rm", "runs", "b", "--yes"]));
    terminal.wait_for(|screen| !screen.contents().contains("word-b"));
    assert_done(&site.run(&["rm", "runs", "a", "c", "--yes"]));
    terminal.wait_for_text("no runs");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn a_runs_name_stands_wherever_a_trial_does() {
    let site = site();
    let words: &[&[&str]] =
        &[&["show"], &["logs"], &["explain"], &["note"], &["tag"], &["artifacts"], &["curves"]];
    for verb in words {
        for address in [&["runs", "b"][..], &["runs/b"], &["b"]] {
            let ended = site.run(&[*verb, address].concat());
            assert_done(&ended);
            let by_number = match verb[0] {
                // Of several studies the title is another.
                "curves" if address == ["runs/b"] => site.run(&["curves", "runs/1"]),
                verb => site.run(&[verb, "runs", "1"]),
            };
            assert_eq!(ended.out, by_number.out, "{verb:?} {address:?}");
        }
    }
    for address in [&["runs", "b"][..], &["runs/b"], &["b"]] {
        assert_done(&site.run(&[&["note"], address, &["-m", "x"]].concat()));
        assert_done(&site.run(&[&["tag"], address, &["+x"]].concat()));
        assert_names(
            &site.run(&[&["kill"], address].concat()).err,
            &["trial 1 is already complete"],
        );
        for verb in ["stop", "pause", "resume", "retry"] {
            let said = site.run(&[&[verb], address].concat());
            assert!(!said.err.contains("no study") && !said.err.contains("no run"), "{said:?}");
        }
    }
    assert_eq!(
        site.json(&["show", "runs", "b", "--json"])["trial"]["notes"].as_array().unwrap().len(),
        4
    );
    for pair in [&["runs", "a", "b"][..], &["runs/a", "runs/b"], &["a", "b"], &["runs/0,1"]] {
        let ended = site.run(&[&["diff"], pair].concat());
        assert_done(&ended);
        assert_names(&ended.out, &["word-a", "word-b"]);
    }
    assert_names(&site.run(&["events", "runs", "--trial", "b"]).out, &["trial 1"]);
    assert_done(&site.run(&["export", "runs", "--trial", "b", "-o", "model"]));
    assert_names(
        &site.run(&["track", "--study", "runs", "--resume", "b", "--", "true"]).err,
        &["run 1"],
    );
    for words in
        [&["show", "runs/d"][..], &["logs", "runs", "d"], &["events", "runs", "--trial", "d"]]
    {
        assert_refused(&site.run(words), &["`runs` has no run `d`"]);
    }
    assert_refused(&site.run(&["show", "nothing/d"]), &["no study `nothing/d`"]);
    assert_refused(&site.run(&["show", "nothing/3"]), &["no study `nothing`"]);
}

/// The spool of a run called `part`.
fn spool(part: &str) -> String {
    format!("runs/spool/20260101-000000-abc.{part}.jsonl")
}

/// Writes a run of one report into its spool, for the store of this name.
fn write_spool(site: &Site, part: &str, store: Option<&str>) {
    fs::create_dir_all(site.path("runs/spool")).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let header = json!({
        "spool": 1, "time": now.as_micros() as u64, "id": "20260101-000000-abc",
        "study": "runs", "name": part, "system": "off", "store": store,
    });
    let lines =
        [header, json!({ "line": { "step": 1, "loss": 0.5 } }), json!({ "finish": "complete" })];
    site.write(&spool(part), lines.map(|line| format!("{line}\n")).concat());
}

#[test]
fn a_spool_that_is_left_is_for_its_own_store() {
    let site = Site::empty();
    let write = |part: &str, store: &str| {
        assert_done(&site.run(&["writer", "--spool", &spool(part), "--store", store]));
    };
    let names = |store: &str| {
        let listed = site.json(&["trials", "runs", "--json", "--store", store]);
        let trials = listed["trials"].as_array().unwrap().iter();
        let mut names: Vec<String> =
            trials.map(|trial| trial["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    write_spool(&site, "first", Some("a.db"));
    write("first", "runs/a.db");
    // Programs that were killed with their writers.
    write_spool(&site, "of a", Some("a.db"));
    write_spool(&site, "of b", Some("b.db"));
    write_spool(&site, "of one that is gone", Some("c.db"));
    write_spool(&site, "second", Some("b.db"));
    write("second", "runs/b.db");
    assert_eq!(names("runs/b.db"), ["of b", "of one that is gone", "second"]);
    assert!(site.exists(&spool("of a")));
    // Another name of the same store.
    std::os::unix::fs::symlink("a.db", site.path("runs/link.db")).unwrap();
    write_spool(&site, "third", Some("link.db"));
    write("third", "runs/link.db");
    assert_eq!(names("runs/a.db"), ["first", "of a", "third"]);
    assert!(!site.exists(&spool("of a")));
}

#[test]
fn a_spool_that_is_left_does_not_bring_a_run_back() {
    let site = Site::empty();
    let write = |part: &str| write_spool(&site, part, None);
    for part in ["first", "second"] {
        write(part);
        assert_done(&site.run(&["writer", "--spool", &spool(part)]));
    }
    // As if their writers had been killed after the last line.
    ["first", "second"].into_iter().for_each(write);
    assert_eq!(runs(&site, "runs").len(), 2);
    // The program of the first one lives: its next writer goes on.
    let held = fs::File::open(site.path(&spool("first"))).unwrap();
    held.lock().unwrap();
    for words in [&["rm", "runs", "first"][..], &["mv", "runs", "first", "--to", "old"]] {
        let refused = site.run(&[words, &["--yes"]].concat());
        assert_code(&refused, 5);
        assert_names(&refused.err, &["run 0 of `runs` is being tracked"]);
    }
    // A process that another test starts at this moment has the file open, too.
    held.unlock().unwrap();
    assert_done(&site.run(&["rm", "runs", "first", "--yes"]));
    assert_done(&site.run(&["mv", "runs", "second", "--to", "old", "--yes"]));
    assert!(!site.exists(&spool("first")) && !site.exists(&spool("second")));
    write("third");
    assert_done(&site.run(&["writer", "--spool", &spool("third")]));
    assert_eq!(runs(&site, "runs"), [(2, "third".to_owned())]);
    assert_eq!(runs(&site, "old"), [(0, "second".to_owned())]);
    assert_verified(&site, &["runs", "old"]);
}

#[test]
fn names_of_any_kind_are_addressed() {
    let site = Site::empty();
    site.write("train.sh", TRAIN);
    let names = [
        "a/b",
        "1-2",
        "3,5",
        "..",
        "x y",
        "\u{5b66}",
        "\u{1b}[31m",
        "'; DROP TABLE trial; --",
        "%",
        "*",
    ];
    for name in names {
        let words =
            ["track", "--study", "runs", "--name", name, "--", "sh", "train.sh", "0.5", "x"];
        assert_done(&site.run(&words));
    }
    for (number, name) in names.iter().enumerate() {
        for address in [&["runs".to_owned(), (*name).to_owned()][..], &[format!("runs/{name}")]] {
            let words: Vec<&str> = address.iter().map(String::as_str).collect();
            let shown = site.run(&[&["show", "--json"], &words[..]].concat());
            assert_done(&shown);
            assert_eq!(shown.json::<Json>()["trial"]["number"], number, "{name:?}");
        }
    }
    for name in names.iter().rev() {
        let moved = site.run(&["mv", &format!("runs/{name}"), "--to", "old", "--yes"]);
        assert_done(&moved);
        assert!(!moved.out.contains('\u{1b}'), "{:?}", moved.out);
        let removed = site.run(&["rm", "old", name, "--yes"]);
        assert_done(&removed);
        assert!(!removed.out.contains('\u{1b}'), "{:?}", removed.out);
    }
    assert_eq!((numbers(&site, "runs"), numbers(&site, "old")), (vec![], vec![]));
    assert_verified(&site, &["runs", "old"]);
}

/// The store cannot be written: nothing has happened, or all of it, and the file is written later.
#[test]
fn a_store_that_cannot_be_written_keeps_the_run_or_has_removed_it() {
    let site = site();
    let (mut refused, mut postponed) = (0, 0);
    for blocks in [0, 32, 128, 224, 320, 416, 512] {
        let name = format!("n{blocks}");
        track(&site, "runs", &name, "0.5");
        let ended = site
            .start_shell(&format!("ulimit -f {blocks}; exec {PROGRAM} rm runs {name} --yes"))
            .end();
        let is_there = runs(&site, "runs").iter().any(|(_, own)| *own == name);
        assert_eq!(is_there, ended.code != 0, "{blocks}: {ended:?}");
        refused += u32::from(is_there);
        postponed += u32::from(ended.err.contains("cannot be rewritten"));
        assert_verified(&site, &["runs"]);
        if !is_there {
            // Whoever opened it meanwhile has done it.
            assert_eq!(holding(&site, &format!("word-{name}")), Vec::<PathBuf>::new());
        }
    }
    assert!(refused > 0 && postponed > 0, "{refused} refused, {postponed} postponed");
}

#[test]
fn a_run_whose_files_are_not_marked_as_the_stores_is_not_moved() {
    let site = site();
    track(&site, "runs", "whole", "0.5");
    let mark = site.path("runs/files/runs/.hpsearch-store");
    let aside = fs::read(&mark).unwrap();
    fs::remove_file(&mark).unwrap();
    let refused = site.run(&["mv", "runs", "whole", "--to", "old", "--yes"]);
    assert_refused(&refused, &["is not moved: its files in", "`.hpsearch-store`"]);
    assert!(runs(&site, "runs").iter().any(|(_, name)| name == "whole"));
    fs::write(&mark, aside).unwrap();
    assert_done(&site.run(&["mv", "runs", "whole", "--to", "old", "--yes"]));
    assert_names(&site.run(&["logs", "old", "whole"]).out, &["log "]);
}

#[test]
fn a_checkpoint_that_another_run_lists_through_a_link_keeps_its_run() {
    let site = site();
    track(&site, "runs", "holder", "0.5");
    let number = number_of(&site, "holder");
    std::os::unix::fs::symlink(site.path("runs/files"), site.path("link")).unwrap();
    let saved = site.path(&format!("runs/files/runs/trial-{number}/checkpoints/step-9"));
    fs::create_dir_all(saved.parent().unwrap()).unwrap();
    fs::write(&saved, "weights").unwrap();
    let through = site.path(&format!("link/runs/trial-{number}/checkpoints/step-9"));
    let line = format!("@hpsearch {{\"checkpoint\":\"{}\",\"step\":9}}", through.display());
    let words = ["track", "--study", "runs", "--name", "user", "--", "echo", line.as_str()];
    assert_done(&site.run(&words));
    assert_refused(
        &site.run(&["mv", "runs", "holder", "--to", "old", "--yes"]),
        &["needs a checkpoint in"],
    );
}
