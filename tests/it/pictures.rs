//! Pictures of the real screens for the README: `cargo test --test it -- --ignored pictures` writes them to `.github/pictures`.
//!
//! The program runs on a pseudo-terminal, keys are pressed, and what its terminal shows is drawn. The study is
//! `studies/command.toml`, run beforehand (Python is needed); HPSEARCH_PICTURES names a directory with a store in
//! `runs/hpsearch.db` to take instead, and HPSEARCH_PICTURES_STUDY its study.

mod svg;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use svg::{DARK, LIGHT, picture};

const COLUMNS: u16 = 100;
const ROWS: u16 = 30;
/// A screen that has not changed for so long is finished.
const STILL: Duration = Duration::from_millis(700);

/// One picture.
struct Shot {
    name: &'static str,
    rows: u16,
    keys: &'static [&'static str],
    /// What is on the screen when it is the right one.
    shows: &'static str,
}

const SHOTS: &[Shot] = &[
    Shot { name: "trials", rows: ROWS, keys: &[], shows: "best" },
    Shot { name: "trial", rows: ROWS, keys: &["\r"], shows: "parameters" },
    Shot {
        name: "compare",
        rows: ROWS,
        keys: &[" ", "j", " ", "j", "j", " ", "3"],
        shows: "━━ trial",
    },
    Shot { name: "history", rows: ROWS, keys: &["4"], shows: "best so far" },
    Shot { name: "parameters", rows: ROWS, keys: &["4", "v"], shows: "learning_rate" },
    Shot { name: "devices", rows: 16, keys: &["5"], shows: "cores" },
];

#[test]
#[ignore = "writes .github/pictures"]
fn pictures() {
    let made = tempfile::tempdir().unwrap();
    let (directory, study) = match std::env::var_os("HPSEARCH_PICTURES") {
        Some(given) => (
            PathBuf::from(given),
            std::env::var("HPSEARCH_PICTURES_STUDY").unwrap_or_else(|_| "quickstart".to_owned()),
        ),
        None => {
            searched(made.path());
            (made.path().to_owned(), "command".to_owned())
        }
    };
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/pictures");
    std::fs::create_dir_all(&out).unwrap();
    for shot in SHOTS {
        let mut terminal = OnTerminal::watch(&directory, &study, shot.rows, &[]);
        terminal.settle("best");
        for keys in shot.keys {
            terminal.press(keys);
        }
        terminal.settle(shot.shows);
        for theme in [DARK, LIGHT] {
            let drawn =
                picture(terminal.screen.screen(), &format!("hpsearch watch {study}"), &theme);
            std::fs::write(out.join(format!("{}-{}.svg", shot.name, theme.name)), drawn).unwrap();
        }
        terminal.leave();
    }
}

#[test]
#[ignore = "prints the screens without colours, for looking at"]
fn pictures_without_colours() {
    let made = tempfile::tempdir().unwrap();
    searched(made.path());
    for shot in SHOTS {
        let mut terminal = OnTerminal::watch(
            made.path(),
            "command",
            shot.rows,
            &[("NO_COLOR", "1"), ("LC_ALL", "C")],
        );
        terminal.settle("best");
        for keys in shot.keys {
            terminal.press(keys);
        }
        terminal.settle("");
        println!("{}\n", terminal.screen.screen().contents());
        terminal.leave();
    }
}

/// A store with a finished study.
fn searched(directory: &Path) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies/command.toml");
    let run = Command::new(env!("CARGO_BIN_EXE_hpsearch"))
        .arg("run")
        .arg(file)
        .args(["--plain", "--set", "budget.trials=60"])
        .current_dir(directory)
        .output();
    let run = run.unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// A program on a terminal of its own.
struct OnTerminal {
    child: Box<dyn Child + Send + Sync>,
    _master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    printed: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl OnTerminal {
    fn watch(directory: &Path, study: &str, rows: u16, variables: &[(&str, &str)]) -> Self {
        let pair = native_pty_system()
            .openpty(PtySize { rows, cols: COLUMNS, pixel_width: 0, pixel_height: 0 })
            .unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_hpsearch"));
        command.args(["watch", study]);
        command.cwd(directory);
        command.env_remove("HPSEARCH_STORE");
        for (name, value) in [("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color"), ("TZ", "UTC")]
            .iter()
            .chain(variables)
        {
            command.env(name, value);
        }
        // The choices of whoever makes the pictures are not in them.
        command.env("XDG_STATE_HOME", directory.join("state"));
        let child = pair.slave.spawn_command(command).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (tx, printed) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let _ = tx.send(bytes[..count].to_vec());
            }
        });
        let keys = pair.master.take_writer().unwrap();
        OnTerminal {
            child,
            _master: pair.master,
            keys,
            printed,
            screen: vt100::Parser::new(rows, COLUMNS, 0),
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
        self.settle("");
    }

    /// Waits until `text` is on the screen and the screen is still (its clocks move once a second).
    fn settle(&mut self, text: &str) {
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            match self.printed.recv_timeout(STILL) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it left: {}", self.screen.screen().contents())
                }
                Err(RecvTimeoutError::Timeout)
                    if self.screen.screen().contents().contains(text) =>
                {
                    return;
                }
                Err(RecvTimeoutError::Timeout) => assert!(
                    Instant::now() < patience,
                    "no {text:?} on\n{}",
                    self.screen.screen().contents()
                ),
            }
        }
    }

    fn leave(mut self) {
        let _ = self.keys.write_all(b"q");
        let _ = self.keys.flush();
        let patience = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > patience {
                self.child.kill().unwrap();
            }
            // What it prints has to be taken, or it cannot leave.
            let _ = self.printed.recv_timeout(Duration::from_millis(20));
        }
    }
}
