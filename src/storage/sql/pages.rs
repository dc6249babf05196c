//! Finds or counts the trials of a page; of the others, only the columns of the filter and the
//! order are read.

use std::collections::BTreeMap;

use super::connection::Connection;

use super::column::{
    Cells, TRIALS_PER_STUDY, first, number_of, to_limit, trial_id, trial_ids, value, values,
};
use super::fault::Fault;
use super::scan::{Scan, state_condition};
use super::trials;
use crate::storage::StudyId;
use crate::study::condition::Needs;
use crate::study::front;
use crate::study::metric::Direction;
use crate::study::query::{Filter, SortKey, SortPosition, TrialQuery};
use crate::study::spec::Objective;
use crate::study::trial::{Trial, TrialNumber};

/// A page of trials.
pub(in crate::storage) fn page(
    connection: &dyn Connection,
    study: StudyId,
    query: &TrialQuery,
) -> Result<Vec<Trial>, Fault> {
    if let Some((first, last)) = range(connection, study, query)? {
        let mut page = trials::range(connection, study, first, last)?;
        if query.reverse {
            page.reverse();
        }
        return Ok(page);
    }
    trials::listed(connection, study, &ids(connection, study, query)?)
}

/// The numbers of the trials of a page.
pub(in crate::storage) fn numbers(
    connection: &dyn Connection,
    study: StudyId,
    query: &TrialQuery,
) -> Result<Vec<TrialNumber>, Fault> {
    let mut numbers: Vec<TrialNumber> = match range(connection, study, query)? {
        Some((first, last)) => (first..=last).map(number_of).collect(),
        None => return Ok(ids(connection, study, query)?.into_iter().map(number_of).collect()),
    };
    if query.reverse {
        numbers.reverse();
    }
    Ok(numbers)
}

fn ids(connection: &dyn Connection, study: StudyId, query: &TrialQuery) -> Result<Vec<i64>, Fault> {
    if query.limit == 0 {
        return Ok(Vec::new());
    }
    let is_by_value = query.sort == SortKey::Value;
    if query.filter.is_unconditional()
        && is_by_value
        && trials::objectives(connection, study)?.len() == 1
    {
        let direction = trials::direction(connection, study)?;
        let ids = best_ids(connection, study, direction, query)?;
        if u64::try_from(ids.len()).is_ok_and(|found| found == query.limit) {
            return Ok(ids);
        }
        // The page extends beyond the complete trials that keep all limits.
    }
    positions(connection, study, query)?
        .iter()
        .map(|position| trial_id(study, position.number()))
        .collect()
}

/// The sort positions of a page's trials, to merge them with those of other studies.
pub(in crate::storage) fn positions(
    connection: &dyn Connection,
    study: StudyId,
    query: &TrialQuery,
) -> Result<Vec<SortPosition>, Fault> {
    if query.limit == 0 {
        return Ok(Vec::new());
    }
    let objectives = trials::objectives(connection, study)?;
    let direction = objectives.first().map_or(Direction::Minimize, |first| first.direction);
    let ranks = match objectives.len() > 1 && query.sort == SortKey::Value {
        true => Some(ranks(connection, study, &objectives)?),
        false => None,
    };
    let scan = Scan {
        connection,
        study,
        needs: query.needs(),
        states: query.filter.states(),
        spent: query.filter.time_spent(),
    };
    let mut positions: Vec<SortPosition> = Vec::new();
    scan.run(|trial, measured| {
        if query.filter.matches(trial, measured) {
            positions.push(match &ranks {
                Some(ranks) => {
                    let rank = ranks.get(&trial.number).copied().unwrap_or(f64::INFINITY);
                    let value = trial.value.map(|_| direction.loss(rank));
                    query.sort.position(direction, &Trial { value, ..trial.clone() })
                }
                None => query.sort.position(direction, trial),
            });
        }
    })?;
    Ok(cut(positions, query))
}

/// With several objectives, the ranks of complete trials that can be on the front: 0 is best.
fn ranks(
    connection: &dyn Connection,
    study: StudyId,
    objectives: &[Objective],
) -> Result<BTreeMap<TrialNumber, f64>, Fault> {
    let ranked = front::ranked(objectives, &trials::points(connection, study)?);
    Ok(ranked.into_iter().zip((0_u32..).map(f64::from)).collect())
}

/// The positions of the page; those before and after it are not sorted.
fn cut(mut positions: Vec<SortPosition>, query: &TrialQuery) -> Vec<SortPosition> {
    let begin = usize::try_from(query.offset).unwrap_or(usize::MAX);
    let end = begin.saturating_add(usize::try_from(query.limit).unwrap_or(usize::MAX));
    if begin >= positions.len() {
        return Vec::new();
    }
    let compare = |mine: &SortPosition, theirs: &SortPosition| mine.compare(theirs, query.reverse);
    if end < positions.len() {
        positions.select_nth_unstable_by(end, compare);
        positions.truncate(end);
    }
    if begin > 0 {
        positions.select_nth_unstable_by(begin, compare);
        positions.drain(..begin);
    }
    positions.sort_unstable_by(compare);
    positions
}

/// The first and the last id of a page of all trials by number, where numbers have no gaps. The
/// last is before the first where there are none. `None`: the page is not one range.
fn range(
    connection: &dyn Connection,
    study: StudyId,
    query: &TrialQuery,
) -> Result<Option<(i64, i64)>, Fault> {
    if !query.filter.is_all() || query.sort != SortKey::Number {
        return Ok(None);
    }
    let (least, most) = trial_ids(study);
    let removed = "SELECT 1 FROM removed_run WHERE trial_id BETWEEN ?1 AND ?2";
    if connection.exists(removed, [least, most])? {
        return Ok(None);
    }
    let newest = "SELECT max(id) FROM trial WHERE id BETWEEN ?1 AND ?2";
    let newest: Option<i64> = value(connection, newest, [least, most])?;
    let newest = newest.unwrap_or(least - 1);
    let (offset, length) = (to_limit(query.offset), to_limit(query.limit));
    Ok(Some(if query.reverse {
        let last = newest.saturating_sub(offset);
        (last.saturating_sub(length).saturating_add(1).max(least), last)
    } else {
        let first = least.saturating_add(offset);
        (first, first.saturating_add(length).saturating_sub(1).min(newest))
    }))
}

/// Whether an order is reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) enum Reverse {
    No,
    Yes,
}

/// Which complete trials that violate no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) enum Which {
    All,
    /// Those that are not hidden.
    Visible,
}

/// SQL for the complete trials of the study `?1` that violate no limit and whose value is not NaN,
/// the best first: as `v`, in the order of an index.
pub(in crate::storage) fn ranked(direction: Direction, reverse: Reverse, which: Which) -> String {
    let order =
        if (direction == Direction::Maximize) == (reverse == Reverse::No) { "DESC" } else { "ASC" };
    let condition = match which {
        Which::All => "",
        Which::Visible => " AND t.hidden = 0",
    };
    format!(
        "FROM trial_value v CROSS JOIN trial t ON t.id = v.trial_id
         WHERE v.idx = 0 AND v.trial_id / {TRIALS_PER_STUDY} = ?1 AND v.value IS NOT NULL AND \
         t.state = 'complete' AND t.violation IS NULL{condition} \
         ORDER BY v.value {order}, v.trial_id"
    )
}

/// The ids of a page of complete trials that violate no limit, by their values: NaN is worst. It
/// has fewer where it goes beyond them.
fn best_ids(
    connection: &dyn Connection,
    study: StudyId,
    direction: Direction,
    query: &TrialQuery,
) -> Result<Vec<i64>, Fault> {
    let which = if query.filter.is_all() { Which::All } else { Which::Visible };
    let worst = format!(
        "SELECT v.trial_id FROM trial_value v CROSS JOIN trial t ON t.id = v.trial_id
         WHERE v.idx = 0 AND v.trial_id / {TRIALS_PER_STUDY} = ?1 AND v.value IS NULL AND t.state \
         = 'complete' AND t.violation IS NULL{} ORDER BY v.trial_id LIMIT ?2 OFFSET ?3",
        if which == Which::Visible { " AND t.hidden = 0" } else { "" }
    );
    let reverse = if query.reverse { Reverse::Yes } else { Reverse::No };
    let others =
        format!("SELECT v.trial_id {} LIMIT ?2 OFFSET ?3", ranked(direction, reverse, which));
    let ids = |sql: &str, limit: u64, offset: u64| -> Result<Vec<i64>, Fault> {
        values(connection, sql, [study.0, to_limit(limit), to_limit(offset)])
    };
    if !query.reverse {
        return ids(&others, query.limit, query.offset);
    }
    let end = query.offset.saturating_add(query.limit);
    let nan = ids(&worst, end, 0)?;
    let known = nan.len() as u64;
    let mut page: Vec<i64> =
        nan.into_iter().skip(usize::try_from(query.offset).unwrap_or(usize::MAX)).collect();
    let missing = query.limit - (page.len() as u64).min(query.limit);
    page.extend(ids(&others, missing, query.offset.saturating_sub(known))?);
    Ok(page)
}

/// The number of trials that pass a filter.
pub(in crate::storage) fn count(
    connection: &dyn Connection,
    study: StudyId,
    filter: &Filter,
) -> Result<u64, Fault> {
    if filter.is_about_states_only() {
        let sql = format!(
            "SELECT count(*) FROM trial WHERE study_id = ?1{}",
            state_condition(filter.states().as_deref())
        );
        let count = first(connection, &sql, [study.0], |row| {
            Cells::of(row, || format!("table `trial`, study {}", study.0)).integer(0)
        })?;
        return Ok(count.unwrap_or(0));
    }
    let mut needs = Needs::default();
    filter.add_needs(&mut needs);
    let mut count = 0;
    Scan { connection, study, needs, states: filter.states(), spent: filter.time_spent() }
        .run(|trial, measured| count += u64::from(filter.matches(trial, measured)))?;
    Ok(count)
}
