//! `hpsearch export`: the best trial as a directory that is ready for use.

use std::path::{Path, PathBuf};

use clap::Args;

use super::best::{checkpoint_of_value, value_step};
use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::halving::halving;
use super::named_study;
use super::waiting::Waiting;
use super::winner;
use crate::arguments::RowsAtOnce;
use crate::config::full_trial;
use crate::event::Event;
use crate::export::{self, ExportError, Exported, Quantized, Recipe};
use crate::metric::Metrics;
use crate::paths;
use crate::pruners;
use crate::query::{SortKey, TrialQuery};
use crate::reporters::wording::{bytes, number};
use crate::runner::process::own_program;
use crate::runner::{self, errand};
use crate::storage::{Storage, StorageReader, StoredStudy, StudySummary};
use crate::study::{Milestones, Program, Quantize, StudySpec};
use crate::trial::{Trial, TrialNumber};
use crate::wire::Job;

/// What `hpsearch export` is told.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hpsearch export digits -o model\n  hpsearch export digits -o model --trial 7\n  hpsearch export digits -o small --quantize int8"
)]
pub struct ExportArguments {
    /// The study's name or file
    pub study: Option<String>,
    /// The directory to write
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Another trial than the best one
    #[arg(long, value_name = "N")]
    pub trial: Option<u64>,
    /// Smaller weights, for hpsearch only: int8, with a scale for each channel
    #[arg(long, value_name = "FORMAT", value_parser = quantize)]
    pub quantize: Option<Quantize>,
}

fn quantize(word: &str) -> Result<Quantize, String> {
    Quantize::parse(word).ok_or_else(|| format!("weights can be written as {}", Quantize::WORDS.join(", ")))
}

/// What is said while a checkpoint is copied.
pub const COPYING: &str = "copying the checkpoint";

/// Exports it.
pub fn export(arguments: &ExportArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let study = named_study::find(&reader, arguments.study.as_deref())?;
    let quantize = arguments.quantize.or(study.spec.export.quantize);
    export_trial(&reader, &study, arguments.trial.map(TrialNumber), quantize, &arguments.output, console)?;
    Ok(Exit::Done)
}

/// Exports the best trial, or the one asked for, to `directory`.
pub fn export_trial(
    reader: &dyn StorageReader,
    study: &StudySummary,
    asked: Option<TrialNumber>,
    quantize: Option<Quantize>,
    directory: &Path,
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    let wanted = asked.or(study.best.map(|(best, _)| best));
    let Some(wanted) = wanted else {
        return Err(Failure::new(Exit::NoCompletedTrial, format!("study `{}` has no complete trial yet", spec.name))
            .help("`hpsearch trials` shows how far it is"));
    };
    let Some(trial) = reader.trial(study.id, wanted)? else {
        return Err(Failure::usage(format!("study `{}` has no trial {wanted}", spec.name)).help("`hpsearch trials --sort number` lists them"));
    };
    let step = value_step(spec, &trial);
    let checkpoint = checkpoint_of_value(&trial, step).map(|checkpoint| checkpoint.path.clone());
    if checkpoint.is_none() && matches!(spec.program, Program::Trainer { .. }) {
        let why = format!("trial {wanted} has no checkpoint any more (`[checkpoints] keep` says which stay)");
        return Err(Failure::usage(why).help("export the best trial, or set keep = \"all\" before a study"));
    }
    if quantize.is_some() && !matches!(spec.program, Program::Trainer { .. }) {
        let why = format!("study `{}` runs a command, and only the built-in trainer's weights can be quantised", spec.name);
        return Err(Failure::usage(why).help("export it without `quantize`"));
    }
    let reports = reader.reports(study.id, wanted)?;
    let mut metrics: Metrics = reports.into_iter().filter(|(_, at, _)| Some(*at) == step).map(|(name, _, value)| (name, value)).collect();
    let small = match (quantize, &checkpoint) {
        (Some(format), Some(checkpoint)) => Some(Small::new(spec, &trial, checkpoint, format, directory, console)?),
        _ => None,
    };
    match &small {
        Some(small) => metrics.0.extend(small.after.0.clone()),
        None => metrics.0.extend(test_metrics(reader, study, &trial, checkpoint.as_deref(), console)?.0),
    }
    let exported = Exported {
        spec,
        trial: &trial,
        checkpoint: small.as_ref().map(|small| small.directory.as_path()).or(checkpoint.as_deref()),
        step,
        metrics,
        recipe: Recipe::of(spec, &trial, step, milestones(spec))?,
        leaders: leaders(reader, study)?,
        quantized: small.as_ref().map(|small| small.told.clone()),
    };
    let waiting = Waiting::start(COPYING, console);
    export::write(&exported, directory, &mut |done, of| waiting.at(COPYING, done, of))?;
    drop(waiting);
    let value = trial.value.map_or_else(String::new, |value| format!(" ({} {})", spec.objective().metric, number(value)));
    console.say(&format!("exported trial {wanted}{value} to {}", shown(directory)));
    if let Some(small) = &small {
        small.say(console);
    }
    for (name, value) in exported.metrics.iter().filter(|(name, _)| small.is_none() && name.starts_with("test_")) {
        console.say(&format!("  {name} {}", number(value)));
    }
    if matches!(spec.program, Program::Trainer { .. }) {
        console.say(&format!("`{} {} \"some text\"` uses it", exported.recipe.verb(), shown(directory)));
    }
    Ok(())
}

/// A checkpoint's model in fewer bits, in a directory of its own until it is exported.
struct Small {
    directory: PathBuf,
    told: Quantized,
    /// What was measured with the smaller weights.
    after: Metrics,
}

impl Small {
    /// Writes it beside `target`, and measures both on the test split, or where there is none on the validation split.
    fn new(spec: &StudySpec, trial: &Trial, checkpoint: &Path, format: Quantize, target: &Path, console: &Console) -> Result<Self, Failure> {
        let target = std::path::absolute(target)?;
        let directory = target.with_file_name(format!(".{}.small-{}", target.file_name().unwrap_or_default().to_string_lossy(), std::process::id()));
        let mut small = Self { directory, told: Quantized { format, before: Metrics::default(), bytes: [0; 2] }, after: Metrics::default() };
        let waiting = Waiting::start("quantising the weights", console);
        let job = Job::Quantize { checkpoint: checkpoint.to_owned(), target: small.directory.clone() };
        let answer = errand::run(&own_program(), job, &mut |progress| waiting.hear(&progress));
        drop(waiting);
        let answer = answer?.unwrap_or_default();
        small.told.bytes = ["before", "after"].map(|key| answer[key].as_u64().unwrap_or_default());
        small.told.before = measure(spec, trial, Some(checkpoint), OrValidation::Yes, console)?;
        small.after = measure(spec, trial, Some(&small.directory), OrValidation::Yes, console)?;
        Ok(small)
    }

    fn say(&self, console: &mut Console) {
        let [large, small] = self.told.bytes.map(bytes);
        console.say(&format!("  weights {small} instead of {large} ({})", self.told.format.word()));
        for (name, after) in self.after.iter() {
            let before = self.told.before.get(name).map_or_else(|| "unknown".to_owned(), number);
            console.say(&format!("  {name} {} ({before} before)", number(after)));
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _copied_or_of_no_use = std::fs::remove_dir_all(&self.directory);
    }
}

/// The test split is measured once: of the winner of a race it was when that was over.
fn test_metrics(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    checkpoint: Option<&Path>,
    console: &Console,
) -> Result<Metrics, Failure> {
    let race = winner::view(reader, study)?.and_then(|view| view.race);
    let measured = race.as_ref().and_then(|race| race.winner()).filter(|winner| winner.trial == trial.number).and_then(|winner| winner.test.clone());
    match measured {
        Some(measured) => Ok(measured),
        None => measure_on_test(&study.spec, trial, checkpoint, console),
    }
}

/// Measures the winner of the study's race on the test split, if that was not done, and writes it down.
pub fn test_winner(store: &mut dyn Storage, study: &StoredStudy, console: &Console) -> Result<(), Failure> {
    if study.spec.race == 0 {
        return Ok(());
    }
    let view = store.view(study.id)?;
    let Some(winner) = view.race.as_ref().and_then(|race| race.winner()).filter(|winner| winner.test.is_none()) else { return Ok(()) };
    let Some(trial) = view.trial(winner.trial) else { return Ok(()) };
    let checkpoint = checkpoint_of_value(trial, value_step(&study.spec, trial)).map(|checkpoint| checkpoint.path.clone());
    let metrics = measure_on_test(&study.spec, trial, checkpoint.as_deref(), console)?;
    if metrics.iter().next().is_none() {
        return Ok(());
    }
    let lease = runner::take_lease(store, study)?;
    let written = store.append(&lease, runner::now(), &[Event::WinnerTested { trial: winner.trial, metrics }]);
    store.release(&lease)?;
    written?;
    Ok(())
}

/// The study's best trials, for the model's card.
fn leaders(reader: &dyn StorageReader, study: &StudySummary) -> Result<Vec<Trial>, Failure> {
    const SHOWN: u64 = 10;
    let best = TrialQuery { limit: SHOWN, ..TrialQuery::all(SortKey::Value) };
    Ok(reader.trials(study.id, &best)?.into_iter().filter(|trial| trial.value.is_some()).collect())
}

/// Whether to look at the validation split where there is no test split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrValidation {
    Yes,
    No,
}

/// The test split is looked at here only: for the trial that was chosen.
fn measure_on_test(spec: &StudySpec, trial: &Trial, checkpoint: Option<&Path>, console: &Console) -> Result<Metrics, Failure> {
    let measured = measure(spec, trial, checkpoint, OrValidation::No, console)?;
    Ok(measured.iter().map(|(name, value)| (test_name(name), value)).collect())
}

/// What a checkpoint comes to on the test split.
fn measure(spec: &StudySpec, trial: &Trial, checkpoint: Option<&Path>, or: OrValidation, console: &Console) -> Result<Metrics, Failure> {
    let (Program::Trainer { arguments, data }, Some(checkpoint)) = (&spec.program, checkpoint) else { return Ok(Metrics::default()) };
    let mut values = arguments.clone();
    values.extend(trial.params.iter().map(|(name, value)| (name.to_owned(), value.to_json())));
    let store = std::path::absolute(&console.store)?;
    let usual = RowsAtOnce::that_may_be_halved(&values).map(|rows| RowsAtOnce { train: 1, ..rows });
    let cache = paths::data_cache(spec, &store);
    let waiting = Waiting::start("measuring on the test split", console);
    let answer = halving(usual, &waiting, |rows| {
        let job = Job::Evaluate {
            checkpoint: checkpoint.to_owned(),
            arguments: values.clone(),
            data: data.clone(),
            cache: cache.clone(),
            device: crate::device::Device::Cpu,
            or_validation: or == OrValidation::Yes,
            rows: rows.map(|rows| rows.eval),
        };
        errand::run(&own_program(), job, &mut |progress| waiting.hear(&progress))
    });
    drop(waiting);
    let answer = answer?.unwrap_or_default();
    Ok(serde_json::from_value(answer)?)
}

fn test_name(name: &str) -> String {
    let bare = name.strip_prefix("eval_").or_else(|| name.strip_prefix("test_")).unwrap_or(name);
    format!("test_{bare}")
}

pub fn milestones(spec: &StudySpec) -> Milestones {
    let budget = full_trial(spec);
    let pruner = pruners::find(&spec.pruner.name).ok().and_then(|entry| (entry.build)(&spec.pruner, budget).ok());
    pruner.map(|pruner| pruner.milestones(budget)).unwrap_or_default()
}

/// The directory that holds a file, for messages.
pub fn directory_of(file: &Path) -> PathBuf {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let exit = if matches!(error, ExportError::Format { .. }) { Exit::Internal } else { Exit::Usage };
        Failure::new(exit, error)
    }
}
