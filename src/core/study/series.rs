//! Series: the points of a metric on an axis, as logged, stored and downsampled for display.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::metric::Number;
use super::step::StepUnit;
use super::time::Timestamp;
use super::trial::{AttemptNumber, TrialNumber};

/// How the names of metrics begin that are measured, not reported or logged.
pub const SYSTEM: &str = "system/";

/// The axis of a series: what its steps count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesAxis {
    /// Optimiser steps, or the program's own steps.
    Step,
    /// Passes over the training data.
    Epoch,
    /// Training rows seen.
    Samples,
    /// Seconds since the trial's first attempt started.
    Seconds,
}

impl SeriesAxis {
    /// All of them, in order of preference.
    pub const ALL: [SeriesAxis; 4] =
        [SeriesAxis::Step, SeriesAxis::Epoch, SeriesAxis::Samples, SeriesAxis::Seconds];

    /// Its name in lines, in the store and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            SeriesAxis::Step => "step",
            SeriesAxis::Epoch => "epoch",
            SeriesAxis::Samples => "samples",
            SeriesAxis::Seconds => "seconds",
        }
    }

    /// A formatted step: seconds with one decimal, others as they are.
    pub fn words(self, step: f64) -> String {
        match self {
            SeriesAxis::Seconds => format!("{step:.1}"),
            _ => step.to_string(),
        }
    }

    /// The axis with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        SeriesAxis::ALL.into_iter().find(|axis| axis.as_str() == word)
    }
}

impl From<StepUnit> for SeriesAxis {
    fn from(unit: StepUnit) -> Self {
        match unit {
            StepUnit::Epoch => SeriesAxis::Epoch,
            StepUnit::Step => SeriesAxis::Step,
            StepUnit::Samples => SeriesAxis::Samples,
        }
    }
}

impl fmt::Display for SeriesAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A stored point. Steps are exact up to 2^53.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Position on its axis; finite.
    pub step: f64,
    /// What was measured; NaN and infinities are values.
    pub value: f64,
    /// When it was logged.
    pub at: Timestamp,
}

impl PartialEq for Point {
    /// Bit by bit: NaN equals itself, and 0 is not -0.
    fn eq(&self, other: &Self) -> bool {
        let bits = |point: &Point| (point.step.to_bits(), point.value.to_bits(), point.at);
        bits(self) == bits(other)
    }
}

/// A point that a trial logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoggedPoint {
    /// Position on its axis; `None`: one after the last of its series. Points at non-finite steps
    /// are dropped.
    pub step: Option<f64>,
    /// What was measured.
    pub value: f64,
    /// When it was logged.
    pub at: Timestamp,
}

/// A step as JSON: an integer if it is integral.
pub fn step_json(step: f64) -> serde_json::Value {
    #[expect(clippy::cast_possible_truncation, reason = "an integer below 2^53")]
    if step.fract() == 0.0 && step.abs() <= 9_007_199_254_740_992.0 {
        return (step as i64).into();
    }
    Number(step).to_json()
}

/// Points that an attempt logged for one metric, in that order.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedSeries {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Number of the trial's attempt, from 0.
    pub attempt: AttemptNumber,
    /// Name of the metric.
    pub metric: String,
    /// What its steps count.
    pub axis: SeriesAxis,
    /// The points.
    pub points: Vec<LoggedPoint>,
}

/// A series without its points.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesSummary {
    /// Number of the trial.
    pub trial: TrialNumber,
    /// Name of the metric.
    pub metric: String,
    /// What its steps count.
    pub axis: SeriesAxis,
    /// Number of points; at least one.
    pub count: u64,
    /// The first step.
    pub first: f64,
    /// The last step.
    pub last: f64,
    /// The value there.
    pub last_value: f64,
}

/// Summary of the points in one pixel of a chart or one chunk of a store.
#[derive(Clone, Copy, Debug)]
pub struct Pixel {
    /// Number of points; at least one.
    pub count: u64,
    /// The first step.
    pub first: f64,
    /// The last step.
    pub last: f64,
    /// The smallest value; NaN if every value is.
    pub min: f64,
    /// The largest value; NaN if every value is.
    pub max: f64,
    /// The value at the last step.
    pub value: f64,
    /// When the last point was logged.
    pub at: Timestamp,
}

impl PartialEq for Pixel {
    /// NaN equals NaN.
    fn eq(&self, other: &Self) -> bool {
        let same = |one: f64, other: f64| one == other || (one.is_nan() && other.is_nan());
        self.count == other.count
            && self.at == other.at
            && same(self.first, other.first)
            && same(self.last, other.last)
            && same(self.min, other.min)
            && same(self.max, other.max)
            && same(self.value, other.value)
    }
}

impl From<&Point> for Pixel {
    fn from(point: &Point) -> Self {
        Pixel {
            count: 1,
            first: point.step,
            last: point.step,
            min: point.value,
            max: point.value,
            value: point.value,
            at: point.at,
        }
    }
}

impl Pixel {
    /// Summarises points in the order of their steps; `None` if empty.
    pub fn of(points: &[Point]) -> Option<Pixel> {
        points.iter().map(Pixel::from).reduce(|mut all, next| {
            all.append(&next);
            all
        })
    }

    /// Appends the summary of later points.
    fn append(&mut self, next: &Pixel) {
        self.count += next.count;
        self.last = next.last;
        // The other operand if one is NaN.
        self.min = self.min.min(next.min);
        self.max = self.max.max(next.max);
        self.value = next.value;
        self.at = next.at;
    }

    /// The steps and values to draw: smallest, largest, last.
    pub fn drawn(self) -> impl Iterator<Item = (f64, f64)> {
        let ends = [(self.first, self.min), (self.last, self.max)];
        let ends = ends.into_iter().filter(move |_| self.min < self.max);
        ends.chain([(self.last, self.value)])
    }
}

/// A range of steps as columns of pixels, filled from left to right.
#[derive(Clone, Debug)]
pub struct Pixels {
    first: f64,
    width: f64,
    last_index: usize,
    filled: Vec<(usize, Pixel)>,
}

impl Pixels {
    /// `count` pixels, at least one, for the steps from `first` to `last`.
    pub fn new(first: f64, last: f64, count: usize) -> Self {
        let count = count.max(1);
        #[expect(clippy::cast_precision_loss, reason = "columns of a screen")]
        let width = (last - first) / count as f64;
        Pixels { first, width, last_index: count - 1, filled: Vec::new() }
    }

    /// The pixel that a step is in.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "casts to integers saturate, and NaN is 0: both are right here"
    )]
    pub fn index(&self, step: f64) -> usize {
        (((step - self.first) / self.width) as usize).min(self.last_index)
    }

    /// Adds a summary that follows all others and lies in one pixel.
    pub fn add(&mut self, part: &Pixel) {
        let index = self.index(part.first);
        match self.filled.last_mut() {
            Some((last, pixel)) if *last == index => pixel.append(part),
            _ => self.filled.push((index, *part)),
        }
    }

    /// The non-empty ones, from left to right.
    pub fn filled(self) -> Vec<Pixel> {
        self.filled.into_iter().map(|(_, pixel)| pixel).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[(f64, f64)]) -> Vec<Point> {
        values
            .iter()
            .map(|(step, value)| Point { step: *step, value: *value, at: Timestamp(7) })
            .collect()
    }

    fn thinned(values: &[(f64, f64)], count: usize) -> Vec<Pixel> {
        let points = points(values);
        let (first, last) = (values[0].0, values[values.len() - 1].0);
        let mut pixels = Pixels::new(first, last, count);
        points.iter().for_each(|point| pixels.add(&Pixel::from(point)));
        pixels.filled()
    }

    #[test]
    fn each_pixel_has_the_smallest_largest_and_last_value_of_its_points() {
        let values =
            [(0.0, 3.0), (1.0, -1.0), (2.0, f64::NAN), (6.0, 5.0), (9.0, 2.0), (10.0, 4.0)];
        let pixels = thinned(&values, 2);
        let seen: Vec<_> = pixels
            .iter()
            .map(|pixel| (pixel.count, pixel.first, pixel.last, pixel.min, pixel.max))
            .collect();
        assert_eq!(seen, [(3, 0.0, 2.0, -1.0, 3.0), (3, 6.0, 10.0, 2.0, 5.0)]);
        assert!(pixels[0].value.is_nan(), "the last value stands, a number or not");
        assert_eq!(pixels[1].value, 4.0);
        assert_eq!(pixels[1].drawn().collect::<Vec<_>>(), [(6.0, 2.0), (10.0, 5.0), (10.0, 4.0)]);
    }

    #[test]
    fn one_point_infinities_and_nothing_but_nan_are_pixels() {
        assert_eq!(thinned(&[(4.0, 1.0)], 100).len(), 1);
        let all = thinned(&[(0.0, f64::INFINITY), (1.0, f64::NEG_INFINITY)], 1);
        assert_eq!((all[0].min, all[0].max), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(thinned(&[(0.0, f64::NAN), (1.0, f64::NAN)], 1)[0].max.is_nan());
        assert_eq!(Pixel::of(&[]), None);
    }

    #[test]
    fn steps_are_integers_in_json_where_they_are() {
        let said = [3.0, 1.5, -0.0, 1e300].map(|step| step_json(step).to_string());
        assert_eq!(said, ["3", "1.5", "0", "1e+300"]);
        assert_eq!(SeriesAxis::Seconds.words(10.0521), "10.1");
        assert_eq!(SeriesAxis::Step.words(123_456.0), "123456");
    }

    #[test]
    fn axes_are_found_by_their_names() {
        for axis in SeriesAxis::ALL {
            assert_eq!(SeriesAxis::from_word(axis.as_str()), Some(axis));
        }
        assert_eq!(SeriesAxis::from_word("steps"), None);
        assert_eq!(SeriesAxis::from(StepUnit::Samples), SeriesAxis::Samples);
    }
}
