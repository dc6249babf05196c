//! Begins or resumes a tracked run: resolves the study, the run, and its checkpoint.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::AppError;
use super::remove_runs::move_files;
use crate::runner;
use crate::runner::inputs;
use crate::runner::provenance::look_around;
use crate::storage::any::AnyStore;
use crate::storage::{Storage as _, StorageReader as _, StoredStudy};
use crate::study::params::{Params, Value};
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::tracked::TrackedRun;
use crate::study::trial::TrialNumber;
use crate::tracking::arguments::{masked, params_of};
use crate::tracking::{
    AssumedDirection, Goal, NewRun, ResumedRun, Run, TrackingError, check_new, find_run,
    open_study, run_of_job, settle_dead, study_named_for,
};

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct TrackOptions {
    /// The study; `None`: named after the repository, or the default one.
    pub study: Option<String>,
    /// The metric that compares its runs.
    pub goal: Goal,
    /// The run's name.
    pub name: Option<String>,
    /// Parameters besides those of the command, which they override.
    pub params: Vec<(String, Value)>,
    /// Tags.
    pub tags: Vec<String>,
    /// A first note.
    pub note: Option<String>,
    /// The group.
    pub group: Option<String>,
    /// The name or number of the parent run.
    pub parent: Option<String>,
    /// The name or number of the run to resume.
    pub resume: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// Its working directory, absolute.
    pub directory: PathBuf,
    /// The batch job of this process.
    pub job: Option<BatchJob>,
}

/// A batch job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchJob {
    /// Its id.
    pub id: String,
    /// How often it was requeued.
    pub restarts: u32,
}

impl BatchJob {
    /// The Slurm job of an environment.
    pub fn of_slurm(variable: impl Fn(&str) -> Option<String>) -> Option<BatchJob> {
        let id = variable("SLURM_JOB_ID").filter(|id| !id.is_empty())?;
        let restarts = variable("SLURM_RESTART_COUNT").and_then(|count| count.parse().ok());
        Some(BatchJob { id, restarts: restarts.unwrap_or(0) })
    }
}

/// A run that has begun.
#[derive(Debug)]
pub struct Begun {
    /// The run.
    pub run: Run,
    /// Its parameters.
    pub params: Params,
    /// Whether it resumes an earlier attempt.
    pub is_resumed: bool,
    /// A sentence on parameters with other values than in that attempt.
    pub changed: Option<String>,
    /// Earlier runs of the study whose process died, which were closed.
    pub settled: Vec<TrialNumber>,
    /// The direction of a study that this run began.
    pub assumed: Option<AssumedDirection>,
}

/// Begins a run in the store at `path`, or resumes one. `words` is the command line of this
/// process.
///
/// # Errors
/// An invalid name, a study with another metric, a run that another process tracks, or the store
/// failed.
pub fn begin(
    store: &mut AnyStore,
    path: &Path,
    wanted: TrackOptions,
    words: &[OsString],
) -> Result<Begun, AppError> {
    refuse_invalid(&wanted)?;
    // Completes an interrupted move; one that fails now is tried again.
    let _tried_again = move_files(store, path);
    let name = wanted.study.clone().unwrap_or_else(|| study_named_for(&wanted.directory));
    if store.study(&name)?.is_none() {
        if wanted.resume.is_some() {
            return Err(TrackingError::NoStudy { study: name }.into());
        }
        if let Some(run) = wanted.parent {
            return Err(TrackingError::NoRun { study: name, run }.into());
        }
    }
    let assumed = AssumedDirection::of(store, &name, &wanted.goal)?;
    let study = open_study(store, path, &name, &wanted.goal, runner::now())?;
    let settled = settle_dead(store, study.id, &study.spec)?;
    let mut params = params_of(&wanted.command);
    for (name, value) in &wanted.params {
        params.insert(name.clone(), value.clone());
    }
    let command = masked(&wanted.command);
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let spec = spec_of(&study, &wanted);
    let found = look_around(
        &spec,
        inputs::of_study(&spec),
        masked(&words).into_iter().map(OsString::from).collect(),
        None,
        &store.salt()?,
    );
    for (digest, text) in &found.documents {
        store.keep_document(digest, text)?;
    }
    let provenance = Some(Box::new(found.provenance));
    let known = match (&wanted.resume, &wanted.job) {
        (Some(run), _) => Some(find_run(store, &study, run)?),
        (None, Some(job)) if job.restarts > 0 => run_of_job(store, &study, &job.id, &command)?,
        _ => None,
    };
    if let Some(known) = known {
        let run = Run::resume(
            store,
            &study,
            known.number,
            ResumedRun { provenance, ..ResumedRun::default() },
        )?;
        let changed = run.change_params(store, params.clone())?;
        return Ok(Begun { run, params, is_resumed: true, changed, settled, assumed });
    }
    let parent = wanted.parent.as_ref();
    let parent = parent.map(|run| find_run(store, &study, run)).transpose()?;
    let parent = parent.map(|run| run.number);
    let run = TrackedRun {
        name: wanted.name,
        group: wanted.group,
        parent,
        job: wanted.job.map(|job| job.id),
        source: None,
        command,
    };
    let new = NewRun {
        params: params.clone(),
        run,
        tags: wanted.tags,
        note: wanted.note,
        provenance,
        ..NewRun::default()
    };
    let run = Run::create(store, &study, new)?;
    Ok(Begun { run, params, is_resumed: false, changed: None, settled, assumed })
}

/// Refuses what no run can have before its study is created.
fn refuse_invalid(wanted: &TrackOptions) -> Result<(), TrackingError> {
    if wanted.directory.to_str().is_none() {
        return Err(TrackingError::Directory { directory: wanted.directory.clone() });
    }
    check_new(wanted.name.as_deref(), &wanted.tags)
}

/// The study's specification with the run's own command, for the provenance.
fn spec_of(study: &StoredStudy, wanted: &TrackOptions) -> StudySpec {
    StudySpec {
        program: Program::Command {
            run: wanted.command.clone(),
            cwd: wanted.directory.clone(),
            env: Default::default(),
            args: Default::default(),
            metrics: Default::default(),
        },
        ..study.spec.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_slurm_is_known_by_its_environment() {
        let job = |variables: &[(&str, &str)]| {
            BatchJob::of_slurm(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(job(&[]), None);
        let first = BatchJob { id: "17".to_owned(), restarts: 0 };
        assert_eq!(job(&[("SLURM_JOB_ID", "17")]), Some(first.clone()));
        let again = [("SLURM_JOB_ID", "17"), ("SLURM_RESTART_COUNT", "2")];
        assert_eq!(job(&again), Some(BatchJob { restarts: 2, ..first }));
    }
}
