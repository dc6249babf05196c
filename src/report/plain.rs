//! The reporter `plain`: one line per important event, for logs and simple terminals.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use super::ahead::{self, Running, look_ahead};
use super::journal::Journal;
use super::progress::Progress;
use super::wording::{
    count, duration, front_in_words, goal, micros, no_best, number, one_line, params,
    rough_duration, values,
};
use super::{Happening, LeftOut, Reporter};
use crate::study::device::Slot;
use crate::study::event::{
    AttemptEnd, DeviceEvent, Event, FinalistsEvent, RunnerEvent, StudyEvent, TrialEvent,
};
use crate::study::front;
use crate::study::metric::{Direction, Score};
use crate::study::remark::RemarkKind;
use crate::study::request::Answer;
use crate::study::spec::StudySpec;
use crate::study::state::StudyState;
use crate::study::time::Timestamp;
use crate::study::trial::{AttemptNumber, Origin, TrialNumber, TrialState};
use crate::study::usage::Used;

/// Keeps what the progress line needs: the study, the start of this run, and the duration of
/// earlier ones.
#[derive(Default)]
pub(super) struct Plain {
    study: Option<(StudySpec, Timestamp)>,
    ran_before: Duration,
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
        view: &StudyState,
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
        if view.counts.total() > 0 {
            writeln!(out, "  continues after {}", states(view))?;
        }
        let (name, store) = (one_line(&spec.name), &self.store_option);
        if view.paused.is_some() {
            writeln!(
                out,
                "  it is paused, so that nothing starts: `hpsearch resume {name}{store}` lets it \
                 continue"
            )?;
        }
        for device in &view.paused_devices {
            writeln!(
                out,
                "  {device} is paused: `hpsearch resume {name} --device {device}{store}` lets it \
                 continue"
            )?;
        }
        self.waiting = view
            .trials
            .iter()
            .filter(|trial| trial.waits_for_its_pruner())
            .map(|trial| trial.number)
            .collect();
        self.best = view.leader();
        for (_, values) in front::points(&view.trials) {
            self.front.joins(view.directions(), &values);
        }
        self.study = Some((spec.clone(), at));
        self.ran_before = micros(view.ran_micros);
        out.flush()
    }

    fn event(&mut self, out: &mut dyn Write, happening: &Happening<'_>) -> io::Result<()> {
        if let (Event::Study(StudyEvent::BudgetExtended { by }), Some((spec, _))) =
            (happening.event, &mut self.study)
        {
            spec.budget.extend(*by);
        }
        if let Event::Runner(RunnerEvent::Started { slots, .. })
        | Event::Device(DeviceEvent::SlotsChanged { slots }) = happening.event
        {
            self.slots.clone_from(slots);
        }
        match happening.event {
            Event::Trial(
                trial,
                TrialEvent::AttemptEnded { end: AttemptEnd::Refused, reason, .. },
            ) => {
                self.waits = Some(*trial);
                if !std::mem::replace(&mut self.refused, true) {
                    let why =
                        reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
                    writeln!(
                        out,
                        "{}",
                        one_line(&format!(
                            "the machine refuses what trial {trial} needs{why}; it waits, and is \
                             tried again"
                        ))
                    )?;
                }
            }
            Event::Trial(
                _,
                TrialEvent::AttemptEnded { .. } | TrialEvent::CheckpointSaved { .. },
            ) => self.refused = false,
            Event::Trial(trial, TrialEvent::Queued { .. }) if self.waits.take() == Some(*trial) => {
                return out.flush();
            }
            _ => {}
        }
        if let Some(failed) = self.failure_told_alone(happening.event) {
            writeln!(out, "{failed}")?;
        }
        let before = self.best;
        if let Event::Trial(_, TrialEvent::Finished { .. }) = happening.event {
            self.best = happening.view.leader();
        }
        let (now, direction) = (self.best, happening.view.direction());
        let is_best = match happening.view.has_several_objectives() {
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
        if let (Event::Trial(_, TrialEvent::Finished { .. }), Some((spec, started))) =
            (happening.event, &self.study)
        {
            let elapsed = self.ran_before + happening.at.since(*started);
            let front = self.front.front_size();
            let progress = progress(spec, elapsed, &self.slots, front, happening);
            if progress != self.progress {
                writeln!(out, "  {progress}")?;
                self.progress = progress;
            }
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
        writeln!(out, "{}; {trials} may save and leave", one_line(why))?;
        out.flush()
    }

    fn study_ended(
        &mut self,
        out: &mut dyn Write,
        at: Timestamp,
        reason: &str,
        view: &StudyState,
    ) -> io::Result<()> {
        let elapsed =
            self.study.as_ref().map_or(micros(view.ran_micros), |(_, started)| at.since(*started));
        let name = self
            .study
            .as_ref()
            .map_or_else(String::new, |(spec, _)| format!(" {}", one_line(&spec.name)));
        writeln!(out, "study{name} ended after {}: {}", duration(elapsed), one_line(reason))?;
        writeln!(out, "  {}", states(view))?;
        if view.has_several_objectives() && view.counts.complete > 0 {
            let front = view.front();
            if let Some(knee) = front.knee.and_then(|knee| view.trial(knee)) {
                writeln!(
                    out,
                    "  best: {}; its compromise: trial {} with {}: {}",
                    front_in_words(&front),
                    knee.number,
                    values(&knee.values),
                    params(&knee.params)
                )?;
                return out.flush();
            }
        }
        match view.leader().and_then(|(best, value)| Some((view.trial(best)?, value))) {
            Some((best, value)) => writeln!(
                out,
                "  best: trial {} with {}: {}",
                best.number,
                said(Some(value)),
                params(&best.params)
            )?,
            None if view.counts.complete == 0 => writeln!(out, "  no trial is complete")?,
            None => writeln!(out, "  {}", no_best(view.counts))?,
        }
        out.flush()
    }
}

impl Plain {
    /// The end of an event's line; `None` if it adds nothing.
    fn more(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Trial(trial, TrialEvent::Remarked { attempt, kind, count, .. }) => {
                if kind.is_loss() {
                    self.odd.entry(*trial).or_default().insert((*attempt, *kind), *count);
                }
                return self.remarked.insert(*kind).then(String::new);
            }
            Event::Trial(trial, TrialEvent::Paused { hold: None, .. }) => {
                self.waiting.insert(*trial);
            }
            // Reported when it continues.
            Event::Trial(trial, TrialEvent::Queued { reason, .. })
                if self.waiting.remove(trial) =>
            {
                self.promoted.insert(*trial, reason.clone());
                return None;
            }
            Event::Trial(trial, TrialEvent::Cloned { params, reason, .. }) => {
                self.waiting.remove(trial);
                self.promoted.insert(*trial, format!("{reason}, with {params}"));
                return None;
            }
            Event::Trial(trial, TrialEvent::AttemptStarted { .. }) => {
                return Some(
                    self.promoted.remove(trial).map(|why| format!(": {why}")).unwrap_or_default(),
                );
            }
            Event::Trial(trial, TrialEvent::Finished { .. }) => {
                self.waiting.remove(trial);
                let odd: u64 = self.odd.remove(trial).map_or(0, |odd| odd.values().sum());
                let study = self.study.as_ref().map_or("STUDY", |(spec, _)| spec.name.as_str());
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
    fn failure_told_alone(&mut self, event: &Event) -> Option<String> {
        if let Event::Trial(
            trial,
            TrialEvent::AttemptEnded { attempt, end: AttemptEnd::Failed(_), reason, .. },
        ) = event
        {
            let why = reason.as_deref().unwrap_or("no reason is known");
            self.failed =
                Some((*trial, one_line(&format!("trial {trial} attempt {attempt} failed: {why}"))));
            return None;
        }
        match event {
            Event::Trial(trial, TrialEvent::Paused { .. }) => {
                self.failed.take().filter(|(failed, _)| failed == trial).map(|(_, line)| line)
            }
            Event::Trial(_, TrialEvent::Queued { .. } | TrialEvent::Finished { .. }) => {
                self.failed = None;
                None
            }
            _ => None,
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
            StudyEvent::RequestServed { answer, .. } => matches!(answer, Answer::Done(_)),
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
            TrialEvent::Created { origin, .. } => *origin != Origin::Asked,
            TrialEvent::AttemptEnded { end, .. } => *end != AttemptEnd::Lost,
            TrialEvent::AttemptLaunched { .. }
            | TrialEvent::Reported { .. }
            | TrialEvent::Decided { .. }
            | TrialEvent::CheckpointSaved { .. }
            | TrialEvent::CheckpointDropped { .. }
            | TrialEvent::LimitsBroken { .. }
            | TrialEvent::ResultsKnown
            | TrialEvent::ParamsRecorded { .. }
            | TrialEvent::ParamsDropped { .. }
            | TrialEvent::SummaryRecorded { .. }
            | TrialEvent::ArtifactSaved { .. }
            | TrialEvent::SpoolRead { .. }
            | TrialEvent::Hidden
            | TrialEvent::Removed { .. }
            | TrialEvent::Noted { .. }
            | TrialEvent::Tagged { .. } => true,
            TrialEvent::AttemptStarted { .. }
            | TrialEvent::Remarked { .. }
            | TrialEvent::Queued { .. }
            | TrialEvent::Cloned { .. }
            | TrialEvent::Paused { .. }
            | TrialEvent::Held { .. }
            | TrialEvent::Continued { .. }
            | TrialEvent::CandidatesOffered { .. }
            | TrialEvent::ConfigurationsSkipped { .. }
            | TrialEvent::Finished { .. } => false,
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
    let view = happening.view;
    let used = Used::of(view, slots);
    // Races come on top of the budget.
    let counts = view.counts.without(view.race_counts);
    let progress = Progress::new(spec, counts, elapsed, used.device_time(happening.at));
    let best = match view.leader() {
        Some((best, value)) => format!("best {} (trial {best})", said(Some(value))),
        None if front > 0 => format!("{front} on the front"),
        None => "no value yet".to_owned(),
    };
    let left = ahead::left(&look_ahead(spec, counts, elapsed, used, happening.at, Running::Yes))
        .map(|left| format!(", {left}"))
        .unwrap_or_default();
    format!("{}, {best}, {}{left}", progress.trials(), rough_duration(elapsed))
}

fn states(view: &StudyState) -> String {
    let mut counts = view.counts;
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
mod tests {
    use super::*;
    use crate::study::decision::{Decision, Reason};
    use crate::study::device::{Device, Slot};
    use crate::study::event::Seq;
    use crate::study::params::Params;
    use crate::study::program::Program;
    use crate::study::space::Space;
    use crate::study::trial::Origin;

    fn told(spec: &StudySpec, events: Vec<Event>) -> String {
        let mut reporter = Plain::default();
        let mut view = StudyState::new(spec);
        let mut out = Vec::new();
        reporter.study_started(&mut out, Timestamp(0), spec, &view).unwrap();
        let second = |index: usize| Timestamp(i64::try_from(index).unwrap() * 1_000_000);
        let end = second(events.len());
        for (index, event) in events.into_iter().enumerate() {
            view.apply(second(index), &event);
            reporter
                .event(
                    &mut out,
                    &Happening { seq: Seq(1), at: second(index), event: &event, view: &view },
                )
                .unwrap();
        }
        reporter.study_ended(&mut out, end, "3 trials are done", &view).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn trial(number: u64, rate: f64, reports: &[f64], end: Event) -> Vec<Event> {
        let trial = TrialNumber(number);
        let attempt = AttemptNumber(0);
        let mut params = Params::new();
        params.insert("rate", rate);
        let mut events = vec![
            Event::Trial(
                trial,
                TrialEvent::Created { params, origin: Origin::Sampled("random".into()) },
            ),
            Event::Trial(
                trial,
                TrialEvent::AttemptStarted {
                    attempt,
                    slot: Slot::on(0, Device::Cpu),
                    resume: None,
                    until: None,
                    rows_at_once: None,
                    device_micros: 0,
                },
            ),
        ];
        let metrics = |value: f64| [("loss".to_owned(), value)].into_iter().collect();
        events.extend((1..).zip(reports).map(|(step, value)| {
            Event::Trial(trial, TrialEvent::Reported { attempt, step, metrics: metrics(*value) })
        }));
        events.push(Event::Trial(
            trial,
            TrialEvent::AttemptEnded {
                attempt,
                end: AttemptEnd::Completed,
                reason: None,
                device_micros: None,
                memory: None,
            },
        ));
        events.push(end);
        events
    }

    fn finished(number: u64, state: TrialState, value: Option<f64>, reason: Option<&str>) -> Event {
        Event::Trial(
            TrialNumber(number),
            TrialEvent::finished(state, value, reason.map(str::to_owned)),
        )
    }

    fn digits() -> StudySpec {
        let space = Space::default();
        StudySpec::new("digits", "loss", Direction::Minimize, space, Program::Inline)
    }

    #[test]
    fn a_study_is_told_line_by_line() {
        let mut spec = digits();
        spec.budget.trials = Some(4);
        let mut events =
            trial(0, 0.01, &[0.5, 0.25], finished(0, TrialState::Complete, Some(0.25), None));
        let reason = "rank 2 of 2 at step 1; 1 continues";
        events.extend(trial(1, 0.1, &[0.75], finished(1, TrialState::Pruned, None, Some(reason))));
        events.extend(trial(
            2,
            1e-4,
            &[f64::NAN],
            finished(2, TrialState::Failed, None, Some("exit code 3\nTraceback")),
        ));
        insta::assert_snapshot!(told(&spec, events));
    }

    #[test]
    fn pauses_are_told_and_reports_and_rungs_that_are_passed_are_not() {
        let view = StudyState::new(&digits());
        let said = |event: &Event| {
            line(&Happening { seq: Seq(1), at: Timestamp(0), event, view: &view }, false)
        };
        let trial = TrialNumber(3);
        let passed = Event::Trial(
            trial,
            TrialEvent::Decided {
                step: 9,
                verdict: Decision::continues(Reason::Recorded("rank 1 of 3; 1 continues".into())),
            },
        );
        assert_eq!(said(&passed), None, "most reports pass: the journal has them");
        let paused = Event::Trial(
            trial,
            TrialEvent::Paused { reason: "waits at rung 9".into(), hold: None },
        );
        assert_eq!(said(&paused).as_deref(), Some("trial 3 paused: waits at rung 9"));
        let report = Event::Trial(
            trial,
            TrialEvent::Reported {
                attempt: AttemptNumber(0),
                step: 1,
                metrics: Default::default(),
            },
        );
        assert_eq!(said(&report), None);
    }

    fn lines(events: Vec<Event>) -> Vec<String> {
        told(&digits(), events).lines().map(str::to_owned).collect()
    }

    #[test]
    fn of_each_kind_of_remark_the_first_is_told_and_of_each_trial_their_number() {
        let mut events = Vec::new();
        for number in [0, 1] {
            let mut own =
                trial(number, 0.1, &[0.5], finished(number, TrialState::Complete, Some(0.5), None));
            let remark = |kind, count| {
                let text = format!("remark {kind:?}");
                Event::Trial(
                    TrialNumber(number),
                    TrialEvent::Remarked { attempt: AttemptNumber(0), kind, text, count },
                )
            };
            let end = own.pop().unwrap();
            own.extend([
                remark(RemarkKind::Step, 1),
                remark(RemarkKind::Value, 1),
                remark(RemarkKind::WentBack, 1),
                remark(RemarkKind::Value, 7),
                end,
            ]);
            events.extend(own);
        }
        let lines = lines(events);
        for kind in ["Step", "Value", "WentBack"] {
            assert_eq!(
                lines.iter().filter(|line| **line == format!("trial 0: remark {kind}")).count(),
                1,
                "{lines:#?}"
            );
        }
        assert!(!lines.iter().any(|line| line.starts_with("trial 1: ")), "{lines:#?}");
        for number in [0, 1] {
            let end = format!("; 8 lines not taken as printed: `hpsearch show digits {number}`");
            assert!(
                lines.iter().any(|line| line.starts_with(&format!("trial {number} complete"))
                    && line.ends_with(&end)),
                "{lines:#?}"
            );
        }
    }

    #[test]
    fn a_failure_is_told_once_with_what_becomes_of_its_trial() {
        let number = TrialNumber(0);
        let why = "exit code 3";
        let end = |end| {
            Event::Trial(
                number,
                TrialEvent::AttemptEnded {
                    attempt: AttemptNumber(0),
                    end,
                    reason: Some(why.to_owned()),
                    device_micros: None,
                    memory: None,
                },
            )
        };
        let failed = || end(AttemptEnd::Failed(crate::study::spec::FailureCause::Program));
        let times = |last: Event| {
            let mut events = trial(0, 0.1, &[], last);
            events.insert(events.len() - 1, failed());
            let lines = lines(events);
            assert_eq!(lines.iter().filter(|line| line.contains(why)).count(), 1, "{lines:#?}");
        };
        times(finished(0, TrialState::Failed, None, Some(why)));
        times(Event::Trial(
            number,
            TrialEvent::Queued { until: None, reason: format!("{why} (retry 1 of 2)") },
        ));
        times(Event::Trial(
            number,
            TrialEvent::Paused {
                reason: "paused by you".to_owned(),
                hold: Some(crate::study::trial::Hold::Trial),
            },
        ));
    }

    #[test]
    fn the_best_that_goes_on_is_a_new_best_only_with_a_better_value() {
        let goes_on = |values: &[f64], value| {
            let first = finished(0, TrialState::Complete, Some(0.5), None);
            let mut events = trial(0, 0.1, &[0.5], first);
            events.push(Event::Trial(
                TrialNumber(0),
                TrialEvent::Continued { until: 2, from: TrialState::Complete },
            ));
            let last = finished(0, TrialState::Complete, Some(value), None);
            events.extend(trial(0, 0.1, values, last).into_iter().skip(1));
            lines(events).iter().filter(|line| line.contains(", new best")).count()
        };
        assert_eq!((goes_on(&[], 0.5), goes_on(&[0.5, 0.25], 0.25)), (1, 2));
    }

    #[test]
    fn a_promotion_is_one_line() {
        let number = TrialNumber(0);
        let slot = Slot::on(0, Device::Cpu);
        let mut events = trial(
            0,
            0.1,
            &[0.5],
            Event::Trial(
                number,
                TrialEvent::Paused { reason: "rung 1 reached".to_owned(), hold: None },
            ),
        );
        events.push(Event::Trial(
            number,
            TrialEvent::Queued { until: Some(3), reason: "rank 1 of 3".to_owned() },
        ));
        let resume = Some((1, "/checkpoint".into()));
        events.push(Event::Trial(
            number,
            TrialEvent::AttemptStarted {
                attempt: AttemptNumber(1),
                slot,
                resume,
                until: Some(3),
                rows_at_once: None,
                device_micros: 0,
            },
        ));
        let lines = lines(events);
        assert!(
            lines.contains(
                &"trial 0 continues from epoch 1 on cpu up to epoch 3: rank 1 of 3".to_owned()
            ),
            "{lines:#?}"
        );
        assert_eq!(
            lines.iter().filter(|line| line.contains("rank 1 of 3")).count(),
            1,
            "{lines:#?}"
        );
    }
}
