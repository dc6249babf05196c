//! The process of each of several objectives, and the search on their front.

use std::cell::RefCell;

use super::data::Data;
use super::front::{HypervolumeImprovement, ObjectiveProcess};
use super::limit::Limit;
use super::loss_scale::LossScale;
use super::process::{Acquisition, GaussianProcess};
use super::projection::projected;
use super::search::{BEST_OF_SEVERAL, Model, Search};
use super::value::ValuePredictor;
use super::warp::Warp;
use super::{Gp, Losses, hyperparameters, noise_variances};
use crate::samplers::Ask;
use crate::samplers::cube::{Cube, Point, key, slices};
use crate::samplers::prior::Prior;
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::pareto;
use crate::study::seed::StreamRng;
use crate::study::trial::{Trial, TrialNumber};

use rand::RngExt as _;

/// Objectives up to which the expected hypervolume improvement is computed: the number of boxes
/// grows with the front's size to this power, less one.
pub(in crate::samplers) const MOST_EXACT: usize = 3;
/// Points of the front that are kept with three objectives.
const MOST_OF_FRONT: usize = 40;
/// Points, and share of the losses' range in each objective, from which a front has its own
/// reference point.
const SPREAD: usize = 5;
const WIDE: f64 = 0.3;
/// The weight of the sum in the augmented Chebyshev function (J. Knowles, "ParEGO", 2006).
const AUGMENTATION: f64 = 0.05;

impl Gp {
    /// Up to three objectives: the expected hypervolume improvement. More: the expected improvement
    /// of a random augmented Chebyshev function of the losses, another for each trial (ParEGO).
    pub(super) fn learned_from_several<T>(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
        answer: impl FnOnce(&Search<'_>, &mut StreamRng) -> T,
    ) -> Option<T> {
        if ask.history.directions().len() <= MOST_EXACT {
            return self.learned_from_front(ask, rng, answer);
        }
        let trials = scalarised(&ask.history, rng);
        let history =
            History::of(&trials, Direction::Minimize).with_step_unit(ask.history.step_unit());
        // The losses are others every time, so that fits must not be taken for those of the last.
        self.learned(&Ask { history, ..*ask }, Losses::Scalarised, rng, answer)
    }

    fn learned_from_front<T>(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
        answer: impl FnOnce(&Search<'_>, &mut StreamRng) -> T,
    ) -> Option<T> {
        let cube = Cube::new(ask.space);
        let objectives = ask.history.directions().len();
        let data: Vec<Data> = (0..objectives)
            .map(|objective| {
                let trials = projected(&ask.history, |losses| losses[objective]);
                let history = History::of(&trials, Direction::Minimize)
                    .with_step_unit(ask.history.step_unit());
                let ask = Ask { history, earlier: &[], ..*ask };
                Data::new(&cube, &ask, self.middle, self.rules)
            })
            .collect();
        let mut memos = self.objectives_fitted.borrow_mut();
        memos.resize_with(objectives, RefCell::default);
        let fits: Vec<_> = data
            .iter()
            .zip(memos.iter())
            .map(|(data, memo)| {
                let fitted = hyperparameters(memo, &cube, &data.to_fit, self.rules.exponential());
                (fitted, Warp::fit(&data.losses))
            })
            .collect();
        // A trial may have reported some objectives and not others: one list for all.
        let unfinished = &data.first()?.pending;
        let conditioned = |believed: &[Vec<f64>]| -> Option<Vec<GaussianProcess<'_>>> {
            let process = |(index, data): (usize, &Data)| {
                let (hyperparameters, warp) = &fits[index];
                let pending = believed.get(index).map_or(&[][..], Vec::as_slice);
                let known = data.losses.iter().map(|loss| warp.of(*loss));
                let targets: Vec<f64> = known.chain(pending.iter().copied()).collect();
                let mut noise = noise_variances(warp, &data.losses, &data.variances);
                noise.resize(targets.len(), 0.0);
                let points = data.points.iter().chain(&unfinished[..pending.len()]);
                let points: Vec<&[f64]> = points.map(Vec::as_slice).collect();
                GaussianProcess::new(&cube, hyperparameters, &points, &targets, &noise)
            };
            data.iter().enumerate().map(process).collect()
        };
        let known = conditioned(&[])?;
        let complete = complete(&cube, &ask.history);
        let means_at = |point: &Point| -> Vec<f64> {
            known.iter().map(|process| process.mean(point)).collect()
        };
        let means: Vec<Vec<f64>> = complete.iter().map(means_at).collect();
        let believed: Vec<Vec<f64>> = known
            .iter()
            .map(|process| unfinished.iter().map(|point| process.mean(point)).collect())
            .collect();
        let mut front: Vec<Vec<f64>> =
            pareto::front(&means).into_iter().map(|index| means[index].clone()).collect();
        let reference = reference(&means, &front, ask.number);
        front.extend(unfinished.iter().map(means_at));
        let best: Vec<&[f64]> =
            pareto::order(&means).into_iter().map(|index| complete[index].as_slice()).collect();
        let limit_hyperparameters = self.limit_hyperparameters(&cube, &data.first()?.limits);
        let limits = Limit::processes(&cube, &data[0].limits, &limit_hyperparameters)?;
        let believing = match reference.is_some() && !unfinished.is_empty() {
            true => Some(conditioned(&believed)?),
            false => None,
        };
        let improvement = reference.map(|reference| {
            let front = thinned(front, &reference);
            let processes = believing.as_ref().unwrap_or(&known).iter();
            let processes = processes.map(ObjectiveProcess::Final).collect();
            HypervolumeImprovement::new(processes, &front, &reference)
        });
        let limits =
            limits.iter().map(|(process, bound)| Model::One(process, Acquisition::AtMost(*bound)));
        let all = [slices(&data[0].points), slices(&complete), slices(unfinished)].concat();
        let predictor = |(objective, process)| {
            let (fit, data): (&(_, Warp), &Data) = (&fits[objective], &data[objective]);
            ValuePredictor {
                process: ObjectiveProcess::Final(process),
                scale: LossScale::warped(fit.1, &data.losses),
                direction: ask.history.directions()[objective],
                widening: self.widening(process, &data.is_measured),
            }
        };
        let predicted = known.iter().enumerate().filter(|_| self.predicts);
        let search = Search {
            cube: &cube,
            ask,
            rules: self.rules,
            models: improvement.iter().map(Model::Front).chain(limits).collect(),
            prior: Prior::new(&cube, ask.space),
            finished: data[0].points.len(),
            fixed: &cube.encode(ask.fixed),
            best,
            centres: BEST_OF_SEVERAL,
            taken: all.iter().map(|point| key(point)).collect(),
            predictors: predicted.map(predictor).collect(),
        };
        Some(answer(&search, rng))
    }
}

/// The front's own reference point, or the worst losses of all trials (a tenth of their range
/// beyond) while the front has few points or is narrow, and for every fourth trial: below the
/// reference of a front that is one corner, nothing but that corner would improve it.
pub(super) fn reference(
    losses: &[Vec<f64>],
    front: &[Vec<f64>],
    number: TrialNumber,
) -> Option<Vec<f64>> {
    let is_wide = |objective: usize| {
        let width = |points: &[Vec<f64>]| {
            let losses = || points.iter().map(|point| point[objective]);
            losses().fold(f64::NEG_INFINITY, f64::max) - losses().fold(f64::INFINITY, f64::min)
        };
        width(front) > WIDE * width(losses)
    };
    let objectives = front.first()?.len();
    let is_spread = front.len() >= SPREAD && (0..objectives).all(is_wide);
    if is_spread && number.0 % 4 != 3 {
        return pareto::reference_point(front);
    }
    let worst = |objective: usize| {
        let losses = || losses.iter().map(|one| one[objective]);
        let (low, high) =
            (losses().fold(f64::INFINITY, f64::min), losses().fold(f64::NEG_INFINITY, f64::max));
        high + 0.1 * (high - low).max(1e-9)
    };
    Some((0..objectives).map(worst).collect())
}

/// The points of feasible trials with finite losses.
fn complete(cube: &Cube, history: &History<'_>) -> Vec<Point> {
    let is_finite = |trial: &&Trial| {
        let losses = history.final_losses(trial);
        losses.is_some_and(|losses| losses.iter().all(|loss| loss.is_finite()))
    };
    let trials = history.trials().iter().filter(is_finite);
    trials.map(|trial| cube.encode(&trial.params)).collect()
}

/// At most [`MOST_OF_FRONT`] points of a front of three objectives.
pub(super) fn thinned(front: Vec<Vec<f64>>, reference: &[f64]) -> Vec<Vec<f64>> {
    if reference.len() < MOST_EXACT || front.len() <= MOST_OF_FRONT {
        return front;
    }
    let kept = pareto::select(&front, reference, MOST_OF_FRONT);
    kept.into_iter().map(|index| front[index].clone()).collect()
}

/// The trials with a random augmented Chebyshev function of their losses, which are scaled to
/// `[0, 1]` over the finite ones.
fn scalarised(history: &History<'_>, rng: &mut StreamRng) -> Vec<Trial> {
    let objectives = history.directions().len();
    let finals: Vec<Vec<f64>> =
        history.trials().iter().filter_map(|trial| history.final_losses(trial)).collect();
    let ranges: Vec<(f64, f64)> = (0..objectives)
        .map(|objective| {
            let finite = || finals.iter().map(|one| one[objective]).filter(|loss| loss.is_finite());
            let (low, high) = (
                finite().fold(f64::INFINITY, f64::min),
                finite().fold(f64::NEG_INFINITY, f64::max),
            );
            let width = high - low;
            if width > 0.0 && width.is_finite() { (low, width) } else { (0.0, 1.0) }
        })
        .collect();
    // Even on the simplex: exponential draws, by their sum.
    let draws: Vec<f64> = (0..objectives).map(|_| -(1.0 - rng.random::<f64>()).ln()).collect();
    let total: f64 = draws.iter().sum();
    projected(history, |losses| {
        let weighted =
            losses.iter().zip(&ranges).zip(&draws).map(|((loss, (low, width)), draw)| {
                draw / total.max(f64::MIN_POSITIVE) * (loss - low) / width
            });
        let (most, sum) = weighted
            .fold((f64::NEG_INFINITY, 0.0), |(most, sum), part| (f64::max(most, part), sum + part));
        most + AUGMENTATION * sum
    })
}
