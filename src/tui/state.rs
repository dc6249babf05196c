//! What the person at the leaderboard has chosen, and how keys change it: a pure state machine.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::keys::{Action, action};
use super::{TuiExit, TuiMode};
use crate::event::Request;
use crate::storage::TrialOrder;
use crate::trial::{TrialNumber, TrialState};

/// What fills the screen under the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// The table of trials.
    Leaderboard,
    /// One trial, scrolled down by so many lines.
    Detail {
        /// Which.
        trial: TrialNumber,
        /// Lines above the screen.
        scroll: u16,
    },
}

/// A question that waits for `y` or `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Stop the study, and leave when it has stopped?
    StopAndLeave,
    /// Stop the study?
    Stop,
    /// Kill this trial?
    Kill(TrialNumber),
}

/// What a key asks of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Nothing: the key has no meaning here.
    Ignore,
    /// Draw again from what is loaded.
    Redraw,
    /// Load the rows that are now visible, and draw.
    Reload,
    /// Put a request to the runner into the store.
    Ask(Request),
    /// Leave the screen.
    Leave(TuiExit),
}

/// Whether the study still runs, as far as this screen is concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Course {
    /// It may go on.
    #[default]
    Open,
    /// It was asked to stop from here.
    Stopping,
    /// It is over, for this reason.
    Over(String),
}

/// How the selected row is kept when trials change places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The first row, whichever trial is there.
    First,
    /// The trial that will be found on the selected row when it is loaded.
    Take,
    /// This trial, wherever it is on the page.
    Follow(TrialNumber),
}

/// The choices of the person at the screen.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Who runs the study.
    pub mode: TuiMode,
    /// How trials are listed.
    pub order: TrialOrder,
    /// What fills the screen.
    pub pane: Pane,
    /// Whether the keys are shown over it.
    pub help: bool,
    /// What is asked.
    pub question: Option<Question>,
    /// The last thing worth a word: a request that was sent, a store that could not be read.
    pub notice: Option<String>,
    /// Whether the study still runs.
    pub course: Course,
    /// The selected row, from 0.
    pub selected: u64,
    /// The first visible row.
    pub offset: u64,
    /// How the selection is kept.
    pub selection: Selection,
    leave_when_over: bool,
    page: u64,
    total: u64,
    visible: Vec<(TrialNumber, TrialState)>,
}

impl State {
    /// Nothing chosen yet: best trials first, the first row selected.
    pub fn new(mode: TuiMode) -> Self {
        State {
            mode,
            order: TrialOrder::Value,
            pane: Pane::Leaderboard,
            help: false,
            question: None,
            notice: None,
            course: Course::Open,
            selected: 0,
            offset: 0,
            selection: Selection::First,
            leave_when_over: false,
            page: 1,
            total: 0,
            visible: Vec::new(),
        }
    }

    /// How many rows are visible.
    pub fn page(&self) -> u64 {
        self.page
    }

    /// The screen now holds `rows` rows: the selected one stays among them.
    pub fn resize(&mut self, rows: u64) {
        self.page = rows.max(1);
        self.keep_visible();
    }

    /// There are `total` trials: the selected row is one of them.
    pub fn total_is(&mut self, total: u64) {
        self.total = total;
        self.keep_visible();
    }

    /// `visible` are the trials from `offset` on: the selection follows its trial.
    pub fn loaded(&mut self, visible: Vec<(TrialNumber, TrialState)>) {
        self.visible = visible;
        if let Selection::Follow(trial) = self.selection {
            match self.visible.iter().position(|(number, _)| *number == trial) {
                Some(row) => self.selected = self.offset + u64::try_from(row).unwrap_or(0),
                // It left the page: the row is kept, with the trial that is there now.
                None => self.selection = Selection::Take,
            }
        }
        if let (Selection::Take, Some(trial)) = (self.selection, self.selected_trial()) {
            self.selection = Selection::Follow(trial);
        }
    }

    /// The selected trial, if there is one.
    pub fn selected_trial(&self) -> Option<TrialNumber> {
        let row = usize::try_from(self.selected.checked_sub(self.offset)?).ok()?;
        self.visible.get(row).map(|(number, _)| *number)
    }

    /// The study is over; the answer says whether to leave at once, because that was asked for.
    pub fn over(&mut self, reason: String) -> Command {
        self.course = Course::Over(reason);
        // A question about stopping or killing has lost its object.
        self.question = None;
        if self.leave_when_over { Command::Leave(TuiExit::Left) } else { Command::Redraw }
    }

    /// Takes a key in.
    pub fn press(&mut self, key: KeyEvent) -> Command {
        let action = action(key);
        if action == Some(Action::Interrupt) {
            return self.interrupt();
        }
        if let Some(question) = self.question {
            return self.answer(question, key.code);
        }
        if self.help {
            self.help = false;
            return Command::Redraw;
        }
        let Some(action) = action else {
            return Command::Ignore;
        };
        self.notice = None;
        match (action, self.pane) {
            (Action::Quit, _) => self.quit(),
            (Action::Help, _) => {
                self.help = true;
                Command::Redraw
            }
            (Action::Stop, _) => self.ask_to_stop(),
            (Action::Kill, Pane::Leaderboard) => self.ask_to_kill(self.selected_trial()),
            (Action::Kill, Pane::Detail { trial, .. }) => self.ask_to_kill(Some(trial)),
            (action, Pane::Leaderboard) => self.move_in_leaderboard(action),
            (action, Pane::Detail { trial, scroll }) => self.move_in_detail(action, trial, scroll),
        }
    }

    fn interrupt(&mut self) -> Command {
        match (self.mode, &self.course) {
            (TuiMode::Watching, _) | (_, Course::Over(_)) => Command::Leave(TuiExit::Left),
            (TuiMode::Embedded, Course::Open) => self.stop(Question::StopAndLeave),
            (TuiMode::Embedded, Course::Stopping) => Command::Leave(TuiExit::KillNow),
        }
    }

    fn quit(&mut self) -> Command {
        match (self.mode, &self.course) {
            (TuiMode::Watching, _) | (_, Course::Over(_)) => Command::Leave(TuiExit::Left),
            (TuiMode::Embedded, Course::Stopping) => {
                self.leave_when_over = true;
                self.note("leaving as soon as the running trials have saved a checkpoint; Ctrl-C kills them")
            }
            (TuiMode::Embedded, Course::Open) => {
                self.question = Some(Question::StopAndLeave);
                Command::Redraw
            }
        }
    }

    fn ask_to_stop(&mut self) -> Command {
        match self.course {
            Course::Open => {
                self.question = Some(Question::Stop);
                Command::Redraw
            }
            Course::Stopping => self.note("the study is stopping already"),
            Course::Over(_) => self.note("the study is over"),
        }
    }

    fn ask_to_kill(&mut self, trial: Option<TrialNumber>) -> Command {
        let ended = self.visible.iter().find(|(number, state)| Some(*number) == trial && state.is_finished()).copied();
        match (&self.course, trial, ended) {
            (Course::Over(_), ..) => self.note("the study is over: no trial is running"),
            (_, None, _) => self.note("there is no trial to kill"),
            (_, _, Some((trial, state))) => self.note(&format!("trial {trial} is {} already", state.as_str())),
            (_, Some(trial), None) => {
                self.question = Some(Question::Kill(trial));
                Command::Redraw
            }
        }
    }

    fn answer(&mut self, question: Question, key: KeyCode) -> Command {
        match key {
            KeyCode::Char('y' | 'Y') => {
                self.question = None;
                match question {
                    Question::Stop | Question::StopAndLeave => self.stop(question),
                    Question::Kill(trial) => {
                        self.notice = Some(format!("asked for trial {trial} to be killed"));
                        Command::Ask(Request::Kill { trial })
                    }
                }
            }
            KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc | KeyCode::Enter => {
                self.question = None;
                Command::Redraw
            }
            _ => Command::Ignore,
        }
    }

    fn stop(&mut self, question: Question) -> Command {
        self.question = None;
        self.course = Course::Stopping;
        self.leave_when_over |= question == Question::StopAndLeave;
        self.notice = Some("stopping: running trials save a checkpoint and leave".to_owned());
        Command::Ask(Request::Stop)
    }

    fn note(&mut self, notice: &str) -> Command {
        self.notice = Some(notice.to_owned());
        Command::Redraw
    }

    fn move_in_leaderboard(&mut self, action: Action) -> Command {
        let last = self.total.saturating_sub(1);
        let selected = match action {
            Action::Up => self.selected.saturating_sub(1),
            Action::Down => self.selected + 1,
            Action::PageUp => self.selected.saturating_sub(self.page),
            Action::PageDown => self.selected + self.page,
            Action::First => 0,
            Action::Last => last,
            Action::Order => return self.turn_order(),
            Action::Open => return self.open(),
            _ => return Command::Ignore,
        };
        self.selected = selected.min(last);
        let before = self.offset;
        self.keep_visible();
        let scrolled = self.offset != before;
        self.selection = match (action, self.selected_trial()) {
            (Action::First, _) => Selection::First,
            (_, Some(trial)) if !scrolled => Selection::Follow(trial),
            _ => Selection::Take,
        };
        if scrolled { Command::Reload } else { Command::Redraw }
    }

    fn turn_order(&mut self) -> Command {
        self.order = match self.order {
            TrialOrder::Value => TrialOrder::Number,
            TrialOrder::Number => TrialOrder::Value,
        };
        (self.selected, self.offset, self.selection) = (0, 0, Selection::First);
        Command::Reload
    }

    fn open(&mut self) -> Command {
        let Some(trial) = self.selected_trial() else {
            return Command::Ignore;
        };
        self.pane = Pane::Detail { trial, scroll: 0 };
        Command::Reload
    }

    fn move_in_detail(&mut self, action: Action, trial: TrialNumber, scroll: u16) -> Command {
        let page = u16::try_from(self.page).unwrap_or(u16::MAX);
        let scroll = match action {
            Action::Up => scroll.saturating_sub(1),
            Action::Down => scroll.saturating_add(1),
            Action::PageUp => scroll.saturating_sub(page),
            Action::PageDown => scroll.saturating_add(page),
            Action::First => 0,
            Action::Last => u16::MAX,
            Action::Back | Action::Open => {
                self.pane = Pane::Leaderboard;
                return Command::Reload;
            }
            _ => return Command::Ignore,
        };
        self.pane = Pane::Detail { trial, scroll };
        Command::Redraw
    }

    /// The detail pane has no more than `most` lines above the screen.
    pub fn limit_scroll(&mut self, most: u16) {
        if let Pane::Detail { scroll, .. } = &mut self.pane {
            *scroll = (*scroll).min(most);
        }
    }

    fn keep_visible(&mut self) {
        self.selected = self.selected.min(self.total.saturating_sub(1));
        self.offset = self.offset.min(self.selected).max((self.selected + 1).saturating_sub(self.page));
        // No empty rows at the bottom while there are trials above.
        self.offset = self.offset.min(self.total.saturating_sub(self.page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyModifiers;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    fn ctrl_c() -> KeyEvent {
        KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)
    }

    fn running(numbers: impl Iterator<Item = u64>) -> Vec<(TrialNumber, TrialState)> {
        numbers.map(|number| (TrialNumber(number), TrialState::Running)).collect()
    }

    #[test]
    fn a_trial_that_has_ended_is_not_killed_again() {
        let mut state = state(TuiMode::Watching);
        state.loaded(vec![(TrialNumber(0), TrialState::Complete)]);
        state.press(key(KeyCode::Char('k')));
        assert_eq!((state.question, state.notice.as_deref()), (None, Some("trial 0 is complete already")));
    }

    /// A state with 100 trials, of which the first ten (number = row) are visible.
    fn state(mode: TuiMode) -> State {
        let mut state = State::new(mode);
        state.resize(10);
        state.total_is(100);
        state.loaded(running(0..10));
        state
    }

    #[test]
    fn quitting_an_embedded_study_asks_stops_it_and_leaves_when_it_is_over() {
        let mut state = state(TuiMode::Embedded);
        assert_eq!(state.press(key(KeyCode::Char('q'))), Command::Redraw);
        assert_eq!(state.question, Some(Question::StopAndLeave));
        assert_eq!(state.press(key(KeyCode::Char('y'))), Command::Ask(Request::Stop));
        assert_eq!(state.over("stopped".into()), Command::Leave(TuiExit::Left));
    }

    #[test]
    fn a_question_answered_no_changes_nothing() {
        let mut asked = state(TuiMode::Embedded);
        asked.press(key(KeyCode::Char('s')));
        asked.press(key(KeyCode::Char('n')));
        assert_eq!(asked, state(TuiMode::Embedded));
    }

    #[test]
    fn a_watcher_just_leaves() {
        for leave in [key(KeyCode::Char('q')), ctrl_c()] {
            assert_eq!(state(TuiMode::Watching).press(leave), Command::Leave(TuiExit::Left));
        }
    }

    #[test]
    fn a_second_interrupt_kills() {
        let mut state = state(TuiMode::Embedded);
        assert_eq!(state.press(ctrl_c()), Command::Ask(Request::Stop));
        assert_eq!(state.press(ctrl_c()), Command::Leave(TuiExit::KillNow));
    }

    #[test]
    fn a_study_stopped_by_s_stays_on_the_screen_when_it_is_over() {
        let mut state = state(TuiMode::Embedded);
        state.press(key(KeyCode::Char('s')));
        assert_eq!(state.press(key(KeyCode::Char('y'))), Command::Ask(Request::Stop));
        assert_eq!(state.over("stopped".into()), Command::Redraw);
        assert_eq!(state.press(key(KeyCode::Char('q'))), Command::Leave(TuiExit::Left));
    }

    #[test]
    fn the_trial_that_was_selected_when_k_was_pressed_is_killed() {
        let mut state = state(TuiMode::Watching);
        state.press(key(KeyCode::Down));
        state.press(key(KeyCode::Char('k')));
        state.loaded(running((0..10).rev()));
        assert_eq!(state.press(key(KeyCode::Char('y'))), Command::Ask(Request::Kill { trial: TrialNumber(1) }));
    }

    #[test]
    fn the_selection_follows_its_trial_and_the_first_row_stays_first() {
        let mut untouched = state(TuiMode::Watching);
        untouched.loaded(running((0..10).rev()));
        assert_eq!(untouched.selected_trial(), Some(TrialNumber(9)));
        let mut moved = state(TuiMode::Watching);
        moved.press(key(KeyCode::Down));
        moved.loaded(running((0..10).rev()));
        assert_eq!((moved.selected, moved.selected_trial()), (8, Some(TrialNumber(1))));
    }

    #[test]
    fn moving_past_the_page_scrolls_and_stops_at_the_ends() {
        let mut state = state(TuiMode::Watching);
        assert_eq!(state.press(key(KeyCode::PageDown)), Command::Reload);
        assert_eq!((state.selected, state.offset), (10, 1));
        state.press(key(KeyCode::End));
        assert_eq!((state.selected, state.offset), (99, 90));
        state.press(key(KeyCode::Down));
        assert_eq!((state.selected, state.offset), (99, 90));
        state.press(key(KeyCode::Home));
        assert_eq!((state.selected, state.offset), (0, 0));
    }

    #[test]
    fn a_taller_screen_shows_no_empty_rows_while_there_are_trials_above() {
        let mut state = state(TuiMode::Watching);
        state.press(key(KeyCode::End));
        state.resize(40);
        assert_eq!((state.selected, state.offset), (99, 60));
    }

    #[test]
    fn enter_opens_the_selected_trial_and_closes_it_again() {
        let mut state = state(TuiMode::Watching);
        state.press(key(KeyCode::Down));
        assert_eq!(state.press(key(KeyCode::Enter)), Command::Reload);
        assert_eq!(state.pane, Pane::Detail { trial: TrialNumber(1), scroll: 0 });
        state.press(key(KeyCode::End));
        state.limit_scroll(3);
        assert_eq!(state.pane, Pane::Detail { trial: TrialNumber(1), scroll: 3 });
        state.press(key(KeyCode::Enter));
        assert_eq!(state.pane, Pane::Leaderboard);
    }

    #[test]
    fn keys_on_an_empty_study_do_no_harm() {
        let mut state = State::new(TuiMode::Watching);
        for code in [KeyCode::Up, KeyCode::Down, KeyCode::PageDown, KeyCode::End, KeyCode::Enter, KeyCode::Char('k'), KeyCode::Char('o')] {
            state.press(key(code));
        }
        assert_eq!((state.selected, state.question), (0, None));
    }
}
