//! Studies are removed, renamed and archived: nothing of others goes with them, and whatever is
//! killed meanwhile, a study is whole or gone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value as Json, json};

use crate::harness::{
    KEEP_ALL, ONE_SLOT, OnTerminal, REPORT_X, Site, assert_code, assert_done, assert_names,
    assert_refused, cases, held, paths_below, study, wait_until,
};

/// A script that saves a checkpoint before it reports.
const SAVES: &str = "echo weights > $HPSEARCH_CHECKPOINT_DIR/step-1\n\
    echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/step-1\\\",\
    \\\"step\\\":1}\"\n";

fn text_of(name: &str) -> String {
    study("trials = 2", &format!("{ONE_SLOT}{KEEP_ALL}"))
        .replace("name = \"s\"", &format!("name = \"{name}\""))
}

/// Finished studies of these names, with checkpoints.
fn site_with(names: &[&str]) -> Site {
    let site = Site::new(&text_of("s"), &format!("{SAVES}{REPORT_X}"));
    for name in names {
        let file = format!("{name}.toml");
        site.write(&file, text_of(name));
        assert_done(&site.run(&["run", &file, "--plain", "-q"]));
    }
    site
}

fn names(site: &Site) -> Vec<String> {
    let listed: Json = site.json(&["ls", "--json"]);
    let studies = listed["studies"].as_array().unwrap().iter();
    studies.map(|study| study["name"].as_str().unwrap().to_owned()).collect()
}

/// How many rows the store has of anything but the tables that outlive a study.
fn rows(site: &Site) -> Vec<(String, i64)> {
    let connection = Connection::open(site.path("runs/hpsearch.db")).unwrap();
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let tables: Vec<String> = connection
        .prepare(sql)
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let count = |table: &String| {
        let sql = format!("SELECT count(*) FROM \"{table}\"");
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    let kept = ["store", "metric", "removed_study"];
    let tables = tables.into_iter().filter(|table| !kept.contains(&table.as_str()));
    tables.map(|table| (table.clone(), count(&table))).filter(|(_, rows)| *rows > 0).collect()
}

#[test]
fn a_number_that_is_also_a_study_is_not_guessed_at() {
    let site = site_with(&["a", "1"]);
    let refused = site.run(&["rm", "a", "1", "--yes"]);
    assert_refused(&refused, &["`1` is a study, and a trial or run of `a`", "`a/1`"]);
    assert_eq!(names(&site).len(), 2);
    assert_done(&site.run(&["rm", "a/1", "--yes"]));
    assert_eq!(names(&site).len(), 2, "the trial");
    assert_done(&site.run(&["rm", "1", "--yes"]));
    assert_eq!(names(&site), ["a"]);
}

#[test]
fn a_removed_study_leaves_neither_rows_nor_files() {
    let site = site_with(&["a", "b"]);
    assert_done(&site.run(&["note", "a", "0", "-m", "odd"]));
    assert_done(&site.run(&["tag", "a", "+kept"]));
    let of_b: Vec<PathBuf> = paths_below(&site.path("runs/files/b"));
    let ended = site.run(&["rm", "a", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.out, &["removed study a: 2 trials, 2 checkpoints"]);
    assert_eq!(names(&site), ["b"]);
    assert!(!site.exists("runs/files/a") && !site.exists("runs/hpsearch.db.run-1"));
    assert_eq!(paths_below(&site.path("runs/files/b")), of_b);
    assert_done(&site.run(&["verify", "b"]));
    assert_done(&site.run(&["doctor"]));
    assert!(site.run(&["gc", "--dry-run"]).out.contains("nothing to remove"));
    assert_done(&site.run(&["rm", "b", "--yes"]));
    assert_eq!(rows(&site), []);
}

#[test]
fn a_study_of_the_same_name_begins_anew_under_another_key() {
    let site = site_with(&["a", "b"]);
    assert_done(&site.run(&["rm", "b", "--yes"]));
    assert_done(&site.run(&["run", "b.toml", "--plain", "-q"]));
    assert!(site.exists("runs/files/b/trial-1/checkpoints/step-1"));
    let connection = Connection::open(site.path("runs/hpsearch.db")).unwrap();
    let id: i64 = connection
        .query_row("SELECT id FROM study WHERE name = 'b'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(id, 3, "whoever still knows study 2 must not find this one");
}

#[test]
fn nothing_is_removed_unasked() {
    let site = site_with(&["a"]);
    let before = paths_below(&site.path("runs/files"));
    let listed = site.run(&["rm", "a", "--dry-run"]);
    assert_done(&listed);
    assert_names(&listed.out, &["study a: 2 trials, 2 checkpoints, ", "runs/files/a"]);
    let refused = site.run(&["rm", "a"]);
    assert_refused(&refused, &["cannot be confirmed", "--yes"]);
    let told: Json = site.json(&["rm", "a", "--json"]);
    assert_eq!(
        (&told["version"], &told["removed"], &told["studies"][0]["study"]),
        (&json!(1), &json!(false), &json!("a"))
    );
    assert_eq!(told["studies"][0]["trials"], 2);
    assert_eq!(told["studies"][0]["checkpoints"], 2);
    assert_refused(&site.run(&["rm"]), &["STUDY"]);
    assert_refused(&site.run(&["rm", "c", "--yes"]), &["there is no study `c`"]);
    assert_refused(&site.run(&["rm", "a", "c", "--yes"]), &["there is no study `c`"]);
    assert_eq!(paths_below(&site.path("runs/files")), before);
    assert_eq!(names(&site), ["a"]);
}

#[test]
fn a_person_is_asked_and_may_say_no() {
    let site = site_with(&["a"]);
    for (answer, is_left) in [("n\r", true), ("\r", true), ("y\r", false)] {
        let mut terminal = OnTerminal::start(&site, &["rm", "a"]);
        terminal.wait_for_text("Remove study a: 2 trials, 2 checkpoints");
        terminal.press(answer);
        assert_eq!(terminal.leave(), 0);
        assert_eq!(site.exists("runs/files/a"), is_left, "{answer:?}");
    }
    assert!(names(&site).is_empty());
}

#[test]
fn a_running_study_is_neither_removed_nor_renamed() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &held(REPORT_X));
    let run = site.start_study();
    site.wait_for("started");
    for arguments in [&["rm", "s", "--yes"][..], &["mv", "s", "t"]] {
        let refused = site.run(arguments);
        assert_code(&refused, 5);
        assert_names(&refused.err, &["hpsearch stop s"]);
    }
    site.write("go", "");
    assert_done(&run.end());
    assert_eq!((names(&site), site.trials().len()), (vec!["s".to_owned()], 1));
}

#[test]
fn files_elsewhere_go_too_and_what_a_command_saved_elsewhere_stays() {
    let script = "mkdir -p mine; echo w > mine/$HPSEARCH_TRIAL.pt\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"mine/$HPSEARCH_TRIAL.pt\\\",\\\"step\\\":1}\"\n";
    let text =
        study("trials = 2", &format!("{ONE_SLOT}[checkpoints]\nkeep = \"all\"\ndir = \"big\"\n"));
    let site = Site::new(&text, &format!("{script}{REPORT_X}"));
    assert_done(&site.run_study());
    assert!(site.exists("big/s/trial-1"));
    assert_done(&site.run(&["rm", "s", "--yes"]));
    assert!(!site.exists("big/s") && site.exists("mine/0.pt") && site.exists("big"));
}

/// A project with a directory of files of its own, as it was moved or copied after its run.
fn project_elsewhere(verb: &[&str]) -> Site {
    let text =
        study("trials = 2", &format!("{ONE_SLOT}[checkpoints]\nkeep = \"all\"\ndir = \"big\"\n"));
    let site = Site::new("", "");
    fs::create_dir(site.path("before")).unwrap();
    site.write("before/study.toml", text);
    site.write("before/trial.sh", format!("#!/bin/sh\n{SAVES}{REPORT_X}"));
    let script = site.path("before/trial.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (store, file) = ("before/runs/hpsearch.db", "before/study.toml");
    assert_done(&site.run(&["--store", store, "run", file, "--plain"]));
    assert!(site.exists("before/big/s/trial-1/checkpoints/step-1"));
    let [program, options @ ..] = verb else { panic!() };
    assert_done(&site.start_program(program, &[options, &["before", "after"][..]].concat()).end());
    site
}

#[test]
fn files_of_a_project_that_was_moved_go_from_where_they_are_now() {
    let site = project_elsewhere(&["mv"]);
    // What another store put there is not touched.
    fs::create_dir_all(site.path("after/big/t/trial-0")).unwrap();
    let ended = site.run(&["--store", "after/runs/hpsearch.db", "rm", "s", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.out, &["after/big/s"]);
    assert!(!site.exists("after/big/s") && site.exists("after/big/t/trial-0"));
}

#[test]
fn files_that_rm_does_not_find_or_may_not_remove_are_named_with_the_reason() {
    // A copy: both directories are the original's.
    let site = project_elsewhere(&["cp", "-r"]);
    let ended = site.run(&["--store", "after/runs/hpsearch.db", "rm", "s", "--yes"]);
    assert_done(&ended);
    let of_original = "has the marker of the store `before/runs/hpsearch.db`, and is kept";
    assert_names(&ended.err, &["`before/big/s`", "`after/big/s`", of_original]);
    for project in ["before", "after"] {
        assert!(site.exists(&format!("{project}/big/s/trial-1/checkpoints/step-1")));
    }
    let site = project_elsewhere(&["mv"]);
    fs::rename(site.path("after/big"), site.path("elsewhere")).unwrap();
    let ended = site.run(&["--store", "after/runs/hpsearch.db", "rm", "s", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.err, &["its files were in `before/big/s`, which does not exist"]);
    assert!(site.exists("elsewhere/s/trial-1"));
}

/// The removal is killed at moments all over it; then the study is whole or gone, and what is left
/// of its files is found.
#[test]
fn a_removal_that_is_killed_leaves_the_study_whole_or_gone() {
    let (mut whole, mut gone) = (0, 0);
    let site = site_with(&["keep"]);
    let kept = paths_below(&site.path("runs/files/keep"));
    let mut pause = Duration::ZERO;
    let longer = cases(Duration::from_millis(12), Duration::from_millis(4));
    let rounds = cases(8, 24);
    for round in 0.. {
        if round >= rounds && whole > 0 && gone > 0 {
            break;
        }
        assert!(round < 100, "{whole} whole, {gone} gone");
        let name = format!("r{round}");
        let file = format!("{name}.toml");
        site.write(&file, text_of(&name));
        assert_done(&site.run(&["run", &file, "--plain", "-q"]));
        // Files enough for a removal to take a while.
        for number in 0..400 {
            let path = site.path(&format!("runs/files/{name}/trial-0/more/{number}"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("x"), "x").unwrap();
        }
        let began = Instant::now();
        let mut removal = site.start(&["rm", &name, "--yes"]);
        while began.elapsed() < pause && removal.child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let is_over = removal.child.try_wait().unwrap().is_some();
        removal.child.kill().unwrap();
        removal.child.wait().unwrap();
        if names(&site).contains(&name) {
            whole += 1;
            assert_done(&site.run(&["verify", &name]));
            assert!(site.exists(&format!("runs/files/{name}/trial-1/checkpoints/step-1")));
            assert_done(&site.run(&["rm", &name, "--yes"]));
        } else {
            gone += 1;
            assert_done(&site.run(&["gc", "--yes"]));
        }
        let left: Vec<_> = paths_below(&site.path("runs/files"))
            .into_iter()
            .filter(|path| !path.starts_with(site.path("runs/files/keep")))
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "round {round}");
        let connection = Connection::open(site.path("runs/hpsearch.db")).unwrap();
        let sql = "SELECT count(*) FROM removed_study WHERE files IS NOT NULL";
        let open: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(open, 0, "round {round}");
        // On a busy machine a removal may take long.
        pause = if is_over { pause / 3 } else { pause * 3 / 2 + longer };
    }
    assert_eq!(paths_below(&site.path("runs/files/keep")), kept);
    assert_done(&site.run(&["verify", "keep"]));
}

/// The rows are gone and the files are not, as after a crash in between.
fn half_removed(site: &Site) {
    let files = site.path("runs/files/a");
    let aside = site.path("aside");
    fs::rename(&files, &aside).unwrap();
    assert_done(&site.run(&["rm", "a", "--yes"]));
    fs::rename(&aside, &files).unwrap();
    let connection = Connection::open(site.path("runs/hpsearch.db")).unwrap();
    let list = json!([files]).to_string();
    connection.execute("UPDATE removed_study SET files = ?1", [list]).unwrap();
}

#[test]
fn a_new_study_never_takes_over_the_files_of_a_removed_one() {
    let site = site_with(&["a"]);
    half_removed(&site);
    site.write(
        "trial.sh",
        "test ! -e $HPSEARCH_CHECKPOINT_DIR/step-1 || exit 9\n".to_owned() + REPORT_X,
    );
    let ended = site.run(&["run", "a.toml", "--plain"]);
    assert_done(&ended);
    assert_names(&ended.err, &["files of the study `a`, which was removed", "`hpsearch gc`"]);
    assert!(site.exists("runs/files/a/trial-0/checkpoints/step-1"), "left as it was");
    let listed: Json = site.json(&["gc", "--dry-run", "--json"]);
    assert_eq!(listed["files"][0]["kind"], "removed_study");
    assert_eq!(listed["files"].as_array().unwrap().len(), 1);
    assert_done(&site.run(&["gc", "--yes"]));
    assert!(!site.exists("runs/files/a"));
    assert_done(&site.run(&["verify", "a"]));
    let logs = site.run(&["logs", "a", "0"]);
    assert_done(&logs);
}

#[test]
fn the_next_removal_clears_up_after_a_broken_one() {
    let site = site_with(&["a", "b"]);
    half_removed(&site);
    assert_done(&site.run(&["rm", "b", "--yes"]));
    assert_eq!(paths_below(&site.path("runs/files")), Vec::<PathBuf>::new());
}

#[test]
fn a_removal_that_was_killed_after_its_last_file_is_finished_by_gc() {
    let site = site_with(&["a"]);
    half_removed(&site);
    fs::remove_dir_all(site.path("runs/files/a")).unwrap();
    let is_open =
        || site.query::<i64>("SELECT count(*) FROM removed_study WHERE files IS NOT NULL");
    assert_done(&site.run(&["gc", "--dry-run"]));
    assert_eq!(is_open(), 1);
    assert_done(&site.run(&["gc", "--yes"]));
    assert_eq!(is_open(), 0);
    assert_done(&site.run(&["run", "a.toml", "--plain", "-q"]));
    assert!(site.exists("runs/files/a/trial-0"), "the name of its directory is free again");
}

#[test]
fn beside_a_copy_of_the_store_files_are_left_and_said_to_be() {
    let site = site_with(&["a"]);
    fs::copy(site.path("runs/hpsearch.db"), site.path("runs/copy.db")).unwrap();
    let ended = site.run(&["rm", "a", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.err, &["runs/files/a", "copy of the store"]);
    assert!(site.exists("runs/files/a/trial-0/checkpoints/step-1"));
    fs::remove_file(site.path("runs/copy.db")).unwrap();
    assert_done(&site.run(&["gc", "--yes"]));
    assert!(!site.exists("runs/files/a"));
}

#[test]
fn a_renamed_study_continues_under_its_new_name_with_its_files() {
    let site = site_with(&["a"]);
    let ended = site.run(&["mv", "a", "b"]);
    assert_done(&ended);
    assert_names(&ended.err, &["name = \"b\"", "[study]"]);
    assert_eq!(names(&site), ["b"]);
    assert_done(&site.run(&["verify", "b"]));
    site.write("b.toml", text_of("b").replace("trials = 2", "trials = 3"));
    assert_done(&site.run(&["run", "b.toml", "--plain", "-q"]));
    let trials: Json = site.json(&["trials", "b", "--json"]);
    assert_eq!(trials["trials"].as_array().unwrap().len(), 3);
    assert!(site.exists("runs/files/a/trial-2") && !site.exists("runs/files/b"));
    assert_done(&site.run(&["verify", "b"]));
    // The old name is free, and its files are not.
    assert_done(&site.run(&["run", "a.toml", "--plain", "-q"]));
    assert_eq!(names(&site), ["a", "b"]);
    let directories = fs::read_dir(site.path("runs/files")).unwrap().count();
    assert_eq!(directories, 2);
    assert!(site.run(&["gc", "--dry-run"]).out.contains("nothing to remove"));
    assert_done(&site.run(&["rm", "a", "--yes"]));
    assert!(site.exists("runs/files/a/trial-2/checkpoints/step-1"), "those of `b`");
    assert_done(&site.run(&["rm", "b", "--yes"]));
    assert_eq!(paths_below(&site.path("runs/files")), Vec::<PathBuf>::new());
}

#[test]
fn names_that_no_study_can_have_are_refused() {
    let site = site_with(&["a", "b"]);
    let long = "x".repeat(101);
    for name in ["", "-x", "../up", "a/b", " ", ".hidden", "\u{1b}[2J", long.as_str()] {
        let refused = site.run(&["mv", "a", "--", name]);
        assert_refused(&refused, &["cannot be a study's name"]);
        assert!(!refused.err.contains('\u{1b}'), "{:?}", refused.err);
    }
    assert_refused(&site.run(&["mv", "a", "-x"]), &["-x"]);
    assert_refused(&site.run(&["mv", "a", "b"]), &["already exists"]);
    assert_refused(&site.run(&["mv", "a", "a"]), &["already"]);
    assert_refused(&site.run(&["mv", "a"]), &["new name"]);
    assert_refused(&site.run(&["mv", "a", "b", "c"]), &["new name"]);
    assert_refused(&site.run(&["mv", "c", "d"]), &["there is no study `c`"]);
    assert_eq!(names(&site), ["a", "b"]);
}

#[test]
fn archived_studies_are_left_out_of_lists_until_they_are_taken_out_again() {
    let site = site_with(&["a", "b"]);
    assert_done(&site.run(&["mv", "--archive", "a"]));
    let listed = site.run(&["ls"]);
    assert_done(&listed);
    assert!(!listed.out.contains("\na ") && listed.err.contains("1 archived study"), "{listed:?}");
    assert_eq!(names(&site), ["b"]);
    let all: Json = site.json(&["ls", "--all", "--json"]);
    assert_eq!(
        (&all["studies"][0]["name"], &all["studies"][0]["archived"]),
        (&json!("a"), &json!(true))
    );
    assert_eq!(all["studies"][1].get("archived"), None);
    // It is a study like any other for whoever names it.
    assert_done(&site.run(&["verify", "a"]));
    assert_done(&site.run(&["trials", "a"]));
    assert_done(&site.run(&["mv", "--unarchive", "a"]));
    assert_eq!(names(&site), ["a", "b"]);
    wait_until("it is not archived", || site.run(&["ls"]).err.is_empty());
}

#[test]
fn a_trial_of_a_search_is_hidden_and_its_journal_stays_whole() {
    let site = site_with(&["a"]);
    let before: Json = site.json(&["best", "a", "--json"]);
    let best = before["trial"]["number"].as_u64().unwrap();
    let other = 1 - best;
    let best_word = best.to_string();
    assert_refused(&site.run(&["rm", "a", &best_word]), &["cannot be confirmed", "--yes"]);
    assert_refused(&site.run(&["rm", "a", "7", "--yes"]), &["no trial 7"]);
    let listed = site.run(&["rm", "a", &best_word, "--dry-run"]);
    assert_done(&listed);
    assert_names(&listed.out, &[&format!("trial {best}: complete, 1 checkpoint, ")]);
    assert!(site.exists(&format!("runs/files/a/trial-{best}/checkpoints/step-1")));
    let ended = site.run(&["rm", "a", &best_word, "--yes"]);
    assert_done(&ended);
    assert!(!site.exists(&format!("runs/files/a/trial-{best}")));
    assert!(site.exists(&format!("runs/files/a/trial-{other}/checkpoints/step-1")));
    assert_done(&site.run(&["verify", "a"]));
    assert_eq!(site.json(&["best", "a", "--json"])["trial"]["number"], other);
    assert_eq!(site.json(&["ls", "--json"])["studies"][0]["best"]["number"], other);
    let numbers = |arguments: &[&str]| -> Vec<u64> {
        let told: Json = site.json(arguments);
        let trials = told["trials"].as_array().unwrap().iter();
        trials.map(|trial| trial["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&["trials", "a", "--json"]), [other]);
    assert_eq!(numbers(&["trials", "--all", "--json"]), [other]);
    let curves: Json = site.json(&["curves", "a", "--json"]);
    let curves = curves["series"].as_array().unwrap().iter();
    assert_eq!(curves.map(|series| series["trial"].clone()).collect::<Vec<_>>(), [other]);
    assert_eq!(numbers(&["trials", "a", "--hidden", "--sort", "number", "--json"]), [0, 1]);
    assert_eq!(site.run(&["export-data", "a"]).out.lines().count(), 2);
    assert_eq!(site.run(&["export-data", "a", "--hidden"]).out.lines().count(), 3);
    let again = site.run(&["rm", "a", &best_word, "--yes"]);
    assert_done(&again);
    assert_names(&again.err, &["hidden already"]);
    let again: Json = site.json(&["rm", "a", &best_word, "--json"]);
    assert_eq!((&again["study"], &again["trials"]), (&json!("a"), &json!([])));
    assert!(site.run(&["gc", "--dry-run"]).out.contains("nothing to remove"));
    // The search continues as if nothing had been hidden.
    site.write("a.toml", text_of("a").replace("trials = 2", "trials = 3"));
    assert_done(&site.run(&["run", "a.toml", "--plain", "-q"]));
    assert_done(&site.run(&["verify", "a"]));
    assert_eq!(numbers(&["trials", "a", "--sort", "number", "--json"]), [other, 2]);
}

#[test]
fn a_study_whose_complete_trials_are_all_hidden_says_so() {
    let budget = |trials: u64| format!("trials = {trials}\ncount = \"all\"");
    let site = Site::finished(&budget(1));
    assert_done(&site.run(&["rm", "s", "0", "--yes"]));
    let none = "complete yet, apart from 1 hidden one";
    let best = site.run(&["best", "s"]);
    assert_code(&best, 3);
    assert_names(&best.err, &["no trial of `s` is", none]);
    assert_names(&site.run(&["show", "s"]).out, &["has no value (NaN), or is hidden"]);
    site.write("study.toml", study(&budget(2), ONE_SLOT));
    site.write("trial.sh", "exit 1\n");
    let ended = site.run_study();
    assert_names(&(ended.out + &ended.err), &["no trial completed, apart from 1 hidden one"]);
}

#[test]
fn a_trial_is_hidden_while_its_study_runs_unless_it_is_not_over() {
    let script = format!("[ $HPSEARCH_TRIAL = 0 ] || {{ {} }}\n{REPORT_X}", held("").trim_end());
    let site = Site::new(&text_of("s"), &format!("{SAVES}{script}"));
    let run = site.start_study();
    site.wait_for("started");
    assert_refused(&site.run(&["rm", "s", "1", "--yes"]), &["trial 1 is running", "hpsearch kill"]);
    assert_done(&site.run(&["rm", "s", "0", "--yes"]));
    assert!(!site.exists("runs/files/s/trial-0") && site.exists("runs/files/s/trial-1"));
    site.write("go", "");
    assert_done(&run.end());
    assert_eq!(site.json(&["best", "s", "--json"])["trial"]["number"], 1);
    assert_done(&site.run(&["verify", "s"]));
}
