//! A Gaussian process over the whole space, and the point where it expects the largest improvement.

mod data;
mod fit;
mod kernel;
mod limit;
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
use super::guess::Guess;
use super::{Ask, Capabilities, Sampler, SamplerEntry, SamplerError, start};
use crate::params::Params;
use crate::policy::{OptionKind, OptionSpec};
use crate::seed::StreamRng;
use crate::study::PolicySpec;
use crate::trial::{Trial, TrialState};

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
    /// The same for each limit.
    limits_fitted: RefCell<Vec<RefCell<Option<Fitted>>>>,
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
        Gp { startup_trials: spec.count("n_startup_trials", 10), fitted: RefCell::new(None), limits_fitted: RefCell::default() }
    }

    fn learned(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Option<Params> {
        let cube = Cube::new(ask.space);
        let data = Data::new(&cube, ask);
        let (fit_points, fit_losses) = fitted_to(&data);
        let lengths = lengths(&self.fitted, &cube, fit_points, fit_losses);
        let warp = Warp::fit(&data.losses);
        let targets: Vec<f64> = data.losses.iter().map(|loss| warp.of(*loss)).collect();
        // What earlier studies say is doubted more the more is known of this one.
        #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
        let doubt = lengths.variance * (0.25 + data.losses.len() as f64 / 20.0);
        let doubts = vec![doubt; data.earlier.len()];
        let with_earlier = |own: &[f64]| [own, &data.earlier_targets].concat();
        let known_points = [slices(&data.points), slices(&data.earlier)].concat();
        let known = Process::new(&cube, &lengths, &known_points, &with_earlier(&targets), &doubts)?;
        let means: Vec<f64> = known.means_of_data(&targets).collect();
        let feasible = || means.iter().zip(&data.is_feasible).filter(|(_, is_feasible)| **is_feasible).map(|(mean, _)| *mean);
        let incumbent = feasible().fold(f64::INFINITY, f64::min);
        let believed: Vec<f64> = data.pending.iter().map(|point| known.mean(point)).collect();
        let all = [slices(&data.points), slices(&data.pending)].concat();
        let process = if believed.is_empty() {
            known
        } else {
            let points = [all.clone(), slices(&data.earlier)].concat();
            Process::new(&cube, &lengths, &points, &with_earlier(&[targets, believed].concat()), &doubts)?
        };
        let mut order: Vec<usize> = (0..means.len()).collect();
        order.sort_by(|a, b| data.is_feasible[*b].cmp(&data.is_feasible[*a]).then(means[*a].total_cmp(&means[*b])));
        let limit_lengths = self.limit_lengths(&cube, &data);
        let limits = data.limits.iter().zip(&limit_lengths).map(|(limit, lengths)| Some((limit.process(&cube, lengths)?, limit.bound())));
        let search = Search {
            cube: &cube,
            ask,
            process: &process,
            incumbent: incumbent.is_finite().then_some(incumbent),
            limits: limits.collect::<Option<Vec<_>>>()?,
            guess: Guess::new(&cube, ask.space),
            finished: data.points.len(),
            fixed: &cube.encode(ask.fixed),
            best: order.into_iter().map(|index| data.points[index].as_slice()).collect(),
            taken: all.iter().map(|point| key(point)).collect(),
        };
        Some(cube.decode(&search.run(rng), ask))
    }

    /// The lengths of each limit's process, fitted as those of the losses are.
    fn limit_lengths(&self, cube: &Cube, data: &Data) -> Vec<Lengths> {
        let mut memos = self.limits_fitted.borrow_mut();
        memos.resize_with(data.limits.len(), RefCell::default);
        data.limits.iter().zip(memos.iter()).map(|(limit, memo)| limit.lengths(cube, memo)).collect()
    }
}

/// Lengths fitted to points and losses, of the memo where they are the ones before.
fn lengths(memo: &RefCell<Option<Fitted>>, cube: &Cube, points: Vec<Point>, losses: Vec<f64>) -> Lengths {
    if let Some(fitted) = memo.borrow().as_ref()
        && fitted.losses == losses
        && fitted.points.len() == points.len()
        && fitted.points.iter().zip(&points).all(|(known, point)| key(known) == key(point))
    {
        return fitted.lengths.clone();
    }
    let warp = Warp::fit(&losses);
    let targets: Vec<f64> = losses.iter().map(|loss| warp.of(*loss)).collect();
    let lengths = fit::fit(cube, &slices(&points), &targets);
    *memo.borrow_mut() = Some(Fitted { points, losses, lengths: lengths.clone() });
    lengths
}

/// The trials that lengths are fitted to: the oldest `m`, where `m` grows by one 25th, since what is known changes little from
/// one trial to the next, and the fit is what costs; of many the best third of `FIT_MOST`, and an even selection of the others.
fn fitted_to(data: &Data) -> (Vec<Point>, Vec<f64>) {
    selection(&data.points, &data.losses)
}

fn selection(points: &[Point], losses: &[f64]) -> (Vec<Point>, Vec<f64>) {
    let mut count = losses.len().min(5);
    while count + 1 + count / 25 <= losses.len() {
        count += 1 + count / 25;
    }
    let mut order: Vec<usize> = (0..count).collect();
    if count > FIT_MOST {
        order.sort_by(|a, b| losses[*a].total_cmp(&losses[*b]).then(a.cmp(b)));
        let mut others = order.split_off(FIT_MOST / 3);
        others.sort_unstable();
        let places = FIT_MOST - FIT_MOST / 3;
        order.extend((0..places).map(|place| others[place * others.len() / places]));
        order.sort_unstable();
    }
    (order.iter().map(|index| points[*index].clone()).collect(), order.iter().map(|index| losses[*index]).collect())
}

fn slices(points: &[Point]) -> Vec<&[f64]> {
    points.iter().map(Vec::as_slice).collect()
}

impl Sampler for Gp {
    fn capabilities(&self) -> Capabilities {
        Capabilities { conditional: true, continuous: true, exhausts: false }
    }

    fn suggest(&self, ask: &Ask<'_>, rng: &mut StreamRng) -> Result<Option<Params>, SamplerError> {
        let has_value = |trial: &&Trial| trial.state == TrialState::Complete && trial.value.is_some_and(f64::is_finite);
        let informed = ask.history.trials().iter().filter(has_value).count();
        let starting = (informed as u64) < start::trials(ask, self.startup_trials);
        let learned = if starting { None } else { self.learned(ask, rng) };
        Ok(Some(learned.unwrap_or_else(|| start::point(ask, self.startup_trials, rng))))
    }
}
