//! Cases about who may write: leases, fencing, requests, and seeing that others wrote.

use super::journal::{created, holder, small_study};
use super::{Case, Opener, refused};
use crate::event::{Request, Seq};
use crate::metric::Direction;
use crate::storage::{HeldLease, Lease, Storage, StorageError, StudyId, Takeover};
use crate::time::Timestamp;
use crate::trial::TrialNumber;

pub(super) const CASES: &[(&str, Case)] = &[
    ("a held study is busy until it is released", busy_until_released),
    ("a takeover fences the old holder off", takeover_fences),
    ("a takeover from an older epoch is refused", stale_takeover),
    ("a released lease writes no more", released_lease),
    ("requests are served once, by their study's holder", requests),
    ("a change by another handle is seen once", changes),
    ("a refused append writes nothing", refused_append),
];

fn new_study(store: &mut dyn Storage) -> Result<StudyId, StorageError> {
    store.create_study(Timestamp(1), &small_study("s", Direction::Minimize))
}

fn busy_until_released(open: &mut Opener) -> Result<(), StorageError> {
    let (mut one, mut two) = (open(), open());
    let study = new_study(&mut *one)?;
    assert_eq!(one.summary(study)?.held, None);
    let lease = one.acquire(study, &holder(1), Timestamp(7), Takeover::IfFree)?;
    assert_eq!(two.summary(study)?.held, Some(HeldLease { epoch: lease.epoch, holder: holder(1), acquired: Timestamp(7) }));
    match refused(two.acquire(study, &holder(2), Timestamp(8), Takeover::IfFree), "taking a held study") {
        StorageError::Busy { study, holder: found, since } => assert_eq!((study.as_str(), found, since), ("s", holder(1), Timestamp(7))),
        other => panic!("not busy but {other:?}"),
    }
    one.release(&lease)?;
    let next = two.acquire(study, &holder(2), Timestamp(9), Takeover::IfFree)?;
    assert!(next.epoch > lease.epoch, "an epoch is never given twice");
    // Too late: it is someone else's.
    one.release(&lease)?;
    assert_eq!(one.summary(study)?.held.map(|held| held.epoch), Some(next.epoch));
    Ok(())
}

fn takeover_fences(open: &mut Opener) -> Result<(), StorageError> {
    let (mut old, mut new) = (open(), open());
    let study = new_study(&mut *old)?;
    let dead = old.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    old.append(&dead, Timestamp(2), &[created(0)])?;
    let lease = new.acquire(study, &holder(2), Timestamp(3), Takeover::From(dead.epoch))?;
    let is_fenced = |result| matches!(refused(result, "a write with an old lease"), StorageError::Fenced { study: found } if found == study);
    assert!(is_fenced(old.append(&dead, Timestamp(4), &[created(1)]).map(drop)));
    assert!(is_fenced(old.update_spec(&dead, Timestamp(4), &small_study("t", Direction::Minimize))));
    assert!(is_fenced(old.serve_request(&dead, Timestamp(4), 1)));
    assert_eq!(new.view(study)?.trials.len(), 1);
    assert_eq!(new.events_after(study, Seq(0), 10)?.len(), 1);
    new.append(&lease, Timestamp(5), &[created(1)])?;
    assert_eq!(old.view(study)?.trials.len(), 2);
    Ok(())
}

fn stale_takeover(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let study = new_study(&mut *store)?;
    let first = store.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    let second = store.acquire(study, &holder(2), Timestamp(2), Takeover::From(first.epoch))?;
    let late = refused(store.acquire(study, &holder(3), Timestamp(3), Takeover::From(first.epoch)), "a takeover from the holder before");
    assert!(matches!(late, StorageError::Busy { holder: found, .. } if found == holder(2)));
    store.release(&second)?;
    store.acquire(study, &holder(3), Timestamp(3), Takeover::From(first.epoch))?;
    Ok(())
}

fn released_lease(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let study = new_study(&mut *store)?;
    let lease = store.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    store.release(&lease)?;
    let late = refused(store.append(&lease, Timestamp(2), &[created(0)]), "a write with a released lease");
    assert!(matches!(late, StorageError::Fenced { .. }));
    let never = Lease { study: StudyId(study.0 + 1), epoch: 1 };
    let unknown = refused(store.append(&never, Timestamp(2), &[]), "a write to a study that is not there");
    assert!(matches!(unknown, StorageError::NoStudy { .. }));
    Ok(())
}

fn requests(open: &mut Opener) -> Result<(), StorageError> {
    let (mut runner, mut watcher) = (open(), open());
    let study = new_study(&mut *runner)?;
    let other = runner.create_study(Timestamp(1), &small_study("other", Direction::Minimize))?;
    let lease = runner.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    let kill = Request::Kill { trial: TrialNumber(3) };
    let first = watcher.request(study, Timestamp(2), &kill)?;
    let foreign = watcher.request(other, Timestamp(2), &Request::Stop)?;
    let second = watcher.request(study, Timestamp(3), &Request::Stop)?;
    let pending = |runner: &dyn Storage| -> Result<Vec<_>, StorageError> {
        Ok(runner.pending_requests(study)?.into_iter().map(|stored| (stored.id, stored.request)).collect())
    };
    assert_eq!(pending(&*runner)?, [(first, kill), (second, Request::Stop)]);
    runner.serve_request(&lease, Timestamp(4), first)?;
    runner.serve_request(&lease, Timestamp(4), first)?;
    runner.serve_request(&lease, Timestamp(4), foreign)?;
    assert_eq!(pending(&*runner)?, [(second, Request::Stop)]);
    assert_eq!(runner.pending_requests(other)?.len(), 1, "a lease on one study serves no request of another");
    let unknown = refused(watcher.request(StudyId(99), Timestamp(5), &Request::Stop), "a request to no study");
    assert!(matches!(unknown, StorageError::NoStudy { study: StudyId(99) }));
    Ok(())
}

fn changes(open: &mut Opener) -> Result<(), StorageError> {
    let (mut writer, mut watcher) = (open(), open());
    assert!(watcher.changed()?, "at first everything is new");
    assert!(!watcher.changed()?);
    let study = new_study(&mut *writer)?;
    assert!(watcher.changed()?);
    assert!(!watcher.changed()?);
    writer.changed()?;
    let lease = writer.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    writer.append(&lease, Timestamp(2), &[created(0)])?;
    assert!(watcher.changed()?);
    assert!(writer.changed()?, "one's own commits count");
    assert!(!writer.changed()?);
    refused(writer.append(&lease, Timestamp(3), &[created(9)]), "a trial out of order");
    watcher.view(study)?;
    assert!(!watcher.changed()?, "neither a refused write nor a read is a change");
    Ok(())
}

fn refused_append(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let study = new_study(&mut *store)?;
    let lease = store.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    let gap = refused(store.append(&lease, Timestamp(2), &[created(0), created(2)]), "a gap in the trials");
    assert!(matches!(gap, StorageError::OutOfOrder { trial: TrialNumber(2), expected: TrialNumber(1) }));
    assert!(store.view(study)?.trials.is_empty());
    assert!(store.events_after(study, Seq(0), 10)?.is_empty());
    store.append(&lease, Timestamp(2), &[created(0), created(1)])?;
    assert_eq!(store.view(study)?.trials.len(), 2);
    Ok(())
}
