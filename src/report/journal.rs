//! The wording of journal events, shared by the lines of `run` and `events` and by the screens.

use std::collections::BTreeSet;

use super::Happening;
use super::wording::{
    attempt_end, bytes, disk_exceeded, duration, extension, known_values, micros, number, one_line,
    params, proposed, remarked, skipped, slots, values,
};
use crate::study::counted::count;
use crate::study::decision::Decision;
use crate::study::device::Device;
use crate::study::event::{
    AgentChange, AttemptEnd, AttemptEvent, CheckpointEvent, DecisionEvent, DeviceEvent, EntryEvent,
    Event, FinalistsEvent, ProposalEvent, RecordEvent, RunnerEvent, StateEvent, StudyEvent,
    TrialEvent,
};
use crate::study::front::Growing;
use crate::study::metric::{Direction, Metrics, Score};
use crate::study::pareto;
use crate::study::request::RequestAnswer;
use crate::study::state::StudyState;
use crate::study::step::StepUnit;
use crate::study::tracked::MovedRun;
use crate::study::trial::{AttemptNumber, Trial, TrialState};

/// Describes the events of a journal; it must see all of them, in order.
#[derive(Debug, Default)]
pub struct Journal {
    best: Option<Score>,
    front: Growing,
}

impl Journal {
    /// Applies an event; returns whether it improved the study's best value. Searching all trials
    /// at each end would be quadratic.
    pub fn take(&mut self, happening: &Happening<'_>) -> bool {
        let Event::Trial(
            number,
            TrialEvent::State(StateEvent::Finished {
                state: TrialState::Complete,
                value,
                values,
                ..
            }),
        ) = happening.event
        else {
            return false;
        };
        if happening.state.trial(*number).is_some_and(|trial| trial.violation.is_some()) {
            return false;
        }
        if !values.is_empty() {
            return self.joins(happening.state.directions(), values);
        }
        let Some(value) = value else { return false };
        let score = Score::new(happening.state.direction(), *value);
        let is_best = !value.is_nan() && self.best.is_none_or(|best| score < best);
        if is_best {
            self.best = Some(score);
        }
        is_best
    }

    /// Adds the values of several objectives; whether they are on the front.
    pub fn joins(&mut self, directions: &[Direction], values: &[f64]) -> bool {
        !values.iter().any(|value| value.is_nan())
            && self.front.add(pareto::losses(directions, values))
    }

    /// How many different points of several objectives are on the front.
    pub fn front_size(&self) -> usize {
        self.front.len()
    }

    /// Registers the value of a trial that ended before the first event.
    pub fn know(&mut self, direction: Direction, value: f64) {
        let score = Score::new(direction, value);
        if !value.is_nan() && self.best.is_none_or(|best| score < best) {
            self.best = Some(score);
        }
    }

    /// One line about an event that was just applied.
    pub fn line(happening: &Happening<'_>, is_best: bool) -> String {
        let Happening { event, state, .. } = *happening;
        let said = said(event, state.step_unit(), Some(state), is_best);
        one_line(&match (event, event.trial()) {
            (Event::Device(DeviceEvent::ConcurrencyChanged { .. }), _) | (_, None) => said,
            (
                Event::Trial(
                    _,
                    TrialEvent::Attempt(AttemptEvent::Remarked { .. })
                    | TrialEvent::Proposal(
                        ProposalEvent::CandidatesOffered { .. }
                        | ProposalEvent::ConfigurationsSkipped { .. },
                    )
                    | TrialEvent::Entry(EntryEvent::Noted { .. })
                    | TrialEvent::Decision(DecisionEvent::ResultsKnown),
                ),
                Some(trial),
            ) => format!("trial {trial}: {said}"),
            (_, Some(trial)) => format!("trial {trial} {said}"),
        })
    }
}

/// The wording of an event, without its trial. A `state` with the event applied adds detail;
/// `is_best` says whether the event improved the study's best value.
pub fn said(
    event: &Event,
    step_unit: StepUnit,
    state: Option<&StudyState>,
    is_best: bool,
) -> String {
    match event {
        Event::Trial(number, event) => {
            let trial = state.and_then(|state| state.trial(*number));
            said_of_trial(event, step_unit, state.zip(trial), is_best)
        }
        Event::Runner(RunnerEvent::Started { pid, host, tracker: Some(_), .. }) => {
            format!("process {pid} on {host} tracks a run")
        }
        Event::Runner(RunnerEvent::Stopped { reason, ran_micros, runner: Some(_), .. }) => {
            format!("its process left after {}: {reason}", duration(micros(*ran_micros)))
        }
        Event::Runner(RunnerEvent::Started { pid, host, slots: now, .. }) => {
            if now.is_empty() {
                format!("waiting for agents, process {pid} on {host}")
            } else {
                format!("running on {}, process {pid} on {host}", slots(now))
            }
        }
        Event::Runner(RunnerEvent::Described { provenance }) => {
            format!(
                "it is hpsearch {} on {}",
                provenance.hpsearch.version, provenance.machine.system
            )
        }
        Event::Runner(RunnerEvent::Stopped { reason, ran_micros, .. }) => {
            format!("the runner left after {}: {reason}", duration(micros(*ran_micros)))
        }
        Event::Finalists(FinalistsEvent::Chosen { finalists }) => {
            let numbers: Vec<String> = finalists.iter().map(ToString::to_string).collect();
            let (trials, run) =
                if finalists.len() == 1 { ("trial", "runs") } else { ("trials", "run") };
            format!("the race begins: {trials} {} {run} again on fresh seeds", numbers.join(", "))
        }
        Event::Finalists(FinalistsEvent::Dropped { reason, .. }) => {
            format!("leaves the race: {reason}")
        }
        Event::Finalists(FinalistsEvent::Won { reason, .. }) => format!("wins the race: {reason}"),
        Event::Finalists(FinalistsEvent::Tested { metrics, .. }) => {
            format!("was measured on the test split: {}", measured(metrics))
        }
        Event::Study(StudyEvent::Finished { reason, .. }) => format!("the study is over: {reason}"),
        Event::Study(StudyEvent::Reopened { reason }) => format!("the study continues: {reason}"),
        Event::Study(StudyEvent::Paused { reason }) => {
            format!("the study is {reason}: nothing starts until it is resumed")
        }
        Event::Study(StudyEvent::Resumed { reason }) => format!("the study is {reason}"),
        Event::Study(StudyEvent::BudgetExtended { by }) => {
            format!("the budget is extended by {}", extension(*by))
        }
        Event::Device(DeviceEvent::Paused { device }) => {
            format!("{device} is paused by you: nothing is started there")
        }
        Event::Device(DeviceEvent::Resumed { device }) => format!("{device} is resumed by you"),
        Event::Device(DeviceEvent::SlotsChanged { slots: now }) => {
            if now.is_empty() {
                "waiting for agents".to_owned()
            } else {
                format!("running on {}", slots(now))
            }
        }
        Event::Device(DeviceEvent::AgentChanged {
            agent,
            change: AgentChange::Joined { slots, .. },
        }) => {
            format!("agent {agent} connected, with {}", count(*slots, "slot"))
        }
        Event::Device(DeviceEvent::AgentChanged {
            agent,
            change: AgentChange::Left { reason },
        }) => format!("agent {agent} disconnected: {reason}"),
        Event::Device(DeviceEvent::AgentChanged { agent, change: AgentChange::Silent }) => {
            format!("agent {agent} does not answer: nothing new is started there")
        }
        Event::Device(DeviceEvent::AgentChanged { agent, change: AgentChange::Back }) => {
            format!("agent {agent} answers again")
        }
        Event::Device(DeviceEvent::AgentChanged {
            agent,
            change: AgentChange::Absent { reason },
        }) => format!("agents from {agent}: {reason}"),
        Event::Device(DeviceEvent::ConcurrencyChanged { device, slots, reason, .. }) => {
            concurrency(*slots, Some(device), reason)
        }
        Event::Study(StudyEvent::DiskExceeded { bytes, limit }) => disk_exceeded(*bytes, *limit),
        Event::Study(StudyEvent::Noted { text }) => format!("note on the study: {text}"),
        Event::Study(StudyEvent::RequestServed { id, answer: RequestAnswer::Done(said) }) => {
            format!("request {id} done: {said}")
        }
        Event::Study(StudyEvent::RequestServed { answer: RequestAnswer::Refused(why), .. }) => {
            format!("a request was refused: {why}")
        }
        Event::Study(StudyEvent::Tagged { tag, present }) => {
            format!("the study {}", tagged(tag, *present))
        }
    }
}

fn said_of_trial(
    event: &TrialEvent,
    step_unit: StepUnit,
    known: Option<(&StudyState, &Trial)>,
    is_best: bool,
) -> String {
    let trial = known.map(|(_, trial)| trial);
    match event {
        TrialEvent::Proposal(event) => match event {
            ProposalEvent::TrialCreated { params: own, origin, .. } => {
                format!("{}: {}", proposed(origin), params(own))
            }
            ProposalEvent::CandidatesOffered { candidates } => {
                format!("chosen among {}", count(candidates.len() as u64, "candidate"))
            }
            ProposalEvent::ConfigurationsSkipped { points, reason, .. } => skipped(*points, reason),
        },
        TrialEvent::Attempt(event) => said_of_attempt(event, step_unit, trial),
        TrialEvent::Checkpoint(event) => match event {
            CheckpointEvent::Saved { step, path, .. } => {
                format!("saved a checkpoint at {}: {}", step_unit.at(*step), path.display())
            }
            CheckpointEvent::Dropped { path, .. } => {
                format!("no longer has the checkpoint {}", path.display())
            }
        },
        TrialEvent::Decision(event) => match event {
            DecisionEvent::ResultsKnown => {
                "its results are known to decisions from here on".to_owned()
            }
            DecisionEvent::Decided { step, verdict, .. } => {
                let what = match verdict {
                    Decision::Continue(_) => "continues",
                    Decision::Pause(_) => "is to pause",
                    Decision::Stop(_) => "is to stop",
                };
                format!("{what} at {}{}", step_unit.at(*step), because(verdict.reason()))
            }
            DecisionEvent::LimitsBroken { reason, .. } => {
                format!("violates limits: {reason}")
            }
            DecisionEvent::LimitsJudged { violation: Some(_), reason } => {
                format!("violates the changed limits{}", because(reason.as_ref()))
            }
            DecisionEvent::LimitsJudged { violation: None, .. } => {
                "satisfies the changed limits".to_owned()
            }
        },
        TrialEvent::State(event) => said_of_state(event, step_unit, known, is_best),
        TrialEvent::Record(event) => said_of_record(event, step_unit),
        TrialEvent::Entry(event) => match event {
            EntryEvent::Noted { text, .. } => format!("note: {text}"),
            EntryEvent::Tagged { tag, present } => tagged(tag, *present),
        },
    }
}

fn said_of_attempt(event: &AttemptEvent, step_unit: StepUnit, trial: Option<&Trial>) -> String {
    match event {
        AttemptEvent::Started { attempt, slot, resume, until, rows_at_once, .. } => {
            let rows =
                rows_at_once.map(|rows| format!(", rows at once: {rows}")).unwrap_or_default();
            let until =
                until.map(|until| format!(" up to {}", step_unit.at(until))).unwrap_or_default();
            let step = resume.as_ref().map(|(step, _)| *step);
            let is_new = step.is_none() && attempt.0 == 0;
            let with = trial.filter(|_| is_new).map(|trial| format!(": {}", params(&trial.params)));
            let with = with.unwrap_or_default();
            let started = attempt_started(*attempt, step, step_unit);
            format!("{started} on {}{until}{rows}{with}", slot.devices)
        }
        AttemptEvent::Launched { attempt, pid, .. } => {
            format!("attempt {attempt} is process {pid}")
        }
        AttemptEvent::Reported { step, metrics, .. } => {
            format!("{}: {}", step_unit.at(*step), measured(metrics))
        }
        AttemptEvent::Remarked { text, count, .. } => remarked(text, *count),
        AttemptEvent::Ended { attempt, end, reason, superseded, .. } => {
            let ended = attempt_ended(*attempt, end, reason.as_deref());
            let steps: BTreeSet<u64> = superseded.values().flatten().copied().collect();
            match steps.len() {
                0 => ended,
                steps => format!(
                    "{ended}; what earlier attempts reported at {} no longer counts",
                    count(steps as u64, "step")
                ),
            }
        }
    }
}

fn said_of_state(
    event: &StateEvent,
    step_unit: StepUnit,
    known: Option<(&StudyState, &Trial)>,
    is_best: bool,
) -> String {
    let trial = known.map(|(_, trial)| trial);
    match event {
        StateEvent::Restored => {
            "failed to continue past its end: its reports and metrics are again those from before"
                .to_owned()
        }
        StateEvent::Hidden => "is hidden, and its files are removed".to_owned(),
        StateEvent::Removed { moved: None } => "is removed with everything it recorded".to_owned(),
        StateEvent::Removed { moved: Some(MovedRun { study, run }) } => {
            format!("is moved: it is trial {run} of `{study}`")
        }
        StateEvent::Queued { reason, .. } => format!("queued again: {reason}"),
        StateEvent::Cloned { from, step, params, reason, .. } => {
            format!(
                "continues from trial {from} at {} with {params}: {reason}",
                step_unit.at(*step)
            )
        }
        StateEvent::Paused { reason, .. } => {
            let last = trial.and_then(Trial::last);
            let at =
                last.map(|(step, _)| format!(" at {}", step_unit.at(step))).unwrap_or_default();
            format!("paused{at}: {reason}")
        }
        StateEvent::Held { hold: Some(_), .. } => "is to pause: it saves and exits".to_owned(),
        StateEvent::Held { hold: None, .. } => "no longer has to pause".to_owned(),
        StateEvent::Continued { until, from, .. } => {
            format!("continues past its end, to {} (was {})", step_unit.at(*until), from.as_str())
        }
        StateEvent::Finished { state, value, values: several, reason } => {
            let because = because(reason.as_ref());
            let spent = |word: &str| {
                let spent = |trial: &Trial| duration(micros(trial.busy_micros));
                trial.map(|trial| format!(" {word} {}", spent(trial))).unwrap_or_default()
            };
            match state {
                TrialState::Complete => {
                    let step = known
                        .and_then(|(study_state, trial)| study_state.reported_step(trial, *value));
                    let at =
                        step.map(|step| format!(" at {}", step_unit.at(step))).unwrap_or_default();
                    let new_best = match (is_best, several.is_empty()) {
                        (false, _) => "",
                        (true, true) => ", new best",
                        (true, false) => ", on the front",
                    };
                    let value = match several.is_empty() {
                        true => value.map_or_else(|| "no value".to_owned(), number),
                        false => values(several),
                    };
                    format!("complete with {value}{at}{}{new_best}{because}", spent("in"))
                }
                TrialState::Pruned => {
                    let last = trial
                        .and_then(|trial| Some((trial.last_step()?, trial)))
                        .map(|(step, trial)| {
                            let last = trial.last().map(|(_, value)| number(value));
                            let known = last.filter(|_| trial.vectors.is_empty());
                            let known = known.unwrap_or_else(|| known_values(trial));
                            format!(" at {} with {known}", step_unit.at(step))
                        })
                        .unwrap_or_default();
                    format!("pruned{last}{}{because}", spent("in"))
                }
                state => format!("{}{}{because}", state.as_str(), spent("after")),
            }
        }
    }
}

fn said_of_record(event: &RecordEvent, step_unit: StepUnit) -> String {
    match event {
        RecordEvent::ParamsRecorded { params } => {
            format!("records its parameters: {params}")
        }
        RecordEvent::ParamsDropped { names } => {
            format!("did not ask for {}", names.join(", "))
        }
        RecordEvent::SummaryRecorded { summary } => {
            let values = summary.iter().map(|(name, value)| format!("{name}={value}"));
            format!("records its summary: {}", values.collect::<Vec<_>>().join(" "))
        }
        RecordEvent::ArtifactSaved { artifact, .. } => {
            let at = artifact.step.map(|step| format!(" at {}", step_unit.at(step)));
            let at = at.unwrap_or_default();
            let (kind, size) = (artifact.kind.as_str(), bytes(artifact.bytes));
            format!("keeps the {kind} `{}`{at}, {size}", artifact.name)
        }
        RecordEvent::SpoolRead { offset, .. } => {
            format!("its spool is read up to byte {offset}")
        }
    }
}

/// That an attempt of a trial started, and the step of the checkpoint from which it continues.
pub fn attempt_started(attempt: AttemptNumber, step: Option<u64>, step_unit: StepUnit) -> String {
    match (step, attempt.0) {
        (Some(_), _) => format!("continues from {}", step_unit.resume_point(step)),
        (None, 0) => "started".to_owned(),
        (None, _) => format!("started again (attempt {attempt})"),
    }
}

/// How an attempt ended, and why.
pub fn attempt_ended(attempt: AttemptNumber, end: &AttemptEnd, reason: Option<&str>) -> String {
    match (end, reason) {
        (AttemptEnd::Lost, None) => format!("attempt {attempt} was lost with its runner"),
        (AttemptEnd::Lost, Some(why)) => format!("attempt {attempt} was lost: {why}"),
        (end, _) => {
            let because = because(reason.as_ref());
            format!("attempt {attempt} ended: {}{because}", attempt_end(Some(end)))
        }
    }
}

/// How many trials share a device, and why; without the device where its line says it.
pub fn concurrency(slots: u32, device: Option<&Device>, reason: &str) -> String {
    let on = device.map(|device| format!(" on {device}")).unwrap_or_default();
    format!("{slots} at a time{on}: {reason}")
}

fn tagged(tag: &str, present: bool) -> String {
    format!("is {}tagged `{tag}`", if present { "" } else { "no longer " })
}

fn measured(metrics: &Metrics) -> String {
    let pairs: Vec<String> =
        metrics.iter().map(|(name, value)| format!("{name} {}", number(value))).collect();
    pairs.join(", ")
}

fn because(reason: Option<&impl std::fmt::Display>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}
