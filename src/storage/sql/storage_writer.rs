//! [`Storage`] for every store whose database the queries understand.

use std::path::PathBuf;

use super::append::Cache;
use super::column::trial_id;
use super::connection::Connection;
use super::fault::Fault;
use super::storage_reader::Reads;
use super::{remove, remove_run, requests, series, tracked, write};
use crate::storage::tracked::{BeginRun, Move, Recorded, RunFence, TrackerProcess};
use crate::storage::{
    Holder, Lease, Storage, StorageError, StorageReader as _, StoredRequest, StudyId, Takeover,
};
use crate::study::event::{Event, Seq};
use crate::study::request::{Request, RequestAnswer};
use crate::study::series::LoggedSeries;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// A store that writes by statements of a database.
pub(in crate::storage) trait Writes: Reads {
    /// Runs `work` in one transaction, which is rolled back if it fails. It is repeated where the
    /// database asks for it.
    fn write<T>(
        &mut self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection, &mut Cache) -> Result<T, Fault>,
    ) -> Result<T, StorageError>;

    /// [`Storage::look_for_return`].
    fn look_for_return(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}

impl<T: Writes> Storage for T {
    fn look_for_return(&mut self) -> Result<(), StorageError> {
        Writes::look_for_return(self)
    }

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
        events: &[Event],
    ) -> Result<(), StorageError> {
        let store = self.address().to_owned();
        self.write("changing a study", |transaction, cache| {
            write::update_spec(transaction, lease, now, spec)?;
            if !events.is_empty() {
                write::append(transaction, cache, &store, lease, now, events, &[])?;
            }
            Ok(())
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
        events: &[(Timestamp, Event)],
        logged: &[LoggedSeries],
    ) -> Result<(), StorageError> {
        let store = self.address().to_owned();
        self.write("writing a run", |transaction, cache| {
            tracked::append_run(transaction, cache, &store, fence, events, logged)
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
            // The record has all points: those that it lacks now are no longer the run's.
            series::remove_all(transaction, trial_id(study, fence.trial)?)?;
            let (events, logged) = rest(&fence);
            let events: Vec<_> = events.into_iter().map(|event| (ended, event)).collect();
            tracked::append_run(transaction, cache, &store, &fence, &events, &logged)
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
        self.read_of(study, "reading requests", requests::pending_requests)
    }

    fn answer(&self, study: StudyId, id: i64) -> Result<Option<RequestAnswer>, StorageError> {
        self.read_of(study, "reading a request", |connection, study| {
            requests::answer(connection, study, id)
        })
    }
}
