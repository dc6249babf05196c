//! The parameters of a model as one flat list: their names, shapes and roles, how they start, and their bytes in a file.

use burn::tensor::{Device, Tensor, TensorData};
use safetensors::tensor::Dtype;

use super::TrainerError;
use super::dice::{Dice, key};
use super::tensor_file::Entry;

/// A parameter's place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot(usize);

impl Slot {
    /// Its number in the list.
    pub(super) fn place(self) -> usize {
        self.0
    }
}

/// What a parameter is for, which says how it starts, whether it decays and how it lies in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A linear map `[in, out]`; in files `[out, in]`, as PyTorch has it.
    Weight,
    /// A linear map `[in, out]` that lies in files as it is, as GPT-2 has it. Starts normal, divided by the root of how many such maps add up.
    Kernel {
        /// How many.
        additions: usize,
    },
    /// An embedding `[entries, width]`.
    Table,
    /// Added, `[1, width]`; in files `[width]`. Starts at 0.
    Bias,
    /// Multiplied, `[1, width]`; in files `[width]`. Starts at 1.
    Scale,
    /// The first map of an adapter, `[in, rank]`; in files `[rank, in]`. Starts as peft's: uniform up to the inverse root of its inputs.
    Down,
    /// The second, `[rank, out]`; in files `[out, rank]`. Starts at 0, so that an adapter adds nothing at first.
    Up,
}

impl Role {
    /// Whether rows and columns change places in files.
    pub(super) fn is_transposed(self) -> bool {
        matches!(self, Self::Weight | Self::Down | Self::Up)
    }
}

/// A parameter without its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) shape: [usize; 2],
    pub(super) role: Role,
    pub(super) part: Part,
    pub(super) depth: Depth,
    /// Its learning rate as a share of the run's; `None`: it is frozen.
    pub(super) rate: Option<f64>,
}

/// Where in a model a parameter stands.
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
pub(super) enum Part {
    /// What is learnt once and used for many tasks.
    #[default]
    Body,
    /// What is made for one task: it may begin anew on a body that was trained before.
    Head,
    /// The part of the head that has a row for each label.
    Labels,
}

/// The list of a model's parameters, filled while the model is laid out.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters {
    list: Vec<Parameter>,
    /// Standard deviation of fresh maps and tables; `None`: Xavier's of maps, GPT-2's of tables.
    deviation: Option<f64>,
    /// The part that is being laid out, and where it stands.
    part: Part,
    depth: Depth,
}

/// Numbers that are taken from a device at once.
const PIECE: usize = 1 << 18;

/// A kernel's variance times its inputs: GPT-2's deviation of 0.02 at its width of 768. At other widths it keeps activations at that size; on
/// nanoGPT's CPU recipe (128 wide) a plain 0.02 ends at a validation loss of 1.894, this at 1.780.
const KERNEL_GAIN: f64 = 0.02 * 0.02 * 768.0;

/// Standard deviation of fresh embeddings, as in BERT and GPT-2.
const TABLE_DEVIATION: f64 = 0.02;

impl Parameters {
    /// An empty list, with the standard deviation that fresh maps and tables have.
    pub(super) fn new(deviation: Option<f64>) -> Self {
        Self { deviation, ..Self::default() }
    }

    pub(super) fn add(&mut self, name: String, shape: [usize; 2], role: Role) -> Slot {
        self.list.push(Parameter { name, shape, role, part: self.part, depth: self.depth, rate: Some(1.0) });
        Slot(self.list.len() - 1)
    }

    /// What is added from now on belongs to this part.
    pub(super) fn begin(&mut self, part: Part) {
        self.part = part;
    }

    /// What is added from now on stands here.
    pub(super) fn stand(&mut self, depth: Depth) {
        self.depth = depth;
    }

    /// Those that are not frozen.
    pub(super) fn learnt(&self) -> Self {
        self.filtered(|_, parameter| parameter.rate.is_some())
    }

    /// Those that `wanted` wants, by their places.
    pub(super) fn filtered(&self, wanted: impl Fn(usize, &Parameter) -> bool) -> Self {
        let list = self.list.iter().enumerate().filter(|(place, parameter)| wanted(*place, parameter)).map(|(_, one)| one.clone()).collect();
        Self { list, ..self.clone() }
    }

    /// Adds a parameter as it is.
    pub(super) fn append(&mut self, parameter: Parameter) -> Slot {
        self.list.push(parameter);
        Slot(self.list.len() - 1)
    }

    /// A parameter's fresh values in the order in which they lie in a file.
    pub(super) fn fresh_in_file(&self, parameter: &Parameter, seed: u64) -> Vec<f32> {
        let fresh = parameter.fresh(seed, self.deviation);
        let [rows, columns] = parameter.shape;
        if parameter.role.is_transposed() { (0..rows * columns).map(|i| fresh[i % rows * columns + i / rows]).collect() } else { fresh }
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

    /// Fresh values, each parameter's a function of the seed and its own name.
    pub(super) fn fresh(&self, seed: u64, device: &Device) -> Values {
        Values(self.list.iter().map(|parameter| tensor(parameter.fresh(seed, self.deviation), parameter.shape, device)).collect())
    }

    /// Zeros in the parameters' shapes.
    pub(super) fn zeros(&self, device: &Device) -> Values {
        Values(self.list.iter().map(|parameter| Tensor::zeros(parameter.shape, device)).collect())
    }

    /// `values` as entries of a file, named with `prefix`.
    pub(super) fn to_entries<'a>(&'a self, prefix: &str, values: &'a Values) -> Vec<Entry<'a>> {
        let entry = |(parameter, value): (&'a Parameter, &'a Tensor<2>)| Entry {
            name: format!("{prefix}{}", parameter.name),
            kind: Dtype::F32,
            shape: parameter.file_shape(),
            pieces: Box::new(parameter.in_file(value).map(|rows| Ok(rows?.into_iter().flat_map(f32::to_le_bytes).collect()))),
        };
        self.list.iter().zip(&values.0).map(entry).collect()
    }

    /// Values from what `read` finds in a file under each name and shape.
    pub(super) fn read_entries<E>(
        &self,
        prefix: &str,
        device: &Device,
        mut read: impl FnMut(&str, &[usize]) -> Result<Vec<f32>, E>,
    ) -> Result<Values, E> {
        let mut values = Vec::with_capacity(self.list.len());
        for parameter in &self.list {
            let numbers = read(&format!("{prefix}{}", parameter.name), &parameter.file_shape())?;
            let [rows, columns] = parameter.shape;
            values.push(if parameter.role.is_transposed() {
                let transposed = (0..rows * columns).map(|i| numbers[i % columns * rows + i / columns]).collect();
                tensor(transposed, parameter.shape, device)
            } else {
                tensor(numbers, parameter.shape, device)
            });
        }
        Ok(Values(values))
    }
}

impl Parameter {
    /// Whether weight decay applies: not to biases and norms.
    pub(super) fn decays(&self) -> bool {
        !matches!(self.role, Role::Bias | Role::Scale)
    }

    /// Its shape in a file.
    pub(super) fn file_shape(&self) -> Vec<usize> {
        let [rows, columns] = self.shape;
        match self.role {
            Role::Weight | Role::Down | Role::Up => vec![columns, rows],
            Role::Kernel { .. } | Role::Table => vec![rows, columns],
            Role::Bias | Role::Scale => vec![columns],
        }
    }

    /// A value's numbers in the order in which they lie in a file, some whole rows at a time.
    pub(super) fn in_file(&self, value: &Tensor<2>) -> impl Iterator<Item = Result<Vec<f32>, TrainerError>> + use<> {
        let value = if self.role.is_transposed() { value.clone().transpose() } else { value.clone() };
        let [rows, columns] = value.dims();
        let together = (PIECE / columns.max(1)).max(1);
        (0..rows).step_by(together).map(move |first| host(value.clone().slice([first..(first + together).min(rows), 0..columns])))
    }

    fn fresh(&self, seed: u64, deviation: Option<f64>) -> Vec<f32> {
        let [rows, columns] = self.shape;
        let mut dice = Dice::new(key(seed, &format!("init/{}", self.name), &[]));
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        // Xavier's deviation (Glorot and Bengio 2010): from scratch, narrow models learn faster with it than with BERT's 0.02.
        let xavier = (2.0 / (rows + columns) as f64).sqrt();
        match self.role {
            Role::Weight => dice.normal(rows * columns, deviation.unwrap_or(xavier)),
            #[expect(clippy::cast_precision_loss, reason = "a width and a number of layers")]
            Role::Kernel { additions } => dice.normal(rows * columns, (KERNEL_GAIN / (rows * additions) as f64).sqrt()),
            Role::Table => dice.normal(rows * columns, deviation.unwrap_or(TABLE_DEVIATION)),
            #[expect(clippy::cast_precision_loss, reason = "a width")]
            Role::Down => dice.even(rows * columns, 1.0 / (rows as f64).sqrt()),
            Role::Bias | Role::Up => vec![0.0; rows * columns],
            Role::Scale => vec![1.0; rows * columns],
        }
    }
}

/// One tensor per parameter: the parameters' values, their gradients or an optimiser's moments.
#[derive(Debug, Clone)]
pub(super) struct Values(pub(super) Vec<Tensor<2>>);

impl Values {
    pub(super) fn get(&self, slot: Slot) -> Tensor<2> {
        self.0[slot.0].clone()
    }

    /// The same values as leaves of a new autodiff graph, in which those of frozen parameters have no gradient.
    pub(super) fn leaves(&self, parameters: &Parameters) -> Self {
        let leaf = |(value, parameter): (&Tensor<2>, &Parameter)| {
            let value = value.clone().autodiff();
            if parameter.rate.is_some() { value.require_grad() } else { value }
        };
        Self(self.0.iter().zip(&parameters.list).map(leaf).collect())
    }
}

/// A tensor from numbers in row-major order.
pub(super) fn tensor<const D: usize>(numbers: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

#[cfg(test)]
thread_local! {
    /// How often this thread has asked a device for numbers.
    pub(super) static READS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A tensor's numbers in row-major order. A device that computes on its own is waited for.
pub(super) fn host<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, TrainerError> {
    #[cfg(test)]
    READS.set(READS.get() + 1);
    tensor.try_into_vec_as::<f32>().map_err(|error| TrainerError::DeviceLost { message: error.to_string() })
}
