//! What checkpoints take on the disk: `max_disk` holds, the best and what is gone on from stay, and
//! a full disk is said.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hpsearch::engine::retention::{Plan, Rule};
use hpsearch::engine::simulator::{Fault, Simulation, Turn};
use hpsearch::study::event::{AttemptEvent, CheckpointEvent, Event, StudyEvent, TrialEvent};
use hpsearch::study::spec::AlgorithmSpec;
use hpsearch::study::state::StudyState;
use hpsearch::study::trial::{Trial, TrialState};
use proptest::prelude::*;

use crate::harness::{asha, cases, decisions, events, loss, on_pairs_of_agents, spec};

const EACH: u64 = 1000;

fn limited(checkpoints: u64, slots: usize, pruner: AlgorithmSpec) -> Simulation {
    let mut simulation = Simulation::new(spec(20, "random", pruner), slots, 9, loss);
    simulation.spec.checkpoints.max_disk = Some(checkpoints * EACH);
    simulation.checkpoint_bytes = EACH;
    simulation
}

fn held(state: &StudyState) -> Vec<(&Trial, usize)> {
    state
        .trials
        .iter()
        .filter(|trial| !trial.checkpoints.is_empty())
        .map(|trial| (trial, trial.checkpoints.len()))
        .collect()
}

/// The state after each turn.
fn states(simulation: &Simulation, turns: &[Turn]) -> Vec<StudyState> {
    let mut state = StudyState::new(&simulation.spec);
    let after = |turn: &Turn| {
        turn.events.iter().for_each(|event| state.apply(turn.at, event));
        state.clone()
    };
    turns.iter().map(after).collect()
}

#[test]
fn a_limit_drops_the_worst_complete_trials_first_and_never_the_best() {
    let simulation = limited(3, 1, AlgorithmSpec::named("none"));
    let mut all = limited(3, 1, AlgorithmSpec::named("none"));
    all.spec.checkpoints.keep_best = Some(10);
    for simulation in [&simulation, &all] {
        let run = simulation.run(&[]).unwrap();
        for state in states(simulation, &run.turns) {
            let held = held(&state);
            assert!(held.iter().map(|(_, checkpoints)| checkpoints).sum::<usize>() <= 3);
            if let Some(best) = state.best() {
                assert_eq!(best.checkpoints.len(), 1, "the best trial's stays");
            }
        }
        // At the end nothing runs, and the best of all are those that are left.
        let mut ranked: Vec<&Trial> = run.state.trials.iter().collect();
        ranked.sort_by(|one, other| one.value.unwrap().total_cmp(&other.value.unwrap()));
        let kept: Vec<_> = held(&run.state).iter().map(|(trial, _)| trial.number).collect();
        assert!(kept.contains(&ranked[0].number), "{kept:?}");
        assert!(
            !events(&run.turns)
                .any(|event| matches!(event, Event::Study(StudyEvent::DiskExceeded { .. })))
        );
    }
}

#[test]
fn the_limit_holds_for_trials_on_pairs_of_agents_that_come_and_go() {
    let mut simulation = on_pairs_of_agents(limited(5, 0, AlgorithmSpec::named("none")), 4);
    simulation.agents[1].absences = vec![(40, Duration::from_millis(700))];
    let run = simulation.run(&[]).unwrap();
    assert_eq!(run.state.counts.complete, 20);
    for state in states(&simulation, &run.turns) {
        // Of a running trial the last one stays, also while the next one is saved.
        let held: usize = held(&state).iter().map(|(_, checkpoints)| checkpoints).sum();
        assert!(held <= 5, "{held}");
    }
}

#[test]
fn everything_is_kept_as_long_as_it_fits_and_then_what_came_to_nothing_goes_first() {
    let mut simulation = limited(15, 2, asha("stop"));
    simulation.spec.checkpoints.keep_best = None;
    let run = simulation.run(&[]).unwrap();
    let bytes: u64 = run
        .state
        .trials
        .iter()
        .flat_map(|trial| &trial.checkpoints)
        .filter_map(|checkpoint| checkpoint.bytes)
        .sum();
    assert_eq!(bytes, 15 * EACH, "the room is used");
    let complete = run.state.trials.iter().filter(|trial| trial.state == TrialState::Complete);
    assert!(
        complete.clone().all(|trial| !trial.checkpoints.is_empty()),
        "those with a value are not dropped before those without"
    );
    let in_vain = run
        .state
        .trials
        .iter()
        .filter(|trial| trial.state == TrialState::Pruned && !trial.checkpoints.is_empty())
        .count();
    assert!(
        in_vain < run.state.trials.iter().filter(|trial| trial.state == TrialState::Pruned).count()
    );
}

#[test]
fn where_even_what_runs_does_not_fit_it_is_said_once_and_trials_without_hope_give_up_new_ones() {
    let simulation = limited(1, 3, AlgorithmSpec::named("none"));
    let run = simulation.run(&[]).unwrap();
    let said: Vec<&Event> = events(&run.turns)
        .filter(|event| matches!(event, Event::Study(StudyEvent::DiskExceeded { .. })))
        .collect();
    assert!(!said.is_empty());
    assert!(
        matches!(
            said[0],
            Event::Study(StudyEvent::DiskExceeded { bytes, limit: 1000 }) if *bytes > EACH
        ),
        "{said:?}"
    );
    // The winner's weights are there all the same, and the search is what it would be with room.
    assert_eq!(run.state.best().unwrap().checkpoints.len(), 1);
    let free = Simulation::new(spec(20, "random", AlgorithmSpec::named("none")), 3, 9, loss)
        .run(&[])
        .unwrap();
    assert_eq!(decisions(&run.state), decisions(&free.state));
    let given_up = |turns: &[Turn]| {
        let mut given_up = 0;
        for turn in turns {
            let saved = turn.events.iter().filter_map(|event| {
                if let Event::Trial(
                    _,
                    TrialEvent::Checkpoint(CheckpointEvent::Saved { path, .. }),
                ) = event
                {
                    Some(path)
                } else {
                    None
                }
            });
            let dropped: Vec<&PathBuf> = turn
                .events
                .iter()
                .filter_map(|event| {
                    if let Event::Trial(
                        _,
                        TrialEvent::Checkpoint(CheckpointEvent::Dropped { path, .. }),
                    ) = event
                    {
                        Some(path)
                    } else {
                        None
                    }
                })
                .collect();
            given_up += saved.filter(|path| dropped.contains(path)).count();
        }
        given_up
    };
    assert!(given_up(&run.turns) > 0);
    assert_eq!(given_up(&free.turns), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(15, 40)))]

    /// Whatever the limit, the pruner and the moment of a crash: beyond what is needed nothing
    /// stays above the limit; what waits continues from its last report; the study decides what it
    /// would decide with room for all.
    #[test]
    fn the_limit_holds_whatever_dies(
        checkpoints in 1u64..12,
        slots in 1usize..4,
        promote in any::<bool>(),
        keep in 0u32..6,
        crash in 0usize..400,
        seed in 0u64..1000,
    ) {
        let mut simulation =
            limited(checkpoints, slots, asha(if promote { "promote" } else { "stop" }));
        simulation.spec.seed = seed;
        simulation.spec.checkpoints.keep_best = if keep == 5 { None } else { Some(keep) };
        let whole = simulation.run(&[]).unwrap();
        let run = simulation.run(&whole.turns[..crash.min(whole.turns.len())]).unwrap();
        for state in states(&simulation, &run.turns) {
            let holding: Vec<&Trial> =
                state.trials.iter().filter(|trial| !trial.checkpoints.is_empty()).collect();
            let bytes: u64 = holding
                .iter()
                .flat_map(|trial| &trial.checkpoints)
                .filter_map(|checkpoint| checkpoint.bytes)
                .sum();
            let unfinished = holding
                .iter()
                .filter(|trial| !trial.state.is_finished())
                .map(|trial| trial.checkpoints.len() as u64)
                .sum::<u64>();
            prop_assert!(
                bytes <= (checkpoints * EACH).max((unfinished + 1) * EACH),
                "{bytes} of {checkpoints}, {unfinished} of unfinished trials"
            );
            for trial in state.trials.iter().filter(|trial| trial.waits_for_its_pruner()) {
                let step = trial.resumable_checkpoint().map(|checkpoint| checkpoint.step);
                prop_assert_eq!(
                    step,
                    trial.last().map(|(step, _)| step),
                    "trial {} continues from where it was",
                    trial.number
                );
            }
        }
        let mut free = limited(checkpoints, slots, simulation.spec.pruner.clone());
        free.spec.seed = seed;
        free.spec.checkpoints.max_disk = None;
        prop_assert_eq!(decisions(&whole.state), decisions(&free.run(&[]).unwrap().state));
    }
}

#[test]
fn a_rule_that_was_changed_is_applied_when_the_study_is_run_again() {
    let mut simulation =
        Simulation::new(spec(8, "random", AlgorithmSpec::named("none")), 1, 4, loss);
    simulation.spec.checkpoints.keep_best = Some(6);
    let run = simulation.run(&[]).unwrap();
    assert_eq!(held(&run.state).len(), 6);
    simulation.spec.checkpoints.keep_best = Some(2);
    let again = simulation.run(&run.turns).unwrap();
    assert_eq!(held(&again.state).len(), 2);
    // And what a look at the store says may go is just that.
    let trials: Vec<&Trial> = run.state.trials.iter().collect();
    assert_eq!(Rule::of(&simulation.spec).plan(&trials, None).dropped.len(), 4);
    let trials: Vec<&Trial> = again.state.trials.iter().collect();
    assert_eq!(Rule::of(&simulation.spec).plan(&trials, None), Plan::default());
}

/// A trial with its best report at step 5, whose first attempts, `crashed` of them, crash at these
/// steps, and all start over.
fn started_over(crashed: &'static [u64]) -> Simulation {
    // No attempt repeats another's values.
    let reports = AtomicU32::new(0);
    #[expect(clippy::cast_precision_loss, reason = "steps are few")]
    let curve = move |_: &_, step: u64| {
        let noise = f64::from(reports.fetch_add(1, Ordering::Relaxed)) * 1e-6;
        (step as f64 - 5.0).abs() + noise
    };
    let mut simulation =
        Simulation::new(spec(1, "random", AlgorithmSpec::named("none")), 1, 9, curve);
    simulation.resumes = false;
    simulation.faults = Box::new(|_, attempt, step| {
        let crashes = crashed.get(attempt.0 as usize) == Some(&step);
        crashes.then_some(Fault::Crash)
    });
    simulation
}

fn saved_steps(state: &StudyState) -> Vec<u64> {
    state.trials[0].checkpoints.iter().map(|saved| saved.step).collect()
}

#[test]
fn what_an_attempt_before_the_last_one_saved_is_neither_its_newest_nor_its_best() {
    let mut simulation = started_over(&[8]);
    simulation.saves = Box::new(|attempt, step| match attempt.0 {
        0 => [2, 5, 7].contains(&step),
        _ => [3, 6].contains(&step),
    });
    let whole = simulation.run(&[]).unwrap();
    assert_eq!(saved_steps(&whole.state), [6], "that of step 5 has another attempt's weights");
    for prefix in 0..whole.turns.len() {
        let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
        let begun = resumed.state.trials[0].attempts > 1;
        assert!(begun && saved_steps(&resumed.state) == [6], "after {prefix} turns");
    }
}

#[test]
fn an_attempt_continues_from_what_the_one_before_saved_after_it_started_over() {
    // With `keep`, the first one's best at step 5 and its newest at step 7 were kept.
    let simulation = started_over(&[8, 5]);
    let run = simulation.run(&[]).unwrap();
    let resumed: Vec<Option<u64>> = events(&run.turns)
        .filter_map(|event| match event {
            Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Started { resume, .. })) => {
                Some(resume.as_ref().map(|(step, _)| *step))
            }
            _ => None,
        })
        .collect();
    assert_eq!(resumed, [None, Some(7), Some(4)]);
}

#[test]
fn an_attempt_that_continued_keeps_the_best_checkpoint_of_the_one_before() {
    let mut simulation = started_over(&[8]);
    simulation.resumes = true;
    let run = simulation.run(&[]).unwrap();
    assert_eq!((run.state.trials[0].attempts, saved_steps(&run.state)), (2, vec![5]));
}
