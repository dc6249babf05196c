//! Lines to be typed: the filter, searches, notes and tags; what typing, Enter and Esc do to each.

use super::{Command, Overlay, State};
use crate::event::{Request, TAG_RULE, is_tag};
use crate::query::Filter;
use crate::study::StudySpec;
use crate::trial::TrialNumber;
use crate::tui::keys::Screen;
use crate::tui::line::LineEdit;

/// What a line is typed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Which trials are listed.
    Filter,
    /// What to find in the log.
    LogSearch,
    /// Which entries of the journal are shown.
    JournalSearch,
    /// A note on a trial.
    Note,
    /// A tag of a trial.
    Tag,
}

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// What for.
    pub purpose: Purpose,
    /// About which trial.
    pub trial: Option<TrialNumber>,
    /// What is typed.
    pub line: LineEdit,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// What it was before.
    before: String,
}

impl Prompt {
    /// What stands before the line.
    pub fn label(&self) -> String {
        match (self.purpose, self.trial) {
            (Purpose::Filter, _) => "filter".to_owned(),
            (Purpose::LogSearch, _) => "search the log".to_owned(),
            (Purpose::JournalSearch, _) => "search".to_owned(),
            (Purpose::Note, trial) => format!("note on trial {}", trial.unwrap_or_default()),
            (Purpose::Tag, trial) => format!("tag trial {}", trial.unwrap_or_default()),
        }
    }

    /// What may be typed, while nothing is wrong.
    pub fn hint(&self) -> &'static str {
        match self.purpose {
            Purpose::Filter => "state:pruned  lr>1e-3  optim=adamw  tag:x  text  -not      Enter keeps, Esc undoes",
            Purpose::LogSearch => "Enter searches upwards from the end; then n and N",
            Purpose::JournalSearch => "text or the number of a trial; Enter keeps, Esc undoes",
            Purpose::Note => "Enter writes it into the store",
            Purpose::Tag => "one word; Enter sets it, or takes it off if it is there",
        }
    }
}

impl State {
    pub(super) fn open_prompt(&mut self) {
        let (purpose, before) = match self.screen {
            Screen::Trial => (Purpose::LogSearch, self.trial.text.clone()),
            Screen::Events => (Purpose::JournalSearch, self.journal.text.clone()),
            _ => (Purpose::Filter, self.filter.text().to_owned()),
        };
        self.overlay = Some(Overlay::Prompt(Prompt { purpose, trial: None, line: LineEdit::new(before.clone()), problem: None, before }));
    }

    pub(super) fn prompt_about_trial(&mut self, purpose: Purpose) -> Command {
        let Some(trial) = self.subject() else {
            return self.note("there is no trial yet");
        };
        self.overlay = Some(Overlay::Prompt(Prompt { purpose, trial: Some(trial), line: LineEdit::default(), problem: None, before: String::new() }));
        Command::Redraw
    }

    /// What is typed takes effect at once where that costs nothing to undo.
    pub(super) fn typed(&mut self) {
        let Some(Overlay::Prompt(prompt)) = &mut self.overlay else {
            return;
        };
        let text = prompt.line.text().trim().to_owned();
        prompt.problem = None;
        // One that is there may be taken off, whatever it looks like.
        let there = |trial: TrialNumber| self.seen.trial(trial).is_some_and(|trial| trial.tags.contains(&text));
        match prompt.purpose {
            Purpose::Filter => match Filter::parse_with(&text, &self.seen.summary.spec, &self.seen.metrics) {
                Ok(filter) => {
                    let settled = without_half_a_name(prompt.line.text(), &self.seen.summary.spec, &self.seen.metrics);
                    let filter = Filter::parse_with(settled, &self.seen.summary.spec, &self.seen.metrics).unwrap_or(filter);
                    self.set_filter(filter);
                }
                Err(error) => prompt.problem = Some(error.to_string()),
            },
            Purpose::JournalSearch => self.journal.text = text,
            Purpose::Tag if !text.is_empty() && !is_tag(&text) && !prompt.trial.is_some_and(there) => {
                prompt.problem = Some(format!("no tag: tags are {TAG_RULE}"));
            }
            Purpose::LogSearch | Purpose::Note | Purpose::Tag => {}
        }
    }

    /// Esc: as it was before.
    pub(super) fn take_back(&mut self, prompt: Prompt) {
        match prompt.purpose {
            Purpose::Filter => {
                // What was there before was taken then.
                let before = Filter::parse_with(&prompt.before, &self.seen.summary.spec, &self.seen.metrics).unwrap_or_default();
                self.set_filter(before);
            }
            Purpose::JournalSearch => self.journal.text = prompt.before,
            Purpose::LogSearch | Purpose::Note | Purpose::Tag => {}
        }
    }

    /// Enter.
    pub(super) fn submit(&mut self, prompt: Prompt) -> Command {
        let text = prompt.line.text().trim().to_owned();
        match (prompt.purpose, prompt.trial) {
            (Purpose::Filter | Purpose::Tag, _) if prompt.problem.is_some() => {
                self.overlay = Some(Overlay::Prompt(prompt));
                Command::Redraw
            }
            (Purpose::Filter, _) => {
                // What was held back while it could become a condition is meant as it stands.
                if let Ok(filter) = Filter::parse_with(&text, &self.seen.summary.spec, &self.seen.metrics) {
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
            (Purpose::Note | Purpose::Tag, None) => Command::Ignore,
            (Purpose::Note | Purpose::Tag, Some(_)) if text.is_empty() => Command::Redraw,
            (Purpose::Note, Some(trial)) => {
                self.notice = Some(format!("noted on trial {trial}"));
                Command::Ask(Request::Note { trial: Some(trial), text })
            }
            (Purpose::Tag, Some(trial)) => {
                let present = !self.seen.trial(trial).is_some_and(|trial| trial.tags.contains(&text));
                self.notice =
                    Some(if present { format!("trial {trial} is tagged `{text}`") } else { format!("trial {trial} is no longer tagged `{text}`") });
                Command::Ask(Request::Tag { trial: Some(trial), tag: text, present })
            }
        }
    }
}

/// What may be asked of a trial besides its parameters and metrics.
const NAMES: &[&str] = &["state", "device", "reason", "note", "tag", "number", "value", "step", "seconds", "attempts", "failures"];

/// The text of a filter without its last word, while that may become the name of a condition: `lr` on the way to `lr>1e-3` is
/// not searched for as a text, which would empty the table from letter to letter. A space or Enter says that it is a text.
fn without_half_a_name<'a>(text: &'a str, spec: &StudySpec, metrics: &[String]) -> &'a str {
    let begin = text.rfind(char::is_whitespace).map_or(0, |space| space + text[space..].chars().next().map_or(1, char::len_utf8));
    let word = text[begin..].trim_start_matches(['-', '!']);
    let params = spec.space.dimensions().iter().map(|dimension| dimension.name.as_str());
    // A parameter goes by the end of its name, too.
    let params = params.flat_map(|name| [name, name.rsplit('.').next().unwrap_or(name)]);
    let mut names = params.chain(metrics.iter().map(String::as_str)).chain(NAMES.iter().copied());
    if names.any(|name| name.starts_with(word)) { &text[..begin] } else { text }
}
