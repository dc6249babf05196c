//! `hpsearch best`: the best trial of a study, its parameters ready for a TOML file.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::OutputForm;
use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::named_study;
use super::trial_json::{NoteJson, TrialJson, VERSION};
use super::winner::{self, Runs, RunsJson};
use crate::checkpoint::Checkpoint;
use crate::device::Device;
use crate::export::recipe;
use crate::metric::{Metrics, Number};
use crate::params::Params;
use crate::reporters::wording::{duration, micros, number, one_line, toml_key, toml_value};
use crate::storage::{StorageReader, StudySummary};
use crate::study::StudySpec;
use crate::trial::{Trial, TrialState};
use crate::view;

/// What `hpsearch best` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch best digits\n  hpsearch best digits --json | jq .trial.params")]
pub struct BestArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    study: &'a str,
    trial: BestTrialJson,
}

/// A trial with its metrics and its checkpoint.
#[derive(Serialize)]
struct BestTrialJson {
    number: u64,
    state: TrialState,
    value: Option<Number>,
    last_value: Option<Number>,
    last_step: Option<u64>,
    params: Params,
    device: Option<Device>,
    seconds: f64,
    attempts: u32,
    reason: Option<String>,
    metrics: Metrics,
    checkpoint: Option<String>,
    tags: Vec<String>,
    notes: Vec<NoteJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<RunsJson>,
}

/// Prints the best trial.
pub fn best(arguments: &BestArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let study = named_study::find(&reader, arguments.study.as_deref())?;
    let trial = match study.best {
        Some((best, _)) => reader.trial(study.id, best)?,
        None => None,
    };
    let Some(trial) = trial else {
        let broken = |trial: &&Trial| trial.violation.is_some();
        let view = if study.counts.complete > 0 { Some(reader.view(study.id)?) } else { None };
        let trials = view.iter().flat_map(|view| &view.trials);
        let nearest = trials.filter(broken).min_by(|a, b| a.violation.unwrap_or(f64::MAX).total_cmp(&b.violation.unwrap_or(f64::MAX)));
        if let Some(nearest) = nearest {
            let name = one_line(&study.spec.name);
            let failure =
                Failure::new(Exit::NoCompletedTrial, format!("none of the {} complete trials of `{name}` keeps all limits", study.counts.complete));
            let reason = one_line(nearest.reason.as_deref().unwrap_or_default());
            return Err(failure.help(format!("trial {} comes nearest: {reason}", nearest.number)));
        }
        let failure = Failure::new(Exit::NoCompletedTrial, format!("no trial of `{}` is complete yet", one_line(&study.spec.name)));
        return Err(failure.help("`hpsearch trials` shows where they stand"));
    };
    let runs = winner::view(&reader, &study)?.as_ref().and_then(winner::runs);
    let step = value_step(&study.spec, &trial);
    let reports = reader.reports(study.id, trial.number)?;
    let metrics: Metrics = reports.into_iter().filter(|(_, at, _)| Some(*at) == step).map(|(name, _, value)| (name, value)).collect();
    match OutputForm::from(arguments.json) {
        OutputForm::Json => {
            let trial = BestTrialJson { runs: runs.as_ref().map(RunsJson::from), ..json(&trial, metrics, step) };
            console.json(&Answer { version: VERSION, study: &study.spec.name, trial })?;
        }
        OutputForm::Text => print(&study, &trial, &metrics, step, runs.as_ref(), console)?,
    }
    Ok(Exit::Done)
}

/// The clock value of the report that is the trial's value.
pub fn value_step(spec: &StudySpec, trial: &Trial) -> Option<u64> {
    view::value_step(spec.value, spec.direction(), trial)
}

/// The checkpoint of the trial's value, else its newest.
pub fn checkpoint_of_value(trial: &Trial, step: Option<u64>) -> Option<&Checkpoint> {
    trial.checkpoints.iter().find(|checkpoint| Some(checkpoint.step) == step).or_else(|| trial.checkpoints.last())
}

fn json(trial: &Trial, metrics: Metrics, step: Option<u64>) -> BestTrialJson {
    let TrialJson { number, state, value, violation: _, last_value, last_step, params, device, seconds, attempts, reason, tags, notes } =
        TrialJson::from(trial);
    let checkpoint = checkpoint_of_value(trial, step).map(|checkpoint| checkpoint.path.display().to_string());
    BestTrialJson {
        number,
        state,
        value,
        last_value,
        last_step,
        params,
        device,
        seconds,
        attempts,
        reason,
        metrics,
        checkpoint,
        tags,
        notes,
        runs: None,
    }
}

/// Parameters as TOML; everything else as comments, so that the output is a TOML file.
fn print(
    study: &StudySummary,
    trial: &Trial,
    metrics: &Metrics,
    step: Option<u64>,
    runs: Option<&Runs>,
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    let value = trial.value.map_or_else(String::new, number);
    let at = step.map_or_else(String::new, |step| format!(" at {} {step}", spec.step.as_str()));
    let spent = duration(micros(trial.busy_micros));
    let out = &mut console.out;
    writeln!(out, "# trial {} of {}: {} {value}{at}, {spent}", trial.number, one_line(&spec.name), one_line(&spec.objective().metric))?;
    if let Some(runs) = runs {
        writeln!(out, "# {}", runs.in_words())?;
        for (name, value) in runs.test.iter().flat_map(Metrics::iter) {
            writeln!(out, "# {} {} on the test split, measured once", one_line(name), number(value))?;
        }
    }
    let others: BTreeMap<&str, f64> = metrics.iter().filter(|(name, _)| *name != spec.objective().metric).collect();
    for (name, value) in others {
        writeln!(out, "# {} {}", one_line(name), number(value))?;
    }
    match checkpoint_of_value(trial, step) {
        Some(checkpoint) => writeln!(out, "# checkpoint {}", one_line(&shown(&checkpoint.path)))?,
        None => writeln!(out, "# no checkpoint")?,
    }
    if let Some((first, until)) = recipe::continued(spec, trial, step) {
        writeln!(out, "# {}", recipe::not_the_same(spec.step, first))?;
        writeln!(out, "# its length: {} {until}, whatever stands below", spec.step.as_str())?;
    }
    for (name, value) in trial.params.iter() {
        writeln!(out, "{} = {}", toml_key(name), toml_value(value))?;
    }
    Ok(())
}
