//! Trials in groups: tracked runs of one `--group`, trials with one value of a parameter, or those
//! that differ only in some parameters, and the statistics of each group.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

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

/// The word for the seed of a trial, which is averaged over whether or not a parameter is called
/// so.
const SEED: &str = "seed";

/// What trials are grouped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// A parameter, or `group` of tracked runs.
    Name(String),
    /// All parameters except these, which the groups are averaged over.
    Over(Vec<String>),
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupBy::Name(name) => write!(f, "by {}", one_line(name)),
            GroupBy::Over(names) => write!(f, "over {}", one_line(&names.join(", "))),
        }
    }
}

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
    pub by: GroupBy,
    /// The parameters whose values make a group; `group` itself for groups of runs.
    pub names: Vec<String>,
    is_by_param: bool,
    /// The groups, in the order of their values.
    pub groups: Vec<TrialGroup>,
    /// The trials that are in no group.
    pub left_out: Vec<TrialNumber>,
}

/// The name of a group, or the values of its parameters; `None`: inactive, or not given.
pub type GroupKey = Vec<Option<Value>>;

/// Trials that belong together.
#[derive(Clone, Debug)]
pub struct TrialGroup {
    /// What they have in common.
    pub values: GroupKey,
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

/// Groups the trials of a study that are not hidden.
///
/// # Errors
/// The store failed, or the study has no such parameter.
pub fn of_study(
    reader: &dyn StorageReader,
    study: &StudySummary,
    by: &GroupBy,
) -> Result<Groups, GroupError> {
    groups(reader, study, by, visible_trials(reader, study)?)
}

/// Groups trials of a study.
///
/// # Errors
/// The store failed, or the study has no such parameter.
pub fn groups(
    reader: &dyn StorageReader,
    study: &StudySummary,
    by: &GroupBy,
    trials: Vec<Trial>,
) -> Result<Groups, GroupError> {
    let dimensions = study.spec.space.dimensions().iter().map(|one| one.name.clone());
    let mut params: Vec<String> = dimensions.collect();
    let others = reader.trial_names(study.id)?.params;
    params.extend(others.into_iter().filter(|name| study.spec.space.dimension(name).is_none()));
    let is_param = |name: &String| params.contains(name);
    let unknown = |name: &String, further: Option<&str>| {
        let further = further.filter(|further| params.iter().all(|name| name != further));
        let known = params.iter().cloned().chain(further.map(str::to_owned)).collect();
        let (study, name) = (study.spec.name.clone(), name.clone());
        GroupError::Unknown { study, name, known }
    };
    let (names, is_by_param) = match by {
        GroupBy::Name(name) => {
            let run_group = study.spec.is_tracked().then_some(RUN_GROUP);
            if !is_param(name) && run_group != Some(name.as_str()) {
                return Err(unknown(name, run_group));
            }
            (vec![name.clone()], is_param(name))
        }
        GroupBy::Over(over) => {
            if let Some(name) = over.iter().find(|name| !is_param(name) && *name != SEED) {
                return Err(unknown(name, Some(SEED)));
            }
            (params.iter().filter(|name| !over.contains(name)).cloned().collect(), true)
        }
    };
    let values = |trial: &Trial| match is_by_param {
        true => {
            let params = shown_params(&study.spec, trial);
            names.iter().map(|name| params.get(name).cloned()).collect()
        }
        false => {
            let group = trial.origin.tracked().and_then(|run| run.group.clone());
            vec![group.map(Value::Text)]
        }
    };
    let is_in_a_group = |(values, _): &(GroupKey, Trial)| {
        matches!(by, GroupBy::Over(_)) || values.iter().all(Option::is_some)
    };
    let with_values = trials.into_iter().map(|trial| (values(&trial), trial));
    let (mut grouped, left_out): (Vec<_>, Vec<_>) = with_values.partition(is_in_a_group);
    grouped.sort_by(|(one, _), (other, _)| order_all(one, other));
    let mut groups: Vec<TrialGroup> = Vec::new();
    for (values, trial) in grouped {
        match groups.last_mut() {
            Some(last) if order_all(&last.values, &values).is_eq() => last.trials.push(trial),
            _ => groups.push(TrialGroup { values, trials: vec![trial] }),
        }
    }
    let left_out = left_out.into_iter().map(|(_, trial)| trial.number).collect();
    Ok(Groups { by: by.clone(), names, is_by_param, groups, left_out })
}

fn order_all(some: &[Option<Value>], others: &[Option<Value>]) -> Ordering {
    let pairs = some.iter().zip(others).map(|pair| match pair {
        (Some(one), Some(other)) => order(one, other),
        // Absent values last.
        (one, other) => one.is_none().cmp(&other.is_none()),
    });
    pairs.fold(Ordering::Equal, Ordering::then)
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
    /// Which trials are in no group and what they lack, in a sentence; `None` if all are in one.
    pub fn lack(&self) -> Option<String> {
        const NAMED: usize = 10;
        let what = match &self.by {
            GroupBy::Name(name) if self.is_by_param => format!("value of `{}`", one_line(name)),
            _ => RUN_GROUP.to_owned(),
        };
        let named = self.left_out.iter().take(NAMED).map(ToString::to_string);
        let named = named.collect::<Vec<_>>().join(", ");
        match self.left_out.len() {
            0 => None,
            1 => Some(format!("1 trial has no {what}, and is left out: {named}")),
            many => {
                let rest = if many > NAMED { ", .." } else { "" };
                Some(format!("{many} trials have no {what}, and are left out: {named}{rest}"))
            }
        }
    }

    /// The parameters whose values differ between groups: these tell groups apart.
    pub fn differing(&self) -> BTreeSet<usize> {
        let first = self.groups.first().map_or(&[][..], |group| &group.values);
        let differs = |index: &usize| {
            let value = &first[*index..=*index];
            self.groups.iter().any(|group| order_all(&group.values[*index..=*index], value).is_ne())
        };
        (0..first.len()).filter(differs).collect()
    }

    /// What a legend or a column calls each group.
    pub fn labels(&self) -> Vec<String> {
        let differing = self.differing();
        self.groups.iter().map(|group| self.label(group, &differing)).collect()
    }

    fn label(&self, group: &TrialGroup, differing: &BTreeSet<usize>) -> String {
        let is_over = matches!(self.by, GroupBy::Over(_));
        let named = self.names.iter().zip(&group.values).enumerate();
        let parts = named.filter(|(index, _)| !is_over || differing.contains(index));
        let parts = parts.filter_map(|(_, (name, value))| {
            let value = one_line(&value.as_ref()?.shown());
            Some(if self.is_by_param { format!("{} {value}", one_line(name)) } else { value })
        });
        let label = parts.collect::<Vec<_>>().join(", ");
        if label.is_empty() { "all".to_owned() } else { label }
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
