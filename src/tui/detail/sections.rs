//! What is known of a trial as text: tables under headings.

use ratatui::text::Line;

use crate::engine::batch_halving::BatchHalving;
use crate::report::sparkline::sparkline;
use crate::report::table::{Align, Column};
use crate::report::wording::{
    attempt_end, duration, number, one_line, param, remarked, rough_duration,
};
use crate::storage::Attempt;
use crate::study::metric::Score;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialState};
use crate::tui::look::Look;
use crate::tui::snapshot::{Curve, Detail};
use crate::tui::state::State;

/// Everything about the trial that is text.
pub(super) fn sections(
    state: &State,
    detail: &Detail,
    room: usize,
    now: Timestamp,
    look: Look,
) -> Vec<Line<'static>> {
    let trial = &detail.trial;
    let mut lines = Vec::new();
    section(&mut lines, "parameters", parameters(trial), look);
    section(&mut lines, "metrics", metrics(state, detail, room, look), look);
    if !detail.remarks.is_empty() {
        let remarks = detail.remarks.iter().map(|remark| {
            one_line(&format!(
                "attempt {}: {}",
                remark.attempt,
                remarked(&remark.text, remark.count)
            ))
        });
        section(&mut lines, "remarks on its lines", remarks.collect(), look);
    }
    section(&mut lines, "decisions", decisions(trial, state.spec().step), look);
    section(&mut lines, "attempts", attempts(detail, now), look);
    let ends = detail.attempts.iter().filter_map(|attempt| attempt.end.as_ref());
    if let Some(memory) = BatchHalving::of_attempts(state.spec(), trial, ends) {
        section(&mut lines, "memory", vec![memory.in_words()], look);
    }
    if !trial.notes.is_empty() || !trial.tags.is_empty() {
        let tags =
            (!trial.tags.is_empty()).then(|| format!("tags {}", one_line(&trial.tags.join(", "))));
        section(
            &mut lines,
            "notes",
            tags.into_iter().chain(trial.notes.iter().map(|note| one_line(&note.text))).collect(),
            look,
        );
    }
    section(&mut lines, "checkpoints", checkpoints(trial, state.spec().step), look);
    lines
}

pub(super) fn section(
    lines: &mut Vec<Line<'static>>,
    title: &'static str,
    body: Vec<String>,
    look: Look,
) {
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines.push(Line::styled(format!(" {title}"), look.dim()));
    if body.is_empty() {
        lines.push(Line::styled("   none", look.dim()));
    }
    lines.extend(body.into_iter().map(|text| Line::raw(format!("   {text}"))));
}

/// What a column says of one thing.
type Cell<'a, T> = (Align, &'a dyn Fn(&T) -> String);

/// A table without titles: its columns, and its lines.
fn columns<T>(things: &[T], cells: &[Cell<'_, T>]) -> Vec<Column> {
    let column =
        |(align, cell): &Cell<'_, T>| Column::new("", *align, things.iter().map(cell).collect());
    cells.iter().map(column).collect()
}

fn rows(columns: &[Column], count: usize) -> Vec<String> {
    let cell = |row, column: &Column| column.cell(row, column.cells_width(), "");
    let row = |row| columns.iter().map(|column| cell(row, column)).collect::<Vec<_>>().join("  ");
    (0..count).map(|index| row(index).trim_end().to_owned()).collect()
}

fn table<T>(things: &[T], cells: &[Cell<'_, T>]) -> Vec<String> {
    rows(&columns(things, cells), things.len())
}

pub(super) fn parameters(trial: &Trial) -> Vec<String> {
    let pairs: Vec<_> = trial.params.iter().collect();
    // `y` copies the exact values.
    table(
        &pairs,
        &[(Align::Left, &|(name, _)| one_line(name)), (Align::Left, &|(_, value)| param(value))],
    )
}

fn metrics(state: &State, detail: &Detail, room: usize, look: Look) -> Vec<String> {
    type Metric = (String, Curve);
    let objective = state.spec().objective();
    let of = |point: Option<&(u64, f64)>, say: fn(u64, f64) -> String| {
        point.map_or_else(String::new, |(step, value)| say(*step, *value))
    };
    let best = |(name, curve): &Metric| {
        let best = curve.iter().min_by_key(|(_, value)| Score::new(objective.direction, *value));
        of(best.filter(|_| *name == objective.metric), |step, value| {
            format!("best {} at {step}", number(value))
        })
    };
    let mut texts = columns(
        &detail.metrics,
        &[
            (Align::Left, &|(name, _): &Metric| one_line(name)),
            (Align::Point, &|(_, curve)| of(curve.last(), |_, value| number(value))),
            (Align::Left, &|(_, curve)| of(curve.last(), |step, _| format!("at {step}"))),
            (Align::Left, &best),
        ],
    );
    let taken: usize = texts.iter().map(|column| column.cells_width() + 2).sum();
    let room = room.saturating_sub(taken + 4).min(40);
    let curve = |(_, curve): &Metric| sparkline(curve, room, look.charset);
    texts.extend(columns(&detail.metrics, &[(Align::Left, &curve)]));
    rows(&texts, detail.metrics.len())
}

fn decisions(trial: &Trial, clock: StepUnit) -> Vec<String> {
    table(
        &trial.decisions,
        &[
            (Align::Left, &|decision| format!("{} {}", clock.as_str(), decision.step)),
            (Align::Left, &|decision| decision.verdict.word().to_owned()),
            (Align::Left, &|decision| {
                decision
                    .verdict
                    .reason()
                    .map_or_else(String::new, |reason| one_line(&reason.to_string()))
            }),
        ],
    )
}

fn attempts(detail: &Detail, now: Timestamp) -> Vec<String> {
    table(
        &detail.attempts,
        &[
            (Align::Right, &|attempt| attempt.attempt.to_string()),
            (Align::Left, &|attempt| attempt.slot.device.to_string()),
            (Align::Right, &|attempt| spent(attempt, &detail.trial, now)),
            (Align::Left, &|attempt| attempt_end(attempt.end.as_ref()).to_owned()),
            (Align::Left, &|attempt| attempt.reason.as_deref().map_or_else(String::new, one_line)),
        ],
    )
}

fn spent(attempt: &Attempt, trial: &Trial, now: Timestamp) -> String {
    match attempt.ended {
        Some(ended) => duration(ended.since(attempt.started)),
        None if trial.state == TrialState::Running => rough_duration(now.since(attempt.started)),
        None => String::new(),
    }
}

fn checkpoints(trial: &Trial, clock: StepUnit) -> Vec<String> {
    table(
        &trial.checkpoints,
        &[
            (Align::Left, &|checkpoint| format!("{} {}", clock.as_str(), checkpoint.step)),
            (Align::Left, &|checkpoint| one_line(&checkpoint.path.display().to_string())),
        ],
    )
}
