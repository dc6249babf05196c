//! `hpsearch ls`: the studies of a store.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::selection::readable;
use super::study_columns::columns;
use super::trial_json::{BestJson, FrontJson, ObjectiveJson, as_instant, objectives};
use super::{Console, Exit, Failure};
use crate::app::find::{self, Archived, is_archived};
use crate::app::study_state::{elapsed, last_event, state_in};
use crate::report::table::{Align, Column};
use crate::report::wording::{StudyStatus, ago, duration};
use crate::runner;
use crate::storage::StudySummary;
use crate::study::metric::Direction;
use crate::study::state::Counts;
use crate::study::time::Timestamp;

/// Arguments of `hpsearch ls`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  hpsearch ls
  hpsearch ls --study 'sms*'       those whose names begin like this
  hpsearch ls --all                archived studies, too
  hpsearch ls --json | jq '.studies[].best'")]
pub struct LsArguments {
    /// List archived studies, too
    #[arg(long)]
    pub all: bool,
    /// Studies by a pattern of their names, such as 'sms*', as often as needed
    #[arg(long = "study", value_name = "PATTERN", conflicts_with = "all")]
    pub patterns: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ListedStudyJson<'a> {
    name: &'a str,
    state: &'static str,
    /// Why it is finished or paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    trials: Counts,
    #[serde(serialize_with = "as_instant")]
    created: Timestamp,
    /// When its last event was recorded.
    #[serde(serialize_with = "as_instant")]
    updated: Timestamp,
    best: Option<BestJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<FrontJson<'a>>,
    metric: &'a str,
    direction: Direction,
    #[serde(skip_serializing_if = "Option::is_none")]
    objectives: Option<Vec<ObjectiveJson>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    archived: bool,
}

/// Lists the studies.
pub fn ls(arguments: &LsArguments, console: &mut Console) -> Result<Exit, Failure> {
    let reader = console.reader()?;
    let found = if arguments.patterns.is_empty() {
        find::all(&reader, Archived::Listed)?
    } else {
        find::matching(&reader, &arguments.patterns)?
    };
    let is_empty = found.studies.is_empty() && found.skipped.is_empty();
    let mut studies = readable(found, console);
    let known = studies.len();
    if !arguments.all && arguments.patterns.is_empty() {
        studies.retain(|study| !is_archived(study));
    }
    let archived = (known - studies.len()) as u64;
    let states = studies.iter().map(|study| state_in(&reader, study));
    let states: Vec<StudyStatus> = states.collect::<Result<_, _>>()?;
    let updated = studies.iter().map(|study| last_event(&reader, study));
    let updated: Vec<Timestamp> = updated.collect::<Result<_, _>>()?;
    if arguments.json {
        let lines = studies.iter().zip(&states).zip(&updated);
        let lines = lines.map(|((study, state), updated)| line(study, *state, *updated));
        let studies: Vec<ListedStudyJson> = lines.collect();
        return console.json(None, &BTreeMap::from([("studies", studies)]));
    }
    if is_empty {
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
    let now = runner::now();
    let ages = updated.iter().map(|updated| ago(now.since(*updated))).collect();
    columns.push(Column::new("updated", Align::Right, ages).optional());
    if !studies.is_empty() {
        console.table(&columns)?;
    }
    if archived > 0 {
        let all = console.next("ls --all");
        let what = if archived == 1 { "archived study is" } else { "archived studies are" };
        console.say(&format!("{archived} {what} left out: {all} lists all"));
    }
    Ok(Exit::Done)
}

fn line(study: &StudySummary, state: StudyStatus, updated: Timestamp) -> ListedStudyJson<'_> {
    let objective = study.spec.objective();
    ListedStudyJson {
        name: &study.spec.name,
        state: state.as_str(),
        reason: study.finished.as_deref().or(study.paused.as_deref()),
        trials: study.counts,
        created: study.created,
        updated,
        best: study.best.map(BestJson::from),
        front: study.front.as_ref().map(FrontJson::from),
        objectives: objectives(&study.spec),
        metric: &objective.metric,
        direction: objective.direction,
        archived: is_archived(study),
    }
}
