//! The journal as lines for people: read from its end, and followed.

use std::sync::Arc;

use crate::report::wording::{
    attempt_end, count, disk_exceeded, extension, micros, number, one_line, param, passed_over,
    remarked, rough_duration, slots,
};
use crate::storage::{StorageError, StorageReader, StudyId};
use crate::study::decision::Verdict;
use crate::study::event::{Answer, AttemptEnd, Event, Seq};
use crate::study::spec::StepClock;
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, TrialNumber, TrialState};

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
    /// When.
    pub at: Timestamp,
    /// About which trial.
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

/// So many places of the journal are read at first, and so many entries are kept.
const KEPT: usize = 20_000;
/// Events read at once.
const PAGE: u64 = 2_000;

impl Journal {
    /// Reads what was added.
    pub fn catch_up(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
        clock: StepClock,
    ) -> Result<(), StorageError> {
        let mut after = match self.read {
            Some(read) => read,
            None => {
                let begin = Seq((last(reader, study)?.0 - i64::try_from(KEPT).unwrap_or(0)).max(0));
                self.cut = begin > Seq(0);
                begin
            }
        };
        loop {
            let events = reader.events_after(study, after, PAGE)?;
            let Some((seq, ..)) = events.last() else {
                self.read = Some(after);
                return Ok(());
            };
            after = *seq;
            let entries = Arc::make_mut(&mut self.entries);
            entries.extend(events.iter().map(|(seq, at, event)| entry(*seq, *at, event, clock)));
            if entries.len() > 2 * KEPT {
                entries.drain(..entries.len() - KEPT);
                self.cut = true;
            }
        }
    }
}

/// The last place of the study in the journal, found by halving: a journal is only read forwards.
fn last(reader: &dyn StorageReader, study: StudyId) -> Result<Seq, StorageError> {
    let goes_on =
        |seq: i64| reader.events_after(study, Seq(seq), 1).map(|events| !events.is_empty());
    let mut beyond = 1;
    while goes_on(beyond)? {
        beyond *= 2;
    }
    let mut before = beyond / 2;
    while beyond - before > 1 {
        let middle = before + (beyond - before) / 2;
        if goes_on(middle)? {
            before = middle;
        } else {
            beyond = middle;
        }
    }
    Ok(Seq(beyond))
}

fn entry(seq: Seq, at: Timestamp, event: &Event, clock: StepClock) -> JournalEntry {
    let (kind, text) = said(event, clock.as_str());
    let request = if let Event::RequestServed { id, .. } = event { Some(*id) } else { None };
    JournalEntry { seq, at, trial: event.trial(), kind, text: one_line(&text), request }
}

/// What happened, without the trial's number, which stands before it.
fn said(event: &Event, clock: &str) -> (EntryKind, String) {
    use EntryKind::{Now, Plain, Quiet, Report, Study};
    match event {
        Event::RunnerStarted { pid, host, slots } => {
            let mut devices: Vec<String> =
                slots.iter().map(|slot| slot.device.to_string()).collect();
            devices.dedup();
            (
                Study,
                format!(
                    "runner {pid} on {host} takes the study up: {} on {}",
                    count(slots.len() as u64, "slot"),
                    devices.join(", ")
                ),
            )
        }
        Event::RunnerDescribed { lineage } => (
            Quiet,
            format!("it is hpsearch {} on {}", lineage.hpsearch.version, lineage.machine.system),
        ),
        Event::ResultsKnown { .. } => {
            (Quiet, "its results are known to decisions from here on".to_owned())
        }
        Event::RaceBegun { finalists } => {
            let finalists: Vec<String> = finalists.iter().map(ToString::to_string).collect();
            (Study, format!("the race begins: {} run again on fresh seeds", finalists.join(", ")))
        }
        Event::RaceDropped { reason, .. } => (Plain, format!("leaves the race: {reason}")),
        Event::RaceWon { reason, .. } => (Study, format!("wins the race: {reason}")),
        Event::WinnerTested { metrics, .. } => {
            let pairs: Vec<String> =
                metrics.iter().map(|(name, value)| format!("{name}={}", number(value))).collect();
            (Plain, format!("measured on the test split: {}", pairs.join(" ")))
        }
        Event::RunnerStopped { reason, ran_micros, .. } => (
            Study,
            format!("runner leaves after {}: {reason}", rough_duration(micros(*ran_micros))),
        ),
        Event::TrialCreated { params, origin, .. } => {
            let pairs: Vec<String> =
                params.iter().map(|(name, value)| format!("{name}={}", param(value))).collect();
            (Plain, format!("{}: {}", proposed(origin), pairs.join(" ")))
        }
        Event::AttemptStarted { attempt, slot, resume, until, rows_at_once, .. } => {
            let resumed = resume
                .as_ref()
                .map(|(step, _)| format!(" from {clock} {step}"))
                .unwrap_or_default();
            let until = until.map(|until| format!(" up to {clock} {until}")).unwrap_or_default();
            let again = if attempt.0 > 0 { format!(", attempt {attempt}") } else { String::new() };
            let rows =
                rows_at_once.map(|rows| format!(", rows at once: {rows}")).unwrap_or_default();
            (
                Now(TrialState::Running),
                format!("starts on {}{resumed}{until}{again}{rows}", slot.device),
            )
        }
        Event::AttemptLaunched { pid, .. } => (Report, format!("is process {pid}")),
        Event::Reported { step, metrics, .. } => {
            let pairs: Vec<String> =
                metrics.iter().map(|(name, value)| format!("{name}={}", number(value))).collect();
            (Report, format!("{clock} {step}: {}", pairs.join(" ")))
        }
        Event::Remarked { text, count, .. } => (Plain, remarked(text, *count)),
        Event::Decided { step, verdict, .. } => {
            let reason = verdict.reason().map(|reason| format!(": {reason}")).unwrap_or_default();
            let kind = match verdict {
                Verdict::Continue(_) => Quiet,
                Verdict::Pause(_) => Now(TrialState::Paused),
                Verdict::Stop(_) => Now(TrialState::Pruned),
            };
            (kind, format!("{clock} {step}: {}{reason}", verdict.word()))
        }
        Event::CheckpointSaved { step, .. } => {
            (Report, format!("saved a checkpoint at {clock} {step}"))
        }
        Event::CheckpointDropped { .. } => (Report, "a checkpoint is no longer needed".to_owned()),
        Event::AttemptEnded { end: AttemptEnd::Failed(cause), reason, .. } => {
            let end = attempt_end(Some(&AttemptEnd::Failed(*cause)));
            (Now(TrialState::Failed), format!("attempt {end}{}", because(reason.as_deref())))
        }
        Event::AttemptEnded { end, .. } => (Quiet, format!("attempt {}", attempt_end(Some(end)))),
        Event::TrialQueued { reason, .. } => (Plain, format!("queued again: {reason}")),
        Event::TrialPaused { reason, .. } => (Now(TrialState::Paused), format!("paused: {reason}")),
        Event::TrialFinished { state, value, reason, .. } => {
            let value = value.map(|value| format!(" with {}", number(value))).unwrap_or_default();
            (Now(*state), format!("{}{value}{}", state.as_str(), because(reason.as_deref())))
        }
        Event::LimitsBroken { reason, .. } => (Plain, format!("breaks limits: {reason}")),
        Event::StudyFinished { reason } => (Study, format!("the study is finished: {reason}")),
        Event::StudyReopened { reason } => (Study, format!("the study goes on: {reason}")),
        Event::TrialHeld { hold: Some(_), .. } => {
            (Plain, "is to pause: it saves and leaves".to_owned())
        }
        Event::TrialHeld { hold: None, .. } => (Plain, "need not pause any more".to_owned()),
        Event::TrialContinued { until, from, .. } => {
            (Plain, format!("was {}, goes on up to {clock} {until}", from.as_str()))
        }
        Event::StudyPaused { reason } => (Study, format!("the study is paused: {reason}")),
        Event::StudyResumed { reason } => (Study, format!("the study is resumed: {reason}")),
        Event::BudgetExtended { by } => {
            (Study, format!("the budget is raised by {}", extension(*by)))
        }
        Event::DevicePaused { device } => {
            (Study, format!("{device} is paused: nothing is started there"))
        }
        Event::DeviceResumed { device } => (Study, format!("{device} is resumed")),
        Event::Packed { device, slots, reason, .. } => {
            (Study, format!("{slots} at a time on {device}: {reason}"))
        }
        Event::PassedOver { points, reason, .. } => (Plain, passed_over(*points, reason)),
        Event::SlotsChanged { slots: now } => (Study, format!("the study has {} now", slots(now))),
        Event::DiskExceeded { bytes, limit } => (Study, disk_exceeded(*bytes, *limit)),
        Event::Noted { trial: Some(_), text } => (Plain, format!("note: {text}")),
        Event::Noted { trial: None, text } => (Study, format!("note: {text}")),
        Event::Tagged { tag, present, .. } => (
            Plain,
            if *present { format!("tagged `{tag}`") } else { format!("no longer tagged `{tag}`") },
        ),
        Event::RequestServed { answer: Answer::Done(said), .. } => (Quiet, format!("done: {said}")),
        Event::RequestServed { answer: Answer::Refused(why), .. } => {
            (Study, format!("refused: {why}"))
        }
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
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

/// Where a trial's parameters came from, in words.
pub fn proposed(origin: &Origin) -> String {
    match origin {
        Origin::Sampled(sampler) => format!("proposed by {}", one_line(sampler)),
        Origin::Enqueued(index) => format!("enqueued as number {index}"),
        Origin::Asked => "enqueued on request".to_owned(),
        Origin::Replicate(of) => format!("trial {of} on another seed"),
        Origin::Repeat(of) => format!("proposed again, as trial {of}"),
        Origin::Race { of, round, .. } => format!("trial {of} in round {} of the race", round + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage;

    #[test]
    fn only_the_end_of_a_long_journal_is_read_and_then_what_is_added() {
        let mut script = crate::tui::tests::mixed();
        for step in 9..KEPT as u64 + 2_000 {
            script.report_at(5, step, 0.5);
        }
        let mut journal = Journal::default();
        journal.catch_up(&script.store, script.study, StepClock::Epoch).unwrap();
        assert!(journal.cut && journal.entries.len() <= KEPT, "{}", journal.entries.len());
        let before = journal.entries.clone();
        let lease = script.lease.clone();
        let event = Event::StudyReopened { reason: "more \u{1b}[2J".into() };
        script.store.append(&lease, Timestamp(0), &[event]).unwrap();
        journal.catch_up(&script.store, script.study, StepClock::Epoch).unwrap();
        assert_eq!(journal.entries.len(), before.len() + 1);
        assert_eq!(journal.entries.last().unwrap().text, "the study goes on: more  [2J");
    }

    #[test]
    fn a_short_journal_is_read_from_its_beginning() {
        let script = crate::tui::tests::mixed();
        let mut journal = Journal::default();
        journal.catch_up(&script.store, script.study, StepClock::Epoch).unwrap();
        assert!(!journal.cut);
        assert_eq!(journal.entries[0].seq, Seq(1));
        let view = JournalView { text: "RANK 3".into(), ..JournalView::default() };
        assert_eq!(view.shown(&journal.entries).len(), 2);
    }

    #[test]
    fn what_stands_in_a_row_is_found_with_its_trial() {
        let entry = |trial: u64, text: &str| {
            let (seq, at) = (Seq(1), Timestamp(0));
            JournalEntry {
                seq,
                at,
                trial: Some(TrialNumber(trial)),
                kind: EntryKind::Plain,
                text: text.to_owned(),
                request: None,
            }
        };
        let entries = [
            entry(5, "starts on cpu"),
            entry(50, "starts on cpu"),
            entry(5, "queued again: lost"),
            entry(7, "from step 10"),
        ];
        let found = |text: &str| {
            JournalView { text: text.to_owned(), ..JournalView::default() }.shown(&entries).len()
        };
        assert_eq!(
            [
                "trial 5",
                "Trial  5 starts",
                "5",
                "trial 50",
                "trial",
                "trial 6",
                "step 10",
                "trial 7 f"
            ]
            .map(found),
            [2, 1, 2, 1, 4, 0, 1, 1]
        );
    }
}
