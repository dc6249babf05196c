//! Data of a language model: text files or rows of texts, split, tokenised, and concatenated into
//! one stream of tokens per split.

use tokenizers::Tokenizer;

use super::atomic_directory::AtomicDirectory;
use super::families::ConfigReader;
use super::findings::in_splits;
use super::lm_tokenizer::{
    END_OF_TEXT_ID, encode, encode_with_progress, tokenizer_config, train_tokenizer,
    unknown_token_id,
};
use super::prepared::{Description, Split, Stream};
use super::progress::{PARSE, TOKENISE, bytes as bytes_of};
use super::sources::{Sources, check_pieces, clean, normalized};
use super::splits::{hold_out_splits, share_of};
use super::tokenizer_file::{self, SpecialTokens, encode_portions};
use super::{Finding, TrainerError, model_directory};
use hpsearch_core::arguments::TokenizerSource;

const TOO_FEW_TOKENS: &str = "there must be at least one to see and one to predict; give more text";

/// The texts of each split.
pub(super) struct Corpus {
    pub(super) splits: [Vec<String>; 3],
    /// Whether texts are rows of tables, each with an end, or one text file per split.
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Separate texts: each ends with the end-of-text token.
    Rows,
    /// One continuous text.
    Running,
}

/// Texts, tokenised and written to `staged`.
pub(super) fn prepare(
    sources: &Sources,
    staged: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the texts", sources.bytes * PARSE);
    let Corpus { splits, form } = read(sources, &mut findings)?;
    let texts = splits.each_ref().map(|split| split.iter().map(String::as_str).collect::<Vec<_>>());
    let source = source(sources, &texts[0], staged)?;
    let tokenizer = &source.tokenizer;
    sources.progress.begin_stage("tokenising the texts", sources.bytes * TOKENISE);
    let (mut done, all) = (0, texts.iter().map(|texts| bytes_of(texts)).sum());
    let (mut bytes, mut tokens) = ([0; 3], [0; 3]);
    for (split, index) in Split::ALL.into_iter().zip(0..) {
        let texts: &[&str] = &texts[index];
        let mut rows = source.encode(texts, &mut |bytes| {
            done += bytes;
            sources.progress.update(done, all);
        })?;
        note_unknown(split, &rows, source.unknown, &mut findings);
        if form == Form::Rows {
            rows.iter_mut().for_each(|row| row.push(source.end));
        }
        tokens[index] = rows.iter().map(Vec::len).sum();
        bytes[index] =
            texts.iter().map(|text| text.len() as u64 + u64::from(form == Form::Rows)).sum();
        let remedy =
            "give less text, or a tokenizer with longer tokens: `model.tokenizer = \"bpe\"`";
        let rows: Vec<_> = rows.into_iter().map(|ids| (ids, 0)).collect();
        sources.write_rows(staged, split, &rows, remedy)?;
    }
    for (split, index) in [(Split::Train, 0), (Split::Validation, 1)] {
        if sources.data.has_splits()[index] && tokens[index] < 2 {
            let message = format!("{} {} tokens are too few", tokens[index], split.name());
            return Err(sources.problem(None, message).with_help(TOO_FEW_TOKENS).into());
        }
    }
    tokenizer_file::write(staged, tokenizer)?;
    let vocab_size = tokenizer.get_vocab_size(true);
    findings.push(Finding::note(
        "tokens",
        format!(
            "{} tokens ({}) out of a vocabulary of {vocab_size}",
            in_splits(tokens),
            source.word
        ),
    ));
    let start = source.start(form)?;
    let rows = splits.each_ref().map(Vec::len);
    Ok(Description {
        stream: Some(Stream { bytes, start, end: source.end }),
        ..sources.describe(rows, vocab_size, findings)
    })
}

/// A tokenizer with the tokens around texts.
struct Source {
    tokenizer: Tokenizer,
    /// Its name in findings.
    word: &'static str,
    /// The unknown token.
    unknown: Option<u32>,
    /// The token that ends a text.
    end: u32,
    /// The token before a text's first, where the tokenizer is pretrained.
    start: Option<u32>,
}

/// The requested tokenizer: trained on the training texts, or a pretrained model's with the tokens
/// that its `config.json` names.
fn source(
    sources: &Sources,
    texts: &[&str],
    staged: &AtomicDirectory,
) -> Result<Source, TrainerError> {
    match sources.tokenizer {
        TokenizerSource::Trained(arguments) => {
            let tokenizer = train_tokenizer(texts, arguments, &sources.progress)?;
            staged.write("tokenizer_config.json", &tokenizer_config(&tokenizer))?;
            Ok(Source {
                word: arguments.kind.word(),
                unknown: unknown_token_id(&tokenizer),
                end: END_OF_TEXT_ID,
                start: None,
                tokenizer,
            })
        }
        TokenizerSource::Pretrained(directory) => {
            let tokenizer = model_directory::tokenizer(directory, None)?;
            let config = model_directory::config(directory)?;
            let token = |key| {
                ConfigReader(&config)
                    .token_id(key)
                    .map_err(|problem| TrainerError::config(directory, &problem))
            };
            let end = token("eos_token_id")?.ok_or_else(|| {
                let problem = "has no `eos_token_id`, the token that ends a text";
                TrainerError::config(directory, problem)
            })?;
            let start = token("bos_token_id")?.unwrap_or(end);
            Ok(Source {
                word: "the pretrained model's",
                unknown: model_directory::unknown_token(&tokenizer),
                end,
                start: Some(start),
                tokenizer,
            })
        }
    }
}

impl Source {
    /// The token ids of each text, with the special tokens of a pretrained tokenizer.
    fn encode(
        &self,
        texts: &[&str],
        on_bytes: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<u32>>, TrainerError> {
        match self.start {
            None => encode_with_progress(&self.tokenizer, texts, on_bytes),
            Some(_) => encode_portions(&self.tokenizer, texts, SpecialTokens::Add, on_bytes),
        }
    }

    /// The start token. Continuous training text never shows the start of a text: the start of a
    /// line is the best approximation.
    fn start(&self, form: Form) -> Result<u32, TrainerError> {
        if let Some(start) = self.start {
            return Ok(start);
        }
        let line = encode(&self.tokenizer, &["\n"])?.concat();
        Ok(match (form, &line[..]) {
            (Form::Running, [line]) if Some(*line) != self.unknown => *line,
            _ => END_OF_TEXT_ID,
        })
    }
}

/// Reads and cleans every file and cuts the splits.
pub(super) fn read(sources: &Sources, findings: &mut Vec<Finding>) -> Result<Corpus, TrainerError> {
    let forms: Vec<bool> = sources.files.iter().flatten().map(|(_, file)| file.is_text()).collect();
    if forms.iter().any(|form| *form != forms[0]) {
        let problem = sources.problem(None, "some files are .txt and some are not");
        return Err(problem
            .with_help(
                "a model that learns running text is measured on running \
            text: give all files in one format",
            )
            .into());
    }
    if forms[0] { running(sources, findings) } else { rows(sources, findings) }
}

/// Text files: their end is held out, so that training text is contiguous.
fn running(sources: &Sources, findings: &mut Vec<Finding>) -> Result<Corpus, TrainerError> {
    let data = sources.data;
    let mut splits: [Vec<String>; 3] = Default::default();
    for (file, split) in sources.files.iter().zip(&mut splits) {
        let Some((path, file)) = file else { continue };
        let text = file.text()?;
        check_pieces(&text, path)?;
        split.push(if data.clean.normalize {
            text.lines().map(|line| normalized(line) + "\n").collect()
        } else {
            text
        });
    }
    let all = splits[0][0].chars().count();
    // From the end: the test split comes last.
    for (index, share) in [(2, data.test_split), (1, data.validation_split)] {
        let Some(share) = share.filter(|share| *share > 0.0) else { continue };
        let count = share_of(all, share);
        let text = &mut splits[0][0];
        let cut = text.char_indices().rev().nth(count.saturating_sub(1)).map_or(0, |(at, _)| at);
        splits[index] = vec![splits[0][0].split_off(cut)];
    }
    let counts =
        splits.each_ref().map(|split| split.iter().map(|text| text.chars().count()).sum::<usize>());
    let counted = format!("{} characters of running text", in_splits(counts));
    findings.push(Finding::note("characters", counted));
    Ok(Corpus { splits, form: Form::Running })
}

/// Tables: each row is a text of its own, and rows are held out at random.
fn rows(sources: &Sources, findings: &mut Vec<Finding>) -> Result<Corpus, TrainerError> {
    let data = sources.data;
    let mut splits: [Vec<_>; 3] = Default::default();
    for ((file, split), rows) in sources.files.iter().zip(Split::ALL).zip(&mut splits) {
        if let Some((path, file)) = file {
            *rows = clean(file.rows(data)?, path, split, data, findings)?;
        }
    }
    let all = splits[0].len();
    hold_out_splits(&mut splits, data, false);
    let wanted = data.has_splits().into_iter().take(2);
    if splits.iter().zip(wanted).any(|(rows, wanted)| wanted && rows.is_empty()) {
        let problem = sources.problem(None, format!("too few rows to split: {all}"));
        return Err(problem.with_help("give more rows").into());
    }
    let counts = splits.each_ref().map(Vec::len);
    findings.push(Finding::note("rows", format!("{} texts", in_splits(counts))));
    Ok(Corpus {
        splits: splits.map(|rows| rows.into_iter().map(|row| row.text).collect()),
        form: Form::Rows,
    })
}

fn note_unknown(
    split: Split,
    rows: &[Vec<u32>],
    unknown: Option<u32>,
    findings: &mut Vec<Finding>,
) {
    let Some(unknown) = unknown else { return };
    let count = rows.iter().flatten().filter(|id| **id == unknown).count();
    if count > 0 {
        let tokens: usize = rows.iter().map(Vec::len).sum();
        findings.push(Finding::warning(
            "unknown",
            format!("{count} of {tokens} {} characters are unknown to the tokenizer", split.name()),
        ));
    }
}
