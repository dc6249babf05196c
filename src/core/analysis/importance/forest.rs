//! A random forest of regression trees: each on a bootstrap sample, split where the squared error
//! falls most.

use rand::RngExt as _;
use rand::seq::SliceRandom as _;

use crate::study::seed::{SeedTree, StreamRng};

/// Trees of a forest.
const TREES: u64 = 64;
/// Maximum depth of a tree.
const DEEPEST: usize = 64;
/// Values closer than this are equal (scikit-learn's threshold).
const NEAREST: f64 = 1e-7;

/// A leaf: its prediction, and its box in the columns' own units.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// The mean value of its rows.
    pub value: f64,
    /// Lower and upper bound in each column.
    pub bounds: Vec<(f64, f64)>,
}

/// Training rows: numeric columns of the same length as `values`.
pub(super) struct Sample<'a> {
    /// The columns.
    pub columns: &'a [Vec<f64>],
    /// The numbers to predict, one for each row.
    pub values: &'a [f64],
    /// The columns' ranges.
    pub bounds: &'a [(f64, f64)],
}

/// The leaves of every tree of a forest.
pub(super) fn grow(sample: &Sample<'_>, seed: u64) -> Vec<Vec<Leaf>> {
    let seeds = SeedTree::new(seed);
    (0..TREES)
        .map(|tree| grow_tree(sample, &mut seeds.stream(&format!("importance/{tree}"))))
        .collect()
}

/// A part of a tree that is not split yet.
struct Part {
    rows: Vec<usize>,
    bounds: Vec<(f64, f64)>,
    depth: usize,
}

fn grow_tree(sample: &Sample<'_>, rng: &mut StreamRng) -> Vec<Leaf> {
    let count = sample.values.len();
    let rows: Vec<usize> = (0..count).map(|_| rng.random_range(0..count)).collect();
    let mut parts = vec![Part { rows, bounds: sample.bounds.to_vec(), depth: 0 }];
    let mut leaves = Vec::new();
    while let Some(part) = parts.pop() {
        let split = if part.depth < DEEPEST { best_split(sample, &part.rows, rng) } else { None };
        let Some((column, threshold)) = split else {
            leaves.push(Leaf { value: mean(sample, &part.rows), bounds: part.bounds });
            continue;
        };
        let (below, above): (Vec<usize>, Vec<usize>) =
            part.rows.iter().partition(|row| sample.columns[column][**row] <= threshold);
        let (mut left, mut right) = (part.bounds.clone(), part.bounds);
        left[column].1 = threshold;
        right[column].0 = threshold;
        parts.push(Part { rows: below, bounds: left, depth: part.depth + 1 });
        parts.push(Part { rows: above, bounds: right, depth: part.depth + 1 });
    }
    leaves
}

#[expect(clippy::cast_precision_loss, reason = "numbers of rows")]
fn mean(sample: &Sample<'_>, rows: &[usize]) -> f64 {
    rows.iter().map(|row| sample.values[*row]).sum::<f64>() / rows.len() as f64
}

/// The column and threshold with the least squared error; `None` if no split helps. Columns are
/// tried in random order, so that ties are broken evenly.
#[expect(clippy::cast_precision_loss, reason = "numbers of rows")]
fn best_split(sample: &Sample<'_>, rows: &[usize], rng: &mut StreamRng) -> Option<(usize, f64)> {
    let first = sample.values[*rows.first()?];
    if rows.iter().all(|row| sample.values[*row] == first) {
        return None;
    }
    // Differences from one value avoid cancellation beside a large mean.
    let total: f64 = rows.iter().map(|row| sample.values[*row] - first).sum();
    let mut order: Vec<usize> = (0..sample.columns.len()).collect();
    order.shuffle(rng);
    let mut best: Option<(f64, usize, f64)> = None;
    for column in order {
        let values = &sample.columns[column];
        let mut sorted = rows.to_vec();
        sorted.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
        let mut below = 0.0;
        for (index, pair) in sorted.windows(2).enumerate() {
            below += sample.values[pair[0]] - first;
            let (low, high) = (values[pair[0]], values[pair[1]]);
            if high <= low + NEAREST {
                continue;
            }
            let (left, right) = ((index + 1) as f64, (rows.len() - index - 1) as f64);
            let gain = below * below / left + (total - below) * (total - below) / right;
            if best.is_none_or(|(best, ..)| gain > best) {
                best = Some((gain, column, low / 2.0 + high / 2.0));
            }
        }
    }
    best.map(|(_, column, threshold)| (column, threshold))
}
