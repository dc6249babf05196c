//! The list of studies from which one is chosen, where a store holds several and none was named.

use std::time::Duration;

use ratatui::Frame;
use ratatui::crossterm::event::{
    Event as TerminalEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read,
};
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::look::Look;
use super::terminal::{Alarm, TerminalGuard, Woken};
use super::{TuiError, TuiMode};
use crate::report::table::{Column, Room, write_table};
use crate::report::wording::shorten;
use crate::storage::{StorageReader, StudyId, StudySummary};

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
    look: Look,
) -> Result<Option<StudyId>, TuiError> {
    let mut list = StudyList::new(reader.studies()?);
    let mut alarm = Alarm::new(TuiMode::Watching).map_err(TuiError::Terminal)?;
    let mut held = TerminalGuard::take().map_err(TuiError::Terminal)?;
    loop {
        held.draw(|frame| list.draw(frame, columns, look)).map_err(TuiError::Terminal)?;
        let woken = alarm.wait(Some(TURN));
        if woken == Woken::Gone || alarm.hung_up() || alarm.told_to_leave() || !held.is_held() {
            return Ok(None);
        }
        if alarm.told_to_suspend() {
            held.suspend().map_err(TuiError::Terminal)?;
        }
        while poll(Duration::ZERO).map_err(TuiError::Terminal)? {
            let TerminalEvent::Key(key) = read().map_err(TuiError::Terminal)? else { continue };
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
            list.see(reader.studies()?);
        }
    }
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
        let last = self.studies.len().saturating_sub(1);
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Chosen::Left,
            KeyCode::Char('z') if is_control => return Chosen::Suspended,
            _ if is_control => {}
            KeyCode::Char('q') | KeyCode::Esc => return Chosen::Left,
            KeyCode::Enter => {
                return self
                    .studies
                    .get(self.selected)
                    .map_or(Chosen::Nothing, |study| Chosen::Study(study.id));
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(self.page),
            KeyCode::PageDown => self.selected = (self.selected + self.page).min(last),
            KeyCode::Home | KeyCode::Char('g') => self.selected = 0,
            KeyCode::End | KeyCode::Char('G') => self.selected = last,
            _ => {}
        }
        Chosen::Nothing
    }

    fn draw(&mut self, frame: &mut Frame<'_>, columns: StudyColumns<'_>, look: Look) {
        let [title, body, footer] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        let room = usize::from(frame.area().width);
        let says = format!(" {} studies: which one?", self.studies.len());
        frame.render_widget(
            Line::styled(shorten(&says, room, look.charset.cut()), look.strong()),
            title,
        );
        let mut table = Vec::new();
        // A vector takes everything.
        let _left_out = write_table(
            &mut table,
            &columns(&self.studies),
            Room::Columns(room.saturating_sub(2)),
            look.charset.cut(),
        );
        let table = String::from_utf8_lossy(&table);
        let mut rows =
            table.lines().map(|row| shorten(&format!(" {row}"), room, look.charset.cut()));
        let mut lines = vec![Line::styled(rows.next().unwrap_or_default(), look.dim())];
        self.page = usize::from(body.height).saturating_sub(1).max(1);
        let first = (self.selected + 1).saturating_sub(self.page);
        for (at, row) in rows.enumerate().skip(first).take(self.page) {
            lines.push(if at == self.selected {
                Line::styled(format!("{row:<room$}"), look.selected())
            } else {
                Line::raw(row)
            });
        }
        frame.render_widget(Paragraph::new(lines), body);
        let keys = [("Enter", "watch"), ("Up Down", "select"), ("q", "leave")];
        let keys = keys.iter().flat_map(|(key, word)| {
            [
                Span::styled(format!(" {key}"), look.strong()),
                Span::styled(format!(" {word}  "), look.dim()),
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
    use crate::tui::tests::spec;

    fn studies(names: &[&str]) -> Vec<StudySummary> {
        let mut store = MemoryStore::new();
        for name in names {
            let mut spec = spec();
            (*name).clone_into(&mut spec.name);
            store.create_study(Timestamp(0), &spec).unwrap();
        }
        store.studies().unwrap()
    }

    fn press(list: &mut StudyList, code: KeyCode) -> Chosen {
        list.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn the_study_that_was_made_last_is_selected_first() {
        let mut list = StudyList::new(studies(&["b", "c", "a"]));
        let Chosen::Study(chosen) = press(&mut list, KeyCode::Enter) else {
            panic!("nothing is chosen")
        };
        assert_eq!(list.studies.iter().find(|study| study.id == chosen).unwrap().spec.name, "a");
    }

    #[test]
    fn the_selection_stays_on_the_list_and_follows_its_study() {
        let mut list = StudyList::new(studies(&["a", "b"]));
        list.selected = 0;
        press(&mut list, KeyCode::Up);
        assert_eq!(list.selected, 0);
        for code in [KeyCode::Down, KeyCode::Down, KeyCode::End] {
            press(&mut list, code);
            assert_eq!(list.selected, 1);
        }
        let followed = list.studies[1].id;
        let mut now = list.studies.clone();
        now.rotate_right(1);
        list.see(now);
        assert_eq!(press(&mut list, KeyCode::Enter), Chosen::Study(followed));
        list.see(Vec::new());
        assert_eq!(press(&mut list, KeyCode::Enter), Chosen::Nothing);
        assert_eq!(press(&mut list, KeyCode::Esc), Chosen::Left);
    }
}
