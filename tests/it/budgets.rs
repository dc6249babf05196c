//! Budgets of device-hours and cost: counted over kills, never overspent, and said.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hpsearch::engine::RunOutcome;
use hpsearch::engine::simulator::{Fault, Simulation, SimulationResult, Turn};
use hpsearch::study::budget::Extension;
use hpsearch::study::device::{Device, DeviceGroup};
use hpsearch::study::event::{
    AttemptEnd, AttemptEvent, Event, RunnerEvent, StudyEvent, TrialEvent,
};
use hpsearch::study::request::Request;
use hpsearch::study::spec::AlgorithmSpec;
use hpsearch::study::trial::TrialNumber;
use proptest::prelude::*;

use crate::harness::{
    REPORT_X, Site, asha, assert_done, assert_names, cases, loss, on_pairs_of_agents, spec, study,
};

const SECONDS_OF_AN_HOUR: f64 = 3600.0;

/// A simulation of plenty of trials, limited to so many seconds of devices.
fn limited(seconds: f64, slots: usize, pruner: AlgorithmSpec) -> Simulation {
    let mut simulation = Simulation::new(spec(10_000, "random", pruner), slots, 9, loss);
    simulation.spec.budget.device_hours = Some(seconds / SECONDS_OF_AN_HOUR);
    simulation
}

fn busy_seconds(run: &SimulationResult) -> f64 {
    Duration::from_micros(u64::try_from(run.state.busy_micros).unwrap()).as_secs_f64()
}

#[test]
fn device_hours_are_summed_over_slots_and_end_the_study_with_their_number() {
    for slots in [1, 4] {
        let run = limited(7.3, slots, AlgorithmSpec::named("none")).run(&[]).unwrap();
        let RunOutcome::Finished(reason) = &run.outcome else { panic!("{:?}", run.outcome) };
        assert_eq!(reason, "the budget of 0.0020277777777777777 device-hours is used: 0.00203");
        assert_eq!(run.state.finished.as_ref(), Some(reason), "it is stored with the study");
        // A full trial takes 0.9 s.
        assert_eq!(run.state.counts.complete, 8);
    }
}

#[test]
fn trials_that_share_a_device_use_it_once() {
    let mut simulation = limited(3.7, 8, AlgorithmSpec::named("none"));
    simulation.per_device = 4;
    let run = simulation.run(&[]).unwrap();
    assert!(
        run.outcome.reason().ends_with("device-hours is used: 0.00103"),
        "{}",
        run.outcome.reason()
    );
    // Two devices for 1.85 s; a full trial takes 0.9 s of one of their eight slots.
    assert_eq!(run.state.counts.complete, 16);
    // What was billed is what the journal says was in use.
    assert_eq!(busy_seconds(&run), in_use(&run.turns));
}

/// Seconds for which each device had an attempt, from the starts and ends in the journal; runners
/// that died ended with it.
fn in_use(turns: &[Turn]) -> f64 {
    let mut running: BTreeMap<TrialNumber, (DeviceGroup, i64)> = BTreeMap::new();
    let mut stretches: BTreeMap<Device, Vec<(i64, i64)>> = BTreeMap::new();
    let mut heard = 0;
    for turn in turns {
        for event in &turn.events {
            match event {
                Event::Runner(RunnerEvent::Stopped { heard: Some(last), .. }) => heard = last.0,
                Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Started { slot, .. })) => {
                    running.insert(*trial, (slot.devices.clone(), turn.at.0));
                }
                Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Ended { end, .. })) => {
                    let (devices, since) = running.remove(trial).unwrap();
                    let until = if *end == AttemptEnd::Lost { heard } else { turn.at.0 };
                    for device in devices.distinct() {
                        stretches.entry(device.clone()).or_default().push((since, until));
                    }
                }
                _ => {}
            }
        }
    }
    let mut micros = 0;
    for mut of_device in stretches.into_values() {
        of_device.sort_unstable();
        let mut covered = i64::MIN;
        for (since, until) in of_device {
            micros += (until - since.max(covered)).max(0);
            covered = covered.max(until);
        }
    }
    Duration::from_micros(u64::try_from(micros).unwrap()).as_secs_f64()
}

#[test]
fn each_device_of_a_group_is_counted() {
    let mut simulation = limited(7.3, 2, AlgorithmSpec::named("none"));
    simulation.per_trial = 2;
    let run = simulation.run(&[]).unwrap();
    assert!(
        run.outcome.reason().ends_with("device-hours is used: 0.00203"),
        "{}",
        run.outcome.reason()
    );
    // Two groups of two devices for 1.825 s; a full trial takes 0.9 s of one group.
    assert_eq!(run.state.counts.complete, 4);
    assert_eq!(busy_seconds(&run), in_use(&run.turns));
}

#[test]
fn each_device_of_a_group_of_agents_is_counted() {
    let simulation = on_pairs_of_agents(limited(7.3, 0, AlgorithmSpec::named("none")), 5);
    let run = simulation.run(&[]).unwrap();
    assert!(
        run.outcome.reason().ends_with("device-hours is used: 0.00203"),
        "{}",
        run.outcome.reason()
    );
    // Two pairs for 1.825 s, while the fifth agent is idle.
    assert_eq!(run.state.counts.complete, 4);
    assert_eq!(busy_seconds(&run), in_use(&run.turns));
}

#[test]
fn what_trials_use_until_they_have_left_is_said() {
    let mut simulation = limited(7.2, 4, AlgorithmSpec::named("none"));
    simulation.leave_time = Duration::from_millis(90);
    let run = simulation.run(&[]).unwrap();
    // 4 slots for 90 ms are 0.0001 hours.
    assert_eq!(run.outcome.reason(), "the budget of 0.002 device-hours is used: 0.00210");
}

#[test]
fn a_cost_is_device_hours_times_a_price_and_the_tighter_limit_counts() {
    let mut simulation = limited(7200.0, 2, AlgorithmSpec::named("none"));
    simulation.spec.budget.price_per_hour = Some(2.5);
    simulation.spec.budget.cost = Some(0.005);
    let run = simulation.run(&[]).unwrap();
    assert_eq!(
        run.outcome.reason(),
        "the budget's cost of 0.005 is spent: 0.00500, 0.00200 device-hours at 2.5"
    );
    simulation.spec.budget.cost = Some(5_000.0);
    simulation.spec.budget.device_hours = Some(0.001);
    let run = simulation.run(&[]).unwrap();
    assert!(
        run.outcome.reason().starts_with("the budget of 0.001 device-hours is used"),
        "{}",
        run.outcome.reason()
    );
}

#[test]
fn a_study_whose_device_hours_are_used_starts_nothing_until_it_is_extended() {
    let mut simulation = limited(3.6, 2, AlgorithmSpec::named("none"));
    let run = simulation.run(&[]).unwrap();
    assert_eq!(simulation.run(&run.turns).unwrap().steps, 0);
    let by = Extension { device_hours: 0.0005, ..Extension::default() };
    simulation.requests = vec![(0, Request::Extend { by })];
    let extended = simulation.run(&run.turns).unwrap();
    assert_eq!(extended.outcome.reason(), "the budget of 0.0015 device-hours is used: 0.00150");
    assert!(extended.steps >= 17, "{} further steps", extended.steps);
    // What has no limit cannot be raised.
    let by = Extension { cost: 1.0, ..Extension::default() };
    simulation.requests = vec![(0, Request::Extend { by })];
    let refused = simulation.run(&run.turns).unwrap();
    let answers = refused
        .turns
        .iter()
        .flat_map(|turn| &turn.events)
        .filter(|event| format!("{event:?}").contains("budget.cost` is not set"))
        .count();
    assert_eq!(answers, 1);
}

#[test]
fn a_study_whose_time_is_up_says_how_its_trials_go_on() {
    let rest = "[devices]\nuse = [\"sim:0\"]\n[pruner]\ntype = \"asha\"\nmode = \"promote\"\n\
        max_resource = 81\n";
    let script = "at=0; out=$HPSEARCH_CHECKPOINT_DIR\n\
        while [ $at -lt 81 ]; do sleep 0.1; at=$((at + 1)); echo $at > $out/$at\n\
        echo \"@hpsearch {\\\"checkpoint\\\":\\\"$at\\\",\\\"step\\\":$at}\"\n\
        echo \"@hpsearch {\\\"step\\\":$at,\\\"loss\\\":$at}\"; read -r answer\n\
        case $answer in *pause*|*stop*) exit 0;; esac; done\n";
    let site = Site::new(&study("time = \"2s\"", rest), script);
    let ended = site.run_study();
    assert_eq!(ended.code, 3, "{}", ended.err);
    let both = ended.out + &ended.err;
    assert_names(&both, &["the time budget is used up", "`hpsearch extend s --time +1h` lets"]);
    assert!(site.states().iter().all(|state| state == "paused" || state == "queued"));
}

#[test]
fn a_study_that_reached_its_target_advises_no_larger_budget() {
    let site = Site::empty();
    let text = "[study]\nmetric = \"loss\"\ndirection = \"minimize\"\nname = \"s\"\n\
        [budget]\ntrials = 8\ntarget = 0.5\nprice_per_hour = 3600\ncost = 100\n\
        [command]\nrun = [\"sh\", \"trial.sh\", \"{x}\"]\n[space]\nx = [1, 0]\n\
        [sampler]\ntype = \"grid\"\n[devices]\nuse = [\"sim:0\", \"sim:1\"]\n";
    site.write("study.toml", text);
    // The first waits for the second, which reaches the target.
    let script = "[ $1 = 0 ] || { touch waits; sleep 60; }\n\
        until [ -e waits ]; do sleep 0.01; done\n\
        echo '@hpsearch {\"step\":1,\"loss\":0}'\n";
    site.write("trial.sh", script);
    let ended = site.run_study();
    assert_done(&ended);
    assert_names(&ended.out, &["reached the target"]);
    assert!(!ended.err.contains("extend"), "{}", ended.err);
}

/// With more time they may be promoted, or found to be the best of the study.
#[test]
fn trials_that_pause_as_the_time_is_up_stay_paused_with_their_checkpoints_until_it_is_extended() {
    let simulation = |limit: fn(&mut Simulation)| {
        let mut simulation = limited(1_000.0, 2, asha("promote"));
        limit(&mut simulation);
        simulation
    };
    let by_time = |simulation: &mut Simulation| {
        simulation.spec.budget.time = Some(Duration::from_secs(2));
    };
    let by_devices = |simulation: &mut Simulation| {
        simulation.spec.budget.device_hours = Some(3.6 / SECONDS_OF_AN_HOUR);
    };
    let more_time = Extension { time: Duration::from_secs(30), ..Extension::default() };
    let more_devices =
        Extension { device_hours: 60.0 / SECONDS_OF_AN_HOUR, ..Extension::default() };
    for (mut simulation, by) in
        [(simulation(by_time), more_time), (simulation(by_devices), more_devices)]
    {
        let run = simulation.run(&[]).unwrap();
        let paused = |run: &SimulationResult| -> Vec<TrialNumber> {
            let trials = run.state.trials.iter();
            trials.filter(|trial| trial.waits_for_its_pruner()).map(|trial| trial.number).collect()
        };
        let waiting = paused(&run);
        assert!(run.state.finished.is_some() && waiting.len() > 3, "{waiting:?}");
        let has_checkpoint =
            |number: &TrialNumber| !run.state.trial(*number).unwrap().checkpoints.is_empty();
        assert!(waiting.iter().all(has_checkpoint));
        simulation.requests = vec![(0, Request::Extend { by })];
        let extended = simulation.run(&run.turns).unwrap();
        let went_on = |number: &&TrialNumber| {
            let last = |run: &SimulationResult| run.state.trial(**number).unwrap().last_step();
            last(&extended) > last(&run)
        };
        let first = waiting.iter().find(went_on);
        assert!(first.is_some(), "none of {waiting:?} was promoted");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(20, 60)))]

    /// Whenever the runner dies, and however often: what the workers really did stays within the
    /// budget and what they use until they leave; and a study that ends by it has used it.
    #[test]
    fn device_hours_are_never_overspent_whatever_dies(
        seconds in 1.0..20.0f64,
        slots in 1usize..5,
        leave in 0u64..300,
        deaths in prop::collection::vec(1usize..40, 0..12),
        pruned in any::<bool>(),
        seed in 0u64..1000,
        per_device in 1usize..4,
        paired in any::<bool>(),
        absence in (0usize..4, 1u64..60, 1u64..4),
    ) {
        let mut simulation = limited(
            seconds,
            slots,
            if pruned { asha("promote") } else { AlgorithmSpec::named("none") },
        );
        simulation.spec.seed = seed;
        simulation.per_device = per_device;
        let mut devices = 1;
        if paired {
            simulation = on_pairs_of_agents(simulation, 2 * slots);
            let (agent, after, seconds) = absence;
            let away = (after, Duration::from_secs(seconds));
            simulation.agents[agent % (2 * slots)].absences.push(away);
            devices = 2;
        }
        simulation.leave_time = Duration::from_millis(leave);
        simulation.faults = Box::new(|trial, attempt, step| {
            ((trial.0 + step) % 11 == 0 && attempt.0 == 0).then_some(Fault::Crash)
        });
        let (mut journal, mut steps): (Vec<Turn>, u64) = (Vec::new(), 0);
        for turns in deaths {
            let run = simulation.run(&journal).unwrap();
            journal = run.turns[..run.turns.len().min(journal.len() + turns)].to_vec();
        }
        let run = simulation.run(&journal).unwrap();
        let reported = |event: &&Event| {
            matches!(event, Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Reported { .. })))
        };
        steps += run.turns.iter().flat_map(|turn| &turn.events).filter(reported).count() as u64;
        // One that crashes in its step leaves when it does, a step later at most.
        let until_they_left = (devices * slots) as f64 * (leave as f64 / 1000.0).max(0.1) + 1e-3;
        prop_assert!(busy_seconds(&run) >= seconds, "{} of {seconds}", busy_seconds(&run));
        prop_assert!(
            busy_seconds(&run) <= seconds + until_they_left,
            "{} of {seconds}",
            busy_seconds(&run)
        );
        // Each report that was heard took a tenth of a second of a worker.
        prop_assert!(
            steps as f64 * 0.1 <= (seconds + until_they_left) * per_device as f64 + 1e-6,
            "{steps} steps in {seconds}"
        );
        // A device counts once, however many of its slots were busy, and whoever died meanwhile.
        prop_assert!(
            (busy_seconds(&run) - in_use(&run.turns)).abs() < 1e-9,
            "{} of {}",
            busy_seconds(&run),
            in_use(&run.turns)
        );
    }
}

#[test]
fn a_paused_study_uses_up_no_time_even_if_its_runner_is_killed_meanwhile() {
    let mut simulation =
        Simulation::new(spec(1000, "random", AlgorithmSpec::named("none")), 1, 5, loss);
    simulation.spec.budget.time = Some(Duration::from_secs(5));
    simulation.requests = vec![(12, Request::PauseStudy)];
    let paused = simulation.run(&[]).unwrap();
    // It waits; its user comes back a day later, asks for something else first, and the runner is
    // killed after that.
    let mut journal = paused.turns.clone();
    let day = Duration::from_secs(86_400);
    let at = journal.last().unwrap().at.after(day);
    journal.push(Turn {
        at,
        events: vec![Event::Study(StudyEvent::RequestServed {
            id: 9,
            answer: hpsearch::study::request::RequestAnswer::Done(String::new()),
        })],
    });
    simulation.requests = vec![(12, Request::PauseStudy), (0, Request::ResumeStudy)];
    let run = simulation.run(&journal).unwrap();
    assert_eq!(
        run.state.counts.complete,
        9,
        "as many as without the day: {}",
        run.outcome.reason()
    );
}

#[test]
fn a_command_study_ends_with_its_device_hours_and_says_so_everywhere() {
    let rest = "[devices]\nuse = [\"sim:0..1\"]\n";
    let site = Site::new(
        // More than a busy machine takes to run a trial.
        &study("device_hours = 0.003\nprice_per_hour = 10", rest),
        &format!("sleep 0.2\n{REPORT_X}"),
    );
    let run = |arguments: &[&str]| {
        let done = site.run(arguments);
        assert_done(&done);
        done.out
    };
    let began = Instant::now();
    let said = run(&["run", "study.toml", "--plain"]);
    // Of two slots. How much is used beyond the budget, only the machine knows.
    let most = 2.0 * began.elapsed().as_secs_f64() / SECONDS_OF_AN_HOUR;
    let used = said.split_once("the budget of 0.003 device-hours is used: ").unwrap().1;
    let end = used.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap();
    let used: f64 = used[..end].trim_end_matches('.').parse().unwrap();
    assert!(run(&["show", "s"]).contains("finished: the budget of 0.003 device-hours is used"));
    assert!(
        run(&["ls", "--json"]).contains("\"reason\":\"the budget of 0.003 device-hours is used")
    );
    let more = run(&["show", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&more).unwrap();
    let hours = json["device_hours"].as_f64().unwrap();
    assert!((0.003..most).contains(&hours), "{hours} of {most}");
    assert!((0.003..hours + 0.00001).contains(&used), "{used} of {hours}");
    assert!((json["cost"].as_f64().unwrap() - hours * 10.0).abs() < 1e-9);
}
