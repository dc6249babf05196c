//! Artifacts of trials: looked up by name, verified by digest, and written to a directory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::config::file;
use crate::report::wording::one_line;
use crate::runner::artifacts::{digest_of, digest_of_file};
use crate::storage::paths::StudyFiles;
use crate::storage::{StorageError, StorageReader};
use crate::study::artifact::{
    Artifact, ArtifactKind, ListedFile, StoredArtifact, is_sha256, name_and_version, stays_inside,
};

/// Why an artifact cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The target path exists already.
    #[error("`{}` already exists", .0.display())]
    Exists(PathBuf),
    /// The content is missing.
    #[error("the content of `{label}` is missing: {why}")]
    Missing {
        /// Its name and version.
        label: String,
        /// What is wrong.
        why: String,
    },
    /// The store names a path that leads elsewhere.
    #[error(
        "`{}` of `{label}` is not the name of a file in its directory: the store was not written \
         by hpsearch alone",
        one_line(path)
    )]
    Outside {
        /// Its name and version.
        label: String,
        /// What the store has in place of a name.
        path: String,
    },
    /// The digest has changed since it was logged.
    #[error("`{}` of `{label}` has changed since it was logged", path.display())]
    Changed {
        /// Its name and version.
        label: String,
        /// The file.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error("`{}` cannot be written", path.display())]
    Write {
        /// The target.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// The artifact `named` (`model`, `model:v2`): the newest version unless one is given.
pub fn find<'a>(artifacts: &'a [StoredArtifact], named: &str) -> Option<&'a StoredArtifact> {
    let (name, version) = name_and_version(named);
    let of_name = artifacts.iter().filter(|stored| stored.artifact.name == name);
    of_name
        .filter(|stored| version.is_none_or(|version| stored.version == version))
        .max_by_key(|stored| stored.version)
}

/// The text of an artifact in the store: a text, a table, or the listing of a directory.
///
/// # Errors
/// The store failed, or does not have it.
pub fn document(
    reader: &dyn StorageReader,
    stored: &StoredArtifact,
) -> Result<String, ArtifactError> {
    let text = reader.document(&stored.artifact.digest)?;
    text.ok_or_else(|| missing(stored, "the store lacks its text".to_owned()))
}

/// The files of an artifact: the path of each, its name below the artifact's own, and its digest.
///
/// # Errors
/// The store failed, or does not have the listing of a directory.
pub fn files_of(
    reader: &dyn StorageReader,
    files: &StudyFiles,
    stored: &StoredArtifact,
) -> Result<Vec<(PathBuf, ListedFile)>, ArtifactError> {
    let Artifact { kind, digest, bytes, path, copied, .. } = &stored.artifact;
    let copies = files.artifacts(stored.trial);
    let listed = match kind {
        ArtifactKind::Text | ArtifactKind::Table => Vec::new(),
        ArtifactKind::File | ArtifactKind::Image => {
            let (bytes, digest) = (*bytes, digest.clone());
            vec![ListedFile { path: String::new(), bytes, digest }]
        }
        ArtifactKind::Directory => serde_json::from_str(&document(reader, stored)?)
            .map_err(|error| missing(stored, format!("its listing cannot be read: {error}")))?,
    };
    let is_single = *kind != ArtifactKind::Directory;
    for file in &listed {
        if !(is_single && file.path.is_empty() || stays_inside(&file.path)) {
            return Err(outside(stored, &file.path));
        }
        if !is_sha256(&file.digest) {
            return Err(outside(stored, &file.digest));
        }
    }
    let place = |file: &ListedFile| match (copied, path) {
        (true, _) | (false, None) => copies.join(&file.digest),
        (false, Some(path)) if file.path.is_empty() => path.clone(),
        (false, Some(path)) => path.join(&file.path),
    };
    Ok(listed.into_iter().map(|file| (place(&file), file)).collect())
}

/// The first of an artifact's contents that differs from what was logged, in one sentence.
///
/// # Errors
/// The store failed.
pub fn fault(
    reader: &dyn StorageReader,
    files: &StudyFiles,
    stored: &StoredArtifact,
) -> Result<Option<String>, StorageError> {
    if stored.artifact.has_document() {
        match document(reader, stored) {
            Ok(text) if digest_of(text.as_bytes()) == stored.artifact.digest => {}
            Ok(_) => return Ok(Some("its text in the store has another digest".to_owned())),
            Err(ArtifactError::Storage(error)) => return Err(error),
            Err(error) => return Ok(Some(error.to_string())),
        }
    }
    // Referenced files may be changed by their owner.
    if !stored.artifact.copied {
        return Ok(None);
    }
    let of_files = match files_of(reader, files, stored) {
        Ok(of_files) => of_files,
        Err(ArtifactError::Storage(error)) => return Err(error),
        Err(error) => return Ok(Some(error.to_string())),
    };
    for (path, file) in of_files {
        let why = match digest_of_file(&path) {
            Ok(digest) if digest == file.digest => continue,
            Ok(_) => "has another digest".to_owned(),
            Err(error) => format!("cannot be read: {error}"),
        };
        return Ok(Some(format!("its copy `{}` {why}", path.display())));
    }
    Ok(None)
}

/// Writes an artifact into `directory`, which is created; returns the path written. Existing files
/// are kept.
///
/// # Errors
/// The target exists, the content is missing or has changed, or it cannot be written.
pub fn fetch(
    reader: &dyn StorageReader,
    files: &StudyFiles,
    stored: &StoredArtifact,
    directory: &Path,
) -> Result<PathBuf, ArtifactError> {
    let name = file_name(&stored.artifact);
    if !stays_inside(&name) {
        return Err(outside(stored, &name));
    }
    let to = directory.join(name);
    if fs::symlink_metadata(&to).is_ok() {
        return Err(ArtifactError::Exists(to));
    }
    let parent = to.parent().unwrap_or(directory);
    let failed = |source| ArtifactError::Write { path: to.clone(), source };
    fs::create_dir_all(parent).map_err(failed)?;
    // A temporary sibling, so that the target is never incomplete.
    let draft = parent.join(format!(".artifact.{}-0.tmp", std::process::id()));
    let written =
        write(reader, files, stored, &draft).and_then(|()| fs::rename(&draft, &to).map_err(failed));
    if written.is_err() {
        let _not_begun =
            if draft.is_dir() { fs::remove_dir_all(&draft) } else { fs::remove_file(&draft) };
    }
    written.map(|()| to)
}

fn write(
    reader: &dyn StorageReader,
    files: &StudyFiles,
    stored: &StoredArtifact,
    draft: &Path,
) -> Result<(), ArtifactError> {
    let failed = |source| ArtifactError::Write { path: draft.to_owned(), source };
    if stored.artifact.kind.is_in_store() {
        let text = document(reader, stored)?;
        return File::create_new(draft)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(failed);
    }
    if stored.artifact.kind == ArtifactKind::Directory {
        fs::create_dir(draft).map_err(failed)?;
    }
    for (from, listed) in files_of(reader, files, stored)? {
        let to = if listed.path.is_empty() { draft.to_owned() } else { draft.join(&listed.path) };
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        // Verified after the copy. A pipe in its place is refused before it is opened.
        let copied = file::open(&from).and_then(|mut content| {
            io::copy(&mut content, &mut File::create_new(&to)?)?;
            content.metadata().and_then(|of| fs::set_permissions(&to, of.permissions()))?;
            digest_of_file(&to)
        });
        match copied {
            Ok(digest) if digest == listed.digest => {}
            Ok(_) => return Err(ArtifactError::Changed { label: stored.label(), path: from }),
            Err(error) => {
                return Err(missing(stored, format!("`{}`: {error}", from.display())));
            }
        }
    }
    Ok(())
}

fn outside(stored: &StoredArtifact, path: &str) -> ArtifactError {
    ArtifactError::Outside { label: one_line(&stored.label()), path: path.to_owned() }
}

fn missing(stored: &StoredArtifact, why: String) -> ArtifactError {
    ArtifactError::Missing { label: one_line(&stored.label()), why }
}

/// The file name of an artifact: its name, with the extension of its kind or original.
fn file_name(artifact: &Artifact) -> String {
    let name = &artifact.name;
    let ending = match artifact.kind {
        ArtifactKind::Text => Some("txt".to_owned()),
        ArtifactKind::Table => Some("json".to_owned()),
        ArtifactKind::Directory => None,
        ArtifactKind::Image | ArtifactKind::File => match &artifact.path {
            Some(path) => path.extension().map(|ending| ending.to_string_lossy().into_owned()),
            // An image drawn by a program, which writes PNG.
            None => Some("png".to_owned()),
        },
    };
    match ending {
        Some(ending) if Path::new(name).extension().is_none() => format!("{name}.{ending}"),
        _ => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::time::Timestamp;
    use crate::study::trial::TrialNumber;

    fn stored(name: &str, version: u32, kind: ArtifactKind, path: Option<&str>) -> StoredArtifact {
        let artifact = Artifact {
            name: name.to_owned(),
            kind,
            digest: digest_of(b"abc"),
            bytes: 3,
            step: None,
            path: path.map(PathBuf::from),
            copied: true,
        };
        StoredArtifact { trial: TrialNumber(0), version, at: Timestamp(0), artifact }
    }

    #[test]
    fn the_newest_version_is_meant_unless_one_is_named() {
        let versions = [1, 2, 3].map(|version| stored("model", version, ArtifactKind::File, None));
        assert_eq!(find(&versions, "model").map(|found| found.version), Some(3));
        assert_eq!(find(&versions, "model:v2").map(|found| found.version), Some(2));
        assert_eq!((find(&versions, "model:v4"), find(&versions, "mod")), (None, None));
    }

    #[test]
    fn files_are_called_as_their_artifacts_with_an_ending() {
        let named = |name, kind, path| file_name(&stored(name, 1, kind, path).artifact);
        assert_eq!(named("model", ArtifactKind::File, Some("/a/step-3.pt")), "model.pt");
        assert_eq!(named("model.bin", ArtifactKind::File, Some("/a/step-3.pt")), "model.bin");
        assert_eq!(named("sample", ArtifactKind::Text, None), "sample.txt");
        assert_eq!(named("plots/loss", ArtifactKind::Image, None), "plots/loss.png");
        assert_eq!(named("data", ArtifactKind::Directory, Some("/a/data.v2")), "data");
    }
}
