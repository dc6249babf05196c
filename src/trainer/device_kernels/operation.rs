//! Differentiable operations made of kernels, in burn's autodiff graph, and what launching a kernel
//! needs.

use std::fmt::Debug;
use std::marker::PhantomData;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::{
    BalancedCheckpointing, CheckpointStrategy, NoCheckpointing,
};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Cube};
use burn::cubecl;
use burn::cubecl::client::Client;
use burn::cubecl::prelude::*;
use burn::tensor::{DType, Shape, Tensor};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;

use super::super::fused::is_fusion_disabled;
use super::super::profile;

/// A differentiable function of `N` matrices, computed by kernels.
pub(super) trait DeviceOperation<const N: usize>: Clone + Send + Debug + 'static {
    /// What the backward pass needs.
    type Saved: Clone + Send + Debug + 'static;

    /// The output.
    fn forward(&self, inputs: [CubeTensor; N]) -> (CubeTensor, Self::Saved);

    /// The gradients of the inputs, at least of those that `needs` one, from the output's.
    fn backward(
        &self,
        saved: Self::Saved,
        gradient: CubeTensor,
        needs: [bool; N],
    ) -> [Option<CubeTensor>; N];
}

/// `operation` on `inputs`; `None` where the inputs are not on a GPU that the kernels can use: the
/// caller falls back to tensor operations.
pub(super) fn apply<const N: usize, O: DeviceOperation<N>>(
    operation: O,
    inputs: [&Tensor<2>; N],
) -> Option<Tensor<2>> {
    if is_fusion_disabled() {
        return None;
    }
    if let Some(plain) = try_each(inputs, |input| input.clone().try_into_primitive::<Cube>().ok()) {
        if !plain.iter().all(has_planes) {
            return None;
        }
        return Some(Tensor::from_primitive::<Cube>(operation.forward(plain).0));
    }
    // The checkpointing strategy is part of the graph's type.
    if let Some(tracked) = try_each(inputs, |input| {
        input.clone().try_into_primitive::<Autodiff<Cube, NoCheckpointing>>().ok()
    }) {
        return tracked_output(operation, tracked, PhantomData::<NoCheckpointing>)
            .map(Tensor::from_primitive::<Autodiff<Cube, NoCheckpointing>>);
    }
    let tracked = try_each(inputs, |input| {
        input.clone().try_into_primitive::<Autodiff<Cube, BalancedCheckpointing>>().ok()
    })?;
    tracked_output(operation, tracked, PhantomData::<BalancedCheckpointing>)
        .map(Tensor::from_primitive::<Autodiff<Cube, BalancedCheckpointing>>)
}

/// A tensor without a graph on a GPU that the kernels can use.
pub(super) fn ready(tensor: &Tensor<2>) -> Option<CubeTensor> {
    if is_fusion_disabled() {
        return None;
    }
    tensor.clone().try_into_primitive::<Cube>().ok().filter(has_planes)
}

fn tracked_output<const N: usize, O: DeviceOperation<N>, C: CheckpointStrategy>(
    operation: O,
    tracked: [FloatTensor<Autodiff<Cube>>; N],
    _: PhantomData<C>,
) -> Option<FloatTensor<Autodiff<Cube>>> {
    let plain = tracked.each_ref().map(|tensor| tensor.primitive().clone());
    if !plain.iter().all(has_planes) {
        return None;
    }
    let nodes = tracked.each_ref().map(|tensor| tensor.node());
    Some(match BackwardNode::<O>(PhantomData).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let (output, saved) = operation.forward(plain);
            prepared.finish((operation, saved, profile::current_layer()), output)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(operation.forward(plain).0),
    })
}

/// The operation in burn's autodiff graph.
struct BackwardNode<O>(PhantomData<fn() -> O>);

impl<O> Debug for BackwardNode<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::any::type_name::<O>())
    }
}

impl<const N: usize, O: DeviceOperation<N>> Backward<Cube, N> for BackwardNode<O> {
    type State = (O, O::Saved, Option<profile::LayerId>);

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let (operation, saved, layer) = ops.state;
        let _span = profile::backward(layer);
        let gradient = gradients.consume::<Cube>(&ops.node);
        let needs = ops.parents.each_ref().map(Option::is_some);
        let computed = operation.backward(saved, gradient, needs);
        for (parent, computed) in ops.parents.into_iter().zip(computed) {
            if let (Some(parent), Some(computed)) = (parent, computed) {
                gradients.register::<Cube>(parent.id, computed);
            }
        }
    }
}

fn try_each<const N: usize, A, B>(
    items: [A; N],
    each: impl FnMut(A) -> Option<B>,
) -> Option<[B; N]> {
    items.into_iter().map(each).collect::<Option<Vec<B>>>()?.try_into().ok()
}

/// Whether a tensor's device has planes (warps) of one size, which the kernels add up rows with.
fn has_planes(tensor: &CubeTensor) -> bool {
    plane_of(&tensor.client).is_some()
}

/// The size of the device's planes, if all have the same.
pub(super) fn plane_of(client: &Client) -> Option<u32> {
    let hardware = &client.properties().hardware;
    let (least, most) = (hardware.plane_size_min, hardware.plane_size_max);
    (least == most && most >= 4).then_some(most)
}

/// Rows that a cube (block) of a row kernel has, one to each plane.
const ROWS_PER_CUBE: u32 = 8;

/// One plane for each of `rows` rows.
pub(super) fn plane_per_row(client: &Client, rows: usize) -> (CubeCount, CubeDim) {
    let plane = plane_of(client).expect("`has_planes` was asked");
    (cubes(rows.div_ceil(ROWS_PER_CUBE as usize)), CubeDim::new_2d(plane, ROWS_PER_CUBE))
}

/// One unit (thread) for each of `elements` elements.
pub(super) fn unit_per_element(elements: usize) -> (CubeCount, CubeDim) {
    (cubes(elements.div_ceil(UNITS as usize)), CubeDim::new_1d(UNITS))
}

const UNITS: u32 = 256;

/// At least `count` cubes; kernels read their number from `CUBE_POS`.
pub(super) fn cubes(count: usize) -> CubeCount {
    let count = u32::try_from(count.max(1)).expect("fewer than 2^32 cubes");
    // Vulkan has at most 65,535 in a dimension.
    let x = count.min(32_768);
    CubeCount::Static(x, count.div_ceil(x), 1)
}

/// An uninitialised tensor beside `like`.
pub(super) fn empty(like: &CubeTensor, shape: impl Into<Shape>, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape.into(), dtype)
}

/// A tensor in row-major order, as a kernel reads it.
pub(super) fn row_major(tensor: CubeTensor) -> CubeTensor {
    into_contiguous(tensor)
}

/// One round of the dropout masks' mixer, see `fused::DropoutMask`.
#[cube]
pub(super) fn mix(x: u32) -> u32 {
    let mut x = x ^ (x >> 16u32);
    x *= 0x7FEB_352Du32;
    x ^= x >> 15u32;
    x *= 0x846C_A68Bu32;
    x ^ (x >> 16u32)
}
