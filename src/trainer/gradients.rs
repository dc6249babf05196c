//! Gradients of a model's parameters: whole tensors, or only the entries of tables that a step has looked up.

use burn::tensor::{Device, Tensor};

use super::TrainerError;
use super::fused::{Aside, Entries, lend, squares};
use super::parameters::{Parameter, Parameters, Values, host, tensor};

/// The gradient of one parameter.
#[derive(Debug, Clone)]
pub(super) enum Gradient {
    /// As large as the parameter.
    Whole(Tensor<2>),
    /// Of some entries of a table.
    Entries(Entries),
    /// 0, or of a parameter that is frozen.
    Absent,
}

/// One gradient per parameter.
#[derive(Debug, Clone)]
pub(super) struct Gradients(pub(super) Vec<Gradient>);

/// Most numbers that are joined on a device: 64 MiB.
const JOINED: usize = 1 << 24;

impl From<Values> for Gradients {
    fn from(values: Values) -> Self {
        Self(values.0.into_iter().map(Gradient::Whole).collect())
    }
}

impl Gradients {
    /// Of `loss` by `leaves`, whose lookups left what they took `aside`.
    pub(super) fn of(loss: &Tensor<1>, leaves: &Values, aside: &Aside, device: &Device) -> Result<Self, TrainerError> {
        Ok(Self::with_read(loss, leaves, None, aside, device)?.0)
    }

    /// The same, and the gradient of another leaf, of activations.
    pub(super) fn with_read(
        loss: &Tensor<1>,
        leaves: &Values,
        read: Option<&Tensor<2>>,
        aside: &Aside,
        device: &Device,
    ) -> Result<(Self, Option<Tensor<2>>), TrainerError> {
        let mut gradients = loss.backward();
        let mut left = aside.take();
        let read = read.and_then(|read| read.grad_remove(&mut gradients));
        let gradient = |(place, leaf): (usize, &Tensor<2>)| {
            Ok(match (leaf.grad_remove(&mut gradients), left.remove(&place)) {
                (None, Some(entries)) => Gradient::Entries(entries),
                (Some(whole), None) => Gradient::Whole(whole),
                (Some(whole), Some(entries)) => Gradient::Whole(sum(whole, &entries, device)?),
                (None, None) => Gradient::Absent,
            })
        };
        Ok((Self(leaves.0.iter().enumerate().map(gradient).collect::<Result<_, TrainerError>>()?), read))
    }

    /// The sum of two parts of a step.
    pub(super) fn plus(self, more: Self, device: &Device) -> Result<Self, TrainerError> {
        let both = |(one, other)| {
            Ok(match (one, other) {
                (Gradient::Absent, only) | (only, Gradient::Absent) => only,
                (Gradient::Whole(one), Gradient::Whole(other)) => Gradient::Whole(one + other),
                (Gradient::Entries(one), Gradient::Entries(other)) => Gradient::Entries(one.plus(&other)),
                (Gradient::Whole(whole), Gradient::Entries(entries)) | (Gradient::Entries(entries), Gradient::Whole(whole)) => {
                    Gradient::Whole(sum(whole, &entries, device)?)
                }
            })
        };
        self.0.into_iter().zip(more.0).map(both).collect::<Result<_, TrainerError>>().map(Self)
    }

    /// The loss as a number, and the norm of all gradients together: one read from the device for both.
    pub(super) fn loss_and_norm(&self, loss: Tensor<1>) -> Result<(f64, f64), TrainerError> {
        let here = |gradient: &Gradient| match gradient {
            Gradient::Whole(whole) => lend(whole, squares),
            Gradient::Entries(entries) => Some(squares(entries.numbers())),
            Gradient::Absent => Some(0.0),
        };
        if let Some(squares) = self.0.iter().map(here).sum::<Option<f64>>() {
            return Ok((f64::from(host(loss)?[0]), squares.sqrt()));
        }
        Ok(loss_and_norm_of(&host(self.loss_and_squares(loss))?))
    }

    /// The loss, and the sum of squares of all gradients, `[2]`: nothing is read from the device. Small tensors are joined, since one long row
    /// is added up in fewer turns than many tensors; a large one is a row of its own, which takes no copy.
    pub(super) fn loss_and_squares(&self, loss: Tensor<1>) -> Tensor<1> {
        // Entries are only left aside where numbers are lent.
        let wholes = self.0.iter().filter_map(|gradient| if let Gradient::Whole(whole) = gradient { Some(whole.clone()) } else { None });
        let rows: Vec<Tensor<1>> = wholes.map(|whole| whole.flatten(0, 1)).collect();
        let (large, small): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.dims()[0] > JOINED);
        let mut parts: Vec<Vec<Tensor<1>>> = large.into_iter().map(|row| vec![row]).collect();
        let mut room = 0;
        for row in small {
            let numbers = row.dims()[0];
            match parts.last_mut() {
                Some(part) if numbers <= room => part.push(row),
                _ => {
                    parts.push(vec![row]);
                    room = JOINED;
                }
            }
            room -= numbers;
        }
        let one = |mut part: Vec<Tensor<1>>| if part.len() == 1 { part.swap_remove(0) } else { Tensor::cat(part, 0) };
        let sums = parts.into_iter().map(|part| one(part).square().sum());
        let squares = sums.reduce(|sum, more| sum + more).unwrap_or_else(|| loss.zeros_like());
        Tensor::cat(vec![loss, squares], 0)
    }

    /// The first parameter with a gradient that is not finite.
    pub(super) fn first_not_finite(&self, parameters: &Parameters) -> Result<Option<String>, TrainerError> {
        let finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
        for (parameter, gradient) in parameters.iter().zip(&self.0) {
            let sound = match gradient {
                Gradient::Whole(whole) => finite(&host(whole.clone())?),
                Gradient::Entries(entries) => finite(entries.numbers()),
                Gradient::Absent => true,
            };
            if !sound {
                return Ok(Some(parameter.name.clone()));
            }
        }
        Ok(None)
    }
}

/// The loss, and the norm of all gradients together, of what [`Gradients::loss_and_squares`] gives. A device adds squares in f32: a norm
/// above 1.8e19 counts as infinite.
pub(super) fn loss_and_norm_of(numbers: &[f32]) -> (f64, f64) {
    (f64::from(numbers[0]), f64::from(numbers[1]).sqrt())
}

impl Gradient {
    /// The gradient as large as its parameter.
    pub(super) fn whole(self, parameter: &Parameter, device: &Device) -> Tensor<2> {
        match self {
            Self::Whole(whole) => whole,
            Self::Absent => Tensor::zeros(parameter.shape, device),
            Self::Entries(entries) => {
                let [rows, columns] = parameter.shape;
                let mut numbers = vec![0.0; rows * columns];
                entries.add_to(&mut numbers);
                tensor(numbers, parameter.shape, device)
            }
        }
    }
}

fn sum(whole: Tensor<2>, entries: &Entries, device: &Device) -> Result<Tensor<2>, TrainerError> {
    let shape = whole.dims();
    let mut numbers = host(whole)?;
    entries.add_to(&mut numbers);
    Ok(tensor(numbers, shape, device))
}
