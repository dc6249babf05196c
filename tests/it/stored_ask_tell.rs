//! `hpsearch ask-tell --study`: every answer is in the store before it is given, and a conversation
//! that is killed continues where it was.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{PROGRAM, Site};

const INIT: &str = r#"{"cmd":"init","space":[{"name":"x","type":"float","low":0,"high":1}],"seed":3,"n_trials":40,"sampler":{"type":"tpe"}}"#;
const DEFINES: &str = r#"{"cmd":"init","space":[],"define":true,"seed":1}"#;

struct Talk {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Talk {
    fn new(site: &Site) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["ask-tell", "--study", "talk"])
            .current_dir(site.path(""))
            .env_remove("HPSEARCH_STORE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) =
            (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Talk { child, input, output }
    }

    fn say(&mut self, line: &str) -> Value {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Kills it with a line on its way that it may have read or not.
    fn kill_while_it_reads(mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.kill();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn quit(mut self) {
        assert_eq!(self.say(r#"{"cmd":"quit"}"#), json!({ "ok": true }));
        assert!(self.child.wait().unwrap().success());
    }
}

fn assert_verified(site: &Site) {
    let verified = site.run(&["verify", "talk"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    site.assert_sound();
}

#[test]
fn what_was_answered_is_stored_whenever_it_is_killed() {
    let site = Site::empty();
    // After `init`, and after `ask`.
    let mut talk = Talk::new(&site);
    assert_eq!(talk.say(INIT), json!({ "ok": true, "trials": 0, "open": [] }));
    talk.kill();
    let mut talk = Talk::new(&site);
    talk.say(INIT);
    let first = talk.say(r#"{"cmd":"ask"}"#);
    let second = talk.say(r#"{"cmd":"ask"}"#);
    assert_eq!((&first["id"], &second["id"]), (&json!(0), &json!(1)));
    talk.kill();
    // Both are said to be open; one is told at once, the other continues, and reports.
    let mut talk = Talk::new(&site);
    let answer = talk.say(INIT);
    assert_eq!(answer["open"][0]["params"], first["params"]);
    assert_eq!(answer["open"].as_array().unwrap().len(), 2);
    assert_eq!(talk.say(r#"{"cmd":"tell","id":1,"state":"failed"}"#), json!({ "ok": true }));
    let resumed = talk.say(r#"{"cmd":"ask"}"#);
    assert_eq!((&resumed["resume"], &resumed["params"]), (&json!(0), &first["params"]));
    let report = r#"{"cmd":"report","id":0,"step":1,"value":0.5}"#;
    assert_eq!(talk.say(report)["verdict"], "continue");
    talk.kill();
    // A report and a tell that were answered are there; a tell that is said again is refused.
    let mut talk = Talk::new(&site);
    assert_eq!(talk.say(INIT)["open"][0]["reports"], json!([[1, 0.5]]));
    assert_eq!(talk.say(r#"{"cmd":"ask"}"#)["reported"], 1);
    assert_eq!(talk.say(r#"{"cmd":"tell","id":0,"value":0.25}"#), json!({ "ok": true }));
    talk.kill();
    let mut talk = Talk::new(&site);
    assert_eq!(talk.say(INIT)["open"], json!([]));
    let again = talk.say(r#"{"cmd":"tell","id":0,"value":0.25}"#);
    assert!(again["error"].as_str().unwrap().contains("complete already"), "{again}");
    assert_eq!(talk.say(r#"{"cmd":"best"}"#)["value"], 0.25);
    talk.quit();
    let listed = site.json(&["trials", "talk", "--sort", "number", "--json"]);
    let states: Vec<&str> =
        listed["trials"].as_array().unwrap().iter().filter_map(|t| t["state"].as_str()).collect();
    assert_eq!(states, ["complete", "failed"]);
    assert_verified(&site);
}

#[test]
fn lines_that_a_kill_overtakes_are_done_once_or_not_at_all() {
    let site = Site::empty();
    let mut told = 0;
    for round in 0..12 {
        let mut talk = Talk::new(&site);
        let open = talk.say(INIT)["open"].as_array().unwrap().len();
        assert!(open <= 1, "round {round}: {open} are open");
        let asked = talk.say(r#"{"cmd":"ask"}"#);
        let id = asked.get("id").or(asked.get("resume")).unwrap().as_u64().unwrap();
        let tell = format!(r#"{{"cmd":"tell","id":{id},"value":{}}}"#, asked["params"]["x"]);
        if round % 3 == 0 {
            talk.kill_while_it_reads(&tell);
        } else if round % 3 == 1 {
            assert_eq!(talk.say(&tell), json!({ "ok": true }));
            told += 1;
            talk.kill_while_it_reads(r#"{"cmd":"ask"}"#);
        } else {
            talk.kill();
        }
    }
    let listed = site.json(&["trials", "talk", "--json"]);
    let trials = listed["trials"].as_array().unwrap();
    let complete = trials.iter().filter(|trial| trial["state"] == "complete").count();
    assert!((told..=told + 4).contains(&complete), "{complete} complete, {told} answered");
    assert_verified(&site);
}

#[test]
fn a_changed_search_and_a_second_holder_are_refused_in_words() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    talk.say(INIT);
    let mut other = Talk::new(&site);
    let refused = other.say(INIT);
    let why = refused["error"].as_str().unwrap();
    assert!(why.contains(&talk.child.id().to_string()), "{why}");
    other.quit();
    talk.quit();
    let mut talk = Talk::new(&site);
    let refused = talk.say(&INIT.replace("\"high\":1", "\"high\":2"));
    assert!(refused["error"].as_str().unwrap().contains("differs"), "{refused}");
    talk.quit();
}

#[test]
fn a_space_grows_by_what_trials_ask_for() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    assert_eq!(talk.say(DEFINES)["trials"], 0);
    assert_eq!(talk.say(r#"{"cmd":"ask"}"#), json!({ "id": 0, "params": {} }));
    let x = r#"{"cmd":"suggest","id":0,"param":{"name":"x","type":"float","low":0,"high":1}}"#;
    let value = talk.say(x)["value"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&value));
    assert_eq!(talk.say(x)["value"], value, "asked again, it is the same");
    talk.kill();
    let mut talk = Talk::new(&site);
    assert_eq!(talk.say(DEFINES)["open"][0]["params"], json!({ "x": value }));
    assert_eq!(talk.say(r#"{"cmd":"ask"}"#)["resume"], 0);
    let chosen = r#"{"cmd":"suggest","id":0,"param":{"name":"k","type":"cat","choices":["a","b"]},"value":["b"]}"#;
    assert_eq!(talk.say(chosen), json!({ "value": "b" }));
    assert_eq!(talk.say(r#"{"cmd":"tell","id":0,"value":1}"#), json!({ "ok": true }));
    for id in 1..15 {
        let asked = talk.say(r#"{"cmd":"ask"}"#);
        assert!(asked["params"]["x"].is_f64() && asked["params"]["k"].is_string(), "{asked}");
        if id == 5 {
            let wider =
                r#"{"cmd":"suggest","id":5,"param":{"name":"x","type":"float","low":3,"high":4}}"#;
            let value = talk.say(wider)["value"].as_f64().unwrap();
            assert!((3.0..=4.0).contains(&value));
            let other =
                r#"{"cmd":"suggest","id":5,"param":{"name":"k","type":"cat","choices":["c"]}}"#;
            assert!(talk.say(other)["error"].as_str().unwrap().contains("`k`"));
        }
        talk.say(&format!(r#"{{"cmd":"tell","id":{id},"value":{}}}"#, asked["params"]["x"]));
    }
    let trials = talk.say(r#"{"cmd":"trials"}"#);
    assert_eq!(trials["trials"].as_array().unwrap().len(), 15);
    talk.quit();
    assert_verified(&site);
}
