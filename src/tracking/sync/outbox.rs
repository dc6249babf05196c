//! Records how far runs have been sent: a directory beside the store for each destination, with a
//! file for each run.
//!
//! A file is replaced atomically before sending, with the target state, and after the server has
//! accepted it. After a crash it is known what may be there and what certainly is.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::beside::of_destination;
use super::run_file::RunFileState;
use super::{LOCK, SyncError, replace};
use crate::runner::file_lock::FileLock;
use crate::storage::{StorageReader, StudyId};
use crate::study::destination::Destination;
use crate::study::series::SeriesAxis;
use crate::study::trial::TrialNumber;

/// A series whose name on a server differs from the metric's, or which is not on the study's axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeriesName {
    pub metric: String,
    #[serde(rename = "clock")]
    pub axis: SeriesAxis,
    pub name: String,
}

/// A parameter on a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentParam {
    /// Its name here.
    pub param: String,
    /// Its name there.
    pub name: String,
    /// Its text there.
    pub value: String,
}

/// How far a run has been sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The server's id of the run; `None`: not created yet.
    pub run: Option<String>,
    /// Outdated runs there, to be deleted.
    pub obsolete: Vec<String>,
    /// The points and the end that are certainly there.
    pub sent: RunFileState,
    /// Those that may be there: they were in flight.
    pub pending: Option<RunFileState>,
    /// Its name there.
    pub title: String,
    /// Tags that are, or may be, there.
    pub tags: BTreeMap<String, String>,
    /// Parameters that are, or may be, there.
    pub params: Vec<SentParam>,
    /// The names of its series there.
    pub series: Vec<SeriesName>,
}

impl Record {
    /// The run is to be created again there.
    pub fn start_again(&mut self) {
        let mut obsolete = std::mem::take(&mut self.obsolete);
        obsolete.extend(self.run.take());
        *self = Record { obsolete, ..Record::default() };
    }

    /// Everything that may be there.
    pub fn reached(&self) -> &RunFileState {
        self.pending.as_ref().unwrap_or(&self.sent)
    }
}

/// The files of a destination.
pub(super) struct Outbox {
    /// `None` for a store in memory, whose records are in memory, too.
    directory: Option<PathBuf>,
    records: BTreeMap<TrialNumber, Record>,
    /// Locked while this lives.
    _lock: Option<FileLock>,
}

impl Outbox {
    /// Opens and locks it.
    ///
    /// # Errors
    /// Another process has it, or it cannot be written.
    pub fn open(
        reader: &dyn StorageReader,
        study: StudyId,
        destination: &Destination,
    ) -> Result<Outbox, SyncError> {
        let directory = of_destination(reader, study, destination);
        let lock = match &directory {
            None => None,
            Some(directory) => {
                fs::create_dir_all(directory).map_err(SyncError::io(directory))?;
                let path = directory.join(LOCK);
                let lock = File::create(&path).map_err(SyncError::io(&path))?;
                if let Err(TryLockError::WouldBlock) = lock.try_lock() {
                    return Err(SyncError::Busy { path: destination.place.clone() });
                }
                Some(FileLock::held_on(lock))
            }
        };
        Ok(Outbox { directory, records: BTreeMap::new(), _lock: lock })
    }

    /// Reads how far a run has been sent. If the file is invalid, the run is created again.
    ///
    /// # Errors
    /// The file cannot be accessed.
    pub fn read(&self, trial: TrialNumber) -> Result<Record, SyncError> {
        let Some(path) = self.path(trial) else {
            return Ok(self.records.get(&trial).cloned().unwrap_or_default());
        };
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
            Err(source) => Err(SyncError::Io { path, source }),
        }
    }

    /// Records how far a run has been sent.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, trial: TrialNumber, record: &Record) -> Result<(), SyncError> {
        let Some(path) = self.path(trial) else {
            self.records.insert(trial, record.clone());
            return Ok(());
        };
        let json = serde_json::to_vec(record)
            .map_err(|error| SyncError::Io { path: path.clone(), source: error.into() })?;
        replace(&path, &json)
    }

    fn path(&self, trial: TrialNumber) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{}.json", trial.0)))
    }
}
