//! Tests of the lines of `run`.

use super::*;
use crate::study::decision::{Decision, Reason};
use crate::study::device::{Device, Slot};
use crate::study::event::{DecisionEvent, Seq};
use crate::study::params::Params;
use crate::study::program::Program;
use crate::study::space::Space;
use crate::study::trial::Origin;

fn printed(spec: &StudySpec, events: Vec<Event>) -> String {
    let mut reporter = Plain::default();
    let mut state = StudyState::new(spec);
    let mut out = Vec::new();
    reporter.study_started(&mut out, Timestamp(0), spec, &state).unwrap();
    let second = |index: usize| Timestamp(i64::try_from(index).unwrap() * 1_000_000);
    let end = second(events.len());
    for (index, event) in events.into_iter().enumerate() {
        state.apply(second(index), &event);
        reporter
            .event(
                &mut out,
                &Happening { seq: Seq(1), at: second(index), event: &event, state: &state },
            )
            .unwrap();
    }
    reporter.study_ended(&mut out, end, "3 trials are done", &state).unwrap();
    String::from_utf8(out).unwrap()
}

fn trial(number: u64, rate: f64, reports: &[f64], end: Event) -> Vec<Event> {
    let trial = TrialNumber(number);
    let attempt = AttemptNumber(0);
    let mut params = Params::new();
    params.insert("rate", rate);
    let mut events = vec![
        Event::Trial(trial, TrialEvent::created(params, Origin::Sampled("random".into()))),
        Event::of(
            trial,
            AttemptEvent::Started {
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
        Event::of(trial, AttemptEvent::reported(attempt, step, metrics(*value)))
    }));
    events.push(Event::of(
        trial,
        AttemptEvent::Ended {
            attempt,
            end: AttemptEnd::Completed,
            reason: None,
            device_micros: None,
            memory: None,
            superseded: Default::default(),
        },
    ));
    events.push(end);
    events
}

fn finished(number: u64, state: TrialState, value: Option<f64>, reason: Option<&str>) -> Event {
    Event::Trial(TrialNumber(number), TrialEvent::finished(state, value, reason.map(str::to_owned)))
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
    insta::assert_snapshot!(printed(&spec, events));
}

#[test]
fn pauses_are_told_and_reports_and_rungs_that_are_passed_are_not() {
    let state = StudyState::new(&digits());
    let said = |event: &Event| {
        line(&Happening { seq: Seq(1), at: Timestamp(0), event, state: &state }, false)
    };
    let trial = TrialNumber(3);
    let passed = Event::of(
        trial,
        DecisionEvent::Decided {
            step: 9,
            verdict: Decision::continues(Reason::Recorded("rank 1 of 3; 1 continues".into())),
        },
    );
    assert_eq!(said(&passed), None, "most reports pass: the journal has them");
    let paused =
        Event::of(trial, StateEvent::Paused { reason: "waits at rung 9".into(), hold: None });
    assert_eq!(said(&paused).as_deref(), Some("trial 3 paused: waits at rung 9"));
    let report = Event::of(trial, AttemptEvent::reported(AttemptNumber(0), 1, Default::default()));
    assert_eq!(said(&report), None);
}

fn lines(events: Vec<Event>) -> Vec<String> {
    printed(&digits(), events).lines().map(str::to_owned).collect()
}

#[test]
fn of_each_kind_of_remark_the_first_is_told_and_of_each_trial_their_number() {
    let mut events = Vec::new();
    for number in [0, 1] {
        let mut own =
            trial(number, 0.1, &[0.5], finished(number, TrialState::Complete, Some(0.5), None));
        let remark = |kind, count| {
            let text = format!("remark {kind:?}");
            Event::of(
                TrialNumber(number),
                AttemptEvent::Remarked { attempt: AttemptNumber(0), kind, text, count },
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
        Event::of(
            number,
            AttemptEvent::Ended {
                attempt: AttemptNumber(0),
                end,
                reason: Some(why.to_owned()),
                device_micros: None,
                memory: None,
                superseded: Default::default(),
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
    times(Event::of(
        number,
        StateEvent::Queued { until: None, reason: format!("{why} (retry 1 of 2)") },
    ));
    times(Event::of(
        number,
        StateEvent::Paused {
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
        events.push(Event::of(
            TrialNumber(0),
            StateEvent::Continued { until: 2, from: TrialState::Complete },
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
        Event::of(number, StateEvent::Paused { reason: "rung 1 reached".to_owned(), hold: None }),
    );
    events.push(Event::of(
        number,
        StateEvent::Queued { until: Some(3), reason: "rank 1 of 3".to_owned() },
    ));
    let resume = Some((1, "/checkpoint".into()));
    events.push(Event::of(
        number,
        AttemptEvent::Started {
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
    assert_eq!(lines.iter().filter(|line| line.contains("rank 1 of 3")).count(), 1, "{lines:#?}");
}
