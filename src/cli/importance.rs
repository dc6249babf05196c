//! `hpsearch importance`: which parameters matter, as a table with bars.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{Console, Exit, Failure};
use crate::analysis::importance::{self, Evaluator, ImportanceError};
use crate::app::compared::compared;
use crate::report::table::Columns;
use crate::report::wording::one_line;
use crate::storage::{OutcomeCursor, StorageReader};
use crate::study::counted::count;
use crate::study::outcome::TrialSummary;
use crate::study::spec::{Objective, StudySpec};

/// The longest bar, in columns.
const LONGEST_BAR: f64 = 30.0;

/// Arguments of `hpsearch importance`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  hpsearch importance digits
  hpsearch importance digits --evaluator fanova
  hpsearch importance digits --json | jq '.importances[0].name'")]
pub struct ImportanceArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// For one of several objectives only
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
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

/// The output for a study of several objectives.
#[derive(Serialize)]
struct SeveralObjectivesJson<'a> {
    evaluator: &'static str,
    objectives: Vec<ImportanceJson<'a>>,
}

#[derive(Serialize)]
struct ImportanceJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    evaluator: Option<&'static str>,
    /// The objective, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    metric: Option<&'a str>,
    /// The counted ones, including pruned ones.
    trials: usize,
    pruned: usize,
    importances: Vec<Share<'a>>,
    /// Why there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize)]
struct Share<'a> {
    name: &'a str,
    importance: f64,
}

/// The importances for one objective.
struct ObjectiveImportances<'a> {
    metric: &'a str,
    shares: Vec<(String, f64)>,
    counted: Counted,
    /// Why there are none.
    reason: Option<String>,
}

/// Prints them, most important first.
pub fn importance(arguments: &ImportanceArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let (outcomes, _) = reader.outcomes(study.id, OutcomeCursor::default())?;
    let study = compared(&study, &outcomes);
    let (spec, evaluator) = (&study.spec, Evaluator::from(arguments.evaluator));
    let mut found: Vec<ObjectiveImportances<'_>> = Vec::new();
    for (index, objective) in spec.objectives.iter().enumerate() {
        if arguments.metric.as_ref().is_some_and(|metric| *metric != objective.metric) {
            continue;
        }
        let own = importance::of_objective(&outcomes, spec.objectives.len(), index);
        let stopped = importance::stopped(&outcomes).len();
        found.push(of_objective(spec, objective, (&own, stopped), evaluator, console)?);
    }
    if found.is_empty() {
        let metric = arguments.metric.clone().unwrap_or_default();
        let known = spec.objective_names();
        let message =
            format!("`{}` is not an objective of `{}`", one_line(&metric), one_line(&spec.name));
        let known = known.iter().map(String::as_str);
        return Err(Failure::usage(message).known(&metric, "it searches", known));
    }
    if arguments.json {
        if !spec.has_several_objectives() {
            let output = found.first().map(|one| objective_json(one, Some(evaluator), None));
            return console.json(Some(&spec.name), &output);
        }
        let objectives =
            found.iter().map(|one| objective_json(one, None, Some(one.metric))).collect();
        let output = SeveralObjectivesJson { evaluator: evaluator.as_str(), objectives };
        return console.json(Some(&spec.name), &output);
    }
    for (index, one) in found.iter().enumerate() {
        if spec.has_several_objectives() {
            let gap = if index == 0 { "" } else { "\n" };
            writeln!(console.out, "{gap}{}", one_line(one.metric))?;
        }
        match &one.reason {
            None => print(&one.shares, evaluator, one.counted, console)?,
            Some(reason) => writeln!(console.out, "{reason}")?,
        }
    }
    Ok(Exit::Done)
}

fn of_objective<'a>(
    spec: &StudySpec,
    objective: &'a Objective,
    (outcomes, stopped): (&[TrialSummary], usize),
    evaluator: Evaluator,
    console: &Console,
) -> Result<ObjectiveImportances<'a>, Failure> {
    let direction = objective.direction;
    let (rows, pruned) = importance::rows(outcomes, evaluator, direction);
    let counted = Counted {
        trials: rows.iter().filter(|row| row.value.is_finite()).count(),
        pruned,
        left_out: stopped - pruned,
    };
    let found = importance::importances(evaluator, &spec.space, &rows, direction, spec.seed);
    let (shares, reason) = match found {
        Ok(shares) => (shares, None),
        Err(error @ ImportanceError::TooFew { found: 0 }) => {
            let trials = console.next(&format!("trials {}", spec.name));
            return Err(Failure::new(Exit::NoCompletedTrial, error)
                .help(format!("{trials} shows where the trials stand")));
        }
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Ok(ObjectiveImportances { metric: &objective.metric, shares, counted, reason })
}

fn objective_json<'a>(
    found: &'a ObjectiveImportances<'_>,
    evaluator: Option<Evaluator>,
    metric: Option<&'a str>,
) -> ImportanceJson<'a> {
    let share = |(name, importance): &'a (String, f64)| Share { name, importance: *importance };
    ImportanceJson {
        evaluator: evaluator.map(Evaluator::as_str),
        metric,
        trials: found.counted.trials,
        pruned: found.counted.pruned,
        importances: found.shares.iter().map(share).collect(),
        reason: found.reason.clone(),
    }
}

/// The counted trials.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// All of them.
    trials: usize,
    /// The pruned ones among them.
    pruned: usize,
    /// Pruned ones that the evaluator cannot count.
    left_out: usize,
}

fn print(
    shares: &[(String, f64)],
    evaluator: Evaluator,
    counted: Counted,
    console: &mut Console,
) -> Result<(), Failure> {
    let (full, half) = (console.look.either("█", "#"), console.look.either("▌", ""));
    let most = shares.first().map_or(1.0, |(_, share)| share.max(f64::MIN_POSITIVE));
    let columns = Columns::of(shares)
        .left("parameter", |(name, _)| one_line(name))
        .right("importance", |(_, share)| format!("{share:.3}"))
        .left("", |(_, share)| bar(share / most, full, half))
        .optional();
    console.table(&columns.end())?;
    let means = match evaluator {
        Evaluator::PedAnova => "what separates the best tenth from the rest",
        Evaluator::Fanova => "shares of the variance between trials",
    };
    let Counted { trials, pruned, left_out } = counted;
    let (which, pruned) = match (pruned, left_out) {
        (0, 0) => (count(trials as u64, "completed trial"), String::new()),
        (0, left_out) => (
            count(trials as u64, "completed trial"),
            match left_out {
                1 => "; 1 pruned one has no value, and is left out".to_owned(),
                _ => format!("; {left_out} pruned ones have no value, and are left out"),
            },
        ),
        (pruned, _) => (
            format!("{} completed and {}", trials - pruned, count(pruned as u64, "pruned trial")),
            "; pruned ones count as worse than completed ones, the earlier they were stopped the \
             worse"
                .to_owned(),
        ),
    };
    writeln!(console.out)?;
    console.hanging("", 0, &format!("{} of {which}: {means}{pruned}", evaluator.as_str()))?;
    if evaluator == Evaluator::PedAnova && trials < MANY {
        let other = match trials - counted.pruned {
            importance::ENOUGH.. => "; `--evaluator fanova` is more informative",
            _ => "",
        };
        let few = "note: with so few trials, the best tenth is partly due to chance";
        console.hanging("", 0, &format!("{few}{other}"))?;
    }
    Ok(())
}

/// The number of trials whose best tenth says more than chance.
const MANY: usize = 100;

/// A bar of halves of a column.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most the longest bar"
)]
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
