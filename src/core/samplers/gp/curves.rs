//! A Gaussian process over configurations and steps, learned from every report of every trial: what
//! stopped, paused and running trials teach about final losses.
//!
//! Freeze-thaw Bayesian optimisation (Swersky, Snoek and Adams 2014), with one covariance for all
//! curves:
//!
//! ```text
//! k((x, t), (x', t')) = a k1(x, x') + b decay(t, t') k2(x, x') + [same trial] (c + d decay(t, t'))
//! decay(t, t') = h / (t + t' + h)
//! ```
//!
//! `k1` and `k2` are Matern 5/2, each with its own length scales: what a configuration's final loss
//! depends on may not be what its early losses depend on (benches/search/README.md has figures).
//! The first two terms are what configurations share, the level of their final losses and how they
//! approach it; the last is a trial's own. Steps are scaled so that a full trial has [`FULL`].

mod data;
mod fit;
mod predicted;
mod process;

use std::cell::RefCell;

pub(crate) use self::data::CurveData;
use self::data::ToFit;
use self::fit::Posterior;
pub(super) use self::predicted::widening;
pub use self::predicted::{CurvePredictor, Predicted, PredictedTrial};
pub(crate) use self::process::{CurveProcess, End};
use crate::analysis::linalg::Matrix;
use crate::samplers::cube::{Cube, Point, key};
use crate::samplers::gp::kernel::Exponential;

/// Scaled steps of a full trial.
const FULL: f64 = 50.0;

/// The fitted hyperparameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CurveHyperparameters {
    /// `1 / length^2` by term and axis: of level and approach, or one term for both.
    inverse_squares: Vec<Vec<f64>>,
    /// Variance of final losses over configurations (a).
    level: f64,
    /// Variance of the way to them (b).
    approach: f64,
    /// The same of a trial alone (c, d).
    own_level: f64,
    own_approach: f64,
    /// Steps after which a curve has half of its way behind it (h).
    half_life: f64,
    /// Variance of the noise.
    noise: f64,
    exponential: Exponential,
}

impl CurveHyperparameters {
    fn decay(&self, a: f64, b: f64) -> f64 {
        self.half_life / (a + b + self.half_life)
    }

    /// The covariance of a configuration with itself that others share.
    fn shared(&self, a: f64, b: f64) -> f64 {
        self.level + self.approach * self.decay(a, b)
    }

    /// The factor of one term's correlation between configurations.
    fn factor(&self, term: usize, a: f64, b: f64) -> f64 {
        match (self.inverse_squares.len(), term) {
            (1, _) => self.shared(a, b),
            (_, 0) => self.level,
            _ => self.approach * self.decay(a, b),
        }
    }

    /// The covariance of a trial with itself besides that.
    fn own(&self, a: f64, b: f64) -> f64 {
        self.own_level + self.own_approach * self.decay(a, b)
    }

    /// The same of targets that are smaller by a factor.
    fn shrunk(self, factor: f64) -> Self {
        let square = factor * factor;
        CurveHyperparameters {
            level: self.level * square,
            approach: self.approach * square,
            own_level: self.own_level * square,
            own_approach: self.own_approach * square,
            noise: self.noise * square,
            ..self
        }
    }

    /// The prior variance of a trial's loss at a step, without noise.
    fn variance(&self, step: f64) -> f64 {
        self.shared(step, step) + self.own(step, step)
    }
}

/// Which length scales level and approach have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// The same.
    Shared,
    /// Each its own.
    Own,
}

/// A loss at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observation {
    /// Index of the trial's point.
    pub trial: usize,
    /// Scaled step.
    pub step: f64,
    /// Standardised loss.
    pub target: f64,
    /// Noise variance besides the common one.
    pub noise: f64,
}

/// A fit, and what it was fitted to.
#[derive(Debug)]
pub(crate) struct FittedCurves {
    points: Vec<Point>,
    observations: Vec<Observation>,
    hyperparameters: CurveHyperparameters,
}

/// The hyperparameters, taken from the cache if the data is the same.
pub(crate) fn hyperparameters(
    memo: &RefCell<Option<FittedCurves>>,
    cube: &Cube,
    data: &CurveData,
    lengths: Lengths,
    exponential: Exponential,
) -> CurveHyperparameters {
    let ToFit { points, observations, scale } = data.to_fit();
    let factor = scale.width_in(&data.scale);
    if let Some(fitted) = memo.borrow().as_ref()
        && fitted.observations == observations
        && fitted.points.len() == points.len()
        && fitted.points.iter().zip(&points).all(|(known, point)| key(known) == key(point))
    {
        return fitted.hyperparameters.clone().shrunk(factor);
    }
    let posterior = Posterior::new(cube, &points, &observations, lengths, exponential);
    let hyperparameters = posterior.mode();
    let fitted = FittedCurves { points, observations, hyperparameters: hyperparameters.clone() };
    *memo.borrow_mut() = Some(fitted);
    hyperparameters.shrunk(factor)
}

#[cfg(test)]
mod tests;
