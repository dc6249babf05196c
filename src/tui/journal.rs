//! The journal as lines for people: read from its end, and followed.

use std::sync::Arc;

use crate::report::journal_entry::{EntryKind, JournalEntry};
use crate::storage::{StorageError, StorageReader, StudyId};
use crate::study::event::Seq;
use crate::study::step::StepUnit;
use crate::study::trial::TrialNumber;

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
        step_unit: StepUnit,
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
            entries.extend(events.iter().map(|event| JournalEntry::new(event, step_unit)));
            if entries.len() as u64 > 2 * KEPT {
                entries.drain(..entries.len() / 2);
                self.cut = true;
            }
        }
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
    use crate::study::event::{Event, StudyEvent};
    use crate::study::time::Timestamp;

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
