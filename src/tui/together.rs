//! What the table of trials is about: one study, or several whose trials are listed together.

use std::collections::HashMap;

use crate::app::several::{common_objective, common_objectives};
use crate::report::table::Align;
use crate::report::wording::{StudyStatus, metric_names};
use crate::storage::{StudyId, StudySummary};
use crate::study::metric::{Direction, Score};
use crate::study::space::Distribution;
use crate::study::spec::{Objective, StudySpec};
use crate::study::state::Counts;
use crate::study::trial::TrialState;
use crate::tui::trial_key::TrialKey;

/// Several studies whose trials are in one table.
#[derive(Clone, Debug)]
pub struct Together {
    /// The studies by name, and how each stands.
    pub studies: Vec<(StudySummary, StudyStatus)>,
    /// What they all optimise; `None`: their trials are listed study by study.
    pub objective: Option<Objective>,
    /// Studies that do not understand the filter, so that none of their trials is listed.
    pub left_out: Vec<String>,
}

impl Together {
    /// The objective that these studies share, and which of them the filter leaves out.
    pub fn new(studies: Vec<(StudySummary, StudyStatus)>, left_out: Vec<String>) -> Self {
        let specs = studies.iter().map(|(study, _)| &study.spec);
        let objective = common_objective(specs).cloned();
        Together { studies, objective, left_out }
    }

    /// One of them.
    pub fn study(&self, id: StudyId) -> Option<&StudySummary> {
        self.studies.iter().map(|(study, _)| study).find(|study| study.id == id)
    }

    /// The state of one of them.
    pub fn state(&self, id: StudyId) -> Option<StudyStatus> {
        self.studies.iter().find(|(study, _)| study.id == id).map(|(_, state)| *state)
    }

    /// The best trial of all studies with its value, where their values compare.
    pub fn best(&self) -> Option<(TrialKey, f64)> {
        let direction = self.objective.as_ref()?.direction;
        let best = self.studies.iter().filter_map(|(study, _)| {
            let (number, value) = study.best?;
            Some((TrialKey { study: study.id, number }, value))
        });
        best.min_by_key(|(_, value)| Score::new(direction, *value))
    }

    /// Whether a trial is the best of all, or of its study where values do not compare.
    pub fn is_best(&self, trial: TrialKey) -> bool {
        match &self.objective {
            Some(_) => self.best().is_some_and(|(best, _)| best == trial),
            None => self.study(trial.study).is_some_and(|study| study.is_best(trial.number)),
        }
    }

    /// The trials of all studies by state.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (study, _) in &self.studies {
            let mut own = study.counts;
            for state in TrialState::ALL {
                *counts.of(state) += *own.of(state);
            }
        }
        counts
    }

    /// How many of the studies are run now.
    pub fn running(&self) -> usize {
        self.studies.iter().filter(|(_, status)| *status == StudyStatus::Running).count()
    }
}

/// What the columns of the table are called, and how they read.
#[derive(Clone, Debug, PartialEq)]
pub struct TableScope {
    /// The metric; `value` where studies have several, and `values` if some have several each.
    pub metric: String,
    /// Which values are better; of several metrics, those of the first study.
    pub direction: Direction,
    /// The metrics of studies of the same objectives, each with a column; none of a single one.
    pub objectives: Vec<String>,
    /// What steps count; `step` where studies differ.
    pub step: &'static str,
    /// The parameters, those of spaces first, and on which side they stand.
    pub params: Vec<(String, Align)>,
    /// The same by name.
    aligned: HashMap<String, Align>,
    /// How many of their names end in a part.
    of_last_part: HashMap<String, usize>,
    /// Whether the table has trials of several studies.
    pub has_studies: bool,
    /// Whether the studies have several metrics.
    pub has_metrics: bool,
}

impl TableScope {
    /// The scope of some studies, with the names of parameters that runs have besides.
    pub fn new<'a>(
        studies: impl Iterator<Item = &'a StudySummary> + Clone,
        has_studies: bool,
        others: impl Iterator<Item = &'a String>,
    ) -> Self {
        let specs = studies.map(|study| &study.spec);
        let common = common_objectives(specs.clone());
        let mut steps: Vec<&'static str> = specs.clone().map(|spec| spec.step.as_str()).collect();
        steps.dedup();
        let (mut params, mut aligned) = (Vec::new(), HashMap::new());
        let mut add = |name: &String, align: Align| {
            if !aligned.contains_key(name) {
                aligned.insert(name.clone(), align);
                params.push((name.clone(), align));
            }
        };
        for dimension in specs.clone().flat_map(|spec| spec.space.dimensions()) {
            add(&dimension.name, align(&dimension.distribution));
        }
        others.for_each(|name| add(name, Align::Left));
        let mut of_last_part = HashMap::new();
        for (name, _) in &params {
            *of_last_part.entry(last_part(name).to_owned()).or_default() += 1;
        }
        TableScope {
            metric: match (common, specs.clone().next()) {
                (Some(_), Some(spec)) => metric_names(spec),
                _ if specs.clone().any(StudySpec::has_several_objectives) => "values".to_owned(),
                _ => "value".to_owned(),
            },
            direction: specs.clone().next().map_or(Direction::Minimize, |spec| spec.direction()),
            objectives: match common {
                Some(several @ [_, _, ..]) => {
                    several.iter().map(|one| one.metric.clone()).collect()
                }
                _ => Vec::new(),
            },
            step: if let [step] = steps.as_slice() { step } else { "step" },
            params,
            aligned,
            of_last_part,
            has_studies,
            has_metrics: common.is_none() && has_studies,
        }
    }

    /// The last part of a dotted name of a parameter, where that says which one is meant.
    pub fn short_name<'a>(&self, name: &'a str) -> &'a str {
        let last = last_part(name);
        if self.of_last_part.get(last) == Some(&1) { last } else { name }
    }

    /// On which side a parameter's values stand.
    pub fn align(&self, param: &str) -> Align {
        self.aligned.get(param).copied().unwrap_or(Align::Left)
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn align(distribution: &Distribution) -> Align {
    match distribution {
        Distribution::Float { .. } => Align::Point,
        Distribution::Int { .. } => Align::Right,
        Distribution::Choice { .. } => Align::Left,
    }
}
