//! Artifacts as JSON, as several verbs print them.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value as Json;

use super::exit::Failure;
use super::moments::instant;
use crate::storage::{StorageReader, StudySummary};
use crate::study::artifact::{Artifact, ArtifactKind, StoredArtifact, is_sha256};
use crate::study::trial::TrialNumber;

/// An artifact as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct ArtifactJson {
    trial: TrialNumber,
    name: String,
    version: u32,
    kind: ArtifactKind,
    step: Option<u64>,
    bytes: u64,
    sha256: String,
    at: String,
    /// The path at its program.
    path: Option<PathBuf>,
    /// The path of its copy; null for a directory, whose files are in `content`.
    copy: Option<PathBuf>,
    /// A text, a table, or the files of a directory.
    content: Option<Json>,
}

/// Artifacts as JSON, with their content in the store.
pub fn artifacts_json(
    reader: &dyn StorageReader,
    study: &StudySummary,
    store: &std::path::Path,
    artifacts: &[StoredArtifact],
) -> Result<Vec<ArtifactJson>, Failure> {
    let files = study.files(store);
    let json = |stored: &StoredArtifact| {
        let Artifact { name, kind, digest, bytes, step, path, copied } = stored.artifact.clone();
        let content = match reader.document(&digest)? {
            Some(text) if kind == ArtifactKind::Text => Some(Json::String(text)),
            Some(text) => serde_json::from_str(&text).ok(),
            None => None,
        };
        let is_file = matches!(kind, ArtifactKind::File | ArtifactKind::Image);
        let has_copy = copied && is_file && is_sha256(&digest);
        let copy = has_copy.then(|| files.artifacts(stored.trial).join(&digest));
        let (trial, version, at) = (stored.trial, stored.version, instant(stored.at));
        let sha256 = digest;
        Ok(ArtifactJson {
            trial,
            name,
            version,
            kind,
            step,
            bytes,
            sha256,
            at,
            path,
            copy,
            content,
        })
    };
    artifacts.iter().map(json).collect()
}
