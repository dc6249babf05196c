//! Writes an exported directory: checked files into a temporary one, made durable, then renamed into place.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::card::card;
use super::{ExportError, Exported, custom_code};
use crate::storage::sqlite;

/// What tells an export from any other directory.
const MARK: &str = "best.toml";

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

/// Files of a checkpoint that serve only to go on training.
const TRAINING_ONLY: [&str; 4] = ["optimizer.safetensors", "trainer_state.json", "digests.json", "adapters.safetensors"];

/// Is told how many bytes of how many are copied.
type Told<'a> = &'a mut dyn FnMut(u64, u64);

/// Writes `exported` to `target`, replacing an earlier export; `told` hears how many bytes of the checkpoint are copied, and how many it has.
pub fn write(exported: &Exported<'_>, target: &Path, told: Told<'_>) -> Result<(), ExportError> {
    if target.exists() && !is_replaceable(target) {
        return Err(ExportError::Occupied { path: target.to_owned() });
    }
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(ExportError::io("make", parent))?;
    let draft = sibling(target, "draft");
    let _left_from_a_crash = fs::remove_dir_all(&draft);
    fs::create_dir(&draft).map_err(ExportError::io("make", &draft))?;
    let written = fill(exported, &draft, told).and_then(|()| put_in_place(&draft, target, parent));
    if written.is_err() {
        let _nothing_half_written = fs::remove_dir_all(&draft);
    }
    written
}

fn is_replaceable(target: &Path) -> bool {
    let is_empty = || fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none());
    target.is_dir() && (target.join(MARK).is_file() || is_empty())
}

fn sibling(target: &Path, what: &str) -> PathBuf {
    let name = target.file_name().map_or_else(|| "export".into(), |name| name.to_string_lossy().into_owned());
    target.with_file_name(format!(".{name}.{what}-{}", std::process::id()))
}

fn fill(exported: &Exported<'_>, draft: &Path, told: Told<'_>) -> Result<(), ExportError> {
    if let Some(checkpoint) = exported.checkpoint {
        let mut copying = Copying { done: 0, of: size(checkpoint), told };
        copying.checkpoint(checkpoint, draft)?;
        custom_code::add(draft)?;
    }
    save(&draft.join(MARK), exported.recipe.to_text()?.as_bytes())?;
    let mut metrics = serde_json::json!({
        "version": 1, "study": exported.spec.name, "trial": exported.trial.number, "metric": exported.spec.objective().metric,
        "value": exported.trial.value.map(|value| crate::metric::Number(value).to_json()), "step": exported.step, "metrics": exported.metrics,
    });
    if let Some(quantized) = &exported.quantized {
        metrics["quantize"] = quantized.format.word().into();
        metrics["metrics_before_quantizing"] = serde_json::json!(quantized.before);
    }
    save(&draft.join("metrics.json"), format!("{metrics:#}\n").as_bytes())?;
    save(&draft.join("README.md"), card(exported).as_bytes())
}

/// Bytes of a file, or of all files below a directory; what cannot be read is told of when it is copied.
fn size(path: &Path) -> u64 {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| size(&entry.path())).sum(),
        Err(_) => path.metadata().map_or(0, |file| file.len()),
    }
}

/// A checkpoint being copied.
struct Copying<'a> {
    done: u64,
    of: u64,
    told: Told<'a>,
}

impl Copying<'_> {
    /// Copies what was saved, and checks that it still is what was saved.
    fn checkpoint(&mut self, checkpoint: &Path, draft: &Path) -> Result<(), ExportError> {
        if checkpoint.is_file() {
            let name = checkpoint.file_name().unwrap_or_default();
            self.file(checkpoint, Some(&draft.join(name)))?;
            return Ok(());
        }
        let damaged = |why: String| ExportError::Damaged { path: checkpoint.to_owned(), why };
        let digests: Option<BTreeMap<String, String>> = match sqlite::read_file(&checkpoint.join("digests.json")) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|error| damaged(format!("digests.json: {error}")))?),
            Err(_) => None,
        };
        for name in digests.iter().flat_map(BTreeMap::keys) {
            if !checkpoint.join(name).is_file() {
                return Err(damaged(format!("`{name}` is missing")));
            }
        }
        for entry in fs::read_dir(checkpoint).map_err(ExportError::io("read", checkpoint))? {
            let entry = entry.map_err(ExportError::io("read", checkpoint))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            if path.is_dir() {
                let inner = draft.join(&name);
                fs::create_dir(&inner).map_err(ExportError::io("make", &inner))?;
                self.checkpoint(&path, &inner)?;
                continue;
            }
            let is_taken = digests.is_none() || !TRAINING_ONLY.contains(&name.as_str());
            let digest = self.file(&path, is_taken.then(|| draft.join(&name)).as_deref())?;
            if digests.as_ref().and_then(|digests| digests.get(&name)).is_some_and(|expected| digest.to_hex().as_str() != expected) {
                return Err(damaged(format!("`{name}` is not what was saved")));
            }
        }
        Ok(())
    }

    /// Reads a file, and writes it to `copy` if there is one; the digest of what was read.
    fn file(&mut self, path: &Path, copy: Option<&Path>) -> Result<blake3::Hash, ExportError> {
        let mut from = sqlite::open_file(path).map_err(ExportError::io("read", path))?;
        let mut to = match copy {
            Some(copy) => Some((copy, File::create(copy).map_err(ExportError::io("write", copy))?)),
            None => None,
        };
        let (mut digest, mut piece) = (blake3::Hasher::new(), vec![0; PIECE]);
        loop {
            let bytes = match from.read(&mut piece) {
                Ok(0) => break,
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ExportError::io("read", path)(error)),
            };
            digest.update(&piece[..bytes]);
            if let Some((copy, file)) = &mut to {
                file.write_all(&piece[..bytes]).map_err(ExportError::io("write", copy))?;
            }
            self.done += bytes as u64;
            (self.told)(self.done, self.of);
        }
        if let Some((copy, file)) = to {
            file.sync_all().map_err(ExportError::io("write", copy))?;
        }
        Ok(digest.finalize())
    }
}

pub(super) fn save(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    let mut file = File::create(path).map_err(ExportError::io("write", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(ExportError::io("write", path))
}

fn put_in_place(draft: &Path, target: &Path, parent: &Path) -> Result<(), ExportError> {
    let sync = |path: &Path| File::open(path).and_then(|directory| directory.sync_all()).map_err(ExportError::io("sync", path));
    sync(draft)?;
    let old = sibling(target, "old");
    if target.exists() {
        fs::rename(target, &old).map_err(ExportError::io("replace", target))?;
    }
    if let Err(error) = fs::rename(draft, target) {
        let _put_back = fs::rename(&old, target);
        return Err(ExportError::io("write", target)(error));
    }
    let _no_longer_needed = fs::remove_dir_all(&old);
    sync(parent)
}
