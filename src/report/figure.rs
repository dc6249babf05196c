//! Figures as plain data: series over axes, which the terminal, SVG files and pages draw.

pub mod axis;
pub mod comparison;
pub mod contour;
pub mod curves;
pub mod front;
mod json;
pub mod of_study;
pub mod parallel;
#[cfg(feature = "png")]
pub mod png;
pub mod rungs;
pub mod svg;
pub mod timeline;

use std::borrow::Cow;

use crate::study::counted::count;
use crate::study::space::Scale;
use crate::study::trial::TrialNumber;
use axis::{Cut, Range, Tick};

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Joined by straight lines; a value that is not finite leaves a gap.
    Line,
    /// Joined by steps: a value holds until the next one.
    Steps,
    /// Each for itself.
    Dots,
    /// Each for itself, as a character that is easily found.
    Star,
    /// Thick segments: every two consecutive points are the ends of one.
    Bars,
    /// An area: every two consecutive points are its lower and upper end at one place.
    Band,
}

/// What a series is among the others, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesRole {
    /// One of many in the background.
    Behind,
    /// The one with this index among those compared.
    Compared(usize),
    /// The best.
    Best,
}

/// Points with a name.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// What the legend calls it; without a name it is not in the legend.
    pub name: String,
    /// Points in the order in which they are joined.
    pub points: Cow<'a, [(f64, f64)]>,
    /// How they are drawn.
    pub mark: Mark,
    /// In which colour.
    pub tone: SeriesRole,
    /// Whose points they are, if they are of one trial.
    pub trial: Option<TrialNumber>,
}

impl Series<'static> {
    /// Points with a name.
    pub fn new(
        name: impl Into<String>,
        mark: Mark,
        tone: SeriesRole,
        points: Vec<(f64, f64)>,
    ) -> Self {
        Series { name: name.into(), points: Cow::Owned(points), mark, tone, trial: None }
    }

    /// The same, as the points of a trial.
    #[must_use]
    pub fn of_trial(self, trial: TrialNumber) -> Self {
        Series { trial: Some(trial), ..self }
    }

    /// Reports over steps, joined by lines.
    pub fn curve(name: impl Into<String>, reports: &[(u64, f64)], tone: SeriesRole) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "steps on an axis")]
        let points = reports.iter().map(|(step, value)| (*step as f64, *value)).collect();
        Series::new(name, Mark::Line, tone, points)
    }
}

/// What an axis shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Linear or logarithmic.
    pub scale: Scale,
    /// The ends, where they are known beforehand.
    pub ends: Option<(f64, f64)>,
    /// Values that are never outside.
    pub keep: Vec<f64>,
    /// Whether outliers may be left outside.
    pub cut: Cut,
    /// Whether there are integers only.
    pub whole: bool,
    /// Names instead of ticks, with their values: of choices.
    pub names: Vec<(f64, String)>,
    /// What it measures, for files and pages; the terminal has the title.
    pub label: String,
}

impl Axis {
    /// A linear axis over everything there is.
    pub fn linear() -> Self {
        Axis::default()
    }

    /// The same for integers: steps, numbers of trials.
    pub fn whole() -> Self {
        Axis { whole: true, ..Axis::linear() }
    }

    /// The same axis with a label.
    #[must_use]
    pub fn labelled(self, label: impl Into<String>) -> Self {
        Axis { label: label.into(), ..self }
    }

    /// A linear axis that leaves outliers outside, all but the values of `keep`.
    pub fn without_outliers(keep: Vec<f64>) -> Self {
        Axis { cut: Cut::Outliers, keep, ..Axis::linear() }
    }

    /// The same for a value of each trial, of which some may have diverged.
    pub fn of_trials(keep: Vec<f64>) -> Self {
        Axis { cut: Cut::ManyOutliers, keep, ..Axis::linear() }
    }

    /// The values it covers, for these; `None` if none of them has a place on it.
    pub fn range(&self, values: impl IntoIterator<Item = f64>) -> Option<Range> {
        let range = Range::over(values, &self.keep, self.scale, self.cut)?;
        Some(self.ends.and_then(|(low, high)| Range::new(low, high, self.scale)).unwrap_or(range))
    }

    /// About `most` labelled places.
    pub fn ticks(&self, range: &Range, most: usize) -> Vec<Tick> {
        if self.names.is_empty() {
            let ticks = range.ticks(most, self.whole);
            // One tick alone shows no scale.
            return if ticks.len() < 2 { range.ticks(2 * most, self.whole) } else { ticks };
        }
        self.names
            .iter()
            .filter_map(|(value, name)| {
                Some(Tick { at: range.place(*value)?, label: name.clone() })
            })
            .collect()
    }
}

/// Values of the cells of a grid, drawn behind the series.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// Centres of the columns, ascending, as values of the axis.
    pub x: Vec<f64>,
    /// Centres of the rows, ascending.
    pub y: Vec<f64>,
    /// Row by row from the lowest; `None`: no data nearby.
    pub values: Vec<Option<f64>>,
    /// What the values are.
    pub label: String,
}

impl HeatMap {
    /// The smallest and the largest value that differ in colour: beyond them are outliers, if the
    /// others would be hard to tell apart with them.
    pub fn ends(&self) -> Option<(f64, f64)> {
        let values = || self.values.iter().flatten().copied().filter(|value| value.is_finite());
        let range = Range::over(values(), &[], Scale::Linear, Cut::Outliers)?;
        let shown = values().filter(|value| range.place(*value).is_some_and(is_inside));
        shown.fold(None, |ends, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((value.min(low), value.max(high)))
        })
    }

    /// Whether there are finite values below and above the ends.
    pub fn is_cut(&self, (low, high): (f64, f64)) -> (bool, bool) {
        let values = || self.values.iter().flatten().copied().filter(|value| value.is_finite());
        (values().any(|value| value < low), values().any(|value| value > high))
    }

    /// Where a value is between the ends: from 0 to 1.
    pub fn share(value: f64, (low, high): (f64, f64)) -> f64 {
        // Halved first: the difference of two finite numbers may be infinite.
        let (span, above) = (high / 2.0 - low / 2.0, value / 2.0 - low / 2.0);
        if span > 0.0 { (above / span).clamp(0.0, 1.0) } else { 0.5 }
    }
}

/// Points of a figure that are not drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Outside of the axes.
    pub outside: u64,
    /// NaN or infinite.
    pub not_finite: u64,
}

impl Unseen {
    /// In words; empty if all points are drawn.
    pub fn said(self, separator: &str) -> String {
        let outside =
            (self.outside > 0).then(|| format!("{} outside", count(self.outside, "point")));
        let not_finite = (self.not_finite > 0).then(|| format!("{} not finite", self.not_finite));
        outside.into_iter().chain(not_finite).collect::<Vec<_>>().join(separator)
    }
}

/// Whether a place on an axis is between its ends.
pub fn is_inside(place: f64) -> bool {
    (-1e-9..=1.0 + 1e-9).contains(&place)
}

/// A figure: series over two axes, drawn in their order.
#[derive(Clone, Debug)]
pub struct Figure<'a> {
    /// What is shown, over the plot.
    pub title: String,
    /// Left to right.
    pub x: Axis,
    /// Bottom to top.
    pub y: Axis,
    /// The later above the earlier.
    pub series: Vec<Series<'a>>,
    /// Behind the series.
    pub cells: Option<HeatMap>,
    /// What is said when there is nothing to draw.
    pub empty: &'static str,
}

impl Figure<'_> {
    /// The ranges of both axes; `None` if there is nothing to draw.
    pub fn ranges(&self) -> Option<(Range, Range)> {
        let points = self.series.iter().flat_map(|series| series.points.iter());
        let drawable = points.filter(|(x, y)| x.is_finite() && y.is_finite());
        Some((
            self.x.range(drawable.clone().map(|point| point.0))?,
            self.y.range(drawable.map(|point| point.1))?,
        ))
    }

    /// The points that are not drawn between these ranges: all of them without any. Steps and stars
    /// beside other marks repeat their points, and do not count again.
    pub fn unseen(&self, ranges: Option<(&Range, &Range)>) -> Unseen {
        let repeats = |series: &&Series<'_>| matches!(series.mark, Mark::Steps | Mark::Star);
        let all_repeat = self.series.iter().all(|series| repeats(&series));
        let counted = self.series.iter().filter(|series| all_repeat || !repeats(series));
        let mut unseen = Unseen::default();
        for (x, y) in counted.flat_map(|series| series.points.iter()) {
            if !x.is_finite() || !y.is_finite() {
                unseen.not_finite += 1;
            } else if let Some((across, up)) = ranges {
                let place = across.place(*x).zip(up.place(*y));
                let is_drawn = place.is_some_and(|(x, y)| is_inside(x) && is_inside(y));
                unseen.outside += u64::from(!is_drawn);
            }
        }
        unseen
    }

    /// The named series, in the order of a legend: compared ones by their index, whichever is in
    /// front.
    pub fn legend(&self) -> Vec<&Series<'_>> {
        let mut named: Vec<&Series<'_>> =
            self.series.iter().filter(|series| !series.name.is_empty()).collect();
        if named.iter().all(|series| matches!(series.tone, SeriesRole::Compared(_))) {
            let index = |tone| if let SeriesRole::Compared(index) = tone { index } else { 0 };
            named.sort_by_key(|series| index(series.tone));
        }
        named
    }
}
