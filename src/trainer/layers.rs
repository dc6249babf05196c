//! The vocabulary models are written in: linear maps, embeddings, norms, attention, dropout.
//!
//! Layers hold places in the parameter list, not values. A later leading dimension of several trials with equal shapes goes into [`Pass`]
//! and [`Rows`]; models and the training loop do not name it.

mod attention;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData, activation, module};

use super::adapters::Adapters;
use super::dice::key;
use super::fused::{self, Aside, Curve, Mask};
use super::parameters::{Depth, Parameters, Role, Slot, Values, tensor};
use super::tuning::Tuning;
use crate::arguments::Activation;

pub(super) use attention::{Angles, Attention, Cache, Inputs, angles};
pub(super) use fused::Sight;

/// Activations of all tokens of a batch one after another: `[tokens, width]`. Products on flat rows are one large product each.
pub(super) type Rows = Tensor<2>;

/// One forward pass: the values it uses and, in training, its dropout.
pub(super) struct Pass<'a> {
    pub(super) values: &'a Values,
    pub(super) device: &'a Device,
    dropout: Option<DropoutKey>,
    /// Dropout sites met so far: the same model meets the same sites in the same order.
    sites: Cell<u64>,
    /// Where lookups leave the gradients of the entries they took, see [`Pass::leaving`].
    aside: Option<Aside>,
    /// First layers that run without dropout, and whether the pass is within them.
    frozen_layers: usize,
    silent: Cell<bool>,
    adapters: Option<&'a Adapters>,
    /// What products are made of, where that is no single floats.
    precision: Option<FloatDType>,
    ranges: Rc<Ranges>,
}

/// Numbers counted from 0, as devices count rows and columns with: of powers of two, made once for all steps.
#[derive(Default)]
pub(super) struct Ranges(RefCell<BTreeMap<usize, Tensor<1, Int>>>);

impl Ranges {
    /// The numbers below `many`, `[many]`.
    fn below(&self, many: usize, device: &Device) -> Tensor<1, Int> {
        let enough = many.next_power_of_two();
        let range = self.0.borrow_mut().entry(enough).or_insert_with(|| fused::counted(enough, device)).clone();
        if enough == many { range } else { range.narrow(0, 0, many) }
    }
}

/// What the masks of one forward pass are functions of, besides their site.
#[derive(Debug, Clone, Copy)]
pub(super) struct DropoutKey {
    pub(super) seed: u64,
    pub(super) step: u64,
    pub(super) micro_batch: u64,
}

impl<'a> Pass<'a> {
    /// A pass without dropout.
    pub(super) fn inference(values: &'a Values, device: &'a Device) -> Self {
        Self {
            values,
            device,
            dropout: None,
            sites: Cell::new(0),
            aside: None,
            frozen_layers: 0,
            silent: Cell::new(false),
            adapters: None,
            precision: None,
            ranges: Rc::default(),
        }
    }

    /// A pass with dropout; `device` is the one with autodiff.
    pub(super) fn training(values: &'a Values, device: &'a Device, dropout: DropoutKey) -> Self {
        Self { dropout: Some(dropout), ..Self::inference(values, device) }
    }

    /// The same pass of a model that is tuned so: with its adapters, and without dropout in the first layers that are frozen.
    pub(super) fn tuned(self, tuning: &'a Tuning) -> Self {
        Self { frozen_layers: tuning.frozen_layers, adapters: tuning.adapters.as_ref(), ..self }
    }

    /// The same pass, whose products are made of such numbers: as PyTorch's autocast has it, norms, softmax, losses and what layers add to are
    /// single floats, and so are the values.
    pub(super) fn in_precision(self, precision: Option<FloatDType>) -> Self {
        Self { precision, ..self }
    }

    /// The same pass, which counts with these numbers.
    pub(super) fn counting_with(self, ranges: &Rc<Ranges>) -> Self {
        Self { ranges: Rc::clone(ranges), ..self }
    }

    /// An operation with products in it, fused where that is known: with single floats.
    fn fused<const N: usize, O: fused::Operation<N>>(&self, operation: O, inputs: [&Tensor<2>; N], shape: [usize; 2]) -> Option<Tensor<2>> {
        if self.precision.is_some() { None } else { fused::apply(operation, inputs, shape) }
    }

    /// Numbers as products have them.
    fn narrow<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self.precision {
            Some(precision) => x.cast(precision),
            None => x,
        }
    }

    /// The same pass, which meets site number `sites` of dropout next.
    pub(super) fn at_site(self, sites: u64) -> Self {
        self.sites.set(sites);
        self
    }

    /// Sites of dropout met so far.
    pub(super) fn sites(&self) -> u64 {
        self.sites.get()
    }

    /// Says where in the model the pass is from now on.
    pub(super) fn enter(&self, depth: Depth) {
        self.silent.set(self.frozen_layers > 0 && depth < Depth::Layer(self.frozen_layers));
    }

    /// The same pass, whose lookups leave gradients of the entries they took `aside`, by the tables' places in the parameter list, instead of
    /// handing over ones as large as the tables. Only where operations are fused: elsewhere nothing is left.
    pub(super) fn leaving(self, aside: &Aside) -> Self {
        Self { aside: Some(aside.clone()), ..self }
    }

    /// `x` with a share of `rate` of its elements set to 0 and the others scaled up.
    pub(super) fn dropout(&self, x: Rows, rate: f64) -> Rows {
        let Some(mask) = self.mask(rate) else { return x };
        fused::apply(fused::Dropout { width: x.dims()[1], mask }, [&x], x.dims()).unwrap_or_else(|| self.masked(x, mask))
    }

    /// Dropout by tensor operations.
    fn masked<const D: usize>(&self, x: Tensor<D>, mask: Mask) -> Tensor<D> {
        let (shape, columns) = (x.dims(), x.dims()[D - 1]);
        let rows = shape[..D - 1].iter().product();
        let [rows, columns] = [rows, columns].map(|many| self.ranges.below(many, self.device));
        let dropped = mask.dropped(rows, columns);
        // What makes up for those dropped is no short number.
        wide(x).mask_fill(dropped.reshape(shape), 0.0) * mask.kept
    }

    /// What is dropped at the next site of dropout, if there is any.
    fn mask(&self, rate: f64) -> Option<Mask> {
        let dropout = self.dropout.filter(|_| rate > 0.0 && !self.silent.get())?;
        let site = self.sites.replace(self.sites.get() + 1);
        Some(Mask::new(key(dropout.seed, "dropout", &[dropout.step, dropout.micro_batch, site]), rate))
    }
}

/// Numbers as single floats.
fn wide<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    x.cast(FloatDType::F32)
}

/// `y = x W + b`, or `x W`.
pub(super) struct Linear {
    weight: Slot,
    bias: Option<Slot>,
    width: usize,
}

impl Linear {
    pub(super) fn new(parameters: &mut Parameters, name: &str, input: usize, output: usize) -> Self {
        Self::biased(parameters, name, [input, output], Role::Weight, true)
    }

    /// A map `[input, output]` with or without a bias, whose weight starts and is stored as `role` says.
    pub(super) fn biased(parameters: &mut Parameters, name: &str, [input, output]: [usize; 2], role: Role, has_bias: bool) -> Self {
        Self {
            weight: parameters.add(format!("{name}.weight"), [input, output], role),
            bias: has_bias.then(|| parameters.add(format!("{name}.bias"), [1, output], Role::Bias)),
            width: output,
        }
    }

    /// The bias, `[1, output]`; without one, zeros that nothing learns.
    fn bias(&self, pass: &Pass) -> Tensor<2> {
        self.bias.map_or_else(|| Tensor::zeros([1, self.width], pass.device), |bias| pass.values.get(bias))
    }

    /// `[rows, input]` to `[rows, output]`.
    pub(super) fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        wide(self.map(pass, x, None))
    }

    /// The map with a nonlinearity after it.
    pub(super) fn activated(&self, pass: &Pass, x: Rows, kind: Activation) -> Rows {
        self.map(pass, x, Some(curve(kind)))
    }

    /// `residual` plus the map with dropout: the end of a block of a transformer.
    pub(super) fn residual(&self, pass: &Pass, residual: Rows, x: Rows, rate: f64) -> Rows {
        if pass.adapter(self).is_some() {
            return residual + wide(pass.dropout(self.map(pass, x, None), rate));
        }
        let (weight, bias, mask) = (pass.values.get(self.weight), self.bias(pass), pass.mask(rate));
        let operation = fused::ResidualLinear { width: weight.dims()[1], dropout: mask };
        pass.fused(operation, [&residual, &x, &weight, &bias], residual.dims()).unwrap_or_else(|| {
            let mapped = module::linear(pass.narrow(x), pass.narrow(weight), Some(flat(pass.narrow(bias))));
            residual
                + wide(match mask {
                    Some(mask) => pass.masked(mapped, mask),
                    None => mapped,
                })
        })
    }

    /// The map as products leave it.
    fn map(&self, pass: &Pass, x: Rows, curve: Option<Curve>) -> Rows {
        if let Some(adapter) = pass.adapter(self) {
            let mapped = adapter.added(pass, self.plain(pass, x.clone(), None), x);
            return match curve {
                Some(curve) => bent(curve, mapped),
                None => mapped,
            };
        }
        self.plain(pass, x, curve)
    }

    /// The map without its adapter.
    fn plain(&self, pass: &Pass, x: Rows, curve: Option<Curve>) -> Rows {
        let (weight, bias) = (pass.values.get(self.weight), self.bias(pass));
        let ([rows, _], [_, width]) = (x.dims(), weight.dims());
        pass.fused(fused::Linear { width, curve }, [&x, &weight, &bias], [rows, width]).unwrap_or_else(|| {
            let mapped = module::linear(pass.narrow(x), pass.narrow(weight), Some(flat(pass.narrow(bias))));
            match curve {
                Some(curve) => bent(curve, mapped),
                None => mapped,
            }
        })
    }
}

/// The feed-forward part of a layer: `residual` plus, with dropout of `rate`, the second map of the first one's bent numbers of `x`.
pub(super) fn feed_forward(pass: &Pass, [inner, outer]: [&Linear; 2], residual: Rows, x: Rows, kind: Activation, rate: f64) -> Rows {
    if [inner, outer].iter().any(|map| pass.adapter(map).is_some()) {
        return outer.residual(pass, residual, inner.activated(pass, x, kind), rate);
    }
    let [w1, w2] = [inner, outer].map(|map| pass.values.get(map.weight));
    let [b1, b2] = [inner, outer].map(|map| map.bias(pass));
    // The site of dropout is that of `residual`, whichever way is taken.
    let sites = pass.sites.get();
    let operation = fused::FeedForward { inner: inner.width, width: outer.width, curve: curve(kind), dropout: pass.mask(rate) };
    pass.fused(operation, [&residual, &x, &w1, &b1, &w2, &b2], residual.dims()).unwrap_or_else(|| {
        pass.sites.set(sites);
        let bent = inner.activated(pass, x, kind);
        outer.residual(pass, residual, bent, rate)
    })
}

/// Three maps of the same rows side by side, `[rows, the sum of their widths]`: query, key and value.
fn side_by_side(pass: &Pass, maps: [&Linear; 3], x: &Rows) -> Rows {
    let [w1, w2, w3] = maps.map(|map| pass.values.get(map.weight));
    let [b1, b2, b3] = maps.map(|map| map.bias(pass));
    let widths = [&w1, &w2, &w3].map(|weight| weight.dims()[1]);
    let shape = [x.dims()[0], widths.iter().sum()];
    let all = pass
        .fused(fused::SideBySide { widths }, [x, &w1, &w2, &w3, &b1, &b2, &b3], shape)
        .unwrap_or_else(|| Tensor::cat(maps.map(|map| map.plain(pass, x.clone(), None)).to_vec(), 1));
    if maps.iter().all(|map| pass.adapter(map).is_none()) {
        return all;
    }
    let mut first = 0;
    let parts = maps.into_iter().zip(widths).map(|(map, width)| {
        let part = all.clone().narrow(1, first, width);
        first += width;
        match pass.adapter(map) {
            Some(adapter) => adapter.added(pass, part, x.clone()),
            None => part,
        }
    });
    Tensor::cat(parts.collect(), 1)
}

/// A low-rank map beside a linear map, in one pass.
struct Adapter {
    down: Slot,
    up: Slot,
    scale: f64,
    dropout: f64,
}

impl Adapter {
    /// `mapped` and what the adapter makes of `x`, which is added.
    fn added(&self, pass: &Pass, mapped: Rows, x: Rows) -> Rows {
        let (down, up, x) = (pass.values.get(self.down), pass.values.get(self.up), pass.dropout(x, self.dropout));
        let ([rows, _], [_, rank]) = (x.dims(), down.dims());
        let narrow = |x| pass.narrow(x);
        let inner = pass.fused(fused::Linear { width: rank, curve: None }, [&x, &down], [rows, rank]);
        let inner = inner.unwrap_or_else(|| narrow(x).matmul(narrow(down)));
        let (inner, none, shape) = (inner * self.scale, Tensor::zeros([1, up.dims()[1]], pass.device), mapped.dims());
        let operation = fused::ResidualLinear { width: shape[1], dropout: None };
        pass.fused(operation, [&mapped, &inner, &up, &none], shape).unwrap_or_else(|| mapped + inner.matmul(narrow(up)))
    }
}

impl Pass<'_> {
    /// The adapter beside a map, if it has one. Where nothing is learnt, values are merged and adapters mean nothing.
    fn adapter(&self, map: &Linear) -> Option<Adapter> {
        let adapters = self.adapters?;
        let [down, up] = adapters.beside(map.weight)?;
        Some(Adapter { down, up, scale: adapters.scale, dropout: adapters.dropout })
    }
}

/// A vector for each of a number of entries.
pub(super) struct Embedding {
    table: Slot,
    entries: usize,
    width: usize,
}

impl Embedding {
    pub(super) fn new(parameters: &mut Parameters, name: &str, entries: usize, width: usize) -> Self {
        Self { table: parameters.add(format!("{name}.weight"), [entries, width], Role::Table), entries, width }
    }

    /// The vectors themselves, `[entries, width]`.
    pub(super) fn table(&self, pass: &Pass) -> Tensor<2> {
        pass.values.get(self.table)
    }
}

/// Row by row the sum of one vector of each table, `[rows, width]`: those of a token's word and of its place, for example.
pub(super) fn embed<const N: usize>(pass: &Pass, tables: [(&Embedding, Arc<[u32]>); N]) -> Rows {
    let values = tables.each_ref().map(|(embedding, _)| embedding.table(pass));
    let (rows, width) = tables.first().map_or((0, 0), |(embedding, ids)| (ids.len(), embedding.width));
    let aside = pass.aside.clone().map(|aside| (aside, tables.each_ref().map(|(embedding, _)| embedding.table.place())));
    let taken = tables.map(|(embedding, ids)| (embedding.entries, ids));
    fused::apply(fused::Lookup { width, taken: taken.clone(), aside }, values.each_ref(), [rows, width]).unwrap_or_else(|| {
        let looked_up = |(table, (_, taken)): (Tensor<2>, &(usize, Arc<[u32]>))| -> Rows {
            module::embedding(table, ids(taken, pass.device)).reshape([rows, width])
        };
        values.into_iter().zip(&taken).map(looked_up).reduce(|sum, more| sum + more).expect("at least one table")
    })
}

/// Normalises each row to mean 0 and variance 1, then scales and shifts it (Ba, Kiros, Hinton 2016).
pub(super) struct LayerNorm {
    scale: Slot,
    shift: Option<Slot>,
    epsilon: f64,
}

impl LayerNorm {
    /// `epsilon` is added to the variance.
    pub(super) fn new(parameters: &mut Parameters, name: &str, width: usize, epsilon: f64) -> Self {
        Self::biased(parameters, name, width, epsilon, true)
    }

    /// The same with or without a shift.
    pub(super) fn biased(parameters: &mut Parameters, name: &str, width: usize, epsilon: f64, has_shift: bool) -> Self {
        Self {
            epsilon,
            scale: parameters.add(format!("{name}.weight"), [1, width], Role::Scale),
            shift: has_shift.then(|| parameters.add(format!("{name}.bias"), [1, width], Role::Bias)),
        }
    }

    /// `[rows, width]` to the same.
    pub(super) fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        let (scale, shape) = (pass.values.get(self.scale), x.dims());
        // Without a shift, zeros that nothing learns.
        let shift = self.shift.map_or_else(|| Tensor::zeros([1, shape[1]], pass.device), |shift| pass.values.get(shift));
        #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
        let operation = fused::LayerNorm { epsilon: self.epsilon as f32 };
        fused::apply(operation, [&x, &scale, &shift], shape).unwrap_or_else(|| module::layer_norm(x, flat(scale), Some(flat(shift)), self.epsilon))
    }
}

/// Divides each row by the root of its mean square, then scales it (Zhang and Sennrich 2019).
pub(super) struct RmsNorm {
    scale: Slot,
    epsilon: f64,
}

impl RmsNorm {
    /// `epsilon` is added to the mean square.
    pub(super) fn new(parameters: &mut Parameters, name: &str, width: usize, epsilon: f64) -> Self {
        Self { epsilon, scale: parameters.add(format!("{name}.weight"), [1, width], Role::Scale) }
    }

    /// `[rows, width]` to the same.
    pub(super) fn forward(&self, pass: &Pass, x: Rows) -> Rows {
        let (scale, shape) = (pass.values.get(self.scale), x.dims());
        #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
        let operation = fused::RmsNorm { epsilon: self.epsilon as f32 };
        fused::apply(operation, [&x, &scale], shape).unwrap_or_else(|| {
            let root = (x.clone().square().mean_dim(1) + self.epsilon).sqrt();
            x / root * scale
        })
    }
}

/// A feed-forward part in which one map decides how much of another goes on (Shazeer 2020).
pub(super) struct GatedFeed {
    pub(super) gate: Linear,
    pub(super) beside: Linear,
    pub(super) outer: Linear,
    pub(super) activation: Activation,
}

impl GatedFeed {
    /// `residual` plus, with dropout of `rate`, what the part makes of `x [rows, width]`.
    pub(super) fn residual(&self, pass: &Pass, residual: Rows, x: Rows, rate: f64) -> Rows {
        let (gate, beside) = (self.gate.map(pass, x.clone(), None), self.beside.map(pass, x, None));
        let fused = if self.activation == Activation::Silu { fused::apply(fused::SwiGlu, [&gate, &beside], gate.dims()) } else { None };
        let inner = fused.unwrap_or_else(|| bent(curve(self.activation), gate) * beside);
        self.outer.residual(pass, residual, inner, rate)
    }
}

/// The same with one map that makes both, the gate first, and dropout between it and the next (ModernBERT's GeGLU).
pub(super) struct JointFeed {
    pub(super) both: Linear,
    pub(super) outer: Linear,
    pub(super) activation: Activation,
    pub(super) dropout: f64,
}

impl JointFeed {
    /// `residual` plus what the part makes of `x [rows, width]`.
    pub(super) fn residual(&self, pass: &Pass, residual: Rows, x: Rows) -> Rows {
        let (both, curve) = (self.both.map(pass, x, None), curve(self.activation));
        let [rows, columns] = both.dims();
        let half = columns / 2;
        let inner = fused::apply(fused::GatedHalves { curve, columns }, [&both], [rows, half])
            .unwrap_or_else(|| bent(curve, both.clone().narrow(1, 0, half)) * both.narrow(1, half, half));
        self.outer.residual(pass, residual, pass.dropout(inner, self.dropout), 0.0)
    }
}

/// The sum over rows of the cross-entropy of `logits [rows, classes]` with the rows' true classes, times `share`: `[1]`.
pub(super) fn cross_entropy(logits: Tensor<2>, targets: Arc<[u32]>, smoothing: f64, share: f64) -> Tensor<1> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let operation = fused::CrossEntropy { targets: targets.clone(), smoothing: smoothing as f32, share: share as f32 };
    if let Some(loss) = fused::apply(operation, [&logits], [1, 1]) {
        return loss.reshape([1]);
    }
    let (device, [rows, classes]) = (logits.device(), logits.dims());
    let logs = activation::log_softmax(logits, 1);
    let true_ones: Tensor<2> = logs.clone().gather(1, ids(&targets, &device).reshape([rows, 1]));
    #[expect(clippy::cast_precision_loss, reason = "a number of classes")]
    let spread = smoothing / classes as f64;
    (true_ones.sum() * (1.0 - smoothing) + logs.sum() * spread) * -share
}

/// The same where rows of each class weigh `weights`, and `share` is 1 over the weights of all rows together: PyTorch's `CrossEntropyLoss(weight)`.
pub(super) fn weighted_cross_entropy(logits: Tensor<2>, targets: &[u32], weights: &[f32], smoothing: f64, share: f64) -> Tensor<1> {
    let (device, [rows, classes]) = (logits.device(), logits.dims());
    let logs = activation::log_softmax(logits, 1);
    let of_rows: Vec<f32> = targets.iter().map(|target| weights[*target as usize]).collect();
    let true_ones: Tensor<2> = logs.clone().gather(1, ids(targets, &device).reshape([rows, 1])) * tensor(of_rows, [rows, 1], &device);
    let all = logs * tensor(weights.to_vec(), [1, classes], &device);
    #[expect(clippy::cast_precision_loss, reason = "a number of classes")]
    let spread = smoothing / classes as f64;
    (true_ones.sum() * (1.0 - smoothing) + all.sum() * spread) * -share
}

/// The same of logits `x table^T`, of `x [rows, width]` and `table [classes, width]`: they need not lie in memory together.
pub(super) fn table_cross_entropy(pass: &Pass, x: Rows, table: Tensor<2>, targets: Arc<[u32]>, smoothing: f64, share: f64) -> Tensor<1> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding to f32 is meant")]
    let loss = fused::CrossEntropy { targets: targets.clone(), smoothing: smoothing as f32, share: share as f32 };
    let width = x.dims()[1];
    match pass.fused(fused::TableCrossEntropy { loss, width }, [&x, &table], [1, 1]) {
        Some(loss) => loss.reshape([1]),
        None => cross_entropy(wide(pass.narrow(x).matmul(pass.narrow(table).transpose())), targets, smoothing, share),
    }
}

/// Numbers of tokens or places as a tensor `[1, n]`.
pub(super) fn ids(numbers: &[u32], device: &Device) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(numbers.iter().map(|number| number.cast_signed()).collect::<Vec<i32>>(), [1, numbers.len()]), device)
}

/// A nonlinearity, element by element.
fn bent(curve: Curve, x: Rows) -> Rows {
    fused::apply(curve, [&x], x.dims()).unwrap_or_else(|| match curve {
        Curve::Gelu => activation::gelu(x),
        Curve::GeluTanh => activation::gelu_approximate(x),
        Curve::Relu => activation::relu(x),
        Curve::Silu => activation::silu(x),
        Curve::Tanh => activation::tanh(x),
    })
}

/// The hyperbolic tangent, element by element.
pub(super) fn tanh(x: Rows) -> Rows {
    bent(Curve::Tanh, x)
}

/// The Gaussian error linear unit, element by element.
pub(super) fn gelu(x: Rows) -> Rows {
    bent(Curve::Gelu, x)
}

fn curve(kind: Activation) -> Curve {
    match kind {
        Activation::Gelu => Curve::Gelu,
        Activation::GeluNew => Curve::GeluTanh,
        Activation::Relu => Curve::Relu,
        Activation::Silu => Curve::Silu,
    }
}

fn flat(row: Tensor<2>) -> Tensor<1> {
    let [_, width] = row.dims();
    row.reshape([width])
}
