//! The bytes of a data file, and its rows by the columns and the layout of `[data]`.

use std::fs;
use std::path::Path;

use super::{DataProblem, TrainerError};
use hpsearch_core::arguments::DataArguments;
use hpsearch_core::arguments::data_file::{self, Columns, Layout, Row};

/// A file's contents as read, before they are parsed.
pub(super) struct RawFile {
    pub(super) bytes: Vec<u8>,
}

/// The remedy for a missing column.
const NAME_COLUMNS: &str = "set `[data] text` and `[data] label`; the first line must be a \
    header, or `[data] column_names` must name the columns of a file without one";

impl RawFile {
    pub(super) fn read(path: &Path) -> Result<Self, TrainerError> {
        match fs::read(path) {
            Ok(bytes) => Ok(Self { bytes }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(DataProblem::new(path, None, "the file does not exist")
                    .with_help("paths are relative to the study file")
                    .into())
            }
            Err(error) => Err(TrainerError::io("read", path)(error)),
        }
    }

    /// The whole text of the file at `path`.
    pub(super) fn text(&self, path: &Path) -> Result<&str, DataProblem> {
        let text = data_file::text(path, &self.bytes)?;
        if text.trim().is_empty() {
            return Err(DataProblem::new(path, None, "the file is empty")
                .with_help("was it written completely? `[data]` names another one"));
        }
        Ok(text)
    }

    /// The rows of the file at `path`, in order, without labels; texts may be empty.
    pub(super) fn rows(&self, path: &Path, data: &DataArguments) -> Result<Vec<Row>, DataProblem> {
        self.read_rows(path, data, None)
    }

    /// The same with labels, which may be empty only where a text may have none.
    pub(super) fn labelled_rows(
        &self,
        path: &Path,
        data: &DataArguments,
        may_be_empty: bool,
    ) -> Result<Vec<Row>, DataProblem> {
        let label = &data.label;
        let rows = self.read_rows(path, data, Some(label))?;
        if may_be_empty {
            return Ok(rows);
        }
        match rows.iter().find(|row| row.label.is_empty()) {
            Some(row) => {
                let message = format!("the label in column `{label}` is empty");
                Err(DataProblem::new(path, Some(row.line), message)
                    .with_help("give it a label, or take the row out"))
            }
            None => Ok(rows),
        }
    }

    fn read_rows(
        &self,
        path: &Path,
        data: &DataArguments,
        label: Option<&str>,
    ) -> Result<Vec<Row>, DataProblem> {
        data_file::rows(
            path,
            self.text(path)?,
            Columns { text: &data.text, label, help: NAME_COLUMNS },
            Layout::of(data),
        )
    }
}
