//! Faults of every cause at random, among requests and under a clock that jumps by hours, against
//! scripted workers.

use std::collections::BTreeMap;
use std::time::Duration;

use hpsearch::engine::simulator::{Fault, Simulation, SimulationResult, Turn};
use hpsearch::engine::{Engine, Input, RunOutcome};
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, DecisionEvent, Event, ProposalEvent, RunnerEvent,
    StateEvent, TrialEvent,
};
use hpsearch::study::request::Request;
use hpsearch::study::seed::SeedTree;
use hpsearch::study::spec::FailureCause;
use hpsearch::study::state::StudyState;
use hpsearch::study::trial::{TrialNumber, TrialState};
use rand::RngExt as _;

use crate::harness::{asha, cases, decisions, loss, policies, spec};

const HOUR: i64 = 3_600_000_000;

const CAUSES: [FailureCause; 4] =
    [FailureCause::Oom, FailureCause::DeviceLost, FailureCause::WorkerLost, FailureCause::Timeout];

/// A number drawn from names: the same whenever it is asked for.
fn drawn(seed: u64, name: &str, below: u64) -> u64 {
    SeedTree::new(seed).stream(name).random_range(0..below)
}

/// A fault of any kind, at few places.
fn fault(seed: u64, place: &str) -> Option<Fault> {
    let faults = [
        Fault::Crash,
        Fault::Fail,
        Fault::OutOfMemory,
        Fault::LoseDevice,
        Fault::NotANumber,
        Fault::Slow,
    ];
    usize::try_from(drawn(seed, place, 70)).ok().and_then(|index| faults.get(index).copied())
}

/// A clock that is set now and then, by up to ten hours in either direction, while a study runs and
/// while it does not.
fn jumping(seed: u64) -> impl Fn(usize) -> i64 + Send + Sync + 'static {
    move |turns| {
        let era = turns / 7;
        100 * HOUR + (i64::try_from(drawn(seed, &format!("clock/{era}"), 21)).unwrap() - 10) * HOUR
    }
}

/// A study whose `[retry]` is drawn, too.
fn stormy(seed: u64, trials: u64, slots: usize) -> Simulation {
    let (sampler, pruner) =
        policies().swap_remove(usize::try_from(seed).unwrap() % policies().len());
    let mut study = spec(trials, sampler, pruner);
    study.retry.max = u32::try_from(drawn(seed, "max", 4)).unwrap();
    study.retry.on =
        CAUSES.into_iter().filter(|cause| drawn(seed, &format!("{cause:?}"), 3) > 0).collect();
    // Ten failures in a row would end it.
    study.budget.failures = Some(1000);
    let mut simulation = Simulation::new(study, slots, 9, loss);
    simulation.checkpoints = !seed.is_multiple_of(3);
    simulation
}

/// What is true of every journal, whatever happened: it folds to the state, each trial ends once,
/// nothing runs at the end, no slot has two trials, and each attempt that failed is followed by
/// what `[retry]` says. What its user does with a trial in the very moment in which it fails comes
/// first, and is told by tests of its own.
fn assert_sound(
    run: &SimulationResult,
    simulation: &Simulation,
    what: &str,
) -> BTreeMap<String, u64> {
    let spec = &simulation.spec;
    let mut study_state = StudyState::new(spec);
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut on_slots: Vec<(TrialNumber, usize)> = Vec::new();
    let mut failures: BTreeMap<TrialNumber, u32> = BTreeMap::new();
    let mut owed: Option<(TrialNumber, bool)> = None;
    for turn in &run.turns {
        for event in &turn.events {
            if let (Some((trial, again)), true) =
                (owed, event.trial() == owed.map(|(trial, _)| trial))
            {
                match event {
                    Event::Trial(_, TrialEvent::State(StateEvent::Queued { .. })) => {
                        assert!(again, "{what}: trial {trial} is tried again: {event:?}")
                    }
                    // It was to pause, or had ended well before it continued.
                    Event::Trial(_, TrialEvent::State(StateEvent::Paused { hold, .. })) => {
                        assert!(again && hold.is_some(), "{what}: {event:?}")
                    }
                    Event::Trial(_, TrialEvent::State(StateEvent::Finished { state, .. })) => {
                        assert!(
                            !again && *state != TrialState::Pruned,
                            "{what}: trial {trial} is given up: {event:?}"
                        )
                    }
                    _ => panic!("{what}: {event:?}"),
                }
                owed = None;
            }
            match event {
                Event::Trial(trial, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. })) => {
                    assert_eq!(trial.index(), study_state.trials.len(), "{what}")
                }
                Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Started { slot, .. })) => {
                    assert!(
                        on_slots
                            .iter()
                            .all(|(other, index)| other != trial && *index != slot.index),
                        "{what}: {trial} {on_slots:?}"
                    );
                    on_slots.push((*trial, slot.index));
                }
                Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Ended { end, .. })) => {
                    on_slots.retain(|(other, _)| other != trial);
                    if let AttemptEnd::Failed(cause) = end {
                        *seen.entry(format!("{cause:?}")).or_default() += 1;
                        let failures = failures.entry(*trial).or_default();
                        *failures += 1;
                        owed = simulation.requests.is_empty().then_some((
                            *trial,
                            spec.retry.on.contains(cause) && *failures <= spec.retry.max,
                        ));
                    }
                }
                Event::Trial(trial, TrialEvent::State(StateEvent::Finished { .. })) => {
                    assert!(
                        !study_state.trial(*trial).unwrap().state.is_finished(),
                        "{what}: trial {trial} ends twice"
                    );
                }
                _ => {}
            }
            study_state.apply(turn.at, event);
        }
        assert_eq!(owed, None, "{what}: a failed attempt and what follows are one turn");
    }
    assert_eq!(
        format!("{study_state:?}"),
        format!("{:?}", run.state),
        "{what}: the journal folds to the state"
    );
    assert_eq!(on_slots, [], "{what}: something runs after the end");
    seen
}

#[test]
fn faults_are_retried_as_the_study_says_and_a_crash_or_a_clock_that_jumps_changes_nothing() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let seeds = cases(15, 40);
    for seed in 0..seeds {
        let mut simulation = stormy(seed, 8, 1);
        // The same at the same step of the same trial, so that a rerun after a crash meets it
        // again.
        simulation.faults = Box::new(move |trial, _, step| fault(seed, &format!("{trial}/{step}")));
        let whole = simulation.run(&[]).unwrap();
        for (cause, count) in assert_sound(&whole, &simulation, &format!("seed {seed}")) {
            *seen.entry(cause).or_default() += count;
        }
        simulation.clock_error = Box::new(jumping(seed));
        let jumped = simulation.run(&[]).unwrap();
        assert_sound(&jumped, &simulation, &format!("seed {seed}, jumping"));
        assert_eq!(
            decisions(&jumped.state),
            decisions(&whole.state),
            "seed {seed}: the clock jumps"
        );
        for prefix in (usize::try_from(seed).unwrap() % 6..jumped.turns.len()).step_by(6) {
            let what = format!("seed {seed}, after {prefix} turns");
            let resumed = simulation.run(&jumped.turns[..prefix]).unwrap();
            assert_sound(&resumed, &simulation, &what);
            assert_eq!(decisions(&resumed.state), decisions(&whole.state), "{what}");
        }
    }
    assert!(
        ["Oom", "DeviceLost", "WorkerLost", "Program"]
            .iter()
            .all(|cause| seen.get(*cause).is_some_and(|count| 2 * *count > seeds)),
        "{seen:?}"
    );
}

#[test]
fn storms_of_faults_crashes_requests_and_clocks_lose_and_double_nothing_with_several_slots() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let seeds = cases(4, 30);
    for seed in 100..100 + seeds {
        let mut simulation = stormy(seed, 9, 3);
        simulation.clock_error = Box::new(jumping(seed));
        simulation.faults = Box::new(move |trial, attempt, step| {
            let place = format!("{trial}/{attempt}/{step}");
            match drawn(seed, &format!("{place}/hang"), 60) {
                0 => Some(Fault::Hang),
                1..4 => Some(Fault::Refuse),
                _ => fault(seed, &place),
            }
        });
        // What hangs is found by these, at whatever moment a clock that jumps makes of it.
        simulation.spec.budget.stall_time = Some(Duration::from_secs(30));
        simulation.spec.budget.trial_time = Some(Duration::from_secs(3600));
        let mut requests: Vec<(u64, Request)> = (0..if seed % 2 == 0 { 6 } else { 0 })
            .map(|number| {
                let at = drawn(seed, &format!("request/{number}/at"), 50);
                let trial = TrialNumber(drawn(seed, &format!("request/{number}/trial"), 9));
                let request = match drawn(seed, &format!("request/{number}"), 5) {
                    0 => Request::PauseStudy,
                    1 => Request::ResumeStudy,
                    2 => Request::PauseTrial { trial },
                    3 => Request::ResumeTrial { trial },
                    _ => Request::Kill { trial },
                };
                (at, request)
            })
            .collect();
        requests.sort_by_key(|(at, _)| *at);
        if !requests.is_empty() {
            requests.push((u64::MAX, Request::ResumeStudy));
        }
        simulation.requests = requests;
        let mut journal: Vec<Turn> = Vec::new();
        for lives in 1..12 {
            let run = simulation.run(&journal).unwrap();
            journal = run.turns[..run.turns.len().min(journal.len() + lives)].to_vec();
        }
        let mut run = simulation.run(&journal).unwrap();
        // By a clock that jumps, two refusals in a row may be hours apart: the study is run again.
        while matches!(run.outcome, RunOutcome::Refused(_)) {
            run = simulation.run(&run.turns).unwrap();
        }
        let what = format!("seed {seed}");
        assert!(
            run.state.trials.iter().all(|trial| trial.state.is_finished() || trial.hold.is_some()),
            "{what}"
        );
        for (cause, count) in assert_sound(&run, &simulation, &what) {
            *seen.entry(cause).or_default() += count;
        }
    }
    assert!(3 * seen.values().sum::<u64>() > 5 * seeds, "{seen:?}");
}

#[test]
fn a_paused_ladder_of_rungs_goes_on_after_every_cause() {
    let mut study = spec(12, "random", asha("promote"));
    study.retry.on = CAUSES.to_vec();
    study.retry.max = 5;
    for cause in [Fault::Crash, Fault::OutOfMemory, Fault::LoseDevice, Fault::Refuse] {
        let mut simulation = Simulation::new(study.clone(), 1, 9, loss);
        let calm = simulation.run(&[]).unwrap();
        simulation.faults = Box::new(move |trial, attempt, step| {
            (attempt.0 % 2 == 0 && (trial.0 + step) % 3 == 0).then_some(cause)
        });
        let run = simulation.run(&[]).unwrap();
        assert_sound(&run, &simulation, &format!("{cause:?}"));
        assert_eq!(decisions(&run.state), decisions(&calm.state), "{cause:?}");
    }
}

/// What ends a trial's attempt in the moment in which its pruner has told it to stop or to pause.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Late {
    TimesOut,
    Interrupted,
    /// Its user paused it, and it was asked to leave before its report arrived.
    PausedByItsUser,
}

#[test]
fn what_a_pruner_said_to_the_last_report_holds_although_the_trial_is_asked_to_leave_at_that_moment()
{
    for (mode, expected) in [("stop", TrialState::Pruned), ("promote", TrialState::Paused)] {
        for late in [Late::TimesOut, Late::Interrupted, Late::PausedByItsUser] {
            let mut study = spec(6, "random", asha(mode));
            study.retry.on = vec![FailureCause::Timeout];
            study.budget.stall_time = Some(Duration::from_secs(2));
            let simulation = Simulation::new(study.clone(), 1, 9, loss);
            let whole = simulation.run(&[]).unwrap();
            let at = whole.turns.iter().position(|turn| {
                let ends = |event: &Event| {
                    matches!(
                        event,
                        Event::Trial(
                            _,
                            TrialEvent::Decision(DecisionEvent::Decided { verdict, .. })
                        ) if verdict.reason().is_some() && verdict.word() != "continue"
                    )
                };
                turn.events.iter().any(ends)
            });
            let decided = at.unwrap();
            let told = whole.turns[decided].events.iter().find_map(|event| match event {
                Event::Trial(
                    trial,
                    TrialEvent::Attempt(AttemptEvent::Reported { attempt, step, metrics, .. }),
                ) => Some((*trial, *attempt, *step, metrics.clone())),
                _ => None,
            });
            let (trial, attempt, step, metrics) = told.unwrap();
            // The same inputs up to that report, one by one, and then it comes too late.
            let slots = vec![Slot::on(0, Device::Sim(0))];
            let mut engine = Engine::new(study.clone(), StudyState::new(&study), slots).unwrap();
            for turn in &whole.turns[..decided] {
                for event in &turn.events {
                    let input = match event.clone() {
                        Event::Runner(RunnerEvent::Started { pid, host, .. }) => {
                            Input::Begin { pid, host, requests: Vec::new() }
                        }
                        Event::Trial(
                            trial,
                            TrialEvent::Attempt(AttemptEvent::Reported {
                                attempt,
                                step,
                                metrics,
                                ..
                            }),
                        ) => Input::Report { trial, attempt, step, metrics },
                        Event::Trial(
                            trial,
                            TrialEvent::Checkpoint(CheckpointEvent::Saved {
                                step,
                                path,
                                bytes,
                                system,
                                digest,
                            }),
                        ) => {
                            let attempt =
                                engine.study_state().trial(trial).unwrap().last_attempt().unwrap();
                            Input::Checkpoint { trial, attempt, step, path, bytes, system, digest }
                        }
                        Event::Trial(
                            trial,
                            TrialEvent::Attempt(AttemptEvent::Ended {
                                attempt, end, reason, ..
                            }),
                        ) => Input::Ended { trial, attempt, end, message: reason },
                        _ => continue,
                    };
                    engine.step(turn.at, input);
                }
            }
            let mut now = whole.turns[decided].at.after(Duration::from_secs(1));
            if late == Late::PausedByItsUser {
                engine.step(now, Input::Request { id: 1, request: Request::PauseTrial { trial } });
            }
            now = now.after(Duration::from_secs(10));
            engine
                .step(now, if late == Late::Interrupted { Input::Interrupt } else { Input::Tick });
            engine.step(now, Input::Report { trial, attempt, step, metrics });
            let end = if late == Late::TimesOut {
                AttemptEnd::Failed(FailureCause::WorkerLost)
            } else {
                AttemptEnd::Interrupted
            };
            engine.step(now, Input::Ended { trial, attempt, end, message: None });
            let ended = engine.study_state().trial(trial).unwrap();
            assert_eq!(
                (ended.state, ended.last().map(|(step, _)| step)),
                (expected, Some(step)),
                "{mode}, {late:?}: {:?}",
                ended.reason
            );
        }
    }
}
