//! Data of a language model: text files or rows of texts, cut into splits, tokenised, and laid end to end as one stream of tokens each.

use tokenizers::Tokenizer;

use super::atomic_directory::AtomicDirectory;
use super::families::ConfigReader;
use super::lm_tokenizer::{
    END_OF_TEXT_ID, encode, encode_with_progress, tokenizer_config, train_tokenizer,
    unknown_token_id,
};
use super::prepared::{Description, Split, Stream, TokenRows};
use super::progress::{PARSE, TOKENISE};
use super::progress::{bytes as bytes_of, portions};
use super::sources::{Sources, check_pieces, clean, normalized};
use super::splits::hold_out;
use super::tokenizer_file::catch_panics;
use super::{DataProblem, Finding, TrainerError, model_directory};
use crate::arguments::TokenizerSource;

/// The texts of each split.
struct Corpus {
    splits: [Vec<String>; 3],
    /// Whether texts are rows of tables, each with an end, or one text file a split.
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Texts of their own: each ends with the end-of-text token.
    Rows,
    /// One running text.
    Running,
}

/// Texts, tokenised and written to `draft`.
pub(super) fn prepare(
    sources: &Sources,
    draft: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let data = sources.data;
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the texts", sources.bytes * PARSE);
    let Corpus { splits, form } = read(sources, &mut findings)?;
    let texts = splits.each_ref().map(|split| split.iter().map(String::as_str).collect::<Vec<_>>());
    let source = source(sources, &texts[0], draft)?;
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
        if u32::try_from(tokens[index]).is_err() {
            return Err(DataProblem::new(
                &data.train,
                None,
                format!("{} tokens are more than 2^32", tokens[index]),
            )
            .with_help(
                "give less text, or a tokenizer with longer tokens: `model.tokenizer = \"bpe\"`",
            )
            .into());
        }
        let rows: Vec<_> = rows.into_iter().map(|ids| (ids, 0)).collect();
        draft.write(&format!("{}.rows", split.name()), &TokenRows::encode(&rows))?;
    }
    for (split, index) in [(Split::Train, 0), (Split::Validation, 1)] {
        if tokens[index] < 2 {
            return Err(DataProblem::new(
                &data.train,
                None,
                format!("{} {} tokens are too few", tokens[index], split.name()),
            )
            .with_help("there must be at least one to see and one to tell; give more text")
            .into());
        }
    }
    draft.write(
        "tokenizer.json",
        tokenizer.to_string(false).map_err(TrainerError::tokenizer)?.as_bytes(),
    )?;
    let vocab_size = tokenizer.get_vocab_size(true);
    findings.push(Finding::note(
        "tokens",
        format!(
            "{} training, {} validation and {} test tokens ({}) out of a vocabulary of {vocab_size}",
            tokens[0], tokens[1], tokens[2], source.word
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
    /// What it is called where tokens are counted.
    word: &'static str,
    /// What it puts for what it does not know.
    unknown: Option<u32>,
    /// What ends a text.
    end: u32,
    /// What stands before a text's first token, where the tokenizer comes from elsewhere.
    start: Option<u32>,
}

/// The tokenizer that is asked for: trained on the training texts, or a pretrained model's with the tokens that its `config.json` names.
fn source(
    sources: &Sources,
    texts: &[&str],
    draft: &AtomicDirectory,
) -> Result<Source, TrainerError> {
    match sources.tokenizer {
        TokenizerSource::Trained(arguments) => {
            let tokenizer = train_tokenizer(texts, arguments, &sources.progress)?;
            draft.write("tokenizer_config.json", &tokenizer_config(&tokenizer))?;
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
            let wrong = |message: String| {
                TrainerError::model(directory, format!("`config.json` {message}"))
            };
            let end = ConfigReader(&config).token_id("eos_token_id").map_err(wrong)?;
            let end = end.ok_or_else(|| {
                wrong("has no `eos_token_id`, the token that ends a text".to_owned())
            })?;
            let start =
                ConfigReader(&config).token_id("bos_token_id").map_err(wrong)?.unwrap_or(end);
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
    /// The token ids of each text, with what a pretrained tokenizer puts before and after it.
    fn encode(
        &self,
        texts: &[&str],
        told: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<u32>>, TrainerError> {
        if self.start.is_none() {
            return encode_with_progress(&self.tokenizer, texts, told);
        }
        let mut ids = Vec::with_capacity(texts.len());
        for portion in portions(texts) {
            let encodings =
                catch_panics(|| self.tokenizer.encode_batch_fast(portion.to_vec(), true))
                    .map_err(TrainerError::tokenizer)?;
            ids.extend(encodings.iter().map(|encoding| encoding.get_ids().to_vec()));
            told(bytes_of(portion));
        }
        Ok(ids)
    }

    /// What stands before a text's first token. A running text has no beginning that training showed: a line's is the next best.
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

/// Reads and tidies every file and cuts the splits.
fn read(sources: &Sources, findings: &mut Vec<Finding>) -> Result<Corpus, TrainerError> {
    let data = sources.data;
    let is_text =
        |path: &std::path::Path| path.extension().is_some_and(|extension| extension == "txt");
    let forms: Vec<bool> = sources.files.iter().flatten().map(|(path, _)| is_text(path)).collect();
    if forms.iter().any(|form| *form != forms[0]) {
        return Err(DataProblem::new(&data.train, None, "some files are .txt and some are not")
            .with_help("a model that learns running text is measured on running text: give all files in one format")
            .into());
    }
    if forms[0] { running(sources, findings) } else { rows(sources, findings) }
}

/// Text files: what is held out is their end, so that nothing held out stands between what is learnt.
fn running(sources: &Sources, findings: &mut Vec<Finding>) -> Result<Corpus, TrainerError> {
    let data = sources.data;
    let mut splits: [Vec<String>; 3] = Default::default();
    for (file, split) in sources.files.iter().zip(&mut splits) {
        let Some((path, file)) = file else { continue };
        let text = file.text(path)?;
        check_pieces(text, path)?;
        split.push(if data.clean.normalize {
            text.lines().map(|line| normalized(line) + "\n").collect()
        } else {
            text.to_owned()
        });
    }
    let all = splits[0][0].chars().count();
    // From the end: what is tested last.
    for (index, share) in [(2, data.test_split), (1, data.validation_split)] {
        let Some(share) = share else { continue };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a text's length"
        )]
        let count = (all as f64 * share).round() as usize;
        let text = &mut splits[0][0];
        let cut = text.char_indices().rev().nth(count.saturating_sub(1)).map_or(0, |(at, _)| at);
        splits[index] = vec![splits[0][0].split_off(cut)];
    }
    let counts =
        splits.each_ref().map(|split| split.iter().map(|text| text.chars().count()).sum::<usize>());
    findings.push(Finding::note(
        "characters",
        format!(
            "{} training, {} validation and {} test characters of running text",
            counts[0], counts[1], counts[2]
        ),
    ));
    Ok(Corpus { splits, form: Form::Running })
}

/// Tables: each row is a text of its own, and rows are held out at random.
fn rows(sources: &Sources, findings: &mut Vec<Finding>) -> Result<Corpus, TrainerError> {
    let data = sources.data;
    let mut splits: [Vec<_>; 3] = Default::default();
    for ((file, split), rows) in sources.files.iter().zip(Split::ALL).zip(&mut splits) {
        if let Some((path, file)) = file {
            *rows = clean(file.rows(path, data)?, path, split, data, findings)?;
        }
    }
    let all = splits[0].len();
    if let Some(share) = data.test_split {
        splits[2] = hold_out(&mut splits[0], share, false, data.seed, "test");
    }
    if let Some(share) = data.validation_split {
        #[expect(clippy::cast_precision_loss, reason = "row counts")]
        let share = (share * all as f64 / splits[0].len() as f64).min(1.0);
        splits[1] = hold_out(&mut splits[0], share, false, data.seed, "validation");
    }
    if splits[..2].iter().any(Vec::is_empty) {
        return Err(DataProblem::new(&data.train, None, format!("too few rows to split: {all}"))
            .with_help("give more rows")
            .into());
    }
    findings.push(Finding::note(
        "rows",
        format!(
            "{} training, {} validation and {} test texts",
            splits[0].len(),
            splits[1].len(),
            splits[2].len()
        ),
    ));
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
