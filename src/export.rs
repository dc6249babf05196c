//! Exports the best trial as a self-contained directory, written atomically.

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
#[cfg(test)]
mod fixture;
mod marker;
pub mod recipe;
mod target;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

pub use bundle::{Otherwise, Previous, write};
pub use contents::LeftOut;
pub use draft::{Draft, Purpose, keep_checkpoints_of_killed};
pub use recipe::Recipe;
pub use target::{Needed, Target};

use crate::storage::disk::is_of_space;
use crate::study::metric::Metrics;
use crate::study::spec::{Quantize, StudySpec};
use crate::study::step::UnitStep;
use crate::study::trial::{Trial, TrialNumber};

/// The input of an export.
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
    /// The step that the checkpoint holds.
    pub holds: Holds,
    /// Metrics at the checkpoint's step, and on the test split if there is one.
    pub metrics: Metrics,
    /// The recipe to train it again.
    pub recipe: Recipe,
    /// The study's best trials, best first; empty without a study.
    pub leaders: Vec<Trial>,
    /// The loss due to quantization, if any; the checkpoint is then the quantized one.
    pub quantized: Option<Quantized>,
}

/// The step that an exported checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Holds {
    /// The step of the trial's value; also if there is no checkpoint and only the configuration is
    /// exported.
    Value,
    /// Another step, since there is no checkpoint of that one.
    Another {
        /// Its step.
        step: u64,
        /// The study's metric at that step, if reported.
        value: Option<f64>,
    },
    /// Unknown: it was written to after it was registered.
    Unknown {
        /// The step at registration.
        registered: u64,
    },
}

impl Holds {
    /// The step of the checkpoint, if known; `of_value` is that of the trial's value.
    pub fn step(self, of_value: Option<u64>) -> Option<u64> {
        match self {
            Holds::Value => of_value,
            Holds::Another { step, .. } => Some(step),
            Holds::Unknown { .. } => None,
        }
    }
}

impl Exported<'_> {
    /// The step of the checkpoint, if known.
    pub fn held_step(&self) -> Option<u64> {
        self.holds.step(self.step)
    }

    /// The value reported at the checkpoint's step.
    pub fn held_value(&self) -> Option<f64> {
        match self.holds {
            Holds::Value => self.trial.value,
            Holds::Another { value, .. } => value,
            Holds::Unknown { .. } => None,
        }
    }
}

/// Whether a directory contains a model's weights, in one or several files.
pub fn holds_weights(directory: &Path) -> bool {
    ["model.safetensors", "model.safetensors.index.json"]
        .iter()
        .any(|file| directory.join(file).is_file())
}

/// Whether a directory has the marker of an export.
pub fn is_export(directory: &Path) -> bool {
    directory.join(marker::MARKER).is_file()
}

/// The default directory for training again from a `best.toml` in `directory`: beside an export,
/// which contains only what was exported, else `trained` in that directory.
pub fn default_beside(directory: &Path) -> PathBuf {
    let beside = || {
        let whole = std::fs::canonicalize(directory).ok().filter(|_| is_export(directory))?;
        let mut name = OsString::from(whole.file_name()?);
        name.push("-trained");
        // As written, if that has a name.
        Some(if directory.file_name().is_some() {
            directory.with_file_name(name)
        } else {
            whole.with_file_name(name)
        })
    };
    beside().unwrap_or_else(|| directory.join("trained"))
}

/// A model before quantization; [`Exported::metrics`] has the metrics afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// The format.
    pub format: Quantize,
    /// Metrics before.
    pub before: Metrics,
    /// Size of the weights before and after.
    pub bytes: [u64; 2],
}

/// The result of an export.
#[derive(Debug)]
pub struct Placed {
    /// The directory.
    pub directory: PathBuf,
    /// Why it is not the requested one.
    pub refused: Option<ExportError>,
    /// Earlier exports that were not removed, since they contain files that hpsearch did not write
    /// or does not recognise.
    pub kept: Vec<PathBuf>,
    /// The earlier export that made room.
    pub set_aside: Option<SetAside>,
    /// What the export leaves out of the checkpoint.
    pub left_out: Vec<(PathBuf, LeftOut)>,
    /// Files of the checkpoint renamed because the export has a file with that name: before and
    /// after.
    pub renamed: Vec<(PathBuf, PathBuf)>,
}

impl Placed {
    /// At the requested directory, with nothing to tell.
    fn at(directory: &Path) -> Placed {
        Placed {
            directory: directory.to_owned(),
            refused: None,
            kept: Vec::new(),
            set_aside: None,
            left_out: Vec::new(),
            renamed: Vec::new(),
        }
    }
}

/// An earlier export that was set aside, since it may be the only copy of its model.
#[derive(Debug)]
pub struct SetAside {
    /// Where it is now.
    pub directory: PathBuf,
    /// Its recipe, if that can be read.
    pub recipe: Option<Recipe>,
}

/// Why a directory may not be replaced by an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It is, or contains, something that is needed.
    Holds(Needed, PathBuf),
    /// It is inside something that will be removed.
    LiesIn(Needed, PathBuf),
    /// It is not a directory, or a dangling link.
    NoDirectory,
    /// It is not an export, and contains these.
    NoExport(Vec<PathBuf>),
    /// It may be an export of a version without markers, and contains these, which such an export
    /// need not have written.
    NoList(Vec<PathBuf>),
    /// It is an export with these additional files.
    Unknown(Vec<PathBuf>),
    /// It is an export whose files have changed.
    Changed(Vec<PathBuf>),
    /// Its marker cannot be read.
    Marker,
    /// It is an export with a checkpoint, including these files, and the new export has none.
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
            Obstacle::NoDirectory => f.write_str("it is not a directory"),
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

/// Abbreviates a list of names.
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

/// Why an export was not written. Nothing is left half-written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The checkpoint's files differ from those that were saved.
    #[error("the checkpoint `{}` is damaged: {why}; export another trial with `--trial \
        N`", path.display())]
    Damaged {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The target must not be replaced: only an unmodified earlier export may be.
    #[error("cannot export to `{}`: {why}; choose another directory, or move away what you want \
        to keep", path.display())]
    Occupied {
        /// The target.
        path: PathBuf,
        /// The obstacle.
        why: Obstacle,
    },
    /// The checkpoint is missing.
    #[error(
        "the checkpoint of {step} of trial {trial} is no longer at `{}`: it was moved or \
         deleted {saved_by}; put it back there, or export another trial with `--trial N`{}",
        path.display(),
        among(others)
    )]
    Missing {
        /// The trial.
        trial: TrialNumber,
        /// The step according to the store.
        step: UnitStep,
        /// The expected path.
        path: PathBuf,
        /// Who saved it.
        saved_by: SavedBy,
        /// Those of the best trials that have theirs.
        others: Vec<TrialNumber>,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} `{}`: {}", path.display(), what_to_do(doing))]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The disk of the target is full, or a quota or limit is reached.
    #[error(
        "cannot export to `{}`: no space is left there. Nothing was exported, and an earlier \
         export is unchanged: free some space (`hpsearch gc --yes` removes files that no study \
         needs), or export to another directory on another disk, then run the same command again",
        path.display()
    )]
    Full {
        /// The target.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be serialised (TOML or JSON).
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

/// Who saved a checkpoint; shown as when it was deleted, and who may have done so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedBy {
    /// The built-in trainer.
    Trainer,
    /// The trial's own program.
    Program,
}

impl fmt::Display for SavedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SavedBy::Trainer => "after it was saved, and not by hpsearch",
            SavedBy::Program => {
                "after the trial's program registered it, by that program or by another process"
            }
        })
    }
}

/// ` (3, 5 have theirs)`
fn among(trials: &[TrialNumber]) -> String {
    let numbers: Vec<String> = trials.iter().map(ToString::to_string).collect();
    match numbers.len() {
        0 => String::new(),
        1 => format!(" ({} has its own)", numbers[0]),
        _ => format!(" ({} have theirs)", numbers.join(", ")),
    }
}

/// The remedy for a file that cannot be read or written.
fn what_to_do(doing: &str) -> &'static str {
    match doing {
        "read" => {
            "check that it exists and that you may read it, then run the command again, or export \
             another trial with `--trial N`"
        }
        _ => "check its permissions and the space left, or export to another directory",
    }
}

impl ExportError {
    /// The same, with the target if that has no space left.
    fn of_target(self, target: &Path) -> Self {
        match self {
            ExportError::Io { source, .. } if is_of_space(&source) => {
                ExportError::Full { path: target.to_owned(), source }
            }
            other => other,
        }
    }

    fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| ExportError::Io { doing, path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::ExportFixture;
    use super::*;

    #[test]
    fn a_model_trained_again_goes_beside_the_export_and_not_into_it() {
        let fixture = ExportFixture::new();
        fixture.export().unwrap();
        assert_eq!(default_beside(&fixture.path("model")), fixture.path("model-trained"));
        assert_eq!(default_beside(&fixture.path("model/.")), fixture.path("model-trained"));
        assert_eq!(default_beside(&fixture.path("checkpoint")), fixture.path("checkpoint/trained"));
        // The export remains one that the next replaces.
        fixture.put("model-trained/weights", "two");
        fixture.export().unwrap();
    }
}
