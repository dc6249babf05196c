//! Other machines that run a study's trials: how their agents are started, and how long they work
//! without their runner.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The `[cluster]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// How agents are started.
    pub start: AgentStart,
    /// A directory that all machines see at this path; it has the files of trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_dir: Option<PathBuf>,
    /// `address:port` at which the runner listens for agents; port 0: any.
    pub listen: String,
    /// Time without an answer after which an agent stops its trials.
    pub lost_after: Duration,
}

/// How agents are started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum AgentStart {
    /// By hand: `hpsearch agent FILE`.
    Manual,
    /// By a command line that gives a pipe, or starts an agent that connects.
    Command {
        /// Program and arguments; `{file}` is the file by which an agent finds its runner.
        run: Vec<String>,
        /// How many at a time.
        max_jobs: u32,
    },
    /// By ssh.
    Ssh {
        /// The hosts.
        hosts: Vec<SshHost>,
    },
    /// By Slurm, as an array of jobs.
    Slurm(SlurmSpec),
}

/// A host that is reached by ssh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshHost {
    /// Its name, as `ssh` takes it.
    pub name: String,
    /// Its devices, instead of `[devices] use`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
}

/// Options of Slurm's jobs, by the names of `sbatch`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlurmSpec {
    /// `--partition`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// `--account`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// `--time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// `--gres`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gres: Option<String>,
    /// `--cpus-per-task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// `--mem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Most jobs at a time.
    pub max_jobs: u32,
    /// More options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra: Vec<String>,
}

/// The default of [`ClusterSpec::listen`].
pub const LISTEN: &str = "0.0.0.0:0";

/// The default of [`ClusterSpec::lost_after`].
pub const LOST_AFTER: Duration = Duration::from_secs(120);
