//! Gradients of a model's parameters, dense or sparse.

use burn::tensor::{Device, Tensor};

use super::TrainerError;
use super::device_kernels;
use super::fused::{SparseGradientSink, SparseRows, sum_of_squares, with_f32_slice};
use super::parameters::{Parameter, Parameters, Values, host, tensor};

/// The gradient of one parameter.
#[derive(Debug, Clone)]
pub(super) enum Gradient {
    /// In the parameter's shape.
    Dense(Tensor<2>),
    /// The rows of an embedding that a step has looked up.
    Sparse(SparseRows),
    /// 0, or that of a frozen parameter.
    Absent,
}

/// One gradient per parameter.
#[derive(Debug, Clone)]
pub(super) struct Gradients(pub(super) Vec<Gradient>);

/// Most elements that are concatenated on a device: 64 MiB.
const CONCAT_LIMIT: usize = 1 << 24;

impl From<Values> for Gradients {
    fn from(values: Values) -> Self {
        Self(values.0.into_iter().map(Gradient::Dense).collect())
    }
}

impl Gradients {
    /// The gradients of `loss` with respect to `leaves`, those in `sparse_gradients` included.
    pub(super) fn of(
        loss: &Tensor<1>,
        leaves: &Values,
        sparse_gradients: &SparseGradientSink,
        device: &Device,
    ) -> Result<Self, TrainerError> {
        Ok(Self::with_input_gradient(loss, leaves, None, sparse_gradients, device)?.0)
    }

    /// The same, and the gradient of `input`.
    pub(super) fn with_input_gradient(
        loss: &Tensor<1>,
        leaves: &Values,
        input: Option<&Tensor<2>>,
        sparse_gradients: &SparseGradientSink,
        device: &Device,
    ) -> Result<(Self, Option<Tensor<2>>), TrainerError> {
        let mut gradients = loss.backward();
        let mut sparse = sparse_gradients.take();
        let input_gradient = input.and_then(|input| input.grad_remove(&mut gradients));
        let gradient = |(index, leaf): (usize, &Tensor<2>)| {
            Ok(match (leaf.grad_remove(&mut gradients), sparse.remove(&index)) {
                (None, Some(sparse)) => Gradient::Sparse(sparse),
                (Some(dense), None) => Gradient::Dense(dense),
                (Some(dense), Some(sparse)) => Gradient::Dense(sum(dense, &sparse, device)?),
                (None, None) => Gradient::Absent,
            })
        };
        Ok((
            Self(leaves.0.iter().enumerate().map(gradient).collect::<Result<_, TrainerError>>()?),
            input_gradient,
        ))
    }

    /// The sum of two contributions to a step.
    pub(super) fn plus(self, more: Self, device: &Device) -> Result<Self, TrainerError> {
        let both = |(one, other)| {
            Ok(match (one, other) {
                (Gradient::Absent, only) | (only, Gradient::Absent) => only,
                (Gradient::Dense(one), Gradient::Dense(other)) => Gradient::Dense(one + other),
                (Gradient::Sparse(one), Gradient::Sparse(other)) => {
                    Gradient::Sparse(one.plus(&other))
                }
                (Gradient::Dense(dense), Gradient::Sparse(sparse))
                | (Gradient::Sparse(sparse), Gradient::Dense(dense)) => {
                    Gradient::Dense(sum(dense, &sparse, device)?)
                }
            })
        };
        self.0.into_iter().zip(more.0).map(both).collect::<Result<_, TrainerError>>().map(Self)
    }

    /// The loss and the norm of all gradients together, with one read from the device for both.
    pub(super) fn loss_and_norm(&self, loss: Tensor<1>) -> Result<(f64, f64), TrainerError> {
        let here = |gradient: &Gradient| match gradient {
            Gradient::Dense(dense) => with_f32_slice(dense, sum_of_squares),
            Gradient::Sparse(sparse) => Some(sum_of_squares(sparse.values())),
            Gradient::Absent => Some(0.0),
        };
        if let Some(squares) = self.0.iter().map(here).sum::<Option<f64>>() {
            return Ok((f64::from(host(loss)?[0]), squares.sqrt()));
        }
        Ok(loss_and_norm_of(&host(self.loss_and_squares(loss))?))
    }

    /// The loss and the sum of squares of all gradients, `[2]`, without a read from the device.
    /// Small tensors are concatenated, since one long row is reduced in fewer kernels than many
    /// tensors; large ones are not, which saves a copy.
    pub(super) fn loss_and_squares(&self, loss: Tensor<1>) -> Tensor<1> {
        // Gradients are only sparse on the CPU.
        let wholes = self.0.iter().filter_map(|gradient| {
            if let Gradient::Dense(dense) = gradient { Some(dense.clone()) } else { None }
        });
        let wholes: Vec<Tensor<2>> = wholes.collect();
        if !wholes.is_empty()
            && let Some(squares) = device_kernels::sum_of_squares(&wholes)
        {
            return Tensor::cat(vec![loss, squares], 0);
        }
        let rows: Vec<Tensor<1>> = wholes.into_iter().map(|dense| dense.flatten(0, 1)).collect();
        let (large, small): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.dims()[0] > CONCAT_LIMIT);
        let mut parts: Vec<Vec<Tensor<1>>> = large.into_iter().map(|row| vec![row]).collect();
        let mut remaining = 0;
        for row in small {
            let elements = row.dims()[0];
            match parts.last_mut() {
                Some(part) if elements <= remaining => part.push(row),
                _ => {
                    parts.push(vec![row]);
                    remaining = CONCAT_LIMIT;
                }
            }
            remaining -= elements;
        }
        let one = |mut part: Vec<Tensor<1>>| {
            if part.len() == 1 { part.swap_remove(0) } else { Tensor::cat(part, 0) }
        };
        let sums = parts.into_iter().map(|part| one(part).square().sum());
        let squares = sums.reduce(|sum, more| sum + more).unwrap_or_else(|| loss.zeros_like());
        Tensor::cat(vec![loss, squares], 0)
    }

    /// The name of the first parameter, from input to output, with a gradient that is not finite.
    pub(super) fn first_non_finite(
        &self,
        parameters: &Parameters,
    ) -> Result<Option<String>, TrainerError> {
        let finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
        for (parameter, gradient) in parameters.iter().zip(&self.0) {
            let is_finite = match gradient {
                Gradient::Dense(dense) => finite(&host(dense.clone())?),
                Gradient::Sparse(sparse) => finite(sparse.values()),
                Gradient::Absent => true,
            };
            if !is_finite {
                return Ok(Some(parameter.name.clone()));
            }
        }
        Ok(None)
    }
}

/// The loss and the norm of all gradients from [`Gradients::loss_and_squares`]. Devices add squares
/// in f32: a norm above 1.8e19 counts as infinite.
pub(super) fn loss_and_norm_of(numbers: &[f32]) -> (f64, f64) {
    (f64::from(numbers[0]), f64::from(numbers[1]).sqrt())
}

impl Gradient {
    /// The gradient in its parameter's shape.
    pub(super) fn into_dense(self, parameter: &Parameter, device: &Device) -> Tensor<2> {
        match self {
            Self::Dense(dense) => dense,
            Self::Absent => Tensor::zeros(parameter.shape, device),
            Self::Sparse(sparse) => {
                let [rows, columns] = parameter.shape;
                let mut numbers = vec![0.0; rows * columns];
                sparse.add_to(&mut numbers);
                tensor(numbers, parameter.shape, device)
            }
        }
    }
}

fn sum(dense: Tensor<2>, sparse: &SparseRows, device: &Device) -> Result<Tensor<2>, TrainerError> {
    let shape = dense.dims();
    let mut numbers = host(dense)?;
    sparse.add_to(&mut numbers);
    Ok(tensor(numbers, shape, device))
}
