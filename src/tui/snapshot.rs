//! What the screens show at one moment, and what of it a screen wants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use super::journal::Journal;
use super::picture::{Picture, PictureRequest};
use super::together::{TableScope, Together};
use super::trial_key::TrialKey;
use crate::app::log_tail::LogTail;
use crate::report::wording::StudyStatus;
use crate::storage::{Attempt, Remarked, StudyId, StudySummary};
use crate::study::artifact::StoredArtifact;
use crate::study::condition::TrialNames;
use crate::study::params::Params;
use crate::study::prediction::Prediction;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::series::SeriesAxis;
use crate::study::state::shown_params;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};
use crate::study::unmeasured::Unmeasured;
use crate::study::usage::Used;
use crate::tracking::Behind;

/// What a screen wants besides the header: everything that is loaded depends on this alone.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotRequest {
    /// The study that everything but the table is about.
    pub study: StudyId,
    /// The rows of the table; of several studies, each reads the filter's text by itself.
    pub query: TrialQuery,
    /// What the screen shows besides the table.
    pub part: ScreenData,
    /// Whether the journal is wanted: it is shown, or an answer is awaited.
    pub journal: bool,
}

impl SnapshotRequest {
    /// The best trials first, and nothing else.
    pub fn first_page(study: StudyId) -> Self {
        SnapshotRequest {
            study,
            query: TrialQuery::all(SortKey::Value).page(0, 64),
            part: ScreenData::Nothing,
            journal: false,
        }
    }
}

/// What a screen wants besides the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenData {
    /// Only the table is shown.
    Nothing,
    /// One trial.
    Trial {
        /// Its number.
        trial: TrialNumber,
        /// Whose curves stand behind its own; `None`: the study's.
        metric: Option<String>,
        /// Whether its log is wanted, too.
        log: bool,
    },
    /// A screen that the loader draws.
    Picture(PictureRequest),
}

/// The rows of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// How many trials pass the filter.
    pub matching: u64,
    /// The row of the first of these.
    pub first: u64,
    /// The trials.
    pub rows: Vec<LeaderboardRow>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaderboardRow {
    /// The study and the number of the row's trial.
    pub key: TrialKey,
    /// Its place in the order, or in that of its study where there is no common one; from 1.
    pub rank: u64,
    /// The trial.
    pub trial: Trial,
}

impl Page {
    /// The trials.
    pub fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.rows.iter().map(|row| &row.trial)
    }
}

/// A curve: steps and values.
pub type Curve = Vec<(u64, f64)>;

/// One trial with everything about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// The trial, with its parameters and its last report.
    pub trial: Trial,
    /// Its attempts, in order.
    pub attempts: Vec<Attempt>,
    /// What it reported: its metrics and their curves, by name.
    pub metrics: Vec<(String, Curve)>,
    /// What it logged besides.
    pub logged: Vec<LoggedCurve>,
    /// Its summary; read for its own screen only.
    pub summary: BTreeMap<String, Json>,
    /// The files, images, texts and tables that it kept; read for its own screen only.
    pub artifacts: Vec<StoredArtifact>,
    /// What was remarked on its lines; read for its own screen only.
    pub remarks: Vec<Remarked>,
    /// The values that were predicted when it was proposed; read for its own screen only.
    pub predicted: Vec<Prediction>,
}

/// A series that a trial logged, thinned.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedCurve {
    /// The metric and its axis: `train/loss by step`.
    pub name: String,
    /// What its steps count.
    pub axis: SeriesAxis,
    /// How many points there are.
    pub count: u64,
    /// Those that are drawn: of each pixel the smallest, the largest and the last.
    pub points: Vec<(f64, f64)>,
    /// The last step, and the value there.
    pub last: (f64, f64),
}

/// The same metric of other trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackgroundCurves {
    /// Its name.
    pub metric: String,
    /// Some of the trials, spread over the study, and their curves, thinned out.
    pub curves: Vec<(TrialNumber, Curve)>,
}

/// What is known of the studies that are watched at one moment, as far as the screens show it.
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What it answers.
    pub wanted: Arc<SnapshotRequest>,
    /// The study's line of `ls`.
    pub summary: Arc<StudySummary>,
    /// Its state.
    pub state: StudyStatus,
    /// All studies of the table, where it has several.
    pub together: Option<Arc<Together>>,
    /// What the columns of the table are called.
    pub table: Arc<TableScope>,
    /// Metrics, series and parameters that were seen so far.
    pub names: Arc<TrialNames>,
    /// The rows of the table.
    pub page: Arc<Page>,
    /// Warnings about what the filter looks for and no trial has.
    pub absent: Arc<Vec<String>>,
    /// What the study used so far.
    pub used: Arc<Used>,
    /// Why a goal of several objectives is not in force.
    pub unmeasured: Option<Unmeasured>,
    /// Its destinations that lack something.
    pub behind: Arc<Vec<Behind>>,
    /// The wanted trial.
    pub detail: Option<Arc<Detail>>,
    /// What stands behind its curve.
    pub field: Arc<BackgroundCurves>,
    /// Its log.
    pub log: Option<Arc<LogTail>>,
    /// The screen that was drawn.
    pub picture: Option<Arc<Picture>>,
    /// The journal, as far as it was wanted.
    pub journal: Journal,
    pub(super) ran: Duration,
    pub(super) running_since: Option<Timestamp>,
}

impl Snapshot {
    /// The time that runners spent on the study, up to `now`.
    pub fn elapsed(&self, now: Timestamp) -> Duration {
        self.ran + self.running_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Nothing of it runs any longer.
    pub fn stand_still(&mut self, now: Timestamp) {
        let still = |state: &mut StudyStatus| {
            if *state == StudyStatus::Running {
                *state = StudyStatus::Interrupted;
            }
        };
        still(&mut self.state);
        if let Some(together) = &mut self.together {
            Arc::make_mut(together).studies.iter_mut().for_each(|(_, state)| still(state));
        }
        self.ran = self.elapsed(now);
        self.running_since = None;
    }

    /// The trial, if it is loaded.
    pub fn trial(&self, key: TrialKey) -> Option<&Trial> {
        let on_page = self.page.rows.iter().find(|row| row.key == key).map(|row| &row.trial);
        on_page.or_else(|| self.detail_of(key).map(|detail| &detail.trial))
    }

    /// The parameters that are shown with a trial's value.
    pub fn params<'a>(&self, study: StudyId, trial: &'a Trial) -> &'a Params {
        self.study(study).map_or(&trial.params, |study| shown_params(&study.spec, trial))
    }

    /// Everything about a trial, if it is loaded.
    pub fn detail_of(&self, key: TrialKey) -> Option<&Arc<Detail>> {
        let is_it = |detail: &&Arc<Detail>| {
            self.summary.id == key.study && detail.trial.number == key.number
        };
        self.detail.as_ref().filter(is_it)
    }

    /// A study, as far as it is loaded.
    pub fn study(&self, id: StudyId) -> Option<&StudySummary> {
        let among = self.together.as_ref().and_then(|together| together.study(id));
        among.or_else(|| Some(&*self.summary).filter(|summary| summary.id == id))
    }

    /// Whether a study's runner died.
    pub fn is_interrupted(&self, id: StudyId) -> bool {
        let among = self.together.as_ref().and_then(|together| together.state(id));
        let own = (self.summary.id == id).then_some(self.state);
        among.or(own) == Some(StudyStatus::Interrupted)
    }

    /// The time spent on a trial of a study; of a dead runner only its ended attempts count.
    pub fn time_spent(&self, study: StudyId, trial: &Trial, now: Timestamp) -> Option<Duration> {
        let is_dead = self.is_interrupted(study);
        trial.time_spent(trial.started.filter(|_| is_dead).unwrap_or(now))
    }

    /// Whether a trial is the best of those that its value compares with.
    pub fn is_best(&self, key: TrialKey) -> bool {
        match &self.together {
            Some(together) => together.is_best(key),
            None => self.summary.is_best(key.number),
        }
    }

    /// All studies whose trials are in the table.
    pub fn studies(&self) -> Vec<&StudySummary> {
        match &self.together {
            Some(together) => together.studies.iter().map(|(study, _)| study).collect(),
            None => vec![&self.summary],
        }
    }
}
