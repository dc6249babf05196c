//! Programs on a pseudo-terminal: keys are pressed, and what the terminal shows is waited for.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use super::process::{PATIENCE, PROGRAM};
use super::site::Site;

/// A program on a terminal of its own.
pub struct OnTerminal {
    pub child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    printed: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

type Spawned = (Box<dyn Child + Send + Sync>, Box<dyn MasterPty + Send>);

fn spawn(
    directory: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    size: PtySize,
) -> Spawned {
    let pair = native_pty_system().openpty(size).unwrap();
    let mut command = CommandBuilder::new(PROGRAM);
    command.args(arguments);
    command.cwd(directory);
    // A panic is told in one line without a backtrace.
    for name in
        ["HPSEARCH_STORE", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "RUST_BACKTRACE"]
    {
        command.env_remove(name);
    }
    command.env("XDG_STATE_HOME", directory.join("state"));
    let usual =
        [("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color"), ("TZ", "UTC"), ("PAGER", "cat")];
    for (name, value) in usual.iter().chain(variables) {
        command.env(name, value);
    }
    (pair.slave.spawn_command(command).unwrap(), pair.master)
}

/// A program on a terminal that nobody reads, and that is closed by dropping it.
pub fn on_unread_terminal(site: &Site, arguments: &[&str]) -> Spawned {
    spawn(&site.path(""), arguments, &[], size(24, 80))
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

impl OnTerminal {
    pub fn watch(site: &Site) -> Self {
        Self::start(site, &["watch", "digits"])
    }

    pub fn start(site: &Site, arguments: &[&str]) -> Self {
        Self::start_with(&site.path(""), arguments, &[], (24, 80))
    }

    pub fn start_with(
        directory: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
        (rows, cols): (u16, u16),
    ) -> Self {
        let (child, master) = spawn(directory, arguments, variables, size(rows, cols));
        let mut reader = master.try_clone_reader().unwrap();
        let (tx, printed) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal's end is an error on Linux, and the end of the test.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let _ = tx.send(bytes[..count].to_vec());
            }
        });
        let keys = master.take_writer().unwrap();
        let screen = vt100::Parser::new(rows, cols, 0);
        OnTerminal { child, master, keys, printed, screen }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    pub fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// Takes in what is printed until nothing is for so long; how many bytes it was.
    pub fn wait_for_silence(&mut self, silence: Duration) -> usize {
        let mut count = 0;
        while let Ok(bytes) = self.printed.recv_timeout(silence) {
            count += bytes.len();
            self.screen.process(&bytes);
        }
        count
    }

    /// Waits for the first bytes of an answer, and then for silence as above.
    pub fn wait_for_answer(&mut self, silence: Duration) -> usize {
        let first = self.printed.recv_timeout(PATIENCE).unwrap();
        self.screen.process(&first);
        first.len() + self.wait_for_silence(silence)
    }

    /// Reads what is printed until the screen is as wanted.
    pub fn wait_for(&mut self, wanted: impl Fn(&vt100::Screen) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !wanted(self.screen()) {
            let left = until.saturating_duration_since(Instant::now());
            let bytes = self
                .printed
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("the screen stays at\n{}", self.screen().contents()));
            self.screen.process(&bytes);
        }
    }

    pub fn wait_for_text(&mut self, text: &str) {
        self.wait_for(|screen| screen.contents().contains(text));
    }

    /// Waits until `text` is on the screen and the screen is still (its clocks move once a second).
    pub fn settle(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.printed.recv_timeout(Duration::from_millis(700)) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(RecvTimeoutError::Timeout) if self.screen().contents().contains(text) => return,
                Err(error) => assert!(
                    error == RecvTimeoutError::Timeout && Instant::now() < until,
                    "no {text:?} on\n{}",
                    self.screen().contents()
                ),
            }
        }
    }

    pub fn resize(&mut self, rows: u16, cols: u16) {
        self.master.resize(size(rows, cols)).unwrap();
        self.screen.screen_mut().set_size(rows, cols);
    }

    /// The device that the program is on.
    pub fn device(&self) -> std::fs::File {
        std::fs::File::open(self.master.tty_name().unwrap()).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Lets go of the terminal. The program does not hear of that: the thread that reads here holds
    /// it open still.
    pub fn close(self) -> Box<dyn Child + Send + Sync> {
        self.child
    }

    /// Waits until the program has given the terminal back and ended; its exit code.
    pub fn leave(mut self) -> u32 {
        self.wait_for(|screen| !screen.alternate_screen() && !screen.hide_cursor());
        self.child.wait().unwrap().exit_code()
    }
}

/// Runs a verb to its end on a terminal of 24 rows and 80 columns, typing `keys`; what it printed,
/// and its exit code.
pub fn on_terminal(
    directory: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    keys: &str,
) -> (String, u32) {
    let mut terminal = OnTerminal::start_with(directory, arguments, variables, (24, 80));
    terminal.press(keys);
    let printed: Vec<u8> = terminal.printed.iter().flatten().collect();
    let code = terminal.child.wait().unwrap().exit_code();
    (String::from_utf8(printed).unwrap().replace("\r\n", "\n"), code)
}
