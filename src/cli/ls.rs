//! `hpsearch ls`: the studies of a store.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::study_columns::columns;
use super::trial_json::BestJson;
use super::{Console, Exit, Failure};
use crate::app::study_state::{elapsed, state_in};
use crate::report::table::{Align, Column};
use crate::report::wording::{StudyStatus, duration};
use crate::storage::{StorageReader, StudySummary};
use crate::study::metric::Direction;
use crate::study::state::Counts;

/// Arguments of `hpsearch ls`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  hpsearch ls\n  hpsearch ls --json | jq '.studies[].best'")]
pub struct LsArguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    state: &'static str,
    /// Why it is over, or paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    trials: Counts,
    best: Option<BestJson>,
    metric: &'a str,
    direction: Direction,
}

/// Lists the studies.
pub fn ls(arguments: &LsArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let studies = reader.studies()?;
    let states = studies.iter().map(|study| state_in(&reader, study));
    let states: Vec<StudyStatus> = states.collect::<Result<_, _>>()?;
    if arguments.json {
        let lines = studies.iter().zip(&states).map(|(study, state)| line(study, *state));
        let studies: Vec<Line> = lines.collect();
        return console.json(None, &BTreeMap::from([("studies", studies)]));
    }
    if studies.is_empty() {
        let run = console.next("run study.toml");
        console.say(&format!("the store holds no study yet: {run} starts one"));
        return Ok(Exit::Done);
    }
    let spent = studies.iter().map(|study| Ok(duration(elapsed(&reader, study)?)));
    let known = |study: &StudySummary| {
        let place = studies.iter().position(|other| other.id == study.id);
        place.and_then(|place| states.get(place).copied()).unwrap_or(StudyStatus::New)
    };
    let mut columns = columns(&studies, &known);
    columns.push(Column::new("time", Align::Right, spent.collect::<Result<_, Failure>>()?));
    console.table(&columns)?;
    Ok(Exit::Done)
}

fn line(study: &StudySummary, state: StudyStatus) -> Line<'_> {
    let objective = study.spec.objective();
    Line {
        name: &study.spec.name,
        state: state.as_str(),
        reason: study.finished.as_deref().or(study.paused.as_deref()),
        trials: study.counts,
        best: study.best.map(BestJson::from),
        metric: &objective.metric,
        direction: objective.direction,
    }
}
