//! Sums of embedding lookups, and their sparse gradients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::simd::{simd_level, vectorised};
use super::{BackwardInput, GradMode, InputGradient, Operation};

/// The sum of one row of each of `N` tables `[entries, width]` for each index: `[indices, width]`.
#[derive(Debug, Clone)]
pub(crate) struct EmbeddingSum<const N: usize> {
    pub(crate) width: usize,
    /// Each table's number of entries, and the indices to look up.
    pub(crate) indices: [(usize, Arc<[u32]>); N],
    /// Where sparse gradients go, keyed by the tables' parameter indices; `None`: gradients are
    /// dense.
    pub(crate) sparse_gradients: Option<(SparseGradientSink, [usize; N])>,
}

/// Some rows of a table-shaped gradient; the others are 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SparseRows {
    width: usize,
    /// The numbers of the rows, ascending.
    indices: Vec<u32>,
    /// One row after another.
    values: Vec<f32>,
}

impl SparseRows {
    /// Sums `rows` by index.
    pub(crate) fn new(width: usize, row_indices: &[u32], rows: &[f32]) -> Self {
        let mut indices = row_indices.to_vec();
        indices.sort_unstable();
        indices.dedup();
        let positions: Vec<u32> = row_indices
            .iter()
            .filter_map(|index| u32::try_from(indices.binary_search(index).ok()?).ok())
            .collect();
        let mut values = vec![0.0; indices.len() * width];
        scatter(&mut values, rows, &positions, width);
        Self { width, indices, values }
    }

    pub(crate) fn plus(self, more: &Self) -> Self {
        Self::new(
            self.width,
            &[&self.indices[..], &more.indices].concat(),
            &[&self.values[..], &more.values].concat(),
        )
    }

    /// Adds the rows to a dense table.
    pub(crate) fn add_to(&self, table: &mut [f32]) {
        scatter(table, &self.values, &self.indices, self.width);
    }

    /// The rows with their indices, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &[f32])> {
        self.indices.iter().copied().zip(self.values.chunks_exact(self.width.max(1)))
    }

    /// The values of all rows.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }
}

/// The destination of sparse gradients, keyed by the tables' parameter indices. A lock, since burn
/// decides which thread runs the backward pass, and nothing waits at the end of a channel.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseGradientSink(Arc<Mutex<BTreeMap<usize, SparseRows>>>);

impl SparseGradientSink {
    fn add(&self, table: usize, rows: SparseRows) {
        let mut by_table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = match by_table.remove(&table) {
            Some(before) => before.plus(&rows),
            None => rows,
        };
        by_table.insert(table, sum);
    }

    pub(crate) fn take(&self) -> BTreeMap<usize, SparseRows> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<const N: usize> Operation<N> for EmbeddingSum<N> {
    const SAVES_INPUT: [bool; N] = [false; N];
    type Saved = ();

    fn forward(&self, tables: [&[f32]; N], _: GradMode) -> (Vec<f32>, ()) {
        let rows = self.indices.first().map_or(0, |(_, indices)| indices.len());
        let mut output: Vec<f32> = Vec::with_capacity(rows * self.width);
        let entry = |table: usize, row: usize| {
            &tables[table][self.indices[table].1[row] as usize * self.width..][..self.width]
        };
        for row in 0..rows {
            output.extend_from_slice(entry(0, row));
            for table in 1..N {
                let sum = &mut output[row * self.width..];
                sum.iter_mut().zip(entry(table, row)).for_each(|(sum, value)| *sum += value);
            }
        }
        (output, ())
    }

    fn backward(&self, pass: BackwardInput<N, ()>) -> [InputGradient; N] {
        let BackwardInput { gradient, needs_grad, .. } = pass;
        std::array::from_fn(|table| {
            let (entries, indices) = &self.indices[table];
            if let Some((sink, parameters)) =
                self.sparse_gradients.as_ref().filter(|_| needs_grad[table])
            {
                sink.add(parameters[table], SparseRows::new(self.width, indices, gradient));
                return InputGradient::NotNeeded;
            }
            InputGradient::if_needed(needs_grad[table], || {
                let mut gradients = vec![0.0; entries * self.width];
                scatter(&mut gradients, gradient, indices, self.width);
                gradients
            })
        })
    }
}

vectorised! {
    /// Adds each row to the row of the table with its index.
    fn scatter(table: &mut [f32], rows: &[f32], indices: &[u32], width: usize) {
        for (row, index) in rows.chunks_exact(width.max(1)).zip(indices) {
            let entry = &mut table[*index as usize * width..][..width];
            entry.iter_mut().zip(row).for_each(|(entry, value)| *entry += value);
        }
    }
}
