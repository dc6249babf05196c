//! `hpsearch train`: trains the model of a `best.toml` again, or one configuration of a study file,
//! or runs a diagnostic.

mod interruption;
mod probe;
mod profile;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use super::exported;
use super::output_file::refuse_inputs;
use super::waiting::listener;
use crate::app::export::directory_of;
use crate::app::train_once::{self, Trained};
use crate::arguments::default_of;
use crate::config::{self, ConfigError};
use crate::export::recipe::{Contradiction, Training};
use crate::export::{self, Draft, Needed, Purpose, Recipe, Target};
use crate::report::wording::{number, one_line};
use crate::storage::paths::store_files;
use crate::study::spec::ValueRule;
use interruption::Interruption;

/// Arguments of `hpsearch train`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hpsearch train model/best.toml -o again    of `export -o model`\n  \
        hpsearch train model/best.toml -o final --set data.validation_split=0\n  \
        hpsearch train study.toml --set trainer.learning_rate=3e-4\n  hpsearch train study.toml \
        --find-lr\n  hpsearch train study.toml --overfit-one-batch --steps 200\n  hpsearch train \
        study.toml --profile 20\n  hpsearch train study.toml -o model --resume-from-checkpoint \
        model.checkpoint"
)]
pub struct TrainArguments {
    /// A best.toml, as `export` writes it, or a study file: what its [trainer] fixes, and its first
    /// [[enqueue]] or the middle of its space
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Override a key of a study file, or of [params], [trainer] or [data] of a best.toml, as often
    /// as needed
    #[arg(long, value_name = "TABLE.KEY=VALUE")]
    pub set: Vec<String>,
    /// Only test whether the model can overfit one batch
    #[arg(long, conflicts_with = "find_lr")]
    pub overfit_one_batch: bool,
    /// Only run a learning-rate range test: rising rates, to see which work
    #[arg(long)]
    pub find_lr: bool,
    /// Only profile N steps: the time of each phase and layer
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["overfit_one_batch", "find_lr"],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub profile: Option<u32>,
    /// The file for the profile's trace, which chrome://tracing and Perfetto show
    #[arg(long, value_name = "FILE", default_value = "trace.json", requires = "profile")]
    pub trace: PathBuf,
    /// Optimiser steps to try
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(10..)
    )]
    pub steps: u32,
    /// Continue the interrupted training of this file from the checkpoint that it kept
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["overfit_one_batch", "find_lr", "profile"]
    )]
    pub resume_from_checkpoint: Option<PathBuf>,
    /// The directory to write; without it `trained` beside the file, or
    /// DIR-trained for the best.toml of an export DIR
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Trains it.
pub fn train(arguments: &TrainArguments, console: &mut Console) -> Result<Exit, Failure> {
    let recipe = read(arguments, console)?.without_validation().map_err(|problem| {
        Failure::usage(problem.message).help(problem.help.unwrap_or_default())
    })?;
    for file in recipe.changed_files() {
        console.say(&format!(
            "warning: `{}` has changed since this was written: the result may differ",
            file.display()
        ));
    }
    let target = target(arguments, &recipe, console)?;
    // Not if the named one would be moved for it.
    let named = arguments.resume_from_checkpoint.as_ref();
    let is_there = named.is_some_and(|named| named.exists());
    if !is_there && let Some(kept) = export::keep_checkpoints_of_killed(target.path()) {
        let kept = shown(&kept);
        console.say(&format!(
            "the newest checkpoint of a training that was killed is kept in {kept}: \
             `--resume-from-checkpoint {kept}` continues from it"
        ));
    }
    if let Some(checkpoint) = &arguments.resume_from_checkpoint {
        check_checkpoint(checkpoint, &recipe)?;
        if let Some(other) = other_length(checkpoint, &recipe) {
            console.say(&format!(
                "warning: the checkpoint is from a training with {other}: a learning rate that \
                 depends on the length differs from that of one uninterrupted training"
            ));
        }
        if recipe.rule == ValueRule::Best {
            console.say(
                "note: the best of the evaluations from the checkpoint on is taken (with `value = \
                 \"last\"` under [study] the last one)",
            );
        }
    }
    if arguments.profile.is_some() {
        let data = recipe.data.values().filter_map(toml::Value::as_str).map(PathBuf::from);
        refuse_inputs(
            &arguments.trace,
            data.chain([arguments.file.clone()]).chain(store_files(&console.store)),
        )?;
    }
    let is_written =
        !arguments.overfit_one_batch && !arguments.find_lr && arguments.profile.is_none();
    if is_written {
        // Checked before the training, which is slow.
        target.check()?;
    }
    fs::create_dir_all(directory_of(target.path()))?;
    let interruption = Interruption::watch()?;
    let mut draft = Draft::beside(target.path(), Purpose::Training)?;
    let ended = carry_out(arguments, &recipe, draft.path(), &target, console);
    let Err(failure) = ended else { return ended };
    let (kept, interrupted) = (draft.keep_checkpoint(target.path()), interruption.exit());
    let kept = kept.map(|kept| {
        let epoch = epoch_of(&kept).map(|epoch| format!(" (epoch {})", number(epoch)));
        let (kept, verb, epoch) = (shown(&kept), recipe.verb(), epoch.unwrap_or_default());
        let resume = match recipe.schedule.is_empty() {
            true => format!("`--resume-from-checkpoint {kept}` continues from it, and "),
            false => String::new(),
        };
        format!(
            "the newest checkpoint{epoch} is kept in {kept}: {resume}`{verb}` reads it as it does \
             an export"
        )
    });
    match (interrupted, kept) {
        (Some(_), None) if is_written => console.complain(
            "interrupted before the first evaluation, at which a checkpoint is saved: nothing was \
             written (`eval_strategy` says when there is one)",
        ),
        (Some(_), None) => console.complain("interrupted: nothing was written"),
        (Some(_), Some(kept)) => console.complain(&format!("interrupted: {kept}")),
        (None, Some(kept)) => console.complain(&kept),
        (None, None) => {}
    }
    interrupted.ok_or(failure)
}

/// Trains, or runs a diagnostic, with files in `scratch`.
fn carry_out(
    arguments: &TrainArguments,
    recipe: &Recipe,
    scratch: &Path,
    target: &Target,
    console: &mut Console,
) -> Result<Exit, Failure> {
    match arguments {
        TrainArguments { overfit_one_batch: true, steps, .. } => {
            probe::one_batch(recipe, scratch, *steps, console)
        }
        TrainArguments { profile: Some(steps), trace, .. } => {
            profile::profile(recipe, scratch, *steps, trace, console)
        }
        TrainArguments { find_lr: true, steps, .. } => {
            probe::learning_rates(recipe, scratch, *steps, console)
        }
        _ => {
            let resume = arguments.resume_from_checkpoint.as_deref();
            let mut hear = listener(console);
            let trained = train_once::train(recipe, resume, scratch, target, &mut hear)?;
            drop(hear);
            tell(recipe, &trained, console);
            Ok(Exit::Done)
        }
    }
}

/// Checks that a directory holds the state of a training, and that `recipe` has one to continue.
fn check_checkpoint(checkpoint: &Path, recipe: &Recipe) -> Result<(), Failure> {
    if !recipe.schedule.is_empty() {
        return Err(Failure::usage(
            "this best.toml is of a trial of a population: its stages are always trained in \
             order, from the first",
        )
        .help("leave out `--resume-from-checkpoint`"));
    }
    if !checkpoint.join("optimizer.safetensors").is_file() {
        let message = format!("`{}` is not a training checkpoint", checkpoint.display());
        return Err(Failure::usage(message)
            .help("give the directory that the interrupted `hpsearch train` reported as kept"));
    }
    Ok(())
}

/// The epoch of a checkpoint.
fn epoch_of(checkpoint: &Path) -> Option<f64> {
    let text = config::file::read_to_string(&checkpoint.join("trainer_state.json")).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["epoch"].as_f64()
}

/// The length of the training of a checkpoint in words, if it differs from that of `recipe`.
fn other_length(checkpoint: &Path, recipe: &Recipe) -> Option<String> {
    let text = config::file::read_to_string(&checkpoint.join("training_args.json")).ok()?;
    let saved: serde_json::Value = serde_json::from_str(&text).ok()?;
    let given = recipe.trainer_arguments();
    let differs = |name: &&str| {
        let before = saved["arguments"][*name].as_f64();
        let now = given.get(*name).and_then(serde_json::Value::as_f64);
        before.is_some() && before != Some(now.unwrap_or_else(|| default_of::<f64>(name)))
    };
    let name = ["max_steps", "num_train_epochs"].into_iter().find(differs)?;
    Some(format!("{name} = {}", saved["arguments"][name]))
}

fn tell(recipe: &Recipe, trained: &Trained, console: &mut Console) {
    let compared = match recipe.value {
        Some(before) if recipe.continued_after.is_some() => {
            format!("; the trial that was continued had {}", number(before))
        }
        Some(before) if before == trained.value => ", as before".to_owned(),
        Some(before) => format!("; it was {} before", number(before)),
        None => String::new(),
    };
    console.say(&format!(
        "{} {}{compared}; written to {}",
        recipe.metric,
        number(trained.value),
        shown(&trained.placed.directory)
    ));
    exported::print_export_directory(&trained.placed, console);
}

/// The directory of the model.
fn target(
    arguments: &TrainArguments,
    recipe: &Recipe,
    console: &Console,
) -> Result<Target, Failure> {
    let directory = arguments
        .output
        .clone()
        .unwrap_or_else(|| export::default_beside(&directory_of(&arguments.file)));
    let mut needed = vec![
        (Needed::StudyFile, arguments.file.clone()),
        (Needed::CurrentDirectory, std::env::current_dir()?),
    ];
    needed.extend(recipe.model().map(|path| (Needed::Model, path)));
    needed.extend(store_files(&console.store).map(|path| (Needed::Store, path)));
    Ok(Target::new(&directory, needed)?)
}

/// What the model's files say of this call.
fn training(arguments: &TrainArguments) -> Result<Training, Failure> {
    let mut options: Vec<String> =
        arguments.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]).collect();
    if let Some(checkpoint) = &arguments.resume_from_checkpoint {
        let checkpoint = std::path::absolute(checkpoint)?.display().to_string();
        options.extend(["--resume-from-checkpoint".to_owned(), checkpoint]);
    }
    let file = std::path::absolute(&arguments.file)?.display().to_string();
    Ok(Training { file, options })
}

/// The refusal of a best.toml that says two things about a parameter.
fn contradicts(file: &Path, contradiction: &Contradiction) -> Failure {
    let Contradiction { name, params, other, table } = contradiction;
    let name = one_line(name);
    let value = |value: &Option<String>| {
        value.as_ref().map_or_else(|| "absent".to_owned(), |value| one_line(value))
    };
    let trained = match *table {
        "[trainer]" => "`[trainer]`",
        _ => "the last `[[schedule]]` and `[trainer]`",
    };
    Failure::usage(format!(
        "`{}`: `{name}` is {} in `[params]` and {} in `{table}`",
        file.display(),
        value(params),
        value(other)
    ))
    .help(format!(
        "the value in `{table}` is trained: write the one that you want in {trained}, and the same \
         in `[params]`"
    ))
}

fn read(arguments: &TrainArguments, console: &mut Console) -> Result<Recipe, Failure> {
    let file = &arguments.file;
    let text = config::file::read_to_string(file).map_err(|error| {
        Failure::usage(format!("`{}` cannot be read: {error}", file.display())).help(
            "give a study file, or the best.toml that `hpsearch export STUDY -o DIR` writes \
                into DIR",
        )
    })?;
    // A best.toml has the study's name as a key; a study file has a table of that name, or neither.
    let names_study = text
        .parse::<toml::Table>()
        .is_ok_and(|table| table.get("study").is_some_and(toml::Value::is_str));
    if !names_study {
        let checked = config::load_for_training(file, &arguments.set)?;
        console.warn(&checked.warnings);
        let (mut recipe, troubles) = train_once::recipe_of_study(&checked.spec)?;
        recipe.training = Some(training(arguments)?);
        troubles.iter().for_each(|trouble| console.say(&format!("warning: {trouble}")));
        return Ok(recipe);
    }
    let mut recipe: Recipe = toml::from_str(&text).map_err(|error| {
        Failure::usage(format!("`{}` is not a best.toml: {error}", file.display()))
            .help("`hpsearch export STUDY -o DIR` writes DIR/best.toml")
    })?;
    if recipe.trainer.is_empty() {
        return Err(Failure::usage("this best.toml is of a command, not of the built-in trainer")
            .help(if recipe.schedule.len() > 1 {
                "run its `command` yourself, stage by stage as `[[schedule]]` has them: each with \
                 its `params`, from the checkpoint of the stage before"
            } else {
                "`hpsearch best STUDY --command` prints its command with the parameters in it"
            }));
    }
    if let Some(contradiction) = recipe.contradiction() {
        return Err(contradicts(file, &contradiction));
    }
    override_with(&arguments.set, &mut recipe, &directory_of(file), console)?;
    recipe.make_absolute(&directory_of(file))?;
    recipe.training = Some(training(arguments)?);
    Ok(recipe)
}

/// Overrides parameters, arguments and data of a best.toml in `directory`.
fn override_with(
    sets: &[String],
    recipe: &mut Recipe,
    directory: &Path,
    console: &Console,
) -> Result<(), Failure> {
    if sets.is_empty() {
        return Ok(());
    }
    let (trainer, data) = (recipe.trainer_arguments(), recipe.data_arguments());
    let params: Vec<&str> = recipe.params.iter().map(|(name, _)| name).collect();
    let directory = std::path::absolute(directory)?;
    let overrides = config::training_overrides(sets, &directory, &params, (&trainer, &data))
        .map_err(ConfigError::Invalid)?;
    if let Some(name) = overrides.trainer.keys().find(|name| recipe.is_staged(name)) {
        return Err(Failure::usage(format!(
            "`{name}` has a value in each stage of this best.toml, which is of a trial of a \
             population"
        ))
        .help("edit `[[schedule]]` in a copy of the file"));
    }
    for key in &overrides.dropped {
        console.say(&format!(
            "note: `data.{key}` of the file is replaced by `--set`, and its rows are not read"
        ));
    }
    Ok(recipe.set(&overrides)?)
}
