//! `hpsearch watch` on a real pseudo-terminal: what it shows, how it follows the store, how it leaves.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use hpsearch::event::Event;
use hpsearch::trial::{TrialNumber, TrialState};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::verbs::{PATIENCE, Scene};

/// A program on a terminal of its own.
struct OnTerminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    printed: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl OnTerminal {
    fn watch(scene: &Scene) -> Self {
        let size = PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_hpsearch"));
        command.args(["watch", "digits"]);
        command.cwd(scene.directory.path());
        for (name, value) in [("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color")] {
            command.env(name, value);
        }
        command.env_remove("HPSEARCH_STORE");
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
        OnTerminal { child, master: pair.master, keys, printed, screen: vt100::Parser::new(24, 80, 0) }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Reads what is printed until the screen is as wanted.
    fn wait_for(&mut self, wanted: impl Fn(&vt100::Screen) -> bool) {
        let patience = Instant::now() + PATIENCE;
        while !wanted(self.screen.screen()) {
            let left = patience.saturating_duration_since(Instant::now());
            let bytes = self.printed.recv_timeout(left).unwrap_or_else(|_| panic!("the screen stays at\n{}", self.screen.screen().contents()));
            self.screen.process(&bytes);
        }
    }

    fn wait_for_text(&mut self, text: &str) {
        self.wait_for(|screen| screen.contents().contains(text));
    }

    fn leave(mut self) -> u32 {
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
    scene.append(&[Event::TrialFinished { trial: TrialNumber(3), state: TrialState::Complete, value: Some(0.125), reason: None }]);
    terminal.wait_for_text("best 0.125");
    terminal.press("q");
    assert_eq!(terminal.leave(), 0);
}

#[test]
fn watch_follows_the_size_of_the_terminal_and_stays_after_the_end() {
    let mut scene = Scene::digits();
    let mut terminal = OnTerminal::watch(&scene);
    terminal.wait_for_text("best 0.18421");
    terminal.master.resize(PtySize { rows: 12, cols: 40, pixel_width: 0, pixel_height: 0 }).unwrap();
    terminal.screen.screen_mut().set_size(12, 40);
    terminal.wait_for(|screen| screen.contents().lines().count() <= 12 && screen.contents().contains("Enter details"));
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
    hpsearch::processes::signal(pid, rustix::process::Signal::TERM);
    assert_eq!(terminal.leave(), 0);
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
    hpsearch::processes::signal(pid, rustix::process::Signal::HUP);
    let patience = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < patience, "it stays without a terminal");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
