//! What the process over configurations and steps predicts of one trial.

use std::cell::RefCell;

use serde::Serialize;

use super::data::{Scale, horizon};
use super::{CurveData, CurveProcess, FULL, FittedCurves, Lengths, hyperparameters};
use crate::samplers::Ask;
use crate::samplers::cube::Cube;
use crate::samplers::gp::kernel::Exponential;
use crate::samplers::gp::projection::projected;
use crate::samplers::gp::rules::Rules;
use crate::samplers::normal::NINETY;
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::seed::SeedTree;
use crate::study::space::Space;
use crate::study::trial::{Trial, TrialNumber};

/// Trials that must have reported before anything is predicted.
const FEWEST: usize = 5;
/// Trials whose reports tell how far off predictions are; each costs about a tenth of a
/// millisecond.
const NEWEST: usize = 20;

/// A predicted report, in the study's metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// Its step.
    pub step: u64,
    /// The mean.
    pub mean: f64,
    /// The lower end of the interval in which nine in ten such reports should lie; it is widened
    /// until nine in ten of what other trials reported later lie in theirs (split conformal
    /// prediction).
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Whose reports are predicted.
#[derive(Clone, Copy, Debug)]
pub enum PredictedTrial<'a> {
    /// Those of a trial that is not in the history.
    New(&'a Params),
    /// Those of one that has reported.
    Reported(TrialNumber),
}

/// Predicts reports of trials by the Gaussian process over configurations and steps from which `gp`
/// learns where trials are paused. It keeps its fit for the next state of the same study.
#[derive(Debug, Default)]
pub struct CurvePredictor {
    /// By objective.
    fitted: RefCell<Vec<RefCell<Option<FittedCurves>>>>,
    /// With one objective, on the scale of trials beyond the usual one.
    fitted_beyond: RefCell<Option<FittedCurves>>,
}

impl CurvePredictor {
    /// The reports of an objective (from 0) by `trial`, at those of these ascending steps that are
    /// below a full trial's, and at its end, as far as `history` tells. `max_resource`: the steps
    /// of a full trial; without it, as many as the longest complete trial has, or three times as
    /// many as any. `None`: fewer than five trials have reported, the trial has not, there is no
    /// such objective, or all losses are infinite.
    ///
    /// An objective whose reports never change within a trial (its model's size) is predicted at
    /// all steps alike, and of a trial that has reported it as that report.
    pub fn predict(
        &self,
        space: &Space,
        history: History<'_>,
        max_resource: Option<u64>,
        objective: usize,
        trial: PredictedTrial<'_>,
        steps: &[u64],
    ) -> Option<Vec<Predicted>> {
        let direction = *history.directions().get(objective)?;
        let mut memos = self.fitted.borrow_mut();
        memos.resize_with(history.directions().len(), RefCell::default);
        let memo = &memos[objective];
        if !history.has_several_objectives() {
            let ask = asked(space, history, max_resource);
            // The process of a narrow scale cannot tell how bad trials beyond it end.
            return match predict_one(memo, &ask, Scale::Capped, trial, steps)? {
                Scaled::Within(predicted) => Some(predicted),
                Scaled::Beyond => predict_wide(&self.fitted_beyond, &ask, trial, steps),
            };
        }
        let mut trials = projected(&history, |losses| losses[objective]);
        let end = horizon(&History::of(&trials, Direction::Minimize), max_resource);
        let is_constant = is_constant(&trials);
        if is_constant {
            hold(&mut trials, end);
        }
        let alone = History::of(&trials, Direction::Minimize).with_step_unit(history.step_unit());
        let ask = asked(space, alone, Some(end));
        let mut predicted = match is_constant {
            true => predict_constant(memo, &ask, trial, steps)?,
            false => predict_wide(memo, &ask, trial, steps)?,
        };
        if direction == Direction::Maximize {
            for Predicted { mean, low, high, .. } in &mut predicted {
                (*mean, *low, *high) = (-*mean, -*high, -*low);
            }
        }
        Some(predicted)
    }
}

fn asked<'a>(space: &'a Space, history: History<'a>, max_resource: Option<u64>) -> Ask<'a> {
    let number = TrialNumber(history.trials().len() as u64);
    Ask { max_resource, ..Ask::new(space, history, number, SeedTree::new(0)) }
}

/// Whether the reports of each trial are all alike. A first report alone says nothing about that.
fn is_constant(trials: &[Trial]) -> bool {
    let mut held = 0;
    for trial in trials {
        if trial.curve.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            return false;
        }
        held += usize::from(trial.curve.len() > 1);
    }
    held >= FEWEST
}

/// Moves the only value of each trial to the end, where all are compared.
fn hold(trials: &mut [Trial], end: u64) {
    for trial in trials {
        trial.curve.truncate(1);
        trial.curve.iter_mut().for_each(|(step, _)| *step = end);
    }
}

/// The same of a constant objective, whose values are those at the end.
fn predict_constant(
    memo: &RefCell<Option<FittedCurves>>,
    ask: &Ask<'_>,
    trial: PredictedTrial<'_>,
    steps: &[u64],
) -> Option<Vec<Predicted>> {
    let mut end = predict_wide(memo, ask, trial, &[])?.pop()?;
    if let PredictedTrial::Reported(number) = trial {
        let own = ask.history.trials().iter().find(|trial| trial.number == number)?;
        let (_, value) = own.last()?;
        end = Predicted { mean: value, low: value, high: value, ..end };
    }
    let below = steps.iter().take_while(|step| **step < end.step);
    Some(below.map(|step| Predicted { step: *step, ..end }).chain([end]).collect())
}

/// What the process of a scale can say of a trial.
enum Scaled {
    /// These reports.
    Within(Vec<Predicted>),
    /// Its last loss is beyond the scale.
    Beyond,
}

/// The same of a history with one objective, on the wide scale.
fn predict_wide(
    memo: &RefCell<Option<FittedCurves>>,
    ask: &Ask<'_>,
    trial: PredictedTrial<'_>,
    steps: &[u64],
) -> Option<Vec<Predicted>> {
    match predict_one(memo, ask, Scale::Wide, trial, steps)? {
        Scaled::Within(predicted) => Some(predicted),
        Scaled::Beyond => None,
    }
}

/// The same on any scale.
#[expect(clippy::cast_precision_loss, reason = "steps")]
fn predict_one(
    memo: &RefCell<Option<FittedCurves>>,
    ask: &Ask<'_>,
    scale: Scale,
    trial: PredictedTrial<'_>,
    steps: &[u64],
) -> Option<Scaled> {
    let history = ask.history;
    let cube = Cube::new(ask.space);
    let place = match trial {
        PredictedTrial::New(_) => None,
        PredictedTrial::Reported(number) => {
            Some(history.trials().iter().position(|trial| trial.number == number)?)
        }
    };
    // Forecasts have no versions, and keep the rules that they began with.
    let data = CurveData::with(&cube, ask, place, scale, Rules::Before10);
    let reported = place.and_then(|place| history.trials()[place].last());
    let is_beyond = |value: f64| history.direction().loss(value) > data.cap;
    if scale == Scale::Capped && reported.is_some_and(|(_, value)| is_beyond(value)) {
        return Some(Scaled::Beyond);
    }
    if data.reported() < FEWEST {
        return None;
    }
    let hyperparameters = hyperparameters(memo, &cube, &data, Lengths::Own, Exponential::System);
    let process = CurveProcess::new(&cube, &hyperparameters, &data)?;
    let index = match place {
        None => None,
        Some(_) => Some(data.trials.iter().position(|known| *known == place)?),
    };
    let point = match trial {
        PredictedTrial::New(params) => cube.encode(params),
        PredictedTrial::Reported(_) => Vec::new(),
    };
    let known = index.and_then(|index| {
        let own = data.observations.iter().filter(|row| row.trial == index);
        own.map(|row| row.step).reduce(f64::max)
    });
    let width = NINETY * widening(&process, &data, known.unwrap_or(0.0));
    let of_step = |step: &u64| {
        let scaled = FULL * (*step as f64 / data.horizon as f64).min(1.0);
        let (mean, variance) = match index {
            Some(index) => process.moments_of_trial(index, scaled),
            None => process.moments_of_new(&point, scaled),
        };
        let deviation = (variance + hyperparameters.noise).sqrt();
        let value = |target: f64| history.direction().loss(data.scale.loss(target));
        let ends = [mean - width * deviation, mean + width * deviation].map(value);
        let [low, high] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        Predicted { step: *step, mean: value(mean), low, high }
    };
    let below = steps.iter().take_while(|step| **step < data.horizon);
    let mut predicted: Vec<Predicted> = below.chain([&data.horizon]).map(of_step).collect();
    // An end that is known is not predicted.
    if let (Some((step, value)), Some(end)) = (reported, predicted.last_mut())
        && step >= data.horizon
    {
        *end = Predicted { step: end.step, mean: value, low: value, high: value };
    }
    Some(Scaled::Within(predicted))
}

/// By how much intervals are widened so that nine in ten of the last reports of other trials lie in
/// theirs, as they are predicted from what they had reported up to a step (the quantile of split
/// conformal prediction): of those that reached the end if there are several, and otherwise of all
/// that reported later; the newest of them.
pub(in crate::samplers::gp) fn widening(
    process: &CurveProcess<'_>,
    data: &CurveData,
    known: f64,
) -> f64 {
    let later = |trial: usize| -> Vec<usize> {
        let rows = data.observations.iter().enumerate();
        rows.filter(|(_, row)| row.trial == trial && row.step > known).map(|(at, _)| at).collect()
    };
    let own = (0..data.points.len()).filter(|trial| data.trials[*trial].is_some());
    let left_out: Vec<Vec<usize>> = own.map(later).filter(|rows| !rows.is_empty()).collect();
    let last = |rows: &&Vec<usize>| rows.last().map_or(0.0, |at| data.observations[*at].step);
    let whole = left_out.iter().filter(|rows| last(rows) >= FULL).count();
    let counts = |rows: &&Vec<usize>| whole < FEWEST || last(rows) >= FULL;
    let counted = left_out.iter().rev().filter(counts).take(NEWEST);
    super::super::widening::widening(counted.filter_map(|rows| process.standard_residual(rows)))
}
