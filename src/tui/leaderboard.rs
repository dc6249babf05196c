//! The table of trials: which columns fit, and how its rows are drawn.

mod layout;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::columns::ColumnKey;
use super::snapshot::{LeaderboardRow, Snapshot};
use super::state::TuiState;
use super::theme::Theme;
use super::trial_key::TrialKey;
use crate::report::sparkline::Charset;
use crate::report::wording::{StudyStatus, one_line, param, width};
use crate::study::counted::count;
use crate::study::time::Timestamp;
use crate::study::trial::Trial;
use layout::{ColumnLayout, PlacedColumn};

/// Draws titles and rows into `area`; `state` learns how far its columns scroll.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut TuiState, now: Timestamp, theme: Theme) {
    if state.seen.page.rows.is_empty() {
        return theme.say(frame, area, nothing(state));
    }
    let columns = ColumnLayout { state, now, theme, room: usize::from(area.width) }.columns();
    state.columns_left = columns.left;
    let page = std::sync::Arc::clone(&state.seen.page);
    let mut y = area.y;
    let mut put = |line: Line<'_>, style: Style| {
        if y < area.bottom() {
            frame.render_widget(line, Rect { y, height: 1, ..area });
            frame.buffer_mut().set_style(Rect { y, height: 1, ..area }, style);
        }
        y = y.saturating_add(1);
    };
    put(title_line(&columns.placed, state, theme), Style::new());
    let rows = usize::from(area.height.saturating_sub(1));
    let first = usize::try_from(page.first).unwrap_or(usize::MAX);
    for row in state.list.offset()..state.list.offset() + rows {
        let index = row.checked_sub(first);
        let Some((index, found)) = index.and_then(|index| Some((index, page.rows.get(index)?)))
        else {
            // Not loaded yet.
            put(Line::default(), Style::new());
            continue;
        };
        let selected = row == state.list.selected();
        put(
            row_line(&columns.placed, index, found, selected, state, theme),
            if selected { theme.selected() } else { Style::new() },
        );
    }
}

fn nothing(state: &TuiState) -> &'static str {
    match state.seen.state {
        _ if !state.filter.is_all() => "no trial passes the filter; Esc removes it",
        StudyStatus::Running => "waiting for the first trial",
        StudyStatus::Idle => "no runs: `hpsearch track` adds one",
        _ => "no trials yet: `hpsearch run` starts the study",
    }
}

fn title_line(columns: &[PlacedColumn], state: &TuiState, theme: Theme) -> Line<'static> {
    let sorted = ColumnKey::of(&state.sort);
    let mut spans = vec![Span::raw("  ")];
    for placed in columns {
        let style = if placed.key.as_ref() == Some(&sorted) { theme.strong() } else { theme.dim() };
        spans.push(Span::styled(placed.column.title(placed.width, theme.charset.cut()), style));
        spans.push(Span::raw("  "));
    }
    Line::from(spans)
}

fn row_line(
    columns: &[PlacedColumn],
    index: usize,
    row: &LeaderboardRow,
    selected: bool,
    state: &TuiState,
    theme: Theme,
) -> Line<'static> {
    let trial = &row.trial;
    let best = state.seen.is_best(row.key);
    let pointer = if selected { theme.either("▸", ">") } else { " " };
    let mark = match (state.marked.contains(&row.key), selected) {
        (false, _) => Span::raw(" "),
        (true, true) => Span::raw(theme.either("●", "*")),
        (true, false) => Span::styled(theme.either("●", "*"), theme.marked()),
    };
    let mut spans = vec![Span::raw(pointer), mark];
    for placed in columns {
        let style = match &placed.key {
            // On the selected row a colour would become a coloured block.
            _ if selected => Style::new(),
            Some(ColumnKey::State) => theme.trial_state(trial.state),
            Some(ColumnKey::Value) if best => theme.good().patch(theme.strong()),
            Some(ColumnKey::Value) if trial.value.is_none() => theme.dim(),
            Some(
                ColumnKey::Curve
                | ColumnKey::Reason
                | ColumnKey::Note
                | ColumnKey::Rank
                | ColumnKey::Age
                | ColumnKey::Time,
            ) => theme.dim(),
            _ => Style::new(),
        };
        spans.push(Span::styled(
            placed.column.cell(index, placed.width, theme.charset.cut()),
            style,
        ));
        spans.push(Span::raw("  "));
    }
    Line::from(spans)
}

/// `name=value` for each active parameter, in the order of the space.
pub fn param_pairs(key: TrialKey, trial: &Trial, seen: &Snapshot) -> String {
    let (table, params) = (&seen.table, seen.params(key.study, trial));
    let pairs = table.params.iter().filter_map(|(name, _)| {
        let value = params.get(name)?;
        Some(format!("{}={}", one_line(table.short_name(name)), param(value)))
    });
    pairs.collect::<Vec<_>>().join(" ")
}

/// The line under the table: why the selected trial is in its state, its parameters, and where in
/// the list it is.
pub fn selected_line(state: &TuiState, room: usize, theme: Theme) -> Line<'static> {
    let Some(key) = state.list.trial() else { return Line::default() };
    let Some(trial) = state.seen.trial(key) else { return Line::default() };
    let place =
        format!("{}/{}", state.list.selected() + 1, count(state.seen.page.matching, "trial"));
    let head = format!(" {}  ", state.title_of(key));
    let pairs = param_pairs(key, trial, &state.seen);
    let separator = if theme.charset == Charset::Unicode { " · " } else { " - " };
    let text = match &trial.reason {
        Some(reason) => format!("{} {}{separator}{pairs}", trial.state.as_str(), one_line(reason)),
        None => pairs,
    };
    let left = room.saturating_sub(width(&head) + width(&place) + 3);
    let text = theme.shorten(&text, left);
    let space = " ".repeat(left.saturating_sub(width(&text)) + 2);
    Line::from(vec![
        Span::styled(head, theme.strong()),
        Span::raw(text),
        Span::raw(space),
        Span::styled(place, theme.dim()),
    ])
}
