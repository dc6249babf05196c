//! What a trial of a population came from, and who came from it.

use serde::Serialize;

use super::AppError;
use crate::pruners::{self, POPULATION};
use crate::report::populations::{family_tree, stage_lines};
use crate::storage::{StorageReader, StudySummary};
use crate::study::params::Params;
use crate::study::schedule::{Stage, schedule};
use crate::study::state::shown_step;
use crate::study::trial::{Trial, TrialNumber};

/// The relations of a member of a population.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Family {
    /// The stages that led to the value that is shown of it.
    pub schedule: Vec<StageJson>,
    /// Copies of its states: which trial, and the step.
    pub copies: Vec<CopyJson>,
    /// The stages in words, one line each.
    #[serde(skip)]
    pub stage_lines: Vec<String>,
    /// The family tree of its population, one line for each state that was copied.
    #[serde(skip)]
    pub tree: Vec<String>,
}

/// A stage of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageJson {
    trial: TrialNumber,
    start: u64,
    end: u64,
    params: Params,
    digest: Option<String>,
}

/// A copy of a state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CopyJson {
    trial: TrialNumber,
    step: u64,
}

/// The relations of a trial of a population; `None` for others.
///
/// # Errors
/// The store cannot be read.
pub fn family(
    reader: &dyn StorageReader,
    study: &StudySummary,
    trial: &Trial,
) -> Result<Option<Family>, AppError> {
    if !pruners::is_population(&study.spec.pruner) {
        return Ok(None);
    }
    let state = reader.study_state(study.id)?;
    let step = shown_step(&study.spec, trial).unwrap_or_default();
    let stages = schedule(|number| state.trial(number), trial.number, step);
    let size = POPULATION.of::<u64>(&study.spec.pruner).max(1);
    let is_member = |member: &&Trial| member.number.0 / size == trial.number.0 / size;
    let members: Vec<Trial> = state.trials.iter().filter(is_member).cloned().collect();
    let copies = members.iter().flat_map(|member| {
        let of_this = member.segments.iter().filter(|segment| segment.from == trial.number);
        of_this.map(|segment| CopyJson { trial: member.number, step: segment.start })
    });
    Ok(Some(Family {
        copies: copies.collect(),
        stage_lines: stage_lines(study.spec.step, &stages),
        tree: family_tree(study.spec.step, &members, &stages),
        schedule: stages.into_iter().map(StageJson::from).collect(),
    }))
}

impl From<Stage> for StageJson {
    fn from(stage: Stage) -> Self {
        let Stage { trial, start, end, params, digest } = stage;
        StageJson { trial, start, end, params, digest }
    }
}
