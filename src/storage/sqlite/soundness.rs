//! Checks the integrity of a store: SQLite's checks of pages, indices, constraints and references,
//! table by table.

use super::SqliteReader;
use crate::storage::StorageError;
use crate::storage::sql::column::{rows, value, values};
use crate::storage::sql::storage_reader::Reads as _;

/// Maximum number of reported problems per table.
const MOST: i64 = 5;

/// The version of the linked SQLite.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

impl SqliteReader {
    /// The version of the store's schema.
    pub fn schema_version(&self) -> Result<i64, StorageError> {
        self.read("reading its version", |connection| {
            value(connection, "SELECT user_version FROM pragma_user_version", ())
        })
    }

    /// All problems of the file, one sentence each; `progress` is called with the number of checked
    /// tables and of all tables.
    pub fn soundness(
        &self,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<String>, StorageError> {
        self.read("checking it", |connection| {
            let names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
            let names: Vec<String> = values(connection, names, ())?;
            let mut problems = Vec::new();
            let all = names.len() as u64;
            for (done, name) in (0_u64..).zip(&names) {
                progress(done, all);
                let check = "SELECT integrity_check FROM pragma_integrity_check(?1) LIMIT ?2";
                let said: Vec<String> = values(connection, check, (name, MOST))?;
                let wrong = said.into_iter().filter(|said| said != "ok");
                problems.extend(wrong.map(|said| format!("table `{name}`: {said}")));
            }
            let dangling =
                "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2";
            problems.extend(rows(connection, dangling, (), |row| {
                let (table, parent, rows): (String, String, i64) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let rows =
                    if rows == 1 { "1 row points".into() } else { format!("{rows} rows point") };
                Ok(format!("table `{table}`: {rows} to rows of `{parent}` that are not there"))
            })?);
            progress(all, all);
            Ok(problems)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::sqlite::SqliteStore;

    #[test]
    fn a_new_store_is_sound_and_a_dangling_row_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hpsearch.db");
        drop(SqliteStore::open(&path).unwrap());
        let mut progressd = Vec::new();
        let sound = SqliteReader::open(&path)
            .unwrap()
            .soundness(&mut |done, of| progressd.push((done, of)))
            .unwrap();
        assert_eq!(sound, Vec::<String>::new());
        assert!(
            progressd.first().unwrap().0 == 0
                && progressd.last().unwrap().0 == progressd.last().unwrap().1
        );
        let outsider = rusqlite::Connection::open(&path).unwrap();
        outsider.pragma_update(None, "foreign_keys", false).unwrap();
        let dangling = "INSERT INTO objective (study_id, idx, metric, direction) VALUES (99, 0, \
            'loss', 'minimize')";
        outsider.execute(dangling, []).unwrap();
        let problems = SqliteReader::open(&path).unwrap().soundness(&mut |_, _| {}).unwrap();
        assert_eq!(
            problems,
            ["table `objective`: 1 row points to rows of `study` that are not there"]
        );
    }

    #[test]
    fn the_schema_has_a_version() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hpsearch.db");
        drop(SqliteStore::open(&path).unwrap());
        assert!(SqliteReader::open(&path).unwrap().schema_version().unwrap() >= 1);
        assert!(sqlite_version().starts_with('3'));
    }
}
