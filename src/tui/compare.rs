//! Marked trials side by side: what they have in common, where they differ, and their curves in one
//! chart.

#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};

use super::chart::style_of;
use super::theme::Theme;
use super::trial_key::TrialKey;
use crate::app::several::common_objective;
use crate::report::figure::{Axis, Figure, Series, SeriesRole};
use crate::report::wording::{
    duration, metric_names, micros, one_line, param, value_cell, value_digits, width,
};
use crate::storage::{StorageError, StorageReader, StudyId, TrialCurve};
use crate::study::metric::Score;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};

/// So many of the other trials' curves stand behind the compared ones.
const FIELD: u64 = 60;

/// Trials to compare, as loaded.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareData {
    /// The studies that the trials are of, each once.
    pub studies: Vec<(StudyId, StudySpec)>,
    /// The metric of the curves.
    pub metric: String,
    /// Those compared, in the order in which they were marked, each with the place of its study.
    pub trials: Vec<(usize, Trial)>,
    /// Their curves, in the same order.
    pub curves: Vec<TrialCurve>,
    /// Curves of the best trials, for scale, where all are of one study.
    pub field: Vec<TrialCurve>,
    /// When they were read.
    pub at: Timestamp,
}

impl CompareData {
    /// Reads the trials, and the curves of `metric` (by default each study's own).
    pub fn load(
        reader: &dyn StorageReader,
        marked: &[TrialKey],
        metric: Option<&str>,
        at: Timestamp,
    ) -> Result<CompareData, StorageError> {
        let mut studies: Vec<(StudyId, StudySpec)> = Vec::new();
        let (mut trials, mut curves) = (Vec::new(), Vec::new());
        for key in marked {
            let Some(trial) = reader.trial(key.study, key.number)? else { continue };
            let known = studies.iter().position(|(study, _)| *study == key.study);
            let index = match known {
                Some(index) => index,
                None => {
                    studies.push((key.study, reader.summary(key.study)?.spec));
                    studies.len() - 1
                }
            };
            let own = metric.unwrap_or(&studies[index].1.objective().metric);
            curves.append(&mut reader.curves(key.study, own, &[key.number])?);
            trials.push((index, trial));
        }
        let objective = common_objective(studies.iter().map(|(_, spec)| spec));
        let common = objective.map(|objective| objective.metric.as_str());
        let metric = metric.or(common).unwrap_or("value").to_owned();
        let field = match studies.as_slice() {
            [(study, _)] => field(reader, *study, &metric, &trials)?,
            _ => Vec::new(),
        };
        Ok(CompareData { studies, metric, trials, curves, field, at })
    }

    fn spec(&self, study: usize) -> &StudySpec {
        &self.studies[study].1
    }

    /// What a trial is called here.
    fn title(&self, (study, trial): &(usize, Trial)) -> String {
        match self.studies.len() {
            0 | 1 => format!("trial {}", trial.number),
            _ => format!("{}/{}", one_line(&self.spec(*study).name), trial.number),
        }
    }

    /// What the steps of all studies count; `step` where that differs.
    fn step(&self) -> &'static str {
        let mut steps = self.studies.iter().map(|(_, spec)| spec.step.as_str());
        let first = steps.next().unwrap_or("step");
        if steps.all(|step| step == first) { first } else { "step" }
    }
}

/// The curves of the best trials that are not compared.
fn field(
    reader: &dyn StorageReader,
    study: StudyId,
    metric: &str,
    compared: &[(usize, Trial)],
) -> Result<Vec<TrialCurve>, StorageError> {
    let best = reader.trials(study, &TrialQuery::all(SortKey::Value).page(0, FIELD))?;
    let is_other = |number: &TrialNumber| compared.iter().all(|(_, trial)| trial.number != *number);
    let others: Vec<TrialNumber> = best.iter().map(|trial| trial.number).filter(is_other).collect();
    reader.curves(study, metric, &others)
}

/// How a line of the table reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emphasis {
    /// About the trials as a whole.
    Plain,
    /// Here they differ.
    Different,
    /// Here they are equal.
    Equal,
}

/// A line of the table: a name, and a cell for each trial.
struct ComparedRow {
    name: String,
    cells: Vec<String>,
    emphasis: Emphasis,
}

/// Columns that the chart has beside the table rather than lines below it; fewer where lines are
/// few, too.
const CHART_WIDTH: u16 = 56;
const NARROWEST_CHART: u16 = 32;
/// Lines that the chart needs below the table.
const CHART_HEIGHT: u16 = 8;
/// No cell is wider.
const WIDEST_CELL: usize = 18;

/// Draws the table and the chart, the table scrolled down by `scroll` lines, or by as many as there
/// are to scroll by; how many those are.
pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    data: &CompareData,
    scroll: usize,
    theme: Theme,
) -> usize {
    let area = area.intersection(buffer.area);
    if data.trials.is_empty() {
        let text = "no trial is marked: mark some in the table of trials, then come back";
        theme.say_in(buffer, area, text);
        return 0;
    }
    let rows = rows(data);
    let table = ComparisonTable::new(&rows, data, area.width);
    let height = u16::try_from(rows.len() + 1).unwrap_or(u16::MAX);
    let beside = area.width.saturating_sub(table.width());
    let below = area.height.saturating_sub(height + 1);
    let (left, right) = if beside >= CHART_WIDTH
        || beside >= NARROWEST_CHART && below < 2 * CHART_HEIGHT
    {
        let parts = [Constraint::Length(table.width()), Constraint::Length(2), Constraint::Min(0)];
        let [left, _, right] = Layout::horizontal(parts).areas(area);
        (left, right)
    } else {
        let room = area.height.saturating_sub(CHART_HEIGHT + 1).max(area.height / 2);
        let table = Constraint::Length(height.min(room));
        let parts = [table, Constraint::Length(1), Constraint::Min(0)];
        let [above, _, below] = Layout::vertical(parts).areas(area);
        (above, below)
    };
    chart(data).draw(buffer, Rect { width: right.width.saturating_sub(1), ..right }, theme);
    table.draw(buffer, left, scroll, theme)
}

fn chart(data: &CompareData) -> Figure<'static> {
    let behind = data
        .field
        .iter()
        .map(|(_, points)| Series::curve(String::new(), points, SeriesRole::Behind));
    let compared = data.curves.iter().zip(&data.trials).enumerate();
    let compared = compared.map(|(index, ((_, points), trial))| {
        Series::curve(data.title(trial), points, SeriesRole::Compared(index))
    });
    // All of the best curve is to be seen, whatever the others do.
    let ends = data
        .curves
        .iter()
        .filter_map(|curve| Some(curve.1.last()?.1))
        .filter(|value| value.is_finite())
        .collect();
    Figure {
        title: format!("{} by {}", one_line(&data.metric), data.step()),
        x: Axis::whole(),
        y: Axis::without_outliers(ends),
        // The first ones on top: where lines meet, the one marked first is seen.
        series: behind.chain(compared.rev()).collect(),
        cells: None,
        empty: "no reports of this metric yet",
    }
}

fn rows<'a>(data: &'a CompareData) -> Vec<ComparedRow> {
    let about = |name: &str, cell: &dyn Fn(&Trial) -> String| ComparedRow {
        name: name.to_owned(),
        cells: data.trials.iter().map(|(_, trial)| cell(trial)).collect(),
        emphasis: Emphasis::Plain,
    };
    let objective = common_objective(data.studies.iter().map(|(_, spec)| spec));
    let best = objective.and_then(|objective| {
        let values = data.trials.iter().filter_map(|(_, trial)| trial.value);
        let best = values.min_by_key(|value| Score::new(objective.direction, *value));
        best.filter(|value| !value.is_nan())
    });
    let digits = value_digits(data.trials.iter().map(|(_, trial)| trial));
    let value = |trial: &Trial| match trial.value {
        Some(value) if Some(value) == best && data.trials.len() > 1 => {
            format!("{} best", digits.text(value))
        }
        _ => value_cell(trial, digits),
    };
    let metric = objective.map_or("value", |objective| &objective.metric);
    let mut rows = vec![
        about("state", &|trial| trial.state.as_str().to_owned()),
        about(&one_line(metric), &value),
    ];
    if objective.is_none() {
        let metric = |(study, _): &(usize, Trial)| metric_names(data.spec(*study));
        let cells = data.trials.iter().map(metric).collect();
        rows.push(ComparedRow { name: "metric".to_owned(), cells, emphasis: Emphasis::Plain });
    }
    rows.extend([
        about(data.step(), &|trial| {
            trial.last().map_or_else(String::new, |(step, _)| step.to_string())
        }),
        about("time", &|trial| {
            let spent = trial.time_spent(data.at).unwrap_or(micros(trial.busy_micros));
            duration(spent)
        }),
        about("attempts", &|trial| trial.attempts.to_string()),
        about("device", &|trial| {
            trial.devices.as_ref().map_or_else(String::new, ToString::to_string)
        }),
    ]);
    let (mut different, mut equal) = (Vec::new(), Vec::new());
    for name in params(data) {
        let value =
            |(study, trial): &'a (usize, Trial)| shown_params(data.spec(*study), trial).get(name);
        let values: Vec<_> = data.trials.iter().map(value).collect();
        let cells =
            values.iter().map(|value| value.map_or_else(|| "-".to_owned(), param)).collect();
        let same = values.windows(2).all(|pair| match (pair[0], pair[1]) {
            (Some(one), Some(other)) => one.same(other),
            (one, other) => one.is_none() && other.is_none(),
        });
        let emphasis = if same { Emphasis::Equal } else { Emphasis::Different };
        let row = ComparedRow { name: one_line(name), cells, emphasis };
        if same { &mut equal } else { &mut different }.push(row);
    }
    rows.append(&mut different);
    rows.append(&mut equal);
    rows
}

/// The parameters of the spaces, then those that tracked runs have besides.
fn params(data: &CompareData) -> Vec<&str> {
    let spaces = data.studies.iter().flat_map(|(_, spec)| spec.space.dimensions());
    let searched = spaces.map(|dimension| dimension.name.as_str());
    let own = data.trials.iter().flat_map(|(_, trial)| trial.params.iter()).map(|(name, _)| name);
    let mut names: Vec<&str> = Vec::new();
    for name in searched.chain(own) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

struct ComparisonTable<'a> {
    rows: &'a [ComparedRow],
    titles: Vec<String>,
    name_width: usize,
    widths: Vec<usize>,
}

impl<'a> ComparisonTable<'a> {
    fn new(rows: &'a [ComparedRow], data: &CompareData, room: u16) -> Self {
        let titles: Vec<String> = data.trials.iter().map(|trial| data.title(trial)).collect();
        let name_width = rows
            .iter()
            .map(|row| width(&row.name))
            .max()
            .unwrap_or(0)
            .min(usize::from(room / 3).max(8));
        let cells = |index: usize| rows.iter().filter_map(move |row| row.cells.get(index));
        let column = |index| cells(index).map(|cell| width(cell)).max().unwrap_or(0);
        let titled = titles.iter().enumerate();
        let widths =
            titled.map(|(index, title)| column(index).min(WIDEST_CELL).max(width(title))).collect();
        ComparisonTable { rows, titles, name_width, widths }
    }

    fn width(&self) -> u16 {
        u16::try_from(
            1 + self.name_width + self.widths.iter().map(|width| width + 2).sum::<usize>(),
        )
        .unwrap_or(u16::MAX)
    }

    fn draw(&self, buffer: &mut Buffer, area: Rect, scroll: usize, theme: Theme) -> usize {
        if area.is_empty() {
            return 0;
        }
        let shown = self.shown(usize::from(area.width));
        let compared = |index| style_of(SeriesRole::Compared(index), theme).patch(theme.strong());
        let line = Rect { height: 1, ..area };
        self.draw_row(buffer, line, ("", &self.titles[..shown]), &compared, theme);
        if shown < self.titles.len() {
            let more = format!("+{}", self.titles.len() - shown);
            buffer.set_stringn(area.right().saturating_sub(3), area.y, more, 3, theme.dim());
        }
        let room = usize::from(area.height.saturating_sub(1));
        let scroll = scroll.min(self.rows.len().saturating_sub(room));
        for (y, row) in (area.y + 1..area.bottom()).zip(self.rows.iter().skip(scroll)) {
            let style = match row.emphasis {
                Emphasis::Plain => Style::new(),
                Emphasis::Different => theme.strong(),
                Emphasis::Equal => theme.dim(),
            };
            let line = Rect { y, height: 1, ..area };
            self.draw_row(buffer, line, (&row.name, &row.cells[..shown]), &|_| style, theme);
        }
        scroll
    }

    /// How many trials have room, at least one.
    fn shown(&self, room: usize) -> usize {
        let used = |shown: usize| {
            1 + self.name_width + self.widths[..shown].iter().map(|width| width + 2).sum::<usize>()
        };
        let fit = (1..=self.widths.len()).take_while(|shown| used(*shown) <= room).count();
        // The number of those left out needs some room, too.
        if fit < self.widths.len() && fit > 1 && used(fit) + 3 > room {
            return fit - 1;
        }
        fit.max(1).min(self.widths.len())
    }

    fn draw_row(
        &self,
        buffer: &mut Buffer,
        line: Rect,
        (name, cells): (&str, &[String]),
        style: &dyn Fn(usize) -> Style,
        theme: Theme,
    ) {
        let room = usize::from(line.width);
        let mut put = |at: usize, text: &str, most: usize, style: Style| {
            if let Some(left) = room.checked_sub(at + 1) {
                let text = theme.shorten(text, most.min(left + 1));
                let x = line.x + u16::try_from(at).unwrap_or(u16::MAX);
                buffer.set_stringn(x, line.y, text, left + 1, style);
            }
        };
        put(1, name, self.name_width, style(0).remove_modifier(Modifier::BOLD));
        let mut at = 1 + self.name_width;
        for (index, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            put(at + 2, cell, *width, style(index));
            at += width + 2;
        }
    }
}
