//! What a store knows of the files below the runs directory, and which it does not need.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{
    DATA, Kind, OrphanedFile, PlaceOf, Removed, Seen, Stores, YOUNG, default_root,
    directories_of_removed, is_among_copies,
};
use crate::runner::disk::{entries, name_of, numbered, real_place};
use crate::runner::drafts::{half_written_by, moved_from, was_moved_aside};
use crate::runner::ownership::{
    Copies, HomesByOwner, Owner, copy_of_directory, homes_by_owner, is_marked_by_another,
    may_remove, owner,
};
use crate::runner::processes;
use crate::runner::protocol::USED_BY;
use crate::storage::paths::{StudyFiles, component};
use crate::storage::tracked::RemovedRun;
use crate::storage::{OutcomeCursor, StorageError, StorageReader, StudyId, StudySummary};
use crate::study::event::{CheckpointEvent, Event, Seq, TrialEvent};
use crate::study::program::Program;
use crate::study::trial::{TrialNumber, TrialState};

/// What a store knows of the files below the runs directory.
#[derive(Default)]
pub(super) struct StoreContents {
    /// By the name of the studies' directories.
    studies: HashMap<String, StudyContent>,
    /// The names of studies as path components, which mark users of tokenised data.
    components: HashSet<String>,
    /// The checkpoints of all studies, links resolved.
    registered: HashSet<PathBuf>,
    /// What copies of studies in other stores need of the directories.
    copies: Vec<Copies>,
    /// Whether some study uses the built-in trainer.
    trains: bool,
    /// The store's id.
    id: Option<String>,
    /// Directories of studies that were removed.
    pub removed: Removed,
}

#[derive(Clone)]
struct StudyContent {
    name: String,
    /// The directories of its files.
    homes: HomesByOwner,
    is_held: bool,
    is_command: bool,
    states: BTreeMap<TrialNumber, TrialState>,
    /// Hidden, finished trials.
    hidden: HashSet<TrialNumber>,
    /// Runs that were removed, each with whether its files are still being moved.
    removed: HashMap<TrialNumber, bool>,
    /// Checkpoints of commands that were registered and dropped: of a command's own files nothing
    /// else is ours to remove.
    dropped: OnceCell<HashSet<PathBuf>>,
    id: StudyId,
}

impl StoreContents {
    /// What the store knows now.
    pub fn read(stores: &Stores<'_>) -> Result<StoreContents, StorageError> {
        let removed = directories_of_removed(stores.reader)?;
        let mut contents =
            StoreContents { id: stores.reader.identity()?, removed, ..StoreContents::default() };
        let runs = stores.reader.removed_runs()?;
        for summary in stores.reader.studies()? {
            contents.trains |= matches!(summary.spec.program, Program::Trainer { .. });
            // It may have had another name when its data was prepared.
            let names = stores.reader.revisions(summary.id)?.into_iter().map(|(_, spec)| spec.name);
            contents.components.extend(names.map(|name| component(&name)));
            contents.components.insert(component(&summary.spec.name));
            let checkpoints = stores.reader.checkpoints(summary.id)?.into_iter();
            contents.registered.extend(checkpoints.map(|(_, checkpoint)| real(&checkpoint.path)));
            let content = StudyContent::read(stores, &summary, &runs)?;
            let own = summary.files(stores.path);
            for home in &content.homes.own {
                contents.studies.insert(home.name().to_owned(), content.clone());
            }
            contents.studies.entry(own.name().to_owned()).or_insert(content);
        }
        contents.register_moved();
        let homes = contents.studies.values().flat_map(|content| &content.homes.own);
        let directories: BTreeSet<PathBuf> = homes.map(StudyFiles::directory).collect();
        let directories = directories.iter().chain(contents.removed.keys());
        let copies = directories.map(|directory| Copies::of(directory));
        contents.copies = copies.filter(|copies| !copies.is_empty()).collect();
        Ok(contents)
    }

    /// Registers checkpoints in directories that were moved with the store at their new paths, too.
    fn register_moved(&mut self) {
        let moved = self.studies.values().flat_map(|content| &content.homes.moved);
        let at = |(before, now): &(StudyFiles, StudyFiles)| {
            (real(&before.directory()), real(&now.directory()))
        };
        let moved: Vec<(PathBuf, PathBuf)> = moved.map(at).collect();
        let at_new_paths = |path: &PathBuf| {
            let new = |(before, now): &(PathBuf, PathBuf)| {
                Some(now.join(path.strip_prefix(before).ok()?))
            };
            moved.iter().filter_map(new).collect::<Vec<_>>()
        };
        let new: Vec<PathBuf> = self.registered.iter().flat_map(at_new_paths).collect();
        self.registered.extend(new);
    }

    /// The candidate as an orphaned file, its size unknown; `None` if something needs it, or may.
    pub fn judge(
        &self,
        stores: &Stores<'_>,
        seen: Seen,
    ) -> Result<Option<OrphanedFile>, StorageError> {
        let Seen { path, place, root } = seen;
        // A store with the same id beside this one is a copy or a backup: it may know what this one
        // does not.
        let has_twin = self.id.as_ref().is_some_and(|id| stores.others.ids.contains(id));
        // The study with files in this directory, if they carry this store's mark.
        let is_home = |home: &StudyFiles, study: &str| home.root() == root && home.name() == study;
        let of = |study: &str| {
            let content = self.studies.get(study).filter(|_| !has_twin);
            content.filter(|content| content.homes.own.iter().any(|home| is_home(home, study)))
        };
        let was_moved = |content: &StudyContent, study: &str| {
            content.homes.moved.iter().any(|(_, home)| is_home(home, study))
        };
        let modified = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified()).ok();
        let is_young = modified.is_some_and(|at| at.elapsed().unwrap_or_default() < YOUNG);
        let removed = self.removed_at(stores, &path).filter(|_| !has_twin);
        let is_gone = |study: &str, trial: &TrialNumber| {
            of(study).is_some_and(|content| {
                content.hidden.contains(trial) || content.removed.contains_key(trial)
            })
        };
        let is_unwanted = removed.is_some()
            || matches!(&place, PlaceOf::Trial { study, trial } if is_gone(study, trial));
        if is_young && !is_unwanted && self.studies.values().any(|content| content.is_held) {
            return Ok(None);
        }
        let (kind, study) = match &place {
            PlaceOf::HalfWritten { pid, of: study, is_in_trial } => {
                let name = name_of(&path).unwrap_or_default();
                // What a command writes is its own, whatever its name.
                let is_ours = |content: &StudyContent| {
                    !content.is_command || was_moved_aside(name) || is_among_copies(&path)
                };
                let is_known = study == DATA && !is_in_trial || of(study).is_some_and(is_ours);
                if !is_known || processes::exists(*pid) {
                    return Ok(None);
                }
                (Kind::HalfWritten, String::new())
            }
            PlaceOf::Study { .. } if removed.is_some() => {
                (Kind::RemovedStudy, removed.cloned().unwrap_or_default())
            }
            PlaceOf::Study { study } => {
                if root != default_root(stores.path)
                    || self.studies.contains_key(study)
                    || !self.is_abandoned(stores, &path)
                {
                    return Ok(None);
                }
                (Kind::Study, study.clone())
            }
            PlaceOf::Trial { study, trial } => match of(study) {
                Some(content) if !content.states.contains_key(trial) => {
                    let kind = match content.removed.get(trial) {
                        Some(true) => return Ok(None),
                        Some(false) => Kind::RemovedRun,
                        None => Kind::Trial,
                    };
                    (kind, content.name.clone())
                }
                Some(content) if content.hidden.contains(trial) => {
                    (Kind::HiddenTrial, content.name.clone())
                }
                _ => return Ok(None),
            },
            PlaceOf::InTrial { study, trial } => match of(study) {
                // The store may list them at paths that are no longer theirs.
                Some(content) if was_moved(content, study) => return Ok(None),
                Some(content) if content.is_left_behind(stores.reader, *trial, &path)? => {
                    (Kind::Checkpoint, content.name.clone())
                }
                _ => return Ok(None),
            },
            PlaceOf::Data => {
                let users: Vec<String> = entries(&path)
                    .filter_map(|entry| Some(name_of(&entry)?.strip_prefix(USED_BY)?.to_owned()))
                    .collect();
                let is_used = users.iter().any(|user| {
                    self.components.contains(user) || stores.others.directories.contains(user)
                });
                let is_unsure = stores.others.unreadable.is_some()
                    || users.is_empty() && (self.trains || !stores.others.ids.is_empty());
                // Data that no trial has used yet, or older than these marks, may be any study's.
                if is_used || is_unsure {
                    return Ok(None);
                }
                (Kind::Data, String::new())
            }
        };
        let real_path = real(&path);
        if self.registered.iter().any(|kept| kept.starts_with(&real_path)) {
            return Ok(None);
        }
        // A copy in another store has checkpoints in the original's directory.
        let is_needed = |copies: &Copies| copies.need(&path).is_some();
        let is_study = matches!(place, PlaceOf::Study { .. });
        let is_shared = !matches!(kind, Kind::HalfWritten | Kind::Data)
            && (self.copies.iter().any(is_needed) || is_study && is_needed(&Copies::of(&path)));
        if is_shared {
            return Ok(None);
        }
        Ok(Some(OrphanedFile { bytes: 0, kind, study, modified, path, place, root }))
    }

    /// The name of the removed study that a directory belonged to: this store's by its mark, and
    /// not reused. One that was moved aside may have lost its mark.
    fn removed_at(&self, stores: &Stores<'_>, directory: &Path) -> Option<&String> {
        let from = moved_from(directory);
        let name = self.removed.get(from.as_deref().unwrap_or(directory))?;
        let is_ours = match owner(directory) {
            Owner::Store { id, .. } => {
                Some(&id) == self.id.as_ref()
                    && copy_of_directory(directory).is_none()
                    && !is_marked_by_another(directory, stores.path)
            }
            Owner::Nobody => from.is_some(),
            Owner::Unreadable | Owner::Refused(_) => false,
        };
        let is_writing = is_being_written(directory);
        let is_taken = name_of(directory).is_some_and(|own| self.studies.contains_key(own));
        (is_ours && !is_writing && !is_taken && stores.others.unreadable.is_none()).then_some(name)
    }

    /// Whether a directory that belongs to no known study is abandoned: it has this store's mark,
    /// or was moved aside to be removed, and may have lost it then. One with another store's mark
    /// is that store's, wherever it is now, and one without may be anybody's.
    fn is_abandoned(&self, stores: &Stores<'_>, directory: &Path) -> bool {
        let others = &stores.others;
        match owner(directory) {
            _ if others.unreadable.is_some() => false,
            Owner::Store { id, .. } => {
                Some(&id) == self.id.as_ref()
                    && !others.ids.contains(&id)
                    && may_remove(directory, &id, stores.path)
            }
            Owner::Nobody => moved_from(directory).is_some() && !is_being_written(directory),
            Owner::Unreadable | Owner::Refused(_) => false,
        }
    }
}

/// Whether a living process other than this one makes or removes it, by its name.
fn is_being_written(path: &Path) -> bool {
    name_of(path)
        .and_then(half_written_by)
        .is_some_and(|pid| pid != std::process::id() && processes::exists(pid))
}

impl StudyContent {
    fn read(
        stores: &Stores<'_>,
        summary: &StudySummary,
        removed: &[RemovedRun],
    ) -> Result<StudyContent, StorageError> {
        let is_command = matches!(summary.spec.program, Program::Command { .. });
        let outcomes = stores.reader.outcomes(summary.id, OutcomeCursor::default())?.0;
        Ok(StudyContent {
            name: summary.spec.name.clone(),
            homes: homes_by_owner(stores.reader, &summary.clone().stored(), stores.path)?,
            is_held: summary.held.as_ref().is_some_and(stores.is_alive),
            is_command,
            hidden: outcomes
                .iter()
                .filter(|outcome| outcome.hidden && outcome.state.is_finished())
                .map(|outcome| outcome.number)
                .collect(),
            removed: removed
                .iter()
                .filter(|removed| removed.study == summary.id)
                .map(|removed| (removed.run, removed.moved.is_some()))
                .collect(),
            states: outcomes.into_iter().map(|outcome| (outcome.number, outcome.state)).collect(),
            dropped: OnceCell::new(),
            id: summary.id,
        })
    }

    /// Whether an entry of a trial's directory is a checkpoint that nothing continues from.
    fn is_left_behind(
        &self,
        reader: &dyn StorageReader,
        trial: TrialNumber,
        path: &Path,
    ) -> Result<bool, StorageError> {
        if !self.states.get(&trial).is_some_and(|state| state.is_finished()) {
            return Ok(false);
        }
        if !self.is_command {
            return Ok(numbered(path, "checkpoint-").is_some());
        }
        Ok(is_among_copies(path) || self.dropped(reader)?.contains(&real(path)))
    }

    /// The dropped checkpoints; the first call reads the journal, which is slow.
    fn dropped(&self, reader: &dyn StorageReader) -> Result<&HashSet<PathBuf>, StorageError> {
        if self.dropped.get().is_none() {
            let _first = self.dropped.set(dropped(reader, self.id)?);
        }
        Ok(self.dropped.get_or_init(HashSet::new))
    }
}

/// Checkpoints that were dropped according to the journal.
fn dropped(reader: &dyn StorageReader, study: StudyId) -> Result<HashSet<PathBuf>, StorageError> {
    let (mut dropped, mut after) = (HashSet::new(), Seq(0));
    loop {
        let page = reader.events_after(study, after, 10_000)?;
        let Some((last, ..)) = page.last() else { return Ok(dropped) };
        after = *last;
        dropped.extend(page.iter().filter_map(|(_, _, event)| match event {
            Event::Trial(_, TrialEvent::Checkpoint(CheckpointEvent::Dropped { path, .. })) => {
                Some(real(path))
            }
            _ => None,
        }));
    }
}

/// A canonical path, so that relative and absolute ones compare equal.
fn real(path: &Path) -> PathBuf {
    real_place(path).unwrap_or_else(|| path.to_owned())
}
