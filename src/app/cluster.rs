//! Prepares a study's run on agents.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::cluster::kubernetes::{self, JobOptions};
use crate::cluster::launcher::{ClusterLauncher, Plan};
use crate::cluster::message::Welcome;
use crate::cluster::rendezvous::{self, Rendezvous};
use crate::cluster::starter::{self, Starter};
use crate::cluster::transfer::Location;
use crate::config;
use crate::runner::processes;
use crate::storage::StoredStudy;
use crate::storage::paths::{DATA_CACHE, StudyFiles};
use crate::study::cluster::ClusterSpec;
use crate::study::program::Program;
use crate::study::space::Distribution;
use crate::study::spec::StudySpec;

/// The launcher of a study with `[cluster]`. `spec` has the values of `[command] env`; `prepared`:
/// the directory of prepared data; `protected`: paths that no checkpoint may contain.
pub fn launcher(
    study: &StoredStudy,
    (spec, cluster): (&StudySpec, &ClusterSpec),
    store: &Path,
    prepared: Option<&Path>,
    protected: Vec<PathBuf>,
) -> ClusterLauncher {
    let files = study.files(store);
    let env = match &spec.program {
        Program::Command { env, .. } => env
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.get()?.to_owned())))
            .collect(),
        _ => std::collections::BTreeMap::new(),
    };
    let pid = std::process::id();
    let started = processes::start_time(pid).unwrap_or(0);
    let welcome = Welcome {
        runner: format!("{}.{pid}.{started}", processes::host()),
        study: format!("{}.{}", study.created.0, spec.name),
        env,
        store: store.to_owned(),
        directory: files.name().to_owned(),
        is_shared: cluster.shared_dir.is_some(),
        protected,
        lost_after_micros: u64::try_from(cluster.lost_after.as_micros()).unwrap_or(u64::MAX),
        ..Welcome::of(spec.clone())
    };
    let file = files.directory().join(rendezvous::FILE);
    ClusterLauncher::new(Plan {
        welcome,
        listen: cluster.listen.clone(),
        shared_dir: cluster.shared_dir.clone(),
        file: file.clone(),
        starter: Starter::new(&cluster.start, &spec.name, &file),
        trainer_inputs: trainer_inputs(spec, &files, prepared),
        files,
    })
}

/// The file by which agents of a study find their runner.
pub fn file(study: &StoredStudy, store: &Path) -> PathBuf {
    study.files(store).directory().join(rendezvous::FILE)
}

/// What the built-in trainer reads: the files and directories that its arguments name, or may name,
/// and the prepared data.
fn trainer_inputs(spec: &StudySpec, files: &StudyFiles, prepared: Option<&Path>) -> Vec<Location> {
    let Program::Trainer { arguments, data } = &spec.program else { return Vec::new() };
    let mut paths = BTreeSet::new();
    arguments.values().chain(data.values()).for_each(|value| paths_in(value, &mut paths));
    for dimension in spec.space.dimensions() {
        if let Distribution::Choice { choices } = &dimension.distribution {
            choices.iter().for_each(|choice| paths_in(&choice.to_json(), &mut paths));
        }
    }
    let cache = files.root().join(DATA_CACHE);
    let prepared = prepared.and_then(|directory| directory.strip_prefix(cache).ok());
    let prepared = prepared.map(|name| Location::Prepared(name.to_owned()));
    paths.into_iter().map(Location::Input).chain(prepared).collect()
}

fn paths_in(value: &Json, paths: &mut BTreeSet<PathBuf>) {
    match value {
        Json::String(text) if Path::new(text).is_absolute() && Path::new(text).exists() => {
            paths.insert(PathBuf::from(text));
        }
        Json::Array(values) => values.iter().for_each(|value| paths_in(value, paths)),
        Json::Object(values) => values.values().for_each(|value| paths_in(value, paths)),
        _ => {}
    }
}

/// The manifests of a Kubernetes Job of agents for the runner at `file`.
///
/// # Errors
/// The file cannot be read, or is another one.
pub fn job_manifests(file: &Path, options: &JobOptions<'_>) -> io::Result<Json> {
    let study = Rendezvous::read(file)?.study;
    Ok(kubernetes::manifests(&study, &config::file::read_to_string(file)?, options))
}

/// The command lines that start agents of a study.
pub fn command_lines(spec: &StudySpec, store: &Path) -> Vec<Vec<String>> {
    let file = StudyFiles::of(spec, None, store).directory().join(rendezvous::FILE);
    let lines = |cluster| starter::command_lines(cluster, &spec.name, &file);
    spec.cluster.as_ref().map_or_else(Vec::new, lines)
}
