//! The training data of the process over curves: a few reports of each trial, at geometrically
//! spaced steps.

use std::collections::BTreeMap;

use super::super::loss_scale::LossScale;
use super::super::rules::Rules;
use super::super::selection::in_steps;
use super::super::warp::Warp;
use super::{FULL, Observation};
use crate::samplers::Ask;
use crate::samplers::cube::{Cube, Point, evenly};
use crate::study::history::History;
use crate::study::metric::median;
use crate::study::trial::{Trial, TrialState};

/// Ratio of the steps at which a trial is observed, besides its last.
const RATIO: f64 = 3.0;
/// Maximum number of observations in a process: a suggestion costs O(n^2), conditioning O(n^3).
const MOST: usize = 220;
/// Of these, how many may be of trials with several observations.
const MOST_LONG: usize = 150;
/// The newest trials that stay whatever they reported.
const NEWEST: usize = 20;
/// Maximum number of observations that the hyperparameters are fitted to.
const FIT_MOST: usize = 72;
/// How far losses beyond the median of first reports count, as a share of the distance from the
/// best to it.
const BEYOND: f64 = 0.1;
/// The same beyond the third quartile, where bad losses are predicted, too: trials that are bad by
/// one of several objectives may be on the front.
const FAR_BEYOND: f64 = 3.0;
/// The widths of the losses that hyperparameters are fitted to apart, as parts of that of all.
const WIDTHS: std::ops::RangeInclusive<f64> = 0.1..=10.0;
/// Maximum number of trials of earlier studies.
const MOST_EARLIER: usize = 60;

/// Observations of trials, with what turns predictions into losses.
#[derive(Clone, Debug)]
pub(crate) struct CurveData {
    /// Points in the unit cube, of trials that have reported, oldest first.
    pub points: Vec<Point>,
    /// Their indices in the history; `None`: of an earlier study, or not reported.
    pub trials: Vec<Option<usize>>,
    /// Which of them are feasible.
    pub is_feasible: Vec<bool>,
    /// Observations, by trial and step.
    pub observations: Vec<Observation>,
    /// Points of unfinished trials without a report.
    pub pending: Vec<Point>,
    /// How targets become losses.
    pub scale: LossScale,
    /// Greater losses count as this.
    pub cap: f64,
    /// Steps of a full trial.
    pub horizon: u64,
    /// What the hyperparameters are fitted to, if not to a selection of these observations.
    apart: Option<ToFit>,
}

/// What the hyperparameters are fitted to.
#[derive(Clone, Debug)]
pub(crate) struct ToFit {
    pub points: Vec<Point>,
    pub observations: Vec<Observation>,
    /// How its targets become losses.
    pub scale: LossScale,
}

/// The losses of a trial at the steps at which it is observed, ascending.
struct Curve<'a> {
    index: usize,
    trial: &'a Trial,
    losses: Vec<(f64, f64)>,
}

impl Curve<'_> {
    /// The loss of the first observation.
    fn first(&self) -> f64 {
        self.losses[0].1
    }
}

impl CurveData {
    /// The data of a history.
    pub fn new(cube: &Cube, ask: &Ask<'_>, rules: Rules) -> Self {
        CurveData::with(cube, ask, None, Scale::Capped, rules)
    }

    /// The data of a history of one of several objectives, whose worst losses belong to the front.
    pub fn of_objective(cube: &Cube, ask: &Ask<'_>, rules: Rules) -> Self {
        CurveData::with(cube, ask, None, Scale::Warped, rules)
    }

    /// The data of a history; with `whose`, certainly that one of its trials, and the last report
    /// of each other one up to its last step as well.
    pub fn with(
        cube: &Cube,
        ask: &Ask<'_>,
        whose: Option<usize>,
        scale: Scale,
        rules: Rules,
    ) -> Self {
        let history = &ask.history;
        let last = |index: usize| history.trials().get(index).and_then(Trial::last_step);
        let step = whose.and_then(last).unwrap_or(0);
        let horizon = horizon(history, ask.max_resource);
        let trials = history.trials().iter().enumerate();
        let curves: Vec<Curve<'_>> = trials
            .filter_map(|(index, trial)| {
                let losses = observed(history, trial, horizon, step);
                (!losses.is_empty()).then_some(Curve { index, trial, losses })
            })
            .collect();
        let targets = Targets::of(&curves, curves.iter().map(Curve::first), scale);
        let target = |loss: f64| targets.of_loss(loss);
        let apart = (rules >= Rules::Since10 && observations(&curves) > MOST)
            .then(|| ToFit::settled(cube, &curves, scale, &targets.scale))
            .flatten();
        let curves = selected(curves, whose);
        let mut data = CurveData {
            points: Vec::new(),
            trials: Vec::new(),
            is_feasible: Vec::new(),
            observations: Vec::new(),
            pending: Vec::new(),
            scale: targets.scale,
            cap: targets.cap,
            horizon,
            apart,
        };
        for curve in &curves {
            for (step, loss) in &curve.losses {
                data.observations.push(Observation {
                    trial: data.points.len(),
                    step: *step,
                    target: target(*loss),
                    noise: 0.0,
                });
            }
            data.points.push(cube.encode(&curve.trial.params));
            data.trials.push(Some(curve.index));
            data.is_feasible.push(curve.trial.violation.is_none());
        }
        // Their noise grows with the size of this study.
        #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
        let earlier_noise = 0.25 + curves.len() as f64 / 20.0;
        for earlier in ask.earlier.iter().take(MOST_EARLIER) {
            data.observations.push(Observation {
                trial: data.points.len(),
                step: FULL,
                target: on_normal_scale(earlier.rank),
                noise: earlier_noise,
            });
            data.points.push(cube.encode(&earlier.params));
            data.trials.push(None);
            data.is_feasible.push(false);
        }
        let unfinished =
            history.trials().iter().filter(|trial| !trial.state.is_finished() && !trial.rests());
        let silent = unfinished.filter(|trial| trial.curve.is_empty());
        data.pending = silent.map(|trial| cube.encode(&trial.params)).collect();
        data
    }

    /// Number of this study's trials with a report.
    pub fn reported(&self) -> usize {
        self.trials.iter().flatten().count()
    }

    /// The data with the unfinished trials that have not reported, at the end of which `end` is
    /// expected; `None` if there are none.
    pub fn with_pending(&self, end: impl Fn(&[f64]) -> f64) -> Option<CurveData> {
        if self.pending.is_empty() {
            return None;
        }
        let mut data = self.clone();
        for point in &self.pending {
            let (trial, target) = (data.points.len(), end(point));
            data.observations.push(Observation { trial, step: FULL, target, noise: 0.0 });
            data.points.push(point.clone());
            data.trials.push(None);
            data.is_feasible.push(false);
        }
        Some(data)
    }

    /// What the hyperparameters are fitted to: observations of the oldest trials, whose number
    /// grows in steps of 1/8 to save fits; beyond `FIT_MOST` observations, half of them of the
    /// longest curves, and an even selection of the others.
    pub fn to_fit(&self) -> ToFit {
        if let Some(apart) = &self.apart {
            return apart.clone();
        }
        let count = fitted_of(self.reported());
        let mut of_trial: Vec<Vec<Observation>> = vec![Vec::new(); self.points.len()];
        let is_own = |observation: &&Observation| observation.trial < count;
        for observation in self.observations.iter().filter(is_own) {
            of_trial[observation.trial].push(*observation);
        }
        let mut long: Vec<usize> = (0..count).filter(|trial| of_trial[*trial].len() > 2).collect();
        long.sort_by_key(|trial| std::cmp::Reverse(of_trial[*trial].len()));
        let mut kept: Vec<Observation> = Vec::new();
        let mut rest: Vec<Observation> = Vec::new();
        for trial in &long {
            let into = if kept.len() < FIT_MOST / 2 { &mut kept } else { &mut rest };
            into.extend(&of_trial[*trial]);
        }
        rest.extend(
            (0..count)
                .filter(|trial| !long.contains(trial))
                .flat_map(|trial| of_trial[trial].clone()),
        );
        let left = FIT_MOST - kept.len().min(FIT_MOST);
        rest.sort_by(|a, b| a.trial.cmp(&b.trial).then(a.step.total_cmp(&b.step)));
        if rest.len() > left {
            rest = evenly(&rest, left).collect();
        }
        kept.extend(rest);
        kept.sort_by(|a, b| a.trial.cmp(&b.trial).then(a.step.total_cmp(&b.step)));
        ToFit { points: self.points[..count].to_vec(), observations: kept, scale: self.scale }
    }
}

impl ToFit {
    /// Where the process does not have all observations: the same of all trials that no longer
    /// report, with targets of their own scale, so that whoever else reports changes nothing. Those
    /// that are not among the longest have one observation, their last.
    /// `None`: too few of them, or of another width than all losses, as those that are alike.
    fn settled(
        cube: &Cube,
        curves: &[Curve<'_>],
        scale: Scale,
        of_all: &LossScale,
    ) -> Option<Self> {
        let is_settled =
            |curve: &&Curve<'_>| curve.trial.state.is_finished() || curve.trial.rests();
        let mut settled: Vec<&Curve<'_>> = curves.iter().filter(is_settled).collect();
        settled.truncate(fitted_of(settled.len()));
        let is_known = |curve: &&&Curve<'_>| curve.losses.iter().any(|(_, loss)| loss.is_finite());
        if settled.iter().filter(is_known).count() < NEWEST {
            return None;
        }
        let all: Vec<usize> = (0..settled.len()).collect();
        let mut kept: BTreeMap<usize, &[(f64, f64)]> = BTreeMap::new();
        let mut long = all.clone();
        long.sort_by_key(|at| std::cmp::Reverse(settled[*at].losses.len()));
        let mut count = 0;
        for at in long {
            let losses = &settled[at].losses;
            if count < FIT_MOST / 2 && losses.len() > 2 {
                count += losses.len();
                kept.insert(at, losses);
            }
        }
        let left = FIT_MOST.saturating_sub(count).min(all.len());
        let sample: Vec<usize> = evenly(&all, left).collect();
        for at in &sample {
            let losses = &settled[*at].losses;
            kept.entry(*at).or_insert(&losses[losses.len() - 1..]);
        }
        let chosen: Vec<Curve<'_>> = kept
            .into_iter()
            .map(|(at, losses)| Curve { losses: losses.to_vec(), ..*settled[at] })
            .collect();
        let targets = Targets::of(&chosen, sample.iter().map(|at| settled[*at].first()), scale);
        if !WIDTHS.contains(&targets.scale.width_in(of_all)) {
            return None;
        }
        let observations = chosen.iter().enumerate().flat_map(|(trial, curve)| {
            let targets = &targets;
            curve.losses.iter().map(move |(step, loss)| Observation {
                trial,
                step: *step,
                target: targets.of_loss(*loss),
                noise: 0.0,
            })
        });
        Some(ToFit {
            points: chosen.iter().map(|curve| cube.encode(&curve.trial.params)).collect(),
            observations: observations.collect(),
            scale: targets.scale,
        })
    }
}

/// How many of the oldest trials hyperparameters are fitted to.
fn fitted_of(count: usize) -> usize {
    in_steps(count, 6, 8)
}

/// How losses become targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Up to a cap beyond the median of first reports: [`BEYOND`].
    Capped,
    /// Up to a cap far beyond their third quartile: [`FAR_BEYOND`].
    Wide,
    /// By a power that makes them approximately normal.
    Warped,
}

/// The targets of losses: mean 0 and deviation 1, approximately.
struct Targets {
    scale: LossScale,
    /// Greater losses count as this.
    cap: f64,
}

impl Targets {
    /// Of all losses; `first`: those of first reports, which the cap depends on.
    fn of(curves: &[Curve<'_>], first: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let losses = || curves.iter().flat_map(|curve| &curve.losses).map(|(_, loss)| *loss);
        if scale == Scale::Warped {
            let finite: Vec<f64> = losses().filter(|loss| loss.is_finite()).collect();
            let worst = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            return Targets { scale: LossScale::warped(Warp::fit(&finite), &finite), cap: worst };
        }
        let first = sorted(first);
        let lowest = losses().fold(f64::INFINITY, f64::min);
        let middle = median(&first).unwrap_or(0.0);
        let cap = match scale {
            Scale::Wide => {
                let all = sorted(losses());
                let quartile = all.get(all.len() * 3 / 4).copied().unwrap_or(0.0);
                quartile + FAR_BEYOND * (quartile - lowest).max(0.0)
            }
            _ => middle + BEYOND * (middle - lowest).max(0.0),
        };
        let cap = if cap.is_finite() { cap } else { f64::MAX };
        let all: Vec<f64> =
            losses().map(|loss| loss.min(cap)).filter(|loss| loss.is_finite()).collect();
        #[expect(clippy::cast_precision_loss, reason = "a number of losses")]
        let count = all.len().max(1) as f64;
        let mean = all.iter().sum::<f64>() / count;
        let variance = all.iter().map(|loss| (loss - mean) * (loss - mean)).sum::<f64>() / count;
        let deviation = if variance.is_finite() { variance.sqrt().max(1e-12) } else { 1.0 };
        Targets { scale: LossScale::Linear { mean, deviation }, cap }
    }

    fn of_loss(&self, loss: f64) -> f64 {
        let capped = loss.min(self.cap);
        let target = match &self.scale {
            LossScale::Warped { warp, .. } => warp.of(capped),
            LossScale::Linear { mean, deviation } => (capped - mean) / deviation,
        };
        if target.is_finite() { target } else { 0.0 }
    }
}

/// Steps of a full trial: as specified, or else as long as the longest complete trial, or three
/// times as long as any so far.
pub(super) fn horizon(history: &History<'_>, max_resource: Option<u64>) -> u64 {
    let trials = || history.trials().iter();
    let last = |trial: &Trial| trial.last().map(|(step, _)| step);
    let complete = || trials().filter(|trial| trial.state == TrialState::Complete);
    max_resource
        .or_else(|| complete().filter_map(last).max())
        .or_else(|| trials().filter_map(last).max().map(|step| step.saturating_mul(3)))
        .unwrap_or(1)
        .max(1)
}

/// The observations of a trial: its last report, and the last ones up to the horizon divided by
/// powers of the ratio and up to `seen_at`; a complete trial's value at the end.
#[expect(clippy::cast_precision_loss, reason = "steps")]
fn observed(history: &History<'_>, trial: &Trial, horizon: u64, seen_at: u64) -> Vec<(f64, f64)> {
    let scaled = |step: u64| FULL * (step as f64 / horizon as f64).min(1.0);
    let loss = |value: f64| {
        let loss = history.score(value).loss();
        if loss.is_nan() { f64::INFINITY } else { loss }
    };
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let level = |step: u64| (scaled(step) * 1.02 / FULL).max(1e-9).log(RATIO).floor();
    for (index, (step, value)) in trial.curve.iter().enumerate() {
        let is_last = trial.curve.get(index + 1).is_none_or(|(next, _)| {
            level(*next) > level(*step) || (*step <= seen_at && *next > seen_at)
        });
        if is_last {
            kept.push((scaled(*step), loss(*value)));
        }
    }
    match trial.state {
        TrialState::Complete => {
            kept.pop_if(|(step, _)| *step >= FULL);
            kept.push((FULL, trial.value.map_or(f64::INFINITY, loss)));
        }
        // A failed trial counts as bad, so that the search avoids its region.
        TrialState::Failed => kept.push((FULL, f64::INFINITY)),
        TrialState::Pruned if kept.is_empty() => kept.push((FULL, f64::INFINITY)),
        TrialState::Queued | TrialState::Running | TrialState::Paused | TrialState::Pruned => {}
    }
    kept
}

/// Number of observations.
fn observations(curves: &[Curve<'_>]) -> usize {
    curves.iter().map(|curve| curve.losses.len()).sum()
}

/// At most `MOST` observations: those of trials with several of them, the longest and best first,
/// and an even selection of the others with the newest. The trial with the index `whose` is one of
/// them.
fn selected<'a>(curves: Vec<Curve<'a>>, whose: Option<usize>) -> Vec<Curve<'a>> {
    if observations(&curves) <= MOST {
        return curves;
    }
    let newest = curves.len().saturating_sub(NEWEST);
    let end = |curve: &Curve<'_>| curve.losses.last().copied().unwrap_or((0.0, 0.0));
    let mut order: Vec<usize> =
        (0..curves.len()).filter(|at| curves[*at].losses.len() > 1).collect();
    order.sort_by(|a, b| {
        let (a, b) = (end(&curves[*a]), end(&curves[*b]));
        b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1))
    });
    let mut is_kept = vec![false; curves.len()];
    let mut count = 0;
    if let Some(at) = curves.iter().position(|curve| Some(curve.index) == whose) {
        is_kept[at] = true;
        count += curves[at].losses.len();
    }
    for at in order.into_iter().filter(|at| Some(curves[*at].index) != whose) {
        let own = curves[at].losses.len();
        if count + own <= MOST_LONG {
            count += own;
            is_kept[at] = true;
        }
    }
    for at in newest..curves.len() {
        if !is_kept[at] {
            count += curves[at].losses.len();
            is_kept[at] = true;
        }
    }
    let others: Vec<usize> = (0..newest).filter(|at| !is_kept[*at]).collect();
    let left = MOST.saturating_sub(count).min(others.len());
    for at in evenly(&others, left) {
        is_kept[at] = true;
    }
    let mut kept = is_kept.into_iter();
    curves.into_iter().filter(|_| kept.next().unwrap_or(false)).collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Maps a rank in (0, 1) to the scale of standard normal losses (the logistic quantile, scaled).
fn on_normal_scale(rank: f64) -> f64 {
    let share = rank.clamp(0.01, 0.99);
    (share / (1.0 - share)).ln() / 1.702
}
