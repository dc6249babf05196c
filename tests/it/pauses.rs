//! What pauses at rungs cost: the time to start a trial again is measured and priced in.

use std::collections::BTreeMap;
use std::time::Duration;

use hpsearch::engine::RunOutcome;
use hpsearch::engine::simulator::{Simulation, SimulationResult};
use hpsearch::study::decision::{Decision, PauseCost, Reason};
use hpsearch::study::event::{AttemptEnd, AttemptEvent, Event, StateEvent, TrialEvent};
use hpsearch::study::program::Program;
use hpsearch::study::spec::AlgorithmSpec;
use hpsearch::study::state::StudyState;
use hpsearch::study::trial::{Trial, TrialState};

use serde_json::json;

use crate::harness::{
    Site, asha, assert_done, assert_names, cases, decisions, events, journal, loss, pruner_named,
    seconds, spec, study as study_file, verified,
};

/// The last version that took pauses to be free.
const FREE: u32 = 6;

const STEP: Duration = Duration::from_millis(100);

fn command() -> Program {
    Program::Command {
        run: vec!["train".to_owned()],
        cwd: "/".into(),
        env: BTreeMap::new(),
        args: Default::default(),
        metrics: Default::default(),
    }
}

/// Trials of a command, with rungs 1, 3, 9 of 27 steps, each start of which takes so many steps.
fn study(trials: u64, slots: usize, start: f64) -> Simulation {
    let pruner = asha("promote").with("max_resource", 27);
    let mut simulation = Simulation::new(spec(trials, "random", pruner), slots, 27, loss);
    simulation.spec.program = command();
    (simulation.step_time, simulation.start_time) = (STEP, STEP.mul_f64(start));
    simulation
}

fn with_version(mut simulation: Simulation, version: u32) -> Simulation {
    simulation.spec.pruner.version = version;
    simulation
}

fn run(simulation: &Simulation) -> SimulationResult {
    let run = simulation.run(&[]).unwrap();
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
    assert_sound(simulation, &run);
    run
}

/// The journal folds to the state, every decision repeats, and every trial has ended.
fn assert_sound(simulation: &Simulation, run: &SimulationResult) {
    let mut folded = StudyState::new(&simulation.spec);
    run.turns.iter().for_each(|turn| {
        turn.events.iter().for_each(|event| folded.apply(turn.at, event));
    });
    assert_eq!(format!("{folded:?}"), format!("{:?}", run.state));
    assert_eq!(verified(&simulation.spec, &journal(run)).difference, None);
    assert!(run.state.trials.iter().all(|trial| trial.state.is_finished()));
}

/// Costs of the pauses that were not made, in order.
fn not_made(state: &StudyState) -> Vec<PauseCost> {
    let decided = state.trials.iter().flat_map(|trial| &trial.decisions);
    let cost = |decision: &Decision| match decision.reason() {
        Some(Reason::NotPaused { cost, .. }) => Some(*cost),
        _ => None,
    };
    decided.filter_map(|decision| cost(&decision.verdict)).collect()
}

fn pauses(run: &SimulationResult) -> usize {
    let is_pause = |event: &&Event| {
        matches!(event, Event::Trial(_, TrialEvent::State(StateEvent::Paused { .. })))
    };
    events(&run.turns).filter(is_pause).count()
}

/// Seconds until a trial has completed with that loss.
fn seconds_to(run: &SimulationResult, loss: f64) -> f64 {
    let reaches = |event: &Event| match event {
        Event::Trial(_, TrialEvent::State(StateEvent::Finished { value, .. })) => {
            value.is_some_and(|value| value <= loss)
        }
        _ => false,
    };
    let turn = run.turns.iter().find(|turn| turn.events.iter().any(reaches));
    let end = turn.map_or(f64::INFINITY, |turn| turn.at.since(run.turns[0].at).as_secs_f64());
    end.min(seconds(run) * 2.0)
}

#[test]
fn a_loss_is_reached_sooner_where_starting_again_is_dear() {
    // A restart of one and of five times the training from the first rung to the second.
    for (start, most) in [(2.0, 0.95), (10.0, 0.85)] {
        let total = |version: u32| -> f64 {
            let seconds = |seed: u64| {
                let mut simulation = with_version(study(120, 2, start), version);
                simulation.spec.seed = seed;
                seconds_to(&run(&simulation), 0.1)
            };
            (0..cases(8, 40)).map(seconds).sum()
        };
        let (priced, free) = (total(7), total(FREE));
        assert!(priced < most * free, "{start}: {priced} s, and {free} s with free pauses");
    }
}

#[test]
fn decisions_are_the_same_where_starting_again_is_cheap() {
    for slots in [1, 3] {
        for start in [0.0, 0.1] {
            let simulation = study(60, slots, start);
            let priced = run(&simulation);
            let free = run(&with_version(simulation, FREE));
            assert_eq!(decisions(&priced.state), decisions(&free.state));
            assert_eq!(priced.turns.len(), free.turns.len());
        }
    }
}

#[test]
fn the_time_to_start_again_is_measured_and_said() {
    let state = run(&study(60, 2, 4.0)).state;
    let costs = not_made(&state);
    assert!(!costs.is_empty());
    for cost in costs {
        let PauseCost::Restart { restart, training } = cost else { panic!("{cost:?}") };
        assert_eq!(restart, 400_000, "four steps of 100 ms");
        // From rung 1 to 3, from 3 to 9, and from 9 to the end.
        assert!([200_000, 600_000, 1_800_000].contains(&training), "{training}");
    }
    let words = state.trials.iter().flat_map(|trial| &trial.decisions);
    let words: Vec<String> = words.map(|decision| decision.verdict.in_words()).collect();
    let expected = "it would take 0.4s to start again, and 0.6s to train to epoch 9";
    assert!(words.iter().any(|words| words.ends_with(expected)), "{words:?}");
}

#[test]
fn a_killed_run_goes_on_with_what_was_measured() {
    for (slots, start) in [(1, 4.0), (3, 30.0)] {
        let simulation = study(30, slots, start);
        let whole = run(&simulation);
        assert!(!not_made(&whole.state).is_empty());
        for prefix in (0..whole.turns.len()).step_by(cases(7, 1)) {
            let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
            assert_sound(&simulation, &resumed);
        }
    }
}

#[test]
fn hyperband_prices_pauses_too() {
    let mut simulation = study(60, 2, 10.0);
    simulation.spec.pruner = pruner_named("hyperband")
        .with("mode", "promote")
        .with("max_resource", 27)
        .with("reduction_factor", 3);
    assert!(!not_made(&run(&simulation).state).is_empty());
    assert!(not_made(&run(&with_version(simulation, FREE)).state).is_empty());
}

#[test]
fn trials_that_save_no_checkpoints_are_stopped_or_go_on_and_never_start_over() {
    for slots in [1, 3] {
        let mut simulation = study(60, slots, 1.0);
        simulation.checkpoints = false;
        let ended = run(&simulation);
        // Those that ran when the first one left without a checkpoint.
        assert!(pauses(&ended) <= slots, "{}", pauses(&ended));
        let again = ended.state.trials.iter().filter(|trial| trial.attempts > 1).count();
        assert!(again <= slots, "{again}");
        let costs = not_made(&ended.state);
        assert!(!costs.is_empty());
        assert!(costs.iter().all(|cost| *cost == PauseCost::StartsOver), "{costs:?}");
        let ends = |state: TrialState| {
            ended.state.trials.iter().filter(move |trial| trial.state == state).count()
        };
        assert!(ends(TrialState::Pruned) > 30 && ends(TrialState::Complete) > 1);
        let free = run(&with_version(simulation, FREE));
        assert!(seconds(&ended) < seconds(&free), "no step is repeated");
    }
}

#[test]
fn a_program_that_leaves_at_its_rung_is_not_complete_and_pauses_from_then_on() {
    for slots in [1, 3] {
        let mut simulation = study(60, slots, 10.0);
        simulation.leaves = true;
        let ended = run(&simulation);
        let last = |trial: &Trial| trial.last_step();
        let complete = ended.state.trials.iter().filter(|trial| trial.value.is_some());
        assert!(complete.clone().count() > 0);
        assert!(complete.clone().all(|trial| last(trial) == Some(27)));
        let passed = not_made(&ended.state).len();
        assert!((1..=slots).contains(&passed), "{passed}");
        let is_left = |event: &&Event| {
            let end = match event {
                Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Ended { end, .. })) => end,
                _ => return false,
            };
            *end == AttemptEnd::Completed
        };
        let left = events(&ended.turns).filter(is_left).count();
        assert_eq!(left, complete.count() + passed);
    }
}

#[test]
fn what_must_not_depend_on_time_and_what_starts_no_process_is_not_priced() {
    let mut simulation = study(40, 2, 30.0);
    simulation.spec.deterministic = true;
    assert!(not_made(&run(&simulation).state).is_empty());
    let mut simulation = study(40, 2, 30.0);
    simulation.spec.program = Program::Inline;
    assert!(not_made(&run(&simulation).state).is_empty());
    let mut simulation = study(40, 2, 30.0);
    simulation.spec.pruner = AlgorithmSpec { version: 7, ..asha("stop") };
    assert!(not_made(&run(&simulation).state).is_empty());
}

/// Takes 0.4 s to start, and reports up to step 9; every trial is better than those before.
fn script(save: &str) -> String {
    format!(
        "sleep 0.4; step=0; [ -z \"$HPSEARCH_RESUME\" ] || step=$(cat \"$HPSEARCH_RESUME\")\n\
         while [ $step -lt 9 ]; do step=$((step + 1)); sleep 0.02\n{save}\
         echo \"@hpsearch {{\\\"step\\\":$step,\\\"loss\\\":$((100 - HPSEARCH_TRIAL))}}\"\n\
         read -r answer || exit 8\n\
         case \"$answer\" in *'\"stop\"'* | *'\"pause\"'*) exit 0 ;; esac; done\n"
    )
}

const PROMOTE: &str = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"asha\"\n\
                       mode = \"promote\"\nmin_resource = 1\nmax_resource = 9\n";

#[test]
fn a_command_that_starts_slowly_passes_its_rungs_and_explain_says_why() {
    let save = "echo $step > \"$HPSEARCH_CHECKPOINT_DIR/$step\"\n\
                echo \"@hpsearch {\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/$step\\\",\
                \\\"step\\\":$step}\"\n";
    let site = Site::new(&study_file("trials = 9", PROMOTE), &script(save));
    assert_done(&site.run_study());
    let explained = site.run(&["explain", "s", "8"]);
    assert_names(&explained.out, &["not paused: it would take ", "s to start again, and "]);
    assert_eq!(site.trials()[8]["attempts"], 1);
    assert_done(&site.run(&["verify", "s"]));
    site.assert_folds();
}

#[test]
fn a_command_without_checkpoints_is_not_paused_again() {
    let site = Site::new(&study_file("trials = 6", PROMOTE), &script(""));
    assert_done(&site.run_study());
    let explained = site.run(&["explain", "s", "5"]);
    assert_names(&explained.out, &["its program saves no checkpoints, and it would start over"]);
    for trial in &site.trials()[1..] {
        assert_eq!((&trial["state"], &trial["attempts"]), (&json!("complete"), &json!(1)));
    }
    assert_done(&site.run(&["verify", "s"]));
    site.assert_folds();
}
