//! `hpsearch writer`: the background process of a program that logs; it reads the program's spool
//! and reports as JSON lines.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::{Console, Exit, Failure};
use crate::app::spools;
use crate::runner::threads;
use crate::storage::any::AnyStore;
use crate::storage::{StorageError, StorageReader as _};
use crate::tracking::{Notice, Program, SpoolWriter, TrackingError, names_a_run, write_spool};

const EXAMPLES: &str = "\
Examples:
  hpsearch writer --spool runs/spool/20261123-120000-1f3a5c.9d0e1b2c.jsonl

The Python client starts it. Run by hand, it stores an orphaned spool and ends
its run.";

/// Polling interval, unless the program announces more.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of such intervals during which a store that was moved away is waited for after the
/// program has ended. Until then the wait has no limit.
const WAITS: u32 = 10;

/// How long a store that another process keeps locked is waited for after the program has ended.
/// Until then the wait has no limit.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Arguments of `hpsearch writer`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct WriterArguments {
    /// The file that the program writes
    #[arg(long, value_name = "FILE")]
    pub spool: PathBuf,
}

/// Processes the spool until its program has ended, and then orphaned spools beside it.
pub fn writer(arguments: &WriterArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (store, spool) = (console.store.clone(), arguments.spool.clone());
    let mut adopting = {
        let (store, spool) = (store.clone(), spool.clone());
        Some(threads::spawn("adopt", move || adopt(&store, &spool))?)
    };
    let growth = watch_program()?;
    if names_a_run(&spool) {
        // What that run logged last may lie in an orphaned spool.
        let _tried_again = adopting.take().map(JoinHandle::join);
    }
    let written = write(&store, &spool, &growth);
    let has_adopted = adopting.is_none_or(|adopting| adopting.join().unwrap_or(false));
    if written.is_ok() && !has_adopted {
        // The store may have been locked.
        adopt(&store, &spool);
    }
    match written {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            let exit = exit_of(&error);
            if is_refused(&error) {
                say(&json!({ "refused": format!("{error}: {}", error.remedy()) }));
            } else if exit == Exit::Usage {
                say(&json!({ "error": format!("{error}: what was logged stays in `{}`",
                    spool.display()) }));
            }
            if exit != Exit::Usage {
                say(&json!({ "trouble": error.to_string() }));
            }
            Err(Failure::new(exit, error.to_string()).help(error.remedy()))
        }
    }
}

fn write(store: &Path, spool: &Path, growth: &Receiver<()>) -> Result<(), TrackingError> {
    let mut gone = None;
    let (mut storage, id) = wait_for_lock(growth, &mut gone, || {
        let storage = AnyStore::open(store)?;
        let id = storage.identity()?;
        Ok((storage, id))
    })?;
    loop {
        let written =
            wait_for_lock(growth, &mut gone, || write_to(&mut storage, store, spool, growth));
        let Err(TrackingError::Storage(moved @ StorageError::Moved { .. })) = written else {
            return written;
        };
        say(&json!({ "trouble": moved.to_string() }));
        drop(storage);
        storage = wait_for_return(store, id.as_deref(), growth).ok_or(moved)?;
    }
}

/// Does something with the store, again as long as another process keeps it locked. `gone`: when
/// the end of the program was noticed.
fn wait_for_lock<T>(
    growth: &Receiver<()>,
    gone: &mut Option<Instant>,
    mut act: impl FnMut() -> Result<T, TrackingError>,
) -> Result<T, TrackingError> {
    loop {
        let locked = match act() {
            Err(TrackingError::Storage(locked)) if locked.is_locked() => locked,
            done => return done,
        };
        say(&json!({ "trouble": locked.to_string() }));
        if is_gone(growth) && gone.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
            return Err(locked.into());
        }
        // Some locks are answered at once.
        threads::sleep(INTERVAL);
    }
}

/// Whether the program has ended.
fn is_gone(growth: &Receiver<()>) -> bool {
    loop {
        match growth.try_recv() {
            Ok(()) => {}
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => return true,
        }
    }
}

/// The store at this path, once it is the one with this id. Until then none is created there.
fn wait_for_return(store: &Path, id: Option<&str>, growth: &Receiver<()>) -> Option<AnyStore> {
    let mut waits = 0;
    loop {
        threads::sleep(INTERVAL);
        if let Ok(storage) = AnyStore::open_existing(store)
            && storage.identity().is_ok_and(|found| found.as_deref() == id)
        {
            return Some(storage);
        }
        waits += u32::from(is_gone(growth));
        if waits >= WAITS {
            return None;
        }
    }
}

fn write_to(
    storage: &mut AnyStore,
    store: &Path,
    spool: &Path,
    growth: &Receiver<()>,
) -> Result<(), TrackingError> {
    let wait = &mut || match growth.recv_timeout(INTERVAL) {
        Err(RecvTimeoutError::Disconnected) => Program::Gone,
        Ok(()) | Err(RecvTimeoutError::Timeout) => Program::Lives,
    };
    write_spool(spool, SpoolWriter { storage, store, wait, say: &mut notice })
}

/// Processes the spools of programs that were killed with their writers; `false` if the store
/// failed.
fn adopt(store: &Path, spool: &Path) -> bool {
    let directory = spool.parent().unwrap_or(Path::new("."));
    // Events of other runs are not reported to the program. The next writer tries again.
    spools::take_over(directory, spool, store).is_ok()
}

/// Signals on standard input: the spool has grown, or, at its end, the program has ended. On a
/// terminal there is no program.
fn watch_program() -> io::Result<Receiver<()>> {
    let (grown, growth) = channel();
    if io::stdin().is_terminal() {
        return Ok(growth);
    }
    threads::spawn("program", move || {
        let mut bytes = [0; 256];
        while io::stdin().read(&mut bytes).is_ok_and(|count| count > 0) {
            if grown.send(()).is_err() {
                return;
            }
        }
    })?;
    Ok(growth)
}

fn notice(notice: Notice) {
    say(&match notice {
        Notice::Run { study, trial, name } => {
            json!({ "study": study, "trial": trial, "name": name })
        }
        Notice::Note(text) => json!({ "note": text }),
        Notice::Stop(why) => json!({ "stop": why }),
    });
}

/// Sends a message to the program, which may have ended.
fn say(message: &serde_json::Value) {
    let mut out = io::stdout().lock();
    let _ended = writeln!(out, "{message}").and_then(|()| out.flush());
}

/// Whether the run that the program names is not as the program says.
fn is_refused(error: &TrackingError) -> bool {
    matches!(
        error,
        TrackingError::NoRun { .. } | TrackingError::NoStudy { .. } | TrackingError::Exists { .. }
    )
}

/// `Usage` for errors that a retry cannot fix.
fn exit_of(error: &TrackingError) -> Exit {
    match error {
        TrackingError::Storage(StorageError::RunFenced { .. } | StorageError::Searched { .. })
        | TrackingError::Spool(_)
        | TrackingError::StudyName { .. } => Exit::Usage,
        error if is_refused(error) => Exit::Usage,
        TrackingError::Storage(_) | TrackingError::Files(_) => Exit::Store,
        _ => Exit::Internal,
    }
}
