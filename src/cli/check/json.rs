//! The output of `hpsearch check --json`: the study, or all problems.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Ahead, CheckedStudy, slots_in_words};
use crate::cli::exit::{Exit, Failure};
use crate::cli::trial_json::{ForecastJson, ObjectiveJson, objectives};
use crate::config::{Diagnostic, Diagnostics, Severity};

/// The output.
#[derive(Serialize)]
pub struct CheckJson {
    /// Whether the study can be run.
    valid: bool,
    problems: Vec<Problem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    study: Option<CheckedStudyJson>,
    /// Findings about the data of a file whose changes are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    data: Vec<String>,
}

/// A problem or a warning.
#[derive(Default, Serialize)]
struct Problem {
    severity: &'static str,
    message: String,
    /// The study file, or `--set`.
    file: Option<String>,
    /// From 1.
    line: Option<usize>,
    /// In characters, from 1.
    column: Option<usize>,
    help: Vec<String>,
}

/// A study as its file describes it.
#[derive(Serialize)]
struct CheckedStudyJson {
    name: String,
    metric: String,
    direction: &'static str,
    /// Of a study of several objectives, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    objectives: Option<Vec<ObjectiveJson>>,
    parameters: Vec<String>,
    sampler: String,
    pruner: String,
    /// Number of concurrent trials on each device.
    slots: BTreeMap<String, usize>,
    /// What runs the trials instead of this machine's slots, for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<String>,
    /// Findings about the data.
    data: Vec<String>,
    /// From the stored trials; null before the first.
    forecast: Option<ForecastJson>,
}

impl CheckJson {
    /// For a valid study.
    pub fn of(found: &CheckedStudy) -> Self {
        let spec = &found.spec;
        let mut slots = BTreeMap::new();
        for slot in &found.slots {
            *slots.entry(slot.devices.to_string()).or_default() += 1;
        }
        let study = CheckedStudyJson {
            name: spec.name.clone(),
            metric: spec.objective().metric.clone(),
            direction: spec.direction().as_str(),
            objectives: objectives(spec),
            parameters: spec
                .space
                .dimensions()
                .iter()
                .map(|dimension| dimension.name.clone())
                .collect(),
            sampler: spec.sampler.name.clone(),
            pruner: spec.pruner.name.clone(),
            slots,
            agents: spec.cluster.is_some().then(|| slots_in_words(found)),
            data: found.data.clone(),
            forecast: match &found.ahead {
                Ahead::OfTrials(forecast, _) => Some(ForecastJson::from(forecast)),
                Ahead::OfFile(_) => None,
            },
        };
        let mut problems = problems(&found.warnings);
        problems.extend(
            found.missing.iter().map(|missing| {
                plain("warning", missing.message.clone(), Some(missing.help.clone()))
            }),
        );
        problems.extend(found.steps.map(|note| plain("warning", note.to_owned(), None)));
        let unmeasured = found.unmeasured.iter();
        problems.extend(unmeasured.map(|why| plain("warning", why.to_string(), None)));
        CheckJson { valid: true, problems, study: Some(study), data: Vec::new() }
    }

    /// For a study that does not take the file's changes: what changed, and last what to do.
    pub fn of_refusal(lines: &[String], data: Vec<String>) -> Self {
        CheckJson { valid: false, problems: vec![refused(lines)], study: None, data }
    }

    /// The same, with the problems of the file's data.
    pub fn and_refusal(mut self, lines: &[String]) -> Self {
        self.problems.insert(0, refused(lines));
        self
    }

    /// For an invalid study; other failures are returned.
    pub fn of_failure(failure: Failure) -> Result<Self, Failure> {
        let problems = match failure {
            Failure::StudyFile(error) => problems(&error.into_diagnostics()),
            Failure::Error { exit: Exit::Usage, error, help } => {
                let help = help.map(|help| help.in_words(""));
                vec![plain("error", error.to_string(), help)]
            }
            other => return Err(other),
        };
        Ok(CheckJson { valid: false, problems, study: None, data: Vec::new() })
    }
}

/// That the stored study does not take the file's changes.
fn refused(lines: &[String]) -> Problem {
    let (help, changes) =
        lines.split_last().map_or((None, lines), |(last, rest)| (Some(last.clone()), rest));
    plain("error", changes.join("\n"), help)
}

/// A problem without a location in the file.
fn plain(severity: &'static str, message: String, help: Option<String>) -> Problem {
    Problem { severity, message, help: help.into_iter().collect(), ..Problem::default() }
}

fn problems(diagnostics: &Diagnostics) -> Vec<Problem> {
    let problem = |diagnostic: &Diagnostic| {
        let place = diagnostic
            .place
            .and_then(|place| Some((diagnostics.sources().get(place.source)?, place.start)));
        let position = place.map(|(source, start)| {
            let before =
                &source.text[..source.text.floor_char_boundary(start.min(source.text.len()))];
            let line = before.rfind('\n').map_or(before, |end| &before[end + 1..]);
            (before.matches('\n').count() + 1, line.chars().count() + 1)
        });
        Problem {
            severity: match diagnostic.severity {
                Severity::Error | Severity::ErrorIfNew => "error",
                Severity::Warning => "warning",
            },
            message: diagnostic.message.clone(),
            file: place.map(|(source, _)| source.name.clone()),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            help: diagnostic.help.clone(),
        }
    };
    diagnostics.iter().map(problem).collect()
}
