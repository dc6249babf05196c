//! AdamW and SGD with momentum, after PyTorch, and clipping of the global gradient norm.

use burn::tensor::{Device, Tensor};

use super::TrainerError;
use super::fused::{self, Entries};
use super::gradients::{Gradient, Gradients};
use super::parameters::{Parameter, Parameters, Values, host, tensor};
use crate::arguments::{Optim, TrainerArguments};

/// An optimiser's settings and its state; the number of steps made is the caller's.
pub(super) struct Optimiser {
    rule: Rule,
    weight_decay: f64,
    pub(super) place: Place,
    device: Device,
    /// For each table whose gradients come as entries: which entries have ever had one, as their moments say.
    live: Vec<Option<Vec<bool>>>,
    /// Names and values of the state, one tensor for each parameter that is not frozen.
    pub(super) state: Vec<(&'static str, Values)>,
}

/// Where the arithmetic of a step happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In one pass over the numbers, which are the tensors' own: reading them as from any device is 1 % of a step of a tiny model.
    Own,
    /// In one pass over the numbers, read and written as on any device that has them in this process's memory.
    Host,
    /// By tensor operations.
    Device,
}

enum Rule {
    AdamW { beta1: f64, beta2: f64, epsilon: f64 },
    Sgd { momentum: f64 },
}

/// The scalars of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The learning rate.
    pub(super) rate: f64,
    /// The step's number, counted from 1.
    pub(super) step: u64,
}

/// What gradients are multiplied with, see [`clip_factor`].
pub(super) enum Clip {
    /// A number.
    By(f64),
    /// One that the device knows, `[1, 1]`.
    OnDevice(Box<Tensor<2>>),
}

impl Clip {
    fn number(&self) -> Result<f64, TrainerError> {
        Ok(match self {
            Self::By(factor) => *factor,
            Self::OnDevice(factor) => f64::from(host(*factor.clone())?[0]),
        })
    }

    /// The factor of [`clip_factor`] for gradients whose squares add up to `squares [1]` on a device.
    pub(super) fn on_device(squares: Tensor<1>, max_norm: f64) -> Self {
        if max_norm == 0.0 {
            return Self::By(1.0);
        }
        let norm = squares.sqrt().reshape([1, 1]);
        Self::OnDevice(Box::new(((norm + 1e-6).recip() * max_norm).clamp_max(1.0)))
    }
}

impl Optimiser {
    /// A fresh optimiser for `parameters`.
    pub(super) fn new(arguments: &TrainerArguments, parameters: &Parameters, device: &Device, place: Place) -> Self {
        let (rule, names) = match arguments.optim {
            Optim::AdamW => {
                let rule = Rule::AdamW { beta1: arguments.adam_beta1, beta2: arguments.adam_beta2, epsilon: arguments.adam_epsilon };
                (rule, vec!["exp_avg", "exp_avg_sq"])
            }
            Optim::Sgd => (Rule::Sgd { momentum: arguments.momentum }, vec!["momentum_buffer"]),
        };
        let state = names.into_iter().map(|name| (name, parameters.learnt().zeros(device))).collect();
        let (live, device) = (vec![None; parameters.iter().len()], device.clone());
        Self { rule, weight_decay: arguments.weight_decay, place, device, live, state }
    }

    /// Makes a step with these gradients.
    pub(super) fn step(
        &mut self,
        parameters: &Parameters,
        values: &mut Values,
        gradients: Gradients,
        pace: Pace,
        clip: &Clip,
    ) -> Result<(), TrainerError> {
        let mut state: Vec<_> = self.state.iter_mut().map(|(_, values)| std::mem::take(&mut values.0).into_iter()).collect();
        let old = std::mem::take(&mut values.0);
        // Values and moments are moved, not cloned, so that they are updated in place.
        for (((parameter, value), gradient), live) in parameters.iter().zip(old).zip(gradients.0).zip(&mut self.live) {
            let Some(share) = parameter.rate else {
                values.0.push(value);
                continue;
            };
            let pace = Pace { rate: pace.rate * share, ..pace };
            let moments = state.iter_mut().map(|values| values.next().expect("one moment per parameter")).collect();
            let decay = if parameter.decays() { self.weight_decay } else { 0.0 };
            let (value, moments) = match self.place {
                Place::Own | Place::Host => {
                    let scalars = (pace, decay, clip.number()?);
                    self.rule.step_on_host(parameter, value, gradient, (moments, live), scalars, (self.place, &self.device))?
                }
                Place::Device => self.rule.step_on_device(value, gradient.whole(parameter, &self.device), moments, (pace, decay, clip)),
            };
            values.0.push(value);
            for ((_, values), moment) in self.state.iter_mut().zip(moments) {
                values.0.push(moment);
            }
        }
        Ok(())
    }
}

/// PyTorch's formulas: `torch/optim/adamw.py`, `_single_tensor_adamw`, and `torch/optim/sgd.py`, `_single_tensor_sgd`.
impl Rule {
    fn step_on_device(
        &self,
        value: Tensor<2>,
        gradient: Tensor<2>,
        moments: Vec<Tensor<2>>,
        (Pace { rate, step }, decay, clip): (Pace, f64, &Clip),
    ) -> (Tensor<2>, Vec<Tensor<2>>) {
        let gradient = match clip {
            Clip::By(factor) if *factor != 1.0 => gradient * *factor,
            Clip::By(_) => gradient,
            Clip::OnDevice(factor) => gradient * *factor.clone(),
        };
        let mut moments = moments.into_iter();
        let mut moment = || moments.next().expect("a rule is given as many moments as it keeps");
        match *self {
            Self::AdamW { beta1, beta2, epsilon } => {
                let mean = moment() * beta1 + gradient.clone() * (1.0 - beta1);
                let square = moment() * beta2 + gradient.square() * (1.0 - beta2);
                let size = square.clone().sqrt() / correction(beta2, step).sqrt() + epsilon;
                let value = if decay > 0.0 { value * (1.0 - rate * decay) } else { value };
                (value - mean.clone() / size * (rate / correction(beta1, step)), vec![mean, square])
            }
            Self::Sgd { momentum } => {
                let gradient = if decay > 0.0 { gradient + value.clone() * decay } else { gradient };
                let buffer = moment() * momentum + gradient;
                (value - buffer.clone() * rate, vec![buffer])
            }
        }
    }

    fn step_on_host(
        &self,
        parameter: &Parameter,
        value: Tensor<2>,
        gradient: Gradient,
        (moments, live): (Vec<Tensor<2>>, &mut Option<Vec<bool>>),
        (Pace { rate, step }, decay, clip): (Pace, f64, f64),
        (place, device): (Place, &Device),
    ) -> Result<(Tensor<2>, Vec<Tensor<2>>), TrainerError> {
        let own = place == Place::Own;
        let take = |tensor| if own { Ok(fused::numbers_of(tensor).expect("tensors of such a place lend their numbers")) } else { host(tensor) };
        let mut value = take(value)?;
        let mut moments = moments.into_iter().map(take).collect::<Result<Vec<_>, _>>()?;
        match (self, &mut moments[..]) {
            (Self::AdamW { beta1, beta2, epsilon }, [mean, square]) => {
                let scalars = fused::AdamW {
                    clip: single(clip),
                    mean: [*beta1, 1.0 - beta1].map(single),
                    square: [*beta2, 1.0 - beta2].map(single),
                    scale: single(1.0 / correction(*beta2, step).sqrt()),
                    epsilon: single(*epsilon),
                    shrink: single(1.0 - rate * decay),
                    rate: single(rate / correction(*beta1, step)),
                };
                match gradient {
                    Gradient::Whole(gradient) => {
                        *live = None;
                        fused::adamw(&mut value, &take(gradient)?, mean, square, scalars);
                    }
                    Gradient::Entries(entries) => {
                        let width = parameter.shape[1];
                        let live = live.get_or_insert_with(|| moved(width, mean, square));
                        step_entries(&mut value, &entries, [mean, square], scalars, live);
                    }
                    Gradient::Absent => fused::adamw(&mut value, &vec![0.0; mean.len()], mean, square, scalars),
                }
            }
            (Self::Sgd { momentum }, [buffer]) => {
                let [clip, momentum, decay, rate] = [clip, *momentum, decay, rate].map(single);
                fused::sgd(&mut value, &take(gradient.whole(parameter, device))?, buffer, clip, momentum, decay, rate);
            }
            _ => unreachable!("a rule is given as many moments as it keeps"),
        }
        let shape = parameter.shape;
        let back = |numbers| if own { fused::tensor_of(numbers, shape) } else { tensor(numbers, shape, device) };
        Ok((back(value), moments.into_iter().map(back).collect()))
    }
}

/// Which entries of a table have moments.
fn moved(width: usize, mean: &[f32], square: &[f32]) -> Vec<bool> {
    let some = |numbers: &[f32]| numbers.iter().any(|number| *number != 0.0);
    mean.chunks_exact(width).zip(square.chunks_exact(width)).map(|(mean, square)| some(mean) || some(square)).collect()
}

/// AdamW's step where only some entries have a gradient: those that never had one have moments of 0, and would only decay. The numbers are
/// those of a step with a whole gradient.
fn step_entries(values: &mut [f32], entries: &Entries, [mean, square]: [&mut Vec<f32>; 2], scalars: fused::AdamW, live: &mut [bool]) {
    let width = values.len() / live.len().max(1);
    let none = vec![0.0; width];
    let mut found = entries.iter().peekable();
    let rows = values.chunks_exact_mut(width).zip(mean.chunks_exact_mut(width)).zip(square.chunks_exact_mut(width)).zip(live);
    for (entry, (((values, mean), square), live)) in (0..).zip(rows) {
        let gradient = found.next_if(|(id, _)| *id == entry).map(|(_, numbers)| numbers);
        *live |= gradient.is_some();
        if *live {
            fused::adamw(values, gradient.unwrap_or(&none), mean, square, scalars);
        } else if scalars.shrink < 1.0 {
            values.iter_mut().for_each(|value| *value *= scalars.shrink);
        }
    }
}

/// What divides a moment that began at 0.
fn correction(beta: f64, step: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "step counts are far below 2^53")]
    let step = step as f64;
    1.0 - beta.powf(step)
}

fn single(number: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let number = number as f32;
    number
}

/// What scales gradients of norm `norm` down to `max_norm`, as `torch.nn.utils.clip_grad_norm_` does; 0 leaves them.
pub(super) fn clip_factor(norm: f64, max_norm: f64) -> f64 {
    if max_norm == 0.0 { 1.0 } else { (max_norm / (norm + 1e-6)).min(1.0) }
}
