//! Learning-curve forecasts: the final losses of stopped trials, learned from those that continued.

mod columns;
mod level;
mod regression;

use crate::study::history::History;
use crate::study::metric::Middle;
use crate::study::space::Space;
use crate::study::trial::{Trial, TrialState};

use self::columns::Columns;
use self::level::Level;
use self::regression::{Regression, mean_square};

/// Forecasts at a step use at most this many of the newest trials there.
const NEWEST: usize = 400;
/// Parameters become features once this many trials continued.
const ENOUGH: usize = 6;
/// Losses are clipped at this multiple of the distance from the best to the median.
const FAR: f64 = 3.0;
/// Cap on leverage: no trial determines its own forecast.
const MOST_LEVERAGE: f64 = 0.95;

/// A trial's final loss, measured or forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// The loss.
    pub loss: f64,
    /// Its variance; 0 if measured.
    pub variance: f64,
}

/// The forecasts at one step.
#[derive(Clone, Debug, Default)]
pub struct EndForecasts {
    /// The trials that reached the step, by index in the history, oldest first.
    pub trials: Vec<usize>,
    /// The final loss forecast for each from what was known here.
    pub ends: Vec<End>,
    /// How many of them continued.
    pub continued: usize,
    /// Whether enough did for curves and parameters to be features.
    pub is_learned: bool,
}

/// The final losses of a study's trials as forecast at several steps.
#[derive(Clone, Debug, Default)]
pub struct LearningCurveForecast {
    /// The forecasts at each step, steps ascending.
    pub at: Vec<EndForecasts>,
    /// By trial: measured, or forecast at the last of the steps that it reached.
    pub ends: Vec<Option<End>>,
}

/// Forecasts the final losses of a study's trials at `steps` (ascending).
///
/// From the last step down to the first, final losses are regressed on what was known at the step,
/// over all trials that continued; those that stopped later count with the loss forecast for them
/// there. So every trial is compared at the highest step that it shares with others, and the less
/// an early step predicts, the larger the variance that its forecasts carry.
///
/// Each step has three linear regressions with shrinkage learned from the data: on the value; on
/// the value and the gain since half of the step; and on both with the parameters and their
/// squares. They are averaged by their leave-one-out errors (see `averaged`). Where curves cross
/// late, slopes and parameters predict better than values (benches/search/README.md); freeze-thaw
/// optimisation (Swersky, Snoek and Adams 2014) and its successors learn the same from a process
/// over curves.
///
/// `learns_from`: which trials are read; the others have their measured final losses alone.
/// `middle`: the definition of the median, which depends on the version of the sampler or pruner.
pub fn forecast_curves(
    history: &History<'_>,
    learns_from: impl Fn(&Trial) -> bool,
    space: &Space,
    steps: &[u64],
    middle: Middle,
) -> LearningCurveForecast {
    let trials = history.trials();
    let mut ends: Vec<Option<End>> = trials.iter().map(|trial| measured(history, trial)).collect();
    let columns = Columns::of(space);
    let mut at = vec![EndForecasts::default(); steps.len()];
    let reached = |trial: &Trial| {
        steps.partition_point(|step| trial.last().is_some_and(|(last, _)| *step <= last))
    };
    let reached: Vec<usize> = trials.iter().map(reached).collect();
    for (index, step) in steps.iter().enumerate().rev() {
        let row = |(place, trial)| {
            let (value, gain) = here(history, trial, *step)?;
            let continued = reached[place] > index + 1 || trial.state == TrialState::Complete;
            Some(TrialAtStep { place, trial, value, gain, end: ends[place].filter(|_| continued) })
        };
        let newest = trials
            .iter()
            .enumerate()
            .rev()
            .filter(|(place, trial)| reached[*place] > index && learns_from(trial))
            .filter_map(row)
            .take(NEWEST);
        let mut rows: Vec<TrialAtStep<'_>> = newest.collect();
        rows.reverse();
        let forecast = forecast_ends(&columns, &rows, middle);
        for (row, end) in rows.iter().zip(&forecast.ends).filter(|(row, _)| row.end.is_none()) {
            ends[row.place] =
                Some(*end).filter(|end| end.loss.is_finite() && end.variance.is_finite());
        }
        at[index] = forecast;
    }
    LearningCurveForecast { at, ends }
}

/// A trial at a step.
struct TrialAtStep<'a> {
    place: usize,
    trial: &'a Trial,
    /// Its loss there.
    value: f64,
    /// The difference from its loss half way to the step.
    gain: f64,
    /// Its final loss if it continued.
    end: Option<End>,
}

/// The final loss of a complete trial, including infeasible ones.
fn measured(history: &History<'_>, trial: &Trial) -> Option<End> {
    let value = trial.value.filter(|_| trial.state == TrialState::Complete)?;
    let loss = history.score(value).loss();
    loss.is_finite().then_some(End { loss, variance: 0.0 })
}

/// The loss at the first report at or after `step`, and its difference from the last report up to
/// half of that step (the first report, if none is that early).
fn here(history: &History<'_>, trial: &Trial, step: u64) -> Option<(f64, f64)> {
    let at = trial.curve.partition_point(|(at, _)| *at < step);
    let loss = |place: usize| trial.curve.get(place).map(|(_, value)| history.score(*value).loss());
    let half = trial.curve.partition_point(|(at, _)| *at <= step / 2).saturating_sub(1);
    let value = loss(at).filter(|loss| loss.is_finite())?;
    let gain = loss(half).map_or(0.0, |before| value - before);
    Some((value, if gain.is_finite() { gain } else { 0.0 }))
}

fn forecast_ends(columns: &Columns, rows: &[TrialAtStep<'_>], middle: Middle) -> EndForecasts {
    let values = clipped(rows.iter().map(|row| row.value).collect(), middle);
    let continued: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].end.is_some()).collect();
    let ends = clipped(
        continued.iter().filter_map(|row| rows[*row].end).map(|end| end.loss).collect(),
        middle,
    );
    // The variance of the final losses themselves is added.
    let noise_variance = mean(
        &continued
            .iter()
            .filter_map(|row| rows[*row].end)
            .map(|end| end.variance)
            .collect::<Vec<f64>>(),
    );
    let own: Vec<f64> = continued.iter().map(|row| values[*row]).collect();
    let level = Level::learned(&own, &ends, noise_variance);
    let mut forecast = EndForecasts {
        trials: rows.iter().map(|row| row.place).collect(),
        ends: rows.iter().map(|row| level.end(row.value)).collect(),
        continued: continued.len(),
        is_learned: false,
    };
    let Some(scale) =
        Some(deviation(&own)).filter(|scale| continued.len() >= ENOUGH && *scale > 0.0)
    else {
        return forecast;
    };
    let gains = clipped(rows.iter().map(|row| row.gain).collect(), middle);
    let known: Vec<f64> = continued.iter().map(|row| gains[*row]).collect();
    let (centre, usual, spread) =
        (mean(&own), mean(&known), deviation(&known).max(f64::MIN_POSITIVE));
    let features = |(row, (value, gain)): (&TrialAtStep<'_>, (&f64, &f64))| -> Vec<f64> {
        let curve = [(value - centre) / scale, ((gain - usual) / spread).clamp(-3.0, 3.0)];
        curve.into_iter().chain(columns.encode(&row.trial.params)).collect()
    };
    let features: Vec<Vec<f64>> =
        rows.iter().zip(values.iter().zip(&gains)).map(features).collect();
    let targets: Vec<f64> =
        own.iter().zip(&ends).map(|(value, end)| (end - value) / scale).collect();
    // Features: the value; and the curve; and all.
    let regressed = [1, 2, usize::MAX].into_iter().filter_map(|width| {
        let of = |row: usize| &features[row][..features[row].len().min(width)];
        let regression = Regression::learned(
            &continued.iter().map(|row| of(*row)).collect::<Vec<&[f64]>>(),
            &targets,
        )?;
        let end = |(row, (place, value)): (&TrialAtStep<'_>, (usize, &f64))| {
            let (change, variance) = regression.expect(of(place));
            // Losses beyond the clipping bound stay as far behind.
            End {
                loss: value + scale * change + (row.value - value),
                variance: scale * scale * variance + noise_variance,
            }
        };
        let ends = rows.iter().zip(values.iter().enumerate()).map(end).collect();
        Some(Model { ends, missed: scale * scale * mean_square(&regression.left_out) })
    });
    let by_level =
        Model { ends: std::mem::take(&mut forecast.ends), missed: mean_square(&level.left_out) };
    forecast.ends = averaged(
        &std::iter::once(by_level).chain(regressed).collect::<Vec<Model>>(),
        continued.len(),
    );
    forecast.is_learned = true;
    forecast
}

/// A model of the final losses.
struct Model {
    /// Its forecast for each row.
    ends: Vec<End>,
    /// Its mean squared leave-one-out error over the trials that continued.
    missed: f64,
}

/// The models averaged by the likelihood of the final losses of the `count` rows that continued,
/// each left out once, with normal errors: `missed^(-count / 2)` (pseudo-Bayes factors, Geisser and
/// Eddy 1979; Yao, Vehtari, Simpson and Gelman 2018, section 3.4).
#[expect(clippy::cast_precision_loss, reason = "a number of trials")]
fn averaged(models: &[Model], count: usize) -> Vec<End> {
    let missed = |model: &Model| {
        if model.missed.is_nan() { f64::INFINITY } else { model.missed.max(f64::MIN_POSITIVE) }
    };
    let least = models.iter().map(missed).fold(f64::INFINITY, f64::min);
    if least.is_infinite() {
        return models.first().map_or_else(Vec::new, |simplest| simplest.ends.clone());
    }
    let likely: Vec<f64> =
        models.iter().map(|model| (missed(model) / least).powf(-0.5 * count as f64)).collect();
    let all: f64 = likely.iter().sum();
    let rows = models.first().map_or(0, |model| model.ends.len());
    let blend = |row: usize| {
        let told = || {
            models
                .iter()
                .zip(&likely)
                .filter(|(_, likely)| **likely > 0.0)
                .map(|(model, likely)| (model.ends[row], likely / all))
        };
        let loss = told().map(|(end, share)| share * end.loss).sum::<f64>();
        // The disagreement between the models adds to the variance.
        let variance =
            told().map(|(end, share)| share * (end.variance + (end.loss - loss).powi(2))).sum();
        End { loss, variance }
    };
    (0..rows).map(blend).collect()
}

/// Losses, clipped at [`FAR`] times the distance from the best to the median.
fn clipped(losses: Vec<f64>, middle: Middle) -> Vec<f64> {
    let mut sorted = losses.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let (best, median) =
        (sorted.first().copied().unwrap_or(0.0), middle.of(&sorted).unwrap_or(0.0));
    let worst = median + FAR * (median - best);
    losses.into_iter().map(|loss| loss.min(worst)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a number of trials")]
fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / (of.len() as f64).max(1.0)
}

fn deviation(of: &[f64]) -> f64 {
    let centre = mean(of);
    mean(&of.iter().map(|value| (value - centre).powi(2)).collect::<Vec<f64>>()).sqrt()
}

#[cfg(test)]
mod tests;
