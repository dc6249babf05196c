//! Copies a study to another store: its journal is written again there, with its times, and the
//! result is compared with the original.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::AppError;
use super::error::Namesake;
use crate::engine::verify::StoredEvent;
use crate::runner::ownership::note_copy;
use crate::runner::{self, OwnLease, take_lease_of_any};
use crate::storage::address::absolute;
use crate::storage::any::AnyStore;
use crate::storage::{
    Storage as _, StorageError, StorageReader, StoredStudy, StudyId, StudySummary,
};
use crate::study::event::{Event, RecordEvent, RunnerEvent, Seq, TrialEvent};
use crate::study::series::{LoggedPoint, LoggedSeries, Point, SeriesSummary};
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};
use crate::tracking::settle_dead;

/// Number of events in a transaction.
const EVENTS: usize = 1000;

type NewestAttempts = BTreeMap<TrialNumber, AttemptNumber>;

/// Before the name of a study whose copy is not whole: names begin with a letter or digit.
pub const UNFINISHED: &str = ".copy-of-";

/// All steps of a series.
const ALL: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;

/// Length of a digest in hexadecimal digits.
const DIGEST: usize = 64;

/// What a copy has changed in the other store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// The study is new there.
    #[default]
    Added,
    /// A copy that lacked the newest events was replaced.
    Updated,
    /// Nothing: the same study was there.
    None,
}

/// What was copied.
#[derive(Debug, Default)]
pub struct Copied {
    /// What has changed there.
    pub change: Change,
    /// Number of copied trials.
    pub trials: u64,
    /// Entries of the journal.
    pub events: u64,
    /// Number of copied series.
    pub series: u64,
    /// Directories of files that could not be marked as needed by the copy, and why.
    pub unmarked: Vec<(PathBuf, io::Error)>,
}

/// Copies a study that no process runs. Files of trials stay where they are: the copy has the
/// absolute paths of checkpoints. `to` is opened if it is `None`, once nothing of the original
/// refuses the copy. Requests that wait for a runner are not copied. Until all is there and
/// compared, the copy is called [`UNFINISHED`] and the study's name; the next one replaces it. Then
/// an earlier copy is replaced, unless something was added to it there. Before all that the
/// directories of files are marked as shared with the other store, so that the removal of the
/// original leaves what the copy needs.
///
/// # Errors
/// A process runs it; the other store has a study of its name that is no copy, or one that has gone
/// on; runs were removed from it; a store failed; the copy differs, and is removed again.
pub fn copy_study(
    (from, from_path): (&mut AnyStore, &Path),
    study: &StudySummary,
    (to, to_path): (&mut Option<AnyStore>, &Path),
) -> Result<Copied, AppError> {
    if from.removed_runs()?.iter().any(|removed| removed.study == study.id) {
        return Err(AppError::CopyOfRemoved { study: study.spec.name.clone() });
    }
    if study.spec.is_tracked() {
        settle_dead(from, study.id, &study.spec)?;
    }
    // Held, so that nothing is written to it meanwhile.
    let stored = study.clone().stored();
    let mut held = take_lease_of_any(from, &stored)?;
    let copied = opened(to, to_path).and_then(|to| {
        let journal = from.events_after(stored.id, Seq(0), u64::MAX)?;
        let mut copy = Copy { from, study: stored, to, to_path, held: &mut held };
        let earlier = copy.earlier(&journal)?;
        if let Some(earlier) = earlier.as_ref().filter(|earlier| copy.is_whole(earlier, &journal)) {
            let trials = copy.to.summary(earlier.id)?.counts.total();
            let (change, events) = (Change::None, journal.len() as u64);
            return Ok(Copied { change, trials, events, ..Copied::default() });
        }
        let unmarked = note_in_marks((copy.from, from_path), &copy.study, (copy.to, to_path))?;
        let copied = copy.run(&journal, earlier.is_some())?;
        Ok(Copied { unmarked, ..copied })
    });
    from.release(&held)?;
    copied
}

/// The other store, which is opened once, and created if it is missing.
fn opened<'a>(to: &'a mut Option<AnyStore>, path: &Path) -> Result<&'a mut AnyStore, AppError> {
    match to {
        Some(to) => Ok(to),
        None => Ok(to.insert(AnyStore::open(path)?)),
    }
}

/// Marks the directories of a study's files; returns those that cannot be marked.
fn note_in_marks(
    (from, from_path): (&AnyStore, &Path),
    study: &StoredStudy,
    (to, to_path): (&AnyStore, &Path),
) -> Result<Vec<(PathBuf, io::Error)>, AppError> {
    let Some(id) = to.identity()? else { return Ok(Vec::new()) };
    let (from_path, to_path) = (absolute(from_path)?, absolute(to_path)?);
    Ok(note_copy(from, study, &from_path, (&id, &to_path))?)
}

struct Copy<'a> {
    from: &'a mut AnyStore,
    study: StoredStudy,
    to: &'a mut AnyStore,
    to_path: &'a Path,
    /// The lease on the original.
    held: &'a mut OwnLease,
}

impl Copy<'_> {
    /// An earlier copy in the other store, whose journal is the beginning of the original's.
    fn earlier(&self, journal: &[StoredEvent]) -> Result<Option<StoredStudy>, AppError> {
        let name = &self.study.spec.name;
        let Some(there) = self.to.study(name)? else { return Ok(None) };
        let copied = self.to.events_after(there.id, Seq(0), u64::MAX)?;
        let is_copied = |(one, other): (&StoredEvent, &StoredEvent)| {
            one.1 == other.1 && is_same_event(&one.2, &other.2)
        };
        let same = journal.iter().zip(&copied).take_while(|pair| is_copied(*pair)).count();
        if there.created == self.study.created && same == copied.len() {
            return Ok(Some(there));
        }
        let is_copy = there.created == self.study.created && (same > 0 || journal.is_empty());
        let namesake = if is_copy { Namesake::ContinuedCopy } else { Namesake::Other };
        let (study, store) = (name.clone(), self.to_path.to_owned());
        Err(AppError::CopyExists { study, store, namesake })
    }

    /// Whether an earlier copy is the same as the original now.
    fn is_whole(&self, earlier: &StoredStudy, journal: &[StoredEvent]) -> bool {
        earlier.spec == self.study.spec
            && self
                .series()
                .is_ok_and(|(series, _)| self.compare(earlier.id, journal, &series).is_ok())
    }

    fn run(&mut self, journal: &[StoredEvent], is_there: bool) -> Result<Copied, AppError> {
        let revisions = self.from.revisions(self.study.id)?;
        let Some(((_, first), later)) = revisions.split_first() else {
            let why = "it has no specification".to_owned();
            let place = format!("table `study_revision`, study {}", self.study.id.0);
            return Err(StorageError::Corrupt { place, why }.into());
        };
        // What is not whole has another name, that no study can have.
        self.remove_unfinished()?;
        let spec = StudySpec { name: self.draft(), ..first.clone() };
        let id = self.to.create_study(self.study.created, &spec)?;
        let stored = StoredStudy { id, spec, directory: None, ..self.study.clone() };
        let mut lease = take_lease_of_any(self.to, &stored)?;
        let written = self.write(&mut lease, journal, later).and_then(|series| {
            self.compare(id, journal, &series)?;
            if is_there {
                self.remove_earlier(journal)?;
            }
            // The last revision, with the budget as it was extended after it.
            self.to.update_spec(&lease, self.study.created, &self.study.spec, &[])?;
            let trials = self.to.summary(id)?.counts.total();
            let (events, series) = (journal.len() as u64, series.len() as u64);
            let change = if is_there { Change::Updated } else { Change::Added };
            Ok(Copied { change, trials, events, series, ..Copied::default() })
        });
        match written {
            Ok(copied) => {
                self.to.release(&lease)?;
                Ok(copied)
            }
            Err(error) => {
                self.to.remove_study(&lease, runner::now(), &[])?;
                Err(error)
            }
        }
    }

    /// The name of the copy until it is whole.
    fn draft(&self) -> String {
        format!("{UNFINISHED}{}", self.study.spec.name)
    }

    /// Removes what a copy that was killed has left.
    fn remove_unfinished(&mut self) -> Result<(), StorageError> {
        if let Some(left) = self.to.study(&self.draft())? {
            let lease = take_lease_of_any(self.to, &left)?;
            self.to.remove_study(&lease, runner::now(), &[])?;
        }
        Ok(())
    }

    /// Removes the earlier copy, unless something was added to it meanwhile.
    fn remove_earlier(&mut self, journal: &[StoredEvent]) -> Result<(), AppError> {
        let Some(earlier) = self.earlier(journal)? else { return Ok(()) };
        let lease = take_lease_of_any(self.to, &earlier)?;
        if let Err(error) = self.earlier(journal) {
            self.to.release(&lease)?;
            return Err(error);
        }
        Ok(self.to.remove_study(&lease, runner::now(), &[])?)
    }

    fn keep(&mut self, lease: &mut OwnLease) -> Result<(), StorageError> {
        self.held.keep(self.from)?;
        lease.keep(self.to)
    }

    fn write(
        &mut self,
        lease: &mut OwnLease,
        journal: &[StoredEvent],
        later: &[(Seq, StudySpec)],
    ) -> Result<Vec<SeriesSummary>, AppError> {
        self.write_documents(journal)?;
        self.write_journal(lease, journal, later)?;
        self.write_series(lease)
    }

    /// The texts that the journal refers to by their digests.
    fn write_documents(&mut self, journal: &[StoredEvent]) -> Result<(), AppError> {
        let mut digests: BTreeSet<String> = BTreeSet::new();
        for (_, _, event) in journal {
            let refers = matches!(
                event,
                Event::Runner(RunnerEvent::Described { .. })
                    | Event::Trial(_, TrialEvent::Record(RecordEvent::ArtifactSaved { .. }))
            );
            if refers {
                digests.extend(digests_in(&serde_json::to_string(event)?));
            }
        }
        for digest in digests {
            if let Some(text) = self.from.document(&digest)? {
                self.to.keep_document(&digest, &text)?;
            }
        }
        Ok(())
    }

    fn write_journal(
        &mut self,
        lease: &mut OwnLease,
        journal: &[StoredEvent],
        later: &[(Seq, StudySpec)],
    ) -> Result<(), AppError> {
        let mut later = later.iter().peekable();
        let mut runners: BTreeMap<Seq, Seq> = BTreeMap::new();
        let mut waiting: Vec<(Timestamp, Vec<Event>)> = Vec::new();
        let mut moment = self.study.created;
        let mut entries = journal.iter().peekable();
        while let Some((seq, at, event)) = entries.next() {
            while let Some((_, spec)) = later.next_if(|(before, _)| before < seq) {
                self.flush(lease, &mut waiting)?;
                self.revise(lease, moment, spec)?;
            }
            moment = *at;
            match event {
                Event::Runner(RunnerEvent::Started { .. }) => {
                    self.flush(lease, &mut waiting)?;
                    // Its description follows it directly.
                    let is_described = |(_, then, event): &&StoredEvent| {
                        then == at && matches!(event, Event::Runner(RunnerEvent::Described { .. }))
                    };
                    let described = entries.next_if(is_described);
                    let mut events = vec![event.clone()];
                    events.extend(described.map(|(_, _, event)| event.clone()));
                    let last = self.to.append(lease, *at, &events)?;
                    let first = last.0 + 1 - if described.is_some() { 2 } else { 1 };
                    runners.insert(*seq, Seq(first));
                }
                event => waiting.push((*at, vec![renumbered(event, &runners)])),
            }
            if waiting.len() >= EVENTS {
                self.flush(lease, &mut waiting)?;
            }
        }
        self.flush(lease, &mut waiting)?;
        for (_, spec) in later {
            self.revise(lease, moment, spec)?;
        }
        Ok(())
    }

    /// The next specification, under the name of what is not whole.
    fn revise(
        &mut self,
        lease: &OwnLease,
        moment: Timestamp,
        spec: &StudySpec,
    ) -> Result<(), StorageError> {
        let spec = StudySpec { name: self.draft(), ..spec.clone() };
        self.to.update_spec(lease, moment, &spec, &[])
    }

    fn flush(
        &mut self,
        lease: &mut OwnLease,
        waiting: &mut Vec<(Timestamp, Vec<Event>)>,
    ) -> Result<(), StorageError> {
        self.keep(lease)?;
        if !waiting.is_empty() {
            self.to.append_history(lease, waiting)?;
            waiting.clear();
        }
        Ok(())
    }

    /// The series of the original, and the newest attempts of its trials.
    fn series(&self) -> Result<(Vec<SeriesSummary>, NewestAttempts), StorageError> {
        let mut newest = NewestAttempts::new();
        for attempt in self.from.attempts(self.study.id, None)? {
            newest.insert(attempt.trial, attempt.attempt);
        }
        let trials: Vec<TrialNumber> = newest.keys().copied().collect();
        Ok((self.from.series(self.study.id, &trials)?, newest))
    }

    /// Points are not in the journal.
    fn write_series(&mut self, lease: &mut OwnLease) -> Result<Vec<SeriesSummary>, AppError> {
        let (all, newest) = self.series()?;
        let trials: Vec<TrialNumber> = newest.keys().copied().collect();
        let id = lease.study;
        let known = self.to.series(id, &trials)?;
        for series in all.iter().filter(|series| !known.contains(series)) {
            self.keep(lease)?;
            let points = points(self.from, self.study.id, series)?;
            let logged = |Point { step, value, at }| LoggedPoint { step: Some(step), value, at };
            let logged = LoggedSeries {
                trial: series.trial,
                attempt: newest.get(&series.trial).copied().unwrap_or(AttemptNumber(0)),
                metric: series.metric.clone(),
                axis: series.axis,
                points: points.into_iter().map(logged).collect(),
            };
            self.to.append_logged(lease, self.study.created, &[], &[logged])?;
        }
        Ok(all)
    }

    /// An error if the copy differs from the original.
    fn compare(
        &self,
        id: StudyId,
        journal: &[StoredEvent],
        series: &[SeriesSummary],
    ) -> Result<(), AppError> {
        let differs =
            |what: String| Err(AppError::CopyDiffers { study: self.study.spec.name.clone(), what });
        let copied = self.to.events_after(id, Seq(0), u64::MAX)?;
        if copied.len() != journal.len() {
            return differs(format!("{} of {} entries", copied.len(), journal.len()));
        }
        for ((seq, at, event), (_, copied_at, copied)) in journal.iter().zip(&copied) {
            if at != copied_at || !is_same_event(event, copied) {
                return differs(format!("entry {} of the journal", seq.0));
            }
        }
        let trials: BTreeSet<TrialNumber> = series.iter().map(|series| series.trial).collect();
        let trials: Vec<TrialNumber> = trials.into_iter().collect();
        if self.to.series(id, &trials)?.len() != series.len() {
            return differs("the number of series".to_owned());
        }
        for series in series {
            let (mine, copied) =
                (points(self.from, self.study.id, series)?, points(self.to, id, series)?);
            let is_same = |(one, other): (&Point, &Point)| {
                (one.step, one.at) == (other.step, other.at)
                    && (one.value == other.value || one.value.is_nan() && other.value.is_nan())
            };
            if mine.len() != copied.len() || !mine.iter().zip(&copied).all(is_same) {
                return differs(format!("series `{}` of trial {}", series.metric, series.trial));
            }
        }
        Ok(())
    }
}

fn points(
    store: &dyn StorageReader,
    study: StudyId,
    series: &SeriesSummary,
) -> Result<Vec<Point>, StorageError> {
    store.series_points(study, series.trial, &series.metric, series.axis, ALL)
}

/// An event with the position that its runner has in the copy.
fn renumbered(event: &Event, runners: &BTreeMap<Seq, Seq>) -> Event {
    let mut event = event.clone();
    if let Event::Runner(RunnerEvent::Stopped { runner: Some(seq), .. }) = &mut event {
        *seq = runners.get(seq).copied().unwrap_or(*seq);
    }
    event
}

/// Whether an event is that of the original, also with values that are NaN.
fn is_same_event(event: &Event, copied: &Event) -> bool {
    let (event, copied) = (comparable(event), comparable(copied));
    let text = |event| serde_json::to_string(event).ok();
    event == copied || text(&event).is_some_and(|event| Some(event) == text(&copied))
}

/// An event without what is another in a copy: positions of runners, and the directory of files.
fn comparable(event: &Event) -> Event {
    let mut event = event.clone();
    match &mut event {
        Event::Runner(RunnerEvent::Stopped { runner, .. }) => *runner = None,
        Event::Trial(_, event) => {
            if let Some(path) = event.checkpoint_path_mut() {
                *path = name_of(path);
            }
        }
        Event::Runner(RunnerEvent::Started { .. } | RunnerEvent::Described { .. })
        | Event::Study(_)
        | Event::Finalists(_)
        | Event::Device(_) => {}
    }
    event
}

fn name_of(path: &Path) -> PathBuf {
    path.file_name().map(PathBuf::from).unwrap_or_default()
}

/// The digests in a text: words of 64 hexadecimal digits.
fn digests_in(text: &str) -> impl Iterator<Item = String> {
    text.split(|char: char| !char.is_ascii_hexdigit())
        .filter(|word| word.len() == DIGEST)
        .map(str::to_owned)
}
