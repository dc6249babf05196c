//! What the genetic samplers share: the trials that may be parents, and their children.

use std::collections::HashSet;

use rand::RngExt as _;

use super::cube::{AxisKind, Cube, Point, key, random_position};
use super::{Ask, start};
use crate::study::field::{Field, FieldDefault, FieldKind, UNIT, field};
use crate::study::params::Params;
use crate::study::seed::StreamRng;
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::{Trial, TrialState};

pub(super) const POPULATION_SIZE: Field = field(
    "population_size",
    FieldKind::Integer { min: 2, max: 10_000 },
    FieldDefault::Int(20),
    "trials of the initial design, and how many of the best are parents afterwards",
);

pub(super) const CROSSOVER_PROB: Field = field(
    "crossover_prob",
    UNIT,
    FieldDefault::Float(0.9),
    "probability that a trial has two parents; else it is a mutation of one",
);

pub(super) const MUTATION_PROB: Field = field(
    "mutation_prob",
    UNIT,
    FieldDefault::Derived("1 / parameters"),
    "probability that a parameter mutates",
);

/// A trial with values, as a parent.
#[derive(Debug)]
pub(super) struct Individual {
    /// Its position.
    pub point: Point,
    /// Its losses, infinite for NaN.
    pub losses: Vec<f64>,
    /// By how much it violates limits; 0 if feasible.
    pub violation: f64,
}

/// The complete trials of a history, by number.
pub(super) fn individuals(cube: &Cube, ask: &Ask<'_>) -> Vec<Individual> {
    let history = &ask.history;
    let individual = |trial: &Trial| {
        let losses = if history.has_several_objectives() {
            history.losses(&trial.values)
        } else {
            history.losses(trial.value.as_slice())
        };
        (trial.state == TrialState::Complete && losses.len() == history.directions().len()).then(
            || Individual {
                point: cube.encode(&trial.params),
                losses,
                violation: trial.violation.unwrap_or(0.0).max(0.0),
            },
        )
    };
    history.trials().iter().filter_map(individual).collect()
}

/// A trial of the initial design, while there are too few parents.
pub(super) fn initial(
    all: &[Individual],
    ask: &Ask<'_>,
    population_size: u64,
    rng: &mut StreamRng,
) -> Option<Params> {
    let is_initial = (all.len() as u64) < start::trials(ask, population_size).max(2);
    is_initial.then(|| start::point(ask, population_size, rng))
}

/// How children are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variation {
    crossover_prob: f64,
    mutation_prob: Option<f64>,
}

/// Distribution indices of crossover and mutation: larger ones keep children closer to parents.
const CROSSOVER_INDEX: f64 = 15.0;
const MUTATION_INDEX: f64 = 20.0;
/// Children until one is new and satisfies the constraints.
const CHILDREN: usize = 30;

impl Variation {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        Variation {
            crossover_prob: CROSSOVER_PROB.of(spec),
            mutation_prob: MUTATION_PROB.of::<Option<f64>>(spec),
        }
    }

    /// A child of two parents, which `parent` draws. One that repeats a trial or breaks constraints
    /// is drawn again, a few times.
    pub fn child<'p>(
        &self,
        cube: &Cube,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
        mut parent: impl FnMut(&mut StreamRng) -> &'p Individual,
    ) -> Params {
        let fixed = cube.encode(ask.fixed);
        let trials = ask.history.trials().iter();
        let tried: HashSet<Vec<u64>> =
            trials.map(|trial| key(&cube.encode(&trial.params))).collect();
        let mut params = Params::new();
        for _ in 0..CHILDREN {
            let (first, second) = (parent(rng), parent(rng));
            let point = self.bred(cube, &fixed, first, second, rng);
            params = cube.decode(&point, ask);
            if !tried.contains(&key(&point)) && ask.allows(&params) {
                break;
            }
        }
        params
    }

    /// Axis by axis from the root of the tree on: simulated binary crossover of numbers (K. Deb and
    /// R. Agrawal, "Simulated binary crossover for continuous search space", 1995) and either
    /// parent's choice, then mutation. An axis that one parent lacks is the other's; one that both
    /// lack is drawn evenly.
    #[expect(clippy::cast_precision_loss, reason = "a number of axes")]
    fn bred(
        &self,
        cube: &Cube,
        fixed: &[f64],
        first: &Individual,
        second: &Individual,
        rng: &mut StreamRng,
    ) -> Point {
        let is_crossed = rng.random::<f64>() < self.crossover_prob;
        let axes = cube.axes.iter().filter(|axis| axis.kind != AxisKind::Single).count();
        let mutation_prob = self.mutation_prob.unwrap_or(1.0 / axes.max(1) as f64);
        cube.walk(fixed, |index| {
            let kind = cube.axes[index].kind;
            let (a, b) = (first.point[index], second.point[index]);
            let inherited = match (a.is_nan(), b.is_nan()) {
                (true, true) => return random_position(kind, rng),
                (false, true) => a,
                (true, false) if is_crossed => b,
                (true, false) => return random_position(kind, rng),
                _ if !is_crossed => a,
                _ => crossed(kind, a, b, rng),
            };
            if rng.random::<f64>() < mutation_prob {
                mutated(kind, inherited, rng)
            } else {
                inherited
            }
        })
    }
}

fn crossed(kind: AxisKind, a: f64, b: f64, rng: &mut StreamRng) -> f64 {
    if matches!(kind, AxisKind::Choice(_)) || rng.random::<bool>() {
        return if rng.random::<bool>() { a } else { b };
    }
    let unit: f64 = rng.random();
    let exponent = 1.0 / (CROSSOVER_INDEX + 1.0);
    let spread =
        if unit < 0.5 { (2.0 * unit).powf(exponent) } else { (0.5 / (1.0 - unit)).powf(exponent) };
    let side = if rng.random::<bool>() { spread } else { -spread };
    (0.5 * (a + b) + 0.5 * side * (b - a)).clamp(0.0, 1.0)
}

/// Polynomial mutation of numbers within their range (Deb and Agrawal 1999), and any choice.
fn mutated(kind: AxisKind, position: f64, rng: &mut StreamRng) -> f64 {
    if matches!(kind, AxisKind::Choice(_)) {
        return random_position(kind, rng);
    }
    let unit: f64 = rng.random();
    let exponent = 1.0 / (MUTATION_INDEX + 1.0);
    let power = MUTATION_INDEX + 1.0;
    let step = if unit < 0.5 {
        (2.0 * unit + (1.0 - 2.0 * unit) * (1.0 - position).powf(power)).powf(exponent) - 1.0
    } else {
        1.0 - (2.0 * (1.0 - unit) + 2.0 * (unit - 0.5) * position.powf(power)).powf(exponent)
    };
    (position + step).clamp(0.0, 1.0)
}
