//! `hpsearch watch` on a real pseudo-terminal: what it shows, how it follows the store, how it leaves.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use hpsearch::storage::sqlite::SqliteStore;
use hpsearch::storage::{Storage, StorageReader};
use hpsearch::study::device::Device;
use hpsearch::study::event::{Answer, Event, Request};
use hpsearch::study::spec::Extension;
use hpsearch::study::trial::{TrialNumber, TrialState};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::verbs::{PATIENCE, Scene};

/// A program on a terminal of its own.
pub struct OnTerminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    printed: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl OnTerminal {
    pub fn watch(scene: &Scene) -> Self {
        Self::start(scene, &["watch", "digits"])
    }

    pub fn start(scene: &Scene, arguments: &[&str]) -> Self {
        Self::start_with(scene, arguments, &[])
    }

    fn start_with(scene: &Scene, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_hpsearch"));
        command.args(arguments);
        command.cwd(scene.directory.path());
        for (name, value) in [("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color"), ("TZ", "UTC")]
            .iter()
            .chain(environment)
        {
            command.env(name, value);
        }
        command.env("XDG_STATE_HOME", scene.directory.path().join("state"));
        command.env_remove("HPSEARCH_STORE");
        // A panic is told in one line then.
        command.env_remove("RUST_BACKTRACE");
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (tx, printed) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal's end is an error on Linux, and the end of the test.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let _ = tx.send(bytes[..count].to_vec());
            }
        });
        let keys = pair.master.take_writer().unwrap();
        OnTerminal {
            child,
            master: pair.master,
            keys,
            printed,
            screen: vt100::Parser::new(24, 80, 0),
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Reads what is printed until the screen is as wanted.
    pub fn wait_for(&mut self, wanted: impl Fn(&vt100::Screen) -> bool) {
        let patience = Instant::now() + PATIENCE;
        while !wanted(self.screen.screen()) {
            let left = patience.saturating_duration_since(Instant::now());
            let bytes = self.printed.recv_timeout(left).unwrap_or_else(|_| {
                panic!("the screen stays at\n{}", self.screen.screen().contents())
            });
            self.screen.process(&bytes);
        }
    }

    pub fn wait_for_text(&mut self, text: &str) {
        self.wait_for(|screen| screen.contents().contains(text));
    }

    fn resize(&mut self, rows: u16, cols: u16) {
        self.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).unwrap();
        self.screen.screen_mut().set_size(rows, cols);
    }

    /// The device that the program is on.
    pub fn device(&self) -> std::fs::File {
        std::fs::File::open(self.master.tty_name().unwrap()).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    pub fn leave(mut self) -> u32 {
        self.wait_for(|screen| !screen.alternate_screen() && !screen.hide_cursor());
        self.child.wait().unwrap().exit_code()
    }
}

#[test]
fn watch_shows_the_study_follows_it_and_restores_the_terminal() {
    let mut scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("digits");
    terminal.wait_for_text("best 0.18421");
    terminal.wait_for(vt100::Screen::alternate_screen);
    scene.append(&[Event::TrialFinished {
        trial: TrialNumber(3),
        state: TrialState::Complete,
        value: Some(0.125),
        reason: None,
    }]);
    terminal.wait_for_text("best 0.125");
    terminal.press("q");
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
    scene.append(&[Event::StudyFinished { reason: "enough".into() }]);
    terminal.wait_for_text("study finished: enough");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn a_terminated_watch_restores_the_terminal() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    let pid = terminal.child.process_id().unwrap();
    hpsearch::runner::processes::signal(pid, rustix::process::Signal::TERM);
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn an_interrupted_watch_restores_the_terminal() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    hpsearch::runner::processes::signal(terminal.pid(), rustix::process::Signal::INT);
    assert_eq!(terminal.leave(), 0);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "release builds cannot be told to panic")]
fn a_panic_gives_the_terminal_back_before_it_says_what_happened() {
    let scene = Scene::digits();
    let mut terminal =
        OnTerminal::start_with(&scene, &["watch", "digits"], &[("HPSEARCH_PANIC_AT_KEY", "!")]);
    terminal.wait_for_text("best 0.18421");
    terminal.press("!");
    terminal.wait_for(|screen| {
        !screen.alternate_screen() && screen.contents().contains("told to panic at `!`")
    });
    // Lines of the message begin at the left: the terminal ends lines by itself again.
    assert!(
        terminal.screen.screen().contents().lines().any(|line| line.starts_with("told to panic"))
    );
    assert_eq!(terminal.leave(), 101);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "release builds cannot be told to panic")]
fn a_panic_of_the_thread_that_reads_the_store_ends_the_screens_with_a_message() {
    let scene = Scene::digits();
    let mut terminal = OnTerminal::start_with(
        &scene,
        &["watch", "digits"],
        &[("HPSEARCH_PANIC_WHEN_LOADING", "1")],
    );
    terminal.wait_for_text("told to panic while loading");
    terminal.wait_for_text("error: reading the store failed");
    terminal.wait_for_text("help: `hpsearch trials` prints the same table");
    let screen = terminal.screen.screen();
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
    let OnTerminal { mut child, master, keys, .. } = terminal;
    drop((master, keys));
    // The reading thread of this test holds the terminal open until the program leaves or is hung up on.
    let pid = child.process_id().unwrap();
    hpsearch::runner::processes::signal(pid, rustix::process::Signal::HUP);
    let patience = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < patience, "it stays without a terminal");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The state letter of a process: `T` is stopped.
fn process_state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().chars().next().unwrap()
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
    scene.append(&[Event::TrialFinished {
        trial: TrialNumber(3),
        state: TrialState::Complete,
        value: Some(0.0625),
        reason: None,
    }]);
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
        matches!(&asked[..], [only] if only.request == Request::PauseDevice { device: Device::Cpu }),
        "{asked:?}"
    );
    let answer = Answer::Done("the trial on cpu saves, leaves and waits".to_owned());
    scene.append(&[
        Event::DevicePaused { device: Device::Cpu },
        Event::RequestServed { id: asked[0].id, answer },
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
    let patience = Instant::now() + PATIENCE;
    while process_state(pid) != 'T' {
        assert!(Instant::now() < patience, "it does not stop");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    scene.append(&[Event::TrialFinished {
        trial: TrialNumber(3),
        state: TrialState::Complete,
        value: Some(0.125),
        reason: None,
    }]);
    terminal.resize(30, 100);
    hpsearch::runner::processes::signal(pid, rustix::process::Signal::CONT);
    terminal.wait_for(vt100::Screen::alternate_screen);
    terminal.wait_for_text("best 0.125");
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
        Event::StudyFinished { reason: "enough".into() },
        Event::RunnerStopped {
            reason: "finished".into(),
            ran_micros: 1,
            heard: None,
            device_micros: 0,
        },
    ]);
    scene.leave();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("study finished: enough");
    // What came with the first frame is taken in; then there is silence, for no clock runs.
    while terminal.printed.recv_timeout(std::time::Duration::from_millis(700)).is_ok() {}
    let quiet = terminal.printed.recv_timeout(std::time::Duration::from_millis(1_500));
    assert!(
        quiet.is_err(),
        "{:?}",
        quiet.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    );
    terminal.press("\u{1b}[B");
    let mut sent = 0;
    while let Ok(bytes) = terminal.printed.recv_timeout(std::time::Duration::from_millis(700)) {
        sent += bytes.len();
        terminal.screen.process(&bytes);
    }
    assert!((1..1_600).contains(&sent), "{sent} bytes for one row down");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn a_run_whose_terminal_is_closed_ends_in_order() {
    let scene = Scene::new();
    let study = "[study]\nname = \"slow\"\nmetric = \"loss\"\nstep = \"step\"\ndirection = \"minimize\"\n[budget]\ntrials = 50\n[space]\nx = { float = [0.0, 1.0] }\n\
                 [command]\nrun = [\"sh\", \"-c\", \"trap 'exit 0' TERM; for s in 1 2 3 4 5 6 7 8 9; do echo '@hpsearch {\\\"step\\\":'$s',\\\"loss\\\":0.5}'; sleep 0.2; done\"]\n";
    std::fs::write(scene.directory.path().join("study.toml"), study).unwrap();
    let mut terminal = OnTerminal::start(&scene, &["run", "study.toml"]);
    terminal.wait_for_text("running");
    let pid = terminal.pid();
    // Twice, as when a terminal goes: the second shall not kill what leaves because of the first.
    hpsearch::runner::processes::signal(pid, rustix::process::Signal::HUP);
    std::thread::sleep(std::time::Duration::from_millis(300));
    hpsearch::runner::processes::signal(pid, rustix::process::Signal::HUP);
    terminal.leave();
    let study = scene.store.study("slow").unwrap().unwrap().id;
    let events = scene.store.events_after(study, hpsearch::study::event::Seq(0), 1_000).unwrap();
    assert!(
        matches!(events.last(), Some((_, _, Event::RunnerStopped { .. }))),
        "{:?}",
        events.last()
    );
}

#[test]
fn a_log_that_is_removed_under_a_screen_is_saved_when_the_screen_has_closed() {
    let mut scene = Scene::new();
    let path = |name: &str| scene.directory.path().join(name);
    // Whoever else has the store open would keep it from being saved.
    scene.store = SqliteStore::open(&path("other.db")).unwrap();
    let study = "[study]\nname = \"s\"\nmetric = \"loss\"\nstep = \"step\"\ndirection = \"minimize\"\n[budget]\ntrials = 1\n[space]\nx = { float = [0.0, 1.0] }\n\
                 [devices]\nuse = [\"sim:0\"]\n[command]\nrun = [\"sh\", \"trial.sh\"]\n";
    std::fs::write(path("study.toml"), study).unwrap();
    let script = "for s in $(seq 200); do echo \"@hpsearch {\\\"step\\\":$s,\\\"loss\\\":0.5}\"; read -r answer || exit 8; echo $s >> steps; sleep 0.05; done\n";
    std::fs::write(path("trial.sh"), script).unwrap();
    let steps = || std::fs::read_to_string(path("steps")).unwrap_or_default().lines().count();
    let mut terminal = OnTerminal::start(&scene, &["run", "study.toml"]);
    terminal.wait_for_text("running");
    let until = Instant::now() + PATIENCE;
    while steps() < 3 {
        assert!(Instant::now() < until);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::fs::remove_file(path("runs/hpsearch.db-wal")).unwrap();
    terminal.wait_for_text("was removed");
    // Until the run is over, the key asks whether to stop it.
    while terminal.screen.screen().alternate_screen() {
        assert!(Instant::now() < until);
        terminal.press("q");
        while let Ok(bytes) = terminal.printed.recv_timeout(std::time::Duration::from_millis(100)) {
            terminal.screen.process(&bytes);
        }
    }
    assert_eq!(terminal.leave(), 5);
    let answered = i64::try_from(steps()).unwrap();
    let store = rusqlite::Connection::open(path("runs/hpsearch.db")).unwrap();
    let stored: i64 = store.query_row("SELECT count(*) FROM report", [], |row| row.get(0)).unwrap();
    assert!(stored >= answered, "{stored} of {answered}");
    assert_eq!(
        store.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(),
        "ok"
    );
}
