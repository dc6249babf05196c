//! What a program's last words say about why it failed: memory and devices fail programs that have no mistake.

use crate::study::FailureCause;

/// Words that programs end with when there was too little memory: of Python, PyTorch, JAX, TensorFlow, C++, Rust, CUDA and burn.
const MEMORY: &[&str] = &[
    "CUDA out of memory",
    "OutOfMemoryError",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "RESOURCE_EXHAUSTED",
    "ResourceExhaustedError",
    "MemoryError",
    "std::bad_alloc",
    "Cannot allocate memory",
    "memory allocation of ",
    "out of device memory",
    "can't allocate buffer of size",
];

/// Words that they end with when a device went away.
const DEVICE: &[&str] = &[
    "GPU is lost",
    "device lost",
    "Device lost",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "uncorrectable ECC error",
    "no CUDA-capable device is detected",
    "CUDA-capable device(s) is/are busy or unavailable",
    "the device failed: ",
];

/// So many lines before the end, a word still tells why a program ended: launchers say more after it.
const TAIL: u64 = 40;

/// Reads what a program says, line by line, for what it may die of.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    lines: u64,
    last: String,
    found: Option<(u64, FailureCause, String)>,
}

impl LastWords {
    /// Takes a line of its standard error.
    pub(super) fn hear(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        self.lines += 1;
        self.last = line.chars().take(300).collect();
        if let Some(cause) = cause_of(&self.last) {
            self.found = Some((self.lines, cause, self.last.clone()));
        }
    }

    /// Its last line, cut.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// What it seems to have died of, by its last lines.
    pub(super) fn cause(&self) -> Option<FailureCause> {
        self.telling().map(|(cause, _)| cause)
    }

    /// The same with the line that tells it.
    pub(super) fn telling(&self) -> Option<(FailureCause, &str)> {
        self.found.as_ref().filter(|(at, ..)| self.lines - at < TAIL).map(|(_, cause, line)| (*cause, line.as_str()))
    }
}

/// The cause that a sentence names, if it is one that is not the program's own.
pub(super) fn cause_of(words: &str) -> Option<FailureCause> {
    let holds = |list: &[&str]| list.iter().any(|word| words.contains(word));
    if holds(MEMORY) {
        return Some(FailureCause::Oom);
    }
    holds(DEVICE).then_some(FailureCause::DeviceLost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_devices_are_told_from_a_programs_own_mistakes() {
        let cases = [
            ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", Some(FailureCause::Oom)),
            ("RuntimeError: CUDA out of memory.", Some(FailureCause::Oom)),
            ("MemoryError", Some(FailureCause::Oom)),
            ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 TiB", Some(FailureCause::Oom)),
            ("terminate called after throwing an instance of 'std::bad_alloc'", Some(FailureCause::Oom)),
            ("memory allocation of 8796093022208 bytes failed", Some(FailureCause::Oom)),
            ("the device failed: out of device memory allocating 8589934592 bytes", Some(FailureCause::Oom)),
            ("the device failed: the stream was poisoned", Some(FailureCause::DeviceLost)),
            ("RuntimeError: CUDA error: no CUDA-capable device is detected", Some(FailureCause::DeviceLost)),
            ("Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.", Some(FailureCause::DeviceLost)),
            ("ValueError: shapes (3,4) and (5,) not aligned", None),
            ("RuntimeError: CUDA error: device-side assert triggered", None),
            ("", None),
        ];
        for (words, cause) in cases {
            assert_eq!(cause_of(words), cause, "{words}");
        }
    }

    #[test]
    fn a_word_counts_near_the_end_only() {
        let mut words = LastWords::default();
        words.hear("MemoryError\n");
        (0..10).for_each(|line| words.hear(&format!("launcher: line {line}\n")));
        assert_eq!((words.telling(), words.last()), (Some((FailureCause::Oom, "MemoryError")), "launcher: line 9"));
        (0..40).for_each(|line| words.hear(&format!("went on without it {line}\n")));
        assert_eq!(words.cause(), None);
    }
}
