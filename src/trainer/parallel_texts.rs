//! Data of tasks that write a text for each text: pairs of a source and a target.

use serde_json::Value;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, Tokenizer, TruncationDirection, TruncationParams};

use super::atomic_directory::AtomicDirectory;
use super::findings::in_splits;
use super::labelled::{both_texts, note_contradictions, note_overlap, note_tokens, texts};
use super::lm_tokenizer::{self, END_OF_TEXT, END_OF_TEXT_ID};
use super::prepared::{Description, Extra, Split, TextEnds};
use super::progress::{PARSE, TOKENISE, bytes};
use super::sources::{Sources, clean};
use super::tokenizer_file::{self, SpecialTokens, encode_portions};
use super::{Finding, TrainerError, model_directory};
use hpsearch_core::arguments::TokenizerSource;
use hpsearch_core::arguments::data_file::DataRow;

/// The token that fills up texts, the last of the tokenizers trained here.
const PAD: &str = "<pad>";

/// Pairs of texts, tokenised and written to `staged`.
pub(super) fn prepare(
    sources: &Sources,
    staged: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let data = sources.data;
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the rows", sources.bytes * PARSE);
    let mut splits = read(sources, &mut findings)?;
    note_overlap(&splits, data, &mut findings);
    note_contradictions(&splits, &mut findings);
    let counted = in_splits(splits.each_ref().map(Vec::len));
    findings.push(Finding::note("rows", format!("{counted} pairs of a source and a target")));
    if let Some(prefix) = &data.source_prefix {
        for row in splits.iter_mut().flatten() {
            row.text.insert_str(0, prefix);
        }
    }

    let (mut tokenizer, [pad, end]) = tokenizer_of(sources, staged, &texts(&splits[0]))?;
    let mut target_tokenizer = match sources.tokenizer {
        TokenizerSource::Pretrained(directory) => model_directory::target_tokenizer(directory)?,
        TokenizerSource::Trained(_) => None,
    };
    let unknown = lm_tokenizer::unknown_token_id(&tokenizer)
        .or_else(|| model_directory::unknown_token(&tokenizer));
    sources.progress.begin_stage("tokenising the texts", sources.bytes * TOKENISE);
    let (mut done, all) = (0, splits.iter().map(|rows| bytes(&texts(rows))).sum());
    let mut on_bytes = |bytes| {
        done += bytes;
        sources.progress.update(done, all);
    };
    let longest_target = data.max_target_length.unwrap_or(data.max_length);
    let side = match sources.tokenizer {
        TokenizerSource::Trained(_) => TruncationDirection::Right,
        TokenizerSource::Pretrained(directory) => model_directory::truncation_direction(directory)?,
    };
    for (split, rows) in Split::ALL.into_iter().zip(&splits) {
        let (source, target): (Vec<&str>, Vec<&str>) = rows.iter().map(both_texts).unzip();
        let of_target = ("max_target_length", longest_target);
        let mut encode = |tokenizer: &mut Tokenizer, texts: &[&str], limit: (&str, usize)| {
            truncate(tokenizer, limit.1, side)?;
            let ids = encode_portions(tokenizer, texts, SpecialTokens::Add, &mut on_bytes)?;
            note_tokens(split, &ids, limit, unknown, &mut findings);
            Ok::<_, TrainerError>(ids)
        };
        let source = encode(&mut tokenizer, &source, ("max_length", data.max_length))?;
        let of_targets = target_tokenizer.as_mut().unwrap_or(&mut tokenizer);
        let target = encode(of_targets, &target, of_target)?;
        let is_empty = |pair: (&Vec<u32>, &Vec<u32>)| pair.0.is_empty() || pair.1.is_empty();
        let empty = source.iter().zip(&target).position(is_empty);
        if let Some(row) = empty.and_then(|row| rows.get(row)) {
            let message = format!("the tokenizer produces no tokens for a {} text", split.name());
            let problem = sources.problem_of(split, Some(row.line), message);
            return Err(problem.with_help("remove the row").into());
        }
        let encoded: Vec<_> = source.into_iter().map(|ids| (ids, 0)).collect();
        let remedy = "give fewer rows, or a smaller `max_length`";
        sources.write_rows(staged, split, &encoded, remedy)?;
        sources.write_extra(staged, split, Extra::SecondTexts, &target)?;
    }
    truncate(&mut tokenizer, data.max_length, side)?;
    tokenizer_file::write(staged, &tokenizer)?;
    let rows = splits.each_ref().map(Vec::len);
    Ok(Description {
        extras: vec![Extra::SecondTexts],
        text_ends: Some(TextEnds {
            pad,
            end,
            longest: longest_target,
            prefix: data.source_prefix.clone(),
        }),
        ..sources.describe(rows, tokenizer.get_vocab_size(true), findings)
    })
}

/// Cuts texts to `longest` tokens, at this end.
fn truncate(
    tokenizer: &mut Tokenizer,
    longest: usize,
    direction: TruncationDirection,
) -> Result<(), TrainerError> {
    let truncation =
        TruncationParams { max_length: longest, direction, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(truncation)).map(|_| ()).map_err(TrainerError::tokenizer)
}

/// The tokenizer that `sources` ask for, trained on `texts` or pretrained, and its tokens that fill
/// up and that end texts.
fn tokenizer_of(
    sources: &Sources,
    staged: &AtomicDirectory,
    texts: &[&str],
) -> Result<(Tokenizer, [u32; 2]), TrainerError> {
    match sources.tokenizer {
        TokenizerSource::Trained(arguments) => {
            let mut tokenizer = lm_tokenizer::train_tokenizer(texts, arguments, &sources.progress)?;
            tokenizer
                .add_special_tokens([AddedToken::from(PAD, true)])
                .map_err(TrainerError::tokenizer)?;
            let template = TemplateProcessing::builder()
                .try_single(format!("$A {END_OF_TEXT}"))
                .map_err(TrainerError::tokenizer)?
                .special_tokens(vec![(END_OF_TEXT.to_owned(), END_OF_TEXT_ID)])
                .build()
                .map_err(|error| TrainerError::tokenizer(error.to_string()))?;
            tokenizer.with_post_processor(Some(template));
            let pad = tokenizer.token_to_id(PAD).expect("added just now");
            staged.write("tokenizer_config.json", &tokenizer_config(&tokenizer, sources))?;
            Ok((tokenizer, [pad, END_OF_TEXT_ID]))
        }
        TokenizerSource::Pretrained(directory) => {
            let tokenizer = model_directory::tokenizer(directory, None)?;
            // The model's configuration names its tokens.
            Ok((tokenizer, [0, 0]))
        }
    }
}

/// That of language models, with the token that fills up texts.
fn tokenizer_config(tokenizer: &Tokenizer, sources: &Sources) -> Vec<u8> {
    let bytes = lm_tokenizer::tokenizer_config(tokenizer);
    let Ok(Value::Object(mut config)) = serde_json::from_slice(&bytes) else { return bytes };
    config.remove("bos_token");
    config.insert("pad_token".to_owned(), PAD.into());
    config.insert("model_max_length".to_owned(), sources.data.max_length.into());
    format!("{:#}\n", Value::Object(config)).into_bytes()
}

/// Reads and cleans every file and cuts the splits.
fn read(sources: &Sources, findings: &mut Vec<Finding>) -> Result<[Vec<DataRow>; 3], TrainerError> {
    let data = sources.data;
    let mut splits: [Vec<DataRow>; 3] = Default::default();
    for ((file, split), rows) in sources.files.iter().zip(Split::ALL).zip(&mut splits) {
        if let Some((path, file)) = file {
            *rows = clean(file.rows(data)?, path, split, data, findings)?;
        }
    }
    sources.hold_out(&mut splits)?;
    Ok(splits)
}
