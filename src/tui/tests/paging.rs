//! How many trials the leaderboard reads.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{SMALL, Script, Shown, created, key_of, params, source_of, spec};
use crate::storage::memory::MemoryStore;
use crate::storage::{
    Attempt, OutcomeCursor, Remarked, StorageError, StorageReader, StoredStudy, StudyId,
    StudySummary, TrialCurve,
};
use crate::study::checkpoint::Checkpoint;
use crate::study::event::{Event, Seq};
use crate::study::outcome::TrialSummary;
use crate::study::query::{Filter, SortPosition, TrialQuery};
use crate::study::series::{Pixel, Point, SeriesAxis, SeriesSummary};
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};
use crate::study::usage::Used;
use crate::tui::source::Watched;

/// A store that counts the trials that are read from it.
pub(super) struct Counting {
    pub store: MemoryStore,
    pub read: Arc<AtomicU64>,
}

/// Methods that the store answers.
macro_rules! answered {
    ($($method:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)+) => {
        $(fn $method(&self, $($argument: $kind),*) -> Result<$answer, StorageError> {
            self.store.$method($($argument),*)
        })+
    };
}

/// Methods that no screen of trials needs.
macro_rules! refused {
    ($why:literal; $($method:ident($($kind:ty),*) -> $answer:ty;)+) => {
        $(fn $method(&self, $(_: $kind),*) -> Result<$answer, StorageError> {
            panic!($why)
        })+
    };
}

impl StorageReader for Counting {
    answered! {
        directories(study: StudyId) -> Vec<String>;
        identity() -> Option<String>;
        salt() -> String;
        objectives(study: StudyId) -> Vec<(String, String)>;
        studies() -> Vec<StudySummary>;
        names() -> Vec<(StudyId, String)>;
        removed_studies() -> Vec<crate::storage::RemovedStudy>;
        removed_runs() -> Vec<crate::storage::tracked::RemovedRun>;
        next_number(study: StudyId) -> TrialNumber;
        study(name: &str) -> Option<StoredStudy>;
        summary(study: StudyId) -> StudySummary;
        numbers(study: StudyId, query: &TrialQuery) -> Vec<TrialNumber>;
        count(study: StudyId, filter: &Filter) -> u64;
        curves(study: StudyId, metric: &str, trials: &[TrialNumber]) -> Vec<TrialCurve>;
        params(study: StudyId) -> Vec<String>;
        metrics(study: StudyId) -> Vec<String>;
        series_names(study: StudyId) -> Vec<String>;
        positions(study: StudyId, query: &TrialQuery) -> Vec<SortPosition>;
        trial(study: StudyId, number: TrialNumber) -> Option<Trial>;
        reports(study: StudyId, trial: TrialNumber) -> Vec<(String, u64, f64)>;
        reporters(
            study: StudyId,
            trial: TrialNumber
        ) -> Vec<(String, u64, crate::study::trial::AttemptNumber)>;
        remarks(study: StudyId, trial: TrialNumber, after: Seq) -> (Vec<Remarked>, Seq);
        trial_summary(
            study: StudyId,
            trial: TrialNumber
        ) -> std::collections::BTreeMap<String, serde_json::Value>;
        trial_summaries(study: StudyId) -> crate::storage::Summaries;
        predicted(study: StudyId, trial: TrialNumber) -> Vec<crate::study::prediction::Prediction>;
        agents(study: StudyId) -> Vec<crate::storage::StoredAgent>;
        used(study: StudyId) -> Used;
        running_since(study: StudyId) -> (i64, Option<Timestamp>);
        active_time(study: StudyId) -> (i64, Option<Timestamp>);
        runners(study: StudyId) -> Vec<crate::storage::StoredRunner>;
        revisions(study: StudyId) -> Vec<(Seq, StudySpec)>;
        document(digest: &str) -> Option<String>;
        artifacts(
            study: StudyId,
            trial: Option<TrialNumber>
        ) -> Vec<crate::study::artifact::StoredArtifact>;
        series(study: StudyId, trials: &[TrialNumber]) -> Vec<SeriesSummary>;
        series_pixels(
            study: StudyId,
            trial: TrialNumber,
            metric: &str,
            axis: SeriesAxis,
            range: RangeInclusive<f64>,
            columns: usize
        ) -> Vec<Pixel>;
        began(study: StudyId, trial: TrialNumber) -> Option<Timestamp>;
    }
    refused! {
        "the leaderboard reads the visible trials only";
        study_state(StudyId) -> StudyState;
        outcomes(StudyId, OutcomeCursor) -> (Vec<TrialSummary>, OutcomeCursor);
        events_after(StudyId, Seq, u64) -> Vec<(Seq, Timestamp, Event)>;
        events_before(StudyId, Seq, u64) -> Vec<(Seq, Timestamp, Event)>;
        checkpoints(StudyId) -> Vec<(TrialNumber, Checkpoint)>;
        series_points(StudyId, TrialNumber, &str, SeriesAxis, RangeInclusive<f64>) -> Vec<Point>;
        series_fault(StudyId) -> Option<crate::storage::SeriesFault>;
    }
    fn trials(&self, study: StudyId, query: &TrialQuery) -> Result<Vec<Trial>, StorageError> {
        self.read.fetch_add(query.limit, Ordering::Relaxed);
        self.store.trials(study, query)
    }
    fn attempts(
        &self,
        study: StudyId,
        trial: Option<TrialNumber>,
    ) -> Result<Vec<Attempt>, StorageError> {
        assert!(trial.is_some(), "the leaderboard never reads all attempts");
        self.store.attempts(study, trial)
    }
    fn lock_file(&self, study: StudyId) -> Option<PathBuf> {
        self.store.lock_file(study)
    }
    fn changed(&mut self) -> Result<bool, StorageError> {
        self.store.changed()
    }
}

#[test]
fn of_ten_thousand_trials_only_two_pages_are_loaded() {
    let mut script = Script::new(&spec());
    let created = |number| created(TrialNumber(number), params(1e-3, 1, "adamw"));
    script.append(&(0..10_000).map(created).collect::<Vec<_>>());
    let read = Arc::new(AtomicU64::new(0));
    let mut shown = Shown::new(script, SMALL);
    shown.load();
    let counting = Counting { store: shown.script.store.clone(), read: Arc::clone(&read) };
    let mut source =
        source_of(Box::new(counting), Watched::One(shown.script.study), PathBuf::new());
    let seen = source.load(&Arc::new(shown.state.wanted())).unwrap();
    assert_eq!(seen.summary.counts.total(), 10_000);
    let page = shown.state.list.page() as u64;
    assert_eq!(read.load(Ordering::Relaxed), 2 * page);
    shown.state.see(seen);
    shown.state.press(key_of('⇲'));
    let seen = source.load(&Arc::new(shown.state.wanted())).unwrap();
    shown.state.see(seen);
    assert_eq!(
        (shown.state.list.trial(), read.load(Ordering::Relaxed)),
        (Some(shown.key(9_999)), 4 * page)
    );
}
