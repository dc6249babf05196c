//! Attempts, runners, agents, requests and remarks as a store has them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::study::device::Slot;
use crate::study::event::{
    AgentChange, AttemptEnd, AttemptEvent, DeviceEvent, Event, Seq, TrialEvent,
};
use crate::study::provenance::{AgentProvenance, Provenance};
use crate::study::remark::RemarkKind;
use crate::study::request::Request;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The summary values of trials, by number and name.
pub type Summaries = BTreeMap<TrialNumber, BTreeMap<String, serde_json::Value>>;

/// One attempt as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Number of the trial's attempt, from 0.
    pub attempt: AttemptNumber,
    /// The slot of the attempt.
    pub slot: Slot,
    /// Step and path of the checkpoint that it continued from.
    pub resume: Option<(u64, PathBuf)>,
    /// The step at which it pauses.
    pub until: Option<u64>,
    /// Its process id and that process's start time, once known.
    pub process: Option<(u32, u64)>,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub end: Option<AttemptEnd>,
    /// The reason, one sentence.
    pub reason: Option<String>,
    /// The start event of its runner; `None` in stores that did not record it.
    pub runner: Option<Seq>,
}

/// A process that ran a study.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRunner {
    /// Its start event.
    pub seq: Seq,
    /// Its process id.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Its slots at the end.
    pub slots: Vec<Slot>,
    /// When it began.
    pub started: Timestamp,
    /// When it exited; `None`: it runs, or was killed.
    pub stopped: Option<Timestamp>,
    /// Its running time in microseconds, once it has exited.
    pub ran_micros: Option<i64>,
    /// Why it exited.
    pub reason: Option<String>,
    /// What its results depend on; `None` if the version that wrote it did not record it.
    pub provenance: Option<Provenance>,
}

/// A position in a study's outcomes up to which a reader has read; the default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCursor {
    /// The last event read: the journal is ordered by commits, independently of clocks.
    pub(in crate::storage) seq: Seq,
    /// The revision read: with another metric, the last reports differ.
    pub(in crate::storage) revision: i64,
}

/// The reports of one trial: ascending steps and values.
pub type TrialCurve = (TrialNumber, Vec<(u64, f64)>);

/// A request with its key.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRequest {
    /// Its key.
    pub id: i64,
    /// The request.
    pub request: Request,
}

/// An agent that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAgent {
    /// Its name.
    pub name: String,
    /// When it came, to a runner.
    pub joined: Timestamp,
    /// Its machine.
    pub provenance: AgentProvenance,
}

impl StoredAgent {
    /// The agent of an event of this time, if it came then.
    pub fn of(at: Timestamp, event: Event) -> Option<StoredAgent> {
        let Event::Device(DeviceEvent::AgentChanged { agent: name, change }) = event else {
            return None;
        };
        let AgentChange::Joined { provenance: Some(provenance), .. } = change else { return None };
        Some(StoredAgent { name, joined: at, provenance: *provenance })
    }

    /// The one among `agents`, in order, that ran an attempt.
    pub fn that_ran<'a>(agents: &'a [StoredAgent], attempt: &Attempt) -> Option<&'a StoredAgent> {
        let name = attempt.slot.devices.agent()?;
        agents.iter().rfind(|agent| agent.name == name && agent.joined <= attempt.started)
    }
}

/// A remark on the lines of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remarked {
    /// Number of the trial's attempt, from 0.
    pub attempt: AttemptNumber,
    /// Its kind.
    pub kind: RemarkKind,
    /// One sentence.
    pub text: String,
    /// How often it occurred.
    pub count: u64,
}

impl Remarked {
    /// The remark of an event, if it is one.
    pub fn of(event: Event) -> Option<Remarked> {
        match event {
            Event::Trial(
                _,
                TrialEvent::Attempt(AttemptEvent::Remarked { attempt, kind, text, count, .. }),
            ) => Some(Remarked { attempt, kind, text, count }),
            _ => None,
        }
    }

    /// One remark of each kind and attempt, in order of first occurrence; the remark at an
    /// attempt's end has the count.
    pub fn taken_together(remarks: impl IntoIterator<Item = Remarked>) -> Vec<Remarked> {
        let mut kept: Vec<Remarked> = Vec::new();
        for remark in remarks {
            match kept
                .iter_mut()
                .find(|known| (known.attempt, known.kind) == (remark.attempt, remark.kind))
            {
                Some(known) => *known = remark,
                None => kept.push(remark),
            }
        }
        kept
    }
}

/// A disagreement between a stored series and its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesFault {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// The table.
    pub table: &'static str,
    /// The series, and the chunk if the column is a chunk's.
    pub row: String,
    /// The column.
    pub field: String,
    /// The stored value.
    pub stored: String,
    /// The value computed from its points.
    pub now: String,
}
