//! Reads and uses `tokenizer.json`, which is untrusted: a panic of the tokenizers library becomes
//! an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokenizers::utils::truncation::truncate_encodings;
use tokenizers::{EncodeInput, Encoding, PostProcessor as _, Tokenizer, TruncationParams};

use super::TrainerError;
use super::atomic_directory::AtomicDirectory;
use super::progress::portions;

/// Calls into the library in progress.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic may currently come from the tokenizers library, on any thread, and will be
/// returned as an error: it need not be printed.
#[must_use]
pub fn panics_are_caught() -> bool {
    CALLS.load(Ordering::Relaxed) > 0
}

/// A call in progress.
struct Call;

impl Call {
    fn begin() -> Call {
        CALLS.fetch_add(1, Ordering::Relaxed);
        Call
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The tokenizer that `bytes` describe.
pub(super) fn read(bytes: &[u8]) -> tokenizers::Result<Tokenizer> {
    catch_panics(|| Tokenizer::from_bytes(bytes))
}

/// Writes `tokenizer.json`.
pub(super) fn write(staged: &AtomicDirectory, tokenizer: &Tokenizer) -> Result<(), TrainerError> {
    let text = tokenizer.to_string(false).map_err(TrainerError::tokenizer)?;
    staged.write("tokenizer.json", text.as_bytes()).map(|_| ())
}

/// Whether encoding adds the special tokens around a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpecialTokens {
    Add,
    None,
}

/// The token ids of each text; `on_bytes` is called with the bytes of each portion when it is done.
pub(super) fn encode_portions(
    tokenizer: &Tokenizer,
    texts: &[&str],
    special_tokens: SpecialTokens,
    on_bytes: &mut dyn FnMut(usize),
) -> Result<Vec<Vec<u32>>, TrainerError> {
    let add = special_tokens == SpecialTokens::Add;
    let mut ids = Vec::with_capacity(texts.len());
    for portion in portions(texts, |text| text.len()) {
        let encodings = catch_panics(|| tokenizer.encode_batch_fast(portion.to_vec(), add))
            .map_err(TrainerError::tokenizer)?;
        ids.extend(encodings.iter().map(|encoding| encoding.get_ids().to_vec()));
        on_bytes(portion.iter().map(|text| text.len()).sum());
    }
    Ok(ids)
}

/// The encodings of inputs, with token types and the numbers of words: of texts, of pairs of them
/// (of the longer one more is cut), or of lists of words; `length` gives the bytes of an input.
pub(super) fn encode_inputs<'s, T: Clone + Into<EncodeInput<'s>> + Send>(
    tokenizer: &Tokenizer,
    inputs: &[T],
    special_tokens: SpecialTokens,
    length: impl Fn(&T) -> usize,
    on_bytes: &mut dyn FnMut(usize),
) -> Result<Vec<Encoding>, TrainerError> {
    let add = special_tokens == SpecialTokens::Add;
    let mut all = Vec::with_capacity(inputs.len());
    for portion in portions(inputs, &length) {
        // The fast one leaves types and words out.
        let encodings = catch_panics(|| tokenizer.encode_batch_char_offsets(portion.to_vec(), add))
            .map_err(TrainerError::tokenizer)?;
        all.extend(encodings);
        on_bytes(portion.iter().map(&length).sum());
    }
    Ok(all)
}

/// A number for each token of each row.
pub(super) type PerToken = Vec<Vec<u32>>;

/// The token ids and token types of each pair of texts, with special tokens; of a pair that is too
/// long more of the longer text is cut, as in transformers.
///
/// Not by the library at once: it cuts each text to the limit before it compares their lengths
/// (tokenizers 0.23.2, `do_tokenize`), so that of an odd number of tokens the first text of two
/// long ones would always get the smaller half.
pub(super) fn encode_pairs(
    tokenizer: &Tokenizer,
    pairs: &[(&str, &str)],
    on_bytes: &mut dyn FnMut(usize),
) -> Result<[PerToken; 2], TrainerError> {
    let mut whole = tokenizer.clone();
    whole.with_truncation(None).map_err(TrainerError::tokenizer)?;
    let special = tokenizer.get_post_processor().map_or(0, |one| one.added_tokens(true));
    let truncation = tokenizer.get_truncation().map(|truncation| TruncationParams {
        max_length: truncation.max_length.saturating_sub(special),
        ..truncation.clone()
    });
    let join = |first: Encoding, mut second: Encoding| {
        second.set_type_ids(vec![1; second.len()]);
        let (first, second) = match &truncation {
            Some(truncation) => truncate_encodings(first, Some(second), truncation)?,
            None => (first, Some(second)),
        };
        whole.post_process(first, second, true)
    };
    let (mut ids, mut types) = (Vec::with_capacity(pairs.len()), Vec::with_capacity(pairs.len()));
    let length = |(first, second): &(&str, &str)| first.len() + second.len();
    for portion in portions(pairs, length) {
        let (first, second): (Vec<&str>, Vec<&str>) = portion.iter().copied().unzip();
        let mut encode = |texts: Vec<&str>| {
            encode_inputs(&whole, &texts, SpecialTokens::None, |text| text.len(), on_bytes)
        };
        let (first, second) = (encode(first)?, encode(second)?);
        for (first, second) in first.into_iter().zip(second) {
            let pair = catch_panics(|| join(first, second)).map_err(TrainerError::tokenizer)?;
            ids.push(pair.get_ids().to_vec());
            types.push(pair.get_type_ids().to_vec());
        }
    }
    Ok([ids, types])
}

/// Calls the library, with its panics as errors.
pub(super) fn catch_panics<T>(
    call: impl FnOnce() -> tokenizers::Result<T>,
) -> tokenizers::Result<T> {
    let _in_progress = Call::begin();
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("it does not say why");
        Err(format!("the tokenizers library panics over it: {text}").into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_is_an_error_with_its_words() {
        let failed: tokenizers::Result<()> = catch_panics(|| panic!("no {}", "vocabulary"));
        assert_eq!(
            failed.unwrap_err().to_string(),
            "the tokenizers library panics over it: no vocabulary"
        );
        assert!(catch_panics(|| Ok(panics_are_caught())).unwrap());
    }
}
