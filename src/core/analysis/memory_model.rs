//! The memory model: peak memory of a trial, learned from trials that ended.
//!
//! The model is a constant and up to three *sizes* with non-negative factors, so that a larger size
//! never needs less: `peak = a + b₁ s₁ + b₂ s₂ + b₃ s₃`. Sizes of the built-in trainer are the
//! components of its memory (weights; activations: tokens per batch times layers times widths;
//! attention scores); those of a command are its numeric parameters and products of two and three
//! of them. Sizes are added greedily while each reduces the leave-one-out error by a third (least
//! squares of relative errors; the leave-one-out error is the residual over one minus the
//! leverage). The worst such error is the margin of a prediction. If it exceeds a quarter, nothing
//! is learned: memory does not depend on these sizes alone.

use std::collections::BTreeMap;

use crate::analysis::linalg::Matrix;
use crate::arguments::{RowsAtOnce, TrainerArguments};
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;

/// Maximum number of sizes in a model.
const MOST: usize = 3;
/// Largest acceptable margin, relative to the prediction.
const WIDEST: f64 = 0.25;
/// Smallest margin: memory is sampled once a second, which misses peaks.
const NARROWEST: f64 = 0.05;
/// Another size must reduce the leave-one-out error to this share.
const MIN_REDUCTION: f64 = 0.67;
/// Minimum number of trials beyond the number of coefficients.
const SPARE: usize = 2;
/// Maximum number of a command's parameters whose products are considered.
const NUMERIC: usize = 6;

/// The sizes of a configuration, by name; absent ones are 0.
pub type Sizes = BTreeMap<String, f64>;

/// A trial that ended, and its peak memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its sizes.
    pub sizes: Sizes,
    /// Its peak memory in bytes.
    pub bytes: u64,
}

/// The learned model.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryModel {
    constant: f64,
    /// Factors of sizes.
    factors: Vec<(String, f64)>,
    /// Factor on a prediction that covers every left-out trial.
    most: f64,
    /// The same for the lower bound.
    least: f64,
    trials: usize,
}

/// A memory estimate, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Lower bound.
    pub least: u64,
    /// Most likely.
    pub likely: u64,
    /// Upper bound.
    pub most: u64,
}

/// The sizes of a configuration at its smallest batch size: a trial of the built-in trainer that
/// runs out of memory continues with smaller batches, down to one row.
pub fn smallest_sizes(spec: &StudySpec, params: &Params) -> Sizes {
    let rows = match &spec.program {
        Program::Trainer { arguments, .. } => {
            let searched = params.iter().map(|(name, value)| (name.to_owned(), value.to_json()));
            RowsAtOnce::that_may_be_halved(&arguments.clone().into_iter().chain(searched).collect())
                .map(|rows| rows.halved(u32::MAX))
        }
        Program::Command { .. } | Program::Inline => None,
    };
    sizes(spec, params, rows)
}

/// The sizes of a configuration, optionally at another batch size.
pub fn sizes(spec: &StudySpec, params: &Params, rows: Option<RowsAtOnce>) -> Sizes {
    match &spec.program {
        Program::Trainer { arguments, data } => {
            let mut values = arguments.clone();
            values.extend(params.iter().map(|(name, value)| (name.to_owned(), value.to_json())));
            let longest = data.get("max_length").and_then(serde_json::Value::as_f64);
            TrainerArguments::resolve(&values)
                .map_or_else(|_| Sizes::new(), |arguments| of_trainer(&arguments, longest, rows))
        }
        Program::Command { .. } | Program::Inline => of_command(spec, params),
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of models")]
fn of_trainer(
    arguments: &TrainerArguments,
    longest: Option<f64>,
    rows: Option<RowsAtOnce>,
) -> Sizes {
    // Unknown text lengths are absorbed by the learned factor.
    let length = arguments.model.max_length.map(|length| length as f64).or(longest).unwrap_or(1.0);
    let (train, eval) = rows.map_or(
        (arguments.per_device_train_batch_size, arguments.per_device_eval_batch_size),
        |rows| (rows.train, rows.eval),
    );
    let (train, eval) = (train as f64, eval as f64);
    let tokens = match arguments.max_tokens_per_batch {
        Some(most) if rows.is_none() => most as f64,
        _ => train * length,
    };
    let mut sizes = Sizes::new();
    let mut add = |name: &str, size: f64| {
        sizes.insert(name.to_owned(), size);
    };
    // Activations kept in half precision have factors of their own.
    let short = if arguments.bf16 || arguments.fp16 { ", in short numbers" } else { "" };
    if let Some(model) = &arguments.model.pretrained {
        // The shape of a pretrained model is unknown here: it has its own constant and factor.
        add(&format!("model {model}"), 1.0);
        add(&format!("tokens at once, {model}{short}"), tokens);
        add(&format!("tokens evaluated at once, {model}"), eval * length);
        return sizes;
    }
    let shape = arguments.model.from_scratch();
    let (hidden, inner) = (shape.hidden_size as f64, shape.intermediate_size as f64);
    let (layers, heads) = (shape.num_layers as f64, shape.num_heads as f64);
    add("weights", layers * hidden * (4.0 * hidden + 2.0 * inner));
    add("width", hidden);
    add(&format!("activations{short}"), tokens * layers * (hidden + inner));
    add(&format!("inner activations{short}"), tokens * layers * inner);
    add(&format!("tokens at once{short}"), tokens);
    add(&format!("scores of attention{short}"), train * layers * heads * length * length);
    add("evaluated activations", eval * length * (hidden + inner));
    sizes
}

/// Numeric parameters, and products of two and three of them.
fn of_command(spec: &StudySpec, params: &Params) -> Sizes {
    let numeric =
        spec.space.dimensions().iter().filter(|dimension| match &dimension.distribution {
            Distribution::Float { low, .. } => *low >= 0.0,
            Distribution::Int { low, .. } => *low >= 0,
            Distribution::Choice { choices } => {
                choices.iter().all(|choice| choice.as_number().is_some_and(|number| number >= 0.0))
            }
        });
    let values: Vec<(&str, f64)> = numeric
        .take(NUMERIC)
        .filter_map(|dimension| {
            Some((dimension.name.as_str(), params.get(&dimension.name)?.as_number()?))
        })
        .collect();
    let mut sizes = Sizes::new();
    for (at, (one, first)) in values.iter().enumerate() {
        sizes.insert((*one).to_owned(), *first);
        for (next, (other, second)) in values.iter().enumerate().skip(at) {
            sizes.insert(format!("{one} x {other}"), first * second);
            for (third, factor) in values.iter().skip(next + 1) {
                sizes.insert(format!("{one} x {other} x {third}"), first * second * factor);
            }
        }
    }
    sizes
}

impl MemoryModel {
    /// Learns from trials in the order of their ends; `None` if their memory does not follow from
    /// their sizes, or there are too few.
    pub fn learn(seen: &[Seen]) -> Option<MemoryModel> {
        let latest: Vec<&Seen> = seen.iter().filter(|seen| seen.bytes > 0).collect();
        let mut names: Vec<&str> =
            latest.iter().flat_map(|seen| seen.sizes.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        let mut chosen: Vec<&str> = Vec::new();
        let mut best = Fit::new(&latest, &chosen)?;
        while chosen.len() < MOST && best.error > 0.0 {
            let others = names.iter().copied().filter(|name| !chosen.contains(name));
            let fits = others.filter_map(|name| {
                let with: Vec<&str> = chosen.iter().copied().chain(std::iter::once(name)).collect();
                Some((Fit::new(&latest, &with)?, name))
            });
            // Ties go to the first by name: nothing depends on the order of trials.
            let Some((fit, name)) =
                fits.min_by(|(one, _), (other, _)| one.error.total_cmp(&other.error))
            else {
                break;
            };
            if fit.error > MIN_REDUCTION * best.error {
                break;
            }
            chosen.push(name);
            best = fit;
        }
        let (most, least) = (best.most.max(1.0 + NARROWEST), best.least.min(1.0 - NARROWEST));
        if most > 1.0 + WIDEST || least < 1.0 - WIDEST {
            return None;
        }
        let names = chosen.into_iter().map(str::to_owned);
        let factors = names.zip(best.factors.iter().skip(1).copied()).collect();
        Some(MemoryModel { constant: best.factors[0], factors, most, least, trials: latest.len() })
    }

    /// Estimates the memory of a trial with these sizes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and far below 2^64 or saturated there"
    )]
    pub fn expect(&self, sizes: &Sizes) -> Expected {
        let of_size = |(name, factor): &(String, f64)| factor * sizes.get(name).unwrap_or(&0.0);
        let bytes = self.factors.iter().map(of_size).fold(self.constant, |sum, part| sum + part);
        let bytes = bytes.max(0.0);
        Expected {
            least: (bytes * self.least) as u64,
            likely: bytes as u64,
            most: (bytes * self.most) as u64,
        }
    }

    /// The basis of the model: `as 12 that ended, by their weights and activations, 8 % off at
    /// most`.
    pub fn in_words(&self) -> String {
        let names: Vec<&str> = self.factors.iter().map(|(name, _)| name.as_str()).collect();
        let sizes = if names.is_empty() {
            String::new()
        } else {
            format!(", by their {}", names.join(" and "))
        };
        let off = 100.0 * (self.most - 1.0).max(1.0 - self.least);
        format!("as {} that ended{sizes}, {off:.0} % off at most", self.trials)
    }
}

/// Least squares of relative errors over a constant and some sizes.
struct Fit {
    factors: Vec<f64>,
    /// Root mean square of the relative leave-one-out errors.
    error: f64,
    most: f64,
    least: f64,
}

impl Fit {
    /// `None`: too few trials, collinear sizes, or a negative factor.
    #[expect(clippy::cast_precision_loss, reason = "bytes, to a few digits")]
    fn new(seen: &[&Seen], names: &[&str]) -> Option<Fit> {
        let unknowns = names.len() + 1;
        if seen.len() < unknowns + SPARE {
            return None;
        }
        let size = |seen: &Seen, name: &str| seen.sizes.get(name).copied().unwrap_or(0.0);
        let scales: Vec<f64> = names
            .iter()
            .map(|name| seen.iter().map(|seen| size(seen, name)).fold(0.0, f64::max))
            .collect();
        if scales.iter().any(|scale| *scale <= 0.0 || !scale.is_finite()) {
            return None;
        }
        // Each row is divided by its measurement: the squares are those of relative errors, and the
        // target is 1.
        let rows: Vec<Vec<f64>> = seen
            .iter()
            .map(|seen| {
                let bytes = seen.bytes as f64 / MIB;
                let sizes =
                    names.iter().zip(&scales).map(|(name, scale)| size(seen, name) / scale / bytes);
                std::iter::once(1.0 / bytes).chain(sizes).collect()
            })
            .collect();
        let (mut normal, mut target) = (Matrix::new(unknowns), vec![0.0; unknowns]);
        for row in &rows {
            for (one, value) in row.iter().enumerate() {
                target[one] += value;
                let cells = normal.row_mut(one).iter_mut().zip(row);
                cells.for_each(|(cell, other)| *cell += value * other);
            }
        }
        let greatest = (0..unknowns).map(|one| normal.row(one)[one]).fold(0.0, f64::max);
        let factor = normal.factor()?;
        if (0..unknowns).any(|one| factor.row(one)[one].powi(2) <= 1e-12 * greatest) {
            return None;
        }
        let half = factor.inverse_of_factor();
        let factors = half.transposed_times(&half.times(&target));
        if factors.iter().skip(1).any(|factor| *factor < 0.0)
            || factors.iter().any(|factor| !factor.is_finite())
        {
            return None;
        }
        let (mut sum, mut most, mut least) = (0.0, 1.0_f64, 1.0_f64);
        for row in &rows {
            let met: f64 = row.iter().zip(&factors).map(|(value, factor)| value * factor).sum();
            let error = (1.0 - met) / (1.0 - half.square_of_product(row)).max(1e-6);
            sum += error * error;
            // Measured = predicted / (1 - error).
            let times = if error < 1.0 { 1.0 / (1.0 - error) } else { f64::INFINITY };
            (most, least) = (most.max(times), least.min(times));
        }
        let factors = factors
            .iter()
            .zip(std::iter::once(&1.0).chain(&scales))
            .map(|(factor, scale)| factor * MIB / scale)
            .collect();
        Some(Fit { factors, error: (sum / rows.len() as f64).sqrt(), most, least })
    }
}

const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests;
