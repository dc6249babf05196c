//! Writes an exported directory: checked files into a temporary one, made durable, then renamed into place.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::card::card;
use super::{ExportError, Exported};

/// What tells an export from any other directory.
const MARK: &str = "best.toml";

/// Files of a checkpoint that serve only to go on training.
const TRAINING_ONLY: [&str; 3] = ["optimizer.safetensors", "trainer_state.json", "digests.json"];

/// Writes `exported` to `target`, replacing an earlier export.
pub fn write(exported: &Exported<'_>, target: &Path) -> Result<(), ExportError> {
    if target.exists() && !is_replaceable(target) {
        return Err(ExportError::Occupied { path: target.to_owned() });
    }
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(ExportError::io("make", parent))?;
    let draft = sibling(target, "draft");
    let _left_from_a_crash = fs::remove_dir_all(&draft);
    fs::create_dir(&draft).map_err(ExportError::io("make", &draft))?;
    let written = fill(exported, &draft).and_then(|()| put_in_place(&draft, target, parent));
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

fn fill(exported: &Exported<'_>, draft: &Path) -> Result<(), ExportError> {
    if let Some(checkpoint) = exported.checkpoint {
        copy_checkpoint(checkpoint, draft)?;
    }
    save(&draft.join(MARK), exported.recipe.to_text()?.as_bytes())?;
    let metrics = serde_json::json!({
        "version": 1, "study": exported.spec.name, "trial": exported.trial.number, "metric": exported.spec.objective().metric,
        "value": exported.trial.value.map(|value| crate::metric::Number(value).to_json()), "step": exported.step, "metrics": exported.metrics,
    });
    save(&draft.join("metrics.json"), format!("{metrics:#}\n").as_bytes())?;
    save(&draft.join("README.md"), card(exported).as_bytes())
}

/// Copies what was saved, after checking that it still is what was saved.
fn copy_checkpoint(checkpoint: &Path, draft: &Path) -> Result<(), ExportError> {
    if checkpoint.is_file() {
        let name = checkpoint.file_name().unwrap_or_default();
        let bytes = fs::read(checkpoint).map_err(ExportError::io("read", checkpoint))?;
        return save(&draft.join(name), &bytes);
    }
    let damaged = |why: String| ExportError::Damaged { path: checkpoint.to_owned(), why };
    let digests: Option<BTreeMap<String, String>> = match fs::read(checkpoint.join("digests.json")) {
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
            copy_checkpoint(&path, &inner)?;
            continue;
        }
        let bytes = fs::read(&path).map_err(ExportError::io("read", &path))?;
        if let Some(expected) = digests.as_ref().and_then(|digests| digests.get(&name))
            && blake3::hash(&bytes).to_hex().as_str() != expected
        {
            return Err(damaged(format!("`{name}` is not what was saved")));
        }
        if digests.is_none() || !TRAINING_ONLY.contains(&name.as_str()) {
            save(&draft.join(&name), &bytes)?;
        }
    }
    Ok(())
}

fn save(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    use std::io::Write;
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
