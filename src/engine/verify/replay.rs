//! Feeds a journal to an engine, and repeats the decision behind each entry.

use std::collections::VecDeque;

use super::{Contradiction, Difference, StoredEvent, VERDICT, Verified, ending};
use crate::engine::finalists::{Standing, best_configurations, standing};
use crate::engine::reports::Judged;
use crate::engine::{Engine, EngineError};
use crate::pruners::{Gathered, MemberDecision, Promotion};
use crate::study::decision::Decision;
use crate::study::device::{Device, Slot};
use crate::study::event::{
    AttemptEvent, DecisionEvent, Event, FinalistsEvent, ProposalEvent, RunnerEvent, Seq,
    StateEvent, StudyEvent, TrialEvent,
};
use crate::study::goal::Goal;
use crate::study::params::Params;
use crate::study::prediction::Prediction;
use crate::study::program::Program;
use crate::study::spec::StudySpec;
use crate::study::state::{StudyState, TrialResult, judged};
use crate::study::trial::{Origin, Trial, TrialNumber, TrialState};

/// An engine driven by a journal instead of inputs.
pub(super) struct Replay {
    pub revision: usize,
    pub engine: Engine,
    /// Replayed decisions about a population whose entries follow.
    members: VecDeque<MemberDecision>,
    /// Goals that the search has reached since its last end.
    goals: Vec<Goal>,
}

impl Replay {
    /// The state before entry `index`.
    pub fn new(
        revision: usize,
        spec: &StudySpec,
        since: &Seq,
        journal: &[StoredEvent],
        index: usize,
    ) -> Result<Self, EngineError> {
        let mut spec = spec.clone();
        // A specification's budget includes extensions before it, but not later ones.
        for (seq, _, event) in journal {
            if let Event::Study(StudyEvent::BudgetExtended { by }) = event
                && *seq <= *since
                && journal.get(index).is_some_and(|entry| entry.0 <= *seq)
            {
                spec.budget.trials =
                    spec.budget.trials.map(|trials| trials.saturating_sub(by.trials));
                spec.budget.time = spec.budget.time.map(|time| time.saturating_sub(by.time));
            }
        }
        let before = &journal[..index];
        let events = || before.iter().map(|(_, at, event)| (*at, event));
        let mut state = StudyState::new(&spec);
        events().for_each(|(at, event)| state.apply(at, event));
        let ends = events().filter_map(|(_, event)| event.attempt_end());
        let slot = Slot::on(0, Device::Cpu);
        let engine = Engine::new(spec, state, vec![slot])?.with_journal(events()).with_ends(ends);
        let engine = engine.with_events_of_open_attempts(events());
        Ok(Replay { revision, engine, members: VecDeque::new(), goals: Vec::new() })
    }

    /// Repeats the decision behind an entry and applies it; returns the difference, if there is
    /// one.
    pub fn check(
        &mut self,
        entry: &StoredEvent,
        next: Option<&StoredEvent>,
        verified: &mut Verified,
    ) -> Option<Difference> {
        let (_, at, event) = entry;
        self.engine.now = *at;
        self.note_goal_before(event);
        let found = self.decide(event, next, verified);
        let found = found.or_else(|| {
            let is_judged = self.is_judged(event);
            self.engine.apply(event);
            self.engine.note_of_replayed(event);
            self.note_goal(event);
            if let Event::Study(StudyEvent::BudgetExtended { by }) = event {
                self.engine.spec.budget.extend(*by);
            }
            let (trial, AttemptEvent::Reported { step, .. }) = event.attempt_event()? else {
                return None;
            };
            if !is_judged {
                return None;
            }
            verified.verdicts += 1;
            let stored = stored_verdict(next, trial, *step);
            let now = self.engine.judge(trial, *step);
            let differ = !now.repeats(&stored);
            differ.then(|| (VERDICT, in_words(*step, &stored), in_words(*step, &now)))
        });
        found.map(|(what, stored, now)| Difference::of_entry(entry, what, stored, now))
    }

    /// Notes the goal that is reached before an end, which may be decided after any event, such as
    /// a trial that continues or a race that is void.
    fn note_goal_before(&mut self, event: &Event) {
        if event.finished_trial().is_some()
            || matches!(event, Event::Study(StudyEvent::Finished { .. }))
        {
            self.goals.extend(self.engine.goal());
        }
    }

    /// Notes the goal that is reached after an event which may change it.
    fn note_goal(&mut self, event: &Event) {
        let may_change = matches!(
            event,
            Event::Runner(RunnerEvent::Started { .. })
                | Event::Trial(
                    _,
                    TrialEvent::State(StateEvent::Finished { .. } | StateEvent::Hidden)
                        | TrialEvent::Decision(DecisionEvent::ResultsKnown)
                )
        );
        if may_change {
            self.goals.extend(self.engine.goal());
        }
    }

    /// Repeats the decision behind an event: what it is, the stored value and the replayed one, if
    /// they differ.
    fn decide(
        &mut self,
        event: &Event,
        next: Option<&StoredEvent>,
        verified: &mut Verified,
    ) -> Option<Contradiction> {
        if let Some(found) = self.member_decision(event, next, verified) {
            return found;
        }
        let found = match event {
            Event::Trial(
                _,
                TrialEvent::Proposal(ProposalEvent::TrialCreated { params, origin, predicted }),
            ) => {
                let offered = match next {
                    Some((
                        _,
                        _,
                        Event::Trial(
                            _,
                            TrialEvent::Proposal(ProposalEvent::CandidatesOffered { candidates }),
                        ),
                    )) => candidates.as_slice(),
                    _ => &[],
                };
                let now = match self.proposal(params, origin, offered)? {
                    Ok(now) => now,
                    Err(now) => return Some(("proposal", proposal_in_words(params, origin), now)),
                };
                verified.proposals += 1;
                // Samplers of older versions predict nothing, now as then.
                return (now != *predicted).then(|| ("prediction", json(predicted), json(&now)));
            }
            Event::Trial(trial, TrialEvent::State(StateEvent::Queued { until, reason }))
                if self.is_promotion(*trial, next) =>
            {
                verified.promotions += 1;
                let now = promotion(&self.engine, *trial, *until).err()?;
                ("promotion", promotion_in_words(*until, reason), now)
            }
            Event::Trial(
                trial,
                TrialEvent::State(StateEvent::Finished {
                    state: TrialState::Complete,
                    value,
                    values,
                    ..
                }),
            ) if self.engine.spec.program != Program::Inline => {
                let now = self
                    .engine
                    .state
                    .trial(*trial)
                    .map(|trial| self.engine.state.result_of(trial))
                    .unwrap_or_default();
                let stored = (*value, values.clone());
                verified.values += 1;
                return (!is_same_result(&stored, &now))
                    .then(|| ("value", result_in_words(&stored), result_in_words(&now)));
            }
            // Older stores have nothing to compare.
            Event::Trial(
                trial,
                TrialEvent::Attempt(AttemptEvent::Started { rows_at_once: Some(stored), .. }),
            ) => {
                let halving =
                    self.engine.state.trial(*trial).and_then(|trial| self.engine.halving_of(trial));
                let now = halving.map(|halving| halving.rows().train as u64);
                ("rows", rows_in_words(Some(*stored)), rows_in_words(now))
            }
            Event::Trial(
                number,
                TrialEvent::Decision(stored @ DecisionEvent::LimitsJudged { .. }),
            ) => {
                let trial = self.engine.state.trial(*number)?;
                let now = judged(&self.engine.spec, trial);
                verified.verdicts += 1;
                (VERDICT, limits_in_words(stored), limits_in_words(&now))
            }
            Event::Finalists(FinalistsEvent::Chosen { finalists }) => {
                verified.race_steps += 1;
                let best = best_configurations(&self.engine.spec, &self.engine.state);
                ("race", finalists_in_words(finalists), finalists_in_words(&best))
            }
            Event::Study(StudyEvent::Finished { goal, front, .. }) => {
                let reached = std::mem::take(&mut self.goals);
                return ending::difference(
                    &self.engine.state,
                    &reached,
                    goal.as_deref(),
                    front.as_deref(),
                    verified,
                );
            }
            Event::Finalists(FinalistsEvent::Dropped { .. } | FinalistsEvent::Won { .. }) => {
                verified.race_steps += 1;
                let now = match standing(&self.engine.state) {
                    Standing::Events(events) if contains(&events, event) => return None,
                    Standing::Events(events) => race_in_words(&events),
                    _ => "the race continues".to_owned(),
                };
                return Some(("race", race_in_words(std::slice::from_ref(event)), now));
            }
            Event::Trial(
                _,
                TrialEvent::Attempt(_)
                | TrialEvent::Decision(_)
                | TrialEvent::Checkpoint(_)
                | TrialEvent::State(_)
                | TrialEvent::Proposal(
                    ProposalEvent::CandidatesOffered { .. }
                    | ProposalEvent::ConfigurationsSkipped { .. },
                )
                | TrialEvent::Record(_)
                | TrialEvent::Entry(_),
            )
            | Event::Finalists(FinalistsEvent::Tested { .. })
            | Event::Study(
                StudyEvent::DiskExceeded { .. }
                | StudyEvent::Reopened { .. }
                | StudyEvent::Paused { .. }
                | StudyEvent::Resumed { .. }
                | StudyEvent::BudgetExtended { .. }
                | StudyEvent::Noted { .. }
                | StudyEvent::Tagged { .. }
                | StudyEvent::RequestServed { .. },
            )
            | Event::Runner(_)
            | Event::Device(_) => return None,
        };
        (found.1 != found.2).then_some(found)
    }

    /// Repeats the decision about a member of a population; `None` if the event is none. All
    /// members are decided about in one turn: the first entry shows the decisions of the others.
    fn member_decision(
        &mut self,
        event: &Event,
        next: Option<&StoredEvent>,
        verified: &mut Verified,
    ) -> Option<Option<Contradiction>> {
        let Event::Trial(number, of_trial) = event else { return None };
        let is_copy = matches!(of_trial, TrialEvent::State(StateEvent::Cloned { .. }));
        let is_queued = matches!(of_trial, TrialEvent::State(StateEvent::Queued { .. }));
        let is_first = is_copy || is_queued && self.is_promotion(*number, next);
        self.engine.pruner.population()?;
        if self.members.is_empty() {
            if !is_first {
                return None;
            }
            let decide = |gathered| self.engine.member_decisions(gathered);
            let decisions = [Gathered::All, Gathered::Waiting].map(decide);
            let is_it = |decision: &MemberDecision| decision.trial() == *number;
            let found = decisions.into_iter().find(|found| found.iter().any(is_it));
            self.members = found.unwrap_or_default().into();
        }
        // What follows from a decision, such as files that are dropped, stands between them.
        let is_decision =
            is_first || matches!(of_trial, TrialEvent::State(StateEvent::Finished { .. }));
        if !is_decision || self.members.front()?.trial() != *number && !is_first {
            return None;
        }
        verified.promotions += 1;
        let words = |event: &Event| serde_json::to_string(event).unwrap_or_default();
        let now = self.members.pop_front().map(|decision| self.engine.event_of(decision));
        let is_same =
            now.as_ref().is_some_and(|now| without_wording(now) == without_wording(event));
        let now = now.as_ref().map_or_else(|| "nothing continues".to_owned(), words);
        Some((!is_same).then(|| ("promotion", words(event), now)))
    }

    /// What is predicted of the replayed proposal, which is `Err` if it differs; `None` if the
    /// study did not decide it.
    fn proposal(
        &mut self,
        params: &Params,
        origin: &Origin,
        offered: &[Params],
    ) -> Option<Result<Vec<Prediction>, String>> {
        let engine = &mut self.engine;
        let now = match origin {
            Origin::Asked | Origin::Imported(_) | Origin::Tracked(_) => return None,
            Origin::Enqueued(index) => {
                // A missing entry: the study file has changed since.
                let index = usize::try_from(*index).ok()?;
                engine.draw(Some(engine.spec.enqueue.get(index)?))
            }
            Origin::Replicate(of) | Origin::Race { of, .. } => {
                let configuration = engine.state.trial(*of).map(|trial| &trial.params);
                return Some(match configuration {
                    Some(same) if same == params => Ok(Vec::new()),
                    Some(other) => Err(other.to_string()),
                    None => Err(format!("there is no trial {of}")),
                });
            }
            Origin::Sampled(_) | Origin::Repeat(_) => {
                engine.with_offered(offered, |engine| engine.draw(None))
            }
        };
        Some(now.and_then(|drawn| {
            let drawn = drawn.ok_or_else(|| "nothing is left to propose".to_owned())?;
            let from = match (origin, drawn.repeats) {
                (Origin::Enqueued(index), _) => Origin::Enqueued(*index),
                (_, Some(of)) => Origin::Repeat(of),
                (_, None) => Origin::Sampled(drawn.sampler),
            };
            let is_same = drawn.params == *params && from == *origin;
            if is_same { Ok(drawn.predicted) } else { Err(proposal_in_words(&drawn.params, &from)) }
        }))
    }

    /// Whether the pruner promoted the trial: not its user, whose request is answered next, nor the
    /// runner after a fault.
    fn is_promotion(&self, number: TrialNumber, next: Option<&StoredEvent>) -> bool {
        let trial = self.engine.state.trial(number);
        trial.is_some_and(Trial::waits_for_its_pruner)
            && !matches!(next, Some((_, _, Event::Study(StudyEvent::RequestServed { .. }))))
    }

    /// Whether a pruner judges this report: not at a repeated step, nor past the trial's end.
    fn is_judged(&self, event: &Event) -> bool {
        let Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Reported { step, metrics, .. })) =
            event
        else {
            return false;
        };
        let Some(trial) = self.engine.state.trial(*trial) else { return false };
        let counts = self.engine.spec.counts(metrics);
        let waits = self.engine.pruner.waits_for_all_objectives();
        counts && Judged::of(trial, *step, waits) == Judged::Now
    }
}

/// Whether two results are equal: NaN is a value, and zeros are equal regardless of sign.
fn is_same_result(stored: &TrialResult, now: &TrialResult) -> bool {
    let numbers = |result: &TrialResult| result.0.into_iter().chain(result.1.clone()).collect();
    let (stored, now): (Vec<f64>, Vec<f64>) = (numbers(stored), numbers(now));
    let is_same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
    stored.len() == now.len() && stored.iter().zip(&now).all(is_same)
}

fn result_in_words(result: &TrialResult) -> String {
    let numbers: Vec<String> = result.0.iter().chain(&result.1).map(ToString::to_string).collect();
    if numbers.is_empty() { "no value".to_owned() } else { numbers.join(", ") }
}

/// Whether a decision is among others.
fn contains(events: &[Event], event: &Event) -> bool {
    events.iter().any(|other| without_wording(other) == without_wording(event))
}

/// A decision without the sentence that tells its reason: another version may word it differently.
fn without_wording(event: &Event) -> Event {
    let mut event = event.clone();
    match &mut event {
        Event::Trial(_, TrialEvent::State(event)) => match event {
            StateEvent::Queued { reason, .. } => reason.clear(),
            StateEvent::Finished { reason, .. } => *reason = None,
            StateEvent::Cloned { .. }
            | StateEvent::Paused { .. }
            | StateEvent::Held { .. }
            | StateEvent::Continued { .. }
            | StateEvent::Hidden
            | StateEvent::Restored
            | StateEvent::Removed { .. } => {}
        },
        Event::Finalists(event) => match event {
            FinalistsEvent::Dropped { reason, .. } | FinalistsEvent::Won { reason, .. } => {
                reason.clear()
            }
            FinalistsEvent::Chosen { .. } | FinalistsEvent::Tested { .. } => {}
        },
        Event::Trial(..) | Event::Runner(_) | Event::Study(_) | Event::Device(_) => {}
    }
    event
}

/// The journal's decision on a report: the event after it.
fn stored_verdict(next: Option<&StoredEvent>, trial: TrialNumber, step: u64) -> Decision {
    match next {
        Some((
            _,
            _,
            Event::Trial(about, TrialEvent::Decision(DecisionEvent::Decided { step: at, verdict })),
        )) if (*about, *at) == (trial, step) => verdict.clone(),
        _ => Decision::CONTINUE,
    }
}

/// Whether a pruner promotes the trial to that step; otherwise what it does.
fn promotion(engine: &Engine, number: TrialNumber, stored: Option<u64>) -> Result<(), String> {
    let promoted = engine.promotion(|pruner, history| pruner.promote(history));
    let concluded = || engine.promotion(|pruner, history| pruner.conclude(history));
    let is_same = |found: &Option<Promotion>| {
        found.as_ref().is_some_and(|found| (found.trial, found.until) == (number, stored))
    };
    if is_same(&promoted) || is_same(&concluded()) {
        return Ok(());
    }
    Err(match promoted.or_else(concluded) {
        None => "nothing continues".to_owned(),
        Some(Promotion { trial, until, reason }) => {
            format!("trial {trial}, {}", promotion_in_words(until, &reason.to_string()))
        }
    })
}

fn proposal_in_words(params: &Params, origin: &Origin) -> String {
    let from = match origin {
        Origin::Sampled(sampler) => format!("by {sampler}"),
        Origin::Enqueued(index) => format!("[[enqueue]] {index}"),
        Origin::Asked | Origin::Imported(_) | Origin::Tracked(_) => "by its user".to_owned(),
        Origin::Replicate(of) | Origin::Repeat(of) => format!("again, as trial {of}"),
        Origin::Race { of, round, .. } => format!("as trial {of}, in round {round} of the race"),
    };
    format!("{params} ({from})")
}

fn json(predicted: &[Prediction]) -> String {
    let nothing = || "nothing is predicted".to_owned();
    if predicted.is_empty() { nothing() } else { serde_json::json!(predicted).to_string() }
}

fn promotion_in_words(until: Option<u64>, reason: &str) -> String {
    let end = until.map_or_else(|| "its end".to_owned(), |until| format!("step {until}"));
    format!("up to {end}: {reason}")
}

fn rows_in_words(rows: Option<u64>) -> String {
    rows.map_or_else(
        || "as many rows as the study says".to_owned(),
        |rows| format!("{rows} rows at once"),
    )
}

/// Without the sentence, which another version may word differently.
fn limits_in_words(judged: &DecisionEvent) -> String {
    match judged {
        DecisionEvent::LimitsJudged { violation: Some(by), .. } => {
            format!("violates the limits by {by}")
        }
        _ => "keeps the limits".to_owned(),
    }
}

fn finalists_in_words(finalists: &[TrialNumber]) -> String {
    format!("trials {}", finalists.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

fn race_in_words(events: &[Event]) -> String {
    let words = |event: &Event| match event {
        Event::Finalists(FinalistsEvent::Dropped { trial, reason }) => {
            format!("trial {trial} leaves: {reason}")
        }
        Event::Finalists(FinalistsEvent::Won { trial, reason, statistics }) => {
            format!("trial {trial} wins with a mean of {}: {reason}", statistics.mean)
        }
        other => serde_json::to_string(other).unwrap_or_default(),
    };
    if events.is_empty() {
        "nothing".to_owned()
    } else {
        events.iter().map(words).collect::<Vec<_>>().join("; ")
    }
}

fn in_words(step: u64, verdict: &Decision) -> String {
    let reason = verdict.reason().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{} at step {step}{reason}", verdict.word())
}
