//! Which trial ran where and when.

use std::collections::BTreeMap;

use super::of_study::{present, series, whole};
use super::{Axis, Figure, Mark, SeriesRole};
use crate::report::wording::one_line;
use crate::storage::Attempt;
use crate::study::event::AttemptEnd;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;

/// How attempts are grouped, in the order of the legend.
const GROUPS: [&str; 6] = ["completed", "paused", "pruned", "interrupted", "failed", "running"];

/// The attempts of a study as bars, a row per slot, over seconds since the first one began.
pub fn timeline(spec: &StudySpec, attempts: &[Attempt], now: Timestamp) -> Figure<'static> {
    let rows: BTreeMap<(usize, String), f64> = {
        let mut slots: Vec<(usize, String)> = attempts.iter().map(row_of).collect();
        slots.sort();
        slots.dedup();
        slots.into_iter().zip((0_u64..).map(whole)).collect()
    };
    let began = attempts.iter().map(|attempt| attempt.started).min();
    let seconds = |at: Timestamp| at.since(began.unwrap_or(at)).as_secs_f64();
    let mut groups: [Vec<(f64, f64)>; GROUPS.len()] = Default::default();
    for attempt in attempts {
        let Some(row) = rows.get(&row_of(attempt)) else { continue };
        let (start, end) = (seconds(attempt.started), seconds(attempt.ended.unwrap_or(now)));
        groups[group_of(attempt)].extend([(start, *row), (end, *row)]);
    }
    let bars = groups.into_iter().enumerate().map(|(index, points)| {
        series(GROUPS[index], points, Mark::Bars, SeriesRole::Compared(index))
    });
    let last = whole(rows.len() as u64);
    Figure {
        title: one_line(&format!("{}: slots over time", spec.name)),
        x: Axis::linear().labelled("seconds"),
        y: Axis {
            ends: Some((-0.6, (last - 0.4).max(0.6))),
            names: rows.into_iter().map(|((_, name), row)| (row, name)).collect(),
            ..Axis::linear().labelled("slot")
        },
        cells: None,
        series: present(bars.collect()),
        empty: "no trial has started",
    }
}

/// The row of an attempt's slot: its index and name.
fn row_of(attempt: &Attempt) -> (usize, String) {
    (attempt.slot.index, format!("{} {}", attempt.slot.index, attempt.slot.device))
}

fn group_of(attempt: &Attempt) -> usize {
    match &attempt.end {
        Some(AttemptEnd::Completed | AttemptEnd::Diverged) => 0,
        Some(AttemptEnd::Paused) => 1,
        Some(AttemptEnd::Stopped) => 2,
        Some(AttemptEnd::Interrupted | AttemptEnd::Lost | AttemptEnd::Refused) => 3,
        Some(AttemptEnd::Failed(_)) => 4,
        None => 5,
    }
}
