//! Tokenizers: trained on the training texts, used through Hugging Face's library and format.

use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::wordlevel::{WordLevel, WordLevelTrainer};
use tokenizers::models::wordpiece::{WordPiece, WordPieceTrainer};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::processors::bert::BertProcessing;
use tokenizers::{AddedToken, Model, ModelWrapper, Tokenizer, TruncationParams};

use super::TrainerError;
use crate::arguments::{TokenizerArguments, TokenizerKind};

/// Padding, unknown, start and end of text: ids 0 to 3 of every tokenizer trained here.
pub(super) const SPECIAL_TOKENS: [&str; 4] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"];
/// The id of [PAD].
pub(super) const PADDING: u32 = 0;
/// The id of [UNK].
pub(super) const UNKNOWN: u32 = 1;

/// Subwords and words that occur once teach nothing and only widen the embedding.
const MIN_FREQUENCY: u64 = 2;

/// Trains a tokenizer on `texts`: a function of its arguments.
pub(super) fn train_tokenizer(texts: &[&str], arguments: &TokenizerArguments, max_length: usize) -> Result<Tokenizer, TrainerError> {
    let unknown = SPECIAL_TOKENS[UNKNOWN as usize].to_owned();
    let special: Vec<AddedToken> = SPECIAL_TOKENS.map(|token| AddedToken::from(token, true)).to_vec();
    let (model, mut trainer) = match arguments.kind {
        TokenizerKind::WordPiece => (
            ModelWrapper::from(WordPiece::builder().unk_token(unknown).build().map_err(TrainerError::tokenizer)?),
            TrainerWrapper::from(
                WordPieceTrainer::builder()
                    .vocab_size(arguments.vocab_size)
                    .min_frequency(MIN_FREQUENCY)
                    .special_tokens(special)
                    .show_progress(false)
                    .build(),
            ),
        ),
        TokenizerKind::Bpe => (
            ModelWrapper::from(BPE::builder().unk_token(unknown).build().map_err(TrainerError::tokenizer)?),
            TrainerWrapper::from(
                BpeTrainer::builder()
                    .vocab_size(arguments.vocab_size)
                    .min_frequency(MIN_FREQUENCY)
                    .special_tokens(special)
                    .end_of_word_suffix("</w>".to_owned())
                    .show_progress(false)
                    .build(),
            ),
        ),
        TokenizerKind::Word => (
            ModelWrapper::from(WordLevel::builder().unk_token(unknown).build().map_err(TrainerError::tokenizer)?),
            TrainerWrapper::from(
                WordLevelTrainer::builder()
                    .vocab_size(arguments.vocab_size)
                    .min_frequency(MIN_FREQUENCY)
                    .special_tokens(special)
                    .show_progress(false)
                    .build()
                    .map_err(TrainerError::tokenizer)?,
            ),
        ),
    };
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_normalizer(Some(BertNormalizer::new(true, true, None, arguments.lowercase))).map_err(TrainerError::tokenizer)?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    tokenizer.train(&mut trainer, texts.iter()).map_err(TrainerError::tokenizer)?;
    let pair = |token: &str| -> Result<(String, u32), TrainerError> {
        let id = tokenizer.get_model().token_to_id(token).ok_or_else(|| TrainerError::tokenizer(format!("`{token}` is missing")))?;
        Ok((token.to_owned(), id))
    };
    let processing = BertProcessing::new(pair("[SEP]")?, pair("[CLS]")?);
    tokenizer.with_post_processor(Some(processing));
    tokenizer.with_truncation(Some(TruncationParams { max_length, ..TruncationParams::default() })).map_err(TrainerError::tokenizer)?;
    Ok(tokenizer)
}

/// The token ids of each text, special tokens included, cut to the tokenizer's longest row.
pub(super) fn encode(tokenizer: &Tokenizer, texts: &[&str]) -> Result<Vec<Vec<u32>>, TrainerError> {
    let encodings = tokenizer.encode_batch_fast(texts.to_vec(), true).map_err(TrainerError::tokenizer)?;
    Ok(encodings.iter().map(|encoding| encoding.get_ids().to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(kind: TokenizerKind) -> TokenizerArguments {
        TokenizerArguments { kind, vocab_size: 200, lowercase: true }
    }

    #[test]
    fn every_kind_is_deterministic_and_frames_its_texts() {
        let texts: Vec<String> = (0..60).map(|i| format!("The quick brown fox {} jumps over {} lazy dogs!", i % 7, i % 5)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for kind in [TokenizerKind::WordPiece, TokenizerKind::Bpe, TokenizerKind::Word] {
            let train = || train_tokenizer(&texts, &arguments(kind), 8).unwrap();
            let (one, other) = (train(), train());
            assert_eq!(one.to_string(false).unwrap(), other.to_string(false).unwrap());
            let ids = encode(&one, &["quick FOX", "the quick brown fox jumps over lazy dogs jumps over"]).unwrap();
            assert_eq!((ids[0][0], *ids[0].last().unwrap()), (2, 3), "{kind:?}");
            assert!(!ids[0].contains(&UNKNOWN), "{kind:?} {ids:?}");
            assert_eq!(ids[1].len(), 8);
            for (id, token) in (0..).zip(SPECIAL_TOKENS) {
                assert_eq!(one.token_to_id(token), Some(id));
            }
        }
    }
}
