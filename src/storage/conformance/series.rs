//! Cases about series: what trials log of any metric at any step.

use std::ops::RangeInclusive;

use super::journal::{METRIC, STRANGE, created, reported, started};
use super::records::held_study;
use super::{Case, Opener};
use crate::storage::{Lease, Storage, StorageError, StudyId};
use crate::study::device::{Device, Slot};
use crate::study::event::{AttemptEvent, Event, TrialEvent};
use crate::study::metric::Direction;
use crate::study::series::{LoggedPoint, LoggedSeries, Pixel, Pixels, Point, SeriesAxis};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

pub(super) const CASES: &[(&str, Case)] = &[
    ("points come back exactly, from any number of appends", exactly),
    ("points out of order are sorted, and of one step the last stands", out_of_order),
    ("a later attempt supersedes from its first step on, an earlier one is refused", attempts),
    ("steps that are left out are counted for each series", counted),
    ("reports are series, and join what is logged on their axis", reports_join),
    ("pixels are what all points come to", pixels),
    ("a range is read alone", ranges),
    ("series of trials that are not there are dropped", not_there),
    ("an attempt logs until another follows", of_the_newest_attempt),
];

const TRIAL: TrialNumber = TrialNumber(0);
const ALL: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;

fn logged(attempt: u32, metric: &str, points: &[(Option<f64>, f64)]) -> LoggedSeries {
    let point = |(number, (step, value)): (i64, &(Option<f64>, f64))| LoggedPoint {
        step: *step,
        value: *value,
        at: Timestamp(1_000 + number),
    };
    LoggedSeries {
        trial: TRIAL,
        attempt: AttemptNumber(attempt),
        metric: metric.to_owned(),
        axis: SeriesAxis::Step,
        points: (0..).zip(points).map(point).collect(),
    }
}

fn stepped(attempt: u32, metric: &str, points: &[(f64, f64)]) -> LoggedSeries {
    let points: Vec<_> = points.iter().map(|(step, value)| (Some(*step), *value)).collect();
    logged(attempt, metric, &points)
}

/// A study with one trial, which runs.
fn one_trial(store: &mut dyn Storage) -> Result<Lease, StorageError> {
    let lease = held_study(store, Direction::Minimize)?;
    store.append(&lease, Timestamp(1), &[created(0), started(0, 0)])?;
    Ok(lease)
}

fn log(store: &mut dyn Storage, lease: &Lease, logged: LoggedSeries) -> Result<(), StorageError> {
    store.append_logged(lease, Timestamp(2), &[], &[logged])?;
    assert_eq!(store.series_fault(lease.study)?, None);
    Ok(())
}

fn read(
    store: &dyn Storage,
    study: StudyId,
    metric: &str,
) -> Result<Vec<(f64, f64)>, StorageError> {
    let points = store.series_points(study, TRIAL, metric, SeriesAxis::Step, ALL)?;
    Ok(points.iter().map(|point| (point.step, point.value)).collect())
}

/// As text, so that NaN equals NaN.
fn said(points: &[(f64, f64)]) -> String {
    format!("{points:?}")
}

fn exactly(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    let value = |step: u32| STRANGE[step as usize % STRANGE.len()];
    let all: Vec<(f64, f64)> = (0..3_000).map(|step| (f64::from(step), value(step))).collect();
    for part in [&all[..1], &all[1..600], &all[600..1112], &all[1112..]] {
        log(&mut *store, &lease, stepped(0, "loss", part))?;
    }
    let points = open().series_points(lease.study, TRIAL, "loss", SeriesAxis::Step, ALL)?;
    assert_eq!(points.len(), all.len());
    for (point, (step, value)) in points.iter().zip(&all) {
        let is_same =
            point.step.to_bits() == step.to_bits() && point.value.to_bits() == value.to_bits();
        assert!(is_same, "{point:?} instead of {value} at {step}");
    }
    let listed = open().series(lease.study, &[TRIAL])?;
    assert_eq!(listed.len(), 1);
    let series = &listed[0];
    assert_eq!(
        (series.metric.as_str(), series.axis, series.count),
        ("loss", SeriesAxis::Step, 3_000)
    );
    assert_eq!((series.first, series.last), (0.0, 2_999.0));
    assert_eq!(points[0].at, Timestamp(1_000));
    Ok(())
}

fn out_of_order(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    log(&mut *store, &lease, stepped(0, "a", &[(5.0, 1.0), (2.0, 2.0), (5.0, 3.0), (0.5, 4.0)]))?;
    let expected = [(0.5, 4.0), (2.0, 2.0), (5.0, 3.0)];
    assert_eq!(read(&*store, lease.study, "a")?, expected);
    log(
        &mut *store,
        &lease,
        stepped(0, "a", &[(2.0, 9.0), (1.0, 8.0), (f64::NAN, 1.0), (-3.0, 7.0)]),
    )?;
    let expected = [(-3.0, 7.0), (0.5, 4.0), (1.0, 8.0), (2.0, 9.0), (5.0, 3.0)];
    assert_eq!(read(&*store, lease.study, "a")?, expected);
    // Several chunks in a permuted order: 7 and 2^12 have no common divisor.
    let step = |index: u32| f64::from(index * 7 % 4096);
    let shuffled: Vec<_> = (0..4096).map(|index| (step(index), f64::from(index))).collect();
    for part in shuffled.chunks(300) {
        log(&mut *store, &lease, stepped(0, "b", part))?;
    }
    let mut sorted = shuffled;
    sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert_eq!(read(&*store, lease.study, "b")?, sorted);
    Ok(())
}

fn attempts(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    let first: Vec<_> = (0..1_000).map(|step| (f64::from(step), 0.0)).collect();
    log(&mut *store, &lease, stepped(0, "loss", &first))?;
    log(&mut *store, &lease, stepped(0, "other", &first[..3]))?;
    store.append(&lease, Timestamp(3), &[started(0, 1)])?;
    assert_eq!(read(&*store, lease.study, "loss")?.len(), 1_000, "what ran before is still there");
    log(&mut *store, &lease, stepped(0, "loss", &[(2_000.0, 5.0)]))?;
    assert_eq!(read(&*store, lease.study, "loss")?.len(), 1_000, "an attempt that was followed");
    log(&mut *store, &lease, stepped(1, "loss", &[(700.0, 1.0), (701.0, 1.0)]))?;
    let points = read(&*store, lease.study, "loss")?;
    assert_eq!((points.len(), points[699], points[701]), (702, (699.0, 0.0), (701.0, 1.0)));
    log(&mut *store, &lease, stepped(1, "loss", &[(10.0, 2.0)]))?;
    let points = read(&*store, lease.study, "loss")?;
    assert_eq!((points.len(), points[10], points[11]), (702, (10.0, 2.0), (11.0, 0.0)));
    assert_eq!(read(&*store, lease.study, "other")?.len(), 3, "each series by itself");
    Ok(())
}

fn counted(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    log(&mut *store, &lease, logged(0, "a", &[(None, 0.1), (None, 0.2)]))?;
    log(&mut *store, &lease, logged(0, "a", &[(None, 0.3), (Some(10.0), 0.4), (None, 0.5)]))?;
    log(&mut *store, &lease, logged(0, "b", &[(None, 1.0)]))?;
    let expected = [(1.0, 0.1), (2.0, 0.2), (3.0, 0.3), (10.0, 0.4), (11.0, 0.5)];
    assert_eq!(read(&*store, lease.study, "a")?, expected);
    assert_eq!(read(&*store, lease.study, "b")?, [(1.0, 1.0)]);
    // From the beginning, and from a checkpoint.
    store.append(&lease, Timestamp(3), &[started(0, 1)])?;
    log(&mut *store, &lease, logged(1, "a", &[(None, 7.0), (None, 8.0)]))?;
    assert_eq!(read(&*store, lease.study, "a")?, [(1.0, 7.0), (2.0, 8.0)]);
    let resumed = TrialEvent::Attempt(AttemptEvent::Started {
        attempt: AttemptNumber(2),
        slot: Slot::on(0, Device::Cpu),
        resume: Some((1, "/checkpoints/1".into())),
        until: None,
        rows_at_once: None,
        device_micros: 0,
    });
    store.append(&lease, Timestamp(4), &[Event::Trial(TRIAL, resumed)])?;
    log(&mut *store, &lease, logged(2, "a", &[(None, 9.0)]))?;
    assert_eq!(read(&*store, lease.study, "a")?, [(1.0, 7.0), (2.0, 8.0), (3.0, 9.0)]);
    // After the reports of the metric, on their axis.
    store.append(&lease, Timestamp(5), &[reported(0, 2, 2, 0.5)])?;
    let axis = SeriesAxis::Epoch;
    for value in [0.25, 0.125] {
        log(&mut *store, &lease, LoggedSeries { axis, ..logged(2, METRIC, &[(None, value)]) })?;
    }
    let points = store.series_points(lease.study, TRIAL, METRIC, axis, ALL)?;
    let points: Vec<_> = points.iter().map(|point| (point.step, point.value)).collect();
    assert_eq!(points, [(2.0, 0.5), (3.0, 0.25), (4.0, 0.125)]);
    Ok(())
}

fn reports_join(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    store.append(&lease, Timestamp(2), &[reported(0, 0, 2, 0.5), reported(0, 0, 4, f64::NAN)])?;
    let axis = SeriesAxis::Epoch;
    let points = |store: &dyn Storage| {
        let points = store.series_points(lease.study, TRIAL, METRIC, axis, ALL)?;
        Ok::<_, StorageError>(
            points.iter().map(|point| (point.step, point.value)).collect::<Vec<_>>(),
        )
    };
    let listed = store.series(lease.study, &[TRIAL])?;
    assert_eq!((listed.len(), listed[0].axis, listed[0].count), (1, axis, 2));
    assert!(listed[0].last_value.is_nan() && listed[0].last == 4.0);
    assert_eq!(said(&points(&*store)?), said(&[(2.0, 0.5), (4.0, f64::NAN)]));
    log(&mut *store, &lease, LoggedSeries { axis, ..stepped(0, METRIC, &[(3.5, 9.0)]) })?;
    let joined = [(2.0, 0.5), (3.5, 9.0), (4.0, f64::NAN)];
    assert_eq!(said(&points(&*store)?), said(&joined));
    store.append(&lease, Timestamp(9), &[reported(0, 0, 5, 0.25)])?;
    let joined = [&joined[..], &[(5.0, 0.25)]].concat();
    assert_eq!(said(&points(&*store)?), said(&joined));
    let listed = store.series(lease.study, &[TRIAL])?;
    assert_eq!((listed.len(), listed[0].count, listed[0].last), (1, 4, 5.0));
    // On another axis it is another series.
    log(&mut *store, &lease, stepped(0, METRIC, &[(100.0, 1.0)]))?;
    assert_eq!(store.series(lease.study, &[TRIAL, TrialNumber(7)])?.len(), 2);
    assert_eq!(read(&*store, lease.study, METRIC)?, [(100.0, 1.0)]);
    assert_eq!(store.series_fault(lease.study)?, None);
    Ok(())
}

fn pixels(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    let value = |step: u32| f64::from(step * 7919 % 1009) - 500.0;
    let all: Vec<_> = (0..5_000).map(|step| (f64::from(step), value(step))).collect();
    log(&mut *store, &lease, stepped(0, "loss", &all))?;
    let axis = SeriesAxis::Step;
    let exact: Vec<Point> = store.series_points(lease.study, TRIAL, "loss", axis, ALL)?;
    for count in [1, 3, 10, 777, 10_000] {
        let mut expected = Pixels::new(0.0, 4_999.0, count);
        exact.iter().for_each(|point| expected.add(&Pixel::from(point)));
        let found = store.series_pixels(lease.study, TRIAL, "loss", axis, ALL, count)?;
        assert_eq!(found, expected.filled(), "{count} pixels");
    }
    assert!(store.series_pixels(lease.study, TRIAL, "none", axis, ALL, 3)?.is_empty());
    store.append(&lease, Timestamp(2), &[reported(0, 0, 2, 0.5), reported(0, 0, 4, 0.25)])?;
    let reports = store.series_pixels(lease.study, TRIAL, METRIC, SeriesAxis::Epoch, ALL, 1)?;
    assert_eq!((reports[0].count, reports[0].max, reports[0].value), (2, 0.5, 0.25));
    Ok(())
}

fn ranges(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    let all: Vec<_> = (0..2_000).map(|step| (f64::from(step) * 2.0, f64::from(step))).collect();
    log(&mut *store, &lease, stepped(0, "loss", &all))?;
    let axis = SeriesAxis::Step;
    for (range, first, count) in [
        (999.0..=1_101.0, 1_000.0, 51),
        (-5.0..=0.0, 0.0, 1),
        (3_998.0..=9_999.0, 3_998.0, 1),
        (1_023.0..=1_024.0, 1_024.0, 1),
    ] {
        let points = store.series_points(lease.study, TRIAL, "loss", axis, range.clone())?;
        assert_eq!((points.first().map(|point| point.step), points.len()), (Some(first), count));
        let pixels = store.series_pixels(lease.study, TRIAL, "loss", axis, range, 10)?;
        let held: u64 = pixels.iter().map(|pixel| pixel.count).sum();
        assert_eq!((pixels[0].first, held), (first, count as u64));
    }
    let nothing = store.series_points(lease.study, TRIAL, "loss", axis, 1.0..=1.5)?;
    assert!(nothing.is_empty());
    assert!(store.series_pixels(lease.study, TRIAL, "loss", axis, 1.0..=1.5, 4)?.is_empty());
    Ok(())
}

fn not_there(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    let elsewhere = LoggedSeries { trial: TrialNumber(9), ..stepped(0, "loss", &[(1.0, 1.0)]) };
    log(&mut *store, &lease, elsewhere)?;
    log(&mut *store, &lease, stepped(0, "loss", &[]))?;
    assert!(store.series(lease.study, &[TRIAL, TrialNumber(9)])?.is_empty());
    assert_eq!(store.began(lease.study, TRIAL)?, Some(Timestamp(1)));
    assert_eq!(store.began(lease.study, TrialNumber(9))?, None);
    Ok(())
}

fn of_the_newest_attempt(open: &mut Opener) -> Result<(), StorageError> {
    let mut store = open();
    let lease = one_trial(&mut *store)?;
    log(&mut *store, &lease, stepped(0, "loss", &[(1.0, 0.5)]))?;
    store.append(&lease, Timestamp(3), &[started(0, 1)])?;
    log(&mut *store, &lease, stepped(0, "loss", &[(2.0, 0.5)]))?;
    assert_eq!(read(&*store, lease.study, "loss")?, [(1.0, 0.5)]);
    log(&mut *store, &lease, stepped(1, "loss", &[(2.0, 0.25)]))?;
    assert_eq!(read(&*store, lease.study, "loss")?, [(1.0, 0.5), (2.0, 0.25)]);
    Ok(())
}
