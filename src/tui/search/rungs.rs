//! What the pruner decided: for each step how many trials came there, continued, wait or were
//! stopped, and what it took.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use super::SearchData;
use super::table::ScrolledTable;
use crate::pruners::{
    BRACKETS, MAX_RESOURCE, MIN_RESOURCE, RANK_BY, REDUCTION_FACTOR, RUNG_FACTOR,
};
use crate::report::fate::{Fate, fates};
use crate::report::table::{Column, Columns};
use crate::report::wording::{number, one_line};
use crate::study::metric::Score;
use crate::study::trial::{Trial, TrialState};
use crate::tui::theme::Theme;

/// A decision about a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decided {
    step: u64,
    fate: Fate,
    /// The report that it answered.
    value: f64,
}

/// The decisions about a trial, as far as the table needs them.
pub(super) fn decided(trial: &Trial) -> Vec<Decided> {
    let value = |step: u64| {
        trial
            .curve
            .binary_search_by_key(&step, |(at, _)| *at)
            .map_or(f64::NAN, |index| trial.curve[index].1)
    };
    let fates = fates(trial).into_iter();
    fates.map(|(step, fate)| Decided { step, fate, value: value(step) }).collect()
}

/// One line of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rung {
    step: u64,
    went_on: u64,
    waits: u64,
    stopped: u64,
    values: Vec<f64>,
}

impl Rung {
    fn reached(&self) -> u64 {
        self.went_on + self.waits + self.stopped
    }
}

/// All rungs by step: those of the pruner's ladder, and wherever else it decided.
pub(super) fn rungs(data: &SearchData) -> Vec<Rung> {
    let ladder = ladder(data);
    let mut rungs: BTreeMap<u64, Rung> =
        ladder.iter().map(|step| (*step, Rung { step: *step, ..Rung::default() })).collect();
    for decided in data.decided.values().flatten() {
        // A report may come some steps behind its rung.
        let step =
            ladder.iter().rev().copied().find(|rung| *rung <= decided.step).unwrap_or(decided.step);
        let rung = rungs.entry(step).or_insert_with(|| Rung { step, ..Rung::default() });
        match decided.fate {
            Fate::Continued | Fate::Resumed => rung.went_on += 1,
            Fate::Waits => rung.waits += 1,
            Fate::Stopped => rung.stopped += 1,
        }
        rung.values.push(decided.value);
    }
    rungs.into_values().filter(|rung| rung.reached() > 0).collect()
}

/// The rungs of successive halving as its specification has them; none for other pruners.
fn ladder(data: &SearchData) -> Vec<u64> {
    let pruner = &data.spec.pruner;
    if !is_halving(data) {
        return Vec::new();
    }
    let first = MIN_RESOURCE.of::<u64>(pruner).max(1);
    let factor =
        RUNG_FACTOR.of::<Option<u64>>(pruner).unwrap_or(REDUCTION_FACTOR.of(pruner)).max(2);
    let end = MAX_RESOURCE.of::<Option<u64>>(pruner).unwrap_or(u64::MAX);
    std::iter::successors(Some(first), |step| step.checked_mul(factor))
        .take_while(|step| *step < end)
        .take(40)
        .collect()
}

fn is_halving(data: &SearchData) -> bool {
    matches!(data.spec.pruner.name.as_str(), "asha" | "hyperband")
}

/// The value of the last trial that continues from a rung, with one ladder of values of one
/// objective; others compare trials by what is not shown here.
fn cut_off(data: &SearchData, rung: &Rung) -> Option<f64> {
    let pruner = &data.spec.pruner;
    let by_value = RANK_BY.of::<String>(pruner) == "value";
    let has_one_ladder = pruner.name == "asha" && BRACKETS.of::<u64>(pruner) <= 1;
    if !by_value || !has_one_ladder || data.spec.has_several_objectives() {
        return None;
    }
    let survivors = rung.reached() / REDUCTION_FACTOR.of::<u64>(pruner).max(2);
    let mut scores: Vec<Score> =
        rung.values.iter().map(|value| Score::new(data.direction(), *value)).collect();
    scores.sort_unstable();
    let last = scores.get(usize::try_from(survivors.checked_sub(1)?).ok()?)?;
    // A score is a loss: smaller is better.
    Some(data.direction().loss(last.loss()))
}

fn best_of(data: &SearchData, rung: &Rung) -> Option<f64> {
    rung.values
        .iter()
        .copied()
        .filter(|value| !value.is_nan())
        .min_by_key(|value| Score::new(data.direction(), *value))
}

pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    data: &SearchData,
    scroll: usize,
    theme: Theme,
) -> usize {
    let (rungs, pruner) = (rungs(data), one_line(&data.spec.pruner.name));
    let nothing = match rungs.is_empty() {
        _ if pruner == "none" => "this study stops no trial early: it has no `[pruner]`",
        true => &format!("`{pruner}` has decided nothing yet"),
        false => "",
    };
    if !nothing.is_empty() {
        theme.say_in(buffer, area, nothing);
        return 0;
    }
    let columns = columns(data, &rungs);
    // Decisions of a large study are read part by part.
    let part = match data.is_complete() {
        true => String::new(),
        false => format!(" (the first {} trials)", data.decisions_of),
    };
    let metric = data.metric_in_words();
    let heading = format!(" {pruner}: what became of trials at each step, by {metric}{part}");
    let most = rungs.iter().map(Rung::reached).max().unwrap_or(1).max(1);
    let table = ScrolledTable { heading, columns, rows: rungs.len() };
    table.draw(buffer, area, scroll, theme, |index, room| bar(&rungs[index], most, room, theme))
}

/// The table without its bars; columns in which every cell is empty are left out.
fn columns(data: &SearchData, rungs: &[Rung]) -> Vec<Column> {
    let value = |value: Option<f64>| value.map_or_else(String::new, number);
    let mut columns = Columns::of(rungs)
        .right(data.spec.step.as_str(), |rung| rung.step.to_string())
        .right("reached", |rung| rung.reached().to_string())
        .right("continued", |rung| rung.went_on.to_string());
    if rungs.iter().any(|rung| rung.waits > 0) {
        columns = columns.right("wait", |rung| rung.waits.to_string());
    }
    columns = columns.right("stopped", |rung| rung.stopped.to_string());
    if rungs.iter().any(|rung| cut_off(data, rung).is_some()) {
        columns = columns.point("cut-off", |rung| value(cut_off(data, rung)));
    }
    columns.point("best", |rung| value(best_of(data, rung))).end()
}

/// How many reached a rung, of the most that reached any; those that continued from it first.
fn bar(rung: &Rung, most: u64, room: usize, theme: Theme) -> Vec<Span<'static>> {
    let room = room.min(60);
    if room < 8 {
        return Vec::new();
    }
    let columns = |count: u64| {
        usize::try_from((room as u64 * count).div_ceil(most)).unwrap_or(room).min(room)
    };
    let went_on = columns(rung.went_on);
    let waits = columns(rung.went_on + rung.waits).max(went_on);
    let rest = columns(rung.reached()).saturating_sub(waits);
    vec![
        Span::styled(theme.either("█", "#").repeat(went_on), theme.good()),
        Span::styled(
            theme.either("▒", "=").repeat(waits - went_on),
            theme.trial_state(TrialState::Paused),
        ),
        Span::styled(theme.either("░", ".").repeat(rest), theme.dim()),
    ]
}
