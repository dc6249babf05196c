//! A metric's limit as a process of its own: the probability of feasibility (constrained expected
//! improvement).

use std::cell::RefCell;

use super::kernel::{Exponential, Hyperparameters};
use super::process::GaussianProcess;
use super::rules::Rules;
use super::selection::{Selection, fitted_of};
use super::{Fitted, hyperparameters};
use crate::samplers::Ask;
use crate::samplers::cube::{Cube, Point, slices};
use crate::study::condition::Expression;
use crate::study::constraint::Constraint;
use crate::study::metric::Middle;
use crate::study::params::Value;
use crate::study::trial::{Trial, TrialState};

/// Maximum number of trials of a limit's process: the newest.
const MOST: usize = 250;

/// The margins of complete trials to one limit.
#[derive(Debug)]
pub(super) struct Limit {
    points: Vec<Point>,
    /// Standardised; feasible below [`Limit::bound`].
    margins: Vec<f64>,
    /// Largest feasible margin.
    pub bound: f64,
    /// What the hyperparameters are fitted to.
    to_fit: Selection,
}

impl Limit {
    /// The limits of a study with their measurements (Gardner et al. 2014, "Bayesian optimization
    /// with inequality constraints").
    pub fn all(cube: &Cube, ask: &Ask<'_>, middle: Middle, rules: Rules) -> Vec<Limit> {
        // What ends trials is learned from those that it ended, too.
        let measured = |prunes: bool| {
            let is_measured = move |trial: &&Trial| {
                trial.state == TrialState::Complete || prunes && trial.state == TrialState::Pruned
            };
            ask.history.trials().iter().filter(is_measured).collect::<Vec<_>>()
        };
        let limits = ask.constraints.iter().filter_map(|constraint| {
            Some((constraint.limit()?, matches!(constraint, Constraint::PruningLimit(_))))
        });
        limits
            .map(|(expression, prunes)| {
                let measured = measured(prunes);
                let newest = |count: usize| {
                    let known = &measured[count.saturating_sub(MOST)..count];
                    Limit::of(cube, expression, known, middle)
                };
                let limit = newest(measured.len());
                let to_fit = match rules {
                    Rules::Before10 => limit.selected(fitted_of(limit.margins.len())),
                    Rules::Since10 | Rules::Since11 => {
                        let older = newest(fitted_of(measured.len()));
                        older.selected(older.margins.len())
                    }
                };
                Limit { to_fit, ..limit }
            })
            .collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    fn of(cube: &Cube, expression: &Expression, trials: &[&Trial], middle: Middle) -> Limit {
        let margin = |trial: &&Trial| {
            expression
                .margin(|name| trial.last_metrics.get(name).map(Value::Float))
                .filter(|margin| margin.is_finite())
        };
        let known: Vec<Option<f64>> = trials.iter().map(margin).collect();
        let mut sizes: Vec<f64> =
            known.iter().flatten().map(|margin| margin.abs()).filter(|size| *size > 0.0).collect();
        sizes.sort_by(f64::total_cmp);
        let scale = middle.of(&sizes).unwrap_or(1.0);
        // Keeps the sign and compresses orders of magnitude.
        let even = |margin: f64| margin.signum() * (margin.abs() / scale).ln_1p();
        let worst = known.iter().flatten().copied().fold(scale, f64::max);
        let margins: Vec<f64> =
            known.into_iter().map(|margin| even(margin.unwrap_or(worst))).collect();
        let count = margins.len().max(1) as f64;
        let mean = margins.iter().sum::<f64>() / count;
        let deviation = (margins.iter().map(|margin| (margin - mean).powi(2)).sum::<f64>() / count)
            .sqrt()
            .max(1e-9);
        Limit {
            points: trials.iter().map(|trial| cube.encode(&trial.params)).collect(),
            margins: margins.into_iter().map(|margin| (margin - mean) / deviation).collect(),
            bound: -mean / deviation,
            to_fit: Selection::default(),
        }
    }

    /// The first `count` trials, to fit to.
    fn selected(&self, count: usize) -> Selection {
        Selection::of(count, |at| (self.points[at].clone(), self.margins[at], 0.0))
    }

    /// The hyperparameters of its process.
    pub fn hyperparameters(
        &self,
        cube: &Cube,
        memo: &RefCell<Option<Fitted>>,
        exponential: Exponential,
    ) -> Hyperparameters {
        hyperparameters(memo, cube, &self.to_fit, exponential)
    }

    /// The process of each of several limits, with its largest feasible margin.
    pub fn processes<'a>(
        cube: &Cube,
        limits: &[Limit],
        hyperparameters: &'a [Hyperparameters],
    ) -> Option<Vec<(GaussianProcess<'a>, f64)>> {
        let process = |(limit, fitted): (&Limit, &'a Hyperparameters)| {
            Some((limit.process(cube, fitted)?, limit.bound))
        };
        limits.iter().zip(hyperparameters).map(process).collect()
    }

    fn process<'a>(
        &self,
        cube: &Cube,
        hyperparameters: &'a Hyperparameters,
    ) -> Option<GaussianProcess<'a>> {
        GaussianProcess::new(
            cube,
            hyperparameters,
            &slices(&self.points),
            &self.margins,
            &vec![0.0; self.margins.len()],
        )
    }
}
