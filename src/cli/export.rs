//! `hpsearch export`: the best trial as a directory that is ready for use.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::best::value_step;
use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::halving::halving;
use super::held;
use super::named_study;
use super::waiting::Waiting;
use super::winner;
use crate::arguments::RowsAtOnce;
use crate::config::full_trial;
use crate::export::{
    self, Draft, ExportError, Exported, Holds, Needed, Obstacle, Otherwise, Placed, Purpose,
    Quantized, Recipe, Target,
};
use crate::pruners;
use crate::report::wording::{bytes, number, one_line};
use crate::runner::process::own_program;
use crate::runner::protocol::Job;
use crate::runner::{self, errand};
use crate::storage::paths;
use crate::storage::{Storage, StorageReader, StoredStudy, StudyId, StudySummary};
use crate::study::checkpoint::Checkpoint;
use crate::study::event::Event;
use crate::study::metric::Metrics;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::spec::{Milestones, Program, Quantize, StudySpec};
use crate::study::trial::{Trial, TrialNumber};

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
    Quantize::parse(word)
        .ok_or_else(|| format!("weights can be written as {}", Quantize::WORDS.join(", ")))
}

/// What is said while a checkpoint is copied.
pub const COPYING: &str = "copying the checkpoint";

/// Exports it.
pub fn export(arguments: &ExportArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let study = named_study::find(&reader, arguments.study.as_deref())?;
    let quantize = arguments.quantize.or(study.spec.export.quantize);
    let file = arguments.study.as_deref().map(Path::new).filter(|file| file.is_file());
    let target = target(&arguments.output, &study.spec, file, Some((&reader, study.id)), console)?;
    // What cannot be written in the end is not measured first.
    target.check()?;
    export_trial(
        &reader,
        &study,
        arguments.trial.map(TrialNumber),
        quantize,
        (&target, Otherwise::Refuse),
        console,
    )?;
    Ok(Exit::Done)
}

/// The directory that an export of a study may go to; `file` is the study's, `known` the study in the store, if it is there.
pub fn target(
    directory: &Path,
    spec: &StudySpec,
    file: Option<&Path>,
    known: Option<(&dyn StorageReader, StudyId)>,
    console: &Console,
) -> Result<Target, Failure> {
    let store = std::path::absolute(&console.store)?;
    let files = paths::files_directory(spec, &store);
    let mut needed: Vec<(Needed, PathBuf)> =
        console.store_files().map(|path| (Needed::Store, path)).into();
    needed.extend(file.map(|file| (Needed::StudyFile, file.to_owned())));
    needed.push((Needed::CurrentDirectory, std::env::current_dir()?));
    let trials = match known {
        Some((reader, study)) => reader.summary(study)?.files(&store).directory(),
        None => paths::StudyFiles::of(spec, None, &store).directory(),
    };
    needed.extend([trials, paths::data_cache(spec, &store)].map(|path| (Needed::TrialFiles, path)));
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

/// Directories of studies, also of other stores': what lies there may be taken for files of a trial.
fn with_trials(files: &Path) -> impl Iterator<Item = PathBuf> {
    let inside = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let is_trial = |entry: fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with("trial-"))
            && entry.path().is_dir()
    };
    inside(files).map(|entry| entry.path()).filter(move |path| inside(path).any(is_trial))
}

/// Looks whether a study may be exported where its file says, before a trial runs. An export that was edited stands in no run's way
/// once the study was run: what is exported at the end goes beside it.
pub fn check_target(
    spec: &StudySpec,
    file: &Path,
    known: Option<(&dyn StorageReader, StudyId)>,
    console: &mut Console,
) -> Result<(), Failure> {
    let Some(directory) = spec.export.dir.as_ref().filter(|_| spec.export.on_finish) else {
        return Ok(());
    };
    let about_its_key = |failure: Failure| {
        failure.help(
            "`[export] dir` in the study file says where the best trial is exported to at the end",
        )
    };
    let found = target(directory, spec, Some(file), known, console).map_err(about_its_key)?.check();
    if let (
        Err(
            edited @ ExportError::Occupied {
                why: Obstacle::Unknown(_) | Obstacle::Changed(_), ..
            },
        ),
        Some(_),
    ) = (&found, known)
    {
        console.say(&format!(
            "warning: {edited}; as it is, it stays, and the export at the end goes beside it"
        ));
        return Ok(());
    }
    found.map_err(Failure::from).map_err(about_its_key)
}

/// Says where an export lies if that is not where it was to go, and what became of what is not of it.
pub fn tell_placed(placed: &Placed, console: &mut Console) {
    if let Some(refused) = &placed.refused {
        console.say(&format!("warning: {refused}"));
        console.say(&format!("so this export is in {}", shown(&placed.directory)));
    }
    for kept in &placed.kept {
        console
            .say(&format!("the export that was there is kept as {}: it holds what hpsearch did not write, or has no list of its files", shown(kept)));
    }
    for (before, after) in &placed.renamed {
        let [before, after] = [before, after].map(|path| one_line(&path.to_string_lossy()));
        console.say(&format!("the checkpoint's own `{before}` is `{after}` in the export"));
    }
    tell_left_out(placed, console);
}

fn tell_left_out(placed: &Placed, console: &mut Console) {
    const SHOWN: usize = 5;
    for (path, why) in placed.left_out.iter().take(SHOWN) {
        console.say(&format!(
            "warning: not exported: `{}` is {why}",
            one_line(&path.to_string_lossy())
        ));
    }
    if let Some(more) = placed.left_out.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        console.say(&format!("warning: not exported either: {more} more of that kind"));
    }
}

/// Exports the best trial, or the one asked for.
pub fn export_trial(
    reader: &dyn StorageReader,
    study: &StudySummary,
    asked: Option<TrialNumber>,
    quantize: Option<Quantize>,
    (target, otherwise): (&Target, Otherwise),
    console: &mut Console,
) -> Result<(), Failure> {
    let spec = &study.spec;
    let wanted = asked.or(study.best.map(|(best, _)| best));
    let Some(wanted) = wanted else {
        return Err(Failure::new(
            Exit::NoCompletedTrial,
            format!("study `{}` has no complete trial yet", spec.name),
        )
        .help(format!("{} shows how far it is", console.next(&format!("trials {}", spec.name)))));
    };
    let Some(trial) = reader.trial(study.id, wanted)? else {
        let trials = console.next(&format!("trials {} --sort number", spec.name));
        return Err(Failure::usage(format!("study `{}` has no trial {wanted}", spec.name))
            .help(format!("{trials} lists them")));
    };
    let step = value_step(spec, &trial);
    let registered = trial.checkpoint_of(step);
    if let Some(Checkpoint { step, path, .. }) =
        registered.filter(|checkpoint| matches!(checkpoint.path.try_exists(), Ok(false)))
    {
        return Err(ExportError::Missing { trial: wanted, step: *step, path: path.clone() }.into());
    }
    let holds = registered.map_or(Ok(Holds::Value), |checkpoint| {
        held::holds(reader, study.id, spec, &trial, checkpoint, step)
    })?;
    let checkpoint = registered.map(|checkpoint| checkpoint.path.clone());
    if checkpoint.is_none() && matches!(spec.program, Program::Trainer { .. }) {
        let why = format!(
            "trial {wanted} has no checkpoint any more (`[checkpoints] keep` says which stay)"
        );
        return Err(
            Failure::usage(why).help("export the best trial, or set keep = \"all\" before a study")
        );
    }
    if quantize.is_some() && !matches!(spec.program, Program::Trainer { .. }) {
        let why = format!(
            "study `{}` runs a command, and only the built-in trainer's weights can be quantised",
            spec.name
        );
        return Err(Failure::usage(why).help("export it without `quantize`"));
    }
    let reports = reader.reports(study.id, wanted)?;
    let held = holds.step(step);
    let mut metrics: Metrics = reports
        .into_iter()
        .filter(|(_, at, _)| Some(*at) == held)
        .map(|(name, _, value)| (name, value))
        .collect();
    let small = match (quantize, &checkpoint) {
        (Some(format), Some(checkpoint)) => {
            Some(Small::new(spec, &trial, checkpoint, format, target, console)?)
        }
        _ => None,
    };
    match &small {
        Some(small) => metrics.0.extend(small.after.0.clone()),
        None => {
            metrics.0.extend(test_metrics(reader, study, &trial, checkpoint.as_deref(), console)?.0)
        }
    }
    let mut exported = Exported {
        spec,
        trial: &trial,
        checkpoint: small.as_ref().map(|small| small.model.as_path()).or(checkpoint.as_deref()),
        step,
        holds,
        metrics,
        recipe: Recipe::of(spec, &trial, held, milestones(spec))?,
        leaders: leaders(reader, study)?,
        quantized: small.as_ref().map(|small| small.told.clone()),
    };
    exported.recipe.value = exported.held_value().filter(|value| value.is_finite());
    let waiting = Waiting::start(COPYING, console);
    let placed =
        export::write(&exported, target, otherwise, &mut |done, of| waiting.at(COPYING, done, of))?;
    drop(waiting);
    let directory = &placed.directory;
    let value = exported.held_value().map_or_else(String::new, |value| {
        format!(" ({} {})", spec.objective().metric, number(value))
    });
    console.say(&format!("exported trial {wanted}{value} to {}", shown(directory)));
    if let Some(warning) = of_another_step(&exported) {
        console.say(&warning);
    }
    if exported.checkpoint.is_none() {
        console.say(&format!(
            "trial {wanted} has no checkpoint: the export holds its configuration only, no model"
        ));
    }
    tell_placed(&placed, console);
    if let Some(small) = &small {
        small.say(console);
    }
    for (name, value) in
        exported.metrics.iter().filter(|(name, _)| small.is_none() && name.starts_with("test_"))
    {
        console.say(&format!("  {name} {}", number(value)));
    }
    if matches!(spec.program, Program::Trainer { .. }) {
        console.say(&format!(
            "`{} {} \"some text\"` uses it",
            exported.recipe.verb(),
            shown(directory)
        ));
    }
    Ok(())
}

/// What is to be said where the checkpoint is not of the step of the trial's value.
fn of_another_step(exported: &Exported<'_>) -> Option<String> {
    let (clock, metric, number_of) =
        (exported.spec.step.as_str(), &exported.spec.objective().metric, exported.trial.number);
    let at = exported.step.map_or_else(String::new, |step| format!(" at {clock} {step}"));
    let value = exported
        .trial
        .value
        .map_or_else(|| "unknown".to_owned(), |value| format!("{metric} {}{at}", number(value)));
    match exported.holds {
        Holds::Value => None,
        Holds::Another { step, value: held } => {
            let held = held.map_or_else(
                || format!("without a {metric} of its own"),
                |held| format!("{metric} {}", number(held)),
            );
            Some(format!(
                "warning: the value of trial {number_of} is {value}, of which there is no checkpoint; this export holds {clock} {step} ({held}). \
                 Write each {clock} to a path of its own, with the {clock} in its name, to keep the best one"
            ))
        }
        Holds::Unknown { registered } => Some(format!(
            "warning: the checkpoint was written to after it was registered at {clock} {registered}, so that nobody can tell which {clock} this \
             export holds; the value of trial {number_of} is {value}. Register a checkpoint once it is complete, and write each to a path of its own"
        )),
    }
}

/// A checkpoint's model in fewer bits, in a directory of its own until it is exported.
struct Small {
    _directory: Draft,
    model: PathBuf,
    told: Quantized,
    /// What was measured with the smaller weights.
    after: Metrics,
}

impl Small {
    /// Writes it beside `target`, and measures both on the test split, or where there is none on the validation split.
    fn new(
        spec: &StudySpec,
        trial: &Trial,
        checkpoint: &Path,
        format: Quantize,
        target: &Target,
        console: &Console,
    ) -> Result<Self, Failure> {
        fs::create_dir_all(directory_of(target.path()))?;
        let directory = Draft::beside(target.path(), Purpose::Small)?;
        let model = directory.path().join("model");
        let told = Quantized { format, before: Metrics::default(), bytes: [0; 2] };
        let mut small = Self { _directory: directory, model, told, after: Metrics::default() };
        let waiting = Waiting::start("quantising the weights", console);
        let job = Job::Quantize { checkpoint: checkpoint.to_owned(), target: small.model.clone() };
        let answer = errand::run(&own_program(), job, &mut |progress| waiting.hear(&progress));
        drop(waiting);
        let answer = answer?.unwrap_or_default();
        small.told.bytes = ["before", "after"].map(|key| answer[key].as_u64().unwrap_or_default());
        small.told.before = measure(spec, trial, Some(checkpoint), OrValidation::Yes, console)?;
        small.after = measure(spec, trial, Some(&small.model), OrValidation::Yes, console)?;
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

/// The test split is measured once: of the winner of a race it was when that was over.
fn test_metrics(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    checkpoint: Option<&Path>,
    console: &Console,
) -> Result<Metrics, Failure> {
    let race = winner::view(reader, study)?.and_then(|view| view.race);
    let measured = race
        .as_ref()
        .and_then(|race| race.winner())
        .filter(|winner| winner.trial == trial.number)
        .and_then(|winner| winner.test.clone());
    match measured {
        Some(measured) => Ok(measured),
        None => measure_on_test(&study.spec, trial, checkpoint, console),
    }
}

/// Measures the winner of the study's race on the test split, if that was not done, and writes it down.
pub fn test_winner(
    store: &mut dyn Storage,
    study: &StoredStudy,
    console: &Console,
) -> Result<(), Failure> {
    if study.spec.race == 0 {
        return Ok(());
    }
    let view = store.view(study.id)?;
    let Some(winner) =
        view.race.as_ref().and_then(|race| race.winner()).filter(|winner| winner.test.is_none())
    else {
        return Ok(());
    };
    let Some(trial) = view.trial(winner.trial) else { return Ok(()) };
    let checkpoint = trial
        .checkpoint_of(value_step(&study.spec, trial))
        .map(|checkpoint| checkpoint.path.clone());
    let metrics = measure_on_test(&study.spec, trial, checkpoint.as_deref(), console)?;
    if metrics.iter().next().is_none() {
        return Ok(());
    }
    let lease = runner::take_lease(store, study)?;
    let written = store.append(
        &lease,
        runner::now(),
        &[Event::WinnerTested { trial: winner.trial, metrics }],
    );
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
fn measure_on_test(
    spec: &StudySpec,
    trial: &Trial,
    checkpoint: Option<&Path>,
    console: &Console,
) -> Result<Metrics, Failure> {
    let measured = measure(spec, trial, checkpoint, OrValidation::No, console)?;
    Ok(measured.iter().map(|(name, value)| (test_name(name), value)).collect())
}

/// What a checkpoint comes to on the test split.
fn measure(
    spec: &StudySpec,
    trial: &Trial,
    checkpoint: Option<&Path>,
    or: OrValidation,
    console: &Console,
) -> Result<Metrics, Failure> {
    let (Program::Trainer { arguments, data }, Some(checkpoint)) = (&spec.program, checkpoint)
    else {
        return Ok(Metrics::default());
    };
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
            device: crate::study::device::Device::Cpu,
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
    let pruner = pruners::find(&spec.pruner.name)
        .ok()
        .and_then(|entry| (entry.build)(&spec.pruner, budget).ok());
    pruner.map(|pruner| pruner.milestones(budget)).unwrap_or_default()
}

/// The directory that holds a file, for messages.
pub fn directory_of(file: &Path) -> PathBuf {
    file.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
        .to_owned()
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let exit =
            if matches!(error, ExportError::Format { .. }) { Exit::Internal } else { Exit::Usage };
        Failure::new(exit, error)
    }
}
