//! Studies for the engine's simulator: a space, a loss, policies, and what a run of them decided.

use std::time::Duration;

use hpsearch::engine::simulator::{Agent, Simulation, SimulationResult, Turn};
use hpsearch::engine::verify::{StoredEvent, Verified, verify};
use hpsearch::pruners::PRUNERS;
use hpsearch::samplers::SAMPLERS;
use hpsearch::study::cluster::{AgentStart, ClusterSpec};
use hpsearch::study::event::{Event, Seq, StudyEvent};
use hpsearch::study::metric::Direction;
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::request::{Request, RequestAnswer};
use hpsearch::study::space::{Condition, Dimension, Distribution, Scale, Space};
use hpsearch::study::spec::{AlgorithmSpec, Objective, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::trial::Trial;

use super::simulated_agent::machine;

fn space() -> Space {
    let dimension = |name: &str, distribution, when: Option<(&str, &str)>| Dimension {
        name: name.to_owned(),
        distribution,
        prior: None,
        when: when.map(|(parent, value)| Condition(vec![(parent.to_owned(), vec![value.into()])])),
    };
    Space::new(vec![
        dimension("rate", Distribution::float(1e-4, 1.0, Scale::Log, None).unwrap(), None),
        dimension(
            "optimizer",
            Distribution::choice(vec!["sgd".into(), "adamw".into()]).unwrap(),
            None,
        ),
        dimension(
            "momentum",
            Distribution::float(0.0, 0.99, Scale::Linear, None).unwrap(),
            Some(("optimizer", "sgd")),
        ),
        dimension("layers", Distribution::int(1, 6, Scale::Linear, 1).unwrap(), None),
    ])
    .unwrap()
}

pub fn spec(trials: u64, sampler: &str, pruner: AlgorithmSpec) -> StudySpec {
    let mut spec =
        StudySpec::new("simulated", "loss", Direction::Minimize, space(), Program::Inline);
    spec.budget.trials = Some(trials);
    spec.sampler = sampler_named(sampler);
    spec.pruner = pruner;
    spec
}

/// A sampler as a study without options stores it, with the version of its rules.
pub fn sampler_named(name: &str) -> AlgorithmSpec {
    SAMPLERS.iter().find(|entry| entry.name == name).expect("a sampler of the table").defaults()
}

/// The same of a pruner.
pub fn pruner_named(name: &str) -> AlgorithmSpec {
    PRUNERS.iter().find(|entry| entry.name == name).expect("a pruner of the table").defaults()
}

pub fn asha(mode: &str) -> AlgorithmSpec {
    pruner_named("asha")
        .with("min_resource", 1)
        .with("max_resource", 9)
        .with("reduction_factor", 3)
        .with("mode", mode)
}

/// The studies that the crash tests go through: all policies, and several objectives with some.
pub fn studies(trials: u64) -> Vec<StudySpec> {
    let one = policies().into_iter().map(|(sampler, pruner)| spec(trials, sampler, pruner));
    let several = [
        ("random", AlgorithmSpec::named("none")),
        ("nsga2", asha("stop")),
        ("tpe", pruner_named("median")),
        ("gp", asha("stop")),
        ("gp", asha("promote")),
    ];
    let several = several.into_iter().map(|(sampler, pruner)| {
        let mut spec = spec(trials, sampler, pruner);
        spec.objectives.push(Objective {
            metric: "size".to_owned(),
            direction: Direction::Maximize,
            threshold: None,
        });
        spec
    });
    one.chain(several).collect()
}

/// Every combination of samplers and pruners that the crash tests go through, for one objective.
pub fn policies() -> Vec<(&'static str, AlgorithmSpec)> {
    let pruners =
        [AlgorithmSpec::named("none"), pruner_named("median"), asha("stop"), asha("promote")];
    let samplers = ["random", "tpe-independent", "tpe", "auto"];
    samplers
        .into_iter()
        .flat_map(|sampler| pruners.clone().map(|pruner| (sampler, pruner)))
        // Where trials are paused, it learns from every report.
        .chain([("gp", asha("promote"))])
        .collect()
}

pub fn number(params: &Params, name: &str) -> f64 {
    params.get(name).unwrap().as_number().unwrap()
}

/// A loss that falls with steps towards a floor set by the parameters; curves cross.
pub fn loss(params: &Params, step: u64) -> f64 {
    let (rate, layers) = (number(params, "rate"), number(params, "layers"));
    let floor = (rate.ln() - (0.01f64).ln()).powi(2) * 0.02 + (layers - 4.0).abs() * 0.05;
    floor + 1.0 / (step as f64 + layers * 0.3)
}

/// What a study decided, without times, places and attempts.
pub fn decisions(state: &StudyState) -> Vec<String> {
    let of = |trial: &Trial| {
        format!(
            "{} {:?} {:?} {:?} {:?} {:?} {:?}",
            trial.params,
            trial.state,
            trial.value,
            trial.values,
            trial.curve,
            trial.vectors,
            trial.decisions
        )
    };
    state.trials.iter().map(of).collect()
}

/// A study in which all of that is asked, each at its turn.
pub fn with_requests(trials: u64, slots: usize, requests: Vec<(u64, Request)>) -> Simulation {
    let mut simulation =
        Simulation::new(spec(trials, "random", AlgorithmSpec::named("none")), slots, 9, loss);
    simulation.requests = requests;
    simulation
}

/// Agents with devices of so much memory.
pub fn with_agents(mut simulation: Simulation, memory: &[u64]) -> Simulation {
    let agent = |(index, memory): (usize, &u64)| Agent {
        name: format!("node{index}"),
        memory: *memory,
        provenance: machine(&format!("node{index}")),
        absences: Vec::new(),
    };
    simulation.spec.cluster = Some(ClusterSpec {
        start: AgentStart::Manual,
        shared_dir: None,
        listen: "127.0.0.1:0".to_owned(),
        lost_after: Duration::from_secs(120),
    });
    simulation.slots = 0;
    simulation.agents = memory.iter().enumerate().map(agent).collect();
    simulation
}

/// Trials that run on two of so many agents at a time.
pub fn on_pairs_of_agents(mut simulation: Simulation, agents: usize) -> Simulation {
    simulation.spec.devices.nodes_per_trial = 2;
    with_agents(simulation, &vec![0; agents])
}

pub fn events(turns: &[Turn]) -> impl Iterator<Item = &Event> {
    turns.iter().flat_map(|turn| &turn.events)
}

/// The requests that were served, with what was answered.
pub fn answers(run: &SimulationResult) -> Vec<(i64, RequestAnswer)> {
    let served = events(&run.turns).filter_map(|event| match event {
        Event::Study(StudyEvent::RequestServed { id, answer }) => Some((*id, answer.clone())),
        _ => None,
    });
    served.collect()
}

/// How long a run took.
pub fn seconds(run: &SimulationResult) -> f64 {
    run.turns.last().unwrap().at.since(run.turns[0].at).as_secs_f64()
}

/// The events of a run as a store would number them.
pub fn journal(run: &SimulationResult) -> Vec<StoredEvent> {
    let events =
        run.turns.iter().flat_map(|turn| turn.events.iter().map(|event| (turn.at, event.clone())));
    (1..).zip(events).map(|(seq, (at, event))| (Seq(seq), at, event)).collect()
}

/// What `verify` says of a journal.
pub fn verified(spec: &StudySpec, journal: &[StoredEvent]) -> Verified {
    let mut state = StudyState::new(spec);
    journal.iter().for_each(|(_, at, event)| state.apply(*at, event));
    verify(&[(Seq(0), spec.clone())], journal, &state, &mut |_, _| {}).unwrap()
}
