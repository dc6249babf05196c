//! The journal of a study: everything that happened, in order, as plain data that can be folded.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::study::decision::Decision;
use crate::study::device::{Device, Slot};
use crate::study::metric::{Metrics, lossless};
use crate::study::params::Params;
use crate::study::provenance::Provenance;
use crate::study::remark::RemarkKind;
use crate::study::spec::{Extension, FailureCause};
use crate::study::statistics::Sample;
use crate::study::trial::{AttemptNumber, Hold, Origin, TrialNumber, TrialState};

/// Position in the journal of a store, from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub i64);

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// The program ran to its end.
    Completed,
    /// The program left because it was told to pause.
    Paused,
    /// The program left because its trial was pruned.
    Stopped,
    /// The program left because the runner asked it to; the trial runs again.
    Interrupted,
    /// The runner died, and the program with it; the trial runs again.
    Lost,
    /// The machine refused what the program needs (room, files, processes); the trial runs again.
    /// An hpsearch that does not know it does not open the schema of stores that have it.
    Refused,
    /// The program ended by itself before its end: NaN or infinite loss.
    Diverged,
    /// Something went wrong.
    Failed(FailureCause),
}

/// Something that happened to a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A runner took the study up.
    RunnerStarted {
        /// Process id.
        pid: u32,
        /// Host name.
        host: String,
        /// Its slots.
        slots: Vec<Slot>,
    },
    /// What the results of the runner that has just started depend on.
    RunnerDescribed {
        /// All of it.
        lineage: Box<Provenance>,
    },
    /// A runner left the study.
    RunnerStopped {
        /// Why.
        reason: String,
        /// How long it ran, in microseconds; while the study was paused and nothing ran, time stood
        /// still.
        ran_micros: i64,
        /// When it was last heard, if it was killed: the study's next runner writes this in its
        /// stead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heard: Option<crate::study::time::Timestamp>,
        /// Microseconds of devices that were in use when it was killed and had not been told.
        #[serde(default, skip_serializing_if = "is_zero")]
        device_micros: i64,
    },
    /// A trial came into being.
    TrialCreated {
        /// Its number.
        trial: TrialNumber,
        /// Its parameters.
        params: Params,
        /// Where they came from.
        origin: Origin,
    },
    /// An attempt was given a slot.
    AttemptStarted {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        attempt: AttemptNumber,
        /// Where.
        slot: Slot,
        /// Step and path of the checkpoint it continues from.
        resume: Option<(u64, PathBuf)>,
        /// Step where it shall pause.
        until: Option<u64>,
        /// Training rows in memory at once, where they were halved because the trial ran out of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows_at_once: Option<u64>,
        /// Microseconds for which its device was in use by others since that was last told. A
        /// device counts once, however many of its slots are busy.
        #[serde(default, skip_serializing_if = "is_zero")]
        device_micros: i64,
    },
    /// The process of an attempt is known (for killing processes left over after a crash).
    AttemptLaunched {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        attempt: AttemptNumber,
        /// Process id.
        pid: u32,
        /// The system's start time of that process, so that a reused id is not taken for it.
        pid_started: u64,
    },
    /// A report came in.
    Reported {
        /// Whose.
        trial: TrialNumber,
        /// Of which attempt.
        attempt: AttemptNumber,
        /// Step.
        step: u64,
        /// What was measured.
        metrics: Metrics,
    },
    /// Something that a trial said was not taken, or is odd: the first of its kind, or at the
    /// attempt's end how many there were.
    Remarked {
        /// Whose.
        trial: TrialNumber,
        /// Of which attempt.
        attempt: AttemptNumber,
        /// What it is about.
        kind: RemarkKind,
        /// One sentence: what was not taken, why, and what to print instead.
        text: String,
        /// How many there were in the attempt so far.
        count: u64,
    },
    /// A pruner decided something at a report.
    Decided {
        /// About whom.
        trial: TrialNumber,
        /// At which step.
        step: u64,
        /// What, and why.
        verdict: Decision,
    },
    /// A trial saved a checkpoint.
    CheckpointSaved {
        /// Whose.
        trial: TrialNumber,
        /// Step of the state.
        step: u64,
        /// Where it is; absolute.
        path: PathBuf,
        /// What it takes on the disk, where that was measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// The system's clock when a command registered it: the times of its files are by that
        /// clock, and not by the study's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<crate::study::time::Timestamp>,
    },
    /// A checkpoint is no longer needed; its files are removed after this is durable.
    CheckpointDropped {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        path: PathBuf,
    },
    /// Checkpoints take more than `[checkpoints] max_disk`, and all that are left are needed.
    DiskExceeded {
        /// What they take, in bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// An attempt is over.
    AttemptEnded {
        /// Whose.
        trial: TrialNumber,
        /// Which.
        attempt: AttemptNumber,
        /// How.
        end: AttemptEnd,
        /// One sentence.
        reason: Option<String>,
        /// Microseconds for which its device was in use since that was last told; `None` of an
        /// older hpsearch, which counted slots: all that the attempt took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device_micros: Option<i64>,
        /// What it took of its device's memory, where devices share themselves out and it was seen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory: Option<MemoryUse>,
    },
    /// A trial waits for a slot again.
    TrialQueued {
        /// Which.
        trial: TrialNumber,
        /// Step up to which it shall run, if a pruner promoted it.
        until: Option<u64>,
        /// Why.
        reason: String,
    },
    /// A trial left its slot and may be resumed.
    TrialPaused {
        /// Which.
        trial: TrialNumber,
        /// Why.
        reason: String,
        /// Who paused it, if not the pruner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<Hold>,
    },
    /// A running trial is to pause as soon as it has saved, or not any more.
    TrialHeld {
        /// Which.
        trial: TrialNumber,
        /// Who pauses it; `None`: nobody any more.
        hold: Option<Hold>,
    },
    /// A trial that had ended continues from its checkpoint: it waits for a slot.
    TrialContinued {
        /// Which.
        trial: TrialNumber,
        /// Step at which it ends this time.
        until: u64,
        /// What it had ended as.
        from: TrialState,
    },
    /// A trial is about to be complete, and what it measured breaks limits of the study.
    LimitsBroken {
        /// Which.
        trial: TrialNumber,
        /// By how much, all limits together.
        violation: f64,
        /// Which limits, one sentence.
        reason: String,
    },
    /// From here on decisions may know what came of a trial's turn on a slot; written where they
    /// must not depend on who is faster (`deterministic = true`).
    ResultsKnown {
        /// Whose.
        trial: TrialNumber,
    },
    /// The best configurations are run again on fresh seeds.
    #[serde(rename = "race_begun")]
    FinalistsChosen {
        /// The trials of the search with those configurations, the best first.
        finalists: Vec<TrialNumber>,
    },
    /// A configuration runs no further in the race.
    #[serde(rename = "race_dropped")]
    FinalistDropped {
        /// The trial of the search with that configuration.
        trial: TrialNumber,
        /// Why, one sentence.
        reason: String,
    },
    /// The race is over.
    #[serde(rename = "race_won")]
    FinalistWon {
        /// The trial of the search with the winning configuration.
        trial: TrialNumber,
        /// Its runs in the race.
        sample: Sample,
        /// Why, one sentence.
        reason: String,
    },
    /// The winner of the race was measured on the test split.
    WinnerTested {
        /// The trial of the search with the winning configuration.
        trial: TrialNumber,
        /// What was measured.
        metrics: Metrics,
    },
    /// A trial is over.
    TrialFinished {
        /// Which.
        trial: TrialNumber,
        /// Complete, pruned or failed.
        state: TrialState,
        /// Its value, if complete.
        #[serde(with = "optional_number", default)]
        value: Option<f64>,
        /// Why, one sentence.
        reason: Option<String>,
    },
    /// The study is over.
    StudyFinished {
        /// Why, one sentence.
        reason: String,
    },
    /// A finished study continues (its budget was raised).
    StudyReopened {
        /// Why.
        reason: String,
    },
    /// Its user paused the study: nothing is started until it is resumed.
    StudyPaused {
        /// Why.
        reason: String,
    },
    /// A paused study continues.
    StudyResumed {
        /// Why.
        reason: String,
    },
    /// Its user paused a device: nothing is started there until it is resumed.
    DevicePaused {
        /// Which.
        device: Device,
    },
    /// A paused device is used again.
    DeviceResumed {
        /// Which.
        device: Device,
    },
    /// Its user changed the slots of the running study.
    SlotsChanged {
        /// Those that there are now.
        slots: Vec<Slot>,
    },
    /// Another number of trials shares a device from here on (`trials_per_device = "auto"`).
    #[serde(rename = "packed")]
    ConcurrencyChanged {
        /// Which.
        device: Device,
        /// So many at a time.
        slots: u32,
        /// What kind of change it is.
        change: ConcurrencyChange,
        /// Who makes room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trial: Option<TrialNumber>,
        /// Why, one sentence.
        reason: String,
        /// The largest memory of a trial that was seen there, in bytes.
        largest: u64,
    },
    /// The study's budget was raised, on top of what the study file says.
    BudgetExtended {
        /// By how much.
        by: Extension,
    },
    /// Points were passed over when a trial was proposed, for they are expected not to fit into the
    /// memory of any device.
    #[serde(rename = "passed_over")]
    ConfigurationsSkipped {
        /// The trial.
        trial: TrialNumber,
        /// How many points.
        points: u64,
        /// Why, one sentence.
        reason: String,
    },
    /// Someone wrote something down.
    Noted {
        /// About which trial; `None`: about the study.
        trial: Option<TrialNumber>,
        /// What.
        text: String,
    },
    /// Someone gave or took a tag.
    Tagged {
        /// Of which trial; `None`: of the study.
        trial: Option<TrialNumber>,
        /// The word.
        tag: String,
        /// Whether it is there now.
        present: bool,
    },
    /// A request was carried out, or could not be: it is answered.
    RequestServed {
        /// Its key.
        id: i64,
        /// What came of it.
        answer: Answer,
    },
}

impl Event {
    /// The trial it is about.
    pub fn trial(&self) -> Option<TrialNumber> {
        match self {
            Event::TrialCreated { trial, .. }
            | Event::AttemptStarted { trial, .. }
            | Event::AttemptLaunched { trial, .. }
            | Event::Reported { trial, .. }
            | Event::Remarked { trial, .. }
            | Event::Decided { trial, .. }
            | Event::CheckpointSaved { trial, .. }
            | Event::CheckpointDropped { trial, .. }
            | Event::AttemptEnded { trial, .. }
            | Event::TrialQueued { trial, .. }
            | Event::TrialPaused { trial, .. }
            | Event::TrialHeld { trial, .. }
            | Event::TrialContinued { trial, .. }
            | Event::LimitsBroken { trial, .. }
            | Event::ResultsKnown { trial }
            | Event::FinalistDropped { trial, .. }
            | Event::FinalistWon { trial, .. }
            | Event::WinnerTested { trial, .. }
            | Event::ConfigurationsSkipped { trial, .. }
            | Event::TrialFinished { trial, .. } => Some(*trial),
            Event::Noted { trial, .. }
            | Event::Tagged { trial, .. }
            | Event::ConcurrencyChanged { trial, .. } => *trial,
            Event::RunnerStarted { .. }
            | Event::RunnerDescribed { .. }
            | Event::FinalistsChosen { .. }
            | Event::RunnerStopped { .. }
            | Event::StudyFinished { .. }
            | Event::StudyReopened { .. }
            | Event::StudyPaused { .. }
            | Event::StudyResumed { .. }
            | Event::BudgetExtended { .. }
            | Event::DevicePaused { .. }
            | Event::DeviceResumed { .. }
            | Event::SlotsChanged { .. }
            | Event::DiskExceeded { .. }
            | Event::RequestServed { .. } => None,
        }
    }

    /// The trial and the end of an attempt that ends.
    pub fn attempt_end(&self) -> Option<(TrialNumber, &AttemptEnd)> {
        match self {
            Event::AttemptEnded { trial, end, .. } => Some((*trial, end)),
            _ => None,
        }
    }

    /// The device of an attempt that starts.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Event::AttemptStarted { slot, .. } => Some(&slot.device),
            _ => None,
        }
    }
}

/// What an attempt took of its device's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// The most that it was seen to take.
    pub peak: u64,
    /// What the device has for a trial that is alone there.
    pub room: u64,
}

/// Why another number of trials shares a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConcurrencyChange {
    /// One more, for there is room and the device does more with each.
    Admitted,
    /// One less, for the last one was not worth it.
    Back,
    /// One less, for memory is short.
    #[serde(rename = "pressed")]
    MemoryPressure,
    /// As many as before: cores or memory have no room for another.
    #[serde(rename = "full")]
    Saturated,
}

/// What someone asks of a study, through the store: of whoever runs it, or of the next who does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// No new trials; running ones checkpoint and leave.
    Stop,
    /// Stop one trial at once; it counts as failed with reason `killed`.
    Kill {
        /// Which.
        trial: TrialNumber,
    },
    /// Start nothing, and let what runs save and leave, until the study is resumed.
    PauseStudy,
    /// Let a paused study continue.
    ResumeStudy,
    /// Let one trial save and leave its slot; only [`Request::ResumeTrial`] lets it continue.
    PauseTrial {
        /// Which.
        trial: TrialNumber,
    },
    /// Let a paused trial continue, whoever paused it.
    ResumeTrial {
        /// Which.
        trial: TrialNumber,
    },
    /// Let what runs on a device save, leave and continue elsewhere; start nothing there until it
    /// is resumed.
    PauseDevice {
        /// Which.
        device: Device,
    },
    /// Use a paused device again, or use another number of its slots.
    ResumeDevice {
        /// Which.
        device: Device,
        /// How many trials at a time, as long as the present run lasts; `None`: as many as there
        /// were.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slots: Option<u32>,
    },
    /// Run this configuration next.
    Enqueue {
        /// Values of some parameters; the others are sampled.
        params: Params,
    },
    /// Start failed trials again.
    Retry {
        /// Which.
        trials: Retried,
    },
    /// Raise the budget.
    Extend {
        /// By how much.
        by: Extension,
    },
    /// Let a trial that has ended continue from its checkpoint.
    Continue {
        /// Which.
        trial: TrialNumber,
        /// Step at which it ends this time.
        until: u64,
    },
    /// Write something down; done by the store at once, whoever runs the study.
    Note {
        /// About which trial; `None`: about the study.
        trial: Option<TrialNumber>,
        /// What.
        text: String,
    },
    /// Give or take a tag; done by the store at once, whoever runs the study.
    Tag {
        /// Of which trial; `None`: of the study.
        trial: Option<TrialNumber>,
        /// The word.
        tag: String,
        /// Whether it shall be there.
        present: bool,
    },
    /// A stored request that cannot be read: of another hpsearch, or with a number that nothing
    /// here holds. Never written; it is refused by whoever comes upon it.
    #[serde(skip)]
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
}

impl Request {
    /// The event that does it, where it is nothing but an entry: a note or a tag.
    pub fn entry(&self) -> Option<Event> {
        match self {
            Request::Note { trial, text } => {
                Some(Event::Noted { trial: *trial, text: text.clone() })
            }
            Request::Tag { trial, tag, present } => {
                Some(Event::Tagged { trial: *trial, tag: tag.clone(), present: *present })
            }
            _ => None,
        }
    }
}

/// What a tag is, for people who wrote another.
pub const TAG_RULE: &str = "letters, digits and any of `._/-`, up to 64";

/// Whether `text` can be a tag, by [`TAG_RULE`]; a longer one is a note.
pub fn is_tag(text: &str) -> bool {
    let fits = |char: char| char.is_alphanumeric() || matches!(char, '.' | '_' | '/' | '-');
    !text.is_empty() && text.chars().count() <= 64 && text.chars().all(fits)
}

/// Which failed trials are started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retried {
    /// This one.
    One(TrialNumber),
    /// All that failed.
    AllFailed,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done; one sentence about it.
    Done(String),
    /// It cannot be done; why, and what to do instead.
    Refused(String),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(micros: &i64) -> bool {
    *micros == 0
}

mod optional_number {
    use super::lossless;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Wrapped(#[serde(with = "lossless")] f64);

    pub fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(Wrapped).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|wrapped| wrapped.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_nan_is_told_from_no_value() {
        for value in [None, Some(f64::NAN), Some(f64::INFINITY), Some(0.25)] {
            let event = Event::TrialFinished {
                trial: TrialNumber(3),
                state: TrialState::Complete,
                value,
                reason: None,
            };
            let text = serde_json::to_string(&event).unwrap();
            let Event::TrialFinished { value: read, .. } = serde_json::from_str(&text).unwrap()
            else {
                panic!("{text}")
            };
            assert_eq!(value.map(f64::to_bits), read.map(f64::to_bits), "{text}");
        }
    }
}
