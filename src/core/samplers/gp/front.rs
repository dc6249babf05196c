//! The expected hypervolume improvement of a front, exactly, with one independent process per
//! objective.

use super::curves::{CurveProcess, End};
use super::process::{GaussianProcess, Prediction};
use crate::samplers::normal::{LN_ROOT_TWO_PI, log_cdf, log_expected_improvement, log_sum_exp};

/// The logarithm of the expected hypervolume improvement, as a sum over boxes.
///
/// The region that the front does not dominate, below the reference point, is cut into disjoint
/// boxes `[l, u)` with `l` possibly minus infinity. A point `y` adds the volume of its part of each
/// box, the product over objectives of `max(0, u - max(l, y))`, whose expectation for normal `y` is
/// a difference of two expected improvements, `EI(u) - EI(l)`; objectives are independent (M.
/// Emmerich et al., "Hypervolume-based expected improvement: monotonicity properties and exact
/// computation", 2011). All terms are positive and are summed as logarithms, without underflow.
#[derive(Debug)]
pub(super) struct HypervolumeImprovement<'a> {
    processes: Vec<ObjectiveProcess<'a>>,
    /// By objective: the borders of the boxes, ascending.
    borders: Vec<Vec<f64>>,
    /// By box and objective: the indices of its borders.
    boxes: Vec<Vec<(usize, usize)>>,
}

/// What predicts the final losses of one objective.
#[derive(Clone, Copy, Debug)]
pub(super) enum ObjectiveProcess<'a> {
    /// From final losses.
    Final(&'a GaussianProcess<'a>),
    /// From all reports.
    Curves(&'a CurveProcess<'a>),
}

/// A prediction of one of them, and what its gradient needs.
enum Predicted {
    Final(Prediction),
    Curves(End),
}

impl ObjectiveProcess<'_> {
    /// Mean and variance at the end of a new configuration, without noise.
    pub fn moments(&self, point: &[f64]) -> (f64, f64) {
        match self {
            Self::Final(process) => process.moments(point),
            Self::Curves(process) => process.moments_at_end(point),
        }
    }

    /// The variance of the noise.
    pub fn noise(&self) -> f64 {
        match self {
            Self::Final(process) => process.noise(),
            Self::Curves(process) => process.noise(),
        }
    }

    fn predict(&self, point: &[f64]) -> ((f64, f64), Predicted) {
        match self {
            Self::Final(process) => {
                let found = process.predict_each(&[point]).swap_remove(0);
                ((found.mean, found.variance), Predicted::Final(found))
            }
            Self::Curves(process) => {
                let found = process.predict_ends(&[point]).swap_remove(0);
                ((found.mean, found.variance), Predicted::Curves(found))
            }
        }
    }

    fn gradient(
        &self,
        point: &[f64],
        found: &Predicted,
        (by_mean, by_variance): (f64, f64),
    ) -> Vec<f64> {
        match (self, found) {
            (Self::Final(process), Predicted::Final(found)) => {
                process.gradient(point, found, by_mean, by_variance)
            }
            (Self::Curves(process), Predicted::Curves(found)) => {
                process.gradient(point, found, by_mean, by_variance)
            }
            _ => vec![0.0; point.len()],
        }
    }
}

/// A box: its borders by objective.
type Cell = Vec<(f64, f64)>;

/// The logarithms of expected improvement, and of the distribution's value and density, at one
/// border.
#[derive(Clone, Copy)]
struct AtBorder {
    improvement: f64,
    mass: f64,
    density: f64,
}

impl<'a> HypervolumeImprovement<'a> {
    /// The improvement of `front` (losses on the scale of the processes; dominated points do no
    /// harm) below `reference`.
    pub fn new(
        processes: Vec<ObjectiveProcess<'a>>,
        front: &[Vec<f64>],
        reference: &[f64],
    ) -> Self {
        let cells = cells(front, reference);
        let borders: Vec<Vec<f64>> = (0..reference.len())
            .map(|objective| {
                let borders = |cell: &Cell| [cell[objective].0, cell[objective].1];
                let mut borders: Vec<f64> = cells.iter().flat_map(borders).collect();
                borders.sort_by(f64::total_cmp);
                borders.dedup();
                borders
            })
            .collect();
        let index = |objective: usize, border: f64| {
            borders[objective].partition_point(|other| *other < border)
        };
        let indexed = |cell: Cell| {
            let pair = |(objective, (low, high)): (usize, (f64, f64))| {
                (index(objective, low), index(objective, high))
            };
            cell.into_iter().enumerate().map(pair).collect()
        };
        let boxes = cells.into_iter().map(indexed).collect();
        HypervolumeImprovement { processes, borders, boxes }
    }

    /// The value at `point`.
    pub fn value(&self, point: &[f64]) -> f64 {
        let at: Vec<Vec<AtBorder>> = self
            .processes
            .iter()
            .zip(&self.borders)
            .map(|(process, borders)| at_borders(process.moments(point), borders))
            .collect();
        let logarithms: Vec<f64> = self
            .boxes
            .iter()
            .map(|pairs| at.iter().zip(pairs).map(|(at, pair)| difference(at, *pair)).sum())
            .collect();
        log_sum_exp(&logarithms)
    }

    /// The value, and its gradient along numeric axes (0 along others).
    pub fn value_and_gradient(&self, point: &[f64]) -> (f64, Vec<f64>) {
        let predictions: Vec<_> =
            self.processes.iter().map(|process| process.predict(point)).collect();
        let at: Vec<Vec<AtBorder>> = predictions
            .iter()
            .zip(&self.borders)
            .map(|((moments, _), borders)| at_borders(*moments, borders))
            .collect();
        let differences: Vec<Vec<f64>> = self
            .boxes
            .iter()
            .map(|pairs| at.iter().zip(pairs).map(|(at, pair)| difference(at, *pair)).collect())
            .collect();
        let logarithms: Vec<f64> = differences.iter().map(|factors| factors.iter().sum()).collect();
        let value = log_sum_exp(&logarithms);
        let mut gradient = vec![0.0; point.len()];
        if !value.is_finite() {
            return (value, gradient);
        }
        for (objective, (process, ((_, variance), found))) in
            self.processes.iter().zip(&predictions).enumerate()
        {
            let (mut by_mean, mut by_variance) = (0.0, 0.0);
            for ((pairs, factors), logarithm) in
                self.boxes.iter().zip(&differences).zip(&logarithms)
            {
                let weight = (logarithm - value).exp();
                if weight < 1e-12 {
                    continue;
                }
                let (low, high) = pairs[objective];
                let (low, high) = (at[objective][low], at[objective][high]);
                let scale = factors[objective];
                by_mean -= weight * ((high.mass - scale).exp() - (low.mass - scale).exp());
                by_variance +=
                    weight * ((high.density - scale).exp() - (low.density - scale).exp());
            }
            by_variance /= 2.0 * variance.sqrt();
            let own = process.gradient(point, found, (by_mean, by_variance));
            gradient.iter_mut().zip(own).for_each(|(all, derivative)| *all += derivative);
        }
        (value, gradient)
    }
}

fn at_borders((mean, variance): (f64, f64), borders: &[f64]) -> Vec<AtBorder> {
    let deviation = variance.sqrt();
    let at = |border: &f64| {
        if *border == f64::NEG_INFINITY {
            let nothing = f64::NEG_INFINITY;
            return AtBorder { improvement: nothing, mass: nothing, density: nothing };
        }
        let z = (border - mean) / deviation;
        AtBorder {
            improvement: deviation.ln() + log_expected_improvement(z),
            mass: log_cdf(z),
            density: -0.5 * z * z - LN_ROOT_TWO_PI,
        }
    };
    borders.iter().map(at).collect()
}

/// `ln(EI(high) - EI(low))`.
fn difference(at: &[AtBorder], (low, high): (usize, usize)) -> f64 {
    let (low, high) = (at[low].improvement, at[high].improvement);
    if low == f64::NEG_INFINITY { high } else { high + (-(low - high).exp_m1()).max(0.0).ln() }
}

/// Disjoint boxes that cover what no point dominates below `reference`: slabs between consecutive
/// losses of the last objective, each with the boxes of the points below it. Boxes that go on in
/// the next slab are joined.
fn cells(points: &[Vec<f64>], reference: &[f64]) -> Vec<Cell> {
    let Some((border, reference_before)) = reference.split_last() else { return vec![Vec::new()] };
    let last = reference_before.len();
    if last == 0 {
        let best = points.iter().map(|point| point[0]).fold(*border, f64::min);
        return vec![vec![(f64::NEG_INFINITY, best)]];
    }
    let mut levels: Vec<f64> =
        points.iter().map(|point| point[last]).filter(|level| level < border).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels.push(*border);
    let mut done: Vec<Cell> = Vec::new();
    let mut open: Vec<Cell> = Vec::new();
    let mut low = f64::NEG_INFINITY;
    for high in levels {
        let below: Vec<Vec<f64>> = points
            .iter()
            .filter(|point| point[last] <= low)
            .map(|point| point[..last].to_vec())
            .collect();
        let mut next: Vec<Cell> = Vec::new();
        for mut cell in cells(&below, reference_before) {
            if cell.iter().any(|(low, high)| low >= high) {
                continue;
            }
            let known = open.iter().position(|other| other[..last] == cell[..]);
            cell.push((known.map_or(low, |place| open.swap_remove(place)[last].0), high));
            next.push(cell);
        }
        done.append(&mut open);
        open = next;
        low = high;
    }
    done.append(&mut open);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samplers::cube::{Cube, slices};
    use crate::samplers::fixtures::unit_cube;
    use crate::samplers::gp::kernel::{Exponential, Hyperparameters};
    use crate::samplers::normal::draw;
    use crate::study::pareto::hypervolume;
    use crate::study::seed::SeedTree;

    #[test]
    fn boxes_are_disjoint_and_cover_what_the_front_does_not_dominate() {
        for objectives in 1..=4 {
            let part = |index: u32, by: f64| (f64::from(index + 1) * by).fract();
            let by = [0.618_034, 0.754_878, 0.819_173, 0.856_675];
            let points: Vec<Vec<f64>> = (0..9)
                .map(|index| by[..objectives].iter().map(|by| part(index, *by)).collect())
                .collect();
            let cells = cells(&points, &vec![1.0; objectives]);
            let volume = |cell: &Cell| -> f64 {
                cell.iter().map(|(low, high)| high - low.max(0.0)).product()
            };
            let free: f64 = cells.iter().map(volume).sum();
            let dominated = hypervolume(&points, &vec![1.0; objectives]);
            assert!((free + dominated - 1.0).abs() < 1e-12, "{objectives}: {free} {dominated}");
        }
    }

    fn hyperparameters() -> [Hyperparameters; 3] {
        [3.0, 5.0, 2.0].map(|scale| Hyperparameters {
            inverse_squares: vec![scale, 1.0],
            variance: 1.1,
            noise: 1e-4,
            exponential: Exponential::Own,
        })
    }

    fn processes(hyperparameters: &[Hyperparameters]) -> Vec<GaussianProcess<'_>> {
        let cube = Cube::new(&unit_cube(2));
        let points: Vec<Vec<f64>> =
            [[0.1, 0.2], [0.5, 0.9], [0.8, 0.3]].iter().map(|point| point.to_vec()).collect();
        let process = |(index, hyperparameters): (usize, _)| {
            let targets = [[-1.0, 0.3, 0.8], [0.9, -0.2, -1.1], [0.0, 0.5, -0.5]][index];
            GaussianProcess::new(&cube, hyperparameters, &slices(&points), &targets, &[0.0; 3])
        };
        let processes: Option<Vec<_>> = hyperparameters.iter().enumerate().map(process).collect();
        processes.unwrap()
    }

    #[test]
    fn the_value_is_that_of_sampling_and_the_gradient_that_of_finite_differences() {
        let (hyperparameters, mut rng) = (hyperparameters(), SeedTree::new(5).stream("front"));
        for objectives in [2, 3] {
            let front: Vec<Vec<f64>> = [[-1.0, 0.9, 0.5], [0.3, -0.2, 0.0], [0.8, -1.1, 0.4]]
                .iter()
                .map(|point| point[..objectives].to_vec())
                .collect();
            let processes = processes(&hyperparameters[..objectives]);
            let processes = processes.iter().map(ObjectiveProcess::Final).collect();
            let reference = vec![1.0; objectives];
            let improvement = HypervolumeImprovement::new(processes, &front, &reference);
            let at = [0.35, 0.55];
            let (value, gradient) = improvement.value_and_gradient(&at);
            assert!((value - improvement.value(&at)).abs() < 1e-9);
            let before = hypervolume(&front, &reference);
            let moments: Vec<(f64, f64)> =
                improvement.processes.iter().map(|process| process.moments(&at)).collect();
            let draws = 20_000;
            let gain = |_| {
                let y =
                    moments.iter().map(|(mean, variance)| mean + variance.sqrt() * draw(&mut rng));
                let with = [front.as_slice(), &[y.collect()]].concat();
                hypervolume(&with, &reference) - before
            };
            let sampled = (0..draws).map(gain).sum::<f64>() / f64::from(draws);
            assert!((value.exp() - sampled).abs() < 0.03 * sampled, "{} {sampled}", value.exp());
            for axis in 0..2 {
                let value = |by: f64| {
                    let mut moved = at;
                    moved[axis] += by;
                    improvement.value(&moved)
                };
                let numeric = (value(1e-6) - value(-1e-6)) / 2e-6;
                let error = (gradient[axis] - numeric).abs();
                assert!(error < 1e-4 * numeric.abs().max(1.0), "{} {numeric}", gradient[axis]);
            }
        }
    }
}
