//! The arguments of the data: files, columns, splits and cleaning.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::data_format::{KNOWN_ENDINGS, format_of, is_on_hub};
use super::problem::ArgumentProblem;
use super::scheduler::SchedulerType;
use super::table::merge;
use super::tasks::TaskKind;
use crate::study::field::FieldDefault::{Absent, Derived, Flag, Int, Required, Text};
use crate::study::field::{FRACTION, Field, FieldKind, NATURAL, OPEN_UNIT, key};
use crate::study::suggestion::quoted;

/// Which rows a study trains, validates and tests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataArguments {
    /// The file of training rows.
    pub train: PathBuf,
    /// The file of validation rows; without it they are cut from `train`.
    pub validation: Option<PathBuf>,
    /// The file of test rows.
    pub test: Option<PathBuf>,
    /// The column of texts.
    pub text: String,
    /// The column of second texts, where a row is a pair of texts.
    #[serde(default)]
    pub text_pair: Option<String>,
    /// The column of the texts to write, of tasks that write one for each text.
    #[serde(default)]
    pub target: Option<String>,
    /// Longest of these in tokens, the end included; `None`: `max_length`.
    #[serde(default)]
    pub max_target_length: Option<usize>,
    /// What is put before each text.
    #[serde(default)]
    pub source_prefix: Option<String>,
    /// The column of labels.
    pub label: String,
    /// The column of similarities of pairs of texts.
    #[serde(default)]
    pub score: Option<String>,
    /// What separates the cells of a row in csv and tsv files; without it a comma, in tsv files a
    /// tab.
    #[serde(default)]
    pub separator: Option<String>,
    /// The columns of csv and tsv files without a header.
    #[serde(default)]
    pub column_names: Option<Vec<String>>,
    /// Whether all tokens of a word have its label, not the first one only.
    #[serde(default)]
    pub label_all_tokens: bool,
    /// The column of questions, of question answering.
    #[serde(default = "question")]
    pub question: String,
    /// The column of the texts that answers are parts of.
    #[serde(default = "context")]
    pub context: String,
    /// The column of answers.
    #[serde(default = "answers")]
    pub answers: String,
    /// How many tokens two neighbouring windows of a long context share; `None`: a third of
    /// `max_length`.
    #[serde(default)]
    pub doc_stride: Option<usize>,
    /// Longest answer that is found, in tokens.
    #[serde(default = "max_answer_length")]
    pub max_answer_length: usize,
    /// The separator of several labels in one cell.
    #[serde(default = "label_separator")]
    pub label_separator: String,
    /// How labels are read; `None`: as names, as in studies that began before there was a choice.
    #[serde(default)]
    pub label_format: Option<LabelFormat>,
    /// Share of the training file held out for validation, when there is no validation file; 0: all
    /// rows are trained on, and nothing is evaluated.
    pub validation_split: Option<f64>,
    /// Share of the training file held out for testing.
    pub test_split: Option<f64>,
    /// Whether held-out rows keep the proportions of the labels.
    pub stratify: bool,
    /// Seed of the splits.
    pub seed: u64,
    /// Longest row in tokens, special tokens included; longer texts are cut.
    pub max_length: usize,
    /// Cleaning, applied first.
    pub clean: Clean,
}

/// How labels are read, of tasks with several labels in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelFormat {
    /// As the training file has them: names, or numbers 0 and 1 for each label.
    Auto,
    /// Each is a name, whatever it looks like.
    Names,
    /// A number 0 or 1 for each label.
    MultiHot,
}

impl LabelFormat {
    /// The key in `[data]`.
    pub const KEY: &'static str = "label_format";

    /// Whether `task` has the key.
    #[must_use]
    pub fn is_of(task: TaskKind) -> bool {
        matches!(task, TaskKind::MultiLabelClassification | TaskKind::TokenClassification)
    }
}

/// Cleaning of rows before they are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clean {
    /// Leave out rows whose text is empty or white space.
    pub drop_empty: bool,
    /// Leave out rows that repeat an earlier row's text and label in the same file.
    pub deduplicate: bool,
    /// Unicode NFKC, and runs of white space as one space.
    pub normalize: bool,
}

/// Every key of `[data]`.
pub static DATA_ARGUMENTS: &[Field] = &[
    key("train", FieldKind::AnyText, Required).doc(
        "file of training rows, or folder or pattern (train-*.csv) of files: .csv, .tsv, .jsonl, \
         .json, .parquet, .arrow, .conll; for language modeling also .txt",
    ),
    key("validation", FieldKind::AnyText, Absent)
        .doc("file of validation rows; without it they are cut from train"),
    key("test", FieldKind::AnyText, Absent).doc("file of test rows"),
    key("text", FieldKind::AnyText, Text(TEXT)).doc("column of texts"),
    key("text_pair", FieldKind::AnyText, Absent)
        .doc("column of second texts, where a row is a pair: a premise and a hypothesis, say"),
    key("target", FieldKind::AnyText, Absent)
        .or(&["summary_column", "target_column"])
        .doc("column of the texts to write: translations, summaries, answers"),
    key("max_target_length", FieldKind::Integer { min: 2, max: 8_192 }, Derived("max_length"))
        .doc("longest text to write in tokens, the end included; longer ones are cut"),
    key("source_prefix", FieldKind::AnyText, Absent)
        .doc("prefix of each text: \"translate English to German: \" for a T5"),
    key("label", FieldKind::AnyText, Text(LABEL)).doc("column of labels"),
    key("score", FieldKind::AnyText, Absent)
        .doc("column of similarities of pairs, from -1 to 1; without it each pair means the same"),
    key("separator", FieldKind::AnyText, Derived("a comma, in tsv files a tab"))
        .or(&["sep", "delimiter"])
        .doc("cell separator of csv and tsv files"),
    key("column_names", FieldKind::Columns, Absent)
        .or(&["names"])
        .doc("the columns of csv and tsv files without a header, in their order"),
    key("label_separator", FieldKind::AnyText, Text(SEPARATOR))
        .doc("separator of several labels in one cell"),
    key(LabelFormat::KEY, FieldKind::Choice(&["auto", "names", "multi-hot"]), Derived("auto")).doc(
        "how labels are read: auto reads lists of 0 and 1 as multi-hot and leaves out words \
             with the label -100; names takes each as a name",
    ),
    key("label_all_tokens", FieldKind::Flag, Flag(false))
        .doc("whether all tokens of a word have its label, not the first one only"),
    key("question", FieldKind::AnyText, Text(QUESTION))
        .or(&["question_column"])
        .doc("column of questions, to answer them"),
    key("context", FieldKind::AnyText, Text(CONTEXT))
        .or(&["context_column"])
        .doc("column of the texts that answers are parts of"),
    key("answers", FieldKind::AnyText, Text(ANSWERS))
        .or(&["answer_column"])
        .doc("column of answers: texts, or SQuAD's lists with where they begin"),
    key("doc_stride", FieldKind::Integer { min: 0, max: 8_192 }, Derived("a third of max_length"))
        .or(&["stride"])
        .doc("tokens that two neighbouring windows of a long context share"),
    key("max_answer_length", FieldKind::Integer { min: 1, max: 8_192 }, Int(MAX_ANSWER_LENGTH))
        .doc("longest answer that is found, in tokens"),
    key("validation_split", FRACTION, Derived("0.1 when there is no validation file"))
        .doc("share of train held out for validation; 0: hpsearch train trains on all rows"),
    key("test_split", OPEN_UNIT, Absent).doc("share of train held out for testing"),
    key("stratify", FieldKind::Flag, Flag(true))
        .doc("whether held-out rows keep the proportions of the labels"),
    key("seed", NATURAL, Int(0)).doc("seed of the splits"),
    key("max_length", FieldKind::Integer { min: 3, max: 8_192 }, Int(128)).doc(
        "longest row in tokens, special tokens included; for language modeling the tokens of a \
         window",
    ),
    key("clean.drop_empty", FieldKind::Flag, Flag(true)).doc("leave out rows with an empty text"),
    key("clean.deduplicate", FieldKind::Flag, Flag(false))
        .doc("leave out rows that repeat an earlier one of the same file"),
    key("clean.normalize", FieldKind::Flag, Flag(false))
        .doc("Unicode NFKC, and runs of white space as one space"),
];

const SEPARATOR: &str = ",";
const TEXT: &str = "text";
const LABEL: &str = "label";
/// The columns of SQuAD.
const QUESTION: &str = "question";
const CONTEXT: &str = "context";
const ANSWERS: &str = "answers";
/// As in transformers' `run_qa.py`.
const MAX_ANSWER_LENGTH: i64 = 30;

fn question() -> String {
    QUESTION.to_owned()
}

fn context() -> String {
    CONTEXT.to_owned()
}

fn answers() -> String {
    ANSWERS.to_owned()
}

fn max_answer_length() -> usize {
    MAX_ANSWER_LENGTH as usize
}

fn label_separator() -> String {
    SEPARATOR.to_owned()
}

/// Share held out for validation by default.
const DEFAULT_VALIDATION_SPLIT: f64 = 0.1;

impl DataArguments {
    /// Complete arguments from given ones; file names are kept (the caller makes them absolute).
    ///
    /// # Errors
    /// All problems at once; the existence of files is not checked.
    pub fn resolve(values: &BTreeMap<String, Value>) -> Result<Self, Vec<ArgumentProblem>> {
        let (mut merged, mut problems) = merge(DATA_ARGUMENTS, values);
        if merged["train"].is_null() {
            // Already reported as missing or invalid; a placeholder lets the rest be checked.
            merged.insert("train".to_owned(), Value::from("train.csv"));
        }
        match serde_json::from_value::<Self>(Value::Object(merged)) {
            Ok(mut arguments) => {
                problems.extend(arguments.contradictions());
                if arguments.validation.is_none() && arguments.validation_split.is_none() {
                    arguments.validation_split = Some(DEFAULT_VALIDATION_SPLIT);
                }
                if problems.is_empty() {
                    return Ok(arguments);
                }
            }
            Err(error) => problems.push(ArgumentProblem::new(
                "train",
                format!("the argument table and the arguments disagree: {error}"),
            )),
        }
        Err(problems)
    }

    /// Whether each split has rows: training, validation, test.
    #[must_use]
    pub fn has_splits(&self) -> [bool; 3] {
        let validates = self.validation.is_some() || self.validation_split != Some(0.0);
        [true, validates, self.test.is_some() || self.test_split.is_some()]
    }

    /// Whether these values ask for no validation rows: all of `train` are trained on.
    #[must_use]
    pub fn holds_nothing_out(values: &BTreeMap<String, Value>) -> bool {
        values.get("validation_split").and_then(Value::as_f64) == Some(0.0)
    }

    /// The problem of an argument of the trainer that depends on validation rows, where `data` asks
    /// for none.
    #[must_use]
    pub fn lacks_validation(
        data: &BTreeMap<String, Value>,
        trainer: &BTreeMap<String, Value>,
    ) -> Option<ArgumentProblem> {
        let given = |name: &str| trainer.get(name).filter(|value| !value.is_null());
        let patience = given("early_stopping_patience").map(|_| "early_stopping_patience");
        let plateau = given("lr_scheduler_type")
            .filter(|value| **value == *SchedulerType::ReduceLrOnPlateau.word())
            .map(|_| "lr_scheduler_type");
        let key = patience.or(plateau).filter(|_| Self::holds_nothing_out(data))?;
        let (what, help) = match patience {
            Some(key) => (
                key,
                "leave it out, and set `num_train_epochs` or `max_steps` to the length that the \
                 best trial had",
            ),
            None => ("reduce_lr_on_plateau", "choose another `lr_scheduler_type`"),
        };
        let message = format!(
            "`{what}` depends on evaluations, and `[data] validation_split = 0` leaves no rows for \
             them"
        );
        Some(ArgumentProblem::new(key, message).with_help(help))
    }

    /// Whether -100 marks labels that are not learned; otherwise it is a name.
    #[must_use]
    pub fn marks_ignored(&self) -> bool {
        self.label_format.is_some_and(|format| format != LabelFormat::Names)
    }

    /// [`separator`](Self::separator) as a byte.
    #[must_use]
    pub fn separator_byte(&self) -> Option<u8> {
        match self.separator.as_deref()?.as_bytes() {
            // The escape as a shell passes it.
            b"\\t" => Some(b'\t'),
            [byte] if byte.is_ascii() && !b"\"\r\n\0".contains(byte) => Some(*byte),
            _ => None,
        }
    }

    /// The same arguments with relative file names made relative to `directory`.
    #[must_use]
    pub fn relative_to(mut self, directory: &Path) -> Self {
        let files = [Some(&mut self.train), self.validation.as_mut(), self.test.as_mut()];
        for file in files.into_iter().flatten().filter(|file| !is_on_hub(file)) {
            *file = directory.join(&*file);
        }
        self
    }

    /// These arguments with the columns of `task` as those of texts, second texts and labels.
    #[must_use]
    pub fn of_task(&self, task: TaskKind) -> Self {
        let mut own = self.clone();
        if task == TaskKind::QuestionAnswering {
            own.text.clone_from(&self.question);
            own.text_pair = Some(self.context.clone());
            own.label.clone_from(&self.answers);
            own.stratify = false;
        }
        own
    }

    /// How many tokens two neighbouring windows of a long context share: `run_qa.py`'s 128 for its
    /// `max_length` of 384.
    #[must_use]
    pub fn doc_stride(&self) -> usize {
        self.doc_stride.unwrap_or(self.max_length / 3)
    }

    /// The key that names a column of texts, of arguments [of their task](Self::of_task).
    #[must_use]
    pub fn key_of(&self, column: &str) -> &'static str {
        let has_questions = self.text == self.question
            && self.text_pair.as_ref() == Some(&self.context)
            && self.label == self.answers;
        match &self.target {
            _ if has_questions && column == self.question => "question",
            _ if has_questions => "context",
            _ if column == self.text => "text",
            Some(_) => "target",
            None => "text_pair",
        }
    }

    /// The given values that do not apply to `task`: rejected rather than ignored.
    #[must_use]
    pub fn misfits(values: &BTreeMap<String, Value>, task: TaskKind) -> Vec<ArgumentProblem> {
        let name = task.line().name;
        let misplaced = |has_no: &[(&str, &str)]| -> Vec<ArgumentProblem> {
            let problem = |(key, what): &(&str, &str)| {
                ArgumentProblem::new(key, format!("`{name}` has no {what}"))
                    .with_help("leave it out")
            };
            has_no.iter().filter(|(key, _)| values.contains_key(*key)).map(problem).collect()
        };
        const NO_LABELS: [(&str, &str); 3] =
            [("label", "labels"), ("stratify", "labels"), ("label_all_tokens", "labels")];
        const NO_FORMAT: [(&str, &str); 1] = [(LabelFormat::KEY, "other formats of labels")];
        const NO_TARGETS: [(&str, &str); 3] = [
            ("target", "texts to write"),
            ("max_target_length", "texts to write"),
            ("source_prefix", "texts to write"),
        ];
        const NO_PAIRS: [(&str, &str); 2] =
            [("text_pair", "pairs of texts"), ("score", "pairs of texts")];
        const NO_QUESTIONS: [(&str, &str); 5] = [
            ("question", "questions"),
            ("context", "contexts"),
            ("answers", "answers"),
            ("doc_stride", "windows of contexts"),
            ("max_answer_length", "answers"),
        ];
        if matches!(task, TaskKind::LanguageModeling | TaskKind::MaskedLanguageModeling) {
            let has_no =
                [&NO_LABELS[..], &NO_FORMAT, &NO_TARGETS, &NO_PAIRS, &NO_QUESTIONS].concat();
            let mut problems = misplaced(&has_no);
            problems.extend(unnamed(values, &[("text", TEXT)]));
            return problems;
        }
        let is_answering = task == TaskKind::QuestionAnswering;
        let writes = task.is_sequence_to_sequence();
        let is_similarity = task == TaskKind::SentenceSimilarity;
        let mut has_no = match task {
            TaskKind::QuestionAnswering => {
                let columns = [
                    ("text", "texts: `question` and `context` name its columns"),
                    ("text_pair", "second texts: `question` and `context` name its columns"),
                    ("label", "labels: `answers` names the column of answers"),
                    ("score", "similarities"),
                    ("stratify", "labels"),
                    ("label_all_tokens", "labels"),
                    ("label_separator", "labels"),
                ];
                [&columns[..], &NO_TARGETS].concat()
            }
            _ if writes => vec![
                ("label", "labels: `target` names the column of texts to write"),
                ("stratify", "labels"),
                ("label_all_tokens", "labels"),
                ("text_pair", "second texts: `target` names the column of texts to write"),
                ("score", "similarities"),
            ],
            TaskKind::SentenceSimilarity => [NO_LABELS, NO_TARGETS].concat(),
            TaskKind::TokenClassification => {
                [&[("stratify", "labels of rows")], &NO_PAIRS[..], &NO_TARGETS].concat()
            }
            _ => {
                let further = [("label_all_tokens", "labels of words"), ("score", "similarities")];
                [&further[..], &NO_TARGETS].concat()
            }
        };
        if !is_answering {
            has_no.extend(NO_QUESTIONS);
        }
        if !LabelFormat::is_of(task) {
            has_no.extend(NO_FORMAT);
        }
        // The column that a task cannot do without, and what is in it.
        let (key, needed, help) = if writes {
            ("target", "texts to write", "name their column, as `text` names that of the others")
        } else {
            ("text_pair", "pairs of texts", "name the column of second texts")
        };
        let second = ((writes || is_similarity) && !values.contains_key(key))
            .then(|| ArgumentProblem::new(key, format!("`{name}` needs {needed}")).with_help(help));
        let is_text = |key: &&str| {
            let file = values.get(*key).and_then(Value::as_str);
            let format = file.and_then(|file| format_of(Path::new(file)));
            format.is_some_and(|(format, _)| !format.has_rows())
        };
        let problem = |key| {
            let needed = match task {
                _ if writes || is_similarity => "pairs",
                TaskKind::QuestionAnswering => "columns",
                _ => "labels",
            };
            let message = format!("a .txt file has no {needed}, which `{name}` needs");
            ArgumentProblem::new(key, message).with_help(
                "give a file with rows (.csv, .jsonl, ..), or set `task = \"language-modeling\"` \
                 or \"masked-language-modeling\"",
            )
        };
        let is_multi_hot = values.get(LabelFormat::KEY).is_some_and(|format| format == "multi-hot");
        let format = (is_multi_hot && task == TaskKind::TokenClassification).then(|| {
            let message =
                format!("`{name}` has a label for each word, not a 0 or 1 for each label");
            ArgumentProblem::new(LabelFormat::KEY, message).with_help("leave it out")
        });
        let files = ["train", "validation", "test"].into_iter().filter(is_text);
        let columns: &[(&str, &str)] = match task {
            TaskKind::QuestionAnswering => {
                &[("question", QUESTION), ("context", CONTEXT), ("answers", ANSWERS)]
            }
            _ if writes || is_similarity => &[("text", TEXT)],
            _ => &[("text", TEXT), ("label", LABEL)],
        };
        let unnamed = unnamed(values, columns);
        let own = second.into_iter().chain(format);
        files.map(problem).chain(misplaced(&has_no)).chain(own).chain(unnamed).collect()
    }

    /// The column of the second text of a row: of a pair, or the one to write.
    #[must_use]
    pub fn second_column(&self) -> Option<&str> {
        self.text_pair.as_deref().or(self.target.as_deref())
    }

    fn contradictions(&self) -> Vec<ArgumentProblem> {
        let mut problems = Vec::new();
        let files = [
            ("train", Some(&self.train)),
            ("validation", self.validation.as_ref()),
            ("test", self.test.as_ref()),
        ];
        for (key, file) in files {
            let Some(file) = file else { continue };
            // A folder of parts: what is in it is known when it is read.
            let may_be_folder = file.extension().is_none()
                || file.as_os_str().as_encoded_bytes().ends_with(b"/")
                || is_on_hub(file);
            if format_of(file).is_none() && !may_be_folder {
                let message = format!("`{}` is not a data file", file.display());
                let help = format!("the extension determines the format: {KNOWN_ENDINGS}");
                problems.push(ArgumentProblem::new(key, message).with_help(help));
            }
        }
        problems.extend(self.layout_problems());
        if let Some(stride) = self.doc_stride.filter(|stride| *stride >= self.max_length) {
            let message = format!(
                "`doc_stride` = {stride} leaves nothing new in a window of `max_length` = {} \
                 tokens",
                self.max_length
            );
            let help = "give less, or a greater `max_length`";
            problems.push(ArgumentProblem::new("doc_stride", message).with_help(help));
        }
        let pairs = [
            ("validation_split", self.validation_split, "validation", &self.validation),
            ("test_split", self.test_split, "test", &self.test),
        ];
        for (split, share, file, path) in pairs {
            if share.is_some() && path.is_some() {
                let message = format!(
                    "`{split}` and `{file}` are alternative sources of the same rows: give one of \
                     them"
                );
                let problem = ArgumentProblem::new(split, message);
                problems.push(match share {
                    Some(0.0) => problem
                        .with_help(format!("leave `{file}` out to train without evaluations")),
                    _ => problem,
                });
            }
        }
        let default = if self.validation.is_none() { DEFAULT_VALIDATION_SPLIT } else { 0.0 };
        let validation = self.validation_split.unwrap_or(default);
        let held_out = validation + self.test_split.unwrap_or(0.0);
        if held_out >= 1.0 {
            let message = format!(
                "`validation_split` and `test_split` together hold out {held_out} of the rows: \
                 no training rows are left"
            );
            problems.push(ArgumentProblem::new("test_split", message));
        }
        let columns = [
            ("text", Some(&self.text)),
            ("text_pair", self.text_pair.as_ref()),
            ("target", self.target.as_ref()),
            ("label", Some(&self.label).filter(|_| self.target.is_none())),
            ("score", self.score.as_ref()),
        ];
        let of_questions = [
            ("question", Some(&self.question)),
            ("context", Some(&self.context)),
            ("answers", Some(&self.answers)),
        ];
        for columns in [&columns[..], &of_questions] {
            for (number, (key, column)) in columns.iter().enumerate() {
                let is_same =
                    |(_, other): &&(_, Option<&String>)| column.is_some() && other == column;
                let same = columns[..number].iter().find(is_same);
                if let (Some((other, _)), Some(column)) = (same, column) {
                    let message = format!("`{other}` and `{key}` are the same column `{column}`");
                    let problem = ArgumentProblem::new(key, message);
                    problems.push(problem.with_help("name two columns of the file"));
                }
            }
        }
        problems
    }

    /// Problems with separators and column names.
    fn layout_problems(&self) -> Vec<ArgumentProblem> {
        let mut problems = Vec::new();
        let files = [Some(&self.train), self.validation.as_ref(), self.test.as_ref()];
        let is_table = |file: &&PathBuf| {
            // A folder may have tables.
            format_of(file).is_none_or(|(format, _)| format.is_delimited())
        };
        let has_table = files.into_iter().flatten().any(|file| is_table(&file));
        let given = [
            ("separator", self.separator.is_some()),
            ("column_names", self.column_names.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, is_given)| *is_given && !has_table) {
            let message = format!("`{key}` is for .csv and .tsv files, but there is none here");
            problems.push(ArgumentProblem::new(key, message).with_help("leave it out"));
        }
        if let Some(separator) = self.separator.as_ref().filter(|_| self.separator_byte().is_none())
        {
            let separator = Value::from(separator.as_str());
            let message = format!("`separator` must be one ASCII character, not {separator}");
            let problem = ArgumentProblem::new("separator", message);
            problems
                .push(problem.with_help("write for example \";\", \"|\" or, for a tab, \"\\t\""));
        }
        let columns = [
            ("text_pair", self.text_pair.as_ref()),
            ("target", self.target.as_ref()),
            ("score", self.score.as_ref()),
        ];
        for (key, column) in columns {
            let (Some(names), Some(column)) = (&self.column_names, column) else { continue };
            if !names.contains(column) {
                problems.push(not_named(key, column, names.iter().map(String::as_str)));
            }
        }
        problems
    }
}

/// The columns among `keys`, each with its default, that `column_names` does not name.
fn unnamed(values: &BTreeMap<String, Value>, keys: &[(&str, &str)]) -> Vec<ArgumentProblem> {
    let Some(names) = values.get("column_names").and_then(Value::as_array) else {
        return Vec::new();
    };
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).map(str::trim).collect();
    let problem = |(key, default): &(&str, &str)| {
        let column = values.get(*key).map_or(Some(*default), Value::as_str)?;
        (!names.contains(&column)).then(|| not_named(key, column, names.iter().copied()))
    };
    keys.iter().filter_map(problem).collect()
}

fn not_named<'a>(key: &str, column: &str, names: impl Iterator<Item = &'a str>) -> ArgumentProblem {
    let message = format!("`{key}` is the column `{column}`, which is not among `column_names`");
    ArgumentProblem::new(key, message).with_help(format!("set `{key}` to one of {}", quoted(names)))
}
