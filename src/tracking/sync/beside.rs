//! The state of a study's destinations beside its store: a directory for each, which records
//! whether the destination lags behind.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::replace;
use crate::storage::address::RUNS;
use crate::storage::{StorageReader, StudyId};
use crate::study::destination::Destination;

/// The file that says why a destination lags behind.
const BEHIND: &str = "behind.json";

/// The directory of a study beside its store, by the file of the study's lock; of a store on a
/// server in the working directory. `None` for a store in memory.
fn directory(reader: &dyn StorageReader, study: StudyId) -> Option<PathBuf> {
    if let Some(lock_file) = reader.lock_file(study) {
        let mut beside = lock_file.into_os_string();
        beside.push(".sync");
        return Some(PathBuf::from(beside));
    }
    let store = reader.identity().ok()??;
    Some(Path::new(RUNS).join(format!("{store}-{}.sync", study.0)))
}

/// The directory of a destination; `None` for a store in memory.
pub(super) fn of_destination(
    reader: &dyn StorageReader,
    study: StudyId,
    destination: &Destination,
) -> Option<PathBuf> {
    // Addresses and paths may exceed the length of a file name.
    let digest = blake3::hash(destination.to_string().as_bytes()).to_hex();
    let name = format!("{}-{}", destination.tool.as_str(), &digest[..16]);
    Some(directory(reader, study)?.join(name))
}

/// A destination that lags behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// The destination: a tool and an address.
    pub destination: Destination,
    /// Why it lags behind, in words.
    pub why: String,
}

/// Records beside the store whether a destination lags behind. Write errors are ignored: they are
/// no reason to stop.
pub fn write_lag(
    reader: &dyn StorageReader,
    study: StudyId,
    destination: &Destination,
    why: Option<&str>,
) {
    let Some(directory) = of_destination(reader, study, destination) else { return };
    let path = directory.join(BEHIND);
    let Some(why) = why else {
        let _there_may_be_none = fs::remove_file(path);
        return;
    };
    let behind = Behind { destination: destination.clone(), why: why.to_owned() };
    if let (Ok(()), Ok(json)) = (fs::create_dir_all(directory), serde_json::to_vec(&behind)) {
        let _said_elsewhere_too = replace(&path, &json);
    }
}

/// The destinations of a study that are known to lag behind.
pub fn behind(reader: &dyn StorageReader, study: StudyId) -> Vec<Behind> {
    let entries = directory(reader, study).and_then(|beside| fs::read_dir(beside).ok());
    let entries = entries.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path: &PathBuf| serde_json::from_slice(&fs::read(path.join(BEHIND)).ok()?).ok();
    paths.iter().filter_map(read).collect()
}

/// Deletes the state of a removed study.
pub fn forget(reader: &dyn StorageReader, study: StudyId) {
    if let Some(directory) = directory(reader, study) {
        let _there_may_be_none = fs::remove_dir_all(directory);
    }
}
