//! `hpsearch predict`: labels, entities or hidden tokens of texts, or texts written for them, from
//! an exported model.

mod shown;

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};

use shown::{DisplayOptions, Kept, Shown};

use super::exported;
use super::output_file::{refuse_existing, refuse_inputs};
use super::waiting::listener;
use super::{Console, Exit, Failure};
use crate::app::worker_job::{self, Progress, halving};
use crate::arguments::data_file::{self, Columns, Header, Layout, Words};
use crate::arguments::data_format::{KNOWN_ENDINGS, format_of};
use crate::arguments::{MOST_BEAMS, MOST_NEW_TOKENS, RowsAtOnce, TaskKind, WritingOptions};
use crate::config;
use crate::config::shown::one_line;
use crate::runner::protocol::WorkerJob;
use crate::study::counted::count;

/// Arguments of `hpsearch predict`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hpsearch predict model \"what a film\"\n  cat texts.txt | hpsearch \
        predict model\n  hpsearch predict model --file new.csv -o labelled.csv\n  hpsearch \
        predict model \"a man eats\" --text-pair \"someone has a meal\"\n  hpsearch translate \
        model \"list all files\" --num-beams 4"
)]
pub struct PredictArguments {
    /// The directory that `export` wrote
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The texts; from standard input, one per line, if there are none or `-`
    #[arg(value_name = "TEXT")]
    pub texts: Vec<String>,
    /// A file of texts instead, in a format of training data, or .txt with one per line; `-` for
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub file: Option<PathBuf>,
    /// The second text, for a model of text pairs; the context, for a model that answers questions
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    pub text_pair: Option<String>,
    /// The column of texts in that file; by default the one that the model was trained on, or
    /// `text`
    #[arg(long, value_name = "NAME", requires = "file", conflicts_with = "texts")]
    pub column: Option<String>,
    /// The column of second texts in that file, or of contexts for questions; by default the one
    /// that the model was trained on
    #[arg(long, value_name = "NAME", requires = "file", conflicts_with = "texts")]
    pub pair_column: Option<String>,
    /// The first line of that .csv or .tsv file is a row; its columns are called column1, column2,
    /// ..
    #[arg(long, requires = "file", conflicts_with = "texts")]
    pub no_header: bool,
    /// Columns of that file that -o writes before each text, and --json with each
    #[arg(
        long,
        value_name = "NAMES",
        requires = "file",
        conflicts_with = "texts",
        value_delimiter = ','
    )]
    pub keep: Vec<String>,
    /// Write a .csv with each text, its labels and their scores; entities and masked tokens get one
    /// row each; of several labels, those with a score of at least 0.5 are written
    #[arg(short, long, value_name = "OUT.csv")]
    pub output: Option<PathBuf>,
    /// Replace that file if it exists
    #[arg(long, requires = "output")]
    pub overwrite: bool,
    /// The N most likely labels of each text, or tokens of each mask; by default labels with a
    /// score of at least 0.05, five tokens, with -o the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top_k: Option<u32>,
    /// Maximum number of tokens to write; default: as in training
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NEW_TOKENS))
    )]
    pub max_new_tokens: Option<u32>,
    /// Number of beams; 1 is greedy search
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_BEAMS))
    )]
    pub num_beams: Option<u32>,
    /// Exponent of the length by which a beam's score is divided; above 0, longer texts are
    /// preferred
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub length_penalty: Option<f64>,
    /// Write no sequence of N tokens twice
    #[arg(long, value_name = "N")]
    pub no_repeat_ngram_size: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The device to use
    #[arg(long, default_value = exported::DEVICE)]
    pub device: String,
}

/// Batch size, if memory suffices.
const TEXTS_AT_ONCE: usize = 64;

/// What is labelled.
struct Inputs {
    texts: Vec<String>,
    /// The second text of each, of pairs.
    pairs: Option<Vec<String>>,
    /// Columns of their file that are written beside them.
    kept: Vec<Kept>,
}

impl From<Vec<String>> for Inputs {
    fn from(texts: Vec<String>) -> Self {
        Self { texts, pairs: None, kept: Vec::new() }
    }
}

/// Predicts them.
pub fn predict(arguments: &PredictArguments, console: &mut Console) -> Result<Exit, Failure> {
    let device = exported::device(&arguments.device)?;
    let directory = exported::model(&arguments.directory)?;
    check_options(arguments)?;
    check_output(arguments, &directory)?;
    let pair_column = exported::text_pair(&directory);
    let Inputs { texts, pairs, kept } = inputs(arguments, pair_column.as_ref(), console)?;
    check_pairs(arguments, pair_column.as_ref(), pairs.is_some())?;
    if arguments.length_penalty.is_some_and(|penalty| !penalty.is_finite()) {
        return Err(Failure::usage("`--length-penalty` is not a finite number")
            .help("give an exponent, for example 1, or 0 for no penalty"));
    }
    if let Some(warning) = empty(&texts, pairs.as_deref()) {
        console.say(&warning);
    }
    let normalize = exported::normalizes(&directory);
    let usual = Some(RowsAtOnce { train: 1, eval: texts.len().min(TEXTS_AT_ONCE) });
    let mut hear = listener(console);
    hear(Progress::Began("loading the model"));
    let answer = halving(usual, &mut hear, |rows, hear| {
        let rows = rows.map_or(TEXTS_AT_ONCE, |rows| rows.eval);
        let (directory, device) = (directory.clone(), device.clone());
        let (texts, pairs) = (texts.clone(), pairs.clone());
        let writing = writing(arguments);
        worker_job::again(
            WorkerJob::Predict { directory, texts, pairs, normalize, writing, device, rows },
            hear,
        )
    });
    drop(hear);
    let answer = answer?;
    if let Some(finding) = truncated(&answer, texts.len()) {
        console.say(&finding);
    }
    let wanted = DisplayOptions {
        top_k: arguments.top_k,
        to_file: arguments.output.is_some(),
        as_json: arguments.json,
        has_several: exported::task(&arguments.directory)
            == Some(TaskKind::MultiLabelClassification),
    };
    let predictions: Vec<Shown> = answer["predictions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| Shown::of(one, wanted))
        .collect();
    if let Some(failure) = shown::without_masks(&predictions) {
        return Err(failure);
    }
    write_predictions(arguments, &predictions, &Inputs { texts, pairs, kept }, console)?;
    shown::unlabelled(&predictions).map_or(Ok(Exit::Done), Err)
}

/// Checks where the predictions are to be written.
fn check_output(arguments: &PredictArguments, directory: &Path) -> Result<(), Failure> {
    if !arguments.keep.is_empty() && arguments.output.is_none() && !arguments.json {
        return Err(Failure::usage("`--keep` needs `-o` or `--json`, which write its columns")
            .help("add `-o OUT.csv` or `--json`, or leave `--keep` out"));
    }
    if let Some(output) = &arguments.output {
        let inputs = arguments.file.clone().into_iter().chain(standard_input(arguments));
        refuse_inputs(output, files_of(directory).chain(inputs))?;
        if !arguments.overwrite {
            refuse_existing(output)?;
        }
        if output.extension().is_some_and(|extension| !extension.eq_ignore_ascii_case("csv")) {
            return Err(Failure::usage(format!(
                "`{}` does not end in .csv, the only format that is written here",
                output.display()
            ))
            .help(format!("`-o {}`", output.with_extension("csv").display())));
        }
    }
    Ok(())
}

/// Writes the predictions to the file, as JSON or in lines.
fn write_predictions(
    arguments: &PredictArguments,
    predictions: &[Shown],
    Inputs { texts, pairs, kept }: &Inputs,
    console: &mut Console,
) -> Result<(), Failure> {
    let of_text = |number: usize| {
        (texts[number].as_str(), pairs.as_ref().map(|pairs| pairs[number].as_str()))
    };
    if let Some(output) = &arguments.output {
        shown::write_csv(output, of_text, kept, predictions)?;
        console.say(&format!(
            "{} with their {} in {}",
            count(texts.len() as u64, "text"),
            predictions.first().map_or("labels", Shown::what),
            output.display()
        ));
    }
    if arguments.json {
        let each = predictions.iter().enumerate().map(|(number, shown)| {
            let mut one = shown.json(of_text(number));
            let cell = |(name, cells): &Kept| (name.clone(), Json::from(cells[number].as_str()));
            if !kept.is_empty() {
                one["kept"] = Json::Object(kept.iter().map(cell).collect());
            }
            one
        });
        console.json(None, &json!({"predictions": each.collect::<Vec<_>>()}))?;
    } else if arguments.output.is_none() {
        for (number, shown) in predictions.iter().enumerate() {
            match of_text(number) {
                _ if texts.len() == 1 => {}
                (text, Some(pair)) => {
                    writeln!(console.out, "{} | {}", one_line(text), one_line(pair))?
                }
                (text, None) => writeln!(console.out, "{}", one_line(text))?,
            }
            for line in shown.lines() {
                writeln!(console.out, "{line}")?;
            }
        }
    }
    Ok(())
}

/// What is said of texts of which the model did not see the end.
fn truncated(answer: &Json, texts: usize) -> Option<String> {
    let longer = answer["truncated"].as_u64().filter(|longer| *longer > 0)?;
    let which = match texts {
        1 => "the text is".to_owned(),
        _ => format!("{longer} of {texts} texts are"),
    };
    Some(format!(
        "warning: {which} longer than {} tokens, what the model was trained on or reads at most \
         (`max_length`): the rest is ignored",
        answer["max_length"]
    ))
}

/// What is said of texts in which there is nothing to read.
fn empty(texts: &[String], pairs: Option<&[String]>) -> Option<String> {
    let is_empty = |text: &String| text.trim().is_empty();
    let either =
        |at: &usize| is_empty(&texts[*at]) || pairs.is_some_and(|pairs| is_empty(&pairs[*at]));
    let first = (0..texts.len()).find(either)?;
    let which = match (texts.len(), (0..texts.len()).filter(either).count()) {
        (1, _) => "the text is".to_owned(),
        (all, 1) => format!("1 of {all} texts (number {}) is", first + 1),
        (all, some) => format!("{some} of {all} texts (the first is number {}) are", first + 1),
    };
    Some(format!("warning: {which} empty: predictions for such texts are meaningless"))
}

fn answers_questions(directory: &Path) -> bool {
    exported::task(directory) == Some(TaskKind::QuestionAnswering)
}

/// Refuses options that mean nothing to a model of the task it was trained for.
fn check_options(arguments: &PredictArguments) -> Result<(), Failure> {
    let Some(task) = exported::task(&arguments.directory) else { return Ok(()) };
    let of_writing = [
        ("--max-new-tokens", arguments.max_new_tokens.is_some()),
        ("--num-beams", arguments.num_beams.is_some()),
        ("--length-penalty", arguments.length_penalty.is_some()),
        ("--no-repeat-ngram-size", arguments.no_repeat_ngram_size.is_some()),
    ];
    let labels = matches!(
        task,
        TaskKind::TextClassification
            | TaskKind::MultiLabelClassification
            | TaskKind::MaskedLanguageModeling
    );
    let (option, models) = match of_writing.into_iter().find(|(_, given)| *given) {
        Some((option, _)) if !task.is_sequence_to_sequence() => (option, "that write texts"),
        _ if arguments.top_k.is_some() && !labels => {
            ("--top-k", "that label texts or predict masked tokens")
        }
        _ => return Ok(()),
    };
    Err(Failure::usage(format!(
        "`{option}` is for models {models}; `{}` was trained for `{}`",
        arguments.directory.display(),
        task.line().name
    ))
    .help("leave it out"))
}

/// How texts are written.
fn writing(arguments: &PredictArguments) -> WritingOptions {
    let number = |number: u32| number as usize;
    WritingOptions {
        max_new_tokens: arguments.max_new_tokens.map(number),
        num_beams: arguments.num_beams.map(number),
        length_penalty: arguments.length_penalty,
        no_repeat_ngram_size: arguments.no_repeat_ngram_size.map(number),
    }
}

/// The files in a directory.
fn files_of(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Checks that there are second texts if and only if the model reads pairs, which it tells by the
/// column of second texts that it was trained on: an export has it.
fn check_pairs(
    arguments: &PredictArguments,
    trained_on: Option<&Option<String>>,
    are_pairs: bool,
) -> Result<(), Failure> {
    let directory = arguments.directory.display();
    match trained_on {
        Some(Some(_)) if !are_pairs && answers_questions(&arguments.directory) => {
            Err(Failure::usage(format!("`{directory}` answers questions, and there is no context"))
                .help("give it with `--text-pair TEXT`, or both as columns of a `--file`"))
        }
        Some(Some(_)) if !are_pairs => Err(Failure::usage(format!(
            "`{directory}` labels pairs of texts, and there is one text only"
        ))
        .help("give the second one with `--text-pair TEXT`, or both as columns of a `--file`")),
        Some(None) if are_pairs => {
            Err(Failure::usage(format!("`{directory}` reads single texts, not pairs"))
                .help("leave `--text-pair` and `--pair-column` out"))
        }
        _ => Ok(()),
    }
}

/// The file that is standard input, where texts are read from it.
fn standard_input(arguments: &PredictArguments) -> Option<PathBuf> {
    let is_stdin = |name: &Path| name == Path::new("-");
    let is_read = match &arguments.file {
        Some(file) => is_stdin(file),
        None => arguments.texts.iter().all(|text| is_stdin(Path::new(text))),
    };
    let input = PathBuf::from("/dev/stdin");
    (is_read && input.is_file()).then_some(input)
}

/// The texts from the command line, a file, or standard input.
fn inputs(
    arguments: &PredictArguments,
    trained_on: Option<&Option<String>>,
    console: &Console,
) -> Result<Inputs, Failure> {
    let is_stdin = |name: &Path| name == Path::new("-");
    let texts = match (&arguments.file, &arguments.texts[..]) {
        (Some(file), _) if !is_stdin(file) => {
            let usual = trained_on.and_then(Option::as_ref);
            let pair_column = arguments.pair_column.as_ref().or(usual);
            return texts_of_file(file, arguments, pair_column.map(String::as_str));
        }
        (None, [only]) if !is_stdin(Path::new(only)) => given(&arguments.texts, arguments),
        (None, [_, _, ..]) => given(&arguments.texts, arguments),
        _ => texts_of_stdin(console),
    }?;
    // The second text of each of them.
    let pairs = arguments.text_pair.as_ref().map(|pair| vec![pair.clone(); texts.len()]);
    Ok(Inputs { texts, pairs, kept: Vec::new() })
}

/// The texts of the command line, checked for probable mistakes.
fn given(texts: &[String], arguments: &PredictArguments) -> Result<Vec<String>, Failure> {
    let directory = arguments.directory.display();
    if texts.iter().any(|text| text == "-") {
        return Err(Failure::usage(
            "`-` means standard input, but there are other texts besides it",
        )
        .help(format!(
            "give `-` alone, or write all texts to standard input, one a line: `cat \
                texts.txt | hpsearch predict {directory}`"
        )));
    }
    let kind = |text: &str| fs::metadata(text).ok().filter(|found| !found.is_dir());
    let found = texts.iter().find_map(|text| Some((text, kind(text)?)));
    if let Some((file, found)) = found {
        let (what, help) = match found.is_file() {
            true => (
                "a file",
                format!(
                    "`hpsearch predict {directory} --file {file}` labels the texts in it; as a \
                     text itself it goes through standard input"
                ),
            ),
            // `<(..)`
            false => (
                "a pipe or a device",
                format!("standard input has one text a line: `.. | hpsearch predict {directory}`"),
            ),
        };
        return Err(Failure::usage(format!("`{file}` is {what}, not a text")).help(help));
    }
    Ok(texts.to_vec())
}

/// The lines of standard input.
fn texts_of_stdin(console: &Console) -> Result<Vec<String>, Failure> {
    let mut input = io::stdin().lock();
    if input.is_terminal() {
        console.say("reading texts from standard input, one a line; Ctrl-D ends them");
    }
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let name = Path::new("standard input");
    let content = data_file::text(name, &bytes)?;
    if content.trim().is_empty() {
        return Err(Failure::usage("standard input is empty: there is no text to label").help(
            "give texts as arguments, in a file with `--file FILE`, or on standard input, \
                one a line",
        ));
    }
    Ok(content.lines().map(str::to_owned).collect())
}

/// The texts in a file, by its extension.
fn texts_of_file(
    file: &Path,
    arguments: &PredictArguments,
    pair_column: Option<&str>,
) -> Result<Inputs, Failure> {
    let bytes = config::file::read(file).map_err(|error| {
        Failure::usage(format!("`{}` cannot be read: {error}", file.display()))
            .help(format!("give the path of a data file: {KNOWN_ENDINGS}"))
    })?;
    let contents = data_file::contents(file, &bytes)?;
    let content = data_file::text(file, &contents)?;
    let is_table = data_file::is_delimited(file);
    if arguments.no_header && !is_table {
        return Err(Failure::usage(format!(
            "`--no-header` is for .csv and .tsv files, not for `{}`",
            file.display()
        ))
        .help("leave it out"));
    }
    let is_text = format_of(file).is_some_and(|(format, _)| !format.has_rows());
    let names = arguments.keep.iter();
    if let Some((_, twice)) =
        names.enumerate().find(|(at, name)| arguments.keep[..*at].contains(name))
    {
        return Err(Failure::usage(format!("`--keep` names `{}` twice", one_line(twice)))
            .help("name each column once"));
    }
    if is_text && !arguments.keep.is_empty() {
        return Err(Failure::usage(format!("`{}` has no columns to keep", file.display()))
            .help("leave `--keep` out"));
    }
    if is_text && !content.trim().is_empty() {
        let texts: Vec<String> = content.lines().map(str::to_owned).collect();
        return Ok(texts.into());
    }
    // A tsv has its own name for it.
    let found =
        data_file::find_separator(content.as_bytes(), false).filter(|_| data_file::is_quoted(file));
    let header = if arguments.no_header { Header::Numbered } else { Header::FirstLine };
    let help = if is_table {
        "`--column NAME` says which column holds the texts; `--no-header`: the first line is a \
         row, and the columns are called column1, column2, .."
    } else {
        "`--column NAME` says which key holds the texts"
    };
    let trained_on = exported::text(&arguments.directory);
    let column = arguments.column.as_deref().or(trained_on.as_deref()).unwrap_or("text");
    let columns =
        Columns { text: column, text_pair: pair_column, label: None, words: Words::Joined, help };
    let layout = Layout { separator: found, header };
    let rows = data_file::rows(file, content, columns, layout)?;
    let kept = arguments.keep.iter().map(|name| {
        let help = "`--keep` names columns of the file";
        let column = Columns { text: name, text_pair: None, help, ..columns };
        let rows = data_file::rows(file, content, column, layout)?;
        Ok((name.clone(), rows.into_iter().map(|row| row.text).collect()))
    });
    let kept = kept.collect::<Result<Vec<Kept>, Failure>>()?;
    let (texts, pairs): (Vec<_>, Vec<_>) =
        rows.into_iter().map(|row| (row.text, row.text_pair)).unzip();
    Ok(Inputs { texts, pairs: pair_column.map(|_| pairs), kept })
}
