//! Prepares a study's run on agents.

use std::path::{Path, PathBuf};

use crate::cluster::launcher::{ClusterLauncher, Plan};
use crate::cluster::message::Welcome;
use crate::cluster::rendezvous;
use crate::cluster::starter::{self, Starter};
use crate::runner::processes;
use crate::storage::StoredStudy;
use crate::storage::paths::StudyFiles;
use crate::study::cluster::ClusterSpec;
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;

/// The launcher of a study with `[cluster]`. `spec` has the values of `[command] env`; `protected`:
/// paths that no checkpoint may contain.
pub fn launcher(
    study: &StoredStudy,
    (spec, cluster): (&StudySpec, &ClusterSpec),
    store: &Path,
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
        name: String::new(),
        received: 0,
        attempts: Vec::new(),
        spec: spec.clone(),
        env,
        store: store.to_owned(),
        directory: files.name().to_owned(),
        protected,
        now: Timestamp::default(),
        lost_after_micros: u64::try_from(cluster.lost_after.as_micros()).unwrap_or(u64::MAX),
        grace_micros: 0,
    };
    let file = files.directory().join(rendezvous::FILE);
    ClusterLauncher::new(Plan {
        welcome,
        listen: cluster.listen.clone(),
        file: file.clone(),
        starter: Starter::new(&cluster.start, &spec.name, &file),
    })
}

/// The command lines that start agents of a study.
pub fn command_lines(spec: &StudySpec, store: &Path) -> Vec<Vec<String>> {
    let file = StudyFiles::of(spec, None, store).directory().join(rendezvous::FILE);
    let lines = |cluster| starter::command_lines(cluster, &spec.name, &file);
    spec.cluster.as_ref().map_or_else(Vec::new, lines)
}
