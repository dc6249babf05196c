//! Classifies failures by the stderr tail: lack of memory and lost devices are not the program's
//! mistakes.

mod process_group;

use process_group::ProcessGroup;

use crate::study::spec::FailureCause;

/// Messages about lack of memory: of Python, PyTorch, JAX, TensorFlow, C++, Rust, CUDA and burn.
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

/// Messages about a lost device.
const DEVICE: &[&str] = &[
    "GPU is lost",
    "device lost",
    "Device lost",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "uncorrectable ECC error",
    "no CUDA-capable device is detected",
    "CUDA-capable device(s) is/are busy or unavailable",
    // Only drivers' own names: Python programs print most of these in prose, mostly because of
    // their own mistakes.
    "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
];

/// Messages of Python launchers about a process that was killed.
const KILLED: &[&str] = &["died with <Signals.SIGKILL: 9>"];

/// Messages of defective devices, with advice.
const ADVICE: &[(&[&str], &str)] = &[
    (
        &["the \"nvrtc\" shared library"],
        "libnvrtc, which compiles kernels, is missing: install the CUDA toolkit, or add its \
         directory to LD_LIBRARY_PATH",
    ),
    (
        &["the \"cuda\" shared library"],
        "libcuda is missing: install NVIDIA's driver, or use = [\"cpu\"] in [devices]",
    ),
    (
        &["cuda_runtime.h", "cuda_fp16.h"],
        "the CUDA headers are missing: install the CUDA toolkit, or let CUDA_PATH name its \
         directory",
    ),
    (
        &["CUDA_ERROR_INSUFFICIENT_DRIVER"],
        "the driver is older than this program's CUDA: install a newer one",
    ),
    (
        &["CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"],
        "the driver's library and its kernel module are of different versions: restart the machine",
    ),
    (
        &["CUDA_ERROR_UNSUPPORTED_PTX_VERSION"],
        "the driver is older than the CUDA toolkit: install a newer driver, or an older toolkit",
    ),
    (
        &["CUDA_ERROR_DEVICE_UNAVAILABLE", "busy or unavailable"],
        "another process uses it exclusively: `nvidia-smi -c 0` lets several share it, \
         trials_per_device = 1 needs only one",
    ),
    (&["CUDA_ERROR_NO_DEVICE"], "no GPU is visible to it: `hpsearch devices` says why"),
];

/// Advice on a defective device, if the text contains such a message.
pub(super) fn advice(words: &str) -> Option<&'static str> {
    let is_said = |said: &[&str]| said.iter().any(|said| words.contains(said));
    ADVICE.iter().find(|(said, _)| is_said(said)).map(|(_, advice)| *advice)
}

/// Number of last lines that are searched: launchers print more after the message.
const TAIL: u64 = 40;

/// Follows a program's standard error to classify its failure.
#[derive(Debug, Default)]
pub struct StderrTail {
    lines: u64,
    last: String,
    found: Option<(u64, FailureCause, String)>,
    group: ProcessGroup,
}

impl StderrTail {
    /// Adds a line of standard error.
    pub fn push(&mut self, line: &str) {
        let line = line.trim();
        // A stack trace may be longer than the search.
        if line.is_empty() || is_frame(line) || self.group.push(line) {
            return;
        }
        self.lines += 1;
        self.last = line.chars().take(300).collect();
        if let Some(cause) = cause_of(&self.last) {
            self.found = Some((self.lines, cause, self.last.clone()));
        }
    }

    /// Its last line, truncated; if torchrun named the process that failed first, that one's.
    pub fn last(&self) -> &str {
        self.group.words().unwrap_or(&self.last)
    }

    /// The probable failure cause, from its last lines.
    pub fn cause(&self) -> Option<FailureCause> {
        self.telling().map(|(cause, _)| cause).or_else(|| self.group.cause())
    }

    /// The same with the line behind it.
    pub fn telling(&self) -> Option<(FailureCause, &str)> {
        let found = self.found.as_ref().filter(|(at, ..)| self.lines - at < TAIL);
        found.map(|(_, cause, line)| (*cause, line.as_str()))
    }
}

/// Whether a line belongs to a stack trace of Rust or Java: `17: name`, `at path`.
fn is_frame(line: &str) -> bool {
    let numbered = line.split_once(": ").is_some_and(|(number, _)| {
        !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
    });
    numbered || line.starts_with("at ")
}

/// The failure cause that a text names, if it is not the program's own.
pub fn cause_of(words: &str) -> Option<FailureCause> {
    let holds = |list: &[&str]| list.iter().any(|word| words.contains(word));
    if holds(MEMORY) {
        return Some(FailureCause::Oom);
    }
    if holds(DEVICE) {
        return Some(FailureCause::DeviceLost);
    }
    holds(KILLED).then_some(FailureCause::WorkerLost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_devices_are_told_from_a_programs_own_mistakes() {
        let memory = [
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            "RuntimeError: CUDA out of memory.",
            "MemoryError",
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 TiB",
            "terminate called after throwing an instance of 'std::bad_alloc'",
            "memory allocation of 8796093022208 bytes failed",
            "the device failed: out of device memory allocating 8589934592 bytes",
        ];
        let device = [
            "RuntimeError: CUDA error: no CUDA-capable device is detected",
            "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.",
            "DriverError(CUDA_ERROR_ILLEGAL_ADDRESS, \"an illegal memory access\")",
        ];
        let own = [
            "ValueError: shapes (3,4) and (5,) not aligned",
            "RuntimeError: CUDA error: device-side assert triggered",
            "",
        ];
        for (cause, words) in [
            (Some(FailureCause::Oom), &memory[..]),
            (Some(FailureCause::DeviceLost), &device),
            (None, &own),
        ] {
            words.iter().for_each(|words| assert_eq!(cause_of(words), cause, "{words}"));
        }
    }

    #[test]
    fn a_device_that_does_not_work_comes_with_what_to_do() {
        for (words, to_do) in [
            (
                "a thread of it panicked: Unable to dynamically load the \"nvrtc\" shared library",
                "libnvrtc",
            ),
            ("DriverError(CUDA_ERROR_DEVICE_UNAVAILABLE, ..)", "nvidia-smi -c 0"),
            ("catastrophic error: cannot open source file \"cuda_fp16.h\"", "CUDA_PATH"),
        ] {
            assert!(advice(words).is_some_and(|advice| advice.contains(to_do)), "{words}");
        }
        assert_eq!(advice("ValueError: shapes (3,4) and (5,) not aligned"), None);
    }

    #[test]
    fn a_word_counts_near_the_end_only() {
        let mut words = StderrTail::default();
        words.push("MemoryError\n");
        (0..10).for_each(|line| words.push(&format!("launcher: line {line}\n")));
        for frame in 0..100 {
            words.push(&format!("  {frame}: some::function"));
            words.push("             at ./src/some.rs:1:2");
        }
        assert_eq!(words.telling(), Some((FailureCause::Oom, "MemoryError")));
        assert_eq!(words.last(), "launcher: line 9");
        (0..40).for_each(|line| words.push(&format!("continued without it {line}\n")));
        assert_eq!(words.cause(), None);
    }
}
