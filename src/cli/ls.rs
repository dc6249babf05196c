//! `hpsearch ls`: the studies of a store.

use clap::Args;
use serde::Serialize;

use super::OutputForm;
use super::console::Console;
use super::exit::{Exit, Failure};
use super::study_columns::columns;
use super::trial_json::{BestJson, CountsJson, VERSION};
use crate::app::study_state::{elapsed, state};
use crate::report::table::{Align, Column};
use crate::report::wording::duration;
use crate::storage::{StorageReader, StudySummary};
use crate::study::metric::{Direction, Number};

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
        OutputForm::Json => console
            .json(&Listing { version: VERSION, studies: studies.iter().map(line).collect() })?,
        OutputForm::Text if studies.is_empty() => {
            console.say(&format!(
                "the store holds no study yet: {} starts one",
                console.next("run study.toml")
            ));
        }
        OutputForm::Text => {
            let spent = studies
                .iter()
                .map(|study| Ok(duration(elapsed(&reader, study)?)))
                .collect::<Result<_, Failure>>()?;
            let mut columns = columns(&studies);
            columns.push(Column::new("time", Align::Right, spent));
            console.table(&columns)?;
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
