//! What is sorted by, which columns are shown, which trials pass: chosen from lists, by
//! neighbouring columns, by a filter.

use ratatui::crossterm::event::KeyEvent;

use super::{Command, Overlay, TuiState};
use crate::study::query::{Filter, SortKey};
use crate::tui::columns::ColumnKey;
use crate::tui::picker::{Choosing, Item, Picked, Picker};

impl TuiState {
    pub(super) fn pick(&mut self, choosing: Choosing) {
        let table = &self.seen.table;
        let sorted = ColumnKey::of(&self.sort);
        let is_offered = |key: &ColumnKey| match choosing {
            Choosing::Sort => key.sort_key().is_some() && *key != ColumnKey::Rank,
            Choosing::Columns => !key.is_fixed() && key.objective(table).is_none(),
        };
        let item = |key: ColumnKey| Item {
            title: key.title(table),
            about: key.about(table),
            on: if choosing == Choosing::Sort { key == sorted } else { self.settings.shows(&key) },
            key,
        };
        let items = ColumnKey::all(&self.seen).into_iter().filter(is_offered).map(item).collect();
        self.overlay = Some(Overlay::Picker(Picker::new(choosing, items)));
    }

    pub(super) fn press_in_picker(&mut self, mut picker: Picker, key: KeyEvent) -> Command {
        match (picker.press(key), picker.choosing) {
            (Picked::Nothing, _) => self.overlay = Some(Overlay::Picker(picker)),
            (Picked::Closed, _) => {}
            (Picked::Column(column), Choosing::Columns) => {
                self.settings.toggle(&column);
                self.overlay = Some(Overlay::Picker(picker));
                return Command::Keep;
            }
            (Picked::Column(column), Choosing::Sort) => {
                if let Some(sort) = column.sort_key() {
                    // The same again turns it round.
                    let reverse = sort == self.sort && !self.reverse;
                    return self.set_sort(sort, reverse);
                }
            }
        }
        Command::Redraw
    }

    /// Sorts by the neighbour of the column that is sorted by, among those that are shown.
    pub(super) fn sort_beside(&mut self, right: bool) -> Command {
        let current = ColumnKey::of(&self.sort);
        let is_offered = |key: &ColumnKey| {
            key.sort_key().is_some()
                && *key != ColumnKey::Rank
                && (self.settings.shows_in(&self.seen.table, key) || *key == current)
        };
        let mut columns: Vec<ColumnKey> =
            ColumnKey::all(&self.seen).into_iter().filter(is_offered).collect();
        if !right {
            columns.reverse();
        }
        let at = columns.iter().position(|key| *key == current).unwrap_or(0);
        match columns.get(at + 1).and_then(ColumnKey::sort_key) {
            Some(sort) => self.set_sort(sort, false),
            None => Command::Ignore,
        }
    }

    pub(super) fn set_sort(&mut self, sort: SortKey, reverse: bool) -> Command {
        let word = match &sort {
            SortKey::Value => "value".to_owned(),
            SortKey::Number => "number".to_owned(),
            SortKey::Step => "step".to_owned(),
            SortKey::Seconds => "seconds".to_owned(),
            SortKey::State => "state".to_owned(),
            SortKey::Created => "created".to_owned(),
            SortKey::Started => "started".to_owned(),
            SortKey::Param(name) => format!("params.{name}"),
            SortKey::Metric(name) => format!("metrics.{name}"),
        };
        self.settings.sort = Some(if reverse { format!("-{word}") } else { word });
        (self.sort, self.reverse) = (sort, reverse);
        self.list.restart();
        self.opened = None;
        Command::Keep
    }

    pub(super) fn set_filter(&mut self, filter: Filter) {
        if filter != self.filter {
            self.filter = filter;
            self.list.restart();
            self.opened = None;
        }
    }
}
