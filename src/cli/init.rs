//! `hpsearch init`: a first study file, derived from the data or from the training command.

mod args;
mod columns;
mod data;
mod declared;
mod guesses;
mod model;
mod ranges;
mod script;
mod study_file;
mod tasks;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::console::{ask, can_ask, shown, typed};
use super::output_file::whole_file;
use super::{Console, Exit, Failure};
use crate::app::missing_files::missing_files;
use crate::app::sweep::{Given, LARGEST_FILE, Sweep};
use crate::config::{self, ConfigError};
use crate::report::wording::one_line;
use crate::study::metric::Direction;
use crate::study::usual_direction::proposed_direction;
use crate::study::word;

const EXAMPLES: &str = "\
Examples:
  hpsearch init reviews.csv                     texts and labels
  hpsearch init reviews.csv --yes               without questions
  hpsearch init data/                           its train.csv
  hpsearch init sms.tsv --no-header             the first line is a row
  hpsearch init reviews.csv --model bert/       fine-tunes a pretrained model
  hpsearch init news.csv --target summary       texts to write
  hpsearch init mails.csv --task masked-language-modeling --model bert/
  hpsearch init --command \"python train.py\"     any program
  hpsearch init --command \"./train --lr 0.01\"   numbers become parameters
  hpsearch init --sweep sweep.yaml              a sweep of Weights & Biases

The content of the file is guessed: the separator, whether there is a header,
the task, the columns of texts and labels, the classes, the lengths. Files
beside it called validation or test are used as these splits.
An existing file is never overwritten.";

/// The budget, unless it is given.
const TRIALS: u64 = 24;

/// Arguments of `hpsearch init`.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InitArguments {
    /// The data to learn from: csv, tsv, jsonl, json, parquet, arrow, conll or txt, or a directory
    /// with such a file
    #[arg(value_name = "DATA")]
    pub data: Option<PathBuf>,
    /// The program to search instead, as it is typed
    #[arg(
        long,
        value_name = "COMMAND",
        conflicts_with_all = [
            "data", "task", "text", "text_pair", "label", "target", "model", "header", "no_header",
        ]
    )]
    pub command: Option<String>,
    /// A sweep of Weights & Biases to translate, as `wandb sweep` takes it
    #[arg(
        long,
        value_name = "SWEEP.yaml",
        conflicts_with_all = [
            "data", "command", "task", "text", "text_pair", "label", "target", "model", "header",
            "no_header",
        ]
    )]
    pub sweep: Option<PathBuf>,
    /// The study file to write
    #[arg(short, long, value_name = "STUDY.toml", default_value = "study.toml")]
    pub output: PathBuf,
    /// The study's name; by default that of the study file or, if that is study.toml, of the data,
    /// the script or the sweep
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The task, one of `hpsearch list tasks`; by default guessed from the columns
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// The column of texts
    #[arg(long, value_name = "COLUMN")]
    pub text: Option<String>,
    /// The column of second texts, of pairs
    #[arg(long, value_name = "COLUMN", conflicts_with = "target")]
    pub text_pair: Option<String>,
    /// The column of labels, or of numbers to learn
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
    /// The column of texts to write: translations, summaries
    #[arg(long, value_name = "COLUMN", conflicts_with = "label")]
    pub target: Option<String>,
    /// The first line of a csv or tsv file names the columns, whatever it looks like
    #[arg(long, conflicts_with = "no_header")]
    pub header: bool,
    /// The first line of a csv or tsv file is a row; the columns are called column1, column2, ..
    #[arg(long)]
    pub no_header: bool,
    /// A pretrained model to fine-tune: a directory in Hugging Face's layout, or a name on the Hub
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The metric that the program prints
    #[arg(long, value_name = "NAME", conflicts_with = "data")]
    pub metric: Option<String>,
    /// The budget; by default 24, or the `run_cap` of a sweep
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub trials: Option<u64>,
    /// Accept all guesses without asking
    #[arg(short, long)]
    pub yes: bool,
}

/// Asks the user on the terminal, or uses the default.
struct Questions {
    asks: bool,
}

impl Questions {
    /// The answer to `question`; Enter takes `guess`.
    fn ask(&self, question: &str, guess: &str) -> Result<String, Failure> {
        if !self.asks {
            return Ok(guess.to_owned());
        }
        let answer = ask(&format!("{question} [{}] ", one_line(guess)))?.ok_or_else(|| {
            Failure::usage("nothing was written")
                .help("`hpsearch init --yes` accepts the guesses without asking")
        })?;
        Ok(if answer.is_empty() { guess.to_owned() } else { answer })
    }

    /// Whether it is so.
    fn ask_whether(&self, question: &str, guess: bool) -> Result<bool, Failure> {
        let answer = self.ask(question, if guess { "yes" } else { "no" })?;
        match answer.to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(true),
            "n" | "no" => Ok(false),
            _ => Err(Failure::usage(format!("`{}` is neither yes nor no", one_line(&answer)))
                .help("run it again, and press Enter for the guess")),
        }
    }
}

/// Writes the study file.
pub fn init(arguments: &InitArguments, console: &mut Console) -> Result<Exit, Failure> {
    if arguments.output.exists() {
        return Err(Failure::usage(format!(
            "`{}` exists, and nothing is overwritten",
            arguments.output.display()
        ))
        .help(
            "`hpsearch init -o OTHER.toml` writes another file, `hpsearch check` checks this one",
        ));
    }
    let questions = Questions { asks: !arguments.yes && can_ask() };
    let text = match (&arguments.data, &arguments.command, &arguments.sweep) {
        (Some(data), ..) => data::of_data(data, arguments, &questions, console)?,
        (_, Some(command), _) => of_command(command, arguments, &questions, console)?,
        (.., Some(sweep)) => of_sweep(sweep, arguments, console)?,
        (None, None, None) if arguments.model.is_some() => {
            return Err(Failure::usage("there is no data to fine-tune the model on")
                .help("give the data too: `hpsearch init data.csv --model MODEL`"));
        }
        (None, None, None) => {
            let near = data::training_file(Path::new(".")).ok();
            let near = near.map(|data| format!("did you mean `hpsearch init {}`? ", typed(&data)));
            return Err(Failure::usage("neither a data file nor a program is given").help(
                format!(
                    "{}`hpsearch init data.csv` is for the built-in trainer, `hpsearch init \
                 --command \"python train.py\"` for a program",
                    near.unwrap_or_default()
                ),
            ));
        }
    };
    whole_file(&arguments.output, |out| Ok(out.write_all(text.as_bytes())?))?;
    // The defaults may be invalid for this data; the error locates the problem in the file.
    let spec = config::load(&arguments.output, &[])?;
    missing_files(&spec).iter().for_each(|missing| console.say(&missing.to_string()));
    let file = shown(&arguments.output);
    let named = typed(Path::new(&file));
    let [check, run] = ["check", "run"].map(|verb| console.next(&format!("{verb} {named}")));
    let has_data = arguments.command.is_none() && arguments.sweep.is_none();
    let looks = if has_data { " and its data" } else { "" };
    console.say(&format!("wrote {file}\nnext: {check} looks at it{looks}, {run} searches"));
    Ok(Exit::Done)
}

/// A file's path in the study file: relative to it, if both are below the current directory.
fn as_named(path: &Path, study: &Path) -> Result<String, Failure> {
    let is_here = study.parent().is_none_or(|parent| parent == Path::new(""));
    let named =
        if is_here && path.is_relative() { path.to_owned() } else { std::path::absolute(path)? };
    named.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!(
            "`{}` is not a UTF-8 name, and study files are UTF-8",
            path.display()
        ))
        .help("rename it, or link to it under another name")
    })
}

/// Generic names of files and directories.
const GENERIC: &str = "\
    train training data dataset datasets input inputs main run script scripts src code study \
    studies experiment experiments project projects sweep sweeps tmp temp home root work";

/// The study's name: the given one; else that of the study file unless it is `study.toml`; else
/// `own`; else that of `file`: the data, the script or the sweep. For data named after a split,
/// that of its directory.
fn name(arguments: &InitArguments, own: Option<&str>, file: &Path) -> String {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let tells = |name: &String| !GENERIC.split(' ').any(|word| name.to_lowercase() == word);
    let of_study_file = stem(&arguments.output).filter(|name| name != "study");
    let of_file = stem(&absolute).filter(|name| arguments.command.is_some() || tells(name));
    let of_directory = || {
        let parents = absolute
            .ancestors()
            .skip(1)
            .filter_map(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned());
        parents.take(3).find(tells)
    };
    let name = arguments
        .name
        .clone()
        .or(of_study_file)
        .or_else(|| own.map(|own| own.chars().take(100).collect()))
        .or(of_file)
        .or_else(of_directory)
        .unwrap_or_else(|| "study".to_owned());
    let plain: String = word::composed(&name)
        .chars()
        .map(|char| if word::is_of_word(char) || "-_.".contains(char) { char } else { '-' })
        .collect();
    let plain = plain.trim_start_matches(|char: char| !char.is_alphanumeric());
    let plain = plain.trim_end_matches(['.', '-']);
    if plain.is_empty() { "study".to_owned() } else { plain.to_owned() }
}

fn asked_trials(questions: &Questions, guess: u64) -> Result<u64, Failure> {
    let answer = questions.ask("How many trials?", &guess.to_string())?;
    answer.parse().ok().filter(|trials| *trials > 0).ok_or_else(|| {
        Failure::usage(format!("`{}` is not a number of trials", one_line(&answer)))
            .help("write an integer, such as 24")
    })
}

/// The study file of a sweep; what it has not of the sweep is said.
fn of_sweep(
    file: &Path,
    arguments: &InitArguments,
    console: &mut Console,
) -> Result<String, Failure> {
    let unreadable = |error: io::Error| {
        Failure::usage(format!("`{}` cannot be read: {error}", file.display()))
            .help("give the file that `wandb sweep` takes")
    };
    // One byte more than is read shows that it is too large.
    let mut bytes = Vec::new();
    let opened = config::file::open(file).map_err(unreadable)?;
    opened.take(LARGEST_FILE as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.as_bytes().len() > LARGEST_FILE => {
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
        Err(_) => {
            return Err(Failure::usage(format!("`{}` is not UTF-8 text", file.display()))
                .help("save it as UTF-8"));
        }
    };
    let given = Given { metric: arguments.metric.clone(), trials: arguments.trials };
    let shown = file.display().to_string();
    let sweep = Sweep::read(&text, &shown, &given).map_err(ConfigError::Invalid)?;
    if !sweep.notes().is_empty() {
        console.say("not as in the sweep:");
    }
    for note in sweep.notes() {
        console.say(&format!("- {}", one_line(note)));
    }
    let text = sweep.study_file(&name(arguments, sweep.name(), file));
    // A problem of the study file is reported before anything is written.
    parsed(&text, &arguments.output).map(|()| text)
}

fn of_command(
    command: &str,
    arguments: &InitArguments,
    questions: &Questions,
    console: &mut Console,
) -> Result<String, Failure> {
    let mut words = script::words(command).map_err(|why| {
        Failure::usage(format!("`{}` is not a command: {why}", one_line(command)))
            .help("write it as you type it: --command \"python train.py\"")
    })?;
    let directory = arguments
        .output
        .parent()
        .filter(|parent| *parent != Path::new(""))
        .unwrap_or(Path::new("."));
    refuse_shell_syntax(command)?;
    if let Some((at, added)) = script::own_outputs(&words, directory) {
        console.say(&format!(
            "each trial writes to its own directory: {}",
            one_line(&added.join(" "))
        ));
        words.splice(at + 1..at + 1, added);
    }
    let script = checked(script::look(&words, directory), &words, &arguments.output)?;
    if !script.env.is_empty() {
        let names: Vec<&str> = script.env.iter().map(|(name, _)| name.as_str()).collect();
        console.say(&format!("set for the program by `env`: {}", one_line(&names.join(", "))));
    }
    let names: Vec<&str> = script.space.iter().map(|searched| searched.name.as_str()).collect();
    if names.is_empty() {
        console.say(
            "nothing to search was found in the command: the study file has an example to change",
        );
    } else {
        console.say(&format!("searched: {}", one_line(&names.join(", "))));
    }
    if let Some(shared) = script::shared_output(&words) {
        console.say(&format!(
            "all trials write to the same place, `{}`: `{{trial_dir}}` there is each trial's own \
             directory",
            one_line(&shared)
        ));
    }
    let (metric, direction) =
        asked_metric(arguments, script.metric.as_deref(), questions, console)?;
    let trials = asked_trials(questions, arguments.trials.unwrap_or(TRIALS))?;
    // `python -m package.train` runs a module.
    let module = words
        .iter()
        .position(|word| word == "-m")
        .and_then(|at| words.get(at + 1))
        .and_then(|module| module.rsplit('.').next());
    let file = script
        .file
        .clone()
        .or_else(|| module.map(str::to_owned))
        .unwrap_or_else(|| words.first().cloned().unwrap_or_default());
    let text = study_file::of_command(
        &name(arguments, None, Path::new(&file)),
        &script,
        &metric,
        direction,
        trials,
    );
    // Errors (such as a program without a name) are reported before anything is written.
    parsed(&text, &arguments.output).map(|()| text)
}

/// Refuses what only a shell would understand.
fn refuse_shell_syntax(command: &str) -> Result<(), Failure> {
    if let Some(syntax) = script::shell_syntax(command) {
        let message = format!(
            "`{}` has `{}`, which only a shell understands: hpsearch starts the program itself",
            one_line(command),
            one_line(&syntax)
        );
        let pipe = if syntax.starts_with(['|', '>']) {
            "leave it out, since `hpsearch logs` keeps what each trial prints; or "
        } else {
            ""
        };
        return Err(Failure::usage(message).help(format!(
            "{pipe}name the shell: --command \"sh -c '...'\", and write `{{name}}` in its text for \
             each value that is searched"
        )));
    }
    Ok(())
}

/// The metric and its direction, as given or asked for; `printed`: the one that the script names.
fn asked_metric(
    arguments: &InitArguments,
    printed: Option<&str>,
    questions: &Questions,
    console: &mut Console,
) -> Result<(String, Direction), Failure> {
    let guess = arguments.metric.as_deref().or(printed);
    if guess.is_none() {
        console.say(
            "the program must print lines like `@hpsearch {\"step\": 1, \"loss\": 0.5}`, or \
            `pattern` under [command.metrics] must find the metric in its own",
        );
    }
    let metric = match &arguments.metric {
        Some(metric) => metric.clone(),
        None => questions.ask("Which metric does it print?", guess.unwrap_or("loss"))?,
    };
    let guess = proposed_direction(&metric).as_str();
    let word = questions.ask("Minimize or maximize it?", guess)?.to_ascii_lowercase();
    let means = |way: &Direction| word.len() > 1 && way.as_str().starts_with(&word);
    let ways = [Direction::Minimize, Direction::Maximize];
    let direction = ways.into_iter().find(means).ok_or_else(|| {
        Failure::usage(format!("`{}` is neither minimize nor maximize", one_line(&word)))
            .help("run it again, and press Enter for the guess")
    })?;
    Ok((metric, direction))
}

/// The script with its parameters, if they form a valid study; otherwise without parameters.
fn checked(
    script: script::Script,
    words: &[String],
    output: &Path,
) -> Result<script::Script, Failure> {
    let text = study_file::of_command("study", &script, "loss", Direction::Minimize, 1);
    Ok(if parsed(&text, output).is_ok() { script } else { script::plain(words, &script) })
}

/// Whether a text is a study, as a file at `output`.
fn parsed(text: &str, output: &Path) -> Result<(), Failure> {
    let base = std::path::absolute(output)?;
    config::parse(text, output, base.parent().unwrap_or(Path::new("/")), &[])
        .map(drop)
        .map_err(|problems| ConfigError::Invalid(problems).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{CommandLine, Verb};
    use crate::study::program::Program;
    use clap::Parser as _;
    use proptest::prelude::*;

    /// Typical words, including characters with a meaning in study files and comments.
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
        fn whatever_a_command_is_its_study_file_holds_and_its_words_are_as_they_were(
            words in prop::collection::vec(word(), 0..8),
        ) {
            let mut words = words;
            words.insert(0, "sh".to_owned());
            let directory = tempfile::tempdir().unwrap();
            let output = directory.path().join("study.toml");
            let script = checked(script::look(&words, directory.path()), &words, &output).unwrap();
            let text = study_file::of_command("study", &script, "lo\nss", Direction::Minimize, 3);
            let spec = config::parse(&text, &output, directory.path(), &[])
                .map_err(|problems| TestCaseError::fail(format!("{problems}\n{text}")))?;
            let Program::Command { run, .. } = &spec.program else { panic!("{text}") };
            let default = |name: &str| {
                script
                    .space
                    .iter()
                    .find(|searched| searched.name == name)
                    .and_then(|searched| searched.default.clone())
            };
            let knows = |name: &str| spec.space.dimension(name).is_some();
            let back: Vec<String> = run
                .iter()
                .map(|word| {
                    config::placeholder::fill_in(word, knows, |name| {
                        default(name).unwrap_or_default()
                    })
                })
                .collect();
            prop_assert_eq!(back, words);
        }
    }

    #[test]
    fn an_option_that_is_given_twice_is_two_parameters() {
        let words =
            script::words("sh -c x --layer 32 --layer 64 --layer_2=3 --{lr}=3 '{print}'").unwrap();
        let script = script::look(&words, Path::new("/"));
        let names: Vec<&str> = script.space.iter().map(|searched| searched.name.as_str()).collect();
        assert_eq!(names, ["layer", "layer_2", "layer_2_2"]);
        assert_eq!(
            script.run[3..].join(" "),
            "--layer {layer} --layer {layer_2} --layer_2={layer_2_2} --{{lr}}=3 {{print}}"
        );
    }

    #[test]
    fn a_study_is_not_named_after_what_tells_nothing() {
        let named = |words: &[&str], file: &str| {
            let words = ["hpsearch", "init"].iter().chain(words);
            let Verb::Init(arguments) = CommandLine::parse_from(words).verb else { panic!() };
            name(&arguments, None, Path::new(file))
        };
        for (words, file, expected) in [
            (&[][..], "/home/ada/reviews.csv", "reviews"),
            (&[], "/home/ada/films/studies/train.csv", "films"),
            (&[], "/home/ada/films/data/train.csv", "films"),
            (&[], "/tmp/studies/data.csv", "study"),
            (&["--name", "studies"], "train.csv", "studies"),
            // The study file's own name was chosen by the user.
            (&["-o", "made/y.toml"], "X.csv", "y"),
            (&["--command", "python train.py"], "/home/ada/films/train.py", "train"),
        ] {
            assert_eq!(named(words, file), expected, "{words:?} {file}");
        }
    }
}
