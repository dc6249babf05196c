//! Updates destinations while a study runs, each on its own thread, so that a slow one does not
//! delay the study.

#![expect(clippy::disallowed_methods, reason = "a thread of its own, which waits")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Behind, Mirror, SyncError, write_lag};
use crate::storage::StorageReader as _;
use crate::storage::StudyId;
use crate::storage::any::AnyReader;
use crate::study::counted::count;
use crate::study::destination::Destination;
use crate::tracking::Credentials;

/// Interval between updates of a destination.
const PERIOD: Duration = Duration::from_secs(2);

/// Maximum wait after failures; each failure in a row doubles it.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Timeout of waiting for destinations at a study's end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Poll interval of that wait.
const LOOK: Duration = Duration::from_millis(20);

/// An update that takes longer counts as lagging.
const SLOW: Duration = Duration::from_secs(10);

/// Called on a destination's thread when it begins to lag, with the reason, and when it has caught
/// up.
pub type Listener = Arc<dyn Fn(&Destination, Option<&str>) + Send + Sync>;

/// A destination and its thread.
struct DestinationThread {
    destination: Destination,
    thread: Option<JoinHandle<()>>,
    /// Why the last update failed; `None`: it succeeded.
    trouble: Arc<Mutex<Option<String>>>,
}

/// The destinations of a study that runs.
pub struct Follower {
    /// Dropped to have the threads write the rest and exit.
    stop: Vec<Sender<()>>,
    destinations: Vec<DestinationThread>,
}

impl Follower {
    /// Starts exporting the runs of a study in the store at `store` to its destinations.
    pub fn start(
        store: &Path,
        study: StudyId,
        destinations: &[Destination],
        credentials: &Credentials,
        listener: &Listener,
    ) -> Follower {
        let (mut stop, mut all) = (Vec::new(), Vec::new());
        for destination in destinations {
            let (tx, rx) = channel();
            let trouble: Arc<Mutex<Option<String>>> = Arc::default();
            let follow = Follow {
                store: store.to_owned(),
                study,
                destination: destination.clone(),
                credentials: credentials.clone(),
                trouble: Arc::clone(&trouble),
                listener: Arc::clone(listener),
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
            all.push(DestinationThread { destination: destination.clone(), thread, trouble });
        }
        Follower { stop, destinations: all }
    }

    /// Waits, with a timeout, until everything is written; returns the destinations that lag
    /// behind.
    pub fn finish(mut self) -> Vec<Behind> {
        self.stop.clear();
        let until = Instant::now() + PATIENCE;
        let mut behind = Vec::new();
        for DestinationThread { destination, thread, trouble } in
            std::mem::take(&mut self.destinations)
        {
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

/// The data of a thread.
struct Follow {
    store: PathBuf,
    study: StudyId,
    destination: Destination,
    credentials: Credentials,
    trouble: Arc<Mutex<Option<String>>>,
    listener: Listener,
}

impl Follow {
    fn until_stopped(&self, stop: &Receiver<()>) {
        let (mut mirror, mut pause) = (None, PERIOD);
        loop {
            let is_over = stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
            match self.update(&mut mirror) {
                Ok(()) => {
                    pause = PERIOD;
                    self.stands(None);
                }
                Err(error) => {
                    // Its content is unknown: it is read again.
                    mirror = None;
                    pause = LONGEST_PAUSE.min(pause * 2);
                    self.stands(Some(error.to_string()));
                }
            }
            if is_over {
                return;
            }
        }
    }

    /// Notifies the listener of a change.
    fn stands(&self, why: Option<String>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if *trouble == why {
            return;
        }
        let is_news = trouble.is_some() != why.is_some();
        trouble.clone_from(&why);
        drop(trouble);
        if let Ok(reader) = AnyReader::open(&self.store) {
            write_lag(&reader, self.study, &self.destination, why.as_deref());
        }
        if is_news {
            (self.listener)(&self.destination, why.as_deref());
        }
    }

    fn update(&self, mirror: &mut Option<(AnyReader, Mirror)>) -> Result<(), SyncError> {
        let (reader, mirror) = match mirror {
            Some(open) => open,
            None => {
                let reader = AnyReader::open(&self.store)?;
                let study = reader.summary(self.study)?;
                let open = Mirror::open(&reader, &study, &self.destination, &self.credentials)?;
                mirror.insert((reader, open))
            }
        };
        let began = Instant::now();
        let mut progress = |done, all| {
            if done < all && began.elapsed() > SLOW {
                let (done, all) = (done + 1, count(all, "run"));
                self.stands(Some(format!(
                    "it is slow: {done} of {all} after {} s",
                    SLOW.as_secs()
                )));
            }
        };
        mirror.update(reader, &mut progress).map(|_| ())
    }
}
