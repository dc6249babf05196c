//! Which variables of `[command] env` have other values than when the study was last run: their values are stored nowhere.

use super::exit::Failure;
use crate::config::Change;
use crate::runner::surroundings::environment;
use crate::storage::sqlite::SqliteReader;
use crate::storage::{StorageReader, StudyId};
use crate::study::spec::StudySpec;

/// The variables that had another value in the last run, as changes that are taken without a word. Those that came or went
/// are changes of the specification.
pub fn changes(
    reader: &SqliteReader,
    study: StudyId,
    spec: &StudySpec,
) -> Result<Vec<Change>, Failure> {
    let now = environment(spec, &reader.salt()?);
    if now.is_empty() {
        return Ok(Vec::new());
    }
    let runners = reader.runners(study)?;
    let before = runners
        .iter()
        .rev()
        .find_map(|runner| runner.lineage.as_ref())
        .map_or(&[][..], |lineage| &lineage.environment);
    let is_other = |name: &str, digest: &str| {
        before.iter().any(|variable| variable.name == name && variable.digest != digest)
    };
    let changed = now.iter().filter(|variable| is_other(&variable.name, &variable.digest));
    Ok(changed.map(|variable| Change::of_value(&variable.name)).collect())
}
