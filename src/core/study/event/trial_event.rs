//! What happens to a trial, as its journal has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::attempt_end::AttemptEnd;
use crate::study::artifact::Artifact;
use crate::study::decision::{Decision, Reason};
use crate::study::device::Slot;
use crate::study::metric::Metrics;
use crate::study::params::Params;
use crate::study::prediction::Prediction;
use crate::study::remark::RemarkKind;
use crate::study::serialized::{is_zero, numbers, optional_number};
use crate::study::tracked::MovedRun;
use crate::study::trial::{AttemptNumber, Hold, Origin, TrialNumber, TrialState};

/// Events of a trial, by what they are about. As JSON each is its inner event, one flat object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TrialEvent {
    /// Its parameters were chosen.
    Proposal(ProposalEvent),
    /// About one of its attempts.
    Attempt(AttemptEvent),
    /// About its checkpoints.
    Checkpoint(CheckpointEvent),
    /// About what is decided of it.
    Decision(DecisionEvent),
    /// Its state changed.
    State(StateEvent),
    /// Its program recorded something beside its reports.
    Record(RecordEvent),
    /// A user noted something.
    Entry(EntryEvent),
}

/// How a trial came to its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProposalEvent {
    /// A trial was created.
    #[serde(rename = "trial_created")]
    TrialCreated {
        /// Its parameters.
        params: Params,
        /// Their origin.
        origin: Origin,
        /// The value that the sampler's model predicted of them then, by objective; empty if no
        /// model chose them, or one that predicts none, and from older versions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        predicted: Vec<Prediction>,
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
}

/// Events of one attempt of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AttemptEvent {
    /// An attempt started on a slot.
    #[serde(rename = "attempt_started")]
    Started {
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
    #[serde(rename = "attempt_launched")]
    Launched {
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
        /// The names of those of which the attempt has reported a later step already: the last
        /// values of the trial's metrics remain.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        late: BTreeSet<String>,
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
    /// An attempt ended.
    #[serde(rename = "attempt_ended")]
    Ended {
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
        /// Steps of earlier attempts' reports that no longer count, ascending, by objective: the
        /// attempt reported from before them on, and did not repeat these. Without steps: another
        /// metric, whose last value no longer counts, since the attempt started over (of a tracked
        /// run: nor do all its reports).
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        superseded: BTreeMap<String, Vec<u64>>,
    },
}

/// Events of a trial's checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum CheckpointEvent {
    /// A trial saved a checkpoint.
    #[serde(rename = "checkpoint_saved")]
    Saved {
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
    #[serde(rename = "checkpoint_dropped")]
    Dropped {
        /// Path of the checkpoint.
        path: PathBuf,
    },
}

/// What is decided of a trial, and from when on its results are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DecisionEvent {
    /// A pruner decided on a report.
    Decided {
        /// The step, in the study's unit.
        step: u64,
        /// The decision and its reason.
        verdict: Decision,
    },
    /// A trial is about to complete, and its metrics violate limits of the study.
    LimitsBroken {
        /// The total violation.
        violation: f64,
        /// The violated limits, one sentence.
        reason: String,
    },
    /// The limits of the study changed after a trial was complete: its metrics are compared with
    /// the present ones.
    LimitsJudged {
        /// The total violation, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        violation: Option<f64>,
        /// The trial's reason now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// From here on decisions may use the results of a trial's turn on a slot; written if decisions
    /// must not depend on timing (`deterministic = true`).
    ResultsKnown,
}

/// Changes of the state of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StateEvent {
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
    /// A trial failed to continue past its end: what it reported since counts for nothing, and its
    /// reports are those from before.
    #[serde(rename = "trial_restored")]
    Restored,
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
}

/// What the program of a trial or of a tracked run records beside its reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RecordEvent {
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
    /// A trial or tracked run recorded summary values; equal names are replaced.
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
}

/// Notes and tags of users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EntryEvent {
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

macro_rules! from_groups {
    ($($group:ident: $of:ident),*) => {
        $(impl From<$of> for TrialEvent {
            fn from(event: $of) -> TrialEvent {
                TrialEvent::$group(event)
            }
        })*
    };
}

from_groups!(
    Proposal: ProposalEvent, Attempt: AttemptEvent, Checkpoint: CheckpointEvent,
    Decision: DecisionEvent, State: StateEvent, Record: RecordEvent, Entry: EntryEvent
);

impl AttemptEvent {
    /// A report of which nothing is late.
    pub fn reported(attempt: AttemptNumber, step: u64, metrics: Metrics) -> AttemptEvent {
        AttemptEvent::Reported { attempt, step, metrics, late: BTreeSet::new() }
    }
}

impl TrialEvent {
    /// A new trial of which nothing is predicted.
    pub fn created(params: Params, origin: Origin) -> TrialEvent {
        TrialEvent::Proposal(ProposalEvent::TrialCreated { params, origin, predicted: Vec::new() })
    }

    /// The end of a trial of a study of one objective.
    pub fn finished(state: TrialState, value: Option<f64>, reason: Option<String>) -> TrialEvent {
        TrialEvent::State(StateEvent::Finished { state, value, values: Vec::new(), reason })
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
