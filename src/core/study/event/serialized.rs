//! Events as stored: one flat object with its `type`, and its trial if it has one.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Event;
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
                (_, Some(trial)) => Event::Trial(trial, serde_json::from_str(text)?),
                (_, None) => Event::Study(serde_json::from_str(text)?),
            })
        };
        read(raw.get()).map_err(|error: serde_json::Error| D::Error::custom(error))
    }
}
