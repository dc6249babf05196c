//! Tree-structured Parzen estimators, one for each parameter, by the `tpe` crate.

use super::SamplerEntry;
use super::random::Random;
use crate::policy::{OptionKind, OptionSpec};

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "tpe-independent",
    aliases: &["tpe"],
    summary: "learns where good values of each parameter lie, one parameter at a time (TPE)",
    version: 1,
    options: &[
        OptionSpec {
            name: "n_startup_trials",
            kind: OptionKind::Int { min: 0, max: 1_000_000 },
            default: "10",
            summary: "trials drawn at random (stratified) before the estimators take over",
        },
        OptionSpec {
            name: "n_ei_candidates",
            kind: OptionKind::Int { min: 1, max: 10_000 },
            default: "24",
            summary: "draws from the good trials' density of which the most promising is taken",
        },
        OptionSpec { name: "gamma", kind: OptionKind::Float { min: 0.0, max: 1.0 }, default: "0.1", summary: "share of trials that count as good" },
        OptionSpec { name: "gamma_cap", kind: OptionKind::Int { min: 1, max: 1_000_000 }, default: "25", summary: "most trials that count as good" },
    ],
    build: |_, _| Ok(Box::new(Random)),
};
