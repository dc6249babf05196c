//! [`StorageReader`] for every store whose database the queries understand.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::column::{rows, value};
use super::connection::Connection;
use super::fault::Fault;
use super::known::Known;
use super::located::{Roots, has_path};
use super::{
    artifacts, attempts, journal, outcomes, pages, read, remove, remove_run, reports, runners,
    scan, series_read, trials, used, write,
};
use crate::storage::tracked::RemovedRun;
use crate::storage::{
    Attempt, OutcomeCursor, Remarked, RemovedStudy, SeriesFault, StorageError, StorageReader,
    StoredAgent, StoredRunner, StoredStudy, StudyId, StudySummary, Summaries, TrialCurve,
};
use crate::study::artifact::StoredArtifact;
use crate::study::checkpoint::Checkpoint;
use crate::study::event::{Event, Seq};
use crate::study::outcome::TrialSummary;
use crate::study::prediction::Prediction;
use crate::study::query::{Filter, SortPosition, TrialQuery};
use crate::study::series::{Pixel, Point, SeriesAxis, SeriesSummary};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Trial, TrialNumber};
use crate::study::usage::Used;

/// A store that reads by queries of a database.
pub(in crate::storage) trait Reads: Send {
    /// Runs `work` on one committed state; again if the connection to it is lost.
    fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnMut(&dyn Connection) -> Result<T, Fault>,
    ) -> Result<T, StorageError>;

    /// Its path or address; empty for a store in memory.
    fn address(&self) -> &Path;

    /// The file that a study's runner keeps locked, if such files are beside the store.
    fn lock_file_of(&self, study: StudyId) -> Option<PathBuf>;

    /// What is kept of what was read: the names of studies and the summaries of trials.
    fn known(&self) -> &Known;

    /// The time after which a lease ends unless it is renewed, if leases end.
    fn time_of_leases(&self) -> Option<Duration> {
        None
    }

    /// Whether anything was committed by anyone since the last call.
    fn look_for_changes(&mut self) -> Result<bool, StorageError>;

    /// Reads a study, which must exist.
    fn read_of<T>(
        &self,
        study: StudyId,
        doing: &'static str,
        mut work: impl FnMut(&dyn Connection, StudyId) -> Result<T, Fault>,
    ) -> Result<T, StorageError> {
        let done = self.read(doing, |connection| {
            read::require(connection, study)?;
            work(connection, study)
        });
        done.map_err(|error| self.known().named(error))
    }

    /// The base directories of a study's stored paths.
    fn roots(&self, study: StudyId) -> Result<Roots, StorageError> {
        self.read("reading where files lie", |connection| {
            Roots::of(connection, study, self.address())
        })
    }

    /// Resolves the paths of checkpoints.
    fn locate<'a>(
        &self,
        study: StudyId,
        paths: impl Iterator<Item = (TrialNumber, &'a mut PathBuf)>,
    ) -> Result<(), StorageError> {
        let mut paths = paths.peekable();
        if paths.peek().is_none() {
            return Ok(());
        }
        let roots = self.roots(study)?;
        paths.for_each(|(trial, path)| *path = roots.found(Some(trial), path));
        Ok(())
    }

    /// Resolves those of trials.
    fn locate_trials(&self, study: StudyId, trials: &mut [Trial]) -> Result<(), StorageError> {
        let paths = trials.iter_mut().flat_map(|trial| {
            let number = trial.number;
            let before = trial.before.iter_mut().flat_map(|before| &mut before.checkpoints);
            let paths = trial.checkpoints.iter_mut().map(|checkpoint| &mut checkpoint.path);
            paths.chain(before).map(move |path| (number, path))
        });
        self.locate(study, paths)
    }

    /// Events with resolved paths.
    fn located_events(
        &self,
        study: StudyId,
        mut events: Vec<(Seq, Timestamp, Event)>,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        if events.iter().any(|(_, _, event)| has_path(event)) {
            let roots = self.roots(study)?;
            for (_, _, event) in &mut events {
                if let Some(located) = roots.found_event(event) {
                    *event = located;
                }
            }
        }
        Ok(events)
    }

    /// A study's line with its lock file.
    fn with_lock_file(&self, mut summary: StudySummary) -> StudySummary {
        if let Some(held) = &mut summary.held {
            held.lock_file = self.lock_file_of(summary.id);
        }
        summary
    }
}

impl<T: Reads> StorageReader for T {
    fn directories(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read_of(study, "reading where files lie", read::directories)
    }

    fn identity(&self) -> Result<Option<String>, StorageError> {
        if self.address().as_os_str().is_empty() {
            return Ok(None);
        }
        self.read("reading its name", |connection| {
            value(connection, "SELECT id FROM store", ()).map(Some)
        })
    }

    fn salt(&self) -> Result<String, StorageError> {
        self.read("reading its salt", |connection| value(connection, "SELECT salt FROM store", ()))
    }

    fn objectives(&self, study: StudyId) -> Result<Vec<(String, String)>, StorageError> {
        let sql = "SELECT metric, direction FROM objective WHERE study_id = ?1 ORDER BY idx";
        self.read("reading objectives", |connection| {
            rows(connection, sql, [study.0], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    fn studies(&self) -> Result<Vec<StudySummary>, StorageError> {
        let studies = self.read("listing the studies", read::studies)?;
        self.known().learn(studies.iter().map(|study| (study.id, &*study.spec.name)));
        Ok(studies.into_iter().map(|study| self.with_lock_file(study)).collect())
    }

    fn names(&self) -> Result<Vec<(StudyId, String)>, StorageError> {
        let names = self.read("listing the studies", read::names)?;
        self.known().learn(names.iter().map(|(id, name)| (*id, &**name)));
        Ok(names)
    }

    fn removed_studies(&self) -> Result<Vec<RemovedStudy>, StorageError> {
        self.read("listing removed studies", remove::removed_studies)
    }

    fn removed_runs(&self) -> Result<Vec<RemovedRun>, StorageError> {
        self.read("listing removed runs", remove_run::removed_runs)
    }

    fn next_number(&self, study: StudyId) -> Result<TrialNumber, StorageError> {
        self.read_of(study, "reading trials", |connection, study| {
            write::trials_of(connection, study).map(TrialNumber)
        })
    }

    fn study(&self, name: &str) -> Result<Option<StoredStudy>, StorageError> {
        let study = self.read("reading a study", |connection| read::study(connection, name))?;
        self.known().learn(study.iter().map(|study| (study.id, name)));
        Ok(study)
    }

    fn summary(&self, study: StudyId) -> Result<StudySummary, StorageError> {
        let summary = self.read_of(study, "reading a study", read::summary)?;
        Ok(self.with_lock_file(summary))
    }

    fn study_state(&self, study: StudyId) -> Result<StudyState, StorageError> {
        let mut state = self.read_of(study, "reading a study", read::study_state)?;
        self.locate_trials(study, &mut state.trials)?;
        Ok(state)
    }

    fn trials(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Trial>, StorageError> {
        let mut trials = self.read_of(study, "reading trials", |connection, study| {
            pages::page(connection, study, query)
        })?;
        self.locate_trials(study, &mut trials)?;
        Ok(trials)
    }

    fn numbers(
        &self,
        study: StudyId,
        query: &TrialQuery,
    ) -> Result<Vec<TrialNumber>, StorageError> {
        self.read_of(study, "reading trials", |connection, study| {
            pages::numbers(connection, study, query)
        })
    }

    fn positions(
        &self,
        study: StudyId,
        query: &TrialQuery,
    ) -> Result<Vec<SortPosition>, StorageError> {
        self.read_of(study, "reading trials", |connection, study| {
            pages::positions(connection, study, query)
        })
    }

    fn count(&self, study: StudyId, filter: &Filter) -> Result<u64, StorageError> {
        self.read_of(study, "counting trials", |connection, study| {
            pages::count(connection, study, filter)
        })
    }

    fn outcomes(
        &self,
        study: StudyId,
        after: OutcomeCursor,
    ) -> Result<(Vec<TrialSummary>, OutcomeCursor), StorageError> {
        self.read_of(study, "reading outcomes", |connection, study| {
            outcomes::outcomes(connection, study, after)
        })
    }

    fn curves(
        &self,
        study: StudyId,
        metric: &str,
        trials: &[TrialNumber],
    ) -> Result<Vec<TrialCurve>, StorageError> {
        self.read_of(study, "reading reports", |connection, study| {
            reports::curves(connection, study, metric, trials)
        })
    }

    fn params(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read_of(study, "reading the names of parameters", trials::params)
    }

    fn metrics(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read_of(study, "reading the names of metrics", reports::metrics)
    }

    fn series_names(&self, study: StudyId) -> Result<Vec<String>, StorageError> {
        self.read_of(study, "reading the names of series", series_read::series_names)
    }

    fn trial(&self, study: StudyId, number: TrialNumber) -> Result<Option<Trial>, StorageError> {
        let mut trial = self.read_of(study, "reading a trial", |connection, study| {
            trials::one(connection, study, number)
        })?;
        self.locate_trials(study, trial.as_mut_slice())?;
        Ok(trial)
    }

    fn attempts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<Attempt>, StorageError> {
        let mut attempts = self.read_of(study, "reading attempts", |connection, study| {
            attempts::attempts(connection, study, trial)
        })?;
        if attempts.iter().any(|attempt| attempt.resume.is_some()) {
            let roots = self.roots(study)?;
            for attempt in &mut attempts {
                if let Some((_, path)) = &mut attempt.resume {
                    *path = roots.found(Some(attempt.trial), path);
                }
            }
        }
        Ok(attempts)
    }

    fn reports(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<(String, u64, f64)>, StorageError> {
        self.read_of(study, "reading reports", |connection, study| {
            reports::reports(connection, study, trial)
        })
    }

    fn reporters(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<(String, u64, AttemptNumber)>, StorageError> {
        self.read_of(study, "reading reports", |connection, study| {
            reports::reporters(connection, study, trial)
        })
    }

    fn series(
        &self,
        study: StudyId,
        trials: &[TrialNumber],
    ) -> Result<Vec<SeriesSummary>, StorageError> {
        self.read_of(study, "listing series", |connection, study| {
            series_read::list(connection, study, trials)
        })
    }

    fn series_points(
        &self,
        study: StudyId,
        trial: TrialNumber,
        metric: &str,
        axis: SeriesAxis,
        range: RangeInclusive<f64>,
    ) -> Result<Vec<Point>, StorageError> {
        self.read_of(study, "reading a series", |connection, study| {
            series_read::points(connection, study, trial, metric, axis, range.clone())
        })
    }

    fn series_pixels(
        &self,
        study: StudyId,
        trial: TrialNumber,
        metric: &str,
        axis: SeriesAxis,
        range: RangeInclusive<f64>,
        columns: usize,
    ) -> Result<Vec<Pixel>, StorageError> {
        self.read_of(study, "reading a series", |connection, study| {
            series_read::pixels(connection, study, trial, metric, axis, range.clone(), columns)
        })
    }

    fn began(&self, study: StudyId, trial: TrialNumber) -> Result<Option<Timestamp>, StorageError> {
        self.read_of(study, "reading attempts", |connection, study| {
            series_read::began(connection, study, trial)
        })
    }

    fn series_fault(&self, study: StudyId) -> Result<Option<SeriesFault>, StorageError> {
        self.read_of(study, "reading series", series_read::check)
    }

    fn events_after(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        let events = self.read_of(study, "reading the journal", |connection, study| {
            journal::events_after(connection, study, seq, limit)
        })?;
        self.located_events(study, events)
    }

    fn events_before(
        &self,
        study: StudyId,
        seq: Seq,
        limit: u64,
    ) -> Result<Vec<(Seq, Timestamp, Event)>, StorageError> {
        let events = self.read_of(study, "reading the journal", |connection, study| {
            journal::events_before(connection, study, seq, limit)
        })?;
        self.located_events(study, events)
    }

    fn remarks(
        &self,
        study: StudyId,
        trial: TrialNumber,
        after: Seq,
    ) -> Result<(Vec<Remarked>, Seq), StorageError> {
        self.read_of(study, "reading remarks", |connection, study| {
            journal::remarks(connection, study, trial, after)
        })
    }

    fn trial_summary(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<BTreeMap<String, serde_json::Value>, StorageError> {
        self.read_of(study, "reading a summary", |connection, study| {
            self.known().summary(connection, study, trial)
        })
    }

    fn trial_summaries(&self, study: StudyId) -> Result<Summaries, StorageError> {
        self.read_of(study, "reading summaries", |connection, study| {
            scan::summaries(connection, study, Seq::default())
        })
    }

    fn predicted(
        &self,
        study: StudyId,
        trial: TrialNumber,
    ) -> Result<Vec<Prediction>, StorageError> {
        self.read_of(study, "reading a proposal", |connection, study| {
            journal::predicted(connection, study, trial)
        })
    }

    fn agents(&self, study: StudyId) -> Result<Vec<StoredAgent>, StorageError> {
        self.read_of(study, "reading agents", journal::agents)
    }

    fn used(&self, study: StudyId) -> Result<Used, StorageError> {
        self.read_of(study, "reading what a study used", used::used)
    }

    fn checkpoints(&self, study: StudyId) -> Result<Vec<(TrialNumber, Checkpoint)>, StorageError> {
        let mut checkpoints = self.read_of(study, "reading checkpoints", used::checkpoints)?;
        let each = checkpoints.iter_mut().map(|(trial, checkpoint)| (*trial, &mut checkpoint.path));
        self.locate(study, each)?;
        Ok(checkpoints)
    }

    fn running_since(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError> {
        self.read_of(study, "reading a study", runners::running_since)
    }

    fn active_time(&self, study: StudyId) -> Result<(i64, Option<Timestamp>), StorageError> {
        self.read_of(study, "reading a study", runners::active_time)
    }

    fn runners(&self, study: StudyId) -> Result<Vec<StoredRunner>, StorageError> {
        self.read_of(study, "reading runners", runners::runners)
    }

    fn revisions(&self, study: StudyId) -> Result<Vec<(Seq, StudySpec)>, StorageError> {
        self.read_of(study, "reading a study", read::revisions)
    }

    fn artifacts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<StoredArtifact>, StorageError> {
        self.read_of(study, "reading artifacts", |connection, study| {
            artifacts::artifacts(connection, study, trial)
        })
    }

    fn document(&self, digest: &str) -> Result<Option<String>, StorageError> {
        self.read("reading a document", |connection| artifacts::document(connection, digest))
    }

    fn lock_file(&self, study: StudyId) -> Option<PathBuf> {
        self.lock_file_of(study)
    }

    fn lease_time(&self) -> Option<Duration> {
        self.time_of_leases()
    }

    fn changed(&mut self) -> Result<bool, StorageError> {
        self.look_for_changes()
    }
}
