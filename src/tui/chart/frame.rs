//! The frame of a chart: where its parts are, axes, ticks and their labels.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::canvas::dots_per_cell;
use super::columns;
use crate::report::figure::axis::{Range, Tick};
use crate::report::figure::{Figure, is_inside};
use crate::report::sparkline::Charset;
use crate::tui::theme::Theme;

/// Everything but the series: where the parts are, and the ticks.
pub(super) struct PlotFrame {
    pub title: Rect,
    pub legend: Rect,
    pub plot: Rect,
    /// Row of the plot and label.
    left: Vec<(u16, String)>,
    /// Column of the plot and label.
    below: Vec<(u16, String)>,
    axes: bool,
}

/// A plot narrower or lower than this has no axes.
const SMALLEST_WITH_AXES: (u16, u16) = (16, 5);
/// No label at the left is wider.
const WIDEST_LABEL: u16 = 9;

impl PlotFrame {
    pub fn new(
        chart: &Figure<'_>,
        x: &Range,
        y: &Range,
        area: Rect,
        charset: Charset,
    ) -> PlotFrame {
        let (across, down) = dots_per_cell(charset);
        let axes = area.width >= SMALLEST_WITH_AXES.0 && area.height >= SMALLEST_WITH_AXES.1;
        let named = chart.series.iter().any(|series| !series.name.is_empty());
        let title = u16::from(!chart.title.is_empty() && area.height > 2);
        let legend = u16::from(named && area.height > 6);
        let below = if axes { 2 } else { 0 };
        let height = area.height - title - legend - below;
        let labels: Vec<(u16, String)> = if axes {
            rows_of(chart.y.ticks(y, usize::from(height / 3).max(2)), height, down)
        } else {
            Vec::new()
        };
        let gutter = if axes {
            labels.iter().map(|(_, label)| columns(label)).max().unwrap_or(0).min(WIDEST_LABEL) + 1
        } else {
            0
        };
        let plot =
            Rect { x: area.x + gutter, y: area.y + title, width: area.width - gutter, height };
        let ticks =
            if axes { chart.x.ticks(x, usize::from(plot.width / 8).max(2)) } else { Vec::new() };
        PlotFrame {
            title: Rect { height: title, ..area },
            legend: Rect {
                y: area.bottom() - legend,
                height: legend,
                x: plot.x,
                width: plot.width,
            },
            plot,
            left: labels,
            below: ticks
                .into_iter()
                .filter(|tick| is_inside(tick.at))
                .map(|tick| (cell(tick.at, plot.width, across), tick.label))
                .collect(),
            axes,
        }
    }

    pub fn draw(&self, buffer: &mut Buffer, theme: Theme) {
        if !self.axes {
            return;
        }
        let (plot, line) = (self.plot, theme.dim());
        let (edge, base) = (plot.x - 1, plot.bottom());
        for row in plot.top()..plot.bottom() {
            buffer.set_stringn(edge, row, theme.either("│", "|"), 1, line);
        }
        for column in plot.left()..plot.right() {
            buffer.set_stringn(column, base, theme.either("─", "-"), 1, line);
        }
        buffer.set_stringn(edge, base, theme.either("└", "+"), 1, line);
        for (row, label) in &self.left {
            let label = theme.shorten(label, usize::from(WIDEST_LABEL));
            buffer.set_string(edge.saturating_sub(columns(&label)), plot.y + row, &label, line);
            buffer.set_stringn(edge, plot.y + row, theme.either("┤", "+"), 1, line);
        }
        self.draw_below(buffer, theme);
    }

    /// Labels under their ticks, as many as do not touch.
    fn draw_below(&self, buffer: &mut Buffer, theme: Theme) {
        let plot = self.plot;
        let share = usize::from(plot.width) / self.below.len().max(1);
        let mut free = plot.x - 1;
        for (column, label) in &self.below {
            let tick = plot.x + column;
            buffer.set_stringn(tick, plot.bottom(), theme.either("┬", "+"), 1, theme.dim());
            let label = theme.shorten(label, share.saturating_sub(1).max(6));
            let wide = columns(&label);
            let begin =
                tick.saturating_sub(wide / 2).max(free).min(plot.right().saturating_sub(wide));
            if begin >= free && tick >= begin && tick < begin + wide.max(1) {
                buffer.set_string(begin, plot.bottom() + 1, &label, theme.dim());
                free = begin + wide + 1;
            }
        }
    }
}

/// The character, of `cells` with `dots` each, in which the dot at `place` is: ticks stand beside
/// the dots of their values.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "sizes of a terminal"
)]
fn cell(place: f64, cells: u16, dots: usize) -> u16 {
    let last = usize::from(cells) * dots - 1;
    let dot = (place.clamp(0.0, 1.0) * last as f64).round() as usize;
    u16::try_from(dot / dots).unwrap_or(u16::MAX)
}

fn rows_of(ticks: Vec<Tick>, height: u16, dots: usize) -> Vec<(u16, String)> {
    let shown = ticks.into_iter().filter(|tick| is_inside(tick.at));
    let mut rows: Vec<(u16, String)> =
        shown.map(|tick| (cell(1.0 - tick.at, height, dots), tick.label)).collect();
    rows.dedup_by_key(|(row, _)| *row);
    rows
}
