//! `tokenizer.json`, which anybody may have written: where the library panics over one, that is an error like others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use tokenizers::Tokenizer;

/// Calls into the library that are under way.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Whether a panic now may be one over a file of others, of which an error tells: nothing need be said of it. The library works on
/// threads of its own, so that it may come from any.
#[must_use]
pub fn panics_are_errors() -> bool {
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
    guarded(|| Tokenizer::from_bytes(bytes))
}

/// Calls the library; a panic of its is an error.
pub(super) fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> tokenizers::Result<T> {
    let _until_the_end = Call::begin();
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("the tokenizers library panics over it: {}", text.unwrap_or("it does not say why")).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_library_is_an_error_with_its_words() {
        let failed: tokenizers::Result<()> = guarded(|| panic!("no {}", "vocabulary"));
        assert_eq!(failed.unwrap_err().to_string(), "the tokenizers library panics over it: no vocabulary");
        assert!(guarded(|| Ok(panics_are_errors())).unwrap());
    }
}
