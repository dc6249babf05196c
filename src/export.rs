//! Exporting: the best trial as a directory that is complete in itself, written all or nothing.

#![expect(
    clippy::disallowed_methods,
    reason = "drafts are named after the process that writes them"
)]

mod bundle;
mod card;
mod contents;
mod custom_code;
mod draft;
mod earlier;
mod marker;
pub mod recipe;
mod target;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

pub use bundle::{Otherwise, write};
pub use contents::LeftOut;
pub use draft::{Draft, Purpose};
pub use recipe::Recipe;
pub use target::{Needed, Target};

use crate::study::metric::Metrics;
use crate::study::spec::{Quantize, StudySpec};
use crate::study::trial::{Trial, TrialNumber};

/// What is exported.
#[derive(Debug)]
pub struct Exported<'a> {
    /// The study.
    pub spec: &'a StudySpec,
    /// The trial.
    pub trial: &'a Trial,
    /// Its checkpoint; a trial without one is exported as its configuration.
    pub checkpoint: Option<&'a Path>,
    /// Step of the trial's value.
    pub step: Option<u64>,
    /// Of which step the checkpoint is.
    pub holds: Holds,
    /// Metrics at the checkpoint's step, and on the test split if there is one.
    pub metrics: Metrics,
    /// How to train the same again.
    pub recipe: Recipe,
    /// The study's best trials, the best first; none where there is no study.
    pub leaders: Vec<Trial>,
    /// What was lost where the weights are of fewer bits than they were trained in; then the
    /// checkpoint is the smaller one.
    pub quantized: Option<Quantized>,
}

/// Of which step an exported checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Holds {
    /// Of that of the trial's value. So it is where there is no checkpoint, too: what is exported
    /// then is the configuration.
    Value,
    /// Of another one, since there is none of that step.
    Another {
        /// Its step.
        step: u64,
        /// What the study's metric was then, if it was reported.
        value: Option<f64>,
    },
    /// Nobody can tell: it was written to after it was registered.
    Unknown {
        /// The step that it was registered at.
        registered: u64,
    },
}

impl Holds {
    /// The step of the checkpoint, as far as it is known; `of_value` is that of the trial's value.
    pub fn step(self, of_value: Option<u64>) -> Option<u64> {
        match self {
            Holds::Value => of_value,
            Holds::Another { step, .. } => Some(step),
            Holds::Unknown { .. } => None,
        }
    }
}

impl Exported<'_> {
    /// The step of the checkpoint, as far as it is known.
    pub fn held_step(&self) -> Option<u64> {
        self.holds.step(self.step)
    }

    /// The value that was reported for what the checkpoint holds.
    pub fn held_value(&self) -> Option<f64> {
        match self.holds {
            Holds::Value => self.trial.value,
            Holds::Another { value, .. } => value,
            Holds::Unknown { .. } => None,
        }
    }
}

/// Whether a directory holds a model's weights, in one file or in several.
pub fn holds_weights(directory: &Path) -> bool {
    ["model.safetensors", "model.safetensors.index.json"]
        .iter()
        .any(|file| directory.join(file).is_file())
}

/// Whether a directory has the marker of an export.
pub fn is_export(directory: &Path) -> bool {
    directory.join(marker::MARKER).is_file()
}

/// Where a model that is trained again from a `best.toml` in `directory` goes, if nothing else is
/// said: beside an export, which holds nothing but what was exported, else `trained` in that
/// directory.
pub fn default_beside(directory: &Path) -> PathBuf {
    let beside = || {
        let whole = std::fs::canonicalize(directory).ok().filter(|_| is_export(directory))?;
        let mut name = OsString::from(whole.file_name()?);
        name.push("-trained");
        // As it was written, where that has a name.
        Some(if directory.file_name().is_some() {
            directory.with_file_name(name)
        } else {
            whole.with_file_name(name)
        })
    };
    beside().unwrap_or_else(|| directory.join("trained"))
}

/// A model before its weights were written in fewer bits; [`Exported::metrics`] has what it came to
/// afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// The format.
    pub format: Quantize,
    /// What was measured before.
    pub before: Metrics,
    /// Bytes of the weights before and after.
    pub bytes: [u64; 2],
}

/// Where an export lies, and what became of things that are not of it.
#[derive(Debug)]
pub struct Placed {
    /// Where it lies.
    pub directory: PathBuf,
    /// Why it does not lie where it was to go.
    pub refused: Option<ExportError>,
    /// Earlier exports that were not removed, since they hold something that hpsearch did not write
    /// or cannot tell.
    pub kept: Vec<PathBuf>,
    /// What is in the checkpoint and not in the export.
    pub left_out: Vec<(PathBuf, LeftOut)>,
    /// Files of the checkpoint that have another name in the export, since it has one of that name:
    /// before and after.
    pub renamed: Vec<(PathBuf, PathBuf)>,
}

/// Why a directory may not be replaced by an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It is, or holds, something that is needed.
    Holds(Needed, PathBuf),
    /// It lies in something that is removed one day.
    LiesIn(Needed, PathBuf),
    /// It is no directory, or a link to nothing.
    NoDirectory,
    /// It is no export, and holds these.
    NoExport(Vec<PathBuf>),
    /// It may be an export of a version that left no list of its files, and holds these, which such
    /// an export need not have held.
    NoList(Vec<PathBuf>),
    /// It is an export that holds these besides.
    Unknown(Vec<PathBuf>),
    /// It is an export whose files changed since.
    Changed(Vec<PathBuf>),
    /// Its marker cannot be read.
    Marker,
    /// It is an export with a checkpoint, of which these are files, and what is exported now has
    /// none.
    HoldsModel(Vec<PathBuf>),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Holds(what, path) => {
                write!(f, "it is or holds {what} (`{}`)", path.display())
            }
            Obstacle::LiesIn(what, path) => write!(
                f,
                "it lies in {what} (`{}`), which hpsearch removes when it is no longer needed",
                path.display()
            ),
            Obstacle::NoDirectory => f.write_str("it is no directory"),
            Obstacle::NoExport(names) => {
                write!(f, "it is not an export of hpsearch: it holds {}", some(names))
            }
            Obstacle::NoList(names) => {
                write!(
                    f,
                    "it holds {}; if it is an export of an earlier version of hpsearch, which \
                     left no list of its files, remove it yourself",
                    some(names)
                )
            }
            Obstacle::Unknown(names) => {
                write!(f, "it holds {}, which no export wrote", some(names))
            }
            Obstacle::Changed(names) => write!(f, "{} changed since the export", some(names)),
            Obstacle::HoldsModel(names) => {
                write!(
                    f,
                    "it is an export with a checkpoint ({}), and the trial that is exported now \
                     has none, so that a model would be lost",
                    some(names)
                )
            }
            Obstacle::Marker => {
                write!(f, "its `{}` is damaged or of another version of hpsearch", marker::MARKER)
            }
        }
    }
}

/// The first few of some names, and how many more there are.
fn some(names: &[PathBuf]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{}`", name.display().to_string().escape_debug()))
        .collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Why an export was not written. Nothing half-written is left.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The checkpoint's files are not those that were saved.
    #[error("the checkpoint `{}` is damaged: {why}; export another trial with `--trial \
        N`", path.display())]
    Damaged {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The target may not be replaced: nothing but an earlier export is, and only while it is as it
    /// was written.
    #[error("cannot export to `{}`: {why}; choose another directory, or move away what you want \
        to keep", path.display())]
    Occupied {
        /// The target.
        path: PathBuf,
        /// What stands in the way.
        why: Obstacle,
    },
    /// The checkpoint is not where it was.
    #[error(
        "the checkpoint of step {step} of trial {trial} is not at `{}` any more: it was moved or \
         deleted after it was registered; \
         put it back there, or export another trial with `--trial N`",
        path.display()
    )]
    Missing {
        /// The trial.
        trial: TrialNumber,
        /// What the store says that it holds.
        step: u64,
        /// Where it should be.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} `{}`: {}", path.display(), what_to_do(doing))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// Something could not be put into words (TOML or JSON).
    #[error(
        "cannot write `{file}`: {why}; please report it, and `hpsearch export-data STUDY` takes \
         the tables meanwhile"
    )]
    Format {
        /// The file's name.
        file: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// What to do about a file that cannot be read, or one that cannot be written.
fn what_to_do(doing: &str) -> &'static str {
    match doing {
        "read" => {
            "see that it is there and that you may read it, then run the command again, or export \
             another trial with `--trial N`"
        }
        _ => "check its permissions and the space left, or export to another directory",
    }
}

impl ExportError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| ExportError::Io { doing, path, source }
    }
}

#[cfg(test)]
mod tests;
