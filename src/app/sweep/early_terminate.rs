//! `early_terminate` of a sweep as the pruner `asha`.

use super::Findings;
use super::parameter::{Parameter, Values};
use super::yaml::{Entry, Item};
use crate::config::Diagnostic;
use crate::study::suggestion::{nearest, quoted};

/// The options of `asha`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruner {
    /// The first rung.
    pub min_resource: u64,
    /// The length of a full trial.
    pub max_resource: u64,
    /// One in this many trials continues.
    pub reduction_factor: u64,
    /// A comment on the last step.
    pub comment: String,
}

const KEYS: [&str; 6] = ["type", "min_iter", "max_iter", "s", "eta", "strict"];
/// Names of parameters that are the length of a trial.
const LENGTHS: [&str; 9] = [
    "epochs",
    "num_epochs",
    "n_epochs",
    "max_epochs",
    "num_train_epochs",
    "steps",
    "max_steps",
    "num_steps",
    "iterations",
];
/// The largest step.
const LARGEST: f64 = 1e12;

/// Reads hyperband; `None` without a pruner, or with a problem.
pub fn read(entry: &Entry, parameters: &[Parameter], found: &mut Findings) -> Option<Pruner> {
    let Some(keys) = entry.value.entries() else {
        let message = format!("`early_terminate` must be a mapping, not {}", entry.value.kind());
        found.problem(Diagnostic::error(entry.place, message).help("write `type: hyperband`"));
        return None;
    };
    let get = |key: &str| keys.iter().find(|entry| entry.key == key);
    match get("type").and_then(|entry| entry.value.text()) {
        Some("hyperband") => {}
        given => {
            let message = match given {
                Some(given) => format!("`early_terminate` of type `{given}` is unknown"),
                None => "`early_terminate` has no `type`".to_owned(),
            };
            found
                .problem(Diagnostic::error(entry.place, message).help(
                    "W&B has `type: hyperband`; without early_terminate no trial is stopped",
                ));
            return None;
        }
    }
    for key in keys.iter().filter(|key| !KEYS.contains(&key.key.as_str())) {
        let problem = Diagnostic::error(key.place, format!("hyperband has no key `{}`", key.key));
        found.problem(match nearest(&key.key, KEYS) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("its keys are {}", quoted(KEYS))),
        });
    }
    let mut number = |key: &str, least: f64| {
        let entry = get(key)?;
        let number = entry.value.number().filter(|number| (least..=LARGEST).contains(number));
        if number.is_none() {
            let message = format!("`{key}` must be a number of at least {least}");
            found.problem(Diagnostic::error(entry.place, message).help("such as 3"));
        }
        number
    };
    let eta = number("eta", 1.0);
    let (min_iter, max_iter) = (number("min_iter", 1.0), number("max_iter", 1.0));
    let brackets = number("s", 1.0);
    let eta = eta.unwrap_or(3.0);
    if matches!(get("strict").map(|entry| &entry.value.item), Some(Item::Bool(false))) {
        found.note(
            "`strict: false` is left out: at a rung a trial is judged by its report there"
                .to_owned(),
        );
    }
    let factor = eta.round().clamp(2.0, 1_000.0);
    #[expect(clippy::float_cmp, reason = "rounding leaves an integer as it is")]
    if factor != eta {
        found.note(format!("`eta: {eta}` becomes {factor}: a reduction factor is an integer"));
    }
    match (min_iter, max_iter, brackets) {
        (_, Some(max_iter), Some(brackets)) => {
            // W&B's rungs: max_iter / eta, max_iter / eta^2, .., at most s of them.
            let rungs = std::iter::successors(Some(max_iter / eta), |rung| Some(rung / eta));
            let first = rungs
                .take_while(|rung| *rung >= 1.0)
                .enumerate()
                .take_while(|(at, _)| f64_of(*at) < brackets)
                .last();
            let Some((before, first)) = first else {
                let message = "no rung lies between 1 and `max_iter`";
                found.problem(
                    Diagnostic::error(entry.place, message)
                        .help("raise `max_iter`, or write `min_iter`"),
                );
                return None;
            };
            // Rungs lie below the last step: this one gives as many as W&B has.
            let last = first.floor() * factor.powf(f64_of(before + 1));
            Some(pruner(first.floor(), last, factor, format!("`max_iter: {max_iter}`")))
        }
        (Some(min_iter), Some(max_iter), None) if max_iter > min_iter => {
            Some(pruner(min_iter, max_iter, factor, "`max_iter`".to_owned()))
        }
        (Some(min_iter), None, _) => {
            let length = parameters.iter().find_map(|parameter| {
                let Values::Fixed(value) = &parameter.values else { return None };
                let is_length = LENGTHS.contains(&parameter.path.last()?.as_str());
                let length = value.number().filter(|length| *length > min_iter && is_length)?;
                Some((length.min(LARGEST), format!("`{}`", parameter.name)))
            });
            let (max, why) = length.unwrap_or_else(|| {
                found.note(
                    "`early_terminate`: a sweep does not tell how long a run is: correct \
                     max_resource, the reports of a full trial"
                        .to_owned(),
                );
                let max = (min_iter * factor.powi(4)).min(LARGEST);
                (max, "a guess: reports of a full trial".to_owned())
            });
            Some(pruner(min_iter, max, factor, why))
        }
        _ => {
            if !found.has_problems() {
                let message = "hyperband needs `min_iter`, or `max_iter` and `s`";
                found.problem(
                    Diagnostic::error(entry.place, message).help(
                        "`min_iter: 3` stops trials after their third report at the earliest",
                    ),
                );
            }
            None
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 1 and the largest step"
)]
fn pruner(min: f64, max: f64, factor: f64, comment: String) -> Pruner {
    Pruner {
        min_resource: min as u64,
        max_resource: max.max(min) as u64,
        reduction_factor: factor as u64,
        comment,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few dozen rungs")]
fn f64_of(count: usize) -> f64 {
    count as f64
}
