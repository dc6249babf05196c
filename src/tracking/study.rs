//! Finds the study of tracked runs, and runs by name, number or job.

use std::path::{Path, PathBuf};

use super::TrackingError;
use crate::config;
use crate::report::wording::one_line;
use crate::runner::ownership::{self, Unreachable};
use crate::runner::release_of_dead;
use crate::storage::{Storage, StorageError, StorageReader, StoredStudy};
use crate::study::metric::Direction;
use crate::study::program::Program;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::space::Space;
use crate::study::spec::{AlgorithmSpec, StudySpec};
use crate::study::step::StepUnit;
use crate::study::time::Timestamp;
use crate::study::tracked::NO_SAMPLER;
use crate::study::trial::{Trial, TrialNumber};

/// The default study of runs outside any repository.
pub const DEFAULT_STUDY: &str = "runs";

/// The default metric by which runs are compared.
pub const DEFAULT_METRIC: &str = "loss";

/// The metric and direction by which runs of a study are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// The metric; `None`: that of the study, `loss` for a new one.
    pub metric: Option<String>,
    /// The direction; `None`: that of the study, smaller values for a new one.
    pub direction: Option<Direction>,
}

/// The direction that a new study has because its first run named a metric and no direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedDirection {
    /// The study's name.
    pub study: String,
    /// Its metric.
    pub metric: String,
}

impl AssumedDirection {
    /// That of a study called `name`, if there is none yet.
    ///
    /// # Errors
    /// The store failed.
    pub fn of(
        reader: &dyn StorageReader,
        name: &str,
        goal: &Goal,
    ) -> Result<Option<Self>, StorageError> {
        let Goal { metric: Some(metric), direction: None } = goal else { return Ok(None) };
        let assumed = AssumedDirection { study: name.to_owned(), metric: metric.clone() };
        Ok(reader.study(name)?.is_none().then_some(assumed))
    }

    /// What was assumed, and how `maximize` is said: `--direction maximize`.
    pub fn in_words(&self, maximize: &str) -> String {
        let (study, metric) = (&self.study, one_line(&self.metric));
        format!(
            "no direction is named, so smaller values of `{metric}` are better in the new study \
             `{study}`; if larger ones are, `hpsearch rm {study}` and start it with `{maximize}`"
        )
    }
}

/// The name of the study for runs that are started in `directory`: that of the directory of its git
/// repository, if valid, else [`DEFAULT_STUDY`].
pub fn study_named_for(directory: &Path) -> String {
    let repository = directory.ancestors().find(|directory| directory.join(".git").exists());
    let name = repository.and_then(Path::file_name).and_then(|name| name.to_str());
    let name = name.filter(|name| config::is_study_name(name));
    name.unwrap_or(DEFAULT_STUDY).to_owned()
}

/// The tracked study called `name` in the store at `path`, created with its directory of files if
/// it does not exist.
///
/// # Errors
/// The name is invalid, the study is a search or has another metric, or the store failed.
pub fn open_study(
    storage: &mut dyn Storage,
    path: &Path,
    name: &str,
    goal: &Goal,
    now: Timestamp,
) -> Result<StoredStudy, TrackingError> {
    open_described(storage, path, (name, None), goal, now)
}

/// The same; a study that it creates has this description.
///
/// # Errors
/// As above.
pub fn open_described(
    storage: &mut dyn Storage,
    path: &Path,
    (name, description): (&str, Option<&str>),
    goal: &Goal,
    now: Timestamp,
) -> Result<StoredStudy, TrackingError> {
    if !config::is_study_name(name) {
        return Err(TrackingError::StudyName { name: name.to_owned() });
    }
    let study = match storage.study(name)? {
        Some(study) => study,
        None => {
            match storage.create_study(now, &spec(name, description, goal)) {
                // Another process created it first.
                Ok(_) | Err(StorageError::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            storage.study(name)?.ok_or_else(|| TrackingError::NoStudy { study: name.to_owned() })?
        }
    };
    if !study.spec.is_tracked() {
        return Err(StorageError::Searched { study: name.to_owned() }.into());
    }
    release_of_dead(storage, &study)?;
    let objective = study.spec.objective();
    let has_other_metric = goal.metric.as_ref().is_some_and(|metric| *metric != objective.metric);
    let has_other_direction = goal.direction.is_some_and(|way| way != objective.direction);
    if has_other_metric || has_other_direction {
        let way = goal.direction.map(|way| format!(" ({})", way.as_str())).unwrap_or_default();
        return Err(TrackingError::OtherMetric {
            study: name.to_owned(),
            metric: objective.metric.clone(),
            direction: objective.direction.as_str(),
            asked: format!("{}{way}", goal.metric.as_ref().unwrap_or(&objective.metric)),
        });
    }
    Ok(ownership::claim(storage, study, path, Unreachable::Forget)?)
}

fn spec(name: &str, description: Option<&str>, goal: &Goal) -> StudySpec {
    let metric = goal.metric.as_deref().unwrap_or(DEFAULT_METRIC);
    let direction = goal.direction.unwrap_or(Direction::Minimize);
    let program = Program::Command {
        run: Vec::new(),
        cwd: PathBuf::from("/"),
        env: Default::default(),
        args: Default::default(),
        metrics: Default::default(),
    };
    let mut spec = StudySpec::new(name, metric, direction, Space::default(), program);
    spec.description = description.map(str::to_owned);
    spec.step = StepUnit::Step;
    spec.sampler = AlgorithmSpec::named(NO_SAMPLER);
    spec.checkpoints.keep_best = None;
    spec
}

/// The run of that name or number.
///
/// # Errors
/// There is none, or the store failed.
pub fn find_run(
    reader: &dyn StorageReader,
    study: &StoredStudy,
    run: &str,
) -> Result<Trial, TrackingError> {
    let missing = || TrackingError::NoRun { study: study.spec.name.clone(), run: run.to_owned() };
    if !run.is_empty() && run.chars().all(|char| char.is_ascii_digit()) {
        let number = run.parse().map(TrialNumber).map_err(|_| missing())?;
        return reader.trial(study.id, number)?.ok_or_else(missing);
    }
    let is_it = |trial: &Trial| {
        trial.origin.tracked().is_some_and(|tracked| tracked.name.as_deref() == Some(run))
    };
    all(reader, study)?.into_iter().find(is_it).ok_or_else(missing)
}

/// The incomplete run that a batch job started with that command, which a requeued job continues.
///
/// # Errors
/// The store failed.
pub fn run_of_job(
    reader: &dyn StorageReader,
    study: &StoredStudy,
    job: &str,
    command: &[String],
) -> Result<Option<Trial>, StorageError> {
    let is_it = |trial: &Trial| {
        !trial.state.is_finished()
            && trial.origin.tracked().is_some_and(|tracked| {
                tracked.job.as_deref() == Some(job) && tracked.command == command
            })
    };
    Ok(all(reader, study)?.into_iter().find(is_it))
}

fn all(reader: &dyn StorageReader, study: &StoredStudy) -> Result<Vec<Trial>, StorageError> {
    reader.trials(study.id, &TrialQuery::all(SortKey::Number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_in_a_repository_go_to_a_study_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("sentiment/src/deep");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(study_named_for(&below), DEFAULT_STUDY);
        std::fs::create_dir(directory.path().join("sentiment/.git")).unwrap();
        assert_eq!(study_named_for(&below), "sentiment");
        let hostile = directory.path().join("a b; rm");
        std::fs::create_dir_all(hostile.join(".git")).unwrap();
        assert_eq!(study_named_for(&hostile), DEFAULT_STUDY);
    }
}
