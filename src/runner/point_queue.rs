//! The queue of logged points that are not written yet: filled by listeners, drained by the runner
//! turn by turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::clock::Clock;
use crate::study::metric::Metrics;
use crate::study::series::{LoggedPoint, LoggedSeries, SeriesAxis};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// Longest wait of a point for a transaction, in addition to a turn.
const LONGEST_WAIT: Duration = Duration::from_millis(400);

/// Number of points that are worth a transaction of their own.
const MANY: usize = 20_000;

/// Queue limit of one trial; above it, its pipe is not read. Other trials are not affected.
const MOST_OF_A_TRIAL: usize = 50_000;

/// Points of attempts, by series. A lock rather than a channel: points of a series are collected
/// where they arrive, so that the runner has no work per point.
#[derive(Debug, Default)]
pub struct PointQueue {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    attempts: BTreeMap<(TrialNumber, AttemptNumber), AttemptPoints>,
    /// Attempts that logged since the last call of `heard`.
    heard: BTreeSet<(TrialNumber, AttemptNumber)>,
    /// Series that another machine has collected.
    received: Vec<LoggedSeries>,
    /// When the last stored points were logged, of series that may be sent again.
    stored: BTreeMap<(TrialNumber, SeriesAxis, String), Timestamp>,
    count: usize,
    oldest: Option<Instant>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct AttemptPoints {
    series: BTreeMap<SeriesAxis, BTreeMap<String, Vec<TimedPoint>>>,
    count: usize,
}

/// Step, value, and time of arrival.
type TimedPoint = (Option<f64>, f64, Instant);

impl PointQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a trial has to wait until its points are written.
    pub fn is_full_of(&self, trial: TrialNumber, attempt: AttemptNumber) -> bool {
        let waiting = self.lock();
        let points = waiting.attempts.get(&(trial, attempt));
        !waiting.is_closed && points.is_some_and(|points| points.count >= MOST_OF_A_TRIAL)
    }

    /// Adds metrics of an attempt at a step; `None`: counted.
    pub fn log(
        &self,
        (trial, attempt): (TrialNumber, AttemptNumber),
        axis: SeriesAxis,
        step: Option<f64>,
        metrics: Metrics,
    ) {
        let mut waiting = self.lock();
        waiting.heard.insert((trial, attempt));
        waiting.add((trial, attempt), axis, step, metrics);
    }

    /// Adds a report to those series that have points which are not written yet. They are written
    /// after it although they came before: of one step, the report's value stands.
    pub fn report(
        &self,
        key: (TrialNumber, AttemptNumber),
        axis: SeriesAxis,
        step: f64,
        metrics: &Metrics,
    ) {
        let mut waiting = self.lock();
        let waiting = &mut *waiting;
        let Some(points) = waiting.attempts.get_mut(&key) else { return };
        let Some(series) = points.series.get_mut(&axis) else { return };
        let came = Instant::now();
        for (name, value) in metrics.iter() {
            if let Some(series) = series.get_mut(name) {
                series.push((Some(step), value, came));
                points.count += 1;
                waiting.count += 1;
            }
        }
    }

    /// Adds measurements of an attempt's processes, on the axis of seconds.
    pub fn measure(&self, trial: TrialNumber, attempt: AttemptNumber, metrics: Metrics) {
        self.lock().add((trial, attempt), SeriesAxis::Seconds, None, metrics);
    }

    /// Drops points of a series from [`PointQueue::add`] that were logged by then: they are stored.
    pub fn drop_until(&self, trial: TrialNumber, axis: SeriesAxis, metric: &str, at: Timestamp) {
        self.lock().stored.insert((trial, axis, metric.to_owned()), at);
    }

    /// Adds series that another machine has collected; on the axis of seconds, steps are `None`.
    pub fn add(&self, series: impl IntoIterator<Item = LoggedSeries>) {
        let mut waiting = self.lock();
        if waiting.is_closed {
            return;
        }
        for mut series in series {
            let key = (series.trial, series.axis, series.metric.clone());
            if let Some(stored) = waiting.stored.get(&key) {
                series.points.retain(|point| point.at > *stored);
            }
            waiting.heard.insert((series.trial, series.attempt));
            waiting.count += series.points.len();
            waiting.oldest.get_or_insert_with(Instant::now);
            waiting.received.push(series);
        }
    }

    /// The attempts that logged since the last call.
    pub fn heard(&self) -> BTreeSet<(TrialNumber, AttemptNumber)> {
        std::mem::take(&mut self.lock().heard)
    }

    /// Whether points have waited long, or are many.
    pub fn is_due(&self) -> bool {
        let waiting = self.lock();
        let is_old = waiting.oldest.is_some_and(|oldest| oldest.elapsed() >= LONGEST_WAIT);
        waiting.count >= MANY || is_old
    }

    /// Drains the queue. `began` is when a trial's first attempt started, the origin of its axis
    /// of seconds.
    pub fn take<E>(
        &self,
        now: Clock,
        mut began: impl FnMut(TrialNumber) -> Result<Option<Timestamp>, E>,
    ) -> Result<Vec<LoggedSeries>, E> {
        let (attempts, mut logged) = {
            let mut waiting = self.lock();
            waiting.count = 0;
            waiting.oldest = None;
            (std::mem::take(&mut waiting.attempts), std::mem::take(&mut waiting.received))
        };
        for series in logged.iter_mut().filter(|series| series.axis == SeriesAxis::Seconds) {
            let Some(since) = began(series.trial)? else { continue };
            for point in &mut series.points {
                point.step = point.step.or(Some(point.at.since(since).as_secs_f64()));
            }
        }
        for ((trial, attempt), points) in attempts {
            for (axis, metrics) in points.series {
                let since = match axis {
                    SeriesAxis::Seconds => began(trial)?,
                    _ => None,
                };
                let point = |(step, value, came): TimedPoint| {
                    let at = now.of(came);
                    let seconds = since.map(|since| at.since(since).as_secs_f64());
                    LoggedPoint { step: step.or(seconds), value, at }
                };
                logged.extend(metrics.into_iter().map(|(metric, points)| LoggedSeries {
                    trial,
                    attempt,
                    metric,
                    axis,
                    points: points.into_iter().map(point).collect(),
                }));
            }
        }
        Ok(logged)
    }

    /// Closes the queue: nothing waits, and nothing is kept.
    pub fn close(&self) {
        *self.lock() = Waiting { is_closed: true, ..Waiting::default() };
    }
}

impl Waiting {
    fn add(
        &mut self,
        key: (TrialNumber, AttemptNumber),
        axis: SeriesAxis,
        step: Option<f64>,
        metrics: Metrics,
    ) {
        if self.is_closed {
            return;
        }
        let came = Instant::now();
        self.oldest.get_or_insert(came);
        let points = self.attempts.entry(key).or_default();
        let series = points.series.entry(axis).or_default();
        for (metric, value) in metrics.0 {
            points.count += 1;
            self.count += 1;
            // Most metrics exist already.
            match series.get_mut(&metric) {
                Some(series) => series.push((step, value, came)),
                None => drop(series.insert(metric, vec![(step, value, came)])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: (TrialNumber, AttemptNumber) = (TrialNumber(3), AttemptNumber(1));

    fn metrics(pairs: &[(&str, f64)]) -> Metrics {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn take(queue: &PointQueue, clock: Clock) -> Vec<LoggedSeries> {
        queue.take(clock, |_| Ok::<_, ()>(Some(Timestamp(0)))).unwrap()
    }

    #[test]
    fn points_come_out_by_series_in_the_order_in_which_they_came() {
        let (queue, clock) = (PointQueue::default(), Clock::start(Timestamp(5_000_000), None));
        queue.log(KEY, SeriesAxis::Step, Some(1.0), metrics(&[("b", 0.1), ("a", 0.2)]));
        queue.log(KEY, SeriesAxis::Step, None, metrics(&[("a", 0.3)]));
        queue.log(KEY, SeriesAxis::Epoch, Some(0.5), metrics(&[("a", 0.4)]));
        queue.measure(KEY.0, KEY.1, metrics(&[("system/cpu", 99.0)]));
        assert_eq!(queue.heard().into_iter().collect::<Vec<_>>(), [KEY]);
        assert!(queue.heard().is_empty());
        let logged = take(&queue, clock);
        let said: Vec<_> = logged
            .iter()
            .map(|series| {
                let points = series.points.iter().map(|point| (point.step, point.value));
                (series.metric.as_str(), series.axis.as_str(), points.collect::<Vec<_>>())
            })
            .collect();
        let seconds = logged[3].points[0].step;
        let expected = [
            ("a", "step", vec![(Some(1.0), 0.2), (None, 0.3)]),
            ("b", "step", vec![(Some(1.0), 0.1)]),
            ("a", "epoch", vec![(Some(0.5), 0.4)]),
            ("system/cpu", "seconds", vec![(seconds, 99.0)]),
        ];
        assert_eq!(said, expected);
        assert!(seconds.is_some_and(|seconds| (5.0..60.0).contains(&seconds)), "{seconds:?}");
        assert!(logged[0].points[0].at >= Timestamp(5_000_000));
        assert!(take(&queue, clock).is_empty());
    }

    #[test]
    fn a_report_follows_the_points_that_came_before_it() {
        let (queue, clock) = (PointQueue::default(), Clock::start(Timestamp(0), None));
        queue.report(KEY, SeriesAxis::Step, 1.0, &metrics(&[("a", 0.1)]));
        queue.log(KEY, SeriesAxis::Step, Some(2.0), metrics(&[("a", 0.2)]));
        queue.report(KEY, SeriesAxis::Step, 2.0, &metrics(&[("a", 0.3), ("b", 0.4)]));
        queue.report(KEY, SeriesAxis::Epoch, 3.0, &metrics(&[("a", 0.5)]));
        let logged = take(&queue, clock);
        let points = logged[0].points.iter().map(|point| (point.step, point.value));
        assert_eq!(points.collect::<Vec<_>>(), [(Some(2.0), 0.2), (Some(2.0), 0.3)]);
        assert_eq!(logged.len(), 1);
    }

    #[test]
    fn what_is_measured_is_no_sign_of_life() {
        let queue = PointQueue::default();
        queue.measure(KEY.0, KEY.1, metrics(&[("system/cpu", 0.0)]));
        assert!(queue.heard().is_empty());
    }

    #[test]
    fn a_trial_that_logs_without_end_waits_alone_and_until_nobody_writes() {
        let queue = PointQueue::default();
        for step in 0..MOST_OF_A_TRIAL {
            assert!(!queue.is_full_of(KEY.0, KEY.1), "{step}");
            queue.log(KEY, SeriesAxis::Step, None, metrics(&[("a", 0.0)]));
        }
        assert!(queue.is_full_of(KEY.0, KEY.1) && queue.is_due());
        assert!(!queue.is_full_of(TrialNumber(4), AttemptNumber(0)));
        queue.close();
        assert!(!queue.is_full_of(KEY.0, KEY.1));
        queue.log(KEY, SeriesAxis::Step, None, metrics(&[("a", 0.0)]));
        assert!(take(&queue, Clock::start(Timestamp(0), None)).is_empty());
    }

    #[test]
    fn points_are_due_soon() {
        let queue = PointQueue::default();
        assert!(!queue.is_due(), "nothing waits");
        queue.log(KEY, SeriesAxis::Step, None, metrics(&[("a", 0.0)]));
        assert!(!queue.is_due());
        queue.lock().oldest = Instant::now().checked_sub(LONGEST_WAIT);
        assert!(queue.is_due());
    }
}
