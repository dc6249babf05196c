//! Populations: the same lineage whoever is faster and whenever the run dies, their checkpoints,
//! and their journals decided again.

mod asynchronous;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hpsearch::engine::simulator::{Fault, Simulation, SimulationResult, Turn};
use hpsearch::engine::{Engine, Input, RunOutcome};
use hpsearch::storage::{OutcomeCursor, StorageReader as _};
use hpsearch::study::budget::Extension;
use hpsearch::study::decision::Reason;
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{
    AttemptEnd, AttemptEvent, CheckpointEvent, Event, StateEvent, StudyEvent, TrialEvent,
};
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::request::{Request, RequestAnswer, Retried};
use hpsearch::study::schedule::{Stage, schedule};
use hpsearch::study::spec::{AlgorithmSpec, StudySpec, WhileRunning};
use hpsearch::study::state::StudyState;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{AttemptNumber, TrialNumber, TrialState};

use hpsearch::runner::processes;
use rustix::process::Signal;
use serde_json::Value as Json;

use crate::harness::{
    Browser, Running, Site, assert_done, assert_names, cases, journal, loss, number, pruner_named,
    study, verified,
};

const STEPS: u64 = 12;

/// A study of a command, with populations of `population` that meet at every third step.
fn spec(trials: u64, sampler: &str, population: u64) -> StudySpec {
    let pruner = pruner_named("pbt").with("population", population).with("interval", 3);
    let program = Program::Command {
        run: Vec::new(),
        cwd: PathBuf::new(),
        env: BTreeMap::new(),
        args: Default::default(),
        metrics: Default::default(),
    };
    let pruner = pruner.with("max_resource", STEPS);
    StudySpec { program, ..crate::harness::spec(trials, sampler, pruner) }
}

/// Distance from an optimum under noisy steps: what it learned matters, and so do all parameters.
fn learn(state: f64, params: &Params) -> f64 {
    let number = |name: &str| params.get(name).and_then(|value| value.as_number());
    let rate = number("rate").unwrap();
    let extra = number("momentum").unwrap_or(0.3) * 1e-3 + number("layers").unwrap() * 1e-4;
    state * (1.0 - rate).powi(2) + rate.powi(2) / 4.0 + extra
}

fn simulation(spec: StudySpec, slots: usize, pattern: u64) -> Simulation {
    let mut simulation = Simulation::new(spec, slots, STEPS, loss);
    simulation.learning = Some(Box::new(learn));
    simulation.faults = Box::new(move |trial, attempt, step| {
        match draw(pattern, trial.0 * 64 + u64::from(attempt.0), step) {
            0..20 => Some(Fault::Slow),
            20..24 if attempt.0 < 2 => Some(Fault::Crash),
            _ => None,
        }
    });
    simulation
}

/// A number from 0 to 99: another one for each `pattern`.
fn draw(pattern: u64, trial: u64, step: u64) -> u64 {
    let mixed = (pattern * 1_000_003 + trial * 7919 + step * 104_729 + 12_345)
        .wrapping_mul(6_364_136_223_846_793_005);
    (mixed >> 33) % 100
}

fn finished(simulation: &Simulation, journal: &[Turn]) -> SimulationResult {
    let run = simulation.run(journal).unwrap();
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
    run
}

/// What a trial became: its curve, and the segments with their digests.
type Fate = (Vec<(u64, u64)>, Params, Vec<(u64, u64, Option<String>, Params)>, TrialState);

fn lineage(run: &SimulationResult) -> Vec<Fate> {
    let fate = |trial: &hpsearch::study::trial::Trial| {
        let segments = trial.segments.iter().map(|segment| {
            (segment.start, segment.from.0, segment.digest.clone(), segment.replaced.clone())
        });
        let curve = trial.curve.iter().map(|(step, value)| (*step, value.to_bits())).collect();
        (curve, trial.params.clone(), segments.collect(), trial.state)
    };
    run.state.trials.iter().map(fate).collect()
}

fn copies(run: &SimulationResult) -> usize {
    run.state.trials.iter().map(|trial| trial.segments.len()).sum()
}

/// The members in the order in which their reports arrived.
fn arrivals(run: &SimulationResult) -> Vec<(u64, u64)> {
    let reported = |event: &Event| match event {
        Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Reported { step, .. })) => {
            Some((trial.0, *step))
        }
        _ => None,
    };
    run.turns.iter().flat_map(|turn| turn.events.iter().filter_map(reported)).collect()
}

/// A checkpoint from which an attempt starts was saved, and not dropped before.
fn assert_checkpoints_are_there(run: &SimulationResult) {
    let mut there: BTreeSet<PathBuf> = BTreeSet::new();
    for event in run.turns.iter().flat_map(|turn| &turn.events) {
        let Event::Trial(_, event) = event else { continue };
        match event {
            TrialEvent::Checkpoint(CheckpointEvent::Saved { path, .. }) => {
                there.insert(path.clone());
            }
            TrialEvent::Checkpoint(CheckpointEvent::Dropped { path }) => drop(there.remove(path)),
            TrialEvent::Attempt(AttemptEvent::Started { resume: Some((_, path)), .. }) => {
                assert!(there.contains(path), "{} is gone", path.display());
            }
            _ => {}
        }
    }
}

#[test]
fn a_population_has_one_lineage_whoever_is_faster_with_any_number_of_slots() {
    for sampler in ["random", "tpe", "auto"] {
        let run = |slots, pattern| finished(&simulation(spec(8, sampler, 8), slots, pattern), &[]);
        let first = run(3, 0);
        assert!(copies(&first) >= 4, "{}", copies(&first));
        assert_eq!(first.state.counts.complete, 8);
        for (slots, pattern) in [(1, 1), (2, 2), (8, 3), (11, 4), (3, 5)] {
            let other = run(slots, pattern);
            assert_eq!(lineage(&other), lineage(&first), "{sampler}, {slots} slots");
            assert_checkpoints_are_there(&other);
            let verified = verified(&spec(8, sampler, 8), &journal(&other));
            assert_eq!(verified.difference, None, "{sampler}, {slots} slots");
            assert!(verified.promotions >= 24, "{}", verified.promotions);
        }
    }
}

/// Killed 500 times at random, with other delays after each kill: `HPSEARCH_THOROUGH=1`.
#[test]
fn killed_at_random_moments_a_population_has_the_same_lineage_and_digests() {
    let study = || spec(8, "random", 8);
    let undisturbed = finished(&simulation(study(), 3, 0), &[]);
    assert!(copies(&undisturbed) >= 4);
    let (expected, mut orders) = (lineage(&undisturbed), BTreeSet::new());
    let (mut killed, mut pattern, mut compared) = (0, 1, 0);
    while killed < cases(60, 500) {
        let mut journal: Vec<Turn> = Vec::new();
        loop {
            pattern += 1;
            let slots = usize::try_from(1 + draw(pattern, 3, 3) % 5).unwrap();
            let run = finished(&simulation(study(), slots, pattern), &journal);
            let ahead = (run.turns.len() - journal.len()) as u64;
            if draw(pattern, 1, 1) < 20 || ahead < 2 {
                assert_eq!(lineage(&run), expected, "after {killed} kills");
                assert_checkpoints_are_there(&run);
                orders.insert(arrivals(&run));
                compared += 1;
                break;
            }
            killed += 1;
            let upto = journal.len() as u64 + 1 + draw(pattern, 2, 2) * 7 % (ahead - 1);
            journal = run.turns[..usize::try_from(upto).unwrap()].to_vec();
        }
    }
    println!("{killed} kills, {compared} lineages, {} orders of arrival", orders.len());
    assert!(2 * orders.len() > compared, "members arrive in few orders: {}", orders.len());
}

#[test]
fn a_crash_at_any_prefix_of_the_journal_changes_nothing() {
    for (sampler, deterministic) in [("random", false), ("tpe", true)] {
        let study = || StudySpec { deterministic, ..spec(4, sampler, 4) };
        let whole = finished(&simulation(study(), 2, 7), &[]);
        for upto in (0..whole.turns.len()).step_by(if cases(1, 2) == 1 { 3 } else { 1 }) {
            let resumed = finished(&simulation(study(), 2, 9), &whole.turns[..upto]);
            assert_eq!(lineage(&resumed), lineage(&whole), "{sampler}, {upto}");
            assert_checkpoints_are_there(&resumed);
        }
        let verified = verified(&study(), &journal(&whole));
        assert_eq!(verified.difference, None, "{sampler}");
    }
}

#[test]
fn the_schedule_of_every_member_computes_its_value() {
    let run = finished(&simulation(spec(16, "random", 8), 4, 3), &[]);
    assert!(copies(&run) > 8);
    for trial in &run.state.trials {
        for (end, value) in &trial.curve {
            let stages = schedule(|number| run.state.trial(number), trial.number, *end);
            let steps =
                |stage: &Stage| vec![stage.params.clone(); (stage.end - stage.start) as usize];
            let state =
                stages.iter().flat_map(steps).fold(1.0, |state, params| learn(state, &params));
            assert_eq!(state.to_bits(), value.to_bits(), "trial {} at {end}", trial.number);
        }
    }
}

#[test]
fn a_member_that_failed_has_left_and_one_that_is_nan_is_replaced() {
    let mut simulation = simulation(spec(4, "random", 4), 2, 0);
    simulation.spec.budget.count = hpsearch::study::budget::Count::All;
    simulation.faults = Box::new(|trial, _, step| match (trial.0, step) {
        (1, 2) => Some(Fault::Fail),
        (2, 3) => Some(Fault::NotANumber),
        _ => None,
    });
    let run = finished(&simulation, &[]);
    let state = |number| run.state.trial(TrialNumber(number)).unwrap().state;
    assert_eq!((state(1), state(2)), (TrialState::Failed, TrialState::Complete));
    let replaced = &run.state.trial(TrialNumber(2)).unwrap().segments;
    assert_eq!(replaced[0].start, 3);
    assert_eq!(run.state.counts.complete, 3);
}

#[test]
fn a_second_population_does_not_depend_on_how_far_the_first_one_is() {
    for sampler in ["tpe", "gp", "cmaes", "auto"] {
        let study = || spec(24, sampler, 8);
        let first = finished(&simulation(study(), 3, 0), &[]);
        for (slots, pattern) in [(1, 1), (11, 2), (24, 3)] {
            let other = finished(&simulation(study(), slots, pattern), &[]);
            assert_eq!(lineage(&other), lineage(&first), "{sampler}, {slots} slots");
            assert_eq!(verified(&study(), &journal(&other)).difference, None, "{sampler}");
        }
    }
}

#[test]
fn no_trial_is_created_alone_for_a_member_that_failed() {
    let study = || spec(8, "random", 4);
    let run = |slots| {
        let mut simulation = simulation(study(), slots, 0);
        simulation.faults =
            Box::new(|trial, _, step| (trial.0 == 1 && step == 2).then_some(Fault::Fail));
        finished(&simulation, &[])
    };
    let first = run(2);
    assert_eq!(first.state.trials.len(), 8);
    assert_eq!((first.state.counts.complete, first.state.counts.failed), (7, 1));
    for slots in [1, 8] {
        assert_eq!(lineage(&run(slots)), lineage(&first), "{slots} slots");
    }
    assert_eq!(verified(&study(), &journal(&first)).difference, None);
}

#[test]
fn an_interval_that_does_not_divide_the_steps_and_larger_ones_have_their_last_stage() {
    for (steps, interval) in [(11, 3), (7, 5), (12, 11)] {
        let mut study = spec(8, "random", 4);
        study.pruner = study.pruner.with("interval", interval).with("max_resource", steps);
        let mut simulation = simulation(study, 3, 2);
        simulation.steps = steps;
        let run = finished(&simulation, &[]);
        assert_eq!(run.state.counts.complete, 8, "{steps} {interval}");
        assert!(copies(&run) > 0);
        let is_whole = |trial: &hpsearch::study::trial::Trial| trial.last_step() == Some(steps);
        assert!(run.state.trials.iter().all(is_whole), "{steps} {interval}");
    }
}

/// What a user may ask for at any time: pause, resume, kill, retry, extend.
fn requests(pattern: u64) -> Vec<(u64, Request)> {
    let request = |index: u64| {
        let trial = TrialNumber(draw(pattern, index, 5) % 8);
        let request = match draw(pattern, index, 6) {
            0..20 => Request::PauseTrial { trial },
            20..50 => Request::ResumeTrial { trial },
            50..60 => Request::PauseStudy,
            60..75 => Request::ResumeStudy,
            75..82 => Request::Kill { trial },
            82..90 => Request::Retry { trials: Retried::AllFailed },
            90..95 => Request::Extend { by: Extension { trials: 4, ..Extension::default() } },
            _ => Request::Continue { trial, until: STEPS + 4 },
        };
        (draw(pattern, index, 7) * 2, request)
    };
    let mut requests: Vec<(u64, Request)> = (0..12).map(request).collect();
    requests.sort_by_key(|(after, _)| *after);
    let all = (0..8).map(TrialNumber);
    let resumed = all.map(|trial| (u64::MAX, Request::ResumeTrial { trial }));
    requests.push((u64::MAX, Request::ResumeStudy));
    requests.into_iter().chain(resumed).collect()
}

/// Whatever is asked, whatever fails and whenever it is killed: it ends, every decision is made
/// again by `verify`, and nobody continues from a checkpoint that is gone.
#[test]
fn requests_faults_and_kills_leave_a_population_that_ends_and_verifies() {
    for pattern in 0..cases(60, 1500) {
        let slots = usize::try_from(1 + draw(pattern, 3, 3) % 9).unwrap();
        let deterministic = draw(pattern, 4, 3) < 25;
        let study = || StudySpec { deterministic, ..spec(8, "auto", 4) };
        let make = |pattern: u64, slots| {
            let mut simulation = simulation(study(), slots, pattern);
            simulation.spec.retry.max = 1;
            simulation.spec.budget.failures = None;
            simulation.requests = requests(pattern);
            simulation.faults = Box::new(move |trial, attempt, step| {
                match draw(pattern, trial.0 * 64 + u64::from(attempt.0), step) {
                    0..10 => Some(Fault::Slow),
                    10..14 if attempt.0 < 2 => Some(Fault::Crash),
                    14..16 if attempt.0 < 2 => Some(Fault::Fail),
                    16..18 => Some(Fault::NotANumber),
                    _ => None,
                }
            });
            simulation
        };
        let simulation = make(pattern, slots);
        let mut run = simulation.run(&[]).unwrap();
        for kill in 0..3 {
            let upto = 1 + draw(pattern, kill, 9) * run.turns.len() as u64 / 100;
            run = simulation.run(&run.turns[..usize::try_from(upto).unwrap()]).unwrap();
        }
        assert!(!matches!(run.outcome, RunOutcome::Broken(_)), "{pattern}: {:?}", run.outcome);
        let open = run.state.trials.iter().filter(|trial| !trial.state.is_finished()).count();
        let is_held = run.state.trials.iter().any(|trial| trial.hold.is_some());
        assert!(open == 0 || is_held || run.state.finished.is_none(), "{pattern}: {open} open");
        assert_checkpoints_are_there(&run);
        let difference = verified(&simulation.spec, &journal(&run)).difference;
        assert!(difference.is_none(), "{pattern}: {difference:?}");
    }
}

/// As in a study file: a population is whole.
#[test]
fn requests_that_would_leave_a_population_incomplete_are_refused() {
    let answers = |trials: u64, requests: Vec<(u64, Request)>| {
        let mut simulation = simulation(spec(trials, "random", 4), 2, 0);
        simulation.spec.budget.time = Some(Duration::from_secs(1 << 20));
        simulation.requests = requests;
        let run = finished(&simulation, &[]);
        let answers = run.turns.iter().flat_map(|turn| &turn.events).filter_map(|event| {
            let Event::Study(StudyEvent::RequestServed { answer, .. }) = event else { return None };
            Some(answer.clone())
        });
        (answers.collect::<Vec<_>>(), run.state.counts.complete)
    };
    let more = |trials| Request::Extend { by: Extension { trials, ..Extension::default() } };
    let params: Params = [("rate".to_owned(), 0.5.into())].into_iter().collect();
    let alone = Request::Enqueue { params };
    let (answered, complete) = answers(8, vec![(0, more(3)), (40, alone), (40, more(4))]);
    let [incomplete, alone, whole] = answered.try_into().unwrap();
    let refused = |answer: &RequestAnswer, why: &str| match answer {
        RequestAnswer::Refused(said) => said.contains(why),
        RequestAnswer::Done(_) => false,
    };
    let why = "11 trials do not form populations of 4: say `--trials 4`";
    assert!(refused(&incomplete, why), "{incomplete:?}");
    assert!(refused(&alone, "`hpsearch extend --trials 4`"), "{alone:?}");
    assert!(matches!(whole, RequestAnswer::Done(_)), "{whole:?}");
    assert_eq!(complete, 12);
    // Where an earlier version left one incomplete, more time is no matter of trials.
    let time = Extension { time: Duration::from_secs(9), ..Extension::default() };
    let (answered, _) = answers(7, vec![(0, Request::Extend { by: time })]);
    assert!(matches!(answered[..], [RequestAnswer::Done(_)]), "{answered:?}");
}

#[test]
fn a_population_whose_study_gets_another_pruner_keeps_what_its_members_continue_from() {
    let whole = finished(&simulation(spec(4, "random", 4), 1, 0), &[]);
    let is_copy = |turn: &Turn| {
        let mut events = turn.events.iter();
        events.any(|event| {
            matches!(event, Event::Trial(_, TrialEvent::State(StateEvent::Cloned { .. })))
        })
    };
    let mut tried = 0;
    for upto in (1..whole.turns.len()).filter(|upto| is_copy(&whole.turns[upto - 1])) {
        let mut other = simulation(spec(4, "random", 4), 1, 0);
        other.spec.pruner = pruner_named("none");
        let run = finished(&other, &whole.turns[..upto]);
        assert_checkpoints_are_there(&run);
        let started = run.turns[upto..].iter().flat_map(|turn| &turn.events);
        let from_the_start = started.filter(|event| {
            matches!(
                event,
                Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Started { resume: None, .. }))
            )
        });
        assert_eq!(from_the_start.count(), 0, "after {upto} turns");
        tried += 1;
    }
    assert!(tried > 1, "{tried}");
}

#[test]
fn a_study_whose_populations_change_in_the_middle_goes_on_to_its_end() {
    let whole = finished(&simulation(spec(8, "random", 4), 3, 0), &[]);
    let changes: [fn(AlgorithmSpec) -> AlgorithmSpec; 5] = [
        |pruner| pruner.with("population", 2),
        |pruner| pruner.with("population", 8),
        |pruner| pruner.with("interval", 2),
        |pruner| pruner.with("interval", 5),
        |pruner| pruner.with("population", 8).with("interval", 1).with("frequencies", vec![1, 4]),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        for upto in (1..whole.turns.len()).step_by(cases(17, 1)) {
            let mut other = simulation(spec(8, "random", 4), 2, 1);
            other.spec.pruner = change(other.spec.pruner);
            let run = finished(&other, &whole.turns[..upto]);
            assert_eq!(run.state.counts.complete, 8, "change {index} after {upto} turns");
            assert_checkpoints_are_there(&run);
        }
    }
}

/// A checkpoint beyond the step at which its trial took over another's is of a path that the trial
/// has left.
#[test]
fn a_member_does_not_continue_from_a_checkpoint_of_the_path_that_it_left() {
    let spec = spec(2, "random", 2);
    let slots = (0..2).map(|index| Slot::on(index, Device::Cpu)).collect();
    let mut engine = Engine::new(spec.clone(), StudyState::new(&spec), slots).unwrap();
    let mut at = 0;
    let mut step = |engine: &mut Engine, input| {
        at += 1;
        engine.step(Timestamp(at), input)
    };
    let (pid, host) = (1, "h".to_owned());
    step(&mut engine, Input::Begin { pid, host, requests: Vec::new() });
    let path = |trial: u64, step: u64, path: &str| PathBuf::from(format!("/{trial}/{step}{path}"));
    let saved = |trial: u64, attempt, step: u64| Input::Checkpoint {
        trial: TrialNumber(trial),
        attempt: AttemptNumber(attempt),
        step,
        path: path(trial, step, ""),
        bytes: None,
        system: None,
        digest: Some(format!("{trial}@{step}")),
    };
    let reported = |trial: u64, attempt, step: u64, loss: f64| Input::Report {
        trial: TrialNumber(trial),
        attempt: AttemptNumber(attempt),
        step,
        metrics: [("loss".to_owned(), loss)].into_iter().collect(),
    };
    let paused = |trial: u64| Input::Ended {
        trial: TrialNumber(trial),
        attempt: AttemptNumber(0),
        end: AttemptEnd::Paused,
        message: None,
    };
    for (trial, loss) in [(0, 0.9), (1, 0.1)] {
        step(&mut engine, saved(trial, 0, 3));
        step(&mut engine, reported(trial, 0, 3, loss));
    }
    // Trial 0 saves once more after it was told to pause.
    step(&mut engine, saved(0, 0, 4));
    step(&mut engine, paused(0));
    step(&mut engine, paused(1));
    let trial = engine.study_state().trial(TrialNumber(0)).unwrap().clone();
    assert_eq!(trial.segments.len(), 1, "it was replaced");
    assert!(trial.checkpoints.iter().all(|saved| saved.step <= 3), "{:?}", trial.checkpoints);
    // It reports step 4, and is lost before it saves: the other's checkpoint is still the one.
    step(&mut engine, reported(0, 1, 4, 0.2));
    let trial = engine.study_state().trial(TrialNumber(0)).unwrap();
    assert_eq!(trial.resumable_checkpoint(), None);
    assert_eq!(engine.study_state().donor_checkpoint(trial).unwrap().1.path, path(1, 3, ""));
}

#[test]
fn programs_without_checkpoints_have_no_populations() {
    let unsuitable = StudySpec { program: Program::Inline, ..spec(4, "random", 4) };
    let slots = vec![Slot::on(0, Device::Cpu)];
    let error = Engine::new(unsuitable.clone(), StudyState::new(&unsuitable), slots);
    let said = error.err().unwrap().to_string();
    assert!(said.contains("`pbt` cannot serve this study"), "{said}");
    let asked = crate::harness::spec(4, "random", unsuitable.pruner);
    assert!(Engine::on_demand(asked.clone(), StudyState::new(&asked)).is_err());
    let init = r#"{"cmd":"init","space":[{"name":"x","type":"float","low":0,"high":1}],
        "pruner":{"type":"pbt","interval":2}}"#;
    let mut answers = Vec::new();
    hpsearch::ask_tell::serve(init.replace('\n', " ").as_bytes(), &mut answers).unwrap();
    let said = String::from_utf8(answers).unwrap();
    assert!(said.contains("`pbt` cannot serve this study"), "{said}");
}

#[test]
fn sub_populations_and_the_model_have_one_lineage_and_verify() {
    let with_frequencies = || {
        let study = spec(16, "random", 16);
        let pruner = study.pruner.clone().with("interval", 2).with("frequencies", vec![1, 2, 4, 5]);
        StudySpec { pruner, ..study }
    };
    let with_model = || {
        let study = spec(16, "auto", 8);
        let pruner = study.pruner.clone().with("interval", 2).with("model", true);
        StudySpec { pruner, ..study }
    };
    let studies: [&dyn Fn() -> StudySpec; 2] = [&with_frequencies, &with_model];
    for study in studies {
        let whole = finished(&simulation(study(), 3, 0), &[]);
        for (slots, pattern) in [(1, 1), (16, 2)] {
            let other = finished(&simulation(study(), slots, pattern), &[]);
            assert_eq!(lineage(&other), lineage(&whole), "{slots} slots");
        }
        for upto in (0..whole.turns.len()).step_by(cases(23, 11)) {
            let resumed = finished(&simulation(study(), 2, 9), &whole.turns[..upto]);
            assert_eq!(lineage(&resumed), lineage(&whole), "{upto}");
            assert_checkpoints_are_there(&resumed);
        }
        assert_eq!(verified(&study(), &journal(&whole)).difference, None);
    }
    let migrated = finished(&simulation(with_frequencies(), 3, 0), &[]);
    let segments = migrated.state.trials.iter().flat_map(|trial| &trial.segments);
    let migrations = segments.filter(|segment| matches!(segment.reason, Reason::Migrated { .. }));
    assert!(migrations.count() > 4);
}

/// A command that learns: its checkpoint holds step and state.
const LEARNS: &str = r#"
step=0; state=1
[ -z "$HPSEARCH_RESUME" ] || read -r step state < "$HPSEARCH_RESUME" || exit 9
echo "$HPSEARCH_TRIAL $step ${HPSEARCH_CLONED_FROM:-none} $1" >> starts
echo $$ > "process-$HPSEARCH_TRIAL"
while [ $step -lt 6 ]; do
  step=$((step + 1))
  state=$(awk "BEGIN { printf \"%.12g\", $state * (1 - $1) + $1 * $1 / 4 }")
  echo "$step $state" > "$HPSEARCH_CHECKPOINT_DIR/part"
  mv "$HPSEARCH_CHECKPOINT_DIR/part" "$HPSEARCH_CHECKPOINT_DIR/$step"
  echo "@hpsearch {\"checkpoint\":\"$HPSEARCH_CHECKPOINT_DIR/$step\",\"step\":$step}"
  echo "@hpsearch {\"step\":$step,\"loss\":$state}"
  read -r answer || exit 8
  case "$answer" in *'"stop"'* | *'"pause"'*) exit 0 ;; esac
done
"#;

fn learning_site() -> Site {
    learning_site_with("")
}

fn learning_site_with(further: &str) -> Site {
    learning_site_on(2, further, LEARNS)
}

fn learning_site_on(slots: u64, further: &str, program: &str) -> Site {
    let pruner = "[pruner]\ntype = \"pbt\"\npopulation = 4\ninterval = 2\nmax_resource = 6\n";
    let devices = format!("[devices]\nuse = [\"sim:0..{slots}\"]\n");
    let rest = format!("{pruner}{devices}[checkpoints]\nkeep = \"best-1\"\n{further}");
    Site::new(&study("trials = 4", &rest), program)
}

/// A site whose members are killed, with another number of slots and other speeds for each `round`:
/// of each member, attempt and step.
fn uneven_learning_site(round: u64) -> Site {
    let [slots, member, attempt] = [21, 22, 23].map(|index| draw(round, index, index));
    let pace = format!("HPSEARCH_TRIAL * {member} + HPSEARCH_ATTEMPT * {attempt} + step");
    let waits = format!("  sleep 0.0$((({pace}) % 7))\n  step=$((step + 1))\n");
    let retries = "[retry]\nmax = 1000\non = [\"worker_lost\"]\n";
    let program = LEARNS.replace("  step=$((step + 1))\n", &waits);
    learning_site_on(2 + slots % 3, retries, &program)
}

/// What does not depend on time, of all trials.
fn members(site: &Site) -> Vec<Json> {
    let listed = site.run(&["trials", "s", "--sort", "number", "--json"]);
    assert_done(&listed);
    let keys = ["number", "state", "value", "last_value", "params", "segments"];
    let trials = listed.json::<Json>()["trials"].as_array().unwrap().clone();
    let member = |trial: &Json| keys.map(|key| (key, trial[key].clone())).into_iter().collect();
    trials.iter().map(|trial| Json::Object(keyed(member(trial)))).collect()
}

fn keyed(pairs: BTreeMap<&str, Json>) -> serde_json::Map<String, Json> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[test]
fn commands_continue_from_the_checkpoints_of_others_with_new_parameters() {
    let site = learning_site();
    assert_done(&site.run(&["run", "study.toml", "--plain"]));
    let members = members(&site);
    let copies: Vec<(&Json, &Json)> = members
        .iter()
        .flat_map(|trial| {
            trial["segments"].as_array().into_iter().flatten().map(move |s| (trial, s))
        })
        .collect();
    assert_eq!(copies.len(), 2, "{members:?}");
    let starts = site.read("starts");
    let copied = copies[0].0["number"].clone();
    for (trial, segment) in copies {
        let (number, from, start) = (&trial["number"], &segment["from"], &segment["start"]);
        assert_eq!(segment["digest"].as_str().unwrap().len(), 64);
        let started = format!("{number} {start} {from} ");
        assert!(starts.contains(&started), "{started}: {starts}");
    }
    let verified = site.run(&["verify", "s"]);
    assert_done(&verified);
    let explained = site.run(&["explain", "s", "0"]);
    assert_names(&explained.out, &["schedule", "family", "trial 0 from the start"]);
    // The same lines on the page and in `show`.
    let (browser, copied) = (Browser::start(&site, &[]), copied.to_string());
    let page = browser.json(&format!("/api/trial?study=s&trial={copied}"));
    let shown = site.run(&["show", "s", &copied]).out;
    let lines = |key: &str| -> Vec<String> { serde_json::from_value(page[key].clone()).unwrap() };
    assert_eq!(lines("schedule").len(), 2, "{page}");
    let tree = lines("family");
    assert!(tree.len() > 4 && tree.iter().any(|line| line.starts_with("  trial ")), "{tree:?}");
    lines("schedule").iter().chain(&tree).for_each(|line| assert_names(&shown, &[line.trim()]));
    // Only the best trial's best checkpoint is left.
    let left = site.run(&["best", "s", "--json"]).json::<Json>();
    assert!(PathBuf::from(left["trial"]["checkpoint"].as_str().unwrap()).exists());
}

/// A member that measured its best value before it took over another's checkpoint.
fn site_of_an_early_best() -> Site {
    let print = "echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$state}\"";
    assert!(LEARNS.contains(print));
    let early = "shown=$state; case $HPSEARCH_TRIAL/$step in 0/1) shown=0.0001 ;; 0/2) shown=9 ;; \
                 esac\n  echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$shown}\"";
    let rest = "[pruner]\ntype = \"pbt\"\npopulation = 4\ninterval = 2\nmax_resource = 6\n\
                [devices]\nuse = [\"sim:0..2\"]\n";
    Site::new(&study("trials = 4", rest), &LEARNS.replace(print, early))
}

#[test]
fn a_value_is_shown_with_the_parameters_that_it_was_measured_with() {
    let site = site_of_an_early_best();
    assert_done(&site.run(&["run", "study.toml", "--plain"]));
    let best = site.json(&["best", "s", "--json"])["trial"].clone();
    assert_eq!((best["number"].as_u64(), best["value"].as_f64()), (Some(0), Some(0.0001)));
    let segment = &best["segments"][0];
    let first = segment["replaced"].clone();
    assert_ne!(first, segment["params"], "it took over another's parameters: {best}");
    assert_eq!(best["params"], first);
    let first = first["x"].as_f64().unwrap().to_string();
    let explained = site.run(&["explain", "s", "0"]).out;
    assert_names(&explained, &["schedule\n  steps 0 to 1, trial 0: x="]);
    assert_eq!(site.json(&["trials", "s", "--json"])["trials"][0]["params"], best["params"]);
    assert_names(&site.run(&["best", "s"]).out, &[&format!("\nx = {first}")]);
    assert_names(&site.run(&["best", "s", "--command"]).out, &[&first]);
    assert_done(&site.run(&["export-data", "s", "-o", "all.csv"]));
    let row = site.read("all.csv").lines().find(|line| line.starts_with("0,")).unwrap().to_owned();
    assert_names(&row, &[&first]);
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    assert_names(&site.read("model/best.toml"), &[&format!("x = {first}")]);
    assert_names(&site.read("model/README.md"), &[&format!("| x | {first} |")]);
    assert_names(&site.read("model/README.md"), &[&format!("| 0 | 0.0001 | {first} |")]);
    assert_done(&site.run(&["report", "s", "--markdown", "-o", "report.md"]));
    assert_names(&site.read("report.md"), &[&format!("x = {first}")]);
}

/// What filters, sort keys and the importance of parameters read is what tables show.
#[test]
fn trials_are_selected_and_sorted_by_the_parameters_that_are_shown() {
    let site = site_of_an_early_best();
    assert_done(&site.run(&["run", "study.toml", "--plain"]));
    let trials = site.json(&["trials", "s", "--json"])["trials"].as_array().unwrap().clone();
    let shown: BTreeMap<u64, f64> = trials
        .iter()
        .map(|trial| (trial["number"].as_u64().unwrap(), trial["params"]["x"].as_f64().unwrap()))
        .collect();
    let first = trials.iter().find(|trial| trial["number"] == 0).unwrap();
    let last = first["segments"].as_array().unwrap().last().unwrap()["params"]["x"].as_f64();
    assert_ne!(Some(shown[&0]), last, "it has others now");
    let selected = |words: &[&str]| -> Vec<u64> {
        let found = site.json(&[&["trials", "s", "--json"], words].concat());
        let numbers = found["trials"].as_array().unwrap().iter();
        numbers.map(|trial| trial["number"].as_u64().unwrap()).collect()
    };
    for border in shown.values() {
        for (condition, is_met) in [
            (format!("x >= {border}"), f64::ge as fn(&f64, &f64) -> bool),
            (format!("x < {border}"), f64::lt),
            (format!("x = {border}"), f64::eq),
        ] {
            let expected: Vec<u64> = shown
                .iter()
                .filter_map(|(number, x)| is_met(x, border).then_some(*number))
                .collect();
            let mut found = selected(&["--where", &condition]);
            found.sort_unstable();
            assert_eq!(found, expected, "{condition}");
        }
    }
    let mut sorted: Vec<u64> = shown.keys().copied().collect();
    sorted.sort_by(|a, b| shown[a].total_cmp(&shown[b]));
    assert_eq!(selected(&["--sort", "x"]), sorted);
    let store = site.store();
    let study = store.study("s").unwrap().unwrap().id;
    let outcomes = store.outcomes(study, OutcomeCursor::default()).unwrap().0;
    let read: BTreeMap<u64, f64> =
        outcomes.iter().map(|one| (one.number.0, number(&one.params, "x"))).collect();
    assert_eq!(read, shown);
}

#[test]
fn the_report_has_the_schedule_of_a_best_trial_that_took_over_another() {
    let stages_of_best = |seed: u64| {
        let site = learning_site();
        assert_done(&site.run(&["run", "study.toml", "--set", &format!("study.seed={seed}")]));
        let best = site.json(&["best", "s", "--json"])["trial"]["number"].to_string();
        let explained = site.json(&["explain", "s", &best, "--json"]);
        (explained["family"]["schedule"].as_array().unwrap().len(), site)
    };
    let (stages, site) = (1..20).map(stages_of_best).find(|(stages, _)| *stages > 1).unwrap();
    assert_done(&site.run(&["report", "s", "--markdown", "-o", "report.md"]));
    assert_eq!(site.read("report.md").matches("schedule: steps ").count(), stages);
    assert_names(&site.read("report.md"), &["those of the last stage"]);
    let last = format!("those of the last of {stages} stages");
    let printed = site.run(&["best", "s"]).out;
    assert_names(&printed, &[&last, "hpsearch explain s"]);
    assert_eq!(printed.matches("# schedule: steps ").count(), stages);
    assert!(toml::from_str::<toml::Table>(&printed).is_ok(), "{printed}");
    assert_names(&site.run(&["best", "s", "--command"]).err, &[&last]);
    assert_done(&site.run(&["export", "s", "-o", "model"]));
    let card = format!("parameters of the last of {stages} stages");
    assert_names(&site.read("model/README.md"), &[&card]);
    let trained = site.run(&["train", "model/best.toml"]);
    assert_names(&trained.err, &["of a command", "[[schedule]]"]);
    // The figure has the steps at which the members met.
    let figure = site.json(&["plot", "rungs", "s", "--json"]);
    let names = figure["charts"][0]["x"]["names"].as_array().unwrap().clone();
    let names: Vec<&Json> = names.iter().map(|pair| &pair[1]).collect();
    assert_eq!(names, ["2", "4", "6"]);
}

#[test]
fn a_population_of_commands_that_is_killed_again_and_again_has_the_same_lineage() {
    let whole = learning_site();
    assert_done(&whole.run(&["run", "study.toml", "--plain"]));
    let expected = members(&whole);
    for round in 0..cases(2, 12) {
        let site = learning_site();
        for strike in 0..6_u64 {
            let mut running = Running::start(site.command(&["run", "study.toml", "--plain", "-q"]));
            let moment = Instant::now() + Duration::from_millis(100 + draw(round, strike, 0) * 9);
            while Instant::now() < moment && !running.has_ended() {
                std::thread::sleep(Duration::from_millis(5));
            }
            running.kill();
        }
        assert_done(&site.run(&["run", "study.toml", "--plain"]));
        assert_eq!(members(&site), expected, "round {round}");
        assert_done(&site.run(&["verify", "s"]));
    }
}

/// Kills the process of a trial, if it runs.
fn kill_member(site: &Site, trial: u64) -> bool {
    let written = std::fs::read_to_string(site.path(&format!("process-{trial}")));
    let Some(id) = written.ok().and_then(|id| id.trim().parse::<u32>().ok()) else { return false };
    // Another process may have this number by now, even one that the same trial started.
    let directory = std::fs::read_link(format!("/proc/{id}/cwd"));
    let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    if directory.ok() != site.path(".").canonicalize().ok() || !command.starts_with(b"sh\0") {
        return false;
    }
    processes::signal(id, Signal::KILL);
    true
}

/// Members are killed as well as their runner, at moments that nobody chose, 500 times with
/// `HPSEARCH_THOROUGH=1`.
#[test]
fn members_and_runners_that_are_killed_at_random_leave_the_lineage_and_its_digests() {
    let whole = learning_site();
    assert_done(&whole.run(&["run", "study.toml", "--plain"]));
    let (expected, mut orders) = (members(&whole), BTreeSet::new());
    let (mut killed_members, mut killed_runners, mut round) = (0, 0, 0);
    while killed_members + killed_runners < cases(20, 500) {
        round += 1;
        let site = uneven_learning_site(round);
        let start = || Running::start(site.command(&["run", "study.toml", "--plain", "-q"]));
        let mut running = start();
        for strike in 0..40 {
            let moment = Instant::now() + Duration::from_millis(10 + draw(round, strike, 1));
            while Instant::now() < moment && !running.has_ended() {
                std::thread::sleep(Duration::from_millis(2));
            }
            if running.has_ended() {
                break;
            }
            // On a busy machine its members may not have started.
            if draw(round, strike, 2) < 15 && killed_runners <= killed_members {
                running.kill();
                killed_runners += 1;
                running = start();
            } else {
                killed_members += u32::from(kill_member(&site, draw(round, strike, 3) % 4));
            }
        }
        drop(running.end());
        assert_done(&site.run(&["run", "study.toml", "--plain"]));
        assert_eq!(members(&site), expected, "round {round}");
        assert_done(&site.run(&["verify", "s"]));
        orders.insert(site.read("starts"));
    }
    let orders = orders.len();
    println!("{killed_members} members and {killed_runners} runners killed in {round} rounds");
    assert!(killed_members > 0 && killed_runners > 0, "{killed_members} {killed_runners}");
    assert!(2 * orders > round as usize, "{orders} orders of starts in {round} rounds");
}
