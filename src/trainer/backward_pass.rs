//! The loss of some examples and its gradients, with one autodiff graph or with activation
//! checkpointing.

use std::rc::Rc;

use burn::tensor::{Device, FloatDType, Tensor};

use super::TrainerError;
use super::fine_tuning::FineTuning;
use super::frozen_features::FrozenFeatures;
use super::fused::SparseGradientSink;
use super::gradients::Gradients;
use super::layers::{DropoutKey, ForwardContext, HiddenStates, IndexRanges};
use super::parameters::{Depth, Values};
use super::profile;
use super::task::{MicroBatch, Model, ModelInput};

/// Computes losses and gradients.
pub(super) struct BackwardPass<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) tuning: &'a FineTuning,
    /// The device with autodiff, and without.
    pub(super) autodiff_device: &'a Device,
    pub(super) device: &'a Device,
    /// The cached outputs of the frozen leading layers.
    pub(super) features: Option<&'a FrozenFeatures>,
    /// Whether the activations within layers are recomputed in the backward pass instead of being
    /// saved.
    pub(super) recompute: bool,
    /// The dtype of products; `None`: f32.
    pub(super) precision: Option<FloatDType>,
    /// Index ranges shared by all steps.
    pub(super) ranges: &'a Rc<IndexRanges>,
    /// The factor of the loss and its gradients.
    pub(super) scale: f64,
}

impl BackwardPass<'_> {
    fn context<'b>(
        &'b self,
        values: &'b Values,
        device: &'b Device,
        dropout: DropoutKey,
    ) -> ForwardContext<'b> {
        ForwardContext::training(values, device, dropout)
            .with_tuning(self.tuning.frozen_layers, self.tuning.adapters.as_ref())
            .with_compute_dtype(self.precision)
            .with_index_ranges(self.ranges)
    }

    fn scale_loss(&self, loss: Tensor<1>) -> Tensor<1> {
        if self.scale == 1.0 { loss } else { loss * self.scale }
    }

    /// The contribution of some examples to a step's loss and gradients, both times `scale`.
    pub(super) fn gradients(
        &self,
        values: &Values,
        micro_batch: &MicroBatch<'_>,
        dropout: DropoutKey,
    ) -> Result<(Tensor<1>, Gradients), TrainerError> {
        let data = profile::phase("data");
        let input = self.model.input(micro_batch);
        drop(data);
        if self.recompute {
            return self.with_checkpointing(values, micro_batch, &input, dropout);
        }
        let forward = profile::phase("forward");
        let (leaves, sparse_gradients) =
            (values.leaves(self.model.parameters()), SparseGradientSink::default());
        let context = self
            .context(&leaves, self.autodiff_device, dropout)
            .with_sparse_gradients(&sparse_gradients);
        let (x, first) = match self.features {
            Some(features) => {
                (features.of(micro_batch.chosen, self.device).autodiff(), self.tuning.frozen_layers)
            }
            None => {
                let _span = profile::layer(|| "embeddings".to_owned());
                (self.model.embed(&context, &input), 0)
            }
        };
        let x = (first..self.model.layers()).fold(x, |x, number| {
            let _span = profile::layer(|| format!("layer {number}"));
            self.model.layer(&context, number, x, &input)
        });
        let head = profile::layer(|| "head and loss".to_owned());
        let loss = self.scale_loss(self.model.loss(&context, x, &input, micro_batch));
        drop(head);
        drop(forward);
        let _span = profile::phase("backward");
        let gradients = Gradients::of(&loss, &leaves, &sparse_gradients, self.device)?;
        Ok((loss.inner(), gradients))
    }

    /// The same with activation checkpointing (Chen et al. 2016, "Training deep nets with sublinear
    /// memory cost", one segment per layer): only the inputs of layers are saved, and the backward
    /// pass runs each layer's forward pass again. Dropout masks are functions of their sites and
    /// therefore the same again.
    fn with_checkpointing(
        &self,
        values: &Values,
        micro_batch: &MicroBatch<'_>,
        input: &ModelInput,
        dropout: DropoutKey,
    ) -> Result<(Tensor<1>, Gradients), TrainerError> {
        let _span = profile::phase("forward and backward");
        let (layers, frozen) = (self.model.layers(), self.tuning.frozen_layers);
        let outer_context = self.context(values, self.device, dropout);
        let (mut x, first) = match self.features {
            Some(features) => (features.of(micro_batch.chosen, self.device), frozen),
            None => (self.model.embed(&outer_context, input), 0),
        };
        let mut inputs = Vec::with_capacity(layers);
        for number in first..layers {
            if number >= frozen {
                inputs.push((x.clone(), outer_context.dropout_sites()));
            }
            x = self.model.layer(&outer_context, number, x, input);
        }
        let head = self.segment(values, dropout, outer_context.dropout_sites(), &|context| {
            let leaf = x.clone().autodiff().require_grad();
            (
                self.scale_loss(self.model.loss(context, leaf.clone(), input, micro_batch)),
                Some(leaf),
            )
        })?;
        drop(x);
        let (loss, mut gradients, mut gradient) = (head.output, head.gradients, head.inputs);
        for number in (frozen..layers).rev() {
            let Some((x, site)) = inputs.pop() else { break };
            let segment_below = self.segment(values, dropout, site, &|context| {
                let leaf = x.clone().autodiff().require_grad();
                (
                    vector_jacobian_product(
                        self.model.layer(context, number, leaf.clone(), input),
                        &gradient,
                    ),
                    Some(leaf),
                )
            })?;
            gradients = gradients.plus(segment_below.gradients, self.device)?;
            gradient = segment_below.inputs;
        }
        if self
            .model
            .parameters()
            .iter()
            .any(|parameter| parameter.depth == Depth::Embeddings && parameter.rate.is_some())
        {
            let segment_below = self.segment(values, dropout, 0, &|context| {
                (vector_jacobian_product(self.model.embed(context, input), &gradient), None)
            })?;
            gradients = gradients.plus(segment_below.gradients, self.device)?;
        }
        Ok((loss, gradients))
    }

    /// Runs `build`, which returns a scalar and the input leaf that it made, in a graph of its own.
    fn segment(
        &self,
        values: &Values,
        dropout: DropoutKey,
        site: u64,
        build: &dyn Fn(&ForwardContext) -> (Tensor<1>, Option<HiddenStates>),
    ) -> Result<Segment, TrainerError> {
        let (leaves, sparse_gradients) =
            (values.leaves(self.model.parameters()), SparseGradientSink::default());
        let context = self
            .context(&leaves, self.autodiff_device, dropout)
            .with_sparse_gradients(&sparse_gradients)
            .at_dropout_site(site);
        let (output, leaf) = build(&context);
        let (gradients, inputs) = Gradients::with_input_gradient(
            &output,
            &leaves,
            leaf.as_ref(),
            &sparse_gradients,
            self.device,
        )?;
        Ok(Segment { output: output.inner(), gradients, inputs })
    }
}

/// A part of the model after its backward pass.
struct Segment {
    output: Tensor<1>,
    gradients: Gradients,
    /// The gradient of the segment's input.
    inputs: Option<HiddenStates>,
}

/// A scalar whose gradient is the vector-Jacobian product of `output` with `gradient`.
fn vector_jacobian_product(output: HiddenStates, gradient: &Option<HiddenStates>) -> Tensor<1> {
    match gradient {
        Some(gradient) => (output * gradient.clone().autodiff()).sum(),
        // Nothing later depends on the output.
        None => output.sum() * 0.0,
    }
}
