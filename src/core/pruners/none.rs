//! No pruning: every trial runs to its end.

use super::{Case, Pruner, PrunerEntry};
use crate::study::decision::Decision;
use crate::study::spec::Milestones;

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "none",
    aliases: &[],
    summary: "lets every trial run to its end",
    version: 1,
    oldest: 1,
    options: &[],
    several: true,
    build: |_, _| Ok(Box::new(NoPruning)),
};

/// Never stops anything.
#[derive(Clone, Copy, Debug)]
pub struct NoPruning;

impl Pruner for NoPruning {
    fn judge(&self, _case: &Case<'_>) -> Decision {
        Decision::CONTINUE
    }

    fn milestones(&self, _budget: Option<u64>) -> Milestones {
        Milestones::default()
    }
}
