//! `hpsearch best`: the best trial of a study, its parameters ready for a TOML file.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use serde::Serialize;

use super::OutputForm;
use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::trial_json::{NoteJson, TrialJson, VERSION};
use super::winner::{self, RunsJson};
use crate::app::{self, best::Best};
use crate::export::recipe;
use crate::report::wording::{duration, micros, number, one_line, toml_key, toml_value};
use crate::study::device::Device;
use crate::study::metric::{Metrics, Number};
use crate::study::params::Params;
use crate::study::spec::StudySpec;
use crate::study::trial::TrialState;

/// What `hpsearch best` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch best digits\n  hpsearch best digits --json | jq \
        .trial.params")]
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
    let (reader, study) = console.study(arguments.study.as_deref())?;
    let best = app::best::best(&reader, &study)?;
    match OutputForm::from(arguments.json) {
        OutputForm::Json => {
            let trial = BestTrialJson::from(&best);
            console.json(&Answer { version: VERSION, study: &study.spec.name, trial })?;
        }
        OutputForm::Text => print(&study.spec, &best, console)?,
    }
    Ok(Exit::Done)
}

impl From<&Best> for BestTrialJson {
    fn from(best: &Best) -> Self {
        let TrialJson {
            number,
            state,
            value: _,
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
        } = TrialJson::from(&best.trial);
        let checkpoint = best.trial.checkpoint_of(best.step);
        BestTrialJson {
            number,
            state,
            value: best.value.map(Number),
            last_value,
            last_step,
            params,
            device,
            seconds,
            attempts,
            reason,
            metrics: best.metrics.clone(),
            checkpoint: checkpoint.map(|checkpoint| checkpoint.path.display().to_string()),
            checkpoint_step: checkpoint
                .map(|checkpoint| checkpoint.step)
                .filter(|held| Some(*held) != best.step),
            tags,
            notes,
            runs: best.runs.as_ref().map(RunsJson::from),
        }
    }
}

/// Parameters as TOML; everything else as comments, so that the output is a TOML file.
fn print(spec: &StudySpec, best: &Best, console: &mut Console) -> Result<(), Failure> {
    let (trial, step) = (&best.trial, best.step);
    let value = best.value.map_or_else(String::new, number);
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
            "# it continues past its end, to {} {until}: this is what it has measured up to now",
            spec.step.as_str()
        )?;
    }
    if let Some(runs) = &best.runs {
        writeln!(out, "# {}", winner::in_words(runs))?;
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
        best.metrics.iter().filter(|(name, _)| *name != spec.objective().metric).collect();
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
