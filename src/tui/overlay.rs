//! What lies over a screen: the keys, questions, lists to choose from, and the form for a new
//! configuration.

use ratatui::Frame;
use ratatui::layout::{Constraint, Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph};

use super::Detach;
use super::form::Form;
use super::keys::{Screen, help};
use super::line::LineEdit;
use super::picker::{Choosing, Picker};
use super::state::{Confirmation, Overlay, TuiState};
use super::theme::Theme;
use crate::report::requests::{self, Question, STOPS};
use crate::report::sparkline::Charset;
use crate::report::wording::{one_line, shorten, width};
use crate::study::request::{Request, Retried};

/// Draws it; `state` learns how far it scrolls. A line that is typed stands in the footer, not
/// here.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut TuiState, theme: Theme) {
    match &state.overlay {
        None | Some(Overlay::Prompt(_)) => {}
        Some(Overlay::Help(scroll)) => {
            let scroll = draw_help(frame, area, state, *scroll, theme);
            state.overlay = Some(Overlay::Help(scroll));
        }
        Some(Overlay::Confirmation(question)) => {
            draw_confirmation(frame, area, *question, state.detach, theme)
        }
        Some(Overlay::Picker(picker)) => draw_picker(frame, area, picker, theme),
        Some(Overlay::Form(form)) => draw_form(frame, area, form, theme),
    }
}

/// Draws the keys, scrolled down by `scroll` lines, or by as many as there are to scroll by; how
/// many those are.
fn draw_help(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &TuiState,
    scroll: usize,
    theme: Theme,
) -> usize {
    let lines = help_lines(state, theme);
    let most = lines.len().saturating_sub(usize::from(area.height.saturating_sub(2)));
    let scroll = scroll.min(most);
    let mut title = format!(" keys: {} ", state.screen.name());
    if scroll < most {
        title += &format!("({} more, Down) ", most - scroll);
    }
    draw_box(frame, area, &title, lines.into_iter().skip(scroll).collect(), theme);
    scroll
}

fn help_lines(state: &TuiState, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (group, keys) in help(state.screen, state.mode) {
        if keys.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled(group, theme.dim()));
        for key in keys {
            lines.push(Line::from(vec![
                Span::styled(format!("{:>10}  ", key.label), theme.strong()),
                Span::raw(key.meaning(state.mode)),
            ]));
        }
    }
    if state.screen == Screen::Trials {
        lines.push(Line::default());
        lines.push(Line::styled("filter", theme.dim()));
        for (term, meaning) in FILTER_TERMS {
            lines.push(Line::from(vec![
                Span::styled(format!("{term:>22}  "), theme.strong()),
                Span::raw(*meaning),
            ]));
        }
    }
    lines
}

/// The language of filters in a few examples.
const FILTER_TERMS: &[(&str, &str)] = &[
    ("state:running,queued", "in one of these states"),
    ("lr>1e-3 layers=4", "parameters, metrics; all terms must hold"),
    ("value<=0.5 step>3", "value, step, number, seconds, attempts"),
    ("device:cuda tag:x", "device, tag, reason"),
    ("adamw -sgd", "a text anywhere; - means not"),
];

fn draw_confirmation(
    frame: &mut Frame<'_>,
    area: Rect,
    question: Confirmation,
    detach: Detach,
    theme: Theme,
) {
    if (question, detach) == (Confirmation::StopAndLeave, Detach::Possible) {
        draw_box(frame, area, "", leaving(theme), theme);
        return;
    }
    let Question { asks, then } = asked(question);
    let lines = vec![
        Line::styled(asks, theme.strong()),
        Line::styled(then, theme.dim()),
        Line::default(),
        Line::from(vec![
            Span::styled("y", theme.warning()),
            Span::raw(" yes    "),
            Span::styled("n", theme.warning()),
            Span::raw(" no"),
        ]),
    ];
    draw_box(frame, area, "", lines, theme);
}

/// The words of a question.
fn asked(question: Confirmation) -> Question {
    let (request, failed) = match question {
        Confirmation::StopAndLeave => {
            return Question { asks: "stop the study and leave?".to_owned(), then: STOPS };
        }
        Confirmation::RunOnceMore(trial) => {
            return Question {
                asks: format!("trial {trial} already has these parameters: run them once more?"),
                then: "it counts as another trial",
            };
        }
        Confirmation::Stop => (Request::Stop, 0),
        Confirmation::Kill(trial) => (Request::Kill { trial }, 0),
        Confirmation::RetryFailed(failed) => {
            (Request::Retry { trials: Retried::AllFailed }, failed)
        }
    };
    requests::question(&request, failed).expect("the requests above are asked about")
}

/// The ways to leave a run that can be detached.
fn leaving(theme: Theme) -> Vec<Line<'static>> {
    let way = |key: &'static str, word: &'static str, then: &'static str| {
        Line::from(vec![
            Span::styled(key, theme.warning()),
            Span::raw(format!(" {word}  ")),
            Span::styled(then, theme.dim()),
        ])
    };
    vec![
        Line::styled("leave the run?", theme.strong()),
        Line::default(),
        way("d", "detach", "it continues in the background; `hpsearch watch` shows it"),
        way("y", "stop  ", STOPS),
        way("n", "stay  ", ""),
    ]
}

fn draw_picker(frame: &mut Frame<'_>, area: Rect, picker: &Picker, theme: Theme) {
    let (items, selected) = picker.visible();
    let (title, keys) = match picker.choosing {
        Choosing::Sort => (" sort by ", "type to find  Enter sorts, again reverses  Esc"),
        Choosing::Columns => (" columns ", "type to find  Space shows or hides  Enter"),
    };
    let rows = usize::from(area.height.saturating_sub(6)).clamp(1, 18);
    let first = selected.saturating_sub(rows / 2).min(items.len().saturating_sub(rows));
    let titles = items.iter().map(|item| width(&item.title)).max().unwrap_or(0).min(32);
    let mut lines =
        vec![typed(" ", &picker.line, usize::from(area.width).saturating_sub(10), theme).0];
    for (index, item) in items.iter().enumerate().skip(first).take(rows) {
        let on = match (picker.choosing, item.on) {
            (Choosing::Sort, true) => theme.either("•", "*"),
            (Choosing::Sort, false) => " ",
            (Choosing::Columns, true) => theme.either("✓", "x"),
            (Choosing::Columns, false) => theme.either("·", "."),
        };
        let name = theme.shorten(&item.title, titles);
        let name = format!("{on} {name}{}", " ".repeat(titles.saturating_sub(width(&name))));
        let line = Line::from(vec![
            Span::raw(name),
            Span::styled(format!("  {}", item.about), theme.dim()),
        ]);
        lines.push(if index == selected { line.patch_style(theme.selected()) } else { line });
    }
    if items.is_empty() {
        lines.push(Line::styled("no match", theme.dim()));
    }
    let hidden = items.len().saturating_sub(rows);
    lines.push(Line::styled(
        if hidden > 0 { format!("{keys}  ({hidden} more)") } else { keys.to_owned() },
        theme.dim(),
    ));
    draw_box(frame, area, title, lines, theme);
}

fn draw_form(frame: &mut Frame<'_>, area: Rect, form: &Form, theme: Theme) {
    let fields = form.shown();
    let names = fields.iter().map(|field| width(&field.name)).max().unwrap_or(0).min(30);
    let rows = usize::from(area.height.saturating_sub(5)).max(1);
    let selected = fields.iter().position(|field| field.selected).unwrap_or(0);
    let first = selected.saturating_sub(rows / 2).min(fields.len().saturating_sub(rows));
    let room = usize::from(area.width).saturating_sub(names + 14);
    let mut lines = Vec::new();
    let mut cursor = None;
    for field in fields.iter().skip(first).take(rows) {
        let name = theme.shorten(&field.name, names);
        let name = format!("{name}{}  ", " ".repeat(names.saturating_sub(width(&name))));
        let (line, column) = typed(&name, field.line, (room / 2).max(8), theme);
        let mut spans = line.spans;
        let (said, style) = match &field.problem {
            _ if !field.active => ("not used with these values", theme.dim()),
            Some(problem) => (&**problem, theme.warning()),
            None => (&*field.range, theme.dim()),
        };
        let said = if field.active { theme.shorten(said, room / 2 + 4) } else { said.to_owned() };
        spans.push(Span::styled(format!("  {said}"), style));
        let line = Line::from(spans);
        if field.selected {
            cursor = Some((column, u16::try_from(lines.len()).unwrap_or(0)));
        }
        lines.push(if field.active { line } else { line.patch_style(theme.dim()) });
    }
    let keys = "Up/Down field  Left/Right choice  Enter queues it  Esc";
    lines.push(Line::styled(
        theme.shorten(keys, usize::from(area.width).saturating_sub(6)),
        theme.dim(),
    ));
    let inside = draw_box(
        frame,
        area,
        &format!(" a copy of trial {} to run next ", form.trial),
        lines,
        theme,
    );
    if let Some((column, row)) = cursor {
        put_cursor(frame, inside, column, row);
    }
}

/// A line that is typed, with what stands before it, in at most `room` columns; and the column of
/// the cursor.
pub fn typed(before: &str, line: &LineEdit, room: usize, theme: Theme) -> (Line<'static>, u16) {
    let (head, all) = (one_line(line.before_cursor()), one_line(line.text()));
    // What does not fit goes out at the left, so that the cursor stays to be seen.
    let mut start = 0;
    let starts: Vec<usize> = head.char_indices().map(|(at, _)| at).chain([head.len()]).collect();
    for at in starts {
        start = at;
        if width(&head[at..]) < room {
            break;
        }
    }
    let shown = shorten(&all[start..], room, "");
    let column = width(before) + width(&head[start..]);
    let line = Line::from(vec![
        Span::styled(before.to_owned(), theme.dim()),
        Span::styled(shown, theme.strong()),
    ]);
    (line, u16::try_from(column).unwrap_or(u16::MAX))
}

/// Puts the terminal's cursor into `area`, if there is such a place in it.
pub fn put_cursor(frame: &mut Frame<'_>, area: Rect, column: u16, row: u16) {
    if column < area.width && row < area.height {
        frame.set_cursor_position(Position::new(area.x + column, area.y + row));
    }
}

/// A box in the middle of the screen, as large as its lines; the place inside.
fn draw_box(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: Vec<Line<'_>>,
    theme: Theme,
) -> Rect {
    let widest = lines.iter().map(Line::width).max().unwrap_or(0).max(width(title));
    let wanted = (
        u16::try_from(widest + 6).unwrap_or(u16::MAX),
        u16::try_from(lines.len() + 2).unwrap_or(u16::MAX),
    );
    let place = area.centered(
        Constraint::Length(wanted.0.min(area.width)),
        Constraint::Length(wanted.1.min(area.height)),
    );
    let mut block =
        Block::bordered().title(title.to_owned()).padding(ratatui::widgets::Padding::horizontal(2));
    block = match theme.charset {
        Charset::Unicode => block.border_type(BorderType::Rounded),
        Charset::Ascii => block.border_set(ASCII_BORDER),
    };
    let inside = block.inner(place);
    frame.render_widget(Clear, place);
    frame.buffer_mut().set_style(place, Style::reset());
    frame.render_widget(Paragraph::new(lines).block(block), place);
    inside
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
