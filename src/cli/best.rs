//! `hpsearch best`: the best trial of a study, with its parameters as TOML.

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::console::shown;
use super::trial_json::TrialJson;
use super::{Console, Exit, Failure};
use crate::app::best::{self, Best, args, command};
use crate::app::best_runs::{self, RunsJson};
use crate::app::export::stages;
use crate::export::recipe;
use crate::report::populations::stage_lines;
use crate::report::wording::{
    duration, front_in_words, micros, number, one_line, toml_key, toml_value,
};
use crate::report::yaml;
use crate::runner::removal::is_missing;
use crate::storage::{StorageReader, StudySummary};
use crate::study::metric::{Metrics, Number};
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::spec::{Objective, StudySpec};
use crate::study::state::{reported_step, shown_params};
use crate::study::suggestion::quoted;
use crate::study::trial::Trial;

const EXAMPLES: &str = "\
Examples:
  hpsearch best digits
  hpsearch best digits --command           its command line, to run it again
  hpsearch best digits --format yaml       its parameters, for another tool
  hpsearch best digits --format args       the same as arguments
  hpsearch best digits --json | jq .trial.params
  hpsearch show digits 7 --json | jq .trial.params   another trial's";

/// Arguments of `hpsearch best`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BestArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Print only the command line of the best trial, for a shell
    #[arg(long, conflicts_with = "json")]
    pub command: bool,
    /// Print only the parameters, in the format of another tool
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "command"])]
    pub format: Option<ParametersFormat>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A format of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ParametersFormat {
    /// `name = value`, a line each
    Toml,
    /// `name: value`, a line each
    Yaml,
    /// Arguments for a shell, in the style of the study's `{args}`: `--name value` by default
    Args,
}

/// A trial with its metrics and its checkpoint.
#[derive(Serialize)]
struct BestTrialJson {
    #[serde(flatten)]
    trial: TrialJson,
    metrics: Metrics,
    checkpoint: Option<String>,
    /// Whether it is not there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    checkpoint_gone: bool,
    /// The step that the checkpoint holds, if it is not the value's.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<RunsJson>,
}

/// The best trial; of several objectives the compromise, and the whole front.
#[derive(Serialize)]
struct BestOfStudyJson {
    trial: BestTrialJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Vec<TrialJson>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hypervolume: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<Vec<Number>>,
}

/// The trials of the front of several objectives.
fn front_of(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Option<Vec<TrialJson>>, Failure> {
    let Some(front) = &study.front else { return Ok(None) };
    let mut trials = Vec::new();
    for number in &front.trials {
        trials.extend(
            reader
                .trial(study.id, *number)?
                .as_ref()
                .map(|trial| TrialJson::new(&study.spec, trial)),
        );
    }
    Ok(Some(trials))
}

/// Prints the best trial.
pub fn best(arguments: &BestArguments, console: &mut Console) -> Result<Exit, Failure> {
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let best = best::best(&reader, &study)?;
    if arguments.json {
        let output = BestOfStudyJson {
            trial: BestTrialJson::of(best, &study.spec),
            front: front_of(&reader, &study)?,
            hypervolume: study.front.as_ref().and_then(|front| front.hypervolume).map(Number),
            reference: study
                .front
                .as_ref()
                .map(|front| front.reference.iter().copied().map(Number).collect()),
        };
        return console.json(Some(&study.spec.name), &output);
    }
    let stages = match best.trial.segments.is_empty() {
        true => Vec::new(),
        false => stages(&reader, &study, &best.trial, best.step)?,
    };
    let stages = stage_lines(study.spec.step, &stages);
    if let Some(format) = arguments.format {
        print_parameters(format, &study.spec, &best.trial, console)?;
    } else if arguments.command {
        print_command(&study.spec, &best.trial, console)?;
    } else {
        print(&study, &best, &stages, console)?;
        return Ok(Exit::Done);
    }
    if let Some(last) = of_last_stage(&study.spec, &best.trial, &stages) {
        console.say(&format!("warning: {last}"));
    }
    Ok(Exit::Done)
}

fn print_parameters(
    format: ParametersFormat,
    spec: &StudySpec,
    trial: &Trial,
    console: &mut Console,
) -> Result<(), Failure> {
    let params = shown_params(spec, trial);
    match format {
        ParametersFormat::Toml => print_toml(params, console)?,
        ParametersFormat::Yaml => {
            for (name, value) in params.iter() {
                writeln!(console.out, "{}: {}", yaml::key(name), yaml::value(value))?;
            }
        }
        ParametersFormat::Args => writeln!(console.out, "{}", args(spec, trial))?,
    }
    Ok(())
}

fn print_toml(params: &Params, console: &mut Console) -> Result<(), Failure> {
    for (name, value) in params.iter() {
        writeln!(console.out, "{} = {}", toml_key(name), toml_value(value))?;
    }
    Ok(())
}

fn print_command(spec: &StudySpec, trial: &Trial, console: &mut Console) -> Result<(), Failure> {
    let command = command(spec, trial).ok_or_else(|| {
        Failure::usage(format!("`{}` does not run a command", one_line(&spec.name)))
            .help("`hpsearch export` and `hpsearch train` are for studies of the built-in trainer")
    })?;
    writeln!(console.out, "{command}")?;
    if let Program::Command { env, .. } = &spec.program
        && !env.is_empty()
    {
        let names = quoted(env.keys().map(String::as_str));
        console.say(&format!(
            "note: its trials also have {names}, from `[command] env`: the values are not stored"
        ));
    }
    Ok(())
}

impl BestTrialJson {
    fn of(best: Best, spec: &StudySpec) -> Self {
        let checkpoint = best.trial.checkpoint_of(best.step, &spec.program);
        BestTrialJson {
            trial: TrialJson { value: best.value.map(Number), ..TrialJson::new(spec, &best.trial) },
            checkpoint: checkpoint.map(|checkpoint| checkpoint.path.display().to_string()),
            checkpoint_gone: checkpoint.is_some_and(|checkpoint| is_missing(&checkpoint.path)),
            checkpoint_step: checkpoint
                .map(|checkpoint| checkpoint.step)
                .filter(|held| Some(*held) != best.step),
            runs: best.runs.as_ref().map(RunsJson::from),
            metrics: best.metrics,
        }
    }
}

/// That the parameters are not those of the whole trial, where it took over another's state.
fn of_last_stage(spec: &StudySpec, trial: &Trial, stages: &[String]) -> Option<String> {
    (stages.len() > 1).then(|| {
        format!(
            "its parameters are those of the last of {} stages: `hpsearch explain {} {}` shows the \
             schedule, and `hpsearch export` writes it to best.toml",
            stages.len(),
            one_line(&spec.name),
            trial.number
        )
    })
}

/// Parameters as TOML; everything else as comments, so that the output is a TOML file.
fn print(
    study: &StudySummary,
    best: &Best,
    stages: &[String],
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    let (trial, step, unit) = (&best.trial, best.step, spec.step.as_str());
    let value = best.value.map_or_else(String::new, number);
    let reported = reported_step(spec.value, spec.direction(), trial, trial.value);
    let at = reported.map_or_else(String::new, |step| format!(" at {unit} {step}"));
    let spent = duration(micros(trial.busy_micros));
    let metric = &spec.objective().metric;
    let mut comments = match &study.front {
        None => {
            vec![format!("trial {} of {}: {metric} {value}{at}, {spent}", trial.number, spec.name)]
        }
        Some(front) => {
            let named = |(objective, value): (&Objective, &f64)| {
                format!("{} {}", objective.metric, number(*value))
            };
            let values: Vec<String> =
                spec.objectives.iter().zip(&trial.values).map(named).collect();
            vec![
                format!(
                    "trial {} of {}, the compromise: {}{at}, {spent}",
                    trial.number,
                    spec.name,
                    values.join(", ")
                ),
                format!("{}: `hpsearch trials` marks them", front_in_words(front)),
            ]
        }
    };
    if let Some(until) = trial.until.filter(|_| trial.continued.is_some()) {
        comments.push(format!(
            "it continues past its end, to {unit} {until}: these are its results so far"
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
        best.metrics.iter().filter(|(name, _)| !spec.is_objective(name)).collect();
    comments.extend(others.into_iter().map(|(name, value)| format!("{name} {}", number(value))));
    comments.push(match trial.checkpoint_of(step, &study.spec.program) {
        Some(checkpoint) if is_missing(&checkpoint.path) => {
            format!("no checkpoint: {} is gone", shown(&checkpoint.path))
        }
        Some(checkpoint) if Some(checkpoint.step) != step => format!(
            "checkpoint {}, of {unit} {}: the value's {unit} has none",
            shown(&checkpoint.path),
            checkpoint.step
        ),
        Some(checkpoint) => format!("checkpoint {}", shown(&checkpoint.path)),
        None => "no checkpoint".to_owned(),
    });
    if let Some((first, until)) = recipe::continued(spec, trial, step) {
        comments.push(recipe::not_the_same(spec.step, first));
        comments.push(format!("it is trained until {unit} {until}, whatever length is below"));
    }
    if let Some(last) = of_last_stage(spec, trial, stages) {
        comments.push(last);
        comments.extend(stages.iter().map(|stage| format!("schedule: {stage}")));
    }
    // A multi-line command cannot be a comment.
    let command = command(spec, trial).filter(|command| !command.contains('\n'));
    comments.extend(command.map(|command| format!("command: {command}")));
    for comment in comments {
        writeln!(console.out, "# {}", one_line(&comment))?;
    }
    print_toml(shown_params(spec, trial), console)
}
