//! Operations on the CPU in one pass over the numbers, with gradients of their own: what autodiff would take apart into many passes.
//!
//! Burn's autodiff decomposes norms, softmax and attention into primitives and computes the error function number by number; here each is a
//! loop that the compiler turns into vector instructions. Every operation has a counterpart made of tensor operations, which other devices
//! use. Sums run over sixteen fixed lanes and products are never contracted, so that results are the same on every x86 processor.

mod attention;
mod cross_entropy;
mod gelu;
mod lanes;
mod layer_norm;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::marker::PhantomData;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::{FlexTensor, Layout};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};
use burn::tensor::{Bytes, DType, Shape, Tensor};

pub(super) use attention::CausalAttention;
pub(super) use cross_entropy::{CrossEntropy, row_losses};
pub(super) use gelu::Gelu;
pub(super) use layer_norm::LayerNorm;

type Tracked = Autodiff<Flex, NoCheckpointing>;

/// A differentiable function of `N` matrices, computed on slices in row-major order.
pub(super) trait Operation<const N: usize>: Clone + Send + Debug + 'static {
    /// What the gradient needs besides the inputs.
    type Kept: Clone + Send + Debug + 'static;

    /// The output; what is kept is of use only when there will be a gradient.
    fn forward(&self, inputs: [&[f32]; N], purpose: Purpose) -> (Vec<f32>, Self::Kept);

    /// The gradients of the inputs (at least of those that are wanted) from the output's.
    fn backward(&self, inputs: [&[f32]; N], kept: Self::Kept, gradient: &[f32], wanted: [bool; N]) -> [Option<Vec<f32>>; N];
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
    if let Some(plain) = all(inputs, |input| input.clone().try_into_primitive::<Flex>().ok()) {
        let plain = all(plain, contiguous)?;
        let (output, _) = operation.forward(slices(&plain), Purpose::Output);
        return Some(Tensor::from_primitive::<Flex>(matrix(output, shape)));
    }
    let tracked: [FloatTensor<Tracked>; N] = all(inputs, |input| input.clone().try_into_primitive::<Tracked>().ok())?;
    let saved = all(tracked.each_ref(), |tensor| contiguous(tensor.primitive().clone()))?;
    // The nodes are taken before their tensors go, so that the graph stays whole while this operation is added to it.
    let nodes = tracked.each_ref().map(|tensor| tensor.node());
    let output = match Node::<O>(PhantomData).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let (output, kept) = operation.forward(slices(&saved), Purpose::Gradient);
            prepared.finish((operation, saved, kept), matrix(output, shape))
        }
        OpsKind::UnTracked(prepared) => prepared.finish(matrix(operation.forward(slices(&saved), Purpose::Output).0, shape)),
    };
    Some(Tensor::from_primitive::<Tracked>(output))
}

/// The backward step of an operation in burn's graph.
struct Node<O>(PhantomData<fn() -> O>);

impl<O> Debug for Node<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

impl<const N: usize, O: Operation<N>> Backward<Flex, N> for Node<O> {
    type State = (O, [FlexTensor; N], O::Kept);

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let (operation, inputs, kept) = ops.state;
        let gradient = contiguous(gradients.consume::<Flex>(&ops.node)).expect("the gradient of single floats is made of them");
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let shapes = inputs.each_ref().map(|input| input.layout().shape().clone());
        let found = operation.backward(slices(&inputs), kept, numbers(&gradient), wanted);
        for ((parent, found), shape) in ops.parents.into_iter().zip(found).zip(shapes) {
            if let (Some(parent), Some(found)) = (parent, found) {
                gradients.register::<Flex>(parent.id, dense(found, shape));
            }
        }
    }
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
