//! `hpsearch init`: a first study file, from a look at the data or at the command that trains.

mod columns;
mod script;
mod study_file;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{Console, shown};
use super::exit::{Exit, Failure};
use crate::arguments::TRAINER_TASKS;
use crate::config::{self, ConfigError};
use crate::metric::Direction;
use crate::reporters::wording::{count, one_line};
use columns::Table;
use study_file::{Task, TrainerStudy};

const EXAMPLES: &str = "\
Examples:
  hpsearch init reviews.csv                     texts and labels
  hpsearch init reviews.csv --yes               without questions
  hpsearch init --command \"python train.py\"     any program
  hpsearch init --command \"./train --lr 0.01\"   numbers become parameters

What is in the file is guessed: the columns of texts and labels, the classes,
the lengths. Files beside it called validation or test are taken as such.
An existing file is never overwritten.";

/// What `hpsearch init` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InitArguments {
    /// The data to learn from: csv, tsv, jsonl or txt
    #[arg(value_name = "DATA")]
    pub data: Option<PathBuf>,
    /// The program to search instead, as it is typed
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["data", "text", "label"])]
    pub command: Option<String>,
    /// The study file to write
    #[arg(short, long, value_name = "STUDY.toml", default_value = "study.toml")]
    pub output: PathBuf,
    /// The study's name; by default that of the data or the script
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The column of texts
    #[arg(long, value_name = "COLUMN")]
    pub text: Option<String>,
    /// The column of labels
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
    /// The metric that the program prints
    #[arg(long, value_name = "NAME", conflicts_with = "data")]
    pub metric: Option<String>,
    /// The budget
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..))]
    pub trials: u64,
    /// Take all guesses without asking
    #[arg(short, long)]
    pub yes: bool,
}

/// Asks the person on the terminal, or takes the guess.
struct Questions {
    asks: bool,
}

impl Questions {
    /// The answer to `question`; Enter takes `guess`.
    fn ask(&self, question: &str, guess: &str) -> Result<String, Failure> {
        if !self.asks {
            return Ok(guess.to_owned());
        }
        io::stderr().write_all(format!("{question} [{}] ", one_line(guess)).as_bytes())?;
        let mut answer = String::new();
        if io::stdin().lock().read_line(&mut answer)? == 0 {
            return Err(Failure::usage("nothing was written").help("`hpsearch init --yes` takes the guesses without asking"));
        }
        Ok(if answer.trim().is_empty() { guess.to_owned() } else { answer.trim().to_owned() })
    }
}

/// Writes the study file.
pub fn init(arguments: &InitArguments, console: &mut Console) -> Result<Exit, Failure> {
    if arguments.output.exists() {
        return Err(Failure::usage(format!("`{}` exists, and nothing is overwritten", arguments.output.display()))
            .help("`hpsearch init -o OTHER.toml` writes another file, `hpsearch check` looks at this one"));
    }
    let questions = Questions { asks: !arguments.yes && io::stdin().is_terminal() && io::stderr().is_terminal() };
    let text = match (&arguments.data, &arguments.command) {
        (Some(data), _) => of_data(data, arguments, &questions, console)?,
        (None, Some(command)) => of_command(command, arguments, &questions, console)?,
        (None, None) => {
            return Err(Failure::usage("what shall be searched: a data file, or a program?")
                .help("`hpsearch init data.csv` for the built-in trainer, `hpsearch init --command \"python train.py\"` for a program"));
        }
    };
    write(&arguments.output, &text)?;
    // What was guessed must hold; if it does not, the file says where, and can be mended.
    config::load(&arguments.output, &[])?;
    let file = shown(&arguments.output);
    console.say(&format!("wrote {file}\nnext: `hpsearch check {file}` looks at it and its data, `hpsearch run {file}` searches"));
    Ok(Exit::Done)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let broken =
        |error: io::Error| Failure::new(Exit::Usage, error).help(format!("`{}` cannot be written: choose another with `-o`", path.display()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(broken)?;
    file.write_all(text.as_bytes()).map_err(broken)
}

fn of_data(data: &Path, arguments: &InitArguments, questions: &Questions, console: &mut Console) -> Result<String, Failure> {
    let extension = data.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let name = name(arguments, data);
    let named = |path: &Path| as_named(path, &arguments.output);
    let mut study = TrainerStudy {
        name,
        task: Task::LanguageModeling,
        train: named(data)?,
        validation: None,
        test: None,
        text: None,
        rows: 0,
        max_length: 64,
        trials: arguments.trials,
        findings: Vec::new(),
    };
    if extension == "txt" {
        let size = fs::metadata(data)
            .and_then(|found| if found.is_file() { Ok(found) } else { Err(io::Error::other("it is no file")) })
            .map_err(|error| {
                Failure::usage(format!("`{}` cannot be read: {error}", data.display())).help("give the path of a csv, tsv, jsonl or txt file")
            })?
            .len();
        study.rows = usize::try_from(size / 64).unwrap_or(usize::MAX);
        study.findings.push(format!("{}: {size} bytes of text, learnt character by character", shown(data)));
    } else {
        let table = columns::read(data)?;
        study.rows = table.rows;
        look(&table, data, arguments, questions, &mut study)?;
        study.validation = beside(data, &["validation", "valid", "val", "dev"]).map(|path| named(&path)).transpose()?;
        study.test = beside(data, &["test"]).map(|path| named(&path)).transpose()?;
    }
    known(&study.task)?;
    for finding in &study.findings {
        console.say(finding);
    }
    study.trials = asked_trials(questions, arguments.trials)?;
    Ok(study.text())
}

/// Settles the columns, and says what is in them.
fn look(table: &Table, data: &Path, arguments: &InitArguments, questions: &Questions, study: &mut TrainerStudy) -> Result<(), Failure> {
    let (text, label) = columns::guess(table);
    let names = || table.columns.iter().map(|column| format!("`{}`", one_line(&column.name))).collect::<Vec<_>>().join(", ");
    let found = |named: &str| {
        table
            .column(named)
            .ok_or_else(|| Failure::usage(format!("`{}` has no column `{}`", data.display(), one_line(named))).help(format!("it has {}", names())))
    };
    let text = match (&arguments.text, text) {
        (Some(named), _) => found(named)?,
        (None, Some(guess)) => found(&questions.ask(&format!("Which column holds the texts? (of {})", names()), &guess.name)?)?,
        (None, None) => return Err(Failure::usage(format!("`{}` has no column of texts", data.display())).help(format!("it has {}", names()))),
    };
    let label = match (&arguments.label, label) {
        (Some(named), _) => Some(found(named)?),
        (None, Some(guess)) if guess.name != text.name => Some(found(&questions.ask("Which column holds the labels?", &guess.name)?)?),
        _ => None,
    };
    let rows = if table.is_cut { format!("more than {} rows", table.rows) } else { count(table.rows as u64, "row") };
    let (median, long) = (text.words_at(0.5), text.words_at(0.95));
    study.findings.push(format!(
        "{}: {rows}; `{}` has {median} words in the middle, {long} or fewer in 95 % of the rows",
        shown(data),
        one_line(&text.name)
    ));
    study.text = Some(text.name.clone());
    // Half as many tokens again as words, and the two that frame them.
    study.max_length = (long.saturating_mul(3) / 2 + 2).next_power_of_two().clamp(32, 512);
    let Some(label) = label else {
        study.findings.push("no column looks like labels: the texts themselves are learnt (`--label COLUMN` names one)".to_owned());
        return Ok(());
    };
    let values = label.values.as_ref().filter(|values| values.len() >= 2);
    let Some(values) = values else {
        return Err(Failure::usage(format!("`{}` holds no labels: it has one value, or a thousand and more", one_line(&label.name)))
            .help("`--label COLUMN` names another column"));
    };
    let mut classes: Vec<(&String, &u64)> = values.iter().collect();
    classes.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let first: Vec<String> = classes.iter().take(5).map(|(name, rows)| format!("{} ({rows})", one_line(name))).collect();
    let more = if classes.len() > 5 { ", ..." } else { "" };
    study.findings.push(format!("`{}` has {} classes: {}{more}", one_line(&label.name), classes.len(), first.join(", ")));
    study.task = Task::Classification { label: label.name.clone(), unbalanced: label.largest_share() > 0.6 };
    Ok(())
}

/// Whether the trainer of this version knows the task.
fn known(task: &Task) -> Result<(), Failure> {
    let name = match task {
        Task::Classification { .. } => "text-classification",
        Task::LanguageModeling => "language-modeling",
    };
    if TRAINER_TASKS.iter().any(|known| known.name == name) {
        return Ok(());
    }
    Err(Failure::usage(format!("this data is for the task {name}, which the built-in trainer does not have yet"))
        .help("`hpsearch list tasks` shows what it has; `--text` and `--label` name columns for text-classification"))
}

/// A file beside the training data that holds another split: `valid.csv`, or `reviews-test.csv` beside `reviews-train.csv`.
fn beside(data: &Path, splits: &[&str]) -> Option<PathBuf> {
    let stem = data.file_stem()?.to_str()?;
    let extension = data.extension()?;
    let others = splits.iter().map(|split| if stem.contains("train") { stem.replacen("train", split, 1) } else { format!("{stem}-{split}") });
    let plain = splits.iter().filter(|_| stem == "train").map(|split| (*split).to_owned());
    others.chain(plain).map(|stem| data.with_file_name(stem).with_extension(extension)).find(|path| path.is_file())
}

/// A file as the study file names it: relative to the study file, where both are below the current directory.
fn as_named(path: &Path, study: &Path) -> Result<String, Failure> {
    let is_here = study.parent().is_none_or(|parent| parent == Path::new(""));
    let named = if is_here && path.is_relative() { path.to_owned() } else { std::path::absolute(path)? };
    named.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!("`{}` is no UTF-8 name, and study files are UTF-8", path.display()))
            .help("rename it, or link to it under another name")
    })
}

/// Names of files and directories that tell nothing of what is in them.
const GENERIC: [&str; 24] = [
    "train",
    "training",
    "data",
    "dataset",
    "datasets",
    "input",
    "inputs",
    "main",
    "run",
    "script",
    "scripts",
    "src",
    "code",
    "study",
    "studies",
    "experiment",
    "experiments",
    "project",
    "projects",
    "tmp",
    "temp",
    "home",
    "root",
    "work",
];

/// The study's name: as asked, else after the file, its directory where the file is only called after its split.
fn name(arguments: &InitArguments, file: &Path) -> String {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let tells = |name: &String| !GENERIC.contains(&name.to_lowercase().as_str());
    let of_file = stem(&absolute).filter(tells);
    let of_directory = || {
        let parents = absolute.ancestors().skip(1).filter_map(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        parents.take(3).find(tells)
    };
    let name = arguments.name.clone().or(of_file).or_else(of_directory).unwrap_or_else(|| "study".to_owned());
    let plain: String = name.chars().map(|char| if char.is_alphanumeric() || "-_.".contains(char) { char } else { '-' }).collect();
    let plain = plain.trim_matches(['.', '-']);
    if plain.is_empty() { "study".to_owned() } else { plain.to_owned() }
}

fn asked_trials(questions: &Questions, guess: u64) -> Result<u64, Failure> {
    let answer = questions.ask("How many trials?", &guess.to_string())?;
    answer
        .parse()
        .ok()
        .filter(|trials| *trials > 0)
        .ok_or_else(|| Failure::usage(format!("`{}` is no number of trials", one_line(&answer))).help("write a whole number, such as 24"))
}

fn of_command(command: &str, arguments: &InitArguments, questions: &Questions, console: &mut Console) -> Result<String, Failure> {
    let words = script::words(command).map_err(|why| {
        Failure::usage(format!("`{}` is no command: {why}", one_line(command))).help("write it as you type it: --command \"python train.py\"")
    })?;
    let directory = arguments.output.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let script = checked(script::look(&words, directory), &words, &arguments.output)?;
    let names: Vec<&str> = script.space.iter().map(|searched| searched.name.as_str()).collect();
    if names.is_empty() {
        console.say("nothing to search was found in the command: the study file has an example to change");
    } else {
        console.say(&format!("searched: {}", one_line(&names.join(", "))));
    }
    let guess = arguments.metric.clone().or_else(|| script.metric.clone());
    if guess.is_none() {
        console.say("the program must print lines like `@hpsearch {\"step\": 1, \"loss\": 0.5}`");
    }
    let metric = match &arguments.metric {
        Some(metric) => metric.clone(),
        None => questions.ask("Which metric does it print?", guess.as_deref().unwrap_or("loss"))?,
    };
    let direction = match questions.ask("Minimize or maximize it?", script::direction(&metric).as_str())?.to_ascii_lowercase().as_str() {
        word if "maximize".starts_with(word) && word.starts_with("ma") => Direction::Maximize,
        word if "minimize".starts_with(word) && word.starts_with("mi") => Direction::Minimize,
        other => {
            return Err(
                Failure::usage(format!("`{}` is neither minimize nor maximize", one_line(other))).help("run it again, and press Enter for the guess")
            );
        }
    };
    let trials = asked_trials(questions, arguments.trials)?;
    let file = script.file.clone().unwrap_or_else(|| script.run.first().cloned().unwrap_or_default());
    let text = study_file::of_command(&name(arguments, Path::new(&file)), &script, &metric, direction, trials);
    // What cannot be a study (a program without a name) is told before anything is written.
    parsed(&text, &arguments.output).map(|()| text)
}

/// What was found to search, as far as a study can search it: else nothing, and all words stay as they are.
fn checked(script: script::Script, words: &[String], output: &Path) -> Result<script::Script, Failure> {
    let text = study_file::of_command("study", &script, "loss", Direction::Minimize, 1);
    Ok(if parsed(&text, output).is_ok() { script } else { script::plain(words, &script) })
}

/// Whether a text is a study, as a file at `output`.
fn parsed(text: &str, output: &Path) -> Result<(), Failure> {
    let base = std::path::absolute(output)?;
    config::parse(text, output, base.parent().unwrap_or(Path::new("/")), &[]).map(drop).map_err(|problems| ConfigError::Invalid(problems).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Program;
    use proptest::prelude::*;

    /// Words as people write them, with what has a meaning in study files and their comments among them.
    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("--lr".to_owned()),
            Just("--num-layers".to_owned()),
            Just("0.1".to_owned()),
            "-{0,3}[a-z{}._-]{0,6}(=|=[0-9.e-]{1,6}|=1e-?[0-9]{1,3})?",
            "-?[0-9]{1,20}",
            "[0-9]{0,2}[.]?[0-9]{1,2}(e-?[0-9]{1,3})?",
            r#"([{}]|lr|num_layers|[a-z]|"|\\|'|\x01|\n|\n\n|#|=|\x7f|é){0,10}"#,
        ]
    }

    proptest! {
        #[test]
        fn whatever_a_command_is_its_study_file_holds_and_its_words_are_as_they_were(words in prop::collection::vec(word(), 0..8)) {
            let mut words = words;
            words.insert(0, "sh".to_owned());
            let directory = tempfile::tempdir().unwrap();
            let output = directory.path().join("study.toml");
            let script = checked(script::look(&words, directory.path()), &words, &output).unwrap();
            let text = study_file::of_command("study", &script, "lo\nss", Direction::Minimize, 3);
            let spec = config::parse(&text, &output, directory.path(), &[]).map_err(|problems| TestCaseError::fail(format!("{problems}\n{text}")))?;
            let Program::Command { run, .. } = &spec.program else { panic!("{text}") };
            let default = |name: &str| script.space.iter().find(|searched| searched.name == name).and_then(|searched| searched.default.clone());
            let knows = |name: &str| spec.space.dimension(name).is_some();
            let back: Vec<String> =
                run.iter().map(|word| config::placeholder::fill_in(word, knows, |name| default(name).unwrap_or_default())).collect();
            prop_assert_eq!(back, words);
        }
    }

    #[test]
    fn an_option_that_is_given_twice_is_two_parameters() {
        let words = script::words("sh -c x --layer 32 --layer 64 --layer_2=3 --{lr}=3 '{print}'").unwrap();
        let script = script::look(&words, Path::new("/"));
        let names: Vec<&str> = script.space.iter().map(|searched| searched.name.as_str()).collect();
        assert_eq!(names, ["layer", "layer_2", "layer_2_2"]);
        assert_eq!(script.run[3..], ["--layer", "{layer}", "--layer", "{layer_2}", "--layer_2={layer_2_2}", "--{{lr}}=3", "{{print}}"]);
    }

    #[test]
    fn a_study_is_not_named_after_what_tells_nothing() {
        let arguments = InitArguments {
            data: None,
            command: None,
            output: "study.toml".into(),
            name: None,
            text: None,
            label: None,
            metric: None,
            trials: 1,
            yes: true,
        };
        let named = |file: &str| name(&arguments, Path::new(file));
        assert_eq!(named("/home/ada/reviews.csv"), "reviews");
        assert_eq!(named("/home/ada/films/studies/train.csv"), "films");
        assert_eq!(named("/home/ada/films/data/train.csv"), "films");
        assert_eq!(named("/tmp/studies/data.csv"), "study");
        assert_eq!(name(&InitArguments { name: Some("studies".into()), ..arguments.clone() }, Path::new("train.csv")), "studies");
    }
}
