//! The trials that wait for their pruner, by the ends that are predicted for them.

use std::time::{Duration, Instant};

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;

use super::SearchData;
use super::table::ScrolledTable;
use crate::config::max_resource;
use crate::report::interval::IntervalScale;
use crate::report::table::Columns;
use crate::report::wording::{number, one_line};
use crate::samplers::{CurvePredictor, Predicted, PredictedTrial};
use crate::storage::{StorageError, StorageReader, StudyId};
use crate::study::front;
use crate::study::history::History;
use crate::study::metric::{Score, significant};
use crate::study::query::{SortKey, TrialQuery};
use crate::study::spec::StudySpec;
use crate::study::trial::{Trial, TrialNumber};
use crate::tui::theme::Theme;

/// Predictions hold so long.
const AGE: Duration = Duration::from_secs(5);
/// Of larger studies nothing is predicted: all their trials would be read.
const MOST_TRIALS: usize = 2_000;
/// Trials of which ends are predicted: those that are next by their values.
const MOST_PREDICTED: usize = 20;
/// Columns of a drawn interval.
const ROOM: std::ops::RangeInclusive<usize> = 12..=60;
/// Significant digits of predictions.
const DIGITS: usize = 3;

/// A trial that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct PausedTrial {
    trial: TrialNumber,
    step: u64,
    value: f64,
    /// The end that is predicted for it.
    end: Option<Predicted>,
}

/// Trials that wait, and when they were read.
#[derive(Clone, Debug, Default)]
pub struct PausedTrials {
    read: Option<Instant>,
    all: Vec<PausedTrial>,
}

impl PausedTrials {
    /// Reads them, unless they were a moment ago.
    pub fn refresh(
        &mut self,
        reader: &dyn StorageReader,
        study: StudyId,
        spec: &StudySpec,
        trials: usize,
    ) -> Result<(), StorageError> {
        if self.read.is_some_and(|at| at.elapsed() < AGE) {
            return Ok(());
        }
        let page = TrialQuery::all(SortKey::Number).page(0, MOST_TRIALS as u64);
        let known = if trials <= MOST_TRIALS { reader.trials(study, &page)? } else { Vec::new() };
        self.all = waiting(spec, &known);
        self.read = Some(Instant::now());
        Ok(())
    }
}

fn waiting(spec: &StudySpec, trials: &[Trial]) -> Vec<PausedTrial> {
    let score = |trial: &PausedTrial| Score::new(spec.direction(), trial.value);
    let mut all: Vec<PausedTrial> = trials
        .iter()
        .filter(|trial| trial.waits_for_its_pruner())
        .filter_map(|trial| {
            // Of several objectives the first, as in the charts.
            let of_several = || {
                let (step, values) = trial.vectors.last()?;
                Some((*step, values.first().copied().flatten().unwrap_or(f64::NAN)))
            };
            let (step, value) = trial.last().or_else(of_several)?;
            Some(PausedTrial { trial: trial.number, step, value, end: None })
        })
        .collect();
    all.sort_by(|a, b| b.step.cmp(&a.step).then(score(a).cmp(&score(b))));
    let predictor = CurvePredictor::default();
    let directions = front::directions(&spec.objectives);
    let history = History::of_several(trials, &directions).with_step_unit(spec.step);
    for one in all.iter_mut().take(MOST_PREDICTED) {
        let whose = PredictedTrial::Reported(one.trial);
        let ends = predictor.predict(&spec.space, history, max_resource(spec), 0, whose, &[]);
        one.end = ends.and_then(|ends| ends.last().copied());
    }
    let end = |trial: &PausedTrial| {
        trial.end.map_or((true, None), |end| (false, Some(Score::new(spec.direction(), end.mean))))
    };
    all.sort_by_key(end);
    all
}

pub(super) fn draw(
    buffer: &mut Buffer,
    area: Rect,
    data: &SearchData,
    scroll: usize,
    theme: Theme,
) -> usize {
    let rows = &data.paused.all;
    let pruner = one_line(&data.spec.pruner.name);
    if rows.is_empty() {
        let nothing = match data.dots.len() > MOST_TRIALS {
            _ if pruner == "none" => "this study pauses no trial: it has no `[pruner]`".to_owned(),
            true => format!(
                "more than {MOST_TRIALS} trials: `hpsearch trials {} --where state=paused` lists \
                 those that wait",
                one_line(&data.spec.name)
            ),
            false => format!("no trial waits for `{pruner}`"),
        };
        theme.say_in(buffer, area, &nothing);
        return 0;
    }
    let metric = one_line(&data.spec.objective().metric);
    let best =
        data.best_value().map_or_else(String::new, |best| format!("; best {}", number(best)));
    let is_predicted = rows.iter().any(|row| row.end.is_some());
    let heading = if is_predicted {
        let report = theme.either("●", "o");
        let count = rows.len();
        format!(" {pruner}: {count} wait, by predicted {metric}{best}; {report} last report")
    } else {
        format!(" {pruner}: trials that wait, by their {metric}{best}")
    };
    let of_end = |value: fn(&Predicted) -> f64| {
        move |row: &PausedTrial| {
            row.end.as_ref().map_or_else(String::new, |end| significant(value(end), DIGITS))
        }
    };
    let mut columns = Columns::of(rows)
        .right("trial", |row| row.trial.to_string())
        .right(data.spec.step.as_str(), |row| row.step.to_string())
        .point("value", |row| number(row.value));
    if is_predicted {
        columns = columns
            .point("predicted end", of_end(|end| end.mean))
            .point("from", of_end(|end| end.low))
            .point("to", of_end(|end| end.high));
    }
    let table = ScrolledTable { heading, columns: columns.end(), rows: rows.len() };
    table.draw(buffer, area, scroll, theme, |index, room| {
        let room = room.min(*ROOM.end());
        let ends = rows.iter().filter_map(|row| Some((row.end.as_ref()?, Some(row.value))));
        match &rows[index].end {
            Some(end) if ROOM.contains(&room) => {
                let scale = IntervalScale::of(ends, room, theme.charset);
                let line = scale.line(end, Some(rows[index].value));
                vec![Span::raw(line)]
            }
            _ => Vec::new(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::metric::Direction;
    use crate::study::params::Params;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::time::Timestamp;
    use crate::study::trial::{Origin, TrialState};

    #[test]
    fn trials_of_several_objectives_wait_too() {
        let space = Space::new(Vec::new()).unwrap();
        let spec = StudySpec::new("s", "loss", Direction::Minimize, space, Program::Inline);
        let number = TrialNumber(0);
        let origin = Origin::Enqueued(0);
        let trial = Trial {
            state: TrialState::Paused,
            vectors: vec![(1, vec![Some(0.5), Some(2.0)]), (3, vec![Some(0.25), None])],
            ..Trial::new(number, Params::new(), origin, Timestamp(0))
        };
        let expected = PausedTrial { trial: number, step: 3, value: 0.25, end: None };
        assert_eq!(waiting(&spec, &[trial]), [expected]);
    }
}
