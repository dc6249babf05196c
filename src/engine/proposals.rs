//! Configurations for new trials: enqueued, repeated, or proposed by the sampler.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::Engine;
use super::pruning::history_of;
use crate::analysis::forecast;
use crate::pruners;
use crate::samplers::{self, Ask, AvailableMemory, Chosen, Proposal};
use crate::study::configuration::{ConfigurationRun, configurations, for_samplers};
use crate::study::event::{Event, ProposalEvent, TrialEvent};
use crate::study::params::Params;
use crate::study::prediction::Prediction;
use crate::study::spec::{Duplicates, PriorRule};
use crate::study::state::StudyState;
use crate::study::trial::{Origin, Trial, TrialNumber};

/// Redraws of a repeated configuration before it runs anyway.
const DRAWS: usize = 25;

/// The proposals so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Proposals {
    /// The first trial of each configuration.
    first: HashMap<String, TrialNumber>,
    /// Number of the study file's configurations that were used.
    enqueued: u64,
    /// Whether the sampler is exhausted.
    pub exhausted: bool,
}

impl Proposals {
    pub fn of(state: &StudyState) -> Self {
        let mut proposals = Proposals::default();
        state.trials.iter().for_each(|Trial { number, params, origin, .. }| {
            proposals.note(*number, params, origin);
        });
        proposals
    }

    pub fn apply(&mut self, event: &Event) {
        if let Event::Trial(
            trial,
            TrialEvent::Proposal(ProposalEvent::TrialCreated { params, origin, .. }),
        ) = event
        {
            self.note(*trial, params, origin);
        }
    }

    fn note(&mut self, trial: TrialNumber, params: &Params, origin: &Origin) {
        self.first.entry(params.fingerprint()).or_insert(trial);
        self.enqueued += u64::from(matches!(origin, Origin::Enqueued(_)));
    }

    fn first_with(&self, params: &Params) -> Option<TrialNumber> {
        self.first.get(&params.fingerprint()).copied()
    }
}

/// The configuration of a new trial.
pub(super) struct Drawn {
    pub params: Params,
    /// The sampler that drew it.
    pub sampler: String,
    /// The value that its model predicts, by objective; empty if it predicts none.
    pub predicted: Vec<Prediction>,
    /// The first trial with this configuration, if this is another run of it.
    pub repeats: Option<TrialNumber>,
    /// How many configurations were skipped because of memory, and why.
    pub skipped: Option<(u64, String)>,
    /// Whether it is one of the candidates that the program offers.
    pub is_offered: bool,
}

impl Engine {
    /// The next replicate of a completed configuration that lacks runs.
    pub(super) fn create_replicate(&mut self) -> Option<TrialNumber> {
        let of = self.lacking_runs().next()?.0;
        self.create_run(of, Origin::Replicate(of))
    }

    /// Completed configurations that lack runs, and how many.
    fn lacking_runs(&self) -> impl Iterator<Item = (TrialNumber, u64)> + use<> {
        let replicates = self.spec.replicates;
        let known = match replicates {
            0 | 1 => BTreeMap::new(),
            _ => configurations(self.known_state().trials.iter().map(ConfigurationRun::from)),
        };
        known
            .into_iter()
            .filter(move |(_, configuration)| configuration.lacks_runs(replicates))
            .map(move |(number, configuration)| {
                (number, u64::from(replicates) - configuration.counted)
            })
    }

    /// Another run of a trial's configuration.
    pub(super) fn create_run(&mut self, of: TrialNumber, origin: Origin) -> Option<TrialNumber> {
        let params = self.state.trial(of)?.params.clone();
        Some(self.create_trial(params, origin))
    }

    pub(super) fn create_trial(&mut self, params: Params, origin: Origin) -> TrialNumber {
        self.create_predicted(params.into(), origin)
    }

    /// A trial with what was predicted of its configuration.
    fn create_predicted(&mut self, proposal: Proposal, origin: Origin) -> TrialNumber {
        let trial = TrialNumber(self.state.trials.len() as u64);
        let Proposal { params, predicted } = proposal;
        self.emit(Event::of(trial, ProposalEvent::TrialCreated { params, origin, predicted }));
        trial
    }

    /// Whether the budget allows another trial.
    pub(super) fn may_create(&self) -> bool {
        self.spec.budget.trials.is_none_or(|limit| self.trials_of_budget() < limit)
    }

    /// The trials that the budget has no room for any more: those that count, those that still may,
    /// and the replicates that each may need.
    pub(super) fn trials_of_budget(&self) -> u64 {
        let known = self.known_state();
        let counts = known.counts.without(known.race_counts);
        let pending_replicates = match u64::from(self.spec.replicates) - 1 {
            0 => 0,
            further => {
                let undecided =
                    |trial: &&Trial| !trial.state.is_finished() && trial.origin.is_judged();
                let undecided = known.trials.iter().filter(undecided).count() as u64;
                self.lacking_runs().map(|(_, runs)| runs).sum::<u64>() + (undecided + 1) * further
            }
        };
        let counted = forecast::counted(counts, pruners::counted_trials(&self.spec));
        counted + counts.queued + counts.running + counts.paused + pending_replicates
    }

    /// A new trial, enqueued by the study file or proposed by the sampler.
    pub(super) fn create(&mut self) -> Result<Option<TrialNumber>, String> {
        let index = self.proposals.enqueued;
        let enqueued =
            usize::try_from(index).ok().and_then(|index| self.spec.enqueue.get(index)).cloned();
        let Some(drawn) = self.draw(enqueued.as_ref())? else {
            self.proposals.exhausted = true;
            return Ok(None);
        };
        let origin = match (enqueued, drawn.repeats) {
            (Some(_), _) => Origin::Enqueued(index),
            (None, Some(of)) => Origin::Repeat(of),
            (None, None) => Origin::Sampled(drawn.sampler),
        };
        let Drawn { params, predicted, .. } = drawn;
        let trial = self.create_predicted(Proposal { params, predicted }, origin);
        if drawn.is_offered {
            let candidates = std::mem::take(&mut self.offered);
            self.emit(Event::of(trial, ProposalEvent::CandidatesOffered { candidates }));
        }
        if let Some((points, reason)) = drawn.skipped {
            self.emit(Event::of(trial, ProposalEvent::ConfigurationsSkipped { points, reason }));
        }
        Ok(Some(trial))
    }

    /// A configuration for the next trial, and the sampler that drew it; repeated ones are redrawn
    /// a few times, unless wanted.
    pub(super) fn draw(&self, enqueued: Option<&Params>) -> Result<Option<Drawn>, String> {
        let (drawn, skipped) = self.within_memory(|room| self.draw_within(enqueued, room));
        Ok(drawn?.map(|drawn| Drawn { skipped, ..drawn }))
    }

    fn draw_within(
        &self,
        enqueued: Option<&Params>,
        room: Option<AvailableMemory<'_>>,
    ) -> Result<Option<Drawn>, String> {
        let spec = &self.spec;
        let nothing = Params::new();
        let known = self.known_state();
        let trials = match self.pruner.population() {
            Some(_) => Cow::Owned(Engine::without_results(&known.trials)),
            None if spec.replicates == 1 && known.further_runs == 0 => {
                Cow::Borrowed(&known.trials[..])
            }
            None => for_samplers(&known.trials, spec.replicates),
        };
        let number = TrialNumber(trials.len() as u64);
        let mut ask = Ask {
            constraints: &spec.constraints,
            earlier: &spec.earlier,
            max_resource: self.max_resource(),
            space: &spec.space,
            history: history_of(known, &trials),
            number,
            place: samplers::place_of(spec.prior_rule, number, &self.state.trials),
            fixed: enqueued.unwrap_or(&nothing),
            budget: spec.budget.trials.map(|runs| runs / u64::from(spec.replicates)),
            room,
            seeds: self.seeds,
        };
        let sampler = self
            .sampler
            .choice(&ask.situation())
            .map_or_else(|| spec.sampler.name.clone(), |choice| choice.sampler.to_owned());
        let is_offered = enqueued.is_none() && !self.offered.is_empty();
        let drawn = |Proposal { params, predicted }, repeats| Drawn {
            params,
            predicted,
            sampler: sampler.clone(),
            repeats,
            skipped: None,
            is_offered,
        };
        let mut rng = self.seeds.stream(&format!("sampler/{number}"));
        if let Some(candidates) = self.candidates(enqueued) {
            let chosen = samplers::choose(self.sampler.as_ref(), &ask, &candidates, &mut rng)
                .map_err(|error| error.to_string())?;
            let Some(Chosen { index, predicted }) = chosen else {
                return self.no_candidate(enqueued);
            };
            let params = candidates[index].clone();
            let before = self.proposals.first_with(&params);
            let repeats = before.filter(|_| spec.duplicates == Duplicates::Replicate);
            return Ok(Some(drawn(Proposal { params, predicted }, repeats)));
        }
        let mut last = None;
        for _ in 0..DRAWS {
            let Some(proposal) = samplers::propose(self.sampler.as_ref(), &ask, &mut rng)
                .map_err(|error| error.to_string())?
            else {
                break;
            };
            spec.space.check(&proposal.params).map_err(|error| {
                format!(
                    "sampler `{}` proposed no configuration of the space: {error}",
                    spec.sampler.name
                )
            })?;
            let before = self.proposals.first_with(&proposal.params);
            let is_wanted =
                before.is_none() || spec.duplicates != Duplicates::Skip || enqueued.is_some();
            let repeats = before.filter(|_| spec.duplicates == Duplicates::Replicate);
            last = Some(drawn(proposal, repeats));
            if is_wanted {
                return Ok(last);
            }
            if spec.prior_rule == PriorRule::FirstSampled {
                // What is given to it was enqueued: given again, it would be drawn each time.
                ask.place = u64::MAX;
            }
        }
        // For samplers that repeat known configurations; an exhausted space has no new ones.
        let is_new = |params: &Params| self.proposals.first_with(params).is_none();
        let untried = last.as_ref().and_then(|_| samplers::untried(&ask, is_new, &mut rng));
        Ok(untried.map(|params| drawn(params.into(), None)).or(last))
    }
}

impl Engine {
    /// The configurations to choose from, if not all of the space: those that the program offers,
    /// or the study's. Of these, those that were tried are left out unless repetitions are wanted;
    /// a program may offer nothing else.
    fn candidates(&self, enqueued: Option<&Params>) -> Option<Vec<&Params>> {
        let spec = &self.spec;
        let is_offered = enqueued.is_none() && !self.offered.is_empty();
        let all = if is_offered { &self.offered } else { &spec.candidates };
        if all.is_empty() {
            return None;
        }
        let may_repeat = spec.duplicates != Duplicates::Skip || enqueued.is_some();
        let is_new = |params: &&Params| may_repeat || self.proposals.first_with(params).is_none();
        let new: Vec<&Params> = all.iter().filter(is_new).collect();
        let is_left = !new.is_empty() || !is_offered;
        Some(if is_left { new } else { all.iter().collect() })
    }

    /// The answer if no candidate is left: the study's are exhausted; offered ones, and an enqueued
    /// configuration, are an error.
    fn no_candidate(&self, enqueued: Option<&Params>) -> Result<Option<Drawn>, String> {
        if let Some(fixed) = enqueued {
            return Err(format!("no candidate of `[space] file` has {fixed}"));
        }
        if self.offered.is_empty() {
            return Ok(None);
        }
        Err(format!("none of the {} candidates satisfies the constraints", self.offered.len()))
    }

    /// Steps of a full trial, as far as the specification says.
    pub(super) fn max_resource(&self) -> Option<u64> {
        crate::config::max_resource(&self.spec)
    }

    /// Has the next proposal repeated among the candidates that were offered then.
    pub(super) fn with_offered<T>(
        &mut self,
        candidates: &[Params],
        draw: impl FnOnce(&Engine) -> T,
    ) -> T {
        self.offered = candidates.to_vec();
        let drawn = draw(self);
        self.offered.clear();
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::params::Value;

    #[test]
    fn the_first_trial_of_a_configuration_stays_the_first() {
        let mut proposals = Proposals::default();
        let params: Params = [("x".to_owned(), Value::Int(1))].into_iter().collect();
        for (trial, origin) in [(0, Origin::Enqueued(0)), (1, Origin::Asked)] {
            let trial = TrialNumber(trial);
            proposals.apply(&Event::Trial(trial, TrialEvent::created(params.clone(), origin)));
        }
        assert_eq!(proposals.first_with(&params), Some(TrialNumber(0)));
        assert_eq!(proposals.first_with(&Params::new()), None);
        assert_eq!(proposals.enqueued, 1);
    }
}
