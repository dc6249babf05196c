//! Sort keys of trials.

use std::cmp::Ordering;

use crate::study::condition::{
    ExpressionError, Names, Needs, Property, TrialField, TrialNames, objective_value,
};
use crate::study::metric::{Direction, Score};
use crate::study::params::Value;
use crate::study::spec::StudySpec;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// A sort key. Ties are ordered by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SortKey {
    /// Best value first (complete trials, then the others by their last report; NaN is worst,
    /// trials without a report last).
    #[default]
    Value,
    /// By number.
    Number,
    /// By the step of the last report.
    Step,
    /// By the time spent.
    Seconds,
    /// By state, in the order of a trial's life.
    State,
    /// By creation: the order of numbers, except over several studies.
    Created,
    /// By the start of the last attempt.
    Started,
    /// By a parameter: numbers, then texts.
    Param(String),
    /// By the last value of a metric.
    Metric(String),
}

/// A trial's position in an order.
#[derive(Clone, Debug)]
pub struct SortPosition {
    /// Never reversed: absent values come last in either direction.
    group: u8,
    amount: Amount,
    number: TrialNumber,
}

#[derive(Clone, Debug)]
enum Amount {
    Nothing,
    Whole(i64),
    Real(f64),
    Score(Score),
    Text(String),
}

impl SortKey {
    /// Parses a sort key and its direction: `value`, `number`, `step`, `seconds`, `state`,
    /// `created`, `started`, a parameter or a metric, with a leading `-` to reverse it.
    pub fn parse(text: &str, spec: &StudySpec) -> Result<(SortKey, bool), ExpressionError> {
        Self::parse_with(text, spec, &TrialNames::default())
    }

    /// The same with the names of trials.
    pub fn parse_with(
        text: &str,
        spec: &StudySpec,
        trials: &TrialNames,
    ) -> Result<(SortKey, bool), ExpressionError> {
        let word = text.trim();
        let name = word.strip_prefix('-').unwrap_or(word);
        let end = text.trim_end().len();
        let names = Names { spec, trials };
        let key = match name {
            "value" => SortKey::Value,
            "number" | "trial" => SortKey::Number,
            "step" | "last_step" => SortKey::Step,
            "seconds" | "time" => SortKey::Seconds,
            "state" => SortKey::State,
            "started" => SortKey::Started,
            _ => match names.sorted(name, end - name.len()..end)? {
                Property::Param(param) => SortKey::Param(param),
                Property::Metric(metric) => SortKey::Metric(metric),
                Property::Step => SortKey::Step,
                Property::Created => SortKey::Created,
                // The best by the front come first only where no objective is named.
                Property::LastValue => SortKey::Metric(spec.objective().metric.clone()),
                Property::Objective if spec.has_several_objectives() => {
                    SortKey::Metric(spec.objective().metric.clone())
                }
                _ => SortKey::Value,
            },
        };
        Ok((key, name != word))
    }

    /// The trial's position.
    pub fn position(&self, direction: Direction, trial: &Trial) -> SortPosition {
        let (group, amount) = self.key(direction, trial);
        SortPosition { group, amount, number: trial.number }
    }

    fn key(&self, direction: Direction, trial: &Trial) -> (u8, Amount) {
        let whole = |number: u64| Amount::Whole(i64::try_from(number).unwrap_or(i64::MAX));
        let last = 3;
        let present =
            |amount: Option<Amount>| amount.map_or((last, Amount::Nothing), |amount| (0, amount));
        match self {
            SortKey::Value => {
                let value = objective_value(trial);
                let group = match (trial.state, trial.violation) {
                    (TrialState::Complete, None) => u8::from(value.is_none()),
                    // Whatever its value, it is not the best.
                    (TrialState::Complete, Some(violation)) => {
                        return (2, Amount::Real(violation));
                    }
                    (
                        TrialState::Queued
                        | TrialState::Running
                        | TrialState::Paused
                        | TrialState::Pruned
                        | TrialState::Failed,
                        _,
                    ) => 3 + u8::from(value.is_none()),
                };
                (group, Amount::Score(Score::new(direction, value.unwrap_or(f64::NAN))))
            }
            SortKey::Number => (0, whole(trial.number.0)),
            SortKey::Step => present(trial.last().map(|(step, _)| whole(step))),
            SortKey::Seconds => (0, Amount::Whole(trial.busy_micros)),
            SortKey::State => (
                0,
                whole(TrialState::ALL.iter().position(|state| *state == trial.state).unwrap_or(0)
                    as u64),
            ),
            SortKey::Created => (0, Amount::Whole(trial.created.0)),
            SortKey::Started => present(trial.started.map(|at| Amount::Whole(at.0))),
            SortKey::Param(name) => match trial.params.get(name) {
                None => (last, Amount::Nothing),
                Some(value) => match value.as_number() {
                    Some(number) => (0, Amount::Real(number)),
                    None => (
                        u8::from(matches!(value, Value::Text(_) | Value::List(_))),
                        Amount::Text(value.to_string()),
                    ),
                },
            },
            SortKey::Metric(name) => match trial.last_metrics.get(name) {
                None => (last, Amount::Nothing),
                Some(value) if value.is_nan() => (1, Amount::Nothing),
                Some(value) => (0, Amount::Real(value)),
            },
        }
    }

    /// Adds the fields of a trial that the key needs.
    pub fn add_needs(&self, needs: &mut Needs) {
        match self {
            SortKey::Value => {
                needs.add_objective();
                needs.fields.insert(TrialField::Violation);
            }
            SortKey::Param(name) => needs.params.extend([name.clone()]),
            SortKey::Metric(name) => needs.metrics.extend([name.clone()]),
            SortKey::Step => needs.fields.extend([TrialField::LastReport]),
            SortKey::Seconds => needs.fields.extend([TrialField::Seconds]),
            SortKey::State => needs.fields.extend([TrialField::State]),
            SortKey::Created => needs.fields.extend([TrialField::Created]),
            SortKey::Started => needs.fields.extend([TrialField::Started]),
            SortKey::Number => {}
        }
    }
}

impl SortPosition {
    /// Which of two trials comes first.
    pub fn compare(&self, other: &SortPosition, reverse: bool) -> Ordering {
        let by_amount = self.amount.compare(&other.amount);
        let by_amount = if reverse { by_amount.reverse() } else { by_amount };
        self.group.cmp(&other.group).then(by_amount).then(self.number.cmp(&other.number))
    }

    /// The trial's number.
    pub fn number(&self) -> TrialNumber {
        self.number
    }
}

impl Amount {
    fn compare(&self, other: &Amount) -> Ordering {
        match (self, other) {
            (Amount::Whole(mine), Amount::Whole(theirs)) => mine.cmp(theirs),
            (Amount::Real(mine), Amount::Real(theirs)) => (mine + 0.0).total_cmp(&(theirs + 0.0)),
            (Amount::Score(mine), Amount::Score(theirs)) => mine.cmp(theirs),
            (Amount::Text(mine), Amount::Text(theirs)) => mine.cmp(theirs),
            // Values of different types are in different groups.
            _ => Ordering::Equal,
        }
    }
}
