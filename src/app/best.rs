//! The best trial of a study: its value, metrics, and the runs of its configuration if there are
//! several.

use super::AppError;
use super::error::Standing;
use crate::config::{command_line, shell};
use crate::engine::seed_of;
use crate::storage::{StorageError, StorageReader, StudyId, StudySummary};
use crate::study::metric::{ColumnDigits, Metrics, Score};
use crate::study::params::{Params, variable};
use crate::study::program::{ArgsRules, Program};
use crate::study::spec::{Duplicates, StudySpec};
use crate::study::state::{self, StudyState, shown_params};
use crate::study::statistics::Statistics;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// The best trial.
#[derive(Clone, Debug)]
pub struct Best {
    /// The trial.
    pub trial: Trial,
    /// Its value, also while it continues past its end.
    pub value: Option<f64>,
    /// The step of its value.
    pub step: Option<u64>,
    /// Metrics at that step.
    pub metrics: Metrics,
    /// The runs of its configuration, if there are several.
    pub runs: Option<Runs>,
}

/// The runs behind the best value of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// Their statistics.
    pub statistics: Statistics,
    /// Why it won, if it is the winner of a race.
    pub reason: Option<String>,
    /// Metrics on the test split, if measured.
    pub test: Option<Metrics>,
}

/// The best trial of a study.
///
/// # Errors
/// No trial is complete, has a value and is feasible.
pub fn best(reader: &dyn StorageReader, study: &StudySummary) -> Result<Best, AppError> {
    let number = number(reader, study)?;
    let Some(trial) = reader.trial(study.id, number)? else {
        return Err(no_best_trial(reader, study));
    };
    let goes_on = study.best.filter(|_| trial.continued.is_some()).map(|(_, value)| value);
    let step = value_step(&study.spec, &trial);
    Ok(Best {
        value: trial.value.or(goes_on),
        step,
        metrics: result_metrics(reader, study, &trial, step)?,
        runs: state_of_runs(reader, study)?.as_ref().and_then(runs),
        trial,
    })
}

/// The number of the best trial.
///
/// # Errors
/// As [`best`]'s.
pub fn number(reader: &dyn StorageReader, study: &StudySummary) -> Result<TrialNumber, AppError> {
    study.best_trial().ok_or_else(|| no_best_trial(reader, study))
}

fn no_best_trial(reader: &dyn StorageReader, study: &StudySummary) -> AppError {
    let name = study.spec.name.clone();
    let state = match reader.study_state(study.id) {
        Ok(state) => state,
        Err(error) => return error.into(),
    };
    let shown = || state.trials.iter().filter(|trial| !trial.hidden);
    let is_complete = |trial: &&Trial| trial.state == TrialState::Complete;
    let complete = shown().filter(is_complete).count() as u64;
    let hidden = state.trials.iter().filter(is_complete).count() as u64 - complete;
    let is_unreported = complete > 0 && shown().all(|trial| trial.last_step().is_none());
    let unreported = is_unreported.then(|| study.spec.objective().metric.clone());
    let nearest = shown().filter_map(|trial| Some((trial.violation?, trial)));
    let nearest = nearest.min_by(|a, b| a.0.total_cmp(&b.0));
    let nearest =
        nearest.map(|(_, trial)| (trial.number, trial.reason.clone().unwrap_or_default()));
    let standing = match complete {
        0 if !state.has_several_objectives() => ahead(&study.spec, &state),
        _ => None,
    };
    AppError::NoBestTrial { study: name, complete, hidden, nearest, unreported, standing }
}

/// The best trial that has not ended, as it stands.
fn ahead(spec: &StudySpec, state: &StudyState) -> Option<Box<Standing>> {
    let unfinished = |trial: &&Trial| !trial.state.is_finished() && !trial.hidden;
    let valued = state.trials.iter().filter(unfinished).filter_map(|trial| {
        let value = state.value_of(trial)?;
        Some((Score::new(spec.direction(), value), value, trial))
    });
    let (_, value, trial) =
        valued.filter(|(score, ..)| score.loss().is_finite()).min_by_key(|of| of.0)?;
    let at = state.reported_step(trial, Some(value));
    let at = at.map_or_else(String::new, |step| format!(" at {}", spec.step.at(step)));
    let stands = format!("{} {}{at}", spec.objective().metric, ColumnDigits::default().text(value));
    Some(Box::new(Standing { trial: trial.number, stands }))
}

/// The step of the report that determines the trial's value.
pub fn value_step(spec: &StudySpec, trial: &Trial) -> Option<u64> {
    state::value_step(spec.value, spec.direction(), trial)
}

/// The metrics of a trial's result: those that it reported at `step`, and the values of several
/// objectives, which may be of earlier steps.
///
/// # Errors
/// The store failed.
pub fn result_metrics(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
    step: Option<u64>,
) -> Result<Metrics, StorageError> {
    let mut metrics = metrics_at(reader, study.id, trial.number, step)?;
    if study.spec.has_several_objectives()
        && let Some(step) = step
    {
        let known = trial.values_at(step).into_iter();
        let named = study.spec.objective_names().into_iter().zip(known);
        metrics.0.extend(named.filter_map(|(name, value)| Some((name, value?))));
    }
    Ok(metrics)
}

/// The metrics that a trial reported at `step`.
///
/// # Errors
/// The store failed.
pub fn metrics_at(
    reader: &dyn StorageReader,
    study: StudyId,
    trial: TrialNumber,
    step: Option<u64>,
) -> Result<Metrics, StorageError> {
    let reports = reader.reports(study, trial)?.into_iter();
    Ok(reports
        .filter(|(_, at, _)| Some(*at) == step)
        .map(|(name, _, value)| (name, value))
        .collect())
}

/// The state of a study that compares configurations by several runs; other studies do not need it.
///
/// # Errors
/// The store failed.
pub fn state_of_runs(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Option<StudyState>, StorageError> {
    let StudySpec { replicates, race, duplicates, .. } = &study.spec;
    let has_several = *replicates > 1 || *race > 0 || *duplicates == Duplicates::Replicate;
    has_several.then(|| reader.study_state(study.id)).transpose()
}

/// The runs behind the best value, if there are several.
pub fn runs(state: &StudyState) -> Option<Runs> {
    if let Some(winner) = state.race.as_ref().and_then(|race| race.winner()) {
        return Some(Runs {
            statistics: winner.statistics,
            reason: Some(winner.reason.clone()),
            test: winner.test.clone(),
        });
    }
    let (_, statistics) = state.ranked_configurations().into_iter().next()?;
    (statistics.runs > 1).then_some(Runs { statistics, reason: None, test: None })
}

/// The shell command line of a trial, if its study runs a command. Parameters that it does not name
/// are environment variables, and in a new file that `HPSEARCH_PARAMS` names; so is its seed, and a
/// new directory for checkpoints if it saved some.
pub fn command(spec: &StudySpec, trial: &Trial) -> Option<String> {
    if let Some(run) = trial.origin.tracked() {
        return (!run.command.is_empty()).then(|| shell::quoted(&run.command));
    }
    let Program::Command { run, args, cwd, .. } = &spec.program else { return None };
    let quoted = |word: String| shell::quoted(&[word]);
    let params = shown_params(spec, trial);
    let unnamed: Vec<_> = command_line::unnamed(run, &spec.space, params).collect();
    let file = (!unnamed.is_empty()).then(|| params_file(params, quoted)).into_iter();
    let variables = unnamed.into_iter();
    let mut words: Vec<String> = variables
        .filter_map(|(name, value)| {
            Some(format!("{}={}", variable(name), quoted(value.in_environment()?)))
        })
        .chain(file)
        .collect();
    let seed = seed_of(spec, trial);
    if !run.iter().any(|word| word.contains("{seed}")) {
        words.insert(0, format!("HPSEARCH_SEED={seed}"));
    }
    if !trial.checkpoints.is_empty() {
        words.insert(0, "HPSEARCH_CHECKPOINT_DIR=$(mktemp -d)".to_owned());
    }
    if std::env::current_dir().is_ok_and(|here| here != *cwd) {
        words.insert(0, format!("cd {} &&", quoted(cwd.display().to_string())));
    }
    // `{trial}` and `{trial_dir}` stay literal: a second run must not overwrite the trial's files.
    let own = |name: &str| (name == "seed").then(|| seed.to_string());
    let filled = command_line::words(run, *args, &spec.space, params, own);
    words.push(shell::quoted(&filled));
    Some(words.join(" "))
}

/// A trial's parameters as the arguments that `{args}` stands for, for a shell.
pub fn args(spec: &StudySpec, trial: &Trial) -> String {
    let rules = match &spec.program {
        Program::Command { args, .. } => *args,
        Program::Trainer { .. } | Program::Inline => ArgsRules::default(),
    };
    let all = [format!("{{{}}}", command_line::ARGS)];
    let params = shown_params(spec, trial);
    shell::quoted(&command_line::words(&all, rules, &spec.space, params, |_| None))
}

/// The variable that names a file of parameters, with a command that writes one: that of the trial
/// may be gone, or hold those of another stage.
fn params_file(params: &Params, quoted: impl Fn(String) -> String) -> String {
    let json: serde_json::Map<String, serde_json::Value> =
        params.iter().map(|(name, value)| (name.to_owned(), value.to_json())).collect();
    let json = quoted(serde_json::Value::from(json).to_string());
    format!("HPSEARCH_PARAMS=$(f=$(mktemp) && printf %s {json} > \"$f\" && echo \"$f\")")
}
