//! The journal as lines for people: read from its end, and followed.

use std::sync::Arc;

use crate::report::journal::said;
use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudyId};
use crate::study::decision::Decision;
use crate::study::event::{
    AttemptEnd, Event, FinalistsEvent, RunnerEvent, Seq, StudyEvent, TrialEvent,
};
use crate::study::request::Answer;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};

/// How an entry is coloured.
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

/// An event in words.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// Its place in the journal.
    pub seq: Seq,
    /// Time of it.
    pub at: Timestamp,
    /// The trial it is about; `None`: the study.
    pub trial: Option<TrialNumber>,
    /// How much it matters.
    pub kind: EntryKind,
    /// What happened.
    pub text: String,
    /// The request that it answers.
    pub request: Option<i64>,
}

/// The last entries of a journal, caught up on demand.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    read: Option<Seq>,
    /// Whether there are entries before these.
    pub cut: bool,
    /// Oldest first.
    pub entries: Arc<Vec<JournalEntry>>,
}

/// So many of the last events are read at first, and about so many entries are kept.
const KEPT: u64 = 20_000;
/// Events read at once.
const PAGE: u64 = 2_000;

impl Journal {
    /// Reads what was added.
    pub fn catch_up(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
        clock: StepUnit,
    ) -> Result<(), StorageError> {
        loop {
            let events = match self.read {
                Some(read) => reader.events_after(study, read, PAGE)?,
                None => reader.events_before(study, Seq(i64::MAX), KEPT)?,
            };
            let Some((last, ..)) = events.last() else { return Ok(()) };
            if self.read.replace(*last).is_none() {
                self.cut = events[0].0 > Seq(1);
            }
            let entries = Arc::make_mut(&mut self.entries);
            entries.extend(events.iter().map(|(seq, at, event)| entry(*seq, *at, event, clock)));
            if entries.len() as u64 > 2 * KEPT {
                entries.drain(..entries.len() / 2);
                self.cut = true;
            }
        }
    }
}

fn entry(seq: Seq, at: Timestamp, event: &Event, clock: StepUnit) -> JournalEntry {
    let text = one_line(&said(event, clock, None, false));
    let request = if let Event::Study(StudyEvent::RequestServed { id, .. }) = event {
        Some(*id)
    } else {
        None
    };
    JournalEntry { seq, at, trial: event.trial(), kind: kind(event), text, request }
}

/// How much an event matters.
fn kind(event: &Event) -> EntryKind {
    use EntryKind::{Now, Plain, Quiet, Report, Study};
    match event {
        Event::Runner(RunnerEvent::Described { .. })
        | Event::Study(StudyEvent::RequestServed { answer: Answer::Done(_), .. }) => Quiet,
        Event::Study(StudyEvent::Tagged { .. })
        | Event::Finalists(FinalistsEvent::Dropped { .. } | FinalistsEvent::Tested { .. }) => Plain,
        Event::Runner(_) | Event::Study(_) | Event::Finalists(_) | Event::Device(_) => Study,
        Event::Trial(_, event) => match event {
            TrialEvent::AttemptStarted { .. } => Now(TrialState::Running),
            TrialEvent::Decided { verdict: Decision::Pause(_), .. } | TrialEvent::Paused { .. } => {
                Now(TrialState::Paused)
            }
            TrialEvent::Decided { verdict: Decision::Stop(_), .. } => Now(TrialState::Pruned),
            TrialEvent::AttemptEnded { end: AttemptEnd::Failed(_), .. } => Now(TrialState::Failed),
            TrialEvent::Finished { state, .. } => Now(*state),
            TrialEvent::Decided { verdict: Decision::Continue(_), .. }
            | TrialEvent::AttemptEnded { .. }
            | TrialEvent::ResultsKnown => Quiet,
            TrialEvent::AttemptLaunched { .. }
            | TrialEvent::Reported { .. }
            | TrialEvent::CheckpointSaved { .. }
            | TrialEvent::CheckpointDropped { .. }
            | TrialEvent::ArtifactSaved { .. } => Report,
            TrialEvent::Created { .. }
            | TrialEvent::Remarked { .. }
            | TrialEvent::Queued { .. }
            | TrialEvent::Held { .. }
            | TrialEvent::Continued { .. }
            | TrialEvent::LimitsBroken { .. }
            | TrialEvent::Hidden
            | TrialEvent::Removed { .. }
            | TrialEvent::ConfigurationsSkipped { .. }
            | TrialEvent::ParamsRecorded { .. }
            | TrialEvent::ParamsDropped { .. }
            | TrialEvent::SummaryRecorded { .. }
            | TrialEvent::SpoolRead { .. }
            | TrialEvent::Noted { .. }
            | TrialEvent::Tagged { .. } => Plain,
        },
    }
}

/// What the person sees of the journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalView {
    /// Lines between the last one and the bottom of the screen; 0 follows.
    pub below: usize,
    /// Whether reports are shown.
    pub reports: bool,
    /// Only entries that hold this text.
    pub text: String,
}

impl JournalView {
    /// The entries that are shown, oldest first.
    pub fn shown<'a>(&self, entries: &'a [JournalEntry]) -> Vec<&'a JournalEntry> {
        // As many spaces as one likes: columns stand apart on the screen.
        let text = self.text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        // `5` and `trial 5` are that trial, not the fiftieth too.
        let number: Option<u64> = text.strip_prefix("trial ").unwrap_or(&text).parse().ok();
        let holds = |entry: &JournalEntry| {
            let said = entry.text.to_lowercase();
            let about = |trial: TrialNumber| {
                Some(trial.0) == number
                    || (number.is_none() && format!("trial {trial} {said}").contains(&text))
            };
            text.is_empty() || said.contains(&text) || entry.trial.is_some_and(about)
        };
        entries
            .iter()
            .filter(|entry| (self.reports || entry.kind != EntryKind::Report) && holds(entry))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    #[test]
    fn only_the_end_of_a_long_journal_is_read_and_then_what_is_added() {
        let mut script = crate::tui::tests::mixed();
        for step in 9..KEPT + 2_000 {
            script.report_at(5, step, 0.5);
        }
        let mut journal = Journal::default();
        journal.catch_up(&script.store, script.study, StepUnit::Epoch).unwrap();
        assert!(journal.cut && journal.entries.len() as u64 <= KEPT, "{}", journal.entries.len());
        let before = journal.entries.clone();
        let lease = script.lease.clone();
        let event = Event::Study(StudyEvent::Reopened { reason: "more \u{1b}[2J".into() });
        script.store.append(&lease, Timestamp(0), &[event]).unwrap();
        journal.catch_up(&script.store, script.study, StepUnit::Epoch).unwrap();
        assert_eq!(journal.entries.len(), before.len() + 1);
        assert_eq!(journal.entries.last().unwrap().text, "the study continues: more  [2J");
    }

    #[test]
    fn a_short_journal_is_read_from_its_beginning() {
        let script = crate::tui::tests::mixed();
        let mut journal = Journal::default();
        journal.catch_up(&script.store, script.study, StepUnit::Epoch).unwrap();
        assert!(!journal.cut);
        assert_eq!(journal.entries[0].seq, Seq(1));
        let view = JournalView { text: "RANK 3".into(), ..JournalView::default() };
        assert_eq!(view.shown(&journal.entries).len(), 3);
    }

    #[test]
    fn what_stands_in_a_row_is_found_with_its_trial() {
        let entry = |trial: u64, text: &str| JournalEntry {
            seq: Seq(1),
            at: Timestamp(0),
            trial: Some(TrialNumber(trial)),
            kind: EntryKind::Plain,
            text: text.to_owned(),
            request: None,
        };
        let entries = [
            entry(5, "starts on cpu"),
            entry(50, "starts on cpu"),
            entry(5, "queued again: lost"),
            entry(7, "from step 10"),
        ];
        for (text, found) in [
            ("trial 5", 2),
            ("Trial  5 starts", 1),
            ("5", 2),
            ("trial 50", 1),
            ("trial", 4),
            ("trial 6", 0),
            ("step 10", 1),
            ("trial 7 f", 1),
        ] {
            let view = JournalView { text: text.to_owned(), ..JournalView::default() };
            assert_eq!(view.shown(&entries).len(), found, "{text}");
        }
    }
}
