//! `hpsearch ask-tell --study`: every answer is in the store before it is given, and a conversation
//! that is killed continues where it was.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};

use crate::harness::{
    ONE_SLOT, PROGRAM, REPORT_X, Site, assert_done, assert_names, paths_below, study, wait_until,
};

const INIT: &str = concat!(
    r#"{"cmd":"init","space":[{"name":"x","type":"float","low":0,"high":1}],"#,
    r#""seed":3,"n_trials":40,"sampler":{"type":"tpe"}}"#
);
const ASK: &str = r#"{"cmd":"ask"}"#;
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
        self.hear()
    }

    fn hear(&mut self) -> Value {
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// Kills it with a line on its way that it may have read or not.
    fn kill_while_it_reads(mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.kill();
    }

    /// Whether it has the study's lease, and serves the others.
    fn is_holder(&self, site: &Site) -> bool {
        let pid: i64 = site.query("SELECT pid FROM lease");
        pid == i64::from(self.child.id())
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

fn report(id: u64, step: u64) -> String {
    format!(r#"{{"cmd":"report","id":{id},"step":{step},"value":0.5}}"#)
}

fn assert_verified(site: &Site) {
    let verified = site.run(&["verify", "talk"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    site.assert_sound();
}

#[test]
fn a_limit_that_the_study_does_not_have_is_set_where_the_study_was_made() {
    let site = Site::new(&study("time = \"1h\"\ntrials = 1", ONE_SLOT), REPORT_X);
    assert_done(&site.run_study());
    let mut talk = Talk::new(&site);
    talk.say(DEFINES);
    talk.quit();
    let file = "set `cost` under [budget] of the study file";
    let program = "the program that made the study sets it: `trials`, or `n_trials` of ask-tell";
    let none = "only a study file can set it, and a program made this study";
    for (study, option, instead) in [
        ("s", "--cost=+1", file),
        ("talk", "--trials=+5", program),
        ("talk", "--cost=+1", none),
        ("talk", "--time=+1h", none),
    ] {
        let refused = site.run(&["extend", study, option]);
        assert_ne!(refused.code, 0);
        assert_names(&refused.err, &["is not set, so there is no limit to raise", instead]);
    }
}

#[test]
fn a_trial_that_was_killed_counts_as_failed_whatever_its_program_tells() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    talk.say(INIT);
    for id in 0..2 {
        assert_eq!(talk.say(ASK)["id"], id);
        let killed = site.run(&["kill", "talk", &id.to_string()]);
        assert_done(&killed);
        assert_names(&killed.err, &["it will count as failed"]);
        if id == 0 {
            let mut steps = 1..;
            wait_until("it is asked to leave", || {
                talk.say(&report(id, steps.next().unwrap()))["verdict"] == "stop"
            });
        }
        let told = talk.say(&format!(r#"{{"cmd":"tell","id":{id},"value":0.1}}"#));
        assert_eq!(told, json!({ "ok": true, "state": "failed" }));
    }
    assert_eq!(talk.say(ASK)["id"], 2);
    talk.say(r#"{"cmd":"tell","id":2,"value":0.5}"#);
    let trials = talk.say(r#"{"cmd":"trials"}"#)["trials"].clone();
    let states: Vec<&Value> = (0..3).map(|id| &trials[id]["state"]).collect();
    assert_eq!(states, ["failed", "failed", "complete"]);
    assert_eq!(talk.say(r#"{"cmd":"best"}"#)["id"], 2);
    talk.quit();
    assert_eq!(site.query::<i64>("SELECT count(*) FROM request WHERE served_at IS NULL"), 0);
    assert_verified(&site);
}

#[test]
fn what_was_answered_is_stored_whenever_it_is_killed() {
    let site = Site::empty();
    // After `init`, and after `ask`.
    let mut talk = Talk::new(&site);
    let begun = talk.say(INIT);
    assert_eq!((&begun["trials"], &begun["open"]), (&json!(0), &json!([])));
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
fn a_changed_search_is_refused_in_words() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    talk.say(INIT);
    talk.quit();
    let mut talk = Talk::new(&site);
    let refused = talk.say(&INIT.replace("\"high\":1", "\"high\":2"));
    assert!(refused["error"].as_str().unwrap().contains("differs"), "{refused}");
    assert!(refused.get("holder_pid").is_none(), "{refused}");
    talk.quit();
}

#[test]
fn what_an_init_leaves_out_is_as_stored() {
    let site = Site::empty();
    let begin = INIT
        .replace("\"type\":\"tpe\"}", "\"type\":\"random\"}")
        .replace("\"seed\"", "\"pruner\":{\"type\":\"median\",\"n_startup_trials\":3},\"seed\"");
    let short = INIT.replace("\"seed\":3,", "").replace(",\"sampler\":{\"type\":\"tpe\"}", "");
    let stored = || {
        let shown = site.json(&["show", "talk", "--json"]);
        let of = |key: &str| shown["specification"][key].clone();
        [of("seed"), of("sampler"), of("pruner")]
    };
    let mut first = Talk::new(&site);
    assert_eq!(first.say(&begin)["ok"], true);
    let before = stored();
    assert_eq!([&before[1]["name"], &before[2]["name"]], ["random", "median"]);
    // Beside the program that began it, and after that.
    let mut second = Talk::new(&site);
    assert_eq!(second.say(&short)["ok"], true);
    first.quit();
    second.quit();
    let mut again = Talk::new(&site);
    assert_eq!(again.say(&short)["ok"], true);
    again.quit();
    assert_eq!(stored(), before);
}

#[test]
fn several_programs_share_a_study_and_each_trial_is_out_with_one() {
    let site = Site::empty();
    let [mut first, mut second] = [(); 2].map(|()| Talk::new(&site));
    assert_eq!(first.say(INIT)["trials"], 0);
    let mine = first.say(ASK)["id"].clone();
    // What is out with another is not open.
    let begun = second.say(INIT);
    assert_eq!((&begun["trials"], &begun["open"]), (&json!(1), &json!([])));
    let yours = second.say(ASK)["id"].clone();
    assert_eq!((&mine, &yours), (&json!(0), &json!(1)));
    let stolen = second.say(r#"{"cmd":"tell","id":0,"value":1}"#);
    assert!(stolen["error"].as_str().unwrap().contains("now open in another program"), "{stolen}");
    let report = r#"{"cmd":"report","id":1,"step":1,"value":0.5}"#;
    assert_eq!(second.say(report)["verdict"], "continue");
    assert_eq!(second.say(r#"{"cmd":"tell","id":1,"value":0.5}"#), json!({ "ok": true }));
    assert_eq!(first.say(r#"{"cmd":"best"}"#)["id"], 1);
    assert_eq!(second.say(r#"{"cmd":"trials"}"#)["trials"].as_array().unwrap().len(), 2);
    // A line that is wrong is told so, and the conversation continues.
    assert!(second.say("{").get("error").is_some());
    // Whoever means another study reads how it differs from that which is run.
    let runs = format!("process {} runs study `talk` as another search", first.child.id());
    for (from, to, difference) in [
        ("\"high\":1", "\"high\":2", "space.x"),
        ("\"type\":\"tpe\"}", "\"type\":\"random\"},\"accept\":true", "sampler"),
        ("\"n_trials\":40", "\"n_trials\":50", "trials"),
        ("\"seed\"", "\"direction\":\"maximize\",\"seed\"", "direction"),
        ("\"seed\"", "\"define\":true,\"seed\"", "define"),
    ] {
        let mut other = Talk::new(&site);
        let refused = other.say(&INIT.replace(from, to));
        let why = refused["error"].as_str().unwrap();
        assert!(why.contains(difference) && why.contains(&runs), "{why}");
        assert_eq!(refused["holder_pid"], first.child.id());
        other.quit();
    }
    first.quit();
    second.quit();
    assert_verified(&site);
}

#[test]
fn trials_stay_with_those_that_live_and_others_are_given_again() {
    for kill in [true, false] {
        let site = Site::empty();
        let mut talks: Vec<Talk> = (0..3).map(|_| Talk::new(&site)).collect();
        for talk in &mut talks {
            talk.say(INIT);
        }
        let out: Vec<Value> = talks.iter_mut().map(|talk| talk.say(ASK)).collect();
        assert_eq!(talks[1].say(&report(1, 1))["verdict"], "continue");
        // The holder ends: the others have their trials, and nobody has its own.
        let holder = talks.remove(0);
        if kill {
            holder.kill();
        } else {
            holder.quit();
        }
        assert_eq!(talks[1].say(&report(2, 1))["verdict"], "continue");
        assert_eq!(talks[0].say(&report(1, 2))["verdict"], "continue");
        let again = talks[1].say(ASK);
        assert_eq!((&again["resume"], &again["params"]), (&json!(0), &out[0]["params"]));
        assert_eq!(talks[0].say(ASK)["id"], 3);
        assert_eq!(talks[0].say(r#"{"cmd":"tell","id":1,"value":1}"#), json!({ "ok": true }));
        // One that is not the holder ends: whoever asks next has its trials.
        let (mut stays, ends) = match talks[0].is_holder(&site) {
            true => (talks.remove(0), talks.remove(0)),
            false => (talks.remove(1), talks.remove(0)),
        };
        if kill {
            ends.kill();
        } else {
            ends.quit();
        }
        let mut resumed = Vec::new();
        wait_until("the trials of the dead one are given again", || {
            let asked = stays.say(ASK);
            resumed.extend(asked.get("resume").cloned());
            resumed.len() == 2 || asked.get("done").is_some()
        });
        stays.quit();
        let trials = site.json(&["trials", "talk", "--sort", "number", "--json"]);
        let trial = &trials["trials"][1];
        assert_eq!((&trial["state"], &trial["attempts"]), (&json!("complete"), &json!(2)));
        assert_verified(&site);
    }
}

#[test]
fn a_trial_that_was_told_to_stop_is_pruned_by_the_next_ask() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    let init = INIT.replace("\"seed\"", r#""pruner":{"type":"threshold","upper":1.0},"seed""#);
    assert!(talk.say(&init).get("error").is_none());
    for (id, value) in [(0, 5), (1, 0)] {
        assert_eq!(talk.say(ASK)["id"], id);
        let line = format!(r#"{{"cmd":"report","id":{id},"step":1,"value":{value}}}"#);
        assert_eq!(talk.say(&line)["verdict"], if value == 5 { "stop" } else { "continue" });
    }
    let trials = talk.say(r#"{"cmd":"trials"}"#);
    assert_eq!(trials["trials"][0]["state"], "pruned");
    // It may be told all the same.
    let pruned = r#"{"cmd":"tell","id":0,"state":"pruned"}"#;
    assert_eq!(talk.say(pruned), json!({ "ok": true }));
    // So may one that the next holder has pruned.
    let mut other = Talk::new(&site);
    other.say(&init);
    assert_eq!(other.say(ASK)["id"], 2);
    let report = r#"{"cmd":"report","id":2,"step":1,"value":5}"#;
    assert_eq!(other.say(report)["verdict"], "stop");
    talk.kill();
    let told = other.say(r#"{"cmd":"tell","id":2,"value":5}"#);
    assert_eq!(told, json!({ "ok": true, "state": "pruned" }));
    let trials = other.say(r#"{"cmd":"trials"}"#);
    assert_eq!(trials["trials"][2]["state"], "pruned");
    other.quit();
    assert_verified(&site);
}

#[test]
fn a_stopped_trial_that_another_thread_runs_is_kept_by_the_next_ask_and_keeps_its_value() {
    let site = Site::empty();
    let init = INIT.replace("\"seed\"", r#""pruner":{"type":"threshold","upper":1.0},"seed""#);
    let (mut holder, mut peer) = (Talk::new(&site), Talk::new(&site));
    for (talk, id) in [(&mut holder, 0), (&mut peer, 2)] {
        assert!(talk.say(&init).get("error").is_none());
        assert_eq!(talk.say(ASK)["id"], id);
        let line = format!(r#"{{"cmd":"report","id":{id},"step":1,"value":5}}"#);
        assert_eq!(talk.say(&line)["verdict"], "stop");
        let ask = format!(r#"{{"cmd":"ask","running":[{id}]}}"#);
        assert_eq!(talk.say(&ask)["id"], id + 1);
        let tell = format!(r#"{{"cmd":"tell","id":{id},"value":-1}}"#);
        assert_eq!(talk.say(&tell), json!({ "ok": true }));
        assert_eq!(talk.say(r#"{"cmd":"best"}"#)["id"], 0);
    }
    let refused = peer.say(r#"{"cmd":"ask","running":[-1]}"#);
    assert_names(refused["error"].as_str().unwrap(), &["`running` has `-1`", "ids of trials"]);
    let trials = holder.say(r#"{"cmd":"trials"}"#);
    for id in [0, 2] {
        assert_eq!(trials["trials"][id]["state"], "complete");
    }
    peer.quit();
    holder.quit();
    assert_verified(&site);
}

#[test]
fn a_study_that_was_made_again_under_its_name_is_not_joined_as_the_one_before() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    let begun = talk.say(INIT);
    tell_four(&mut talk);
    talk.quit();
    let again = |begun: &Value| {
        INIT.replace("\"space\"", &format!(r#""study_id":{},"space""#, begun["study_id"]))
    };
    let mut talk = Talk::new(&site);
    assert_eq!(talk.say(&again(&begun))["trials"], 4);
    talk.quit();
    assert_done(&site.run(&["rm", "talk", "--yes"]));
    let mut late = Talk::new(&site);
    let refused = late.say(&again(&begun));
    assert_names(refused["error"].as_str().unwrap(), &["`talk` is no longer in the store"]);
    let mut other = Talk::new(&site);
    let anew = other.say(INIT);
    assert_eq!((&anew["trials"], anew["study_id"] == begun["study_id"]), (&json!(0), false));
    // While another program runs it, and while none does.
    for is_run in [true, false] {
        let refused = late.say(&again(&begun));
        let refused = refused["error"].as_str().unwrap_or_else(|| panic!("{is_run}: {refused}"));
        assert_names(refused, &["study `talk` was removed or renamed", "begin that one anew"]);
        if is_run {
            assert_eq!(other.say(r#"{"cmd":"quit"}"#), json!({ "ok": true }));
            assert!(other.child.wait().unwrap().success());
        }
    }
    assert_eq!(late.say(&again(&anew))["trials"], 0);
    late.quit();
}

#[test]
fn a_paused_study_keeps_all_its_programs_waiting_and_other_lines_are_answered() {
    let site = Site::empty();
    let mut talks: Vec<Talk> = (0..3).map(|_| Talk::new(&site)).collect();
    for talk in &mut talks {
        assert_eq!(talk.say(INIT)["ok"], true);
    }
    let id = talks[2].say(ASK)["id"].as_u64().unwrap();
    assert_done(&site.run(&["pause", "talk"]));
    for talk in &mut talks[..2] {
        writeln!(talk.input, "{ASK}").unwrap();
    }
    let tell = format!(r#"{{"cmd":"tell","id":{id},"value":1}}"#);
    assert_eq!(talks[2].say(&tell), json!({ "ok": true }));
    assert_done(&site.run(&["resume", "talk"]));
    let given: Vec<u64> =
        talks[..2].iter_mut().map(|talk| talk.hear()["id"].as_u64().unwrap()).collect();
    assert_eq!(given.iter().sum::<u64>(), 1 + 2, "{given:?}");
    // `stop` reaches all that are out.
    assert_done(&site.run(&["stop", "talk"]));
    for (talk, id) in talks.iter_mut().zip(given) {
        let mut steps = 1..;
        wait_until("it is told to stop", || {
            talk.say(&report(id, steps.next().unwrap()))["verdict"] == "stop"
        });
    }
    for talk in talks {
        talk.quit();
    }
    assert_verified(&site);
}

#[test]
fn what_is_enqueued_is_run_first_whoever_asked_for_it() {
    let site = Site::empty();
    let [mut first, mut second] = [(); 2].map(|()| Talk::new(&site));
    first.say(INIT);
    second.say(INIT);
    let enqueue = |x: &str| format!(r#"{{"cmd":"enqueue","params":{{"x":{x}}}}}"#);
    assert_eq!(first.say(&enqueue("0.25")), json!({ "ok": true }));
    assert_eq!(second.say(&enqueue("0.5")), json!({ "ok": true }));
    for talk in [&mut first, &mut second] {
        let refused = talk.say(&enqueue("7"));
        assert!(refused["error"].as_str().unwrap().contains("`7` is not a value of `x`"));
        let refused = talk.say(r#"{"cmd":"enqueue","params":{"y":1}}"#);
        assert!(refused["error"].as_str().unwrap().contains("`y` is not a parameter"));
    }
    // It is stored: the one that enqueued it may die.
    second.kill();
    let asked: Vec<Value> = (0..3).map(|_| first.say(ASK)["params"]["x"].clone()).collect();
    assert_eq!(asked[..2], [json!(0.25), json!(0.5)]);
    first.quit();
    assert_verified(&site);
}

#[test]
fn what_is_enqueued_may_name_parameters_that_nobody_has_asked_for() {
    let site = Site::empty();
    let [mut first, mut second] = [(); 2].map(|()| Talk::new(&site));
    first.say(DEFINES);
    second.say(DEFINES);
    let enqueue = |params: &str| format!(r#"{{"cmd":"enqueue","params":{params}}}"#);
    for params in [r#"{"x":5,"k":"b","unused":1.5}"#, r#"{"x":6,"k":null}"#, r#"{"x":70,"k":"b"}"#]
    {
        assert_eq!(second.say(&enqueue(params)), json!({ "ok": true }));
    }
    let asked: Vec<Value> = (0..3).map(|_| first.say(ASK)).collect();
    assert_eq!((&asked[0]["id"], &asked[0]["params"]["x"]), (&json!(0), &json!(5)));
    let sampled = second.say(ASK)["id"].as_u64().unwrap();
    let suggest =
        |id: u64, param: &str| format!(r#"{{"cmd":"suggest","id":{id},"param":{param}}}"#);
    let x = r#"{"name":"x","type":"float","low":-10,"high":10}"#;
    let k = r#"{"name":"k","type":"cat","choices":["a",null,"b"]}"#;
    // One that cannot be is no value for anybody, and nobody else's trouble.
    let refused = first.say(&suggest(2, x));
    assert!(refused["error"].as_str().unwrap().contains("70 is outside of"), "{refused}");
    // Whoever was given one of them while there were no others has one by chance.
    let value = second.say(&suggest(sampled, x))["value"].as_f64().unwrap();
    assert!((-10.0..=10.0).contains(&value) && ![5.0, 6.0].contains(&value), "{value}");
    assert_eq!(first.say(&suggest(0, x))["value"], 5.0);
    assert_eq!(first.say(&suggest(0, k))["value"], "b");
    assert_eq!(first.say(r#"{"cmd":"tell","id":0,"value":1}"#), json!({ "ok": true }));
    assert_eq!(first.say(r#"{"cmd":"best"}"#)["params"], json!({ "k": "b", "x": 5.0 }));
    assert_eq!(first.say(&suggest(1, x))["value"], 6.0);
    assert_eq!(first.say(&suggest(1, k))["value"], Value::Null);
    // From now on it is known what it may be.
    let refused = second.say(&enqueue(r#"{"x":70}"#));
    assert!(refused["error"].as_str().unwrap().contains("`70` is not a value of `x`"), "{refused}");
    first.quit();
    second.quit();
    assert_verified(&site);
}

/// Trials and their values.
type AskedTrials = Vec<(u64, f64)>;

/// So many of the programs that share a study are killed.
fn kills() -> u64 {
    std::env::var("HPSEARCH_CHAOS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Runs trials of three reports each until there are no more, in one conversation after the other:
/// each is killed after a while. What was told, and what was answered.
fn run_trials(
    (site, init): (&Site, &str),
    worker: u64,
    kills: &AtomicI64,
) -> (AskedTrials, AskedTrials) {
    let (mut said, mut answered) = (Vec::new(), Vec::new());
    let mut rng = 0x9e37_79b9_7f4a_7c15_u64 ^ (worker << 17);
    let mut throw = |sides: u64| {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        rng % sides
    };
    loop {
        let mut talk = Talk::new(site);
        let begun = talk.say(init);
        assert_eq!(begun["ok"], true, "{begun}");
        let mut left = 1 + throw(20);
        // Whether it dies now, with a line on its way.
        let mut dies = || {
            left = left.saturating_sub(1);
            left == 0 && kills.fetch_sub(1, Ordering::SeqCst) > 0
        };
        'trials: loop {
            if dies() {
                break talk.kill_while_it_reads(ASK);
            }
            let asked = talk.say(ASK);
            if asked.get("done").is_some() {
                talk.quit();
                return (said, answered);
            }
            let id = asked.get("id").or(asked.get("resume")).unwrap().as_u64().unwrap();
            let x = asked["params"]["x"].as_f64().unwrap();
            for step in asked["reported"].as_u64().unwrap_or(0) + 1..4 {
                if dies() {
                    talk.kill_while_it_reads(&report(id, step));
                    break 'trials;
                }
                // It trains: the others have their turns.
                std::thread::sleep(std::time::Duration::from_millis(throw(10)));
                let heard = talk.say(&report(id, step));
                assert_eq!(heard["verdict"], "continue", "{heard}");
            }
            let tell = format!(r#"{{"cmd":"tell","id":{id},"value":{x}}}"#);
            said.push((id, x));
            if dies() {
                break talk.kill_while_it_reads(&tell);
            }
            assert_eq!(talk.say(&tell), json!({ "ok": true }));
            answered.push((id, x));
        }
    }
}

#[test]
fn nothing_is_lost_or_told_twice_while_programs_that_share_a_study_are_killed() {
    let site = Site::empty();
    let (kills, expected) = (kills(), 40.max(3 * kills()));
    let init = INIT.replace("\"n_trials\":40", &format!("\"n_trials\":{expected}"));
    let place = (&site, init.as_str());
    let left = AtomicI64::new(kills.try_into().unwrap());
    let (mut said, mut answered) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let left = &left;
        let start = |worker| scope.spawn(move || run_trials(place, worker, left));
        for worker in (0..4).map(start).collect::<Vec<_>>() {
            let (own_said, own_answered) = worker.join().unwrap();
            said.extend(own_said);
            answered.extend(own_answered);
        }
    });
    assert!(left.load(Ordering::SeqCst) <= 0, "not all were killed");
    // What the last one that was killed had out.
    let (own_said, own_answered) = run_trials(place, 4, &AtomicI64::new(0));
    said.extend(own_said);
    answered.extend(own_answered);
    let listed = site.json(&["trials", "talk", "--sort", "number", "--json"]);
    let trials = listed["trials"].as_array().unwrap();
    assert_eq!(trials.len() as u64, expected);
    for trial in trials {
        assert_eq!(trial["state"], "complete", "{trial}");
        let (id, value) = (trial["number"].as_u64().unwrap(), trial["value"].as_f64().unwrap());
        assert!(said.contains(&(id, value)), "trial {id} was never told {value}");
        assert!(answered.iter().filter(|(told, _)| *told == id).count() <= 1, "trial {id}");
    }
    for (id, value) in &answered {
        assert_eq!(trials[usize::try_from(*id).unwrap()]["value"], *value, "trial {id}");
    }
    let ends: i64 = site.query("SELECT count(*) FROM event WHERE type = 'trial_finished'");
    assert_eq!(ends.unsigned_abs(), expected, "each trial ended once");
    let beside = paths_below(&site.path("runs"));
    let left: Vec<_> =
        beside.iter().filter(|path| path.to_string_lossy().contains("socket")).collect();
    assert!(left.is_empty(), "{left:?}");
    let takeovers: i64 = site.query("SELECT count(*) FROM runner");
    println!(
        "{kills} killed, {takeovers} held the study; {} of {expected} trials were told again by \
         another program",
        said.len() as u64 - expected
    );
    assert_verified(&site);
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
    let chosen = concat!(
        r#"{"cmd":"suggest","id":0,"param":{"name":"k","type":"cat","choices":["a","b"]},"#,
        r#""value":["b"]}"#
    );
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

#[test]
fn a_candidate_is_chosen_by_every_sampler_and_the_choice_is_verified() {
    for sampler in ["random", "tpe", "gp", "auto", "grid", "qmc"] {
        let site = Site::empty();
        let init = format!(
            "{{\"cmd\":\"init\",\"space\":[{{\"name\":\"x\",\"type\":\"float\",\"low\":0,\
             \"high\":1}}],\"seed\":3,\"sampler\":{{\"type\":\"{sampler}\"}},\
             \"pruner\":{{\"type\":\"asha\",\"mode\":\"promote\",\"max_resource\":9}}}}"
        );
        let mut talk = Talk::new(&site);
        talk.say(&init);
        let mut resumed = 0;
        for turn in 0..60u64 {
            let xs: Vec<f64> = (0..8)
                .map(|index| (turn as f64 * 0.37 + f64::from(index) * 0.61).fract())
                .collect();
            let offered: Vec<Value> = xs.iter().map(|x| json!({ "x": x })).collect();
            let ask = json!({ "cmd": "ask", "candidates": offered });
            let answer = talk.say(&ask.to_string());
            let (id, from) = match answer.get("resume") {
                Some(id) => {
                    resumed += 1;
                    (id.clone(), answer["reported"].as_u64().unwrap() + 1)
                }
                None => {
                    let index = answer["candidate"].as_u64().unwrap() as usize;
                    assert_eq!(answer["params"], offered[index], "{sampler}");
                    (answer["id"].clone(), 1)
                }
            };
            let x = answer["params"]["x"].as_f64().unwrap();
            for step in from..=9 {
                let loss = (x - 0.4).abs() + 1.0 / step as f64;
                let report = json!({ "cmd": "report", "id": id, "step": step, "value": loss });
                if talk.say(&report.to_string())["verdict"] == "pause" {
                    break;
                }
                if step == 9 {
                    talk.say(&json!({ "cmd": "tell", "id": id, "value": loss }).to_string());
                }
            }
            if turn == 30 {
                talk.kill();
                talk = Talk::new(&site);
                talk.say(&init);
            }
        }
        assert!(resumed > 8, "{sampler}: {resumed}");
        talk.quit();
        assert_verified(&site);
    }
}

#[test]
fn a_name_that_no_verb_could_take_again_is_refused() {
    let site = Site::empty();
    for name in ["", "../../evil", "\x1b[31mX"] {
        let refused = site.run(&["ask-tell", "--study", name]);
        assert_eq!(refused.code, 2, "{name}");
        assert_names(&refused.err, &["cannot be a study's name"]);
    }
    assert!(!site.exists("runs"));
}

/// Tells four trials, of which each is asked for before.
fn tell_four(talk: &mut Talk) {
    for id in 0..4 {
        assert_eq!(talk.say(ASK)["id"], id);
        let told = talk.say(&format!(r#"{{"cmd":"tell","id":{id},"value":{id}}}"#));
        assert_eq!(told, json!({ "ok": true }));
    }
}

fn assert_four_are_kept(site: &Site) {
    let listed = site.json(&["trials", "talk", "--sort", "number", "--json"]);
    let values: Vec<&Value> =
        listed["trials"].as_array().unwrap().iter().take(4).map(|trial| &trial["value"]).collect();
    assert_eq!(values, [0.0, 1.0, 2.0, 3.0]);
    assert_verified(site);
}

#[test]
fn a_store_that_was_moved_away_is_not_replaced_by_a_new_one_and_the_session_continues_with_it() {
    for (name, away) in [("runs/hpsearch.db", "runs/away.db"), ("runs", "away")] {
        let site = Site::empty();
        let mut talk = Talk::new(&site);
        talk.say(INIT);
        tell_four(&mut talk);
        fs::rename(site.path(name), site.path(away)).unwrap();
        for _ in 0..3 {
            let refused = talk.say(ASK);
            let refused = refused["error"].as_str().unwrap_or_else(|| panic!("{refused}"));
            assert_names(refused, &["was moved or deleted", "put it back with its `-wal` file"]);
        }
        assert!(!site.path(name).exists(), "nothing is made in its place");
        fs::rename(site.path(away), site.path(name)).unwrap();
        assert_eq!(talk.say(ASK)["id"], 4, "{name}");
        assert_eq!(talk.say(r#"{"cmd":"tell","id":4,"value":4}"#), json!({ "ok": true }));
        talk.quit();
        assert_four_are_kept(&site);
    }
}

#[test]
fn programs_that_share_a_study_make_no_new_store_either_and_keep_their_trials() {
    let site = Site::empty();
    let (mut one, mut other) = (Talk::new(&site), Talk::new(&site));
    one.say(INIT);
    other.say(INIT);
    tell_four(&mut one);
    let (fourth, fifth) = (one.say(ASK), other.say(ASK));
    assert_eq!((&fourth["id"], &fifth["id"]), (&json!(4), &json!(5)));
    fs::rename(site.path("runs/hpsearch.db"), site.path("runs/away.db")).unwrap();
    for _ in 0..2 {
        for talk in [&mut other, &mut one] {
            assert!(talk.say(ASK)["error"].is_string());
        }
    }
    assert!(!site.exists("runs/hpsearch.db"));
    fs::rename(site.path("runs/away.db"), site.path("runs/hpsearch.db")).unwrap();
    for (talk, id) in [(&mut other, 5), (&mut one, 4)] {
        let told = talk.say(&format!(r#"{{"cmd":"tell","id":{id},"value":{id}}}"#));
        assert_eq!(told, json!({ "ok": true }));
    }
    one.quit();
    other.quit();
    assert_four_are_kept(&site);
}

#[test]
fn another_store_in_the_place_of_the_sessions_is_refused() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    talk.say(INIT);
    tell_four(&mut talk);
    fs::rename(site.path("runs"), site.path("away")).unwrap();
    assert_done(&site.run(&["track", "--study", "talk", "--", "true"]));
    let refused = talk.say(ASK);
    assert_names(refused["error"].as_str().unwrap(), &["was replaced by another"]);
    fs::rename(site.path("runs"), site.path("other")).unwrap();
    fs::rename(site.path("away"), site.path("runs")).unwrap();
    assert_eq!(talk.say(ASK)["id"], 4);
    talk.quit();
    assert_four_are_kept(&site);
}

#[test]
fn a_session_answers_every_line_after_its_log_was_removed_and_ends_with_its_input() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    talk.say(INIT);
    tell_four(&mut talk);
    fs::remove_file(site.path("runs/hpsearch.db-wal")).unwrap();
    let refused = talk.say(ASK);
    assert_names(refused["error"].as_str().unwrap(), &["hpsearch.db-wal` was removed"]);
    assert_eq!(talk.say(ASK)["id"], 4);
    let Talk { mut child, input, .. } = talk;
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_four_are_kept(&site);
}

#[test]
fn a_session_continues_after_a_write_that_failed() {
    let site = Site::empty();
    let mut talk = Talk::new(&site);
    talk.say(INIT);
    tell_four(&mut talk);
    talk.say(ASK);
    let refuse =
        "CREATE TRIGGER refuse BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'no'); END";
    site.database().execute_batch(refuse).unwrap();
    let tell = r#"{"cmd":"tell","id":4,"value":4}"#;
    for _ in 0..2 {
        assert!(talk.say(tell)["error"].is_string());
    }
    site.database().execute_batch("DROP TRIGGER refuse").unwrap();
    assert_eq!(talk.say(tell), json!({ "ok": true }));
    talk.quit();
    assert_four_are_kept(&site);
}

#[test]
fn a_socket_that_was_removed_is_made_again() {
    let site = Site::empty();
    let mut holder = Talk::new(&site);
    holder.say(INIT);
    let socket = site.path("runs/hpsearch.db.run-1.socket");
    fs::remove_file(&socket).unwrap();
    wait_until("the socket is there again", || socket.exists());
    let mut peer = Talk::new(&site);
    assert_eq!(peer.say(INIT)["ok"], true);
    assert_eq!(peer.say(ASK)["id"], 0);
    peer.quit();
    holder.quit();
    assert!(!socket.exists());
}
