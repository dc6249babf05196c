//! The search as a whole, against scripted workers: budgets, faults, and continuing after a crash
//! at any moment.

use std::time::Duration;

use hpsearch::engine::RunOutcome;
use hpsearch::engine::simulator::{Fault, Simulation, SimulationResult, Turn};
use hpsearch::study::event::{AttemptEvent, Event, ProposalEvent, StateEvent, TrialEvent};
use hpsearch::study::params::Params;
use hpsearch::study::space::{Distribution, Scale, Space};
use hpsearch::study::spec::{AlgorithmSpec, FailureCause};
use hpsearch::study::state::StudyState;
use hpsearch::study::trial::{Trial, TrialState};

use crate::harness::{asha, cases, decisions, loss, policies, spec, studies};

/// No trial is lost or doubled: numbers are consecutive, each ends exactly once, and the journal
/// folds to the state.
fn assert_sound(run: &SimulationResult, simulation: &Simulation) {
    let mut folded = StudyState::new(&simulation.spec);
    let (mut created, mut finished) = (Vec::new(), Vec::new());
    for turn in &run.turns {
        for event in &turn.events {
            folded.apply(turn.at, event);
            match event {
                Event::Trial(trial, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. })) => {
                    created.push(trial.0)
                }
                Event::Trial(trial, TrialEvent::State(StateEvent::Finished { .. })) => {
                    finished.push(trial.0)
                }
                _ => {}
            }
        }
    }
    // Compared as text: NaN reports are equal to themselves there.
    assert_eq!(format!("{folded:?}"), format!("{:?}", run.state), "the journal folds to the state");
    assert_eq!(created, (0..created.len() as u64).collect::<Vec<_>>());
    finished.sort_unstable();
    assert_eq!(finished, created, "each trial ends exactly once");
}

#[test]
fn a_study_ends_with_its_budget_and_a_best_trial() {
    for spec in studies(20) {
        let simulation = Simulation::new(spec, 3, 9, loss);
        let run = simulation.run(&[]).unwrap();
        assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
        assert_eq!(run.state.counts.complete + run.state.counts.pruned, 20);
        assert!(run.state.best().is_some());
        assert_sound(&run, &simulation);
    }
}

#[test]
fn resumed_study_suggests_what_an_uninterrupted_one_would() {
    let stride = cases(8, 1);
    for (number, spec) in studies(14).into_iter().enumerate() {
        let mut simulation = Simulation::new(spec, 1, 9, loss);
        // Trials that always go wrong at the same place, so that a rerun meets the same fault.
        simulation.faults = Box::new(|trial, _, step| match (trial.0, step) {
            (3, 2) => Some(Fault::Crash),
            (5, 4) => Some(Fault::NotANumber),
            (6, 1) => Some(Fault::Fail),
            _ => None,
        });
        let whole = simulation.run(&[]).unwrap();
        assert_sound(&whole, &simulation);
        for prefix in (number % stride..whole.turns.len()).step_by(stride) {
            let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
            assert_eq!(
                decisions(&resumed.state),
                decisions(&whole.state),
                "{:?} {:?} after {prefix} turns",
                simulation.spec.sampler,
                simulation.spec.pruner
            );
            assert_sound(&resumed, &simulation);
        }
    }
}

#[test]
fn resumed_study_without_checkpoints_starts_trials_again_and_decides_the_same() {
    let mut simulation = Simulation::new(spec(12, "tpe-independent", asha("stop")), 1, 9, loss);
    simulation.checkpoints = false;
    let whole = simulation.run(&[]).unwrap();
    for prefix in 0..whole.turns.len() {
        let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
        assert_eq!(decisions(&resumed.state), decisions(&whole.state), "after {prefix} turns");
    }
}

#[test]
fn promoted_trials_without_checkpoints_start_again_and_go_past_where_they_paused() {
    for slots in [1, 3] {
        let mut simulation = Simulation::new(spec(12, "random", asha("promote")), slots, 9, loss);
        let with_checkpoints = simulation.run(&[]).unwrap();
        simulation.checkpoints = false;
        let whole = simulation.run(&[]).unwrap();
        assert_sound(&whole, &simulation);
        assert!(whole.state.trials.iter().any(|trial| trial.attempts > 1), "some were promoted");
        assert!(
            whole.state.trials.iter().all(|trial| trial.attempts <= 3),
            "a rung is passed once"
        );
        if slots > 1 {
            continue;
        }
        assert_eq!(decisions(&whole.state), decisions(&with_checkpoints.state));
        for prefix in 0..whole.turns.len() {
            let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
            assert_eq!(decisions(&resumed.state), decisions(&whole.state), "after {prefix} turns");
        }
    }
}

#[test]
fn crashes_again_and_again_lose_and_double_nothing_with_several_slots() {
    for spec in studies(15) {
        let simulation = Simulation::new(spec, 4, 9, loss);
        let mut journal: Vec<Turn> = Vec::new();
        // The runner dies after 1, 2, 3, ... further turns until it is allowed to finish.
        for lives in 1..30 {
            let run = simulation.run(&journal).unwrap();
            journal = run.turns[..run.turns.len().min(journal.len() + lives)].to_vec();
            if journal.len() == run.turns.len() {
                break;
            }
        }
        let run = simulation.run(&journal).unwrap();
        assert_sound(&run, &simulation);
        assert_eq!(run.state.counts.complete + run.state.counts.pruned, 15);
    }
}

#[test]
fn reports_before_a_crash_are_never_taken_back() {
    let simulation = Simulation::new(spec(10, "random", AlgorithmSpec::named("none")), 2, 5, loss);
    let whole = simulation.run(&[]).unwrap();
    for prefix in 0..whole.turns.len() {
        let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
        let reported = |turns: &[Turn]| {
            turns
                .iter()
                .flat_map(|turn| &turn.events)
                .filter(|event| {
                    matches!(
                        event,
                        Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Reported { .. }))
                    )
                })
                .count()
        };
        assert!(reported(&resumed.turns) >= reported(&whole.turns[..prefix]));
        assert_eq!(resumed.turns[..prefix], whole.turns[..prefix]);
    }
}

#[test]
fn a_lost_worker_is_retried_from_its_checkpoint_and_a_programs_own_error_is_not() {
    let mut simulation =
        Simulation::new(spec(2, "random", AlgorithmSpec::named("none")), 1, 6, loss);
    simulation.spec.budget.count = hpsearch::study::budget::Count::All;
    simulation.faults = Box::new(|trial, attempt, step| match (trial.0, attempt.0, step) {
        (0, 0, 4) => Some(Fault::Crash),
        (1, _, 3) => Some(Fault::Fail),
        _ => None,
    });
    let run = simulation.run(&[]).unwrap();
    let [first, second] = &run.state.trials[..] else { panic!("two trials") };
    assert_eq!((first.state, first.attempts, first.failures), (TrialState::Complete, 2, 1));
    assert_eq!((second.state, second.attempts), (TrialState::Failed, 1));
    // 6 steps of the first trial (3 before its crash and 3 from the checkpoint), 2 of the second.
    assert_eq!(run.steps, 6 + 2);
}

#[test]
fn a_trial_that_keeps_dying_fails_when_its_retries_are_used_up() {
    let mut simulation =
        Simulation::new(spec(3, "random", AlgorithmSpec::named("none")), 1, 4, loss);
    simulation.spec.retry.max = 2;
    simulation.faults =
        Box::new(|trial, _, step| (trial.0 == 0 && step == 2).then_some(Fault::Crash));
    let run = simulation.run(&[]).unwrap();
    assert_eq!((run.state.trials[0].state, run.state.trials[0].attempts), (TrialState::Failed, 3));
    assert_eq!(run.state.counts.complete, 3, "a failed trial is made up for");
}

#[test]
fn a_hanging_trial_is_killed_after_trial_time() {
    let mut simulation =
        Simulation::new(spec(3, "random", AlgorithmSpec::named("none")), 1, 4, loss);
    simulation.spec.budget.trial_time = Some(Duration::from_secs(10));
    simulation.faults =
        Box::new(|trial, _, step| (trial.0 == 1 && step == 3).then_some(Fault::Hang));
    let run = simulation.run(&[]).unwrap();
    let hung = &run.state.trials[1];
    assert_eq!(hung.state, TrialState::Failed);
    assert!(hung.reason.as_ref().unwrap().contains("trial_time (10 s)"), "{:?}", hung.reason);
    let retried = {
        simulation.spec.retry.on.push(FailureCause::Timeout);
        simulation.faults = Box::new(|trial, attempt, step| {
            (trial.0 == 1 && attempt.0 == 0 && step == 3).then_some(Fault::Hang)
        });
        simulation.run(&[]).unwrap()
    };
    assert_eq!(retried.state.trials[1].state, TrialState::Complete);
}

#[test]
fn a_trial_that_falls_silent_is_killed_after_stall_time_and_a_slow_one_is_not() {
    let mut simulation =
        Simulation::new(spec(3, "random", AlgorithmSpec::named("none")), 1, 30, loss);
    simulation.spec.budget.stall_time = Some(Duration::from_secs(1));
    simulation.faults =
        Box::new(|trial, _, step| (trial.0 == 1 && step == 3).then_some(Fault::Hang));
    let run = simulation.run(&[]).unwrap();
    let silent = &run.state.trials[1];
    assert_eq!(silent.state, TrialState::Failed);
    assert_eq!(silent.reason.as_deref(), Some("did not report for stall_time (1 s)"));
    // The others take 3 s each, a report every tenth of a second.
    assert_eq!(run.state.counts.complete, 3);
}

#[test]
fn a_study_that_gets_no_better_ends_with_its_patience() {
    let mut simulation =
        Simulation::new(spec(200, "random", AlgorithmSpec::named("none")), 1, 2, loss);
    simulation.spec.budget.patience = Some(7);
    let run = simulation.run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, RunOutcome::Finished(reason) if reason.contains("patience")),
        "{:?}",
        run.outcome
    );
    let best = run.state.best().unwrap().number.0;
    assert_eq!(run.state.trials.len() as u64, best + 1 + 7);
    assert_eq!(simulation.run(&run.turns).unwrap().steps, 0, "it stays so");
    simulation.spec.budget.patience = Some(30);
    assert!(simulation.run(&run.turns).unwrap().steps > 0, "with more patience it continues");
}

#[test]
fn a_study_that_only_fails_says_so() {
    let mut simulation =
        Simulation::new(spec(5, "random", AlgorithmSpec::named("none")), 2, 4, loss);
    simulation.spec.budget.failures = Some(4);
    simulation.faults = Box::new(|_, _, _| Some(Fault::Fail));
    let run = simulation.run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, RunOutcome::TooManyFailures(reason) if reason.contains("4 trials \
            failed")),
        "{:?}",
        run.outcome
    );
    simulation.spec.budget = hpsearch::study::budget::Budget {
        trials: Some(5),
        count: hpsearch::study::budget::Count::All,
        ..Default::default()
    };
    let run = simulation.run(&[]).unwrap();
    assert!(matches!(run.outcome, RunOutcome::NoValue(_)), "{:?}", run.outcome);
}

#[test]
fn a_program_that_only_fails_is_not_started_for_ever() {
    let mut simulation =
        Simulation::new(spec(5, "random", AlgorithmSpec::named("none")), 2, 4, loss);
    simulation.faults = Box::new(|_, _, _| Some(Fault::Fail));
    let run = simulation.run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, RunOutcome::TooManyFailures(why) if why.contains("10 trials all \
            failed")),
        "{:?}",
        run.outcome
    );
    assert!(run.state.trials.len() <= 12);
    simulation.faults = Box::new(|_, _, _| None);
    let repaired = simulation.run(&run.turns).unwrap();
    assert_eq!(
        repaired.state.counts.complete, 5,
        "once the program is repaired, the study \
        continues"
    );
}

#[test]
fn a_finished_study_goes_on_when_its_budget_is_raised_and_rests_when_it_is_not() {
    let mut simulation =
        Simulation::new(spec(6, "random", AlgorithmSpec::named("none")), 2, 3, loss);
    let first = simulation.run(&[]).unwrap();
    let again = simulation.run(&first.turns).unwrap();
    assert_eq!((again.steps, again.state.trials.len()), (0, 6));
    simulation.spec.budget.trials = Some(10);
    let extended = simulation.run(&first.turns).unwrap();
    assert_eq!(extended.state.trials.len(), 10);
    assert_eq!(decisions(&extended.state)[..6], decisions(&first.state)[..]);
}

#[test]
fn a_space_that_changes_between_two_runs_leaves_what_was_and_holds_for_what_comes() {
    let mut dimensions = spec(1, "random", asha("stop")).space.dimensions().to_vec();
    dimensions[0].distribution = Distribution::float(1e-3, 0.1, Scale::Log, None).unwrap();
    dimensions[3].distribution = Distribution::int(3, 8, Scale::Linear, 1).unwrap();
    let moved = Space::new(dimensions).unwrap();
    let mut ran = (0, 0);
    for (sampler, pruner) in policies() {
        let mut simulation = Simulation::new(spec(14, sampler, pruner), 2, 9, loss);
        let whole = simulation.run(&[]).unwrap();
        simulation.spec.space = moved.clone();
        for prefix in (0..whole.turns.len()).step_by(cases(14, 7)) {
            let journal = &whole.turns[..prefix];
            let proposed = journal
                .iter()
                .flat_map(|turn| &turn.events)
                .filter(|event| {
                    matches!(
                        event,
                        Event::Trial(_, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. }))
                    )
                })
                .count();
            let changed = simulation.run(journal).unwrap();
            assert_sound(&changed, &simulation);
            assert_eq!(
                changed.state.counts.complete + changed.state.counts.pruned,
                14,
                "{sampler} after {prefix} turns"
            );
            for (number, trial) in changed.state.trials.iter().enumerate() {
                let value = |name: &str| trial.params.get(name).unwrap().as_number().unwrap();
                if number < proposed {
                    assert_eq!(trial.params, whole.state.trials[number].params);
                    ran.0 += 1;
                } else {
                    assert!(
                        (1e-3..=0.1).contains(&value("rate"))
                            && (3.0..=8.0).contains(&value("layers")),
                        "{sampler}: {}",
                        trial.params
                    );
                    ran.1 += 1;
                }
            }
        }
    }
    assert!(ran.0 > 100 && ran.1 > 100, "{ran:?}");
}

#[test]
fn a_reached_target_ends_the_study_and_stays_reached() {
    let mut simulation =
        Simulation::new(spec(100, "random", AlgorithmSpec::named("none")), 2, 9, loss);
    simulation.spec.budget.target = Some(0.3);
    let run = simulation.run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, RunOutcome::Finished(reason) if reason.contains("target")),
        "{:?}",
        run.outcome
    );
    assert!(run.state.trials.len() < 100);
    assert_eq!(simulation.run(&run.turns).unwrap().steps, 0);
}

#[test]
fn the_time_budget_counts_all_runs() {
    let mut simulation =
        Simulation::new(spec(1000, "random", AlgorithmSpec::named("none")), 1, 5, loss);
    simulation.spec.budget.time = Some(Duration::from_secs(5));
    let run = simulation.run(&[]).unwrap();
    assert_eq!(run.state.counts.complete, 9, "0.5 s a trial; the tenth is cut");
    let again = simulation.run(&run.turns).unwrap();
    assert_eq!(again.state.counts.complete, 9);
}

#[test]
fn a_grid_is_searched_exactly_once_across_crashes() {
    let mut study = spec(0, "grid", AlgorithmSpec::named("none"));
    study.budget.trials = None;
    study.sampler = AlgorithmSpec::named("grid").with("points", 3);
    let simulation = Simulation::new(study, 2, 2, loss);
    let whole = simulation.run(&[]).unwrap();
    // rate: 3 points; sgd with 3 momenta or adamw; 6 layers.
    assert_eq!(whole.state.trials.len(), 3 * (3 + 1) * 6);
    for prefix in (0..whole.turns.len()).step_by(17) {
        let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
        let mut points: Vec<String> =
            resumed.state.trials.iter().map(|trial| trial.params.fingerprint()).collect();
        points.sort();
        points.dedup();
        assert_eq!((points.len(), resumed.state.trials.len()), (72, 72), "after {prefix} turns");
    }
}

#[test]
fn checkpoints_of_the_best_trials_stay_and_others_go() {
    let mut study = spec(12, "random", asha("stop"));
    study.checkpoints.keep_best = Some(2);
    let simulation = Simulation::new(study, 2, 9, loss);
    let run = simulation.run(&[]).unwrap();
    let mut holding: Vec<&Trial> =
        run.state.trials.iter().filter(|trial| !trial.checkpoints.is_empty()).collect();
    holding.sort_by(|a, b| a.value.unwrap().total_cmp(&b.value.unwrap()));
    assert_eq!(holding.len(), 2);
    assert_eq!(holding[0].number, run.state.best().unwrap().number);
    assert!(holding.iter().all(|trial| trial.checkpoints.len() == 1));
}

#[test]
fn enqueued_configurations_run_first_and_missing_values_are_sampled() {
    let mut study = spec(4, "random", AlgorithmSpec::named("none"));
    let mut first = Params::new();
    first.insert("rate", 0.01);
    first.insert("optimizer", "adamw");
    study.enqueue = vec![first.clone(), first];
    let simulation = Simulation::new(study, 1, 2, loss);
    let run = simulation.run(&[]).unwrap();
    for trial in &run.state.trials[..2] {
        assert_eq!(trial.params.get("rate").unwrap().as_number(), Some(0.01));
        assert!(trial.params.get("layers").is_some());
    }
    assert_eq!(run.state.trials.len(), 4);
}
