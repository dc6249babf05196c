//! Finds the study that is named after something of another tool, which may be called in a way that
//! no study can be.

use super::AppError;
use crate::report::wording::one_line;
use crate::storage::{StorageReader, StoredStudy};
use crate::study::spec::StudySpec;
use crate::tracking::import::{LONGEST, study_name};

/// The name of the study for what another tool calls `original`; `None` if none can be derived.
/// Among the studies that derive the same name, it is the one whose description is `original`, or
/// that `is_known`; else it is the first name that no study has and that is not `taken`.
///
/// # Errors
/// The store failed.
pub(super) fn named_after(
    reader: Option<&dyn StorageReader>,
    original: &str,
    taken: impl Fn(&str) -> bool,
    mut is_known: impl FnMut(&StoredStudy) -> Result<bool, AppError>,
) -> Result<Option<String>, AppError> {
    let Some(derived) = study_name(original) else { return Ok(None) };
    let (mut name, mut count) = (derived.clone(), 2_u64);
    loop {
        let study = reader.map(|reader| reader.study(&name)).transpose()?.flatten();
        let is_it = match &study {
            Some(study) => is_of(&study.spec, original) || is_known(study)?,
            None => !taken(&name),
        };
        if is_it {
            return Ok(Some(name));
        }
        let end = format!("-{count}");
        let begin: String = derived.chars().take(LONGEST - end.len()).collect();
        name = begin + &end;
        count += 1;
    }
}

/// Whether a study is named after `original`: a derived name has it as the study's description.
fn is_of(spec: &StudySpec, original: &str) -> bool {
    match &spec.description {
        Some(description) if spec.is_tracked() => description == original,
        Some(description) if description == original => true,
        // It is named after something else.
        Some(description) if study_name(description).as_ref() == Some(&spec.name) => false,
        _ => spec.name == original,
    }
}

/// `exp/1` is the study `exp-1` here
pub(super) fn in_words(original: &str, name: &str) -> String {
    let original = one_line(original);
    format!("`{original}` is the study `{name}` here; `--study NAME` names another one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::is_study_name;
    use crate::storage::conformance::small_study;
    use crate::study::metric::Direction;

    #[test]
    fn a_long_name_that_is_taken_leaves_room_for_its_number() {
        let long = "a/b".repeat(60);
        let first = study_name(&long).unwrap();
        let name = named_after(None, &long, |name| name == first, |_| Ok(false)).unwrap().unwrap();
        assert!(is_study_name(&name) && name.ends_with("-2"), "{name}");
    }

    #[test]
    fn a_study_that_is_named_after_something_else_is_not_that_of_its_own_name() {
        let mut spec = small_study("exp-1", Direction::Minimize);
        assert!(is_of(&spec, "exp-1") && !is_of(&spec, "exp/1"));
        spec.description = Some("exp/1".to_owned());
        assert!(is_of(&spec, "exp/1") && !is_of(&spec, "exp-1"));
        spec.description = Some("what it is for".to_owned());
        assert!(is_of(&spec, "exp-1"));
    }
}
