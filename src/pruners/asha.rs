//! Asynchronous successive halving: at each rung of a geometric ladder of steps the best 1/eta of the trials go on.

use super::PrunerEntry;
use super::none::NoPruning;
use crate::policy::{OptionKind, OptionSpec};

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "asha",
    aliases: &[],
    summary: "successive halving without waiting: at each rung the best third goes on (reduction_factor)",
    version: 1,
    options: &[
        OptionSpec { name: "min_resource", kind: OptionKind::Int { min: 1, max: i64::MAX }, default: "1", summary: "clock value of the first rung" },
        OptionSpec {
            name: "max_resource",
            kind: OptionKind::Int { min: 1, max: i64::MAX },
            default: "the trial's budget",
            summary: "clock value of a full trial; rungs lie below it",
        },
        OptionSpec {
            name: "reduction_factor",
            kind: OptionKind::Int { min: 2, max: 1_000 },
            default: "3",
            summary: "one of so many trials passes a rung, and the next rung is so many times as far",
        },
        OptionSpec {
            name: "brackets",
            kind: OptionKind::Int { min: 1, max: 64 },
            default: "1",
            summary: "ladders side by side, each without the lowest rung of the one before; trials are dealt out in turn",
        },
        OptionSpec {
            name: "mode",
            kind: OptionKind::Word(&["stop", "promote"]),
            default: "\"stop\"",
            summary: "stop the others at a rung for good, or pause every trial there and resume the best",
        },
    ],
    build: |_, _| Ok(Box::new(NoPruning)),
};
