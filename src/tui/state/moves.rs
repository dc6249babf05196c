//! Keys of the screens themselves: the selection, scrolling, a trial's log, the views of the
//! search.

use super::{Command, TrialView, TuiState};
use crate::study::query::Filter;
use crate::tui::keys::{Action, Screen};
use crate::tui::list::Movement;
use crate::tui::picker::Choosing;
use crate::tui::search::SearchView;
use crate::tui::trial_key::TrialKey;

impl TuiState {
    pub(super) fn act_on_trials(&mut self, action: Action) -> Command {
        match action {
            Action::Open => match self.list.trial() {
                Some(trial) => self.open(trial),
                None => return Command::Ignore,
            },
            Action::Back if self.filter.is_all() => return Command::Ignore,
            Action::Back => self.set_filter(Filter::all()),
            Action::Sort => self.pick(Choosing::Sort),
            Action::Columns => self.pick(Choosing::Columns),
            Action::Reverse => return self.set_sort(self.sort.clone(), !self.reverse),
            Action::SortLeft => return self.sort_beside(false),
            Action::SortRight => return self.sort_beside(true),
            Action::Left => self.columns_left = self.columns_left.saturating_sub(1),
            Action::Right => self.columns_left += 1,
            Action::Move(movement) => {
                self.list.go(movement);
                // Another trial is opened next.
                self.opened = None;
            }
            _ => return Command::Ignore,
        }
        Command::Redraw
    }

    pub(super) fn open(&mut self, trial: TrialKey) {
        self.opened = Some(trial);
        self.screen = Screen::Trial;
        self.trial = TrialView { metric: self.trial.metric.take(), ..TrialView::default() };
    }

    pub(super) fn act_on_trial(&mut self, action: Action) -> Command {
        match action {
            Action::Back if !self.trial.text.is_empty() => self.trial.text.clear(),
            Action::Back if self.trial.log => self.trial.log = false,
            Action::Back => self.screen = Screen::Trials,
            Action::Left | Action::Right => {
                self.list.go(Movement::By(if action == Action::Right { 1 } else { -1 }));
                if let Some(trial) = self.list.trial() {
                    let log = self.trial.log;
                    self.open(trial);
                    self.trial.log = log;
                }
            }
            Action::Metric => {
                if let Some(detail) = self.seen.detail.clone() {
                    self.next_metric(
                        &detail
                            .metrics
                            .iter()
                            .map(|(name, _)| name)
                            .chain(detail.logged.iter().map(|curve| &curve.name))
                            .collect::<Vec<_>>(),
                    );
                }
            }
            Action::Output => self.trial.log = !self.trial.log,
            Action::NextMatch | Action::PreviousMatch => {
                return self.next_match(action == Action::NextMatch);
            }
            Action::Move(movement) if self.trial.log => {
                self.trial.log_below = self.scrolled(movement.reversed(), self.trial.log_below);
            }
            Action::Move(movement) => {
                self.trial.scroll = self.scrolled(movement, self.trial.scroll)
            }
            _ => return Command::Ignore,
        }
        Command::Redraw
    }

    /// To the next of these metrics, in a circle.
    fn next_metric(&mut self, names: &[&String]) {
        let objective = &self.spec().objective().metric;
        let current = self.trial.metric.as_ref().unwrap_or(objective);
        let at = names.iter().position(|name| *name == current);
        let next = names.get(at.map_or(0, |at| (at + 1) % names.len()));
        self.trial.metric = next.filter(|name| **name != objective).map(|name| (*name).clone());
    }

    /// To the next place found in the log; the log then fills the screen, and stands there.
    pub(super) fn next_match(&mut self, down: bool) -> Command {
        let Some(log) = &self.seen.log else {
            return Command::Ignore;
        };
        let found = log.matches(&self.trial.text);
        if found.is_empty() {
            return match self.trial.text.is_empty() {
                true => self.note("`/` searches the log"),
                false => self.note(format!(
                    "`{}` is not in the end of the log that is loaded",
                    self.trial.text
                )),
            };
        }
        // Counted from the end, where the log begins to be read.
        let last = found.len() - 1;
        self.trial.found = match down {
            true => self.trial.found.checked_sub(1).unwrap_or(last),
            false if self.trial.found < last => self.trial.found + 1,
            false => 0,
        };
        let line = found[last - self.trial.found.min(last)];
        self.trial.log_below = log.lines.len().saturating_sub(line + 1 + self.list.page() / 2);
        self.trial.log = true;
        let place = found.len() - self.trial.found;
        self.note(format!("{place} of {} lines with `{}`", found.len(), self.trial.text))
    }

    pub(super) fn act_on_events(&mut self, action: Action) -> Command {
        match action {
            Action::Back if !self.journal.text.is_empty() => self.journal.text.clear(),
            Action::Back => self.screen = Screen::Trials,
            Action::Reports => self.journal.reports = !self.journal.reports,
            Action::Move(movement) => {
                self.journal.below = self.scrolled(movement.reversed(), self.journal.below);
            }
            _ => return Command::Ignore,
        }
        Command::Redraw
    }

    pub(super) fn act_elsewhere(&mut self, action: Action) -> Command {
        match action {
            Action::Back => self.go(Screen::Trials),
            Action::View | Action::Right => self.turn_view(1),
            Action::Left => self.turn_view(SearchView::ALL.len() - 1),
            Action::Metric => {
                let metrics = self.seen.names.metrics.clone();
                self.next_metric(&metrics.iter().collect::<Vec<_>>());
            }
            Action::Move(movement) => self.scroll = self.scrolled(movement, self.scroll),
            _ => return Command::Ignore,
        }
        Command::Redraw
    }

    fn turn_view(&mut self, steps: usize) {
        self.search = self.search.after(steps);
        self.scroll = 0;
    }

    /// Lines above, or below, the screen after a movement; what is too much is taken off where the
    /// lines are counted.
    fn scrolled(&self, movement: Movement, lines: usize) -> usize {
        movement.applied(lines, self.list.page(), usize::MAX)
    }
}
