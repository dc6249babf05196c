//! The details of one trial: parameters, metrics, decisions, attempts and checkpoints, as lines that scroll.

use ratatui::text::{Line, Span};

use super::look::Look;
use super::snapshot::{Detail, Snapshot};
use crate::reporters::sparkline::sparkline;
use crate::reporters::table::{Align, Column};
use crate::reporters::wording::{attempt_end, duration, number, one_line, rough_duration};
use crate::storage::Attempt;
use crate::time::Timestamp;
use crate::trial::{Origin, Trial, TrialState};

/// Metric, step and value.
type Report = (String, u64, f64);

/// All lines, for a screen of `room` columns.
pub fn lines(snapshot: &Snapshot, detail: &Detail, room: usize, now: Timestamp, look: Look) -> Vec<Line<'static>> {
    let mut lines = vec![title(snapshot, &detail.trial, look)];
    if let Some(reason) = &detail.trial.reason {
        lines.push(Line::raw(format!(" {}", one_line(reason))));
    }
    section(&mut lines, "parameters", parameters(&detail.trial), look);
    section(&mut lines, "metrics", metrics(detail, room, look), look);
    section(&mut lines, "decisions", decisions(&detail.trial), look);
    section(&mut lines, "attempts", attempts(detail, now), look);
    section(&mut lines, "checkpoints", checkpoints(&detail.trial), look);
    lines
}

fn section(lines: &mut Vec<Line<'static>>, title: &'static str, body: Vec<String>, look: Look) {
    lines.push(Line::default());
    lines.push(Line::styled(format!(" {title}"), look.dim()));
    if body.is_empty() {
        lines.push(Line::styled("   none", look.dim()));
    }
    lines.extend(body.into_iter().map(|text| Line::raw(format!("   {text}"))));
}

fn title(snapshot: &Snapshot, trial: &Trial, look: Look) -> Line<'static> {
    let proposed = match &trial.origin {
        Origin::Sampled(sampler) => format!("proposed by {}", one_line(sampler)),
        Origin::Enqueued(index) => format!("enqueued as number {index}"),
        Origin::Asked => "enqueued on request".to_owned(),
    };
    let device = trial.device.as_ref().map(|device| format!(", on {device}")).unwrap_or_default();
    let mut spans =
        vec![Span::styled(format!(" trial {}  ", trial.number), look.strong()), Span::styled(trial.state.as_str(), look.trial_state(trial.state))];
    if let Some(value) = trial.value {
        spans.push(Span::styled(format!("  {} {}", one_line(&snapshot.summary.spec.objective().metric), number(value)), look.good()));
    }
    spans.push(Span::styled(format!("  {proposed}{device}"), look.dim()));
    Line::from(spans)
}

/// The lines of a table without titles.
fn rows(columns: &[Column]) -> impl Fn(usize) -> String {
    let columns = columns.to_vec();
    move |row| {
        let cells: Vec<String> = columns.iter().map(|column| column.cell(row, column.cells_width(), "")).collect();
        cells.join("  ").trim_end().to_owned()
    }
}

fn parameters(trial: &Trial) -> Vec<String> {
    let names = trial.params.iter().map(|(name, _)| one_line(name)).collect();
    // Exact values: this is where one looks them up.
    let values = trial.params.iter().map(|(_, value)| one_line(&value.to_string())).collect();
    (0..trial.params.len()).map(rows(&[Column::new("", Align::Left, names), Column::new("", Align::Left, values)])).collect()
}

fn metrics(detail: &Detail, room: usize, look: Look) -> Vec<String> {
    let groups: Vec<&[Report]> = detail.reports.chunk_by(|one, next| one.0 == next.0).collect();
    let cells = |cell: &dyn Fn(&[Report]) -> String| groups.iter().map(|group| cell(group)).collect::<Vec<_>>();
    let last = |group: &[Report]| group.last().map_or_else(String::new, |(_, _, value)| number(*value));
    let step = |group: &[Report]| group.last().map_or_else(String::new, |(_, step, _)| format!("at step {step}"));
    let curve = |group: &[Report]| {
        let curve: Vec<(u64, f64)> = group.iter().map(|(_, step, value)| (*step, *value)).collect();
        sparkline(&curve, room.saturating_sub(48).clamp(8, 64), look.charset)
    };
    let columns = [
        Column::new("", Align::Left, cells(&|group| group.first().map_or_else(String::new, |(name, _, _)| one_line(name)))),
        Column::new("", Align::Point, cells(&last)),
        Column::new("", Align::Left, cells(&step)),
        Column::new("", Align::Left, cells(&curve)),
    ];
    (0..groups.len()).map(rows(&columns)).collect()
}

fn decisions(trial: &Trial) -> Vec<String> {
    let said = |decision: &crate::trial::Decision| decision.verdict.reason().map_or_else(String::new, |reason| one_line(&reason.0));
    let columns = [
        Column::new("", Align::Left, trial.decisions.iter().map(|decision| format!("step {}", decision.step)).collect()),
        Column::new("", Align::Left, trial.decisions.iter().map(|decision| decision.verdict.word().to_owned()).collect()),
        Column::new("", Align::Left, trial.decisions.iter().map(said).collect()),
    ];
    (0..trial.decisions.len()).map(rows(&columns)).collect()
}

fn attempts(detail: &Detail, now: Timestamp) -> Vec<String> {
    let attempts = &detail.attempts;
    let columns = [
        Column::new("", Align::Right, attempts.iter().map(|attempt| attempt.attempt.to_string()).collect()),
        Column::new("", Align::Left, attempts.iter().map(|attempt| attempt.slot.device.to_string()).collect()),
        Column::new("", Align::Right, attempts.iter().map(|attempt| spent(attempt, &detail.trial, now)).collect()),
        Column::new("", Align::Left, attempts.iter().map(|attempt| attempt_end(attempt.end.as_ref()).to_owned()).collect()),
        Column::new("", Align::Left, attempts.iter().map(|attempt| attempt.reason.as_deref().map_or_else(String::new, one_line)).collect()),
    ];
    (0..attempts.len()).map(rows(&columns)).collect()
}

fn spent(attempt: &Attempt, trial: &Trial, now: Timestamp) -> String {
    match attempt.ended {
        Some(ended) => duration(ended.since(attempt.started)),
        None if trial.state == TrialState::Running => rough_duration(now.since(attempt.started)),
        None => String::new(),
    }
}

fn checkpoints(trial: &Trial) -> Vec<String> {
    let columns = [
        Column::new("", Align::Left, trial.checkpoints.iter().map(|checkpoint| format!("step {}", checkpoint.step)).collect()),
        Column::new("", Align::Left, trial.checkpoints.iter().map(|checkpoint| one_line(&checkpoint.path.display().to_string())).collect()),
    ];
    (0..trial.checkpoints.len()).map(rows(&columns)).collect()
}
