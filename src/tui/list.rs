//! The selected row of a list of trials that is loaded in parts and changes while it is looked at.

use super::trial_key::TrialKey;

/// How the selected row is kept when trials change places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The first row, whichever trial is there.
    #[default]
    First,
    /// The trial that will be found on the selected row when it is loaded.
    Take,
    /// This trial, wherever it goes among the rows that are loaded.
    Follow(TrialKey),
}

/// A step of a selection, or of a text that is scrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// So many rows down, or up.
    By(isize),
    /// So many pages down, or up.
    Pages(isize),
    /// The first row.
    First,
    /// The last row.
    Last,
}

impl Movement {
    /// Where it leads from a row, of rows from 0 to `last`.
    pub fn applied(self, row: usize, page: usize, last: usize) -> usize {
        let page = isize::try_from(page).unwrap_or(isize::MAX);
        match self {
            Movement::By(rows) => row.saturating_add_signed(rows).min(last),
            Movement::Pages(pages) => {
                row.saturating_add_signed(pages.saturating_mul(page)).min(last)
            }
            Movement::First => 0,
            Movement::Last => last,
        }
    }

    /// The same where rows are counted from the bottom.
    pub fn reversed(self) -> Movement {
        match self {
            Movement::By(rows) => Movement::By(-rows),
            Movement::Pages(pages) => Movement::Pages(-pages),
            Movement::First => Movement::Last,
            Movement::Last => Movement::First,
        }
    }
}

/// Where the selection is, and which rows are visible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    selected: usize,
    offset: usize,
    selection: Selection,
    /// 0 before the first [`List::resize`].
    page: usize,
    total: usize,
    first_loaded: usize,
    loaded: Vec<TrialKey>,
}

impl List {
    /// The selected row, from 0.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The first visible row.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many rows are visible.
    pub fn page(&self) -> usize {
        self.page.max(1)
    }

    /// The rows to load, as offset and limit: the visible ones lie inside until the selection
    /// leaves a page.
    pub fn window(&self) -> (u64, u64) {
        let page = self.page();
        ((self.offset / page * page) as u64, 2 * page as u64)
    }

    /// The screen now holds `rows` rows: the selected one stays among them.
    pub fn resize(&mut self, rows: usize) {
        self.page = rows;
        self.keep_visible();
    }

    /// There are `total` rows, and `loaded` are those from `first` on: the selection follows its
    /// trial.
    pub fn loaded(&mut self, total: u64, first: u64, loaded: Vec<TrialKey>) {
        let rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        (self.total, self.first_loaded, self.loaded) = (rows(total), rows(first), loaded);
        if let Selection::Follow(trial) = self.selection
            && !self.select(trial)
        {
            // It went too far: the row is kept, with the trial that is there now.
            self.selection = Selection::Take;
        }
        self.keep_visible();
        self.take();
    }

    /// The trial on the selected row, if it is loaded.
    pub fn trial(&self) -> Option<TrialKey> {
        self.loaded.get(self.selected.checked_sub(self.first_loaded)?).copied()
    }

    /// Moves the selection.
    pub fn go(&mut self, movement: Movement) {
        self.selected = movement.applied(self.selected, self.page(), self.total.saturating_sub(1));
        self.selection =
            if movement == Movement::First { Selection::First } else { Selection::Take };
        self.keep_visible();
        self.take();
    }

    /// Selects `trial` where it is among the loaded rows; whether it was found.
    pub fn select(&mut self, trial: TrialKey) -> bool {
        let Some(row) = self.loaded.iter().position(|loaded| *loaded == trial) else {
            return false;
        };
        self.selected = self.first_loaded + row;
        self.selection = Selection::Follow(trial);
        self.keep_visible();
        true
    }

    /// To the first row, for another list: nothing is known of its rows yet.
    pub fn restart(&mut self) {
        *self = List { page: self.page, ..List::default() };
    }

    fn take(&mut self) {
        if let (Selection::Take, Some(trial)) = (self.selection, self.trial()) {
            self.selection = Selection::Follow(trial);
        }
    }

    fn keep_visible(&mut self) {
        self.selected = self.selected.min(self.total.saturating_sub(1));
        self.offset =
            self.offset.min(self.selected).max((self.selected + 1).saturating_sub(self.page()));
        // A taller screen shows no empty rows while there are trials above.
        self.offset = self.offset.min(self.total.saturating_sub(self.page()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::StudyId;
    use crate::study::trial::TrialNumber;

    fn key(number: u64) -> TrialKey {
        TrialKey { study: StudyId(1), number: TrialNumber(number) }
    }

    fn list(trials: impl Iterator<Item = u64>) -> List {
        let mut list = List::default();
        list.resize(10);
        list.loaded(100, 0, trials.map(key).collect());
        list
    }

    #[test]
    fn the_selection_follows_its_trial_and_the_first_row_stays_first() {
        let reversed = || (0..20).rev().map(key).collect::<Vec<_>>();
        let mut untouched = list(0..20);
        untouched.loaded(100, 0, reversed());
        assert_eq!(untouched.trial(), Some(key(19)));
        let mut moved = list(0..20);
        moved.go(Movement::By(1));
        moved.loaded(100, 0, reversed());
        assert_eq!((moved.selected, moved.trial(), moved.offset), (18, Some(key(1)), 9));
    }

    #[test]
    fn moving_past_the_page_scrolls_and_stops_at_the_ends() {
        let mut list = list(0..20);
        list.go(Movement::Pages(1));
        assert_eq!((list.selected, list.offset), (10, 1));
        list.go(Movement::Last);
        assert_eq!((list.selected, list.offset, list.trial()), (99, 90, None));
        list.go(Movement::By(1));
        assert_eq!((list.selected, list.offset), (99, 90));
        list.go(Movement::First);
        assert_eq!((list.selected, list.offset), (0, 0));
    }

    #[test]
    fn what_is_visible_is_inside_the_window_that_is_loaded() {
        let mut list = list(0..20);
        for _ in 0..99 {
            list.go(Movement::By(1));
            let (first, limit) = list.window();
            let (offset, page) = (list.offset as u64, list.page as u64);
            assert!(first <= offset && offset + page <= first + limit, "{list:?}");
        }
    }

    #[test]
    fn a_trial_that_went_too_far_leaves_its_row_selected() {
        let mut list = list(0..20);
        list.go(Movement::By(3));
        list.loaded(100, 0, (40..60).map(key).collect());
        assert_eq!((list.selected, list.trial()), (3, Some(key(43))));
    }

    #[test]
    fn a_taller_screen_shows_no_empty_rows_while_there_are_trials_above() {
        let mut list = list(0..20);
        list.go(Movement::Last);
        list.resize(40);
        assert_eq!((list.selected, list.offset), (99, 60));
    }

    #[test]
    fn nothing_happens_to_an_empty_list() {
        let mut list = List::default();
        let steps = [Movement::By(1), Movement::By(-1), Movement::Pages(3)];
        for movement in steps.into_iter().chain([Movement::Last, Movement::First]) {
            list.go(movement);
        }
        assert_eq!((list.selected, list.offset, list.trial()), (0, 0, None));
    }
}
