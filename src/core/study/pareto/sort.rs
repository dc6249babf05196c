//! Non-dominated sorting, and the crowding of a front.

use std::cmp::Ordering;

/// Whether `a` is nowhere worse than `b`, and better somewhere.
pub(super) fn dominates(a: &[f64], b: &[f64]) -> bool {
    let mut is_better = false;
    for (a, b) in a.iter().zip(b) {
        if a > b {
            return false;
        }
        is_better |= a < b;
    }
    is_better
}

/// The non-domination rank of each point: 0 for the front, 1 for the front without these, and so
/// on (K. Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", 2002).
///
/// In lexicographic order no point is dominated by a later one, so each point belongs to the first
/// front that does not dominate it, found by bisection: ENS-BS (X. Zhang et al., "An efficient
/// approach to nondominated sorting for evolutionary multiobjective optimization", 2015). With two
/// objectives a front is represented by its last point: O(n log n). With more it is O(n^2) in the
/// worst case.
pub fn ranks(points: &[Vec<f64>]) -> Vec<usize> {
    let mut ranks = vec![0; points.len()];
    // By front: its points in the order of insertion.
    let mut fronts: Vec<Vec<usize>> = Vec::new();
    for index in lexicographic(points) {
        let point = &points[index];
        let rank = fronts.partition_point(|front| is_dominated_by_any(point, front, points));
        if rank == fronts.len() {
            fronts.push(Vec::new());
        }
        fronts[rank].push(index);
        ranks[index] = rank;
    }
    ranks
}

/// The indices of the points that no other dominates, ascending. Equal points all stay.
pub fn front(points: &[Vec<f64>]) -> Vec<usize> {
    let mut front: Vec<usize> = Vec::new();
    for index in lexicographic(points) {
        if !is_dominated_by_any(&points[index], &front, points) {
            front.push(index);
        }
    }
    front.sort_unstable();
    front
}

/// Whether a member of `front`, whose points come in lexicographic order before `point`, dominates
/// it.
fn is_dominated_by_any(point: &[f64], front: &[usize], points: &[Vec<f64>]) -> bool {
    if point.len() <= 2 {
        // The last has the smallest second loss.
        return front.last().is_some_and(|last| dominates(&points[*last], point));
    }
    // Of the latest, one is the likeliest.
    front.iter().rev().any(|other| dominates(&points[*other], point))
}

fn lexicographic(points: &[Vec<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| compare(&points[*a], &points[*b]).then(a.cmp(b)));
    order
}

fn compare(a: &[f64], b: &[f64]) -> Ordering {
    a.partial_cmp(b).unwrap_or(Ordering::Equal)
}

/// The crowding distance of each point among `points`, which should be one front: the sum over the
/// objectives of the distance between its two neighbours, as a share of the front's width; infinite
/// at both ends (NSGA-II). Infinite losses do not count in the width, and the distance between two
/// equal infinities is 0, as in Optuna. An objective in which all are equal is ignored.
pub fn crowding(points: &[Vec<f64>]) -> Vec<f64> {
    let mut distances = vec![0.0; points.len()];
    for objective in 0..points.first().map_or(0, Vec::len) {
        let mut order: Vec<usize> = (0..points.len()).collect();
        order
            .sort_by(|a, b| points[*a][objective].total_cmp(&points[*b][objective]).then(a.cmp(b)));
        let loss = |place: usize| points[order[place]][objective];
        let last = order.len() - 1;
        if loss(0) == loss(last) {
            continue;
        }
        let finite = || (0..order.len()).map(loss).filter(|loss| loss.is_finite());
        let width = finite().next_back().unwrap_or(0.0) - finite().next().unwrap_or(0.0);
        let width = if width > 0.0 { width } else { 1.0 };
        for (place, index) in order.iter().enumerate() {
            let below = place.checked_sub(1).map_or(f64::NEG_INFINITY, loss);
            let above = if place < last { loss(place + 1) } else { f64::INFINITY };
            let gap = if below == above { 0.0 } else { (above - below) / width };
            // An overflowing width is infinite, and infinity by it is not a number.
            distances[*index] += if gap.is_nan() { 1.0 } else { gap };
        }
    }
    distances
}
