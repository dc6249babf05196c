//! Exact hypervolumes: of a set, of each point alone, and the subset that is greedily best.

use super::sort;

/// Points that greedy selection takes before it orders the rest by their last known contributions,
/// with two, three and more objectives: a limit on time.
const GREEDY: [usize; 3] = [400, 150, 40];

/// The volume that `points` dominate below `reference`, exactly: a sweep for two objectives, for
/// more WFG (L. While, L. Bradstreet and L. Barone, "A fast way of calculating exact
/// hypervolumes", 2012), which slices off one objective at a time.
///
/// Points that are not below the reference in every objective add nothing. Infinite if a point that
/// counts, or the reference, is infinitely good or bad.
pub fn hypervolume(points: &[Vec<f64>], reference: &[f64]) -> f64 {
    measured(points, reference, &mut Work::unlimited())
}

/// The same, unless it takes too long: the time grows exponentially with the number of objectives.
pub fn hypervolume_within(points: &[Vec<f64>], reference: &[f64], work: &mut Work) -> Option<f64> {
    let volume = measured(points, reference, work);
    (work.left > 0).then_some(volume)
}

fn measured(points: &[Vec<f64>], reference: &[f64], work: &mut Work) -> f64 {
    let inside: Vec<Vec<f64>> =
        points.iter().filter(|point| is_inside(point, reference)).cloned().collect();
    if inside.is_empty() {
        return 0.0;
    }
    let front = sort::front(&inside);
    let mut set = Set::new(reference.len());
    front.into_iter().for_each(|index| set.push(inside[index].iter().copied()));
    let volume = set.volume(reference, work);
    // A difference of infinities.
    if volume.is_nan() { f64::INFINITY } else { volume }
}

/// About how many points of a front [`hypervolume_within`] measures with the default [`Work`];
/// `None` with few objectives, of which it measures more than a study has trials. Of points spread
/// evenly over a plane; the test of this function repeats some.
pub fn measurable_points(objectives: usize) -> Option<u64> {
    const FROM_SIX: [u64; 6] = [400, 150, 80, 50, 40, 30];
    let beyond = objectives.checked_sub(6)?;
    Some(FROM_SIX.get(beyond).copied().unwrap_or(20))
}

/// The exclusive hypervolume of each point: how much the set's falls without it. 0 for dominated
/// points, for equal ones, and where it is a difference of infinities.
pub fn contributions(points: &[Vec<f64>], reference: &[f64]) -> Vec<f64> {
    let mut contributions = vec![0.0; points.len()];
    let front = sort::front(points);
    for index in &front {
        let others = front.iter().filter(|other| *other != index).map(|other| &points[*other]);
        contributions[*index] = exclusive(&points[*index], others, reference);
    }
    contributions
}

/// `count` of the points, in the order in which each adds most to the hypervolume of those before
/// it; ties go to the first. The greedy answer to the hypervolume subset selection problem: at
/// least `1 - 1/e` of the best subset's volume (A. Guerreiro et al., "Greedy hypervolume subset
/// selection in low dimensions", 2016).
///
/// Additions only shrink as the set grows, so that most need not be computed again (lazy greedy).
/// After a few hundred points, fewer with many objectives, the rest follow by the last known ones.
pub fn select(points: &[Vec<f64>], reference: &[f64], count: usize) -> Vec<usize> {
    let places: Vec<usize> = (0..points.len()).collect();
    select_by(points, reference, count, &places)
}

/// The same, where ties go to the point with the smallest of `places`, which are all different.
pub(super) fn select_by(
    points: &[Vec<f64>],
    reference: &[f64],
    count: usize,
    places: &[usize],
) -> Vec<usize> {
    let greedy = match reference.len() {
        0..=2 => GREEDY[0],
        3 => GREEDY[1],
        _ => GREEDY[2],
    };
    let mut gains: Vec<f64> =
        points.iter().map(|point| exclusive(point, std::iter::empty(), reference)).collect();
    // By descending gain; the next is the last.
    let mut waiting: Vec<usize> = (0..points.len()).collect();
    let comes_later = |gains: &[f64], a: usize, b: usize| {
        gains[a].total_cmp(&gains[b]).then(places[b].cmp(&places[a]))
    };
    waiting.sort_by(|a, b| comes_later(&gains, *a, *b));
    let mut selected: Vec<usize> = Vec::with_capacity(count.min(points.len()));
    // By point: how many were selected when its gain was computed.
    let mut known_at = vec![0; points.len()];
    while selected.len() < count.min(greedy) {
        let Some(next) = waiting.pop() else { return selected };
        if known_at[next] == selected.len() || gains[next] <= 0.0 {
            selected.push(next);
            continue;
        }
        let others = selected.iter().map(|other| &points[*other]);
        gains[next] = exclusive(&points[next], others, reference);
        known_at[next] = selected.len();
        let place = waiting.partition_point(|other| comes_later(&gains, *other, next).is_lt());
        waiting.insert(place, next);
    }
    let left = count.min(points.len()) - selected.len();
    selected.extend(waiting.into_iter().rev().take(left));
    selected
}

/// The reference point of a set: the worst loss of its front in each objective plus a tenth of the
/// front's width, the rule of BoTorch's `infer_reference_point`. Where the front has no width, a
/// tenth of the loss, and .1 at 0. Points with an infinite loss take no part; `None` if none is
/// left.
pub fn reference_point(points: &[Vec<f64>]) -> Option<Vec<f64>> {
    let finite: Vec<Vec<f64>> =
        points.iter().filter(|point| point.iter().all(|loss| loss.is_finite())).cloned().collect();
    let front = sort::front(&finite);
    let objective = |objective: usize| {
        let losses = || front.iter().map(|index| finite[*index][objective]);
        let (low, high) =
            (losses().fold(f64::INFINITY, f64::min), losses().fold(f64::NEG_INFINITY, f64::max));
        let margin = match (high - low, high.abs()) {
            (width, _) if width > 0.0 => 0.1 * width,
            (_, size) if size > 0.0 => 0.1 * size,
            _ => 0.1,
        };
        (high + margin).min(f64::MAX)
    };
    finite.first().map(|point| (0..point.len()).map(objective).collect())
}

fn is_inside(point: &[f64], reference: &[f64]) -> bool {
    point.iter().zip(reference).all(|(loss, border)| loss < border)
}

/// The volume that `point` dominates and none of `others` does.
fn exclusive<'a>(
    point: &[f64],
    others: impl Iterator<Item = &'a Vec<f64>>,
    reference: &[f64],
) -> f64 {
    if !is_inside(point, reference) {
        return 0.0;
    }
    let mut limited = Set::new(point.len());
    for other in others {
        limited.push_worse_of(point, other);
    }
    let volume = inclusive(point, reference) - limited.volume(reference, &mut Work::unlimited());
    if volume.is_nan() { 0.0 } else { volume.max(0.0) }
}

/// The volume of the box between a point and the reference.
fn inclusive(point: &[f64], reference: &[f64]) -> f64 {
    point.iter().zip(reference).map(|(loss, border)| (border - loss).max(0.0)).product()
}

/// A limit on the time that hypervolumes take, as the number of comparisons of points that are
/// left, so that every machine gives the same answer.
#[derive(Clone, Debug)]
pub struct Work {
    left: u64,
}

impl Default for Work {
    /// About a second: enough for 1,000 points of five objectives, or 200 of seven.
    fn default() -> Self {
        Work { left: 30_000_000 }
    }
}

impl Work {
    /// So many comparisons.
    pub fn comparisons(left: u64) -> Self {
        Work { left }
    }

    /// How many comparisons are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    fn unlimited() -> Self {
        Work { left: u64::MAX }
    }

    /// Counts comparisons; whether any are left.
    fn spend(&mut self, comparisons: usize) -> bool {
        self.left = self.left.saturating_sub(comparisons as u64);
        self.left > 0
    }
}

/// Points as rows of one buffer: slices are made and dropped by the million.
struct Set {
    width: usize,
    cells: Vec<f64>,
}

impl Set {
    fn new(width: usize) -> Self {
        Set { width, cells: Vec::new() }
    }

    fn push(&mut self, row: impl IntoIterator<Item = f64>) {
        self.cells.extend(row);
    }

    /// Adds the corner of what both dominate.
    fn push_worse_of(&mut self, a: &[f64], b: &[f64]) {
        self.push(a.iter().zip(b).map(|(a, b)| a.max(*b)));
    }

    fn rows(&self) -> impl DoubleEndedIterator<Item = &[f64]> {
        self.cells.chunks_exact(self.width.max(1))
    }

    /// The volume that its points dominate below `reference`; NaN where infinities cancel.
    fn volume(&self, reference: &[f64], work: &mut Work) -> f64 {
        match self.width {
            0 => 0.0,
            1 => self.rows().map(|row| reference[0] - row[0]).fold(0.0, f64::max),
            2 => self.area(reference),
            _ => self.sliced(reference, work),
        }
    }

    /// Two objectives: a sweep along the first.
    fn area(&self, reference: &[f64]) -> f64 {
        let mut rows: Vec<(f64, f64)> = self
            .rows()
            .map(|row| (row[0], row[1]))
            .filter(|(first, second)| *first < reference[0] && *second < reference[1])
            .collect();
        rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut top = reference[1];
        let mut area = 0.0;
        for (first, second) in rows {
            if second < top {
                area += (reference[0] - first) * (top - second);
                top = second;
            }
        }
        area
    }

    /// Worst in the last objective first, each point adds what it dominates alone among the later
    /// ones: a prism over a difference of volumes with one objective less.
    fn sliced(&self, reference: &[f64], work: &mut Work) -> f64 {
        let last = self.width - 1;
        let mut rows: Vec<&[f64]> = self.rows().filter(|row| is_inside(row, reference)).collect();
        rows.sort_by(|a, b| b[last].total_cmp(&a[last]));
        let mut total = 0.0;
        for (place, row) in rows.iter().enumerate() {
            let (base, later) = (&row[..last], &rows[place + 1..]);
            if !work.spend(later.len() + 1) {
                return total;
            }
            // A later point that is nowhere worse leaves nothing.
            if later.iter().any(|other| other[..last].iter().zip(base).all(|(o, b)| o <= b)) {
                continue;
            }
            let mut limited = Set::new(last);
            later.iter().for_each(|other| limited.push_worse_of(base, &other[..last]));
            if last > 2 {
                limited.drop_dominated(work);
            }
            let slice = inclusive(base, reference) - limited.volume(&reference[..last], work);
            total += slice * (reference[last] - row[last]);
        }
        total
    }

    /// Drops dominated rows, and all but one of equal rows.
    fn drop_dominated(&mut self, work: &mut Work) {
        let mut rows: Vec<&[f64]> = self.rows().collect();
        let sum = |row: &[f64]| row.iter().sum::<f64>();
        rows.sort_by(|a, b| sum(a).total_cmp(&sum(b)));
        let mut kept: Vec<&[f64]> = Vec::with_capacity(rows.len());
        for row in rows {
            if !work.spend(kept.len()) {
                return;
            }
            if !kept.iter().any(|other| other.iter().zip(row).all(|(o, r)| o <= r)) {
                kept.push(row);
            }
        }
        self.cells = kept.concat();
    }
}
