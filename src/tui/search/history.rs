//! The history of the search: every finished trial's value, and the best so far, over trials and
//! over time.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Direction, Layout, Rect};

use super::SearchData;
use crate::report::figure::{Axis, Figure, Mark, Series, SeriesRole};
use crate::study::time::Timestamp;
use crate::study::trial::TrialState;
use crate::tui::theme::Theme;

/// With so much room both charts are shown: beside each other, or one above the other.
const BOTH_ACROSS: u16 = 110;
const BOTH_DOWN: u16 = 24;

pub fn draw(buffer: &mut Buffer, area: Rect, data: &SearchData, theme: Theme) {
    let direction = match (area.width, area.height) {
        (BOTH_ACROSS.., _) => Direction::Horizontal,
        (_, BOTH_DOWN..) => Direction::Vertical,
        _ => return over_trials(data).draw(buffer, area, theme),
    };
    let parts = [Constraint::Fill(1), Constraint::Length(1), Constraint::Fill(1)];
    let [first, _, second] = Layout::new(direction, parts).areas(area);
    over_trials(data).draw(buffer, first, theme);
    over_time(data).draw(buffer, second, theme);
}

#[expect(clippy::cast_precision_loss, reason = "a trial's number on an axis")]
fn over_trials(data: &SearchData) -> Figure<'static> {
    let last = data.dots.len().max(1) as f64 - 1.0;
    let x = Axis { ends: Some((0.0, last.max(1.0))), ..Axis::whole() };
    chart(data, x, "trial", last, &data.better_by_number, &|number| Some(number as f64))
}

fn over_time(data: &SearchData) -> Figure<'static> {
    let begin = data.dots.first().map(|dot| dot.created).unwrap_or_default();
    let last = data.dots.iter().filter_map(|dot| dot.finished).max().unwrap_or(begin);
    let (unit, seconds) = match last.since(begin).as_secs() {
        0..180 => ("seconds", 1.0),
        180..10_800 => ("minutes", 60.0),
        10_800..259_200 => ("hours", 3_600.0),
        _ => ("days", 86_400.0),
    };
    let at = |moment: Timestamp| moment.since(begin).as_secs_f64() / seconds;
    chart(data, Axis::linear(), unit, at(last), &data.better_by_time, &|number| {
        data.dots[number].finished.map(at)
    })
}

/// A dot for every trial `at` its place, and a line for those that were `better` than all before
/// them.
fn chart(
    data: &SearchData,
    x: Axis,
    by: &str,
    last: f64,
    better: &[usize],
    at: &dyn Fn(usize) -> Option<f64>,
) -> Figure<'static> {
    let point = |number: usize| Some((at(number)?, data.dots[number].value));
    let of = |state: TrialState| -> Vec<(f64, f64)> {
        data.shown
            .iter()
            .filter(|number| data.dots[**number].state == state)
            .filter_map(|number| point(*number))
            .collect()
    };
    let mut best: Vec<(f64, f64)> = better.iter().filter_map(|number| point(*number)).collect();
    let star = best.last().copied();
    // The line continues to the last trial.
    best.extend(star.map(|(_, value)| (last, value)));
    let named = |name: &str, mark, tone, points: Vec<(f64, f64)>| {
        Series::new(if points.is_empty() { "" } else { name }, mark, tone, points)
    };
    Figure {
        title: data.titled(format!("{} by {by}", data.metric_in_words())),
        x,
        y: Axis::without_outliers(data.best_value().into_iter().collect()),
        series: vec![
            named("pruned", Mark::Dots, SeriesRole::Behind, of(TrialState::Pruned)),
            named("complete", Mark::Dots, SeriesRole::Compared(0), of(TrialState::Complete)),
            named("best so far", Mark::Steps, SeriesRole::Best, best),
            named(
                &data.best.map_or_else(String::new, |best| format!("trial {best}")),
                Mark::Star,
                SeriesRole::Best,
                star.into_iter().collect(),
            ),
        ],
        cells: None,
        empty: "no trial has finished yet",
    }
}
