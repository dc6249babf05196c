//! `hpsearch check`: whether a study file and its data are right, without running a trial.

mod answer;
mod program;
mod tried;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value as Json;

use super::OutputForm;
use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::export::check_target;
use super::overrides::sets;
use super::progress;
use super::waiting::Waiting;
use crate::analysis::forecast::Forecast;
use crate::arguments::{ARGUMENTS, TrainerArguments};
use crate::config::shown::one_line;
use crate::config::{self, Diagnostics, command_line};
use crate::report::ahead::{Running, before_the_first, look_ahead, parts};
use crate::report::wording::{StudyState, count};
use crate::runner;
use crate::runner::errand::{self, ErrandError};
use crate::runner::process::own_program;
use crate::runner::protocol::Job;
use crate::runner::slots::{Machine, SlotsError, slots};
use crate::storage::paths;
use crate::storage::sqlite::SqliteReader;
use crate::storage::{StorageError, StorageReader};
use crate::study::constraint::broken;
use crate::study::device::Slot;
use crate::study::params::{Params, Value};
use crate::study::space::{Dimension, Distribution};
use crate::study::spec::{Program, StudySpec};
use crate::study::usage::{Used, devices_of};

use answer::Answer;
pub use program::{MissingFile, missing_files};

/// What `hpsearch check` is told.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hpsearch check study.toml\n  hpsearch check study.toml --set budget.trials=50\n  hpsearch check --json | jq -r '.problems[] | \"\\(.line): \\(.message)\"'"
)]
pub struct CheckArguments {
    /// The study file
    #[arg(value_name = "STUDY.toml", default_value = "study.toml")]
    pub study: PathBuf,
    /// Override a key of the study file, as often as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
    /// Show what the patterns of `[command.metrics]` find in a line, as often as needed
    #[arg(long = "try", value_name = "LINE", conflicts_with = "json")]
    pub tried: Vec<String>,
    /// Print JSON: all problems with their lines, or what the study searches
    #[arg(long)]
    pub json: bool,
}

/// What was found.
struct Found {
    spec: StudySpec,
    warnings: Diagnostics,
    slots: Vec<Slot>,
    missing: Vec<MissingFile>,
    /// Lines about the data.
    data: Vec<String>,
    ahead: Ahead,
}

/// What is ahead of the study.
enum Ahead {
    /// From its own trials, so many, which the store has.
    OfTrials(Forecast, u64),
    /// What its file tells.
    OfFile(String),
}

/// Checks it.
pub fn check(arguments: &CheckArguments, console: &mut Console) -> Result<Exit, Failure> {
    if !arguments.tried.is_empty() {
        return tried::try_lines(arguments, console);
    }
    let found = find(arguments, console);
    match OutputForm::from(arguments.json) {
        OutputForm::Text => print(&found?, arguments, console),
        OutputForm::Json => {
            let (exit, answer) = match found {
                Ok(found) => (Exit::Done, Answer::of(&found)),
                Err(failure) => (Exit::Usage, Answer::of_failure(failure)?),
            };
            console.json(&answer)?;
            Ok(exit)
        }
    }
}

fn find(arguments: &CheckArguments, console: &mut Console) -> Result<Found, Failure> {
    let checked = config::load_with_warnings(&arguments.study, &arguments.set)?;
    if !arguments.json {
        console.warn(&checked.warnings);
    }
    let mut spec = checked.spec.clone();
    let slots = slots(&spec.devices, &spec.program, &Machine::detect(&spec.devices.select))?;
    let reader = SqliteReader::open(&console.store).ok();
    let known = reader.as_ref().map(|reader| reader.study(&spec.name)).transpose()?.flatten();
    if !known.as_ref().is_some_and(|known| command_line::has_earlier_rules(&known.spec, &spec)) {
        checked.begins()?;
    }
    if let Some(known) = &known {
        command_line::keep_rules(&known.spec, &mut spec);
    }
    let known =
        reader.as_ref().zip(known).map(|(reader, known)| (reader as &dyn StorageReader, known.id));
    check_target(&spec, &arguments.study, known, console)?;
    let missing = missing_files(&spec);
    let data = prepare_data(&spec, console)?.findings;
    let ahead = ahead(&spec, &slots, console)?;
    Ok(Found { spec, warnings: checked.warnings, slots, missing, data, ahead })
}

fn print(
    found: &Found,
    arguments: &CheckArguments,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let spec = &found.spec;
    writeln!(console.out, "study     {}", spec.name)?;
    writeln!(
        console.out,
        "searches  {} to {} {}",
        count(spec.space.dimensions().len() as u64, "parameter"),
        spec.direction().as_str(),
        one_line(&spec.objective().metric)
    )?;
    writeln!(console.out, "with      sampler {}, pruner {}", spec.sampler.name, spec.pruner.name)?;
    let devices: Vec<String> = found.slots.iter().map(|slot| slot.device.to_string()).collect();
    writeln!(
        console.out,
        "on        {} ({})",
        count(found.slots.len() as u64, "slot"),
        devices.join(", ")
    )?;
    for (index, line) in program::examples(spec).iter().enumerate() {
        writeln!(console.out, "{:<10}{line}", if index == 0 { "runs" } else { "" })?;
    }
    for flag in command_line::unstyled_flags(spec) {
        writeln!(
            console.out,
            "flags     `{flag}` is written as true and false; `args_style = \"dashes\"` under [command] makes a flag of it, or nothing"
        )?;
    }
    found.missing.iter().for_each(|missing| console.say(&missing.to_string()));
    for line in &found.data {
        writeln!(console.out, "data      {}", one_line(line))?;
    }
    let ahead = match &found.ahead {
        Ahead::OfTrials(forecast, trials) => format!(
            "{} (from the {} of the store)",
            parts(forecast).join("; "),
            count(*trials, "trial")
        ),
        Ahead::OfFile(told) => told.clone(),
    };
    writeln!(console.out, "forecast  {ahead}")?;
    let run = console.next(&format!("run {}{}", shown(&arguments.study), sets(&arguments.set)));
    writeln!(console.out, "{run} runs it")?;
    Ok(Exit::Done)
}

/// What is ahead of the study: from its own trials, if the store has some, else what its file tells.
fn ahead(spec: &StudySpec, slots: &[Slot], console: &Console) -> Result<Ahead, Failure> {
    let known = match SqliteReader::open(&console.store) {
        Ok(reader) => reader.study(&spec.name)?.map(|known| (reader, known)),
        Err(StorageError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some((reader, known)) = known else { return Ok(Ahead::OfFile(before_the_first(spec))) };
    let summary = reader.summary(known.id)?;
    let mut spec = spec.clone();
    spec.budget.extend(known.extension);
    // It may be run on other slots than before.
    let used = Used { slots: slots.len(), devices: devices_of(slots), ..reader.used(known.id)? };
    let running =
        if progress::state(&summary) == StudyState::Running { Running::Yes } else { Running::No };
    let forecast = look_ahead(
        &spec,
        summary.search_counts(),
        progress::elapsed(&reader, &summary)?,
        used,
        runner::now(),
        running,
    );
    if summary.counts.only_fail() {
        let trials = count(summary.counts.total(), "trial");
        return Ok(Ahead::OfFile(format!(
            "none: of the {trials} of the store none came to anything"
        )));
    }
    Ok(match parts(&forecast).is_empty() {
        true => Ahead::OfFile(before_the_first(&spec)),
        false => Ahead::OfTrials(forecast, summary.counts.total()),
    })
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
    let Program::Trainer { arguments, data } = &spec.program else {
        return Ok(PreparedData::default());
    };
    let store = std::path::absolute(&console.store)?;
    // The tokenizer's arguments may be among what is searched.
    let point =
        trainable(spec, &Params::new()).unwrap_or_else(|| spec.space.spread(&Params::new(), 0));
    let job = Job::Prepare {
        arguments: with(arguments, &point),
        data: data.clone(),
        cache: paths::data_cache(spec, &store),
        others: other_models(spec).iter().map(|point| with(arguments, point)).collect(),
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
    let findings = answer.get("findings").and_then(Json::as_array).cloned().unwrap_or_default();
    let directory = answer.get("directory").and_then(Json::as_str).map(PathBuf::from);
    Ok(PreparedData {
        findings: findings
            .iter()
            .filter_map(|finding| finding.get("message")?.as_str().map(str::to_owned))
            .collect(),
        directory,
    })
}

/// Arguments that may not fit a model or the data, which shows only once both are read.
const MAY_NOT_FIT: [&str; 5] =
    ["model.pretrained", "freeze", "freeze_layers", "lora_target_modules", "class_weights"];

/// Points whose models are not that of the middle: each end and each choice of what may not fit one, as far as it can be trained.
fn other_models(spec: &StudySpec) -> Vec<Params> {
    let argument = |name: &str| {
        ARGUMENTS.iter().find(|argument| argument.name == name || argument.aliases.contains(&name))
    };
    let searched = spec.space.dimensions().iter().filter(|dimension| {
        argument(&dimension.name).is_some_and(|one| MAY_NOT_FIT.contains(&one.name))
    });
    let points = searched.flat_map(|dimension| {
        let values = match &dimension.distribution {
            Distribution::Choice { choices } => choices.clone(),
            range => vec![range.from_unit(0.0), range.from_unit(1.0)],
        };
        values.into_iter().filter_map(|value| with_value(spec, dimension, value))
    });
    points.collect()
}

/// The first of points spread over the space that can be trained with this value, and with those of others that it needs to mean
/// something; nothing where none can.
fn with_value(spec: &StudySpec, dimension: &Dimension, value: Value) -> Option<Params> {
    let mut fixed = Params::new();
    fixed.insert(dimension.name.clone(), value);
    for (parent, accepted) in dimension.when.iter().flat_map(|condition| &condition.0) {
        fixed.insert(parent.clone(), accepted.first().cloned().unwrap_or(Value::Bool(true)));
    }
    trainable(spec, &fixed)
}

/// How many points are looked at for one that can be trained.
const POINTS: u32 = 4_096;

/// The first of points spread over the space, from its middle on, that keeps the constraints and whose arguments go together.
fn trainable(spec: &StudySpec, fixed: &Params) -> Option<Params> {
    let Program::Trainer { arguments, .. } = &spec.program else { return None };
    let is_sound = |point: &Params| {
        broken(&spec.constraints, point).is_none()
            && TrainerArguments::resolve(&with(arguments, point)).is_ok()
    };
    (0..POINTS).map(|index| spec.space.spread(fixed, index)).find(is_sound)
}

/// The fixed arguments and those of a point.
fn with(arguments: &BTreeMap<String, Json>, point: &Params) -> BTreeMap<String, Json> {
    let searched = point.iter().map(|(name, value)| (name.to_owned(), value.to_json()));
    arguments.iter().map(|(name, value)| (name.clone(), value.clone())).chain(searched).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn study(space: &str, rest: &str) -> StudySpec {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t.csv"), "text,label\na,b\n").unwrap();
        let text = format!(
            "[study]\nmetric = \"eval_loss\"\ndirection = \"minimize\"\n[budget]\ntrials = 3\n[trainer]\ntask = \"text-classification\"\n\
             [data]\ntrain = \"t.csv\"\ntext = \"text\"\nlabel = \"label\"\nvalidation_split = 0.5\n[space]\n{space}\n{rest}\n"
        );
        config::parse(&text, Path::new("s.toml"), directory.path(), &[])
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    const FEW: &str =
        "model.hidden_size = { int = [32, 256] }\nmodel.num_heads = { int = [3, 16] }";

    #[test]
    fn data_is_prepared_with_a_configuration_that_can_be_trained() {
        let spec = study(FEW, "");
        let Program::Trainer { arguments, .. } = &spec.program else { panic!() };
        let middle = spec.space.spread(&Params::new(), 0);
        assert!(
            TrainerArguments::resolve(&with(arguments, &middle)).is_err(),
            "{middle}: the middle has to be one that cannot"
        );
        let point = trainable(&spec, &Params::new()).unwrap();
        assert!(TrainerArguments::resolve(&with(arguments, &point)).is_ok(), "{point}");
        // So are the models that are tried beside it.
        let spec = study(&format!("{FEW}\nfreeze_layers = [0, 1]"), "");
        for other in other_models(&spec) {
            assert!(TrainerArguments::resolve(&with(arguments, &other)).is_ok(), "{other}");
        }
    }

    #[test]
    fn constraints_are_kept_by_what_data_is_prepared_with() {
        let spec = study(FEW, "[[constraint]]\nrequire = \"model.hidden_size >= 240\"");
        let size = trainable(&spec, &Params::new())
            .and_then(|point| point.get("model.hidden_size")?.as_number());
        assert!(size.is_some_and(|size| size >= 240.0), "{size:?}");
    }
}
