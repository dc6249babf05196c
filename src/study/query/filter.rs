//! A filter and whether a trial passes it.

use std::collections::BTreeSet;

use crate::study::params::Value;
use crate::study::trial::{Trial, TrialState};

/// Which trials are meant: those for which every term holds. Made by [`Filter::parse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    pub(super) text: String,
    pub(super) terms: Vec<Term>,
}

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) sign: Sign,
    pub(super) test: Test,
}

/// Whether a condition shall hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Holds,
    Fails,
}

/// What is asked of a trial. Texts to be looked for are in lower case.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// It holds the text somewhere.
    Anywhere(String),
    /// It is in one of these states.
    State(Vec<TrialState>),
    /// A text of it holds one of these, or is one of these.
    Word(Text, Likeness, Vec<String>),
    /// A number of it compares so; NaN is never compared but with itself.
    Amount(Quantity, Comparison, Vec<f64>),
    /// A parameter is one of these, or is none of these.
    Param(String, Equality, Vec<Literal>),
    /// A parameter, as a text, holds one of these.
    ParamHolds(String, Vec<String>),
}

/// Texts of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text {
    Device,
    Reason,
    /// Each of its notes.
    Note,
    /// Each of its tags.
    Tag,
}

/// How a text is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    Holds,
    Equals,
    Differs,
}

/// Numbers of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Number,
    Value,
    LastValue,
    Step,
    Seconds,
    Attempts,
    Failures,
    Param(String),
    /// The study's metric, as tables show it: the value of complete trials, the last report of others.
    Objective,
    /// Another metric of the last report.
    Metric(String),
}

/// How numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

/// Whether a parameter shall be one of some values, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Equality {
    Equal,
    Unequal,
}

/// A value as written: its text in lower case, and the number it says, if it says one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    pub(super) text: String,
    pub(super) number: Option<f64>,
}

/// What of a trial has to be known to filter and to sort it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// All parameters.
    pub(crate) all_params: bool,
    /// These parameters.
    pub(crate) params: BTreeSet<String>,
    /// The metrics of the last report.
    pub(crate) metrics: bool,
    /// Its value.
    pub(crate) value: bool,
    /// Its reason and its device.
    pub(crate) words: bool,
    /// Its notes and its tags.
    pub(crate) marks: bool,
}

impl Filter {
    /// Every trial.
    pub fn all() -> Self {
        Self::default()
    }

    /// Whether every trial passes.
    pub fn is_all(&self) -> bool {
        self.terms.is_empty()
    }

    /// The filter as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the trial passes.
    pub fn matches(&self, trial: &Trial) -> bool {
        self.terms.iter().all(|term| term.test.holds(trial) == (term.sign == Sign::Holds))
    }

    /// The states that a trial may be in to pass, where the filter says something about them: a store looks there only.
    pub(crate) fn states(&self) -> Option<Vec<TrialState>> {
        let mut states: Option<Vec<TrialState>> = None;
        for term in &self.terms {
            if let Test::State(listed) = &term.test {
                let wanted =
                    |state: &TrialState| listed.contains(state) == (term.sign == Sign::Holds);
                states.get_or_insert_with(|| TrialState::ALL.to_vec()).retain(wanted);
            }
        }
        states
    }

    /// Whether the filter asks for nothing but states.
    pub(crate) fn is_about_states_only(&self) -> bool {
        self.terms.iter().all(|term| matches!(term.test, Test::State(_)))
    }

    /// What has to be known of a trial to tell whether it passes.
    pub(crate) fn add_needs(&self, needs: &mut Needs) {
        for term in &self.terms {
            match &term.test {
                Test::Anywhere(_) => {
                    (needs.all_params, needs.words, needs.marks) = (true, true, true)
                }
                Test::Word(Text::Device | Text::Reason, ..) => needs.words = true,
                Test::Word(Text::Note | Text::Tag, ..) => needs.marks = true,
                Test::State(_) => {}
                Test::Amount(quantity, ..) => quantity.add_needs(needs),
                Test::Param(name, ..) | Test::ParamHolds(name, _) => {
                    needs.params.insert(name.clone());
                }
            }
        }
    }
}

impl Test {
    fn holds(&self, trial: &Trial) -> bool {
        match self {
            Test::Anywhere(text) => is_anywhere(trial, text),
            Test::State(states) => states.contains(&trial.state),
            Test::Word(which, likeness, texts) => likeness.holds(&which.of(trial), texts),
            Test::Amount(quantity, comparison, against) => {
                quantity.of(trial).is_some_and(|value| match comparison {
                    Comparison::Unequal => {
                        !value.is_nan() && against.iter().all(|other| value != *other)
                    }
                    comparison => against.iter().any(|other| comparison.holds(value, *other)),
                })
            }
            Test::Param(name, equality, literals) => trial.params.get(name).is_some_and(|value| {
                let listed = literals.iter().any(|literal| literal.is(value));
                listed == (*equality == Equality::Equal)
            }),
            Test::ParamHolds(name, texts) => trial.params.get(name).is_some_and(|value| {
                Likeness::Holds.holds(&[value.to_string().to_lowercase()], texts)
            }),
        }
    }
}

fn is_anywhere(trial: &Trial, text: &str) -> bool {
    let holds = |found: &str| found.to_lowercase().contains(text);
    trial.state.as_str().contains(text)
        || trial.params.iter().any(|(name, value)| holds(name) || value_holds(value, text))
        || trial.reason.as_deref().is_some_and(holds)
        || trial.device.as_ref().is_some_and(|device| holds(&device.to_string()))
        || trial.tags.iter().any(|tag| holds(tag))
        || trial.notes.iter().any(|note| holds(&note.text))
}

fn value_holds(value: &Value, text: &str) -> bool {
    value.to_string().to_lowercase().contains(text)
}

impl Text {
    /// In lower case.
    fn of(self, trial: &Trial) -> Vec<String> {
        match self {
            Text::Device => {
                trial.device.iter().map(|device| device.to_string().to_lowercase()).collect()
            }
            Text::Reason => trial.reason.iter().map(|reason| reason.to_lowercase()).collect(),
            Text::Note => trial.notes.iter().map(|note| note.text.to_lowercase()).collect(),
            Text::Tag => trial.tags.iter().map(|tag| tag.to_lowercase()).collect(),
        }
    }
}

impl Likeness {
    fn holds(self, found: &[String], texts: &[String]) -> bool {
        let mut pairs = found.iter().flat_map(|found| texts.iter().map(move |text| (found, text)));
        match self {
            Likeness::Holds => pairs.any(|(found, text)| found.contains(text)),
            Likeness::Equals => pairs.any(|(found, text)| found == text),
            // What is not there does not differ.
            Likeness::Differs => !found.is_empty() && pairs.all(|(found, text)| found != text),
        }
    }
}

impl Literal {
    fn is(&self, value: &Value) -> bool {
        match value.as_number() {
            Some(number) => self.number == Some(number),
            None => value.to_string().to_lowercase() == self.text,
        }
    }
}

impl Comparison {
    fn holds(self, value: f64, against: f64) -> bool {
        match self {
            Comparison::Less => value < against,
            Comparison::AtMost => value <= against,
            Comparison::More => value > against,
            Comparison::AtLeast => value >= against,
            Comparison::Equal => value == against || (value.is_nan() && against.is_nan()),
            Comparison::Unequal => value != against,
        }
    }
}

impl Quantity {
    /// The number; `None` where the trial has none.
    pub(super) fn of(&self, trial: &Trial) -> Option<f64> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "numbers, steps and microseconds stay far below 2^53"
        )]
        let real = |whole: u64| whole as f64;
        match self {
            Quantity::Number => Some(real(trial.number.0)),
            Quantity::Value => trial.value,
            Quantity::LastValue => trial.last().map(|(_, value)| value),
            Quantity::Step => trial.last().map(|(step, _)| real(step)),
            Quantity::Seconds => Some(seconds(trial)),
            Quantity::Attempts => Some(f64::from(trial.attempts)),
            Quantity::Failures => Some(f64::from(trial.failures)),
            Quantity::Param(name) => trial.params.get(name).and_then(Value::as_number),
            Quantity::Objective if trial.state == TrialState::Complete => trial.value,
            Quantity::Objective => trial.last().map(|(_, value)| value),
            Quantity::Metric(name) => trial.last_metrics.get(name),
        }
    }

    pub(super) fn add_needs(&self, needs: &mut Needs) {
        match self {
            Quantity::Value | Quantity::Objective => needs.value = true,
            Quantity::Metric(_) => needs.metrics = true,
            Quantity::Param(name) => {
                needs.params.insert(name.clone());
            }
            Quantity::Number
            | Quantity::LastValue
            | Quantity::Step
            | Quantity::Seconds
            | Quantity::Attempts
            | Quantity::Failures => {}
        }
    }
}

/// Seconds spent in attempts that have ended.
#[expect(clippy::cast_precision_loss, reason = "microseconds of a study stay far below 2^53")]
fn seconds(trial: &Trial) -> f64 {
    trial.busy_micros as f64 / 1e6
}
