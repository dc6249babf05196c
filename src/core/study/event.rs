//! The journal of a study: the ordered log of everything that happened, as plain data to be folded.

mod attempt_end;
mod device_event;
mod paths;
mod serialized;
mod trial_event;

pub use attempt_end::AttemptEnd;
pub use device_event::{AgentChange, ConcurrencyChange, DeviceEvent};
use serde::{Deserialize, Serialize};
pub use trial_event::{
    AttemptEvent, CheckpointEvent, DecisionEvent, EntryEvent, MemoryUse, ProposalEvent,
    RecordEvent, StateEvent, TrialEvent,
};

use crate::study::budget::Extension;
use crate::study::device::{DeviceGroup, Slot};
use crate::study::front::Front;
use crate::study::goal::Goal;
use crate::study::metric::Metrics;
use crate::study::provenance::Provenance;
use crate::study::request::{Request, RequestAnswer};
use crate::study::serialized::is_zero;
use crate::study::statistics::Statistics;
use crate::study::tracked::Tracker;
use crate::study::trial::TrialNumber;

/// Position in a store's journal, from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub i64);

/// An entry of the journal.
///
/// As JSON it is one flat object, such as `{"type":"reported","trial":3,"attempt":0,"step":1,..}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// About its runner.
    Runner(RunnerEvent),
    /// About the study as a whole.
    Study(StudyEvent),
    /// About the trial with this number.
    Trial(TrialNumber, TrialEvent),
    /// About its finalists.
    Finalists(FinalistsEvent),
    /// About devices and their slots.
    Device(DeviceEvent),
}

/// Events of a study's runner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunnerEvent {
    /// A runner started.
    #[serde(rename = "runner_started")]
    Started {
        /// Process id.
        pid: u32,
        /// Host name.
        host: String,
        /// Its slots.
        slots: Vec<Slot>,
        /// Set if the process tracks one run of a study without a search: its identity.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tracker: Option<Tracker>,
    },
    /// The provenance of the runner that has just started.
    #[serde(rename = "runner_described")]
    Described {
        /// The provenance.
        #[serde(rename = "lineage")]
        provenance: Box<Provenance>,
    },
    /// A runner exited.
    #[serde(rename = "runner_stopped")]
    Stopped {
        /// The reason, for users.
        reason: String,
        /// Its running time in microseconds; excludes the time for which the study was paused and
        /// nothing ran.
        ran_micros: i64,
        /// Its last heartbeat, if it was killed: the next runner writes this event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heard: Option<crate::study::time::Timestamp>,
        /// Microseconds of device time up to its death that no other event has accounted for.
        #[serde(default, skip_serializing_if = "is_zero")]
        device_micros: i64,
        /// The event with which it started, if several track runs at the same time; `None`: the
        /// last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runner: Option<Seq>,
    },
}

/// Events of a study as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StudyEvent {
    /// Checkpoints exceed `[checkpoints] max_disk`, and all that are left are needed.
    DiskExceeded {
        /// Their size in bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The study is finished.
    #[serde(rename = "study_finished")]
    Finished {
        /// The reason, one sentence.
        reason: String,
        /// The goal that ended the search before its budget was used up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal: Option<Box<Goal>>,
        /// The front of several objectives then, with the reference point of its hypervolume;
        /// `None` from older versions, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        front: Option<Box<Front>>,
        /// Whether it is over because too many trials failed; false from older versions, too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        too_many_failures: bool,
    },
    /// A finished study continues (its budget was raised).
    #[serde(rename = "study_reopened")]
    Reopened {
        /// The reason, for users.
        reason: String,
    },
    /// The user paused the study: nothing starts until it is resumed.
    #[serde(rename = "study_paused")]
    Paused {
        /// The reason, for users.
        reason: String,
    },
    /// A paused study continues.
    #[serde(rename = "study_resumed")]
    Resumed {
        /// The reason, for users.
        reason: String,
    },
    /// The study's budget was raised beyond the study file's.
    BudgetExtended {
        /// The trials and the time that were added.
        by: Extension,
    },
    /// A note was added.
    Noted {
        /// The text as written.
        text: String,
    },
    /// A tag was added or removed.
    Tagged {
        /// The tag.
        tag: String,
        /// Whether it was added.
        present: bool,
    },
    /// A request was carried out or refused.
    RequestServed {
        /// Its key.
        id: i64,
        /// The answer.
        answer: RequestAnswer,
    },
}

/// Events of the final comparison (the race).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FinalistsEvent {
    /// The best configurations are run again on fresh seeds.
    #[serde(rename = "race_begun")]
    Chosen {
        /// The trials of the search with those configurations, the best first.
        finalists: Vec<TrialNumber>,
    },
    /// A finalist dropped out of the race.
    #[serde(rename = "race_dropped")]
    Dropped {
        /// The trial of the search with that configuration.
        trial: TrialNumber,
        /// The reason, one sentence.
        reason: String,
    },
    /// The race is over.
    #[serde(rename = "race_won")]
    Won {
        /// The trial of the search with the winning configuration.
        trial: TrialNumber,
        /// The statistics of its runs in the race.
        #[serde(rename = "sample")]
        statistics: Statistics,
        /// The reason, one sentence.
        reason: String,
    },
    /// The winner of the race was measured on the test split.
    #[serde(rename = "winner_tested")]
    Tested {
        /// The trial of the search with the winning configuration.
        trial: TrialNumber,
        /// The metrics.
        metrics: Metrics,
    },
}

impl StudyEvent {
    /// The end of a study of one objective, whose budget is used up.
    pub fn finished(reason: impl Into<String>) -> StudyEvent {
        let reason = reason.into();
        StudyEvent::Finished { reason, goal: None, front: None, too_many_failures: false }
    }
}

impl Event {
    /// An event of a trial.
    pub fn of(trial: TrialNumber, event: impl Into<TrialEvent>) -> Event {
        Event::Trial(trial, event.into())
    }

    /// The trial it is about.
    pub fn trial(&self) -> Option<TrialNumber> {
        match self {
            Event::Trial(trial, _)
            | Event::Finalists(
                FinalistsEvent::Dropped { trial, .. }
                | FinalistsEvent::Won { trial, .. }
                | FinalistsEvent::Tested { trial, .. },
            ) => Some(*trial),
            Event::Device(DeviceEvent::ConcurrencyChanged { trial, .. }) => *trial,
            Event::Runner(_) | Event::Study(_) | Event::Finalists(_) | Event::Device(_) => None,
        }
    }

    /// What happened to an attempt, with its trial. Code that follows attempts alone matches all of
    /// these and lists no other events, so that a new event is added only where its group matters;
    /// what must treat every event (the fold, the words, the rows of a store) lists all.
    pub fn attempt_event(&self) -> Option<(TrialNumber, &AttemptEvent)> {
        let Event::Trial(trial, TrialEvent::Attempt(event)) = self else { return None };
        Some((*trial, event))
    }

    /// A change of a trial's state, likewise.
    pub fn state_event(&self) -> Option<(TrialNumber, &StateEvent)> {
        let Event::Trial(trial, TrialEvent::State(event)) = self else { return None };
        Some((*trial, event))
    }

    /// The trial that ended, if this ends one.
    pub fn finished_trial(&self) -> Option<TrialNumber> {
        let (trial, StateEvent::Finished { .. }) = self.state_event()? else { return None };
        Some(trial)
    }

    /// The trial and the end of an attempt, if this ends one.
    pub fn attempt_end(&self) -> Option<(TrialNumber, &AttemptEnd)> {
        let (trial, AttemptEvent::Ended { end, .. }) = self.attempt_event()? else { return None };
        Some((trial, end))
    }

    /// The devices of an attempt, if this starts one.
    pub fn devices(&self) -> Option<&DeviceGroup> {
        let (_, AttemptEvent::Started { slot, .. }) = self.attempt_event()? else { return None };
        Some(&slot.devices)
    }

    /// The slots that a runner has from here on.
    pub fn slots(&self) -> Option<&[Slot]> {
        match self {
            Event::Runner(RunnerEvent::Started { slots, .. })
            | Event::Device(DeviceEvent::SlotsChanged { slots }) => Some(slots),
            _ => None,
        }
    }

    /// Whether it is a note or a tag, which are written without a runner.
    pub fn is_entry(&self) -> bool {
        matches!(
            self,
            Event::Trial(_, TrialEvent::Entry(_))
                | Event::Study(StudyEvent::Noted { .. } | StudyEvent::Tagged { .. })
        )
    }

    /// The event that carries out a request for a note or a tag, which need no runner.
    pub fn requested(request: &Request) -> Option<Event> {
        match request {
            Request::Note { trial, text } => Some(Event::noted(*trial, text.clone())),
            Request::Tag { trial, tag, present } => {
                Some(Event::tagged(*trial, tag.clone(), *present))
            }
            _ => None,
        }
    }

    /// A note on a trial, or on the study.
    pub fn noted(trial: Option<TrialNumber>, text: String) -> Event {
        match trial {
            Some(trial) => Event::of(trial, EntryEvent::Noted { text }),
            None => Event::Study(StudyEvent::Noted { text }),
        }
    }

    /// A tag that a trial or the study gains or loses.
    pub fn tagged(trial: Option<TrialNumber>, tag: String, present: bool) -> Event {
        match trial {
            Some(trial) => Event::of(trial, EntryEvent::Tagged { tag, present }),
            None => Event::Study(StudyEvent::Tagged { tag, present }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::provenance::{AgentProvenance, Build, ClusterJob, Machine};
    use crate::study::trial::TrialState;

    #[test]
    fn agents_come_and_go_in_the_journal() {
        let machine = Machine {
            host: "node".to_owned(),
            system: "Linux".to_owned(),
            processor: String::new(),
            cores: 4,
            gpus: Vec::new(),
        };
        let provenance = Some(Box::new(AgentProvenance {
            machine,
            memory: Some(1 << 30),
            hpsearch: Build { version: "0.1.0".to_owned(), digest: None },
            job: ClusterJob::of(|name| (name == "SLURM_JOB_ID").then(|| "7".to_owned())),
        }));
        let changes = [
            AgentChange::Joined { slots: 2, provenance },
            AgentChange::Joined { slots: 2, provenance: None },
            AgentChange::Left { reason: "why".to_owned() },
        ];
        for change in changes {
            let agent = "node".to_owned();
            let event = Event::Device(DeviceEvent::AgentChanged { agent, change });
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
        }
        // As earlier versions wrote it.
        let earlier =
            r#"{"type":"agent_changed","agent":"node","change":{"what":"joined","slots":2}}"#;
        assert!(serde_json::from_str::<Event>(earlier).is_ok());
    }

    #[test]
    fn a_value_of_nan_is_told_from_no_value() {
        for value in [None, Some(f64::NAN), Some(f64::INFINITY), Some(0.25)] {
            let event = Event::Trial(
                TrialNumber(3),
                TrialEvent::finished(TrialState::Complete, value, None),
            );
            let text = serde_json::to_string(&event).unwrap();
            let Event::Trial(_, TrialEvent::State(StateEvent::Finished { value: read, .. })) =
                serde_json::from_str(&text).unwrap()
            else {
                panic!("{text}")
            };
            assert_eq!(value.map(f64::to_bits), read.map(f64::to_bits), "{text}");
        }
    }
}
