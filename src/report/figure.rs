//! Figures as plain data: series over axes, which the terminal, SVG files and pages draw.

pub mod axis;

use std::borrow::Cow;

use crate::study::space::Scale;
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
}

impl Series<'static> {
    /// Points with a name.
    pub fn new(
        name: impl Into<String>,
        mark: Mark,
        tone: SeriesRole,
        points: Vec<(f64, f64)>,
    ) -> Self {
        Series { name: name.into(), points: Cow::Owned(points), mark, tone }
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

    /// A linear axis that leaves outliers outside, all but the values of `keep`.
    pub fn without_outliers(keep: Vec<f64>) -> Self {
        Axis { cut: Cut::Outliers, keep, ..Axis::linear() }
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
            // One tick alone tells no scale.
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
    /// What is said when there is nothing to draw.
    pub empty: &'static str,
}
