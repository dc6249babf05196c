//! A list to choose from, narrowed by typing: what to sort by, and which columns to show.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::columns::ColumnKey;
use super::line::{Edited, LineEdit};

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choosing {
    /// One column to sort by.
    Sort,
    /// The columns to show.
    Columns,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The column.
    pub key: ColumnKey,
    /// Its name.
    pub title: String,
    /// A few words about it.
    pub about: String,
    /// Whether it is what is sorted by, or is shown.
    pub on: bool,
}

/// The list, what was typed, and the selected line.
#[derive(Clone, Debug, PartialEq)]
pub struct Picker {
    /// What is chosen.
    pub choosing: Choosing,
    /// What was typed to find a line.
    pub line: LineEdit,
    items: Vec<Item>,
    selected: usize,
}

/// What a key means for the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picked {
    /// Nothing beyond the list.
    Nothing,
    /// This column was chosen; the list is closed when one is enough.
    Column(ColumnKey),
    /// The list is closed.
    Closed,
}

impl Picker {
    /// A list with the first line that is on selected, where one is sought.
    pub fn new(choosing: Choosing, items: Vec<Item>) -> Self {
        let is_sought = |item: &Item| choosing == Choosing::Sort && item.on;
        let selected = items.iter().position(is_sought).unwrap_or(0);
        Picker { choosing, line: LineEdit::default(), items, selected }
    }

    /// The lines that hold what was typed, and which of them is selected: first those whose name
    /// begins with it, then those that have it in their name, then those that have it in their
    /// description.
    pub fn visible(&self) -> (Vec<&Item>, usize) {
        let typed = self.line.text().to_lowercase();
        let place = |item: &Item| {
            let title = item.title.to_lowercase();
            let places = [
                title.starts_with(&typed),
                title.contains(&typed),
                item.about.to_lowercase().contains(&typed),
            ];
            places.iter().position(|fits| *fits)
        };
        let mut placed: Vec<(usize, &Item)> =
            self.items.iter().filter_map(|item| Some((place(item)?, item))).collect();
        // Those of one place stay in the order of the columns.
        placed.sort_by_key(|(place, _)| *place);
        let visible: Vec<&Item> = placed.into_iter().map(|(_, item)| item).collect();
        let selected = self.selected.min(visible.len().saturating_sub(1));
        (visible, selected)
    }

    /// Takes a key in.
    pub fn press(&mut self, key: KeyEvent) -> Picked {
        let (visible, selected) = self.visible();
        let chosen = visible.get(selected).map(|item| item.key.clone());
        let last = visible.len().saturating_sub(1);
        match (key.code, self.choosing) {
            (KeyCode::Esc, _) => return Picked::Closed,
            (KeyCode::Enter, Choosing::Columns) => return Picked::Closed,
            (KeyCode::Enter, Choosing::Sort) | (KeyCode::Char(' '), Choosing::Columns) => {
                return chosen.map_or(Picked::Nothing, |key| {
                    self.turn(&key);
                    Picked::Column(key)
                });
            }
            (KeyCode::Up | KeyCode::BackTab, _) => self.selected = selected.saturating_sub(1),
            (KeyCode::Down | KeyCode::Tab, _) => self.selected = (selected + 1).min(last),
            (KeyCode::PageUp, _) => self.selected = selected.saturating_sub(10),
            (KeyCode::PageDown, _) => self.selected = (selected + 10).min(last),
            _ => {
                if self.line.press(key) == Edited::Changed {
                    self.selected = 0;
                }
            }
        }
        Picked::Nothing
    }

    fn turn(&mut self, key: &ColumnKey) {
        if let Some(item) =
            self.items.iter_mut().find(|item| item.key == *key && !item.key.is_fixed())
        {
            item.on = !item.on;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::tests::key_of;

    fn item(key: ColumnKey, title: &str, about: &str) -> Item {
        let on = matches!(key, ColumnKey::Trial | ColumnKey::Curve);
        Item { key, title: title.to_owned(), about: about.to_owned(), on }
    }

    fn press(picker: &mut Picker, keys: &str) -> Picked {
        keys.chars().fold(Picked::Nothing, |_, char| picker.press(key_of(char)))
    }

    fn items() -> Vec<Item> {
        [(ColumnKey::Trial, "trial"), (ColumnKey::Curve, "curve"), (ColumnKey::Device, "device")]
            .map(|(key, title)| item(key, title, ""))
            .to_vec()
    }

    #[test]
    fn typing_narrows_the_list_and_enter_chooses() {
        let mut picker = Picker::new(Choosing::Sort, items());
        assert_eq!(press(&mut picker, "c↓\n"), Picked::Column(ColumnKey::Device));
        let mut none = Picker::new(Choosing::Sort, items());
        assert_eq!(press(&mut none, "q\n"), Picked::Nothing);
    }

    #[test]
    fn what_is_typed_is_looked_for_in_names_before_descriptions() {
        let items = vec![
            item(ColumnKey::Age, "age", "since it began or ended"),
            item(ColumnKey::Time, "runtime", "spent on the trial"),
            item(ColumnKey::Trial, "Time", "number"),
            item(ColumnKey::Curve, "curve", "loss over Time"),
        ];
        let mut picker = Picker::new(Choosing::Columns, items);
        press(&mut picker, "time");
        let titles: Vec<&str> = picker.visible().0.iter().map(|item| item.title.as_str()).collect();
        assert_eq!(titles, ["Time", "runtime", "curve"]);
        assert_eq!(press(&mut picker, " "), Picked::Column(ColumnKey::Trial));
    }

    #[test]
    fn columns_are_turned_on_and_off_until_the_list_is_closed() {
        let mut picker = Picker::new(Choosing::Columns, items());
        assert_eq!(press(&mut picker, "↓ "), Picked::Column(ColumnKey::Curve));
        assert!(!picker.visible().0[1].on);
        assert_eq!(press(&mut picker, "\n"), Picked::Closed);
    }
}
