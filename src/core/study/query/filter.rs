//! A filter of trials: a condition, or none.

use crate::study::condition::{Expression, ExpressionError, Measured, Names, Needs, TrialNames};
use crate::study::spec::StudySpec;
use crate::study::trial::{Trial, TrialState};

/// Which trials are meant: those for which the condition holds. Made by [`Filter::parse`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    condition: Option<Expression>,
    /// Whether hidden trials are left out.
    is_visible: bool,
}

impl Filter {
    /// Reads a filter, as [`condition`](crate::study::condition) has it; the empty one lets every
    /// trial through.
    pub fn parse(text: &str, spec: &StudySpec) -> Result<Filter, ExpressionError> {
        Self::parse_with(text, spec, &TrialNames::default())
    }

    /// The same where trials have these names, too (`StorageReader::trial_names`).
    pub fn parse_with(
        text: &str,
        spec: &StudySpec,
        trials: &TrialNames,
    ) -> Result<Filter, ExpressionError> {
        let condition = match text.trim() {
            "" => None,
            _ => Some(Expression::parse_filter(text, &Names { spec, trials })?),
        };
        Ok(Filter { condition, is_visible: false })
    }

    /// A filter for each of its texts that may stand anywhere in a trial.
    pub fn bare_words(&self) -> impl Iterator<Item = Filter> {
        let words = self.condition.iter().flat_map(Expression::bare_words);
        words.map(|word| Filter { condition: Some(word), is_visible: false })
    }

    /// Every trial.
    pub fn all() -> Self {
        Self::default()
    }

    /// The same without hidden trials.
    #[must_use]
    pub fn visible(self) -> Self {
        Filter { is_visible: true, ..self }
    }

    /// Whether every trial passes.
    pub fn is_all(&self) -> bool {
        self.condition.is_none() && !self.is_visible
    }

    /// Whether every trial passes that is not hidden, or every one.
    pub fn is_unconditional(&self) -> bool {
        self.condition.is_none()
    }

    /// The filter as it was written.
    pub fn text(&self) -> &str {
        self.condition.as_ref().map_or("", Expression::text)
    }

    /// Whether the trial passes, with what was measured of it.
    pub fn matches(&self, trial: &Trial, measured: &Measured) -> bool {
        !(self.is_visible && trial.hidden)
            && self.condition.as_ref().is_none_or(|condition| condition.holds(trial, measured))
    }

    /// Whether trials in a state pass; `None` where that depends on more.
    fn passes_in(&self, state: TrialState) -> Option<bool> {
        self.condition.as_ref().map_or(Some(true), |condition| condition.holds_in(state))
    }

    /// The states that a trial may be in to pass, if not all of them: a store looks there only.
    pub fn states(&self) -> Option<Vec<TrialState>> {
        let mut states = TrialState::ALL.to_vec();
        states.retain(|state| self.passes_in(*state) != Some(false));
        (states.len() < TrialState::ALL.len()).then_some(states)
    }

    /// Whether the filter asks for nothing but states.
    pub fn is_about_states_only(&self) -> bool {
        !self.is_visible && TrialState::ALL.into_iter().all(|state| self.passes_in(state).is_some())
    }

    /// What has to be known of a trial to tell whether it passes.
    pub fn add_needs(&self, needs: &mut Needs) {
        if let Some(condition) = &self.condition {
            condition.add_needs(needs);
        }
    }
}
