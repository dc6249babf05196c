//! Rows of tables by their numbers, summed over several tables: a token's word, place and kind.

use std::sync::Arc;

use super::lanes::vectorised;
use super::{Operation, Purpose, Slope};

/// Row by row the sum of one entry of each of `N` tables `[entries, width]`: `[rows, width]`.
#[derive(Debug, Clone)]
pub(in crate::trainer) struct Lookup<const N: usize> {
    /// Columns of all tables.
    pub(in crate::trainer) width: usize,
    /// Each table's number of entries, and the entry that each row takes.
    pub(in crate::trainer) taken: [(usize, Arc<[u32]>); N],
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
