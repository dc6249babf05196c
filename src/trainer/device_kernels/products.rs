//! Linear layers: matrix products by the first routine of a list that takes them, not by trying all.
//!
//! Burn tunes products by running some thirty routines for every combination of shapes, each of
//! which has to be compiled first: minutes before the first step of a model on an H100.
#![expect(unused_assignments, reason = "a kernel's variables are declared before branches")]

use burn::backend::fusion::custom::TensorSpec;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Cube, backend_extension};
use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::tensor::{DType, FloatDType, Shape};
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError};
use cubek::matmul::multi_level;
use cubek::matmul::strategy::Strategy;
use cubek::std::InputBinding;

use super::operation::{DeviceOperation, GpuTensor, empty, row_major, unit_per_element};

/// `[rows, input]` times `[input, output]`, or times the transpose of `[output, input]`, in `dtype`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub(crate) dtype: FloatDType,
    /// Whether the right operand is `[output, input]`.
    pub(crate) transposed: bool,
}

impl DeviceOperation<2> for Product {
    /// Both operands in `dtype`, and the dtypes they had.
    type Saved = ([GpuTensor; 2], [DType; 2]);

    fn forward(&self, inputs: [GpuTensor; 2]) -> (GpuTensor, Self::Saved) {
        let dtypes = inputs.each_ref().map(|input| input.dtype);
        let [x, weight] = inputs.map(|input| cast(input, self.dtype));
        let right = if self.transposed { flipped(weight.clone()) } else { weight.clone() };
        let y = Cube::product(x.clone(), right, self.dtype.into());
        (y, ([x, weight], dtypes))
    }

    fn backward(
        &self,
        ([x, weight], dtypes): Self::Saved,
        gradient: GpuTensor,
        needs: [bool; 2],
    ) -> [Option<GpuTensor>; 2] {
        let gradient = cast(gradient, self.dtype);
        let of_x = needs[0].then(|| {
            let right = if self.transposed { weight } else { flipped(weight) };
            Cube::product(gradient.clone(), right, dtypes[0])
        });
        let of_weight = needs[1].then(|| {
            let (left, right) = if self.transposed { (gradient, x) } else { (x, gradient) };
            Cube::product(flipped(left), right, dtypes[1])
        });
        [of_x, of_weight]
    }
}

/// `[rows, width]` plus `[1, width]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddBias;

impl DeviceOperation<2> for AddBias {
    type Saved = ();

    fn forward(&self, [x, bias]: [GpuTensor; 2]) -> (GpuTensor, ()) {
        let bias = Cube::float_cast(bias, float_of(x.dtype));
        (Cube::float_add(x, bias), ())
    }

    fn backward(&self, (): (), gradient: GpuTensor, needs: [bool; 2]) -> [Option<GpuTensor>; 2] {
        let of_bias = needs[1].then(|| Cube::column_sums(gradient.clone()));
        [Some(gradient), of_bias]
    }
}

pub(super) fn cast(x: GpuTensor, dtype: FloatDType) -> GpuTensor {
    if x.dtype == dtype.into() { x } else { Cube::float_cast(x, dtype) }
}

fn float_of(dtype: DType) -> FloatDType {
    match dtype {
        DType::BF16 => FloatDType::BF16,
        DType::F16 => FloatDType::F16,
        _ => FloatDType::F32,
    }
}

fn flipped(x: GpuTensor) -> GpuTensor {
    Cube::float_swap_dims(x, 0, 1)
}

/// The kernels, on raw tensors and deferred.
#[backend_extension(Cube, Fusion)]
pub(crate) trait ProductKernels: Backend {
    /// `[.., m, k]` times `[.., k, n]` of one dtype, added up in f32.
    #[fusion(meta = product_spec)]
    fn product(
        left: FloatTensor<Self>,
        right: FloatTensor<Self>,
        dtype: DType,
    ) -> FloatTensor<Self>;

    /// The sums of the columns of `[rows, width]`, `[1, width]` in f32.
    #[fusion(meta = |x: &TensorSpec| TensorSpec::new(Shape::new([1, x.shape[1]]), DType::F32))]
    fn column_sums(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// `sum [1]` plus the squares of all elements of eight tensors.
    #[fusion(dtype = sum, shape = sum)]
    fn add_squares(
        sum: FloatTensor<Self>,
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        e: FloatTensor<Self>,
        f: FloatTensor<Self>,
        g: FloatTensor<Self>,
        h: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

fn product_spec(left: &TensorSpec, right: &TensorSpec, dtype: &DType) -> TensorSpec {
    let mut shape = left.shape.clone();
    let last = shape.num_dims() - 1;
    shape[last] = right.shape[last];
    TensorSpec::new(shape, *dtype)
}

/// Rows that one cube adds up, at least, and parts at most.
const ROWS_PER_PART: usize = 64;
const MAX_PARTS: usize = 128;

/// Columns of a cube in column sums, and rows that it looks at at a time.
const COLUMNS: u32 = 32;
const ROWS: u32 = 8;

/// Parts of a tensor whose squares are added up at the same time.
const SQUARE_PARTS: u32 = 32;
const SQUARE_UNITS: u32 = 256;

impl ProductKernels for CubeBackend {
    fn product(
        left: FloatTensor<Self>,
        right: FloatTensor<Self>,
        dtype: DType,
    ) -> FloatTensor<Self> {
        let (mut shape, last) = (left.meta.shape().clone(), left.meta.num_dims() - 1);
        shape[last] = right.meta.shape()[last];
        let out = empty(&left, shape, dtype);
        let launched = strategies()
            .into_iter()
            .find_map(|strategy| launch(&strategy, &left, &right, &out).ok());
        launched.expect("the last routine takes every product");
        out
    }

    fn column_sums(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let x = row_major(x);
        let (client, [rows, width]) = (x.client.clone(), x.meta.shape().dims::<2>());
        let parts = rows.div_ceil(ROWS_PER_PART).clamp(1, MAX_PARTS);
        let sums = empty(&x, [parts, width], DType::F32);
        let columns = u32::try_from(width.div_ceil(COLUMNS as usize)).expect("a row's width");
        column_sums_kernel::launch(
            &client,
            CubeCount::Static(columns, u32::try_from(parts).expect("few parts"), 1),
            CubeDim::new_2d(COLUMNS, ROWS),
            x.clone().into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            rows,
            rows.div_ceil(parts),
            width,
            dtype_to_storage_type(x.dtype),
        );
        let out = empty(&x, [1, width], DType::F32);
        let (count, dim) = unit_per_element(width);
        parts_kernel::launch(
            &client,
            count,
            dim,
            sums.into_buffer_arg(),
            out.clone().into_buffer_arg(),
            parts,
            width,
        );
        out
    }

    fn add_squares(
        sum: FloatTensor<Self>,
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        e: FloatTensor<Self>,
        f: FloatTensor<Self>,
        g: FloatTensor<Self>,
        h: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let all = [a, b, c, d, e, f, g, h].map(row_major);
        let client = sum.client.clone();
        let partial = empty(&sum, [8 * SQUARE_PARTS as usize], DType::F32);
        let [a, b, c, d, e, f, g, h] = all.map(|tensor| tensor.into_buffer_arg());
        squares_kernel::launch(
            &client,
            CubeCount::Static(SQUARE_PARTS, 8, 1),
            CubeDim::new_1d(SQUARE_UNITS),
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            partial.clone().into_buffer_arg(),
        );
        let out = empty(&sum, [1], DType::F32);
        total_kernel::launch(
            &client,
            CubeCount::Static(1, 1, 1),
            CubeDim::new_1d(SQUARE_UNITS),
            partial.into_buffer_arg(),
            sum.into_buffer_arg(),
            out.clone().into_buffer_arg(),
        );
        out
    }
}

/// Routines for products, of which the first that takes a product computes it. With tensor cores
/// where the device has them for the dtype: f32 is multiplied in TF32 there.
fn strategies() -> [Strategy; 3] {
    [
        multi_level::Strategy::SimpleCyclicCmma(Default::default()),
        multi_level::Strategy::SimpleUnit(Default::default()),
        multi_level::Strategy::Naive,
    ]
    .map(Strategy::MultiLevel)
}

fn launch(
    strategy: &Strategy,
    left: &CubeTensor,
    right: &CubeTensor,
    out: &CubeTensor,
) -> Result<(), MatmulSetupError> {
    // A routine may change them.
    let mut elements = MatmulElems::from_globals(&MatmulGlobalElems {
        lhs: dtype_to_storage_type(left.dtype),
        rhs: dtype_to_storage_type(right.dtype),
        out: dtype_to_storage_type(out.dtype),
    });
    let [left, right] = [left, right].map(|operand| {
        InputBinding::new(operand.clone().binding(), dtype_to_storage_type(operand.dtype))
    });
    cubek::matmul::launch::launch_ref(
        strategy,
        &out.client,
        left,
        right,
        out.clone().binding(),
        &mut elements,
    )
}

#[cube(launch)]
fn column_sums_kernel<F: Float>(
    x: &[F],
    sums: &mut [f32],
    rows: usize,
    rows_per_part: usize,
    #[comptime] width: usize,
    #[define(F)] _dtype: ElemType,
) {
    let column = CUBE_POS_X as usize * CUBE_DIM_X as usize + UNIT_POS_X as usize;
    let part = CUBE_POS_Y as usize;
    let mut end = (part + 1) * rows_per_part;
    if end > rows {
        end = rows;
    }
    let mut sum = 0.0f32;
    if column < width {
        let mut row = part * rows_per_part + UNIT_POS_Y as usize;
        while row < end {
            sum += f32::cast_from(x[row * width + column]);
            row += CUBE_DIM_Y as usize;
        }
    }
    let size = comptime!((COLUMNS * ROWS) as usize);
    let mut shared = Shared::<[f32]>::new_slice(size);
    shared[(UNIT_POS_Y * CUBE_DIM_X + UNIT_POS_X) as usize] = sum;
    sync_cube();
    if UNIT_POS_Y == 0 && column < width {
        let mut total = 0.0f32;
        let mut other = UNIT_POS_X as usize;
        while other < size {
            total += shared[other];
            other += CUBE_DIM_X as usize;
        }
        sums[part * width + column] = total;
    }
}

#[cube(launch)]
fn parts_kernel(sums: &[f32], out: &mut [f32], parts: usize, #[comptime] width: usize) {
    let column = ABSOLUTE_POS;
    if column >= width {
        terminate!();
    }
    let mut sum = 0.0f32;
    for part in 0..parts {
        sum += sums[part * width + column];
    }
    out[column] = sum;
}

/// The sum of squares of a part of `x`, which all units of a cube share.
#[cube]
fn squares_of(x: &[f32]) -> f32 {
    let mut sum = 0.0f32;
    let mut at = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let stride = (CUBE_COUNT_X * CUBE_DIM_X) as usize;
    while at < x.len() {
        sum += x[at] * x[at];
        at += stride;
    }
    sum
}

/// The sum over the units of a cube, in the first of them.
#[cube]
fn cube_sum(value: f32) -> f32 {
    let units = comptime!(SQUARE_UNITS as usize);
    let mut shared = Shared::<[f32]>::new_slice(units);
    let unit = UNIT_POS_X as usize;
    shared[unit] = value;
    sync_cube();
    let mut half = comptime!(units / 2).runtime();
    while half > 0 {
        if unit < half {
            let other = shared[unit + half];
            shared[unit] += other;
        }
        sync_cube();
        half /= 2;
    }
    shared[0]
}

#[cube(launch)]
fn squares_kernel(
    a: &[f32],
    b: &[f32],
    c: &[f32],
    d: &[f32],
    e: &[f32],
    f: &[f32],
    g: &[f32],
    h: &[f32],
    partial: &mut [f32],
) {
    let mut own = 0.0f32;
    if CUBE_POS_Y == 0 {
        own = squares_of(a);
    } else if CUBE_POS_Y == 1 {
        own = squares_of(b);
    } else if CUBE_POS_Y == 2 {
        own = squares_of(c);
    } else if CUBE_POS_Y == 3 {
        own = squares_of(d);
    } else if CUBE_POS_Y == 4 {
        own = squares_of(e);
    } else if CUBE_POS_Y == 5 {
        own = squares_of(f);
    } else if CUBE_POS_Y == 6 {
        own = squares_of(g);
    } else {
        own = squares_of(h);
    }
    let sum = cube_sum(own);
    if UNIT_POS_X == 0 {
        partial[(CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) as usize] = sum;
    }
}

#[cube(launch)]
fn total_kernel(partial: &[f32], before: &[f32], out: &mut [f32]) {
    let sum = cube_sum(partial[UNIT_POS_X as usize]);
    if UNIT_POS_X == 0 {
        out[0] = sum + before[0];
    }
}
