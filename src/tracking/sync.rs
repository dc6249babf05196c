//! Exports runs from the store to other tools' formats, once or while trials run.
//!
//! A destination is written from the store alone, so that a slow, full or unreachable one delays no
//! trial: missing data is written later. A state file beside it records its content and is written
//! last; after a crash, the next call writes the same again.

mod beside;
mod follower;
#[cfg(feature = "mlflow")]
mod mlflow;
#[cfg(feature = "mlflow")]
mod outbox;
mod own_file;
mod protobuf;
mod run_file;
mod tensorboard;
pub(super) mod wandb;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, TryLockError};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Credentials;
#[cfg(feature = "mlflow")]
use super::mlflow::Server;
use crate::report::wording::one_line;
use crate::runner::file_lock::FileLock;
use crate::storage::paths::component;
use crate::storage::{OutcomeCursor, StorageError, StorageReader, StudyId, StudySummary};
use crate::study::destination::{Destination, Tool};
use crate::study::series::{Point, SeriesSummary};
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};

pub use beside::{Behind, behind, forget, write_lag};
pub use follower::{Follower, Listener};
use own_file::replace;

/// The file that identifies the study of a directory.
const MARK: &str = ".hpsearch.json";

/// The file that is locked while a process writes to a directory.
const LOCK: &str = ".hpsearch.lock";

/// Maximum number of bytes of a run's name in the name of its directory.
const LONGEST: usize = 120;

/// All steps.
const ALL: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;

/// Why runs cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another process writes there.
    #[error("another hpsearch writes to {} at the moment", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// This program was built without what MLflow needs.
    #[error("this hpsearch was built without MLflow")]
    NotBuilt,
    /// The server rejects a request, or cannot be reached.
    #[error("{address}: {what}")]
    Server {
        /// Its address.
        address: String,
        /// What is wrong.
        what: String,
    },
    /// The server rejects a run; others may be accepted.
    #[error("{address} does not accept {}: {what}", one_line(run))]
    Refused {
        /// Its address.
        address: String,
        /// The run's name.
        run: String,
        /// Its message.
        what: String,
    },
    /// A file is in the way that this program did not write; other runs may be written.
    #[error("{} is left as it is: {why}", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// Why it is not touched.
        why: String,
    },
    /// The directory has the runs of another study.
    #[error("{} has the runs of another study, `{}`", path.display(), one_line(study))]
    OtherStudy {
        /// The directory.
        path: PathBuf,
        /// Its name when they were written.
        study: String,
    },
}

impl SyncError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> SyncError + use<> {
        let path = path.to_owned();
        move |source| SyncError::Io { path, source }
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            SyncError::Storage(_) => "check the store with `hpsearch doctor`",
            SyncError::Io { .. } => {
                "check that the directory is writable and the disk has free space, then run \
                 `hpsearch sync` again: it continues where it was"
            }
            SyncError::Busy { .. } => {
                "a run of the study with `[track] to`, or another `hpsearch sync`: it writes the \
                 same"
            }
            SyncError::OtherStudy { .. } => "name another directory",
            SyncError::NotOurs { .. } => {
                "move it away, or name another directory, and run `hpsearch sync` again; other \
                 runs are written regardless"
            }
            SyncError::Refused { .. } => {
                "read the server's answer; other runs are sent regardless, and `hpsearch sync` \
                 tries this one again"
            }
            SyncError::NotBuilt => "build it with `cargo build --release --features mlflow`",
            SyncError::Server { .. } => {
                "check that the server is running, that it is an MLflow server, and that \
                 MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD or MLFLOW_TRACKING_TOKEN \
                 are set if it requires them; then run `hpsearch sync` again: it continues where \
                 it was"
            }
        }
    }
}

/// One run in the store.
pub(super) struct Run<'a> {
    reader: &'a dyn StorageReader,
    study: &'a StudySummary,
    trial: &'a Trial,
    series: Vec<SeriesSummary>,
    /// Its summary, by name.
    summary: BTreeMap<String, serde_json::Value>,
    /// When its first attempt started.
    began: Timestamp,
}

impl Run<'_> {
    /// The points of one of its series from a step on.
    fn points(&self, series: &SeriesSummary, from: f64) -> Result<Vec<Point>, StorageError> {
        let range = from..=*ALL.end();
        let (trial, axis) = (self.trial.number, series.axis);
        self.reader.series_points(self.study.id, trial, &series.metric, axis, range)
    }

    /// Its label: its number, and the name of a tracked run.
    fn name(&self) -> String {
        let number = self.trial.number.0;
        match self.trial.origin.tracked().and_then(|run| run.name.as_deref()) {
            Some(name) => format!("run-{number}-{name}"),
            None if self.study.spec.is_tracked() => format!("run-{number}"),
            None => format!("trial-{number}"),
        }
    }

    /// The name of its directory.
    fn directory(&self) -> String {
        let mut name = component(&self.name());
        while name.len() > LONGEST {
            name.pop();
        }
        name
    }

    /// Whether it may log more.
    fn is_open(&self) -> bool {
        matches!(self.trial.state, TrialState::Queued | TrialState::Running | TrialState::Paused)
    }
}

/// Writes the runs of one study in a tool's format.
trait Target: Send {
    /// Called with the study before its runs, at each update.
    fn begin(&mut self, reader: &dyn StorageReader, study: &StudySummary) -> Result<(), SyncError>;

    /// Brings a run up to date; returns the number of points written, `None` if it was up to date.
    fn write(&mut self, run: &Run<'_>) -> Result<Option<u64>, SyncError>;

    /// Runs that the user deleted there and that are not written again.
    fn left_alone(&self) -> u64 {
        0
    }
}

/// The result of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncResult {
    /// Runs that were begun, continued or ended.
    pub runs: u64,
    /// Points of series that were written.
    pub points: u64,
    /// Runs that users deleted there and that are not written again.
    pub left_alone: u64,
}

/// The runs of one study at one destination.
pub struct Mirror {
    target: Box<dyn Target>,
    study: StudyId,
    /// The position up to which it is written.
    cursor: OutcomeCursor,
    /// Runs that may have logged more since then.
    open: BTreeSet<TrialNumber>,
    /// Locked while this lives.
    _lock: Option<FileLock>,
}

impl Mirror {
    /// Opens the study's directory at a destination, or a server, perhaps with credentials.
    ///
    /// # Errors
    /// Another process writes there, it has the runs of another study, or it cannot be written.
    pub fn open(
        reader: &dyn StorageReader,
        study: &StudySummary,
        destination: &Destination,
        credentials: &Credentials,
    ) -> Result<Mirror, SyncError> {
        if destination.tool == Tool::MlFlow {
            return Mirror::on_server(reader, study, destination, credentials);
        }
        let root = destination.place.join(component(&study.spec.name));
        fs::create_dir_all(&root).map_err(SyncError::io(&root))?;
        let path = root.join(LOCK);
        let lock = own_file::open(&path, &[])?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SyncError::Busy { path: root }),
            // A file system without locks: the runs are written without one.
            Err(TryLockError::Error(_)) => {}
        }
        claim(&root, reader, study)?;
        let target: Box<dyn Target> = match destination.tool {
            Tool::TensorBoard => Box::new(tensorboard::TensorBoard::new(root)),
            Tool::Wandb | Tool::MlFlow => Box::new(wandb::Wandb::new(root)),
        };
        Ok(Mirror::new(target, study, Some(FileLock::held_on(lock))))
    }

    fn new(target: Box<dyn Target>, study: &StudySummary, lock: Option<FileLock>) -> Mirror {
        let (cursor, open) = (OutcomeCursor::default(), BTreeSet::new());
        Mirror { target, study: study.id, cursor, open, _lock: lock }
    }

    /// The runs of a study on a server, to which one process at a time writes.
    #[cfg(feature = "mlflow")]
    fn on_server(
        reader: &dyn StorageReader,
        study: &StudySummary,
        destination: &Destination,
        credentials: &Credentials,
    ) -> Result<Mirror, SyncError> {
        let address = destination.place.to_string_lossy();
        let server = Server::new(&address, credentials.clone(), mlflow::PATIENCE);
        let outbox = outbox::Outbox::open(reader, study.id, destination)?;
        Ok(Mirror::new(Box::new(mlflow::MlFlow::new(server, outbox)), study, None))
    }

    #[cfg(not(feature = "mlflow"))]
    fn on_server(
        _reader: &dyn StorageReader,
        _study: &StudySummary,
        _destination: &Destination,
        _credentials: &Credentials,
    ) -> Result<Mirror, SyncError> {
        Err(SyncError::NotBuilt)
    }

    /// Writes what the destination lacks. `begun` is called with the number of runs to check and of
    /// those checked.
    ///
    /// # Errors
    /// The store or the destination failed; the next call writes the rest.
    pub fn update(
        &mut self,
        reader: &dyn StorageReader,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SyncResult, SyncError> {
        let study = reader.summary(self.study)?;
        let mut refused = match self.target.begin(reader, &study) {
            Err(error @ SyncError::NotOurs { .. }) => Some(error),
            begun => begun.map(|()| None)?,
        };
        let (changed, cursor) = reader.outcomes(self.study, self.cursor)?;
        // Open runs stay open until they are written: after an error all are checked again.
        self.open.extend(changed.iter().map(|outcome| outcome.number));
        self.cursor = cursor;
        let (mut written, all) = (SyncResult::default(), self.open.len() as u64);
        for (done, number) in self.open.clone().into_iter().enumerate() {
            progress(done as u64, all);
            let is_open = match reader.trial(self.study, number)? {
                // Trials that have not started have no data, and hidden ones are not exported.
                Some(trial) if trial.attempts == 0 || trial.hidden => !trial.hidden,
                Some(trial) => {
                    let began = reader.began(self.study, number)?.unwrap_or(trial.created);
                    let series = reader.series(self.study, &[number])?;
                    let summary = reader.trial_summary(self.study, number)?;
                    let (study, trial) = (&study, &trial);
                    let run = Run { reader, study, trial, series, summary, began };
                    match self.target.write(&run) {
                        Ok(points) => {
                            written.points += points.unwrap_or(0);
                            written.runs += u64::from(points.is_some());
                            run.is_open()
                        }
                        // A rejected run does not block others.
                        Err(error @ (SyncError::Refused { .. } | SyncError::NotOurs { .. })) => {
                            refused = refused.or(Some(error));
                            true
                        }
                        Err(error) => return Err(error),
                    }
                }
                None => false,
            };
            if !is_open {
                self.open.remove(&number);
            }
        }
        progress(all, all);
        written.left_alone = self.target.left_alone();
        refused.map_or(Ok(written), Err)
    }
}

/// Identifies the study of a directory.
#[derive(Serialize, Deserialize)]
struct Mark {
    version: u32,
    /// The name of the store ([`StorageReader::identity`]).
    store: Option<String>,
    /// The study's key in it.
    key: i64,
    study: String,
}

/// Checks that the directory is empty or this study's, and marks it.
fn claim(root: &Path, reader: &dyn StorageReader, study: &StudySummary) -> Result<(), SyncError> {
    let (path, store) = (root.join(MARK), reader.identity()?);
    if let Some(bytes) = own_file::read(&path)?
        && let Ok(mark) = serde_json::from_slice::<Mark>(&bytes)
        && (mark.store != store || mark.key != study.id.0)
    {
        return Err(SyncError::OtherStudy { path: root.to_owned(), study: mark.study });
    }
    let mark = Mark { version: 1, store, key: study.id.0, study: study.spec.name.clone() };
    replace(&path, &serde_json::to_vec(&mark).unwrap_or_default())
}

/// Seconds since 1970.
#[expect(clippy::cast_precision_loss, reason = "microseconds of this century are exact")]
fn seconds(at: Timestamp) -> f64 {
    at.0 as f64 / 1e6
}
