//! What the pruner decides: verdicts about reports, and which paused trials continue.

use std::borrow::Cow;

use super::Engine;
use crate::pruners::{Case, Promotion, Pruner};
use crate::study::configuration::for_pruners;
use crate::study::decision::Decision;
use crate::study::event::{Event, TrialEvent};
use crate::study::history::History;
use crate::study::state::StudyState;
use crate::study::trial::{Trial, TrialNumber};

/// The history that consists of these trials of a state. Only the state itself tells what changed
/// lately, which spares samplers and pruners a look at all of it.
#[expect(clippy::ptr_arg, reason = "whether it is borrowed is what is asked")]
pub(super) fn history_of<'a>(known: &'a StudyState, trials: &'a Cow<'_, [Trial]>) -> History<'a> {
    match trials {
        Cow::Borrowed(_) => History::new(known),
        Cow::Owned(trials) => History::of(trials, known.direction()),
    }
}

impl Engine {
    /// The pruner's verdict about a report that is in the state already.
    pub(super) fn judge(&mut self, number: TrialNumber, step: u64) -> Decision {
        let Some(trial) = self.view.trial(number) else { return Decision::CONTINUE };
        let trials;
        let history = match &mut self.decision_window {
            Some(window) => {
                let Some(known) = window.known_of(trial) else { return Decision::CONTINUE };
                History::of(&known.trials, self.view.direction())
            }
            None => {
                trials = for_pruners(&self.view.trials);
                history_of(&self.view, &trials)
            }
        };
        let history = history.with_clock(self.spec.step);
        self.pruner.judge(&Case { space: &self.spec.space, history, trial, step })
    }

    /// A paused trial that the pruner lets continue.
    pub(super) fn resume_paused(
        &mut self,
        choose: impl FnOnce(&dyn Pruner, History<'_>) -> Option<Promotion>,
    ) -> Option<TrialNumber> {
        let Promotion { trial, until, reason } = self.promotion(choose)?;
        // Whatever its pruner says: a trial that its user paused waits for its user.
        if !self.view.trial(trial).is_some_and(Trial::waits_for_its_pruner) {
            return None;
        }
        self.emit(Event::Trial(trial, TrialEvent::Queued { until, reason: reason.to_string() }));
        Some(trial)
    }

    /// What the pruner lets continue, as far as it may know.
    pub(super) fn promotion(
        &self,
        choose: impl FnOnce(&dyn Pruner, History<'_>) -> Option<Promotion>,
    ) -> Option<Promotion> {
        let known = self.known_view();
        if known.counts.paused == 0 {
            return None;
        }
        let trials = for_pruners(&known.trials);
        choose(self.pruner.as_ref(), history_of(known, &trials).with_clock(self.spec.step))
    }
}
