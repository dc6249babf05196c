//! Resolves studies and trials: a name, a study file, the only study of the store, or patterns of
//! names.

use std::path::Path;

use super::AppError;
use crate::config;
use crate::storage::sqlite;
use crate::storage::{StorageError, StorageReader, StudyId, StudySummary};
use crate::study::event::{Event, Seq, StateEvent, TrialEvent};
use crate::study::pattern::matches;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::spec::StudySpec;
use crate::study::suggestion::nearest;
use crate::study::tag::ARCHIVED;
use crate::study::tracked::MovedRun;
use crate::study::trial::{Trial, TrialNumber};

/// The study `named` in the store behind `reader`; `None`: the only one.
///
/// # Errors
/// There is no such study, or several; the study file is invalid.
pub fn study(reader: &dyn StorageReader, named: Option<&str>) -> Result<StudySummary, AppError> {
    let Some(named) = named else { return only(reader) };
    let file = Path::new(named);
    let is_file = file.extension().is_some_and(|extension| extension == "toml");
    // A study may have the name of a file that does not exist.
    if is_file && (file.exists() || reader.study(named)?.is_none()) {
        if sqlite::is_open_here(file) {
            return Err(AppError::StoreAsFile { path: named.to_owned() });
        }
        return of_file(reader, file, &config::load(file, &[])?);
    }
    by_name(reader, named)
}

/// The study of this name, which is not looked for as a file.
///
/// # Errors
/// There is no such study.
pub fn by_name(reader: &dyn StorageReader, name: &str) -> Result<StudySummary, AppError> {
    match reader.study(name)? {
        Some(study) => Ok(reader.summary(study.id)?),
        None => {
            let names = names(reader)?;
            let near = nearest(name, names.iter().map(String::as_str)).map(str::to_owned);
            Err(AppError::UnknownStudy { name: name.to_owned(), near, names })
        }
    }
}

/// The stored study of a study file.
///
/// # Errors
/// It was never run.
pub fn of_file(
    reader: &dyn StorageReader,
    file: &Path,
    spec: &StudySpec,
) -> Result<StudySummary, AppError> {
    match reader.study(&spec.name)? {
        Some(study) => Ok(reader.summary(study.id)?),
        None => Err(AppError::NeverRun {
            name: spec.name.clone(),
            file: file.to_owned(),
            names: names(reader)?,
        }),
    }
}

/// Several studies, and those that cannot be read here.
#[derive(Debug, Default)]
pub struct FoundStudies {
    /// The studies that were read, by name.
    pub studies: Vec<StudySummary>,
    /// The names of the others, with the error of each.
    pub skipped: Vec<(String, StorageError)>,
}

/// Whether archived studies are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archived {
    /// Excluded.
    LeftOut,
    /// Included.
    Listed,
}

/// All studies of the store.
///
/// # Errors
/// The store failed.
pub fn all(reader: &dyn StorageReader, archived: Archived) -> Result<FoundStudies, StorageError> {
    let mut found = read(reader, reader.names()?)?;
    if archived == Archived::LeftOut {
        found.studies.retain(|study| !is_archived(study));
    }
    Ok(found)
}

/// The studies whose names match some of these patterns, including archived ones: `*` stands for
/// any characters, `?` for one.
///
/// # Errors
/// A pattern matches none, or the store failed.
pub fn matching(reader: &dyn StorageReader, patterns: &[String]) -> Result<FoundStudies, AppError> {
    let stored = reader.names()?;
    let in_vain =
        patterns.iter().filter(|pattern| !stored.iter().any(|(_, name)| matches(pattern, name)));
    let in_vain: Vec<String> = in_vain.cloned().collect();
    if !in_vain.is_empty() {
        return Err(AppError::NoMatch { patterns: in_vain, names: names(reader)? });
    }
    Ok(matching_now(reader, patterns)?)
}

/// The same, where a pattern may match none.
///
/// # Errors
/// The store failed.
pub fn matching_now(
    reader: &dyn StorageReader,
    patterns: &[String],
) -> Result<FoundStudies, StorageError> {
    let is_meant = |name: &String| patterns.iter().any(|pattern| matches(pattern, name));
    let stored = reader.names()?;
    read(reader, stored.into_iter().filter(|(_, name)| is_meant(name)).collect())
}

fn read(
    reader: &dyn StorageReader,
    named: Vec<(StudyId, String)>,
) -> Result<FoundStudies, StorageError> {
    let mut found = FoundStudies::default();
    for (id, name) in named {
        match reader.summary(id) {
            Ok(study) => found.studies.push(study),
            // Removed since its name was read.
            Err(StorageError::NoStudy { .. }) => {}
            Err(error @ StorageError::Corrupt { .. }) => found.skipped.push((name, error)),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Whether a study is archived.
pub fn is_archived(study: &StudySummary) -> bool {
    study.tags.iter().any(|tag| tag == ARCHIVED)
}

/// A trial of a study.
///
/// # Errors
/// The study has no such trial.
pub fn trial(
    reader: &dyn StorageReader,
    study: &StudySummary,
    number: TrialNumber,
) -> Result<Trial, AppError> {
    if let Some(trial) = reader.trial(study.id, number)? {
        return Ok(trial);
    }
    let is_removed = number < reader.next_number(study.id)?;
    let last = TrialQuery { reverse: true, ..TrialQuery::all(SortKey::Number).page(0, 1) };
    Err(AppError::UnknownTrial {
        study: study.spec.name.clone(),
        trial: number,
        trials: study.counts.total(),
        last: reader.numbers(study.id, &last)?.pop(),
        is_removed,
        moved: if is_removed { moved_to(reader, study, number)? } else { None },
    })
}

/// Where a removed run was moved to, by the journal.
fn moved_to(
    reader: &dyn StorageReader,
    study: &StudySummary,
    number: TrialNumber,
) -> Result<Option<MovedRun>, StorageError> {
    const PAGE: u64 = 10_000;
    let mut after = Seq::default();
    loop {
        let events = reader.events_after(study.id, after, PAGE)?;
        let Some((last, ..)) = events.last() else { return Ok(None) };
        after = *last;
        let moved = events.into_iter().find_map(|(_, _, event)| match event {
            Event::Trial(run, TrialEvent::State(StateEvent::Removed { moved }))
                if run == number =>
            {
                Some(moved)
            }
            _ => None,
        });
        if let Some(moved) = moved {
            return Ok(moved);
        }
    }
}

/// Trials of a study, in this order.
///
/// # Errors
/// The study lacks one of them.
pub fn trials(
    reader: &dyn StorageReader,
    study: &StudySummary,
    numbers: &[TrialNumber],
) -> Result<Vec<Trial>, AppError> {
    numbers.iter().map(|number| trial(reader, study, *number)).collect()
}

/// Longest list of trials.
pub const MOST_TRIALS: usize = 1_000;

/// The trials named by `words`, each once, in the order given: names of tracked runs, and numbers
/// (`7`, `3,5`, `0-4`), which are not valid names of runs. Ranges skip removed runs.
///
/// # Errors
/// A word is invalid, or too many are named; the existence of the trials is not checked.
pub fn trials_named(
    reader: &dyn StorageReader,
    study: &StudySummary,
    words: &[String],
) -> Result<Vec<TrialNumber>, AppError> {
    let mut found: Vec<TrialNumber> = Vec::new();
    let runs = if study.spec.is_tracked() { run_names(reader, study)? } else { Vec::new() };
    for word in words {
        let named = match (runs.iter().find(|(name, _)| name == word), numbers(word)) {
            (Some((_, number)), _) => vec![*number],
            (None, Some(numbers)) if word.contains('-') => without_removed(reader, study, numbers)?,
            (None, Some(numbers)) => numbers,
            (None, None) => {
                let near = nearest(word, runs.iter().map(|(name, _)| name.as_str()));
                return Err(no_trial_word(study, word, near));
            }
        };
        found.extend(named.iter().filter(|number| !found.contains(number)).collect::<Vec<_>>());
        if found.len() > MOST_TRIALS {
            return Err(AppError::TooManyTrials { most: MOST_TRIALS });
        }
    }
    Ok(found)
}

/// The numbers of a range without removed runs; all of them, if all were removed.
fn without_removed(
    reader: &dyn StorageReader,
    study: &StudySummary,
    mut numbers: Vec<TrialNumber>,
) -> Result<Vec<TrialNumber>, StorageError> {
    let removed = reader.removed_runs()?;
    let is_removed = |number: &TrialNumber| {
        removed.iter().any(|removed| (removed.study, removed.run) == (study.id, *number))
    };
    if !numbers.iter().all(is_removed) {
        numbers.retain(|number| !is_removed(number));
    }
    Ok(numbers)
}

/// The trial named by one word.
///
/// # Errors
/// It names none or several, or there is no such trial.
pub fn trial_named(
    reader: &dyn StorageReader,
    study: &StudySummary,
    word: &str,
) -> Result<Trial, AppError> {
    match trials_named(reader, study, &[word.to_owned()])?.as_slice() {
        [number] => trial(reader, study, *number),
        _ => Err(no_trial_word(study, word, None)),
    }
}

fn no_trial_word(study: &StudySummary, word: &str, near: Option<&str>) -> AppError {
    AppError::NoTrialWord {
        study: study.spec.name.clone(),
        word: word.to_owned(),
        near: near.map(str::to_owned),
        has_names: study.spec.is_tracked(),
    }
}

/// The study and trials named by `words`: `STUDY [TRIALS]..`, `STUDY/TRIALS`, or trials of the only
/// study. Trials are numbers, and names of tracked runs.
///
/// # Errors
/// A word is invalid; whether trials with these numbers exist is not checked.
pub fn study_and_trials(
    reader: &dyn StorageReader,
    words: &[String],
) -> Result<(StudySummary, Vec<TrialNumber>), AppError> {
    if let [word] = words
        && let Some(found) = addressed(reader, word)
    {
        return found;
    }
    let (named, trials) = match words.split_first() {
        None => (None, words),
        // A study may be called `20261130`.
        Some((first, _)) if numbers(first).is_some() && !is_study(reader, first) => (None, words),
        Some((first, others)) => (Some(first.as_str()), others),
    };
    let found = study(reader, named);
    if let (Err(AppError::UnknownStudy { .. }), Ok(only)) = (&found, only(reader))
        && let Ok(trials) = trials_named(reader, &only, words)
    {
        return Ok((only, trials));
    }
    let study = found?;
    let trials = trials_named(reader, &study, trials)?;
    Ok((study, trials))
}

/// The single trial named by `words`, as in [`study_and_trials`]; `study` may be omitted.
///
/// # Errors
/// They name none or several, or there is no such trial.
pub fn study_and_trial(
    reader: &dyn StorageReader,
    study: Option<&str>,
    trial: &str,
) -> Result<(StudySummary, Trial), AppError> {
    let words: Vec<String> = study.into_iter().chain([trial]).map(str::to_owned).collect();
    let (study, trials) = study_and_trials(reader, &words)?;
    let [number] = trials.as_slice() else { return Err(no_trial_word(&study, trial, None)) };
    let trial = self::trial(reader, &study, *number)?;
    Ok((study, trial))
}

/// Trials of one study, in the order given.
pub type TrialsOf = (StudySummary, Vec<TrialNumber>);

/// Whether the store holds a study of this name.
fn is_study(reader: &dyn StorageReader, name: &str) -> bool {
    reader.study(name).is_ok_and(|study| study.is_some())
}

/// The trials of a study named by a word like `sms/3` or `runs/baseline`; `None` for other words.
/// Both names may contain slashes: the longest match of a study counts.
fn addressed(reader: &dyn StorageReader, word: &str) -> Option<Result<TrialsOf, AppError>> {
    // The name of a study, or of a file, is not a run's.
    if word.ends_with(".toml") || is_study(reader, word) {
        return None;
    }
    let places = word.rmatch_indices('/').map(|(place, _)| word.split_at(place));
    let parts = places.filter(|(name, _)| !name.is_empty()).map(|(name, rest)| (name, &rest[1..]));
    let of_study = |(name, trials): (&str, &str)| match study(reader, Some(name)) {
        Err(AppError::UnknownStudy { .. }) => None,
        Err(error) => Some(Err(error)),
        Ok(study) => {
            let found = trials_named(reader, &study, &[trials.to_owned()]);
            Some(found.map(|trials| (study, trials)))
        }
    };
    let is_number = |(_, trials): &(&str, &str)| numbers(trials).is_some();
    parts.clone().find_map(of_study).or_else(|| {
        let (name, _) = parts.clone().next().filter(is_number)?;
        study(reader, Some(name)).err().map(Err)
    })
}

/// Trials of several studies, `sms/3 digits/7 runs/baseline`; `None` if a word has another form.
///
/// # Errors
/// A study or trial does not exist, or too many are named.
pub fn trials_of_studies(
    reader: &dyn StorageReader,
    words: &[String],
) -> Option<Result<Vec<TrialsOf>, AppError>> {
    let found: Vec<_> = words.iter().map(|word| addressed(reader, word)).collect::<Option<_>>()?;
    if found.is_empty() {
        return None;
    }
    let found: Result<Vec<TrialsOf>, AppError> = found.into_iter().collect();
    Some(found.and_then(|found| {
        let named: usize = found.iter().map(|(_, trials)| trials.len()).sum();
        if named > MOST_TRIALS {
            Err(AppError::TooManyTrials { most: MOST_TRIALS })
        } else {
            Ok(found)
        }
    }))
}

/// The meaning of words that may name studies or trials.
#[derive(Debug)]
pub enum Meant {
    /// Studies, each once.
    Studies(Vec<StudySummary>),
    /// Trials of studies, each study once.
    Trials(Vec<TrialsOf>),
}

/// The studies named by `words`, or else the trials: `STUDY..`, `STUDY TRIALS..`, `STUDY/TRIALS..`.
///
/// # Errors
/// A word names nothing, or a study as well as a trial or run.
pub fn studies_or_trials(reader: &dyn StorageReader, words: &[String]) -> Result<Meant, AppError> {
    if let Some(found) = trials_of_studies(reader, words) {
        let mut of_studies: Vec<TrialsOf> = Vec::new();
        for (study, trials) in found? {
            match of_studies.iter_mut().find(|(known, _)| known.id == study.id) {
                Some((_, known)) => {
                    let new: Vec<_> = trials.into_iter().filter(|it| !known.contains(it)).collect();
                    known.extend(new);
                }
                None => of_studies.push((study, trials)),
            }
        }
        return Ok(Meant::Trials(of_studies));
    }
    let (first, others) =
        words.split_first().map_or((None, words), |(one, more)| (Some(one), more));
    let of = study(reader, first.map(String::as_str))?;
    let is_study = |word: &str| Ok::<_, AppError>(reader.study(word)?.is_some());
    // A study called `20261130` beside one without such a trial is meant.
    let has = |number: &TrialNumber| reader.trial(of.id, *number).is_ok_and(|it| it.is_some());
    let are_numbers = |word: &str| {
        numbers(word).is_some_and(|them| !self::is_study(reader, word) || them.iter().any(has))
    };
    let runs = if of.spec.is_tracked() { run_names(reader, &of)? } else { Vec::new() };
    let is_run = |word: &String| runs.iter().any(|(name, _)| name == word);
    let is_trial = |word: &String| is_run(word) || are_numbers(word);
    for word in others.iter().filter(|word| is_trial(word)) {
        if is_study(word)? {
            return Err(AppError::StudyOrRun { study: of.spec.name, word: word.clone() });
        }
    }
    let are_trials = others.iter().any(is_trial);
    let names_none = of.spec.is_tracked() && !others.is_empty() && {
        let studies = others.iter().map(|word| is_study(word)).collect::<Result<Vec<_>, _>>()?;
        studies.iter().all(|is_study| !is_study)
    };
    if are_trials || names_none {
        let trials = trials_named(reader, &of, others)?;
        return Ok(Meant::Trials(vec![(of, trials)]));
    }
    let mut studies = vec![of];
    for word in others {
        let other = study(reader, Some(word))?;
        if studies.iter().all(|known| known.id != other.id) {
            studies.push(other);
        }
    }
    Ok(Meant::Studies(studies))
}

/// The names of a study's runs, with their numbers.
fn run_names(
    reader: &dyn StorageReader,
    study: &StudySummary,
) -> Result<Vec<(String, TrialNumber)>, StorageError> {
    let trials = reader.trials(study.id, &TrialQuery::all(SortKey::Number))?;
    let name = |trial: Trial| Some((trial.origin.tracked()?.name.clone()?, trial.number));
    Ok(trials.into_iter().filter_map(name).collect())
}

/// Parses numbers of trials: `7`, `3,5` or `0-4`.
pub fn numbers(word: &str) -> Option<Vec<TrialNumber>> {
    let mut found = Vec::new();
    for part in word.split(',') {
        match part.split_once('-') {
            None => found.push(TrialNumber(part.parse().ok()?)),
            Some((first, last)) => {
                let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
                found.extend((first..=last).take(MOST_TRIALS + 1).map(TrialNumber));
            }
        }
    }
    Some(found)
}

fn only(reader: &dyn StorageReader) -> Result<StudySummary, AppError> {
    let mut studies = reader.names()?;
    match (studies.pop(), studies.is_empty()) {
        (Some((study, _)), true) => Ok(reader.summary(study)?),
        (None, _) => Err(AppError::EmptyStore),
        (Some(_), false) => Err(AppError::SeveralStudies { names: names(reader)? }),
    }
}

fn names(reader: &dyn StorageReader) -> Result<Vec<String>, AppError> {
    Ok(reader.names()?.into_iter().map(|(_, name)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_alone_in_lists_and_in_ranges() {
        let trials = |numbers: &[u64]| numbers.iter().copied().map(TrialNumber).collect::<Vec<_>>();
        assert_eq!(numbers("7"), Some(trials(&[7])));
        assert_eq!(numbers("3,9,1-2"), Some(trials(&[3, 9, 1, 2])));
        for other in ["best", "", "3,", "-1", "1.5", "a-b"] {
            assert_eq!(numbers(other), None, "{other}");
        }
    }
}
