//! The files that trials read, with the digests of their contents.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::arguments::PRETRAINED;
use crate::arguments::data_file::{DataFiles, folder_of};
use crate::arguments::data_format::is_on_hub;
use crate::storage::sqlite;
use crate::study::params::Value;
use crate::study::program::Program;
use crate::study::provenance::SourceFile;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;

/// Larger files are not read, so that a study starts quickly.
const LONGEST_FILE: u64 = 4 << 30;

/// Endings of the files that a pretrained model is read from.
const OF_MODELS: [&str; 4] = ["json", "safetensors", "txt", "model"];

/// The files that trials read according to the study: words of its command that are files; the data
/// and the pretrained models of the trainer.
pub fn of_study(spec: &StudySpec) -> Vec<SourceFile> {
    match &spec.program {
        Program::Command { run, cwd, .. } => {
            let words = run.iter().map(|word| cwd.join(word)).filter(|path| path.is_file());
            words.map(|path| described(SourceFile::PROGRAM, &path)).collect()
        }
        Program::Trainer { .. } => {
            let data = data_of(spec).map(|(split, path)| described(split, path));
            data.chain(models_of(spec).iter().map(|path| described(SourceFile::MODEL, path)))
                .collect()
        }
        Program::Inline => Vec::new(),
    }
}

/// The paths of the trainer's data by split.
pub fn data_of(spec: &StudySpec) -> impl Iterator<Item = (&'static str, &Path)> {
    let data = match &spec.program {
        Program::Trainer { data, .. } => Some(data),
        Program::Command { .. } | Program::Inline => None,
    };
    SourceFile::DATA
        .into_iter()
        .filter_map(move |split| Some((split, Path::new(data?.get(split)?.as_str()?))))
}

/// The directories of pretrained models, fixed and searched ones.
fn models_of(spec: &StudySpec) -> Vec<PathBuf> {
    let Program::Trainer { arguments, .. } = &spec.program else { return Vec::new() };
    let fixed = arguments.get(PRETRAINED).and_then(serde_json::Value::as_str);
    let choices = spec.space.dimension(PRETRAINED).map(|dimension| &dimension.distribution);
    let searched = match choices {
        Some(Distribution::Choice { choices }) => &choices[..],
        _ => &[],
    };
    let searched = searched.iter().filter_map(|value| match value {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    });
    fixed.into_iter().chain(searched).map(PathBuf::from).filter(|path| path.is_dir()).collect()
}

/// A file, with the digest of its contents if it can be read and is not too large; a directory or a
/// pattern with that of the files behind it.
pub fn described(role: &str, path: &Path) -> SourceFile {
    let files = match role {
        SourceFile::MODEL => model_files(path),
        _ => data_files(path),
    };
    let files = files.ok();
    let lengths = files.iter().flat_map(|files| &files.paths);
    let bytes = lengths.map(|path| fs::metadata(path).map_or(0, |metadata| metadata.len())).sum();
    let digest = files.filter(|_| bytes <= LONGEST_FILE).and_then(|files| digest(&files).ok());
    SourceFile { role: role.to_owned(), path: path.display().to_string(), bytes, digest, why: None }
}

/// The digest of a data file, or of a folder or pattern of them, whatever its size.
///
/// # Errors
/// A file cannot be read, or there is none.
pub fn data_digest(path: &Path) -> io::Result<String> {
    digest(&data_files(path)?)
}

fn data_files(path: &Path) -> io::Result<DataFiles> {
    // What is on the Hub does not change at a commit, and is not downloaded for this.
    if is_on_hub(path) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let folder = if path.is_file() { None } else { folder_of(path, path.is_dir()) };
    let listed = folder.filter(|folder| folder.is_dir()).map(files_in).transpose()?;
    DataFiles::of(path, listed).map_err(io::Error::other)
}

fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

fn model_files(directory: &Path) -> io::Result<DataFiles> {
    let mut paths = files_in(directory)?;
    paths.retain(|path| {
        path.extension().and_then(|end| end.to_str()).is_some_and(|end| OF_MODELS.contains(&end))
    });
    paths.sort();
    Ok(DataFiles { paths, is_folder: true })
}

fn digest(files: &DataFiles) -> io::Result<String> {
    let digests = files.paths.iter().map(|path| file_digest(path));
    Ok(files.digest(digests.collect::<io::Result<Vec<_>>>()?))
}

/// BLAKE3 of a file.
///
/// # Errors
/// It cannot be read, or belongs to the store.
pub fn file_digest(path: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(sqlite::open_file(path)?)?;
    Ok(hasher.finalize())
}
