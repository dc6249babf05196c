//! What the person at the screens has chosen, and how keys change it: a pure state machine.

mod budget_line;
mod columns;
mod controls;
mod device_controls;
mod moves;
mod prompt;
#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::columns::TableSettings;
use super::form::{Filled, Form};
use super::journal::JournalView;
use super::keys::{Action, Screen, action};
use super::list::List;
use super::picker::Picker;
use super::picture::{PictureRequest, Subject};
use super::search::SearchView;
use super::snapshot::{ScreenData, Snapshot, SnapshotRequest};
use super::trial_key::TrialKey;
use super::{Detach, TuiExit, TuiMode};
use crate::report::wording::{StudyStatus, one_line};
use crate::storage::{StorageError, StudyId, StudySummary};
use crate::study::params::Params;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::request::Request;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};
pub use prompt::{Prompt, Purpose};

/// A question that waits for `y` or `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Stop the study, and leave when it has stopped? Or let it continue without its screen?
    StopAndLeave,
    /// Stop the study?
    Stop,
    /// Kill this trial?
    Kill(TrialNumber),
    /// Try all failed trials again, so many?
    RetryFailed(u64),
    /// Run the configuration that this trial has once more?
    RunOnceMore(TrialNumber),
}

/// What lies over the screen and takes the keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Overlay {
    /// The keys, scrolled down by so many lines.
    Help(usize),
    /// A question.
    Confirmation(Confirmation),
    /// A line to be typed.
    Prompt(Prompt),
    /// A list to choose from.
    Picker(Picker),
    /// The form for a new configuration.
    Form(Form),
}

/// What a key asks of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Nothing: the key has no meaning here.
    Ignore,
    /// Draw again.
    Redraw,
    /// Draw again, every cell.
    Refresh,
    /// Put a request to the runner into the store.
    Ask(Request),
    /// Have a configuration run that was tried already.
    Repeat(Params),
    /// Put a text into the clipboard.
    Copy(String),
    /// Keep the settings for the next session.
    Keep,
    /// Back to the shell, for a while.
    Suspend,
    /// Leave the screens.
    Leave(TuiExit),
}

/// Whether the study still runs, as far as these screens are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RunPhase {
    /// It may continue.
    #[default]
    Open,
    /// It was asked to stop from here.
    Stopping,
    /// It is over, for this reason.
    Over(String),
}

/// How a scrolled text stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialView {
    /// Lines above the screen.
    pub scroll: usize,
    /// The metric whose curve is shown; `None`: the study's.
    pub metric: Option<String>,
    /// Whether the log fills the screen.
    pub log: bool,
    /// Lines of the log below the screen; 0 follows.
    pub log_below: usize,
    /// What is searched for in the log.
    pub text: String,
    /// Which of the lines found is looked at, from the last one.
    pub found: usize,
}

/// The settings of the person at the screens, and what they see.
#[derive(Clone, Debug)]
pub struct TuiState {
    /// Who runs the study.
    pub mode: TuiMode,
    /// Whether an embedded run can be detached.
    pub detach: Detach,
    /// What was loaded last.
    pub seen: Snapshot,
    /// What fills the screen.
    pub screen: Screen,
    /// What lies over it.
    pub overlay: Option<Overlay>,
    /// The last thing worth a word: a request that was sent, a store that could not be read.
    pub notice: Option<String>,
    /// Whether the study still runs.
    pub phase: RunPhase,
    /// Whether it was removed from the store after `seen` was read.
    pub is_removed: bool,
    /// The table's selection.
    pub list: List,
    /// Which trials are listed.
    pub filter: Filter,
    /// What they are sorted by.
    pub sort: SortKey,
    /// Whether the order is turned round.
    pub reverse: bool,
    /// Columns and order, as they are kept.
    pub settings: TableSettings,
    /// Columns scrolled out at the left.
    pub columns_left: usize,
    /// Marked trials, in the order of marking.
    pub marked: Vec<TrialKey>,
    /// The trial on its own screen.
    pub opened: Option<TrialKey>,
    /// How it is looked at.
    pub trial: TrialView,
    /// How the journal is looked at.
    pub journal: JournalView,
    /// What of the search is shown.
    pub search: SearchView,
    /// How far the screen that the loader draws is scrolled.
    pub scroll: usize,
    /// Columns and rows under the header.
    pub body: (u16, u16),
    /// Whether the selected trial is shown below the table, on screens that have room.
    pub preview: bool,
    /// The zone of the times of day.
    pub zone: TimeZone,
    /// The study that requests go to, and that all screens but the table are about: that of the
    /// trial that was selected or opened last.
    focus: StudyId,
    leave_when_over: bool,
    /// Requests that wait for their answers.
    asked: Vec<(StudyId, i64)>,
    /// Whether something was asked of the study after its run was over.
    asked_for_more: bool,
    /// The configuration that may be run once more.
    repeated: Option<Params>,
}

/// Among so many of the last entries of the journal an answer is looked for.
const RECENT: usize = 2_000;

impl TuiState {
    /// Nothing chosen yet but what was kept: best trials first, the first row selected.
    pub fn new(mode: TuiMode, seen: Snapshot, settings: TableSettings) -> Self {
        let parse = |word: &String| {
            let mut specs = seen.studies().into_iter().map(|study| &study.spec);
            specs.find_map(|spec| SortKey::parse_with(word, spec, &seen.names).ok())
        };
        let (sort, reverse) = settings.sort.as_ref().and_then(parse).unwrap_or_default();
        let mut state = TuiState {
            mode,
            detach: Detach::Impossible,
            screen: Screen::Trials,
            overlay: None,
            notice: None,
            phase: RunPhase::Open,
            is_removed: false,
            list: List::default(),
            filter: Filter::all(),
            sort,
            reverse,
            settings,
            columns_left: 0,
            marked: Vec::new(),
            opened: None,
            trial: TrialView::default(),
            journal: JournalView::default(),
            search: SearchView::default(),
            scroll: 0,
            body: (0, 0),
            preview: false,
            zone: TimeZone::UTC,
            focus: seen.summary.id,
            leave_when_over: false,
            asked: Vec::new(),
            asked_for_more: false,
            repeated: None,
            seen: seen.clone(),
        };
        state.see(seen);
        state
    }

    /// The study that everything but the table is about.
    pub fn summary(&self) -> &StudySummary {
        self.seen.study(self.focus).unwrap_or(&self.seen.summary)
    }

    /// The same as it is stored.
    pub fn spec(&self) -> &StudySpec {
        &self.summary().spec
    }

    /// The study that requests go to.
    pub fn focus(&self) -> StudyId {
        self.focus
    }

    /// What a trial is called where those of several studies are listed: `sms/7`, else `trial 7`.
    pub fn title_of(&self, trial: TrialKey) -> String {
        match self.seen.together.as_ref().and_then(|together| together.study(trial.study)) {
            Some(study) => format!("{}/{}", one_line(&study.spec.name), trial.number),
            None => format!("trial {}", trial.number),
        }
    }

    /// The study of the selected or the opened trial is looked at; but a question or a line that is
    /// typed is about the one for which it was opened.
    fn follow(&mut self) {
        let key = match self.screen {
            _ if self.overlay.is_some() => None,
            Screen::Trials => self.list.trial(),
            Screen::Trial => self.opened,
            _ => None,
        };
        let study = key.map_or(self.focus, |key| key.study);
        if study != self.focus {
            self.focus = study;
            self.phase = RunPhase::Open;
            self.scroll = 0;
        }
    }

    /// What has to be loaded for what is to be seen.
    pub fn wanted(&self) -> SnapshotRequest {
        let (offset, limit) = self.list.window();
        let query = TrialQuery {
            filter: self.filter.clone(),
            sort: self.sort.clone(),
            reverse: self.reverse,
            offset,
            limit,
        };
        let metric = || self.trial.metric.clone();
        let of_trial = |key: TrialKey, log| match key.study == self.focus {
            true => ScreenData::Trial { trial: key.number, metric: metric(), log },
            false => ScreenData::Nothing,
        };
        let part = match self.screen {
            Screen::Trials => self
                .list
                .trial()
                .filter(|_| self.preview)
                .map_or(ScreenData::Nothing, |trial| of_trial(trial, false)),
            Screen::Trial => self.opened.map_or(ScreenData::Nothing, |trial| of_trial(trial, true)),
            Screen::Compare => {
                self.picture(Subject::Compare { trials: self.compared(), metric: metric() })
            }
            Screen::Search => self.picture(Subject::Search(self.search)),
            Screen::Devices => self.picture(Subject::Devices),
            Screen::Events => ScreenData::Nothing,
        };
        let awaits = self.asked.iter().any(|(study, _)| *study == self.focus);
        let journal = self.screen == Screen::Events || awaits;
        SnapshotRequest { study: self.focus, query, part, journal }
    }

    fn picture(&self, subject: Subject) -> ScreenData {
        ScreenData::Picture(PictureRequest { subject, size: self.body, scroll: self.scroll })
    }

    /// The marked trials; without marks the best one beside the selected one, or beside the next.
    pub fn compared(&self) -> Vec<TrialKey> {
        if !self.marked.is_empty() {
            return self.marked.clone();
        }
        let best = self.best();
        let selected = self.opened.or_else(|| self.list.trial()).into_iter();
        let other = selected
            .chain(self.seen.page.rows.iter().map(|row| row.key))
            .find(|trial| Some(*trial) != best);
        best.into_iter().chain(other).collect()
    }

    /// The best trial of all studies where their values compare, else of the one that is looked at.
    fn best(&self) -> Option<TrialKey> {
        let of_all = self.seen.together.as_ref().and_then(|together| together.best());
        let own = self.summary().best_trial().map(|number| TrialKey { study: self.focus, number });
        of_all.map(|(best, _)| best).or(own)
    }

    /// Takes in what was loaded.
    pub fn see(&mut self, seen: Snapshot) {
        let query = &seen.wanted.query;
        // Rows of another list would be taken for those of this one.
        if (&query.filter, &query.sort, query.reverse) == (&self.filter, &self.sort, self.reverse) {
            let page = &seen.page;
            let keys = page.rows.iter().map(|row| row.key).collect();
            self.list.loaded(page.matching, page.first, keys);
        }
        if self.screen == Screen::Trial && self.opened.is_none() {
            self.opened = self.list.trial();
        }
        if let Some(picture) = &seen.picture
            && self.wanted().part == seen.wanted.part
        {
            // It was scrolled further than there is something to see.
            self.scroll = picture.request.scroll;
        }
        self.seen = seen;
        self.is_removed = false;
        self.follow();
        self.hear_answers();
    }

    /// A request was put into the store under this key: what becomes of it is worth a word.
    pub fn asked(&mut self, id: i64) {
        self.asked.push((self.focus, id));
        self.asked_for_more |= matches!(self.phase, RunPhase::Over(_));
    }

    /// Whether the run of this process was over, and what was asked of the study since then has
    /// opened it again.
    pub fn is_to_run_again(&self) -> bool {
        let is_over = self.mode == TuiMode::Embedded && matches!(self.phase, RunPhase::Over(_));
        is_over
            && self.asked_for_more
            && self.asked.is_empty()
            && self.seen.summary.finished.is_none()
    }

    fn hear_answers(&mut self) {
        // Answers are the newest of what is there.
        for entry in self.seen.journal.entries.iter().rev().take(RECENT) {
            if let Some(at) =
                entry.request.and_then(|id| self.asked.iter().position(|(_, asked)| *asked == id))
            {
                self.asked.remove(at);
                // Where nobody runs the study, the answer is about what comes when somebody does.
                let is_at_rest =
                    self.mode == TuiMode::Watching && self.seen.state == StudyStatus::Stopped;
                self.notice = Some(if is_at_rest {
                    format!("`hpsearch run STUDY.toml` continues: {}", entry.text)
                } else {
                    entry.text.clone()
                });
            }
        }
    }

    /// The study is no longer in the store; what was read of it stays on the screen, and nothing of
    /// it runs.
    pub fn lose(&mut self, now: Timestamp) {
        self.is_removed = true;
        self.seen.stand_still(now);
    }

    /// The study is over; the answer says whether to leave at once, because that was asked for.
    pub fn over(&mut self, reason: String) -> Command {
        self.phase = RunPhase::Over(reason);
        // A question about stopping or killing has lost its object.
        if matches!(self.overlay, Some(Overlay::Confirmation(_))) {
            self.overlay = None;
        }
        if self.leave_when_over { Command::Leave(TuiExit::Left) } else { Command::Redraw }
    }

    /// Takes pasted text in, where something is typed: elsewhere its letters would be taken for
    /// keys.
    pub fn paste(&mut self, text: &str) -> Command {
        match &mut self.overlay {
            Some(Overlay::Prompt(prompt)) => {
                prompt.line.paste(text);
                self.typed();
            }
            Some(Overlay::Form(form)) => form.paste(text),
            Some(Overlay::Picker(picker)) => picker.line.paste(text),
            _ => return Command::Ignore,
        }
        Command::Redraw
    }

    /// Takes a key in.
    pub fn press(&mut self, key: KeyEvent) -> Command {
        let command = self.pressed(key);
        // A request goes to the study that it was about.
        if !matches!(command, Command::Ask(_) | Command::Repeat(_)) {
            self.follow();
        }
        command
    }

    fn pressed(&mut self, key: KeyEvent) -> Command {
        let global = action(key, self.screen);
        match global {
            Some(Action::Interrupt) => return self.interrupt(),
            Some(Action::Suspend) => return Command::Suspend,
            _ => {}
        }
        match self.overlay.take() {
            None => {}
            Some(Overlay::Help(scroll)) => return self.press_in_help(global, scroll),
            Some(Overlay::Confirmation(question)) => return self.answer(question, key.code),
            Some(Overlay::Prompt(prompt)) => return self.press_in_prompt(prompt, key),
            Some(Overlay::Picker(picker)) => return self.press_in_picker(picker, key),
            Some(Overlay::Form(form)) => return self.press_in_form(form, key),
        }
        let Some(action) = global else {
            return Command::Ignore;
        };
        self.notice = None;
        self.act(action)
    }

    fn act(&mut self, action: Action) -> Command {
        if action.is_of_a_search() && self.spec().is_tracked() {
            let study = self.spec().name.clone();
            return self.note(StorageError::Tracked { study }.to_string());
        }
        match action {
            Action::Quit => return self.quit(),
            Action::Refresh => return Command::Refresh,
            Action::Help => self.overlay = Some(Overlay::Help(0)),
            Action::Go(screen) => self.go(screen),
            Action::NextScreen => self.go(self.screen.neighbour(true)),
            Action::PreviousScreen => self.go(self.screen.neighbour(false)),
            Action::Stop => return self.ask_to_stop(),
            Action::Kill => return self.ask_to_kill(),
            Action::Enqueue => return self.open_form(),
            Action::Note => return self.prompt_about_trial(Purpose::Note),
            Action::Tag => return self.prompt_about_trial(Purpose::Tag),
            Action::NoteStudy => return self.prompt(Purpose::Note, None, ""),
            Action::TagStudy => return self.prompt(Purpose::Tag, None, ""),
            Action::Extend => return self.prompt(Purpose::Extend, None, ""),
            Action::Continue => return self.continue_trial(),
            Action::Retry => return self.retry(),
            Action::PauseDevice => return self.pause_device(),
            Action::Slots => return self.ask_for_slots(),
            Action::PauseTrial => return self.pause_trial(),
            Action::PauseStudy => return self.pause_study(),
            Action::Copy => return self.copy(),
            Action::Mark => return self.mark(),
            Action::Unmark => self.marked.clear(),
            Action::Best => return self.select_best(),
            Action::Filter => self.open_prompt(),
            action => {
                return match self.screen {
                    Screen::Trials => self.act_on_trials(action),
                    Screen::Trial => self.act_on_trial(action),
                    Screen::Events => self.act_on_events(action),
                    Screen::Compare | Screen::Search | Screen::Devices => {
                        self.act_elsewhere(action)
                    }
                };
            }
        }
        Command::Redraw
    }

    fn go(&mut self, screen: Screen) {
        if screen != self.screen {
            self.scroll = 0;
        }
        self.screen = screen;
        // The trial that was looked at last, unless another is selected by now.
        if screen == Screen::Trial && self.opened.is_none() {
            self.opened = self.list.trial();
        }
    }

    fn note(&mut self, notice: impl Into<String>) -> Command {
        self.notice = Some(notice.into());
        Command::Redraw
    }

    fn ask(&mut self, request: Request, notice: impl Into<String>) -> Command {
        self.notice = Some(notice.into());
        Command::Ask(request)
    }

    /// The trial that keys are about.
    pub fn subject(&self) -> Option<TrialKey> {
        if self.screen == Screen::Trial { self.opened } else { self.list.trial() }
    }

    /// The same, if it is loaded.
    fn subject_trial(&self) -> Option<&Trial> {
        self.seen.trial(self.subject()?)
    }

    fn press_in_help(&mut self, action: Option<Action>, scroll: usize) -> Command {
        if let Some(Action::Move(movement)) = action {
            let scroll = movement.applied(scroll, self.list.page(), usize::MAX);
            self.overlay = Some(Overlay::Help(scroll));
        }
        Command::Redraw
    }

    fn press_in_form(&mut self, mut form: Form, key: KeyEvent) -> Command {
        match form.press(key) {
            Filled::Nothing => self.overlay = Some(Overlay::Form(form)),
            Filled::Cancelled => {}
            Filled::Done(params) => return self.enqueue(params),
        }
        Command::Redraw
    }

    fn press_in_prompt(&mut self, mut prompt: Prompt, key: KeyEvent) -> Command {
        match key.code {
            KeyCode::Esc => self.take_back(prompt),
            KeyCode::Enter => return self.submit(prompt),
            _ => {
                prompt.line.press(key);
                self.overlay = Some(Overlay::Prompt(prompt));
                self.typed();
            }
        }
        Command::Redraw
    }
}
