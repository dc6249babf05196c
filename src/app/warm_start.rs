//! Warm start: copies the trials of earlier studies into a new study's specification.

use super::{AppError, find, import_optuna};
use crate::samplers::{Taken, earlier};
use crate::storage::address::as_given;
use crate::storage::any::AnyReader;
use crate::storage::{StorageReader, StudySummary};
use crate::study::history::History;
use crate::study::metric::Direction;
use crate::study::spec::StudySpec;
use crate::study::state::{replaced_params, value_of};

/// An earlier study, and what it contributes.
#[derive(Debug)]
pub struct WarmStartSource {
    /// The earlier study.
    pub study: StudySummary,
    /// Trials taken, and what was dropped.
    pub taken: Taken,
}

/// Fills in the trials of the studies that `spec` names: those stored with `known`, the stored
/// study, if the names are unchanged; else the present ones.
///
/// # Errors
/// A store cannot be read, a study is missing, or none of its trials fits.
pub fn take(
    spec: &mut StudySpec,
    known: Option<&StudySpec>,
    store: &dyn StorageReader,
) -> Result<Vec<WarmStartSource>, AppError> {
    if let Some(known) = known.filter(|known| known.warm_start == spec.warm_start) {
        spec.earlier.clone_from(&known.earlier);
        return Ok(Vec::new());
    }
    let mut every = Vec::new();
    for entry in spec.warm_start.clone() {
        let unreadable = |source| AppError::WarmStartUnreadable {
            entry: entry.clone(),
            source: Box::new(source),
        };
        let (path, name) = parts(&entry);
        let path = path.map(|path| as_given(path.into()));
        let opened: Option<Box<dyn StorageReader>> = match path.as_deref() {
            None => None,
            Some(path) => Some(match import_optuna::in_memory(path)? {
                Some(optuna) => Box::new(optuna),
                None => Box::new(AnyReader::open(path).map_err(unreadable)?),
            }),
        };
        let reader: &dyn StorageReader = opened.as_deref().unwrap_or(store);
        let studies = match name.map(|name| find::study(reader, Some(name))) {
            None => reader.studies().map_err(unreadable)?,
            Some(Err(AppError::UnknownStudy { names, .. })) => {
                return Err(AppError::WarmStartUnknown { entry, names });
            }
            Some(study) => vec![study?],
        };
        let before = spec.earlier.len();
        for study in
            studies.into_iter().filter(|study| path.is_some() || study.spec.name != spec.name)
        {
            let mut state = reader.study_state(study.id).map_err(unreadable)?;
            // What a member of a population was worth with its last parameters is unknown.
            for trial in &mut state.trials {
                if let Some(params) = replaced_params(&study.spec, trial).cloned() {
                    trial.params = params;
                }
            }
            // Which report is a trial's best depends on the direction.
            let own = own_direction(&study.spec, spec);
            let with_values = state.trials.iter_mut().filter(|trial| trial.value.is_some());
            for trial in with_values.filter(|trial| !trial.curve.is_empty()) {
                if let Some(own) = own {
                    trial.value = value_of(study.spec.value, own, trial);
                }
            }
            let history = match own {
                Some(own) => History::of(&state.trials, own).with_step_unit(state.step_unit()),
                None => History::new(&state),
            };
            let taken = earlier(&spec.space, history);
            spec.earlier.extend(taken.trials.iter().cloned());
            every.push(WarmStartSource { study, taken });
        }
        if spec.earlier.len() == before {
            return Err(AppError::WarmStartEmpty { entry });
        }
    }
    spec.earlier.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    Ok(every)
}

/// The direction by which trials of an earlier study are ranked, if it is this study's instead of
/// theirs: that of the same metric.
pub fn own_direction(theirs: &StudySpec, ours: &StudySpec) -> Option<Direction> {
    match (theirs.objectives.as_slice(), ours.objectives.as_slice()) {
        ([theirs], [own]) if theirs.metric == own.metric => {
            Some(own.direction).filter(|own| *own != theirs.direction)
        }
        _ => None,
    }
}

/// Whether an entry names a study of the same store.
pub fn names_study(entry: &str, study: &str) -> bool {
    parts(entry) == (None, Some(study))
}

/// `path/to/store.db:study`, `path/to/store.db` or `study`.
fn parts(entry: &str) -> (Option<&str>, Option<&str>) {
    let is_store = |path: &str| {
        path.ends_with(".db") || path.ends_with(".sqlite") || path.ends_with(".sqlite3")
    };
    match entry.rsplit_once(':') {
        Some((path, study)) if is_store(path) => (Some(path), Some(study)),
        _ if is_store(entry) => (Some(entry), None),
        _ => (None, Some(entry)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_store_a_study_of_a_store_or_a_study() {
        assert_eq!(parts("runs/old.db"), (Some("runs/old.db"), None));
        assert_eq!(parts("runs/old.db:digits"), (Some("runs/old.db"), Some("digits")));
        assert_eq!(parts("digits"), (None, Some("digits")));
        assert_eq!(parts("a:b"), (None, Some("a:b")));
    }
}
