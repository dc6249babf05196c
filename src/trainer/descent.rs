//! The loss of some examples and its gradients, in one graph or layer by layer.

use std::rc::Rc;

use burn::tensor::{Device, FloatDType, Tensor};

use super::TrainerError;
use super::features::Features;
use super::fused::Aside;
use super::gradients::Gradients;
use super::layers::{DropoutKey, Pass, Ranges, Rows};
use super::parameters::{Depth, Values};
use super::profile;
use super::task::{Model, Part, Reading};
use super::tuning::Tuning;

/// How losses are descended from.
pub(super) struct Descent<'a> {
    pub(super) model: &'a dyn Model,
    pub(super) tuning: &'a Tuning,
    /// The device with and without autodiff.
    pub(super) tracked: &'a Device,
    pub(super) device: &'a Device,
    /// What the first layers, which are frozen, make of the rows.
    pub(super) features: Option<&'a Features>,
    /// Whether what happens within layers is computed again for the gradient instead of being kept.
    pub(super) recompute: bool,
    /// What products are made of, where that is no single floats.
    pub(super) precision: Option<FloatDType>,
    /// What devices count with.
    pub(super) ranges: &'a Rc<Ranges>,
    /// What the loss and its gradients are multiplied with.
    pub(super) scale: f64,
}

impl Descent<'_> {
    fn pass<'b>(&'b self, values: &'b Values, device: &'b Device, dropout: DropoutKey) -> Pass<'b> {
        Pass::training(values, device, dropout).tuned(self.tuning).in_precision(self.precision).counting_with(self.ranges)
    }

    fn scaled(&self, loss: Tensor<1>) -> Tensor<1> {
        if self.scale == 1.0 { loss } else { loss * self.scale }
    }

    /// The part of a step's loss and of its gradients that some examples contribute, both times `scale`.
    pub(super) fn gradients(&self, values: &Values, part: &Part<'_>, dropout: DropoutKey) -> Result<(Tensor<1>, Gradients), TrainerError> {
        let data = profile::phase("data");
        let reading = self.model.reading(part);
        drop(data);
        if self.recompute {
            return self.layer_by_layer(values, part, &reading, dropout);
        }
        let forward = profile::phase("forward");
        let (leaves, aside) = (values.leaves(self.model.parameters()), Aside::default());
        let pass = self.pass(&leaves, self.tracked, dropout).leaving(&aside);
        let (x, first) = match self.features {
            Some(features) => (features.of(part.chosen, self.device).autodiff(), self.tuning.frozen_layers),
            None => {
                let _span = profile::layer(|| "embeddings".to_owned());
                (self.model.begin(&pass, &reading), 0)
            }
        };
        let x = (first..self.model.layers()).fold(x, |x, number| {
            let _span = profile::layer(|| format!("layer {number}"));
            self.model.layer(&pass, number, x, &reading)
        });
        let head = profile::layer(|| "head and loss".to_owned());
        let loss = self.scaled(self.model.finish(&pass, x, &reading, part));
        drop(head);
        drop(forward);
        let _span = profile::phase("backward");
        let gradients = Gradients::of(&loss, &leaves, &aside, self.device)?;
        Ok((loss.inner(), gradients))
    }

    /// The same numbers, with only what layers read kept from the way up: on the way down each layer is computed once more (Chen et al. 2016,
    /// "Training deep nets with sublinear memory cost", with a segment for each layer). Masks of dropout are functions of their sites, so they
    /// are the same again. A layer's part of the chain rule is the gradient of the sum of its outputs times their gradients.
    fn layer_by_layer(
        &self,
        values: &Values,
        part: &Part<'_>,
        reading: &Reading,
        dropout: DropoutKey,
    ) -> Result<(Tensor<1>, Gradients), TrainerError> {
        let _span = profile::phase("forward and backward");
        let (layers, frozen) = (self.model.layers(), self.tuning.frozen_layers);
        let up = self.pass(values, self.device, dropout);
        let (mut x, first) = match self.features {
            Some(features) => (features.of(part.chosen, self.device), frozen),
            None => (self.model.begin(&up, reading), 0),
        };
        let mut read = Vec::with_capacity(layers);
        for number in first..layers {
            if number >= frozen {
                read.push((x.clone(), up.sites()));
            }
            x = self.model.layer(&up, number, x, reading);
        }
        let top = self.segment(values, dropout, up.sites(), &|pass| {
            let leaf = x.clone().autodiff().require_grad();
            (self.scaled(self.model.finish(pass, leaf.clone(), reading, part)), Some(leaf))
        })?;
        drop(x);
        let (loss, mut sum, mut gradient) = (top.output, top.gradients, top.read);
        for number in (frozen..layers).rev() {
            let Some((x, site)) = read.pop() else { break };
            let below = self.segment(values, dropout, site, &|pass| {
                let leaf = x.clone().autodiff().require_grad();
                (weighed(self.model.layer(pass, number, leaf.clone(), reading), &gradient), Some(leaf))
            })?;
            sum = sum.plus(below.gradients, self.device)?;
            gradient = below.read;
        }
        if self.model.parameters().iter().any(|parameter| parameter.depth == Depth::Embeddings && parameter.rate.is_some()) {
            let below = self.segment(values, dropout, 0, &|pass| (weighed(self.model.begin(pass, reading), &gradient), None))?;
            sum = sum.plus(below.gradients, self.device)?;
        }
        Ok((loss, sum))
    }

    /// A part of the model as a graph of its own: what `build` makes of a pass, and the leaf that it read.
    fn segment(
        &self,
        values: &Values,
        dropout: DropoutKey,
        site: u64,
        build: &dyn Fn(&Pass) -> (Tensor<1>, Option<Rows>),
    ) -> Result<Segment, TrainerError> {
        let (leaves, aside) = (values.leaves(self.model.parameters()), Aside::default());
        let pass = self.pass(&leaves, self.tracked, dropout).leaving(&aside).at_site(site);
        let (output, leaf) = build(&pass);
        let (gradients, read) = Gradients::with_read(&output, &leaves, leaf.as_ref(), &aside, self.device)?;
        Ok(Segment { output: output.inner(), gradients, read })
    }
}

/// A part of the model that has been gone down through.
struct Segment {
    output: Tensor<1>,
    gradients: Gradients,
    /// The gradient of what it read.
    read: Option<Rows>,
}

/// The sum of outputs times their gradients: its gradient is the gradient.
fn weighed(output: Rows, gradient: &Option<Rows>) -> Tensor<1> {
    match gradient {
        Some(gradient) => (output * gradient.clone().autodiff()).sum(),
        // Nothing above depends on it.
        None => output.sum() * 0.0,
    }
}
