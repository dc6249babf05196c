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
use super::look::Look;
use super::picker::{Choosing, Picker};
use super::state::{Confirmation, Overlay, State};
use crate::report::sparkline::Charset;
use crate::report::wording::{one_line, shorten, width};

/// Draws it; `state` learns how far it scrolls. A line that is typed stands in the footer, not
/// here.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut State, look: Look) {
    match &state.overlay {
        None | Some(Overlay::Prompt(_)) => {}
        Some(Overlay::Help(scroll)) => {
            let (scroll, lines) = (*scroll, help_lines(state, look));
            let most = draw_scrolled(
                frame,
                area,
                &format!(" keys: {} ", state.screen.name()),
                lines,
                scroll,
                look,
            );
            state.overlay = Some(Overlay::Help(scroll.min(most)));
        }
        Some(Overlay::Confirmation(question)) => {
            draw_confirmation(frame, area, *question, state.detach, look)
        }
        Some(Overlay::Picker(picker)) => draw_picker(frame, area, picker, look),
        Some(Overlay::Form(form)) => draw_form(frame, area, form, look),
    }
}

fn help_lines(state: &State, look: Look) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for (group, keys) in help(state.screen, state.mode) {
        if keys.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.push(Line::styled(group.title(), look.dim()));
        for key in keys {
            lines.push(Line::from(vec![
                Span::styled(format!("{:>10}  ", key.label), look.strong()),
                Span::raw(key.meaning(state.mode)),
            ]));
        }
    }
    if state.screen == Screen::Trials {
        lines.push(Line::default());
        lines.push(Line::styled("filter", look.dim()));
        for (term, meaning) in FILTER_TERMS {
            lines.push(Line::from(vec![
                Span::styled(format!("{term:>22}  "), look.strong()),
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
    look: Look,
) {
    if (question, detach) == (Confirmation::StopAndLeave, Detach::Possible) {
        draw_box(frame, area, "", leaving(look), look);
        return;
    }
    let (asked, then) = match question {
        Confirmation::StopAndLeave => (
            "stop the study and leave?".to_owned(),
            "running trials save a checkpoint; `hpsearch run` continues",
        ),
        Confirmation::Stop => (
            "stop the study?".to_owned(),
            "running trials save a checkpoint; `hpsearch run` continues",
        ),
        Confirmation::Kill(trial) => {
            (format!("kill trial {trial}?"), "it ends at once and counts as failed")
        }
        Confirmation::RetryFailed(1) => (
            "retry the failed trial?".to_owned(),
            "it is queued, and does not count twice in the budget",
        ),
        Confirmation::RetryFailed(failed) => (
            format!("retry all {failed} failed trials?"),
            "they are queued, and do not count twice in the budget",
        ),
    };
    let lines = vec![
        Line::styled(asked, look.strong()),
        Line::styled(then, look.dim()),
        Line::default(),
        Line::from(vec![
            Span::styled("y", look.warning()),
            Span::raw(" yes    "),
            Span::styled("n", look.warning()),
            Span::raw(" no"),
        ]),
    ];
    draw_box(frame, area, "", lines, look);
}

/// The ways to leave a run that can be detached.
fn leaving(look: Look) -> Vec<Line<'static>> {
    let way = |key: &'static str, word: &'static str, then: &'static str| {
        Line::from(vec![
            Span::styled(key, look.warning()),
            Span::raw(format!(" {word}  ")),
            Span::styled(then, look.dim()),
        ])
    };
    vec![
        Line::styled("leave the run?", look.strong()),
        Line::default(),
        way("d", "detach", "it continues in the background; `hpsearch watch` shows it"),
        way("y", "stop  ", "running trials save a checkpoint; `hpsearch run` continues"),
        way("n", "stay  ", ""),
    ]
}

fn draw_picker(frame: &mut Frame<'_>, area: Rect, picker: &Picker, look: Look) {
    let (items, selected) = picker.visible();
    let (title, keys) = match picker.choosing {
        Choosing::Sort => (" sort by ", "type to find  Enter sorts, again reverses  Esc"),
        Choosing::Columns => (" columns ", "type to find  Space shows or hides  Enter"),
    };
    let rows = usize::from(area.height.saturating_sub(6)).clamp(1, 18);
    let first = selected.saturating_sub(rows / 2).min(items.len().saturating_sub(rows));
    let titles = items.iter().map(|item| width(&item.title)).max().unwrap_or(0).min(32);
    let mut lines =
        vec![typed(" ", &picker.line, usize::from(area.width).saturating_sub(10), look).0];
    for (index, item) in items.iter().enumerate().skip(first).take(rows) {
        let on = match (picker.choosing, item.on) {
            (Choosing::Sort, true) => look.either("•", "*"),
            (Choosing::Sort, false) => " ",
            (Choosing::Columns, true) => look.either("✓", "x"),
            (Choosing::Columns, false) => look.either("·", "."),
        };
        let name = shorten(&item.title, titles, look.charset.cut());
        let name = format!("{on} {name}{}", " ".repeat(titles.saturating_sub(width(&name))));
        let line = Line::from(vec![
            Span::raw(name),
            Span::styled(format!("  {}", item.about), look.dim()),
        ]);
        lines.push(if index == selected { line.patch_style(look.selected()) } else { line });
    }
    if items.is_empty() {
        lines.push(Line::styled("no match", look.dim()));
    }
    let hidden = items.len().saturating_sub(rows);
    lines.push(Line::styled(
        if hidden > 0 { format!("{keys}  ({hidden} more)") } else { keys.to_owned() },
        look.dim(),
    ));
    draw_box(frame, area, title, lines, look);
}

fn draw_form(frame: &mut Frame<'_>, area: Rect, form: &Form, look: Look) {
    let fields = form.shown();
    let names = fields.iter().map(|field| width(&field.name)).max().unwrap_or(0).min(30);
    let rows = usize::from(area.height.saturating_sub(5)).max(1);
    let selected = fields.iter().position(|field| field.selected).unwrap_or(0);
    let first = selected.saturating_sub(rows / 2).min(fields.len().saturating_sub(rows));
    let room = usize::from(area.width).saturating_sub(names + 14);
    let mut lines = Vec::new();
    let mut cursor = None;
    for field in fields.iter().skip(first).take(rows) {
        let name = shorten(&field.name, names, look.charset.cut());
        let name = format!("{name}{}  ", " ".repeat(names.saturating_sub(width(&name))));
        let (line, column) = typed(&name, field.line, (room / 2).max(8), look);
        let mut spans = line.spans;
        let said = match (&field.problem, field.active) {
            (_, false) => Span::styled("  not used with these values", look.dim()),
            (Some(problem), _) => Span::styled(
                format!("  {}", shorten(problem, room / 2 + 4, look.charset.cut())),
                look.warning(),
            ),
            (None, _) => Span::styled(
                format!("  {}", shorten(&field.range, room / 2 + 4, look.charset.cut())),
                look.dim(),
            ),
        };
        spans.push(said);
        let line = Line::from(spans);
        if field.selected {
            cursor = Some((column, u16::try_from(lines.len()).unwrap_or(0)));
        }
        lines.push(if field.active { line } else { line.patch_style(look.dim()) });
    }
    let keys = "Up/Down field  Left/Right choice  Enter queues it  Esc";
    lines.push(Line::styled(
        shorten(keys, usize::from(area.width).saturating_sub(6), look.charset.cut()),
        look.dim(),
    ));
    let inside = draw_box(
        frame,
        area,
        &format!(" a copy of trial {} to run next ", form.trial),
        lines,
        look,
    );
    if let Some((column, row)) = cursor {
        put_cursor(frame, inside, column, row);
    }
}

/// A line that is typed, with what stands before it, in at most `room` columns; and the column of
/// the cursor.
pub fn typed(before: &str, line: &LineEdit, room: usize, look: Look) -> (Line<'static>, u16) {
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
        Span::styled(before.to_owned(), look.dim()),
        Span::styled(shown, look.strong()),
    ]);
    (line, u16::try_from(column).unwrap_or(u16::MAX))
}

/// Puts the terminal's cursor into `area`, if there is such a place in it.
pub fn put_cursor(frame: &mut Frame<'_>, area: Rect, column: u16, row: u16) {
    if column < area.width && row < area.height {
        frame.set_cursor_position(Position::new(area.x + column, area.y + row));
    }
}

/// A box of lines that may be more than fit; how many lines may at most be above it.
fn draw_scrolled(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: Vec<Line<'static>>,
    scroll: u16,
    look: Look,
) -> u16 {
    let count = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let most = count.saturating_sub(area.height.saturating_sub(2));
    let scroll = scroll.min(most);
    let below = most - scroll;
    let lines = lines.into_iter().skip(usize::from(scroll)).collect();
    let title = if below > 0 { format!("{title}({below} more, Down) ") } else { title.to_owned() };
    draw_box(frame, area, &title, lines, look);
    most
}

/// A box in the middle of the screen, as large as its lines; the place inside.
fn draw_box(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: Vec<Line<'_>>,
    look: Look,
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
    block = match look.charset {
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
