//! `hpsearch gc`: what nobody needs goes, everything else stays, whatever dies and whoever runs
//! meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value as Json;

use crate::harness::{
    ONE_SLOT, REPORT_X, Site, assert_done, assert_names, files_below, study, wait_until,
};

/// No process has it: the largest id is lower.
const DEAD: u32 = 99_999_999;

/// A script that saves a checkpoint before it reports.
const SAVES: &str = "mkdir -p $HPSEARCH_CHECKPOINT_DIR/one; echo weights > \
    $HPSEARCH_CHECKPOINT_DIR/one/model\n\
    echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/one\\\",\\\"step\\\":1}\"\n";

fn saving_study() -> Site {
    let site = Site::new(&study("trials = 3", ONE_SLOT), &format!("{SAVES}{REPORT_X}"));
    assert_done(&site.run_study());
    site
}

fn plant(path: &Path) -> PathBuf {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("weights"), vec![7; 5000]).unwrap();
    path.to_owned()
}

/// Leftovers of every kind that a command study can have.
fn plant_all(site: &Site) -> Vec<PathBuf> {
    let files = site.path("runs/files");
    let half_written = plant(&files.join(format!("s/trial-0/.checkpoint-3.{DEAD}-gc.tmp")));
    let half_replaced = plant(&files.join(format!("s/trial-1/.one.{DEAD}-gc.tmp")));
    let half_prepared =
        plant(&files.join(format!("data/.0123456789abcdef0123456789abcdef.{DEAD}-0.tmp")));
    let unknown_trial = plant(&files.join("s/trial-99"));
    let unknown_study = plant(&files.join("gone/trial-0"));
    for trial in [&unknown_trial, &unknown_study] {
        fs::write(trial.join("attempt-0.log"), "a log").unwrap();
    }
    site.mark("runs/files/gone");
    // A removal that was killed after it had removed the mark.
    let half_removed = plant(&files.join(format!(".old.{DEAD}-gc.tmp/trial-0")));
    let unused_data = plant(&files.join("data/0123456789abcdef0123456789abcdef"));
    fs::write(unused_data.join("used-by-gone"), "").unwrap();
    let of_studies = [unknown_study, half_removed].map(|trial| trial.parent().unwrap().to_owned());
    let others = vec![half_written, half_replaced, half_prepared, unknown_trial, unused_data];
    others.into_iter().chain(of_studies).collect()
}

/// What must never go: paths and their contents.
fn kept(site: &Site) -> Vec<(PathBuf, Vec<u8>)> {
    files_below(&site.path("runs/files/s"))
}

#[test]
fn leftovers_of_every_kind_are_listed_and_removed_and_the_rest_stays() {
    let site = saving_study();
    assert_done(&site.run(&["gc", "--dry-run"]));
    let before = kept(&site);
    assert!(
        before.iter().any(|(path, _)| path.ends_with("checkpoints/one/model")),
        "a best trial's checkpoint is there"
    );
    let planted = plant_all(&site);
    // A file of the user's in a trial's directory, data that the study uses, and a process that is
    // still writing.
    let mine = plant(&site.path("runs/files/s/trial-2/checkpoints/my-notes"));
    let looks_half_written: Vec<PathBuf> =
        [".x.tmp", ".model.best.old", &format!(".epoch.{DEAD}-0.tmp")]
            .iter()
            .map(|name| plant(&site.path("runs/files/s/trial-2/checkpoints").join(name)))
            .collect();
    let used = plant(&site.path("runs/files/data/ffffffffffffffffffffffffffffffff"));
    fs::write(used.join("used-by-s"), "").unwrap();
    let in_the_making = plant(
        &site.path(&format!("runs/files/s/trial-2/.checkpoint-3.{}-gc.tmp", std::process::id())),
    );

    let listed = site.run(&["gc", "--dry-run"]);
    assert_done(&listed);
    for path in &planted {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(listed.out.contains(name), "{name} in\n{}", listed.out);
        assert!(path.exists(), "a dry run removes nothing");
    }
    assert_names(&listed.out, &["7 orphaned files, "]);
    let refused = site.run(&["gc"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("--yes") && planted.iter().all(|path| path.exists()),
        "{}",
        refused.err
    );

    let json: Json = site.json(&["gc", "--json"]);
    assert_eq!(
        (json["removed"].as_bool(), json["files"].as_array().unwrap().len()),
        (Some(false), 7)
    );
    let removed = site.run(&["gc", "--yes"]);
    assert_done(&removed);
    assert_names(&removed.out, &["removed 7 orphaned files"]);
    assert!(planted.iter().all(|path| !path.exists()));
    assert!([&mine, &used, &in_the_making].iter().all(|path| path.join("weights").exists()));
    assert!(
        looks_half_written.iter().all(|path| path.exists()),
        "a command's own files stay, whatever they are called"
    );
    looks_half_written.iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    fs::remove_dir_all(mine).unwrap();
    fs::remove_dir_all(in_the_making).unwrap();
    assert_eq!(kept(&site), before);
    assert!(site.run(&["gc", "--yes"]).out.contains("nothing to remove"));
}

#[test]
fn what_is_left_alone_is_not_said_to_belong_to_a_study() {
    let site = saving_study();
    let files = site.path("runs/files");
    let gc = || site.run(&["gc", "--yes"]);
    assert_names(&gc().out, &["nothing to remove: everything there belongs to a study"]);
    plant(&files.join("found/trial-0"));
    let unmarked = gc();
    assert_names(&unmarked.out, &["nothing to remove: what is not this store's is left alone"]);
    assert_names(&unmarked.err, &["`runs/files/found`", "no marker of a store"]);
    fs::write(files.join("found/.hpsearch-store"), "torn").unwrap();
    assert_names(&gc().err, &["`runs/files/found` has a marker that cannot be read"]);
    assert!(files.join("found/trial-0").exists());
}

#[test]
fn a_trials_directory_that_no_trial_wrote_is_its_users() {
    let site = saving_study();
    let mine = plant(&site.path("runs/files/s/trial-78"));
    let draft = plant(&site.path(&format!("runs/files/s/.notes.{DEAD}-gc.tmp")));
    let ended = site.run(&["gc", "--yes"]);
    assert_done(&ended);
    assert_names(&ended.err, &["`runs/files/s/trial-78` is left alone: hpsearch did not write it"]);
    assert_names(&ended.out, &["nothing to remove"]);
    assert!(mine.join("weights").exists() && draft.join("weights").exists());
}

#[test]
fn a_backup_that_somebody_made_of_a_studys_directory_stays_and_is_named() {
    let site = saving_study();
    let files = site.path("runs/files");
    for name in ["s-backup", "old"] {
        let copied =
            site.start_program("cp", &["-a", "runs/files/s", &format!("runs/files/{name}")]);
        assert_done(&copied.end());
    }
    fs::write(files.join("s-backup/trial-0/notes.txt"), "my notes").unwrap();
    let before = files_below(&files);
    let ended = site.run(&["gc", "--yes"]);
    assert_done(&ended);
    let words = ["s-backup", "old"]
        .map(|name| format!("`runs/files/{name}` is a copy of this store's directory `s`"));
    assert_names(&ended.err, &words.each_ref().map(String::as_str));
    assert!(files_below(&files) == before);
    // Nor does a study of that name take it.
    let text = site.read("study.toml").replace("name = \"s\"", "name = \"old\"");
    site.write("study.toml", text);
    let ran = site.run_study();
    assert_done(&ran);
    assert_names(&ran.err, &["`old` beside it is a copy of the directory `s`, or was renamed"]);
    assert_done(&site.run(&["rm", "old", "--yes"]));
    assert_done(&site.run(&["rm", "s", "--yes"]));
    assert!(!files.join("s").exists());
    let of_others = |(path, _): &(PathBuf, Vec<u8>)| !path.starts_with(files.join("s"));
    assert!(files_below(&files) == before.into_iter().filter(of_others).collect::<Vec<_>>());
}

#[test]
fn a_store_in_files_that_no_study_needs_keeps_them() {
    let site = saving_study();
    let unknown = plant(&site.path("runs/files/s/trial-78"));
    fs::write(unknown.join("attempt-0.log"), "a log").unwrap();
    let (store, gone) = (unknown.join("deep/mine.db"), site.path("runs/files/gone"));
    plant(&gone.join("trial-0/checkpoints"));
    plant(&gone.join("trial-1"));
    site.mark("runs/files/gone");
    fs::create_dir(unknown.join("deep")).unwrap();
    fs::copy(site.path("runs/hpsearch.db"), &store).unwrap();
    let ended = site.run(&["gc", "--yes"]);
    assert_done(&ended);
    assert_names(
        &ended.err,
        &[
            "`runs/files/s/trial-78` is left alone: the store `runs/files/s/trial-78/deep/mine.db`",
            "`runs/files/gone/trial-1` is left alone: hpsearch did not write it",
        ],
    );
    assert!(store.exists() && gone.join("trial-1").exists() && !gone.join("trial-0").exists());
}

#[test]
fn a_checkpoint_whose_removal_a_crash_prevented_is_removed() {
    let site = saving_study();
    // What the journal says was dropped: of the three trials one, if only two are kept.
    site.write(
        "study.toml",
        study("trials = 3", &format!("{ONE_SLOT}[checkpoints]\nkeep = \"best-1\"\n")),
    );
    let dropped: Vec<PathBuf> = {
        let before: Vec<PathBuf> = (0..3)
            .map(|trial| site.path(&format!("runs/files/s/trial-{trial}/checkpoints/one")))
            .collect();
        assert_done(&site.run_study());
        before.into_iter().filter(|path| !path.exists()).collect()
    };
    assert_eq!(dropped.len(), 2);
    // As if the runner had died between writing so and removing it.
    plant(&dropped[0]);
    assert!(site.run(&["gc", "--yes"]).out.contains("removed 1 orphaned file"));
    assert!(!dropped[0].exists());
    assert_eq!(
        (0..3)
            .filter(|trial| site
                .path(&format!("runs/files/s/trial-{trial}/checkpoints/one"))
                .exists())
            .count(),
        1
    );
}

#[test]
fn a_killed_gc_leaves_nothing_that_the_next_does_not_finish() {
    let site = saving_study();
    let before = kept(&site);
    let planted = plant_all(&site);
    for directory in &planted {
        let trial = Some(directory.join("trial-0")).filter(|trial| trial.exists());
        let directory = trial.as_ref().unwrap_or(directory);
        for file in 0..2_000 {
            fs::write(directory.join(format!("part-{file}")), "x").unwrap();
        }
    }
    let mut gc = site.start(&["gc", "--yes"]);
    wait_until("it has begun", || planted.iter().any(|path| !path.exists()) || gc.has_ended());
    gc.signal(Signal::KILL);
    gc.end();
    assert!(!planted.iter().all(|path| path.exists()));
    let again = site.run(&["gc", "--yes"]);
    assert_done(&again);
    assert!(planted.iter().all(|path| !path.exists()));
    assert_eq!(kept(&site), before, "and nothing is left aside");
    assert_eq!(fs::read_dir(site.path("runs/files/data")).unwrap().count(), 0);
}

#[test]
fn files_of_a_running_study_stay_however_often_gc_runs() {
    let wait =
        "touch saved-$HPSEARCH_TRIAL; while [ ! -e go-$HPSEARCH_TRIAL ]; do sleep 0.01; done\n";
    let script = format!(
        "mkdir -p $HPSEARCH_CHECKPOINT_DIR/one; echo w > \
         $HPSEARCH_CHECKPOINT_DIR/one/model\n{wait}{SAVES}{REPORT_X}"
    );
    let site = Site::new(&study("trials = 2", ONE_SLOT), &script);
    let running = site.start_study();
    for trial in 0..2 {
        wait_until("it has saved, and not said so yet", || {
            site.path(&format!("saved-{trial}")).exists()
        });
        for _ in 0..3 {
            assert_done(&site.run(&["gc", "--yes"]));
        }
        assert!(site.path(&format!("runs/files/s/trial-{trial}/checkpoints/one/model")).exists());
        site.write(&format!("go-{trial}"), "");
    }
    assert_done(&running.end());
    assert_done(&site.run(&["gc", "--yes"]));
    assert_eq!(site.states(), ["complete", "complete"]);
    assert!(
        (0..2).all(|trial| site
            .path(&format!("runs/files/s/trial-{trial}/checkpoints/one/model"))
            .exists()),
        "both are among the best three"
    );
}
