//! Ownership of a study's files: a mark in their directory names the store, so that no store
//! touches another's.

mod claim;
mod copies;
mod homes;
mod mark;
mod taken;

pub(super) use claim::unfinished;
pub use claim::{Unreachable, claim};
pub use copies::{Copies, note_copy};
pub(super) use homes::trials_in;
pub use homes::{HomesByOwner, homes, homes_by_owner, is_ours, may_remove, own_homes};
pub(super) use mark::is_marked_by_another;
pub use mark::{MARK, Owner, copy_of_directory, is_gone, owner, words_of};
pub use taken::{Taken, taken};

/// The log in a study's directory of a run detached from its terminal.
pub const RUN_LOG: &str = "run.log";

/// The file in a study's directory by which agents of other machines find the runner.
pub const AGENTS: &str = "agents.json";

/// The prefix of the file in a study's directory by which agents know that they see the directory.
pub const AGENTS_MARKER: &str = ".agents-";

/// Files in a study's directory besides its trials' directories.
pub const OWN_FILES: [&str; 3] = [MARK, RUN_LOG, AGENTS];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::runner::fixtures;
    use crate::storage::any::AnyStore;
    use crate::storage::{Storage as _, StorageReader as _, StoredStudy};
    use crate::study::time::Timestamp;

    /// A store at a path with a study `s`, as its runner claims it.
    fn claimed(path: &Path) -> (AnyStore, StoredStudy) {
        let mut store = AnyStore::open(path).unwrap();
        if store.study("s").unwrap().is_none() {
            let spec = fixtures::spec(fixtures::command());
            store.create_study(Timestamp(0), &spec).unwrap();
        }
        let study = store.study("s").unwrap().unwrap();
        let study = claim(&mut store, study, path, Unreachable::Refuse).unwrap();
        (store, study)
    }

    fn name(study: &StoredStudy) -> &str {
        study.directory.as_deref().unwrap()
    }

    #[test]
    fn two_stores_in_one_directory_have_two_directories_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("a.db"), directory.path().join("b.db"));
        let (_, first) = claimed(&one);
        let (store, second) = claimed(&other);
        assert_eq!(name(&first), "s");
        let id = store.identity().unwrap().unwrap();
        assert_eq!(name(&second), format!("s~{}", &id[..8]));
        // Each keeps its own.
        assert_eq!(claimed(&one).1, first);
        assert_eq!(claimed(&other).1, second);
        assert!(is_ours(&store, &second.files(&other), &other).unwrap());
        assert!(!is_ours(&store, &first.files(&one), &other).unwrap());
    }

    #[test]
    fn a_store_that_was_moved_takes_its_files_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let (before, after) = (directory.path().join("before"), directory.path().join("after"));
        let (store, study) = claimed(&before.join("a.db"));
        let id = store.identity().unwrap();
        drop(store);
        fs::rename(&before, &after).unwrap();
        let (store, moved) = claimed(&after.join("a.db"));
        assert_eq!((name(&moved), store.identity().unwrap()), (name(&study), id.clone()));
        let marked = owner(&after.join("files/s"));
        assert_eq!(marked, Owner::Store { id: id.unwrap(), path: after.join("a.db") });
    }

    #[test]
    fn a_copy_of_a_store_gets_a_name_and_a_directory_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let (original, copy) = (directory.path().join("a.db"), directory.path().join("copy.db"));
        let (store, study) = claimed(&original);
        let id = store.identity().unwrap();
        drop(store);
        fs::copy(&original, &copy).unwrap();
        // Before its first run it may remove nothing.
        let reader = AnyStore::open(&copy).unwrap();
        assert!(!is_ours(&reader, &study.files(&copy), &copy).unwrap());
        drop(reader);
        let (store, copied) = claimed(&copy);
        assert_ne!(store.identity().unwrap(), id);
        assert!(name(&copied).starts_with("s~"), "{copied:?}");
        assert_eq!(claimed(&original).1, study);
        assert_eq!(claimed(&copy).1, copied);
    }

    #[test]
    fn a_new_store_beside_old_files_leaves_them_alone_and_takes_over_what_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let old = directory.path().join("files/s/trial-0");
        fs::create_dir_all(&old).unwrap();
        let path = directory.path().join("a.db");
        assert!(name(&claimed(&path).1).starts_with("s~"));
        fs::remove_dir_all(directory.path().join("files")).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(name(&claimed(&path).1), "s");
        fs::remove_file(&path).unwrap();
        let anew = claimed(&path).1;
        assert_eq!(name(&anew), "s", "nothing was ever saved for the store that is gone");
    }

    #[test]
    fn a_mark_that_cannot_be_read_belongs_to_somebody() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("files/s")).unwrap();
        fs::write(directory.path().join("files/s").join(MARK), "torn").unwrap();
        assert!(name(&claimed(&directory.path().join("a.db")).1).starts_with("s~"));
    }
}
