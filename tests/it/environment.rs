//! What a run finds around it: inherited signals, suspensions, few open files, a directory that is
//! gone, files that cannot be removed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hpsearch::runner::processes;
use rustix::process::Signal;

use crate::harness::{
    ONE_SLOT, REPORT_X, Running, Site, assert_code, assert_done, assert_names, study, wait_until,
};

/// hpsearch as a parent starts it that ignores and blocks signals.
const SHUT: &str =
    "exec env --ignore-signal=CHLD,TERM,USR1,HUP --block-signal=TERM,INT,USR2 \"$0\"";

/// Writes which signals its shell ignores and blocks, without another process.
const MASKS: &str = "while read -r line; do\n  \
    case $line in SigIgn:* | SigBlk:*) echo \"$line\" ;; esac\ndone < /proc/self/status > masks\n";

/// The signals in a line of the file `masks`.
fn mask(site: &Site, name: &str) -> u64 {
    let lines = site.lines("masks");
    let line = lines.iter().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

fn assert_open(site: &Site) {
    assert_eq!(mask(site, "SigBlk"), 0);
    let ignored = mask(site, "SigIgn");
    for signal in [Signal::CHILD, Signal::TERM, Signal::USR1] {
        assert_eq!(ignored >> (signal.as_raw() - 1) & 1, 0, "{signal:?} is ignored");
    }
    assert_eq!(ignored >> (Signal::HUP.as_raw() - 1) & 1, 1, "as `nohup` has it");
}

#[test]
fn ignored_and_blocked_signals_of_a_parent_do_not_reach_trials_and_lose_no_exit_status() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &format!("{MASKS}{REPORT_X}"));
    assert_done(&site.start_shell(&format!("{SHUT} run study.toml --plain")).end());
    assert_eq!(site.states(), ["complete"]);
    assert_eq!(site.trials()[0]["attempts"], 1);
    assert_open(&site);
    // A tracked run ends with the exit status of its program.
    site.write("status.sh", format!("{MASKS}exit 9\n"));
    assert_code(&site.start_shell(&format!("{SHUT} track -- sh status.sh")).end(), 9);
    assert_open(&site);
}

/// A study whose trial reports every 0.2 s without waiting for answers, with limits that are
/// exceeded only if a suspension counts.
fn reporting(reports: u32) -> (Site, Running) {
    let limits = "trials = 1\nstall_time = \"4s\"\ntrial_time = \"7s\"";
    let script = format!(
        "for step in $(seq {reports}); do\n  \
         echo \"@hpsearch {{\\\"step\\\":$step,\\\"loss\\\":1}}\"\n  \
         echo >> reported\n  sleep 0.2\ndone\n"
    );
    let site = Site::new(&study(limits, ONE_SLOT), &script);
    let running = site.start_study();
    site.wait_for_lines("reported", 1);
    (site, running)
}

fn assert_untroubled(site: &Site, running: Running) {
    running.signal(Signal::CONT);
    assert_done(&running.end());
    assert_eq!(site.states(), ["complete"]);
    assert_eq!(site.trials()[0]["attempts"], 1);
    let reports: i64 = site.query("SELECT count(*) FROM report");
    assert_eq!(usize::try_from(reports).unwrap(), site.lines("reported").len());
    assert_done(&site.run(&["verify", "s"]));
}

#[test]
fn a_suspended_runner_does_not_count_the_time_towards_the_limits_of_its_trials() {
    let (site, running) = reporting(40);
    running.stop();
    site.wait_for_lines("reported", 36);
    assert_untroubled(&site, running);
}

#[test]
fn a_suspended_run_does_not_count_the_time_towards_the_limits_of_its_trials() {
    let (site, running) = reporting(10);
    running.stop();
    let others = processes::descendants(running.id());
    others.iter().for_each(|pid| processes::signal(*pid, Signal::STOP));
    let began = Instant::now();
    wait_until("the limits have passed", || began.elapsed() > Duration::from_secs(8));
    others.iter().for_each(|pid| processes::signal(*pid, Signal::CONT));
    assert_untroubled(&site, running);
}

#[test]
fn too_few_open_files_are_no_reason_to_take_a_marker_for_a_bad_or_foreign_one() {
    let site = Site::empty();
    assert_done(&site.run(&["track", "--study", "z", "--", "true"]));
    let mut refused = 0;
    for most in 6..20 {
        let limited = |command: &str| {
            site.start_shell(&format!("ulimit -n {most}; exec \"$0\" {command}")).end()
        };
        let collected = limited("gc --dry-run");
        assert!(!collected.err.contains("remove it yourself"), "{most}: {}", collected.err);
        let tracked = limited("track --study z -- true");
        assert!(!tracked.err.contains("another store"), "{most}: {}", tracked.err);
        refused += u32::from(tracked.code != 0);
    }
    assert!(refused > 0, "files were never too few");
    let directories = fs::read_dir(site.path("runs/files")).unwrap();
    let names = directories.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["z"]);
}

#[test]
fn a_working_directory_that_was_removed_is_named() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    let file = site.path("study.toml");
    let removed = "mkdir gone; cd gone; rmdir ../gone; exec \"$0\"";
    for command in [format!("run {} --plain", file.display()), "track -- true".to_owned()] {
        let ended = site.start_shell(&format!("{removed} {command}")).end();
        assert_code(&ended, 2);
        assert_names(&ended.err, &["the working directory was removed", "`cd`"]);
    }
    let ended = site.start_shell(&format!("{removed} ls")).end();
    assert_names(&ended.err, &["the working directory was removed"]);
}

/// Whether the attribute by which a file cannot be removed is set, or not any more.
fn set_immutable(path: &Path, change: &str) -> bool {
    Command::new("chattr").arg(change).arg(path).output().is_ok_and(|done| done.status.success())
}

#[test]
fn what_the_system_does_not_let_go_is_named_where_it_is() {
    let saves = "echo weights > $HPSEARCH_CHECKPOINT_DIR/kept\n";
    let site = Site::new(&study("trials = 2", ONE_SLOT), &format!("{saves}{REPORT_X}"));
    assert_done(&site.run_study());
    let kept = "trial-1/checkpoints/kept";
    if !set_immutable(&site.path("runs/files/s").join(kept), "+i") {
        eprintln!("skipped: no file can be made immutable here");
        return;
    }
    let ended = site.run(&["rm", "s", "--yes"]);
    let entries = fs::read_dir(site.path("runs/files")).unwrap();
    let aside = entries.map(|entry| entry.unwrap().path()).find(|path| path.join(kept).exists());
    let aside = aside.unwrap();
    set_immutable(&aside.join(kept), "-i");
    assert_done(&ended);
    let name = format!("`runs/files/{}` (", aside.file_name().unwrap().to_str().unwrap());
    assert_names(&ended.err, &[&name, "the system refuses its removal"]);
    assert_done(&site.run(&["gc", "--yes"]));
    assert!(!aside.exists());
}
