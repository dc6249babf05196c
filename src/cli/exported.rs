//! Messages about an export, and arguments of verbs that use one.

use std::path::{Path, PathBuf};

use super::console::{shown, typed};
use super::{Console, Exit, Failure};
use crate::app::export::WrittenExport;
use crate::arguments::TaskKind;
use crate::export::{ExportError, Holds, Placed, Recipe, holds_weights};
use crate::report::wording::{bytes, exportable, number, one_line};
use crate::study::device::Device;
use crate::study::program::Program;
use crate::study::spec::StudySpec;

/// The absolute path of an exported model.
pub fn model(directory: &Path) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(directory)?;
    if holds_weights(&path) {
        return Ok(path);
    }
    Err(Failure::usage(format!("`{}` holds no model", directory.display()))
        .help("`hpsearch export STUDY -o DIR` writes one"))
}

/// The column of second texts that an exported model was trained on, `None` inside where it reads
/// single texts; `None` outside where the directory does not say what it was trained on, or the
/// model reads both.
pub fn text_pair(directory: &Path) -> Option<Option<String>> {
    let recipe = Recipe::of_export(directory)?;
    let reads_both = TaskKind::of(&recipe.trainer_arguments()) == TaskKind::SentenceSimilarity;
    (!reads_both).then(|| recipe.text_pair().map(str::to_owned))
}

/// Whether the texts that an exported model was trained on were normalised.
pub fn normalizes(directory: &Path) -> bool {
    Recipe::of_export(directory).is_some_and(|recipe| recipe.normalizes())
}

/// The task that an exported model was trained for, if the directory says so.
pub fn task(directory: &Path) -> Option<TaskKind> {
    Recipe::of_export(directory).map(|recipe| TaskKind::of(&recipe.trainer_arguments()))
}

/// The column of texts that an exported model was trained on, if the directory says so.
pub fn text(directory: &Path) -> Option<String> {
    Recipe::of_export(directory)?.text().map(str::to_owned)
}

/// The device of verbs that use an exported model, unless the command line names another.
pub const DEVICE: &str = "cpu";

/// The device that a command line names.
pub fn device(name: &str) -> Result<Device, Failure> {
    name.parse().map_err(|error| {
        Failure::new(Exit::Usage, error)
            .help("`hpsearch devices` lists the devices of this machine")
    })
}

/// Reports an export, and its losses.
pub fn tell(exported: &WrittenExport, spec: &StudySpec, console: &mut Console) {
    let (trial, directory) = (exported.trial.number, shown(&exported.placed.directory));
    let named = |(name, value): (String, f64)| named_value(&name, value);
    let values: Vec<String> = match spec.has_several_objectives() {
        true => {
            let names = spec.objective_names().into_iter();
            let known = names.filter_map(|name| Some((exported.metrics.get(&name)?, name)));
            known.map(|(value, name)| named((name, value))).collect()
        }
        false => {
            let own = exported.value.map(|value| (spec.objective().metric.clone(), value));
            own.map(named).into_iter().collect()
        }
    };
    let value = match values.is_empty() {
        true => String::new(),
        false => format!(" ({})", values.join(", ")),
    };
    console.say(&format!("exported trial {trial}{value} to {directory}"));
    if let Some((study, before)) = &exported.replaced {
        console.say(&format!(
            "it replaced the previous export there (trial {before} of `{}`)",
            one_line(study)
        ));
    }
    if let Some(warning) = of_another_step(spec, exported) {
        console.say(&warning);
    }
    if !exported.has_model {
        let removed = exported.removed.map_or_else(String::new, |step| {
            let unit = spec.step.as_str();
            format!(" any more (the one at {unit} {step} was removed)")
        });
        console.say(&format!(
            "trial {trial} has no checkpoint{removed}: the export holds its configuration only, no \
             model"
        ));
        if let Some(others) = exportable(&exported.others) {
            console.say(&format!("  {others}"));
        }
    }
    print_export_directory(&exported.placed, console);
    if let Some(quantized) = &exported.quantized {
        let [large, small] = quantized.bytes.map(bytes);
        console.say(&format!("  weights {small} instead of {large} ({})", quantized.format.word()));
        for (name, before) in quantized.before.iter() {
            let after = exported.metrics.get(name).map_or_else(|| "unknown".to_owned(), number);
            console.say(&format!("  {name} {after} ({} before)", number(before)));
        }
    } else {
        for (name, value) in exported.metrics.iter().filter(|(name, _)| name.starts_with("test_")) {
            console.say(&format!("  {name} {}", number(value)));
        }
    }
    for file in &exported.changed_data {
        console.say(&format!(
            "warning: the exported model was not measured on data: `{}` {}",
            shown(file),
            how_changed(file)
        ));
    }
    if matches!(spec.program, Program::Trainer { .. }) {
        let directory = typed(Path::new(&directory));
        console.say(&format!("`{} {directory} {}` uses it", exported.verb, exported.example));
    }
}

/// What is wrong with a data file that is not what a trial was trained on.
pub fn how_changed(file: &Path) -> &'static str {
    if file.exists() { "is not what it was in training" } else { "is gone" }
}

/// Reports an export's directory if it is not the requested one, and what happened to other files.
pub fn print_export_directory(placed: &Placed, console: &mut Console) {
    if let Some(refused) = &placed.refused {
        console.say(&format!("warning: {refused}"));
        console.say(&format!("so this export is in {}", shown(&placed.directory)));
    }
    for kept in &placed.kept {
        console.say(&format!(
            "the previous export is kept as {}: it holds files that hpsearch did not write, or has \
             no list of its files",
            shown(kept)
        ));
    }
    if let Some(aside) = &placed.set_aside {
        console.say(&format!(
            "{} that was there is kept as {}",
            aside.recipe.as_ref().map_or_else(|| "the export".to_owned(), model_in_words),
            shown(&aside.directory)
        ));
    }
    for (before, after) in &placed.renamed {
        let [before, after] = [before, after].map(|path| one_line(&path.to_string_lossy()));
        console.say(&format!("the checkpoint's own `{before}` is `{after}` in the export"));
    }
    print_left_out(placed, console);
}

/// An earlier model, with its value.
fn model_in_words(recipe: &Recipe) -> String {
    let what = match (&recipe.training, recipe.trial) {
        (None, Some(trial)) => {
            format!("the export of trial {trial} of `{}`", one_line(&recipe.study))
        }
        _ => "the model of `hpsearch train`".to_owned(),
    };
    let value = recipe.value.iter().map(|value| (&recipe.metric, value));
    let values: Vec<String> = match recipe.values.is_empty() {
        true => value.map(|(name, value)| named_value(name, *value)).collect(),
        false => recipe.values.iter().map(|(name, value)| named_value(name, *value)).collect(),
    };
    match values.is_empty() {
        true => what,
        false => format!("{what} ({})", values.join(", ")),
    }
}

fn named_value(name: &str, value: f64) -> String {
    format!("{} {}", one_line(name), number(value))
}

fn print_left_out(placed: &Placed, console: &mut Console) {
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

/// The warning if the checkpoint does not hold the step of the trial's value.
fn of_another_step(spec: &StudySpec, exported: &WrittenExport) -> Option<String> {
    let (step_unit, metric, number_of) =
        (spec.step.as_str(), &spec.objective().metric, exported.trial.number);
    let at = exported.step.map_or_else(String::new, |step| format!(" at {step_unit} {step}"));
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
            let (is, keep) = match exported.removed {
                Some(_) => (
                    "whose checkpoint was saved and removed".to_owned(),
                    format!(
                        "Let the program keep its best one, or all until it ends: hpsearch \
                         removes what it does not need; `--trial N` exports another trial than \
                         {number_of}"
                    ),
                ),
                None => (
                    "of which there is no checkpoint".to_owned(),
                    format!(
                        "Write each {step_unit} to a path of its own, with the {step_unit} in its \
                         name, to keep the best one"
                    ),
                ),
            };
            Some(format!(
                "warning: the value of trial {number_of} is {value}, {is}; this export holds \
                 {step_unit} {step} ({held}), the newest that is kept. {keep}"
            ))
        }
        Holds::Unknown { registered } => Some(format!(
            "warning: the checkpoint was changed after it was registered at {step_unit} \
             {registered}, so that it is unknown which {step_unit} this export holds; the value of \
             trial {number_of} is {value}. Register a checkpoint once it is complete, and write \
             each to a path of its own"
        )),
    }
}

/// Reports that the export at the end of a run is written beside an edited one.
pub fn warn_edited_export(edited: &ExportError, console: &Console) {
    console.say(&format!(
        "warning: {edited}; it is kept, and the export at the end is written beside it"
    ));
}
