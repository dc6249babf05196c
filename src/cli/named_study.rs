//! Which study a command line means: its name, its file, or the only one there is.

use std::path::Path;

use super::exit::Failure;
use crate::config;
use crate::report::wording::one_line;
use crate::storage::sqlite;
use crate::storage::{StorageReader, StudySummary};
use crate::study::spec::StudySpec;

/// The study that `named` means in the store behind `reader`.
pub fn find(reader: &dyn StorageReader, named: Option<&str>) -> Result<StudySummary, Failure> {
    let Some(named) = named else {
        return only(reader);
    };
    let file = Path::new(named);
    let is_file = file.extension().is_some_and(|extension| extension == "toml");
    // A study may be called like a file that is not there.
    if is_file && (file.exists() || reader.study(named)?.is_none()) {
        if sqlite::is_open_here(file) {
            return Err(Failure::usage(format!("`{named}` is the store, and no study file"))
                .help("name a study, or the file it is run from"));
        }
        return of_file(reader, file, &config::load(file, &[])?);
    }
    match reader.study(named)? {
        Some(study) => Ok(reader.summary(study.id)?),
        None => Err(unknown(reader, named)?),
    }
}

/// The stored study of a study file.
pub fn of_file(
    reader: &dyn StorageReader,
    file: &Path,
    spec: &StudySpec,
) -> Result<StudySummary, Failure> {
    if let Some(study) = reader.study(&spec.name)? {
        return Ok(reader.summary(study.id)?);
    }
    let failure = Failure::usage(format!(
        "the study `{}` of `{}` is not in the store",
        one_line(&spec.name),
        file.display()
    ));
    let others = match reader.studies()?.as_slice() {
        [] => String::new(),
        studies => format!("; the store holds {}", names(studies)),
    };
    Err(failure.help(format!("`hpsearch run {}` starts it{others}", file.display())))
}

fn only(reader: &dyn StorageReader) -> Result<StudySummary, Failure> {
    let mut studies = reader.studies()?;
    match (studies.pop(), studies.is_empty()) {
        (Some(study), true) => Ok(study),
        (None, _) => Err(Failure::usage("the store holds no study yet")
            .help("`hpsearch run study.toml` starts one")),
        (Some(last), false) => {
            studies.push(last);
            Err(Failure::usage("the store holds several studies: say which")
                .help(format!("there are {}: name one behind the verb", names(&studies))))
        }
    }
}

fn unknown(reader: &dyn StorageReader, name: &str) -> Result<Failure, Failure> {
    let studies = reader.studies()?;
    let failure = Failure::usage(format!("there is no study `{}`", one_line(name)));
    let near = nearest(name, studies.iter().map(|study| study.spec.name.as_str()));
    Ok(match near {
        _ if studies.is_empty() => {
            failure.help("the store holds no study yet: `hpsearch run study.toml` starts one")
        }
        Some(near) => failure.help(format!(
            "did you mean `{}`? There are {}",
            one_line(near),
            names(&studies)
        )),
        None => failure.help(format!("there are {}", names(&studies))),
    })
}

/// The one of `names` that `name` most likely means, if any is near.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(mine, _), (theirs, _)| mine.total_cmp(theirs))
        .map(|(_, known)| known)
}

fn names(studies: &[StudySummary]) -> String {
    studies
        .iter()
        .map(|study| format!("`{}`", one_line(&study.spec.name)))
        .collect::<Vec<_>>()
        .join(", ")
}
