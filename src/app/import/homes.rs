//! The studies of imported runs: the given one, or one named after a project, directory or file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::ImportOptions;
use crate::app::AppError;
use crate::app::named_after::{in_words, named_after};
use crate::config::is_study_name;
use crate::report::wording::one_line;
use crate::storage::{StorageReader, StoredStudy};
use crate::study::counted::count;
use crate::study::trial::TrialNumber;
use crate::tracking::import::{Format, KnownRuns, RecordedRun, Source, study_name};

/// What the study of a run is named after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedAfter {
    /// The name in the other tool, or of the directory or file.
    original: String,
    /// The study to which earlier versions imported it, as all others with such names.
    earlier: Option<String>,
    /// Its runs are known by this source; see [`KnownRuns::from`].
    source: String,
}

impl NamedAfter {
    /// Of a run in a file or directory; `root` is the given path.
    pub fn of_file(run: &RecordedRun, source: &Source, root: &Path) -> NamedAfter {
        let of_path = match source.format {
            Format::Csv => root.file_stem(),
            _ => root.file_name(),
        };
        let of_path = of_path.map(|name| name.to_string_lossy().into_owned());
        let format = source.format.as_str();
        let source = match source.format {
            Format::Csv => format!("{format}:{}#", source.path.display()),
            _ => run.source.clone(),
        };
        NamedAfter::first([run.project.clone(), of_path], format, source)
    }

    /// Of a run of a server.
    pub fn of_server(run: &RecordedRun) -> NamedAfter {
        let format = Format::MlFlow.as_str();
        NamedAfter::first([run.project.clone(), None], format, run.source.clone())
    }

    /// After the first of these names that can be one here.
    fn first(names: [Option<String>; 2], format: &str, source: String) -> NamedAfter {
        let first = |fits: fn(&String) -> bool| {
            let named = names.iter().flatten().find(|name| fits(name));
            named.cloned().unwrap_or_else(|| format.to_owned())
        };
        let original = first(|name| study_name(name).is_some());
        let earlier = first(|name| is_study_name(name));
        let earlier = Some(earlier).filter(|earlier| *earlier != original);
        NamedAfter { original, earlier, source }
    }
}

/// The study of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    /// Its name.
    pub name: String,
    /// The description of a new one: what it is named after, if that is no name here.
    pub description: Option<String>,
}

/// The studies of an import.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// By what they are named after.
    homes: BTreeMap<String, String>,
    /// The imported runs of studies of earlier versions.
    known: BTreeMap<String, KnownRuns>,
    /// Runs that are in a study of an earlier version, by that and what they should be named after.
    earlier: BTreeMap<(String, String), BTreeSet<TrialNumber>>,
}

impl Homes {
    /// The study of a run.
    ///
    /// # Errors
    /// The store failed.
    pub fn of(
        &mut self,
        reader: Option<&dyn StorageReader>,
        wanted: &ImportOptions,
        after: &NamedAfter,
        run: &RecordedRun,
    ) -> Result<Home, AppError> {
        let found = self.study(reader, wanted, after)?;
        let is_home = self.homes.get(&after.original).is_none_or(|home| *home == found.name);
        if let Some(known) = self.known.get(&found.name).filter(|_| !is_home) {
            let left = (found.name.clone(), after.original.clone());
            self.earlier.entry(left).or_default().extend(known.from(&run.source));
        }
        Ok(found)
    }

    /// The study of runs that are named after this.
    ///
    /// # Errors
    /// The store failed.
    pub fn study(
        &mut self,
        reader: Option<&dyn StorageReader>,
        wanted: &ImportOptions,
        after: &NamedAfter,
    ) -> Result<Home, AppError> {
        if let Some(name) = &wanted.study {
            return Ok(Home { name: name.clone(), description: None });
        }
        let NamedAfter { original, earlier, source } = after;
        let home = match self.homes.get(original) {
            Some(home) => home.clone(),
            None => {
                let taken = |name: &str| self.homes.values().any(|home| home == name);
                let named = named_after(reader, original, taken, |study| {
                    Ok(match reader {
                        Some(reader) => known_runs(reader, study)?.from(source).next().is_some(),
                        None => false,
                    })
                })?;
                let home = named.unwrap_or_else(|| original.clone());
                self.homes.insert(original.clone(), home.clone());
                home
            }
        };
        if let (Some(reader), Some(earlier)) = (reader, earlier)
            && *earlier != home
            && self.is_in(reader, earlier, source)?
        {
            return Ok(Home { name: earlier.clone(), description: None });
        }
        let description = Some(original.clone()).filter(|original| *original != home);
        Ok(Home { name: home, description })
    }

    fn is_in(
        &mut self,
        reader: &dyn StorageReader,
        study: &str,
        source: &str,
    ) -> Result<bool, AppError> {
        if !self.known.contains_key(study) {
            let known = reader.study(study)?.map(|study| known_runs(reader, &study)).transpose()?;
            self.known.insert(study.to_owned(), known.unwrap_or_default());
        }
        Ok(self.known.get(study).is_some_and(|known| known.from(source).next().is_some()))
    }

    /// What is to be said about those that got runs.
    pub fn remarks(&self, has_runs: impl Fn(&str) -> bool) -> Vec<String> {
        let renamed = self.homes.iter().filter(|(original, home)| original != home);
        let renamed = renamed.filter(|(_, home)| has_runs(home));
        let mut said: Vec<String> =
            renamed.map(|(original, home)| in_words(original, home)).collect();
        for ((study, original), runs) in &self.earlier {
            let Some(home) = self.homes.get(original) else { continue };
            let (are, them) = if runs.len() == 1 { ("is", "it") } else { ("are", "them") };
            said.push(format!(
                "{} of `{}` {are} in the study `{study}` since an earlier import: `hpsearch mv \
                 {study} {} --to {home}` moves {them}",
                count(runs.len() as u64, "run"),
                one_line(original),
                ranges(runs),
            ));
        }
        said
    }
}

fn known_runs(reader: &dyn StorageReader, study: &StoredStudy) -> Result<KnownRuns, AppError> {
    match study.spec.is_tracked() {
        true => Ok(KnownRuns::of(reader, study)?),
        false => Ok(KnownRuns::default()),
    }
}

/// `0-4,7`
fn ranges(runs: &BTreeSet<TrialNumber>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for TrialNumber(run) in runs {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *run => *last = *run,
            _ => ranges.push((*run, *run)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_in_ranges() {
        let of = |runs: &[u64]| ranges(&runs.iter().copied().map(TrialNumber).collect());
        assert_eq!([of(&[3]), of(&[0, 1, 2, 4, 6, 7])], ["3", "0-2,4,6-7"]);
    }
}
