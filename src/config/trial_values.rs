//! Values of a trial that commands and paths can name, besides its parameters.

use std::path::Path;

use super::placeholder::{fill_in, names};
use crate::study::params::Params;
use crate::study::space::Space;
use crate::study::trial::TrialNumber;

/// Values of a trial that a command can name, unless a parameter has that name.
#[derive(Clone, Copy, Debug)]
pub struct TrialValues<'a> {
    /// `{trial}`: its number.
    pub number: TrialNumber,
    /// `{trial_dir}` and `{checkpoint_dir}`: its own directory.
    pub directory: &'a Path,
    /// `{seed}`: its seed.
    pub seed: u64,
    /// Values of its group of devices, if it has one.
    pub group: Option<GroupValues<'a>>,
}

/// Values of a group of devices that a launcher of its processes takes.
#[derive(Clone, Copy, Debug)]
pub struct GroupValues<'a> {
    /// `{world_size}`: number of devices, and so of processes.
    pub world_size: usize,
    /// `{master_addr}`: the address at which they meet.
    pub master_addr: &'a str,
    /// `{master_port}`: the port at which they meet.
    pub master_port: u16,
    /// `{nodes}`: number of machines.
    pub nodes: usize,
    /// `{node_rank}`: the rank of this machine, from 0.
    pub node_rank: usize,
}

impl TrialValues<'_> {
    /// The names, without those of groups.
    pub const NAMES: [&'static str; 4] = ["trial", "trial_dir", "checkpoint_dir", "seed"];

    /// The value of this name, if the trial has it.
    pub fn get(&self, name: &str) -> Option<String> {
        match name {
            "trial" => Some(self.number.to_string()),
            "trial_dir" | "checkpoint_dir" => Some(self.directory.display().to_string()),
            "seed" => Some(self.seed.to_string()),
            "world_size" => Some(self.group?.world_size.to_string()),
            "master_addr" => Some(self.group?.master_addr.to_owned()),
            "master_port" => Some(self.group?.master_port.to_string()),
            "nodes" => Some(self.group?.nodes.to_string()),
            "node_rank" => Some(self.group?.node_rank.to_string()),
            _ => None,
        }
    }
}

impl GroupValues<'_> {
    /// The names.
    pub const NAMES: [&'static str; 5] =
        ["world_size", "master_addr", "master_port", "nodes", "node_rank"];
}

/// A path with placeholders for parameters and values of the trial.
pub fn path(text: &str, space: &Space, params: &Params, trial: TrialValues<'_>) -> String {
    let knows = |name: &str| space.dimension(name).is_some();
    fill_in(text, knows, |name| match params.get(name) {
        Some(value) => value.to_string(),
        None => trial.get(name).unwrap_or_default(),
    })
}

/// The value of an environment variable with placeholders for parameters and values of the trial;
/// other braces stay.
pub fn environment(text: &str, space: &Space, params: &Params, trial: TrialValues<'_>) -> String {
    let knows = |name: &str| space.dimension(name).is_some();
    fill_in(text, knows, |name| match params.get(name) {
        Some(value) => value.to_string(),
        None if knows(name) => String::new(),
        None => trial.get(name).unwrap_or_else(|| format!("{{{name}}}")),
    })
}

/// Whether a path contains a placeholder, so that each trial has its own.
pub fn names_something(text: &str, space: &Space) -> bool {
    names(text, |name| space.dimension(name).is_some()).next().is_some()
}
