//! The value against each parameter: one small chart a parameter, all with the same axis of values.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::SearchData;
use crate::report::figure::of_study::axis_of_parameter;
use crate::report::figure::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::wording::one_line;
use crate::study::space::{Dimension, Distribution};
use crate::study::trial::TrialState;
use crate::tui::theme::Theme;

/// The least room of one chart.
const LEAST: (u16, u16) = (26, 8);
/// The height from which points above each other are told apart.
const COMFORTABLE: u16 = 11;
/// More than this makes no chart better.
const MOST: (u16, u16) = (100, 30);

pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    data: &SearchData,
    scroll: usize,
    theme: Theme,
) -> usize {
    let dimensions = data.dimensions();
    let count = u16::try_from(dimensions.len()).unwrap_or(u16::MAX);
    if count == 0 {
        theme.say_in(buffer, area, "this study searches no parameter");
        return 0;
    }
    let (columns, rows) = grid(count, area);
    let (width, height) = (area.width / columns, (area.height / rows).min(MOST.1));
    let scroll = scroll.min(usize::from(count.div_ceil(columns).saturating_sub(rows)));
    let first = scroll * usize::from(columns);
    let shown = dimensions.into_iter().skip(first).take(usize::from(columns * rows));
    for (index, (place, dimension)) in (0..).zip(shown) {
        let (column, row) = (index % columns, index / columns);
        let cell = Rect {
            x: area.x + column * width,
            y: area.y + row * height,
            width: width.saturating_sub(2).max(1),
            height: height.saturating_sub(1).max(1),
        };
        slice(data, place, dimension).draw(buffer, cell, theme);
    }
    scroll
}

/// Columns and rows of charts: as few columns as a comfortable height allows, else the least, so
/// that they are wide.
fn grid(count: u16, area: Rect) -> (u16, u16) {
    let most_columns = (area.width / LEAST.0).clamp(1, count);
    let most_rows = (area.height / LEAST.1).max(1);
    let least_columns = (area.width / MOST.0).clamp(1, most_columns);
    let of_height = |height: u16| {
        (least_columns..=most_columns)
            .find(|columns| count.div_ceil(*columns) <= area.height / height)
    };
    let columns = of_height(COMFORTABLE).or_else(|| of_height(LEAST.1)).unwrap_or(most_columns);
    (columns, count.div_ceil(columns).min(most_rows))
}

fn slice(data: &SearchData, place: usize, dimension: &Dimension) -> Figure<'static> {
    let at = |number: usize| {
        data.places[place][number] + if is_choice(dimension) { jitter(number) } else { 0.0 }
    };
    let of = |state: TrialState| -> Vec<(f64, f64)> {
        let trials = data.shown.iter().copied().filter(|number| {
            data.dots[*number].state == state && !data.places[place][*number].is_nan()
        });
        trials.map(|number| (at(number), data.dots[number].value)).collect()
    };
    let best =
        data.best.map(|best| best.index()).filter(|best| !data.places[place][*best].is_nan());
    let best = best.map(|best| (at(best), data.dots[best].value));
    let importance = data.importances.iter().find(|(name, _)| *name == dimension.name);
    let of_which = match data.spec.has_several_objectives() {
        true => format!(", by {}", one_line(&data.spec.objective().metric)),
        false => String::new(),
    };
    Figure {
        title: match importance {
            Some((_, share)) => {
                format!("{}  {}{of_which}", one_line(&dimension.name), percent(*share))
            }
            None => format!("{}{of_which}", one_line(&dimension.name)),
        },
        x: axis_of_parameter(dimension),
        y: Axis::of_trials(data.best_value().into_iter().collect()),
        series: vec![
            Series::new("", Mark::Dots, SeriesRole::Behind, of(TrialState::Pruned)),
            Series::new("", Mark::Dots, SeriesRole::Compared(0), of(TrialState::Complete)),
            Series::new("", Mark::Star, SeriesRole::Best, best.into_iter().collect()),
        ],
        cells: None,
        empty: if data.best.is_some() {
            "in no finished trial"
        } else {
            "no trial has finished yet"
        },
    }
}

/// A share that is small is not none.
fn percent(share: f64) -> String {
    if share > 0.0 && share < 0.005 {
        "< 1 %".to_owned()
    } else {
        format!("{:.0} %", share * 100.0)
    }
}

fn is_choice(dimension: &Dimension) -> bool {
    matches!(dimension.distribution, Distribution::Choice { .. })
}

/// The same for the same trial: multiples of the golden ratio spread evenly over the width of a
/// column.
#[expect(clippy::cast_precision_loss, reason = "the number of a trial")]
fn jitter(number: usize) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    ((number as f64 * GOLDEN).fract() - 0.5) * 0.6
}
