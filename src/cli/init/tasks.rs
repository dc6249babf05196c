//! The task of a data file, and the columns that it reads: by flags and answers, else guessed.

mod labelled;

use std::path::Path;

use super::columns::{Column, DataTable};
use super::guesses::{self, Guess, Why};
use super::model::{Family, Pretrained};
use super::study_file::TrainerStudy;
use super::{InitArguments, Questions};
use crate::arguments::data_file::is_ignored;
use crate::arguments::{TRAINER_TASKS, TaskKind};
use crate::cli::exit::Failure;
use crate::report::wording::one_line;
use crate::study::counted::count;
use crate::study::suggestion::quoted;

/// The task that `--task` names.
pub fn named(arguments: &InitArguments) -> Result<Option<TaskKind>, Failure> {
    let Some(name) = arguments.task.as_deref() else { return Ok(None) };
    let known = TRAINER_TASKS.iter().find(|task| task.name == name);
    known.map(|task| Some(task.kind)).ok_or_else(|| {
        Failure::usage(format!("there is no task `{}`", one_line(name))).known(
            name,
            "there are",
            TRAINER_TASKS.iter().map(|task| task.name),
        )
    })
}

/// Determines the task and the columns of `table`, which was read from `data`, and reports both.
pub fn settle(
    (table, data): (&DataTable, &Path),
    model: Option<&Pretrained>,
    arguments: &InitArguments,
    questions: &Questions,
    study: &mut TrainerStudy,
) -> Result<(), Failure> {
    let column = |name: &str| column_of(table, data, name);
    let given = |name: &Option<String>| name.as_deref().map(column).transpose();
    let choice = Choice {
        table,
        data,
        task: named(arguments)?,
        family: model.and_then(|model| model.family),
        is_marian: model.is_some_and(|model| model.model_type == "marian"),
        text: given(&arguments.text)?,
        text_pair: given(&arguments.text_pair)?,
        label: given(&arguments.label)?,
        target: given(&arguments.target)?,
        questions,
    };
    choice.settle(study)
}

/// The column of a table, which was read from `data`.
fn column_of<'a>(table: &'a DataTable, data: &Path, name: &str) -> Result<&'a Column, Failure> {
    table.column(name).ok_or_else(|| {
        let columns = table.columns.iter().map(|column| column.name.as_str());
        Failure::usage(format!("`{}` has no column `{}`", data.display(), one_line(name)))
            .known(name, "it has", columns)
    })
}

/// A column, and why it is the one.
type Reasoned<'a> = (&'a Column, &'static str);

/// What the columns of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Questions, contexts and answers.
    Questions,
    /// Words, and a label for each.
    Words,
    /// Texts, and a text to write for each.
    Written,
    /// Pairs of texts, without labels.
    Pairs,
    /// Texts or pairs of them, with labels or numbers.
    Labelled,
    /// Texts.
    Texts,
}

struct Choice<'a> {
    table: &'a DataTable,
    data: &'a Path,
    /// By `--task`.
    task: Option<TaskKind>,
    family: Option<Family>,
    is_marian: bool,
    // Columns by their flags.
    text: Option<&'a Column>,
    text_pair: Option<&'a Column>,
    label: Option<&'a Column>,
    target: Option<&'a Column>,
    questions: &'a Questions,
}

/// How a model reads several columns of texts.
#[derive(Clone, Copy)]
enum Read {
    /// As one text.
    Together,
    /// Each for itself.
    Apart,
}

impl<'a> Choice<'a> {
    fn settle(&self, study: &mut TrainerStudy) -> Result<(), Failure> {
        let shape = match self.task {
            Some(task) => self.shape_of(task),
            None => self.shape()?,
        };
        let unread = [
            ("--target", self.target, shape == Shape::Written),
            ("--text-pair", self.text_pair, matches!(shape, Shape::Pairs | Shape::Labelled)),
            ("--label", self.label, matches!(shape, Shape::Words | Shape::Labelled)),
            ("--text", self.text, shape != Shape::Questions),
        ];
        if let Some((flag, ..)) =
            unread.iter().find(|(_, given, is_read)| given.is_some() && !is_read)
            && let Some(task) = self.task
        {
            let message = format!("`{}` reads no column of `{flag}`", task.line().name);
            return Err(Failure::usage(message).help(format!("leave out `{flag}`, or `--task`")));
        }
        match shape {
            Shape::Questions => self.take_questions(study),
            Shape::Words => self.take_words(study),
            Shape::Written => self.take_written(study),
            Shape::Pairs | Shape::Labelled => self.take_labelled(study, shape),
            Shape::Texts => self.take_texts(study),
        }?;
        self.check_names(study)?;
        let is_unread =
            |column: &&Column| !study.columns.iter().any(|(_, read)| *read == column.name);
        let unread: Vec<&Column> = self.table.columns.iter().filter(is_unread).collect();
        let is_question = shape == Shape::Questions;
        if !unread.is_empty() && !is_question {
            let names = quoted(unread.iter().take(8).map(|column| column.name.as_str()));
            let more = if unread.len() > 8 { ", .." } else { "" };
            study.findings.push(format!("not read: {}{more}", one_line(&names)));
        }
        Ok(())
    }

    /// Checks that columns that are read have names of their own.
    fn check_names(&self, study: &TrainerStudy) -> Result<(), Failure> {
        let all = || self.table.columns.iter().map(|column| column.name.trim());
        let mut read = study.columns.iter().map(|(_, name)| name.trim());
        match read.find(|name| all().filter(|one| one == name).count() > 1) {
            None => Ok(()),
            Some(name) => Err(Failure::usage(format!(
                "{}:1: column `{}` occurs twice",
                self.data.display(),
                one_line(name)
            ))
            .help("rename one of them in the first line")),
        }
    }

    /// What a task reads.
    fn shape_of(&self, task: TaskKind) -> Shape {
        match task {
            TaskKind::QuestionAnswering => Shape::Questions,
            TaskKind::TokenClassification => Shape::Words,
            TaskKind::LanguageModeling | TaskKind::MaskedLanguageModeling => Shape::Texts,
            _ if task.is_sequence_to_sequence() => Shape::Written,
            TaskKind::SentenceSimilarity if self.label.is_none() => {
                // With similarities, if there are any.
                let (_, label) = guesses::texts_and_labels(self.table);
                let has_some = label.is_some_and(|label| label.column.is_of_numbers());
                if has_some { Shape::Labelled } else { Shape::Pairs }
            }
            _ => Shape::Labelled,
        }
    }

    /// What the columns look like.
    fn shape(&self) -> Result<Shape, Failure> {
        let shape = self.guessed_shape();
        let unequal_words =
            || guesses::lists_of_words(self.table).or_else(|| guesses::nearly_words(self.table));
        if shape != Shape::Words
            && self.text.is_none()
            && self.label.is_none()
            && let Some([words, tags]) = unequal_words()
        {
            return Err(unequal(words, tags));
        }
        let is_chosen = self.family == Some(Family::Decoder) || self.target.is_some();
        match guesses::called_like_labels(self.table) {
            Some(column) if shape == Shape::Texts && !is_chosen && Some(column) != self.text => {
                Err(self.no_labels(column))
            }
            _ => Ok(shape),
        }
    }

    /// The error that a column, which is called like one of labels, cannot be that.
    fn no_labels(&self, column: &Column) -> Failure {
        let name = one_line(&column.name);
        let rows = self.table.rows as u64;
        let why = match (&column.values, column.first_that_is_no_number()) {
            (Some(values), _) if values.len() < 2 => "it has one value only".to_owned(),
            (Some(values), _) if values.contains_key("") => {
                let empty = values.get("").copied().unwrap_or(0);
                format!("it is empty in {}", count(empty, "row"))
            }
            (_, Some(other)) if column.has_numbers() => {
                format!("`{}` is not a number", one_line(other))
            }
            (Some(values), _) => {
                let of_labels = format!("`--label {name}` uses it as labels nevertheless");
                let message = format!(
                    "`{name}` looks like the column of labels, but has too few rows for each: {} \
                     different values in {}",
                    values.len(),
                    count(rows, "row")
                );
                return Failure::usage(message).help(format!(
                    "give four rows or more of each label; or {of_labels}, `--label COLUMN` names \
                     another column, `--task language-modeling` learns the texts alone"
                ));
            }
            _ => format!("its {} hold too many different values", count(rows, "row")),
        };
        Failure::usage(format!("`{name}` looks like the column of labels or numbers, but {why}"))
            .help(
                "correct the file; or `--label COLUMN` names another column, or `--task \
                 language-modeling` learns the texts alone",
            )
    }

    fn guessed_shape(&self) -> Shape {
        if self.target.is_some() || self.family == Some(Family::EncoderDecoder) {
            return Shape::Written;
        }
        if self.family == Some(Family::Decoder) {
            return if self.label.is_some() { Shape::Labelled } else { Shape::Texts };
        }
        let is_free = [self.text, self.text_pair, self.label].iter().all(Option::is_none);
        if is_free && guesses::questions(self.table).is_some() {
            return Shape::Questions;
        }
        let may_be = |given: Option<&Column>, guess: &Column| given.is_none_or(|one| one == guess);
        if let Some([words, tags]) = guesses::words(self.table)
            && may_be(self.text, words)
            && may_be(self.label, tags)
        {
            return Shape::Words;
        }
        let may_write = [self.text_pair, self.label].iter().all(Option::is_none)
            && self.family != Some(Family::Encoder);
        let may_be_text = |pair: [&Column; 2]| self.text.is_none_or(|text| pair.contains(&text));
        let (text, label) = guesses::texts_and_labels(self.table);
        let text = self.text.or(text.map(|text| text.column));
        if may_write && guesses::target(self.table).is_some_and(may_be_text) {
            Shape::Written
        } else if self.label.is_some() || label.is_some_and(|label| Some(label.column) != text) {
            Shape::Labelled
        } else if self.pair().is_some() {
            Shape::Pairs
        } else if may_write && guesses::two_texts(self.table).is_some_and(may_be_text) {
            Shape::Written
        } else {
            Shape::Texts
        }
    }

    /// The columns' names, for messages.
    fn names(&self) -> String {
        one_line(&quoted(self.table.columns.iter().map(|column| column.name.as_str())))
    }

    /// The error that a column is missing, which `flag` names.
    fn missing(&self, what: &str, flag: &str) -> Failure {
        Failure::usage(format!("`{}` has no column of {what}", self.data.display()))
            .help(format!("`{flag} COLUMN` names one, of {}", self.names()))
    }

    /// The pair of columns under usual names, with those that are given in their places.
    fn pair(&self) -> Option<[&'a Column; 2]> {
        let guessed = guesses::pair(self.table);
        let text = || guesses::texts_and_labels(self.table).0.map(|text| text.column);
        let first = self.text.or(guessed.map(|[first, _]| first)).or_else(text)?;
        let fits = |[one, second]: [&'a Column; 2]| (one == first).then_some(second);
        let second = self.text_pair.or(guessed.and_then(fits))?;
        Some([first, second])
    }

    /// The given column, else the answer to `question`; `None` if there is no guess either.
    fn chosen(
        &self,
        (flag, given): (&'static str, Option<&'a Column>),
        question: &str,
        guess: Option<Guess<'a>>,
    ) -> Result<Option<Reasoned<'a>>, Failure> {
        if let Some(given) = given {
            return Ok(Some((given, flag)));
        }
        let Some(guess) = guess else { return Ok(None) };
        let answer = self.questions.ask(question, &guess.column.name)?;
        let column = column_of(self.table, self.data, &answer)?;
        let why = if self.questions.asks { "as you said" } else { guess.why.as_str() };
        Ok(Some((column, why)))
    }

    fn chosen_text(&self, guess: Option<Guess<'a>>) -> Result<Reasoned<'a>, Failure> {
        let question = format!("Which column holds the texts? (of {})", self.names());
        let chosen = self.chosen(("by --text", self.text), &question, guess)?;
        let chosen = chosen.ok_or_else(|| self.missing("texts", "--text"))?;
        let reads_words = self.task.is_none_or(|task| task == TaskKind::TokenClassification);
        if chosen.0.is_of_lists() && !reads_words {
            let name = one_line(&chosen.0.name);
            let message = format!("`{name}` holds lists of words, not texts");
            return Err(Failure::usage(message)
                .help("`--task token-classification` reads them; `--text COLUMN` names another"));
        }
        Ok(chosen)
    }

    fn take(&self, study: &mut TrainerStudy, task: TaskKind, why: &str) {
        study.task = task;
        let why = if self.task.is_some() { "by --task" } else { why };
        study.findings.push(format!("task {}: {why}", task.line().name));
    }

    fn take_questions(&self, study: &mut TrainerStudy) -> Result<(), Failure> {
        let Some([question, context, answers]) = guesses::questions(self.table) else {
            let file = self.data.display();
            let message = format!("`{file}` has no columns `question`, `context` and `answers`");
            return Err(Failure::usage(message).help(format!(
                "rename those that hold them, of {}, or name them under [data] of a study file",
                self.names()
            )));
        };
        let long = question.words_at(0.95) + context.words_at(0.95);
        study.task = TaskKind::QuestionAnswering;
        study.findings.push(format!(
            "task question-answering: columns `{}`, `{}` and `{}`; 95 % of contexts have {} or \
             fewer",
            one_line(&question.name),
            one_line(&context.name),
            one_line(&answers.name),
            count(u64::from(context.words_at(0.95)), "word")
        ));
        study.max_length = length_of(long).clamp(64, 384);
        for (key, column) in [("question", question), ("context", context), ("answers", answers)] {
            if key != column.name {
                study.columns.push((key, column.name.clone()));
            }
        }
        Ok(())
    }

    fn take_words(&self, study: &mut TrainerStudy) -> Result<(), Failure> {
        let guessed = guesses::words(self.table).or_else(|| guesses::lists_of_words(self.table));
        let guess = |at: usize| guessed.map(|both| Guess { column: both[at], why: Why::Name });
        let text = self.chosen_text(guess(0).or(guesses::texts_and_labels(self.table).0))?;
        let label = self.chosen(
            ("by --label", self.label),
            "Which column holds the labels of the words?",
            guess(1),
        )?;
        let label = label.ok_or_else(|| self.missing("labels of words", "--label"))?;
        if let Some((column, _)) = [text, label].iter().find(|one| one.0.is_of_written_lists()) {
            return Err(written_lists(column));
        }
        if !label.0.has_words_as(text.0) {
            return Err(unequal(text.0, label.0));
        }
        self.report_texts(study, &[("texts", text)], Read::Together);
        let found = label.0.labels().filter(|_| label.0.is_of_lists()).cloned();
        let found = found.map_or_else(String::new, |mut labels| {
            labels.retain(|label, _| !is_ignored(label));
            format!("; {}", classes(&labels))
        });
        study.findings.push(format!("labels: `{}`, {}{found}", one_line(&label.0.name), label.1));
        study.columns.push(("label", label.0.name.clone()));
        study.has_entities = label.0.has_entities();
        self.take(study, TaskKind::TokenClassification, "one label per word");
        Ok(())
    }

    fn take_written(&self, study: &mut TrainerStudy) -> Result<(), Failure> {
        let (usual, only) = (guesses::target(self.table), guesses::two_texts(self.table));
        let why = if usual.is_some() { Why::Name } else { Why::Only };
        // Either may be given: the other one of the two is then the other.
        let pair = usual.or(only).map(|[first, second]| {
            let is_turned = self.text == Some(second) || self.target == Some(first);
            if is_turned { [second, first] } else { [first, second] }
        });
        let guess = |at: usize| pair.map(|both| Guess { column: both[at], why });
        let text = self.chosen_text(guess(0).or(guesses::texts_and_labels(self.table).0))?;
        let target = self.chosen(
            ("by --target", self.target),
            "Which column holds the texts to write?",
            guess(1),
        )?;
        let target = target.ok_or_else(|| match self.task {
            Some(_) => self.missing("texts to write", "--target"),
            None => Failure::usage("the model writes texts, and no column looks like them")
                .help(format!("`--target COLUMN` names their column, of {}", self.names())),
        })?;
        if target.0 == text.0 {
            let name = one_line(&text.0.name);
            let message =
                format!("`{name}` is both the column of texts and that of texts to write");
            return Err(Failure::usage(message).help("`--text COLUMN` names the other column"));
        }
        let texts = [("texts", text), ("texts to write", target)];
        self.report_texts(study, &texts, Read::Apart);
        study.columns.push(("target", target.0.name.clone()));
        let is_summary = ["summary", "summaries", "highlights"].contains(&&*target.0.name);
        let is_translated = [text.0, target.0].iter().all(|one| guesses::is_language(&one.name));
        let task = match self.task {
            Some(task) => task,
            None if is_summary => TaskKind::Summarization,
            None if self.is_marian || is_translated => TaskKind::Translation,
            None => TaskKind::TextToText,
        };
        let why = match task {
            TaskKind::Translation => {
                "a text for each text (`--text` and `--target` turn it around)"
            }
            _ => {
                "a text for each text; `translation` and `summarization` differ in what an export \
                 is called"
            }
        };
        self.take(study, task, why);
        Ok(())
    }

    fn take_texts(&self, study: &mut TrainerStudy) -> Result<(), Failure> {
        let text = self.chosen_text(guesses::texts_and_labels(self.table).0)?;
        self.report_texts(study, &[("texts", text)], Read::Together);
        let why = if self.family == Some(Family::Decoder) {
            "the model is a decoder, which learns the texts themselves"
        } else {
            "no column looks like labels (`--label COLUMN` names one)"
        };
        self.take(study, self.task.unwrap_or(TaskKind::LanguageModeling), why);
        Ok(())
    }

    /// Reports columns of texts, of which the first is `text`, and derives `max_length` from their
    /// lengths: those of a pair are read together, and those of texts to write apart.
    fn report_texts(&self, study: &mut TrainerStudy, columns: &[(&str, Reasoned<'a>)], read: Read) {
        for (what, (column, why)) in columns {
            study.findings.push(format!(
                "{what}: `{}`, {why}; median length {}, 95 % have {} or fewer",
                one_line(&column.name),
                count(u64::from(column.words_at(0.5)), "word"),
                column.words_at(0.95)
            ));
        }
        let lengths = columns.iter().map(|(_, (column, _))| column.words_at(0.95));
        let long = match read {
            Read::Together => lengths.sum(),
            Read::Apart => lengths.max().unwrap_or(0),
        };
        study.max_length = length_of(long);
        if let Some((_, (text, _))) = columns.first() {
            study.columns.push(("text", text.name.clone()));
        }
    }
}

/// The error that lists are written as texts, by pandas for example.
fn written_lists(column: &Column) -> Failure {
    let name = one_line(&column.name);
    Failure::usage(format!("`{name}` holds lists in brackets, which are texts here")).help(format!(
        "write lists in JSON lines; in Python, `frame[\"{name}\"] = \
         frame[\"{name}\"].map(ast.literal_eval)`, then `frame.to_json(\"train.jsonl\", \
         orient=\"records\", lines=True)`"
    ))
}

/// The error that words have not one label each.
fn unequal(words: &Column, labels: &Column) -> Failure {
    let row = labels.first_unequal(words).map(|row| format!(" in row {row}")).unwrap_or_default();
    let [words, labels] = [words, labels].map(|column| one_line(&column.name));
    Failure::usage(format!("`{labels}` has not one label for each word of `{words}`{row}"))
        .help("both are lists of equal lengths, or have as many words between spaces in each row")
}

/// The most frequent labels, in words.
fn classes(labels: &std::collections::BTreeMap<String, u64>) -> String {
    let mut classes: Vec<(&String, &u64)> = labels.iter().collect();
    classes.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let first: Vec<String> =
        classes.iter().take(5).map(|(name, rows)| format!("{} ({rows})", one_line(name))).collect();
    let more = if classes.len() > 5 { ", ..." } else { "" };
    format!("{} classes: {}{more}", classes.len(), first.join(", "))
}

/// The maximum length for texts of `words` words: 1.5 tokens per word, and two special tokens.
fn length_of(words: u32) -> u32 {
    (words.saturating_mul(3) / 2 + 2).next_power_of_two().clamp(32, 512)
}
