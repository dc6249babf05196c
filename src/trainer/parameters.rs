//! The parameters of a model as one flat list: names, shapes, roles, initial values, and their
//! layout in files.

use burn::tensor::{Device, Tensor, TensorData};
use safetensors::tensor::Dtype;

use super::TrainerError;
use super::floats::real;
use super::rng::{Rng, key};
use super::tensor_file::TensorEntry;

/// The index of a parameter in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParameterId(usize);

impl ParameterId {
    pub(super) fn index(self) -> usize {
        self.0
    }
}

/// The kind of a parameter, which decides its initial values, its weight decay and its layout in
/// files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The weight of a linear layer, `[in, out]`; in files `[out, in]`, as in PyTorch.
    Linear,
    /// The weight of a linear layer that is stored as `[in, out]`, GPT-2's `Conv1D`. Initially
    /// normal, scaled by `1 / sqrt(additions)`.
    Conv1d {
        /// How many such layers add to the residual stream.
        additions: usize,
    },
    /// The weight of a linear layer whose initial deviation is `1 / sqrt(inputs * divisor)`, T5's.
    ScaledLinear {
        /// Of queries the width of a head, which stands for the scale of scores.
        divisor: usize,
    },
    /// `[entries, width]`.
    Embedding,
    /// Biases of attention scores, `[entries, heads]`. Initially 0.
    ScoreBias,
    /// What a pretrained model has and training leaves as it is, `[rows, width]`. Initially 0.
    Buffer,
    /// `[1, width]`; in files `[width]`. Initially 0.
    Bias,
    /// The scale of a norm, `[1, width]`; in files `[width]`. Initially 1.
    NormScale,
    /// Matrix A of an adapter, `[in, rank]`; in files `[rank, in]`. Initially as in peft: uniform
    /// within `1 / sqrt(in)`.
    LoraA,
    /// Matrix B of an adapter, `[rank, out]`; in files `[out, rank]`. Initially 0, so that an
    /// adapter adds nothing.
    LoraB,
}

impl Role {
    /// Whether files hold the transpose.
    pub(super) fn is_transposed(self) -> bool {
        matches!(self, Self::Linear | Self::ScaledLinear { .. } | Self::LoraA | Self::LoraB)
    }
}

/// A parameter without its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) shape: [usize; 2],
    pub(super) role: Role,
    pub(super) part: ModelPart,
    pub(super) depth: Depth,
    /// The factor of the run's learning rate; `None`: the parameter is frozen.
    pub(super) rate: Option<f64>,
}

/// The position of a parameter in a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Depth {
    /// Before the layers.
    #[default]
    Embeddings,
    /// In a layer, counted from 0.
    Layer(usize),
    /// After the layers.
    Top,
}

/// The part of a model that a parameter belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ModelPart {
    /// What pretraining trains.
    #[default]
    Body,
    /// What is specific to a task, and newly initialised for another.
    Head,
    /// The part of the head with a row per label.
    Labels,
}

/// The list of a model's parameters, filled while the model is constructed.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters {
    list: Vec<Parameter>,
    /// Standard deviation of initial weights; `None`: Xavier's for linear layers, GPT-2's for
    /// embeddings.
    deviation: Option<f64>,
    /// Those of the next parameter.
    part: ModelPart,
    depth: Depth,
}

/// Elements that are read from a device at once.
const CHUNK_ELEMENTS: usize = 1 << 18;

/// The initial variance of a `Conv1D` times its inputs: GPT-2's deviation of 0.02 at its width of
/// 768. This keeps the size of activations at other widths: nanoGPT's CPU recipe (width 128) ends
/// at a validation loss of 1.780, with a plain 0.02 at 1.894.
const CONV1D_GAIN: f64 = 0.02 * 0.02 * 768.0;

/// Standard deviation of initial embeddings, as in BERT and GPT-2.
const EMBEDDING_DEVIATION: f64 = 0.02;

impl Parameters {
    /// An empty list, with the standard deviation of initial weights.
    pub(super) fn new(deviation: Option<f64>) -> Self {
        Self { deviation, ..Self::default() }
    }

    pub(super) fn add(&mut self, name: String, shape: [usize; 2], role: Role) -> ParameterId {
        let (part, depth) = (self.part, self.depth);
        let rate = (role != Role::Buffer).then_some(1.0);
        self.append(Parameter { name, shape, role, part, depth, rate })
    }

    /// The part of the parameters added next.
    pub(super) fn set_part(&mut self, part: ModelPart) {
        self.part = part;
    }

    /// The depth of the parameters added next.
    pub(super) fn set_depth(&mut self, depth: Depth) {
        self.depth = depth;
    }

    /// Those that are not frozen.
    pub(super) fn trainable(&self) -> Self {
        self.filtered(|_, parameter| parameter.rate.is_some())
    }

    /// Those that `wanted` accepts by index and value.
    pub(super) fn filtered(&self, wanted: impl Fn(usize, &Parameter) -> bool) -> Self {
        let all = self.list.iter().enumerate();
        let list = all.filter(|(index, one)| wanted(*index, one)).map(|(_, one)| one.clone());
        Self { list: list.collect(), ..self.clone() }
    }

    /// Adds a parameter as it is.
    pub(super) fn append(&mut self, parameter: Parameter) -> ParameterId {
        self.list.push(parameter);
        ParameterId(self.list.len() - 1)
    }

    /// A parameter's initial values in the order of a file.
    pub(super) fn initial_in_file_order(&self, parameter: &Parameter, seed: u64) -> Vec<f32> {
        let initial = parameter.initial(seed, self.deviation);
        let [rows, columns] = parameter.shape;
        if parameter.role.is_transposed() {
            (0..rows * columns).map(|i| initial[i % rows * columns + i / rows]).collect()
        } else {
            initial
        }
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Parameter> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Parameter> {
        self.list.iter_mut()
    }

    /// Number of values in all.
    pub(super) fn count(&self) -> usize {
        self.list.iter().map(|parameter| parameter.shape[0] * parameter.shape[1]).sum()
    }

    /// Initial values: each parameter's are a function of the seed and its name.
    pub(super) fn initial_values(&self, seed: u64, device: &Device) -> Values {
        let initial =
            |one: &Parameter| tensor(one.initial(seed, self.deviation), one.shape, device);
        Values(self.list.iter().map(initial).collect())
    }

    pub(super) fn zeros(&self, device: &Device) -> Values {
        Values(self.list.iter().map(|parameter| Tensor::zeros(parameter.shape, device)).collect())
    }

    /// `values` as entries of a file, with a prefix for their names.
    pub(super) fn to_entries<'a>(
        &'a self,
        prefix: &str,
        values: &'a Values,
    ) -> Vec<TensorEntry<'a>> {
        let entry = |(parameter, value): (&'a Parameter, &'a Tensor<2>)| TensorEntry {
            name: format!("{prefix}{}", parameter.name),
            dtype: Dtype::F32,
            shape: parameter.file_shape(),
            chunks: Box::new(
                parameter
                    .in_file(value)
                    .map(|rows| Ok(rows?.into_iter().flat_map(f32::to_le_bytes).collect())),
            ),
        };
        self.list.iter().zip(&values.0).map(entry).collect()
    }

    /// Values from what `read` returns for each name and shape.
    pub(super) fn read_entries<E>(
        &self,
        prefix: &str,
        device: &Device,
        mut read: impl FnMut(&str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Values, E> {
        let mut values = Vec::with_capacity(self.list.len());
        for parameter in &self.list {
            let numbers = read(&format!("{prefix}{}", parameter.name), &parameter.file_shape())?;
            values.push(parameter.value_in_memory_order(numbers, device));
        }
        Ok(Values(values))
    }
}

impl Parameter {
    /// Whether it is the weight of a linear layer of the body, for which there may be an adapter.
    pub(super) fn is_linear(&self) -> bool {
        let is_weight =
            matches!(self.role, Role::Linear | Role::ScaledLinear { .. } | Role::Conv1d { .. });
        self.part == ModelPart::Body && is_weight
    }

    /// Whether weight decay applies: not to biases and norms.
    pub(super) fn decays(&self) -> bool {
        !matches!(self.role, Role::Bias | Role::NormScale | Role::ScoreBias)
    }

    /// Its shape in a file.
    pub(super) fn file_shape(&self) -> Vec<usize> {
        let [rows, columns] = self.shape;
        match self.role {
            Role::Linear | Role::ScaledLinear { .. } | Role::LoraA | Role::LoraB => {
                vec![columns, rows]
            }
            Role::Conv1d { .. } | Role::Embedding | Role::ScoreBias | Role::Buffer => {
                vec![rows, columns]
            }
            Role::Bias | Role::NormScale => vec![columns],
        }
    }

    /// A value's elements in the order of a file, in chunks of whole rows.
    pub(super) fn in_file(
        &self,
        value: &Tensor<2>,
    ) -> impl Iterator<Item = Result<Vec<f32>, TrainerError>> + use<> {
        let value =
            if self.role.is_transposed() { value.clone().transpose() } else { value.clone() };
        let [rows, columns] = value.dims();
        let together = (CHUNK_ELEMENTS / columns.max(1)).max(1);
        (0..rows).step_by(together).map(move |first| {
            host(value.clone().slice([first..(first + together).min(rows), 0..columns]))
        })
    }

    /// A value from its elements in the order of a file.
    pub(super) fn value_in_memory_order(&self, numbers: Vec<f32>, device: &Device) -> Tensor<2> {
        let [rows, columns] = self.shape;
        if !self.role.is_transposed() {
            return tensor(numbers, self.shape, device);
        }
        let transposed =
            (0..rows * columns).map(|i| numbers[i % columns * rows + i / columns]).collect();
        tensor(transposed, self.shape, device)
    }

    fn initial(&self, seed: u64, deviation: Option<f64>) -> Vec<f32> {
        let [rows, columns] = self.shape;
        let mut rng = Rng::new(key(seed, &format!("init/{}", self.name), &[]));
        // Xavier's deviation (Glorot and Bengio 2010): from scratch, small models learn faster with
        // it than with BERT's 0.02.
        let xavier = (2.0 / real(rows + columns)).sqrt();
        match self.role {
            Role::Linear => rng.normal(rows * columns, deviation.unwrap_or(xavier)),
            Role::Conv1d { additions } => {
                rng.normal(rows * columns, (CONV1D_GAIN / real(rows * additions)).sqrt())
            }
            Role::Embedding => rng.normal(rows * columns, deviation.unwrap_or(EMBEDDING_DEVIATION)),
            Role::ScaledLinear { divisor } => {
                rng.normal(rows * columns, 1.0 / real(rows * divisor).sqrt())
            }
            Role::LoraA => rng.uniform_within(rows * columns, 1.0 / real(rows).sqrt()),
            Role::Bias | Role::LoraB | Role::ScoreBias | Role::Buffer => vec![0.0; rows * columns],
            Role::NormScale => vec![1.0; rows * columns],
        }
    }
}

/// One tensor per parameter: the parameters' values, their gradients or an optimiser's moments.
#[derive(Debug, Clone)]
pub(super) struct Values(pub(super) Vec<Tensor<2>>);

impl Values {
    pub(super) fn get(&self, id: ParameterId) -> Tensor<2> {
        self.0[id.0].clone()
    }

    /// The same values as leaves of a new autodiff graph; frozen parameters receive no gradient.
    pub(super) fn leaves(&self, parameters: &Parameters) -> Self {
        let leaf = |(value, parameter): (&Tensor<2>, &Parameter)| {
            let value = value.clone().autodiff();
            if parameter.rate.is_some() { value.require_grad() } else { value }
        };
        Self(self.0.iter().zip(&parameters.list).map(leaf).collect())
    }
}

/// A tensor of row-major values.
pub(super) fn tensor<const D: usize>(
    numbers: Vec<f32>,
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

#[cfg(test)]
thread_local! {
    /// Reads from devices on this thread.
    pub(super) static READS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A tensor's row-major values; waits for an asynchronous device.
pub(super) fn host<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, TrainerError> {
    #[cfg(test)]
    READS.set(READS.get() + 1);
    tensor.try_into_vec_as::<f32>().map_err(|error| TrainerError::device_lost(&error))
}
