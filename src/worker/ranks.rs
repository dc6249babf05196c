//! The processes of an attempt of a command: one, or one per device of its group, which run and end
//! together.

use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};

use crate::runner::failure_cause::StderrTail;
use crate::runner::lines::{LineEnd, LinePiece, for_each_line};
use crate::runner::protocol::{COMMAND_NOT_FOUND, CommandJob};
use crate::runner::slot_environment::rank_environment;
use crate::runner::threads;
use crate::study::device::Device;

/// Time for the other ranks to exit after rank 0 did, as all were asked to.
const LAST_RANKS: Duration = Duration::from_secs(5);

/// Time for rank 0 to report what could not be started, after another rank could not start it.
const NOT_STARTED: Duration = Duration::from_secs(1);

/// Time limit for reading what dead processes wrote.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// The started processes, in one process group.
pub(super) struct Ranks {
    /// By rank. The first is also the id of their process group.
    pids: Vec<u32>,
    stdin: Option<ChildStdin>,
    /// Receives when a stream of a rank ends, with the last lines of its stderr; nothing of a
    /// single process, whose streams are its supervisor's.
    tails: Receiver<(usize, Option<StderrTail>)>,
}

impl Ranks {
    /// Starts a single process.
    pub fn start_one(mut command: Command) -> io::Result<Ranks> {
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        let stdin = child.stdin.take();
        Ok(Ranks { pids: vec![child.id()], stdin, tails: bounded(0).1 })
    }

    /// Starts one process per device, or the only one of a node that follows another. Rank 0 has
    /// the supervisor's stdout; everything else that they write goes line by line to its stderr,
    /// with the number of the rank or node.
    ///
    /// # Errors
    /// A process or a thread cannot be started; those before it are running.
    pub fn start(job: &CommandJob, command: impl Fn() -> Command) -> io::Result<Ranks> {
        let members: Vec<&Device> = match job.per_device {
            true => job.devices.members().collect(),
            false => vec![job.devices.first()],
        };
        let (ended, tails) = bounded(2 * members.len());
        let mut ranks = Ranks { pids: Vec::new(), stdin: None, tails };
        for (local_rank, device) in members.into_iter().enumerate() {
            let prefix = prefix(job, local_rank);
            let mut command = command();
            command.stderr(Stdio::piped());
            if job.per_device {
                command
                    .envs(rank_environment(first_rank(job) + local_rank, local_rank))
                    .env("HPSEARCH_DEVICE", device.to_string());
            }
            let group = ranks.pids.first().and_then(|leader| i32::try_from(*leader).ok());
            command.process_group(group.unwrap_or(0));
            match group.is_none() && !job.follows() {
                true => command.stdin(Stdio::piped()),
                false => command.stdin(Stdio::null()).stdout(Stdio::piped()),
            };
            let mut child = command.spawn()?;
            ranks.pids.push(child.id());
            ranks.stdin = ranks.stdin.or(child.stdin.take());
            if let Some(stdout) = child.stdout.take() {
                let (prefix, ended) = (prefix.clone(), ended.clone());
                threads::spawn("rank stdout", move || {
                    relay(&prefix, stdout, |_| {});
                    let _supervisor_gone = ended.send((local_rank, None));
                })?;
            }
            if let Some(stderr) = child.stderr.take() {
                let ended = ended.clone();
                threads::spawn("rank stderr", move || {
                    let tail = relay_errors(&prefix, stderr);
                    let _supervisor_gone = ended.send((local_rank, Some(tail)));
                })?;
            }
        }
        Ok(ranks)
    }

    /// Their process ids, by rank.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// The stdin of rank 0, once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Waits until everything that the dead processes wrote is passed on; returns the last lines of
    /// a rank's stderr.
    pub fn tail_of(&self, rank: usize) -> Option<StderrTail> {
        let until = Instant::now() + READ_TIMEOUT;
        // Until the last thread has dropped its sender.
        let received = std::iter::from_fn(|| self.tails.recv_deadline(until).ok());
        received.filter(|(of, _)| *of == rank).filter_map(|(_, tail)| tail).last()
    }
}

/// The number of ranks on the nodes before this one.
fn first_rank(job: &CommandJob) -> usize {
    job.node.as_ref().map_or(0, |node| node.first_rank)
}

/// The name of a process in messages: `rank 3`, or `node 1` if that has only one.
pub(super) fn name(job: &CommandJob, local_rank: usize) -> String {
    match &job.node {
        Some(node) if !job.per_device => format!("node {}", node.rank),
        _ => format!("rank {}", first_rank(job) + local_rank),
    }
}

/// What precedes the lines of a process in the attempt's log; nothing those of the first.
fn prefix(job: &CommandJob, local_rank: usize) -> String {
    let is_first = local_rank == 0 && !job.follows();
    if is_first { String::new() } else { format!("[{}] ", name(job, local_rank)) }
}

/// Passes lines on to the supervisor's stderr, each in one piece.
fn relay(prefix: &str, stream: impl Read, mut heard: impl FnMut(&[u8])) {
    for_each_line(stream, LineEnd::Newline, |line, piece| {
        heard(line);
        let mut whole = Vec::with_capacity(prefix.len() + line.len() + 1);
        if !matches!(piece, LinePiece::Rest) {
            whole.extend_from_slice(prefix.as_bytes());
        }
        whole.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            whole.push(b'\n');
        }
        let _runner_gone = io::stderr().lock().write_all(&whole);
    });
}

/// The same; returns the last lines.
fn relay_errors(prefix: &str, stderr: impl Read) -> StderrTail {
    let mut tail = StderrTail::default();
    relay(prefix, stderr, |line| tail.push(&String::from_utf8_lossy(line)));
    tail
}

/// Whether processes were asked to exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// An exit with an error is a failure.
    No,
    /// They exit one after the other, and the end of rank 0 counts.
    ToExit,
}

/// How the processes of a group ended so far. The first failure ends the group; otherwise it ends
/// with its last process.
pub(super) struct Ends {
    statuses: Vec<Option<ExitStatus>>,
    failed: Option<usize>,
    deadline: Option<Instant>,
}

impl Ends {
    /// Of a group of this size, running.
    pub fn of(size: usize) -> Self {
        Ends { statuses: vec![None; size], failed: None, deadline: None }
    }

    /// A process ended; returns whether its group did, so that the others can be killed.
    pub fn note(&mut self, rank: usize, status: ExitStatus, asked: Asked, now: Instant) -> bool {
        let Some(own) = self.statuses.get_mut(rank) else { return false };
        *own = Some(status);
        if asked == Asked::No && !status.success() {
            self.failed.get_or_insert(rank);
        }
        if self.statuses.iter().all(Option::is_some) {
            return true;
        }
        let is_rank_0_over = self.statuses[0].is_some();
        match self.failed {
            Some(_) if is_rank_0_over || status.code() != Some(COMMAND_NOT_FOUND) => true,
            Some(_) => {
                self.deadline.get_or_insert(now + NOT_STARTED);
                false
            }
            None => {
                if asked == Asked::ToExit && is_rank_0_over {
                    self.deadline.get_or_insert(now + LAST_RANKS);
                }
                false
            }
        }
    }

    /// When the processes that remain are killed.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The rank whose end is the attempt's, and its status; `None` if it is unknown.
    pub fn decisive(&self) -> (usize, Option<ExitStatus>) {
        let rank = self.failed.unwrap_or(0);
        (rank, self.statuses.get(rank).copied().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn exit(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    fn killed() -> ExitStatus {
        ExitStatus::from_raw(9)
    }

    /// Notes these ends in order; gives after how many the group was over, and its decisive end.
    fn end(size: usize, ends: &[(usize, ExitStatus, Asked)]) -> (usize, usize, Option<ExitStatus>) {
        let (mut group, now) = (Ends::of(size), Instant::now());
        let over =
            ends.iter().position(|(rank, status, asked)| group.note(*rank, *status, *asked, now));
        let (rank, status) = group.decisive();
        (over.map_or(0, |index| index + 1), rank, status)
    }

    #[test]
    fn the_first_that_fails_ends_the_group() {
        use Asked::No;
        let ends = [(2, exit(0), No), (1, exit(3), No), (0, killed(), No)];
        assert_eq!(end(3, &ends), (2, 1, Some(exit(3))));
        assert_eq!(end(4, &[(3, killed(), No)]), (1, 3, Some(killed())));
    }

    #[test]
    fn without_a_failure_it_ends_with_its_last_process() {
        use Asked::No;
        assert_eq!(end(2, &[(0, exit(0), No), (1, exit(0), No)]), (2, 0, Some(exit(0))));
        assert_eq!(end(1, &[(0, exit(0), No)]), (1, 0, Some(exit(0))));
    }

    #[test]
    fn asked_to_exit_rank_0_decides() {
        use Asked::ToExit;
        let term = ExitStatus::from_raw(15);
        assert_eq!(end(2, &[(1, term, ToExit), (0, exit(0), ToExit)]), (2, 0, Some(exit(0))));
        let (mut group, now) = (Ends::of(2), Instant::now());
        assert!(!group.note(1, term, ToExit, now));
        assert_eq!(group.deadline(), None, "rank 0 may take its time to save");
        let mut group = Ends::of(2);
        assert!(!group.note(0, exit(0), ToExit, now));
        assert_eq!(group.deadline(), Some(now + LAST_RANKS), "one that hangs is not waited for");
    }

    #[test]
    fn what_was_not_found_is_reported_by_rank_0() {
        let (mut group, now) = (Ends::of(2), Instant::now());
        assert!(!group.note(1, exit(COMMAND_NOT_FOUND), Asked::No, now));
        assert_eq!(group.deadline(), Some(now + NOT_STARTED));
        assert!(group.note(0, exit(COMMAND_NOT_FOUND), Asked::No, now));
    }
}
