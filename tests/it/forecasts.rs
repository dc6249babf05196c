//! Forecasts against the truth of simulated studies: made at a fifth of a study, they are near its
//! end.

use std::collections::BTreeSet;
use std::time::Duration;

use hpsearch::analysis::forecast::{EndedBy, Forecast, Situation, forecast};
use hpsearch::engine::simulator::{Simulation, Turn};
use hpsearch::study::device::{Device, DeviceGroup, Slot};
use hpsearch::study::event::{AttemptEvent, Event, StateEvent, TrialEvent};
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::spec::{AlgorithmSpec, StudySpec, WhileRunning};
use hpsearch::study::state::StudyState;
use hpsearch::study::time::Timestamp;
use hpsearch::study::usage::Used;

use crate::harness::{asha, loss, on_pairs_of_agents, spec};

/// What a program that looks at the store would forecast after some turns of a study; and the
/// running time then.
fn forecast_after(
    spec: &StudySpec,
    full_trial: Option<u64>,
    slots: &[Slot],
    turns: &[Turn],
) -> (Forecast, f64) {
    let mut state = StudyState::new(spec);
    for turn in turns {
        turn.events.iter().for_each(|event| state.apply(turn.at, event));
    }
    let (begun, now) = (turns[0].at, turns[turns.len() - 1].at);
    let used = Used::of(&state, slots);
    let situation = Situation {
        spec,
        full_trial,
        counts: state.counts,
        elapsed: now.since(begun),
        used: &used,
        now,
    };
    (forecast(&situation), now.since(begun).as_secs_f64())
}

/// So many slots, each on a device of its own.
fn single(slots: usize) -> Vec<Slot> {
    let slot = |index| Slot::on(index, Device::Sim(u32::try_from(index).unwrap()));
    (0..slots).map(slot).collect()
}

/// The number of turns after which so many trials have left their slots: a pruner may let them
/// wait.
fn turns_until(turns: &[Turn], ended: usize) -> usize {
    let mut left = BTreeSet::new();
    let reached = turns.iter().position(|turn| {
        left.extend(turn.events.iter().filter_map(|event| match event {
            Event::Trial(
                trial,
                TrialEvent::State(StateEvent::Finished { .. } | StateEvent::Paused { .. }),
            ) => Some(*trial),
            _ => None,
        }));
        left.len() >= ended
    });
    reached.unwrap() + 1
}

fn layers(params: &Params) -> f64 {
    params.get("layers").unwrap().as_number().unwrap()
}

/// Whole time and device-hours as forecast at a fifth of the study, each as a ratio to the truth;
/// with `pairs`, each slot is on two agents.
fn ratios(pruner: &AlgorithmSpec, slots: usize, pairs: bool, seed: u64) -> (f64, f64, bool) {
    let mut simulation = Simulation::new(spec(100, "random", pruner.clone()), slots, 9, loss);
    let mut places = single(slots);
    if pairs {
        simulation = on_pairs_of_agents(simulation, 2 * slots);
        let pair = |slot: usize| {
            let agent = |number: usize| Device::Sim(0).on(&format!("node{number}"));
            DeviceGroup::of([agent(2 * slot), agent(2 * slot + 1)]).unwrap()
        };
        places = (0..slots).map(|slot| Slot::on(slot, pair(slot))).collect();
    }
    simulation.spec.seed = seed;
    // Six times as long with six layers: trials differ as they do.
    simulation.pace = Box::new(layers);
    let run = simulation.run(&[]).unwrap();
    let at = turns_until(&run.turns, 20);
    let (forecast, elapsed) = forecast_after(&simulation.spec, Some(9), &places, &run.turns[..at]);
    let truth = run.turns[run.turns.len() - 1].at.since(run.turns[0].at).as_secs_f64();
    let hours = run.state.busy_micros as f64 / 3.6e9;
    let left = forecast.seconds_left.unwrap();
    assert_eq!(forecast.ended_by, Some(EndedBy::Trials));
    let within = (left.low..=left.high).contains(&(truth - elapsed));
    ((elapsed + left.likely) / truth, forecast.device_hours.unwrap().likely / hours, within)
}

#[test]
fn at_a_fifth_of_a_study_its_end_is_known_within_a_factor_and_mostly_within_the_range() {
    for pruner in [
        AlgorithmSpec::named("none"),
        AlgorithmSpec::named("median"),
        asha("stop"),
        asha("promote"),
    ] {
        for (slots, pairs) in [(1, false), (4, false), (2, true)] {
            let all: Vec<(f64, f64, bool)> =
                (0..20).map(|seed| ratios(&pruner, slots, pairs, seed)).collect();
            let mut off: Vec<f64> = all
                .iter()
                .flat_map(|(time, hours, _)| [time.max(1.0 / time), hours.max(1.0 / hours)])
                .collect();
            off.sort_by(f64::total_cmp);
            let (usual, worst) = (off[off.len() / 2], off[off.len() - 1]);
            // Trials differ by a factor of six here, and a pruner gets stricter as a study
            // continues.
            let (usually, at_worst) = if pruner.name == "none" { (1.15, 1.35) } else { (1.6, 3.0) };
            assert!(
                usual < usually && worst < at_worst,
                "{pruner:?} {slots} slots: off by {usual}, at worst by {worst}"
            );
            let within = all.iter().filter(|ratios| ratios.2).count();
            assert!(within >= 17, "{pruner:?} {slots} slots: {within} of 20 within the range");
        }
    }
}

#[test]
fn the_tighter_limit_ends_the_study_and_bounds_the_forecast() {
    let mut simulation =
        Simulation::new(spec(100, "random", AlgorithmSpec::named("none")), 2, 9, loss);
    let run = simulation.run(&[]).unwrap();
    let after = &run.turns[..turns_until(&run.turns, 20)];
    // 100 trials of 0.9 s on two slots are 45 s; after nine, 36 are left.
    simulation.spec.budget.time = Some(Duration::from_secs(20));
    let (by_time, elapsed) = forecast_after(&simulation.spec, None, &single(2), after);
    assert_eq!(by_time.ended_by, Some(EndedBy::Time));
    assert!((by_time.seconds_left.unwrap().likely - (20.0 - elapsed)).abs() < 1e-6);
    let trials = by_time.trials.unwrap();
    assert!(
        (40.0..48.0).contains(&trials.likely)
            && trials.low < trials.likely
            && trials.likely < trials.high,
        "{trials:?}"
    );

    simulation.spec.budget.time = None;
    simulation.spec.budget.cost = Some(0.03);
    simulation.spec.budget.price_per_hour = Some(3.6);
    let (by_cost, elapsed) = forecast_after(&simulation.spec, None, &single(2), after);
    // The cost allows 30 s of devices, 15 s of two.
    assert_eq!(by_cost.ended_by, Some(EndedBy::Cost));
    assert!(
        (by_cost.seconds_left.unwrap().likely + elapsed - 15.0).abs() < 0.5,
        "{by_cost:?} after {elapsed}"
    );
    assert!((by_cost.cost.unwrap().likely - 0.03).abs() < 0.001, "{by_cost:?}");
}

#[test]
fn before_anything_ran_nothing_is_said_and_the_first_trial_is_enough_for_a_wide_range() {
    let spec = spec(50, "random", AlgorithmSpec::named("none"));
    let used = Used::default();
    let situation = Situation {
        spec: &spec,
        full_trial: Some(9),
        counts: Default::default(),
        elapsed: Duration::ZERO,
        used: &used,
        now: Timestamp(0),
    };
    assert_eq!(forecast(&situation), Forecast::default());
    let run = Simulation::new(spec.clone(), 1, 9, loss).run(&[]).unwrap();
    // Half-way through the first trial its length is known from its steps.
    let half = run
        .turns
        .iter()
        .position(|turn| {
            turn.events.iter().any(|event| {
                matches!(
                    event,
                    Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Reported { step: 4, .. }))
                )
            })
        })
        .unwrap();
    let (early, _) = forecast_after(&spec, Some(9), &single(1), &run.turns[..=half]);
    let left = early.seconds_left.unwrap();
    assert!((left.likely - (45.0 - 0.4)).abs() < 0.5, "{left:?}");
    assert!(left.high > left.likely * 1.4 && left.low < left.likely * 0.6, "{left:?}");
}

#[test]
fn the_disk_is_forecast_from_measured_checkpoints_and_bounded_by_max_disk() {
    let mut simulation =
        Simulation::new(spec(60, "random", AlgorithmSpec::named("none")), 2, 9, loss);
    simulation.checkpoint_bytes = 1 << 20;
    let run = simulation.run(&[]).unwrap();
    let after = &run.turns[..turns_until(&run.turns, 12)];
    let disk = forecast_after(&simulation.spec, None, &single(2), after).0.disk.unwrap();
    // What it takes at most at any moment, in truth.
    let (mut state, mut most) = (StudyState::new(&simulation.spec), 0);
    for turn in &run.turns {
        turn.events.iter().for_each(|event| state.apply(turn.at, event));
        most = most.max(state.trials.iter().flat_map(|trial| &trial.checkpoints).count());
    }
    let most = most as f64 * f64::from(1 << 20);
    assert!((disk.low..=disk.high).contains(&most), "{disk:?} for {most}");
    simulation.spec.checkpoints.max_disk = Some(4 << 20);
    let bounded = forecast_after(&simulation.spec, None, &single(2), after).0.disk.unwrap();
    assert!(bounded.high <= 4.0 * f64::from(1 << 20), "{bounded:?}");
    // With everything kept it grows with the study.
    simulation.spec.checkpoints.keep_best = None;
    simulation.spec.checkpoints.max_disk = None;
    let run = simulation.run(&[]).unwrap();
    let after = &run.turns[..turns_until(&run.turns, 12)];
    let disk = forecast_after(&simulation.spec, None, &single(2), after).0.disk.unwrap();
    let all = 60.0 * 9.0 * f64::from(1 << 20);
    assert!((0.7..1.4).contains(&(disk.likely / all)), "{disk:?} for {all}");
}

#[test]
fn what_a_command_saves_until_its_trial_ends_counts_as_often_as_its_trials_saved_it() {
    let mut spec = spec(60, "random", AlgorithmSpec::named("none"));
    spec.program = Program::Command {
        run: vec!["true".to_owned()],
        cwd: "/".into(),
        env: Default::default(),
        args: Default::default(),
        metrics: Default::default(),
    };
    let mut simulation = Simulation::new(spec, 2, 9, loss);
    simulation.checkpoint_bytes = 1 << 20;
    let run = simulation.run(&[]).unwrap();
    // Those that run then have reported some steps.
    let after = &run.turns[..turns_until(&run.turns, 12) + 8];
    let ahead = forecast_after(&simulation.spec, Some(9), &single(2), after).0;
    let (mut state, mut most) = (StudyState::new(&simulation.spec), 0);
    for turn in &run.turns {
        turn.events.iter().for_each(|event| state.apply(turn.at, event));
        most = most.max(state.trials.iter().flat_map(|trial| &trial.checkpoints).count());
    }
    let most = most as f64 * f64::from(1 << 20);
    let disk = ahead.disk.unwrap();
    assert!((disk.low..=disk.high).contains(&most), "{disk:?} for {most}");
    assert!(disk.likely > 15.0 * f64::from(1 << 20), "{disk:?}");
    assert_eq!(ahead.held, Some(9.0));
    // What is kept as needed only counts as before.
    simulation.spec.checkpoints.while_running = WhileRunning::Needed;
    let needed = forecast_after(&simulation.spec, Some(9), &single(2), after).0;
    assert_eq!(needed.held, None);
    assert!(needed.disk.unwrap().likely < disk.likely);
}
