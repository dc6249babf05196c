//! `hpsearch watch` on a real pseudo-terminal: what it shows, how it follows the store, how it
//! leaves.

use std::time::Duration;

use hpsearch::runner::processes;
use hpsearch::storage::{Storage, StorageReader};
use hpsearch::study::budget::Extension;
use hpsearch::study::device::Device;
use hpsearch::study::event::{DeviceEvent, Event, RunnerEvent, StudyEvent, TrialEvent};
use hpsearch::study::request::{Request, RequestAnswer};
use hpsearch::study::trial::{TrialNumber, TrialState};
use rustix::process::Signal;

use crate::harness::{ONE_SLOT, OnTerminal, Scene, Site, assert_done, study, wait_until};

#[test]
fn watch_shows_the_study_follows_it_and_restores_the_terminal() {
    let mut scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("digits");
    terminal.wait_for_text("best 0.18421");
    terminal.wait_for(vt100::Screen::alternate_screen);
    scene.append(&[Event::Trial(
        TrialNumber(3),
        TrialEvent::finished(TrialState::Complete, Some(0.125), None),
    )]);
    terminal.wait_for_text("best 0.125");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn several_studies_are_watched_in_one_table() {
    let mut scene = Scene::digits();
    scene.write("train.sh", "echo '@hpsearch {\"step\":1,\"eval_loss\":0.125}'\n");
    let track = [
        "track",
        "--study",
        "runs",
        "--name",
        "tracked",
        "--metric",
        "eval_loss",
        "--direction",
        "minimize",
    ];
    assert_done(&scene.run(&[&track[..], &["--", "sh", "train.sh"]].concat()));
    let mut terminal = OnTerminal::start(&scene, &["watch", "--all"]);
    terminal.wait_for_text("2 studies  minimize eval_loss");
    terminal.wait_for_text("best 0.125  runs/0");
    scene.append(&[Event::Trial(
        TrialNumber(3),
        TrialEvent::finished(TrialState::Complete, Some(0.0625), None),
    )]);
    terminal.wait_for_text("best 0.0625  digits/3");
    terminal.press("/study = runs\r");
    terminal.wait_for_text("1 of ");
    terminal.press("ta\r");
    terminal.wait_for_text("is tagged `a`");
    assert_eq!(scene.run(&["tag", "runs", "0"]).out.trim(), "trial 0: a");
    terminal.press("\r");
    terminal.wait_for_text("one of 2 studies; 1 lists all");
    terminal.press("1q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn watch_follows_the_size_of_the_terminal_and_stays_after_the_end() {
    let mut scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    terminal.resize(12, 40);
    terminal.wait_for(|screen| {
        screen.contents().lines().count() <= 12 && screen.contents().contains("Enter open")
    });
    scene.append(&[Event::Study(StudyEvent::finished("enough"))]);
    terminal.wait_for_text("study finished: enough");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn a_study_that_is_removed_under_a_screen_is_not_shown_as_running() {
    let mut scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("running");
    scene.leave();
    assert_done(&scene.run(&["rm", "digits", "--yes"]));
    terminal.wait_for_text("`digits` was removed from the store");
    terminal.wait_for_text("q leaves");
    let first = |screen: &vt100::Screen| screen.contents().lines().next().map(str::to_owned);
    terminal.wait_for(|screen| first(screen).is_some_and(|line| line.contains("removed")));
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn a_terminated_watch_restores_the_terminal() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    let pid = terminal.child.process_id().unwrap();
    processes::signal(pid, Signal::TERM);
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn an_interrupted_watch_restores_the_terminal() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    processes::signal(terminal.pid(), Signal::INT);
    assert_eq!(terminal.leave(), 0);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "release builds cannot be told to panic")]
fn a_panic_gives_the_terminal_back_before_it_says_what_happened() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::start_with(
        &scene.path(""),
        &["watch", "digits"],
        &[("HPSEARCH_PANIC_AT_KEY", "!")],
        (24, 80),
    );
    terminal.wait_for_text("best 0.18421");
    terminal.press("!");
    terminal.wait_for(|screen| {
        !screen.alternate_screen() && screen.contents().contains("told to panic at `!`")
    });
    // Lines of the message begin at the left: the terminal ends lines by itself again.
    assert!(terminal.screen().contents().lines().any(|line| line.starts_with("told to panic")));
    assert_eq!(terminal.leave(), 101);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "release builds cannot be told to panic")]
fn a_panic_of_the_thread_that_reads_the_store_ends_the_screens_with_a_message() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::start_with(
        &scene.path(""),
        &["watch", "digits"],
        &[("HPSEARCH_PANIC_WHEN_LOADING", "1")],
        (24, 80),
    );
    terminal.wait_for_text("told to panic while loading");
    terminal.wait_for_text("error: reading the store failed");
    terminal.wait_for_text("help: `hpsearch trials` prints the same table");
    let screen = terminal.screen();
    assert!(!screen.alternate_screen(), "{}", screen.contents());
    // Lines begin at the left: the terminal ends lines by itself again.
    assert!(
        screen.contents().lines().any(|line| line.starts_with("error: reading the store failed"))
    );
    assert_eq!(terminal.leave(), 1);
}

#[test]
fn watch_leaves_when_its_terminal_is_closed() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    let mut child = terminal.close();
    // The reading thread of this test holds the terminal open until the program leaves or is hung
    // up on.
    let pid = child.process_id().unwrap();
    processes::signal(pid, Signal::HUP);
    wait_until("it leaves without a terminal", || child.try_wait().unwrap().is_some());
}

#[test]
fn a_session_goes_through_screens_filters_orders_and_requests() {
    let mut scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("1/4 trials");
    // Trials: sort by a parameter, turn round, filter.
    terminal.press("slearn\r");
    terminal.wait_for_text("learning_rate▲");
    terminal.press("r");
    terminal.wait_for_text("learning_rate▼");
    terminal.press("/state:running");
    terminal.wait_for_text("1 of 4 trials");
    terminal.press("\r");
    terminal.wait_for_text("Enter open");
    // Kill what runs; it is asked first, and the request is in the store.
    terminal.press("x");
    terminal.wait_for_text("kill trial 3?");
    terminal.press("y");
    terminal.wait_for_text("asked for trial 3 to be killed");
    let study = scene.store.study("digits").unwrap().unwrap().id;
    let pending: Vec<Request> = scene
        .store
        .pending_requests(study)
        .unwrap()
        .into_iter()
        .map(|pending| pending.request)
        .collect();
    assert_eq!(pending, [Request::Kill { trial: TrialNumber(3) }]);
    // A note is written at once, and comes back from the store.
    terminal.press("alooks good\r");
    terminal.wait_for_text("noted on trial 3");
    terminal.press("\r");
    terminal.wait_for_text("metrics");
    terminal.resize(40, 120);
    terminal.wait_for_text("log of attempt 0");
    terminal.wait_for_text("looks good");
    // All screens, and back.
    for (key, text) in [
        ("6", "note: looks good"),
        ("?", "keys: events"),
        ("\u{1b}", "note: looks good"),
        ("1", "1 of 4 trials"),
    ] {
        terminal.press(key);
        terminal.wait_for_text(text);
    }
    for key in ["3", "4", "5", "\t", "\t"] {
        terminal.press(key);
    }
    terminal.press("\u{1b}");
    terminal.wait_for_text("4 trials");
    scene.append(&[Event::Trial(
        TrialNumber(3),
        TrialEvent::finished(TrialState::Complete, Some(0.0625), None),
    )]);
    terminal.wait_for_text("best 0.0625");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
    // The order is kept for the next session.
    let mut again = OnTerminal::watch(&scene);
    again.wait_for_text("learning_rate▼");
    again.press("q");
    assert_eq!(again.leave(), 0);
}

#[test]
fn a_device_is_paused_and_used_again_and_the_budget_raised_from_the_screens() {
    let mut scene = Scene::digits();
    let study = scene.store.study("digits").unwrap().unwrap().id;
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("1/4 trials");
    terminal.press("5");
    terminal.wait_for_text("p pause device");
    terminal.wait_for_text("slot 0");
    terminal.press("p");
    terminal.wait_for_text("asked for cpu to be paused");
    let pending = |scene: &Scene| scene.store.pending_requests(study).unwrap();
    let asked = pending(&scene);
    assert!(
        matches!(
            &asked[..],
            [only] if only.request == Request::PauseDevice { device: Device::Cpu }
        ),
        "{asked:?}"
    );
    let answer = RequestAnswer::Done("the trial on cpu saves, leaves and waits".to_owned());
    scene.append(&[
        Event::Device(DeviceEvent::Paused { device: Device::Cpu }),
        Event::Study(StudyEvent::RequestServed { id: asked[0].id, answer }),
    ]);
    terminal.wait_for_text("pausing, 1 trial to leave");
    terminal.press("p");
    terminal.wait_for_text("asked for cpu to be used again");
    terminal.press("E+50 +2h\r");
    terminal.wait_for_text("asked for the budget to be raised by 50 trials and 2 h");
    let asked: Vec<Request> = pending(&scene).into_iter().map(|pending| pending.request).collect();
    let by = Extension {
        trials: 50,
        time: std::time::Duration::from_secs(7200),
        ..Extension::default()
    };
    assert_eq!(
        asked,
        [Request::ResumeDevice { device: Device::Cpu, slots: None }, Request::Extend { by }]
    );
    terminal.press("?");
    terminal.wait_for_text("keys: devices");
    terminal.press("\u{1b}");
    terminal.wait_for(|screen| !screen.contents().contains("keys: devices"));
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn suspending_gives_the_terminal_back_and_going_on_takes_it_again() {
    let mut scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    terminal.press("\u{1a}");
    terminal.wait_for(|screen| !screen.alternate_screen() && !screen.hide_cursor());
    let pid = terminal.pid();
    wait_until("it stops", || hpsearch::runner::processes::is_stopped(pid));
    scene.append(&[Event::Trial(
        TrialNumber(3),
        TrialEvent::finished(TrialState::Complete, Some(0.125), None),
    )]);
    terminal.resize(30, 100);
    processes::signal(pid, Signal::CONT);
    terminal.wait_for(vt100::Screen::alternate_screen);
    terminal.wait_for_text("best 0.125");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

/// A key that arrives together with the news of another size is read, not kept until the next key.
#[test]
fn keys_that_come_together_with_another_size_are_read_at_once() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    terminal.press("/");
    let mut typed = String::new();
    for round in 0..60_u16 {
        let letter = char::from(b'a' + (round % 26) as u8);
        typed.push(letter);
        // The first leads to a frame; while it is drawn, the second comes together with the key.
        terminal.resize(30, 100);
        std::thread::sleep(Duration::from_micros(u64::from(round) * 100));
        terminal.resize(24, 100);
        terminal.press(&letter.to_string());
        terminal.wait_for_text(&typed);
    }
    terminal.press("\u{1b}");
    terminal.wait_for_text("1/4 trials");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn what_is_pasted_is_not_taken_for_keys() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    terminal.press("\u{1b}[200~Sy\u{1b}[201~");
    terminal.press("/\u{1b}[200~state:pruned\u{1b}[201~");
    terminal.wait_for_text("1 of 4 trials");
    let study = scene.store.study("digits").unwrap().unwrap().id;
    assert_eq!(scene.store.pending_requests(study).unwrap(), []);
    terminal.press("\u{1b}");
    terminal.wait_for_text("1/4 trials");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn nothing_is_sent_while_nothing_changes_and_little_when_little_does() {
    let mut scene = Scene::digits();
    scene.append(&[
        Event::Study(StudyEvent::finished("enough")),
        Event::Runner(RunnerEvent::Stopped {
            reason: "finished".into(),
            ran_micros: 1,
            heard: None,
            device_micros: 0,
            runner: None,
        }),
    ]);
    scene.leave();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("study finished: enough");
    // What came with the first frame is taken in; then there is silence, for no clock runs.
    terminal.wait_for_silence(Duration::from_millis(700));
    assert_eq!(terminal.wait_for_silence(Duration::from_millis(1_500)), 0);
    terminal.press("\u{1b}[B");
    let sent = terminal.wait_for_answer(Duration::from_millis(700));
    assert!((1..1_600).contains(&sent), "{sent} bytes for one row down");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn a_run_whose_terminal_is_closed_ends_in_order() {
    let script = "trap 'echo > told; sleep 0.2; echo > saved; exit 0' TERM\necho > started\nwhile \
        :; do sleep 0.05; done\n";
    let site = Site::new(&study("trials = 50", ONE_SLOT), script);
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("running");
    site.wait_for("started");
    let pid = terminal.pid();
    // Twice, as when a terminal goes: the second shall not kill what leaves because of the first.
    processes::signal(pid, Signal::HUP);
    site.wait_for("told");
    processes::signal(pid, Signal::HUP);
    terminal.leave();
    assert!(site.exists("saved"));
    let events = site.events();
    assert!(
        matches!(events.last(), Some(Event::Runner(RunnerEvent::Stopped { .. }))),
        "{:?}",
        events.last()
    );
}

#[test]
fn a_log_that_is_removed_under_a_screen_is_saved_when_the_screen_has_closed() {
    let script = "for s in $(seq 200); do echo \"@hpsearch {\\\"step\\\":$s,\\\"loss\\\":0.5}\"; \
        read -r answer || exit 8; echo $s >> steps; sleep 0.05; done\n";
    let site = Site::new(&study("trials = 1", ONE_SLOT), script);
    let mut terminal = OnTerminal::start(&site, &["run", "study.toml"]);
    terminal.wait_for_text("running");
    site.wait_for_lines("steps", 3);
    std::fs::remove_file(site.path("runs/hpsearch.db-wal")).unwrap();
    terminal.wait_for_text("was removed");
    // Until the run is over, the key asks whether to stop it.
    wait_until("the screen closes", || {
        terminal.press("q");
        terminal.wait_for_silence(Duration::from_millis(100));
        !terminal.screen().alternate_screen()
    });
    assert_eq!(terminal.leave(), 5);
    let (answered, stored) =
        (site.lines("steps").len(), site.query::<i64>("SELECT count(*) FROM report"));
    assert!(stored >= answered.try_into().unwrap(), "{stored} of {answered}");
    site.assert_sound();
}
