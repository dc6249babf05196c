//! A run as another tool recorded it.

use std::collections::BTreeMap;

use super::derived_name;
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::series::SeriesAxis;
use crate::study::time::Timestamp;
use crate::study::tracked::is_run_name;
use crate::study::trial::TrialState;

/// A run recorded by another tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedRun {
    /// Its unique source: the tool, and the run's identifier or path.
    pub source: String,
    /// Its project in the other tool.
    pub project: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Its group.
    pub group: Option<String>,
    /// The source of its parent run.
    pub parent: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its tags that are not allowed here, with what they are instead, if anything.
    pub other_tags: BTreeMap<String, Option<String>>,
    /// Its note.
    pub note: Option<String>,
    /// Its parameters.
    pub params: Params,
    /// Its summary, besides its series.
    pub summary: BTreeMap<String, serde_json::Value>,
    /// Its start; `None`: its first point.
    pub began: Option<Timestamp>,
    /// Its end; `None`: its last point.
    pub ended: Option<Timestamp>,
    /// How it ended; `None`: it may still run.
    pub end: Option<RecordedEnd>,
    /// Its series, by metric and axis.
    pub series: BTreeMap<(String, SeriesAxis), Vec<RecordedPoint>>,
    /// Whether its source may be edited by hand, not only continued: it is then compared value by
    /// value.
    pub may_be_edited: bool,
    /// What was skipped, and why, in sentences.
    pub remarks: Vec<String>,
}

/// How a recorded run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEnd {
    /// Its program completed.
    Complete,
    /// It exited with this status, if known.
    Failed(Option<i32>),
}

/// A value at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedPoint {
    /// The step on its axis.
    pub step: f64,
    /// The value.
    pub value: f64,
    /// When it was logged.
    pub at: Timestamp,
}

impl RecordedRun {
    /// Its state after the import.
    pub(super) fn state(&self) -> TrialState {
        match self.end {
            None => TrialState::Paused,
            Some(RecordedEnd::Complete) => TrialState::Complete,
            Some(RecordedEnd::Failed(_)) => TrialState::Failed,
        }
    }

    /// Its number of points.
    pub fn points(&self) -> u64 {
        self.series.values().map(|points| points.len() as u64).sum()
    }

    pub(super) fn log(&mut self, metric: &str, axis: SeriesAxis, point: RecordedPoint) {
        match self.series.get_mut(&(metric.to_owned(), axis)) {
            Some(points) => points.push(point),
            None => drop(self.series.insert((metric.to_owned(), axis), vec![point])),
        }
    }

    /// Sorts series by step, keeping the last value of each step, and clamps implausible times.
    pub fn settled(mut self, now: Timestamp) -> Self {
        let possible = |at: Timestamp| Timestamp(at.0.clamp(0, now.0));
        for points in self.series.values_mut() {
            points.retain(|point| point.step.is_finite());
            points.iter_mut().for_each(|point| point.at = possible(point.at));
            // Most are sorted already, which a stable sort detects in one pass.
            points.sort_by(|one, other| one.step.total_cmp(&other.step));
            points.reverse();
            points.dedup_by(|one, other| one.step == other.step);
            points.reverse();
        }
        self.series.retain(|(metric, _), points| !metric.is_empty() && !points.is_empty());
        let moments = || self.series.values().flatten().map(|point| point.at);
        let began = self.began.map(possible).or(moments().min()).unwrap_or(now);
        let last = moments().max().unwrap_or(began).max(began);
        self.ended = Some(self.ended.map_or(last, possible).max(last));
        self.began = Some(began.min(moments().min().unwrap_or(began)));
        for tag in std::mem::take(&mut self.tags) {
            let derived = derived_name::tag(&tag);
            self.tags.extend(derived.clone());
            if derived.as_ref() != Some(&tag) {
                self.other_tags.insert(tag, derived);
            }
        }
        self.tags.sort();
        self.tags.dedup();
        self.name = match self.name.take() {
            Some(name) if !is_run_name(&name) => self.other_name(name),
            name => name,
        };
        self
    }

    /// Instead of a name that no run can have, such as a number.
    fn other_name(&mut self, name: String) -> Option<String> {
        let other = Some(format!("run-{name}")).filter(|other| is_run_name(other));
        let instead = match &other {
            Some(other) => format!("it is `{other}`"),
            None => "it has only a number".to_owned(),
        };
        self.remarks.push(format!("no run can be called `{name}` here: {instead}"));
        other
    }

    /// The best value of a metric.
    pub(super) fn best(&self, metric: &str, direction: Direction) -> Option<f64> {
        let of_metric = self.series.iter().find(|((name, _), _)| name == metric);
        let values = of_metric?.1.iter().map(|point| point.value).filter(|value| !value.is_nan());
        values.reduce(|best, value| match direction {
            Direction::Minimize => best.min(value),
            Direction::Maximize => best.max(value),
        })
    }
}

/// A time in seconds since 1970; `None` if it is out of range.
pub(super) fn moment(seconds: f64) -> Option<Timestamp> {
    #[expect(clippy::cast_possible_truncation, reason = "seconds below 1e11 as microseconds")]
    (seconds.is_finite() && seconds.abs() < 1e11).then(|| Timestamp((seconds * 1e6).round() as i64))
}
