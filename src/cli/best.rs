//! `hpsearch best`: the best trial of a study, with its parameters as TOML.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::console::shown;
use super::trial_json::TrialJson;
use super::{Console, Exit, Failure};
use crate::app::best::{self, Best, command};
use crate::app::best_runs::{self, RunsJson};
use crate::export::recipe;
use crate::report::wording::{duration, micros, number, one_line, toml_key, toml_value};
use crate::study::metric::{Metrics, Number};
use crate::study::spec::StudySpec;

const EXAMPLES: &str = "\
Examples:
  hpsearch best digits
  hpsearch best digits --command           its command line, to run it again
  hpsearch best digits --json | jq .trial.params";

/// Arguments of `hpsearch best`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BestArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Print only the command line of the best trial, for a shell
    #[arg(long, conflicts_with = "json")]
    pub command: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A trial with its metrics and its checkpoint.
#[derive(Serialize)]
struct BestTrialJson {
    #[serde(flatten)]
    trial: TrialJson,
    metrics: Metrics,
    checkpoint: Option<String>,
    /// The step that the checkpoint holds, if it is not the value's.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<RunsJson>,
}

/// Prints the best trial.
pub fn best(arguments: &BestArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let best = best::best(&reader, &study)?;
    if arguments.json {
        let trial = BestTrialJson::from(best);
        return console.json(Some(&study.spec.name), &BTreeMap::from([("trial", trial)]));
    }
    if !arguments.command {
        print(&study.spec, &best, console)?;
        return Ok(Exit::Done);
    }
    let command = command(&study.spec, &best.trial).ok_or_else(|| {
        Failure::usage(format!("`{}` does not run a command", one_line(&study.spec.name)))
            .help("`hpsearch export` and `hpsearch train` are for studies of the built-in trainer")
    })?;
    writeln!(console.out, "{command}")?;
    Ok(Exit::Done)
}

impl From<Best> for BestTrialJson {
    fn from(best: Best) -> Self {
        let checkpoint = best.trial.checkpoint_of(best.step);
        BestTrialJson {
            trial: TrialJson { value: best.value.map(Number), ..TrialJson::from(&best.trial) },
            checkpoint: checkpoint.map(|checkpoint| checkpoint.path.display().to_string()),
            checkpoint_step: checkpoint
                .map(|checkpoint| checkpoint.step)
                .filter(|held| Some(*held) != best.step),
            runs: best.runs.as_ref().map(RunsJson::from),
            metrics: best.metrics,
        }
    }
}

/// Parameters as TOML; everything else as comments, so that the output is a TOML file.
fn print(spec: &StudySpec, best: &Best, console: &mut Console) -> Result<(), Failure> {
    let (trial, step, unit) = (&best.trial, best.step, spec.step.as_str());
    let value = best.value.map_or_else(String::new, number);
    let at = step.map_or_else(String::new, |step| format!(" at {unit} {step}"));
    let spent = duration(micros(trial.busy_micros));
    let metric = &spec.objective().metric;
    let mut comments =
        vec![format!("trial {} of {}: {metric} {value}{at}, {spent}", trial.number, spec.name)];
    if let Some(until) = trial.until.filter(|_| trial.continued.is_some()) {
        comments.push(format!(
            "it continues past its end, to {unit} {until}: this is what it has measured up to now"
        ));
    }
    if let Some(runs) = &best.runs {
        comments.push(best_runs::in_words(runs));
        let tested = runs.test.iter().flat_map(Metrics::iter);
        comments.extend(tested.map(|(name, value)| {
            format!("{name} {} on the test split, measured once", number(value))
        }));
    }
    let others: BTreeMap<&str, f64> =
        best.metrics.iter().filter(|(name, _)| name != metric).collect();
    comments.extend(others.into_iter().map(|(name, value)| format!("{name} {}", number(value))));
    comments.push(match trial.checkpoint_of(step) {
        Some(checkpoint) if Some(checkpoint.step) != step => format!(
            "checkpoint {}, of {unit} {}: there is none of the value's {unit}",
            shown(&checkpoint.path),
            checkpoint.step
        ),
        Some(checkpoint) => format!("checkpoint {}", shown(&checkpoint.path)),
        None => "no checkpoint".to_owned(),
    });
    if let Some((first, until)) = recipe::continued(spec, trial, step) {
        comments.push(recipe::not_the_same(spec.step, first));
        comments.push(format!("its length: {unit} {until}, whatever stands below"));
    }
    // A multi-line command cannot be a comment.
    let command = command(spec, trial).filter(|command| !command.contains('\n'));
    comments.extend(command.map(|command| format!("command: {command}")));
    for comment in comments {
        writeln!(console.out, "# {}", one_line(&comment))?;
    }
    for (name, value) in trial.params.iter() {
        writeln!(console.out, "{} = {}", toml_key(name), toml_value(value))?;
    }
    Ok(())
}
