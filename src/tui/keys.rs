//! The one table of keys: what they do, and what help and footer say about them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::TuiMode;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave the leaderboard.
    Quit,
    /// Ctrl-C.
    Interrupt,
    /// Stop the study.
    Stop,
    /// Kill the selected trial.
    Kill,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// By value or by number.
    Order,
    /// The details of the selected trial, and back.
    Open,
    /// Back to the leaderboard.
    Back,
    /// The keys.
    Help,
}

/// A line of the table of keys.
pub struct KeyLine {
    /// Its codes.
    codes: &'static [KeyCode],
    /// Ctrl or nothing.
    modifiers: KeyModifiers,
    /// Its name on screen.
    pub label: &'static str,
    /// What it does.
    action: Action,
    /// One phrase for the help, by mode.
    meaning: fn(TuiMode) -> &'static str,
    /// What the leaderboard's footer says about it, if it stands there.
    pub footer: Option<&'static str>,
    /// The same under a trial's details.
    pub detail_footer: Option<&'static str>,
}

impl KeyLine {
    /// What the help says about it.
    pub fn meaning(&self, mode: TuiMode) -> &'static str {
        (self.meaning)(mode)
    }
}

macro_rules! key {
    ($codes:expr, $label:literal, $action:ident, $meaning:expr, $footer:expr, $detail_footer:expr) => {
        KeyLine {
            codes: &$codes,
            modifiers: KeyModifiers::NONE,
            label: $label,
            action: Action::$action,
            meaning: $meaning,
            footer: $footer,
            detail_footer: $detail_footer,
        }
    };
}

/// All keys, in the order of the help and of the footer.
pub static KEYS: &[KeyLine] = &[
    key!([KeyCode::Char('q')], "q", Quit, quit_meaning, Some("quit"), Some("quit")),
    key!([KeyCode::Char('?'), KeyCode::F(1)], "?", Help, |_| "these keys", Some("help"), Some("help")),
    key!([KeyCode::Enter], "Enter", Open, |_| "details of the selected trial, and back", Some("details"), Some("back")),
    key!([KeyCode::Char('o')], "o", Order, |_| "order by value or by number", Some("order"), None),
    key!([KeyCode::Char('s')], "s", Stop, |_| "stop the study: running trials save a checkpoint and leave", Some("stop study"), Some("stop study")),
    key!([KeyCode::Char('k')], "k", Kill, |_| "kill the selected trial", Some("kill trial"), Some("kill trial")),
    key!([KeyCode::Up], "Up", Up, |_| "one row up; in details, scroll", None, None),
    key!([KeyCode::Down], "Down", Down, |_| "one row down; in details, scroll", None, Some("scroll")),
    key!([KeyCode::PageUp], "PgUp", PageUp, |_| "one page up", None, None),
    key!([KeyCode::PageDown], "PgDn", PageDown, |_| "one page down", None, None),
    key!([KeyCode::Home], "Home", First, |_| "the first trial, and stay with whichever is first", None, None),
    key!([KeyCode::End], "End", Last, |_| "the last trial", None, None),
    key!([KeyCode::Esc], "Esc", Back, |_| "back to the leaderboard", None, None),
    KeyLine {
        codes: &[KeyCode::Char('c')],
        modifiers: KeyModifiers::CONTROL,
        label: "Ctrl-C",
        action: Action::Interrupt,
        meaning: interrupt_meaning,
        footer: None,
        detail_footer: None,
    },
];

fn quit_meaning(mode: TuiMode) -> &'static str {
    match mode {
        TuiMode::Embedded => "stop the study and leave (asks first)",
        TuiMode::Watching => "leave; the study goes on",
    }
}

fn interrupt_meaning(mode: TuiMode) -> &'static str {
    match mode {
        TuiMode::Embedded => "stop the study and leave; once more: kill its trials",
        TuiMode::Watching => "leave; the study goes on",
    }
}

/// What `key` does; `None`: nothing.
pub fn action(key: KeyEvent) -> Option<Action> {
    // Shift is how `?` is typed on most keyboards; some terminals report it.
    let modifiers = key.modifiers - KeyModifiers::SHIFT;
    KEYS.iter().find(|line| line.codes.contains(&key.code) && line.modifiers == modifiers).map(|line| line.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_does_two_things() {
        for (index, line) in KEYS.iter().enumerate() {
            for other in &KEYS[index + 1..] {
                assert!(
                    line.modifiers != other.modifiers || line.codes.iter().all(|code| !other.codes.contains(code)),
                    "{} {}",
                    line.label,
                    other.label
                );
            }
        }
    }

    #[test]
    fn control_tells_two_keys_apart() {
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Action::Interrupt));
        assert_eq!(action(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::NONE)), None);
        assert_eq!(action(KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL)), None);
        assert_eq!(action(KeyEvent::new(KeyCode::Char('?'), KeyModifiers::SHIFT)), Some(Action::Help));
    }
}
