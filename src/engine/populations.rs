//! Populations: trials that are created together, and continue from each other's checkpoints.

use super::Engine;
use super::pruning::{history_of, seen_by_pruners};
use crate::pruners::{Gathered, Generation, MemberDecision};
use crate::study::event::{Event, StateEvent, TrialEvent};
use crate::study::state::TrialResult;
use crate::study::trial::{Trial, TrialNumber, TrialState};

impl Engine {
    /// New trials: one, or all members of a population, so that their first parameters do not
    /// depend on what the others report meanwhile. Returns the first.
    pub(super) fn create_population(&mut self) -> Result<Option<TrialNumber>, String> {
        let first = self.create()?;
        let size = self.pruner.population().unwrap_or(1);
        if first.is_some() {
            while !(self.state.trials.len() as u64).is_multiple_of(size)
                && self.may_create()
                && self.create()?.is_some()
            {}
        }
        Ok(first)
    }

    /// Carries out what the pruner decides about populations whose members have gathered.
    pub(super) fn exploit(&mut self, gathered: Gathered) {
        for decision in self.member_decisions(gathered) {
            match self.event_of(decision) {
                Event::Trial(
                    trial,
                    TrialEvent::State(StateEvent::Finished { state, reason, .. }),
                ) => {
                    self.finish_trial(trial, state, TrialResult::default(), reason);
                }
                event => {
                    let copied = match event.state_event() {
                        Some((trial, StateEvent::Cloned { step, .. })) => Some((trial, *step)),
                        _ => None,
                    };
                    self.emit(event);
                    copied.into_iter().for_each(|(trial, step)| self.drop_left(trial, step));
                }
            }
        }
    }

    /// Drops a trial's checkpoints beyond `step`, at which it took over another's: they are of the
    /// path that it has left, and it must not continue from them when it gets there again.
    fn drop_left(&mut self, number: TrialNumber, step: u64) {
        let own = self.state.trial(number).map(|trial| &trial.checkpoints);
        let left = own.into_iter().flatten().filter(|saved| saved.step > step);
        let left = left.map(|saved| (number, saved.path.clone())).collect();
        self.drop_all(left);
    }

    /// The trials as samplers see them where trials are members of populations: without results.
    /// First parameters are drawn from the sampler's initial design, so that those of a second
    /// population do not depend on how far the first one is; and a value belongs to a schedule, not
    /// to the first or the last parameters of its trial.
    pub(super) fn without_results(trials: &[Trial]) -> Vec<Trial> {
        let first = |trial: &Trial| {
            let first = trial.segments.first().map(|segment| &segment.replaced);
            let params = first.unwrap_or(&trial.params).clone();
            let (origin, created) = (trial.origin.clone(), trial.created);
            let state = TrialState::Running;
            Trial { state, ..Trial::new(trial.number, params, origin, created) }
        };
        trials.iter().map(first).collect()
    }

    /// The pruner's decisions about members of populations, from what it may know.
    pub(super) fn member_decisions(&self, gathered: Gathered) -> Vec<MemberDecision> {
        let known = self.known_state();
        if self.pruner.population().is_none() || known.counts.paused == 0 {
            return Vec::new();
        }
        let trials = seen_by_pruners(known);
        self.pruner.exploit(&Generation {
            space: &self.spec.space,
            constraints: &self.spec.constraints,
            history: history_of(known, &trials).with_step_unit(self.spec.step),
            seeds: self.seeds,
            gathered,
        })
    }

    /// The event that carries out a decision.
    pub(super) fn event_of(&self, decision: MemberDecision) -> Event {
        match decision {
            MemberDecision::Continue { trial, until, reason } => {
                Event::of(trial, StateEvent::Queued { until, reason: reason.to_string() })
            }
            MemberDecision::Clone { trial, from, step, params, until, reason } => {
                let checkpoints = self.state.trial(from).map(|donor| &donor.checkpoints);
                let mut saved =
                    checkpoints.into_iter().flatten().filter(|saved| saved.step == step);
                // A donor that went on may have saved another one before the next step.
                let saved = match self.pruner.is_asynchronous() {
                    true => saved.next(),
                    false => saved.next_back(),
                };
                let digest = saved.and_then(|saved| saved.digest.clone());
                let replaced = self.state.trial(trial).map(|trial| trial.params.clone());
                let replaced = replaced.unwrap_or_default();
                let event = TrialEvent::State(StateEvent::Cloned {
                    from,
                    step,
                    digest,
                    params,
                    replaced,
                    until,
                    reason,
                });
                Event::Trial(trial, event)
            }
            MemberDecision::Stop { trial, reason } => {
                let reason = Some(reason.to_string());
                Event::Trial(trial, TrialEvent::finished(TrialState::Pruned, None, reason))
            }
        }
    }

    /// The queued trial that starts next. Where members do not wait for each other, those of one
    /// population take turns: the one that is least far on is first.
    pub(super) fn next_queued(&self) -> Option<TrialNumber> {
        let size = self.pruner.population().filter(|_| self.pruner.is_asynchronous());
        let Some(size) = size else { return self.queue.first() };
        self.queue.first_by(|number| {
            let trial = self.state.trial(number);
            let start = trial.and_then(|trial| trial.segments.last()).map(|segment| segment.start);
            let reached = trial.and_then(Trial::last_step).max(start);
            (number.0 / size, reached, number)
        })
    }

    /// Whether a trial that diverged waits for a member of its population to copy: on its way to a
    /// step at which they meet.
    pub(super) fn is_replaceable(&self, number: TrialNumber) -> bool {
        self.pruner.population().is_some()
            && self.state.trial(number).is_some_and(|trial| {
                trial.continued.is_none()
                    && trial.until.is_some_and(|until| trial.last_step() < Some(until))
            })
    }
}
