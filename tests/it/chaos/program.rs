//! The chaos program: one random fault at a random moment in each of many short studies, and a
//! table of what came of them.
//!
//! `cargo test --test it chaos::program -- --nocapture` does one round of each fault;
//! `HPSEARCH_CHAOS_ROUNDS=1000` does more, and `HPSEARCH_CHAOS=7` others;
//! `HPSEARCH_CHAOS_FAULT=KillRunner` has that fault only. With `HPSEARCH_CHAOS_TRAINER=5` every
//! fifth round trains with the built-in trainer (`1`: all rounds whose fault it can have). A
//! round's study ends as its budget says, whatever happened; with one slot it ends as it does
//! undisturbed, to the last decision (and weight, on the CPU). What does not is a loss, and fails
//! the test.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use hpsearch::runner::processes;
use hpsearch::study::seed::{SeedTree, StreamRng};
use rand::RngExt as _;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::Value as Json;

use super::{SCRIPT, left_over};
use crate::harness::{
    Ended, OnTerminal, PROGRAM, Running, Site, assert_done, paths_below, study, wait_until,
};

const TRIALS: u64 = 5;
const STEPS: u64 = 4;

/// A study that does not end within so many runs is lost.
const LIVES: usize = 8;

/// How long one run of such a study may take, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// A run that takes longer is looked at, and what its threads wait for is told; it may still come
/// to its end.
const LONG: Duration = Duration::from_secs(12);

/// What goes wrong in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    KillRunner,
    KillSupervisor,
    KillCommand,
    KillRunnerAndSupervisor,
    KillScreen,
    StopRunner,
    StopSupervisor,
    StopCommand,
    HangCommand,
    TakeOverStopped,
    SecondRunner,
    Interrupt,
    Terminate,
    RefuseWrites,
    MoveStore,
    CutLog,
    LoseLog,
    LoseIndex,
    SetClock,
    FloodLog,
    Nonsense,
    SecondStore,
    RenameProject,
    RemoveLog,
    RemoveIndex,
    EmptyLog,
    RemoveLock,
    PlainReader,
    ForeignNamespace,
    BlockedReader,
    UnwritableDirectory,
}

const FAULTS: &[(Fault, &str)] = &[
    (Fault::KillRunner, "runner killed (SIGKILL)"),
    (Fault::KillSupervisor, "supervisor or worker killed"),
    (Fault::KillCommand, "command killed"),
    (Fault::KillRunnerAndSupervisor, "runner and supervisor killed at once"),
    (Fault::KillScreen, "watching screen killed"),
    (Fault::StopRunner, "runner stopped, let continue"),
    (Fault::StopSupervisor, "supervisor or worker stopped, let continue"),
    (Fault::StopCommand, "command stopped, let continue"),
    (Fault::HangCommand, "command stopped for good (stall_time)"),
    (Fault::TakeOverStopped, "stopped runner killed, taken over at once"),
    (Fault::SecondRunner, "second runner on the study"),
    (Fault::Interrupt, "SIGINT"),
    (Fault::Terminate, "SIGTERM"),
    (Fault::RefuseWrites, "disk takes no more (file limit)"),
    (Fault::MoveStore, "store moved away and back"),
    (Fault::CutLog, "runner killed, store's log (WAL) cut"),
    (Fault::LoseLog, "runner killed, store's log deleted"),
    (Fault::LoseIndex, "runner killed, store's shm deleted"),
    (Fault::SetClock, "runner killed, clock 7 hours off"),
    (Fault::FloodLog, "trials flood their logs"),
    (Fault::Nonsense, "trials report nonsense"),
    (Fault::SecondStore, "second store in the directory, its run and its `gc`"),
    (Fault::RenameProject, "runner killed, project renamed"),
    (Fault::RemoveLog, "store's log (WAL) removed during the run"),
    (Fault::RemoveIndex, "store's shm removed during the run"),
    (Fault::EmptyLog, "store's log (WAL) emptied in place during the run"),
    (Fault::RemoveLock, "runner's lock file removed, second runner at once"),
    (Fault::PlainReader, "another program reads the store and closes it"),
    (Fault::ForeignNamespace, "second runner, in a PID namespace of its own"),
    (Fault::BlockedReader, "nobody reads standard output"),
    (Fault::UnwritableDirectory, "no directory can be made for new trials"),
];

/// What a round's study is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Command(&'static str, Saves),
    #[cfg(feature = "train")]
    Trainer,
}

/// How a command saves its checkpoints. Each file holds its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Saves {
    /// A file for each step, by its whole path.
    Once,
    /// A file for each step, by its name in the trial's directory of checkpoints.
    Relative,
    /// One file, which each step truncates and writes again.
    Over,
    /// The same, and before it a file that is not there.
    OverWithMissing,
}

impl Saves {
    const ALL: [Saves; 4] = [Saves::Once, Saves::Relative, Saves::Over, Saves::OverWithMissing];

    /// The script that saves so.
    fn of(self, script: &str) -> String {
        let write = "echo $step > \"$HPSEARCH_CHECKPOINT_DIR/part\"; mv \
                     \"$HPSEARCH_CHECKPOINT_DIR/part\" \"$HPSEARCH_CHECKPOINT_DIR/$step\"";
        let say = "{\\\"checkpoint\\\":\\\"$HPSEARCH_CHECKPOINT_DIR/$step\\\",\\\"step\\\":$step}";
        assert!(
            script.contains(write) && script.contains(say),
            "the script saves otherwise now: {script}"
        );
        let over = |script: &str| {
            let script = script.replace(write, "echo $step > \"$HPSEARCH_CHECKPOINT_DIR/last\"");
            script.replace(say, "{\\\"checkpoint\\\":\\\"last\\\",\\\"step\\\":$step}")
        };
        match self {
            Saves::Once => script.to_owned(),
            Saves::Relative => {
                script.replace(say, "{\\\"checkpoint\\\":\\\"$step\\\",\\\"step\\\":$step}")
            }
            Saves::Over => over(script),
            Saves::OverWithMissing => {
                let missing = "  echo \"@hpsearch \
                    {\\\"checkpoint\\\":\\\"missing/$step\\\",\\\"step\\\":$step}\"\n  echo $step \
                    >";
                over(script).replacen("  echo $step >", missing, 1)
            }
        }
    }
}

/// What came of a round.
#[derive(Default)]
struct Outcome {
    struck: bool,
    /// Runs it took beyond the first.
    runs: u64,
    /// Attempts beyond one a trial.
    attempts: u64,
    losses: Vec<String>,
}

const NO_PRUNER: &str = "type = \"none\"";
const STOPS: &str = "type = \"asha\"\nmin_resource = 1\nmax_resource = 4\nreduction_factor = 2";
const PAUSES: &str =
    "type = \"asha\"\nmin_resource = 1\nmax_resource = 4\nreduction_factor = 2\nmode = \"promote\"";

fn site(kind: Kind, slots: u64, fault: Option<Fault>) -> Site {
    match kind {
        Kind::Command(pruner, saves) => {
            let devices =
                if slots == 1 { "sim:0".to_owned() } else { format!("sim:0..{}", slots - 1) };
            let retry = "max = 1000\non = [\"worker_lost\", \"timeout\"]";
            let rest =
                format!("[devices]\nuse = [\"{devices}\"]\n[retry]\n{retry}\n[pruner]\n{pruner}");
            let odd = match fault {
                Some(Fault::FloodLog) => {
                    "head -c 3000000 /dev/zero | tr '\\0' F; echo; head -c 300000 /dev/zero | tr \
                     '\\0' E >&2\n"
                }
                Some(Fault::Nonsense) => {
                    "echo '@hpsearch {\"step\":0,\"loss\":\"low\"}'; echo '@hpsearch'; echo \
                     '@hpsearch {\"step\":1,\"other\":1e308}'\n\
                     echo '@hpsearch {\"step\":-3,\"loss\":1}'; echo '@hpsearch \
                     {\"step\":1e40,\"loss\":1}'; echo '@hpsearch {\"step\":2,\"far\":NaN}'\n"
                }
                _ => "",
            };
            // Another store's trials keep a journal of their own.
            let script = saves
                .of(SCRIPT)
                .replace("sleep 0.12", "sleep 0.04")
                .replace("-lt 5", "-lt 4")
                .replace("journal=journal", "journal=${JOURNAL:-journal}");
            // Only where something hangs: on a machine with twenty runnable threads for each
            // processor a step of a shell takes longer than that, and is begun again and again.
            let stall =
                if fault == Some(Fault::HangCommand) { "\nstall_time = \"2s\"" } else { "" };
            // A command that is told where the store is: nothing that is learned of its words may
            // touch the store's locks.
            let study = study(&format!("trials = {TRIALS}{stall}"), &rest)
                .replace("\"{x}\"]", "\"{x}\", \"runs/hpsearch.db\"]");
            Site::new(&study, &format!("{odd}{script}"))
        }
        #[cfg(feature = "train")]
        Kind::Trainer => super::trainer::small_site(),
    }
}

/// What must not depend on faults: decisions, values, and of the best trial's checkpoint the
/// weights.
fn results(site: &Site) -> Json {
    let of = |trial: &Json| {
        Json::from(
            ["number", "state", "value", "last_value", "last_step", "params"]
                .map(|key| trial[key].clone())
                .to_vec(),
        )
    };
    let trials: Vec<Json> = site.trials().iter().map(of).collect();
    let mut weights: Vec<(String, u64)> = paths_below(&site.path("runs/files"))
        .into_iter()
        .filter(|file| file.ends_with("model.safetensors"))
        .map(|file| {
            (
                file.strip_prefix(site.path("")).unwrap().display().to_string(),
                checksum(&fs::read(&file).unwrap_or_default()),
            )
        })
        .collect();
    weights.sort();
    serde_json::json!({ "trials": trials, "weights": weights })
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The undisturbed study of a kind, run once.
fn undisturbed(kind: Kind) -> Json {
    static KNOWN: OnceLock<Mutex<BTreeMap<Kind, Json>>> = OnceLock::new();
    let mut known =
        KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    known
        .entry(kind)
        .or_insert_with(|| {
            let site = site(kind, 1, None);
            let ended = run_to_its_end(&site).unwrap_or_else(|hung| panic!("{hung}"));
            assert_done(&ended);
            results(&site)
        })
        .clone()
}

/// A run whose standard output is a pipe that is full, and that nobody reads.
fn start_unread(site: &Site) -> (Running, fs::File) {
    let pipe = site.path("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let mut end =
        fs::OpenOptions::new().read(true).write(true).custom_flags(NONBLOCK).open(&pipe).unwrap();
    while end.write(&[b'\n'; 4096]).is_ok() {}
    let script = "exec \"$0\" run study.toml --events > pipe";
    (site.start_shell(script), end)
}

/// `O_NONBLOCK`, as the standard library takes it.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// The project under another name: its directory is moved as a whole.
fn renamed(site: Site) -> Site {
    let moved = Site::new("", "");
    fs::remove_dir_all(moved.path("")).unwrap();
    fs::rename(site.path(""), moved.path_to_be()).unwrap();
    moved
}

/// Another store beside, with a study of the same name: it is run and cleared up.
fn second_store(site: &Site) -> Option<String> {
    let with = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.env("JOURNAL", "other").env("HPSEARCH_STORE", "runs/other.sqlite");
        Running::start(command).end()
    };
    let ended = [with(&["run", "study.toml", "--plain"]), with(&["gc", "--yes"])];
    ended
        .iter()
        .find(|ended| ended.code != 0)
        .map(|ended| format!("the other store's {}\n{}", ended.out, ended.err))
}

/// Files where the directories of trials that are still to come would be.
fn block_trials(site: &Site, block: bool) {
    for trial in 0..TRIALS {
        let path = site.path(&format!("runs/files/s/trial-{trial}"));
        let _there_already = match block {
            true if !path.exists() => fs::write(&path, ""),
            false if path.is_file() => fs::remove_file(&path),
            _ => Ok(()),
        };
    }
}

/// Opens the store as any program may, reads it and closes it.
fn read_plainly(path: &Path) {
    for _ in 0..3 {
        if let Ok(store) = rusqlite::Connection::open(path) {
            let _not_made_yet =
                store.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0));
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// The runner's children, and of those theirs.
fn victims(running: &Running) -> (Vec<u32>, Vec<u32>) {
    let children = processes::children(running.child.id());
    let commands = children.iter().flat_map(|child| processes::children(*child)).collect();
    (children, commands)
}

fn one_of(rng: &mut StreamRng, pids: &[u32]) -> Option<u32> {
    (!pids.is_empty()).then(|| pids[rng.random_range(0..pids.len())])
}

fn limit_files(pid: u32, bytes: u64) {
    // A process that has just ended has no limits.
    let _gone = prlimit(
        Pid::from_raw(i32::try_from(pid).unwrap()),
        Resource::Fsize,
        Rlimit { current: Some(bytes), maximum: None },
    );
}

fn with_ending(store: &Path, ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", store.display()))
}

fn move_store(from: &Path, to: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let _not_there = fs::rename(with_ending(from, ending), with_ending(to, ending));
    }
}

fn set_clock(site: &Site, hours: i64) {
    let store = site.database();
    let columns = [
        ("event", "at"),
        ("trial", "created_at"),
        ("trial", "started_at"),
        ("trial", "finished_at"),
        ("report", "at"),
        ("runner", "started_at"),
    ];
    for (table, column) in columns {
        store
            .execute(&format!("UPDATE {table} SET {column} = {column} + {hours} * 3600000000"), [])
            .unwrap();
    }
}

/// Stops a process for a moment.
fn pause(pid: u32) {
    processes::signal(pid, Signal::STOP);
    std::thread::sleep(Duration::from_millis(300));
    processes::signal(pid, Signal::CONT);
}

/// A screen that watches the study is killed while it draws.
fn kill_a_screen(site: &Site) {
    let mut screen = OnTerminal::start(site, &["watch", "s"]);
    screen.wait_for_silence(Duration::from_millis(150));
    let _gone_already = screen.child.kill();
    let _status = screen.child.wait();
}

/// One round, from the fault to the end of the study.
fn round(kind: Kind, slots: u64, fault: Fault, rng: &mut StreamRng, longest: Duration) -> Outcome {
    let mut outcome = Outcome::default();
    let mut site = site(kind, slots, Some(fault));
    let (mut path, mut away) = (site.path("runs/hpsearch.db"), site.path("away.db"));
    let (mut running, _unread) = match fault {
        Fault::BlockedReader => {
            let (running, end) = start_unread(&site);
            (running, Some(end))
        }
        _ => (site.start_study(), None),
    };
    let moment = Instant::now() + longest.mul_f64(rng.random_range(0.0..1.0));
    while Instant::now() < moment && !running.has_ended() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let kills = |running: &mut Running| {
        let _ended = running.child.kill();
        let _status = running.child.wait();
    };
    let (children, commands) = victims(&running);
    let runner = running.child.id();
    // Whether processes may be left until the study is run again: nobody was left to clear them
    // away.
    let mut unwatched = false;
    outcome.struck = !running.has_ended();
    if outcome.struck {
        match fault {
            Fault::KillRunner => kills(&mut running),
            Fault::KillSupervisor => {
                one_of(rng, &children).map_or_else(|| outcome.struck = false, processes::kill)
            }
            Fault::KillCommand => {
                one_of(rng, &commands).map_or_else(|| outcome.struck = false, processes::kill)
            }
            Fault::KillRunnerAndSupervisor => {
                children.iter().copied().for_each(processes::kill);
                kills(&mut running);
                unwatched = true;
            }
            Fault::KillScreen => kill_a_screen(&site),
            Fault::StopRunner => pause(runner),
            Fault::StopSupervisor => {
                one_of(rng, &children).map_or_else(|| outcome.struck = false, pause)
            }
            Fault::StopCommand => {
                one_of(rng, &commands).map_or_else(|| outcome.struck = false, pause)
            }
            Fault::HangCommand => match one_of(rng, &commands) {
                Some(pid) => processes::signal(pid, Signal::STOP),
                None => outcome.struck = false,
            },
            Fault::TakeOverStopped => {
                processes::signal(runner, Signal::STOP);
                kills(&mut running);
            }
            Fault::SecondRunner => {
                let second = match run_to_its_end(&site) {
                    Ok(ended) => ended,
                    Err(hung) => {
                        outcome.losses.push(hung);
                        return outcome;
                    }
                };
                let refused = second.code == 5 && second.err.contains("is being run by process");
                // The study may have ended meanwhile.
                if !refused && second.code != 0 {
                    outcome.losses.push(format!(
                        "the second runner ended with {}: {}",
                        second.code, second.err
                    ));
                }
            }
            Fault::Interrupt => processes::signal(runner, Signal::INT),
            Fault::Terminate => processes::signal(runner, Signal::TERM),
            Fault::RefuseWrites => limit_files(runner, 64 << 10),
            Fault::MoveStore => move_store(&path, &away),
            Fault::CutLog | Fault::LoseLog | Fault::LoseIndex | Fault::SetClock => {
                kills(&mut running)
            }
            Fault::FloodLog | Fault::Nonsense | Fault::BlockedReader => {}
            Fault::SecondStore => outcome.losses.extend(second_store(&site)),
            Fault::RenameProject => {
                kills(&mut running);
                // What is killed with the runner has still to be gone: it would write into the old
                // directory.
                outcome.losses.extend(left_over(&site));
                site = renamed(site);
                (path, away) = (site.path("runs/hpsearch.db"), site.path("away.db"));
            }
            Fault::RemoveLog => {
                outcome.struck = fs::remove_file(with_ending(&path, "-wal")).is_ok()
            }
            Fault::RemoveIndex => {
                outcome.struck = fs::remove_file(with_ending(&path, "-shm")).is_ok()
            }
            Fault::EmptyLog => {
                outcome.struck = fs::OpenOptions::new()
                    .write(true)
                    .open(with_ending(&path, "-wal"))
                    .is_ok_and(|log| log.set_len(0).is_ok());
            }
            Fault::RemoveLock => {
                outcome.struck = fs::remove_file(with_ending(&path, ".run-1")).is_ok();
                match run_to_its_end(&site) {
                    Ok(second) if matches!(second.code, 0 | 5) => {}
                    Ok(second) => outcome.losses.push(format!(
                        "the second runner ended with {}: {}",
                        second.code, second.err
                    )),
                    Err(hung) => outcome.losses.push(hung),
                }
            }
            Fault::PlainReader => read_plainly(&path),
            Fault::ForeignNamespace => {
                let arguments = ["-Urpf", "--mount-proc", PROGRAM, "run", "study.toml", "--plain"];
                let second = site.start_program("unshare", &arguments).end();
                let is_refused = second.code == 5 && second.err.contains("is being run by process");
                // No namespaces for users, or the study was over.
                let is_none = second.err.contains("unshare") || second.code == 0;
                outcome.struck = is_refused;
                if !is_refused && !is_none {
                    outcome.losses.push(format!(
                        "the runner in a namespace ended with {}: {}",
                        second.code, second.err
                    ));
                }
            }
            Fault::UnwritableDirectory => {
                block_trials(&site, true);
                // Unless all trials have begun.
                wait_until("a trial is refused", || {
                    running.has_ended() || running.said_so_far().contains("refused by the machine")
                });
                block_trials(&site, false);
            }
        }
    }
    // What was answered between the removal and its being noticed is gone, too.
    let forgets = outcome.struck
        && matches!(fault, Fault::CutLog | Fault::LoseLog | Fault::RemoveLog | Fault::EmptyLog);
    loop {
        if let Some(hung) = hung(&mut running, &site) {
            outcome.losses.push(hung);
            return outcome;
        }
        let ended = running.end();
        if let Some(left) = left_over(&site).filter(|_| !unwatched) {
            outcome.losses.push(format!("left after 2 s: {left}"));
        }
        unwatched = false;
        if away.exists() {
            move_store(&away, &path);
        }
        if outcome.runs == 0 && outcome.struck {
            let wal = with_ending(&path, "-wal");
            match fault {
                // Killed within a checkpoint: of some pages the log has the only copy, and nobody
                // could do without it.
                Fault::CutLog | Fault::LoseLog if is_within_checkpoint(&path) => {}
                Fault::CutLog => {
                    let bytes = fs::read(&wal).unwrap_or_default();
                    let _not_there_yet =
                        fs::write(&wal, &bytes[..rng.random_range(0..bytes.len() + 1)]);
                }
                Fault::LoseLog => drop(fs::remove_file(&wal)),
                Fault::LoseIndex => drop(fs::remove_file(with_ending(&path, "-shm"))),
                Fault::SetClock if has_tables(&path) => {
                    set_clock(&site, if rng.random_bool(0.5) { 7 } else { -7 })
                }
                _ => {}
            }
        }
        outcome.losses.extend(unsound(&path));
        match ended.code {
            0 => break,
            // Killed, interrupted, or told that the store cannot be used: the same command
            // continues.
            -1 | 5 | 130 | 143 if usize::try_from(outcome.runs).unwrap() < LIVES => {}
            code => {
                outcome.losses.push(format!("ended with {code}\n{}\n{}", ended.out, ended.err));
                return outcome;
            }
        }
        // Taken away at the very end, it is missed by whoever wants to read the result.
        // Of two runners that begin at once, either may get the study.
        let is_told =
            ["run the same command again", "there is no store at", "is being run by process"]
                .iter()
                .any(|words| ended.err.contains(words));
        if ended.code == 5 && !is_told {
            outcome.losses.push(format!("no way out is told: {}", ended.err));
        }
        outcome.runs += 1;
        running = site.start_study();
    }
    let trials = site.trials();
    outcome.attempts =
        trials.iter().map(|trial| trial["attempts"].as_u64().unwrap_or(0).saturating_sub(1)).sum();
    if slots == 1 && results(&site) != undisturbed(kind) {
        outcome.losses.push(format!(
            "it ended otherwise than undisturbed:\n{}\n{}",
            results(&site),
            undisturbed(kind)
        ));
    }
    if matches!(kind, Kind::Command(..)) {
        outcome.losses.extend(lost_trials(&trials));
        if !forgets {
            outcome.losses.extend(lost_reports(&site));
            outcome.losses.extend(wrong_checkpoints(&site));
            outcome.losses.extend(wrong_exports(&site, &trials));
        }
    }
    // A store that lost its log may not even know its own id: the directory of before is no longer
    // its own to clear.
    let is_left = forgets && site.path("runs/files").read_dir().unwrap().count() > 1;
    let drafts = paths_below(&site.path("runs"))
        .into_iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "tmp"))
        .filter(|file| !is_left || !file.starts_with(site.path("runs/files/s")));
    outcome.losses.extend(drafts.map(|file| format!("left behind: {}", file.display())));
    outcome
}

/// Runs the study once; what it does if it does not come to its end.
fn run_to_its_end(site: &Site) -> Result<Ended, String> {
    let mut running = site.start_study();
    match hung(&mut running, site) {
        Some(hung) => Err(hung),
        None => Ok(running.end()),
    }
}

/// What a runner does that does not come to its end.
fn hung(running: &mut Running, site: &Site) -> Option<String> {
    let (began, mut told) = (Instant::now(), false);
    while began.elapsed() < PATIENCE {
        if running.has_ended() {
            return None;
        }
        if began.elapsed() > LONG && !std::mem::replace(&mut told, true) {
            eprintln!("it takes long: {}", looked_at(running, site));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(format!("it does not end: {}", looked_at(running, site)))
}

/// What a runner's threads wait for, what else runs of its study, and what it has said.
fn looked_at(running: &Running, site: &Site) -> String {
    let of = |path: PathBuf, name: &str| {
        fs::read_to_string(path.join(name)).unwrap_or_default().replace(['\0', '\n'], " ")
    };
    let tasks =
        fs::read_dir(format!("/proc/{}/task", running.child.id())).into_iter().flatten().flatten();
    let threads: Vec<String> = tasks
        .map(|task| format!("{}: {}", of(task.path(), "comm"), of(task.path(), "wchan")))
        .collect();
    format!("{threads:?}\n{}\n{}", super::described(site), running.said_so_far())
}

fn has_tables(path: &Path) -> bool {
    path.exists()
        && rusqlite::Connection::open(path).unwrap().prepare("SELECT 1 FROM event").is_ok()
}

/// Whether a checkpoint of the store's log was interrupted: by its index, `nBackfill` frames were
/// written back and synced, `nBackfillAttempted` begun (<https://www.sqlite.org/walformat.html>).
fn is_within_checkpoint(path: &Path) -> bool {
    let index = fs::read(with_ending(path, "-shm")).unwrap_or_default();
    let number = |at: usize| index.get(at..at + 4).map(|bytes| bytes.try_into().unwrap());
    let [done, begun] = [96, 128].map(|at| number(at).map_or(0, u32::from_ne_bytes));
    begun > done
}

fn unsound(path: &Path) -> Option<String> {
    if !path.exists() {
        return None;
    }
    let store = rusqlite::Connection::open(path).unwrap();
    let verdict = store
        .query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
        .unwrap_or_else(|error| error.to_string());
    let broken = store
        .prepare("PRAGMA foreign_key_check")
        .and_then(|mut check| check.exists([]))
        .unwrap_or(true);
    (verdict != "ok" || broken)
        .then(|| format!("the store is unsound: {verdict}, broken references: {broken}"))
}

/// Every number once, and every trial at its end.
fn lost_trials(trials: &[Json]) -> Vec<String> {
    let numbers: Vec<u64> = trials.iter().map(|trial| trial["number"].as_u64().unwrap()).collect();
    let mut losses = Vec::new();
    if numbers != (0..TRIALS).collect::<Vec<_>>() {
        losses.push(format!("trials {numbers:?}"));
    }
    for trial in trials {
        let is_whole = trial["value"] == trial["params"]["x"] && trial["last_step"] == STEPS;
        if !(trial["state"] == "complete" && is_whole || trial["state"] == "pruned") {
            losses.push(format!("trial {trial}"));
        }
    }
    losses
}

/// Answered reports that are not in the store, and answered steps that were done again.
fn lost_reports(site: &Site) -> Vec<String> {
    let store = site.database();
    let mut report = store
        .prepare(
            "SELECT count(*) FROM report r JOIN metric m ON m.id = r.metric_id WHERE \
            r.trial_id % 1000000000 = ?1 AND r.step = ?2 AND m.name = 'loss'",
        )
        .unwrap();
    let mut losses = Vec::new();
    for trial in 0..TRIALS.cast_signed() {
        let mut done = 0;
        for line in site.lines(&format!("journal.{trial}")) {
            let words: Vec<&str> = line.split(' ').collect();
            let step: i64 = words[1].parse().unwrap();
            if words[0] == "begin" {
                if step <= done {
                    losses.push(format!("trial {trial} does step {step} again"));
                }
                continue;
            }
            done = step;
            if report.query_row([trial, step], |row| row.get::<_, i64>(0)).unwrap() != 1 {
                losses.push(format!("trial {trial} lost its answered step {step}"));
            }
        }
    }
    losses
}

/// Checkpoints of the store that are not there, or hold another step than it says.
fn wrong_checkpoints(site: &Site) -> Vec<String> {
    let store = site.database();
    let mut checkpoints = store.prepare("SELECT step, path FROM checkpoint").unwrap();
    let listed = checkpoints
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
        .unwrap();
    let wrong = |(step, path): (i64, String)| {
        let held = fs::read_to_string(site.path("runs/files").join(&path))
            .unwrap_or_else(|error| error.to_string());
        (held.trim() != step.to_string())
            .then(|| format!("the checkpoint `{path}` of step {step} holds: {held}"))
    };
    listed.map(Result::unwrap).filter_map(wrong).collect()
}

/// Exports of complete trials with checkpoints that hold another step than they say, or another
/// than that of the trial's value.
fn wrong_exports(site: &Site, trials: &[Json]) -> Vec<String> {
    let store = site.database();
    let mut losses = Vec::new();
    for trial in trials.iter().filter(|trial| trial["state"] == "complete") {
        let number = trial["number"].as_u64().unwrap();
        let sql = "SELECT count(*) FROM checkpoint WHERE trial_id % 1000000000 = ?1";
        if store.query_row(sql, [number.cast_signed()], |row| row.get::<_, i64>(0)).unwrap() == 0 {
            continue;
        }
        let ended = site.run(&["export", "s", "--trial", &number.to_string(), "-o", "model"]);
        let metrics: Json =
            serde_json::from_str(&site.read("model/metrics.json")).unwrap_or_default();
        let held: Vec<String> = ["last", "1", "2", "3", "4"]
            .into_iter()
            .map(|name| site.read(&format!("model/{name}")))
            .collect();
        let step = metrics["step"].to_string();
        let is_right =
            ended.code == 0 && metrics["trial_value"].is_null() && held.concat().trim() == step;
        if !is_right {
            losses.push(format!(
                "the export of trial {number} is wrong: {held:?}, {metrics}\n{}",
                ended.err
            ));
        }
    }
    losses
}

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The round of a number: what it is made of comes from the seed and the number only.
fn nth(seed: u64, number: u64) -> (Kind, Fault, Outcome) {
    let mut rng = SeedTree::new(seed).stream(&format!("chaos/round/{number}"));
    // Each fault comes in turn, so that few rounds have all of them.
    let only = std::env::var("HPSEARCH_CHAOS_FAULT").unwrap_or_default();
    let faults: Vec<Fault> = FAULTS
        .iter()
        .map(|(fault, _)| *fault)
        .filter(|fault| only.is_empty() || format!("{fault:?}") == only)
        .collect();
    let fault = faults[usize::try_from(number).unwrap() % faults.len()];
    let saves = Saves::ALL[usize::try_from(number).unwrap() % Saves::ALL.len()];
    let kind = Kind::Command([NO_PRUNER, STOPS, PAUSES][rng.random_range(0..3)], saves);
    let slots = rng.random_range(1..3);
    #[cfg(feature = "train")]
    let every = number_from("HPSEARCH_CHAOS_TRAINER", 0);
    #[cfg(feature = "train")]
    if every > 0
        && number % every == every - 1
        && super::trainer::CAN_HAVE.contains(&format!("{fault:?}").as_str())
    {
        let outcome = round(Kind::Trainer, 1, fault, &mut rng, super::trainer::usual_time());
        return (Kind::Trainer, fault, outcome);
    }
    let longest = Duration::from_millis(1600 / slots);
    (kind, fault, round(kind, slots, fault, &mut rng, longest))
}

#[test]
fn random_faults_lose_nothing() {
    let (seed, rounds) = (
        number_from("HPSEARCH_CHAOS", 1),
        number_from("HPSEARCH_CHAOS_ROUNDS", FAULTS.len() as u64),
    );
    let began = Instant::now();
    let next = std::sync::atomic::AtomicU64::new(0);
    let done = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        // Rounds wait most of the time.
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= rounds {
                        return;
                    }
                    let began = Instant::now();
                    let tried = std::panic::catch_unwind(|| nth(seed, number));
                    let Ok(round) = tried else { panic!("round {number} of seed {seed}") };
                    let (kind, fault, outcome) = &round;
                    eprintln!(
                        "round {number}: {kind:?} {fault:?}, {} losses, {:.1} s",
                        outcome.losses.len(),
                        began.elapsed().as_secs_f64()
                    );
                    outcome.losses.iter().for_each(|loss| eprintln!("round {number}: {loss}"));
                    done.lock().unwrap().insert(number, round);
                }
            });
        }
    });
    let done = done.into_inner().unwrap();
    assert_eq!(done.len() as u64, rounds, "a round did not come to its end");
    let trained = done.values().filter(|(kind, ..)| !matches!(kind, Kind::Command(..))).count();
    println!(
        "{rounds} rounds (seed {seed}) in {:.0} s, {trained} of them with the built-in trainer\n",
        began.elapsed().as_secs_f64()
    );
    println!(
        "| fault | rounds | it struck | runs again | attempts again | losses \
         |\n|---|---|---|---|---|---|"
    );
    let mut all = [0; 5];
    for (fault, name) in FAULTS {
        let of: Vec<&Outcome> = done
            .values()
            .filter(|(_, found, _)| found == fault)
            .map(|(_, _, outcome)| outcome)
            .collect();
        let sum =
            |count: &dyn Fn(&Outcome) -> u64| of.iter().map(|outcome| count(outcome)).sum::<u64>();
        let counts = [
            of.len() as u64,
            sum(&|outcome| u64::from(outcome.struck)),
            sum(&|outcome| outcome.runs),
            sum(&|outcome| outcome.attempts),
            sum(&|outcome| outcome.losses.len() as u64),
        ];
        println!("| {name} | {} |", counts.map(|count| count.to_string()).join(" | "));
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    println!("| all | {} |", all.map(|count| count.to_string()).join(" | "));
    let losses = done.iter().flat_map(|(number, (kind, fault, outcome))| {
        outcome
            .losses
            .iter()
            .map(move |loss| format!("round {number}, {kind:?}, {fault:?}: {loss}"))
    });
    let losses: Vec<String> = losses.collect();
    assert!(losses.is_empty(), "{} losses\n{}", losses.len(), losses.join("\n\n"));
}

/// Nothing of this program is left anywhere, whoever was killed: the kernel says so.
#[test]
fn a_killed_test_program_would_leave_no_trial_behind() {
    let site = site(Kind::Command(NO_PRUNER, Saves::Once), 1, None);
    let mut parent = Command::new("sh")
        .args(["-c", "\"$0\" run study.toml --plain & wait", PROGRAM])
        .current_dir(site.path(""))
        .env_remove("HPSEARCH_STORE")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("a trial runs", || !site.processes().is_empty());
    let runner = processes::children(parent.id());
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The runner continues without its shell, as after a closed terminal; killed in its turn, it
    // leaves nothing.
    runner.into_iter().for_each(processes::kill);
    assert_eq!(left_over(&site), None);
}
