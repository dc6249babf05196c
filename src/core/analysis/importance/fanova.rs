//! fANOVA: the share of a random forest's variance that each parameter causes by itself.
//!
//! Hutter, Hoos and Leyton-Brown, *An Efficient Approach for Assessing Hyperparameter Importance*
//! (ICML 2014), with the choices of Optuna 5: parameters in their own units (logarithmic ones too),
//! a column for each choice of a list. A tree is a set of boxes; the marginal of some columns at a
//! point is the mean over the boxes that contain it, each weighted with its volume in the other
//! columns. With `S` the sum of value times volume over the leaves whose boxes agree in these
//! columns, the mean square of the marginal is the sum over pairs of such groups of
//! `S S' |B and B'| / (|B| |B'|)`.
//! Optuna leaves conditional parameters out. Here each is measured among the trials where it is
//! active, together with the parameters that all of those have, and its share is weighted by those
//! trials' share of the total variance. (Imputing the middle of the range for inactive parameters,
//! as others do, leaks their activity.)

use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;

use super::forest::{Leaf, TrainingSet, grow};
use super::{EvaluatedParams, value_of};
use crate::study::seed::SeedTree;
use crate::study::space::{Dimension, Distribution};

/// Maximum number of rows that a forest is fitted to; larger sets are subsampled.
const MOST_ROWS: usize = 2000;

/// Comparable importances.
#[expect(clippy::cast_precision_loss, reason = "numbers of rows")]
pub(super) fn evaluate(
    dimensions: &[&Dimension],
    rows: &[EvaluatedParams<'_>],
    seed: u64,
) -> Vec<f64> {
    let drawn = drawn(rows, seed);
    let rows = drawn.as_deref().unwrap_or(rows);
    let everything = variance(rows);
    // Parameters that are active in the same rows share a forest.
    let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (index, dimension) in dimensions.iter().enumerate() {
        let active =
            (0..rows.len()).filter(|row| value_of(dimension, &rows[*row]).is_some()).collect();
        groups.entry(active).or_default().push(index);
    }
    let mut importances = vec![0.0; dimensions.len()];
    for (active, members) in groups {
        let part: Vec<EvaluatedParams<'_>> = active.iter().map(|row| rows[*row]).collect();
        if part.len() < 2 || everything <= 0.0 {
            continue;
        }
        let weight = part.len() as f64 / rows.len() as f64 * variance(&part) / everything;
        let always = |dimension: &&&Dimension| {
            dimension.distribution.cardinality() != Some(1)
                && part.iter().all(|row| value_of(dimension, row).is_some())
        };
        let known: Vec<&Dimension> = dimensions.iter().filter(always).copied().collect();
        let shares = shares(&known, &part, seed);
        for member in members {
            let position =
                known.iter().position(|dimension| dimension.name == dimensions[member].name);
            importances[member] = position.map_or(0.0, |position| weight * shares[position]);
        }
    }
    importances
}

/// A subsample, if there are more rows.
fn drawn<'a>(rows: &[EvaluatedParams<'a>], seed: u64) -> Option<Vec<EvaluatedParams<'a>>> {
    if rows.len() <= MOST_ROWS {
        return None;
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.shuffle(&mut SeedTree::new(seed).stream("importance/rows"));
    Some(order[..MOST_ROWS].iter().map(|row| rows[*row]).collect())
}

#[expect(clippy::cast_precision_loss, reason = "numbers of rows")]
fn variance(rows: &[EvaluatedParams<'_>]) -> f64 {
    let count = rows.len() as f64;
    let mean = rows.iter().map(|row| row.value / count).sum::<f64>();
    rows.iter().map(|row| (row.value - mean).powi(2) / count).sum()
}

/// Each parameter's share of the variance, averaged over the trees.
#[expect(clippy::cast_precision_loss, reason = "numbers of trees")]
fn shares(dimensions: &[&Dimension], rows: &[EvaluatedParams<'_>], seed: u64) -> Vec<f64> {
    let table = FeatureMatrix::new(dimensions, rows);
    let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
    let forest = grow(
        &TrainingSet { columns: &table.columns, values: &values, bounds: &table.bounds },
        seed,
    );
    let (mut sums, mut trees) = (vec![0.0; dimensions.len()], 0usize);
    for leaves in forest {
        let Some(tree) = Tree::new(leaves, &table.bounds) else { continue };
        trees += 1;
        for (sum, columns) in sums.iter_mut().zip(&table.owned) {
            *sum += tree.marginal_variance(columns.clone()) / tree.variance;
        }
    }
    sums.iter().map(|sum| sum / trees.max(1) as f64).collect()
}

/// The rows as columns of numbers.
struct FeatureMatrix {
    columns: Vec<Vec<f64>>,
    bounds: Vec<Interval>,
    /// The columns of each dimension.
    owned: Vec<std::ops::Range<usize>>,
}

impl FeatureMatrix {
    #[expect(clippy::cast_precision_loss, reason = "indices of choices, and integers below 2^53")]
    fn new(dimensions: &[&Dimension], rows: &[EvaluatedParams<'_>]) -> Self {
        let mut table =
            FeatureMatrix { columns: Vec::new(), bounds: Vec::new(), owned: Vec::new() };
        for dimension in dimensions {
            let begin = table.columns.len();
            let values: Vec<f64> = rows.iter().filter_map(|row| value_of(dimension, row)).collect();
            match &dimension.distribution {
                Distribution::Choice { choices } => {
                    for choice in 0..choices.len() {
                        table.columns.push(
                            values.iter().map(|value| f64::from(*value == choice as f64)).collect(),
                        );
                        table.bounds.push((0.0, 1.0));
                    }
                }
                Distribution::Float { low, high, .. } => {
                    table.columns.push(values);
                    table.bounds.push((*low, *high));
                }
                Distribution::Int { low, high, .. } => {
                    table.columns.push(values);
                    table.bounds.push((*low as f64, *high as f64));
                }
            }
            table.owned.push(begin..table.columns.len());
        }
        table
    }
}

/// Lower and upper bound of a box in a column.
type Interval = (f64, f64);

/// A tree as boxes of the unit cube.
struct Tree {
    /// Each leaf's difference from the tree's mean, times its volume; and its box.
    leaves: Vec<(f64, Vec<Interval>)>,
    variance: f64,
}

impl Tree {
    /// `None` if the tree is constant.
    fn new(leaves: Vec<Leaf>, ranges: &[Interval]) -> Option<Self> {
        let unit = |leaf: &Leaf| -> Vec<Interval> {
            let scaled = leaf.bounds.iter().zip(ranges).map(|((low, high), (bottom, top))| {
                let width = top - bottom;
                ((low - bottom) / width, (high - bottom) / width)
            });
            scaled.collect()
        };
        let measured = leaves.iter().map(|leaf| {
            let bounds = unit(leaf);
            let volume: f64 = bounds.iter().map(|(low, high)| high - low).product();
            (leaf.value, volume, bounds)
        });
        // A box that rounding collapsed contains no points.
        let boxes: Vec<(f64, f64, Vec<Interval>)> =
            measured.filter(|(_, volume, _)| *volume > 0.0).collect();
        let whole: f64 = boxes.iter().map(|(_, volume, _)| volume).sum();
        let mean = boxes.iter().map(|(value, volume, _)| value * volume / whole).sum::<f64>();
        let variance = boxes
            .iter()
            .map(|(value, volume, _)| (value - mean).powi(2) * volume / whole)
            .sum::<f64>();
        let leaves = boxes
            .into_iter()
            .map(|(value, volume, bounds)| ((value - mean) * volume / whole, bounds))
            .collect();
        (variance > 0.0).then_some(Tree { leaves, variance })
    }

    /// The variance of the marginal of these columns.
    fn marginal_variance(&self, columns: std::ops::Range<usize>) -> f64 {
        if columns.len() == 1 {
            self.variance_of_column(columns.start)
        } else {
            self.variance_of_group(columns)
        }
    }

    /// One column: the marginal is a step function.
    fn variance_of_column(&self, column: usize) -> f64 {
        let mut steps: Vec<Interval> = Vec::with_capacity(2 * self.leaves.len());
        for (weighted, bounds) in &self.leaves {
            let (low, high) = bounds[column];
            let density = weighted / (high - low);
            steps.push((low, density));
            steps.push((high, -density));
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut at, mut marginal, mut variance) = (0.0, 0.0, 0.0);
        for (place, change) in steps {
            variance += marginal * marginal * (place - at);
            marginal += change;
            at = place;
        }
        variance
    }

    /// Several columns: a sum over pairs of distinct boxes, of which a choice has few.
    fn variance_of_group(&self, columns: std::ops::Range<usize>) -> f64 {
        let mut groups: BTreeMap<Vec<u64>, (f64, &[Interval])> = BTreeMap::new();
        for (weighted, bounds) in &self.leaves {
            let own = &bounds[columns.clone()];
            let key = own.iter().flat_map(|(low, high)| [low.to_bits(), high.to_bits()]).collect();
            groups.entry(key).or_insert((0.0, own)).0 += weighted;
        }
        let groups: Vec<(f64, &[Interval])> = groups.into_values().collect();
        let overlap = |a: &[Interval], b: &[Interval]| -> f64 {
            a.iter()
                .zip(b)
                .map(|(a, b)| (a.1.min(b.1) - a.0.max(b.0)).max(0.0) / ((a.1 - a.0) * (b.1 - b.0)))
                .product()
        };
        let pairs =
            groups.iter().flat_map(|first| groups.iter().map(move |second| (first, second)));
        pairs.map(|((first, a), (second, b))| first * second * overlap(a, b)).sum::<f64>().max(0.0)
    }
}
