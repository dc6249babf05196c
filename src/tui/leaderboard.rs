//! The table of trials: which columns fit, and how its rows are drawn.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::look::Look;
use super::snapshot::Snapshot;
use super::state::State;
use crate::reporters::sparkline::{Charset, sparkline};
use crate::reporters::table::{Align, Column};
use crate::reporters::wording::{StudyState, number, one_line, param, shorten, shown_value, width};
use crate::space::{Dimension, Distribution};
use crate::storage::TrialOrder;
use crate::trial::Trial;

/// What a column shows, as far as its style depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rank,
    Trial,
    State,
    Value,
    Step,
    Curve,
    Params,
    Reason,
}

/// A column with the width it is drawn at.
#[derive(Clone, Debug, PartialEq)]
struct Placed {
    kind: Kind,
    column: Column,
    width: usize,
}

/// Columns between two columns, and the mark before the first.
const GAP: usize = 2;
/// A parameter's column is no wider.
const WIDEST_PARAM: usize = 14;
/// Of a parameter's name at least so much is shown over its values.
const NARROWEST_TITLE: usize = 6;
/// A reason or a list of parameters gets no column narrower than this.
const NARROWEST_TEXT: usize = 18;

/// Draws titles and rows into `area`.
pub fn draw(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot, state: &State, look: Look) {
    if snapshot.trials.is_empty() {
        let waiting = match snapshot.state {
            StudyState::Running => "waiting for the first trial",
            _ => "no trials yet: `hpsearch run` starts the study",
        };
        let middle = Rect { y: area.y + area.height / 3, height: area.height.min(1), ..area };
        frame.render_widget(Line::styled(waiting, look.dim()).centered(), middle.intersection(area));
        return;
    }
    let columns = columns(snapshot, state.order, usize::from(area.width), look);
    let mut y = area.y;
    let mut put = |line: Line<'_>, style: Style| {
        if y < area.bottom() {
            frame.render_widget(line, Rect { y, height: 1, ..area });
            frame.buffer_mut().set_style(Rect { y, height: 1, ..area }, style);
        }
        y = y.saturating_add(1);
    };
    put(title_line(&columns, look), Style::new());
    for (row, trial) in snapshot.trials.iter().enumerate() {
        let selected = snapshot.offset + u64::try_from(row).unwrap_or(0) == state.selected;
        put(row_line(&columns, row, trial, selected, snapshot, look), if selected { look.selected() } else { Style::new() });
    }
}

fn title_line(columns: &[Placed], look: Look) -> Line<'static> {
    let cut = look.charset.cut();
    let mut spans = vec![Span::raw("  ")];
    for placed in columns {
        spans.push(Span::styled(placed.column.title(placed.width, cut), look.dim()));
        spans.push(Span::raw("  "));
    }
    Line::from(spans)
}

fn row_line(columns: &[Placed], row: usize, trial: &Trial, selected: bool, snapshot: &Snapshot, look: Look) -> Line<'static> {
    let best = snapshot.summary.best.is_some_and(|(best, _)| best == trial.number);
    let mark = if selected { look.either("▸ ", "> ") } else { "  " };
    let mut spans = vec![Span::raw(mark)];
    for placed in columns {
        let style = match placed.kind {
            // On the selected row a colour would become a coloured block.
            _ if selected => Style::new(),
            Kind::State => look.trial_state(trial.state),
            Kind::Value if best => look.good().patch(look.strong()),
            Kind::Value if trial.value.is_none() => look.dim(),
            Kind::Curve | Kind::Reason => look.dim(),
            Kind::Rank | Kind::Trial | Kind::Value | Kind::Step | Kind::Params => Style::new(),
        };
        spans.push(Span::styled(placed.column.cell(row, placed.width, look.charset.cut()), style));
        spans.push(Span::raw("  "));
    }
    Line::from(spans)
}

/// The columns that fit in `room`: the narrower it is, the fewer.
fn columns(snapshot: &Snapshot, order: TrialOrder, room: usize, look: Look) -> Vec<Placed> {
    let mut columns = fixed_columns(snapshot, order, room, look);
    // Some of each parameter comes before the curve.
    for expendable in [Kind::Curve, Kind::Rank, Kind::Step] {
        if left_of(room, &columns) < NARROWEST_TEXT {
            columns.retain(|placed| placed.kind != expendable);
        }
    }
    let full = param_columns(snapshot, WIDEST_PARAM);
    let cut = param_columns(snapshot, NARROWEST_TITLE);
    let needs = |params: &[Placed]| (params.iter().map(|placed| placed.width + GAP).sum::<usize>()).saturating_sub(GAP);
    let params = if needs(&full) <= left_of(room, &columns) {
        full
    } else {
        if needs(&cut) > left_of(room, &columns) {
            columns.retain(|placed| placed.kind != Kind::Rank);
        }
        as_many_as_fit(cut, left_of(room, &columns))
    };
    match (params.len(), param_list(snapshot, left_of(room, &columns))) {
        (0 | 1, Some(list)) if snapshot.summary.spec.space.dimensions().len() > 1 => columns.push(list),
        _ => columns.extend(params),
    }
    columns.extend(reason_column(snapshot, left_of(room, &columns)));
    columns
}

/// What is left of `room` after these columns and the gap behind them.
fn left_of(room: usize, columns: &[Placed]) -> usize {
    room.saturating_sub(GAP + columns.iter().map(|placed| placed.width + GAP).sum::<usize>())
}

/// The first columns that fit, and how many more there are.
fn as_many_as_fit(mut params: Vec<Placed>, left: usize) -> Vec<Placed> {
    let all = params.len();
    loop {
        let hidden = all - params.len();
        let more = Column::new(format!("+{hidden}"), Align::Left, Vec::new());
        let more = (hidden > 0).then(|| Placed { kind: Kind::Params, width: more.width(), column: more });
        let needed = params.iter().chain(&more).map(|placed| placed.width + GAP).sum::<usize>();
        if needed <= left + GAP || params.is_empty() {
            // With none that fits there is nothing to add to.
            let more = more.filter(|_| !params.is_empty());
            params.extend(more);
            return params;
        }
        params.pop();
    }
}

fn fixed_columns(snapshot: &Snapshot, order: TrialOrder, room: usize, look: Look) -> Vec<Placed> {
    let trials = &snapshot.trials;
    let cells = |cell: &dyn Fn(&Trial) -> String| trials.iter().map(cell).collect::<Vec<_>>();
    let mut columns = Vec::new();
    let mut place = |kind, column: Column, at_most: usize| {
        let width = column.cells_width().max(column.width().min(at_most));
        columns.push(Placed { kind, column, width });
    };
    if order == TrialOrder::Value {
        let ranks = (snapshot.offset + 1..).take(trials.len()).map(|rank| rank.to_string()).collect();
        place(Kind::Rank, Column::new("rank", Align::Right, ranks), 4);
    }
    place(Kind::Trial, Column::new("trial", Align::Right, cells(&|trial| trial.number.to_string())), 5);
    place(Kind::State, Column::new("state", Align::Left, cells(&|trial| trial.state.as_str().to_owned())), 8);
    let metric = one_line(&snapshot.summary.spec.objective().metric);
    let values = cells(&|trial| shown_value(trial).map_or_else(String::new, number));
    place(Kind::Value, Column::new(metric, Align::Point, values), 12);
    let steps = cells(&|trial| trial.last().map_or_else(String::new, |(step, _)| step.to_string()));
    place(Kind::Step, Column::new(snapshot.summary.spec.step.as_str(), Align::Right, steps), 7);
    let curve_width = if room < 100 { 8 } else { 16 };
    place(Kind::Curve, Column::new("curve", Align::Left, cells(&|trial| sparkline(&trial.curve, curve_width, look.charset))), 5);
    columns
}

/// One column for each parameter of the space, with as much of its title as `title` columns hold.
fn param_columns(snapshot: &Snapshot, title: usize) -> Vec<Placed> {
    let dimensions = snapshot.summary.spec.space.dimensions();
    let column = |dimension: &Dimension| {
        let cells = snapshot.trials.iter().map(|trial| trial.params.get(&dimension.name).map_or_else(String::new, param)).collect();
        let align = match dimension.distribution {
            Distribution::Float { .. } => Align::Point,
            Distribution::Int { .. } => Align::Right,
            Distribution::Choice { .. } => Align::Left,
        };
        let column = Column::new(one_line(short_name(dimension, dimensions)), align, cells);
        let width = column.cells_width().max(column.width().min(title)).min(WIDEST_PARAM);
        Placed { kind: Kind::Params, column, width }
    };
    dimensions.iter().map(column).collect()
}

/// The last part of a dotted name, where that says which parameter is meant.
fn short_name<'a>(dimension: &'a Dimension, dimensions: &[Dimension]) -> &'a str {
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let short = last(&dimension.name);
    let same = dimensions.iter().filter(|other| other.name.rsplit('.').next() == Some(short)).count();
    if same == 1 { short } else { &dimension.name }
}

/// All parameters in one column, as `name=value`.
fn param_list(snapshot: &Snapshot, left: usize) -> Option<Placed> {
    let dimensions = snapshot.summary.spec.space.dimensions();
    let cells: Vec<String> = snapshot.trials.iter().map(|trial| param_pairs(trial, dimensions)).collect();
    let column = Column::new("parameters", Align::Left, cells);
    let width = column.width().min(left);
    (width >= NARROWEST_TEXT.min(column.width()) && !dimensions.is_empty()).then_some(Placed { kind: Kind::Params, column, width })
}

/// `name=value` for each active parameter, in the order of the space.
pub fn param_pairs(trial: &Trial, dimensions: &[Dimension]) -> String {
    let pairs: Vec<String> = dimensions
        .iter()
        .filter_map(|dimension| {
            let value = trial.params.get(&dimension.name)?;
            Some(format!("{}={}", one_line(short_name(dimension, dimensions)), param(value)))
        })
        .collect();
    pairs.join(" ")
}

fn reason_column(snapshot: &Snapshot, left: usize) -> Option<Placed> {
    let cells: Vec<String> = snapshot.trials.iter().map(|trial| trial.reason.as_deref().map_or_else(String::new, one_line)).collect();
    let column = Column::new("reason", Align::Left, cells);
    let width = column.width().min(left);
    (column.cells_width() > 0 && width >= NARROWEST_TEXT.min(column.width())).then_some(Placed { kind: Kind::Reason, column, width })
}

/// The line under the table: why the selected trial is in its state, and its parameters.
pub fn selected_line(snapshot: &Snapshot, state: &State, room: usize, look: Look) -> Line<'static> {
    let Some(trial) = state.selected_trial().and_then(|number| snapshot.trials.iter().find(|trial| trial.number == number)) else {
        return Line::default();
    };
    let head = format!(" trial {}  ", trial.number);
    let pairs = param_pairs(trial, snapshot.summary.spec.space.dimensions());
    let separator = if look.charset == Charset::Unicode { " · " } else { " - " };
    let text = match &trial.reason {
        Some(reason) => format!("{} {}{separator}{pairs}", trial.state.as_str(), one_line(reason)),
        None => pairs,
    };
    let text = shorten(&text, room.saturating_sub(width(&head) + 1), look.charset.cut());
    Line::from(vec![Span::styled(head, look.strong()), Span::raw(text)])
}
