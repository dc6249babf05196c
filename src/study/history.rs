//! What samplers and pruners see of a study: its trials, values turned so that smaller is better, and how it names its clock.

use crate::study::metric::{Direction, Score, significant};
use crate::study::spec::StepClock;
use crate::study::state::{Changes, StudyView};
use crate::study::trial::{Trial, TrialState};

/// How reasons name clock values and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    clock: StepClock,
    /// Significant digits of numbers; `None`: all that there are.
    digits: Option<usize>,
}

impl Words {
    /// Those of journals that are older than the others: every clock counted steps, and numbers had all their digits.
    pub const FIRST: Words = Words { clock: StepClock::Step, digits: None };

    /// Those of a study with this clock.
    pub const fn of(clock: StepClock) -> Words {
        Words { clock, digits: Some(6) }
    }

    /// A clock value: `epoch 3`.
    pub fn at(self, step: u64) -> String {
        format!("{} {step}", self.clock.as_str())
    }

    /// Several clock values: `4 epochs`.
    pub fn several(self, steps: usize) -> String {
        format!("{steps} {}", self.clock.plural())
    }

    /// A number.
    pub fn number(self, number: f64) -> String {
        self.digits.map_or_else(|| number.to_string(), |digits| significant(number, digits))
    }
}

/// A read-only look at the trials so far.
#[derive(Clone, Copy, Debug)]
pub struct History<'a> {
    trials: &'a [Trial],
    direction: Direction,
    changes: Option<&'a Changes>,
    words: Words,
}

impl<'a> History<'a> {
    /// The history of a study.
    pub fn new(view: &'a StudyView) -> Self {
        History {
            trials: &view.trials,
            direction: view.direction(),
            changes: Some(view.changes()),
            words: Words::of(view.clock()),
        }
    }

    /// A history of trials that belong to no study.
    pub fn of(trials: &'a [Trial], direction: Direction) -> Self {
        History { trials, direction, changes: None, words: Words::of(StepClock::Step) }
    }

    /// The same, with reasons in these words.
    #[must_use]
    pub fn in_words(self, words: Words) -> Self {
        History { words, ..self }
    }

    /// How reasons name clock values and numbers.
    pub fn words(&self) -> Words {
        self.words
    }

    /// All trials by number, in every state.
    pub fn trials(&self) -> &'a [Trial] {
        self.trials
    }

    /// Which trials changed lately, where a study keeps account of it: a memo of what trials came to need not look at all of
    /// them each time. The answer to a question must be the same without.
    pub fn changes(&self) -> Option<&'a Changes> {
        self.changes
    }

    /// Which way the metric gets better.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// A reported value as a score: smaller is better, NaN is worst.
    pub fn score(&self, value: f64) -> Score {
        Score::new(self.direction, value)
    }

    /// The trial's score if it is complete and breaks no limit.
    pub fn final_score(&self, trial: &Trial) -> Option<Score> {
        trial
            .value
            .filter(|_| trial.state == TrialState::Complete && trial.violation.is_none())
            .map(|value| self.score(value))
    }

    /// The trial's best score among its reports up to and including `step`.
    pub fn best_until(&self, trial: &Trial, step: u64) -> Option<Score> {
        trial
            .curve
            .iter()
            .take_while(|(at, _)| *at <= step)
            .map(|(_, value)| self.score(*value))
            .min()
    }

    /// The trial's score at exactly `step`.
    pub fn score_at(&self, trial: &Trial, step: u64) -> Option<Score> {
        let index = trial.curve.binary_search_by_key(&step, |(at, _)| *at).ok()?;
        trial.curve.get(index).map(|(_, value)| self.score(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_older_journals_have_all_digits_and_count_steps() {
        let (third, words) = (1.0 / 3.0, Words::of(StepClock::Epoch));
        assert_eq!(
            (words.at(3), words.several(4), words.number(third)),
            ("epoch 3".to_owned(), "4 epochs".to_owned(), "0.333333".to_owned())
        );
        assert_eq!(Words::FIRST.at(3), "step 3");
        assert_eq!(
            (Words::FIRST.several(4), Words::FIRST.number(third)),
            ("4 steps".to_owned(), third.to_string())
        );
        // What a cut-off is read from.
        assert_eq!(
            [1e-9, f64::NEG_INFINITY, f64::NAN, 1_234_567_890.0].map(|value| words.number(value)),
            ["1e-9", "-inf", "NaN", "1.23457e9"]
        );
    }
}
