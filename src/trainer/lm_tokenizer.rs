//! Tokenizers of language models: characters, bytes, or byte-level BPE trained on the texts;
//! decoding restores the text.

use std::collections::{BTreeMap, HashSet};

use serde_json::json;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::models::bpe::{BPE, BpeTrainer, Vocab};
use tokenizers::normalizers::utils::Lowercase;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, ModelWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    Tokenizer, Trainer,
};

use super::TrainerError;
use super::progress::{MERGES, Progress, WORDS, bytes};
use super::tokenizer_file::{SpecialTokens, encode_portions};
use hpsearch_core::arguments::{TokenizerArguments, TokenizerKind};

/// The end of a text, id 0 of every tokenizer trained here, with GPT-2's name.
pub(super) const END_OF_TEXT: &str = "<|endoftext|>";
/// The id of [`END_OF_TEXT`].
pub(super) const END_OF_TEXT_ID: u32 = 0;
/// An unknown character: id 1 of character tokenizers, the only ones that need it.
const UNKNOWN: &str = "<unk>";

/// Pairs that occur once carry no information and only enlarge the embedding.
const MIN_FREQUENCY: u64 = 2;
/// Long texts are tokenised in chunks of about this size.
const CHUNK_BYTES: usize = 1 << 16;
/// Maximum number of characters of a word for BPE training.
const MAX_WORD_CHARS: usize = 1000;

/// Trains a tokenizer on `texts`, deterministically. It neither truncates nor adds special tokens.
pub(super) fn train_tokenizer(
    texts: &[&str],
    arguments: &TokenizerArguments,
    progress: &Progress<'_>,
) -> Result<Tokenizer, TrainerError> {
    let lowered: Vec<String>;
    let mut texts = texts.to_vec();
    if arguments.lowercase {
        lowered = texts.iter().map(|text| lowercase(text)).collect();
        texts = lowered.iter().map(String::as_str).collect();
    }
    let by_bytes = |regex: bool| ByteLevel::new(false, false, regex);
    let mut tokenizer = match arguments.kind {
        TokenizerKind::Bytes => without_merges(byte_alphabet(), None, by_bytes(false))?,
        TokenizerKind::Bpe => {
            let mut tokenizer =
                Tokenizer::new(train_bpe(&texts, arguments.vocab_size, by_bytes(true), progress)?);
            tokenizer.with_pre_tokenizer(Some(by_bytes(true)));
            tokenizer.with_decoder(Some(by_bytes(true)));
            tokenizer
        }
        _ => {
            let alphabet = characters(&texts, arguments.vocab_size);
            let mut tokenizer = without_merges(alphabet, Some(UNKNOWN), by_bytes(false))?;
            tokenizer.with_pre_tokenizer(None::<ByteLevel>);
            tokenizer.with_decoder(Some(Fuse::new()));
            tokenizer
        }
    };
    if arguments.lowercase {
        tokenizer.with_normalizer(Some(Lowercase)).map_err(TrainerError::tokenizer)?;
    }
    let mut special = vec![AddedToken::from(END_OF_TEXT, true)];
    special
        .extend((arguments.kind == TokenizerKind::Chars).then(|| AddedToken::from(UNKNOWN, true)));
    tokenizer.add_special_tokens(special).map_err(TrainerError::tokenizer)?;
    Ok(tokenizer)
}

/// `tokenizer_config.json`: without it, transformers would pre-tokenize as GPT-2 does.
pub(super) fn tokenizer_config(tokenizer: &Tokenizer) -> Vec<u8> {
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "clean_up_tokenization_spaces": false, "model_input_names": ["input_ids", "attention_mask"],
    });
    if unknown_token_id(tokenizer).is_some() {
        config["unk_token"] = UNKNOWN.into();
    }
    format!("{config:#}\n").into_bytes()
}

/// The id of the unknown token, if the tokenizer has one.
pub(super) fn unknown_token_id(tokenizer: &Tokenizer) -> Option<u32> {
    tokenizer.token_to_id(UNKNOWN)
}

/// A tokenizer of single characters: special tokens, then `alphabet`.
fn without_merges(
    alphabet: Vec<char>,
    unknown: Option<&str>,
    pre_tokenizer: ByteLevel,
) -> Result<Tokenizer, TrainerError> {
    let special = std::iter::once(END_OF_TEXT).chain(unknown).map(str::to_owned);
    let vocabulary: Vocab =
        special.chain(alphabet.into_iter().map(String::from)).zip(0..).collect();
    let mut model = BPE::builder().vocab_and_merges(vocabulary, Vec::new());
    if let Some(unknown) = unknown {
        model = model.unk_token(unknown.to_owned());
    }
    let mut tokenizer =
        Tokenizer::new(ModelWrapper::from(model.build().map_err(TrainerError::tokenizer)?));
    tokenizer.with_pre_tokenizer(Some(pre_tokenizer));
    tokenizer.with_decoder(Some(pre_tokenizer));
    Ok(tokenizer)
}

/// The characters of `texts` in Unicode order; the rarest are left out when they do not all fit
/// beside the special tokens.
fn characters(texts: &[&str], vocab_size: usize) -> Vec<char> {
    let mut counts: BTreeMap<char, usize> = BTreeMap::new();
    for character in texts.iter().flat_map(|text| text.chars()) {
        *counts.entry(character).or_default() += 1;
    }
    let mut alphabet: Vec<(char, usize)> = counts.into_iter().collect();
    alphabet.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    alphabet.truncate(vocab_size.saturating_sub(2));
    alphabet.sort_unstable();
    alphabet.into_iter().map(|(character, _)| character).collect()
}

/// The characters that stand for bytes, sorted.
fn byte_alphabet() -> Vec<char> {
    let mut alphabet: Vec<char> = ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    alphabet
}

/// Trains byte-pair merges within words (Sennrich et al. 2016).
fn train_bpe(
    texts: &[&str],
    vocab_size: usize,
    pre_tokenizer: ByteLevel,
    progress: &Progress<'_>,
) -> Result<ModelWrapper, TrainerError> {
    let words = |text: &str| -> tokenizers::Result<Vec<String>> {
        let mut split = PreTokenizedString::from(text);
        pre_tokenizer.pre_tokenize(&mut split)?;
        Ok(words_of(&split))
    };
    let mut trainer = BpeTrainer::builder()
        .vocab_size(vocab_size)
        .min_frequency(MIN_FREQUENCY)
        .special_tokens(vec![AddedToken::from(END_OF_TEXT, true)])
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect::<HashSet<char>>())
        .show_progress(false)
        .build();
    let (mut done, all) = (0, bytes(texts));
    progress.begin_stage("finding words", all as u64 * WORDS);
    let count = |piece: &&str| {
        done += piece.len();
        progress.update(done, all);
    };
    trainer
        .feed(texts.iter().flat_map(|text| chunks(text)).inspect(count), words)
        .map_err(TrainerError::tokenizer)?;
    progress.begin_stage("training the tokenizer", all as u64 * MERGES);
    let mut model = BPE::default();
    trainer.train(&mut model).map_err(TrainerError::tokenizer)?;
    Ok(model.into())
}

/// As the tokenizer's normaliser, but without its forty bytes per character.
fn lowercase(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// A word in parts that are short enough for BPE training, whose time is quadratic in the longest
/// word; words of natural languages are not split.
fn split_long_word(word: &str) -> Vec<String> {
    if word.len() <= MAX_WORD_CHARS {
        return vec![word.to_owned()];
    }
    let alphabet: Vec<char> = word.chars().collect();
    alphabet.chunks(MAX_WORD_CHARS).map(|part| part.iter().collect()).collect()
}

/// The words of a text that was pre-tokenised.
pub(super) fn words_of(split: &PreTokenizedString) -> Vec<String> {
    let words = split.get_splits(OffsetReferential::Original, OffsetType::Byte).into_iter();
    words.flat_map(|(word, ..)| split_long_word(word)).collect()
}

/// The token ids of each text.
pub(super) fn encode(tokenizer: &Tokenizer, texts: &[&str]) -> Result<Vec<Vec<u32>>, TrainerError> {
    encode_with_progress(tokenizer, texts, &mut |_| {})
}

/// The same; `on_bytes` is called with the bytes of each portion when it is done.
pub(super) fn encode_with_progress(
    tokenizer: &Tokenizer,
    texts: &[&str],
    on_bytes: &mut dyn FnMut(usize),
) -> Result<Vec<Vec<u32>>, TrainerError> {
    let chunks: Vec<Vec<&str>> = texts.iter().map(|text| chunks(text)).collect();
    let ids = encode_portions(tokenizer, &chunks.concat(), SpecialTokens::None, on_bytes)?;
    let mut ids = ids.into_iter();
    Ok(chunks.iter().map(|chunks| ids.by_ref().take(chunks.len()).flatten().collect()).collect())
}

/// `text` in chunks that end between two words, after the single line break or before the single
/// space between them: no tokenizer trained here merges across such a boundary.
pub(super) fn chunks(text: &str) -> Vec<&str> {
    chunks_of(text, CHUNK_BYTES)
}

fn chunks_of(text: &str, size: usize) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut rest = text;
    while rest.len() > size {
        let Some(boundary) = safe_boundary(rest, size) else { break };
        let (piece, others) = rest.split_at(boundary);
        chunks.push(piece);
        rest = others;
    }
    chunks.push(rest);
    chunks
}

/// The first boundary from `least` on.
fn safe_boundary(text: &str, least: usize) -> Option<usize> {
    let is_of_a_word = |character: Option<char>| {
        character.is_some_and(|character| !character.is_whitespace() && !character.is_control())
    };
    let mut from = least;
    loop {
        let at =
            from + text.as_bytes()[from..].iter().position(|byte| matches!(byte, b'\n' | b' '))?;
        let (before, after) = (text[..at].chars().next_back(), text[at + 1..].chars().next());
        if is_of_a_word(before) && is_of_a_word(after) {
            return Some(if text.as_bytes()[at] == b'\n' { at + 1 } else { at });
        }
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokenizers::NormalizedString;

    use super::*;

    fn train_with(arguments: &TokenizerArguments, texts: &[&str]) -> Tokenizer {
        train_tokenizer(texts, arguments, &Progress::new(&|_, _, _| {}, 0)).unwrap()
    }

    fn train(kind: TokenizerKind, texts: &[&str]) -> Tokenizer {
        train_with(&TokenizerArguments { kind, vocab_size: 300, lowercase: false }, texts)
    }

    fn there_and_back(tokenizer: &Tokenizer, text: &str) -> String {
        let ids = encode(tokenizer, &[text]).unwrap().remove(0);
        tokenizer.decode(&ids, false).unwrap()
    }

    const SAMPLE: &str =
        "the cat sat on the mat\n\n  and the dog, naïve as ever, sat on the cat 🙂\n";

    proptest! {
        #[test]
        fn bytes_and_bpe_give_any_text_back(text in "\\PC*|[\\x00-\\x7f]*|(\\s|[a-zé🙂])*") {
            for kind in [TokenizerKind::Bytes, TokenizerKind::Bpe] {
                prop_assert_eq!(there_and_back(&train(kind, &[SAMPLE]), &text), text.clone());
            }
        }

        #[test]
        fn characters_give_back_what_they_know_and_mark_the_rest(text in "[a-z \n🙂]*") {
            let tokenizer = train(TokenizerKind::Chars, &[SAMPLE]);
            let expected: String = text
                .chars()
                .map(|character| {
                    if SAMPLE.contains(character) {
                        character.to_string()
                    } else {
                        UNKNOWN.to_owned()
                    }
                })
                .collect();
            prop_assert_eq!(there_and_back(&tokenizer, &text), expected);
        }
    }

    #[test]
    fn a_character_is_a_token_and_so_is_a_byte() {
        let chars = train(TokenizerKind::Chars, &["ba🙂"]);
        assert_eq!(encode(&chars, &["ab🙂x"]).unwrap(), [[2, 3, 4, 1]]);
        assert_eq!(chars.get_vocab_size(true), 5);
        let bytes = train(TokenizerKind::Bytes, &["ab"]);
        assert_eq!(bytes.get_vocab_size(true), 257);
        assert_eq!(encode(&bytes, &["🙂"]).unwrap()[0].len(), 4);
    }

    #[test]
    fn every_kind_is_deterministic_loads_from_its_file_and_knows_the_end_of_a_text() {
        let texts: Vec<String> = (0..60)
            .map(|i| format!("The quick brown fox {} jumps over {} lazy dogs!\n", i % 7, i % 5))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for kind in [TokenizerKind::Chars, TokenizerKind::Bytes, TokenizerKind::Bpe] {
            let one = train(kind, &texts).to_string(false).unwrap();
            assert_eq!(one, train(kind, &texts).to_string(false).unwrap());
            let loaded = Tokenizer::from_bytes(one.as_bytes()).unwrap();
            assert_eq!(loaded.token_to_id(END_OF_TEXT), Some(END_OF_TEXT_ID));
            assert_eq!(there_and_back(&loaded, "quick jumps\n"), "quick jumps\n");
        }
        let bpe = train(TokenizerKind::Bpe, &texts);
        assert_eq!(encode(&bpe, &[" quick brown"]).unwrap()[0].len(), 2);
    }

    #[test]
    fn the_rarest_characters_are_left_out_when_there_is_no_room() {
        assert_eq!(characters(&["aabbbc"], 4), ['a', 'b']);
    }

    #[test]
    fn lowercasing_is_part_of_the_tokenizer() {
        for kind in [TokenizerKind::Chars, TokenizerKind::Bpe] {
            let arguments = TokenizerArguments { kind, vocab_size: 300, lowercase: true };
            let tokenizer = train_with(&arguments, &["The Cat"]);
            assert_eq!(there_and_back(&tokenizer, "CAT"), "cat");
        }
    }

    #[test]
    fn long_texts_are_cut_where_no_token_spans() {
        let text = format!("{SAMPLE}one line\n").repeat(3_000);
        assert!(chunks(&text).len() > 2);
        let tokenizer = train(TokenizerKind::Bpe, &[&text]);
        let whole = tokenizer.encode_fast(text.as_str(), false).unwrap();
        assert!(encode(&tokenizer, &[&text]).unwrap()[0] == whole.get_ids());
    }

    proptest! {
        #[test]
        fn nothing_is_joined_where_texts_are_cut(
            text in "([a-c]{1,3}|[0-9]|[ \n\t\u{3000}\u{a0}]{1,2}|['.,!é学🙂]|'s|\u{301})*",
        ) {
            prop_assert_eq!(chunks_of(&text, 1).concat(), text.clone());
            for kind in [TokenizerKind::Chars, TokenizerKind::Bytes, TokenizerKind::Bpe] {
                let arguments = TokenizerArguments {
                    kind,
                    vocab_size: 290,
                    lowercase: kind == TokenizerKind::Bpe,
                };
                let tokenizer =
                    train_with(&arguments, &[SAMPLE, "a b c ab ca's, ab 's é学 学é 1 2\nab\nc!"]);
                let ids =
                    |text: &str| tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec();
                let chunks: Vec<u32> = chunks_of(&text, 1).into_iter().flat_map(ids).collect();
                prop_assert_eq!(chunks, ids(&text), "{:?}", kind);
            }
        }
    }

    #[test]
    fn texts_without_line_breaks_and_of_any_script_are_cut() {
        for text in [
            "naïve words in one line ".repeat(20_000),
            "第一行\n".repeat(50_000),
            "слово ".repeat(50_000),
        ] {
            let is_short = |piece: &&str| piece.len() < CHUNK_BYTES + 100;
            assert!(chunks(&text).iter().all(is_short), "{}", &text[..20]);
        }
    }

    #[test]
    fn lowercasing_is_the_normalisers() {
        let text = "ΑΣ ΣΑΣ. İstanbul ẞ ǅ É 学 🙂";
        let mut normalized = NormalizedString::from(text);
        normalized.lowercase();
        assert_eq!(lowercase(text), normalized.get());
    }

    #[test]
    fn a_word_of_any_length_is_learnt_from_in_no_time() {
        let word = "ab".repeat(250_000);
        assert_eq!(split_long_word(&word).concat(), word);
        let began = std::time::Instant::now();
        let tokenizer =
            train(TokenizerKind::Bpe, &[&word, &" ".repeat(500_000), &"?!".repeat(250_000)]);
        assert_eq!(there_and_back(&tokenizer, &word), word);
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }
}
