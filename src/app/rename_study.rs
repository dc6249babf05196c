//! Renames and archives studies.

use std::path::Path;

use super::{AppError, request};
use crate::config::is_study_name;
use crate::runner::{self, take_lease_of_any};
use crate::storage::any::AnyStore;
use crate::storage::paths::DATA_CACHE;
use crate::storage::{Lease, Storage as _, StorageError, StorageReader as _, StudySummary};
use crate::study::request::Request;
use crate::study::spec::StudySpec;
use crate::study::tag::ARCHIVED;
use crate::tracking::settle_dead;

/// Renames a study. Its files stay in their directory.
///
/// # Errors
/// The name is invalid or taken; another process runs the study; the store failed.
pub fn rename_study(
    store: &mut AnyStore,
    path: &Path,
    study: &StudySummary,
    name: &str,
) -> Result<(), AppError> {
    if !is_study_name(name) {
        return Err(AppError::NoStudyName { name: name.to_owned() });
    }
    if name == study.spec.name {
        return Err(AppError::SameName { name: name.to_owned() });
    }
    if store.study(name)?.is_some() {
        return Err(StorageError::Exists { name: name.to_owned() }.into());
    }
    if study.spec.is_tracked() {
        settle_dead(store, study.id, &study.spec)?;
    }
    let lease = take_lease_of_any(store, &study.clone().stored())?;
    let renamed = rename_held(store, path, &lease, study, name);
    store.release(&lease)?;
    Ok(renamed?)
}

fn rename_held(
    store: &mut AnyStore,
    path: &Path,
    lease: &Lease,
    study: &StudySummary,
    name: &str,
) -> Result<(), StorageError> {
    // Read again under the lease, when no other process can change it.
    let stored = store.summary(study.id)?.stored();
    let files = stored.files(path);
    let is_data = files.name() == DATA_CACHE;
    if stored.directory.is_none() && !is_data && files.directory().exists() {
        // Files of an earlier version are in a directory named after the study.
        store.take_directory(study.id, files.name())?;
    }
    let spec = StudySpec { name: name.to_owned(), ..stored.spec };
    store.update_spec(lease, runner::now(), &spec, &[])
}

/// Archives or unarchives a study: lists omit archived ones.
///
/// # Errors
/// The store failed.
pub fn archive(
    store: &mut AnyStore,
    path: &Path,
    study: &StudySummary,
    present: bool,
) -> Result<(), AppError> {
    let tag = Request::Tag { trial: None, tag: ARCHIVED.to_owned(), present };
    request::ask(store, path, study.id, &[tag], &mut |_| ())
}
