//! How far the runs of a study have been sent to a destination: a directory beside the store, with
//! one for each destination, in which a file for each run says so.
//!
//! A file is replaced as a whole: before something is sent, with what will be there, and after it was
//! taken. Whatever is killed in between, it is known what may be there and what surely is.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::beside::of_destination;
use super::run_file::State;
use super::{LOCK, SyncError, replace};
use crate::storage::{StorageReader, StudyId};
use crate::study::destination::Destination;
use crate::study::series::SeriesClock;
use crate::study::trial::TrialNumber;

/// A name on a server that is not that of the metric, or not on the study's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeriesName {
    pub metric: String,
    pub clock: SeriesClock,
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
    /// The server's name of the run; `None`: it has none yet.
    pub run: Option<String>,
    /// Earlier runs there, which are to be deleted: they have what does not hold any more.
    pub obsolete: Vec<String>,
    /// The points and the end that are surely there.
    pub sent: State,
    /// Those that may be there: something was being sent.
    pub pending: Option<State>,
    /// What it is called there.
    pub title: String,
    /// Tags that are, or may be, there.
    pub tags: BTreeMap<String, String>,
    /// Parameters that are, or may be, there.
    pub params: Vec<SentParam>,
    /// What its series are called there.
    pub series: Vec<SeriesName>,
}

impl Record {
    /// The run begins anew there.
    pub fn start_again(&mut self) {
        let mut obsolete = std::mem::take(&mut self.obsolete);
        obsolete.extend(self.run.take());
        *self = Record { obsolete, ..Record::default() };
    }

    /// All that may be there.
    pub fn reached(&self) -> &State {
        self.pending.as_ref().unwrap_or(&self.sent)
    }
}

/// The files of a destination.
pub(super) struct Outbox {
    /// `None` of a store in memory, whose records are, too.
    directory: Option<PathBuf>,
    records: BTreeMap<TrialNumber, Record>,
    /// Locked while this lives.
    _lock: Option<File>,
}

impl Outbox {
    /// Takes it for this process.
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
                Some(lock)
            }
        };
        Ok(Outbox { directory, records: BTreeMap::new(), _lock: lock })
    }

    /// How far a run has been sent. A file that cannot be read says nothing: the run begins anew.
    ///
    /// # Errors
    /// The file cannot be looked at.
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

    /// Says how far a run has been sent.
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
