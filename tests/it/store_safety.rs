//! The store while others touch its files, what is never written into it, and what `verify` finds
//! in one that was tampered with.

use std::fs;

use rusqlite::Connection;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use serde_json::Value as Json;

use crate::harness::{
    Ended, ONE_SLOT, REPORT_X, Running, STORE, Site, TWO_SLOTS, answered_steps, assert_code,
    assert_done, assert_names, files_below, study, wait_until,
};

/// Steps with a report each, 0.05 s apart.
fn steps(last: u64) -> String {
    answered_steps(last, "0.05", "")
}

/// The steps that were answered, and those of them that the store lacks.
fn answered_and_lost(site: &Site, trials: u64) -> (usize, Vec<(u64, i64)>) {
    let answers: Vec<(u64, i64)> = (0..trials)
        .flat_map(|trial| {
            site.lines(&format!("steps.{trial}"))
                .into_iter()
                .map(move |step| (trial, step.parse().unwrap()))
        })
        .collect();
    let store = site.database();
    let mut report = store
        .prepare("SELECT 1 FROM report WHERE trial_id % 1000000000 = ?1 AND step = ?2")
        .unwrap();
    let mut is_stored =
        |(trial, step): &(u64, i64)| report.exists([trial.cast_signed(), *step]).unwrap();
    let lost = answers.iter().filter(|answer| !is_stored(answer)).copied().collect();
    (answers.len(), lost)
}

/// What a plain reader does: it opens the store, reads, and closes it.
fn read_and_close(site: &Site) {
    let store = site.database();
    store.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0)).unwrap();
}

/// A command that has one of the store's files as a word.
fn naming(word: &str, budget: &str) -> String {
    study(budget, ONE_SLOT).replace("\"{x}\"]", &format!("\"{{x}}\", \"{word}\"]"))
}

/// Fails if a runner has lost the locks by which others know that it has the store open. SQLite
/// from 3.51 on looks twice before it removes a log, earlier ones do not.
fn assert_has_its_locks(site: &Site, running: &Running) {
    // The bytes that SQLite locks while it has a store in WAL mode open: `SHARED_FIRST` of the file
    // and `UNIX_SHM_DMS` of its index.
    for (ending, start, length) in [("", 0x4000_0002, 510), ("-shm", 128, 1)] {
        let file = fs::File::open(site.path(&format!("{STORE}{ending}"))).unwrap();
        let write = Flock { start, length, ..Flock::from(FlockType::WriteLock) };
        let holder = fcntl_getlk(&file, &write).unwrap().and_then(|held| held.pid);
        let holder = holder.map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        assert_eq!(holder, Some(running.id()), "the lock on {STORE}{ending}");
    }
}

/// Runs a study whose command has `word` in it while others read the store; every answer must be
/// kept.
fn run_while_others_read(site: &Site) {
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    assert_has_its_locks(site, &running);
    assert_done(&running.end_watched(|| {
        // What was answered before is seen by everyone, at any time.
        let (answered, lost) = answered_and_lost(site, 2);
        assert_eq!(lost, [], "of {answered}");
    }));
    assert_eq!(answered_and_lost(site, 2), (16, Vec::new()));
    site.assert_sound();
}

#[test]
fn a_command_that_names_a_file_of_the_store_does_not_cost_the_runner_its_locks() {
    for ending in ["", "-wal", "-shm"] {
        run_while_others_read(&Site::new(
            &naming(&format!("{STORE}{ending}"), "trials = 2"),
            &steps(8),
        ));
    }
}

/// Announces the file of the store that it is given, under several names, as everything that a
/// runner reads; the second trial does not end.
const ANNOUNCES: &str = r#"
file="$PWD/$2" own="$HPSEARCH_CHECKPOINT_DIR"
mkdir -p "$own/links" "$own/events"
ln -s "$file" "$own/links/link"
ln -s "$file" "$own/links/digests.json"
ln "$file" "$own/other"
ln "$file" "$own/events/events.out.tfevents.1"
for path in "$file" "$own/other" "$own/links"; do
  echo "@hpsearch {\"artifact\":\"$path\",\"name\":\"a\"}"
  echo "@hpsearch {\"checkpoint\":\"$path\",\"step\":1}"
done
echo "@hpsearch {\"step\":1,\"loss\":$1}"
read -r answer || exit 8
echo 1 >> steps.$HPSEARCH_TRIAL
[ $HPSEARCH_TRIAL -eq 0 ] || sleep 309
"#;

#[test]
fn whatever_a_trial_announces_of_the_stores_files_the_runner_keeps_its_locks() {
    // With digests of checkpoints.
    let rest = "[pruner]\ntype = \"pbt\"\npopulation = 2\ninterval = 1\nmax_resource = 3\n\
        [devices]\nuse = [\"sim:0\"]\n";
    for ending in ["", "-wal", "-shm"] {
        let word = format!("{STORE}{ending}");
        let site = Site::new("", ANNOUNCES);
        let files = format!(
            "[command.metrics]\njson = \"{}\"\ntensorboard = \"events\"\n",
            site.path(&word).display()
        );
        let study = study("trials = 2", rest)
            .replace("\"{x}\"]\n", &format!("\"{{x}}\", \"{word}\"]\n{files}"));
        site.write("study.toml", study);
        let running = site.start_study();
        site.wait_for_lines("steps.1", 1);
        assert_has_its_locks(&site, &running);
        drop(running);
        site.assert_sound();
    }
}

#[test]
fn another_name_of_the_store_does_not_cost_the_runner_its_locks_either() {
    let site = Site::new(&naming("other-name", "trials = 2"), &steps(8));
    assert_done(&site.run_study_with(&["--fork", "first", "--set", "budget.trials=1"]));
    fs::remove_file(site.path("steps.0")).unwrap();
    fs::hard_link(site.path(STORE), site.path("other-name")).unwrap();
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    assert_has_its_locks(&site, &running);
    assert_done(&running.end_watched(|| {
        let answered = site.lines("steps.0").len() + site.lines("steps.1").len();
        let stored: i64 = site
            .database()
            .query_row("SELECT count(*) FROM report WHERE trial_id >= 2000000000", [], |row| {
                row.get(0)
            })
            .unwrap();
        assert!(usize::try_from(stored).unwrap() >= answered, "{stored} of {answered}");
    }));
    site.assert_sound();
}

/// Starts a study of two trials on two slots, lets `strike` at its files once steps are done, and
/// waits for its end.
fn struck(strike: impl FnOnce(&Site)) -> (Site, Ended) {
    let site = Site::new(&study("trials = 2", TWO_SLOTS), &steps(200));
    let running: Running = site.start_study();
    wait_until("steps are done", || {
        site.lines("steps.0").len() >= 3 && site.lines("steps.1").len() >= 3
    });
    strike(&site);
    let ended = running.end();
    assert_eq!(site.processes(), [0; 0]);
    (site, ended)
}

fn remove(site: &Site, ending: &str) {
    fs::remove_file(site.path(&format!("{STORE}{ending}"))).unwrap();
}

/// It ended with 5, said which file went and what to do, and the store is sound and can be gone on
/// with.
fn assert_missed(site: &Site, ended: &Ended, words: &[&str]) {
    assert_code(ended, 5);
    for word in words {
        assert!(ended.err.contains(word), "`{word}`: {}", ended.err);
    }
    site.assert_sound();
    site.write("trial.sh", REPORT_X);
    assert_done(&site.run_study());
    assert_eq!(site.states(), ["complete", "complete"]);
    site.assert_sound();
}

#[test]
fn a_removed_wal_is_missed_before_anything_more_is_answered_and_what_was_answered_is_saved() {
    let (site, ended) = struck(|site| remove(site, "-wal"));
    let (answered, lost) = answered_and_lost(&site, 2);
    assert_eq!(lost, [], "of {answered}\n{}", ended.err);
    assert_missed(
        &site,
        &ended,
        &["hpsearch.db-wal", "was removed", "everything that was answered is stored"],
    );
}

#[test]
fn a_removed_shm_is_missed_before_anything_more_is_answered_and_nothing_is_lost() {
    let (site, ended) = struck(|site| remove(site, "-shm"));
    assert_eq!(answered_and_lost(&site, 2).1, []);
    assert_missed(
        &site,
        &ended,
        &["hpsearch.db-shm", "was removed", "everything that was answered is stored"],
    );
}

#[test]
fn both_removed_are_missed_and_what_was_answered_is_saved() {
    let (site, ended) =
        struck(|site| ["-wal", "-shm"].into_iter().for_each(|ending| remove(site, ending)));
    assert_eq!(answered_and_lost(&site, 2).1, []);
    assert_missed(&site, &ended, &["was removed", "everything that was answered is stored"]);
}

#[test]
fn a_plain_reader_that_comes_after_the_removal_changes_nothing() {
    let (site, ended) = struck(|site| {
        ["-wal", "-shm"].into_iter().for_each(|ending| remove(site, ending));
        read_and_close(site);
        // A process of its own, too.
        site.run(&["ls"]);
    });
    assert_eq!(answered_and_lost(&site, 2).1, []);
    assert_missed(&site, &ended, &["everything that was answered is stored"]);
}

#[test]
fn a_log_that_somebody_else_wrote_to_is_not_mixed_with_the_one_that_was_removed() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(200));
    let running = site.start_study();
    site.wait_for_lines("steps.0", 3);
    // It waits while somebody else makes a log of another history.
    running.signal(rustix::process::Signal::STOP);
    wait_until("it is stopped", || hpsearch::runner::processes::is_stopped(running.child.id()));
    ["-wal", "-shm"].into_iter().for_each(|ending| remove(&site, ending));
    site.database()
        .execute_batch("CREATE TABLE IF NOT EXISTS of_mine (x); INSERT INTO of_mine VALUES (1)")
        .unwrap();
    running.signal(rustix::process::Signal::CONT);
    let ended = running.end();
    assert_code(&ended, 5);
    // A new file may have the inode of the one that was removed; else it is missed as others are.
    let noticed = ["another process has written to the new one", "was replaced by another file"];
    assert!(noticed.iter().any(|said| ended.err.contains(said)), "{}", ended.err);
    site.assert_sound();
    assert_eq!(
        site.database().query_row("SELECT x FROM of_mine", [], |row| row.get::<_, i64>(0)).unwrap(),
        1
    );
}

#[test]
fn files_that_are_replaced_by_copies_are_missed_and_the_store_stays_sound() {
    for ending in ["-wal", "-shm"] {
        let (site, ended) = struck(|site| {
            let (path, copy) = (site.path(&format!("{STORE}{ending}")), site.path("copy"));
            fs::copy(&path, &copy).unwrap();
            fs::rename(&copy, &path).unwrap();
        });
        assert_missed(
            &site,
            &ended,
            &[&format!("hpsearch.db{ending}"), "was replaced by another file"],
        );
    }
}

#[test]
fn another_process_with_the_store_open_keeps_a_removed_wal_from_being_written_back_and_is_named() {
    let mut holder = None;
    let (site, ended) = struck(|site| {
        let reader = Connection::open_with_flags(
            site.path(STORE),
            rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY,
        )
        .unwrap();
        reader.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0)).unwrap();
        holder = Some(reader);
        remove(site, "-wal");
    });
    drop(holder);
    assert_code(&ended, 5);
    assert_names(&ended.err, &["another process has the store open"]);
    site.assert_sound();
}

#[test]
fn a_runner_that_has_nothing_to_write_misses_its_wal_too() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), "echo >> started\nsleep 309\n");
    let running = site.start_study();
    site.wait_for("started");
    remove(&site, "-wal");
    let ended = running.end();
    assert_code(&ended, 5);
    assert_eq!(site.processes(), [0; 0]);
    site.assert_sound();
}

#[test]
fn results_are_not_written_over_the_store() {
    let site = Site::finished("trials = 1");
    fs::hard_link(site.path(STORE), site.path("trials.csv")).unwrap();
    for target in [STORE, "runs/hpsearch.db-wal", "trials.csv"] {
        let refused = site.run(&["export-data", "s", "--format", "csv", "-o", target]);
        assert_eq!(refused.code, 2, "{target}: {}\n{}", refused.out, refused.err);
        assert!(
            ["overwritten", "written over"].iter().any(|words| refused.err.contains(words)),
            "{}",
            refused.err
        );
    }
    site.assert_sound();
    assert_eq!(site.states(), ["complete"]);
}

const KEY: &str = "sk-secret-0123456789";
const ROTATED: &str = "sk-rotated-9876543210";
const TOKEN: &str = "tok-of-the-command-line";

fn with_key(key: &str, trials: u64) -> String {
    study(&format!("trials = {trials}"), ONE_SLOT)
        .replace("[budget]", &format!("env = {{ API_KEY = \"{key}\", MODE = \"fast\" }}\n[budget]"))
}

#[test]
fn values_of_the_commands_environment_reach_the_program_and_are_written_nowhere() {
    let site = Site::new(
        &with_key(KEY, 1),
        &format!("[ \"$API_KEY\" = {KEY} ] && [ \"$TOKEN\" = {TOKEN} ] || exit 9\n{REPORT_X}"),
    );
    let git = |words: &[&str]| {
        let mut all = vec!["-c", "user.name=n", "-c", "user.email=e@x"];
        all.extend(words);
        site.run_program("git", &all).is_some_and(|ended| ended.code == 0)
    };
    // A repository in which the key is not committed: what changed since is kept with the results.
    let has_git = git(&["init", "--quiet"]);
    site.write("study.toml", with_key("none", 1));
    if has_git {
        assert!(git(&["add", "study.toml"]) && git(&["commit", "--quiet", "-m", "first"]));
    }
    site.write("study.toml", with_key(KEY, 1));
    let said = site.run(&[
        "run",
        "study.toml",
        "--events",
        "--set",
        &format!("command.env.TOKEN={TOKEN}"),
    ]);
    assert_done(&said);
    assert_eq!(site.states(), ["complete"]);
    for value in [KEY, TOKEN] {
        let holds = |bytes: &[u8]| bytes.windows(value.len()).any(|part| part == value.as_bytes());
        let mut files = files_below(&site.path("runs")).into_iter();
        assert_eq!(files.find(|(_, bytes)| holds(bytes)).map(|(path, _)| path), None);
    }
    let mut texts = vec![said.out, said.err];
    for verb in [
        &["show", "s"][..],
        &["show", "s", "--json"],
        &["show", "s", "0"],
        &["show", "s", "0", "--json"],
        &["explain", "s", "0"],
        &["explain", "s", "0", "--json"],
        &["events", "s"],
        &["events", "s", "--json"],
        &["best", "s"],
        &["best", "s", "--json"],
        &["ls", "--json"],
        &["diff", "s", "study.toml"],
        &["diff", "s", "study.toml", "--json"],
        &["diff", "study.toml", "--set", "command.env.API_KEY=sk-rotated-9876543210"],
        &["check", "study.toml"],
    ] {
        let ended = site.run(verb);
        texts.extend([ended.out, ended.err]);
    }
    for value in [KEY, ROTATED, TOKEN] {
        let holding: Vec<&String> = texts.iter().filter(|text| text.contains(value)).collect();
        assert!(holding.is_empty(), "{value}: {holding:?}");
    }
    let shown = site.run(&["show", "s"]);
    assert!(
        shown.out.contains("API_KEY"),
        "its name is shown, with a digest of its value: {}",
        shown.out
    );
}

#[test]
fn a_changed_value_of_the_environment_is_said_by_its_name_and_taken() {
    let site = Site::new(&with_key(KEY, 1), &format!("echo \"$API_KEY\" >> seen\n{REPORT_X}"));
    assert_done(&site.run_study());
    site.write("study.toml", with_key(ROTATED, 2));
    let again = site.run_study();
    assert_done(&again);
    assert_names(&again.err, &["command.env.API_KEY"]);
    assert!(
        !again.err.contains("command.env.MODE")
            && !again.err.contains(KEY)
            && !again.err.contains(ROTATED),
        "{}",
        again.err
    );
    assert_eq!(site.lines("seen"), [KEY, ROTATED]);
    // So is one that comes or goes.
    site.write("study.toml", with_key(ROTATED, 3).replace(", MODE = \"fast\"", ""));
    let taken = site.run_study();
    assert_done(&taken);
    assert!(
        taken.err.contains("command.env.MODE: set -> not set") && !taken.err.contains("fast"),
        "{}",
        taken.err
    );
}

#[test]
fn an_interrupted_run_does_not_print_the_values_of_its_command_line() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), "echo >> started\nsleep 309\n");
    let running = site.start(&[
        "run",
        "study.toml",
        "--plain",
        "--set",
        &format!("command.env.TOKEN={TOKEN}"),
    ]);
    site.wait_for("started");
    running.signal(rustix::process::Signal::INT);
    let ended = running.end();
    assert_code(&ended, 130);
    assert!(
        ended.err.contains("command.env.TOKEN=") && !ended.err.contains(TOKEN),
        "{}",
        ended.err
    );
}

/// A study whose values have every kind of row: several metrics, two attempts, a zero with a sign.
fn many_rows() -> Site {
    let script = "[ $HPSEARCH_TRIAL -ne 1 ] || [ $HPSEARCH_ATTEMPT -gt 0 ] || kill -9 $$\n\
        echo \"@hpsearch {\\\"step\\\":1,\\\"loss\\\":$1,\\\"accuracy\\\":0.5}\"\n\
        echo \"@hpsearch {\\\"step\\\":2,\\\"loss\\\":-0.0,\\\"accuracy\\\":0.75}\"\n";
    let site = Site::new(
        &study("trials = 3", &format!("{ONE_SLOT}[retry]\nmax = 1\non = [\"worker_lost\"]\n")),
        script,
    );
    assert_done(&site.run_study());
    site
}

#[test]
fn a_zero_with_a_sign_is_no_difference() {
    let site = many_rows();
    let verified = site.run(&["verify", "s"]);
    assert_done(&verified);
}

/// What `verify` says of a store that was tampered with: its table, trial and field, and the two
/// sides.
fn found_after(site: &Site, sql: &str) -> (Ended, Json) {
    let tampered = Site::new("", "");
    fs::create_dir(tampered.path("runs")).unwrap();
    fs::copy(site.path(STORE), tampered.path(STORE)).unwrap();
    let store = tampered.database();
    store
        .execute_batch(&format!(
            "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; {sql}"
        ))
        .unwrap();
    drop(store);
    let said = tampered.run(&["verify", "s"]);
    assert_eq!(said.code, 7, "{sql}: {}\n{}", said.out, said.err);
    let json = tampered.run(&["verify", "s", "--json"]);
    assert_eq!(json.code, 7);
    let json: Json = json.json();
    (said, json["difference"].clone())
}

#[test]
fn stores_of_older_versions_that_were_brought_up_to_date_repeat_exactly() {
    for dump in [
        include_str!("stores/v1.sql"),
        include_str!("stores/v2.sql"),
        include_str!("stores/v3.sql"),
        include_str!("stores/v4.sql"),
        include_str!("stores/v5.sql"),
        include_str!("stores/v8.sql"),
        include_str!("stores/v9.sql"),
    ] {
        let site = Site::new("", "");
        fs::create_dir(site.path("runs")).unwrap();
        site.database().execute_batch(dump).unwrap();
        let verified = site.run(&["verify", "old"]);
        assert_done(&verified);
        assert_names(&verified.err, &["migrated"]);
        assert_eq!(
            verified.err.contains("still holds them"),
            dump.contains("API_KEY"),
            "{}",
            verified.err
        );
        assert_eq!(site.run(&["verify", "old"]).err, "", "it is said once");
    }
}

#[test]
fn every_table_is_held_against_the_journal() {
    let site = many_rows();
    let trial = |number: u64, table: &str| {
        format!(
            "{table}.{} = 1000000000 + {number}",
            if table == "trial" { "id" } else { "trial_id" }
        )
    };
    let of = |table: &str| format!("{} ", trial(1, table));
    // What is done to the store; then the table, the trial and the field that are named.
    let cases: Vec<(String, &str, Option<u64>, &str)> = vec![
        ("DELETE FROM event".to_owned(), "event", None, ""),
        ("DELETE FROM event WHERE seq > 4".to_owned(), "", None, ""),
        (
            "UPDATE objective SET direction = 'maximize'".to_owned(),
            "objective",
            None,
            "objective 0 direction",
        ),
        (
            "UPDATE objective SET metric = 'accuracy'".to_owned(),
            "objective",
            None,
            "objective 0 metric",
        ),
        (
            "UPDATE study SET spec = replace(spec, '\"minimize\"', '\"maximize\"')".to_owned(),
            "study",
            None,
            "spec study.direction",
        ),
        (
            "UPDATE study SET spec = json_set(spec, '$.seed', 8)".to_owned(),
            "study",
            None,
            "spec study.seed",
        ),
        ("UPDATE study SET finished_reason = 'so'".to_owned(), "study", None, "finished_reason"),
        ("UPDATE study SET ran_micros = ran_micros + 1".to_owned(), "study", None, "ran_micros"),
        (
            format!("UPDATE trial SET last_value = 0.125 WHERE {}", of("trial")),
            "trial",
            Some(1),
            "last_value",
        ),
        (
            format!("UPDATE trial SET last_step = 9 WHERE {}", of("trial")),
            "trial",
            Some(1),
            "last_step",
        ),
        (
            format!("UPDATE trial SET last_metrics = '{{}}' WHERE {}", of("trial")),
            "trial",
            Some(1),
            "last_metrics",
        ),
        (
            format!("UPDATE trial SET state = 'pruned' WHERE {}", of("trial")),
            "trial",
            Some(1),
            "state",
        ),
        (
            format!("UPDATE trial SET attempts = 7 WHERE {}", of("trial")),
            "trial",
            Some(1),
            "attempts",
        ),
        (
            format!("UPDATE trial_value SET value = -1 WHERE {}", of("trial_value")),
            "trial_value",
            Some(1),
            "value",
        ),
        (
            format!("UPDATE param SET value = '0.5' WHERE {}", of("param")),
            "param",
            Some(1),
            "x value",
        ),
        (
            format!(
                "UPDATE report SET value = 0.125 WHERE step = 1 AND metric_id = (SELECT id FROM \
                 metric WHERE name = 'accuracy') AND {}",
                of("report")
            ),
            "report",
            Some(1),
            "accuracy at step 1 value",
        ),
        (
            format!(
                "DELETE FROM report WHERE step = 1 AND metric_id = (SELECT id FROM metric WHERE \
                 name = 'accuracy') AND {}",
                of("report")
            ),
            "report",
            Some(1),
            "accuracy at step 1 value",
        ),
        (
            format!(
                "UPDATE report SET value = 0.125 WHERE step = 1 AND metric_id = (SELECT id FROM \
                 metric WHERE name = 'loss') AND {}",
                of("report")
            ),
            "report",
            Some(1),
            "loss at step 1 value",
        ),
        (
            format!(
                "UPDATE attempt SET outcome = '\"completed\"' WHERE attempt = 0 AND {}",
                of("attempt")
            ),
            "attempt",
            Some(1),
            "attempt 0 outcome",
        ),
        (
            format!("DELETE FROM attempt WHERE attempt = 0 AND {}", of("attempt")),
            "attempt",
            Some(1),
            "",
        ),
        (
            format!("UPDATE attempt SET device = 'cpu' WHERE attempt = 1 AND {}", of("attempt")),
            "attempt",
            Some(1),
            "attempt 1 device",
        ),
        (
            "UPDATE runner SET host = 'elsewhere'".to_owned(),
            "runner",
            None,
            "runner of event 1 host",
        ),
        (
            "UPDATE runner SET ran_micros = 1".to_owned(),
            "runner",
            None,
            "runner of event 1 ran_micros",
        ),
        ("UPDATE runner SET slots = '[]'".to_owned(), "runner", None, "runner of event 1 slots"),
        (
            format!("UPDATE attempt SET until = 9 WHERE attempt = 1 AND {}", of("attempt")),
            "attempt",
            Some(1),
            "attempt 1 until",
        ),
        (
            "UPDATE runner SET stopped_at = NULL".to_owned(),
            "runner",
            None,
            "runner of event 1 stopped_at",
        ),
        (
            "UPDATE runner SET lineage = NULL".to_owned(),
            "runner",
            None,
            "runner of event 1 lineage",
        ),
        ("DELETE FROM runner".to_owned(), "runner", None, ""),
    ];
    for (sql, table, trial, field) in cases {
        let (said, difference) = found_after(&site, &sql);
        if table.is_empty() {
            continue;
        }
        assert_eq!(difference["table"], table, "{sql}: {difference}\n{}", said.out);
        assert_eq!(difference["trial"], serde_json::json!(trial), "{sql}: {difference}");
        let place =
            ["row", "field"].map(|key| difference[key].as_str().unwrap_or_default()).join(" ");
        assert!(field.is_empty() || place.trim() == field, "{sql}: {difference}");
        assert!(said.out.contains(&format!("table `{table}`")), "{sql}: {}", said.out);
        let column = field.rsplit(' ').next().unwrap();
        assert!(said.out.contains(column), "{sql}: {}", said.out);
        for debug in ["Some(", "None", "Trial {", "TrialNumber"] {
            assert!(!said.out.contains(debug), "{sql}: {}", said.out);
        }
    }
}

#[test]
fn names_of_stores_that_sqlite_would_take_for_something_special_are_names_of_files() {
    for name in [":memory:", "file:x.db", "file::memory:?cache=shared", "file:x.db?mode=memory"] {
        let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
        assert_done(&site.run_study_with(&["--store", name]));
        assert!(
            site.path(name).is_file(),
            "{name}: {:?}",
            fs::read_dir(site.path(""))
                .unwrap()
                .flatten()
                .map(|entry| entry.file_name())
                .collect::<Vec<_>>()
        );
        let listed = site.run(&["ls", "--json", "--store", name]);
        assert_done(&listed);
        assert!(listed.out.contains("\"s\""), "{name}: {}", listed.out);
        assert_done(&site.run(&["note", "s", "-m", "so", "--store", name]));
        assert!(site.run(&["show", "s", "--store", name]).out.contains("so"), "{name}");
        assert!(!site.exists("x.db") && !site.path("runs").join("hpsearch.db").exists());
    }
}

#[test]
fn an_empty_variable_for_the_store_is_no_variable_and_an_empty_option_is_refused() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    assert_done(&site.start_study_with(&[("HPSEARCH_STORE", "")]).end());
    assert!(site.path(STORE).is_file());
    let refused = site.run(&["ls", "--store", ""]);
    assert_code(&refused, 2);
    assert_names(&refused.err, &["--store", "names no file"]);
}

/// The same in a store that holds an earlier study; `strike` is given the log as it was before.
fn struck_after_an_earlier_study(strike: impl FnOnce(&Site, &[u8])) -> (Site, Ended) {
    let site = Site::new(&study("trials = 2", TWO_SLOTS), REPORT_X);
    assert_done(&site.run_study_with(&["--fork", "earlier"]));
    site.write("trial.sh", steps(200));
    let running: Running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    let early = fs::read(site.path(&format!("{STORE}-wal"))).unwrap();
    wait_until("steps are done", || {
        site.lines("steps.0").len() >= 6 && site.lines("steps.1").len() >= 3
    });
    strike(&site, &early);
    let ended = running.end();
    assert_eq!(site.processes(), [0; 0]);
    (site, ended)
}

/// Besides, the earlier study is as it was.
fn assert_log_was_given_up(site: &Site, ended: &Ended) {
    let of_earlier = || {
        let of_all = "SELECT count(*) FROM trial WHERE state = 'complete' AND study_id = (SELECT \
            id FROM study WHERE name = 'earlier')";
        site.database().query_row(of_all, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_code(ended, 5);
    site.assert_sound();
    assert_eq!(of_earlier(), 2);
    assert_missed(site, ended, &["hpsearch.db-wal", "was truncated or overwritten", "is lost"]);
    assert_eq!(of_earlier(), 2);
}

fn open_to_write(site: &Site, ending: &str) -> fs::File {
    fs::OpenOptions::new().write(true).open(site.path(&format!("{STORE}{ending}"))).unwrap()
}

#[test]
fn a_wal_that_is_emptied_in_place_is_missed_and_never_written_back() {
    let (site, ended) =
        struck_after_an_earlier_study(|site, _| open_to_write(site, "-wal").set_len(0).unwrap());
    assert_log_was_given_up(&site, &ended);
}

#[test]
fn a_wal_that_is_cut_in_place_is_missed_and_never_written_back() {
    let (site, ended) = struck_after_an_earlier_study(|site, _| {
        open_to_write(site, "-wal").set_len(30_000).unwrap()
    });
    assert_log_was_given_up(&site, &ended);
}

#[test]
fn a_wal_that_is_overwritten_by_an_older_copy_of_itself_is_missed_and_never_written_back() {
    let (site, ended) = struck_after_an_earlier_study(|site, early| {
        fs::write(site.path(&format!("{STORE}-wal")), early).unwrap()
    });
    assert_log_was_given_up(&site, &ended);
}

#[test]
fn an_older_copy_of_all_files_over_the_living_ones_is_missed_and_the_store_is_as_the_copy_was() {
    let site = Site::new(&study("trials = 2", TWO_SLOTS), &steps(200));
    let running: Running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    let early = ["", "-wal", "-shm"]
        .map(|ending| (ending, fs::read(site.path(&format!("{STORE}{ending}"))).unwrap()));
    wait_until("steps are done", || {
        site.lines("steps.0").len() >= 6 && site.lines("steps.1").len() >= 3
    });
    running.signal(rustix::process::Signal::STOP);
    wait_until("it is stopped", || hpsearch::runner::processes::is_stopped(running.child.id()));
    early.iter().for_each(|(ending, bytes)| {
        fs::write(site.path(&format!("{STORE}{ending}")), bytes).unwrap()
    });
    running.signal(rustix::process::Signal::CONT);
    let ended = running.end();
    assert_eq!(site.processes(), [0; 0]);
    assert_missed(&site, &ended, &["while the store was in use", "is lost"]);
}

#[test]
fn an_shm_that_is_emptied_in_place_ends_the_run_with_an_error_and_nothing_is_lost() {
    let (site, ended) = struck(|site| open_to_write(site, "-shm").set_len(0).unwrap());
    // What comes in the middle of a transaction ends the process by SIGBUS; in between it is
    // noticed.
    assert_eq!(answered_and_lost(&site, 2).1, []);
    assert_missed(
        &site,
        &ended,
        &["hpsearch.db-shm", "was truncated", "everything that was answered is stored"],
    );
}

#[test]
fn a_log_that_others_cut_to_nothing_by_a_checkpoint_is_no_damage() {
    let site = Site::new(&study("trials = 2", ONE_SLOT), &steps(12));
    let running = site.start_study();
    site.wait_for_lines("steps.0", 1);
    assert_done(&running.end_watched(|| {
        let _busy_at_times =
            site.database()
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    }));
    assert_eq!(answered_and_lost(&site, 2), (24, Vec::new()));
    site.assert_sound();
}

#[test]
fn what_is_no_file_is_no_store_and_is_named_as_what_it_is() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    fs::create_dir(site.path("directory")).unwrap();
    assert!(
        std::process::Command::new("mkfifo").arg(site.path("pipe")).status().unwrap().success()
    );
    let _socket = std::os::unix::net::UnixListener::bind(site.path("socket")).unwrap();
    let kinds = [
        ("directory", "a directory"),
        ("pipe", "a named pipe"),
        ("socket", "a socket"),
        ("/dev/null", "a device"),
    ];
    for (store, what) in kinds {
        for verb in [
            &["ls"][..],
            &["run", "study.toml", "--plain"],
            &["enqueue", "s", "x=0.5"],
            &["doctor"],
        ] {
            let told = site.run(&[&["--store", store], verb].concat());
            let words = format!("{}{}", told.out, told.err);
            assert_ne!(told.code, 0, "{store} {verb:?}: {words}");
            assert!(
                words.contains(what) && !words.contains("there is no store"),
                "{store} {verb:?}: {words}"
            );
        }
    }
}

#[test]
fn a_limit_on_file_sizes_is_told_from_the_first_write_on_and_trials_have_the_signal_as_usual() {
    let site = Site::new(
        &study("trials = 1", ONE_SLOT),
        &format!("grep SigIgn /proc/self/status > ignored\n{REPORT_X}"),
    );
    let limited = "ulimit -f 10; exec \"$0\" run study.toml --plain";
    let ended = site.start_shell(limited).end();
    assert_code(&ended, 5);
    assert_names(&ended.err, &["`ulimit -f`"]);
    assert_done(&site.run_study());
    let ignored =
        u64::from_str_radix(site.read("ignored").trim().trim_start_matches("SigIgn:").trim(), 16)
            .unwrap();
    assert_eq!(ignored & (1 << 24), 0, "SIGXFSZ");
}

#[test]
fn no_verb_makes_a_store_over_the_log_of_one_that_was_moved_away() {
    let site = Site::new(&study("trials = 1", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    site.write("table.csv", "lr,loss\n1,2\n");
    let log = format!("{STORE}-wal");
    fs::rename(site.path(STORE), site.path("away.db")).unwrap();
    site.write(&log, "frames");
    let ask_tell = site.start_shell(
        "echo '{\"cmd\":\"init\",\"space\":[],\"define\":true}' | \"$0\" ask-tell --study q",
    );
    let said = ask_tell.end();
    assert_names(&said.out, &["-wal` is the log of a store", "put that file back"]);
    for verb in [
        &["track", "--", "true"][..],
        &["import", "table.csv", "--study", "i"],
        &["run", "study.toml", "--plain"],
    ] {
        let ended = site.run(verb);
        assert_code(&ended, 5);
        assert_names(&ended.err, &["-wal` is the log of a store", "put that file back"]);
    }
    let doctor = site.run(&["doctor"]);
    assert_done(&doctor);
    assert_names(&doctor.out, &["warning", "-wal` is the log of a store"]);
    assert_eq!(site.read(&log), "frames");
    assert!(!site.exists(STORE));
    fs::remove_file(site.path(&log)).unwrap();
    fs::rename(site.path("away.db"), site.path(STORE)).unwrap();
    assert_eq!(site.states(), ["complete"]);
}

#[test]
fn a_store_that_is_named_by_a_symbolic_link_has_the_files_of_its_target() {
    let save = "echo 1 > \"$HPSEARCH_CHECKPOINT_DIR/1\"; echo \"@hpsearch \
        {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/1\\\",\\\"step\\\":1}\"\n";
    let script = format!("{REPORT_X}\n{save}");
    let site = Site::new(&study("trials = 1", ONE_SLOT), &script);
    assert_done(&site.run_study());
    fs::create_dir(site.path("other")).unwrap();
    std::os::unix::fs::symlink("../runs/hpsearch.db", site.path("other/link.db")).unwrap();
    let more = ["--set", "budget.trials=2", "--store", "other/link.db"];
    assert_done(&site.run_study_with(&more));
    assert_done(&site.run(&["export", "s", "--store", "other/link.db", "-o", "best"]));
    let names: Vec<_> = fs::read_dir(site.path("other")).unwrap().collect();
    assert_eq!(names.len(), 1, "only the link: {names:?}");
    assert_done(&site.run(&["rm", "s", "--yes", "--store", "other/link.db"]));
    assert!(!site.exists("runs/files/s"));
}
