//! Cases about lists: counts, the best trial, orders and pages.

use super::journal::{created, finished, reported, started};
use super::records::held_study;
use super::{Case, Opener};
use crate::storage::{Lease, Storage, StorageError};
use crate::study::event::{Event, StateEvent};
use crate::study::metric::Direction;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::state::Counts;
use crate::study::time::Timestamp;
use crate::study::trial::{TrialNumber, TrialState};

pub(super) const CASES: &[(&str, Case)] = &[
    ("an empty study has nothing to list", empty),
    ("trials are counted by state", counts),
    ("the best trial is the first of the best values, never NaN", best),
    ("a hidden trial is never the best, and left out of what is visible", hidden),
    ("trials are ranked by value, then by their last report", ranking),
    ("pages of a ranking join up", pages),
];

fn complete(store: &mut dyn Storage, lease: &Lease, values: &[f64]) -> Result<(), StorageError> {
    for (trial, value) in (0..).zip(values) {
        store.append(
            lease,
            Timestamp(2),
            &[created(trial), finished(trial, TrialState::Complete, Some(*value))],
        )?;
    }
    Ok(())
}

fn numbers(
    store: &dyn Storage,
    lease: &Lease,
    order: SortKey,
    offset: u64,
    limit: u64,
) -> Result<Vec<u64>, StorageError> {
    Ok(store
        .trials(lease.study, &TrialQuery::all(order).page(offset, limit))?
        .iter()
        .map(|trial| trial.number.0)
        .collect())
}

fn empty(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let summary = store.summary(lease.study)?;
    assert_eq!((summary.counts, summary.best, summary.finished), (Counts::default(), None, None));
    assert!(numbers(&*store, &lease, SortKey::Value, 0, 10)?.is_empty());
    assert!(store.study_state(lease.study)?.trials.is_empty());
    assert!(store.attempts(lease.study, None)?.is_empty());
    assert_eq!(store.studies()?.len(), 1);
    Ok(())
}

fn counts(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    let mut events: Vec<_> = (0..7).map(created).collect();
    events.extend([
        started(1, 0),
        started(2, 0),
        started(3, 0),
        finished(4, TrialState::Complete, Some(1.0)),
    ]);
    events.extend([finished(5, TrialState::Pruned, None), finished(6, TrialState::Failed, None)]);
    events.push(crate::study::event::Event::of(
        TrialNumber(3),
        crate::study::event::StateEvent::Paused { reason: "rung 1".to_owned(), hold: None },
    ));
    store.append(&lease, Timestamp(2), &events)?;
    let expected = Counts { queued: 1, running: 2, paused: 1, complete: 1, pruned: 1, failed: 1 };
    assert_eq!(open().summary(lease.study)?.counts, expected);
    assert_eq!(open().study_state(lease.study)?.counts, expected);
    Ok(())
}

fn best(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Maximize)?;
    complete(&mut *store, &lease, &[f64::NAN, 0.5, 0.75, 0.75, f64::NEG_INFINITY])?;
    // Not complete: its value would be best.
    store.append(
        &lease,
        Timestamp(3),
        &[created(5), reported(5, 0, 1, 9.0), finished(5, TrialState::Pruned, None)],
    )?;
    assert_eq!(store.summary(lease.study)?.best, Some((TrialNumber(2), 0.75)));
    let mut only_nan = open();
    let spec = super::small_study("only nan", Direction::Minimize);
    let study = only_nan.create_study(Timestamp(1), &spec)?;
    let lease = only_nan.acquire(
        study,
        &super::journal::holder(1),
        Timestamp(1),
        crate::storage::Takeover::IfFree,
    )?;
    complete(&mut *only_nan, &lease, &[f64::NAN])?;
    assert_eq!(only_nan.summary(study)?.best, None);
    Ok(())
}

fn hidden(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    complete(&mut *store, &lease, &[3.0, 1.0, 2.0])?;
    let hide = |number| Event::of(TrialNumber(number), StateEvent::Hidden);
    store.append(&lease, Timestamp(3), &[hide(1)])?;
    let summary = open().summary(lease.study)?;
    assert_eq!((summary.best, summary.hidden), (Some((TrialNumber(2), 2.0)), 1));
    assert_eq!(open().study_state(lease.study)?.leader(), summary.best);
    assert_eq!(summary.counts.complete, 3, "it was a trial of the search");
    assert_eq!(numbers(&*store, &lease, SortKey::Value, 0, 9)?, [1, 2, 0]);
    for (order, expected) in [(SortKey::Value, [2, 0]), (SortKey::Number, [0, 2])] {
        let visible = TrialQuery::all(order).filtered(summary.visible(Filter::all()));
        let found = store.numbers(lease.study, &visible)?;
        assert_eq!(found.iter().map(|number| number.0).collect::<Vec<_>>(), expected);
        assert_eq!(store.count(lease.study, &visible.filter)?, 2);
    }
    // It continues, and counts as an ordinary trial.
    let from = TrialState::Complete;
    let events = [
        Event::of(TrialNumber(1), StateEvent::Continued { until: 9, from }),
        finished(1, TrialState::Complete, Some(0.5)),
    ];
    store.append(&lease, Timestamp(4), &events)?;
    let summary = open().summary(lease.study)?;
    assert_eq!((summary.best, summary.hidden), (Some((TrialNumber(1), 0.5)), 0));
    assert_eq!(open().study_state(lease.study)?.leader(), summary.best);
    Ok(())
}

fn ranking(open: &mut Opener) -> Result<(), StorageError> {
    for (direction, expected) in [
        (Direction::Minimize, [3, 5, 0, 4, 6, 2, 1, 8, 7, 11, 9, 10]),
        (Direction::Maximize, [2, 6, 0, 4, 5, 3, 1, 11, 7, 8, 9, 10]),
    ] {
        let mut store = open();
        let spec = super::small_study(direction.as_str(), direction);
        let study = store.create_study(Timestamp(1), &spec)?;
        let lease = store.acquire(
            study,
            &super::journal::holder(1),
            Timestamp(1),
            crate::storage::Takeover::IfFree,
        )?;
        complete(
            &mut *store,
            &lease,
            &[0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, -1.0, 1.0],
        )?;
        let mut events: Vec<_> = (7..12).map(created).collect();
        // The last report counts, not the best one; a rerun of an earlier step does not count as
        // last.
        events.extend([
            reported(7, 0, 1, -9.0),
            reported(7, 0, 2, 2.0),
            started(8, 0),
            reported(8, 0, 5, -2.0),
            reported(8, 0, 4, 7.0),
        ]);
        events.extend([
            reported(9, 0, 1, f64::NAN),
            reported(11, 0, 1, f64::INFINITY),
            finished(11, TrialState::Pruned, None),
        ]);
        store.append(&lease, Timestamp(2), &events)?;
        assert_eq!(numbers(&*store, &lease, SortKey::Value, 0, 100)?, expected, "{direction:?}");
        assert!(numbers(&*store, &lease, SortKey::Number, 0, 100)?.into_iter().eq(0..12));
    }
    Ok(())
}

fn pages(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = held_study(&mut *store, Direction::Minimize)?;
    complete(&mut *store, &lease, &[0.3, 0.1, f64::NAN, 0.1, 0.2])?;
    for order in [SortKey::Value, SortKey::Number, SortKey::Step] {
        let all = numbers(&*store, &lease, order.clone(), 0, u64::MAX)?;
        let mut joined = Vec::new();
        for offset in [0, 2, 4, 6] {
            joined.extend(numbers(&*store, &lease, order.clone(), offset, 2)?);
        }
        assert_eq!(joined, all);
        assert!(numbers(&*store, &lease, order.clone(), 0, 0)?.is_empty());
        assert!(numbers(&*store, &lease, order.clone(), u64::MAX, u64::MAX)?.is_empty());
    }
    assert_eq!(numbers(&*store, &lease, SortKey::Value, 0, 3)?, [1, 3, 4]);
    Ok(())
}
