//! `hpsearch importance`: which parameters matter, as a table with bars.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::OutputForm;
use super::console::Console;
use super::exit::{Exit, Failure};
use super::named_study;
use super::trial_json::VERSION;
use crate::importance::{self, Evaluator, Row};
use crate::reporters::table::{Align, Column};
use crate::reporters::wording::one_line;
use crate::storage::{OutcomeCursor, StorageReader};

/// The longest bar, in columns.
const LONGEST_BAR: f64 = 30.0;

/// What `hpsearch importance` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  hpsearch importance digits
  hpsearch importance digits --evaluator fanova
  hpsearch importance digits --json | jq '.importances[0].name'")]
pub struct ImportanceArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// How importance is measured
    #[arg(long, default_value = "ped-anova")]
    pub evaluator: Measure,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The evaluators on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// What separates the best tenth of the trials from the rest
    PedAnova,
    /// Shares of the variance of a random forest
    Fanova,
}

impl From<Measure> for Evaluator {
    fn from(measure: Measure) -> Self {
        match measure {
            Measure::PedAnova => Evaluator::PedAnova,
            Measure::Fanova => Evaluator::Fanova,
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    study: &'a str,
    evaluator: &'static str,
    trials: usize,
    importances: Vec<Share<'a>>,
}

#[derive(Serialize)]
struct Share<'a> {
    name: &'a str,
    importance: f64,
}

/// Prints them, most important first.
pub fn importance(arguments: &ImportanceArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let study = named_study::find(&reader, arguments.study.as_deref())?;
    let (spec, evaluator) = (&study.spec, Evaluator::from(arguments.evaluator));
    let (outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    let rows: Vec<Row<'_>> = outcomes.iter().filter_map(|outcome| Some(Row { params: &outcome.params, value: outcome.value? })).collect();
    let trials = rows.iter().filter(|row| row.value.is_finite()).count();
    let shares = importance::importances(evaluator, &spec.space, &rows, spec.direction(), spec.seed)
        .map_err(|error| Failure::new(Exit::NoCompletedTrial, error).help("`hpsearch trials` shows where the trials stand"))?;
    match OutputForm::from(arguments.json) {
        OutputForm::Json => {
            let importances = shares.iter().map(|(name, importance)| Share { name, importance: *importance }).collect();
            console.json(&Answer { version: VERSION, study: &spec.name, evaluator: evaluator.as_str(), trials, importances })?;
        }
        OutputForm::Text => print(&shares, evaluator, trials, console)?,
    }
    Ok(Exit::Done)
}

fn print(shares: &[(String, f64)], evaluator: Evaluator, trials: usize, console: &mut Console) -> Result<(), Failure> {
    let (full, half) = (console.look.either("█", "#"), console.look.either("▌", ""));
    let most = shares.first().map_or(1.0, |(_, share)| share.max(f64::MIN_POSITIVE));
    console.table(&[
        Column::new("parameter", Align::Left, shares.iter().map(|(name, _)| one_line(name)).collect()),
        Column::new("importance", Align::Right, shares.iter().map(|(_, share)| format!("{share:.3}")).collect()),
        Column::new("", Align::Left, shares.iter().map(|(_, share)| bar(share / most, full, half)).collect()).optional(),
    ])?;
    let means = match evaluator {
        Evaluator::PedAnova => "what separates the best tenth from the rest",
        Evaluator::Fanova => "shares of the variance between trials",
    };
    Ok(writeln!(console.out, "\n{} of {trials} completed trials: {means}", evaluator.as_str())?)
}

/// A bar of halves of a column.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most the longest bar")]
fn bar(share: f64, full: &str, half: &str) -> String {
    let halves = (share.clamp(0.0, 1.0) * LONGEST_BAR * 2.0).round() as usize;
    full.repeat(halves / 2) + if halves % 2 == 1 { half } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_share() {
        assert_eq!(bar(0.1, "#", "+"), "###");
        assert_eq!(bar(0.05, "#", "+"), "#+");
        assert_eq!((bar(1.0, "#", "+").len(), bar(0.0, "#", "+").len()), (30, 0));
    }
}
