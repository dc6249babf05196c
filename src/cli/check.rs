//! `hpsearch check`: whether a study file and its data are right, without running a trial.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::export::check_target;
use super::ls;
use super::waiting::Waiting;
use crate::arguments::ARGUMENTS;
use crate::config;
use crate::config::placeholder::{Piece, fill_in, pieces};
use crate::config::shown::one_line;
use crate::constraint::broken;
use crate::device::Slot;
use crate::forecast::{Used, devices_of};
use crate::params::{Params, Value};
use crate::paths;
use crate::reporters::ahead::{Running, before_the_first, look_ahead, parts};
use crate::reporters::wording::{StudyState, count};
use crate::runner;
use crate::runner::errand::{self, ErrandError};
use crate::runner::process::own_program;
use crate::runner::slots::{Machine, SlotsError, slots};
use crate::space::{Dimension, Distribution, Space};
use crate::storage::sqlite::SqliteReader;
use crate::storage::{StorageError, StorageReader};
use crate::study::{Program, StudySpec};
use crate::wire::Job;

/// What `hpsearch check` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch check study.toml\n  hpsearch check study.toml --set budget.trials=50")]
pub struct CheckArguments {
    /// The study file
    #[arg(value_name = "STUDY.toml", default_value = "study.toml")]
    pub study: PathBuf,
    /// Override a key of the study file, as often as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
}

/// Checks it.
pub fn check(arguments: &CheckArguments, console: &mut Console) -> Result<Exit, Failure> {
    let checked = config::load_with_warnings(&arguments.study, &arguments.set)?;
    console.warn(&checked.warnings);
    let spec = checked.spec;
    let places = slots(&spec.devices, &spec.program, &Machine::detect(&spec.devices.select))?;
    let reader = SqliteReader::open(&console.store).ok();
    let known = reader.as_ref().map(|reader| reader.study(&spec.name)).transpose()?.flatten();
    let known = reader.as_ref().zip(known).map(|(reader, known)| (reader as &dyn StorageReader, known.id));
    check_target(&spec, &arguments.study, known, console)?;
    writeln!(console.out, "study     {}", spec.name)?;
    writeln!(
        console.out,
        "searches  {} to {} {}",
        count(spec.space.dimensions().len() as u64, "parameter"),
        spec.direction().as_str(),
        one_line(&spec.objective().metric)
    )?;
    writeln!(console.out, "with      sampler {}, pruner {}", spec.sampler.name, spec.pruner.name)?;
    let devices: Vec<String> = places.iter().map(|slot| slot.device.to_string()).collect();
    writeln!(console.out, "on        {} ({})", count(places.len() as u64, "slot"), devices.join(", "))?;
    if let Some(warning) = missing_program(&spec) {
        console.say(&warning);
    }
    for line in prepare_data(&spec, console)?.findings {
        writeln!(console.out, "data      {}", one_line(&line))?;
    }
    writeln!(console.out, "forecast  {}", ahead(&spec, &places, console)?)?;
    writeln!(console.out, "`hpsearch run {}` runs it", shown(&arguments.study))?;
    Ok(Exit::Done)
}

/// What is ahead of the study: from its own trials, if the store has some, else what its file tells.
fn ahead(spec: &StudySpec, slots: &[Slot], console: &Console) -> Result<String, Failure> {
    let known = match SqliteReader::open(&console.store) {
        Ok(reader) => reader.study(&spec.name)?.map(|known| (reader, known)),
        Err(StorageError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some((reader, known)) = known else { return Ok(before_the_first(spec)) };
    let summary = reader.summary(known.id)?;
    let mut spec = spec.clone();
    spec.budget.extend(known.extension);
    // It may be run on other slots than before.
    let used = Used { slots: slots.len(), devices: devices_of(slots), ..reader.used(known.id)? };
    let running = if ls::state(&summary) == StudyState::Running { Running::Yes } else { Running::No };
    let forecast = look_ahead(&spec, summary.search_counts(), ls::elapsed(&reader, &summary)?, used, runner::now(), running);
    let parts = parts(&forecast);
    if parts.is_empty() {
        return Ok(before_the_first(&spec));
    }
    Ok(format!("{} (from the {} of the store)", parts.join("; "), count(summary.counts.total(), "trial")))
}

/// The warning that a command's program is not where it is looked for: every trial would fail.
pub fn missing_program(spec: &StudySpec) -> Option<String> {
    let Program::Command { run, cwd, env } = &spec.program else { return None };
    let knows = |name: &str| spec.space.dimension(name).is_some();
    let program = run.first().filter(|program| pieces(program, knows).iter().all(|piece| matches!(piece, Piece::Text(_))))?;
    let program = &fill_in(program, knows, str::to_owned);
    let runs = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let warning =
        |where_: &str, help: &str| Some(format!("warning: there is no program `{program}` {where_}, so every trial would fail\nhelp: {help}"));
    if program.contains('/') {
        let path = cwd.join(program);
        if runs(&path) {
            return None;
        }
        if path.is_file() {
            return Some(format!(
                "warning: `{}` may not be executed, so every trial would fail\nhelp: `chmod +x {}`, or name the interpreter first: run = [\"python3\", \"{program}\"]",
                path.display(),
                path.display()
            ));
        }
        return warning(&format!("in {}", cwd.display()), "check `run` and `cwd` in [command]");
    }
    let search = env.get("PATH").and_then(|path| path.get()).map(OsString::from).or_else(|| std::env::var_os("PATH"))?;
    if std::env::split_paths(&search).any(|directory| runs(&cwd.join(directory).join(program))) {
        return None;
    }
    let help = if runs(&cwd.join(program)) {
        format!("write \"./{program}\" for the one beside the study")
    } else {
        "install it, or check `run` in [command]".to_owned()
    };
    warning("on PATH", &help)
}

/// Data that is ready for trials.
#[derive(Clone, Debug, Default)]
pub struct PreparedData {
    /// What was found in it.
    pub findings: Vec<String>,
    /// Where it lies, with its tokenizer.
    pub directory: Option<PathBuf>,
}

/// A preparation whose worker is killed is begun again, so many times in all: whatever died, the study goes on.
const PREPARATIONS: u32 = 3;

/// Has the data read, checked and tokenised once, before any trial needs it.
pub fn prepare_data(spec: &StudySpec, console: &Console) -> Result<PreparedData, Failure> {
    let Program::Trainer { arguments, data } = &spec.program else { return Ok(PreparedData::default()) };
    // What is searched is given by the middle of its range: the tokenizer's arguments may be among it.
    let Ok(middle) = spec.space.assemble::<Infallible>(&Params::new(), |dimension, _| Ok(dimension.distribution.from_unit(0.5)));
    let store = std::path::absolute(&console.store)?;
    let with = |params: Params| {
        let mut values = arguments.clone();
        values.extend(params.iter().map(|(name, value)| (name.to_owned(), value.to_json())));
        values
    };
    let job = Job::Prepare {
        arguments: with(middle),
        data: data.clone(),
        cache: paths::data_cache(spec, &store),
        others: other_models(spec).into_iter().map(with).collect(),
    };
    let waiting = Waiting::start("preparing the data", console);
    let mut tries = 1;
    let answer = loop {
        match errand::run(&own_program(), job.clone(), &mut |progress| waiting.hear(&progress)) {
            Err(ErrandError::Killed { .. }) if tries < PREPARATIONS => tries += 1,
            answer => break answer,
        }
    };
    drop(waiting);
    let answer = answer?;
    let answer = answer.unwrap_or_default();
    let findings = answer.get("findings").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
    let directory = answer.get("directory").and_then(serde_json::Value::as_str).map(PathBuf::from);
    Ok(PreparedData { findings: findings.iter().filter_map(|finding| finding.get("message")?.as_str().map(str::to_owned)).collect(), directory })
}

/// Arguments that may not fit a model or the data, which shows only once both are read.
const MAY_NOT_FIT: [&str; 5] = ["model.pretrained", "freeze", "freeze_layers", "lora_target_modules", "class_weights"];

/// Points whose models are not that of the middle: each end and each choice of what may not fit one, as far as constraints allow it.
fn other_models(spec: &StudySpec) -> Vec<Params> {
    let argument = |name: &str| ARGUMENTS.iter().find(|argument| argument.name == name || argument.aliases.contains(&name));
    let searched = spec.space.dimensions().iter().filter(|dimension| argument(&dimension.name).is_some_and(|one| MAY_NOT_FIT.contains(&one.name)));
    let points = searched.flat_map(|dimension| {
        let values = match &dimension.distribution {
            Distribution::Choice { choices } => choices.clone(),
            range => vec![range.from_unit(0.0), range.from_unit(1.0)],
        };
        values.into_iter().map(|value| with_value(&spec.space, dimension, value))
    });
    points.filter(|point| broken(&spec.constraints, point).is_none()).collect()
}

/// The middle of the space, but for this value, and for those of others that it needs to mean something.
fn with_value(space: &Space, dimension: &Dimension, value: Value) -> Params {
    let mut fixed = Params::new();
    fixed.insert(dimension.name.clone(), value);
    for (parent, accepted) in dimension.when.iter().flat_map(|condition| &condition.0) {
        fixed.insert(parent.clone(), accepted.first().cloned().unwrap_or(Value::Bool(true)));
    }
    let Ok(point) = space.assemble::<Infallible>(&fixed, |dimension, _| Ok(dimension.distribution.from_unit(0.5)));
    point
}

impl From<SlotsError> for Failure {
    fn from(error: SlotsError) -> Self {
        Failure::new(Exit::Usage, error)
    }
}

impl From<ErrandError> for Failure {
    fn from(error: ErrandError) -> Self {
        match error {
            ErrandError::Start { .. } => Failure::new(Exit::Internal, error),
            ErrandError::Killed { .. } => Failure::new(Exit::Internal, error).help("run the command again"),
            ErrandError::OutOfMemory { .. } => Failure::new(Exit::Internal, error).help(
                "free some memory, use a smaller model (`model.*`), shorter texts (`[data] max_length`) or less data, and run the command again",
            ),
            // The worker's sentence says what to change where it knows.
            ErrandError::Failed(_) => Failure::new(Exit::Usage, error).help("change what it names and run the command again"),
        }
    }
}
