//! A data file, or a folder of them, and its rows by the columns and the layout of `[data]`.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use super::progress::ProgressCallback;
use super::{DataProblem, TrainerError};
use hpsearch_core::arguments::data_file::{
    self, Columns, DataFiles, DataRow, Layout, Words, is_ignored, list_of,
};
use hpsearch_core::arguments::data_format::{DataFormat, format_of, is_on_hub};
use hpsearch_core::arguments::{DataArguments, TaskKind};

/// Contents as read, before they are unpacked and parsed.
pub(super) struct RawFile {
    files: DataFiles,
    /// The bytes of each of the files.
    contents: Vec<Vec<u8>>,
}

/// The remedy for a missing column.
const NAME_COLUMNS: &str = "set `[data] text`, `label`, for pairs `text_pair`, for texts to write \
    `target`; the first line must be a header, or `[data] column_names` must name the columns of a \
    file without one";

/// The same of questions.
const NAME_QUESTIONS: &str =
    "set `[data] question`, `context` and `answers` to the names of the columns";

impl RawFile {
    /// Reads the file at `path`, or the data files of the folder there. Those of the Hub are
    /// downloaded if necessary.
    pub(super) fn read(
        path: &Path,
        on_progress: ProgressCallback<'_>,
    ) -> Result<Self, TrainerError> {
        let located = located(path, on_progress)?;
        let path = located.as_deref().unwrap_or(path);
        let files = DataFiles::of(path, Self::listed(path)?)?;
        let contents = files.paths.iter().map(|path| Self::bytes_of(path));
        Ok(Self { contents: contents.collect::<Result<_, _>>()?, files })
    }

    fn parts(&self) -> impl Iterator<Item = (&PathBuf, &Vec<u8>)> {
        self.files.paths.iter().zip(&self.contents)
    }

    /// The files of the folder at `path`, if it is one, or of that in which its pattern looks.
    fn listed(path: &Path) -> Result<Option<Vec<PathBuf>>, TrainerError> {
        let folder = if path.is_file() { None } else { data_file::folder_of(path, path.is_dir()) };
        let Some(folder) = folder.filter(|folder| folder.is_dir()) else { return Ok(None) };
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let entries = entries.map_err(TrainerError::io("read", folder))?;
        Ok(Some(
            entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect(),
        ))
    }

    /// The bytes of the file at `path`, or of all files in the folder there; 0 if there is none.
    pub(super) fn size(path: &Path) -> u64 {
        let size = |path: &Path| path.metadata().map_or(0, |file| file.len());
        match Self::listed(path).map(|listed| DataFiles::of(path, listed)) {
            Ok(Ok(files)) => files.paths.iter().map(|path| size(path)).sum(),
            _ => 0,
        }
    }

    fn bytes_of(path: &Path) -> Result<Vec<u8>, TrainerError> {
        // A pipe would be waited for, and a device has no end.
        if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            return Err(DataProblem::new(path, None, "it is a pipe or a device, not a file")
                .with_help("data is read more than once: write it to a file first")
                .into());
        }
        match fs::read(path) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(DataProblem::new(path, None, "the file does not exist")
                    .with_help("paths are relative to the study file")
                    .into())
            }
            Err(error) => Err(TrainerError::io("read", path)(error)),
        }
    }

    /// Its bytes, as they are on the disk.
    pub(super) fn len(&self) -> u64 {
        self.contents.iter().map(|bytes| bytes.len() as u64).sum()
    }

    /// The digest of its contents.
    pub(super) fn digest(&self) -> String {
        self.files.digest(self.contents.iter().map(|bytes| blake3::hash(bytes)))
    }

    /// Whether it is text without rows.
    pub(super) fn is_text(&self) -> bool {
        let format = |path: &PathBuf| format_of(path).map(|(format, _)| format);
        self.files.paths.iter().all(|path| format(path) == Some(DataFormat::Text))
    }

    /// The whole text, of all files of a folder one after another.
    pub(super) fn text(&self) -> Result<String, DataProblem> {
        let mut all = String::new();
        for (path, bytes) in self.parts() {
            if !all.is_empty() && !all.ends_with('\n') {
                all.push('\n');
            }
            all.push_str(data_file::text(path, &contents(path, bytes)?)?);
        }
        Ok(all)
    }

    /// The rows in order, without labels; texts may be empty.
    pub(super) fn rows(&self, data: &DataArguments) -> Result<Vec<DataRow>, DataProblem> {
        self.read_rows(data, None, Words::Refused)
    }

    /// The rows with their similarities as labels, where `[data] score` names a column of them.
    pub(super) fn scored_rows(&self, data: &DataArguments) -> Result<Vec<DataRow>, DataProblem> {
        self.read_rows(data, data.score.as_deref(), Words::Refused)
    }

    /// The rows with words as texts and a label for each: lists, or words between spaces.
    pub(super) fn rows_of_words(&self, data: &DataArguments) -> Result<Vec<DataRow>, DataProblem> {
        self.read_rows(data, Some(&data.label), Words::Kept)
    }

    /// The rows with a question, its context and its answers, as text or JSON.
    pub(super) fn rows_of_questions(
        &self,
        data: &DataArguments,
    ) -> Result<Vec<DataRow>, DataProblem> {
        self.read_rows(data, Some(&data.label), Words::Answers)
    }

    /// The same with labels, which may be empty only where a text may have none, and -100 only
    /// where they are numbers.
    pub(super) fn labelled_rows(
        &self,
        path: &Path,
        data: &DataArguments,
        kind: TaskKind,
    ) -> Result<Vec<DataRow>, DataProblem> {
        let label = &data.label;
        let mut rows = self.read_rows(data, Some(label), Words::Refused)?;
        let has_several = kind == TaskKind::MultiLabelClassification;
        if kind == TaskKind::TextClassification || has_several && data.marks_ignored() {
            let is_marked = |row: &&DataRow| match list_of(&row.label) {
                Some(all) => all.into_iter().any(is_ignored),
                None => is_ignored(&row.label),
            };
            if let Some(row) = rows.iter().find(is_marked) {
                let message = format!(
                    "the label in column `{label}` is -100, which marks labels that are not learned"
                );
                return Err(DataProblem::new(path, Some(row.line), message).with_help(
                    "remove the row, or label it; only words of `token-classification` may be \
                     without a label",
                ));
            }
        }
        if has_several {
            return Ok(rows);
        }
        for row in &mut rows {
            match list_of(&row.label).as_deref() {
                None => {}
                Some([only]) => row.label = (*only).to_owned(),
                Some(several) => {
                    let message = format!("{} labels in column `{label}`", several.len());
                    return Err(DataProblem::new(path, Some(row.line), message).with_help(
                        "`task = \"multi-label-classification\"` has several for each text",
                    ));
                }
            }
        }
        match rows.iter().find(|row| row.label.is_empty()) {
            Some(row) => {
                let message = format!("the label in column `{label}` is empty");
                Err(DataProblem::new(path, Some(row.line), message)
                    .with_help("give it a label, or remove the row"))
            }
            None => Ok(rows),
        }
    }

    /// Rows of a folder are numbered through its files.
    fn read_rows(
        &self,
        data: &DataArguments,
        label: Option<&str>,
        words: Words,
    ) -> Result<Vec<DataRow>, DataProblem> {
        let text_pair = data.second_column();
        let help = if words == Words::Answers { NAME_QUESTIONS } else { NAME_COLUMNS };
        let columns = Columns { text: &data.text, text_pair, label, words, help };
        let mut all: Vec<DataRow> = Vec::new();
        for (path, bytes) in self.parts() {
            let contents = contents(path, bytes)?;
            let content = data_file::text(path, &contents)?;
            all.extend(data_file::rows(path, content, columns, Layout::of(data))?);
        }
        if self.files.is_folder {
            (1..).zip(&mut all).for_each(|(number, row)| row.line = number);
        }
        Ok(all)
    }
}

/// Where a file or folder of the Hub is on this machine.
fn located(path: &Path, on_progress: ProgressCallback<'_>) -> Result<Option<PathBuf>, DataProblem> {
    if !is_on_hub(path) {
        return Ok(None);
    }
    #[cfg(feature = "hub")]
    return super::hub::data(&path.to_string_lossy(), on_progress)
        .map(Some)
        .map_err(|problem| DataProblem::new(path, None, problem).with_help("`[data]` names it"));
    #[cfg(not(feature = "hub"))]
    {
        let _only_for_downloads = on_progress;
        Err(DataProblem::new(path, None, "this hpsearch was built without the feature `hub`")
            .with_help("give a local path"))
    }
}

/// What is in a file of a study.
fn contents<'a>(path: &Path, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, DataProblem> {
    let contents = data_file::contents(path, bytes)?;
    if contents.iter().all(u8::is_ascii_whitespace) {
        return Err(DataProblem::new(path, None, "the file is empty")
            .with_help("was it written completely? `[data]` names another one"));
    }
    Ok(contents)
}
