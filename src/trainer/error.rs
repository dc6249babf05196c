//! Errors of the trainer, each with its location and remedy.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{DataProblem, HostError};

/// An error that ends a training, preparation, evaluation or prediction.
#[derive(Debug, thiserror::Error)]
pub enum TrainerError {
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] DataProblem),
    /// The device does not exist, or this binary was built without it.
    #[error("{message}")]
    Device {
        /// What is wrong and which devices there are.
        message: String,
    },
    /// The device failed while it was used; another attempt may succeed.
    #[error("the device failed: {message}")]
    DeviceLost {
        /// The driver's message.
        message: String,
    },
    /// The arguments do not fit the data or the checkpoint.
    #[error("{message}")]
    Arguments {
        /// What does not fit.
        message: String,
    },
    /// A checkpoint or an exported model is damaged, incomplete or of another kind.
    #[error("checkpoint `{}`: {message}", directory.display())]
    Checkpoint {
        /// The checkpoint's directory.
        directory: PathBuf,
        /// What is wrong, with the file's name.
        message: String,
    },
    /// A pretrained model cannot be started from.
    #[error("model `{}`: {message}", directory.display())]
    Model {
        /// The model's directory.
        directory: PathBuf,
        /// What is wrong, with the file's or tensor's name.
        message: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// The operation: "read", "write".
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The tokenizer could not be trained, read or used.
    #[error("tokenizer: {message}")]
    Tokenizer {
        /// The message of the tokenizers library.
        message: String,
    },
    /// The runner cannot be reached any more.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl TrainerError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// Whether the machine refused a resource that it may provide later (disk space, another open
    /// file), which is not a failure of the training.
    pub fn is_refused_by_the_machine(&self) -> bool {
        // ENFILE and EMFILE, which have no kind of their own.
        const NO_MORE_FILES: [i32; 2] = [23, 24];
        let Self::Io { action, source, .. } = self else { return false };
        let is_full = matches!(
            source.kind(),
            ErrorKind::StorageFull
                | ErrorKind::QuotaExceeded
                | ErrorKind::FileTooLarge
                | ErrorKind::ReadOnlyFilesystem
        );
        let is_locked = source.kind() == ErrorKind::PermissionDenied && *action != "read";
        is_full
            || is_locked
            || source.raw_os_error().is_some_and(|code| NO_MORE_FILES.contains(&code))
    }

    /// A device's failure. Burn tells with it what was not computed because of it, layer by layer:
    /// only the cause of all is kept.
    pub(super) fn device_lost(error: &impl fmt::Display) -> Self {
        let text = error.to_string();
        let cause = text.rsplit("Caused by:").next().unwrap_or_default();
        let cause = cause.split("No backtrace").next().unwrap_or_default().trim();
        let message = if cause.is_empty() { text.clone() } else { cause.to_owned() };
        Self::DeviceLost { message }
    }

    pub(super) fn arguments(message: impl Into<String>) -> Self {
        Self::Arguments { message: message.into() }
    }

    pub(super) fn checkpoint(directory: &Path, message: impl Into<String>) -> Self {
        Self::Checkpoint { directory: directory.to_owned(), message: message.into() }
    }

    pub(super) fn model(directory: &Path, message: impl Into<String>) -> Self {
        Self::Model { directory: directory.to_owned(), message: message.into() }
    }

    /// A model whose `config.json` has a problem, the end of a sentence about it.
    pub(super) fn config(directory: &Path, problem: &str) -> Self {
        Self::model(directory, format!("`config.json` {problem}"))
    }

    pub(super) fn tokenizer(error: impl fmt::Display) -> Self {
        Self::Tokenizer { message: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_failed_says_why_without_what_follows_from_it() {
        // Of an H100 without memory, shortened.
        let told = "An error happened during execution\nCaused by:\n  Several failures at once\n\
                    Caused by:\n  The bytes were never written (failure #538)\n  \
                    skipped `MatmulEntry`: it needed memory\nCaused by:\n  An IO error happened\n\
                    Caused by:\n  out of device memory allocating 17180917760 bytes\n\
                    No backtrace available\nAsked at:\nNo backtrace available";
        assert_eq!(
            TrainerError::device_lost(&told).to_string(),
            "the device failed: out of device memory allocating 17180917760 bytes"
        );
        assert_eq!(TrainerError::device_lost(&"lost").to_string(), "the device failed: lost");
    }

    #[test]
    fn a_full_disk_and_too_many_open_files_are_refusals_of_the_machine_and_a_missing_file_is_none()
    {
        let of = |action, code| {
            TrainerError::io(action, Path::new("checkpoint-3"))(std::io::Error::from_raw_os_error(
                code,
            ))
        };
        let (missing, denied, too_many, too_large, full, read_only) = (2, 13, 24, 27, 28, 30);
        for code in [too_many, too_large, full, read_only, denied] {
            assert!(of("write", code).is_refused_by_the_machine(), "{code}");
        }
        assert!(of("read", too_many).is_refused_by_the_machine());
        for (action, code) in [("read", denied), ("read", missing), ("write", missing)] {
            assert!(!of(action, code).is_refused_by_the_machine(), "{action} {code}");
        }
    }
}
