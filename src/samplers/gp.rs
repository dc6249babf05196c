//! A Gaussian process over the whole space, and the point where it expects the largest improvement.

mod data;
mod fit;
mod kernel;
mod matrix;
mod process;
mod search;
mod warp;

use std::cell::RefCell;

use self::data::Data;
use self::kernel::Lengths;
use self::process::Process;
use self::search::{Search, key};
use self::warp::Warp;
use super::cube::{Cube, Point};
use super::{Ask, Capabilities, Sampler, SamplerEntry, SamplerError, start};
use crate::params::Params;
use crate::policy::{OptionKind, OptionSpec};
use crate::seed::StreamRng;
use crate::study::PolicySpec;

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "gp",
    aliases: &[],
    summary: "fits a Gaussian process and proposes where it expects most (few trials, parameters of numbers above all)",
    version: 1,
    options: &[OptionSpec {
        name: "n_startup_trials",
        kind: OptionKind::Int { min: 1, max: 10_000 },
        default: "10",
        summary: "trials drawn at random (one in each of so many equal parts of every axis) before the process takes over",
    }],
    build: |spec, _| Ok(Box::new(Gp::new(spec))),
};

/// Most trials that lengths are fitted to.
const FIT_MOST: usize = 120;

/// Expected improvement of a Gaussian process with a Matern 5/2 kernel over warped losses, pending trials taken at the
/// process's own word (the kriging believer).
#[derive(Debug)]
pub struct Gp {
    startup_trials: u64,
    /// The last fit and what it was fitted to: a memo, it can be made again at any time.
    fitted: RefCell<Option<Fitted>>,
}

/// A fit, and what it was fitted to.
#[derive(Debug)]
struct Fitted {
    points: Vec<Point>,
    losses: Vec<f64>,
    lengths: Lengths,
}

impl Gp {
    /// From checked options.
    pub fn new(spec: &PolicySpec) -> Self {
        Gp { startup_trials: spec.count("n_startup_trials", 10), fitted: RefCell::new(None) }
    }

    fn learned(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Option<Params> {
        let cube = Cube::new(ask.space);
        let data = Data::new(&cube, &ask.history);
        let lengths = self.lengths(&cube, &data);
        let warp = Warp::fit(&data.losses);
        let targets: Vec<f64> = data.losses.iter().map(|loss| warp.of(*loss)).collect();
        let known = Process::new(&cube, &lengths, slices(&data.points), &targets)?;
        let means: Vec<f64> = known.means_of_data(&targets).collect();
        let incumbent = means.iter().copied().fold(f64::INFINITY, f64::min);
        let believed: Vec<f64> = data.pending.iter().map(|point| known.mean(point)).collect();
        let all = [slices(&data.points), slices(&data.pending)].concat();
        let process = if believed.is_empty() { known } else { Process::new(&cube, &lengths, all.clone(), &[targets, believed].concat())? };
        let mut order: Vec<usize> = (0..means.len()).collect();
        order.sort_by(|a, b| means[*a].total_cmp(&means[*b]));
        let search = Search {
            cube: &cube,
            process: &process,
            incumbent,
            fixed: &cube.encode(ask.fixed),
            best: order.into_iter().map(|index| data.points[index].as_slice()).collect(),
            taken: all.iter().map(|point| key(point)).collect(),
        };
        Some(cube.decode(&search.run(rng), ask))
    }

    /// Lengths fitted to the oldest so many trials, more of them now and then: what is known changes little from one trial
    /// to the next, and the fit is what costs.
    fn lengths(&self, cube: &Cube, data: &Data) -> Lengths {
        let (points, losses) = fitted_to(data);
        if let Some(fitted) = self.fitted.borrow().as_ref()
            && fitted.losses == losses
            && fitted.points.len() == points.len()
            && fitted.points.iter().zip(&points).all(|(known, point)| key(known) == key(point))
        {
            return fitted.lengths.clone();
        }
        let warp = Warp::fit(&losses);
        let targets: Vec<f64> = losses.iter().map(|loss| warp.of(*loss)).collect();
        let lengths = fit::fit(cube, &slices(&points), &targets);
        *self.fitted.borrow_mut() = Some(Fitted { points, losses, lengths: lengths.clone() });
        lengths
    }
}

/// The trials that lengths are fitted to: the first `m`, where `m` grows by one 25th; of many the best third of
/// `FIT_MOST`, and an even selection of the others.
fn fitted_to(data: &Data) -> (Vec<Point>, Vec<f64>) {
    let mut count = data.losses.len().min(5);
    while count + 1 + count / 25 <= data.losses.len() {
        count += 1 + count / 25;
    }
    let mut order: Vec<usize> = (0..count).collect();
    if count > FIT_MOST {
        order.sort_by(|a, b| data.losses[*a].total_cmp(&data.losses[*b]).then(a.cmp(b)));
        let mut others = order.split_off(FIT_MOST / 3);
        others.sort_unstable();
        let places = FIT_MOST - FIT_MOST / 3;
        order.extend((0..places).map(|place| others[place * others.len() / places]));
        order.sort_unstable();
    }
    (order.iter().map(|index| data.points[*index].clone()).collect(), order.iter().map(|index| data.losses[*index]).collect())
}

fn slices(points: &[Point]) -> Vec<&[f64]> {
    points.iter().map(Vec::as_slice).collect()
}

impl Sampler for Gp {
    fn capabilities(&self) -> Capabilities {
        Capabilities { conditional: true, continuous: true, exhausts: false }
    }

    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError> {
        let informed =
            ask.history.trials().iter().filter(|trial| ask.history.final_score(trial).is_some_and(|score| score.loss().is_finite())).count();
        let starting = (informed as u64) < self.startup_trials;
        let learned = if starting { None } else { self.learned(ask, rng) };
        Ok(Some(learned.unwrap_or_else(|| start::point(ask, self.startup_trials, rng))))
    }
}
