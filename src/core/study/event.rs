//! The journal of a study: everything that happened, in order, as plain data that can be folded.

use std::path::PathBuf;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::study::artifact::Artifact;
use crate::study::decision::Decision;
use crate::study::device::{Device, Slot};
use crate::study::metric::{Metrics, lossless};
use crate::study::params::Params;
use crate::study::provenance::Provenance;
use crate::study::remark::RemarkKind;
use crate::study::spec::{Extension, FailureCause};
use crate::study::statistics::Sample;
use crate::study::tracked::{MovedRun, Tracker};
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
///
/// As JSON it is one flat object, such as `{"type":"reported","trial":3,"attempt":0,"step":1,..}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// To its runner.
    Runner(RunnerEvent),
    /// To the study as a whole.
    Study(StudyEvent),
    /// To the trial with this number.
    Trial(TrialNumber, TrialEvent),
    /// To its finalists.
    Finalists(FinalistsEvent),
    /// To devices and their slots.
    Device(DeviceEvent),
}

/// What happened to the runner of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RunnerEvent {
    /// A runner took the study up.
    #[serde(rename = "runner_started")]
    Started {
        /// Process id.
        pid: u32,
        /// Host name.
        host: String,
        /// Its slots.
        slots: Vec<Slot>,
        /// Of a process that tracks one run of a study without a search: what tells it apart.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tracker: Option<Tracker>,
    },
    /// What the results of the runner that has just started depend on.
    #[serde(rename = "runner_described")]
    Described {
        /// All of it.
        lineage: Box<Provenance>,
    },
    /// A runner left the study.
    #[serde(rename = "runner_stopped")]
    Stopped {
        /// The reason, as people read it.
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
        /// The event with which it began, where several track runs at the same time; `None`: the
        /// last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runner: Option<Seq>,
    },
}

/// What happened to a study as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StudyEvent {
    /// Checkpoints take more than `[checkpoints] max_disk`, and all that are left are needed.
    DiskExceeded {
        /// What they take, in bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The study is over.
    #[serde(rename = "study_finished")]
    Finished {
        /// Why, one sentence.
        reason: String,
    },
    /// A finished study continues (its budget was raised).
    #[serde(rename = "study_reopened")]
    Reopened {
        /// The reason, as people read it.
        reason: String,
    },
    /// Its user paused the study: nothing is started until it is resumed.
    #[serde(rename = "study_paused")]
    Paused {
        /// The reason, as people read it.
        reason: String,
    },
    /// A paused study continues.
    #[serde(rename = "study_resumed")]
    Resumed {
        /// The reason, as people read it.
        reason: String,
    },
    /// The study's budget was raised, on top of what the study file says.
    BudgetExtended {
        /// By how much.
        by: Extension,
    },
    /// Someone wrote something down.
    Noted {
        /// The text, as it was written.
        text: String,
    },
    /// Someone gave or took a tag.
    Tagged {
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

/// What happened to a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TrialEvent {
    /// A trial came into being.
    #[serde(rename = "trial_created")]
    Created {
        /// Its parameters.
        params: Params,
        /// Where they came from.
        origin: Origin,
    },
    /// An attempt was given a slot.
    AttemptStarted {
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// The slot of the attempt.
        slot: Slot,
        /// Step and path of the checkpoint it continues from.
        resume: Option<(u64, PathBuf)>,
        /// Step where it is to pause.
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
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Process id.
        pid: u32,
        /// The system's start time of that process, so that a reused id is not taken for it.
        pid_started: u64,
    },
    /// A report came in.
    Reported {
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Step.
        step: u64,
        /// What was measured.
        metrics: Metrics,
    },
    /// Something that a trial said was not taken, or is odd: the first of its kind, or at the
    /// attempt's end how many there were.
    Remarked {
        /// Number of the trial's attempt, from 0.
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
        /// The step, in the study's unit.
        step: u64,
        /// What, and why.
        verdict: Decision,
    },
    /// A trial saved a checkpoint.
    CheckpointSaved {
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
        /// Path of the checkpoint.
        path: PathBuf,
    },
    /// An attempt is over.
    AttemptEnded {
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// How the attempt ended.
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
    #[serde(rename = "trial_queued")]
    Queued {
        /// Step up to which it shall run, if a pruner promoted it.
        until: Option<u64>,
        /// The reason, as people read it.
        reason: String,
    },
    /// A trial left its slot and may be resumed.
    #[serde(rename = "trial_paused")]
    Paused {
        /// The reason, as people read it.
        reason: String,
        /// Who paused it, if not the pruner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<Hold>,
    },
    /// A running trial is to pause as soon as it has saved, or not any more.
    #[serde(rename = "trial_held")]
    Held {
        /// Who pauses it; `None`: nobody any more.
        hold: Option<Hold>,
    },
    /// A trial that had ended continues from its checkpoint: it waits for a slot.
    #[serde(rename = "trial_continued")]
    Continued {
        /// Step at which it ends this time.
        until: u64,
        /// What it had ended as.
        from: TrialState,
    },
    /// A trial is about to be complete, and what it measured breaks limits of the study.
    LimitsBroken {
        /// By how much, all limits together.
        violation: f64,
        /// Which limits, one sentence.
        reason: String,
    },
    /// From here on decisions may know what came of a trial's turn on a slot; written where they
    /// must not depend on who is faster (`deterministic = true`).
    ResultsKnown,
    /// A trial is over.
    #[serde(rename = "trial_finished")]
    Finished {
        /// Complete, pruned or failed.
        state: TrialState,
        /// Its value, if complete.
        #[serde(with = "optional_number", default)]
        value: Option<f64>,
        /// Why, one sentence.
        reason: Option<String>,
    },
    /// Its user hid the trial: tables leave it out, its files go, and it is never the best. It is
    /// shown again if it continues.
    #[serde(rename = "trial_hidden")]
    Hidden,
    /// Its user removed the tracked run, or moved it to another study: it has no other event in the
    /// journal and no row in any table, and its number is not given again.
    #[serde(rename = "run_removed")]
    Removed {
        /// Where it is now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved: Option<MovedRun>,
    },
    /// Points were passed over when a trial was proposed, for they are expected not to fit into the
    /// memory of any device.
    #[serde(rename = "passed_over")]
    ConfigurationsSkipped {
        /// How many points.
        points: u64,
        /// Why, one sentence.
        reason: String,
    },
    /// A tracked run said more of its parameters; those of the same names are replaced.
    ParamsRecorded {
        /// What it said.
        params: Params,
    },
    /// Parameters that the trial's program did not ask for, and that had no part in its result: it
    /// has them no more.
    ParamsDropped {
        /// Their names.
        names: Vec<String>,
    },
    /// A tracked run said what it came to: values by names, of which the last stand.
    SummaryRecorded {
        /// What it said, as JSON scalars.
        summary: std::collections::BTreeMap<String, serde_json::Value>,
    },
    /// A trial kept a file, directory, image, text or table; the newest version of its name.
    ArtifactSaved {
        /// What.
        artifact: Artifact,
        /// The text, table or listing, to be kept by its digest in the same transaction; read from
        /// a journal there is none.
        #[serde(skip)]
        content: Option<String>,
    },
    /// Up to where a file was read in which a program wrote down what its run did.
    SpoolRead {
        /// The file's name without its suffix: a run that goes on has another one each time.
        spool: String,
        /// Bytes from its beginning.
        offset: u64,
    },
    /// Someone wrote something down.
    Noted {
        /// The text, as it was written.
        text: String,
    },
    /// Someone gave or took a tag.
    Tagged {
        /// The word.
        tag: String,
        /// Whether it is there now.
        present: bool,
    },
}

/// What came of the best configurations, run again on fresh seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FinalistsEvent {
    /// The best configurations are run again on fresh seeds.
    #[serde(rename = "race_begun")]
    Chosen {
        /// The trials of the search with those configurations, the best first.
        finalists: Vec<TrialNumber>,
    },
    /// A configuration runs no further in the race.
    #[serde(rename = "race_dropped")]
    Dropped {
        /// The trial of the search with that configuration.
        trial: TrialNumber,
        /// Why, one sentence.
        reason: String,
    },
    /// The race is over.
    #[serde(rename = "race_won")]
    Won {
        /// The trial of the search with the winning configuration.
        trial: TrialNumber,
        /// Its runs in the race.
        sample: Sample,
        /// Why, one sentence.
        reason: String,
    },
    /// The winner of the race was measured on the test split.
    #[serde(rename = "winner_tested")]
    Tested {
        /// The trial of the search with the winning configuration.
        trial: TrialNumber,
        /// What was measured.
        metrics: Metrics,
    },
}

/// What happened to devices and their slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DeviceEvent {
    /// Its user paused a device: nothing is started there until it is resumed.
    #[serde(rename = "device_paused")]
    Paused {
        /// The device.
        device: Device,
    },
    /// A paused device is used again.
    #[serde(rename = "device_resumed")]
    Resumed {
        /// The device.
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
        /// The device.
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
}

impl Event {
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

    /// The trial and the end of an attempt that ends.
    pub fn attempt_end(&self) -> Option<(TrialNumber, &AttemptEnd)> {
        match self {
            Event::Trial(trial, TrialEvent::AttemptEnded { end, .. }) => Some((*trial, end)),
            _ => None,
        }
    }

    /// The device of an attempt that starts.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Event::Trial(_, TrialEvent::AttemptStarted { slot, .. }) => Some(&slot.device),
            _ => None,
        }
    }

    /// Whether it is a note or a tag: written by whoever wants to, without a runner.
    pub fn is_entry(&self) -> bool {
        matches!(
            self,
            Event::Trial(_, TrialEvent::Noted { .. } | TrialEvent::Tagged { .. })
                | Event::Study(StudyEvent::Noted { .. } | StudyEvent::Tagged { .. })
        )
    }

    /// A note on a trial, or on the study.
    pub fn noted(trial: Option<TrialNumber>, text: String) -> Event {
        match trial {
            Some(trial) => Event::Trial(trial, TrialEvent::Noted { text }),
            None => Event::Study(StudyEvent::Noted { text }),
        }
    }

    /// A tag that a trial or the study has from here on, or no longer has.
    pub fn tagged(trial: Option<TrialNumber>, tag: String, present: bool) -> Event {
        match trial {
            Some(trial) => Event::Trial(trial, TrialEvent::Tagged { tag, present }),
            None => Event::Study(StudyEvent::Tagged { tag, present }),
        }
    }
}

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
                ("device_paused" | "device_resumed" | "slots_changed" | "packed", _) => {
                    Event::Device(serde_json::from_str(text)?)
                }
                (_, Some(trial)) => Event::Trial(trial, serde_json::from_str(text)?),
                (_, None) => Event::Study(serde_json::from_str(text)?),
            })
        };
        read(raw.get()).map_err(|error: serde_json::Error| D::Error::custom(error))
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
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// Start nothing, and let what runs save and leave, until the study is resumed.
    PauseStudy,
    /// Let a paused study continue.
    ResumeStudy,
    /// Let one trial save and leave its slot; only [`Request::ResumeTrial`] lets it continue.
    PauseTrial {
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// Let a paused trial continue, whoever paused it.
    ResumeTrial {
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// Let what runs on a device save, leave and continue elsewhere; start nothing there until it
    /// is resumed.
    PauseDevice {
        /// The device.
        device: Device,
    },
    /// Use a paused device again, or use another number of its slots.
    ResumeDevice {
        /// The device.
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
        /// The failed trials to start again.
        trials: Retried,
    },
    /// Raise the budget.
    Extend {
        /// By how much.
        by: Extension,
    },
    /// Let a trial that has ended continue from its checkpoint.
    Continue {
        /// Number of the trial.
        trial: TrialNumber,
        /// Step at which it ends this time.
        until: u64,
    },
    /// Hide a trial that has ended, and drop its checkpoints.
    Hide {
        /// Number of the trial.
        trial: TrialNumber,
    },
    /// Write something down; done by the store at once, whoever runs the study.
    Note {
        /// About which trial; `None`: about the study.
        trial: Option<TrialNumber>,
        /// The text, as it was written.
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
            Request::Note { trial, text } => Some(Event::noted(*trial, text.clone())),
            Request::Tag { trial, tag, present } => {
                Some(Event::tagged(*trial, tag.clone(), *present))
            }
            _ => None,
        }
    }
}

/// The tag of studies that are put away: lists leave them out.
pub const ARCHIVED: &str = "archived";

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
            let event = Event::Trial(
                TrialNumber(3),
                TrialEvent::Finished { state: TrialState::Complete, value, reason: None },
            );
            let text = serde_json::to_string(&event).unwrap();
            let Event::Trial(_, TrialEvent::Finished { value: read, .. }) =
                serde_json::from_str(&text).unwrap()
            else {
                panic!("{text}")
            };
            assert_eq!(value.map(f64::to_bits), read.map(f64::to_bits), "{text}");
        }
    }
}
