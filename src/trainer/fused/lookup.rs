//! Rows of tables by their numbers, summed over several tables: a token's word, place and kind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::lanes::vectorised;
use super::{Operation, Purpose, Slope};

/// Row by row the sum of one entry of each of `N` tables `[entries, width]`: `[rows, width]`.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct Lookup<const N: usize> {
    /// Columns of all tables.
    pub(in crate::trainer) width: usize,
    /// Each table's number of entries, and the entry that each row takes.
    pub(in crate::trainer) taken: [(usize, Arc<[u32]>); N],
    /// Where gradients go that are of entries only, and the tables' numbers there; `None`: they are as large as the tables.
    pub(in crate::trainer) aside: Option<(Aside, [usize; N])>,
}

/// Numbers of some entries of a table; those of the others are 0.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::trainer) struct Entries {
    width: usize,
    /// The entries, ascending.
    ids: Vec<u32>,
    /// Their numbers one after another.
    numbers: Vec<f32>,
}

impl Entries {
    /// The sums of the rows of each entry.
    pub(in crate::trainer) fn new(width: usize, taken: &[u32], rows: &[f32]) -> Self {
        let mut ids = taken.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let places: Vec<u32> = taken.iter().filter_map(|id| u32::try_from(ids.binary_search(id).ok()?).ok()).collect();
        let mut numbers = vec![0.0; ids.len() * width];
        scatter(&mut numbers, rows, &places, width);
        Self { width, ids, numbers }
    }

    /// The sum with other entries of the same table.
    pub(in crate::trainer) fn plus(self, more: &Self) -> Self {
        Self::new(self.width, &[&self.ids[..], &more.ids].concat(), &[&self.numbers[..], &more.numbers].concat())
    }

    /// Adds them to a whole table.
    pub(in crate::trainer) fn add_to(&self, table: &mut [f32]) {
        scatter(table, &self.numbers, &self.ids, self.width);
    }

    /// The entries with their numbers, ascending.
    pub(in crate::trainer) fn iter(&self) -> impl Iterator<Item = (u32, &[f32])> {
        self.ids.iter().copied().zip(self.numbers.chunks_exact(self.width.max(1)))
    }

    /// All numbers that are not 0 for certain.
    pub(in crate::trainer) fn numbers(&self) -> &[f32] {
        &self.numbers
    }
}

/// Where lookups leave gradients of entries, by the tables' numbers. Burn decides which thread walks its graph, and nobody waits at the end of
/// a channel: hence the lock.
#[derive(Debug, Clone, Default)]
pub(in crate::trainer) struct Aside(Arc<Mutex<BTreeMap<usize, Entries>>>);

impl Aside {
    fn add(&self, table: usize, entries: Entries) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = match found.remove(&table) {
            Some(before) => before.plus(&entries),
            None => entries,
        };
        found.insert(table, sum);
    }

    /// What was left, taken away.
    pub(in crate::trainer) fn take(&self) -> BTreeMap<usize, Entries> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<const N: usize> Operation<N> for Lookup<N> {
    const NEEDS: [bool; N] = [false; N];
    type Kept = ();

    fn forward(&self, tables: [&[f32]; N], _: Purpose) -> (Vec<f32>, ()) {
        let rows = self.taken.first().map_or(0, |(_, ids)| ids.len());
        let mut output: Vec<f32> = Vec::with_capacity(rows * self.width);
        let entry = |table: usize, row: usize| &tables[table][self.taken[table].1[row] as usize * self.width..][..self.width];
        for row in 0..rows {
            output.extend_from_slice(entry(0, row));
            for table in 1..N {
                let sum = &mut output[row * self.width..];
                sum.iter_mut().zip(entry(table, row)).for_each(|(sum, number)| *sum += number);
            }
        }
        (output, ())
    }

    fn backward(&self, _: [&[f32]; N], (): (), gradient: &[f32], wanted: [bool; N]) -> [Slope; N] {
        std::array::from_fn(|table| {
            let (entries, ids) = &self.taken[table];
            if let Some((aside, places)) = self.aside.as_ref().filter(|_| wanted[table]) {
                aside.add(places[table], Entries::new(self.width, ids, gradient));
                return Slope::Unwanted;
            }
            Slope::when(wanted[table], || {
                let mut slopes = vec![0.0; entries * self.width];
                scatter(&mut slopes, gradient, ids, self.width);
                slopes
            })
        })
    }
}

vectorised! {
    /// Adds each row to the entry it was taken from.
    fn scatter(table: &mut [f32], rows: &[f32], ids: &[u32], width: usize) {
        for (row, id) in rows.chunks_exact(width.max(1)).zip(ids) {
            let entry = &mut table[*id as usize * width..][..width];
            entry.iter_mut().zip(row).for_each(|(entry, number)| *entry += number);
        }
    }
}
