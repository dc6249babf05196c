//! Running out of memory, against scripted workers: rows at once are halved, the search is not
//! fooled, and crashes change nothing.

use std::collections::BTreeMap;

use hpsearch::engine::simulator::{Fault, Simulation, SimulationResult};
use hpsearch::study::event::{AttemptEnd, AttemptEvent, Event, StateEvent, TrialEvent};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::seed::SeedTree;
use hpsearch::study::space::{Dimension, Distribution, Scale, Space};
use hpsearch::study::spec::{AlgorithmSpec, FailureCause, StudySpec};
use hpsearch::study::trial::{TrialNumber, TrialState};
use rand::RngExt as _;
use serde_json::json;

use crate::harness::{asha, cases, decisions, events, journal, verified};

/// A study of the built-in trainer that searches its batch size, too; reports are counted in
/// epochs, nine a trial.
fn spec(trials: u64, sampler: &str, pruner: AlgorithmSpec) -> StudySpec {
    let dimension = |name: &str, distribution| Dimension {
        name: name.to_owned(),
        distribution,
        prior: None,
        when: None,
    };
    let space = Space::new(vec![
        dimension("learning_rate", Distribution::float(1e-4, 1.0, Scale::Log, None).unwrap()),
        dimension(
            "per_device_train_batch_size",
            Distribution::choice(vec![8.into(), 16.into(), 33.into()]).unwrap(),
        ),
    ]);
    let arguments = BTreeMap::from([
        ("num_train_epochs".to_owned(), json!(9)),
        ("per_device_eval_batch_size".to_owned(), json!(8)),
    ]);
    let program = Program::Trainer { arguments, data: BTreeMap::new() };
    let mut spec =
        StudySpec::new("starved", "eval_loss", Direction::Minimize, space.unwrap(), program);
    spec.budget.trials = Some(trials);
    spec.sampler = crate::harness::sampler_named(sampler);
    spec.pruner = pruner;
    spec
}

fn batch(params: &Params) -> u64 {
    params.get("per_device_train_batch_size").unwrap().to_json().as_u64().unwrap()
}

fn loss(params: &Params, step: u64) -> f64 {
    let rate = params.get("learning_rate").unwrap().as_number().unwrap();
    (rate.ln() + 4.0).powi(2) * 0.02 + 1.0 / (step as f64 + batch(params) as f64 / 16.0)
}

fn simulation(trials: u64, sampler: &str, pruner: AlgorithmSpec) -> Simulation {
    Simulation::new(spec(trials, sampler, pruner), 1, 9, loss)
}

/// Of each attempt of a trial: rows at once by the journal, where it continued from, and how it
/// ended.
fn attempts(run: &SimulationResult, trial: u64) -> Vec<(Option<u64>, u64, AttemptEnd)> {
    let mut attempts: Vec<(Option<u64>, u64, AttemptEnd)> = Vec::new();
    for event in events(&run.turns).filter(|event| event.trial() == Some(TrialNumber(trial))) {
        match event {
            Event::Trial(
                _,
                TrialEvent::Attempt(AttemptEvent::Started { rows_at_once, resume, .. }),
            ) => {
                attempts.push((
                    *rows_at_once,
                    resume.as_ref().map_or(0, |(step, _)| *step),
                    AttemptEnd::Lost,
                ));
            }
            Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Ended { end, .. })) => {
                attempts.last_mut().unwrap().2 = end.clone()
            }
            _ => {}
        }
    }
    attempts
}

const OUT_OF_MEMORY: AttemptEnd = AttemptEnd::Failed(FailureCause::Oom);

fn none() -> AlgorithmSpec {
    AlgorithmSpec::named("none")
}

#[test]
fn a_trial_out_of_memory_goes_on_from_its_checkpoint_with_half_the_rows_until_they_fit() {
    let mut simulation = simulation(1, "random", none());
    simulation.spec.enqueue =
        vec![[("per_device_train_batch_size".to_owned(), 16.into())].into_iter().collect()];
    // Halving is no retry: nothing of these is used.
    simulation.spec.retry.max = 0;
    simulation.spec.retry.on = Vec::new();
    let calm = simulation.run(&[]).unwrap();
    simulation.room = Box::new(|_, step| if step <= 4 { 16 } else { 5 });
    let run = simulation.run(&[]).unwrap();
    assert_eq!(
        attempts(&run, 0),
        [
            (None, 0, OUT_OF_MEMORY),
            (Some(8), 4, OUT_OF_MEMORY),
            (Some(4), 4, AttemptEnd::Completed)
        ]
    );
    assert_eq!(
        (run.state.trials[0].state, run.state.trials[0].attempts),
        (TrialState::Complete, 3)
    );
    assert_eq!(
        decisions(&run.state),
        decisions(&calm.state),
        "its parameters and its result are what they would have been"
    );
    assert_eq!(run.steps, calm.steps, "no step is made twice");
    let queued = events(&run.turns).find_map(|event| match event {
        Event::Trial(_, TrialEvent::State(StateEvent::Queued { reason, .. })) => {
            Some(reason.clone())
        }
        _ => None,
    });
    assert_eq!(
        queued.as_deref(),
        Some("16 rows at once did not fit into memory; now 8; continues from epoch 4")
    );
}

#[test]
fn a_trial_out_of_memory_with_one_row_fails_like_others_and_is_retried_only_where_asked_for() {
    let mut simulation = simulation(1, "random", none());
    simulation.spec.enqueue =
        vec![[("per_device_train_batch_size".to_owned(), 16.into())].into_iter().collect()];
    simulation.spec.budget.count = hpsearch::study::budget::Count::All;
    simulation.room = Box::new(|_, _| 0);
    for (on, retries) in [(vec![FailureCause::WorkerLost], 0), (vec![FailureCause::Oom], 2)] {
        simulation.spec.retry.on = on;
        let run = simulation.run(&[]).unwrap();
        let rows: Vec<Option<u64>> = attempts(&run, 0).into_iter().map(|(rows, ..)| rows).collect();
        let halved =
            [None, Some(8), Some(4), Some(2), Some(1)].into_iter().chain(vec![Some(1); retries]);
        assert_eq!(rows, halved.collect::<Vec<_>>());
        let trial = &run.state.trials[0];
        assert_eq!((trial.state, trial.value), (TrialState::Failed, None));
        let reason = trial.reason.as_deref().unwrap();
        assert!(
            reason.starts_with("one row at once did not fit into memory")
                && reason.contains("max_length"),
            "{reason}"
        );
    }
}

#[test]
fn rows_are_not_halved_where_the_study_says_so_nor_those_of_a_command() {
    let mut simulation = simulation(1, "random", none());
    simulation.spec.budget.count = hpsearch::study::budget::Count::All;
    simulation.faults =
        Box::new(|_, attempt, step| (attempt.0 == 0 && step == 3).then_some(Fault::OutOfMemory));
    let halved = simulation.run(&[]).unwrap();
    assert_eq!(
        (halved.state.trials[0].state, halved.state.trials[0].attempts),
        (TrialState::Complete, 2)
    );
    let Program::Trainer { arguments, .. } = &mut simulation.spec.program else {
        panic!("a trainer")
    };
    arguments.insert("auto_find_batch_size".to_owned(), json!(false));
    let failed = simulation.run(&[]).unwrap();
    assert_eq!(
        (failed.state.trials[0].state, failed.state.trials[0].attempts),
        (TrialState::Failed, 1)
    );
    simulation.spec.program = Program::Command {
        run: Vec::new(),
        cwd: "/".into(),
        env: BTreeMap::new(),
        args: Default::default(),
        metrics: Default::default(),
    };
    let failed = simulation.run(&[]).unwrap();
    assert_eq!(
        (failed.state.trials[0].state, failed.state.trials[0].attempts),
        (TrialState::Failed, 1)
    );
    simulation.spec.retry.on = vec![FailureCause::Oom];
    let retried = simulation.run(&[]).unwrap();
    assert_eq!(attempts(&retried, 0)[1].0, None, "a command is started again as it was");
    assert_eq!(retried.state.trials[0].state, TrialState::Complete);
}

#[test]
fn a_search_that_runs_out_of_memory_decides_what_one_with_plenty_would_whenever_it_crashes() {
    let mut starved = 0;
    let seeds = cases(9, 24);
    for seed in 0..seeds {
        let pruner = [none(), asha("stop"), asha("promote")]
            .into_iter()
            .nth(usize::try_from(seed).unwrap() % 3)
            .unwrap();
        let sampler = ["random", "tpe", "auto"][usize::try_from(seed).unwrap() / 3 % 3];
        let mut simulation = simulation(8, sampler, pruner);
        simulation.checkpoints = seed % 4 != 3;
        let plenty = simulation.run(&[]).unwrap();
        // Memory that others use, too: what fits changes from step to step.
        simulation.room = Box::new(move |trial, step| {
            let mut rng = SeedTree::new(seed).stream(&format!("room/{trial}/{step}"));
            if rng.random_bool(0.15) { rng.random_range(1..20) } else { usize::MAX }
        });
        let run = simulation.run(&[]).unwrap();
        assert_eq!(decisions(&run.state), decisions(&plenty.state), "seed {seed}");
        for trial in &run.state.trials {
            let mut rows = batch(&trial.params);
            for (attempt, (stored, _, end)) in
                attempts(&run, trial.number.0).into_iter().enumerate()
            {
                assert_eq!(
                    stored.unwrap_or(batch(&trial.params)),
                    rows,
                    "seed {seed}, trial {}, attempt {attempt}",
                    trial.number
                );
                if end == OUT_OF_MEMORY {
                    starved += 1;
                    rows = (rows / 2).max(1);
                }
            }
        }
        let again = verified(&simulation.spec, &journal(&run));
        assert_eq!((again.difference, again.versions), (None, Vec::new()), "seed {seed}");
        for prefix in (0..run.turns.len()).step_by(5) {
            let resumed = simulation.run(&run.turns[..prefix]).unwrap();
            assert_eq!(
                decisions(&resumed.state),
                decisions(&plenty.state),
                "seed {seed} after {prefix} turns"
            );
            for trial in &resumed.state.trials {
                let rows: Vec<u64> = attempts(&resumed, trial.number.0)
                    .iter()
                    .map(|(rows, ..)| rows.unwrap_or(u64::MAX))
                    .collect();
                assert!(
                    rows.is_sorted_by(|before, after| before >= after),
                    "seed {seed} after {prefix} turns: {rows:?}"
                );
            }
        }
    }
    assert!(starved > 4 * seeds, "only {starved} times");
}

#[test]
fn a_journal_with_other_rows_than_are_decided_is_told() {
    let mut simulation = simulation(2, "random", none());
    simulation.room = Box::new(|_, _| 5);
    let mut run = simulation.run(&[]).unwrap();
    assert_eq!(verified(&simulation.spec, &journal(&run)).difference, None);
    let started =
        run.turns.iter_mut().flat_map(|turn| &mut turn.events).find_map(|event| match event {
            Event::Trial(
                _,
                TrialEvent::Attempt(AttemptEvent::Started { rows_at_once: Some(rows), .. }),
            ) => Some(rows),
            _ => None,
        });
    *started.unwrap() += 1;
    let difference = verified(&simulation.spec, &journal(&run)).difference.unwrap();
    assert_eq!((difference.what, difference.trial), ("rows", Some(TrialNumber(0))));
}
