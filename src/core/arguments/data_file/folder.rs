//! A data file, or the files of a folder in its place.

use std::path::{Path, PathBuf};

use super::DataProblem;
use crate::arguments::data_format::{DataFormat, KNOWN_ENDINGS, format_of};

/// The files behind a path of `[data]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFiles {
    /// The file itself; the files of a folder, in the order of their names.
    pub paths: Vec<PathBuf>,
    /// Whether they are those of a folder.
    pub is_folder: bool,
}

impl DataFiles {
    /// The file at `path`; or, if that is a folder with the files `listed`, its data files: all of
    /// one format. Beside Parquet and Arrow files there may be JSON files that describe them.
    ///
    /// # Errors
    /// The folder has no data file, or files of several formats.
    pub fn of(path: &Path, listed: Option<Vec<PathBuf>>) -> Result<Self, DataProblem> {
        let Some(listed) = listed else {
            return Ok(DataFiles { paths: vec![path.to_owned()], is_folder: false });
        };
        let is_hidden = |file: &Path| {
            file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
        };
        let known = |file: PathBuf| Some((format_of(&file)?.0, file));
        let shown = listed.into_iter().filter(|file| !is_hidden(file));
        let mut files: Vec<(DataFormat, PathBuf)> = shown.filter_map(known).collect();
        let of_columns = [DataFormat::Parquet, DataFormat::Arrow];
        if files.iter().any(|(format, _)| of_columns.contains(format)) {
            files.retain(|(format, _)| *format != DataFormat::Json);
        }
        files.sort();
        let problem = |message: String| {
            DataProblem::new(path, None, message).with_help(format!(
                "a folder has files of one format, each with the same columns: {KNOWN_ENDINGS}"
            ))
        };
        let Some((format, first)) = files.first() else {
            return Err(problem("there is no data file in the folder".to_owned()));
        };
        if let Some((_, other)) = files.iter().find(|(other, _)| other != format) {
            let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
            let (first, other) = (name(first), name(other));
            return Err(problem(format!("`{first}` and `{other}` are of different formats")));
        }
        Ok(DataFiles { paths: files.into_iter().map(|(_, path)| path).collect(), is_folder: true })
    }

    /// The digest of their contents, given in order; of a folder also of the names in it.
    pub fn digest<'a>(&self, contents: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut digest = blake3::Hasher::new();
        for (path, bytes) in self.paths.iter().zip(contents) {
            if self.is_folder {
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                digest.update(&(name.len() as u64).to_le_bytes()).update(name);
                digest.update(blake3::hash(bytes).as_bytes());
            } else {
                digest.update(bytes);
            }
        }
        digest.finalize().to_hex().to_string()
    }
}
