//! Reads snapshots: from the store, from the files of trials, and from what was read before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::journal::Journal;
use super::picture::{PictureCache, Subject};
use super::snapshot::{
    BackgroundCurves, Curve, Detail, LeaderboardRow, LoggedCurve, Page, ScreenData, Snapshot,
    SnapshotRequest,
};
use super::theme::Theme;
use super::together::{TableScope, Together};
use super::trial_key::TrialKey;
use crate::app::absent_terms;
use crate::app::last_values::take_logged;
use crate::app::log_tail::LogTail;
use crate::app::several::{self, StudySelection};
use crate::app::study_state::{active_time, unmeasured, with_open_attempts};
use crate::report::wording::{HolderLife, StudyStatus};
use crate::storage::{HeldLease, Remarked, StorageError, StorageReader, StudyId, StudySummary};
use crate::study::condition::TrialNames;
use crate::study::event::Seq;
use crate::study::prediction::Prediction;
use crate::study::query::{Filter, TrialQuery};
use crate::study::series::{Pixel, SeriesSummary};
use crate::study::trial::{Trial, TrialNumber};
use crate::tracking::behind;

/// Curves behind a trial's own: at most so many, of at most so many points, no older than this.
const FIELD_CURVES: u64 = 60;
const FIELD_POINTS: usize = 160;
const FIELD_AGE: Duration = Duration::from_secs(5);
/// The names of series and of runs' parameters that filters know, and what filters look for in
/// vain, are no older than this.
const NAMES_AGE: Duration = Duration::from_secs(5);
/// Bytes of a log that are read, at its end.
const LOG_BYTES: u64 = 256 << 10;

/// Which studies are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A single study.
    One(StudyId),
    /// Several, with their trials in one table.
    Several(StudySelection),
}

/// Where snapshots come from: the store, the files of trials, and what was read before.
pub struct Source {
    /// The store's reading side.
    pub reader: Box<dyn StorageReader>,
    /// The studies.
    pub watched: Watched,
    /// The store's path: trials' files lie beside it.
    pub store: PathBuf,
    /// Whether the process that holds the study lives.
    pub life: fn(&HeldLease) -> HolderLife,
    names: SeenNames,
    known: ReadCache,
    pictures: PictureCache,
    /// Who held the studies, and whether they lived.
    holders: Vec<(HeldLease, HolderLife)>,
}

/// What was read before of all studies.
#[derive(Default)]
struct SeenNames {
    metrics: BTreeSet<String>,
    params: BTreeSet<String>,
    series: Vec<String>,
    read: Option<Instant>,
    /// What a filter looks for in vain.
    absent: Option<SeenAbsent>,
}

/// What the filter of this text looks for in vain in these studies.
struct SeenAbsent {
    studies: Vec<StudyId>,
    text: String,
    read: Instant,
    warnings: Arc<Vec<String>>,
}

/// What was read before of the study that is looked at, and is not read again each time.
#[derive(Default)]
struct ReadCache {
    study: Option<StudyId>,
    journal: Journal,
    field: Option<(Arc<BackgroundCurves>, Instant)>,
    log: Option<Arc<LogTail>>,
    /// The remarks on the lines of the trial whose screen is shown, up to a place of the journal.
    remarks: Option<(TrialNumber, Vec<Remarked>, Seq)>,
    /// What was predicted of that trial, which never changes.
    predicted: Option<(StudyId, TrialNumber, Vec<Prediction>)>,
    /// Whether what is shown moves without the store.
    moves: bool,
}

impl Source {
    /// Nothing was read yet.
    pub fn new(
        reader: Box<dyn StorageReader>,
        watched: Watched,
        store: PathBuf,
        life: fn(&HeldLease) -> HolderLife,
        theme: Theme,
    ) -> Self {
        let (names, known) = (SeenNames::default(), ReadCache::default());
        let pictures = PictureCache::new(theme);
        Source { reader, watched, store, life, names, known, pictures, holders: Vec::new() }
    }

    /// The study that screens of one study show first.
    pub fn first_study(&self) -> Result<StudyId, StorageError> {
        match &self.watched {
            Watched::One(study) => Ok(*study),
            Watched::Several(selection) => {
                let found = selection.find(&*self.reader)?.studies;
                // Removed since they were found.
                let gone = StorageError::NoStudy { study: StudyId(0), name: None };
                found.first().map(|study| study.id).ok_or(gone)
            }
        }
    }

    /// Reads what is wanted.
    pub fn load(&mut self, wanted: &Arc<SnapshotRequest>) -> Result<Snapshot, StorageError> {
        let (summary, others) = self.summaries(wanted.study)?;
        let study = summary.id;
        if self.known.study != Some(study) {
            self.known = ReadCache { study: Some(study), ..ReadCache::default() };
            self.pictures.forget();
        }
        let studies: Vec<&StudySummary> =
            others.as_ref().map_or_else(|| vec![&summary], |others| others.iter().collect());
        let held = studies.iter().filter_map(|study| study.held.clone());
        self.holders = held.map(|held| (held.clone(), (self.life)(&held))).collect();
        let status = |summary: &StudySummary| {
            let holder = self.holders.iter().find(|(held, _)| Some(held) == summary.held.as_ref());
            StudyStatus::new(summary, holder.map_or(HolderLife::Dead, |(_, life)| *life))
        };
        let state = status(&summary);
        let with_status: Option<Vec<_>> = others
            .as_ref()
            .map(|others| others.iter().map(|study| (study.clone(), status(study))).collect());
        let (ran, running_since) = active_time(&*self.reader, &summary, state)?;
        self.read_names(&studies)?;
        let (page, left_out) = match &others {
            None => (self.page(&wanted.query, &summary)?, Vec::new()),
            Some(others) => self.page_of_several(&wanted.query, others)?,
        };
        let absent = self.absent(&wanted.query.filter, &studies)?;
        let table = {
            let of_runs = studies.iter().any(|study| study.spec.is_tracked());
            let rows = page.rows.iter().filter(|_| of_runs);
            let names = rows.flat_map(|row| row.trial.params.iter());
            self.names.params.extend(names.map(|(name, _)| name.to_owned()));
            TableScope::new(studies.iter().copied(), others.is_some(), self.names.params.iter())
        };
        let together = with_status.map(|studies| Arc::new(Together::new(studies, left_out)));
        let (detail, field, log) = self.part(wanted, &summary)?;
        if wanted.journal {
            self.known.journal.catch_up(&*self.reader, study, summary.spec.step)?;
        }
        let (mut picture, mut moves) = (None, false);
        if let ScreenData::Picture(request) = &wanted.part {
            let now = super::now();
            let drawn = self.pictures.draw(&*self.reader, &summary, request, now)?;
            (picture, moves) = (Some(Arc::new(drawn)), request.subject == Subject::Devices);
        }
        // The longer a trial runs, the higher or lower it ranks by its time.
        let is_ageing =
            wanted.query.is_about_time() && studies.iter().any(|study| study.counts.running > 0);
        self.known.moves = moves || is_ageing;
        self.learn_metrics(&page, detail.as_ref());
        let names = TrialNames {
            params: table.params.iter().map(|(name, _)| name.clone()).collect(),
            metrics: self.names.metrics.iter().cloned().collect(),
            series: self.names.series.clone(),
        };
        Ok(Snapshot {
            wanted: Arc::clone(wanted),
            state,
            together,
            table: Arc::new(table),
            names: Arc::new(names),
            page: Arc::new(page),
            absent,
            detail: detail.map(Arc::new),
            field,
            log,
            picture,
            journal: self.known.journal.clone(),
            used: Arc::new(self.reader.used(study)?),
            unmeasured: unmeasured(&*self.reader, &summary)?,
            behind: Arc::new(behind(&*self.reader, study)),
            ran,
            running_since,
            summary: Arc::new(summary),
        })
    }

    /// The study that is looked at, and where several are watched, all of them.
    fn summaries(
        &self,
        wanted: StudyId,
    ) -> Result<(StudySummary, Option<Vec<StudySummary>>), StorageError> {
        let selection = match &self.watched {
            Watched::One(study) => return Ok((self.reader.summary(*study)?, None)),
            Watched::Several(selection) => selection,
        };
        let found = selection.find(&*self.reader)?.studies;
        let of_wanted = found.iter().find(|study| study.id == wanted);
        // One that was removed gives its place to the first.
        let summary = of_wanted.or(found.first()).cloned();
        let summary = summary.ok_or(StorageError::NoStudy { study: wanted, name: None })?;
        Ok((summary, Some(found)))
    }

    /// Whether something else than the store changed: a runner died, the log grew.
    pub fn changed_outside(&self) -> bool {
        let ReadCache { log, moves, .. } = &self.known;
        let died = self.holders.iter().any(|(held, life)| (self.life)(held) != *life);
        let grew = log.as_ref().is_some_and(|log| LogTail::length(&log.path) != log.bytes);
        died || grew || *moves
    }

    fn page(&self, query: &TrialQuery, summary: &StudySummary) -> Result<Page, StorageError> {
        let query = query.clone().filtered(summary.visible(query.filter.clone()));
        let query = with_open_attempts(&*self.reader, summary, query)?;
        let matching = if query.filter.is_all() {
            summary.counts.total()
        } else {
            self.reader.count(summary.id, &query.filter)?
        };
        // Rows may have gone since they were asked for.
        let last_page = matching.saturating_sub(query.limit);
        let first = if query.offset < matching { query.offset } else { last_page };
        let limit = query.limit;
        let mut trials = self.reader.trials(summary.id, &query.page(first, limit))?;
        take_logged(&*self.reader, summary, &mut trials)?;
        let row = |(rank, trial): (u64, Trial)| LeaderboardRow {
            key: TrialKey { study: summary.id, number: trial.number },
            rank,
            trial,
        };
        Ok(Page { matching, first, rows: (first + 1..).zip(trials).map(row).collect() })
    }

    /// A page of the trials of all studies that understand the filter, and the names of the others.
    fn page_of_several(
        &self,
        query: &TrialQuery,
        studies: &[StudySummary],
    ) -> Result<(Page, Vec<String>), StorageError> {
        let (mut listed, mut left_out) = (Vec::new(), Vec::new());
        let names = TrialNames {
            params: TableScope::new(studies.iter(), true, self.names.params.iter())
                .params
                .into_iter()
                .map(|(name, _)| name)
                .collect(),
            metrics: self.names.metrics.iter().cloned().collect(),
            series: self.names.series.clone(),
        };
        for study in studies {
            match Filter::parse_with(query.filter.text(), &study.spec, &names) {
                Ok(filter) => {
                    let own = query.clone().filtered(study.visible(filter)).page(0, u64::MAX);
                    listed.push((study.clone(), with_open_attempts(&*self.reader, study, own)?));
                }
                Err(_) => left_out.push(study.spec.name.clone()),
            }
        }
        let page = several::page(&*self.reader, &listed, query.offset, query.limit)?;
        let row = |row: several::RankedTrial| LeaderboardRow {
            key: TrialKey { study: listed[row.study].0.id, number: row.trial.number },
            rank: row.rank,
            trial: row.trial,
        };
        let rows = page.rows.into_iter().map(row).collect();
        Ok((Page { matching: page.matching, first: page.first, rows }, left_out))
    }

    /// Warnings about what the filter looks for and no trial has.
    fn absent(
        &mut self,
        filter: &Filter,
        studies: &[&StudySummary],
    ) -> Result<Arc<Vec<String>>, StorageError> {
        let text = filter.text();
        if text.is_empty() {
            return Ok(Arc::default());
        }
        let of: Vec<StudyId> = studies.iter().map(|study| study.id).collect();
        if let Some(known) = &self.names.absent
            && (&known.studies, known.text.as_str()) == (&of, text)
            && known.read.elapsed() < NAMES_AGE
        {
            return Ok(Arc::clone(&known.warnings));
        }
        let mut filters = Vec::new();
        for study in studies {
            let names = self.reader.trial_names(study.id)?;
            // One that does not understand it is left out of the table, too.
            let filter = Filter::parse_with(text, &study.spec, &names).ok();
            filters.extend(filter.map(|filter| (*study, filter)));
        }
        let filters = filters.iter().map(|(study, filter)| (*study, filter));
        let warnings = Arc::new(absent_terms::warnings(&*self.reader, filters)?);
        self.names.absent = Some(SeenAbsent {
            studies: of,
            text: text.to_owned(),
            read: Instant::now(),
            warnings: Arc::clone(&warnings),
        });
        Ok(warnings)
    }

    fn read_names(&mut self, studies: &[&StudySummary]) -> Result<(), StorageError> {
        if self.names.read.is_some_and(|read| read.elapsed() < NAMES_AGE) {
            return Ok(());
        }
        let mut names = BTreeSet::new();
        for study in studies {
            names.extend(self.reader.series_names(study.id)?);
            if study.spec.is_tracked() {
                self.names.params.extend(self.reader.params(study.id)?);
            }
        }
        self.names.series = names.into_iter().collect();
        self.names.read = Some(Instant::now());
        Ok(())
    }

    #[expect(clippy::type_complexity, reason = "three parts of one answer, used once")]
    fn part(
        &mut self,
        wanted: &SnapshotRequest,
        summary: &StudySummary,
    ) -> Result<(Option<Detail>, Arc<BackgroundCurves>, Option<Arc<LogTail>>), StorageError> {
        let ScreenData::Trial { trial, metric, log } = &wanted.part else {
            self.known.log = None;
            return Ok((None, Arc::default(), None));
        };
        let study = summary.id;
        let Some(mut detail) = self.detail(study, *trial)? else {
            return Ok((None, Arc::default(), None));
        };
        if *log {
            detail.remarks = self.remarks(study, *trial)?;
            detail.predicted = self.predicted(study, *trial)?;
            detail.summary = self.reader.trial_summary(study, *trial)?;
            detail.artifacts = self.reader.artifacts(study, Some(*trial))?;
        }
        let metric = metric.as_ref().unwrap_or(&summary.spec.objective().metric);
        let field = self.field(study, metric, summary.counts.total())?;
        let attempt = detail.trial.last_attempt().filter(|_| *log);
        self.known.log = attempt.map(|attempt| {
            let path = summary.files(&self.store).log(*trial, attempt);
            let is_current =
                |known: &Arc<LogTail>| known.path == path && known.bytes == LogTail::length(&path);
            let known = self.known.log.take().filter(is_current);
            // A log that cannot be read is shown as none.
            known.unwrap_or_else(|| {
                Arc::new(LogTail::read(&path, attempt, LOG_BYTES).unwrap_or_default())
            })
        });
        Ok((Some(detail), field, self.known.log.clone()))
    }

    fn detail(&self, study: StudyId, number: TrialNumber) -> Result<Option<Detail>, StorageError> {
        let Some(trial) = self.reader.trial(study, number)? else {
            return Ok(None);
        };
        let attempts = self.reader.attempts(study, Some(number))?;
        let reports = self.reader.reports(study, number)?;
        let curve = |group: &[(String, u64, f64)]| {
            (group[0].0.clone(), group.iter().map(|(_, step, value)| (*step, *value)).collect())
        };
        let metrics: Vec<(String, Curve)> =
            reports.chunk_by(|one, next| one.0 == next.0).map(curve).collect();
        let logged = self.logged(study, number, &metrics)?;
        Ok(Some(Detail {
            trial,
            attempts,
            metrics,
            logged,
            summary: BTreeMap::new(),
            artifacts: Vec::new(),
            remarks: Vec::new(),
            predicted: Vec::new(),
        }))
    }

    /// The series of a trial that are no reports.
    fn logged(
        &self,
        study: StudyId,
        number: TrialNumber,
        reported: &[(String, Curve)],
    ) -> Result<Vec<LoggedCurve>, StorageError> {
        const ALL: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;
        let mut logged = Vec::new();
        for series in self.reader.series(study, &[number])? {
            let SeriesSummary { metric, axis, count, last, last_value, .. } = series;
            // Reports are integers on the study's axis, which a series of one has in full.
            if reported.iter().any(|(name, curve)| *name == metric && curve.len() as u64 == count) {
                continue;
            }
            let pixels =
                self.reader.series_pixels(study, number, &metric, axis, ALL, FIELD_POINTS)?;
            let points = pixels.into_iter().flat_map(Pixel::drawn).collect();
            let name = format!("{metric} by {axis}");
            logged.push(LoggedCurve { name, axis, count, points, last: (last, last_value) });
        }
        Ok(logged)
    }

    fn predicted(
        &mut self,
        study: StudyId,
        number: TrialNumber,
    ) -> Result<Vec<Prediction>, StorageError> {
        if let Some((of, trial, known)) = &self.known.predicted
            && (*of, *trial) == (study, number)
        {
            return Ok(known.clone());
        }
        let predicted = self.reader.predicted(study, number)?;
        self.known.predicted = Some((study, number, predicted.clone()));
        Ok(predicted)
    }

    fn remarks(
        &mut self,
        study: StudyId,
        number: TrialNumber,
    ) -> Result<Vec<Remarked>, StorageError> {
        let known = self.known.remarks.take().filter(|(trial, ..)| *trial == number);
        let (_, mut remarks, read) = known.unwrap_or_else(|| (number, Vec::new(), Seq::default()));
        let (new, read) = self.reader.remarks(study, number, read)?;
        remarks = Remarked::taken_together(remarks.into_iter().chain(new));
        self.known.remarks = Some((number, remarks.clone(), read));
        Ok(remarks)
    }

    fn field(
        &mut self,
        study: StudyId,
        metric: &str,
        total: u64,
    ) -> Result<Arc<BackgroundCurves>, StorageError> {
        if let Some((field, read)) = &self.known.field
            && field.metric == metric
            && read.elapsed() < FIELD_AGE
        {
            return Ok(Arc::clone(field));
        }
        let count = total.min(FIELD_CURVES);
        let trials: Vec<TrialNumber> =
            (0..count).map(|nth| TrialNumber(nth * total / count)).collect();
        let curves = self.reader.curves(study, metric, &trials)?;
        let thin = |(trial, curve): (_, Curve)| (trial, thinned(&curve, FIELD_POINTS));
        let curves = curves.into_iter().map(thin).collect();
        let field = Arc::new(BackgroundCurves { metric: metric.to_owned(), curves });
        self.known.field = Some((Arc::clone(&field), Instant::now()));
        Ok(field)
    }

    fn learn_metrics(&mut self, page: &Page, detail: Option<&Detail>) {
        let last = page.trials().flat_map(|trial| trial.last_metrics.iter());
        let own = detail.iter().flat_map(|detail| &detail.metrics);
        for name in last.map(|(name, _)| name).chain(own.map(|(name, _)| name.as_str())) {
            let is_logged = self.names.series.iter().any(|series| series == name);
            if !is_logged && !self.names.metrics.contains(name) {
                self.names.metrics.insert(name.to_owned());
            }
        }
    }
}

/// At most about `most` points of a curve, its last one among them.
fn thinned(curve: &[(u64, f64)], most: usize) -> Curve {
    let stride = curve.len().div_ceil(most).max(1);
    let mut thinned: Curve = curve.iter().step_by(stride).copied().collect();
    thinned.extend(curve.last().filter(|last| thinned.last().map(|kept| kept.0) != Some(last.0)));
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_curve_keeps_its_ends() {
        let curve: Curve = (0..1_000).map(|step| (step, 1.0)).collect();
        let thin = thinned(&curve, 160);
        assert!(thin.len() <= 161);
        assert_eq!((thin.first(), thin.last()), (curve.first(), curve.last()));
        assert_eq!(thinned(&[], 160), []);
        assert_eq!(thinned(&curve[..3], 160), curve[..3]);
    }
}
