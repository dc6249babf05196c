//! `[trainer]` and `[data]`: checks fixed and searched arguments against their tables, individually
//! and in combination.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

use super::diagnostic::{Diagnostic, SourceSpan};
use super::space::{Parameter, Searched};
use super::syntax::{Leaf, TomlTable};
use super::tables;
use crate::arguments::data_file::folder_of;
use crate::arguments::data_format::{format_of, is_on_hub};
use crate::arguments::{
    ARGUMENTS, ArgumentProblem, DATA_ARGUMENTS, DataArguments, LabelFormat, Multiple, PRETRAINED,
    TRAINER_TASKS, TaskKind, TrainerArguments, check_values, newer_name,
};
use crate::study::constraint::{self, Constraint};
use crate::study::field::{self, Field};
use crate::study::params::{Params, Value};
use crate::study::space::{Distribution, Space};
use crate::study::step::StepUnit;

/// Points of the space at which combinations of arguments are checked; enough to find a
/// contradiction between two choices out of ten.
const PROBES: u32 = 128;
/// Most points tried while none is valid.
const MOST_PROBES: u32 = 4_096;

/// Arguments with their spans.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    /// By their names in the table, aliases resolved.
    pub values: BTreeMap<String, Json>,
    places: BTreeMap<String, SourceSpan>,
}

impl Arguments {
    /// The span of the length of a full trial, in the study's unit.
    pub(super) fn place_of_length(&self, step_unit: StepUnit) -> Option<SourceSpan> {
        let argument = if step_unit == StepUnit::Epoch { "num_train_epochs" } else { "max_steps" };
        self.place_of(argument)
    }

    /// The span of an argument, if the table has it.
    pub(super) fn place_of(&self, argument: &str) -> Option<SourceSpan> {
        self.places.get(argument).copied()
    }
}

const PRETRAINED_LAYOUT: &str = "a pretrained model is a directory with config.json, \
    model.safetensors and tokenizer.json";

/// Reads `[trainer]`, checking each argument; the directory of a pretrained model is made absolute,
/// and must exist.
pub(super) fn read_trainer(
    table: &TomlTable,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> Arguments {
    let mut arguments = Arguments::default();
    for leaf in once_each(table, ARGUMENTS, problems) {
        let name = canonical(ARGUMENTS, &leaf.name).to_owned();
        let value = leaf.value.to_json();
        arguments.places.insert(name.clone(), leaf.place);
        note_older_name(&leaf.name, leaf.place, problems);
        match check_values(&leaf.name, std::slice::from_ref(&value)).into_iter().next() {
            Some(problem) => problems.push(of_argument("trainer", ARGUMENTS, &leaf, problem)),
            None if name == PRETRAINED => {
                let text = leaf.value.text().unwrap_or_default();
                let directory = super::absolute(base, text);
                if cfg!(feature = "hub") && is_of_hub(text) && !directory.exists() {
                    arguments.values.insert(name, text.into());
                    continue;
                }
                if !directory.is_dir() {
                    let what = if directory.exists() {
                        "this is a file, not a directory"
                    } else {
                        "no such directory"
                    };
                    let message = format!("`{}`: {what}", leaf.name);
                    let mut problem = Diagnostic::error(leaf.value.place, message)
                        .label(what)
                        .help(format!("looked for {}", directory.display()))
                        .help(PRETRAINED_LAYOUT);
                    if is_of_hub(text) && !cfg!(feature = "hub") {
                        problem = problem.help(of_hub(text));
                    } else if !directory.exists() && is_of_hub(&format!("org/{text}")) {
                        // Older models of the Hub have no owner in their names.
                        problem = problem.help(format!(
                            "for a model of the Hugging Face Hub, download its files: hf download \
                             {text} --local-dir DIR"
                        ));
                    }
                    problems.push(problem);
                }
                arguments.values.insert(name, directory.to_string_lossy().into_owned().into());
            }
            None => {
                arguments.values.insert(name, value);
            }
        }
    }
    arguments
}

/// Checks the searched parameters of a trainer study: each is an argument, accepts all its values,
/// and is not also fixed.
pub(super) fn check_searched(
    searched: &Searched,
    arguments: &Arguments,
    problems: &mut Vec<Diagnostic>,
) {
    let mut seen: BTreeMap<&str, &Parameter> = BTreeMap::new();
    for parameter in &searched.parameters {
        let name = parameter.dimension.name.as_str();
        let argument = canonical(ARGUMENTS, name);
        if let Some(place) = arguments.places.get(argument) {
            let problem = Diagnostic::error(
                parameter.place,
                format!("`{name}` is searched in [space] and fixed in [trainer]"),
            )
            .label("searched here");
            problems.push(
                problem.related(*place, "fixed here").help("remove it from one of the two tables"),
            );
        }
        if let Some(other) = seen.insert(argument, parameter) {
            let message = format!("`{name}` and `{}` are the same argument", other.dimension.name);
            problems.push(
                Diagnostic::error(parameter.place, message)
                    .related(other.place, "the other name")
                    .help("keep one of them"),
            );
        }
        note_older_name(name, parameter.place, problems);
        check_range(parameter, problems);
        if argument == PRETRAINED {
            check_directories(parameter, problems);
        }
    }
}

/// Whether a text may name a model on the Hugging Face Hub: `org/name`, optionally with
/// `@revision`.
pub(crate) fn is_of_hub(text: &str) -> bool {
    let (repository, revision) = text.split_once('@').unwrap_or((text, "main"));
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(plain) && !word.starts_with('.');
    repository.split('/').count() == 2
        && repository.split('/').all(is_word)
        && revision.split('/').all(is_word)
}

/// How to get a model of the Hub without this binary's trainer.
pub(crate) fn of_hub(name: &str) -> String {
    let name = name.split('@').next().unwrap_or(name);
    format!(
        "names of the Hugging Face Hub need `--features hub` when hpsearch is built; or download \
         it: hf download {name} --local-dir DIR"
    )
}

/// Searched directories must be absolute: a trial's parameters do not depend on the location of the
/// study file.
fn check_directories(parameter: &Parameter, problems: &mut Vec<Diagnostic>) {
    let Distribution::Choice { choices } = &parameter.dimension.distribution else { return };
    let directories =
        choices.iter().filter_map(|choice| choice.to_json().as_str().map(str::to_owned));
    if let Some(wrong) = directories.into_iter().find(|model| {
        let is_directory = Path::new(model).is_absolute() && Path::new(model).is_dir();
        !(is_directory || cfg!(feature = "hub") && is_of_hub(model))
    }) {
        let problem = Diagnostic::error(
            parameter.range,
            format!("`{}`: `{wrong}` is not a directory", parameter.dimension.name),
        );
        let problem =
            problem.help("give each model's directory as an absolute path, beginning with /");
        problems.push(if is_of_hub(&wrong) { problem.help(of_hub(&wrong)) } else { problem });
    }
}

fn note_older_name(name: &str, place: SourceSpan, problems: &mut Vec<Diagnostic>) {
    if let Some(newer) = newer_name(name) {
        let problem = Diagnostic::warning(
            place,
            format!("`{name}` is an older name, which transformers no longer uses"),
        );
        problems.push(problem.help(format!("it is accepted; the current name is {newer}")));
    }
}

fn check_range(parameter: &Parameter, problems: &mut Vec<Diagnostic>) {
    let name = &parameter.dimension.name;
    let values: Vec<Json> = match &parameter.dimension.distribution {
        Distribution::Choice { choices } => choices.iter().map(Value::to_json).collect(),
        // The ends, and some values between them: a range of floats may have integral ends without
        // containing only integers.
        range => [0.0, 1.0, 0.11, 0.37, 0.53, 0.79]
            .into_iter()
            .map(|unit| range.from_unit(unit).to_json())
            .collect(),
    };
    let found = check_values(name, &values);
    let Some(problem) = found.first().cloned() else { return };
    let unknown = field::find(ARGUMENTS, name).is_none();
    let place = if unknown { parameter.place } else { parameter.range };
    let whole = !unknown
        && matches!(parameter.dimension.distribution, Distribution::Float { .. })
        && check_values(name, &[values[0].clone(), values[1].clone()]).is_empty();
    let mut complaint = Diagnostic::error(place, problem.message);
    if unknown {
        complaint = complaint.label("a [trainer] study searches the trainer's arguments");
    }
    let help = problem.help.unwrap_or_else(|| keys_of("trainer"));
    problems.push(if whole {
        complaint.help("for integers write `int = [low, high]`").help(help)
    } else {
        complaint.help(help)
    });
}

/// Checks fixed and searched arguments in combination, at points all over the space that satisfy
/// the constraints: contradictions at all of them are an error, at some a warning, which suggests
/// constraints if possible.
pub(super) fn check_together(
    arguments: &Arguments,
    space: &Space,
    constraints: &[Constraint],
    searched: &Searched,
    problems: &mut Vec<Diagnostic>,
) {
    let (mut probed, mut failed) = (0, 0);
    let mut first: Option<ArgumentProblem> = None;
    let mut required: Vec<String> = Vec::new();
    let mut is_explained = true;
    // Tries longer while no point is valid.
    for probe in 0..MOST_PROBES {
        if probed >= PROBES && failed < probed {
            break;
        }
        let point = space.spread(&Params::new(), probe);
        if constraint::broken(constraints, &point).is_some() {
            continue;
        }
        probed += 1;
        let mut values = arguments.values.clone();
        for (name, value) in point.iter() {
            values.insert(canonical(ARGUMENTS, name).to_owned(), value.to_json());
        }
        if let Err(found) = TrainerArguments::resolve(&values) {
            failed += 1;
            for problem in &found {
                match problem.multiple.as_ref().and_then(|multiple| requirement(multiple, searched))
                {
                    Some(condition) if !required.contains(&condition) => required.push(condition),
                    Some(_) => {}
                    None => is_explained = false,
                }
            }
            first = first.or(found.into_iter().next());
        }
    }
    let Some(problem) = first else { return };
    let key = canonical(ARGUMENTS, &problem.key).to_owned();
    let dimension = searched
        .parameters
        .iter()
        .find(|parameter| canonical(ARGUMENTS, &parameter.dimension.name) == key);
    let place = arguments.places.get(&key).copied().or(dimension.map(|parameter| parameter.place));
    problems.push(if failed == probed && probed >= PROBES {
        Diagnostic::error(place, problem.message)
            .help(problem.help.unwrap_or_else(|| keys_of("trainer")))
    } else {
        let share = (failed * 100).div_ceil(probed);
        let warning =
            Diagnostic::warning(place, format!("about {share} % of the space cannot be trained"));
        let mut warning = warning.help(format!("for example {}", problem.message));
        for condition in &required {
            warning = warning.help(format!(
                "leave them out: write [[constraint]] and under it `require = \"{condition}\"`"
            ));
        }
        if !is_explained {
            warning = warning.help("such trials fail: remove one of the values");
        }
        warning.help.extend(problem.help);
        warning
    });
}

/// The constraint that makes the first of two arguments a multiple of the second; `None` if neither
/// is searched.
fn requirement(multiple: &Multiple, searched: &Searched) -> Option<String> {
    let name = |argument: &str| {
        searched
            .parameters
            .iter()
            .map(|parameter| parameter.dimension.name.as_str())
            .find(|name| canonical(ARGUMENTS, name) == argument)
    };
    let [(of, number), (by, divisor)] = multiple.0;
    if name(of).is_none() && name(by).is_none() {
        return None;
    }
    let term =
        |argument, number: usize| name(argument).map_or_else(|| number.to_string(), str::to_owned);
    Some(format!("{} % {} == 0", term(of, number), term(by, divisor)))
}

/// The task of `[trainer]`; `None` if it names one that does not exist, which is reported
/// elsewhere: what would follow from another task only confuses.
pub(super) fn task_of(table: &TomlTable, values: &BTreeMap<String, Json>) -> Option<TaskKind> {
    let named = table.get("task").and_then(|entry| entry.value.text());
    let is_known = |name| TRAINER_TASKS.iter().any(|task| task.name == name);
    named.is_none_or(is_known).then(|| TaskKind::of(values))
}

/// About a path that leads nowhere.
const NO_FILE: &str = "no such file";

/// Reads `[data]`; file names are made absolute, and the files must exist.
pub(super) fn read_data(
    table: &TomlTable,
    place: SourceSpan,
    base: &Path,
    task: Option<TaskKind>,
    problems: &mut Vec<Diagnostic>,
) -> BTreeMap<String, Json> {
    let leaves = once_each(table, DATA_ARGUMENTS, problems);
    let mut values: BTreeMap<String, Json> = leaves
        .iter()
        .map(|leaf| (canonical(DATA_ARGUMENTS, &leaf.name).to_owned(), leaf.value.to_json()))
        .collect();
    let mut found = DataArguments::resolve(&values).err().unwrap_or_default();
    found.extend(task.into_iter().flat_map(|task| DataArguments::misfits(&values, task)));
    let sound = |name: &str| found.iter().all(|problem| problem.key != name);
    let files: Vec<&Leaf<'_>> = leaves
        .iter()
        .filter(|leaf| {
            ["train", "validation", "test"].contains(&leaf.name.as_str()) && sound(&leaf.name)
        })
        .collect();
    for problem in found {
        match leaves.iter().find(|leaf| canonical(DATA_ARGUMENTS, &leaf.name) == problem.key) {
            Some(leaf) => problems.push(of_argument("data", DATA_ARGUMENTS, leaf, problem)),
            None => {
                let complaint = Diagnostic::error(place, format!("[data]: {}", problem.message));
                problems.push(complaint.help(problem.help.unwrap_or_else(|| keys_of("data"))));
            }
        }
    }
    for leaf in files {
        let Some(file) = leaf.value.text() else { continue };
        if is_on_hub(Path::new(file)) {
            if !cfg!(feature = "hub") {
                let message = format!("`data.{}` is on the Hugging Face Hub", leaf.name);
                problems.push(
                    Diagnostic::error(leaf.value.place, message)
                        .label("this binary was built without the feature `hub`")
                        .help(
                            "build it with `--features hub`, or download the files: hf download \
                             OWNER/NAME --repo-type dataset --local-dir DIR",
                        ),
                );
            }
            continue;
        }
        let path = super::absolute(base, file);
        // A folder of files, or a pattern in one; what is in it is seen when it is read.
        let is_folder = match path.is_dir() {
            true => format_of(&path).is_none(),
            false => folder_of(&path, false).is_some_and(Path::is_dir),
        };
        if !path.is_file() && !is_folder {
            let what = match path.metadata() {
                Ok(found) if found.is_dir() => "this is a directory, not a file",
                Ok(_) => "this is a pipe or a device, not a file",
                Err(_) => NO_FILE,
            };
            let problem =
                Diagnostic::error(leaf.value.place, format!("`data.{}`: {what}", leaf.name))
                    .label(what);
            // As it would be written.
            let similar = super::file::similar(&path).and_then(|near| {
                Some(Path::new(file).with_file_name(near.file_name()?).display().to_string())
            });
            let problem = problem
                .help(format!("looked for {}", path.display()))
                .help("paths are relative to the study file");
            problems.push(match similar.filter(|_| what == NO_FILE) {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem,
            });
        }
        values.insert(leaf.name.clone(), path.to_string_lossy().into_owned().into());
    }
    // Stored with the study: those that began without it read labels as names.
    if task.is_some_and(LabelFormat::is_of) {
        values.entry(LabelFormat::KEY.to_owned()).or_insert_with(|| "auto".into());
    }
    values
}

/// Reads arguments of `[data]` that replace or join `others`; they need not name the data.
pub(super) fn read_some_data(
    table: &TomlTable,
    others: &BTreeMap<String, Json>,
    problems: &mut Vec<Diagnostic>,
) -> BTreeMap<String, Json> {
    let leaves = once_each(table, DATA_ARGUMENTS, problems);
    let name = |leaf: &Leaf<'_>| canonical(DATA_ARGUMENTS, &leaf.name).to_owned();
    let values: BTreeMap<String, Json> =
        leaves.iter().map(|leaf| (name(leaf), leaf.value.to_json())).collect();
    let mut all = others.clone();
    all.extend(values.clone());
    for problem in DataArguments::resolve(&all).err().unwrap_or_default() {
        if let Some(leaf) = leaves.iter().find(|leaf| name(leaf) == problem.key) {
            problems.push(of_argument("data", DATA_ARGUMENTS, leaf, problem));
        }
    }
    values
}

/// The leaves of a table of arguments, each argument once, whatever its spelling.
fn once_each<'a>(
    table: &'a TomlTable,
    arguments: &[Field],
    problems: &mut Vec<Diagnostic>,
) -> Vec<Leaf<'a>> {
    let mut leaves: Vec<Leaf<'a>> = Vec::new();
    for leaf in table.leaves() {
        let name = canonical(arguments, &leaf.name);
        match leaves.iter().find(|earlier| canonical(arguments, &earlier.name) == name) {
            Some(earlier) => {
                let message = if earlier.name == leaf.name {
                    format!("`{}` appears twice", leaf.name)
                } else {
                    format!("`{}` and `{}` are the same argument", leaf.name, earlier.name)
                };
                problems.push(
                    Diagnostic::error(leaf.place, message)
                        .related(earlier.place, "first time")
                        .help("keep one of them"),
                );
            }
            None => leaves.push(leaf),
        }
    }
    leaves
}

/// A problem of an argument, located at its value if the table has it.
fn of_argument(
    table: &str,
    arguments: &[Field],
    leaf: &Leaf<'_>,
    problem: ArgumentProblem,
) -> Diagnostic {
    let is_known = field::find(arguments, &leaf.name).is_some();
    let place = if is_known { leaf.value.place } else { leaf.place };
    let complaint = Diagnostic::error(place, problem.message);
    let owner = || {
        tables::owners(&leaf.name)
            .next()
            .map(|owner| format!("`{}` is a key of [{}]", leaf.name, owner.name))
    };
    complaint.help(problem.help.or_else(owner).unwrap_or_else(|| keys_of(table)))
}

/// The remedy if there is no specific one.
fn keys_of(table: &str) -> String {
    format!("`hpsearch schema` lists the keys of [{table}]")
}

/// The canonical name of an argument, or `name` itself.
pub(super) fn canonical<'a>(arguments: &[Field], name: &'a str) -> &'a str {
    field::find(arguments, name).map_or(name, |argument| argument.name)
}
