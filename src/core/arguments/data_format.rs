//! The formats of data files, by their names.

use std::path::Path;

/// How the rows of a data file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataFormat {
    /// Cells separated by commas, with quotes.
    Csv,
    /// Cells separated by tabs, without quotes.
    Tsv,
    /// A JSON object on each line.
    JsonLines,
    /// A JSON list of objects; or one object on each line, as `datasets` writes them.
    Json,
    /// Text without rows.
    Text,
    /// Columns in an Apache Parquet file.
    Parquet,
    /// Columns in an Apache Arrow file or stream.
    Arrow,
    /// A word with its labels on each line, and an empty line after each sentence, as in the files
    /// of the CoNLL tasks.
    Conll,
}

/// How a data file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `.gz` (RFC 1952).
    Gzip,
    /// `.zst` (RFC 8878).
    Zstd,
}

/// Formats by the endings of names, in the order in which messages list them.
const ENDINGS: [(&str, DataFormat); 11] = [
    ("csv", DataFormat::Csv),
    ("tsv", DataFormat::Tsv),
    ("jsonl", DataFormat::JsonLines),
    ("ndjson", DataFormat::JsonLines),
    ("json", DataFormat::Json),
    ("parquet", DataFormat::Parquet),
    ("arrow", DataFormat::Arrow),
    ("conll", DataFormat::Conll),
    ("iob2", DataFormat::Conll),
    ("bio", DataFormat::Conll),
    ("txt", DataFormat::Text),
];

/// What paths of data sets on the Hugging Face Hub begin with.
pub const HUB_DATA: &str = "hf://datasets/";

/// Whether a path is one of a data set on the Hub.
#[must_use]
pub fn is_on_hub(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with(HUB_DATA))
}

/// The endings of data files, in words.
pub const KNOWN_ENDINGS: &str =
    ".csv, .tsv, .jsonl, .json, .parquet, .arrow, .conll or .txt, also with .gz or .zst appended";

impl DataFormat {
    /// Whether it has rows with columns.
    #[must_use]
    pub fn has_rows(self) -> bool {
        self != DataFormat::Text
    }

    /// Whether each row is a line of cells.
    #[must_use]
    pub fn is_delimited(self) -> bool {
        matches!(self, DataFormat::Csv | DataFormat::Tsv)
    }
}

/// The format of a file by its name, and its compression: `reviews.csv.gz`. `None`: another file.
#[must_use]
pub fn format_of(path: &Path) -> Option<(DataFormat, Option<Compression>)> {
    let name = path.file_name()?.to_str()?;
    let compressions = [(".gz", Compression::Gzip), (".zst", Compression::Zstd)];
    let (name, compression) = compressions
        .into_iter()
        .find_map(|(ending, compression)| Some((name.strip_suffix(ending)?, Some(compression))))
        .unwrap_or((name, None));
    let (stem, ending) = name.rsplit_once('.')?;
    let (_, format) = ENDINGS.iter().find(|(known, _)| *known == ending && !stem.is_empty())?;
    // These compress their columns themselves.
    let is_of_columns = matches!(format, DataFormat::Parquet | DataFormat::Arrow);
    (!is_of_columns || compression.is_none()).then_some((*format, compression))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_format() {
        let of = |name: &str| format_of(Path::new(name));
        assert_eq!(of("data/a.csv"), Some((DataFormat::Csv, None)));
        assert_eq!(of("a.b.jsonl.gz"), Some((DataFormat::JsonLines, Some(Compression::Gzip))));
        assert_eq!(of("a.txt.zst"), Some((DataFormat::Text, Some(Compression::Zstd))));
        assert_eq!(of("a.parquet"), Some((DataFormat::Parquet, None)));
        for other in ["a", "a.gz", ".csv", "a.csv.zip", "a.parquet.gz", "a.xlsx", "csv", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
