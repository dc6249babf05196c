//! Data of masked language modeling: texts, tokenised, and cut into rows of at most `max_length`
//! tokens.

use tokenizers::{Encoding, Tokenizer};

use super::atomic_directory::AtomicDirectory;
use super::corpus::{self, Corpus};
use super::findings::in_splits;
use super::labelled::tokenizer_of;
use super::lm_tokenizer::chunks;
use super::model_directory::mask_token;
use super::prepared::{Description, Extra, NO_LABEL, Split};
use super::progress::{PARSE, TOKENISE};
use super::sources::Sources;
use super::tokenizer_file::{self, SpecialTokens, encode_inputs, encode_portions};
use super::vocabulary::MASK;
use super::{Finding, TrainerError};
use hpsearch_core::arguments::TokenizerSource;

/// Texts, tokenised and written to `staged`.
pub(super) fn prepare(
    sources: &Sources,
    staged: &AtomicDirectory,
) -> Result<Description, TrainerError> {
    let mut findings = Vec::new();
    sources.progress.begin_stage("reading the texts", sources.bytes * PARSE);
    let Corpus { splits, .. } = corpus::read(sources, &mut findings)?;
    // A long text is tokenised in parts.
    let parts = splits
        .each_ref()
        .map(|texts| texts.iter().map(|text| chunks(text)).collect::<Vec<Vec<&str>>>());
    let training: Vec<&str> = parts[0].iter().flatten().copied().collect();
    let (mut tokenizer, unknown) = tokenizer_of(sources, staged, &training, &[MASK])?;
    let mask = match sources.tokenizer {
        TokenizerSource::Trained(_) => tokenizer.token_to_id(MASK),
        TokenizerSource::Pretrained(directory) => Some(mask_token(directory, &tokenizer)?),
    };
    sources.progress.begin_stage("tokenising the texts", sources.bytes * TOKENISE);
    tokenizer_file::write(staged, &tokenizer)?;
    let cutter = Cutter::new(&mut tokenizer, sources.data.max_length)?;
    let (mut done, all) = (0, parts.iter().flatten().flatten().map(|part| part.len()).sum());
    let (mut rows, mut tokens, mut unknowns) = ([0; 3], [0; 3], [0; 3]);
    for (split, index) in Split::ALL.into_iter().zip(0..) {
        let flat: Vec<&str> = parts[index].iter().flatten().copied().collect();
        let encodings = encode_inputs(
            &tokenizer,
            &flat,
            SpecialTokens::None,
            |part| part.len(),
            &mut |bytes| {
                done += bytes;
                sources.progress.update(done, all);
            },
        )?;
        let mut encodings = encodings.iter();
        let (mut ids, mut words) = (Vec::new(), Vec::new());
        for parts in &parts[index] {
            cutter.cut(encodings.by_ref().take(parts.len()), &mut ids, &mut words);
        }
        rows[index] = ids.len();
        tokens[index] = ids.iter().map(Vec::len).sum();
        unknowns[index] = ids.iter().flatten().filter(|id| Some(**id) == unknown).count();
        let encoded: Vec<_> = ids.into_iter().map(|ids| (ids, 0)).collect();
        let remedy = "give less text, or a tokenizer with longer tokens";
        sources.write_rows(staged, split, &encoded, remedy)?;
        sources.write_extra(staged, split, Extra::Words, &words)?;
    }
    for (split, index) in [(Split::Train, 0), (Split::Validation, 1)] {
        if sources.data.has_splits()[index] && rows[index] == 0 {
            let message = format!("the {} texts have no tokens", split.name());
            return Err(sources.problem(None, message).with_help("give more text").into());
        }
    }
    let vocab_size = tokenizer.get_vocab_size(true);
    findings.push(Finding::note(
        "tokens",
        format!(
            "{} tokens in {} rows of at most {}, out of a vocabulary of {vocab_size}",
            in_splits(tokens),
            in_splits(rows),
            sources.data.max_length
        ),
    ));
    for (split, (unknown, tokens)) in Split::ALL.into_iter().zip(unknowns.into_iter().zip(tokens)) {
        if 20 * unknown > tokens {
            findings.push(Finding::warning(
                "unknown",
                format!(
                    "{unknown} of {tokens} {} tokens are unknown to the tokenizer",
                    split.name()
                ),
            ));
        }
    }
    Ok(Description {
        mask,
        extras: vec![Extra::Words],
        ..sources.describe(rows, vocab_size, findings)
    })
}

/// Cuts token ids into rows with special tokens around each.
struct Cutter {
    /// Those before, and after.
    around: [Vec<u32>; 2],
    /// Most tokens between them.
    longest: usize,
}

impl Cutter {
    /// Leaves the tokenizer without truncation.
    fn new(tokenizer: &mut Tokenizer, max_length: usize) -> Result<Self, TrainerError> {
        tokenizer.with_truncation(None).map_err(TrainerError::tokenizer)?;
        // What it adds to an empty text.
        let mut before =
            encode_portions(tokenizer, &[""], SpecialTokens::Add, &mut |_| {})?.concat();
        let after = before.split_off(before.len().min(1));
        let longest = max_length.saturating_sub(before.len() + after.len()).max(1);
        Ok(Self { around: [before, after], longest })
    }

    /// Adds the rows of a text: its ids, and the numbers of its words.
    fn cut<'e>(
        &self,
        parts: impl Iterator<Item = &'e Encoding>,
        rows: &mut Vec<Vec<u32>>,
        words: &mut Vec<Vec<u32>>,
    ) {
        let (mut ids, mut numbers, mut first) = (Vec::new(), Vec::new(), 0);
        for part in parts {
            ids.extend_from_slice(part.get_ids());
            let own = part.get_word_ids().iter().map(|word| first + word.unwrap_or(0));
            numbers.extend(own);
            first = numbers.last().map_or(first, |last| last + 1);
        }
        let [before, after] = &self.around;
        for (ids, numbers) in ids.chunks(self.longest).zip(numbers.chunks(self.longest)) {
            rows.push([before, ids, after].concat());
            let none = |tokens: &[u32]| vec![NO_LABEL; tokens.len()];
            words.push([&none(before)[..], numbers, &none(after)].concat());
        }
    }
}
