//! Exports a trial as a directory that is ready for use, and evaluates its model on the test split.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::best::{self, state_of_runs, value_step};
use super::evaluate::Evaluated;
use super::worker_job::{self, OnProgress, Progress, halving};
use super::{AppError, checkpoint_step, find, inputs};
use crate::arguments::{PRETRAINED, RowsAtOnce};
use crate::config::full_trial;
use crate::export::{
    self, Draft, ExportError, Exported, Holds, Needed, Obstacle, Otherwise, Placed, Previous,
    Purpose, Quantized, Recipe, SavedBy, Target,
};
use crate::pruners;
use crate::runner;
use crate::runner::protocol::WorkerJob;
use crate::storage::paths::{self, store_files};
use crate::storage::{Storage, StorageError, StorageReader, StoredStudy, StudyId, StudySummary};
use crate::study::checkpoint::Checkpoint;
use crate::study::device::Device;
use crate::study::event::{Event, FinalistsEvent};
use crate::study::metric::Metrics;
use crate::study::program::Program;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::schedule::{Stage, schedule};
use crate::study::spec::{Milestones, Quantize, StudySpec};
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// The directory to which a study may be exported; `file` is the study's, `known` the stored study,
/// if there is one, `store` the store's absolute path.
///
/// # Errors
/// It contains something that is needed, or is inside something that will be removed.
pub fn target(
    directory: &Path,
    spec: &StudySpec,
    file: Option<&Path>,
    known: Option<(&dyn StorageReader, StudyId)>,
    store: &Path,
) -> Result<Target, AppError> {
    let files = paths::files_directory(spec, store);
    let mut needed: Vec<(Needed, PathBuf)> =
        store_files(store).map(|path| (Needed::Store, path)).into();
    needed.extend(file.map(|file| (Needed::StudyFile, file.to_owned())));
    if let Program::Trainer { arguments, .. } = &spec.program {
        let models = arguments.get(PRETRAINED).and_then(Json::as_str).map(PathBuf::from);
        needed.extend(models.filter(|path| path.is_dir()).map(|path| (Needed::Model, path)));
    }
    needed.push((Needed::CurrentDirectory, std::env::current_dir()?));
    let trials = match known {
        Some((reader, study)) => reader.summary(study)?.files(store).directory(),
        None => paths::StudyFiles::of(spec, None, store).directory(),
    };
    needed.extend([trials, paths::data_cache(spec, store)].map(|path| (Needed::TrialFiles, path)));
    needed.extend(with_trials(&files).map(|path| (Needed::TrialFiles, path)));
    needed.push((Needed::Files, files));
    if let Some((reader, study)) = known {
        needed.extend(
            reader
                .checkpoints(study)?
                .into_iter()
                .map(|(_, checkpoint)| (Needed::Checkpoint, checkpoint.path)),
        );
    }
    Ok(Target::new(directory, needed)?)
}

/// Directories of studies, including other stores': files in them may be mistaken for a trial's.
fn with_trials(files: &Path) -> impl Iterator<Item = PathBuf> {
    let inside = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let is_trial = |entry: fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with("trial-"))
            && entry.path().is_dir()
    };
    inside(files).map(|entry| entry.path()).filter(move |path| inside(path).any(is_trial))
}

/// Checks before the first trial whether a study can be exported to its configured directory. An
/// edited export does not prevent a run: the export at the end is then written beside it, for the
/// returned reason.
///
/// # Errors
/// The export could not be written.
pub fn check_target(
    spec: &StudySpec,
    file: &Path,
    known: Option<(&dyn StorageReader, StudyId)>,
    store: &Path,
) -> Result<Option<ExportError>, AppError> {
    let Some(directory) = spec.export.dir.as_ref().filter(|_| spec.export.on_finish) else {
        return Ok(None);
    };
    let checked = target(directory, spec, Some(file), known, store)
        .and_then(|target| target.check().map_err(AppError::Export));
    match checked {
        Ok(()) => Ok(None),
        Err(AppError::Export(
            edited @ ExportError::Occupied {
                why: Obstacle::Unknown(_) | Obstacle::Changed(_), ..
            },
        )) if known.is_some() => Ok(Some(edited)),
        Err(AppError::Export(error)) => Err(AppError::ExportAtTheEnd(error)),
        Err(error) => Err(error),
    }
}

/// What to export, and how.
#[derive(Clone, Copy, Debug)]
pub struct ExportOptions<'a> {
    /// The trial; `None`: the best one.
    pub trial: Option<TrialNumber>,
    /// The quantization.
    pub quantize: Option<Quantize>,
    /// The directory.
    pub target: &'a Target,
    /// What to do if it exists.
    pub otherwise: Otherwise,
}

/// An export that was written.
#[derive(Debug)]
pub struct WrittenExport {
    /// Its trial.
    pub trial: Trial,
    /// The step of the trial's value.
    pub step: Option<u64>,
    /// The step that the checkpoint holds.
    pub holds: Holds,
    /// The value at the checkpoint's step.
    pub value: Option<f64>,
    /// Whether it includes a model, besides the configuration.
    pub has_model: bool,
    /// The step of the value, if its checkpoint was saved and then removed.
    pub removed: Option<u64>,
    /// Without a model, those of the best trials that have one.
    pub others: Vec<TrialNumber>,
    /// The metrics.
    pub metrics: Metrics,
    /// Data that changed since the trial was trained, or is gone, where something would have been
    /// measured on it.
    pub changed_data: Vec<PathBuf>,
    /// The loss due to quantization.
    pub quantized: Option<Quantized>,
    /// The verb that uses the model.
    pub verb: &'static str,
    /// The arguments of that verb behind the directory, as an example.
    pub example: &'static str,
    /// The study and the trial of the export that it replaced, if those are others.
    pub replaced: Option<(String, u64)>,
    /// The directory, and what happened to existing files.
    pub placed: Placed,
}

/// Exports a trial.
///
/// # Errors
/// There is no such trial, or it has no checkpoint; it cannot be evaluated or written.
pub fn export_trial(
    reader: &dyn StorageReader,
    study: &StudySummary,
    wanted: ExportOptions<'_>,
    store: &Path,
    on_progress: &mut OnProgress<'_>,
) -> Result<WrittenExport, AppError> {
    let spec = &study.spec;
    let number = wanted.trial.map_or_else(|| best::number(reader, study), Ok)?;
    let trial = find::trial(reader, study, number)?;
    let step = value_step(spec, &trial);
    let registered = trial.checkpoint_of(step, &spec.program);
    let is_trained = matches!(spec.program, Program::Trainer { .. });
    if let Some(Checkpoint { step, path, .. }) =
        registered.filter(|checkpoint| matches!(checkpoint.path.try_exists(), Ok(false)))
    {
        let (step, path, others) = (spec.step.at(*step), path.clone(), kept(reader, study)?);
        let saved_by = if is_trained { SavedBy::Trainer } else { SavedBy::Program };
        return Err(ExportError::Missing { trial: number, step, path, saved_by, others }.into());
    }
    let holds = registered.map_or(Ok(Holds::Value), |checkpoint| {
        checkpoint_step::holds(reader, study.id, spec, &trial, checkpoint, step)
    })?;
    let checkpoint = registered.map(|checkpoint| checkpoint.path.clone());
    if checkpoint.is_none() && is_trained {
        return Err(AppError::NoCheckpoint { trial: number, others: kept(reader, study)? });
    }
    if wanted.quantize.is_some() && !is_trained {
        return Err(AppError::NotQuantizable { study: spec.name.clone() });
    }
    let held = holds.step(step);
    let mut metrics = best::result_metrics(reader, study, &trial, held)?;
    let read = inputs::recorded(reader, study.id, number)?;
    let data = TestData { spec, trial: &trial, store, changed: inputs::changed_data(spec, &read) };
    let small = match (wanted.quantize, &checkpoint) {
        (Some(format), Some(checkpoint)) => {
            Some(Small::new(&data, checkpoint, format, wanted.target, on_progress)?)
        }
        _ => None,
    };
    let earlier = winner_metrics(reader, study, number)?;
    let is_measured = small.is_some() || (earlier.is_none() && data.has_test());
    metrics.0.extend(match (&small, earlier) {
        (Some(small), _) => small.after.0.clone(),
        (None, Some(earlier)) => earlier.0,
        (None, None) => data.measure_on_test(checkpoint.as_deref(), on_progress)?.0,
    });
    let changed_data = if is_measured { data.changed } else { Vec::new() };
    let mut exported = Exported {
        spec,
        trial: &trial,
        checkpoint: small.as_ref().map(|small| small.model.as_path()).or(checkpoint.as_deref()),
        step,
        holds,
        metrics,
        recipe: recipe(reader, study, &trial, held)?,
        leaders: leaders(reader, study)?,
        quantized: small.as_ref().map(|small| small.told.clone()),
    };
    let model = exported.recipe.model();
    exported.recipe.digests = inputs::digests(spec, model.as_deref(), &read);
    let first = || exported.metrics.get(&spec.objective().metric);
    let several = spec.has_several_objectives();
    let value = exported.held_value().or_else(|| several.then(first).flatten());
    exported.recipe.value = value.filter(|value| value.is_finite());
    if several {
        let names = spec.objective_names().into_iter();
        let known = names.filter_map(|name| Some((exported.metrics.get(&name)?, name)));
        let finite = known.filter(|(value, _)| value.is_finite());
        exported.recipe.values = finite.map(|(value, name)| (name, value)).collect();
    }
    let before = Recipe::of_export(wanted.target.path());
    let previous = match &before {
        Some(before) if !is_stored(reader, before)? => Previous::SetAside,
        _ => Previous::Removed,
    };
    let before = before.and_then(|before| Some((before.study, before.trial?)));
    let rules = (wanted.otherwise, previous);
    let placed = write(&exported, wanted.target, rules, on_progress)?;
    let others = match checkpoint {
        Some(_) => Vec::new(),
        None => kept(reader, study)?,
    };
    let is_gone = placed.kept.is_empty() && placed.set_aside.is_none();
    let is_replaced = placed.refused.is_none() && is_gone;
    let is_other = |(study, trial): &(String, u64)| *study != spec.name || *trial != number.0;
    let is_held = wanted.trial.is_none() || !trial.checkpoints.is_empty();
    let removed = if is_held { removed(reader, study, &trial, step)? } else { None };
    Ok(WrittenExport {
        removed,
        others,
        replaced: before.filter(|before| is_replaced && is_other(before)),
        step,
        holds,
        value,
        has_model: checkpoint.is_some(),
        verb: exported.recipe.verb(),
        example: exported.recipe.example(),
        metrics: exported.metrics,
        quantized: exported.quantized,
        changed_data,
        trial,
        placed,
    })
}

/// Whether the store has the trial of an earlier export, with its value: a study of the same name
/// in another store has others.
fn is_stored(reader: &dyn StorageReader, before: &Recipe) -> Result<bool, StorageError> {
    let (Some(study), Some(number)) = (reader.study(&before.study)?, before.trial) else {
        return Ok(false);
    };
    let Some(trial) = reader.trial(study.id, TrialNumber(number))? else { return Ok(false) };
    let has = |value: f64| {
        trial.value == Some(value) || trial.curve.iter().any(|(_, reported)| *reported == value)
    };
    Ok(!before.values.is_empty() || before.value.is_none_or(has))
}

/// The best trials, or those on the front of several objectives, that have a checkpoint.
fn kept(reader: &dyn StorageReader, study: &StudySummary) -> Result<Vec<TrialNumber>, AppError> {
    let best: Vec<TrialNumber> = match &study.front {
        Some(front) => front.trials.clone(),
        None => leaders(reader, study)?.iter().map(|trial| trial.number).collect(),
    };
    let mut kept = Vec::new();
    for number in best {
        let trial = find::trial(reader, study, number)?;
        let of_value = trial.checkpoint_of(value_step(&study.spec, &trial), &study.spec.program);
        kept.extend(of_value.filter(|saved| saved.path.exists()).map(|_| number));
    }
    Ok(kept)
}

/// The step of a trial's value, if the trial saved its checkpoint and it is gone, where hpsearch
/// keeps those of the best trials.
fn removed(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    step: Option<u64>,
) -> Result<Option<u64>, StorageError> {
    let rule = &study.spec.checkpoints;
    let is_kept = rule.keep_best != Some(0) && rule.max_disk.is_none();
    let is_there = |step: &u64| trial.checkpoints.iter().any(|saved| saved.step == *step);
    match step.filter(|step| is_kept && trial.state == TrialState::Complete && !is_there(step)) {
        Some(step) => {
            let is_gone = checkpoint_step::was_removed(reader, study.id, trial, step)?;
            Ok(is_gone.then_some(step))
        }
        None => Ok(None),
    }
}

/// The recipe of a trial whose value was reported at `step`.
fn recipe(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    step: Option<u64>,
) -> Result<Recipe, AppError> {
    let (spec, milestones) = (&study.spec, milestones(&study.spec));
    if trial.segments.is_empty() {
        return Ok(Recipe::of(spec, trial, step, milestones)?);
    }
    let stages = stages(reader, study, trial, step.or_else(|| trial.last_step()))?;
    Ok(Recipe::of_schedule(spec, trial, stages, milestones)?)
}

/// The stages of the schedule that led to a trial's state at `step`; one unless it copied another.
///
/// # Errors
/// The store cannot be read.
pub fn stages(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    step: Option<u64>,
) -> Result<Vec<Stage>, AppError> {
    let end = step.unwrap_or_default();
    if trial.segments.is_empty() {
        return Ok(schedule(|_| Some(trial), trial.number, end));
    }
    let state = reader.study_state(study.id)?;
    Ok(schedule(|number| state.trial(number), trial.number, end))
}

/// Writes the export, reporting progress.
///
/// # Errors
/// It cannot be written.
pub fn write(
    exported: &Exported<'_>,
    target: &Target,
    (otherwise, previous): (Otherwise, Previous),
    on_progress: &mut OnProgress<'_>,
) -> Result<Placed, ExportError> {
    let what = "copying the checkpoint";
    on_progress(Progress::Began(what));
    export::write(exported, target, otherwise, previous, &mut |done, of| {
        on_progress(Progress::At { what, done, of })
    })
}

/// A quantized model, in a temporary directory until it is exported.
struct Small {
    _directory: Draft,
    model: PathBuf,
    told: Quantized,
    /// Metrics after quantization.
    after: Metrics,
}

impl Small {
    /// Quantizes the model beside `target`, and evaluates both on the test split, or on the
    /// validation split if there is none.
    fn new(
        data: &TestData<'_>,
        checkpoint: &Path,
        format: Quantize,
        target: &Target,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self, AppError> {
        fs::create_dir_all(directory_of(target.path()))?;
        let directory = Draft::beside(target.path(), Purpose::Small)?;
        let model = directory.path().join("model");
        let told = Quantized { format, before: Metrics::default(), bytes: [0; 2] };
        let mut small = Self { _directory: directory, model, told, after: Metrics::default() };
        let job =
            WorkerJob::Quantize { checkpoint: checkpoint.to_owned(), target: small.model.clone() };
        let answer = worker_job::run("quantising the weights", job, on_progress)?;
        small.told.bytes = ["before", "after"].map(|key| answer[key].as_u64().unwrap_or_default());
        let mut measured = |model| data.measure(Some(model), OrValidation::Yes, &mut *on_progress);
        small.told.before = measured(checkpoint)?;
        small.after = measured(&small.model)?;
        Ok(small)
    }
}

/// The metrics of the winner of a race on the test split, which is evaluated once: at its end.
fn winner_metrics(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: TrialNumber,
) -> Result<Option<Metrics>, StorageError> {
    let race = state_of_runs(reader, study)?.and_then(|state| state.race);
    let winner = race.as_ref().and_then(|race| race.winner());
    Ok(winner.filter(|winner| winner.trial == trial).and_then(|winner| winner.test.clone()))
}

/// Evaluates the winner of the study's race on the test split, unless that was done, and records
/// the result. Returns the data files that changed, where it was not measured for that.
///
/// # Errors
/// It cannot be evaluated, or the store failed.
pub fn test_winner(
    store: &mut dyn Storage,
    study: &StoredStudy,
    path: &Path,
    on_progress: &mut OnProgress<'_>,
) -> Result<Vec<PathBuf>, AppError> {
    if study.spec.race == 0 {
        return Ok(Vec::new());
    }
    let state = store.study_state(study.id)?;
    let Some(winner) =
        state.race.as_ref().and_then(|race| race.winner()).filter(|winner| winner.test.is_none())
    else {
        return Ok(Vec::new());
    };
    let Some(trial) = state.trial(winner.trial) else { return Ok(Vec::new()) };
    let checkpoint = trial
        .checkpoint_of(value_step(&study.spec, trial), &study.spec.program)
        .map(|checkpoint| checkpoint.path.clone());
    let read = inputs::recorded(store, study.id, winner.trial)?;
    let (spec, changed) = (&study.spec, inputs::changed_data(&study.spec, &read));
    let data = TestData { spec, trial, store: path, changed };
    let metrics = data.measure_on_test(checkpoint.as_deref(), on_progress)?;
    if metrics.iter().next().is_none() {
        return Ok(if data.has_test() { data.changed } else { Vec::new() });
    }
    let lease = runner::take_lease(store, study)?;
    let written = store.append(
        &lease,
        runner::now(),
        &[Event::Finalists(FinalistsEvent::Tested { trial: winner.trial, metrics })],
    );
    store.release(&lease)?;
    written?;
    Ok(Vec::new())
}

/// The study's best trials, for the model card.
fn leaders(reader: &dyn StorageReader, study: &StudySummary) -> Result<Vec<Trial>, StorageError> {
    const SHOWN: u64 = 10;
    let visible = study.visible(Filter::all());
    let best = TrialQuery::all(SortKey::Value).filtered(visible).page(0, SHOWN);
    Ok(reader
        .trials(study.id, &best)?
        .into_iter()
        .filter(|trial| trial.value.is_some() || !trial.values.is_empty())
        .collect())
}

/// Whether the validation split replaces a missing test split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrValidation {
    Yes,
    No,
}

/// What a trial's model is measured on.
struct TestData<'a> {
    spec: &'a StudySpec,
    trial: &'a Trial,
    store: &'a Path,
    /// Files that are not what the trial was trained on: rows of their test split may be some that
    /// it was trained on, so nothing is measured.
    changed: Vec<PathBuf>,
}

impl TestData<'_> {
    /// Whether the study has a test split.
    fn has_test(&self) -> bool {
        let Program::Trainer { data, .. } = &self.spec.program else { return false };
        data.contains_key("test") || data.contains_key("test_split")
    }

    /// The only evaluation on the test split: for the selected trial.
    fn measure_on_test(
        &self,
        checkpoint: Option<&Path>,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Metrics, AppError> {
        let measured = self.measure(checkpoint, OrValidation::No, on_progress)?;
        Ok(measured.iter().map(|(name, value)| (test_name(name), value)).collect())
    }

    /// The metrics of a checkpoint on the test split; none if the data changed.
    fn measure(
        &self,
        checkpoint: Option<&Path>,
        or: OrValidation,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Metrics, AppError> {
        let (Program::Trainer { arguments, data }, Some(checkpoint)) =
            (&self.spec.program, checkpoint.filter(|_| self.changed.is_empty()))
        else {
            return Ok(Metrics::default());
        };
        let own = self.trial.params.iter();
        let mut values = arguments.clone();
        values.extend(own.map(|(name, value)| (name.to_owned(), value.to_json())));
        let usual =
            RowsAtOnce::that_may_be_halved(&values).map(|rows| RowsAtOnce { train: 1, ..rows });
        on_progress(Progress::Began("measuring on the test split"));
        let answer = halving(usual, on_progress, |rows, on_progress| {
            let job = WorkerJob::Evaluate {
                checkpoint: checkpoint.to_owned(),
                arguments: values.clone(),
                data: data.clone(),
                cache: paths::data_cache(self.spec, self.store),
                device: Device::Cpu,
                or_validation: or == OrValidation::Yes,
                rows: rows.map(|rows| rows.eval),
            };
            worker_job::again(job, on_progress)
        });
        Ok(serde_json::from_value::<Evaluated>(answer?)?.metrics)
    }
}

fn test_name(name: &str) -> String {
    let bare = name.strip_prefix("eval_").or_else(|| name.strip_prefix("test_")).unwrap_or(name);
    format!("test_{bare}")
}

/// When the trainer of a study has to evaluate.
pub fn milestones(spec: &StudySpec) -> Milestones {
    let budget = full_trial(spec);
    let pruner = pruners::find(&spec.pruner.name)
        .ok()
        .and_then(|entry| (entry.build)(&spec.pruner, budget).ok());
    pruner.map(|pruner| pruner.milestones(budget)).unwrap_or_default()
}

/// The directory that holds a file.
pub fn directory_of(file: &Path) -> PathBuf {
    file.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
        .to_owned()
}
