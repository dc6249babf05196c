//! What hostile names, paths, files and programs do to a study: nothing, and each is told what is
//! wrong.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::harness::{
    ONE_SLOT, REPORT_X, STORE, Site, assert_code, assert_done, assert_names, assert_refused, study,
};

fn site(script: &str) -> Site {
    Site::new(&study("trials = 1", ONE_SLOT), script)
}

#[test]
fn only_files_and_directories_are_checkpoints() {
    let announce =
        |path: &str| format!("echo '@hpsearch {{\"checkpoint\":\"'{path}'\",\"step\":1}}'\n");
    let odd = ["pipe", "1.pipe", "socket", "link", "nowhere", "loop", "/dev/zero"];
    let script: String = odd.iter().map(|path| announce(path)).collect();
    let site = site(&format!(
        "cd \"$HPSEARCH_CHECKPOINT_DIR\"; mkfifo pipe 1.pipe; mv $OLDPWD/socket .\n\
         ln -s pipe link; ln -s gone nowhere; ln -s loop loop\n{script}{REPORT_X}"
    ));
    let _socket = UnixListener::bind(site.path("socket")).unwrap();
    assert_done(&site.run_study());
    let log = site.log(0, 0);
    assert_eq!(log.matches("this checkpoint is rejected").count(), odd.len(), "{log}");
    for what in ["a named pipe", "a socket", "a device", "leads nowhere"] {
        assert!(log.contains(what), "`{what}`: {log}");
    }
    let ended = site.run(&["export", "s", "-o", "model"]);
    assert_done(&ended);
    assert_names(&ended.err, &["has no checkpoint"]);
}

#[test]
fn what_a_command_puts_in_the_place_of_logs_and_parameters_holds_up_nobody_and_is_not_written_to() {
    let site = Site::new(
        &study("trials = 3", ONE_SLOT),
        &format!(
            "next=\"$HPSEARCH_CHECKPOINT_DIR/../../trial-$((HPSEARCH_TRIAL + 1))\"; mkdir -p \
             \"$next\"\n\
             if [ $HPSEARCH_TRIAL = 0 ]; then mkfifo \"$next/attempt-0.log\" \
             \"$next/params.json\"\n\
             else ln -s \"$PWD/mine\" \"$next/attempt-0.log\"; ln -s \"$PWD/mine\" \
             \"$next/params.json\"; fi\n\
             {REPORT_X}"
        ),
    );
    site.write("mine", "mine");
    assert_done(&site.run_study());
    assert_eq!((site.states(), site.read("mine")), (vec!["complete".to_owned(); 3], "mine".into()));
    let log = site.path("runs/files/s/trial-0/attempt-0.log");
    fs::remove_file(&log).unwrap();
    assert!(site.run_program("mkfifo", &[log.to_str().unwrap()]).is_some());
    let ended = site.run(&["logs", "s", "0"]);
    assert_refused(&ended, &["it is a named pipe"]);
}

#[test]
fn a_path_that_no_store_can_have_is_told_before_the_first_trial() {
    let site = site(&format!("echo > started\n{REPORT_X}"));
    let long = "x".repeat(250);
    let deep = ["d"; 300].join("/");
    for (store, words) in [
        ("new/", "/new/` is a directory, and a store is a file"),
        (long.as_str(), "names of up to 247"),
        (deep.as_str(), "paths of up to 504 bytes"),
    ] {
        let ended = site.run_study_with(&["--store", store]);
        assert_code(&ended, 5);
        assert!(ended.err.contains(words) && ended.err.contains("`--store PATH`"), "{}", ended.err);
    }
    assert!(["started", "new", "d"].iter().all(|name| !site.exists(name)));
}

#[test]
fn a_study_that_is_called_like_a_study_file_is_found_by_its_name() {
    let site = site(REPORT_X);
    site.write("study.toml", site.read("study.toml").replace("name = \"s\"", "name = \"a.toml\""));
    assert_done(&site.run_study());
    assert_done(&site.run(&["best", "a.toml"]));
    let ended = site.run(&["best", "b.toml"]);
    assert_refused(&ended, &["b.toml"]);
}

#[test]
fn a_store_that_is_emptied_while_it_is_in_use_ends_the_run() {
    let site = site(
        "echo > started; while [ ! -e go ]; do sleep 0.02; done\n\
         for step in 1 2 3; do echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"; read -r \
         answer; done\n",
    );
    let running = site.start_study();
    site.wait_for("started");
    fs::OpenOptions::new().write(true).open(site.path(STORE)).unwrap().set_len(0).unwrap();
    site.write("go", "");
    let ended = running.end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["was truncated while it was in use"]);
    assert!(!ended.out.contains("study s ended"), "{}", ended.out);
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn a_schema_version_that_no_store_has_is_told_in_one_line() {
    let site = site(REPORT_X);
    assert_done(&site.run_study());
    let database = site.database();
    database.pragma_update(None, "user_version", -1).unwrap();
    drop(database);
    for arguments in [&["ls"][..], &["run", "study.toml", "--plain"]] {
        let ended = site.run(arguments);
        assert_code(&ended, 5);
        assert!(
            ended.err.contains("its schema version is -1") && ended.err.lines().count() < 4,
            "{}",
            ended.err
        );
    }
}

#[test]
fn a_configuration_that_no_process_can_be_given_fails_its_trial_in_one_line() {
    // A word of an argument list ends at 128 KiB, a message to a supervisor at 1 MiB.
    for (bytes, why) in [(140_000, "Argument list too long"), (1_050_000, "are too many")] {
        let long = "v".repeat(bytes);
        let space = format!("x = [\"{long}\"]");
        let text = study("trials = 1\nfailures = 1", ONE_SLOT)
            .replace("x = { float = [0.0, 1.0] }", &space);
        let site = Site::new(&format!("{text}[retry]\nmax = 2\n"), REPORT_X);
        assert_eq!(site.run_study().code, 4);
        let trials = site.trials();
        let (reason, attempts) = (trials[0]["reason"].as_str().unwrap(), &trials[0]["attempts"]);
        assert!(reason.contains(why) && reason.len() < 300 && *attempts == 1, "{reason:.400}");
    }
}

#[test]
fn a_study_file_that_cannot_be_written_is_named() {
    let site = site(REPORT_X);
    let ended = site.run(&["init", "--command", "sh trial.sh --lr 0.1", "-o", "no/study.toml"]);
    assert_eq!(ended.code, 2);
    assert_names(&ended.err, &["error: `no/study.toml` cannot be written: "]);
    assert!(!Path::new(&site.path("no")).exists());
}

#[test]
fn values_without_end_are_cut_where_they_are_shown_and_whole_in_exports() {
    let long = ["a", "b"].map(|letter| letter.repeat(100_000));
    let choices = format!("big = [\"{}\", \"{}\"]\n", long[0], long[1]);
    let text = study("trials = 2", ONE_SLOT).replace("[space]\n", &format!("[space]\n{choices}"));
    assert!(text.len() > 200_000);
    let site = Site::new(&text, REPORT_X);
    assert_done(&site.run_study());
    let changed = "space.big=[\"c\"]";
    for words in [
        &["check", "study.toml"][..],
        &["check", "study.toml", "--set", changed],
        &["run", "study.toml", "--plain", "--set", changed],
        &["trials", "s"],
        &["show", "s"],
        &["show", "s", "0"],
        &["diff", "s", "0", "1"],
        &["explain", "s", "1"],
        &["plot", "parallel", "s"],
    ] {
        let ended = site.run(words);
        let length = ended.out.len() + ended.err.len();
        assert!(length < 20_000, "{words:?}: {length}");
    }
    assert_names(&site.run(&["show", "s", "0"]).out, &["... (100000 characters)"]);
    let csv = site.run(&["export-data", "s"]).out;
    assert!(long.iter().any(|value| csv.contains(value)));
}

#[test]
fn ten_thousand_parameters_are_checked_at_once() {
    let many: String =
        (0..10_000).map(|index| format!("p{index} = {{ float = [0.0, 1.0] }}\n")).collect();
    let text = study("trials = 2", ONE_SLOT).replace("[space]\n", &format!("[space]\n{many}"));
    let site = Site::new(&text, REPORT_X);
    let check = site.start(&["check", "study.toml"]);
    // Of processor time, which is the same however busy the machine is: more of it is a signal.
    let most = Rlimit { current: Some(15), maximum: None };
    prlimit(Pid::from_raw(check.id().cast_signed()), Resource::Cpu, most).unwrap();
    let checked = check.end();
    assert_done(&checked);
    assert_names(&checked.out, &["10001 parameters"]);
}
