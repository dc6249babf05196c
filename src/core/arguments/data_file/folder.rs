//! A data file, or in its place the files of a folder, all or those whose names match a pattern.

use std::path::{Path, PathBuf};

use super::DataProblem;
use crate::arguments::data_format::{DataFormat, KNOWN_ENDINGS, format_of};
use crate::study::pattern::matches;

/// The files behind a path of `[data]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFiles {
    /// The file itself; the files of a folder, in the order of their names.
    pub paths: Vec<PathBuf>,
    /// Whether they are those of a folder.
    pub is_folder: bool,
}

/// The pattern in which `path` ends: a last part with `*`, any characters, or `?`, any one.
#[must_use]
pub fn pattern_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str().filter(|name| name.contains(['*', '?']))
}

/// The folder whose files are behind `path`, which is no file: `path` itself, or, with a pattern,
/// the folder that it looks in.
#[must_use]
pub fn folder_of(path: &Path, is_folder: bool) -> Option<&Path> {
    if is_folder {
        return Some(path);
    }
    let folder = pattern_of(path).and_then(|_| path.parent())?;
    Some(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

/// A part of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// That to train on.
    Train,
    /// One to measure on.
    Other,
}

/// The first word of a file's name.
fn split_word(name: &str) -> &str {
    name.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default()
}

/// The part of a data set that a file belongs to by the first word of its name.
#[must_use]
pub fn split_of(file: &Path) -> Option<Split> {
    match split_word(file.file_name()?.to_str()?).to_lowercase().as_str() {
        "train" | "training" => Some(Split::Train),
        "validation" | "valid" | "val" | "dev" | "test" | "eval" => Some(Split::Other),
        _ => None,
    }
}

impl DataFiles {
    /// The file at `path`; or, if its [folder](folder_of) has the files `listed`, the data files of
    /// these, which match the pattern if there is one: all of one format. Beside Parquet and Arrow
    /// files there may be JSON files that describe them.
    ///
    /// # Errors
    /// There is no data file, or there are files of several formats.
    pub fn of(path: &Path, listed: Option<Vec<PathBuf>>) -> Result<Self, DataProblem> {
        let Some(listed) = listed else {
            return Ok(DataFiles { paths: vec![path.to_owned()], is_folder: false });
        };
        let is_hidden = |file: &Path| {
            file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
        };
        let known = |file: PathBuf| Some((format_of(&file)?.0, file));
        let pattern = pattern_of(path);
        // Not of a folder whose own name looks like one.
        let is_chosen = |file: &PathBuf| match pattern {
            Some(pattern) if file.parent() != Some(path) => {
                let name = file.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| matches(pattern, name))
            }
            _ => true,
        };
        let shown = listed.into_iter().filter(|file| !is_hidden(file) && is_chosen(file));
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
            return Err(problem(match pattern {
                Some(pattern) => format!("no data file has a name like `{pattern}`"),
                None => "there is no data file in the folder".to_owned(),
            }));
        };
        let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
        let of_split = |split| files.iter().find(|(_, file)| split_of(file) == Some(split));
        if let (None, Some((_, train)), Some((_, other))) =
            (pattern, of_split(Split::Train), of_split(Split::Other))
        {
            let (train, other) = (name(train), name(other));
            let message =
                format!("the folder has files of several splits: `{train}` and `{other}`");
            return Err(DataProblem::new(path, None, message).with_help(format!(
                "name those of one with a pattern, such as `{}*`",
                path.join(split_word(&train)).display()
            )));
        }
        if let Some((_, other)) = files.iter().find(|(other, _)| other != format) {
            let (first, other) = (name(first), name(other));
            return Err(problem(format!("`{first}` and `{other}` are of different formats")));
        }
        Ok(DataFiles { paths: files.into_iter().map(|(_, path)| path).collect(), is_folder: true })
    }

    /// The digest of their contents, from those of each file's, in order; of a folder also of the
    /// names in it.
    pub fn digest(&self, contents: impl IntoIterator<Item = blake3::Hash>) -> String {
        let mut contents = contents.into_iter();
        if !self.is_folder {
            return contents.next().map_or_else(String::new, |only| only.to_hex().to_string());
        }
        let mut digest = blake3::Hasher::new();
        for (path, content) in self.paths.iter().zip(contents) {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            digest.update(&(name.len() as u64).to_le_bytes()).update(name);
            digest.update(content.as_bytes());
        }
        digest.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_behind_a_pattern_are_those_of_its_folder_that_match() {
        let listed = || {
            let names = ["train-2.csv", "test-1.csv", "train-1.csv", "train-3.txt", ".train-4.csv"];
            Some(names.map(|name| Path::new("data").join(name)).to_vec())
        };
        let path = Path::new("data/train-*.csv");
        assert_eq!(folder_of(path, false), Some(Path::new("data")));
        let files = DataFiles::of(path, listed()).unwrap();
        assert_eq!(
            files.paths,
            ["train-1.csv", "train-2.csv"].map(|name| Path::new("data").join(name))
        );
        assert!(files.is_folder);
        let none = DataFiles::of(Path::new("data/dev-*.csv"), listed()).unwrap_err().to_string();
        assert!(
            none.starts_with("data/dev-*.csv: no data file has a name like `dev-*.csv`"),
            "{none}"
        );
        let mixed = DataFiles::of(Path::new("data/train-?.*"), listed()).unwrap_err().to_string();
        assert!(mixed.contains("are of different formats"), "{mixed}");
        assert_eq!(folder_of(Path::new("*.csv"), false), Some(Path::new(".")));
        assert_eq!(folder_of(Path::new("a.csv"), false), None);
        // A folder that is called like a pattern.
        let odd = Path::new("odd*");
        assert_eq!(folder_of(odd, true), Some(odd));
        assert_eq!(DataFiles::of(odd, Some(vec![odd.join("a.csv")])).unwrap().paths.len(), 1);
    }

    #[test]
    fn a_folder_of_several_splits_is_not_all_training_data() {
        let names = ["train-0.csv", "train-1.csv", "validation-0.csv"];
        let listed = || names.map(|name| Path::new("data").join(name)).to_vec();
        let refused = DataFiles::of(Path::new("data"), Some(listed())).unwrap_err().to_string();
        assert_eq!(
            refused,
            "data: the folder has files of several splits: `train-0.csv` and `validation-0.csv` \
             (name those of one with a pattern, such as `data/train*`)"
        );
        for (path, count) in [("data/train-*", 2), ("data/validation*", 1)] {
            let files = DataFiles::of(Path::new(path), Some(listed())).unwrap();
            assert_eq!(files.paths.len(), count);
        }
        let trains = listed()[..2].to_vec();
        assert_eq!(DataFiles::of(Path::new("data"), Some(trains)).unwrap().paths.len(), 2);
    }
}
