//! What is known of a trial as text: tables under headings.

use ratatui::text::Line;
use serde_json::Value as Json;

use crate::config::shell::quoted;
use crate::engine::batch_halving::BatchHalving;
use crate::report::populations::segment_lines;
use crate::report::sparkline::sparkline;
use crate::report::table::{Column, Columns};
use crate::report::wording::{
    attempt_end, bytes, duration, number, one_line, param, predictions, remarked, rough_duration,
};
use crate::storage::{Attempt, Remarked};
use crate::study::artifact::StoredArtifact;
use crate::study::counted::count;
use crate::study::metric::Score;
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialState};
use crate::tui::snapshot::{Curve, Detail, LoggedCurve};
use crate::tui::state::TuiState;
use crate::tui::theme::Theme;

/// Everything about the trial that is text.
pub(super) fn sections(
    state: &TuiState,
    detail: &Detail,
    room: usize,
    now: Timestamp,
    theme: Theme,
) -> Vec<Line<'static>> {
    let trial = &detail.trial;
    let mut lines = Vec::new();
    section(&mut lines, "parameters", parameters(state.spec(), trial), theme);
    if !trial.segments.is_empty() {
        section(&mut lines, "schedule", segment_lines(state.spec().step, trial), theme);
    }
    section(&mut lines, "metrics", metrics(state, detail, room, theme), theme);
    if !detail.logged.is_empty() {
        section(&mut lines, "series", logged(detail, room, theme), theme);
    }
    if !detail.summary.is_empty() {
        section(&mut lines, "summary", summary(detail), theme);
    }
    if !detail.artifacts.is_empty() {
        section(&mut lines, "artifacts", artifacts(state.spec(), detail), theme);
    }
    if !detail.remarks.is_empty() {
        let remark = |remark: &Remarked| {
            let text = remarked(&remark.text, remark.count);
            one_line(&format!("attempt {}: {text}", remark.attempt))
        };
        let remarks = detail.remarks.iter().map(remark).collect();
        section(&mut lines, "remarks on its lines", remarks, theme);
    }
    if let Some(predicted) = predictions(state.spec(), &detail.predicted) {
        section(&mut lines, "predicted when it was proposed", vec![predicted], theme);
    }
    section(&mut lines, "decisions", decisions(trial, state.spec().step), theme);
    section(&mut lines, "attempts", attempts(detail, now), theme);
    let ends = detail.attempts.iter().filter_map(|attempt| attempt.end.as_ref());
    if let Some(memory) = BatchHalving::of_attempts(state.spec(), trial, ends) {
        section(&mut lines, "memory", vec![memory.in_words()], theme);
    }
    let tags = Some(format!("tags {}", one_line(&trial.tags.join(", "))));
    let tags = tags.filter(|_| !trial.tags.is_empty());
    let notes = trial.notes.iter().map(|note| one_line(&note.text));
    let notes: Vec<String> = tags.into_iter().chain(notes).collect();
    if !notes.is_empty() {
        section(&mut lines, "notes", notes, theme);
    }
    section(&mut lines, "checkpoints", checkpoints(trial, state.spec().step), theme);
    lines
}

pub(super) fn section(
    lines: &mut Vec<Line<'static>>,
    title: &'static str,
    body: Vec<String>,
    theme: Theme,
) {
    if !lines.is_empty() {
        lines.push(Line::default());
    }
    lines.push(Line::styled(format!(" {title}"), theme.dim()));
    if body.is_empty() {
        lines.push(Line::styled("   none", theme.dim()));
    }
    lines.extend(body.into_iter().map(|text| Line::raw(format!("   {text}"))));
}

/// The lines of a table without titles.
fn rows(columns: Vec<Column>, count: usize) -> Vec<String> {
    let cell = |row, column: &Column| column.cell(row, column.cells_width(), "");
    let row = |row| columns.iter().map(|column| cell(row, column)).collect::<Vec<_>>().join("  ");
    (0..count).map(|index| row(index).trim_end().to_owned()).collect()
}

pub(super) fn parameters(spec: &StudySpec, trial: &Trial) -> Vec<String> {
    let pairs: Vec<_> = shown_params(spec, trial).iter().collect();
    // `y` copies the exact values.
    let table = Columns::of(&pairs)
        .left("", |(name, _)| one_line(name))
        .left("", |(_, value)| param(value));
    rows(table.end(), pairs.len())
}

fn metrics(state: &TuiState, detail: &Detail, room: usize, theme: Theme) -> Vec<String> {
    let objective = state.spec().objective();
    let last = |curve: &Curve, say: fn(u64, f64) -> String| {
        curve.last().map_or_else(String::new, |(step, value)| say(*step, *value))
    };
    let best = |(name, curve): &(String, Curve)| {
        let best = curve.iter().min_by_key(|(_, value)| Score::new(objective.direction, *value));
        best.filter(|_| *name == objective.metric)
            .map(|(step, value)| format!("best {} at {step}", number(*value)))
            .unwrap_or_default()
    };
    let table = Columns::of(&detail.metrics)
        .left("", |(name, _)| one_line(name))
        .point("", |(_, curve)| last(curve, |_, value| number(value)))
        .left("", |(_, curve)| last(curve, |step, _| format!("at {step}")))
        .left("", best);
    let mut columns = table.end();
    let taken: usize = columns.iter().map(|column| column.cells_width() + 2).sum();
    let room = room.saturating_sub(taken + 4).min(40);
    let curves =
        Columns::of(&detail.metrics).left("", |(_, curve)| sparkline(curve, room, theme.charset));
    columns.extend(curves.end());
    rows(columns, detail.metrics.len())
}

/// What was logged besides reports.
fn logged(detail: &Detail, room: usize, theme: Theme) -> Vec<String> {
    let table = Columns::of(&detail.logged)
        .left("", |curve| one_line(&curve.name))
        .point("", |curve| number(curve.last.1))
        .left("", |curve| format!("at {}", curve.axis.words(curve.last.0)))
        .right("", |curve| count(curve.count, "point"));
    let mut columns = table.end();
    let taken: usize = columns.iter().map(|column| column.cells_width() + 2).sum();
    let room = room.saturating_sub(taken + 4).min(40);
    let steps = |curve: &LoggedCurve| -> Curve {
        (0..).zip(&curve.points).map(|(step, (_, value))| (step, *value)).collect()
    };
    let curves =
        Columns::of(&detail.logged).left("", |curve| sparkline(&steps(curve), room, theme.charset));
    columns.extend(curves.end());
    rows(columns, detail.logged.len())
}

fn summary(detail: &Detail) -> Vec<String> {
    let pairs: Vec<_> = detail.summary.iter().collect();
    let text = |value: &Json| one_line(&value.as_str().map_or(value.to_string(), str::to_owned));
    let table =
        Columns::of(&pairs).left("", |(name, _)| one_line(name)).left("", |(_, value)| text(value));
    rows(table.end(), pairs.len())
}

fn artifacts(spec: &StudySpec, detail: &Detail) -> Vec<String> {
    let all = &detail.artifacts;
    let step = |stored: &StoredArtifact| match stored.artifact.step {
        Some(step) => spec.step.at(step).to_string(),
        None => String::new(),
    };
    let table = Columns::of(all)
        .left("", |stored| one_line(&stored.label()))
        .left("", |stored| stored.artifact.kind.as_str())
        .right("", |stored| bytes(stored.artifact.bytes))
        .left("", step);
    let mut lines = rows(table.end(), all.len());
    let words = ["hpsearch", "artifacts", &spec.name, &detail.trial.number.to_string(), "--get"];
    let words = words.map(str::to_owned).into_iter();
    let words: Vec<String> = words.chain(all.first().map(StoredArtifact::label)).collect();
    lines.push(one_line(&quoted(&words)));
    lines
}

fn decisions(trial: &Trial, step_unit: StepUnit) -> Vec<String> {
    let table = Columns::of(&trial.decisions)
        .left("", |decision| step_unit.at(decision.step).to_string())
        .left("", |decision| decision.verdict.word())
        .left("", |decision| {
            let reason = decision.verdict.reason();
            reason.map_or_else(String::new, |reason| one_line(&reason.to_string()))
        });
    rows(table.end(), trial.decisions.len())
}

fn attempts(detail: &Detail, now: Timestamp) -> Vec<String> {
    let table = Columns::of(&detail.attempts)
        .right("", |attempt| attempt.attempt.to_string())
        .left("", |attempt| attempt.slot.devices.to_string())
        .right("", |attempt| spent(attempt, &detail.trial, now))
        .left("", |attempt| attempt_end(attempt.end.as_ref()))
        .left("", |attempt| attempt.reason.as_deref().map_or_else(String::new, one_line));
    rows(table.end(), detail.attempts.len())
}

fn spent(attempt: &Attempt, trial: &Trial, now: Timestamp) -> String {
    match attempt.ended {
        Some(ended) => duration(ended.since(attempt.started)),
        None if trial.state == TrialState::Running => rough_duration(now.since(attempt.started)),
        None => String::new(),
    }
}

fn checkpoints(trial: &Trial, step_unit: StepUnit) -> Vec<String> {
    let table = Columns::of(&trial.checkpoints)
        .left("", |checkpoint| step_unit.at(checkpoint.step).to_string())
        .left("", |checkpoint| one_line(&checkpoint.path.display().to_string()));
    rows(table.end(), trial.checkpoints.len())
}
