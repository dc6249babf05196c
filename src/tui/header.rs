//! The lines on top of every screen: study, best value, forecast, budget, counts, and the screens
//! there are.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::keys::Screen;
use super::look::Look;
use super::snapshot::Snapshot;
use super::state::State;
use crate::engine::finalists::CONFIDENCE;
use crate::report::ahead::{self, Running, look_ahead};
use crate::report::progress::Progress;
use crate::report::sparkline::Charset;
use crate::report::wording::{
    StudyStatus, no_best, number, one_line, rough_duration, shorten, width,
};
use crate::study::finalists::Race;
use crate::study::time::Timestamp;
use crate::study::trial::TrialState;

/// Draws them; a low area gets the two lines that matter most.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, now: Timestamp, look: Look) {
    let seen = &state.seen;
    let progress = Progress::new(
        &seen.summary.spec,
        seen.summary.search_counts(),
        seen.elapsed(now),
        seen.used.device_time(now),
    );
    let low = area.height < 4;
    let first = two_sided(name(seen, look), state_word(seen, look), area, look);
    let lines = if low {
        vec![first, two_sided(best(seen, look), trials(&progress), area, look)]
    } else {
        vec![
            first,
            two_sided(best(seen, look), times(seen, &progress, now, look), area, look),
            two_sided(Vec::new(), trials(&progress), area, look),
            counts_line(seen, &progress, area, look),
            Line::from(screens(state, usize::from(area.width), look)),
        ]
    };
    frame.render_widget(Paragraph::new(lines), area);
    if !low {
        draw_bar(frame, Rect { y: area.y + 2, height: 1, ..area }, &progress, look);
    }
}

/// Spans at both sides of a line; the left ones are cut where they meet.
fn two_sided(
    left: Vec<Span<'static>>,
    right: Vec<Span<'static>>,
    area: Rect,
    look: Look,
) -> Line<'static> {
    let room = usize::from(area.width);
    let right_width: usize = right.iter().map(Span::width).sum();
    let mut spans = Vec::new();
    let mut used = 0;
    for span in left {
        let text =
            shorten(&span.content, room.saturating_sub(right_width + used + 2), look.charset.cut());
        used += width(&text);
        spans.push(Span::styled(text, span.style));
    }
    spans.push(Span::raw(" ".repeat(room.saturating_sub(used + right_width + 1))));
    spans.extend(right);
    Line::from(spans)
}

fn name(seen: &Snapshot, look: Look) -> Vec<Span<'static>> {
    let objective = seen.summary.spec.objective();
    vec![
        Span::styled(format!(" {}", one_line(&seen.summary.spec.name)), look.strong()),
        Span::styled(
            format!("  {} {}", objective.direction.as_str(), one_line(&objective.metric)),
            look.dim(),
        ),
    ]
}

fn state_word(seen: &Snapshot, look: Look) -> Vec<Span<'static>> {
    if seen.summary.paused.is_some() && seen.state == StudyStatus::Running {
        return vec![Span::styled(
            "paused, P continues",
            look.trial_state(TrialState::Paused).patch(look.strong()),
        )];
    }
    vec![Span::styled(seen.state.as_str(), look.study_state(seen.state))]
}

fn best(seen: &Snapshot, look: Look) -> Vec<Span<'static>> {
    match seen.summary.best {
        Some((trial, value)) => {
            let winner = seen.summary.race.as_ref().and_then(Race::winner);
            let half = winner.and_then(|winner| winner.sample.half_width(CONFIDENCE));
            // How sure the mean of its fresh runs is: two that overlap are not told apart.
            let interval = half
                .map(|half| format!(" {} {} (95 %)", look.either("±", "+-"), number(half)))
                .unwrap_or_default();
            vec![
                Span::raw(if winner.is_some() { " winner " } else { " best " }),
                Span::styled(number(value) + &interval, look.good().patch(look.strong())),
                Span::styled(format!("  trial {trial}"), look.dim()),
            ]
        }
        None => vec![Span::styled(format!(" {}", no_best(seen.summary.counts)), look.dim())],
    }
}

fn times(seen: &Snapshot, progress: &Progress, now: Timestamp, look: Look) -> Vec<Span<'static>> {
    let summary = &seen.summary;
    let left = match seen.state {
        StudyStatus::Running => ahead::left(&look_ahead(
            &summary.spec,
            summary.search_counts(),
            progress.elapsed,
            (*seen.used).clone(),
            now,
            Running::Yes,
        )),
        _ => None,
    };
    let left = left.map(|left| format!(", {left}")).unwrap_or_default();
    vec![Span::raw(rough_duration(progress.elapsed)), Span::styled(left, look.dim())]
}

fn trials(progress: &Progress) -> Vec<Span<'static>> {
    let left = progress.of.map(|of| of.saturating_sub(progress.done)).filter(|left| *left > 0);
    let left = left.map(|left| format!(", {left} left")).unwrap_or_default();
    vec![Span::raw(progress.trials() + &left)]
}

/// Trials by state, and how fast they come to their end where there is room for it.
fn counts_line(seen: &Snapshot, progress: &Progress, area: Rect, look: Look) -> Line<'static> {
    let (counts, rate) = (counts(seen, look), rate(progress, look));
    let needed: usize = counts.iter().chain(&rate).map(Span::width).sum();
    two_sided(
        counts,
        if needed + 3 <= usize::from(area.width) { rate } else { Vec::new() },
        area,
        look,
    )
}

/// How fast trials come to their end.
fn rate(progress: &Progress, look: Look) -> Vec<Span<'static>> {
    if progress.done == 0 || progress.elapsed.is_zero() {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate with three digits")]
    let per_minute = progress.done as f64 / progress.elapsed.as_secs_f64() * 60.0;
    let text = match per_minute {
        rate if rate >= 120.0 => format!("{:.1} trials/s", rate / 60.0),
        rate if rate >= 1.0 => format!("{rate:.1} trials/min"),
        rate if rate * 60.0 >= 1.0 => format!("{:.1} trials/h", rate * 60.0),
        rate => format!("{:.1} trials/day", rate * 60.0 * 24.0),
    };
    vec![Span::styled(text, look.dim())]
}

fn counts(seen: &Snapshot, look: Look) -> Vec<Span<'static>> {
    let mut counts = seen.summary.counts;
    let mut spans = Vec::new();
    for state in TrialState::ALL {
        let trials = *counts.of(state);
        let style = if trials == 0 { look.dim() } else { look.trial_state(state) };
        spans.push(Span::styled(format!(" {trials} {} ", state.as_str()), style));
    }
    spans
}

/// The screens with their keys; the one that is shown stands out.
fn screens(state: &State, room: usize, look: Look) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let mut used = 0;
    for (index, screen) in (1..).zip(Screen::ALL) {
        let about = match screen {
            Screen::Trial => state
                .opened
                .filter(|_| state.screen == Screen::Trial)
                .map(|trial| format!(" {trial}")),
            Screen::Compare if !state.marked.is_empty() => Some(format!(" {}", state.marked.len())),
            _ => None,
        };
        let text = format!(" {index} {}{} ", screen.name(), about.unwrap_or_default());
        used += width(&text) + 1;
        if used > room {
            break;
        }
        let style =
            if screen == state.screen { look.strong().patch(look.selected()) } else { look.dim() };
        spans.extend([Span::styled(text, style), Span::raw(" ")]);
    }
    spans
}

/// The bar between the left edge and the number of trials; nothing without a limit.
fn draw_bar(frame: &mut Frame<'_>, area: Rect, progress: &Progress, look: Look) {
    let Some(fraction) = progress.fraction else {
        return;
    };
    let said: usize = trials(progress).iter().map(Span::width).sum();
    let room = usize::from(area.width).saturating_sub(said + 4);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a screen's width"
    )]
    let filled = ((room as f64 * fraction) as usize).min(room);
    let (full, empty) = match look.charset {
        Charset::Unicode => ("━", "─"),
        Charset::Ascii => ("#", "-"),
    };
    let line = Line::from(vec![
        Span::raw(" "),
        Span::styled(full.repeat(filled), look.good()),
        Span::styled(empty.repeat(room - filled), look.dim()),
    ]);
    let area = Rect { width: area.width.min(u16::try_from(room + 1).unwrap_or(u16::MAX)), ..area };
    frame.render_widget(line, area);
}
