//! The studies that ship run as they are, and none of their trials prints a rejected line.

use std::path::Path;
use std::process::Command;

use crate::harness::{Site, assert_done};

/// Runs a shipped command study in a directory of its own; gives its trials.
fn trials_of(study: &str, files: &[&str], trials: u32) -> Option<Vec<serde_json::Value>> {
    let program = if study == "shell" { "awk" } else { "python3" };
    if Command::new(program).arg("--version").output().is_err() {
        eprintln!("skipped: there is no {program}");
        return None;
    }
    let site = Site::empty();
    for file in files {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies").join(file);
        std::fs::copy(shipped, site.path(file)).unwrap();
    }
    let set = format!("budget.trials={trials}");
    let ran = site.run(&["run", &format!("{study}.toml"), "--plain", "--set", &set]);
    assert_done(&ran);
    assert!(!ran.err.contains("not taken") && !ran.err.contains("warning"), "{}", ran.err);
    assert_done(&site.run(&["verify", study]));
    let mut shown = site.json(&["trials", study, "--json"]);
    serde_json::from_value(shown["trials"].take()).unwrap()
}

#[test]
fn the_shipped_script_in_python_runs_without_a_remark_and_its_checkpoints_are_taken() {
    let Some(trials) = trials_of("command", &["command.toml", "train.py"], 6) else { return };
    assert_eq!(trials.len(), 6);
    assert!(trials.iter().any(|trial| trial["state"] == "complete"), "{trials:?}");
}

#[test]
fn the_shipped_script_for_a_shell_runs_without_a_remark() {
    let Some(trials) = trials_of("shell", &["shell.toml", "train.sh"], 6) else { return };
    assert_eq!(trials.len(), 6);
}
