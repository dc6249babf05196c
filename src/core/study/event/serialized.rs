//! Events as stored: one flat object with its `type`, and its trial if it has one.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    AttemptEvent, CheckpointEvent, DecisionEvent, EntryEvent, Event, ProposalEvent, RecordEvent,
    StateEvent, TrialEvent,
};
use crate::study::trial::TrialNumber;

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Event::Runner(event) => event.serialize(serializer),
            Event::Study(event) => event.serialize(serializer),
            Event::Finalists(event) => event.serialize(serializer),
            Event::Device(event) => event.serialize(serializer),
            Event::Trial(trial, event) => {
                let mut text = serde_json::to_string(event).map_err(S::Error::custom)?;
                let after_type = text.find([',', '}']).unwrap_or_default();
                text.insert_str(after_type, &format!(",\"trial\":{trial}"));
                RawValue::from_string(text).map_err(S::Error::custom)?.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(rename = "type")]
            kind: String,
            trial: Option<TrialNumber>,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let read = |text: &str| {
            let head: Head = serde_json::from_str(text)?;
            Ok(match (head.kind.as_str(), head.trial) {
                (kind, _) if kind.starts_with("runner_") => {
                    Event::Runner(serde_json::from_str(text)?)
                }
                (kind, _) if kind.starts_with("race_") || kind == "winner_tested" => {
                    Event::Finalists(serde_json::from_str(text)?)
                }
                (
                    "device_paused" | "device_resumed" | "slots_changed" | "agent_changed"
                    | "packed",
                    _,
                ) => Event::Device(serde_json::from_str(text)?),
                (kind, Some(trial)) => Event::Trial(trial, TrialEvent::read(kind, text)?),
                (_, None) => Event::Study(serde_json::from_str(text)?),
            })
        };
        read(raw.get()).map_err(|error: serde_json::Error| D::Error::custom(error))
    }
}

impl TrialEvent {
    /// Reads an event of this `type`.
    fn read(kind: &str, text: &str) -> serde_json::Result<TrialEvent> {
        Ok(match kind {
            "trial_created" | "candidates_offered" | "passed_over" => {
                TrialEvent::Proposal(serde_json::from_str::<ProposalEvent>(text)?)
            }
            "attempt_started" | "attempt_launched" | "reported" | "remarked" | "attempt_ended" => {
                TrialEvent::Attempt(serde_json::from_str::<AttemptEvent>(text)?)
            }
            "checkpoint_saved" | "checkpoint_dropped" => {
                TrialEvent::Checkpoint(serde_json::from_str::<CheckpointEvent>(text)?)
            }
            "decided" | "limits_broken" | "limits_judged" | "results_known" => {
                TrialEvent::Decision(serde_json::from_str::<DecisionEvent>(text)?)
            }
            "params_recorded" | "params_dropped" | "summary_recorded" | "artifact_saved"
            | "spool_read" => TrialEvent::Record(serde_json::from_str::<RecordEvent>(text)?),
            "noted" | "tagged" => TrialEvent::Entry(serde_json::from_str::<EntryEvent>(text)?),
            // Also what no version has written: its error names it.
            _ => TrialEvent::State(serde_json::from_str::<StateEvent>(text)?),
        })
    }
}

/// Without its trial: in messages between a runner and its agents.
impl<'de> Deserialize<'de> for TrialEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = serde_json::Value::deserialize(deserializer)?;
        let kind = object.get("type").and_then(serde_json::Value::as_str).unwrap_or_default();
        TrialEvent::read(kind, &object.to_string()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    /// The types of a group's events, from the error about one that it does not have.
    fn kinds<Group: DeserializeOwned>() -> Vec<String> {
        let error = match serde_json::from_str::<Group>(r#"{"type":"?"}"#) {
            Ok(_) => panic!("an event without a type is read"),
            Err(error) => error.to_string(),
        };
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn every_type_of_an_event_is_read_by_its_group() {
        let groups = [
            kinds::<ProposalEvent>(),
            kinds::<AttemptEvent>(),
            kinds::<CheckpointEvent>(),
            kinds::<DecisionEvent>(),
            kinds::<StateEvent>(),
            kinds::<RecordEvent>(),
            kinds::<EntryEvent>(),
        ];
        assert_eq!(groups.each_ref().map(Vec::len), [3, 5, 2, 4, 9, 5, 2]);
        for kind in groups.iter().flatten() {
            // Most lack fields, which only their own group knows.
            let read = TrialEvent::read(kind, &format!(r#"{{"type":"{kind}"}}"#));
            let error = read.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!error.contains("unknown variant"), "{kind}: {error}");
        }
    }
}
