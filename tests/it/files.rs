//! Whose files are whose: nothing is removed, shared or forgotten that belongs to another trial,
//! store, project or person.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::Value as Json;

use crate::harness::{
    Ended, ONE_SLOT, REPORT_X, Site, announces, assert_code, assert_done, assert_names, study,
    wait_until,
};

/// Saves a file that holds the trial's parameter, and announces it.
const SAVES: &str = "echo $1 > $HPSEARCH_CHECKPOINT_DIR/one\n\
                     echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/one\\\",\
                     \\\"step\\\":1}\"\n";

const KEEPS_ONE: &str = "[checkpoints]\nkeep = \"best-1\"\n";

fn best(site: &Site, store: &str) -> Json {
    let best = site.run(&["--store", store, "best", "s", "--json"]);
    assert_done(&best);
    best.json()
}

/// The checkpoint of the best trial holds that trial's parameter.
fn assert_best_is_its_own(site: &Site, store: &str) -> PathBuf {
    let best = best(site, store);
    let path =
        PathBuf::from(best["trial"]["checkpoint"].as_str().unwrap_or_else(|| panic!("{best}")));
    let held: f64 = fs::read_to_string(&path).unwrap().trim().parse().unwrap();
    assert_eq!(Some(held), best["trial"]["params"]["x"].as_f64(), "{}", path.display());
    path
}

fn run_in(site: &Site, store: &str) -> Ended {
    site.run(&["--store", store, "run", "study.toml", "--plain"])
}

#[test]
fn a_trial_that_registers_the_checkpoint_it_began_from_does_not_take_it_with_it() {
    // Trial 0 is the best; every later one announces its file, and is dropped.
    let of_the_first = "[ $HPSEARCH_TRIAL = 0 ] || { echo \"@hpsearch \
        {\\\"checkpoint\\\":\\\"$PWD/runs/files/s/trial-0/checkpoints/one\\\",\\\"step\\\":1}\"; \
        }\n";
    let script = format!(
        "{of_the_first}[ $HPSEARCH_TRIAL != 0 ] || {{ {SAVES} }}\necho \"@hpsearch \
         {{\\\"step\\\":1,\\\"loss\\\":$HPSEARCH_TRIAL}}\"\n"
    );
    let site = Site::new(&study("trials = 4", &format!("{ONE_SLOT}{KEEPS_ONE}")), &script);
    assert_done(&site.run_study());
    assert_best_is_its_own(&site, "runs/hpsearch.db");
}

#[test]
fn a_directory_and_a_file_in_it_are_two_checkpoints_and_the_file_outlives_the_directory() {
    let script = format!(
        "d=$HPSEARCH_CHECKPOINT_DIR/d; mkdir -p $d; echo $1 > $d/one\n{}\
         echo '@hpsearch {{\"step\":1,\"loss\":3}}'; read answer\n\
         echo \"@hpsearch {{\\\"checkpoint\\\":\\\"$d/one\\\",\\\"step\\\":2}}\"\necho '@hpsearch \
         {{\"step\":2,\"loss\":1}}'; read answer\n\
         echo '@hpsearch {{\"step\":3,\"loss\":2}}'\n",
        announces("$d")
    );
    let site = Site::new(&study("trials = 1", &format!("{ONE_SLOT}{KEEPS_ONE}")), &script);
    assert_done(&site.run_study());
    assert!(assert_best_is_its_own(&site, "runs/hpsearch.db").ends_with("d/one"));
}

#[test]
fn paths_that_hold_more_than_a_checkpoint_are_refused_and_nothing_of_the_project_goes() {
    let odd = ["", ".", "/", "$PWD", "$PWD/runs", "$PWD/s", "$PWD/s/trial-0/.."];
    let script: String = odd.iter().map(|path| announces(path)).collect::<String>() + REPORT_X;
    let rest =
        format!("{ONE_SLOT}[checkpoints]\nkeep = \"best-1\"\nmax_disk = \"1B\"\ndir = \".\"\n");
    let site = Site::new(&study("trials = 4", &rest), &script);
    site.write("mine.txt", "notes");
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete"; 4]);
    assert!(
        ["mine.txt", "study.toml", "trial.sh", "runs/hpsearch.db"]
            .iter()
            .all(|name| site.path(name).exists())
    );
    let log = site.log(0, 0);
    assert_eq!(log.matches("this checkpoint is rejected").count(), 6, "{log}");
    assert_names(&log, &["is the root of the file system", "its path is empty"]);
}

#[test]
fn what_lies_outside_the_trials_directory_is_kept_and_takes_no_room() {
    let script = format!(
        "mkdir -p mine; head -c 2000000 /dev/zero > mine/$HPSEARCH_TRIAL\n{}{SAVES}{REPORT_X}",
        announces("mine/$HPSEARCH_TRIAL")
    );
    let rest = format!("{ONE_SLOT}[checkpoints]\nkeep = \"all\"\nmax_disk = \"1MiB\"\n");
    let site = Site::new(&study("trials = 3", &rest), &script);
    let ended = site.run_study();
    assert_done(&ended);
    assert!((0..3).all(|trial| site.path(&format!("mine/{trial}")).exists()));
    assert!(
        (0..3).all(|trial| site
            .path(&format!("runs/files/s/trial-{trial}/checkpoints/one"))
            .exists()),
        "{}",
        ended.out
    );
}

#[test]
fn two_stores_in_one_directory_keep_their_checkpoints_apart() {
    let site = Site::new(
        &study("trials = 3", &format!("{ONE_SLOT}{KEEPS_ONE}")),
        &format!("{SAVES}{REPORT_X}"),
    );
    assert_done(&run_in(&site, "runs/a.db"));
    site.write("study.toml", site.read("study.toml").replace("seed = 7", "seed = 8"));
    assert_done(&run_in(&site, "runs/b.sqlite"));
    let (one, other) = (
        assert_best_is_its_own(&site, "runs/a.db"),
        assert_best_is_its_own(&site, "runs/b.sqlite"),
    );
    assert_ne!(one, other);
    for store in ["runs/a.db", "runs/b.sqlite"] {
        assert_done(&site.run(&["--store", store, "gc", "--yes"]));
        let log = site.run(&["--store", store, "logs", "s", "0"]);
        assert_done(&log);
    }
    assert_eq!(
        (
            assert_best_is_its_own(&site, "runs/a.db"),
            assert_best_is_its_own(&site, "runs/b.sqlite")
        ),
        (one, other)
    );
}

#[test]
fn a_copy_of_a_store_writes_elsewhere_and_removes_nothing_of_the_original() {
    let site = Site::new(
        &study("trials = 2", &format!("{ONE_SLOT}{KEEPS_ONE}")),
        &format!("{SAVES}{REPORT_X}"),
    );
    assert_done(&site.run_study());
    let original = assert_best_is_its_own(&site, "runs/hpsearch.db");
    fs::copy(site.path("runs/hpsearch.db"), site.path("runs/copy.db")).unwrap();
    assert_done(&site.run(&["--store", "runs/copy.db", "gc", "--yes"]));
    assert_eq!(
        assert_best_is_its_own(&site, "runs/copy.db"),
        original,
        "what was copied with it is found"
    );
    site.write("study.toml", site.read("study.toml").replace("trials = 2", "trials = 9"));
    assert_done(&run_in(&site, "runs/copy.db"));
    assert_best_is_its_own(&site, "runs/copy.db");
    assert!(original.exists(), "a checkpoint that the copy no longer needs is the original's");
    assert_done(&site.run(&["--store", "runs/copy.db", "gc", "--yes"]));
    assert_eq!(assert_best_is_its_own(&site, "runs/hpsearch.db"), original);
}

#[test]
fn a_new_store_beside_old_files_gives_no_trial_another_ones_directory() {
    let script = format!("ls $HPSEARCH_CHECKPOINT_DIR > found-$HPSEARCH_TRIAL\n{SAVES}{REPORT_X}");
    let site = Site::new(&study("trials = 2", ONE_SLOT), &script);
    assert_done(&site.run_study());
    let old = site.read("runs/files/s/trial-0/checkpoints/one");
    for name in ["", "-wal", "-shm"] {
        let _not_all_are_there = fs::remove_file(site.path(&format!("runs/hpsearch.db{name}")));
    }
    assert_done(&site.run_study());
    assert_eq!((site.read("found-0"), site.read("found-1")), (String::new(), String::new()));
    assert_eq!(site.read("runs/files/s/trial-0/checkpoints/one"), old);
    assert_best_is_its_own(&site, "runs/hpsearch.db");
    // Nobody has the old ones now, unless their store was moved: that is said.
    let listed = site.run(&["gc", "--yes"]);
    assert!(
        listed.out.contains("nothing to remove")
            && listed.err.contains("`runs/files/s` belongs to the store `"),
        "{}",
        listed.err
    );
    assert_eq!(site.read("runs/files/s/trial-0/checkpoints/one"), old);
}

#[test]
fn gc_leaves_files_of_stores_whatever_their_names_and_of_those_it_cannot_read() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &format!("{SAVES}{REPORT_X}"));
    assert_done(&run_in(&site, "runs/mine.db"));
    site.write("study.toml", site.read("study.toml").replace("name = \"s\"", "name = \"other\""));
    assert_done(&run_in(&site, "runs/experiments"));
    let others = site.path("runs/files/other/trial-0/checkpoints/one");
    // As an earlier version left it: without a mark.
    fs::remove_file(site.path("runs/files/other/.hpsearch-store")).unwrap();
    let gc = || site.run(&["--store", "runs/mine.db", "gc", "--yes"]);
    assert!(gc().out.contains("nothing to remove") && others.exists());
    // A store of a newer version, and one that is damaged.
    let connection = Connection::open(site.path("runs/experiments")).unwrap();
    connection.execute_batch("PRAGMA user_version = 99; DROP TABLE store;").unwrap();
    drop(connection);
    let kept = gc();
    assert!(kept.out.contains("nothing to remove") && others.exists(), "{}", kept.out);
    assert_names(&kept.err, &["may be a store but cannot be read"]);
    fs::remove_file(site.path("runs/experiments")).unwrap();
    // Without a mark it may be anybody's, even a directory that looks like a study's.
    assert!(gc().out.contains("nothing to remove") && others.exists());
    site.mark("runs/files/other");
    assert!(gc().out.contains("removed 1 orphaned file") && !others.exists());
}

#[test]
fn a_store_from_somebody_else_does_not_say_which_of_our_directories_are_its_own() {
    let site = Site::new(
        &study("trials = 3", &format!("{ONE_SLOT}{KEEPS_ONE}")),
        &format!("{SAVES}{REPORT_X}"),
    );
    assert_done(&site.run_study());
    let victim = site.path("home/s/trial-0/checkpoints/one");
    fs::create_dir_all(victim.parent().unwrap()).unwrap();
    fs::write(&victim, "mine").unwrap();
    fs::create_dir_all(site.path("home/s/trial-77")).unwrap();
    let home = site.path("home").display().to_string();
    let connection = site.database();
    for table in ["study", "study_revision"] {
        connection
            .execute(
                &format!("UPDATE {table} SET spec = json_set(spec, '$.checkpoints.dir', ?1)"),
                [&home],
            )
            .unwrap();
    }
    drop(connection);
    for arguments in [
        &["gc", "--yes"][..],
        &["extend", "s", "--trials", "+1"],
        &["retry", "s", "0"],
        &["gc", "--yes"],
    ] {
        site.run(arguments);
    }
    assert!(victim.exists() && site.exists("home/s/trial-77"));
}

/// A script whose trial saves at its first step, and then waits until it may continue; what it
/// continued from is written down.
fn waits() -> String {
    format!(
        "[ -z \"$HPSEARCH_RESUME\" ] || {{ cat $HPSEARCH_RESUME > resumed; {REPORT_X} exit 0; \
         }}\n{SAVES}{REPORT_X}touch saved; while [ ! -e go ]; do sleep 0.01; done\n"
    )
}

/// A project below the site whose runner was killed after its trial had saved.
fn killed_project(rest: &str) -> Site {
    let site = Site::new("", "");
    fs::create_dir(site.path("project")).unwrap();
    site.write("project/study.toml", study("trials = 1", &format!("{ONE_SLOT}{rest}")));
    site.write("project/trial.sh", waits());
    let mut running = site.start(&[
        "--store",
        "project/runs/hpsearch.db",
        "run",
        "project/study.toml",
        "--plain",
    ]);
    wait_until("it has saved", || site.exists("project/saved") || running.has_ended());
    let store = site.path("project/runs/hpsearch.db");
    wait_until("and that is stored", || {
        let count = Connection::open(&store).and_then(|store| {
            store.query_row("SELECT count(*) FROM report", [], |row| row.get::<_, i64>(0))
        });
        count.is_ok_and(|count| count > 0)
    });
    running.signal(Signal::KILL);
    running.end();
    site
}

fn checkpoints(site: &Site, store: &str) -> i64 {
    Connection::open(site.path(store))
        .unwrap()
        .query_row("SELECT count(*) FROM checkpoint", [], |row| row.get(0))
        .unwrap()
}

#[test]
fn a_renamed_project_goes_on_from_its_checkpoints() {
    let site = killed_project("");
    fs::rename(site.path("project"), site.path("renamed")).unwrap();
    let ended = site.run(&[
        "--store",
        "renamed/runs/hpsearch.db",
        "run",
        "renamed/study.toml",
        "--plain",
        "--accept",
    ]);
    assert_done(&ended);
    assert!(
        !site.read("renamed/resumed").is_empty(),
        "{}\n{}",
        ended.out,
        site.read("renamed/resumed")
    );
    let path = assert_best_is_its_own(&site, "renamed/runs/hpsearch.db");
    assert!(path.starts_with(site.path("renamed/runs/files/s/trial-0")), "{}", path.display());
    assert_done(&site.run(&["--store", "renamed/runs/hpsearch.db", "verify", "s"]));
}

#[test]
fn checkpoints_on_a_disk_that_is_not_mounted_are_neither_dropped_nor_offered_to_gc() {
    for rest in ["", "[checkpoints]\ndir = \"disk\"\n"] {
        let site = killed_project(rest);
        let (files, away) = (
            if rest.is_empty() { "project/runs/files" } else { "project/disk" },
            site.path("away"),
        );
        fs::rename(site.path(files), &away).unwrap();
        // An empty mount point.
        fs::create_dir(site.path(files)).unwrap();
        let run = |more: &[&str]| {
            site.run(
                &[
                    &[
                        "--store",
                        "project/runs/hpsearch.db",
                        "run",
                        "project/study.toml",
                        "--plain",
                    ],
                    more,
                ]
                .concat(),
            )
        };
        let refused = run(&[]);
        assert_code(&refused, 5);
        assert_names(&refused.err, &["cannot be reached", "--forget-checkpoints"]);
        assert_eq!(
            fs::read_dir(site.path(files)).unwrap().count(),
            0,
            "nothing is written where it would be hidden"
        );
        assert_eq!(checkpoints(&site, "project/runs/hpsearch.db"), 1);
        fs::remove_dir(site.path(files)).unwrap();
        assert_eq!(run(&[]).code, 5, "nor where the directory is missing");
        fs::rename(&away, site.path(files)).unwrap();
        assert!(
            site.run(&["--store", "project/runs/hpsearch.db", "gc", "--dry-run"])
                .out
                .contains("nothing to remove")
        );
        assert_done(&run(&[]));
        assert!(!site.read("project/resumed").is_empty());
    }
}

#[test]
fn checkpoints_that_are_gone_for_good_are_forgotten_when_their_user_says_so() {
    let site = killed_project("");
    fs::remove_dir_all(site.path("project/runs/files")).unwrap();
    site.write("project/go", "");
    let ended = site.run(&[
        "--store",
        "project/runs/hpsearch.db",
        "run",
        "project/study.toml",
        "--plain",
        "--forget-checkpoints",
    ]);
    assert_done(&ended);
    assert!(!site.exists("project/resumed"));
    assert_best_is_its_own(&site, "project/runs/hpsearch.db");
}

#[test]
fn what_was_removed_by_hand_from_a_directory_that_is_there_is_dropped() {
    let site = killed_project("");
    fs::remove_dir_all(site.path("project/runs/files/s/trial-0")).unwrap();
    site.write("project/go", "");
    assert_done(&site.run(&[
        "--store",
        "project/runs/hpsearch.db",
        "run",
        "project/study.toml",
        "--plain",
    ]));
    assert!(!site.exists("project/resumed"));
}

#[test]
fn files_of_an_earlier_version_are_taken_over_by_the_store_that_knows_their_trials() {
    let site = killed_project("");
    let store = site.path("project/runs/hpsearch.db");
    // As an earlier version left it: whole paths, no mark, no directory taken.
    fs::remove_file(site.path("project/runs/files/s/.hpsearch-store")).unwrap();
    let connection = Connection::open(&store).unwrap();
    let files = format!("{}/", site.path("project/runs/files").display());
    connection.execute("UPDATE checkpoint SET path = ?1 || path", [&files]).unwrap();
    let sql = "UPDATE event SET body = json_set(body, '$.path', ?1 || (body ->> '$.path')) WHERE \
        type LIKE '%heckpoint%'";
    assert!(connection.execute(sql, [&files]).unwrap() > 0);
    connection.execute("UPDATE study SET files = NULL", []).unwrap();
    drop(connection);
    fs::rename(site.path("project"), site.path("renamed")).unwrap();
    assert_done(&site.run(&[
        "--store",
        "renamed/runs/hpsearch.db",
        "run",
        "renamed/study.toml",
        "--plain",
        "--accept",
    ]));
    assert!(!site.read("renamed/resumed").is_empty());
    let path = assert_best_is_its_own(&site, "renamed/runs/hpsearch.db");
    assert!(path.starts_with(site.path("renamed/runs/files/s")) && Path::new(&path).exists());
    assert_done(&site.run(&["--store", "renamed/runs/hpsearch.db", "verify", "s"]));
}

#[test]
fn a_relative_checkpoint_is_found_in_the_trials_own_directory_and_a_missing_one_is_not_taken() {
    let script = format!(
        "echo $1 > $HPSEARCH_CHECKPOINT_DIR/last; echo $1 > here-$HPSEARCH_TRIAL\n{}{}{REPORT_X}",
        announces("last"),
        announces("nowhere.pt")
    );
    let site = Site::new(&study("trials = 2", ONE_SLOT), &script);
    assert_done(&site.run_study());
    let path = assert_best_is_its_own(&site, "runs/hpsearch.db");
    assert!(path.ends_with("checkpoints/last"), "{}", path.display());
    let log = site.log(0, 0);
    assert!(log.contains("there is no `") && log.contains("nowhere.pt"), "{log}");
}

#[test]
fn a_changed_directory_of_files_leaves_nothing_behind_and_forgets_nothing() {
    let site = Site::new(
        &study(
            "trials = 3",
            &format!("{ONE_SLOT}[checkpoints]\nkeep = \"best-1\"\ndir = \"one\"\n"),
        ),
        &format!("echo printed\n{SAVES}{REPORT_X}"),
    );
    assert_done(&site.run_study());
    let first = assert_best_is_its_own(&site, "runs/hpsearch.db");
    site.write(
        "study.toml",
        site.read("study.toml")
            .replace("dir = \"one\"", "dir = \"two\"")
            .replace("trials = 3", "trials = 12"),
    );
    assert_done(&site.run_study());
    assert_best_is_its_own(&site, "runs/hpsearch.db");
    assert!(!first.exists(), "a better one was found, and the first is not needed any more");
    assert!(site.log(0, 0).contains("printed"), "logs are found where they were written");
    assert!(site.log(11, 0).contains("printed"));
    assert!(site.run(&["gc", "--yes"]).out.contains("nothing to remove"));
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_study_is_the_same_through_a_symbolic_link() {
    let site = Site::new("", "");
    let file = study("trials = 2", ONE_SLOT);
    fs::create_dir_all(site.path("real/deep")).unwrap();
    site.write("real/deep/study.toml", &file);
    site.write("real/deep/trial.sh", format!("#!/bin/sh\n{REPORT_X}"));
    let script = site.path("real/deep/trial.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(site.path("real/deep"), site.path("link")).unwrap();
    for (place, trials) in [("link", 2), ("real/deep", 3), ("link", 4)] {
        let (study, trials) = (format!("{place}/study.toml"), format!("budget.trials={trials}"));
        let ended = site.run(&["run", &study, "--set", &trials, "--plain"]);
        assert_done(&ended);
        assert!(!ended.err.contains("the project was"), "{}", ended.err);
    }
    assert_eq!(site.trials().len(), 4);
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_copied_project_goes_on_beside_its_original() {
    for rest in ["", "[checkpoints]\ndir = \"disk\"\n"] {
        let site = killed_project(rest);
        let copied = site.start_program("cp", &["-r", "project", "copy"]).end();
        assert_done(&copied);
        let differs = site.run(&["--store", "copy/runs/hpsearch.db", "diff", "copy/study.toml"]);
        assert_names(&differs.out, &["is the study `s` as it is stored"]);
        let run = |project: &str| {
            let (store, file) =
                (format!("{project}/runs/hpsearch.db"), format!("{project}/study.toml"));
            site.run(&["--store", &store, "run", &file, "--plain"])
        };
        let ended = run("copy");
        assert_done(&ended);
        assert_names(&ended.err, &["the project was copied from"]);
        assert!(!site.read("copy/resumed").is_empty(), "it continues from the copied checkpoint");
        let best = assert_best_is_its_own(&site, "copy/runs/hpsearch.db");
        assert!(best.starts_with(site.path("copy")), "{}", best.display());
        assert_done(&run("project"));
        assert!(!site.read("project/resumed").is_empty());
        assert!(
            assert_best_is_its_own(&site, "project/runs/hpsearch.db")
                .starts_with(site.path("project"))
        );
    }
}

#[test]
fn a_copied_project_whose_store_was_renamed_goes_on_beside_its_original() {
    for rest in ["", "[checkpoints]\ndir = \"disk\"\n"] {
        let site = killed_project(rest);
        assert_done(&site.start_program("cp", &["-r", "project", "copy"]).end());
        for file in ["", "-wal", "-shm"].map(|end| format!("copy/runs/hpsearch.db{end}")) {
            if site.exists(&file) {
                fs::rename(site.path(&file), site.path(&file.replace("hpsearch", "mine"))).unwrap();
            }
        }
        let ended =
            site.run(&["--store", "copy/runs/mine.db", "run", "copy/study.toml", "--plain"]);
        assert_done(&ended);
        let original = "belongs to another store, which was last run as";
        assert_names(&ended.err, &["the project was copied from", original]);
        assert!(!site.read("copy/resumed").is_empty(), "it continues from the copied checkpoint");
        let store = "project/runs/hpsearch.db";
        assert_done(&site.run(&["--store", store, "run", "project/study.toml", "--plain"]));
        assert!(assert_best_is_its_own(&site, store).starts_with(site.path("project")));
    }
}

#[test]
fn a_backup_that_was_put_back_leaves_the_files_of_the_newer_store_alone() {
    let site = Site::new(
        &study("trials = 3", &format!("{ONE_SLOT}{KEEPS_ONE}")),
        &format!(
            "ls $HPSEARCH_CHECKPOINT_DIR > found-$HPSEARCH_TRIAL\necho printed \
             $1\n{SAVES}{REPORT_X}"
        ),
    );
    assert_done(&site.run_study());
    fs::copy(site.path("runs/hpsearch.db"), site.path("backup")).unwrap();
    site.write("study.toml", site.read("study.toml").replace("trials = 3", "trials = 12"));
    assert_done(&site.run_study());
    let newer = assert_best_is_its_own(&site, "runs/hpsearch.db");
    let of_the_newer = site.run(&["logs", "s", "5"]).out;
    fs::rename(site.path("runs/hpsearch.db"), site.path("runs/newer.db")).unwrap();
    fs::copy(site.path("backup"), site.path("runs/hpsearch.db")).unwrap();
    // What only the newer one knows is not the older one's to remove.
    let gc = site.run(&["gc", "--yes"]);
    assert!(
        gc.out.contains("nothing to remove") && gc.err.contains("a copy of this store beside it"),
        "{}{}",
        gc.out,
        gc.err
    );
    let edited = site
        .read("study.toml")
        .replace("type = \"random\"\n[command]", "type = \"qmc\"\n[command]");
    site.write("study.toml", &edited);
    assert_done(&site.run_study_with(&["--accept"]));
    assert_eq!(site.read("found-5"), "", "no trial begins in another one's directory");
    assert_best_is_its_own(&site, "runs/hpsearch.db");
    assert!(site.log(0, 0).contains("printed"), "logs from before the backup are found");
    assert_eq!(assert_best_is_its_own(&site, "runs/newer.db"), newer);
    assert_eq!(site.run(&["--store", "runs/newer.db", "logs", "s", "5"]).out, of_the_newer);
    for store in ["runs/hpsearch.db", "runs/newer.db"] {
        assert!(site.run(&["--store", store, "gc", "--yes"]).out.contains("nothing to remove"));
        assert_best_is_its_own(&site, store);
    }
}

#[test]
fn gc_leaves_the_files_of_a_store_that_is_damaged_or_was_packed() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &format!("{SAVES}{REPORT_X}"));
    assert_done(&run_in(&site, "runs/a.db"));
    site.write("study.toml", site.read("study.toml").replace("name = \"s\"", "name = \"t\""));
    assert_done(&run_in(&site, "runs/b.db"));
    let of_a = site.path("runs/files/s/trial-0/checkpoints/one");
    let mut header = fs::read(site.path("runs/a.db")).unwrap();
    header[..100].fill(0);
    site.write("runs/a.db", header);
    for step in ["damaged", "packed"] {
        if step == "packed" {
            fs::rename(site.path("runs/a.db"), site.path("runs/a.db.gz")).unwrap();
        }
        let gc = site.run(&["--store", "runs/b.db", "gc", "--yes"]);
        assert!(gc.out.contains("nothing to remove") && of_a.exists(), "{step}: {}", gc.out);
    }
}
