//! The reasons of decisions in words, with their numbers.

use std::fmt;
use std::time::Duration;

use super::{Bound, Comparison, Means, PauseCost, RankedForecast, Reason};
use crate::study::counted::count;
use crate::study::duration;
use crate::study::metric::Number;

/// One sentence with the numbers, such as `rank 9 of 12 at step 300; 4 continue`.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let continues =
            |first: &u64| format!("{first} {}", if *first == 1 { "continues" } else { "continue" });
        match self {
            Reason::Rank { rank, of, first, at, forecast_from, forecast } => {
                write!(f, "rank {rank} of {of} at {at}")?;
                if let Some(trials) = forecast_from {
                    write!(f, ", by final values forecast from {trials} that continued")?;
                }
                if let Some(RankedForecast { mean, deviation, cut_off }) = forecast {
                    let places = meaningful_places(deviation.0);
                    write!(
                        f,
                        ": {:.places$} +- {:.places$} against {:.places$}",
                        mean.0, deviation.0, cut_off.0
                    )?;
                }
                if first >= of {
                    match *first == 1 {
                        true => f.write_str("; the first one continues"),
                        false => write!(f, "; the first {first} continue"),
                    }
                } else {
                    write!(f, "; {}", continues(first))
                }
            }
            Reason::Rung { rung, rank, of, first } => {
                write!(f, "rung {rung} reached with rank {rank} of {of}; ")?;
                match *first {
                    0 => f.write_str("too few to promote one"),
                    1 => f.write_str("the best one continues"),
                    _ => write!(f, "the best {first} continue"),
                }
            }
            Reason::NotPaused { rung, rank, of, first, until, cost } => {
                write!(f, "rank {rank} of {of} at rung {rung}; ")?;
                match *first {
                    0 => f.write_str("too few to promote one")?,
                    first if first >= *of => write!(f, "the first {first} continue")?,
                    first => f.write_str(&continues(&first))?,
                }
                match cost {
                    PauseCost::Restart { restart, training } => {
                        let end = until.map_or("the end".to_owned(), |until| until.to_string());
                        let (restart, training) = (time(*restart), time(*training));
                        write!(
                            f,
                            "; not paused: it would take {restart} to start again, and {training} \
                             to train to {end}"
                        )
                    }
                    PauseCost::StartsOver => f.write_str(
                        "; not paused: its program saves no checkpoints, and it would start over",
                    ),
                }
            }
            Reason::Promoted { rung, rank, of, first, until } => {
                write!(f, "rank {rank} of {of} at rung {rung}; {} to ", continues(first))?;
                match until {
                    Some(until) => until.fmt(f),
                    None => f.write_str("the end"),
                }
            }
            Reason::Concluded { rung } => write!(
                f,
                "the best trial at rung {rung}, the highest that was reached, runs to its end: no \
                 other did"
            ),
            Reason::Ready { rung, at_once } => {
                let next = match at_once {
                    true => "continues as the latest results of its population decide",
                    false => "waits for its population",
                };
                write!(f, "ready at rung {rung}: {next}")
            }
            Reason::Survived { rung, rank, of, no_donor, at_once } => {
                f.write_str(&member_rank(*rung, *rank, *of, *at_once))?;
                let there = if *at_once { "as far on" } else { "there" };
                match no_donor {
                    true => write!(f, ": continues, since no better one has a checkpoint {there}"),
                    false => f.write_str(": continues"),
                }
            }
            Reason::Exploited { rung, rank, of, from, from_rank, from_step } => {
                f.write_str(&member_rank(*rung, *rank, *of, from_step.is_some()))?;
                write!(f, ": continues from trial {from}")?;
                if let Some(step) = from_step {
                    write!(f, " at step {step}")?;
                }
                write!(f, ", which has rank {from_rank}")
            }
            Reason::Migrated { rung, rank, of, from, params_of } => write!(
                f,
                "rank {rank} of {of} of its sub-population at rung {rung}: continues from trial \
                 {from} of another one, with the parameters of trial {params_of}"
            ),
            Reason::Percentile { best, border, percentile, of, at, comparison } => {
                write!(f, "best value {best} is {comparison} than ")?;
                if *percentile == Number(50.0) {
                    write!(f, "the median {border}")?;
                } else {
                    write!(f, "{border}, percentile {percentile}")?;
                }
                write!(f, " of {} at {at}", count(*of, "completed trial"))
            }
            Reason::Patience { best, reports, before, min_delta, at, comparison, wrapped } => {
                if best.0.is_nan() {
                    let are = if *reports == 1 { "is" } else { "are" };
                    write!(f, "the last {} up to {at} {are} NaN", last(*reports))?;
                } else {
                    write!(
                        f,
                        "the best value {best} of the last {} up to {at} is {comparison} than \
                         {before} before {}",
                        last(*reports),
                        if *reports == 1 { "it" } else { "them" }
                    )?;
                    if *comparison == Comparison::Worse && min_delta.0 > 0.0 {
                        write!(f, " by more than {min_delta}")?;
                    }
                }
                wrapped.as_ref().map_or(Ok(()), |second| write!(f, ", and {second}"))
            }
            Reason::Plateau { best, best_at, reports, min_delta, at } => {
                write!(
                    f,
                    "no improvement on {best} at {best_at} in {} up to {at}",
                    count(*reports, "report")
                )?;
                match min_delta.0 > 0.0 {
                    true => write!(f, " by more than {min_delta}"),
                    false => Ok(()),
                }
            }
            Reason::Threshold { value, bound, threshold, at } => {
                let side = match bound {
                    Bound::Lower => "below",
                    Bound::Upper => "above",
                };
                write!(f, "value {value} at {at} is {side} the threshold {threshold}")
            }
            Reason::Limit { condition, over, at } => {
                write!(f, "`{condition}` is violated by {over} at {at}")
            }
            Reason::Wilcoxon { p, threshold, steps, at, best, means } => {
                let units = if *steps == 1 { at.unit.as_str() } else { at.unit.plural() };
                let p = p.0;
                write!(
                    f,
                    "p = {p:.4} at {steps} {units} in common with the best trial {best} is "
                )?;
                let Some(Means { own, best, comparison }) = means else {
                    return write!(f, "not below {threshold}");
                };
                let and = if *comparison == Comparison::Worse { "and" } else { "but" };
                write!(f, "below {threshold}, {and} the mean {own} is {comparison} than its {best}")
            }
            Reason::Forecast { mean, deviation, best, probability, threshold, at, rank } => {
                if let Some(rank) = rank {
                    write!(f, "{rank}; ")?;
                }
                let places = meaningful_places(deviation.0);
                write!(
                    f,
                    "at {at} expected to end at {:.places$} +- {:.places$}: better than the best, \
                     {:.places$}, with probability {:.3}",
                    mean.0, deviation.0, best.0, probability.0
                )?;
                threshold.map_or(Ok(()), |threshold| write!(f, ", less than {threshold}"))
            }
            Reason::Nan { at } => write!(f, "the value at {at} is NaN"),
            Reason::OnlyNan { at } => write!(f, "every value up to {at} is NaN"),
            Reason::Reached(at) => write!(f, "{at} is reached"),
            Reason::Held(text) | Reason::Recorded(text) => f.write_str(text),
        }
    }
}

impl Reason {
    /// The rule that ended or paused the trial, without the numbers of each: `its rank at a rung`.
    pub fn rule(&self) -> &'static str {
        match self {
            Reason::Rank { .. } => "its rank at a rung",
            Reason::Rung { .. } => "waits at a rung, and was not promoted",
            Reason::Ready { .. } => "waited for its population",
            Reason::Percentile { percentile: Number(50.0), .. } => {
                "worse than the median at the same step"
            }
            Reason::Percentile { .. } => "worse than a percentile at the same step",
            Reason::Patience { .. } => "no better for several reports",
            Reason::Plateau { .. } => "no longer improved",
            Reason::Threshold { .. } => "outside of a fixed bound",
            Reason::Limit { .. } => "beyond a limit",
            Reason::Wilcoxon { .. } => "worse than the best trial by a signed-rank test",
            Reason::Forecast { .. } => "forecast to end worse than the best",
            Reason::Nan { .. } | Reason::OnlyNan { .. } => "NaN",
            Reason::Promoted { .. }
            | Reason::NotPaused { .. }
            | Reason::Concluded { .. }
            | Reason::Survived { .. }
            | Reason::Exploited { .. }
            | Reason::Migrated { .. }
            | Reason::Reached(_)
            | Reason::Held(_)
            | Reason::Recorded(_) => "stopped by its pruner",
        }
    }
}

/// Microseconds in words: tenths of seconds from ten seconds on, milliseconds below.
fn time(micros: i64) -> String {
    let millis = (micros.max(0).unsigned_abs() + 500) / 1000;
    let millis = if millis < 10_000 { millis } else { (millis + 50) / 100 * 100 };
    duration::format(Duration::from_millis(millis))
}

/// The rank of a member of a population, among those that met or among their latest results.
fn member_rank(rung: u64, rank: u64, of: u64, at_once: bool) -> String {
    match at_once {
        true => {
            format!(
                "rank {rank} of {of} at rung {rung}, among the latest results of its population"
            )
        }
        false => format!("rank {rank} of {of} of its population at rung {rung}"),
    }
}

/// Significant decimal places, given the deviation: 4 if that is 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small number of places, clamped"
)]
fn meaningful_places(deviation: f64) -> usize {
    if deviation == 0.0 {
        return 4;
    }
    (1.0 - deviation.abs().log10().floor()).clamp(0.0, 12.0) as usize
}

/// `report`, `4 reports`: after "the last".
fn last(reports: u64) -> String {
    if reports == 1 { "report".to_owned() } else { count(reports, "report") }
}
