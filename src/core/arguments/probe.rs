//! Diagnostics run before training: overfitting one batch, and the learning-rate range test.

use serde::{Deserialize, Serialize};

/// A diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// Trains on the first batch only, at the peak learning rate: a model that cannot overfit one
    /// batch cannot learn a data set.
    OneBatch {
        /// Optimiser steps.
        steps: u32,
    },
    /// The learning rate grows by a constant factor in each step, until the loss is not finite or
    /// four times the best (Smith 2017, "Cyclical learning rates for training neural networks",
    /// section 3.3).
    LearningRates {
        /// Learning rate of the first step.
        from: f64,
        /// Learning rate of the last step.
        to: f64,
        /// Optimiser steps, at least 2.
        steps: u32,
    },
}
