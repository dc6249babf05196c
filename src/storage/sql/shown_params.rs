//! The parameters that the values shown of members of a population were measured with, where they
//! are not the members' last ones, which are in table `param`.

use std::collections::BTreeMap;

use super::column::{Cells, first, number_of, rows, trial_id};
use super::connection::Connection;
use super::fault::Fault;
use super::trials;
use crate::storage::{StorageError, StudyId};
use crate::study::params::Params;
use crate::study::spec::{StudySpec, ValueRule};
use crate::study::state::replaced_params;
use crate::study::time::Timestamp;
use crate::study::trial::{Origin, Trial, TrialNumber};

/// Of the trials with ids from the first to the last of a range, those whose value was measured
/// with others than their last parameters, with these. Studies without populations have none, and
/// cost one query.
pub(super) fn replaced(
    connection: &dyn Connection,
    study: StudyId,
    range: [i64; 2],
) -> Result<BTreeMap<TrialNumber, Params>, Fault> {
    let sql = "SELECT trial_id, step, from_number, digest, replaced, reason FROM segment \
        WHERE trial_id BETWEEN ?1 AND ?2 ORDER BY trial_id, seq";
    let mut members: BTreeMap<TrialNumber, Trial> = BTreeMap::new();
    for (id, segment) in
        rows(connection, sql, range, |row| Ok((row.get(0)?, trials::segment(row)?)))?
    {
        let new = || Trial::new(number_of(id), Params::new(), Origin::Asked, Timestamp(0));
        members.entry(number_of(id)).or_insert_with(new).segments.push(segment);
    }
    if members.is_empty() {
        return Ok(BTreeMap::new());
    }
    let spec = spec(connection, study)?;
    let mut replaced = BTreeMap::new();
    for (number, mut member) in members {
        if spec.value == ValueRule::Last && !spec.has_several_objectives() {
            // Its last report is enough: that of its value, if it has one.
            let metric = &spec.objective().metric;
            member.curve.extend(last_step(connection, study, number, metric)?);
        } else if let Some(whole) = trials::one(connection, study, number)? {
            member = whole;
        }
        if let Some(params) = replaced_params(&spec, &member) {
            replaced.insert(number, params.clone());
        }
    }
    Ok(replaced)
}

fn spec(connection: &dyn Connection, study: StudyId) -> Result<StudySpec, Fault> {
    let spec = first(connection, "SELECT spec FROM study WHERE id = ?1", [study.0], |row| {
        Cells::of(row, || format!("table `study`, id {}", study.0)).json(0)
    })?;
    spec.ok_or_else(|| StorageError::NoStudy { study, name: None }.into())
}

/// The last step at which a trial reported a metric, as a point of its curve.
fn last_step(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
    metric: &str,
) -> Result<Option<(u64, f64)>, Fault> {
    let sql = "SELECT max(step) FROM report WHERE trial_id = ?1 AND metric_id = \
        (SELECT id FROM metric WHERE name = ?2)";
    let id = trial_id(study, trial)?;
    let step = first(connection, sql, (id, metric), |row| {
        Cells::of(row, || format!("table `report`, trial {id}")).optional_integer(0)
    })?;
    Ok(step.flatten().map(|step| (step, f64::NAN)))
}
