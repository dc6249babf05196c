//! The lines on top of every screen: study, best value, forecast, budget, counts, and the screens
//! there are.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::keys::Screen;
use super::snapshot::Snapshot;
use super::state::TuiState;
use super::theme::{Theme, wrapped};
use super::together::Together;
use crate::engine::finalists::CONFIDENCE;
use crate::report::ahead::{self, Running, look_ahead};
use crate::report::progress::Progress;
use crate::report::wording::{
    StudyStatus, front_in_width, goal, no_best, number, one_line, rough_duration, study_count,
    width,
};
use crate::study::counted::count;
use crate::study::finalists::Race;
use crate::study::state::Counts;
use crate::study::time::Timestamp;
use crate::study::trial::TrialState;
use crate::tracking::Behind;

/// The lines that the longest reason takes on 80 columns.
const GOAL_LINES: u16 = 3;

/// Draws them; a low area gets the two lines that matter most.
pub fn draw(frame: &mut Frame<'_>, area: Rect, state: &TuiState, now: Timestamp, theme: Theme) {
    let seen = &state.seen;
    if let Some(together) = &seen.together
        && state.screen == Screen::Trials
    {
        return draw_several(frame, area, state, together, theme);
    }
    let progress = Progress::new(
        &seen.summary.spec,
        seen.summary.search_counts(),
        seen.elapsed(now),
        seen.used.device_time(now),
    );
    let low = area.height < 4;
    let first = two_sided(name(seen, theme), state_word(state, theme), area, theme);
    let lines = if low {
        let trials = trials(&progress);
        let room = usize::from(area.width).saturating_sub(width(&trials));
        vec![first, two_sided(best(seen, room, theme), trials, area, theme)]
    } else {
        let times = Line::from(times(seen, &progress, now, theme));
        let room = usize::from(area.width).saturating_sub(times.width());
        vec![
            first,
            two_sided(best(seen, room, theme), times, area, theme),
            two_sided(Vec::new(), trials(&progress), area, theme),
            counts_line(seen, &progress, area, theme),
            Line::from(screens(state, usize::from(area.width), theme)),
        ]
    };
    frame.render_widget(Paragraph::new(lines), area);
    if !low {
        draw_bar(frame, Rect { y: area.y + 2, height: 1, ..area }, &progress, theme);
    }
}

/// The lines of why a goal is not in force: on the screens of all trials and of the search.
fn goal_lines(state: &TuiState, room: u16) -> Vec<Line<'static>> {
    let is_shown = match state.screen {
        Screen::Trials => state.seen.together.is_none(),
        screen => screen == Screen::Search,
    };
    let why = state.seen.unmeasured.as_ref().filter(|_| is_shown);
    let line = why.map(|why| Line::raw(format!(" {}", one_line(&why.to_string()))));
    wrapped(line.into_iter().collect(), usize::from(room))
}

/// How many lines that needs.
pub fn goal_height(state: &TuiState, room: u16, is_low: bool) -> u16 {
    let most = if is_low { 1 } else { GOAL_LINES };
    u16::try_from(goal_lines(state, room).len()).unwrap_or(most).min(most)
}

/// Draws them.
pub fn draw_goal(frame: &mut Frame<'_>, area: Rect, state: &TuiState, theme: Theme) {
    let lines = goal_lines(state, area.width);
    frame.render_widget(Paragraph::new(lines).style(theme.warning()), area);
}

/// Spans at both sides of a line; the left ones are cut where they meet.
fn two_sided(
    left: Vec<Span<'static>>,
    right: impl Into<Line<'static>>,
    area: Rect,
    theme: Theme,
) -> Line<'static> {
    let room = usize::from(area.width);
    let right = right.into();
    let right_width = right.width();
    let mut spans = Vec::new();
    let mut used = 0;
    for span in left {
        let text = theme.shorten(&span.content, room.saturating_sub(right_width + used + 2));
        used += width(&text);
        spans.push(Span::styled(text, span.style));
    }
    spans.push(Span::raw(" ".repeat(room.saturating_sub(used + right_width + 1))));
    spans.extend(right);
    Line::from(spans)
}

fn name(seen: &Snapshot, theme: Theme) -> Vec<Span<'static>> {
    let goal = format!("  {}", goal(&seen.summary.spec));
    let mut spans = vec![
        Span::styled(format!(" {}", one_line(&seen.summary.spec.name)), theme.strong()),
        Span::styled(goal, theme.dim()),
    ];
    if let Some(together) = &seen.together {
        let others =
            format!("  one of {}; 1 lists all", study_count(together.studies.len() as u64));
        spans.push(Span::styled(others, theme.dim()));
    }
    let behind = seen.behind.iter().map(|Behind { destination, why }| {
        let text = format!("  {} is behind: {}", destination.tool.as_str(), one_line(why));
        Span::styled(text, theme.warning())
    });
    spans.extend(behind);
    spans
}

/// What is known of several studies together.
fn draw_several(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &TuiState,
    together: &Together,
    theme: Theme,
) {
    let counts = together.counts();
    let goal = match &together.objective {
        Some(objective) => {
            format!("  {} {}", objective.direction.as_str(), one_line(&objective.metric))
        }
        None if state.seen.table.has_metrics => {
            "  of several metrics: listed study by study".to_owned()
        }
        None => "  of several objectives: listed study by study".to_owned(),
    };
    let name = vec![
        Span::styled(format!(" {}", study_count(together.studies.len() as u64)), theme.strong()),
        Span::styled(goal, theme.dim()),
    ];
    let running = match together.running() {
        _ if state.is_removed => Span::styled("removed", theme.warning()),
        0 => Span::styled("none runs", theme.dim()),
        running => {
            Span::styled(format!("{running} running"), theme.study_state(StudyStatus::Running))
        }
    };
    let specs = together.studies.iter().map(|(study, _)| &study.spec);
    let best = match together.best() {
        Some((trial, value)) => vec![
            Span::raw(" best "),
            Span::styled(number(value), theme.good().patch(theme.strong())),
            Span::styled(format!("  {}", state.title_of(trial)), theme.dim()),
        ],
        None if together.objective.is_none() => {
            vec![Span::styled(" the best of each study stands out", theme.dim())]
        }
        None => vec![Span::styled(format!(" {}", no_best(counts, specs)), theme.dim())],
    };
    let trials = count(counts.total(), "trial");
    let first = two_sided(name, running, area, theme);
    let lines = if area.height < 4 {
        vec![first, two_sided(best, trials, area, theme)]
    } else {
        let key = state.list.trial().map(|trial| trial.study);
        let selected = key.and_then(|study| together.study(study));
        let selected = selected.map_or_else(String::new, |study| {
            format!(" screens 2 to 6 and commands apply to `{}`", one_line(&study.spec.name))
        });
        vec![
            first,
            two_sided(best, trials, area, theme),
            Line::styled(theme.shorten(&selected, usize::from(area.width)), theme.dim()),
            two_sided(state_counts(counts, None, theme), Vec::new(), area, theme),
            Line::from(screens(state, usize::from(area.width), theme)),
        ]
    };
    frame.render_widget(Paragraph::new(lines), area);
}

fn state_word(state: &TuiState, theme: Theme) -> Span<'static> {
    if state.is_removed {
        return Span::styled("removed", theme.warning());
    }
    let seen = &state.seen;
    if seen.summary.paused.is_some() && seen.state == StudyStatus::Running {
        let style = theme.trial_state(TrialState::Paused).patch(theme.strong());
        return Span::styled("paused, P continues", style);
    }
    Span::styled(seen.state.as_str(), theme.study_state(seen.state))
}

/// The best trial or the front. `room`: columns with the space at both ends.
fn best(seen: &Snapshot, room: usize, theme: Theme) -> Vec<Span<'static>> {
    match seen.summary.best {
        Some((trial, value)) => {
            let winner = seen.summary.race.as_ref().and_then(Race::winner);
            let half = winner.and_then(|winner| winner.statistics.half_width(CONFIDENCE));
            // How sure the mean of its fresh runs is: two that overlap are not told apart.
            let interval = half
                .map(|half| format!(" {} {} (95 %)", theme.either("±", "+-"), number(half)))
                .unwrap_or_default();
            vec![
                Span::raw(if winner.is_some() { " winner " } else { " best " }),
                Span::styled(number(value) + &interval, theme.good().patch(theme.strong())),
                Span::styled(format!("  trial {trial}"), theme.dim()),
            ]
        }
        None => match seen.summary.front.as_ref().filter(|front| !front.trials.is_empty()) {
            Some(front) => {
                let front = front_in_width(front, room.saturating_sub(3));
                vec![Span::styled(format!(" {front}"), theme.good())]
            }
            None => {
                vec![Span::styled(
                    format!(" {}", no_best(seen.summary.counts, [&seen.summary.spec])),
                    theme.dim(),
                )]
            }
        },
    }
}

fn times(seen: &Snapshot, progress: &Progress, now: Timestamp, theme: Theme) -> Vec<Span<'static>> {
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
    vec![Span::raw(rough_duration(progress.elapsed)), Span::styled(left, theme.dim())]
}

fn trials(progress: &Progress) -> String {
    progress.trials() + &progress.trials_left()
}

/// Trials by state, and how fast they come to their end where there is room for it.
fn counts_line(seen: &Snapshot, progress: &Progress, area: Rect, theme: Theme) -> Line<'static> {
    let (counts, rate) =
        (state_counts(seen.summary.counts, Some(seen.state), theme), rate(progress, theme));
    let needed: usize = counts.iter().chain(&rate).map(Span::width).sum();
    let rate = rate.filter(|_| needed + 3 <= usize::from(area.width)).unwrap_or_default();
    two_sided(counts, rate, area, theme)
}

/// How fast trials come to their end.
fn rate(progress: &Progress, theme: Theme) -> Option<Span<'static>> {
    if progress.done == 0 || progress.elapsed.is_zero() {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate with three digits")]
    let per_minute = progress.done as f64 / progress.elapsed.as_secs_f64() * 60.0;
    let text = match per_minute {
        rate if rate >= 120.0 => format!("{:.1} trials/s", rate / 60.0),
        rate if rate >= 1.0 => format!("{rate:.1} trials/min"),
        rate if rate * 60.0 >= 1.0 => format!("{:.1} trials/h", rate * 60.0),
        rate => format!("{:.1} trials/day", rate * 60.0 * 24.0),
    };
    Some(Span::styled(text, theme.dim()))
}

/// The number of trials by state; those that a dead runner left running were interrupted.
fn state_counts(mut counts: Counts, of: Option<StudyStatus>, theme: Theme) -> Vec<Span<'static>> {
    let span = |state: TrialState| {
        let trials = *counts.of(state);
        let style = if trials == 0 { theme.dim() } else { theme.trial_state(state) };
        let word = match (state, of) {
            (TrialState::Running, Some(StudyStatus::Interrupted)) => "interrupted",
            (state, _) => state.as_str(),
        };
        Span::styled(format!(" {trials} {word} "), style)
    };
    TrialState::ALL.map(span).to_vec()
}

/// The screens with their keys; the one that is shown stands out.
fn screens(state: &TuiState, room: usize, theme: Theme) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let mut used = 0;
    for (index, screen) in (1..).zip(Screen::ALL) {
        let about = match (screen, state.opened) {
            (Screen::Trial, Some(trial)) if screen == state.screen => format!(" {}", trial.number),
            (Screen::Compare, _) if !state.marked.is_empty() => format!(" {}", state.marked.len()),
            _ => String::new(),
        };
        let text = format!(" {index} {}{about} ", screen.name());
        used += width(&text) + 1;
        if used > room {
            break;
        }
        let style = if screen == state.screen {
            theme.strong().patch(theme.selected())
        } else {
            theme.dim()
        };
        spans.extend([Span::styled(text, style), Span::raw(" ")]);
    }
    spans
}

/// The bar between the left edge and the number of trials; nothing without a limit.
fn draw_bar(frame: &mut Frame<'_>, area: Rect, progress: &Progress, theme: Theme) {
    let Some(fraction) = progress.fraction else {
        return;
    };
    let room = usize::from(area.width).saturating_sub(width(&trials(progress)) + 4);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a screen's width"
    )]
    let filled = ((room as f64 * fraction) as usize).min(room);
    let line = Line::from(vec![
        Span::raw(" "),
        Span::styled(theme.either("━", "#").repeat(filled), theme.good()),
        Span::styled(theme.either("─", "-").repeat(room - filled), theme.dim()),
    ]);
    let area = Rect { width: area.width.min(u16::try_from(room + 1).unwrap_or(u16::MAX)), ..area };
    frame.render_widget(line, area);
}
