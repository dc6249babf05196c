//! The files that data is prepared from: read, cleaned, and identified by the digest of everything
//! the result depends on.

use std::collections::HashSet;
use std::path::Path;

use serde_json::json;
use tokenizers::{NormalizedString, TruncationDirection};

use super::atomic_directory::AtomicDirectory;
use super::encoder::named_labels;
use super::lm_tokenizer::chunks;
use super::prepared::{Description, Extra, FORMAT, Split, TokenRows};
use super::progress::{MERGES, PARSE, Progress, ProgressCallback, TOKENISE, WORDS};
use super::splits::hold_out_splits;
use super::table_file::RawFile;
use super::{DataProblem, Finding, TrainerError, model_directory, vocabulary_files};
use hpsearch_core::arguments::data_file::{DataProblemBuilder, DataRow, is_delimited};
use hpsearch_core::arguments::{DataArguments, LabelFormat, TaskKind, TokenizerSource};

/// The sources of data: the contents of the files a study names, in the order of [`Split::ALL`],
/// with its arguments.
pub(super) struct Sources<'a> {
    pub(super) files: [Option<(&'a Path, RawFile)>; 3],
    pub(super) data: &'a DataArguments,
    pub(super) tokenizer: &'a TokenizerSource,
    /// The progress of preparation.
    pub(super) progress: Progress<'a>,
    /// Bytes of all files.
    pub(super) bytes: u64,
}

impl<'a> Sources<'a> {
    pub(super) fn read(
        data: &'a DataArguments,
        tokenizer: &'a TokenizerSource,
        on_progress: ProgressCallback<'a>,
    ) -> Result<Self, TrainerError> {
        let paths = [Some(data.train.as_path()), data.validation.as_deref(), data.test.as_deref()];
        // A missing file is an error when it is read.
        let sizes = paths.map(|path| path.map_or(0, RawFile::size));
        let reading = Progress::new(on_progress, sizes.iter().sum());
        let mut files = [None, None, None];
        for ((path, size), file) in paths.into_iter().zip(sizes).zip(&mut files) {
            let Some(path) = path else { continue };
            reading.begin_stage("reading the data", size);
            *file = Some((path, RawFile::read(path, on_progress)?));
        }
        let bytes =
            |split: usize| files[split].as_ref().map_or(0, |(_, file): &(_, RawFile)| file.len());
        // Held-out rows are cut from the training file.
        let all = bytes(0) + bytes(1) + bytes(2);
        let progress =
            Progress::new(on_progress, all * (PARSE + TOKENISE) + bytes(0) * (WORDS + MERGES));
        Ok(Self { files, data, tokenizer, progress, bytes: all })
    }

    /// The digest of everything the prepared data depends on: the contents of files, but not their
    /// paths.
    pub(super) fn digest(&self, kind: TaskKind) -> Result<String, TrainerError> {
        let contents: Vec<_> = self
            .files
            .iter()
            .map(|file| {
                let (path, file) = file.as_ref()?;
                Some((
                    path.extension().map(|extension| extension.to_string_lossy().into_owned()),
                    file.digest(),
                ))
            })
            .collect();
        let data = self.data;
        let tokenizer = match self.tokenizer {
            TokenizerSource::Trained(arguments) => json!(arguments),
            TokenizerSource::Pretrained(directory) => {
                let config = model_directory::config(directory)?;
                let digest = |bytes: &[u8]| blake3::hash(bytes).to_hex().to_string();
                let mut tokenizer = json!({
                    "config": config,
                    "tokenizer": digest(&model_directory::tokenizer_json(directory)?),
                });
                if let Some(bytes) = vocabulary_files::target_tokenizer_json(directory)? {
                    tokenizer["target_tokenizer"] = digest(&bytes).into();
                }
                // Only if it differs, as with the arguments below.
                let side = model_directory::truncation_direction(directory)?;
                if side == TruncationDirection::Left {
                    tokenizer["truncation_side"] = "left".into();
                }
                tokenizer
            }
        };
        let mut arguments = vec![
            json!(data.text),
            json!(data.label),
            json!(data.validation_split),
            json!(data.test_split),
            json!(data.stratify),
            json!(data.seed),
            json!(data.max_length),
            json!(data.clean),
            json!(data.label_separator),
        ];
        // Only if given: the digests of data prepared before these arguments existed stay
        // unchanged.
        if data.separator.is_some() || data.column_names.is_some() {
            arguments.push(
                json!({"separator": data.separator_byte(), "column_names": data.column_names}),
            );
        }
        if let Some(column) = &data.text_pair {
            arguments.push(json!({"text_pair": column}));
        }
        if let Some(column) = &data.score {
            arguments.push(json!({"score": column}));
        }
        if let Some(column) = &data.target {
            let target = json!({
                "target": column, "max_target_length": data.max_target_length,
                "source_prefix": data.source_prefix,
            });
            arguments.push(target);
        }
        if kind == TaskKind::QuestionAnswering {
            arguments.push(json!({
                "doc_stride": data.doc_stride(), "max_answer_length": data.max_answer_length,
            }));
        }
        if let Some(format) = data.label_format.filter(|format| *format != LabelFormat::Names) {
            arguments.push(json!({"label_format": format}));
        }
        if data.label_all_tokens {
            arguments.push(json!({"label_all_tokens": true}));
        }
        let depends = json!({
            "format": FORMAT, "task": kind, "files": contents, "tokenizer": tokenizer,
            "data": arguments,
        });
        Ok(blake3::hash(depends.to_string().as_bytes()).to_hex()[..32].to_owned())
    }

    /// The labels of the pretrained model, by id; none where it has no names for them.
    pub(super) fn labels_of_model(&self) -> Result<Vec<String>, TrainerError> {
        match self.tokenizer {
            TokenizerSource::Trained(_) => Ok(Vec::new()),
            TokenizerSource::Pretrained(directory) => {
                Ok(named_labels(&model_directory::config(directory)?))
            }
        }
    }

    /// A problem of the training file.
    pub(super) fn problem(
        &self,
        line: Option<u64>,
        message: impl Into<String>,
    ) -> DataProblemBuilder {
        DataProblem::new(&self.data.train, line, message)
    }

    /// A problem of the file that a split comes from.
    pub(super) fn problem_of(
        &self,
        split: Split,
        line: Option<u64>,
        message: impl Into<String>,
    ) -> DataProblemBuilder {
        let own = self.files[split as usize].as_ref().map(|(path, _)| *path);
        DataProblem::new(own.unwrap_or(&self.data.train), line, message)
    }

    /// Cuts the splits that the arguments ask for from the training rows.
    pub(super) fn hold_out(&self, splits: &mut [Vec<DataRow>; 3]) -> Result<(), TrainerError> {
        let (data, all) = (self.data, splits[0].len());
        hold_out_splits(splits, data, false);
        if splits.iter().zip(data.has_splits()).any(|(rows, wanted)| wanted && rows.is_empty()) {
            let problem = self.problem(None, format!("too few rows to split: {all}"));
            return Err(problem.with_help("give more rows").into());
        }
        Ok(())
    }

    /// Writes the token ids and targets of a split; `remedy` is that of too many tokens.
    pub(super) fn write_rows(
        &self,
        staged: &AtomicDirectory,
        split: Split,
        rows: &[(Vec<u32>, u32)],
        remedy: &str,
    ) -> Result<(), TrainerError> {
        let tokens: usize = rows.iter().map(|(ids, _)| ids.len()).sum();
        if u32::try_from(tokens).is_err() {
            let problem = self.problem(None, format!("{tokens} tokens are more than 2^32"));
            return Err(problem.with_help(remedy).into());
        }
        staged.write(&format!("{}.rows", split.name()), &TokenRows::encode(rows)).map(|_| ())
    }

    /// Writes what a split has besides token ids.
    pub(super) fn write_extra(
        &self,
        staged: &AtomicDirectory,
        split: Split,
        what: Extra,
        rows: &[Vec<u32>],
    ) -> Result<(), TrainerError> {
        let rows: Vec<_> = rows.iter().map(|numbers| (numbers.clone(), 0)).collect();
        staged.write(&what.file(split), &TokenRows::encode(&rows)).map(|_| ())
    }

    /// A description of the prepared data, still without its digest.
    pub(super) fn describe(
        &self,
        rows: [usize; 3],
        vocab_size: usize,
        findings: Vec<Finding>,
    ) -> Description {
        Description {
            format: FORMAT,
            digest: String::new(),
            labels: Vec::new(),
            label_sets: Vec::new(),
            extras: Vec::new(),
            rows,
            max_length: self.data.max_length,
            vocab_size,
            tokenizer: self.tokenizer.clone(),
            stream: None,
            has_scores: false,
            mask: None,
            text_ends: None,
            questions: None,
            findings,
        }
    }
}

/// Adds a finding if the name of the label column is also a label: the header may be missing.
pub(super) fn note_header(
    rows: &[DataRow],
    path: &Path,
    data: &DataArguments,
    findings: &mut Vec<Finding>,
) {
    let same = rows.iter().filter(|row| row.label == data.label).count();
    if same > 0 && is_delimited(path) && data.column_names.is_none() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        findings.push(Finding::warning(
            "header",
            format!(
                "the label column of {name} is called `{}`, which is also the label of {same} of \
                 its {} rows: if its first line is a row and no header, name the columns with \
                 `[data] column_names = [..]`",
                data.label,
                rows.len()
            ),
        ));
    }
}

/// `rows` of the file at `path`, cleaned as the arguments ask for; a finding counts the rows left
/// out.
pub(super) fn clean(
    rows: Vec<DataRow>,
    path: &Path,
    split: Split,
    data: &DataArguments,
    findings: &mut Vec<Finding>,
) -> Result<Vec<DataRow>, DataProblem> {
    check_lengths(&rows, path)?;
    let note_dropped =
        |code: &str, before: usize, why: &str, rows: &[DataRow], findings: &mut Vec<Finding>| {
            if rows.len() < before {
                let (dropped, name) = (before - rows.len(), split.name());
                let message = format!("{dropped} of {before} {name} rows {why} and are left out");
                findings.push(Finding::note(code, message).of(split.name()));
            }
        };
    let mut rows = rows;
    if data.clean.normalize {
        for row in &mut rows {
            row.text = normalized(&row.text);
            row.text_pair = normalized(&row.text_pair);
        }
    }
    let before = rows.len();
    let empty_column = |row: &DataRow| {
        let is_empty = |text: &str| text.trim().is_empty();
        let second = data.second_column().filter(|_| is_empty(&row.text_pair));
        if is_empty(&row.text) { Some(&*data.text) } else { second }
    };
    let column = rows.iter().find_map(empty_column).unwrap_or(&data.text).to_owned();
    if data.clean.drop_empty {
        rows.retain(|row| empty_column(row).is_none());
        note_dropped("dropped_empty", before, "have an empty text", &rows, findings);
    } else if let Some((empty, column)) =
        rows.iter().find_map(|row| Some((row, empty_column(row)?)))
    {
        let message = format!("the text in column `{column}` is empty");
        return Err(DataProblem::new(path, Some(empty.line), message)
            .with_help("set `clean.drop_empty = true` to leave such rows out"));
    }
    if rows.is_empty() {
        let message = format!("all {before} texts in column `{column}` are empty");
        let key = data.key_of(&column);
        return Err(DataProblem::new(path, None, message)
            .with_help(format!("is that the right column? `[data] {key}` names it")));
    }
    let mut seen = HashSet::new();
    let is_first: Vec<bool> =
        rows.iter().map(|row| seen.insert((&row.text, &row.text_pair, &row.label))).collect();
    let repeated = is_first.iter().filter(|is_first| !**is_first).count();
    if data.clean.deduplicate {
        let before = rows.len();
        let mut is_first = is_first.into_iter();
        rows.retain(|_| is_first.next() == Some(true));
        note_dropped("dropped_duplicates", before, "repeat an earlier one", &rows, findings);
    } else if repeated > 0 {
        let message = format!(
            "{repeated} of {} {} rows repeat an earlier one: `[data] clean.deduplicate = true` \
             leaves them out",
            rows.len(),
            split.name()
        );
        findings.push(Finding::note("duplicates", message));
    }
    Ok(rows)
}

/// Longest text, in bytes: the tokenizers library processes a text as a whole, with some forty
/// times its memory.
const LONGEST_TEXT: usize = 32 << 20;

/// Rejects rows with texts that would exhaust memory.
fn check_lengths(rows: &[DataRow], path: &Path) -> Result<(), DataProblem> {
    let length = |row: &DataRow| row.text.len().max(row.text_pair.len());
    match rows.iter().find(|row| length(row) > LONGEST_TEXT) {
        Some(row) => Err(too_long(path, row.line, "the text", length(row))
            .with_help("give it as several rows, or remove the row")),
        None => Ok(()),
    }
}

/// The same for stretches of continuous text without a space or line break between two words, where
/// texts are cut.
pub(super) fn check_pieces(text: &str, path: &Path) -> Result<(), DataProblem> {
    let Some(long) = chunks(text).into_iter().find(|piece| piece.len() > LONGEST_TEXT) else {
        return Ok(());
    };
    let before = long.as_ptr().addr() - text.as_ptr().addr();
    let line = 1 + text.as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count() as u64;
    let what = "what follows without a space or line break between two words";
    Err(too_long(path, line, what, long.len()).with_help("is it a text? Break it into lines"))
}

fn too_long(path: &Path, line: u64, what: &str, bytes: usize) -> DataProblemBuilder {
    let message =
        format!("{what} has {} MiB, and {} MiB are the most", bytes >> 20, LONGEST_TEXT >> 20);
    DataProblem::new(path, Some(line), message)
}

/// `text` in Unicode NFKC with runs of white space as one space.
#[must_use]
pub fn normalized(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    // In pieces, to bound memory; nothing composes across a space.
    for piece in chunks(text) {
        let mut piece = NormalizedString::from(piece);
        piece.nfkc();
        for word in piece.get().split_whitespace() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
        }
    }
    words
}
