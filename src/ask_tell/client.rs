//! What a program has out, by the lines that it was answered: its trials, and the parameters that
//! they have asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::runner::protocol::quote_non_finite;
use crate::study::trial::TrialNumber;

/// Who says a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Speaker {
    /// The program's name; empty where there is only one.
    pub client: String,
    /// Whether the line was said before, to a holder that died before it had answered.
    pub again: bool,
    /// The parameters that the trial of this line has asked for.
    pub asked: BTreeSet<String>,
}

/// A program that asks and tells.
#[derive(Debug, Default)]
pub(super) struct Client {
    out: BTreeSet<TrialNumber>,
    /// Of these, those that were told to stop: they are left when another trial is asked for.
    stopped: BTreeSet<TrialNumber>,
    asked: BTreeMap<TrialNumber, BTreeSet<String>>,
}

impl Client {
    /// This program, as it says a line.
    pub fn says(&self, client: &str, line: &str, again: bool) -> Speaker {
        let trial = read(line).and_then(|said| number(&said["id"]));
        let asked = trial.and_then(|trial| self.asked.get(&trial).cloned()).unwrap_or_default();
        Speaker { client: client.to_owned(), again, asked }
    }

    /// The trials that it has out.
    pub fn out(&self) -> impl Iterator<Item = TrialNumber> {
        self.out.iter().copied()
    }

    /// Takes in what a line was answered; whether other trials are out now.
    pub fn hear(&mut self, line: &str, answer: &Json) -> bool {
        let Some(said) = read(line) else { return false };
        let before = self.out.clone();
        let trial = number(&said["id"]);
        match (said["cmd"].as_str(), trial) {
            (Some("ask"), _) if answer.get("error").is_none() => {
                for trial in std::mem::take(&mut self.stopped) {
                    self.leave(trial);
                }
                self.out.extend(number(&answer["id"]).or_else(|| number(&answer["resume"])));
            }
            (Some("report"), Some(trial)) => match answer["verdict"].as_str() {
                Some("pause") => self.leave(trial),
                Some("stop") => drop(self.stopped.insert(trial)),
                _ => {}
            },
            // It has ended, whoever ended it.
            (Some("tell"), Some(trial)) => self.leave(trial),
            (Some("suggest"), Some(trial)) if answer.get("value").is_some() => {
                let name = said["param"]["name"].as_str().unwrap_or_default().to_owned();
                self.asked.entry(trial).or_default().insert(name);
            }
            _ => {}
        }
        self.out != before
    }

    fn leave(&mut self, trial: TrialNumber) {
        self.out.remove(&trial);
        self.stopped.remove(&trial);
        self.asked.remove(&trial);
    }
}

fn read(line: &str) -> Option<Json> {
    serde_json::from_str(&quote_non_finite(line)).ok()
}

fn number(json: &Json) -> Option<TrialNumber> {
    json.as_u64().map(TrialNumber)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_out_follows_from_what_was_answered() {
        let mut client = Client::default();
        let mut hear = |line: Json, answer: Json| -> (bool, Vec<u64>) {
            let changed = client.hear(&line.to_string(), &answer);
            (changed, client.out().map(|trial| trial.0).collect())
        };
        let ask = || json!({ "cmd": "ask" });
        assert_eq!(hear(ask(), json!({ "id": 0, "params": {} })), (true, vec![0]));
        assert_eq!(hear(ask(), json!({ "resume": 4, "until": null })), (true, vec![0, 4]));
        assert_eq!(hear(ask(), json!({ "error": "no" })), (false, vec![0, 4]));
        let report = |id: u64| json!({ "cmd": "report", "id": id, "step": 1, "value": 1 });
        assert_eq!(hear(report(4), json!({ "verdict": "pause" })), (true, vec![0]));
        assert_eq!(hear(report(0), json!({ "verdict": "stop" })), (false, vec![0]));
        assert_eq!(hear(ask(), json!({ "id": 5, "params": {} })), (true, vec![5]));
        let tell = json!({ "cmd": "tell", "id": 5, "state": "failed" });
        assert_eq!(hear(tell, json!({ "ok": true })), (true, vec![]));
    }

    #[test]
    fn a_line_about_a_trial_carries_what_the_trial_asked_for() {
        let mut client = Client::default();
        let suggest = json!({ "cmd": "suggest", "id": 3, "param": { "name": "x" } }).to_string();
        client.hear(&suggest, &json!({ "value": 0.5 }));
        client.hear(&suggest.replace("\"x\"", "\"y\""), &json!({ "error": "no" }));
        let tell = r#"{"cmd":"tell","id":3,"value":NaN}"#;
        let speaker = client.says("a", tell, true);
        assert_eq!(speaker.asked, ["x".to_owned()].into());
        assert!(client.says("a", r#"{"cmd":"tell","id":4,"value":1}"#, false).asked.is_empty());
    }
}
