//! The supervisor of one attempt of a command: starts it, passes decisions on, and ends all of its
//! processes.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group};

use super::ranks::{self, Asked, Ends, Ranks};
use super::verdict_queue::VerdictQueue;
use super::{Incoming, report_end};
use crate::runner::checkpoint_digest::check_copied;
use crate::runner::failure_cause::StderrTail;
use crate::runner::launcher::with_limits;
use crate::runner::peak_memory::PeakMemory;
use crate::runner::processes::{self, Doing};
use crate::runner::protocol::{CHECKPOINTS, CommandJob, MessageToRunner, MessageToTrial};
use crate::runner::threads;
use crate::study::decision::Action;
use crate::study::event::AttemptEnd;
use crate::study::params::variable;
use crate::study::spec::FailureCause;

/// Time limit for killing the processes of a command.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for a command to stop by itself after `pause`, before it gets SIGTERM.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Signals that ask a program to exit.
const ASK_TO_LEAVE: [i32; 3] = [Signal::INT.as_raw(), Signal::TERM.as_raw(), Signal::HUP.as_raw()];

/// SIGTERM is repeated at this interval: the program that handles it may have been started since.
const TERMINATE_INTERVAL: Duration = Duration::from_secs(10);

/// Runs the attempt and reports how it ended. `terminated`: whether a scheduler has sent SIGTERM to
/// this process, and so to the command: what ends by it has left, even before its agent says so.
pub(super) fn run(job: &CommandJob, incoming: &Receiver<Incoming>, terminated: &AtomicBool) {
    // Orphans of the command become children of this process.
    let inherits = Pid::from_raw(1)
        .and_then(|_| rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok());
    if inherits.is_none() {
        return fail("the system does not let a supervisor adopt orphans".to_owned());
    }
    let memory_kills = processes::memory_kills();
    if let Err(why) = prepare(job) {
        return refuse(why);
    }
    if let Err(why) = check_copied(&job.trial) {
        return fail(why);
    }
    let is_relayed = job.per_device || job.follows();
    let started = match is_relayed {
        true => Ranks::start(job, || command(job)),
        false => Ranks::start_one(command(job)),
    };
    let mut ranks = match started {
        Ok(ranks) => ranks,
        Err(error) => {
            processes::kill_descendants(std::process::id(), &BTreeSet::new(), KILL_TIMEOUT);
            // Only what is certainly not there is gone.
            if job.cwd.try_exists().is_ok_and(|exists| !exists) {
                return refuse(format!(
                    "the working directory of the command, `{}`, is not there: put it back, or \
                     correct `cwd` in [command]",
                    job.cwd.display()
                ));
            }
            let (program, cwd) = (&job.run[0], job.cwd.display());
            let why = format!("cannot start `{program}` in `{cwd}`: {}", with_limits(&error));
            return if is_refused(&error) { refuse(why) } else { fail(why) };
        }
    };
    let CommandEnd { runner_lives, was_asked_to_leave, was_killed, unheard, rank, status, peak } =
        match supervise(&mut ranks, &job.trial.directory, incoming) {
            Ok(supervised) => supervised,
            Err(error) => {
                processes::kill_descendants(std::process::id(), &BTreeSet::new(), KILL_TIMEOUT);
                let error = with_limits(&error);
                return refuse(format!("cannot start the threads of its supervisor: {error}"));
            }
        };
    let by = match (was_killed, processes::memory_kills() > memory_kills) {
        (true, _) => Killer::Us,
        (false, true) => Killer::Memory,
        (false, false) => Killer::Unknown,
    };
    let left = processes::kill_descendants(std::process::id(), &BTreeSet::new(), KILL_TIMEOUT);
    if left > 0 {
        let left = if left == 1 { "1 process".to_owned() } else { format!("{left} processes") };
        eprintln!("[hpsearch] {left} of this trial could not be killed");
    }
    if runner_lives {
        if let Some(bytes) = peak {
            report_end(&MessageToRunner::Peak { bytes });
        }
        if let Some(status) = status.and_then(exit_status).filter(|_| job.is_tracked) {
            report_end(&MessageToRunner::Exit { status });
        }
        if unheard {
            report_end(&MessageToRunner::Unheard {});
        }
        let has_left = was_asked_to_leave || terminated.load(Ordering::Relaxed);
        let end = end_of(status, has_left, by);
        report_end(&match is_relayed {
            true => {
                let tail = ranks.tail_of(rank).unwrap_or_default();
                end_of_rank(&ranks::name(job, rank), tail, by, end)
            }
            false => end,
        });
    }
}

fn fail(message: String) {
    let end = AttemptEnd::Failed(FailureCause::Program);
    report_end(&MessageToRunner::End { end, message: Some(message) });
}

fn refuse(message: String) {
    report_end(&MessageToRunner::End { end: AttemptEnd::Refused, message: Some(message) });
}

/// Whether a program could not be started because the machine lacks resources.
pub(super) fn is_refused(error: &io::Error) -> bool {
    let short = [
        Errno::AGAIN,
        Errno::NOMEM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::TXTBSY,
    ];
    short.into_iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn prepare(job: &CommandJob) -> Result<(), String> {
    let directory = &job.trial.directory;
    let said =
        |path: &Path, error: std::io::Error| format!("cannot write `{}`: {error}", path.display());
    std::fs::create_dir_all(directory.join(CHECKPOINTS)).map_err(|error| said(directory, error))?;
    let params = serde_json::to_vec_pretty(&job.trial.params).map_err(|error| error.to_string())?;
    let path = directory.join("params.json");
    // A command may have put a link or a pipe there, and other nodes may read it already.
    let node = job.node.as_ref().map_or(0, |node| node.rank);
    let unfinished = directory.join(format!(".params.{node}"));
    let _not_there = std::fs::remove_file(&unfinished);
    std::fs::write(&unfinished, params).map_err(|error| said(&path, error))?;
    std::fs::rename(&unfinished, &path).map_err(|error| said(&path, error))
}

fn command(job: &CommandJob) -> Command {
    let trial = &job.trial;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("worker")
        .arg(if job.is_tracked { "--track" } else { "--exec" })
        .args(&job.run)
        .current_dir(&job.cwd);
    for (name, value) in trial.params.iter() {
        match value.in_environment() {
            Some(text) => command.env(variable(name), text),
            None => command.env_remove(variable(name)),
        };
    }
    command
        .env("HPSEARCH_PARAMS", trial.directory.join("params.json"))
        .env("HPSEARCH_STUDY", &trial.study)
        .env("HPSEARCH_STORE", &trial.store)
        .env("HPSEARCH_TRIAL", trial.trial.to_string())
        .env("HPSEARCH_ATTEMPT", trial.attempt.to_string())
        .env("HPSEARCH_CHECKPOINT_DIR", trial.directory.join(CHECKPOINTS))
        .env_remove("HPSEARCH_RESUME")
        .env_remove("HPSEARCH_CLONED_FROM")
        .env_remove("HPSEARCH_UNTIL")
        .env_remove("HPSEARCH_JUDGED")
        .envs(&job.env);
    if job.is_tracked {
        command.env("HPSEARCH_TRACKED", "1");
    } else {
        command
            .env_remove("HPSEARCH_TRACKED")
            .env("HPSEARCH_SEED", trial.seed.to_string())
            .env("HPSEARCH_DEVICE", job.devices.to_string());
    }
    if let Some(resume) = &trial.resume {
        command.env("HPSEARCH_RESUME", resume);
    }
    if let Some(cloned) = &trial.cloned {
        command.env("HPSEARCH_CLONED_FROM", cloned.from.to_string());
    }
    if job.is_judged {
        let metrics = serde_json::json!(trial.objectives);
        command.env("HPSEARCH_JUDGED", metrics.to_string());
    }
    if let Some(until) = job.until {
        command.env("HPSEARCH_UNTIL", until.to_string());
    }
    command
}

/// How a command ended.
struct CommandEnd {
    runner_lives: bool,
    was_asked_to_leave: bool,
    was_killed: bool,
    /// Whether it was told to pause only by a line that it has not read.
    unheard: bool,
    /// The process whose status it is.
    rank: usize,
    status: Option<ExitStatus>,
    /// The peak memory of its processes in bytes.
    peak: Option<u64>,
}

/// Who killed a command, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killer {
    /// This process, because the runner asked for it or is gone.
    Us,
    /// The kernel's OOM killer was active while it ran.
    Memory,
    /// Nobody is known to have killed it.
    Unknown,
}

/// Waits for the command, and forwards the runner's messages.
///
/// # Errors
/// A thread cannot be started; the command is still running.
fn supervise(
    ranks: &mut Ranks,
    directory: &Path,
    incoming: &Receiver<Incoming>,
) -> io::Result<CommandEnd> {
    let pids = ranks.pids().to_vec();
    let group = pids[0];
    let start = |stdin| VerdictQueue::start(stdin, directory.to_owned());
    let mut verdicts = ranks.take_stdin().map(start).transpose()?;
    let mut ends = Ends::of(pids.len());
    let (exited_tx, exited) = bounded(pids.len());
    threads::spawn("reaper", move || wait_for(&pids, &exited_tx))?;
    let (mut was_killed, mut terminate_at) = (false, None::<Instant>);
    let (mut runner_lives, mut was_asked_to_leave) = (true, false);
    let mut was_terminated = false;
    // How much it has read once it has read that it is to pause.
    let mut told_by = None;
    let mut peak = PeakMemory::start();
    loop {
        let next = [terminate_at, ends.deadline()].into_iter().flatten().min();
        let until_then = next.map_or(Duration::from_secs(3600), |moment| {
            moment.saturating_duration_since(Instant::now())
        });
        let mut is_over = false;
        let again =
            if was_killed { Duration::from_millis(20) } else { until_then.min(peak.wait()) };
        select! {
            recv(exited) -> end => {
                let asked = match was_asked_to_leave || was_terminated || was_killed {
                    true => Asked::ToExit,
                    false => Asked::No,
                };
                is_over = match end {
                    Ok((rank, status)) => ends.note(rank, status, asked, Instant::now()),
                    Err(_) => true,
                };
            }
            recv(incoming) -> message => match message {
                Ok(Incoming::Decision { action, line }) => {
                    if action == Action::Pause {
                        terminate_at = Some(Instant::now() + PAUSE_TIMEOUT);
                    }
                    let sent = verdicts.as_ref().map(|verdicts| verdicts.send(&line));
                    if let Some(Err(error)) = sent {
                        // A command waiting for this decision would mistake the next one for it.
                        eprintln!("[hpsearch] {error}; the command gets no more verdicts");
                        verdicts = None;
                    }
                    if let (Action::Pause, Some(verdicts)) = (&action, &verdicts) {
                        told_by.get_or_insert(verdicts.queued());
                    }
                    if action == Action::Stop {
                        terminate_at = Some(Instant::now());
                    }
                }
                Ok(Incoming::Message(MessageToTrial::Leave)) => {
                    was_asked_to_leave = true;
                    terminate_at = Some(Instant::now());
                }
                Ok(Incoming::Message(MessageToTrial::Signal { number })) => {
                    was_asked_to_leave |= ASK_TO_LEAVE.contains(&number);
                    send(group, number);
                }
                Ok(Incoming::Message(MessageToTrial::Examine)) => examine(),
                Ok(Incoming::Message(MessageToTrial::Kill)) => was_killed = true,
                Ok(Incoming::Message(MessageToTrial::Job(_))) => {}
                Ok(Incoming::RunnerGone) | Err(_) => {
                    runner_lives = false;
                    was_killed = true;
                }
            },
            default(again) => {}
        }
        peak.look(|| processes::descendants(std::process::id()).into_iter().collect());
        if let Some(moment) = terminate_at.as_mut().filter(|moment| **moment <= Instant::now()) {
            terminate(group);
            was_terminated = true;
            *moment += TERMINATE_INTERVAL;
        }
        if was_killed {
            processes::descendants(std::process::id()).into_iter().for_each(processes::kill);
        }
        if !runner_lives {
            let _killed = exited.recv_timeout(KILL_TIMEOUT);
            is_over = true;
        }
        if is_over || ends.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            let (rank, status) = ends.decisive();
            let peak = peak.bytes();
            let has_read = |end| verdicts.as_ref().is_none_or(|verdicts| verdicts.read() >= end);
            let unheard = told_by.is_some_and(|end| !has_read(end))
                && !(was_terminated || was_asked_to_leave || was_killed);
            return Ok(CommandEnd {
                runner_lives,
                was_asked_to_leave,
                was_killed,
                unheard,
                rank,
                status,
                peak,
            });
        }
    }
}

/// Writes the activity of the command's processes into its log, because it has timed out.
fn examine() {
    let descendants = processes::descendants(std::process::id()).into_iter();
    let found: Vec<Doing> = descendants.filter_map(processes::doing).collect();
    let Some(first) = found.first() else { return };
    eprintln!("[hpsearch] the attempt timed out and is asked to exit; its processes:");
    for Doing { pid, name, state, waits_in, stack } in &found {
        let waits_in =
            waits_in.as_ref().map_or_else(String::new, |function| format!(", in {function}"));
        eprintln!("[hpsearch]   {pid} {name}: {state}{waits_in}");
        stack.iter().for_each(|frame| eprintln!("[hpsearch]     {frame}"));
    }
    eprintln!(
        "[hpsearch] next time, inspect it while it hangs: `py-spy dump --pid {}` (or `gdb -p`) \
         prints the stack of a program",
        first.pid
    );
}

/// Sends the end of each process of the command, and reaps orphans, which become children of this
/// process. Returns after the last.
fn wait_for(command: &[u32], exited: &Sender<(usize, ExitStatus)>) {
    let mut left = command.len();
    while left > 0 {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let pid = u32::try_from(pid.as_raw_pid()).ok();
                if let Some(rank) = command.iter().position(|own| Some(*own) == pid) {
                    left -= 1;
                    // The supervisor has left its loop.
                    let _over = exited.send((rank, ExitStatus::from_raw(status.as_raw())));
                }
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Sends a signal to the command and its children, as a terminal does.
fn send(group: u32, number: i32) {
    let group = i32::try_from(group).ok().and_then(Pid::from_raw);
    if let Some((group, signal)) = group.zip(Signal::from_named_raw(number)) {
        let _gone_already = kill_process_group(group, signal);
    }
}

/// The exit status as in a shell: 128 plus the signal number after a signal.
fn exit_status(status: ExitStatus) -> Option<i32> {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal))
}

fn terminate(group: u32) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        let _gone_already = kill_process_group(group, Signal::TERM);
        // A stopped process handles signals only once it continues.
        let _gone_already = kill_process_group(group, Signal::CONT);
    }
}

fn end_of(status: Option<ExitStatus>, was_asked_to_leave: bool, by: Killer) -> MessageToRunner {
    use FailureCause::{Exit, WorkerLost};
    const KILL: i32 = Signal::KILL.as_raw();
    const TERM: i32 = Signal::TERM.as_raw();
    const INT: i32 = Signal::INT.as_raw();
    let (cause, message) = match status.map(|status| (status.code(), status.signal())) {
        Some((Some(0), _)) => {
            // A program that handles SIGTERM exits with 0, but is not finished.
            let end =
                if was_asked_to_leave { AttemptEnd::Interrupted } else { AttemptEnd::Completed };
            return MessageToRunner::End { end, message: None };
        }
        // A shell's status for a child killed by signal 9 is 128 + 9; Python's `sys.exit` of its
        // return code, as deepspeed's launcher has it, is 256 - 9.
        Some((Some(code), _)) if [128 + KILL, 256 - KILL].contains(&code) => {
            killed(&format!("exit status {code}: what it started was killed by signal 9"), by)
        }
        Some((Some(code), _)) => (Exit(code), format!("exit status {code}")),
        Some((None, Some(KILL))) => killed("killed by signal 9", by),
        Some((None, Some(signal @ (TERM | INT)))) => {
            (WorkerLost, format!("killed by signal {signal}"))
        }
        Some((None, signal)) => {
            let signal = signal.unwrap_or(0);
            (Exit(128 + signal), format!("crashed with signal {signal}"))
        }
        None => (WorkerLost, "its exit status is unknown".to_owned()),
    };
    MessageToRunner::End { end: AttemptEnd::Failed(cause), message: Some(message) }
}

/// The end of a group, with the rank that decided it and its last words.
fn end_of_rank(name: &str, tail: StderrTail, by: Killer, end: MessageToRunner) -> MessageToRunner {
    use FailureCause::{Exit, Oom, Program, WorkerLost};
    let MessageToRunner::End { end, message: Some(message) } = end else { return end };
    let is_own = matches!(end, AttemptEnd::Failed(Program | Exit(_)));
    let last = Some(tail.last()).filter(|last| is_own && !last.is_empty());
    let last = last.map(|last| format!(": {last}")).unwrap_or_default();
    let cause = tail.cause().filter(|_| is_own).map(|cause| match (cause, by) {
        (WorkerLost, Killer::Memory) => Oom,
        _ => cause,
    });
    MessageToRunner::End {
        end: cause.map_or(end, AttemptEnd::Failed),
        message: Some(format!("{name}: {message}{last}")),
    }
}

/// The end of a killed attempt.
fn killed(how: &str, by: Killer) -> (FailureCause, String) {
    match by {
        Killer::Us => (FailureCause::WorkerLost, how.to_owned()),
        Killer::Memory => (FailureCause::Oom, format!("{how}, by the kernel: memory ran out")),
        Killer::Unknown => (
            FailureCause::WorkerLost,
            format!("{how}: by a user, or for lack of memory (see `dmesg`)"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_group_names_the_rank_and_its_own_last_words() {
        let of = |status: i32, words: &str| {
            let mut tail = StderrTail::default();
            tail.push(words);
            let end = end_of(Some(ExitStatus::from_raw(status)), false, Killer::Us);
            match end_of_rank("rank 2", tail, Killer::Us, end) {
                MessageToRunner::End { end, message } => (end, message.unwrap_or_default()),
                other => panic!("{other:?}"),
            }
        };
        let failed = |cause| AttemptEnd::Failed(cause);
        let (end, message) = of(3 << 8, "ValueError: no");
        assert_eq!(end, failed(FailureCause::Exit(3)));
        assert_eq!(message, "rank 2: exit status 3: ValueError: no");
        assert_eq!(of(1 << 8, "CUDA out of memory").0, failed(FailureCause::Oom));
        let (end, message) = of(9, "step 7");
        assert_eq!(
            (end, message.as_str()),
            (failed(FailureCause::WorkerLost), "rank 2: killed by signal 9")
        );
        assert_eq!(of(0, "done"), (AttemptEnd::Completed, String::new()));
    }

    #[test]
    fn the_killer_of_a_command_is_reported_if_known() {
        use AttemptEnd::{Completed, Failed};
        use FailureCause::{Exit, Oom, WorkerLost};
        let cases = [
            (9, Killer::Memory, Failed(Oom), "killed by signal 9, by the kernel: memory ran out"),
            (9, Killer::Us, Failed(WorkerLost), "killed by signal 9"),
            (9, Killer::Unknown, Failed(WorkerLost), "killed by signal 9: by a user, or for lack"),
            (137 << 8, Killer::Memory, Failed(Oom), "exit status 137: what it started was killed"),
            (137 << 8, Killer::Unknown, Failed(WorkerLost), "exit status 137"),
            (247 << 8, Killer::Unknown, Failed(WorkerLost), "exit status 247"),
            // A program's own error is not blamed on the OOM killer.
            (1 << 8, Killer::Memory, Failed(Exit(1)), "exit status 1"),
            (11, Killer::Memory, Failed(Exit(139)), "crashed with signal 11"),
            (0, Killer::Memory, Completed, ""),
        ];
        for (status, by, expected, words) in cases {
            let said = end_of(Some(ExitStatus::from_raw(status)), false, by);
            let MessageToRunner::End { end, message } = said else { panic!("{said:?}") };
            assert_eq!(end, expected, "{status} {by:?}");
            assert!(message.unwrap_or_default().starts_with(words), "{status} {by:?}");
        }
    }
}
