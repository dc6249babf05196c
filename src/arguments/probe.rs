//! Quick looks at a training before it is made.

use serde::{Deserialize, Serialize};

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// The first batch again and again, at the peak learning rate: a model that cannot learn it by heart will not learn more.
    OneBatch {
        /// Optimiser steps.
        steps: u32,
    },
    /// The learning rate rises from step to step, each time by the same factor, until the loss is not finite or four times the best
    /// (Smith 2017, "Cyclical learning rates for training neural networks", section 3.3).
    LearningRates {
        /// That of the first step.
        from: f64,
        /// That of the last.
        to: f64,
        /// Optimiser steps, at least 2.
        steps: u32,
    },
}
