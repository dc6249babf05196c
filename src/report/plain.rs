//! The reporter `plain`: one line per important event, for logs and simple terminals.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use super::ahead::{self, Running, look_ahead};
use super::journal::Journal;
use super::progress::Progress;
use super::run_clock::RunClock;
use super::wording::{
    duration, front_in_words, goal, no_best, number, one_line, params, rough_duration, values,
};
use super::{Happening, LeftOut, Reporter};
use crate::study::budget::Budget;
use crate::study::counted::count;
use crate::study::device::Slot;
use crate::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, Event, FinalistsEvent, ProposalEvent, RunnerEvent,
    StateEvent, StudyEvent, TrialEvent,
};
use crate::study::followed_front::FollowedFront;
use crate::study::front;
use crate::study::metric::{Direction, Score};
use crate::study::remark::RemarkKind;
use crate::study::request::RequestAnswer;
use crate::study::spec::StudySpec;
use crate::study::state::{StudyState, shown_params};
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, Trial, TrialNumber, TrialState};
use crate::study::unmeasured::Unmeasured;
use crate::study::usage::Used;

/// The shortest pause that is named at the end.
const SAID_PAUSE: Duration = Duration::from_secs(1);

/// Keeps what the progress line needs: the study and the clock of its run.
#[derive(Default)]
pub(super) struct Plain {
    study: Option<StudySpec>,
    clock: RunClock,
    slots: Vec<Slot>,
    /// The best trial and its value when a trial last ended.
    best: Option<(TrialNumber, f64)>,
    /// Whether a refusal by the machine was reported.
    refused: bool,
    /// The trial that waits because of it, whose requeueing is not reported each time.
    waits: Option<TrialNumber>,
    /// The last progress line, to avoid repeating it when many trials end at once.
    progress: String,
    /// The kinds of remarks reported in this run.
    remarked: BTreeSet<RemarkKind>,
    /// Remarks about unfinished trials, counted.
    odd: BTreeMap<TrialNumber, BTreeMap<(AttemptNumber, RemarkKind), u64>>,
    /// Why the last attempt failed, until it is reported with its consequence.
    failed: Option<(TrialNumber, String)>,
    /// Trials paused by the pruner, reported when it resumes one.
    waiting: BTreeSet<TrialNumber>,
    promoted: BTreeMap<TrialNumber, String>,
    /// Appended to suggested commands to find the store.
    store_option: String,
    /// The front of several objectives so far.
    front: Journal,
    followed_front: FollowedFront,
    /// Why a goal was last said not to be in force.
    unmeasured: Option<Unmeasured>,
}

impl Plain {
    /// With `store_option` appended to suggested commands.
    pub fn of_store(store_option: String) -> Self {
        Plain { store_option, ..Plain::default() }
    }
}

impl Reporter for Plain {
    fn study_started(
        &mut self,
        out: &mut dyn Write,
        at: Timestamp,
        spec: &StudySpec,
        state: &StudyState,
    ) -> io::Result<()> {
        let trials = spec
            .budget
            .trials
            .map_or_else(|| "trials without limit".to_owned(), |trials| count(trials, "trial"));
        writeln!(
            out,
            "study {}: {}, {trials}, sampler {}, pruner {}",
            one_line(&spec.name),
            goal(spec),
            spec.sampler.name,
            spec.pruner.name
        )?;
        if state.counts.total() > 0 {
            writeln!(out, "  continues after {}", states(state))?;
        }
        let (name, store) = (one_line(&spec.name), &self.store_option);
        if state.paused.is_some() {
            writeln!(
                out,
                "  it is paused, so that nothing starts: `hpsearch resume {name}{store}` lets it \
                 continue"
            )?;
        }
        for device in &state.paused_devices {
            writeln!(
                out,
                "  {device} is paused: `hpsearch resume {name} --device {device}{store}` lets it \
                 continue"
            )?;
        }
        self.waiting = state
            .trials
            .iter()
            .filter(|trial| trial.waits_for_its_pruner())
            .map(|trial| trial.number)
            .collect();
        self.best = state.leader();
        for (_, values) in front::points(&state.trials) {
            self.front.joins(state.directions(), &values);
        }
        self.tell_unmeasured(out, &spec.budget, state)?;
        self.study = Some(spec.clone());
        self.clock = RunClock::start(at, state);
        out.flush()
    }

    fn event(&mut self, out: &mut dyn Write, happening: &Happening<'_>) -> io::Result<()> {
        self.clock.note(happening);
        if let (Event::Study(StudyEvent::BudgetExtended { by }), Some(spec)) =
            (happening.event, &mut self.study)
        {
            spec.budget.extend(*by);
        }
        if let Some(slots) = happening.event.slots() {
            self.slots = slots.to_vec();
        }
        match happening.event {
            Event::Trial(
                trial,
                TrialEvent::Attempt(AttemptEvent::Ended { end: AttemptEnd::Refused, .. }),
            ) => {
                self.waits = Some(*trial);
                if !std::mem::replace(&mut self.refused, true) {
                    let refused = Journal::line(happening, false);
                    writeln!(out, "{refused}; the trial waits, and is tried again")?;
                }
            }
            Event::Trial(
                _,
                TrialEvent::Attempt(AttemptEvent::Ended { .. })
                | TrialEvent::Checkpoint(CheckpointEvent::Saved { .. }),
            ) => self.refused = false,
            Event::Trial(trial, TrialEvent::State(StateEvent::Queued { .. }))
                if self.waits.take() == Some(*trial) =>
            {
                return out.flush();
            }
            _ => {}
        }
        if let Some(failed) = self.failure_told_alone(happening) {
            writeln!(out, "{failed}")?;
        }
        let before = self.best;
        let is_end = happening.event.finished_trial().is_some();
        if is_end {
            self.best = happening.state.leader();
        }
        let (now, direction) = (self.best, happening.state.direction());
        let is_best = match happening.state.has_several_objectives() {
            true => self.front.take(happening),
            false => happening
                .event
                .trial()
                .is_some_and(|number| is_new_best(number, before, now, direction)),
        };
        if let Some(more) = self.more(happening.event)
            && let Some(line) = line(happening, is_best)
        {
            writeln!(out, "{line}{}", one_line(&more))?;
        }
        if let Some(spec) = self.study.as_ref().filter(|_| is_end) {
            let elapsed = self.clock.elapsed(happening.at);
            let front = self.front.front_size();
            let progress = progress(spec, elapsed, &self.slots, front, happening);
            if progress != self.progress {
                writeln!(out, "  {progress}")?;
                self.progress = progress;
            }
            let budget = spec.budget.clone();
            self.tell_unmeasured(out, &budget, happening.state)?;
        }
        out.flush()
    }

    fn left_out(&mut self, out: &mut dyn Write, left_out: &LeftOut) -> io::Result<()> {
        writeln!(
            out,
            "... {} dropped, since nothing read them in time: `hpsearch events` has all",
            count(left_out.lines, "line")
        )?;
        out.flush()
    }

    fn store_failed(&mut self, out: &mut dyn Write, why: &str, trials: usize) -> io::Result<()> {
        let trials = count(trials as u64, "running trial");
        writeln!(out, "{}; {trials} may save and exit", one_line(why))?;
        out.flush()
    }

    fn study_ended(
        &mut self,
        out: &mut dyn Write,
        at: Timestamp,
        reason: &str,
        state: &StudyState,
    ) -> io::Result<()> {
        let name = self
            .study
            .as_ref()
            .map_or_else(String::new, |spec| format!(" {}", one_line(&spec.name)));
        let idle = self.clock.idle(at);
        let paused = match idle >= SAID_PAUSE {
            true => format!(" and {} paused", duration(idle)),
            false => String::new(),
        };
        let ran = duration(self.clock.ran(at));
        writeln!(out, "study{name} ended after {ran}{paused}: {}", one_line(reason))?;
        writeln!(out, "  {}", states(state))?;
        let with = |trial: &Trial| {
            params(self.study.as_ref().map_or(&trial.params, |spec| shown_params(spec, trial)))
        };
        if state.has_several_objectives() && state.counts.complete > 0 {
            let front = state.front();
            if let Some(knee) = front.knee.and_then(|knee| state.trial(knee)) {
                writeln!(
                    out,
                    "  best: {}; its compromise: trial {} with {}: {}",
                    front_in_words(&front),
                    knee.number,
                    values(&knee.values),
                    with(knee)
                )?;
                return out.flush();
            }
        }
        match state.leader().and_then(|(best, value)| Some((state.trial(best)?, value))) {
            Some((best, value)) => writeln!(
                out,
                "  best: trial {} with {}: {}",
                best.number,
                said(Some(value)),
                with(best)
            )?,
            None if state.counts.complete == 0 => writeln!(out, "  no trial is complete")?,
            None => writeln!(out, "  {}", no_best(state.counts, self.study.iter()))?,
        }
        out.flush()
    }
}

impl Plain {
    /// Says why a goal is not in force, unless it was said before. What keeps a front from having a
    /// hypervolume rarely changes, and takes long to see.
    fn tell_unmeasured(
        &mut self,
        out: &mut dyn Write,
        budget: &Budget,
        state: &StudyState,
    ) -> io::Result<()> {
        let is_without_front = |why: &Unmeasured| matches!(why, Unmeasured::NoFront { .. });
        if self.unmeasured.as_ref().is_some_and(|told| !is_without_front(told)) {
            return Ok(());
        }
        if !state.has_several_objectives() {
            return Ok(());
        }
        let (front, points) = self.followed_front.front(state);
        let why = Unmeasured::of(budget, state.objectives(), state.counts, front, points);
        let Some(why) = why else { return Ok(()) };
        if self.unmeasured.is_none() || !is_without_front(&why) {
            writeln!(out, "  {}", one_line(&why.to_string()))?;
            self.unmeasured = Some(why);
        }
        Ok(())
    }

    /// The end of an event's line; `None` if it adds nothing.
    fn more(&mut self, event: &Event) -> Option<String> {
        let Event::Trial(trial, event) = event else { return Some(String::new()) };
        match event {
            TrialEvent::Attempt(AttemptEvent::Remarked { attempt, kind, count, .. }) => {
                if kind.is_loss() {
                    self.odd.entry(*trial).or_default().insert((*attempt, *kind), *count);
                }
                return self.remarked.insert(*kind).then(String::new);
            }
            TrialEvent::State(StateEvent::Paused { hold: None, .. }) => {
                self.waiting.insert(*trial);
            }
            // Reported when it continues.
            TrialEvent::State(StateEvent::Queued { reason, .. }) if self.waiting.remove(trial) => {
                self.promoted.insert(*trial, reason.clone());
                return None;
            }
            TrialEvent::State(StateEvent::Cloned { params, reason, .. }) => {
                self.waiting.remove(trial);
                self.promoted.insert(*trial, format!("{reason}, with {params}"));
                return None;
            }
            TrialEvent::Attempt(AttemptEvent::Started { .. }) => {
                return Some(
                    self.promoted.remove(trial).map(|why| format!(": {why}")).unwrap_or_default(),
                );
            }
            TrialEvent::State(StateEvent::Finished { .. }) => {
                self.waiting.remove(trial);
                let odd: u64 = self.odd.remove(trial).map_or(0, |odd| odd.values().sum());
                let study = self.study.as_ref().map_or("STUDY", |spec| spec.name.as_str());
                let told = || {
                    format!(
                        "; {} not taken as printed: `hpsearch show {study} {trial}`",
                        count(odd, "line")
                    )
                };
                return Some(if odd > 0 { told() } else { String::new() });
            }
            _ => {}
        }
        Some(String::new())
    }

    /// Why an attempt failed, if the consequence for its trial does not say it.
    fn failure_told_alone(&mut self, happening: &Happening<'_>) -> Option<String> {
        if let Some((trial, AttemptEnd::Failed(_))) = happening.event.attempt_end() {
            self.failed = Some((trial, Journal::line(happening, false)));
        }
        let (trial, event) = happening.event.state_event()?;
        match event {
            StateEvent::Paused { .. } => {
                self.failed.take().filter(|(failed, _)| *failed == trial).map(|(_, line)| line)
            }
            StateEvent::Queued { .. } | StateEvent::Finished { .. } => {
                self.failed = None;
                None
            }
            StateEvent::Cloned { .. }
            | StateEvent::Held { .. }
            | StateEvent::Continued { .. }
            | StateEvent::Hidden
            | StateEvent::Restored
            | StateEvent::Removed { .. } => None,
        }
    }
}

/// Whether a trial has become the best, or improved its best value.
pub(super) fn is_new_best(
    number: TrialNumber,
    before: Option<(TrialNumber, f64)>,
    now: Option<(TrialNumber, f64)>,
    direction: Direction,
) -> bool {
    let score = |value| Score::new(direction, value);
    now.is_some_and(|(best, value)| {
        best == number
            && before.is_none_or(|(best, before)| best != number || score(value) < score(before))
    })
}

/// The line for an event, if it is important; `is_best` says whether a trial that is complete now
/// is the new best.
fn line(happening: &Happening<'_>, is_best: bool) -> Option<String> {
    (!is_silent(happening.event)).then(|| Journal::line(happening, is_best))
}

/// Whether an event is left to `hpsearch events`: frequent ones, and those whose outcome another
/// one reports.
fn is_silent(event: &Event) -> bool {
    match event {
        Event::Runner(event) => !matches!(event, RunnerEvent::Started { .. }),
        Event::Study(event) => match event {
            StudyEvent::RequestServed { answer, .. } => matches!(answer, RequestAnswer::Done(_)),
            StudyEvent::Finished { .. } | StudyEvent::Noted { .. } | StudyEvent::Tagged { .. } => {
                true
            }
            StudyEvent::Reopened { .. }
            | StudyEvent::Paused { .. }
            | StudyEvent::Resumed { .. }
            | StudyEvent::BudgetExtended { .. }
            | StudyEvent::DiskExceeded { .. } => false,
        },
        Event::Trial(_, event) => match event {
            TrialEvent::Proposal(event) => match event {
                ProposalEvent::TrialCreated { origin, .. } => *origin != Origin::Asked,
                ProposalEvent::CandidatesOffered { .. }
                | ProposalEvent::ConfigurationsSkipped { .. } => false,
            },
            TrialEvent::Attempt(event) => match event {
                AttemptEvent::Ended { end, .. } => *end != AttemptEnd::Lost,
                AttemptEvent::Launched { .. } | AttemptEvent::Reported { .. } => true,
                AttemptEvent::Started { .. } | AttemptEvent::Remarked { .. } => false,
            },
            TrialEvent::State(event) => match event {
                StateEvent::Hidden | StateEvent::Removed { .. } => true,
                StateEvent::Queued { .. }
                | StateEvent::Cloned { .. }
                | StateEvent::Paused { .. }
                | StateEvent::Held { .. }
                | StateEvent::Continued { .. }
                | StateEvent::Restored
                | StateEvent::Finished { .. } => false,
            },
            TrialEvent::Checkpoint(_)
            | TrialEvent::Decision(_)
            | TrialEvent::Record(_)
            | TrialEvent::Entry(_) => true,
        },
        Event::Finalists(event) => matches!(event, FinalistsEvent::Tested { .. }),
        Event::Device(_) => false,
    }
}

/// `12/24 trials, best 0.842 (trial 7), 31 s, about 20 s left`.
fn progress(
    spec: &StudySpec,
    elapsed: Duration,
    slots: &[Slot],
    front: usize,
    happening: &Happening<'_>,
) -> String {
    let state = happening.state;
    let used = Used::of(state, slots);
    // Races come on top of the budget.
    let counts = state.counts.without(state.race_counts);
    let progress = Progress::new(spec, counts, elapsed, used.device_time(happening.at));
    let best = match state.leader() {
        Some((best, value)) => format!("best {} (trial {best})", said(Some(value))),
        None if front > 0 => format!("{front} on the front"),
        None => "no value yet".to_owned(),
    };
    let left = ahead::left(&look_ahead(spec, counts, elapsed, used, happening.at, Running::Yes))
        .map(|left| format!(", {left}"))
        .unwrap_or_default();
    format!("{}, {best}, {}{left}", progress.trials(), rough_duration(elapsed))
}

fn states(study_state: &StudyState) -> String {
    let mut counts = study_state.counts;
    // Finished states come first.
    let order = [
        TrialState::Complete,
        TrialState::Pruned,
        TrialState::Failed,
        TrialState::Paused,
        TrialState::Running,
        TrialState::Queued,
    ];
    let parts: Vec<String> = order
        .into_iter()
        .filter_map(|state| {
            Some(*counts.of(state))
                .filter(|trials| *trials > 0)
                .map(|trials| format!("{trials} {}", state.as_str()))
        })
        .collect();
    if parts.is_empty() { "no trials".to_owned() } else { parts.join(", ") }
}

fn said(value: Option<f64>) -> String {
    value.map_or_else(|| "no value".to_owned(), number)
}

#[cfg(test)]
mod tests;
