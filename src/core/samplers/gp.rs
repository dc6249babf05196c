//! Bayesian optimisation with a Gaussian process over the whole space, by expected improvement.

mod ascent;
mod curves;
mod data;
mod ends;
mod fit;
mod front;
mod kernel;
mod limit;
mod loss_scale;
mod paused;
mod process;
mod projection;
mod rules;
mod search;
mod selection;
mod several;
mod value;
mod warp;
mod widening;

use std::cell::RefCell;

pub use self::curves::{CurvePredictor, Predicted, PredictedTrial};
use self::curves::{FittedCurves, Lengths};
use self::data::Data;
use self::front::ObjectiveProcess;
use self::kernel::{Exponential, Hyperparameters};
use self::limit::Limit;
use self::loss_scale::LossScale;
use self::process::{Acquisition, GaussianProcess};
use self::rules::Rules;
use self::search::{BEST, Model, Search};
use self::selection::Selection;
pub(super) use self::several::MOST_EXACT;
use self::value::ValuePredictor;
use self::warp::Warp;
use super::cube::{Cube, key, slices};
use super::prior::Prior;
use super::start::{Startup, WaitsFor};
use super::{
    Ask, Chosen, OfEarlier, Proposal, Sampler, SamplerEntry, SamplerError, candidates, start,
};
use crate::study::field::{Field, FieldDefault, FieldKind, field};
use crate::study::metric::Middle;
use crate::study::params::Params;
use crate::study::seed::StreamRng;
use crate::study::space::Space;
use crate::study::spec::AlgorithmSpec;
use crate::study::trial::{Trial, TrialState};

const N_STARTUP_TRIALS: Field = field(
    "n_startup_trials",
    FieldKind::Integer { min: 1, max: 10_000 },
    FieldDefault::Int(10),
    "random trials (a Latin hypercube) before the Gaussian process takes over",
);

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "gp",
    aliases: &[],
    summary: "maximises the expected improvement of a Gaussian process (few trials, mostly numeric \
        parameters)",
    // 4: forecasts of pruned trials average several models by their likelihood; 5: the median of an
    // even number of values is the mean of the middle two; 6: where trials are paused, one process
    // over configurations and steps learns from all reports; 7: with separate length scales for
    // final losses and for the approach to them; 8: such a process for each of several objectives;
    // 9: proposals have their predicted values; 10: fits of hyperparameters wait for more trials
    // whatever the process keeps of them, and exponentials are computed here; 11: ascents are
    // quasi-Newton's, from fewer draws; 12: intervals are wider while few values are known.
    version: 12,
    oldest: 4,
    options: &[N_STARTUP_TRIALS],
    several: true,
    build: |spec, _| Ok(Box::new(Gp::new(spec))),
};

/// The first version whose median is that mean.
pub(super) const MEDIAN_SINCE: u32 = 5;

/// The first version that learns from all reports.
const CURVES_SINCE: u32 = 6;

/// The first version with separate length scales for the approach to final losses.
const OWN_LENGTHS_SINCE: u32 = 7;

/// The first version that learns from all reports of several objectives.
const CURVES_OF_SEVERAL_SINCE: u32 = 8;

/// The first version whose proposals have their predicted values.
const PREDICTED_SINCE: u32 = 9;

/// The first version whose intervals are wider while few values are known.
const WIDER_SINCE: u32 = 12;

/// Expected improvement of a Gaussian process with a Matern 5/2 kernel over warped losses; pending
/// trials take the process's own predictions (the kriging believer).
#[derive(Debug)]
pub struct Gp {
    startup_trials: u64,
    /// Which trials count towards the end of the start-up.
    waits_for: WaitsFor,
    middle: Middle,
    /// Cache of the last fit.
    fitted: RefCell<Option<Fitted>>,
    /// Cache of the last fit of each of several objectives.
    objectives_fitted: RefCell<Vec<RefCell<Option<Fitted>>>>,
    /// The length scales of the process over configurations and steps, which learns from all
    /// reports where trials are paused; `None`: versions before it.
    curve_lengths: Option<Lengths>,
    /// The same for each of several objectives.
    curve_lengths_of_several: Option<Lengths>,
    /// Cache of the last fit of that.
    curves_fitted: RefCell<Option<FittedCurves>>,
    /// The same of each of several objectives.
    objective_curves_fitted: RefCell<Vec<RefCell<Option<FittedCurves>>>>,
    /// Cache of the last fit of each limit.
    limits_fitted: RefCell<Vec<RefCell<Option<Fitted>>>>,
    /// Whether proposals have their predicted values.
    predicts: bool,
    /// Whether their intervals are wider while few values are known.
    widens_for_few: bool,
    rules: Rules,
}

/// The losses that a process learns from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Losses {
    /// The study's.
    Own,
    /// A function of those of several objectives, of which nothing is predicted.
    Scalarised,
}

/// A fit, and what it was fitted to.
#[derive(Debug)]
struct Fitted {
    to: Selection,
    hyperparameters: Hyperparameters,
}

impl Gp {
    /// From checked options.
    pub fn new(spec: &AlgorithmSpec) -> Self {
        Gp {
            waits_for: WaitsFor::Complete,
            middle: Middle::of_version(spec.version, MEDIAN_SINCE),
            startup_trials: N_STARTUP_TRIALS.of(spec),
            curve_lengths: match spec.version {
                OWN_LENGTHS_SINCE.. => Some(Lengths::Own),
                CURVES_SINCE.. => Some(Lengths::Shared),
                _ => None,
            },
            curve_lengths_of_several: (spec.version >= CURVES_OF_SEVERAL_SINCE)
                .then_some(Lengths::Own),
            curves_fitted: RefCell::new(None),
            objective_curves_fitted: RefCell::default(),
            fitted: RefCell::new(None),
            objectives_fitted: RefCell::default(),
            limits_fitted: RefCell::default(),
            predicts: spec.version >= PREDICTED_SINCE,
            widens_for_few: spec.version >= WIDER_SINCE,
            rules: Rules::of_version(spec.version),
        }
    }

    /// The same, whose proposals have their predicted values in any version.
    pub(super) fn predicting(self, widens_for_few: bool) -> Self {
        Gp { predicts: true, widens_for_few, ..self }
    }

    /// The same, which learns from all reports of several objectives in any version.
    pub(super) fn with_curves_of_several(self) -> Self {
        Gp { curve_lengths_of_several: Some(Lengths::Own), ..self }
    }

    /// The same process, whose start-up ends after a number of complete or stopped trials.
    pub(super) fn learning_from_stopped_trials(spec: &AlgorithmSpec) -> Self {
        Gp { waits_for: WaitsFor::CompleteOrStopped, ..Gp::new(spec) }
    }

    /// By how much the intervals of a process are widened.
    fn widening(&self, process: &GaussianProcess, is_measured: &[bool]) -> f64 {
        let few = if self.widens_for_few { widening::for_few(is_measured) } else { 1.0 };
        few * process.widening(is_measured)
    }

    fn learned<T>(
        &self,
        ask: &Ask<'_>,
        losses: Losses,
        rng: &mut StreamRng,
        answer: impl FnOnce(&Search<'_>, &mut StreamRng) -> T,
    ) -> Option<T> {
        let cube = Cube::new(ask.space);
        let data = Data::new(&cube, ask, self.middle, self.rules);
        let exponential = self.rules.exponential();
        let hyperparameters = hyperparameters(&self.fitted, &cube, &data.to_fit, exponential);
        let warp = Warp::fit(&data.losses);
        let targets: Vec<f64> = data.losses.iter().map(|loss| warp.of(*loss)).collect();
        // The noise of earlier studies' targets grows with the size of this one.
        #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
        let earlier_noise = hyperparameters.variance * (0.25 + data.losses.len() as f64 / 20.0);
        let with_earlier = |own: &[f64]| [own, &data.earlier_targets].concat();
        let own_noise_variances = noise_variances(&warp, &data.losses, &data.variances);
        let noise_with = |unfinished: usize| {
            [
                own_noise_variances.as_slice(),
                &vec![0.0; unfinished],
                &vec![earlier_noise; data.earlier.len()],
            ]
            .concat()
        };
        let known_points = [slices(&data.points), slices(&data.earlier)].concat();
        let known = GaussianProcess::new(
            &cube,
            &hyperparameters,
            &known_points,
            &with_earlier(&targets),
            &noise_with(0),
        )?;
        let means: Vec<f64> = known.means_of_data(&targets).collect();
        let feasible = means.iter().zip(&data.is_feasible).filter(|(_, feasible)| **feasible);
        let incumbent = feasible.map(|(mean, _)| *mean).fold(f64::INFINITY, f64::min);
        let believed: Vec<f64> = data.pending.iter().map(|point| known.mean(point)).collect();
        let all = [slices(&data.points), slices(&data.pending)].concat();
        let believing = if believed.is_empty() {
            None
        } else {
            let points = [all.clone(), slices(&data.earlier)].concat();
            Some(GaussianProcess::new(
                &cube,
                &hyperparameters,
                &points,
                &with_earlier(&[targets, believed].concat()),
                &noise_with(data.pending.len()),
            )?)
        };
        let process = believing.as_ref().unwrap_or(&known);
        let predictor = || ValuePredictor {
            process: ObjectiveProcess::Final(&known),
            scale: LossScale::warped(warp, &data.losses),
            direction: ask.history.direction(),
            widening: self.widening(&known, &data.is_measured),
        };
        let predicts = self.predicts && losses == Losses::Own;
        let mut order: Vec<usize> = (0..means.len()).collect();
        order.sort_by(|a, b| {
            data.is_feasible[*b].cmp(&data.is_feasible[*a]).then(means[*a].total_cmp(&means[*b]))
        });
        let limit_hyperparameters = self.limit_hyperparameters(&cube, &data.limits);
        let limits = Limit::processes(&cube, &data.limits, &limit_hyperparameters)?;
        let improvement =
            incumbent.is_finite().then_some((process, Acquisition::Improvement(incumbent)));
        let limits = limits.iter().map(|(process, bound)| (process, Acquisition::AtMost(*bound)));
        let models = improvement.into_iter().chain(limits);
        let search = Search {
            cube: &cube,
            ask,
            rules: self.rules,
            models: models.map(|(process, acquisition)| Model::One(process, acquisition)).collect(),
            centres: BEST,
            prior: Prior::new(&cube, ask.space),
            finished: data.points.len(),
            fixed: &cube.encode(ask.fixed),
            best: order.into_iter().map(|index| data.points[index].as_slice()).collect(),
            taken: all.iter().map(|point| key(point)).collect(),
            predictors: predicts.then(predictor).into_iter().collect(),
        };
        Some(answer(&search, rng))
    }

    /// The hyperparameters of each limit's process, fitted as those of the losses are.
    fn limit_hyperparameters(&self, cube: &Cube, limits: &[Limit]) -> Vec<Hyperparameters> {
        let mut memos = self.limits_fitted.borrow_mut();
        memos.resize_with(limits.len(), RefCell::default);
        limits
            .iter()
            .zip(memos.iter())
            .map(|(limit, memo)| limit.hyperparameters(cube, memo, self.rules.exponential()))
            .collect()
    }
}

/// The hyperparameters, taken from the cache if the trials are the same.
fn hyperparameters(
    memo: &RefCell<Option<Fitted>>,
    cube: &Cube,
    to: &Selection,
    exponential: Exponential,
) -> Hyperparameters {
    if let Some(fitted) = memo.borrow().as_ref()
        && fitted.to.is(to)
    {
        return fitted.hyperparameters.clone();
    }
    let warp = Warp::fit(&to.losses);
    let targets: Vec<f64> = to.losses.iter().map(|loss| warp.of(*loss)).collect();
    let hyperparameters = fit::fit(
        cube,
        &slices(&to.points),
        &targets,
        &noise_variances(&warp, &to.losses, &to.variances),
        exponential,
    );
    *memo.borrow_mut() = Some(Fitted { to: to.clone(), hyperparameters: hyperparameters.clone() });
    hyperparameters
}

/// The noise variances of warped losses.
fn noise_variances(warp: &Warp, losses: &[f64], variances: &[f64]) -> Vec<f64> {
    let noise_variance = |(loss, variance): (&f64, &f64)| {
        let deviation = variance.sqrt();
        let warped = 0.5 * (warp.of(loss + deviation) - warp.of(loss - deviation));
        if warped.is_finite() { warped * warped } else { 1.0 }
    };
    losses.iter().zip(variances).map(noise_variance).collect()
}

impl Gp {
    /// The answer of the search for the best point; `None` during the start-up.
    fn searched<T>(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
        answer: impl FnOnce(&Search<'_>, &mut StreamRng) -> T,
    ) -> Option<T> {
        let several = ask.history.has_several_objectives();
        let is_paused = |trial: &Trial| trial.state == TrialState::Paused && trial.rests();
        let lengths = match ask.history.directions().len() {
            _ if !several => self.curve_lengths,
            ..=MOST_EXACT => self.curve_lengths_of_several,
            _ => None,
        };
        if let Some(lengths) = lengths
            && ask.history.trials().iter().any(is_paused)
        {
            return match several {
                true => self.learned_from_curves_of_several(ask, lengths, rng, answer),
                false => self.learned_from_curves(ask, lengths, rng, answer),
            };
        }
        let is_known = |trial: &Trial| match trial.value {
            _ if several => trial.values.iter().all(|value| value.is_finite()),
            value => value.is_some_and(f64::is_finite),
        };
        let counts = |trial: &&Trial| {
            trial.state == TrialState::Complete && is_known(trial)
                || self.waits_for == WaitsFor::CompleteOrStopped
                    && ends::stopped_at(&ask.history, trial).is_some()
        };
        let informed = ask.history.trials().iter().filter(counts).count();
        let starting = (informed as u64) < start::trials(ask, self.startup_trials);
        match starting {
            true => None,
            false if several => self.learned_from_several(ask, rng, answer),
            false => self.learned(ask, Losses::Own, rng, answer),
        }
    }
}

impl Sampler for Gp {
    fn starts_as_given(&self) -> bool {
        true
    }

    fn startup(&self) -> Option<Startup> {
        Some(Startup { trials: self.startup_trials, waits_for: self.waits_for })
    }

    /// The process of each of several objectives has other targets than the ranks of earlier
    /// studies; of more objectives one process has their scalarised ranks.
    fn takes_of_earlier(&self, _space: &Space, objectives: usize) -> OfEarlier {
        match objectives {
            2..=MOST_EXACT => OfEarlier::Best,
            _ => OfEarlier::Results,
        }
    }

    fn suggest(
        &self,
        ask: &Ask<'_>,
        rng: &mut StreamRng,
    ) -> Result<Option<Proposal>, SamplerError> {
        let found = self.searched(ask, rng, |search, rng| {
            let point = search.run(rng);
            let params = search.cube.decode(&point, ask);
            Proposal { params, predicted: search.predict(&point) }
        });
        let start = || start::point(ask, self.startup_trials, rng).into();
        Ok(Some(found.unwrap_or_else(start)))
    }

    fn choose(
        &self,
        ask: &Ask<'_>,
        candidates: &[&Params],
        rng: &mut StreamRng,
    ) -> Result<Chosen, SamplerError> {
        let found = self.searched(ask, rng, |search, rng| {
            let index = search.choose(candidates::points(search.cube, candidates, rng));
            let predicted = search.predict(&search.cube.encode(candidates[index]));
            Chosen { index, predicted }
        });
        Ok(found.unwrap_or_else(|| candidates::uniform(candidates, rng).into()))
    }
}
