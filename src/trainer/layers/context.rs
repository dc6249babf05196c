//! The context of one forward pass: parameter values, device, dropout, adapters and the dtype that
//! products are computed in.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use burn::tensor::{Device, FloatDType, Int, Tensor};

use super::super::adapters::LoraAdapters;
use super::super::device_kernels;
use super::super::fused::{self, DropoutMask, SparseGradientSink};
use super::super::parameters::{Depth, ParameterId, Values};
use super::super::rng::key;
use super::{HiddenStates, Linear, LoraAdapter};

/// One forward pass, in training or in evaluation.
pub(in super::super) struct ForwardContext<'a> {
    pub(in super::super) values: &'a Values,
    pub(in super::super) device: &'a Device,
    dropout: Option<DropoutKey>,
    /// Dropout sites so far: the same model visits the same sites in the same order.
    dropout_sites: Cell<u64>,
    /// See [`ForwardContext::with_sparse_gradients`].
    pub(super) sparse_gradients: Option<SparseGradientSink>,
    /// Leading layers that run without dropout, and whether the pass is inside them.
    frozen_layers: usize,
    dropout_off: Cell<bool>,
    adapters: Option<&'a LoraAdapters>,
    /// `None`: f32.
    compute_dtype: Option<FloatDType>,
    ranges: Rc<IndexRanges>,
}

/// Index ranges `0..n` on the device, for power-of-two `n`, created once for all steps.
#[derive(Default)]
pub(in super::super) struct IndexRanges(RefCell<BTreeMap<usize, Tensor<1, Int>>>);

impl IndexRanges {
    /// `0..count`, `[count]`.
    fn get(&self, count: usize, device: &Device) -> Tensor<1, Int> {
        let capacity = count.next_power_of_two();
        let range = self
            .0
            .borrow_mut()
            .entry(capacity)
            .or_insert_with(|| fused::index_range(capacity, device))
            .clone();
        if capacity == count { range } else { range.narrow(0, 0, count) }
    }
}

/// What the dropout masks of one forward pass are functions of, besides their site.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct DropoutKey {
    pub(in super::super) seed: u64,
    pub(in super::super) step: u64,
    pub(in super::super) micro_batch: u64,
}

impl<'a> ForwardContext<'a> {
    /// Without dropout.
    pub(in super::super) fn evaluation(values: &'a Values, device: &'a Device) -> Self {
        Self {
            values,
            device,
            dropout: None,
            dropout_sites: Cell::new(0),
            sparse_gradients: None,
            frozen_layers: 0,
            dropout_off: Cell::new(false),
            adapters: None,
            compute_dtype: None,
            ranges: Rc::default(),
        }
    }

    /// With dropout; `device` is the one with autodiff.
    pub(in super::super) fn training(
        values: &'a Values,
        device: &'a Device,
        dropout: DropoutKey,
    ) -> Self {
        Self { dropout: Some(dropout), ..Self::evaluation(values, device) }
    }

    /// With adapters, and without dropout in the leading frozen layers.
    pub(in super::super) fn with_tuning(
        self,
        frozen_layers: usize,
        adapters: Option<&'a LoraAdapters>,
    ) -> Self {
        Self { frozen_layers, adapters, ..self }
    }

    /// Computes products in this dtype. As in PyTorch's autocast, norms, softmax, losses, the
    /// residual stream and the parameter values stay f32.
    pub(in super::super) fn with_compute_dtype(self, compute_dtype: Option<FloatDType>) -> Self {
        Self { compute_dtype, ..self }
    }

    /// Takes index ranges from a cache shared by all steps.
    pub(in super::super) fn with_index_ranges(self, ranges: &Rc<IndexRanges>) -> Self {
        Self { ranges: Rc::clone(ranges), ..self }
    }

    /// Lets embedding lookups put sparse gradients into `sink`, keyed by the tables' parameter
    /// indices, instead of returning gradients as large as the tables. Takes effect only where
    /// operations are fused.
    pub(in super::super) fn with_sparse_gradients(self, sink: &SparseGradientSink) -> Self {
        Self { sparse_gradients: Some(sink.clone()), ..self }
    }

    /// Continues at this dropout site.
    pub(in super::super) fn at_dropout_site(self, site: u64) -> Self {
        self.dropout_sites.set(site);
        self
    }

    /// Dropout sites so far.
    pub(in super::super) fn dropout_sites(&self) -> u64 {
        self.dropout_sites.get()
    }

    /// Rewinds to an earlier dropout site.
    pub(super) fn rewind_dropout(&self, site: u64) {
        self.dropout_sites.set(site);
    }

    /// Tells the context which part of the model runs next.
    pub(in super::super) fn enter(&self, depth: Depth) {
        self.dropout_off.set(self.frozen_layers > 0 && depth < Depth::Layer(self.frozen_layers));
    }

    /// The fused implementation of an operation that contains products; `None` where they are not
    /// computed in f32.
    pub(super) fn fused<const N: usize, O: fused::Operation<N>>(
        &self,
        operation: O,
        inputs: [&Tensor<2>; N],
        shape: [usize; 2],
    ) -> Option<Tensor<2>> {
        if self.compute_dtype.is_some() { None } else { fused::apply(operation, inputs, shape) }
    }

    /// The dtype that products are computed in.
    pub(super) fn compute_dtype(&self) -> FloatDType {
        self.compute_dtype.unwrap_or(FloatDType::F32)
    }

    /// `x` in the dtype that products are computed in.
    pub(super) fn to_compute_dtype<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self.compute_dtype {
            Some(compute_dtype) => x.cast(compute_dtype),
            None => x,
        }
    }

    /// The value of an optional bias, `[1, width]`; zeros that receive no gradient where there is
    /// none.
    pub(super) fn bias(&self, bias: Option<ParameterId>, width: usize) -> Tensor<2> {
        bias.map_or_else(|| Tensor::zeros([1, width], self.device), |bias| self.values.get(bias))
    }

    /// The adapter of a linear layer, if it has one. Outside training, adapters are merged into the
    /// values.
    pub(super) fn adapter(&self, linear: &Linear) -> Option<LoraAdapter> {
        let adapters = self.adapters?;
        let [a, b] = adapters.of(linear.weight)?;
        Some(LoraAdapter { a, b, scale: adapters.scale, dropout: adapters.dropout })
    }

    /// Dropout at the next site.
    pub(in super::super) fn dropout(&self, x: HiddenStates, rate: f64) -> HiddenStates {
        let Some(mask) = self.next_mask(rate) else { return x };
        fused::apply(fused::Dropout { width: x.dims()[1], mask }, [&x], x.dims())
            .or_else(|| device_kernels::dropout(&x, mask))
            .unwrap_or_else(|| self.apply_mask(x, mask))
    }

    /// Dropout by tensor operations; the result is f32.
    pub(super) fn apply_mask<const D: usize>(&self, x: Tensor<D>, mask: DropoutMask) -> Tensor<D> {
        let (shape, columns) = (x.dims(), x.dims()[D - 1]);
        let rows = shape[..D - 1].iter().product();
        let [rows, columns] = [rows, columns].map(|count| self.ranges.get(count, self.device));
        let dropped = mask.dropped(rows, columns);
        // The scale 1 / (1 - rate) would be rounded in 16 bits.
        to_f32(x).mask_fill(dropped.reshape(shape), 0.0) * mask.scale
    }

    /// The mask of the next dropout site, if anything is dropped there.
    pub(super) fn next_mask(&self, rate: f64) -> Option<DropoutMask> {
        let dropout = self.dropout.filter(|_| rate > 0.0 && !self.dropout_off.get())?;
        let site = self.dropout_sites.replace(self.dropout_sites.get() + 1);
        Some(DropoutMask::new(
            key(dropout.seed, "dropout", &[dropout.step, dropout.micro_batch, site]),
            rate,
        ))
    }
}

/// `x` in f32.
pub(in super::super) fn to_f32<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.cast(FloatDType::F32)
}
