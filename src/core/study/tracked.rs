//! Runs without a search: their names, commands, and tracking processes.

use serde::{Deserialize, Serialize};

use crate::study::number::TrialNumber;

/// The sampler of a study of tracked runs: none.
pub const NO_SAMPLER: &str = "none";

/// The longest name of a run, in characters.
pub const LONGEST_NAME: usize = 200;

/// The rule for names of runs, for error messages.
pub const RUN_NAME_RULE: &str = "a run's name is up to 200 characters on one line, and not a \
    number: numbers are given to runs in their order";

/// The identity of a tracked run, besides its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrackedRun {
    /// Its name, unique in its study; `None`: only its number identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Runs of the same group belong together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The run of the same study that this one is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TrialNumber>,
    /// The batch job (Slurm) in which it began: when that is requeued, the run is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Its source if imported: the tool, and the run's identifier or path there. Importing it again
    /// finds this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The command line, secrets masked; empty if a program tracks itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// The identity of a tracking process, besides its process id and host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracker {
    /// The system's start time of the process.
    pub pid_started: u64,
    /// The boot of the machine, and the namespace in which its process id is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// Where a run was moved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedRun {
    /// The name that the other study had then.
    pub study: String,
    /// The run's number there.
    pub run: TrialNumber,
}

/// Whether `name` can be a run's, by [`RUN_NAME_RULE`].
pub fn is_run_name(name: &str) -> bool {
    let is_number = name.chars().all(|char| char.is_ascii_digit());
    let fits = name.chars().count() <= LONGEST_NAME && !name.contains(['\n', '\r', '\0']);
    !name.trim().is_empty() && !is_number && fits
}

/// A name that is not taken: `name` itself, or `name-2`, `name-3`, ..
pub fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut free = name.to_owned();
    let mut count = 2_u64;
    while is_taken(&free) {
        free = format!("{name}-{count}");
        count += 1;
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_no_number() {
        for name in ["baseline", "läuft", "../../etc", "1e-3", "\u{1b}[31m", "a b", "-"] {
            assert!(is_run_name(name), "{name:?}");
        }
        for name in ["", " ", "12", "a\nb", "a\rb", "\0", &"x".repeat(LONGEST_NAME + 1)] {
            assert!(!is_run_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_taken_name_gets_the_next_free_number() {
        let taken = ["a", "a-2", "b-2"];
        let free = |name: &str| free_name(name, |name| taken.contains(&name));
        assert_eq!([free("a"), free("b"), free("c")], ["a-3", "b", "c"]);
    }
}
