//! What a free slot runs next: a waiting trial, a promoted one, an enqueued configuration, or a new point.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::memory::Memory;
use super::stop::is_asked_for;
use super::window::Window;
use super::{Assignment, Busy, Effect, Engine, Outcome, Phase};
use crate::pruners::{Promotion, PromotionAsk, Pruner};
use crate::samplers::{self, Ask, Room};
use crate::study::configuration::{Run, configurations, for_pruners, for_samplers};
use crate::study::device::Device;
use crate::study::event::Event;
use crate::study::history::History;
use crate::study::params::Params;
use crate::study::remark::Reports;
use crate::study::seed::{SeedTree, StreamRng};
use crate::study::spec::{Count, Duplicates};
use crate::study::trial::{AttemptNumber, Origin, Trial, TrialNumber};

/// How often a repeated point is drawn again before it is run anyway.
const DRAWS: usize = 25;

/// A point for a new trial.
pub(super) struct Drawn {
    pub(super) params: Params,
    /// Who drew it.
    pub(super) sampler: String,
    /// The trial that had it first, where it is to count as another run of that.
    pub(super) repeats: Option<TrialNumber>,
    /// How many points were passed over before, for memory's sake, and why.
    pub(super) passed_over: Option<(u64, String)>,
}

/// A trial's seed: its own, but in a race that of its round.
pub fn seed_of(seeds: SeedTree, trial: &Trial) -> u64 {
    match trial.origin {
        Origin::Race { race, round, .. } => seeds.number(&format!("race/{race}/{round}")),
        _ => seeds.number(&format!("trial/{}", trial.number)),
    }
}

impl Engine {
    /// Gives every free slot something to run, and ends the study when there is nothing.
    pub(super) fn fill_slots(&mut self) {
        // Devices that have no memory for whoever is next.
        let mut short: Vec<Device> = Vec::new();
        while matches!(self.phase, Phase::Searching | Phase::Racing(_))
            && self.view.paused.is_none()
            && !self.waits_for_the_machine()
        {
            let has_room = |device: &Device| !self.is_full(device) && !short.contains(device);
            let free = |index: &usize| {
                self.busy[*index].is_none()
                    && self.is_open(*index)
                    && has_room(&self.slots[*index].device)
            };
            let Some(slot) = (0..self.busy.len()).find(free) else { break };
            match self.next_trial() {
                Ok(Some(trial)) if self.waits_for_memory(slot, trial) => {
                    short.push(self.slots[slot].device.clone())
                }
                Ok(Some(trial)) => self.start(slot, trial),
                Ok(None) if self.learn() => {}
                Ok(None) => {
                    let phase = self.phase.clone();
                    self.end_if_idle();
                    if self.phase == phase {
                        return;
                    }
                }
                Err(why) => self.drain(Outcome::Broken(why)),
            }
        }
        // Without an open slot the end is not seen above; a race waits for one.
        if matches!(self.phase, Phase::Draining(_))
            || self.phase == Phase::Searching && self.is_without_place()
        {
            self.end_if_idle();
            if matches!(self.phase, Phase::Racing(_)) {
                self.fill_slots();
            }
        }
    }

    /// Lets decisions know the results of one more trial, where nothing can be begun without and they are there.
    fn learn(&mut self) -> bool {
        let Some(trial) = self.window.as_ref().and_then(Window::next_known) else { return false };
        self.emit(Event::ResultsKnown { trial });
        self.mind_limits();
        true
    }

    pub(super) fn next_trial(&mut self) -> Result<Option<TrialNumber>, String> {
        if matches!(self.phase, Phase::Racing(_)) {
            return Ok(self.next_race_run());
        }
        if let Some(window) = &self.window {
            if let Some(begun) = self.queue.iter().copied().find(|number| window.is_open(*number)) {
                return Ok(Some(begun));
            }
            if window.is_full() {
                return Ok(None);
            }
        }
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
        if let Some(replicate) = self.create_replicate() {
            return Ok(Some(replicate));
        }
        if self.may_create()
            && !self.exhausted
            && let Some(created) = self.create()?
        {
            return Ok(Some(created));
        }
        if self.busy.iter().any(Option::is_some)
            || self.window.as_ref().is_some_and(|window| !window.is_empty())
        {
            return Ok(None);
        }
        Ok(self.resume_paused(|pruner, ask, _| pruner.conclude(ask)))
    }

    /// A paused trial that the pruner lets go on.
    fn resume_paused(
        &mut self,
        choose: impl FnOnce(&dyn Pruner, &PromotionAsk<'_>, &mut StreamRng) -> Option<Promotion>,
    ) -> Option<TrialNumber> {
        match self.promotion(choose)? {
            // Whatever its pruner says: a trial that its user paused waits for its user.
            Promotion::Resume { trial, .. }
                if !self.view.trial(trial).is_some_and(Trial::waits_for_its_pruner) =>
            {
                None
            }
            Promotion::Resume { trial, until, reason } => {
                self.emit(Event::TrialQueued { trial, until, reason: reason.to_string() });
                Some(trial)
            }
            // No pruner of today's table clones; the first that does brings its event.
            Promotion::Clone { .. } => None,
        }
    }

    /// What the pruner lets go on, as far as it may know.
    pub(super) fn promotion(
        &self,
        choose: impl FnOnce(&dyn Pruner, &PromotionAsk<'_>, &mut StreamRng) -> Option<Promotion>,
    ) -> Option<Promotion> {
        let known = self.known_view();
        if known.counts.paused == 0 {
            return None;
        }
        let begun = match &self.window {
            Some(window) => window.begun(),
            None => known.trials.iter().map(|trial| u64::from(trial.attempts)).sum(),
        };
        let mut rng = self.seeds.stream(&format!("promotion/{begun}"));
        let trials = for_pruners(&known.trials);
        let history = match &trials {
            Cow::Borrowed(_) => History::new(known),
            Cow::Owned(trials) => History::of(trials, known.direction()),
        };
        choose(
            self.pruner.as_ref(),
            &PromotionAsk { history: history.with_clock(self.spec.step) },
            &mut rng,
        )
    }

    /// The next run of a configuration that completed and has fewer runs than it is to have.
    fn create_replicate(&mut self) -> Option<TrialNumber> {
        let of = self.lacking_runs().next()?.0;
        self.create_run(of, Origin::Replicate(of))
    }

    /// Configurations that completed and are to be run again, and how many times.
    fn lacking_runs(&self) -> impl Iterator<Item = (TrialNumber, u64)> + use<> {
        let replicates = self.spec.replicates;
        let known = if replicates > 1 {
            configurations(self.known_view().trials.iter().map(Run::from))
        } else {
            BTreeMap::new()
        };
        let lacking = known
            .into_iter()
            .filter(move |(_, configuration)| configuration.lacks_runs(replicates));
        lacking.map(move |(number, configuration)| {
            (number, u64::from(replicates) - configuration.counted)
        })
    }

    /// Whether the budget allows another trial: those that count, those that still may, and the further runs that each of
    /// them may need.
    pub(super) fn may_create(&self) -> bool {
        let Some(limit) = self.spec.budget.trials else { return true };
        let counts = self.known_view().counts.without(self.known_view().race_counts);
        let further = u64::from(self.spec.replicates) - 1;
        let promised = match further {
            0 => 0,
            _ => {
                let undecided =
                    |trial: &&Trial| !trial.state.is_finished() && trial.origin.is_judged();
                let undecided = self.known_view().trials.iter().filter(undecided).count() as u64;
                self.lacking_runs().map(|(_, runs)| runs).sum::<u64>() + (undecided + 1) * further
            }
        };
        let counted = match self.spec.budget.count {
            Count::Finished => counts.complete + counts.pruned,
            Count::Completed => counts.complete,
            Count::All => counts.complete + counts.pruned + counts.failed,
        };
        counted + counts.queued + counts.running + counts.paused + promised < limit
    }

    fn create(&mut self) -> Result<Option<TrialNumber>, String> {
        let number = TrialNumber(self.view.trials.len() as u64);
        let enqueued = usize::try_from(self.enqueued)
            .ok()
            .and_then(|index| self.spec.enqueue.get(index))
            .cloned();
        let Some(Drawn { params, sampler, repeats, passed_over }) = self.draw(enqueued.as_ref())?
        else {
            self.exhausted = true;
            return Ok(None);
        };
        let origin = match (enqueued, repeats) {
            (Some(_), _) => Origin::Enqueued(self.enqueued),
            (None, Some(of)) => Origin::Repeat(of),
            (None, None) => Origin::Sampled(sampler),
        };
        self.emit(Event::TrialCreated { trial: number, params, origin });
        if let Some((points, reason)) = passed_over {
            self.emit(Event::PassedOver { trial: number, points, reason });
        }
        Ok(Some(number))
    }

    /// A point for the next trial, and the sampler that drew it; points that were tried are drawn again a few times, unless
    /// they are wanted.
    pub(super) fn draw(&self, enqueued: Option<&Params>) -> Result<Option<Drawn>, String> {
        let (drawn, passed_over) = self.within_memory(|room| self.draw_within(enqueued, room));
        Ok(drawn?.map(|drawn| Drawn { passed_over, ..drawn }))
    }

    fn draw_within(
        &self,
        enqueued: Option<&Params>,
        room: Option<Room<'_>>,
    ) -> Result<Option<Drawn>, String> {
        let nothing = Params::new();
        let fixed = enqueued.unwrap_or(&nothing);
        let known = self.known_view();
        let trials = for_samplers(&known.trials, self.spec.replicates);
        let number = TrialNumber(trials.len() as u64);
        let budget = self.spec.budget.trials.map(|runs| runs / u64::from(self.spec.replicates));
        let history = match &trials {
            Cow::Borrowed(_) => History::new(known),
            Cow::Owned(trials) => History::of(trials, known.direction()),
        };
        let ask = Ask {
            constraints: &self.spec.constraints,
            earlier: &self.spec.earlier,
            space: &self.spec.space,
            history,
            number,
            fixed,
            budget,
            room,
            seeds: self.seeds,
        };
        let sampler = self
            .sampler
            .choice(&ask.situation())
            .map_or_else(|| self.spec.sampler.name.clone(), |choice| choice.sampler.to_owned());
        let mut rng = self.seeds.stream(&format!("sampler/{number}"));
        let mut drawn = None;
        for _ in 0..DRAWS {
            let Some(params) = samplers::propose(self.sampler.as_ref(), &ask, &mut rng)
                .map_err(|error| error.to_string())?
            else {
                break;
            };
            self.spec.space.check(&params).map_err(|error| {
                format!(
                    "sampler `{}` proposed no point of the space: {error}",
                    self.spec.sampler.name
                )
            })?;
            let before = self.seen.get(&params.fingerprint()).copied();
            let is_wanted =
                before.is_none() || self.spec.duplicates != Duplicates::Skip || enqueued.is_some();
            let repeats = before.filter(|_| self.spec.duplicates == Duplicates::Replicate);
            drawn = Some(Drawn { params, sampler: sampler.clone(), repeats, passed_over: None });
            if is_wanted {
                return Ok(drawn);
            }
        }
        // A sampler that cannot leave what it knows; a space with every point tried has nothing new.
        if let Some(params) = drawn.as_ref().and_then(|_| {
            samplers::untried(
                &ask,
                |params| !self.seen.contains_key(&params.fingerprint()),
                &mut rng,
            )
        }) {
            drawn = Some(Drawn { params, sampler, repeats: None, passed_over: None });
        }
        Ok(drawn)
    }

    pub(super) fn start(&mut self, index: usize, number: TrialNumber) {
        let trial = self.view.trial(number).expect("a trial in the queue is in the view");
        let attempt = AttemptNumber(trial.attempts);
        let until = trial.until.or_else(|| {
            if trial.attempts == 0 && trial.origin.is_judged() {
                self.pruner.first_rung(number)
            } else {
                None
            }
        });
        let assignment = Assignment {
            trial: number,
            attempt,
            slot: self.slots[index].clone(),
            params: trial.params.clone(),
            seed: seed_of(self.seeds, trial),
            resume: trial.resumable_checkpoint().cloned(),
            until,
            past_its_end: trial.continued.is_some(),
            milestones: self.milestones.clone(),
            reported: trial.last().map(|(step, _)| step),
            rows_at_once: self.memory_of(trial).map(Memory::rows),
        };
        if self.view.finished.is_some() {
            self.emit(Event::StudyReopened {
                reason: "its budget leaves room for more".to_owned(),
            });
        }
        let expected = self
            .view
            .trial(number)
            .filter(|_| self.spec.devices.packed)
            .and_then(|trial| self.needs_of(trial));
        let resume =
            assignment.resume.as_ref().map(|checkpoint| (checkpoint.step, checkpoint.path.clone()));
        let rows_at_once = assignment.rows_at_once.map(|rows| rows.train as u64);
        let (slot, device_micros) =
            (assignment.slot.clone(), self.meter.start(&assignment.slot.device, self.now));
        self.emit(Event::AttemptStarted {
            trial: number,
            attempt,
            slot,
            resume,
            until,
            rows_at_once,
            device_micros,
        });
        self.places[index].warm = true;
        self.busy[index] = Some(Busy {
            trial: number,
            attempt,
            since: self.now,
            heard: self.now,
            leaving: None,
            pause_by: None,
            kill_sent: false,
            peak: 0,
            expected,
            reports: Reports::default(),
            remarks: BTreeMap::new(),
        });
        self.effects.push(Effect::Launch(assignment));
    }
}
