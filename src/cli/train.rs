//! `hpsearch train`: trains the model of a `best.toml` again, or one configuration of a study file, or only looks whether it would learn.

mod probe;
mod profile;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::export::{COPYING, directory_of, milestones, tell_placed};
use super::halving::halving;
use super::output_file::refuse_inputs;
use super::waiting::Waiting;
use crate::arguments::RowsAtOnce;
use crate::config;
use crate::export::{self, Draft, Exported, Holds, Needed, Otherwise, Purpose, Recipe, Target};
use crate::report::wording::number;
use crate::runner::errand::{self, Progress};
use crate::runner::process::{gpu_environment, inside, own_program};
use crate::runner::protocol::{Job, TrainJob, TrialJob};
use crate::runner::slots::{Machine, slots, tried};
use crate::study::metric::{Metrics, Score};
use crate::study::params::Params;
use crate::study::space::Space;
use crate::study::spec::{Program, StudySpec, ValueRule};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, Trial, TrialNumber, TrialState};

/// What `hpsearch train` is told.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hpsearch train best.toml -o model\n  hpsearch train study.toml --set trainer.learning_rate=3e-4\n  hpsearch train study.toml --find-lr\n  hpsearch train study.toml --overfit-one-batch --steps 200\n  hpsearch train study.toml --profile 20"
)]
pub struct TrainArguments {
    /// A best.toml, as `export` writes it, or a study file: its first [[enqueue]] or the middle of its space
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Override a key of a study file, as often as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
    /// Only test whether the model can overfit one batch
    #[arg(long, conflicts_with = "find_lr")]
    pub overfit_one_batch: bool,
    /// Only run a learning-rate range test: rising rates, to see which work
    #[arg(long)]
    pub find_lr: bool,
    /// Only profile N steps: the time of each phase and layer
    #[arg(long, value_name = "N", conflicts_with_all = ["overfit_one_batch", "find_lr"], value_parser = clap::value_parser!(u32).range(1..))]
    pub profile: Option<u32>,
    /// The file for the profile's trace, which chrome://tracing and Perfetto show
    #[arg(long, value_name = "FILE", default_value = "trace.json", requires = "profile")]
    pub trace: PathBuf,
    /// Optimiser steps to try
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(10..))]
    pub steps: u32,
    /// The directory to write; without it `trained` beside the file, or
    /// DIR-trained for the best.toml of an export DIR
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// A report of the run, with the checkpoint saved before it.
struct Report {
    step: u64,
    value: f64,
    metrics: Metrics,
    checkpoint: Option<PathBuf>,
}

/// Trains it.
pub fn train(arguments: &TrainArguments, console: &mut Console) -> Result<Exit, Failure> {
    let recipe = read(arguments, console)?;
    for file in recipe.changed_files() {
        console.say(&format!(
            "warning: `{}` is not what it was when this was written: the result may differ",
            file.display()
        ));
    }
    if arguments.profile.is_some() {
        let data = recipe.data.values().filter_map(toml::Value::as_str).map(PathBuf::from);
        refuse_inputs(
            &arguments.trace,
            data.chain([arguments.file.clone()]).chain(console.store_files()),
        )?;
    }
    let target = target(arguments, console)?;
    let is_written =
        !arguments.overfit_one_batch && !arguments.find_lr && arguments.profile.is_none();
    if is_written {
        // What cannot be written in the end is not trained first.
        target.check()?;
    }
    fs::create_dir_all(directory_of(target.path()))?;
    let scratch = Draft::beside(target.path(), Purpose::Training)?;
    let scratch = scratch.path();
    match arguments {
        TrainArguments { overfit_one_batch: true, steps, .. } => {
            probe::one_batch(job(&recipe, scratch), *steps, console)
        }
        TrainArguments { profile: Some(steps), trace, .. } => {
            profile::profile(job(&recipe, scratch), *steps, trace, console)
        }
        TrainArguments { find_lr: true, steps, .. } => {
            probe::learning_rates(job(&recipe, scratch), *steps, console)
        }
        _ => train_in(&recipe, scratch, &target, console),
    }
}

/// Where the model goes.
fn target(arguments: &TrainArguments, console: &Console) -> Result<Target, Failure> {
    let directory = arguments
        .output
        .clone()
        .unwrap_or_else(|| export::default_beside(&directory_of(&arguments.file)));
    let mut needed = vec![
        (Needed::StudyFile, arguments.file.clone()),
        (Needed::CurrentDirectory, std::env::current_dir()?),
    ];
    needed.extend(console.store_files().map(|path| (Needed::Store, path)));
    Ok(Target::new(&directory, needed)?)
}

fn read(arguments: &TrainArguments, console: &mut Console) -> Result<Recipe, Failure> {
    let file = &arguments.file;
    let text = config::file::read_to_string(file).map_err(|error| {
        Failure::usage(format!("`{}` cannot be read: {error}", file.display()))
            .help("give a study file, or the best.toml that `hpsearch export STUDY -o DIR` writes into DIR")
    })?;
    // A best.toml names its study; a study file has a table of that name, or says nothing at all.
    let names_study = text
        .parse::<toml::Table>()
        .is_ok_and(|table| table.get("study").is_some_and(toml::Value::is_str));
    if !names_study {
        let checked = config::load_with_warnings(file, &arguments.set)?;
        console.warn(&checked.warnings);
        return of_study(&checked.spec, console);
    }
    if !arguments.set.is_empty() {
        return Err(Failure::usage("`--set` is for study files, and this is a best.toml")
            .help("edit the file: all its arguments are there"));
    }
    let recipe: Recipe = toml::from_str(&text).map_err(|error| {
        Failure::usage(format!("`{}` is not a best.toml: {error}", file.display()))
            .help("`hpsearch export STUDY -o DIR` writes DIR/best.toml")
    })?;
    if recipe.trainer.is_empty() {
        return Err(Failure::usage("this best.toml is of a command, not of the built-in trainer")
            .help("run its `command` with its `params` yourself"));
    }
    Ok(recipe)
}

/// One configuration of a study, on the first of its devices: its first `[[enqueue]]`, or the middle of its space.
fn of_study(spec: &StudySpec, console: &mut Console) -> Result<Recipe, Failure> {
    if !matches!(spec.program, Program::Trainer { .. }) {
        return Err(Failure::usage("this study runs a command, not the built-in trainer")
            .help("`hpsearch run` runs it"));
    }
    let given = spec.enqueue.first().cloned().unwrap_or_default();
    let Ok(params) = spec.space.assemble(&given, |searched, _| {
        Ok::<_, std::convert::Infallible>(searched.distribution.from_unit(0.5))
    });
    let mut view = crate::study::state::StudyView::new(spec);
    view.apply(
        Timestamp(0),
        &crate::study::event::Event::TrialCreated {
            trial: TrialNumber(0),
            params,
            origin: Origin::Enqueued(0),
        },
    );
    let places = slots(&spec.devices, &spec.program, &Machine::detect(&spec.devices.select))?;
    let (places, troubles) = tried(places, &spec.devices, &spec.program)?;
    troubles.iter().for_each(|trouble| console.say(&format!("warning: {trouble}")));
    let mut recipe = Recipe::of(spec, &view.trials.swap_remove(0), None, milestones(spec))?;
    if let Some(first) = places.into_iter().next() {
        recipe.device = first.device;
    }
    Ok(recipe)
}

fn train_in(
    recipe: &Recipe,
    scratch: &Path,
    target: &Target,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let mut reports: Vec<Report> = Vec::new();
    let (mut saved, mut newest) = (None, None);
    let train = job(recipe, scratch);
    let usual = RowsAtOnce::that_may_be_halved(&train.arguments);
    let waiting = Waiting::start("training", console);
    let trained = halving(usual, &waiting, |rows_at_once| {
        let mut train = TrainJob {
            rows_at_once,
            reported: reports.last().map(|report: &Report| report.step),
            ..train.clone()
        };
        train.trial.resume.clone_from(&newest);
        let (train, environment) = alone(train);
        errand::run_in(&own_program(), Job::Train(train), &environment, &mut |progress| {
            match progress {
                Progress::Checkpoint { path, .. } => {
                    newest = Some(path.clone());
                    saved = Some(path);
                }
                Progress::Report { step, metrics } => {
                    let Some(value) = metrics.get(&recipe.metric) else { return };
                    waiting.say(&format!(
                        "{} {step}: {} {}",
                        recipe.clock.as_str(),
                        recipe.metric,
                        number(value)
                    ));
                    reports.push(Report { step, value, metrics, checkpoint: saved.take() });
                }
                Progress::At { what, done, of } => waiting.at(&what, done, of),
                Progress::Line(_) | Progress::Text(_) => {}
            }
        })
    });
    drop(waiting);
    trained?;
    let chosen = match recipe.rule {
        ValueRule::Last => reports.last(),
        ValueRule::Best => {
            reports.iter().min_by_key(|report| Score::new(recipe.direction, report.value))
        }
    };
    let Some(report) = chosen else {
        return Err(Failure::new(Exit::NoCompletedTrial, "the training reported no value")
            .help("its `[trainer]` arguments must let it evaluate once: look at num_train_epochs, max_steps and eval_strategy"));
    };
    let spec = study_of(recipe);
    let trial = trial_of(recipe, report.value);
    let exported = Exported {
        spec: &spec,
        trial: &trial,
        checkpoint: report.checkpoint.as_deref(),
        step: Some(report.step),
        holds: Holds::Value,
        metrics: report.metrics.clone(),
        recipe: Recipe {
            value: Some(report.value).filter(|value| value.is_finite()),
            continued_after: None,
            ..recipe.clone()
        },
        leaders: Vec::new(),
        quantized: None,
    };
    let waiting = Waiting::start(COPYING, console);
    let placed = export::write(&exported, target, Otherwise::Beside, &mut |done, of| {
        waiting.at(COPYING, done, of)
    })?;
    drop(waiting);
    let compared = match recipe.value {
        Some(before) if recipe.continued_after.is_some() => {
            format!("; the trial that was continued had {}", number(before))
        }
        Some(before) if before == report.value => ", as before".to_owned(),
        Some(before) => format!("; it was {} before", number(before)),
        None => String::new(),
    };
    console.say(&format!(
        "{} {}{compared}; written to {}",
        recipe.metric,
        number(report.value),
        shown(&placed.directory)
    ));
    tell_placed(&placed, console);
    Ok(Exit::Done)
}

/// A training for a process that sees its device alone, and the environment that says so.
fn alone(mut train: TrainJob) -> (TrainJob, BTreeMap<String, String>) {
    let environment = gpu_environment(&train.trial.device);
    train.trial.device = inside(&train.trial.device);
    (train, environment)
}

fn job(recipe: &Recipe, scratch: &Path) -> TrainJob {
    let trial = TrialJob {
        study: recipe.study.clone(),
        trial: TrialNumber(recipe.trial),
        attempt: AttemptNumber(0),
        params: Params::new(),
        device: recipe.device.clone(),
        seed: recipe.seed,
        cpu_threads: 1,
        directory: scratch.to_owned(),
        resume: None,
        metric: recipe.metric.clone(),
        store: PathBuf::new(),
    };
    TrainJob {
        trial,
        arguments: recipe.trainer_arguments(),
        data: recipe.data_arguments(),
        cache: scratch.join("data"),
        direction: recipe.direction,
        clock: recipe.clock,
        milestones: recipe.milestones.clone(),
        rows_at_once: None,
        until: None,
        reported: None,
        is_watched: true,
    }
}

fn study_of(recipe: &Recipe) -> StudySpec {
    let program =
        Program::Trainer { arguments: recipe.trainer_arguments(), data: recipe.data_arguments() };
    let mut spec =
        StudySpec::new(&recipe.study, &recipe.metric, recipe.direction, Space::default(), program);
    spec.value = recipe.rule;
    spec.step = recipe.clock;
    spec
}

fn trial_of(recipe: &Recipe, value: f64) -> Trial {
    let mut view = crate::study::state::StudyView::new(&study_of(recipe));
    let created = crate::study::event::Event::TrialCreated {
        trial: TrialNumber(0),
        params: recipe.params.clone(),
        origin: Origin::Enqueued(0),
    };
    view.apply(Timestamp(0), &created);
    let mut trial = view.trials.swap_remove(0);
    trial.number = TrialNumber(recipe.trial);
    trial.state = TrialState::Complete;
    trial.value = Some(value);
    trial.device = Some(recipe.device.clone());
    trial
}
