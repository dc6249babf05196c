//! Reads `tokenizer.json`. It may come from anywhere: a panic of the tokenizers library becomes an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokenizers::Tokenizer;

/// Files that Hugging Face keeps beside `tokenizer.json`; they are copied where they exist.
pub(super) const TOKENIZER_EXTRAS: [&str; 3] =
    ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"];

/// Calls into the library in progress.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic may currently come from the tokenizers library, on any thread, and will be returned as an error: it need not be printed.
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

/// Calls the library, with its panics as errors.
pub(super) fn catch_panics<T>(
    call: impl FnOnce() -> tokenizers::Result<T>,
) -> tokenizers::Result<T> {
    let _in_progress = Call::begin();
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!(
            "the tokenizers library panics over it: {}",
            text.unwrap_or("it does not say why")
        )
        .into())
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
