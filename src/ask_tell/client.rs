//! Tracks a client's outstanding trials, and the parameters that they have used, by the answers to
//! its lines.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::request::Request;
use crate::study::trial::TrialNumber;

/// The sender of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Speaker {
    /// The client's name; empty if there is only one.
    pub client: String,
    /// Whether the line was sent before, to a holder that died before it answered.
    pub again: bool,
    /// The parameters that the trial of this line, a report or a result, has used.
    pub asked: BTreeSet<String>,
    /// Whether its trial was stopped.
    pub was_stopped: bool,
}

/// The subject of a line, as far as it affects outstanding trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// For another trial, beside those that are still run.
    Ask(BTreeSet<TrialNumber>),
    Report(TrialNumber),
    Tell(TrialNumber),
    Requeue(TrialNumber),
    /// A parameter of a trial.
    Suggest(TrialNumber, String),
    Other,
}

impl Topic {
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Ask { running, .. } => Topic::Ask(running.clone()),
            Request::Report { trial, .. } => Topic::Report(*trial),
            Request::Tell { trial, .. } => Topic::Tell(*trial),
            Request::Requeue { trial } => Topic::Requeue(*trial),
            Request::Suggest(suggest) => {
                let name = suggest.get("param")["name"].as_str().unwrap_or_default();
                let trial = number(suggest.get("id"));
                trial.map_or(Topic::Other, |trial| Topic::Suggest(trial, name.to_owned()))
            }
            _ => Topic::Other,
        }
    }
}

/// An ask-tell client.
#[derive(Debug, Default)]
pub(super) struct Client {
    out: BTreeSet<TrialNumber>,
    /// Those of them that were stopped: they end when another trial is asked for, unless they are
    /// still run.
    stopped: BTreeSet<TrialNumber>,
    asked: BTreeMap<TrialNumber, BTreeSet<String>>,
}

impl Client {
    /// This client as the sender of a line.
    pub fn says(&self, client: &str, topic: &Topic, again: bool) -> Speaker {
        let mut speaker = Speaker { client: client.to_owned(), again, ..Speaker::default() };
        if let Topic::Report(trial) | Topic::Tell(trial) | Topic::Requeue(trial) = topic {
            speaker.asked = self.asked.get(trial).cloned().unwrap_or_default();
            speaker.was_stopped = self.stopped.contains(trial);
        }
        speaker
    }

    /// Its outstanding trials.
    pub fn out(&self) -> impl Iterator<Item = TrialNumber> {
        self.out.iter().copied()
    }

    /// Applies the answer to a line; returns whether the outstanding trials changed.
    pub fn hear(&mut self, topic: &Topic, answer: &Json) -> bool {
        match topic {
            Topic::Ask(running) if answer.get("error").is_none() => {
                let stopped: Vec<TrialNumber> = self.stopped.difference(running).copied().collect();
                let left = stopped.into_iter().filter(|trial| self.leave(*trial)).count();
                let given = number(&answer["id"]).or_else(|| number(&answer["resume"]));
                given.is_some_and(|trial| self.out.insert(trial)) || left > 0
            }
            Topic::Report(trial) => match answer["verdict"].as_str() {
                Some("pause") => self.leave(*trial),
                Some("stop") => {
                    self.stopped.insert(*trial);
                    false
                }
                _ => false,
            },
            // It is no longer this client's in any case.
            Topic::Tell(trial) | Topic::Requeue(trial) => self.leave(*trial),
            Topic::Suggest(trial, name) if answer.get("value").is_some() => {
                self.asked.entry(*trial).or_default().insert(name.clone());
                false
            }
            _ => false,
        }
    }

    fn leave(&mut self, trial: TrialNumber) -> bool {
        self.stopped.remove(&trial);
        self.asked.remove(&trial);
        self.out.remove(&trial)
    }
}

fn number(json: &Json) -> Option<TrialNumber> {
    json.as_u64().map(TrialNumber)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The subject of a line.
    fn topic(line: Json) -> Topic {
        Topic::of(&Request::read(&line.to_string()).unwrap())
    }

    #[test]
    fn what_is_out_follows_from_what_was_answered() {
        let mut client = Client::default();
        let mut hear = |line: Json, answer: Json| -> (bool, Vec<u64>) {
            let changed = client.hear(&topic(line), &answer);
            (changed, client.out().map(|trial| trial.0).collect())
        };
        let ask = || json!({ "cmd": "ask" });
        assert_eq!(hear(ask(), json!({ "id": 0, "params": {} })), (true, vec![0]));
        assert_eq!(hear(ask(), json!({ "resume": 4, "until": null })), (true, vec![0, 4]));
        assert_eq!(hear(ask(), json!({ "error": "no" })), (false, vec![0, 4]));
        let report = |id: u64| json!({ "cmd": "report", "id": id, "step": 1, "value": 1 });
        assert_eq!(hear(report(4), json!({ "verdict": "pause" })), (true, vec![0]));
        assert_eq!(hear(report(0), json!({ "verdict": "stop" })), (false, vec![0]));
        let other = json!({ "cmd": "ask", "running": [0] });
        assert_eq!(hear(other, json!({ "done": true })), (false, vec![0]));
        assert_eq!(hear(ask(), json!({ "done": true })), (true, vec![]));
        assert_eq!(hear(ask(), json!({ "id": 5, "params": {} })), (true, vec![5]));
        let tell = json!({ "cmd": "tell", "id": 5, "state": "failed" });
        assert_eq!(hear(tell, json!({ "ok": true })), (true, vec![]));
        assert_eq!(hear(ask(), json!({ "id": 6, "params": {} })), (true, vec![6]));
        let requeue = json!({ "cmd": "requeue", "id": 6 });
        assert_eq!(hear(requeue, json!({ "ok": true })), (true, vec![]));
    }

    #[test]
    fn what_tells_of_a_trial_carries_what_the_trial_asked_for() {
        let mut client = Client::default();
        let suggest =
            |name: &str| topic(json!({ "cmd": "suggest", "id": 3, "param": { "name": name } }));
        client.hear(&suggest("x"), &json!({ "value": 0.5 }));
        client.hear(&suggest("y"), &json!({ "error": "no" }));
        let tell = |id: u64| topic(json!({ "cmd": "tell", "id": id, "value": 1 }));
        assert_eq!(client.says("a", &tell(3), true).asked, ["x".to_owned()].into());
        assert!(client.says("a", &tell(4), false).asked.is_empty());
    }
}
