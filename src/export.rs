//! Exporting: the best trial as a directory that is complete in itself, written all or nothing.

mod bundle;
mod card;
mod contents;
mod custom_code;
mod draft;
mod earlier;
mod marker;
pub mod recipe;
mod target;

use std::fmt;
use std::path::{Path, PathBuf};

pub use bundle::{Otherwise, write};
pub use contents::LeftOut;
pub use draft::{Draft, Purpose};
pub use recipe::Recipe;
pub use target::{Needed, Target};

use crate::metric::Metrics;
use crate::study::{Quantize, StudySpec};
use crate::trial::Trial;

/// What is exported.
#[derive(Debug)]
pub struct Exported<'a> {
    /// The study.
    pub spec: &'a StudySpec,
    /// The trial.
    pub trial: &'a Trial,
    /// Its checkpoint; a trial without one is exported as its configuration.
    pub checkpoint: Option<&'a Path>,
    /// Clock value of the trial's value.
    pub step: Option<u64>,
    /// Metrics at that clock value, and on the test split if there is one.
    pub metrics: Metrics,
    /// How to train the same again.
    pub recipe: Recipe,
    /// The study's best trials, the best first; none where there is no study.
    pub leaders: Vec<Trial>,
    /// What was lost where the weights are of fewer bits than they were trained in; then the checkpoint is the smaller one.
    pub quantized: Option<Quantized>,
}

/// A model before its weights were written in fewer bits; [`Exported::metrics`] has what it came to afterwards.
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
    /// Earlier exports that were not removed, since they hold something that hpsearch did not write or cannot tell.
    pub kept: Vec<PathBuf>,
    /// What is in the checkpoint and not in the export.
    pub left_out: Vec<(PathBuf, LeftOut)>,
    /// Files of the checkpoint that have another name in the export, since it has one of that name: before and after.
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
    /// It may be an export of a version that left no list of its files, and holds these, which such an export need not have held.
    NoList(Vec<PathBuf>),
    /// It is an export that holds these besides.
    Unknown(Vec<PathBuf>),
    /// It is an export whose files changed since.
    Changed(Vec<PathBuf>),
    /// Its marker cannot be read.
    Marker,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Holds(what, path) => write!(f, "it is or holds {what} (`{}`)", path.display()),
            Obstacle::LiesIn(what, path) => write!(f, "it lies in {what} (`{}`), which hpsearch removes when it is no longer needed", path.display()),
            Obstacle::NoDirectory => f.write_str("it is no directory"),
            Obstacle::NoExport(names) => write!(f, "it is not an export of hpsearch: it holds {}", some(names)),
            Obstacle::NoList(names) => {
                write!(
                    f,
                    "it holds {}; if it is an export of an earlier version of hpsearch, which left no list of its files, remove it yourself",
                    some(names)
                )
            }
            Obstacle::Unknown(names) => write!(f, "it holds {}, which no export wrote", some(names)),
            Obstacle::Changed(names) => write!(f, "{} changed since the export", some(names)),
            Obstacle::Marker => write!(f, "its `{}` is damaged or of another version of hpsearch", marker::MARKER),
        }
    }
}

/// The first few of some names, and how many more there are.
fn some(names: &[PathBuf]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{}`", name.display().to_string().escape_debug())).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Why an export was not written. Nothing half-written is left.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The checkpoint's files are not those that were saved.
    #[error("the checkpoint `{}` is damaged: {why}; export another trial with `--trial N`", path.display())]
    Damaged {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The target may not be replaced: nothing but an earlier export is, and only while it is as it was written.
    #[error("cannot export to `{}`: {why}; choose another directory, or move away what you want to keep", path.display())]
    Occupied {
        /// The target.
        path: PathBuf,
        /// What stands in the way.
        why: Obstacle,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} `{}`: check its permissions and the space left, or export to another directory", path.display())]
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
    #[error("cannot write `{file}`: {why}; please report it, and `hpsearch export-data STUDY` takes the tables meanwhile")]
    Format {
        /// The file's name.
        file: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl ExportError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| ExportError::Io { doing, path, source }
    }
}

#[cfg(test)]
mod tests;
