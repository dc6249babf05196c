//! The rows of the table: trials, reported numbers, or points of series.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value as Json;

use super::Format;
use crate::app::exact_points::exact_points;
use crate::app::last_values::take_logged;
use crate::cli::Failure;
use crate::cli::moments::instant;
use crate::cli::trial_json::{origin_kind, seconds};
use crate::storage::any::AnyReader;
use crate::storage::{StorageError, StorageReader as _, StudyId, StudySummary, Summaries};
use crate::study::device::DeviceGroup;
use crate::study::metric::{Metrics, Number};
use crate::study::params::Params;
use crate::study::query::{Filter, SortKey, TrialQuery};
use crate::study::series::{SYSTEM, SeriesAxis, SeriesSummary};
use crate::study::spec::StudySpec;
use crate::study::state::shown_params;
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// Trials held in memory at a time.
const PAGE: u64 = 1_000;

/// The kind of rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowOf {
    Trial,
    Report,
    Point,
}

/// The table to write.
pub(super) struct TrialTable<'a> {
    pub reader: &'a AnyReader,
    pub studies: Vec<(StudySummary, Filter)>,
    /// Whether each row names its study.
    pub is_named: bool,
    pub form: Format,
}

impl TrialTable<'_> {
    /// Calls `take` for each trial by number, a page in memory at a time; returns the sum of its
    /// results.
    pub(super) fn each_trial(
        &self,
        mut take: impl FnMut(&StudySummary, &Trial) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let mut rows = 0;
        for (study, filter) in &self.studies {
            if !filter.is_all() {
                for number in self.numbers(study, filter)? {
                    let mut trials: Vec<Trial> =
                        self.reader.trial(study.id, number)?.into_iter().collect();
                    take_logged(self.reader, study, &mut trials)?;
                    for trial in &trials {
                        rows += take(study, trial)?;
                    }
                }
                continue;
            }
            for page in 0.. {
                let query = TrialQuery::all(SortKey::Number).page(page * PAGE, PAGE);
                let mut trials = self.reader.trials(study.id, &query)?;
                take_logged(self.reader, study, &mut trials)?;
                for trial in &trials {
                    rows += take(study, trial)?;
                }
                if (trials.len() as u64) < PAGE {
                    break;
                }
            }
        }
        Ok(rows)
    }

    pub(super) fn each_report(
        &self,
        mut take: impl FnMut(Option<&str>, TrialNumber, &str, u64, f64) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut rows = 0;
        for (study, filter) in &self.studies {
            for number in self.numbers(study, filter)? {
                for (metric, step, value) in self.reader.reports(study.id, number)? {
                    take(self.name(study), number, &metric, step, value)?;
                    rows += 1;
                }
            }
        }
        Ok(rows)
    }

    /// Calls `take` for each point, one series in memory at a time.
    pub(super) fn each_point(
        &self,
        mut take: impl FnMut(&PointLine<'_>) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let (mut rows, reader) = (0, self.reader);
        for (study, filter) in &self.studies {
            for trial in self.numbers(study, filter)? {
                let began = reader.began(study.id, trial)?;
                for SeriesSummary { metric, axis, .. } in &reader.series(study.id, &[trial])? {
                    for (step, point) in exact_points(reader, study, trial, metric, *axis)? {
                        take(&PointLine {
                            study: self.name(study),
                            trial: trial.0,
                            metric,
                            axis: *axis,
                            step: step.to_json(),
                            value: Number(point.value),
                            seconds: point.at.since(began.unwrap_or(point.at)).as_secs_f64(),
                        })?;
                        rows += 1;
                    }
                }
            }
        }
        Ok(rows)
    }

    fn numbers(
        &self,
        study: &StudySummary,
        filter: &Filter,
    ) -> Result<Vec<TrialNumber>, StorageError> {
        let query = TrialQuery::all(SortKey::Number).filtered(filter.clone());
        self.reader.numbers(study.id, &query)
    }

    pub(super) fn name<'b>(&self, study: &'b StudySummary) -> Option<&'b str> {
        self.is_named.then_some(study.spec.name.as_str())
    }

    /// The parameters of each space, followed by those of its earlier versions.
    pub(super) fn params(&self) -> Result<Vec<String>, StorageError> {
        let mut names: Vec<String> = Vec::new();
        for (study, _) in &self.studies {
            let dimensions = study.spec.space.dimensions().iter();
            let present = dimensions.map(|dimension| dimension.name.clone());
            for name in present.chain(self.reader.params(study.id)?) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        Ok(names)
    }

    /// The metrics of the objectives of studies with several.
    pub(super) fn objectives(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let several = self.studies.iter().filter(|(study, _)| study.spec.has_several_objectives());
        for name in several.flat_map(|(study, _)| study.spec.objective_names()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    pub(super) fn metrics(&self) -> Result<Vec<String>, StorageError> {
        let mut names = BTreeSet::new();
        for (study, _) in &self.studies {
            names.extend(self.reader.metrics(study.id)?);
            if study.spec.is_tracked() {
                let logged = self.reader.trial_names(study.id)?.series.into_iter();
                names.extend(logged.filter(|name| !name.starts_with(SYSTEM)));
            }
        }
        Ok(names.into_iter().collect())
    }

    pub(super) fn summaries(&self) -> Result<TrialSummaries, StorageError> {
        let mut summaries = TrialSummaries::default();
        for (study, _) in &self.studies {
            summaries.of.insert(study.id, self.reader.trial_summaries(study.id)?);
        }
        Ok(summaries)
    }
}

/// The summaries of all trials of the table.
#[derive(Default)]
pub(super) struct TrialSummaries {
    of: BTreeMap<StudyId, Summaries>,
    none: BTreeMap<String, Json>,
}

impl TrialSummaries {
    /// The summary of a trial.
    pub fn of(&self, study: &StudySummary, trial: &Trial) -> &BTreeMap<String, Json> {
        self.of.get(&study.id).and_then(|of| of.get(&trial.number)).unwrap_or(&self.none)
    }

    /// The names in all of them.
    pub fn names(&self) -> Vec<String> {
        let all = self.of.values().flat_map(Summaries::values);
        all.flat_map(BTreeMap::keys).collect::<BTreeSet<_>>().into_iter().cloned().collect()
    }
}

/// A trial with all its data except curves.
#[derive(Serialize)]
pub(super) struct TrialLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study: Option<&'a str>,
    pub number: u64,
    pub state: TrialState,
    pub value: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<Number>>,
    pub last_value: Option<Number>,
    pub last_step: Option<u64>,
    pub params: &'a Params,
    pub metrics: &'a Metrics,
    pub summary: &'a BTreeMap<String, Json>,
    pub device: Option<&'a DeviceGroup>,
    pub seconds: f64,
    pub attempts: u32,
    pub failures: u32,
    pub origin: &'a Origin,
    pub created: String,
    pub started: Option<String>,
    pub finished: Option<String>,
    pub tags: &'a [String],
    pub notes: Vec<&'a str>,
    pub reason: Option<&'a str>,
}

impl<'a> TrialLine<'a> {
    pub fn new(spec: &StudySpec, trial: &'a Trial, summary: &'a BTreeMap<String, Json>) -> Self {
        TrialLine {
            study: None,
            number: trial.number.0,
            state: trial.state,
            value: trial.value.map(Number),
            values: (!trial.values.is_empty())
                .then(|| trial.values.iter().copied().map(Number).collect()),
            last_value: trial.last().map(|(_, value)| Number(value)),
            last_step: trial.last_step(),
            params: shown_params(spec, trial),
            metrics: &trial.last_metrics,
            summary,
            device: trial.devices.as_ref(),
            seconds: seconds(trial.busy_micros),
            attempts: trial.attempts,
            failures: trial.failures,
            origin: &trial.origin,
            created: instant(trial.created),
            started: trial.started.map(instant),
            finished: trial.finished.map(instant),
            tags: &trial.tags,
            notes: trial.notes.iter().map(|note| note.text.as_str()).collect(),
            reason: trial.reason.as_deref(),
        }
    }
}

/// One reported number.
#[derive(Serialize)]
pub(super) struct ReportLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study: Option<&'a str>,
    pub trial: u64,
    pub metric: &'a str,
    pub step: u64,
    pub value: Number,
}

/// One point of a series.
#[derive(Serialize)]
pub(super) struct PointLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub study: Option<&'a str>,
    pub trial: u64,
    pub metric: &'a str,
    #[serde(rename = "clock")]
    pub axis: SeriesAxis,
    pub step: serde_json::Value,
    pub value: Number,
    pub seconds: f64,
}

/// The value of the objective with this name, in a study of several.
pub(super) fn value_of(study: &StudySummary, trial: &Trial, objective: &str) -> Option<f64> {
    let index = study.spec.objectives.iter().position(|one| one.metric == objective)?;
    trial.values.get(index).copied()
}

pub(super) fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Sampled(sampler) => sampler.clone(),
        other => origin_kind(other).to_owned(),
    }
}
