//! Batch sizes, and halving them after running out of memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::training::TrainerArguments;

/// Rows that training and evaluation process at once, at least one. Smaller micro-batches make the
/// same optimiser steps, of the same rows in the same order: the result differs by rounding, and by
/// dropout masks, which are drawn per micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowsAtOnce {
    /// Rows of a micro-batch in training.
    pub train: usize,
    /// Rows of a batch in evaluation.
    pub eval: usize,
}

impl RowsAtOnce {
    /// The batch sizes of a trial's arguments, parameters included; `None` with
    /// `auto_find_batch_size = false`, and for invalid arguments, which are reported elsewhere.
    #[must_use]
    pub fn that_may_be_halved(values: &BTreeMap<String, Value>) -> Option<Self> {
        let arguments = TrainerArguments::resolve(values)
            .ok()
            .filter(|arguments| arguments.auto_find_batch_size)?;
        Some(RowsAtOnce {
            train: arguments.per_device_train_batch_size,
            eval: arguments.per_device_eval_batch_size,
        })
    }

    /// Halved this many times, rounded down, but at least one row.
    #[must_use]
    pub fn halved(self, times: u32) -> Self {
        let half = |rows: usize| rows.checked_shr(times).unwrap_or(0).max(1);
        RowsAtOnce { train: half(self.train), eval: half(self.eval) }
    }

    /// How many times they can be halved until both are one row.
    #[must_use]
    pub fn halvings(self) -> u32 {
        self.train.max(self.eval).checked_ilog2().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(values: Value) -> Option<RowsAtOnce> {
        RowsAtOnce::that_may_be_halved(&serde_json::from_value(values).unwrap())
    }

    #[test]
    fn rows_are_halved_down_to_one_and_each_halving_makes_some_of_them_fewer() {
        for (train, eval) in [(1, 1), (1, 64), (5, 3), (8, 64), (65_536, 1), (100, 7)] {
            let all = RowsAtOnce { train, eval };
            assert_eq!(all.halved(0), all);
            for times in 0..all.halvings() {
                assert_ne!(all.halved(times), all.halved(times + 1), "{all:?} {times}");
            }
            assert_eq!(all.halved(all.halvings()), RowsAtOnce { train: 1, eval: 1 }, "{all:?}");
            assert_eq!(all.halved(u32::MAX), RowsAtOnce { train: 1, eval: 1 });
        }
        assert_eq!(RowsAtOnce { train: 5, eval: 64 }.halved(1), RowsAtOnce { train: 2, eval: 32 });
    }

    #[test]
    fn arguments_say_how_many_rows_there_are_and_whether_they_may_be_halved() {
        assert_eq!(rows(json!({})), Some(RowsAtOnce { train: 8, eval: 64 }));
        assert_eq!(
            rows(json!({"batch_size": 12, "per_device_eval_batch_size": 3})),
            Some(RowsAtOnce { train: 12, eval: 3 })
        );
        assert_eq!(rows(json!({"auto_find_batch_size": true})), rows(json!({})));
        assert_eq!(rows(json!({"auto_find_batch_size": false})), None);
        assert_eq!(rows(json!({"batch_size": -1})), None);
    }
}
