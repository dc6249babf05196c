//! hpsearch and other programs as child processes: how they are started, waited for, killed, and
//! how they ended.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use hpsearch::runner::processes;
use rustix::process::Signal;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_hpsearch");

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How long it waits from one look to the next.
const SHORTEST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// hpsearch in a directory, with nothing of the environment of whoever runs the tests.
pub fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    in_test_environment(&mut command, directory);
    command
}

pub(super) fn in_test_environment(command: &mut Command, directory: &Path) {
    command
        .current_dir(directory)
        .env_remove("HPSEARCH_STORE")
        .env_remove("COLUMNS")
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .stdin(Stdio::null());
    if let Some(path) = PATH.get_or_init(path_to_python) {
        command.env("PATH", path);
    }
}

/// The search path with the directory of the Python interpreter first: the `python3` of a version
/// manager is a script that starts a dozen others before it.
static PATH: OnceLock<Option<OsString>> = OnceLock::new();

fn path_to_python() -> Option<OsString> {
    let asks = ["-c", "import sys; print(sys.executable)"];
    let output = Command::new("python3").args(asks).output().ok()?;
    let interpreter = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    let directory = interpreter.parent().filter(|directory| directory.is_absolute())?.to_path_buf();
    let others = env::var_os("PATH")?;
    env::join_paths([directory].into_iter().chain(env::split_paths(&others))).ok()
}

/// Runs hpsearch in a directory.
pub fn run(directory: &Path, arguments: &[&str]) -> Ended {
    Ended::of(command(directory, arguments).output().unwrap())
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// -1 after a signal.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    pub fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }

    pub fn json_lines(&self) -> Vec<Json> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A started program; killed if the test fails.
pub struct Running {
    pub child: Child,
    output: tempfile::TempDir,
    command: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone_already = self.child.wait();
    }
}

impl Running {
    /// Starts a program whose output goes to files, so that it never waits for a reader.
    pub fn start(mut command: Command) -> Self {
        let output = tempfile::tempdir().unwrap();
        let file = |name| File::create(output.path().join(name)).unwrap();
        command.stdout(file("out")).stderr(file("err"));
        // A program that was copied just now is busy while a process that another test started
        // meanwhile has not yet closed the file.
        let child = loop {
            match command.spawn() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => yield_now(),
                started => break started.unwrap(),
            }
        };
        Running { child, output, command: format!("{command:?}") }
    }

    /// A child whose streams the test holds itself.
    pub fn of(child: Child, command: &str) -> Self {
        let output = tempfile::tempdir().unwrap();
        Running { child, output, command: command.to_owned() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        processes::signal(self.id(), signal);
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it (SIGSTOP), and waits until it stands still.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        wait_until("it is stopped", || processes::is_stopped(self.id()));
    }

    /// What it has printed up to now.
    pub fn said_so_far(&self) -> String {
        self.printed("out")
    }

    /// What it has said on standard error up to now.
    pub fn complained_so_far(&self) -> String {
        self.printed("err")
    }

    fn printed(&self, stream: &str) -> String {
        let bytes = fs::read(self.output.path().join(stream)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn end(self) -> Ended {
        self.end_watched(|| {})
    }

    /// Waits for its end, and looks at something again and again meanwhile.
    pub fn end_watched(mut self, mut look: impl FnMut()) -> Ended {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                let (out, err) = (self.printed("out"), self.printed("err"));
                panic!("`{}` does not end\n{out}\n{err}", self.command);
            }
            look();
            std::thread::sleep(Duration::from_millis(5));
        };
        let code = status.code().unwrap_or(-1);
        Ended { code, out: self.printed("out"), err: self.printed("err") }
    }
}

/// Looks until it is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        let waited = begun.elapsed();
        assert!(waited < PATIENCE, "still waiting after {PATIENCE:?}: {what}");
        // The longer it takes, the less it matters when it is noticed, and to look may cost much.
        std::thread::sleep((waited / 10).clamp(SHORTEST_WAIT, LONGEST_WAIT));
    }
}

/// Looks until it is so, which must be soon. Only the pauses between looks count, not the time of
/// the looks nor that in which this thread waits for its turn: on a machine that stands still or is
/// busy, whoever is to make it so waits as well.
pub fn wait_at_most(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let mut waited = Duration::ZERO;
    while !is_so() {
        assert!(waited < patience, "still waiting after {patience:?}: {what}");
        std::thread::sleep(SHORTEST_WAIT);
        waited += SHORTEST_WAIT;
    }
}

/// The time that this thread has spent on a processor: it stands still while other programs have
/// their turn.
pub fn processor_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().unwrap()
}

pub fn assert_done(ended: &Ended) {
    assert_code(ended, 0);
}

pub fn assert_code(ended: &Ended, code: i32) {
    assert_eq!(ended.code, code, "{}\n{}", ended.out, ended.err);
}

/// All of the words are in the text.
pub fn assert_names(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

/// These words were said, in whatever lines.
pub fn assert_says(ended: &Ended, words: &[&str]) {
    // Lines of help are wrapped.
    let said =
        format!("{}\n{}", ended.out, ended.err).split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(said.contains(word), "{word:?} in\n{}\n{}", ended.out, ended.err);
    }
}

/// It was refused as wrong usage, and these words were said about it.
pub fn assert_refused(ended: &Ended, words: &[&str]) {
    assert_code(ended, 2);
    assert_names(&ended.err, words);
}
