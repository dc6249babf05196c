//! One frame: header, the screen, what is worth a word, keys, and what lies over them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::keys::{KEYS, KeyLine, Screen};
use super::picture::Subject;
use super::search::SearchView;
use super::state::{Overlay, RunPhase, TuiState};
use super::theme::{Palette, Theme, wrapped};
use super::{TuiMode, detail, events, header, leaderboard, overlay, picture};
use crate::report::sparkline::Charset;
use crate::report::wording::{one_line, study_count, width};
use crate::study::counted::count;
use crate::study::time::Timestamp;

/// The parts of the screen, top to bottom.
struct Parts {
    header: Rect,
    goal: Rect,
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

fn parts(area: Rect, state: &TuiState) -> Parts {
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
        Constraint::Length(header::goal_height(state, area.width, low)),
        Constraint::Length(u16::from(has_note)),
        Constraint::Min(0),
        Constraint::Length(preview),
        Constraint::Length(u16::from(!low && of_trials && preview == 0)),
        Constraint::Length(notice_height(state, area)),
        Constraint::Length(1),
    ];
    let [header, goal, note, body, preview, selected, notice, footer] =
        Layout::vertical(heights).areas(area);
    Parts { header, goal, note, body, preview, selected, notice, footer }
}

/// Tells `state` how much of it is to be seen on a screen of this size.
pub fn measure(area: Rect, state: &mut TuiState) {
    let parts = parts(area, state);
    state.preview = parts.preview.height > 0;
    state.body = (parts.body.width, parts.body.height);
    // One line of the body holds the titles.
    let titles = u16::from(state.screen == Screen::Trials);
    state.list.resize(usize::from(parts.body.height.saturating_sub(titles)));
}

/// Draws everything; `state` learns how far its texts scroll.
pub fn draw(frame: &mut Frame<'_>, state: &mut TuiState, now: Timestamp, theme: Theme) {
    let area = frame.area();
    let parts = parts(area, state);
    header::draw(frame, parts.header, state, now, theme);
    header::draw_goal(frame, parts.goal, state, theme);
    frame.render_widget(note_line(state, parts.note, theme), parts.note);
    match state.screen {
        Screen::Trials => {
            leaderboard::draw(frame, parts.body, state, now, theme);
            let line = leaderboard::selected_line(state, usize::from(area.width), theme);
            frame.render_widget(line, parts.selected);
            if parts.preview.height > 0 {
                detail::draw_preview(frame, parts.preview, state, now, theme);
            }
        }
        Screen::Trial => detail::draw(frame, parts.body, state, now, theme),
        Screen::Events => events::draw(frame, parts.body, state, theme),
        Screen::Compare | Screen::Search | Screen::Devices => {
            draw_picture(frame, parts.body, state, theme)
        }
    }
    if let Some(notice) = notice(state) {
        let style = if notice.warns { theme.warning() } else { theme.dim() };
        let lines = notice_lines(&notice, area, theme);
        frame.render_widget(Paragraph::new(lines).style(style), parts.notice);
    }
    draw_footer(frame, parts.footer, state, theme);
    overlay::draw(frame, area, state, theme);
}

fn draw_picture(frame: &mut Frame<'_>, area: Rect, state: &TuiState, theme: Theme) {
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
        None => theme.say(frame, area, "loading"),
    }
}

/// What is worth a word.
struct Notice {
    text: String,
    /// What it ends with, however little room there is.
    tail: &'static str,
    warns: bool,
}

/// A message takes no more lines than this, and no more than a quarter of the screen.
const NOTICE_LINES: u16 = 5;

/// How many lines what is worth a word needs.
fn notice_height(state: &TuiState, area: Rect) -> u16 {
    // How a text is cut has no influence on how many lines it takes.
    let theme = Theme { charset: Charset::Unicode, palette: Palette::Monochrome };
    let lines = notice(state).map_or(0, |notice| notice_lines(&notice, area, theme).len());
    u16::try_from(lines).unwrap_or(NOTICE_LINES)
}

/// The message in lines: what to do comes last, so the text before it is cut if it is too long.
fn notice_lines(notice: &Notice, area: Rect, theme: Theme) -> Vec<Line<'static>> {
    let most = usize::from(NOTICE_LINES.min(area.height / 4).max(1));
    let room = usize::from(area.width).saturating_sub(2);
    let text = Line::raw(format!("{}{}", notice.text, notice.tail));
    let indented = |line: Line<'static>| Line::raw(format!(" {line}"));
    let whole: Vec<Line<'static>> = wrapped(vec![text], room).into_iter().map(indented).collect();
    if whole.len() <= most {
        return whole;
    }
    // The beginning and the end are kept; what is between them is left out.
    let (begin, end) = (most / 2, whole.len() - (most - most / 2));
    let mut lines: Vec<Line<'static>> = whole[..begin].to_vec();
    if let Some(last) = lines.last_mut() {
        let cut = theme.charset.cut();
        *last = Line::raw(theme.shorten(&last.to_string(), room.saturating_sub(width(cut))) + cut);
    }
    lines.extend_from_slice(&whole[end..]);
    lines
}

fn notice(state: &TuiState) -> Option<Notice> {
    let warning = |text: String| Notice { text, tail: "", warns: true };
    if let Some(Overlay::Prompt(prompt)) = &state.overlay {
        return Some(match &prompt.problem {
            Some(problem) => warning(one_line(problem)),
            None => match absent(state).filter(|_| prompt.is_filter()) {
                Some(absent) => warning(absent.to_owned()),
                None => Notice { warns: false, ..warning(prompt.words().1.to_owned()) },
            },
        });
    }
    let of_filter = || {
        let absent = absent(state).filter(|_| state.screen == Screen::Trials);
        absent.map(|absent| warning(absent.to_owned()))
    };
    if state.is_removed && state.notice.is_none() {
        let what = match &state.seen.together {
            Some(_) => "these studies were".to_owned(),
            None => format!("`{}` was", one_line(&state.summary().spec.name)),
        };
        let text = format!("{what} removed from the store; this is what was read last");
        return Some(Notice { tail: " - q leaves", ..warning(text) });
    }
    let lists_several = state.seen.together.is_some() && state.screen == Screen::Trials;
    match (&state.phase, &state.notice) {
        // Which one would change with every row.
        (RunPhase::Over(_), None) if lists_several => of_filter(),
        (RunPhase::Over(reason), None) => {
            let tail = match state.mode {
                _ if state.summary().counts.only_fail() => " - q leaves",
                TuiMode::Embedded => " - E +20 runs 20 more, q leaves",
                TuiMode::Watching => " - E raises the budget, q leaves",
            };
            Some(Notice { tail, ..warning(format!("study finished: {}", one_line(reason))) })
        }
        (_, Some(notice)) => Some(warning(one_line(notice))),
        (RunPhase::Stopping, None) => {
            Some(warning("stopping: running trials save a checkpoint and exit".to_owned()))
        }
        (RunPhase::Open, None) => of_filter(),
    }
}

/// What the filter looks for and no trial has.
fn absent(state: &TuiState) -> Option<&str> {
    let is_of_filter = state.seen.wanted.query.filter.text() == state.filter.text();
    state.seen.absent.first().filter(|_| is_of_filter).map(String::as_str)
}

fn note_line(state: &TuiState, area: Rect, theme: Theme) -> Line<'static> {
    let (text, found) = match state.screen {
        Screen::Search => return views(state, theme),
        Screen::Compare => {
            return Line::styled(
                " the best trial beside another; Space on screen 1 marks the trials to compare",
                theme.dim(),
            );
        }
        Screen::Events => (state.journal.text.as_str(), String::new()),
        Screen::Trials | Screen::Trial | Screen::Devices => {
            let (counts, left_out) = match &state.seen.together {
                Some(together) => (together.counts(), together.left_out.len()),
                None => (state.seen.summary.counts, 0),
            };
            let all = count(counts.total(), "trial");
            let left_out = match left_out {
                0 => String::new(),
                some => format!(", not for {}", study_count(some as u64)),
            };
            (state.filter.text(), format!("{} of {all}{left_out}", state.seen.page.matching))
        }
    };
    let tail = format!("  {found}  Esc shows all");
    let room = usize::from(area.width).saturating_sub(width(&tail) + 9);
    Line::from(vec![
        Span::styled(" filter ", theme.dim()),
        Span::styled(theme.shorten(&one_line(text), room), theme.warning()),
        Span::styled(tail, theme.dim()),
    ])
}

/// The views of the search, the one that is shown standing out.
fn views(state: &TuiState, theme: Theme) -> Line<'static> {
    let name = |view: SearchView| {
        Span::styled(
            format!(" {}  ", view.as_str()),
            if view == state.search { theme.strong() } else { theme.dim() },
        )
    };
    Line::from(SearchView::ALL.map(name).to_vec())
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, state: &TuiState, theme: Theme) {
    if let Some(Overlay::Prompt(prompt)) = &state.overlay {
        let label = format!(" {}: ", prompt.words().0);
        let room = usize::from(area.width) / 2;
        let (line, column) = overlay::typed(&label, &prompt.line, room, theme);
        frame.render_widget(line, area);
        overlay::put_cursor(frame, area, column, 0);
        return;
    }
    let mut spans = Vec::new();
    let mut used = 0;
    let works = |line: &&KeyLine| line.works_on(state.screen) && !state.is_in_vain(line);
    for line in KEYS.iter().filter(works) {
        let Some(word) = line.footer() else {
            continue;
        };
        used += line.label.len() + word.len() + 4;
        if used > usize::from(area.width) {
            break;
        }
        spans.push(Span::styled(format!(" {}", line.label), theme.strong()));
        spans.push(Span::styled(format!(" {word}  "), theme.dim()));
    }
    frame.render_widget(Line::from(spans), area);
}
