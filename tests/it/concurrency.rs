//! Devices that share themselves out (`trials_per_device = "auto"`): simulated ones with a memory
//! and a throughput, and real trials.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hpsearch::engine::concurrency::{Advice, Concurrency, Load, RunningTrial, TrialLoad, Waiting};
use hpsearch::engine::simulator::{Fault, Shared, Simulation, SimulationResult, Turn};
use hpsearch::study::device::Device;
use hpsearch::study::event::{
    AgentChange, AttemptEnd, AttemptEvent, ConcurrencyChange, DeviceEvent, Event, RunnerEvent,
    StateEvent, TrialEvent,
};
use hpsearch::study::metric::Score;
use hpsearch::study::params::Params;
use hpsearch::study::spec::{AlgorithmSpec, FailureCause, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{TrialNumber, TrialState};
use proptest::prelude::*;

use crate::cluster::{FILE, start};
use crate::harness::{
    Running, Site, assert_done, assert_names, cases, events, loss, number, seconds, spec, study,
    wait_until, with_agents,
};

const GIB: u64 = 1 << 30;

/// A number from 0 to 1 of a configuration's own.
fn share(params: &Params) -> f64 {
    let text = params.to_string();
    let mixed = text
        .bytes()
        .fold(7_u64, |mixed, byte| (mixed ^ u64::from(byte)).wrapping_mul(1_099_511_628_211));
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// A device on which `best` trials do `best` times as much as one, and more trials no more; trials
/// take from `least` to `most`.
fn shared(trials: u64, memory: u64, (least, most): (u64, u64), best: usize) -> Simulation {
    let mut study: StudySpec = spec(trials, "random", AlgorithmSpec::named("none"));
    study.devices.automatic_concurrency = true;
    let mut simulation = Simulation::new(study, 1, 40, loss);
    simulation.step_time = Duration::from_millis(500);
    // A trial is at its largest from its second step on.
    let takes = move |params: &Params, step: u64| {
        let whole = least + ((most - least) as f64 * share(params)) as u64;
        if step < 2 { whole / 2 } else { whole }
    };
    simulation.shared = Some(Shared {
        memory,
        takes: Box::new(takes),
        throughput: Box::new(move |trials| trials.min(best) as f64),
        is_strict: false,
    });
    simulation
}

/// The changes in the order in which they were made: how many at a time, of what kind, and who had
/// to leave.
fn changes(turns: &[Turn]) -> Vec<(u32, ConcurrencyChange, Option<TrialNumber>)> {
    let events = turns.iter().flat_map(|turn| &turn.events);
    let packed = events.filter_map(|event| match event {
        Event::Device(DeviceEvent::ConcurrencyChanged { slots, change, trial, .. }) => {
            Some((*slots, *change, *trial))
        }
        _ => None,
    });
    packed.collect()
}

/// Never more trials at a time than were said, no trial twice, all of them complete, and the
/// journal folds to the state.
fn assert_sound(run: &SimulationResult, simulation: &Simulation, trials: u64) {
    let (mut slots, mut running, mut state) =
        (1_usize, BTreeMap::new(), StudyState::new(&simulation.spec));
    for turn in &run.turns {
        for event in &turn.events {
            match event {
                Event::Runner(RunnerEvent::Started { .. }) => running.clear(),
                Event::Device(DeviceEvent::ConcurrencyChanged {
                    slots: now,
                    change,
                    trial,
                    ..
                }) => {
                    slots = *now as usize;
                    // Whoever makes room is neither the best of those that run, nor the only one.
                    if let (ConcurrencyChange::MemoryPressure, Some(leaves)) = (change, trial) {
                        let value = |number: TrialNumber| {
                            state.trial(number).and_then(|trial| state.value_of(trial))
                        };
                        let scored = running.keys().filter_map(|number| {
                            Some((Score::new(state.direction(), value(*number)?), *number))
                        });
                        assert!(
                            scored.min().is_none_or(|(_, best)| best != *leaves),
                            "the best one had to leave"
                        );
                        assert!(running.len() >= 2);
                    }
                }
                Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Started { .. })) => {
                    assert!(running.insert(*trial, ()).is_none(), "trial {trial} runs twice");
                    assert!(running.len() <= slots, "{} of {slots}", running.len());
                }
                Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Ended { .. })) => {
                    running.remove(trial);
                }
                _ => {}
            }
            state.apply(turn.at, event);
        }
    }
    assert_eq!(format!("{state:?}"), format!("{:?}", run.state), "the journal folds to the state");
    let complete =
        run.state.trials.iter().filter(|trial| trial.state == TrialState::Complete).count() as u64;
    assert_eq!(complete, trials, "{:?}", run.outcome);
}

#[test]
fn as_many_trials_share_a_device_as_make_it_do_more() {
    for best in [1, 2, 3, 6] {
        let simulation = shared(60, 100 * GIB, (GIB, GIB), best);
        let run = simulation.run(&[]).unwrap();
        assert_sound(&run, &simulation, 60);
        let found = changes(&run.turns);
        let (most, last) = (
            found.iter().map(|change| change.0).max().unwrap_or(1),
            found.last().map_or(1, |change| change.0),
        );
        // It doubles, until that is no better, and is then looked for one by one.
        let tried = (best + 1).max(2 * best);
        assert!(usize::try_from(most).unwrap() <= tried, "{best}: {found:?}");
        assert!((best..=best + 1).contains(&usize::try_from(last).unwrap()), "{best}: {found:?}");
        // The best number, had it been known before.
        let mut known = shared(60, 100 * GIB, (GIB, GIB), best);
        known.spec.devices.automatic_concurrency = false;
        (known.slots, known.per_device) = (best, best);
        let known = known.run(&[]).unwrap();
        assert!(
            seconds(&run) <= 1.5 * seconds(&known),
            "{best}: {} against {}",
            seconds(&run),
            seconds(&known)
        );
    }
}

#[test]
fn each_device_of_a_study_shares_itself_out_as_it_is_good_for_it() {
    let mut simulation = shared(80, 10 * GIB, (2 * GIB, 2 * GIB), 16);
    simulation.slots = 2;
    let run = simulation.run(&[]).unwrap();
    assert_eq!(run.state.counts.complete, 80);
    let most = most_by_device(events(&run.turns));
    // Four of 2 GiB each, on both.
    assert_eq!(most, BTreeMap::from([("sim:0".to_owned(), 4), ("sim:1".to_owned(), 4)]));
    assert_eq!(run.most_memory, 8 * GIB);
}

#[test]
fn trials_are_admitted_as_long_as_memory_has_room_for_the_largest() {
    // 10 GiB, nine tenths of them for trials of 2 GiB.
    let simulation = shared(40, 10 * GIB, (2 * GIB, 2 * GIB), 16);
    let run = simulation.run(&[]).unwrap();
    assert_sound(&run, &simulation, 40);
    assert_eq!(changes(&run.turns).iter().map(|change| change.0).max(), Some(4));
    assert_eq!(run.most_memory, 8 * GIB);
    let reasons: Vec<String> = events(&run.turns)
        .filter_map(|event| match event {
            Event::Device(DeviceEvent::ConcurrencyChanged { reason, .. }) => Some(reason.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(
        reasons[0],
        "memory has room: 4.0 GiB of 10.0 GiB with another as large as the largest so far (2.0 GiB)"
    );
    assert!(
        reasons[1].starts_with(
            "2 at a time do 2.00 times as much as 1, and memory has room: 8.0 GiB of 10.0 GiB with \
             2 others"
        ),
        "{reasons:?}"
    );
}

#[test]
fn where_memory_gets_short_the_youngest_makes_room_goes_on_from_its_checkpoint_and_is_told_why() {
    // Most trials are small, some as large as a third of the device: more get in than can stay.
    let mut simulation = shared(60, 12 * GIB, (GIB, GIB), 16);
    if let Some(shared) = &mut simulation.shared {
        shared.takes =
            Box::new(|params, step| if step > 20 && share(params) > 0.5 { 4 * GIB } else { GIB });
    }
    let run = simulation.run(&[]).unwrap();
    assert_sound(&run, &simulation, 60);
    let pressed: Vec<TrialNumber> = changes(&run.turns)
        .into_iter()
        .filter_map(|(_, change, trial)| {
            trial.filter(|_| change == ConcurrencyChange::MemoryPressure)
        })
        .collect();
    assert!(!pressed.is_empty());
    let events: Vec<&Event> = events(&run.turns).collect();
    for trial in &pressed {
        let queued = events.iter().find_map(|event| match event {
            Event::Trial(queued, TrialEvent::State(StateEvent::Queued { reason, .. }))
                if queued == trial && reason.contains("memory is short") =>
            {
                Some(reason)
            }
            _ => None,
        });
        assert!(
            queued.is_some_and(
                |reason| reason.contains("the youngest makes room; continues from epoch")
            ),
            "{queued:?}"
        );
    }
    // What was reported is not done again: checkpoints are saved before each report.
    assert_eq!(run.steps, 60 * 40);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(3, 40)))]

    /// Whatever the device is like, and whoever dies: its memory is never exceeded as long as
    /// trials differ by a tenth, all end, and after a crash it continues with as many as before.
    #[test]
    fn memory_is_never_exceeded_and_a_crash_changes_nothing(
        best in 1usize..9, room in 2u64..12, differ in 0u64..10, seed in 0u64..1000,
        deaths in prop::collection::vec(1usize..120, 0..6), crash in any::<bool>(),
    ) {
        let least = 100 * (GIB / 100);
        let mut simulation = shared(24, room * GIB, (least, least + least * differ / 100), best);
        simulation.spec.seed = seed;
        if crash {
            simulation.faults = Box::new(|trial, attempt, step| {
                ((trial.0 + step) % 37 == 0 && attempt.0 == 0).then_some(Fault::Crash)
            });
        }
        let mut journal: Vec<Turn> = Vec::new();
        for turns in deaths {
            let run = simulation.run(&journal).unwrap();
            prop_assert!(run.most_memory <= room * GIB);
            journal = run.turns[..run.turns.len().min(journal.len() + turns)].to_vec();
            let before = changes(&journal).last().map_or(1, |change| change.0);
            let again = simulation.run(&journal).unwrap();
            let told = again.turns[journal.len()..].iter().flat_map(|turn| &turn.events).find_map(
                |event| match event {
                    Event::Device(DeviceEvent::SlotsChanged { slots }) => Some(slots.len()),
                    Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Ended { .. })) => {
                        Some(usize::MAX)
                    }
                    _ => None,
                },
            );
            if before > 1 && again.steps > 0 && told != Some(usize::MAX) {
                prop_assert_eq!(told, Some(before as usize));
            }
        }
        let run = simulation.run(&journal).unwrap();
        prop_assert!(run.most_memory <= room * GIB, "{} of {}", run.most_memory, room * GIB);
        assert_sound(&run, &simulation, 24);
    }
}

/// The largest number of trials at a time that was decided for each device.
fn most_by_device<'a>(events: impl Iterator<Item = &'a Event>) -> BTreeMap<String, u32> {
    let mut most: BTreeMap<String, u32> = BTreeMap::new();
    for event in events {
        if let Event::Device(DeviceEvent::ConcurrencyChanged { device, slots, .. }) = event {
            let most = most.entry(device.to_string()).or_default();
            *most = (*most).max(*slots);
        }
    }
    most
}

/// Never more trials at a time on a device of an agent than was decided for it, and none while the
/// agent is away; a trial runs once at a time.
fn assert_sound_on_agents(run: &SimulationResult, trials: u64) {
    let mut slots: BTreeMap<String, usize> = BTreeMap::new();
    let mut running: BTreeMap<TrialNumber, String> = BTreeMap::new();
    let mut here: BTreeSet<String> = BTreeSet::new();
    for event in events(&run.turns) {
        match event {
            Event::Runner(RunnerEvent::Started { .. }) => {
                running.clear();
                here.clear();
            }
            Event::Device(DeviceEvent::ConcurrencyChanged { device, slots: now, .. }) => {
                slots.insert(device.to_string(), *now as usize);
            }
            Event::Device(DeviceEvent::AgentChanged { agent, change }) => match change {
                AgentChange::Joined { .. } => drop(here.insert(agent.clone())),
                AgentChange::Left { .. } => drop(here.remove(agent)),
                _ => {}
            },
            Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Started { slot, .. })) => {
                let device = slot.devices.to_string();
                assert!(here.contains(slot.devices.agent().unwrap()), "{device} is away");
                assert!(running.insert(*trial, device.clone()).is_none(), "{trial} runs twice");
                let there = running.values().filter(|on| **on == device).count();
                let most = slots.get(&device).copied().unwrap_or(1);
                assert!(there <= most, "{there} of {most} on {device}");
            }
            Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Ended { .. })) => {
                running.remove(trial);
            }
            _ => {}
        }
    }
    assert_eq!(run.state.counts.complete, trials, "{:?}", run.outcome);
}

#[test]
fn each_device_of_agents_has_as_many_trials_as_it_has_memory_for() {
    let simulation =
        with_agents(shared(80, GIB, (2 * GIB, 2 * GIB), 16), &[10 * GIB, 5 * GIB, 3 * GIB]);
    let run = simulation.run(&[]).unwrap();
    assert_sound_on_agents(&run, 80);
    let node = |index: u32| format!("node{index}/sim:0");
    let mut most = most_by_device(events(&run.turns));
    // The third never has another, and that is recorded, too.
    assert_eq!(most.remove(&node(2)), Some(1));
    assert_eq!(most, BTreeMap::from([(node(0), 4), (node(1), 2)]));
}

#[test]
fn an_agent_that_comes_back_has_as_many_trials_as_before() {
    let mut simulation = with_agents(shared(60, GIB, (GIB, GIB), 3), &[8 * GIB, 8 * GIB]);
    simulation.agents[1].absences =
        vec![(800, Duration::from_secs(40)), (1600, Duration::from_secs(5))];
    let run = simulation.run(&[]).unwrap();
    assert_sound_on_agents(&run, 60);
    let of_node = |event: &&Event| match event {
        Event::Device(DeviceEvent::ConcurrencyChanged { device, .. }) => {
            device.agent() == Some("node1")
        }
        Event::Device(DeviceEvent::AgentChanged { agent, .. }) => agent == "node1",
        _ => false,
    };
    let mut found = vec![0];
    let mut again = Vec::new();
    for event in events(&run.turns).filter(of_node) {
        match event {
            Event::Device(DeviceEvent::ConcurrencyChanged { slots, .. }) => found.push(*slots),
            Event::Device(DeviceEvent::AgentChanged {
                change: AgentChange::Joined { .. }, ..
            }) => again.push(found.last().copied().unwrap()),
            _ => {}
        }
    }
    assert_eq!(again.len(), 3, "{again:?}");
    assert!(again[1] >= 3 && again[2] >= 3, "{again:?}");
    // The slots of the agent at its return are recorded with that number.
    let slots: Vec<usize> = events(&run.turns)
        .filter_map(|event| match event {
            Event::Device(DeviceEvent::SlotsChanged { slots }) => {
                Some(slots.iter().filter(|slot| slot.devices.is_on("node1")).count())
            }
            _ => None,
        })
        .collect();
    let away = slots.iter().rposition(|slots| *slots == 0).unwrap();
    assert!(slots[away + 1] >= 3, "{slots:?}");
}

#[test]
fn a_trial_of_an_agent_that_left_and_is_back_first_was_not_resumed_by_the_user() {
    let mut simulation = with_agents(shared(30, GIB, (GIB, GIB), 3), &[8 * GIB, 8 * GIB]);
    simulation.agents[1].absences = vec![(200, Duration::from_secs(1))];
    simulation.leave_time = Duration::from_secs(3);
    let run = simulation.run(&[]).unwrap();
    assert_sound_on_agents(&run, 30);
    let reasons: Vec<&str> = events(&run.turns)
        .filter_map(|event| match event {
            Event::Trial(_, TrialEvent::State(StateEvent::Queued { reason, .. })) => {
                Some(reason.as_str())
            }
            _ => None,
        })
        .collect();
    assert!(!reasons.is_empty(), "trials were there");
    assert!(reasons.iter().all(|reason| reason.starts_with("left node1/sim:0")), "{reasons:?}");
}

#[test]
fn a_trial_too_large_for_one_agent_waits_for_one_with_room() {
    // Trials of 1 to 8 GiB, one a layer; a device of 6 GiB and one of 40.
    let mut simulation = with_agents(shared(60, GIB, (GIB, GIB), 8), &[40 * GIB, 6 * GIB]);
    let takes = |params: &Params| (number(params, "layers") * GIB as f64) as u64;
    if let Some(shared) = &mut simulation.shared {
        shared.takes = Box::new(move |params, _| takes(params));
        shared.is_strict = true;
    }
    let run = simulation.run(&[]).unwrap();
    assert_sound_on_agents(&run, 60);
    let waited = events(&run.turns).any(|event| match event {
        Event::Trial(_, TrialEvent::State(StateEvent::Queued { reason, .. })) => {
            reason.starts_with("waits for memory of node1/sim:0: it is expected to take")
        }
        _ => false,
    });
    assert!(waited);
    let mut failed_late = 0;
    let mut ended = 0;
    for event in events(&run.turns) {
        if let Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Ended { end, .. })) = event {
            ended += 1;
            failed_late += usize::from(ended > 20 && *end == AttemptEnd::Failed(FailureCause::Oom));
        }
    }
    assert_eq!(failed_late, 0, "once the memory of trials is known, none is tried in vain");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(3, 40)))]

    /// Whoever dies or leaves: no device has more trials than was decided, none of them is lost,
    /// and the journal is decided again.
    #[test]
    fn agents_and_runners_may_come_and_go_while_devices_share_themselves_out(
        best in 1usize..5, memory in prop::collection::vec(3u64..9, 1..4), seed in 0u64..1000,
        deaths in prop::collection::vec(1usize..120, 0..4),
        absences in prop::collection::vec((0usize..3, 1u64..600, 1u64..30), 0..4),
    ) {
        let memory: Vec<u64> = memory.into_iter().map(|memory| memory * GIB).collect();
        let mut simulation = with_agents(shared(24, GIB, (GIB, GIB), best), &memory);
        simulation.spec.seed = seed;
        for (agent, after, seconds) in absences {
            let agent = agent % memory.len();
            simulation.agents[agent].absences.push((after, Duration::from_secs(seconds)));
        }
        let mut journal: Vec<Turn> = Vec::new();
        for turns in deaths {
            let run = simulation.run(&journal).unwrap();
            journal = run.turns[..run.turns.len().min(journal.len() + turns)].to_vec();
        }
        let run = simulation.run(&journal).unwrap();
        assert_sound_on_agents(&run, 24);
    }
}

/// So many steps that wait for something else than the processor.
fn waiting(steps: u64, step: &str) -> String {
    let report = "echo \"@hpsearch {\\\"step\\\":$step,\\\"loss\\\":$1}\"";
    format!("for step in $(seq {steps}); do\n  {step}\n  {report}\ndone\n")
}

/// The most trials at a time that the lines of a run speak of.
fn most_at_a_time(said: &str) -> u64 {
    let packed =
        said.lines().filter_map(|line| line.split_once(" at a time on cpu: ")?.0.parse().ok());
    packed.max().unwrap_or(1)
}

#[test]
fn real_trials_that_do_not_hinder_each_other_share_the_processor_and_it_is_said() {
    let rest =
        "[devices]\nuse = [\"cpu\"]\ntrials_per_device = \"auto\"\n[pruner]\ntype = \"none\"\n";
    let site = Site::new(&study("trials = 16", rest), &waiting(10, "sleep 0.3"));
    let ended = site.run_study();
    assert_done(&ended);
    assert_names(&ended.out, &["2 at a time on cpu: memory has room: "]);
    assert!(most_at_a_time(&ended.out) >= 3, "{}", ended.out);
    assert_eq!(site.states(), ["complete"; 16]);
    let explained = site.run(&["explain", "s", "15"]);
    assert_names(&explained.out, &["at a time on cpu: "]);
}

#[test]
fn real_agents_find_how_many_trials_share_their_processors_and_a_new_runner_knows() {
    let rest = "[devices]\nuse = [\"cpu\"]\ntrials_per_device = \"auto\"\n[pruner]\n\
        type = \"none\"\n\
        [cluster]\nlisten = \"127.0.0.1:0\"\n";
    let site = Site::new(&study("trials = 40", rest), &waiting(10, "sleep 0.3"));
    let mut runner = start(&site);
    let agent = || Running::start(site.command(&["agent", FILE]));
    let agents = [agent(), agent()];
    let found = |site: &Site| most_by_device(site.events().iter());
    wait_until("both have several trials at a time", || {
        let found = found(&site);
        found.len() == 2 && found.values().all(|most| *most >= 3)
    });
    runner.kill();
    let before = site.events();
    let ended = start(&site).end();
    assert_done(&ended);
    for agent in agents {
        assert_done(&agent.end());
    }
    assert_eq!(site.states(), ["complete"; 40]);
    let again: Vec<Event> = site
        .events()
        .into_iter()
        .filter(|event| match event {
            // One that the runner had recorded and not sent did not begin.
            Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Ended { end, .. })) => {
                !matches!(end, AttemptEnd::Completed | AttemptEnd::Lost)
            }
            _ => false,
        })
        .collect();
    assert!(again.is_empty(), "{again:?}");
    // The last number of each agent before, in the first record of both agents' slots afterwards.
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for event in &before {
        if let Event::Device(DeviceEvent::ConcurrencyChanged { device, slots, .. }) = event {
            last.insert(device.to_string(), *slots as usize);
        }
    }
    let recorded = site.events()[before.len()..].iter().find_map(|event| match event {
        Event::Device(DeviceEvent::SlotsChanged { slots }) => {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for slot in slots {
                *counts.entry(slot.devices.to_string()).or_default() += 1;
            }
            (counts.len() == 2).then_some(counts)
        }
        _ => None,
    });
    assert_eq!(recorded, Some(last));
    let explained = site.run(&["explain", "s", "39"]);
    assert_names(&explained.out, &["at a time on "]);
    let verified = site.run(&["verify", "s"]);
    assert_done(&verified);
}

#[test]
#[ignore = "a measurement for a quiet machine: who gets the lock next is luck, and work of others \
    drowns it"]
fn a_place_that_makes_real_trials_wait_for_each_other_is_given_back() {
    let rest =
        "[devices]\nuse = [\"cpu\"]\ntrials_per_device = \"auto\"\n[pruner]\ntype = \"none\"\n";
    let site =
        Site::new(&study("trials = 4", rest), &waiting(25, "flock one-at-a-time sleep 0.15"));
    let ended = site.run_study();
    assert_done(&ended);
    // Who gets the lock is luck: a second one may seem worth its place for a while.
    assert_names(&ended.out, &[": not worth a slot"]);
    assert!(most_at_a_time(&ended.out) <= 4, "{}", ended.out);
    assert_eq!(site.states(), ["complete"; 4]);
}

/// A processor of so many cores with trials that use some of them, looked at for `seconds`; what is
/// advised, in order.
fn on_cores(
    mut concurrency: Concurrency,
    cores: u32,
    used: f64,
    seconds: i64,
) -> (u32, Vec<Advice>) {
    let mut advised = Vec::new();
    let at = |seconds: i64| Timestamp(seconds * 1_000_000);
    concurrency.begin(at(0));
    for second in 1..seconds {
        let running = concurrency.slots();
        let running_trials: Vec<RunningTrial> = (0..u64::from(running))
            .map(|trial| RunningTrial {
                trial: TrialNumber(trial),
                since: at(0),
                is_best: trial == 0,
                leaves: false,
                memory: None,
            })
            .collect();
        // Each gets its share.
        let share = used.min(f64::from(cores) / f64::from(running));
        let trials = running_trials
            .iter()
            .map(|trial| TrialLoad { trial: trial.trial, memory: GIB / 8, cores: Some(share) })
            .collect();
        let load = Load {
            device: Device::Cpu,
            total: 1000 * GIB,
            used: GIB,
            cores: Some(cores),
            exclusive: false,
            trials,
        };
        concurrency.loaded(&load, running, at(second));
        running_trials.iter().for_each(|trial| {
            concurrency.reported(trial.trial, second.unsigned_abs(), running, at(second))
        });
        advised.extend(concurrency.advise(&running_trials, Waiting::Trial(None), at(second)));
    }
    (concurrency.slots(), advised)
}

#[test]
fn trials_of_the_trainer_share_a_processor_up_to_its_cores_however_busy_others_make_it() {
    for (cores, threads, most) in [(1, 1, 1), (2, 1, 2), (8, 1, 8), (8, 3, 2), (2, 4, 1)] {
        // A third of the processor time that they would take.
        let (slots, advised) = on_cores(
            Concurrency::new(Timestamp::default()).of_trials(None, Some(threads)),
            cores,
            0.3,
            400,
        );
        assert_eq!(slots, most, "{advised:?}");
        let full: Vec<&String> = advised
            .iter()
            .filter(|advice| advice.change == ConcurrencyChange::Saturated)
            .map(|advice| &advice.reason)
            .collect();
        assert_eq!(full.len(), 1, "said once: {advised:?}");
        assert!(
            full[0].starts_with("all of ") && full[0].contains("each trial computes on"),
            "{full:?}"
        );
    }
    // What an earlier run found good on another machine does not fit here.
    let mut concurrency = Concurrency::new(Timestamp::default()).of_trials(None, Some(1));
    concurrency.apply(Timestamp(0), 16, ConcurrencyChange::Admitted, GIB);
    let (slots, advised) = on_cores(concurrency, 4, 0.9, 60);
    assert_eq!(
        (slots, advised[0].change, advised[0].reason.as_str()),
        (4, ConcurrencyChange::Back, "4 cores for trials that compute on 1 thread each")
    );
    assert_eq!(advised[1].change, ConcurrencyChange::Saturated);
}

#[test]
fn commands_that_compute_stop_at_the_cores_and_those_that_rest_do_not() {
    let (slots, advised) = on_cores(Concurrency::new(Timestamp::default()), 4, 1.0, 400);
    assert_eq!(slots, 4, "{advised:?}");
    assert_eq!(
        advised.last().unwrap().reason,
        "4.0 of 4 cores are in use, and another may use 1.0"
    );
    let (slots, _) = on_cores(Concurrency::new(Timestamp::default()), 4, 0.1, 400);
    assert!(slots > 8, "{slots}");
}

#[test]
fn trials_take_together_what_their_user_gave_them() {
    let mut simulation = shared(40, 100 * GIB, (2 * GIB, 2 * GIB), 16);
    simulation.spec.devices.memory = Some(10 * GIB);
    let run = simulation.run(&[]).unwrap();
    assert_sound(&run, &simulation, 40);
    assert_eq!(run.most_memory, 8 * GIB);
    let said = events(&run.turns).find_map(|event| match event {
        Event::Device(DeviceEvent::ConcurrencyChanged {
            change: ConcurrencyChange::Saturated,
            reason,
            ..
        }) => Some(reason.clone()),
        _ => None,
    });
    assert!(
        said.as_deref().is_some_and(
            |said| said.starts_with("memory has no room: 10.0 GiB of 10.0 GiB with another ")
        ),
        "{said:?}"
    );
}

/// What 32 small trials might find on a large GPU: each alone uses a small part of it, and each
/// further one costs the others 4 %. A model, not a measurement.
#[test]
fn thirty_two_small_trials_take_a_quarter_of_the_time_on_a_device_that_one_hardly_fills() {
    let device = |packed: bool| {
        let mut simulation = shared(32, 141 * GIB, (GIB, 3 * GIB), 1);
        simulation.spec.devices.automatic_concurrency = packed;
        simulation.step_time = Duration::from_secs(2);
        if let Some(shared) = &mut simulation.shared {
            shared.throughput =
                Box::new(|trials| trials as f64 / (1.0 + 0.04 * (trials - 1) as f64));
        }
        simulation
    };
    let (one, packed) = (device(false).run(&[]).unwrap(), device(true).run(&[]).unwrap());
    assert_sound(&packed, &device(true), 32);
    let hourly = |run: &SimulationResult| 32.0 * 3600.0 / seconds(run);
    let most = changes(&packed.turns).iter().map(|change| change.0).max();
    eprintln!(
        "one at a time {:.0} trials an hour, packed {:.0}; {most:?} at a time at most",
        hourly(&one),
        hourly(&packed)
    );
    assert!(
        hourly(&packed) >= 4.0 * hourly(&one),
        "{} {} {:?}",
        hourly(&one),
        hourly(&packed),
        changes(&packed.turns)
    );
}
