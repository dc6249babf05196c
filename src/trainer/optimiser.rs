//! Optimisers under the names of transformers' Trainer, and clipping of the global gradient norm.

mod blockwise;
mod rules;

use burn::tensor::{Device, Tensor};
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use super::TrainerError;
use super::averaging::{trainable, with_trainable};
use super::device_kernels;
use super::floats::{as_f32, real};
use super::fused::{self, SparseRows};
use super::gradients::{Gradient, Gradients};
use super::parameters::{Parameter, Parameters, Values, host, tensor};
use super::tensor_file::TensorEntry;
use blockwise::{BLOCK, Blockwise, MIN_QUANTISED};
use hpsearch_core::arguments::{Optim, TrainerArguments};
use rules::{ScheduleFreeStep, StateShape, Update, quantised_moments};

/// An optimiser's settings and state; the caller counts the steps.
pub(super) struct Optimiser {
    rule: UpdateRule,
    weight_decay: f64,
    pub(super) placement: Placement,
    device: Device,
    /// For each table with sparse gradients: which rows have ever had a gradient, according to
    /// their moments.
    touched: Vec<Option<Vec<bool>>>,
    /// For each parameter: its moments in 8 bits, in main memory, if it has such.
    quantised: Vec<Option<[Blockwise; 2]>>,
    /// The running sums of a schedule-free optimiser.
    pub(super) schedule_free: Option<ScheduleFree>,
    /// The kinds of state (`exp_avg`).
    pub(super) state: Vec<OptimiserState>,
}

/// A kind of state.
pub(super) struct OptimiserState {
    /// PyTorch's name.
    pub(super) name: &'static str,
    shape: StateShape,
    /// The trainable parameters that have it, with the shapes of their states.
    pub(super) layout: Parameters,
    /// One tensor for each of them.
    pub(super) values: Values,
}

/// How a step is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// By a fused CPU kernel on the tensors' own memory: copying it is 1 % of a step of a tiny
    /// model.
    InPlace,
    /// By a fused CPU kernel on a copy.
    Host,
    /// By tensor operations on the device.
    Device,
}

enum UpdateRule {
    AdamW { beta1: f64, beta2: f64, epsilon: f64 },
    Sgd { momentum: f64 },
    Adafactor,
    Lion { beta1: f64, beta2: f64 },
    RmsProp,
    ScheduleFreeAdamW { beta1: f64, beta2: f64, epsilon: f64 },
}

/// The running sums of a schedule-free optimiser.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleFree {
    /// The sum of the weights of all steps; 0 before the first.
    weight_sum: f64,
    /// The greatest learning rate of a step.
    lr_max: f64,
}

impl ScheduleFree {
    /// The weight of a step in the average of all: its squared learning rate, which is
    /// `weight_lr_power = 2`, over the sum of all.
    fn weigh(&mut self, learning_rate: f64) -> f64 {
        self.lr_max = self.lr_max.max(learning_rate);
        let weight = self.lr_max.powi(2);
        self.weight_sum += weight;
        if self.weight_sum > 0.0 { weight / self.weight_sum } else { 0.0 }
    }
}

/// The scalars of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepScalars {
    pub(super) learning_rate: f64,
    /// The step's number, counted from 1.
    pub(super) step: u64,
    /// The step's weight in a schedule-free optimiser's average; set by [`Optimiser::step`].
    weight: f64,
}

impl StepScalars {
    /// The scalars of step `step`, counted from 1.
    pub(super) fn new(learning_rate: f64, step: u64) -> Self {
        Self { learning_rate, step, weight: 0.0 }
    }
}

/// The factor on gradients, see [`clip_coefficient`].
pub(super) enum GradientClip {
    /// Known on the host.
    By(f64),
    /// Still on the device, `[1, 1]`.
    OnDevice(Box<Tensor<2>>),
}

impl GradientClip {
    fn on_host(&self) -> Result<f64, TrainerError> {
        Ok(match self {
            Self::By(factor) => *factor,
            Self::OnDevice(factor) => f64::from(host(*factor.clone())?[0]),
        })
    }

    /// The factor as a tensor, `[1, 1]`.
    fn to_device(&self, device: &Device) -> Tensor<2> {
        match self {
            Self::By(factor) => Tensor::full([1, 1], *factor, device),
            Self::OnDevice(factor) => *factor.clone(),
        }
    }

    /// [`clip_coefficient`] for gradients with the sum of squares `squares`, `[1]`, computed on
    /// their device.
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
    pub(super) fn new(
        arguments: &TrainerArguments,
        parameters: &Parameters,
        device: &Device,
        placement: Placement,
    ) -> Self {
        Self::quantising(arguments, parameters, device, placement, MIN_QUANTISED)
    }

    /// The same with a size from which on states in 8 bits are used, if the optimiser has such.
    pub(super) fn quantising(
        arguments: &TrainerArguments,
        parameters: &Parameters,
        device: &Device,
        placement: Placement,
        from: usize,
    ) -> Self {
        let (beta1, beta2) = (arguments.adam_beta1, arguments.adam_beta2);
        let whole = |name| (name, StateShape::Whole);
        let (rule, kinds) = match arguments.optim {
            Optim::AdamW => {
                let rule = UpdateRule::AdamW { beta1, beta2, epsilon: arguments.adam_epsilon };
                (rule, vec![whole("exp_avg"), whole("exp_avg_sq")])
            }
            Optim::Sgd => {
                let rule = UpdateRule::Sgd { momentum: arguments.momentum };
                (rule, vec![whole("momentum_buffer")])
            }
            Optim::Adafactor => {
                let factored = [
                    ("exp_avg_sq_row", StateShape::Rows),
                    ("exp_avg_sq_col", StateShape::Columns),
                    ("exp_avg_sq", StateShape::Vectors),
                ];
                (UpdateRule::Adafactor, factored.to_vec())
            }
            Optim::Lion => (UpdateRule::Lion { beta1, beta2 }, vec![whole("exp_avg")]),
            Optim::AdamW8Bit => {
                let rule = UpdateRule::AdamW { beta1, beta2, epsilon: arguments.adam_epsilon };
                let shape = StateShape::Unquantised(from);
                (rule, vec![("exp_avg", shape), ("exp_avg_sq", shape)])
            }
            Optim::RmsProp => (UpdateRule::RmsProp, vec![whole("square_avg")]),
            Optim::ScheduleFreeAdamW => {
                let epsilon = arguments.adam_epsilon;
                let rule = UpdateRule::ScheduleFreeAdamW { beta1, beta2, epsilon };
                (rule, vec![whole("z"), whole("exp_avg_sq")])
            }
        };
        let state = kinds
            .into_iter()
            .map(|(name, shape)| {
                let mut layout = Parameters::default();
                for one in parameters.trainable().iter().filter(|one| shape.is_of(one)) {
                    layout.append(shape.layout(one));
                }
                OptimiserState { name, shape, values: layout.zeros(device), layout }
            })
            .collect();
        let in_8_bits = arguments.optim == Optim::AdamW8Bit;
        let quantised = parameters
            .iter()
            .map(|one| in_8_bits.then(|| quantised_moments(one, from)).flatten())
            .collect();
        let (touched, device) = (vec![None; parameters.iter().len()], device.clone());
        let schedule_free =
            (arguments.optim == Optim::ScheduleFreeAdamW).then(ScheduleFree::default);
        let weight_decay = arguments.weight_decay;
        Self { rule, weight_decay, placement, device, touched, quantised, schedule_free, state }
    }

    /// The states in 8 bits as entries of a file.
    pub(super) fn quantised_entries(&self, parameters: &Parameters) -> Vec<TensorEntry<'_>> {
        let states = parameters.iter().zip(&self.quantised);
        let entries = states.flat_map(|(parameter, states)| {
            let states = (1..).zip(states.iter().flatten());
            states.flat_map(|(number, state)| state.to_entries(number, parameter))
        });
        entries.collect()
    }

    /// Restores them from the bytes that `read` returns for a name, a dtype and a shape.
    pub(super) fn restore_quantised<E>(
        &mut self,
        parameters: &Parameters,
        mut read: impl FnMut(&str, Dtype, &[usize]) -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        for (parameter, states) in parameters.iter().zip(&mut self.quantised) {
            for (number, state) in (1..).zip(states.iter_mut().flatten()) {
                state.restore(number, parameter, &mut read)?;
            }
        }
        Ok(())
    }

    /// The averages that a schedule-free optimiser trains for, if it is one: x of its y, `values`.
    pub(super) fn averaged(&self, parameters: &Parameters, values: &Values) -> Option<Values> {
        let sums = self.schedule_free?;
        let UpdateRule::ScheduleFreeAdamW { beta1, .. } = self.rule else { return None };
        if sums.weight_sum == 0.0 {
            return Some(values.clone());
        }
        let average =
            |(y, z): (Tensor<2>, &Tensor<2>)| y.clone() + (z.clone() - y) * (1.0 - 1.0 / beta1);
        let averages = trainable(parameters, values).0.into_iter().zip(&self.state[0].values.0);
        let averages = Values(averages.map(average).collect());
        Some(with_trainable(parameters, values, &averages))
    }

    /// Makes a step.
    pub(super) fn step(
        &mut self,
        parameters: &Parameters,
        values: &mut Values,
        gradients: Gradients,
        scalars: StepScalars,
        clip: &GradientClip,
    ) -> Result<(), TrainerError> {
        if self.placement == Placement::Device
            && self.adamw_by_kernels(parameters, values, &gradients, scalars, clip)
        {
            return Ok(());
        }
        let mut weight = 0.0;
        if let Some(sums) = &mut self.schedule_free {
            if sums.weight_sum == 0.0 {
                self.state[0].values = trainable(parameters, values);
            }
            weight = sums.weigh(scalars.learning_rate);
        }
        let mut state: Vec<_> = self
            .state
            .iter_mut()
            .map(|state| (state.shape, std::mem::take(&mut state.values.0).into_iter()))
            .collect();
        let old = std::mem::take(&mut values.0);
        let clip_on_device = (self.placement == Placement::Device || !self.rule.has_kernel())
            .then(|| clip.to_device(&self.device));
        // Values and moments are moved, not cloned, so that they are updated in place.
        for ((((parameter, value), gradient), touched), quantised) in parameters
            .iter()
            .zip(old)
            .zip(gradients.0)
            .zip(&mut self.touched)
            .zip(&mut self.quantised)
        {
            let Some(share) = parameter.rate else {
                values.0.push(value);
                continue;
            };
            let learning_rate = scalars.learning_rate * share;
            let scalars = StepScalars { learning_rate, weight, ..scalars };
            let moments = state
                .iter_mut()
                .filter(|(shape, _)| shape.is_of(parameter))
                .map(|(_, values)| values.next().expect("one moment per parameter"))
                .collect();
            let decay = if parameter.decays() { self.weight_decay } else { 0.0 };
            if let Some(states) = quantised {
                let gradient = gradient.into_dense(parameter, &self.device);
                values.0.push(self.rule.step_quantised(
                    parameter,
                    (value, gradient),
                    states,
                    (scalars, decay, clip.on_host()?),
                    &self.device,
                )?);
                continue;
            }
            let (value, moments) = match &clip_on_device {
                None => {
                    let scalars = (scalars, decay, clip.on_host()?);
                    self.rule.step_on_host(
                        parameter,
                        value,
                        gradient,
                        (moments, touched),
                        scalars,
                        (self.placement, &self.device),
                    )?
                }
                Some(clip) => self.rule.step_on_device(
                    parameter,
                    value,
                    gradient.into_dense(parameter, &self.device),
                    moments,
                    (scalars, decay, clip),
                ),
            };
            values.0.push(value);
            let kept = self.state.iter_mut().filter(|one| one.shape.is_of(parameter));
            for (state, moment) in kept.zip(moments) {
                state.values.0.push(moment);
            }
        }
        Ok(())
    }

    /// AdamW on a GPU by a few kernels for all parameters; `false`, and nothing is done, where
    /// there are none.
    fn adamw_by_kernels(
        &mut self,
        parameters: &Parameters,
        values: &mut Values,
        gradients: &Gradients,
        StepScalars { learning_rate, step, .. }: StepScalars,
        clip: &GradientClip,
    ) -> bool {
        let UpdateRule::AdamW { beta1, beta2, epsilon } = self.rule else { return false };
        // Those have no tensors.
        if self.quantised.iter().any(Option::is_some) {
            return false;
        }
        let [OptimiserState { values: means, .. }, OptimiserState { values: squares, .. }] =
            &mut self.state[..]
        else {
            return false;
        };
        let trained: Vec<_> = (0..)
            .zip(parameters.iter())
            .filter_map(|(index, parameter)| Some((index, parameter, parameter.rate?)))
            .collect();
        let mut inputs = Vec::with_capacity(trained.len());
        let dense: Vec<Tensor<2>> = (trained.iter())
            .map(|&(index, parameter, _): &(usize, _, _)| {
                gradients.0[index].clone().into_dense(parameter, &self.device)
            })
            .collect();
        for ((&(index, parameter, share), gradient), (mean, square)) in
            trained.iter().zip(&dense).zip(means.0.iter().zip(&squares.0))
        {
            let rate = learning_rate * share;
            let decay = if parameter.decays() { self.weight_decay } else { 0.0 };
            let scalars = adamw_scalars([beta1, beta2, epsilon], (rate, step), decay, 1.0);
            inputs.push(([&values.0[index], gradient, mean, square], scalars));
        }
        let Some(results) = device_kernels::adamw(&inputs, &clip.to_device(&self.device)) else {
            return false;
        };
        for (((index, ..), [value, mean, square]), moments) in
            trained.into_iter().zip(results).zip(means.0.iter_mut().zip(&mut squares.0))
        {
            values.0[index] = value;
            (*moments.0, *moments.1) = (mean, square);
        }
        true
    }
}

/// PyTorch's formulas: `torch/optim/adamw.py`, `_single_tensor_adamw`, and `torch/optim/sgd.py`,
/// `_single_tensor_sgd`.
impl UpdateRule {
    /// Whether a fused CPU kernel computes it.
    fn has_kernel(&self) -> bool {
        matches!(self, Self::AdamW { .. } | Self::Sgd { .. })
    }

    fn step_on_device(
        &self,
        parameter: &Parameter,
        value: Tensor<2>,
        gradient: Tensor<2>,
        moments: Vec<Tensor<2>>,
        (scalars, decay, clip): (StepScalars, f64, &Tensor<2>),
    ) -> (Tensor<2>, Vec<Tensor<2>>) {
        let StepScalars { learning_rate: rate, step, weight } = scalars;
        let gradient = gradient * clip.clone();
        let mut moments = moments.into_iter();
        let mut moment = || moments.next().expect("one moment per kind of state");
        match *self {
            Self::AdamW { beta1, beta2, epsilon } => {
                let mean = moment() * beta1 + gradient.clone() * (1.0 - beta1);
                let square = moment() * beta2 + gradient.square() * (1.0 - beta2);
                let size = square.clone().sqrt() / bias_correction(beta2, step).sqrt() + epsilon;
                let value = if decay > 0.0 { value * (1.0 - rate * decay) } else { value };
                (
                    value - mean.clone() / size * (rate / bias_correction(beta1, step)),
                    vec![mean, square],
                )
            }
            Self::Sgd { momentum } => {
                let gradient =
                    if decay > 0.0 { gradient + value.clone() * decay } else { gradient };
                let buffer = moment() * momentum + gradient;
                (value - buffer.clone() * rate, vec![buffer])
            }
            Self::Adafactor
            | Self::Lion { .. }
            | Self::RmsProp
            | Self::ScheduleFreeAdamW { .. } => {
                let update = Update { parameter, value, gradient, rate, decay, step };
                match *self {
                    Self::Lion { beta1, beta2 } => update.lion([beta1, beta2], moment()),
                    Self::RmsProp => update.rmsprop(moment()),
                    Self::ScheduleFreeAdamW { beta1, beta2, epsilon } => {
                        let step = ScheduleFreeStep { beta1, beta2, epsilon, weight };
                        update.schedule_free_adamw(step, moment(), moment())
                    }
                    _ => update.adafactor(moments.collect()),
                }
            }
        }
    }

    /// AdamW's step with moments in 8 bits: in the order of files, in which bitsandbytes lays its
    /// blocks, and in main memory.
    fn step_quantised(
        &self,
        parameter: &Parameter,
        (value, gradient): (Tensor<2>, Tensor<2>),
        [mean, square]: &mut [Blockwise; 2],
        (scalars, decay, clip): (StepScalars, f64, f64),
        device: &Device,
    ) -> Result<Tensor<2>, TrainerError> {
        let Self::AdamW { beta1, beta2, epsilon } = *self else {
            unreachable!("only AdamW has states in 8 bits")
        };
        let StepScalars { learning_rate: rate, step, .. } = scalars;
        let scalars = adamw_scalars([beta1, beta2, epsilon], (rate, step), decay, clip);
        let turned = |one: Tensor<2>| {
            host(if parameter.role.is_transposed() { one.transpose() } else { one })
        };
        let (mut values, gradients) = (turned(value)?, turned(gradient)?);
        let blocks = values.chunks_mut(BLOCK).zip(gradients.chunks(BLOCK)).enumerate();
        for (block, (values, gradients)) in blocks {
            let (mut means, mut squares) = (mean.block(block), square.block(block));
            fused::adamw(values, gradients, &mut means, &mut squares, scalars);
            mean.set_block(block, &means);
            square.set_block(block, &squares);
        }
        Ok(parameter.value_in_memory_order(values, device))
    }

    fn step_on_host(
        &self,
        parameter: &Parameter,
        value: Tensor<2>,
        gradient: Gradient,
        (moments, touched): (Vec<Tensor<2>>, &mut Option<Vec<bool>>),
        (StepScalars { learning_rate: rate, step, .. }, decay, clip): (StepScalars, f64, f64),
        (placement, device): (Placement, &Device),
    ) -> Result<(Tensor<2>, Vec<Tensor<2>>), TrainerError> {
        let in_place = placement == Placement::InPlace;
        let take = |tensor| {
            if in_place {
                Ok(fused::into_f32_vec(tensor)
                    .expect("tensors with this placement are f32 on the CPU"))
            } else {
                host(tensor)
            }
        };
        let mut value = take(value)?;
        let mut moments = moments.into_iter().map(take).collect::<Result<Vec<_>, _>>()?;
        match (self, &mut moments[..]) {
            (Self::AdamW { beta1, beta2, epsilon }, [mean, square]) => {
                let scalars = adamw_scalars([*beta1, *beta2, *epsilon], (rate, step), decay, clip);
                match gradient {
                    Gradient::Dense(gradient) => {
                        *touched = None;
                        fused::adamw(&mut value, &take(gradient)?, mean, square, scalars);
                    }
                    Gradient::Sparse(entries) => {
                        let width = parameter.shape[1];
                        let touched =
                            touched.get_or_insert_with(|| rows_with_moments(width, mean, square));
                        step_entries(&mut value, &entries, [mean, square], scalars, touched);
                    }
                    Gradient::Absent => {
                        fused::adamw(&mut value, &vec![0.0; mean.len()], mean, square, scalars)
                    }
                }
            }
            (Self::Sgd { momentum }, [buffer]) => {
                let [clip, momentum, decay, rate] = [clip, *momentum, decay, rate].map(as_f32);
                fused::sgd(
                    &mut value,
                    &take(gradient.into_dense(parameter, device))?,
                    buffer,
                    clip,
                    momentum,
                    decay,
                    rate,
                );
            }
            _ => unreachable!("rules without a kernel are not computed here"),
        }
        let shape = parameter.shape;
        let back = |numbers| {
            if in_place {
                fused::tensor_from_vec(numbers, shape)
            } else {
                tensor(numbers, shape, device)
            }
        };
        Ok((back(value), moments.into_iter().map(back).collect()))
    }
}

/// Which rows of a table have non-zero moments.
fn rows_with_moments(width: usize, mean: &[f32], square: &[f32]) -> Vec<bool> {
    let some = |numbers: &[f32]| numbers.iter().any(|number| *number != 0.0);
    mean.chunks_exact(width)
        .zip(square.chunks_exact(width))
        .map(|(mean, square)| some(mean) || some(square))
        .collect()
}

/// AdamW's step with a sparse gradient: rows that never had one have zero moments and only decay.
/// The result equals that of a dense gradient.
fn step_entries(
    values: &mut [f32],
    entries: &SparseRows,
    [mean, square]: [&mut Vec<f32>; 2],
    scalars: fused::AdamWScalars,
    touched: &mut [bool],
) {
    let width = values.len() / touched.len().max(1);
    let none = vec![0.0; width];
    let mut found = entries.iter().peekable();
    let rows = values
        .chunks_exact_mut(width)
        .zip(mean.chunks_exact_mut(width))
        .zip(square.chunks_exact_mut(width))
        .zip(touched);
    for (entry, (((values, mean), square), touched)) in (0..).zip(rows) {
        let gradient = found.next_if(|(id, _)| *id == entry).map(|(_, numbers)| numbers);
        *touched |= gradient.is_some();
        if *touched {
            fused::adamw(values, gradient.unwrap_or(&none), mean, square, scalars);
        } else if scalars.shrink < 1.0 {
            values.iter_mut().for_each(|value| *value *= scalars.shrink);
        }
    }
}

/// The scalars of a step of AdamW with this learning rate and number.
fn adamw_scalars(
    [beta1, beta2, epsilon]: [f64; 3],
    (rate, step): (f64, u64),
    decay: f64,
    clip: f64,
) -> fused::AdamWScalars {
    fused::AdamWScalars {
        clip: as_f32(clip),
        mean: [beta1, 1.0 - beta1].map(as_f32),
        square: [beta2, 1.0 - beta2].map(as_f32),
        scale: as_f32(1.0 / bias_correction(beta2, step).sqrt()),
        epsilon: as_f32(epsilon),
        shrink: as_f32(1.0 - rate * decay),
        rate: as_f32(rate / bias_correction(beta1, step)),
    }
}

/// The bias correction of a moment that was initialised with 0.
fn bias_correction(beta: f64, step: u64) -> f64 {
    1.0 - beta.powf(real(step))
}

/// The factor that clips gradients of norm `norm` to `max_norm`, as
/// `torch.nn.utils.clip_grad_norm_`; 0: no clipping.
pub(super) fn clip_coefficient(norm: f64, max_norm: f64) -> f64 {
    if max_norm == 0.0 { 1.0 } else { (max_norm / (norm + 1e-6)).min(1.0) }
}
