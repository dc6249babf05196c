//! How the search goes: the best value so far, the value against each parameter, the rungs of the
//! pruner, and the trials that it has paused.

mod history;
mod paused;
mod rungs;
mod slices;
mod table;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::theme::Theme;
use crate::analysis::importance::{self, Evaluator};
use crate::report::wording::one_line;
use crate::storage::{OutcomeCursor, StorageError, StorageReader, StudyId, StudySummary};
use crate::study::metric::{Direction, Score};
use crate::study::outcome::TrialSummary;
use crate::study::query::{SortKey, TrialQuery};
use crate::study::space::Dimension;
use crate::study::spec::StudySpec;
use crate::study::time::Timestamp;
use crate::study::trial::{Trial, TrialNumber, TrialState};
pub use paused::PausedTrials;
pub use rungs::Decided;

/// What of the search is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchView {
    /// The best value so far, over trials and over time.
    #[default]
    History,
    /// The value against each parameter.
    Slices,
    /// What the pruner decided, step by step.
    Rungs,
    /// The trials that wait for the pruner, and the ends that are predicted for them.
    Paused,
}

impl SearchView {
    /// All of them, in their order.
    pub const ALL: [SearchView; 4] =
        [SearchView::History, SearchView::Slices, SearchView::Rungs, SearchView::Paused];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            SearchView::History => "history",
            SearchView::Slices => "parameters",
            SearchView::Rungs => "rungs",
            SearchView::Paused => "paused",
        }
    }

    /// The one so many after it, in a circle.
    pub fn after(self, steps: usize) -> SearchView {
        Self::ALL[(self as usize + steps) % Self::ALL.len()]
    }
}

/// A trial as far as charts need it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dot {
    state: TrialState,
    /// Its value; of a trial without one its last report, NaN without a report.
    value: f64,
    finished: Option<Timestamp>,
    created: Timestamp,
    /// Whether it violates no limit.
    is_feasible: bool,
}

/// What is known of the search. It is kept between looks: after the first one only what has changed
/// is read.
#[derive(Clone, Debug)]
pub struct SearchData {
    /// The study.
    pub spec: StudySpec,
    /// How much each parameter matters, the most important first, where that was computed.
    pub importances: Vec<(String, f64)>,
    /// When that was last computed, and of how many trials.
    importance_read: Option<(Instant, usize)>,
    cursor: OutcomeCursor,
    /// How many runs had been removed.
    removed: usize,
    /// The dot of each trial, by the trial's number.
    dots: Vec<Dot>,
    /// For each dimension a place on its axis for each trial; NaN where the parameter is not
    /// active.
    places: Vec<Vec<f64>>,
    decided: BTreeMap<TrialNumber, Vec<Decided>>,
    /// Those that wait, once that was read.
    paused: PausedTrials,
    /// So many trials' decisions are read, by number.
    decisions_of: u64,
    best: Option<TrialNumber>,
    /// Finished trials to draw, by number: all of them, or one of so many.
    shown: Vec<usize>,
    one_of: usize,
    /// The trials that were better than all before them, by number and by the moment of their end.
    better_by_number: Vec<usize>,
    better_by_time: Vec<usize>,
}

/// Importances hold so long.
const IMPORTANCE_AGE: Duration = Duration::from_secs(10);
/// More changed trials than this are read in pages.
const FEW: usize = 64;
/// Trials of a page.
const PAGE: u64 = 2_000;
/// No refresh reads decisions for much longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// No chart has more dots: a frame of a hundred thousand would come late, and look the same.
const MOST_DOTS: usize = 8_000;

impl SearchData {
    /// Reads all of a study.
    pub fn load(
        reader: &dyn StorageReader,
        study: &StudySummary,
    ) -> Result<SearchData, StorageError> {
        let spec = study.spec.clone();
        let places = spec.space.dimensions().iter().map(|_| Vec::new()).collect();
        let mut data = SearchData {
            spec,
            importances: Vec::new(),
            importance_read: None,
            cursor: OutcomeCursor::default(),
            removed: removed(reader, study.id)?,
            dots: Vec::new(),
            places,
            decided: BTreeMap::new(),
            paused: PausedTrials::default(),
            decisions_of: 0,
            best: None,
            shown: Vec::new(),
            one_of: 1,
            better_by_number: Vec::new(),
            better_by_time: Vec::new(),
        };
        data.refresh(reader, study)?;
        Ok(data)
    }

    /// Reads what has changed since; whether anything had.
    pub fn refresh(
        &mut self,
        reader: &dyn StorageReader,
        study: &StudySummary,
    ) -> Result<bool, StorageError> {
        if study.spec != self.spec || removed(reader, study.id)? != self.removed {
            *self = SearchData::load(reader, study)?;
            return Ok(true);
        }
        let (outcomes, cursor) = reader.outcomes(study.id, self.cursor)?;
        if outcomes.is_empty() && self.is_complete() {
            return Ok(false);
        }
        for outcome in &outcomes {
            self.take(outcome);
        }
        self.read_decisions(reader, study.id, &outcomes)?;
        self.cursor = cursor;
        self.summarise();
        Ok(true)
    }

    fn take(&mut self, outcome: &TrialSummary) {
        let index = outcome.number.index();
        let dot = Dot {
            state: outcome.state,
            // Of several objectives the charts show the first.
            value: outcome
                .value
                .or(outcome.values.first().copied())
                .or(outcome.last_value)
                .unwrap_or(f64::NAN),
            finished: outcome.finished,
            created: outcome.created,
            is_feasible: outcome.violation.is_none(),
        };
        if index >= self.dots.len() {
            let nothing = Dot { state: TrialState::Queued, value: f64::NAN, finished: None, ..dot };
            self.dots.resize(index + 1, nothing);
            self.places.iter_mut().for_each(|places| places.resize(index + 1, f64::NAN));
        }
        self.dots[index] = dot;
        for (places, dimension) in self.places.iter_mut().zip(self.spec.space.dimensions()) {
            let place = outcome
                .params
                .get(&dimension.name)
                .and_then(|value| dimension.distribution.to_internal(value));
            if let Some(known) = places.get_mut(index) {
                *known = place.unwrap_or(f64::NAN);
            }
        }
    }

    /// Decisions come with whole trials only, so of a large study they are read part by part, each
    /// in bounded time. A study without a pruner has none, and is spared the reading.
    fn read_decisions(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
        changed: &[TrialSummary],
    ) -> Result<(), StorageError> {
        if self.spec.pruner.name == "none" || self.spec.is_tracked() {
            self.decisions_of = self.dots.len() as u64;
            return Ok(());
        }
        let again: Vec<TrialNumber> = changed
            .iter()
            .map(|outcome| outcome.number)
            .filter(|number| number.0 < self.decisions_of)
            .collect();
        if again.len() <= FEW {
            for number in again {
                if let Some(trial) = reader.trial(study, number)? {
                    self.take_decisions(&trial);
                }
            }
        } else {
            self.decisions_of = again.iter().map(|number| number.0).min().unwrap_or(0);
        }
        let begin = Instant::now();
        while !self.is_complete() && begin.elapsed() < PATIENCE {
            let page = reader
                .trials(study, &TrialQuery::all(SortKey::Number).page(self.decisions_of, PAGE))?;
            if page.is_empty() {
                break;
            }
            page.iter().for_each(|trial| self.take_decisions(trial));
            self.decisions_of += page.len() as u64;
        }
        Ok(())
    }

    /// Whether all decisions are read; if not, the next refresh continues with them.
    pub fn is_complete(&self) -> bool {
        self.decisions_of >= self.dots.len() as u64
    }

    fn take_decisions(&mut self, trial: &Trial) {
        let decided = rungs::decided(trial);
        if !decided.is_empty() {
            self.decided.insert(trial.number, decided);
        }
    }

    /// Computes which parameters matter, where there are trials enough to tell, more of them than
    /// before, and not all the time.
    pub fn read_importance(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
    ) -> Result<(), StorageError> {
        let trials = self.dots.len();
        let is_due = |(at, of): (Instant, usize)| at.elapsed() >= IMPORTANCE_AGE && trials > of;
        if self.importance_read.is_none_or(is_due) {
            let (outcomes, _) = reader.outcomes(study, OutcomeCursor::default())?;
            let (direction, seed) = (self.direction(), self.spec.seed);
            // Of several objectives the charts show the first.
            let outcomes = importance::of_objective(&outcomes, self.spec.objectives.len(), 0);
            let (rows, _) = importance::rows(&outcomes, Evaluator::PedAnova, direction);
            let space = &self.spec.space;
            let told = importance::importances(Evaluator::PedAnova, space, &rows, direction, seed);
            // Of too few nothing is said.
            self.importances = told.unwrap_or_default();
            self.importance_read = Some((Instant::now(), trials));
        }
        Ok(())
    }

    /// Reads the trials that wait for their pruner, and predicts their ends, but not all the time.
    pub fn read_paused(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
    ) -> Result<(), StorageError> {
        self.paused.refresh(reader, study, &self.spec, self.dots.len())
    }

    /// What the charts need of all trials at once, so that drawing need not look at all of them.
    fn summarise(&mut self) {
        let direction = self.direction();
        let is_complete = |number: &usize| {
            let Dot { state, value, is_feasible, .. } = self.dots[*number];
            state == TrialState::Complete && !value.is_nan() && is_feasible
        };
        let complete: Vec<usize> = (0..self.dots.len()).filter(is_complete).collect();
        let best = complete
            .iter()
            .copied()
            .min_by_key(|number| Score::new(direction, self.dots[*number].value));
        self.best = best.map(|number| TrialNumber(number as u64));
        self.better_by_number = self.better(complete.iter().copied());
        let mut by_time = complete;
        by_time.sort_by_key(|number| self.dots[*number].finished);
        self.better_by_time = self.better(by_time.into_iter());
        let finished: Vec<usize> =
            (0..self.dots.len()).filter(|number| self.dots[*number].state.is_finished()).collect();
        self.one_of = finished.len().div_ceil(MOST_DOTS).max(1);
        self.shown = finished.into_iter().step_by(self.one_of).collect();
    }

    /// Those that are better than all before them.
    fn better(&self, numbers: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut better: Vec<usize> = Vec::new();
        for number in numbers {
            if better.last().is_none_or(|best| {
                self.direction().better(self.dots[number].value, self.dots[*best].value)
            }) {
                better.push(number);
            }
        }
        better
    }

    /// The title of a chart of trials.
    fn titled(&self, title: String) -> String {
        if self.one_of > 1 { format!("{title}, one trial of {} shown", self.one_of) } else { title }
    }

    /// The metric of the charts: the first of several objectives.
    fn metric_in_words(&self) -> String {
        let metric = one_line(&self.spec.objective().metric);
        match self.spec.objectives.len() {
            0 | 1 => metric,
            several => format!("{metric} (the first of {several} objectives)"),
        }
    }

    fn direction(&self) -> Direction {
        self.spec.direction()
    }

    fn best_value(&self) -> Option<f64> {
        self.best.and_then(|best| self.dots.get(best.index())).map(|dot| dot.value)
    }

    /// The dimensions and where they are in the space: by importance where that is known.
    fn dimensions(&self) -> Vec<(usize, &Dimension)> {
        let importances = &self.importances;
        let rank = |dimension: &Dimension| {
            let at = importances.iter().position(|(name, _)| *name == dimension.name);
            at.unwrap_or(usize::MAX)
        };
        let mut dimensions: Vec<(usize, &Dimension)> =
            self.spec.space.dimensions().iter().enumerate().collect();
        dimensions.sort_by_key(|(_, dimension)| rank(dimension));
        dimensions
    }
}

/// How many of a study's runs were removed.
fn removed(reader: &dyn StorageReader, study: StudyId) -> Result<usize, StorageError> {
    Ok(reader.removed_runs()?.iter().filter(|removed| removed.study == study).count())
}

/// Draws one view; `scroll` moves what does not fit: rows of small charts, or lines. How far it is
/// scrolled, at most as far as there is something to see.
pub fn draw(
    buffer: &mut Buffer,
    area: Rect,
    data: &SearchData,
    view: SearchView,
    scroll: usize,
    theme: Theme,
) -> usize {
    let area = area.intersection(buffer.area);
    match view {
        _ if area.is_empty() => 0,
        SearchView::History => {
            history::draw(buffer, area, data, theme);
            0
        }
        SearchView::Slices => slices::draw(buffer, area, data, scroll, theme),
        SearchView::Rungs => rungs::draw(buffer, area, data, scroll, theme),
        SearchView::Paused => paused::draw(buffer, area, data, scroll, theme),
    }
}
