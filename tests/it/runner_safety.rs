//! What a runner withstands: other PID namespaces, readers that do not read, machines that refuse,
//! programs that say its words.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hpsearch::engine::RunOutcome;
use hpsearch::engine::simulator::{Fault, Simulation, SimulationResult};
use hpsearch::runner;
use hpsearch::runner::processes;
use hpsearch::study::event::{AttemptEnd, AttemptEvent, Event, RunnerEvent, TrialEvent};
use hpsearch::study::spec::AlgorithmSpec;
use hpsearch::study::trial::{AttemptNumber, TrialNumber};
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{
    Ended, ONE_SLOT, PROGRAM, REPORT_X, Running, Site, TWO_SLOTS, assert_code, assert_done,
    assert_names, events, held, loss, on_terminal, on_unread_terminal, spec, study, wait_until,
};

/// Starts hpsearch as the first process of a PID namespace of its own; `None` where the system does
/// not let a user make one.
fn start_in_another_pid_namespace(site: &Site, arguments: &[&str]) -> Option<Running> {
    let namespace = ["-Urpf", "--mount-proc", "--kill-child"];
    let tried = site.run_program("unshare", &[&namespace[..], &["true"]].concat());
    if tried.is_none_or(|tried| tried.code != 0) {
        eprintln!("skipped: no PID namespace can be made here");
        return None;
    }
    Some(site.start_program("unshare", &[&namespace[..], &[PROGRAM], arguments].concat()))
}

#[test]
fn a_runner_in_another_pid_namespace_keeps_its_study_and_serves_what_is_asked() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held(REPORT_X));
    let Some(running) = start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"])
    else {
        return;
    };
    site.wait_for("started");
    let second = site.run_study();
    assert_code(&second, 5);
    assert_names(&second.err, &["being run by process"]);
    assert_done(&site.run(&["enqueue", "s", "x=0.25"]));
    let epochs: i64 =
        site.database().query_row("SELECT epoch FROM lease", [], |row| row.get(0)).unwrap();
    assert_eq!(epochs, 1, "nobody took the study over, not for a moment");
    site.write("go", "");
    assert_done(&running.end());
    let listed = site.run(&["ls", "--json"]);
    assert_names(&listed.out, &["\"finished\""]);
}

#[test]
fn a_runner_that_died_in_another_pid_namespace_is_replaced_at_once() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held(REPORT_X));
    let Some(mut running) =
        start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"])
    else {
        return;
    };
    site.wait_for("started");
    // With the first process of a namespace everything in it dies.
    running.kill();
    site.write("go", "");
    wait_until("its lock is free", || !site.run(&["ls"]).out.contains("running"));
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
}

#[test]
fn a_runner_whose_lock_file_was_removed_keeps_its_study_and_makes_it_again() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held(REPORT_X));
    let running = site.start_study();
    site.wait_for("started");
    let lock = site.path("runs/hpsearch.db.run-1");
    for _ in 0..3 {
        // While it is stopped it cannot repair anything: whoever comes meanwhile finds no lock, or
        // one that it made itself.
        running.stop();
        fs::remove_file(&lock).unwrap();
        for _ in 0..2 {
            let second = site.run_study();
            assert_code(&second, 5);
        }
        running.signal(Signal::CONT);
        wait_until("it has its lock again", || is_locked(&lock));
    }
    let epochs: i64 =
        site.database().query_row("SELECT epoch FROM lease", [], |row| row.get(0)).unwrap();
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
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held(REPORT_X));
    let Some(running) = start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"])
    else {
        return;
    };
    site.wait_for("started");
    let lock = site.path("runs/hpsearch.db.run-1");
    for _ in 0..3 {
        fs::remove_file(&lock).unwrap();
        let second = site.run_study();
        assert_code(&second, 5);
    }
    wait_until("it has its lock again", || is_locked(&lock));
    assert_done(&site.run(&["enqueue", "s", "x=0.25"]));
    site.write("go", "");
    assert_done(&running.end());
}

#[test]
fn a_dead_runner_whose_lock_file_was_removed_is_replaced_where_its_process_id_means_something() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &held(REPORT_X));
    let mut running = site.start_study();
    site.wait_for("started");
    running.kill();
    let lock = site.path("runs/hpsearch.db.run-1");
    // Kept open: a lock file with the freed inode would show that the runner is dead.
    let _open = fs::File::open(&lock).unwrap();
    fs::remove_file(lock).unwrap();
    site.write("go", "");
    // From elsewhere nobody can tell.
    let Some(elsewhere) = start_in_another_pid_namespace(&site, &["run", "study.toml", "--plain"])
    else {
        return;
    };
    let refused = elsewhere.end();
    assert_code(&refused, 5);
    assert_names(&refused.err, &["--take-over"]);
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
}

#[test]
fn a_runner_from_before_the_machine_was_started_anew_is_replaced_at_once() {
    let site = Site::finished("trials = 2");
    // Its process id and start time happen to be those of a process that lives now.
    let pid = std::process::id();
    let started = processes::start_time(pid).unwrap().cast_signed();
    let sql = "UPDATE lease SET pid = ?1, pid_started = ?2, host = ?3, acquired_at = 1, boot_id = \
        'the one before'";
    site.database().execute(sql, rusqlite::params![pid, started, processes::host()]).unwrap();
    assert_done(&site.run_study_with(&["--set", "budget.trials=3"]));
    assert_eq!(site.states().len(), 3);
}

#[test]
fn a_runner_of_an_earlier_version_that_lives_keeps_its_study() {
    let site = Site::finished("trials = 2");
    let me = runner::this_process();
    let sql =
        "UPDATE lease SET pid = ?1, pid_started = ?2, host = ?3, acquired_at = 1, boot_id = NULL";
    site.database()
        .execute(sql, rusqlite::params![me.pid, me.pid_started.cast_signed(), me.host])
        .unwrap();
    let refused = site.run_study_with(&["--set", "budget.trials=3"]);
    assert_code(&refused, 5);
}

#[test]
fn whoever_looks_at_a_study_does_not_keep_a_runner_from_starting() {
    let site = Site::finished("trials = 1");
    site.database()
        .execute(
            "UPDATE lease SET pid = 4194303, pid_started = 1, host = ?1, acquired_at = 1, boot_id \
             = ?2",
            [processes::host(), processes::boot_id().unwrap()],
        )
        .unwrap();
    let looking = [0; 3].map(|_| site.start_shell("while :; do \"$0\" ls; done"));
    assert_done(&site.run_study_with(&["--set", "budget.trials=2"]));
    looking.iter().for_each(|looking| looking.signal(Signal::KILL));
    assert_eq!(site.trials()[1]["state"], json!("complete"));
}

/// Starts hpsearch with its output in a pipe that nobody reads, and which is full.
fn start_unread(site: &Site, form: &str, and_errors: bool) -> (Running, std::process::ChildStdout) {
    let script = format!(
        "{} exec '{PROGRAM}' run study.toml {form}",
        if and_errors { "exec 2>&1;" } else { "" },
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
    site.wait_for("started");
    running.signal(Signal::INT);
    site.wait_for("told");
    running.signal(Signal::INT);
    assert_eq!(running.end().code, 130);
    assert_eq!(site.processes(), [0; 0]);
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
        Simulation::new(spec(trials, "random", AlgorithmSpec::named("none")), slots, 4, loss);
    simulation.faults = Box::new(faults);
    simulation
}

fn ended(run: &SimulationResult, end: &AttemptEnd) -> usize {
    events(&run.turns)
        .filter(|event| {
            matches!(
                event,
                Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Ended { end: found, .. }))
                    if found == end
            )
        })
        .count()
}

#[test]
fn what_the_machine_refuses_waits_and_is_no_trials_fault() {
    let run =
        simulated(6, 2, |_, attempt, _| (attempt.0 < 3).then_some(Fault::Refuse)).run(&[]).unwrap();
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
    assert_eq!((run.state.counts.complete, run.state.counts.failed), (6, 0));
    assert!(run.state.trials.iter().all(|trial| trial.failures == 0));
    // After one, two and four seconds for the first ones: not at full speed.
    assert!(run.turns.last().unwrap().at.0 >= 7_000_000, "{:?}", run.turns.last());
}

#[test]
fn a_run_ends_when_the_machine_refuses_again_and_again_and_the_study_goes_on_later() {
    let run =
        simulated(6, 3, |trial, _, _| (trial.0 > 2).then_some(Fault::Refuse)).run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, RunOutcome::Refused(why) if why.contains("what trials need")),
        "{:?}",
        run.outcome
    );
    assert_eq!(
        (run.state.counts.complete, run.state.counts.failed, run.state.counts.queued),
        (3, 0, 3)
    );
    assert_eq!(run.state.finished, None);
    let refused = ended(&run, &AttemptEnd::Refused);
    assert!((10..=30).contains(&refused), "{refused}");
    let next = simulated(6, 3, |_, _, _| None).run(&run.turns).unwrap();
    assert!(matches!(next.outcome, RunOutcome::Finished(_)), "{:?}", next.outcome);
    assert_eq!((next.state.counts.complete, next.state.counts.failed), (6, 0));
}

#[test]
fn a_checkpoint_that_does_not_fit_fails_no_trial_and_ends_the_run_in_time() {
    // Each attempt trains up to its third step, for a minute each: what it reports on the way does
    // not count as getting on.
    let mut simulation = simulated(4, 1, |_, _, step| (step == 3).then_some(Fault::Refuse));
    simulation.step_time = Duration::from_secs(60);
    let run = simulation.run(&[]).unwrap();
    assert!(matches!(run.outcome, RunOutcome::Refused(_)), "{:?}", run.outcome);
    assert_eq!(run.state.counts.failed, 0);
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
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
    assert_eq!((run.state.counts.complete, run.state.counts.failed), (3, 0));
}

#[test]
fn ten_failures_in_a_row_end_a_study_that_had_a_success() {
    let run =
        simulated(100, 2, |trial, _, _| (trial.0 > 3).then_some(Fault::Fail)).run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, RunOutcome::TooManyFailures(why) if why.starts_with("10 trials in a \
            row failed")),
        "{:?}",
        run.outcome
    );
    assert!(
        run.state.counts.complete >= 3 && run.state.counts.failed <= 12,
        "{:?}",
        run.state.counts
    );
    // One that succeeds among them begins a new row.
    let run =
        simulated(8, 1, |trial, _, _| (trial.0 % 9 != 0).then_some(Fault::Fail)).run(&[]).unwrap();
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
    // Who says how many may fail is taken at the word.
    let mut limited =
        simulated(4, 1, |trial, _, _| (trial.0 > 1 && trial.0 < 40).then_some(Fault::Fail));
    limited.spec.budget.failures = Some(1000);
    assert!(matches!(limited.run(&[]).unwrap().outcome, RunOutcome::Finished(_)));
}

/// The children of a runner that have children: its watchdog has none.
fn supervisors(running: &Running) -> Vec<u32> {
    processes::children(running.child.id())
        .into_iter()
        .filter(|pid| !processes::children(*pid).is_empty())
        .collect()
}

const SOON: (&str, &str) = ("HPSEARCH_FIRST_WAIT", "0.01");

/// A study of so many trials, whose run meets obstacles that `plant` puts in its way while its
/// first trial runs.
fn obstructed(trials: u32, plant: impl FnOnce(&Site)) -> (Site, Ended) {
    let site = Site::new(&study(&format!("trials = {trials}"), ONE_SLOT), &held(REPORT_X));
    let running = site.start_study_with(&[SOON]);
    site.wait_for("started");
    plant(&site);
    site.write("go", "");
    let ended = running.end();
    (site, ended)
}

#[test]
fn a_directory_that_cannot_be_made_ends_the_run_and_no_trial_and_the_study_goes_on() {
    let (site, ended) = obstructed(3, |site| site.write("runs/files/s/trial-1", "in the way"));
    assert_code(&ended, 5);
    assert_names(
        &ended.err,
        &["cannot make `", "runs/files/s/trial-1`", "continue with: hpsearch run study.toml"],
    );
    let said = ended
        .out
        .lines()
        .filter(|line| line.contains("trial 1 attempt 0 ended: refused by the machine"))
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
    assert_names(&ended.err, &["cannot be used for the files of trials"]);
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
        "export HPSEARCH_FIRST_WAIT=0.01; ulimit -n 100; exec \"$0\" run study.toml --plain";
    let running = site.start_shell(limited);
    wait_until("the machine refuses more", || {
        running.said_so_far().contains("refused by the machine")
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
    assert_code(&ended, 4);
    assert_names(&ended.out, &["10 trials in a row failed; the last: exit status 3"]);
    assert_eq!(site.states().len(), 11);
}

#[test]
fn what_a_command_leaves_behind_is_buried_while_it_runs() {
    let script = "i=0; while [ $i -lt 300 ]; do i=$((i + 1)); (sleep 0 &) ; done\n\
        echo > forked; while [ ! -e go ]; do sleep 0.02; done\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), &format!("{script}{REPORT_X}"));
    let running = site.start_study();
    site.wait_for("forked");
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
    let script = "i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); echo \"@hpsearch \
        {\\\"step\\\":$i,\\\"loss\\\":$i}\"; done\n\
        while [ ! -e go ]; do sleep 0.02; done; sleep 0.5\n\
        i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); read -r answer || exit 9; done; echo $i > \
        answers\n";
    let site = Site::new(&study("trials = 1\nstall_time = \"20s\"", ONE_SLOT), script);
    let running = site.start_study();
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
        while [ $i -lt 6000 ]; do i=$((i + 1)); echo \"@hpsearch \
        {\\\"step\\\":$i,\\\"loss\\\":$i}\"; done; echo > told; }\n\
        while [ ! -e go ]; do sleep 0.02; done\necho '@hpsearch {\"step\":9000,\"loss\":1}'\n";
    let site = Site::new(&study("trials = 2", TWO_SLOTS), script);
    let running = site.start_study();
    site.wait_for("told");
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
        "echo '@hpsearch {\"hpsearch_end\":{\"end\":\"completed\"}}'\n\
        echo '@hpsearch {\"step\":1,\"loss\":1}'\nexit 3\n",
    );
    assert_eq!(site.run_study().code, 3);
    let trial = &site.trials()[0];
    assert_eq!((&trial["state"], &trial["reason"]), (&json!("failed"), &json!("exit status 3")));
    assert!(
        site.log(0, 0)
            .contains("the line above was not understood: these keys are reserved by hpsearch"),
        "{}",
        site.log(0, 0)
    );
    let [failed, oom] = ["program", "oom"].map(|cause| format!("{{\"failed\":\"{cause}\"}}"));
    for end in ["\"interrupted\"", &failed, "\"refused\"", &oom] {
        let line = format!(
            "echo '@hpsearch {{\"hpsearch_end\":{{\"end\":{end},\"message\":\"mine\"}}}}'\n\
             {REPORT_X}"
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

/// Continues until it is told to leave, and says that it was told.
const SAVES: &str = "trap 'echo saved > saved.$HPSEARCH_TRIAL; exit 0' TERM\necho > \
    started\nwhile :; do sleep 0.02; done\n";

#[test]
fn a_run_without_a_screen_saves_and_leaves_when_its_terminal_is_closed() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), SAVES);
    let running = site.start_study();
    site.wait_for("started");
    // Twice, as when a terminal goes: the second shall not kill what leaves because of the first.
    running.signal(Signal::HUP);
    site.wait_for("saved.0");
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
        site.exists("saved.0") && ended.err.contains("continue with: hpsearch run study.toml"),
        "{}",
        ended.err
    );
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn a_run_that_was_started_with_nohup_stays_when_its_terminal_is_closed() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &held(REPORT_X));
    let running = site.start_shell("trap '' HUP; exec \"$0\" run study.toml --plain");
    site.wait_for("started");
    running.signal(Signal::HUP);
    site.write("go", "");
    assert_done(&running.end());
}

#[test]
fn a_run_on_a_screen_saves_and_leaves_no_process_when_its_terminal_is_closed() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), SAVES);
    let (mut child, terminal) = on_unread_terminal(&site, &["run", "study.toml"]);
    site.wait_for("started");
    drop(terminal);
    let mut code = None;
    wait_until("the run ends", || {
        code = child.try_wait().unwrap().map(|status| status.exit_code());
        code.is_some()
    });
    assert_eq!(code, Some(129));
    assert_eq!((site.states(), site.exists("saved.0")), (vec!["queued".to_owned()], true));
    assert_eq!(site.processes(), [0; 0]);
    assert!(matches!(site.events().last(), Some(Event::Runner(RunnerEvent::Stopped { .. }))));
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
    let script = format!(
        "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 311; done' &\n{}",
        held(REPORT_X)
    );
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    let mut running = site.start_study();
    site.wait_for("started");
    let mut at_once = supervisors(&running);
    assert_eq!(at_once.len(), 1);
    at_once.push(running.child.id());
    at_once.iter().for_each(|pid| processes::signal(*pid, Signal::STOP));
    at_once.iter().for_each(|pid| processes::kill(*pid));
    running.child.wait().unwrap();
    wait_until("what they left is gone", || site.processes().is_empty());
    site.write("go", "");
    assert_done(&site.run_study());
}

#[test]
fn what_hides_its_origin_is_killed_with_the_control_group_of_its_run() {
    let Some(group) = processes::ControlGroup::make(&format!("{}.0", std::process::id())) else {
        println!(
            "no control group can be made here: the watchdog finds what carries the run's mark, \
             and nothing else"
        );
        return;
    };
    group.end();
    let script = format!(
        "env -i setsid sh -c 'trap \"\" TERM HUP; echo $$ > hidden; while :; do sleep 311; done' \
         &\n{}",
        held(REPORT_X)
    );
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    let mut running = site.start_study();
    wait_until("the trial runs", || site.exists("started") && site.read("hidden").ends_with('\n'));
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
    let site = Site::new(&study("trials = 1", ONE_SLOT), &held(REPORT_X));
    let mut first = site.start_study();
    site.wait_for("started");
    let watchdogs = |running: &Running| {
        processes::children(running.child.id())
            .into_iter()
            .filter(|pid| processes::children(*pid).is_empty())
            .collect::<Vec<_>>()
    };
    let of_the_first = watchdogs(&first);
    assert_eq!(of_the_first.len(), 1);
    first.kill();
    fs::remove_file(site.path("started")).unwrap();
    let second = site.start_study();
    site.wait_for("started");
    wait_until("the first watchdog has done its work", || {
        of_the_first.iter().all(|pid| processes::start_time(*pid).is_none())
    });
    let of_the_second = watchdogs(&second);
    site.write("go", "");
    assert_done(&second.end());
    assert_eq!(site.trials()[0]["attempts"], json!(2));
    assert!(of_the_second.iter().all(|pid| !processes::exists(*pid)), "it is gone with its run");
}
