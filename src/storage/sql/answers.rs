//! The storage traits for every store whose database the queries understand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::append::Cache;
use super::artifacts;
use super::column::{rows, value};
use super::connection::Connection;
use super::fault::Fault;
use super::located::{Roots, has_path};
use super::{outcomes, pages, read, remove, remove_run, series_read, tracked, trials, used, write};
use crate::storage::tracked::{BeginRun, Move, Recorded, RemovedRun, RunFence, TrackerProcess};
use crate::storage::{
    Attempt, Curve, Holder, Lease, OutcomeCursor, Remarked, RemovedStudy, SeriesFault, Storage,
    StorageError, StorageReader, StoredAgent, StoredRequest, StoredRunner, StoredStudy, StudyId,
    StudySummary, Takeover,
};
use crate::study::artifact::StoredArtifact;
use crate::study::checkpoint::Checkpoint;
use crate::study::event::{Event, Seq};
use crate::study::outcome::Outcome;
use crate::study::prediction::Prediction;
use crate::study::query::{Filter, SortPosition, TrialQuery};
use crate::study::request::{Request, RequestAnswer};
use crate::study::series::{LoggedSeries, Pixel, Point, SeriesClock, SeriesSummary};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};
use crate::study::usage::Used;

/// The names of the studies that a store was asked for: who removes a study removes its name.
#[derive(Debug, Default)]
pub(in crate::storage) struct KnownNames(RefCell<BTreeMap<StudyId, String>>);

impl KnownNames {
    fn learn<'a>(&self, studies: impl IntoIterator<Item = (StudyId, &'a str)>) {
        let mut known = self.0.borrow_mut();
        known.extend(studies.into_iter().map(|(id, name)| (id, name.to_owned())));
    }

    /// The error with the name of its study.
    pub(in crate::storage) fn named(&self, error: StorageError) -> StorageError {
        match error {
            StorageError::NoStudy { study, name: None } => {
                StorageError::NoStudy { study, name: self.0.borrow().get(&study).cloned() }
            }
            error => error,
        }
    }
}

/// A store that reads by queries of a database.
pub(in crate::storage) trait Reads: Send {
    /// Runs `work` on one committed state; again if the connection to it is lost.
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection) -> Result<T, Fault>,
    ) -> Result<T, StorageError>;

    /// Its path or address; empty for a store in memory.
    fn address(&self) -> &Path;

    /// The file that a study's runner keeps locked, if such files are beside the store.
    fn lock_file_of(&self, study: StudyId) -> Option<PathBuf>;

    /// The names of the studies that were read.
    fn known_names(&self) -> &KnownNames;

    /// The time after which a lease ends unless it is renewed, if leases end.
    fn time_of_leases(&self) -> Option<Duration> {
        None
    }

    /// Whether anything was committed by anyone since the last call.
    fn look_for_changes(&mut self) -> Result<bool, StorageError>;

    /// Reads a study, which must exist.
    fn read_of<T>(
        &self,
        study: StudyId,
        doing: &'static str,
        mut work: impl FnMut(&dyn Connection, StudyId) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        let done = self.read(doing, |connection| {
            read::require(connection, study)?;
            work(connection, study)
        });
        done.map_err(|error| self.known_names().named(error))
    }

    /// The base directories of a study's stored paths.
    fn roots(&self, study: StudyId) -> Result<Roots, StorageError> {
        self.read("reading where files lie", |connection| {
            Roots::of(connection, study, self.address())
        })
    }

    /// Resolves the paths of checkpoints.
    fn locate<'a>(
        &self,
        study: StudyId,
        checkpoints: impl Iterator<Item = (TrialNumber, &'a mut Checkpoint)>,
    ) -> Result<(), StorageError> {
        let mut checkpoints = checkpoints.peekable();
        if checkpoints.peek().is_none() {
            return Ok(());
        }
        let roots = self.roots(study)?;
        checkpoints.for_each(|(trial, checkpoint)| {
            checkpoint.path = roots.found(Some(trial), &checkpoint.path)
        });
        Ok(())
    }

    /// Resolves those of trials.
    fn locate_trials(&self, study: StudyId, trials: &mut [Trial]) -> Result<(), StorageError> {
        let checkpoints = trials.iter_mut().flat_map(|trial| {
            let number = trial.number;
            trial.checkpoints.iter_mut().map(move |checkpoint| (number, checkpoint))
        });
        self.locate(study, checkpoints)
    }

    /// Events with resolved paths.
    fn located_events(
        &self,
        study: StudyId,
        mut events: Vec<(Seq, Timestamp, Event)>,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        if events.iter().any(|(_, _, event)| has_path(event)) {
            let roots = self.roots(study)?;
            for (_, _, event) in &mut events {
                if let Some(located) = roots.found_event(event) {
                    *event = located;
                }
            }
        }
        Ok(events)
    }

    /// A study's line with its lock file.
    fn with_lock_file(&self, mut summary: StudySummary) -> StudySummary {
        if let Some(held) = &mut summary.held {
            held.lock_file = self.lock_file_of(summary.id);
        }
        summary
    }
}

impl<T: Reads> StorageReader for T {
    fn directories(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read_of(study, "reading where files lie", read::directories)
    }

    fn identity(&self) -> Result<Option<String>, StorageError> {
        if self.address().as_os_str().is_empty() {
            return Ok(None);
        }
        self.read("reading its name", |connection| {
            value(connection, "SELECT id FROM store", ()).map(Some)
        })
    }

    fn salt(&self) -> Result<String, StorageError> {
        self.read("reading its salt", |connection| value(connection, "SELECT salt FROM store", ()))
    }

    fn objectives(&self, study: StudyId) -> Result<Vec<(String, String)>, StorageError> {
        let sql = "SELECT metric, direction FROM objective WHERE study_id = ?1 ORDER BY idx";
        self.read("reading objectives", |connection| {
            rows(connection, sql, [study.0], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    fn studies(&self) -> Result<Vec<StudySummary>, StorageError> {
        let studies = self.read("listing the studies", read::studies)?;
        self.known_names().learn(studies.iter().map(|study| (study.id, &*study.spec.name)));
        Ok(studies.into_iter().map(|study| self.with_lock_file(study)).collect())
    }

    fn names(&self) -> Result<Vec<(StudyId, String)>, StorageError> {
        let names = self.read("listing the studies", read::names)?;
        self.known_names().learn(names.iter().map(|(id, name)| (*id, &**name)));
        Ok(names)
    }

    fn removed_studies(&self) -> Result<Vec<RemovedStudy>, StorageError> {
        self.read("listing removed studies", remove::removed_studies)
    }

    fn removed_runs(&self) -> Result<Vec<RemovedRun>, StorageError> {
        self.read("listing removed runs", remove_run::removed_runs)
    }

    fn next_number(&self, study: StudyId) -> Result<TrialNumber, StorageError> {
        self.read_of(study, "reading trials", |connection, study| {
            write::trials_of(connection, study).map(TrialNumber)
        })
    }

    fn study(&self, name: &str) -> Result<Option<StoredStudy>, StorageError> {
        let study = self.read("reading a study", |connection| read::study(connection, name))?;
        self.known_names().learn(study.iter().map(|study| (study.id, name)));
        Ok(study)
    }

    fn summary(&self, study: StudyId) -> Result<StudySummary, StorageError> {
        let summary = self.read_of(study, "reading a study", read::summary)?;
        Ok(self.with_lock_file(summary))
    }

    fn study_state(&self, study: StudyId) -> Result<StudyState, StorageError> {
        let mut state = self.read_of(study, "reading a study", read::study_state)?;
        self.locate_trials(study, &mut state.trials)?;
        Ok(state)
    }

    fn trials(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Trial>, StorageError> {
        let mut trials = self.read_of(study, "reading trials", |connection, study| {
            pages::page(connection, study, query)
        })?;
        self.locate_trials(study, &mut trials)?;
        Ok(trials)
    }

    fn numbers(
        &self,
        study: StudyId,
        query: &TrialQuery,
    ) -> Result<Vec<TrialNumber>, StorageError> {
        self.read_of(study, "reading trials", |connection, study| {
            pages::numbers(connection, study, query)
        })
    }

    fn positions(
        &self,
        study: StudyId,
        query: &TrialQuery,
    ) -> Result<Vec<SortPosition>, StorageError> {
        self.read_of(study, "reading trials", |connection, study| {
            pages::positions(connection, study, query)
        })
    }

    fn count(&self, study: StudyId, filter: &Filter) -> Result<u64, StorageError> {
        self.read_of(study, "counting trials", |connection, study| {
            pages::count(connection, study, filter)
        })
    }

    fn outcomes(
        &self,
        study: StudyId,
        after: OutcomeCursor,
    ) -> Result<(Vec<Outcome>, OutcomeCursor), StorageError> {
        self.read_of(study, "reading outcomes", |connection, study| {
            outcomes::outcomes(connection, study, after)
        })
    }

    fn curves(
        &self,
        study: StudyId,
        metric: &str,
        trials: &[TrialNumber],
    ) -> Result<Vec<Curve>, StorageError> {
        self.read_of(study, "reading reports", |connection, study| {
            read::curves(connection, study, metric, trials)
        })
    }

    fn params(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read_of(study, "reading the names of parameters", read::params)
    }

    fn metrics(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read_of(study, "reading the names of metrics", read::metrics)
    }

    fn series_names(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read_of(study, "reading the names of series", read::series_names)
    }

    fn trial(&self, study: StudyId, number: TrialNumber) -> Result<Option<Trial>, StorageError> {
        let mut trial = self.read_of(study, "reading a trial", |connection, study| {
            trials::one(connection, study, number)
        })?;
        self.locate_trials(study, trial.as_mut_slice())?;
        Ok(trial)
    }

    fn attempts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<Attempt>, StorageError> {
        let mut attempts = self.read_of(study, "reading attempts", |connection, study| {
            read::attempts(connection, study, trial)
        })?;
        if attempts.iter().any(|attempt| attempt.resume.is_some()) {
            let roots = self.roots(study)?;
            for attempt in &mut attempts {
                if let Some((_, path)) = &mut attempt.resume {
                    *path = roots.found(Some(attempt.trial), path);
                }
            }
        }
        Ok(attempts)
    }

    fn reports(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<(String, u64, f64)>, StorageError> {
        self.read_of(study, "reading reports", |connection, study| {
            read::reports(connection, study, trial)
        })
    }

    fn series(
        &self,
        study: StudyId,
        trials: &[TrialNumber],
    ) -> Result<Vec<SeriesSummary>, StorageError> {
        self.read_of(study, "listing series", |connection, study| {
            series_read::list(connection, study, trials)
        })
    }

    fn series_points(
        &self,
        study: StudyId,
        trial: TrialNumber,
        metric: &str,
        clock: SeriesClock,
        range: RangeInclusive<f64>,
    ) -> Result<Vec<Point>, StorageError> {
        self.read_of(study, "reading a series", |connection, study| {
            series_read::points(connection, study, trial, metric, clock, range.clone())
        })
    }

    fn series_pixels(
        &self,
        study: StudyId,
        trial: TrialNumber,
        metric: &str,
        clock: SeriesClock,
        range: RangeInclusive<f64>,
        columns: usize,
    ) -> Result<Vec<Pixel>, StorageError> {
        self.read_of(study, "reading a series", |connection, study| {
            series_read::pixels(connection, study, trial, metric, clock, range.clone(), columns)
        })
    }

    fn began(&self, study: StudyId, trial: TrialNumber) -> Result<Option<Timestamp>, StorageError> {
        self.read_of(study, "reading attempts", |connection, study| {
            series_read::began(connection, study, trial)
        })
    }

    fn series_fault(&self, study: StudyId) -> Result<Option<SeriesFault>, StorageError> {
        self.read_of(study, "reading series", series_read::check)
    }

    fn events_after(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        let events = self.read_of(study, "reading the journal", |connection, study| {
            read::events_after(connection, study, seq, limit)
        })?;
        self.located_events(study, events)
    }

    fn events_before(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        let events = self.read_of(study, "reading the journal", |connection, study| {
            read::events_before(connection, study, seq, limit)
        })?;
        self.located_events(study, events)
    }

    fn remarks(
        &self,
        study: StudyId,
        trial: TrialNumber,
        after: Seq,
    ) -> Result<(Vec<Remarked>, Seq), StorageError> {
        self.read_of(study, "reading remarks", |connection, study| {
            read::remarks(connection, study, trial, after)
        })
    }

    fn predicted(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<Prediction>, StorageError> {
        self.read_of(study, "reading a proposal", |connection, study| {
            read::predicted(connection, study, trial)
        })
    }

    fn agents(&self, study: StudyId) -> Result<Vec<StoredAgent>, StorageError> {
        self.read_of(study, "reading agents", read::agents)
    }

    fn used(&self, study: StudyId) -> Result<Used, StorageError> {
        self.read_of(study, "reading what a study used", used::used)
    }

    fn checkpoints(&self, study: StudyId) -> Result<Vec<(TrialNumber, Checkpoint)>, StorageError> {
        let mut checkpoints = self.read_of(study, "reading checkpoints", used::checkpoints)?;
        let each = checkpoints.iter_mut().map(|(trial, checkpoint)| (*trial, checkpoint));
        self.locate(study, each)?;
        Ok(checkpoints)
    }

    fn running_since(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError> {
        self.read_of(study, "reading a study", read::running_since)
    }

    fn clock(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError> {
        self.read_of(study, "reading a study", read::clock)
    }

    fn runners(&self, study: StudyId) -> Result<Vec<StoredRunner>, StorageError> {
        self.read_of(study, "reading runners", read::runners)
    }

    fn revisions(&self, study: StudyId) -> Result<Vec<(Seq, StudySpec)>, StorageError> {
        self.read_of(study, "reading a study", read::revisions)
    }

    fn artifacts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<StoredArtifact>, StorageError> {
        self.read_of(study, "reading artifacts", |connection, study| {
            artifacts::artifacts(connection, study, trial)
        })
    }

    fn document(&self, digest: &str) -> Result<Option<String>, StorageError> {
        self.read("reading a document", |connection| read::document(connection, digest))
    }

    fn lock_file(&self, study: StudyId) -> Option<PathBuf> {
        self.lock_file_of(study)
    }

    fn lease_time(&self) -> Option<Duration> {
        self.time_of_leases()
    }

    fn changed(&mut self) -> Result<bool, StorageError> {
        self.look_for_changes()
    }
}

/// A store that writes by statements of a database.
pub(in crate::storage) trait Writes: Reads {
    /// Runs `work` in one transaction, which is rolled back if it fails. It is repeated where the
    /// database asks for it.
    fn write<T>(
        &mut self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection, &mut Cache) -> Result<T, Fault>,
    ) -> Result<T, StorageError>;
}

impl<T: Writes> Storage for T {
    fn take_directory(&mut self, study: StudyId, name: &str) -> Result<(), StorageError> {
        self.write("taking a directory", |transaction, _| {
            write::take_directory(transaction, study, name)
        })
    }

    fn renew_identity(&mut self) -> Result<Option<String>, StorageError> {
        self.write("giving it a name", |transaction, _| write::renew_identity(transaction))?;
        self.identity()
    }

    fn create_study(&mut self, now: Timestamp, spec: &StudySpec) -> Result<StudyId, StorageError> {
        self.write("creating a study", |transaction, _| write::create_study(transaction, now, spec))
    }

    fn remove_study(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        directories: &[PathBuf],
    ) -> Result<(), StorageError> {
        self.write("removing a study", |transaction, cache| {
            remove::remove_study(transaction, lease, now, directories)?;
            *cache = Default::default();
            Ok(())
        })
    }

    fn files_removed(&mut self, study: StudyId) -> Result<(), StorageError> {
        self.write("noting that files are gone", |transaction, _| {
            remove::files_removed(transaction, study)
        })
    }

    fn remove_runs(
        &mut self,
        study: StudyId,
        now: Timestamp,
        runs: &[TrialNumber],
    ) -> Result<(), StorageError> {
        let store = self.address().to_owned();
        self.write("removing runs", |transaction, cache| {
            remove_run::remove_runs(transaction, cache, &store, study, now, runs)
        })
    }

    fn move_runs(
        &mut self,
        now: Timestamp,
        moving: &Move<'_>,
    ) -> Result<Vec<TrialNumber>, StorageError> {
        let store = self.address().to_owned();
        self.write("moving runs", |transaction, cache| {
            remove_run::move_runs(transaction, cache, &store, now, moving)
        })
    }

    fn files_moved(&mut self, study: StudyId, run: TrialNumber) -> Result<(), StorageError> {
        self.write("noting that files are moved", |transaction, _| {
            remove_run::files_moved(transaction, study, run)
        })
    }

    fn update_spec(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        spec: &StudySpec,
    ) -> Result<(), StorageError> {
        self.write("changing a study", |transaction, _| {
            write::update_spec(transaction, lease, now, spec)
        })
    }

    fn acquire(
        &mut self,
        study: StudyId,
        holder: &Holder,
        now: Timestamp,
        takeover: Takeover,
    ) -> Result<Lease, StorageError> {
        self.write("taking a study", |transaction, _| {
            write::acquire(transaction, study, holder, now, takeover)
        })
    }

    fn renew(&mut self, lease: &Lease, holder: &Holder) -> Result<(), StorageError> {
        self.write("renewing a lease", |transaction, _| write::renew(transaction, lease, holder))
    }

    fn release(&mut self, lease: &Lease) -> Result<(), StorageError> {
        self.write("giving a study back", |transaction, _| write::release(transaction, lease))
    }

    fn append_history(
        &mut self,
        lease: &Lease,
        history: &[(Timestamp, Vec<Event>)],
    ) -> Result<(), StorageError> {
        let store = self.address().to_owned();
        self.write("importing trials", |transaction, cache| {
            history.iter().try_for_each(|(at, events)| {
                write::append(transaction, cache, &store, lease, *at, events, &[]).map(drop)
            })
        })
    }

    fn append_logged(
        &mut self,
        lease: &Lease,
        now: Timestamp,
        events: &[Event],
        logged: &[LoggedSeries],
    ) -> Result<Seq, StorageError> {
        let store = self.address().to_owned();
        self.write("writing events", |transaction, cache| {
            write::append(transaction, cache, &store, lease, now, events, logged)
        })
    }

    fn begin_run(
        &mut self,
        study: StudyId,
        now: Timestamp,
        begin: &BeginRun,
        process: &TrackerProcess,
    ) -> Result<RunFence, StorageError> {
        let store = self.address().to_owned();
        self.write("beginning a run", |transaction, cache| {
            tracked::begin_run(transaction, cache, &store, study, now, (begin, process))
        })
    }

    fn append_run(
        &mut self,
        fence: &RunFence,
        now: Timestamp,
        events: &[Event],
        logged: &[LoggedSeries],
    ) -> Result<(), StorageError> {
        let store = self.address().to_owned();
        self.write("writing a run", |transaction, cache| {
            tracked::append_run(transaction, cache, &store, fence, now, (events, logged))
        })
    }

    fn record_run(
        &mut self,
        study: StudyId,
        (began, ended): (Timestamp, Timestamp),
        begin: (&BeginRun, &TrackerProcess),
        rest: &mut dyn FnMut(&RunFence) -> Recorded,
    ) -> Result<(), StorageError> {
        let store = self.address().to_owned();
        self.write("importing a run", |transaction, cache| {
            let fence = tracked::begin_run(transaction, cache, &store, study, began, begin)?;
            let (events, logged) = rest(&fence);
            let rest = (events.as_slice(), logged.as_slice());
            tracked::append_run(transaction, cache, &store, &fence, ended, rest)
        })
    }

    fn keep_document(&mut self, digest: &str, body: &str) -> Result<(), StorageError> {
        self.write("keeping a document", |transaction, _| {
            write::keep_document(transaction, digest, body)
        })
    }

    fn request(
        &mut self,
        study: StudyId,
        now: Timestamp,
        request: &Request,
    ) -> Result<i64, StorageError> {
        let store = self.address().to_owned();
        self.write("writing a request", |transaction, cache| {
            write::request(transaction, cache, &store, study, now, request)
        })
    }

    fn pending_requests(&self, study: StudyId) -> Result<Vec<StoredRequest>, StorageError> {
        self.read_of(study, "reading requests", read::pending_requests)
    }

    fn answer(&self, study: StudyId, id: i64) -> Result<Option<RequestAnswer>, StorageError> {
        self.read_of(study, "reading a request", |connection, study| {
            read::answer(connection, study, id)
        })
    }
}
