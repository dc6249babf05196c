//! A filter of trials: an optional condition.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::study::condition::{
    Expression, ExpressionError, Measured, Names, Needs, Sought, TrialField, TrialNames,
};
use crate::study::spec::StudySpec;
use crate::study::trial::{Trial, TrialNumber, TrialState};

/// Selects the trials for which a condition holds. Made by [`Filter::parse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    condition: Option<Expression>,
    /// Whether hidden trials are excluded.
    is_visible: bool,
    /// The time spent on trials with an open attempt, which a store does not know.
    spent: BTreeMap<TrialNumber, Duration>,
}

impl Filter {
    /// Parses a filter in the language of [`condition`](crate::study::condition); the empty one
    /// accepts every trial.
    pub fn parse(text: &str, spec: &StudySpec) -> Result<Filter, ExpressionError> {
        Self::parse_with(text, spec, &TrialNames::default())
    }

    /// The same with the names of trials (`StorageReader::trial_names`).
    pub fn parse_with(
        text: &str,
        spec: &StudySpec,
        trials: &TrialNames,
    ) -> Result<Filter, ExpressionError> {
        let condition = match text.trim() {
            "" => None,
            _ => Some(Expression::parse_filter(text, &Names { spec, trials })?),
        };
        Ok(Filter { condition, ..Filter::default() })
    }

    /// The free texts, each as its own filter.
    pub fn bare_words(&self) -> impl Iterator<Item = Filter> {
        let words = self.condition.iter().flat_map(Expression::bare_words);
        words.map(|word| Filter { condition: Some(word), ..Filter::default() })
    }

    /// What it looks for that perhaps no trial has, and the filter of those that have it.
    pub fn sought(&self, spec: &StudySpec, names: &TrialNames) -> Vec<(Sought, Filter)> {
        let sought = self.condition.iter().flat_map(|condition| condition.sought(spec, names));
        let having = |one: Sought| {
            let condition = Some(one.having.clone());
            (one, Filter { condition, ..Filter::default() })
        };
        sought.map(having).collect()
    }

    /// Accepts every trial.
    pub fn all() -> Self {
        Self::default()
    }

    /// Excludes hidden trials.
    #[must_use]
    pub fn visible(self) -> Self {
        Filter { is_visible: true, ..self }
    }

    /// Counts this time as spent on these trials, here and in the order of a page. Without it, only
    /// ended attempts count.
    #[must_use]
    pub fn with_time_spent(self, spent: BTreeMap<TrialNumber, Duration>) -> Self {
        Filter { spent, ..self }
    }

    /// The time spent on trials with an open attempt.
    pub fn time_spent(&self) -> &BTreeMap<TrialNumber, Duration> {
        &self.spent
    }

    /// Whether it accepts every trial.
    pub fn is_all(&self) -> bool {
        self.condition.is_none() && !self.is_visible
    }

    /// Whether it accepts every trial except perhaps hidden ones.
    pub fn is_unconditional(&self) -> bool {
        self.condition.is_none()
    }

    /// The text as written.
    pub fn text(&self) -> &str {
        self.condition.as_ref().map_or("", Expression::text)
    }

    /// Whether it accepts the trial with these series.
    pub fn matches(&self, trial: &Trial, measured: &Measured) -> bool {
        !(self.is_visible && trial.hidden)
            && self.condition.as_ref().is_none_or(|condition| condition.holds(trial, measured))
    }

    /// Whether it accepts all trials in a state; `None` if it depends on more.
    fn passes_in(&self, state: TrialState) -> Option<bool> {
        self.condition.as_ref().map_or(Some(true), |condition| condition.holds_in(state))
    }

    /// The states of accepted trials, if restricted, so that a store reads only those.
    pub fn states(&self) -> Option<Vec<TrialState>> {
        let mut states = TrialState::ALL.to_vec();
        states.retain(|state| self.passes_in(*state) != Some(false));
        (states.len() < TrialState::ALL.len()).then_some(states)
    }

    /// Whether it depends on the state only.
    pub fn is_about_states_only(&self) -> bool {
        !self.is_visible && TrialState::ALL.into_iter().all(|state| self.passes_in(state).is_some())
    }

    /// Adds the fields of a trial that the filter needs.
    pub fn add_needs(&self, needs: &mut Needs) {
        if self.is_visible {
            needs.fields.insert(TrialField::Hidden);
        }
        if let Some(condition) = &self.condition {
            condition.add_needs(needs);
        }
    }
}
