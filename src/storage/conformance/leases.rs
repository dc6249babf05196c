//! Cases about leases, fencing, requests, and changes by other processes.

use std::path::PathBuf;
use std::time::Duration;

use super::journal::{created, holder, small_study};
use super::{Case, Opener, refused};
use crate::storage::{
    HeldLease, Holder, Lease, RemovedStudy, Storage, StorageError, StudyId, Takeover,
};
use crate::study::budget::Extension;
use crate::study::event::{Event, Seq, StudyEvent};
use crate::study::metric::Direction;
use crate::study::request::{Request, RequestAnswer};
use crate::study::time::Timestamp;
use crate::study::trial::{Note, TrialNumber};

pub(super) const CASES: &[(&str, Case)] = &[
    ("a held study is busy until it is released", busy_until_released),
    ("a takeover fences the old holder off", takeover_fences),
    ("what has changed about a holder is written by itself only", renewed),
    ("a takeover from an older epoch is refused", stale_takeover),
    ("a released lease writes no more", released_lease),
    ("requests are served once, by their study's holder", requests),
    ("notes and tags are written at once and need no lease", entries),
    ("an extended budget is the study's budget", extensions),
    ("a change by another handle is seen once", changes),
    ("a refused append writes nothing", refused_append),
    ("a removed study is gone, its key for good", removed),
    ("only the holder of the present lease removes a study", removed_by_its_holder),
];

fn new_study(store: &mut dyn Storage) -> Result<StudyId, StorageError> {
    store.create_study(Timestamp(1), &small_study("s", Direction::Minimize))
}

fn removed(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let study = new_study(&mut *store)?;
    let kept = store.create_study(Timestamp(1), &small_study("kept", Direction::Minimize))?;
    let other = store.acquire(kept, &holder(1), Timestamp(1), Takeover::IfFree)?;
    store.append(&other, Timestamp(2), &[created(0), created(1)])?;
    let lease = store.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    store.append(&lease, Timestamp(2), &[created(0)])?;
    store.request(study, Timestamp(2), &Request::PauseStudy)?;
    let directories = [PathBuf::from("/runs/files/s"), PathBuf::from("/big/s")];
    let reader = open();
    reader.names()?;
    store.remove_study(&lease, Timestamp(3), &directories)?;
    let gone = refused(reader.study_state(study), "reading a removed study that was listed");
    assert!(gone.to_string().starts_with("`s` is no longer in the store"), "{gone}");
    let left = [RemovedStudy { id: study, name: "s".to_owned(), directories: directories.into() }];
    assert_eq!(open().removed_studies()?, left);
    assert_eq!(open().names()?, [(kept, "kept".to_owned())]);
    assert_eq!(open().study("s")?, None);
    assert_eq!(open().study_state(kept)?.trials.len(), 2);
    for error in [
        refused(open().study_state(study), "reading a removed study"),
        refused(open().append(&lease, Timestamp(4), &[created(1)]), "writing to a removed study"),
        refused(open().request(study, Timestamp(4), &Request::Stop), "asking a removed study"),
    ] {
        assert!(
            matches!(error, StorageError::NoStudy { study: gone, .. } if gone == study),
            "{error}"
        );
    }
    let again = new_study(&mut *store)?;
    assert!(again > kept && store.study_state(again)?.trials.is_empty());
    store.files_removed(study)?;
    assert_eq!(open().removed_studies()?, []);
    let lease = store.acquire(again, &holder(1), Timestamp(5), Takeover::IfFree)?;
    store.remove_study(&lease, Timestamp(6), &[])?;
    assert_eq!(store.removed_studies()?, []);
    assert!(new_study(&mut *store)? > again, "not even that of the newest study");
    Ok(())
}

fn removed_by_its_holder(open: &mut Opener) -> Result<(), StorageError> {
    let (mut one, mut two) = (open(), open());
    let study = new_study(&mut *one)?;
    let lost = one.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    let lease = two.acquire(study, &holder(2), Timestamp(2), Takeover::From(lost.epoch))?;
    let error = refused(one.remove_study(&lost, Timestamp(3), &[]), "removing with a lost lease");
    assert!(matches!(error, StorageError::Fenced { .. }), "{error}");
    two.release(&lease)?;
    let error = refused(two.remove_study(&lease, Timestamp(3), &[]), "removing without a lease");
    assert!(matches!(error, StorageError::Fenced { .. }), "{error}");
    assert_eq!(open().names()?.len(), 1);
    Ok(())
}

fn busy_until_released(open: &mut Opener) -> Result<(), StorageError> {
    let (mut one, mut two) = (open(), open());
    let study = new_study(&mut *one)?;
    assert_eq!(one.summary(study)?.held, None);
    let lease = one.acquire(study, &holder(1), Timestamp(7), Takeover::IfFree)?;
    assert_eq!(
        two.summary(study)?.held,
        Some(HeldLease {
            epoch: lease.epoch,
            holder: holder(1),
            acquired: Timestamp(7),
            lock_file: two.lock_file(study),
            lease_time: two.lease_time(),
        })
    );
    match refused(
        two.acquire(study, &holder(2), Timestamp(8), Takeover::IfFree),
        "taking a held study",
    ) {
        StorageError::Busy { study, holder: found, since } => {
            assert_eq!((study.as_str(), found, since), ("s", holder(1), Timestamp(7)))
        }
        other => panic!("not busy but {other:?}"),
    }
    one.release(&lease)?;
    let next = two.acquire(study, &holder(2), Timestamp(9), Takeover::IfFree)?;
    assert!(next.epoch > lease.epoch, "an epoch is never given twice");
    // Too late: another process holds it.
    one.release(&lease)?;
    assert_eq!(one.summary(study)?.held.map(|held| held.epoch), Some(next.epoch));
    Ok(())
}

fn renewed(open: &mut Opener) -> Result<(), StorageError> {
    let (mut one, mut two) = (open(), open());
    let study = new_study(&mut *one)?;
    let lease = one.acquire(study, &holder(1), Timestamp(7), Takeover::IfFree)?;
    let changed = Holder { boot_id: Some("boot/1/2/3".to_owned()), ..holder(1) };
    one.renew(&lease, &changed)?;
    let (lock_file, lease_time) = (two.lock_file(study), two.lease_time());
    assert_eq!(
        two.summary(study)?.held,
        Some(HeldLease {
            epoch: lease.epoch,
            holder: changed,
            acquired: Timestamp(7),
            lock_file,
            lease_time
        })
    );
    let next = two.acquire(study, &holder(2), Timestamp(8), Takeover::From(lease.epoch))?;
    assert!(matches!(
        refused(one.renew(&lease, &holder(1)), "renewing a lost lease"),
        StorageError::Fenced { .. }
    ));
    assert_eq!(
        one.summary(study)?.held.map(|held| (held.epoch, held.holder)),
        Some((next.epoch, holder(2)))
    );
    Ok(())
}

fn takeover_fences(open: &mut Opener) -> Result<(), StorageError> {
    let (mut old, mut new) = (open(), open());
    let study = new_study(&mut *old)?;
    let dead = old.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    old.append(&dead, Timestamp(2), &[created(0)])?;
    let lease = new.acquire(study, &holder(2), Timestamp(3), Takeover::From(dead.epoch))?;
    let is_fenced = |result| {
        let error = refused(result, "a write with an old lease");
        assert!(error.to_string().starts_with("`s` was taken over"), "{error}");
        matches!(error, StorageError::Fenced { study: found, .. } if found == study)
    };
    assert!(is_fenced(old.append(&dead, Timestamp(4), &[created(1)]).map(drop)));
    assert!(is_fenced(old.update_spec(
        &dead,
        Timestamp(4),
        &small_study("t", Direction::Minimize),
        &[]
    )));
    assert_eq!(new.study_state(study)?.trials.len(), 1);
    assert_eq!(new.events_after(study, Seq(0), 10)?.len(), 1);
    new.append(&lease, Timestamp(5), &[created(1)])?;
    assert_eq!(old.study_state(study)?.trials.len(), 2);
    Ok(())
}

fn stale_takeover(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let study = new_study(&mut *store)?;
    let first = store.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    let second = store.acquire(study, &holder(2), Timestamp(2), Takeover::From(first.epoch))?;
    let late = refused(
        store.acquire(study, &holder(3), Timestamp(3), Takeover::From(first.epoch)),
        "a takeover from the holder before",
    );
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
    let late =
        refused(store.append(&lease, Timestamp(2), &[created(0)]), "a write with a released lease");
    assert!(matches!(late, StorageError::Fenced { .. }));
    let never = Lease { study: StudyId(study.0 + 1), epoch: 1 };
    let unknown =
        refused(store.append(&never, Timestamp(2), &[]), "a write to a study that is not there");
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
        Ok(runner
            .pending_requests(study)?
            .into_iter()
            .map(|stored| (stored.id, stored.request))
            .collect())
    };
    assert_eq!(pending(&*runner)?, [(first, kill), (second, Request::Stop)]);
    assert_eq!(watcher.answer(study, first)?, None);
    let (done, late) =
        (RequestAnswer::Done("killed".to_owned()), RequestAnswer::Refused("too late".to_owned()));
    let served = |id, answer: &RequestAnswer| {
        Event::Study(StudyEvent::RequestServed { id, answer: answer.clone() })
    };
    runner.append(
        &lease,
        Timestamp(4),
        &[served(first, &done), served(first, &late), served(foreign, &done)],
    )?;
    assert_eq!(watcher.answer(study, first)?, Some(done), "the first answer counts");
    assert_eq!(
        (
            watcher.answer(study, foreign)?,
            watcher.answer(other, first)?,
            watcher.answer(study, 99)?
        ),
        (None, None, None)
    );
    assert_eq!(pending(&*runner)?, [(second, Request::Stop)]);
    assert_eq!(
        runner.pending_requests(other)?.len(),
        1,
        "a lease on one study serves no request of another"
    );
    let unknown = refused(
        watcher.request(StudyId(99), Timestamp(5), &Request::Stop),
        "a request to no study",
    );
    assert!(matches!(unknown, StorageError::NoStudy { study: StudyId(99), .. }));
    Ok(())
}

fn entries(open: &mut Opener) -> Result<(), StorageError> {
    let (mut runner, mut writer) = (open(), open());
    let study = new_study(&mut *runner)?;
    let lease = runner.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    runner.append(&lease, Timestamp(2), &[created(0)])?;
    let note = |trial, text: &str| Request::Note { trial, text: text.to_owned() };
    let tag = |trial, present| Request::Tag { trial, tag: "keep".to_owned(), present };
    let trial = Some(TrialNumber(0));
    let first = writer.request(study, Timestamp(3), &note(trial, "läuft gut"))?;
    for (at, request) in (4..).zip([
        tag(trial, true),
        note(None, "about all"),
        tag(None, true),
        tag(None, true),
        tag(None, false),
    ]) {
        writer.request(study, Timestamp(at), &request)?;
    }
    let seen = runner.trial(study, TrialNumber(0))?;
    let written = Note { at: Timestamp(3), text: "läuft gut".to_owned() };
    assert_eq!(
        seen.map(|trial| (trial.notes, trial.tags)),
        Some((vec![written], vec!["keep".to_owned()]))
    );
    let summary = runner.summary(study)?;
    assert_eq!((summary.notes.len(), summary.tags.len()), (1, 0));
    assert!(runner.pending_requests(study)?.is_empty(), "they are done already");
    assert_eq!(runner.answer(study, first)?, Some(RequestAnswer::Done(String::new())));
    let missing = refused(
        writer.request(study, Timestamp(9), &note(Some(TrialNumber(7)), "about nothing")),
        "a note on no trial",
    );
    assert!(matches!(missing, StorageError::NoTrial { trial: TrialNumber(7) }));
    // The holder continues between them; the journal has all of it, and folds to the state.
    runner.append(&lease, Timestamp(10), &[created(1)])?;
    let mut folded = crate::study::state::StudyState::new(&small_study("s", Direction::Minimize));
    for (_, at, event) in runner.events_after(study, Seq(0), u64::MAX)? {
        folded.apply(at, &event);
    }
    assert_eq!(folded, runner.study_state(study)?);
    Ok(())
}

fn extensions(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let mut spec = small_study("s", Direction::Minimize);
    spec.budget.trials = Some(10);
    let study = store.create_study(Timestamp(1), &spec)?;
    let lease = store.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    let by = Extension { trials: 5, time: Duration::from_secs(60), device_hours: 0.5, cost: 0.25 };
    store.append(&lease, Timestamp(2), &[Event::Study(StudyEvent::BudgetExtended { by })])?;
    let summary = open().summary(study)?;
    assert_eq!(
        (summary.spec.budget.trials, summary.spec.budget.time, summary.extension),
        (Some(15), None, by)
    );
    let stored = open().study("s")?;
    assert_eq!(
        stored.map(|stored| (stored.spec.budget.trials, stored.extension)),
        Some((Some(15), by))
    );
    Ok(())
}

fn changes(open: &mut Opener) -> Result<(), StorageError> {
    let (mut writer, mut watcher) = (open(), open());
    assert!(soon_changed(&mut *watcher)?, "at first everything is new");
    assert!(!watcher.changed()?);
    let study = new_study(&mut *writer)?;
    assert!(soon_changed(&mut *watcher)?);
    assert!(!watcher.changed()?);
    writer.changed()?;
    let lease = writer.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    writer.append(&lease, Timestamp(2), &[created(0)])?;
    assert!(soon_changed(&mut *watcher)?);
    assert!(soon_changed(&mut *writer)?, "one's own commits count");
    assert!(!writer.changed()?);
    refused(writer.append(&lease, Timestamp(3), &[created(9)]), "a trial out of order");
    watcher.study_state(study)?;
    assert!(!watcher.changed()?, "neither a refused write nor a read is a change");
    Ok(())
}

/// Whether a change is noticed: at once in a file, within a second on a server.
fn soon_changed(store: &mut dyn Storage) -> Result<bool, StorageError> {
    // A server is waited for in each call.
    for _ in 0..3_000 {
        if store.changed()? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn refused_append(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let study = new_study(&mut *store)?;
    let lease = store.acquire(study, &holder(1), Timestamp(1), Takeover::IfFree)?;
    let gap = refused(
        store.append(&lease, Timestamp(2), &[created(0), created(2)]),
        "a gap in the trials",
    );
    assert!(matches!(
        gap,
        StorageError::OutOfOrder { trial: TrialNumber(2), expected: TrialNumber(1) }
    ));
    assert!(store.study_state(study)?.trials.is_empty());
    assert!(store.events_after(study, Seq(0), 10)?.is_empty());
    store.append(&lease, Timestamp(2), &[created(0), created(1)])?;
    assert_eq!(store.study_state(study)?.trials.len(), 2);
    Ok(())
}
