//! AdamW and SGD with momentum, after PyTorch, and clipping of the global gradient norm.

use burn::tensor::{Device, Tensor};

use super::TrainerError;
use super::parameters::{Parameter, Parameters, Values, host};
use crate::arguments::{Optim, TrainerArguments};

/// An optimiser's settings and its state; the number of steps made is the caller's.
pub(super) struct Optimiser {
    rule: Rule,
    weight_decay: f64,
    /// Names and values of the state, one tensor per parameter each.
    pub(super) state: Vec<(&'static str, Values)>,
}

enum Rule {
    AdamW { beta1: f64, beta2: f64, epsilon: f64 },
    Sgd { momentum: f64 },
}

impl Optimiser {
    /// A fresh optimiser for `parameters`.
    pub(super) fn new(arguments: &TrainerArguments, parameters: &Parameters, device: &Device) -> Self {
        let (rule, names) = match arguments.optim {
            Optim::AdamW => {
                let rule = Rule::AdamW { beta1: arguments.adam_beta1, beta2: arguments.adam_beta2, epsilon: arguments.adam_epsilon };
                (rule, vec!["exp_avg", "exp_avg_sq"])
            }
            Optim::Sgd => (Rule::Sgd { momentum: arguments.momentum }, vec!["momentum_buffer"]),
        };
        let state = names.into_iter().map(|name| (name, parameters.zeros(device))).collect();
        Self { rule, weight_decay: arguments.weight_decay, state }
    }

    /// Makes step number `step` (counted from 1) with these gradients and learning rate.
    pub(super) fn step(&mut self, parameters: &Parameters, values: &mut Values, gradients: Values, learning_rate: f64, step: u64) {
        let mut state: Vec<_> = self.state.iter_mut().map(|(_, values)| std::mem::take(&mut values.0).into_iter()).collect();
        let mut next: Vec<Vec<Tensor<2>>> = state.iter().map(|values| Vec::with_capacity(values.len())).collect();
        let old = std::mem::take(&mut values.0);
        // Values and moments are moved, not cloned, so that the backend may update them in place.
        for ((parameter, value), gradient) in parameters.iter().zip(old).zip(gradients.0) {
            let moments = state.iter_mut().map(|values| values.next().expect("one moment per parameter")).collect();
            let (value, moments) = self.rule.step(parameter, value, gradient, moments, learning_rate, self.weight_decay, step);
            values.0.push(value);
            for (next, moment) in next.iter_mut().zip(moments) {
                next.push(moment);
            }
        }
        drop(state);
        for ((_, values), next) in self.state.iter_mut().zip(next) {
            values.0 = next;
        }
    }
}

impl Rule {
    /// One parameter's new value and moments. PyTorch's formulas: `torch/optim/adamw.py`, `_single_tensor_adamw`, and `sgd.py`.
    #[expect(clippy::too_many_arguments, reason = "the formula has that many")]
    fn step(
        &self,
        parameter: &Parameter,
        value: Tensor<2>,
        gradient: Tensor<2>,
        moments: Vec<Tensor<2>>,
        rate: f64,
        decay: f64,
        step: u64,
    ) -> (Tensor<2>, Vec<Tensor<2>>) {
        let decay = if parameter.decays() { decay } else { 0.0 };
        let mut moments = moments.into_iter();
        let mut moment = || moments.next().expect("a rule is given as many moments as it keeps");
        match *self {
            Self::AdamW { beta1, beta2, epsilon } => {
                #[expect(clippy::cast_precision_loss, reason = "step counts are far below 2^53")]
                let correction = |beta: f64| 1.0 - beta.powf(step as f64);
                let mean = moment() * beta1 + gradient.clone() * (1.0 - beta1);
                let square = moment() * beta2 + gradient.square() * (1.0 - beta2);
                let size = square.clone().sqrt() / correction(beta2).sqrt() + epsilon;
                let value = if decay > 0.0 { value * (1.0 - rate * decay) } else { value };
                (value - mean.clone() / size * (rate / correction(beta1)), vec![mean, square])
            }
            Self::Sgd { momentum } => {
                let gradient = if decay > 0.0 { gradient + value.clone() * decay } else { gradient };
                let buffer = moment() * momentum + gradient;
                (value - buffer.clone() * rate, vec![buffer])
            }
        }
    }
}

/// The norm of all gradients together, with the loss: one read from the device for both.
pub(super) fn loss_and_norm(loss: Tensor<1>, gradients: &Values) -> Result<(f64, f64), TrainerError> {
    let squares = gradients.0.iter().map(|gradient| gradient.clone().square().sum());
    let numbers = host(Tensor::cat(std::iter::once(loss).chain(squares).collect(), 0))?;
    // Squares are added in f64, so that only a gradient beyond f32 itself counts as infinite.
    let norm = numbers[1..].iter().map(|square| f64::from(*square)).sum::<f64>().sqrt();
    Ok((f64::from(numbers[0]), norm))
}

/// Scales gradients of norm `norm` down to `max_norm`, as `torch.nn.utils.clip_grad_norm_` does; 0 leaves them.
pub(super) fn clip(gradients: Values, norm: f64, max_norm: f64) -> Values {
    let factor = max_norm / (norm + 1e-6);
    if max_norm == 0.0 || factor >= 1.0 {
        return gradients;
    }
    Values(gradients.0.into_iter().map(|gradient| gradient * factor).collect())
}
