//! Decisions that do not depend on who is faster, several runs of a configuration, races, and
//! deciding a journal again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hpsearch::analysis::forecast::{Situation, forecast};
use hpsearch::engine::RunOutcome;
use hpsearch::engine::simulator::{Fault, Simulation, SimulationResult, Turn};
use hpsearch::engine::verify::{StoredEvent, verify};
use hpsearch::study::budget::Extension;
use hpsearch::study::configuration::{self, ConfigurationRun};
use hpsearch::study::decision::Decision;
use hpsearch::study::device::{Device, Slot};
use hpsearch::study::event::{
    DecisionEvent, Event, FinalistsEvent, ProposalEvent, Seq, StateEvent, StudyEvent, TrialEvent,
};
use hpsearch::study::front::Front;
use hpsearch::study::goal::Goal;
use hpsearch::study::prediction::Prediction;
use hpsearch::study::program::Program;
use hpsearch::study::request::Request;
use hpsearch::study::spec::{AlgorithmSpec, Duplicates, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::trial::{Origin, Trial, TrialNumber, TrialState};
use hpsearch::study::usage::Used;

use crate::harness::{
    Site, asha, assert_code, assert_done, assert_names, cases, decisions, journal, loss,
    pruner_named, run, verified,
};

/// A study of a command: the values of its trials come from reports alone.
fn spec(trials: u64, sampler: &str, pruner: AlgorithmSpec) -> StudySpec {
    of_command(crate::harness::spec(trials, sampler, pruner))
}

fn studies(trials: u64) -> Vec<StudySpec> {
    crate::harness::studies(trials).into_iter().map(of_command).collect()
}

fn of_command(spec: StudySpec) -> StudySpec {
    let program = Program::Command {
        run: Vec::new(),
        cwd: PathBuf::new(),
        env: BTreeMap::new(),
        args: Default::default(),
        metrics: Default::default(),
    };
    StudySpec { program, ..spec }
}

/// A number from 0 to 99 for a trial's step: another one for each `pattern`.
fn draw(pattern: u64, trial: u64, step: u64) -> u64 {
    let mixed = (pattern * 1_000_003 + trial * 7919 + step * 104_729 + 12_345)
        .wrapping_mul(6_364_136_223_846_793_005);
    (mixed >> 33) % 100
}

/// A study whose workers are slow at other places in each pattern, and die at the same ones.
fn uneven(study: StudySpec, slots: usize, pattern: u64) -> Simulation {
    let mut simulation = Simulation::new(study, slots, 9, loss);
    simulation.faults = Box::new(move |trial, attempt, step| match (trial.0, attempt.0, step) {
        (4, 0, 3) => Some(Fault::Crash),
        (7, _, 2) => Some(Fault::Fail),
        (9, _, 4) => Some(Fault::NotANumber),
        _ if draw(pattern, trial.0, step) < 25 => Some(Fault::Slow),
        _ => None,
    });
    simulation
}

fn deterministic(trials: u64, sampler: &str, pruner: AlgorithmSpec) -> StudySpec {
    StudySpec { deterministic: true, ..spec(trials, sampler, pruner) }
}

/// The policies of a study.
fn named(spec: &StudySpec) -> String {
    format!("{:?} {:?} {}", spec.sampler, spec.pruner, spec.objectives.len())
}

fn assert_repeats(simulation: &Simulation, run: &SimulationResult, what: &str) {
    let verified = verified(&simulation.spec, &journal(run));
    assert_eq!(verified.difference, None, "{what}");
    assert!(verified.proposals > 0 && verified.versions.is_empty());
}

#[test]
fn a_deterministic_study_decides_the_same_whoever_is_faster() {
    for spec in studies(14) {
        let of = |slots, pattern| {
            let spec = StudySpec { deterministic: true, ..spec.clone() };
            let simulation = uneven(spec, slots, pattern);
            let run = simulation.run(&[]).unwrap();
            assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
            assert_repeats(&simulation, &run, &named(&simulation.spec));
            decisions(&run.state)
        };
        let first = of(3, 0);
        for pattern in 1..5 {
            assert_eq!(of(3, pattern), first, "{}, pattern {pattern}", named(&spec));
        }
    }
}

#[test]
fn without_it_who_is_faster_does_decide() {
    let of = |pattern| {
        decisions(&uneven(spec(14, "tpe", asha("stop")), 3, pattern).run(&[]).unwrap().state)
    };
    assert!((1..5).any(|pattern| of(pattern) != of(0)), "otherwise the other tests say nothing");
}

#[test]
fn a_deterministic_study_that_dies_at_any_turn_decides_the_same_with_other_speeds_and_fewer_slots()
{
    for (sampler, pruner) in
        [("tpe", asha("stop")), ("tpe", asha("promote")), ("random", pruner_named("median"))]
    {
        let study = deterministic(12, sampler, pruner);
        let whole = uneven(study.clone(), 3, 0).run(&[]).unwrap();
        for prefix in (1..whole.turns.len()).step_by(cases(4, 1)) {
            let slots = 1 + prefix % 3;
            let simulation = uneven(study.clone(), slots, prefix as u64);
            let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
            assert_eq!(
                decisions(&resumed.state),
                decisions(&whole.state),
                "{sampler} {:?} after {prefix} turns on {slots}",
                study.pruner
            );
            assert_repeats(&simulation, &resumed, "resumed");
        }
    }
}

#[test]
fn a_deterministic_study_reaches_its_goals_whoever_is_faster() {
    let of = |pattern| {
        let mut study = deterministic(60, "tpe", asha("stop"));
        study.budget.target = Some(0.25);
        study.budget.patience = Some(12);
        let run = uneven(study, 4, pattern).run(&[]).unwrap();
        let RunOutcome::Finished(reason) = run.outcome else { panic!("{:?}", run.outcome) };
        (decisions(&run.state), reason)
    };
    let first = of(0);
    assert!(first.0.len() < 60, "{}", first.1);
    for pattern in 1..5 {
        assert_eq!(of(pattern), first);
    }
}

fn replicated(trials: u64, replicates: u32) -> Simulation {
    let mut study = spec(trials, "tpe", asha("stop"));
    study.replicates = replicates;
    let mut simulation = Simulation::new(study, 1, 9, loss);
    simulation.luck = 0.2;
    simulation
}

#[test]
fn each_configuration_that_completes_has_its_replicates_and_the_best_mean_is_the_best() {
    let mut simulation = replicated(40, 3);
    simulation.slots = 3;
    let run = simulation.run(&[]).unwrap();
    let counts = run.state.counts;
    assert!(counts.total() <= 40 && counts.total() > 35, "the budget counts runs: {counts:?}");
    let first_runs: Vec<&Trial> =
        run.state.trials.iter().filter(|trial| trial.origin.configuration().is_none()).collect();
    for first in &first_runs {
        let runs: Vec<&Trial> = run
            .state
            .trials
            .iter()
            .filter(|trial| trial.origin == Origin::Replicate(first.number))
            .collect();
        assert_eq!(
            runs.len(),
            if first.state == TrialState::Complete { 2 } else { 0 },
            "trial {}",
            first.number
        );
        assert!(
            runs.iter().all(|run| run.params == first.params && run.state == TrialState::Complete)
        );
        assert!(runs.iter().all(|run| run.value != first.value), "another seed, another value");
    }
    let best = run.state.best().unwrap();
    let mean_of = |number: TrialNumber| {
        let runs =
            run.state.trials.iter().filter(|trial| {
                trial.number == number || trial.origin == Origin::Replicate(number)
            });
        runs.map(|trial| trial.value.unwrap()).sum::<f64>() / 3.0
    };
    assert!((run.state.best_value().unwrap() - mean_of(best.number)).abs() < 1e-12);
    let complete = first_runs.iter().filter(|first| first.state == TrialState::Complete);
    assert!(complete.clone().count() > 3);
    assert!(complete.into_iter().all(|first| mean_of(first.number) >= mean_of(best.number)));
    assert_repeats(&simulation, &run, "replicates");
}

#[test]
fn samplers_see_one_point_with_the_mean_and_pruners_no_replicates() {
    let run = replicated(30, 3).run(&[]).unwrap();
    let seen = configuration::for_samplers(&run.state.trials, 3);
    assert!(seen.iter().all(|trial| trial.origin.configuration().is_none()));
    assert_eq!(
        seen.iter().map(|trial| trial.number.0).collect::<Vec<_>>(),
        (0..seen.len() as u64).collect::<Vec<_>>()
    );
    let ranked = configuration::ranked(
        run.state.trials.iter().map(ConfigurationRun::from),
        run.state.direction(),
        3,
    );
    let mut means: Vec<f64> = seen.iter().filter_map(|trial| trial.value).collect();
    means.sort_by(f64::total_cmp);
    assert_eq!(means, ranked.iter().map(|(_, statistics)| statistics.mean).collect::<Vec<_>>());
    let judged = configuration::for_pruners(&run.state.trials);
    assert!(judged.iter().all(|trial| trial.origin.is_judged() || trial.curve.is_empty()));
}

#[test]
fn a_replicated_study_that_dies_at_any_turn_has_the_same_runs() {
    for deterministic in [false, true] {
        let mut simulation = replicated(18, 2);
        simulation.spec.deterministic = deterministic;
        simulation.spec.race = 2;
        let whole = simulation.run(&[]).unwrap();
        for prefix in (usize::from(deterministic)..whole.turns.len()).step_by(cases(4, 1)) {
            let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
            assert_eq!(decisions(&resumed.state), decisions(&whole.state), "after {prefix} turns");
            assert_eq!(resumed.state.race, whole.state.race);
        }
    }
}

#[test]
fn a_point_proposed_again_is_another_run_of_its_configuration_where_that_is_wanted() {
    let of = |duplicates| {
        let mut study = spec(30, "random", AlgorithmSpec::named("none"));
        let dimensions = study
            .space
            .dimensions()
            .iter()
            .filter(|dimension| dimension.name == "layers" || dimension.name == "rate");
        let mut dimensions: Vec<_> = dimensions.cloned().collect();
        dimensions[0].distribution =
            hpsearch::study::space::Distribution::choice(vec![0.01.into(), 0.1.into()]).unwrap();
        study.space = hpsearch::study::space::Space::new(dimensions).unwrap();
        study.duplicates = duplicates;
        let mut simulation = Simulation::new(study, 2, 2, loss);
        simulation.luck = 0.2;
        let run = simulation.run(&[]).unwrap();
        assert_repeats(&simulation, &run, "duplicates");
        let repeats = run
            .state
            .trials
            .iter()
            .filter(|trial| matches!(trial.origin, Origin::Repeat(_)))
            .count();
        (repeats, configuration::for_samplers(&run.state.trials, 1).len(), run)
    };
    let (repeats, points, run) = of(Duplicates::Replicate);
    assert!(points <= 12 && repeats == 30 - points, "{repeats} repeats of {points}");
    assert_eq!(run.state.further_runs, repeats as u64, "samplers see them as one configuration");
    for trial in &run.state.trials {
        let Origin::Repeat(first) = trial.origin else { continue };
        assert_eq!(trial.params, run.state.trial(first).unwrap().params);
    }
    assert!(
        run.state
            .ranked_configurations()
            .iter()
            .any(|(_, statistics)| statistics.runs > 1 && statistics.deviation > 0.0)
    );
    let (repeats, points, _) = of(Duplicates::Allow);
    assert_eq!((repeats, points), (0, 30), "there each is a trial of its own");
}

/// A race of three among a search of twenty, with so much luck in a value that one run says little.
fn raced(slots: usize, luck: f64) -> Simulation {
    let mut study = spec(20, "random", asha("stop"));
    study.race = 3;
    let mut simulation = Simulation::new(study, slots, 9, loss);
    simulation.luck = luck;
    simulation
}

#[test]
fn the_best_of_the_search_race_on_fresh_seeds_and_the_winner_is_the_best() {
    for luck in [0.0, 0.05, 0.4] {
        let simulation = raced(3, luck);
        let run = simulation.run(&[]).unwrap();
        let race = run.state.race.clone().unwrap();
        assert_eq!(race.finalists.len(), 3);
        let winner = race.winner().unwrap();
        assert_eq!(run.state.best().unwrap().number, winner.trial);
        assert_eq!(run.state.best_value(), Some(winner.statistics.mean));
        let runs: Vec<&Trial> =
            run.state.trials.iter().filter(|trial| trial.origin.is_race()).collect();
        assert!((9..=15).contains(&runs.len()), "3 to 5 rounds: {}", runs.len());
        let own: Vec<f64> = runs
            .iter()
            .filter(|run| run.origin.configuration() == Some(winner.trial))
            .filter_map(|run| run.value)
            .collect();
        assert_eq!(own.len() as u64, winner.statistics.runs);
        assert!(
            (own.iter().sum::<f64>() / own.len() as f64 - winner.statistics.mean).abs() < 1e-12
        );
        assert_eq!(
            run.state.counts.complete + run.state.counts.pruned,
            20 + runs.len() as u64,
            "races come on top of the budget"
        );
        assert!(run.state.finished.is_some());
        assert_repeats(&simulation, &run, "race");
    }
}

#[test]
fn what_is_clearly_worse_leaves_a_race_and_luck_does_not_decide_it() {
    // The seed moves all finalists of a round alike, so that it cancels: the truly best wins at
    // once.
    let run = raced(2, 5.0).run(&[]).unwrap();
    let race = run.state.race.unwrap();
    let winner = race.winner().unwrap();
    assert_eq!(winner.statistics.runs, 3, "{}", winner.reason);
    let truth = |number: TrialNumber| loss(&run.state.trials[number.index()].params, 9);
    assert!(race.finalists.iter().all(|finalist| truth(winner.trial) <= truth(finalist.trial)));
    assert!(race.finalists.iter().filter(|finalist| finalist.trial != winner.trial).all(
        |finalist| {
            let dropped = finalist.dropped.as_deref().unwrap();
            dropped.contains("paired t test") && dropped.contains("3 rounds")
        }
    ));
}

#[test]
fn a_race_is_the_same_after_a_crash_at_any_turn() {
    for slots in [1, 4] {
        let simulation = raced(slots, 0.3);
        let whole = simulation.run(&[]).unwrap();
        let begins = whole
            .turns
            .iter()
            .position(|turn| {
                turn.events
                    .iter()
                    .any(|event| matches!(event, Event::Finalists(FinalistsEvent::Chosen { .. })))
            })
            .unwrap();
        for prefix in begins..whole.turns.len() {
            let resumed = simulation.run(&whole.turns[..prefix]).unwrap();
            // With several slots the runs of a search that is not deterministic may differ; from
            // the race's beginning on not.
            let race = resumed.state.race.unwrap();
            if prefix > begins {
                assert_eq!(
                    Some(&race),
                    whole.state.race.as_ref(),
                    "after {prefix} of {} turns",
                    whole.turns.len()
                );
            }
            let mut runs: Vec<Origin> = resumed
                .state
                .trials
                .iter()
                .map(|trial| trial.origin.clone())
                .filter(Origin::is_race)
                .collect();
            let all = runs.len();
            runs.sort_by_key(|origin| format!("{origin:?}"));
            runs.dedup();
            assert_eq!(runs.len(), all, "no run of a race is doubled");
        }
    }
}

#[test]
fn a_finalist_whose_run_fails_leaves_and_a_race_of_failures_has_no_winner() {
    let mut simulation = raced(2, 0.3);
    let first = simulation
        .run(&[])
        .unwrap()
        .state
        .trials
        .iter()
        .find(|trial| trial.origin.is_race())
        .unwrap()
        .number;
    simulation.faults = Box::new(move |trial, _, _| (trial == first).then_some(Fault::Fail));
    let run = simulation.run(&[]).unwrap();
    let race = run.state.race.as_ref().unwrap();
    let of = run.state.trial(first).unwrap().origin.configuration().unwrap();
    let gone = race.finalists.iter().find(|finalist| finalist.trial == of).unwrap();
    assert!(gone.dropped.as_ref().unwrap().contains("round 1 failed"), "{gone:?}");
    assert!(race.winner().is_some_and(|winner| winner.trial != of));
    assert!(matches!(run.outcome, RunOutcome::Finished(_)));
    simulation.faults = Box::new(move |trial, _, _| (trial >= first).then_some(Fault::Fail));
    let run = simulation.run(&[]).unwrap();
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
    assert!(run.state.race.as_ref().unwrap().winner.is_none());
    assert!(!run.state.best().unwrap().origin.is_race(), "then the search's best counts");
    assert_eq!(simulation.run(&run.turns).unwrap().steps, 0, "it stays so");
}

#[test]
fn a_search_that_goes_on_after_its_race_has_another_one() {
    let mut simulation = raced(2, 0.1);
    let first = simulation.run(&[]).unwrap();
    assert_eq!(simulation.run(&first.turns).unwrap().steps, 0, "a race is run once");
    simulation.requests =
        vec![(0, Request::Extend { by: Extension { trials: 5, ..Default::default() } })];
    let second = simulation.run(&first.turns).unwrap();
    let race = second.state.race.as_ref().unwrap();
    assert_eq!((race.number, race.void), (1, false));
    assert!(race.winner().is_some());
    let fresh = |number: u32| {
        let of =
            |trial: &&Trial| matches!(trial.origin, Origin::Race { race, .. } if race == number);
        second.state.trials.iter().filter(of).count()
    };
    assert!(fresh(0) >= 9 && fresh(1) >= 9);
    assert_eq!(second.state.trials.iter().filter(|trial| !trial.origin.is_race()).count(), 25);
    assert_repeats(&simulation, &second, "extended");
}

#[test]
fn a_study_that_reaches_its_target_or_runs_out_of_time_still_races() {
    let mut simulation = raced(3, 0.1);
    simulation.spec.budget.target = Some(0.5);
    let run = simulation.run(&[]).unwrap();
    assert!(run.state.race.as_ref().unwrap().winner().is_some());
    assert!(
        matches!(&run.outcome, RunOutcome::Finished(reason) if reason.contains("target")),
        "{:?}",
        run.outcome
    );
    let mut simulation = raced(3, 0.1);
    simulation.spec.budget.time = Some(std::time::Duration::from_millis(1500));
    let run = simulation.run(&[]).unwrap();
    assert!(run.state.race.as_ref().unwrap().winner().is_some());
    assert!(
        matches!(&run.outcome, RunOutcome::Finished(reason) if reason.contains("time budget")),
        "{:?}",
        run.outcome
    );
}

#[test]
fn a_race_is_on_top_of_device_hours_and_cost_is_foreseen_and_said() {
    let mut simulation = raced(3, 5.0);
    simulation.spec.pruner = AlgorithmSpec::named("none");
    // Seven whole trials' worth; the race takes nine whole ones more.
    simulation.spec.budget.device_hours = Some(6.3 / 3600.0);
    let run = simulation.run(&[]).unwrap();
    let race = run.state.race.as_ref().unwrap();
    assert_eq!(race.winner().unwrap().statistics.runs, 3);
    let RunOutcome::Finished(reason) = &run.outcome else { panic!("{:?}", run.outcome) };
    assert!(reason.starts_with("the budget of 0.00175 device-hours is used: 0.00175"), "{reason}");
    assert!(
        reason.ends_with("; then a race in addition, 9 runs in 0.0022 hours of slots"),
        "{reason}"
    );
    assert_eq!(run.state.finished.as_ref(), Some(reason));
    // Seen before: its fewest rounds and its most, of whole trials of 0.9 s, three at a time.
    let before: Vec<Turn> = run
        .turns
        .iter()
        .take_while(|turn| {
            !turn
                .events
                .iter()
                .any(|event| matches!(event, Event::Finalists(FinalistsEvent::Chosen { .. })))
        })
        .cloned()
        .collect();
    let mut state = StudyState::new(&simulation.spec);
    before.iter().for_each(|turn| turn.events.iter().for_each(|event| state.apply(turn.at, event)));
    let slots: Vec<Slot> = (0..3).map(|index| Slot::on(index, Device::Cpu)).collect();
    let now = before.last().unwrap().at;
    let (used, elapsed) = (Used::of(&state, &slots), now.since(before[0].at));
    let situation = Situation {
        spec: &simulation.spec,
        full_trial: Some(9),
        counts: state.counts,
        elapsed,
        used: &used,
        now,
    };
    let seen = forecast(&situation).race.unwrap();
    assert!((seen.low - 2.7).abs() < 1e-6 && (seen.high - 4.5).abs() < 1e-6, "{seen:?}");
    // Nothing is left of the budget then, and the winner stays.
    let again = simulation.run(&run.turns).unwrap();
    assert_eq!((again.steps, again.state.race.as_ref()), (0, run.state.race.as_ref()));
}

#[test]
fn every_decision_of_every_policy_repeats_with_several_slots_and_faults() {
    for spec in studies(16) {
        let what = named(&spec);
        let promotes = spec.pruner == asha("promote");
        let simulation = uneven(spec, 4, 1);
        let run = simulation.run(&[]).unwrap();
        assert_repeats(&simulation, &run, &what);
        // Killed in the middle, and gone on with.
        let killed: Vec<Turn> = run.turns[..run.turns.len() / 2].to_vec();
        let resumed = simulation.run(&killed).unwrap();
        let verified = verified(&simulation.spec, &journal(&resumed));
        assert_eq!(verified.difference, None, "{what}, resumed");
        assert!(verified.proposals >= 16 && verified.verdicts > 16 && verified.values > 0);
        assert_eq!(verified.promotions > 0, promotes);
    }
}

#[test]
fn a_journal_that_was_changed_differs_where_it_was_changed() {
    let simulation = uneven(spec(16, "tpe", asha("promote")), 3, 1);
    let run = simulation.run(&[]).unwrap();
    let sound = journal(&run);
    let place = |wanted: &dyn Fn(&Event) -> bool| {
        sound.iter().rposition(|(_, _, event)| wanted(event)).unwrap()
    };
    let check = |index: usize, what: &str, change: &dyn Fn(&mut Event)| {
        let mut changed = sound.clone();
        change(&mut changed[index].2);
        let difference = verified(&simulation.spec, &changed)
            .difference
            .unwrap_or_else(|| panic!("{what} is not noticed"));
        assert_eq!(
            (difference.what, difference.seq),
            (what, Seq(index as i64 + 1)),
            "{difference:?}"
        );
        assert_ne!(difference.stored, difference.now);
    };
    check(
        place(&|event| {
            matches!(
                event,
                Event::Trial(_, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. }))
            )
        }),
        "proposal",
        &|event| {
            let Event::Trial(_, TrialEvent::Proposal(ProposalEvent::TrialCreated { params, .. })) =
                event
            else {
                panic!()
            };
            params.insert(
                "layers",
                5i64 - params.get("layers").unwrap().as_number().unwrap() as i64 % 3,
            );
        },
    );
    let promoted = place(&|event| {
        matches!(
            event,
            Event::Trial(_, TrialEvent::State(StateEvent::Queued { reason, .. }))
                if reason.contains("rank")
        )
    });
    check(promoted, "promotion", &|event| {
        let Event::Trial(_, TrialEvent::State(StateEvent::Queued { until, .. })) = event else {
            panic!()
        };
        *until = Some(7);
    });
    check(
        place(&|event| {
            matches!(
                event,
                Event::Trial(
                    _,
                    TrialEvent::State(StateEvent::Finished { state: TrialState::Complete, .. })
                )
            )
        }),
        "value",
        &|event| {
            let Event::Trial(_, TrialEvent::State(StateEvent::Finished { value, .. })) = event
            else {
                panic!()
            };
            *value = value.map(|value| value - 0.01);
        },
    );
    // A verdict is compared at the report that it answers.
    let decided = place(&|event| {
        matches!(
            event,
            Event::Trial(
                _,
                TrialEvent::Decision(DecisionEvent::Decided { verdict: Decision::Pause(_), .. })
            )
        )
    });
    let mut changed = sound.clone();
    let Event::Trial(_, TrialEvent::Decision(DecisionEvent::Decided { verdict, .. })) =
        &mut changed[decided].2
    else {
        panic!()
    };
    *verdict = Decision::CONTINUE;
    let difference = verified(&simulation.spec, &changed).difference.unwrap();
    assert_eq!(
        (difference.what, difference.seq),
        ("verdict", Seq(decided as i64)),
        "{difference:?}"
    );
    assert!(difference.now.starts_with("pause at step"), "{difference:?}");
}

/// With paused trials and without, alone and for `auto`, killed and resumed: what the process
/// predicted of proposals is stored, repeats, and a changed digit differs.
#[test]
fn predictions_of_proposals_repeat_and_a_changed_digit_differs() {
    let none = || pruner_named("none");
    for (sampler, pruner) in [("gp", asha("promote")), ("gp", none()), ("auto", none())] {
        let simulation = uneven(spec(24, sampler, pruner), 3, 1);
        let what = named(&simulation.spec);
        let run = simulation.run(&[]).unwrap();
        let killed: Vec<Turn> = run.turns[..run.turns.len() / 2].to_vec();
        let run = simulation.run(&killed).unwrap();
        let sound = journal(&run);
        assert_eq!(verified(&simulation.spec, &sound).difference, None, "{what}");
        let is_predicted = |(_, _, event): &StoredEvent| {
            matches!(
                event,
                Event::Trial(
                    _,
                    TrialEvent::Proposal(ProposalEvent::TrialCreated { predicted, .. })
                ) if predicted.len() == 1
            )
        };
        let place = sound.iter().rposition(is_predicted).unwrap();
        let differs = |change: &dyn Fn(&mut Vec<Prediction>)| {
            let mut changed = sound.clone();
            let Event::Trial(
                _,
                TrialEvent::Proposal(ProposalEvent::TrialCreated { predicted, .. }),
            ) = &mut changed[place].2
            else {
                panic!()
            };
            change(predicted);
            let difference = verified(&simulation.spec, &changed).difference.unwrap();
            assert_eq!((difference.what, difference.seq), ("prediction", Seq(place as i64 + 1)));
            assert_ne!(difference.stored, difference.now);
        };
        differs(&|predicted| predicted[0].median = predicted[0].median.next_up());
        differs(&|predicted| predicted[0].low = predicted[0].low.next_down());
        differs(&|predicted| predicted.clear());
    }
}

/// A study that began with an older version has no predictions, and goes on without them.
#[test]
fn studies_of_samplers_that_predicted_nothing_repeat() {
    for (sampler, version) in [("gp", 8), ("auto", 7)] {
        let mut older = spec(24, sampler, pruner_named("none"));
        older.sampler.version = version;
        let simulation = uneven(older, 2, 1);
        let run = simulation.run(&[]).unwrap();
        let stored = journal(&run);
        let is_empty = |(_, _, event): &StoredEvent| match event {
            Event::Trial(
                _,
                TrialEvent::Proposal(ProposalEvent::TrialCreated { predicted, .. }),
            ) => predicted.is_empty(),
            _ => true,
        };
        assert!(stored.iter().all(is_empty), "{sampler}");
        assert_eq!(verified(&simulation.spec, &stored).difference, None, "{sampler}");
    }
}

#[test]
fn a_race_that_was_changed_and_tables_that_are_not_the_journals_are_noticed() {
    let simulation = raced(2, 0.3);
    let run = simulation.run(&[]).unwrap();
    let sound = journal(&run);
    let mut changed = sound.clone();
    let won = changed
        .iter()
        .position(|(_, _, event)| matches!(event, Event::Finalists(FinalistsEvent::Won { .. })))
        .unwrap();
    let Event::Finalists(FinalistsEvent::Won { statistics, .. }) = &mut changed[won].2 else {
        panic!()
    };
    statistics.mean -= 0.1;
    let difference = verified(&simulation.spec, &changed).difference.unwrap();
    assert_eq!((difference.what, difference.seq), ("race", Seq(won as i64 + 1)));
    let mut tables = run.state.clone();
    tables.trials[2].params.insert("layers", 99i64);
    let difference = verify(&[(Seq(0), simulation.spec.clone())], &sound, &tables, &mut |_, _| {})
        .unwrap()
        .difference
        .unwrap();
    assert_eq!((difference.what, difference.trial), ("state", Some(TrialNumber(2))));
    assert!(difference.stored.contains("99"), "{difference:?}");
}

/// Each kind of goal, with several slots: the end's numbers repeat, also with trials that
/// end after the goal was reached.
#[test]
fn the_end_of_a_search_repeats_and_a_changed_one_differs() {
    let mut kinds = BTreeSet::new();
    for seed in 0..2 {
        for study in studies(30) {
            let is_several = study.objectives.len() > 1;
            for (target, patience) in [(true, false), (false, true), (false, false)] {
                let mut study = study.clone();
                study.budget.target = target.then_some(if is_several { 0.05 } else { 0.6 });
                study.budget.patience = patience.then_some(6);
                let simulation = uneven(study, 3, seed);
                let run = simulation.run(&[]).unwrap();
                let sound = journal(&run);
                let verified = verified(&simulation.spec, &sound);
                assert_eq!(verified.difference, None, "{seed} {:?}", simulation.spec.budget);
                let (place, goal, front) = sound
                    .iter()
                    .enumerate()
                    .find_map(|(place, (_, _, event))| match event {
                        Event::Study(StudyEvent::Finished { goal, front, .. }) => {
                            Some((place, goal.clone(), front.clone()))
                        }
                        _ => None,
                    })
                    .unwrap();
                assert_eq!(front.is_some(), is_several);
                assert_eq!(verified.ends, u64::from(goal.is_some() || is_several));
                let changed = |goal: Option<Box<Goal>>, front: Option<Box<Front>>| {
                    let mut journal = sound.clone();
                    let (reason, too_many_failures) = (String::new(), false);
                    journal[place].2 = Event::Study(StudyEvent::Finished {
                        reason,
                        goal,
                        front,
                        too_many_failures,
                    });
                    self::verified(&simulation.spec, &journal).difference.map(|found| found.what)
                };
                if let Some(front) = &front {
                    let mut other = front.clone();
                    other.hypervolume = front.hypervolume.map(|volume| volume * 1.001);
                    assert_eq!(changed(goal.clone(), Some(other)), Some("front"));
                    let mut other = front.clone();
                    other.trials.pop();
                    assert_eq!(changed(goal.clone(), Some(other)), Some("front"));
                }
                let Some(goal) = goal else { continue };
                let mut other = *goal.clone();
                kinds.insert(serde_json::to_value(&other).unwrap()["kind"].to_string());
                match &mut other {
                    Goal::Target { value, .. } => *value -= 0.01,
                    Goal::Patience { trials, .. } => *trials += 100,
                    Goal::FrontPatience { trial, .. } => trial.0 += 1,
                    Goal::Hypervolume { reference, .. } => reference[0] += 0.1,
                }
                assert_eq!(changed(Some(Box::new(other)), front), Some("goal"));
            }
        }
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
}

/// A journal in which somebody took out, doubled, exchanged, moved or renumbered an entry or two.
fn tampered(sound: &[StoredEvent], pattern: u64) -> Vec<StoredEvent> {
    let mut changed = sound.to_vec();
    for round in 0..=pattern % 2 {
        let place = |what| {
            let high = draw(pattern, round, what) * 100 + draw(pattern, round, what + 1);
            usize::try_from(high).unwrap() % changed.len()
        };
        let (one, other) = (place(0), place(10));
        match draw(pattern, round, 20) % 5 {
            0 => drop(changed.remove(one)),
            1 => changed.insert(other, changed[one].clone()),
            2 => changed.swap(one, other),
            3 => {
                let moved = changed.remove(one);
                changed.insert(other.min(changed.len()), moved);
            }
            _ => {
                let mut event = serde_json::to_value(&changed[one].2).unwrap();
                let number = [0, 1, 3, 5, 1000, u64::MAX]
                    [usize::try_from(draw(pattern, round, 30)).unwrap() % 6];
                renumber(&mut event, number);
                changed[one].2 = serde_json::from_value(event).unwrap();
            }
        }
    }
    (1..).zip(changed).map(|(seq, (_, at, event))| (Seq(seq), at, event)).collect()
}

fn renumber(event: &mut serde_json::Value, number: u64) {
    match event {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                if matches!(name.as_str(), "trial" | "attempt") && value.is_u64() {
                    *value = number
                        .min(if name == "attempt" { u64::from(u32::MAX) } else { 1 << 40 })
                        .into();
                }
                renumber(value, number);
            }
        }
        serde_json::Value::Array(values) => {
            values.iter_mut().for_each(|value| renumber(value, number))
        }
        _ => {}
    }
}

#[test]
fn a_replay_tells_how_many_entries_of_the_journal_are_done() {
    let simulation = raced(2, 0.3);
    let run = simulation.run(&[]).unwrap();
    let (journal, mut told) = (journal(&run), Vec::new());
    verify(&[(Seq(0), simulation.spec.clone())], &journal, &run.state, &mut |done, of| {
        told.push((done, of));
    })
    .unwrap();
    let all = journal.len() as u64;
    assert_eq!(told, (0..all).map(|done| (done, all)).collect::<Vec<_>>());
}

#[test]
fn a_journal_that_was_tampered_with_differs_and_panics_nobody() {
    let studies = [
        raced(2, 0.3),
        uneven(deterministic(8, "tpe", asha("pause")), 2, 1),
        uneven(spec(8, "grid", asha("stop")), 2, 2),
    ];
    for simulation in studies {
        let run = simulation.run(&[]).unwrap();
        let sound = journal(&run);
        let verified = |journal: &[StoredEvent]| {
            verify(&[(Seq(0), simulation.spec.clone())], journal, &run.state, &mut |_, _| {})
                .unwrap()
        };
        for pattern in 0..200 {
            let _told_or_without_effect = verified(&tampered(&sound, pattern));
        }
        let created = sound
            .iter()
            .position(|(_, _, event)| {
                matches!(
                    event,
                    Event::Trial(_, TrialEvent::Proposal(ProposalEvent::TrialCreated { .. }))
                )
            })
            .unwrap();
        let mut missing = sound.clone();
        missing.remove(created);
        let difference = verified(&missing).difference.unwrap();
        assert_eq!(
            (difference.what, difference.trial),
            ("order", Some(TrialNumber(0))),
            "{difference:?}"
        );
        let mut twice = sound.clone();
        twice.insert(created, sound[created].clone());
        assert_eq!(verified(&twice).difference.unwrap().now, "trial 0 was created before");
    }
}

#[test]
fn verify_tells_of_a_trial_whose_creation_is_missing() {
    let site = Site::finished("trials = 2");
    let database = site.database();
    let seq: i64 = database
        .query_row("SELECT min(seq) FROM event WHERE type = 'trial_created'", [], |row| row.get(0))
        .unwrap();
    database.execute("DELETE FROM event WHERE seq = ?1", [seq]).unwrap();
    let told = site.run(&["verify", "s"]);
    assert_code(&told, 7);
    assert_names(&told.out, &["cannot follow those before it"]);
}

#[test]
fn other_rules_of_a_sampler_are_named() {
    let mut simulation = uneven(spec(6, "tpe", asha("stop")), 2, 1);
    let run = simulation.run(&[]).unwrap();
    simulation.spec.sampler.version += 7;
    let versions = verified(&simulation.spec, &journal(&run)).versions;
    assert_eq!(versions.len(), 1);
    assert_eq!(
        (versions[0].kind, versions[0].name.as_str(), versions[0].stored),
        ("sampler", "tpe", versions[0].here + 7)
    );
}

const NOISY: &str = r#"
[study]
name = "noisy"
metric = "loss"
direction = "minimize"
seed = 3
replicates = 2
race = 2
deterministic = true

[budget]
trials = 8

[space]
x = { float = [0.0, 1.0] }

[command]
run = ["sh", "trial.sh", "{x}"]

[devices]
use = ["sim:0", "sim:1"]
"#;

/// A value that is the parameter and a little of the trial's seed.
const TRIAL: &str = r#"echo "@hpsearch {\"step\": 1, \"loss\": $1$(($HPSEARCH_SEED % 7))}""#;

#[test]
fn a_study_on_the_command_line_has_a_winner_repeats_exactly_and_says_where_it_comes_from() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("study.toml"), NOISY).unwrap();
    std::fs::write(path.join("trial.sh"), TRIAL).unwrap();
    let ran = run(path, &["run", "study.toml", "--plain"]);
    assert_done(&ran);
    assert_names(&ran.out, &["wins the race: mean "]);
    let show: serde_json::Value = run(path, &["show", "--json"]).json();
    let winner = &show["race"]["winner"];
    assert_eq!(
        (&show["best"]["number"], &show["runs"]["from"]),
        (&winner["trial"], &"race".into())
    );
    assert!(show["runs"]["low"].as_f64().unwrap() <= show["runs"]["mean"].as_f64().unwrap());
    let files = show["lineage"]["files"].as_array().unwrap();
    assert_eq!(files.len(), 1, "the script is a file of the command: {files:?}");
    assert_eq!(
        files[0]["digest"].as_str().unwrap(),
        blake3::hash(TRIAL.as_bytes()).to_hex().as_str()
    );
    assert_eq!(show["lineage"]["command"][1], "run");
    let build = show["lineage"]["hpsearch"]["digest"].as_str().unwrap();
    assert!(build.len() >= 16 && build.chars().all(|digit| digit.is_ascii_hexdigit()), "{build}");
    assert!(!run(path, &["show", "--json"]).out.contains("\"PATH"), "the environment is not kept");
    let best = run(path, &["best"]).out;
    assert!(best.contains("fresh runs, ") && best.contains("(95 %)"), "{best}");
    let trial = run(path, &["show", "noisy", "1"]).out;
    assert!(trial.contains("seed  ") && trial.contains("trial.sh, "), "{trial}");
    let diff = run(path, &["diff", "0", "1"]).out;
    assert!(
        diff.contains("code, machine, program and data are the same") || diff.contains("device"),
        "{diff}"
    );

    let verified = run(path, &["verify"]);
    assert_eq!(verified.code, 0, "{}", verified.out);
    assert!(verified.out.ends_with(" repeat exactly\n"), "{}", verified.out);
    let store = rusqlite::Connection::open(path.join("runs/hpsearch.db")).unwrap();
    let changed = store.execute(
        "UPDATE event SET body = json_set(body, '$.params.x', 0.123) WHERE seq = (SELECT max(seq) \
         FROM event WHERE type = 'trial_created' AND body ->> '$.origin.sampled' IS NOT NULL)",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    let verified = run(path, &["verify"]);
    assert_eq!(verified.code, 7, "{}", verified.out);
    assert_names(&verified.out, &["has the proposal of trial ", "x=0.123"]);
    let answer: serde_json::Value = run(path, &["verify", "--json"]).json();
    assert_eq!(
        (&answer["repeats"], &answer["difference"]["what"]),
        (&false.into(), &"proposal".into())
    );
}

const PREDICTED: &str = r#"
[study]
name = "predicted"
metric = "loss"
direction = "minimize"

[budget]
trials = 8

[space]
x = { float = [0.0, 1.0] }

[sampler]
type = "gp"
n_startup_trials = 5

[command]
run = ["sh", "trial.sh", "{x}"]

[devices]
use = ["sim:0"]
"#;

#[test]
fn what_a_sampler_predicted_is_shown_explained_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("study.toml"), PREDICTED).unwrap();
    std::fs::write(path.join("trial.sh"), TRIAL).unwrap();
    assert_done(&run(path, &["run", "study.toml", "--plain"]));
    let show: serde_json::Value = run(path, &["show", "predicted", "7", "--json"]).json();
    let number = |key: &str| show["predictions"][0][key].as_f64().unwrap();
    assert!(number("low") < number("median") && number("median") < number("high"), "{show}");
    let start: serde_json::Value = run(path, &["show", "predicted", "1", "--json"]).json();
    assert_eq!(start.get("predictions"), None);
    let shown = run(path, &["show", "predicted", "7"]).out;
    assert_names(&shown, &["origin", "proposed by gp, predicted loss ", " to "]);
    let explained: serde_json::Value = run(path, &["explain", "predicted", "7", "--json"]).json();
    let told = &explained["predictions"];
    assert_eq!((told, &told[0]["metric"]), (&show["predictions"], &"loss".into()));
    assert_eq!(told[0]["value"], explained["trial"]["value"]);
    let words = run(path, &["explain", "predicted", "7"]).out;
    assert_names(&words, &["predicted", "by its sampler: loss ", ", which became "]);

    let verified = run(path, &["verify"]);
    assert_eq!(verified.code, 0, "{}", verified.out);
    let store = rusqlite::Connection::open(path.join("runs/hpsearch.db")).unwrap();
    let changed = store.execute(
        "UPDATE event SET body = json_set(body, '$.predicted[0].low', 0.125) WHERE type = \
         'trial_created' AND body ->> '$.trial' = 7",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    let verified = run(path, &["verify"]);
    assert_eq!(verified.code, 7, "{}", verified.out);
    assert_names(&verified.out, &["has the prediction of trial 7 otherwise", "\"low\":0.125"]);
}
