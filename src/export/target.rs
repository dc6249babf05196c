//! Valid directories for an export: never over what a study needs, nor inside what a study removes.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::earlier::{self, Depth, Stamps, TargetContent};
use super::{ExportError, Obstacle};

/// Something that an export must not replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The store, or a file that SQLite keeps beside it.
    Store,
    /// The study file, or a `best.toml`.
    StudyFile,
    /// The directory of trials' files.
    Files,
    /// The current directory.
    CurrentDirectory,
    /// The files of a study's trials, or tokenised data.
    TrialFiles,
    /// A checkpoint of the study.
    Checkpoint,
    /// The pretrained model that it trains.
    Model,
}

impl Needed {
    /// Whether its contents may be removed with it, or are being read.
    fn is_whole(self) -> bool {
        matches!(self, Needed::TrialFiles | Needed::Checkpoint | Needed::Model)
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Needed::Store => "the store",
            Needed::StudyFile => "the study file",
            Needed::Files => "the directory of trials' files",
            Needed::CurrentDirectory => "the current directory",
            Needed::TrialFiles => "the directory of trials' files or prepared data",
            Needed::Checkpoint => "a checkpoint of the study",
            Needed::Model => "the pretrained model that is trained",
        })
    }
}

/// A directory whose location is valid for an export; links are resolved.
#[derive(Clone, Debug)]
pub struct Target {
    path: PathBuf,
    needed: Vec<(Needed, PathBuf)>,
}

impl Target {
    /// The directory `path`; `needed` must be neither in it nor equal to it.
    ///
    /// # Errors
    /// It is or contains something that is needed, is inside a trial's files, or cannot be a
    /// directory.
    pub fn new(path: &Path, needed: Vec<(Needed, PathBuf)>) -> Result<Target, ExportError> {
        let occupied = |why: Obstacle| ExportError::Occupied { path: path.to_owned(), why };
        let absolute =
            |path: &Path| std::path::absolute(path).map_err(ExportError::io("find", path));
        let whole = absolute(path)?;
        let resolved = match fs::symlink_metadata(&whole) {
            Ok(_) => fs::canonicalize(&whole).map_err(|_| occupied(Obstacle::NoDirectory))?,
            Err(_) if whole.file_name().is_none() => return Err(occupied(Obstacle::NoDirectory)),
            Err(_) => real(&whole),
        };
        let needed = needed
            .into_iter()
            .map(|(what, path)| Ok((what, real(&absolute(&path)?))))
            .collect::<Result<_, ExportError>>()?;
        let target = Target { path: resolved, needed };
        target.check_place()?;
        Ok(target)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks, without writing, whether an export could be written now: whether the directory is an
    /// earlier export, by names and sizes.
    ///
    /// # Errors
    /// The obstacle.
    pub fn check(&self) -> Result<(), ExportError> {
        earlier::look(&self.path, Depth::Sizes, &Stamps::new())?;
        let parent = self
            .path
            .ancestors()
            .skip(1)
            .find(|parent| fs::symlink_metadata(parent).is_ok())
            .unwrap_or(&self.path);
        if !parent.is_dir() {
            return Err(ExportError::Occupied {
                path: parent.to_owned(),
                why: Obstacle::NoDirectory,
            });
        }
        rustix::fs::access(parent, rustix::fs::Access::WRITE_OK)
            .map_err(|error| ExportError::io("write to", parent)(error.into()))
    }

    /// Examines the directory; `known` was compared before.
    pub(super) fn look(&self, known: &Stamps) -> Result<TargetContent, ExportError> {
        self.check_place()?;
        earlier::look(&self.path, Depth::Contents, known)
    }

    /// `model-2`, `model-3` and so on for `model`.
    pub(super) fn other(&self, number: u32) -> Target {
        let mut name = OsString::from(self.path.file_name().unwrap_or(OsStr::new("export")));
        name.push(format!("-{number}"));
        Target { path: self.path.with_file_name(name), needed: self.needed.clone() }
    }

    fn check_place(&self) -> Result<(), ExportError> {
        for (what, path) in &self.needed {
            let why = if lies_in(path, &self.path) {
                Obstacle::Holds(*what, path.clone())
            } else if what.is_whole() && lies_in(&self.path, path) {
                Obstacle::LiesIn(*what, path.clone())
            } else {
                continue;
            };
            return Err(ExportError::Occupied { path: self.path.clone(), why });
        }
        Ok(())
    }
}

/// Whether `path` is `directory` or inside it, also through several mounts of the same directory.
fn lies_in(path: &Path, directory: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    path.starts_with(directory)
        || identity(directory)
            .is_some_and(|wanted| path.ancestors().any(|part| identity(part) == Some(wanted)))
}

/// The path with links resolved, as far as it exists.
fn real(path: &Path) -> PathBuf {
    match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) if parent != Path::new("") => real(parent).join(name),
                _ => path.to_owned(),
            }
        }
        Err(_) => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::export::fixture::ExportFixture;

    fn refusal(path: &Path, needed: &[(Needed, &Path)]) -> Option<String> {
        let needed = needed.iter().map(|(what, path)| (*what, path.to_path_buf())).collect();
        Target::new(path, needed)
            .and_then(|target| target.check())
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn what_a_study_needs_is_never_a_target_nor_inside_one() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("project/runs/files/s/trial-0/checkpoints")).unwrap();
        fs::write(root.join("project/runs/hpsearch.db"), "").unwrap();
        symlink(root.join("project"), root.join("link")).unwrap();
        let needed: &[(Needed, &Path)] = &[
            (Needed::Store, &root.join("project/runs/hpsearch.db")),
            (Needed::Files, &root.join("project/runs/files")),
            (Needed::TrialFiles, &root.join("link/runs/files/s")),
        ];
        for taken in [
            "project",
            "project/runs",
            "link",
            "link/runs",
            "project/../link/runs",
            "project/runs/files",
            "project/runs/files/s",
            "project/runs/files/s/trial-0/checkpoints/model",
            "link/runs/files/s/new",
            ".",
        ] {
            let refusal = refusal(&root.join(taken), needed);
            assert!(
                refusal
                    .as_ref()
                    .is_some_and(|text| text.contains("the store") || text.contains("files")),
                "{taken}: {refusal:?}"
            );
        }
        for free in [
            "model",
            "project/model",
            "project/runs/model",
            "project/runs/files/model",
            "link/model",
            "project/new/deep/model",
        ] {
            assert_eq!(refusal(&root.join(free), needed), None, "{free}");
        }
    }

    #[test]
    fn what_is_not_there_yet_is_needed_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let wal = directory.path().join("runs/hpsearch.db-wal");
        assert!(refusal(&directory.path().join("runs"), &[(Needed::Store, &wal)]).is_some());
    }

    #[test]
    fn a_target_below_a_file_or_a_link_to_nothing_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "mine").unwrap();
        symlink("nowhere", directory.path().join("dangling")).unwrap();
        for path in ["file", "file/model", "dangling"] {
            assert!(refusal(&directory.path().join(path), &[]).is_some(), "{path}");
        }
        assert_eq!(fs::read_to_string(directory.path().join("file")).unwrap(), "mine");
    }

    #[test]
    fn an_export_into_or_over_its_own_checkpoint_is_refused() {
        let fixture = ExportFixture::new();
        symlink("checkpoint", fixture.path("model")).unwrap();
        assert!(matches!(fixture.refusal(), Obstacle::Holds(Needed::Checkpoint, _)));
        fs::remove_file(fixture.path("model")).unwrap();
        let target = Target::new(
            &fixture.path("checkpoint/model"),
            vec![(Needed::Checkpoint, fixture.path("checkpoint"))],
        );
        assert!(matches!(
            target.unwrap_err(),
            ExportError::Occupied { why: Obstacle::LiesIn(Needed::Checkpoint, _), .. }
        ));
    }

    #[test]
    fn a_link_to_an_export_stays_a_link() {
        let fixture = ExportFixture::new();
        fixture.export().unwrap();
        fs::rename(fixture.path("model"), fixture.path("elsewhere")).unwrap();
        symlink("elsewhere", fixture.path("model")).unwrap();
        fixture.put("checkpoint/weights", "two");
        fixture.export().unwrap();
        assert!(fixture.path("model").is_symlink());
        assert_eq!((fixture.read("elsewhere/weights"), fixture.beside().len()), ("two".into(), 3));
    }
}
