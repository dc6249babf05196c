//! What a runner withstands: other PID namespaces, readers that do not read, machines that refuse, programs that say its words.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hpsearch::engine::Outcome;
use hpsearch::engine::simulator::{Fault, Run, Simulation};
use hpsearch::runner;
use hpsearch::runner::processes;
use hpsearch::study::event::{AttemptEnd, Event};
use hpsearch::study::spec::PolicySpec;
use hpsearch::study::trial::{AttemptNumber, TrialNumber};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::json;

use crate::commands::{Ended, ONE_SLOT, REPORT_X, Running, Site, assert_done, study, wait_until};
use crate::engine::{loss, spec};
use crate::terminal::on_terminal;

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
    Some(site.start_with(
        unshare,
        &[&namespace[..], &[env!("CARGO_BIN_EXE_hpsearch")], arguments].concat(),
        &[],
    ))
}

#[test]
fn a_runner_in_another_pid_namespace_keeps_its_study_and_serves_what_is_asked() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held());
    let Some(running) = start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"])
    else {
        return;
    };
    wait_until("a trial runs", || site.path("started").exists());
    let second = site.run_study();
    assert_eq!(second.code, 5, "{}\n{}", second.out, second.err);
    assert!(second.err.contains("being run by process"), "{}", second.err);
    assert_done(&site.run(&["enqueue", "s", "x=0.25"]));
    let epochs: i64 =
        database(&site).query_row("SELECT epoch FROM lease", [], |row| row.get(0)).unwrap();
    assert_eq!(epochs, 1, "nobody took the study over, not for a moment");
    site.write("go", "");
    assert_done(&running.end());
    let listed = site.run(&["ls", "--json"]);
    assert!(listed.out.contains("\"finished\""), "{}", listed.out);
}

#[test]
fn a_runner_that_died_in_another_pid_namespace_is_replaced_at_once() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held());
    let Some(mut running) =
        start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"])
    else {
        return;
    };
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
fn a_runner_whose_lock_file_was_removed_keeps_its_study_and_makes_it_again() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held());
    let running = site.start_with(
        Path::new(env!("CARGO_BIN_EXE_hpsearch")),
        &["run", "study.toml", "--plain"],
        &[],
    );
    wait_until("a trial runs", || site.path("started").exists());
    let lock = site.path("runs/hpsearch.db.run-1");
    for _ in 0..3 {
        // While it is stopped it cannot mend anything: whoever comes meanwhile finds no lock, or one that it made itself.
        running.signal(Signal::STOP);
        fs::remove_file(&lock).unwrap();
        for _ in 0..2 {
            let second = site.run_study();
            assert_eq!(second.code, 5, "{}\n{}", second.out, second.err);
        }
        running.signal(Signal::CONT);
        wait_until("it has its lock again", || is_locked(&lock));
    }
    let epochs: i64 =
        database(&site).query_row("SELECT epoch FROM lease", [], |row| row.get(0)).unwrap();
    assert_eq!(epochs, 1, "nobody took the study over, not for a moment");
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.states(), ["complete", "complete"]);
}

fn is_locked(path: &Path) -> bool {
    use rustix::fs::{FlockOperation, flock};
    fs::File::open(path)
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

#[test]
fn a_runner_in_another_pid_namespace_whose_lock_file_was_removed_is_not_thrown_out() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held());
    let Some(running) = start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"])
    else {
        return;
    };
    wait_until("a trial runs", || site.path("started").exists());
    let lock = site.path("runs/hpsearch.db.run-1");
    for _ in 0..3 {
        fs::remove_file(&lock).unwrap();
        let second = site.run_study();
        assert_eq!(second.code, 5, "{}\n{}", second.out, second.err);
    }
    wait_until("it has its lock again", || is_locked(&lock));
    assert_done(&site.run(&["enqueue", "s", "x=0.25"]));
    site.write("go", "");
    assert_done(&running.end());
}

#[test]
fn a_runner_that_died_and_whose_lock_file_was_removed_is_replaced_where_its_process_id_means_something()
 {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held());
    let mut running = site.start_with(
        Path::new(env!("CARGO_BIN_EXE_hpsearch")),
        &["run", "study.toml", "--plain"],
        &[],
    );
    wait_until("a trial runs", || site.path("started").exists());
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    fs::remove_file(site.path("runs/hpsearch.db.run-1")).unwrap();
    site.write("go", "");
    // From elsewhere nobody can tell.
    let Some(elsewhere) = start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"])
    else {
        return;
    };
    let refused = elsewhere.end();
    assert_eq!(refused.code, 5, "{}\n{}", refused.out, refused.err);
    assert!(refused.err.contains("--take-over"), "{}", refused.err);
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
    let sql =
        "UPDATE lease SET pid = ?1, pid_started = ?2, host = ?3, acquired_at = 1, boot_id = NULL";
    database(&site)
        .execute(sql, rusqlite::params![me.pid, me.pid_started.cast_signed(), me.host])
        .unwrap();
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
    let looking = [0; 3].map(|_| {
        site.start_with(
            Path::new("sh"),
            &["-c", &format!("while :; do '{}' ls; done", env!("CARGO_BIN_EXE_hpsearch"))],
            &[],
        )
    });
    assert_done(&site.run(&["run", "study.toml", "--plain", "--set", "budget.trials=2"]));
    looking.iter().for_each(|looking| looking.signal(Signal::KILL));
    assert_eq!(site.trials()[1]["state"], json!("complete"));
}

/// Starts hpsearch with its output in a pipe that nobody reads, and which is full.
fn start_unread(site: &Site, form: &str, and_errors: bool) -> (Running, std::process::ChildStdout) {
    let script = format!(
        "{} exec '{}' run study.toml {form}",
        if and_errors { "exec 2>&1;" } else { "" },
        env!("CARGO_BIN_EXE_hpsearch")
    );
    // What fits a pipe is written first: from then on every line waits.
    let script = format!("head -c 65500 /dev/zero | tr '\\0' '.'; {script}");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(site.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let unread = child.stdout.take().unwrap();
    (Running::of(child, "run, unread"), unread)
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_trial_and_not_the_end() {
    for (form, and_errors) in [("--plain", false), ("--events", true)] {
        let site = Site::new(&study("trials = 60", ONE_SLOT), REPORT_X);
        let (running, unread) = start_unread(&site, form, and_errors);
        assert_done(&running.end());
        assert_eq!(site.states(), vec!["complete"; 60]);
        drop(unread);
    }
}

#[test]
fn two_interrupts_end_a_run_whose_output_nobody_reads() {
    let script = "trap 'echo >> told' TERM\necho started >> started\nwhile :; do sleep 1; done\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    let (running, _unread) = start_unread(&site, "--plain", true);
    wait_until("the trial runs", || site.path("started").exists());
    running.signal(Signal::INT);
    wait_until("SIGTERM arrives", || site.path("told").exists());
    running.signal(Signal::INT);
    assert_eq!(running.end().code, 130);
    assert_eq!(site.processes(""), [0; 0]);
}

#[test]
fn a_limit_on_a_trials_time_is_kept_while_nobody_reads() {
    let site = Site::new(
        &study("trials = 1\ncount = \"all\"\ntrial_time = \"1s\"", ONE_SLOT),
        "sleep 310\n",
    );
    let (running, _unread) = start_unread(&site, "--events", false);
    assert_eq!(running.end().code, 3);
    assert_eq!(site.states(), ["failed"]);
}

/// A study of `trials` trials on `slots` slots in which what `faults` says goes wrong.
fn simulated(
    trials: u64,
    slots: usize,
    faults: impl Fn(TrialNumber, AttemptNumber, u64) -> Option<Fault> + Send + Sync + 'static,
) -> Simulation {
    let mut simulation =
        Simulation::new(spec(trials, "random", PolicySpec::named("none")), slots, 4, loss);
    simulation.faults = Box::new(faults);
    simulation
}

fn ended(run: &Run, end: &AttemptEnd) -> usize {
    run.turns
        .iter()
        .flat_map(|turn| &turn.events)
        .filter(|event| matches!(event, Event::AttemptEnded { end: found, .. } if found == end))
        .count()
}

#[test]
fn what_the_machine_refuses_waits_and_is_no_trials_fault() {
    let run =
        simulated(6, 2, |_, attempt, _| (attempt.0 < 3).then_some(Fault::Refuse)).run(&[]).unwrap();
    assert!(matches!(run.outcome, Outcome::Finished(_)), "{:?}", run.outcome);
    assert_eq!((run.view.counts.complete, run.view.counts.failed), (6, 0));
    assert!(run.view.trials.iter().all(|trial| trial.failures == 0));
    // After one, two and four seconds for the first ones: not at full speed.
    assert!(run.turns.last().unwrap().at.0 >= 7_000_000, "{:?}", run.turns.last());
}

#[test]
fn a_run_ends_when_the_machine_refuses_again_and_again_and_the_study_goes_on_later() {
    let run =
        simulated(6, 3, |trial, _, _| (trial.0 > 2).then_some(Fault::Refuse)).run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, Outcome::Refused(why) if why.contains("refused what trials need")),
        "{:?}",
        run.outcome
    );
    assert_eq!(
        (run.view.counts.complete, run.view.counts.failed, run.view.counts.queued),
        (3, 0, 3)
    );
    assert_eq!(run.view.finished, None);
    let refused = ended(&run, &AttemptEnd::Refused);
    assert!((10..=30).contains(&refused), "{refused}");
    let next = simulated(6, 3, |_, _, _| None).run(&run.turns).unwrap();
    assert!(matches!(next.outcome, Outcome::Finished(_)), "{:?}", next.outcome);
    assert_eq!((next.view.counts.complete, next.view.counts.failed), (6, 0));
}

#[test]
fn a_checkpoint_that_does_not_fit_fails_no_trial_and_ends_the_run_in_time() {
    // Each attempt trains up to its third step, for a minute each: what it reports on the way does not count as getting on.
    let mut simulation = simulated(4, 1, |_, _, step| (step == 3).then_some(Fault::Refuse));
    simulation.step_time = Duration::from_secs(60);
    let run = simulation.run(&[]).unwrap();
    assert!(matches!(run.outcome, Outcome::Refused(_)), "{:?}", run.outcome);
    assert_eq!(run.view.counts.failed, 0);
    assert!(
        (1..=10).contains(&ended(&run, &AttemptEnd::Refused)),
        "{}",
        ended(&run, &AttemptEnd::Refused)
    );
}

#[test]
fn while_a_trial_runs_the_others_wait_for_the_machine_as_long_as_it_takes() {
    // One trial of an hour; beside it nothing can be started for half of that.
    let run = simulated(3, 2, |trial, attempt, _| {
        (trial.0 > 0 && attempt.0 < 40).then_some(Fault::Refuse)
    });
    let run = Simulation { pace: Box::new(|_| 9_000.0), ..run }.run(&[]).unwrap();
    assert!(matches!(run.outcome, Outcome::Finished(_)), "{:?}", run.outcome);
    assert_eq!((run.view.counts.complete, run.view.counts.failed), (3, 0));
}

#[test]
fn ten_failures_in_a_row_end_a_study_that_had_a_success() {
    let run =
        simulated(100, 2, |trial, _, _| (trial.0 > 3).then_some(Fault::Fail)).run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, Outcome::TooManyFailures(why) if why.starts_with("10 trials in a row failed")),
        "{:?}",
        run.outcome
    );
    assert!(run.view.counts.complete >= 3 && run.view.counts.failed <= 12, "{:?}", run.view.counts);
    // One that succeeds among them begins a new row.
    let run =
        simulated(8, 1, |trial, _, _| (trial.0 % 9 != 0).then_some(Fault::Fail)).run(&[]).unwrap();
    assert!(matches!(run.outcome, Outcome::Finished(_)), "{:?}", run.outcome);
    // Who says how many may fail is taken at the word.
    let mut limited =
        simulated(4, 1, |trial, _, _| (trial.0 > 1 && trial.0 < 40).then_some(Fault::Fail));
    limited.spec.budget.failures = Some(1000);
    assert!(matches!(limited.run(&[]).unwrap().outcome, Outcome::Finished(_)));
}

/// The children of a runner that have children: its watchdog has none.
fn supervisors(running: &Running) -> Vec<u32> {
    processes::children(running.child.id())
        .into_iter()
        .filter(|pid| !processes::children(*pid).is_empty())
        .collect()
}

const SOON: &[(&str, &str)] = &[("HPSEARCH_FIRST_WAIT", "0.01")];

/// A study of so many trials, whose run meets obstacles that `plant` puts in its way while its first trial runs.
fn obstructed(trials: u32, plant: impl FnOnce(&Site)) -> (Site, Ended) {
    let site = Site::new(
        &study(&format!("trials = {trials}"), ONE_SLOT),
        &format!("touch begun; while [ ! -e go ]; do sleep 0.01; done\n{REPORT_X}"),
    );
    let running = site.start_with(
        Path::new(env!("CARGO_BIN_EXE_hpsearch")),
        &["run", "study.toml", "--plain"],
        SOON,
    );
    wait_until("the first trial runs", || site.path("begun").exists());
    plant(&site);
    site.write("go", "");
    let ended = running.end();
    (site, ended)
}

#[test]
fn a_directory_that_cannot_be_made_ends_the_run_and_no_trial_and_the_study_goes_on() {
    let (site, ended) = obstructed(3, |site| site.write("runs/files/s/trial-1", "in the way"));
    assert_eq!(ended.code, 5, "{}\n{}", ended.out, ended.err);
    for words in ["cannot make `", "runs/files/s/trial-1`", "go on with: hpsearch run study.toml"] {
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
    let said = ended
        .out
        .lines()
        .filter(|line| line.contains("the machine refuses what trial 1 needs"))
        .count();
    assert_eq!(said, 1, "{}", ended.out);
    assert_eq!(site.states(), ["complete", "queued"]);
    fs::remove_file(site.path("runs/files/s/trial-1")).unwrap();
    assert_done(&site.run_study());
    assert_eq!(site.states(), vec!["complete"; 3]);
    assert_eq!(site.trials()[1]["failures"].as_u64().unwrap_or(0), 0);
}

#[test]
fn a_file_in_the_place_of_a_studys_directory_is_told_before_anything_is_started() {
    let site = Site::new(&study("trials = 3", ONE_SLOT), REPORT_X);
    fs::create_dir_all(site.path("runs")).unwrap();
    site.write("runs/files", "in the way");
    let ended = site.run_study();
    assert_eq!((ended.code, site.states().len()), (5, 0), "{}\n{}", ended.out, ended.err);
    assert!(ended.err.contains("cannot be used for the files of trials"), "{}", ended.err);
    fs::remove_file(site.path("runs/files")).unwrap();
    assert_done(&site.run_study());
}

#[test]
fn a_trial_whose_own_directory_is_in_the_way_waits_too() {
    // The supervisor makes it, not the runner.
    let (site, ended) = obstructed(2, |site| {
        fs::create_dir_all(site.path("runs/files/s/trial-1")).unwrap();
        site.write("runs/files/s/trial-1/checkpoints", "in the way");
    });
    assert_eq!(
        (ended.code, site.states()),
        (5, vec!["complete".to_owned(), "queued".to_owned()]),
        "{}\n{}",
        ended.out,
        ended.err
    );
    fs::remove_file(site.path("runs/files/s/trial-1/checkpoints")).unwrap();
    assert_done(&site.run_study());
}

#[test]
fn a_runner_without_enough_open_files_fails_no_trial() {
    let rest = "[devices]\nuse = [\"sim:0\"]\ntrials_per_device = 30\n[pruner]\ntype = \"none\"\n";
    let script = format!(
        "echo $HPSEARCH_TRIAL >> started\nwhile [ ! -e go ]; do sleep 0.02; done\n{REPORT_X}"
    );
    let site = Site::new(&study("trials = 40", rest), &script);
    let limited =
        format!("ulimit -n 100; exec '{}' run study.toml --plain", env!("CARGO_BIN_EXE_hpsearch"));
    let running = site.start_with(Path::new("sh"), &["-c", &limited], SOON);
    wait_until("the machine refuses more", || {
        running.said_so_far().contains("the machine refuses what trial")
    });
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.states(), vec!["complete"; 40]);
}

#[test]
fn a_program_that_fails_after_one_success_does_not_fail_for_ever() {
    let site = Site::new(
        &study("trials = 5", ONE_SLOT),
        &format!("[ $HPSEARCH_TRIAL = 0 ] || exit 3\n{REPORT_X}"),
    );
    let ended = site.run_study();
    assert_eq!(ended.code, 4, "{}\n{}", ended.out, ended.err);
    assert!(
        ended.out.contains("10 trials in a row failed; the last: exit status 3"),
        "{}",
        ended.out
    );
    assert_eq!(site.states().len(), 11);
}

#[test]
fn what_a_command_leaves_behind_is_buried_while_it_runs() {
    let script = "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); (sleep 0 &) ; done\n\
        echo > forked; while [ ! -e go ]; do sleep 0.02; done\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), &format!("{script}{REPORT_X}"));
    let running = site.start(&["run", "study.toml", "--plain"]);
    wait_until("it has left orphans", || site.path("forked").exists());
    let supervisor = supervisors(&running)[0];
    wait_until("the dead are gone", || {
        let dead = processes::children(supervisor)
            .into_iter()
            .filter(|pid| processes::start_time(*pid).is_none())
            .count();
        dead == 0
    });
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.states(), ["complete"]);
}

#[test]
fn a_program_that_reads_its_answers_late_gets_all_of_them() {
    let script = "i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); echo \"@hpsearch {\\\"step\\\":$i,\\\"loss\\\":$i}\"; done\n\
        while [ ! -e go ]; do sleep 0.02; done; sleep 0.5\n\
        i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); read -r answer || exit 9; done; echo $i > answers\n";
    let site = Site::new(&study("trials = 1\nstall_time = \"20s\"", ONE_SLOT), script);
    let running = site.start(&["run", "study.toml", "--plain"]);
    wait_until("everything is answered", || {
        site.trials().first().is_some_and(|trial| trial["last_step"] == json!(5000))
    });
    site.write("go", "");
    assert_done(&running.end());
    assert_eq!(site.read("answers"), "5000\n");
}

#[test]
fn answers_to_a_stopped_supervisor_hold_up_nobody() {
    // The first trial's supervisor reads nothing any more, while its command reports and reports.
    let script = "[ $HPSEARCH_TRIAL = 1 ] || { kill -STOP $PPID; i=0\n\
        while [ $i -lt 6000 ]; do i=$((i + 1)); echo \"@hpsearch {\\\"step\\\":$i,\\\"loss\\\":$i}\"; done; echo > told; }\n\
        while [ ! -e go ]; do sleep 0.02; done\necho '@hpsearch {\"step\":9000,\"loss\":1}'\n";
    let site = Site::new(
        &study("trials = 2", "[devices]\nuse = [\"sim:0..1\"]\n[pruner]\ntype = \"none\""),
        script,
    );
    let running = site.start(&["run", "study.toml", "--plain"]);
    wait_until("everything is reported", || site.path("told").exists());
    wait_until("everything is heard", || {
        site.trials().first().is_some_and(|trial| trial["last_step"] == json!(6000))
    });
    site.write("go", "");
    wait_until("the other trial is done", || {
        site.states().get(1).is_some_and(|state| state == "complete")
    });
    let stopped: Vec<u32> = processes::children(running.child.id())
        .into_iter()
        .filter(|pid| processes::is_stopped(*pid))
        .collect();
    stopped.iter().for_each(|pid| processes::signal(*pid, Signal::CONT));
    assert_done(&running.end());
    assert_eq!(site.states(), ["complete", "complete"]);
}

#[test]
fn the_words_of_a_supervisor_mean_nothing_in_a_commands_mouth() {
    let site = Site::new(
        &study("trials = 1\ncount = \"all\"", ONE_SLOT),
        "echo '@hpsearch {\"hpsearch_end\":\"finished\"}'\n\
        echo '@hpsearch {\"step\":1,\"loss\":1}'\nexit 3\n",
    );
    assert_eq!(site.run_study().code, 3);
    let trial = &site.trials()[0];
    assert_eq!((&trial["state"], &trial["reason"]), (&json!("failed"), &json!("exit status 3")));
    assert!(
        site.log(0, 0)
            .contains("the line above was not understood: these are words of hpsearch's own"),
        "{}",
        site.log(0, 0)
    );
    for end in ["interrupted", "failed", "refused", "oom"] {
        let line = format!(
            "echo '@hpsearch {{\"hpsearch_end\":\"{end}\",\"message\":\"mine\"}}'\n{REPORT_X}"
        );
        let site = Site::new(&study("trials = 1", ONE_SLOT), &line);
        assert_done(&site.run_study());
        let trial = &site.trials()[0];
        assert_eq!((&trial["state"], &trial["attempts"]), (&json!("complete"), &json!(1)), "{end}");
    }
}

#[test]
fn an_open_last_line_and_empty_lines_stay_as_they_were_printed() {
    let site = Site::new(
        &study("trials = 1", ONE_SLOT),
        &format!("printf '\\n\\na\\n\\n'\n{REPORT_X}printf 'open'\n"),
    );
    assert_done(&site.run_study());
    let log = fs::read_to_string(site.path("runs/files/s/trial-0/attempt-0.log")).unwrap();
    assert_eq!(log, "\n\na\n\nopen");
}

/// Goes on until it is told to leave, and says that it was told.
const SAVES: &str = "trap 'echo saved > saved.$HPSEARCH_TRIAL; exit 0' TERM\necho > started\nwhile :; do sleep 0.02; done\n";

#[test]
fn a_run_without_a_screen_saves_and_leaves_when_its_terminal_is_closed() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), SAVES);
    let running = site.start(&["run", "study.toml", "--plain"]);
    wait_until("the trial runs", || site.path("started").exists());
    // Twice, as when a terminal goes: the second shall not kill what leaves because of the first.
    running.signal(Signal::HUP);
    wait_until("it is told to leave", || site.path("saved.0").exists());
    running.signal(Signal::HUP);
    let ended = running.end();
    assert_eq!(
        (ended.code, site.states()),
        (129, vec!["queued".to_owned()]),
        "{}\n{}",
        ended.out,
        ended.err
    );
    assert!(
        site.path("saved.0").exists() && ended.err.contains("go on with: hpsearch run study.toml"),
        "{}",
        ended.err
    );
    assert_eq!(site.processes(""), [0; 0]);
}

#[test]
fn a_run_that_was_started_with_nohup_stays_when_its_terminal_is_closed() {
    let script = format!("echo > started; while [ ! -e go ]; do sleep 0.02; done\n{REPORT_X}");
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    let ignoring =
        format!("trap '' HUP; exec '{}' run study.toml --plain", env!("CARGO_BIN_EXE_hpsearch"));
    let running = site.start_with(Path::new("sh"), &["-c", &ignoring], &[]);
    wait_until("the trial runs", || site.path("started").exists());
    running.signal(Signal::HUP);
    site.write("go", "");
    assert_done(&running.end());
}

#[test]
fn a_run_on_a_screen_saves_and_leaves_no_process_when_its_terminal_is_closed() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), SAVES);
    let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_hpsearch"));
    command.args(["run", "study.toml"]);
    command.cwd(site.path(""));
    command.env("TERM", "xterm-256color");
    command.env_remove("HPSEARCH_STORE");
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    wait_until("the trial runs", || site.path("started").exists());
    drop(pair.master);
    let mut code = None;
    wait_until("the run ends", || {
        code = child.try_wait().unwrap().map(|status| status.exit_code());
        code.is_some()
    });
    assert_eq!(code, Some(129));
    assert_eq!((site.states(), site.path("saved.0").exists()), (vec!["queued".to_owned()], true));
    assert_eq!(site.processes(""), [0; 0]);
    let journal = site.run(&["events", "s", "--json"]).out;
    assert!(journal.lines().last().unwrap().contains("runner_stopped"), "{journal}");
}

#[test]
fn a_terminal_that_cannot_draw_gets_lines() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), REPORT_X);
    let (printed, code) =
        on_terminal(&site.path(""), &["run", "study.toml"], &[("TERM", "dumb")], "");
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("trial 1 complete with ") && !printed.contains('\u{1b}'), "{printed}");
    let (printed, code) = on_terminal(&site.path(""), &["watch", "s"], &[("TERM", "dumb")], "");
    assert!(
        code == 2 && printed.contains("needs a terminal that can draw, and `TERM` is `dumb`"),
        "{printed}"
    );
}

#[test]
fn what_a_runner_and_its_supervisor_leave_that_are_killed_at_once_is_ended_by_the_watchdog() {
    let script =
        format!("setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 311; done' &\n{}", held());
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    let mut running = site.start(&["run", "study.toml", "--plain"]);
    wait_until("the trial runs", || site.path("started").exists());
    let mut at_once = supervisors(&running);
    assert_eq!(at_once.len(), 1);
    at_once.push(running.child.id());
    at_once.iter().for_each(|pid| processes::signal(*pid, Signal::STOP));
    at_once.iter().for_each(|pid| processes::kill(*pid));
    running.child.wait().unwrap();
    wait_until("what they left is gone", || site.processes("").is_empty());
    site.write("go", "");
    assert_done(&site.run_study());
}

#[test]
fn what_hides_its_origin_is_killed_with_the_control_group_of_its_run() {
    let Some(group) = processes::ControlGroup::make(&format!("{}.0", std::process::id())) else {
        println!(
            "no control group can be made here: the watchdog finds what carries the run's mark, and nothing else"
        );
        return;
    };
    group.end();
    let script = format!(
        "env -i setsid sh -c 'trap \"\" TERM HUP; echo $$ > hidden; while :; do sleep 311; done' &\n{}",
        held()
    );
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    let mut running = site.start(&["run", "study.toml", "--plain"]);
    wait_until("the trial runs", || {
        site.path("started").exists() && site.read("hidden").ends_with('\n')
    });
    let hidden: u32 = site.read("hidden").trim().parse().unwrap();
    let mut at_once = supervisors(&running);
    at_once.push(running.child.id());
    at_once.iter().for_each(|pid| processes::signal(*pid, Signal::STOP));
    at_once.iter().for_each(|pid| processes::kill(*pid));
    running.child.wait().unwrap();
    wait_until("what hid is gone", || processes::start_time(hidden).is_none());
    site.write("go", "");
    assert_done(&site.run_study());
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    assert!(!group.directory().exists(), "{own}");
}

#[test]
fn a_watchdog_leaves_with_its_run_and_touches_nothing_of_the_next() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &held());
    let mut first = site.start(&["run", "study.toml", "--plain"]);
    wait_until("the trial runs", || site.path("started").exists());
    let watchdogs = |running: &Running| {
        processes::children(running.child.id())
            .into_iter()
            .filter(|pid| processes::children(*pid).is_empty())
            .collect::<Vec<_>>()
    };
    let of_the_first = watchdogs(&first);
    assert_eq!(of_the_first.len(), 1);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    fs::remove_file(site.path("started")).unwrap();
    let second = site.start(&["run", "study.toml", "--plain"]);
    wait_until("the trial runs again", || site.path("started").exists());
    wait_until("the first watchdog has done its work", || {
        of_the_first.iter().all(|pid| processes::start_time(*pid).is_none())
    });
    let of_the_second = watchdogs(&second);
    site.write("go", "");
    assert_done(&second.end());
    assert_eq!(site.trials()[0]["attempts"], json!(2));
    assert!(of_the_second.iter().all(|pid| !processes::exists(*pid)), "it is gone with its run");
}
