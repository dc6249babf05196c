//! Data of token classification: rows of words with a label for each, checked, cut into splits and
//! tokenised, the labels aligned to the tokens as transformers' `run_ner.py` aligns them.

use std::collections::BTreeSet;

use serde_json::Value;
use tokenizers::{Encoding, Tokenizer};

use super::atomic_directory::AtomicDirectory;
use super::findings::in_splits;
use super::labelled::{note_contradictions, note_overlap, note_tokens, tokenizer_of};
use super::prepared::{Description, Extra, NO_LABEL, Split};
use super::progress::{PARSE, TOKENISE};
use super::sources::{Sources, clean, normalized, note_header};
use super::splits::hold_out_splits;
use super::targets::in_order;
use super::tokenizer_file::{self, SpecialTokens, encode_inputs};
use super::{Finding, TrainerError};
use hpsearch_core::arguments::DataArguments;
use hpsearch_core::arguments::data_file::{DataRow, is_ignored, list_of};

/// A row: words, and a label for each.
struct TaggedWords {
    words: Vec<String>,
    labels: Vec<String>,
    line: u64,
}

/// Rows of words with labels, tokenised and written to `staged`.
pub(super) fn prepare(
    sources: &Sources,
    staged: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let data = sources.data;
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the rows", sources.bytes * PARSE);
    let splits = read(sources, &mut findings)?;
    let labels = labels(sources, &splits)?;
    note_labels(&splits, &labels, &mut findings);

    let texts: Vec<String> = splits[0].iter().map(|row| row.words.join(" ")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (tokenizer, unknown) = tokenizer_of(sources, staged, &texts, &[])?;
    let tokenizer = spaced(tokenizer)?;
    sources.progress.begin_stage("tokenising the texts", sources.bytes * TOKENISE);
    let length = |words: &Vec<&str>| words.iter().map(|word| word.len() + 1).sum::<usize>();
    let inputs = splits.each_ref().map(|rows| {
        rows.iter()
            .map(|row| row.words.iter().map(String::as_str).collect())
            .collect::<Vec<Vec<&str>>>()
    });
    let (mut done, all) = (0, inputs.iter().flatten().map(length).sum());
    let alignment = Alignment::new(&labels, data);
    for ((split, rows), inputs) in Split::ALL.into_iter().zip(&splits).zip(&inputs) {
        let encodings =
            encode_inputs(&tokenizer, inputs, SpecialTokens::Add, length, &mut |bytes| {
                done += bytes;
                sources.progress.update(done, all);
            })?;
        let ids: Vec<Vec<u32>> =
            encodings.iter().map(|encoding| encoding.get_ids().to_vec()).collect();
        note_tokens(split, &ids, ("max_length", data.max_length), unknown, &mut findings);
        let aligned: Vec<Vec<u32>> = encodings
            .iter()
            .zip(rows)
            .map(|(encoding, row)| alignment.of_tokens(encoding, &row.labels))
            .collect();
        let is_empty = |labels: &Vec<u32>| labels.iter().all(|label| *label == NO_LABEL);
        if let Some((_, row)) = aligned.iter().zip(rows).find(|(labels, _)| is_empty(labels)) {
            let text = row.words.join(" ");
            let (message, help) = match row.labels.iter().any(|label| is_ignored(label)) {
                true => (
                    format!("no word has a label to learn in the {} row `{text}`", split.name()),
                    "remove the row, or increase `max_length` if only its end has labels",
                ),
                false => (
                    format!(
                        "the tokenizer produces no tokens for the {} words `{text}`",
                        split.name()
                    ),
                    "remove the row",
                ),
            };
            return Err(sources.problem_of(split, Some(row.line), message).with_help(help).into());
        }
        let rows: Vec<_> = ids.into_iter().map(|ids| (ids, 0)).collect();
        sources.write_rows(staged, split, &rows, "give fewer rows, or a smaller `max_length`")?;
        sources.write_extra(staged, split, Extra::Labels, &aligned)?;
    }
    tokenizer_file::write(staged, &tokenizer)?;
    let rows = splits.each_ref().map(Vec::len);
    Ok(Description {
        labels,
        extras: vec![Extra::Labels],
        ..sources.describe(rows, tokenizer.get_vocab_size(true), findings)
    })
}

/// Reads and cleans every file and cuts the splits.
fn read(
    sources: &Sources,
    findings: &mut Vec<Finding>,
) -> Result<[Vec<TaggedWords>; 3], TrainerError> {
    // Words are normalised one by one: white space separates them.
    let mut data = sources.data.clone();
    data.clean.normalize = false;
    let mut splits: [Vec<DataRow>; 3] = Default::default();
    for ((file, split), rows) in sources.files.iter().zip(Split::ALL).zip(&mut splits) {
        if let Some((path, file)) = file {
            let read = file.rows_of_words(&data)?;
            note_header(&read, path, &data, findings);
            *rows = clean(read, path, split, &data, findings)?;
        }
    }
    let all = splits[0].len();
    hold_out_splits(&mut splits, &data, false);
    if splits.iter().zip(data.has_splits()).any(|(rows, wanted)| wanted && rows.is_empty()) {
        let problem = sources.problem(None, format!("too few rows to split: {all}"));
        return Err(problem.with_help("give more rows").into());
    }
    note_overlap(&splits, &data, findings);
    note_contradictions(&splits, findings);
    let split = |split: Split, rows: Vec<DataRow>| {
        rows.into_iter().map(|row| words_of(sources, split, &row)).collect::<Result<Vec<_>, _>>()
    };
    let [train, validation, test] = splits;
    Ok([
        split(Split::Train, train)?,
        split(Split::Validation, validation)?,
        split(Split::Test, test)?,
    ])
}

/// The words and labels of a row: lists, or words between spaces.
fn words_of(sources: &Sources, split: Split, row: &DataRow) -> Result<TaggedWords, TrainerError> {
    let parts = |cell: &str| -> Vec<String> {
        let parts = list_of(cell).unwrap_or_else(|| cell.split_whitespace().collect());
        parts.into_iter().map(str::to_owned).collect()
    };
    let is_written = |cell: &str| cell.starts_with('[') && cell.ends_with(']');
    if is_written(&row.text) && is_written(&row.label) {
        let message = format!(
            "columns `{}` and `{}` hold lists in brackets, which are texts here",
            sources.data.text, sources.data.label
        );
        return Err(sources
            .problem_of(split, Some(row.line), message)
            .with_help(
                "give lists in JSON: in Python, read each cell with `ast.literal_eval` first",
            )
            .into());
    }
    let (data, words, labels) = (sources.data, parts(&row.text), parts(&row.label));
    if words.len() != labels.len() {
        let message = format!(
            "{} words in column `{}` and {} labels in column `{}`",
            words.len(),
            data.text,
            labels.len(),
            data.label
        );
        return Err(sources
            .problem_of(split, Some(row.line), message)
            .with_help("each word has a label: lists of one length, or words between spaces")
            .into());
    }
    if labels.iter().any(String::is_empty) {
        let message = format!("a label in column `{}` is empty", data.label);
        return Err(sources
            .problem_of(split, Some(row.line), message)
            .with_help(
                "give each word a label; `O` is the usual one for words outside all entities",
            )
            .into());
    }
    let words = if data.clean.normalize {
        words.iter().map(|word| normalized(word)).collect()
    } else {
        words
    };
    Ok(TaggedWords { words, labels, line: row.line })
}

/// The labels of the training words; other splits must not have other ones.
fn labels(sources: &Sources, splits: &[Vec<TaggedWords>; 3]) -> Result<Vec<String>, TrainerError> {
    let is_learned = |label: &&String| !(sources.data.marks_ignored() && is_ignored(label));
    let of_train = splits[0].iter().flat_map(|row| row.labels.iter().filter(is_learned));
    let known: BTreeSet<&str> = of_train.map(String::as_str).collect();
    for (rows, split) in splits.iter().zip(Split::ALL).skip(1) {
        for row in rows {
            let mut learned = row.labels.iter().filter(is_learned);
            if let Some(label) = learned.find(|label| !known.contains(label.as_str())) {
                let message = format!(
                    "label `{label}` occurs in the {} rows but not in the training rows",
                    split.name()
                );
                return Err(sources
                    .problem_of(split, Some(row.line), message)
                    .with_help("a label that is never trained cannot be predicted")
                    .into());
            }
        }
    }
    if known.is_empty() {
        let help = format!("is `{}` the right column?", sources.data.label);
        let problem = sources.problem(None, "all words have the label -100, which is not learned");
        return Err(problem.with_help(help).into());
    }
    if let [only] = known.iter().collect::<Vec<_>>()[..] {
        let message = format!("all words have the label `{only}`");
        let help = format!(
            "a classifier needs at least two; is `{}` the right column?",
            sources.data.label
        );
        return Err(sources.problem(None, message).with_help(help).into());
    }
    Ok(in_order(known, &sources.labels_of_model()?))
}

fn note_labels(splits: &[Vec<TaggedWords>; 3], labels: &[String], findings: &mut Vec<Finding>) {
    let rows = in_splits(splits.each_ref().map(Vec::len));
    let words: usize = splits[0].iter().map(|row| row.words.len()).sum();
    findings.push(Finding::note(
        "rows",
        format!("{rows} rows with {} labels; {words} training words", labels.len()),
    ));
    if labels.iter().all(|label| label.parse::<i64>().is_ok()) {
        findings.push(Finding::warning(
            "numbered_labels",
            "labels are numbers, not tags such as `B-PER`: eval_precision, eval_recall and eval_f1 \
             count entities by tags, so write the names of the labels, or see eval_accuracy"
                .to_owned(),
        ));
    }
}

/// How labels of words become labels of tokens.
struct Alignment<'a> {
    labels: &'a [String],
    /// By the id of a word's label, that of the tokens after its first one.
    of_later_tokens: Vec<u32>,
}

impl<'a> Alignment<'a> {
    /// Later tokens have no label, or with `label_all_tokens` that of the word, `I-` for `B-` where
    /// there is such a label.
    fn new(labels: &'a [String], data: &DataArguments) -> Self {
        let later = |(id, label): (usize, &String)| {
            if !data.label_all_tokens {
                return NO_LABEL;
            }
            let inside = label.strip_prefix("B-").map(|kind| format!("I-{kind}"));
            let inside = inside.and_then(|inside| labels.iter().position(|one| *one == inside));
            small(inside.unwrap_or(id))
        };
        Self { labels, of_later_tokens: labels.iter().enumerate().map(later).collect() }
    }

    /// The label of each token of a row.
    fn of_tokens(&self, encoding: &Encoding, words: &[String]) -> Vec<u32> {
        let mut last = None;
        let label = |word: &Option<u32>| {
            let Some(word) = *word else { return NO_LABEL };
            let name = words.get(word as usize);
            let Some(id) = self.labels.iter().position(|label| Some(label) == name) else {
                return NO_LABEL;
            };
            let is_first = last.replace(word) != Some(word);
            if is_first { small(id) } else { self.of_later_tokens[id] }
        };
        encoding.get_word_ids().iter().map(label).collect()
    }
}

fn small(id: usize) -> u32 {
    u32::try_from(id).unwrap_or(NO_LABEL)
}

/// The tokenizer with a space before each word, where it tells words by spaces: bytes as GPT-2 and
/// RoBERTa have them (transformers' `add_prefix_space`).
pub(super) fn spaced(tokenizer: Tokenizer) -> Result<Tokenizer, TrainerError> {
    let text = tokenizer.to_string(false).map_err(TrainerError::tokenizer)?;
    let mut file: Value = serde_json::from_str(&text).map_err(|error| {
        TrainerError::tokenizer(format!("`tokenizer.json` cannot be parsed: {error}"))
    })?;
    if !add_prefix_space(&mut file["pre_tokenizer"]) {
        return Ok(tokenizer);
    }
    tokenizer_file::read(file.to_string().as_bytes()).map_err(TrainerError::tokenizer)
}

/// Whether there was a `ByteLevel` to change.
fn add_prefix_space(pre_tokenizer: &mut Value) -> bool {
    if pre_tokenizer["type"] == "ByteLevel" && pre_tokenizer["add_prefix_space"] == false {
        pre_tokenizer["add_prefix_space"] = true.into();
        return true;
    }
    let parts = pre_tokenizer.get_mut("pretokenizers").and_then(Value::as_array_mut);
    let mut has_changed = false;
    for part in parts.into_iter().flatten() {
        has_changed |= add_prefix_space(part);
    }
    has_changed
}
