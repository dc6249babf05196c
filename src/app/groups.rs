//! Trials in groups: tracked runs of one `--group`, or trials with one value of a parameter, and
//! the statistics of each group.

use std::cmp::Ordering;

use super::exact_points::{ExactStep, exact_points};
use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::metric::Score;
use crate::study::params::Value;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::SeriesAxis;
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::statistics::Statistics;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// The word for groups of tracked runs, unless a parameter is called so.
const RUN_GROUP: &str = "group";

/// Why trials cannot be grouped.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The study has no such parameter.
    #[error("`{}` has no parameter `{}`", one_line(study), one_line(name))]
    Unknown {
        /// The study.
        study: String,
        /// The name.
        name: String,
        /// What its trials can be grouped by.
        known: Vec<String>,
    },
}

/// The trials of a study that are not hidden, to be grouped.
///
/// # Errors
/// The store failed.
pub fn visible_trials(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Vec<Trial>, StorageError> {
    let query = TrialQuery::all(SortKey::Number).filtered(study.visible(Filter::all()));
    reader.trials(study.id, &query)
}

/// The trials of a study in groups.
#[derive(Clone, Debug)]
pub struct Groups {
    /// What they are grouped by.
    pub by: String,
    is_by_param: bool,
    /// The groups, in the order of their values.
    pub groups: Vec<TrialGroup>,
    /// How many trials are in no group.
    pub left_out: usize,
}

/// Trials that belong together.
#[derive(Clone, Debug)]
pub struct TrialGroup {
    /// The name of the group, or the value of the parameter.
    pub value: Value,
    /// Its trials, by their numbers.
    pub trials: Vec<Trial>,
}

/// The values of a group's complete trials for one objective.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupValues {
    /// The metric.
    pub metric: String,
    /// Of the finite values; `None` if there are none.
    pub statistics: Option<Statistics>,
    /// The best of them, of trials that satisfy the study's limits.
    pub best: Option<(TrialNumber, f64)>,
}

/// The mean curve of a group.
#[derive(Clone, Debug)]
pub struct GroupCurve {
    /// The trials that have points.
    pub trials: Vec<TrialNumber>,
    /// At each step, of the trials with a finite value at exactly this step.
    pub points: Vec<(ExactStep, Statistics)>,
}

/// Groups trials of a study by a parameter, or by `group`.
///
/// # Errors
/// The store failed, or the study has no such parameter.
pub fn groups(
    reader: &dyn StorageReader,
    study: &StudySummary,
    by: &str,
    trials: Vec<Trial>,
) -> Result<Groups, GroupError> {
    let dimensions = study.spec.space.dimensions().iter().map(|one| one.name.clone());
    let mut known: Vec<String> = dimensions.collect();
    known.extend(reader.trial_names(study.id)?.params);
    let is_by_param = known.iter().any(|name| name == by);
    if study.spec.is_tracked() {
        known.push(RUN_GROUP.to_owned());
    }
    if !known.iter().any(|name| name == by) {
        let (study, name) = (study.spec.name.clone(), by.to_owned());
        return Err(GroupError::Unknown { study, name, known });
    }
    let value = |trial: &Trial| match is_by_param {
        true => shown_params(&study.spec, trial).get(by).cloned(),
        false => trial.origin.tracked().and_then(|run| run.group.clone()).map(Value::Text),
    };
    let all = trials.len();
    let mut grouped: Vec<(Value, Trial)> =
        trials.into_iter().filter_map(|trial| Some((value(&trial)?, trial))).collect();
    let left_out = all - grouped.len();
    grouped.sort_by(|(one, _), (other, _)| order(one, other));
    let mut groups: Vec<TrialGroup> = Vec::new();
    for (value, trial) in grouped {
        match groups.last_mut() {
            Some(last) if order(&last.value, &value).is_eq() => last.trials.push(trial),
            _ => groups.push(TrialGroup { value, trials: vec![trial] }),
        }
    }
    Ok(Groups { by: by.to_owned(), is_by_param, groups, left_out })
}

/// Numbers by size, before everything else by its text. 1 and 1.0 are the same.
fn order(one: &Value, other: &Value) -> Ordering {
    match (one.as_number(), other.as_number()) {
        // Zeros have no sign.
        (Some(one), Some(other)) => (one + 0.0).total_cmp(&(other + 0.0)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.to_string().cmp(&other.to_string()),
    }
}

impl Groups {
    /// What the trials in no group lack, in a sentence; `None` if there are none.
    pub fn lack(&self) -> Option<String> {
        let what = match self.is_by_param {
            true => format!("value of `{}`", one_line(&self.by)),
            false => RUN_GROUP.to_owned(),
        };
        match self.left_out {
            0 => None,
            1 => Some(format!("1 trial has no {what}, and is left out")),
            many => Some(format!("{many} trials have no {what}, and are left out")),
        }
    }

    /// What a legend or a column calls a group.
    pub fn label(&self, group: &TrialGroup) -> String {
        let value = one_line(&group.value.shown());
        if self.is_by_param { format!("{} {value}", one_line(&self.by)) } else { value }
    }
}

impl TrialGroup {
    /// How many of its trials are complete.
    pub fn complete(&self) -> usize {
        self.trials.iter().filter(|trial| trial.state == TrialState::Complete).count()
    }

    /// The values for each objective of the study.
    pub fn values(&self, spec: &StudySpec) -> Vec<GroupValues> {
        let of_objective = |(index, metric): (usize, &str), direction| {
            let value = |trial: &Trial| match spec.has_several_objectives() {
                true => trial.values.get(index).copied(),
                false => trial.value,
            };
            let complete = self.trials.iter().filter(|trial| trial.state == TrialState::Complete);
            let values: Vec<(&Trial, f64)> = complete
                .filter_map(|trial| Some((trial, value(trial).filter(|value| value.is_finite())?)))
                .collect();
            let feasible = values.iter().filter(|(trial, _)| trial.violation.is_none());
            let best = feasible.min_by_key(|(_, value)| Score::new(direction, *value));
            let finite: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
            GroupValues {
                metric: metric.to_owned(),
                statistics: Statistics::of(&finite),
                best: best.map(|(trial, value)| (trial.number, *value)),
            }
        };
        let objectives = spec.objectives.iter().enumerate();
        objectives.map(|(index, one)| of_objective((index, &one.metric), one.direction)).collect()
    }

    /// The mean curve of its trials.
    ///
    /// # Errors
    /// The store failed.
    pub fn curve(
        &self,
        reader: &dyn StorageReader,
        study: &StudySummary,
        metric: &str,
        axis: SeriesAxis,
    ) -> Result<GroupCurve, StorageError> {
        let (mut trials, mut all) = (Vec::new(), Vec::new());
        for trial in &self.trials {
            let points = exact_points(reader, study, trial.number, metric, axis)?;
            if !points.is_empty() {
                trials.push(trial.number);
            }
            let finite = points.into_iter().filter(|(_, point)| point.value.is_finite());
            all.extend(finite.map(|(step, point)| (step, point.value)));
        }
        all.sort_by(|(one, _), (other, _)| one.order(other));
        let steps = all.chunk_by(|(one, _), (other, _)| one.order(other).is_eq());
        let points = steps.filter_map(|points| {
            let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
            Some((points.first()?.0, Statistics::of(&values)?))
        });
        Ok(GroupCurve { points: points.collect(), trials })
    }
}

/// The spread of several runs; one run has none.
pub fn spread(statistics: &Statistics) -> Option<f64> {
    (statistics.runs > 1).then_some(statistics.deviation)
}
