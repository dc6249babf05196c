//! The list of studies from which one is chosen, where a store holds several and none was named.

use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{Event as TerminalEvent, KeyEvent, KeyEventKind};
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::keys::{Action, Screen, action};
use super::terminal::{EventPoll, TerminalGuard, Woken, next_event};
use super::theme::Theme;
use super::{TuiError, TuiMode};
use crate::app::find::{self, Archived};
use crate::report::table::{AvailableWidth, Column, write_table};
use crate::storage::{StorageError, StorageReader, StudyId, StudySummary};

/// How often the store is asked whether anything changed.
const TURN: Duration = Duration::from_secs(1);

/// The columns of a table of studies.
pub type StudyColumns<'a> = &'a dyn Fn(&[StudySummary]) -> Vec<Column>;

/// Shows the studies until one is chosen; `None` if the list was left without a choice.
///
/// # Errors
/// The store cannot be read, or the terminal cannot be used.
pub fn choose_study(
    reader: &mut dyn StorageReader,
    columns: StudyColumns<'_>,
    theme: Theme,
) -> Result<Option<StudyId>, TuiError> {
    let mut list = StudyList::new(offered(reader)?);
    let mut event_poll = EventPoll::new(TuiMode::Watching)?;
    let mut held = TerminalGuard::take()?;
    loop {
        held.draw(|frame| list.draw(frame, columns, theme))?;
        let woken = event_poll.wait(Some(TURN));
        if woken == Woken::Gone
            || event_poll.is_hung_up()
            || event_poll.is_terminated()
            || !held.is_held()
        {
            return Ok(None);
        }
        if event_poll.takes_suspension() {
            held.suspend()?;
        }
        while let Some(event) = next_event()? {
            let TerminalEvent::Key(key) = event else { continue };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            match list.press(key) {
                Chosen::Nothing => {}
                Chosen::Study(study) => return Ok(Some(study)),
                Chosen::Left => return Ok(None),
                // The whole group, as the terminal itself would.
                Chosen::Suspended => {
                    let _ours_at_least =
                        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
                }
            }
        }
        if reader.changed()? {
            list.see(offered(reader)?);
        }
    }
}

/// The studies to choose from: those that are not archived, if there are any, and can be read.
fn offered(reader: &dyn StorageReader) -> Result<Vec<StudySummary>, StorageError> {
    let studies = find::all(reader, Archived::LeftOut)?.studies;
    Ok(if studies.is_empty() { find::all(reader, Archived::Listed)?.studies } else { studies })
}

/// What a key means for the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    Nothing,
    Study(StudyId),
    Left,
    Suspended,
}

/// The studies, and the selected one.
struct StudyList {
    studies: Vec<StudySummary>,
    selected: usize,
    /// Studies that fit the screen.
    page: usize,
}

impl StudyList {
    /// The study that was made last is selected: most often it is the one that is meant.
    fn new(studies: Vec<StudySummary>) -> Self {
        let selected = (0..studies.len()).max_by_key(|at| studies[*at].id).unwrap_or(0);
        StudyList { studies, selected, page: 1 }
    }

    /// Takes in the studies as they are now; the selection follows its study.
    fn see(&mut self, studies: Vec<StudySummary>) {
        let followed = self.studies.get(self.selected).map(|study| study.id);
        let at = studies.iter().position(|study| Some(study.id) == followed);
        self.selected = at.unwrap_or(self.selected).min(studies.len().saturating_sub(1));
        self.studies = studies;
    }

    fn press(&mut self, key: KeyEvent) -> Chosen {
        match action(key, Screen::Trials) {
            Some(Action::Quit | Action::Interrupt | Action::Back) => Chosen::Left,
            Some(Action::Suspend) => Chosen::Suspended,
            Some(Action::Open) => self
                .studies
                .get(self.selected)
                .map_or(Chosen::Nothing, |study| Chosen::Study(study.id)),
            Some(Action::Move(movement)) => {
                let last = self.studies.len().saturating_sub(1);
                self.selected = movement.applied(self.selected, self.page, last);
                Chosen::Nothing
            }
            _ => Chosen::Nothing,
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>, columns: StudyColumns<'_>, theme: Theme) {
        let [title, body, footer] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        let room = usize::from(frame.area().width);
        let says = format!(" {} studies: which one?", self.studies.len());
        frame.render_widget(Line::styled(theme.shorten(&says, room), theme.strong()), title);
        let (columns, fitting) =
            (columns(&self.studies), AvailableWidth::Columns(room.saturating_sub(2)));
        let mut table = Vec::new();
        // A vector takes everything.
        let _left_out = write_table(&mut table, &columns, fitting, theme.charset.cut());
        let table = String::from_utf8_lossy(&table);
        let mut rows = table.lines().map(|row| theme.shorten(&format!(" {row}"), room));
        let mut lines = vec![Line::styled(rows.next().unwrap_or_default(), theme.dim())];
        self.page = usize::from(body.height).saturating_sub(1).max(1);
        let first = (self.selected + 1).saturating_sub(self.page);
        for (at, row) in rows.enumerate().skip(first).take(self.page) {
            lines.push(if at == self.selected {
                Line::styled(format!("{row:<room$}"), theme.selected())
            } else {
                Line::raw(row)
            });
        }
        frame.render_widget(Paragraph::new(lines), body);
        let keys = [("Enter", "watch"), ("Up Down", "select"), ("q", "leave")];
        let keys = keys.iter().flat_map(|(key, word)| {
            [
                Span::styled(format!(" {key}"), theme.strong()),
                Span::styled(format!(" {word}  "), theme.dim()),
            ]
        });
        frame.render_widget(Line::from(keys.collect::<Vec<_>>()), footer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Storage as _;
    use crate::storage::memory::MemoryStore;
    use crate::study::time::Timestamp;
    use crate::tui::tests::{key_of, spec};

    fn studies(names: &[&str]) -> Vec<StudySummary> {
        let mut store = MemoryStore::new();
        for name in names {
            let mut spec = spec();
            (*name).clone_into(&mut spec.name);
            store.create_study(Timestamp(0), &spec).unwrap();
        }
        store.studies().unwrap()
    }

    fn press(list: &mut StudyList, char: char) -> Chosen {
        list.press(key_of(char))
    }

    #[test]
    fn the_study_that_was_made_last_is_selected_first() {
        let mut list = StudyList::new(studies(&["b", "c", "a"]));
        let Chosen::Study(chosen) = press(&mut list, '\n') else { panic!("nothing is chosen") };
        assert_eq!(list.studies.iter().find(|study| study.id == chosen).unwrap().spec.name, "a");
    }

    #[test]
    fn the_selection_stays_on_the_list_and_follows_its_study() {
        let mut list = StudyList::new(studies(&["a", "b"]));
        list.selected = 0;
        press(&mut list, '↑');
        assert_eq!(list.selected, 0);
        for code in ['↓', '↓', '⇲'] {
            press(&mut list, code);
            assert_eq!(list.selected, 1);
        }
        let followed = list.studies[1].id;
        let mut now = list.studies.clone();
        now.rotate_right(1);
        list.see(now);
        assert_eq!(press(&mut list, '\n'), Chosen::Study(followed));
        list.see(Vec::new());
        assert_eq!(press(&mut list, '\n'), Chosen::Nothing);
        assert_eq!(press(&mut list, '\u{1b}'), Chosen::Left);
    }
}
