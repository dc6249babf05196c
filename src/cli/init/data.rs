//! The study of a data file: its splits, its columns and its task, determined from the data, flags
//! and answers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::columns::{self, DataTable};
use super::model;
use super::study_file::TrainerStudy;
use super::tasks;
use super::{InitArguments, Questions, as_named, asked_trials, name, parsed};
use crate::arguments::TaskKind;
use crate::arguments::data_file::{
    DataFiles, Split, pattern_of, shown_separator, split_of, usual_separator,
};
use crate::arguments::data_format::{DataFormat, KNOWN_ENDINGS, format_of};
use crate::cli::console::{Console, shown, typed};
use crate::cli::exit::Failure;
use crate::report::wording::one_line;
use crate::runner::inputs::data_files;
use crate::study::counted::count;

/// The text of the study file for a data file, or for the training file in a directory.
pub fn of_data(
    data: &Path,
    arguments: &InitArguments,
    questions: &Questions,
    console: &mut Console,
) -> Result<String, Failure> {
    let Source { path, file: data, parts } = source(data)?;
    let data = &data;
    if data.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
        let message = format!("`{}` is YAML, not data", data.display());
        return Err(Failure::usage(message).help(format!(
            "`hpsearch init --sweep {}` takes a sweep of Weights & Biases; data are \
             {KNOWN_ENDINGS}",
            typed(data)
        )));
    }
    let model = arguments
        .model
        .as_deref()
        .map(|model| model::look(model, &arguments.output))
        .transpose()?;
    let mut study = TrainerStudy {
        name: name(arguments, None, if parts.is_some() { &path } else { data }),
        task: TaskKind::LanguageModeling,
        model: model.as_ref().map(|model| model.named.clone()),
        train: as_named(&path, &arguments.output)?,
        validation: None,
        test: None,
        separator: None,
        column_names: None,
        columns: Vec::new(),
        label_separator: None,
        is_unbalanced: false,
        has_entities: false,
        rows: 0,
        max_length: 64,
        trials: arguments.trials.unwrap_or(super::TRIALS),
        findings: Vec::new(),
    };
    let (others, mut looked_at) = (parts.as_deref().unwrap_or_default(), 1);
    if format_of(data).is_some_and(|(format, _)| !format.has_rows()) {
        let size = size(data)?;
        if size == 0 {
            return Err(Failure::usage(format!("`{}` is empty", data.display()))
                .help("was it written completely?"));
        }
        study.rows = usize::try_from(size / 64).unwrap_or(usize::MAX);
        study.findings.push(format!("{}: {size} bytes of text", shown(data)));
        take_running_text(tasks::named(arguments)?, &mut study)?;
    } else {
        let mut table = columns::read(data)?;
        for part in others {
            looked_at += 1;
            if !table.extend(columns::read(part)?) {
                break;
            }
        }
        settle_header(&mut table, data, arguments, questions, &mut study)?;
        study.rows = table.rows;
        if parts.is_some() {
            let (all, looked) = (others.len() as u64 + 1, looked_at as u64);
            let read = if looked < all {
                format!(", of which {looked} were looked at")
            } else {
                String::new()
            };
            study.findings.push(format!("{}: {}{read}", shown(&path), count(all, "file")));
        }
        tasks::settle((&table, data), model.as_ref(), arguments, questions, &mut study)?;
    }
    take_splits(&path, data, parts.is_some(), arguments, &mut study)?;
    if let Some(model) = &model {
        study.take_model(model)?;
    }
    for finding in &study.findings {
        console.say(finding);
    }
    study.trials = asked_trials(questions, study.trials)?;
    let text = study.text();
    // Errors (such as a model that cannot be found) are reported before anything is written.
    parsed(&text, &arguments.output).map(|()| text)
}

/// Takes the validation and test data that lie beside the training data.
fn take_splits(
    path: &Path,
    data: &Path,
    has_parts: bool,
    arguments: &InitArguments,
    study: &mut TrainerStudy,
) -> Result<(), Failure> {
    for (split, words) in
        [("validation", &["validation", "valid", "val", "dev"][..]), ("test", &["test"])]
    {
        let found = match has_parts {
            false => beside(data, words),
            true => {
                let folder = path.parent().filter(|_| pattern_of(path).is_some());
                let mut patterns = words.iter().filter_map(|word| pattern_of_split(folder?, word));
                patterns.next().filter(|_| split_of(data) == Some(Split::Train))
            }
        };
        if let Some(path) = found {
            if let Some(why) = left_out(&path, study) {
                study.findings.push(format!("{split}: {} is left out: {why}", shown(&path)));
                continue;
            }
            study
                .findings
                .push(format!("{split}: {}, found beside the training file", shown(&path)));
            let path = as_named(&path, &arguments.output)?;
            match split {
                "test" => study.test = Some(path),
                _ => study.validation = Some(path),
            }
        }
    }
    Ok(())
}

/// What is learned from.
struct Source {
    /// What the study names: a file, a folder or a pattern.
    path: PathBuf,
    /// The file that is looked at.
    file: PathBuf,
    /// The other files of a folder or a pattern.
    parts: Option<Vec<PathBuf>>,
}

/// The file at a path, the training file in a directory, or the parts of a data set in a directory
/// or behind a pattern.
fn source(data: &Path) -> Result<Source, Failure> {
    let is_pattern = !data.exists() && pattern_of(data).is_some();
    if !is_pattern && !data.is_dir() {
        return Ok(Source { path: data.to_owned(), file: data.to_owned(), parts: None });
    }
    // Names of parts differ in numbers.
    let without_digits = |path: &PathBuf| -> Option<String> {
        let name = path.file_name()?.to_str()?;
        Some(name.chars().filter(|char| !char.is_ascii_digit()).collect())
    };
    let are_parts = |files: &DataFiles| {
        let first = files.paths.first().and_then(without_digits);
        files.paths.len() > 1 && files.paths.iter().all(|path| without_digits(path) == first)
    };
    let several = || data_files(data).ok().filter(|files| is_pattern || are_parts(files));
    let file = if is_pattern { Err(None) } else { training_file(data).map_err(Some) };
    let is_train = |file: &PathBuf| stem_of(file).is_some_and(|(stem, _)| stem == "train");
    if !is_pattern
        && !file.as_ref().is_ok_and(is_train)
        && let Some(train) = pattern_of_split(data, "train")
    {
        return source(&train);
    }
    match (file, several()) {
        (Ok(file), _) => Ok(Source { path: file.clone(), file, parts: None }),
        (Err(_), Some(files)) if !model::is_one(data) => {
            if let Some([train, other]) = several_splits(&files.paths) {
                let message = format!(
                    "`{}` matches files of several splits: `{}` and `{}`",
                    data.display(),
                    train.display(),
                    other.display()
                );
                return Err(Failure::usage(message).help("give a pattern of the training files"));
            }
            let mut paths = files.paths.into_iter();
            let file = paths.next().unwrap_or_else(|| data.to_owned());
            Ok(Source { path: data.to_owned(), file, parts: Some(paths.collect()) })
        }
        (Err(Some(failure)), _) => Err(failure),
        (Err(None), _) => {
            let error = data_files(data).err().map(|error| error.to_string());
            Err(Failure::usage(
                error.unwrap_or_else(|| format!("there is no `{}`", data.display())),
            )
            .help("the pattern names files of one format, as in 'data/train-*.csv'"))
        }
    }
}

/// A file and one of another split, by their names.
fn several_splits(files: &[PathBuf]) -> Option<[&PathBuf; 2]> {
    let first = files.first()?;
    let other = files.iter().find(|other| split_of(other) != split_of(first))?;
    Some([first, other])
}

/// The pattern of the files of one split, in a folder or in one beside them: `data/train-*.csv`.
fn pattern_of_split(folder: &Path, split: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let begins = |path: &PathBuf| {
        let (stem, ending) = stem_of(path)?;
        let number = stem.strip_prefix(split)?.strip_prefix('-')?;
        number.starts_with(|char: char| char.is_ascii_digit()).then(|| ending.to_owned())
    };
    let endings: Vec<String> = entries.filter_map(|path| begins(&path)).collect();
    let first = endings.first()?;
    let is_several = split != "train" || endings.len() > 1;
    (is_several && endings.iter().all(|ending| ending == first))
        .then(|| folder.join(format!("{split}-*{first}")))
}

/// Why a file beside the training file is not taken: rows of it lack what the study reads.
fn left_out(path: &Path, study: &TrainerStudy) -> Option<String> {
    if study.columns.is_empty() || study.column_names.is_some() {
        return None;
    }
    let first = data_files(path).ok()?.paths.into_iter().next()?;
    let table = columns::read(&first).ok()?;
    study.columns.iter().find_map(|(key, name)| match table.column(name) {
        None => Some(format!("it has no column `{}`", one_line(name))),
        Some(column) if ["label", "score", "target"].contains(key) && column.is_empty() => {
            Some(format!("`{}` is empty in it", one_line(name)))
        }
        Some(_) => None,
    })
}

/// The task of a file of running text.
fn take_running_text(task: Option<TaskKind>, study: &mut TrainerStudy) -> Result<(), Failure> {
    study.task = task.unwrap_or(TaskKind::LanguageModeling);
    let name = study.task.line().name;
    if !matches!(study.task, TaskKind::LanguageModeling | TaskKind::MaskedLanguageModeling) {
        let message = format!("a .txt file has no columns, which `{name}` needs");
        return Err(Failure::usage(message).help("give a file with rows: .csv, .jsonl, .."));
    }
    let why = if task.is_some() { "by --task" } else { "a .txt file has no labels" };
    study.findings.push(format!("task {name}: {why}"));
    Ok(())
}

fn size(data: &Path) -> Result<u64, Failure> {
    let found = fs::metadata(data).and_then(|found| {
        if found.is_file() { Ok(found) } else { Err(io::Error::other("it is not a file")) }
    });
    found.map(|found| found.len()).map_err(|error| {
        Failure::usage(format!("`{}` cannot be read: {error}", data.display()))
            .help(format!("give the path of a data file: {KNOWN_ENDINGS}"))
    })
}

/// The file in a directory that is named after the training split, or the only one.
pub fn training_file(directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory.display();
    if model::is_one(directory) {
        return Err(Failure::usage(format!("`{place}` holds a model, not data")).help(format!(
            "to fine-tune it on a data file: `hpsearch init DATA --model {place}`"
        )));
    }
    let unread = |error: io::Error| {
        Failure::usage(format!("`{place}` cannot be read: {error}"))
            .help("give the path of the data file")
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unread)? {
        files.push(entry.map_err(unread)?.path());
    }
    files.retain(|path| {
        // Most JSON files are none with data.
        format_of(path).is_some_and(|(format, _)| format != DataFormat::Json) && path.is_file()
    });
    files.sort();
    let stem =
        |path: &PathBuf| stem_of(path).map_or_else(String::new, |(stem, _)| stem.to_lowercase());
    let called = |is_it: &dyn Fn(&str) -> bool| {
        let mut those = files.iter().filter(|path| is_it(&stem(path)));
        those.next().filter(|_| those.next().is_none()).cloned()
    };
    if let Some(file) = called(&|stem| stem == "train")
        .or_else(|| called(&|stem| stem.contains("train")))
        .or_else(|| called(&|_| true))
    {
        return Ok(file);
    }
    let Some(first) = files.first() else {
        return Err(Failure::usage(format!("there is no data file in `{place}`"))
            .help(format!("give the path of the file to learn from: {KNOWN_ENDINGS}")));
    };
    let names: Vec<String> =
        files.iter().take(5).map(|path| format!("`{}`", shown(path))).collect();
    let more = if files.len() > 5 { ", ..." } else { "" };
    Err(Failure::usage(format!(
        "several data files in `{place}`: {}{more}; which one is the training file?",
        names.join(", ")
    ))
    .help(help_of_several(directory, first, &files)))
}

/// What to do about several files, which may be parts of one set.
fn help_of_several(directory: &Path, first: &Path, files: &[PathBuf]) -> String {
    let name = format!("name it: `hpsearch init {}`", shown(first));
    let ending = |path: &Path| Some(stem_of(path)?.1.to_owned());
    let is_shared = |one: &String| files.iter().all(|path| ending(path).as_ref() == Some(one));
    let is_one_split = several_splits(files).is_none();
    let Some(shared) = ending(first).filter(is_shared).filter(|_| is_one_split) else {
        return name;
    };
    let pattern = directory.join(format!("*{shared}"));
    format!(
        "{name}; if they are parts of one set, give a pattern: `hpsearch init '{}'`",
        shown(&pattern)
    )
}

/// Determines the separator and whether the first line is a header, and reports both.
fn settle_header(
    table: &mut DataTable,
    data: &Path,
    arguments: &InitArguments,
    questions: &Questions,
    study: &mut TrainerStudy,
) -> Result<(), Failure> {
    let rows = |table: &DataTable| {
        if table.is_cut {
            format!("more than {} rows", table.rows)
        } else {
            count(table.rows as u64, "row")
        }
    };
    let Some(separator) = table.separator else {
        study.findings.push(format!("{}: {}", shown(data), rows(table)));
        return Ok(());
    };
    let doubt = table.doubt().filter(|_| !arguments.header);
    let why = match &doubt {
        Some(doubt) if doubt.same > 0 => {
            format!(
                "`{}` in column {} is also a value of {}",
                one_line(&doubt.cell),
                doubt.column,
                count(doubt.same, "other row")
            )
        }
        Some(doubt) => format!(
            "`{}` in column {} is a number, as all of that column are",
            one_line(&doubt.cell),
            doubt.column
        ),
        None => "--no-header says so".to_owned(),
    };
    let has_header = match &doubt {
        _ if arguments.no_header => false,
        Some(_) => questions.ask_whether(
            &format!("Does line 1 of {} name the columns? {why}", shown(data)),
            false,
        )?,
        None => true,
    };
    if !has_header {
        table.without_header();
    }
    let unusual = separator != usual_separator(data);
    let separated = if unusual {
        format!(", separated by {}", shown_separator(separator))
    } else {
        String::new()
    };
    study.findings.push(format!("{}: {}{separated}", shown(data), rows(table)));
    study.separator = Some(separator).filter(|_| unusual);
    if !has_header {
        let named = table.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        study.findings.push(format!(
            "no header: {why}; the columns are called {} (`--header`: line 1 names them)",
            named.join(", ")
        ));
        study.column_names = Some(named);
    }
    Ok(())
}

/// A file beside the training data that holds another split: `valid.csv`, or `reviews-test.csv`
/// beside `reviews-train.csv`.
fn beside(data: &Path, splits: &[&str]) -> Option<PathBuf> {
    let (stem, ending) = stem_of(data)?;
    let others = splits.iter().map(|split| {
        if stem.contains("train") {
            stem.replacen("train", split, 1)
        } else {
            format!("{stem}-{split}")
        }
    });
    let plain = splits.iter().filter(|_| stem == "train").map(|split| (*split).to_owned());
    others
        .chain(plain)
        .map(|stem| data.with_file_name(format!("{stem}{ending}")))
        .find(|path| path.is_file())
}

/// The name of a data file before and from its ending: `train` and `.csv.gz`.
fn stem_of(path: &Path) -> Option<(&str, &str)> {
    let name = path.file_name()?.to_str()?;
    let (_, compression) = format_of(path)?;
    let dots = if compression.is_some() { 2 } else { 1 };
    let (at, _) = name.rmatch_indices('.').nth(dots - 1)?;
    Some(name.split_at(at))
}
