//! The study of a data file: its splits, its columns and its task, determined from the data, flags
//! and answers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::columns::{self, Column, Guess, Table, Why};
use super::model::{self, Family, Pretrained};
use super::study_file::{Task, TrainerStudy};
use super::{InitArguments, Questions, as_named, asked_trials, name, parsed};
use crate::arguments::data_file::{shown_separator, usual_separator};
use crate::arguments::data_format::{DataFormat, KNOWN_ENDINGS, format_of};
use crate::cli::console::{Console, shown};
use crate::cli::exit::Failure;
use crate::report::wording::{count, one_line};
use crate::study::suggestion::quoted;

/// The text of the study file for a data file, or for the training file in a directory.
pub fn of_data(
    data: &Path,
    arguments: &InitArguments,
    questions: &Questions,
    console: &mut Console,
) -> Result<String, Failure> {
    let data = &if data.is_dir() { training_file(data)? } else { data.to_owned() };
    let model = arguments
        .model
        .as_deref()
        .map(|model| model::look(model, &arguments.output))
        .transpose()?;
    let named = |path: &Path| as_named(path, &arguments.output);
    let mut study = TrainerStudy {
        name: name(arguments, data),
        task: Task::LanguageModeling,
        model: model.as_ref().map(|model| model.named.clone()),
        train: named(data)?,
        validation: None,
        test: None,
        separator: None,
        column_names: None,
        text: None,
        text_pair: None,
        rows: 0,
        max_length: 64,
        trials: arguments.trials,
        findings: Vec::new(),
    };
    if format_of(data).is_some_and(|(format, _)| !format.has_rows()) {
        let size = size(data)?;
        study.rows = usize::try_from(size / 64).unwrap_or(usize::MAX);
        study.findings.push(format!("{}: {size} bytes of text", shown(data)));
        study.findings.push("task language-modeling: a .txt file has no labels".to_owned());
    } else {
        let mut table = columns::read(data)?;
        settle_header(&mut table, data, arguments, questions, &mut study)?;
        study.rows = table.rows;
        look(&table, data, model.as_ref(), arguments, questions, &mut study)?;
    }
    for (split, words, place) in [
        ("validation", &["validation", "valid", "val", "dev"][..], &mut study.validation),
        ("test", &["test"], &mut study.test),
    ] {
        if let Some(path) = beside(data, words) {
            study
                .findings
                .push(format!("{split}: {}, found beside the training file", shown(&path)));
            *place = Some(named(&path)?);
        }
    }
    if let Some(model) = &model {
        study.take_model(model)?;
    }
    for finding in &study.findings {
        console.say(finding);
    }
    study.trials = asked_trials(questions, arguments.trials)?;
    let text = study.text();
    // Errors (such as a model that cannot be found) are reported before anything is written.
    parsed(&text, &arguments.output).map(|()| text)
}

fn size(data: &Path) -> Result<u64, Failure> {
    let found = fs::metadata(data).and_then(|found| {
        if found.is_file() { Ok(found) } else { Err(io::Error::other("it is no file")) }
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
        "which file in `{place}` is to learn from? There are {}{more}",
        names.join(", ")
    ))
    .help(help_of_several(directory, first, &files)))
}

/// What to do about several files: parts of one set are read together by the study that `init` writes of
/// one of them.
fn help_of_several(directory: &Path, first: &Path, files: &[PathBuf]) -> String {
    let name = format!("name it: `hpsearch init {}`", shown(first));
    let ending = |path: &Path| Some(stem_of(path)?.1.to_owned());
    let is_shared = |one: &String| files.iter().all(|path| ending(path).as_ref() == Some(one));
    let Some(shared) = ending(first).filter(is_shared) else {
        return name;
    };
    let pattern = directory.join(format!("*{shared}"));
    format!(
        "{name}; if they are parts of one set, write `train = \"{}\"` under [data] of that study",
        pattern.display()
    )
}

/// Determines the separator and whether the first line is a header, and reports both.
fn settle_header(
    table: &mut Table,
    data: &Path,
    arguments: &InitArguments,
    questions: &Questions,
    study: &mut TrainerStudy,
) -> Result<(), Failure> {
    let rows = |table: &Table| {
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

/// Determines the columns, and reports their contents.
fn look(
    table: &Table,
    data: &Path,
    model: Option<&Pretrained>,
    arguments: &InitArguments,
    questions: &Questions,
    study: &mut TrainerStudy,
) -> Result<(), Failure> {
    if columns::is_nested_squad(table) {
        let message =
            format!("`{}` has its rows inside of lists, as SQuAD's own files", data.display());
        return Err(Failure::usage(message).help(
            "write a row for each question: `load_dataset(\"squad\")[\"train\"].to_json(\"train.jsonl\")` \
             of Python's datasets, or `[{\"question\": .., \"context\": .., \"answers\": ..}, ..]`",
        ));
    }
    if [&arguments.text, &arguments.label, &arguments.target].into_iter().all(Option::is_none)
        && !writes(model)
        && let Some(columns) = columns::guess_questions(table)
    {
        take_questions(columns, study);
        return Ok(());
    }
    let (mut text, mut label) = columns::guess(table);
    let is_labelled =
        arguments.label.is_some() || is_family(model, &[Family::Encoder, Family::Decoder]);
    let target = columns::guess_target(table).filter(|_| !is_labelled);
    if let Some([first, _]) = target {
        text = Some(Guess { column: first, why: Why::Name });
    }
    let words = columns::guess_words(table).filter(|_| !writes(model));
    let pair = columns::guess_pair(table).filter(|_| !writes(model));
    if let Some([first, second]) = words.or(pair) {
        text = Some(Guess { column: first, why: Why::Name });
        if words.is_some() {
            label = Some(Guess { column: second, why: Why::Name });
        }
    }
    let columns = || table.columns.iter().map(|column| column.name.as_str());
    let names = || one_line(&quoted(columns()));
    let found = |named: &str| {
        table.column(named).ok_or_else(|| {
            Failure::usage(format!("`{}` has no column `{}`", data.display(), one_line(named)))
                .known(named, "it has", columns())
        })
    };
    // Why a column was chosen without asking.
    let why = |why: Why| if questions.asks { "as you said" } else { why.as_str() };
    let (text, text_why) = match (&arguments.text, text) {
        (Some(named), _) => (found(named)?, "by --text"),
        (None, Some(guess)) => (
            found(&questions.ask(
                &format!("Which column holds the texts? (of {})", names()),
                &guess.column.name,
            )?)?,
            why(guess.why),
        ),
        (None, None) => {
            return Err(Failure::usage(format!("`{}` has no column of texts", data.display()))
                .help(format!("it has {}", names())));
        }
    };
    let writes = writes(model);
    if arguments.target.is_some() || target.is_some() || is_family(model, &[Family::EncoderDecoder])
    {
        let target = match (&arguments.target, target) {
            (Some(named), _) => (found(named)?, "by --target"),
            (None, Some([_, second])) => (
                found(&questions.ask("Which column holds the texts to write?", &second.name)?)?,
                why(Why::Name),
            ),
            (None, None) => {
                return Err(Failure::usage(
                    "the model writes texts, and no column looks like them",
                )
                .help(format!("`--target COLUMN` names their column, of {}", names())));
            }
        };
        if target.0.name == text.name {
            return Err(Failure::usage(format!(
                "`{}` is both the column of texts and that of texts to write",
                one_line(&text.name)
            ))
            .help("`--text COLUMN` names the other column"));
        }
        take_target((text, text_why), target, model, study);
        return Ok(());
    }
    let (label, label_why) = match (&arguments.label, label) {
        (Some(named), _) => (Some(found(named)?), "by --label"),
        (None, Some(guess)) if guess.column.name != text.name && !writes => (
            Some(found(&questions.ask("Which column holds the labels?", &guess.column.name)?)?),
            why(guess.why),
        ),
        _ => (None, ""),
    };
    let pair = pair.filter(|[first, _]| words.is_none() && first.name == text.name);
    let pair = pair.map(|[_, second]| second);
    let pair = pair.filter(|second| label.is_none_or(|label| label.name != second.name));
    let second = |share: f64| pair.map_or(0, |second| second.words_at(share));
    let (median, long) = (text.words_at(0.5) + second(0.5), text.words_at(0.95) + second(0.95));
    study.findings.push(format!(
        "texts: `{}`, {text_why}; median length {}, 95 % have {long} or fewer",
        one_line(&text.name),
        count(u64::from(median), "word")
    ));
    study.text = Some(text.name.clone());
    if let Some(second) = pair.filter(|_| label.is_some()) {
        let name = one_line(&second.name);
        study.findings.push(format!("second texts: `{name}`, guessed by its name"));
        study.text_pair = Some(second.name.clone());
    }
    study.max_length = length_of(long);
    let Some(label) = label else {
        let why = if writes {
            "the model is a decoder, which learns the texts themselves"
        } else {
            "no column looks like labels (`--label COLUMN` names one)"
        };
        study.findings.push(format!("task language-modeling: {why}"));
        return Ok(());
    };
    let values = label.values.as_ref().filter(|values| values.len() >= 2);
    let Some(values) = values else {
        return Err(Failure::usage(format!(
            "`{}` holds no labels: it has one value, or a thousand and more",
            one_line(&label.name)
        ))
        .help("`--label COLUMN` names another column"));
    };
    let mut classes: Vec<(&String, &u64)> = values.iter().collect();
    classes.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let first: Vec<String> =
        classes.iter().take(5).map(|(name, rows)| format!("{} ({rows})", one_line(name))).collect();
    let more = if classes.len() > 5 { ", ..." } else { "" };
    study.findings.push(format!(
        "labels: `{}`, {label_why}; {} classes: {}{more}",
        one_line(&label.name),
        classes.len(),
        first.join(", ")
    ));
    if label.lists_as(text) {
        study.findings.push("task token-classification: one label per word".to_owned());
        study.task = Task::TokenClassification { label: label.name.clone() };
        return Ok(());
    }
    let unbalanced = label.largest_share() > 0.6;
    let metric = if unbalanced {
        format!(
            "; metric eval_macro_f1: {:.0} % of the rows have one label",
            100.0 * label.largest_share()
        )
    } else {
        String::new()
    };
    study.findings.push(format!("task text-classification: one label per text{metric}"));
    study.task = Task::Classification { label: label.name.clone(), unbalanced };
    Ok(())
}

/// Whether the model is one that writes texts.
fn writes(model: Option<&Pretrained>) -> bool {
    is_family(model, &[Family::Decoder, Family::EncoderDecoder])
}

/// Whether there is a model, of one of these families.
fn is_family(model: Option<&Pretrained>, families: &[Family]) -> bool {
    model.and_then(|model| model.family).is_some_and(|family| families.contains(&family))
}

/// The maximum length for texts of `words` words: 1.5 tokens per word, and two special tokens.
fn length_of(words: u32) -> u32 {
    (words.saturating_mul(3) / 2 + 2).next_power_of_two().clamp(32, 512)
}

/// Questions about contexts.
fn take_questions(columns: [&Column; 3], study: &mut TrainerStudy) {
    let [question, context, answers] = columns;
    let long = question.words_at(0.95) + context.words_at(0.95);
    study.findings.push(format!(
        "task question-answering: columns `{}`, `{}` and `{}`; 95 % of contexts have {} or fewer",
        one_line(&question.name),
        one_line(&context.name),
        one_line(&answers.name),
        count(u64::from(context.words_at(0.95)), "word")
    ));
    study.max_length = length_of(long).clamp(64, 384);
    study.task = Task::QuestionAnswering { columns: columns.map(|column| column.name.clone()) };
}

/// Texts, and texts to write for them.
fn take_target(
    (text, text_why): (&Column, &str),
    (target, target_why): (&Column, &str),
    model: Option<&Pretrained>,
    study: &mut TrainerStudy,
) {
    for (what, column, why) in [("texts", text, text_why), ("texts to write", target, target_why)] {
        study.findings.push(format!(
            "{what}: `{}`, {why}; median length {}, 95 % have {} or fewer",
            one_line(&column.name),
            count(u64::from(column.words_at(0.5)), "word"),
            column.words_at(0.95)
        ));
    }
    let is_summary = ["summary", "summaries", "highlights"].contains(&target.name.as_str());
    let name = match model {
        _ if is_summary => "summarization",
        Some(model) if model.model_type == "marian" => "translation",
        _ => "text-to-text",
    };
    study.findings.push(format!(
        "task {name}: a text for each text; `translation` and `summarization` differ in what an \
         export is called"
    ));
    study.text = Some(text.name.clone());
    study.max_length = length_of(text.words_at(0.95).max(target.words_at(0.95)));
    study.task = Task::TextToText { name, target: target.name.clone() };
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
