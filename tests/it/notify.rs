//! `[notify]`: people are told what they wait for, and whatever becomes of the message, the study
//! continues.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::harness::{ONE_SLOT, REPORT_X, Site, assert_done, assert_names, assert_refused, study};

/// A program that keeps what it was given.
const KEEPS: &str = "read -r line; echo \"$line\" >> notices.jsonl; \
    echo \"$HPSEARCH_OCCASION|$HPSEARCH_NOTICE|$1\" >> words.txt";

fn site(notify: &str, script: &str) -> Site {
    let text = study("trials = 4\nfailures = 9", ONE_SLOT);
    Site::new(&format!("{text}[notify]\n{notify}\n"), script)
}

#[test]
fn a_program_gets_messages_and_what_comes_within_a_minute_is_one() {
    let fails = format!("if [ \"$HPSEARCH_TRIAL\" = 1 ]; then exit 7; fi\n{REPORT_X}");
    let site = site(&format!("command = [\"sh\", \"-c\", {KEEPS:?}, \"-\", \"{{text}}\"]"), &fails);
    assert_done(&site.run_study());
    let lines = fs::read_to_string(site.path("notices.jsonl")).unwrap();
    let notices: Vec<Json> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(notices.len(), 2, "the first at once, the rest at the end: {lines}");
    assert_eq!(notices[0]["occasion"], "best");
    let last = notices[1]["text"].as_str().unwrap();
    assert_names(last, &["trial 1 failed", "exit status 7", "the run ended", "best: trial"]);
    assert_eq!(notices[1]["occasion"], "finished");
    let words = fs::read_to_string(site.path("words.txt")).unwrap();
    assert_eq!(words.lines().last().unwrap(), format!("finished|{last}|{last}"));
}

#[test]
fn a_program_that_fails_hangs_or_is_missing_delays_no_trial() {
    for (command, word) in [
        ("[\"sh\", \"-c\", \"exit 3\"]", "ended with exit status 3"),
        ("[\"/no/such/program\"]", "cannot be run"),
    ] {
        let site = site(&format!("command = {command}"), REPORT_X);
        let done = site.run_study();
        assert_done(&done);
        assert_names(&done.err, &["the last message of [notify] was not delivered", word]);
    }
    // All trials are done while the first message is still on its way.
    let site = site("command = [\"sleep\", \"3\"]\non = [\"best\"]", REPORT_X);
    let begun = Instant::now();
    assert_done(&site.run_study());
    assert!(begun.elapsed() < Duration::from_secs(30));
    let counts = site.json(&["ls", "--json"]);
    assert_eq!(counts["studies"][0]["trials"]["complete"], 4, "{counts}");
}

#[test]
fn an_address_in_the_file_is_refused_and_a_variable_that_is_not_set_is_said() {
    let site = site("webhook = \"https://hooks.example.org/secret\"", REPORT_X);
    let refused = site.run_study();
    assert_refused(&refused, &["`notify.webhook` is the name of an environment variable", "env:"]);
    let text = fs::read_to_string(site.path("study.toml")).unwrap();
    site.write("study.toml", text.replace("https://hooks.example.org/secret", "env:NOT_SET_HERE"));
    let done = site.run_study();
    assert_done(&done);
    assert_names(&done.err, &["NOT_SET_HERE", "is not set"]);
    let store = fs::read(site.path("runs/hpsearch.db")).unwrap();
    assert!(!store.windows(6).any(|part| part == b"secret"));
}
