//! Entries of a journal for screens and pages: an event in words, and how much it matters.

use serde::{Serialize, Serializer};

use super::journal::said;
use super::wording::one_line;
use crate::study::decision::Decision;
use crate::study::event::{
    AttemptEnd, AttemptEvent, DecisionEvent, Event, FinalistsEvent, RecordEvent, RunnerEvent, Seq,
    StateEvent, StudyEvent, TrialEvent,
};
use crate::study::request::RequestAnswer;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};

/// What an entry is about, and how much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Reports and what else is many: hidden unless asked for.
    Report,
    /// Of little interest.
    Quiet,
    /// What a person wants to know.
    Plain,
    /// A trial is in this state now.
    Now(TrialState),
    /// About the study as a whole.
    Study,
}

impl EntryKind {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            EntryKind::Report => "report",
            EntryKind::Quiet => "quiet",
            EntryKind::Plain => "plain",
            EntryKind::Now(state) => state.as_str(),
            EntryKind::Study => "study",
        }
    }
}

impl Serialize for EntryKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_str().serialize(serializer)
    }
}

/// An event in words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JournalEntry {
    /// Its place in the journal.
    pub seq: Seq,
    /// When it happened, in microseconds since 1970 (UTC).
    pub at: Timestamp,
    /// The trial it is about; `None`: the study.
    pub trial: Option<TrialNumber>,
    /// How much it matters.
    pub kind: EntryKind,
    /// What happened.
    pub text: String,
    /// The request that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<i64>,
}

impl JournalEntry {
    /// The words for an event, without the state of its study.
    pub fn new((seq, at, event): &(Seq, Timestamp, Event), step_unit: StepUnit) -> Self {
        let text = one_line(&said(event, step_unit, None, false));
        let request = if let Event::Study(StudyEvent::RequestServed { id, .. }) = event {
            Some(*id)
        } else {
            None
        };
        JournalEntry { seq: *seq, at: *at, trial: event.trial(), kind: kind(event), text, request }
    }
}

/// How much an event matters.
fn kind(event: &Event) -> EntryKind {
    use EntryKind::{Now, Plain, Quiet, Report, Study};
    match event {
        Event::Runner(RunnerEvent::Described { .. })
        | Event::Study(StudyEvent::RequestServed { answer: RequestAnswer::Done(_), .. }) => Quiet,
        Event::Study(StudyEvent::Tagged { .. })
        | Event::Finalists(FinalistsEvent::Dropped { .. } | FinalistsEvent::Tested { .. }) => Plain,
        Event::Runner(_) | Event::Study(_) | Event::Finalists(_) | Event::Device(_) => Study,
        Event::Trial(_, event) => match event {
            TrialEvent::Attempt(event) => match event {
                AttemptEvent::Started { .. } => Now(TrialState::Running),
                AttemptEvent::Ended { end: AttemptEnd::Failed(_), .. } => Now(TrialState::Failed),
                AttemptEvent::Ended { .. } => Quiet,
                AttemptEvent::Launched { .. } | AttemptEvent::Reported { .. } => Report,
                AttemptEvent::Remarked { .. } => Plain,
            },
            TrialEvent::Decision(event) => match event {
                DecisionEvent::Decided { verdict: Decision::Pause(_), .. } => {
                    Now(TrialState::Paused)
                }
                DecisionEvent::Decided { verdict: Decision::Stop(_), .. } => {
                    Now(TrialState::Pruned)
                }
                DecisionEvent::Decided { verdict: Decision::Continue(_), .. }
                | DecisionEvent::ResultsKnown => Quiet,
                DecisionEvent::LimitsBroken { .. } | DecisionEvent::LimitsJudged { .. } => Plain,
            },
            TrialEvent::State(event) => match event {
                StateEvent::Paused { .. } => Now(TrialState::Paused),
                StateEvent::Finished { state, .. } => Now(*state),
                StateEvent::Queued { .. }
                | StateEvent::Cloned { .. }
                | StateEvent::Held { .. }
                | StateEvent::Continued { .. }
                | StateEvent::Hidden
                | StateEvent::Restored
                | StateEvent::Removed { .. } => Plain,
            },
            TrialEvent::Record(event) => match event {
                RecordEvent::ArtifactSaved { .. } => Report,
                RecordEvent::ParamsRecorded { .. }
                | RecordEvent::ParamsDropped { .. }
                | RecordEvent::SummaryRecorded { .. }
                | RecordEvent::SpoolRead { .. } => Plain,
            },
            TrialEvent::Proposal(_) | TrialEvent::Entry(_) => Plain,
            TrialEvent::Checkpoint(_) => Report,
        },
    }
}
