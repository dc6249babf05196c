//! What filters look for and no trial of their studies has: probably a typing error.

use crate::report::wording::one_line;
use crate::storage::{StorageError, StorageReader, StudySummary};
use crate::study::condition::Sought;
use crate::study::query::Filter;

/// A term that no trial of a study passes.
struct Absent {
    term: String,
    warning: String,
}

/// Warnings about bare words that no trial contains, and values and names that no trial has, in any
/// of these studies with their filters. Studies without trials do not count.
///
/// # Errors
/// The store failed.
pub fn warnings<'a>(
    reader: &dyn StorageReader,
    filters: impl IntoIterator<Item = (&'a StudySummary, &'a Filter)>,
) -> Result<Vec<String>, StorageError> {
    let mut absent: Option<Vec<Absent>> = None;
    for (study, filter) in filters {
        if study.counts.total() > 0 {
            let here = absent_from(reader, study, filter)?;
            absent = Some(match absent {
                None => here,
                Some(mut absent) => {
                    absent.retain(|one| here.iter().any(|other| other.term == one.term));
                    absent
                }
            });
        }
    }
    Ok(absent.into_iter().flatten().map(|absent| absent.warning).collect())
}

fn absent_from(
    reader: &dyn StorageReader,
    study: &StudySummary,
    filter: &Filter,
) -> Result<Vec<Absent>, StorageError> {
    let mut absent = Vec::new();
    for word in filter.bare_words() {
        if reader.count(study.id, &word)? == 0 {
            let term = word.text().to_owned();
            let warning = format!(
                "no trial holds the text `{term}`; a bare word is looked for in parameters, the \
                 state, the device, tags, notes and the reason"
            );
            absent.push(Absent { term, warning });
        }
    }
    let what = if study.spec.is_tracked() { "run" } else { "trial" };
    for (Sought { term, near, .. }, having) in
        filter.sought(&study.spec, &reader.trial_names(study.id)?)
    {
        if reader.count(study.id, &having)? == 0 {
            let meant = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let warning = one_line(&format!("no {what} has `{term}`{meant}"));
            absent.push(Absent { term, warning });
        }
    }
    Ok(absent)
}
