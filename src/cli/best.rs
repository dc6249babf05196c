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
use crate::export::recipe;
use crate::report::wording::{duration, micros, number, one_line, toml_key, toml_value};
use crate::storage::{StorageReader, StudySummary};
use crate::study::device::Device;
use crate::study::metric::{Metrics, Number};
use crate::study::params::Params;
use crate::study::spec::StudySpec;
use crate::study::state;
use crate::study::trial::{Trial, TrialState};

/// What `hpsearch best` is told.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hpsearch best digits\n  hpsearch best digits --json | jq .trial.params"
)]
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
    /// Where there is no checkpoint of the value's step: which one it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_step: Option<u64>,
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
        let nearest = trials.filter(broken).min_by(|a, b| {
            a.violation.unwrap_or(f64::MAX).total_cmp(&b.violation.unwrap_or(f64::MAX))
        });
        if let Some(nearest) = nearest {
            let name = one_line(&study.spec.name);
            let failure = Failure::new(
                Exit::NoCompletedTrial,
                format!(
                    "none of the {} complete trials of `{name}` keeps all limits",
                    study.counts.complete
                ),
            );
            let reason = one_line(nearest.reason.as_deref().unwrap_or_default());
            return Err(failure.help(format!("trial {} comes nearest: {reason}", nearest.number)));
        }
        let name = one_line(&study.spec.name);
        let why = match study.counts.complete {
            0 => format!("no trial of `{name}` is complete yet"),
            complete => format!(
                "none of the {complete} complete trials of `{name}` has a value: what they reported is NaN"
            ),
        };
        let failure = Failure::new(Exit::NoCompletedTrial, why);
        return Err(failure
            .help(format!("{} shows where they stand", console.next(&format!("trials {name}")))));
    };
    let runs = winner::view(&reader, &study)?.as_ref().and_then(winner::runs);
    let step = value_step(&study.spec, &trial);
    let reports = reader.reports(study.id, trial.number)?;
    let metrics: Metrics = reports
        .into_iter()
        .filter(|(_, at, _)| Some(*at) == step)
        .map(|(name, _, value)| (name, value))
        .collect();
    match OutputForm::from(arguments.json) {
        OutputForm::Json => {
            let json = json(&trial, metrics, step);
            let value = json.value.or_else(|| continued_value(&study, &trial).map(Number));
            let trial = BestTrialJson { runs: runs.as_ref().map(RunsJson::from), value, ..json };
            console.json(&Answer { version: VERSION, study: &study.spec.name, trial })?;
        }
        OutputForm::Text => print(&study, &trial, &metrics, step, runs.as_ref(), console)?,
    }
    Ok(Exit::Done)
}

/// The clock value of the report that is the trial's value.
pub fn value_step(spec: &StudySpec, trial: &Trial) -> Option<u64> {
    state::value_step(spec.value, spec.direction(), trial)
}

/// The value of the best trial where it goes on past its end, and so has none just now.
fn continued_value(study: &StudySummary, trial: &Trial) -> Option<f64> {
    study
        .best
        .filter(|(best, _)| trial.continued.is_some() && *best == trial.number)
        .map(|(_, value)| value)
}

fn json(trial: &Trial, metrics: Metrics, step: Option<u64>) -> BestTrialJson {
    let TrialJson {
        number,
        state,
        value,
        violation: _,
        last_value,
        last_step,
        params,
        device,
        seconds,
        attempts,
        reason,
        tags,
        notes,
    } = TrialJson::from(trial);
    let checkpoint = trial.checkpoint_of(step);
    let checkpoint_step =
        checkpoint.map(|checkpoint| checkpoint.step).filter(|held| Some(*held) != step);
    let checkpoint = checkpoint.map(|checkpoint| checkpoint.path.display().to_string());
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
        checkpoint_step,
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
    let value =
        trial.value.or_else(|| continued_value(study, trial)).map_or_else(String::new, number);
    let at = step.map_or_else(String::new, |step| format!(" at {} {step}", spec.step.as_str()));
    let spent = duration(micros(trial.busy_micros));
    let out = &mut console.out;
    writeln!(
        out,
        "# trial {} of {}: {} {value}{at}, {spent}",
        trial.number,
        one_line(&spec.name),
        one_line(&spec.objective().metric)
    )?;
    if let Some(until) = trial.until.filter(|_| trial.continued.is_some()) {
        writeln!(
            out,
            "# it goes on past its end, to {} {until}: this is what it has measured up to now",
            spec.step.as_str()
        )?;
    }
    if let Some(runs) = runs {
        writeln!(out, "# {}", runs.in_words())?;
        for (name, value) in runs.test.iter().flat_map(Metrics::iter) {
            writeln!(
                out,
                "# {} {} on the test split, measured once",
                one_line(name),
                number(value)
            )?;
        }
    }
    let others: BTreeMap<&str, f64> =
        metrics.iter().filter(|(name, _)| *name != spec.objective().metric).collect();
    for (name, value) in others {
        writeln!(out, "# {} {}", one_line(name), number(value))?;
    }
    match trial.checkpoint_of(step) {
        Some(checkpoint) if Some(checkpoint.step) != step => {
            let (path, clock, held) =
                (one_line(&shown(&checkpoint.path)), spec.step.as_str(), checkpoint.step);
            writeln!(
                out,
                "# checkpoint {path}, of {clock} {held}: there is none of the value's {clock}"
            )?;
        }
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
