//! Reads requests, and their answers.

use super::column::{Cells, first, rows};
use super::connection::{Cell, Connection};
use super::fault::Fault;
use crate::storage::{StoredRequest, StudyId};
use crate::study::request::{Request, RequestAnswer};

/// Requests not yet served, oldest first.
pub(in crate::storage) fn pending_requests(
    connection: &dyn Connection,
    study: StudyId,
) -> Result<Vec<StoredRequest>, Fault> {
    let sql = "SELECT id, body FROM request WHERE study_id = ?1 AND served_at IS NULL ORDER BY id";
    rows(connection, sql, [study.0], |row| {
        // An unreadable request must not prevent running the study: it is refused when it is
        // served.
        let read = match row.cell(1) {
            Ok(Cell::Text(text)) => serde_json::from_str(text).map_err(|error| error.to_string()),
            _ => Err("it is not text in UTF-8".to_owned()),
        };
        let request = read.unwrap_or_else(|why| Request::Unreadable { why });
        Ok(StoredRequest { id: row.get(0)?, request })
    })
}

/// The answer to a request.
pub(in crate::storage) fn answer(
    connection: &dyn Connection,
    study: StudyId,
    id: i64,
) -> Result<Option<RequestAnswer>, Fault> {
    let sql =
        "SELECT answer FROM request WHERE study_id = ?1 AND id = ?2 AND served_at IS NOT NULL";
    let served = first(connection, sql, [study.0, id], |row| {
        Cells::of(row, || format!("table `request`, id {id}")).optional_json(0)
    })?;
    // Requests served by older versions have no answer.
    Ok(served.map(|answer| answer.unwrap_or_else(|| RequestAnswer::Done(String::new()))))
}
