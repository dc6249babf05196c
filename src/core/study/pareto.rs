//! Pareto fronts of several objectives, as losses: vectors of equal length, smaller is better.
//!
//! Infinities are values as others are; NaN does not occur, because [`losses`] replaces it.

mod hypervolume;
mod sort;

pub use hypervolume::{
    Work, contributions, hypervolume, hypervolume_within, measurable_points, reference_point,
    select,
};
pub use sort::{crowding, front, ranks};

use crate::study::metric::Direction;

/// Values as losses: smaller is better, NaN becomes infinity, so that it never dominates.
pub fn losses(directions: &[Direction], values: &[f64]) -> Vec<f64> {
    let loss = |(direction, value): (&Direction, &f64)| {
        let loss = direction.loss(*value);
        if loss.is_nan() { f64::INFINITY } else { loss + 0.0 }
    };
    directions.iter().zip(values).map(loss).collect()
}

/// Whether `a` is nowhere worse than `b`, and better somewhere.
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    sort::dominates(a, b)
}

/// All points from best to worst: by non-domination rank, then the points of a rank as greedy
/// subset selection takes them ([`select`]), on objectives replaced by their ranks.
///
/// Ranks make the order independent of the objectives' scales and of outliers, and need no
/// reference point that moves with the study: one unit of an objective is one point of the set.
/// Greedy selection rather than exclusive contributions, because neighbours have small
/// contributions while both are present, so that a crowded region would be dropped as a whole. Of
/// equal points the first ranks as its place on the front says, the others behind all different
/// points of their front.
pub fn order(points: &[Vec<f64>]) -> Vec<usize> {
    order_with(points, Ties::First)
}

/// Which of several points on a front comes first if they add equal volumes. Objectives counted in
/// ranks make that common: on a front of which nothing is dominated, all neighbours are one rank
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The first: over time, all newcomers are behind.
    First,
    /// The one in the sparsest part of the front ([`crowding`], of losses, not ranks), so that its
    /// ends come first; then by a hash of the losses, which prefers neither old nor new points.
    Sparse,
}

/// The same as [`order`] with another rule for ties.
#[expect(clippy::cast_precision_loss, reason = "a number of points")]
pub fn order_with(points: &[Vec<f64>], ties: Ties) -> Vec<usize> {
    let scaled = by_ranks(points);
    let count = points.len() as f64;
    let mut fronts: Vec<Vec<usize>> = Vec::new();
    for (index, rank) in ranks(points).into_iter().enumerate() {
        if fronts.len() <= rank {
            fronts.resize_with(rank + 1, Vec::new);
        }
        fronts[rank].push(index);
    }
    let sorted = |front: Vec<usize>| {
        let own: Vec<Vec<f64>> = front.iter().map(|index| scaled[*index].clone()).collect();
        let reference = vec![count; own.first().map_or(0, Vec::len)];
        let places = match ties {
            Ties::First => (0..own.len()).collect(),
            Ties::Sparse => sparsest_first(front.iter().map(|index| points[*index].clone())),
        };
        let sorted = hypervolume::select_by(&own, &reference, own.len(), &places);
        sorted.into_iter().map(move |place| front[place])
    };
    fronts.into_iter().flat_map(sorted).collect()
}

/// The place of each point of a front, in the order of [`Ties::Sparse`].
fn sparsest_first(front: impl Iterator<Item = Vec<f64>>) -> Vec<usize> {
    let front: Vec<Vec<f64>> = front.collect();
    let distances = crowding(&front);
    let mut sorted: Vec<usize> = (0..front.len()).collect();
    sorted.sort_by(|a, b| {
        let by_distance = distances[*b].total_cmp(&distances[*a]);
        by_distance.then_with(|| hash(&front[*a]).cmp(&hash(&front[*b]))).then(a.cmp(b))
    });
    let mut places = vec![0; front.len()];
    sorted.into_iter().enumerate().for_each(|(place, index)| places[index] = place);
    places
}

/// A hash of losses (FNV-1a, 64 bits, over their bytes), the same on every machine.
fn hash(losses: &[f64]) -> u64 {
    let bytes = losses.iter().flat_map(|loss| loss.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Each objective as the number of points that are better in it: integers, whose products are
/// exact, so that ties are.
#[expect(clippy::cast_precision_loss, reason = "numbers of points")]
fn by_ranks(points: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut scaled: Vec<Vec<f64>> = points.to_vec();
    for objective in 0..points.first().map_or(0, Vec::len) {
        let mut losses: Vec<f64> = points.iter().map(|point| point[objective]).collect();
        losses.sort_by(f64::total_cmp);
        for point in &mut scaled {
            point[objective] = losses.partition_point(|loss| *loss < point[objective]) as f64;
        }
    }
    scaled
}

/// The index of the front's knee: the point that lies farthest below the plane through the front's
/// extremes, after each objective is scaled to `[0, 1]` over the front (I. Das, "On characterizing
/// the knee of the Pareto curve based on normal-boundary intersection", Structural Optimization
/// 18, 1999, with the plane where the scaled losses sum to 1). Ties go to the first.
///
/// `None` if no point lies below the plane: straight and concave fronts, and fronts of fewer than
/// three different points, have no knee. Points with an infinite loss take no part.
pub fn knee(points: &[Vec<f64>]) -> Option<usize> {
    let is_finite = |index: &usize| points[*index].iter().all(|loss| loss.is_finite());
    let front: Vec<usize> = front(points).into_iter().filter(is_finite).collect();
    let objectives = points.first().map_or(0, Vec::len);
    let mut sums = vec![0.0; front.len()];
    let of_front = |objective: usize| -> Vec<f64> {
        // Halves: the difference of two finite losses may overflow.
        front.iter().map(|index| points[*index][objective] / 2.0).collect()
    };
    for losses in (0..objectives).map(of_front) {
        let low = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let width = losses.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low;
        if width > 0.0 {
            sums.iter_mut().zip(losses).for_each(|(sum, loss)| *sum += (loss - low) / width);
        }
    }
    let (place, sum) = sums.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?;
    (objectives > 1 && front.len() > 2 && *sum < 1.0 - 1e-9).then(|| front[place])
}

#[cfg(test)]
mod tests;
