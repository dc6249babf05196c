//! Models of encoders with a head: what all their tasks have in common, as [`Task`] and [`Model`].

use std::marker::PhantomData;

use burn::tensor::{Device, Tensor};
use serde_json::{Map, Value};

use super::atomic_directory::AtomicDirectory;
use super::batch::Batch;
use super::encoder::{Encoder, EncoderConfig, TrainedHead};
use super::families::encoders::{ENCODERS, class_ending};
use super::layers::{ForwardContext, HiddenStates};
use super::metrics::Metrics;
use super::parameters::{Parameters, Values};
use super::prepared::{Description, Extra};
use super::sources::Sources;
use super::task::{Draw, EvaluationSet, MicroBatch, Model, ModelInput, Task, TensorNames};
use super::{PreparedData, Split, TrainerError};
use hpsearch_core::arguments::{ModelArguments, TaskKind};
use hpsearch_core::study::class_report::ClassReport;

/// The head of an encoder: what a task adds to it.
pub(super) trait EncoderHead: Sized + 'static {
    /// Prepares the data of `kind` from files, and writes them to `staged`.
    fn prepare(
        kind: TaskKind,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError>;

    /// The head with its parameters added to `list`.
    fn new(list: &mut Parameters, config: &EncoderConfig) -> Self;

    /// See [`Model::examples_are_fixed`].
    const EXAMPLES_ARE_FIXED: bool = true;

    /// See [`Model::targets`].
    fn targets(_: &EncoderModel<Self>, _: &PreparedData, _: usize, _: Draw) -> usize {
        1
    }

    /// See [`Model::length`].
    fn length(model: &EncoderModel<Self>, data: &PreparedData, row: usize) -> usize {
        data.split(Split::Train).length(row).min(model.architecture.max_tokens())
    }

    /// The tokens of a micro-batch.
    fn batch(model: &EncoderModel<Self>, micro_batch: &MicroBatch<'_>) -> Batch {
        model.batch(micro_batch.data, Split::Train, micro_batch.chosen)
    }

    /// See [`Model::loss`]; `x` are the encoder's final hidden states.
    fn loss(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        x: HiddenStates,
        input: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1>;

    /// See [`Model::measure`].
    fn measure(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError>;

    /// See [`Model::measure_by_class`].
    fn measure_by_class(
        model: &EncoderModel<Self>,
        context: &ForwardContext,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<(Metrics, Option<ClassReport>), TrainerError> {
        Self::measure(model, context, data, set, on_progress).map(|metrics| (metrics, None))
    }

    /// Adds to `config.json` what the use of its models depends on.
    fn describe(_: &mut EncoderConfig, _: &PreparedData) {}

    /// See [`Model::is_compatible`].
    fn is_compatible(config: &EncoderConfig, data: &PreparedData) -> bool {
        config.shape.labels == data.labels()
    }
}

/// A task of encoders with this head.
pub(super) struct EncoderTask<H>(TaskKind, PhantomData<fn() -> H>);

impl<H> EncoderTask<H> {
    pub(super) const fn new(kind: TaskKind) -> Self {
        Self(kind, PhantomData)
    }
}

impl<H: EncoderHead> Task for EncoderTask<H> {
    fn kind(&self) -> TaskKind {
        self.0
    }

    fn prepare(
        &self,
        sources: &Sources<'_>,
        staged: &AtomicDirectory,
    ) -> Result<Description, TrainerError> {
        H::prepare(self.0, sources, staged)
    }

    fn new_model(
        &self,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String> {
        let mut architecture = EncoderConfig::new(
            arguments,
            self.0,
            data.labels(),
            data.vocab_size(),
            data.max_length(),
        )?;
        H::describe(&mut architecture, data);
        Ok(Box::new(EncoderModel::<H>::new(architecture)))
    }

    fn pretrained_model(
        &self,
        config: Map<String, Value>,
        arguments: &ModelArguments,
        data: &PreparedData,
    ) -> Result<Box<dyn Model>, String> {
        let mut architecture = EncoderConfig::read(self.0, config)?;
        let trained_for = architecture.trained_head();
        architecture.adapt(arguments, self.0, data.labels());
        H::describe(&mut architecture, data);
        Ok(Box::new(EncoderModel { trained_for, ..EncoderModel::<H>::new(architecture) }))
    }

    fn model_types(&self) -> Vec<&'static str> {
        ENCODERS.iter().map(|family| family.model_type).collect()
    }

    fn has_class(&self, name: &str) -> bool {
        name.ends_with(class_ending(self.0))
    }

    fn read_model(&self, config: Map<String, Value>) -> Result<Box<dyn Model>, String> {
        Ok(Box::new(EncoderModel::<H>::new(EncoderConfig::read(self.0, config)?)))
    }
}

/// An encoder with a head.
pub(super) struct EncoderModel<H> {
    pub(super) architecture: EncoderConfig,
    pub(super) encoder: Encoder,
    pub(super) head: H,
    parameters: Parameters,
    /// What the head of the pretrained model was trained for, if it has one.
    trained_for: Option<TrainedHead>,
}

impl<H: EncoderHead> EncoderModel<H> {
    pub(super) fn new(architecture: EncoderConfig) -> Self {
        let (encoder, mut parameters) = Encoder::new(&architecture);
        let head = H::new(&mut parameters, &architecture);
        Self { architecture, encoder, head, parameters, trained_for: None }
    }

    /// The rows `chosen` of a split.
    pub(super) fn batch(&self, data: &PreparedData, split: Split, chosen: &[usize]) -> Batch {
        let (rows, longest) = (data.split(split), self.architecture.max_tokens());
        let batch = Batch::truncated(chosen.iter().map(|row| rows.ids(*row).collect()), longest);
        match data.extras(Extra::TokenTypes, split) {
            Some(types) => {
                let of_rows = chosen.iter().map(|row| types.ids(*row).collect());
                batch.with_token_types(of_rows, longest)
            }
            None => batch,
        }
    }

    /// Calls `with_batch` with the rows of an evaluation, some at a time.
    pub(super) fn for_each_batch(
        &self,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
        with_batch: impl FnMut(&[usize], Batch) -> Result<(), TrainerError>,
    ) -> Result<(), TrainerError> {
        let order = set.chosen(data.split(set.split).len());
        self.for_each_batch_of(order, data, set, on_progress, with_batch)
    }

    /// The same for some rows.
    pub(super) fn for_each_batch_of(
        &self,
        mut order: Vec<usize>,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
        mut with_batch: impl FnMut(&[usize], Batch) -> Result<(), TrainerError>,
    ) -> Result<(), TrainerError> {
        let rows = data.split(set.split);
        // Rows are sorted by length, so that little is padding.
        order.sort_by_key(|row| rows.length(*row));
        let mut done = 0;
        for chosen in order.chunks(set.batch) {
            with_batch(chosen, self.batch(data, set.split, chosen))?;
            done += chosen.len();
            on_progress(done, order.len());
        }
        Ok(())
    }
}

impl<H: EncoderHead> Model for EncoderModel<H> {
    fn config(&self) -> Value {
        self.architecture.config.clone().into()
    }

    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    fn examples(&self, data: &PreparedData, split: Split) -> usize {
        data.rows(split)
    }

    fn length(&self, data: &PreparedData, example: usize) -> usize {
        H::length(self, data, example)
    }

    fn examples_are_fixed(&self) -> bool {
        H::EXAMPLES_ARE_FIXED
    }

    fn targets(&self, data: &PreparedData, example: usize, draw: Draw) -> usize {
        H::targets(self, data, example, draw)
    }

    fn input(&self, micro_batch: &MicroBatch<'_>) -> ModelInput {
        let batch = H::batch(self, micro_batch);
        ModelInput { layout: batch.layout(), batch, angles: None, decoder: None }
    }

    fn embed(&self, context: &ForwardContext, input: &ModelInput) -> HiddenStates {
        self.encoder.begin(context, &input.batch)
    }

    fn layers(&self) -> usize {
        self.encoder.layers()
    }

    fn layer(
        &self,
        context: &ForwardContext,
        number: usize,
        x: HiddenStates,
        input: &ModelInput,
    ) -> HiddenStates {
        self.encoder.layer(context, number, x, &input.layout)
    }

    fn loss(
        &self,
        context: &ForwardContext,
        x: HiddenStates,
        input: &ModelInput,
        micro_batch: &MicroBatch<'_>,
    ) -> Tensor<1> {
        H::loss(self, context, self.encoder.finish(context, x), input, micro_batch)
    }

    fn measure(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<Metrics, TrainerError> {
        H::measure(self, &ForwardContext::evaluation(values, device), data, set, on_progress)
    }

    fn measure_by_class(
        &self,
        values: &Values,
        device: &Device,
        data: &PreparedData,
        set: &EvaluationSet,
        on_progress: &dyn Fn(usize, usize),
    ) -> Result<(Metrics, Option<ClassReport>), TrainerError> {
        let context = ForwardContext::evaluation(values, device);
        H::measure_by_class(self, &context, data, set, on_progress)
    }

    fn is_compatible(&self, data: &PreparedData) -> bool {
        H::is_compatible(&self.architecture, data)
    }

    fn limits(&self) -> (usize, usize) {
        (self.architecture.shape.vocabulary, self.architecture.max_tokens())
    }

    fn reads_token_types(&self) -> bool {
        self.architecture.shape.segments > 1
    }

    fn tensor_names(&self) -> TensorNames {
        let shape = &self.architecture.shape;
        // Unnamed labels are taken for those of the data, as transformers does.
        let same = |head: &TrainedHead| {
            head.task == Some(shape.task)
                && head.labels.len() == shape.labels.len()
                && (head.labels == shape.labels || are_unnamed(&head.labels))
        };
        TensorNames {
            prefix: self.architecture.family.prefix,
            layers: self.architecture.family.names.layer,
            keeps_labels: self.trained_for.as_ref().is_none_or(same),
            labels: self.trained_for.as_ref().map_or_else(Vec::new, |head| head.labels.clone()),
        }
    }
}

/// Whether labels have transformers' default names.
fn are_unnamed(labels: &[String]) -> bool {
    labels.iter().enumerate().all(|(id, label)| *label == format!("LABEL_{id}"))
}
