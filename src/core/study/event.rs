//! The journal of a study: the ordered log of everything that happened, as plain data to be folded.

mod paths;
mod serialized;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::study::artifact::Artifact;
use crate::study::budget::Extension;
use crate::study::decision::{Decision, Reason};
use crate::study::device::{Device, DeviceGroup, Slot};
use crate::study::front::Front;
use crate::study::goal::Goal;
use crate::study::metric::Metrics;
use crate::study::params::Params;
use crate::study::prediction::Prediction;
use crate::study::provenance::{AgentProvenance, Provenance};
use crate::study::remark::RemarkKind;
use crate::study::request::{Request, RequestAnswer};
use crate::study::serialized::{is_zero, numbers, optional_number};
use crate::study::spec::FailureCause;
use crate::study::statistics::Statistics;
use crate::study::time::Timestamp;
use crate::study::tracked::{MovedRun, Tracker};
use crate::study::trial::{AttemptNumber, Hold, Origin, TrialNumber, TrialState};

/// Position in a store's journal, from 1.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub i64);

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// The program completed.
    Completed,
    /// The program exited because it was paused.
    Paused,
    /// The program exited because its trial was pruned.
    Stopped,
    /// The program exited at the runner's request; the trial runs again.
    Interrupted,
    /// The runner died, and the program with it; the trial runs again.
    Lost,
    /// The machine refused resources (memory, files, processes); the trial runs again. Versions
    /// that do not know this refuse to open stores whose schema has it.
    Refused,
    /// The program stopped early by itself: NaN or infinite loss.
    Diverged,
    /// It failed.
    Failed(FailureCause),
}

impl AttemptEnd {
    /// Whether its supervisor may have been killed, and left processes.
    pub fn may_leave_processes(&self) -> bool {
        match self {
            AttemptEnd::Failed(_) | AttemptEnd::Interrupted | AttemptEnd::Refused => true,
            AttemptEnd::Completed
            | AttemptEnd::Paused
            | AttemptEnd::Stopped
            | AttemptEnd::Lost
            | AttemptEnd::Diverged => false,
        }
    }

    /// When an attempt ended whose end was recorded at `recorded`: one that was lost with its
    /// runner at the runner's last sign of life (`killed_at`), which recovery records much later.
    /// `None`: it was lost, and when is not known.
    pub fn moment(
        &self,
        started: Timestamp,
        recorded: Timestamp,
        killed_at: Option<Timestamp>,
    ) -> Option<Timestamp> {
        match self {
            // An earlier runner's death says nothing about it.
            AttemptEnd::Lost => {
                killed_at.filter(|heard| *heard >= started).map(|heard| heard.min(recorded))
            }
            AttemptEnd::Completed
            | AttemptEnd::Paused
            | AttemptEnd::Stopped
            | AttemptEnd::Interrupted
            | AttemptEnd::Refused
            | AttemptEnd::Diverged
            | AttemptEnd::Failed(_) => Some(recorded),
        }
    }
}

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

/// Events of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TrialEvent {
    /// A trial was created.
    #[serde(rename = "trial_created")]
    Created {
        /// Its parameters.
        params: Params,
        /// Their origin.
        origin: Origin,
        /// The value that the sampler's model predicted of them then, by objective; empty if no
        /// model chose them, or one that predicts none, and from older versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        predicted: Vec<Prediction>,
    },
    /// An attempt started on a slot.
    AttemptStarted {
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// The slot of the attempt.
        slot: Slot,
        /// Step and path of the checkpoint it continues from.
        resume: Option<(u64, PathBuf)>,
        /// Step at which it pauses.
        until: Option<u64>,
        /// Training rows per micro-batch, if halved after running out of memory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows_at_once: Option<u64>,
        /// Microseconds of device time of other attempts since the last account. A device counts
        /// once, however many of its slots are busy.
        #[serde(default, skip_serializing_if = "is_zero")]
        device_micros: i64,
    },
    /// The process of an attempt is known (to kill processes left over after a crash).
    AttemptLaunched {
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Process id.
        pid: u32,
        /// Its start time by the system, which identifies it if the id is reused.
        pid_started: u64,
    },
    /// A trial reported.
    Reported {
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// Step.
        step: u64,
        /// The metrics.
        metrics: Metrics,
    },
    /// Something that a trial printed was rejected or is odd: the first of its kind, or at the
    /// attempt's end the total.
    Remarked {
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// The kind.
        kind: RemarkKind,
        /// One sentence: what was rejected, why, and what to print instead.
        text: String,
        /// How many there were in the attempt so far.
        count: u64,
    },
    /// A pruner decided on a report.
    Decided {
        /// The step, in the study's unit.
        step: u64,
        /// The decision and its reason.
        verdict: Decision,
    },
    /// A trial saved a checkpoint.
    CheckpointSaved {
        /// Step of the state.
        step: u64,
        /// Its absolute path.
        path: PathBuf,
        /// Its size on disk, if measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// The system's clock when a command registered it, which its files' times refer to; the
        /// study's clock may differ.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system: Option<crate::study::time::Timestamp>,
        /// The digest of its content, if it was computed: for pruners that copy checkpoints.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    /// A checkpoint is no longer needed; its files are removed once this is durable.
    CheckpointDropped {
        /// Path of the checkpoint.
        path: PathBuf,
    },
    /// An attempt ended.
    AttemptEnded {
        /// Number of the trial's attempt, from 0.
        attempt: AttemptNumber,
        /// How the attempt ended.
        end: AttemptEnd,
        /// One sentence.
        reason: Option<String>,
        /// Microseconds of device time since the last account; `None` from an older version, which
        /// counted slots: all that the attempt took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device_micros: Option<i64>,
        /// Its use of device memory, if measured (`trials_per_device = "auto"`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory: Option<MemoryUse>,
    },
    /// A trial was queued again.
    #[serde(rename = "trial_queued")]
    Queued {
        /// Step at which it pauses, if a pruner promoted it.
        until: Option<u64>,
        /// The reason, for users.
        reason: String,
    },
    /// A paused trial of a population continues from another's checkpoint with other parameters: it
    /// is queued.
    #[serde(rename = "trial_cloned")]
    Cloned {
        /// The trial that saved the checkpoint.
        from: TrialNumber,
        /// The checkpoint's step.
        step: u64,
        /// Its digest, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        /// The new parameters.
        params: Params,
        /// The parameters before.
        replaced: Params,
        /// Step at which it pauses; `None`: it runs to its end.
        until: Option<u64>,
        /// The reason for the copy.
        reason: Reason,
    },
    /// A trial left its slot and may be resumed.
    #[serde(rename = "trial_paused")]
    Paused {
        /// The reason, for users.
        reason: String,
        /// Who paused it, if not the pruner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<Hold>,
    },
    /// A running trial was asked to pause once it has saved, or the request was withdrawn.
    #[serde(rename = "trial_held")]
    Held {
        /// Who pauses it; `None`: withdrawn.
        hold: Option<Hold>,
    },
    /// An ended trial continues from its checkpoint: it is queued.
    #[serde(rename = "trial_continued")]
    Continued {
        /// Step at which it ends now.
        until: u64,
        /// Its state before.
        from: TrialState,
    },
    /// A trial is about to complete, and its metrics violate limits of the study.
    LimitsBroken {
        /// The total violation.
        violation: f64,
        /// The violated limits, one sentence.
        reason: String,
    },
    /// From here on decisions may use the results of a trial's turn on a slot; written if decisions
    /// must not depend on timing (`deterministic = true`).
    ResultsKnown,
    /// A trial ended.
    #[serde(rename = "trial_finished")]
    Finished {
        /// Complete, pruned or failed.
        state: TrialState,
        /// Its value, if complete in a study of one objective.
        #[serde(with = "optional_number", default)]
        value: Option<f64>,
        /// Its values, if complete in a study of several objectives.
        #[serde(with = "numbers", default, skip_serializing_if = "Vec::is_empty")]
        values: Vec<f64>,
        /// The reason, one sentence.
        reason: Option<String>,
    },
    /// The user hid the trial: tables omit it, its files are removed, and it is never the best. It
    /// becomes visible if it continues.
    #[serde(rename = "trial_hidden")]
    Hidden,
    /// A tracked run was removed, or moved to another study. It has no other event in the journal
    /// and no row in any table, and its number is not reused.
    #[serde(rename = "run_removed")]
    Removed {
        /// Its new study and number, if it was moved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        moved: Option<MovedRun>,
    },
    /// The trial was chosen among these configurations, which its program offered.
    CandidatesOffered {
        /// The configurations, in the order of the offer.
        candidates: Vec<Params>,
    },
    /// Configurations were skipped when a trial was proposed: they are not expected to fit into the
    /// memory of any device.
    #[serde(rename = "passed_over")]
    ConfigurationsSkipped {
        /// Number of configurations that were skipped.
        points: u64,
        /// The reason, one sentence.
        reason: String,
    },
    /// A tracked run recorded parameters; equal names are replaced.
    ParamsRecorded {
        /// The parameters.
        params: Params,
    },
    /// The trial's program did not use these parameters, and they are removed from it.
    ParamsDropped {
        /// Their names.
        names: Vec<String>,
    },
    /// A tracked run recorded summary values; equal names are replaced.
    SummaryRecorded {
        /// The values, as JSON scalars.
        summary: std::collections::BTreeMap<String, serde_json::Value>,
    },
    /// A trial saved an artifact: the newest version of its name.
    ArtifactSaved {
        /// The artifact.
        artifact: Artifact,
        /// The text, table or listing, stored by its digest in the same transaction; absent when
        /// read from a journal.
        #[serde(skip)]
        content: Option<String>,
    },
    /// How far a spool file, in which a program records its run, has been read.
    SpoolRead {
        /// The file's name without its suffix: a resumed run starts a new one.
        spool: String,
        /// Offset in bytes.
        offset: u64,
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

impl StudyEvent {
    /// The end of a study of one objective, whose budget is used up.
    pub fn finished(reason: impl Into<String>) -> StudyEvent {
        StudyEvent::Finished { reason: reason.into(), goal: None, front: None }
    }
}

impl TrialEvent {
    /// A new trial of which nothing is predicted.
    pub fn created(params: Params, origin: Origin) -> TrialEvent {
        TrialEvent::Created { params, origin, predicted: Vec::new() }
    }

    /// The end of a trial of a study of one objective.
    pub fn finished(state: TrialState, value: Option<f64>, reason: Option<String>) -> TrialEvent {
        TrialEvent::Finished { state, value, values: Vec::new(), reason }
    }
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

    /// The trial and the end of an attempt, if this ends one.
    pub fn attempt_end(&self) -> Option<(TrialNumber, &AttemptEnd)> {
        match self {
            Event::Trial(trial, TrialEvent::AttemptEnded { end, .. }) => Some((*trial, end)),
            _ => None,
        }
    }

    /// The devices of an attempt, if this starts one.
    pub fn devices(&self) -> Option<&DeviceGroup> {
        match self {
            Event::Trial(_, TrialEvent::AttemptStarted { slot, .. }) => Some(&slot.devices),
            _ => None,
        }
    }

    /// Whether it is a note or a tag, which are written without a runner.
    pub fn is_entry(&self) -> bool {
        matches!(
            self,
            Event::Trial(_, TrialEvent::Noted { .. } | TrialEvent::Tagged { .. })
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
            Some(trial) => Event::Trial(trial, TrialEvent::Noted { text }),
            None => Event::Study(StudyEvent::Noted { text }),
        }
    }

    /// A tag that a trial or the study gains or loses.
    pub fn tagged(trial: Option<TrialNumber>, tag: String, present: bool) -> Event {
        match trial {
            Some(trial) => Event::Trial(trial, TrialEvent::Tagged { tag, present }),
            None => Event::Study(StudyEvent::Tagged { tag, present }),
        }
    }
}

/// The device memory of an attempt, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// The highest measurement.
    pub peak: u64,
    /// The memory of the device available to a single trial.
    pub room: u64,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::provenance::{Build, ClusterJob, Machine};

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
            let Event::Trial(_, TrialEvent::Finished { value: read, .. }) =
                serde_json::from_str(&text).unwrap()
            else {
                panic!("{text}")
            };
            assert_eq!(value.map(f64::to_bits), read.map(f64::to_bits), "{text}");
        }
    }
}
