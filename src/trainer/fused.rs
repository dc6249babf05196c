//! Operations on the CPU in one pass over the numbers, with gradients of their own: what autodiff would take apart into many passes.
//!
//! Burn's autodiff decomposes norms, softmax and attention into primitives and computes the error function number by number; here each is a
//! loop that the compiler turns into vector instructions. Every operation has a counterpart made of tensor operations, which other devices
//! use. Sums run over sixteen fixed lanes and products are fused where it is said so and nowhere else, so that results are the same on every x86
//! processor with AVX2.

mod attention;
mod cross_entropy;
mod curve;
mod dropout;
mod feed_forward;
mod gate;
mod lanes;
mod layer_norm;
mod linear;
mod lookup;
mod pool;
mod products;
mod rms_norm;
mod rotary;
mod steps;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::marker::PhantomData;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};
use burn::tensor::{Bytes, DType, Shape, Tensor};

use super::profile;

pub(super) use attention::{Attention, Sight};
pub(super) use cross_entropy::{CrossEntropy, TableCrossEntropy, row_losses};
pub(super) use curve::Curve;
pub(super) use dropout::{Dropout, Mask, counted};
pub(super) use feed_forward::FeedForward;
pub(super) use gate::{GatedHalves, SwiGlu};
pub(super) use layer_norm::LayerNorm;
pub(super) use linear::{Linear, ResidualLinear, SideBySide};
pub(super) use lookup::{Aside, Entries, Lookup};
pub(super) use pool::Pool;
pub(super) use rms_norm::RmsNorm;
pub(super) use rotary::Rotary;
pub(super) use steps::{AdamW, adamw, sgd, squares};

/// A differentiable function of `N` matrices, computed on slices in row-major order.
pub(super) trait Operation<const N: usize>: Clone + Send + Debug + 'static {
    /// Which inputs the gradient is computed from; the others are empty there, so that their memory is free until then.
    const NEEDS: [bool; N] = [true; N];

    /// What the gradient needs besides the inputs.
    type Kept: Clone + Send + Debug + 'static;

    /// The output; what is kept is of use only when there will be a gradient.
    fn forward(&self, inputs: [&[f32]; N], purpose: Purpose) -> (Vec<f32>, Self::Kept);

    /// The gradients of the inputs (at least of those that are wanted) from the output's.
    fn backward(&self, inputs: [&[f32]; N], kept: Self::Kept, gradient: &[f32], wanted: [bool; N]) -> [Slope; N];
}

/// The gradient of an input.
pub(super) enum Slope {
    /// Not computed, since nobody wants it.
    Unwanted,
    /// That of the output as it is.
    Output,
    /// These numbers.
    New(Vec<f32>),
}

impl Slope {
    fn when(wanted: bool, slope: impl FnOnce() -> Vec<f32>) -> Self {
        if wanted { Self::New(slope()) } else { Self::Unwanted }
    }
}

/// Whether a gradient will be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It will.
    Gradient,
    /// Only the output counts.
    Output,
}

/// `operation` on `inputs`, with an output of `shape`; `None` where the numbers are no single floats in this process's memory: then the
/// caller uses tensor operations.
pub(super) fn apply<const N: usize, O: Operation<N>>(operation: O, inputs: [&Tensor<2>; N], shape: [usize; 2]) -> Option<Tensor<2>> {
    if are_left_out() {
        return None;
    }
    if let Some(plain) = all(inputs, |input| input.clone().try_into_primitive::<Flex>().ok()) {
        let plain = all(plain, contiguous)?;
        let (output, _) = operation.forward(slices(&plain), Purpose::Output);
        return Some(Tensor::from_primitive::<Flex>(matrix(output, shape)));
    }
    // The graph's type says how it is kept: a device that checkpoints has another one.
    if let Some(tracked) = all(inputs, |input| input.clone().try_into_primitive::<Autodiff<Flex, NoCheckpointing>>().ok()) {
        return tracked_output(operation, tracked, shape, PhantomData::<NoCheckpointing>)
            .map(Tensor::from_primitive::<Autodiff<Flex, NoCheckpointing>>);
    }
    let tracked = all(inputs, |input| input.clone().try_into_primitive::<Autodiff<Flex, BalancedCheckpointing>>().ok())?;
    tracked_output(operation, tracked, shape, PhantomData::<BalancedCheckpointing>)
        .map(Tensor::from_primitive::<Autodiff<Flex, BalancedCheckpointing>>)
}

/// Whether this thread does without: tests see what other devices do.
pub(super) fn are_left_out() -> bool {
    #[cfg(test)]
    return LEFT_OUT.get();
    #[cfg(not(test))]
    false
}

#[cfg(test)]
thread_local! {
    static LEFT_OUT: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// What `work` makes of it by tensor operations alone, as on devices whose numbers are not in this process's memory.
#[cfg(test)]
pub(super) fn leaving_out<R>(work: impl FnOnce() -> R) -> R {
    struct BackIn;
    impl Drop for BackIn {
        fn drop(&mut self) {
            LEFT_OUT.set(false);
        }
    }
    LEFT_OUT.set(true);
    let _back_in = BackIn;
    work()
}

type Tracked = FloatTensor<Autodiff<Flex>>;

fn tracked_output<const N: usize, O: Operation<N>, C: CheckpointStrategy>(
    operation: O,
    tracked: [Tracked; N],
    shape: [usize; 2],
    _: PhantomData<C>,
) -> Option<Tracked> {
    let saved = all(tracked.each_ref(), |tensor| contiguous(tensor.primitive().clone()))?;
    // The nodes are taken before their tensors go, so that the graph stays whole while this operation is added to it.
    let nodes = tracked.each_ref().map(|tensor| tensor.node());
    Some(match Node::<O>(PhantomData).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let (output, kept) = operation.forward(slices(&saved), Purpose::Gradient);
            prepared.finish((operation, Saved::of(saved, O::NEEDS), kept, profile::here()), matrix(output, shape))
        }
        OpsKind::UnTracked(prepared) => prepared.finish(matrix(operation.forward(slices(&saved), Purpose::Output).0, shape)),
    })
}

/// An input as the gradient will see it.
#[derive(Debug, Clone)]
struct Saved {
    shape: Shape,
    numbers: Option<FlexTensor>,
}

impl Saved {
    fn of<const N: usize>(inputs: [FlexTensor; N], needs: [bool; N]) -> [Self; N] {
        let mut needs = needs.into_iter();
        inputs.map(|input| Self { shape: input.layout().shape().clone(), numbers: needs.next().unwrap_or(true).then_some(input) })
    }
}

/// The backward step of an operation in burn's graph.
struct Node<O>(PhantomData<fn() -> O>);

impl<O> Debug for Node<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

impl<const N: usize, O: Operation<N>> Backward<Flex, N> for Node<O> {
    type State = (O, [Saved; N], O::Kept, Option<profile::Place>);

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let (operation, inputs, kept, layer) = ops.state;
        let _span = profile::back(layer);
        let gradient = contiguous(gradients.consume::<Flex>(&ops.node)).expect("the gradient of single floats is made of them");
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let slices = inputs.each_ref().map(|input| input.numbers.as_ref().map_or(&[][..], numbers));
        let found = operation.backward(slices, kept, numbers(&gradient), wanted);
        for ((parent, found), input) in ops.parents.into_iter().zip(found).zip(inputs) {
            match (parent, found) {
                (Some(parent), Slope::New(found)) => gradients.register::<Flex>(parent.id, dense(found, input.shape)),
                (Some(parent), Slope::Output) => gradients.register::<Flex>(parent.id, gradient.clone()),
                _ => {}
            }
        }
    }
}

/// What `read` makes of a tensor's numbers, lent without a copy where they lie in row-major order in this process's memory.
pub(super) fn lend<R>(tensor: &Tensor<2>, read: impl FnOnce(&[f32]) -> R) -> Option<R> {
    if are_left_out() {
        return None;
    }
    let plain = contiguous(tensor.clone().try_into_primitive::<Flex>().ok()?)?;
    Some(read(numbers(&plain)))
}

/// A tensor's numbers in row-major order, without a copy where nothing else holds them; `None` where [`lend`] lends nothing.
pub(super) fn numbers_of(tensor: Tensor<2>) -> Option<Vec<f32>> {
    contiguous(tensor.try_into_primitive::<Flex>().ok()?)?.into_data().try_into_vec().ok()
}

/// The tensor that such numbers make.
pub(super) fn tensor_of(numbers: Vec<f32>, shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_primitive::<Flex>(matrix(numbers, shape))
}

fn all<const N: usize, A, B>(items: [A; N], each: impl FnMut(A) -> Option<B>) -> Option<[B; N]> {
    items.into_iter().map(each).collect::<Option<Vec<B>>>()?.try_into().ok()
}

/// The same tensor in row-major order; `None` if its numbers are no single floats.
fn contiguous(tensor: FlexTensor) -> Option<FlexTensor> {
    (tensor.dtype() == DType::F32).then(|| if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() })
}

fn slices<const N: usize>(tensors: &[FlexTensor; N]) -> [&[f32]; N] {
    tensors.each_ref().map(numbers)
}

fn numbers(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("row-major single floats: `contiguous` saw to it")
}

fn matrix(numbers: Vec<f32>, shape: [usize; 2]) -> FlexTensor {
    dense(numbers, shape.into())
}

fn dense(numbers: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::new(Bytes::from_elems(numbers), Layout::contiguous(shape), DType::F32)
}
