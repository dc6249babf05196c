//! Prepared data: token ids and labels of every split, in memory-mapped files that processes share.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokenizers::Tokenizer;

use super::tokenizer_file;
use super::vocabulary_files::extras_in;
use super::{DataProblem, Finding, TrainerError, mapped_file, model_directory};
use hpsearch_core::arguments::TokenizerSource;

/// The version of the directory's format; part of its key, so that versions do not collide.
pub(super) const FORMAT: u32 = 3;

/// A part of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// For training.
    Train,
    /// For comparing trials.
    Validation,
    /// For evaluating the best trial; empty unless the study names one.
    Test,
}

impl Split {
    /// All three, in the order of their files.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// `train`, `validation` or `test`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }

    /// The description of an evaluation on it, for progress.
    pub(super) fn evaluating(self) -> &'static str {
        match self {
            Self::Train => "evaluating on the training split",
            Self::Validation => "evaluating on the validation split",
            Self::Test => "evaluating on the test split",
        }
    }
}

/// `data.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub(super) format: u32,
    pub(super) digest: String,
    pub(super) labels: Vec<String>,
    /// For multi-label data, the sets of label ids that occur; a row's label is the index of one of
    /// these.
    #[serde(default)]
    pub(super) label_sets: Vec<Vec<usize>>,
    /// What there is besides token ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) extras: Vec<Extra>,
    pub(super) rows: [usize; 3],
    pub(super) max_length: usize,
    pub(super) vocab_size: usize,
    pub(super) tokenizer: TokenizerSource,
    /// For language modeling only.
    pub(super) stream: Option<Stream>,
    /// For sentence similarity only: whether pairs have similarities.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_scores: bool,
    /// For masked language modeling only: the mask token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mask: Option<u32>,
    /// For tasks that write texts only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text_ends: Option<TextEnds>,
    /// For question answering only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) questions: Option<QuestionsAbout>,
    pub(super) findings: Vec<Finding>,
}

/// Around texts to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextEnds {
    /// The token that fills up texts and comes before their first, of a tokenizer trained here.
    pub(super) pad: u32,
    /// The one that ends them.
    pub(super) end: u32,
    /// Most tokens of one, the end included.
    pub(super) longest: usize,
    /// What was put before each source.
    pub(super) prefix: Option<String>,
}

/// What questions ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuestionsAbout {
    /// Most tokens of an answer that is found.
    pub(super) longest_answer: usize,
    /// Whether a training question has no answer.
    pub(super) may_be_unanswerable: bool,
}

/// What prepared data has for each row besides its token ids, in files of its own: a number for
/// each token, or others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Extra {
    /// Its token type, the segment of a pair of texts.
    TokenTypes,
    /// The id of its label, or [`NO_LABEL`].
    Labels,
    /// The number of its word within the row, or [`NO_LABEL`].
    Words,
    /// The second text of a pair whose texts are read one by one.
    SecondTexts,
    /// The character of the context at which it begins, or [`NO_LABEL`].
    ContextBegins,
    /// The character of the context after it, or [`NO_LABEL`].
    ContextEnds,
    /// The number of the question, and the first and last token of its answer: 0 and 0 if it is not
    /// in the row.
    Answers,
}

/// The label of a token that has none: special tokens, and those of a word that are not its first.
pub(super) const NO_LABEL: u32 = u32::MAX;

impl Extra {
    const ALL: [Self; 7] = [
        Self::TokenTypes,
        Self::Labels,
        Self::Words,
        Self::SecondTexts,
        Self::ContextBegins,
        Self::ContextEnds,
        Self::Answers,
    ];

    /// Those of question answering.
    pub(super) const OF_QUESTIONS: [Self; 4] =
        [Self::TokenTypes, Self::ContextBegins, Self::ContextEnds, Self::Answers];

    /// The file of a split.
    pub(super) fn file(self, split: Split) -> String {
        match self {
            Self::TokenTypes => format!("{}.token_types", split.name()),
            Self::Labels => format!("{}.token_labels", split.name()),
            Self::Words => format!("{}.token_words", split.name()),
            Self::SecondTexts => format!("{}.second_texts", split.name()),
            Self::ContextBegins => format!("{}.context_begins", split.name()),
            Self::ContextEnds => format!("{}.context_ends", split.name()),
            Self::Answers => format!("{}.answers", split.name()),
        }
    }
}

/// Texts as one stream of tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stream {
    /// Bytes of each split, one for the end of each of several texts included.
    pub(super) bytes: [u64; 3],
    /// The start token.
    pub(super) start: u32,
    /// The end-of-text token.
    pub(super) end: u32,
}

/// Tokenised, split and labelled data. Opening it is cheap, and trials on one machine share its
/// memory pages.
#[derive(Debug)]
pub struct PreparedData {
    directory: PathBuf,
    description: Description,
    splits: [TokenRows; 3],
    /// By [`Extra::ALL`].
    extras: [Option<[TokenRows; 3]>; Extra::ALL.len()],
}

impl PreparedData {
    /// Opens a directory that [`prepare`](super::prepare) made.
    ///
    /// # Errors
    /// A file is missing, damaged or of another version.
    pub fn open(directory: &Path) -> Result<Self, TrainerError> {
        let path = directory.join("data.json");
        let text = fs::read_to_string(&path).map_err(TrainerError::io("read", &path))?;
        let description: Description =
            serde_json::from_str(&text).map_err(|error| damaged(&path, &error.to_string()))?;
        if description.format != FORMAT {
            return Err(damaged(
                &path,
                &format!("format {} where this version reads {FORMAT}", description.format),
            ));
        }
        let open = |file: String, rows: usize| {
            let found = TokenRows::open(&directory.join(file))?;
            if found.len() == rows {
                Ok(found)
            } else {
                Err(damaged(&found.path, "its number of rows is not that of data.json"))
            }
        };
        let each = |file: &dyn Fn(Split) -> String| -> Result<[TokenRows; 3], TrainerError> {
            let [train, validation, test] =
                Split::ALL.map(|split| open(file(split), description.rows[split as usize]));
            Ok([train?, validation?, test?])
        };
        let splits = each(&|split| format!("{}.rows", split.name()))?;
        let mut extras = [const { None }; Extra::ALL.len()];
        for (what, files) in Extra::ALL.into_iter().zip(&mut extras) {
            if !description.extras.contains(&what) {
                continue;
            }
            let found = each(&|split| what.file(split))?;
            let is_aligned = |(numbers, ids): (&TokenRows, &TokenRows)| {
                matches!(what, Extra::SecondTexts | Extra::Answers)
                    || (0..ids.len()).all(|row| ids.length(row) == numbers.length(row))
            };
            if let Some((odd, _)) = found.iter().zip(&splits).find(|pair| !is_aligned(*pair)) {
                return Err(damaged(&odd.path, "it has not one number for each token"));
            }
            *files = Some(found);
        }
        Ok(Self { directory: directory.to_owned(), description, splits, extras })
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The digest of files, data arguments and tokenizer arguments: equal digests mean equal data.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.description.digest
    }

    /// The labels in the order of their ids.
    #[must_use]
    pub fn labels(&self) -> &[String] {
        &self.description.labels
    }

    /// The number of rows of a split.
    #[must_use]
    pub fn rows(&self, split: Split) -> usize {
        self.description.rows[split as usize]
    }

    /// Whether it has rows to evaluate on in training.
    pub(super) fn has_validation(&self) -> bool {
        self.rows(Split::Validation) > 0
    }

    /// Maximum length of a row in tokens.
    #[must_use]
    pub fn max_length(&self) -> usize {
        self.description.max_length
    }

    /// Size of the tokenizer's vocabulary.
    #[must_use]
    pub fn vocab_size(&self) -> usize {
        self.description.vocab_size
    }

    /// Where the tokenizer came from.
    #[must_use]
    pub fn tokenizer(&self) -> &TokenizerSource {
        &self.description.tokenizer
    }

    /// Findings about the data.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.description.findings
    }

    /// Adds findings about the model that the data is used with.
    pub(super) fn add_findings(&mut self, findings: Vec<Finding>) {
        self.description.findings.extend(findings);
    }

    /// Number of rows of each label in a split, by label id.
    #[must_use]
    pub fn label_counts(&self, split: Split) -> Vec<usize> {
        let rows = self.split(split);
        let mut counts = vec![0; self.labels().len()];
        for row in 0..rows.len() {
            let of_row = match &self.description.label_sets[..] {
                [] => std::slice::from_ref(&rows.label(row)).to_vec(),
                sets => sets.get(rows.label(row)).cloned().unwrap_or_default(),
            };
            for label in of_row {
                if let Some(count) = counts.get_mut(label) {
                    *count += 1;
                }
            }
        }
        counts
    }

    /// Number of tokens in a split, special ones included.
    #[must_use]
    pub fn tokens(&self, split: Split) -> usize {
        self.split(split).tokens()
    }

    /// 1 for each label of a set, 0 for each other.
    pub(super) fn label_set(&self, number: usize) -> Vec<f32> {
        let mut truth = vec![0.0; self.labels().len()];
        for label in self.description.label_sets.get(number).into_iter().flatten() {
            if let Some(target) = truth.get_mut(*label) {
                *target = 1.0;
            }
        }
        truth
    }

    /// The `config.json` of the pretrained model.
    pub(super) fn pretrained_config(&self) -> Result<Map<String, Value>, TrainerError> {
        let path = self.directory.join("config.json");
        let bytes = fs::read(&path).map_err(TrainerError::io("read", &path))?;
        serde_json::from_slice(&bytes).map_err(|error| damaged(&path, &error.to_string()))
    }

    /// Whether pairs have similarities, for sentence similarity.
    pub(super) fn has_scores(&self) -> bool {
        self.description.has_scores
    }

    /// What questions ask for, for question answering.
    pub(super) fn questions(&self) -> Option<&QuestionsAbout> {
        self.description.questions.as_ref()
    }

    /// What is around texts to write, for tasks that write them.
    pub(super) fn text_ends(&self) -> Option<&TextEnds> {
        self.description.text_ends.as_ref()
    }

    /// Maximum length of a text to write in tokens, for tasks that write them.
    pub(super) fn max_target_length(&self) -> usize {
        self.text_ends().map_or(0, |ends| ends.longest)
    }

    /// The mask token, for masked language modeling.
    pub(super) fn mask(&self) -> Option<u32> {
        self.description.mask
    }

    /// The stream of tokens, for language modeling.
    pub(super) fn stream(&self) -> Option<&Stream> {
        self.description.stream.as_ref()
    }

    pub(super) fn split(&self, split: Split) -> &TokenRows {
        &self.splits[split as usize]
    }

    /// What a split has besides token ids, if it has it.
    pub(super) fn extras(&self, what: Extra, split: Split) -> Option<&TokenRows> {
        self.extras[what as usize].as_ref().map(|splits| &splits[split as usize])
    }

    /// The bytes of `tokenizer.json`.
    pub(super) fn tokenizer_file(&self) -> Result<Vec<u8>, TrainerError> {
        let path = self.directory.join("tokenizer.json");
        fs::read(&path).map_err(TrainerError::io("read", &path))
    }

    /// The files that Hugging Face keeps beside `tokenizer.json`.
    pub(super) fn tokenizer_extras(&self) -> Result<Vec<(&'static str, Vec<u8>)>, TrainerError> {
        let read = |name: &'static str| {
            let path = self.directory.join(name);
            Ok((name, fs::read(&path).map_err(TrainerError::io("read", &path))?))
        };
        extras_in(&self.directory).map(read).collect()
    }

    /// The tokenizer of the texts to write.
    pub(super) fn target_tokenizer(&self) -> Result<Tokenizer, TrainerError> {
        if let Some(tokenizer) = model_directory::target_tokenizer(&self.directory)? {
            return Ok(tokenizer);
        }
        tokenizer_file::read(&self.tokenizer_file()?).map_err(TrainerError::tokenizer)
    }
}

/// Rows of token ids with their labels, in one mapped file of little-endian u32:
/// `rows, offset[rows + 1], label[rows], id[offset[rows]]`.
#[derive(Debug)]
pub(super) struct TokenRows {
    path: PathBuf,
    map: Mmap,
    rows: usize,
}

impl TokenRows {
    /// The bytes of a file holding `rows` of (ids, label).
    pub(super) fn encode(rows: &[(Vec<u32>, u32)]) -> Vec<u8> {
        let small = |number: usize| {
            u32::try_from(number).expect("fewer than 2^32 tokens: they were counted in preparation")
        };
        let mut numbers = vec![small(rows.len()), 0];
        let mut offset = 0;
        for (ids, _) in rows {
            offset += ids.len();
            numbers.push(small(offset));
        }
        numbers.extend(rows.iter().map(|(_, label)| *label));
        numbers.extend(rows.iter().flat_map(|(ids, _)| ids));
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn open(path: &Path) -> Result<Self, TrainerError> {
        let map = mapped_file::map(path).map_err(TrainerError::io("read", path))?;
        let mut rows = Self { path: path.to_owned(), map, rows: 0 };
        let sound = (|| {
            rows.rows = rows.get(0)? as usize;
            let tokens = rows.get(1 + rows.rows)? as usize;
            (rows.map.len() == 4 * (2 + 2 * rows.rows + tokens)).then_some(())
        })();
        sound.ok_or_else(|| damaged(path, "its length is not what its header says"))?;
        Ok(rows)
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// Tokens of all rows together.
    pub(super) fn tokens(&self) -> usize {
        self.number(1 + self.rows)
    }

    /// A range of the tokens of all rows.
    pub(super) fn window(&self, tokens: Range<usize>) -> impl ExactSizeIterator<Item = u32> {
        let ids = 2 + 2 * self.rows;
        words(&self.map[4 * (ids + tokens.start)..4 * (ids + tokens.end)])
    }

    /// The label id of a row.
    pub(super) fn label(&self, row: usize) -> usize {
        self.number(2 + self.rows + row)
    }

    /// The target of a row in regression.
    pub(super) fn number_of(&self, row: usize) -> f32 {
        self.get(2 + self.rows + row).map_or(f32::NAN, f32::from_bits)
    }

    /// Number of tokens of a row.
    pub(super) fn length(&self, row: usize) -> usize {
        self.number(2 + row) - self.number(1 + row)
    }

    /// The token ids of a row.
    pub(super) fn ids(&self, row: usize) -> impl ExactSizeIterator<Item = u32> {
        self.window(self.number(1 + row)..self.number(2 + row))
    }

    fn number(&self, position: usize) -> usize {
        self.get(position).expect("rows are within the length checked on opening") as usize
    }

    fn get(&self, position: usize) -> Option<u32> {
        let word = self.map.get(4 * position..4 * position + 4)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    }
}

fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

fn damaged(path: &Path, what: &str) -> TrainerError {
    DataProblem::new(path, None, format!("prepared data is damaged: {what}"))
        .with_help("remove its directory; it is made again")
        .into()
}
