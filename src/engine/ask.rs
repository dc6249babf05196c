//! What a free slot runs next: a waiting trial, a promoted one, an enqueued configuration, or a new point.

use super::stop::is_asked_for;
use super::{Assignment, Busy, Effect, Engine, Outcome, Phase};
use crate::event::Event;
use crate::history::History;
use crate::params::Params;
use crate::pruners::{Promotion, PromotionAsk, Pruner};
use crate::samplers::{self, Ask};
use crate::seed::StreamRng;
use crate::study::{Count, Duplicates};
use crate::trial::{AttemptNumber, Origin, Trial, TrialNumber};

/// How often a repeated point is drawn again before it is run anyway.
const DRAWS: usize = 25;

impl Engine {
    /// Gives every free slot something to run, and ends the study when there is nothing.
    pub(super) fn fill_slots(&mut self) {
        while self.phase == Phase::Searching && self.view.paused.is_none() {
            let Some(slot) = self.busy.iter().position(Option::is_none) else { return };
            match self.next_trial() {
                Ok(Some(trial)) => self.start(slot, trial),
                Ok(None) => break,
                Err(why) => {
                    self.drain(Outcome::Broken(why));
                    break;
                }
            }
        }
        self.end_if_idle();
    }

    pub(super) fn next_trial(&mut self) -> Result<Option<TrialNumber>, String> {
        if self.goal_reached {
            let mut waiting = self.queue.iter().copied();
            return Ok(waiting.find(|number| self.view.trial(*number).is_some_and(is_asked_for)));
        }
        if let Some(waiting) = self.recovered.first().or_else(|| self.queue.first()) {
            return Ok(Some(*waiting));
        }
        if let Some(promoted) = self.resume_paused(|pruner, ask, rng| pruner.promote(ask, rng)) {
            return Ok(Some(promoted));
        }
        if self.may_create()
            && !self.exhausted
            && let Some(created) = self.create()?
        {
            return Ok(Some(created));
        }
        if self.busy.iter().any(Option::is_some) {
            return Ok(None);
        }
        Ok(self.resume_paused(|pruner, ask, _| pruner.conclude(ask)))
    }

    /// A paused trial that the pruner lets go on.
    fn resume_paused(&mut self, choose: impl FnOnce(&dyn Pruner, &PromotionAsk<'_>, &mut StreamRng) -> Option<Promotion>) -> Option<TrialNumber> {
        if self.view.counts.paused == 0 {
            return None;
        }
        let attempts: u64 = self.view.trials.iter().map(|trial| u64::from(trial.attempts)).sum();
        let mut rng = self.seeds.stream(&format!("promotion/{attempts}"));
        match choose(self.pruner.as_ref(), &PromotionAsk { history: History::new(&self.view) }, &mut rng)? {
            // Whatever its pruner says: a trial that its user paused waits for its user.
            Promotion::Resume { trial, .. } if !self.view.trial(trial).is_some_and(Trial::waits_for_its_pruner) => None,
            Promotion::Resume { trial, until, reason } => {
                self.emit(Event::TrialQueued { trial, until, reason: reason.0 });
                Some(trial)
            }
            // No pruner of today's table clones; the first that does brings its event.
            Promotion::Clone { .. } => None,
        }
    }

    /// Whether the budget allows another trial: those that count, and those that still may.
    pub(super) fn may_create(&self) -> bool {
        let Some(limit) = self.spec.budget.trials else { return true };
        let counts = self.view.counts;
        let counted = match self.spec.budget.count {
            Count::Finished => counts.complete + counts.pruned,
            Count::Completed => counts.complete,
            Count::All => counts.complete + counts.pruned + counts.failed,
        };
        counted + counts.queued + counts.running + counts.paused < limit
    }

    fn create(&mut self) -> Result<Option<TrialNumber>, String> {
        let number = TrialNumber(self.view.trials.len() as u64);
        let enqueued = usize::try_from(self.enqueued).ok().and_then(|index| self.spec.enqueue.get(index)).cloned();
        let Some((params, sampler)) = self.draw(number, enqueued.as_ref())? else {
            self.exhausted = true;
            return Ok(None);
        };
        let origin = match enqueued {
            Some(_) => Origin::Enqueued(self.enqueued),
            None => Origin::Sampled(sampler),
        };
        self.enqueued += u64::from(matches!(origin, Origin::Enqueued(_)));
        self.seen.insert(params.fingerprint());
        self.emit(Event::TrialCreated { trial: number, params, origin });
        Ok(Some(number))
    }

    /// A point for trial `number`, and the sampler that drew it; points that were tried are drawn again a few times.
    pub(super) fn draw(&self, number: TrialNumber, enqueued: Option<&Params>) -> Result<Option<(Params, String)>, String> {
        let nothing = Params::new();
        let fixed = enqueued.unwrap_or(&nothing);
        let ask = Ask {
            constraints: &self.spec.constraints,
            earlier: &self.spec.earlier,
            space: &self.spec.space,
            history: History::new(&self.view),
            number,
            fixed,
            budget: self.spec.budget.trials,
            seeds: self.seeds,
        };
        let sampler = self.sampler.choice(&ask.situation()).map_or_else(|| self.spec.sampler.name.clone(), |choice| choice.sampler.to_owned());
        let mut rng = self.seeds.stream(&format!("sampler/{number}"));
        let mut drawn = None;
        for _ in 0..DRAWS {
            let Some(params) = samplers::propose(self.sampler.as_ref(), &ask, &mut rng).map_err(|error| error.to_string())? else { break };
            self.spec
                .space
                .check(&params)
                .map_err(|error| format!("sampler `{}` proposed no point of the space: {error}", self.spec.sampler.name))?;
            let is_new = self.spec.duplicates == Duplicates::Allow || !self.seen.contains(&params.fingerprint());
            drawn = Some(params);
            if is_new || enqueued.is_some() {
                return Ok(drawn.map(|params| (params, sampler)));
            }
        }
        // A sampler that cannot leave what it knows; a space with every point tried has nothing new.
        if let Some(new) = drawn.as_ref().and_then(|_| samplers::untried(&ask, |params| !self.seen.contains(&params.fingerprint()), &mut rng)) {
            drawn = Some(new);
        }
        Ok(drawn.map(|params| (params, sampler)))
    }

    pub(super) fn start(&mut self, index: usize, number: TrialNumber) {
        let trial = self.view.trial(number).expect("a trial in the queue is in the view");
        let attempt = AttemptNumber(trial.attempts);
        let until = trial.until.or_else(|| if trial.attempts == 0 { self.pruner.first_rung(number) } else { None });
        let assignment = Assignment {
            trial: number,
            attempt,
            slot: self.slots[index].clone(),
            params: trial.params.clone(),
            seed: self.seeds.number(&format!("trial/{number}")),
            resume: trial.resumable_checkpoint().cloned(),
            until,
            past_its_end: trial.continued.is_some(),
            milestones: self.milestones.clone(),
            reported: trial.last().map(|(step, _)| step),
        };
        if self.view.finished.is_some() {
            self.emit(Event::StudyReopened { reason: "its budget leaves room for more".to_owned() });
        }
        let resume = assignment.resume.as_ref().map(|checkpoint| (checkpoint.step, checkpoint.path.clone()));
        self.emit(Event::AttemptStarted { trial: number, attempt, slot: assignment.slot.clone(), resume, until });
        self.busy[index] = Some(Busy { trial: number, attempt, since: self.now, heard: self.now, leaving: None, pause_by: None, kill_sent: false });
        self.effects.push(Effect::Launch(assignment));
    }
}
