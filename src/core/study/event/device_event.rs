//! What happens to devices, their slots and agents, as the journal has it.

use serde::{Deserialize, Serialize};

use crate::study::device::{Device, Slot};
use crate::study::provenance::AgentProvenance;
use crate::study::trial::TrialNumber;

/// Events of devices and their slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DeviceEvent {
    /// The user paused a device: nothing starts there until it is resumed.
    #[serde(rename = "device_paused")]
    Paused {
        /// The device.
        device: Device,
    },
    /// A paused device was resumed.
    #[serde(rename = "device_resumed")]
    Resumed {
        /// The device.
        device: Device,
    },
    /// The user changed the slots of the running study.
    SlotsChanged {
        /// The new slots.
        slots: Vec<Slot>,
    },
    /// An agent came, or is gone.
    AgentChanged {
        /// Its name.
        agent: String,
        /// What happened.
        change: AgentChange,
    },
    /// The number of trials that share a device changes (`trials_per_device = "auto"`).
    #[serde(rename = "packed")]
    ConcurrencyChanged {
        /// The device.
        device: Device,
        /// The new number.
        slots: u32,
        /// The kind of change.
        change: ConcurrencyChange,
        /// The trial that pauses to make room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trial: Option<TrialNumber>,
        /// The reason, one sentence.
        reason: String,
        /// The largest memory use of a trial there, in bytes.
        largest: u64,
    },
}

/// What happened to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum AgentChange {
    /// It came, or came back to another runner.
    Joined {
        /// Number of its slots.
        slots: u64,
        /// Its machine; `None` from an older version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provenance: Option<Box<AgentProvenance>>,
    },
    /// It leaves, was lost, or cannot be used.
    Left {
        /// The reason, for users.
        reason: String,
    },
    /// It does not answer: nothing new is started there.
    Silent,
    /// It answers again.
    Back,
    /// None comes from a host or a scheduler of this name.
    Absent {
        /// The reason, for users.
        reason: String,
    },
}

/// Why the number of trials that share a device changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConcurrencyChange {
    /// One more: there is room, and each one increases throughput.
    Admitted,
    /// One less: the last one did not increase throughput.
    Back,
    /// One less: memory is short.
    #[serde(rename = "pressed")]
    MemoryPressure,
    /// Unchanged: cores or memory have no room for another.
    #[serde(rename = "full")]
    Saturated,
}
