//! Parzen estimators over a whole space: a mixture of products of one kernel per active axis.

use std::cell::RefCell;

use rand::RngExt as _;

use super::kernels::Kernels;
use super::rules::{self, Rules};
use crate::samplers::cube::{AxisKind, Cube, INACTIVE};
use crate::samplers::normal::{LN_ROOT_TWO_PI, draw_in_unit, log_mass, log_sum_exp};
use crate::samplers::prior;
use crate::study::seed::StreamRng;

/// Maximum number of cells of one axis whose masses are cached.
const MOST_CELLS: usize = 64;

/// A mixture with one kernel per trial; the last is the prior.
///
/// A kernel is the product of normal distributions truncated to `[0, 1]` (cell masses, if values
/// are discrete) and categorical distributions, over the axes that were active in its trial. On all
/// other axes it is uniform, so that kernels of different branches of a conditional space are
/// comparable at one point.
#[derive(Debug)]
pub(super) struct Mixture<'a> {
    cube: &'a Cube,
    weights: Vec<f64>,
    log_weights: Vec<f64>,
    columns: Vec<Column>,
}

/// The kernels on one axis.
#[derive(Debug, Default)]
struct Column {
    /// Mean, or index of the choice; [`INACTIVE`] where the trial lacks the axis.
    middles: Vec<f64>,
    /// Width; 0 where the trial lacks the axis.
    deviations: Vec<f64>,
    /// One over the width; 0 where the trial lacks the axis, which makes the kernel flat.
    inverses: Vec<f64>,
    /// Added to the exponent so that the kernel integrates to 1.
    norms: Vec<f64>,
    /// Cells: the distinct pairs of mean and inverse width, and the pair of each kernel. On coarse
    /// axes hundreds of kernels share a few dozen pairs, and a mass costs as much as 50 densities.
    shapes: Vec<(f64, f64)>,
    shape_of: Vec<usize>,
    /// Cells: positions asked for, with the masses of all shapes there. Candidates share cells.
    masses: RefCell<Vec<(f64, Vec<f64>)>>,
    /// Choices: log probabilities of the kernel's own choice and of any other.
    own: f64,
    other: f64,
}

impl<'a> Mixture<'a> {
    /// The mixture of `kernels` per axis with `weights` (on any scale; the prior's is 1). The last
    /// kernel may be the user's prior: with `0.1 n` good trials among `n` and a weight of 1 this is
    /// piBO's decay.
    pub fn new<'b>(
        cube: &'a Cube,
        kernels: impl Fn(usize) -> Kernels<'b>,
        mut weights: Vec<f64>,
        rules: &Rules,
        last_is_prior: bool,
    ) -> Self {
        weights.push(1.0);
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        let log_weights = weights.iter().map(|weight| weight.ln()).collect();
        let columns = (0..)
            .zip(&cube.axes)
            .map(|(index, axis)| Column::new(axis.kind, kernels(index), rules, last_is_prior))
            .collect();
        Mixture { cube, weights, log_weights, columns }
    }

    /// A draw: a kernel by its weight, then its parameters from the root of the tree on. Where the
    /// walk enters a branch that the kernel's trial lacks, another kernel that has it, or the
    /// prior, draws that axis.
    pub fn draw(&self, fixed: &[f64], rng: &mut StreamRng) -> Vec<f64> {
        let kernel = self.pick(|_| true, rng);
        self.cube.walk(fixed, |index| {
            let column = &self.columns[index];
            let kernel = if column.has(kernel) {
                kernel
            } else {
                self.pick(|kernel| column.has(kernel), rng)
            };
            column.draw(self.cube.axes[index].kind, kernel, rng)
        })
    }

    /// A kernel accepted by `allowed`, drawn by weight. The prior is always allowed.
    fn pick(&self, allowed: impl Fn(usize) -> bool, rng: &mut StreamRng) -> usize {
        let total: f64 = self
            .weights
            .iter()
            .enumerate()
            .filter(|(kernel, _)| allowed(*kernel))
            .map(|(_, weight)| weight)
            .sum();
        let mut left = rng.random::<f64>() * total;
        for (kernel, weight) in
            self.weights.iter().enumerate().filter(|(kernel, _)| allowed(*kernel))
        {
            left -= weight;
            if left < 0.0 {
                return kernel;
            }
        }
        self.weights.len() - 1
    }

    /// Log density at `point`, with `terms` as scratch space.
    pub fn log_density(&self, point: &[f64], terms: &mut Vec<f64>) -> f64 {
        terms.clear();
        terms.extend_from_slice(&self.log_weights);
        for ((axis, column), position) in self.cube.axes.iter().zip(&self.columns).zip(point) {
            if !position.is_nan() {
                column.add(axis.kind, axis.cell(*position), *position, terms);
            }
        }
        log_sum_exp(terms)
    }
}

impl Column {
    #[expect(clippy::cast_precision_loss, reason = "numbers of trials and choices")]
    fn new(kind: AxisKind, kernels: Kernels<'_>, rules: &Rules, last_is_prior: bool) -> Self {
        match kind {
            AxisKind::Single => Column::default(),
            AxisKind::Choice(count) => {
                let mut middles = kernels.middles;
                let known = middles.iter().filter(|middle| !middle.is_nan()).count();
                // Optuna's categorical distribution: one for the own choice, and the prior's weight
                // spread over the kernels.
                let spread = 1.0 / (known + 1) as f64;
                let total = 1.0 + count as f64 * spread;
                let uniform = (1.0 / count as f64).ln();
                middles.push(INACTIVE);
                Column {
                    middles,
                    own: ((1.0 + spread) / total).ln(),
                    other: (spread / total).ln(),
                    norms: vec![uniform],
                    ..Column::default()
                }
            }
            AxisKind::Continuous | AxisKind::Cells(_) | AxisKind::LogCells { .. } => {
                let mut deviations =
                    rules::deviations(&kernels.order, kernels.middles.len(), rules);
                if let Some(width) =
                    deviations.last_mut().filter(|width| last_is_prior && **width > 0.0)
                {
                    *width = prior::WIDTH;
                }
                Column::numeric(kind, kernels, deviations)
            }
        }
    }

    fn numeric(kind: AxisKind, kernels: Kernels<'_>, mut deviations: Vec<f64>) -> Self {
        let Kernels { mut middles, order, norms: known } = kernels;
        middles.push(0.5);
        deviations.push(1.0);
        let inverses: Vec<f64> = deviations
            .iter()
            .map(|deviation| if *deviation > 0.0 { 1.0 / deviation } else { 0.0 })
            .collect();
        let is_density = kind == AxisKind::Continuous;
        let norm = |kernel: usize| match inverses[kernel] {
            0.0 => 0.0,
            inverse => {
                known.get(kernel, inverse, || log_norm(is_density, middles[kernel], inverse))
            }
        };
        let norms = (0..middles.len()).map(norm).collect();
        middles.iter_mut().filter(|middle| middle.is_nan()).for_each(|middle| *middle = 0.0);
        let (shapes, shape_of) =
            if is_density { (Vec::new(), Vec::new()) } else { shapes(&order, &middles, &inverses) };
        Column { middles, deviations, inverses, norms, shapes, shape_of, ..Column::default() }
    }

    /// Whether the kernel is active on this axis. The last kernel, the prior, always is.
    fn has(&self, kernel: usize) -> bool {
        kernel + 1 >= self.middles.len()
            || if self.deviations.is_empty() {
                !self.middles[kernel].is_nan()
            } else {
                self.deviations[kernel] > 0.0
            }
    }

    #[expect(clippy::cast_precision_loss, reason = "an index of a list")]
    fn draw(&self, kind: AxisKind, kernel: usize, rng: &mut StreamRng) -> f64 {
        match kind {
            AxisKind::Single => 0.5,
            AxisKind::Choice(count) => {
                let own = self.middles[kernel];
                let any = rng.random_range(0..count) as f64;
                // A mixture: the own choice with its excess over the others, else any choice.
                let excess = self.own.exp() - self.other.exp();
                if !own.is_nan() && rng.random::<f64>() < excess { own } else { any }
            }
            _ => draw_in_unit(self.middles[kernel], self.deviations[kernel], rng),
        }
    }

    /// Adds each kernel's log density at `position` to its term.
    fn add(&self, kind: AxisKind, cell: Option<(f64, f64)>, position: f64, terms: &mut [f64]) {
        match (kind, cell) {
            (AxisKind::Single, _) => {}
            (AxisKind::Choice(_), _) => {
                let uniform = self.norms.first().copied().unwrap_or(0.0);
                for (term, middle) in terms.iter_mut().zip(&self.middles) {
                    *term += if *middle == position {
                        self.own
                    } else if middle.is_nan() {
                        uniform
                    } else {
                        self.other
                    };
                }
            }
            (_, Some(cell)) => self.add_masses(position, cell, terms),
            (_, None) => {
                let kernels = self.middles.iter().zip(&self.inverses).zip(&self.norms);
                for (term, ((middle, inverse), norm)) in terms.iter_mut().zip(kernels) {
                    let z = (position - middle) * inverse;
                    *term += norm - 0.5 * z * z;
                }
            }
        }
    }

    fn add_masses(&self, position: f64, (low, high): (f64, f64), terms: &mut [f64]) {
        let mut known = self.masses.borrow_mut();
        let place = known.iter().position(|(other, _)| *other == position).unwrap_or_else(|| {
            let mass = |(middle, inverse): &(f64, f64)| match *inverse {
                0.0 => (high - low).ln(),
                inverse => log_mass((low - middle) * inverse, (high - middle) * inverse),
            };
            if known.len() == MOST_CELLS {
                known.clear();
            }
            known.push((position, self.shapes.iter().map(mass).collect()));
            known.len() - 1
        });
        let masses = &known[place].1;
        for ((term, shape), norm) in terms.iter_mut().zip(&self.shape_of).zip(&self.norms) {
            *term += masses[*shape] + norm;
        }
    }
}

/// Added to the exponent of a kernel so that it integrates to 1 over the axis, or its masses sum to
/// 1.
fn log_norm(is_density: bool, middle: f64, inverse: f64) -> f64 {
    let (low, high) = (-middle * inverse, (1.0 - middle) * inverse);
    // This far from both ends, less than 1e-10 is truncated.
    let inside = if low < -6.5 && high > 6.5 { 0.0 } else { log_mass(low, high) };
    if is_density { inverse.ln() - LN_ROOT_TWO_PI - inside } else { -inside }
}

/// The distinct pairs, and the pair of each kernel. `order`: the means of active kernels,
/// ascending; inactive kernels have 0 twice, and the prior is the last.
fn shapes(
    order: &[(f64, usize)],
    middles: &[f64],
    inverses: &[f64],
) -> (Vec<(f64, f64)>, Vec<usize>) {
    let mut shapes = vec![(0.0, 0.0)];
    let mut shape_of = vec![0; middles.len()];
    // Kernels with equal means are consecutive, and only the first and the last of them may have
    // their own widths.
    let mut first = 0;
    for (middle, kernel) in order.iter().copied().chain(middles.iter().copied().zip(0..).last()) {
        let shape = (middle, inverses[kernel]);
        if shapes[first].0 != middle {
            first = shapes.len();
        }
        let known = shapes[first..].iter().position(|other| *other == shape);
        shape_of[kernel] = known.map_or(shapes.len(), |place| first + place);
        if known.is_none() {
            shapes.push(shape);
        }
    }
    (shapes, shape_of)
}
