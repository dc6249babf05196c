//! The one table of keys: on which screens they work, what they do, and what help and footer say about them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::TuiMode;

/// What fills the terminal under the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Screen {
    /// The table of trials.
    Trials,
    /// One trial.
    Trial,
    /// Marked trials side by side.
    Compare,
    /// How the search goes: history, importance, parameters.
    Search,
    /// What runs where.
    Devices,
    /// The journal.
    Events,
}

impl Screen {
    /// All, in the order of their numbers.
    pub const ALL: [Screen; 6] = [
        Screen::Trials,
        Screen::Trial,
        Screen::Compare,
        Screen::Search,
        Screen::Devices,
        Screen::Events,
    ];

    /// Its name in the line of screens.
    pub fn name(self) -> &'static str {
        match self {
            Screen::Trials => "trials",
            Screen::Trial => "trial",
            Screen::Compare => "compare",
            Screen::Search => "search",
            Screen::Devices => "devices",
            Screen::Events => "events",
        }
    }

    /// The one after it, or before it.
    pub fn neighbour(self, forward: bool) -> Screen {
        let at = Screen::ALL.iter().position(|screen| *screen == self).unwrap_or(0);
        let step = if forward { 1 } else { Screen::ALL.len() - 1 };
        Screen::ALL[(at + step) % Screen::ALL.len()]
    }
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave the screens.
    Quit,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// Draw everything again.
    Refresh,
    /// The keys.
    Help,
    /// To a screen.
    Go(Screen),
    /// To the next screen.
    NextScreen,
    /// To the one before.
    PreviousScreen,
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
    /// Columns to the left; the trial before.
    Left,
    /// Columns to the right; the trial after.
    Right,
    /// The details of the selected trial.
    Open,
    /// Back to the trials, or the filter away.
    Back,
    /// Filter or search.
    Filter,
    /// Choose what to sort by.
    Sort,
    /// Sort by the column to the left.
    SortLeft,
    /// Sort by the column to the right.
    SortRight,
    /// Turn the order round.
    Reverse,
    /// Choose columns.
    Columns,
    /// Mark the selected trial.
    Mark,
    /// Forget all marks.
    Unmark,
    /// Select the best trial.
    Best,
    /// The configuration to the clipboard.
    Copy,
    /// Kill the trial.
    Kill,
    /// Pause the trial, or let it go on.
    PauseTrial,
    /// Pause the study, or let it go on.
    PauseStudy,
    /// Stop the study.
    Stop,
    /// Queue an edited copy of the trial.
    Enqueue,
    /// Write a note.
    Note,
    /// Set or remove a tag.
    Tag,
    /// Write a note on the study.
    NoteStudy,
    /// Set or remove a tag of the study.
    TagStudy,
    /// Start the trial again, or all that failed.
    Retry,
    /// Let the trial go on past its end.
    Continue,
    /// Raise the budget.
    Extend,
    /// Pause a device, or use it again.
    PauseDevice,
    /// Run another number of trials at a time on a device.
    Slots,
    /// The next metric.
    Metric,
    /// The log fills the screen.
    Output,
    /// The next place that was searched for.
    NextMatch,
    /// The place before.
    PreviousMatch,
    /// Show or hide reports.
    Reports,
    /// Another view of the search.
    View,
}

/// Under which heading the help lists a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Moving about.
    Move,
    /// What is shown.
    View,
    /// What changes the study.
    Control,
}

impl Group {
    /// All, in the order of the help.
    pub const ALL: [Group; 3] = [Group::Move, Group::View, Group::Control];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::Move => "move",
            Group::View => "look",
            Group::Control => "change",
        }
    }
}

/// A line of the table of keys.
pub struct KeyLine {
    codes: &'static [KeyCode],
    modifiers: KeyModifiers,
    /// Its name on screen.
    pub label: &'static str,
    action: Action,
    /// Where it works.
    pub screens: &'static [Screen],
    /// Its heading in the help.
    pub group: Group,
    meaning: fn(TuiMode) -> &'static str,
    /// What the footer says about it, on the screens where it works, if it stands there.
    pub footer: Option<&'static str>,
}

impl KeyLine {
    /// What the help says about it.
    pub fn meaning(&self, mode: TuiMode) -> &'static str {
        (self.meaning)(mode)
    }

    /// Whether it works on `screen`.
    pub fn works_on(&self, screen: Screen) -> bool {
        self.screens.contains(&screen)
    }
}

const EVERYWHERE: &[Screen] = &Screen::ALL;
const TRIALS: &[Screen] = &[Screen::Trials];
const ONE: &[Screen] = &[Screen::Trial];
const OF_A_TRIAL: &[Screen] = &[Screen::Trials, Screen::Trial];
const TEXTS: &[Screen] = &[Screen::Trial, Screen::Events];
const EVENTS: &[Screen] = &[Screen::Events];
const SEARCH: &[Screen] = &[Screen::Search];
const DEVICES: &[Screen] = &[Screen::Devices];
const WITH_METRICS: &[Screen] = &[Screen::Trial, Screen::Compare];
const NEIGHBOURS: &[Screen] = &[Screen::Trial, Screen::Search];
const ELSEWHERE: &[Screen] =
    &[Screen::Trial, Screen::Compare, Screen::Search, Screen::Devices, Screen::Events];
/// Capital letters come with or without Shift, as the terminal likes; it is taken off.
const SHIFT_FREE: KeyModifiers = KeyModifiers::NONE;
const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;

const fn char(char: char) -> KeyCode {
    KeyCode::Char(char)
}

macro_rules! key {
    ($modifiers:ident, $codes:expr, $label:literal, $action:expr, $screens:ident, $group:ident, $meaning:expr, $footer:expr) => {
        KeyLine {
            codes: &$codes,
            modifiers: $modifiers,
            label: $label,
            action: $action,
            screens: $screens,
            group: Group::$group,
            meaning: $meaning,
            footer: $footer,
        }
    };
}

/// All keys, in the order of the help and of the footer.
pub static KEYS: &[KeyLine] = &[
    key!(NONE, [char('q')], "q", Action::Quit, EVERYWHERE, Move, quit_meaning, Some("quit")),
    key!(
        NONE,
        [char('?'), KeyCode::F(1)],
        "?",
        Action::Help,
        EVERYWHERE,
        Move,
        |_| "these keys",
        Some("help")
    ),
    key!(
        NONE,
        [KeyCode::Enter],
        "Enter",
        Action::Open,
        TRIALS,
        Move,
        |_| "open the selected trial",
        Some("open")
    ),
    key!(
        NONE,
        [KeyCode::Esc, KeyCode::Backspace],
        "Esc",
        Action::Back,
        TRIALS,
        Move,
        |_| "remove the filter",
        None
    ),
    key!(
        NONE,
        [KeyCode::Esc, KeyCode::Backspace],
        "Esc",
        Action::Back,
        ELSEWHERE,
        Move,
        |_| "back to the trials",
        Some("back")
    ),
    key!(
        NONE,
        [char('/')],
        "/",
        Action::Filter,
        TRIALS,
        View,
        |_| "filter: state:pruned lr>1e-3 optim=adamw text -not",
        Some("filter")
    ),
    key!(NONE, [char('/')], "/", Action::Filter, TEXTS, View, |_| "search", Some("search")),
    key!(
        NONE,
        [char('s')],
        "s",
        Action::Sort,
        TRIALS,
        View,
        |_| "sort by any column, parameter or metric",
        Some("sort")
    ),
    key!(NONE, [char('r')], "r", Action::Reverse, TRIALS, View, |_| "reverse the order", None),
    key!(
        NONE,
        [char('<'), char(',')],
        "< >",
        Action::SortLeft,
        TRIALS,
        View,
        |_| "sort by the column to the left or right",
        None
    ),
    key!(NONE, [char('>'), char('.')], ">", Action::SortRight, TRIALS, View, |_| "", None),
    key!(
        NONE,
        [char('c')],
        "c",
        Action::Columns,
        TRIALS,
        View,
        |_| "choose columns (remembered)",
        Some("columns")
    ),
    key!(
        NONE,
        [char(' ')],
        "Space",
        Action::Mark,
        OF_A_TRIAL,
        View,
        |_| "mark the trial for comparing",
        Some("mark")
    ),
    key!(NONE, [char('u')], "u", Action::Unmark, TRIALS, View, |_| "unmark all trials", None),
    key!(NONE, [char('b')], "b", Action::Best, OF_A_TRIAL, View, |_| "the best trial", None),
    key!(
        NONE,
        [char('y')],
        "y",
        Action::Copy,
        OF_A_TRIAL,
        View,
        |_| "copy the trial's configuration (TOML) to the clipboard",
        Some("copy")
    ),
    key!(
        NONE,
        [char('m')],
        "m",
        Action::Metric,
        WITH_METRICS,
        View,
        |_| "the next metric's curve",
        Some("metric")
    ),
    key!(
        NONE,
        [char('o')],
        "o",
        Action::Output,
        ONE,
        View,
        |_| "the log on the whole screen, and back",
        Some("log")
    ),
    key!(
        NONE,
        [char('n')],
        "n",
        Action::NextMatch,
        ONE,
        View,
        |_| "the next match in the log; N the one before",
        None
    ),
    key!(SHIFT_FREE, [char('N')], "N", Action::PreviousMatch, ONE, View, |_| "", None),
    key!(
        NONE,
        [char('v')],
        "v",
        Action::View,
        SEARCH,
        View,
        |_| "history, parameters, rungs",
        Some("view")
    ),
    key!(
        NONE,
        [char('v')],
        "v",
        Action::Reports,
        EVENTS,
        View,
        |_| "show or hide reports",
        Some("reports")
    ),
    key!(
        NONE,
        [char('x'), KeyCode::Delete],
        "x",
        Action::Kill,
        OF_A_TRIAL,
        Control,
        |_| "kill the trial (asks first)",
        Some("kill")
    ),
    key!(
        NONE,
        [char('p')],
        "p",
        Action::PauseTrial,
        OF_A_TRIAL,
        Control,
        |_| "pause or resume the trial",
        Some("pause")
    ),
    key!(
        NONE,
        [char('e')],
        "e",
        Action::Enqueue,
        OF_A_TRIAL,
        Control,
        |_| "queue a copy of the trial with other values",
        Some("enqueue")
    ),
    key!(
        NONE,
        [char('a')],
        "a",
        Action::Note,
        OF_A_TRIAL,
        Control,
        |_| "write a note on the trial",
        Some("note")
    ),
    key!(
        NONE,
        [char('t')],
        "t",
        Action::Tag,
        OF_A_TRIAL,
        Control,
        |_| "tag the trial; the same tag again removes it",
        Some("tag")
    ),
    key!(
        SHIFT_FREE,
        [char('R')],
        "R",
        Action::Retry,
        OF_A_TRIAL,
        Control,
        |_| "retry a failed trial; on another one: all that failed (asks first)",
        None
    ),
    key!(
        SHIFT_FREE,
        [char('C')],
        "C",
        Action::Continue,
        OF_A_TRIAL,
        Control,
        |_| "train a finished trial further, to a later step",
        None
    ),
    key!(
        NONE,
        [char('p')],
        "p",
        Action::PauseDevice,
        DEVICES,
        Control,
        |_| "pause a device, or use it again; its trials go on elsewhere",
        Some("pause device")
    ),
    key!(
        NONE,
        [char('n')],
        "n",
        Action::Slots,
        DEVICES,
        Control,
        |_| "change how many trials run at a time on a device",
        Some("slots")
    ),
    key!(
        SHIFT_FREE,
        [char('E')],
        "E",
        Action::Extend,
        EVERYWHERE,
        Control,
        |_| "raise the budget: trials, time, device-hours, cost",
        None
    ),
    key!(
        SHIFT_FREE,
        [char('A')],
        "A",
        Action::NoteStudy,
        EVERYWHERE,
        Control,
        |_| "write a note on the study",
        None
    ),
    key!(
        SHIFT_FREE,
        [char('T')],
        "T",
        Action::TagStudy,
        EVERYWHERE,
        Control,
        |_| "tag the study; the same tag again removes it",
        None
    ),
    key!(
        SHIFT_FREE,
        [char('P')],
        "P",
        Action::PauseStudy,
        EVERYWHERE,
        Control,
        |_| "pause or resume the study",
        None
    ),
    key!(
        SHIFT_FREE,
        [char('S')],
        "S",
        Action::Stop,
        EVERYWHERE,
        Control,
        |_| "stop the study: running trials save a checkpoint and leave (asks first)",
        Some("stop study")
    ),
    key!(
        NONE,
        [KeyCode::Up, char('k')],
        "Up Down",
        Action::Up,
        EVERYWHERE,
        Move,
        |_| "one row (also k and j)",
        None
    ),
    key!(NONE, [KeyCode::Down, char('j')], "Down", Action::Down, EVERYWHERE, Move, |_| "", None),
    key!(
        NONE,
        [KeyCode::PageUp],
        "PgUp PgDn",
        Action::PageUp,
        EVERYWHERE,
        Move,
        |_| "one page (also Ctrl-B and Ctrl-F)",
        None
    ),
    key!(NONE, [KeyCode::PageDown], "PgDn", Action::PageDown, EVERYWHERE, Move, |_| "", None),
    key!(
        NONE,
        [KeyCode::Home, char('g')],
        "Home End",
        Action::First,
        TRIALS,
        Move,
        |_| "the first row, and stay there; the last (also g and G)",
        None
    ),
    key!(
        NONE,
        [KeyCode::Home, char('g')],
        "Home End",
        Action::First,
        ELSEWHERE,
        Move,
        |_| "the first line; the last, and follow (also g and G)",
        None
    ),
    key!(NONE, [KeyCode::End, char('G')], "End", Action::Last, EVERYWHERE, Move, |_| "", None),
    key!(
        NONE,
        [KeyCode::Left, char('h')],
        "Left Right",
        Action::Left,
        TRIALS,
        Move,
        |_| "more columns, where not all fit (also h and l)",
        None
    ),
    key!(
        NONE,
        [KeyCode::Left, char('h')],
        "Left Right",
        Action::Left,
        ONE,
        Move,
        |_| "the trial before or after it (also h and l)",
        None
    ),
    key!(
        NONE,
        [KeyCode::Left, char('h')],
        "Left Right",
        Action::Left,
        SEARCH,
        Move,
        |_| "another view (also h and l)",
        None
    ),
    key!(NONE, [KeyCode::Right, char('l')], "Right", Action::Right, TRIALS, Move, |_| "", None),
    key!(NONE, [KeyCode::Right, char('l')], "Right", Action::Right, NEIGHBOURS, Move, |_| "", None),
    key!(
        NONE,
        [char('1')],
        "1 to 6",
        Action::Go(Screen::Trials),
        EVERYWHERE,
        Move,
        |_| "trials, trial, compare, search, devices, events",
        None
    ),
    key!(NONE, [char('2')], "2", Action::Go(Screen::Trial), EVERYWHERE, Move, |_| "", None),
    key!(NONE, [char('3')], "3", Action::Go(Screen::Compare), EVERYWHERE, Move, |_| "", None),
    key!(NONE, [char('4')], "4", Action::Go(Screen::Search), EVERYWHERE, Move, |_| "", None),
    key!(NONE, [char('5')], "5", Action::Go(Screen::Devices), EVERYWHERE, Move, |_| "", None),
    key!(NONE, [char('6')], "6", Action::Go(Screen::Events), EVERYWHERE, Move, |_| "", None),
    key!(
        NONE,
        [KeyCode::Tab],
        "Tab",
        Action::NextScreen,
        EVERYWHERE,
        Move,
        |_| "the next screen; Shift-Tab the one before",
        None
    ),
    key!(
        NONE,
        [KeyCode::BackTab],
        "Shift-Tab",
        Action::PreviousScreen,
        EVERYWHERE,
        Move,
        |_| "",
        None
    ),
    key!(CTRL, [char('b'), char('u')], "Ctrl-B", Action::PageUp, EVERYWHERE, Move, |_| "", None),
    key!(CTRL, [char('f'), char('d')], "Ctrl-F", Action::PageDown, EVERYWHERE, Move, |_| "", None),
    key!(
        CTRL,
        [char('l')],
        "Ctrl-L",
        Action::Refresh,
        EVERYWHERE,
        Move,
        |_| "redraw the screen",
        None
    ),
    key!(
        CTRL,
        [char('z')],
        "Ctrl-Z",
        Action::Suspend,
        EVERYWHERE,
        Move,
        |_| "back to the shell; `fg` returns",
        None
    ),
    key!(
        CTRL,
        [char('c')],
        "Ctrl-C",
        Action::Interrupt,
        EVERYWHERE,
        Control,
        interrupt_meaning,
        None
    ),
];

fn quit_meaning(mode: TuiMode) -> &'static str {
    match mode {
        TuiMode::Embedded => "leave: detach the run, or stop it (asks first)",
        TuiMode::Watching => "leave; the study goes on",
    }
}

fn interrupt_meaning(mode: TuiMode) -> &'static str {
    match mode {
        TuiMode::Embedded => "stop the study and leave; once more: kill its trials",
        TuiMode::Watching => "leave; the study goes on",
    }
}

/// What `key` does on `screen`; `None`: nothing.
pub fn action(key: KeyEvent, screen: Screen) -> Option<Action> {
    // Shift is how `?` is typed on most keyboards; some terminals report it.
    let modifiers = key.modifiers - KeyModifiers::SHIFT;
    let fits = |line: &&KeyLine| {
        line.codes.contains(&key.code) && line.modifiers == modifiers && line.works_on(screen)
    };
    KEYS.iter().find(fits).map(|line| line.action)
}

/// The lines of the help for `screen`, by heading; what has no words is left out.
pub fn help(screen: Screen, mode: TuiMode) -> Vec<(Group, Vec<&'static KeyLine>)> {
    let lines = |group| {
        KEYS.iter()
            .filter(|line| {
                line.group == group && line.works_on(screen) && !line.meaning(mode).is_empty()
            })
            .collect()
    };
    Group::ALL.into_iter().map(|group| (group, lines(group))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_does_two_things_on_a_screen() {
        for (index, line) in KEYS.iter().enumerate() {
            for other in &KEYS[index + 1..] {
                let same_key = line.modifiers == other.modifiers
                    && line.codes.iter().any(|code| other.codes.contains(code));
                let same_screen = line.screens.iter().any(|screen| other.works_on(*screen));
                assert!(!(same_key && same_screen), "{} {}", line.label, other.label);
            }
        }
    }

    #[test]
    fn control_tells_two_keys_apart() {
        let press = |code, modifiers| action(KeyEvent::new(code, modifiers), Screen::Trials);
        assert_eq!(press(char('c'), KeyModifiers::CONTROL), Some(Action::Interrupt));
        assert_eq!(press(char('c'), KeyModifiers::NONE), Some(Action::Columns));
        assert_eq!(press(char('z'), KeyModifiers::NONE), None);
        assert_eq!(press(char('?'), KeyModifiers::SHIFT), Some(Action::Help));
        assert_eq!(press(char('S'), KeyModifiers::SHIFT), Some(Action::Stop));
    }

    #[test]
    fn the_screens_go_round_in_both_directions() {
        assert_eq!(Screen::Events.neighbour(true), Screen::Trials);
        assert_eq!(Screen::Trials.neighbour(false), Screen::Events);
    }

    #[test]
    fn every_key_of_the_footer_is_in_the_help() {
        for line in KEYS.iter().filter(|line| line.footer.is_some()) {
            assert!(!line.meaning(TuiMode::Watching).is_empty(), "{}", line.label);
        }
    }
}
