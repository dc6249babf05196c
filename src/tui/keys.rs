//! The one table of keys: on which screens they work, what they do, and what help and footer say
//! about them.

use ratatui::crossterm::event::KeyCode::{
    self, BackTab, Backspace, Delete, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp,
    Right, Tab, Up,
};
use ratatui::crossterm::event::{KeyEvent, KeyModifiers};

use super::TuiMode;
use super::list::Movement;

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
    /// The selection, or what is scrolled.
    Move(Movement),
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
    /// Pause the trial, or let it continue.
    PauseTrial,
    /// Pause the study, or let it continue.
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
    /// Let the trial continue past its end.
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

impl Action {
    /// Whether it steers a search: a study of tracked runs has none.
    pub fn is_of_a_search(self) -> bool {
        matches!(
            self,
            Action::Kill
                | Action::PauseTrial
                | Action::PauseStudy
                | Action::Stop
                | Action::Enqueue
                | Action::Retry
                | Action::Continue
                | Action::Extend
                | Action::PauseDevice
                | Action::Slots
        )
    }
}

/// Headings of the help: moving about, what is shown, what changes the study.
const GROUPS: [&str; 3] = [MOVE, LOOK, CHANGE];
const MOVE: &str = "move";
const LOOK: &str = "look";
const CHANGE: &str = "change";

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
    group: &'static str,
    /// Where the run is this process, and while watching, if that is another.
    meanings: &'static [&'static str],
    footer: &'static str,
}

impl KeyLine {
    /// What the help says about it.
    pub fn meaning(&self, mode: TuiMode) -> &'static str {
        self.meanings[if mode == TuiMode::Embedded { 0 } else { self.meanings.len() - 1 }]
    }

    /// What the footer says about it, on the screens where it works, if it stands there.
    pub fn footer(&self) -> Option<&'static str> {
        Some(self.footer).filter(|word| !word.is_empty())
    }

    /// Whether it stops the study or one of its trials.
    pub fn stops(&self) -> bool {
        matches!(self.action, Action::Stop | Action::Kill)
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
const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;

const fn char(char: char) -> KeyCode {
    KeyCode::Char(char)
}

/// `MODIFIERS [CODES] LABEL, ACTION, SCREENS, GROUP, MEANING (| MEANING WHILE WATCHING), FOOTER;`
/// for each key.
macro_rules! keys {
    ($($modifiers:ident [$($code:expr),+] $label:literal, $action:ident $(($($to:tt)+))?,
        $screens:ident, $group:ident,
        $meaning:literal $(| $watching:literal)? $(, $footer:literal)?;)+) => {
        &[$(KeyLine {
            codes: &[$($code),+],
            modifiers: $modifiers,
            label: $label,
            action: Action::$action $(($($to)+))?,
            screens: $screens,
            group: $group,
            meanings: &[$meaning $(, $watching)?],
            footer: concat!($($footer)?),
        }),+]
    };
}

/// All keys, in the order of the help and of the footer. Shift is taken off: capital letters come
/// with or without it.
pub static KEYS: &[KeyLine] = keys! {
    NONE [char('q')] "q", Quit, EVERYWHERE, MOVE,
        "leave: detach the run, or stop it (asks first)" | "leave; the study continues", "quit";
    NONE [char('?'), F(1)] "?", Help, EVERYWHERE, MOVE, "these keys", "help";
    NONE [Enter] "Enter", Open, TRIALS, MOVE, "open the selected trial", "open";
    NONE [Esc, Backspace] "Esc", Back, TRIALS, MOVE, "remove the filter";
    NONE [Esc, Backspace] "Esc", Back, ELSEWHERE, MOVE, "back to the trials", "back";
    NONE [char('/')] "/", Filter, TRIALS, LOOK,
        "filter: state:pruned lr>1e-3 optim=adamw text -not", "filter";
    NONE [char('/')] "/", Filter, TEXTS, LOOK, "search", "search";
    NONE [char('s')] "s", Sort, TRIALS, LOOK, "sort by any column, parameter or metric", "sort";
    NONE [char('r')] "r", Reverse, TRIALS, LOOK, "reverse the order";
    NONE [char('<'), char(',')] "< >", SortLeft, TRIALS, LOOK,
        "sort by the column to the left or right";
    NONE [char('>'), char('.')] ">", SortRight, TRIALS, LOOK, "";
    NONE [char('c')] "c", Columns, TRIALS, LOOK, "choose columns (remembered)", "columns";
    NONE [char(' ')] "Space", Mark, OF_A_TRIAL, LOOK, "mark the trial for comparing", "mark";
    NONE [char('u')] "u", Unmark, TRIALS, LOOK, "unmark all trials";
    NONE [char('b')] "b", Best, OF_A_TRIAL, LOOK, "the best trial";
    NONE [char('y')] "y", Copy, OF_A_TRIAL, LOOK,
        "copy the trial's configuration (TOML) to the clipboard", "copy";
    NONE [char('m')] "m", Metric, WITH_METRICS, LOOK, "the next metric's curve", "metric";
    NONE [char('o')] "o", Output, ONE, LOOK, "the log on the whole screen, and back", "log";
    NONE [char('n')] "n", NextMatch, ONE, LOOK, "the next match in the log; N the one before";
    NONE [char('N')] "N", PreviousMatch, ONE, LOOK, "";
    NONE [char('v')] "v", View, SEARCH, LOOK, "history, parameters, rungs, paused", "view";
    NONE [char('v')] "v", Reports, EVENTS, LOOK, "show or hide reports", "reports";
    NONE [char('x'), Delete] "x", Kill, OF_A_TRIAL, CHANGE, "kill the trial (asks first)", "kill";
    NONE [char('p')] "p", PauseTrial, OF_A_TRIAL, CHANGE, "pause or resume the trial", "pause";
    NONE [char('e')] "e", Enqueue, OF_A_TRIAL, CHANGE,
        "queue a copy of the trial with other values", "enqueue";
    NONE [char('a')] "a", Note, OF_A_TRIAL, CHANGE, "write a note on the trial", "note";
    NONE [char('t')] "t", Tag, OF_A_TRIAL, CHANGE,
        "tag the trial; the same tag again removes it", "tag";
    NONE [char('R')] "R", Retry, OF_A_TRIAL, CHANGE,
        "retry a failed trial, or all that failed (asks first)";
    NONE [char('C')] "C", Continue, OF_A_TRIAL, CHANGE,
        "train a finished trial further, to a later step";
    NONE [char('p')] "p", PauseDevice, DEVICES, CHANGE,
        "pause a device, whose trials move, or use it again", "pause device";
    NONE [char('n')] "n", Slots, DEVICES, CHANGE,
        "change how many trials run at a time on a device", "slots";
    NONE [char('E')] "E", Extend, EVERYWHERE, CHANGE,
        "raise the budget: trials, time, device-hours, cost";
    NONE [char('A')] "A", NoteStudy, EVERYWHERE, CHANGE, "write a note on the study";
    NONE [char('T')] "T", TagStudy, EVERYWHERE, CHANGE,
        "tag the study; the same tag again removes it";
    NONE [char('P')] "P", PauseStudy, EVERYWHERE, CHANGE, "pause or resume the study";
    NONE [char('S')] "S", Stop, EVERYWHERE, CHANGE,
        "stop the study: trials save and exit (asks first)", "stop study";
    NONE [Up, char('k')] "Up Down", Move(Movement::By(-1)), EVERYWHERE, MOVE, "one row (also k \
        and j)";
    NONE [Down, char('j')] "Down", Move(Movement::By(1)), EVERYWHERE, MOVE, "";
    NONE [PageUp] "PgUp PgDn", Move(Movement::Pages(-1)), EVERYWHERE, MOVE, "one page (also \
        Ctrl-B and Ctrl-F)";
    NONE [PageDown] "PgDn", Move(Movement::Pages(1)), EVERYWHERE, MOVE, "";
    NONE [Home, char('g')] "Home End", Move(Movement::First), TRIALS, MOVE,
        "the first row, and stay there; the last (also g and G)";
    NONE [Home, char('g')] "Home End", Move(Movement::First), ELSEWHERE, MOVE,
        "the first line; the last, and follow (also g and G)";
    NONE [End, char('G')] "End", Move(Movement::Last), EVERYWHERE, MOVE, "";
    NONE [Left, char('h')] "Left Right", Left, TRIALS, MOVE,
        "more columns, where not all fit (also h and l)";
    NONE [Left, char('h')] "Left Right", Left, ONE, MOVE,
        "the trial before or after it (also h and l)";
    NONE [Left, char('h')] "Left Right", Left, SEARCH, MOVE, "another view (also h and l)";
    NONE [Right, char('l')] "Right", Right, TRIALS, MOVE, "";
    NONE [Right, char('l')] "Right", Right, NEIGHBOURS, MOVE, "";
    NONE [char('1')] "1 to 6", Go(Screen::Trials), EVERYWHERE, MOVE,
        "trials, trial, compare, search, devices, events";
    NONE [char('2')] "2", Go(Screen::Trial), EVERYWHERE, MOVE, "";
    NONE [char('3')] "3", Go(Screen::Compare), EVERYWHERE, MOVE, "";
    NONE [char('4')] "4", Go(Screen::Search), EVERYWHERE, MOVE, "";
    NONE [char('5')] "5", Go(Screen::Devices), EVERYWHERE, MOVE, "";
    NONE [char('6')] "6", Go(Screen::Events), EVERYWHERE, MOVE, "";
    NONE [Tab] "Tab", NextScreen, EVERYWHERE, MOVE, "the next screen; Shift-Tab the one before";
    NONE [BackTab] "Shift-Tab", PreviousScreen, EVERYWHERE, MOVE, "";
    CTRL [char('b'), char('u')] "Ctrl-B", Move(Movement::Pages(-1)), EVERYWHERE, MOVE, "";
    CTRL [char('f'), char('d')] "Ctrl-F", Move(Movement::Pages(1)), EVERYWHERE, MOVE, "";
    CTRL [char('l')] "Ctrl-L", Refresh, EVERYWHERE, MOVE, "redraw the screen";
    CTRL [char('z')] "Ctrl-Z", Suspend, EVERYWHERE, MOVE, "back to the shell; `fg` returns";
    CTRL [char('c')] "Ctrl-C", Interrupt, EVERYWHERE, CHANGE,
        "stop the study and leave; once more: kill its trials" | "leave; the study continues";
};

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
pub fn help(screen: Screen, mode: TuiMode) -> Vec<(&'static str, Vec<&'static KeyLine>)> {
    let lines = |group| {
        KEYS.iter()
            .filter(|line| {
                line.group == group && line.works_on(screen) && !line.meaning(mode).is_empty()
            })
            .collect()
    };
    GROUPS.into_iter().map(|group| (group, lines(group))).collect()
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
        for line in KEYS.iter().filter(|line| line.footer().is_some()) {
            assert!(!line.meaning(TuiMode::Watching).is_empty(), "{}", line.label);
        }
    }
}
