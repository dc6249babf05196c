//! `warm_start`: what a new study takes from earlier ones, said and written into it.

use std::path::Path;

use super::console::Console;
use super::exit::Failure;
use super::named_study;
use crate::history::History;
use crate::reporters::wording::{count, one_line};
use crate::samplers::{Taken, earlier};
use crate::storage::sqlite::SqliteReader;
use crate::storage::{StorageReader, StudySummary};
use crate::study::StudySpec;

/// Fills in the trials of the studies that the study file names: those that were kept with `known`, the study as it is stored, if the
/// names are the same; else those of the stores as they are now.
pub fn settle(spec: &mut StudySpec, known: Option<&StudySpec>, store: &dyn StorageReader, console: &mut Console) -> Result<(), Failure> {
    if let Some(known) = known.filter(|known| known.warm_start == spec.warm_start) {
        spec.earlier.clone_from(&known.earlier);
        return Ok(());
    }
    for entry in spec.warm_start.clone() {
        let (path, name) = parts(&entry);
        let opened = path.map(|path| {
            SqliteReader::open(Path::new(path)).map_err(|error| Failure::from(error).help(format!("`warm_start` names it: \"{}\"", one_line(&entry))))
        });
        let opened = opened.transpose()?;
        let reader: &dyn StorageReader = opened.as_ref().map_or(store, |reader| reader);
        let studies = match name {
            Some(name) => vec![named_study::find(reader, Some(name))?],
            None => reader.studies()?,
        };
        let mut found = 0;
        for study in studies.iter().filter(|study| path.is_some() || study.spec.name != spec.name) {
            let view = reader.view(study.id)?;
            let taken = earlier(&spec.space, History::new(&view));
            found += taken.trials.len();
            console.say(&told(study, &taken, spec));
            spec.earlier.extend(taken.trials);
        }
        if found == 0 {
            let failure = Failure::usage(format!("`warm_start` \"{}\" holds no trial that fits the space", one_line(&entry)));
            return Err(failure.help("take it out, or name a study with complete trials and parameters of the same names"));
        }
    }
    spec.earlier.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    Ok(())
}

/// `path/to/store.db:study`, `path/to/store.db` or `study`.
fn parts(entry: &str) -> (Option<&str>, Option<&str>) {
    let is_store = |path: &str| path.ends_with(".db") || path.ends_with(".sqlite") || path.ends_with(".sqlite3");
    match entry.rsplit_once(':') {
        Some((path, study)) if is_store(path) => (Some(path), Some(study)),
        _ if is_store(entry) => (Some(entry), None),
        _ => (None, Some(entry)),
    }
}

fn told(study: &StudySummary, taken: &Taken, spec: &StudySpec) -> String {
    let mut said = format!("warm start: {} of `{}`", count(taken.trials.len() as u64, "trial"), one_line(&study.spec.name));
    let (theirs, ours) = (study.spec.objective(), spec.objective());
    if theirs != ours {
        said.push_str(&format!(", ranked by {} ({})", one_line(&theirs.metric), theirs.direction.as_str()));
    }
    if taken.foreign > 0 {
        said.push_str(&format!("; {} more have no parameter in common", taken.foreign));
    }
    let mut left_out = Vec::new();
    for (name, values) in &taken.dropped {
        left_out.push(match spec.space.dimension(name) {
            None => format!("`{}`, which is not searched here", one_line(name)),
            Some(_) => format!("{} of `{}` that do not fit", count(*values, "value"), one_line(name)),
        });
    }
    if !left_out.is_empty() {
        said.push_str(&format!("; left out: {}", left_out.join(", ")));
    }
    said
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
