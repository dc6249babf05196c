//! `hpsearch predict`: labels and scores of texts from an exported model.

use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::exported;
use super::output_file::{refuse_existing, refuse_inputs, whole_file};
use super::waiting::listener;
use super::{Console, Exit, Failure};
use crate::app::worker_job::{self, Progress, halving};
use crate::arguments::RowsAtOnce;
use crate::arguments::data_file::{self, Columns, Header, Layout};
use crate::arguments::data_format::{KNOWN_ENDINGS, format_of};
use crate::config;
use crate::config::shown::one_line;
use crate::runner::protocol::Job;

/// Arguments of `hpsearch predict`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  hpsearch predict model \"what a film\"\n  cat texts.txt | hpsearch \
        predict model\n  hpsearch predict model --file new.csv -o labelled.csv"
)]
pub struct PredictArguments {
    /// The directory that `export` wrote
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The texts; from standard input, one per line, if there are none or `-`
    #[arg(value_name = "TEXT")]
    pub texts: Vec<String>,
    /// A file of texts instead: .csv, .tsv, .jsonl, or .txt with one per line; `-` for standard
    /// input
    #[arg(long, value_name = "FILE", conflicts_with = "texts")]
    pub file: Option<PathBuf>,
    /// The column of texts in that file
    #[arg(long, value_name = "NAME", default_value = "text", requires = "file")]
    pub column: String,
    /// The first line of that .csv or .tsv file is a row; its columns are called column1, column2,
    /// ..
    #[arg(long, requires = "file")]
    pub no_header: bool,
    /// Write a .csv with each text, its labels and their scores
    #[arg(short, long, value_name = "OUT.csv")]
    pub output: Option<PathBuf>,
    /// Replace that file if it exists
    #[arg(long, requires = "output")]
    pub overwrite: bool,
    /// The K most likely labels of each text; by default those with a score of at least 0.05, with
    /// -o the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top_k: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The device to use
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

/// Minimum probability of displayed labels besides the first.
const SHOWN: f64 = 0.05;

/// Batch size, if memory suffices.
const TEXTS_AT_ONCE: usize = 64;

/// A text's labels with their scores, best first.
type Labels = Vec<(String, f64)>;

/// Predicts them.
pub fn predict(arguments: &PredictArguments, console: &mut Console) -> Result<Exit, Failure> {
    let device = exported::device(&arguments.device)?;
    let directory = exported::model(&arguments.directory)?;
    if let Some(output) = &arguments.output {
        refuse_inputs(output, files_of(&directory).chain(arguments.file.clone()))?;
        if !arguments.overwrite {
            refuse_existing(output)?;
        }
        if output.extension().is_some_and(|extension| !extension.eq_ignore_ascii_case("csv")) {
            return Err(Failure::usage(format!(
                "`{}` is not called .csv, the one format that is written here",
                output.display()
            ))
            .help(format!("`-o {}`", output.with_extension("csv").display())));
        }
    }
    let texts = texts(arguments, console)?;
    let usual = Some(RowsAtOnce { train: 1, eval: texts.len().min(TEXTS_AT_ONCE) });
    let mut hear = listener(console);
    hear(Progress::Began("loading the model"));
    let answer = halving(usual, &mut hear, |rows, hear| {
        let rows = rows.map_or(TEXTS_AT_ONCE, |rows| rows.eval);
        let (directory, texts, device) = (directory.clone(), texts.clone(), device.clone());
        worker_job::again(Job::Predict { directory, texts, device, rows }, hear)
    });
    drop(hear);
    let answer = answer?;
    let predictions: Vec<Option<Labels>> =
        answer.as_array().into_iter().flatten().map(|one| labels(one, arguments)).collect();
    if let Some(output) = &arguments.output {
        write_csv(output, &texts, &predictions)?;
        console.say(&format!(
            "{} texts with their labels are in {}",
            texts.len(),
            output.display()
        ));
    }
    if arguments.json {
        let each = texts.iter().zip(&predictions).map(|(text, labels)| {
            let Some(labels) = labels else {
                return json!({"text": text, "labels": [], "problem": "nan"});
            };
            let labels: Vec<Value> = labels
                .iter()
                .map(|(label, score)| json!({"label": label, "score": score}))
                .collect();
            json!({"text": text, "labels": labels})
        });
        console.json(None, &json!({"predictions": each.collect::<Vec<_>>()}))?;
    } else if arguments.output.is_none() {
        for (text, labels) in texts.iter().zip(&predictions) {
            if texts.len() > 1 {
                writeln!(console.out, "{}", one_line(text))?;
            }
            let Some(labels) = labels else {
                writeln!(console.out, "NaN    no label")?;
                continue;
            };
            for (label, score) in labels {
                writeln!(console.out, "{score:.3}  {}", one_line(label))?;
            }
        }
    }
    unlabelled(&predictions).map_or(Ok(Exit::Done), Err)
}

/// The error about texts with non-finite scores.
fn unlabelled(predictions: &[Option<Labels>]) -> Option<Failure> {
    let first = predictions.iter().position(Option::is_none)? + 1;
    let (count, all) =
        (predictions.iter().filter(|labels| labels.is_none()).count(), predictions.len());
    let which = if all == 1 {
        "the text".to_owned()
    } else {
        format!("{count} of {all} texts (the first is text {first})")
    };
    let failure = Failure::usage(format!(
        "the model gives {which} scores that are not numbers (NaN or infinite), so there is no \
        label"
    ));
    Some(failure.help(
        "its weights or their products overflow: export another trial (`hpsearch \
        export STUDY --trial N -o DIR`), or train it again with a lower learning rate",
    ))
}

/// The files in a directory.
fn files_of(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The requested labels of a text; `None` if a score is not finite, which JSON represents as null.
fn labels(prediction: &Value, arguments: &PredictArguments) -> Option<Labels> {
    let all = prediction.get("labels").and_then(Value::as_array).into_iter().flatten();
    let each = all.map(|label| {
        Some((label.get("label")?.as_str()?.to_owned(), label.get("score")?.as_f64()?))
    });
    let each: Labels = each.collect::<Option<_>>()?;
    let wanted =
        |index: usize, score: f64| match (arguments.top_k, &arguments.output, arguments.json) {
            (Some(count), ..) => index < count as usize,
            (None, Some(_), _) => index == 0,
            (None, None, true) => true,
            (None, None, false) => index == 0 || score >= SHOWN,
        };
    Some(
        each.into_iter()
            .enumerate()
            .filter(|(index, (_, score))| wanted(*index, *score))
            .map(|(_, label)| label)
            .collect(),
    )
}

/// The texts from the command line, a file, or standard input.
fn texts(arguments: &PredictArguments, console: &Console) -> Result<Vec<String>, Failure> {
    let is_stdin = |name: &Path| name == Path::new("-");
    match (&arguments.file, &arguments.texts[..]) {
        (Some(file), _) if !is_stdin(file) => texts_of_file(file, arguments),
        (None, [only]) if !is_stdin(Path::new(only)) => given(&arguments.texts, arguments),
        (None, [_, _, ..]) => given(&arguments.texts, arguments),
        _ => texts_of_stdin(console),
    }
}

/// The texts of the command line, checked for probable mistakes.
fn given(texts: &[String], arguments: &PredictArguments) -> Result<Vec<String>, Failure> {
    let directory = arguments.directory.display();
    if texts.iter().any(|text| text == "-") {
        return Err(Failure::usage(
            "`-` means standard input, and there are other texts beside it",
        )
        .help(format!(
            "give `-` alone, or write all texts to standard input, one a line: `cat \
                texts.txt | hpsearch predict {directory}`"
        )));
    }
    if let Some(file) = texts.iter().find(|text| Path::new(text).is_file()) {
        return Err(Failure::usage(format!("`{file}` is a file, not a text")).help(format!(
            "`hpsearch predict {directory} --file {file}` labels the texts in it; \
                as a text itself it goes through standard input"
        )));
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
fn texts_of_file(file: &Path, arguments: &PredictArguments) -> Result<Vec<String>, Failure> {
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
    if is_text && !content.trim().is_empty() {
        return Ok(content.lines().map(str::to_owned).collect());
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
    let columns = Columns { text: &arguments.column, label: None, help };
    let rows = data_file::rows(file, content, columns, Layout { separator: found, header })?;
    Ok(rows.into_iter().map(|row| row.text).collect())
}

/// Writes `text,label,score`, and `label_2,score_2` and so on for several; an empty label and the
/// score NaN if there is none.
fn write_csv(
    output: &Path,
    texts: &[String],
    predictions: &[Option<Labels>],
) -> Result<(), Failure> {
    let wrong = |error: csv::Error| {
        Failure::usage(format!("`{}` cannot be written: {error}", output.display()))
            .help("give another file to -o")
    };
    let width = predictions.iter().flatten().map(Vec::len).max().unwrap_or(1).max(1);
    whole_file(output, |out| {
        let mut writer = csv::Writer::from_writer(out);
        let mut head = vec!["text".to_owned(), "label".to_owned(), "score".to_owned()];
        head.extend(
            (2..=width).flat_map(|number| [format!("label_{number}"), format!("score_{number}")]),
        );
        writer.write_record(&head).map_err(wrong)?;
        for (text, labels) in texts.iter().zip(predictions) {
            let mut row = vec![text.clone()];
            match labels {
                Some(labels) => row.extend(
                    labels.iter().flat_map(|(label, score)| [label.clone(), score.to_string()]),
                ),
                None => row.extend([String::new(), "NaN".to_owned()]),
            }
            row.resize(1 + 2 * width, String::new());
            writer.write_record(&row).map_err(wrong)?;
        }
        Ok(writer.flush()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{CommandLine, Verb};
    use clap::Parser as _;

    fn labelled(scores: &[f64], options: &[&str]) -> Option<Labels> {
        let words = ["hpsearch", "predict", "model"].iter().chain(options);
        let Verb::Predict(arguments) = CommandLine::parse_from(words).verb else { panic!() };
        labels(&prediction(scores), &arguments)
    }

    fn prediction(scores: &[f64]) -> Value {
        let labels: Vec<Value> = ["good", "bad"]
            .iter()
            .zip(scores)
            .map(|(label, score)| json!({"label": label, "score": score}))
            .collect();
        json!({"labels": labels})
    }

    #[test]
    fn a_text_whose_scores_are_no_numbers_has_no_label() {
        for (scores, options, expected) in [
            (&[f64::NAN, f64::NAN], &[][..], None),
            (&[0.5, f64::NAN], &[], None),
            (&[f64::INFINITY, 0.5], &[], None),
            (&[0.99, 0.01], &[], Some(1)),
            (&[0.99, 0.01], &["--top-k", "2"], Some(2)),
        ] {
            let found = labelled(scores, options);
            assert_eq!(found.as_ref().map(Vec::len), expected, "{scores:?} {options:?}");
            assert!(found.is_none_or(|labels| labels[0] == ("good".to_owned(), 0.99)));
        }
    }

    #[test]
    fn texts_without_a_label_are_an_error_that_names_the_first() {
        let labelled = Some(vec![("good".to_owned(), 0.9)]);
        assert!(unlabelled(std::slice::from_ref(&labelled)).is_none() && unlabelled(&[]).is_none());
        let failure = unlabelled(&[labelled.clone(), None, None]).unwrap();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.to_string().contains("2 of 3 texts (the first is text 2)"), "{failure}");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out.csv");
        write_csv(&file, &["a".to_owned(), "b".to_owned()], &[labelled, None]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "text,label,score\na,good,0.9\nb,,NaN\n");
    }
}
