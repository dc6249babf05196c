//! Grid search: every cell of the space once.

use super::SamplerEntry;
use super::random::Random;
use crate::policy::{OptionKind, OptionSpec};

pub(super) const ENTRY: SamplerEntry = SamplerEntry {
    name: "grid",
    aliases: &[],
    summary: "tries every combination once; continuous parameters at a few points of their axis",
    version: 1,
    options: &[
        OptionSpec {
            name: "points",
            kind: OptionKind::Int { min: 1, max: 1_000_000 },
            default: "5",
            summary: "points on the axis of each continuous parameter, both ends included",
        },
        OptionSpec {
            name: "order",
            kind: OptionKind::Word(&["sequential", "random"]),
            default: "\"sequential\"",
            summary: "nested loops with the last parameter fastest, or a fixed shuffle of them",
        },
    ],
    build: |_, _| Ok(Box::new(Random)),
};
