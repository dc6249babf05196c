//! Cross-entropy of rows of logits with target classes: the logits are read once forward, and once
//! backward.

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::tensor::{DType, Device};
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;

use super::operation::{DeviceOperation, cubes, empty, plane_of, row_major};
use super::products::column_sums;

/// The sum over rows of the cross-entropy of `[rows, classes]`, of any dtype, with the targets,
/// times `scale`: `[1, 1]` in f32.
#[derive(Debug, Clone)]
pub(crate) struct CrossEntropy {
    /// The target class of each row, `[rows]`.
    targets: CubeTensor,
    /// The share of the target's probability that is spread over all classes.
    smoothing: f32,
    scale: f32,
}

impl CrossEntropy {
    /// `None` where `device` is no GPU.
    pub(super) fn new(
        targets: &[u32],
        smoothing: f32,
        scale: f32,
        device: &Device,
    ) -> Option<Self> {
        Some(Self { targets: super::ints(targets, device)?, smoothing, scale })
    }
}

impl DeviceOperation<1> for CrossEntropy {
    /// The logits, and the logarithm of the sum of exponentials of each row.
    type Saved = [CubeTensor; 2];

    fn forward(&self, [logits]: [CubeTensor; 1]) -> (CubeTensor, Self::Saved) {
        let (losses, normalisers) =
            cross_entropy_forward(logits.clone(), self.targets.clone(), self.smoothing);
        let sum = Cube::float_mul_scalar(column_sums(losses), self.scale.into());
        (sum, [logits, normalisers])
    }

    fn backward(
        &self,
        [logits, normalisers]: Self::Saved,
        gradient: CubeTensor,
        _: [bool; 1],
    ) -> [Option<CubeTensor>; 1] {
        [Some(cross_entropy_backward(
            logits,
            normalisers,
            self.targets.clone(),
            gradient,
            self.smoothing,
            self.scale,
        ))]
    }
}

/// Classes from which on several planes share a row.
const WIDE: usize = 1024;

/// Planes of a wide row.
const PLANES: u32 = 8;

fn planes(classes: usize) -> u32 {
    if classes >= WIDE { PLANES } else { 1 }
}

pub(super) fn cross_entropy_forward(
    logits: CubeTensor,
    targets: CubeTensor,
    smoothing: f32,
) -> (CubeTensor, CubeTensor) {
    let (logits, targets) = (row_major(logits), row_major(targets));
    let (client, [rows, classes]) = (logits.client.clone(), logits.meta.shape().dims::<2>());
    let (losses, normalisers) =
        (empty(&logits, [rows, 1], DType::F32), empty(&logits, [rows, 1], DType::F32));
    let dtypes = [logits.dtype, targets.dtype].map(dtype_to_storage_type);
    forward_kernel::launch(
        &client,
        cubes(rows),
        CubeDim::new_2d(plane_of(&client).expect("asked before"), planes(classes)),
        logits.into_buffer_arg(),
        targets.into_buffer_arg(),
        losses.clone().into_buffer_arg(),
        normalisers.clone().into_buffer_arg(),
        rows,
        classes,
        smoothing,
        planes(classes),
        smoothing > 0.0,
        dtypes,
    );
    (losses, normalisers)
}

pub(super) fn cross_entropy_backward(
    logits: CubeTensor,
    normalisers: CubeTensor,
    targets: CubeTensor,
    gradient: CubeTensor,
    smoothing: f32,
    scale: f32,
) -> CubeTensor {
    let (logits, targets, gradient) = (row_major(logits), row_major(targets), row_major(gradient));
    let (client, [rows, classes]) = (logits.client.clone(), logits.meta.shape().dims::<2>());
    let of_logits = empty(&logits, [rows, classes], logits.dtype);
    let dtypes = [logits.dtype, targets.dtype, gradient.dtype].map(dtype_to_storage_type);
    backward_kernel::launch(
        &client,
        cubes(rows),
        CubeDim::new_1d(if classes >= WIDE { 256 } else { 64 }),
        logits.into_buffer_arg(),
        normalisers.into_buffer_arg(),
        targets.into_buffer_arg(),
        gradient.into_buffer_arg(),
        of_logits.clone().into_buffer_arg(),
        rows,
        classes,
        smoothing,
        scale,
        dtypes,
    );
    of_logits
}

/// A cube a row.
#[cube(launch)]
fn forward_kernel<F: Float, I: Numeric>(
    logits: &[F],
    targets: &[I],
    losses: &mut [f32],
    normalisers: &mut [f32],
    rows: usize,
    classes: usize,
    smoothing: f32,
    #[comptime] planes: u32,
    #[comptime] smooths: bool,
    #[define(F, I)] _dtypes: [ElemType; 2],
) {
    let row = CUBE_POS as usize;
    if row >= rows {
        terminate!();
    }
    let first = row * classes;
    let unit = (UNIT_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize;
    let units = (CUBE_DIM_X * CUBE_DIM_Y) as usize;
    // Of the classes so far: the largest logit, and the sum of exponentials relative to it.
    let mut most = f32::new(-3.0e38f32);
    let mut sum = 0.0f32;
    let mut total = 0.0f32;
    let mut class = unit;
    while class < classes {
        let logit = f32::cast_from(logits[first + class]);
        if logit > most {
            sum *= (most - logit).exp();
            most = logit;
        }
        sum += (logit - most).exp();
        if smooths {
            total += logit;
        }
        class += units;
    }
    let mut plane_most = plane_max(most);
    sum = plane_sum(sum * (most - plane_most).exp());
    if smooths {
        total = plane_sum(total);
    }
    if comptime!(planes > 1) {
        let mut shared = Shared::<[f32]>::new_slice(comptime!(3 * planes as usize));
        let count = comptime!(planes as usize);
        if UNIT_POS_X == 0 {
            let plane = UNIT_POS_Y as usize;
            shared[plane] = plane_most;
            shared[count + plane] = sum;
            shared[2 * count + plane] = total;
        }
        sync_cube();
        let mut all_most = shared[0];
        for plane in 1..count {
            all_most = max(all_most, shared[plane]);
        }
        let mut all_sum = 0.0f32;
        let mut all_total = 0.0f32;
        for plane in 0..count {
            all_sum += shared[count + plane] * (shared[plane] - all_most).exp();
            all_total += shared[2 * count + plane];
        }
        plane_most = all_most;
        sum = all_sum;
        total = all_total;
    }
    if unit == 0 {
        let normaliser = plane_most + sum.ln();
        let own = f32::cast_from(logits[first + usize::cast_from(targets[row])]);
        let mut loss = normaliser - own;
        if smooths {
            loss = normaliser
                - (1.0f32 - smoothing) * own
                - smoothing / f32::cast_from(classes) * total;
        }
        normalisers[row] = normaliser;
        losses[row] = loss;
    }
}

/// A cube a row.
#[cube(launch)]
fn backward_kernel<F: Float, I: Numeric, G: Float>(
    logits: &[F],
    normalisers: &[f32],
    targets: &[I],
    gradient: &[G],
    of_logits: &mut [F],
    rows: usize,
    classes: usize,
    smoothing: f32,
    scale: f32,
    #[define(F, I, G)] _dtypes: [ElemType; 3],
) {
    let row = CUBE_POS as usize;
    if row >= rows {
        terminate!();
    }
    let first = row * classes;
    let factor = f32::cast_from(gradient[0]) * scale;
    let normaliser = normalisers[row];
    let target = usize::cast_from(targets[row]);
    let spread = smoothing / f32::cast_from(classes);
    let mut class = UNIT_POS as usize;
    while class < classes {
        let logit = f32::cast_from(logits[first + class]);
        let mut off = (logit - normaliser).exp() - spread;
        if class == target {
            off -= 1.0f32 - smoothing;
        }
        of_logits[first + class] = F::cast_from(off * factor);
        class += CUBE_DIM as usize;
    }
}
