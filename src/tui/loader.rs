//! The loader: a thread that owns the store's reading side and makes snapshots of what is wanted,
//! so that no frame waits.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::TuiError;
use super::snapshot::{Snapshot, SnapshotRequest};
use super::source::Source;
use super::terminal::Waker;
use crate::storage::StorageError;

/// How often the store is asked whether anything changed: a question of microseconds.
const TURN: Duration = Duration::from_millis(100);
/// How often what is outside the store is looked at.
const OUTSIDE: Duration = Duration::from_secs(1);
/// A store that changes all the time is read no more often than this: trials that report ten times
/// a second need not be followed as fast by whoever watches. What changes after some quiet is read
/// at once.
const SHORTEST_PAUSE: Duration = Duration::from_millis(300);
/// After a load of some time, so many times that time passes before the next, unless a person waits
/// for it.
const PAUSE_FACTOR: u32 = 4;

/// What the loader has to say.
#[derive(Debug)]
pub enum LoaderMessage {
    /// What is known now.
    Snapshot(Box<Snapshot>),
    /// The store could not be read; it is tried again.
    Trouble(String),
    /// What is watched is no longer in the store.
    Removed,
}

/// The near end of the loader.
pub struct Loader {
    wants: Sender<Arc<SnapshotRequest>>,
    news: Receiver<LoaderMessage>,
}

impl Loader {
    /// Starts the thread; `wanted` is what was loaded last. It ends when this end is dropped.
    pub fn start(source: Source, wanted: Arc<SnapshotRequest>, waker: Waker) -> io::Result<Loader> {
        let (wants, wants_there) = channel();
        let (news_there, news) = channel();
        let far = LoaderThread { source, wanted, wants: wants_there, news: news_there, waker };
        thread::Builder::new().name("loader".to_owned()).spawn(move || far.run())?;
        Ok(Loader { wants, news })
    }

    /// Says what is wanted from now on.
    pub fn want(&self, wanted: Arc<SnapshotRequest>) {
        // A loader that is gone is noticed where its news are asked for.
        let _ = self.wants.send(wanted);
    }

    /// The next news, if there are any.
    pub fn news(&self) -> Result<Option<LoaderMessage>, TuiError> {
        match self.news.try_recv() {
            Ok(news) => Ok(Some(news)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(TuiError::Loader),
        }
    }

    /// Whether the thread has ended, or does within `patience`.
    pub fn ends_within(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            match self.news.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

/// Fields are dropped in their order: whoever the waker wakes at the end finds the news to have
/// ended.
struct LoaderThread {
    source: Source,
    wanted: Arc<SnapshotRequest>,
    wants: Receiver<Arc<SnapshotRequest>>,
    news: Sender<LoaderMessage>,
    waker: Waker,
}

impl LoaderThread {
    fn run(mut self) {
        let mut changed = false;
        let mut next_load = Instant::now();
        let mut next_look_outside = Instant::now() + OUTSIDE;
        loop {
            let asked = match self.wants.recv_timeout(TURN) {
                Ok(wanted) => {
                    // Only the last wish counts.
                    self.wanted = self.wants.try_iter().last().unwrap_or(wanted);
                    panic_if_told();
                    true
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match self.source.reader.changed() {
                Ok(now) => changed |= now,
                Err(error) => self.tell(LoaderMessage::Trouble(error.with_remedy())),
            }
            if Instant::now() >= next_look_outside {
                changed |= self.source.changed_outside();
                next_look_outside = Instant::now() + OUTSIDE;
            }
            if asked || (changed && Instant::now() >= next_load) {
                let began = Instant::now();
                let news = match self.source.load(&self.wanted) {
                    Ok(snapshot) => LoaderMessage::Snapshot(Box::new(snapshot)),
                    Err(StorageError::NoStudy { .. }) => LoaderMessage::Removed,
                    Err(error) => LoaderMessage::Trouble(error.with_remedy()),
                };
                changed = matches!(news, LoaderMessage::Trouble(_));
                self.tell(news);
                next_load = Instant::now() + (began.elapsed() * PAUSE_FACTOR).max(SHORTEST_PAUSE);
            }
        }
    }

    fn tell(&self, news: LoaderMessage) {
        // Nobody to tell: the near end is gone, and the next wait ends this thread.
        if self.news.send(news).is_ok() {
            self.waker.wake();
        }
    }
}

/// Panics at the first wish where `HPSEARCH_PANIC_WHEN_LOADING` is set, in debug builds alone: for
/// the test that the screens end with a message then.
fn panic_if_told() {
    if cfg!(debug_assertions) && std::env::var_os("HPSEARCH_PANIC_WHEN_LOADING").is_some() {
        panic!("told to panic while loading");
    }
}
