//! Devices that share themselves out (`trials_per_device = "auto"`): simulated ones with a memory
//! and a throughput, and real trials.

use std::collections::BTreeMap;
use std::time::Duration;

use hpsearch::engine::concurrency::{Advice, Concurrency, Load, RunningTrial, TrialLoad, Waiting};
use hpsearch::engine::simulator::{Fault, Run, Shared, Simulation, Turn};
use hpsearch::study::device::Device;
use hpsearch::study::event::{ConcurrencyChange, DeviceEvent, Event, RunnerEvent, TrialEvent};
use hpsearch::study::metric::Score;
use hpsearch::study::params::Params;
use hpsearch::study::spec::{AlgorithmSpec, StudySpec};
use hpsearch::study::state::StudyState;
use hpsearch::study::time::Timestamp;
use hpsearch::study::trial::{TrialNumber, TrialState};
use proptest::prelude::*;

use crate::harness::{Site, assert_done, assert_names, cases, events, loss, seconds, spec, study};

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
    study.devices.packed = true;
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
fn assert_sound(run: &Run, simulation: &Simulation, trials: u64) {
    let (mut slots, mut running, mut view) =
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
                            view.trial(number).and_then(|trial| view.value_of(trial))
                        };
                        let scored = running.keys().filter_map(|number| {
                            Some((Score::new(view.direction(), value(*number)?), *number))
                        });
                        assert!(
                            scored.min().is_none_or(|(_, best)| best != *leaves),
                            "the best one had to leave"
                        );
                        assert!(running.len() >= 2);
                    }
                }
                Event::Trial(trial, TrialEvent::AttemptStarted { .. }) => {
                    assert!(running.insert(*trial, ()).is_none(), "trial {trial} runs twice");
                    assert!(running.len() <= slots, "{} of {slots}", running.len());
                }
                Event::Trial(trial, TrialEvent::AttemptEnded { .. }) => drop(running.remove(trial)),
                _ => {}
            }
            view.apply(turn.at, event);
        }
    }
    assert_eq!(format!("{view:?}"), format!("{:?}", run.view), "the journal folds to the state");
    let complete =
        run.view.trials.iter().filter(|trial| trial.state == TrialState::Complete).count() as u64;
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
        assert!(usize::try_from(most).unwrap() <= best + 1, "{best}: {found:?}");
        assert!((best..=best + 1).contains(&usize::try_from(last).unwrap()), "{best}: {found:?}");
        // The best number, had it been known before.
        let mut known = shared(60, 100 * GIB, (GIB, GIB), best);
        known.spec.devices.packed = false;
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
    assert_eq!(run.view.counts.complete, 80);
    let mut most: BTreeMap<String, u32> = BTreeMap::new();
    for event in events(&run.turns) {
        if let Event::Device(DeviceEvent::ConcurrencyChanged { device, slots, .. }) = event {
            let most = most.entry(device.to_string()).or_default();
            *most = (*most).max(*slots);
        }
    }
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
        reasons[1]
            .starts_with("2 at a time do 2.00 times as much as 1, and memory has room: 6.0 GiB"),
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
            Event::Trial(queued, TrialEvent::Queued { reason, .. })
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
            simulation.faults = Box::new(|trial, attempt, step| ((trial.0 + step) % 37 == 0 && attempt.0 == 0).then_some(Fault::Crash));
        }
        let mut journal: Vec<Turn> = Vec::new();
        for turns in deaths {
            let run = simulation.run(&journal).unwrap();
            prop_assert!(run.most_memory <= room * GIB);
            journal = run.turns[..run.turns.len().min(journal.len() + turns)].to_vec();
            let before = changes(&journal).last().map_or(1, |change| change.0);
            let again = simulation.run(&journal).unwrap();
            let told = again.turns[journal.len()..].iter().flat_map(|turn| &turn.events).find_map(|event| match event {
                Event::Device(DeviceEvent::SlotsChanged { slots }) => Some(slots.len()),
                Event::Trial(_, TrialEvent::AttemptEnded { .. }) => Some(usize::MAX),
                _ => None,
            });
            if before > 1 && again.steps > 0 && told != Some(usize::MAX) {
                prop_assert_eq!(told, Some(before as usize));
            }
        }
        let run = simulation.run(&journal).unwrap();
        prop_assert!(run.most_memory <= room * GIB, "{} of {}", run.most_memory, room * GIB);
        assert_sound(&run, &simulation, 24);
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
        simulation.spec.devices.packed = packed;
        simulation.step_time = Duration::from_secs(2);
        if let Some(shared) = &mut simulation.shared {
            shared.throughput =
                Box::new(|trials| trials as f64 / (1.0 + 0.04 * (trials - 1) as f64));
        }
        simulation
    };
    let (one, packed) = (device(false).run(&[]).unwrap(), device(true).run(&[]).unwrap());
    assert_sound(&packed, &device(true), 32);
    let hourly = |run: &Run| 32.0 * 3600.0 / seconds(run);
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
