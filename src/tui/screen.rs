//! One frame: header, table or details, the selected trial, keys, and what lies over them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use super::keys::KEYS;
use super::look::Look;
use super::snapshot::Snapshot;
use super::state::{Course, Pane, Question, State};
use super::{detail, leaderboard};
use crate::reporters::progress::Progress;
use crate::reporters::sparkline::Charset;
use crate::reporters::wording::{StudyState, number, one_line, rough_duration, shorten, width};
use crate::time::Timestamp;
use crate::trial::TrialState;

/// The parts of the screen, top to bottom.
struct Parts {
    header: Rect,
    body: Rect,
    selected: Rect,
    notice: Rect,
    footer: Rect,
}

/// A screen lower than this has a header of two lines and no line about the selected trial.
const LOW: u16 = 16;

fn parts(area: Rect, state: &State) -> Parts {
    let low = area.height < LOW;
    let heights = [
        Constraint::Length(if low { 2 } else { 5 }),
        Constraint::Min(0),
        Constraint::Length(u16::from(!low)),
        Constraint::Length(u16::from(notice(state).is_some())),
        Constraint::Length(1),
    ];
    let [header, body, selected, notice, footer] = Layout::vertical(heights).areas(area);
    Parts { header, body, selected, notice, footer }
}

/// How many trials a screen of this size shows, at least one.
pub fn rows(area: Rect, state: &State) -> u64 {
    // One line of the body holds the titles.
    u64::from(parts(area, state).body.height.saturating_sub(1).max(1))
}

/// Draws everything; `state` learns how far the details scroll.
pub fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot, state: &mut State, now: Timestamp, look: Look) {
    let area = frame.area();
    let parts = parts(area, state);
    draw_header(frame, parts.header, snapshot, now, look);
    match state.pane {
        Pane::Leaderboard => {
            leaderboard::draw(frame, parts.body, snapshot, state, look);
            let line = leaderboard::selected_line(snapshot, state, usize::from(area.width), look);
            frame.render_widget(line, parts.selected);
        }
        Pane::Detail { .. } => draw_detail(frame, parts.body.union(parts.selected), snapshot, state, now, look),
    }
    if let Some(notice) = notice(state) {
        let notice = shorten(&notice, usize::from(area.width).saturating_sub(2), look.charset.cut());
        frame.render_widget(Line::styled(format!(" {notice}"), look.warning()), parts.notice);
    }
    draw_footer(frame, parts.footer, state, look);
    if state.help {
        draw_help(frame, area, state, look);
    }
    if let Some(question) = state.question {
        draw_question(frame, area, question, look);
    }
}

fn notice(state: &State) -> Option<String> {
    match (&state.course, &state.notice) {
        (Course::Over(reason), None) => Some(format!("study finished: {} - press q", one_line(reason))),
        (_, Some(notice)) => Some(one_line(notice)),
        (Course::Stopping, None) => Some("stopping: running trials save a checkpoint and leave".to_owned()),
        (Course::Open, None) => None,
    }
}

fn draw_header(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, now: Timestamp, look: Look) {
    let progress = Progress::new(&snapshot.summary.spec, snapshot.summary.counts, snapshot.elapsed(now));
    let low = area.height < 4;
    let lines = if low {
        vec![two_sided(name(snapshot, look), state_word(snapshot, look), area, look), two_sided(best(snapshot, look), trials(&progress), area, look)]
    } else {
        vec![
            two_sided(name(snapshot, look), state_word(snapshot, look), area, look),
            two_sided(best(snapshot, look), times(snapshot, &progress, look), area, look),
            two_sided(Vec::new(), trials(&progress), area, look),
            Line::from(counts(snapshot, look)),
        ]
    };
    frame.render_widget(Paragraph::new(lines), area);
    if !low {
        draw_bar(frame, Rect { y: area.y + 2, height: 1, ..area }, &progress, look);
    }
}

/// Spans at both sides of a line; the left ones are cut where they meet.
fn two_sided(left: Vec<Span<'static>>, right: Vec<Span<'static>>, area: Rect, look: Look) -> Line<'static> {
    let room = usize::from(area.width);
    let right_width: usize = right.iter().map(Span::width).sum();
    let mut spans = Vec::new();
    let mut used = 0;
    for span in left {
        let text = shorten(&span.content, room.saturating_sub(right_width + used + 2), look.charset.cut());
        used += width(&text);
        spans.push(Span::styled(text, span.style));
    }
    spans.push(Span::raw(" ".repeat(room.saturating_sub(used + right_width + 1))));
    spans.extend(right);
    Line::from(spans)
}

fn name(snapshot: &Snapshot, look: Look) -> Vec<Span<'static>> {
    let objective = snapshot.summary.spec.objective();
    vec![
        Span::styled(format!(" {}", one_line(&snapshot.summary.spec.name)), look.strong()),
        Span::styled(format!("  {} {}", objective.direction.as_str(), one_line(&objective.metric)), look.dim()),
    ]
}

fn state_word(snapshot: &Snapshot, look: Look) -> Vec<Span<'static>> {
    vec![Span::styled(snapshot.state.as_str(), look.study_state(snapshot.state))]
}

fn best(snapshot: &Snapshot, look: Look) -> Vec<Span<'static>> {
    match snapshot.summary.best {
        Some((trial, value)) => vec![
            Span::raw(" best "),
            Span::styled(number(value), look.good().patch(look.strong())),
            Span::styled(format!("  trial {trial}"), look.dim()),
        ],
        None => vec![Span::styled(" no complete trial yet", look.dim())],
    }
}

fn times(snapshot: &Snapshot, progress: &Progress, look: Look) -> Vec<Span<'static>> {
    let left = match progress.left {
        Some(left) if snapshot.state == StudyState::Running => format!(", about {} left", rough_duration(left)),
        _ => String::new(),
    };
    vec![Span::raw(rough_duration(progress.elapsed)), Span::styled(left, look.dim())]
}

fn trials(progress: &Progress) -> Vec<Span<'static>> {
    vec![Span::raw(progress.trials())]
}

fn counts(snapshot: &Snapshot, look: Look) -> Vec<Span<'static>> {
    let mut counts = snapshot.summary.counts;
    let mut spans = Vec::new();
    for state in TrialState::ALL {
        let trials = *counts.of(state);
        let style = if trials == 0 { look.dim() } else { look.trial_state(state) };
        spans.push(Span::styled(format!(" {trials} {} ", state.as_str()), style));
    }
    spans
}

/// The bar between the left edge and the number of trials; nothing without a limit.
fn draw_bar(frame: &mut Frame<'_>, area: Rect, progress: &Progress, look: Look) {
    let Some(fraction) = progress.fraction else {
        return;
    };
    let room = usize::from(area.width).saturating_sub(width(&progress.trials()) + 4);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a screen's width")]
    let filled = ((room as f64 * fraction) as usize).min(room);
    let (full, empty) = match look.charset {
        Charset::Unicode => ("━", "─"),
        Charset::Ascii => ("#", "-"),
    };
    let line =
        Line::from(vec![Span::raw(" "), Span::styled(full.repeat(filled), look.good()), Span::styled(empty.repeat(room - filled), look.dim())]);
    let area = Rect { width: area.width.min(u16::try_from(room + 1).unwrap_or(u16::MAX)), ..area };
    frame.render_widget(line, area);
}

fn draw_detail(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, state: &mut State, now: Timestamp, look: Look) {
    let Some(found) = &snapshot.detail else {
        return;
    };
    let lines = detail::lines(snapshot, found, usize::from(area.width), now, look);
    // Long paths and reasons go on in the next line, so the height is counted after wrapping.
    let lines = wrapped(lines, usize::from(area.width));
    state.limit_scroll(u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(area.height));
    let Pane::Detail { scroll, .. } = state.pane else {
        return;
    };
    let below = lines.len().saturating_sub(usize::from(scroll) + usize::from(area.height));
    frame.render_widget(Paragraph::new(lines).scroll((scroll, 0)), area);
    if below > 0 && area.height > 1 {
        let more = Line::styled(format!("  {below} more "), look.dim().patch(look.strong())).right_aligned();
        let width = u16::try_from(more.width()).unwrap_or(area.width).min(area.width);
        frame.render_widget(more, Rect { x: area.right() - width, y: area.bottom() - 1, width, height: 1 });
    }
}

/// Lines cut into pieces of `room` columns; the pieces after the first are indented.
fn wrapped(lines: Vec<Line<'static>>, room: usize) -> Vec<Line<'static>> {
    let mut pieces = Vec::new();
    for line in lines {
        if line.width() <= room || room < 16 {
            pieces.push(line);
            continue;
        }
        let style = line.spans.first().map_or(Style::new(), |span| span.style);
        let mut rest: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        let mut indent = "";
        while !rest.is_empty() {
            let piece = shorten(&rest, room - indent.len(), "");
            rest = rest[piece.len()..].to_owned();
            pieces.push(Line::styled(format!("{indent}{piece}"), if indent.is_empty() { style } else { Style::new() }));
            indent = "     ";
        }
    }
    pieces
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let mut spans = Vec::new();
    let mut used = 0;
    for line in KEYS {
        let word = match state.pane {
            Pane::Leaderboard => line.footer,
            Pane::Detail { .. } => line.detail_footer,
        };
        let Some(word) = word else {
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

fn draw_help(frame: &mut Frame<'_>, area: Rect, state: &State, look: Look) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|line| Line::from(vec![Span::styled(format!("{:>6}  ", line.label), look.strong()), Span::raw(line.meaning(state.mode))]))
        .collect();
    draw_box(frame, area, " keys ", lines, look);
}

fn draw_question(frame: &mut Frame<'_>, area: Rect, question: Question, look: Look) {
    let (asked, then) = match question {
        Question::StopAndLeave => ("stop the study and leave?".to_owned(), "running trials save a checkpoint; `hpsearch run` goes on"),
        Question::Stop => ("stop the study?".to_owned(), "running trials save a checkpoint; `hpsearch run` goes on"),
        Question::Kill(trial) => (format!("kill trial {trial}?"), "it ends at once and counts as failed"),
    };
    let lines = vec![
        Line::styled(asked, look.strong()),
        Line::styled(then, look.dim()),
        Line::default(),
        Line::from(vec![Span::styled("y", look.warning()), Span::raw(" yes    "), Span::styled("n", look.warning()), Span::raw(" no")]),
    ];
    draw_box(frame, area, "", lines, look);
}

/// A box in the middle of the screen, as large as its lines.
fn draw_box(frame: &mut Frame<'_>, area: Rect, title: &'static str, lines: Vec<Line<'_>>, look: Look) {
    let widest = lines.iter().map(Line::width).max().unwrap_or(0);
    let wanted = (u16::try_from(widest + 6).unwrap_or(u16::MAX), u16::try_from(lines.len() + 2).unwrap_or(u16::MAX));
    let place = area.centered(Constraint::Length(wanted.0.min(area.width)), Constraint::Length(wanted.1.min(area.height)));
    let mut block = Block::bordered().title(title).padding(ratatui::widgets::Padding::horizontal(2));
    block = match look.charset {
        Charset::Unicode => block.border_type(BorderType::Rounded),
        Charset::Ascii => block.border_set(ASCII_BORDER),
    };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

const ASCII_BORDER: ratatui::symbols::border::Set<'static> = ratatui::symbols::border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};
