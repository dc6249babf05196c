//! `hpsearch ls`: the studies of a store.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::OutputForm;
use super::console::{Console, life};
use super::exit::{Exit, Failure};
use super::trial_json::{BestJson, CountsJson, VERSION};
use crate::metric::{Direction, Number};
use crate::reporters::progress::Progress;
use crate::reporters::table::{Align, Column};
use crate::reporters::wording::{HolderLife, StudyState, duration, micros, number, one_line};
use crate::runner;
use crate::storage::{StorageReader, StudySummary};

/// What `hpsearch ls` is told.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch ls\n  hpsearch ls --json | jq '.studies[].best'")]
pub struct LsArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Listing<'a> {
    version: u32,
    studies: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    state: &'static str,
    /// Why it is over, or paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    trials: CountsJson,
    best: Option<BestJson>,
    metric: &'a str,
    direction: Direction,
}

/// Lists the studies.
pub fn ls(arguments: &LsArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let studies = reader.studies()?;
    match OutputForm::from(arguments.json) {
        OutputForm::Json => console.json(&Listing { version: VERSION, studies: studies.iter().map(line).collect() })?,
        OutputForm::Text if studies.is_empty() => console.say("the store holds no study yet: `hpsearch run study.toml` starts one"),
        OutputForm::Text => {
            let spent = studies.iter().map(|study| Ok(duration(elapsed(&reader, study)?))).collect::<Result<_, Failure>>()?;
            console.table(&columns(&studies, spent))?;
        }
    }
    Ok(Exit::Done)
}

fn line(study: &StudySummary) -> Line<'_> {
    let objective = study.spec.objective();
    Line {
        name: &study.spec.name,
        state: state(study).as_str(),
        reason: study.finished.as_deref().or(study.paused.as_deref()),
        trials: study.counts.into(),
        best: study.best.map(|(number, value)| BestJson { number: number.0, value: Number(value) }),
        metric: &objective.metric,
        direction: objective.direction,
    }
}

/// A study's state, the life of its runner looked up.
pub fn state(study: &StudySummary) -> StudyState {
    StudyState::new(study, study.held.as_ref().map_or(HolderLife::Dead, life))
}

/// The time that runners spent on a study up to now.
pub fn elapsed(reader: &dyn StorageReader, study: &StudySummary) -> Result<Duration, Failure> {
    let (ran, since) = reader.running_since(study.id)?;
    // A runner that died left its beginning behind; the clock stopped when it did.
    let since = since.filter(|_| state(study) == StudyState::Running);
    Ok(micros(ran) + since.map_or(Duration::ZERO, |since| runner::now().since(since)))
}

fn columns(studies: &[StudySummary], spent: Vec<String>) -> Vec<Column> {
    let cells = |cell: &dyn Fn(&StudySummary) -> String| studies.iter().map(cell).collect::<Vec<_>>();
    let trials = |study: &StudySummary| {
        let progress = Progress::new(&study.spec, study.search_counts(), Duration::ZERO, Duration::ZERO);
        progress.of.map_or_else(|| progress.done.to_string(), |of| format!("{}/{of}", progress.done))
    };
    vec![
        Column::new("study", Align::Left, cells(&|study| one_line(&study.spec.name))),
        Column::new("state", Align::Left, cells(&|study| state(study).as_str().to_owned())),
        Column::new("trials", Align::Right, cells(&trials)),
        Column::new("best", Align::Point, cells(&|study| study.best.map_or_else(String::new, |(_, value)| number(value)))),
        Column::new("trial", Align::Right, cells(&|study| study.best.map_or_else(String::new, |(trial, _)| trial.to_string()))),
        Column::new("metric", Align::Left, cells(&|study| one_line(&study.spec.objective().metric))),
        Column::new("goal", Align::Left, cells(&|study| study.spec.direction().as_str().to_owned())),
        Column::new("time", Align::Right, spent),
    ]
}
