//! Fused CPU operations with their own gradients, each a single pass over memory instead of
//! autodiff's many.
//!
//! Burn's autodiff decomposes norms, softmax and attention into primitives and computes the error
//! function element by element; here each is a loop that the compiler vectorises. Every operation
//! has a counterpart made of tensor operations, for other devices. Reductions run over sixteen
//! fixed lanes, and multiplications and additions are fused only where the code says so: results
//! are the same on every x86 CPU with AVX2.

mod activation;
mod attention;
mod cross_entropy;
mod device_dropout;
mod dropout;
mod embedding;
mod feed_forward;
mod glu;
mod layer_norm;
mod linear;
mod matmul;
mod optimiser_kernels;
mod pool;
mod rms_norm;
mod rotary;
mod simd;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::marker::PhantomData;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::{
    BalancedCheckpointing, CheckpointStrategy, NoCheckpointing,
};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};
use burn::tensor::{Bytes, DType, Shape, Tensor};

use super::profile;

pub(super) use activation::ActivationFn;
pub(super) use attention::{Attention, AttentionMask};
pub(super) use cross_entropy::{CrossEntropy, LinearCrossEntropy, cross_entropy_sum};
pub(super) use device_dropout::index_range;
pub(super) use dropout::{Dropout, DropoutMask};
pub(super) use embedding::{EmbeddingSum, SparseGradientSink, SparseRows};
pub(super) use feed_forward::FeedForward;
pub(super) use glu::{PackedGlu, SwiGlu};
pub(super) use layer_norm::LayerNorm;
pub(super) use linear::{Linear, QkvLinear, ResidualLinear};
pub(super) use optimiser_kernels::{AdamWScalars, adamw, sgd, sum_of_squares};
pub(super) use pool::Pool;
pub(super) use rms_norm::RmsNorm;
pub(super) use rotary::RotaryEmbedding;

/// A differentiable function of `N` matrices, computed on row-major slices.
pub(super) trait Operation<const N: usize>: Clone + Send + Debug + 'static {
    /// Which inputs the backward pass reads; the others are freed before it and are empty there.
    const SAVES_INPUT: [bool; N] = [true; N];

    /// What the backward pass needs besides the inputs.
    type Saved: Clone + Send + Debug + 'static;

    /// The output; what is saved may be incomplete where no gradient will be computed.
    fn forward(&self, inputs: [&[f32]; N], grad_mode: GradMode) -> (Vec<f32>, Self::Saved);

    /// The gradients of the inputs, at least of those that need one, from the output's.
    fn backward(&self, pass: BackwardInput<N, Self::Saved>) -> [InputGradient; N];
}

/// The start of an operation's backward pass.
pub(super) struct BackwardInput<'a, const N: usize, S> {
    /// Empty where [`SAVES_INPUT`](Operation::SAVES_INPUT) is false.
    pub(super) inputs: [&'a [f32]; N],
    pub(super) saved: S,
    /// The output's gradient.
    pub(super) gradient: &'a [f32],
    pub(super) needs_grad: [bool; N],
}

/// The gradient of an input.
pub(super) enum InputGradient {
    NotNeeded,
    /// The output's gradient itself.
    SameAsOutput,
    Values(Vec<f32>),
}

impl InputGradient {
    fn if_needed(needs_grad: bool, compute: impl FnOnce() -> Vec<f32>) -> Self {
        if needs_grad { Self::Values(compute()) } else { Self::NotNeeded }
    }
}

/// Whether a backward pass will follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GradMode {
    Enabled,
    Disabled,
}

/// `operation` on `inputs`, with an output of `shape`; `None` where the inputs are not f32 tensors
/// on the CPU: the caller falls back to tensor operations.
pub(super) fn apply<const N: usize, O: Operation<N>>(
    operation: O,
    inputs: [&Tensor<2>; N],
    shape: [usize; 2],
) -> Option<Tensor<2>> {
    if is_fusion_disabled() {
        return None;
    }
    if let Some(plain) = try_each(inputs, |input| input.clone().try_into_primitive::<Flex>().ok()) {
        let plain = try_each(plain, contiguous)?;
        let (output, _) = operation.forward(f32_slices(&plain), GradMode::Disabled);
        return Some(Tensor::from_primitive::<Flex>(tensor(output, shape)));
    }
    // The checkpointing strategy is part of the graph's type.
    if let Some(tracked) = try_each(inputs, |input| {
        input.clone().try_into_primitive::<Autodiff<Flex, NoCheckpointing>>().ok()
    }) {
        return tracked_output(operation, tracked, shape, PhantomData::<NoCheckpointing>)
            .map(Tensor::from_primitive::<Autodiff<Flex, NoCheckpointing>>);
    }
    let tracked = try_each(inputs, |input| {
        input.clone().try_into_primitive::<Autodiff<Flex, BalancedCheckpointing>>().ok()
    })?;
    tracked_output(operation, tracked, shape, PhantomData::<BalancedCheckpointing>)
        .map(Tensor::from_primitive::<Autodiff<Flex, BalancedCheckpointing>>)
}

/// Whether fused operations are disabled on this thread, so that tests can run the tensor
/// operations of other devices.
pub(super) fn is_fusion_disabled() -> bool {
    #[cfg(test)]
    return FUSION_DISABLED.get();
    #[cfg(not(test))]
    false
}

#[cfg(test)]
thread_local! {
    static FUSION_DISABLED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs `work` with tensor operations alone, as on other devices.
#[cfg(test)]
pub(super) fn without_fusion<R>(work: impl FnOnce() -> R) -> R {
    struct Reenable;
    impl Drop for Reenable {
        fn drop(&mut self) {
            FUSION_DISABLED.set(false);
        }
    }
    FUSION_DISABLED.set(true);
    let _reenable = Reenable;
    work()
}

type Tracked = FloatTensor<Autodiff<Flex>>;

fn tracked_output<const N: usize, O: Operation<N>, C: CheckpointStrategy>(
    operation: O,
    tracked: [Tracked; N],
    shape: [usize; 2],
    _: PhantomData<C>,
) -> Option<Tracked> {
    let row_major_inputs =
        try_each(tracked.each_ref(), |tensor| contiguous(tensor.primitive().clone()))?;
    // The nodes are taken before their tensors are dropped, so that the graph stays whole while
    // this operation is added to it.
    let nodes = tracked.each_ref().map(|tensor| tensor.node());
    Some(match BackwardNode::<O>(PhantomData).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let (output, saved) =
                operation.forward(f32_slices(&row_major_inputs), GradMode::Enabled);
            prepared.finish(
                (
                    operation,
                    SavedInput::of(row_major_inputs, O::SAVES_INPUT),
                    saved,
                    profile::current_layer(),
                ),
                tensor(output, shape),
            )
        }
        OpsKind::UnTracked(prepared) => prepared.finish(tensor(
            operation.forward(f32_slices(&row_major_inputs), GradMode::Disabled).0,
            shape,
        )),
    })
}

/// An input as the backward pass sees it.
#[derive(Debug, Clone)]
struct SavedInput {
    shape: Shape,
    values: Option<FlexTensor>,
}

impl SavedInput {
    fn of<const N: usize>(inputs: [FlexTensor; N], saves: [bool; N]) -> [Self; N] {
        let mut saves = saves.into_iter();
        inputs.map(|input| Self {
            shape: input.layout().shape().clone(),
            values: saves.next().unwrap_or(true).then_some(input),
        })
    }
}

/// The operation in burn's autodiff graph.
struct BackwardNode<O>(PhantomData<fn() -> O>);

impl<O> Debug for BackwardNode<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

impl<const N: usize, O: Operation<N>> Backward<Flex, N> for BackwardNode<O> {
    type State = (O, [SavedInput; N], O::Saved, Option<profile::LayerId>);

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let (operation, inputs, saved, layer) = ops.state;
        let _span = profile::backward(layer);
        let gradient = contiguous(gradients.consume::<Flex>(&ops.node))
            .expect("the gradient of an f32 tensor is f32");
        let needs_grad = ops.parents.each_ref().map(Option::is_some);
        let computed = operation.backward(BackwardInput {
            inputs: inputs.each_ref().map(|input| input.values.as_ref().map_or(&[][..], f32_slice)),
            saved,
            gradient: f32_slice(&gradient),
            needs_grad,
        });
        for ((parent, computed), input) in ops.parents.into_iter().zip(computed).zip(inputs) {
            match (parent, computed) {
                (Some(parent), InputGradient::Values(computed)) => {
                    gradients.register::<Flex>(parent.id, tensor(computed, input.shape))
                }
                (Some(parent), InputGradient::SameAsOutput) => {
                    gradients.register::<Flex>(parent.id, gradient.clone())
                }
                _ => {}
            }
        }
    }
}

/// Calls `read` with a tensor's values in row-major order, without a copy where they are contiguous
/// f32 on the CPU; `None` on other devices.
pub(super) fn with_f32_slice<R>(tensor: &Tensor<2>, read: impl FnOnce(&[f32]) -> R) -> Option<R> {
    if is_fusion_disabled() {
        return None;
    }
    let plain = contiguous(tensor.clone().try_into_primitive::<Flex>().ok()?)?;
    Some(read(f32_slice(&plain)))
}

/// A tensor's values in row-major order, without a copy where nothing else holds them; `None` on
/// other devices.
pub(super) fn into_f32_vec(tensor: Tensor<2>) -> Option<Vec<f32>> {
    contiguous(tensor.try_into_primitive::<Flex>().ok()?)?.into_data().try_into_vec().ok()
}

pub(super) fn tensor_from_vec(values: Vec<f32>, shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_primitive::<Flex>(tensor(values, shape))
}

fn try_each<const N: usize, A, B>(
    items: [A; N],
    each: impl FnMut(A) -> Option<B>,
) -> Option<[B; N]> {
    items.into_iter().map(each).collect::<Option<Vec<B>>>()?.try_into().ok()
}

/// The same tensor in row-major order; `None` if it is not f32.
fn contiguous(tensor: FlexTensor) -> Option<FlexTensor> {
    (tensor.dtype() == DType::F32)
        .then(|| if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() })
}

fn f32_slices<const N: usize>(tensors: &[FlexTensor; N]) -> [&[f32]; N] {
    tensors.each_ref().map(f32_slice)
}

fn f32_slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("`contiguous` returns row-major f32 tensors")
}

fn tensor(values: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape.into()), DType::F32)
}
