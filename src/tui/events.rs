//! The screen of events: the journal, the newest at the bottom.

use jiff::tz::TimeZone;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::state::TuiState;
use super::theme::Theme;
use crate::report::journal_entry::{EntryKind, JournalEntry};
use crate::report::wording::width;

/// Draws the entries above `state`'s place, the newest at the bottom; `state` learns how far it may
/// scroll.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut TuiState, theme: Theme) {
    let journal = state.seen.journal.clone();
    let shown = state.journal.shown(&journal.entries);
    let height = usize::from(area.height);
    state.journal.below = state.journal.below.min(shown.len().saturating_sub(height));
    let end = shown.len() - state.journal.below;
    let visible = &shown[end.saturating_sub(height)..end];
    if visible.is_empty() {
        let text = if state.journal.text.is_empty() {
            "nothing has happened yet"
        } else {
            "no event contains this text; Esc shows everything"
        };
        return theme.say(frame, area, text);
    }
    let room = usize::from(area.width);
    let numbers = visible
        .iter()
        .filter_map(|entry| entry.trial)
        .map(|trial| trial.to_string().len())
        .max()
        .unwrap_or(1);
    let mut day = None;
    for (row, entry) in (area.y..).zip(visible) {
        let line = entry_line(entry, numbers, &mut day, &state.zone, room, theme);
        frame.render_widget(line, Rect { y: row, height: 1, ..area });
    }
}

fn entry_line(
    entry: &JournalEntry,
    numbers: usize,
    day: &mut Option<jiff::civil::Date>,
    zone: &TimeZone,
    room: usize,
    theme: Theme,
) -> Line<'static> {
    let moment =
        jiff::Timestamp::from_microsecond(entry.at.0).unwrap_or_default().to_zoned(zone.clone());
    // The day stands where it begins; the time would not tell two days apart.
    let shown_day = if day.replace(moment.date()) == Some(moment.date()) {
        String::new()
    } else {
        moment.strftime("%m-%d").to_string()
    };
    let head = format!(" {shown_day:>5} {}  ", moment.strftime("%H:%M:%S"));
    let trial = entry.trial.map_or_else(String::new, |trial| format!("trial {trial}"));
    let trial = format!("{trial:<width$}  ", width = numbers + 6);
    let style = match entry.kind {
        EntryKind::Report | EntryKind::Quiet => theme.dim(),
        EntryKind::Plain => Style::new(),
        EntryKind::Now(state) => theme.trial_state(state),
        EntryKind::Study => theme.strong(),
    };
    let text = theme.shorten(&entry.text, room.saturating_sub(width(&head) + width(&trial) + 1));
    Line::from(vec![Span::styled(head, theme.dim()), Span::raw(trial), Span::styled(text, style)])
}
