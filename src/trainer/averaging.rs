//! Averages of the weights in training, which are evaluated, written as the model of checkpoints,
//! and exported instead of them.

use super::parameters::{Parameters, Values};

/// An exponential moving average of the trainable parameters, from their initial values on: timm's
/// `ModelEmaV3` without warm-up.
pub(super) struct ExponentialAverage {
    decay: f64,
    /// One tensor for each trainable parameter.
    averages: Values,
}

impl ExponentialAverage {
    /// The average that has these `values` of all parameters.
    pub(super) fn new(decay: f64, parameters: &Parameters, values: &Values) -> Self {
        Self { decay, averages: trainable(parameters, values) }
    }

    /// Takes in the values after a step.
    pub(super) fn update(&mut self, parameters: &Parameters, values: &Values) {
        let old = std::mem::take(&mut self.averages.0);
        self.averages.0 = old
            .into_iter()
            .zip(trainable(parameters, values).0)
            .map(|(average, value)| average * self.decay + value * (1.0 - self.decay))
            .collect();
    }

    /// `values` of all parameters with the averages of trainable ones.
    pub(super) fn averaged(&self, parameters: &Parameters, values: &Values) -> Values {
        with_trainable(parameters, values, &self.averages)
    }
}

/// The values of the trainable parameters among `values` of all.
pub(super) fn trainable(parameters: &Parameters, values: &Values) -> Values {
    let chosen = parameters.iter().zip(&values.0).filter(|(one, _)| one.rate.is_some());
    Values(chosen.map(|(_, value)| value.clone()).collect())
}

/// `values` of all parameters with `trainable` for those that are trainable.
pub(super) fn with_trainable(
    parameters: &Parameters,
    values: &Values,
    trainable: &Values,
) -> Values {
    let mut trainable = trainable.0.iter();
    let chosen = parameters.iter().zip(&values.0).map(|(parameter, value)| {
        let replaced = parameter.rate.and_then(|_| trainable.next());
        replaced.unwrap_or(value).clone()
    });
    Values(chosen.collect())
}
