//! Prepared data from files, from the cache where it was made before: read, and stored under the digest of what it depends on.

use std::collections::HashSet;
use std::path::Path;

use serde_json::json;
use tokenizers::NormalizedString;

use super::durable::{Draft, Existing};
use super::error::DataComplaint;
use super::pace::{Pace, Ticker};
use super::prepared::{Description, FORMAT, PreparedData, Split};
use super::pretrained::TOKENIZER_EXTRAS;
use super::spelling::pieces;
use super::table_file::{RawFile, Row};
use super::task::task;
use super::{DataProblem, Finding, Severity, TrainerError, pretrained};
use crate::arguments::{DataArguments, TaskKind, TokenizerSource};

/// Prepared data for these arguments, from `cache` when it is there. Several processes may prepare the same at once.
/// `log` is told lines, `ticker` how far it is.
///
/// # Errors
/// [`TrainerError::Data`] with file and line for anything that keeps the data from being used.
pub fn prepare(
    kind: TaskKind,
    data: &DataArguments,
    tokenizer: &TokenizerSource,
    cache: &Path,
    log: &mut dyn FnMut(&str),
    ticker: Ticker<'_>,
) -> Result<PreparedData, TrainerError> {
    let sources = Sources::read(data, tokenizer, ticker)?;
    let digest = sources.digest(kind)?;
    let directory = cache.join(&digest);
    if !directory.join("data.json").exists() {
        if let TokenizerSource::Pretrained(directory) = tokenizer {
            // Before texts are tokenised, which may take long.
            pretrained::look_at(directory, kind)?;
        }
        log(&format!("preparing data from {}", data.train.display()));
        let draft = Draft::new(&directory)?;
        let mut description = task(kind).prepare(&sources, &draft)?;
        description.digest = digest;
        if let TokenizerSource::Pretrained(directory) = tokenizer {
            // With these, trials and exports need nothing of the model's directory but its weights.
            for name in std::iter::once("config.json").chain(TOKENIZER_EXTRAS).filter(|name| directory.join(name).is_file()) {
                draft.write(name, &pretrained::file(directory, name)?)?;
            }
        }
        let text = serde_json::to_string_pretty(&description).expect("a description is plain data");
        draft.write("data.json", text.as_bytes())?;
        draft.publish(Existing::Keep)?;
    }
    let mut prepared = PreparedData::open(&directory)?;
    if let TokenizerSource::Pretrained(directory) = tokenizer {
        prepared.add_findings(pretrained::check(directory, kind, &prepared)?);
    }
    for finding in prepared.findings() {
        let mark = if finding.severity == Severity::Warning { "warning: " } else { "" };
        log(&format!("{mark}{}", finding.message));
    }
    Ok(prepared)
}

/// Reading the rows: what a byte costs in each stage, as its parts of the whole. Estimates for WordPiece on rows of prose: a bar needs no more.
pub(super) const PARSE: u64 = 1;
/// Finding the words of the training texts.
pub(super) const WORDS: u64 = 15;
/// Joining their letters to tokens, of which only the beginning and the end are heard of.
pub(super) const MERGES: u64 = 5;
/// Cutting any text into tokens.
pub(super) const TOKENISE: u64 = 10;

/// What data is made of: the contents of the files a study names, in the order of [`Split::ALL`], and what it says about them.
pub(super) struct Sources<'a> {
    pub(super) files: [Option<(&'a Path, RawFile)>; 3],
    pub(super) data: &'a DataArguments,
    pub(super) tokenizer: &'a TokenizerSource,
    /// How far making prepared data of them is.
    pub(super) pace: Pace<'a>,
    /// Bytes of all files.
    pub(super) bytes: u64,
}

impl<'a> Sources<'a> {
    fn read(data: &'a DataArguments, tokenizer: &'a TokenizerSource, ticker: Ticker<'a>) -> Result<Self, TrainerError> {
        let paths = [Some(data.train.as_path()), data.validation.as_deref(), data.test.as_deref()];
        // A file that is not there is told of when it is read.
        let sizes = paths.map(|path| path.and_then(|path| path.metadata().ok()).map_or(0, |file| file.len()));
        let reading = Pace::new(ticker, sizes.iter().sum());
        let mut files = [None, None, None];
        for ((path, size), place) in paths.into_iter().zip(sizes).zip(&mut files) {
            let Some(path) = path else { continue };
            reading.stage("reading the data", size);
            *place = Some((path, RawFile::read(path)?));
        }
        let bytes = |split: usize| files[split].as_ref().map_or(0, |(_, file): &(_, RawFile)| file.bytes.len() as u64);
        // What is held out is cut from the training file.
        let all = bytes(0) + bytes(1) + bytes(2);
        let pace = Pace::new(ticker, all * (PARSE + TOKENISE) + bytes(0) * (WORDS + MERGES));
        Ok(Self { files, data, tokenizer, pace, bytes: all })
    }

    /// The digest of everything the prepared data depends on: where the files lie does not matter, what is in them does.
    fn digest(&self, kind: TaskKind) -> Result<String, TrainerError> {
        let contents: Vec<_> = self
            .files
            .iter()
            .map(|file| {
                let (path, file) = file.as_ref()?;
                Some((path.extension().map(|extension| extension.to_string_lossy().into_owned()), blake3::hash(&file.bytes).to_hex().to_string()))
            })
            .collect();
        let data = self.data;
        let tokenizer = match self.tokenizer {
            TokenizerSource::Trained(arguments) => json!(arguments),
            TokenizerSource::Pretrained(directory) => {
                let config = pretrained::config(directory)?;
                json!({"config": config, "tokenizer": blake3::hash(&pretrained::file(directory, "tokenizer.json")?).to_hex().to_string()})
            }
        };
        let depends = json!({
            "format": FORMAT, "task": kind, "files": contents, "tokenizer": tokenizer,
            "data": [json!(data.text), json!(data.label), json!(data.validation_split), json!(data.test_split), json!(data.stratify),
                     json!(data.seed), json!(data.max_length), json!(data.clean), json!(data.label_separator)],
        });
        Ok(blake3::hash(depends.to_string().as_bytes()).to_hex()[..32].to_owned())
    }

    /// A description of data made of these, still without its digest.
    pub(super) fn describe(&self, rows: [usize; 3], vocab_size: usize, findings: Vec<Finding>) -> Description {
        Description {
            format: FORMAT,
            digest: String::new(),
            labels: Vec::new(),
            label_sets: Vec::new(),
            rows,
            max_length: self.data.max_length,
            vocab_size,
            tokenizer: self.tokenizer.clone(),
            stream: None,
            findings,
        }
    }
}

/// `rows` of the file at `path` tidied as the arguments ask for; what was left out is noted.
pub(super) fn clean(rows: Vec<Row>, path: &Path, split: Split, data: &DataArguments, findings: &mut Vec<Finding>) -> Result<Vec<Row>, DataProblem> {
    check_lengths(&rows, path)?;
    let mut rows = rows;
    if data.clean.normalize {
        for row in &mut rows {
            row.text = normalized(&row.text);
        }
    }
    let before = rows.len();
    if data.clean.drop_empty {
        rows.retain(|row| !row.text.trim().is_empty());
        if rows.len() < before {
            findings.push(Finding::note(
                "dropped_empty",
                format!("{} of {before} {} rows have an empty text and are left out", before - rows.len(), split.name()),
            ));
        }
    } else if let Some(empty) = rows.iter().find(|row| row.text.trim().is_empty()) {
        return Err(DataProblem::new(path, Some(empty.line), format!("the text in column `{}` is empty", data.text))
            .with_help("set `clean.drop_empty = true` to leave such rows out"));
    }
    if rows.is_empty() {
        return Err(DataProblem::new(path, None, format!("all {before} texts in column `{}` are empty", data.text))
            .with_help("is that the right column? `[data] text` names it"));
    }
    if data.clean.deduplicate {
        let before = rows.len();
        let mut seen = HashSet::new();
        rows.retain(|row| seen.insert((row.text.clone(), row.label.clone())));
        if rows.len() < before {
            findings.push(Finding::note(
                "dropped_duplicates",
                format!("{} of {before} {} rows repeat an earlier one and are left out", before - rows.len(), split.name()),
            ));
        }
    }
    Ok(rows)
}

/// Bytes of a text that the tokenizers library takes as a whole, which needs some forty times as much memory.
const LONGEST_TEXT: usize = 32 << 20;

/// Refuses rows with texts for which no memory suffices.
fn check_lengths(rows: &[Row], path: &Path) -> Result<(), DataProblem> {
    match rows.iter().find(|row| row.text.len() > LONGEST_TEXT) {
        Some(row) => Err(too_long(path, row.line, "the text", row.text.len()).with_help("give it as several rows, or take the row out")),
        None => Ok(()),
    }
}

/// The same for what stands in a running text without a space or line break between two words: elsewhere it is cut.
pub(super) fn check_pieces(text: &str, path: &Path) -> Result<(), DataProblem> {
    let Some(long) = pieces(text).into_iter().find(|piece| piece.len() > LONGEST_TEXT) else { return Ok(()) };
    let before = long.as_ptr().addr() - text.as_ptr().addr();
    let line = 1 + text.as_bytes()[..before].iter().filter(|byte| **byte == b'\n').count() as u64;
    Err(too_long(path, line, "what follows without a space or line break between two words", long.len())
        .with_help("is it a text? Break it into lines"))
}

fn too_long(path: &Path, line: u64, what: &str, bytes: usize) -> DataComplaint {
    DataProblem::new(path, Some(line), format!("{what} has {} MiB, and {} MiB are the most", bytes >> 20, LONGEST_TEXT >> 20))
}

/// `text` in Unicode NFKC with runs of white space as one space.
pub(super) fn normalized(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    // In pieces, each of which takes memory for itself; nothing is composed over a space.
    for piece in pieces(text) {
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
