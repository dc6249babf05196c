//! The output of `hpsearch check --json`: the study, or all problems.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Findings, slots_in_words};
use crate::app::check_study::StudyForecast;
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
    /// For a file that was read; failures that are no problems of the study are returned.
    pub fn of(found: Findings) -> Result<Self, Failure> {
        let valid = found.exit() == Exit::Done;
        let study = valid.then(|| CheckedStudyJson::of(&found));
        let mut problems = Vec::new();
        if !found.refusal.is_empty() {
            problems.push(refused(&found.refusal));
        }
        let warnings = warnings(&found);
        for problem in found.problems {
            problems.extend(of_failure(problem)?);
        }
        problems.extend(warnings);
        let data = if valid { Vec::new() } else { found.study.data.findings };
        Ok(CheckJson { valid, problems, study, data })
    }

    /// For a file that cannot be read; other failures are returned.
    pub fn of_failure(failure: Failure) -> Result<Self, Failure> {
        let problems = of_failure(failure)?;
        Ok(CheckJson { valid: false, problems, study: None, data: Vec::new() })
    }
}

impl CheckedStudyJson {
    fn of(Findings { study, forecast, .. }: &Findings) -> Self {
        let spec = &study.spec;
        let mut slots = BTreeMap::new();
        for slot in &study.slots {
            *slots.entry(slot.devices.to_string()).or_default() += 1;
        }
        let dimensions = spec.space.dimensions().iter();
        CheckedStudyJson {
            name: spec.name.clone(),
            metric: spec.objective().metric.clone(),
            direction: spec.direction().as_str(),
            objectives: objectives(spec),
            parameters: dimensions.map(|dimension| dimension.name.clone()).collect(),
            sampler: spec.sampler.name.clone(),
            pruner: spec.pruner.name.clone(),
            slots,
            agents: spec.cluster.is_some().then(|| slots_in_words(study)),
            data: study.data.findings.clone(),
            forecast: match forecast {
                StudyForecast::OfTrials(forecast, _) => Some(ForecastJson::from(forecast)),
                StudyForecast::OfFile(_) | StudyForecast::OnlyFailures(_) => None,
            },
        }
    }
}

/// The warnings: of the file, then those that the store and the machine add.
fn warnings(found: &Findings) -> Vec<Problem> {
    let mut all = problems(&found.study.warnings);
    let warning = |message: String| plain("warning", message, None);
    all.extend(
        found
            .notes
            .missing
            .iter()
            .map(|missing| plain("warning", missing.message.clone(), Some(missing.help.clone()))),
    );
    all.extend(found.notes.steps.iter().cloned().map(warning));
    all.extend(found.unmeasured.iter().map(|why| warning(why.to_string())));
    all
}

/// The problems that a failure stands for; a failure of something else is returned.
fn of_failure(failure: Failure) -> Result<Vec<Problem>, Failure> {
    match failure {
        Failure::StudyFile(error) => Ok(problems(&error.into_diagnostics())),
        Failure::Error { exit: Exit::Usage, error, help } => {
            let help = help.map(|help| help.in_words(""));
            Ok(vec![plain("error", error.to_string(), help)])
        }
        other => Err(other),
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
