//! Decisions of the pruner: on reports, and on the promotion of paused trials.

use std::borrow::Cow;

use super::Engine;
use super::superseding::Superseding;
use crate::pruners::{Case, Promotion, Pruner};
use crate::study::configuration::for_pruners;
use crate::study::constraint;
use crate::study::decision::{Decision, Reason};
use crate::study::event::{Event, StateEvent};
use crate::study::history::History;
use crate::study::metric::{Metrics, Number};
use crate::study::plateau::{Plateau, plateau};
use crate::study::spec::PruningLimitRule;
use crate::study::state::StudyState;
use crate::study::trial::{Trial, TrialNumber};

/// The history of these trials of a state. Only for the state's own trials does it include recent
/// changes, which save samplers and pruners a full pass.
#[expect(clippy::ptr_arg, reason = "the type shows whether it is borrowed")]
pub(super) fn history_of<'a>(known: &'a StudyState, trials: &'a Cow<'_, [Trial]>) -> History<'a> {
    match trials {
        Cow::Borrowed(_) => History::new(known),
        Cow::Owned(trials) => History::of_several(trials, known.directions()),
    }
}

/// The trials of a state as pruners see them.
pub(super) fn seen_by_pruners(known: &StudyState) -> Cow<'_, [Trial]> {
    if known.further_runs == 0 { Cow::Borrowed(&known.trials) } else { for_pruners(&known.trials) }
}

impl Engine {
    /// The decision on a report that the state contains: a limit's that ends the trial, that of
    /// `trial_patience`, or else the pruner's.
    pub(super) fn judge(&mut self, number: TrialNumber, step: u64) -> Decision {
        let restart = self.restart_of(number);
        let Some(trial) = self.state.trial(number) else { return Decision::CONTINUE };
        let metrics = self.counting_metrics(trial);
        if let Some((limit, over)) = constraint::ends(&self.spec.constraints, &metrics) {
            let (condition, at) = (limit.text().to_owned(), self.spec.step.at(step));
            return Decision::Stop(Reason::Limit { condition, over: Number(over), at });
        }
        if let Some(reason) = self.plateau_of(trial, step) {
            return Decision::Stop(reason);
        }
        let trials;
        let history = match &mut self.decision_window {
            Some(window) => {
                let Some(known) = window.known_of(trial) else { return Decision::CONTINUE };
                History::of_several(&known.trials, self.state.directions())
            }
            None => {
                trials = seen_by_pruners(&self.state);
                history_of(&self.state, &trials)
            }
        };
        let history = history.with_step_unit(self.spec.step);
        self.pruner.judge(&Case { space: &self.spec.space, history, trial, step, restart })
    }

    /// Why a trial no longer improves, if `trial_patience` says so. Only its own reports count.
    fn plateau_of(&self, trial: &Trial, step: u64) -> Option<Reason> {
        let rule = self.spec.budget.plateau_rule()?;
        let reports = &trial.curve[..trial.curve.partition_point(|(at, _)| *at <= step)];
        let Plateau { best, best_at, reports } = plateau(reports, self.spec.direction(), rule)?;
        Some(Reason::Plateau {
            best: Number(best),
            best_at: self.spec.step.at(best_at),
            reports,
            min_delta: Number(rule.1),
            at: self.spec.step.at(step),
        })
    }

    /// The last metrics of a running trial that limits see.
    fn counting_metrics<'a>(&self, trial: &'a Trial) -> Cow<'a, Metrics> {
        let running = self.slots.running().find(|running| running.trial == trial.number);
        let running = running.map(|running| &running.superseding);
        let superseding = running.or_else(|| self.open_attempts.get(&trial.number));
        // A member that took over a checkpoint supersedes nothing.
        let counts = self.spec.has_pruning_limits()
            && self.spec.pruning_limit_rule == PruningLimitRule::CountingAttempts
            && trial.segments.is_empty();
        let mut metrics = Cow::Borrowed(&trial.last_metrics);
        for name in superseding.filter(|_| counts).into_iter().flat_map(Superseding::lost_metrics) {
            metrics.to_mut().0.remove(name);
        }
        metrics
    }

    /// Resumes a paused trial that the pruner promotes.
    pub(super) fn resume_paused(
        &mut self,
        choose: impl FnOnce(&dyn Pruner, History<'_>) -> Option<Promotion>,
    ) -> Option<TrialNumber> {
        let Promotion { trial, until, reason } = self.promotion(choose)?;
        // A trial paused by the user is not promoted.
        if !self.state.trial(trial).is_some_and(Trial::waits_for_its_pruner) {
            return None;
        }
        self.emit(Event::of(trial, StateEvent::Queued { until, reason: reason.to_string() }));
        Some(trial)
    }

    /// The pruner's promotion, from what it may know.
    pub(super) fn promotion(
        &self,
        choose: impl FnOnce(&dyn Pruner, History<'_>) -> Option<Promotion>,
    ) -> Option<Promotion> {
        let known = self.known_state();
        if known.counts.paused == 0 {
            return None;
        }
        let trials = seen_by_pruners(known);
        choose(self.pruner.as_ref(), history_of(known, &trials).with_step_unit(self.spec.step))
    }
}
