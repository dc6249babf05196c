//! Digests of checkpoints: what a trial of a population copies is what was decided about.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::entries;
use super::protocol::TrialJob;
use crate::storage::sqlite::{open_file, read_file};

/// The built-in trainer's list of the digests of a checkpoint's files.
const DIGESTS: &str = "digests.json";

/// BLAKE3 of a checkpoint's content, hexadecimal; `None` if it cannot be read.
///
/// Of a checkpoint of the built-in trainer: of the digests of its tensors, which it verifies when
/// it loads them. Its other files have times. Of others: of the names and contents of all files,
/// links followed to files only.
pub fn checkpoint_digest(path: &Path) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    match listed(path) {
        Some(listed) => {
            for (name, digest) in listed.iter().filter(|(name, _)| name.ends_with(".safetensors")) {
                hasher.update(format!("{name}\0{digest}\0").as_bytes());
            }
        }
        None => read(&mut hasher, path, Path::new("")).ok()?,
    }
    Some(hasher.finalize().to_hex().to_string())
}

/// Checks that the checkpoint that a trial is to copy is the one that was decided about.
///
/// # Errors
/// A message about a checkpoint that is gone or has changed.
pub fn check_copied(job: &TrialJob) -> Result<(), String> {
    let (Some(path), Some(cloned)) = (&job.resume, &job.cloned) else { return Ok(()) };
    let Some(expected) = &cloned.digest else { return Ok(()) };
    let from = cloned.from;
    match checkpoint_digest(path) {
        Some(found) if found == *expected => Ok(()),
        Some(_) => Err(format!(
            "the checkpoint `{}` of trial {from}, from which it continues, has changed since it \
             was saved: programs must not write to `HPSEARCH_RESUME`",
            path.display()
        )),
        None => Err(format!(
            "the checkpoint `{}` of trial {from}, from which it continues, cannot be read",
            path.display()
        )),
    }
}

fn listed(path: &Path) -> Option<BTreeMap<String, String>> {
    serde_json::from_slice(&read_file(&path.join(DIGESTS)).ok()?).ok()
}

fn read(hasher: &mut blake3::Hasher, path: &Path, name: &Path) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        let mut inside: Vec<PathBuf> = entries(path).collect();
        inside.sort();
        for entry in inside {
            let is_linked_directory = fs::symlink_metadata(&entry)?.is_symlink() && entry.is_dir();
            if let Some(own) = entry.file_name().filter(|_| !is_linked_directory) {
                read(hasher, &entry, &name.join(own))?;
            }
        }
        return Ok(());
    }
    hasher.update(name.as_os_str().as_encoded_bytes());
    hasher.update(b"\0");
    hasher.update(&metadata.len().to_le_bytes());
    hasher.update_reader(open_file(path)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_contents_and_names_apart_and_not_places() {
        let directory = tempfile::tempdir().unwrap();
        let write = |at: &str, text: &str| {
            let path = directory.path().join(at);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        };
        for (at, text) in [("a/x/w", "1"), ("b/x/w", "1"), ("c/x/w", "2"), ("d/y/w", "1")] {
            write(at, text);
        }
        let digest = |at: &str| checkpoint_digest(&directory.path().join(at));
        assert_eq!(digest("a"), digest("b"));
        assert!(digest("a").is_some() && digest("a") != digest("c") && digest("a") != digest("d"));
        assert_ne!(digest("a/x/w"), digest("c/x/w"));
        assert_eq!(digest("nowhere"), None);
        // Of the trainer's own only tensors count.
        write("t/digests.json", r#"{"model.safetensors":"1","trainer_state.json":"2"}"#);
        write("u/digests.json", r#"{"model.safetensors":"1","trainer_state.json":"3"}"#);
        write("v/digests.json", r#"{"model.safetensors":"4","trainer_state.json":"2"}"#);
        assert_eq!(digest("t"), digest("u"));
        assert_ne!(digest("t"), digest("v"));
    }
}
