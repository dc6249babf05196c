//! Exclusive access to a study: the lease in the store, and a lock file beside it that tells
//! whether the holder is alive.
//!
//! A holder keeps a lock (`flock`) on a file beside the store. The kernel releases it when the
//! holder dies, however it dies, and every process that sees the file sees the lock, while process
//! ids are meaningless across containers. The lock is taken before the lease and released after it;
//! the lease and its epoch decide who writes, the lock only who is alive.
//!
//! The lease identifies the locked file by inode, since the path can be replaced: if the file was
//! removed or recreated, its lock is meaningless, and process ids decide where they are comparable.
//! A holder that finds its file missing recreates and locks it.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::file_lock::FileLock;
use super::{killed_runner, last_moment, now};
use crate::report::wording::rough_duration;
use crate::runner::processes;
use crate::storage::{HeldLease, Holder, Lease, Storage, StorageError, StoredStudy, Takeover};

/// A lease held only to serve requests is shorter than this.
const MOMENT: Duration = Duration::from_millis(500);

/// Checking a lock holds it for an instant: one held for longer is a runner's.
const GLANCE: Duration = Duration::from_millis(100);

/// How often a lease is renewed during its time.
const RENEWALS: u32 = 4;

/// Whether the process that holds a study is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Alive.
    Alive,
    /// Dead.
    Dead,
    /// Undecidable: it is on another machine, or its lock file was removed and its process id is
    /// not comparable.
    Unknown,
}

/// The state of a lock, observed without taking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockState {
    Held,
    Free,
    /// The holder's file is missing, or its file system has no locks.
    Unknown,
}

/// The identity of a holder besides its process id, in the column of the boot id:
/// `BOOT/LOCK/STORE/NAMESPACE`; in earlier versions the boot id alone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    boot: String,
    files: Option<MarkedFiles>,
}

/// Inodes as the holder sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MarkedFiles {
    /// Of the file that it keeps locked; unique while the holder lives.
    lock: u64,
    /// Of its store: a copy of the store differs, and its lease says nothing about holders of the
    /// copy.
    store: u64,
    /// Of its PID namespace, in which its process id is valid.
    namespace: u64,
}

impl Mark {
    /// This process, with `lock` on the file at `path`.
    fn own(lock: &FileLock, path: &Path) -> Option<Mark> {
        let files = || {
            let lock = lock.metadata().ok()?.ino();
            Some(MarkedFiles {
                lock,
                store: store_of(path)?,
                namespace: processes::pid_namespace().unwrap_or(0),
            })
        };
        Some(Mark { boot: processes::boot_id()?, files: files() })
    }

    fn of(holder: &Holder) -> Option<Mark> {
        let text = holder.boot_id.as_deref()?;
        let mut parts = text.split('/');
        let boot = parts.next().unwrap_or_default().to_owned();
        let mut number = || parts.next()?.parse().ok();
        let files = number()
            .zip(number())
            .zip(number())
            .map(|((lock, store), namespace)| MarkedFiles { lock, store, namespace });
        Some(Mark { boot, files })
    }

    /// Whether process ids are comparable with the holder's. Earlier versions did not check.
    fn shares_process_ids(&self) -> bool {
        self.files.is_none_or(|files| files.namespace == processes::pid_namespace().unwrap_or(0))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.boot)?;
        let Some(MarkedFiles { lock, store, namespace }) = self.files else { return Ok(()) };
        write!(f, "/{lock}/{store}/{namespace}")
    }
}

/// The inode of the store beside a lock file, `STORE.run-1`.
fn store_of(lock_file: &Path) -> Option<u64> {
    Some(std::fs::metadata(lock_file.with_extension("")).ok()?.ino())
}

/// This process's lease on a study, with its lock.
#[derive(Debug)]
pub struct OwnLease {
    lease: Lease,
    lock: Option<(FileLock, PathBuf)>,
    renewed: Instant,
}

impl OwnLease {
    /// Renews the lease in time, in stores where leases end. In others, recreates and locks the
    /// lock file if it was removed or replaced; while another process checks it, or it cannot be
    /// created, nothing changes: until the next call, process ids decide.
    ///
    /// # Errors
    /// The store failed, or the study was taken over.
    pub fn keep(&mut self, storage: &mut dyn Storage) -> Result<(), StorageError> {
        if let Some(time) = storage.lease_time()
            && self.renewed.elapsed() >= time / RENEWALS
        {
            // Counted from before: the server may answer late.
            let now = Instant::now();
            storage.renew(&self.lease, &identified_process())?;
            self.renewed = now;
        }
        let Some((lock, path)) = &mut self.lock else { return Ok(()) };
        if is_at(lock, path) {
            return Ok(());
        }
        if let Locking::Taken(anew) = try_lock(path) {
            let mark = Mark::own(&anew, path).map(|mark| mark.to_string());
            storage.renew(&self.lease, &Holder { boot_id: mark, ..this_process() })?;
            *lock = anew;
        }
        Ok(())
    }
}

impl OwnLease {
    /// Whether it has a lock, by whose absence others see that its holder is dead.
    pub fn has_lock(&self) -> bool {
        self.lock.is_some()
    }

    /// When it ends unless it is renewed, in stores where leases end.
    pub fn end(&self, storage: &dyn Storage) -> Option<Instant> {
        storage.lease_time().map(|time| self.renewed + time)
    }
}

impl Deref for OwnLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// This process as the holder of a lease without a lock.
pub fn this_process() -> Holder {
    let pid = std::process::id();
    Holder {
        pid,
        pid_started: processes::start_time(pid).unwrap_or(0),
        host: processes::host(),
        boot_id: None,
    }
}

/// This process as a holder without a lock whose liveness others can determine: its id is valid in
/// its namespace, for this boot of the machine.
pub fn identified_process() -> Holder {
    let namespace = processes::pid_namespace().unwrap_or(0);
    let files = Some(MarkedFiles { lock: 0, store: 0, namespace });
    let mark = processes::boot_id().map(|boot| Mark { boot, files });
    Holder { boot_id: mark.map(|mark| mark.to_string()), ..this_process() }
}

/// Whether a process without a lock is alive.
pub fn process_liveness(process: &Holder) -> Liveness {
    judge(process, LockState::Unknown)
}

/// Whether the holder of a study is alive; decided only here.
pub fn liveness(held: &HeldLease) -> Liveness {
    let found = judge(
        &held.holder,
        held.lock_file
            .as_deref()
            .map_or(LockState::Unknown, |path| seen_of(&held.holder, path, look_at(path))),
    );
    match found {
        Liveness::Unknown if held.lease_time.is_some() => Liveness::Alive,
        found => found,
    }
}

fn judge(holder: &Holder, lock: LockState) -> Liveness {
    let (is_here, own_boot) = (holder.host == processes::host(), processes::boot_id());
    let by_process_id = || match (is_here, processes::is_alive(holder.pid, holder.pid_started)) {
        (true, true) => Liveness::Alive,
        (true, false) => Liveness::Dead,
        (false, _) => Liveness::Unknown,
    };
    let (Some(mark), Some(own_boot)) = (Mark::of(holder), own_boot) else { return by_process_id() };
    match lock {
        LockState::Held => Liveness::Alive,
        // Started before the last boot, or on another machine.
        _ if mark.boot != own_boot => {
            if is_here {
                Liveness::Dead
            } else {
                Liveness::Unknown
            }
        }
        LockState::Free => Liveness::Dead,
        // The file was removed; the holder may still be alive.
        LockState::Unknown if mark.shares_process_ids() => by_process_id(),
        LockState::Unknown => Liveness::Unknown,
    }
}

/// What the lock at `path`, in this `state`, says about a holder: nothing if it locked another
/// file.
fn seen_of(holder: &Holder, path: &Path, state: LockState) -> LockState {
    let Some(files) = Mark::of(holder).and_then(|mark| mark.files) else { return state };
    let is_copy = store_of(path).is_some_and(|store| store != files.store);
    let is_its_file = std::fs::metadata(path).is_ok_and(|file| file.ino() == files.lock);
    match state {
        // No process holds the lock of a copy that was copied without it.
        LockState::Unknown if is_copy && !path.exists() => LockState::Free,
        _ if is_copy || is_its_file => state,
        _ => LockState::Unknown,
    }
}

fn look_at(path: &Path) -> LockState {
    let Ok(file) = File::open(path) else { return LockState::Unknown };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _closed_next = flock(&file, FlockOperation::Unlock);
            LockState::Free
        }
        Err(Errno::WOULDBLOCK) => LockState::Held,
        Err(_) => LockState::Unknown,
    }
}

/// The result of trying to take a lock.
enum Locking {
    Taken(FileLock),
    /// By a holder, or for an instant by a check.
    Held,
    /// No file can be locked here: process ids decide.
    Impossible,
}

fn try_lock(path: &Path) -> Locking {
    // Another user's file can be locked, if not written.
    let open = || {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .or_else(|_| File::open(path))
    };
    loop {
        let Ok(file) = open() else { return Locking::Impossible };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // The file may have been removed since it was opened: no other process would see its
            // lock.
            Ok(()) if is_at(&file, path) => return Locking::Taken(FileLock::held_on(file)),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Locking::Held,
            Err(_) => return Locking::Impossible,
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let same = || -> io::Result<bool> {
        let (opened, there) = (file.metadata()?, std::fs::metadata(path)?);
        Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino()))
    };
    same().unwrap_or(false)
}

/// Takes the lease of a study: at once if it is free or its holder is dead. A very recent one may
/// be held only to serve a request, and is waited for.
///
/// # Errors
/// The store failed, another process holds the study, or it is a study of tracked runs, which is
/// not searched.
pub fn take_lease(
    storage: &mut dyn Storage,
    study: &StoredStudy,
) -> Result<OwnLease, StorageError> {
    if study.spec.is_tracked() {
        return Err(StorageError::Tracked { study: study.spec.name.clone() });
    }
    take_lease_of_any(storage, study)
}

/// The same, also for a study of tracked runs while none is active: to rename or remove it.
///
/// # Errors
/// The store failed, another process holds the study, or a run of it is active.
pub fn take_lease_of_any(
    storage: &mut dyn Storage,
    study: &StoredStudy,
) -> Result<OwnLease, StorageError> {
    let (path, began) = (storage.lock_file(study.id), Instant::now());
    loop {
        let locking = path.as_deref().map_or(Locking::Impossible, try_lock);
        let held = storage.summary(study.id)?.held;
        // An acquisition in the future (the system clock was set back) is not waited for.
        let is_fresh = |held: &HeldLease| now().since(held.acquired) < MOMENT;
        let lock = match (locking, &held) {
            (Locking::Taken(lock), _) => Some(lock),
            (Locking::Impossible, _) => None,
            (Locking::Held, _) if began.elapsed() < GLANCE => {
                std::thread::sleep(MOMENT / 50);
                continue;
            }
            (Locking::Held, held)
                if held.as_ref().is_none_or(is_fresh) && began.elapsed() < 2 * MOMENT =>
            {
                std::thread::sleep(MOMENT / 50);
                continue;
            }
            (Locking::Held, Some(held)) => return Err(refusal(storage, study, held)?),
            // The lock's holder does not take the lease: the lease decides.
            (Locking::Held, None) => None,
        };
        let takeover = match held {
            Some(held) if liveness_beside(&held, lock.is_some()) == Liveness::Dead => {
                Takeover::From(held.epoch)
            }
            _ => Takeover::IfFree,
        };
        let lock = lock.zip(path.clone());
        let me = match &lock {
            Some((lock, path)) => {
                let mark = Mark::own(lock, path).map(|mark| mark.to_string());
                Holder { boot_id: mark, ..this_process() }
            }
            None if storage.lease_time().is_some() => identified_process(),
            None => this_process(),
        };
        let asked = Instant::now();
        match storage.acquire(study.id, &me, now(), takeover) {
            Err(StorageError::Busy { since, .. })
                if now().since(since) < MOMENT && began.elapsed() < 2 * MOMENT =>
            {
                drop(lock);
                std::thread::sleep(MOMENT / 50);
            }
            Err(error @ StorageError::Busy { .. }) => {
                drop(lock);
                let held = storage.summary(study.id)?.held;
                if held.as_ref().is_some_and(|held| may_end(held, began)) {
                    std::thread::sleep(MOMENT / 5);
                    continue;
                }
                return Err(match held {
                    Some(held) => refusal(storage, study, &held)?,
                    None => error,
                });
            }
            Err(error) => return Err(error),
            Ok(lease) => {
                killed_runner::record_end(storage, &lease)?;
                return Ok(OwnLease { lease, lock, renewed: asked });
            }
        }
    }
}

/// Releases a study of tracked runs whose holder was killed, such as a command that renamed or
/// removed it. What prevents that now is left to a later call.
///
/// # Errors
/// The store failed.
pub fn release_of_dead(storage: &mut dyn Storage, study: &StoredStudy) -> Result<(), StorageError> {
    let held = storage.summary(study.id)?.held;
    if held.is_some_and(|held| liveness(&held) == Liveness::Dead)
        && let Ok(lease) = take_lease_of_any(storage, study)
    {
        storage.release(&lease)?;
    }
    Ok(())
}

/// Whether it is worth waiting for the end of a lease: its holder is on another machine, where it
/// may have died, or is stopped here.
fn may_end(held: &HeldLease, began: Instant) -> bool {
    let Holder { pid, pid_started, host, .. } = &held.holder;
    let is_here = *host == processes::host();
    let is_stopped = || processes::is_alive(*pid, *pid_started) && processes::is_stopped(*pid);
    held.lease_time.is_some_and(|time| began.elapsed() < time + MOMENT)
        && (!is_here
            || judge(&held.holder, LockState::Unknown) == Liveness::Unknown
            || is_stopped())
}

/// The same if the lock may be this process's own.
fn liveness_beside(held: &HeldLease, is_own: bool) -> Liveness {
    match held.lock_file.as_deref().filter(|_| is_own) {
        Some(path) => judge(&held.holder, seen_of(&held.holder, path, LockState::Free)),
        None => liveness(held),
    }
}

/// Why the study is not available.
fn refusal(
    storage: &dyn Storage,
    study: &StoredStudy,
    held: &HeldLease,
) -> Result<StorageError, StorageError> {
    let (name, holder) = (study.spec.name.clone(), held.holder.clone());
    let is_stopped =
        || processes::is_alive(holder.pid, holder.pid_started) && processes::is_stopped(holder.pid);
    Ok(match liveness(held) {
        Liveness::Unknown => {
            let wrote = last_moment(storage, study.id)?.unwrap_or(held.acquired);
            let (held, wrote) =
                (rough_duration(now().since(held.acquired)), rough_duration(now().since(wrote)));
            StorageError::HeldElsewhere { study: name, holder: Box::new(holder), held, wrote }
        }
        _ if holder.host == processes::host() && is_stopped() => {
            StorageError::HolderStopped { study: name, holder }
        }
        _ => StorageError::Busy { study: name, holder, since: held.acquired },
    })
}

/// Takes a study from a holder on another host whose liveness is unknown: the user asserts that it
/// is dead. Its attempts are closed as a dead runner's. Late writes of it are fenced, and end it;
/// the progress of its trials since their last checkpoint is lost. Returns the former holder, if
/// there was one.
///
/// # Errors
/// The store failed, or the study changed hands at this moment.
pub fn take_over(
    storage: &mut dyn Storage,
    study: &StoredStudy,
) -> Result<Option<Holder>, StorageError> {
    let held = storage.summary(study.id)?.held.filter(|held| liveness(held) == Liveness::Unknown);
    let Some(held) = held else { return Ok(None) };
    let lease = storage.acquire(study.id, &this_process(), now(), Takeover::From(held.epoch))?;
    let closed = killed_runner::record_end(storage, &lease);
    storage.release(&lease)?;
    closed.map(|()| Some(held.holder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32, boot_id: Option<&str>) -> Holder {
        let boot_id = boot_id.map(str::to_owned);
        Holder {
            pid,
            pid_started: processes::start_time(pid).unwrap_or(1),
            host: processes::host(),
            boot_id,
        }
    }

    /// An id that no process has: like that of a process in another PID namespace.
    const NOWHERE: u32 = u32::MAX;

    #[test]
    fn a_holder_lives_as_long_as_its_lock_wherever_its_process_id_means_something() {
        use LockState::{Free, Held};
        let (own_boot, mine) = (processes::boot_id().unwrap(), std::process::id());
        let before = Some("00000000-0000-4000-8000-000000000000");
        let now = Some(own_boot.as_str());
        // If the lock file was removed, process ids decide.
        let removed = LockState::Unknown;
        for (pid, boot, is_here, lock, expected) in [
            (NOWHERE, now, true, Held, Liveness::Alive),
            (NOWHERE, now, true, Free, Liveness::Dead),
            // A process with this id is alive here, but is not the holder.
            (mine, now, true, Free, Liveness::Dead),
            (NOWHERE, now, false, Held, Liveness::Alive),
            (NOWHERE, now, false, Free, Liveness::Dead),
            (mine, now, true, removed, Liveness::Alive),
            (NOWHERE, now, true, removed, Liveness::Dead),
            (mine, now, false, removed, Liveness::Unknown),
            // From before the last boot, and from another machine.
            (mine, before, true, Free, Liveness::Dead),
            (mine, before, true, removed, Liveness::Dead),
            (mine, before, false, Free, Liveness::Unknown),
            (mine, before, false, Held, Liveness::Alive),
            // Earlier versions: identified by process id and start time, whatever the lock.
            (mine, None, true, Held, Liveness::Alive),
            (mine, None, true, Free, Liveness::Alive),
            (mine, None, true, removed, Liveness::Alive),
            (NOWHERE, None, true, Held, Liveness::Dead),
            (NOWHERE, None, true, Free, Liveness::Dead),
            (NOWHERE, None, true, removed, Liveness::Dead),
            (NOWHERE, None, false, Held, Liveness::Unknown),
            (NOWHERE, None, false, Free, Liveness::Unknown),
            (NOWHERE, None, false, removed, Liveness::Unknown),
        ] {
            let mut holder = holder(pid, boot);
            if !is_here {
                holder.host = "another".to_owned();
            }
            assert_eq!(judge(&holder, lock), expected, "{holder:?}: {lock:?}");
        }
    }

    #[test]
    fn the_lock_of_another_file_than_the_holders_says_nothing_about_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db.run-1");
        std::fs::write(directory.path().join("store.db"), "a store").unwrap();
        let Locking::Taken(lock) = try_lock(&path) else { panic!("nobody holds it") };
        let mark = Mark::own(&lock, &path).unwrap();
        let marked = |mark: &Mark| holder(std::process::id(), Some(&mark.to_string()));
        let me = marked(&mark);
        assert_eq!(Mark::of(&me), Some(mark.clone()));
        assert_eq!(seen_of(&me, &path, look_at(&path)), LockState::Held);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(seen_of(&me, &path, look_at(&path)), LockState::Unknown);
        // Recreated, free or held.
        let Locking::Taken(other) = try_lock(&path) else { panic!("nobody holds it") };
        assert_eq!(seen_of(&me, &path, look_at(&path)), LockState::Unknown);
        drop(other);
        assert_eq!(seen_of(&me, &path, look_at(&path)), LockState::Unknown);
        assert_eq!(judge(&me, LockState::Unknown), Liveness::Alive);
        let gone = Holder { pid: NOWHERE, ..me.clone() };
        assert_eq!(judge(&gone, LockState::Unknown), Liveness::Dead);
        // Its process id is valid in its namespace only.
        let files = mark.files.map(|files| MarkedFiles { namespace: files.namespace + 1, ..files });
        let foreign = marked(&Mark { files, ..mark.clone() });
        assert_eq!(judge(&foreign, LockState::Unknown), Liveness::Unknown);
        // For a copy of its store its own lock says nothing, and the copy's decides.
        let files = mark.files.map(|files| MarkedFiles { store: files.store + 1, ..files });
        let of_a_copy = marked(&Mark { files, ..mark });
        assert_eq!(seen_of(&of_a_copy, &path, look_at(&path)), LockState::Free);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(seen_of(&of_a_copy, &path, look_at(&path)), LockState::Free);
    }

    #[test]
    fn a_lock_is_seen_without_being_taken_and_is_free_when_its_holder_lets_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db.run-1");
        assert_eq!(look_at(&path), LockState::Unknown);
        let Locking::Taken(lock) = try_lock(&path) else { panic!("nobody holds it") };
        assert_eq!(look_at(&path), LockState::Held);
        assert!(matches!(try_lock(&path), Locking::Held));
        // A surviving child does not keep it.
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(lock);
        assert_eq!((look_at(&path), look_at(&path)), (LockState::Free, LockState::Free));
        assert!(matches!(try_lock(&path), Locking::Taken(_)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
