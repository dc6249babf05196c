//! Reads the journal. Rare events are found by the prefix of their JSON, so that a long journal is
//! not parsed.

use super::column::{Cells, rows, to_limit, value};
use super::connection::{Connection, Row};
use super::fault::Fault;
use crate::storage::{Remarked, StoredAgent, StudyId};
use crate::study::event::{Event, ProposalEvent, Seq, StudyEvent, TrialEvent};
use crate::study::prediction::Prediction;
use crate::study::time::Timestamp;
use crate::study::trial::TrialNumber;

/// The journal after `seq`.
pub(in crate::storage) fn events_after(
    connection: &dyn Connection,
    study: StudyId,
    seq: Seq,
    limit: u64,
) -> Result<Vec<(Seq, Timestamp, Event)>, Fault> {
    let sql =
        "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    rows(connection, sql, (study.0, seq.0, to_limit(limit)), entry)
}

/// The end of the journal before `seq`.
pub(in crate::storage) fn events_before(
    connection: &dyn Connection,
    study: StudyId,
    seq: Seq,
    limit: u64,
) -> Result<Vec<(Seq, Timestamp, Event)>, Fault> {
    let newest_first = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq < ?2 ORDER BY \
        seq DESC LIMIT ?3";
    let mut events = rows(connection, newest_first, (study.0, seq.0, to_limit(limit)), entry)?;
    events.reverse();
    Ok(events)
}

/// A row of table `event`.
pub(in crate::storage) fn entry(row: &dyn Row) -> Result<(Seq, Timestamp, Event), Fault> {
    let seq = Seq(row.get(0)?);
    let cells = Cells::of(row, || format!("table `event`, seq {}", seq.0));
    Ok((seq, Timestamp(cells.get(1)?), cells.json(2)?))
}

/// The remarks on a trial's lines after `seq`, and the journal's last position.
pub(in crate::storage) fn remarks(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
    seq: Seq,
) -> Result<(Vec<Remarked>, Seq), Fault> {
    let last = last_event(connection, study)?;
    let begin = format!("{{\"type\":\"remarked\",\"trial\":{trial},");
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND seq > ?2 AND seq <= ?3 AND \
        substr(body, 1, length(?4)) = ?4 ORDER BY seq";
    let entries = rows(connection, sql, (study.0, seq.0, last.0, begin), entry)?;
    Ok((entries.into_iter().filter_map(|(_, _, event)| Remarked::of(event)).collect(), last))
}

/// The events of a trial.
pub(in crate::storage) fn events_of(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<(Seq, Timestamp, Event)>, Fault> {
    let [followed, alone] =
        [",%", "}"].map(|rest| format!("{{\"type\":\"%\",\"trial\":{trial}{rest}"));
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND (body LIKE ?2 OR body LIKE \
        ?3) ORDER BY seq";
    let mut events = rows(connection, sql, (study.0, followed, alone), entry)?;
    events.retain(|(_, _, event)| event.trial() == Some(trial));
    Ok(events)
}

/// What was predicted of a trial when it was created.
pub(in crate::storage) fn predicted(
    connection: &dyn Connection,
    study: StudyId,
    trial: TrialNumber,
) -> Result<Vec<Prediction>, Fault> {
    let begin = format!("{{\"type\":\"trial_created\",\"trial\":{trial},");
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND \
        substr(body, 1, length(?2)) = ?2 ORDER BY seq LIMIT 1";
    let created = rows(connection, sql, (study.0, begin), entry)?.pop();
    Ok(match created {
        Some((
            _,
            _,
            Event::Trial(_, TrialEvent::Proposal(ProposalEvent::TrialCreated { predicted, .. })),
        )) => predicted,
        _ => Vec::new(),
    })
}

/// Whether the last end of a study was that too many trials failed. The end of its journal is read:
/// a finished study has little after its end.
pub(in crate::storage) fn ended_by_failures(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<bool, Fault> {
    let begin = "{\"type\":\"study_finished\",";
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND \
        substr(body, 1, length(?2)) = ?2 ORDER BY seq DESC LIMIT 1";
    let end = rows(connection, sql, (study.0, begin), entry)?.pop();
    Ok(matches!(
        end,
        Some((_, _, Event::Study(StudyEvent::Finished { too_many_failures: true, .. })))
    ))
}

/// The agents that came, in order.
pub(in crate::storage) fn agents(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<StoredAgent>, Fault> {
    let begin = "{\"type\":\"agent_changed\",";
    let sql = "SELECT seq, at, body FROM event WHERE study_id = ?1 AND \
        substr(body, 1, length(?2)) = ?2 ORDER BY seq";
    let entries = rows(connection, sql, (study.0, begin), entry)?;
    Ok(entries.into_iter().filter_map(|(_, at, event)| StoredAgent::of(at, event)).collect())
}

/// The journal's last position; 0 before the first event.
pub(in crate::storage) fn last_event(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Seq, Fault> {
    let sql = "SELECT coalesce(max(seq), 0) FROM event WHERE study_id = ?1";
    value(connection, sql, [study.0]).map(Seq)
}
