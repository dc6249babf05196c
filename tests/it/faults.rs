//! Faults while a study runs: stopped processes, disks that refuse, stores that go away, clocks
//! that jump, trials that say nonsense.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hpsearch::runner;
use hpsearch::runner::processes;
use hpsearch::storage::{Storage, StorageReader, Takeover};
use rusqlite::Connection;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::{Value as Json, json};

use crate::harness::{
    Ended, ONE_SLOT, PROGRAM, REPORT_X, Running, Site, TWO_SLOTS, answered_steps, assert_code,
    assert_done, assert_names, says, study, wait_at_most, wait_until,
};

/// Steps with a checkpoint each, 0.1 s apart.
fn steps(last: u64) -> String {
    let save = "echo $step > \"$HPSEARCH_CHECKPOINT_DIR/$step\"; echo \"@hpsearch \
        {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/$step\\\",\\\"step\\\":$step}\"\n";
    answered_steps(last, "0.1", save)
}

/// Every answered step is stored, and was done once.
fn assert_answers_kept(site: &Site, trials: u64) {
    let store = site.database();
    let mut report = store
        .prepare("SELECT count(*) FROM report WHERE trial_id % 1000000000 = ?1 AND step = ?2")
        .unwrap();
    for trial in 0..trials {
        let answered: Vec<i64> = site
            .lines(&format!("steps.{trial}"))
            .iter()
            .map(|line| line.parse().unwrap())
            .collect();
        assert!(answered.is_sorted_by(|one, next| one < next), "trial {trial}: {answered:?}");
        for step in answered {
            let found: i64 =
                report.query_row([trial.cast_signed(), step], |row| row.get(0)).unwrap();
            assert_eq!(found, 1, "trial {trial} step {step}");
        }
    }
}

fn children(running: &Running) -> Vec<u32> {
    processes::children(running.child.id())
}

/// The supervisor and the command of the only trial that runs.
fn supervisor_and_command(running: &Running) -> (u32, u32) {
    let mut found = None;
    wait_until("the command runs", || {
        // The watchdog is a child without children.
        found = children(running)
            .into_iter()
            .find_map(|supervisor| Some((supervisor, *processes::children(supervisor).first()?)));
        found.is_some()
    });
    found.unwrap()
}

fn all_complete(site: &Site, trials: usize) {
    assert_eq!(site.states(), vec!["complete"; trials]);
    site.assert_sound();
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn a_stopped_runner_keeps_its_study_and_goes_on_when_it_is_let() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(5));
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    running.stop();
    let second = site.run_study();
    assert_code(&second, 5);
    let pid = running.child.id();
    for words in [
        format!("being run by process {pid}"),
        format!("kill -CONT {pid}"),
        format!("kill -9 {pid}"),
    ] {
        assert!(second.err.contains(&words), "{words}: {}", second.err);
    }
    running.signal(Signal::CONT);
    assert_done(&running.end());
    all_complete(&site, 2);
    assert_answers_kept(&site, 2);
    assert_eq!(site.trials()[0]["attempts"], 1);
}

#[test]
fn a_stopped_runner_that_was_killed_is_taken_over_at_once() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(5));
    let mut running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    running.signal(Signal::STOP);
    running.kill();
    wait_at_most(Duration::from_secs(2), "its processes are gone", || site.processes().is_empty());
    assert_done(&site.run_study());
    all_complete(&site, 2);
    assert_answers_kept(&site, 2);
}

#[test]
fn a_runner_whose_study_was_taken_over_while_it_was_stopped_writes_nothing_more() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(30));
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    running.stop();
    let mut store = site.store();
    let study = store.study("s").unwrap().unwrap();
    let epoch = store.summary(study.id).unwrap().held.unwrap().epoch;
    let lease = store
        .acquire(study.id, &runner::this_process(), runner::now(), Takeover::From(epoch))
        .unwrap();
    let events = || {
        site.database()
            .query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let before = events();
    running.signal(Signal::CONT);
    let late = running.end();
    assert_code(&late, 5);
    assert_names(&late.err, &["was taken over by another process"]);
    assert_eq!(events(), before);
    assert_eq!(site.processes(), [0; 0]);
    store.release(&lease).unwrap();
    site.write("trial.sh", steps(5));
    assert_done(&site.run_study());
    all_complete(&site, 2);
}

#[test]
fn a_study_held_from_another_host_is_taken_over_when_its_user_says_so_and_late_words_are_refused() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(30));
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    running.stop();
    // As a container leaves it that is started again under another name.
    let (pid, an_hour_ago) = (running.child.id(), runner::now().0 - 3_600_000_000);
    fs::remove_file(site.path("runs/hpsearch.db.run-1")).unwrap();
    site.database()
        .execute(
            "UPDATE lease SET host = 'old-container', boot_id = 'another', acquired_at = ?1",
            [an_hour_ago],
        )
        .unwrap();
    let refused = site.run_study();
    assert_code(&refused, 5);
    for words in [
        format!("held by process {pid} on `old-container`"),
        "for 1 h 00 min".to_owned(),
        "run again with `--take-over`".to_owned(),
    ] {
        assert!(refused.err.contains(&words), "{words}: {}", refused.err);
    }
    assert_names(&refused.err, &["lose what they did since their last checkpoint"]);
    site.write("trial.sh", steps(5));
    let taken = site.run_study_with(&["--take-over"]);
    assert_done(&taken);
    assert_names(&taken.err, &[&format!("taken over from process {pid} on `old-container`")]);
    all_complete(&site, 2);
    assert_answers_kept(&site, 2);
    let events = || {
        site.database()
            .query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let before = events();
    running.signal(Signal::CONT);
    let late = running.end();
    assert_code(&late, 5);
    assert_names(&late.err, &["was taken over by another process"]);
    assert_eq!(events(), before);
    // There is nobody to take it from any more.
    let again = site.run_study_with(&["--take-over"]);
    assert_names(&again.err, &["no process of another host holds the study"]);
}

#[test]
fn a_stopped_trial_stalls_and_is_tried_again_if_the_study_says_so() {
    let retry = format!("{ONE_SLOT}[retry]\nmax = 1\non = [\"timeout\"]\n");
    let script = format!("[ $HPSEARCH_ATTEMPT -gt 0 ] || kill -STOP $$\n{REPORT_X}");
    // The second attempt reports sooner, also on a busy machine.
    let site = Site::new(&study("trials = 1\nstall_time = \"5s\"", &retry), &script);
    let ended = site.run_study();
    assert_done(&ended);
    all_complete(&site, 1);
    assert_eq!(site.trials()[0]["attempts"], 2);
    assert_names(&ended.out, &["did not report for stall_time (5 s)"]);
    // Without the word it fails, and says why.
    let site = Site::new(
        &study("trials = 1\ncount = \"all\"\nstall_time = \"1s\"", ONE_SLOT),
        "kill -STOP $$\n",
    );
    assert_eq!(site.run_study().code, 3);
    let trial = &site.trials()[0];
    assert_eq!(
        (&trial["attempts"], &trial["reason"]),
        (&json!(1), &json!("did not report for stall_time (1 s)"))
    );
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn stopped_supervisors_and_commands_go_on_as_if_nothing_had_been() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(6));
    let running = site.start_study();
    let (supervisor, command) = supervisor_and_command(&running);
    for pid in [supervisor, command] {
        processes::signal(pid, Signal::STOP);
        wait_until("it is stopped", || processes::is_stopped(pid) || !processes::exists(pid));
        // That nothing comes of it is seen only by waiting: longer than a step takes.
        std::thread::sleep(Duration::from_millis(150));
        processes::signal(pid, Signal::CONT);
    }
    assert_done(&running.end());
    all_complete(&site, 2);
    assert_answers_kept(&site, 2);
    assert!(site.trials().iter().all(|trial| trial["attempts"] == 1));
}

#[test]
fn a_supervisor_that_stays_stopped_is_killed_with_its_trial() {
    let retry = format!("{ONE_SLOT}[retry]\nmax = 3\non = [\"timeout\", \"worker_lost\"]\n");
    // The second attempt's steps follow each other sooner, also on a busy machine.
    let site = Site::new(&study("trials = 1\nstall_time = \"5s\"", &retry), &steps(4));
    let running = site.start_study();
    let (supervisor, _) = supervisor_and_command(&running);
    processes::signal(supervisor, Signal::STOP);
    assert_done(&running.end());
    all_complete(&site, 1);
    assert_eq!(site.trials()[0]["attempts"], 2);
}

#[test]
fn each_killed_process_ends_an_attempt_as_lost_and_the_trial_goes_on() {
    for victim in ["supervisor", "command"] {
        let site = Site::new(&study("trials = 1", ONE_SLOT), &steps(5));
        let running = site.start_study();
        let (supervisor, command) = supervisor_and_command(&running);
        site.wait_for_lines("steps.0", 1);
        processes::kill(if victim == "supervisor" { supervisor } else { command });
        assert_done(&running.end());
        all_complete(&site, 1);
        assert_answers_kept(&site, 1);
        let outcome: String = site
            .database()
            .query_row("SELECT outcome FROM attempt WHERE attempt = 0", [], |row| row.get(0))
            .unwrap();
        assert_eq!(outcome, "{\"failed\":\"worker_lost\"}", "{victim}");
    }
}

/// Limits the size of files that a process may write: what a quota, or a full disk, does to it.
fn limit_files(pid: u32, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

#[test]
fn a_disk_that_takes_no_more_ends_the_run_with_what_to_do_and_the_study_goes_on_when_it_does() {
    // On SIGTERM the trial saves, which is what it is given time for.
    let script = format!("trap 'echo left > left.$HPSEARCH_TRIAL; exit 0' TERM\n{}", steps(8));
    let site = Site::new(&study("trials = 3", TWO_SLOTS), &script);
    let running = site.start_study();
    wait_until("steps are done", || {
        site.lines("steps.0").len() >= 2 && site.lines("steps.1").len() >= 2
    });
    limit_files(running.child.id(), Some(64 << 10));
    let ended = running.end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["can no longer be written", "run the same command again"]);
    assert_names(&ended.out, &["running trials may save and exit"]);
    assert!(site.exists("left.0") || site.exists("left.1"));
    assert_eq!(site.processes(), [0; 0]);
    site.assert_sound();
    assert_answers_kept(&site, 3);
    assert_done(&site.run_study());
    all_complete(&site, 3);
    assert_answers_kept(&site, 3);
}

/// A file system of its own for the store, which fills up; `None` where the system does not let a
/// user make one.
fn on_a_small_disk(site: &Site, command: &str) -> Option<Ended> {
    let script = format!("mount -t tmpfs -o size=2m tmpfs small || exit 77\n{command}");
    let ended = site.run_program("unshare", &["-Urm", "sh", "-c", &script]);
    match ended {
        Some(ended) if ended.code != 77 && !ended.err.contains("unshare") => Some(ended),
        _ => {
            eprintln!("skipped: no file system can be mounted here");
            None
        }
    }
}

#[test]
fn a_store_on_a_full_disk_is_read_without_its_index_and_gc_frees_space() {
    let site = Site::new(&study("trials = 4", ONE_SLOT), &steps(3));
    fs::create_dir(site.path("small")).unwrap();
    let program = PROGRAM;
    let command = format!(
        "export HPSEARCH_STORE=small/hpsearch.db\n\
         '{program}' run study.toml --plain\n\
         mkdir -p small/files/gone/trial-0/checkpoints\n\
         sed 's/\"directory\":\"s\"/\"directory\":\"gone\"/' small/files/s/.hpsearch-store \
         > small/files/gone/.hpsearch-store\n\
         head -c 300000 /dev/zero > small/files/gone/trial-0/checkpoints/weights\n\
         dd if=/dev/zero of=small/filler bs=4k 2> /dev/null\n\
         for verb in ls 'best s' 'trials s' 'show s' 'verify s' du doctor 'rm s --yes' \
         'gc --yes' 'tag s +a'; do '{program}' $verb; echo \"$verb ended with $?\"; done\n"
    );
    let Some(ended) = on_a_small_disk(&site, &command) else { return };
    for verb in ["ls", "best s", "trials s", "show s", "verify s", "du", "gc --yes", "tag s +a"] {
        assert_names(&ended.out, &[&format!("{verb} ended with 0\n")]);
    }
    assert_names(&ended.out, &["doctor ended with 1\n", "rm s --yes ended with 5\n"]);
    assert_names(&ended.out, &["removed 1 orphaned file"]);
    assert_names(&ended.err, &["no space is left for the store", "`hpsearch gc --yes` removes"]);
}

#[test]
fn the_file_that_may_not_be_written_is_named() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &steps(1));
    assert_done(&site.run_study());
    // SQLite gives its mode to the index when it reads a store that is not writable.
    let command = format!(
        "import os, sqlite3, subprocess\n\
         os.chmod('runs/hpsearch.db', 0o400)\n\
         reader = sqlite3.connect('file:runs/hpsearch.db?mode=ro', uri=True)\n\
         reader.execute('SELECT * FROM study').fetchall()\n\
         os.chmod('runs/hpsearch.db', 0o600)\n\
         ended = subprocess.call(['{PROGRAM}', 'tag', 's', '+a'])\n\
         print('tag ended with', ended, flush=True)\n\
         subprocess.call(['{PROGRAM}', 'doctor'])\n"
    );
    // Without the capabilities of root, if the tests have them.
    let ended = site.run_program("unshare", &["-U", "python3", "-c", &command]);
    let Some(ended) = ended.filter(|ended| !ended.err.contains("unshare")) else {
        eprintln!("skipped: no user namespaces here");
        return;
    };
    assert_names(&ended.err, &["may not read and write `", "hpsearch.db-shm`", "chmod u+rw"]);
    assert_names(&ended.out, &["tag ended with 5\n", "hpsearch.db-shm` cannot be written"]);
}

#[test]
fn an_output_on_a_full_disk_is_told_with_its_file() {
    let site = Site::new(&study("trials = 4", ONE_SLOT), &steps(3));
    fs::create_dir(site.path("small")).unwrap();
    assert_done(&site.run_study());
    let program = PROGRAM;
    let command = format!(
        "echo old > small/b.csv; dd if=/dev/zero of=small/filler bs=4k 2> /dev/null\n\
         for verb in 'report s -o small/a.html' 'export-data s -o small/a.csv' \
         'export-data s -o small/b.csv --overwrite' 'plot history s -o small/a.svg'; do\n\
         '{program}' $verb; echo \"$verb ended with $?\"; done\n\
         ls -A small; cat small/b.csv\n"
    );
    let Some(ended) = on_a_small_disk(&site, &command) else { return };
    for file in ["a.html", "a.csv", "b.csv", "a.svg"] {
        let said = format!("`small/{file}` cannot be written: No space left on device");
        assert_names(&ended.err, &[&said, "free some space"]);
    }
    assert_eq!(ended.out.matches("ended with 5\n").count(), 4, "{}", ended.out);
    assert!(ended.out.ends_with("ended with 5\nb.csv\nfiller\nold\n"), "{}", ended.out);
}

#[test]
fn an_export_to_a_full_disk_is_told_with_its_directory_and_leaves_the_earlier_one() {
    let saves = "head -c 300000 /dev/zero > $HPSEARCH_CHECKPOINT_DIR/step-1\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/step-1\\\",\
        \\\"step\\\":1}\"\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), &format!("{saves}{REPORT_X}"));
    fs::create_dir(site.path("small")).unwrap();
    assert_done(&site.run_study());
    let program = PROGRAM;
    let command = format!(
        "'{program}' export s -o small/model; cp -r small/model before\n\
         head -c 1700000 /dev/zero > small/filler\n\
         '{program}' export s -o small/model; echo \"again ended with $?\"\n\
         '{program}' export s -o small/a/other; echo \"other ended with $?\"\n\
         diff -r before small/model && ls -A small\n"
    );
    let Some(ended) = on_a_small_disk(&site, &command) else { return };
    for directory in ["small/model", "small/a/other"] {
        let said = format!("{directory}`: no space is left there. Nothing was exported");
        assert_names(&ended.err, &[&said, "free some space"]);
    }
    assert_names(&ended.out, &["again ended with 5\n", "other ended with 5\n"]);
    assert!(ended.out.ends_with("ended with 5\nfiller\nmodel\n"), "{}", ended.out);
}

#[test]
fn a_full_disk_is_told_and_the_study_goes_on_when_there_is_space() {
    let site = Site::new(&study("trials = 4", ONE_SLOT), &steps(3));
    fs::create_dir(site.path("small")).unwrap();
    let program = PROGRAM;
    // Filled once the first trial is done; emptied when the run has ended.
    let command = format!(
        "export HPSEARCH_STORE=small/hpsearch.db\n\
         (while [ ! -s steps.0 ]; do sleep 0.02; done; dd if=/dev/zero of=small/filler bs=4k 2> \
         /dev/null) &\n\
         '{program}' run study.toml --plain; echo \"first $?\"; wait; rm small/filler\n\
         '{program}' run study.toml --plain; echo \"second $?\"\n\
         '{program}' trials s --json > trials.json; cp small/hpsearch.db* .\n"
    );
    let Some(ended) = on_a_small_disk(&site, &command) else { return };
    assert_names(&ended.out, &["first 5\n", "second 0\n"]);
    assert_names(&ended.err, &["no space is left for the store", "free some space"]);
    let trials: Json = site.read_json("trials.json");
    assert_eq!(
        trials["trials"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|trial| trial["state"] == "complete")
            .count(),
        4
    );
    let store = Connection::open(site.path("hpsearch.db")).unwrap();
    let verdict: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// Moves the store and what belongs to it.
fn move_store(from: &Path, to: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let path = |base: &Path| PathBuf::from(format!("{}{ending}", base.display()));
        if path(from).exists() {
            fs::rename(path(from), path(to)).unwrap();
        }
    }
}

fn told_that_it_went(ended: &Ended, word: &str) {
    assert_code(ended, 5);
    assert!(ended.err.contains(word) && ended.err.contains("--store PATH"), "{}", ended.err);
}

#[test]
fn a_store_that_is_moved_away_is_missed_and_found_again() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(6));
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    let (place, away) = (site.path("runs/hpsearch.db"), site.path("away.db"));
    move_store(&place, &away);
    told_that_it_went(&running.end(), "was moved or deleted while it was in use");
    assert!(!place.exists(), "nothing is made in its place");
    assert_eq!(site.processes(), [0; 0]);
    move_store(&away, &place);
    site.assert_sound();
    assert_answers_kept(&site, 2);
    assert_done(&site.run_study());
    all_complete(&site, 2);
    assert_answers_kept(&site, 2);
}

#[test]
fn a_store_that_is_deleted_is_missed_even_by_a_runner_that_has_nothing_to_write() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), "echo >> started\nsleep 309\n");
    let mut running = site.start_study();
    site.wait_for("started");
    fs::remove_dir_all(site.path("runs")).unwrap();
    wait_at_most(Duration::from_secs(10), "it is missed", || running.has_ended());
    told_that_it_went(&running.end(), "was moved or deleted");
    assert_eq!(site.processes(), [0; 0]);
    // The study begins anew, in a new store.
    site.write("trial.sh", REPORT_X);
    assert_done(&site.run_study());
    all_complete(&site, 1);
}

#[test]
fn a_store_that_is_replaced_is_not_written_to() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &steps(20));
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    let place = site.path("runs/hpsearch.db");
    fs::copy(&place, site.path("copy.db")).unwrap();
    fs::rename(site.path("copy.db"), &place).unwrap();
    let ended = running.end();
    told_that_it_went(&ended, "was replaced by another file");
    assert_eq!(site.processes(), [0; 0]);
    // Nor does the next process write the log of the earlier file into it.
    assert_names(&ended.err, &["its log was renamed to", "hpsearch.db-wal.replaced`"]);
    assert!(site.path("runs/hpsearch.db-wal.replaced").exists());
    assert!(site.states().is_empty());
    site.write("trial.sh", REPORT_X);
    assert_done(&site.run_study());
    all_complete(&site, 1);
}

#[test]
fn a_store_that_is_overwritten_by_an_older_copy_is_missed_and_its_log_is_not_applied_to_it() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &steps(60));
    let place = site.path("runs/hpsearch.db");
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    let early = fs::read(&place).unwrap();
    wait_until("the file grows", || {
        let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
        let _busy_at_times = site.database().query_row(checkpoint, [], |row| row.get::<_, i64>(0));
        fs::metadata(&place).unwrap().len() > early.len() as u64
    });
    // What SQLite has written back since, it has no need to write again.
    site.wait_for_lines("steps.0", site.lines("steps.0").len() + 2);
    fs::write(&place, &early).unwrap();
    let ended = running.end();
    told_that_it_went(&ended, "was overwritten by an older or another one");
    assert_eq!(site.processes(), [0; 0]);
    assert_names(&ended.err, &["its log was renamed to", "hpsearch.db-wal.replaced`"]);
    assert_eq!(fs::read(&place).unwrap(), early);
    site.assert_sound();
}

#[test]
fn permissions_taken_away_while_it_runs_do_not_matter_until_it_is_opened_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(4));
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    let set = |name: &str, mode: u32| {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    set("runs/hpsearch.db", 0o444);
    assert_done(&running.end());
    let again = site.run_study_with(&["--set", "budget.trials=3"]);
    // Nothing is forbidden to root.
    if rustix::process::getuid().is_root() {
        assert_done(&again);
    } else {
        assert_code(&again, 5);
        assert_names(&again.err, &["cannot be opened or written", "permissions"]);
        set("runs/hpsearch.db", 0o644);
        assert_done(&site.run_study_with(&["--set", "budget.trials=3"]));
    }
    all_complete(&site, 3);
}

#[test]
fn a_user_who_may_only_read_a_store_leaves_no_files_in_the_way_of_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(1));
    assert_done(&site.run_study());
    let set = |name: &str, mode: u32| {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    // Everybody may create files there.
    ["", "runs"].into_iter().for_each(|directory| set(directory, 0o777));
    let mut reader = site.command(&["ls"]);
    if rustix::process::getuid().is_root() {
        // Nothing is forbidden to root, and others may not enter the directory of the build.
        let program = site.path("hpsearch");
        fs::hard_link(PROGRAM, &program)
            .or_else(|_| fs::copy(PROGRAM, &program).map(drop))
            .unwrap();
        let environment = reader.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut other = std::process::Command::new(program);
        other.arg("ls").current_dir(site.path("")).envs(environment).uid(65534).gid(65534);
        reader = other;
    } else {
        set("runs/hpsearch.db", 0o444);
    }
    let names = || {
        let entries = fs::read_dir(site.path("runs")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let listed = Ended::of(reader.output().unwrap());
    assert_done(&listed);
    assert_names(&listed.out, &["2"]);
    assert_eq!(names(), before);
    set("runs/hpsearch.db", 0o644);
    assert_done(&site.run_study_with(&["--set", "budget.trials=3"]));
    all_complete(&site, 3);
}

#[test]
fn a_log_of_the_store_that_is_cut_or_gone_after_a_kill_leaves_a_sound_store_and_every_trial_is_run()
{
    for (ending, cut) in [
        ("-wal", Some(0.37)),
        ("-wal", Some(0.93)),
        ("-wal", None),
        ("-shm", Some(0.5)),
        ("-shm", None),
    ] {
        let site = Site::new(&study("trials = 3", TWO_SLOTS), &steps(3));
        let mut running = site.start_study();
        site.wait_for_lines("steps.0", 2);
        running.kill();
        wait_at_most(Duration::from_secs(2), "its processes are gone", || {
            site.processes().is_empty()
        });
        let file = site.path(&format!("runs/hpsearch.db{ending}"));
        let bytes = fs::read(&file).unwrap();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a small file"
        )]
        match cut {
            Some(part) => fs::write(&file, &bytes[..(bytes.len() as f64 * part) as usize]).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        site.assert_sound();
        assert_done(&site.run_study());
        all_complete(&site, 3);
        assert!(
            site.trials()
                .iter()
                .all(|trial| trial["value"] == trial["params"]["x"] && trial["last_step"] == 3),
            "{ending} {cut:?}"
        );
        if ending == "-shm" {
            assert_answers_kept(&site, 3);
        }
    }
}

#[test]
fn a_checkpoint_that_is_gone_is_not_gone_on_from() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), &steps(4));
    let mut running = site.start_study();
    site.wait_for_lines("steps.0", 2);
    running.kill();
    wait_at_most(Duration::from_secs(2), "its processes are gone", || site.processes().is_empty());
    fs::remove_dir_all(site.path("runs/files/s/trial-0/checkpoints")).unwrap();
    // The script ends with an error if its checkpoint is not there.
    let ended = site.run_study();
    assert_done(&ended);
    all_complete(&site, 1);
    assert_names(&ended.out, &["continues from the start"]);
}

#[test]
fn a_clock_that_is_set_between_runs_changes_no_order_and_no_duration() {
    let hours = |hours: i64| hours * 3_600_000_000;
    let rest = ONE_SLOT;
    let undisturbed = Site::new(&study("trials = 100\npatience = 4", rest), REPORT_X);
    assert_done(&undisturbed.run_study());
    let expected = undisturbed.trials().len();
    for jump in [hours(7), hours(-7)] {
        // The study up to its third trial, as it was written when the clock stood elsewhere.
        let site = Site::new(&study("trials = 3", rest), REPORT_X);
        assert_done(&site.run_study());
        let store = site.database();
        for (table, columns) in [
            ("event", &["at"][..]),
            ("trial", &["created_at", "started_at", "finished_at"]),
            ("attempt", &["started_at", "ended_at"]),
            ("report", &["at"]),
            ("runner", &["started_at", "stopped_at"]),
        ] {
            for column in columns {
                store
                    .execute(&format!("UPDATE {table} SET {column} = {column} + {jump}"), [])
                    .unwrap();
            }
        }
        drop(store);
        site.write("study.toml", study("trials = 100\npatience = 4", rest));
        let ended = site.run_study();
        assert_done(&ended);
        assert_eq!(site.trials().len(), expected, "{jump}: {}", ended.out);
        let times: Vec<i64> = site
            .database()
            .prepare("SELECT at FROM event ORDER BY seq")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(times.is_sorted(), "{jump}");
        assert!(site.trials().iter().all(|trial| trial["seconds"].as_f64().unwrap() < 60.0));
    }
}

#[test]
fn a_trial_that_floods_its_log_is_cut_and_told_and_harms_nobody() {
    // Seventy megabytes, half of them on standard error, without an end of line every now and then.
    let flood = "head -c 35000000 /dev/zero | tr '\\0' F; echo; i=0; while [ $i -lt 350 ]; do \
        i=$((i + 1)); head -c 100000 /dev/zero | tr '\\0' E >&2; echo >&2; done\n\
        echo the end >&2;";
    let script = format!("[ $HPSEARCH_TRIAL != 0 ] || {{ {flood} }}\n{REPORT_X}");
    let site = Site::new(&study("trials = 12", TWO_SLOTS), &script);
    let running = site.start_study();
    let runner = running.id();
    let (mut most, mut others_were_done) = (0, false);
    assert_done(&running.end_watched(|| {
        most = most.max(resident_kilobytes(runner));
        let log = fs::metadata(site.path("runs/files/s/trial-0/attempt-0.log"))
            .map_or(0, |log| log.len());
        others_were_done |= log > 0 && site.exists("runs/files/s/trial-3");
    }));
    all_complete(&site, 12);
    assert!(most < 60_000, "{most} kB");
    assert!(others_were_done);
    let log = fs::read(site.path("runs/files/s/trial-0/attempt-0.log")).unwrap();
    assert!((60 << 20..66 << 20).contains(&log.len()), "{}", log.len());
    let log = site.log(0, 0);
    for words in
        ["[hpsearch] this log reached 64 MiB", " bytes are left out here\nE", "E\nthe end\n"]
    {
        assert!(log.contains(words), "{words}");
    }
}

fn resident_kilobytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
fn a_trial_that_reports_without_end_takes_no_memory_and_holds_up_nobody() {
    // Metrics that are not the study's: nobody answers them, and nothing holds the script back but
    // the pipe.
    let flood = "yes '@hpsearch {\"step\":1,\"other\":0.5}' | head -n 150000\n";
    let script = format!("[ $HPSEARCH_TRIAL != 0 ] || {{ {flood} }}\n{REPORT_X}");
    let site = Site::new(&study("trials = 8", TWO_SLOTS), &script);
    let running = site.start_study();
    let (runner, mut most) = (running.id(), 0);
    let mut others_end_first = false;
    assert_done(&running.end_watched(|| {
        most = most.max(resident_kilobytes(runner));
        if !others_end_first {
            let states = site.states();
            others_end_first = states.first().is_some_and(|state| state == "running")
                && states.iter().filter(|state| *state == "complete").count() >= 3;
        }
    }));
    all_complete(&site, 8);
    assert!(most < 80_000, "{most} kB");
    assert!(others_end_first, "the others waited for the one that floods");
}

/// The end of the only trial of a script, and its log.
fn told(script: &str) -> (Json, String) {
    let site = Site::new(&study("trials = 1\ncount = \"all\"", ONE_SLOT), script);
    let ended = site.run_study();
    assert!([0, 3].contains(&ended.code), "{}", ended.err);
    site.assert_sound();
    (site.trials()[0].clone(), site.log(0, 0))
}

#[test]
fn a_step_reported_twice_counts_once_by_its_later_values() {
    let (trial, log) = told(&says(&[
        "{\"step\":1,\"loss\":5}",
        "{\"step\":1,\"loss\":3}",
        "{\"step\":1,\"loss\":4}",
    ]));
    assert_eq!(
        (&trial["state"], &trial["value"], &trial["last_step"]),
        (&json!("complete"), &json!(4.0), &json!(1))
    );
    assert_eq!(
        log,
        "[hpsearch] step 1 was reported twice: the later values count, the verdict stays\n"
    );
}

#[test]
fn steps_that_go_backwards_are_kept_by_their_steps() {
    let (trial, log) = told(&says(&[
        "{\"step\":5,\"loss\":5}",
        "{\"step\":2,\"loss\":1}",
        "{\"step\":1,\"loss\":3}",
    ]));
    assert_eq!(
        (&trial["state"], &trial["value"], &trial["last_step"]),
        (&json!("complete"), &json!(1.0), &json!(5))
    );
    assert_eq!(
        log,
        "[hpsearch] step 2 came after step 5: reports are kept by their steps, whatever their \
         order\n"
    );
}

#[test]
fn values_at_the_end_of_what_numbers_can_say_are_values() {
    for (said, stored) in [
        ("NaN", json!("NaN")),
        ("Infinity", json!("Infinity")),
        ("-Infinity", json!("-Infinity")),
        ("1e308", json!(1e308)),
        ("-1e308", json!(-1e308)),
    ] {
        let (trial, log) = told(&says(&[&format!("{{\"step\":1,\"loss\":{said}}}")]));
        assert_eq!((&trial["state"], &trial["value"]), (&json!("complete"), &stored));
        assert_eq!(log, "");
    }
    // Beyond: no number any more, for JSON.
    let (trial, log) = told(&says(&["{\"step\":1,\"loss\":1e999}"]));
    assert_eq!(trial["state"], "failed");
    assert!(log.contains("[hpsearch] the line above was not understood"), "{log}");
}

#[test]
fn text_for_a_number_is_told_in_the_log_and_in_the_reason() {
    let (trial, log) = told(&says(&["{\"step\":1,\"loss\":\"low\"}", "{\"step\":2,\"loss\":[1]}"]));
    assert_eq!(trial["state"], "failed");
    let reason = "reported no value: 2 lines after `@hpsearch` could not be understood, the last \
        because `loss` must be a number, not `[1]`";
    assert_eq!(trial["reason"], reason);
    assert!(
        log.contains(
            "[hpsearch] the line above was not understood: `loss` must be a number, not `\"low\"`\n"
        ),
        "{log}"
    );
}

#[test]
fn metrics_that_are_not_the_studys_are_kept_and_their_names_told_if_there_is_no_value() {
    let (trial, _) =
        told(&says(&["{\"step\":1,\"accuracy\":0.5,\"loss\":2}", "{\"step\":2,\"speed\":3}"]));
    assert_eq!(
        (&trial["state"], &trial["value"], &trial["last_step"]),
        (&json!("complete"), &json!(2.0), &json!(1))
    );
    let (trial, _) = told(&says(&["{\"step\":1,\"accuracy\":0.5,\"speed\":2}"]));
    assert!(trial["reason"].as_str().unwrap().starts_with(
        "reported no value: it reported `accuracy`, `speed` but never `loss`, the study's metric; "
    ));
}

#[test]
fn a_trial_that_says_nothing_is_told_what_to_say() {
    let (trial, _) = told("exit 0\n");
    let reason = "reported no value: it ended without a line `@hpsearch {\"step\": .., \"loss\": \
        ..}`; what it prints in its own words is found by `pattern` under [command.metrics]";
    assert_eq!((&trial["state"], &trial["reason"]), (&json!("failed"), &json!(reason)));
}

/// A study of one trial whose first attempts end as `script` says, tried again on `cause` only.
fn retried_on(cause: &str, budget: &str, script: &str) -> (Json, String) {
    let rest = format!("{ONE_SLOT}[retry]\nmax = 1\non = [\"{cause}\"]\n");
    let site = Site::new(
        &study(&format!("trials = 1\ncount = \"all\"\n{budget}"), &rest),
        &format!("[ $HPSEARCH_ATTEMPT -gt 0 ] || {{ {script}; }}\n{REPORT_X}"),
    );
    let ended = site.run_study();
    assert!([0, 3].contains(&ended.code), "{}", ended.err);
    assert_eq!(site.processes(), [0; 0]);
    let outcome = site
        .database()
        .query_row("SELECT outcome FROM attempt WHERE attempt = 0", [], |row| row.get(0))
        .unwrap();
    (site.trials()[0].clone(), outcome)
}

#[test]
fn each_cause_is_retried_where_the_study_says_so_and_only_there() {
    let cases = [
        (
            "oom",
            "",
            "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2; \
             exit 1",
        ),
        (
            "oom",
            "",
            "echo MemoryError >&2; for i in 1 2 3; do echo launcher: failed >&2; done; exit 1",
        ),
        ("device_lost", "", "echo 'RuntimeError: CUDA error: GPU is lost' >&2; exit 1"),
        ("worker_lost", "", "kill -9 $$"),
        ("worker_lost", "", "exit 137"),
        // Longer than a busy machine takes to run the second attempt, which is in time.
        ("timeout", "trial_time = \"5s\"\n", "sleep 310"),
        ("timeout", "stall_time = \"5s\"\n", "sleep 311"),
    ];
    let check = |(cause, budget, script)| {
        let (trial, outcome) = retried_on(cause, budget, script);
        assert_eq!(
            (&trial["state"], &trial["attempts"]),
            (&json!("complete"), &json!(2)),
            "{cause}: {script}: {trial}"
        );
        assert_eq!(outcome, format!("{{\"failed\":\"{cause}\"}}"), "{script}");
        let other = if cause == "oom" { "timeout" } else { "oom" };
        let (trial, _) = retried_on(other, budget, script);
        assert_eq!(
            (&trial["state"], &trial["attempts"]),
            (&json!("failed"), &json!(1)),
            "{cause}: {script}"
        );
    };
    std::thread::scope(|scope| cases.map(|case| drop(scope.spawn(move || check(case)))));
}

#[test]
fn a_programs_own_failure_is_retried_if_the_study_says_so() {
    let others = "oom\", \"device_lost\", \"worker_lost\", \"timeout";
    for script in [
        "echo 'ValueError: no' >&2; exit 1",
        "ulimit -c 0; kill -SEGV $$",
        "ulimit -c 0; kill -ABRT $$",
        "exit 3",
        "exit 0",
    ] {
        let (trial, outcome) = retried_on(others, "", script);
        assert_eq!(
            (&trial["state"], &trial["attempts"]),
            (&json!("failed"), &json!(1)),
            "{script}: {outcome}"
        );
        let (trial, outcome) = retried_on("program", "", script);
        // The last one ends as a success.
        let expected = if script == "exit 0" { ("failed", 1) } else { ("complete", 2) };
        assert_eq!(
            (&trial["state"], &trial["attempts"]),
            (&json!(expected.0), &json!(expected.1)),
            "{script}: {outcome}"
        );
    }
}

#[test]
fn attempts_are_counted_wherever_a_trial_is_shown() {
    let site = Site::new(
        &study("trials = 1", ONE_SLOT),
        &format!("[ $HPSEARCH_ATTEMPT -gt 1 ] || kill -9 $$\n{REPORT_X}"),
    );
    let ended = site.run_study();
    assert_done(&ended);
    assert_names(&ended.out, &["(retry 1 of 2)", "(retry 2 of 2)"]);
    assert_eq!(site.trials()[0]["attempts"], 3);
    let explained = site.run(&["explain", "s", "0"]).out;
    assert_eq!(explained.matches("process lost  killed by signal 9").count(), 2, "{explained}");
}

#[test]
fn what_a_trial_forks_flees_and_ignores_is_gone_when_it_is_killed() {
    let script = "trap '' TERM INT HUP\n(trap '' TERM; sleep 312) &\nsetsid sh -c 'trap \"\" TERM \
        HUP; (setsid sleep 313 &) ; sleep 314' &\n\
        (setsid sh -c 'sleep 315 & exec nohup sleep 316' > /dev/null 2>&1 &)\necho >> \
        started\nwhile :; do sleep 0.1; done\n";
    let site = Site::new(&study("trials = 1\ncount = \"all\"", ONE_SLOT), script);
    let running = site.start_study();
    site.wait_for("started");
    wait_until("its children run", || site.processes().len() >= 7);
    assert_done(&site.run(&["kill", "s", "0"]));
    wait_at_most(Duration::from_secs(2), "all of it is gone", || {
        site.marked_processes("HPSEARCH_TRIAL=0").is_empty()
    });
    assert_eq!(running.end().code, 3);
    assert_eq!(site.processes(), [0; 0]);
}

#[test]
fn files_that_are_moved_away_are_waited_for_and_no_others_are_made_in_their_place() {
    let script = format!("echo >> begun\nwhile [ ! -e go ]; do sleep 0.02; done\n{REPORT_X}");
    // The first trial reads what is not there any more.
    let script =
        format!("{script}[ $HPSEARCH_TRIAL != 0 ] || cat \"$HPSEARCH_CHECKPOINT_DIR/of\"\n");
    let site = Site::new(&study("trials = 3", ONE_SLOT), &script);
    let running = site.start_study();
    site.wait_for("begun");
    site.write("runs/files/s/trial-0/checkpoints/of", "1");
    fs::rename(site.path("runs/files"), site.path("away")).unwrap();
    site.write("go", "");
    wait_until("a trial waits", || {
        let journal = site.run(&["events", "s", "--json"]).out;
        journal.contains("was moved or deleted while it ran: put it back")
    });
    assert!(!site.exists("runs/files"));
    fs::rename(site.path("away"), site.path("runs/files")).unwrap();
    assert_done(&running.end());
    all_complete(&site, 3);
    assert!(site.exists("runs/files/s/.hpsearch-store"));
}

#[test]
fn a_store_with_another_name_is_warned_of() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    let first = site.run_study();
    assert!(!first.err.contains("hard links"), "{}", first.err);
    fs::hard_link(site.path("runs/hpsearch.db"), site.path("copy.db")).unwrap();
    let again = site.run_study_with(&["--set", "budget.trials=2"]);
    assert_done(&again);
    let warning = ["warning: the store", "has other names (hard links)"];
    assert_names(&again.err, &warning);
    assert_names(&site.run(&["tag", "s", "+good", "--store", "copy.db"]).err, &warning);
    assert_names(&site.run(&["doctor"]).out, &["has other names (hard links)", "-samefile"]);
}

#[test]
fn a_working_directory_that_is_moved_away_is_waited_for() {
    let text = study("trials = 2", ONE_SLOT).replace("\"trial.sh\"", "\"../trial.sh\"");
    let text = text.replace("[command]\n", "[command]\ncwd = \"work\"\n");
    let wait = "while [ ! -e ../go ]; do sleep 0.02; done";
    let site = Site::new(&text, &format!("echo >> ../begun\n{wait}\n{REPORT_X}"));
    fs::create_dir(site.path("work")).unwrap();
    let running = site.start_study();
    site.wait_for("begun");
    fs::rename(site.path("work"), site.path("away")).unwrap();
    site.write("go", "");
    wait_until("a trial waits", || {
        let journal = site.run(&["events", "s", "--json"]).out;
        let is_said = |words: &str| journal.contains(words);
        is_said("the working directory of the command, `") && is_said("put it back")
    });
    fs::rename(site.path("away"), site.path("work")).unwrap();
    assert_done(&running.end());
    all_complete(&site, 2);
}

#[test]
fn a_study_file_that_finds_no_space_is_not_left_half_written() {
    let site = Site::empty();
    site.write("train.py", "import sys\n");
    fs::create_dir(site.path("small")).unwrap();
    let program = PROGRAM;
    let init = format!("'{program}' init --command 'python3 train.py --lr 0.1' -o small/s.toml");
    let command = format!(
        "dd if=/dev/zero of=small/filler bs=4k 2> /dev/null\n\
         {init}; echo \"full $?\"; ls -A small; rm small/filler\n\
         {init} > /dev/null; echo \"free $?\"; ls -A small\n"
    );
    let Some(ended) = on_a_small_disk(&site, &command) else { return };
    assert_names(&ended.err, &["`small/s.toml` cannot be written: No space left"]);
    assert_names(&ended.out, &["full 5\nfiller\nfree 0\ns.toml\n"]);
}
