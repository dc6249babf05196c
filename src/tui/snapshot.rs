//! What the screens show, read from the store at one moment, and what of it a screen wants.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::journal::Journal;
use super::log::LogTail;
use super::picture::{Picture, PictureCache, PictureRequest, Subject};
use super::theme::Theme;
use crate::report::wording::{HolderLife, StudyStatus, micros};
use crate::storage::{
    Attempt, HeldLease, Remarked, StorageError, StorageReader, StudyId, StudySummary,
};
use crate::study::event::Seq;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::series::{Pixel, SeriesClock, SeriesSummary};
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber};
use crate::study::usage::Used;
use crate::tracking::{Behind, behind};

/// What a screen wants besides the header: everything that is loaded depends on this alone.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotRequest {
    /// The rows of the table.
    pub query: TrialQuery,
    /// What else.
    pub part: ScreenData,
    /// Whether the journal is wanted: it is shown, or an answer is awaited.
    pub journal: bool,
}

/// What a screen wants besides the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenData {
    /// Nothing.
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
    pub trials: Vec<Trial>,
}

/// A curve: steps and values.
pub type Curve = Vec<(u64, f64)>;

/// One trial with everything about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// It.
    pub trial: Trial,
    /// Its attempts, in order.
    pub attempts: Vec<Attempt>,
    /// What it reported: its metrics and their curves, by name.
    pub metrics: Vec<(String, Curve)>,
    /// What it logged besides.
    pub logged: Vec<LoggedCurve>,
    /// What was remarked on its lines; read for its own screen only.
    pub remarks: Vec<Remarked>,
}

/// A series that a trial logged, thinned.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedCurve {
    /// The metric and its clock: `train/loss by step`.
    pub name: String,
    /// What its steps count.
    pub clock: SeriesClock,
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

/// What is known of a study at one moment, as far as the screens show it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What it answers.
    pub wanted: Arc<SnapshotRequest>,
    /// The study's line of `ls`.
    pub summary: Arc<StudySummary>,
    /// Its state.
    pub state: StudyStatus,
    /// Metrics that were seen so far.
    pub metrics: Arc<Vec<String>>,
    /// Parameters of tracked runs that were seen so far: those of a search are in its space.
    pub params: Arc<Vec<String>>,
    /// The rows of the table.
    pub page: Arc<Page>,
    /// What the study used so far.
    pub used: Arc<Used>,
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
    ran: Duration,
    running_since: Option<Timestamp>,
}

impl Snapshot {
    /// The time that runners spent on the study, up to `now`.
    pub fn elapsed(&self, now: Timestamp) -> Duration {
        self.ran + self.running_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// The trial, if it is loaded.
    pub fn trial(&self, number: TrialNumber) -> Option<&Trial> {
        let on_page = self.page.trials.iter().find(|trial| trial.number == number);
        on_page.or_else(|| {
            self.detail.as_ref().map(|detail| &detail.trial).filter(|trial| trial.number == number)
        })
    }
}

/// Where snapshots come from: the store, the files of trials, and what was read before.
pub struct Source {
    /// The store's reading side.
    pub reader: Box<dyn StorageReader>,
    /// The study.
    pub study: StudyId,
    /// The store's path: trials' files lie beside it.
    pub store: PathBuf,
    /// Whether the process that holds the study lives.
    pub life: fn(&HeldLease) -> HolderLife,
    known: ReadCache,
    pictures: PictureCache,
}

/// What was read before and is not read again each time.
#[derive(Default)]
struct ReadCache {
    journal: Journal,
    metrics: BTreeSet<String>,
    params: BTreeSet<String>,
    field: Option<(Arc<BackgroundCurves>, Instant)>,
    log: Option<Arc<LogTail>>,
    /// The remarks on the lines of the trial whose screen is shown, up to a place of the journal.
    remarks: Option<(TrialNumber, Vec<Remarked>, Seq)>,
    holder: Option<(HeldLease, HolderLife)>,
    /// Whether what is shown moves without the store.
    moves: bool,
}

/// Curves behind a trial's own: at most so many, of at most so many points, no older than this.
const FIELD_CURVES: u64 = 60;
const FIELD_POINTS: usize = 160;
const FIELD_AGE: Duration = Duration::from_secs(5);

impl Source {
    /// Nothing was read yet.
    pub fn new(
        reader: Box<dyn StorageReader>,
        study: StudyId,
        store: PathBuf,
        life: fn(&HeldLease) -> HolderLife,
        theme: Theme,
    ) -> Self {
        let (known, pictures) = (ReadCache::default(), PictureCache::new(theme));
        Source { reader, study, store, life, known, pictures }
    }

    /// Reads what is wanted.
    pub fn load(&mut self, wanted: &Arc<SnapshotRequest>) -> Result<Snapshot, StorageError> {
        let reader = &*self.reader;
        let summary = reader.summary(self.study)?;
        let life = summary.held.as_ref().map_or(HolderLife::Dead, self.life);
        self.known.holder = summary.held.as_ref().map(|held| (held.clone(), life));
        let state = StudyStatus::new(&summary, life);
        let (ran_micros, running_since) = reader.running_since(self.study)?;
        let page = self.page(&wanted.query, &summary)?;
        let (detail, field, log) = self.part(wanted, &summary)?;
        if wanted.journal {
            self.known.journal.catch_up(&*self.reader, self.study, summary.spec.step)?;
        }
        let (mut picture, mut moves) = (None, false);
        if let ScreenData::Picture(request) = &wanted.part {
            let now = super::now();
            let drawn = self.pictures.draw(&*self.reader, self.study, request, now)?;
            (picture, moves) = (Some(Arc::new(drawn)), request.subject == Subject::Devices);
        }
        self.known.moves = moves;
        self.learn_metrics(&page, detail.as_ref());
        if summary.spec.is_tracked() {
            let names = page.trials.iter().flat_map(|trial| trial.params.iter());
            self.known.params.extend(names.map(|(name, _)| name.to_owned()));
        }
        Ok(Snapshot {
            wanted: Arc::clone(wanted),
            state,
            metrics: Arc::new(self.known.metrics.iter().cloned().collect()),
            params: Arc::new(self.known.params.iter().cloned().collect()),
            page: Arc::new(page),
            detail: detail.map(Arc::new),
            field,
            log,
            picture,
            journal: self.known.journal.clone(),
            used: Arc::new(self.reader.used(self.study)?),
            behind: Arc::new(behind(&*self.reader, self.study)),
            ran: micros(ran_micros),
            // A runner that died left its beginning behind; the clock stopped when it did.
            running_since: running_since.filter(|_| state == StudyStatus::Running),
            summary: Arc::new(summary),
        })
    }

    /// Whether something else than the store changed: the runner died, the log grew.
    pub fn changed_outside(&self) -> bool {
        let ReadCache { holder, log, moves, .. } = &self.known;
        let died = holder.as_ref().is_some_and(|(held, life)| (self.life)(held) != *life);
        let grew = log.as_ref().is_some_and(|log| LogTail::length(&log.path) != log.bytes);
        died || grew || *moves
    }

    fn page(&self, query: &TrialQuery, summary: &StudySummary) -> Result<Page, StorageError> {
        let matching = if query.filter.is_all() {
            summary.counts.total()
        } else {
            self.reader.count(self.study, &query.filter)?
        };
        // Rows may have gone since they were asked for.
        let last_page = matching.saturating_sub(query.limit);
        let first = if query.offset < matching { query.offset } else { last_page };
        let trials = self.reader.trials(self.study, &query.clone().page(first, query.limit))?;
        Ok(Page { matching, first, trials })
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
        let Some(mut detail) = self.detail(*trial)? else {
            return Ok((None, Arc::default(), None));
        };
        if *log {
            detail.remarks = self.remarks(*trial)?;
        }
        let metric = metric.as_ref().unwrap_or(&summary.spec.objective().metric);
        let field = self.field(metric, summary.counts.total())?;
        let attempt = detail.trial.last_attempt().filter(|_| *log);
        self.known.log = attempt.map(|attempt| {
            let path = summary.files(&self.store).log(*trial, attempt);
            let is_current =
                |known: &Arc<LogTail>| known.path == path && known.bytes == LogTail::length(&path);
            let known = self.known.log.take().filter(is_current);
            // A log that cannot be read is shown as none.
            known.unwrap_or_else(|| Arc::new(LogTail::read(&path, attempt).unwrap_or_default()))
        });
        Ok((Some(detail), field, self.known.log.clone()))
    }

    fn detail(&self, number: TrialNumber) -> Result<Option<Detail>, StorageError> {
        let Some(trial) = self.reader.trial(self.study, number)? else {
            return Ok(None);
        };
        let attempts = self.reader.attempts(self.study, Some(number))?;
        let reports = self.reader.reports(self.study, number)?;
        let curve = |group: &[(String, u64, f64)]| {
            (group[0].0.clone(), group.iter().map(|(_, step, value)| (*step, *value)).collect())
        };
        let metrics: Vec<(String, Curve)> =
            reports.chunk_by(|one, next| one.0 == next.0).map(curve).collect();
        let logged = self.logged(number, &metrics)?;
        Ok(Some(Detail { trial, attempts, metrics, logged, remarks: Vec::new() }))
    }

    /// The series of a trial that are no reports.
    fn logged(
        &self,
        number: TrialNumber,
        reported: &[(String, Curve)],
    ) -> Result<Vec<LoggedCurve>, StorageError> {
        const ALL: RangeInclusive<f64> = f64::NEG_INFINITY..=f64::INFINITY;
        let mut logged = Vec::new();
        for series in self.reader.series(self.study, &[number])? {
            let SeriesSummary { metric, clock, count, last, last_value, .. } = series;
            // Reports are integers on the study's clock, which a series of one has in full.
            if reported.iter().any(|(name, curve)| *name == metric && curve.len() as u64 == count) {
                continue;
            }
            let pixels =
                self.reader.series_pixels(self.study, number, &metric, clock, ALL, FIELD_POINTS)?;
            let points = pixels.into_iter().flat_map(Pixel::drawn).collect();
            let name = format!("{metric} by {clock}");
            logged.push(LoggedCurve { name, clock, count, points, last: (last, last_value) });
        }
        Ok(logged)
    }

    fn remarks(&mut self, number: TrialNumber) -> Result<Vec<Remarked>, StorageError> {
        let known = self.known.remarks.take().filter(|(trial, ..)| *trial == number);
        let (_, mut remarks, read) = known.unwrap_or_else(|| (number, Vec::new(), Seq::default()));
        let (new, read) = self.reader.remarks(self.study, number, read)?;
        remarks = Remarked::taken_together(remarks.into_iter().chain(new));
        self.known.remarks = Some((number, remarks.clone(), read));
        Ok(remarks)
    }

    fn field(&mut self, metric: &str, total: u64) -> Result<Arc<BackgroundCurves>, StorageError> {
        if let Some((field, read)) = &self.known.field
            && field.metric == metric
            && read.elapsed() < FIELD_AGE
        {
            return Ok(Arc::clone(field));
        }
        let count = total.min(FIELD_CURVES);
        let trials: Vec<TrialNumber> =
            (0..count).map(|nth| TrialNumber(nth * total / count)).collect();
        let curves = self.reader.curves(self.study, metric, &trials)?;
        let thin = |(trial, curve): (_, Curve)| (trial, thinned(&curve, FIELD_POINTS));
        let curves = curves.into_iter().map(thin).collect();
        let field = Arc::new(BackgroundCurves { metric: metric.to_owned(), curves });
        self.known.field = Some((Arc::clone(&field), Instant::now()));
        Ok(field)
    }

    fn learn_metrics(&mut self, page: &Page, detail: Option<&Detail>) {
        let last = page.trials.iter().flat_map(|trial| trial.last_metrics.iter());
        let own = detail.iter().flat_map(|detail| &detail.metrics);
        for name in last.map(|(name, _)| name).chain(own.map(|(name, _)| name.as_str())) {
            if !self.known.metrics.contains(name) {
                self.known.metrics.insert(name.to_owned());
            }
        }
    }
}

impl SnapshotRequest {
    /// The best trials first, and nothing else.
    pub fn first_page() -> Self {
        SnapshotRequest {
            query: TrialQuery::all(SortKey::Value).page(0, 64),
            part: ScreenData::Nothing,
            journal: false,
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
