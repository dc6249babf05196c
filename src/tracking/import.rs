//! Reads runs that other tools recorded.

mod csv_table;
mod derived_name;
mod error;
mod known_runs;
#[cfg(feature = "mlflow")]
mod mlflow;
mod recorded_run;
mod tensorboard;
mod wandb;

use std::fs;
use std::path::{Path, PathBuf};

use super::Credentials;
use crate::config::file::what;
use crate::runner;

pub use csv_table::Mapping;
pub use derived_name::{LONGEST, study_name};
pub use error::ImportError;
pub use known_runs::{Change, KnownRuns, Taken};
#[cfg(feature = "mlflow")]
pub use mlflow::Experiments;
pub use recorded_run::{RecordedEnd, RecordedPoint, RecordedRun};

/// How deep directories are searched.
const DEPTH: usize = 8;

/// A format to import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Offline or synchronised runs of Weights & Biases.
    Wandb,
    /// Directories of event files.
    TensorBoard,
    /// A table with a row for each run, or for each step of a run.
    Csv,
    /// A tracking server of MLflow.
    MlFlow,
}

impl Format {
    /// The formats that are files.
    pub const OF_FILES: [Format; 3] = [Format::Wandb, Format::TensorBoard, Format::Csv];

    /// Its prefix before a path.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Wandb => "wandb",
            Format::TensorBoard => "tensorboard",
            Format::Csv => "csv",
            Format::MlFlow => "mlflow",
        }
    }
}

/// A server with runs.
#[derive(Clone, Debug)]
pub struct ServerPlace {
    /// Its address.
    pub address: String,
    /// The experiment; `None`: all.
    pub experiment: Option<String>,
    /// The credentials.
    pub credentials: Credentials,
}

/// A stub in builds without MLflow.
#[cfg(not(feature = "mlflow"))]
pub struct Experiments;

#[cfg(not(feature = "mlflow"))]
impl Experiments {
    /// # Errors
    /// Always.
    pub fn of(_place: &ServerPlace) -> Result<Experiments, ImportError> {
        Err(ImportError::NotBuilt)
    }

    /// # Errors
    /// Never.
    pub fn each<E: From<ImportError>>(
        &self,
        _take: impl FnMut(RecordedRun) -> Result<(), E>,
    ) -> Result<(), E> {
        Ok(())
    }
}

/// A file or directory with one or several runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is.
    pub format: Format,
    /// The path of the file or directory.
    pub path: PathBuf,
}

/// Finds the sources below a path; `format`: only these.
///
/// # Errors
/// The path cannot be read, or has no runs.
pub fn find(path: &Path, format: Option<Format>) -> Result<Vec<Source>, ImportError> {
    let metadata = fs::metadata(path).map_err(ImportError::io(path))?;
    // Each run is known by the path that it came from.
    if !metadata.is_file() && !metadata.is_dir() {
        let why = format!("it is {}, not a file", what(metadata.file_type()));
        return Err(ImportError::malformed(path, why));
    }
    let path = fs::canonicalize(path).map_err(ImportError::io(path))?;
    let mut found = Vec::new();
    if metadata.is_dir() {
        look(&path, DEPTH, &mut found);
    } else {
        let known = format.or_else(|| of_file(&path));
        found.extend(known.map(|format| match format {
            Format::TensorBoard => {
                let directory = path.parent().unwrap_or(&path).to_owned();
                Source { format, path: directory }
            }
            _ => Source { format, path: path.clone() },
        }));
    }
    // Tables in a directory are imported only if named themselves.
    found.retain(|source| match format {
        Some(format) => source.format == format,
        None => !metadata.is_dir() || source.format != Format::Csv,
    });
    if found.is_empty() {
        return Err(ImportError::Nothing { path });
    }
    // Runs get their numbers in the order in which they began.
    found.sort_by_cached_key(|source| match source.format {
        Format::Wandb => wandb::began(&source.path),
        Format::TensorBoard => tensorboard::began(&source.path),
        Format::Csv | Format::MlFlow => None,
    });
    Ok(found)
}

fn of_file(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?;
    if name.starts_with(tensorboard::NAME) {
        return Some(Format::TensorBoard);
    }
    match Path::new(name).extension()?.to_str()? {
        "wandb" => Some(Format::Wandb),
        "csv" | "tsv" => Some(Format::Csv),
        _ => None,
    }
}

fn look(directory: &Path, depth: usize, found: &mut Vec<Source>) {
    // Unreadable directories are skipped.
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let is_file = |path: &&PathBuf| path.is_file();
    let formats =
        |format| paths.iter().filter(is_file).filter(move |path| of_file(path) == Some(format));
    if formats(Format::TensorBoard).next().is_some() {
        let path = directory.to_owned();
        found.push(Source { format: Format::TensorBoard, path });
    }
    let files = formats(Format::Wandb);
    found.extend(files.map(|path| Source { format: Format::Wandb, path: path.clone() }));
    if depth == 0 {
        return;
    }
    // Symbolic links may form a cycle.
    let is_run = formats(Format::TensorBoard).next().is_some();
    let is_part = |path: &Path| is_run && tensorboard::is_part(path);
    for below in paths.iter().filter(|path| path.is_dir() && !path.is_symlink() && !is_part(path)) {
        look(below, depth - 1, found);
    }
}

/// The runs of a source; `root` is the given path, `mapping` maps the columns of a table.
///
/// # Errors
/// It cannot be read, or has another format. A damaged or truncated source yields what precedes the
/// damage, and a remark.
pub fn read(
    source: &Source,
    root: &Path,
    mapping: &Mapping,
) -> Result<Vec<RecordedRun>, ImportError> {
    let now = runner::now();
    let runs = match source.format {
        Format::Wandb => vec![wandb::read(&source.path)?],
        Format::TensorBoard => tensorboard::read(&source.path, root)?.into_iter().collect(),
        Format::Csv => csv_table::read(&source.path, mapping)?,
        Format::MlFlow => Vec::new(),
    };
    Ok(runs.into_iter().map(|run| run.settled(now)).collect())
}
