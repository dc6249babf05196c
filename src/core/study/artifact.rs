//! Artifacts: the files, directories, images, texts and tables of a trial, versioned by name.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// Larger files and directories are referenced unless a copy is requested: 1 GiB.
pub const COPIED_UP_TO: u64 = 1 << 30;

/// The longest text, in bytes; longer ones are truncated: 64 KiB.
pub const LONGEST_TEXT: usize = 64 << 10;

/// The largest table, in bytes of JSON: 256 KiB.
pub const LARGEST_TABLE: usize = 256 << 10;

/// Maximum number of files of a directory.
pub const MOST_FILES: usize = 10_000;

/// The longest name, in characters.
const LONGEST_NAME: usize = 200;

/// The rule for names of artifacts, for error messages.
pub const ARTIFACT_NAME_RULE: &str = "up to 200 characters on one line, a relative path at most, \
    without `:`, which stands before versions";

/// The kind of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactKind {
    /// A file.
    File,
    /// A directory with the files in it.
    Directory,
    /// An image file: PNG, JPEG, GIF or WebP.
    Image,
    /// A text.
    Text,
    /// Columns and rows.
    Table,
}

impl ArtifactKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            ArtifactKind::File => "file",
            ArtifactKind::Directory => "directory",
            ArtifactKind::Image => "image",
            ArtifactKind::Text => "text",
            ArtifactKind::Table => "table",
        }
    }

    /// Whether its content is stored in the database instead of in files.
    pub fn is_in_store(self) -> bool {
        matches!(self, ArtifactKind::Text | ArtifactKind::Table)
    }
}

/// An artifact of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Its name, shared by all its versions.
    pub name: String,
    /// Its kind.
    pub kind: ArtifactKind,
    /// SHA-256 of its content, hexadecimal; of a directory, that of its listing.
    pub digest: String,
    /// Size of its content.
    pub bytes: u64,
    /// The step that it was logged with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The path given by the program; `None` if the content came in a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Whether its files were copied into the trial's directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copied: bool,
}

impl Artifact {
    /// Whether logging `other` after this one adds nothing.
    pub fn is_repeated_by(&self, other: &Artifact) -> bool {
        (&self.name, self.kind, &self.digest, self.step, self.copied)
            == (&other.name, other.kind, &other.digest, other.step, other.copied)
    }

    /// Whether the store holds a text or listing with this digest.
    pub fn has_document(&self) -> bool {
        self.kind.is_in_store() || self.kind == ArtifactKind::Directory
    }
}

/// A file of an artifact that is a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedFile {
    /// Path within the directory.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, hexadecimal.
    pub digest: String,
}

/// A stored artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredArtifact {
    /// The trial it belongs to.
    pub trial: TrialNumber,
    /// Version of its name, from 1.
    pub version: u32,
    /// When it was logged.
    pub at: Timestamp,
    /// The artifact.
    pub artifact: Artifact,
}

impl StoredArtifact {
    /// Its name with its version: `model:v2`.
    pub fn label(&self) -> String {
        format!("{}:v{}", self.artifact.name, self.version)
    }
}

/// An artifact as announced by a trial's line, before its files are read.
#[derive(Clone, Debug, PartialEq)]
pub struct NewArtifact {
    /// Its name.
    pub name: String,
    /// The step of the line.
    pub step: Option<u64>,
    /// The content to keep.
    pub content: NewContent,
}

/// The owner of a file that a line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// The program: it is copied, and stays.
    Program,
    /// The line alone: the client made it in the call, and it is removed once it is stored.
    Line {
        /// The program's file that it is a copy of; `None` if it was drawn.
        of: Option<PathBuf>,
    },
}

/// Whether a path ends as those of files that the client makes for lines: `.artifact-` with twelve
/// hexadecimal digits, or `.image-` with as many and `.png`.
pub fn is_of_line(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let image = || name.strip_prefix(".image-")?.strip_suffix(".png");
    let digits = name.strip_prefix(".artifact-").or_else(image);
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.is_some_and(|digits| digits.len() == 12 && digits.bytes().all(is_digit))
}

/// The content of a new artifact.
#[derive(Clone, Debug, PartialEq)]
pub enum NewContent {
    /// A file or directory.
    Path {
        /// Its path.
        path: PathBuf,
        /// Whether to copy it; `None`: if it is not too large.
        copy: Option<bool>,
        /// Whose it is.
        owner: FileOwner,
    },
    /// An image file.
    Image {
        /// Its path.
        path: PathBuf,
        /// Whose it is.
        owner: FileOwner,
    },
    /// A text.
    Text(String),
    /// A table, `{"columns":[..],"rows":[[..]]}`.
    Table(String),
}

/// Whether `name` is valid, by [`ARTIFACT_NAME_RULE`].
pub fn is_artifact_name(name: &str) -> bool {
    !name.trim().is_empty()
        && name.chars().count() <= LONGEST_NAME
        && !name.chars().any(|char| char.is_control() || char == ':')
        && stays_inside(name)
}

/// Whether every component of a path is a plain name, so that no directory which it is joined to is
/// left. A store may be from somebody else: nothing that it names is read or written otherwise.
pub fn stays_inside(path: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    path.split('/').all(is_plain)
}

/// Whether a text is a digest as artifacts have it: SHA-256 in hexadecimal digits.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The default name of an artifact: the last component of its path.
pub fn name_of_path(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().replace(':', "_")
}

/// A name and an optional version, as users write them: `model` or `model:v2`.
pub fn name_and_version(text: &str) -> (&str, Option<u32>) {
    match text.rsplit_once(":v").map(|(name, version)| (name, version.parse())) {
        Some((name, Ok(version))) => (name, Some(version)),
        _ => (text, None),
    }
}

/// A text truncated at a character boundary, and whether anything was cut.
pub fn cut_text(text: &str) -> (&str, bool) {
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (&text[..end], end < text.len())
}

/// The stored form of a table.
///
/// # Errors
/// The columns are not names, a row has another length, or the table is too large.
pub fn checked_table(table: &serde_json::Value) -> Result<String, String> {
    let list = |key: &str| table.get(key).and_then(serde_json::Value::as_array);
    let (Some(columns), Some(rows)) = (list("columns"), list("rows")) else {
        return Err("a table has `columns`, a list of names, and `rows`, a list of lists".into());
    };
    if !columns.iter().all(serde_json::Value::is_string) {
        return Err("the `columns` of a table are strings".to_owned());
    }
    for (index, row) in rows.iter().enumerate() {
        let cells = row.as_array().map(Vec::len);
        if cells != Some(columns.len()) {
            let has =
                cells.map_or("is not a list".to_owned(), |cells| format!("has {cells} cells"));
            let many = columns.len();
            return Err(format!("row {index} of the table {has}, and there are {many} columns"));
        }
    }
    let text = serde_json::json!({ "columns": columns, "rows": rows }).to_string();
    if text.len() > LARGEST_TABLE {
        let (bytes, most) = (text.len(), LARGEST_TABLE >> 10);
        return Err(format!("the table takes {bytes} bytes, and at most {most} KiB are kept"));
    }
    Ok(text)
}

/// The media type of a file that begins with the signature of a PNG, JPEG, GIF or WebP.
pub fn image_type(beginning: &[u8]) -> Option<&'static str> {
    let begins = |signature: &[u8]| beginning.starts_with(signature);
    match () {
        () if begins(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        () if begins(b"\xff\xd8\xff") => Some("image/jpeg"),
        () if begins(b"GIF87a") || begins(b"GIF89a") => Some("image/gif"),
        () if begins(b"RIFF") && beginning.get(8..12) == Some(b"WEBP") => Some("image/webp"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_stays_where_it_is_put() {
        for name in ["model", "plots/confusion", "läuft.pt", "a b", "v2"] {
            assert!(is_artifact_name(name), "{name:?}");
        }
        for name in ["", " ", "a:v2", "../a", "/a", "a//b", "a/.", "a\nb", &"x".repeat(201)] {
            assert!(!is_artifact_name(name), "{name:?}");
        }
        assert_eq!(name_of_path(Path::new("/runs/a:b.pt")), "a_b.pt");
    }

    #[test]
    fn versions_stand_behind_names() {
        assert_eq!(name_and_version("model:v2"), ("model", Some(2)));
        assert_eq!(name_and_version("model"), ("model", None));
        assert_eq!(name_and_version("model:vx"), ("model:vx", None));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "ü".repeat(LONGEST_TEXT);
        let (cut, is_cut) = cut_text(&long);
        assert_eq!((cut.len(), is_cut), (LONGEST_TEXT, true));
        let odd = format!("x{long}");
        assert_eq!(cut_text(&odd).0.len(), LONGEST_TEXT - 1);
        assert_eq!(cut_text("short"), ("short", false));
    }

    #[test]
    fn tables_have_names_and_rows_of_their_length() {
        let table = |text: &str| checked_table(&serde_json::from_str(text).unwrap());
        let good = r#"{"columns":["a","b"],"rows":[[1,"x"],[null,2.5]]}"#;
        assert_eq!(table(good).as_deref(), Ok(good));
        for (bad, why) in [
            (r#"{"columns":["a"]}"#, "`rows`"),
            (r#"{"columns":[1],"rows":[]}"#, "strings"),
            (r#"{"columns":["a"],"rows":[[1],[1,2]]}"#, "row 1 of the table has 2 cells"),
            (r#"{"columns":["a"],"rows":[7]}"#, "row 0 of the table is not a list"),
        ] {
            assert!(table(bad).unwrap_err().contains(why), "{bad}");
        }
        let rows = vec![["x".repeat(100)]; 3000];
        let large = serde_json::json!({"columns": ["a"], "rows": rows});
        assert!(checked_table(&large).unwrap_err().contains("256 KiB"));
    }

    #[test]
    fn images_are_known_by_how_they_begin() {
        for (image, media_type) in [
            (&b"\x89PNG\r\n\x1a\n.."[..], "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF1234WEBP", "image/webp"),
        ] {
            assert_eq!(image_type(image), Some(media_type), "{image:?}");
        }
        for other in [&b""[..], b"GIF", b"RIFF1234WAVE", b"<svg", b"<html>"] {
            assert_eq!(image_type(other), None, "{other:?}");
        }
    }
}
