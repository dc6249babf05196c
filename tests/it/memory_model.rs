//! Memory that is learned across a study: who has no room waits, what fits no device is not
//! proposed, and the journal says why.

use std::collections::BTreeSet;

use hpsearch::engine::simulator::{Shared, Simulation, SimulationResult, Turn};
use hpsearch::study::budget::Count;
use hpsearch::study::event::{
    AttemptEnd, AttemptEvent, DeviceEvent, Event, ProposalEvent, StateEvent, TrialEvent,
};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::space::{Dimension, Distribution, Scale, Space};
use hpsearch::study::spec::{AlgorithmSpec, FailureCause, StudySpec};
use hpsearch::study::trial::{TrialNumber, TrialState};
use proptest::prelude::*;

use crate::harness::{cases, events, journal, number, seconds, verified};

const GIB: f64 = (1_u64 << 30) as f64;

/// Rows and width decide what a trial takes, and large ones are better.
fn spec(trials: u64, sampler: &str) -> StudySpec {
    let dimension = |name: &str, distribution| Dimension {
        name: name.to_owned(),
        distribution,
        prior: None,
        when: None,
    };
    let space = Space::new(vec![
        dimension("rows", Distribution::int(1, 16, Scale::Linear, 1).unwrap()),
        dimension("width", Distribution::int(8, 128, Scale::Linear, 8).unwrap()),
        dimension("rate", Distribution::float(1e-3, 1.0, Scale::Log, None).unwrap()),
    ]);
    let mut spec =
        StudySpec::new("sized", "loss", Direction::Minimize, space.unwrap(), Program::Inline);
    spec.budget.trials = Some(trials);
    spec.budget.count = Count::All;
    spec.sampler = crate::harness::sampler_named(sampler);
    spec.pruner = AlgorithmSpec::named("none");
    spec.devices.automatic_concurrency = true;
    spec
}

fn loss(params: &Params, step: u64) -> f64 {
    2.0 - number(params, "rows") * number(params, "width") / 2048.0
        + (number(params, "rate").ln() + 3.0).powi(2) * 0.01
        + 1.0 / step as f64
}

/// From half a GiB to `most`, by rows times width.
fn takes(params: &Params, most: f64) -> u64 {
    ((0.5 + (most - 0.5) * number(params, "rows") * number(params, "width") / 2048.0) * GIB) as u64
}

/// A device of so many GiB, which does as much more with each of up to eight trials.
fn simulation(spec: StudySpec, memory: f64, most: f64) -> Simulation {
    let mut simulation = Simulation::new(spec, 1, 20, loss);
    simulation.step_time = std::time::Duration::from_millis(500);
    simulation.shared = Some(Shared {
        memory: (memory * GIB) as u64,
        takes: Box::new(
            move |params, step| {
                if step < 2 { takes(params, most) / 2 } else { takes(params, most) }
            },
        ),
        throughput: Box::new(|trials| trials.min(8) as f64),
        is_strict: true,
    });
    simulation
}

fn out_of_memory(run: &SimulationResult) -> Vec<TrialNumber> {
    let of = |event: &Event| match event {
        Event::Trial(
            trial,
            TrialEvent::Attempt(AttemptEvent::Ended {
                end: AttemptEnd::Failed(FailureCause::Oom),
                ..
            }),
        ) => Some(*trial),
        _ => None,
    };
    events(&run.turns).filter_map(of).collect()
}

/// The journal folds to the state, and all that is decided is decided again, with the memory that
/// was known then.
fn assert_verified(run: &SimulationResult, spec: &StudySpec) {
    let verified = verified(spec, &journal(run));
    assert_eq!(verified.difference, None);
    assert!(verified.proposals > 0);
}

#[test]
fn small_trials_share_a_device_that_has_no_room_for_as_many_large_ones() {
    // Of the largest only two would fit.
    let run = simulation(spec(80, "random"), 12.0, 5.0).run(&[]).unwrap();
    assert!(
        run.state.trials.iter().all(|trial| trial.state == TrialState::Complete),
        "{:?}",
        run.outcome
    );
    assert!(
        run.most_memory <= (12.0 * GIB) as u64 && out_of_memory(&run).is_empty(),
        "{}",
        run.most_memory
    );
    let (mut running, mut most, mut waited) = (BTreeSet::new(), 0, BTreeSet::new());
    for event in events(&run.turns) {
        match event {
            Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Started { .. })) => {
                running.insert(*trial);
            }
            Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Ended { .. })) => {
                running.remove(trial);
            }
            Event::Trial(trial, TrialEvent::State(StateEvent::Queued { reason, .. }))
                if reason.starts_with("waits for memory of sim:0: it is expected to take ") =>
            {
                assert!(waited.insert(*trial), "said once");
            }
            _ => {}
        }
        most = most.max(running.len());
    }
    assert!(most >= 4, "{most} at a time");
    assert!(!waited.is_empty());
    // As much as with two at a time from the start, and a quarter more.
    let two = 80.0 * 20.0 * 0.5 / 2.0;
    assert!(seconds(&run) < two / 1.25, "{} s, {two} s with two at a time", seconds(&run));
    let said: Vec<&String> = events(&run.turns)
        .filter_map(|event| match event {
            Event::Device(DeviceEvent::ConcurrencyChanged { reason, .. }) => Some(reason),
            _ => None,
        })
        .collect();
    assert!(
        said.iter().any(|reason| reason.contains("another that is expected to take ")),
        "{said:?}"
    );
}

#[test]
fn what_fits_no_device_is_not_proposed_any_more_and_it_is_said() {
    for sampler in ["random", "tpe", "gp"] {
        // A third of the space does not fit even alone, and it is where the loss is best.
        let spec = spec(40, sampler);
        let run = simulation(spec.clone(), 6.0, 16.0).run(&[]).unwrap();
        let too_large: Vec<u64> = run
            .state
            .trials
            .iter()
            .filter(|trial| takes(&trial.params, 16.0) > (6.0 * GIB) as u64)
            .map(|trial| trial.number.0)
            .collect();
        let late = too_large.iter().filter(|number| **number >= 20).count();
        assert!(late <= 2, "{sampler}: {too_large:?}");
        assert!(
            out_of_memory(&run).iter().all(|number| too_large.contains(&number.0)),
            "{sampler}: nobody runs out of memory beside others"
        );
        let passed_over: Vec<(TrialNumber, u64, &String)> = events(&run.turns)
            .filter_map(|event| match event {
                Event::Trial(
                    trial,
                    TrialEvent::Proposal(ProposalEvent::ConfigurationsSkipped { points, reason }),
                ) => Some((*trial, *points, reason)),
                _ => None,
            })
            .collect();
        assert!(!passed_over.is_empty(), "{sampler}");
        assert!(
            passed_over[0].2.starts_with(
                "expected not to fit into the 6.0 GiB that a device has for one trial (as "
            ),
            "{passed_over:?}"
        );
        assert_verified(&run, &spec);
    }
}

#[test]
fn what_fits_alone_is_not_refused_and_does_not_begin_beside_others() {
    // All fit alone: nothing is passed over, whatever was learned.
    let spec = spec(50, "random");
    let run = simulation(spec.clone(), 18.0, 16.0).run(&[]).unwrap();
    assert!(events(&run.turns).all(|event| !matches!(
        event,
        Event::Trial(_, TrialEvent::Proposal(ProposalEvent::ConfigurationsSkipped { .. }))
    )));
    assert!(run.state.trials.iter().any(|trial| takes(&trial.params, 16.0) > (9.0 * GIB) as u64));
    // Only before anything was learned is a large one put beside others.
    assert!(out_of_memory(&run).iter().all(|trial| trial.0 < 10), "{:?}", out_of_memory(&run));
    assert_verified(&run, &spec);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(4, 12)))]

    /// Whenever the runner dies: the study continues, ends, folds to its state, and is decided the
    /// same again.
    #[test]
    fn what_was_learned_is_in_the_journal(
        memory in 3u32..20,
        most in 2u32..20,
        seed in 0u64..1000,
        deaths in prop::collection::vec(1usize..200, 0..4),
        tpe in any::<bool>(),
    ) {
        let mut spec = spec(30, if tpe { "tpe" } else { "random" });
        spec.seed = seed;
        let simulation = simulation(spec.clone(), f64::from(memory), f64::from(most));
        let mut journal: Vec<Turn> = Vec::new();
        for turns in deaths {
            let run = simulation.run(&journal).unwrap();
            journal = run.turns[..run.turns.len().min(journal.len() + turns)].to_vec();
        }
        let run = simulation.run(&journal).unwrap();
        prop_assert!(
            run.state.trials.iter().all(|trial| trial.state.is_finished()),
            "{:?}",
            run.outcome
        );
        assert_verified(&run, &spec);
    }
}
