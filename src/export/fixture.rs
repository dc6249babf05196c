//! A directory with a command's checkpoint, and its exports.

use std::fs;
use std::path::{Path, PathBuf};

use super::recipe::Training;
use super::*;
use crate::study::metric::Direction;
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::spec::Milestones;
use crate::study::time::Timestamp;
use crate::study::trial::Origin;

pub(super) fn trial() -> Trial {
    Trial::new(TrialNumber(0), Params::new(), Origin::Asked, Timestamp(0))
}

pub(super) fn exported<'a>(
    spec: &'a StudySpec,
    trial: &'a Trial,
    checkpoint: Option<&'a Path>,
) -> Exported<'a> {
    Exported {
        spec,
        trial,
        checkpoint,
        step: None,
        holds: Holds::Value,
        metrics: Metrics::default(),
        recipe: Recipe::of(spec, trial, None, Milestones::default()).unwrap(),
        leaders: Vec::new(),
        quantized: None,
    }
}

/// Creates a file on the first call.
pub(super) fn put_once<'a>(
    fixture: &'a ExportFixture,
    name: &'a str,
) -> impl FnMut(u64, u64) + use<'a> {
    let mut is_put = false;
    move |_, _| {
        if !std::mem::replace(&mut is_put, true) {
            fixture.put(name, "mine");
        }
    }
}

/// The contents of an export with one checkpoint file.
pub(super) const WHOLE: [&str; 5] =
    [".hpsearch-export.json", "README.md", "best.toml", "metrics.json", "weights"];

/// A directory with a command's checkpoint.
pub(super) struct ExportFixture {
    directory: tempfile::TempDir,
}

impl ExportFixture {
    pub fn new() -> ExportFixture {
        let fixture = ExportFixture { directory: tempfile::tempdir().unwrap() };
        fixture.put("checkpoint/weights", "one");
        fixture
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub fn put(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Exports the checkpoint to `model`.
    pub fn export(&self) -> Result<Placed, ExportError> {
        self.export_with(Otherwise::Refuse, &mut |_, _| {})
    }

    pub fn export_with(
        &self,
        otherwise: Otherwise,
        told: &mut dyn FnMut(u64, u64),
    ) -> Result<Placed, ExportError> {
        self.export_as(None, (otherwise, Previous::Removed), told)
    }

    /// Exports it as the model of a call of `hpsearch train`.
    pub fn train(&self) -> Result<Placed, ExportError> {
        let training = Training { file: "/study.toml".to_owned(), options: Vec::new() };
        let rules = (Otherwise::Refuse, Previous::SetAside);
        self.export_as(Some(training), rules, &mut |_, _| {})
    }

    fn export_as(
        &self,
        training: Option<Training>,
        (otherwise, previous): (Otherwise, Previous),
        told: &mut dyn FnMut(u64, u64),
    ) -> Result<Placed, ExportError> {
        let spec =
            StudySpec::new("s", "loss", Direction::Minimize, Space::default(), Program::Inline);
        let trial = trial();
        let checkpoint = self.path("checkpoint");
        let mut exported = exported(&spec, &trial, Some(&checkpoint));
        exported.recipe.training = training;
        let target =
            Target::new(&self.path("model"), vec![(Needed::Checkpoint, checkpoint.clone())])?;
        write(&exported, &target, otherwise, previous, told)
    }

    pub fn refusal(&self) -> Obstacle {
        match self.export().unwrap_err() {
            ExportError::Occupied { why, .. } => why,
            other => panic!("{other}"),
        }
    }

    /// All paths below, directories with a `/`.
    pub fn tree_below(&self, name: &str) -> Vec<String> {
        fn walk(root: &Path, directory: &Path, into: &mut Vec<String>) {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                let path = entry.path();
                let is_directory = entry.file_type().unwrap().is_dir();
                let below = path.strip_prefix(root).unwrap().to_string_lossy();
                into.push(format!("{below}{}", if is_directory { "/" } else { "" }));
                if is_directory {
                    walk(root, &path, into);
                }
            }
        }
        let mut all = Vec::new();
        walk(&self.path(name), &self.path(name), &mut all);
        all.sort();
        all
    }

    pub fn beside(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(""))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// The process id in names of temporary directories without a living writer.
pub(super) const DEAD: u32 = 99_999_999;
