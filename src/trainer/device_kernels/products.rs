//! Linear layers: matrix products by the first routine of a list that takes them, without trials.
//!
//! Burn tunes products by running some thirty routines for every combination of shapes, each of
//! which has to be compiled first: minutes before the first step of a model on an H100.
#![expect(unused_assignments, reason = "a kernel's variables are declared before branches")]

use burn::backend::Cube;
use burn::backend::ops::FloatTensorOps;
use burn::cubecl;
use burn::cubecl::prelude::*;
use burn::cubecl::zspace::metadata::Metadata;
use burn::tensor::{DType, FloatDType};
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError};
use cubek::matmul::multi_level;
use cubek::matmul::strategy::Strategy;
use cubek::std::InputBinding;

use super::operation::{DeviceOperation, empty, row_major, unit_per_element};

/// `[rows, input]` times `[input, output]` or the transpose of `[output, input]`, in `dtype`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product {
    pub(crate) dtype: FloatDType,
    /// Whether the right operand is `[output, input]`.
    pub(crate) transposed: bool,
}

impl DeviceOperation<2> for Product {
    /// Both operands in `dtype`, and the dtypes they had.
    type Saved = ([CubeTensor; 2], [DType; 2]);

    fn forward(&self, inputs: [CubeTensor; 2]) -> (CubeTensor, Self::Saved) {
        let dtypes = inputs.each_ref().map(|input| input.dtype);
        let [x, weight] = inputs.map(|input| cast(input, self.dtype));
        let right = if self.transposed { flipped(weight.clone()) } else { weight.clone() };
        let y = product(x.clone(), right, self.dtype.into());
        (y, ([x, weight], dtypes))
    }

    fn backward(
        &self,
        ([x, weight], dtypes): Self::Saved,
        gradient: CubeTensor,
        needs: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let gradient = cast(gradient, self.dtype);
        let of_x = needs[0].then(|| {
            let right = if self.transposed { weight } else { flipped(weight) };
            product(gradient.clone(), right, dtypes[0])
        });
        let of_weight = needs[1].then(|| {
            let (left, right) = if self.transposed { (gradient, x) } else { (x, gradient) };
            product_over_rows(left, right, dtypes[1])
        });
        [of_x, of_weight]
    }
}

pub(super) fn cast(x: CubeTensor, dtype: FloatDType) -> CubeTensor {
    if x.dtype == dtype.into() { x } else { Cube::float_cast(x, dtype) }
}

fn flipped(x: CubeTensor) -> CubeTensor {
    Cube::float_swap_dims(x, 0, 1)
}

/// Rows that one cube adds up, at least, and parts at most.
const ROWS_PER_PART: usize = 64;
const MAX_PARTS: usize = 128;

/// Columns of a cube in column sums, and rows that it looks at at a time.
const COLUMNS: u32 = 32;
const ROWS: u32 = 8;

/// Parts of a tensor whose squares are added up at the same time, at least and at most, and
/// elements of one that a unit adds up, about.
const FEWEST_SQUARE_PARTS: usize = 32;
const MOST_SQUARE_PARTS: usize = 1024;
const SQUARES_PER_UNIT: usize = 16;
const SQUARE_UNITS: u32 = 256;

/// `[.., m, k]` times `[.., k, n]` of one dtype, added up in f32.
pub(super) fn product(left: CubeTensor, right: CubeTensor, dtype: DType) -> CubeTensor {
    let (mut shape, last) = (left.meta.shape().clone(), left.meta.num_dims() - 1);
    shape[last] = right.meta.shape()[last];
    let out = empty(&left, shape, dtype);
    let launched = strategies(&left, right.meta.shape()[last])
        .into_iter()
        .find_map(|strategy| launch(&strategy, &left, &right, &out).ok());
    launched.expect("the last routine takes every product");
    out
}

/// The transpose of `left [rows, m]` times `right [rows, n]`: the gradient of a weight. The rows
/// are many and the results few, so that they are divided among products of their own.
fn product_over_rows(left: CubeTensor, right: CubeTensor, dtype: DType) -> CubeTensor {
    let ([rows, m], [_, n]) = (left.meta.shape().dims::<2>(), right.meta.shape().dims::<2>());
    let parts = row_parts(rows, m, n);
    if parts == 1 {
        return product(flipped(left), right, dtype);
    }
    let (left, right) = (row_major(left), row_major(right));
    let each = rows / parts;
    let view = |x: &CubeTensor, shape: [usize; 3], strides: [usize; 3]| {
        let meta = Metadata::new(shape, strides);
        CubeTensor::new(x.client.clone(), x.handle.clone(), meta, x.device.clone(), x.dtype)
    };
    let products = product(
        view(&left, [parts, m, each], [each * m, 1, m]),
        view(&right, [parts, each, n], [each * n, n, 1]),
        DType::F32,
    );
    let out = empty(&left, [m, n], dtype);
    let (client, (count, dim)) = (left.client.clone(), unit_per_element(m * n));
    let dtypes = [left.dtype, right.dtype, dtype].map(dtype_to_storage_type);
    add_parts_kernel::launch(
        &client,
        count,
        dim,
        products.into_buffer_arg(),
        left.into_buffer_arg(),
        right.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        parts,
        parts * each,
        rows,
        m,
        n,
        dtypes,
    );
    out
}

/// Into how many parts the rows of such a product are divided.
fn row_parts(rows: usize, m: usize, n: usize) -> usize {
    let cubes = m.div_ceil(TILE) * n.div_ceil(TILE);
    (CUBES / cubes).min(rows / ROWS_PER_PRODUCT).clamp(1, MAX_PRODUCTS)
}

/// What a cube computes of a product, about, and how many cubes keep a large GPU busy.
const TILE: usize = 128;
const CUBES: usize = 256;

/// Rows of a part at least, and parts at most.
const ROWS_PER_PRODUCT: usize = 512;
const MAX_PRODUCTS: usize = 16;

/// The sums of the columns of `[rows, width]`, `[1, width]` in f32.
pub(super) fn column_sums(x: CubeTensor) -> CubeTensor {
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

/// `sum [1]` plus the squares of all elements of eight tensors.
pub(super) fn add_squares(
    sum: CubeTensor,
    a: CubeTensor,
    b: CubeTensor,
    c: CubeTensor,
    d: CubeTensor,
    e: CubeTensor,
    f: CubeTensor,
    g: CubeTensor,
    h: CubeTensor,
) -> CubeTensor {
    let all = [a, b, c, d, e, f, g, h].map(row_major);
    let client = sum.client.clone();
    let elements = all.each_ref().map(|tensor| tensor.meta.num_elements());
    let largest = elements.into_iter().max().unwrap_or(0);
    let parts = largest.div_ceil(SQUARES_PER_UNIT * SQUARE_UNITS as usize);
    let parts = parts.clamp(FEWEST_SQUARE_PARTS, MOST_SQUARE_PARTS);
    let partial = empty(&sum, [8 * parts], DType::F32);
    let [a, b, c, d, e, f, g, h] = all.map(|tensor| tensor.into_buffer_arg());
    squares_kernel::launch(
        &client,
        CubeCount::Static(u32::try_from(parts).expect("few parts"), 8, 1),
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
        elements[0],
        elements[1],
        elements[2],
        elements[3],
        elements[4],
        elements[5],
        elements[6],
        elements[7],
    );
    let out = empty(&sum, [1], DType::F32);
    total_kernel::launch(
        &client,
        CubeCount::Static(1, 1, 1),
        CubeDim::new_1d(SQUARE_UNITS),
        partial.into_buffer_arg(),
        sum.into_buffer_arg(),
        out.clone().into_buffer_arg(),
        8 * parts,
    );
    out
}

/// Routines for products, of which the first that takes a product computes it. For large ones the
/// fastest of eleven on an H100 (`benches/gpu/README.md`), whose kernels take seconds to compile;
/// then one with tensor cores that compiles quickly, then any. Tensor cores multiply f32 in TF32.
fn strategies(left: &CubeTensor, columns: usize) -> Vec<Strategy> {
    use multi_level::Strategy::{
        DoubleAsyncStridedMma, Naive, SimpleAsyncStridedMma, SimpleCyclicCmma, SimpleUnit,
        SpecializedCyclicMma,
    };
    let strides = left.meta.strides();
    let large = match strides.len() {
        _ if left.meta.num_elements() * columns < LARGE => None,
        // Many small products.
        4 => Some(SimpleAsyncStridedMma(Default::default())),
        // Along the rows of both operands.
        rank if strides[rank - 1] != 1 => Some(SpecializedCyclicMma(Default::default())),
        _ => Some(DoubleAsyncStridedMma(Default::default())),
    };
    let any = [SimpleCyclicCmma(Default::default()), SimpleUnit(Default::default()), Naive];
    large.into_iter().chain(any).map(Strategy::MultiLevel).collect()
}

/// Multiplications from which on a product is large: one of 8192 x 384 x 384 has more than four
/// times as many.
const LARGE: usize = 1 << 28;

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

/// The sum of `parts` products, and what the rows from `first` on add.
#[cube(launch)]
fn add_parts_kernel<L: Float, R: Float, O: Float>(
    products: &[f32],
    left: &[L],
    right: &[R],
    out: &mut [O],
    parts: usize,
    first: usize,
    rows: usize,
    #[comptime] m: usize,
    #[comptime] n: usize,
    #[define(L, R, O)] _dtypes: [ElemType; 3],
) {
    if ABSOLUTE_POS >= comptime!(m * n) {
        terminate!();
    }
    let mut sum = 0.0f32;
    for part in 0..parts {
        sum += products[part * comptime!(m * n) + ABSOLUTE_POS];
    }
    let (i, j) = (ABSOLUTE_POS / n, ABSOLUTE_POS % n);
    for row in first..rows {
        sum += f32::cast_from(left[row * m + i]) * f32::cast_from(right[row * n + j]);
    }
    out[ABSOLUTE_POS] = O::cast_from(sum);
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

/// The sum of squares of a part of `x`, which all units of a cube share. The buffer may be longer
/// than its `elements`: a single row is not copied where rows lie apart.
#[cube]
fn squares_of(x: &[f32], elements: usize) -> f32 {
    let mut sum = 0.0f32;
    let mut at = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let stride = (CUBE_COUNT_X * CUBE_DIM_X) as usize;
    while at < elements {
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
    elements_a: usize,
    elements_b: usize,
    elements_c: usize,
    elements_d: usize,
    elements_e: usize,
    elements_f: usize,
    elements_g: usize,
    elements_h: usize,
) {
    let mut own = 0.0f32;
    if CUBE_POS_Y == 0 {
        own = squares_of(a, elements_a);
    } else if CUBE_POS_Y == 1 {
        own = squares_of(b, elements_b);
    } else if CUBE_POS_Y == 2 {
        own = squares_of(c, elements_c);
    } else if CUBE_POS_Y == 3 {
        own = squares_of(d, elements_d);
    } else if CUBE_POS_Y == 4 {
        own = squares_of(e, elements_e);
    } else if CUBE_POS_Y == 5 {
        own = squares_of(f, elements_f);
    } else if CUBE_POS_Y == 6 {
        own = squares_of(g, elements_g);
    } else {
        own = squares_of(h, elements_h);
    }
    let sum = cube_sum(own);
    if UNIT_POS_X == 0 {
        partial[(CUBE_POS_Y * CUBE_COUNT_X + CUBE_POS_X) as usize] = sum;
    }
}

#[cube(launch)]
fn total_kernel(partial: &[f32], before: &[f32], out: &mut [f32], parts: usize) {
    let mut own = 0.0f32;
    let mut at = UNIT_POS_X as usize;
    while at < parts {
        own += partial[at];
        at += comptime!(SQUARE_UNITS as usize);
    }
    let sum = cube_sum(own);
    if UNIT_POS_X == 0 {
        out[0] = sum + before[0];
    }
}
