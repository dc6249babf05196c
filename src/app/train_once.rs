//! Trains a single model outside a study: of a `best.toml`, or of one configuration of a study
//! file.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::AppError;
use super::export::{milestones, write};
use super::worker_job::{OnProgress, Progress, at, halving};
use super::{inputs, prepare_data};
use crate::arguments::RowsAtOnce;
use crate::config::step_unit;
use crate::export::{Exported, Holds, Otherwise, Placed, Previous, Recipe, Target};
use crate::runner::protocol::{Cloned, MessageToRunner, TrainJob, TrialJob, WorkerJob};
use crate::runner::slot_environment::{gpu_environment, inside};
use crate::runner::slots::{MachineDevices, slots, tried};
use crate::runner::worker_job::{self, JobError};
use crate::study::metric::{Metrics, Score};
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::spec::{Objective, StudySpec, ValueRule};
use crate::study::statistics;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, Trial, TrialNumber, TrialState};

/// A model that was trained.
#[derive(Debug)]
pub struct Trained {
    /// Its value.
    pub value: f64,
    /// The directory.
    pub placed: Placed,
}

/// A report of the run, with the checkpoint saved before it.
struct Report {
    step: u64,
    value: f64,
    metrics: Metrics,
    checkpoint: Option<PathBuf>,
}

/// The recipe of one configuration of a study: its first `[[enqueue]]`, or the middle of its space,
/// on the first working device; also problems with other devices.
///
/// # Errors
/// The study runs a command, or no device works.
pub fn recipe_of_study(spec: &StudySpec) -> Result<(Recipe, Vec<String>), AppError> {
    if !matches!(spec.program, Program::Trainer { .. }) {
        return Err(AppError::NotOfTheTrainer);
    }
    let given = spec.enqueue.first().cloned().unwrap_or_default();
    let Ok(params) = spec
        .space
        .assemble(&given, |searched, _| Ok::<_, Infallible>(searched.distribution.from_unit(0.5)));
    let places =
        slots(&spec.devices, &spec.program, &MachineDevices::detect(&spec.devices.select))?;
    let (places, troubles) = tried(places, &spec.devices, &spec.program)?;
    let trial = Trial::new(TrialNumber(0), params, Origin::Enqueued(0), Timestamp(0));
    let of_trial = Recipe::of(spec, &trial, None, milestones(spec))?;
    let mut recipe = Recipe { trial: None, sampler: None, pruner: None, ..of_trial };
    if let Some(first) = places.into_iter().next() {
        recipe.device = first.devices.first().clone();
    }
    Ok((recipe, troubles))
}

/// Trains the model of `recipe` with its files in `scratch`, from the checkpoint `resume` of it if
/// there is one, and writes it to `target`; an earlier export there is set aside.
///
/// # Errors
/// The training failed or reported nothing, or its model cannot be written.
pub fn train(
    recipe: &Recipe,
    resume: Option<&Path>,
    scratch: &Path,
    target: &Target,
    on_progress: &mut OnProgress<'_>,
) -> Result<Trained, AppError> {
    // Whatever becomes of the directory meanwhile.
    let (own, given) = (scratch.join(".resumed"), resume);
    let resume = given.map(|checkpoint| link(checkpoint, &own).map(|()| &*own)).transpose();
    let resume = resume.map_err(|error| {
        JobError::Failed(format!("the checkpoint to resume from cannot be read: {error}"))
    })?;
    let digests = inputs::digests(&study_of(recipe), recipe.model().as_deref(), &[]);
    let mut reports =
        reports(recipe, resume, scratch, on_progress).map_err(|error| match (error, given) {
            (JobError::Failed(why), Some(given)) => {
                let [own, given] = [&own, given].map(|path| path.display().to_string());
                JobError::Failed(why.replace(&own, &given))
            }
            (error, _) => error,
        })?;
    let chosen = chosen(recipe, &reports).ok_or_else(|| AppError::NoReport {
        between_epochs: step_unit::loses_evaluations(&study_of(recipe)),
    })?;
    let mean = statistics::mean(reports.iter().map(|report| report.value));
    let Report { step, value, metrics, checkpoint } = reports.swap_remove(chosen);
    let value = mean.filter(|_| recipe.rule == ValueRule::Mean).unwrap_or(value);
    let checkpoint = checkpoint.ok_or_else(|| {
        let at = recipe.step_unit.at(step);
        JobError::Failed(format!("the evaluation at {at} has no checkpoint to export"))
    })?;
    let params = recipe.trained_params();
    let number = TrialNumber(recipe.trial.unwrap_or_default());
    let trial = Trial {
        state: TrialState::Complete,
        value: Some(value),
        devices: Some(recipe.device.clone().into()),
        ..Trial::new(number, params.clone(), Origin::Enqueued(0), Timestamp(0))
    };
    let again = |name: &String| Some((name.clone(), metrics.get(name)?));
    let values = recipe.values.keys().filter_map(again).collect();
    let exported = Exported {
        spec: &study_of(recipe),
        trial: &trial,
        checkpoint: Some(&checkpoint),
        step: Some(step),
        holds: Holds::Value,
        metrics,
        recipe: Recipe {
            value: Some(value).filter(|value| value.is_finite()),
            continued_after: None,
            values,
            params,
            digests,
            ..recipe.clone()
        },
        leaders: Vec::new(),
        quantized: None,
    };
    let rules = (Otherwise::Beside, Previous::SetAside);
    Ok(Trained { value, placed: write(&exported, target, rules, on_progress)? })
}

/// Makes a directory of links to the files of another one, or of copies where there are no links.
fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (one, other) = (entry.path(), to.join(entry.file_name()));
        if one.is_dir() {
            link(&one, &other)?;
        } else if fs::hard_link(&one, &other).is_err() {
            fs::copy(&one, &other)?;
        }
    }
    Ok(())
}

/// The index of the report whose model is exported.
fn chosen(recipe: &Recipe, reports: &[Report]) -> Option<usize> {
    match recipe.rule {
        // A schedule ends at the step of its value.
        _ if !recipe.schedule.is_empty() => reports.len().checked_sub(1),
        ValueRule::Last | ValueRule::Mean => reports.len().checked_sub(1),
        ValueRule::Best => (0..reports.len())
            .min_by_key(|index| Score::new(recipe.direction, reports[*index].value)),
    }
}

/// Removes the checkpoints in `scratch` of reports that will not be exported, except the newest.
fn remove_superseded(
    reports: &mut [Report],
    recipe: &Recipe,
    newest: Option<&Path>,
    scratch: &Path,
) {
    let chosen = chosen(recipe, reports);
    for (_, report) in reports.iter_mut().enumerate().filter(|(at, _)| Some(*at) != chosen) {
        let is_superseded = |path: &PathBuf| path.starts_with(scratch) && Some(&**path) != newest;
        if let Some(path) = report.checkpoint.take_if(|path| is_superseded(path)) {
            let _with_the_scratch = remove_checkpoint(&path);
        }
    }
}

/// Removes a checkpoint under a hidden name: one that is removed in part when the process is killed
/// is not taken for the newest complete one.
fn remove_checkpoint(path: &Path) -> io::Result<()> {
    let mut hidden = OsString::from(".");
    hidden.push(path.file_name().unwrap_or_default());
    hidden.push(".old");
    let hidden = path.with_file_name(hidden);
    fs::rename(path, &hidden)?;
    fs::remove_dir_all(hidden)
}

fn reports(
    recipe: &Recipe,
    resume: Option<&Path>,
    scratch: &Path,
    on_progress: &mut OnProgress<'_>,
) -> Result<Vec<Report>, JobError> {
    prepare(recipe, scratch, on_progress)?;
    let mut run = Run { newest: resume.map(Path::to_owned), ..Run::default() };
    if recipe.schedule.is_empty() {
        run.train(recipe, job(recipe, scratch), on_progress)?;
    }
    for (index, stage) in recipe.schedule.iter().enumerate() {
        let (mut train, environment) = job(recipe, scratch);
        // Other parameters may be active in the last stage.
        train.arguments.retain(|name, _| recipe.params.get(name).is_none());
        let params = stage.params.iter();
        train.arguments.extend(params.map(|(name, value)| (name.to_owned(), value.to_json())));
        train.trial.seed = stage.seed;
        train.until = Some(stage.end);
        // Its checkpoint is of the stage before, which had other arguments.
        run.before = index.checked_sub(1).map(|before| recipe.schedule[before].trial);
        run.train(recipe, (train, environment), on_progress)?;
    }
    Ok(run.reports)
}

/// Prepares the data for the training, and says what is noteworthy about it and the model.
fn prepare(
    recipe: &Recipe,
    scratch: &Path,
    on_progress: &mut OnProgress<'_>,
) -> Result<(), JobError> {
    let (TrainJob { arguments, data, cache, .. }, _) = job(recipe, scratch);
    let job = WorkerJob::Prepare { arguments, data, cache, others: Vec::new() };
    let answer = super::worker_job::run("preparing the data", job, on_progress)?;
    for finding in prepare_data::findings(&answer, &study_of(recipe)) {
        on_progress(Progress::Finding(&finding));
    }
    Ok(())
}

/// A training, stage by stage.
#[derive(Default)]
struct Run {
    reports: Vec<Report>,
    newest: Option<PathBuf>,
    /// The trial of the stage before, until the present one has a checkpoint.
    before: Option<u64>,
}

impl Run {
    fn train(
        &mut self,
        recipe: &Recipe,
        (train, environment): (TrainJob, BTreeMap<String, String>),
        on_progress: &mut OnProgress<'_>,
    ) -> Result<(), JobError> {
        let Run { reports, newest, before } = self;
        let scratch = &train.trial.directory.clone();
        // The first report of a resumed training may be that of its checkpoint.
        let (mut saved, mut refused) = (newest.clone(), None);
        let usual = RowsAtOnce::that_may_be_halved(&train.arguments);
        on_progress(Progress::Began("training"));
        halving(usual, on_progress, |rows_at_once, on_progress| {
            let mut train = TrainJob {
                rows_at_once,
                reported: reports.last().map(|report: &Report| report.step),
                ..train.clone()
            };
            train.trial.resume.clone_from(newest);
            let from = before.filter(|_| newest.is_some()).map(TrialNumber);
            train.trial.cloned = from.map(|from| Cloned { from, digest: None });
            worker_job::run(WorkerJob::Train(train), &environment, &mut |said| {
                match said {
                    MessageToRunner::Checkpoint { path, .. } => {
                        *newest = Some(path.clone());
                        *before = None;
                        saved = Some(path);
                    }
                    MessageToRunner::Points { step: Some(step), metrics, .. } => {
                        let logged = (metrics.get("loss"), metrics.get("learning_rate"));
                        if let (Some(loss), Some(learning_rate)) = logged {
                            on_progress(Progress::Logged { step, loss, learning_rate });
                        }
                    }
                    MessageToRunner::Report { step, metrics } => {
                        let Some(value) = metrics.get(&recipe.metric) else {
                            return ControlFlow::Continue(());
                        };
                        let (step_unit, metric) =
                            (recipe.step_unit.as_str(), recipe.metric.as_str());
                        on_progress(Progress::Report { step_unit, step, metric, value });
                        reports.push(Report { step, value, metrics, checkpoint: saved.take() });
                        remove_superseded(reports, recipe, newest.as_deref(), scratch);
                    }
                    MessageToRunner::StartsOver { why, .. } => {
                        refused = Some(why);
                        return ControlFlow::Break(());
                    }
                    other => return at(&other, on_progress),
                }
                ControlFlow::Continue(())
            })
        })?;
        refused.map_or(Ok(()), |why| {
            Err(JobError::Failed(format!("the training cannot resume: {why}")))
        })
    }
}

/// Runs a diagnostic of the training of `recipe` in a worker; returns its answer.
///
/// # Errors
/// The training failed.
pub fn look(
    what: &str,
    recipe: &Recipe,
    scratch: &Path,
    of: impl FnOnce(TrainJob) -> WorkerJob,
    on_progress: &mut OnProgress<'_>,
) -> Result<Json, JobError> {
    let (train, environment) = job(recipe, scratch);
    on_progress(Progress::Began(what));
    let on_progress = &mut |said| at(&said, on_progress);
    let answer = worker_job::run(of(train), &environment, on_progress);
    answer.map(Option::unwrap_or_default)
}

/// The training job for a process that sees only its device, and its environment.
fn job(recipe: &Recipe, scratch: &Path) -> (TrainJob, BTreeMap<String, String>) {
    let trial = TrialJob {
        study: recipe.study.clone(),
        trial: TrialNumber(recipe.trial.unwrap_or_default()),
        cloned: None,
        attempt: AttemptNumber(0),
        params: Params::new(),
        device: inside(&recipe.device),
        seed: recipe.seed,
        cpu_threads: 1,
        directory: scratch.to_owned(),
        resume: None,
        objectives: vec![recipe.metric.clone()],
        store: PathBuf::new(),
    };
    let train = TrainJob {
        trial,
        arguments: recipe.trainer_arguments(),
        data: recipe.data_arguments(),
        cache: scratch.join("data"),
        monitored: Objective::new(&recipe.metric, recipe.direction),
        step_unit: recipe.step_unit,
        milestones: recipe.milestones.clone(),
        rows_at_once: None,
        until: None,
        reported: None,
        in_population: false,
        is_watched: true,
    };
    (train, gpu_environment(&recipe.device.clone().into()))
}

fn study_of(recipe: &Recipe) -> StudySpec {
    let program =
        Program::Trainer { arguments: recipe.trainer_arguments(), data: recipe.data_arguments() };
    let mut spec =
        StudySpec::new(&recipe.study, &recipe.metric, recipe.direction, Space::default(), program);
    spec.value = recipe.rule;
    spec.step = recipe.step_unit;
    spec
}
