//! Images of trials for pages: found by their digests among the copies, and opened if they are
//! still what was logged.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use crate::report::wording::one_line;
use crate::runner::{artifacts, ownership, processes};
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::artifact::{ArtifactKind, StoredArtifact, image_type, is_sha256};
use crate::study::trial::TrialNumber;

/// An image, whose content has the digest that it was logged with.
#[derive(Debug)]
pub struct Image {
    /// Its file, to be read at positions.
    pub file: File,
    /// Its length.
    pub bytes: u64,
    /// By its first bytes.
    pub media_type: &'static str,
}

/// Why an image cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The trial logged no such image.
    #[error("trial {trial} has no image with this digest")]
    Unknown {
        /// The trial.
        trial: TrialNumber,
    },
    /// The file is gone.
    #[error("the file of `{label}` is gone: there is no `{}`", path.display())]
    Gone {
        /// Its name and version.
        label: String,
        /// Where it was.
        path: PathBuf,
    },
    /// The file is on another machine.
    #[error(
        "the file of `{label}` is on {host}, at `{}`; this server runs on {here}",
        path.display()
    )]
    Elsewhere {
        /// Its name and version.
        label: String,
        /// Where it is there.
        path: PathBuf,
        /// The machine that wrote it.
        host: String,
        /// This machine.
        here: String,
    },
    /// The file is another one now.
    #[error("`{}` has changed since `{label}` was logged", path.display())]
    Changed {
        /// Its name and version.
        label: String,
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("`{}` of `{label}` cannot be read: {source}", path.display())]
    Unreadable {
        /// Its name and version.
        label: String,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// It was stored as an image, and is none.
    #[error("`{label}` is not a PNG, JPEG, GIF or WebP file")]
    NotImage {
        /// Its name and version.
        label: String,
    },
}

impl ImageError {
    /// What to do about it, if anything is known.
    pub fn remedy(&self) -> Option<String> {
        match self {
            ImageError::Elsewhere { host, .. } => Some(format!(
                "start `hpsearch serve` on {host}, or make its files available at this path"
            )),
            ImageError::Storage(error) => Some(error.remedy()),
            _ => None,
        }
    }
}

/// The image of a trial with this digest.
///
/// # Errors
/// The trial logged no such image, or its file is not what was logged.
pub fn open(
    reader: &dyn StorageReader,
    study: &StudySummary,
    store: &Path,
    (trial, digest): (TrialNumber, &str),
) -> Result<Image, ImageError> {
    let logged = reader.artifacts(study.id, Some(trial))?;
    let is_meant = |stored: &&StoredArtifact| {
        stored.artifact.kind == ArtifactKind::Image && stored.artifact.digest == digest
    };
    let stored = logged.iter().find(is_meant).ok_or(ImageError::Unknown { trial })?;
    of_artifact(reader, study, store, stored)
}

/// The image that is this artifact. Only copies in the trial's directory are opened: whatever a
/// store names, no other file is.
///
/// # Errors
/// It is no image, or its file is not what was logged.
pub fn of_artifact(
    reader: &dyn StorageReader,
    study: &StudySummary,
    store: &Path,
    stored: &StoredArtifact,
) -> Result<Image, ImageError> {
    let (trial, digest) = (stored.trial, stored.artifact.digest.as_str());
    if stored.artifact.kind != ArtifactKind::Image || !is_sha256(digest) {
        return Err(ImageError::Unknown { trial });
    }
    let label = one_line(&stored.label());
    let homes = ownership::homes(reader, &study.clone().stored(), store)?;
    let mut places = homes.iter().map(|home| home.artifacts(trial).join(digest));
    let Some(path) = places.find(|path| path.exists()) else {
        let path = study.files(store).artifacts(trial).join(digest);
        let path = std::path::absolute(&path).unwrap_or(path);
        let here = processes::host();
        let host = host_of(reader, study, stored)?.filter(|host| *host != here);
        return Err(match host {
            Some(host) => ImageError::Elsewhere { label, path, host, here },
            None => ImageError::Gone { label, path },
        });
    };
    verified(&path, digest, &label)
}

fn verified(path: &Path, digest: &str, label: &str) -> Result<Image, ImageError> {
    let (label, path) = (label.to_owned(), path.to_owned());
    let read = || {
        let mut file = artifacts::open(&path)?;
        let mut beginning = Vec::new();
        (&file).take(12).read_to_end(&mut beginning)?;
        file.rewind()?;
        let own = artifacts::digest_of_open(&mut file)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes, image_type(&beginning), own))
    };
    match read() {
        Err(source) => Err(ImageError::Unreadable { label, path, source }),
        Ok((.., own)) if own != digest => Err(ImageError::Changed { label, path }),
        Ok((_, _, None, _)) => Err(ImageError::NotImage { label }),
        Ok((file, bytes, Some(media_type), _)) => Ok(Image { file, bytes, media_type }),
    }
}

/// The machine that wrote an artifact's file: that of the runner of its attempt.
fn host_of(
    reader: &dyn StorageReader,
    study: &StudySummary,
    stored: &StoredArtifact,
) -> Result<Option<String>, StorageError> {
    let attempts = reader.attempts(study.id, Some(stored.trial))?;
    let before = attempts.iter().rfind(|attempt| attempt.started <= stored.at);
    let Some(seq) = before.or(attempts.last()).and_then(|attempt| attempt.runner) else {
        return Ok(None);
    };
    let runners = reader.runners(study.id)?;
    Ok(runners.into_iter().find(|runner| runner.seq == seq).map(|runner| runner.host))
}
