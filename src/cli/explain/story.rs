//! The history of one trial, folded from its study's journal: the information available when it was
//! proposed, judged and run.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cli::trial_json::{BestJson, as_instant};
use crate::config::max_resource;
use crate::report::journal::said;
use crate::report::wording::shown_value;
use crate::samplers::{CurvePredictor, Predicted, PredictedTrial, place_of};
use crate::study::decision::{CutOff, Decision, Reason};
use crate::study::device::Device;
use crate::study::event::{
    AgentChange, AttemptEnd, AttemptEvent, DecisionEvent, DeviceEvent, EntryEvent, Event,
    ProposalEvent, StateEvent, TrialEvent,
};
use crate::study::history::History;
use crate::study::metric::{Number, Score, median};
use crate::study::params::Params;
use crate::study::prediction::Prediction;
use crate::study::provenance::AgentProvenance;
use crate::study::space::{Distribution, Space};
use crate::study::spec::StudySpec;
use crate::study::state::{Counts, StudyState};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, TrialNumber};

/// The journal's facts about one trial.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// When it was created, and what was known at that time.
    pub proposal: Option<Proposal>,
    /// Every decision, in order.
    pub judgements: Vec<Judgement>,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptStory>,
    /// Pauses, requeues and notes, in order.
    pub turns: Vec<Turn>,
}

/// The information available to the sampler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Proposal {
    /// Time of it.
    #[serde(serialize_with = "as_instant")]
    pub at: Timestamp,
    /// The other trials by state.
    pub others: Counts,
    /// The best complete trial and its value.
    pub best: Option<BestJson>,
    /// The earlier trial with the closest parameters.
    pub nearest: Option<Neighbour>,
    /// In a study of several objectives, the trials on the front.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub front: Vec<TrialNumber>,
    /// The reports that were to be expected then, the last one at the end of a full trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predicted: Vec<Predicted>,
    /// In a study of several objectives, those of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predicted_objectives: Vec<Vec<Predicted>>,
    /// Its place among the trials that take the priors.
    #[serde(skip)]
    pub place: u64,
    /// The values that the sampler's model predicted, by objective.
    #[serde(skip)]
    pub by_sampler: Vec<Prediction>,
}

/// An earlier trial close to this one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbour {
    /// Its number.
    #[serde(rename = "number")]
    pub trial: TrialNumber,
    /// The mean distance of the parameters, as shares of their ranges.
    pub distance: f64,
    /// Its value at that time, or its last report.
    pub value: Option<Number>,
}

/// A decision, and the trial's rank among the reports at the same step.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Step.
    pub step: u64,
    /// The decision and its reason.
    pub verdict: Decision,
    /// The trial's report there.
    pub value: Option<f64>,
    /// In a study of several objectives, what was known of each there.
    pub values: Vec<Option<f64>>,
    /// The other reports at that time.
    pub field: Option<Field>,
    /// The report that was to be expected then at the end of a full trial.
    pub predicted_end: Option<Predicted>,
    /// In a study of several objectives, that of each.
    pub predicted_ends: Vec<Predicted>,
}

/// Reports of several trials at one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The trial's rank, from 1; ties share the better one.
    pub rank: usize,
    /// How many had reported, itself included.
    pub of: usize,
    /// The best report.
    pub best: f64,
    /// The median; the better of the middle two.
    pub median: f64,
    /// The threshold, if the reason has one.
    pub cut_off: Option<f64>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptStory {
    /// Number of the trial's attempt, from 0.
    pub attempt: AttemptNumber,
    /// The device.
    pub device: String,
    /// The machine of its agent, if it ran on one.
    pub agent: Option<AgentProvenance>,
    /// When it began.
    pub started: Timestamp,
    /// The step of the checkpoint from which it continued.
    pub resumed_from: Option<u64>,
    /// When and how it ended, and why.
    pub end: Option<(Timestamp, AttemptEnd, Option<String>)>,
}

/// An event between a trial's attempts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turn {
    /// Time of it.
    #[serde(serialize_with = "as_instant")]
    pub at: Timestamp,
    /// `paused`, `queued again`, `continued`, `shares`, `drawn again`, `remarked` or `noted`.
    pub what: &'static str,
    /// The reason, or where the event has none the whole event in words.
    pub reason: String,
    /// The event in words.
    #[serde(skip)]
    pub text: String,
}

/// Folds a journal into the history of one of its trials.
pub struct Teller<'a> {
    spec: &'a StudySpec,
    number: TrialNumber,
    state: StudyState,
    story: Story,
    /// The reason for the present concurrency of each device.
    concurrency: BTreeMap<Device, String>,
    /// The machines of agents that have come, by name.
    agents: BTreeMap<String, AgentProvenance>,
    predictor: CurvePredictor,
    /// The steps of which reports are predicted.
    steps: Vec<u64>,
}

impl<'a> Teller<'a> {
    /// Before the first event.
    pub fn new(spec: &'a StudySpec, number: TrialNumber) -> Self {
        Teller {
            spec,
            number,
            state: StudyState::new(spec),
            story: Story::default(),
            concurrency: BTreeMap::new(),
            agents: BTreeMap::new(),
            predictor: CurvePredictor::default(),
            steps: Vec::new(),
        }
    }

    /// Predicts the reports at these steps when the trial is proposed, and its end when it is
    /// judged at one of them.
    pub fn predicting(self, steps: Vec<u64>) -> Self {
        Teller { steps, ..self }
    }

    /// Applies an event.
    pub fn hear(&mut self, at: Timestamp, event: &Event) {
        if let Event::Device(DeviceEvent::ConcurrencyChanged { device, .. }) = event {
            self.concurrency.insert(device.clone(), said(event, self.spec.step, None, false));
        }
        if let Event::Device(DeviceEvent::AgentChanged { agent, change }) = event
            && let AgentChange::Joined { provenance: Some(provenance), .. } = change
        {
            self.agents.insert(agent.clone(), provenance.as_ref().clone());
        }
        if let Event::Trial(trial, of_trial) = event
            && *trial == self.number
        {
            self.tell(at, event, of_trial);
        }
        self.state.apply(at, event);
    }

    /// The history so far.
    pub fn finish(self) -> Story {
        self.story
    }

    /// Applies an event of the trial.
    fn tell(&mut self, at: Timestamp, whole: &Event, event: &TrialEvent) {
        let step_unit = self.spec.step;
        let mut turn = |what, reason: Option<&String>| {
            let text = said(whole, step_unit, None, false);
            let reason = reason.unwrap_or(&text).clone();
            self.story.turns.push(Turn { at, what, reason, text });
        };
        match event {
            TrialEvent::Proposal(event) => match event {
                ProposalEvent::TrialCreated { params, predicted, .. } => {
                    let by_sampler = predicted.clone();
                    self.story.proposal = Some(Proposal { by_sampler, ..self.proposal(at, params) })
                }
                ProposalEvent::ConfigurationsSkipped { .. } => turn("drawn again", None),
                ProposalEvent::CandidatesOffered { .. } => {}
            },
            TrialEvent::Attempt(event) => match event {
                AttemptEvent::Started { attempt, slot, resume, .. } => {
                    if let Some(shared) = self.concurrency.get(slot.devices.first()) {
                        let (reason, text) =
                            (shared.clone(), format!("shares its device: {shared}"));
                        self.story.turns.push(Turn { at, what: "shares", reason, text });
                    }
                    self.story.attempts.push(AttemptStory {
                        attempt: *attempt,
                        device: slot.devices.to_string(),
                        agent: slot
                            .devices
                            .agent()
                            .and_then(|agent| self.agents.get(agent))
                            .cloned(),
                        started: at,
                        resumed_from: resume.as_ref().map(|(step, _)| *step),
                        end: None,
                    });
                }
                AttemptEvent::Ended { attempt, end, reason, .. } => {
                    if let Some(story) =
                        self.story.attempts.iter_mut().rfind(|story| story.attempt == *attempt)
                    {
                        let ended = end.moment(story.started, at, self.state.killed_at);
                        story.end = Some((ended.unwrap_or(at), end.clone(), reason.clone()));
                    }
                }
                AttemptEvent::Remarked { .. } => turn("remarked", None),
                AttemptEvent::Launched { .. } | AttemptEvent::Reported { .. } => {}
            },
            TrialEvent::Decision(event) => match event {
                DecisionEvent::Decided { step, verdict, .. } => {
                    let trial = self.state.trial(self.number);
                    let value = trial.and_then(|trial| at_step(&trial.curve, *step));
                    // A member of a population is ranked once all are there, not when it arrives.
                    let is_ranked = !matches!(verdict.reason(), Some(Reason::Ready { .. }));
                    let field =
                        value.filter(|_| is_ranked).map(|value| self.field(*step, value, verdict));
                    let this = PredictedTrial::Reported(self.number);
                    let is_predicted = trial.is_some_and(|trial| trial.has_reported(*step))
                        && self.steps.contains(step);
                    let predicted = is_predicted.then(|| self.predicted(this, &[]));
                    let mut ends: Vec<Predicted> = predicted
                        .iter()
                        .flatten()
                        .filter_map(|objective| objective.last().copied())
                        .collect();
                    let predicted_end = if self.is_several() { None } else { ends.pop() };
                    self.story.judgements.push(Judgement {
                        step: *step,
                        verdict: verdict.clone(),
                        value,
                        values: trial.map_or_else(Vec::new, |trial| trial.values_at(*step)),
                        field,
                        predicted_end,
                        predicted_ends: ends,
                    });
                }
                DecisionEvent::LimitsJudged { violation, reason } => {
                    let what = match violation {
                        Some(_) => "violates the changed limits",
                        None => "satisfies the changed limits",
                    };
                    turn(what, reason.as_ref());
                }
                DecisionEvent::LimitsBroken { .. } | DecisionEvent::ResultsKnown => {}
            },
            TrialEvent::State(event) => match event {
                StateEvent::Paused { reason, .. } => turn("paused", Some(reason)),
                StateEvent::Queued { reason, .. } => turn("queued again", Some(reason)),
                StateEvent::Cloned { .. } => turn("copied another", None),
                StateEvent::Continued { .. } => turn("continued", None),
                StateEvent::Held { .. }
                | StateEvent::Finished { .. }
                | StateEvent::Hidden
                | StateEvent::Restored
                | StateEvent::Removed { .. } => {}
            },
            TrialEvent::Entry(event) => match event {
                EntryEvent::Noted { text: note } => turn("noted", Some(note)),
                EntryEvent::Tagged { .. } => {}
            },
            TrialEvent::Checkpoint(_) | TrialEvent::Record(_) => {}
        }
    }

    fn is_several(&self) -> bool {
        self.spec.has_several_objectives()
    }

    fn proposal(&self, at: Timestamp, params: &Params) -> Proposal {
        let best = self.state.best().and_then(|best| Some((best.number, best.value?).into()));
        let mut predicted = match self.steps.is_empty() {
            true => Vec::new(),
            false => self.predicted(PredictedTrial::New(params), &self.steps),
        };
        Proposal {
            at,
            others: self.state.counts,
            best,
            nearest: self.nearest(params),
            front: if self.is_several() { self.state.front().trials } else { Vec::new() },
            predicted: if self.is_several() { None } else { predicted.pop() }.unwrap_or_default(),
            predicted_objectives: predicted,
            place: place_of(self.spec.prior_rule, self.number, &self.state.trials),
            by_sampler: Vec::new(),
        }
    }

    /// What is predicted of each objective; nothing if one of them cannot be predicted.
    fn predicted(&self, trial: PredictedTrial<'_>, steps: &[u64]) -> Vec<Vec<Predicted>> {
        let (space, most) = (&self.spec.space, max_resource(self.spec));
        let history = History::new(&self.state);
        let predict =
            |objective| self.predictor.predict(space, history, most, objective, trial, steps);
        let all: Option<Vec<_>> = (0..history.directions().len()).map(predict).collect();
        all.unwrap_or_default()
    }

    fn nearest(&self, params: &Params) -> Option<Neighbour> {
        let near =
            self.state.trials.iter().filter_map(|trial| {
                Some((distance(&self.spec.space, params, &trial.params)?, trial))
            });
        // Ties: the latest is shown.
        let (distance, trial) = near.min_by(|(mine, one), (theirs, other)| {
            mine.total_cmp(theirs).then(other.number.cmp(&one.number))
        })?;
        Some(Neighbour {
            trial: trial.number,
            distance,
            value: shown_value(self.spec, trial).map(Number),
        })
    }

    /// The rank of `value` among all reports at `step`.
    fn field(&self, step: u64, value: f64, verdict: &Decision) -> Field {
        let mut values: Vec<f64> =
            self.state.trials.iter().filter_map(|trial| at_step(&trial.curve, step)).collect();
        let score = |value: f64| Score::new(self.state.direction(), value);
        values.sort_by_key(|value| score(*value));
        let rank = 1 + values.iter().filter(|other| score(**other) < score(value)).count();
        let cut_off = match verdict.reason().and_then(Reason::cut_off) {
            Some(CutOff::Value(value)) => Some(value),
            // Brackets compare only some of the trials that reported there.
            Some(CutOff::Rank { first, of }) if of == values.len() as u64 => {
                let last = first.checked_sub(1).and_then(|last| usize::try_from(last).ok());
                last.and_then(|last| values.get(last).copied())
            }
            Some(CutOff::Rank { .. }) | None => None,
        };
        let (best, median) =
            (values.first().copied().unwrap_or(value), median(&values).unwrap_or(value));
        Field { rank, of: values.len(), best, median, cut_off }
    }
}

fn at_step(curve: &[(u64, f64)], step: u64) -> Option<f64> {
    curve
        .binary_search_by_key(&step, |(at, _)| *at)
        .ok()
        .and_then(|index| curve.get(index))
        .map(|(_, value)| *value)
}

/// The mean distance of two configurations over the parameters of either; a parameter that only one
/// has counts as a whole range.
fn distance(space: &Space, one: &Params, other: &Params) -> Option<f64> {
    let mut sum = 0.0;
    let mut dimensions = 0_u32;
    for dimension in space.dimensions() {
        let place = |value| match &dimension.distribution {
            Distribution::Choice { .. } => None,
            range => range.to_unit(value),
        };
        sum += match (one.get(&dimension.name), other.get(&dimension.name)) {
            (None, None) => continue,
            (Some(mine), Some(theirs)) if mine.same(theirs) => 0.0,
            (Some(mine), Some(theirs)) => match (place(mine), place(theirs)) {
                (Some(mine), Some(theirs)) => (mine - theirs).abs(),
                _ => 1.0,
            },
            _ => 1.0,
        };
        dimensions += 1;
    }
    (dimensions > 0).then(|| sum / f64::from(dimensions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::decision::Bound;
    use crate::study::device::Slot;
    use crate::study::event::RunnerEvent;
    use crate::study::metric::Direction;
    use crate::study::program::Program;
    use crate::study::space::{Dimension, Scale};
    use crate::study::step::StepUnit;
    use crate::study::trial::{Origin, TrialState};

    fn spec() -> StudySpec {
        let rate = Distribution::float(1e-4, 1.0, Scale::Log, None).unwrap();
        let space = Space::new(vec![Dimension {
            name: "rate".into(),
            distribution: rate,
            prior: None,
            when: None,
        }])
        .unwrap();
        StudySpec::new("digits", "loss", Direction::Minimize, space, Program::Inline)
    }

    fn events(number: u64, rate: f64, value: f64) -> Vec<Event> {
        let (trial, attempt) = (TrialNumber(number), AttemptNumber(0));
        let mut params = Params::new();
        params.insert("rate", rate);
        let metrics = [("loss".to_owned(), value)].into_iter().collect();
        vec![
            Event::Trial(trial, TrialEvent::created(params, Origin::Sampled("tpe".into()))),
            Event::of(
                trial,
                AttemptEvent::Started {
                    attempt,
                    slot: Slot::on(0, Device::Cpu),
                    resume: Some((2, "x".into())),
                    until: None,
                    rows_at_once: None,
                    device_micros: 0,
                },
            ),
            Event::of(trial, AttemptEvent::reported(attempt, 3, metrics)),
        ]
    }

    fn finished(number: u64, value: f64) -> Event {
        Event::Trial(
            TrialNumber(number),
            TrialEvent::finished(TrialState::Complete, Some(value), None),
        )
    }

    /// Trials from 0 on that report these values.
    fn reported(values: &[f64]) -> Vec<Event> {
        values.iter().zip(0..).flat_map(|(value, number)| events(number, 0.1, *value)).collect()
    }

    fn told(number: u64, journal: &[Event]) -> Story {
        let spec = spec();
        let mut teller = Teller::new(&spec, TrialNumber(number));
        journal
            .iter()
            .zip(0..)
            .for_each(|(event, second)| teller.hear(Timestamp(second * 1_000_000), event));
        teller.finish()
    }

    #[test]
    fn what_was_known_is_what_came_before_and_nothing_later() {
        let mut journal = events(0, 0.01, 0.5);
        journal.push(finished(0, 0.5));
        journal.extend(events(1, 1.0, 0.9));
        journal.extend(events(2, 0.02, 0.4));
        journal.push(finished(1, 0.1));
        let proposal = told(2, &journal).proposal.unwrap();
        assert_eq!(
            (proposal.others.complete, proposal.others.running, proposal.best),
            (1, 1, Some((TrialNumber(0), 0.5).into()))
        );
        let nearest = proposal.nearest.unwrap();
        assert_eq!((nearest.trial, nearest.value), (TrialNumber(0), Some(Number(0.5))));
        assert!((nearest.distance - 2_f64.log10() / 4.0).abs() < 1e-9, "{}", nearest.distance);
    }

    #[test]
    fn a_decision_is_told_with_the_field_at_that_moment_and_its_cut_off() {
        let mut journal = reported(&[0.5, 0.2, f64::NAN, 0.3]);
        let at = StepUnit::Step.at(3);
        let rank =
            Reason::Rank { rank: 2, of: 4, first: 1, at, forecast_from: None, forecast: None };
        let verdict = Decision::Stop(rank);
        journal.push(Event::of(TrialNumber(3), DecisionEvent::Decided { step: 3, verdict }));
        journal.extend(events(4, 0.1, 0.1));
        let judgement = told(3, &journal).judgements.remove(0);
        let field = judgement.field.unwrap();
        assert_eq!(
            (judgement.value, field.rank, field.of, field.best, field.median, field.cut_off),
            (Some(0.3), 2, 4, 0.2, 0.4, Some(0.2))
        );
    }

    #[test]
    fn a_cut_off_among_others_than_the_field_is_not_told_and_one_that_is_a_value_is() {
        let at = StepUnit::Step.at(3);
        let cut_off = |reason: Reason| {
            let mut journal = reported(&[0.5, 0.2, 0.3]);
            let verdict = Decision::Stop(reason);
            journal.push(Event::of(TrialNumber(2), DecisionEvent::Decided { step: 3, verdict }));
            told(2, &journal).judgements.remove(0).field.unwrap().cut_off
        };
        let rank =
            Reason::Rank { rank: 2, of: 2, first: 1, at, forecast_from: None, forecast: None };
        assert_eq!(cut_off(rank), None);
        let (value, bound, threshold) = (Number(0.3), Bound::Upper, Number(0.25));
        assert_eq!(cut_off(Reason::Threshold { value, bound, threshold, at }), Some(0.25));
    }

    #[test]
    fn curves_are_predicted_from_what_was_known_at_that_moment() {
        let mut journal = reported(&[0.5, 0.2, 0.3, 0.6, 0.4]);
        journal.extend(events(5, 0.1, 0.35));
        let at = StepUnit::Step.at(3);
        let reason =
            Reason::Rank { rank: 3, of: 6, first: 2, at, forecast_from: None, forecast: None };
        let verdict = Decision::Stop(reason);
        journal.push(Event::of(TrialNumber(5), DecisionEvent::Decided { step: 3, verdict }));
        let told = |journal: &[Event], number: u64, steps: &[u64]| {
            let spec = spec();
            let mut teller = Teller::new(&spec, TrialNumber(number)).predicting(steps.to_vec());
            journal.iter().for_each(|event| teller.hear(Timestamp(0), event));
            teller.finish()
        };
        let story = told(&journal, 5, &[3]);
        let predicted = story.proposal.unwrap().predicted;
        // Without a length of trials: three times as long as any.
        assert_eq!(predicted.iter().map(|row| row.step).collect::<Vec<_>>(), [3, 9]);
        assert!(predicted[0].low < 0.4 && predicted[0].high > 0.4, "{predicted:?}");
        let end = story.judgements[0].predicted_end.unwrap();
        assert!(end.high - end.low < predicted[1].high - predicted[1].low, "{end:?}");
        // Later events change nothing, and four trials are too few.
        journal.extend(events(6, 0.1, 9.0));
        let later = told(&journal, 5, &[3]).proposal.unwrap().predicted;
        assert_eq!(later, predicted);
        assert!(told(&journal, 4, &[3]).proposal.unwrap().predicted.is_empty());
        assert!(told(&journal, 5, &[]).proposal.unwrap().predicted.is_empty());
    }

    #[test]
    fn a_member_of_a_population_that_arrives_has_no_rank() {
        let mut journal = reported(&[0.5]);
        let verdict = Decision::Pause(Reason::Ready { rung: 3, at_once: false });
        journal.push(Event::of(TrialNumber(0), DecisionEvent::Decided { step: 3, verdict }));
        let judgement = told(0, &journal).judgements.remove(0);
        assert_eq!((judgement.value, judgement.field), (Some(0.5), None));
    }

    #[test]
    fn an_attempt_that_was_lost_ended_when_its_runner_was_last_heard() {
        let mut journal = events(0, 0.1, 0.5);
        let (runner, heard) = (None, Some(Timestamp(2_000_000)));
        let reason = "it was killed".to_owned();
        let (ran_micros, device_micros) = (1, 0);
        let stopped = RunnerEvent::Stopped { reason, ran_micros, heard, device_micros, runner };
        journal.push(Event::Runner(stopped));
        let (attempt, end) = (AttemptNumber(0), AttemptEnd::Lost);
        let (reason, device_micros, memory) = (None, Some(0), None);
        let lost = TrialEvent::Attempt(AttemptEvent::Ended {
            attempt,
            end,
            reason,
            device_micros,
            memory,
            superseded: Default::default(),
        });
        journal.push(Event::Trial(TrialNumber(0), lost));
        let story = told(0, &journal);
        let (ended, ..) = story.attempts[0].end.as_ref().unwrap();
        assert_eq!(
            (story.attempts[0].started, *ended),
            (Timestamp(1_000_000), Timestamp(2_000_000))
        );
    }

    #[test]
    fn attempts_end_as_the_journal_says() {
        let mut journal = events(0, 0.1, 0.5);
        let reason = Some("exit code 1".to_owned());
        journal.push(Event::of(
            TrialNumber(0),
            AttemptEvent::Ended {
                attempt: AttemptNumber(0),
                end: AttemptEnd::Lost,
                reason: reason.clone(),
                device_micros: None,
                memory: None,
                superseded: Default::default(),
            },
        ));
        journal.push(Event::of(
            TrialNumber(0),
            StateEvent::Queued { until: None, reason: "lost".into() },
        ));
        let story = told(0, &journal);
        assert_eq!(story.attempts[0].resumed_from, Some(2));
        assert_eq!(story.attempts[0].end, Some((Timestamp(3_000_000), AttemptEnd::Lost, reason)));
        assert_eq!(story.turns[0].what, "queued again");
    }
}
