//! Devices that are paused, resumed and given more or fewer slots while a study runs.

use std::collections::BTreeMap;

use hpsearch::engine::RunOutcome;
use hpsearch::engine::simulator::Turn;
use hpsearch::study::device::Device;
use hpsearch::study::event::{AttemptEvent, DeviceEvent, Event, StateEvent, TrialEvent};
use hpsearch::study::request::{Request, RequestAnswer};
use hpsearch::study::state::StudyState;
use hpsearch::study::trial::{TrialNumber, TrialState};
use proptest::prelude::*;
use rustix::process::Signal;

use crate::harness::{
    RESUMABLE, Site, TWO_SLOTS, answers, asha, assert_done, assert_names, cases, events, study,
    wait_until, with_requests,
};

fn pause(device: u32) -> Request {
    Request::PauseDevice { device: Device::Sim(device) }
}

fn resume(device: u32) -> Request {
    Request::ResumeDevice { device: Device::Sim(device), slots: None }
}

fn slots(device: u32, slots: u32) -> Request {
    Request::ResumeDevice { device: Device::Sim(device), slots: Some(slots) }
}

/// Checks that nothing is started where its user said so, and gives how many trials ran at a time
/// on each device at most.
fn most_at_a_time(turns: &[Turn]) -> BTreeMap<String, usize> {
    let (mut paused, mut running, mut most) =
        (Vec::new(), BTreeMap::<TrialNumber, Device>::new(), BTreeMap::new());
    for event in turns.iter().flat_map(|turn| &turn.events) {
        match event {
            Event::Device(DeviceEvent::Paused { device }) => paused.push(device.clone()),
            Event::Device(DeviceEvent::Resumed { device }) => {
                paused.retain(|other| other != device)
            }
            Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Started { slot, .. })) => {
                assert!(
                    !paused.contains(slot.devices.first()),
                    "trial {trial} is started on {} while that is paused",
                    slot.devices
                );
                running.insert(*trial, slot.devices.first().clone());
                let there = running.values().filter(|device| slot.devices.contains(device)).count();
                let most = most.entry(slot.devices.to_string()).or_insert(0);
                *most = there.max(*most);
            }
            Event::Trial(trial, TrialEvent::Attempt(AttemptEvent::Ended { .. })) => {
                drop(running.remove(trial))
            }
            _ => {}
        }
    }
    most
}

#[test]
fn trials_of_a_paused_device_go_on_elsewhere_from_where_they_saved() {
    let simulation = with_requests(8, 2, vec![(5, pause(1)), (40, resume(1))]);
    let run = simulation.run(&[]).unwrap();
    assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
    most_at_a_time(&run.turns);
    assert_eq!(run.state.counts.complete, 8);
    let moved: Vec<String> = events(&run.turns)
        .filter_map(|event| {
            if let Event::Trial(_, TrialEvent::State(StateEvent::Queued { reason, .. })) = event {
                Some(reason.clone())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(moved, ["left sim:1; continues from epoch 2"]);
    // No step is done twice.
    assert_eq!(run.steps, 8 * 9);
    assert!(run.state.paused_devices.is_empty());
}

#[test]
fn a_study_whose_devices_are_all_paused_waits_and_its_time_stands_still() {
    let mut simulation = with_requests(1000, 2, vec![(4, pause(0)), (4, pause(1)), (4, resume(1))]);
    simulation.spec.budget.time = Some(std::time::Duration::from_secs(9));
    let run = simulation.run(&[]).unwrap();
    assert!(run.outcome.reason().contains("the time budget is used up"), "{:?}", run.outcome);
    let said: Vec<String> =
        answers(&run).into_iter().map(|(_, answer)| format!("{answer:?}")).collect();
    assert!(
        said[0].contains("the trial on sim:0 saves, leaves and waits for another slot"),
        "{said:?}"
    );
    assert!(
        run.state.counts.complete >= 9,
        "one slot for most of 9 s: {}",
        run.state.counts.complete
    );
}

#[test]
fn slots_come_and_go_while_a_study_runs() {
    let run = with_requests(
        30,
        1,
        vec![
            (9, slots(0, 3)),
            (9, slots(7, 2)),
            (90, slots(0, 1)),
            (120, slots(7, 1)),
            (150, slots(0, 2)),
        ],
    )
    .run(&[])
    .unwrap();
    assert_eq!(run.state.counts.complete, 30);
    let most = most_at_a_time(&run.turns);
    assert_eq!((most["sim:0"], most["sim:7"]), (3, 2));
    assert_eq!(run.steps, 30 * 9, "whoever has to move continues from where it saved");
    let now: Vec<usize> = events(&run.turns)
        .filter_map(|event| {
            if let Event::Device(DeviceEvent::SlotsChanged { slots }) = event {
                Some(slots.len())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(now, [3, 5, 3, 2, 3]);
}

#[test]
fn requests_that_make_no_sense_are_refused_with_what_to_do() {
    let run =
        with_requests(3, 2, vec![(1, pause(5)), (1, resume(5)), (1, resume(1)), (1, slots(1, 0))])
            .run(&[])
            .unwrap();
    let said: Vec<String> = answers(&run)
        .into_iter()
        .map(|(_, answer)| match answer {
            RequestAnswer::Done(said) | RequestAnswer::Refused(said) => said,
        })
        .collect();
    assert_eq!(
        said,
        [
            "the study does not run on sim:5: its slots are on sim:0, sim:1",
            "the study does not run on sim:5: say how many slots it is to have there with --slots",
            "sim:1 was not paused",
            "a device without slots runs nothing: `hpsearch pause --device sim:1` pauses it",
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(20, 60)))]

    /// Devices are paused, resumed, widened and narrowed at random, the runner dies at random: each
    /// request is answered once, nothing is started where it should not be, no trial is lost or
    /// doubled, and the study ends.
    #[test]
    fn whatever_is_asked_of_devices_and_whatever_dies_the_study_ends_whole(
        asked in prop::collection::vec((0u64..150, 0u32..3, 0u32..4, 1u32..4), 1..10),
        deaths in prop::collection::vec(1usize..50, 0..6),
        places in 1usize..4,
        promote in any::<bool>(),
        seed in 0u64..1000,
    ) {
        let mut requests: Vec<(u64, Request)> = asked
            .into_iter()
            .map(|(after, device, what, number)| {
                (
                    after,
                    match what {
                        0 | 1 => pause(device),
                        2 => resume(device),
                        _ => slots(device, number),
                    },
                )
            })
            .collect();
        requests.sort_by_key(|(after, _)| *after);
        // Whenever nothing is left to wait for, the next one is asked: at last everything is
        // resumed.
        requests.extend((0..3).map(|device| (u64::MAX, resume(device))));
        let mut simulation = with_requests(20, places, requests);
        simulation.spec.seed = seed;
        simulation.spec.pruner = if promote { asha("promote") } else { asha("stop") };
        let mut journal: Vec<Turn> = Vec::new();
        for turns in deaths {
            let run = simulation.run(&journal).unwrap();
            journal = run.turns[..run.turns.len().min(journal.len() + turns)].to_vec();
        }
        let run = simulation.run(&journal).unwrap();
        prop_assert!(matches!(run.outcome, RunOutcome::Finished(_)), "{:?}", run.outcome);
        most_at_a_time(&run.turns);
        prop_assert!(
            run.state
                .trials
                .iter()
                .all(|trial| matches!(trial.state, TrialState::Complete | TrialState::Pruned))
        );
        let mut served: Vec<i64> = answers(&run).into_iter().map(|(id, _)| id).collect();
        let all = served.len();
        served.sort_unstable();
        served.dedup();
        prop_assert_eq!(served.len(), all, "each is answered once");
        let mut folded = StudyState::new(&simulation.spec);
        run.turns
            .iter()
            .for_each(|turn| turn.events.iter().for_each(|event| folded.apply(turn.at, event)));
        prop_assert_eq!(format!("{folded:?}"), format!("{:?}", run.state));
    }
}

#[test]
fn a_device_is_paused_and_resumed_from_another_terminal_and_stays_paused_through_a_kill() {
    let rest = TWO_SLOTS;
    let site = Site::new(&study("trials = 4", rest), RESUMABLE);
    let running = site.start_study();
    wait_until("both devices have a trial", || site.lines("steps").len() > 3);
    let asked = site.run(&["pause", "s", "--device", "sim:1"]);
    assert_done(&asked);
    assert_names(&asked.err, &["the trial on sim:1 saves, leaves and waits for another slot"]);
    wait_until("it has left", || {
        site.states()[..2].contains(&"queued".to_owned())
            || site.states().iter().filter(|state| *state == "running").count() == 1
    });
    assert!(
        site.run(&["show", "s"]).out.contains("sim:1 is paused by you"),
        "{}",
        site.run(&["show", "s"]).out
    );
    running.signal(Signal::KILL);
    running.end();
    let running = site.start_study();
    wait_until("it says so", || {
        running.said_so_far().contains("sim:1 is paused: `hpsearch resume s --device sim:1`")
    });
    wait_until("one runs", || site.states().iter().any(|state| state == "running"));
    assert_eq!(site.states().iter().filter(|state| *state == "running").count(), 1);
    assert_done(&site.run(&["resume", "s", "--device", "sim:1", "--slots", "2"]));
    wait_until("three run", || {
        site.states().iter().filter(|state| *state == "running").count() == 3
            || site.states().iter().all(|state| state == "complete")
    });
    let ended = running.end();
    assert_done(&ended);
    assert_names(&ended.out, &["running on 3 slots (sim:0, sim:1, sim:1)"]);
    assert_eq!(site.states(), ["complete"; 4]);
    site.assert_folds();
    let steps = site.lines("steps").len();
    assert!((24..=28).contains(&steps), "what the kill cost is done again, nothing else: {steps}");
    let refused = site.run(&["resume", "s", "--device", "cuda:700", "--slots", "2"]);
    assert_eq!(refused.code, 2);
    assert_names(&refused.err, &["`cuda:700` is not on this machine"]);
}

#[test]
fn a_paused_device_stops_its_whole_group_and_slots_are_those_of_the_group() {
    let mut simulation = with_requests(
        12,
        2,
        vec![(5, pause(1)), (30, resume(1)), (40, slots(3, 2)), (40, slots(9, 1))],
    );
    simulation.per_trial = 2;
    let run = simulation.run(&[]).unwrap();
    assert_eq!(run.state.counts.complete, 12);
    assert_eq!(run.steps, 12 * 9, "whoever has to move continues from where it saved");
    let said: Vec<String> = answers(&run)
        .into_iter()
        .map(|(_, answer)| match answer {
            RequestAnswer::Done(said) | RequestAnswer::Refused(said) => said,
        })
        .collect();
    assert!(said[0].starts_with("the trial on sim:1 saves"), "{said:?}");
    assert_eq!(said[2], "sim:3 is used, for 2 trials at a time");
    assert!(said[3].contains("groups of devices without sim:9"), "{said:?}");
    let mut paused = false;
    let mut on_each = BTreeMap::<String, usize>::new();
    for event in events(&run.turns) {
        match event {
            Event::Device(DeviceEvent::Paused { .. }) => paused = true,
            Event::Device(DeviceEvent::Resumed { .. }) => paused = false,
            Event::Trial(_, TrialEvent::Attempt(AttemptEvent::Started { slot, .. })) => {
                assert!(!paused || !slot.devices.contains(&Device::Sim(1)), "{slot:?}");
                *on_each.entry(slot.devices.to_string()).or_default() += 1;
            }
            _ => {}
        }
    }
    assert_eq!(on_each.keys().collect::<Vec<_>>(), ["sim:0+sim:1", "sim:2+sim:3"]);
}
