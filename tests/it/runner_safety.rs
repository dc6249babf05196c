//! What a runner withstands: other PID namespaces, readers that do not read, machines that refuse, programs that say its words.

use std::path::Path;

use hpsearch::processes;
use hpsearch::runner;
use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::json;

use crate::commands::{ONE_SLOT, REPORT_X, Running, Site, assert_done, study, wait_until};

/// Runs until `go` is there; then reports.
fn held() -> String {
    format!("echo >> started\nwhile [ ! -e go ]; do sleep 0.02; done\n{REPORT_X}")
}

fn database(site: &Site) -> Connection {
    Connection::open(site.path("runs/hpsearch.db")).unwrap()
}

/// Starts hpsearch as the first process of a PID namespace of its own; `None` where the system does not let a user make one.
fn start_in_another_pid_namespace(site: &Site, arguments: &[&str]) -> Option<Running> {
    let unshare = Path::new("unshare");
    let namespace = ["-Urpf", "--mount-proc", "--kill-child"];
    let tried = site.run_program(unshare, &[&namespace[..], &["true"]].concat());
    if tried.is_none_or(|tried| tried.code != 0) {
        eprintln!("skipped: no PID namespace can be made here");
        return None;
    }
    Some(site.start_with(unshare, &[&namespace[..], &[env!("CARGO_BIN_EXE_hpsearch")], arguments].concat(), &[]))
}

#[test]
fn a_runner_in_another_pid_namespace_keeps_its_study_and_serves_what_is_asked() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held());
    let Some(running) = start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"]) else { return };
    wait_until("a trial runs", || site.path("started").exists());
    let second = site.run_study();
    assert_eq!(second.code, 5, "{}\n{}", second.out, second.err);
    assert!(second.err.contains("being run by process"), "{}", second.err);
    assert_done(&site.run(&["enqueue", "s", "x=0.25"]));
    let epochs: i64 = database(&site).query_row("SELECT epoch FROM lease", [], |row| row.get(0)).unwrap();
    assert_eq!(epochs, 1, "nobody took the study over, not for a moment");
    site.write("go", "");
    assert_done(&running.end());
    let listed = site.run(&["ls", "--json"]);
    assert!(listed.out.contains("\"finished\""), "{}", listed.out);
}

#[test]
fn a_runner_that_died_in_another_pid_namespace_is_replaced_at_once() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held());
    let Some(mut running) = start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"]) else { return };
    wait_until("a trial runs", || site.path("started").exists());
    // With the first process of a namespace everything in it dies.
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    site.write("go", "");
    wait_until("its lock is free", || !site.run(&["ls"]).out.contains("running"));
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
}

#[test]
fn a_runner_from_before_the_machine_was_started_anew_is_replaced_at_once() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    // Its process id and start time happen to be those of a process that lives now.
    let pid = std::process::id();
    let started = processes::start_time(pid).unwrap().cast_signed();
    let sql = "UPDATE lease SET pid = ?1, pid_started = ?2, host = ?3, acquired_at = 1, boot_id = 'the one before'";
    database(&site).execute(sql, rusqlite::params![pid, started, processes::host()]).unwrap();
    assert_done(&site.run(&["run", "study.toml", "--plain", "--set", "budget.trials=3"]));
    assert_eq!(site.states().len(), 3);
}

#[test]
fn a_runner_of_an_earlier_version_that_lives_keeps_its_study() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    let me = runner::this_process();
    let sql = "UPDATE lease SET pid = ?1, pid_started = ?2, host = ?3, acquired_at = 1, boot_id = NULL";
    database(&site).execute(sql, rusqlite::params![me.pid, me.pid_started.cast_signed(), me.host]).unwrap();
    let refused = site.run(&["run", "study.toml", "--plain", "--set", "budget.trials=3"]);
    assert_eq!(refused.code, 5, "{}", refused.err);
}

#[test]
fn whoever_looks_at_a_study_does_not_keep_a_runner_from_starting() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    database(&site)
        .execute(
            "UPDATE lease SET pid = 4194303, pid_started = 1, host = ?1, acquired_at = 1, boot_id = ?2",
            [processes::host(), processes::boot_id().unwrap()],
        )
        .unwrap();
    let looking =
        [0; 3].map(|_| site.start_with(Path::new("sh"), &["-c", &format!("while :; do '{}' ls; done", env!("CARGO_BIN_EXE_hpsearch"))], &[]));
    assert_done(&site.run(&["run", "study.toml", "--plain", "--set", "budget.trials=2"]));
    looking.iter().for_each(|looking| looking.signal(Signal::KILL));
    assert_eq!(site.trials()[1]["state"], json!("complete"));
}
