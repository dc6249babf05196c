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
pub(super) struct TrainingSet<'a> {
    /// The columns.
    pub columns: &'a [Vec<f64>],
    /// The numbers to predict, one for each row.
    pub values: &'a [f64],
    /// The columns' ranges.
    pub bounds: &'a [(f64, f64)],
}

/// The leaves of every tree of a forest.
pub(super) fn grow(training_set: &TrainingSet<'_>, seed: u64) -> Vec<Vec<Leaf>> {
    let seeds = SeedTree::new(seed);
    (0..TREES)
        .map(|tree| grow_tree(training_set, &mut seeds.stream(&format!("importance/{tree}"))))
        .collect()
}

/// A node of a tree that is not split yet.
struct UnsplitNode {
    rows: Vec<usize>,
    bounds: Vec<(f64, f64)>,
    depth: usize,
}

fn grow_tree(training_set: &TrainingSet<'_>, rng: &mut StreamRng) -> Vec<Leaf> {
    let count = training_set.values.len();
    let rows: Vec<usize> = (0..count).map(|_| rng.random_range(0..count)).collect();
    let mut unsplit = vec![UnsplitNode { rows, bounds: training_set.bounds.to_vec(), depth: 0 }];
    let mut leaves = Vec::new();
    while let Some(node) = unsplit.pop() {
        let split =
            if node.depth < DEEPEST { best_split(training_set, &node.rows, rng) } else { None };
        let Some((column, threshold)) = split else {
            leaves.push(Leaf { value: mean(training_set, &node.rows), bounds: node.bounds });
            continue;
        };
        let (below, above): (Vec<usize>, Vec<usize>) =
            node.rows.iter().partition(|row| training_set.columns[column][**row] <= threshold);
        let (mut left, mut right) = (node.bounds.clone(), node.bounds);
        left[column].1 = threshold;
        right[column].0 = threshold;
        unsplit.push(UnsplitNode { rows: below, bounds: left, depth: node.depth + 1 });
        unsplit.push(UnsplitNode { rows: above, bounds: right, depth: node.depth + 1 });
    }
    leaves
}

#[expect(clippy::cast_precision_loss, reason = "numbers of rows")]
fn mean(training_set: &TrainingSet<'_>, rows: &[usize]) -> f64 {
    rows.iter().map(|row| training_set.values[*row]).sum::<f64>() / rows.len() as f64
}

/// The column and threshold with the least squared error; `None` if no split helps. Columns are
/// tried in random order, so that ties are broken evenly.
#[expect(clippy::cast_precision_loss, reason = "numbers of rows")]
fn best_split(
    training_set: &TrainingSet<'_>,
    rows: &[usize],
    rng: &mut StreamRng,
) -> Option<(usize, f64)> {
    let first = training_set.values[*rows.first()?];
    if rows.iter().all(|row| training_set.values[*row] == first) {
        return None;
    }
    // Differences from one value avoid cancellation beside a large mean.
    let total: f64 = rows.iter().map(|row| training_set.values[*row] - first).sum();
    let mut order: Vec<usize> = (0..training_set.columns.len()).collect();
    order.shuffle(rng);
    let mut best: Option<(f64, usize, f64)> = None;
    for column in order {
        let values = &training_set.columns[column];
        let mut sorted = rows.to_vec();
        sorted.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
        let mut below = 0.0;
        for (index, pair) in sorted.windows(2).enumerate() {
            below += training_set.values[pair[0]] - first;
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
