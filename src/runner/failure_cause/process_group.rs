//! What the processes of a `torch.distributed` group print when one of them fails, and torchrun
//! (also under `accelerate launch`) about the first, so that its failure is the attempt's.

use std::collections::BTreeMap;

use crate::study::spec::FailureCause;

/// Most ranks whose last lines are kept.
const RANKS: usize = 1024;

/// What a rank's exception says if another process vanished: of gloo, and of NCCL.
const PEER_LOST: &[&str] = &[
    "Connection closed by peer",
    "Connection reset by peer",
    "remote process exited",
    "remote process exiting",
];

/// Follows standard error. PyTorch prefixes a traceback with the rank (`[rank1]: ValueError: ..`);
/// torchrun then names the rank that failed first, and ends with a traceback and a summary of its
/// own.
#[derive(Debug, Default)]
pub(super) struct ProcessGroup {
    ranks: BTreeMap<u32, Rank>,
    /// The first failure, in words, and whether the process was killed from outside.
    failed: Option<(String, bool)>,
}

/// The exception of a rank.
#[derive(Debug, Default)]
struct Rank {
    last: String,
    lost_a_peer: bool,
}

impl ProcessGroup {
    /// Reads a line; returns whether it is one of torchrun's own, which say nothing about the
    /// program.
    pub(super) fn push(&mut self, line: &str) -> bool {
        let is_own = line.contains("torch/distributed/elastic/");
        if is_own && line.contains("will restart worker group") {
            *self = ProcessGroup::default();
            return true;
        }
        if self.failed.is_some() {
            return true;
        }
        if let Some((rank, words)) = of_rank(line) {
            if self.ranks.len() < RANKS || self.ranks.contains_key(&rank) {
                let rank = self.ranks.entry(rank).or_default();
                rank.last = words.chars().take(300).collect();
                rank.lost_a_peer |= PEER_LOST.iter().any(|lost| words.contains(lost));
            }
            return false;
        }
        match first_failure(line).filter(|_| is_own) {
            Some((exit, rank)) => {
                self.failed = Some(self.failure(exit, rank));
                true
            }
            None => is_own && line.contains("closing signal"),
        }
    }

    /// A failure in words, and whether the process was killed from outside. On one machine ranks
    /// and local ranks are the same.
    fn failure(&self, exit: i32, rank: u32) -> (String, bool) {
        if exit <= 0 {
            let signal = -exit;
            let words = format!("rank {rank} was killed by signal {signal}");
            return (words, [2, 9, 15].contains(&signal));
        }
        let words = match self.ranks.get(&rank) {
            Some(Rank { last, .. }) => format!("rank {rank}: {last}"),
            None => format!("rank {rank}: exit status {exit}"),
        };
        (words, false)
    }

    /// The words of the process that failed first, if torchrun named it.
    pub(super) fn words(&self) -> Option<&str> {
        self.failed.as_ref().map(|(words, _)| words.as_str())
    }

    /// The failure cause, if a process was killed: torchrun says so, or all that complain have lost
    /// a peer, and none says why it failed. A launcher looks at its processes now and then only, so
    /// that the killed one need not be the first that it sees.
    pub(super) fn cause(&self) -> Option<FailureCause> {
        let was_killed = self.failed.as_ref().is_some_and(|(_, was_killed)| *was_killed);
        let mut complaints = self.ranks.values();
        let is_lost = !self.ranks.is_empty() && complaints.all(|complaint| complaint.lost_a_peer);
        (was_killed || is_lost).then_some(FailureCause::WorkerLost)
    }
}

/// The rank and the words of a line such as `[rank1]: ValueError: boom`; warnings of PyTorch
/// (`[rank1]:[W1126 ..`) are none.
fn of_rank(line: &str) -> Option<(u32, &str)> {
    let (rank, words) = line.strip_prefix("[rank")?.split_once("]: ")?;
    let words = words.trim();
    Some((rank.parse().ok()?, words)).filter(|_| !words.is_empty())
}

/// The exit code and the local rank of `.. failed (exitcode: -9) local_rank: 1 (pid: 23118) ..`.
fn first_failure(line: &str) -> Option<(i32, u32)> {
    let (_, rest) = line.split_once("failed (exitcode: ")?;
    let (exit, rest) = rest.split_once(") local_rank: ")?;
    let rank = rest.split_whitespace().next()?;
    Some((exit.parse().ok()?, rank.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As torchrun 2.15 prints it, with two processes; `[rank..` lines are the program's.
    fn printed(program: &str, exit: &str) -> String {
        let api = "23 torch/distributed/elastic/multiprocessing/api.py";
        format!(
            "{program}\
             W1126 14:31:06.318000 {api}:1028] Sending process 23117 closing signal SIGTERM\n\
             E1126 14:31:06.385000 {api}:1002] failed (exitcode: {exit}) local_rank: 1 \
             (pid: 23118) of binary: /v/bin/python3\n\
             Traceback (most recent call last):\n\
             torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n\
             ====\n\
             traceback : Signal 15 (SIGTERM) received by PID 23117\n\
             ====\n"
        )
    }

    fn read(text: &str) -> (ProcessGroup, Vec<&str>) {
        let mut group = ProcessGroup::default();
        let other = text.lines().filter(|line| !group.push(line.trim())).collect();
        (group, other)
    }

    #[test]
    fn the_last_words_of_the_rank_that_failed_first_are_told() {
        let program = "[rank1]: Traceback (most recent call last):\n[rank1]: ValueError: boom\n\
            [rank0]: RuntimeError: Connection closed by peer\n";
        let text = printed(program, "1");
        let (group, other) = read(&text);
        assert_eq!(group.words(), Some("rank 1: ValueError: boom"));
        assert_eq!((group.cause(), other.len()), (None, 3));
    }

    #[test]
    fn a_killed_rank_is_a_lost_worker_and_a_crash_is_not() {
        for (exit, cause) in [("-9", Some(FailureCause::WorkerLost)), ("-11", None)] {
            let text = printed("", exit);
            let (group, other) = read(&text);
            let words = format!("rank 1 was killed by signal {}", &exit[1..]);
            assert_eq!((group.words(), group.cause()), (Some(words.as_str()), cause));
            assert_eq!(other, [""; 0]);
        }
    }

    #[test]
    fn ranks_that_all_lost_a_peer_tell_of_one_that_was_killed() {
        let closed = |rank: u32| {
            format!(
                "[rank{rank}]: Traceback (most recent call last):\n\
                 [rank{rank}]: RuntimeError: [pair.cc:547] Connection closed by peer \
                 [127.0.0.1]:1\n\
                 [rank{rank}]:[W1126 socket.cpp:1] Warning: destroy_process_group() was not \
                 called\n"
            )
        };
        let program = format!("{}{}", closed(0), closed(2));
        let lost = Some(FailureCause::WorkerLost);
        assert_eq!(read(&program).0.cause(), lost, "under deepspeed, which prints nothing");
        assert_eq!(read(&printed(&program, "1")).0.cause(), lost);
        let program = format!("{program}[rank1]: ValueError: boom\n");
        assert_eq!(read(&printed(&program, "1")).0.cause(), None, "it failed, and took them along");
    }

    #[test]
    fn a_restarted_group_begins_anew_and_other_programs_are_left_alone() {
        let text = printed("", "-9");
        let (mut group, _) = read(&text);
        assert!(group.push(
            "I1126 torch/distributed/elastic/agent/api.py:9] [default] Worker group FAILED. 2/3 \
             attempts left; will restart worker group"
        ));
        assert_eq!(group.words(), None);
        assert!(!group.push("step 3"));
        let (group, other) = read("it failed (exitcode: 3) local_rank: 1 (pid 3)\n[rank]: x\n");
        assert_eq!((group.words(), other.len()), (None, 2));
    }
}
