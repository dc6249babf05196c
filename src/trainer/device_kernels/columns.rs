//! Three matrices side by side: queries', keys' and values' weights as one, in one pass.

use burn::cubecl;
use burn::cubecl::prelude::*;
use burn_backend::cubecl::dtype_to_storage_type;
use burn_cubecl::tensor::CubeTensor;

use super::operation::{DeviceOperation, empty, row_major, unit_per_element};

/// `[rows, a]`, `[rows, b]` and `[rows, c]`, of one dtype, to `[rows, a + b + c]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Concatenation {
    pub(crate) widths: [usize; 3],
}

impl DeviceOperation<3> for Concatenation {
    type Saved = ();

    fn forward(&self, inputs: [CubeTensor; 3]) -> (CubeTensor, ()) {
        (join_columns(inputs, self.widths), ())
    }

    fn backward(&self, (): (), gradient: CubeTensor, _: [bool; 3]) -> [Option<CubeTensor>; 3] {
        split_columns(gradient, self.widths).map(Some)
    }
}

fn join_columns(inputs: [CubeTensor; 3], widths: [usize; 3]) -> CubeTensor {
    let inputs = inputs.map(row_major);
    let (client, dtype) = (inputs[0].client.clone(), inputs[0].dtype);
    let [rows, _] = inputs[0].meta.shape().dims::<2>();
    let all = widths.iter().sum::<usize>();
    let out = empty(&inputs[0], [rows, all], dtype);
    let (count, dim) = unit_per_element(rows * all);
    let [a, b, c] = inputs.map(|input| input.into_buffer_arg());
    join_columns_kernel::launch(
        &client,
        count,
        dim,
        a,
        b,
        c,
        out.clone().into_buffer_arg(),
        rows * all,
        widths[0],
        widths[1],
        widths[2],
        dtype_to_storage_type(dtype),
    );
    out
}

fn split_columns(x: CubeTensor, widths: [usize; 3]) -> [CubeTensor; 3] {
    let x = row_major(x);
    let (client, dtype) = (x.client.clone(), x.dtype);
    let [rows, all] = x.meta.shape().dims::<2>();
    let out = widths.map(|width| empty(&x, [rows, width], dtype));
    let (count, dim) = unit_per_element(rows * all);
    let [a, b, c] = out.clone().map(|part| part.into_buffer_arg());
    split_columns_kernel::launch(
        &client,
        count,
        dim,
        x.into_buffer_arg(),
        a,
        b,
        c,
        rows * all,
        widths[0],
        widths[1],
        widths[2],
        dtype_to_storage_type(dtype),
    );
    out
}

#[cube(launch)]
fn join_columns_kernel<F: Float>(
    first: &[F],
    second: &[F],
    third: &[F],
    out: &mut [F],
    elements: usize,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[define(F)] _dtype: ElemType,
) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let row = ABSOLUTE_POS / comptime!(a + b + c);
    let column = ABSOLUTE_POS % comptime!(a + b + c);
    if column < a {
        out[ABSOLUTE_POS] = first[row * a + column];
    } else if column < comptime!(a + b) {
        out[ABSOLUTE_POS] = second[row * b + column - a];
    } else {
        out[ABSOLUTE_POS] = third[row * c + column - comptime!(a + b)];
    }
}

#[cube(launch)]
fn split_columns_kernel<F: Float>(
    x: &[F],
    first: &mut [F],
    second: &mut [F],
    third: &mut [F],
    elements: usize,
    #[comptime] a: usize,
    #[comptime] b: usize,
    #[comptime] c: usize,
    #[define(F)] _dtype: ElemType,
) {
    if ABSOLUTE_POS >= elements {
        terminate!();
    }
    let row = ABSOLUTE_POS / comptime!(a + b + c);
    let column = ABSOLUTE_POS % comptime!(a + b + c);
    if column < a {
        first[row * a + column] = x[ABSOLUTE_POS];
    } else if column < comptime!(a + b) {
        second[row * b + column - a] = x[ABSOLUTE_POS];
    } else {
        third[row * c + column - comptime!(a + b)] = x[ABSOLUTE_POS];
    }
}
