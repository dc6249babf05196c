//! What people ask of a study, against scripted workers: pauses, retries, more of everything, and
//! crashes among them.

use std::time::Duration;

use hpsearch::engine::simulator::{Fault, Simulation, SimulationResult, Turn};
use hpsearch::engine::{Engine, Input, RunOutcome};
use hpsearch::study::budget::Extension;
use hpsearch::study::event::{
    AttemptEvent, Event, ProposalEvent, RunnerEvent, StateEvent, StudyEvent, TrialEvent,
};
use hpsearch::study::params::Params;
use hpsearch::study::program::Program;
use hpsearch::study::request::{Request, RequestAnswer, Retried};
use hpsearch::study::seed::SeedTree;
use hpsearch::study::spec::{AlgorithmSpec, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{Hold, Trial, TrialNumber, TrialState};
use rand::RngExt as _;

use crate::harness::{
    answers, asha, assert_names, cases, decisions, loss, policies, spec, with_requests,
};

fn of(trial: u64) -> TrialNumber {
    TrialNumber(trial)
}

fn pause(trial: u64) -> Request {
    Request::PauseTrial { trial: of(trial) }
}

fn resume(trial: u64) -> Request {
    Request::ResumeTrial { trial: of(trial) }
}

fn more(trials: u64) -> Request {
    Request::Extend { by: Extension { trials, time: Duration::ZERO, ..Extension::default() } }
}

fn command() -> Program {
    Program::Command {
        run: vec!["train".to_owned()],
        cwd: "/".into(),
        env: Default::default(),
        args: Default::default(),
        metrics: Default::default(),
    }
}

fn refusals(run: &SimulationResult) -> Vec<String> {
    let refused = answers(run).into_iter().filter_map(|(_, answer)| match answer {
        RequestAnswer::Refused(why) => Some(why),
        RequestAnswer::Done(_) => None,
    });
    refused.collect()
}

/// The journal folds to the state; no slot has two trials and no trial two slots; what its user
/// paused holds none and is taken up by nobody else; numbers are consecutive; each request is
/// answered once.
fn assert_sound(run: &SimulationResult, simulation: &Simulation, what: &str) {
    let mut state = StudyState::new(&simulation.spec);
    let (mut created, mut on_slots, mut paused_study) =
        (0, Vec::<(TrialNumber, usize)>::new(), false);
    for turn in &run.turns {
        for event in &turn.events {
            match event {
                // A new life: what ran is lost.
                Event::Runner(RunnerEvent::Started { .. }) => {}
                Event::Study(StudyEvent::Paused { .. }) => paused_study = true,
                Event::Study(StudyEvent::Resumed { .. }) => paused_study = false,
                Event::Trial(trial, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. })) => {
                    assert_eq!(trial.0, created, "{what}");
                    created += 1;
                }
                Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Started { slot, .. })) => {
                    assert!(
                        !paused_study,
                        "{what}: trial {trial} starts while the study is paused"
                    );
                    assert!(
                        on_slots
                            .iter()
                            .all(|(other, index)| other != trial && *index != slot.index),
                        "{what}: {trial} {on_slots:?}"
                    );
                    let before = state.trial(*trial).unwrap();
                    assert_eq!(
                        (before.state, before.hold),
                        (TrialState::Queued, None),
                        "{what}: trial {trial}"
                    );
                    on_slots.push((*trial, slot.index));
                }
                Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Ended { .. })) => {
                    on_slots.retain(|(other, _)| other != trial)
                }
                Event::Trial(trial, TrialEvent::State(StateEvent::Queued { reason, .. })) => {
                    let before = state.trial(*trial).unwrap();
                    let by_its_user =
                        reason.starts_with("resumed by you") || before.state == TrialState::Running;
                    assert!(
                        before.hold.is_none() || by_its_user,
                        "{what}: {trial} was held and is queued: {reason}"
                    );
                }
                _ => {}
            }
            state.apply(turn.at, event);
            for trial in state.trials.iter().filter(|trial| trial.state == TrialState::Paused) {
                assert!(
                    on_slots.iter().all(|(other, _)| *other != trial.number),
                    "{what}: a paused trial holds a slot"
                );
            }
        }
    }
    assert_eq!(
        format!("{state:?}"),
        format!("{:?}", run.state),
        "{what}: the journal folds to the state"
    );
    let mut served: Vec<i64> = answers(run).iter().map(|(id, _)| *id).collect();
    served.sort_unstable();
    assert!(served.windows(2).all(|pair| pair[0] < pair[1]), "{what}: answered twice: {served:?}");
    let open = run.state.trials.iter().filter(|trial| trial.state == TrialState::Running).count();
    assert_eq!((open, on_slots.len()), (0, 0), "{what}: something runs after the end");
}

#[test]
fn a_paused_trial_gives_its_slot_back_and_waits_for_its_user() {
    for program in [Program::Inline, command()] {
        let mut simulation = with_requests(6, 1, vec![(2, pause(0))]);
        simulation.spec.program = program;
        let run = simulation.run(&[]).unwrap();
        assert_sound(&run, &simulation, "paused for good");
        let trial = &run.state.trials[0];
        assert_eq!((trial.state, trial.hold), (TrialState::Paused, Some(Hold::Trial)));
        assert!(trial.last().unwrap().0 <= 3, "{:?}", trial.curve);
        assert_eq!(run.state.counts.complete, 5, "the paused one keeps its place in the budget");
        assert!(
            matches!(&run.outcome, RunOutcome::Finished(why) if why.contains("hpsearch resume")),
            "{:?}",
            run.outcome
        );
        simulation.requests.push((0, resume(0)));
        let whole = simulation.run(&run.turns).unwrap();
        assert_sound(&whole, &simulation, "resumed in another run");
        assert_eq!(whole.state.counts.complete, 6);
        assert_eq!(whole.state.trials[0].curve.len(), 9, "it continued where it was");
        assert_eq!(whole.steps, 9 - u64::try_from(trial.curve.len()).unwrap());
    }
}

#[test]
fn a_trial_that_never_reports_is_asked_to_leave_when_its_user_paused_it() {
    let mut simulation = with_requests(2, 2, vec![(3, pause(0)), (3, more(1))]);
    simulation.spec.program = command();
    simulation.faults = Box::new(|trial, attempt, step| {
        (trial.0 == 0 && attempt.0 == 0 && step == 2).then_some(Fault::Hang)
    });
    let run = simulation.run(&[]).unwrap();
    assert_sound(&run, &simulation, "a hanging trial");
    assert_eq!(
        (run.state.trials[0].state, run.state.trials[0].hold),
        (TrialState::Paused, Some(Hold::Trial))
    );
    assert_eq!(run.state.counts.complete, 2);
}

#[test]
fn a_paused_study_starts_nothing_and_goes_on_where_it_was() {
    for program in [Program::Inline, command()] {
        let mut undisturbed = with_requests(5, 2, Vec::new());
        undisturbed.spec.program = program.clone();
        let undisturbed = undisturbed.run(&[]).unwrap();
        let mut simulation =
            with_requests(5, 2, vec![(4, Request::PauseStudy), (u64::MAX, Request::ResumeStudy)]);
        simulation.spec.program = program;
        let run = simulation.run(&[]).unwrap();
        assert_sound(&run, &simulation, "paused and resumed");
        assert_eq!(decisions(&run.state), decisions(&undisturbed.state));
        assert_eq!(run.steps, undisturbed.steps, "no step is done twice");
    }
}

#[test]
fn a_paused_study_stays_paused_in_the_next_run_and_its_time_stands_still() {
    let mut simulation = with_requests(40, 1, vec![(4, Request::PauseStudy)]);
    simulation.spec.budget.time = Some(Duration::from_secs(3));
    let run = simulation.run(&[]).unwrap();
    assert!(
        matches!(&run.outcome, RunOutcome::Broken(why) if why.contains("nothing is due")),
        "it waits: {:?}",
        run.outcome
    );
    let again = simulation.run(&run.turns).unwrap();
    assert_eq!((again.steps, again.state.paused.is_some()), (0, true));
    // Much later it is resumed, and has the time it had.
    let mut late = again.turns.clone();
    late.push(Turn { at: Timestamp(3_600_000_000), events: Vec::new() });
    simulation.requests.push((0, Request::ResumeStudy));
    let resumed = simulation.run(&late).unwrap();
    assert_sound(&resumed, &simulation, "resumed late");
    assert!(resumed.state.counts.complete >= 2, "{:?}", resumed.state.counts);
    assert!(
        matches!(&resumed.outcome, RunOutcome::Finished(reason) if reason.contains("time")),
        "{:?}",
        resumed.outcome
    );
}

#[test]
fn a_trial_that_waits_at_a_rung_waits_there_again_when_it_is_resumed() {
    let mut simulation = Simulation::new(spec(12, "random", asha("promote")), 1, 9, loss);
    let undisturbed = simulation.run(&[]).unwrap();
    simulation.requests = vec![(1, pause(0)), (2, resume(0))];
    let run = simulation.run(&[]).unwrap();
    assert_sound(&run, &simulation, "asha");
    assert_eq!(decisions(&run.state), decisions(&undisturbed.state));
    simulation.requests = vec![(2, resume(0))];
    let pushed = simulation.run(&[]).unwrap();
    assert_sound(&pushed, &simulation, "pushed");
    assert!(
        pushed.state.trials[0].last().unwrap().0 >= 3,
        "its user lets it continue though its pruner does not"
    );
}

#[test]
fn enqueued_points_run_next_and_all_that_is_wrong_is_told_at_once() {
    let params = |pairs: &[(&str, hpsearch::study::params::Value)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Params>()
    };
    let good = params(&[("optimizer", "sgd".into()), ("rate", 0.5.into())]);
    let bad = params(&[
        ("optimizer", "adamw".into()),
        ("momentum", 0.5.into()),
        ("rate", 7.0.into()),
        ("depth", 1.0.into()),
    ]);
    let requests =
        vec![(1, Request::Enqueue { params: good.clone() }), (1, Request::Enqueue { params: bad })];
    let simulation = with_requests(3, 1, requests);
    let run = simulation.run(&[]).unwrap();
    assert_sound(&run, &simulation, "enqueued");
    let asked = &run.state.trials[1];
    assert_eq!(asked.origin, hpsearch::study::trial::Origin::Asked);
    assert_eq!(
        (asked.params.get("rate"), asked.params.get("optimizer")),
        (good.get("rate"), good.get("optimizer"))
    );
    assert!(
        asked.params.get("momentum").is_some() && asked.params.get("layers").is_some(),
        "the rest is sampled: {}",
        asked.params
    );
    assert_eq!(run.state.trials.len(), 3, "it takes one of the budget's places");
    let [why] = &refusals(&run)[..] else { panic!("{:?}", answers(&run)) };
    assert_names(why, &["momentum", "rate", "depth"]);
}

#[test]
fn what_is_enqueued_on_a_finished_study_runs_beyond_its_budget() {
    let mut simulation = with_requests(3, 1, Vec::new());
    let run = simulation.run(&[]).unwrap();
    simulation.requests = vec![(0, Request::Enqueue { params: Params::new() })];
    let again = simulation.run(&run.turns).unwrap();
    assert_sound(&again, &simulation, "again");
    assert_eq!((again.state.counts.complete, again.state.finished.is_some()), (4, true));
}

#[test]
fn what_is_enqueued_runs_although_the_target_is_reached_and_nothing_else_does() {
    let mut simulation = with_requests(50, 2, Vec::new());
    simulation.spec.budget.target = Some(0.5);
    let run = simulation.run(&[]).unwrap();
    let before = run.state.trials.len();
    simulation.requests = vec![(0, Request::Enqueue { params: Params::new() })];
    let again = simulation.run(&run.turns).unwrap();
    assert_sound(&again, &simulation, "again");
    assert_eq!(again.state.trials.len(), before + 1);
    assert_eq!(again.state.trials[before].state, TrialState::Complete);
    assert!(
        matches!(&again.outcome, RunOutcome::Finished(reason) if reason.contains("target")),
        "{:?}",
        again.outcome
    );
}

#[test]
fn failed_trials_are_tried_again_one_or_all() {
    let mut simulation = with_requests(4, 1, Vec::new());
    simulation.spec.budget.count = hpsearch::study::budget::Count::All;
    simulation.faults = Box::new(|trial, attempt, step| {
        (trial.0 > 0 && attempt.0 == 0 && step == 3).then_some(Fault::Fail)
    });
    let run = simulation.run(&[]).unwrap();
    assert_eq!((run.state.counts.failed, run.state.counts.complete), (3, 1));
    let one = |trial| Request::Retry { trials: Retried::One(of(trial)) };
    simulation.requests = vec![
        (0, one(2)),
        (0, one(0)),
        (0, Request::Retry { trials: Retried::AllFailed }),
        (0, one(2)),
    ];
    let again = simulation.run(&run.turns).unwrap();
    assert_sound(&again, &simulation, "retried");
    assert_eq!((again.state.counts.failed, again.state.counts.complete), (0, 4));
    assert!(again.state.trials[1..].iter().all(|trial| trial.attempts == 2));
    assert_eq!(refusals(&again).len(), 2, "{:?}", answers(&again));
}

#[test]
fn an_extended_budget_counts_on_top_of_what_the_file_says() {
    let mut simulation = with_requests(
        3,
        1,
        vec![
            (2, more(2)),
            (
                2,
                Request::Extend {
                    by: Extension {
                        trials: 0,
                        time: Duration::from_secs(9),
                        ..Extension::default()
                    },
                },
            ),
        ],
    );
    let run = simulation.run(&[]).unwrap();
    assert_sound(&run, &simulation, "extended");
    assert_eq!((run.state.counts.complete, run.state.extension.trials), (5, 2));
    assert!(refusals(&run)[0].contains("budget.time"), "{:?}", refusals(&run));
    simulation.requests = Vec::new();
    assert_eq!(simulation.run(&run.turns).unwrap().steps, 0);
}

#[test]
fn a_complete_trial_goes_on_from_its_checkpoint_and_keeps_its_value_if_that_fails() {
    let further = |trial, until| Request::Continue { trial: of(trial), until };
    for fails in [false, true] {
        let mut simulation = with_requests(2, 1, Vec::new());
        simulation.spec.checkpoints.keep_best = None;
        let run = simulation.run(&[]).unwrap();
        let value = run.state.trials[0].value.unwrap();
        simulation.requests =
            vec![(0, further(0, 9)), (0, further(7, 20)), (0, further(0, 14)), (0, further(0, 15))];
        simulation.faults = Box::new(move |trial, _, step| {
            (fails && trial.0 == 0 && step == 12).then_some(Fault::Fail)
        });
        let again = simulation.run(&run.turns).unwrap();
        assert_sound(&again, &simulation, "continued");
        let trial = &again.state.trials[0];
        assert_eq!((trial.state, trial.continued, trial.attempts), (TrialState::Complete, None, 2));
        match fails {
            false => assert_eq!(
                (trial.last().unwrap().0, again.steps, trial.value < Some(value)),
                (14, 5, true)
            ),
            true => assert_eq!(
                (
                    trial.last().unwrap().0,
                    trial.value,
                    trial.reason.as_ref().unwrap().contains("continued past its end")
                ),
                (9, Some(value), true)
            ),
        }
        let why = refusals(&again);
        assert!(
            why[0].contains("has reached epoch 9")
                && why[1].contains("no trial 7")
                && why[2].contains("has not ended"),
            "{why:?}"
        );
    }
}

#[test]
fn a_pruned_trial_goes_on_where_its_pruner_has_no_say_and_without_a_checkpoint_it_is_refused() {
    let mut simulation = Simulation::new(spec(9, "random", asha("stop")), 1, 9, loss);
    simulation.spec.checkpoints.keep_best = None;
    let run = simulation.run(&[]).unwrap();
    let pruned =
        run.state.trials.iter().find(|trial| trial.state == TrialState::Pruned).unwrap().number;
    simulation.requests = vec![(0, Request::Continue { trial: pruned, until: 9 })];
    let again = simulation.run(&run.turns).unwrap();
    assert_sound(&again, &simulation, "continued");
    let trial = again.state.trial(pruned).unwrap();
    assert_eq!((trial.state, trial.last().unwrap().0), (TrialState::Complete, 9));
    // With the default only the best trials keep checkpoints.
    simulation.spec.checkpoints.keep_best = Some(3);
    simulation.requests = Vec::new();
    let run = simulation.run(&[]).unwrap();
    simulation.requests = vec![(0, Request::Continue { trial: pruned, until: 9 })];
    let refused = simulation.run(&run.turns).unwrap();
    assert_eq!(refused.steps, 0);
    assert!(refusals(&refused)[0].contains("hpsearch enqueue --from"), "{:?}", refusals(&refused));
}

#[test]
fn requests_at_rest_do_what_they_do_in_a_run() {
    let mut simulation = with_requests(4, 1, Vec::new());
    let whole = simulation.run(&[]).unwrap();
    let cut = &whole.turns[..whole.turns.len() / 2];
    let mut state = StudyState::new(&simulation.spec);
    cut.iter().for_each(|turn| turn.events.iter().for_each(|event| state.apply(turn.at, event)));
    let running =
        state.trials.iter().find(|trial| trial.state == TrialState::Running).unwrap().number;
    let at = Timestamp(9_000_000);
    let slots = vec![hpsearch::study::device::Slot::on(0, hpsearch::study::device::Device::Sim(0))];
    let mut engine = Engine::new(simulation.spec.clone(), state, slots).unwrap();
    let asked = vec![
        (70, Request::PauseTrial { trial: running }),
        (71, more(2)),
        (72, Request::Stop),
        (73, Request::PauseStudy),
    ];
    let effects = engine.serve_at_rest(at, asked);
    let events: Vec<Event> = effects
        .into_iter()
        .map(|effect| match effect {
            hpsearch::engine::Effect::Append(event) => event,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(
        !events.iter().any(|event| matches!(
            event,
            Event::Runner(RunnerEvent::Started { .. })
                | Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Started { .. }))
        )),
        "{events:?}"
    );
    let mut turns = cut.to_vec();
    turns.push(Turn { at, events });
    simulation.requests =
        vec![(0, Request::ResumeStudy), (0, Request::ResumeTrial { trial: running })];
    let run = simulation.run(&turns).unwrap();
    assert_sound(&run, &simulation, "at rest");
    assert_eq!(run.state.counts.complete, 6);
    assert_eq!(decisions(&run.state)[..4], decisions(&whole.state)[..4]);
}

#[test]
fn a_kill_that_is_not_carried_out_when_the_runner_dies_is_carried_out_by_the_next() {
    let slots = vec![hpsearch::study::device::Slot::on(0, hpsearch::study::device::Device::Sim(0))];
    let study: StudySpec = spec(2, "random", AlgorithmSpec::named("none"));
    let mut engine = Engine::new(study.clone(), StudyState::new(&study), slots).unwrap();
    engine.step(Timestamp(0), Input::Begin { pid: 1, host: "h".to_owned(), requests: Vec::new() });
    let kill = Request::Kill { trial: of(0) };
    for _ in 0..2 {
        // Asked for as long as it is not answered, it is carried out once.
        engine.step(Timestamp(1), Input::Request { id: 5, request: kill.clone() });
    }
    assert_eq!(engine.study_state().trials[0].state, TrialState::Running);
    let simulation = with_requests(2, 1, vec![(1, kill)]);
    let run = simulation.run(&[]).unwrap();
    for prefix in 0..run.turns.len() {
        let resumed = simulation.run(&run.turns[..prefix]).unwrap();
        assert_sound(&resumed, &simulation, "killed");
        assert_eq!(
            resumed.state.trials[0].reason.as_deref(),
            Some("killed on request"),
            "after {prefix} turns"
        );
    }
}

#[test]
fn a_trial_that_ends_at_the_very_moment_it_is_killed_counts_as_killed() {
    let slots = vec![hpsearch::study::device::Slot::on(0, hpsearch::study::device::Device::Sim(0))];
    let study: StudySpec = spec(2, "random", AlgorithmSpec::named("none"));
    let mut engine = Engine::new(study.clone(), StudyState::new(&study), slots).unwrap();
    let (trial, attempt) = (of(0), hpsearch::study::trial::AttemptNumber(0));
    engine.step(Timestamp(0), Input::Begin { pid: 1, host: "h".to_owned(), requests: Vec::new() });
    let metrics = [("loss".to_owned(), 0.5)].into_iter().collect();
    engine.step(Timestamp(1), Input::Report { trial, attempt, step: 1, metrics });
    engine.step(Timestamp(2), Input::Request { id: 5, request: Request::Kill { trial } });
    let end = hpsearch::study::event::AttemptEnd::Completed;
    let effects = engine.step(Timestamp(3), Input::Ended { trial, attempt, end, message: None });
    assert_eq!(engine.study_state().trials[0].state, TrialState::Failed);
    assert!(
        effects.iter().any(|effect| matches!(
            effect.event(),
            Some(Event::Study(StudyEvent::RequestServed { id: 5, .. }))
        )),
        "{effects:?}"
    );
}

/// Requests of every kind at random moments; every pause is taken back in the end.
fn random_requests(seed: u64) -> Vec<(u64, Request)> {
    let mut rng = SeedTree::new(seed).stream("requests");
    let mut requests: Vec<(u64, Request)> = (0..rng.random_range(3..12))
        .map(|_| {
            let trial = rng.random_range(0..10);
            let mut params = Params::new();
            if rng.random_bool(0.5) {
                params.insert("rate", 0.25);
            }
            let request = match rng.random_range(0..11) {
                0 => Request::PauseStudy,
                1 => Request::ResumeStudy,
                2 | 3 => pause(trial),
                4 | 5 => resume(trial),
                6 => Request::Enqueue { params },
                7 => Request::Retry {
                    trials: if rng.random_bool(0.5) {
                        Retried::One(of(trial))
                    } else {
                        Retried::AllFailed
                    },
                },
                8 => more(rng.random_range(0..3)),
                9 => Request::Continue { trial: of(trial), until: rng.random_range(8..15) },
                _ => Request::Kill { trial: of(trial) },
            };
            (rng.random_range(0..60), request)
        })
        .collect();
    requests.sort_by_key(|(after, _)| *after);
    requests.push((u64::MAX, Request::ResumeStudy));
    requests
}

#[test]
fn a_crash_at_any_turn_among_requests_changes_nothing_with_one_slot() {
    let mut kinds = 0;
    let seeds = cases(16, 60);
    for seed in 0..seeds {
        let (sampler, pruner) =
            policies().swap_remove(usize::try_from(seed).unwrap() % policies().len());
        let mut simulation = Simulation::new(spec(7, sampler, pruner), 1, 9, loss);
        simulation.spec.checkpoints.keep_best = if seed % 2 == 0 { None } else { Some(3) };
        simulation.requests = random_requests(seed);
        simulation.faults = Box::new(|trial, _, step| match (trial.0, step) {
            (2, 3) => Some(Fault::Crash),
            (4, 2) => Some(Fault::Fail),
            _ => None,
        });
        let whole = simulation.run(&[]).unwrap();
        assert_sound(&whole, &simulation, &format!("seed {seed}"));
        kinds += answers(&whole)
            .iter()
            .filter(|(_, answer)| matches!(answer, RequestAnswer::Done(_)))
            .count();
        for prefix in (0..whole.turns.len()).step_by(cases(6, 3)) {
            let what = format!(
                "seed {seed}, {sampler} {:?}, after {prefix} turns, {:?}",
                simulation.spec.pruner, simulation.requests
            );
            let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
            assert_sound(&resumed, &simulation, &what);
            let (mine, theirs) = (decisions(&resumed.state), decisions(&whole.state));
            for (number, (mine, theirs)) in mine.iter().zip(&theirs).enumerate() {
                assert_eq!(mine, theirs, "{what}: trial {number}");
            }
            assert_eq!(mine.len(), theirs.len(), "{what}");
        }
    }
    assert!(3 * kinds > 5 * usize::try_from(seeds).unwrap(), "most are carried out: {kinds}");
}

#[test]
fn crashes_again_and_again_among_requests_lose_and_double_nothing_with_several_slots() {
    for seed in 100..cases(115, 130) {
        let (sampler, pruner) =
            policies().swap_remove(usize::try_from(seed).unwrap() % policies().len());
        let mut simulation = Simulation::new(spec(8, sampler, pruner), 3, 9, loss);
        if seed % 2 == 0 {
            simulation.spec.program = command();
        }
        simulation.requests = random_requests(seed);
        let mut journal: Vec<Turn> = Vec::new();
        for lives in 1..25 {
            let run = simulation.run(&journal).unwrap();
            journal = run.turns[..run.turns.len().min(journal.len() + lives)].to_vec();
        }
        let run = simulation.run(&journal).unwrap();
        let what = format!("seed {seed}, {sampler} {:?}", simulation.spec.pruner);
        assert_sound(&run, &simulation, &what);
        let left: Vec<&Trial> =
            run.state.trials.iter().filter(|trial| !trial.state.is_finished()).collect();
        assert!(
            left.iter()
                .all(|trial| trial.state == TrialState::Paused && trial.hold == Some(Hold::Trial)),
            "{what}: {left:?}"
        );
    }
}
