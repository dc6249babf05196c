//! A directory with a study file, its script and its store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use hpsearch::runner::processes;
use hpsearch::storage::StorageReader as _;
use hpsearch::storage::any::{AnyReader, AnyStore};
use hpsearch::study::event::{Event, Seq};
use hpsearch::study::state::StudyState;
use rusqlite::Connection;
use rustix::fs::StatVfsMountFlags;
use serde_json::Value as Json;

use super::process::{
    Ended, PROGRAM, Running, assert_done, command, in_test_environment, wait_until,
};
use super::scripts::{ONE_SLOT, REPORT_X, study};

/// Where the store of a site is.
pub const STORE: &str = "runs/hpsearch.db";

/// Everything below a directory, in the order of names.
pub fn paths_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut below: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    for path in below.clone().iter().filter(|path| path.is_dir()) {
        below.extend(paths_below(path));
    }
    below.sort();
    below
}

/// Every file below a directory with its content.
pub fn files_below(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = paths_below(directory).into_iter().filter(|path| !path.is_dir());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// A file system in memory with room for the sites of all tests: a disk takes a fifth longer, much
/// of it to make and to remove files.
static IN_MEMORY: OnceLock<Option<PathBuf>> = OnceLock::new();

fn room_in_memory() -> Option<PathBuf> {
    let place = PathBuf::from("/dev/shm");
    let room = rustix::fs::statvfs(&place).ok()?;
    // Some tests run programs that they write.
    let runs_programs = !room.f_flag.contains(StatVfsMountFlags::NOEXEC);
    (runs_programs && room.f_bavail * room.f_frsize > 4 << 30).then_some(place)
}

pub struct Site {
    directory: tempfile::TempDir,
}

impl Site {
    pub fn empty() -> Self {
        let in_memory = IN_MEMORY.get_or_init(room_in_memory);
        let directory = in_memory.as_ref().map_or_else(tempfile::tempdir, tempfile::tempdir_in);
        Site { directory: directory.unwrap() }
    }

    pub fn new(study: &str, script: &str) -> Self {
        let site = Site::empty();
        site.write("study.toml", study);
        site.write("trial.sh", script);
        site
    }

    /// With a finished study of trials that report `x`.
    pub fn finished(budget: &str) -> Self {
        let site = Site::new(&study(budget, ONE_SLOT), REPORT_X);
        assert_done(&site.run_study());
        site
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// Where it is, though it may not be there just now.
    pub fn path_to_be(&self) -> PathBuf {
        let directory = self.directory.path();
        directory.parent().unwrap().canonicalize().unwrap().join(directory.file_name().unwrap())
    }

    /// Marks a directory as that of a study which this store had, like the directory of `s`.
    pub fn mark(&self, directory: &str) {
        let name = Path::new(directory).file_name().unwrap().to_str().unwrap();
        let mark = self.read("runs/files/s/.hpsearch-store");
        let (own, other) = ("\"directory\":\"s\"", format!("\"directory\":\"{name}\""));
        assert!(mark.contains(own), "{mark}");
        self.write(&format!("{directory}/.hpsearch-store"), mark.replace(own, &other));
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn read_json(&self, name: &str) -> Json {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    pub fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Waits until a file is there.
    pub fn wait_for(&self, name: &str) {
        wait_until(&format!("`{name}` is there"), || self.exists(name));
    }

    /// Waits until a file has so many lines.
    pub fn wait_for_lines(&self, name: &str, count: usize) {
        wait_until(&format!("`{name}` has {count} lines"), || self.lines(name).len() >= count);
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        command(&self.path(""), arguments)
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::start(self.command(arguments))
    }

    pub fn start_study(&self) -> Running {
        self.start(&["run", "study.toml", "--plain"])
    }

    /// Starts the study with variables of the environment.
    pub fn start_study_with(&self, variables: &[(&str, &str)]) -> Running {
        let mut command = self.command(&["run", "study.toml", "--plain"]);
        command.envs(variables.iter().copied());
        Running::start(command)
    }

    /// Starts another program.
    pub fn start_program(&self, program: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new(program);
        command.args(arguments);
        in_test_environment(&mut command, &self.path(""));
        Running::start(command)
    }

    /// Starts a line of shell, in which `$0` is hpsearch.
    pub fn start_shell(&self, line: &str) -> Running {
        self.start_program("sh", &["-c", line, PROGRAM])
    }

    /// Runs another program; `None` if there is no such program.
    pub fn run_program(&self, program: &str, arguments: &[&str]) -> Option<Ended> {
        let mut there = Command::new(program);
        in_test_environment(&mut there, &self.path(""));
        there.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        Some(self.start_program(program, arguments).end())
    }

    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    /// Runs the study to its end.
    pub fn run_study(&self) -> Ended {
        self.run_study_with(&[])
    }

    pub fn run_study_with(&self, options: &[&str]) -> Ended {
        self.run(&[&["run", "study.toml", "--plain"], options].concat())
    }

    pub fn json(&self, arguments: &[&str]) -> Json {
        let ended = self.run(arguments);
        assert_done(&ended);
        ended.json()
    }

    /// All trials, in the order of their numbers; none without a study.
    pub fn trials(&self) -> Vec<Json> {
        let listed = self.run(&["trials", "s", "--sort", "number", "--json"]);
        if listed.code != 0 {
            return Vec::new();
        }
        listed.json::<Json>()["trials"].as_array().unwrap().clone()
    }

    pub fn states(&self) -> Vec<String> {
        self.trials().iter().map(|trial| trial["state"].as_str().unwrap().to_owned()).collect()
    }

    /// Processes that belong to trials of the study here.
    pub fn processes(&self) -> Vec<u32> {
        self.marked_processes("HPSEARCH_STUDY=s")
    }

    /// Those of them that carry a variable of the environment.
    pub fn marked_processes(&self, mark: &str) -> Vec<u32> {
        let store = format!("HPSEARCH_STORE={}", self.path(STORE).display());
        processes::with_environment(&[store, "HPSEARCH_STUDY=s".to_owned(), mark.to_owned()])
    }

    pub fn log(&self, trial: u64, attempt: u32) -> String {
        let ended = self.run(&["logs", "s", &trial.to_string(), "--attempt", &attempt.to_string()]);
        assert_done(&ended);
        ended.out
    }

    /// The store as SQLite's own tools see it.
    pub fn database(&self) -> Connection {
        Connection::open(self.path(STORE)).unwrap()
    }

    /// The only value that a query has.
    pub fn query<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.database().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub fn store(&self) -> AnyStore {
        AnyStore::open(&self.path(STORE)).unwrap()
    }

    /// The journal of the study.
    pub fn events(&self) -> Vec<Event> {
        let reader = AnyReader::open(&self.path(STORE)).unwrap();
        let study = reader.study("s").unwrap().unwrap().id;
        let events = reader.events_after(study, Seq(0), u64::MAX).unwrap();
        events.into_iter().map(|(_, _, event)| event).collect()
    }

    /// SQLite finds nothing wrong with the store.
    pub fn assert_sound(&self) {
        let store = self.database();
        let verdict: String =
            store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
        assert!(!store.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap());
    }

    /// The journal folds to what the tables say.
    pub fn assert_folds(&self) {
        let reader = AnyReader::open(&self.path(STORE)).unwrap();
        let stored = reader.study("s").unwrap().unwrap();
        let mut folded = StudyState::new(&stored.spec);
        for (_, at, event) in reader.events_after(stored.id, Seq(0), u64::MAX).unwrap() {
            folded.apply(at, &event);
        }
        assert_eq!(format!("{folded:?}"), format!("{:?}", reader.study_state(stored.id).unwrap()));
    }
}
