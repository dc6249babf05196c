//! The store: where studies, trials and their journal live, behind two traits that every store
//! passes one suite for.

pub mod conformance;
mod error;
pub mod journal;
pub mod memory;
pub mod optuna_database;
pub mod paths;
pub mod sqlite;
pub mod tracked;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::{SqliteFailure, StorageError};
use serde::{Deserialize, Serialize};

use crate::storage::paths::StudyFiles;
use crate::storage::tracked::{BeginRun, Move, Recorded, RemovedRun, RunFence, TrackerProcess};
use crate::study::artifact::StoredArtifact;
use crate::study::budget::Extension;
use crate::study::checkpoint::Checkpoint;
use crate::study::condition::TrialNames;
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEnd, Event, Seq, TrialEvent};
use crate::study::finalists::Race;
use crate::study::outcome::Outcome;
use crate::study::provenance::Provenance;
use crate::study::query::{Filter, Place, TrialQuery};
use crate::study::remark::RemarkKind;
use crate::study::request::{Answer, Request};
use crate::study::series::{LoggedSeries, Pixel, Point, SeriesClock, SeriesSummary};
use crate::study::spec::StudySpec;
use crate::study::state::{Counts, StudyState};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Note, Trial, TrialNumber};
use crate::study::usage::Used;

/// A study's key in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StudyId(pub i64);

/// A process that runs a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// The system's start time of that process, so that a reused id is not taken for it.
    pub pid_started: u64,
    /// Host name.
    pub host: String,
    /// Which start of the machine it belongs to, and what else tells it apart (see
    /// `runner::lease`); only of one that holds the study's lock file while it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// The right to write to a study, until someone takes it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Which study.
    pub study: StudyId,
    /// Fencing token: a write with an older one is refused.
    pub epoch: i64,
}

/// Whether a lease may be taken from a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// Only if nobody holds it.
    IfFree,
    /// From this epoch's holder, who was found dead; refused if the lease moved on meanwhile.
    From(i64),
}

/// Who holds a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Its fencing token.
    pub epoch: i64,
    /// The process that holds the study.
    pub holder: Holder,
    /// When the lease was acquired.
    pub acquired: Timestamp,
    /// The file whose lock its holder keeps while it lives, where stores have one.
    pub lock_file: Option<PathBuf>,
}

/// A study in a store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredStudy {
    /// Its key.
    pub id: StudyId,
    /// As resolved when it was created, later changes taken in; its budget includes the extension.
    pub spec: StudySpec,
    /// What `hpsearch extend` added to the study file's budget.
    pub extension: Extension,
    /// When it was created.
    pub created: Timestamp,
    /// The name of the directory that holds the files of its trials, once it was taken for it; see
    /// [`StoredStudy::files`].
    pub directory: Option<String>,
}

impl StoredStudy {
    /// Where the files of its trials lie, with the store at `store`.
    pub fn files(&self, store: &Path) -> StudyFiles {
        StudyFiles::of(&self.spec, self.directory.as_deref(), store)
    }
}

/// A study that was removed, and of whose files something may be left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedStudy {
    /// The key that it had.
    pub id: StudyId,
    /// Its last name.
    pub name: String,
    /// The directories that its files were in.
    pub directories: Vec<PathBuf>,
}

/// A line of `hpsearch ls`.
#[derive(Clone, Debug, PartialEq)]
pub struct StudySummary {
    /// Its key.
    pub id: StudyId,
    /// As resolved.
    pub spec: StudySpec,
    /// Trials by state.
    pub counts: Counts,
    /// Best complete trial and its value; of several runs of its configuration their mean.
    pub best: Option<(TrialNumber, f64)>,
    /// How many of the trials are hidden.
    pub hidden: u64,
    /// The last race of its best configurations.
    pub race: Option<Race>,
    /// How many of the trials are runs of races, which come on top of the budget.
    pub race_counts: Counts,
    /// Why it is over, if it is.
    pub finished: Option<String>,
    /// Why nothing is started, if its user paused it.
    pub paused: Option<String>,
    /// Devices on which nothing is started, because its user paused them.
    pub paused_devices: BTreeSet<Device>,
    /// What was added to the study file's budget; `spec` includes it.
    pub extension: Extension,
    /// What its user wrote about it.
    pub notes: Vec<Note>,
    /// Its user's words for it, sorted; those of the study file are in `spec`.
    pub tags: Vec<String>,
    /// Who runs it (perhaps dead: ask the system).
    pub held: Option<HeldLease>,
    /// When it was created.
    pub created: Timestamp,
    /// The name of the directory that holds the files of its trials, once it was taken for it.
    pub directory: Option<String>,
}

impl StudySummary {
    /// Where the files of its trials lie, with the store at `store`.
    pub fn files(&self, store: &Path) -> StudyFiles {
        StudyFiles::of(&self.spec, self.directory.as_deref(), store)
    }

    /// The study as [`StorageReader::study`] gives it.
    pub fn stored(self) -> StoredStudy {
        StoredStudy {
            id: self.id,
            spec: self.spec,
            extension: self.extension,
            created: self.created,
            directory: self.directory,
        }
    }

    /// A filter that leaves out hidden trials, too, where there are any.
    pub fn visible(&self, filter: Filter) -> Filter {
        if self.hidden > 0 { filter.visible() } else { filter }
    }

    /// Trials of the search by state: those that a budget counts.
    pub fn search_counts(&self) -> Counts {
        self.counts.without(self.race_counts)
    }
}

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
    /// Step where it was to pause.
    pub until: Option<u64>,
    /// Its process and that one's start time, once known.
    pub process: Option<(u32, u64)>,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How it ended.
    pub end: Option<AttemptEnd>,
    /// Why, one sentence.
    pub reason: Option<String>,
    /// The event with which its runner began; `None` of stores that did not keep it.
    pub runner: Option<Seq>,
}

/// A process that ran a study.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRunner {
    /// The event with which it began.
    pub seq: Seq,
    /// Its process id.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Its slots, as they were last.
    pub slots: Vec<Slot>,
    /// When it began.
    pub started: Timestamp,
    /// When it left; `None`: it runs, or was killed.
    pub stopped: Option<Timestamp>,
    /// How long it ran, in microseconds, once it has left.
    pub ran_micros: Option<i64>,
    /// Why it left.
    pub reason: Option<String>,
    /// What its results depend on; `None` of an hpsearch that did not tell.
    pub lineage: Option<Provenance>,
}

/// Up to where a reader knows the outcomes of a study; the default knows none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCursor {
    /// The last event that it knows: the journal's order is that of commits, whatever the clocks
    /// say.
    seq: Seq,
    /// The specification that it knows: with another metric, the last reports are others.
    revision: i64,
}

/// The reports of one trial: steps, ascending, and what was measured.
pub type Curve = (TrialNumber, Vec<(u64, f64)>);

/// A request with its key.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRequest {
    /// Its key.
    pub id: i64,
    /// What is asked.
    pub request: Request,
}

/// What was remarked on the lines of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remarked {
    /// Number of the trial's attempt, from 0.
    pub attempt: AttemptNumber,
    /// What it is about.
    pub kind: RemarkKind,
    /// One sentence.
    pub text: String,
    /// How many there were.
    pub count: u64,
}

impl Remarked {
    /// Of the event that says it.
    pub fn of(event: Event) -> Option<Remarked> {
        match event {
            Event::Trial(_, TrialEvent::Remarked { attempt, kind, text, count, .. }) => {
                Some(Remarked { attempt, kind, text, count })
            }
            _ => None,
        }
    }

    /// One of each kind and attempt, the first in front: what is told at an attempt's end has their
    /// number.
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

/// A place where a stored series is not what its row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesFault {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// The table.
    pub table: &'static str,
    /// The series, and the chunk if it is one's.
    pub row: String,
    /// The column.
    pub field: String,
    /// What stands there.
    pub stored: String,
    /// What its points come to.
    pub now: String,
}

/// Reading. Every call sees one committed state.
pub trait StorageReader: Send {
    /// The names of the directories that were taken for the files of a study's trials, the present
    /// one first.
    fn directories(&self, study: StudyId) -> Result<Vec<String>, StorageError>;
    /// The store's own random name, by which files on the disk know whose they are; `None` of one
    /// that keeps no files.
    fn identity(&self) -> Result<Option<String>, StorageError>;
    /// All studies by name.
    fn studies(&self) -> Result<Vec<StudySummary>, StorageError>;
    /// The names of all studies, in their order: without their specifications, of which one may be
    /// unreadable here.
    fn names(&self) -> Result<Vec<(StudyId, String)>, StorageError>;
    /// The removed studies of whose files something may be left.
    fn removed_studies(&self) -> Result<Vec<RemovedStudy>, StorageError>;
    /// The tracked runs that were removed, or moved to another study.
    fn removed_runs(&self) -> Result<Vec<RemovedRun>, StorageError>;
    /// The number that the study's next trial gets: those of removed runs are not given again.
    fn next_number(&self, study: StudyId) -> Result<TrialNumber, StorageError>;
    /// The study called `name`.
    fn study(&self, name: &str) -> Result<Option<StoredStudy>, StorageError>;
    /// One study's line of `ls`.
    fn summary(&self, study: StudyId) -> Result<StudySummary, StorageError>;
    /// The whole state of a study: what folding its journal gives.
    fn view(&self, study: StudyId) -> Result<StudyState, StorageError>;
    /// A page of the trials that pass a filter, in an order; curves, decisions and checkpoints
    /// included. Only the page is materialised.
    fn trials(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Trial>, StorageError>;
    /// The numbers of such a page: all that match, in the order asked for, cost little.
    fn numbers(&self, study: StudyId, query: &TrialQuery)
    -> Result<Vec<TrialNumber>, StorageError>;
    /// The places of the trials of such a page in the order asked for, to be put among those of
    /// other studies.
    fn places(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Place>, StorageError>;
    /// How many trials pass a filter.
    fn count(&self, study: StudyId, filter: &Filter) -> Result<u64, StorageError>;
    /// The outcomes of trials that were created or changed since the cursor, by number, and the
    /// cursor to ask with next: all of them at first, then few.
    fn outcomes(
        &self,
        study: StudyId,
        after: OutcomeCursor,
    ) -> Result<(Vec<Outcome>, OutcomeCursor), StorageError>;
    /// A metric's reports by some trials, in the order asked for; no points for a trial that
    /// reported none.
    fn curves(
        &self,
        study: StudyId,
        metric: &str,
        trials: &[TrialNumber],
    ) -> Result<Vec<Curve>, StorageError>;
    /// The names of the parameters that the study's trials have, sorted: also those that the space
    /// no longer holds.
    fn params(&self, study: StudyId) -> Result<Vec<String>, StorageError>;
    /// The names of the metrics that the study's trials reported, sorted.
    fn metrics(&self, study: StudyId) -> Result<Vec<String>, StorageError>;
    /// The names of the metrics that the study's trials logged, sorted.
    fn series_names(&self, study: StudyId) -> Result<Vec<String>, StorageError>;
    /// All of these names, as filters use them.
    fn trial_names(&self, study: StudyId) -> Result<TrialNames, StorageError> {
        let (params, metrics) = (self.params(study)?, self.metrics(study)?);
        Ok(TrialNames { params, metrics, series: self.series_names(study)? })
    }
    /// One trial.
    fn trial(&self, study: StudyId, number: TrialNumber) -> Result<Option<Trial>, StorageError>;
    /// Attempts of one trial, or of all, in order.
    fn attempts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<Attempt>, StorageError>;
    /// All reports of one trial: metric, step and value, in that order.
    fn reports(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<(String, u64, f64)>, StorageError>;
    /// The series of some trials, in the order asked for, then by metric and clock: all that was
    /// logged, and what was reported, on the study's clock.
    fn series(
        &self,
        study: StudyId,
        trials: &[TrialNumber],
    ) -> Result<Vec<SeriesSummary>, StorageError>;
    /// The points of a series whose steps are in a range, by step; none if there is no such series.
    fn series_points(
        &self,
        study: StudyId,
        trial: TrialNumber,
        metric: &str,
        clock: SeriesClock,
        range: RangeInclusive<f64>,
    ) -> Result<Vec<Point>, StorageError>;
    /// The same for a chart of `columns` pixels: smallest, largest and last value of each. What is
    /// read grows with the columns, hardly with the points.
    fn series_pixels(
        &self,
        study: StudyId,
        trial: TrialNumber,
        metric: &str,
        clock: SeriesClock,
        range: RangeInclusive<f64>,
        columns: usize,
    ) -> Result<Vec<Pixel>, StorageError>;
    /// The moment from which the seconds of a trial's series count: the start of its first attempt.
    fn began(&self, study: StudyId, trial: TrialNumber) -> Result<Option<Timestamp>, StorageError>;
    /// The first place where a study's series are not what their rows say.
    fn series_fault(&self, study: StudyId) -> Result<Option<SeriesFault>, StorageError>;
    /// The journal after `seq`, at most `limit` events.
    fn events_after(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError>;
    /// The last `limit` journal entries before a place, in order: a journal is read from its end
    /// without its beginning.
    fn events_before(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError>;
    /// What was remarked on a trial's lines after a place of the journal, and the journal's last
    /// place.
    fn remarks(
        &self,
        study: StudyId,
        trial: TrialNumber,
        after: Seq,
    ) -> Result<(Vec<Remarked>, Seq), StorageError>;
    /// What the study used so far: time of devices, and what forecasts are made of.
    fn used(&self, study: StudyId) -> Result<Used, StorageError>;
    /// The checkpoints that are there, by trial and step.
    fn checkpoints(&self, study: StudyId) -> Result<Vec<(TrialNumber, Checkpoint)>, StorageError>;
    /// Microseconds that runners spent on the study and, if one runs, when it began.
    fn running_since(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError>;
    /// Who ran the study, in order.
    fn runners(&self, study: StudyId) -> Result<Vec<StoredRunner>, StorageError>;
    /// Every version of the specification, in order, each with the last event before it.
    fn revisions(&self, study: StudyId) -> Result<Vec<(Seq, StudySpec)>, StorageError>;
    /// The artifacts of one trial, or of all, in the order in which they were logged.
    fn artifacts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<StoredArtifact>, StorageError>;
    /// A text that is kept by its digest.
    fn document(&self, digest: &str) -> Result<Option<String>, StorageError>;
    /// The file whose lock tells whether whoever runs the study lives: beside the store. `None` of
    /// a store in memory.
    fn lock_file(&self, study: StudyId) -> Option<PathBuf>;
    /// Whether anything was committed by anyone since the last call.
    fn changed(&mut self) -> Result<bool, StorageError>;
}

/// Writing. Everything a call writes is one transaction.
pub trait Storage: StorageReader {
    /// Takes a directory of that name for the files of a study's trials.
    fn take_directory(&mut self, study: StudyId, name: &str) -> Result<(), StorageError>;
    /// Gives the store a new random name: it is a copy of another, whose files are not its own.
    fn renew_identity(&mut self) -> Result<Option<String>, StorageError>;
    /// A new study.
    fn create_study(&mut self, now: Timestamp, spec: &StudySpec) -> Result<StudyId, StorageError>;
    /// Removes a study with all its rows, and remembers the directories of its files until
    /// [`Storage::files_removed`]; `Fenced` if the lease was taken over.
    fn remove_study(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        directories: &[PathBuf],
    ) -> Result<(), StorageError>;
    /// Nothing is left of the files of a removed study.
    fn files_removed(&mut self, study: StudyId) -> Result<(), StorageError>;
    /// Removes tracked runs with all their rows and all that the journal has of them; an event says
    /// so, and their numbers are not given again. `RunTracked` if an attempt of one is open.
    fn remove_runs(
        &mut self,
        study: StudyId,
        now: Timestamp,
        runs: &[TrialNumber],
    ) -> Result<(), StorageError>;
    /// Writes tracked runs anew in another study, where they get the next numbers, and removes them
    /// from theirs. That their files are to follow is remembered until [`Storage::files_moved`].
    fn move_runs(
        &mut self,
        now: Timestamp,
        moving: &Move<'_>,
    ) -> Result<Vec<TrialNumber>, StorageError>;
    /// The files of a run that was moved from a study are where it is.
    fn files_moved(&mut self, study: StudyId, run: TrialNumber) -> Result<(), StorageError>;
    /// Replaces the stored specification (after the differences were accepted).
    fn update_spec(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        spec: &StudySpec,
    ) -> Result<(), StorageError>;
    /// Takes the right to write. `Busy` if someone holds it and `takeover` does not name that
    /// holder's epoch.
    fn acquire(
        &mut self,
        study: StudyId,
        holder: &Holder,
        now: Timestamp,
        takeover: Takeover,
    ) -> Result<Lease, StorageError>;
    /// Writes down what has changed about the holder of a lease; `Fenced` if it was taken over.
    fn renew(&mut self, lease: &Lease, holder: &Holder) -> Result<(), StorageError>;
    /// Gives the right back; nothing happens if it was taken over.
    fn release(&mut self, lease: &Lease) -> Result<(), StorageError>;
    /// Writes events, in order, to the journal and the tables in one transaction; `Fenced` if the
    /// lease was taken over.
    fn append(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        events: &[Event],
    ) -> Result<Seq, StorageError> {
        self.append_logged(lease, now, events, &[])
    }
    /// The same with events of several moments, in one transaction.
    fn append_history(
        &mut self,
        lease: &Lease,
        history: &[(Timestamp, Vec<Event>)],
    ) -> Result<(), StorageError>;
    /// The same with what trials logged, in that transaction. Points of an attempt that another has
    /// followed are dropped; the first points of a later attempt supersede the earlier ones' from
    /// their first step on. Points are not in the journal.
    fn append_logged(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        events: &[Event],
        logged: &[LoggedSeries],
    ) -> Result<Seq, StorageError>;
    /// Begins an attempt of a tracked run, without a lease: several processes track runs of one
    /// study at the same time. A new run gets its number here, and a name that no other has.
    fn begin_run(
        &mut self,
        study: StudyId,
        now: Timestamp,
        begin: &BeginRun,
        process: &TrackerProcess,
    ) -> Result<RunFence, StorageError>;
    /// Writes what happened to a tracked run in one transaction: events about that run, and the end
    /// of the process that tracks it; and what it logged. `RunFenced` if its attempt has ended or another one began.
    fn append_run(
        &mut self,
        fence: &RunFence,
        now: Timestamp,
        events: &[Event],
        logged: &[LoggedSeries],
    ) -> Result<(), StorageError>;
    /// Writes a run that was recorded elsewhere in one transaction: its attempt from its beginning
    /// to its end, at those moments, and what `rest` says of it once its number is known.
    fn record_run(
        &mut self,
        study: StudyId,
        moments: (Timestamp, Timestamp),
        begin: (&BeginRun, &TrackerProcess),
        rest: &mut dyn FnMut(&RunFence) -> Recorded,
    ) -> Result<(), StorageError>;
    /// Keeps a text by its digest; nothing happens if it is kept already.
    fn keep_document(&mut self, digest: &str, body: &str) -> Result<(), StorageError>;
    /// Asks something of whoever runs the study, or will. Notes and tags are written at once, with
    /// their events, and are never pending: nobody's lease is needed for them.
    fn request(
        &mut self,
        study: StudyId,
        now: Timestamp,
        request: &Request,
    ) -> Result<i64, StorageError>;
    /// Requests not yet served, oldest first. [`crate::study::event::StudyEvent::RequestServed`]
    /// serves one, in the transaction of what it leads to.
    fn pending_requests(&self, study: StudyId) -> Result<Vec<StoredRequest>, StorageError>;
    /// What came of a request; `None` while it waits, or if there is none of this key.
    fn answer(&self, study: StudyId, id: i64) -> Result<Option<Answer>, StorageError>;
}

/// How long a writer waits for another process's transaction before it gives up.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks that the trials created by `events` continue the `existing` ones.
fn check_creations(existing: u64, events: &[Event]) -> Result<(), StorageError> {
    let mut expected = TrialNumber(existing);
    for event in events {
        if let Event::Trial(trial, TrialEvent::Created { .. }) = event {
            if *trial != expected {
                return Err(StorageError::OutOfOrder { trial: *trial, expected });
            }
            expected.0 += 1;
        }
    }
    Ok(())
}
