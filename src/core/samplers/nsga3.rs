//! NSGA-III: as NSGA-II, and spread along reference directions, for more than three objectives.

use rand::RngExt as _;

use super::cube::Cube;
use super::genetic::{
    CROSSOVER_PROB, Individual, MUTATION_PROB, POPULATION_SIZE, Variation, individuals, initial,
};
use super::{Ask, OfEarlier, Proposal, Sampler, SamplerEntry, SamplerError};
use crate::study::field::{Field, FieldDefault, FieldKind, field};
use crate::study::pareto;
use crate::study::seed::StreamRng;
use crate::study::space::Space;
use crate::study::spec::AlgorithmSpec;

const DIVISIONS: Field = field(
    "divisions",
    FieldKind::Integer { min: 1, max: 1_000 },
    FieldDefault::Derived("as many as give no more directions than the population"),
    "parts of each objective's axis between which the reference directions lie",
);

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "nsga3",
    aliases: &["nsga-iii"],
    summary: "like nsga2, but spread along even reference directions, for many trials of more than \
        three objectives (NSGA-III)",
    version: 1,
    oldest: 1,
    options: &[POPULATION_SIZE, CROSSOVER_PROB, MUTATION_PROB, DIVISIONS],
    several: true,
    build: |spec, _| Ok(Box::new(Nsga3::new(spec))),
};

/// NSGA-III (K. Deb and H. Jain, "An evolutionary many-objective optimization algorithm using
/// reference-point-based nondominated sorting approach, part I", 2014), steady-state as
/// [`nsga2`](super::nsga2): the parents are chosen from all complete trials.
///
/// - The last front that fits in part is reduced by niches: the trials nearest to the directions
///   with the fewest others (section IV-E), in place of the paper's random ones.
/// - Losses are normalised by the ideal point and the intercepts of the plane through the extremes
///   (section IV-C), or by the worst losses where there is no such plane.
/// - Parents are drawn evenly; a feasible one beats an infeasible one, and the smaller violation a
///   larger one.
#[derive(Clone, Copy, Debug)]
pub struct Nsga3 {
    population_size: u64,
    divisions: Option<u64>,
    variation: Variation,
}

impl Nsga3 {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        Nsga3 {
            population_size: POPULATION_SIZE.of(spec),
            divisions: DIVISIONS.of::<Option<u64>>(spec),
            variation: Variation::new(spec),
        }
    }
}

impl Sampler for Nsga3 {
    fn starts_as_given(&self) -> bool {
        true
    }

    fn takes_of_earlier(&self, _space: &Space, _objectives: usize) -> OfEarlier {
        OfEarlier::Best
    }

    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        let cube = Cube::new(ask.space);
        let all = individuals(&cube, ask);
        if let Some(first) = initial(&all, ask, self.population_size, rng) {
            return Ok(Some(first.into()));
        }
        let size = usize::try_from(self.population_size).unwrap_or(usize::MAX);
        let objectives = ask.history.directions().len();
        let divisions = self.divisions.map_or_else(
            || most_divisions(objectives, self.population_size),
            |divisions| usize::try_from(divisions).unwrap_or(1),
        );
        let parents = population(&all, size, &directions(objectives, divisions));
        let parent = |rng: &mut StreamRng| {
            let [a, b] = [0; 2].map(|_| parents[rng.random_range(0..parents.len())]);
            if b.violation < a.violation { b } else { a }
        };
        Ok(Some(self.variation.child(&cube, ask, rng, parent).into()))
    }
}

/// Maximum number of directions.
const MOST_DIRECTIONS: u64 = 10_000;

/// The largest number of divisions that gives at most `size` directions.
fn most_divisions(objectives: usize, size: u64) -> usize {
    (1..).find(|divisions| directions_of(objectives, divisions + 1) > size).unwrap_or(1)
}

/// `binomial(divisions + objectives - 1, divisions)`; one objective has one direction, and stops
/// counting.
fn directions_of(objectives: usize, divisions: usize) -> u64 {
    if objectives < 2 {
        return u64::MAX;
    }
    (1..objectives as u64).fold(1u64, |count, k| {
        count.saturating_mul(divisions as u64 + k).checked_div(k).unwrap_or(u64::MAX)
    })
}

/// The directions of Das and Dennis (1998): all points whose coordinates are multiples of `1 /
/// divisions` that sum to 1. Fewer divisions if those are too many.
#[expect(clippy::cast_precision_loss, reason = "a number of divisions")]
fn directions(objectives: usize, divisions: usize) -> Vec<Vec<f64>> {
    let most = |divisions: &usize| {
        objectives < 2 || directions_of(objectives, *divisions) <= MOST_DIRECTIONS
    };
    let divisions = (1..=divisions).rev().find(most).unwrap_or(1);
    let mut partial: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 1..objectives {
        partial = partial
            .into_iter()
            .flat_map(|start| {
                let left = divisions - start.iter().sum::<usize>();
                (0..=left).map(move |next| [start.as_slice(), &[next]].concat())
            })
            .collect();
    }
    let direction = |mut parts: Vec<usize>| -> Vec<f64> {
        parts.push(divisions - parts.iter().sum::<usize>());
        parts.into_iter().map(|part| part as f64 / divisions as f64).collect()
    };
    partial.into_iter().map(direction).collect()
}

/// The selected trials, in no particular order.
fn population<'a>(
    all: &'a [Individual],
    size: usize,
    directions: &[Vec<f64>],
) -> Vec<&'a Individual> {
    let (feasible, mut infeasible): (Vec<&Individual>, Vec<&Individual>) =
        all.iter().partition(|one| one.violation == 0.0);
    if feasible.len() <= size {
        infeasible.sort_by(|a, b| a.violation.total_cmp(&b.violation));
        return feasible.into_iter().chain(infeasible).take(size).collect();
    }
    let losses: Vec<Vec<f64>> = feasible.iter().map(|one| one.losses.clone()).collect();
    let ranks = pareto::ranks(&losses);
    let of_rank =
        |rank: usize| (0..ranks.len()).filter(|index| ranks[*index] == rank).collect::<Vec<_>>();
    let mut taken: Vec<usize> = Vec::new();
    for rank in 0.. {
        let front = of_rank(rank);
        if taken.len() + front.len() <= size {
            taken.extend(front);
            continue;
        }
        let missing = size - taken.len();
        let chosen = niched(&losses, &taken, &front, missing, directions);
        taken.extend(chosen);
        break;
    }
    taken.into_iter().map(|index| feasible[index]).collect()
}

/// `count` trials of `front` that fill the emptiest niches beside those `taken`.
fn niched(
    losses: &[Vec<f64>],
    taken: &[usize],
    front: &[usize],
    count: usize,
    directions: &[Vec<f64>],
) -> Vec<usize> {
    let considered: Vec<Vec<f64>> =
        taken.iter().chain(front).map(|index| losses[*index].clone()).collect();
    let normalised = normalised(&considered);
    let niches: Vec<(usize, f64)> =
        normalised.iter().map(|point| nearest(point, directions)).collect();
    let mut crowd = vec![0usize; directions.len()];
    niches[..taken.len()].iter().for_each(|(niche, _)| crowd[*niche] += 1);
    let mut waiting: Vec<(usize, usize, f64)> = front
        .iter()
        .zip(&niches[taken.len()..])
        .map(|(index, (niche, distance))| (*index, *niche, *distance))
        .collect();
    let mut chosen = Vec::with_capacity(count);
    while chosen.len() < count {
        let emptiest = waiting.iter().enumerate().min_by(|(_, a), (_, b)| {
            crowd[a.1].cmp(&crowd[b.1]).then(a.2.total_cmp(&b.2)).then(a.0.cmp(&b.0))
        });
        let Some((place, (index, niche, _))) = emptiest.map(|(place, one)| (place, *one)) else {
            break;
        };
        waiting.remove(place);
        crowd[niche] += 1;
        chosen.push(index);
    }
    chosen
}

/// The nearest direction and the distance to it.
fn nearest(point: &[f64], directions: &[Vec<f64>]) -> (usize, f64) {
    let square = |vector: &[f64]| vector.iter().map(|x| x * x).sum::<f64>();
    let distance = |direction: &Vec<f64>| {
        let along = point.iter().zip(direction).map(|(x, y)| x * y).sum::<f64>();
        (square(point) - along * along / square(direction)).max(0.0).sqrt()
    };
    let distances = directions.iter().map(distance).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
}

/// Losses by the ideal point and the intercepts; infinite ones become the worst finite ones.
fn normalised(losses: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let objectives = losses.first().map_or(0, Vec::len);
    let mut points = losses.to_vec();
    let mut worst = vec![0.0; objectives];
    for objective in 0..objectives {
        let finite = || losses.iter().map(|one| one[objective]).filter(|loss| loss.is_finite());
        let (low, high) =
            (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
        let (low, high) = if low.is_finite() { (low, high) } else { (0.0, 0.0) };
        // Halves, because the difference may overflow.
        points.iter_mut().for_each(|point| {
            point[objective] = point[objective].clamp(low, high) / 2.0 - low / 2.0;
        });
        worst[objective] = high / 2.0 - low / 2.0;
    }
    let scales = intercepts(&points, &worst).unwrap_or(worst);
    for point in &mut points {
        for (loss, scale) in point.iter_mut().zip(&scales) {
            *loss = if *scale > 0.0 { *loss / scale } else { 0.0 };
        }
    }
    points
}

/// Where the plane through the extreme point of each axis meets the axes; `None` unless all
/// intercepts are positive and no larger than the worst losses.
fn intercepts(points: &[Vec<f64>], worst: &[f64]) -> Option<Vec<f64>> {
    let objectives = worst.len();
    // The extreme of an axis is smallest when the other objectives weigh a million times as much.
    let extreme = |axis: usize| {
        let weighted = |point: &Vec<f64>| {
            let loss = |(index, loss): (usize, &f64)| {
                let share = loss / worst[index].max(f64::MIN_POSITIVE);
                if index == axis { share } else { share * 1e6 }
            };
            point.iter().enumerate().map(loss).fold(0.0, f64::max)
        };
        points.iter().min_by(|a, b| weighted(a).total_cmp(&weighted(b)))
    };
    let mut rows: Vec<Vec<f64>> = (0..objectives)
        .map(|axis| Some([extreme(axis)?.as_slice(), &[1.0]].concat()))
        .collect::<Option<_>>()?;
    // Gauss and Jordan, with pivots.
    for column in 0..objectives {
        let pivot = (column..objectives)
            .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let scale = rows[column][column];
        if scale.abs() < 1e-12 * worst[column] || scale == 0.0 {
            return None;
        }
        rows[column].iter_mut().for_each(|cell| *cell /= scale);
        let own = rows[column].clone();
        for (index, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != column) {
            debug_assert_ne!(index, column);
            let factor = row[column];
            row.iter_mut().zip(&own).for_each(|(cell, pivot)| *cell -= factor * pivot);
        }
    }
    let intercepts: Vec<f64> = rows.iter().map(|row| 1.0 / row[objectives]).collect();
    let is_usable =
        |(intercept, worst): (&f64, &f64)| *intercept > 0.0 && *intercept <= worst * (1.0 + 1e-9);
    intercepts.iter().zip(worst).all(is_usable).then_some(intercepts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_those_of_das_and_dennis() {
        assert_eq!(directions(2, 2), [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]);
        let many = directions(3, 4);
        assert_eq!((many.len() as u64, directions_of(3, 4)), (15, 15));
        assert!(many.iter().all(|one| (one.iter().sum::<f64>() - 1.0).abs() < 1e-12));
        assert_eq!(
            (most_divisions(3, 20), most_divisions(2, 20), most_divisions(5, 3)),
            (4, 19, 1)
        );
        assert_eq!((directions(1, 5).len(), directions(20, 1000).len()), (1, 8855));
    }

    #[test]
    fn losses_are_scaled_by_the_intercepts_of_the_plane_through_the_extremes() {
        let points =
            [vec![0.0, 4.0, 0.0], vec![2.0, 0.0, 0.0], vec![0.0, 0.0, 8.0], vec![1.0, 1.0, 1.0]];
        assert_eq!(normalised(&points)[3], [0.5, 0.25, 0.125]);
        let odd =
            [vec![f64::INFINITY, 0.0], vec![1.0, f64::NEG_INFINITY], vec![f64::MAX, f64::MIN]];
        assert!(normalised(&odd).iter().flatten().all(|loss| loss.is_finite()));
    }

    #[test]
    fn the_last_front_fills_the_emptiest_niches() {
        let individual = |losses: [f64; 2]| Individual {
            point: Vec::new(),
            losses: losses.to_vec(),
            violation: 0.0,
        };
        let all = [[0.0, 1.0], [0.05, 0.9], [0.1, 0.85], [0.5, 0.5], [1.0, 0.0], [2.0, 2.0]]
            .map(individual);
        let mut firsts: Vec<f64> =
            population(&all, 3, &directions(2, 2)).iter().map(|one| one.losses[0]).collect();
        firsts.sort_by(f64::total_cmp);
        assert_eq!(firsts, [0.0, 0.5, 1.0]);
    }
}
