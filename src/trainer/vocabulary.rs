//! Tokenizers of classifiers: trained on the training texts, used through Hugging Face's library
//! and format.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::wordlevel::{WordLevel, WordLevelTrainer};
use tokenizers::models::wordpiece::{WordPiece, WordPieceTrainer};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::{
    AddedToken, ModelWrapper, NormalizedString, Normalizer, PreTokenizedString, PreTokenizer,
    Tokenizer, Trainer, TruncationParams,
};

use super::TrainerError;
use super::lm_tokenizer::words_of;
use super::progress::{MERGES, Progress, WORDS, bytes};
use hpsearch_core::arguments::{TokenizerArguments, TokenizerKind};

/// Padding, unknown, start and end of text: ids 0 to 3 of every tokenizer trained here.
pub(super) const SPECIAL_TOKENS: [&str; 4] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
/// What hides a token, of a masked language model.
pub(super) const MASK: &str = "[MASK]";
/// The id of `[UNK]`.
pub(super) const UNKNOWN: u32 = 1;

/// Subwords and words that occur once carry no information and only enlarge the embedding.
const MIN_FREQUENCY: u64 = 2;
/// Ends the last token of a word in byte-pair encoding.
const END_OF_WORD: &str = "</w>";

/// Trains a tokenizer on `texts`, with further special tokens after the four: a function of its
/// arguments.
pub(super) fn train_tokenizer(
    texts: &[&str],
    arguments: &TokenizerArguments,
    max_length: usize,
    special: &[&str],
    progress: &Progress<'_>,
) -> Result<Tokenizer, TrainerError> {
    let normalizer = BertNormalizer::new(true, true, None, arguments.lowercase);
    let words = |text: &str| -> tokenizers::Result<Vec<String>> {
        let mut normalized = NormalizedString::from(text);
        normalizer.normalize(&mut normalized)?;
        let mut split = PreTokenizedString::from(normalized);
        BertPreTokenizer.pre_tokenize(&mut split)?;
        Ok(words_of(&split))
    };
    // Every text is scanned twice: for its letters, and for its words.
    let (mut done, all) = (0, 2 * bytes(texts));
    progress.begin_stage("finding words", bytes(texts) as u64 * WORDS);
    let mut on_text = |text: &&&str| {
        done += text.len();
        progress.update(done, all);
    };
    let letters = inner_letters(texts.iter().inspect(&mut on_text), arguments.kind, words)?;
    let (mut model, mut trainer) = model_and_trainer(arguments, special, letters)?;
    trainer.feed(texts.iter().inspect(&mut on_text), words).map_err(TrainerError::tokenizer)?;
    progress.begin_stage("training the tokenizer", bytes(texts) as u64 * MERGES);
    // The trainer's list of special tokens is left aside: besides those of ours it holds the inner
    // letters.
    trainer.train(&mut model).map_err(TrainerError::tokenizer)?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_normalizer(Some(normalizer)).map_err(TrainerError::tokenizer)?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    tokenizer.add_special_tokens(special_tokens(special)).map_err(TrainerError::tokenizer)?;
    let pair = |token: &str| -> Result<(String, u32), TrainerError> {
        let id = tokenizer.token_to_id(token);
        let missing = || TrainerError::tokenizer(format!("`{token}` is missing"));
        Ok((token.to_owned(), id.ok_or_else(missing)?))
    };
    let processing = BertProcessing::new(pair("[SEP]")?, pair("[CLS]")?);
    tokenizer.with_post_processor(Some(processing));
    tokenizer
        .with_truncation(Some(TruncationParams { max_length, ..TruncationParams::default() }))
        .map_err(TrainerError::tokenizer)?;
    Ok(tokenizer)
}

/// Files that other tools expect beside `tokenizer.json`, by name.
pub(super) fn about(max_length: usize, special: &[&str]) -> [(&'static str, Vec<u8>); 2] {
    let [padding, unknown, start, end] = SPECIAL_TOKENS;
    let mut tokens =
        json!({"pad_token": padding, "unk_token": unknown, "cls_token": start, "sep_token": end});
    if special.contains(&MASK) {
        tokens["mask_token"] = MASK.into();
    }
    let mut config = tokens.clone();
    config["tokenizer_class"] = "PreTrainedTokenizerFast".into();
    config["model_max_length"] = max_length.into();
    // transformers would pass segments, which the trainer's own architecture does not have.
    config["model_input_names"] = json!(["input_ids", "attention_mask"]);
    [
        ("tokenizer_config.json", format!("{config:#}\n").into_bytes()),
        ("special_tokens_map.json", format!("{tokens:#}\n").into_bytes()),
    ]
}

/// Those files for a model that reads token types: transformers' tokenizer makes what
/// `model_input_names` lists.
pub(super) fn with_token_types(
    mut files: Vec<(&'static str, Vec<u8>)>,
) -> Vec<(&'static str, Vec<u8>)> {
    for (_, bytes) in files.iter_mut().filter(|(name, _)| *name == "tokenizer_config.json") {
        if let Ok(mut config) = serde_json::from_slice::<Value>(bytes) {
            config["model_input_names"] = json!(["input_ids", "token_type_ids", "attention_mask"]);
            *bytes = format!("{config:#}\n").into_bytes();
        }
    }
    files
}

fn special_tokens(further: &[&str]) -> Vec<AddedToken> {
    let all = SPECIAL_TOKENS.iter().chain(further);
    all.map(|token| AddedToken::from(*token, true)).collect()
}

/// An untrained model with its trainer; `first` are tokens that get the ids after the special ones.
fn model_and_trainer(
    arguments: &TokenizerArguments,
    special: &[&str],
    first: BTreeSet<String>,
) -> Result<(ModelWrapper, TrainerWrapper), TrainerError> {
    let unknown = SPECIAL_TOKENS[UNKNOWN as usize].to_owned();
    let mut special = special_tokens(special);
    special.extend(first.into_iter().map(|token| AddedToken::from(token, true)));
    // The builders have no trait in common.
    macro_rules! model {
        ($model:ident) => {
            $model::builder().unk_token(unknown).build().map_err(TrainerError::tokenizer)?.into()
        };
    }
    macro_rules! trainer {
        ($trainer:ident) => {
            $trainer::builder()
                .vocab_size(arguments.vocab_size)
                .min_frequency(MIN_FREQUENCY)
                .special_tokens(special)
                .show_progress(false)
        };
    }
    Ok(match arguments.kind {
        TokenizerKind::WordPiece => (model!(WordPiece), trainer!(WordPieceTrainer).build().into()),
        TokenizerKind::Bpe => {
            let trainer = trainer!(BpeTrainer).end_of_word_suffix(END_OF_WORD.to_owned());
            (model!(BPE), trainer.build().into())
        }
        TokenizerKind::Word => {
            let trainer = trainer!(WordLevelTrainer).build().map_err(TrainerError::tokenizer)?;
            (model!(WordLevel), trainer.into())
        }
        kind @ (TokenizerKind::Chars | TokenizerKind::Bytes) => {
            let message = format!("`{}` is for language models", kind.word());
            return Err(TrainerError::tokenizer(message));
        }
    })
}

/// Single letters as they stand inside a word (`##a`) or end it (`a</w>`).
///
/// The library numbers these in the order of a hash map, and breaks ties between merges by those
/// numbers: without a fixed order two trainings on the same texts differ (tokenizers 0.23.2,
/// `BpeTrainer::tokenize_words`).
fn inner_letters<'a>(
    texts: impl Iterator<Item = &'a &'a str>,
    kind: TokenizerKind,
    words: impl Fn(&str) -> tokenizers::Result<Vec<String>>,
) -> Result<BTreeSet<String>, TrainerError> {
    let mut letters = BTreeSet::new();
    for text in texts {
        for word in words(text).map_err(TrainerError::tokenizer)? {
            match kind {
                TokenizerKind::WordPiece => {
                    letters.extend(word.chars().skip(1).map(|letter| format!("##{letter}")))
                }
                TokenizerKind::Bpe => letters.extend(
                    word.chars().next_back().map(|letter| format!("{letter}{END_OF_WORD}")),
                ),
                TokenizerKind::Word | TokenizerKind::Chars | TokenizerKind::Bytes => {}
            }
        }
    }
    Ok(letters)
}

#[cfg(test)]
mod tests {
    use super::super::tokenizer_file::{SpecialTokens, encode_pairs, encode_portions};
    use super::*;

    fn arguments(kind: TokenizerKind) -> TokenizerArguments {
        TokenizerArguments { kind, vocab_size: 200, lowercase: true }
    }

    #[test]
    fn every_kind_is_deterministic_and_frames_its_texts() {
        let texts: Vec<String> = (0..60)
            .map(|i| format!("The quick brown fox {} jumps over {} lazy dogs!", i % 7, i % 5))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for kind in [TokenizerKind::WordPiece, TokenizerKind::Bpe, TokenizerKind::Word] {
            let (arguments, progress) = (arguments(kind), Progress::new(&|_, _, _| {}, 0));
            let train = || train_tokenizer(&texts, &arguments, 8, &[], &progress).unwrap();
            let (one, other) = (train(), train());
            assert_eq!(one.to_string(false).unwrap(), other.to_string(false).unwrap());
            let texts = ["quick FOX", "the quick brown fox jumps over lazy dogs jumps over"];
            let ids = encode_portions(&one, &texts, SpecialTokens::Add, &mut |_| {}).unwrap();
            assert_eq!((ids[0][0], *ids[0].last().unwrap()), (2, 3), "{kind:?}");
            assert!(!ids[0].contains(&UNKNOWN), "{kind:?} {ids:?}");
            assert_eq!(ids[1].len(), 8);
            // Of the five tokens that are left the longer text has three, as in transformers.
            let [long, longer] = [14, 16].map(|words| "quick ".repeat(words));
            let (long, longer) = (long.as_str(), longer.as_str());
            for (pair, expected) in [((longer, long), [5, 3]), ((long, longer), [4, 4])] {
                let [_, types] = encode_pairs(&one, &[pair], &mut |_| {}).unwrap();
                let count = |kind: u32| types[0].iter().filter(|one| **one == kind).count();
                assert_eq!([count(0), count(1)], expected, "{kind:?}");
            }
            for (id, token) in (0..).zip(SPECIAL_TOKENS) {
                assert_eq!(one.token_to_id(token), Some(id));
            }
        }
    }
}
