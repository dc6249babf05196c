//! Update rules that tensor operations compute on every device: Adafactor, Lion, RMSprop and
//! schedule-free AdamW.

use burn::tensor::Tensor;

use super::super::floats::real;
use super::super::parameters::{Parameter, Role};
use super::bias_correction;
use super::blockwise::{Blockwise, SIGNED, UNSIGNED};

/// Adafactor's ε₁, added to squared gradients: transformers' default.
const ADAFACTOR_EPSILON: f64 = 1e-30;
/// The exponent of Adafactor's decay rate over steps: transformers' `decay_rate`.
const ADAFACTOR_DECAY_RATE: f64 = -0.8;
/// The largest root mean square of an update of Adafactor: transformers' `clip_threshold`.
const ADAFACTOR_CLIP_THRESHOLD: f64 = 1.0;
/// RMSprop's decay rate and ε: PyTorch's defaults.
const RMSPROP_ALPHA: f64 = 0.99;
const RMSPROP_EPSILON: f64 = 1e-8;

/// A kind of state, which decides the parameters that have it and its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum StateShape {
    /// That of the parameter.
    Whole,
    /// A number per row of a matrix, as files hold it.
    Rows,
    /// A number per column of a matrix, as files hold it.
    Columns,
    /// That of the parameter, of biases and norms alone.
    Vectors,
    /// That of the parameter, where states in 8 bits are not worth it: of embeddings, and of
    /// parameters with fewer numbers than this.
    Unquantised(usize),
}

impl StateShape {
    /// Whether `parameter` has this state.
    pub(super) fn is_of(self, parameter: &Parameter) -> bool {
        let is_vector = matches!(parameter.role, Role::Bias | Role::NormScale);
        match self {
            Self::Whole => true,
            Self::Rows | Self::Columns => !is_vector,
            Self::Vectors => is_vector,
            Self::Unquantised(from) => !is_quantised(parameter, from),
        }
    }

    /// The place in files of the state of a `parameter` that has it.
    pub(super) fn layout(self, parameter: &Parameter) -> Parameter {
        let numbers =
            |width: usize| Parameter { shape: [1, width], role: Role::Bias, ..parameter.clone() };
        match (self, &parameter.file_shape()[..]) {
            (Self::Rows, [rows, _]) => numbers(*rows),
            (Self::Columns, [_, columns]) => numbers(*columns),
            _ => parameter.clone(),
        }
    }
}

/// Whether bitsandbytes keeps the states of `parameter` in 8 bits, those from `from` numbers on;
/// transformers' Trainer exempts embeddings.
fn is_quantised(parameter: &Parameter, from: usize) -> bool {
    parameter.role != Role::Embedding && parameter.shape.iter().product::<usize>() >= from
}

/// The moments of AdamW in 8 bits, initially 0, if those of `parameter` are.
pub(super) fn quantised_moments(parameter: &Parameter, from: usize) -> Option<[Blockwise; 2]> {
    let count = parameter.shape.iter().product();
    (parameter.rate.is_some() && is_quantised(parameter, from))
        .then(|| [&*SIGNED, &*UNSIGNED].map(|map| Blockwise::zeros(map, count)))
}

/// What a rule updates a parameter with.
pub(super) struct Update<'a> {
    pub(super) parameter: &'a Parameter,
    pub(super) value: Tensor<2>,
    /// The clipped gradient.
    pub(super) gradient: Tensor<2>,
    pub(super) rate: f64,
    /// Weight decay; 0 for parameters that do not decay.
    pub(super) decay: f64,
    /// The step's number, counted from 1.
    pub(super) step: u64,
}

impl Update<'_> {
    /// Source: transformers' `Adafactor.step` with `scale_parameter=False, relative_step=False`.
    pub(super) fn adafactor(self, moments: Vec<Tensor<2>>) -> (Tensor<2>, Vec<Tensor<2>>) {
        let Self { parameter, value, gradient, rate, decay, step } = self;
        // Rows and columns are those of files, which PyTorch computes with.
        let turned = |one: Tensor<2>| {
            if parameter.role.is_transposed() { one.transpose() } else { one }
        };
        let gradient = turned(gradient);
        let keep = 1.0 - real(step).powf(ADAFACTOR_DECAY_RATE);
        let average = |old: Tensor<2>, new: Tensor<2>| old * keep + new * (1.0 - keep);
        let squares = gradient.clone().square() + ADAFACTOR_EPSILON;
        let [rows, columns] = gradient.dims();
        let mut moments = moments.into_iter();
        let mut moment = || moments.next().expect("one moment per kind of state");
        let (scale, moments) = if parameter.file_shape().len() == 1 {
            let square = average(moment(), squares);
            (square.clone().sqrt().recip(), vec![square])
        } else {
            let row = average(moment(), squares.clone().mean_dim(1).reshape([1, rows]));
            let column = average(moment(), squares.mean_dim(0).reshape([1, columns]));
            let row_factor = (row.clone() / row.clone().mean_dim(1)).sqrt().recip();
            let column_factor = column.clone().sqrt().recip();
            (row_factor.reshape([rows, 1]) * column_factor, vec![row, column])
        };
        let update = scale * gradient;
        let size = update.clone().square().mean().sqrt().reshape([1, 1]);
        let update = update / (size / ADAFACTOR_CLIP_THRESHOLD).clamp_min(1.0);
        (decayed(value, rate, decay) - turned(update) * rate, moments)
    }

    /// Source: `lion-pytorch` and bitsandbytes' `_optimizer_update_32bit_cpu`.
    pub(super) fn lion(
        self,
        [beta1, beta2]: [f64; 2],
        moment: Tensor<2>,
    ) -> (Tensor<2>, Vec<Tensor<2>>) {
        let Self { value, gradient, rate, decay, .. } = self;
        let direction = moment.clone() * beta1 + gradient.clone() * (1.0 - beta1);
        let value = decayed(value, rate, decay) - direction.sign() * rate;
        (value, vec![moment * beta2 + gradient * (1.0 - beta2)])
    }

    /// Source: `torch/optim/rmsprop.py`, `_single_tensor_rmsprop` with its defaults.
    pub(super) fn rmsprop(self, square: Tensor<2>) -> (Tensor<2>, Vec<Tensor<2>>) {
        let Self { value, gradient, rate, decay, .. } = self;
        let gradient = if decay > 0.0 { gradient + value.clone() * decay } else { gradient };
        let square = square * RMSPROP_ALPHA + gradient.clone().square() * (1.0 - RMSPROP_ALPHA);
        let size = square.clone().sqrt() + RMSPROP_EPSILON;
        (value - gradient / size * rate, vec![square])
    }
}

/// The numbers of a step of schedule-free AdamW that all parameters share.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScheduleFreeStep {
    pub(super) beta1: f64,
    pub(super) beta2: f64,
    pub(super) epsilon: f64,
    /// The weight of this step in the average, `ckp1`.
    pub(super) weight: f64,
}

impl Update<'_> {
    /// `value` is y, where gradients are computed; z and the second moment are the state.
    ///
    /// Source: `schedulefree/adamw_schedulefree.py`, `AdamWScheduleFree.step`.
    pub(super) fn schedule_free_adamw(
        self,
        ScheduleFreeStep { beta1, beta2, epsilon, weight }: ScheduleFreeStep,
        z: Tensor<2>,
        square: Tensor<2>,
    ) -> (Tensor<2>, Vec<Tensor<2>>) {
        let Self { value, gradient, rate, decay, step, .. } = self;
        let square = square * beta2 + gradient.clone().square() * (1.0 - beta2);
        let size = (square.clone() / bias_correction(beta2, step)).sqrt() + epsilon;
        let gradient = gradient / size;
        let gradient = if decay > 0.0 { gradient + value.clone() * decay } else { gradient };
        let value = value.clone() + (z.clone() - value) * weight;
        let value = value + gradient.clone() * (rate * (beta1 * (1.0 - weight) - 1.0));
        (value, vec![z - gradient * rate, square])
    }
}

/// `value` after decoupled weight decay.
fn decayed(value: Tensor<2>, rate: f64, decay: f64) -> Tensor<2> {
    if decay > 0.0 { value * (1.0 - rate * decay) } else { value }
}
