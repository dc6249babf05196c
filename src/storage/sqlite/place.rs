//! Whether the file that was opened still is the one at its path: an unlinked file takes writes for ever, and keeps none.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::storage::StorageError;

/// Which file was at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(Option<(u64, u64)>);

impl Place {
    /// The file at `path` now; one that cannot be looked at is never missed.
    pub(super) fn of(path: &Path) -> Self {
        Place(std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino())))
    }

    /// An error if another file, or none, is at `path` now.
    pub(super) fn check(self, path: &Path) -> Result<(), StorageError> {
        let Some(known) = self.0 else { return Ok(()) };
        let what = match std::fs::metadata(path) {
            Ok(metadata) if (metadata.dev(), metadata.ino()) == known => return Ok(()),
            Ok(_) => "was replaced by another file",
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => "was moved or deleted",
            // Whoever may not look cannot tell.
            Err(_) => return Ok(()),
        };
        Err(StorageError::Moved { path: path.display().to_string(), what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_missed_when_it_is_moved_replaced_or_deleted_and_found_when_it_is_back() {
        let directory = tempfile::tempdir().unwrap();
        let (path, away) = (directory.path().join("a"), directory.path().join("b"));
        std::fs::write(&path, "x").unwrap();
        let place = Place::of(&path);
        place.check(&path).unwrap();
        std::fs::rename(&path, &away).unwrap();
        assert!(place.check(&path).unwrap_err().to_string().contains("was moved or deleted"));
        std::fs::write(&path, "x").unwrap();
        assert!(place.check(&path).unwrap_err().to_string().contains("was replaced"));
        std::fs::rename(&away, &path).unwrap();
        place.check(&path).unwrap();
    }
}
