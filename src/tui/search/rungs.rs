//! What the pruner decided: for each step how many trials came there, continued, wait or were
//! stopped, and what it took.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::SearchData;
use crate::pruners::{BRACKETS, MAX_RESOURCE, MIN_RESOURCE, REDUCTION_FACTOR, RUNG_FACTOR};
use crate::report::table::{Align, Column};
use crate::report::wording::{number, one_line};
use crate::study::decision::Decision;
use crate::study::metric::Score;
use crate::study::trial::{Trial, TrialState};
use crate::tui::look::Look;

/// What a decision meant for a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    WentOn,
    Waits,
    Stopped,
}

/// A decision about a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decided {
    step: u64,
    outcome: Outcome,
    /// The report that it answered.
    value: f64,
}

/// The decisions about a trial, as far as the table needs them.
pub(super) fn decided(trial: &Trial) -> Vec<Decided> {
    let last = trial.last().map_or(0, |(step, _)| step);
    let outcome = |step: u64, verdict: &Decision| match verdict {
        Decision::Continue(_) => Outcome::WentOn,
        Decision::Stop(_) => Outcome::Stopped,
        Decision::Pause(_)
            if last > step || matches!(trial.state, TrialState::Running | TrialState::Complete) =>
        {
            Outcome::WentOn
        }
        Decision::Pause(_) => Outcome::Waits,
    };
    let value = |step: u64| {
        trial
            .curve
            .binary_search_by_key(&step, |(at, _)| *at)
            .map_or(f64::NAN, |index| trial.curve[index].1)
    };
    let decisions = trial.decisions.iter();
    decisions
        .map(|decision| Decided {
            step: decision.step,
            outcome: outcome(decision.step, &decision.verdict),
            value: value(decision.step),
        })
        .collect()
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
        match decided.outcome {
            Outcome::WentOn => rung.went_on += 1,
            Outcome::Waits => rung.waits += 1,
            Outcome::Stopped => rung.stopped += 1,
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

/// The value of the last trial that continues from a rung, with one ladder; others compare trials
/// that are not told apart here.
fn cut_off(data: &SearchData, rung: &Rung) -> Option<f64> {
    let pruner = &data.spec.pruner;
    if pruner.name != "asha" || BRACKETS.of::<u64>(pruner) > 1 {
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

pub fn draw(buffer: &mut Buffer, area: Rect, data: &SearchData, scroll: u16, look: Look) {
    let pruner = one_line(&data.spec.pruner.name);
    if data.spec.pruner.name == "none" {
        let text = "this study stops no trial early: it has no `[pruner]`";
        return look.say_in(buffer, area, text);
    }
    let rungs = rungs(data);
    if rungs.is_empty() {
        return look.say_in(buffer, area, &format!("`{pruner}` has decided nothing yet"));
    }
    let cells = |cell: &dyn Fn(&Rung) -> String| rungs.iter().map(cell).collect::<Vec<_>>();
    let counted = |count: u64| count.to_string();
    let value = |value: Option<f64>| value.map_or_else(String::new, number);
    let metric = one_line(&data.spec.objective().metric);
    let all = [
        Column::new(data.spec.step.as_str(), Align::Right, cells(&|rung| rung.step.to_string())),
        Column::new("reached", Align::Right, cells(&|rung| counted(rung.reached()))),
        Column::new("continued", Align::Right, cells(&|rung| counted(rung.went_on))),
        Column::new("wait", Align::Right, cells(&|rung| counted(rung.waits))),
        Column::new("stopped", Align::Right, cells(&|rung| counted(rung.stopped))),
        Column::new("cut-off", Align::Point, cells(&|rung| value(cut_off(data, rung)))),
        Column::new("best", Align::Point, cells(&|rung| value(best_of(data, rung)))),
    ];
    let waits = rungs.iter().any(|rung| rung.waits > 0);
    let cuts = rungs.iter().any(|rung| cut_off(data, rung).is_some());
    let columns: Vec<&Column> = all
        .iter()
        .enumerate()
        .filter(|(index, _)| (*index != 3 || waits) && (*index != 5 || cuts))
        .map(|(_, column)| column)
        .collect();
    let mut put = Pen { buffer, area, look };
    // Decisions of a large study are read part by part.
    let part = if data.is_complete() {
        String::new()
    } else {
        format!(" (the first {} trials)", data.decisions_of)
    };
    put.text(
        1,
        0,
        &format!("{pruner}: what became of trials at each step, by {metric}{part}"),
        look.strong(),
    );
    let mut at = 1;
    for column in columns {
        let width = u16::try_from(column.width()).unwrap_or(u16::MAX);
        put.text(at, 1, &column.title(column.width(), look.charset.cut()), look.dim());
        for (row, index) in put.rows(scroll, rungs.len()) {
            put.text(
                at,
                row,
                &column.cell(index, column.width(), look.charset.cut()),
                Style::new(),
            );
        }
        at = at.saturating_add(width + 2);
    }
    let most = rungs.iter().map(Rung::reached).max().unwrap_or(1).max(1);
    for (row, index) in put.rows(scroll, rungs.len()) {
        put.bar(at, row, &rungs[index], most);
    }
}

/// Where and how the table is drawn.
struct Pen<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    look: Look,
}

impl Pen<'_> {
    /// Lines of the area and the rungs that they show.
    fn rows(&self, scroll: u16, count: usize) -> Vec<(u16, usize)> {
        let room = usize::from(self.area.height.saturating_sub(2));
        let first = usize::from(scroll).min(count.saturating_sub(room));
        (2..self.area.height).zip(first..count).collect()
    }

    fn text(&mut self, x: u16, y: u16, text: &str, style: Style) {
        if x < self.area.width && y < self.area.height {
            self.buffer.set_stringn(
                self.area.x + x,
                self.area.y + y,
                text,
                usize::from(self.area.width - x),
                style,
            );
        }
    }

    /// How many reached a rung, of the most that reached any; those that continued from it first.
    fn bar(&mut self, x: u16, y: u16, rung: &Rung, most: u64) {
        let room = self.area.width.saturating_sub(x + 1).min(60);
        if room < 8 {
            return;
        }
        let columns = |count: u64| {
            u16::try_from((u64::from(room) * count).div_ceil(most)).unwrap_or(room).min(room)
        };
        let (went_on, waits, all) =
            (columns(rung.went_on), columns(rung.went_on + rung.waits), columns(rung.reached()));
        let (look, full, half) =
            (self.look, self.look.either("█", "#"), self.look.either("░", "."));
        let middle = look.either("▒", "=");
        self.text(x, y, &full.repeat(usize::from(went_on)), look.good());
        self.text(
            x + went_on,
            y,
            &middle.repeat(usize::from(waits.saturating_sub(went_on))),
            look.trial_state(TrialState::Paused),
        );
        self.text(
            x + waits.max(went_on),
            y,
            &half.repeat(usize::from(all.saturating_sub(waits.max(went_on)))),
            look.dim(),
        );
    }
}
