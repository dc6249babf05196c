//! Paths of checkpoints in the store: relative to the directory of files, so that a project may be
//! moved with them.

use std::path::{Component, Path, PathBuf};

use super::connection::Connection;

use super::column::{value, values};
use super::fault::Fault;
use crate::storage::StudyId;
use crate::storage::address::directory_beside;
use crate::storage::paths::component;
use crate::study::event::Event;
use crate::study::trial::TrialNumber;

/// The base directories of a study's relative paths; the default is for a store in memory, which
/// stores paths unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::storage) struct Roots {
    /// The directory of files now, then those of earlier revisions of the specification; all
    /// absolute.
    roots: Vec<PathBuf>,
    /// The name of the directory of trials' files in earlier versions.
    component: String,
}

impl Roots {
    /// Those of a study with the store at `store`.
    pub(in crate::storage) fn of(
        connection: &dyn Connection,
        study: StudyId,
        store: &Path,
    ) -> Result<Self, Fault> {
        if store.as_os_str().is_empty() {
            return Ok(Roots::default());
        }
        let beside = directory_beside(store);
        let sql = "SELECT json_extract(spec, '$.checkpoints.dir') FROM study WHERE id = ?1
            UNION ALL
            SELECT * FROM (SELECT json_extract(spec, '$.checkpoints.dir') FROM study_revision \
            WHERE study_id = ?1 ORDER BY revision DESC) AS earlier";
        let given: Vec<Option<String>> = values(connection, sql, [study.0])?;
        let mut roots = Vec::new();
        for directory in given {
            let root = absolute(&directory.map_or_else(|| beside.join("files"), PathBuf::from));
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        let name: String = value(connection, "SELECT name FROM study WHERE id = ?1", [study.0])?;
        Ok(Roots { roots, component: component(&name) })
    }

    /// The stored form of a path: relative if it is in the directory of files.
    pub(in crate::storage) fn stored<'a>(&self, path: &'a Path) -> &'a Path {
        let inside = self.roots.first().and_then(|root| path.strip_prefix(root).ok());
        let is_plain = |path: &&Path| {
            path.components().all(|part| matches!(part, Component::Normal(_)))
                && !path.as_os_str().is_empty()
        };
        inside.filter(is_plain).unwrap_or(path)
    }

    /// Resolves a stored path: a relative one below the first directory of files that contains it,
    /// else the present one. An absolute one of an earlier version that no longer exists maps into
    /// the present directory if it was in its trial's.
    pub(in crate::storage) fn found(&self, trial: Option<TrialNumber>, stored: &Path) -> PathBuf {
        let Some(present) = self.roots.first() else { return stored.to_owned() };
        if stored.is_relative() {
            let mut places = self.roots.iter().map(|root| root.join(stored));
            let first = present.join(stored);
            if self.roots.len() == 1 {
                return first;
            }
            return places.find(|path| path.exists()).unwrap_or(first);
        }
        match trial.and_then(|trial| self.moved(trial, stored)) {
            Some(inside) if !stored.starts_with(present) && !stored.exists() => {
                present.join(inside)
            }
            _ => stored.to_owned(),
        }
    }

    /// The part of an absolute path from the study's own directory on: `s/trial-3/checkpoints/7`.
    fn moved(&self, trial: TrialNumber, stored: &Path) -> Option<PathBuf> {
        let parts: Vec<Component<'_>> = stored.components().collect();
        let own = format!("trial-{trial}");
        let at = parts.windows(2).rposition(|pair| {
            pair[0].as_os_str() == self.component.as_str() && pair[1].as_os_str() == own.as_str()
        })?;
        let inside: PathBuf = parts[at..].iter().collect();
        (parts.len() > at + 2).then_some(inside)
    }

    /// The stored form of an event.
    pub(in crate::storage) fn stored_event(&self, event: &Event) -> Option<Event> {
        mapped(event, |_, path| self.stored(path).to_owned())
    }

    /// A stored event with resolved paths.
    pub(in crate::storage) fn found_event(&self, event: &Event) -> Option<Event> {
        mapped(event, |trial, path| self.found(Some(trial), path))
    }
}

/// An event with its path mapped, if it has one.
pub(in crate::storage) fn mapped(
    event: &Event,
    lead: impl Fn(TrialNumber, &Path) -> PathBuf,
) -> Option<Event> {
    let Event::Trial(trial, event) = event else { return None };
    event.checkpoint_path()?;
    let (trial, mut mapped) = (*trial, event.clone());
    if let Some(path) = mapped.checkpoint_path_mut() {
        *path = lead(trial, path);
    }
    Some(Event::Trial(trial, mapped))
}

/// Whether an event has a path.
pub(in crate::storage) fn has_path(event: &Event) -> bool {
    matches!(event, Event::Trial(_, event) if event.checkpoint_path().is_some())
}

/// Made absolute by the working directory, without resolving links; unchanged if that is unknown.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(present: &Path, earlier: &[&Path]) -> Roots {
        let roots = [present].iter().chain(earlier).map(|root| root.to_path_buf()).collect();
        Roots { roots, component: "s".to_owned() }
    }

    #[test]
    fn what_lies_in_the_directory_of_files_is_stored_relative_to_it_and_nothing_else() {
        let here = roots(Path::new("/p/runs/files"), &[]);
        let stored = |path: &'static str| here.stored(Path::new(path)).display().to_string();
        assert_eq!(stored("/p/runs/files/s/trial-0/checkpoints/1"), "s/trial-0/checkpoints/1");
        assert_eq!(stored("/p/runs/files"), "/p/runs/files");
        assert_eq!(stored("/p/runs/files/s/../../store.db"), "/p/runs/files/s/../../store.db");
        assert_eq!(stored("/p/runs/filesystem/a"), "/p/runs/filesystem/a");
        assert_eq!(stored("/elsewhere/a"), "/elsewhere/a");
    }

    #[test]
    fn a_relative_path_leads_to_where_its_file_is_and_else_to_the_present_directory() {
        let directory = tempfile::tempdir().unwrap();
        let (now, before) = (directory.path().join("now"), directory.path().join("before"));
        std::fs::create_dir_all(before.join("s/trial-0")).unwrap();
        let both = roots(&now, &[&before]);
        let found = |path: &str| both.found(Some(TrialNumber(0)), Path::new(path));
        assert_eq!(found("s/trial-0"), before.join("s/trial-0"));
        assert_eq!(found("s/trial-1"), now.join("s/trial-1"));
        std::fs::create_dir_all(now.join("s/trial-0")).unwrap();
        assert_eq!(found("s/trial-0"), now.join("s/trial-0"));
    }

    #[test]
    fn a_whole_path_of_an_earlier_version_follows_its_project() {
        let directory = tempfile::tempdir().unwrap();
        let here = roots(&directory.path().join("files"), &[]);
        let found = |trial: u64, path: &str| here.found(Some(TrialNumber(trial)), Path::new(path));
        let old = "/nowhere/runs/files/s/trial-3/checkpoint-9";
        assert_eq!(found(3, old), directory.path().join("files/s/trial-3/checkpoint-9"));
        // Another trial's, another study's, or a file of one's own stays where it was.
        assert_eq!(found(4, old), Path::new(old));
        assert_eq!(
            found(3, "/nowhere/t/trial-3/checkpoint-9"),
            Path::new("/nowhere/t/trial-3/checkpoint-9")
        );
        assert_eq!(found(3, "/nowhere/s/trial-3"), Path::new("/nowhere/s/trial-3"));
        let there = directory.path().join("s/trial-3/x");
        std::fs::create_dir_all(&there).unwrap();
        assert_eq!(found(3, &there.display().to_string()), there, "what is there is there");
    }
}
