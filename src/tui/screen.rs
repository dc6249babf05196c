//! One frame: header, the screen, what is worth a word, keys, and what lies over them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

use super::keys::{KEYS, Screen};
use super::look::Look;
use super::picture::Subject;
use super::search::SearchView;
use super::state::{Overlay, RunPhase, State};
use super::{TuiMode, detail, events, header, leaderboard, overlay, picture};
use crate::report::wording::{count, one_line, shorten, width};
use crate::study::time::Timestamp;

/// The parts of the screen, top to bottom.
struct Parts {
    header: Rect,
    note: Rect,
    body: Rect,
    preview: Rect,
    selected: Rect,
    notice: Rect,
    footer: Rect,
}

/// A screen lower than this has a header of two lines and no line about the selected trial.
const LOW: u16 = 16;
/// A screen higher than this shows the selected trial below the table.
const HIGH: u16 = 36;

fn parts(area: Rect, state: &State) -> Parts {
    let low = area.height < LOW;
    let of_trials = state.screen == Screen::Trials;
    let has_note = match state.screen {
        Screen::Trials => !state.filter.is_all(),
        Screen::Events => !state.journal.text.is_empty(),
        Screen::Search => true,
        Screen::Compare => state.marked.is_empty(),
        Screen::Trial | Screen::Devices => false,
    };
    let preview = if of_trials && area.height >= HIGH { (area.height / 4).min(15) } else { 0 };
    let heights = [
        Constraint::Length(if low { 2 } else { 5 }),
        Constraint::Length(u16::from(has_note)),
        Constraint::Min(0),
        Constraint::Length(preview),
        Constraint::Length(u16::from(!low && of_trials && preview == 0)),
        Constraint::Length(u16::from(notice(state).is_some())),
        Constraint::Length(1),
    ];
    let [header, note, body, preview, selected, notice, footer] =
        Layout::vertical(heights).areas(area);
    Parts { header, note, body, preview, selected, notice, footer }
}

/// Tells `state` how much of it is to be seen on a screen of this size.
pub fn measure(area: Rect, state: &mut State) {
    let parts = parts(area, state);
    state.preview = parts.preview.height > 0;
    state.body = (parts.body.width, parts.body.height);
    // One line of the body holds the titles.
    let titles = u16::from(state.screen == Screen::Trials);
    state.list.resize(u64::from(parts.body.height.saturating_sub(titles).max(1)));
}

/// Draws everything; `state` learns how far its texts scroll.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, now: Timestamp, look: Look) {
    let area = frame.area();
    let parts = parts(area, state);
    header::draw(frame, parts.header, state, now, look);
    frame.render_widget(note_line(state, parts.note, look), parts.note);
    match state.screen {
        Screen::Trials => {
            leaderboard::draw(frame, parts.body, state, now, look);
            let line = leaderboard::selected_line(state, usize::from(area.width), look);
            frame.render_widget(line, parts.selected);
            if parts.preview.height > 0 {
                detail::draw_preview(frame, parts.preview, state, now, look);
            }
        }
        Screen::Trial => detail::draw(frame, parts.body, state, now, look),
        Screen::Events => events::draw(frame, parts.body, state, look),
        Screen::Compare | Screen::Search | Screen::Devices => {
            draw_picture(frame, parts.body, state, look)
        }
    }
    if let Some(Notice { text, tail, warns }) = notice(state) {
        // What can be pressed next is not cut off, where the reason has room beside it.
        let tail = if usize::from(area.width) >= 2 * tail.len() { tail } else { "" };
        let notice = shorten(
            &text,
            usize::from(area.width).saturating_sub(2 + tail.len()),
            look.charset.cut(),
        ) + tail;
        frame.render_widget(
            Line::styled(format!(" {notice}"), if warns { look.warning() } else { look.dim() }),
            parts.notice,
        );
    }
    draw_footer(frame, parts.footer, state, look);
    overlay::draw(frame, area, state, look);
}

fn draw_picture(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let of_this_screen = |subject: &Subject| {
        matches!(
            (state.screen, subject),
            (Screen::Compare, Subject::Compare { .. })
                | (Screen::Search, Subject::Search(_))
                | (Screen::Devices, Subject::Devices)
        )
    };
    match state.seen.picture.as_ref().filter(|picture| of_this_screen(&picture.request.subject)) {
        Some(picture) => picture::copy(picture, frame.buffer_mut(), area),
        None => look.say(frame, area, "loading"),
    }
}

/// What is worth a word.
struct Notice {
    text: String,
    /// What it ends with, however little room there is.
    tail: &'static str,
    warns: bool,
}

fn notice(state: &State) -> Option<Notice> {
    let warning = |text: String| Notice { text, tail: "", warns: true };
    if let Some(Overlay::Prompt(prompt)) = &state.overlay {
        let problem = prompt.problem.as_ref().map(|problem| warning(one_line(problem)));
        return Some(
            problem.unwrap_or_else(|| Notice { warns: false, ..warning(prompt.hint().to_owned()) }),
        );
    }
    match (&state.phase, &state.notice) {
        (RunPhase::Over(reason), None) => {
            let tail = match state.mode {
                _ if state.seen.summary.counts.only_fail() => " - q leaves",
                TuiMode::Embedded => " - E +20 runs 20 more, q leaves",
                TuiMode::Watching => " - E raises the budget, q leaves",
            };
            Some(Notice { tail, ..warning(format!("study finished: {}", one_line(reason))) })
        }
        (_, Some(notice)) => Some(warning(one_line(notice))),
        (RunPhase::Stopping, None) => {
            Some(warning("stopping: running trials save a checkpoint and leave".to_owned()))
        }
        (RunPhase::Open, None) => None,
    }
}

fn note_line(state: &State, area: Rect, look: Look) -> Line<'static> {
    match state.screen {
        Screen::Search => return views(state, look),
        Screen::Compare => {
            return Line::styled(
                " the best trial beside another; Space on screen 1 marks the trials to compare",
                look.dim(),
            );
        }
        Screen::Trials | Screen::Trial | Screen::Devices | Screen::Events => {}
    }
    let (text, found) = match state.screen {
        Screen::Events => (state.journal.text.clone(), String::new()),
        _ => {
            let all = state.seen.summary.counts.total();
            (
                state.filter.text().to_owned(),
                format!("{} of {}", state.seen.page.matching, count(all, "trial")),
            )
        }
    };
    let tail = format!("  {found}  Esc shows all");
    let text = shorten(
        &one_line(&text),
        usize::from(area.width).saturating_sub(width(&tail) + 9),
        look.charset.cut(),
    );
    Line::from(vec![
        Span::styled(" filter ", look.dim()),
        Span::styled(text, look.warning()),
        Span::styled(tail, look.dim()),
    ])
}

/// The views of the search, the one that is shown standing out.
fn views(state: &State, look: Look) -> Line<'static> {
    let name = |view: SearchView| {
        Span::styled(
            format!(" {}  ", view.as_str()),
            if view == state.search { look.strong() } else { look.dim() },
        )
    };
    Line::from(SearchView::ALL.map(name).to_vec())
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    if let Some(Overlay::Prompt(prompt)) = &state.overlay {
        let (line, column) = overlay::typed(
            &format!(" {}: ", prompt.label()),
            &prompt.line,
            usize::from(area.width) / 2,
            look,
        );
        frame.render_widget(line, area);
        overlay::put_cursor(frame, area, column, 0);
        return;
    }
    let mut spans = Vec::new();
    let mut used = 0;
    for line in KEYS.iter().filter(|line| line.works_on(state.screen)) {
        let Some(word) = line.footer() else {
            continue;
        };
        used += line.label.len() + word.len() + 4;
        if used > usize::from(area.width) {
            break;
        }
        spans.push(Span::styled(format!(" {}", line.label), look.strong()));
        spans.push(Span::styled(format!(" {word}  "), look.dim()));
    }
    frame.render_widget(Line::from(spans), area);
}
