//! Which columns of the leaderboard fit a screen, and what their cells say.

use super::param_pairs;
use crate::report::sparkline::sparkline;
use crate::report::table::{Align, Column};
use crate::report::wording::{
    metric_names, objective_cell, one_line, param, rough_duration, run_name, state_cell,
    value_cell, value_digits,
};
use crate::study::metric::{ColumnDigits, Direction};
use crate::study::query::SortKey;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialState};
use crate::tui::columns::ColumnKey;
use crate::tui::snapshot::LeaderboardRow;
use crate::tui::state::TuiState;
use crate::tui::theme::Theme;
use crate::tui::together::TableScope;

/// A column with the width it is drawn at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedColumn {
    pub key: Option<ColumnKey>,
    pub column: Column,
    pub width: usize,
}

/// Columns between two columns, and the marks before the first.
const GAP: usize = 2;
/// A parameter's column is no wider.
const WIDEST: usize = 14;
/// Of a name at least so much is shown over its values.
const NARROWEST_TITLE: usize = 6;
/// A reason or a list of parameters gets no column narrower than this.
const NARROWEST_TEXT: usize = 18;

/// The columns of a frame, and how many are scrolled out at the left.
pub(super) struct Columns {
    pub placed: Vec<PlacedColumn>,
    pub left: usize,
}

pub(super) struct ColumnLayout<'a> {
    pub state: &'a TuiState,
    pub now: Timestamp,
    pub theme: Theme,
    pub room: usize,
}

impl ColumnLayout<'_> {
    /// The columns that fit: the narrower the screen, the fewer.
    pub fn columns(&self) -> Columns {
        let mut keys = self.shown();
        let mut pinned = self.pinned(&mut keys);
        // Some of each parameter comes before these.
        for expendable in [ColumnKey::Time, ColumnKey::Curve, ColumnKey::Rank, ColumnKey::Step] {
            let others =
                keys.iter().filter(|key| !matches!(key, ColumnKey::Param(_)) && !self.is_text(key));
            let taken: usize = others.map(|key| self.place(key, WIDEST).width + GAP).sum();
            if self.left_of(&pinned).saturating_sub(taken) < NARROWEST_TEXT
                && !self.state.settings.insists_on(&expendable)
                && !(expendable == ColumnKey::Rank && self.has_front())
            {
                keys.retain(|key| *key != expendable);
                pinned.retain(|placed| {
                    placed.key.as_ref() != Some(&expendable)
                        || ColumnKey::of(&self.state.sort) == expendable
                });
            }
        }
        let (texts, keys): (Vec<ColumnKey>, Vec<ColumnKey>) =
            keys.into_iter().partition(|key| self.is_text(key));
        let mut left = 0;
        let room = self.left_of(&pinned);
        if let Some(full) = self.all_within(&keys, room) {
            pinned.extend(full);
        } else {
            let cut: Vec<PlacedColumn> =
                keys.iter().map(|key| self.place(key, NARROWEST_TITLE)).collect();
            let params = |placed: &[PlacedColumn]| {
                let is_param =
                    |placed: &&PlacedColumn| matches!(placed.key, Some(ColumnKey::Param(_)));
                placed.iter().filter(is_param).count()
            };
            let mut fitted = as_many_as_fit(&cut, self.state.columns_left, room, self.theme);
            self.widen(&mut fitted.0, room);
            let is_unscrolled = self.state.columns_left == 0;
            match self.param_list(room) {
                // One or two of many say less than a list of all.
                Some(list) if is_unscrolled && params(&fitted.0) <= 1 && params(&cut) > 1 => {
                    pinned.push(list)
                }
                _ => {
                    left = fitted.1;
                    pinned.extend(fitted.0);
                }
            }
        }
        for key in texts {
            let column = self.place(&key, WIDEST).column;
            let width = column.width().min(self.left_of(&pinned));
            if width >= NARROWEST_TEXT.min(column.width()) {
                pinned.push(PlacedColumn { key: Some(key), column, width });
            }
        }
        Columns { placed: pinned, left }
    }

    /// Whether trials are marked that are on the front of several objectives.
    fn has_front(&self) -> bool {
        !self.table().objectives.is_empty()
    }

    /// Whether all trials are listed from the best: only there a place among others means
    /// something.
    fn is_ranked(&self) -> bool {
        self.state.sort == SortKey::Value && !self.state.reverse && self.state.filter.is_all()
    }

    fn rows(&self) -> &[LeaderboardRow] {
        &self.state.seen.page.rows
    }

    fn table(&self) -> &TableScope {
        &self.state.seen.table
    }

    fn is_text(&self, key: &ColumnKey) -> bool {
        matches!(key, ColumnKey::Reason | ColumnKey::Note)
    }

    /// What is left of the room after these columns and the gap behind them.
    fn left_of(&self, columns: &[PlacedColumn]) -> usize {
        self.room
            .saturating_sub(GAP + columns.iter().map(|placed| placed.width + GAP).sum::<usize>())
    }

    /// The place of a trial among those with values, with a `*` if it is on the front; the others
    /// come after them, and have none. In another order only the `*`.
    fn rank_cell(&self, row: &LeaderboardRow) -> String {
        let Trial { value, values, .. } = &row.trial;
        let mut known = value.iter().chain(values).peekable();
        if known.peek().is_none() || known.any(|value| value.is_nan()) {
            return String::new();
        }
        let is_on_front = !values.is_empty() && self.state.seen.is_best(row.key);
        let rank = if self.is_ranked() { row.rank.to_string() } else { String::new() };
        rank + if is_on_front { "*" } else { "" }
    }

    /// The columns that are chosen and have something to say.
    fn shown(&self) -> Vec<ColumnKey> {
        let says_something = |key: &ColumnKey| match key {
            ColumnKey::Rank => self.is_ranked() || self.has_front(),
            ColumnKey::Time => self.room >= 100 || self.state.settings.insists_on(key),
            ColumnKey::Tags | ColumnKey::Note | ColumnKey::Reason => {
                self.texts(key).any(|text| !text.is_empty())
            }
            _ => true,
        };
        let all = ColumnKey::all(&self.state.seen);
        all.into_iter()
            .filter(|key| self.state.settings.shows_in(self.table(), key) && says_something(key))
            .collect()
    }

    /// What does not scroll: what a trial is known by, and what is sorted by; taken out of `keys`.
    fn pinned(&self, keys: &mut Vec<ColumnKey>) -> Vec<PlacedColumn> {
        let sorted = ColumnKey::of(&self.state.sort);
        let first = [
            ColumnKey::Rank,
            ColumnKey::Study,
            ColumnKey::Trial,
            ColumnKey::State,
            ColumnKey::Value,
        ];
        let mut pinned: Vec<ColumnKey> =
            first.into_iter().filter(|key| keys.contains(key)).collect();
        let objectives = keys.iter().filter(|key| key.objective(self.table()).is_some());
        pinned.extend(objectives.cloned());
        // On a small screen what is sorted by takes the place of what would not fit; on a large one
        // columns stay where they are.
        let all_fit = || self.all_within(keys, self.room.saturating_sub(GAP)).is_some();
        let is_rank = sorted == ColumnKey::Value && self.has_front();
        if !(is_rank || pinned.contains(&sorted) || keys.contains(&sorted) && all_fit()) {
            pinned.push(sorted);
        }
        keys.retain(|key| !pinned.contains(key));
        pinned.iter().map(|key| self.place(key, WIDEST)).collect()
    }

    /// These columns, if all fit. Many are not even looked at: each takes a column and a gap.
    fn all_within(&self, keys: &[ColumnKey], room: usize) -> Option<Vec<PlacedColumn>> {
        if keys.len() * (GAP + 1) > room + GAP {
            return None;
        }
        let all: Vec<PlacedColumn> = keys.iter().map(|key| self.place(key, WIDEST)).collect();
        (needs(&all) <= room).then_some(all)
    }

    /// Gives what is left of the room to names that were cut, from left to right.
    fn widen(&self, placed: &mut [PlacedColumn], room: usize) {
        let mut left = room.saturating_sub(needs(placed));
        for column in placed {
            let Some(key) = &column.key else { continue };
            let wanted = self.place(key, WIDEST).width;
            let more = wanted.saturating_sub(column.width).min(left);
            column.width += more;
            left -= more;
        }
    }

    /// A column with its cells, as wide as they are and as much of its title as `title` columns
    /// hold.
    fn place(&self, key: &ColumnKey, title: usize) -> PlacedColumn {
        let cells: Vec<String> = self.texts(key).collect();
        let sorted = *key == ColumnKey::of(&self.state.sort);
        let name = match key {
            ColumnKey::Rank if !self.is_ranked() => "front".to_owned(),
            _ => key.title(self.table()),
        };
        let heading = if sorted { format!("{name}{}", self.arrow()) } else { name };
        let column = Column::new(heading, self.align(key), cells);
        let widest = match key {
            ColumnKey::Reason | ColumnKey::Note => usize::MAX,
            ColumnKey::Curve => 16,
            ColumnKey::Tags => 20,
            ColumnKey::Study => 24,
            _ => WIDEST,
        };
        let title = if sorted { title.max(column.width().min(WIDEST)) } else { title };
        let width = column.cells_width().max(column.width().min(title)).min(widest);
        PlacedColumn { key: Some(key.clone()), column, width }
    }

    /// Whether the numbers grow or shrink downwards.
    fn arrow(&self) -> &'static str {
        // Each study has its own direction.
        if self.table().has_metrics && self.state.sort == SortKey::Value {
            return "";
        }
        let is_maximised = self.table().direction == Direction::Maximize;
        let falls = self.state.sort == SortKey::Value && is_maximised;
        if falls == self.state.reverse {
            self.theme.either("▲", "^")
        } else {
            self.theme.either("▼", "v")
        }
    }

    fn align(&self, key: &ColumnKey) -> Align {
        match key {
            ColumnKey::Value | ColumnKey::Metric(_) => Align::Point,
            ColumnKey::Rank
            | ColumnKey::Trial
            | ColumnKey::Step
            | ColumnKey::Time
            | ColumnKey::Age
            | ColumnKey::Attempts => Align::Right,
            ColumnKey::Param(name) => self.table().align(name),
            _ => Align::Left,
        }
    }

    /// What the column says of each row.
    fn texts(&self, key: &ColumnKey) -> impl Iterator<Item = String> {
        let rows = self.rows();
        let digits = match key {
            ColumnKey::Value => value_digits(rows.iter().map(|row| &row.trial)),
            ColumnKey::Metric(name) => {
                ColumnDigits::of(rows.iter().filter_map(|row| match self.objective(row, name) {
                    Some(index) => row.trial.known_values().get(index).copied().flatten(),
                    None => row.trial.last_metrics.get(name),
                }))
            }
            _ => ColumnDigits::default(),
        };
        rows.iter().map(move |row| self.text(key, row, digits))
    }

    /// Which of several objectives of its study a metric is.
    fn objective(&self, row: &LeaderboardRow, metric: &str) -> Option<usize> {
        let spec = &self.state.seen.study(row.key.study)?.spec;
        let objectives = spec.objectives.iter().filter(|_| spec.has_several_objectives());
        objectives.map(|objective| &objective.metric).position(|own| own == metric)
    }

    fn text(&self, key: &ColumnKey, row: &LeaderboardRow, digits: ColumnDigits) -> String {
        let trial = &row.trial;
        let study = || self.state.seen.study(row.key.study);
        match key {
            ColumnKey::Rank => self.rank_cell(row),
            ColumnKey::Study => {
                study().map_or_else(String::new, |study| one_line(&study.spec.name))
            }
            ColumnKey::Objective => {
                study().map_or_else(String::new, |study| metric_names(&study.spec))
            }
            ColumnKey::Trial => match run_name(trial) {
                Some(name) => format!("{} {}", trial.number, one_line(name)),
                None => trial.number.to_string(),
            },
            ColumnKey::State => {
                let is_dead = trial.state == TrialState::Running
                    && self.state.seen.is_interrupted(row.key.study);
                if is_dead { "interrupted" } else { state_cell(trial) }.to_owned()
            }
            ColumnKey::Value => value_cell(trial, digits),
            ColumnKey::Step => trial.last_step().map_or_else(String::new, |step| step.to_string()),
            ColumnKey::Curve => {
                sparkline(&trial.curve, if self.room < 100 { 8 } else { 16 }, self.theme.charset)
            }
            ColumnKey::Time => {
                let spent = self.state.seen.time_spent(row.key.study, trial, self.now);
                spent.map_or_else(String::new, rough_duration)
            }
            ColumnKey::Age => age(trial, self.now),
            ColumnKey::Metric(name) => {
                if let Some(index) = self.objective(row, name) {
                    return objective_cell(trial, index, digits);
                }
                let last = trial.last_metrics.get(name);
                last.map_or_else(String::new, |value| digits.text(value))
            }
            ColumnKey::Param(name) => {
                let params = self.state.seen.params(row.key.study, trial);
                params.get(name).map_or_else(String::new, param)
            }
            ColumnKey::Device => {
                trial.devices.as_ref().map_or_else(String::new, ToString::to_string)
            }
            ColumnKey::Attempts => trial.attempts.to_string(),
            ColumnKey::Tags => one_line(&trial.tags.join(" ")),
            ColumnKey::Note => {
                trial.notes.last().map_or_else(String::new, |note| one_line(&note.text))
            }
            ColumnKey::Reason => trial.reason.as_deref().map_or_else(String::new, one_line),
        }
    }

    /// All parameters in one column, as `name=value`.
    fn param_list(&self, left: usize) -> Option<PlacedColumn> {
        let cells: Vec<String> = self
            .rows()
            .iter()
            .map(|row| param_pairs(row.key, &row.trial, &self.state.seen))
            .collect();
        let column = Column::new("parameters", Align::Left, cells);
        let width = column.width().min(left);
        let is_enough = width >= NARROWEST_TEXT.min(column.width());
        is_enough.then_some(PlacedColumn { key: None, column, width })
    }
}

/// The room that columns take, without the gap behind the last.
fn needs(columns: &[PlacedColumn]) -> usize {
    columns.iter().map(|placed| placed.width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// The columns that fit when the first `scrolled` are left out, with how many are hidden on either
/// side; and how many are left out in truth, since the last ones fill the screen.
fn as_many_as_fit(
    columns: &[PlacedColumn],
    scrolled: usize,
    room: usize,
    theme: Theme,
) -> (Vec<PlacedColumn>, usize) {
    let more = |text: String| {
        let column = Column::new(text, Align::Left, Vec::new());
        PlacedColumn { key: None, width: column.width(), column }
    };
    let mut left = scrolled.min(columns.len().saturating_sub(1));
    // The last columns fill the screen: scrolling further would show nothing new.
    while left > 0 && needs(&columns[left - 1..]) + GAP + 3 <= room {
        left -= 1;
    }
    let before = (left > 0).then(|| more(format!("{}{left}", theme.either("‹", "<"))));
    let mut taken = 0;
    let at_most = columns[left..].iter().take_while(|column| {
        taken += column.width + GAP;
        taken <= room + GAP
    });
    let mut fitting = (left + at_most.count().max(1)).min(columns.len());
    loop {
        let hidden = columns.len() - fitting;
        let after = (hidden > 0).then(|| more(format!("{hidden}{}", theme.either("›", ">"))));
        let placed: Vec<PlacedColumn> =
            before.iter().chain(&columns[left..fitting]).chain(&after).cloned().collect();
        if needs(&placed) <= room {
            return (placed, left);
        }
        if fitting <= left + 1 {
            // Not even one: a part of it is better than nothing.
            let part = columns.get(left).filter(|_| room >= NARROWEST_TITLE).cloned();
            let part = part.map(|part| PlacedColumn { width: part.width.min(room), ..part });
            return (part.into_iter().collect(), left);
        }
        fitting -= 1;
    }
}

fn age(trial: &Trial, now: Timestamp) -> String {
    let since = match trial.state {
        TrialState::Running => trial.started,
        TrialState::Queued | TrialState::Paused => Some(trial.created),
        TrialState::Complete | TrialState::Pruned | TrialState::Failed => trial.finished,
    };
    since.map_or_else(String::new, |since| rough_duration(now.since(since)))
}
