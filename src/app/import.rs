//! Imports runs recorded by other tools into studies of tracked runs.

mod homes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::homes::{Home, Homes, NamedAfter};
use super::AppError;
use crate::config::is_study_name;
use crate::report::wording::{one_line, shorten};
use crate::runner;
use crate::storage::any::AnyStore;
use crate::storage::{StorageError, StorageReader, StoredStudy};
use crate::tracking::import::{
    Change, Experiments, Format, KnownRuns, Mapping, RecordedRun, ServerPlace, Source, Taken, find,
    read,
};
use crate::tracking::{AssumedDirection, DEFAULT_METRIC, Goal, TrackingError, open_described};

/// The options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The file or directory.
    pub path: PathBuf,
    /// Its format; `None`: detected.
    pub format: Option<Format>,
    /// A server, instead of a path.
    pub server: Option<ServerPlace>,
    /// The study; `None`: named after each run's project, or the file or directory.
    pub study: Option<String>,
    /// The metric that compares its runs.
    pub goal: Goal,
    /// The meaning of a table's columns.
    pub mapping: Mapping,
}

impl ImportOptions {
    /// Where the runs are, for remarks on all of them.
    fn place(&self) -> PathBuf {
        self.server.as_ref().map_or_else(|| self.path.clone(), |place| (&place.address).into())
    }
}

/// The imported runs of a study.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Runs that are new.
    pub new: u64,
    /// Known runs that were extended.
    pub continued: u64,
    /// Known runs whose parameters or values were changed.
    pub changed: u64,
    /// Runs that were complete already.
    pub known: u64,
    /// Points of the imported runs.
    pub points: u64,
}

impl Imported {
    fn count(&mut self, taken: &Taken, run: &RecordedRun) {
        match taken {
            Taken::New => self.new += 1,
            Taken::Continued => self.continued += 1,
            Taken::Changed(_) => self.changed += 1,
            Taken::Known | Taken::Fewer => self.known += 1,
        }
        if !matches!(taken, Taken::Known | Taken::Fewer) {
            self.points += run.points();
        }
    }
}

/// The result of an import.
#[derive(Debug, Default)]
pub struct ImportResult {
    /// What was imported into each study, by the study's name.
    pub studies: BTreeMap<String, Imported>,
    /// What was skipped, and why: the source and sentences.
    pub remarks: Vec<(PathBuf, String)>,
    /// Number of sources.
    pub sources: u64,
    /// The metrics of all runs.
    metrics: BTreeSet<String>,
    /// Tags of new runs that are not allowed here, with what they are instead, if anything.
    tags: BTreeMap<String, Option<String>>,
}

/// Maximum number of metrics, or tags, that a remark names.
const NAMED: usize = 8;

/// Maximum width of a tag in a remark.
const TAG: usize = 60;

impl ImportResult {
    /// Adds a remark if no run has the metric by which they are to be compared.
    fn remark_absent_metric(&mut self, wanted: &ImportOptions) {
        let Some(metric) = wanted.goal.metric.as_deref() else { return };
        if self.studies.is_empty() || self.metrics.contains(metric) {
            return;
        }
        // Those of the machine compare no runs.
        let logged = || self.metrics.iter().filter(|name| !name.starts_with("system/"));
        let names: Vec<String> = logged().take(NAMED).map(|name| format!("`{name}`")).collect();
        let more = match logged().count().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let there = match names.is_empty() {
            true => "they have none".to_owned(),
            false => format!("there are {}{more}", names.join(", ")),
        };
        let why = format!("no run has the metric `{metric}`: {there}");
        self.remarks.insert(0, (wanted.place(), why));
    }

    /// Adds the remarks on all runs.
    fn finish(&mut self, wanted: &ImportOptions, homes: &Homes) {
        self.remark_tags(wanted);
        let said = homes.remarks(|study| self.studies.contains_key(study));
        self.remarks.splice(0..0, said.into_iter().map(|said| (wanted.place(), said)));
        self.remark_absent_metric(wanted);
    }

    /// Adds a remark on the tags that are not allowed here.
    fn remark_tags(&mut self, wanted: &ImportOptions) {
        let shown = |tag: &String| format!("`{}`", shorten(&one_line(tag), TAG, ".."));
        let listed = |words: Vec<String>| match words.len().saturating_sub(NAMED) {
            0 => words.join(", "),
            more => format!("{} and {more} more", words[..NAMED].join(", ")),
        };
        let (kept, left): (Vec<_>, Vec<_>) =
            self.tags.iter().partition(|(_, instead)| instead.is_some());
        let kept = kept.into_iter().filter_map(|(tag, instead)| {
            Some(format!("{} as {}", shown(tag), shown(instead.as_ref()?)))
        });
        let kept: Vec<String> = kept.collect();
        let left: Vec<String> = left.into_iter().map(|(tag, _)| shown(tag)).collect();
        let mut said = Vec::new();
        if !kept.is_empty() {
            said.push(format!("tags are written differently here: {}", listed(kept)));
        }
        if !left.is_empty() {
            said.push(format!("no tags here, and left out: {}", listed(left)));
        }
        self.remarks.extend(said.into_iter().map(|said| (wanted.place(), said)));
    }

    fn count(&mut self, study: &str, taken: &Taken, run: &RecordedRun) {
        if *taken == Taken::New {
            self.tags.extend(run.other_tags.clone());
        }
        self.studies.entry(study.to_owned()).or_default().count(taken, run);
        for (metric, _) in run.series.keys() {
            if !self.metrics.contains(metric) {
                self.metrics.insert(metric.clone());
            }
        }
        let remark = match taken {
            Taken::Fewer => {
                "it has less data now than when it was imported; the imported study is \
                 unchanged"
                    .to_owned()
            }
            Taken::Changed(changes) => words_of(changes),
            Taken::New | Taken::Continued | Taken::Known => return,
        };
        self.remarks.push((PathBuf::from(&run.source), remark));
    }
}

/// Maximum number of changes of a run that are listed.
const CHANGES: usize = 3;

/// `loss` is 0.05 now, and was 0.5
fn words_of(changes: &[Change]) -> String {
    let words = |Change { name, step, before, now }: &Change| {
        let place = step.map(|step| format!(" at {step}")).unwrap_or_default();
        let before = before.as_ref().map(|before| format!(" and was {before}"));
        format!("`{name}`{place} is {now} now{}", before.unwrap_or_default())
    };
    let mut listed: Vec<String> = changes.iter().take(CHANGES).map(words).collect();
    if let Some(more) = changes.len().checked_sub(CHANGES).filter(|more| *more > 0) {
        listed.push(format!("{more} more"));
    }
    listed.join(", ")
}

/// What was asked for, with the metric of a table's study, if there is one, as that of the table.
fn with_usual_metric(
    reader: Option<&dyn StorageReader>,
    wanted: &ImportOptions,
) -> Result<ImportOptions, AppError> {
    let root = std::fs::canonicalize(&wanted.path).unwrap_or_else(|_| wanted.path.clone());
    let source = Source { format: Format::Csv, path: root.clone() };
    let after = NamedAfter::of_file(&RecordedRun::default(), &source, &root);
    let name = Homes::default().study(reader, wanted, &after)?.name;
    let study = reader.map(|reader| reader.study(&name)).transpose()?.flatten();
    let study = study.filter(|study| study.spec.is_tracked());
    let metric = study.map(|study| study.spec.objective().metric.clone());
    let usual_metric = metric.unwrap_or_else(|| DEFAULT_METRIC.to_owned());
    let mapping = Mapping { usual_metric, ..wanted.mapping.clone() };
    Ok(ImportOptions { mapping, ..wanted.clone() })
}

/// Calls `take` with each run and what its study is named after. An unreadable source becomes a
/// remark, unless it is the only one.
fn each(
    wanted: &ImportOptions,
    mut take: impl FnMut(&NamedAfter, &RecordedRun, &mut ImportResult) -> Result<(), AppError>,
) -> Result<ImportResult, AppError> {
    if let Some(place) = &wanted.server {
        return each_of_server(place, take);
    }
    let sources = find(&wanted.path, wanted.format)?;
    let root = std::fs::canonicalize(&wanted.path)?;
    let mut outcome = ImportResult { sources: sources.len() as u64, ..ImportResult::default() };
    for source in &sources {
        let runs = match read(source, &root, &wanted.mapping) {
            Ok(runs) => runs,
            Err(error) if sources.len() == 1 => return Err(error.into()),
            Err(error) => {
                outcome.remarks.push((source.path.clone(), error.to_string()));
                continue;
            }
        };
        for run in &runs {
            let remarks = run.remarks.iter().map(|remark| (source.path.clone(), remark.clone()));
            outcome.remarks.extend(remarks);
            take(&NamedAfter::of_file(run, source, &root), run, &mut outcome)?;
        }
    }
    Ok(outcome)
}

/// The same for a server's runs.
fn each_of_server(
    place: &ServerPlace,
    mut take: impl FnMut(&NamedAfter, &RecordedRun, &mut ImportResult) -> Result<(), AppError>,
) -> Result<ImportResult, AppError> {
    let (mut outcome, now) = (ImportResult::default(), runner::now());
    Experiments::of(place)?.each(|run| {
        let run = run.settled(now);
        outcome.sources += 1;
        let remarks = run.remarks.iter();
        outcome.remarks.extend(remarks.map(|it| (PathBuf::from(&place.address), it.clone())));
        take(&NamedAfter::of_server(&run), &run, &mut outcome)
    })?;
    Ok(outcome)
}

/// Checks that there is something to import, before anything is created.
///
/// # Errors
/// There is nothing, or it cannot be accessed.
pub fn check(wanted: &ImportOptions) -> Result<(), AppError> {
    if let Some(place) = &wanted.server {
        let _it_answers = Experiments::of(place)?;
    } else {
        find(&wanted.path, wanted.format)?;
    }
    Ok(())
}

/// The runs that would be imported; writes nothing.
///
/// # Errors
/// Nothing can be read, or the store failed.
pub fn look(
    reader: Option<&dyn StorageReader>,
    wanted: &ImportOptions,
) -> Result<ImportResult, AppError> {
    let mut known: BTreeMap<String, Option<(StoredStudy, KnownRuns)>> = BTreeMap::new();
    let mut homes = Homes::default();
    let mut outcome = each(&with_usual_metric(reader, wanted)?, |after, run, outcome| {
        let name = &homes.of(reader, wanted, after, run)?.name;
        if !known.contains_key(name) {
            let study = reader.map(|reader| reader.study(name)).transpose()?.flatten();
            let runs = match (study, reader) {
                (Some(study), _) if !study.spec.is_tracked() => {
                    return Err(StorageError::Searched { study: name.to_owned() }.into());
                }
                (Some(study), Some(reader)) => {
                    let runs = KnownRuns::of(reader, &study)?;
                    Some((study, runs))
                }
                _ if !is_study_name(name) => {
                    return Err(TrackingError::StudyName { name: name.to_owned() }.into());
                }
                _ => None,
            };
            known.insert(name.to_owned(), runs);
        }
        let taken = match (known.get(name), reader) {
            (Some(Some((study, runs))), Some(reader)) => runs.taken(reader, study, run)?,
            _ => Taken::New,
        };
        outcome.count(name, &taken, run);
        Ok(())
    })?;
    outcome.finish(wanted, &homes);
    Ok(outcome)
}

/// Imports the runs one by one into the store at `path`: after an error the earlier ones stay, and
/// the next import adds the rest.
///
/// # Errors
/// Nothing can be read, a study is a search or has another metric, or the store failed.
pub fn import(
    store: &mut AnyStore,
    path: &Path,
    wanted: &ImportOptions,
    progress: &mut dyn FnMut(&RecordedRun),
) -> Result<ImportResult, AppError> {
    let mut known: BTreeMap<String, (StoredStudy, KnownRuns)> = BTreeMap::new();
    let mut homes = Homes::default();
    let wanted = &with_usual_metric(Some(&*store), wanted)?;
    let mut outcome = each(wanted, |after, run, outcome| {
        let Home { name, description } = homes.of(Some(&*store), wanted, after, run)?;
        if !known.contains_key(&name) {
            let (goal, described) = (&wanted.goal, (name.as_str(), description.as_deref()));
            let assumed = AssumedDirection::of(store, &name, goal)?;
            let study = open_described(store, path, described, goal, runner::now())?;
            let said = assumed.map(|assumed| assumed.in_words("--direction maximize"));
            outcome.remarks.extend(said.map(|said| (wanted.place(), said)));
            let runs = KnownRuns::of(store, &study)?;
            known.insert(name.clone(), (study, runs));
        }
        let Some((study, runs)) = known.get_mut(&name) else { return Ok(()) };
        let taken = runs.write(store, study, run)?;
        outcome.count(&name, &taken, run);
        progress(run);
        Ok(())
    })?;
    outcome.finish(wanted, &homes);
    Ok(outcome)
}
