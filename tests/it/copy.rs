//! `hpsearch copy`: studies in another store are the same, and nothing is left of a failed copy.

use crate::harness::{ONE_SLOT, REPORT_X, Site, assert_done, assert_names, assert_refused, study};

/// Logs a series that the study's decisions do not use, and reports.
const LOGS: &str = "for step in 1 2 3; do
    echo \"@hpsearch {\\\"step\\\":$step,\\\"speed\\\":$step,\\\"wrong\\\":NaN}\"
done
echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1}\"
";

fn table(site: &Site, store: &str, name: &str) -> Vec<String> {
    ["jsonl", "--series"]
        .map(|form| {
            let mut words = vec!["--store", store, "export-data", name, "--format", "jsonl"];
            words.extend((form == "--series").then_some(form));
            let ended = site.run(&words);
            assert_done(&ended);
            ended.out
        })
        .into()
}

#[test]
fn a_copied_study_has_the_same_tables_and_decisions_and_continues() {
    let site = Site::new(&study("trials = 4", ONE_SLOT), LOGS);
    assert_done(&site.run_study());
    assert_done(&site.run(&["note", "s", "0", "-m", "a note"]));
    assert_done(&site.run(&["extend", "s", "--trials", "2"]));
    assert_done(&site.run_study());
    let track = ["track", "--study", "runs", "--name", "first", "--", "sh", "trial.sh", "0.5"];
    assert_done(&site.run(&track));
    assert_done(&site.run(&["extend", "s", "--trials", "1"]));
    let copied = site.run(&["copy", "s", "runs", "--to", "other.db"]);
    assert_done(&copied);
    assert_names(&site.run(&["ls"]).out, &["6/7"]);
    assert_names(&site.run(&["--store", "other.db", "ls"]).out, &["6/7"]);
    assert_names(&copied.err, &["`s` is now in", "6 trials", "`runs` is now in", "1 trial"]);
    for name in ["s", "runs"] {
        assert_eq!(table(&site, "runs/hpsearch.db", name), table(&site, "other.db", name));
        assert_done(&site.run(&["--store", "other.db", "verify", name]));
    }
    assert_names(&site.run(&["--store", "other.db", "show", "s", "0"]).out, &["a note"]);
    let more = site.run(&["--store", "other.db", "extend", "s", "--trials", "1"]);
    assert_done(&more);
    assert_done(&site.run(&["--store", "other.db", "run", "study.toml", "--plain"]));
    assert_names(&site.run(&["--store", "other.db", "ls"]).out, &["8/8"]);
    assert_names(&site.run(&["ls"]).out, &["6/7"]);
}

#[test]
fn a_study_with_a_trial_whose_value_is_nan_is_copied() {
    let script = "echo '@hpsearch {\"step\":1,\"loss\":NaN}'\n";
    let site = Site::new(&study("trials = 2", ONE_SLOT), script);
    site.run_study();
    assert_done(&site.run(&["copy", "s", "--to", "other.db"]));
    assert_eq!(table(&site, "runs/hpsearch.db", "s"), table(&site, "other.db", "s"));
}

#[test]
fn a_study_that_is_there_unchanged_or_lacks_runs_is_not_copied() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    assert_done(&site.run(&["copy", "s", "--to", "other.db"]));
    let again = site.run(&["copy", "s", "--to", "other.db"]);
    assert_done(&again);
    assert_names(&again.err, &["`s` is in `other.db` already", "2 trials", "nothing is copied"]);
    assert_refused(&site.run(&["copy", "none", "--to", "other.db"]), &["none"]);
    assert_refused(&site.run(&["copy", "none", "--to", "new.db"]), &["none"]);
    for value in ["1", "2"] {
        let track = ["track", "--study", "runs", "--", "sh", "trial.sh", value];
        assert_done(&site.run(&track));
    }
    let removed = site.run(&["rm", "runs", "0", "--yes"]);
    assert_done(&removed);
    assert_names(&removed.err, &["`hpsearch copy` refuses", "hpsearch mv runs RUN.. --to NEW"]);
    let refused = site.run(&["copy", "runs", "--to", "other.db"]);
    assert_names(&refused.err, &["runs of `runs` were removed", "hpsearch mv"]);
    assert!(refused.code != 0 && !site.run(&["--store", "other.db", "ls"]).out.contains("runs"));
    assert!(site.run(&["copy", "runs", "--to", "new.db"]).code != 0);
    assert!(!site.exists("new.db"), "a refused copy makes no store");
}

#[test]
fn a_study_whose_name_is_taken_there_is_refused_and_the_others_are_copied() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), LOGS);
    for name in ["a", "b", "c", "d"] {
        let text = study("trials = 2", ONE_SLOT).replace("\"s\"", &format!("\"{name}\""));
        site.write(&format!("{name}.toml"), text);
        assert_done(&site.run(&["run", &format!("{name}.toml"), "--plain"]));
    }
    let other = |words: &[&str]| site.run(&[&["--store", "other.db"], words].concat());
    assert_done(&other(&["run", "a.toml", "--plain"]));
    assert_done(&site.run(&["copy", "b", "c", "--to", "other.db"]));
    assert_done(&other(&["note", "b", "-m", "of the copy"]));
    let before = ["a", "b"].map(|name| table(&site, "other.db", name));
    // It goes on here, and its copy does not.
    assert_done(&site.run(&["extend", "c", "--trials", "1"]));
    assert_done(&site.run(&["run", "c.toml", "--plain"]));
    let copied = site.run(&["copy", "a", "b", "c", "d", "--to", "other.db"]);
    assert_eq!(copied.code, 2, "{}", copied.err);
    assert_names(
        &copied.err,
        &[
            "`other.db` has another study called `a`",
            "`hpsearch mv a NEW-NAME --store other.db` renames that one",
            "`other.db` has a copy that has continued by itself of `b`",
            "`c` is brought up to date in `other.db`: 3 trials",
            "`d` is now in `other.db`, too: 2 trials",
            "2 of 4 studies could not be copied",
        ],
    );
    assert_eq!(["a", "b"].map(|name| table(&site, "other.db", name)), before);
    assert_names(&other(&["show", "b"]).out, &["of the copy"]);
    for name in ["c", "d"] {
        assert_eq!(table(&site, "runs/hpsearch.db", name), table(&site, "other.db", name));
        assert_done(&other(&["verify", name]));
    }
    assert_done(&other(&["mv", "a", "own-a"]));
    let again = site.run(&["copy", "a", "c", "--to", "other.db"]);
    assert_done(&again);
    assert_names(&again.err, &["`a` is now in `other.db`, too", "`c` is in `other.db` already"]);
    let names = other(&["ls"]).out;
    assert_names(&names, &["a ", "own-a", "b ", "c ", "d "]);
    assert!(!names.contains(".copy-of-"), "{names}");
}

#[test]
fn a_store_in_postgresql_is_refused_by_a_binary_without_it_and_its_password_is_not_shown() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), REPORT_X);
    // Nothing listens there: a binary with PostgreSQL cannot reach it.
    let ended = site.run(&["--store", "postgres://u:hunter2@127.0.0.1:1/d", "ls"]);
    assert!(ended.code != 0, "{}", ended.err);
    assert_names(&ended.err, &["postgres://u@127.0.0.1:1/d", "help:"]);
    assert!(!ended.err.contains("hunter2"), "{}", ended.err);
}

#[test]
fn a_copy_that_was_killed_is_no_study_and_the_next_one_replaces_it() {
    let site = Site::new(&study("trials = 4", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    assert_done(&site.run(&["copy", "s", "--to", "other.db"]));
    // As if it had been killed before its last transaction.
    let other = rusqlite::Connection::open(site.path("other.db")).unwrap();
    let sql = "UPDATE study SET name = '.copy-of-s', spec = json_set(spec, '$.name', '.copy-of-s')";
    other.execute(sql, []).unwrap();
    drop(other);
    let doctor = site.run(&["--store", "other.db", "doctor"]);
    assert_names(
        &doctor.out,
        &["not finished", "hpsearch copy s", "`hpsearch rm .copy-of-s --yes"],
    );
    assert_done(&site.run(&["copy", "s", "--to", "other.db"]));
    let listed = site.run(&["--store", "other.db", "ls"]);
    assert!(listed.out.contains("4/4") && !listed.out.contains(".copy-of-"), "{}", listed.out);
    assert_eq!(table(&site, "runs/hpsearch.db", "s"), table(&site, "other.db", "s"));
    assert_done(&site.run(&["--store", "other.db", "verify", "s"]));
}
