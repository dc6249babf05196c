//! What `rm` takes along of a study's directory, and what it leaves there and names.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::harness::{KEEP_ALL, ONE_SLOT, REPORT_X, Site, assert_done, assert_names, study};

/// A script that saves a checkpoint before it reports.
const SAVES: &str = "echo weights > $HPSEARCH_CHECKPOINT_DIR/step-1\n\
    echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/step-1\\\",\
    \\\"step\\\":1}\"\n";

fn text_of(name: &str, directory: &str) -> String {
    let directory = match directory {
        "" => String::new(),
        directory => format!("dir = \"{directory}\"\n"),
    };
    study("trials = 2", &format!("{ONE_SLOT}{KEEP_ALL}{directory}"))
        .replace("name = \"s\"", &format!("name = \"{name}\""))
}

/// A finished study `s` with checkpoints.
fn site() -> Site {
    let site = Site::new(&text_of("s", ""), &format!("{SAVES}{REPORT_X}"));
    assert_done(&site.run_study());
    site
}

/// Runs the study of a project in a directory of the site.
fn run_project(site: &Site, project: &str, directory: &str) {
    fs::create_dir_all(site.path(project)).unwrap();
    site.write(&format!("{project}/study.toml"), text_of("s", directory));
    fs::copy(site.path("trial.sh"), site.path(&format!("{project}/trial.sh"))).unwrap();
    let (store, file) = (store_of(project), format!("{project}/study.toml"));
    assert_done(&site.run(&["--store", &store, "run", &file, "--plain"]));
}

fn store_of(project: &str) -> String {
    format!("{project}/runs/hpsearch.db")
}

fn plant(path: &Path) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "mine").unwrap();
    path.to_owned()
}

const CHECKPOINT: &str = "trial-1/checkpoints/step-1";

#[test]
fn what_hpsearch_did_not_write_in_a_studys_directory_stays_and_is_named() {
    let site = site();
    let files = site.path("runs/files/s");
    let mine: Vec<PathBuf> = ["notes.txt", "mine/deep.txt", "r.html", "trial-78/notes.txt"]
        .iter()
        .map(|name| plant(&files.join(name)))
        .collect();
    let backup = files.join("backup.db");
    fs::copy(site.path("runs/hpsearch.db"), &backup).unwrap();
    plant(&files.join("trial-0/mine/of-the-trial"));
    let words = ["notes.txt", "mine", "r.html", "trial-78", "backup.db"]
        .map(|name| format!("`runs/files/s/{name}` is kept: hpsearch did not write it"));
    let listed = site.run(&["rm", "s", "--dry-run"]);
    assert_names(&listed.err, &words.each_ref().map(String::as_str));
    let ended = site.run(&["rm", "s", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.err, &words.each_ref().map(String::as_str));
    assert!(mine.iter().all(|path| path.exists()) && backup.exists());
    assert_eq!(fs::read_dir(&files).unwrap().count(), 5, "nothing of the study");
    assert_eq!(site.query::<i64>("SELECT count(*) FROM removed_study WHERE files IS NOT NULL"), 0);
    // What is left is nobody's.
    assert_done(&site.run_study());
    assert!(!files.join("trial-0").exists());
}

/// Runs a second study, whose first trial lists a checkpoint at `path`.
fn list_in_another_study(site: &Site, path: &Path) {
    site.write("other.toml", text_of("t", ""));
    assert_done(&site.run(&["run", "other.toml", "--plain"]));
    let sql = "UPDATE checkpoint SET path = ?1 WHERE trial_id = 2000000000";
    let changed = site.database().execute(sql, [path.display().to_string()]).unwrap();
    assert_eq!(changed, 1);
}

#[test]
fn each_directory_that_is_left_is_named_with_its_reason_and_what_to_do() {
    let cases: [(Change, &str, &str); 4] = [
        (
            |site| {
                fs::copy(site.path("runs/hpsearch.db"), site.path("runs/copy.db")).unwrap();
            },
            "a copy of the store lies beside",
            "once the copy is elsewhere",
        ),
        (
            |site| {
                let other = site.path("runs/x.db");
                fs::copy(site.path("runs/hpsearch.db"), &other).unwrap();
                let other = rusqlite::Connection::open(other).unwrap();
                other.execute_batch("PRAGMA user_version = 99; DROP TABLE store;").unwrap();
            },
            "`runs/x.db` beside the store may be one",
            "once that file is elsewhere",
        ),
        (
            |site| list_in_another_study(site, &site.path("runs/files/s").join(CHECKPOINT)),
            "a checkpoint that the study `t` needs",
            "once that study is removed",
        ),
        (
            // Its name is too long to move it aside.
            |site| {
                plant(&site.path("runs/files/s/notes.txt"));
                plant(&site.path(&format!("runs/files/s/.agents-{}", "a".repeat(240))));
            },
            "the system refuses its removal (File name too long",
            "once that is settled",
        ),
    ];
    for (change, why, remedy) in cases {
        let site = site();
        change(&site);
        let ended = site.run(&["rm", "s", "--yes"]);
        assert_done(&ended);
        assert_names(&ended.err, &["`runs/files/s`", "kept", why, "`hpsearch gc`", remedy]);
        assert!(site.exists("runs/files/s"), "{why}");
        let site = self::site();
        change(&site);
        let told: Json = site.json(&["rm", "s", "--yes", "--json"]);
        let directory = json!(site.path("runs/files/s"));
        assert!(told["left"].as_array().unwrap().contains(&directory), "{why}: {told}");
    }
}

#[test]
fn trials_that_match_a_filter_are_hidden_with_few_lines() {
    let site = Site::new(&study("trials = 25", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    let listed = site.run(&["rm", "s", "--where", "number<24", "--dry-run"]);
    assert_eq!(listed.out.lines().count(), 24, "{}", listed.out);
    let ended = site.run(&["rm", "s", "--where", "number<24", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.out, &["trial 19: complete", "and 4 more (`--dry-run` lists all)"]);
    assert_names(&ended.err, &["s: the same for 4 more"]);
    assert_eq!(ended.out.lines().count() + ended.err.lines().count(), 20 + 1 + 20 + 1);
    assert_eq!(site.json(&["trials", "s", "--json"])["trials"].as_array().unwrap().len(), 1);
    let again = site.run(&["rm", "s", "--where", "number<24", "--yes"]);
    assert_names(&again.err, &["none of 25 trials passes"]);
}

#[test]
fn a_hidden_trials_directory_that_another_study_needs_is_named() {
    let site = site();
    let needed = plant(&site.path("runs/files/s/trial-1/mine/step-1"));
    list_in_another_study(&site, &needed);
    let why = "`runs/files/s/trial-1` has a checkpoint that the study `t` needs, and is kept";
    let ended = site.run(&["rm", "s", "1", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.err, &[why]);
    assert!(needed.exists());
}

#[test]
fn the_files_of_a_study_stay_while_its_copy_in_another_store_needs_them() {
    for (to, with_a_trial) in [("other/o.db", false), ("runs/o.db", false), ("other/o.db", true)] {
        let site = site();
        let files = site.path("runs/files/s");
        assert_done(&site.run(&["copy", "s", "--to", to]));
        let words: &[&str] = if with_a_trial { &["rm", "s", "1"] } else { &["rm", "s"] };
        let listed = site.run(&[words, &["--dry-run"]].concat());
        let why = format!("is kept: a copy of the study in `{to}` has checkpoints there");
        assert_names(&listed.err, &[why.as_str()]);
        let ended = site.run(&[words, &["--yes"]].concat());
        assert_done(&ended);
        assert_names(&ended.err, &[why.as_str()]);
        assert_done(&site.run(&["gc", "--yes"]));
        assert!(files.join(CHECKPOINT).exists());
        assert_done(&site.run(&["--store", to, "export", "s", "-o", "model"]));
        assert!(!site.run(&["--store", to, "rm", "s", "--yes"]).err.contains("trial-"));
        assert!(files.join(CHECKPOINT).exists(), "it is left to the original's store");
        assert_done(&site.run(&["gc", "--yes"]));
        assert!(!files.join("trial-1").exists(), "nothing needs it any more");
    }
}

#[test]
fn a_copy_whose_store_is_not_where_it_was_may_need_the_files() {
    let site = site();
    assert_done(&site.run(&["copy", "s", "--to", "o.db"]));
    fs::rename(site.path("o.db"), site.path("moved.db")).unwrap();
    // The mark is written again by a run, also of a moved project.
    assert_done(&site.run(&["extend", "s", "--trials", "1"]));
    assert_done(&site.run_study());
    let ended = site.run(&["rm", "s", "--yes"]);
    assert_names(&ended.err, &["a copy of the study in `o.db` has checkpoints there, or may"]);
    assert!(site.path("runs/files/s").join(CHECKPOINT).exists());
    assert_done(&site.run(&["--store", "moved.db", "export", "s", "-o", "model"]));
}

#[test]
fn a_removal_that_was_killed_among_the_studys_own_files_is_finished_by_gc() {
    let site = site();
    let files = site.path("runs/files/s");
    let notes = plant(&files.join("notes.txt"));
    let own = |number: u32| files.join(format!(".agents-{number:016x}"));
    let last = 20_000;
    (0..=last).for_each(|number| drop(plant(&own(number))));
    let mut rm = site.start(&["rm", "s", "--yes"]);
    // It removes them by name, faster than a test that sleeps looks again.
    let begun = Instant::now();
    while own(0).exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not begin");
    }
    rm.kill();
    rm.end();
    assert!(own(last).exists(), "it had ended");
    // What is between two steps of it: moved aside and not deleted.
    let dead = 99_999_999;
    plant(&files.join(format!("..agents-0123456789abcdef.{dead}-gc.tmp")));
    let listed = site.run(&["gc", "--dry-run"]);
    assert_names(&listed.out, &["runs/files/s"]);
    assert_done(&site.run(&["gc", "--yes"]));
    let left: Vec<PathBuf> =
        fs::read_dir(&files).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [notes]);
    assert_eq!(site.query::<i64>("SELECT count(*) FROM removed_study WHERE files IS NOT NULL"), 0);
}

#[test]
fn a_store_in_a_studys_directory_stays_with_its_files() {
    let site = site();
    site.write("other.toml", text_of("t", ""));
    for store in ["runs/files/s/mine/other.db", "runs/files/s/trial-1/inner.db"] {
        assert_done(&site.run(&["--store", store, "run", "other.toml", "--plain"]));
    }
    let inner = site.path("runs/files/s/trial-1");
    let why = "`runs/files/s/trial-1` is kept: the store `runs/files/s/trial-1/inner.db` is there";
    let hidden = site.run(&["rm", "s", "1", "--yes"]);
    assert_done(&hidden);
    assert_names(&hidden.err, &[why]);
    assert!(inner.join("inner.db").exists());
    let ended = site.run(&["rm", "s", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.err, &[why, "`runs/files/s/mine` is kept"]);
    for store in ["runs/files/s/mine/other.db", "runs/files/s/trial-1/inner.db"] {
        assert_done(&site.run(&["--store", store, "verify", "t"]));
        let files = Path::new(store).with_file_name("files/t").join(CHECKPOINT);
        assert!(site.exists(&files.display().to_string()), "{store}");
    }
    assert!(!site.exists("runs/files/s/trial-0"));
}

#[test]
fn files_of_another_store_in_a_studys_directory_stay() {
    let site = site();
    run_project(&site, "nest", &site.path("runs/files/s/nest").display().to_string());
    run_project(&site, "deep", &site.path("runs/files/s/trial-0/x").display().to_string());
    let ended = site.run(&["rm", "s", "--yes"]);
    assert_done(&ended);
    let mark =
        "`runs/files/s/trial-0` is kept: `runs/files/s/trial-0/x/s` has the marker of a store";
    assert_names(&ended.err, &["`runs/files/s/nest` is kept", mark]);
    for below in ["nest/s", "trial-0/x/s"] {
        assert!(site.exists(&format!("runs/files/s/{below}/{CHECKPOINT}")), "{below}");
    }
    assert!(!site.exists("runs/files/s/trial-1"));
}

#[test]
fn a_copy_whose_original_is_away_removes_nothing_of_the_directory_that_both_name() {
    let site = Site::new("", &format!("{SAVES}{REPORT_X}"));
    let shared = site.path("shared");
    run_project(&site, "proj", &shared.display().to_string());
    assert_done(&site.start_program("cp", &["-a", "proj", "copy"]).end());
    fs::rename(site.path("proj"), site.path("away")).unwrap();
    for verb in [&["rm", "s", "1", "--yes"][..], &["gc", "--yes"], &["rm", "s", "--yes"]] {
        let ended = site.run(&[&["--store", &store_of("copy")][..], verb].concat());
        assert_done(&ended);
        assert_names(&ended.err, &["`shared/s", "`proj/runs/hpsearch.db`", "no longer exists"]);
        assert!(shared.join("s").join(CHECKPOINT).exists(), "{verb:?}");
    }
    // For the original, they are where it left them.
    fs::rename(site.path("away"), site.path("proj")).unwrap();
    assert_done(&site.run(&["--store", &store_of("proj"), "rm", "s", "--yes"]));
    assert!(!shared.join("s").exists());
}

#[test]
fn a_copy_leaves_what_a_link_that_was_copied_leads_to() {
    let site = Site::new("", &format!("{SAVES}{REPORT_X}"));
    let large = site.path("large");
    fs::create_dir_all(site.path("proj/runs")).unwrap();
    fs::create_dir(&large).unwrap();
    std::os::unix::fs::symlink(&large, site.path("proj/runs/files")).unwrap();
    run_project(&site, "proj", "");
    assert_done(&site.start_program("cp", &["-a", "proj", "copy"]).end());
    fs::rename(site.path("proj"), site.path("away")).unwrap();
    for verb in [&["rm", "s", "1", "--yes"][..], &["gc", "--yes"], &["rm", "s", "--yes"]] {
        assert_done(&site.run(&[&["--store", &store_of("copy")][..], verb].concat()));
        assert!(large.join("s").join(CHECKPOINT).exists(), "{verb:?}");
    }
    fs::rename(site.path("away"), site.path("proj")).unwrap();
    assert_done(&site.run(&["--store", &store_of("proj"), "rm", "s", "--yes"]));
    assert!(!large.join("s").exists());
}

#[test]
fn checkpoints_that_a_copy_of_the_store_lists_stay_when_a_trial_is_removed() {
    let site = site();
    fs::copy(site.path("runs/hpsearch.db"), site.path("runs/copy.sqlite")).unwrap();
    let ended = site.run(&["rm", "s", "1", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.err, &["`runs/files/s/trial-1` is kept: a copy of the store lies beside"]);
    assert!(site.path("runs/files/s").join(CHECKPOINT).exists());
    fs::remove_file(site.path("runs/copy.sqlite")).unwrap();
    assert_done(&site.run(&["gc", "--yes"]));
    assert!(!site.exists("runs/files/s/trial-1"));
}

#[test]
fn files_of_a_trial_go_from_where_a_moved_project_has_them_now() {
    let site = Site::new("", &format!("{SAVES}{REPORT_X}"));
    run_project(&site, "before", "big");
    fs::rename(site.path("before"), site.path("after")).unwrap();
    let store = store_of("after");
    let listed = site.run(&["--store", &store, "rm", "s", "1", "--dry-run"]);
    assert!(!listed.out.contains(", 0 B"), "{}", listed.out);
    assert_done(&site.run(&["--store", &store, "rm", "s", "1", "--yes"]));
    assert!(!site.exists("after/big/s/trial-1") && site.exists("after/big/s/trial-0/checkpoints"));
    // Nothing that the store lists at its old path is taken for an orphan.
    assert_done(&site.run(&["--store", &store, "gc", "--yes"]));
    assert!(site.exists("after/big/s/trial-0/checkpoints/step-1"));
}

type Change = fn(&Site);

#[test]
fn files_of_a_trial_that_stay_are_named_with_the_reason() {
    const MARK: &str = "runs/files/s/.hpsearch-store";
    let cases: [(Change, &str); 4] = [
        (|site| fs::remove_file(site.path(MARK)).unwrap(), "has no marker of a store"),
        (|site| site.write(MARK, "torn"), "has a marker that cannot be read"),
        (
            |site| site.write(MARK, "{\"version\":1,\"store\":\"x\",\"path\":\"/y/z.db\"}"),
            "has the marker of the store `/y/z.db`",
        ),
        (
            |site| {
                fs::rename(site.path("runs/files/s/trial-1"), site.path("elsewhere")).unwrap();
                symlink(site.path("elsewhere"), site.path("runs/files/s/trial-1")).unwrap();
            },
            "a symbolic link leads there",
        ),
    ];
    for (change, why) in cases {
        let site = site();
        change(&site);
        let ended = site.run(&["rm", "s", "1", "--yes"]);
        assert_done(&ended);
        assert_names(&ended.err, &["`runs/files/s/trial-1`", why]);
        assert!(site.path("runs/files/s").join(CHECKPOINT).exists(), "{why}");
    }
}

#[test]
fn a_study_called_data_has_a_directory_of_its_own() {
    let site = Site::new("", &format!("{SAVES}{REPORT_X}"));
    let prepared = plant(&site.path("runs/files/data/0123456789abcdef0123456789abcdef/rows"));
    site.write("data.toml", text_of("data", ""));
    let ended = site.run(&["run", "data.toml", "--plain"]);
    assert_done(&ended);
    assert_names(&ended.err, &["`data` beside it holds tokenised data"]);
    assert!(!site.exists("runs/files/data/trial-0"));
    assert_done(&site.run(&["rm", "data", "--yes"]));
    assert!(prepared.exists());
    let others = fs::read_dir(site.path("runs/files")).unwrap().count();
    assert_eq!(others, 1, "its own directory is gone");
}

#[test]
fn a_study_called_data_of_an_earlier_version_keeps_its_directory_and_leaves_the_data() {
    let site = Site::new("", REPORT_X);
    site.write("data.toml", text_of("data", ""));
    assert_done(&site.run(&["run", "data.toml", "--plain"]));
    // As an earlier version had it.
    let own = fs::read_dir(site.path("runs/files")).unwrap().next().unwrap().unwrap().path();
    fs::rename(own, site.path("runs/files/data")).unwrap();
    let connection = site.database();
    connection.execute("UPDATE study SET files = '[\"data\"]'", []).unwrap();
    drop(connection);
    let mut mark = site.read_json("runs/files/data/.hpsearch-store");
    mark.as_object_mut().unwrap().remove("directory").unwrap();
    site.write("runs/files/data/.hpsearch-store", mark.to_string());
    let prepared = plant(&site.path("runs/files/data/0123456789abcdef0123456789abcdef/rows"));
    site.write("data.toml", text_of("data", "").replace("trials = 2", "trials = 3"));
    assert_done(&site.run(&["run", "data.toml", "--plain"]));
    assert!(site.exists("runs/files/data/trial-2"));
    let ended = site.run(&["rm", "data", "--yes"]);
    assert_done(&ended);
    assert_eq!(ended.err, "");
    assert!(prepared.exists() && !site.exists("runs/files/data/trial-0"));
}
