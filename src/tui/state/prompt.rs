//! Lines to be typed: the filter, searches, notes and tags; what typing, Enter and Esc do to each.

use super::{Command, Overlay, TuiState, budget_line};
use crate::app::control::check_tag;
use crate::report::requests::entered;
use crate::report::wording::extension;
use crate::storage::StudySummary;
use crate::study::condition::{ExpressionError, TrialNames};
use crate::study::query::Filter;
use crate::study::request::Request;
use crate::study::tag::TAG_RULE;
use crate::study::trial::{TrialNumber, step_of};
use crate::tui::keys::Screen;
use crate::tui::line::LineEdit;
use crate::tui::trial_key::TrialKey;

/// What a line is typed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Which trials are listed.
    Filter,
    /// What to find in the log.
    LogSearch,
    /// Which entries of the journal are shown.
    JournalSearch,
    /// A note on a trial or the study.
    Note,
    /// A tag of a trial or the study.
    Tag,
    /// What is added to the budget.
    Extend,
    /// The step to which a trial continues.
    Continue,
    /// A device to pause, or to use again.
    Device,
    /// How many trials run on a device.
    Slots,
}

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// What is done with the line on Enter.
    pub purpose: Purpose,
    /// The trial it is about; `None`: the study.
    pub trial: Option<TrialNumber>,
    /// What is typed.
    pub line: LineEdit,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// What it was before.
    before: String,
}

impl Prompt {
    /// Whether it is about the filter.
    pub fn is_filter(&self) -> bool {
        self.purpose == Purpose::Filter
    }

    /// What stands before the line, and what may be typed while nothing is wrong.
    pub fn words(&self) -> (String, &'static str) {
        let subject = named(self.trial);
        match self.purpose {
            Purpose::Filter => (
                "filter".to_owned(),
                "state:pruned  lr>1e-3  optim=adamw  tag:x  text  -not      Enter keeps, Esc \
                 undoes",
            ),
            Purpose::LogSearch => {
                ("search the log".to_owned(), "Enter searches upwards from the end; then n and N")
            }
            Purpose::JournalSearch => {
                ("search".to_owned(), "text or the number of a trial; Enter keeps, Esc undoes")
            }
            Purpose::Note => (format!("note on {subject}"), "Enter writes it into the store"),
            Purpose::Tag => (
                format!("tag {subject}"),
                "one word; Enter adds the tag, or removes it if it is set",
            ),
            Purpose::Extend => ("raise the budget by".to_owned(), budget_line::HINT),
            Purpose::Continue => (
                format!("continue {subject} to step"),
                "a later one than its last; Enter continues it from its checkpoint",
            ),
            Purpose::Device => (
                "pause or use device".to_owned(),
                "Enter pauses it, or uses it again if it is paused",
            ),
            Purpose::Slots => (
                "device and slots".to_owned(),
                "a device and how many trials at a time: cuda:0 2; Enter asks for it, until this \
                 run ends",
            ),
        }
    }
}

impl TuiState {
    pub(super) fn open_prompt(&mut self) {
        let (purpose, before) = match self.screen {
            Screen::Trial => (Purpose::LogSearch, self.trial.text.clone()),
            Screen::Events => (Purpose::JournalSearch, self.journal.text.clone()),
            _ => (Purpose::Filter, self.filter.text().to_owned()),
        };
        self.prompt(purpose, None, &before);
    }

    pub(super) fn prompt_about_trial(&mut self, purpose: Purpose) -> Command {
        let Some(trial) = self.subject() else {
            return self.note("there is no trial yet");
        };
        self.prompt(purpose, Some(trial.number), "")
    }

    /// A line to be typed, which begins with `text`.
    pub(super) fn prompt(
        &mut self,
        purpose: Purpose,
        trial: Option<TrialNumber>,
        text: &str,
    ) -> Command {
        let (line, before) = (LineEdit::new(text), text.to_owned());
        let prompt = Prompt { purpose, trial, line, problem: None, before };
        self.overlay = Some(Overlay::Prompt(prompt));
        Command::Redraw
    }

    /// What is typed takes effect at once where that costs nothing to undo.
    pub(super) fn typed(&mut self) {
        let Some(Overlay::Prompt(prompt)) = &self.overlay else {
            return;
        };
        let text = prompt.line.text().trim().to_owned();
        let mut prompt = Prompt { problem: None, ..prompt.clone() };
        let there = self.has_tag(prompt.trial, &text);
        match prompt.purpose {
            Purpose::Filter => match self.filter_of(&text) {
                Ok(filter) => {
                    let settled = without_half_a_name(prompt.line.text(), &self.seen.names);
                    let settled = self.filter_of(settled);
                    self.set_filter(settled.unwrap_or(filter));
                }
                Err(error) => prompt.problem = Some(error.to_string()),
            },
            Purpose::JournalSearch => self.journal.text = text,
            Purpose::Tag if !text.is_empty() && check_tag(&text, !there).is_err() => {
                prompt.problem = Some(format!("not a tag: tags are {TAG_RULE}"));
            }
            Purpose::Extend => prompt.problem = budget_line::extension(&text).err(),
            _ => {}
        }
        self.overlay = Some(Overlay::Prompt(prompt));
    }

    /// Esc: as it was before.
    pub(super) fn take_back(&mut self, prompt: Prompt) {
        match prompt.purpose {
            Purpose::Filter => {
                // What was there before was taken then.
                self.set_filter(self.filter_of(&prompt.before).unwrap_or_default());
            }
            Purpose::JournalSearch => self.journal.text = prompt.before,
            _ => {}
        }
    }

    /// Does on Enter what the prompt is for.
    pub(super) fn submit(&mut self, prompt: Prompt) -> Command {
        let text = prompt.line.text().trim().to_owned();
        match (prompt.purpose, prompt.trial) {
            (Purpose::Filter | Purpose::Tag | Purpose::Extend, _) if prompt.problem.is_some() => {
                self.overlay = Some(Overlay::Prompt(prompt));
                Command::Redraw
            }
            (Purpose::Filter, _) => {
                // What was held back while it could become a condition is meant as it stands.
                if let Ok(filter) = self.filter_of(&text) {
                    self.set_filter(filter);
                }
                Command::Redraw
            }
            (Purpose::JournalSearch, _) => Command::Redraw,
            (Purpose::LogSearch, _) => {
                self.trial.text = text;
                self.trial.found = usize::MAX;
                if self.trial.text.is_empty() { Command::Redraw } else { self.next_match(false) }
            }
            (_, _) if text.is_empty() => Command::Redraw,
            (Purpose::Note, trial) => self.enter(Request::Note { trial, text }),
            (Purpose::Tag, trial) => {
                let present = !self.has_tag(trial, &text);
                self.enter(Request::Tag { trial, tag: text, present })
            }
            (Purpose::Extend, _) => {
                let by = budget_line::extension(&text).unwrap_or_default();
                let notice = format!("asked for the budget to be raised by {}", extension(by));
                self.ask(Request::Extend { by }, notice)
            }
            (Purpose::Continue, None) => Command::Ignore,
            (Purpose::Continue, Some(trial)) => match step_of(&text) {
                Some(until) => {
                    let step_unit = self.spec().step.as_str();
                    let notice =
                        format!("asked for trial {trial} to continue to {step_unit} {until}");
                    self.ask(Request::Continue { trial, until }, notice)
                }
                None => self.mend(prompt, format!("`{text}` is not a step: write an integer")),
            },
            (Purpose::Device, _) => match self.device_of(&text) {
                Ok(device) => self.turn_device(device),
                Err(problem) => self.mend(prompt, problem),
            },
            (Purpose::Slots, _) => match self.slots_of(&text) {
                Ok((device, slots)) => {
                    let notice = format!("asked for {slots} trials at a time on {device}");
                    self.ask(Request::ResumeDevice { device, slots: Some(slots) }, notice)
                }
                Err(problem) => self.mend(prompt, problem),
            },
        }
    }

    /// Writes a note or a tag.
    fn enter(&mut self, request: Request) -> Command {
        let notice = entered(&request).unwrap_or_default();
        self.ask(request, notice)
    }

    /// A filter that one of the studies understands.
    fn filter_of(&self, text: &str) -> Result<Filter, ExpressionError> {
        let parse = |study: &StudySummary| Filter::parse_with(text, &study.spec, &self.seen.names);
        let own = parse(self.summary());
        let others = || self.seen.studies().into_iter().find_map(|study| parse(study).ok());
        own.or_else(|error| others().ok_or(error))
    }

    /// Whether a trial, or the study, has a tag of its user's.
    fn has_tag(&self, trial: Option<TrialNumber>, tag: &String) -> bool {
        match trial.map(|number| TrialKey { study: self.focus(), number }) {
            Some(trial) => self.seen.trial(trial).is_some_and(|trial| trial.tags.contains(tag)),
            None => self.summary().tags.contains(tag),
        }
    }

    /// The line stays, with what is wrong with it.
    fn mend(&mut self, prompt: Prompt, problem: String) -> Command {
        self.overlay = Some(Overlay::Prompt(Prompt { problem: Some(problem), ..prompt }));
        Command::Redraw
    }
}

fn named(trial: Option<TrialNumber>) -> String {
    trial.map_or_else(|| "the study".to_owned(), |trial| format!("trial {trial}"))
}

/// What a filter may say besides parameters and metrics.
const NAMES: &[&str] = &[
    "state", "device", "reason", "note", "tag", "number", "value", "step", "seconds", "attempts",
    "failures", "study", "name", "group", "summary.", "min(", "max(", "and", "or", "not",
];

/// The text of a filter without its last word, while that may become the name of a condition: `lr`
/// on the way to `lr>1e-3` is not searched for as a text, which would empty the table from letter
/// to letter. A space or Enter says that it is a text.
fn without_half_a_name<'a>(text: &'a str, names: &TrialNames) -> &'a str {
    let begin = text
        .rfind(char::is_whitespace)
        .map_or(0, |space| space + text[space..].chars().next().map_or(1, char::len_utf8));
    let word = text[begin..].trim_start_matches(['-', '!']);
    let params = names.params.iter().map(String::as_str);
    // A parameter goes by the end of its name, too.
    let params = params.flat_map(|name| [name, name.rsplit('.').next().unwrap_or(name)]);
    let measured = names.metrics.iter().chain(&names.series).map(String::as_str);
    let mut names = params.chain(measured).chain(NAMES.iter().copied());
    if names.any(|name| name.starts_with(word)) { &text[..begin] } else { text }
}
