//! The store of studies, trials and their journal, behind two traits; every implementation passes
//! one conformance suite.

pub mod address;
pub mod any;
pub mod conformance;
pub mod disk;
mod error;
pub mod journal;
pub mod memory;
pub mod optuna_database;
pub mod paths;
#[cfg(feature = "postgres")]
pub mod postgres;
mod records;
mod sql;
pub mod sqlite;
mod studies;
pub mod tracked;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

pub use error::{PostgresFailure, SqliteFailure, StorageError};
pub use records::{
    Attempt, OutcomeCursor, Remarked, SeriesFault, StoredAgent, StoredRequest, StoredRunner,
    Summaries, TrialCurve,
};
pub use studies::{
    HeldLease, Holder, Lease, RemovedStudy, StoredStudy, StudyId, StudySummary, Takeover,
};

use crate::storage::tracked::{BeginRun, Move, Recorded, RemovedRun, RunFence, TrackerProcess};
use crate::study::artifact::StoredArtifact;
use crate::study::checkpoint::Checkpoint;
use crate::study::condition::TrialNames;
use crate::study::event::{Event, ProposalEvent, Seq, TrialEvent};
use crate::study::outcome::TrialSummary;
use crate::study::prediction::Prediction;
use crate::study::query::{Filter, SortPosition, TrialQuery};
use crate::study::request::{Request, RequestAnswer};
use crate::study::series::{LoggedSeries, Pixel, Point, SeriesAxis, SeriesSummary};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Trial, TrialNumber};
use crate::study::usage::Used;

/// Reading. Every call sees one committed state.
pub trait StorageReader: Send {
    /// The names of the directories claimed for the files of a study's trials, the present one
    /// first.
    fn directories(&self, study: StudyId) -> Result<Vec<String>, StorageError>;
    /// The store's random identifier, which marks its files on disk; `None` for a store without
    /// files.
    fn identity(&self) -> Result<Option<String>, StorageError>;
    /// The store's random salt, for digests of secrets.
    fn salt(&self) -> Result<String, StorageError>;
    /// A study's objectives in table `objective`: metric and direction.
    fn objectives(&self, study: StudyId) -> Result<Vec<(String, String)>, StorageError>;
    /// All studies by name.
    fn studies(&self) -> Result<Vec<StudySummary>, StorageError>;
    /// The names of all studies, in order. Does not read specifications, one of which may be
    /// unreadable.
    fn names(&self) -> Result<Vec<(StudyId, String)>, StorageError>;
    /// The removed studies whose files may not all be deleted yet.
    fn removed_studies(&self) -> Result<Vec<RemovedStudy>, StorageError>;
    /// The tracked runs that were removed, or moved to another study.
    fn removed_runs(&self) -> Result<Vec<RemovedRun>, StorageError>;
    /// The number of the study's next trial; numbers of removed runs are not reused.
    fn next_number(&self, study: StudyId) -> Result<TrialNumber, StorageError>;
    /// The study called `name`.
    fn study(&self, name: &str) -> Result<Option<StoredStudy>, StorageError>;
    /// One study's line of `ls`.
    fn summary(&self, study: StudyId) -> Result<StudySummary, StorageError>;
    /// The whole state of a study, equal to the fold of its journal.
    fn study_state(&self, study: StudyId) -> Result<StudyState, StorageError>;
    /// A page of the trials that pass a filter, in an order; curves, decisions and checkpoints
    /// included. Only the page is materialised.
    fn trials(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Trial>, StorageError>;
    /// The numbers of such a page, which is cheap even for all trials.
    fn numbers(&self, study: StudyId, query: &TrialQuery)
    -> Result<Vec<TrialNumber>, StorageError>;
    /// The sort positions of such a page's trials, to merge them with those of other studies.
    fn positions(
        &self,
        study: StudyId,
        query: &TrialQuery,
    ) -> Result<Vec<SortPosition>, StorageError>;
    /// How many trials pass a filter.
    fn count(&self, study: StudyId, filter: &Filter) -> Result<u64, StorageError>;
    /// The outcomes of trials created or changed since the cursor, by number, and the next cursor.
    fn outcomes(
        &self,
        study: StudyId,
        after: OutcomeCursor,
    ) -> Result<(Vec<TrialSummary>, OutcomeCursor), StorageError>;
    /// A metric's reports by some trials, in the order of `trials`; no points for a trial that
    /// reported none.
    fn curves(
        &self,
        study: StudyId,
        metric: &str,
        trials: &[TrialNumber],
    ) -> Result<Vec<TrialCurve>, StorageError>;
    /// The names of the parameters of the study's trials, sorted, including those that are no
    /// longer in the space.
    fn params(&self, study: StudyId) -> Result<Vec<String>, StorageError>;
    /// The names of the metrics that the study's trials reported, sorted.
    fn metrics(&self, study: StudyId) -> Result<Vec<String>, StorageError>;
    /// The names of the metrics that the study's trials logged, sorted.
    fn series_names(&self, study: StudyId) -> Result<Vec<String>, StorageError>;
    /// All of these names, for filters.
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
    /// Which attempt reported each metric of one trial last: metric, step and attempt, in that
    /// order.
    fn reporters(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<(String, u64, AttemptNumber)>, StorageError>;
    /// The series of some trials, in the order of `trials`, then by metric and axis: logged ones,
    /// and reports on the study's axis.
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
        axis: SeriesAxis,
        range: RangeInclusive<f64>,
    ) -> Result<Vec<Point>, StorageError>;
    /// The same for a chart of `columns` pixels: smallest, largest and last value of each. The cost
    /// depends on the columns and hardly on the points.
    fn series_pixels(
        &self,
        study: StudyId,
        trial: TrialNumber,
        metric: &str,
        axis: SeriesAxis,
        range: RangeInclusive<f64>,
        columns: usize,
    ) -> Result<Vec<Pixel>, StorageError>;
    /// The origin of the seconds of a trial's series: the start of its first attempt.
    fn began(&self, study: StudyId, trial: TrialNumber) -> Result<Option<Timestamp>, StorageError>;
    /// The first disagreement between a study's series and their rows.
    fn series_fault(&self, study: StudyId) -> Result<Option<SeriesFault>, StorageError>;
    /// The journal after `seq`, at most `limit` events.
    fn events_after(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError>;
    /// The last `limit` journal entries before a position, in order: reads a journal backwards.
    fn events_before(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError>;
    /// The remarks on a trial's lines after a position of the journal, and the journal's last
    /// position.
    fn remarks(
        &self,
        study: StudyId,
        trial: TrialNumber,
        after: Seq,
    ) -> Result<(Vec<Remarked>, Seq), StorageError>;
    /// The summary values of a trial; of equal names the last.
    fn trial_summary(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<BTreeMap<String, serde_json::Value>, StorageError>;
    /// The summary values of all trials that have some.
    fn trial_summaries(&self, study: StudyId) -> Result<Summaries, StorageError>;
    /// The value that the sampler's model predicted of a trial when it was proposed, by objective;
    /// empty if it predicted none.
    fn predicted(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<Prediction>, StorageError>;
    /// The agents that came, in order; not those of earlier versions, which did not say where they
    /// are.
    fn agents(&self, study: StudyId) -> Result<Vec<StoredAgent>, StorageError>;
    /// The resources used so far: device time, and the inputs of forecasts.
    fn used(&self, study: StudyId) -> Result<Used, StorageError>;
    /// The existing checkpoints, by trial and step.
    fn checkpoints(&self, study: StudyId) -> Result<Vec<(TrialNumber, Checkpoint)>, StorageError>;
    /// Microseconds of running time and, if a runner runs, when it started.
    fn running_since(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError>;
    /// The active time of the study: microseconds of running time and, if it counts now, since
    /// when. It does not count while the study is paused and nothing runs.
    fn active_time(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError>;
    /// The runners of the study, in order.
    fn runners(&self, study: StudyId) -> Result<Vec<StoredRunner>, StorageError>;
    /// Every version of the specification, in order, each with the last event before it.
    fn revisions(&self, study: StudyId) -> Result<Vec<(Seq, StudySpec)>, StorageError>;
    /// The artifacts of one trial, or of all, in the order in which they were logged.
    fn artifacts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<StoredArtifact>, StorageError>;
    /// A text stored by its digest.
    fn document(&self, digest: &str) -> Result<Option<String>, StorageError>;
    /// The file, beside the store, that the study's runner keeps locked while it lives. `None` for
    /// a store in memory.
    fn lock_file(&self, study: StudyId) -> Option<PathBuf>;
    /// The time after which a lease ends unless it is renewed. `None`: leases do not end, and
    /// processes and locks tell whether a holder lives.
    fn lease_time(&self) -> Option<Duration> {
        None
    }
    /// Whether any process committed since the last call.
    fn changed(&mut self) -> Result<bool, StorageError>;
}

/// Writing. Everything a call writes is one transaction.
pub trait Storage: StorageReader {
    /// Writes again to a file that was moved away and is back as it was, for a caller that has kept
    /// everything that was refused meanwhile.
    ///
    /// # Errors
    /// It is not back, or was changed meanwhile.
    fn look_for_return(&mut self) -> Result<(), StorageError>;
    /// Claims a directory of that name for the files of a study's trials.
    fn take_directory(&mut self, study: StudyId, name: &str) -> Result<(), StorageError>;
    /// Gives the store a new random identifier, for a copy whose files belong to the original.
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
    /// Records that all files of a removed study are deleted.
    fn files_removed(&mut self, study: StudyId) -> Result<(), StorageError>;
    /// Removes tracked runs with all their rows and journal entries except one event each; their
    /// numbers are not reused. `RunTracked` if an attempt of one is open.
    fn remove_runs(
        &mut self,
        study: StudyId,
        now: Timestamp,
        runs: &[TrialNumber],
    ) -> Result<(), StorageError>;
    /// Moves tracked runs to another study, where they get the next numbers. The pending move of
    /// their files is recorded until [`Storage::files_moved`].
    fn move_runs(
        &mut self,
        now: Timestamp,
        moving: &Move<'_>,
    ) -> Result<Vec<TrialNumber>, StorageError>;
    /// Records that the files of a moved run are moved, too.
    fn files_moved(&mut self, study: StudyId, run: TrialNumber) -> Result<(), StorageError>;
    /// Replaces the stored specification, and appends what follows from the change.
    fn update_spec(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        spec: &StudySpec,
        events: &[Event],
    ) -> Result<(), StorageError>;
    /// Acquires the lease. `Busy` if it is held and `takeover` does not name the holder's epoch.
    fn acquire(
        &mut self,
        study: StudyId,
        holder: &Holder,
        now: Timestamp,
        takeover: Takeover,
    ) -> Result<Lease, StorageError>;
    /// Updates the holder of a lease; `Fenced` if it was taken over.
    fn renew(&mut self, lease: &Lease, holder: &Holder) -> Result<(), StorageError>;
    /// Releases the lease; no effect if it was taken over.
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
    /// The same with events at several times, in one transaction.
    fn append_history(
        &mut self,
        lease: &Lease,
        history: &[(Timestamp, Vec<Event>)],
    ) -> Result<(), StorageError>;
    /// The same with logged points, in that transaction. Points of an attempt that is not the
    /// latest are dropped; points of a later attempt supersede earlier ones from their first step
    /// on. Points are not in the journal.
    fn append_logged(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        events: &[Event],
        logged: &[LoggedSeries],
    ) -> Result<Seq, StorageError>;
    /// Begins an attempt of a tracked run, without a lease: several processes track runs of one
    /// study at the same time. A new run gets its number here, and a unique name.
    fn begin_run(
        &mut self,
        study: StudyId,
        now: Timestamp,
        begin: &BeginRun,
        process: &TrackerProcess,
    ) -> Result<RunFence, StorageError>;
    /// Writes events of a tracked run, each with its time, the end of the process that tracks it,
    /// and its logged points in one transaction. `RunFenced` if its attempt has ended or another
    /// one began.
    fn append_run(
        &mut self,
        fence: &RunFence,
        events: &[(Timestamp, Event)],
        logged: &[LoggedSeries],
    ) -> Result<(), StorageError>;
    /// Writes a run recorded by another tool in one transaction: its attempt with its original
    /// times, and the events that `rest` returns for its number.
    fn record_run(
        &mut self,
        study: StudyId,
        moments: (Timestamp, Timestamp),
        begin: (&BeginRun, &TrackerProcess),
        rest: &mut dyn FnMut(&RunFence) -> Recorded,
    ) -> Result<(), StorageError>;
    /// Stores a text by its digest; no effect if it is stored already.
    fn keep_document(&mut self, digest: &str, body: &str) -> Result<(), StorageError>;
    /// Stores a request for the present or next runner of the study. Notes and tags are written at
    /// once, with their events, and are never pending: they need no lease.
    fn request(
        &mut self,
        study: StudyId,
        now: Timestamp,
        request: &Request,
    ) -> Result<i64, StorageError>;
    /// Requests not yet served, oldest first. [`crate::study::event::StudyEvent::RequestServed`]
    /// serves one, in the transaction of its effects.
    fn pending_requests(&self, study: StudyId) -> Result<Vec<StoredRequest>, StorageError>;
    /// The answer to a request; `None` while it is pending, or if there is no such request.
    fn answer(&self, study: StudyId, id: i64) -> Result<Option<RequestAnswer>, StorageError>;
}

/// Timeout of a writer that waits for another process's transaction.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks that the trials created by `events` continue the `existing` ones.
fn check_creations(existing: u64, events: &[Event]) -> Result<(), StorageError> {
    let mut expected = TrialNumber(existing);
    for event in events {
        if let Event::Trial(trial, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. })) = event
        {
            if *trial != expected {
                return Err(StorageError::OutOfOrder { trial: *trial, expected });
            }
            expected.0 += 1;
        }
    }
    Ok(())
}
