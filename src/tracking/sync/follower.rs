//! Destinations that are written while a study runs, each by a thread of its own: whatever holds one
//! up, the study does not wait for it.

#![expect(clippy::disallowed_methods, reason = "a thread of its own, which waits")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Mirror, SyncError};
use crate::storage::StorageReader as _;
use crate::storage::StudyId;
use crate::storage::sqlite::SqliteReader;
use crate::study::destination::Destination;

/// How often a destination is brought up to date.
const PERIOD: Duration = Duration::from_secs(2);

/// How long after a study's end is waited for its destinations.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often is looked whether they are done.
const LOOK: Duration = Duration::from_millis(20);

/// A destination that lacks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// Which.
    pub destination: Destination,
    /// Why.
    pub why: String,
}

/// A destination that is written by a thread.
struct Written {
    destination: Destination,
    thread: Option<JoinHandle<()>>,
    /// Why the last attempt failed; `None`: it did not.
    trouble: Arc<Mutex<Option<String>>>,
}

/// The destinations of a study that runs.
pub struct Follower {
    /// Dropped to have the threads write what is left, and leave.
    stop: Vec<Sender<()>>,
    destinations: Vec<Written>,
}

impl Follower {
    /// Begins to write the runs of a study in the store at `store` to its destinations.
    pub fn start(store: &Path, study: StudyId, destinations: &[Destination]) -> Follower {
        let (mut stop, mut all) = (Vec::new(), Vec::new());
        for destination in destinations {
            let (tx, rx) = channel();
            let trouble: Arc<Mutex<Option<String>>> = Arc::default();
            let follow = Follow {
                store: store.to_owned(),
                study,
                destination: destination.clone(),
                trouble: Arc::clone(&trouble),
            };
            let started = thread::Builder::new()
                .name("destination".to_owned())
                .spawn(move || follow.until_stopped(&rx));
            let thread = match started {
                Ok(thread) => Some(thread),
                Err(error) => {
                    set(&trouble, Some(format!("no thread can be started: {error}")));
                    None
                }
            };
            stop.push(tx);
            all.push(Written { destination: destination.clone(), thread, trouble });
        }
        Follower { stop, destinations: all }
    }

    /// Waits, not for long, until all is written; what is not.
    pub fn finish(mut self) -> Vec<Behind> {
        self.stop.clear();
        let until = Instant::now() + PATIENCE;
        let mut behind = Vec::new();
        for Written { destination, thread, trouble } in std::mem::take(&mut self.destinations) {
            let mut is_done = thread.is_none();
            if let Some(thread) = thread {
                while !thread.is_finished() && Instant::now() < until {
                    thread::sleep(LOOK);
                }
                is_done = thread.is_finished();
            }
            let why = trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let why = why.or_else(|| {
                (!is_done).then(|| format!("it is not written after {} s", PATIENCE.as_secs()))
            });
            behind.extend(why.map(|why| Behind { destination, why }));
        }
        behind
    }
}

fn set(trouble: &Mutex<Option<String>>, why: Option<String>) {
    *trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
}

/// What a thread needs to know.
struct Follow {
    store: PathBuf,
    study: StudyId,
    destination: Destination,
    trouble: Arc<Mutex<Option<String>>>,
}

impl Follow {
    fn until_stopped(&self, stop: &Receiver<()>) {
        let mut mirror = None;
        loop {
            let is_over = stop.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
            match self.update(&mut mirror) {
                Ok(()) => set(&self.trouble, None),
                Err(error) => {
                    // What is there may be anything: it is looked at anew.
                    mirror = None;
                    set(&self.trouble, Some(error.to_string()));
                }
            }
            if is_over {
                return;
            }
        }
    }

    fn update(&self, mirror: &mut Option<(SqliteReader, Mirror)>) -> Result<(), SyncError> {
        let (reader, mirror) = match mirror {
            Some(open) => open,
            None => {
                let reader = SqliteReader::open(&self.store)?;
                let study = reader.summary(self.study)?;
                let open = Mirror::open(&reader, &study, &self.destination)?;
                mirror.insert((reader, open))
            }
        };
        mirror.update(reader, &mut |_, _| {}).map(|_| ())
    }
}
