//! One trial: its curve before the others', parameters, metrics, decisions, attempts, notes,
//! checkpoints, and its log.

mod sections;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::snapshot::Detail;
use super::state::TuiState;
use super::theme::{Theme, wrapped};
use super::trial_key::TrialKey;
use crate::app::log_tail::LogTail;
use crate::report::figure::{Axis, Figure, Mark, Series, SeriesRole};
use crate::report::wording::{
    metric_names, number, one_line, proposed, rough_duration, values, width,
};
use crate::study::counted::count;
use crate::study::series::SeriesAxis;
use crate::study::space::Scale;
use crate::study::time::Timestamp;
use crate::study::trial::Trial;
use sections::{parameters, section, sections};

/// A screen wider than this has the chart beside the text, else above it.
const WIDE: u16 = 96;
/// A screen higher than this has the end of the log below the text.
const HIGH: u16 = 30;

/// Draws the trial's screen; `state` learns how far it scrolls.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &mut TuiState, now: Timestamp, theme: Theme) {
    let opened = state.opened.and_then(|key| state.seen.detail_of(key).cloned());
    let Some(detail) = opened else {
        let text = if state.opened.is_some() { "loading" } else { "no trial yet" };
        return theme.say(frame, area, text);
    };
    let reason = reason_line(&detail.trial);
    let head = Constraint::Length(1 + u16::from(reason.is_some()));
    let [head, rest] = Layout::vertical([head, Constraint::Min(0)]).areas(area);
    let mut lines = vec![title(state, &detail.trial, theme)];
    lines.extend(reason);
    frame.render_widget(Paragraph::new(lines), head);
    if state.trial.log {
        draw_log(frame, rest, state, theme);
        return;
    }
    let log_height = if area.height >= HIGH { area.height / 3 } else { 0 };
    let [body, log] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(log_height)]).areas(rest);
    draw_body(frame, body, state, &detail, now, theme);
    if log_height > 0 {
        draw_log(frame, log, state, theme);
    }
}

fn draw_body(
    frame: &mut Frame<'_>,
    body: Rect,
    state: &mut TuiState,
    detail: &Detail,
    now: Timestamp,
    theme: Theme,
) {
    let (text, chart) = if body.width >= WIDE {
        beside(body)
    } else if body.height >= 13 {
        let [chart, text] =
            Layout::vertical([Constraint::Length(body.height / 2), Constraint::Min(0)]).areas(body);
        (text, chart)
    } else {
        (body, Rect::default())
    };
    draw_chart(frame, chart, state, detail, theme);
    let mut lines = sections(state, detail, usize::from(text.width), now, theme);
    if body.height + 2 < HIGH - HIGH / 3
        && let Some(log) = state.seen.log.clone()
    {
        let tail = log.lines[log.lines.len().saturating_sub(8)..].to_vec();
        section(&mut lines, "log, its end (o: all of it)", tail, theme);
    }
    // Long paths and reasons continue in the next line, so the height is counted after wrapping.
    let lines = wrapped(lines, usize::from(text.width));
    let most = lines.len().saturating_sub(usize::from(text.height));
    state.trial.scroll = state.trial.scroll.min(most);
    let below = most - state.trial.scroll;
    let visible: Vec<_> = lines.into_iter().skip(state.trial.scroll).collect();
    frame.render_widget(Paragraph::new(visible), text);
    if below > 0 && text.height > 1 {
        let more = Line::styled(format!("  {below} more "), theme.dim().patch(theme.strong()))
            .right_aligned();
        let width = u16::try_from(more.width()).unwrap_or(text.width).min(text.width);
        frame.render_widget(
            more,
            Rect { x: text.right() - width, y: text.bottom() - 1, width, height: 1 },
        );
    }
}

/// Draws what is known of the selected trial in a few lines below the table: the curve and the
/// parameters.
pub fn draw_preview(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &TuiState,
    now: Timestamp,
    theme: Theme,
) {
    let selected = state.list.trial().and_then(|key| state.seen.detail_of(key).cloned());
    let Some(detail) = selected else { return };
    let (text, chart) = beside(area);
    let trial = &detail.trial;
    let spent = state.seen.time_spent(state.seen.summary.id, trial, now).map(rough_duration);
    let spent = spent.map(|spent| format!("{spent}, ")).unwrap_or_default();
    let mut title = title(state, trial, theme);
    // Where it came from has a line of its own: there is less room than on the trial's own screen.
    title.spans.pop();
    let attempts = count(u64::from(trial.attempts), "attempt");
    let origin = format!(" {spent}{attempts}, {}", proposed(&trial.origin));
    let mut lines = vec![title, Line::styled(origin, theme.dim())];
    lines.extend(reason_line(trial));
    lines.extend(
        parameters(state.spec(), trial).into_iter().map(|text| Line::raw(format!("   {text}"))),
    );
    let lines = wrapped(lines, usize::from(text.width));
    frame.render_widget(Paragraph::new(lines), text);
    draw_chart(frame, chart, state, &detail, theme);
}

/// Why the trial is in its state.
fn reason_line(trial: &Trial) -> Option<Line<'static>> {
    trial.reason.as_ref().map(|reason| Line::raw(format!(" {}", one_line(reason))))
}

/// The text's part of an area, and the chart's.
fn beside(area: Rect) -> (Rect, Rect) {
    let [text, _, chart] =
        Layout::horizontal([Constraint::Percentage(42), Constraint::Length(2), Constraint::Min(0)])
            .areas(area);
    (text, chart)
}

fn draw_chart(frame: &mut Frame<'_>, area: Rect, state: &TuiState, detail: &Detail, theme: Theme) {
    let spec = state.spec();
    let objective = &spec.objective().metric;
    let metric = state.trial.metric.as_ref().unwrap_or(objective);
    let own: &[(u64, f64)] =
        detail.metrics.iter().find(|(name, _)| name == metric).map_or(&[], |(_, curve)| curve);
    let field = &state.seen.field;
    let behind = field
        .curves
        .iter()
        .filter(|(number, _)| field.metric == *metric && *number != detail.trial.number);
    let mut series: Vec<Series<'_>> =
        behind.map(|(_, curve)| Series::curve(String::new(), curve, SeriesRole::Behind)).collect();
    let others = series.len();
    let logged = detail.logged.iter().find(|logged| logged.name == *metric);
    series.push(match logged {
        Some(logged) => {
            let points = logged.points.clone();
            Series::new(String::new(), Mark::Line, SeriesRole::Compared(0), points)
        }
        None => Series::curve(String::new(), own, SeriesRole::Compared(0)),
    });
    let others = match others {
        0 => String::new(),
        1 => ", before another".to_owned(),
        others => format!(", before {others} others"),
    };
    let keep = own.iter().map(|(_, value)| *value).filter(|value| value.is_finite());
    let chart = Figure {
        title: format!("{} of trial {}{others}", one_line(metric), detail.trial.number),
        x: match logged {
            Some(logged) if logged.axis == SeriesAxis::Seconds => Axis::default(),
            _ => Axis::whole(),
        },
        y: Axis { scale: scale_of(&series), ..Axis::without_outliers(keep.collect()) },
        series,
        cells: None,
        empty: "no report yet",
    };
    chart.draw(frame.buffer_mut(), area, theme);
}

/// Values of several orders of magnitude are told apart on a logarithmic axis only.
fn scale_of(series: &[Series<'_>]) -> Scale {
    let points = || series.iter().flat_map(|series| series.points.iter());
    let values = || points().map(|(_, value)| *value).filter(|value| value.is_finite());
    let (low, high) =
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    if low > 0.0 && high / low >= 100.0 { Scale::Log } else { Scale::Linear }
}

fn draw_log(frame: &mut Frame<'_>, area: Rect, state: &mut TuiState, theme: Theme) {
    let log = state.seen.log.clone();
    let (heading, lines, matches) = match &log {
        None => ("log".to_owned(), &[][..], Vec::new()),
        Some(log) => (log_heading(log), &log.lines[..], log.matches(&state.trial.text)),
    };
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let below = if state.trial.log { &mut state.trial.log_below } else { &mut 0 };
    let height = usize::from(body.height);
    *below = (*below).min(lines.len().saturating_sub(height));
    let end = lines.len() - *below;
    let follows = if *below == 0 { "" } else { theme.either("  ↓ End follows", "  End follows") };
    let room = usize::from(area.width).saturating_sub(width(follows) + 1);
    let title = theme.shorten(&format!(" {heading}"), room);
    frame.render_widget(
        Line::from(vec![Span::styled(title, theme.dim()), Span::styled(follows, theme.strong())]),
        head,
    );
    if lines.is_empty() {
        let is_over = state.seen.detail.as_ref().is_some_and(|it| it.trial.state.is_finished());
        let nothing = if is_over { "   nothing was printed" } else { "   nothing printed yet" };
        frame.render_widget(Line::styled(nothing, theme.dim()), body);
        return;
    }
    let first = end.saturating_sub(height);
    for (row, (index, text)) in (body.y..body.bottom()).zip((first..).zip(&lines[first..end])) {
        let style = if matches.contains(&index) { theme.warning() } else { Style::new() };
        let text = theme.shorten(text, usize::from(body.width).saturating_sub(4));
        let line = Line::styled(format!("   {text}"), style);
        frame.render_widget(line, Rect { y: row, height: 1, ..body });
    }
}

fn log_heading(log: &LogTail) -> String {
    let cut = if log.cut { ", its end" } else { "" };
    format!("log of attempt {}{cut}  {}", log.attempt, one_line(&log.path.display().to_string()))
}

fn title(state: &TuiState, trial: &Trial, theme: Theme) -> Line<'static> {
    let device = trial.devices.as_ref().map(|device| format!(", on {device}")).unwrap_or_default();
    let key = TrialKey { study: state.seen.summary.id, number: trial.number };
    let mark = if state.marked.contains(&key) { theme.either("●", "*") } else { " " };
    let mut spans = vec![
        Span::styled(mark, theme.marked()),
        Span::styled(format!("{}  ", state.title_of(key)), theme.strong()),
        Span::styled(trial.state.as_str(), theme.trial_state(trial.state)),
    ];
    if let Some(value) = trial.value {
        spans.push(Span::styled(
            format!("  {} {}", one_line(&state.spec().objective().metric), number(value)),
            theme.good(),
        ));
    }
    if !trial.values.is_empty() {
        let names = metric_names(state.spec());
        let text = format!("  {names}: {}", values(&trial.values));
        spans.push(Span::styled(text, theme.good()));
    }
    spans.push(Span::styled(format!("  {}{device}", proposed(&trial.origin)), theme.dim()));
    Line::from(spans)
}
