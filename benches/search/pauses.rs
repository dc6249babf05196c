//! Simulated time to reach a regret where starting a paused trial again takes time, with pauses
//! that are priced and with pauses that are taken to be free:
//!
//!     cargo run --no-default-features --example pauses -- SEEDS SLOTS
//!
//! `asha` with `mode = "promote"` over rungs 1, 3, 9 and 27 of 81 steps, and random configurations
//! whose curves cross. A restart is given in intervals: the two steps from the first rung to the
//! second. Then the same of programs that save no checkpoints, which start over after a pause.

use std::collections::BTreeMap;
use std::time::Duration;

use hpsearch::engine::simulator::{Simulation, SimulationResult};
use hpsearch::pruners::PRUNERS;
use hpsearch::samplers::SAMPLERS;
use hpsearch::study::event::{AttemptEvent, Event, StateEvent, TrialEvent};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::{Params, Value};
use hpsearch::study::program::Program;
use hpsearch::study::space::{Dimension, Distribution, Scale, Space};
use hpsearch::study::spec::{AlgorithmSpec, StudySpec};
use hpsearch::study::trial::TrialState;

const STEPS: u64 = 81;
const TRIALS: u64 = 500;
const REGRETS: [f64; 2] = [0.1, 0.03];
const INTERVALS: [f64; 4] = [0.0, 0.1, 1.0, 5.0];
/// The first version that prices pauses, and the last that does not.
const VERSIONS: [u32; 2] = [7, 6];

fn number(params: &Params, name: &str) -> f64 {
    params.get(name).and_then(Value::as_number).unwrap_or(f64::NAN)
}

/// A level, which is the regret, and the rest of a power law of the steps.
fn curve(params: &Params, step: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "steps are few")]
    let step = step as f64;
    let rate = 10f64.powf(-1.0 + 1.3 * number(params, "rate"));
    number(params, "level") + (0.5 + number(params, "height")) * (1.0 + step).powf(-rate)
}

fn algorithm(found: Option<AlgorithmSpec>) -> AlgorithmSpec {
    found.expect("an algorithm of the table")
}

fn simulation(version: u32, intervals: f64, slots: usize, seed: u64) -> Simulation {
    let axis = |name: &str| Dimension {
        name: name.to_owned(),
        distribution: Distribution::float(0.0, 1.0, Scale::Linear, None).expect("bounds"),
        prior: None,
        when: None,
    };
    let space = Space::new(["level", "rate", "height"].map(axis).to_vec()).expect("a space");
    let program = Program::Command {
        run: vec!["train".to_owned()],
        cwd: "/".into(),
        env: BTreeMap::new(),
        args: Default::default(),
        metrics: Default::default(),
    };
    let mut spec = StudySpec::new("pauses", "loss", Direction::Minimize, space, program);
    (spec.seed, spec.budget.trials) = (seed, Some(TRIALS));
    let random = SAMPLERS.iter().find(|entry| entry.name == "random");
    spec.sampler = algorithm(random.map(|entry| entry.defaults()));
    let asha = PRUNERS.iter().find(|entry| entry.name == "asha").map(|entry| entry.defaults());
    spec.pruner = algorithm(asha).with("mode", "promote").with("max_resource", STEPS);
    spec.pruner.version = version;
    let mut simulation = Simulation::new(spec, slots, STEPS, curve);
    simulation.step_time = Duration::from_secs(1);
    simulation.start_time = Duration::from_secs(2).mul_f64(intervals);
    simulation
}

/// Seconds until a complete trial has that regret; to the end, if none has.
fn seconds_to(run: &SimulationResult, regret: f64) -> f64 {
    let reaches = |event: &Event| match event {
        Event::Trial(
            trial,
            TrialEvent::State(StateEvent::Finished { state: TrialState::Complete, .. }),
        ) => {
            let trial = run.state.trial(*trial);
            trial.is_some_and(|trial| number(&trial.params, "level") <= regret)
        }
        _ => false,
    };
    let turn = run.turns.iter().find(|turn| turn.events.iter().any(reaches));
    let end = turn.or(run.turns.last()).map_or(run.turns[0].at, |turn| turn.at);
    end.since(run.turns[0].at).as_secs_f64()
}

fn starts(run: &SimulationResult) -> usize {
    let is_start = |event: &&Event| {
        matches!(event, Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Started { .. })))
    };
    run.turns.iter().flat_map(|turn| &turn.events).filter(is_start).count()
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let seeds: u64 = arguments.next().unwrap_or(20);
    let slots = arguments.next().and_then(|slots| usize::try_from(slots).ok()).unwrap_or(4);
    println!("{seeds} studies of {TRIALS} trials on {slots} slots; means, in steps");
    let studies = INTERVALS.map(|intervals| (intervals, true)).into_iter();
    for (intervals, checkpoints) in studies.chain(INTERVALS.map(|intervals| (intervals, false))) {
        let found = VERSIONS.map(|version| {
            let (mut sums, mut count) = ([0.0; 2], 0);
            for seed in 0..seeds {
                let mut simulation = simulation(version, intervals, slots, seed);
                simulation.checkpoints = checkpoints;
                let run = simulation.run(&[]).expect("a run");
                count += starts(&run);
                for (sum, regret) in sums.iter_mut().zip(REGRETS) {
                    *sum += seconds_to(&run, regret);
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "starts and seeds are few")]
            let mean = |sum: f64| sum / seeds as f64;
            #[expect(clippy::cast_precision_loss, reason = "starts and seeds are few")]
            let count = mean(count as f64);
            (sums.map(mean), count)
        });
        let [(priced, starts), (free, starts_free)] = found;
        let saves = if checkpoints { "" } else { ", no checkpoints" };
        print!("restart {intervals} intervals{saves}: {starts:.0} starts, free {starts_free:.0}");
        for ((regret, priced), free) in REGRETS.iter().zip(priced).zip(free) {
            print!("; regret {regret}: {priced:.0}, free {free:.0}: {:.2}", priced / free);
        }
        println!();
    }
}
